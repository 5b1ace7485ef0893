//! Datagrams that come in by two sockets.

use super::*;
use std::net::Ipv4Addr;
use std::time::Duration;
use weft_api::{Bell, Pollable};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn device() -> (Udp, SocketAddr) {
    let udp = Udp::new(LOCAL, Some(0), 65_536, None).unwrap();
    let at = udp.doors.own.local_addr().unwrap();
    (udp, at)
}

fn sender(to: SocketAddr) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((LOCAL, 0)).unwrap();
    socket.connect(to).unwrap();
    let from = socket.local_addr().unwrap();
    (socket, from)
}

/// The next datagram: on the loopback it is there when it was sent, but a look need not be at its socket.
fn next(udp: &mut Udp) -> (SocketAddr, Vec<u8>) {
    let mut bytes = Vec::new();
    for _ in 0..1000 {
        if let Some(came) = udp.receive(&mut bytes) {
            return (came.from, came.datagram.to_vec());
        }
    }
    panic!("a datagram is missing");
}

/// Sends and receives one after another.
fn alone(udp: &mut Udp, (socket, from): &(UdpSocket, SocketAddr), times: u32) {
    for number in 0..times {
        socket.send(&number.to_le_bytes()).unwrap();
        assert_eq!(next(udp), (*from, number.to_le_bytes().to_vec()));
        // Looks that find nothing are part of waiting.
        assert_eq!(udp.receive(&mut Vec::new()), None);
    }
}

#[test]
fn who_sends_most_has_the_entrance_and_nothing_is_lost_when_it_changes_hands() {
    let (mut udp, at) = device();
    let (first, second) = (sender(at), sender(at));
    assert!(udp.doors.entrance.get().is_none());
    for _ in 0..3 {
        for one in [&first, &second] {
            alone(&mut udp, one, 300);
            assert_eq!(udp.entrance.from, Some(one.1));
            // Of both at the same time, each by its own way.
            for number in 0..200_u8 {
                first.0.send(&[number]).unwrap();
                second.0.send(&[number]).unwrap();
                let mut came = [next(&mut udp), next(&mut udp)];
                came.sort();
                let mut sent = [(first.1, vec![number]), (second.1, vec![number])];
                sent.sort();
                assert_eq!(came, sent);
            }
            assert_eq!(udp.entrance.from, Some(one.1), "who sends as much as another gets nothing from him");
        }
    }
    // What is under way when it changes hands still comes, with its sender.
    for number in 0..50_u8 {
        second.0.send(&[number]).unwrap();
    }
    assert!(!udp.entrance.give(&udp.doors, first.1), "it was made before");
    for number in 0..50_u8 {
        first.0.send(&[number]).unwrap();
    }
    let mut seen = [0; 2];
    for _ in 0..100 {
        let (from, bytes) = next(&mut udp);
        let of = usize::from(from == second.1);
        assert_eq!(bytes, [seen[of]], "each sender's come in order");
        seen[of] += 1;
    }
    assert_eq!(seen, [50; 2]);
}

#[test]
fn joined_datagrams_are_cut_where_they_were() {
    let (mut udp, at) = device();
    let (mut other, _) = device();
    assert!(other.source(at).is_some(), "an exit");
    // An opcode of connections in front.
    let datagram = |number: u8, length: usize| {
        let mut bytes = vec![number; length];
        bytes[0] = 0;
        bytes
    };
    let mut came = Vec::new();
    for round in 0..3_u8 {
        for number in 0..=255 {
            assert!(other.send(at, &mut datagram(number, 40)) && other.flush());
            assert_eq!(next(&mut udp).1, datagram(number, 40));
            while udp.receive(&mut came).is_some() {}
        }
        // The one after 256 comes by it for certain.
        assert!(other.send(at, &mut datagram(1, 40)) && other.flush());
        next(&mut udp);
        assert!(udp.entrance.from.is_some() && !udp.entrance.joins, "round {round}: alone");
        for length in [1000, 1000, 40] {
            let each: Vec<_> = (0..20).map(|number| datagram(number, length)).collect();
            assert!(each.iter().all(|one| other.send(at, &mut one.clone())));
            assert!(other.send(at, &mut datagram(99, 17)) && other.flush(), "a shorter one at the end");
            for one in each {
                assert_eq!(next(&mut udp).1, one, "round {round}");
            }
            assert_eq!(next(&mut udp).1, datagram(99, 17));
        }
        assert!(udp.entrance.joins, "round {round}: a stream");
    }
}

#[test]
fn the_port_of_a_device_is_its_own_beside_an_entrance() {
    let (mut udp, at) = device();
    alone(&mut udp, &sender(at), 300);
    assert!(udp.doors.entrance.get().is_some());
    let taken = Udp::new(LOCAL, Some(at.port()), 65_536, None).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn a_bell_from_before_the_entrance_wakes_for_it() {
    let (mut udp, at) = device();
    let bell = udp.bell();
    let one = sender(at);
    alone(&mut udp, &one, 300);
    assert_eq!(udp.entrance.from, Some(one.1));
    let mut list = Vec::new();
    bell.descriptors(&mut list);
    assert_eq!(list.len(), 3, "two sockets and the sleepers' own");
    one.0.send(&[1]).unwrap();
    bell.arm();
    // For ever, if it did not.
    bell.sleep(Duration::from_secs(3600));
    assert_eq!(next(&mut udp), (one.1, vec![1]));
}
