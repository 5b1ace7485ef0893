//! In which lanes messages wait for company ([`Engine::keep_company`]), so that calls that end something find them without a lock.
//!
//! A program goes on without MPI when a call has ended something, and what its threads sent before must not wait for their next
//! call. With one thread that call knows what there is to push out. With several there is a bit for each lane:
//! * It changes under the lane's lock only, when that is given back (but by the short forms of calls, which are not taken where messages
//!   wait), and says whether anything was sent there since progress or a push ended the last row. So a thread that has sent finds the bit set
//!   in its next call, unless somebody has pushed its messages out.
//! * Each thread remembers the lanes in which it was the one to give the lock back with such a row. These it pushes out whatever it
//!   takes; lanes of others only where no thread has the lane's lock to itself, which it would have to be kept out of: that thread
//!   ends something soon, or else is found idle by whoever is about to sleep (`gate::Blocked` of `weft-abi`). A thread that completes sends
//!   which were complete when they began, perhaps by another thread, pushes out all ([`own_all`]).
//!
//! Relaxed everywhere: a thread sees its own changes, and what others sent may as well leave with the next call.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use weft_engine::Engine;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows(Arc<Words>);

#[derive(Debug, Default)]
struct Words {
    /// Lanes in which something may wait, one bit each.
    waiting: AtomicU32,
    /// Whether messages of several calls may wait for each other.
    kept: AtomicBool,
}

thread_local! {
    /// Lanes in which this thread has sent what may wait.
    static OWN: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread's next push takes whatever waits for its own.
pub(super) fn own_all() {
    let _ = OWN.try_with(|own| own.set(u32::MAX));
}

impl Rows {
    pub(super) fn keep(&self, kept: bool) {
        self.0.kept.store(kept, Ordering::Relaxed);
    }

    pub(super) fn are_kept(&self) -> bool {
        self.0.kept.load(Ordering::Relaxed)
    }

    /// The lock of a lane is about to be given back.
    #[inline(always)]
    pub(super) fn note(&self, lane: u32, engine: &Engine) {
        if engine.keeps_company() {
            self.note_row(lane, engine.is_in_row());
        }
    }

    #[cold]
    #[inline(never)]
    fn note_row(&self, lane: u32, in_row: bool) {
        let bit = 1 << lane;
        if in_row {
            // A thread that is about to end has its next call, if any, find the bit.
            let _ = OWN.try_with(|own| own.set(own.get() | bit));
        }
        let noted = self.0.waiting.load(Ordering::Relaxed) & bit != 0;
        if noted != in_row {
            match in_row {
                true => self.0.waiting.fetch_or(bit, Ordering::Relaxed),
                false => self.0.waiting.fetch_and(!bit, Ordering::Relaxed),
            };
        }
    }

    /// Lanes in which something may wait, and those of them where the calling thread has sent some of it, which is forgotten.
    pub(super) fn take(&self) -> (u32, u32) {
        let own = OWN.try_with(|own| own.take()).unwrap_or(0);
        let waiting = self.0.waiting.load(Ordering::Relaxed);
        (waiting, own & waiting)
    }
}
