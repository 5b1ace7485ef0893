//! Algorithms for powers of two at any number of ranks: some ranks are stood for by their neighbours; and the running value of a
//! rank in such a reduction.

use crate::schedule::{Buffer, Builder, Range};

/// The ranks that take part in the power-of-two phases. Of each two of the first `2 * surplus` ranks the odd one also stands
/// for the even one before it, unless that one is to take part itself; the numbers of those that take part ascend with their
/// ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    size: u32,
    /// Number of ranks that take part.
    pub(crate) power: u32,
    surplus: u32,
    /// Takes part in any case.
    kept: u32,
}

impl Fold {
    pub(crate) fn new(size: u32) -> Fold {
        Fold::keeping(size, size - 1)
    }

    /// Such that `kept` takes part.
    pub(crate) fn keeping(size: u32, kept: u32) -> Fold {
        debug_assert!(kept < size);
        let power = 1 << size.ilog2();
        Fold { size, power, surplus: size - power, kept }
    }

    /// This rank's number; `None` when its neighbour stands for it.
    pub(crate) fn number(self, rank: u32) -> Option<u32> {
        debug_assert!(rank < self.size);
        match rank < 2 * self.surplus {
            true => (self.rank(rank / 2) == rank).then_some(rank / 2),
            false => Some(rank - self.surplus),
        }
    }

    /// The rank with a number.
    pub(crate) fn rank(self, number: u32) -> u32 {
        match number < self.surplus {
            true => 2 * number + u32::from(self.kept != 2 * number),
            false => number + self.surplus,
        }
    }

    /// The rank that `rank`, which takes part, stands for beside itself.
    pub(crate) fn stands_for(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.surplus).then_some(rank ^ 1)
    }

    /// The first rank that a number stands for; of `power` it is the size.
    pub(crate) fn first(self, number: u32) -> u32 {
        number + number.min(self.surplus)
    }
}

/// The running value of one rank and the memory it may move between.
pub(crate) struct Operand<'a> {
    pub(crate) b: &'a mut Builder,
    pub(crate) value: Range,
    /// The argument that the value lies in at first, if it may not be written.
    read_only: Option<Buffer>,
    result: Range,
    scratch: Option<Range>,
}

impl<'a> Operand<'a> {
    /// A value that moves between `result` and scratch, and lies in `own` at first: in an argument that is only read, or in the
    /// result's place.
    pub(crate) fn new(b: &'a mut Builder, own: Range, result: Range) -> Operand<'a> {
        let read_only = (own.buffer != result.buffer).then_some(own.buffer);
        Operand { b, value: own, read_only, result, scratch: None }
    }

    /// Where the whole value ends up.
    pub(crate) fn result(&self) -> Range {
        self.result
    }

    /// A writable range like `value` elsewhere than where it lies.
    pub(crate) fn free(&mut self) -> Range {
        let like = self.value;
        let at = |range: Range| Range { start: like.start, bytes: like.bytes, ..range };
        if self.value.buffer != self.result.buffer {
            return at(self.result);
        }
        at(*self.scratch.get_or_insert_with(|| self.b.operand_scratch(self.result.bytes)))
    }

    /// `value = received op value`: what comes from lower ranks.
    pub(crate) fn combine_lower(&mut self, from: u32, channel: u32) {
        if self.read_only == Some(self.value.buffer) {
            let into = self.free();
            self.b.copy(self.value, into);
            self.value = into;
        }
        let received = self.free();
        self.b.recv_on(channel, from, received);
        self.b.reduce(received, self.value);
    }

    /// `value = value op received`: what comes from higher ranks.
    pub(crate) fn combine_higher(&mut self, from: u32, channel: u32) {
        let received = self.free();
        self.b.recv_on(channel, from, received);
        self.b.reduce(self.value, received);
        self.value = received;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_takes_part_or_has_its_neighbour_stand_for_it_and_the_kept_one_takes_part() {
        for size in 1..70 {
            for kept in 0..size {
                let fold = Fold::keeping(size, kept);
                let numbers: Vec<u32> = (0..size).filter_map(|rank| fold.number(rank)).collect();
                assert_eq!(numbers, (0..fold.power).collect::<Vec<_>>());
                assert!(fold.number(kept).is_some());
                for number in 0..fold.power {
                    let rank = fold.rank(number);
                    assert_eq!(fold.number(rank), Some(number));
                    let mut both: Vec<u32> = fold.stands_for(rank).into_iter().chain([rank]).collect();
                    both.sort_unstable();
                    assert_eq!(both, (fold.first(number)..fold.first(number + 1)).collect::<Vec<_>>());
                }
            }
        }
    }
}
