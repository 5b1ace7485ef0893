//! The described devices of `examples/described`, in place of the system's library.

use super::Cards;
use super::fabric::{Processes, open};
use libloading::os::unix::Library;
use std::ffi::{CString, c_char};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use weft_api::kit;
use weft_api::verbs::DeviceAddress;
use weft_rdma::Rdma;
use weft_verbs::{Choice, Link, OwnGid, Partition, Verbs, use_library, use_manager};

type Count = unsafe extern "C" fn(*const c_char, *const c_char) -> u64;

/// Where cargo puts the library: beside the folder of this program.
fn file() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let file = own.parent().unwrap().with_file_name("examples").join("libdescribed.so");
    assert!(
        file.exists(),
        "no {}: cargo test -p weft-verbs builds it, or --example described",
        file.display()
    );
    file
}

fn counts() -> Count {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        assert!(use_library(&file()), "before anything is asked of the system's library");
        // Another may be named already.
        let _ = use_manager(&file());
        // SAFETY: a library of ours, whose initialisers are those of Rust.
        unsafe { Library::open(Some(file()), 0x2) }.unwrap()
    });
    // SAFETY: the function's type.
    unsafe { *library.get(b"described_count\0").unwrap() }
}

/// The port of a described device: a kind of `examples/described/devices.rs` and a number.
pub fn port(name: &str) -> Choice {
    let lid = count(name, "own_lid") as u16;
    let (link, ip) = match lid {
        0 => (Link::Ethernet, Ipv4Addr::from_bits(count(name, "address") as u32).into()),
        lid => (Link::InfiniBand, IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, lid])),
    };
    let address = DeviceAddress { socket: SocketAddr::new(ip, 4791), lid };
    Choice {
        device: name.to_owned(),
        port: 1,
        link,
        gids: vec![OwnGid { index: 0, address: address.into() }],
        address,
        partition: Partition::DEFAULT,
        emulated: false,
        card: name.to_owned(),
        why: format!("{name}, described"),
    }
}

/// What the library counts of a device, or its address.
pub fn count(device: &str, what: &str) -> u64 {
    let (device, what) = (CString::new(device).unwrap(), CString::new(what).unwrap());
    // SAFETY: both texts end with 0.
    unsafe { counts()(device.as_ptr(), what.as_ptr()) }
}

/// The kit; afterwards nothing of the device is left.
pub fn kit_over(name: &str, adjust: impl Fn(&mut Rdma<Verbs>), immortal: bool) {
    let choice = port(name);
    kit::every_property(|processes| {
        let cards = Cards::default();
        let mut ends: Vec<_> = (0..processes).map(|process| open(&choice, process, cards.clone())).collect();
        for end in &mut ends {
            // The device's clock is fast.
            end.set_patience(Duration::from_millis(100));
            adjust(end);
        }
        *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
        Processes { ends, choice: choice.clone(), waits: false, immortal }
    });
    assert_eq!(count(name, "alive"), 0, "objects of {name} that were not given back");
}
