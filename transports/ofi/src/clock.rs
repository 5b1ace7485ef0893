//! The time that all of this crate looks at: the system's, or one that a test sets.
//!
//! In a set time nothing waits: seconds pass when the test says so ([`pass`]), and a little with every look, so that whoever goes on until a
//! time has come gets there. It is one time for all ends of the process, which a world of many processes in one thread has in common.
#![forbid(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds since the set time began; 0: it is the system's.
///
/// ORDERING: everywhere Relaxed. It says nothing of other memory, and the thread that sets it makes the calls that look at it.
static SET: AtomicU64 = AtomicU64::new(0);
/// By how much a look at a set time lets it go on.
static LOOK: AtomicU64 = AtomicU64::new(0);

/// The present.
#[inline]
pub(crate) fn now() -> Instant {
    if SET.load(Ordering::Relaxed) == 0 { Instant::now() } else { set_now() }
}

/// How long ago something was.
#[inline]
pub(crate) fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

/// Whether a test has set the time.
pub(crate) fn is_set() -> bool {
    SET.load(Ordering::Relaxed) > 0
}

#[cold]
fn set_now() -> Instant {
    let passed = SET.fetch_add(LOOK.load(Ordering::Relaxed), Ordering::Relaxed);
    beginning() + Duration::from_nanos(passed)
}

/// When the set time began: a day after the system's, so that there is a time before it.
fn beginning() -> Instant {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    *BEGINNING.get_or_init(|| Instant::now() + Duration::from_secs(86_400))
}

/// From now on the time is a set one, which goes on by so much with every look. For tests.
pub fn set(look: Duration) {
    LOOK.store(look.as_nanos() as u64, Ordering::Relaxed);
    SET.fetch_max(1, Ordering::Relaxed);
}

/// Lets set time pass.
///
/// # Panics
/// It was not set.
pub fn pass(time: Duration) {
    let before = SET.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    assert!(before > 0, "time is set before it is made to pass");
}

/// How much set time has passed since it began, of all worlds of this process.
pub fn passed() -> Duration {
    Duration::from_nanos(SET.load(Ordering::Relaxed))
}
