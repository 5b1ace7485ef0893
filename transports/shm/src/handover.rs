//! Work that is left to whoever holds a lock: nobody who has some ever waits for the lock.
//!
//! Who has work notes it down where the holder will find it, announces it, and serves it under the lock if the lock is free.
//! Whoever gives the lock back looks whether something was announced meanwhile, and then tries the lock once more.
//!
//! # Protocol
//! ```text
//! worker: note the work (Release); announced = true (exchange); look_after
//! holder: ... unlock; look_after
//! look_after: full barrier; announced? no: done. try the lock; busy: done (the holder looks after it).
//!             announced = false (exchange); serve what is noted; unlock; again
//! ```
//!
//! # Memory ordering
//! *Nothing is left lying.* A worker that finds the lock busy stored `announced`, passed a barrier and read the lock's word
//! before its holder's unlock. The holder's unlock, its barrier and its look at `announced` come in this order; of two barriers
//! one is first, and it cannot be the holder's, or the worker would have seen the unlock. So the holder sees the announcement,
//! or somebody has taken it since. *Who takes an announcement sees the work.* Announcements are exchanges, so one that is taken
//! carries on the release sequences of all before it: the exchange that takes it (Acquire) synchronises with every worker that
//! announced since the last time. (With plain stores it would be with the last of them only, and the work of the others might
//! not be visible yet.) What is noted after the exchange is announced again.
//!
//! `tests/loom_handover.rs` checks [`announce`] and [`look_after`].

use std::sync::atomic::{AtomicBool, Ordering, fence};

/// What is shared, so that the model checker can stand in.
pub trait Words {
    /// Stores whether work was announced, and returns what was there (an exchange, Acquire and Release).
    fn exchange(&self, announced: bool) -> bool;
    /// Whether work was announced (relaxed).
    fn is_announced(&self) -> bool;
    /// A full barrier.
    fn barrier(&self);
}

/// Announces work that was noted down. The caller then looks after it.
#[inline]
pub fn announce(words: &impl Words) {
    words.exchange(true);
}

/// Serves what was announced, unless somebody else holds the lock, who does so then. To be called after [`announce`] and after
/// every unlock. `serve` is given the locked lock, does what is noted and unlocks.
#[inline]
pub fn look_after<G>(words: &impl Words, mut try_lock: impl FnMut() -> Option<G>, mut serve: impl FnMut(G)) {
    loop {
        words.barrier();
        if !words.is_announced() {
            return;
        }
        let Some(lock) = try_lock() else { return };
        words.exchange(false);
        serve(lock);
    }
}

/// The flag of one lock.
#[derive(Debug, Default)]
pub struct Announced(AtomicBool);

impl Announced {
    /// Nothing is announced.
    pub const fn new() -> Announced {
        Announced(AtomicBool::new(false))
    }
}

impl Words for Announced {
    #[inline]
    fn exchange(&self, announced: bool) -> bool {
        self.0.swap(announced, Ordering::AcqRel)
    }

    #[inline]
    fn is_announced(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn barrier(&self) {
        fence(Ordering::SeqCst);
    }
}
