//! Parts of messages that whoever has time copies: a table between the receiver and the sender of a ring, in memory that both share.
//!
//! The receiver of announced messages, which reads them from the sender's memory, lays out parts of what it has not come to yet, each in a *place*.
//! The sender, when it waits for something, takes the part that was laid out first, copies it into the receiver's memory, and says so with a packet.
//! What the receiver comes to itself it takes back before it reads it. So both cores copy as long as there is something to copy, and nobody waits
//! for one that is busy with something else, or asleep: only what was taken is waited for.
//!
//! Memory order. A place has one word, its *claim*: 0, or the number under which a part is laid out, never the same twice. The receiver writes the
//! part and then the claim (Release); whoever changes the claim from that number to 0 (compare-and-swap, one of the two) has the part. The sender
//! reads the part after its swap (Acquire), so it sees what belongs to the number; it cannot see a later part, for the receiver writes to a place
//! again only after it has taken the part back, or has heard by a packet that it is copied. That packet (the ring's Release and Acquire) also
//! shows the receiver what was copied. `tests/loom_shares.rs` is a model of it.

use crate::primitive::{AtomicU64, Ordering};

/// Parts that can be laid out at a time.
pub const PLACES: usize = 8;

/// A part of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The sender's request.
    pub send: u32,
    /// Packed offset of its first byte in the message.
    pub from: u64,
    /// Bytes.
    pub length: u64,
    /// Where the first byte goes, in the receiver's memory.
    pub address: u64,
}

/// See the module. Zeros are an empty table.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Shares {
    claims: [AtomicU64; PLACES],
    _line: [u64; 8],
    parts: [[AtomicU64; 4]; PLACES],
}

impl Shares {
    /// Lays a part out in a place that is free, as the receiver knows; by the receiver. `number`: grows from part to part, from 1 on.
    pub fn lay_out(&self, place: usize, number: u64, part: Part) {
        let words = [u64::from(part.send), part.from, part.length, part.address];
        for (to, word) in self.parts[place].iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        self.claims[place].store(number, Ordering::Release);
    }

    /// Takes a part back; by the receiver. False: the sender has it.
    pub fn take_back(&self, place: usize, number: u64) -> bool {
        // Relaxed: what lies there is the receiver's own.
        self.claims[place].compare_exchange(number, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// How many parts nobody has taken.
    pub fn left(&self) -> usize {
        self.claims.iter().filter(|claim| claim.load(Ordering::Relaxed) != 0).count()
    }

    /// Takes the part that was laid out first, with its place; by the sender.
    #[inline]
    pub fn take(&self) -> Option<(usize, Part)> {
        loop {
            let claims = self.claims.iter().enumerate();
            let laid = claims.map(|(place, claim)| (claim.load(Ordering::Relaxed), place));
            let (number, place) = laid.filter(|&(number, _)| number != 0).min()?;
            if self.claims[place].compare_exchange(number, 0, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                let [send, from, length, address] =
                    [0, 1, 2, 3].map(|word| self.parts[place][word].load(Ordering::Relaxed));
                return Some((place, Part { send: send as u32, from, length, address }));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_laid_out_first_is_taken_first_and_once() {
        let table = Shares::default();
        let part = |send| Part { send, from: 1 << 40, length: 3, address: u64::MAX };
        assert_eq!((table.take(), table.left()), (None, 0));
        for (number, place) in [(5, 7), (6, 0), (7, 3)] {
            table.lay_out(place, number, part(number as u32));
        }
        assert_eq!((table.take(), table.left()), (Some((7, part(5))), 2));
        assert!(table.take_back(3, 7) && !table.take_back(3, 7) && !table.take_back(7, 5));
        assert_eq!((table.take(), table.take()), (Some((0, part(6))), None));
        table.lay_out(3, 8, part(1));
        assert!(!table.take_back(3, 7), "that was another one");
        assert_eq!((table.take(), table.left()), (Some((3, part(1))), 0));
    }
}
