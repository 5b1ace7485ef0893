//! Reductions on a ring, for operations that commute: a block for each rank goes round once and takes in what every rank has
//! for it; and, for all to have them, round once more. Every rank talks to its two neighbours only, `size - 1` rounds long, and
//! sends no byte twice (Patarasuk, Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, 2009).
//!
//! In segments, a part of a block is combined while the next is under way.

use crate::call::{Group, Vector};
use crate::partition::{Partition, Segments};
use crate::schedule::{Buffer, Builder, CHANNELS, Range};

/// A vector in one block for each rank, and how blocks travel.
struct Ring<F> {
    group: Group,
    element: u64,
    /// Bytes of a segment.
    segment: u64,
    /// Segments a block may have: as many as have channels of their own in all rounds.
    most: u32,
    /// Where a block begins; that of the size is the end.
    offset: F,
}

impl<F: Fn(u32) -> u64> Ring<F> {
    /// Blocks that go round in `rounds` rounds.
    fn new(group: Group, element: u64, segment: u64, rounds: u32, offset: F) -> Ring<F> {
        let most = if segment == u64::MAX { 1 } else { (CHANNELS / rounds.max(1)).max(1) };
        Ring { group, element, segment, most, offset }
    }

    /// A block of `whole`.
    fn block(&self, whole: Range, block: u32) -> Range {
        let (start, end) = ((self.offset)(block), (self.offset)(block + 1));
        whole.part(start, end - start)
    }

    /// Segments of a range with the channels they take in a round.
    fn segments(&self, round: u32, range: Range) -> impl Iterator<Item = (u32, Range)> + use<F> {
        let most = self.most;
        Segments::new(range.bytes, self.element, self.segment, most)
            .iter()
            .map(move |(index, offset, bytes)| (round * most + index, range.part(offset, bytes)))
    }

    fn give(&self, b: &mut Builder, round: u32, range: Range) {
        let Group { rank, size } = self.group;
        for (channel, part) in self.segments(round, range) {
            b.send_on(channel, (rank + 1) % size, part);
        }
    }

    fn take(&self, b: &mut Builder, round: u32, range: Range, mut taken: impl FnMut(&mut Builder, Range)) {
        let Group { rank, size } = self.group;
        for (channel, part) in self.segments(round, range) {
            b.recv_on(channel, (rank + size - 1) % size, part);
            taken(b, part);
        }
    }

    /// The blocks that a rank gives and takes in a round of the reduction: its own comes last.
    fn travelling(&self, round: u32) -> (u32, u32) {
        let Group { rank, size } = self.group;
        ((rank + (size - 1 - round)) % size, (rank + (size - 2 - round)) % size)
    }
}

/// Reduce-scatter, in segments of `segment` bytes.
pub(crate) fn reduce_scatter(
    b: &mut Builder,
    group: Group,
    counts: &[u64],
    vector: Vector,
    in_place: bool,
    segment: u64,
) {
    let Group { rank, size } = group;
    let mut offsets = vec![0];
    for (count, end) in counts.iter().zip(0..) {
        offsets.push(offsets[end] + count * vector.element);
    }
    let input = Range::new(if in_place { Buffer::Recv } else { Buffer::Send }, 0, vector.bytes());
    let rounds = size - 1;
    let ring = Ring::new(group, vector.element, segment, rounds, |block: u32| offsets[block as usize]);
    let mine = ring.block(input, rank);
    let result = Range::new(Buffer::Recv, 0, mine.bytes);
    // What one round has combined is sent while the next one's comes.
    let largest = counts.iter().max().map_or(0, |count| count * vector.element);
    let rooms: Vec<Range> = (0..rounds.min(2)).map(|_| b.operand_scratch(largest)).collect();
    let mut combined = mine;
    for round in 0..rounds {
        let (given, taken) = ring.travelling(round);
        ring.give(b, round, if round == 0 { ring.block(input, given) } else { combined });
        let own = ring.block(input, taken);
        // In place the result's place holds operands.
        let into = match round + 1 == rounds && !in_place {
            true => result,
            false => rooms[round as usize % 2].part(0, own.bytes),
        };
        ring.take(b, round, into, |b, part| {
            b.reduce(own.part(part.start - into.start, part.bytes), part);
        });
        combined = into;
    }
    b.copy(combined, result);
}

/// Allreduce, in segments of `segment` bytes. Each block is combined along one path: all ranks get the same bits.
pub(crate) fn allreduce(b: &mut Builder, group: Group, vector: Vector, in_place: bool, segment: u64) {
    let Group { rank, size } = group;
    let own = Range::new(if in_place { Buffer::Recv } else { Buffer::Send }, 0, vector.bytes());
    let whole = Range::new(Buffer::Recv, 0, own.bytes);
    if own.bytes == 0 {
        return;
    }
    let parts = Partition { count: vector.count, element: vector.element, parts: u64::from(size) };
    let rounds = size - 1;
    let ring = Ring::new(group, vector.element, segment, 2 * rounds, |block| parts.offset(block));
    let rooms: Vec<Range> = (0..if in_place { rounds.min(2) } else { 0 })
        .map(|_| b.operand_scratch(parts.span(0, 1).1))
        .collect();
    for round in 0..rounds {
        let (given, taken) = ring.travelling(round);
        ring.give(b, round, ring.block(if round == 0 { own } else { whole }, given));
        let (mine, combined) = (ring.block(own, taken), ring.block(whole, taken));
        match rooms.get(round as usize % 2) {
            None => ring.take(b, round, combined, |b, part| {
                b.reduce(mine.part(part.start - combined.start, part.bytes), part);
            }),
            Some(room) => {
                let room = room.part(0, combined.bytes);
                ring.take(b, round, room, |b, part| {
                    b.reduce(part, combined.part(part.start - room.start, part.bytes));
                });
            }
        }
    }
    for round in 0..rounds {
        let (given, taken) = ((rank + (size - round)) % size, (rank + (size - 1 - round)) % size);
        ring.give(b, rounds + round, ring.block(whole, given));
        ring.take(b, rounds + round, ring.block(whole, taken), |_, _| {});
    }
    if size == 1 {
        b.copy(own, whole);
    }
}
