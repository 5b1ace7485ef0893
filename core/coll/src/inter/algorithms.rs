//! The table of algorithms of collectives on intercommunicators, as that of the others: source, restriction, parameters and time. Rooted
//! operations that only move data, and the barrier, are not in it: they are those of an intracommunicator.

use super::build::{self, Combined};
use super::{Alike, InterCall, Sides};
use crate::algorithms::{NONE, WINDOW};
use crate::alltoall::Blocks;
use crate::call::{Call, Group};
use crate::model::{Estimate, Model};
use crate::registry::{Parameter, least};
use crate::schedule::{Buffer, Range, Schedule};

/// One algorithm.
pub struct InterAlgorithm {
    /// Unique among those of its operation.
    pub name: &'static str,
    /// The operations it is for, by [`InterCall::name`].
    pub operations: &'static [&'static str],
    /// Where it is described.
    pub source: &'static str,
    /// What a rule can say of it.
    pub parameters: &'static [Parameter],
    /// Whether it gives the right result for such a call.
    pub(crate) applies: fn(&Alike) -> bool,
    /// Adds up its time.
    estimate: fn(&mut Estimate<'_>, &Alike, &Model),
    write: fn(&InterCall<'_>, Sides, &Model) -> Schedule,
}

impl std::fmt::Debug for InterAlgorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.operations.join("/"), self.name)
    }
}

impl InterAlgorithm {
    /// This member's schedule for a call the algorithm applies to.
    pub fn build(&self, call: &InterCall<'_>, sides: Sides, model: &Model) -> Schedule {
        (self.write)(call, sides, model)
    }

    pub(super) fn seconds(&self, alike: &Alike, model: &Model) -> f64 {
        let mut estimate = Estimate::new(model, Group { rank: 0, size: alike.size() });
        (self.estimate)(&mut estimate, alike, model);
        estimate.seconds()
    }
}

/// Every algorithm there is.
pub fn all() -> &'static [InterAlgorithm] {
    ALGORITHMS
}

/// The operations that have more than an intracommunicator's algorithms.
pub const OPERATIONS: [&str; 8] = [
    "inter_allgather",
    "inter_allgatherv",
    "inter_alltoall",
    "inter_alltoallv",
    "inter_alltoallw",
    "inter_reduce",
    "inter_allreduce",
    "inter_reduce_scatter",
];

const COMPOSITION: &str = "composition, section 6.2.3";

fn always(_: &Alike) -> bool {
    true
}

/// As many members in one group as in the other.
fn is_even(alike: &Alike) -> bool {
    alike.members[0] == alike.members[1]
}

fn has_even_parts(alike: &Alike) -> bool {
    is_even(alike)
        && alike.vector.is_some_and(|vector| vector.count.is_multiple_of(u64::from(alike.members[0])))
}

/// Every member of the larger group exchanges a block with each of the other.
fn spread_estimate(estimate: &mut Estimate<'_>, alike: &Alike, has_window: bool, model: &Model) {
    let larger = alike.members[0].max(alike.members[1]);
    let mut part = Estimate::new(model, Group { rank: 0, size: larger + 1 });
    let batches = if has_window { model.batches(alike.size(), alike.larger() as f64) } else { 1.0 };
    part.all_pairs(batches, (alike.bytes[0] + alike.bytes[1]) as f64 / 2.0);
    estimate.within(1.0, &part);
}

/// Adds an operation that both groups have inside at the same time, as long as it takes in the slower one; `call` is that of the first or of the
/// second group.
fn inside<'c>(estimate: &mut Estimate<'_>, alike: &Alike, model: &Model, call: impl Fn(usize) -> Call<'c>) {
    let times = [0, 1].map(|side| {
        let group = Group { rank: 0, size: alike.members[side] };
        least(&call(side), group, model)
    });
    let slower = if times[0].seconds() >= times[1].seconds() { &times[0] } else { &times[1] };
    estimate.within(2.0, slower);
}

/// What a member of a group gets of the other one, in blocks.
fn from_others(alike: &Alike, side: usize) -> u64 {
    alike.bytes[1 - side].saturating_mul(u64::from(alike.members[1 - side]))
}

fn given(sent: u64) -> impl Fn(u32) -> Range {
    move |_| Range::new(Buffer::Send, 0, sent)
}

/// A reduction at rank 0 of each group, which exchange what comes of it.
pub(super) fn through_first(call: &InterCall<'_>, sides: Sides, how: Combined<'_>) -> Schedule {
    match *call {
        InterCall::Reduce { root, vector } => build::reduce_to(sides, root, vector, how),
        InterCall::Allreduce { vector } => build::allreduce_through_first(sides, vector, how),
        InterCall::ReduceScatter { counts, vector } => build::reduce_scatter(sides, counts, vector, how),
        _ => wrong(call),
    }
}

fn wrong(call: &InterCall<'_>) -> ! {
    unreachable!("an algorithm was asked for {}, which is not among its operations", call.name())
}

static ALGORITHMS: &[InterAlgorithm] = &[
    InterAlgorithm {
        name: "direct",
        operations: &["inter_allgather", "inter_allgatherv"],
        source: "the definition, section 6.7",
        parameters: NONE,
        applies: always,
        estimate: |estimate, alike, model| spread_estimate(estimate, alike, false, model),
        write: |call, sides, _| match *call {
            InterCall::Allgather { sent, received } => {
                build::spread(sides, given(sent), Blocks::Even(received), usize::MAX)
            }
            InterCall::Allgatherv { sent, blocks } => {
                build::spread(sides, given(sent), Blocks::Varying(blocks), usize::MAX)
            }
            _ => wrong(call),
        },
    },
    InterAlgorithm {
        name: "through-first",
        operations: &["inter_allgather", "inter_allgatherv"],
        source: COMPOSITION,
        parameters: NONE,
        applies: always,
        estimate: |estimate, alike, model| {
            inside(estimate, alike, model, |side| Call::Gather {
                root: 0,
                bytes: alike.bytes[side],
                in_place: false,
            });
            let all = from_others(alike, 0).max(from_others(alike, 1)) as f64;
            estimate.fan(1, 1, all);
            inside(estimate, alike, model, |side| Call::Bcast { root: 0, bytes: from_others(alike, side) });
        },
        write: |call, sides, model| match *call {
            InterCall::Allgather { sent, received } => {
                build::allgather_through_first(sides, sent, received, model)
            }
            InterCall::Allgatherv { sent, blocks } => build::allgatherv_through_first(sides, sent, blocks),
            _ => wrong(call),
        },
    },
    InterAlgorithm {
        name: "through-all",
        operations: &["inter_allgather"],
        source: COMPOSITION,
        parameters: NONE,
        applies: is_even,
        estimate: |estimate, alike, model| {
            estimate.exchange(1.0, alike.members[0], (alike.bytes[0] + alike.bytes[1]) as f64 / 2.0);
            inside(estimate, alike, model, |side| Call::Allgather {
                bytes: alike.bytes[1 - side],
                in_place: true,
            });
        },
        write: |call, sides, model| {
            let &InterCall::Allgather { sent, received } = call else { wrong(call) };
            build::allgather_through_all(sides, sent, received, model)
        },
    },
    InterAlgorithm {
        name: "direct",
        operations: &["inter_alltoall", "inter_alltoallv", "inter_alltoallw"],
        source: "the definition, section 6.8, with a window",
        parameters: WINDOW,
        applies: always,
        estimate: |estimate, alike, model| spread_estimate(estimate, alike, true, model),
        write: |call, sides, model| {
            let (send, recv) = match *call {
                InterCall::Alltoall { sent, received } => (Blocks::Even(sent), Blocks::Even(received)),
                InterCall::Alltoallv { send, recv } => (Blocks::Varying(send), Blocks::Varying(recv)),
                InterCall::Alltoallw { send, recv } => (Blocks::PerPeer(send), Blocks::PerPeer(recv)),
                _ => wrong(call),
            };
            let alike = Alike::of(call, sides);
            let window = model.window(alike.size(), alike.larger() as f64);
            build::spread(sides, |to| send.send(to), recv, window)
        },
    },
    InterAlgorithm {
        name: "through-first",
        operations: &["inter_reduce", "inter_reduce_scatter", "inter_allreduce"],
        source: COMPOSITION,
        parameters: NONE,
        applies: always,
        estimate: |estimate, alike, model| {
            let Some(vector) = alike.vector else { unreachable!("reductions have operands") };
            inside(estimate, alike, model, |_| Call::Reduce { root: 0, vector, in_place: false });
            estimate.fan(1, 1, vector.bytes() as f64);
            inside(estimate, alike, model, |_| Call::Bcast { root: 0, bytes: vector.bytes() });
        },
        write: |call, sides, model| through_first(call, sides, Combined::Cheapest(model)),
    },
    InterAlgorithm {
        name: "through-all",
        operations: &["inter_allreduce"],
        source: COMPOSITION,
        parameters: NONE,
        applies: has_even_parts,
        estimate: |estimate, alike, model| {
            let Some(vector) = alike.vector else { unreachable!("reductions have operands") };
            let count = vector.count / u64::from(alike.members[0]);
            let counts = vec![count; alike.members[0] as usize];
            inside(estimate, alike, model, |_| Call::ReduceScatter {
                counts: &counts,
                vector,
                in_place: false,
            });
            estimate.exchange(1.0, alike.members[0], (count * vector.element) as f64);
            let bytes = count * vector.element;
            inside(estimate, alike, model, |_| Call::Allgather { bytes, in_place: true });
        },
        write: |call, sides, model| {
            let &InterCall::Allreduce { vector } = call else { wrong(call) };
            build::allreduce_through_all(sides, vector, model)
        },
    },
];
