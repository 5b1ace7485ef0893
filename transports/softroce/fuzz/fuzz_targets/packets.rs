//! Whatever comes from the network: a packet that is read is written so that it is read the same; a device that is handed any of
//! them, with a right CRC, touches no byte but of the regions it was given, completes no request twice, and what it answers are
//! packets.
//!
//! An input is a row of packets: a byte of choices, a byte that says how many follow, the packet. Blindly found bytes hardly ever
//! name a queue pair, a number that is awaited or a region, so that the choices put these in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use weft_api::verbs::{
    Access, Data, QueuePairNumber, QueuePairPlan, Remote, RemoteAddress, RemoteKey, Segment, Sending,
    Service, Work, WorkRequest,
};
use weft_softroce::wire::{BTH_BYTES, Packet, UDP_PORT, icrc};
use weft_softroce::{Device, Fault, Memory, parse_ipv4};

/// Where the only region lies, and its bytes.
const REGION: u64 = 1 << 20;
const BYTES: u64 = 1 << 13;
/// First numbers of the packets of the peer, and of our own.
const THEIRS: u32 = 0x00ff_fffe;
const OURS: u32 = 0x00ff_fffd;
const QKEY: u32 = 0x1234;

struct Fenced(Vec<u8>);

impl Fenced {
    fn place(&mut self, address: u64, length: usize) -> &mut [u8] {
        assert!(
            address >= REGION && address - REGION + length as u64 <= BYTES,
            "{length} bytes at {address:#x}"
        );
        &mut self.0[(address - REGION) as usize..][..length]
    }
}

impl Memory for Fenced {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let length = into.len() as u64;
        assert!(address >= REGION && address - REGION + length <= BYTES, "{length} bytes at {address:#x}");
        into.copy_from_slice(&self.0[(address - REGION) as usize..][..length as usize]);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.place(address, bytes.len()).copy_from_slice(bytes);
        Ok(())
    }

    fn update(&mut self, address: u64, change: impl Fn(u64) -> u64) -> Result<u64, Fault> {
        let place = self.place(address, 8);
        let old = u64::from_ne_bytes((&*place).try_into().expect("eight bytes"));
        place.copy_from_slice(&change(old).to_ne_bytes());
        Ok(old)
    }
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], UDP_PORT))
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(received) = parse_ipv4(bytes) {
        assert!(received.datagram.len() + 28 <= bytes.len());
    }
    read_and_written(bytes);

    let mut device = Device::new(address(1), Fenced(vec![0; BYTES as usize]));
    let domain = device.make_domain();
    let keys = device.register(domain, REGION, BYTES, Access::ALL).expect("a region");
    let queue = device.make_completion_queue(64);
    let plan = QueuePairPlan {
        domain,
        service: Service::ReliableConnection,
        send_queue: queue,
        receive_queue: queue,
        shared_receive_queue: None,
        max_send: 8,
        max_receive: 8,
        qkey: QKEY,
    };
    let connected = device.make_queue_pair(plan).expect("a connection");
    let loose = device.make_queue_pair(QueuePairPlan { service: Service::Datagram, ..plan }).expect("a pair");
    let remote = Remote {
        address: address(2).into(),
        by: 0,
        queue_pair: QueuePairNumber(77),
        first_packet: THEIRS,
        mtu: 256,
        max_incoming_reads: 2,
        not_ready_code: 1,
        access: Access::ALL,
    };
    let sending = Sending { first_packet: OURS, timeout: 10, retries: 2, not_ready_retries: 2, max_reads: 2 };
    for pair in [connected, loose] {
        device.initialise(pair).expect("reset before");
    }
    device.ready_to_receive(connected, Some(remote)).expect("initialised before");
    device.ready_to_send(connected, Some(sending)).expect("ready to receive before");
    device.ready_to_receive(loose, None).expect("initialised before");
    device.ready_to_send(loose, None).expect("ready to receive before");

    let part = |at: u64, length: u32| [Segment { address: REGION + at, length, key: keys.local }];
    for id in 0..4 {
        device.post_receive(connected, id, &part(256 * id, 200)).expect("room");
        device.post_receive(loose, 10 + id, &part(2048 + 256 * id, 200)).expect("room");
    }
    let there = RemoteAddress { address: 0x7000, key: RemoteKey(9) };
    for (id, (work, length)) in [
        (Work::Read { from: there }, 700),
        (Work::FetchAdd { at: there, add: 1 }, 8),
        (Work::Send { immediate: Some(1) }, 600),
        (Work::Write { to: there, immediate: None }, 300),
    ]
    .into_iter()
    .enumerate()
    {
        let segments = part(4096 + 1024 * id as u64, length);
        let request =
            WorkRequest { data: Data::Segments(&segments), ..WorkRequest::new(20 + id as u64, work, &[]) };
        device.post_send(connected, &request).expect("room");
    }

    let mut ended = BTreeSet::new();
    let (mut now, mut rest, mut out) = (0, bytes, Vec::new());
    while let [choices, length, tail @ ..] = rest {
        let (packet, after) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = after;
        now += 100_000;
        let mut packet = packet.to_vec();
        if packet.len() >= BTH_BYTES && choices & 1 == 0 {
            packet[1] &= 0xf0;
            packet[2..4].copy_from_slice(&[0xff, 0xff]);
            let datagram = packet[0] & 0xe0 != 0;
            packet[4..8].copy_from_slice(&if datagram { loose.0 } else { connected.0 }.to_be_bytes());
            let first = if packet[0] & 0x1f >= 0x0d && packet[0] & 0x1f <= 0x12 { OURS } else { THEIRS };
            let number = first.wrapping_add(u32::from(choices >> 2 & 7)) & 0x00ff_ffff;
            let asks = u32::from(packet[8] & 0x80) << 24;
            packet[8..12].copy_from_slice(&(number | asks).to_be_bytes());
            if datagram && packet.len() >= 16 {
                packet[12..16].copy_from_slice(&QKEY.to_be_bytes());
            } else if choices & 2 == 0
                && packet.len() >= 28
                && matches!(packet[0], 0x06 | 0x0a..=0x0c | 0x13 | 0x14)
            {
                let at = REGION + u64::from(u16::from_be_bytes([packet[12], packet[13]]) & 0x1ff8);
                packet[12..20].copy_from_slice(&at.to_be_bytes());
                packet[20..24].copy_from_slice(&keys.remote.0.to_be_bytes());
                if matches!(packet[0], 0x06 | 0x0a..=0x0c) {
                    packet[24..26].fill(0);
                    packet[26] &= 0x07;
                }
            }
        }
        read_and_written(&packet);
        icrc::seal(icrc::Flow { source: address(2), destination: address(1) }, &mut packet);
        device.receive(now, address(2), 0, &packet);
        if choices & 0x40 != 0 {
            device.tick(now);
        }
        for _ in 0..16 {
            let Some(to) = device.transmit(now, &mut out) else { break };
            let flow = icrc::Flow { source: address(1), destination: to };
            let sent = icrc::open(flow, 0, &out).expect("sealed");
            Packet::parse(sent).expect("a packet");
        }
        while let Some(completion) = device.poll(queue) {
            assert!(ended.insert(completion.id), "request {} ended twice", completion.id);
        }
    }
});

fn read_and_written(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else { return };
    let mut again = Vec::new();
    packet.emit(&mut again);
    assert_eq!(Packet::parse(&again), Ok(packet));
}
