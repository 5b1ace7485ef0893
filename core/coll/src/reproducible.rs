//! Reductions whose result does not depend on where ranks run, on message sizes or on the chosen algorithm.
//!
//! The operands are combined along one tree over the ranks in order, whatever the call: the binomial tree over absolute ranks,
//! in which rank `r` combines what `r + 1`, `r + 2`, `r + 4`, ... hold for the ranks from there on. `MPI_Reduce` to any root,
//! `MPI_Allreduce` and `MPI_Reduce_scatter` of the same data give the same bits. With a power of two of ranks that is the
//! balanced tree, which recursive doubling and Rabenseifner's algorithm compute, too. Scans combine by doubling.

use crate::call::{Call, Group, Vector};
use crate::model::Model;
use crate::registry::plan;
use crate::schedule::{Builder, Schedule};
use crate::tree::Shape;
use crate::{allreduce, reduce, reduce_scatter, scan};

/// Vectors of at least so many bytes are reduced in parts where that gives the same tree.
const LONG: u64 = 64 << 10;

fn ordered(vector: Vector) -> Vector {
    Vector { commutative: false, ..vector }
}

/// Appends a reduction to one rank along the tree.
pub(crate) fn add_reduction(b: &mut Builder, group: Group, root: u32, vector: Vector, in_place: bool) {
    reduce::tree(b, group, root, ordered(vector), in_place, Shape::Binomial);
}

/// As [`plan`], with the order of combination fixed.
pub fn plan_reproducible(call: &Call<'_>, group: Group, model: &Model) -> Schedule {
    let balanced = group.size.is_power_of_two();
    let mut b = Builder::new();
    match *call {
        Call::Reduce { root, vector, in_place } => add_reduction(&mut b, group, root, vector, in_place),
        Call::Allreduce { vector, in_place } if balanced && vector.bytes() >= LONG => {
            allreduce::reduce_scatter_allgather(&mut b, group, ordered(vector), in_place)
        }
        Call::Allreduce { vector, in_place } if balanced => {
            allreduce::recursive_doubling(&mut b, group, ordered(vector), in_place)
        }
        Call::Allreduce { vector, in_place } => {
            allreduce::through_one(&mut b, group, ordered(vector), in_place, Shape::Binomial)
        }
        Call::ReduceScatter { counts, vector, in_place } => {
            reduce_scatter::through_one(&mut b, group, counts, ordered(vector), in_place, Shape::Binomial)
        }
        Call::Scan { vector, in_place } => {
            scan::recursive_doubling(&mut b, group, ordered(vector), in_place, false)
        }
        Call::Exscan { vector, in_place } => {
            scan::recursive_doubling(&mut b, group, ordered(vector), in_place, true)
        }
        _ => return plan(call, group, model),
    }
    b.finish().of(call, group)
}
