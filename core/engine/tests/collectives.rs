//! Collectives run by the engine in simulated worlds: real protocols, random packet loss of room, derived datatypes that
//! differ from rank to rank, user-defined operations, many collectives at once, a lost process.
//! Covers of `musts.md`, chapter 6: isolation from point-to-point and other collectives (6.1, 6.12), type maps that
//! differ per rank (6.1), user operations on derived types (6.9.5), persistent collectives started in any order (6.13).

use std::sync::{Arc, Mutex};
use weft_coll::{Block, Call, Group, Model, Vector, plan};
use weft_datatype::{Datatype, Elements, Form, Memory, PredefinedOp};
use weft_engine::world::World;
use weft_engine::{
    Arguments, Channel, Engine, KeptRun, Operation, PeerMap, Reduction, RequestId, ScheduleRun, UserOperation,
};
use weft_types::{ContextId, ErrorClass, PeerId, Rank, abi};

const LIMIT: u64 = 3_000_000;

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

fn channel(rank: u32, sequence: u32, persistent: bool) -> Channel {
    let context = ContextId::WORLD.collective();
    Channel { context, rank: Rank(rank), peers: Arc::new(Identity), sequence, persistent, group: None }
}

fn int() -> Datatype {
    Datatype::predefined(abi::MPI_INT).unwrap().into()
}

/// Memory in the layout of `count` elements, holding the packed `data`.
fn filled(datatype: &Datatype, count: u64, data: &[i32]) -> Memory {
    let memory = Memory::scratch(datatype, count).unwrap();
    let bytes: Vec<u8> = data.iter().flat_map(|value| value.to_ne_bytes()).collect();
    memory.recv_view(0, 0, bytes.len() as u64).unpack(0, &bytes);
    memory
}

fn content(memory: &Memory, ints: u64) -> Vec<i32> {
    let mut bytes = vec![0; 4 * ints as usize];
    memory.send_view(0, 0, 4 * ints).pack(0, &mut bytes);
    bytes.chunks_exact(4).map(|chunk| i32::from_ne_bytes(chunk.try_into().unwrap())).collect()
}

fn sum() -> Option<Reduction> {
    let kernel = PredefinedOp::Sum.kernel(&int()).unwrap();
    Some(Reduction { datatype: int(), operation: Operation::Predefined(kernel), name: "MPI_SUM" })
}

/// Runs user callbacks and reports the request's end.
fn drive(engine: &mut Engine, request: RequestId) -> bool {
    while let Some(callback) = engine.take_callback() {
        callback.run();
        engine.callback_done(callback);
    }
    engine.is_complete(request)
}

fn start(
    engine: &mut Engine,
    call: &Call<'_>,
    group: Group,
    arguments: Arguments,
    reduction: Option<Reduction>,
    channel: Channel,
) -> RequestId {
    let model = Model { segment: Some(1000), window: Some(2), ..Model::default() };
    let run = ScheduleRun::new(Arc::new(plan(call, group, &model)), arguments, reduction, channel).unwrap();
    engine.start_schedule(run).unwrap()
}

#[test]
fn allreduce_of_every_length_through_every_protocol() {
    for (seed, size) in [(1, 1), (2, 2), (3, 3), (4, 5), (5, 8)] {
        for count in [0_u64, 1, 300, 5_000, 60_000] {
            let mut world = World::new(size).seed(seed).full(0.05).build();
            let results: Vec<Memory> = (0..size).map(|_| Memory::scratch(&int(), count).unwrap()).collect();
            let vector = Vector { count, element: 4, commutative: true };
            let requests: Vec<RequestId> = (0..size)
                .map(|rank| {
                    let data: Vec<i32> = (0..count as i32).map(|i| i * (rank as i32 + 1)).collect();
                    let arguments =
                        Arguments::new(filled(&int(), count, &data), results[rank as usize].clone());
                    let call = Call::Allreduce { vector, in_place: false };
                    let engine = &mut world.engines[rank as usize];
                    start(engine, &call, Group { rank, size }, arguments, sum(), channel(rank, 0, false))
                })
                .collect();
            world.run(LIMIT, |rank, engine| drive(engine, requests[rank as usize]));
            let factor: i32 = (1..=size as i32).sum();
            let expected: Vec<i32> = (0..count as i32).map(|i| i * factor).collect();
            for (rank, result) in results.iter().enumerate() {
                assert_eq!(content(result, count), expected, "rank {rank} of {size}, {count} elements");
                let completion = world.engines[rank].take(requests[rank]);
                assert_eq!(completion.error, None);
            }
        }
    }
}

#[test]
fn sends_that_waited_for_room_end_once() {
    // The root of a broadcast waits for nobody: it runs ahead until the transport and the receivers' budgets refuse.
    let mut world =
        World::new(3).seed(4).full(0.7).engines(|config| config.eager_budget_per_sender = 4096).build();
    let rounds = 60;
    let mut started = Vec::new();
    for rank in 0..3 {
        let mine: Vec<(RequestId, Memory)> = (0..rounds)
            .map(|sequence| {
                let room = filled(&int(), 1, &[if rank == 0 { sequence as i32 } else { -1 }]);
                let arguments = Arguments::new(Memory::none(), room.clone());
                let call = Call::Bcast { root: 0, bytes: 4 };
                let engine = &mut world.engines[rank as usize];
                let group = Group { rank, size: 3 };
                (start(engine, &call, group, arguments, None, channel(rank, sequence, false)), room)
            })
            .collect();
        started.push(mine);
    }
    world
        .run(LIMIT, |rank, engine| started[rank as usize].iter().all(|&(request, _)| drive(engine, request)));
    // Budget that is given back may still wait for room.
    world.settle();
    for (rank, mine) in started.iter().enumerate() {
        for (sequence, (request, room)) in (0..).zip(mine) {
            assert_eq!(world.engines[rank].take(*request).error, None);
            assert_eq!(content(room, 1), [sequence]);
        }
        assert!(world.engines[rank].is_quiet());
    }
}

#[test]
fn ranks_describe_the_same_data_by_different_types() {
    // Rank 0 has ints with gaps, rank 1 one struct of many, rank 2 plain ints: only the signatures agree.
    let gaps = Datatype::vector(6, 1, 3, &int(), Form::Int).unwrap();
    let pairs = Datatype::indexed(&[2, 1], &[4, 0], &int(), Form::Int).unwrap();
    let types = [(gaps, 1), (pairs, 2), (int(), 6)];
    for root in 0..3 {
        let mut world = World::new(3).seed(u64::from(root)).build();
        let data: Vec<i32> = (10..16).collect();
        let memories: Vec<Memory> = (0..3)
            .map(|rank: usize| {
                let (datatype, count) = &types[rank];
                match rank as u32 == root {
                    true => filled(datatype, *count, &data),
                    false => Memory::scratch(datatype, *count).unwrap(),
                }
            })
            .collect();
        let requests: Vec<RequestId> = (0..3)
            .map(|rank| {
                let arguments = Arguments::new(Memory::none(), memories[rank as usize].clone());
                let call = Call::Bcast { root, bytes: 24 };
                let engine = &mut world.engines[rank as usize];
                start(engine, &call, Group { rank, size: 3 }, arguments, None, channel(rank, 0, false))
            })
            .collect();
        world.run(LIMIT, |rank, engine| drive(engine, requests[rank as usize]));
        memories.iter().for_each(|memory| assert_eq!(content(memory, 6), data));
    }
}

/// 2x2 matrices modulo a prime, stored with a gap after each element: associative, not commutative.
#[derive(Debug)]
struct MatrixProduct {
    calls: Mutex<Vec<usize>>,
}

const MODULUS: i64 = 10_007;

fn product(a: [i32; 4], b: [i32; 4]) -> [i32; 4] {
    let cell = |row: usize, column: usize| {
        let sum = i64::from(a[2 * row]) * i64::from(b[column])
            + i64::from(a[2 * row + 1]) * i64::from(b[2 + column]);
        (sum % MODULUS) as i32
    };
    [cell(0, 0), cell(0, 1), cell(1, 0), cell(1, 1)]
}

impl UserOperation for MatrixProduct {
    fn apply(&self, left: Elements, into: Elements) {
        self.calls.lock().unwrap().push(into.count());
        for i in 0..into.count() {
            let (a, b) =
                ((left.address() + i * 20) as *const [i32; 4], (into.address() + i * 20) as *mut [i32; 4]);
            // SAFETY: the executor gives operands of the type below: 16 bytes of data every 20 bytes.
            unsafe { *b = product(*a, *b) };
        }
    }
}

#[test]
fn user_operations_on_derived_types_keep_rank_order() {
    let four = Datatype::contiguous(4, &int(), Form::Int).unwrap();
    let matrix = Datatype::resized(&four, 0, 20, Form::Int).unwrap();
    for (seed, size) in [(1, 1_u32), (2, 2), (3, 5), (4, 7), (5, 8)] {
        let count = 3_u64;
        let data =
            |rank: u32| -> Vec<i32> { (0..12).map(|i| (i * 31 + rank as i32 * 17 + 1) % 9973).collect() };
        let folded = |last: u32| -> Vec<i32> {
            (0..3)
                .flat_map(|m| {
                    let of = |rank: u32| -> [i32; 4] { data(rank)[4 * m..4 * m + 4].try_into().unwrap() };
                    (1..=last).fold(of(0), |all, rank| product(all, of(rank)))
                })
                .collect()
        };
        let operation = Arc::new(MatrixProduct { calls: Mutex::default() });
        let mut world = World::new(size).seed(seed).full(0.1).build();
        let vector = Vector { count, element: 16, commutative: false };
        let reduction = Some(Reduction {
            datatype: matrix.clone(),
            operation: Operation::User(operation.clone()),
            name: "",
        });
        let room = || (0..size).map(|_| Memory::scratch(&matrix, count).unwrap()).collect::<Vec<_>>();
        let (scans, alls, roots) = (room(), room(), room());
        // Three collectives at once, on one communicator.
        let mut requests: Vec<Vec<RequestId>> = Vec::new();
        for rank in 0..size {
            let send = filled(&matrix, count, &data(rank));
            let calls = [
                (Call::Scan { vector, in_place: false }, &scans),
                (Call::Allreduce { vector, in_place: false }, &alls),
                (Call::Reduce { root: size - 1, vector, in_place: false }, &roots),
            ];
            let engine = &mut world.engines[rank as usize];
            let mine = (0..).zip(calls).map(|(sequence, (call, room))| {
                let arguments = Arguments::new(send.clone(), room[rank as usize].clone());
                start(
                    engine,
                    &call,
                    Group { rank, size },
                    arguments,
                    reduction.clone(),
                    channel(rank, sequence, false),
                )
            });
            requests.push(mine.collect());
        }
        world.run(LIMIT, |rank, engine| {
            requests[rank as usize].iter().filter(|&&request| !drive(engine, request)).count() == 0
        });
        for rank in 0..size {
            assert_eq!(content(&scans[rank as usize], 12), folded(rank), "scan, rank {rank} of {size}");
            assert_eq!(
                content(&alls[rank as usize], 12),
                folded(size - 1),
                "allreduce, rank {rank} of {size}"
            );
        }
        assert_eq!(content(&roots[size as usize - 1], 12), folded(size - 1));
        assert!(operation.calls.lock().unwrap().iter().all(|&elements| elements == 3));
    }
}

#[test]
fn persistent_collectives_may_start_in_any_order_and_again() {
    let size = 4_u32;
    let mut world = World::new(size).seed(9).build();
    let mut runs: Vec<Vec<KeptRun>> = Vec::new();
    let mut rooms: Vec<Vec<Memory>> = Vec::new();
    for rank in 0..size {
        let made = (0..3).map(|sequence| {
            let call = Call::Allgather { bytes: 4, in_place: false };
            let schedule = Arc::new(plan(&call, Group { rank, size }, &Model::default()));
            let send = filled(&int(), 1, &[rank as i32 * 10 + sequence]);
            let room = Memory::scratch(&int(), u64::from(size)).unwrap();
            let channel = channel(rank, sequence as u32, true);
            (
                ScheduleRun::new(schedule, Arguments::new(send, room.clone()), None, channel).unwrap().keep(),
                room,
            )
        });
        let (run, room) = made.unzip();
        runs.push(run);
        rooms.push(room);
    }
    for round in 0..3_u32 {
        let requests: Vec<Vec<RequestId>> = (0..size)
            .map(|rank| {
                (0..3)
                    .map(|turn| {
                        let which = ((turn + rank + round) % 3) as usize;
                        world.engines[rank as usize].start_schedule(runs[rank as usize][which].run()).unwrap()
                    })
                    .collect()
            })
            .collect();
        world
            .run(LIMIT, |rank, engine| requests[rank as usize].iter().all(|&request| drive(engine, request)));
        for rank in 0..size as usize {
            for (sequence, room) in rooms[rank].iter().enumerate() {
                let expected: Vec<i32> = (0..size as i32).map(|peer| peer * 10 + sequence as i32).collect();
                assert_eq!(content(room, u64::from(size)), expected);
            }
            requests[rank]
                .iter()
                .for_each(|&request| assert_eq!(world.engines[rank].take(request).error, None));
        }
    }
}

#[test]
fn disagreement_about_the_count_is_an_error_and_not_a_hang() {
    for (theirs, said) in [(5, "16 bytes from rank 0 where 20"), (3, "more bytes from rank 0 where 12")] {
        let mut world = World::new(2).seed(3).build();
        let requests: Vec<RequestId> = [(0, 4), (1, theirs)]
            .map(|(rank, ints)| {
                let arguments = Arguments::new(Memory::none(), filled(&int(), ints, &[7; 3]));
                let call = Call::Bcast { root: 0, bytes: 4 * ints };
                let engine = &mut world.engines[rank as usize];
                start(engine, &call, Group { rank, size: 2 }, arguments, None, channel(rank, 0, false))
            })
            .to_vec();
        world.run(LIMIT, |rank, engine| drive(engine, requests[rank as usize]));
        let error = world.engines[1].take(requests[1]).error.expect("the counts differ");
        assert_eq!(error.class(), ErrorClass::TRUNCATE);
        assert!(error.text().contains(said), "{error}");
    }
}

#[test]
fn one_buffer_given_twice_is_refused() {
    let buffer = filled(&int(), 4, &[1; 4]);
    let vector = Vector { count: 4, element: 4, commutative: true };
    let call = Call::Allreduce { vector, in_place: false };
    let schedule = Arc::new(plan(&call, Group { rank: 0, size: 2 }, &Model::default()));
    let arguments = Arguments::new(buffer.clone(), buffer);
    let error = ScheduleRun::new(schedule, arguments, sum(), channel(0, 0, false)).expect_err("aliased");
    assert_eq!(error.class(), ErrorClass::BUFFER);
    assert!(error.text().contains("MPI_IN_PLACE"), "{error}");
}

#[test]
fn a_lost_process_ends_the_collective_of_its_neighbours_with_an_error() {
    let size = 4_u32;
    let mut world = World::new(size).seed(5).build();
    let blocks: Vec<Block> =
        (0..size).map(|rank| Block { displacement: i64::from(rank) * 4, bytes: 4 }).collect();
    // Let everybody meet, then lose rank 3 before it starts.
    world.settle();
    world.kill(3);
    let requests: Vec<RequestId> = (0..3)
        .map(|rank| {
            let call = match rank {
                0 => Call::Gatherv { root: 0, bytes: 0, blocks: &blocks, in_place: false },
                _ => Call::Gatherv { root: 0, bytes: 4, blocks: &[], in_place: false },
            };
            let room = Memory::scratch(&int(), 4).unwrap();
            let arguments = Arguments::new(filled(&int(), 1, &[rank as i32]), room);
            let engine = &mut world.engines[rank as usize];
            start(engine, &call, Group { rank, size }, arguments, None, channel(rank, 0, false))
        })
        .collect();
    world.run(LIMIT, |rank, engine| drive(engine, requests[rank as usize]));
    let error = world.engines[0].take(requests[0]).error.expect("rank 3 is gone");
    assert_eq!(error.class(), ErrorClass::PROC_ABORTED);
}
