//! Two processes that cannot reach each other, among others that reach both: whatever the two do together fails, for everybody in it
//! and for that reason, and nobody else takes them for lost.

use std::sync::Arc;
use weft_coll::registry::candidates;
use weft_coll::{Call, Group, Model};
use weft_datatype::{Datatype, Memory};
use weft_engine::world::World;
use weft_engine::{Arguments, Channel, PeerMap, RequestId, ScheduleRun};
use weft_sim::News;
use weft_types::{ContextId, Error, ErrorClass, Farewell, PeerId, Rank, abi};

#[derive(Clone, Debug)]
struct Members(Vec<u32>);

impl PeerMap for Members {
    fn peer(&self, rank: Rank) -> PeerId {
        PeerId(self.0[rank.0 as usize])
    }

    fn contains(&self, process: PeerId) -> bool {
        self.0.contains(&process.0)
    }
}

/// All members do the same; what each is told.
fn together(
    world: &mut World,
    (context, sequence): (u32, u32),
    members: &[u32],
    call: &Call<'_>,
    nth: usize,
) -> Vec<Option<Error>> {
    let size = members.len() as u32;
    let start = |world: &mut World, rank: u32| -> RequestId {
        let able: Vec<_> = candidates(call, Group { rank: 0, size }, &Model::default()).collect();
        let schedule = able[nth % able.len()].build(call, Group { rank, size }, &Model::default());
        let int: Datatype = Datatype::predefined(abi::MPI_INT).unwrap().into();
        let memory = |count| Memory::scratch(&int, count).unwrap();
        let arguments = Arguments::new(memory(100), memory(100 * u64::from(size)));
        let channel = Channel {
            context: ContextId(context).collective(),
            rank: Rank(rank),
            peers: Arc::new(Members(members.to_vec())),
            sequence,
            persistent: false,
            group: None,
        };
        let run = ScheduleRun::new(Arc::new(schedule), arguments, None, channel).unwrap();
        world.engines[members[rank as usize] as usize].start_schedule(run).unwrap()
    };
    let requests: Vec<RequestId> = (0..size).map(|rank| start(world, rank)).collect();
    let place = |rank: u32| members.iter().position(|&member| member == rank);
    world.run(2_000_000, |rank, engine| place(rank).is_none_or(|place| engine.is_complete(requests[place])));
    let taken = members.iter().zip(&requests);
    taken.map(|(&rank, &request)| world.engines[rank as usize].take(request).error).collect()
}

#[test]
fn those_that_reach_both_hear_why_and_go_on_with_each() {
    let calls =
        [Call::Barrier, Call::Bcast { root: 0, bytes: 400 }, Call::Allgather { bytes: 400, in_place: false }];
    for seed in 0..10 {
        for (call, nth) in calls.iter().flat_map(|call| (0..6).map(move |nth| (call, nth))) {
            let context = format!("{call:?}, algorithm {nth}, seed {seed}");
            let mut world =
                World::new(5).seed(seed).full(0.1).fabric(|fabric| fabric.news = News::Partners).build();
            for (me, other) in [(1, 3), (3, 1)] {
                world.engines[me].cannot_reach(PeerId(other), Error::new(ErrorClass::OTHER, "no way"));
            }
            // Twice: what the others have heard by then changes nothing.
            for sequence in 0..2 {
                let told = together(&mut world, (0, sequence), &[0, 1, 2, 3, 4], call, nth);
                for (rank, error) in told.iter().enumerate() {
                    if let Some(error) = error {
                        assert_eq!(error.class(), ErrorClass::OTHER, "rank {rank}: {error} ({context})");
                    }
                }
                for me in [1, 3] {
                    assert_eq!(told[me].as_ref().map(Error::text), Some("no way"), "rank {me} ({context})");
                }
            }
            for (number, members) in [[0, 1, 2, 4], [0, 2, 3, 4]].into_iter().enumerate() {
                let told = together(&mut world, (8 + 8 * number as u32, 0), &members, call, nth);
                assert_eq!(told, [None, None, None, None], "of {members:?} ({context})");
            }
            // Nor do last words make anybody believe that somebody has died.
            world.engines[1].farewell(Farewell { life: 1, world: true });
            world.settle();
            for me in [0, 2, 4] {
                assert_eq!(world.engines[me].gone(), [], "rank {me} ({context})");
            }
        }
    }
}
