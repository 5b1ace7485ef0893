//! How a member combines what all have written, in the order of ranks.

use super::{AT_A_TIME, Script};
use crate::rounds::{Operands, Payloads, Target, Term};

/// Bytes of all the others' terms that a member fetches ahead of combining them: they fit into the nearest cache beside those that it combines.
const FETCHED: usize = 16 << 10;
/// Fewest of them that are: fewer are under way at the same time anyhow.
const FETCHED_FROM: usize = 2048;

/// Whether a member that combines so many bytes of each fetches the others' terms first. All begin to combine with those of the last
/// one, whose cache would have to answer all of them, and then all go on to the next; so they fetch [in turn](super::others_in_turn). Where they share
/// cores (`crowded`) they do not come at the same time, and it takes longer (64 KiB of four 13.9 and 17.0 us).
#[inline]
pub fn is_fetched(members: u32, bytes: usize, crowded: bool) -> bool {
    members > 2 && !crowded && bytes * (members as usize - 1) >= FETCHED_FROM
}

impl Script {
    /// Combines the terms of all members, each of so many bytes from there on, in the order of ranks.
    #[inline(always)]
    pub(super) fn fold<'a>(
        &self,
        operands: &mut impl Operands,
        from: &dyn Payloads,
        term: impl Fn(u32, usize, usize) -> Term<'a>,
        into: Target<'_>,
    ) {
        let len = into.bytes();
        match is_fetched(self.group.size, len, self.crowded) {
            false => self.combine_all(operands, |member| term(member, 0, len), into),
            true => self.fold_fetched(operands, from, term, into),
        }
    }

    /// The same, which fetches the terms a piece ahead: see [`is_fetched`].
    #[inline(never)]
    fn fold_fetched<'a>(
        &self,
        operands: &mut impl Operands,
        from: &dyn Payloads,
        term: impl Fn(u32, usize, usize) -> Term<'a>,
        mut into: Target<'_>,
    ) {
        let (others, len, element) = (self.group.size as usize - 1, into.bytes(), self.element as usize);
        let fetch = |at: usize, count: usize| {
            for member in self.others_in_turn() {
                if let Term::Written(bytes) = term(member, at, count) {
                    from.fetch(bytes);
                }
            }
        };
        let at_a_time = (FETCHED / others / element * element).max(element);
        fetch(0, at_a_time.min(len));
        for at in (0..len).step_by(at_a_time) {
            let count = at_a_time.min(len - at);
            let next = at + count;
            if next < len {
                fetch(next, at_a_time.min(len - next));
            }
            self.combine_all(operands, |member| term(member, at, count), into.part(at, count));
        }
    }

    /// Combines one term of each member, from the right.
    pub(super) fn combine_all<'a>(
        &self,
        operands: &mut impl Operands,
        term: impl Fn(u32) -> Term<'a>,
        mut into: Target<'_>,
    ) {
        let last = self.group.size - 1;
        operands.combine_two(term(last - 1), term(last), into.again());
        for member in (0..last - 1).rev() {
            operands.combine(term(member), into.again());
        }
    }

    /// The same of `len` bytes of a result that begins at `begin`, of which a [`Term`] may lie there: not straight into the result.
    #[inline(never)]
    pub(super) fn fold_aside<'a>(
        &self,
        operands: &mut impl Operands,
        from: &dyn Payloads,
        term: impl Fn(u32, usize, usize) -> Term<'a>,
        begin: u64,
        len: usize,
    ) {
        let mut result = [0; AT_A_TIME];
        for at in (0..len).step_by(AT_A_TIME) {
            let result = &mut result[..AT_A_TIME.min(len - at)];
            self.fold(
                operands,
                from,
                |member, done, count| term(member, at + done, count),
                Target::Payload(result),
            );
            operands.give(begin + at as u64, result);
        }
    }
}
