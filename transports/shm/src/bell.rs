//! Sleeping until a packet may have come, and waking without a fence on the sender's side.
//!
//! Each lane of a process has one 32-bit *sleep word* in the node segment (most processes use lane 0 only):
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
//! `tests/loom_bell.rs` checks arm, ring, sleep and disarm together with a ring of cells, `tests/loom_doors.rs` threads that are
//! armed in several lanes ([`Arming`]).

use crate::doorbell;
use crate::layout::LANES;
use crate::sys;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

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

/// The sleep words of a process, by lane, and what its threads sleep on, so that the loom model can stand in.
pub trait Doorway {
    /// The sleep word of one lane.
    type Word<'a>: SleepWord
    where
        Self: 'a;

    /// The sleep word of a lane.
    fn door(&self, lane: u32) -> Self::Word<'_>;
    /// The count of wake-ups (SeqCst).
    fn wakes(&self) -> u32;
    /// Sleeps while the count of wake-ups is `wakes`, at most `limit`, for rings of `lanes` (one bit each); may return early.
    fn wait(&self, wakes: u32, lanes: u32, limit: Duration);
}

/// Marks the owner of the word as gone.
pub(crate) fn set_gone(word: &AtomicU32) {
    word.fetch_or(GONE, Ordering::SeqCst);
}

/// The sleep words of a process and what its threads sleep on.
///
/// A thread may be armed in several lanes, so the word that it sleeps on in the kernel is not a sleep word but a count of
/// wake-ups. A sleeper reads the count, then checks that no lane it is armed in was rung, then sleeps while the count is what
/// it was. A ringer changes the sleep word, then the count, then wakes those who are armed in its lane. If the sleeper
/// read the new count (Acquire), it sees the changed sleep word; if the old one, the kernel refuses to let it sleep or the
/// wake-up comes after it has begun to.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Doors {
    wakes: AtomicU32,
    /// See [`crate::doorbell`].
    pub(crate) polled: AtomicU32,
    /// See [`crate::doorbell`].
    pub(crate) name: AtomicU64,
    pub(crate) words: [AtomicU32; LANES as usize],
}

impl Doors {
    pub(crate) const fn new() -> Doors {
        Doors {
            wakes: AtomicU32::new(0),
            polled: AtomicU32::new(0),
            name: AtomicU64::new(0),
            words: [const { AtomicU32::new(0) }; LANES as usize],
        }
    }

    /// The sleep word of a lane.
    #[inline]
    pub(crate) fn word(&self, lane: u32) -> &AtomicU32 {
        &self.words[lane as usize]
    }

    /// Wakes everybody who is armed in a lane.
    pub(crate) fn ring(&self, lane: u32) {
        ring(&self.door(lane));
    }

    /// Says in every lane that the process is gone.
    pub(crate) fn set_gone(&self) {
        self.words.iter().for_each(set_gone);
    }
}

impl Doorway for Doors {
    type Word<'a> = Door<'a>;

    fn door(&self, lane: u32) -> Door<'_> {
        Door { doors: self, lane }
    }

    fn wakes(&self) -> u32 {
        self.wakes.load(Ordering::SeqCst)
    }

    fn wait(&self, wakes: u32, lanes: u32, limit: Duration) {
        sys::futex_wait(&self.wakes, wakes, lanes, limit);
    }
}

/// The sleep word of one lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door<'a> {
    doors: &'a Doors,
    lane: u32,
}

impl SleepWord for Door<'_> {
    #[inline]
    fn load(&self) -> u32 {
        self.doors.word(self.lane).load(Ordering::Relaxed)
    }

    fn swap_if(&self, current: u32, new: u32) -> Result<(), u32> {
        let word = self.doors.word(self.lane);
        word.compare_exchange(current, new, Ordering::SeqCst, Ordering::Relaxed).map(|_| ())
    }

    fn wake_all(&self) {
        self.doors.wakes.fetch_add(1, Ordering::SeqCst);
        sys::futex_wake(&self.doors.wakes, 1 << self.lane);
        doorbell::ring(self.doors);
    }
}

/// One thread's arming in some lanes of its process.
#[derive(Debug)]
pub struct Arming {
    /// The lanes to arm, one bit each.
    lanes: Cell<u32>,
    /// Those that are armed.
    armed: Cell<u32>,
    /// By lane: the rings when it was armed.
    rings: [Cell<u32>; LANES as usize],
}

impl Arming {
    /// Nothing armed yet; `lanes` are to be, one bit each.
    pub fn of(lanes: u32) -> Arming {
        Arming { lanes: Cell::new(lanes), armed: Cell::new(0), rings: Default::default() }
    }

    /// The same for another thread.
    pub(crate) fn another(&self) -> Arming {
        Arming::of(self.lanes.get())
    }

    /// Arms these lanes the next time.
    pub(crate) fn choose(&self, lanes: u32) {
        self.lanes.set(lanes);
    }

    /// Counts the thread in, in all chosen lanes, unless it is armed already. The caller issues the heavy barrier afterwards.
    pub fn arm(&self, doors: &impl Doorway) {
        if self.armed.get() != 0 {
            return;
        }
        self.armed.set(self.lanes.get());
        self.each(|lane| self.rings[lane as usize].set(arm(&doors.door(lane))));
    }

    /// Sleeps until a ring of an armed lane since [`Arming::arm`], at most `limit`; disarms.
    pub fn sleep(&self, doors: &impl Doorway, limit: Duration) {
        self.sleep_by(doors, limit, |wakes, armed, left| {
            doors.wait(wakes, armed, left);
            true
        });
    }

    /// As [`Arming::sleep`], but what waits is `wait(count of wake-ups, armed lanes, limit)`: it may return early, and answers
    /// `false` when the sleep is to end.
    pub fn sleep_by<D: Doorway>(
        &self,
        doors: &D,
        limit: Duration,
        mut wait: impl FnMut(u32, u32, Duration) -> bool,
    ) {
        if self.armed.get() == 0 {
            return;
        }
        let end = Instant::now() + limit;
        loop {
            let wakes = doors.wakes();
            let mut rung = false;
            self.each(|lane| {
                rung |= still_armed(&doors.door(lane), self.rings[lane as usize].get()).is_none();
            });
            let left = end.saturating_duration_since(Instant::now());
            if rung || left.is_zero() || !wait(wakes, self.armed.get(), left) {
                break;
            }
        }
        self.disarm(doors);
    }

    /// Takes the thread out of the count of every lane that was not rung.
    pub fn disarm(&self, doors: &impl Doorway) {
        self.each(|lane| disarm(&doors.door(lane), self.rings[lane as usize].get()));
        self.armed.set(0);
    }

    fn each(&self, mut work: impl FnMut(u32)) {
        let mut lanes = self.armed.get();
        while lanes != 0 {
            work(lanes.trailing_zeros());
            lanes &= lanes - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SleepWord for AtomicU32 {
        fn load(&self) -> u32 {
            self.load(Ordering::Relaxed)
        }

        fn swap_if(&self, current: u32, new: u32) -> Result<(), u32> {
            self.compare_exchange(current, new, Ordering::SeqCst, Ordering::Relaxed).map(|_| ())
        }

        fn wake_all(&self) {}
    }

    #[test]
    fn a_thread_is_woken_by_the_lanes_it_is_armed_in_and_by_no_other() {
        let doors = Doors::new();
        let arming = Arming::of(0b101);
        arming.arm(&doors);
        doors.ring(1);
        assert!(!needs_attention(doors.word(1).load(Ordering::Relaxed)));
        let start = Instant::now();
        arming.sleep(&doors, Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20), "lane 1 concerns others");
        arming.arm(&doors);
        doors.ring(2);
        arming.sleep(&doors, Duration::from_secs(60));
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(doors.word(0).load(Ordering::Relaxed) & COUNT, 0, "no longer armed anywhere");
    }

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
