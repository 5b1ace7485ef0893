//! The described devices of `examples/described`, in place of the system's library.

use libloading::os::unix::Library;
use std::ffi::{CString, c_char};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::OnceLock;
use weft_api::verbs::DeviceAddress;
use weft_verbs::{Choice, Link, OwnGid, use_library};

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
        // SAFETY: a library of ours, whose initialisers are those of Rust.
        unsafe { Library::open(Some(file()), 0x2) }.unwrap()
    });
    // SAFETY: the function's type.
    unsafe { *library.get(b"described_count\0").unwrap() }
}

/// The port of a described device: a kind of `examples/described/devices.rs` and a number.
pub fn port(name: &str) -> Choice {
    let socket = SocketAddr::from((Ipv4Addr::from_bits(count(name, "address") as u32), 4791));
    let address = DeviceAddress { socket, lid: 0 };
    Choice {
        device: name.to_owned(),
        port: 1,
        link: Link::Ethernet,
        gids: vec![OwnGid { index: 0, address: address.into() }],
        address,
        emulated: false,
        why: format!("{name}, described"),
    }
}

/// What the library counts of a device, or its address.
pub fn count(device: &str, what: &str) -> u64 {
    let (device, what) = (CString::new(device).unwrap(), CString::new(what).unwrap());
    // SAFETY: both texts end with 0.
    unsafe { counts()(device.as_ptr(), what.as_ptr()) }
}
