//! One call of all ranks: arguments before, arguments after; and what all tests choose their cases from.

use crate::world::{Memory, Operation, Random, Sends, World, check_channels};
use weft_coll::registry::candidates;
use weft_coll::{Algorithm, Call, Group, Layout, Level, Link, Model, Partition, Schedule};

/// Bytes no two blocks share.
pub(crate) fn pattern(from: u32, to: u32, bytes: u64) -> Vec<u8> {
    let mut random = Random(u64::from(from) << 32 | u64::from(to));
    (0..bytes).map(|_| random.next() as u8).collect()
}

pub(crate) const UNTOUCHED: u8 = 0x5a;

pub(crate) struct Case<'a> {
    pub(crate) size: u32,
    pub(crate) calls: Vec<Call<'a>>,
    pub(crate) memories: Vec<Memory>,
    pub(crate) expected: Vec<Memory>,
    pub(crate) operation: Operation,
}

impl Case<'_> {
    /// Every algorithm that applies, with both kinds of sends; those over levels with several layouts.
    pub(crate) fn check(&self, random: &mut Random) {
        let group = Group { rank: 0, size: self.size };
        let flat = Model { segment: Some(64), window: Some(3), ..Model::default() };
        let algorithms: Vec<&'static Algorithm> = candidates(&self.calls[0], group, &flat).collect();
        assert!(!algorithms.is_empty());
        for algorithm in algorithms {
            if self.size <= 64 || !many_messages(algorithm) {
                self.check_one(algorithm, &flat, random);
            }
        }
        for layout in layouts(self.size, random) {
            let model = Model { layout, ..flat.clone() };
            for algorithm in candidates(&self.calls[0], group, &model).filter(|a| a.name.contains("levels")) {
                self.check_one(algorithm, &model, random);
            }
        }
    }

    /// The algorithms in few steps, one kind of sends each.
    pub(crate) fn check_few_steps(&self, random: &mut Random) {
        let group = Group { rank: 0, size: self.size };
        let model = Model::default();
        let algorithms = candidates(&self.calls[0], group, &model).filter(|&algorithm| few_steps(algorithm));
        let checked = algorithms.map(|algorithm| self.check_one(algorithm, &model, random)).count();
        assert!(checked > 0);
    }

    fn check_one(&self, algorithm: &Algorithm, model: &Model, random: &mut Random) {
        let group = |rank: u32| Group { rank, size: self.size };
        let build = |(rank, call): (u32, &Call<'_>)| algorithm.build(call, group(rank), model);
        let schedules: Vec<Schedule> = (0..).zip(&self.calls).map(build).collect();
        check_channels(&schedules);
        // Both kinds of sends where it is cheap, one of them elsewhere.
        let one = [Sends::Eager, Sends::Synchronous][random.below(2) as usize];
        let kinds = if self.size <= 16 { vec![Sends::Eager, Sends::Synchronous] } else { vec![one] };
        for sends in kinds {
            let after = World::new(&schedules, &self.memories, self.operation, sends).finish(random);
            for (rank, (after, expected)) in after.iter().zip(&self.expected).enumerate() {
                for (buffer, bytes) in &expected.0 {
                    assert!(
                        after.0[buffer] == *bytes,
                        "{algorithm:?}, {:?}, {sends:?}, size {}, rank {rank}, {buffer:?}, call {:?}:\n got {:?}\nwant {:?}",
                        model.layout,
                        self.size,
                        self.calls[rank],
                        after.0[buffer],
                        bytes
                    );
                }
            }
        }
    }
}

/// Nodes in blocks, in turn and anyhow, and blocks within blocks.
pub(crate) fn layouts(size: u32, random: &mut Random) -> Vec<Layout> {
    let level = |groups| Level { groups, link: Link::NETWORK };
    let block = 1 + random.below(9) as u32;
    // A group of its own for each rank that is lower than all of the group it drew.
    let drawn: Vec<u64> = (0..size).map(|_| random.below(1 + u64::from(size) / 3)).collect();
    let mut order: Vec<u64> = Vec::new();
    for &group in &drawn {
        if !order.contains(&group) {
            order.push(group);
        }
    }
    let place = |group: &u64| order.iter().position(|known| known == group).map(|place| place as u32);
    let listed: Vec<u32> = drawn.iter().filter_map(place).collect();
    vec![
        Layout { levels: vec![level(Partition::Block(block))] },
        Layout { levels: vec![level(Partition::Cyclic(block))] },
        Layout { levels: vec![level(Partition::new(&listed))] },
        Layout { levels: vec![level(Partition::Block(4 * block)), level(Partition::Block(block))] },
        Layout { levels: vec![level(Partition::Cyclic(block)), level(Partition::Cyclic(3 * block))] },
    ]
}

/// Whether an algorithm has about size^2 messages or steps in all.
pub(crate) fn many_messages(algorithm: &Algorithm) -> bool {
    matches!(
        algorithm.name,
        "ring" | "segmented-ring" | "spread" | "pairwise" | "scatter-allgather" | "block-broadcasts"
    ) || algorithm.operations == ["alltoall"]
}

/// For those in logarithmically many steps.
pub(crate) const THOUSANDS: [u32; 2] = [3001, 4096];

/// Whether no rank has many steps, however many ranks there are.
pub(crate) fn few_steps(algorithm: &Algorithm) -> bool {
    ["dissemination", "binomial", "knomial", "doubling", "multiplying", "circulant", "halving", "chain"]
        .iter()
        .any(|word| algorithm.name.contains(word) && !algorithm.name.contains("gather"))
}

pub(crate) fn sizes() -> Vec<u32> {
    (1..=64).chain([100, 127, 129, 1000]).collect()
}

pub(crate) fn roots(size: u32, random: &mut Random) -> Vec<u32> {
    match size {
        1..=9 => (0..size).collect(),
        _ => vec![0, size - 1, random.below(u64::from(size)) as u32],
    }
}

pub(crate) fn counts(random: &mut Random) -> [u64; 3] {
    [0, 1 + random.below(3), 4 + random.below(30)]
}
