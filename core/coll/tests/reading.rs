//! Long blocking calls, which may go by reading (`weft_coll::rounds`), with all members in one thread, in random order, against the
//! definition.

mod cells;

use cells::{Member, Node, Plan, arguments, in_two_phases, noise, shapes};
use proptest::prelude::*;
use weft_coll::Group;
use weft_coll::rounds::{BlockingRun, Contest, Outcome, Room, Script, Shape, is_contested};

const SLOT: usize = 16 << 10;
/// Calls in a row that go the same way in a trial.
const RUN: usize = Contest::RUN as usize;
/// Calls of a trial.
const TRIAL: usize = 4 * RUN;
/// Calls of one kind after which each way was found to be the faster one or not, and is taken.
const CALLS: usize = TRIAL + 4;

/// What happens besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// One member may not read the others.
    Blind(u32),
    /// One member's reads fail after so many.
    Fails(u32, u64),
}

/// Several members' calls.
struct World {
    node: Node,
    size: u32,
    seed: u64,
}

type Running = (BlockingRun, Option<Vec<u8>>);

impl World {
    /// `reading`: nanoseconds of a read; each step takes 50.
    fn new(size: u32, seed: u64, reading: u64) -> World {
        let mut node = Node::new(size, SLOT);
        node.memories.iter_mut().for_each(|memory| memory.cost = reading);
        World { node, size, seed }
    }

    /// Runs the same call once more; answers what ended it at each member.
    fn run(&mut self, shape: Shape, bytes: usize, element: u64, in_place: bool) -> Vec<Outcome> {
        let size = self.size;
        let blocks = matches!(shape, Shape::Alltoall | Shape::ReduceScatter);
        let len = if blocks { bytes * size as usize } else { bytes };
        let inputs = (0..size).map(|_| (0..len).map(|_| noise(&mut self.seed) as u8).collect()).collect();
        let plan: Plan = (shape, bytes, element, inputs, in_place);
        let crowded = self.node.crowded;
        let room = Room { in_two_phases: in_two_phases(SLOT, size as usize), ..Room::alike(SLOT, crowded) };
        let mut running: Vec<Option<Running>> = (0..size).map(|_| None).collect();
        let mut ended: Vec<Option<Outcome>> = vec![None; size as usize];
        let mut idle = 0;
        while ended.iter().any(Option::is_none) && idle < 10_000 {
            let me = (noise(&mut self.seed) % u64::from(size)) as usize;
            if ended[me].is_some() {
                continue;
            }
            let mut member = Member { node: &mut self.node, me: me as u32 };
            let (run, expected) = running[me].get_or_insert_with(|| begin(&plan, me, room, &mut member));
            // Others read it between the steps.
            let mut arguments = std::mem::take(&mut member.node.memories[me].arguments);
            let outcome = run.step(&mut member, &mut arguments);
            let missing = run.missing(&member);
            let right = outcome != Outcome::Done
                || expected.as_ref().is_none_or(|expected| arguments.recv.starts_with(expected));
            let memory = &mut member.node.memories[me];
            (memory.arguments, memory.now) = (arguments, memory.now + 50);
            match outcome {
                Outcome::Blocked => {
                    assert_ne!(missing, 0);
                    assert_eq!(missing & 1 << me, 0);
                    idle += 1;
                    continue;
                }
                Outcome::Done => {
                    assert!(right, "{shape:?} of {bytes} bytes at {me} of {size}, in place: {in_place}");
                }
                _ => {}
            }
            idle = 0;
            ended[me] = Some(outcome);
        }
        ended.into_iter().map(|outcome| outcome.unwrap_or(Outcome::Blocked)).collect()
    }

    /// Reads of all members so far.
    fn reads(&self) -> u64 {
        self.node.memories.iter().map(|memory| memory.read).sum()
    }
}

fn begin(
    (shape, bytes, element, inputs, in_place): &Plan,
    me: usize,
    room: Room,
    member: &mut Member<'_>,
) -> Running {
    let group = Group { rank: me as u32, size: inputs.len() as u32 };
    let in_place = *in_place && !matches!(shape, Shape::Reduce { root } if *root != me as u32);
    let script = Script::new(*shape, group, *bytes as u64, *element, in_place, room);
    let (arguments, expected) = arguments(*shape, me, inputs, *bytes, in_place);
    member.node.memories[me].arguments = arguments;
    (BlockingRun::begin(script, member), expected)
}

/// The shapes that may go by reading, and bytes of a call that does, few enough for a test.
fn contested(size: u32, root: u32, in_place: bool) -> impl Iterator<Item = (Shape, usize)> {
    let bytes = move |shape| match shape {
        Shape::Alltoall | Shape::Allgather => 33_000,
        Shape::ReduceScatter => 72_000 / size as usize / 8 * 8,
        Shape::Allreduce if size == 2 => 136_000,
        _ => 72_000,
    };
    let all = shapes(root).into_iter().map(move |shape| (shape, bytes(shape)));
    all.filter(move |&(shape, bytes)| is_contested(shape, size, bytes as u64, in_place, false))
}

#[test]
fn the_way_that_is_found_to_be_faster_is_taken_and_both_give_what_the_definition_says() {
    for (size, reading) in [(2, 1), (3, 1), (5, 1), (2, 1000), (4, 1000)] {
        for in_place in [false, true] {
            let mut seen = 0;
            for (shape, bytes) in contested(size, 1, in_place) {
                let mut world = World::new(size, 77 + u64::from(size), reading);
                let mut reads = Vec::new();
                for _ in 0..CALLS {
                    let before = world.reads();
                    assert!(world.run(shape, bytes, 8, in_place).iter().all(|&ended| ended == Outcome::Done));
                    reads.push(world.reads() > before);
                }
                let trial: Vec<bool> = (0..TRIAL).map(|call| call / RUN % 2 == 1).collect();
                assert_eq!(reads[..TRIAL], trial, "both ways are tried");
                assert_eq!(reads[TRIAL..], [reading == 1; 4], "{shape:?} of {size}, reading takes {reading}");
                seen += 1;
            }
            assert_eq!(seen, if in_place { 4 } else { 5 }, "alltoall in place is not read");
        }
    }
}

#[test]
fn where_one_member_cannot_read_all_go_by_payloads() {
    for (shape, bytes) in contested(4, 2, false) {
        let mut world = World::new(4, 5, 1);
        world.node.memories[3].is_blind = true;
        for _ in 0..CALLS {
            assert!(world.run(shape, bytes, 4, false).iter().all(|&ended| ended == Outcome::Done));
        }
        assert_eq!(world.reads(), 0);
    }
}

#[test]
fn memory_that_cannot_be_read_after_all_sends_all_through_the_payloads() {
    // Of two each reads once in a call.
    for (size, reader, most, in_place) in
        [(4, 2, 6, false), (4, 2, 6, true), (2, 1, 3, false), (2, 1, 3, true)]
    {
        for (shape, bytes) in contested(size, reader as u32, in_place) {
            // In the first call by reading, in any of its reads, or in a later call.
            for reads in 0..most {
                let mut world = World::new(size, 5, 1);
                world.node.memories[reader].reads = reads;
                // Some calls go through the payloads before some by reading.
                for _ in 0..=2 * RUN {
                    let ended = world.run(shape, bytes, 4, in_place);
                    if ended.iter().any(|ended| matches!(ended, Outcome::Unread(_))) {
                        let shared = matches!(shape, Shape::Reduce { .. } | Shape::Allreduce) && size > 2;
                        assert!(shared && reads >= 3, "all contributions were read: {shape:?}, {reads}");
                        break;
                    }
                    assert!(
                        ended.iter().all(|&ended| ended == Outcome::Done),
                        "{shape:?}, {reads}: {ended:?}"
                    );
                }
                assert_eq!(world.node.memories[reader].reads, 0, "{shape:?}: it came to the read that fails");
            }
        }
    }
}

#[test]
fn a_share_that_cannot_be_read_is_named_and_nobody_believes_that_the_call_ended() {
    for in_place in [false, true] {
        let mut world = World::new(3, 5, 1);
        // One piece of each other contribution, then the first share.
        world.node.memories[1].reads = 3;
        let mut ended = Vec::new();
        for _ in 0..=RUN {
            ended = world.run(Shape::Allreduce, 70_000, 4, in_place);
        }
        assert_eq!(ended[1], Outcome::Unread(0));
        assert_eq!([ended[0], ended[2]], [Outcome::Blocked; 2], "they wait until they hear that it has left");
    }
}

#[test]
fn of_two_members_the_longest_vectors_are_not_kept_aside() {
    for shape in [Shape::Reduce { root: 1 }, Shape::Allreduce] {
        let contested = |members, bytes| is_contested(shape, members, bytes, false, false);
        assert!(contested(2, 8 << 20) && !contested(2, (8 << 20) + 1), "{shape:?}");
        assert!(contested(3, 1 << 30), "of three each keeps a part");
    }
}

#[test]
fn where_cores_are_shared_the_way_that_took_less_of_all_is_taken() {
    for (size, reading) in [(2, 1), (3, 1), (5, 1), (4, 3000)] {
        let mut world = World::new(size, 177 + u64::from(size), reading);
        world.node.crowded = true;
        // Of two in so many rounds that two more for words are clearly less.
        let bytes = if size == 2 { 330_000 } else { 33_000 };
        let reads: Vec<bool> = (0..CALLS)
            .map(|_| {
                let before = world.reads();
                assert!(
                    world.run(Shape::Alltoall, bytes, 8, false).iter().all(|&ended| ended == Outcome::Done)
                );
                world.reads() > before
            })
            .collect();
        let trial: Vec<bool> = (0..TRIAL).map(|call| call / RUN % 2 == 1).collect();
        assert_eq!(reads[..TRIAL], trial, "both ways are tried");
        assert_eq!(reads[TRIAL..], [reading == 1; 4], "of {size}, reading takes {reading}");
    }
}

#[test]
fn only_long_calls_that_have_both_ways_are_contested() {
    for shape in shapes(1) {
        let from = |members, in_place, crowded| {
            (0..24)
                .map(|power| 1 << power)
                .find(|&bytes| is_contested(shape, members, bytes, in_place, crowded))
        };
        let expected = match shape {
            Shape::Alltoall => [Some(32 << 10), Some(16 << 10), None, Some(32 << 10)],
            Shape::Allgather => [Some(32 << 10), Some(32 << 10), Some(32 << 10), None],
            Shape::Reduce { .. } => [Some(16 << 10), Some(64 << 10), Some(64 << 10), None],
            Shape::Allreduce => [Some(128 << 10), Some(64 << 10), Some(64 << 10), None],
            Shape::ReduceScatter => [Some(32 << 10), Some(16 << 10), Some(16 << 10), None],
            _ => [None; 4],
        };
        let found =
            [from(2, false, false), from(4, false, false), from(4, true, false), from(4, false, true)];
        assert_eq!(found, expected, "{shape:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Calls of all kinds in any order, of which some go by reading, and reading may fail at any moment.
    #[test]
    fn sequences_give_what_the_definition_says(
        size in 2_u32..=6,
        calls in prop::collection::vec((0_usize..9, 0_u32..6, 0_usize..80_000, prop::sample::select(vec![1_u64, 8, 16]), any::<bool>()), 1..6),
        repeats in 1_usize..6,
        reading in prop::sample::select(vec![1_u64, 50, 1000]),
        crowded in any::<bool>(),
        trouble in prop_oneof![
            Just(Trouble::None),
            (0_u32..6).prop_map(Trouble::Blind),
            (0_u32..6, 0_u64..40).prop_map(|(member, reads)| Trouble::Fails(member, reads)),
        ],
        seed in 1_u64..,
    ) {
        let mut world = World::new(size, seed, reading);
        world.node.crowded = crowded;
        match trouble {
            Trouble::Blind(member) => world.node.memories[(member % size) as usize].is_blind = true,
            Trouble::Fails(member, reads) => world.node.memories[(member % size) as usize].reads = reads,
            Trouble::None => {}
        }
        'calls: for _ in 0..repeats {
            for &(shape, root, bytes, element, in_place) in &calls {
                let shape = shapes(root % size)[shape];
                let bytes = if shape == Shape::Barrier { 0 } else { bytes / element as usize * element as usize };
                // As many bytes for each other member do not fit the test's cells.
                let bytes = if matches!(shape, Shape::Scatter { .. }) { bytes.min(1000) / 16 * 16 } else { bytes };
                if matches!(shape, Shape::Scatter { .. } | Shape::Gather { .. } | Shape::Bcast { .. }) {
                    continue;
                }
                let ended = world.run(shape, bytes, element, in_place);
                if matches!(trouble, Trouble::Fails(..)) && ended.iter().any(|ended| matches!(ended, Outcome::Unread(_))) {
                    break 'calls;
                }
                prop_assert!(ended.iter().all(|&ended| ended == Outcome::Done), "{:?}", ended);
            }
        }
    }
}

/// What members have found out is the same at all, so they never go different ways: a contest that heard other times would.
#[test]
fn contests_that_heard_the_same_decide_the_same() {
    let (mut one, mut other) = (Contest::at_once(), Contest::at_once());
    let mut seed = 9;
    for _ in 0..5_000 {
        let bytes = 1 << (15 + noise(&mut seed) % 4);
        let shape = [Shape::Alltoall, Shape::Allgather][(noise(&mut seed) % 2) as usize];
        let plan = one.next(shape, bytes);
        assert_eq!(plan, other.next(shape, bytes));
        if plan.timed {
            let (took, word) = (noise(&mut seed) % 1000, noise(&mut seed) % 100);
            one.note(shape, bytes, took, word);
            other.note(shape, bytes, took, word);
        }
    }
}
