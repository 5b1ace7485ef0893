//! The registry's entries: every algorithm with its source, restrictions and cost formula.

mod leveled;
mod movement;
mod reductions;

use crate::call::{Call, Group, Vector};
use crate::model::{Estimate, Model};
use crate::registry::{Algorithm, Parameter};
use crate::tree::Shape;

/// Every algorithm there is.
pub(crate) fn all() -> impl Iterator<Item = &'static Algorithm> {
    movement::ALGORITHMS.iter().chain(reductions::ALGORITHMS).chain(leveled::ALGORITHMS)
}

const THAKUR: &str = "Thakur, Rabenseifner, Gropp, Optimization of collective communication in MPICH, 2005";
const TRAEFF: &str = "Träff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, 2024";

pub(crate) const NONE: &[Parameter] = &[];
const SEGMENT: &[Parameter] = &[Parameter::Segment];
pub(crate) const WINDOW: &[Parameter] = &[Parameter::Window];

const BLOCKS: &str = "Träff, Round-optimal n-block broadcast schedules in logarithmic time, 2023";

fn always(_: &Call<'_>, _: Group, _: &Model) -> bool {
    true
}

/// The operands of a reduction.
fn vector(call: &Call<'_>) -> Vector {
    match call {
        Call::Reduce { vector, .. }
        | Call::Allreduce { vector, .. }
        | Call::ReduceScatter { vector, .. }
        | Call::Scan { vector, .. }
        | Call::Exscan { vector, .. } => *vector,
        _ => wrong(call),
    }
}

fn commutes(call: &Call<'_>, _: Group, _: &Model) -> bool {
    vector(call).commutative
}

/// Bytes of the part of a call that is the same at all ranks: one block, the whole vector, the sum of all blocks. Not inlined:
/// merged with a caller, lengths of other calls are looked at before it is known which call it is, which memory checkers report.
#[inline(never)]
pub(crate) fn bytes_of(call: &Call<'_>) -> f64 {
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
        _ => vector(call).bytes(),
    };
    bytes as f64
}

/// The size, as a number of a formula.
fn ranks(group: Group) -> f64 {
    f64::from(group.size)
}

/// 1, 2, 4, ... below the size.
fn doubling(group: Group) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1_u32), |distance| distance.checked_mul(2))
        .take_while(move |&d| d < group.size)
}

/// Blocks gathered to or scattered from one rank: in a tree the last blocks pass through every level.
fn blocks_through_tree(estimate: &mut Estimate<'_>, group: Group, bytes: f64, shape: Shape) {
    let radix = match shape {
        Shape::Flat => {
            estimate.with_all(bytes);
            return estimate.waits(0.25 * ranks(group));
        }
        Shape::Knomial(radix) => radix,
        Shape::Binomial | Shape::Chain => 2,
    };
    let mut distance = 1_u32;
    while distance < group.size {
        let children = (1..radix).take_while(|k| distance.saturating_mul(*k) < group.size).count() as u32;
        // What is below the children, who are rarely all of them full.
        let below = distance.saturating_mul(children).min(group.size - distance);
        let each = f64::from(below) / f64::from(children) * bytes;
        match radix {
            2 => estimate.fan(1, distance, each),
            _ => estimate.hand(children, distance, each),
        }
        distance = distance.saturating_mul(radix);
    }
    // Inner ranks move what is below them twice.
    estimate.combine(ranks(group) * bytes);
    estimate.waits((1.0 + 1.0 / f64::from(radix)) * ranks(group));
}

fn wrong(call: &Call<'_>) -> ! {
    unreachable!("an algorithm was asked for {}, which is not among its operations", call.name())
}
