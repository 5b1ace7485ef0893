//! Collectives by puts and gets over the emulator and a network that loses, doubles and reorders: every byte, some runs at a time, and
//! a rank that dies in the middle. `WEFT_SEED=n` replays one seed; `WEFT_SEEDS=n` runs that many.

mod emulated;

use emulated::{engines, step};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_coll::registry::{Algorithm, candidates};
use weft_coll::{Block, Call, Group, Model, Step};
use weft_datatype::Memory;
use weft_engine::{Arguments, Channel, Engine, KeptRun, PeerMap, Rendezvous, RequestId, ScheduleRun};
use weft_sim::Random;
use weft_types::{ContextId, ErrorClass, PeerId, Rank};

#[derive(Debug)]
struct Identity;

impl PeerMap for Identity {
    fn peer(&self, rank: Rank) -> PeerId {
        PeerId(rank.0)
    }
    fn contains(&self, _: PeerId) -> bool {
        true
    }
}

fn seeds(few: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let first = number("WEFT_SEED").unwrap_or(0);
    let many = if number("WEFT_SEED").is_some() { 1 } else { number("WEFT_SEEDS").unwrap_or(few) };
    first..first + many
}

fn algorithm(call: &Call<'_>, group: Group) -> &'static Algorithm {
    let by_name = |algorithm: &&Algorithm| matches!(algorithm.name, "puts" | "binomial-gets");
    candidates(call, group, &Model::default()).find(by_name).expect("one of them is for every call here")
}

/// Byte `at` of what rank `rank` sends in a run.
fn sent(run: u32, rank: u32, at: u64) -> u8 {
    (at as u8).wrapping_mul(31)
        ^ (at >> 8) as u8
        ^ (rank as u8).wrapping_mul(7)
        ^ (run as u8).wrapping_mul(91)
}

fn memory(bytes: u64, with: impl Fn(u64) -> u8) -> Memory {
    let memory = Memory::packed_scratch(bytes as usize);
    let fill: Vec<u8> = (0..bytes).map(with).collect();
    memory.recv_view(0, 0, bytes).unpack(0, &fill);
    memory
}

/// One run of one rank.
struct Started {
    request: RequestId,
    room: Memory,
}

fn start(engine: &mut Engine, call: &Call<'_>, group: Group, run: u32) -> Started {
    let (bound, _, room) = bind(call, group, run);
    Started { request: engine.start_schedule(bound).unwrap(), room }
}

/// A run with its memory: where the data come from, and where they go.
fn bind(call: &Call<'_>, group: Group, run: u32) -> (ScheduleRun, Memory, Memory) {
    let Group { rank, size } = group;
    let (send, room) = match *call {
        Call::Alltoall { bytes, .. } => {
            let all = bytes * u64::from(size);
            (memory(all, |at| sent(run, rank, at)), memory(all, |_| 0xee))
        }
        Call::Bcast { root, bytes } => {
            (Memory::none(), memory(bytes, |at| if rank == root { sent(run, root, at) } else { 0xee }))
        }
        _ => unreachable!("no other here"),
    };
    let schedule = algorithm(call, group).build(call, group, &Model { window: Some(2), ..Model::default() });
    let context = ContextId::WORLD.collective();
    let peers = Arc::new(Identity);
    let channel = Channel { context, rank: Rank(rank), peers, sequence: run, persistent: false, group: None };
    let arguments = Arguments::new(send.clone(), room.clone());
    let bound = ScheduleRun::new(Arc::new(schedule), arguments, None, channel).unwrap();
    let send = if matches!(call, Call::Bcast { .. }) { room.clone() } else { send };
    (bound, send, room)
}

/// A collective that is started again and again.
struct Kept {
    run: KeptRun,
    send: Memory,
    room: Memory,
}

fn keep(call: &Call<'_>, size: u32) -> Vec<Kept> {
    let of = |rank| {
        let (bound, send, room) = bind(call, Group { rank, size }, 0);
        Kept { run: bound.keep(), send, room }
    };
    (0..size).map(of).collect()
}

/// Gives a rank the data of start number `turn`, and starts it.
fn again(engine: &mut Engine, kept: &Kept, call: &Call<'_>, group: Group, turn: u32) -> RequestId {
    let fill = |memory: &Memory, with: &dyn Fn(u64) -> u8| {
        let bytes: Vec<u8> = (0..length(call, group)).map(with).collect();
        memory.recv_view(0, 0, bytes.len() as u64).unpack(0, &bytes);
    };
    fill(&kept.room, &|_| 0xee);
    if !matches!(*call, Call::Bcast { root, .. } if root != group.rank) {
        fill(&kept.send, &|at| sent(turn, group.rank, at));
    }
    engine.start_schedule(kept.run.run()).unwrap()
}

fn length(call: &Call<'_>, group: Group) -> u64 {
    match *call {
        Call::Alltoall { bytes, .. } => bytes * u64::from(group.size),
        Call::Bcast { bytes, .. } => bytes,
        _ => unreachable!("no other here"),
    }
}

/// Steps until the requests of those that live have ended.
fn settle(engines: &mut [Option<Engine>], requests: &[RequestId], text: &str) {
    let begun = Instant::now();
    let ended = |engines: &[Option<Engine>]| {
        let mut alive = engines.iter().zip(requests).filter_map(|(engine, id)| Some((engine.as_ref()?, id)));
        alive.all(|(engine, &request)| engine.is_complete(request))
    };
    while !ended(engines) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{text}: stuck");
        step(engines);
    }
}

fn lent(engines: &[Option<Engine>]) -> Vec<usize> {
    engines.iter().flatten().map(Engine::lent).collect()
}

/// Offers of one run of a rank.
fn offers(call: &Call<'_>, group: Group) -> usize {
    let schedule = algorithm(call, group).build(call, group, &Model::default());
    schedule.steps().iter().filter(|step| matches!(step, Step::Offer { .. })).count()
}

fn check(call: &Call<'_>, group: Group, run: u32, room: &Memory, text: &str) {
    let expected: Vec<u8> = match *call {
        Call::Alltoall { bytes, .. } => (0..group.size)
            .flat_map(|from| (0..bytes).map(move |at| sent(run, from, u64::from(group.rank) * bytes + at)))
            .collect(),
        Call::Bcast { root, bytes } => (0..bytes).map(|at| sent(run, root, at)).collect(),
        _ => unreachable!("no other here"),
    };
    let mut found = vec![0; expected.len()];
    room.send_view(0, 0, found.len() as u64).pack(0, &mut found);
    assert!(found == expected, "{text}: wrong bytes");
}

fn calls(bytes: u64, size: u32) -> [Call<'static>; 2] {
    [Call::Alltoall { bytes, in_place: false }, Call::Bcast { root: bytes as u32 % size, bytes }]
}

#[test]
fn every_byte_arrives_whatever_lies_between() {
    for seed in seeds(4) {
        let size = [2, 3, 4, 5][seed as usize % 4];
        let mut engines = engines(size, seed, Rendezvous::Auto);
        for bytes in [1, 16, 100, 4096, 5000, 70_000, 300_001] {
            for call in calls(bytes, size) {
                let text = format!("{call:?} of {size}, seed {seed}");
                // Two at a time, started in another order by each rank.
                let started: Vec<[Started; 2]> = (0..size)
                    .map(|rank| {
                        let engine = engines[rank as usize].as_mut().unwrap();
                        let group = Group { rank, size };
                        match rank % 2 {
                            0 => [0, 1].map(|run| start(engine, &call, group, run)),
                            _ => {
                                let [second, first] = [1, 0].map(|run| start(engine, &call, group, run));
                                [first, second]
                            }
                        }
                    })
                    .collect();
                let begun = Instant::now();
                let ended = |engines: &[Option<Engine>]| {
                    engines
                        .iter()
                        .flatten()
                        .zip(&started)
                        .all(|(engine, runs)| runs.iter().all(|run| engine.is_complete(run.request)))
                };
                while !ended(&engines) {
                    assert!(begun.elapsed() < Duration::from_secs(60), "{text}: stuck");
                    step(&mut engines);
                }
                for (rank, runs) in (0..size).zip(&started) {
                    for (run, started) in (0..).zip(runs) {
                        let engine = engines[rank as usize].as_mut().unwrap();
                        assert_eq!(engine.take(started.request).error, None, "{text}");
                        check(&call, Group { rank, size }, run, &started.room, &text);
                    }
                }
            }
        }
        // Two runs each of four lengths: an offer for every pair, and one for every rank but the root.
        let offered: u64 = engines.iter().flatten().map(Engine::offers_of_collectives).sum();
        let size = u64::from(size);
        assert_eq!(offered, 2 * 4 * (size * (size - 1) + size - 1), "seed {seed}");
    }
}

#[test]
fn everybody_ends_when_one_dies_in_the_middle() {
    for seed in seeds(6) {
        let mut random = Random::new(seed);
        let size = [3, 4][seed as usize % 2];
        let mut engines = engines(size, seed, Rendezvous::Auto);
        let call = calls([5000, 300_001, 1_000_000][seed as usize % 3], size)[seed as usize / 3 % 2];
        let text = format!("{call:?} of {size}, seed {seed}");
        let started: Vec<Started> = (0..size)
            .map(|rank| start(engines[rank as usize].as_mut().unwrap(), &call, Group { rank, size }, 0))
            .collect();
        // As whoever waits for ranks does: it hears of their end though it never talked to them.
        for (me, engine) in (0..size).zip(&mut engines) {
            let others = (0..size).filter(|&other| other != me);
            others.for_each(|other| engine.as_mut().unwrap().mind(PeerId(other)));
        }
        for _ in 0..random.below(40) {
            step(&mut engines);
        }
        let dies = random.below(u64::from(size)) as usize;
        engines[dies] = None;
        let begun = Instant::now();
        let ended = |engines: &[Option<Engine>]| {
            let mut alive =
                engines.iter().zip(&started).filter_map(|(engine, run)| Some((engine.as_ref()?, run)));
            alive.all(|(engine, run)| engine.is_complete(run.request))
        };
        while !ended(&engines) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{text}: stuck");
            step(&mut engines);
        }
        for (rank, started) in (0..size).zip(&started) {
            let Some(engine) = engines[rank as usize].as_mut() else { continue };
            match engine.take(started.request).error {
                None => check(&call, Group { rank, size }, 0, &started.room, &text),
                // Why the rank above has taken back what is refused it has said, unless that was lost on the way.
                Some(error) if matches!(call, Call::Bcast { .. }) && seed % 2 == 1 => {
                    let class = error.class();
                    assert!(
                        matches!(class, ErrorClass::PROC_ABORTED | ErrorClass::TRUNCATE),
                        "{text}: {error}"
                    );
                }
                Some(error) => assert_eq!(error.class(), ErrorClass::PROC_ABORTED, "{text}: {error}"),
            }
        }
    }
}

#[test]
fn what_is_kept_for_many_runs_is_registered_once_and_given_back_when_it_is_freed() {
    const TURNS: u32 = 5;
    for seed in seeds(4) {
        let size = [2, 3, 4, 5][seed as usize % 4];
        let mut engines = engines(size, seed, Rendezvous::Auto);
        for call in calls([5000, 70_000, 300_001][seed as usize % 3], size) {
            let text = format!("{call:?} of {size}, seed {seed}");
            let kept = keep(&call, size);
            let expected: Vec<usize> = (0..size).map(|rank| offers(&call, Group { rank, size })).collect();
            let mut registered = Vec::new();
            for turn in 0..TURNS {
                let requests: Vec<RequestId> = (0..size)
                    .zip(&kept)
                    .map(|(rank, kept)| {
                        let engine = engines[rank as usize].as_mut().unwrap();
                        again(engine, kept, &call, Group { rank, size }, turn)
                    })
                    .collect();
                settle(&mut engines, &requests, &text);
                for (rank, (kept, request)) in (0..size).zip(kept.iter().zip(requests)) {
                    assert_eq!(engines[rank as usize].as_mut().unwrap().take(request).error, None, "{text}");
                    check(&call, Group { rank, size }, turn, &kept.room, &text);
                }
                let made: Vec<u64> =
                    engines.iter().flatten().map(|engine| engine.registrations()[1]).collect();
                if turn == 0 {
                    registered = made;
                } else {
                    assert_eq!(made, registered, "{text}: start {turn} registers");
                }
                assert_eq!(lent(&engines), expected, "{text}: after start {turn}");
            }
            for (engine, kept) in engines.iter_mut().flatten().zip(&kept) {
                engine.free_kept(&kept.run);
            }
            assert_eq!(lent(&engines), vec![0; size as usize], "{text}: freed");
        }
        // One that is freed while it runs gives back when it ends.
        let call = calls(70_000, size)[0];
        let kept = keep(&call, size);
        let requests: Vec<RequestId> = (0..size)
            .zip(&kept)
            .map(|(rank, kept)| {
                let engine = engines[rank as usize].as_mut().unwrap();
                let request = again(engine, kept, &call, Group { rank, size }, 0);
                engine.free_kept(&kept.run);
                request
            })
            .collect();
        settle(&mut engines, &requests, "freed while it runs");
        assert_eq!(lent(&engines), vec![0; size as usize], "seed {seed}: freed while it runs");
    }
}

#[test]
fn nothing_is_kept_when_one_dies_between_or_in_a_start() {
    for seed in seeds(8) {
        let mut random = Random::new(seed);
        let size = [3, 4][seed as usize % 2];
        let mut engines = engines(size, seed, Rendezvous::Auto);
        let call = calls([5000, 300_001][seed as usize % 2], size)[seed as usize / 2 % 2];
        let text = format!("{call:?} of {size}, seed {seed}");
        for (me, engine) in (0..size).zip(&mut engines) {
            let others = (0..size).filter(|&other| other != me);
            others.for_each(|other| engine.as_mut().unwrap().mind(PeerId(other)));
        }
        let kept = keep(&call, size);
        let mut turn = 0;
        let mut start = |engines: &mut [Option<Engine>]| -> Vec<RequestId> {
            turn += 1;
            (0..size)
                .zip(&kept)
                .map(|(rank, kept)| {
                    let Some(engine) = &mut engines[rank as usize] else { return RequestId::COMPLETE };
                    again(engine, kept, &call, Group { rank, size }, turn)
                })
                .collect()
        };
        let first = start(&mut engines);
        settle(&mut engines, &first, &text);
        for (engine, request) in engines.iter_mut().flatten().zip(first) {
            assert_eq!(engine.take(request).error, None, "{text}");
        }
        // In the second start or before it; then once more without the dead.
        let dies = random.below(u64::from(size)) as usize;
        if seed % 3 == 0 {
            engines[dies] = None;
        }
        let mut requests = start(&mut engines);
        for _ in 0..random.below(40) {
            step(&mut engines);
        }
        engines[dies] = None;
        // Who has everything does not hear of it in this start, but in one of the next.
        let begun = Instant::now();
        loop {
            settle(&mut engines, &requests, &text);
            let mut all = true;
            for (engine, &request) in engines.iter_mut().zip(&requests) {
                let Some(engine) = engine else { continue };
                let failed = engine.take(request).error.is_some();
                assert!(!failed || engine.lent() == 0, "{text}: kept after a failure");
                all &= failed;
            }
            if all {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{text}: starts without one of them end well");
            requests = start(&mut engines);
        }
        assert_eq!(lent(&engines), vec![0; size as usize - 1], "{text}");
    }
}

/// The one whose memory is written to has its flag before the writer has heard that its put has ended.
#[test]
fn the_flag_follows_the_put_and_does_not_wait_for_its_end() {
    const BYTES: u64 = 5000;
    let block = |bytes| Block { displacement: 0, bytes };
    let mut engines = engines(2, 0, Rendezvous::Auto);
    // Rank 1 writes to rank 0 and nobody else does.
    let begin = |engine: &mut Engine, rank: u32, run: u32| {
        let (nothing, all) = ([block(0), block(0)], [block(BYTES), block(0)]);
        let (send, recv) = match rank {
            0 => (nothing, [block(0), block(BYTES)]),
            _ => (all, nothing),
        };
        let call = Call::Alltoallv { send: &send, recv: &recv, in_place: false };
        let group = Group { rank, size: 2 };
        let schedule = algorithm(&call, group).build(&call, group, &Model::default());
        let (data, room) = (memory(BYTES, |at| sent(run, rank, at)), memory(BYTES, |_| 0xee));
        let context = ContextId::WORLD.collective();
        let peers = Arc::new(Identity);
        let channel =
            Channel { context, rank: Rank(rank), peers, sequence: run, persistent: false, group: None };
        let arguments = Arguments::new(data, room);
        let bound = ScheduleRun::new(Arc::new(schedule), arguments, None, channel).unwrap();
        engine.start_schedule(bound).unwrap()
    };
    // Connections first.
    for run in 0..2 {
        let [Some(owner), Some(writer)] = &mut engines[..] else { unreachable!("two") };
        let requests = [begin(owner, 0, run), begin(writer, 1, run)];
        let mut turns = 0;
        while run > 0 && !owner.is_complete(requests[0]) {
            // The writer takes one step; what it has sent arrives, and is answered.
            turns += u32::from(writer.progress());
            for _ in 0..50 {
                owner.progress();
                std::thread::sleep(Duration::from_micros(50));
            }
            assert!(turns < 100, "stuck");
        }
        assert!(turns <= 1, "the writer was needed {turns} times, once to hear that its put has ended");
        settle(&mut engines, &requests, "both");
    }
}
