//! Where in its ring a member puts its long payloads.
//!
//! They follow one another. What is short among two members stays where both have it at hand.

use super::CELLS;

/// Where payloads begin.
const LINE: usize = 64;
/// Where rings begin.
const PAGE: usize = 4096;
/// Most bytes of a payload: what one round carries of each member.
const MOST: usize = 64 << 10;
/// Where ranks share cores: rounds of attended calls of which the payloads fit a ring. Each round costs changes of processes, so payloads are longer there,
/// and who writes waits sooner until others have read. At least as many as a member writes ahead of its own reading in one phase.
const ATTENDED: usize = 2;
/// Bytes of the lap for attended calls in which both of two members write: both rings stay in the nearest cache of each, with the program's
/// memory of a call that is not too long.
const BOTH_LAP: usize = 32 * 1024 * (ATTENDED + 2);
/// Bytes of the smallest ring with such a lap.
const BOTH_FROM: usize = 1 << 20;
/// Bytes of the longest payload of crowded members that goes in a lap of its own, ...
const NEAR: usize = 14 << 10;
/// ... which stays in the nearest caches.
const NEAR_LAP: usize = NEAR * (CELLS as usize + 1);
/// Bytes of the smallest ring with such a lap.
const NEAR_FROM: usize = 4 * NEAR_LAP;

/// Bytes of the longest payload that has a place by cell. Between two members with cores of their own a line that its writer wrote and the other has
/// read since costs more to write again than one that has left both their caches: 4 KiB by cell .66 us, in a long lap .25 to .46, 8 KiB in a lap
/// like [`NEAR_LAP`] 1.1 to 1.4 us and .42 to .8. Up to 1 KiB it is the same between near cores, and between distant ones a place by cell is faster.
const fn at_hand(crowded: bool) -> usize {
    if crowded { 4096 } else { 1024 }
}

/// Bytes from one such place to the next: they do not all begin at one place of the caches.
const fn at_hand_stride(crowded: bool) -> usize {
    at_hand(crowded) + LINE
}

/// Bytes of a member's ring where there is plenty of memory; `crowded`: where ranks share cores.
///
/// Two members have so much that what one wrote has left its own cache for the one that both share when it writes the same lines again, as it
/// does when one alone writes: a line there costs a third of one that the other has just read. Where ranks share cores each round costs a change of
/// processes, so payloads are to be as long as they can be.
const fn wanted_ring(members: u32, crowded: bool) -> usize {
    match (members, crowded) {
        (0..=2, _) => 2 << 20,
        (3..=16, true) => 1 << 20,
        (3..=4, false) => 256 << 10,
        (5..=16, false) | (_, true) => 128 << 10,
        _ => 32 << 10,
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

/// Bytes of the longest payload of calls that nobody may attend to in rings of the wanted size; `crowded`: where ranks share cores. Which calls need long payloads follows
/// from this (not crowded) and not from the ring that the members have, so that it is the same at all of them whatever became of it.
pub const fn wanted_slot_bytes(members: u32, crowded: bool) -> usize {
    Parts::of(members, wanted_ring(members, crowded), crowded).slot_bytes()
}

/// How a ring is divided by the lengths of payloads: first those of any length, then those of calls in which both of two members write, then those up to
/// [`NEAR`], then those up to [`at_hand`], each with a place by cell. A part that is not there is empty, and what would go there goes before it.
#[derive(Clone, Copy, Debug)]
struct Parts {
    any: usize,
    both: usize,
    near: usize,
    at_hand: usize,
    crowded: bool,
    /// Whether payloads of attended calls may be so long that fewer than those of [`CELLS`] rounds fit.
    long: bool,
}

impl Parts {
    /// Members that share cores find in their caches what they wrote there not long ago; two members, when it is short.
    const fn of(members: u32, ring: usize, crowded: bool) -> Parts {
        let at_hand = CELLS as usize * at_hand_stride(crowded);
        let at_hand = if (members <= 2 || crowded) && ring >= 8 * at_hand { at_hand } else { 0 };
        let near = if crowded && ring >= NEAR_FROM { NEAR_LAP } else { 0 };
        let both = if members <= 2 && ring >= BOTH_FROM { BOTH_LAP } else { 0 };
        Parts {
            any: ring - both - near - at_hand,
            both,
            near,
            at_hand,
            crowded,
            long: crowded && members > 2,
        }
    }

    /// Bytes of the longest payload of which those of so many rounds and what is left over at the end of a lap, less than one more, fit a lap.
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

    /// The same of attended calls in which all write.
    const fn attended_by_all(self) -> usize {
        if self.both == 0 { self.attended() } else { self.both / (ATTENDED + 2) / LINE * LINE }
    }

    const fn ring(self) -> usize {
        self.any + self.both + self.near + self.at_hand
    }

    /// Where a payload goes, by its length, and whether both of two members write.
    #[inline]
    const fn part(self, len: usize, all: bool) -> Part {
        if self.at_hand != 0 && len <= at_hand(self.crowded) {
            Part::AtHand
        } else if self.near != 0 && len <= NEAR {
            Part::Near
        } else if self.both != 0 && all {
            Part::Both
        } else {
            Part::Any
        }
    }

    /// Where a part begins, and its bytes.
    #[inline]
    const fn span(self, part: Part) -> (usize, usize) {
        match part {
            Part::Any => (0, self.any),
            Part::Both => (self.any, self.both),
            Part::Near => (self.any + self.both, self.near),
            Part::AtHand => (self.any + self.both + self.near, self.at_hand),
        }
    }
}

/// A part of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Any,
    Both,
    Near,
    AtHand,
}

/// Where the payloads of all members go.
///
/// In each part of a ring they follow one another. What one member writes into its ring, another one writes into its own, at the same place: all
/// count all rounds with long payloads, whoever writes in them. When a part is full, each goes on at the beginning of the same part of the next member's ring
/// (*turns*): it writes where the one before it in the turn has written and it has read. A line that its last writer writes again, while others
/// have copies of it, costs several times as much as one that a reader writes.
///
/// So a place in a ring belongs to one member in one round, and the protocol says when the next may write there: when all have finished the
/// last round that had it ([`Laps::displaces`]).
#[derive(Debug)]
pub(super) struct Laps {
    parts: Parts,
    members: u32,
    /// Where the next one begins in its part, unless it does not fit there, and the turns that the part has seen, below the number of members.
    next: [(usize, u32); 3],
    /// The last ones without a place by cell: round, begin and end in the ring.
    last: [(u64, usize, usize); CELLS as usize],
    /// How many there were.
    placed: usize,
}

impl Laps {
    /// The rings of `bytes` bytes for all members.
    pub(super) fn new(members: u32, bytes: u64, crowded: bool) -> Laps {
        let ring = (bytes / u64::from(members.max(1))) as usize / PAGE * PAGE;
        Laps {
            parts: Parts::of(members, ring, crowded),
            members,
            next: [(0, 0); 3],
            last: [(0, 0, 0); CELLS as usize],
            placed: 0,
        }
    }

    /// Bytes of the rings.
    #[inline]
    pub(super) fn rings(&self) -> usize {
        self.parts.ring() * self.members as usize
    }

    /// Bytes of the longest payload of a call that nobody may attend to.
    #[inline]
    pub(super) fn slot_bytes(&self) -> usize {
        self.parts.slot_bytes()
    }

    /// Bytes of the longest payload of an attended call; `all`: in which all write.
    #[inline]
    pub(super) fn attended(&self, all: bool) -> usize {
        if all { self.parts.attended_by_all() } else { self.parts.attended() }
    }

    /// Bytes of the longest payload.
    #[inline]
    pub(super) fn longest(&self) -> usize {
        self.parts.attended()
    }

    /// Where the payload of `member` in a round begins in the rings, if it writes in it; `len`: its bytes, `all`: of an attended call in which all write. Once
    /// for each round with long payloads, the same at all members but for `member`.
    #[inline]
    pub(super) fn place(&mut self, member: u32, round: u64, len: usize, all: bool) -> usize {
        let part = self.parts.part(len, all);
        let (begin, _) = self.parts.span(part);
        if part == Part::AtHand {
            let at = (round % CELLS) as usize * at_hand_stride(self.parts.crowded);
            let turns = (round / CELLS % u64::from(self.members)) as u32;
            return self.ring_of(member, turns) + begin + at;
        }
        let (at, turns) = self.at(part, len);
        self.next[part as usize] = ((at + len).next_multiple_of(LINE), turns);
        self.last[self.placed % CELLS as usize] = (round, begin + at, begin + at + len);
        self.placed += 1;
        self.ring_of(member, turns) + begin + at
    }

    /// The last round in which something lay where a payload of `len` bytes would go now, if it is one of the last [`CELLS`] that had a place.
    #[inline]
    pub(super) fn displaces(&self, len: usize, all: bool) -> Option<u64> {
        let part = self.parts.part(len, all);
        if part == Part::AtHand {
            return None;
        }
        let begin = self.parts.span(part).0 + self.at(part, len).0;
        let known = &self.last[..self.placed.min(CELLS as usize)];
        let met = known.iter().filter(|&&(_, from, to)| from < begin + len && begin < to);
        met.map(|&(round, ..)| round).max()
    }

    /// Where the next payload of `len` bytes begins in its part, and the turns of that lap.
    #[inline]
    fn at(&self, part: Part, len: usize) -> (usize, u32) {
        let ((next, turns), (_, lap)) = (self.next[part as usize], self.parts.span(part));
        match next + len <= lap {
            true => (next, turns),
            false => (0, if turns + 1 == self.members { 0 } else { turns + 1 }),
        }
    }

    /// Where the ring begins that a member writes to after so many turns.
    #[inline]
    fn ring_of(&self, member: u32, turns: u32) -> usize {
        let ring = member + turns;
        let ring = if ring >= self.members { ring - self.members } else { ring };
        ring as usize * self.parts.ring()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    /// What lies where in one ring: round, writer, place.
    type There = Vec<(u64, u32, Range<usize>)>;

    #[test]
    fn nothing_is_written_where_a_payload_lies_that_is_not_said_to_be_displaced() {
        let all = [2, 3, 4, 5, 16, 17, 63].map(|members| [false, true].map(|crowded| (members, crowded)));
        let sizes = all.as_flattened().iter().flat_map(|&(members, crowded)| {
            let (wanted, least) = all_rings(members, crowded);
            [wanted, wanted / 2, wanted * 3 / 4, least].map(|bytes| (members, crowded, bytes.max(least)))
        });
        for (members, crowded, bytes) in sizes {
            let of = |_| Laps::new(members, bytes, crowded);
            let mut laps: Vec<Laps> = (0..members.min(4)).map(of).collect();
            let (rings, slot) = (laps[0].rings(), laps[0].slot_bytes());
            assert!(rings as u64 <= bytes && slot >= 32 * members as usize, "{members} of {bytes}");
            let mut there: There = Vec::new();
            let mut random = 88_172_645_463_325_252_u64;
            for round in 0..5_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // All lengths, among them runs of the longest, and of the longest that stays at hand.
                // Long times of short ones, too, so that laps get shorter and longer.
                let few = round / 64 % 3 != 0;
                let (attended, all) = (random >> 40 & 1 == 1, random >> 41 & 1 == 1);
                let most = if attended { laps[0].attended(all) } else { slot };
                let len = match random % 8 {
                    _ if few && !random.is_multiple_of(61) => {
                        ((random >> 8) as usize % [200, NEAR][round as usize / 640 % 2] + 1).min(most)
                    }
                    0..=2 => most,
                    3 => at_hand(crowded).min(most),
                    _ => (random >> 8) as usize % most + 1,
                };
                let displaced = laps[0].displaces(len, attended && all);
                for (me, laps) in (0..).zip(&mut laps) {
                    assert_eq!(laps.displaces(len, attended && all), displaced, "all know the same");
                    let at = laps.place(me, round, len, attended && all);
                    let new = at..at + len;
                    assert!(new.end <= rings && at.is_multiple_of(LINE), "{members} members: {new:?}");
                    let free = displaced.map_or(round.saturating_sub(CELLS), |before| {
                        assert!(before < round);
                        before.max(round.saturating_sub(CELLS))
                    });
                    let free = if round < CELLS && displaced.is_none() { None } else { Some(free) };
                    let meets = there.iter().find(|(of, _, old)| {
                        free.is_none_or(|free| *of > free) && old.start < new.end && new.start < old.end
                    });
                    assert!(meets.is_none(), "{members} members, round {round}: {new:?} meets {meets:?}");
                    there.push((round, me, new));
                }
                there.retain(|(of, ..)| of + 2 * CELLS > round);
            }
        }
    }

    #[test]
    fn as_many_payloads_as_members_are_ahead_do_not_meet() {
        for (members, crowded) in [(2, false), (2, true), (3, true), (4, false), (8, true), (63, true)] {
            let bytes = all_rings(members, crowded).0;
            for (attended, all, ahead) in
                [(false, false, CELLS), (true, false, ATTENDED as u64), (true, true, ATTENDED as u64)]
            {
                let mut laps = Laps::new(members, bytes, crowded);
                let most = if attended { laps.attended(all) } else { laps.slot_bytes() };
                for len in [most, most / 2 + 64, most * 2 / 3] {
                    let first = laps.placed as u64;
                    for round in first..first + 1000 {
                        let displaced =
                            laps.displaces(len, all && attended).filter(|&before| before >= first);
                        assert!(displaced.is_none_or(|before| before + ahead <= round), "{members}: {len}");
                        laps.place(1, round, len, all && attended);
                    }
                }
            }
        }
    }

    #[test]
    fn who_writes_at_a_place_has_read_there_last() {
        let mut laps = Laps::new(2, all_rings(2, false).0, false);
        let len = laps.attended(true);
        let mut writers = std::collections::HashMap::new();
        for round in 0..200 {
            let at = laps.place(0, round, len, true);
            let ring = laps.parts.ring();
            let other = if at < ring { at + ring } else { at - ring };
            for (member, at) in [(0, at), (1, other)] {
                let before = writers.insert(at, member);
                assert_ne!(before, Some(member), "round {round}");
            }
        }
        assert!(writers.len() < 40);
    }
}
