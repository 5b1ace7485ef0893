//! Windows between simulated ranks: random operations under random delays against plain arithmetic.

use super::*;
use crate::window::message::predefined;
use std::cell::RefCell;
use weft_datatype::PredefinedOp;
use weft_engine::world::World;
use weft_engine::{Envelope, Selector, SendMode, Started};
use weft_types::{PeerId, Tag};

const SLOTS: u64 = 3000;

fn window(rank: u32, ranks: u32) -> (Windows, Handle) {
    window_with(Changes::None, rank, ranks)
}

/// One that devices could change: the owner takes its steps, whether there are any.
fn window_with(changes: Changes, rank: u32, ranks: u32) -> (Windows, Handle) {
    let mut windows = Windows::default();
    let bytes = SLOTS * 8;
    let handle = windows
        .insert(Parts {
            comm: Handle(abi::MPI_COMM_NULL),
            context: ContextId::FIRST_FREE,
            rank: Rank(rank),
            group: Arc::new(Group::world(ranks)),
            flavor: Flavor::Create,
            memory: Memory::packed_scratch(bytes as usize),
            extents: vec![Extent { changes, ..Extent::new(bytes, 8) }; ranks as usize],
            mapped: Vec::new(),
            places: Vec::new(),
            exposed: None,
            keep: None,
            hints: Info::default(),
        })
        .expect("room");
    (windows, handle)
}

/// Words of this process that an operation reads or writes.
struct Words(Elements);

impl Words {
    fn values(&self) -> Vec<u64> {
        let mut bytes = vec![0; self.0.bytes as usize];
        self.0.memory.send_view(0, 0, self.0.bytes).pack(0, &mut bytes);
        let word = |bytes: &[u8]| u64::from_le_bytes(std::array::from_fn(|byte| bytes[byte]));
        bytes.chunks_exact(8).map(word).collect()
    }
}

fn elements(values: &[u64]) -> Words {
    let memory = Memory::packed_scratch(values.len() * 8);
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    memory.recv_view(0, 0, bytes.len() as u64).unpack(0, &bytes);
    Words(Elements { memory, bytes: bytes.len() as u64 })
}

fn target(rank: u32, disp: u64, count: u64) -> Target {
    Target { rank, disp: disp as i64, count, datatype: predefined(abi::MPI_UINT64_T).expect("predefined") }
}

const SUM: (PredefinedOp, u32) = (PredefinedOp::Sum, abi::MPI_SUM);

/// Every rank locks the window of rank 0 again and again, reads a counter, and writes it back increased: with an exclusive
/// lock nothing is lost, whatever the delays.
#[test]
fn an_exclusive_lock_makes_read_and_write_one_step() {
    #[derive(Clone, Copy, PartialEq)]
    enum Step {
        Lock,
        Read,
        Write,
        Unlock,
    }
    const TURNS: u32 = 8;
    for seed in 0..12 {
        let ranks = 4;
        let mut world = World::new(ranks).seed(seed).full(0.2).build();
        let all: RefCell<Vec<(Windows, Handle)>> =
            RefCell::new((0..ranks).map(|rank| window(rank, ranks)).collect());
        let mut finished = vec![false; ranks as usize];
        let mut programs: Vec<(Step, u32, Option<Words>)> =
            (0..ranks).map(|_| (Step::Lock, 0, None)).collect();
        world.run(2_000_000, |rank, engine| {
            let (windows, handle) = &mut all.borrow_mut()[rank as usize];
            windows.progress(engine);
            let window = windows.get_mut(*handle).expect("alive");
            let (step, turns, value) = &mut programs[rank as usize];
            if *turns == TURNS || !window.is_settled(None) {
                // Whoever is done goes on serving the others.
                finished[rank as usize] = *turns == TURNS && window.is_settled(None);
                return finished.iter().all(|&finished| finished);
            }
            *step = match *step {
                Step::Lock => {
                    window.lock(engine, 0, Some(LockKind::Exclusive)).expect("not locked");
                    Step::Read
                }
                Step::Read => {
                    let room = elements(&[0]);
                    window.get(engine, &room.0, &target(0, 7, 1)).expect("locked");
                    *value = Some(room);
                    Step::Write
                }
                Step::Write => {
                    let read = value.take().expect("read before").values()[0];
                    window.put(engine, &elements(&[read + 1]).0, &target(0, 7, 1)).expect("locked");
                    Step::Unlock
                }
                Step::Unlock => {
                    window.unlock(engine, 0).expect("locked");
                    *turns += 1;
                    Step::Lock
                }
            };
            false
        });
        let (windows, handle) = &mut all.borrow_mut()[0];
        let window = windows.get_mut(*handle).expect("alive");
        window.lock(&mut world.engines[0], 0, Some(LockKind::Exclusive)).expect("free");
        let read = elements(&[0]);
        window.get(&mut world.engines[0], &read.0, &target(0, 7, 1)).expect("locked");
        assert_eq!(read.values(), [u64::from(ranks * TURNS)], "seed {seed}");
    }
}

/// Accumulates, large and small, of all ranks to all: sums are right, fetched values never repeat, and one origin's
/// operations on one place happen in their order.
#[test]
fn accumulates_are_atomic_and_ordered() {
    for seed in 0..8 {
        let ranks = 3;
        let changes = if seed % 2 == 0 { Changes::None } else { Changes::AtAnyMoment };
        let mut world = World::new(ranks).seed(seed).full(0.2).build();
        let all: RefCell<Vec<(Windows, Handle)>> =
            RefCell::new((0..ranks).map(|rank| window_with(changes, rank, ranks)).collect());
        let mut turns = vec![0; ranks as usize];
        let mut finished = vec![false; ranks as usize];
        let fetched: RefCell<Vec<Words>> = RefCell::new(Vec::new());
        world.run(2_000_000, |rank, engine| {
            let (windows, handle) = &mut all.borrow_mut()[rank as usize];
            windows.progress(engine);
            let window = windows.get_mut(*handle).expect("alive");
            let turn = &mut turns[rank as usize];
            if *turn > 0 && *turn % 4 == 3 && !window.is_settled(None) {
                return false;
            }
            match *turn {
                0 => window.lock_all(engine, true).expect("closed"),
                1..=20 => {
                    let to = (rank + *turn) % ranks;
                    let word = predefined(abi::MPI_UINT64_T).expect("predefined");
                    let large = elements(&vec![1; SLOTS as usize - 1]);
                    let whole = target(to, 1, SLOTS - 1);
                    window.accumulate(engine, Some((&large.0, &word)), None, &whole, SUM).expect("allowed");
                    let (one, old) = (elements(&[1]), elements(&[0]));
                    window
                        .accumulate(engine, Some((&one.0, &word)), Some(&old.0), &target(0, 0, 1), SUM)
                        .expect("allowed");
                    fetched.borrow_mut().push(old);
                }
                21 => window.unlock_all(engine).expect("locked"),
                // Whoever is done goes on serving the others.
                _ => {
                    finished[rank as usize] = window.is_settled(None);
                    return finished.iter().all(|&finished| finished);
                }
            }
            *turn += 1;
            false
        });
        let mut old: Vec<u64> = fetched.borrow().iter().map(|words| words.values()[0]).collect();
        old.sort_unstable();
        assert_eq!(old, (0..u64::from(ranks) * 20).collect::<Vec<_>>(), "seed {seed}");
        for (rank, (windows, handle)) in all.borrow_mut().iter_mut().enumerate() {
            let window = windows.get_mut(*handle).expect("alive");
            window.open_fence(true);
            let sums = elements(&vec![0; SLOTS as usize - 1]);
            window
                .get(&mut world.engines[rank], &sums.0, &target(rank as u32, 1, SLOTS - 1))
                .expect("a fence is open");
            let first = sums.values()[0];
            assert!(first > 0 && sums.values().iter().all(|&sum| sum == first), "seed {seed}");
        }
    }
}

#[test]
fn operations_outside_epochs_and_windows_are_refused_at_once() {
    let mut world = World::new(2).build();
    let (mut windows, handle) = window(0, 2);
    let window = windows.get_mut(handle).expect("alive");
    let engine = &mut world.engines[0];
    let one = elements(&[1]);
    let class = |result: Result<Operation>| result.expect_err("refused").class();
    assert_eq!(class(window.put(engine, &one.0, &target(1, 0, 1))), ErrorClass::RMA_SYNC);
    window.open_fence(true);
    assert_eq!(class(window.put(engine, &one.0, &target(1, SLOTS, 1))), ErrorClass::RMA_RANGE);
    assert_eq!(class(window.put(engine, &one.0, &target(1, u64::MAX, 1))), ErrorClass::RMA_RANGE);
    assert_eq!(class(window.get(engine, &one.0, &target(1, 0, 2))), ErrorClass::TRUNCATE);
    window.put(engine, &one.0, &target(1, SLOTS - 1, 1)).expect("the last place");
    assert_eq!(
        window.lock(engine, 1, None).expect_err("operations were started").class(),
        ErrorClass::RMA_SYNC
    );
}

/// Whoever waits for an exposure or access epoch of a process that dies is told so, and can go on.
#[test]
fn epochs_end_when_the_other_side_dies() {
    let mut world = World::new(3).build();
    let (mut windows, handle) = window(0, 3);
    let dead = std::collections::BTreeSet::from([1]);
    let waiting = windows.get_mut(handle).expect("alive");
    waiting.check_start().expect("no epoch");
    assert_eq!(waiting.try_start(&world.engines[0], &dead), Ok(false));
    waiting.post(&mut world.engines[0], dead.clone()).expect("no epoch");
    assert_eq!(waiting.try_end_exposure(&world.engines[0]), Ok(false));
    world.kill(1);
    world.settle();
    let engine = &mut world.engines[0];
    windows.progress(engine);
    let waiting = windows.get_mut(handle).expect("alive");
    let class = |result: Result<bool>| result.expect_err("gone").class();
    assert_eq!(class(waiting.try_start(engine, &dead)), ErrorClass::PROC_ABORTED);
    assert_eq!(class(waiting.try_end_exposure(engine)), ErrorClass::PROC_ABORTED);
    assert_eq!(class(waiting.try_end_exposure(engine)), ErrorClass::RMA_SYNC, "the epoch is over");
    waiting.check_free().expect("nothing is open");
}

/// Sends what a broken origin could.
fn sends(engine: &mut Engine, to: u32, tag: i32, bytes: &[u8]) {
    let envelope = Envelope {
        peer: PeerId(to),
        context: ContextId::FIRST_FREE,
        source: Rank(engine.config().me.0),
        tag: Tag(tag),
    };
    if let Started::Pending(request) =
        engine.send(envelope, SendMode::Standard, target::copy_of(bytes)).expect("alive")
    {
        engine.release(request);
    }
}

#[test]
fn an_origin_that_sends_nonsense_is_lost_and_others_are_served() {
    for nonsense in [&b"no message"[..], &message::Message::bare(message::Kind::Flush, 0, 1).emit()[..40]] {
        let mut world = World::new(3).build();
        let mut all: Vec<_> = (0..3).map(|rank| window(rank, 3)).collect();
        sends(&mut world.engines[1], 0, 0, nonsense);
        for _ in 0..2 {
            world.settle();
            all[0].0.progress(&mut world.engines[0]);
        }
        assert!(world.engines[0].is_lost(PeerId(1)) && !world.engines[0].is_lost(PeerId(2)));
        let handle = all[2].1;
        let locking = all[2].0.get_mut(handle).expect("alive");
        locking.lock(&mut world.engines[2], 0, Some(LockKind::Shared)).expect("free");
        for _ in 0..4 {
            for rank in [0, 2] {
                all[rank].0.progress(&mut world.engines[rank]);
            }
            world.settle();
        }
        assert!(all[2].0.get_mut(handle).expect("alive").is_settled(None), "the lock is held");
    }
}

#[test]
fn an_origin_hears_of_data_that_do_not_fit_and_of_a_lock_that_it_does_not_hold() {
    use message::{Kind, Message};
    let answer = |engine: &mut Engine, id: u32| -> ErrorClass {
        let room = weft_datatype::Scratch::new(target::ANSWER);
        let from = Selector {
            context: ContextId::FIRST_FREE,
            peer: Some(PeerId(0)),
            source: Some(Rank(0)),
            tag: Some(target::tag_back(id)),
        };
        let request = engine.recv(from, room.recv_buf(0, target::ANSWER)).expect("room");
        assert!(engine.is_complete(request), "it was answered");
        assert_eq!(engine.take(request).error, None);
        let mut bytes = [0; target::ANSWER];
        room.send_buf(0, target::ANSWER).pack(0, &mut bytes);
        ErrorClass(i32::from_le_bytes(bytes))
    };
    for (kind, expected) in [(Kind::Flush, ErrorClass::TRUNCATE), (Kind::Unlock, ErrorClass::RMA_SYNC)] {
        let mut world = World::new(2).build();
        let (mut windows, _) = window(0, 2);
        if kind == Kind::Flush {
            let put = Message { count: 8, bytes: 8, ..Message::bare(Kind::PutFar, 0, 1) };
            sends(&mut world.engines[1], 0, 0, &put.emit());
            sends(&mut world.engines[1], 0, target::tag_forth(1).0, &[7; 9]);
        }
        sends(&mut world.engines[1], 0, 0, &Message::bare(kind, 0, 2).emit());
        for _ in 0..4 {
            world.settle();
            windows.progress(&mut world.engines[0]);
        }
        world.settle();
        assert_eq!(answer(&mut world.engines[1], 2), expected, "{kind:?}");
    }
}
