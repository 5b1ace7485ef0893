//! The ways of [`super::algorithms`]. What happens inside a group is an operation of its own there, by the algorithm that the model finds
//! cheapest for it.

use super::{Root, Sides};
use crate::alltoall::Blocks;
use crate::bcast;
use crate::call::{Block, Call, Vector};
use crate::gather::block;
use crate::layout::Members;
use crate::model::Model;
use crate::registry::choose;
use crate::reproducible::add_reduction;
use crate::schedule::{Buffer, Builder, CHANNELS, Range, Schedule, StepId};
use crate::tree::Shape;

/// Every pair of members of different groups exchanges its blocks, at most `window` exchanges at a time. The round of a pair is
/// the same at both ends, so that nobody waits for somebody who waits for him.
pub(super) fn spread(sides: Sides, send: impl Fn(u32) -> Range, recv: Blocks<'_>, window: usize) -> Schedule {
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

/// Appends an operation of the own group. Its receive argument is `into`, where that is given. `first_channel` is [`CHANNELS`] where members of
/// the group have sent to one another before: those messages come first.
fn inside(
    b: &mut Builder,
    sides: Sides,
    model: &Model,
    call: &Call<'_>,
    into: Option<Range>,
    first_channel: u32,
) {
    let members = Members::strided(sides.local_base(), 1, sides.local);
    let group = sides.own_group();
    b.as_stage(&members, into, first_channel, |b| choose(call, group, model).add(b, call, group, model));
}

/// Blocks are gathered at rank 0 of each group, exchanged, and broadcast.
pub(super) fn allgather_through_first(sides: Sides, sent: u64, received: u64, model: &Model) -> Schedule {
    let mut b = Builder::new();
    let all = (sides.rank == 0).then(|| b.packed_scratch(sent * u64::from(sides.local)));
    let result = Range::new(Buffer::Recv, 0, received * u64::from(sides.remote));
    let gather = Call::Gather { root: 0, bytes: sent, in_place: false };
    inside(&mut b, sides, model, &gather, all, 0);
    if let Some(all) = all {
        exchange_first(&mut b, sides, all, result);
    }
    inside(&mut b, sides, model, &Call::Bcast { root: 0, bytes: result.bytes }, None, CHANNELS);
    b.finish()
}

/// Each member exchanges blocks with the one of its rank, and what came is gathered inside. For groups of one size.
pub(super) fn allgather_through_all(sides: Sides, sent: u64, received: u64, model: &Model) -> Schedule {
    let mut b = Builder::new();
    let theirs = Range::new(Buffer::Recv, u64::from(sides.rank) * received, received);
    exchange_with(&mut b, sides, sides.rank, Range::new(Buffer::Send, 0, sent), theirs);
    inside(&mut b, sides, model, &Call::Allgather { bytes: received, in_place: true }, None, 0);
    b.finish()
}

/// Everybody sends to rank 0 of the other group, which alone knows there how long the blocks are; it broadcasts them in one
/// piece.
pub(super) fn allgatherv_through_first(sides: Sides, sent: u64, blocks: &[Block]) -> Schedule {
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
    exchange_with(b, sides, 0, given, taken);
}

fn exchange_with(b: &mut Builder, sides: Sides, rank: u32, given: Range, taken: Range) {
    b.count_ranks_from(sides.remote_base());
    if taken.bytes > 0 {
        b.recv(rank, taken);
    }
    if given.bytes > 0 {
        b.send(rank, given);
    }
}

/// How a group's vectors are combined.
#[derive(Clone, Copy, Debug)]
pub(super) enum Combined<'m> {
    /// As the model finds cheapest.
    Cheapest(&'m Model),
    /// Along one tree whatever the call ([`crate::reproducible`]).
    Reproducible(&'m Model),
}

impl<'m> Combined<'m> {
    fn model(self) -> &'m Model {
        let (Combined::Cheapest(model) | Combined::Reproducible(model)) = self;
        model
    }
}

/// Reduces the own group's vectors at its rank 0, which gets the memory they lie in.
fn add_own_reduction(b: &mut Builder, sides: Sides, vector: Vector, how: Combined<'_>) -> Option<Range> {
    let whole = (sides.rank == 0 && vector.bytes() > 0).then(|| b.operand_scratch(vector.bytes()));
    match how {
        Combined::Cheapest(model) => {
            inside(b, sides, model, &Call::Reduce { root: 0, vector, in_place: false }, whole, 0);
        }
        Combined::Reproducible(_) => {
            let members = Members::strided(sides.local_base(), 1, sides.local);
            b.as_stage(&members, whole, 0, |b| add_reduction(b, sides.own_group(), 0, vector, false));
        }
    }
    whole
}

pub(super) fn reduce_to(sides: Sides, root: Root, vector: Vector, how: Combined<'_>) -> Schedule {
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
            if let Some(whole) = add_own_reduction(&mut b, sides, vector, how) {
                b.count_ranks_from(sides.remote_base());
                b.send(root, whole);
            }
        }
    }
    b.finish()
}

/// Reduced at rank 0 of each group, exchanged, and broadcast.
pub(super) fn allreduce_through_first(sides: Sides, vector: Vector, how: Combined<'_>) -> Schedule {
    let mut b = Builder::new();
    let result = Range::new(Buffer::Recv, 0, vector.bytes());
    if let Some(whole) = add_own_reduction(&mut b, sides, vector, how) {
        exchange_first(&mut b, sides, whole, result);
    }
    inside(&mut b, sides, how.model(), &Call::Bcast { root: 0, bytes: result.bytes }, None, CHANNELS);
    b.finish()
}

/// Each member reduces a part for its group, exchanges it with the one of its rank, and the parts are gathered inside. For groups of one
/// size, and vectors in as many equal parts.
pub(super) fn allreduce_through_all(sides: Sides, vector: Vector, model: &Model) -> Schedule {
    let mut b = Builder::new();
    let count = vector.count / u64::from(sides.local);
    let bytes = count * vector.element;
    if bytes == 0 {
        return b.finish();
    }
    let counts = vec![count; sides.local as usize];
    let ours = b.operand_scratch(bytes);
    let call = Call::ReduceScatter { counts: &counts, vector, in_place: false };
    inside(&mut b, sides, model, &call, Some(ours), 0);
    let theirs = Range::new(Buffer::Recv, u64::from(sides.rank) * bytes, bytes);
    exchange_with(&mut b, sides, sides.rank, ours, theirs);
    inside(&mut b, sides, model, &Call::Allgather { bytes, in_place: true }, None, CHANNELS);
    b.finish()
}

pub(super) fn reduce_scatter(sides: Sides, counts: &[u64], vector: Vector, how: Combined<'_>) -> Schedule {
    let mut b = Builder::new();
    let mine = Range::new(Buffer::Recv, 0, counts[sides.rank as usize] * vector.element);
    let Some(whole) = add_own_reduction(&mut b, sides, vector, how) else {
        b.count_ranks_from(sides.local_base());
        if mine.bytes > 0 {
            b.recv_on(CHANNELS, 0, mine);
        }
        return b.finish();
    };
    let theirs = b.operand_scratch(vector.bytes());
    exchange_first(&mut b, sides, whole, theirs);
    b.count_ranks_from(sides.local_base());
    let mut offset = mine.bytes;
    for (peer, count) in (0..).zip(counts).skip(1).filter(|&(_, &count)| count > 0) {
        b.send_on(CHANNELS, peer, theirs.part(offset, count * vector.element));
        offset += count * vector.element;
    }
    b.copy(theirs.part(0, mine.bytes), mine);
    b.finish()
}
