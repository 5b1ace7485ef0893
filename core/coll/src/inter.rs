//! Collectives on intercommunicators (section 6.2.3): what one group gives the other gets.
//!
//! Ranks of the schedules are those of the hidden communicator of both groups: the first group's members, then the second's.
//! The rooted operations are those of an intracommunicator of the root and the other group. Reductions go through rank 0 of
//! each group, so that all members of a group get the same bits.

use crate::alltoall::Blocks;
use crate::call::{Block, Call, Group, Vector};
use crate::gather::{add_gather, block};
use crate::model::Model;
use crate::registry::plan;
use crate::schedule::{Buffer, Builder, Range, Schedule, StepId};
use crate::tree::Shape;
use crate::{bcast, reduce};

/// Up to this many members of the larger group every member sends to every other one; beyond, blocks go through rank 0.
const DIRECT: u32 = 8;

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

/// This member's schedule.
pub fn plan_inter(call: &InterCall<'_>, sides: Sides, model: &Model) -> Schedule {
    match *call {
        InterCall::Barrier => {
            let rank = sides.local_base() + sides.rank;
            plan(&Call::Barrier, Group { rank, size: sides.local + sides.remote }, model)
        }
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
        InterCall::Allgather { sent, received } if sides.local.max(sides.remote) > DIRECT => {
            allgather_through_first(sides, sent, received)
        }
        InterCall::Allgather { sent, received } => {
            spread(sides, |_| Range::new(Buffer::Send, 0, sent), Blocks::Even(received), usize::MAX)
        }
        InterCall::Allgatherv { sent, blocks } if sides.local.max(sides.remote) > DIRECT => {
            allgatherv_through_first(sides, sent, blocks)
        }
        InterCall::Allgatherv { sent, blocks } => {
            spread(sides, |_| Range::new(Buffer::Send, 0, sent), Blocks::Varying(blocks), usize::MAX)
        }
        InterCall::Alltoall { sent, received } => {
            spread(sides, |to| Blocks::Even(sent).send(to), Blocks::Even(received), model.window)
        }
        InterCall::Alltoallv { send, recv } => {
            spread(sides, |to| Blocks::Varying(send).send(to), Blocks::Varying(recv), model.window)
        }
        InterCall::Alltoallw { send, recv } => {
            spread(sides, |to| Blocks::PerPeer(send).send(to), Blocks::PerPeer(recv), model.window)
        }
        InterCall::Reduce { root, vector } => reduce_to(sides, root, vector),
        InterCall::Allreduce { vector } => allreduce(sides, vector),
        InterCall::ReduceScatter { counts, vector } => reduce_scatter(sides, counts, vector),
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

/// Every pair of members of different groups exchanges its blocks, at most `window` exchanges at a time. The round of a pair is
/// the same at both ends, so that nobody waits for somebody who waits for him.
fn spread(sides: Sides, send: impl Fn(u32) -> Range, recv: Blocks<'_>, window: usize) -> Schedule {
    let mut b = Builder::new();
    b.count_ranks_from(sides.remote_base());
    let rounds = sides.local.max(sides.remote);
    let mut exchanges: Vec<Vec<StepId>> = Vec::new();
    for round in 0..rounds {
        let peer = (round + rounds - sides.rank) % rounds;
        if peer >= sides.remote {
            continue;
        }
        let mut steps = Vec::new();
        if recv.recv(peer).bytes > 0 {
            steps.push(b.recv(peer, recv.recv(peer)));
        }
        if send(peer).bytes > 0 {
            steps.push(b.send(peer, send(peer)));
        }
        if let Some(earlier) = exchanges.len().checked_sub(window) {
            for &before in &exchanges[earlier] {
                steps.iter().for_each(|&step| b.order(before, step));
            }
        }
        exchanges.push(steps);
    }
    b.finish()
}

/// Blocks are gathered at rank 0 of each group, exchanged, and broadcast.
fn allgather_through_first(sides: Sides, sent: u64, received: u64) -> Schedule {
    let mut b = Builder::new();
    let all = (sides.rank == 0).then(|| b.packed_scratch(sent * u64::from(sides.local)));
    let result = Range::new(Buffer::Recv, 0, received * u64::from(sides.remote));
    b.count_ranks_from(sides.local_base());
    let into = all.map_or(Buffer::Recv, |all| all.buffer);
    add_gather(&mut b, sides.own_group(), 0, Range::new(Buffer::Send, 0, sent), into, false, Shape::Binomial);
    if let Some(all) = all {
        exchange_first(&mut b, sides, all, result);
    }
    b.count_ranks_from(sides.local_base());
    bcast::add_tree(&mut b, sides.own_group(), 0, result, Shape::Binomial, u64::MAX);
    b.finish()
}

/// Everybody sends to rank 0 of the other group, which alone knows there how long the blocks are; it broadcasts them in one
/// piece.
fn allgatherv_through_first(sides: Sides, sent: u64, blocks: &[Block]) -> Schedule {
    let mut b = Builder::new();
    let all = b.packed_scratch(blocks.iter().map(|block| block.bytes).sum());
    b.count_ranks_from(sides.remote_base());
    if sent > 0 {
        b.send(0, Range::new(Buffer::Send, 0, sent));
    }
    let mut offset = 0;
    let mut parts = Vec::with_capacity(blocks.len());
    for place in blocks {
        parts.push(all.part(offset, place.bytes));
        offset += place.bytes;
    }
    if sides.rank == 0 {
        for (from, &part) in (0..).zip(&parts).filter(|(_, part)| part.bytes > 0) {
            b.recv(from, part);
        }
    }
    b.count_ranks_from(sides.local_base());
    bcast::add_tree(&mut b, sides.own_group(), 0, all, Shape::Binomial, u64::MAX);
    for (&part, &place) in parts.iter().zip(blocks) {
        b.copy(part, block(Buffer::Recv, place));
    }
    b.finish()
}

/// The two ranks 0 give each other what they have.
fn exchange_first(b: &mut Builder, sides: Sides, given: Range, taken: Range) {
    b.count_ranks_from(sides.remote_base());
    if taken.bytes > 0 {
        b.recv(0, taken);
    }
    if given.bytes > 0 {
        b.send(0, given);
    }
}

/// Reduces the own group's vectors at its rank 0, which gets the memory they lie in.
fn add_own_reduction(b: &mut Builder, sides: Sides, vector: Vector) -> Option<Range> {
    let own = Range::new(Buffer::Send, 0, vector.bytes());
    let whole = (sides.rank == 0 && own.bytes > 0).then(|| b.operand_scratch(own.bytes));
    b.count_ranks_from(sides.local_base());
    reduce::add_tree(b, sides.own_group(), 0, vector, own, whole, Shape::Binomial);
    whole
}

fn reduce_to(sides: Sides, root: Root, vector: Vector) -> Schedule {
    let mut b = Builder::new();
    match root {
        Root::Elsewhere => {}
        Root::Here => {
            b.count_ranks_from(sides.remote_base());
            if vector.bytes() > 0 {
                b.recv(0, Range::new(Buffer::Recv, 0, vector.bytes()));
            }
        }
        Root::Remote(root) => {
            if let Some(whole) = add_own_reduction(&mut b, sides, vector) {
                b.count_ranks_from(sides.remote_base());
                b.send(root, whole);
            }
        }
    }
    b.finish()
}

fn allreduce(sides: Sides, vector: Vector) -> Schedule {
    let mut b = Builder::new();
    let result = Range::new(Buffer::Recv, 0, vector.bytes());
    if let Some(whole) = add_own_reduction(&mut b, sides, vector) {
        exchange_first(&mut b, sides, whole, result);
    }
    b.count_ranks_from(sides.local_base());
    bcast::add_tree(&mut b, sides.own_group(), 0, result, Shape::Binomial, u64::MAX);
    b.finish()
}

fn reduce_scatter(sides: Sides, counts: &[u64], vector: Vector) -> Schedule {
    let mut b = Builder::new();
    let mine = Range::new(Buffer::Recv, 0, counts[sides.rank as usize] * vector.element);
    let Some(whole) = add_own_reduction(&mut b, sides, vector) else {
        b.count_ranks_from(sides.local_base());
        if mine.bytes > 0 {
            b.recv(0, mine);
        }
        return b.finish();
    };
    let theirs = b.operand_scratch(vector.bytes());
    exchange_first(&mut b, sides, whole, theirs);
    b.count_ranks_from(sides.local_base());
    let mut offset = mine.bytes;
    for (peer, count) in (0..).zip(counts).skip(1).filter(|&(_, &count)| count > 0) {
        b.send(peer, theirs.part(offset, count * vector.element));
        offset += count * vector.element;
    }
    b.copy(theirs.part(0, mine.bytes), mine);
    b.finish()
}
