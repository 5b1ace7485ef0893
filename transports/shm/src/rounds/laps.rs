//! Where in its ring a member puts its long payloads.
//!
//! They follow one another, and no two of [`CELLS`] rounds in a row meet: others may still read those of the rounds before. What is
//! short among two members stays where both have it at hand.

use super::CELLS;

/// Where payloads begin.
const LINE: usize = 64;
/// Most bytes of a payload: what one round carries of each member.
const MOST: usize = 64 << 10;
/// Bytes of the longest payload that two members do not put among the others: up to there lines that both hold cost
/// less than ones that neither has. Each cell has a place of its own for such a payload, at the end of the ring.
const AT_HAND: usize = 4096;
/// Bytes from one such place to the next: they do not all begin at one place of the caches.
const AT_HAND_STRIDE: usize = AT_HAND + LINE;

/// Bytes of a member's ring of long payloads.
///
/// Two members have so much that what one wrote has left its own cache for the one that both share when the same lines are written
/// again: a line there costs a third of one that the other has just read. (From 16 KiB on; shorter payloads stay near anyway.)
pub(super) const fn ring_bytes(members: u32) -> usize {
    match members {
        0..=2 => 2 << 20,
        3..=4 => 256 << 10,
        5..=16 => 128 << 10,
        _ => 32 << 10,
    }
}

/// Bytes of a ring in which payloads follow one another.
const fn lap_bytes(members: u32) -> usize {
    ring_bytes(members) - if members <= 2 { CELLS as usize * AT_HAND_STRIDE } else { 0 }
}

/// Bytes of the longest payload with `members` members. Those of [`CELLS`] rounds and what is left over at the end of a lap,
/// less than one more, fit a lap.
pub const fn slot_bytes(members: u32) -> usize {
    let most = lap_bytes(members) / (CELLS as usize + 1) / LINE * LINE;
    if most < MOST { most } else { MOST }
}

/// Where the payloads of one member go.
#[derive(Debug)]
pub(super) struct Laps {
    members: u32,
    /// Where the next one begins, if it fits there.
    next: usize,
}

impl Laps {
    pub(super) fn new(members: u32) -> Laps {
        Laps { members, next: 0 }
    }

    /// Where the payload of a round begins in the ring; `len`: its bytes, at most [`slot_bytes`]. Once for a round.
    #[inline]
    pub(super) fn place(&mut self, round: u64, len: usize) -> usize {
        let lap = lap_bytes(self.members);
        if len <= AT_HAND && lap < ring_bytes(self.members) {
            return lap + (round % CELLS) as usize * AT_HAND_STRIDE;
        }
        let at = if self.next + len <= lap { self.next } else { 0 };
        self.next = (at + len).next_multiple_of(LINE);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    #[test]
    fn payloads_that_others_may_read_never_meet() {
        for members in [2, 3, 4, 5, 16, 17, 63] {
            let (mut laps, most) = (Laps::new(members), slot_bytes(members));
            let mut there: Vec<Range<usize>> = Vec::new();
            let mut random = 88_172_645_463_325_252_u64;
            for round in 0..50_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // All lengths, among them runs of the longest, and of the longest that stays at hand.
                let len = match random % 8 {
                    0..=2 => most,
                    3 => AT_HAND.min(most),
                    _ => (random >> 8) as usize % most + 1,
                };
                let at = laps.place(round, len);
                let new = at..at + len;
                assert!(
                    new.end <= ring_bytes(members) && at.is_multiple_of(LINE),
                    "{members} members: {new:?}"
                );
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
