//! Nonblocking collectives in streams over real shared memory, one thread for each member: random sequences with several under
//! way, completed in any order, with waiting that really sleeps; members that start and then do something else.

mod node;

use std::sync::mpsc;
use weft_coll::rounds::{Room, Shape};
use weft_datatype::{Datatype, Kernel, Memory, PredefinedOp};
use weft_engine::{Arguments, Engine, RequestId, RoundsCall, Stream, Waiter, needs_slots_later, wanted_room};
use weft_sim::Random;
use weft_types::{ContextId, PeerId, abi};

/// The number of the first call: numbers wrap.
const FIRST: u32 = u32::MAX - 5;

fn word() -> Datatype {
    Datatype::from(Datatype::predefined(abi::MPI_UINT64_T).expect("predefined"))
}

fn kernel() -> Kernel {
    PredefinedOp::Sum.kernel(&word()).expect("defined")
}

fn memory(values: &[u64]) -> Memory {
    let memory = Memory::scratch(&word(), values.len().max(1) as u64).expect("memory");
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    memory.recv_view(0, 0, bytes.len() as u64).unpack(0, &bytes);
    memory
}

fn values(memory: &Memory, count: usize) -> Vec<u64> {
    let mut bytes = vec![0; count * 8];
    memory.send_view(0, 0, bytes.len() as u64).pack(0, &mut bytes);
    bytes.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight"))).collect()
}

/// One member with its stream.
struct Member {
    me: u32,
    ranks: u32,
    engine: Engine,
    stream: Stream,
    /// Calls started.
    calls: u32,
}

impl Member {
    fn wait(&mut self, request: RequestId, oversubscribed: bool) {
        let bell = self.engine.bell();
        let mut waiter = Waiter::new(oversubscribed, 2000);
        loop {
            self.engine.progress();
            if self.engine.is_complete(request) {
                waiter.finish(&bell);
                assert!(self.engine.take(request).error.is_none());
                return;
            }
            waiter.pause(&bell);
        }
    }

    fn start(&mut self, shape: Shape, bytes: u64, arguments: &Arguments) -> RequestId {
        self.try_start(shape, bytes, arguments).expect("it fits a cell, and nobody has left")
    }

    fn try_start(&mut self, shape: Shape, bytes: u64, arguments: &Arguments) -> Option<RequestId> {
        let number = self.calls;
        self.calls = self.calls.wrapping_add(1);
        let started = self.engine.start_in_stream(&self.stream, number, |rounds| {
            RoundsCall::unattended(rounds, (shape, bytes, 8), arguments.clone(), Some(kernel()), false)
        });
        started.expect("a request")
    }

    /// Waits; whether it ended well.
    fn ends_well(&mut self, request: RequestId) -> bool {
        let bell = self.engine.bell();
        let mut waiter = Waiter::new(true, 0);
        while !self.engine.is_complete(request) {
            self.engine.progress();
            waiter.pause(&bell);
        }
        waiter.finish(&bell);
        self.engine.take(request).error.is_none()
    }

    /// Starts an allreduce, and answers it with its result to be and what it must be.
    fn allreduce(&mut self, number: u64, count: usize) -> (RequestId, Memory, Vec<u64>) {
        let value =
            |member: u32, at: usize| number.wrapping_mul(0x1_0001) + u64::from(member) * 7 + at as u64;
        let mine: Vec<u64> = (0..count).map(|at| value(self.me, at)).collect();
        let arguments = Arguments::new(memory(&mine), memory(&vec![0; count]));
        let request = self.start(Shape::Allreduce, count as u64 * 8, &arguments);
        let sums = (0..count).map(|at| (0..self.ranks).map(|member| value(member, at)).sum()).collect();
        (request, arguments.recv, sums)
    }
}

/// Runs `work` at every member, in a thread each.
fn members(ranks: u32, oversubscribed: bool, work: impl Fn(Member) + Send + Sync) {
    let mut engines = node::engines(ranks, oversubscribed);
    let block = engines[0].take_block(ranks, false);
    let slots = engines[0].take_block(ranks, true);
    assert!(block != 0 && slots != 0);
    std::thread::scope(|scope| {
        for (me, mut engine) in (0..ranks).zip(engines) {
            let work = &work;
            scope.spawn(move || {
                let peers: Vec<PeerId> = (0..ranks).map(PeerId).collect();
                let mut rounds = engine.join_rounds(block, me, &peers).expect("joined");
                rounds.cells().join_in(FIRST);
                while rounds.cells_here().absent() != 0 {
                    std::thread::yield_now();
                }
                let stream = engine.open_stream(rounds, ContextId(8).collective(), peers);
                engine.add_slots_to(&stream, slots).expect("added");
                work(Member { me, ranks, engine, stream, calls: FIRST });
            });
        }
    });
}

fn random_sequences(ranks: u32, oversubscribed: bool) {
    let seed = u64::from(ranks) * 91;
    println!("seed {seed}");
    members(ranks, oversubscribed, |mut member| {
        // What is called is the same at all, what is waited for first is not.
        let (mut calls, mut own) = (Random::new(seed), Random::new(seed + 1 + u64::from(member.me)));
        for number in 0..30 {
            let mut pending = Vec::new();
            for call in 0..1 + calls.below(20) {
                let number = number * 100 + call;
                if calls.below(4) == 0 {
                    let nothing = Arguments::new(Memory::none(), Memory::none());
                    pending.push((member.start(Shape::Barrier, 0, &nothing), Memory::none(), Vec::new()));
                } else {
                    // In a cell, in a slot, in several.
                    let most = [14, 14, 14, 14, 2_000, 20_000][calls.below(6) as usize];
                    pending.push(member.allreduce(number, 1 + calls.below(most) as usize));
                }
            }
            while !pending.is_empty() {
                let (request, result, expected) =
                    pending.swap_remove(own.below(pending.len() as u64) as usize);
                member.wait(request, oversubscribed);
                if !expected.is_empty() {
                    assert_eq!(values(&result, expected.len()), expected, "seed {seed}, turn {number}");
                }
            }
        }
    });
}

#[test]
fn random_sequences_with_many_under_way() {
    random_sequences(2, false);
    random_sequences(3, true);
    random_sequences(5, true);
}

#[test]
fn who_starts_and_then_does_something_else_leaves_nobody_asleep() {
    let (told, heard) = mpsc::channel();
    let heard = std::sync::Mutex::new(Some(heard));
    members(4, true, |mut member| {
        for number in 0..50 {
            let (request, result, expected) = member.allreduce(number, 3);
            if u64::from(member.me) == 0 {
                // Not one look at the engine until all others are done.
                let heard = heard.lock().expect("not poisoned");
                let heard = heard.as_ref().expect("there");
                (1..member.ranks).for_each(|_| heard.recv().expect("they say so"));
            } else {
                member.wait(request, true);
                assert_eq!(values(&result, expected.len()), expected);
                told.send(()).expect("heard");
                continue;
            }
            member.wait(request, true);
        }
    });
}

/// Starts broadcasts from member 0, with `more` under way at a time, until the stream has ended; then the number of the first
/// call that goes another way. `check`: what each started call came to, by number.
fn until_over(member: &mut Member, root: u32, more: usize, mut check: impl FnMut(u32, bool)) -> u32 {
    let mut pending = Vec::new();
    loop {
        let data = memory(&[u64::from(member.calls)]);
        let arguments = Arguments::new(Memory::none(), data);
        let number = member.calls;
        let started = member.try_start(Shape::Bcast { root }, 8, &arguments);
        pending.extend(started.map(|request| (number, request)));
        if started.is_none() || pending.len() > more {
            for (number, request) in pending.drain(..) {
                let well = member.ends_well(request);
                check(number, well);
            }
        }
        if started.is_none() {
            return number;
        }
    }
}

/// The numbers that all members ended at.
fn same_end(ends: &std::sync::Mutex<Vec<u32>>, members: usize) {
    let ends = ends.lock().expect("not poisoned");
    assert_eq!(ends.len(), members);
    assert!(ends.iter().all(|end| end == &ends[0]), "{ends:?}");
}

#[test]
fn a_member_that_is_gone_ends_the_stream_of_all_before_the_same_call() {
    for more in [0, 3] {
        let ends = std::sync::Mutex::new(Vec::new());
        let any_failed = std::sync::atomic::AtomicBool::new(false);
        members(4, true, |mut member| {
            if member.me == 3 {
                member.engine.declare_lost([PeerId(3)]);
                // Who dies takes leave of nobody.
                std::mem::forget(member);
                return;
            }
            // The root waits for nobody, the others for the root: what they miss is room that the dead member does not give.
            let mut failed = false;
            let end = until_over(&mut member, 0, more, |number, well| {
                assert!(!(failed && well), "call {number} ended well after one that failed");
                failed |= !well;
            });
            // Who has ended all its calls when another hears of the loss fails in none.
            any_failed.fetch_or(failed, std::sync::atomic::Ordering::Relaxed);
            ends.lock().expect("not poisoned").push(end);
        });
        same_end(&ends, 3);
        assert!(any_failed.into_inner());
    }
}

#[test]
fn calls_that_do_not_match_end_the_stream_of_all_before_the_same_call() {
    let ends = std::sync::Mutex::new(Vec::new());
    members(3, true, |mut member| {
        let nothing = Arguments::new(Memory::none(), Memory::none());
        let wrong = match member.me {
            1 => member.start(Shape::Bcast { root: 1 }, 8, &Arguments::new(Memory::none(), memory(&[1]))),
            _ => member.start(Shape::Barrier, 0, &nothing),
        };
        let well = member.ends_well(wrong);
        assert_eq!(well, member.me == 1, "the root of a broadcast waits for nobody");
        let end = until_over(&mut member, 1, 2, |_, _| {});
        ends.lock().expect("not poisoned").push(end);
    });
    same_end(&ends, 3);
}

#[test]
fn cells_of_a_freed_communicator_serve_the_next_one() {
    let mut engines = node::engines(2, true);
    let peers: Vec<PeerId> = (0..2).map(PeerId).collect();
    let mut blocks = std::collections::BTreeSet::new();
    for _ in 0..10 {
        let block = engines[0].take_block(2, false);
        blocks.insert(block);
        for (me, engine) in (0..2).zip(&mut engines) {
            let rounds = engine.join_rounds(block, me, &peers).expect("joined");
            drop(engine.open_stream(rounds, ContextId(8).collective(), peers.clone()));
            engine.close_streams();
        }
    }
    assert_eq!(blocks.len(), 1, "each communicator's cells were those of the one before");
}

/// Persistent sums of one member, each in cells of its own.
struct Kept {
    me: u32,
    ranks: u32,
    engine: Engine,
    /// Stream, arguments and elements of each.
    calls: Vec<(Stream, Arguments, usize)>,
}

impl Kept {
    fn operand(&self, call: usize, turn: u64, member: u32) -> Vec<u64> {
        let elements = self.calls[call].2 as u64;
        (0..elements)
            .map(|at| turn.wrapping_mul(0x1_0001) + u64::from(member) * 7 + at + call as u64)
            .collect()
    }

    fn start(&mut self, call: usize, turn: u64) -> Option<RequestId> {
        let bytes: Vec<u8> =
            self.operand(call, turn, self.me).iter().flat_map(|value| value.to_ne_bytes()).collect();
        let (stream, arguments, _) = &self.calls[call];
        arguments.send.recv_view(0, 0, bytes.len() as u64).unpack(0, &bytes);
        self.engine.start_kept(stream).expect("a request")
    }

    /// Waits; whether it ended well, and then with the right sums.
    fn wait(&mut self, call: usize, turn: u64, request: RequestId) -> bool {
        let bell = self.engine.bell();
        let mut waiter = Waiter::new(true, 0);
        while !self.engine.is_complete(request) {
            self.engine.progress();
            waiter.pause(&bell);
        }
        waiter.finish(&bell);
        let well = self.engine.take(request).error.is_none();
        if well {
            let terms: Vec<Vec<u64>> = (0..self.ranks).map(|rank| self.operand(call, turn, rank)).collect();
            let (_, arguments, elements) = &self.calls[call];
            let sums: Vec<u64> = (0..*elements).map(|at| terms.iter().map(|term| term[at]).sum()).collect();
            assert_eq!(values(&arguments.recv, *elements), sums, "call {call}, turn {turn}");
        }
        well
    }
}

/// Runs `work` at every member, in a thread each, with persistent sums of those lengths.
fn with_kept(ranks: u32, lengths: &[usize], work: impl Fn(Kept) + Send + Sync) {
    let mut engines = node::engines(ranks, true);
    let what = |elements: usize| (Shape::Allreduce, elements as u64 * 8, 8);
    let blocks: Vec<(u64, u64)> = lengths
        .iter()
        .map(|&elements| {
            (engines[0].take_block(ranks, false), engines[0].take_block_for(ranks, what(elements)))
        })
        .collect();
    std::thread::scope(|scope| {
        for (me, mut engine) in (0..ranks).zip(engines) {
            let (work, blocks) = (&work, &blocks);
            scope.spawn(move || {
                let mut calls = Vec::new();
                for (sequence, (&elements, &(block, slots))) in (0..).zip(lengths.iter().zip(blocks)) {
                    let peers: Vec<PeerId> = (0..ranks).map(PeerId).collect();
                    let mut rounds = engine.join_rounds(block, me, &peers).expect("joined");
                    engine.add_slots(slots, &mut rounds).expect("added");
                    rounds.cells().join_in(0);
                    let arguments = Arguments::new(memory(&vec![0; elements]), memory(&vec![0; elements]));
                    let call = RoundsCall::unattended(
                        &rounds,
                        what(elements),
                        arguments.clone(),
                        Some(kernel()),
                        false,
                    );
                    let call = (sequence, call.expect("fits"));
                    let stream = engine.keep_in_stream(rounds, ContextId(8).collective(), peers, call);
                    while engine.rounds_of(&stream).cells_here().absent() != 0 {
                        std::thread::yield_now();
                    }
                    calls.push((stream, arguments, elements));
                }
                work(Kept { me, ranks, engine, calls });
            });
        }
    });
}

#[test]
fn a_persistent_call_gets_a_large_ring_where_it_needs_one_and_none_that_is_too_small_for_it() {
    let mut engines = node::engines(2, true);
    let what = |bytes: u64| (Shape::Allreduce, bytes, 8);
    // Blocks of a size have it in the upper half of their words.
    let class = |block: u64| block >> 32;
    for members in [2, 3, 16, 17, 63] {
        let large = engines[0].take_block(members, true);
        engines[0].give_block_back(large);
        let kept = engines[0].take_block_for(members, what(64 << 10));
        assert!(large != 0 && class(kept) == class(large), "{members} members");
        engines[0].give_block_back(kept);
    }
    // A long call goes without memory once only rings are left in which it would take many rounds, ...
    let mut engines = node::engines(2, true);
    let long = std::iter::from_fn(|| Some(engines[0].take_block_for(2, what(800 << 10))));
    assert!((1..100).contains(&long.take_while(|&block| block != 0).count()));
    // ... which short ones still find.
    assert_ne!(engines[0].take_block_for(2, what(24 << 10)), 0);
    // 90 of 12 kB find no room together: that is what the conformance program of many persistent calls is for.
    for members in [2, 3, 4] {
        let mut engines = node::engines(2, true);
        let there = (0..90).take_while(|_| engines[0].take_block_for(members, what(12_000)) != 0).count();
        assert!((30..90).contains(&there), "{there} for {members} members");
    }
}

#[test]
fn a_nonblocking_call_is_judged_by_the_rings_that_there_are() {
    let (long, short) = ((Shape::Allreduce, 896 << 10, 8), (Shape::Allreduce, 64 << 10, 8));
    let least = Room::alike(7232, false);
    assert_eq!(needs_slots_later(long, 2, wanted_room(2)), Some(true));
    assert_eq!(needs_slots_later(long, 2, least), None, "of two members in the smallest ring");
    assert_eq!(needs_slots_later(short, 2, least), Some(true));
    // Before there are slots of what is wanted, of what others have as well as it is known, and then of those that came.
    let mut engines = node::engines(2, true);
    let peers: Vec<PeerId> = (0..2).map(PeerId).collect();
    let block = engines[0].take_block(2, false);
    let mut rounds = engines[0].join_rounds(block, 0, &peers).expect("joined");
    assert_eq!(rounds.room_later(false).slot, wanted_room(2).slot);
    let others = rounds.room_later(true);
    let slots = engines[0].take_block(2, true);
    engines[0].add_slots(slots, &mut rounds).expect("added");
    let own = rounds.room_later(false);
    assert_eq!((own.slot, own.crowded), (others.slot, others.crowded), "there was plenty");
    assert_eq!(own.slot, rounds.cells_here().slot_bytes());
}

#[test]
fn persistent_calls_start_and_end_in_another_order_at_each_member() {
    for ranks in [2, 3, 5] {
        let seed = u64::from(ranks) * 17;
        println!("seed {seed}");
        with_kept(ranks, &[1, 3, 14, 15, 500, 4_000, 20_000], |mut member| {
            let mut own = Random::new(seed + u64::from(member.me));
            for turn in 0..60 {
                let mut order: Vec<usize> = (0..member.calls.len()).collect();
                let mut pending = Vec::new();
                while !order.is_empty() {
                    let call = order.swap_remove(own.below(order.len() as u64) as usize);
                    pending.push((call, member.start(call, turn).expect("nobody has left")));
                }
                while !pending.is_empty() {
                    let (call, request) = pending.swap_remove(own.below(pending.len() as u64) as usize);
                    assert!(member.wait(call, turn, request));
                }
            }
        });
    }
}

#[test]
fn persistent_calls_of_a_lost_member_end_before_the_same_start_at_all() {
    let ends = std::sync::Mutex::new(Vec::new());
    with_kept(4, &[2, 900], |mut member| {
        for turn in 0..5 {
            let calls = [0, 1].map(|call| (call, member.start(call, turn).expect("nobody has left")));
            if turn == 4 && member.me == 3 {
                member.engine.declare_lost([PeerId(3)]);
                // Who dies takes leave of nobody.
                std::mem::forget(member);
                return;
            }
            calls.into_iter().for_each(|(call, request)| {
                member.wait(call, turn, request);
            });
        }
        for call in [0, 1] {
            let mut starts = 5;
            while let Some(request) = member.start(call, starts) {
                assert!(!member.wait(call, starts, request), "nobody is there to end it well");
                starts += 1;
            }
            ends.lock().expect("not poisoned").push((call, starts));
        }
    });
    let ends = ends.into_inner().expect("not poisoned");
    assert_eq!(ends.len(), 6);
    for call in [0, 1] {
        let of: Vec<u64> = ends.iter().filter(|end| end.0 == call).map(|end| end.1).collect();
        assert!(of.iter().all(|end| end == &of[0]), "{of:?}");
    }
}

#[test]
fn cells_of_a_freed_persistent_call_come_back_when_all_have_freed_it() {
    let mut engines = node::engines(2, true);
    let peers: Vec<PeerId> = (0..2).map(PeerId).collect();
    let mut blocks = std::collections::BTreeSet::new();
    for _ in 0..10 {
        let block = engines[0].take_block(2, false);
        blocks.insert(block);
        for (me, engine) in (0..2).zip(&mut engines) {
            let rounds = engine.join_rounds(block, me, &peers).expect("joined");
            let nothing = Arguments::new(Memory::none(), Memory::none());
            let call =
                RoundsCall::unattended(&rounds, (Shape::Barrier, 0, 1), nothing, None, false).expect("fits");
            drop(engine.keep_in_stream(rounds, ContextId(8).collective(), peers.clone(), (0, call)));
            engine.close_streams();
        }
    }
    assert_eq!(blocks.len(), 1);
}
