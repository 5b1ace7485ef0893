//! Windows (chapter 12) over described devices that work by themselves, at any moment: accumulating operations on the same elements
//! by their owner, by neighbours that send it messages, and by those that have its device change them.
//!
//! The ranks are threads, each with an engine and a device of its own; where the device is atomic among its own operations only, it
//! really is no more, so that a window that counts on more loses something.

mod common;

use common::Cards;
use common::described::{count, port};
use common::fabric::open;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use weft::group::Group;
use weft::info::Info;
use weft::window::{
    Elements, Extent, Flavor, LockKind, Operation, Parts, Target, UNEXPOSED, Window, Windows,
};
use weft_datatype::{Datatype, Memory, PredefinedOp};
use weft_engine::{Changes, Engine, EngineConfig, Fabric, MemoryRange, RemoteMemory, Transports, Wished};
use weft_types::{ContextId, Handle, PeerId, Rank, abi};

const WORDS: usize = 4;
const BYTES: u64 = 8 * WORDS as u64;
/// Ranks that go by messages, like neighbours in the owner's node: 0 is the owner.
const NEIGHBOUR: u32 = 1;
const RANKS: u32 = 4;

const SUM: (PredefinedOp, u32) = (PredefinedOp::Sum, abi::MPI_SUM);
const OR: (PredefinedOp, u32) = (PredefinedOp::Bor, abi::MPI_BOR);
const REPLACE: (PredefinedOp, u32) = (PredefinedOp::Replace, abi::MPI_REPLACE);
const MAX: (PredefinedOp, u32) = (PredefinedOp::Max, abi::MPI_MAX);
const LOOK: (PredefinedOp, u32) = (PredefinedOp::NoOp, abi::MPI_NO_OP);

fn number() -> Datatype {
    Datatype::from(Datatype::predefined(abi::MPI_UINT64_T).expect("predefined"))
}

fn words(memory: &Memory, number: usize) -> Vec<u64> {
    let mut bytes = vec![0; 8 * number];
    memory.send_view(0, 0, bytes.len() as u64).pack(0, &mut bytes);
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

fn elements(values: &[u64]) -> Elements {
    let memory = Memory::packed_scratch(8 * values.len());
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    memory.recv_view(0, 0, bytes.len() as u64).unpack(0, &bytes);
    Elements { memory, bytes: bytes.len() as u64 }
}

/// Elements of rank 0's memory.
fn at(disp: usize, count: u64) -> Target {
    Target { rank: 0, disp: disp as i64, count, datatype: number() }
}

/// What the ranks, which are threads, share.
struct Job {
    device: String,
    cards: Cards,
    barrier: Barrier,
    /// What each exposes, and what others may have its device change.
    places: Mutex<Vec<(RemoteMemory, Changes)>>,
    done: AtomicU32,
    /// How many have come to a place where they meet.
    met: AtomicU32,
    /// Somebody has failed: nobody waits for him.
    failed: AtomicBool,
}

/// One rank.
struct Process<'a> {
    job: &'a Job,
    rank: u32,
    engine: Engine,
    windows: Windows,
    handle: Handle,
    memory: Memory,
}

impl Job {
    fn new(device: &str) -> Job {
        Job {
            device: device.to_owned(),
            cards: Cards::default(),
            barrier: Barrier::new(RANKS as usize),
            places: Mutex::new(vec![(UNEXPOSED, Changes::None); RANKS as usize]),
            done: AtomicU32::new(0),
            met: AtomicU32::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// A rank with its part of a window. Collective.
    fn process(&self, rank: u32) -> Process<'_> {
        let rdma = open(&port(&self.device), rank as usize, self.cards.clone());
        loop {
            // In the order of the ranks.
            let mut cards = self.cards.0.lock().unwrap();
            if cards.len() == rank as usize {
                cards.push(rdma.card());
                break;
            }
            drop(cards);
            std::thread::yield_now();
        }
        let config = EngineConfig::new(PeerId(rank), RANKS);
        let mut engine = Engine::new(config, Transports::over(Fabric::Verbs(rdma))).expect("an engine");
        self.barrier.wait();
        let memory = Memory::packed_scratch(BYTES as usize);
        let range = MemoryRange { address: memory.address() as u64, length: BYTES };
        let others = (0..RANKS).filter(|&other| other != rank).map(PeerId);
        let (region, changes) =
            engine.expose(range, others, Wished::Everywhere).expect("the device takes it");
        self.places.lock().unwrap()[rank as usize] = (region.remote, changes);
        self.barrier.wait();
        let places = self.places.lock().unwrap().clone();
        let mut windows = Windows::default();
        let extent = |&(_, changes): &(_, Changes)| Extent { size: BYTES, unit: 8, changes };
        let parts = Parts {
            comm: Handle(abi::MPI_COMM_NULL),
            context: ContextId::FIRST_FREE,
            rank: Rank(rank),
            group: Arc::new(Group::world(RANKS)),
            flavor: Flavor::Create,
            memory: memory.clone(),
            extents: places.iter().map(extent).collect(),
            mapped: Vec::new(),
            places: match rank {
                // It knows of its own part alone.
                NEIGHBOUR => {
                    let known = |(of, &(place, _))| if of == rank as usize { place } else { UNEXPOSED };
                    places.iter().enumerate().map(known).collect()
                }
                _ => places.iter().map(|&(place, _)| place).collect(),
            },
            exposed: Some(region.id),
            keep: None,
            hints: Info::default(),
        };
        let handle = windows.insert(parts).expect("room");
        Process { job: self, rank, engine, windows, handle, memory }
    }

    /// Runs one thread a rank; each ends when all have.
    fn run<T: Send>(&self, program: impl Fn(&mut Process<'_>) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..RANKS)
                .map(|rank| {
                    let program = &program;
                    scope.spawn(move || {
                        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                            let mut process = self.process(rank);
                            let result = program(&mut process);
                            self.done.fetch_add(1, Ordering::Release);
                            process.until(|process| process.job.done.load(Ordering::Acquire) == RANKS);
                            result
                        }));
                        self.failed.fetch_or(result.is_err(), Ordering::Release);
                        result.unwrap_or_else(|why| std::panic::resume_unwind(why))
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().expect("a rank")).collect()
        })
    }
}

impl Process<'_> {
    fn window(&mut self) -> (&mut Window, &mut Engine) {
        (self.windows.get_mut(self.handle).expect("alive"), &mut self.engine)
    }

    /// Makes progress until something is so.
    fn until(&mut self, is_so: impl Fn(&mut Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            if !(self.engine.progress() | self.windows.progress(&mut self.engine)) {
                std::thread::yield_now();
            }
            assert!(!self.job.failed.load(Ordering::Acquire), "another rank has failed");
            assert!(begun.elapsed() < Duration::from_secs(120), "rank {} is stuck", self.rank);
        }
    }

    /// Makes progress until so many have come here.
    fn meet(&mut self, number: u32) {
        self.job.met.fetch_add(1, Ordering::Release);
        self.until(|process| process.job.met.load(Ordering::Acquire) >= number);
    }

    fn settle(&mut self) {
        self.until(|process| process.window().0.is_settled(None));
        assert!(self.window().0.take_error().is_none());
    }

    fn wait(&mut self, operation: Operation) {
        self.until(|_| operation.is_done());
    }

    fn accumulate(
        &mut self,
        values: &[u64],
        fetches: bool,
        disp: usize,
        op: (PredefinedOp, u32),
    ) -> Vec<u64> {
        let (from, found) = (elements(values), elements(&vec![0; values.len()]));
        let to = at(disp, values.len() as u64);
        let basic = number();
        let (window, engine) = self.window();
        let given = (op != LOOK).then_some((&from, &basic));
        let operation =
            window.accumulate(engine, given, fetches.then_some(&found), &to, op).expect("allowed");
        if fetches {
            self.wait(operation);
        }
        words(&found.memory, values.len())
    }

    fn swap(&mut self, compare: u64, new: u64, disp: usize) -> u64 {
        let found = elements(&[0]);
        let to = at(disp, 1);
        let (window, engine) = self.window();
        let operation = window
            .compare_and_swap(engine, (&elements(&[compare]), &elements(&[new])), &found, &to)
            .expect("allowed");
        self.wait(operation);
        words(&found.memory, 1)[0]
    }

    fn flush(&mut self) {
        let (window, engine) = self.window();
        window.flush(engine, None).expect("locked");
        self.settle();
    }
}

/// Every rank adds to the words of rank 0 by all ways at once. Answers what others could have the device change.
fn everybody_adds(device: &str, turns: u64) -> Changes {
    let job = Job::new(device);
    // What was added to each word, and what sums found in the first.
    let added: [AtomicU64; WORDS] = Default::default();
    let found: Mutex<Vec<u64>> = Mutex::default();
    let adds = |word: usize, number: u64| {
        added[word].fetch_add(number, Ordering::Relaxed);
    };
    let finals = job.run(|process| {
        let rank = process.rank;
        let (window, engine) = process.window();
        window.lock_all(engine, false).expect("no epoch");
        for turn in 0..turns {
            // One element, whose value is wanted: the device's.
            let old = process.accumulate(&[1], true, 0, SUM)[0];
            found.lock().unwrap().push(old);
            adds(0, 1);
            // Some that go without waiting, of one element and of two.
            for one in 0..3 {
                process.accumulate(&[turn], false, 1, SUM);
                adds(1, turn);
                if one == 1 {
                    process.accumulate(&[5, 7], false, 1, SUM);
                    adds(1, 5);
                    adds(2, 7);
                }
            }
            // A sum by swaps.
            let seen = process.accumulate(&[0], true, 2, LOOK)[0];
            if process.swap(seen, seen + 100, 2) == seen {
                adds(2, 100);
            }
            // Bits that no device sets, beside sums that one does.
            process.accumulate(&[1 << (50 + rank)], turn % 2 == 0, 3, OR);
            process.accumulate(&[1], turn % 2 == 1, 3, SUM);
            adds(3, 1);
            if turn % 8 == 7 {
                process.flush();
            }
        }
        // The owner is always at its own words, all of them, while anybody else is.
        while rank == 0 && process.job.done.load(Ordering::Acquire) < RANKS - 1 {
            for _ in 0..64 {
                process.accumulate(&[1, 1, 1, 1], false, 0, SUM);
                (0..WORDS).for_each(|word| adds(word, 1));
            }
            process.engine.progress();
            process.windows.progress(&mut process.engine);
            assert!(!process.job.failed.load(Ordering::Acquire), "another rank has failed");
        }
        process.flush();
        let (window, engine) = process.window();
        window.unlock_all(engine).expect("locked");
        process.settle();
        (rank == 0).then(|| words(&process.memory, WORDS))
    });
    let finals = finals.into_iter().flatten().next().expect("rank 0 has said so");
    let mut sums: Vec<u64> = added.iter().map(|added| added.load(Ordering::Relaxed)).collect();
    sums[3] |= (0..RANKS).map(|rank| 1 << (50 + rank)).sum::<u64>();
    assert_eq!(finals, sums, "{device}");
    let found = found.into_inner().unwrap();
    assert_eq!(BTreeSet::from_iter(found.iter().copied()).len(), found.len(), "{device}: found twice");
    job.places.lock().unwrap()[0].1
}

#[test]
fn sums_are_exact_where_the_device_is_atomic_towards_processors() {
    assert_eq!(everybody_adds("card6", 60), Changes::AtAnyMoment);
}

/// A card that calls itself atomic alone, and changes numbers by the bus's atomics: those have no order, so that each waits for the
/// one before.
#[test]
fn sums_are_exact_where_the_device_goes_by_the_atomics_of_the_bus() {
    assert_eq!(everybody_adds("bus6", 60), Changes::AtAnyMoment);
    assert!(count("bus6", "fenced") > 0);
}

/// As most cards, and the kernel's soft-RoCE: everything is the device's, which really excludes nothing else.
#[test]
fn sums_are_exact_where_the_device_is_atomic_alone() {
    assert_eq!(everybody_adds("soft6", 30), Changes::Alone);
    assert_eq!(everybody_adds("narrowbus6", 10), Changes::Alone, "by the bus not those of eight bytes");
}

/// Nothing is left to a device without atomics.
#[test]
fn sums_are_exact_where_the_device_has_no_atomics() {
    assert_eq!(everybody_adds("old6", 10), Changes::None);
}

/// Whoever holds the lock of the window alone looks, and stores one more: the end of an epoch waits for all that the device was asked
/// for, by the owner too.
#[test]
fn the_end_of_an_epoch_waits_for_the_device() {
    const TURNS: u64 = 25;
    const SUMS: u64 = 20;
    for device in ["soft8", "card8"] {
        let job = Job::new(device);
        let finals = job.run(|process| {
            for turn in 0..TURNS {
                let (window, engine) = process.window();
                window.lock(engine, 0, Some(LockKind::Exclusive)).expect("no epoch");
                process.settle();
                let found = elements(&[0; 2]);
                let (window, engine) = process.window();
                let operation = window.get(engine, &found, &at(0, 2)).expect("locked");
                process.wait(operation);
                let seen = words(&found.memory, 2);
                assert_eq!(seen[0], seen[1], "{device}: one of them was not yet there");
                // Of two elements, and what no device has an atomic for: a line of them, and what counts is the last.
                for _ in 0..SUMS {
                    process.accumulate(&[turn, 1], false, 2, SUM);
                }
                process.accumulate(&[turn + 1], false, 2, MAX);
                process.accumulate(&[seen[0] + 1; 2], false, 0, REPLACE);
                let (window, engine) = process.window();
                window.unlock(engine, 0).expect("locked");
                process.settle();
            }
            process.meet(RANKS);
            (process.rank == 0).then(|| words(&process.memory, WORDS))
        });
        let finals = finals.into_iter().flatten().next().expect("rank 0 has said so");
        let all = TURNS * u64::from(RANKS);
        assert_eq!([finals[0], finals[1], finals[3]], [all, all, SUMS * all], "{device}");
    }
}

/// What the device does is a work request, and nothing is asked of the owner: it does not even look.
#[test]
fn a_number_is_one_request_and_no_message() {
    for device in ["card7", "bus7", "soft7"] {
        let fenced = requests_of_numbers(device);
        assert_eq!(fenced, if device == "bus7" { 5 } else { 0 }, "{device}");
    }
}

/// As the name says; how many of them waited for those before.
fn requests_of_numbers(device: &str) -> u64 {
    let job = Job::new(device);
    let counted = job.run(|process| {
        let (window, engine) = process.window();
        window.lock_all(engine, false).expect("no epoch");
        // Connected, and the owner has nothing more to do.
        if process.rank == 2 {
            process.accumulate(&[1], true, 0, SUM);
        }
        process.flush();
        process.meet(RANKS);
        let mut requests = Vec::new();
        if process.rank == 2 {
            let mut request = |change: &dyn Fn(&mut Process<'_>)| {
                let before = process.engine.device_work().0;
                change(process);
                process.flush();
                requests.push(process.engine.device_work().0 - before);
            };
            request(&|process| assert_eq!(process.accumulate(&[4], true, 0, SUM), [1]));
            request(&|process| drop(process.accumulate(&[4], false, 0, SUM)));
            request(&|process| assert_eq!(process.accumulate(&[0], true, 0, LOOK), [9]));
            request(&|process| assert_eq!(process.swap(9, 20, 0), 9));
            process.job.met.fetch_add(1, Ordering::Release);
        }
        // The others wait without a call.
        while process.rank != 2 && process.job.met.load(Ordering::Acquire) == RANKS {
            std::thread::sleep(Duration::from_millis(1));
            assert!(!process.job.failed.load(Ordering::Acquire));
        }
        let (window, engine) = process.window();
        window.unlock_all(engine).expect("locked");
        process.settle();
        (requests, words(&process.memory, 1)[0])
    });
    assert_eq!((counted[2].0.as_slice(), counted[0].1), (&[1; 4][..], 20), "{device}");
    count(device, "fenced")
}
