//! Algorithms on circulant graphs: any number of ranks in ceil(log2 size) rounds, every byte moved once (Träff,
//! *Optimal, non-pipelined reduce-scatter and allreduce algorithms*, 2024).
//!
//! In each round all ranks talk to the ones the same skip away. The skips are the size, halved again and again, rounded
//! up, down to 1. Blocks that travel together may wrap around the end of the vector; they go as two messages then.

use crate::call::{Group, Vector};
use crate::partition::Partition;
use crate::schedule::{Buffer, Builder, Range};
use crate::tree::Rotation;

/// (skip of the round before, skip), largest first.
pub(crate) fn skips(size: u32) -> impl DoubleEndedIterator<Item = (u32, u32)> {
    let halves = std::iter::successors(Some(size), |&skip| (skip > 1).then(|| skip.div_ceil(2)));
    let all: Vec<u32> = halves.collect();
    let pairs: Vec<_> = all.windows(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.into_iter()
}

/// A vector in one block for each rank.
struct Blocks<F> {
    size: u32,
    whole: Range,
    /// Where a block begins; that of `size` is the end.
    offset: F,
}

impl<F: Fn(u32) -> u64> Blocks<F> {
    /// Blocks `first..first + count`, modulo the size: one or two runs, with the channel each goes by.
    fn runs(&self, first: u32, count: u32, channel: u32) -> impl Iterator<Item = (u32, Range)> {
        let first = first % self.size;
        let before = count.min(self.size - first);
        let run = |from: u32, count: u32| {
            let (start, end) = ((self.offset)(from), (self.offset)(from + count));
            self.whole.part(start, end - start)
        };
        [(2 * channel, run(first, before)), (2 * channel + 1, run(0, count - before))]
            .into_iter()
            .filter(|(_, run)| run.bytes > 0)
    }
}

/// Combines block `rank` of all ranks' vectors at each rank. `blocks.whole` holds the operand and is written all over.
fn add_reduce_scatter<F: Fn(u32) -> u64>(b: &mut Builder, rank: u32, blocks: &Blocks<F>, first_channel: u32) {
    let size = blocks.size;
    let room = (size > 1).then(|| b.operand_scratch(blocks.whole.bytes));
    for ((before, skip), round) in skips(size).zip(first_channel..) {
        for (channel, run) in blocks.runs(rank + skip, before - skip, round) {
            b.send_on(channel, (rank + skip) % size, run);
        }
        let mut used = 0;
        for (channel, run) in blocks.runs(rank, before - skip, round) {
            let received = room.expect("there are rounds").part(used, run.bytes);
            used += run.bytes;
            b.recv_on(channel, (rank + size - skip) % size, received);
            b.reduce(received, run);
        }
    }
}

/// Gives block `rank` of each rank to all.
fn add_allgather<F: Fn(u32) -> u64>(b: &mut Builder, rank: u32, blocks: &Blocks<F>, first_channel: u32) {
    add_allgather_seen_from(b, 0, rank, blocks, first_channel);
}

/// The same among ranks as seen from `root`, which is their 0.
fn add_allgather_seen_from<F: Fn(u32) -> u64>(
    b: &mut Builder,
    root: u32,
    rank: u32,
    blocks: &Blocks<F>,
    first_channel: u32,
) {
    let size = blocks.size;
    let rotation = Rotation { root, size };
    for ((before, skip), round) in skips(size).rev().zip(first_channel..) {
        for (channel, run) in blocks.runs(rank, before - skip, round) {
            b.send_on(channel, rotation.absolute((rank + size - skip) % size), run);
        }
        for (channel, run) in blocks.runs(rank + skip, before - skip, round) {
            b.recv_on(channel, rotation.absolute((rank + skip) % size), run);
        }
    }
}

/// Allgather of blocks of `bytes`, straight into their places.
pub(crate) fn allgather(b: &mut Builder, group: Group, bytes: u64, in_place: bool) {
    let whole = Range::new(Buffer::Recv, 0, bytes * u64::from(group.size));
    if !in_place {
        b.copy(Range::new(Buffer::Send, 0, bytes), whole.part(u64::from(group.rank) * bytes, bytes));
    }
    let blocks = Blocks { size: group.size, whole, offset: |block| u64::from(block) * bytes };
    add_allgather(b, group.rank, &blocks, 0);
}

/// The second half of a broadcast in the receive argument whose `bytes` bytes are scattered in parts, in the order of ranks as seen
/// from `root`; the first half has channels 0 and 1.
pub(crate) fn allgather_parts(b: &mut Builder, group: Group, root: u32, bytes: u64) {
    let Group { rank, size } = group;
    let parts = Partition { count: bytes, element: 1, parts: u64::from(size) };
    let whole = Range::new(Buffer::Recv, 0, bytes);
    let blocks = Blocks { size, whole, offset: |block| parts.offset(block) };
    add_allgather_seen_from(b, root, Rotation { root, size }.relative(rank), &blocks, 1);
}

/// Reduce-scatter for operations that commute.
pub(crate) fn reduce_scatter(b: &mut Builder, group: Group, counts: &[u64], vector: Vector, in_place: bool) {
    let mut offsets = vec![0];
    for count in counts {
        offsets.push(offsets[offsets.len() - 1] + count * vector.element);
    }
    let input = Range::new(if in_place { Buffer::Recv } else { Buffer::Send }, 0, vector.bytes());
    if input.bytes == 0 {
        return;
    }
    // What lies behind the result in the receive argument stays as it is.
    let whole = b.operand_scratch(input.bytes);
    b.copy(input, whole);
    let blocks = Blocks { size: group.size, whole, offset: |block: u32| offsets[block as usize] };
    add_reduce_scatter(b, group.rank, &blocks, 0);
    let (start, mine) = (offsets[group.rank as usize], counts[group.rank as usize] * vector.element);
    b.copy(whole.part(start, mine), Range::new(Buffer::Recv, 0, mine));
}

/// Allreduce for operations that commute. Each block is combined at one rank: all get the same bits.
pub(crate) fn allreduce(b: &mut Builder, group: Group, vector: Vector, in_place: bool) {
    let whole = Range::new(Buffer::Recv, 0, vector.bytes());
    if !in_place {
        b.copy(Range::new(Buffer::Send, 0, vector.bytes()), whole);
    }
    let parts = Partition { count: vector.count, element: vector.element, parts: u64::from(group.size) };
    let blocks = Blocks { size: group.size, whole, offset: |block| parts.offset(block) };
    add_reduce_scatter(b, group.rank, &blocks, 0);
    add_allgather(b, group.rank, &blocks, skips(group.size).count() as u32);
}

/// Reduce-scatter within one group of ranks for the part of an allreduce over two levels, and its way back.
pub(crate) struct Split {
    parts: Partition,
    size: u32,
    whole: Range,
}

impl Split {
    /// `vector`, lying in the receive argument, in one part for each of `size` ranks.
    pub(crate) fn new(vector: Vector, size: u32) -> Split {
        let parts = Partition { count: vector.count, element: vector.element, parts: u64::from(size) };
        Split { parts, size, whole: Range::new(Buffer::Recv, 0, vector.bytes()) }
    }

    /// (offset, bytes) of a rank's part.
    pub(crate) fn part(&self, rank: u32) -> (u64, u64) {
        self.parts.span(rank, rank + 1)
    }

    pub(crate) fn scatter(&self, b: &mut Builder, rank: u32) {
        let blocks = Blocks { size: self.size, whole: self.whole, offset: |block| self.parts.offset(block) };
        add_reduce_scatter(b, rank, &blocks, 0);
    }

    pub(crate) fn gather(&self, b: &mut Builder, rank: u32) {
        let blocks = Blocks { size: self.size, whole: self.whole, offset: |block| self.parts.offset(block) };
        add_allgather(b, rank, &blocks, skips(self.size).count() as u32);
    }
}

/// Reduce to one rank for operations that commute: scattered as parts, which all go to the root.
pub(crate) fn reduce(b: &mut Builder, group: Group, root: u32, vector: Vector, in_place: bool) {
    let is_root = group.rank == root;
    let bytes = vector.bytes();
    if bytes == 0 {
        return;
    }
    let input = Range::new(if is_root && in_place { Buffer::Recv } else { Buffer::Send }, 0, bytes);
    let whole = if is_root { Range::new(Buffer::Recv, 0, bytes) } else { b.operand_scratch(bytes) };
    b.copy(input, whole);
    let parts = Partition { count: vector.count, element: vector.element, parts: u64::from(group.size) };
    let blocks = Blocks { size: group.size, whole, offset: |block| parts.offset(block) };
    add_reduce_scatter(b, group.rank, &blocks, 0);
    let channel = 2 * skips(group.size).count() as u32;
    let part = |rank: u32| {
        let (start, bytes) = parts.span(rank, rank + 1);
        whole.part(start, bytes)
    };
    if !is_root {
        if part(group.rank).bytes > 0 {
            b.send_on(channel, root, part(group.rank));
        }
        return;
    }
    for rank in (0..group.size).filter(|&rank| rank != root && part(rank).bytes > 0) {
        b.recv_on(channel, rank, part(rank));
    }
}
