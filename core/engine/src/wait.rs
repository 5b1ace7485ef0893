//! How a blocked call waits: spin, then yield, then sleep until rung. Pure policy; the caller's loop is
//!
//! ```text
//! let mut waiter = Waiter::new(oversubscribed);
//! loop {
//!     lock engine; moved = engine.progress(); done = engine.is_complete(request); unlock
//!     if done { break }
//!     if moved { waiter.moved() }
//!     waiter.pause(&bell);
//! }
//! waiter.finish(&bell);
//! ```

use std::time::Duration;
use weft_api::Bell;

/// What a waiting caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Look again after a pause instruction.
    Spin,
    /// Let another process of this core run first.
    Yield,
    /// The bell is armed; nothing was found since: sleep.
    Armed,
}

/// Adaptive waiting of one blocked call.
///
/// Spins for a few microseconds, then yields, then arms the bell, lets the caller look once more, and sleeps
/// with growing limits. With more ranks than cores it does not spin at all.
#[derive(Debug)]
pub struct Waiter {
    oversubscribed: bool,
    phase: Phase,
    left: u32,
    naps: u32,
}

const SPINS: u32 = 2000;
const YIELDS: u32 = 200;
const YIELDS_OVERSUBSCRIBED: u32 = 4;
const SHORTEST_NAP: Duration = Duration::from_millis(1);
const LONGEST_NAP: Duration = Duration::from_millis(100);

impl Waiter {
    /// A waiter for one blocked call; `oversubscribed` when the node runs more ranks than cores.
    pub fn new(oversubscribed: bool) -> Waiter {
        let mut waiter = Waiter { oversubscribed, phase: Phase::Spin, left: 0, naps: 0 };
        waiter.restart();
        waiter
    }

    /// Something moved: the awaited thing may be near, so begin again with short pauses.
    #[inline]
    pub fn moved(&mut self) {
        if self.phase != Phase::Armed {
            self.restart();
        }
        self.naps = 0;
    }

    /// Waits a little before the caller looks again. The engine must not be locked.
    #[inline]
    pub fn pause<B: Bell>(&mut self, bell: &B) {
        if self.phase == Phase::Spin && self.left > 0 {
            self.left -= 1;
            std::hint::spin_loop();
            return;
        }
        self.pause_longer(bell);
    }

    /// Ends the wait: takes back an announced sleep.
    #[inline]
    pub fn finish<B: Bell>(&mut self, bell: &B) {
        if self.phase == Phase::Armed {
            bell.disarm();
            self.restart();
        }
    }

    #[cold]
    #[inline(never)]
    fn pause_longer<B: Bell>(&mut self, bell: &B) {
        match self.phase {
            Phase::Spin => {
                self.phase = Phase::Yield;
                self.left = if self.oversubscribed { YIELDS_OVERSUBSCRIBED } else { YIELDS };
                std::thread::yield_now();
            }
            Phase::Yield if self.left > 0 => {
                self.left -= 1;
                std::thread::yield_now();
            }
            Phase::Yield => {
                bell.arm();
                self.phase = Phase::Armed;
            }
            Phase::Armed => {
                let limit = SHORTEST_NAP.saturating_mul(1 << self.naps.min(10)).min(LONGEST_NAP);
                bell.sleep(limit);
                self.naps += 1;
                // A sleeper that was rung looks first, and arms again at once when it finds nothing.
                self.phase = Phase::Yield;
                self.left = 0;
            }
        }
    }

    fn restart(&mut self) {
        self.phase = Phase::Spin;
        self.left = if self.oversubscribed { 0 } else { SPINS };
    }
}
