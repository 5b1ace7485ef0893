//! Lanes by themselves: their number, handles, threads that share them.

use super::*;
use crate::collective::{Count, Planner, Work};
use crate::group::Group;
use std::sync::Arc;
use weft_coll::Call;
use weft_datatype::{Memory, Scratch};
use weft_engine::{Arguments, EngineConfig, Envelope, SendMode, Started, Transports};
use weft_types::{ContextId, ErrorClass, PeerId, Rank, Tag, abi};

#[test]
fn there_are_as_many_lanes_as_are_asked_for_or_suit_the_cores() {
    assert_eq!(
        [(0, 1), (0, 6), (0, 64), (1, 64), (3, 1), (99, 1)].map(|(asked, cores)| number(asked, cores, 1, 0)),
        [4, 7, 32, 1, 3, 32]
    );
    assert_eq!(
        [(16, 2, 0), (16, 2, 4), (16, 16, 0), (4, 4, 0), (64, 64, 12), (0, 0, 0)]
            .map(|(cores, ranks, threads)| number(0, cores, ranks, threads)),
        [9, 9, 8, 5, 13, 4],
        "shared cores"
    );
}

#[test]
fn a_lane_beyond_the_cores_is_on_the_first_again() {
    let cores = [Some(3), None, Some(4)].map(|numa_node| LaneCore { cpus: Default::default(), numa_node });
    assert_eq!([0, 1, 2, 3, 5].map(|lane| node(&cores, lane)), [Some(3), None, Some(4), Some(3), Some(4)]);
    assert_eq!(node(&[], 5), None);
}

#[test]
fn handles_of_lanes_tell_lane_slot_and_generation() {
    for lane in 1..LANES {
        let id = RequestId(0x5a << 20 | 0xf_fff3).in_lane(lane);
        let handle = request_handle(id);
        assert_eq!(handle.kind_bits(), HandleKind::LaneRequest as u32);
        assert_eq!((lane_of(handle), handle.slot()), (lane, 0xf_fff3));
        assert!(handle.0 <= i32::MAX as u32);
    }
    assert_eq!(request_handle(RequestId(7)).kind_bits(), HandleKind::Request as u32);
}

#[test]
fn a_handle_that_was_used_is_stale_until_its_slot_was_used_four_times_more() {
    let process = Engine::new(EngineConfig::new(PeerId(0), 1), Transports::alone()).expect("an engine");
    let lanes = Lanes::default();
    lanes.open(LANES - 1, &process, None).expect("opened");
    let room = Scratch::new(1);
    let from = Selector { context: ContextId(100), peer: None, source: None, tag: None };
    lanes.at(LANES - 1).with(|inner| {
        let first = inner.engine.recv(from, room.recv_buf(0, 1)).expect("posted");
        let handle = request_handle(inner.global(first));
        // The first use, and three more.
        for turn in 0..4 {
            let again = |inner: &mut Inner| inner.engine.recv(from, room.recv_buf(0, 1)).expect("posted");
            let request = if turn == 0 { first } else { again(inner) };
            assert_eq!(inner.handle(request).slot(), handle.slot(), "the slot is used again");
            assert_eq!(inner.find(handle).is_some(), turn == 0);
            inner.engine.cancel(request);
            inner.engine.take(request);
            assert_eq!(inner.find(handle), None);
        }
    });
    assert_eq!(lanes.find(Handle(0x3000_0000 | (HandleKind::LaneRequest as u32) << 27)), None);
}

/// Every request of a lane has a handle of its own that finds it, until there is no room for more.
#[test]
fn a_lane_full_of_requests_says_so() {
    let process = Engine::new(EngineConfig::new(PeerId(0), 1), Transports::alone()).expect("an engine");
    let lanes = Lanes::default();
    lanes.open(LANES - 1, &process, None).expect("opened");
    let room = Scratch::new(1);
    let from = Selector { context: ContextId(100), peer: None, source: None, tag: None };
    lanes.at(LANES - 1).with(|inner| {
        let mut count = 0;
        let error = loop {
            match inner.engine.recv(from, room.recv_buf(0, 1)) {
                Ok(request) => {
                    count += 1;
                    let handle = inner.handle(request);
                    assert_eq!((lane_of(handle), handle.slot()), (LANES - 1, count));
                    assert_eq!(inner.find(handle), Some(request));
                }
                Err(error) => break error,
            }
        };
        assert_eq!((error.class(), count), (ErrorClass::NO_MEM, RequestId::SLOTS - 1));
        let whole = Handle((HandleKind::LaneRequest as u32) << 27 | (LANES - 1) << LANE_BITS);
        assert_eq!(inner.find(Handle(whole.0 | 1)).map(|id| id.0), Some(1), "the first is there still");
    });
}

/// Four threads work with three lanes, two of them with the same one, while a fifth helps everywhere: every message to
/// oneself arrives once, whole, and no thread misses the end of what it watches.
#[test]
fn threads_and_helpers_share_lanes() {
    const TURNS: u32 = 400;
    let me = PeerId(0);
    let process = Engine::new(EngineConfig::new(me, 1), Transports::alone()).expect("an engine");
    let lanes = Lanes::default();
    (1..=3).for_each(|lane| lanes.open(lane, &process, None).expect("opened"));
    let running = AtomicU32::new(4);
    let work = |thread: u32| {
        let lane = lanes.at(1 + thread % 3);
        let context = ContextId(100 + 2 * thread);
        for turn in 0..TURNS {
            let bytes = if turn % 7 == 0 { 20_000 } else { 24 };
            let (out, room) = (Scratch::new(bytes), Scratch::new(bytes));
            out.recv_buf(0, bytes).unpack(0, &vec![(thread + turn) as u8; bytes]);
            let from = Selector { context, peer: Some(me), source: Some(Rank(0)), tag: Some(Tag(1)) };
            let to = Envelope { peer: me, context, source: Rank(0), tag: Tag(1) };
            let post = |inner: &mut Inner| inner.engine.recv(from, room.recv_buf(0, bytes));
            let send = |inner: &mut Inner| {
                let started = inner.engine.send(to, SendMode::Standard, out.send_buf(0, bytes));
                if let Ok(Started::Pending(request)) = started {
                    inner.engine.release(request);
                }
            };
            let request = if turn % 2 == 0 {
                let request = lane.with(post).expect("posted");
                lane.with(|inner| inner.engine.watch(request));
                lane.with(send);
                request
            } else {
                lane.with(send);
                lane.with(post).expect("posted")
            };
            while lane.turn(|inner| !inner.engine.is_complete(request)).found {}
            assert_eq!(lane.look(|inner| inner.engine.take(request)).error, None);
            let mut got = vec![0; bytes];
            room.send_buf(0, bytes).pack(0, &mut got);
            assert!(got.iter().all(|&byte| byte == (thread + turn) as u8));
        }
        running.fetch_sub(1, Ordering::Release);
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|thread| {
            let work = &work;
            scope.spawn(move || work(thread));
        });
        help_while(&lanes, &running);
    });
    assert!(lanes.are_quiet());
}

fn help_while(lanes: &Lanes, running: &AtomicU32) {
    while running.load(Ordering::Acquire) != 0 {
        for (_, lane) in lanes.iter() {
            lane.try_help();
            lane.help();
            lane.attendance();
        }
        std::thread::yield_now();
    }
}

/// Four threads begin nonblocking collectives, two on a communicator by turns with what each remembers of it, while a fifth
/// helps everywhere: every one gets a number of its own and its result.
#[test]
fn threads_begin_collectives_in_lanes() {
    const TURNS: u32 = 200;
    let process = Engine::new(EngineConfig::new(PeerId(0), 1), Transports::alone()).expect("an engine");
    let lanes = Lanes::default();
    let (planner, running) = (Planner::plain(), AtomicU32::new(4));
    let comms: Vec<Comm> = (1..=2)
        .map(|lane| {
            lanes.open(lane, &process, None).expect("opened");
            let of = Arc::new(Group::world(1));
            let mut comm = Comm::new(ContextId(100 + 2 * lane), Rank(0), of, Handle(abi::MPI_ERRORS_RETURN));
            comm.lane = lane;
            comm.collectives = Count::shared();
            comm
        })
        .collect();
    let work = |mut known: Comm, turn: &AtomicU32, first: u32| {
        let lane = lanes.at(known.lane);
        for round in 0..TURNS {
            while turn.load(Ordering::Acquire) % 2 != first {
                std::thread::yield_now();
            }
            let (out, into) = (Memory::packed_scratch(8), Memory::packed_scratch(8));
            assert!(out.fill_run(0, &[(round + first) as u8; 8]));
            let arguments = Arguments::new(out, into.clone());
            let number = known.collectives.get();
            let call = Call::Allgather { bytes: 8, in_place: false };
            let request =
                planner.start((&mut known, lane), &Work::Collective(&call), arguments, None).expect("begun");
            assert_eq!(known.collectives.get(), number.wrapping_add(1));
            turn.fetch_add(1, Ordering::Release);
            let ended =
                |inner: &mut Inner| inner.find(request).is_some_and(|id| inner.engine.is_complete(id));
            while !lane.turn(ended).found {}
            let end = lane.look(|inner| inner.find(request).map(|id| inner.engine.take(id)));
            assert_eq!(end.expect("there").error, None);
            assert_eq!(into.run(0, 8), Some(&[(round + first) as u8; 8][..]));
        }
        running.fetch_sub(1, Ordering::Release);
    };
    let turns = [AtomicU32::new(0), AtomicU32::new(0)];
    std::thread::scope(|scope| {
        for (comm, turn) in comms.iter().zip(&turns) {
            for first in 0..2 {
                let (work, known) = (&work, comm.snapshot());
                scope.spawn(move || work(known, turn, first));
            }
        }
        help_while(&lanes, &running);
    });
    assert!(comms.iter().all(|comm| comm.collectives.get() == 2 * TURNS));
    assert!(lanes.are_quiet());
}
