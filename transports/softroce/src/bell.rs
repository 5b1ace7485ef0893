//! Sleeping until a datagram comes, another thread rings, or the device's clock does.

use crate::entrance::Sockets;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_api::sleepers::{Sleeper, Sleepers};
use weft_api::verbs::Nanos;
use weft_api::{Bell, Pollable};

/// When a device wants to be called although nothing has come, for all of its bells: that changes with every packet, and a bell is kept as long
/// as somebody waits.
///
/// Told and read without order: who sleeps has told it itself, at the end of the look before, and another thread that tells later is one that calls the
/// device by itself.
#[derive(Debug)]
pub(crate) struct Due {
    /// The moment at which the device's time began.
    began: Instant,
    at: AtomicU64,
}

impl Due {
    const NEVER: Nanos = Nanos::MAX;

    pub(crate) fn new(began: Instant) -> Due {
        Due { began, at: AtomicU64::new(Due::NEVER) }
    }

    pub(crate) fn set(&self, deadline: Option<Nanos>) {
        self.at.store(deadline.unwrap_or(Due::NEVER), Ordering::Relaxed);
    }

    /// How long until then; `None`: it does not come.
    fn left(&self) -> Option<Duration> {
        let at = Some(self.at.load(Ordering::Relaxed)).filter(|&at| at != Due::NEVER)?;
        Some(Duration::from_nanos(at).saturating_sub(self.began.elapsed()))
    }
}

/// What a thread sleeps on that waits for the device; see the module.
#[derive(Clone, Debug)]
pub struct UdpBell {
    sockets: Arc<dyn Sockets>,
    sleeper: Sleeper,
    due: Arc<Due>,
}

impl UdpBell {
    pub(crate) fn new(sockets: Arc<dyn Sockets>, sleepers: Arc<Sleepers>, due: Arc<Due>) -> UdpBell {
        UdpBell { sockets, sleeper: Sleeper::new(sleepers), due }
    }

    /// Wakes the threads of this process that sleep, or are about to: see [`Sleepers::ring`].
    pub fn ring(&self) {
        self.sleeper.sleepers().ring();
    }
}

impl Bell for UdpBell {
    // The kernel keeps what arrives between a look and a sleep.
    fn arm(&self) {
        self.sleeper.arm();
    }

    fn sleep(&self, limit: Duration) {
        let (own, limit) = (self.sockets.own(), self.limit(limit));
        match self.sockets.second() {
            Some(second) => self.sleeper.sleep(&[own, second], limit),
            None => self.sleeper.sleep(&[own], limit),
        }
        self.disarm();
    }

    fn disarm(&self) {
        self.sleeper.disarm();
    }
}

impl Pollable for UdpBell {
    fn descriptors<'a>(&'a self, list: &mut Vec<BorrowedFd<'a>>) {
        list.extend([self.sockets.own(), self.sleeper.descriptor()]);
        list.extend(self.sockets.second());
    }

    fn limit(&self, limit: Duration) -> Duration {
        let left = self.due.left().map_or(limit, |left| left.min(limit));
        left.max(Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::OwnedFd;

    const LONG: Duration = Duration::from_secs(60);

    /// What a device waits for comes and goes while somebody waits for it: a bell that kept the first deadline would sleep a millisecond at a
    /// time from then on, and one that was made before there was any would sleep beyond it.
    #[test]
    fn a_bell_goes_by_what_the_device_waits_for_now() {
        let began = Instant::now();
        let due = Arc::new(Due::new(began));
        let socket = OwnedFd::from(UdpSocket::bind(("127.0.0.1", 0)).unwrap());
        let bell = UdpBell::new(Arc::new(socket), Arc::new(Sleepers::new().unwrap()), Arc::clone(&due));
        assert_eq!(bell.limit(LONG), LONG, "no deadline");
        due.set(Some((began.elapsed() + LONG / 4).as_nanos() as Nanos));
        assert!((LONG / 8..LONG / 2).contains(&bell.limit(LONG)), "{:?}", bell.limit(LONG));
        due.set(Some(0));
        assert_eq!(bell.limit(LONG), Duration::from_millis(1), "over, and the next look sees to it");
        due.set(None);
        assert_eq!(bell.limit(LONG), LONG, "seen to");
    }
}
