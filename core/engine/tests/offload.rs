//! Collectives that the ranks' devices run by themselves (`weft_api::offload`), in simulated worlds: without the processes, with
//! the same bits as the processes give, whatever the memory looks like; and what is not taken, with the reason.
//! `many_collectives.rs` mixes them with all the others, `collectives_deaths.rs` kills ranks in the middle.

use std::sync::Arc;
use weft_api::offload::Refusal;
use weft_coll::registry::{Algorithm, candidates};
use weft_coll::{Call, Group, Model, Vector};
use weft_datatype::{Datatype, Elements, Form, Memory, PredefinedOp};
use weft_engine::world::World;
use weft_engine::{Arguments, Channel, Operation, PeerMap, Reduction, RequestId, ScheduleRun, UserOperation};
use weft_sim::{DeviceConfig, Random};
use weft_types::{ContextId, ErrorClass, PeerId, Rank, abi};

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

fn basic(handle: u32) -> Datatype {
    Datatype::predefined(handle).unwrap().into()
}

fn predefined(operation: PredefinedOp, datatype: &Datatype) -> Reduction {
    let kernel = operation.kernel(datatype).unwrap();
    Reduction { datatype: datatype.clone(), operation: Operation::Predefined(kernel), name: operation.name() }
}

/// What one rank brings.
struct Part {
    send: Memory,
    recv: Memory,
}

fn bound(
    call: &Call<'_>,
    algorithm: &Algorithm,
    (rank, size): (u32, u32),
    part: &Part,
    reduction: Option<&Reduction>,
) -> ScheduleRun {
    let model = Model { segment: Some(1000), window: Some(2), ..Model::default() };
    let schedule = Arc::new(algorithm.build(call, Group { rank, size }, &model));
    let context = ContextId::WORLD.collective();
    let channel = Channel {
        context,
        rank: Rank(rank),
        peers: Arc::new(Identity),
        sequence: 0,
        persistent: false,
        group: None,
    };
    let arguments = Arguments::new(part.send.clone(), part.recv.clone());
    ScheduleRun::new(schedule, arguments, reduction.cloned(), channel).unwrap()
}

fn bytes_of(memory: &Memory, bytes: u64) -> Vec<u8> {
    let mut all = vec![0; bytes as usize];
    memory.send_view(0, 0, bytes).pack(0, &mut all);
    all
}

fn filled(datatype: &Datatype, bytes: &[u8]) -> Memory {
    let count = bytes.len() as u64 / datatype.element_bytes() as u64;
    let memory = Memory::scratch(datatype, count).unwrap();
    memory.recv_view(0, 0, bytes.len() as u64).unpack(0, bytes);
    memory
}

fn random_bytes(random: &mut Random, bytes: u64) -> Vec<u8> {
    (0..bytes.div_ceil(8)).flat_map(|_| random.next().to_ne_bytes()).take(bytes as usize).collect()
}

/// Doubles of very different size, so that the order of additions is seen in the result.
fn random_doubles(random: &mut Random, bytes: u64) -> Vec<u8> {
    let one = |random: &mut Random| {
        let mantissa = random.below(1 << 30) as f64 - f64::from(1 << 29);
        mantissa * 2_f64.powi(random.below(80) as i32 - 40)
    };
    (0..bytes / 8).flat_map(|_| one(random).to_ne_bytes()).collect()
}

fn calls(count: u64, size: u32) -> Vec<Call<'static>> {
    let vector = Vector { count, element: 8, commutative: true };
    vec![
        Call::Barrier,
        Call::Bcast { root: size - 1, bytes: 8 * count },
        Call::Reduce { root: size / 2, vector, in_place: false },
        Call::Allreduce { vector, in_place: false },
    ]
}

fn reduces(call: &Call<'_>) -> bool {
    matches!(call, Call::Reduce { .. } | Call::Allreduce { .. })
}

fn with_devices(size: u32, seed: u64, device: DeviceConfig) -> World {
    World::new(size).seed(seed).full(0.1).fabric(|fabric| fabric.device = Some(device)).build()
}

/// The algorithms that a device is asked about: those without steps on other ranks' memory.
fn for_devices(call: &Call<'_>, group: Group) -> impl Iterator<Item = &'static Algorithm> {
    let model = Model::default();
    let all: Vec<_> = candidates(call, group, &model).collect();
    let call = *call;
    all.into_iter().filter(move |algorithm| algorithm.build(&call, group, &model).outline().is_some())
}

#[test]
fn a_collective_ends_while_no_process_does_anything() {
    let doubles = basic(abi::MPI_DOUBLE);
    let sum = predefined(PredefinedOp::Sum, &doubles);
    for size in [2, 3, 8] {
        for (call, count) in calls(700, size).into_iter().zip([0, 700, 700, 700]) {
            for algorithm in for_devices(&call, Group { rank: 0, size }) {
                let mut world = with_devices(size, 3, DeviceConfig::default());
                let parts: Vec<Part> = (0..size)
                    .map(|rank| {
                        let data: Vec<u8> =
                            (0..count).flat_map(|i| (i as f64 + f64::from(rank)).to_ne_bytes()).collect();
                        match call {
                            Call::Bcast { .. } => {
                                Part { send: Memory::none(), recv: filled(&doubles, &data) }
                            }
                            _ => Part {
                                send: filled(&doubles, &data),
                                recv: Memory::scratch(&doubles, count).unwrap(),
                            },
                        }
                    })
                    .collect();
                let requests: Vec<RequestId> = (0..size)
                    .map(|rank| {
                        let reduction = reduces(&call).then_some(&sum);
                        let run = bound(&call, algorithm, (rank, size), &parts[rank as usize], reduction);
                        let engine = &mut world.engines[rank as usize];
                        assert_eq!(engine.can_offload(&run), Ok(()));
                        engine.start_schedule(run).unwrap()
                    })
                    .collect();
                let changes: Vec<u32> = world.engines.iter().map(|engine| engine.changes()).collect();
                // Only time passes.
                world.fabric().pass(5_000);
                assert!(world.fabric().devices_are_empty(), "{algorithm:?} of {size} has ended");
                let expected: Vec<u8> = (0..count)
                    .flat_map(|i| {
                        let ranks = f64::from(size);
                        let value = match call {
                            Call::Bcast { root, .. } => i as f64 + f64::from(root),
                            _ => i as f64 * ranks + ranks * (ranks - 1.0) / 2.0,
                        };
                        value.to_ne_bytes()
                    })
                    .collect();
                for rank in 0..size {
                    let here = !matches!(call, Call::Reduce { root, .. } if root != rank);
                    if here {
                        assert_eq!(
                            bytes_of(&parts[rank as usize].recv, 8 * count),
                            expected,
                            "{algorithm:?}"
                        );
                    }
                }
                assert!(
                    changes.iter().zip(&world.engines).all(|(&before, engine)| engine.changes() == before)
                );
                // The first look finds the end.
                for (engine, &request) in world.engines.iter_mut().zip(&requests) {
                    engine.progress();
                    assert!(engine.is_complete(request));
                    assert_eq!(engine.take(request).error, None);
                    assert!(engine.is_quiet());
                }
            }
        }
    }
}

/// The receive arguments of all ranks afterwards.
fn results(
    call: &Call<'_>,
    algorithm: &Algorithm,
    size: u32,
    types: &[Datatype],
    data: &[Vec<u8>],
    reduction: &Reduction,
    device: Option<DeviceConfig>,
) -> Vec<Vec<u8>> {
    let mut world = World::new(size).seed(5).full(0.2).fabric(|fabric| fabric.device = device).build();
    let parts: Vec<Part> = (0..size as usize)
        .map(|rank| {
            let datatype = &types[rank % types.len()];
            match call {
                Call::Bcast { .. } => Part { send: Memory::none(), recv: filled(datatype, &data[rank]) },
                _ => Part {
                    send: filled(datatype, &data[rank]),
                    recv: filled(datatype, &vec![0x5a; data[rank].len()]),
                },
            }
        })
        .collect();
    let requests: Vec<RequestId> = (0..size)
        .map(|rank| {
            let part = &parts[rank as usize];
            let run = bound(call, algorithm, (rank, size), part, reduces(call).then_some(reduction));
            let engine = &mut world.engines[rank as usize];
            assert_eq!(engine.can_offload(&run).is_ok(), device.is_some());
            engine.start_schedule(run).unwrap()
        })
        .collect();
    world.run(2_000_000, |rank, engine| engine.is_complete(requests[rank as usize]));
    for (engine, &request) in world.engines.iter_mut().zip(&requests) {
        assert_eq!(engine.take(request).error, None);
    }
    world.settle();
    assert!(world.fabric().devices_are_empty());
    parts.iter().zip(data).map(|(part, data)| bytes_of(&part.recv, data.len() as u64)).collect()
}

#[test]
fn devices_give_the_bits_that_processes_give() {
    let double = basic(abi::MPI_DOUBLE);
    let gaps = Datatype::vector(2, 1, 3, &double, Form::Int).unwrap();
    let backwards = Datatype::indexed(&[1, 1], &[3, 0], &double, Form::Int).unwrap();
    let mixed = [double.clone(), gaps, backwards];
    let mut random = Random::new(11);
    for size in [2, 3, 5, 8, 13] {
        for count in [0, 2, 1000] {
            for call in calls(count, size) {
                // A reduction has one datatype at all ranks, a broadcast may have as many as there are ranks.
                let types = if matches!(call, Call::Bcast { .. }) { &mixed[..] } else { &mixed[..1] };
                let operations: &[PredefinedOp] = match reduces(&call) {
                    true => &[PredefinedOp::Sum, PredefinedOp::Max, PredefinedOp::Min],
                    false => &[PredefinedOp::Sum],
                };
                for &operation in operations {
                    let reduction = predefined(operation, &double);
                    let bytes = if call == Call::Barrier { 0 } else { 8 * count };
                    let data: Vec<Vec<u8>> = (0..size).map(|_| random_doubles(&mut random, bytes)).collect();
                    for algorithm in for_devices(&call, Group { rank: 0, size }) {
                        let run = |device| results(&call, algorithm, size, types, &data, &reduction, device);
                        let host = run(None);
                        for slots in [0, 1, 64] {
                            let device = run(Some(DeviceConfig { slots, ..DeviceConfig::default() }));
                            assert!(
                                device == host,
                                "{algorithm:?}, {size} ranks, {count} doubles, {slots} slots"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_unit_agrees_with_the_processor_on_all_it_knows() {
    const OPERATIONS: [PredefinedOp; 10] = [
        PredefinedOp::Max,
        PredefinedOp::Min,
        PredefinedOp::Sum,
        PredefinedOp::Prod,
        PredefinedOp::Land,
        PredefinedOp::Band,
        PredefinedOp::Lor,
        PredefinedOp::Bor,
        PredefinedOp::Lxor,
        PredefinedOp::Bxor,
    ];
    let mut random = Random::new(3);
    let mut taken = Vec::new();
    for predefined_type in weft_datatype::Predefined::all() {
        let datatype: Datatype = predefined_type.into();
        for operation in OPERATIONS {
            let Ok(kernel) = operation.kernel(&datatype) else { continue };
            let element = datatype.element_bytes() as u64;
            let vector = Vector { count: 64, element, commutative: true };
            let call = Call::Allreduce { vector, in_place: false };
            let group = Group { rank: 0, size: 2 };
            let algorithm = candidates(&call, group, &Model::default()).next().unwrap();
            let reduction = predefined(operation, &datatype);
            let mut world = with_devices(2, 1, DeviceConfig::default());
            let data = [random_bytes(&mut random, 64 * element), random_bytes(&mut random, 64 * element)];
            let parts = data.each_ref().map(|data| Part {
                send: filled(&datatype, data),
                recv: Memory::scratch(&datatype, 64).unwrap(),
            });
            let run = |rank: u32| bound(&call, algorithm, (rank, 2), &parts[rank as usize], Some(&reduction));
            match world.engines[0].can_offload(&run(0)) {
                Ok(()) => taken.push(format!("{} {}", operation.name(), predefined_type.name())),
                Err(Refusal::Arithmetic(_) | Refusal::UnknownArithmetic) => continue,
                Err(other) => panic!("{other}"),
            }
            let requests = [0, 1].map(|rank| world.engines[rank as usize].start_schedule(run(rank)).unwrap());
            world.run(100_000, |rank, engine| engine.is_complete(requests[rank as usize]));
            let mut expected = data[1].clone();
            kernel.apply(&data[0], &mut expected);
            for part in &parts {
                assert_eq!(bytes_of(&part.recv, 64 * element), expected, "{}", taken.last().unwrap());
            }
        }
    }
    for wanted in ["MPI_SUM MPI_DOUBLE", "MPI_BXOR MPI_UINT64_T", "MPI_MAX MPI_FLOAT", "MPI_PROD MPI_INT"] {
        assert!(taken.iter().any(|taken| taken == wanted), "{wanted}");
    }
    assert!(!taken.iter().any(|taken| taken.contains("MPI_LAND") || taken == "MPI_PROD MPI_DOUBLE"));
}

#[derive(Debug)]
struct First;

impl UserOperation for First {
    fn apply(&self, _left: Elements, _into: Elements) {}
}

#[test]
fn what_is_not_taken_says_why() {
    let double = basic(abi::MPI_DOUBLE);
    let complex = basic(abi::MPI_C_DOUBLE_COMPLEX);
    let device = DeviceConfig { longest: 4096, ..DeviceConfig::default() };
    let mut world = with_devices(2, 1, device);
    let user = Reduction { datatype: double.clone(), operation: Operation::User(Arc::new(First)), name: "" };
    let vector = |count: u64, element: u64| Vector { count, element, commutative: true };
    let allreduce = |count, element| Call::Allreduce { vector: vector(count, element), in_place: false };
    let cases = [
        (allreduce(3, 8), Some(user), "user-defined"),
        (allreduce(3, 8), Some(predefined(PredefinedOp::Prod, &double)), "no Prod on Float(8)"),
        (allreduce(3, 16), Some(predefined(PredefinedOp::Sum, &complex)), "no device combines"),
        (allreduce(600, 8), Some(predefined(PredefinedOp::Sum, &double)), "at most 4096 bytes"),
        (Call::Allgather { bytes: 8, in_place: false }, None, "only barrier, bcast, reduce and allreduce"),
    ];
    for (call, reduction, why) in cases {
        let algorithm = candidates(&call, Group { rank: 0, size: 2 }, &Model::default()).next().unwrap();
        let parts = [0, 1].map(|_| Part {
            send: Memory::scratch(&complex, 600).unwrap(),
            recv: Memory::scratch(&complex, 600).unwrap(),
        });
        let run = |rank: u32| bound(&call, algorithm, (rank, 2), &parts[rank as usize], reduction.as_ref());
        let refusal = world.engines[0].can_offload(&run(0)).expect_err(why);
        assert!(refusal.to_string().contains(why), "{refusal}");
        assert_eq!(world.engines[1].can_offload(&run(1)), Err(refusal), "all members answer alike");
    }
    // A member alone, and a world without devices.
    let call = Call::Barrier;
    let algorithm = candidates(&call, Group { rank: 0, size: 1 }, &Model::default()).next().unwrap();
    let none = Part { send: Memory::none(), recv: Memory::none() };
    let alone = bound(&call, algorithm, (0, 1), &none, None);
    assert_eq!(world.engines[0].can_offload(&alone), Err(Refusal::Alone));
    let plain = World::new(2).seed(1).build();
    let run = bound(&call, algorithm, (0, 2), &none, None);
    assert_eq!(plain.engines[0].can_offload(&run), Err(Refusal::NoEngine));
    world.settle();
}

#[test]
fn disagreement_about_the_count_is_told_by_the_device() {
    let byte = basic(abi::MPI_BYTE);
    let mut world = with_devices(3, 1, DeviceConfig::default());
    let requests: Vec<RequestId> = (0..3)
        .map(|rank| {
            let bytes = 16 + 4 * u64::from(rank == 1);
            let call = Call::Bcast { root: 0, bytes };
            let algorithm = candidates(&call, Group { rank, size: 3 }, &Model::default())
                .find(|algorithm| algorithm.name == "flat");
            let part = Part { send: Memory::none(), recv: Memory::scratch(&byte, bytes).unwrap() };
            let run = bound(&call, algorithm.unwrap(), (rank, 3), &part, None);
            world.engines[rank as usize].start_schedule(run).unwrap()
        })
        .collect();
    world.run(100_000, |rank, engine| engine.is_complete(requests[rank as usize]));
    let error = world.engines[1].take(requests[1]).error.expect("16 bytes are not 20");
    assert_eq!(error.class(), ErrorClass::TRUNCATE);
    assert!(error.text().contains("16 bytes where 20"), "{error}");
    world.settle();
    assert!(world.fabric().devices_are_empty());
}
