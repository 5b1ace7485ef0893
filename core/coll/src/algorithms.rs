//! The registry's entries: every algorithm with its source, restrictions and cost formula.

use crate::call::{Call, Group};
use crate::registry::{Algorithm, Cost};
use crate::schedule::Schedule;
use crate::tree::{Shape, rounds};
use crate::{allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter, scan};

fn always(_: &Call<'_>, _: Group) -> bool {
    true
}

fn power_of_two(_: &Call<'_>, group: Group) -> bool {
    group.size.is_power_of_two()
}

/// Bytes of the part of a call that is the same at all ranks: one block, the whole vector, the sum of all blocks.
fn bytes_of(call: &Call<'_>) -> f64 {
    let bytes = match call {
        Call::Barrier
        | Call::Gatherv { .. }
        | Call::Scatterv { .. }
        | Call::Alltoallv { .. }
        | Call::Alltoallw { .. } => 0,
        Call::Bcast { bytes, .. }
        | Call::Gather { bytes, .. }
        | Call::Scatter { bytes, .. }
        | Call::Allgather { bytes, .. }
        | Call::Alltoall { bytes, .. } => *bytes,
        Call::Allgatherv { blocks, .. } => blocks.iter().map(|block| block.bytes).sum(),
        Call::Reduce { vector, .. }
        | Call::Allreduce { vector, .. }
        | Call::ReduceScatter { vector, .. }
        | Call::Scan { vector, .. }
        | Call::Exscan { vector, .. } => vector.bytes(),
    };
    bytes as f64
}

/// log2(size), rounded up, and the size, as numbers of a formula.
fn shape(group: Group) -> (f64, f64) {
    (f64::from(rounds(group.size)), f64::from(group.size))
}

/// A message of `bytes` down (or up) a binomial tree, or between a root and all others.
fn tree_cost(group: Group, bytes: f64, shape_of: Shape) -> Cost {
    let (log, n) = shape(group);
    let base = Cost { moved: (n - 1.0) * bytes, messages: n - 1.0, ..Cost::default() };
    match shape_of {
        Shape::Flat => {
            Cost { depth: 1.0, handled: n - 1.0, bytes: (n - 1.0) * bytes, waits: n - 1.0, ..base }
        }
        _ => Cost { depth: log, handled: log, bytes: log * bytes, waits: 1.5 * n, ..base },
    }
}

fn sum(a: Cost, b: Cost) -> Cost {
    Cost {
        depth: a.depth + b.depth,
        handled: a.handled + b.handled,
        bytes: a.bytes + b.bytes,
        exchanged: a.exchanged + b.exchanged,
        reduced: a.reduced + b.reduced,
        moved: a.moved + b.moved,
        waits: a.waits + b.waits,
        messages: a.messages + b.messages,
    }
}

/// Blocks gathered to or scattered from one rank: the last blocks pass through every level.
fn block_tree_cost(group: Group, bytes: f64, shape_of: Shape) -> Cost {
    let (_, n) = shape(group);
    let staged = match shape_of {
        Shape::Flat => 0.0,
        // Inner ranks move what is below them twice.
        _ => (n - 1.0) * bytes,
    };
    let tree = tree_cost(group, 0.0, shape_of);
    Cost { bytes: (n - 1.0) * bytes + staged, moved: (n - 1.0) * bytes + 2.0 * staged, ..tree }
}

fn reduce_cost(call: &Call<'_>, group: Group, shape_of: Shape) -> Cost {
    let bytes = bytes_of(call);
    let (log, n) = shape(group);
    let reduced = if shape_of == Shape::Flat { n - 1.0 } else { log };
    // Up the tree the top waits for what comes, the leaves for nothing.
    let waits = if shape_of == Shape::Flat { 0.25 * n } else { n };
    Cost { reduced: reduced * bytes, waits, ..tree_cost(group, bytes, shape_of) }
}

/// `rounds` exchanges of all ranks, `bytes` in all at each rank.
fn exchange_cost(group: Group, rounds: f64, bytes: f64) -> Cost {
    let (_, n) = shape(group);
    Cost {
        depth: rounds,
        handled: 2.0 * rounds,
        exchanged: bytes,
        moved: n * bytes,
        waits: n * rounds,
        messages: n * rounds,
        ..Cost::default()
    }
}

/// Every algorithm there is.
pub(crate) static ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "dissemination",
        operations: &["barrier"],
        source: "Hensgen, Finkel, Manber, Two algorithms for barrier synchronization, 1988",
        applies: always,
        cost: |_, group, _| exchange_cost(group, shape(group).0, 0.0),
        build: |_, group, _| barrier::dissemination(group),
    },
    Algorithm {
        name: "gather-release",
        operations: &["barrier"],
        source: "Mellor-Crummey, Scott, Algorithms for scalable synchronization, 1991 (central)",
        applies: always,
        cost: |call, group, _| sum(reduce_cost(call, group, Shape::Flat), tree_cost(group, 0.0, Shape::Flat)),
        build: |_, group, _| barrier::tree(group, Shape::Flat),
    },
    Algorithm {
        name: "binomial-release",
        operations: &["barrier"],
        source: "Mellor-Crummey, Scott, Algorithms for scalable synchronization, 1991 (combining tree)",
        applies: always,
        cost: |call, group, _| {
            sum(reduce_cost(call, group, Shape::Binomial), tree_cost(group, 0.0, Shape::Binomial))
        },
        build: |_, group, _| barrier::tree(group, Shape::Binomial),
    },
    Algorithm {
        name: "binomial",
        operations: &["bcast"],
        source: "Thakur, Rabenseifner, Gropp, Optimization of collective communication in MPICH, 2005",
        applies: always,
        cost: |call, group, _| tree_cost(group, bytes_of(call), Shape::Binomial),
        build: |call, group, _| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            bcast::tree(group, root, bytes, Shape::Binomial, u64::MAX)
        },
    },
    Algorithm {
        name: "flat",
        operations: &["bcast"],
        source: "the definition, section 6.4",
        applies: always,
        cost: |call, group, _| tree_cost(group, bytes_of(call), Shape::Flat),
        build: |call, group, _| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            bcast::tree(group, root, bytes, Shape::Flat, u64::MAX)
        },
    },
    Algorithm {
        name: "pipelined-chain",
        operations: &["bcast"],
        source: "Pjesivac-Grbovic et al., Performance analysis of MPI collective operations, 2007",
        applies: always,
        cost: |call, group, model| {
            let (_, n) = shape(group);
            let bytes = bytes_of(call);
            let segments = (bytes / model.segment as f64).ceil().max(1.0);
            let depth = segments + n - 2.0;
            Cost {
                depth,
                handled: 2.0 * segments,
                bytes: depth * bytes / segments,
                moved: (n - 1.0) * bytes,
                waits: n * segments,
                messages: (n - 1.0) * segments,
                ..Cost::default()
            }
        },
        build: |call, group, model| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            bcast::tree(group, root, bytes, Shape::Chain, model.segment)
        },
    },
    Algorithm {
        name: "scatter-allgather",
        operations: &["bcast"],
        source: "Barnett et al., Interprocessor collective communication library, 1994",
        applies: always,
        cost: |call, group, _| {
            let (log, n) = shape(group);
            let bytes = bytes_of(call);
            let part = bytes * (n - 1.0) / n;
            sum(
                Cost {
                    depth: log,
                    handled: log,
                    bytes: part,
                    moved: log * bytes / 2.0,
                    waits: n,
                    messages: n,
                    ..Cost::default()
                },
                exchange_cost(group, n - 1.0, part),
            )
        },
        build: |call, group, _| {
            let &Call::Bcast { root, bytes } = call else { wrong(call) };
            bcast::scatter_allgather(group, root, bytes)
        },
    },
    Algorithm {
        name: "binomial",
        operations: &["gather", "scatter"],
        source: "Thakur, Rabenseifner, Gropp 2005",
        applies: always,
        cost: |call, group, _| block_tree_cost(group, bytes_of(call), Shape::Binomial),
        build: |call, group, _| gather_or_scatter(call, group, Shape::Binomial),
    },
    Algorithm {
        name: "flat",
        operations: &["gather", "scatter"],
        source: "the definition, sections 6.5 and 6.6",
        applies: always,
        cost: |call, group, _| block_tree_cost(group, bytes_of(call), Shape::Flat),
        build: |call, group, _| gather_or_scatter(call, group, Shape::Flat),
    },
    Algorithm {
        name: "flat",
        operations: &["gatherv", "scatterv"],
        source: "the definition, sections 6.5 and 6.6",
        applies: always,
        cost: |call, group, _| block_tree_cost(group, bytes_of(call), Shape::Flat),
        build: |call, group, _| match *call {
            Call::Gatherv { root, bytes, blocks, in_place } => {
                gather::gatherv(group, root, bytes, blocks, in_place)
            }
            Call::Scatterv { root, bytes, blocks, in_place } => {
                gather::scatterv(group, root, bytes, blocks, in_place)
            }
            _ => wrong(call),
        },
    },
    Algorithm {
        name: "ring",
        operations: &["allgather", "allgatherv"],
        source: "Thakur, Rabenseifner, Gropp 2005",
        applies: always,
        cost: |call, group, _| {
            let (_, n) = shape(group);
            exchange_cost(group, n - 1.0, total_gathered(call, n) * (n - 1.0) / n)
        },
        build: |call, group, _| {
            let (blocks, in_place) = gathered(call);
            allgather::ring(group, blocks, in_place)
        },
    },
    Algorithm {
        name: "bruck",
        operations: &["allgather", "allgatherv"],
        source: "Bruck et al., Efficient algorithms for all-to-all communications, 1997",
        applies: always,
        cost: |call, group, _| {
            let (log, n) = shape(group);
            // The copies out of scratch move everything once more.
            exchange_cost(group, log, 2.0 * total_gathered(call, n))
        },
        build: |call, group, _| {
            let (blocks, in_place) = gathered(call);
            allgather::bruck(group, blocks, in_place)
        },
    },
    Algorithm {
        name: "recursive-doubling",
        operations: &["allgather"],
        source: "Thakur, Rabenseifner, Gropp 2005",
        applies: power_of_two,
        cost: |call, group, _| {
            let (log, n) = shape(group);
            exchange_cost(group, log, total_gathered(call, n) * (n - 1.0) / n)
        },
        build: |call, group, _| {
            let &Call::Allgather { bytes, in_place } = call else { wrong(call) };
            allgather::recursive_doubling(group, bytes, in_place)
        },
    },
    Algorithm {
        name: "gather-bcast",
        operations: &["allgather"],
        source: "composition",
        applies: always,
        cost: |call, group, _| {
            let (_, n) = shape(group);
            let bytes = bytes_of(call);
            let gather = Cost { waits: 0.25 * n, ..block_tree_cost(group, bytes, Shape::Flat) };
            sum(gather, tree_cost(group, n * bytes, Shape::Flat))
        },
        build: |call, group, _| {
            let &Call::Allgather { bytes, in_place } = call else { wrong(call) };
            allgather::through_one(group, bytes, in_place, Shape::Flat)
        },
    },
    Algorithm {
        name: "spread",
        operations: &["alltoall", "alltoallv", "alltoallw"],
        source: "the definition, section 6.8, with a window",
        applies: always,
        cost: |call, group, model| {
            let (_, n) = shape(group);
            let batches = ((n - 1.0) / model.window as f64).ceil();
            let spread = exchange_cost(group, n - 1.0, (n - 1.0) * bytes_of(call));
            Cost { depth: batches, waits: n * batches, ..spread }
        },
        build: |call, group, model| {
            use alltoall::Blocks;
            let (send, recv, in_place) = match *call {
                Call::Alltoall { bytes, in_place } => (Blocks::Even(bytes), Blocks::Even(bytes), in_place),
                Call::Alltoallv { send, recv, in_place } => {
                    (Blocks::Varying(send), Blocks::Varying(recv), in_place)
                }
                Call::Alltoallw { send, recv, in_place } => {
                    (Blocks::PerPeer(send), Blocks::PerPeer(recv), in_place)
                }
                _ => wrong(call),
            };
            alltoall::spread(group, (!in_place).then_some(send), recv, model.window)
        },
    },
    Algorithm {
        name: "bruck",
        operations: &["alltoall"],
        source: "Bruck et al. 1997",
        applies: always,
        cost: |call, group, _| {
            let (log, n) = shape(group);
            let bytes = bytes_of(call);
            let steps = exchange_cost(group, log, log * n * bytes / 2.0 * 3.0 + 2.0 * n * bytes);
            // Every block is copied in and out in each round.
            Cost { handled: steps.handled + 0.2 * n * log, ..steps }
        },
        build: |call, group, _| {
            let &Call::Alltoall { bytes, in_place } = call else { wrong(call) };
            alltoall::bruck(group, bytes, in_place)
        },
    },
    Algorithm {
        name: "binomial",
        operations: &["reduce"],
        source: "Thakur, Rabenseifner, Gropp 2005; in rank order for operations that do not commute",
        applies: always,
        cost: |call, group, _| reduce_cost(call, group, Shape::Binomial),
        build: |call, group, _| {
            let &Call::Reduce { root, vector, in_place } = call else { wrong(call) };
            reduce::tree(group, root, vector, in_place, Shape::Binomial)
        },
    },
    Algorithm {
        name: "flat",
        operations: &["reduce"],
        source: "the definition, section 6.9.1",
        applies: always,
        cost: |call, group, _| reduce_cost(call, group, Shape::Flat),
        build: |call, group, _| {
            let &Call::Reduce { root, vector, in_place } = call else { wrong(call) };
            reduce::tree(group, root, vector, in_place, Shape::Flat)
        },
    },
    Algorithm {
        name: "recursive-doubling",
        operations: &["allreduce"],
        source: "Thakur, Rabenseifner, Gropp 2005",
        applies: always,
        cost: |call, group, _| {
            let (log, bytes) = (folded_rounds(group), bytes_of(call));
            Cost { reduced: log * bytes, ..exchange_cost(group, log, log * bytes) }
        },
        build: |call, group, _| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            allreduce::recursive_doubling(group, vector, in_place)
        },
    },
    Algorithm {
        name: "reduce-scatter-allgather",
        operations: &["allreduce"],
        source: "Rabenseifner, Optimization of collective reduction operations, 2004",
        applies: always,
        cost: |call, group, _| {
            let (_, n) = shape(group);
            let bytes = bytes_of(call);
            let folds = if group.size.is_power_of_two() { 0.0 } else { 2.0 };
            let rounds = 2.0 * f64::from(group.size.ilog2()) + folds;
            let part = bytes * (n - 1.0) / n;
            Cost {
                reduced: part + folds / 2.0 * bytes,
                ..exchange_cost(group, rounds, 2.0 * part + folds * bytes)
            }
        },
        build: |call, group, _| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            allreduce::reduce_scatter_allgather(group, vector, in_place)
        },
    },
    Algorithm {
        name: "reduce-bcast",
        operations: &["allreduce"],
        source: "composition",
        applies: always,
        cost: |call, group, _| {
            sum(reduce_cost(call, group, Shape::Flat), tree_cost(group, bytes_of(call), Shape::Flat))
        },
        build: |call, group, _| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            allreduce::through_one(group, vector, in_place, Shape::Flat)
        },
    },
    Algorithm {
        name: "binomial-reduce-bcast",
        operations: &["allreduce"],
        source: "composition",
        applies: always,
        cost: |call, group, _| {
            sum(reduce_cost(call, group, Shape::Binomial), tree_cost(group, bytes_of(call), Shape::Binomial))
        },
        build: |call, group, _| {
            let &Call::Allreduce { vector, in_place } = call else { wrong(call) };
            allreduce::through_one(group, vector, in_place, Shape::Binomial)
        },
    },
    Algorithm {
        name: "pairwise",
        operations: &["reduce_scatter"],
        source: "Thakur, Rabenseifner, Gropp 2005; combined in rank order",
        applies: always,
        cost: |call, group, _| {
            let (_, n) = shape(group);
            let part = bytes_of(call) * (n - 1.0) / n;
            Cost { depth: 1.0, waits: n, reduced: part, ..exchange_cost(group, n - 1.0, part) }
        },
        build: |call, group, _| {
            let &Call::ReduceScatter { counts, vector, in_place } = call else { wrong(call) };
            reduce_scatter::pairwise(group, counts, vector, in_place)
        },
    },
    Algorithm {
        name: "reduce-scatterv",
        operations: &["reduce_scatter"],
        source: "composition",
        applies: always,
        cost: |call, group, _| {
            let (_, n) = shape(group);
            sum(
                reduce_cost(call, group, Shape::Binomial),
                block_tree_cost(group, bytes_of(call) / n, Shape::Flat),
            )
        },
        build: |call, group, _| {
            let &Call::ReduceScatter { counts, vector, in_place } = call else { wrong(call) };
            reduce_scatter::through_one(group, counts, vector, in_place, Shape::Binomial)
        },
    },
    Algorithm {
        name: "recursive-doubling",
        operations: &["scan", "exscan"],
        source: "Hillis, Steele, Data parallel algorithms, 1986",
        applies: always,
        cost: |call, group, _| {
            let (log, _) = shape(group);
            let bytes = log * bytes_of(call);
            Cost { reduced: bytes, ..exchange_cost(group, log, bytes) }
        },
        build: |call, group, _| match *call {
            Call::Scan { vector, in_place } => scan::recursive_doubling(group, vector, in_place, false),
            Call::Exscan { vector, in_place } => scan::recursive_doubling(group, vector, in_place, true),
            _ => wrong(call),
        },
    },
    Algorithm {
        name: "chain",
        operations: &["scan", "exscan"],
        source: "the definition, section 6.11",
        applies: always,
        cost: |call, group, _| {
            let (_, n) = shape(group);
            let bytes = (n - 1.0) * bytes_of(call);
            Cost {
                depth: n - 1.0,
                handled: 2.0,
                bytes,
                reduced: bytes,
                moved: bytes,
                waits: n - 1.0,
                messages: n - 1.0,
                ..Cost::default()
            }
        },
        build: |call, group, _| match *call {
            Call::Scan { vector, in_place } => scan::chain(group, vector, in_place, false),
            Call::Exscan { vector, in_place } => scan::chain(group, vector, in_place, true),
            _ => wrong(call),
        },
    },
];

/// Rounds of recursive doubling with the fold to a power of two.
fn folded_rounds(group: Group) -> f64 {
    f64::from(group.size.ilog2() + if group.size.is_power_of_two() { 0 } else { 2 })
}

fn gather_or_scatter(call: &Call<'_>, group: Group, shape: Shape) -> Schedule {
    match *call {
        Call::Gather { root, bytes, in_place } => gather::gather(group, root, bytes, in_place, shape),
        Call::Scatter { root, bytes, in_place } => gather::scatter(group, root, bytes, in_place, shape),
        _ => wrong(call),
    }
}

fn gathered<'a>(call: &Call<'a>) -> (allgather::Blocks<'a>, bool) {
    match *call {
        Call::Allgather { bytes, in_place } => (allgather::Blocks::Even(bytes), in_place),
        Call::Allgatherv { blocks, in_place } => (allgather::Blocks::Varying(blocks), in_place),
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

fn wrong(call: &Call<'_>) -> ! {
    unreachable!("an algorithm was asked for {}, which is not among its operations", call.name())
}
