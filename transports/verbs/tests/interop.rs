//! The emulator and the kernel's soft-RoCE as peers: each asks the other for everything, and every packet between them is read.
//!
//! Needs the device of `scripts/rxe-vm` in this network namespace and, in the namespace "peer", an interface that reaches it:
//! the kernel's device and the emulator cannot have the same port of one namespace.

mod common;

use common::bad::Bad;
use common::ends::{PATIENCE, Two, pattern};
use nix::sched::{CloneFlags, setns};
use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use weft_api::verbs::{Access, Hca, Service, Work};
use weft_softroce::wire::{Opcode, Operation, Packet, icrc};
use weft_softroce::{Capture, Card, Flow, Raw, Traced};
use weft_verbs::Verbs;

/// Where the emulator is reached, as `scripts/rxe-vm` sets the namespace up, and the largest frame there.
const EMULATOR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const LINK_MTU: u32 = 4200;

/// A capture that can be read while it is written.
#[derive(Clone, Debug, Default)]
struct Record(Arc<Mutex<Vec<u8>>>);

impl Write for Record {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Emulator = Card<Traced<Raw, Record>>;

/// One test at a time has the port; what passed is looked through at its end.
struct Watch {
    record: Record,
    _port: MutexGuard<'static, ()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let record = self.record.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::thread::panicking() {
            assert!(!read_capture(&record).is_empty(), "nothing passed");
        } else if let Some(folder) = std::env::var_os("WEFT_VM_SHARE") {
            // What passed outlives the guest, for dissectors.
            let _ = std::fs::write(std::path::Path::new(&folder).join("failed.pcap"), &*record);
        }
    }
}

/// The emulator in the other namespace.
fn emulator() -> (Emulator, Record) {
    let (wire, record) = wire();
    (Card::new(SocketAddr::from((EMULATOR, 4791)), wire), record)
}

/// What it is connected by.
fn wire() -> (Traced<Raw, Record>, Record) {
    let open = || {
        let namespace = File::open("/run/netns/peer")
            .expect("the network namespace that scripts/rxe-vm makes in a guest");
        setns(&namespace, CloneFlags::CLONE_NEWNET).unwrap();
        Raw::new(EMULATOR.into(), LINK_MTU).unwrap()
    };
    // Sockets stay where they were made; only this thread moves.
    let wire = std::thread::spawn(open).join().unwrap();
    let (local, record) = (SocketAddr::from((EMULATOR, 4791)), Record::default());
    let capture = Capture::new(record.clone()).unwrap();
    (Traced::new(wire, local, capture), record)
}

static PORT: Mutex<()> = Mutex::new(());

fn both() -> Option<(Verbs, Emulator, Watch)> {
    let port = PORT.lock().unwrap_or_else(PoisonError::into_inner);
    let kernel = Verbs::open(common::port()?).unwrap();
    let (emulator, record) = emulator();
    Some((kernel, emulator, Watch { record, _port: port }))
}

fn kernel_asks_emulator(service: Service) -> Option<Two<Verbs, Emulator, Watch>> {
    let (kernel, emulator, watch) = both()?;
    Some(Two::new(kernel, emulator, service, watch))
}

fn emulator_asks_kernel(service: Service) -> Option<Two<Emulator, Verbs, Watch>> {
    let (kernel, emulator, watch) = both()?;
    Some(Two::new(emulator, kernel, service, watch))
}

mod kernel_to_emulator {
    crate::battery!(super::kernel_asks_emulator);
}

mod emulator_to_kernel {
    crate::battery!(super::emulator_asks_kernel);
}

type OnABadWay = Card<Bad<Traced<Raw, Record>>>;

/// The same with a bad way between them, as [`Bad::new`] has it: both repeat, go back, and tell each other of gaps.
fn both_on_a_bad_way(share: u64) -> Option<(Verbs, OnABadWay, Watch)> {
    let port = PORT.lock().unwrap_or_else(PoisonError::into_inner);
    let kernel = Verbs::open(common::port()?).unwrap();
    let (wire, record) = wire();
    let seed = std::env::var("WEFT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(41);
    println!("WEFT_SEED={seed}");
    let emulator = Card::new(SocketAddr::from((EMULATOR, 4791)), Bad::new(wire, seed, share));
    Some((kernel, emulator, Watch { record, _port: port }))
}

/// Fewer than the other way round: with some eight gaps in one message of 120 packets the kernel has used up its tries (see the emulator's README).
fn kernel_asks_on_a_bad_way(service: Service) -> Option<Two<Verbs, OnABadWay, Watch>> {
    let (kernel, emulator, watch) = both_on_a_bad_way(5)?;
    Some(Two::new(kernel, emulator, service, watch))
}

fn emulator_asks_on_a_bad_way(service: Service) -> Option<Two<OnABadWay, Verbs, Watch>> {
    let (kernel, emulator, watch) = both_on_a_bad_way(30)?;
    Some(Two::new(emulator, kernel, service, watch))
}

/// Without datagrams, which nobody repeats.
mod kernel_to_emulator_on_a_bad_way {
    crate::battery! { super::kernel_asks_on_a_bad_way;
        messages_of_every_size_arrive: ReliableConnection,
        messages_go_both_ways_at_once: ReliableConnection,
        writes_and_reads_reach_the_other_memory: ReliableConnection,
        atomics_answer_with_what_was_there: ReliableConnection,
        a_late_receive_is_waited_for: ReliableConnection,
        a_chain_of_requests_arrives_in_order: ReliableConnection,
    }
}

mod emulator_to_kernel_on_a_bad_way {
    crate::battery! { super::emulator_asks_on_a_bad_way;
        messages_of_every_size_arrive: ReliableConnection,
        messages_go_both_ways_at_once: ReliableConnection,
        writes_and_reads_reach_the_other_memory: ReliableConnection,
        atomics_answer_with_what_was_there: ReliableConnection,
        a_late_receive_is_waited_for: ReliableConnection,
        a_chain_of_requests_arrives_in_order: ReliableConnection,
    }
}

/// A packet that passed.
struct Seen {
    flow: Flow,
    bytes: Vec<u8>,
}

impl Seen {
    fn packet(&self) -> Packet<'_> {
        Packet::parse(&self.bytes).unwrap()
    }
}

/// Takes a capture apart. Every packet has a right invariant CRC and is one that we would have written the same way.
fn read_capture(mut bytes: &[u8]) -> Vec<Seen> {
    bytes = &bytes[24..];
    let mut packets = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
        let (packet, rest) = bytes[16..].split_at(length);
        bytes = rest;
        let (ip, rest) = packet.split_at(20);
        let (udp, datagram) = rest.split_at(8);
        let end = |at: usize, port: usize| {
            let address: [u8; 4] = ip[at..at + 4].try_into().unwrap();
            SocketAddr::from((address, u16::from_be_bytes([udp[port], udp[port + 1]])))
        };
        let flow = Flow { source: end(12, 0), destination: end(16, 2) };
        let identification = u16::from_be_bytes([ip[4], ip[5]]);
        let content = icrc::open(flow, identification, datagram).expect("a right invariant CRC");
        let parsed = Packet::parse(content).expect("a packet that we know");
        let mut again = Vec::new();
        parsed.emit(&mut again);
        // The kernel sets the bit of path migration, the specification lets it be either.
        again[1] = again[1] & !0x40 | content[1] & 0x40;
        assert_eq!(again, content, "written as {parsed:?}");
        packets.push(Seen { flow, bytes: content.to_vec() });
    }
    packets
}

/// A request, without what differs from run to run.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    opcode: Opcode,
    /// Its number, from that of the first one on.
    number: u32,
    /// Where in the buffer, and how many bytes.
    place: Option<(u64, u32)>,
    /// Where in the buffer, and both operands.
    atomic: Option<(u64, u64, u64)>,
    immediate: Option<u32>,
    /// How many bytes, and what comes out of them.
    payload: (usize, u64),
}

/// The requests of one end, to a buffer that begins at `base`; those that were repeated, once.
fn requests(seen: &[Seen], from: IpAddr, base: u64) -> Vec<Request> {
    let requests: Vec<Packet<'_>> = seen
        .iter()
        .filter(|seen| seen.flow.source.ip() == from)
        .map(Seen::packet)
        .filter(|packet| !packet.opcode.is_response())
        .collect();
    let first = requests[0].psn.get();
    let mut known = HashSet::new();
    requests
        .iter()
        .filter(|packet| known.insert(packet.psn.get()))
        .map(|packet| Request {
            opcode: packet.opcode,
            number: packet.psn.get().wrapping_sub(first) & 0xff_ffff,
            place: packet.reth.map(|reth| (reth.address.wrapping_sub(base), reth.length)),
            atomic: packet
                .atomic
                .map(|atomic| (atomic.address.wrapping_sub(base), atomic.swap_or_add, atomic.compare)),
            immediate: packet.immediate,
            payload: (packet.payload.len(), {
                let mut hasher = DefaultHasher::new();
                hasher.write(packet.payload);
                hasher.finish()
            }),
        })
        .collect()
}

/// A little of everything, one after another, so that the packets do not depend on time.
fn everything<A: Hca, B: Hca>(two: &mut Two<A, B, Watch>) {
    two.connect(Access::ALL);
    two.a.write(0, &pattern(20_000, 1));
    let all = [two.a.segment(0, 20_000)];
    // The emulator cuts longer reads.
    let read = [two.a.segment(0, 16_000)];
    let (few, word) = ([two.a.segment(3, 13)], [two.a.segment(32_768, 8)]);
    let at = two.b.remote(0);
    for (id, work, segments) in [
        (1, Work::Write { to: at, immediate: None }, &all),
        (2, Work::Write { to: two.b.remote(5), immediate: None }, &few),
        (3, Work::Send { immediate: None }, &all),
        (4, Work::Send { immediate: Some(0x0102_0304) }, &few),
        (5, Work::Write { to: at, immediate: Some(7) }, &all),
        (6, Work::Read { from: at }, &read),
        (7, Work::FetchAdd { at, add: 3 }, &word),
        (8, Work::CompareSwap { at, compare: 9, swap: 10 }, &word),
        (9, Work::Send { immediate: None }, &few),
    ] {
        two.b.post_receive(id, 100_000, 50_000);
        two.a.post(id, work, segments);
        assert_eq!(two.of_a().id, id);
        while two.b.hca.poll(two.b.queue).is_some() {}
    }
}

#[test]
fn both_write_the_same_requests() {
    let Some(mut two) = kernel_asks_emulator(Service::ReliableConnection) else { return };
    everything(&mut two);
    let by_kernel = read_capture(&two.guard.record.0.lock().unwrap());
    let (kernel, base) = (two.a.hca.address().socket.ip(), two.b.buffer.address);
    drop(two);
    let mut two = emulator_asks_kernel(Service::ReliableConnection).unwrap();
    everything(&mut two);
    let by_emulator = read_capture(&two.guard.record.0.lock().unwrap());
    let asked_by_kernel = requests(&by_kernel, kernel, base);
    let asked_by_emulator = requests(&by_emulator, EMULATOR.into(), two.b.buffer.address);
    for (number, (kernel, emulator)) in asked_by_kernel.iter().zip(&asked_by_emulator).enumerate() {
        assert_eq!(kernel, emulator, "request packet {number}");
    }
    assert_eq!(asked_by_kernel.len(), asked_by_emulator.len());
    assert!(asked_by_kernel.iter().any(|request| request.opcode.operation() == Operation::CompareSwap));
    println!("{} requests compared, {} packets", asked_by_kernel.len(), by_kernel.len() + by_emulator.len());
}

/// That the way is bad: requests of each asker were repeated.
#[test]
fn lost_packets_are_repeated_by_both() {
    fn repeated<A: Hca, B: Hca>(two: &mut Two<A, B, Watch>) -> usize {
        everything(two);
        let (asker, mut known) = (two.a.hca.address().socket.ip(), HashSet::new());
        let seen = read_capture(&two.guard.record.0.lock().unwrap());
        let asked = seen.iter().filter(|seen| seen.flow.source.ip() == asker).map(Seen::packet);
        asked.filter(|packet| !packet.opcode.is_response() && !known.insert(packet.psn.get())).count()
    }
    let service = Service::ReliableConnection;
    let (mut by_kernel, mut by_emulator, mut rounds) = (0, 0, 0);
    while by_kernel == 0 || by_emulator == 0 {
        // Some forty packets, all messages short.
        let Some((kernel, emulator, watch)) = both_on_a_bad_way(100) else { return };
        by_kernel += repeated(&mut Two::new(kernel, emulator, service, watch));
        let (kernel, emulator, watch) = both_on_a_bad_way(100).unwrap();
        by_emulator += repeated(&mut Two::new(emulator, kernel, service, watch));
        rounds += 1;
        assert!(rounds < 20, "of 100 packets in 1000 none was missed");
    }
    println!("request packets seen again: {by_kernel} of the kernel's, {by_emulator} of the emulator's");
}

#[test]
fn a_dissector_reads_what_passes() {
    let Some(mut two) = kernel_asks_emulator(Service::ReliableConnection) else { return };
    everything(&mut two);
    let capture = two.guard.record.0.lock().unwrap().clone();
    let packets = read_capture(&capture).len();
    let spawned = Command::new("tshark")
        // Some payloads look like another protocol to it.
        .args(["-r", "-", "--disable-protocol", "rpcordma", "-T", "fields", "-e", "infiniband.bth.opcode"])
        .args(["-e", "_ws.malformed"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut tshark) = spawned else { return common::skip("no tshark here (scripts/setup --tests)") };
    tshark.stdin.take().unwrap().write_all(&capture).unwrap();
    let output = tshark.wait_with_output().unwrap();
    let lines: Vec<_> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim().to_owned()).collect();
    assert_eq!(lines.len(), packets);
    assert!(
        lines.iter().all(|line| line.parse::<u8>().is_ok()),
        "an opcode and nothing malformed: {lines:?}"
    );
}

#[test]
fn a_silent_peer_ends_the_connection() {
    let Some(mut two) = kernel_asks_emulator(Service::ReliableConnection) else { return };
    everything(&mut two);
    let segment = [two.a.segment(0, 8)];
    two.a.post(1, Work::Write { to: two.b.remote(0), immediate: None }, &segment);
    // Only the asking end moves on: the kernel repeats, and gives up.
    let begun = Instant::now();
    let failed = loop {
        if let Some(done) = two.a.hca.poll(two.a.queue) {
            break done;
        }
        assert!(begun.elapsed() < PATIENCE, "the kernel does not give up");
        std::thread::yield_now();
    };
    assert_eq!(failed.status, weft_api::verbs::CompletionStatus::RetriesExceeded);
}
