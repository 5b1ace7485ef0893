//! Where in its ring a member puts its long payloads.
//!
//! They follow one another. A member knows which of its rounds had a place last, and writes there when all others have finished that. What is
//! short among two members stays where both have it at hand.

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
/// Two members have so much that what one wrote has left its own cache for the one that both share when the same lines are written
/// again: a line there costs a third of one that the other has just read. Where ranks share cores each round costs a change of processes, so payloads are to be as long as they can be.
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

/// Bytes of the longest payload of calls that nobody may attend to in rings of the wanted size; `crowded`: where ranks share cores.
/// Which calls need long payloads follows from this (not crowded) and not from the ring that the members have, so that it is the same at all of them whatever became of it.
pub const fn wanted_slot_bytes(members: u32, crowded: bool) -> usize {
    Parts::of(members, wanted_ring(members, crowded), crowded).slot_bytes()
}

/// How a ring is divided by the lengths of payloads: first those of any length, then those up to [`NEAR`], then those up to
/// [`at_hand`], each with a place by cell. A part that is not there is empty, and what would go there goes before it.
#[derive(Clone, Copy, Debug)]
struct Parts {
    any: usize,
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
        Parts { any: ring - near - at_hand, near, at_hand, crowded, long: crowded && members > 2 }
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

    const fn ring(self) -> usize {
        self.any + self.near + self.at_hand
    }
}

/// Where the payloads of one member go.
///
/// In each part of the ring they follow one another. Where they may be too long for those of [`CELLS`] rounds to fit, [`Laps::displaces`] says which
/// round must be finished first.
#[derive(Debug)]
pub(super) struct Laps {
    parts: Parts,
    /// Where the next one of any length begins, and the next near one in its part, if it fits there.
    next: [usize; 2],
    /// The last ones of any length: round, begin and end.
    last: [(u64, usize, usize); CELLS as usize],
    /// How many there were.
    placed: usize,
    /// [`Parts::slot_bytes`].
    slot: usize,
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
            next: [0; 2],
            last: [(0, 0, 0); CELLS as usize],
            placed: 0,
            slot: parts.slot_bytes(),
            long_until: 0,
        }
    }

    /// Bytes of the ring.
    #[inline]
    pub(super) fn ring(&self) -> usize {
        self.parts.ring()
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

    /// Where the payload of a round begins in the ring; `len`: its bytes, at most [`Laps::attended`]. Once for a round.
    #[inline]
    pub(super) fn place(&mut self, round: u64, len: usize) -> usize {
        let Parts { any, near, crowded, .. } = self.parts;
        if self.is_at_hand(len) {
            return any + near + (round % CELLS) as usize * at_hand_stride(crowded);
        }
        let is_near = self.is_near(len);
        let at = self.at(len);
        self.next[usize::from(is_near)] = (at + len).next_multiple_of(LINE);
        if is_near {
            return any + at;
        }
        self.last[self.placed % CELLS as usize] = (round, at, at + len);
        self.placed += 1;
        if len > self.slot {
            self.long_until = self.placed + CELLS as usize;
        }
        at
    }

    /// The last round whose payload lies where one of `len` bytes would be placed now, if that is one of the last [`CELLS`].
    #[inline]
    pub(super) fn displaces(&self, len: usize) -> Option<u64> {
        if self.is_at_hand(len) || self.is_near(len) {
            return None;
        }
        // No longer than those of which the last rounds' fit, and so are those before it.
        if len <= self.slot && self.placed >= self.long_until {
            return None;
        }
        self.displaces_of(len)
    }

    #[cold]
    fn displaces_of(&self, len: usize) -> Option<u64> {
        let at = self.at(len);
        let known = &self.last[..self.placed.min(CELLS as usize)];
        let met = known.iter().filter(|&&(_, begin, end)| begin < at + len && at < end);
        met.map(|&(round, ..)| round).max()
    }

    /// Whether a payload has a place by cell.
    #[inline]
    fn is_at_hand(&self, len: usize) -> bool {
        len <= at_hand(self.parts.crowded) && self.parts.at_hand != 0
    }

    #[inline]
    fn is_near(&self, len: usize) -> bool {
        len <= NEAR && self.parts.near != 0
    }

    /// Where the next payload of `len` bytes begins in its part of the ring.
    #[inline]
    fn at(&self, len: usize) -> usize {
        let is_near = self.is_near(len);
        let (next, lap) =
            (self.next[usize::from(is_near)], if is_near { self.parts.near } else { self.parts.any });
        if next + len <= lap { next } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    #[test]
    fn as_many_payloads_as_members_are_ahead_do_not_meet() {
        for (members, crowded) in [(2, false), (2, true), (3, true), (4, false), (8, true), (63, true)] {
            for (attended, ahead) in [(false, CELLS), (true, ATTENDED as u64)] {
                let mut laps = Laps::new(members, all_rings(members, crowded).0, crowded);
                let most = if attended { laps.attended() } else { laps.slot_bytes() };
                for (first, len) in [(0, most), (1000, most / 2 + 64), (2000, most * 2 / 3)] {
                    for round in first..first + 1000 {
                        let displaced = laps.displaces(len).filter(|&before| before >= first);
                        assert!(displaced.is_none_or(|before| before + ahead <= round), "{members}: {len}");
                        laps.place(round, len);
                    }
                }
            }
        }
    }

    #[test]
    fn payloads_that_others_may_read_never_meet() {
        let all = [2, 3, 4, 5, 16, 17, 63].map(|members| [false, true].map(|crowded| (members, crowded)));
        let sizes = all.as_flattened().iter().flat_map(|&(members, crowded)| {
            let (wanted, least) = all_rings(members, crowded);
            [wanted, wanted / 2, wanted * 3 / 4, least].map(|bytes| (members, crowded, bytes.max(least)))
        });
        for (members, crowded, bytes) in sizes {
            let mut laps = Laps::new(members, bytes, crowded);
            let (slot, ring) = (laps.slot_bytes(), laps.ring());
            assert!(
                ring as u64 * u64::from(members) <= bytes && slot >= 32 * members as usize,
                "{members} of {bytes}"
            );
            let mut there: Vec<(u64, Range<usize>)> = Vec::new();
            let mut random = 88_172_645_463_325_252_u64;
            for round in 0..5_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // All lengths, among them runs of the longest, and of the longest that stays at hand.
                // Long times of short ones, too, so that laps get shorter and longer.
                let few = round / 64 % 3 != 0;
                let most = if random >> 40 & 1 == 1 { laps.attended() } else { slot };
                let len = match random % 8 {
                    _ if few && !random.is_multiple_of(61) => {
                        ((random >> 8) as usize % [200, NEAR][round as usize / 640 % 2] + 1).min(most)
                    }
                    0..=2 => most,
                    3 => at_hand(crowded).min(most),
                    _ => (random >> 8) as usize % most + 1,
                };
                let displaced = laps.displaces(len);
                let at = laps.place(round, len);
                let new = at..at + len;
                assert!(new.end <= ring && at.is_multiple_of(LINE), "{members} members: {new:?}");
                let meets = there.iter().find(|(of, old)| {
                    displaced.is_none_or(|before| *of > before) && old.start < new.end && new.start < old.end
                });
                assert_eq!(meets, None, "{members} members, round {round}: {new:?}");
                there.push((round, new));
                if there.len() == CELLS as usize {
                    there.remove(0);
                }
            }
        }
    }
}
