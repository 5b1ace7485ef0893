//! The ring that we send on to one process.

use crate::bell::{self, Doors};
use crate::raw::RawRing;
use crate::ring::{Producer, RingMemory};
use crate::slots::Fresh;
use crate::sys::Mapping;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_api::Refused;

/// One process that we are connected to.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) producer: Producer<RawRing>,
    /// How far long records were written to the data area at any time.
    pub(super) reached: u32,
    /// Slots of this ring that were never used.
    pub(super) fresh: Fresh,
    /// The receiver's sleep words; live as long as `Shm::segment`.
    pub(super) doors: NonNull<Doors>,
    /// That of our lane.
    pub(super) word: NonNull<AtomicU32>,
    pub(super) lane: u32,
    /// Keeps the ring mapped.
    pub(super) mapping: Mapping,
}

// SAFETY: the sleep words are shared memory made of atomics, kept mapped by the `Shm` that owns this value.
unsafe impl Send for Outbound {}

impl Outbound {
    #[inline]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: see the field.
        unsafe { self.word.as_ref() }
    }

    /// After a publication: wakes the receiver when it sleeps, and tells whether it still lives.
    #[inline(always)]
    pub(super) fn notify(&self) -> std::result::Result<(), Refused> {
        self.producer.memory().light_barrier();
        let word = self.word().load(Ordering::Relaxed);
        if bell::needs_attention(word) { self.notify_slowly(word) } else { Ok(()) }
    }

    #[cold]
    fn notify_slowly(&self, word: u32) -> std::result::Result<(), Refused> {
        if bell::is_gone(word) {
            return Err(Refused::Dead);
        }
        // SAFETY: see the field.
        unsafe { self.doors.as_ref() }.ring(self.lane);
        Ok(())
    }

    /// What a ring without room means: a dead reader will never make any.
    #[cold]
    pub(super) fn full(&self) -> Refused {
        if bell::is_gone(self.word().load(Ordering::Relaxed)) { Refused::Dead } else { Refused::Full }
    }
}
