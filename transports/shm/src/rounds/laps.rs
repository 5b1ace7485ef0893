//! Where in its ring a member puts its long payloads.
//!
//! They follow one another, and no two of [`CELLS`] rounds in a row meet: others may still read those of the rounds before. What is
//! short among two members stays where both have it at hand.

use super::CELLS;

/// Where payloads begin.
const LINE: usize = 64;
/// Where rings begin.
const PAGE: usize = 4096;
/// Most bytes of a payload: what one round carries of each member.
const MOST: usize = 64 << 10;
/// Bytes of the longest payload that two members do not put among the others: up to there lines that both hold cost
/// less than ones that neither has. Each cell has a place of its own for such a payload, at the end of the ring.
const AT_HAND: usize = 4096;
/// Bytes of the longest payload that two members find nearer in a ring that stays in the cache of each ...
const NEAR: usize = 14 << 10;
/// ... which is no longer than this, while there is nothing longer among the last ones.
const NEAR_LAP: usize = 256 << 10;
const _: () = assert!(NEAR * (CELLS as usize + 1) <= NEAR_LAP);
/// Bytes from one such place to the next: they do not all begin at one place of the caches.
const AT_HAND_STRIDE: usize = AT_HAND + LINE;

/// Bytes of a member's ring where there is plenty of memory; `crowded`: where ranks share cores.
///
/// Two members have so much that what one wrote has left its own cache for the one that both share when the same lines are written
/// again: a line there costs a third of one that the other has just read. (From 16 KiB on; shorter payloads stay near anyway.) Where
/// ranks share cores each round costs a change of processes, so payloads are to be as long as they can be; see [`Laps`] for how little
/// of the ring others then take.
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
pub(super) const fn stay_at_hand(payload: u64) -> bool {
    payload <= AT_HAND as u64
}

/// Bytes of the longest payload in rings of the wanted size. Which calls need long payloads, and which are too long for them, follows
/// from this and not from the ring that the members have, so that it is the same at all of them whatever became of it.
pub const fn wanted_slot_bytes(members: u32) -> usize {
    longest(wanted_ring(members, false), shares_lines(members, wanted_ring(members, false)))
}

/// Whether short payloads have places of their own.
const fn shares_lines(members: u32, ring: usize) -> bool {
    members <= 2 && ring >= 8 * CELLS as usize * AT_HAND_STRIDE
}

/// Bytes of the longest payload of a ring: those of [`CELLS`] rounds and what is left over at the end of a lap, less than one more, fit
/// a lap.
const fn longest(ring: usize, at_hand: bool) -> usize {
    let lap = ring - if at_hand { CELLS as usize * AT_HAND_STRIDE } else { 0 };
    let most = lap / (CELLS as usize + 1) / LINE * LINE;
    if most < MOST { most } else { MOST }
}

/// Where the payloads of one member go.
///
/// Where ranks share cores the ring is not used to its end while payloads are short, but only as far as a ring for payloads of
/// that length would go: what they find in the cache of their core they need not fetch. For the same reason a large ring is used to
/// [`NEAR_LAP`] only while payloads are short.
#[derive(Debug)]
pub(super) struct Laps {
    /// Bytes of the ring.
    ring: usize,
    /// Bytes of it in which payloads follow one another; behind are the places of short ones, if there are any.
    lap: usize,
    /// Whether laps end early.
    short: bool,
    /// Where the next one begins, if it fits there.
    next: usize,
    /// Bytes of the longest payload of this lap and the one before, lines filled up.
    longest: [usize; 2],
}

impl Laps {
    /// The rings of `bytes` bytes for all members.
    pub(super) fn new(members: u32, bytes: u64, crowded: bool) -> Laps {
        let ring = (bytes / u64::from(members.max(1))) as usize / PAGE * PAGE;
        let at_hand = shares_lines(members, ring) && !crowded;
        let lap = ring - if at_hand { CELLS as usize * AT_HAND_STRIDE } else { 0 };
        Laps { ring, lap, short: crowded, next: 0, longest: [0; 2] }
    }

    /// Bytes of the ring.
    #[inline]
    pub(super) fn ring(&self) -> usize {
        self.ring
    }

    /// Bytes of the longest payload.
    #[inline]
    pub(super) fn slot_bytes(&self) -> usize {
        longest(self.ring, self.lap < self.ring)
    }

    /// Where the payload of a round begins in the ring; `len`: its bytes, at most [`Laps::slot_bytes`]. Once for a round.
    #[inline]
    pub(super) fn place(&mut self, round: u64, len: usize) -> usize {
        if len <= AT_HAND && self.lap < self.ring {
            return self.lap + (round % CELLS) as usize * AT_HAND_STRIDE;
        }
        let at = if self.next + len <= self.end(len) { self.next } else { self.begin_lap() };
        let filled = len.next_multiple_of(LINE);
        self.longest[0] = self.longest[0].max(filled);
        self.next = at + filled;
        at
    }

    /// Where the lap ends, when a payload of `len` bytes comes next: there is room for those of [`CELLS`] rounds and one more, each as long as the
    /// longest that others may still read. So when a lap begins anew those of the last 7 rounds lie behind the first `len` bytes.
    #[inline]
    fn end(&self, len: usize) -> usize {
        let longest = self.longest[0].max(self.longest[1]).max(len.next_multiple_of(LINE));
        match self.short {
            true => self.lap.min(longest * (CELLS as usize + 1)),
            false if longest <= NEAR => self.lap.min(NEAR_LAP),
            false => self.lap,
        }
    }

    fn begin_lap(&mut self) -> usize {
        self.longest = [0, self.longest[0]];
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    #[test]
    fn payloads_that_others_may_read_never_meet() {
        let all = [2, 3, 4, 5, 16, 17, 63].map(|members| [false, true].map(|crowded| (members, crowded)));
        let sizes = all.as_flattened().iter().flat_map(|&(members, crowded)| {
            let (wanted, least) = all_rings(members, crowded);
            [wanted, wanted / 2, wanted * 3 / 4, least].map(|bytes| (members, crowded, bytes.max(least)))
        });
        for (members, crowded, bytes) in sizes {
            let mut laps = Laps::new(members, bytes, crowded);
            let (most, ring) = (laps.slot_bytes(), laps.ring());
            assert!(
                ring as u64 * u64::from(members) <= bytes && most >= 32 * members as usize,
                "{members} of {bytes}"
            );
            let mut there: Vec<Range<usize>> = Vec::new();
            let mut random = 88_172_645_463_325_252_u64;
            for round in 0..50_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // All lengths, among them runs of the longest, and of the longest that stays at hand.
                // Long times of short ones, too, so that laps get shorter and longer.
                let few = round / 64 % 3 != 0;
                let len = match random % 8 {
                    _ if few && !random.is_multiple_of(61) => {
                        ((random >> 8) as usize % [200, NEAR][round as usize / 640 % 2] + 1).min(most)
                    }
                    0..=2 => most,
                    3 => AT_HAND.min(most),
                    _ => (random >> 8) as usize % most + 1,
                };
                let at = laps.place(round, len);
                let new = at..at + len;
                assert!(new.end <= ring && at.is_multiple_of(LINE), "{members} members: {new:?}");
                let meets = there.iter().any(|old| old.start < new.end && new.start < old.end);
                assert!(!meets, "{members} members, round {round}: {new:?} meets one of {there:?}");
                there.push(new);
                if there.len() == CELLS as usize {
                    there.remove(0);
                }
            }
        }
    }
}
