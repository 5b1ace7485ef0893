//! Random programs over a bad network: nothing is lost, doubled, reordered or misplaced, and everything ends.

mod common;
#[path = "common/counted.rs"]
mod counted;

use common::*;
use std::collections::VecDeque;
use weft_api::verbs::*;
use weft_sim::{Random, seeds, worlds};

const MEMORY: usize = 1 << 20;
/// The lower half of the memory is what a program writes into by itself; peers write into the upper half.
const COUNTER: u64 = BASE + MEMORY as u64 - 8;

/// One operation of a program, and what must be seen in the end.
struct Issued {
    id: u64,
    work: CompletedWork,
    check: Check,
}

enum Check {
    Nothing,
    /// These bytes stand at the peer's address.
    Remote(u64, Vec<u8>),
    /// These bytes stand at the own address.
    Local(u64, Vec<u8>),
    /// An original value of the counter stands at the own address.
    Original(u64),
}

struct Side {
    end: End,
    issued: VecDeque<Issued>,
    /// Messages that the peer has sent and that we have not seen.
    due: VecDeque<(Vec<u8>, Option<u32>)>,
    /// Receive requests posted, by buffer.
    posted: VecDeque<u64>,
    next_id: u64,
    /// The next free byte in the own lower half, and in the peer's upper half.
    own: u64,
    theirs: u64,
    originals: Vec<u64>,
}

const LARGEST: u64 = 6000;
/// Bytes that two devices may keep when everything is given back: their queues and the room of their lists, 8,800 at most in 3,000
/// worlds. With a queue pair that is never destroyed it is 10,944 at least.
const KEPT: usize = 10_000;

fn bytes(random: &mut Random, length: u64) -> Vec<u8> {
    (0..length).map(|_| random.next() as u8).collect()
}

impl Side {
    fn take_own(&mut self, length: u64) -> u64 {
        self.own += length + 8;
        assert!(self.own < BASE + MEMORY as u64 / 2, "the program fits into the memory");
        self.own - length - 8
    }
}

/// Lets one side do one thing.
fn act(network: &mut Network, sides: &mut [Side; 2], me: usize) {
    let choice = network.random.below(7);
    let length = match network.random.below(4) {
        0 => 0,
        1 => network.random.below(9),
        2 => 1024 * (1 + network.random.below(3)),
        _ => network.random.below(LARGEST),
    };
    let data = bytes(&mut network.random, length);
    let copy = data.clone();
    let immediate = network.random.chance(0.3).then(|| network.random.next() as u32);
    let fence = network.random.chance(0.1);
    let inline = length <= 64 && network.random.chance(0.5);
    let [a, b] = sides;
    let (own, peer) = if me == 0 { (a, b) } else { (b, a) };
    let device = &mut network.devices[own.end.device];
    let key = own.end.keys.local;
    if choice == 0 || own.posted.len() < 2 && network.random.chance(0.3) {
        let at = own.take_own(LARGEST);
        // In two parts, so that packets cross from one to the other.
        let parts = [
            Segment { address: at, length: 1000, key },
            Segment { address: at + 1000, length: LARGEST as u32 - 1000, key },
        ];
        device.post_receive(own.end.pair, at, &parts).unwrap();
        own.posted.push_back(at);
        return;
    }
    let id = own.next_id;
    own.next_id += 1;
    let remote = |address| RemoteAddress { address, key: peer.end.keys.remote };
    let atomic = choice >= 5;
    let address = own.take_own(if atomic { 8 } else { length });
    let reads = choice == 4;
    if !reads && !atomic {
        device.memory_mut().0[(address - BASE) as usize..][..data.len()].copy_from_slice(&data);
    }
    let segment = [Segment { address, length: if atomic { 8 } else { length as u32 }, key }];
    let (work, completed, check) = match choice {
        0..=1 => {
            peer.due.push_back((data, immediate));
            (Work::Send { immediate }, CompletedWork::Send, Check::Nothing)
        }
        2..=3 => {
            let to = own.theirs;
            own.theirs += length + 8;
            if immediate.is_some() {
                peer.due.push_back((vec![0; data.len()], immediate));
            }
            let work = Work::Write { to: remote(to), immediate };
            (work, CompletedWork::Write, Check::Remote(to, data))
        }
        4 => {
            // The peer's upper half is ours to write, so we know what stands at its start: nothing, or what we wrote.
            let from = BASE + MEMORY as u64 - 4096 - LARGEST;
            (
                Work::Read { from: remote(from) },
                CompletedWork::Read,
                Check::Local(address, vec![0xa5; data.len()]),
            )
        }
        5 => {
            let work = Work::FetchAdd { at: remote(COUNTER), add: 1 };
            (work, CompletedWork::FetchAdd, Check::Original(address))
        }
        _ => {
            // Never equal: the counter keeps counting.
            let work = Work::CompareSwap { at: remote(COUNTER), compare: u64::MAX, swap: 0 };
            (work, CompletedWork::CompareSwap, Check::Nothing)
        }
    };
    let (head, tail) = copy.split_at(copy.len() / 3);
    let parts = [head, tail];
    let mut request = WorkRequest { fence, ..WorkRequest::new(id, work, &segment) };
    if inline && !reads && !atomic {
        request.data = Data::Inline(&parts);
    }
    device.post_send(own.end.pair, &request).unwrap();
    own.issued.push_back(Issued { id, work: completed, check });
}

/// Takes completions and compares.
fn observe(network: &mut Network, sides: &mut [Side; 2]) {
    for me in 0..2 {
        let (end, peer) = (sides[me].end, sides[1 - me].end);
        while let Some(done) = network.devices[end.device].poll(end.sends) {
            let issued = sides[me].issued.pop_front().expect("a completion of something issued");
            assert_eq!(
                (done.id, done.work, done.status),
                (issued.id, issued.work, CompletionStatus::Success)
            );
            let own_memory = &network.devices[end.device].memory().0;
            match issued.check {
                Check::Nothing => {}
                Check::Remote(at, expected) => {
                    let there = &network.devices[peer.device].memory().0[(at - BASE) as usize..];
                    assert_eq!(there[..expected.len()], expected, "a write");
                    assert_eq!(there[expected.len()..][..8], [0; 8], "behind a write");
                }
                Check::Local(at, expected) => {
                    let here = &own_memory[(at - BASE) as usize..];
                    assert_eq!(here[..expected.len()], expected, "a read");
                    assert_eq!(here[expected.len()..][..8], [0; 8], "behind a read");
                }
                Check::Original(at) => {
                    let original = own_memory[(at - BASE) as usize..][..8].try_into().unwrap();
                    sides[me].originals.push(u64::from_ne_bytes(original));
                }
            }
        }
        while let Some(done) = network.devices[end.device].poll(end.receives) {
            let at = sides[me].posted.pop_front().expect("a completion of something posted");
            let (expected, immediate) = sides[me].due.pop_front().expect("a message that was sent");
            assert_eq!((done.id, done.status), (at, CompletionStatus::Success));
            assert_eq!((done.bytes as usize, done.immediate), (expected.len(), immediate));
            if done.work == CompletedWork::Receive {
                let here = &network.devices[end.device].memory().0[(at - BASE) as usize..];
                assert_eq!(here[..expected.len()], expected, "a message");
            }
        }
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let bad =
        |p: u64, random: &mut Random| if random.chance(0.5) { random.below(p) as f64 / 100.0 } else { 0.0 };
    let faults = Faults {
        loss: bad(8, &mut random),
        doubling: bad(8, &mut random),
        damage: bad(4, &mut random),
        delay: 1 + random.below(30_000),
    };
    let plan = Plan {
        mtu: [256, 512, 1024, 4096][random.below(4) as usize],
        first_packets: [random.next() as u32 | 0xff_ff80, random.next() as u32 & 0xff_ffff],
        // Often enough that no program ends because the network is bad.
        sending: Sending {
            first_packet: 0,
            timeout: 4,
            retries: 255,
            not_ready_retries: 7,
            max_reads: 1 + random.below(6) as u8,
        },
        ..Plan::default()
    };
    let at: fn(usize) -> std::net::SocketAddr = if seed & 4 == 0 { address } else { address_v6 };
    let mut network = Network::over(at, 2, MEMORY, seed, faults);
    let widest = [8, 32, 128, 512][(seed % 4) as usize];
    network.devices.iter_mut().for_each(|device| device.widen(widest));
    let live = counted::live();
    for device in &mut network.devices {
        let from = MEMORY - 4096 - LARGEST as usize;
        device.memory_mut().0[from..from + LARGEST as usize].fill(0xa5);
    }
    let ends = connect(&mut network, [0, 1], &plan);
    let mut sides = ends.map(|end| Side {
        end,
        issued: VecDeque::new(),
        due: VecDeque::new(),
        posted: VecDeque::new(),
        next_id: 0,
        own: BASE,
        theirs: BASE + MEMORY as u64 / 2,
        originals: Vec::new(),
    });
    for _ in 0..60 {
        for _ in 0..1 + network.random.below(4) {
            let me = network.random.below(2) as usize;
            act(&mut network, &mut sides, me);
        }
        for _ in 0..network.random.below(40) {
            network.step();
        }
        observe(&mut network, &mut sides);
    }
    // Receives for everything that is still due; then all must end.
    for side in &mut sides {
        while side.posted.len() < side.due.len() {
            let (at, key) = (BASE, side.end.keys.local);
            // The last ones share a buffer that nobody compares with: fill it with what is due instead.
            let _ = at;
            let fresh = side.own;
            side.own += LARGEST + 8;
            assert!(side.own < BASE + MEMORY as u64 / 2, "the program fits into the memory");
            let segment = [Segment { address: fresh, length: LARGEST as u32, key }];
            network.devices[side.end.device].post_receive(side.end.pair, fresh, &segment).unwrap();
            side.posted.push_back(fresh);
        }
    }
    let mut steps = 0;
    while sides.iter().any(|side| !side.issued.is_empty() || !side.due.is_empty()) {
        assert!(network.step(), "something is open and nothing moves");
        observe(&mut network, &mut sides);
        steps += 1;
        assert!(steps < 2_000_000, "it does not come to an end");
    }
    let mut originals: Vec<u64> = sides[0].originals.clone();
    let added = originals.len() as u64;
    originals.sort_unstable();
    assert!(originals.iter().copied().eq(0..added), "each addition saw another value: {originals:?}");
    // Nothing is under way any more, and nothing is kept of what was.
    network.settle();
    for end in ends {
        let device = &mut network.devices[end.device];
        device.destroy_queue_pair(end.pair).unwrap();
        device.deregister(end.keys.local).unwrap();
        assert_eq!(
            (device.deadline(), device.poll(end.sends), device.poll(end.receives)),
            (None, None, None)
        );
    }
    drop((sides, originals));
    let kept = counted::live().saturating_sub(live);
    assert!(kept <= KEPT, "{kept} bytes are kept");
}

#[test]
fn random_programs_over_a_bad_network() {
    worlds(seeds(300), run);
}
