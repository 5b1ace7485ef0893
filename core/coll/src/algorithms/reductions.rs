//! Reductions and scans.

use super::{
    BLOCKS, NONE, SEGMENT, THAKUR, TRAEFF, always, blocks_through_tree, bytes_of, commutes, doubling, ranks,
    vector, wrong,
};
use crate::call::{Call, Group};
use crate::leveled::circulant_estimate;
use crate::model::{Estimate, Model};
use crate::registry::Algorithm;
use crate::schedule::CHANNELS;
use crate::tree::Shape;
use crate::{allreduce, bcast, blocks, chain, circulant, halving, reduce, reduce_scatter, ring, scan};

const RABENSEIFNER: &str = "Rabenseifner, Optimization of collective reduction operations, 2004";
const RING: &str =
    "Patarasuk, Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009";
const CHAIN: &str = "Pjesivac-Grbovic et al., Performance analysis of MPI collective operations, 2007";
const MULTIPLYING: &str = "Ruefenacht, Bull, Booth, Generalisation of recursive doubling for allreduce, 2017";

/// A reduction up a tree of one of the shapes.
const fn tree_reduce<const RADIX: u32>(name: &'static str) -> Algorithm {
    Algorithm {
        name,
        operations: &["reduce"],
        source: THAKUR,
        parameters: NONE,
        applies: |_, group, _| RADIX == 2 || group.size > RADIX,
        estimate: |estimate, call, group, _| {
            reduce::estimate(estimate, group, bytes_of(call), Shape::of_radix(RADIX));
        },
        write: |b, call, group, _| {
            let &Call::Reduce { root, vector, in_place } = call else { wrong(call) };
            reduce::tree(b, group, root, vector, in_place, Shape::of_radix(RADIX));
        },
    }
}

/// Allreduce in groups of `RADIX` that all send to one another.
const fn multiplying<const RADIX: u32>(name: &'static str) -> Algorithm {
    Algorithm {
        name,
        operations: &["allreduce"],
        source: MULTIPLYING,
        parameters: NONE,
        applies: |_, group, _| group.size >= RADIX,
        estimate: |estimate, call, group, _| {
            fold(estimate, group, bytes_of(call));
            let power = 1 << group.size.ilog2();
            let mut distance = 1;
            while distance < power {
                let members = RADIX.min(power / distance);
                let window = Some(distance * members);
                estimate.exchange_many(members - 1, distance, window, bytes_of(call));
                estimate.combine(f64::from(members - 1) * bytes_of(call));
                distance *= members;
            }
        },
        write: |b, call, group, _| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            allreduce::recursive_multiplying(b, group, vector, in_place, RADIX);
        },
    }
}

/// The messages by which the ranks above a power of two are stood for.
fn fold(estimate: &mut Estimate<'_>, group: Group, bytes: f64) {
    if !group.size.is_power_of_two() {
        estimate.fan(1, 1, bytes);
        estimate.combine(bytes);
        estimate.fan(1, 1, bytes);
        estimate.waits(ranks(group));
    }
}

/// Adds a round without data. What goes to all others at once overlaps its latency with the work for them, which its formula does
/// not say: an algorithm in rounds is to be better than it by more than that, and by twice that where it folds, whose messages the
/// others' rounds do not wait for in the formulas.
fn begin_together(estimate: &mut Estimate<'_>, group: Group) {
    let rounds = if group.size.is_power_of_two() { 1.0 } else { 2.0 };
    estimate.exchange(rounds, group.size / 2, 0.0);
}

/// Reduce-scatter on a ring; in segments of the model's length where `SEGMENTED`.
const fn ring_reduce_scatter<const SEGMENTED: bool>(name: &'static str) -> Algorithm {
    Algorithm {
        name,
        operations: &["reduce_scatter"],
        source: RING,
        parameters: if SEGMENTED { SEGMENT } else { NONE },
        applies: |call, group, model| {
            commutes(call, group, model) && (!SEGMENTED || largest_block(call) > model.shortest() as f64)
        },
        estimate: |estimate, call, group, model| {
            ring(estimate, largest_block(call), group.size - 1, SEGMENTED, model);
        },
        write: |b, call, group, model| {
            let &Call::ReduceScatter { counts, vector, in_place } = call else { wrong(call) };
            ring::reduce_scatter(b, group, counts, vector, in_place, segment(SEGMENTED, model));
        },
    }
}

/// Allreduce on a ring, likewise.
const fn ring_allreduce<const SEGMENTED: bool>(name: &'static str) -> Algorithm {
    Algorithm {
        name,
        operations: &["allreduce"],
        source: RING,
        parameters: if SEGMENTED { SEGMENT } else { NONE },
        applies: |call, group, model| {
            commutes(call, group, model)
                && (!SEGMENTED || bytes_of(call) / ranks(group) > model.shortest() as f64)
        },
        estimate: |estimate, call, group, model| {
            let block = bytes_of(call) / ranks(group);
            let rounds = 2 * (group.size - 1);
            ring(estimate, block, rounds, SEGMENTED, model);
            let segments = segments_of(block, rounds, SEGMENTED, model);
            estimate.ring_in(segments, block / segments, 0.0);
        },
        write: |b, call, group, model| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            ring::allreduce(b, group, vector, in_place, segment(SEGMENTED, model));
        },
    }
}

fn segment(segmented: bool, model: &Model) -> u64 {
    if segmented { model.segment() } else { u64::MAX }
}

/// Segments of a block that goes round in `rounds` rounds.
fn segments_of(block: f64, rounds: u32, segmented: bool, model: &Model) -> f64 {
    let most = f64::from(CHANNELS / rounds.max(1)).max(1.0);
    if segmented { (block / model.segment() as f64).ceil().clamp(1.0, most) } else { 1.0 }
}

/// Adds the time of blocks that go round a ring and are combined at every rank.
fn ring(estimate: &mut Estimate<'_>, block: f64, rounds: u32, segmented: bool, model: &Model) {
    let segments = segments_of(block, rounds, segmented, model);
    estimate.ring_in(segments, block / segments, block / segments);
}

/// Bytes of the largest of the blocks that a reduction is scattered in: what a ring takes is as if all were so large.
fn largest_block(call: &Call<'_>) -> f64 {
    let &Call::ReduceScatter { counts, vector, .. } = call else { wrong(call) };
    counts.iter().max().map_or(0.0, |&count| (count * vector.element) as f64)
}

pub(super) static ALGORITHMS: &[Algorithm] = &[
    tree_reduce::<2>("binomial"),
    tree_reduce::<4>("knomial-4"),
    tree_reduce::<8>("knomial-8"),
    Algorithm {
        name: "flat",
        operations: &["reduce"],
        source: "the definition, section 6.9.1",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| reduce::estimate(estimate, group, bytes_of(call), Shape::Flat),
        write: |b, call, group, _| {
            let &Call::Reduce { root, vector, in_place } = call else { wrong(call) };
            reduce::tree(b, group, root, vector, in_place, Shape::Flat);
        },
    },
    Algorithm {
        name: "circulant-gather",
        operations: &["reduce"],
        source: TRAEFF,
        parameters: NONE,
        applies: commutes,
        estimate: |estimate, call, group, _| {
            circulant_estimate(estimate, group, bytes_of(call), 1.0, 1.0);
            blocks_through_tree(estimate, group, bytes_of(call) / ranks(group), Shape::Flat);
        },
        write: |b, call, group, _| {
            let &Call::Reduce { root, vector, in_place } = call else { wrong(call) };
            circulant::reduce(b, group, root, vector, in_place);
        },
    },
    Algorithm {
        name: "reduce-scatter-gather",
        operations: &["reduce"],
        source: RABENSEIFNER,
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            let power = Group { size: 1 << group.size.ilog2(), ..group };
            if power.size < group.size {
                estimate.hand(1, 1, bytes_of(call));
                estimate.combine(bytes_of(call));
                estimate.waits(ranks(group));
            }
            let mut part = bytes_of(call);
            for distance in doubling(power) {
                part /= 2.0;
                // Halved and gathered; where the most goes in the latter, all ranks of a node have a part in it.
                estimate.halve(2.0, distance, part);
                estimate.all_combine(part);
            }
            begin_together(estimate, group);
        },
        write: |b, call, group, _| {
            let &Call::Reduce { root, vector, in_place } = call else { wrong(call) };
            halving::reduce(b, group, root, vector, in_place);
        },
    },
    Algorithm {
        name: "pipelined-chain",
        operations: &["reduce"],
        source: CHAIN,
        parameters: SEGMENT,
        applies: |call, _, model| bytes_of(call) > model.shortest() as f64,
        estimate: |estimate, call, _, model| {
            chain::estimate(estimate, vector(call), model.segment());
        },
        write: |b, call, group, model| {
            let &Call::Reduce { root, vector, in_place } = call else { wrong(call) };
            chain::reduce(b, group, root, vector, in_place, model.segment());
        },
    },
    Algorithm {
        name: "circulant-blocks",
        operations: &["reduce"],
        source: BLOCKS,
        parameters: SEGMENT,
        applies: |call, group, model| {
            commutes(call, group, model) && group.size > 2 && bytes_of(call) > model.shortest() as f64
        },
        estimate: |estimate, call, group, model| {
            blocks::estimate(estimate, group, bytes_of(call), model.segment(), true);
        },
        write: |b, call, group, model| {
            let &Call::Reduce { root, vector, in_place } = call else { wrong(call) };
            blocks::reduce(b, group, root, vector, in_place, model.segment());
        },
    },
    Algorithm {
        name: "recursive-doubling",
        operations: &["allreduce"],
        source: THAKUR,
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            fold(estimate, group, bytes_of(call));
            for distance in doubling(Group { size: 1 << group.size.ilog2(), ..group }) {
                estimate.exchange_bit(1.0, distance, bytes_of(call));
                estimate.combine(bytes_of(call));
            }
        },
        write: |b, call, group, _| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            allreduce::recursive_doubling(b, group, vector, in_place);
        },
    },
    multiplying::<4>("recursive-multiplying-4"),
    multiplying::<8>("recursive-multiplying-8"),
    Algorithm {
        name: "reduce-scatter-allgather",
        operations: &["allreduce"],
        source: RABENSEIFNER,
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            fold(estimate, group, bytes_of(call));
            let mut part = bytes_of(call);
            for distance in doubling(Group { size: 1 << group.size.ilog2(), ..group }) {
                part /= 2.0;
                estimate.exchange_bit(2.0, distance, part);
                estimate.combine(part);
            }
        },
        write: |b, call, group, _| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            allreduce::reduce_scatter_allgather(b, group, vector, in_place);
        },
    },
    Algorithm {
        name: "circulant",
        operations: &["allreduce"],
        source: TRAEFF,
        parameters: NONE,
        applies: commutes,
        estimate: |estimate, call, group, _| {
            estimate.combine(bytes_of(call));
            circulant_estimate(estimate, group, bytes_of(call), 2.0, 1.0);
        },
        write: |b, call, group, _| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            circulant::allreduce(b, group, vector, in_place);
        },
    },
    ring_allreduce::<false>("ring"),
    ring_allreduce::<true>("segmented-ring"),
    Algorithm {
        name: "reduce-bcast",
        operations: &["allreduce"],
        source: "composition",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            reduce::estimate(estimate, group, bytes_of(call), Shape::Flat);
            bcast::estimate(estimate, group, bytes_of(call), Shape::Flat);
        },
        write: |b, call, group, _| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            allreduce::through_one(b, group, vector, in_place, Shape::Flat);
        },
    },
    Algorithm {
        name: "binomial-reduce-bcast",
        operations: &["allreduce"],
        source: "composition",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            reduce::estimate(estimate, group, bytes_of(call), Shape::Binomial);
            bcast::estimate(estimate, group, bytes_of(call), Shape::Binomial);
        },
        write: |b, call, group, _| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            allreduce::through_one(b, group, vector, in_place, Shape::Binomial);
        },
    },
    Algorithm {
        name: "pairwise",
        operations: &["reduce_scatter"],
        source: "Thakur, Rabenseifner, Gropp 2005; combined in rank order",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            estimate.all_pairs(1.0, bytes_of(call) / ranks(group));
            estimate.combine(bytes_of(call));
        },
        write: |b, call, group, _| {
            let &Call::ReduceScatter { counts, vector, in_place } = call else { wrong(call) };
            reduce_scatter::pairwise(b, group, counts, vector, in_place);
        },
    },
    Algorithm {
        name: "circulant",
        operations: &["reduce_scatter"],
        source: TRAEFF,
        parameters: NONE,
        applies: commutes,
        estimate: |estimate, call, group, _| {
            estimate.combine(bytes_of(call));
            circulant_estimate(estimate, group, bytes_of(call), 1.0, 1.0);
        },
        write: |b, call, group, _| {
            let &Call::ReduceScatter { counts, vector, in_place } = call else { wrong(call) };
            circulant::reduce_scatter(b, group, counts, vector, in_place);
        },
    },
    Algorithm {
        name: "recursive-halving",
        operations: &["reduce_scatter"],
        source: THAKUR,
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            let power = Group { size: 1 << group.size.ilog2(), ..group };
            let bytes = bytes_of(call);
            if power.size < group.size {
                estimate.hand(1, 1, bytes);
                estimate.combine(bytes);
            }
            if !vector(call).commutative {
                estimate.all_combine(bytes);
            }
            for distance in doubling(power) {
                // Most goes at the greatest distance, or at the least where the order of ranks is to be kept.
                let halved = if vector(call).commutative { power.size / distance } else { 2 * distance };
                let part = bytes / f64::from(halved);
                estimate.halve(1.0, distance, part);
                estimate.all_combine(part);
            }
            begin_together(estimate, group);
            if power.size < group.size {
                estimate.hand(1, 1, bytes / ranks(group));
                estimate.waits(ranks(group));
            }
        },
        write: |b, call, group, _| {
            let &Call::ReduceScatter { counts, vector, in_place } = call else { wrong(call) };
            halving::reduce_scatter(b, group, counts, vector, in_place);
        },
    },
    ring_reduce_scatter::<false>("ring"),
    ring_reduce_scatter::<true>("segmented-ring"),
    Algorithm {
        name: "reduce-scatterv",
        operations: &["reduce_scatter"],
        source: "composition",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            reduce::estimate(estimate, group, bytes_of(call), Shape::Binomial);
            blocks_through_tree(estimate, group, bytes_of(call) / ranks(group), Shape::Flat);
        },
        write: |b, call, group, _| {
            let &Call::ReduceScatter { counts, vector, in_place } = call else { wrong(call) };
            reduce_scatter::through_one(b, group, counts, vector, in_place, Shape::Binomial);
        },
    },
    Algorithm {
        name: "recursive-doubling",
        operations: &["scan", "exscan"],
        source: "Hillis, Steele, Data parallel algorithms, 1986",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            for distance in doubling(group) {
                estimate.exchange(1.0, distance, bytes_of(call));
                estimate.combine(bytes_of(call));
            }
        },
        write: |b, call, group, _| match *call {
            Call::Scan { vector, in_place } => scan::recursive_doubling(b, group, vector, in_place, false),
            Call::Exscan { vector, in_place } => scan::recursive_doubling(b, group, vector, in_place, true),
            _ => wrong(call),
        },
    },
    Algorithm {
        name: "chain",
        operations: &["scan", "exscan"],
        source: "the definition, section 6.11",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            estimate.chain(1.0, vector(call).bytes() as f64);
            estimate.combine((ranks(group) - 1.0) * bytes_of(call));
        },
        write: |b, call, group, _| match *call {
            Call::Scan { vector, in_place } => scan::chain(b, group, vector, in_place, false, u64::MAX),
            Call::Exscan { vector, in_place } => scan::chain(b, group, vector, in_place, true, u64::MAX),
            _ => wrong(call),
        },
    },
    Algorithm {
        name: "pipelined-chain",
        operations: &["scan", "exscan"],
        source: CHAIN,
        parameters: SEGMENT,
        applies: |call, _, model| bytes_of(call) > model.shortest() as f64,
        estimate: |estimate, call, _, model| {
            chain::estimate(estimate, vector(call), model.segment());
            if !matches!(call, Call::Scan { vector, .. } if vector.commutative) {
                // The operands are copied at first.
                estimate.combine(bytes_of(call));
            }
        },
        write: |b, call, group, model| match *call {
            Call::Scan { vector, in_place } => {
                scan::chain(b, group, vector, in_place, false, model.segment())
            }
            Call::Exscan { vector, in_place } => {
                scan::chain(b, group, vector, in_place, true, model.segment())
            }
            _ => wrong(call),
        },
    },
];
