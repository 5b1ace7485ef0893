//! The clocks of the hosts, which differ: what a host tells in its own time, in the head's. Pure.
//!
//! A question and its answer bracket the moment at which the other clock was read, so its difference is known to within half
//! the way there and back. Intervals in which a rank was blocked shrink by that uncertainty on both sides: what remains is
//! certain, and a moment that lies in the intervals of all ranks is one at which they all were blocked.

use weft_boot::stall::Stall;

/// Clocks run apart by at most one part in so many: no time service touches them ([`weft_boot::stall::now`]), and two quartzes
/// are some times better.
const DRIFT: u64 = 2000;

/// What is known of the clock of a host. Nanoseconds of [`weft_boot::stall::now`] throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// How far it is ahead of the head's.
    ahead: i64,
    /// By how much `ahead` may be wrong.
    error: u64,
    /// When that was found out, by the head's clock.
    at: u64,
}

impl Clock {
    /// From a question asked at `asked` and answered at `answered` (the head's clock) that read `theirs`; `None` when that
    /// cannot be.
    pub(crate) fn measure(asked: u64, theirs: u64, answered: u64) -> Option<Clock> {
        let way = answered.checked_sub(asked)?;
        let middle = i128::from(asked) + i128::from(way / 2);
        let ahead = i64::try_from(i128::from(theirs) - middle).ok()?;
        Some(Clock { ahead, error: way.div_ceil(2), at: answered })
    }

    /// By how much it may be wrong at the time `now`.
    fn error_at(&self, now: u64) -> u64 {
        self.error.saturating_add(now.saturating_sub(self.at) / DRIFT)
    }

    /// The better known of two, at the time `now`.
    pub(crate) fn best(known: Option<Clock>, new: Clock, now: u64) -> Clock {
        known.filter(|known| known.error_at(now) <= new.error_at(now)).unwrap_or(new)
    }

    fn here(&self, time: u64) -> u64 {
        u64::try_from(i128::from(time) - i128::from(self.ahead)).unwrap_or(0)
    }

    /// What a rank of that host told, in the head's time; `now` is the head's. An interval of which nothing certain is left
    /// becomes empty (its end before its beginning).
    pub(crate) fn translate(&self, mut stall: Stall, now: u64) -> Stall {
        // The rank may have told it some time ago, and the clocks ran apart since.
        let age = now.saturating_sub(self.here(stall.from));
        let error = self.error_at(now).saturating_add(age / DRIFT);
        stall.from = self.here(stall.from).saturating_add(error);
        stall.until = self.here(stall.until).saturating_sub(error);
        for call in &mut stall.calls {
            call.since = self.here(call.since);
        }
        stall
    }
}

/// What a rank told of whose clock nothing is known: shown, but no proof of anything.
pub(crate) fn unproven(mut stall: Stall, now: u64) -> Stall {
    (stall.from, stall.until) = (u64::MAX, 0);
    for call in &mut stall.calls {
        call.since = now;
    }
    stall
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the ways take and however the clocks differ, the interval told lies within the true one.
        #[test]
        fn no_interval_grows(
            ahead in -1_000_000_000_000i64..1_000_000_000_000,
            (there, back) in (0u64..50_000_000, 0u64..50_000_000),
            asked in 2_000_000_000_000u64..3_000_000_000_000,
            // Parts in a million by which their clock runs faster or slower.
            drift in -100i64..100,
            (from, length, later) in (0u64..60_000_000_000, 0u64..60_000_000_000, 0u64..20_000_000_000),
        ) {
            let theirs = |here: u64| {
                let run = i128::from(here) - i128::from(asked);
                u64::try_from(i128::from(here) + i128::from(ahead) + run * i128::from(drift) / 1_000_000).unwrap()
            };
            let answered = asked + there + back;
            let clock = Clock::measure(asked, theirs(asked + there), answered).unwrap();
            let (begin, end) = (answered + from, answered + from + length);
            let now = end + later;
            let told = Stall { from: theirs(begin), until: theirs(end), ..Stall::default() };
            let seen = clock.translate(told, now);
            prop_assert!(seen.from >= begin && seen.until <= end, "{seen:?} of {begin} to {end}");
            // Half of both ways by which the difference may be wrong, as much for not knowing, and the drift; no more.
            let lost = there + back + 2 + (now - asked) / 500;
            prop_assert!(seen.from <= begin + lost && seen.until + lost >= end);
        }
    }

    #[test]
    fn the_better_measurement_counts_until_it_is_old() {
        let good = Clock::measure(1_000, 5_000, 1_100).unwrap();
        let bad = Clock::measure(2_000, 9_000, 8_000).unwrap();
        assert_eq!(Clock::best(Some(good), bad, 8_000), good);
        assert_eq!(Clock::best(Some(bad), good, 8_000), good);
        assert_eq!(Clock::best(None, bad, 8_000), bad);
        let late = Clock { at: 100_000_000_000, ..bad };
        assert_eq!(Clock::best(Some(good), late, 100_000_000_000), late);
        assert_eq!(Clock::measure(5, 0, 4), None);
    }
}
