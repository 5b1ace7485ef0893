//! The gate for the thread to which the process's lock is biased: no read-modify-write, and what others may wait for is told on
//! the way out.

use std::sync::atomic::Ordering;

use weft::Process;
use weft_engine::bias::{self, Mine};

use super::{GATE, ring, shared};

/// The process, lent to the thread to which its lock is biased, for the short forms of calls ([`crate::imp`]). Given back with
/// [`Own::end`] after what can neither end a request nor let a probe find something (a send to another process, a receive that
/// is posted), otherwise with [`Own::leave`].
///
/// Marks are not looked after here: who makes them waits for a holder that came in on the fast way (`weft_shm::bias`).
pub(crate) struct Own {
    inner: bias::Own<'static, ()>,
}

/// The process, for the thread to which its lock is biased; `None` to others. Only after the phase check.
#[inline(always)]
pub(crate) fn own(mine: Mine) -> Option<Own> {
    let own = Own { inner: shared().lock.own(mine)? };
    // No read-modify-write: the lock is held.
    GATE.calls.store(GATE.calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    Some(own)
}

impl Own {
    /// What the lock protects.
    #[inline(always)]
    pub(crate) fn process(&mut self) -> &mut Process {
        // SAFETY: the lock is held as long as this lives, and the reference borrows it; the phase check implies that the
        // process was started, and nobody comes back to the gate while it has the reference.
        unsafe { (*GATE.process.get()).as_mut().unwrap_unchecked() }
    }

    /// Gives the process back after what concerns nobody else.
    #[inline(always)]
    pub(crate) fn end(self) {
        self.inner.end();
    }

    /// Gives the process back; `changed`: something moved that others may wait for.
    #[inline(always)]
    pub(crate) fn leave(mut self, changed: bool) {
        // As in `unlock`.
        let watched = changed && GATE.watchers.load(Ordering::Relaxed) != 0;
        let rings = self.process().engine.take_ended_watched() || watched;
        self.inner.end();
        if rings {
            ring();
        }
    }
}
