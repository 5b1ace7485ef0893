//! The bells of this crate: what threads of a process sleep on (the protocol is [`crate::bell`]'s).

use crate::bell::{self, BLIND_SLEEP};
use crate::segment::Segment;
use crate::sys;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weft_api::Bell;

/// The bell of a process on a node; each clone serves one thread.
#[derive(Debug)]
pub struct ShmBell {
    segment: Arc<Segment>,
    me: u32,
    membarrier: bool,
    blind: bool,
    /// The rings when this clone was armed.
    rings: Cell<Option<u32>>,
}

impl Clone for ShmBell {
    fn clone(&self) -> ShmBell {
        ShmBell { segment: Arc::clone(&self.segment), rings: Cell::new(None), ..*self }
    }
}

impl ShmBell {
    /// The bell of local rank `me`. `membarrier`: it issues the heavy barrier; `blind`: it cannot, though others rely on it.
    pub(crate) fn new(segment: Arc<Segment>, me: u32, membarrier: bool, blind: bool) -> ShmBell {
        ShmBell { segment, me, membarrier, blind, rings: Cell::new(None) }
    }

    /// Wakes all threads of this process that sleep or are about to, whatever they sleep for.
    ///
    /// Whoever calls this has changed what a sleeper looks at after arming, under a lock that the sleeper takes for that
    /// look: either the sleeper saw the change, or its arming happened before and is seen here.
    pub fn ring(&self) {
        bell::ring(&self.segment.slot(self.me).sleep);
    }
}

impl Bell for ShmBell {
    fn arm(&self) {
        arm(&self.segment.slot(self.me).sleep, &self.rings);
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.membarrier {
            sys::membarrier();
        }
    }

    fn sleep(&self, limit: Duration) {
        let limit = if self.blind { limit.min(BLIND_SLEEP) } else { limit };
        sleep(&self.segment.slot(self.me).sleep, &self.rings, limit);
    }

    fn disarm(&self) {
        disarm(&self.segment.slot(self.me).sleep, &self.rings);
    }
}

impl Drop for ShmBell {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// The bell of a process without others: only its own threads ring it. Each clone serves one thread.
#[derive(Debug, Default)]
pub struct LonelyBell {
    word: Arc<AtomicU32>,
    rings: Cell<Option<u32>>,
}

impl Clone for LonelyBell {
    fn clone(&self) -> LonelyBell {
        LonelyBell { word: Arc::clone(&self.word), rings: Cell::new(None) }
    }
}

impl LonelyBell {
    /// As [`ShmBell::ring`].
    pub fn ring(&self) {
        bell::ring(&*self.word);
    }
}

impl Bell for LonelyBell {
    fn arm(&self) {
        arm(&self.word, &self.rings);
    }

    fn sleep(&self, limit: Duration) {
        sleep(&self.word, &self.rings, limit);
    }

    fn disarm(&self) {
        disarm(&self.word, &self.rings);
    }
}

impl Drop for LonelyBell {
    fn drop(&mut self) {
        self.disarm();
    }
}

fn arm(word: &AtomicU32, rings: &Cell<Option<u32>>) {
    if rings.get().is_none() {
        rings.set(Some(bell::arm(word)));
    }
}

fn sleep(word: &AtomicU32, rings: &Cell<Option<u32>>, limit: Duration) {
    let Some(armed) = rings.get() else { return };
    let end = Instant::now() + limit;
    while let Some(value) = bell::still_armed(word, armed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        sys::futex_wait(word, value, left);
    }
    disarm(word, rings);
}

fn disarm(word: &AtomicU32, rings: &Cell<Option<u32>>) {
    if let Some(armed) = rings.take() {
        bell::disarm(word, armed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        bell.ring();
        sleeper.join().expect("woken");
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
