//! What a member sees of payloads, and the blocks that it writes.

use super::Memory;
use crate::rounds::distance::{Distance, Writing};
use crate::rounds::exchange::Place;
use crate::rounds::{CELLS, Words};
use std::sync::atomic::Ordering;

/// The blocks that this member writes in a round, and those that it makes them of.
#[derive(Debug)]
pub struct Exchange<'a> {
    pub(super) memory: &'a mut Memory,
    pub(super) distance: &'a mut Distance,
    pub(super) place: Place,
    /// Those on other processors whose blocks go one way.
    pub(super) far: u64,
    /// How the last block is written.
    pub(super) writing: Writing,
    pub(super) made_of: Option<u64>,
}

impl Exchange<'_> {
    /// The first `len` bytes of the block for another member.
    ///
    /// # Panics
    /// When there is none, or it is shorter.
    pub fn room(&mut self, member: u32, len: usize) -> &mut [u8] {
        let at = self.memory.block(self.place, self.memory.me, member, len);
        // SAFETY: the block is this member's and the other's, of whom only this one may touch it until the round is published: it has read what
        // came there, and the other has read what this one wrote (`super::super::exchange`). `&mut self` keeps slices of it apart.
        unsafe { std::slice::from_raw_parts_mut(at, len) }
    }

    /// The block of so many bytes for a member is about to be written: whether past the caches. That gains where it goes one way, to another
    /// processor that is far.
    pub fn goes_past(&mut self, member: u32, len: usize) -> bool {
        self.distance.end(std::mem::replace(&mut self.writing, Writing::USUAL));
        if self.far >> member & 1 == 1 {
            self.writing = self.distance.begin(len);
        }
        self.writing.past
    }

    /// A long payload of another member, as [`Payloads::get`].
    ///
    /// # Panics
    /// As that does.
    pub fn payload(&self, member: u32, round: u64, len: usize) -> &[u8] {
        self.memory.payloads().get(member, round, true, len)
    }

    /// The first `len` bytes of the contribution of another member, where results are made.
    ///
    /// # Panics
    /// When its stamp is not there, or it is shorter.
    pub fn heard(&self, member: u32, len: usize) -> &[u8] {
        let round = self.made_of.expect("contributions of which results are made");
        self.memory.payloads().block(member, round, len)
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.distance.end(self.writing);
    }
}

/// What all members have written.
#[derive(Clone, Copy, Debug)]
pub struct Payloads<'a> {
    pub(super) memory: &'a Memory,
    /// The own cell that is being written.
    pub(super) but: Option<u64>,
}

impl<'a> Payloads<'a> {
    /// The payload of a member in a round, `len` bytes; `long`: in the slot.
    ///
    /// # Panics
    /// When its stamp is not there, this member has finished the round, or it cannot be that long.
    #[inline]
    pub fn get(&self, member: u32, round: u64, long: bool, len: usize) -> &'a [u8] {
        let memory = self.memory;
        let there = member < memory.members && memory.stamp(member, round) >> 16 == round + 1;
        let written = member == memory.me && self.but == Some(round % CELLS);
        let place = match there && !written && round >= memory.finished {
            true => memory.place(member, round, long, len),
            false => None,
        };
        let place = place.expect("a payload that may be read");
        if long && member != memory.me {
            memory.laps.take_over(memory.at_word(member, round).load(Ordering::Relaxed) as usize);
        }
        // SAFETY: rule A: the stamp is there and this member has not said that it has finished the round; it cannot say so
        // while the slice borrows `memory`.
        unsafe { std::slice::from_raw_parts(place, len) }
    }

    /// The first `len` bytes of the block that a member gives to this one in a round in which blocks are exchanged.
    ///
    /// # Panics
    /// As [`Payloads::get`], and when it is this member.
    pub fn block(&self, member: u32, round: u64, len: usize) -> &'a [u8] {
        self.block_for(member, self.memory.me, round, len)
    }

    /// The same of the block that a member gives to `reader`, in a round in which blocks are shared.
    ///
    /// # Panics
    /// As [`Payloads::block`], and when the two are one.
    pub fn block_for(&self, member: u32, reader: u32, round: u64, len: usize) -> &'a [u8] {
        let memory = self.memory;
        let there = member < memory.members && memory.stamp(member, round) >> 16 == round + 1;
        assert!(there && round >= memory.finished, "a block that may be read");
        let place = Place::of(memory.at_word(member, round).load(Ordering::Relaxed));
        let at = memory.block(place, member, reader, len);
        // SAFETY: as above; the block is the writer's and the reader's, and who of them may write there next is this member, by
        // [`Exchange::room`], which borrows all mutably, or, of a block that is shared, one that has seen that this member has finished the round
        // (`super::super::exchange`).
        unsafe { std::slice::from_raw_parts(at, len) }
    }
}
