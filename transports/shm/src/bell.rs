//! Sleeping until a packet may have come, and waking without a fence on the sender's side.
//!
//! Each process has one 32-bit *sleep word* in the node segment:
//!
//! ```text
//! 31: gone     30..12: rings so far (wraps)     11..0: threads that are armed or asleep
//! ```
//!
//! # Protocol
//! - Sleeper: *arm* (count one thread in, remember the rings), **heavy barrier**, look for packets and for room once
//!   more, then *sleep* while the rings are as remembered, or *disarm*.
//! - Sender: write to the ring, **light barrier**, load the sleep word; if somebody is counted, *ring*: add one to
//!   the rings, set the count to nought, wake all.
//!
//! A ring takes everybody out of the count, so a burst of packets to a process that is not yet running again
//! costs one system call. Who was armed before the ring finds the rings changed and does not sleep.
//!
//! # Memory ordering
//! This is Dekker's pattern: each side stores, then loads what the other stores; at least one must see the other. On
//! the sleeper's side the heavy barrier is `membarrier(GLOBAL_EXPEDITED)`, which makes every running thread of
//! every process that registered (all of the job do, at start) pass a full barrier. Take the instant at which it
//! did so on the sender's processor. If the sender's store to the ring precedes it, the sleeper's second look,
//! after the call, sees the packet. Otherwise its load of the sleep word follows it, and sees the armed word. A
//! thread that is not running passes a full barrier when it is switched in. So the sender's light barrier only has
//! to hold back the compiler.
//!
//! Where a process cannot register, its own light barrier is a real fence instead, and the sleeper's fence in
//! `arm` completes the classical pattern; the heavy barrier does no harm. Where the *sleeper* cannot call
//! membarrier though others rely on it, it sleeps at most [`BLIND_SLEEP`] at a time. A job with more ranks than
//! cores may choose fences for everybody ([`crate::Waking::Fence`]): a fence costs a sender some 20 ns, the
//! membarrier costs a sleeper an interrupt of every other core.
//!
//! `tests/loom_bell.rs` checks arm, ring, sleep and disarm together with a ring of cells.

use crate::sys;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const COUNT: u32 = (1 << 12) - 1;
const RING: u32 = 1 << 12;
const RINGS: u32 = !COUNT & !GONE;
const GONE: u32 = 1 << 31;

/// Longest sleep of a process that cannot be sure to be rung.
pub const BLIND_SLEEP: Duration = Duration::from_millis(1);

/// What a sleep word lives on: an atomic word with compare-and-swap, so that the loom model can stand in.
pub trait SleepWord {
    /// Loads the word (relaxed: the barriers order it).
    fn load(&self) -> u32;
    /// Compare-and-swap with SeqCst; the value found otherwise.
    fn swap_if(&self, current: u32, new: u32) -> Result<(), u32>;
    /// Wakes all who wait on the word.
    fn wake_all(&self);
}

/// Whether a sender that sees this word has something to do: ring, or learn that the process is gone.
#[inline]
pub fn needs_attention(word: u32) -> bool {
    word & (GONE | COUNT) != 0
}

/// Whether the owner of the word is gone.
pub fn is_gone(word: u32) -> bool {
    word & GONE != 0
}

/// Counts this thread in; answers the rings so far, for [`still_armed`] and [`disarm`]. The caller issues the heavy
/// barrier afterwards.
pub fn arm(word: &impl SleepWord) -> u32 {
    let mut current = word.load();
    loop {
        assert!(current & COUNT != COUNT, "more than {COUNT} threads sleep in one process");
        match word.swap_if(current, current + 1) {
            Ok(()) => return current & RINGS,
            Err(found) => current = found,
        }
    }
}

/// Whether nobody rang since [`arm`] answered `rings`; then the value to sleep on.
pub fn still_armed(word: &impl SleepWord, rings: u32) -> Option<u32> {
    let current = word.load();
    (current & RINGS == rings).then_some(current)
}

/// Takes this thread out of the count, unless a ring already did.
pub fn disarm(word: &impl SleepWord, rings: u32) {
    let mut current = word.load();
    while current & RINGS == rings && current & COUNT != 0 {
        match word.swap_if(current, current - 1) {
            Ok(()) => return,
            Err(found) => current = found,
        }
    }
}

/// Wakes everybody who is counted.
#[cold]
pub fn ring(word: &impl SleepWord) {
    let mut current = word.load();
    while current & COUNT != 0 {
        let rung = (current & GONE) | ((current & RINGS).wrapping_add(RING) & RINGS);
        match word.swap_if(current, rung) {
            Ok(()) => return word.wake_all(),
            Err(found) => current = found,
        }
    }
}

/// Marks the owner of the word as gone.
pub(crate) fn set_gone(word: &AtomicU32) {
    word.fetch_or(GONE, Ordering::SeqCst);
    sys::futex_wake_all(word);
}

impl SleepWord for AtomicU32 {
    #[inline]
    fn load(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    fn swap_if(&self, current: u32, new: u32) -> Result<(), u32> {
        self.compare_exchange(current, new, Ordering::SeqCst, Ordering::Relaxed).map(|_| ())
    }

    fn wake_all(&self) {
        sys::futex_wake_all(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_empties_the_count_and_is_remembered() {
        let word = AtomicU32::new(RINGS);
        let first = arm(&word);
        let second = arm(&word);
        assert_eq!((first, second), (RINGS, RINGS));
        assert!(needs_attention(word.load(Ordering::Relaxed)));
        ring(&word);
        assert_eq!(word.load(Ordering::Relaxed), 0, "the count of rings wraps and leaves other bits alone");
        assert_eq!(still_armed(&word, first), None);
        disarm(&word, first);
        assert_eq!(word.load(Ordering::Relaxed), 0, "the ring had already counted the thread out");
    }

    #[test]
    fn disarm_leaves_other_sleepers_armed() {
        let word = AtomicU32::new(0);
        let first = arm(&word);
        let second = arm(&word);
        disarm(&word, first);
        assert!(still_armed(&word, second).is_some());
        assert!(needs_attention(word.load(Ordering::Relaxed)));
        disarm(&word, second);
        assert!(!needs_attention(word.load(Ordering::Relaxed)));
    }

    #[test]
    fn a_gone_owner_stays_gone() {
        let word = AtomicU32::new(0);
        set_gone(&word);
        let rings = arm(&word);
        ring(&word);
        disarm(&word, rings);
        assert!(is_gone(word.load(Ordering::Relaxed)));
    }
}
