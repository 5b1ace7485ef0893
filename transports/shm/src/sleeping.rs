//! The bells of this crate: what threads of a process sleep on (the protocol is [`crate::bell`]'s).

use crate::bell::{Arming, BLIND_SLEEP, Doors};
use crate::segment::Segment;
use crate::sys;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_api::Bell;

/// The bell of a process on a node; each clone serves one thread. Armed it listens to the lane it comes from, until told
/// otherwise.
#[derive(Debug)]
pub struct ShmBell {
    segment: Arc<Segment>,
    me: u32,
    membarrier: bool,
    blind: bool,
    arming: Arming,
}

impl Clone for ShmBell {
    fn clone(&self) -> ShmBell {
        ShmBell { segment: Arc::clone(&self.segment), arming: self.arming.another(), ..*self }
    }
}

impl ShmBell {
    /// The bell of local rank `me` for `lane`. `membarrier`: it issues the heavy barrier; `blind`: it cannot, though others rely
    /// on it.
    pub(crate) fn new(segment: Arc<Segment>, me: u32, lane: u32, membarrier: bool, blind: bool) -> ShmBell {
        ShmBell { segment, me, membarrier, blind, arming: Arming::of(1 << lane) }
    }

    fn doors(&self) -> &Doors {
        &self.segment.slot(self.me).doors
    }

    /// Wakes all threads of this process that listen to `lane` and sleep or are about to, whatever they sleep for.
    ///
    /// Whoever calls this has changed what a sleeper looks at after arming, under a lock that the sleeper takes for that
    /// look: either the sleeper saw the change, or its arming happened before and is seen here.
    pub fn ring(&self, lane: u32) {
        self.doors().ring(lane);
    }

    /// The next arming listens to these lanes, one bit each.
    pub fn listen(&self, lanes: u32) {
        self.arming.choose(lanes);
    }

    /// As [`Bell::sleep`], and ends also when one of `others` is readable: for a process that has another transport beside this
    /// one.
    pub fn sleep_beside(&self, others: &[BorrowedFd<'_>], limit: Duration) {
        let doors = self.doors();
        let Some(doorbell) = self.segment.doorbells.take(doors) else {
            // Nobody can be sure to ring both: the system gives no socket, or all places are taken.
            return self.sleep(limit.min(BLIND_SLEEP));
        };
        let blind = self.blind || doorbell.is_unreachable();
        let limit = if blind { limit.min(BLIND_SLEEP) } else { limit };
        self.arming.sleep_by(doors, limit, |_, _, left| doorbell.wait(others, left));
    }
}

impl Bell for ShmBell {
    fn arm(&self) {
        self.arming.arm(self.doors());
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.membarrier {
            sys::membarrier();
        }
    }

    fn sleep(&self, limit: Duration) {
        self.arming.sleep(self.doors(), if self.blind { limit.min(BLIND_SLEEP) } else { limit });
    }

    fn disarm(&self) {
        self.arming.disarm(self.doors());
    }
}

impl Drop for ShmBell {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// The bell of a process without others: only its own threads ring it. Each clone serves one thread.
#[derive(Debug)]
pub struct LonelyBell {
    doors: Arc<Doors>,
    arming: Arming,
}

impl Default for LonelyBell {
    fn default() -> LonelyBell {
        LonelyBell { doors: Arc::new(Doors::new()), arming: Arming::of(1) }
    }
}

impl Clone for LonelyBell {
    fn clone(&self) -> LonelyBell {
        LonelyBell { doors: Arc::clone(&self.doors), arming: self.arming.another() }
    }
}

impl LonelyBell {
    /// As [`ShmBell::ring`].
    pub fn ring(&self, lane: u32) {
        self.doors.ring(lane);
    }

    /// As [`ShmBell::listen`].
    pub fn listen(&self, lanes: u32) {
        self.arming.choose(lanes);
    }
}

impl Bell for LonelyBell {
    fn arm(&self) {
        self.arming.arm(&*self.doors);
    }

    fn sleep(&self, limit: Duration) {
        self.arming.sleep(&*self.doors, limit);
    }

    fn disarm(&self) {
        self.arming.disarm(&*self.doors);
    }
}

impl Drop for LonelyBell {
    fn drop(&mut self) {
        self.disarm();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_thread_of_a_process_without_others_is_woken_by_another() {
        let bell = LonelyBell::default();
        let mine = bell.clone();
        let (armed, is_armed) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            mine.arm();
            armed.send(()).expect("the other side waits");
            mine.sleep(Duration::from_secs(60));
        });
        is_armed.recv().expect("armed");
        let start = Instant::now();
        bell.ring(0);
        sleeper.join().expect("woken");
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
