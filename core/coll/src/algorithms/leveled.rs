//! Algorithms over the levels of a layout.

use super::{NONE, SEGMENT, bytes_of, commutes, vector, wrong};
use crate::call::{Call, Group};
use crate::leveled;
use crate::model::Model;
use crate::registry::Algorithm;

const KARONIS: &str = "Karonis et al., Exploiting hierarchy in parallel computer networks, 2000";
const SEGMENTS: &str = "Karonis et al., 2000, in segments through all levels";
const SPLIT: &str =
    "Kandalla et al., Designing multi-leader-based allgather algorithms for multi-core clusters, 2009";

fn has_levels(_: &Call<'_>, group: Group, model: &Model) -> bool {
    let levels = &model.layout.levels;
    // Where every rank has a node of its own, or all share one, there is but one level.
    levels.iter().any(|level| (2..group.size).contains(&level.groups.groups(group.size)))
}

fn keeps_order(call: &Call<'_>, group: Group, model: &Model) -> bool {
    has_levels(call, group, model) && (vector(call).commutative || model.layout.is_contiguous())
}

fn has_even_blocks(call: &Call<'_>, group: Group, model: &Model) -> bool {
    has_levels(call, group, model)
        && model.layout.levels.iter().all(|level| level.groups.is_even_block(group.size))
}

pub(super) static ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "levels",
        operations: &["barrier"],
        source: KARONIS,
        parameters: NONE,
        applies: has_levels,
        estimate: |estimate, _, group, model| leveled::barrier_estimate(estimate, group, model),
        write: |b, _, group, model| leveled::barrier(b, group, model),
    },
    Algorithm {
        name: "levels",
        operations: &["bcast"],
        source: KARONIS,
        parameters: NONE,
        applies: has_levels,
        estimate: |estimate, call, group, model| {
            leveled::bcast_estimate(estimate, group, model, bytes_of(call) as u64);
        },
        write: |b, call, group, model| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            leveled::bcast(b, group, model, root, bytes);
        },
    },
    Algorithm {
        name: "pipelined-levels",
        operations: &["bcast"],
        source: SEGMENTS,
        parameters: SEGMENT,
        applies: |call, group, model| {
            has_levels(call, group, model) && bytes_of(call) > model.shortest() as f64
        },
        estimate: |estimate, call, group, model| {
            leveled::pipelined::bcast_estimate(estimate, group, model, bytes_of(call) as u64);
        },
        write: |b, call, group, model| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            leveled::pipelined::bcast(b, group, model, root, bytes);
        },
    },
    Algorithm {
        name: "levels",
        operations: &["reduce"],
        source: KARONIS,
        parameters: NONE,
        applies: |call, group, model| {
            let &Call::Reduce { root, vector, .. } = call else { wrong(call) };
            keeps_order(call, group, model) && (vector.commutative || root == 0)
        },
        estimate: |estimate, call, group, model| {
            leveled::reduce_estimate(estimate, group, model, bytes_of(call) as u64);
        },
        write: |b, call, group, model| {
            let &Call::Reduce { root, vector, in_place } = call else { wrong(call) };
            leveled::reduce(b, group, model, root, vector, in_place);
        },
    },
    Algorithm {
        name: "pipelined-levels",
        operations: &["reduce"],
        source: SEGMENTS,
        parameters: SEGMENT,
        applies: |call, group, model| {
            let &Call::Reduce { root, vector, .. } = call else { wrong(call) };
            keeps_order(call, group, model)
                && (vector.commutative || root == 0)
                && bytes_of(call) > model.shortest() as f64
        },
        estimate: |estimate, call, group, model| {
            leveled::pipelined::reduce_estimate(estimate, group, model, vector(call));
        },
        write: |b, call, group, model| {
            let &Call::Reduce { root, vector, in_place } = call else { wrong(call) };
            leveled::pipelined::reduce(b, group, model, root, vector, in_place);
        },
    },
    Algorithm {
        name: "pipelined-levels",
        operations: &["allreduce"],
        source: SEGMENTS,
        parameters: SEGMENT,
        applies: |call, group, model| {
            keeps_order(call, group, model) && bytes_of(call) > model.shortest() as f64
        },
        estimate: |estimate, call, group, model| {
            leveled::pipelined::allreduce_estimate(estimate, group, model, vector(call));
        },
        write: |b, call, group, model| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            leveled::pipelined::allreduce(b, group, model, vector, in_place);
        },
    },
    Algorithm {
        name: "levels",
        operations: &["allreduce"],
        source: KARONIS,
        parameters: NONE,
        applies: keeps_order,
        estimate: |estimate, call, group, model| {
            leveled::allreduce_estimate(estimate, group, model, vector(call));
        },
        write: |b, call, group, model| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            leveled::allreduce(b, group, model, vector, in_place);
        },
    },
    Algorithm {
        name: "split-levels",
        operations: &["allreduce"],
        source: SPLIT,
        parameters: NONE,
        applies: |call, group, model| has_even_blocks(call, group, model) && commutes(call, group, model),
        estimate: |estimate, call, group, model| {
            leveled::split_estimate(estimate, group, model, vector(call));
        },
        write: |b, call, group, model| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            leveled::allreduce_split(b, group, model, vector, in_place);
        },
    },
    Algorithm {
        name: "levels",
        operations: &["allgather"],
        source: KARONIS,
        parameters: NONE,
        applies: has_even_blocks,
        estimate: |estimate, call, group, model| {
            leveled::allgather_estimate(estimate, group, model, bytes_of(call) as u64);
        },
        write: |b, call, group, model| {
            let &Call::Allgather { bytes, in_place } = call else { wrong(call) };
            leveled::allgather(b, group, model, bytes, in_place);
        },
    },
];
