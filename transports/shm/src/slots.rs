//! Memory of records that goes to and fro between two processes.
//!
//! Beside its data area every ring begins with some *slots*, each room for one record. A slot has one owner, at first the ring's
//! producer. A record may lie in a slot that its sender owns; then the slot is the receiver's, for good, as soon as
//! it is published, and the receiver will put a record of its own there on the way back. Nothing is ever
//! returned: who has no slot left uses the data area.
//!
//! Why: a processor that writes to lines which it has just read from the other core has them at hand. In a data area of one
//! direction it writes to lines that the other core has read since, and every one must be fetched back or revoked there.
//! Between distant cores 64 KiB to and fro take 2.9 instead of 3.5 us, 256 KiB 9.4 instead of 12.8 us without any software.
//! Where a message comes back to memory that it has used before, the way of both is worse still: 2 MiB take 70 us in slots and
//! 148 in slots of 512 KiB in all, between distant cores 110 and 800. Hence so many slots that 4 MiB to and fro fit (two rings
//! of 2 MiB).
//!
//! # Memory ordering
//! Only the owner touches a slot. Ownership goes with the stamp of the record's cell: the sender's stores precede its Release,
//! the receiver's loads follow its Acquire (rule A of [`crate::ring`]); and the receiver's own loads precede its later stores
//! into the slot and their stamp in its program order, so that whoever owns the slot next sees nothing of what was there
//! before. No word is shared beyond the stamps.

/// Bit of a record's place: it lies in a slot, whose number the lower bits are.
pub const SLOT: u32 = 1 << 31;
/// Bit of a slot's place: the slot began in the ring of the other direction than the packet's.
pub const TWIN: u32 = 1 << 30;

/// The slots of a ring that were never used; the others are where they came to.
#[derive(Debug)]
pub struct Fresh {
    next: u32,
    most: u32,
}

impl Fresh {
    /// All of `most` slots.
    pub const fn new(most: u32) -> Fresh {
        Fresh { next: 0, most }
    }

    /// The next one, if `back` can give it memory; once it cannot, there are no more.
    #[inline]
    pub fn take(&mut self, back: impl FnOnce(u32) -> bool) -> Option<u32> {
        if self.next == self.most {
            return None;
        }
        self.first_use(back)
    }

    #[cold]
    fn first_use(&mut self, back: impl FnOnce(u32) -> bool) -> Option<u32> {
        if !back(self.next) {
            self.most = self.next;
            return None;
        }
        self.next += 1;
        Some(SLOT | (self.next - 1))
    }
}

/// Most slots that a ring begins with.
pub const MOST: u32 = 64;

/// The slots of both rings between two processes that one of them got from the other: a bit each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    slots: u128,
    /// The bit of the one that came last.
    last: u128,
    /// One has come since [`Held::is_answer`] was asked last.
    answers: bool,
}

impl Held {
    /// A slot came with a packet, at `place` as its sender calls it: what is the packet's direction for that one is the other
    /// direction for us.
    #[inline]
    pub fn put(&mut self, place: u32) {
        let twin = place & TWIN == 0;
        self.last = 1 << ((place & (MOST - 1)) + if twin { MOST } else { 0 });
        self.slots |= self.last;
        self.answers = true;
    }

    /// Whether a record that goes there now is the first since one came from there.
    #[inline]
    pub const fn is_answer(&mut self) -> bool {
        std::mem::replace(&mut self.answers, false)
    }

    /// The slot of the lowest number, so that the pieces of a message follow each other in the same order to and fro, and no
    /// more slots are used than are under way.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        self.take_of(self.slots)
    }

    /// The slot that came last, if it is still here, or else as [`Held::take`]: where both send at the same time, its lines are
    /// at hand.
    #[inline]
    pub fn take_last(&mut self) -> Option<u32> {
        match self.slots & self.last {
            0 => self.take(),
            last => self.take_of(last),
        }
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.slots == 0
    }

    #[inline]
    fn take_of(&mut self, of: u128) -> Option<u32> {
        if of == 0 {
            return None;
        }
        let bit = of.trailing_zeros();
        self.slots &= !(1 << bit);
        let twin = if bit >= MOST { TWIN } else { 0 };
        Some(SLOT | twin | (bit & (MOST - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_record_after_one_has_come_is_an_answer() {
        let mut held = Held::default();
        assert!(!held.is_answer());
        for round in 0..3 {
            held.put(SLOT | round);
            held.put(SLOT | (round + 10));
            assert_eq!([held.is_answer(), held.is_answer()], [true, false]);
        }
    }
}
