//! Barriers and operations that only move data.

use super::{
    BLOCKS, NONE, SEGMENT, THAKUR, TRAEFF, WINDOW, always, blocks_through_tree, bytes_of, doubling, ranks,
    wrong,
};
use crate::call::{Call, Group};
use crate::registry::Algorithm;
use crate::schedule::{Builder, CHANNELS};
use crate::tree::Shape;
use crate::{allgather, alltoall, barrier, bcast, blocks, circulant, gather, reduce};

const DISSEMINATION: &str = "Hensgen, Finkel, Manber, Two algorithms for barrier synchronization, 1988";
const WIDE: &str = "Hoefler, Mehlan, Mietke, Rehm, Fast barrier synchronization for InfiniBand, 2006";
const COMBINING: &str = "Mellor-Crummey, Scott, Algorithms for scalable synchronization, 1991";
const BRUCK: &str = "Bruck et al., Efficient algorithms for all-to-all communications, 1997";

/// A barrier by dissemination to `radix - 1` others a round.
const fn wide_barrier<const RADIX: u32>(name: &'static str) -> Algorithm {
    Algorithm {
        name,
        operations: &["barrier"],
        source: WIDE,
        parameters: NONE,
        applies: |_, group, _| group.size > 2,
        estimate: |estimate, _, group, _| barrier::dissemination_estimate(estimate, group, RADIX),
        write: |b, _, group, _| barrier::wide_dissemination(b, group, RADIX),
    }
}

/// A broadcast down a tree of one of the shapes.
const fn tree_bcast<const RADIX: u32>(name: &'static str) -> Algorithm {
    Algorithm {
        name,
        operations: &["bcast"],
        source: THAKUR,
        parameters: NONE,
        applies: |_, group, _| RADIX == 2 || group.size > RADIX,
        estimate: |estimate, call, group, _| {
            bcast::estimate(estimate, group, bytes_of(call), Shape::of_radix(RADIX));
        },
        write: |b, call, group, _| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            bcast::tree(b, group, root, bytes, Shape::of_radix(RADIX), u64::MAX);
        },
    }
}

/// Blocks gathered up or scattered down a tree of one of the shapes.
const fn tree_of_blocks<const RADIX: u32>(name: &'static str) -> Algorithm {
    Algorithm {
        name,
        operations: &["gather", "scatter"],
        source: THAKUR,
        parameters: NONE,
        applies: |_, group, _| RADIX == 2 || group.size > RADIX,
        estimate: |estimate, call, group, _| {
            blocks_through_tree(estimate, group, bytes_of(call), Shape::of_radix(RADIX));
        },
        write: |b, call, group, _| gather_or_scatter(b, call, group, Shape::of_radix(RADIX)),
    }
}

pub(super) static ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "dissemination",
        operations: &["barrier"],
        source: DISSEMINATION,
        parameters: NONE,
        applies: always,
        estimate: |estimate, _, group, _| barrier::dissemination_estimate(estimate, group, 2),
        write: |b, _, group, _| barrier::dissemination(b, group),
    },
    wide_barrier::<4>("dissemination-4"),
    wide_barrier::<8>("dissemination-8"),
    Algorithm {
        name: "gather-release",
        operations: &["barrier"],
        source: COMBINING,
        parameters: NONE,
        applies: always,
        estimate: |estimate, _, group, _| {
            reduce::estimate(estimate, group, 0.0, Shape::Flat);
            bcast::estimate(estimate, group, 0.0, Shape::Flat);
        },
        write: |b, _, group, _| barrier::tree(b, group, Shape::Flat),
    },
    Algorithm {
        name: "binomial-release",
        operations: &["barrier"],
        source: COMBINING,
        parameters: NONE,
        applies: always,
        estimate: |estimate, _, group, _| {
            reduce::estimate(estimate, group, 0.0, Shape::Binomial);
            bcast::estimate(estimate, group, 0.0, Shape::Binomial);
        },
        write: |b, _, group, _| barrier::tree(b, group, Shape::Binomial),
    },
    tree_bcast::<2>("binomial"),
    tree_bcast::<4>("knomial-4"),
    tree_bcast::<8>("knomial-8"),
    Algorithm {
        name: "flat",
        operations: &["bcast"],
        source: "the definition, section 6.4",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| bcast::estimate(estimate, group, bytes_of(call), Shape::Flat),
        write: |b, call, group, _| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            bcast::tree(b, group, root, bytes, Shape::Flat, u64::MAX);
        },
    },
    Algorithm {
        name: "binomial-gets",
        operations: &["bcast"],
        source: "binomial, each rank reads from the one above it what that one offers",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            bcast::estimate(estimate, group, 0.0, Shape::Binomial);
            bcast::estimate(estimate, group, bytes_of(call), Shape::Binomial);
        },
        write: |b, call, group, _| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            bcast::tree_by_gets(b, group, root, bytes, Shape::Binomial);
        },
    },
    Algorithm {
        name: "pipelined-chain",
        operations: &["bcast"],
        source: "Pjesivac-Grbovic et al., Performance analysis of MPI collective operations, 2007",
        parameters: SEGMENT,
        applies: always,
        estimate: |estimate, call, _, model| {
            let segments = (bytes_of(call) / model.segment() as f64).ceil().clamp(1.0, f64::from(CHANNELS));
            estimate.chain(segments, bytes_of(call) / segments);
        },
        write: |b, call, group, model| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            bcast::tree(b, group, root, bytes, Shape::Chain, model.segment());
        },
    },
    Algorithm {
        name: "scatter-allgather",
        operations: &["bcast"],
        source: "Barnett et al., Interprocessor collective communication library, 1994",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            let part = bytes_of(call) / ranks(group);
            for distance in doubling(group) {
                estimate.fan(1, distance, f64::from(distance.min(group.size - distance)) * part);
            }
            estimate.waits(ranks(group));
            estimate.ring(part);
        },
        write: |b, call, group, _| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            bcast::scatter_allgather(b, group, root, bytes);
        },
    },
    Algorithm {
        name: "scatter-doubling",
        operations: &["bcast"],
        source: THAKUR,
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            let power = Group { size: 1 << group.size.ilog2(), ..group };
            let part = bytes_of(call) / ranks(power);
            for distance in doubling(power) {
                estimate.hand(1, distance, f64::from(distance) * part);
            }
            estimate.waits(ranks(group));
            for distance in doubling(power) {
                estimate.halve(1.0, distance, f64::from(distance) * part);
            }
            if power.size < group.size {
                estimate.hand(1, 1, bytes_of(call));
            }
        },
        write: |b, call, group, _| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            bcast::scatter_doubling(b, group, root, bytes);
        },
    },
    Algorithm {
        name: "scatter-circulant",
        operations: &["bcast"],
        source: TRAEFF,
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            let part = bytes_of(call) / ranks(group);
            for distance in doubling(group) {
                estimate.hand(1, distance, f64::from(distance.min(group.size - distance)) * part);
            }
            estimate.waits(ranks(group));
            for (before, skip) in circulant::skips(group.size) {
                estimate.exchange_through_adapter(1.0, skip, f64::from(before - skip) * part);
            }
        },
        write: |b, call, group, _| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            bcast::scatter_circulant(b, group, root, bytes);
        },
    },
    Algorithm {
        name: "circulant-blocks",
        operations: &["bcast"],
        source: BLOCKS,
        parameters: SEGMENT,
        applies: |call, group, model| group.size > 2 && bytes_of(call) > model.shortest() as f64,
        estimate: |estimate, call, group, model| {
            blocks::estimate(estimate, group, bytes_of(call), model.segment(), false);
        },
        write: |b, call, group, model| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            blocks::bcast(b, group, root, bytes, model.segment());
        },
    },
    tree_of_blocks::<2>("binomial"),
    tree_of_blocks::<4>("knomial-4"),
    tree_of_blocks::<8>("knomial-8"),
    Algorithm {
        name: "flat",
        operations: &["gather", "scatter"],
        source: "the definition, sections 6.5 and 6.6",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            blocks_through_tree(estimate, group, bytes_of(call), Shape::Flat);
        },
        write: |b, call, group, _| gather_or_scatter(b, call, group, Shape::Flat),
    },
    Algorithm {
        name: "flat",
        operations: &["gatherv", "scatterv"],
        source: "the definition, sections 6.5 and 6.6",
        parameters: NONE,
        applies: always,
        estimate: |estimate, _, group, _| blocks_through_tree(estimate, group, 0.0, Shape::Flat),
        write: |b, call, group, _| match *call {
            Call::Gatherv { root, bytes, blocks, in_place } => {
                gather::gatherv(b, group, root, bytes, blocks, in_place);
            }
            Call::Scatterv { root, bytes, blocks, in_place } => {
                gather::scatterv(b, group, root, bytes, blocks, in_place);
            }
            _ => wrong(call),
        },
    },
    Algorithm {
        name: "ring",
        operations: &["allgather", "allgatherv"],
        source: THAKUR,
        parameters: NONE,
        applies: always,
        // The longest block goes round as all others do.
        estimate: |estimate, call, _, _| estimate.ring(longest_gathered(call) as f64),
        write: |b, call, group, _| {
            let (blocks, in_place) = gathered(call);
            allgather::ring(b, group, blocks, in_place);
        },
    },
    Algorithm {
        name: "block-broadcasts",
        operations: &["allgatherv"],
        source: BLOCKS,
        parameters: SEGMENT,
        applies: |call, group, model| group.size > 2 && longest_gathered(call) > model.shortest(),
        estimate: |estimate, call, group, model| {
            let &Call::Allgatherv { blocks, .. } = call else { wrong(call) };
            blocks::allgatherv_estimate(estimate, group, blocks, model.segment());
        },
        write: |b, call, group, model| {
            let &Call::Allgatherv { blocks, in_place } = call else { wrong(call) };
            blocks::allgatherv(b, group, blocks, in_place, model.segment());
        },
    },
    Algorithm {
        name: "bruck",
        operations: &["allgather", "allgatherv"],
        source: BRUCK,
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            let total = total_gathered(call, ranks(group));
            for distance in doubling(group) {
                let blocks = distance.min(group.size - distance);
                estimate.exchange(1.0, distance, f64::from(blocks) * total / ranks(group));
            }
            // The copies out of scratch move everything once more.
            estimate.combine(2.0 * total);
        },
        write: |b, call, group, _| {
            let (blocks, in_place) = gathered(call);
            allgather::bruck(b, group, blocks, in_place);
        },
    },
    Algorithm {
        name: "circulant",
        operations: &["allgather"],
        source: TRAEFF,
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            // A message that wraps around is two.
            let total = total_gathered(call, ranks(group));
            for (before, skip) in circulant::skips(group.size) {
                let moved = f64::from(before - skip) / ranks(group) * total;
                estimate.exchange(1.0, skip, moved);
            }
        },
        write: |b, call, group, _| {
            let &Call::Allgather { bytes, in_place } = call else { wrong(call) };
            circulant::allgather(b, group, bytes, in_place);
        },
    },
    Algorithm {
        name: "recursive-doubling",
        operations: &["allgather", "allgatherv"],
        source: THAKUR,
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            let power = Group { size: 1 << group.size.ilog2(), ..group };
            let total = total_gathered(call, ranks(group));
            if power.size < group.size {
                estimate.hand(1, 1, total / ranks(group));
            }
            for distance in doubling(power) {
                // The first ranks stand for two.
                let blocks = distance + distance.min(group.size - power.size);
                estimate.exchange_bit(1.0, distance, total / ranks(group) * f64::from(blocks));
            }
            if power.size < group.size {
                estimate.hand(1, 1, total);
                estimate.waits(2.0 * ranks(group));
            }
            if let Call::Allgatherv { .. } = call {
                estimate.combine(2.0 * total);
            }
        },
        write: |b, call, group, _| {
            let (blocks, in_place) = gathered(call);
            allgather::recursive_doubling(b, group, blocks, in_place);
        },
    },
    Algorithm {
        name: "gather-bcast",
        operations: &["allgather"],
        source: "composition",
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            blocks_through_tree(estimate, group, bytes_of(call), Shape::Flat);
            bcast::estimate(estimate, group, ranks(group) * bytes_of(call), Shape::Flat);
        },
        write: |b, call, group, _| {
            let &Call::Allgather { bytes, in_place } = call else { wrong(call) };
            allgather::through_one(b, group, bytes, in_place, Shape::Flat);
        },
    },
    Algorithm {
        name: "spread",
        operations: &["alltoall", "alltoallv", "alltoallw"],
        source: "the definition, section 6.8, with a window",
        parameters: WINDOW,
        applies: always,
        estimate: |estimate, call, group, model| {
            let batches = model.batches(group.size, bytes_of(call));
            estimate.all_pairs(batches, bytes_of(call));
        },
        write: |b, call, group, model| {
            let (send, recv) = exchanged(call);
            alltoall::spread(b, group, send, recv, model.window(group.size, bytes_of(call)));
        },
    },
    Algorithm {
        name: "puts",
        operations: &["alltoall", "alltoallv", "alltoallw"],
        source: "the definition, section 6.8, by writes into memory that its owners offer",
        parameters: WINDOW,
        applies: always,
        estimate: |estimate, call, group, model| {
            let batches = model.batches(group.size, bytes_of(call));
            estimate.all_pairs(batches, 0.0);
            estimate.all_pairs(batches, bytes_of(call));
        },
        write: |b, call, group, model| {
            let (send, recv) = exchanged(call);
            alltoall::by_puts(b, group, send, recv, model.window(group.size, bytes_of(call)));
        },
    },
    Algorithm {
        name: "bruck",
        operations: &["alltoall"],
        source: BRUCK,
        parameters: NONE,
        applies: always,
        estimate: |estimate, call, group, _| {
            for distance in doubling(group) {
                // As many of the numbers below the size have this bit.
                let blocks = group.size / (2 * distance) * distance
                    + (group.size % (2 * distance)).saturating_sub(distance);
                let blocks = f64::from(blocks);
                estimate.exchange(1.0, distance, blocks * bytes_of(call));
                // Every block is copied in and out in each round.
                estimate.combine(2.0 * blocks * bytes_of(call));
                estimate.work(12e-9 * blocks);
            }
            estimate.combine(2.0 * ranks(group) * bytes_of(call));
        },
        write: |b, call, group, _| {
            let &Call::Alltoall { bytes, in_place } = call else { wrong(call) };
            alltoall::bruck(b, group, bytes, in_place);
        },
    },
];

fn gather_or_scatter(b: &mut Builder, call: &Call<'_>, group: Group, shape: Shape) {
    match *call {
        Call::Gather { root, bytes, in_place } => gather::gather(b, group, root, bytes, in_place, shape),
        Call::Scatter { root, bytes, in_place } => gather::scatter(b, group, root, bytes, in_place, shape),
        _ => wrong(call),
    }
}

/// The blocks that leave, unless they are those that come (`MPI_IN_PLACE`), and those that come.
fn exchanged<'a>(call: &Call<'a>) -> (Option<alltoall::Blocks<'a>>, alltoall::Blocks<'a>) {
    use alltoall::Blocks;
    let (send, recv, in_place) = match *call {
        Call::Alltoall { bytes, in_place } => (Blocks::Even(bytes), Blocks::Even(bytes), in_place),
        Call::Alltoallv { send, recv, in_place } => (Blocks::Varying(send), Blocks::Varying(recv), in_place),
        Call::Alltoallw { send, recv, in_place } => (Blocks::PerPeer(send), Blocks::PerPeer(recv), in_place),
        _ => wrong(call),
    };
    ((!in_place).then_some(send), recv)
}

fn gathered<'a>(call: &Call<'a>) -> (allgather::Blocks<'a>, bool) {
    match *call {
        Call::Allgather { bytes, in_place } => (allgather::Blocks::Even(bytes), in_place),
        Call::Allgatherv { blocks, in_place } => (allgather::Blocks::Varying(blocks), in_place),
        _ => wrong(call),
    }
}

fn longest_gathered(call: &Call<'_>) -> u64 {
    match *call {
        Call::Allgather { bytes, .. } => bytes,
        Call::Allgatherv { blocks, .. } => blocks.iter().map(|block| block.bytes).max().unwrap_or(0),
        _ => wrong(call),
    }
}

/// Bytes of all blocks together.
fn total_gathered(call: &Call<'_>, n: f64) -> f64 {
    match call {
        Call::Allgather { bytes, .. } => *bytes as f64 * n,
        _ => bytes_of(call),
    }
}
