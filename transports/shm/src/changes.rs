//! How threads know whether what they remember of shared objects is still true.
//!
//! A thread keeps a copy of an object together with the count of removals that it read *before* it looked the object up under
//! the lock. The copy is good as long as the count is the same.
//!
//! # Memory ordering
//! Who removes an object does so under the lock and stores the count with Release while it holds the lock, so there is one
//! writer at a time and no read-modify-write. A thread may use a stale copy as long as it may not know of the removal. If
//! it must know (it was told, or it uses a number that was given out anew), it has synchronised with the remover after the
//! store; its load (Acquire) then sees this count or a later one, and drops the copy. A removal between the thread's load of the
//! count and its lookup changes the count once more than the copy needs: the copy is dropped for nothing, never kept wrongly.
//!
//! `tests/loom_changes.rs` checks it.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the removals of objects of which threads keep copies.
#[derive(Debug, Default)]
pub struct Changes(AtomicU64);

impl Changes {
    /// The count.
    #[inline]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// One more; the caller holds the lock of the objects.
    pub fn add(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}
