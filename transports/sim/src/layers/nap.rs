//! Bells of layers: what becomes due by itself rings none, so nobody sleeps beyond it.

use super::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weft_api::Bell;

/// No sleep is longer. It bounds what is missed: something that another lane's layer holds back, or that a look did not come to.
const LONGEST: Duration = Duration::from_millis(1);

/// When the next thing is due that a layer holds back.
///
/// *Memory ordering:* relaxed. The layer writes it in the look that comes between arming and sleeping, which the sleeper makes itself
/// or sees through the lock that guards the transport. One that is read too late makes a sleep longer by [`LONGEST`] at most.
#[derive(Clone, Debug)]
pub(super) struct Due(Arc<AtomicU64>);

const NOTHING: u64 = u64::MAX;

impl Due {
    pub(super) fn new() -> Due {
        Due(Arc::new(AtomicU64::new(NOTHING)))
    }

    /// A new turn of looks begins: what they find due counts.
    pub(super) fn clear(&self) {
        self.0.store(NOTHING, Ordering::Relaxed);
    }

    /// Something is due then.
    pub(super) fn at(&self, time: u64) {
        self.0.fetch_min(time, Ordering::Relaxed);
    }
}

/// The bell below, for sleeps that end when something is due.
#[derive(Clone, Debug)]
pub struct Napping<B> {
    inner: B,
    due: Due,
    clock: Clock,
}

impl<B> Napping<B> {
    pub(super) fn new(inner: B, due: Due, clock: Clock) -> Napping<B> {
        Napping { inner, due, clock }
    }

    /// The bell below.
    pub const fn inner(&self) -> &B {
        &self.inner
    }
}

impl<B: Bell> Bell for Napping<B> {
    fn arm(&self) {
        self.inner.arm();
    }

    fn sleep(&self, limit: Duration) {
        let limit = match self.due.0.load(Ordering::Relaxed) {
            NOTHING => limit.min(LONGEST),
            due => limit.min(LONGEST).min(Duration::from_nanos(due.saturating_sub(self.clock.now()))),
        };
        if limit.is_zero() {
            return self.inner.disarm();
        }
        self.inner.sleep(limit);
    }

    fn disarm(&self) {
        self.inner.disarm();
    }
}
