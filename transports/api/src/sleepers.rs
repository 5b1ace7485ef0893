//! The threads of a process that sleep on descriptors, and how other threads of it wake them.
//!
//! Transports whose bell sleeps on descriptors (a socket, a completion channel) share this: each thread's [`Sleeper`] counts
//! itself before its last look, and [`Sleepers::ring`] makes one more descriptor readable as long as somebody is counted.
//!
//! # Memory ordering
//! *Nobody sleeps through a ring.* Whoever rings has changed what a sleeper looks at, under a lock that the sleeper takes for
//! its look after arming. If the look came first, then so did the arming, and the lock hands its count over: the ringer's load
//! of `counted` sees it. If the change came first, the look finds it. So the load could be relaxed but for callers with weaker
//! locks; it is `SeqCst`, which costs a load nothing.
//!
//! *No ring is taken away from a sleeper.* The descriptor is raised and lowered under one mutex, together with the count. A
//! ring is owed to all who are counted at that moment, and the descriptor is lowered when the last of these has gone, never
//! before: a thread that arms while it is up wakes for nothing until they have gone, and one that arms after it was lowered is
//! owed what is rung from then on. Since those who come later are owed nothing, the descriptor comes down however many come and
//! go.
//!
//! `tests/loom_sleepers.rs` is the model.

use crate::primitive::{AtomicU32, Mutex, Ordering};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Something that can be waited for together with other descriptors: up or down.
pub trait Flag {
    /// Whoever waits for it, or comes to do so, goes on.
    fn raise(&self);
    /// Whoever comes from now on waits.
    fn lower(&self);
}

impl Flag for EventFd {
    fn raise(&self) {
        // It can only be full, and then it is readable.
        let _ = self.write(1);
    }

    fn lower(&self) {
        // Nothing to read is down.
        let _ = self.read();
    }
}

/// The sleepers of one transport of a process; see the module.
#[derive(Debug)]
pub struct Sleepers<F = EventFd> {
    /// Those who sleep or are about to, for who only looks.
    counted: AtomicU32,
    state: Mutex<State>,
    flag: F,
}

#[derive(Debug, Default)]
struct State {
    counted: u32,
    /// Rings so far.
    rings: u64,
    /// Those who were counted at the last ring and have not gone since; the flag is up as long as there are some.
    owed: u32,
}

impl Sleepers {
    /// Nobody sleeps yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Sleepers> {
        Ok(Sleepers::by(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?))
    }
}

impl<F: Flag> Sleepers<F> {
    /// As [`Sleepers::new`], with another kind of descriptor, which is down.
    pub fn by(flag: F) -> Sleepers<F> {
        Sleepers { counted: AtomicU32::new(0), state: Mutex::new(State::default()), flag }
    }

    /// Whether somebody sleeps or is about to.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        self.counted.load(Ordering::SeqCst) > 0
    }

    /// Wakes those who sleep or are about to: who armed before the caller changed what they look at (see the module).
    #[inline]
    pub fn ring(&self) {
        if self.is_awaited() {
            self.ring_counted();
        }
    }

    #[cold]
    fn ring_counted(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.counted == 0 {
            return;
        }
        state.rings += 1;
        if state.owed == 0 {
            self.flag.raise();
        }
        state.owed = state.counted;
    }

    /// The flag.
    pub fn flag(&self) -> &F {
        &self.flag
    }
}

/// One thread's place among the [`Sleepers`]; a clone is another thread's.
#[derive(Debug)]
pub struct Sleeper<F = EventFd> {
    sleepers: Arc<Sleepers<F>>,
    /// The rings before it was counted.
    since: Cell<u64>,
}

impl<F> Clone for Sleeper<F> {
    fn clone(&self) -> Sleeper<F> {
        Sleeper { sleepers: Arc::clone(&self.sleepers), since: Cell::new(0) }
    }
}

impl<F: Flag> Sleeper<F> {
    /// A thread that is not counted.
    pub fn new(sleepers: Arc<Sleepers<F>>) -> Sleeper<F> {
        Sleeper { sleepers, since: Cell::new(0) }
    }

    /// All of them.
    pub fn sleepers(&self) -> &Sleepers<F> {
        &self.sleepers
    }

    /// Counts this thread: rings are for it from now on, until [`Sleeper::disarm`].
    pub fn arm(&self) {
        let mut state = self.sleepers.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.counted += 1;
        self.since.set(state.rings);
        self.sleepers.counted.store(state.counted, Ordering::SeqCst);
    }

    /// Counts this thread no more.
    pub fn disarm(&self) {
        let mut state = self.sleepers.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.counted -= 1;
        self.sleepers.counted.store(state.counted, Ordering::SeqCst);
        if self.since.get() < state.rings {
            state.owed -= 1;
            if state.owed == 0 {
                self.sleepers.flag.lower();
            }
        }
    }
}

impl Sleeper {
    /// What is readable from a ring on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.sleepers.flag.as_fd()
    }

    /// Sleeps until a ring, or until one of `others` is readable, at most `limit`. Between [`Sleeper::arm`] and
    /// [`Sleeper::disarm`].
    pub fn sleep(&self, others: &[BorrowedFd<'_>], limit: Duration) {
        let of = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let limit = TimeSpec::from_duration(limit.min(LONGEST));
        // One or two descriptors besides, which need no list of the heap's.
        let result = match *others {
            [] => ppoll(&mut [of(self.descriptor())], Some(limit), None),
            [other] => ppoll(&mut [of(self.descriptor()), of(other)], Some(limit), None),
            _ => {
                let all = others.iter().copied().chain([self.descriptor()]);
                ppoll(&mut all.map(of).collect::<Vec<_>>(), Some(limit), None)
            }
        };
        // An interrupted sleep is a short one.
        debug_assert!(matches!(result, Ok(_) | Err(Errno::EINTR | Errno::ENOMEM)), "{result:?}");
    }
}

/// Longer than anybody sleeps, and a time that every kernel takes.
const LONGEST: Duration = Duration::from_secs(3600);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    fn place(sleepers: &Arc<Sleepers>) -> Sleeper {
        Sleeper::new(Arc::clone(sleepers))
    }

    /// Whether a sleep begins at all.
    fn sleeps(sleeper: &Sleeper) -> bool {
        let start = Instant::now();
        sleeper.sleep(&[], SHORT);
        start.elapsed() >= SHORT
    }

    #[test]
    fn a_ring_reaches_all_who_are_counted_and_nobody_else() {
        let sleepers = Arc::new(Sleepers::new().unwrap());
        let (one, two) = (place(&sleepers), place(&sleepers));
        sleepers.ring();
        one.arm();
        assert!(sleepers.is_awaited() && sleeps(&one), "nobody was there to be rung");
        two.arm();
        sleepers.ring();
        one.sleep(&[], LONG);
        one.disarm();
        two.sleep(&[], LONG);
        two.disarm();
        assert!(!sleepers.is_awaited());
        one.arm();
        assert!(sleeps(&one), "both have heard it");
        one.disarm();
    }

    #[test]
    fn who_goes_first_takes_no_ring_from_those_who_stay() {
        let sleepers = Arc::new(Sleepers::new().unwrap());
        let (early, late) = (place(&sleepers), place(&sleepers));
        early.arm();
        sleepers.ring();
        late.arm();
        sleepers.ring();
        early.disarm();
        late.sleep(&[], LONG);
        late.disarm();
        late.arm();
        assert!(sleeps(&late));
        late.disarm();
    }

    #[test]
    fn the_descriptor_comes_down_though_others_come_and_go() {
        let sleepers = Arc::new(Sleepers::new().unwrap());
        let (old, new) = (place(&sleepers), place(&sleepers));
        old.arm();
        sleepers.ring();
        new.arm();
        old.disarm();
        assert!(sleeps(&new), "it was not rung for this one");
        new.disarm();
    }

    #[test]
    fn another_descriptor_ends_a_sleep() {
        let sleepers = Arc::new(Sleepers::new().unwrap());
        let (sleeper, other) = (place(&sleepers), EventFd::from_value(1).unwrap());
        let down = EventFd::from_value(0).unwrap();
        sleeper.arm();
        sleeper.sleep(&[other.as_fd()], LONG);
        sleeper.sleep(&[down.as_fd(), other.as_fd()], LONG);
        sleeper.disarm();
    }
}
