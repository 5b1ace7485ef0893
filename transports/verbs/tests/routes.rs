//! The kernel's connection manager says the route over a device of the system. Needs a device: see `common::port`; without librdmacm
//! or the kernel's module each test says so and does nothing.

mod common;

use common::ends::End;
use common::fabric;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use weft_api::Transport;
use weft_api::verbs::{DeviceAddress, Hca, QueuePairNumber, Route, Service, Work};
use weft_rdma::Rdma;
use weft_types::params::Routes;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_verbs::{Choice, RouteWish, Verbs, no_manager};
use weft_wire::{Header, Kind};

/// The best port, where the connection manager can be asked.
fn port() -> Option<Choice> {
    let choice = common::port()?;
    if let Some(why) = no_manager() {
        common::skip(&format!("no routes: {why}"));
        return None;
    }
    Some(choice)
}

/// What comes of a question, in the end.
fn settled(device: &mut Verbs, to: DeviceAddress) -> (Route, String) {
    let begun = Instant::now();
    loop {
        match device.route(to, 0) {
            Route::Asked => assert!(begun.elapsed() < common::ends::PATIENCE, "no end of it"),
            known => return (known, device.route_text(to, 0).unwrap()),
        }
        std::thread::yield_now();
    }
}

fn open(choice: &Choice, traffic_class: Option<u8>) -> Verbs {
    let wish = RouteWish { ask: Routes::Require, service_level: None, traffic_class };
    Verbs::open_with(choice.clone(), wish).unwrap()
}

/// What the administrator can set is one for all: tests that look at it take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_route_to_the_own_host_is_known_and_packets_are_as_large_as_the_ports() {
    let Some(choice) = port() else { return };
    let _turn = turn();
    let mut device = open(&choice, None);
    let to = device.address();
    let mtu = device.limits().mtu;
    let (route, text) = settled(&mut device, to);
    println!("{}; to {to}: {text}", device.routes());
    assert_eq!(route, Route::Known { mtu }, "{text}");
    assert!(text.contains("as the connection manager says"), "{text}");
}

/// Of all addresses of the port, those of one link and of IPv6 too.
#[test]
fn each_own_address_leads_to_itself() {
    let Some(choice) = port() else { return };
    let _turn = turn();
    let mut device = open(&choice, None);
    for (by, gid) in (0..).zip(&choice.gids) {
        let begun = Instant::now();
        while device.route(gid.address.address, by) == Route::Asked {
            assert!(begun.elapsed() < common::ends::PATIENCE, "no end of it");
            std::thread::yield_now();
        }
        let text = device.route_text(gid.address.address, by).unwrap();
        println!("{}: {text}", gid.address);
        assert!(text.contains("as the connection manager says"), "{}: {text}", gid.address);
    }
}

#[test]
fn where_the_network_does_not_lead_there_is_no_route_and_the_reason_is_told() {
    let Some(choice) = port() else { return };
    let _turn = turn();
    let to: DeviceAddress = "198.51.100.7:4791".parse().unwrap();
    let (route, text) = settled(&mut open(&choice, None), to);
    println!("{text}");
    assert_eq!(route, Route::Barred, "it is required");
    assert!(text.contains("without a route: the network leads nowhere"), "{text}");
    let mut device = Verbs::open(choice).unwrap();
    let mtu = device.limits().mtu;
    assert_eq!(settled(&mut device, to).0, Route::Known { mtu }, "where it is not, the defaults are tried");
}

/// `default_roce_tos` of the port, as an administrator sets it; set back in the end.
struct Default {
    folder: PathBuf,
}

impl Default {
    fn set(choice: &Choice, class: u8) -> Result<Default, String> {
        let root = Path::new("/sys/kernel/config");
        if !root.join("rdma_cm").exists() {
            let mount = Command::new("mount").args(["-t", "configfs", "none"]).arg(root).output();
            let mount = mount.map_err(|error| error.to_string())?;
            if !mount.status.success() {
                return Err(String::from_utf8_lossy(&mount.stderr).trim().to_owned());
            }
        }
        let folder = root.join("rdma_cm").join(&choice.device);
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let made = Default { folder };
        let file = made.folder.join(format!("ports/{}/default_roce_tos", choice.port));
        fs::write(&file, format!("{class}\n")).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(made)
    }
}

impl Drop for Default {
    fn drop(&mut self) {
        // What was set goes with the kernel of the guest only.
        for port in 1..=2 {
            let _ = fs::write(self.folder.join(format!("ports/{port}/default_roce_tos")), "0\n");
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Type of service and hops of the next packet of RoCE that leaves for an address after `send`.
fn passes(to: Ipv4Addr, send: impl FnOnce()) -> (u8, u8) {
    let tap = socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)
        .unwrap();
    send();
    let mut bytes = [0; 256];
    let begun = Instant::now();
    while begun.elapsed() < common::ends::PATIENCE {
        let Ok(length) = recv(tap.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) else {
            std::thread::yield_now();
            continue;
        };
        // An IPv4 header without options, then UDP's.
        let packet = &bytes[..length.min(256)];
        if length >= 28
            && packet[0] == 0x45
            && packet[9] == 17
            && packet[16..20] == to.octets()
            && packet[22..24] == 4791_u16.to_be_bytes()
        {
            return (packet[1], packet[8]);
        }
    }
    panic!("no packet leaves for {to}");
}

/// Connections and datagrams of processes go by what the manager says.
#[test]
fn messages_go_by_the_managers_route() {
    let Some(choice) = port() else { return };
    let _turn = turn();
    let cards = common::Cards::default();
    let mut ends: Vec<_> = (0..3).map(|process| fabric::open(&choice, process, cards.clone())).collect();
    ends.iter_mut().for_each(|end| end.set_connections(1));
    *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
    for (peer, by) in [(1, "by a connection"), (2, "by datagrams")] {
        let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(7));
        let (begun, mut sent) = (Instant::now(), false);
        ends[0].connect(PeerId(peer)).unwrap();
        while ends[peer as usize].peek(PeerId(0)).is_none() {
            sent = sent || ends[0].send_copy(PeerId(peer), header, 3_000, |room| room.fill(9)).is_ok();
            ends.iter_mut().for_each(|end| _ = end.progress());
            assert!(begun.elapsed() < common::ends::PATIENCE, "the message never arrives");
            std::thread::yield_now();
        }
        for way in [ends[0].way(PeerId(peer)).unwrap(), ends[peer as usize].way(PeerId(0)).unwrap()] {
            println!("{way}");
            assert!(way.contains(by) && way.contains("as the connection manager says"), "{way}");
        }
    }
}

/// What the administrator has set is in the packets; what a user sets counts more. The address is the one of the namespace "peer" that
/// `scripts/rxe-vm` makes.
#[test]
fn packets_have_the_administrators_class_and_the_users_counts_more() {
    let Some(choice) = port() else { return };
    let _turn = turn();
    if !Path::new("/run/netns/peer").exists() {
        return common::skip("no namespace for a peer of the device (scripts/rxe-vm with one guest)");
    }
    let there = Ipv4Addr::new(10, 9, 0, 2);
    let to = DeviceAddress::from(SocketAddr::new(IpAddr::V4(there), 4791));
    let _default = match Default::set(&choice, 104) {
        Ok(default) => default,
        Err(why) => return common::skip(&format!("default_roce_tos cannot be set: {why}")),
    };
    for (by_hand, class) in [(None, 104), (Some(32), 32)] {
        let mut device = open(&choice, by_hand);
        let (_, text) = settled(&mut device, to);
        println!("{text}");
        assert!(text.contains(&format!("traffic class {class}")), "{text}");
        let mut end = End::new(device, Service::Datagram);
        end.hca.open_queue_pair(end.pair, None).unwrap();
        // To a queue pair that nobody has.
        let segment = [end.segment(0, 8)];
        let work = Work::Datagram { to, by: 0, queue_pair: QueuePairNumber(0x77), qkey: 1, immediate: None };
        let seen = passes(there, || end.post(1, work, &segment));
        assert_eq!(seen, (class, 64), "type of service and hops");
    }
}
