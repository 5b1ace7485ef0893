//! Collectives on intercommunicators (section 6.2.3): what one group gives the other gets.
//!
//! Ranks of the schedules are those of the hidden communicator of both groups: the first group's members, then the second's.
//! The rooted operations are those of an intracommunicator of the root and the other group. Reductions go through rank 0 of
//! each group, so that all members of a group get the same bits.

mod algorithms;
mod build;

pub use algorithms::{InterAlgorithm, OPERATIONS, all};

use crate::call::{Block, Call, Group, Vector};
use crate::model::Model;
use crate::registry::plan;
use crate::rules::{Rule, Rules, verdict_inter};
use crate::schedule::Schedule;

/// The two groups as a member sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sides {
    /// Rank in the own group.
    pub rank: u32,
    /// Members of the own group.
    pub local: u32,
    /// Members of the other group.
    pub remote: u32,
    /// Whether the own group is the first one.
    pub is_first: bool,
}

impl Sides {
    /// The number of the own group's rank 0 among all members.
    const fn local_base(&self) -> u32 {
        if self.is_first { 0 } else { self.remote }
    }

    /// The number of the other group's rank 0 among all members.
    const fn remote_base(&self) -> u32 {
        if self.is_first { self.local } else { 0 }
    }

    const fn own_group(&self) -> Group {
        Group { rank: self.rank, size: self.local }
    }
}

/// The root argument of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// `MPI_ROOT`: this member.
    Here,
    /// A member of the other group, by its rank there.
    Remote(u32),
    /// `MPI_PROC_NULL`: another member of the own group; nothing is to be done.
    Elsewhere,
}

/// A collective on an intercommunicator, as one member calls it. "Bytes" are packed bytes, as in [`Call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InterCall<'a> {
    /// `MPI_Barrier`: of all members of both groups, which is more than section 6.3 asks for.
    Barrier,
    /// `MPI_Bcast`. The buffer is [`Buffer::Recv`] at every member.
    Bcast {
        /// Root.
        root: Root,
        /// Bytes of the message.
        bytes: u64,
    },
    /// `MPI_Gather`.
    Gather {
        /// Root.
        root: Root,
        /// Bytes of one member's block.
        bytes: u64,
    },
    /// `MPI_Gatherv`.
    Gatherv {
        /// Root.
        root: Root,
        /// Bytes this member sends; not read at the root.
        bytes: u64,
        /// Where the data of each member of the other group go; read at the root only.
        blocks: &'a [Block],
    },
    /// `MPI_Scatter`.
    Scatter {
        /// Root.
        root: Root,
        /// Bytes of one member's block.
        bytes: u64,
    },
    /// `MPI_Scatterv`.
    Scatterv {
        /// Root.
        root: Root,
        /// Bytes this member receives; not read at the root.
        bytes: u64,
        /// What each member of the other group gets; read at the root only.
        blocks: &'a [Block],
    },
    /// `MPI_Allgather`.
    Allgather {
        /// Bytes this member gives.
        sent: u64,
        /// Bytes of each member of the other group.
        received: u64,
    },
    /// `MPI_Allgatherv`.
    Allgatherv {
        /// Bytes this member gives.
        sent: u64,
        /// Where the data of each member of the other group go.
        blocks: &'a [Block],
    },
    /// `MPI_Alltoall`.
    Alltoall {
        /// Bytes for each member of the other group.
        sent: u64,
        /// Bytes from each member of the other group.
        received: u64,
    },
    /// `MPI_Alltoallv`.
    Alltoallv {
        /// What each member of the other group gets.
        send: &'a [Block],
        /// Where the data of each member of the other group go.
        recv: &'a [Block],
    },
    /// `MPI_Alltoallw`; the ranges are those of [`Call::Alltoallw`].
    Alltoallw {
        /// Bytes for each member of the other group.
        send: &'a [u64],
        /// Bytes from each member of the other group.
        recv: &'a [u64],
    },
    /// `MPI_Reduce`.
    Reduce {
        /// Root.
        root: Root,
        /// The operands.
        vector: Vector,
    },
    /// `MPI_Allreduce`.
    Allreduce {
        /// The operands.
        vector: Vector,
    },
    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`.
    ReduceScatter {
        /// Number of elements each member of the own group gets.
        counts: &'a [u64],
        /// The operands; `vector.count` is the sum of `counts`, the same in both groups.
        vector: Vector,
    },
}

impl InterCall<'_> {
    /// The operation's name in rules and reports.
    pub const fn name(&self) -> &'static str {
        match self {
            InterCall::Barrier => "inter_barrier",
            InterCall::Bcast { .. } => "inter_bcast",
            InterCall::Gather { .. } => "inter_gather",
            InterCall::Gatherv { .. } => "inter_gatherv",
            InterCall::Scatter { .. } => "inter_scatter",
            InterCall::Scatterv { .. } => "inter_scatterv",
            InterCall::Allgather { .. } => "inter_allgather",
            InterCall::Allgatherv { .. } => "inter_allgatherv",
            InterCall::Alltoall { .. } => "inter_alltoall",
            InterCall::Alltoallv { .. } => "inter_alltoallv",
            InterCall::Alltoallw { .. } => "inter_alltoallw",
            InterCall::Reduce { .. } => "inter_reduce",
            InterCall::Allreduce { .. } => "inter_allreduce",
            InterCall::ReduceScatter { .. } => "inter_reduce_scatter",
        }
    }
}

/// What the members of both groups know alike of a call, and all that may decide how it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alike {
    /// Members of each group.
    pub(crate) members: [u32; 2],
    /// Bytes of the block that a member of each gives, or of the vector; 0 where blocks differ.
    pub(crate) bytes: [u64; 2],
    /// The operands of a reduction.
    pub(crate) vector: Option<Vector>,
}

impl Alike {
    fn of(call: &InterCall<'_>, sides: Sides) -> Alike {
        let (own, vector) = match *call {
            InterCall::Allgather { sent, received } | InterCall::Alltoall { sent, received } => {
                ([sent, received], None)
            }
            InterCall::Reduce { vector, .. }
            | InterCall::Allreduce { vector }
            | InterCall::ReduceScatter { vector, .. } => ([vector.bytes(); 2], Some(vector)),
            _ => ([0; 2], None),
        };
        let in_order = |[own, other]: [u64; 2]| if sides.is_first { [own, other] } else { [other, own] };
        let [first, second] = in_order([u64::from(sides.local), u64::from(sides.remote)]);
        Alike { members: [first as u32, second as u32], bytes: in_order(own), vector }
    }

    /// Bytes by which rules tell calls apart.
    pub(crate) fn larger(&self) -> u64 {
        self.bytes[0].max(self.bytes[1])
    }

    /// Members of both groups.
    pub(crate) fn size(&self) -> u32 {
        self.members[0] + self.members[1]
    }
}

/// What decides a call on an intercommunicator.
#[derive(Clone, Copy, Debug)]
pub struct InterChosen<'r> {
    /// What it takes.
    pub algorithm: &'static InterAlgorithm,
    /// The rule that says so; `None`: the model finds it cheapest.
    pub rule: Option<&'r Rule>,
}

/// What decides a call: the first rule that fits, then the model. `None` for operations that are those of an intracommunicator.
pub fn choose_inter<'r>(
    call: &InterCall<'_>,
    sides: Sides,
    model: &Model,
    rules: &[&'r Rules],
) -> Option<InterChosen<'r>> {
    let alike = Alike::of(call, sides);
    let verdict = verdict_inter(rules, call.name(), &alike, model);
    if let Some((rule, algorithm)) = verdict.named {
        return Some(InterChosen { algorithm, rule: Some(rule) });
    }
    let ranked = rank_inter(call, sides, model);
    let allowed = ranked.iter().find(|(algorithm, _)| verdict.allows(algorithm));
    let &(algorithm, _) = allowed.or(ranked.first())?;
    Some(InterChosen { algorithm, rule: None })
}

/// All algorithms that can do a call, with their modelled seconds, cheapest first.
pub fn rank_inter(call: &InterCall<'_>, sides: Sides, model: &Model) -> Vec<(&'static InterAlgorithm, f64)> {
    let alike = Alike::of(call, sides);
    let of_operation = all().iter().filter(|algorithm| algorithm.operations.contains(&call.name()));
    let mut ranked: Vec<_> = of_operation
        .filter(|algorithm| (algorithm.applies)(&alike))
        .map(|algorithm| (algorithm, algorithm.seconds(&alike, model)))
        .collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    ranked
}

/// This member's schedule, by the algorithm that the model finds cheapest.
pub fn plan_inter(call: &InterCall<'_>, sides: Sides, model: &Model) -> Schedule {
    plan_inter_by(call, sides, model, &[])
}

/// This member's schedule, by the first rule that fits it (those of earlier `rules` first), and by the model when none does.
pub fn plan_inter_by(call: &InterCall<'_>, sides: Sides, model: &Model, rules: &[&Rules]) -> Schedule {
    if let Some(chosen) = choose_inter(call, sides, model, rules) {
        return match chosen.rule {
            Some(rule) => chosen.algorithm.build(call, sides, &rule.adjust(model)),
            None => chosen.algorithm.build(call, sides, model),
        };
    }
    match *call {
        InterCall::Bcast { root, bytes } => with_root(sides, root, model, |root| Call::Bcast { root, bytes }),
        InterCall::Gather { root, bytes } => {
            with_root(sides, root, model, |root| Call::Gather { root, bytes, in_place: true })
        }
        InterCall::Scatter { root, bytes } => {
            with_root(sides, root, model, |root| Call::Scatter { root, bytes, in_place: true })
        }
        InterCall::Gatherv { root, bytes, blocks } => {
            let blocks = and_nothing(blocks);
            with_root(sides, root, model, |root| Call::Gatherv {
                root,
                bytes,
                blocks: &blocks,
                in_place: true,
            })
        }
        InterCall::Scatterv { root, bytes, blocks } => {
            let blocks = and_nothing(blocks);
            with_root(sides, root, model, |root| Call::Scatterv {
                root,
                bytes,
                blocks: &blocks,
                in_place: true,
            })
        }
        InterCall::Barrier => {
            let rank = sides.local_base() + sides.rank;
            plan(&Call::Barrier, Group { rank, size: sides.local + sides.remote }, model)
        }
        _ => unreachable!("{} is in the table, with an algorithm without restrictions", call.name()),
    }
}

/// As [`plan_inter`], with the order in which the operands of each group are combined fixed ([`crate::reproducible`]).
pub fn plan_inter_reproducible(call: &InterCall<'_>, sides: Sides, model: &Model) -> Schedule {
    match call {
        InterCall::Reduce { .. } | InterCall::Allreduce { .. } | InterCall::ReduceScatter { .. } => {
            algorithms::through_first(call, sides, build::Combined::Reproducible(model))
        }
        _ => plan_inter(call, sides, model),
    }
}

/// The operation on an intracommunicator of the other group and the root, which comes last and has no data of its own there;
/// but for a broadcast, whose root has.
fn with_root<'a>(sides: Sides, root: Root, model: &Model, call: impl FnOnce(u32) -> Call<'a>) -> Schedule {
    let (members, base, rank, root_number) = match root {
        Root::Elsewhere => return Schedule::default(),
        Root::Here => (sides.remote, sides.remote_base(), sides.remote, sides.local_base() + sides.rank),
        Root::Remote(root) => (sides.local, sides.local_base(), sides.rank, sides.remote_base() + root),
    };
    let schedule = plan(&call(members), Group { rank, size: members + 1 }, model);
    schedule.with_ranks(|rank| if rank == members { root_number } else { base + rank })
}

/// The blocks of the other group's members, and the empty one of the root.
fn and_nothing(blocks: &[Block]) -> Vec<Block> {
    blocks.iter().copied().chain([Block::default()]).collect()
}
