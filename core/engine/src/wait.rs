//! How a blocked call waits: spin, then yield, then sleep until rung. Pure policy; the caller's loop is
//!
//! ```text
//! let mut waiter = Waiter::new(oversubscribed, engine.looks());
//! loop {
//!     lock engine; moved = engine.progress(); done = engine.is_complete(request); unlock
//!     if done { break }
//!     if moved { waiter.moved() }
//!     waiter.pause(&bell);
//! }
//! waiter.finish(&bell);
//! ```

use std::sync::OnceLock;
use std::time::{Duration, Instant};
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
    /// The bell is armed; something was found since, but not the awaited thing: look once more.
    ArmedAgain,
}

/// Adaptive waiting of one blocked call.
///
/// Spins for a few microseconds, then yields, then arms the bell, lets the caller look once more, and sleeps
/// with growing limits. With more ranks than cores it does not spin at all.
#[derive(Debug)]
pub struct Waiter {
    oversubscribed: bool,
    /// Pauses before the core is given away.
    spins: u32,
    phase: Phase,
    left: u32,
    naps: u32,
    gave_way: bool,
}

/// About as long as it takes to change threads: what another core brings meanwhile saves that.
const SPINS_CROWDED: u32 = 16;
const YIELDS: u32 = 200;
const YIELDS_OVERSUBSCRIBED: u32 = 50;
/// The same where each takes as long as to sleep and to be woken.
const YIELDS_DEAR: u32 = 2;
/// Calls of the kernel that do nothing are dear from here on. One takes .2 us on a machine, 1.2 in an emulated one, and 24 and more in
/// user-mode Linux, whose yields let nobody else run before the next tick.
const DEAR: Duration = Duration::from_micros(6);
const SHORTEST_NAP: Duration = Duration::from_millis(1);
const LONGEST_NAP: Duration = Duration::from_millis(100);

impl Waiter {
    /// A waiter for one blocked call; `oversubscribed` when the node runs more ranks than cores. Otherwise it looks so often
    /// ([`crate::Engine::looks`]) before it gives its core away.
    pub fn new(oversubscribed: bool, looks: u32) -> Waiter {
        Waiter::spinning(oversubscribed, if oversubscribed { 0 } else { looks })
    }

    /// A waiter of a process whose threads outnumber its cores; `spins`: it may keep its core for about as long as a change of
    /// threads takes.
    pub fn crowded(spins: bool) -> Waiter {
        Waiter::spinning(true, if spins { SPINS_CROWDED } else { 0 })
    }

    /// Whether it gave its core away, once or more.
    pub fn has_given_way(&self) -> bool {
        self.gave_way
    }

    fn spinning(oversubscribed: bool, spins: u32) -> Waiter {
        Waiter { oversubscribed, spins, phase: Phase::Spin, left: spins, naps: 0, gave_way: false }
    }

    /// Something moved: the awaited thing may be near, so begin again with short pauses.
    #[inline]
    pub fn moved(&mut self) {
        match self.phase {
            // Still armed: the next pause must be another look, for the last one was before this movement.
            Phase::Armed => self.phase = Phase::ArmedAgain,
            Phase::ArmedAgain => {}
            Phase::Spin | Phase::Yield => {
                self.restart();
                // Who sends right now runs on another core: look again before this one is given away.
                self.left = self.left.max(1);
            }
        }
        self.naps = 0;
    }

    /// Whether the bell is armed: the look that comes next may be the last before a sleep, so it must miss nothing.
    #[inline]
    pub fn is_armed(&self) -> bool {
        matches!(self.phase, Phase::Armed | Phase::ArmedAgain)
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
        if matches!(self.phase, Phase::Armed | Phase::ArmedAgain) {
            bell.disarm();
            self.restart();
        }
    }

    #[cold]
    #[inline(never)]
    fn pause_longer<B: Bell>(&mut self, bell: &B) {
        self.gave_way = true;
        match self.phase {
            Phase::Spin => {
                self.phase = Phase::Yield;
                self.left = yields(if self.oversubscribed { YIELDS_OVERSUBSCRIBED } else { YIELDS });
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
            Phase::ArmedAgain => self.phase = Phase::Armed,
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
        self.left = self.spins;
    }
}

/// How often a core is offered to others before its owner sleeps: `usual` times, and hardly ever where a call of the kernel takes as long as a
/// sleep. A call that lets nobody else run is timed, once: how long a yield takes says nothing of the kernel where others compute meanwhile.
#[inline]
pub fn yields(usual: u32) -> u32 {
    static CALL: OnceLock<Duration> = OnceLock::new();
    yields_where(*CALL.get_or_init(shortest_call), usual)
}

/// As [`yields`], where a call of the kernel takes so long.
fn yields_where(call: Duration, usual: u32) -> u32 {
    if call > DEAR { usual.min(YIELDS_DEAR) } else { usual }
}

fn shortest_call() -> Duration {
    let call = || {
        let begun = Instant::now();
        std::hint::black_box(std::os::unix::process::parent_id());
        begun.elapsed()
    };
    (0..8).map(|_| call()).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    const LOOKS: u32 = 2000;

    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<&'static str>>>);

    impl Recorder {
        fn log(&self) -> Vec<&'static str> {
            std::mem::take(&mut *self.0.lock().unwrap())
        }
    }

    impl Bell for Recorder {
        fn arm(&self) {
            self.0.lock().unwrap().push("arm");
        }

        fn sleep(&self, limit: Duration) {
            assert!(limit <= LONGEST_NAP);
            self.0.lock().unwrap().push("sleep");
        }

        fn disarm(&self) {
            self.0.lock().unwrap().push("disarm");
        }
    }

    fn pauses_until_armed(waiter: &mut Waiter, bell: &Recorder) -> u32 {
        for count in 1..10_000 {
            waiter.pause(bell);
            if bell.log() == ["arm"] {
                return count;
            }
        }
        panic!("never armed");
    }

    #[test]
    fn every_sleep_follows_a_look_with_the_bell_armed() {
        for oversubscribed in [false, true] {
            let (mut waiter, bell) = (Waiter::new(oversubscribed, LOOKS), Recorder::default());
            pauses_until_armed(&mut waiter, &bell);
            // The caller looked and found nothing; then something that is not the awaited thing.
            waiter.moved();
            waiter.pause(&bell);
            assert!(bell.log().is_empty(), "looks once more");
            waiter.pause(&bell);
            assert_eq!(bell.log(), ["sleep"]);
            waiter.pause(&bell);
            assert_eq!(
                bell.log(),
                ["arm"],
                "rung for nothing: armed again, and looked at before the next sleep"
            );
            waiter.finish(&bell);
            assert_eq!(bell.log(), ["disarm"]);
            waiter.finish(&bell);
            assert!(bell.log().is_empty());
        }
    }

    #[test]
    fn ranks_beyond_the_cores_get_to_sleep_at_once() {
        let bell = Recorder::default();
        assert!(pauses_until_armed(&mut Waiter::new(true, LOOKS), &bell) <= YIELDS_OVERSUBSCRIBED + 2);
        assert!(pauses_until_armed(&mut Waiter::new(false, LOOKS), &bell) > LOOKS);
    }

    #[test]
    fn movement_begins_the_wait_anew() {
        let (mut waiter, bell) = (Waiter::new(false, LOOKS), Recorder::default());
        for _ in 0..LOOKS + 10 {
            waiter.pause(&bell);
        }
        waiter.moved();
        assert!(pauses_until_armed(&mut waiter, &bell) > LOOKS);
    }

    #[test]
    fn a_core_is_hardly_offered_where_calls_of_the_kernel_are_dear() {
        for (call, expected) in [(200, YIELDS), (1_200, YIELDS), (6_000, YIELDS), (24_000, 2), (170_000, 2)] {
            assert_eq!(yields_where(Duration::from_nanos(call), YIELDS), expected, "{call} ns");
        }
        assert_eq!(yields_where(Duration::from_micros(24), 1), 1, "never more than usual");
    }
}
