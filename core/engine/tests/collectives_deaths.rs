//! Processes lost in the middle of collectives, in worlds where only those who exchanged messages with the lost process hear of
//! it by themselves: everybody else must be told by its partners, end, and end for the same reason. The same where the ranks'
//! devices run the collectives, with slots for all of them or for none.
//!
//! `WEFT_SEED=n` replays one seed; `WEFT_SEEDS=n` runs that many.

use std::sync::Arc;
use weft_coll::registry::{self, candidates};
use weft_coll::{Call, Group, Model, Vector};
use weft_datatype::{Datatype, Memory, PredefinedOp};
use weft_engine::world::World;
use weft_engine::{Arguments, Channel, Operation, PeerMap, Reduction, RequestId, ScheduleRun};
use weft_sim::{DeviceConfig, News, Random};
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

fn int() -> Datatype {
    Datatype::predefined(abi::MPI_INT).unwrap().into()
}

fn calls(count: u64) -> Vec<Call<'static>> {
    let vector = Vector { count, element: 4, commutative: true };
    vec![
        Call::Barrier,
        Call::Bcast { root: 0, bytes: 4 * count },
        Call::Reduce { root: 0, vector, in_place: false },
        Call::Allreduce { vector, in_place: false },
        Call::Allgather { bytes: 4 * count, in_place: false },
        Call::Alltoall { bytes: 4 * count, in_place: false },
    ]
}

/// One algorithm run twice by all ranks; one of them dies at some time of the second run. Whether the death met a rank in it
/// that failed of it.
fn one(
    call: &Call<'_>,
    algorithm: &'static registry::Algorithm,
    size: u32,
    count: u64,
    seed: u64,
    device: Option<DeviceConfig>,
) -> bool {
    let mut random = Random::new(seed);
    let mut world = World::new(size)
        .seed(seed)
        .full(0.1)
        .fabric(|fabric| (fabric.news, fabric.device) = (News::Partners, device))
        .build();
    let model = Model { segment: Some(1000), window: Some(2), ..Model::default() };
    let start = |world: &mut World, sequence: u32, rank: u32| -> RequestId {
        let schedule = algorithm.build(call, Group { rank, size }, &model);
        let memory = |count: u64| Memory::scratch(&int(), count).unwrap();
        let (sent, received) = match call {
            Call::Allgather { .. } => (1, u64::from(size)),
            Call::Alltoall { .. } => (u64::from(size), u64::from(size)),
            _ => (1, 1),
        };
        let arguments = Arguments::new(memory(sent * count), memory(received * count));
        let kernel = PredefinedOp::Sum.kernel(&int()).unwrap();
        let reduction =
            Reduction { datatype: int(), operation: Operation::Predefined(kernel), name: "MPI_SUM" };
        let context = ContextId::WORLD.collective();
        let peers = Arc::new(Identity);
        let channel = Channel { context, rank: Rank(rank), peers, sequence, persistent: false, group: None };
        let run = ScheduleRun::new(Arc::new(schedule), arguments, Some(reduction), channel).unwrap();
        world.engines[rank as usize].start_schedule(run).unwrap()
    };
    let first: Vec<RequestId> = (0..size).map(|rank| start(&mut world, 0, rank)).collect();
    world.run(2_000_000, |rank, engine| engine.is_complete(first[rank as usize]));
    for (rank, &request) in first.iter().enumerate() {
        assert_eq!(world.engines[rank].take(request).error, None);
    }
    let dies = random.below(u64::from(size)) as u32;
    let second: Vec<RequestId> = (0..size).map(|rank| start(&mut world, 1, rank)).collect();
    for _ in 0..random.below(60) {
        world.step();
    }
    world.kill(dies);
    world.run(2_000_000, |rank, engine| engine.is_complete(second[rank as usize]));
    let mut met = false;
    for rank in (0..size).filter(|&rank| rank != dies) {
        if let Some(error) = world.engines[rank as usize].take(second[rank as usize]).error {
            let text = format!("{algorithm:?} of {size}, {count} ints, seed {seed}, rank {rank}: {error}");
            assert_eq!(error.class(), ErrorClass::PROC_ABORTED, "{text}");
            assert!(error.text().contains(&format!("process {dies} ")), "{text}");
            met = true;
        }
    }
    // What a failed run owes is paid: nothing that it sent or asked for is left.
    world.settle();
    for rank in (0..size).filter(|&rank| rank != dies) {
        let engine = &world.engines[rank as usize];
        let text = format!("{algorithm:?} of {size}, {count} ints, seed {seed}, rank {rank}");
        assert_eq!(engine.levels().posted, 0, "{text}");
        assert_eq!(engine.levels().requests, 0, "{text}");
        let strays: Vec<_> = engine.strays().filter(|stray| stray.source != Rank(dies)).collect();
        assert!(strays.is_empty(), "{text}: {strays:?}");
    }
    assert!(world.fabric().devices_are_empty(), "{algorithm:?} of {size}, {count} ints, seed {seed}");
    met
}

#[test]
fn everybody_ends_when_only_partners_hear_of_a_death() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let first = number("WEFT_SEED").unwrap_or(0);
    let seeds = if number("WEFT_SEED").is_some() { 1 } else { number("WEFT_SEEDS").unwrap_or(9) };
    let (mut runs, mut met) = (0, 0);
    for seed in first..first + seeds {
        for size in [2, 3, 5, 8] {
            for count in [0, 1, 3_000, 40_000] {
                for call in calls(count) {
                    let group = Group { rank: 0, size };
                    for algorithm in candidates(&call, group, &Model::default()) {
                        let slots = [None, Some(0), Some(64)][(seed % 3) as usize];
                        let device = slots.map(|slots| DeviceConfig { slots, ..DeviceConfig::default() });
                        runs += 1;
                        met += u32::from(one(&call, algorithm, size, count, seed, device));
                    }
                }
            }
        }
    }
    println!("{met} of {runs} deaths met a collective under way");
    assert!(met > runs / 10, "too few deaths met a collective under way: {met} of {runs}");
}
