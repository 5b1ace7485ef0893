//! Doorbells: how a process sleeps on shared memory and on descriptors of another transport at once.
//!
//! A futex and a descriptor cannot be waited for together on all kernels. So a thread that has descriptors to wait for sleeps
//! on these and on a datagram socket of its own, its *doorbell*, and whoever rings its process ([`crate::bell`]) also sends a
//! byte to each doorbell that somebody sleeps on. The sockets are in the kernel's abstract name space: no file, nothing that
//! stays behind.
//!
//! The doors of a process hold a random `name`, from which with the number of the place the sockets' names follow, and a word:
//!
//! ```text
//! polled   31: some ringer could not reach a doorbell     30..0: places where a thread sleeps on its doorbell
//! ```
//!
//! # Memory ordering
//! A sleeper sets its bit, fences, looks whether one of its lanes was rung, then polls. A ringer changes the lane's sleep word,
//! fences, loads the bits. One of them sees the other: the ringer the bit, or the sleeper the ring. A datagram that is sent
//! before the poll begins makes the poll return at once. One that comes after the sleeper has gone is drained by the next one
//! in its place, which wakes up once for nothing. `tests/loom_doorbell.rs` is the model.
//!
//! Where doorbells cannot be reached (ranks of one node in different network name spaces that share memory all the same) the
//! ringer says so, and sleeps are short from then on.

use crate::bell::{BLIND_SLEEP, Doors};
use crate::sys;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// Threads of one process that can sleep on a doorbell at the same time.
const PLACES: u32 = 31;
const UNREACHABLE: u32 = 1 << PLACES;

/// The word of the places where threads sleep, one bit each, so that the model checker can stand in.
pub trait Places {
    /// Adds a place (SeqCst).
    fn add(&self, place: u32);
    /// Takes a place out (SeqCst).
    fn remove(&self, place: u32);
    /// The places (SeqCst).
    fn all(&self) -> u32;
    /// A full barrier.
    fn barrier(&self);
}

/// A thread is about to sleep at `place`: it looks once more whether it was rung, then polls, then takes its place out again.
#[inline]
pub fn settle(places: &impl Places, place: u32) {
    places.add(place);
    places.barrier();
}

/// The places to be rung by a thread that has changed a sleep word.
#[inline]
pub fn sleepers(places: &impl Places) -> u32 {
    places.barrier();
    places.all()
}

impl Places for Doors {
    fn add(&self, place: u32) {
        self.polled.fetch_or(1 << place, Ordering::SeqCst);
    }

    fn remove(&self, place: u32) {
        self.polled.fetch_and(!(1 << place), Ordering::SeqCst);
    }

    #[inline]
    fn all(&self) -> u32 {
        self.polled.load(Ordering::SeqCst) & !UNREACHABLE
    }

    #[inline]
    fn barrier(&self) {
        fence(Ordering::SeqCst);
    }
}

/// The doorbells of this process.
#[derive(Debug, Default)]
pub(crate) struct Doorbells {
    /// Places in use, one bit each.
    taken: AtomicU32,
    /// Sleeps since a ringer said that it cannot reach us.
    short: AtomicU32,
    /// `None` inside: the system gave no socket.
    sockets: [OnceLock<Option<UnixDatagram>>; PLACES as usize],
}

/// One thread's doorbell, for one sleep.
pub(crate) struct Doorbell<'a> {
    bells: &'a Doorbells,
    doors: &'a Doors,
    place: u32,
    socket: &'a UnixDatagram,
}

fn address(name: u64, place: u32) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("weft-bell-{name:016x}-{place}"))
}

fn open(name: u64, place: u32) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind_addr(&address(name, place)?)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Doorbells {
    /// Takes a place for a thread that is about to sleep and has armed its lanes of `doors`, those of this process: from now on
    /// it is rung. `None` when there is no place or no socket.
    pub(crate) fn take<'a>(&'a self, doors: &'a Doors) -> Option<Doorbell<'a>> {
        let mut taken = self.taken.load(Ordering::Relaxed);
        let place = loop {
            let place = taken.trailing_ones();
            if place >= PLACES {
                return None;
            }
            match self.taken.compare_exchange_weak(
                taken,
                taken | 1 << place,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break place,
                Err(found) => taken = found,
            }
        };
        let name = match doors.name.compare_exchange(0, sys::nonce(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => doors.name.load(Ordering::Acquire),
            Err(name) => name,
        };
        let Some(socket) = self.sockets[place as usize].get_or_init(|| open(name, place).ok()) else {
            self.taken.fetch_and(!(1 << place), Ordering::Release);
            return None;
        };
        self.try_again(doors);
        settle(doors, place);
        Some(Doorbell { bells: self, doors, place, socket })
    }
}

/// So many short sleeps later doorbells are believed in again: what kept a ringer away may have passed (memory of the kernel's, a
/// limit). Where it has not, one sleep among so many is a long one.
const PENANCE: u32 = 1000;

impl Doorbells {
    /// Every [`PENANCE`] sleeps at doorbells that cannot be reached, forgets that they cannot.
    fn try_again(&self, doors: &Doors) {
        if doors.polled.load(Ordering::Relaxed) & UNREACHABLE != 0
            && self.short.fetch_add(1, Ordering::Relaxed) % PENANCE == PENANCE - 1
        {
            doors.polled.fetch_and(!UNREACHABLE, Ordering::SeqCst);
        }
    }
}

impl Doorbell<'_> {
    /// Whether a ringer said that it cannot reach the doorbells of this process.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.doors.polled.load(Ordering::Relaxed) & UNREACHABLE != 0
    }

    /// Sleeps until somebody rings (or rang) this doorbell, or one of `others` is readable, at most `limit`. `false` when one
    /// of the others is readable.
    pub(crate) fn wait(&self, others: &[BorrowedFd<'_>], limit: Duration) -> bool {
        // Nobody could have said so before the first ring that failed, which may come during this very sleep.
        let limit = if self.is_unreachable() { limit.min(BLIND_SLEEP) } else { limit };
        let mut list = Vec::with_capacity(others.len() + 1);
        list.push(self.socket.as_fd());
        list.extend_from_slice(others);
        let readable = sys::poll(&list, limit);
        if readable & 1 != 0 {
            while self.socket.recv(&mut [0]).is_ok() {}
        }
        readable >> 1 == 0
    }
}

impl Drop for Doorbell<'_> {
    fn drop(&mut self) {
        self.doors.remove(self.place);
        self.bells.taken.fetch_and(!(1 << self.place), Ordering::Release);
    }
}

/// Rings every doorbell that a thread of the process with these doors sleeps on. The caller has changed a sleep word.
#[inline]
pub(crate) fn ring(doors: &Doors) {
    let places = sleepers(doors);
    if places != 0 {
        ring_places(doors, places);
    }
}

#[cold]
fn ring_places(doors: &Doors, mut places: u32) {
    static RINGER: OnceLock<Option<UnixDatagram>> = OnceLock::new();
    let ringer = RINGER.get_or_init(|| {
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(socket)
    });
    let name = doors.name.load(Ordering::Acquire);
    while places != 0 {
        let place = places.trailing_zeros();
        places &= places - 1;
        let sent = match (ringer, address(name, place)) {
            (Some(ringer), Ok(address)) => ringer.send_to_addr(&[1], &address).map(|_| ()),
            _ => Err(ErrorKind::Unsupported.into()),
        };
        // A full one rings already. One that is gone is no loss if its sleeper is too.
        let rings = matches!(&sent, Err(error) if error.kind() == ErrorKind::WouldBlock);
        if sent.is_err() && !rings && doors.polled.load(Ordering::SeqCst) & 1 << place != 0 {
            doors.polled.fetch_or(UNREACHABLE, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_ring_ends_the_sleep_of_everybody_and_stays_until_it_is_heard() {
        let (bells, doors) = (Doorbells::default(), Doors::new());
        let (one, two) = (bells.take(&doors).expect("a place"), bells.take(&doors).expect("a place"));
        ring(&doors);
        let start = Instant::now();
        assert!(one.wait(&[], LONG) && two.wait(&[], LONG));
        assert!(start.elapsed() < LONG / 2);
        assert!(!one.is_unreachable());
        drop((one, two));
        assert_eq!(doors.polled.load(Ordering::Relaxed), 0);
        ring(&doors);
        let again = bells.take(&doors).expect("a place");
        let start = Instant::now();
        again.wait(&[], Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20), "nobody was there to be rung");
    }

    #[test]
    fn another_descriptor_ends_the_sleep_too() {
        let (bells, doors) = (Doorbells::default(), Doors::new());
        let (ours, theirs) = UnixDatagram::pair().expect("a pair");
        let doorbell = bells.take(&doors).expect("a place");
        theirs.send(&[1]).expect("sent");
        assert!(!doorbell.wait(&[ours.as_fd()], LONG));
    }

    #[test]
    fn who_cannot_be_reached_sleeps_shortly() {
        let (bells, doors) = (Doorbells::default(), Doors::new());
        let doorbell = bells.take(&doors).expect("a place");
        // As from another network name space: nobody of that name is there.
        doors.name.store(1, Ordering::Release);
        ring(&doors);
        assert!(doorbell.is_unreachable());
        let start = Instant::now();
        doorbell.wait(&[], LONG);
        assert!(start.elapsed() < LONG / 2);
        drop(doorbell);
        for sleep in 0..2 * PENANCE {
            let reachable = !bells.take(&doors).expect("a place").is_unreachable();
            assert_eq!(reachable, sleep >= PENANCE - 1, "sleep {sleep}");
        }
    }

    #[test]
    fn places_run_out_and_come_back() {
        let (bells, doors) = (Doorbells::default(), Doors::new());
        let mut taken: Vec<Doorbell<'_>> =
            (0..PLACES).map(|_| bells.take(&doors).expect("a place")).collect();
        assert!(bells.take(&doors).is_none());
        taken.remove(7);
        assert!(bells.take(&doors).is_some_and(|bell| bell.place == 7));
    }
}
