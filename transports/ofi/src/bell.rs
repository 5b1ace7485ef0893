//! Sleeping until the provider has something, or another thread rings.
//!
//! A wait object may be slept on only after the library was asked (`fi_trywait`), and that question must not meet other calls.
//! So it is asked by the look that follows the arming ([`WaitObject::is_awaited`]), with the transport at hand; its answer is
//! left here for the sleeper.
//!
//! *A wait object that stays up.* The sockets' provider of libfabric 1.17 answers that question without taking its own signal back: from the first completion on its
//! wait object is readable for ever, and whoever sleeps on it as it is never does. So the last thing before a sleep is to ask the kernel; of an
//! object that is up although the library has nothing, sleepers wait for the next *change* instead (an `epoll` that tells edges). A change is taken
//! note of before the look that finds nothing, so one that comes after that look is still to be told.
//!
//! # Memory ordering of the answer
//! It is one word, which says nothing of other memory, so everything is Relaxed. Looks are made one after the other with the transport at
//! hand, and a sleeper makes one itself between its arming and its sleep: what it reads is its own answer, or that of a later look, which was in
//! vain as well and holds as well. Who sleeps here reads the word once. Who is asked first what to sleep on and then for how long
//! ([`Pollable`]) may find two answers, of which the second is younger. A wait object that was up for nothing and is down by then is changed by
//! whatever comes, so its changes tell all, however long one sleeps on them; of one that was down and is up by then the sleep ends
//! at once, and its thread looks again.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use weft_api::sleepers::{Sleeper, Sleepers};
use weft_api::{Bell, Pollable};

/// How long a sleeper sleeps whom the provider cannot wake, or not by everything.
const NAP: Duration = Duration::from_micros(50);
/// How long one sleeps on changes: should a provider tell something without one, it is found then.
const DOZE: Duration = Duration::from_millis(10);

/// The library said that its wait object tells of everything that comes from now on.
const SAFE: u8 = 1;
/// Something goes on that the wait object does not tell of.
const SILENT: u8 = 2;
/// The wait object is up for nothing: changes are slept on.
const STUCK: u8 = 4;

/// What the provider wakes sleepers by, and who sleeps.
#[derive(Debug)]
pub(crate) struct WaitObject {
    /// The answer of the last look: bits of the above.
    answer: AtomicU8,
    /// The provider's wait object.
    wait: Option<OwnedFd>,
    /// Tells when the wait object changes, whether or not it is up. `None`: there is none, or the kernel cannot.
    changes: Option<Epoll>,
    sleepers: Arc<Sleepers>,
}

impl WaitObject {
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(wait: Option<OwnedFd>) -> std::io::Result<WaitObject> {
        Ok(WaitObject {
            answer: AtomicU8::new(0),
            changes: wait.as_ref().and_then(changes_of),
            wait,
            sleepers: Arc::new(Sleepers::new()?),
        })
    }

    /// Whether somebody is about to sleep on the wait object and wants to know whether that is safe.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.wait.is_some() && self.sleepers.is_awaited()
    }

    /// The answer, and whether something goes on that nothing wakes anybody for. Of a caller that has just looked in vain.
    pub(crate) fn may_sleep(&self, safe: bool, silent: bool) {
        let up = safe && self.is_up();
        let safe = safe && !(up && self.has_changed());
        let bit = |of: bool, bit: u8| if of { bit } else { 0 };
        let answer = bit(safe, SAFE) | bit(silent, SILENT) | bit(up, STUCK);
        self.answer.store(answer, Ordering::Relaxed);
    }

    fn answer(&self) -> u8 {
        self.answer.load(Ordering::Relaxed)
    }

    /// Whether the wait object is readable.
    fn is_up(&self) -> bool {
        let Some(wait) = &self.wait else { return false };
        poll(&mut [PollFd::new(wait.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO)
            .is_ok_and(|number| number > 0)
    }

    /// Whether anything has happened to it since this was asked last. Where that cannot be known: yes, and nobody sleeps.
    fn has_changed(&self) -> bool {
        let mut told = [EpollEvent::empty()];
        self.changes
            .as_ref()
            .is_none_or(|changes| changes.wait(&mut told, EpollTimeout::ZERO).is_ok_and(|number| number > 0))
    }

    /// What to sleep on, after an answer.
    fn awaited(&self, answer: u8) -> Option<BorrowedFd<'_>> {
        match &self.changes {
            Some(changes) if answer & STUCK != 0 => Some(changes.0.as_fd()),
            _ => self.wait.as_ref().map(AsFd::as_fd),
        }
    }

    /// How long to sleep at most, after an answer.
    fn limit(&self, answer: u8, limit: Duration) -> Duration {
        match self.wait {
            Some(_) if answer & SAFE != 0 => {
                let limit = if answer & STUCK != 0 { limit.min(DOZE) } else { limit };
                if answer & SILENT != 0 { limit.min(NAP) } else { limit }
            }
            // Something has come, or may have.
            Some(_) => Duration::ZERO,
            None => limit.min(NAP),
        }
    }
}

fn changes_of(wait: &OwnedFd) -> Option<Epoll> {
    let changes = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok()?;
    changes.add(wait, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0)).ok()?;
    Some(changes)
}

/// What a blocked caller sleeps on.
#[derive(Clone, Debug)]
pub struct OfiBell {
    object: Arc<WaitObject>,
    sleeper: Sleeper,
}

impl OfiBell {
    pub(crate) fn new(object: Arc<WaitObject>) -> OfiBell {
        let sleeper = Sleeper::new(Arc::clone(&object.sleepers));
        OfiBell { object, sleeper }
    }

    /// Wakes the threads of this process that sleep, or are about to: see [`Sleepers::ring`].
    pub fn ring(&self) {
        self.sleeper.sleepers().ring();
    }
}

impl Bell for OfiBell {
    fn arm(&self) {
        self.sleeper.arm();
    }

    fn sleep(&self, limit: Duration) {
        let answer = self.object.answer();
        let limit = self.object.limit(answer, limit);
        match self.object.awaited(answer) {
            Some(awaited) => self.sleeper.sleep(&[awaited], limit),
            None => self.sleeper.sleep(&[], limit),
        }
        self.disarm();
    }

    fn disarm(&self) {
        self.sleeper.disarm();
    }
}

impl Pollable for OfiBell {
    fn descriptors<'a>(&'a self, list: &mut Vec<BorrowedFd<'a>>) {
        list.extend(self.object.awaited(self.object.answer()));
        list.push(self.sleeper.descriptor());
    }

    fn limit(&self, limit: Duration) -> Duration {
        self.object.limit(self.object.answer(), limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    /// As the provider's: an `epoll` of a signal and of a connection, whose other ends are given.
    fn provider() -> (OwnedFd, Epoll, [UnixStream; 4]) {
        let inner = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
        let [(signal, raises), (connection, peer)] =
            [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
        for fd in [&signal, &connection] {
            inner.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 0)).unwrap();
        }
        (inner.0.as_fd().try_clone_to_owned().unwrap(), inner, [signal, raises, connection, peer])
    }

    /// What a caller does that looks in vain: whether it slept, and how long.
    fn look_and_sleep(bell: &OfiBell, limit: Duration) -> Option<Duration> {
        bell.arm();
        bell.object.may_sleep(true, false);
        let begun = Instant::now();
        let sleeps = bell.limit(limit) > Duration::ZERO;
        bell.sleep(limit);
        sleeps.then(|| begun.elapsed())
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_wait_object_that_stays_up_is_slept_on_until_the_next_change() {
        let (wait, _inner, [_signal, mut raises, _connection, mut peer]) = provider();
        let bell = OfiBell::new(Arc::new(WaitObject::new(Some(wait)).unwrap()));
        raises.write_all(b"!").unwrap();
        assert_eq!(look_and_sleep(&bell, LONG), None, "that may be something");
        for _ in 0..3 {
            let slept = look_and_sleep(&bell, LONG).expect("it was nothing, and nothing else came");
            assert!(slept >= DOZE, "{slept:?}");
        }
        // What comes between a look and the sleep ends it, and is a reason to look.
        bell.arm();
        bell.object.may_sleep(true, false);
        let slept_on = bell.object.awaited(bell.object.answer()).expect("something is slept on");
        let ends =
            || poll(&mut [PollFd::new(slept_on, PollFlags::POLLIN)], PollTimeout::from(200_u8)).unwrap() > 0;
        assert!(!ends(), "it sleeps");
        peer.write_all(b"?").unwrap();
        assert!(ends(), "it wakes");
        bell.disarm();
        assert_eq!(look_and_sleep(&bell, LONG), None, "there is news");
        assert!(look_and_sleep(&bell, LONG).is_some());
    }

    #[test]
    fn an_answer_is_all_or_nothing() {
        let (wait, _inner, _ends) = provider();
        let object = WaitObject::new(Some(wait)).unwrap();
        let limit = |object: &WaitObject| object.limit(object.answer(), LONG);
        assert_eq!(limit(&object), Duration::ZERO, "nobody has looked yet");
        object.may_sleep(true, true);
        assert_eq!(limit(&object), NAP);
        object.may_sleep(true, false);
        assert_eq!(limit(&object), LONG);
        object.may_sleep(false, true);
        assert_eq!(limit(&object), Duration::ZERO);
        let without = WaitObject::new(None).unwrap();
        without.may_sleep(false, false);
        assert_eq!(limit(&without), NAP, "nothing wakes it");
    }

    #[test]
    fn a_wait_object_that_is_down_is_slept_on_as_it_is() {
        let (wait, _inner, [_signal, _raises, _connection, mut peer]) = provider();
        let bell = OfiBell::new(Arc::new(WaitObject::new(Some(wait)).unwrap()));
        let slept = look_and_sleep(&bell, 3 * DOZE).expect("nothing came");
        assert!(slept >= 3 * DOZE, "to the end: {slept:?}");
        bell.arm();
        bell.object.may_sleep(true, false);
        peer.write_all(b"?").unwrap();
        let begun = Instant::now();
        bell.sleep(LONG);
        assert!(begun.elapsed() < LONG, "it wakes");
    }
}
