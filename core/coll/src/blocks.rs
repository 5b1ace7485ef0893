//! Broadcasts, and reductions as their mirror, in blocks on circulant graphs: `blocks` blocks reach any number of ranks in
//! `blocks - 1 + ceil(log2 size)` rounds, and in fewer they cannot (Träff, *Round-optimal n-block broadcast schedules in
//! logarithmic time*, 2023). Each rank sends one block and receives one in a round, always with the same `log2 size` others.
//!
//! The skips of the graph are those of `circulant.rs`. In as many rounds as there are skips, a *phase*, a rank takes a block
//! from each skip back and gives one to each skip ahead; a phase later it does the same with the blocks so many further on.
//! Which they are each rank finds for itself, without a word, in time log2(size)^2.

use crate::call::{Block, Group, Vector};
use crate::circulant::skips;
use crate::gather::block;
use crate::model::Estimate;
use crate::partition::Segments;
use crate::schedule::{Buffer, Builder, CHANNELS, Range};
use crate::tree::Rotation;

/// Blocks that a reduction may have under way to a rank at a time, beside those that go where they will be combined.
const ROOMS: usize = 4;

/// A skip for each round of a phase, ascending, and the size.
fn ascending(size: u32) -> Vec<u32> {
    let mut all: Vec<u32> = skips(size).map(|(_, skip)| skip).collect();
    all.reverse();
    all.push(size);
    all
}

/// The block that a rank takes from the root's side first: the index of the smallest skip of those that lead from the root to
/// it, each taken as large as can be.
fn first_block(rank: u32, skips: &[u32]) -> usize {
    let rounds = skips.len() - 1;
    let mut left = rank;
    for index in (0..rounds).rev() {
        if left == skips[index] {
            return index;
        }
        left -= if left > skips[index] { skips[index] } else { 0 };
    }
    rounds
}

/// The search for what a rank takes in each round of a phase: ranks on whose way from the root no two end with the same skip, the one for a
/// round between this skip and the next back from the rank, by the longest skips first.
struct Search<'s> {
    skips: &'s [u32],
    /// The rank, one time round the graph from the root.
    rank: u64,
    /// A bit for each skip that no found way ends with.
    left: u64,
    /// Where the last way that was found ends.
    last: u64,
    found: Vec<usize>,
}

impl Search<'_> {
    /// Goes on from `place`, by skips up to that of `index`.
    fn go(&mut self, place: u64, index: usize) {
        for index in (0..=index).rev().filter(|index| index + 1 < 64) {
            if self.left & (1 << index) == 0 {
                continue;
            }
            let next = place + u64::from(self.skips[index]);
            if !self.is_behind(next, 0) || next >= self.last {
                continue;
            }
            if self.is_behind(next, 1) {
                self.go(next, index);
            }
            if !self.is_behind(place, 1) {
                return;
            }
            self.last = next;
            self.found.push(index);
            self.left &= !(1 << index);
        }
    }

    /// Whether a place is so far back from the rank as the skip of the round that is looked for, or the one `further` on. Of a round
    /// that is none, none is.
    fn is_behind(&self, place: u64, further: usize) -> bool {
        let round = self.found.len();
        round + 1 < self.skips.len() && place + u64::from(self.skips[round + further]) <= self.rank
    }
}

/// The blocks that a rank takes in the rounds of a phase: one that is new to all around it, and, negative, those of the phase
/// before.
fn taken(rank: u32, skips: &[u32]) -> Vec<i64> {
    let rounds = skips.len() - 1;
    let first = first_block(rank, skips);
    let size = u64::from(skips[rounds]);
    let left = ((1 << (rounds + 1)) - 1) & !(1_u64 << first);
    let mut search = Search {
        skips,
        rank: size + u64::from(rank),
        left,
        last: 2 * size,
        found: Vec::with_capacity(rounds),
    };
    search.go(0, rounds);
    let block = |&index: &usize| if index == rounds { first as i64 } else { index as i64 - rounds as i64 };
    search.found.iter().map(block).collect()
}

/// What a rank, as seen from the root, does in each round.
pub(crate) struct Rounds {
    rank: u32,
    skips: Vec<u32>,
    taken: Vec<i64>,
    given: Vec<i64>,
}

/// (rank, block)
type Part = (u32, u32);

impl Rounds {
    pub(crate) fn new(rank: u32, size: u32) -> Rounds {
        let skips = ascending(size);
        let ahead = |round: usize| (u64::from(rank) + u64::from(skips[round])) % u64::from(size);
        let given = (0..skips.len() - 1).map(|round| taken(ahead(round) as u32, &skips)[round]).collect();
        Rounds { rank, taken: taken(rank, &skips), given, skips }
    }

    /// What it gives, and what it takes, in each round of a broadcast of `blocks`.
    pub(crate) fn of(
        &self,
        blocks: u32,
    ) -> impl DoubleEndedIterator<Item = (Option<Part>, Option<Part>)> + '_ {
        let each = self.taken.len() as u64;
        let size = u64::from(self.skips[self.taken.len()]);
        let last = u64::from(blocks) - 1;
        // The last phase is a whole one.
        let left_out = if each == 0 { 0 } else { (each - last % each) % each };
        let rounds = if each == 0 { 0..0 } else { left_out..left_out + last + each };
        rounds.map(move |round| {
            let (place, shift) = ((round % each) as usize, (round - round % each) as i64 - left_out as i64);
            let block = |block: i64| u32::try_from(block + shift).ok().map(|block| block.min(blocks - 1));
            let (rank, skip) = (u64::from(self.rank), u64::from(self.skips[place]));
            let (ahead, back) = (((rank + skip) % size) as u32, ((rank + size - skip) % size) as u32);
            // The root has all.
            let given = block(self.given[place]).filter(|_| ahead != 0).map(|block| (ahead, block));
            let taken = block(self.taken[place]).filter(|_| self.rank != 0).map(|block| (back, block));
            (given, taken)
        })
    }
}

/// Broadcast in blocks of `segment` bytes.
pub(crate) fn bcast(b: &mut Builder, group: Group, root: u32, bytes: u64, segment: u64) {
    let rotation = Rotation { root, size: group.size };
    let segments = Segments::new(bytes, 1, segment, CHANNELS);
    if bytes == 0 {
        return;
    }
    let parts: Vec<Range> = parts(segments, Range::new(Buffer::Recv, 0, bytes));
    for (given, taken) in Rounds::new(rotation.relative(group.rank), group.size).of(segments.count()) {
        if let Some((from, block)) = taken {
            b.recv_on(block, rotation.absolute(from), parts[block as usize]);
        }
        if let Some((to, block)) = given {
            b.send_on(block, rotation.absolute(to), parts[block as usize]);
        }
    }
}

fn parts(segments: Segments, whole: Range) -> Vec<Range> {
    segments.iter().map(|(_, offset, bytes)| whole.part(offset, bytes)).collect()
}

/// Reduction to one rank in blocks of `segment` bytes, for operations that commute: the rounds of a broadcast from the last to the
/// first. What went to a rank there comes from it, with all that it had before, and is combined.
pub(crate) fn reduce(b: &mut Builder, group: Group, root: u32, vector: Vector, in_place: bool, segment: u64) {
    let bytes = vector.bytes();
    let (is_root, result) = (group.rank == root, Range::new(Buffer::Recv, 0, bytes));
    let own = if is_root && in_place { result } else { Range::new(Buffer::Send, 0, bytes) };
    add_reduce(b, group, root, vector.element, own, is_root.then_some(result), segment);
}

/// Appends such a reduction of every rank's `own`, elements of `element` bytes; at the root into `result`.
pub(crate) fn add_reduce(
    b: &mut Builder,
    group: Group,
    root: u32,
    element: u64,
    own: Range,
    result: Option<Range>,
    segment: u64,
) {
    let bytes = own.bytes;
    if bytes == 0 {
        return;
    }
    let rotation = Rotation { root, size: group.size };
    let segments = Segments::new(bytes, element, segment, CHANNELS);
    let rounds = Rounds::new(rotation.relative(group.rank), group.size);
    let takes = rounds.of(segments.count()).filter(|(given, _)| given.is_some()).count();
    let whole = match (result, takes) {
        (Some(result), _) => result,
        // It combines nothing.
        (None, 0) => own,
        (None, _) => b.operand_scratch(bytes),
    };
    let lies_there = result == Some(own);
    let (own, whole) = (parts(segments, own), parts(segments, whole));
    // Whether what a rank has of a block is combined with what others had.
    let mut is_combined = vec![lies_there; own.len()];
    let mut rooms: Vec<Range> = Vec::new();
    let mut used = 0;
    for (given, taken) in rounds.of(segments.count()).rev() {
        if let Some((from, number)) = given {
            let (from, block) = (rotation.absolute(from), number as usize);
            if is_combined[block] {
                if rooms.len() <= used % ROOMS {
                    rooms.push(b.operand_scratch(segments.length()));
                }
                let room = rooms[used % ROOMS].part(0, own[block].bytes);
                used += 1;
                b.recv_on(number, from, room);
                b.reduce(room, whole[block]);
            } else {
                is_combined[block] = true;
                b.recv_on(number, from, whole[block]);
                b.reduce(own[block], whole[block]);
            }
        }
        if let Some((to, number)) = taken {
            let block = number as usize;
            let mine = if is_combined[block] { whole[block] } else { own[block] };
            b.send_on(number, rotation.absolute(to), mine);
        }
    }
    if result.is_some() && group.size == 1 {
        own.into_iter().zip(whole).for_each(|(own, result)| b.copy(own, result));
    }
}

/// Segments that each of the broadcasts of an allgather may have: those of all have channels of their own, if there are not very many.
fn most(blocks: &[Block]) -> u32 {
    let lengths = blocks.iter().filter(|block| block.bytes > 0).count();
    (CHANNELS / lengths.max(1) as u32).max(1)
}

/// Allgather of blocks of any lengths: a broadcast of each, in blocks of `segment` bytes, all at the same time.
pub(crate) fn allgatherv(b: &mut Builder, group: Group, blocks: &[Block], in_place: bool, segment: u64) {
    let Group { rank, size } = group;
    if !in_place {
        let own = blocks[rank as usize];
        b.copy(Range::new(Buffer::Send, 0, own.bytes), block(Buffer::Recv, own));
    }
    let mut broadcasts = Vec::new();
    let mut channel = 0;
    for (root, place) in (0..size).zip(blocks).filter(|(_, place)| place.bytes > 0) {
        let rotation = Rotation { root, size };
        let parts = parts(Segments::new(place.bytes, 1, segment, most(blocks)), block(Buffer::Recv, *place));
        let rounds: Vec<_> = Rounds::new(rotation.relative(rank), size).of(parts.len() as u32).collect();
        let first = channel;
        channel += parts.len() as u32;
        broadcasts.push((rotation, parts, rounds, first));
    }
    // The order is the same at all ranks, so that nobody waits for somebody who waits for him, even if blocks lie at one place.
    let last = broadcasts.iter().map(|(_, _, rounds, _)| rounds.len()).max().unwrap_or(0);
    for round in 0..last {
        for (rotation, parts, rounds, first) in &broadcasts {
            let Some(&(given, taken)) = rounds.get(round) else { continue };
            if let Some((from, part)) = taken {
                b.recv_on(first + part, rotation.absolute(from), parts[part as usize]);
            }
            if let Some((to, part)) = given {
                b.send_on(first + part, rotation.absolute(to), parts[part as usize]);
            }
        }
    }
}

/// Adds its time: every rank takes all parts of all blocks.
pub(crate) fn allgatherv_estimate(estimate: &mut Estimate<'_>, group: Group, blocks: &[Block], segment: u64) {
    let segments = |bytes: u64| f64::from(Segments::new(bytes, 1, segment, most(blocks)).count());
    let lengths = || blocks.iter().map(|block| block.bytes).filter(|&bytes| bytes > 0);
    let longest = lengths().max().unwrap_or(0);
    let (count, total) =
        lengths().fold((0.0, 0), |(count, total), bytes| (count + segments(bytes), total + bytes));
    let each = skips(group.size).count() as f64;
    // The parts of the longest follow one another as in a broadcast; those of all others meet them and one another anywhere.
    let (own, others) = (segments(longest), count - segments(longest));
    for (_, skip) in skips(group.size) {
        estimate.overlapping((own + each) / each, skip, longest as f64 / own.max(1.0), 0.0);
        estimate.exchange_through_adapter(others / each, skip, (total - longest) as f64 / others.max(1.0));
    }
}

/// Adds the time of `bytes` in blocks of `segment`, each combined where it arrives if `combining`.
pub(crate) fn estimate(estimate: &mut Estimate<'_>, group: Group, bytes: f64, segment: u64, combining: bool) {
    let blocks = (bytes / segment as f64).ceil().clamp(1.0, f64::from(CHANNELS));
    let each = skips(group.size).count() as f64;
    let times = (blocks - 1.0 + each) / each;
    for (_, skip) in skips(group.size) {
        let combined = if combining { bytes / blocks } else { 0.0 };
        estimate.overlapping(times, skip, bytes / blocks, combined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every rank but the root takes every block once, from one that has it, and nobody gives or takes two in a round.
    fn check(size: u32, counts: impl Iterator<Item = u32>) {
        let ranks: Vec<Rounds> = (0..size).map(|rank| Rounds::new(rank, size)).collect();
        let log = u32::BITS - (size - 1).leading_zeros();
        for blocks in counts {
            let all: Vec<Vec<_>> = ranks.iter().map(|rank| rank.of(blocks).collect()).collect();
            let count = if size == 1 { 0 } else { (blocks - 1 + log) as usize };
            assert!(all.iter().all(|rounds| rounds.len() == count), "{size} ranks, {blocks} blocks");
            let mut has = vec![vec![false; blocks as usize]; size as usize];
            has[0].fill(true);
            for round in 0..count {
                let mut sent = 0;
                for (rank, rounds) in (0..size).zip(&all) {
                    if let Some((to, block)) = rounds[round].0 {
                        sent += 1;
                        assert!(
                            has[rank as usize][block as usize],
                            "{size}, {blocks}: {rank} has no {block}"
                        );
                        assert_eq!(all[to as usize][round].1, Some((rank, block)), "{size}, {blocks}: {to}");
                    }
                }
                let mut taken = 0;
                for (rank, rounds) in all.iter().enumerate() {
                    if let Some((_, block)) = rounds[round].1 {
                        taken += 1;
                        let before = std::mem::replace(&mut has[rank][block as usize], true);
                        assert!(!before, "{size} ranks, {blocks} blocks: {rank} takes {block} again");
                    }
                }
                assert_eq!(sent, taken, "every message is awaited by one, and every one comes");
            }
            assert!(has.iter().flatten().all(|&has| has), "{size} ranks, {blocks} blocks");
        }
    }

    #[test]
    fn every_rank_takes_every_block_once_in_as_few_rounds_as_can_be() {
        for size in 1..=300 {
            check(size, 1..=20);
        }
        for size in [511, 512, 513, 1000, 1025, 2047, 3001, 4095, 4096] {
            check(size, [1, 2, 7, 12, 13, 20].into_iter());
        }
        check(17, [100, 333, 2048].into_iter());
    }

    #[test]
    fn numbers_of_ranks_up_to_the_largest_have_schedules() {
        for (rank, size) in [(0, u32::MAX), (u32::MAX - 1, u32::MAX), (1 << 31, u32::MAX), (12_345, 1 << 31)]
        {
            let rounds = Rounds::new(rank, size);
            assert_eq!(
                (rounds.taken.len(), rounds.given.len()),
                (rounds.skips.len() - 1, rounds.taken.len())
            );
        }
    }
}
