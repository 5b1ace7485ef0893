//! Packets against the layouts of the specification, and against themselves.

use super::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

fn all_opcodes() -> impl Iterator<Item = Opcode> {
    (0..=u8::MAX).filter_map(Opcode::from_byte)
}

fn packet(opcode: Opcode, payload: &[u8]) -> Packet<'_> {
    let has = opcode.headers();
    Packet {
        solicited: true,
        ack_request: true,
        reth: has.reth.then_some(Reth { address: 0x1122_3344_5566_7788, rkey: 0x99aa_bbcc, length: 77 }),
        atomic: has.atomic.then_some(AtomicEth { address: 8, rkey: 7, swap_or_add: 6, compare: 5 }),
        aeth: has.aeth.then_some(Aeth { syndrome: Syndrome::NotReady(14), msn: 0x00ab_cdef }),
        original: has.original.then_some(u64::MAX - 1),
        immediate: has.immediate.then_some(0xfeed_f00d),
        invalidate: has.invalidate.then_some(3),
        deth: has.deth.then_some(Deth { qkey: 0x1234_5678, from: 0x42 }),
        payload,
        ..Packet::new(opcode, 0x00c0_ffee, Psn::new(0x00ab_cdef))
    }
}

#[test]
fn every_packet_is_read_as_it_was_written() {
    for opcode in all_opcodes() {
        for length in 0..9 {
            let payload = &[1, 2, 3, 4, 5, 6, 7, 8][..length.min(8)];
            let written = packet(opcode, payload);
            let mut bytes = Vec::new();
            written.emit(&mut bytes);
            assert_eq!(bytes.len() % 4, 0);
            assert_eq!(Packet::parse(&bytes), Ok(written));
        }
    }
    assert_eq!(all_opcodes().count(), 25);
}

#[test]
fn a_write_looks_as_the_specification_draws_it() {
    let mut bytes = Vec::new();
    packet(Opcode::WRITE_ONLY, b"abc").emit(&mut bytes);
    #[rustfmt::skip]
    assert_eq!(bytes, [
        0x0a, 0x80 | 0x40 | 1 << 4, 0xff, 0xff, 0, 0xc0, 0xff, 0xee, 0x80, 0xab, 0xcd, 0xef,
        0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0, 0, 0, 77,
        b'a', b'b', b'c', 0,
    ]);
}

#[test]
fn not_ready_codes_grow_from_ten_microseconds_to_half_a_second() {
    assert_eq!(Syndrome::delay_ns(1), 10_000);
    assert_eq!(Syndrome::delay_ns(12), 640_000);
    assert_eq!(Syndrome::delay_ns(31), 491_520_000);
    assert_eq!(Syndrome::delay_ns(0), 655_360_000);
    assert!((1..31).all(|code| Syndrome::delay_ns(code) < Syndrome::delay_ns(code + 1)));
}

fn flow() -> Flow {
    let end = |last| SocketAddr::from((Ipv4Addr::new(10, 7, 0, last), UDP_PORT));
    Flow { source: end(2), destination: end(1) }
}

use super::icrc::Flow;

#[test]
fn the_invariant_crc_finds_every_flipped_bit_but_the_congestion_marks() {
    let mut sealed = Vec::new();
    packet(Opcode::SEND_ONLY, b"some payload").emit(&mut sealed);
    icrc::seal(flow(), &mut sealed);
    assert!(icrc::open(flow(), 0, &sealed).is_some());
    for bit in 0..sealed.len() * 8 {
        let mut broken = sealed.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        let marks = bit / 8 == 4;
        assert_eq!(icrc::open(flow(), 0, &broken).is_some(), marks, "bit {bit}");
    }
    assert_eq!(icrc::open(flow().reversed(), 0, &sealed), None, "addresses are covered");
}

#[test]
fn the_invariant_crc_is_that_of_a_packet_that_a_kernel_took() {
    // Made by a program whose packets Linux's soft-RoCE accepted: identification 7, source port 0xc123.
    let flow = Flow {
        source: SocketAddr::from((Ipv4Addr::new(10, 7, 0, 2), 0xc123)),
        destination: SocketAddr::from((Ipv4Addr::new(10, 7, 0, 1), UDP_PORT)),
    };
    let mut bytes = Vec::new();
    let payload = b"written by userspace";
    Packet {
        ack_request: true,
        reth: Some(Reth { address: 0x7000_0000_0000, rkey: 0x005a_5a01, length: payload.len() as u32 }),
        immediate: Some(0xbeef),
        payload,
        ..Packet::new(Opcode::WRITE_ONLY_IMMEDIATE, 0x11, Psn::new(0x00ff_fffe))
    }
    .emit(&mut bytes);
    assert_eq!(icrc::icrc(flow, 7, &bytes), 0x821d_a2cc);
}

/// Packets over IPv6 and their CRCs as scapy 2.8 makes them, which also says what the kernel does of the one above. Traffic class, flow
/// label and hop limit are not covered: it has the same CRC for others.
#[test]
fn the_invariant_crc_over_ipv6_is_that_of_a_packet_maker_that_is_not_ours() {
    let mut bytes = Vec::new();
    let payload = b"written by userspac!";
    let sent =
        Packet { ack_request: true, payload, ..Packet::new(Opcode::SEND_ONLY, 0x11, Psn::new(0x00ff_fffe)) };
    sent.emit(&mut bytes);
    let end = |host: Ipv6Addr, port| SocketAddr::from((host, port));
    let [from, to] = [2, 1].map(|host| Ipv6Addr::new(0xfd00, 7, 0, 0, 0, 0, 0, host));
    let own = Ipv6Addr::LOCALHOST;
    for (source, destination, crc) in [
        (end(from, 0xc123), end(to, UDP_PORT), 0x5ebe_130e),
        (end(own, UDP_PORT), end(own, UDP_PORT), 0x44b2_ddf8),
    ] {
        let flow = Flow { source, destination };
        assert_eq!(icrc::icrc(flow, 0, &bytes), crc, "{flow:?}");
        assert_eq!(icrc::icrc(flow, 7, &bytes), crc, "there is no identification in IPv6");
        let mut sealed = bytes.clone();
        icrc::seal(flow, &mut sealed);
        assert_eq!(icrc::open(flow, 0, &sealed), Some(&bytes[..]));
    }
}

/// As the annex says it, one part after another.
fn icrc_in_parts(flow: Flow, identification: u16, packet: &[u8]) -> u32 {
    let udp_bytes = (8 + packet.len() + 4) as u16;
    let mut all = vec![0xff; 8];
    match (flow.source.ip(), flow.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            all.extend([0x45, 0xff]);
            all.extend((20 + udp_bytes).to_be_bytes());
            all.extend(identification.to_be_bytes());
            all.extend([0x40, 0, 0xff, 17, 0xff, 0xff]);
            all.extend(source.octets());
            all.extend(destination.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            all.extend([0x6f, 0xff, 0xff, 0xff]);
            all.extend(udp_bytes.to_be_bytes());
            all.extend([17, 0xff]);
            all.extend(source.octets());
            all.extend(destination.octets());
        }
        _ => unreachable!("one version of IP"),
    }
    all.extend(flow.source.port().to_be_bytes());
    all.extend(flow.destination.port().to_be_bytes());
    all.extend(udp_bytes.to_be_bytes());
    all.extend([0xff; 2]);
    let begin = all.len();
    all.extend(packet);
    if let Some(marks) = all.get_mut(begin + 4) {
        *marks = 0xff;
    }
    crc32fast::hash(&all)
}

#[test]
fn the_invariant_crc_is_the_same_however_long_the_packet() {
    let bytes: Vec<u8> = (0..600_u32).map(|at| (at * 7 + at / 256) as u8).collect();
    let end = |last: u16, port| SocketAddr::from((Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 7, last), port));
    let v6 = Flow { source: end(2, 0xc123), destination: end(1, UDP_PORT) };
    for flow in [flow(), v6] {
        for length in 0..bytes.len() {
            let packet = &bytes[..length];
            assert_eq!(
                icrc::icrc(flow, 7, packet),
                icrc_in_parts(flow, 7, packet),
                "{length} bytes of {flow:?}"
            );
        }
    }
}

/// Packets of many lengths and ways in any order, with marks that change: what is remembered of one never counts for another.
#[test]
fn crcs_of_many_packets_are_those_of_each() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize % below
    };
    let mut sums = sums::Sums::default();
    let mut bytes: Vec<u8> = (0..4200_u32).map(|at| (at * 13 + at / 256) as u8).collect();
    let mut usual = 1040;
    for _ in 0..20_000 {
        let port = |number: usize| 0xc000 + number as u16;
        let end = |host: usize, port| SocketAddr::from((Ipv4Addr::new(10, 7, 0, host as u8), port));
        let flow = Flow { source: end(next(3), port(next(2))), destination: end(next(2), UDP_PORT) };
        if next(100) == 0 {
            usual = next(bytes.len());
        }
        let length = if next(4) == 0 { next(40) } else { usual };
        bytes[4] = [0x40, 0, 0xff, 0xc0][next(4)];
        let at = next(length + 1);
        bytes[at] ^= next(256) as u8;
        let (identification, packet) = (next(2) as u16 * 7, &bytes[..length]);
        assert_eq!(
            sums.icrc(flow, identification, packet),
            icrc::icrc(flow, identification, packet),
            "{length} bytes of {flow:?}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80)) {
        if let Ok(packet) = Packet::parse(&bytes) {
            let mut again = Vec::new();
            packet.emit(&mut again);
            proptest::prop_assert_eq!(Packet::parse(&again), Ok(packet));
        }
        let _ = icrc::open(flow(), 0, &bytes);
        let _ = sums::Sums::default().open(flow(), 0, &bytes);
    }
}
