//! Members that do not hear the same of an agreement on memory, over real shared memory, a thread for each.

use super::*;
use crate::collective::Work;
use crate::persistent::{OnCells, Persistent};
use crate::request::{Kind, Local};
use std::cell::Cell;
use std::time::Duration;
use weft_coll::Vector;
use weft_engine::{Engine, Waiter};
use weft_types::abi;

#[path = "../../../engine/tests/node/mod.rs"]
mod node;

/// Elements of a call with long payloads.
const LONG: u64 = 1000;
const COMM: Handle = Handle(abi::MPI_COMM_WORLD);

/// A process on an engine of the node.
fn process(engine: Engine, rank: u32, size: u32) -> Process {
    let mut process = Process::start().expect("nobody launched the tests");
    process.engine = engine;
    (process.job.rank, process.job.size) = (rank, size);
    process.start_world();
    process
}

/// Waits until `done`, as a call that sleeps.
fn wait<T>(process: &mut Process, mut done: impl FnMut(&mut Process) -> Option<T>) -> T {
    let bell = process.bell();
    let mut waiter = Waiter::new(true, 0);
    loop {
        process.progress();
        if let Some(value) = done(process) {
            waiter.finish(&bell);
            return value;
        }
        waiter.pause(&bell);
    }
}

/// Whether the request ended well.
fn ended_well(process: &mut Process, request: RequestId) -> bool {
    wait(process, |process| process.engine.is_complete(request).then(|| process.engine.take(request).error))
        .is_none()
}

fn call(elements: u64) -> (Call<'static>, Arguments, Reduction) {
    let reduction = least().expect("an operation");
    let memory = || Memory::scratch(&reduction.datatype, elements).expect("memory");
    let vector = Vector { count: elements, element: 8, commutative: true };
    (Call::Allreduce { vector, in_place: false }, Arguments::new(memory(), memory()), reduction)
}

/// One blocking allreduce; whether it ended well. `hears`: what this member hears of agreements, of which only the first is told.
fn allreduce(process: &mut Process, elements: u64, hears: &mut dyn FnMut(Needed) -> bool) -> bool {
    allreduce_by(process, elements, hears).is_some()
}

/// The same; whether it went through the cells, if it ended well.
fn allreduce_by(process: &mut Process, elements: u64, hears: &mut dyn FnMut(Needed) -> bool) -> Option<bool> {
    loop {
        let (call, arguments, reduction) = call(elements);
        let begun =
            process.by_rounds(|process| process.start_collective(COMM, &call, arguments, Some(reduction)));
        match begun {
            Err(_) => return None,
            Ok(Begun::Messages(request)) => return ended_well(process, request).then_some(false),
            Ok(Begun::Join(_)) => unreachable!("there is no such device"),
            Ok(Begun::Levels(_) | Begun::AgreeOnLevels(_)) => unreachable!("all are on one node"),
            Ok(Begun::Agree(comm, needed)) => {
                let agreement = process.agree_on_memory(comm, needed).expect("begun");
                let well = ended_well(process, agreement.request);
                process.agreed(&agreement, well && hears(needed));
                let missing = Cell::new(0);
                wait(process, |process| process.have_joined(comm, &missing).then_some(()));
            }
            Ok(Begun::Rounds(mut under_way)) => {
                let well = wait(process, |process| match under_way.step() {
                    Outcome::Done => Some(true),
                    Outcome::Strayed(_) | Outcome::Unread(_) => unreachable!("all call the same"),
                    Outcome::Blocked => process.hopeless_in_rounds(COMM, &mut under_way).map(|_| false),
                });
                process.end_rounds(under_way);
                return well.then_some(true);
            }
        }
    }
}

/// One nonblocking allreduce; whether it ended well.
fn iallreduce(process: &mut Process, elements: u64) -> bool {
    let (call, arguments, reduction) = call(elements);
    let request = process.start_collective(COMM, &call, arguments, Some(reduction)).expect("started");
    ended_well(process, request)
}

/// Runs `work` at all of some members.
fn members(size: u32, work: impl Fn(&mut Process, u32) + Send + Sync) {
    std::thread::scope(|scope| {
        for (rank, engine) in (0..size).zip(node::engines(size, true)) {
            let work = &work;
            scope.spawn(move || {
                let mut process = process(engine, rank, size);
                work(&mut process, rank);
                // The others may still wait for something that this one is to pass on.
                for _ in 0..100 {
                    process.progress();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
    });
}

/// As many calls at all members, of which some may fail before the communicator works again.
fn until_it_works(mut call: impl FnMut() -> bool) {
    let well: Vec<bool> = (0..30).map(|_| call()).collect();
    assert!(well[20..].iter().all(|&well| well), "{well:?}");
}

#[test]
fn who_alone_misses_an_agreement_fails_with_the_others_and_goes_on_with_them_by_messages() {
    for misses in [0, 1, 2] {
        members(3, |process, rank| {
            let mut all = |_: Needed| true;
            assert!((0..3).all(|_| allreduce(process, 2, &mut all)));
            // Those that the others begin in the cells before they know fail.
            until_it_works(|| {
                allreduce(process, LONG, &mut |needed| needed != Needed::Slots || rank != misses)
            });
            assert!(allreduce(process, 2, &mut all));
        });
    }
}

#[test]
fn the_same_of_memory_for_nonblocking_calls() {
    for misses in [0, 1, 2] {
        members(3, |process, rank| {
            let mut all = |_: Needed| true;
            assert!((0..3).all(|_| allreduce(process, 2, &mut all)));
            // By messages, which makes the next blocking call agree.
            assert!(iallreduce(process, LONG));
            assert!(allreduce(process, 2, &mut |needed| needed != Needed::LaterSlots || rank != misses));
            until_it_works(|| iallreduce(process, LONG));
            assert!(allreduce(process, 2, &mut all));
        });
    }
}

#[test]
fn an_agreement_that_all_have_heard_serves_blocking_and_nonblocking_calls() {
    members(3, |process, _| {
        let mut agreed = Vec::new();
        for turn in 0..6 {
            let mut heard = |needed| {
                agreed.push(needed);
                true
            };
            assert!(allreduce(process, if turn < 3 { 2 } else { LONG }, &mut heard));
            assert!(iallreduce(process, LONG));
        }
        assert_eq!(agreed, [Needed::Cells, Needed::LaterSlots, Needed::Slots]);
    });
}

/// Makes a persistent allreduce; the blocks that this member took for it. `can`: whether it says that it can reach memory.
fn keep(process: &mut Process, can: bool) -> (Handle, [u64; 2]) {
    let (call, arguments, reduction) = call(LONG);
    let work = Work::Collective(&call);
    let kept = process.keep_work(COMM, &work, arguments, Some(reduction)).expect("made");
    let agreement = if can {
        process.agree_to_keep(kept).expect("begun").expect("long reductions may go by cells")
    } else {
        let (request, heard) = process.begin_agreement(COMM, [0; 2]).expect("begun");
        Agreement { comm: COMM, needed: Needed::Kept(kept), request, heard, taken: [0; 2] }
    };
    let well = ended_well(process, agreement.request);
    process.agreed(&agreement, well);
    let missing = Cell::new(0);
    wait(process, |process| process.have_joined_to_keep(kept, &missing).then_some(()));
    (kept, agreement.taken)
}

fn persistent(process: &Process, kept: Handle) -> &Persistent {
    let Local::Persistent(persistent) = process.requests.local(kept) else { unreachable!("just made") };
    persistent
}

/// One start and its end; whether it ended well.
fn start_kept(process: &mut Process, kept: Handle) -> bool {
    process.start_request(kept).expect("started");
    let active = persistent(process, kept).active().expect("it is under way");
    let Ok(Kind::Engine(request)) = process.requests.kind(&process.engine, active) else {
        unreachable!("the request of a collective is the engine's")
    };
    let well = ended_well(process, request);
    persistent(process, kept).end();
    well
}

#[test]
fn a_persistent_collective_has_cells_when_all_members_can_reach_them_and_otherwise_goes_by_messages() {
    for cannot in [None, Some(0), Some(1), Some(2)] {
        members(3, |process, rank| {
            let mut all = |_: Needed| true;
            assert!((0..3).all(|_| allreduce(process, 2, &mut all)));
            let (kept, taken) = keep(process, cannot != Some(rank));
            let by_cells = matches!(persistent(process, kept).cells, OnCells::Yes(_));
            assert_eq!(by_cells, cannot.is_none());
            if rank == 0 && cannot != Some(0) {
                assert!(!taken.contains(&0), "{taken:?}");
                // What came to nothing was given back, and is there for the next.
                let next = process.engine.take_block(3, false);
                assert_eq!(next == taken[0], !by_cells);
                process.engine.give_block_back(next);
            }
            assert!((0..5).all(|_| start_kept(process, kept)));
            process.free_request(kept).expect("inactive");
            assert!(allreduce(process, 2, &mut all));
        });
    }
}

#[test]
fn rules_of_a_communicator_say_whether_its_calls_go_through_the_cells() {
    let cases = [
        ("bcast -> flat", true, true),
        ("allreduce -> messages", false, false),
        ("allreduce -> circulant", false, false),
        ("allreduce -> not circulant", true, true),
        ("allreduce bytes=..8 -> messages", false, true),
        ("allreduce bytes=9.. -> cells-two-phases; allreduce -> ring", false, true),
        ("allreduce -> core-by-core", true, true),
        ("allreduce -> reading", true, true),
        ("allreduce -> not cells; allreduce bytes=..8 -> not cells-two-phases", false, true),
    ];
    members(3, |process, _| {
        for (rules, short, long) in cases {
            let mut info = crate::info::Info::default();
            info.set(KEY.as_bytes(), rules.as_bytes()).expect("short");
            let of = process.comms.get_mut(COMM).expect("there");
            of.accept_hints(&info).expect("rules");
            let mut go = |elements| {
                let ways: Vec<_> = (0..6)
                    .map(|_| allreduce_by(process, elements, &mut |_| true).expect("it ends well"))
                    .collect();
                ways[5]
            };
            assert_eq!((go(1), go(LONG)), (short, long), "{rules}");
            assert!((0..3).all(|_| iallreduce(process, 1) && iallreduce(process, LONG)), "{rules}");
        }
    });
}
