//! Where in its ring a member puts its long payloads.
//!
//! They follow one another. A member knows which of its rounds had a place last, and writes there when all others have finished
//! that. What is short among two members stays where both have it at hand; in rounds in which both write they swap places
//! ([`Part::Swapped`]), and what is long goes to and fro ([`Part::Turns`]).
//!
//! Among more than two, contributions and results of calls in two phases have places by their number ([`Parts::paired`]): a line
//! that one member writes for another of a far core, past its cache, and the next time for one of its own core, into it, has to
//! come from where it was read last, and costs several times as much. With places one after the other, of any length, the parts of
//! a contribution shift with every lap; so each byte keeps its readers while a call is repeated.

use super::swaps::Swaps;
use super::{CELLS, exchange};

/// Where payloads begin.
const LINE: usize = 64;
/// Where rings begin.
const PAGE: usize = 4096;
/// Most bytes of a payload: what one round carries of each member.
const MOST: usize = 64 << 10;
/// Among more than two: rounds of attended calls of which the payloads fit a ring. Each round costs a wait for the slowest, or changes of
/// processes, so payloads are longer there, and who writes waits sooner until others have read. At least as many as a member writes
/// ahead of its own reading in one phase.
const ATTENDED: usize = 2;
/// The same of calls in two phases, whose contributions stay until the results made of them are written: pairs of a contribution
/// and a result, which is a member's part of one.
const PAIRS: usize = 2;
/// Places of payloads that only members of the writer's core read.
const PLACES: usize = 2;
/// Bytes of a lap of payloads that go to and fro between two members: as many of the longest as a member writes ahead of its
/// own reading, and no more, so that they stay in the caches. Bare program, exchange of two near members by own rings of 2 MiB
/// / to and fro in pieces of 32 KiB / 64 KiB: 32 KiB 2.9 / 2.6 / 2.6 us, 64 KiB 5.4 / 4.9 / 4.8, 256 KiB 26 / 25 / 23, 1 MiB
/// 105 / 101 / 92; between far ones as fast as past the caches.
const TURNS_LAP: usize = ATTENDED * MOST;
/// Bytes of the smallest ring with such a lap.
const TURNS_FROM: usize = 1 << 20;
/// Bytes of the longest payload that does not go to and fro in long laps.
const MOST_SHORT: usize = 16 << 10;
/// Bytes of the longest payload of crowded or of more than two members that goes in a lap of its own, ...
const NEAR: usize = 14 << 10;
/// ... which stays in the nearest caches.
const NEAR_LAP: usize = NEAR * (CELLS as usize + 1);
/// Bytes of the smallest ring with such a lap.
const NEAR_FROM: usize = 4 * NEAR_LAP;

/// Bytes of the smallest ring with a part for what more than two exchange block by block, which is half of it. Where each has a core of its
/// own that was not measured.
const EXCHANGED_FROM: usize = 512 << 10;

/// Bytes of the longest payload that has a place by cell. Between two members with cores of their own a line that its writer
/// wrote and the other has read since costs more to write again than one that has left both their caches: 4 KiB by cell .66 us,
/// in a long lap .25 to .46, 8 KiB in a lap like [`NEAR_LAP`] 1.1 to 1.4 us and .42 to .8. Up to 1 KiB it is the same between
/// near cores, and between distant ones a place by cell is faster.
const fn at_hand(crowded: bool) -> usize {
    if crowded { 4096 } else { 1024 }
}

/// Bytes from one such place to the next: they do not all begin at one place of the caches.
const fn at_hand_stride(crowded: bool) -> usize {
    at_hand(crowded) + LINE
}

/// Bytes of a member's ring where there is plenty of memory; `crowded`: where ranks share cores.
///
/// Two members have so much that what one wrote has left its own cache for the one that both share when the same lines are
/// written again: a line there costs a third of one that the other has just read. Among more payloads are to be as long as they can be:
/// each round costs a wait for the slowest of them, and where ranks share cores a change of processes.
const fn wanted_ring(members: u32, crowded: bool) -> usize {
    match (members, crowded) {
        (0..=2, _) => 2 << 20,
        (3..=16, true) => 2 << 20,
        (3..=16, false) => 1 << 20,
        (_, true) => 128 << 10,
        (_, false) => 32 << 10,
    }
}

/// Bytes of the smallest ring.
const fn least_ring(members: u32) -> usize {
    if members <= 16 { 64 << 10 } else { 32 << 10 }
}

/// Bytes of the rings of all members: what they would like to have, and what they need.
pub(super) const fn all_rings(members: u32, crowded: bool) -> (u64, u64) {
    let (wanted, least) = (wanted_ring(members, crowded), least_ring(members));
    (members as u64 * wanted as u64, members as u64 * least as u64)
}

/// Whether payloads of so many bytes at most gain nothing from a ring that is larger than they need.
pub(super) const fn stay_at_hand(payload: u64, crowded: bool) -> bool {
    payload <= at_hand(crowded) as u64
}

/// Bytes of the longest payload of calls that nobody may attend to in rings of the wanted size; `crowded`: where ranks share
/// cores. Which calls need long payloads follows from this (not crowded) and not from the ring that the members have, so that
/// it is the same at all of them whatever became of it.
pub const fn wanted_slot_bytes(members: u32, crowded: bool) -> usize {
    Parts::of(members, wanted_ring(members, crowded), crowded).slot_bytes()
}

/// Bytes of the longest payloads of attended calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longest {
    /// In one phase.
    pub attended: usize,
    /// Contributions in two phases.
    pub in_two_phases: usize,
    /// For members of the own core.
    pub near: usize,
    /// A block that more than two exchange; 0: there are none.
    pub block: usize,
    /// The same where one member of each core gives one to one of each other core.
    pub block_of_cores: usize,
}

/// Those in rings of the wanted size, of members on so many `cores` (0: not bound); `crowded`: where ranks share cores.
pub fn wanted_longest(members: u32, cores: u32, crowded: bool) -> Longest {
    let parts = Parts::of(members, wanted_ring(members, crowded), crowded);
    let place = exchange::place_bytes(parts.exchanged);
    Longest {
        attended: parts.attended(),
        in_two_phases: parts.in_two_phases(),
        near: parts.near_bytes(),
        block: exchange::block_bytes(place, parts.members),
        block_of_cores: exchange::block_bytes(place, cores as usize),
    }
}

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Any.
    Single,
    /// All write in its round, wait for all, and attend to it, as members know alike.
    Exchanged,
    /// This member alone writes in its round, reads nothing in it, and attends to it.
    Alone,
    /// As [`Sort::Exchanged`], in the own ring all the same: the other member is far, where writing past the caches is faster than swapping places, or
    /// this payload is to tell how far.
    Kept,
    /// Of a call that all attend to, for members of the writer's core only. The longest of the call has so many bytes. There are two places of that
    /// length, used by turns, so that what is there stays in the core's caches.
    Near {
        /// Bytes of the longest payload of the call.
        longest: usize,
    },
    /// Of a call in two phases that all attend to. There is one of each sort for every piece, in the order of pieces.
    Paired {
        /// Bytes of the longest contribution of the call.
        contribution: usize,
        /// Bytes of the longest result.
        result: usize,
        /// Whether it is a result.
        is_result: bool,
    },
}

/// A part of a ring. One that is not there is empty, and what would go there goes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Of any length.
    Any,
    /// Of two members in rounds in which both write. When the part is full, each goes on at the beginning of the same part of
    /// the other's ring: it writes where the other has written and it has read. A line that its last writer writes again, while
    /// the other one's cache has it, costs several times as much. Both count alike, as their rounds are, so that what one
    /// writes into a ring the other writes into the other ring, at the same place.
    Turns,
    /// Up to [`NEAR`].
    Near,
    /// Up to [`at_hand`], each with a place by cell.
    AtHand,
    /// Of two members in rounds in which both write, up to [`Parts::swapped`]: [`Swaps`].
    Swapped,
    /// Of who alone writes, up to the same, where it has a place to hand over.
    Handed,
}

/// How a ring is divided, in the order of [`Part`].
#[derive(Clone, Copy, Debug)]
struct Parts {
    /// Bytes of all.
    ring: usize,
    any: usize,
    turns: usize,
    near: usize,
    at_hand: usize,
    /// Bytes of the longest payload that is swapped; 0: there is no such part.
    swapped: usize,
    /// Bytes of what more than two exchange block by block ([`exchange`]).
    exchanged: usize,
    crowded: bool,
    members: usize,
    /// Whether payloads of attended calls may be so long that fewer than those of [`CELLS`] rounds fit.
    long: bool,
}

impl Parts {
    /// Members that share cores find in their caches what they wrote there not long ago; two members, when it is short.
    const fn of(members: u32, ring: usize, crowded: bool) -> Parts {
        let at_hand = CELLS as usize * at_hand_stride(crowded);
        let at_hand = if (members <= 2 || crowded) && ring >= 8 * at_hand { at_hand } else { 0 };
        let near = if (crowded || members > 2) && ring >= NEAR_FROM { NEAR_LAP } else { 0 };
        let turns = if members == 2 && !crowded && ring >= TURNS_FROM { TURNS_LAP } else { 0 };
        let swapped = if members == 2 && !crowded { Swaps::most(ring) } else { 0 };
        let swaps = if swapped != 0 { Swaps::bytes(swapped) } else { 0 };
        let exchanged = match ring {
            EXCHANGED_FROM.. if members > 2 && members <= exchange::MOST_WRITERS && crowded => {
                exchange::part_bytes(ring / 4).next_multiple_of(PAGE)
            }
            _ => 0,
        };
        let any = ring - turns - near - at_hand - swaps - exchanged;
        let long = members > 2;
        Parts {
            ring,
            any,
            turns,
            near,
            at_hand,
            swapped,
            exchanged,
            crowded,
            members: members as usize,
            long,
        }
    }

    /// Where a payload goes that does not go where two members swap places or hand them over.
    #[inline]
    const fn part(self, len: usize, sort: Sort) -> Part {
        if len <= at_hand(self.crowded) && self.at_hand != 0 {
            Part::AtHand
        } else if len <= NEAR && self.near != 0 {
            Part::Near
        } else if matches!(sort, Sort::Exchanged) && len > MOST_SHORT && self.turns != 0 {
            Part::Turns
        } else {
            Part::Any
        }
    }

    /// Where a part begins, and its bytes.
    #[inline]
    const fn span(self, part: Part) -> (usize, usize) {
        match part {
            Part::Any => (0, self.any),
            Part::Turns => (self.any, self.turns),
            Part::Near => (self.any + self.turns, self.near),
            Part::AtHand => (self.any + self.turns + self.near, self.at_hand),
            Part::Swapped | Part::Handed => (self.any + self.turns + self.near + self.at_hand, self.swaps()),
        }
    }

    /// Bytes of the longest payload of which those of so many rounds and what is left over at the end of a lap, less than one
    /// more, fit a lap.
    const fn longest(self, rounds: usize) -> usize {
        self.any / (rounds + 1) / LINE * LINE
    }

    /// Bytes of the longest payload of a call that nobody may attend to: those of [`CELLS`] rounds fit.
    const fn slot_bytes(self) -> usize {
        let most = self.longest(CELLS as usize);
        if most < MOST { most } else { MOST }
    }

    /// The same of attended calls.
    const fn attended(self) -> usize {
        if self.long { self.longest(ATTENDED) } else { self.slot_bytes() }
    }

    /// The same of the contributions of attended calls in two phases.
    const fn in_two_phases(self) -> usize {
        if !self.long {
            return self.slot_bytes();
        }
        // A result may be longer than an equal part by an element and what is left of its last line, less than a page.
        self.any.saturating_sub(PAIRS * PAGE) * self.members / (PAIRS * (self.members + 1)) / LINE * LINE
    }

    /// Bytes of the longest payload for members of the own core, of which two fit.
    const fn near_bytes(self) -> usize {
        if self.long { self.any / PLACES / LINE * LINE } else { 0 }
    }

    /// Where in [`Part::Any`] the payload of that number for members of the own core lies.
    #[inline]
    const fn at_hand_of_core(self, number: usize, longest: usize) -> Option<usize> {
        if longest <= self.near_bytes() {
            Some(number % PLACES * longest.next_multiple_of(LINE))
        } else {
            None
        }
    }

    /// Where in [`Part::Any`] a payload of the pair of that number lies, if it has a place there for its sort.
    #[inline]
    const fn paired(self, number: usize, sort: Sort) -> Option<usize> {
        let Sort::Paired { contribution, result, is_result } = sort else { return None };
        let (contribution, result) = (contribution.next_multiple_of(LINE), result.next_multiple_of(LINE));
        if !self.long || contribution + result > self.any {
            return None;
        }
        let at = number % (self.any / (contribution + result)) * (contribution + result);
        Some(if is_result { at + contribution } else { at })
    }

    /// Bytes of the places that are swapped.
    const fn swaps(self) -> usize {
        if self.swapped == 0 { 0 } else { Swaps::bytes(self.swapped) }
    }
}

/// Whose ring a payload lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The writer's own.
    Own,
    /// It goes to and fro between two members in long laps.
    ToAndFro,
    /// Two members swap its place or hand it over; each may keep to its own ring ([`Sort::Kept`]).
    Swapped,
}

/// Where the payloads of one member go.
///
/// In each part of the ring they follow one another. Where they may be too long for those of [`CELLS`] rounds to fit,
/// [`Laps::displaces`] says which round must be finished first, whosever payload lay there: where they go to and fro, the
/// other's lies in the other ring at the same place.
#[derive(Debug)]
pub(super) struct Laps {
    parts: Parts,
    /// By part: where the next one begins, if it fits there.
    next: [usize; 3],
    /// The same: how far this member has written at any time.
    reached: [usize; 3],
    /// What goes to and fro goes into the other's ring.
    turned: bool,
    swaps: Swaps,
    /// The last ones of any length or to and fro: round, begin and end.
    last: [(u64, usize, usize); CELLS as usize],
    /// How many there were.
    placed: usize,
    /// Contributions and results of calls in two phases that there were.
    paired: [usize; 2],
    /// Payloads for members of the own core.
    kept_near: usize,
    /// [`Parts::slot_bytes`].
    slot: usize,
    /// Bytes of the longest payload of any call.
    most: usize,
    /// Where in the first ring of all the place lies that is handed over; in none, where there is none.
    handed: usize,
    /// As many are to be placed until the last [`CELLS`] of them have at most `slot` bytes again.
    long_until: usize,
}

impl Laps {
    /// The rings of `bytes` bytes for all members.
    pub(super) fn new(members: u32, bytes: u64, crowded: bool) -> Laps {
        let ring = (bytes / u64::from(members.max(1))) as usize / PAGE * PAGE;
        let parts = Parts::of(members, ring, crowded);
        Laps {
            parts,
            next: [0; 3],
            reached: [0; 3],
            turned: false,
            swaps: Swaps::new(0),
            last: [(0, 0, 0); CELLS as usize],
            placed: 0,
            paired: [0; 2],
            kept_near: 0,
            slot: parts.slot_bytes(),
            most: parts.attended().max(parts.in_two_phases()).max(parts.near_bytes()),
            handed: match parts.swapped {
                0 => usize::MAX / 2,
                most => parts.span(Part::Handed).0 + Swaps::handed(most),
            },
            long_until: 0,
        }
    }

    /// The same as this member sees them.
    pub(super) fn seen_by(self, me: u32) -> Laps {
        Laps { swaps: Swaps::new(me), ..self }
    }

    /// Bytes of the ring.
    #[inline]
    pub(super) fn ring(&self) -> usize {
        self.parts.ring
    }

    /// Bytes of the longest payload of a call that nobody may attend to.
    #[inline]
    pub(super) fn slot_bytes(&self) -> usize {
        self.slot
    }

    /// The same of an attended call.
    #[inline]
    pub(super) fn attended(&self) -> usize {
        self.parts.attended()
    }

    /// The same of the contributions of an attended call in two phases.
    #[inline]
    pub(super) fn in_two_phases(&self) -> usize {
        self.parts.in_two_phases()
    }

    /// Bytes of the longest payload for members of the own core.
    #[inline]
    pub(super) fn near_bytes(&self) -> usize {
        self.parts.near_bytes()
    }

    /// Where the places of blocks that more than two exchange begin in a ring, and the bytes of one; 0: there are none.
    #[inline]
    pub(super) fn exchanged(&self) -> (usize, usize) {
        let Parts { ring, exchanged, .. } = self.parts;
        (ring - exchanged, exchange::place_bytes(exchanged))
    }

    /// Bytes of the longest payload.
    #[inline]
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// What a payload is to the one who writes it.
    #[inline]
    pub(super) fn home(&self, len: usize, sort: Sort) -> Home {
        match self.part(len, sort) {
            Part::Turns => Home::ToAndFro,
            Part::Swapped | Part::Handed => Home::Swapped,
            _ => Home::Own,
        }
    }

    /// Whether this member has written before where a payload that goes into its own ring would go now: what nobody has touched yet takes its time
    /// from the kernel.
    #[inline]
    pub(super) fn is_worn(&self, len: usize, sort: Sort) -> bool {
        let part = self.part(len, sort);
        let at = self.in_pair(part, sort).unwrap_or_else(|| match part {
            Part::Any | Part::Near => self.at(part, len),
            _ => 0,
        });
        self.reached.get(part as usize).is_none_or(|&reached| at + len <= reached)
    }

    /// What begins there in the rings of all is read by this member, another one wrote it.
    #[inline]
    pub(super) fn take_over(&self, at: usize) {
        if at == self.handed || at == self.handed + self.parts.ring {
            self.swaps.take_over(usize::from(at != self.handed));
        }
    }

    /// Where a payload goes.
    #[inline]
    fn part(&self, len: usize, sort: Sort) -> Part {
        match sort {
            Sort::Exchanged if len <= self.parts.swapped => Part::Swapped,
            Sort::Alone if len <= self.parts.swapped && self.swaps.has_one() => Part::Handed,
            _ => self.parts.part(len, sort),
        }
    }

    /// Where the payload of a round of member `me` begins in the rings of all; `len`: its bytes, at most [`Laps::most`]. Once for a round.
    #[inline]
    pub(super) fn place(&mut self, me: u32, round: u64, len: usize, sort: Sort) -> usize {
        let part = self.part(len, sort);
        if part == Part::Handed {
            return self.swaps.hand_over() * self.parts.ring + self.handed;
        }
        let (at, turned) = self.place_in_ring(part, round, len, sort);
        // Only among two.
        let ring = if turned { 1 - me } else { me };
        ring as usize * self.parts.ring + at
    }

    /// The same of what is not handed over: where in its ring, and whether that is the ring of the other of two members.
    #[inline]
    fn place_in_ring(&mut self, part: Part, round: u64, len: usize, sort: Sort) -> (usize, bool) {
        let (begin, _) = self.parts.span(part);
        if part == Part::Swapped {
            let (at, turned) = self.swaps.place(round, self.parts.swapped);
            return (begin + at, turned);
        }
        if sort == Sort::Kept && len <= self.parts.swapped {
            // Both count alike, and the place stays free.
            self.swaps.place(round, self.parts.swapped);
        }
        if matches!(sort, Sort::Paired { .. } | Sort::Near { .. }) {
            let at = self.in_pair(part, sort);
            let number = match sort {
                Sort::Paired { is_result, .. } => &mut self.paired[usize::from(is_result)],
                _ => &mut self.kept_near,
            };
            *number = number.wrapping_add(1);
            if let Some(at) = at {
                self.reach(part, at + len);
                self.remember(round, at, len);
                // It may lie where one of the last does.
                self.long_until = self.placed + CELLS as usize;
                return (at, false);
            }
        }
        if part == Part::AtHand {
            return (begin + (round % CELLS) as usize * at_hand_stride(self.parts.crowded), false);
        }
        let at = self.at(part, len);
        if part == Part::Turns && at < self.next[part as usize] {
            self.turned = !self.turned;
        }
        self.next[part as usize] = (at + len).next_multiple_of(LINE);
        self.reach(part, at + len);
        if part == Part::Near {
            return (begin + at, false);
        }
        self.remember(round, begin + at, len);
        if len > self.slot {
            self.long_until = self.placed + CELLS as usize;
        }
        (begin + at, part == Part::Turns && self.turned)
    }

    #[inline]
    fn reach(&mut self, part: Part, end: usize) {
        let reached = &mut self.reached[part as usize];
        *reached = end.max(*reached);
    }

    /// The last round whose payload lies where one of `len` bytes would be placed now, if that is one of the last [`CELLS`].
    #[inline]
    pub(super) fn displaces(&self, len: usize, sort: Sort) -> Option<u64> {
        let part = self.part(len, sort);
        if let Some(at) = self.in_pair(part, sort) {
            return self.last_at(at, len);
        }
        match part {
            // What is handed over this member has read.
            Part::AtHand | Part::Near | Part::Handed => None,
            Part::Swapped => self.swaps.displaces(),
            // No longer than those of which the last rounds' fit, and so are those before it.
            Part::Any if len <= self.slot && self.placed >= self.long_until => None,
            part => self.displaces_of(part, len),
        }
    }

    #[cold]
    fn displaces_of(&self, part: Part, len: usize) -> Option<u64> {
        self.last_at(self.parts.span(part).0 + self.at(part, len), len)
    }

    /// The last round, of those known, of which the payload lies in the `len` bytes from `at` on.
    fn last_at(&self, at: usize, len: usize) -> Option<u64> {
        let known = &self.last[..self.placed.min(CELLS as usize)];
        let met = known.iter().filter(|&&(_, begin, end)| begin < at + len && at < end);
        met.map(|&(round, ..)| round).max()
    }

    #[inline]
    fn remember(&mut self, round: u64, at: usize, len: usize) {
        self.last[self.placed % CELLS as usize] = (round, at, at + len);
        self.placed += 1;
    }

    /// Where the next payload of its sort lies, if its number decides that.
    #[inline]
    fn in_pair(&self, part: Part, sort: Sort) -> Option<usize> {
        let at = match sort {
            Sort::Paired { is_result, .. } => self.parts.paired(self.paired[usize::from(is_result)], sort),
            Sort::Near { longest } => self.parts.at_hand_of_core(self.kept_near, longest),
            _ => None,
        };
        at.filter(|_| part == Part::Any)
    }

    /// Where the next payload of `len` bytes begins in its part.
    #[inline]
    fn at(&self, part: Part, len: usize) -> usize {
        let (next, (_, lap)) = (self.next[part as usize], self.parts.span(part));
        if next + len <= lap { next } else { 0 }
    }
}

#[cfg(test)]
mod tests;
