//! [`ToldDeaths`]: deaths that the launcher or another lane has told of, and farewells of the node's memory or another lane,
//! kept back while the fabric may still bring what the dead, or those that said farewell, have sent.
//!
//! The launcher's word and messages go different ways, and what a process sent before it died counts. A look at a fabric that
//! finds nothing does not say that nothing is there: of a message in pieces some may have come, which are no news, and others
//! wait in a socket or are on the wire. So a death is told when the fabric has been silent for a while *and* for many looks,
//! since a process that computes looks seldom.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use weft_types::{Farewell, PeerId};

/// How long the fabric must have been silent: many round trips.
const SILENCE: Duration = Duration::from_millis(50);
/// Looks that must have found nothing: each takes in some dozens of packets, a message in pieces has fewer than two thousand.
const LOOKS: u32 = 64;
/// After this time a death is told although others keep the fabric talking.
const LONGEST: Duration = Duration::from_secs(2);

/// What is told of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// It died.
    Death,
    /// It has ended MPI after a loss, and said this.
    Farewell(Farewell),
}

/// See the module. Times are arguments.
#[derive(Debug, Default)]
pub(crate) struct ToldDeaths {
    /// With the time when each was told.
    told: VecDeque<(PeerId, Departure, Instant)>,
    /// Since when looks have found nothing, and how many.
    silent_since: Option<Instant>,
    looks: u32,
    /// What those have said whose farewells were made known.
    parted: BTreeMap<PeerId, Farewell>,
}

impl ToldDeaths {
    /// Whether none is kept back. Otherwise the fabric is to be looked at, and nobody may go to sleep: nothing will wake him.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// The launcher says that a process is gone, or the process itself that it has parted. Looks so far say nothing of what it
    /// has sent.
    #[cold]
    pub(crate) fn hear(&mut self, peer: PeerId, departure: Departure, now: Instant) {
        (self.silent_since, self.looks) = (None, 0);
        self.told.push_back((peer, departure, now));
    }

    /// The fabric was looked at; `found`: whether it had something.
    #[cold]
    pub(crate) fn looked(&mut self, found: bool, now: Instant) {
        if found {
            (self.silent_since, self.looks) = (None, 0);
        } else {
            self.silent_since.get_or_insert(now);
            self.looks += 1;
        }
    }

    /// The next departure to be made known.
    #[cold]
    pub(crate) fn next(&mut self, now: Instant) -> Option<(PeerId, Departure)> {
        let lasts = |since: Option<Instant>, least| since.is_some_and(|since| now - since >= least);
        let silent = self.looks >= LOOKS && lasts(self.silent_since, SILENCE);
        let (peer, departure, since) = *self.told.front()?;
        if !silent && !lasts(Some(since), LONGEST) {
            return None;
        }
        self.told.pop_front();
        if self.told.is_empty() {
            *self = ToldDeaths { parted: std::mem::take(&mut self.parted), ..ToldDeaths::default() };
        }
        if let Departure::Farewell(farewell) = departure {
            let said = self.parted.entry(peer).or_default();
            *said = said.and(farewell);
        }
        Some((peer, departure))
    }

    /// What a process has said, as far as it was made known.
    pub(crate) fn farewell_of(&self, peer: PeerId) -> Farewell {
        self.parted.get(&peer).copied().unwrap_or(Farewell::NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::{Departure, LONGEST, LOOKS, SILENCE, ToldDeaths};
    use std::time::{Duration, Instant};
    use weft_types::{Farewell, PeerId};

    const A: PeerId = PeerId(3);
    const B: PeerId = PeerId(5);
    const SAID: Departure = Departure::Farewell(Farewell { life: 2, world: false });

    /// Of whom it is told, as it was heard.
    fn told_of((peer, departure): (PeerId, Departure)) -> PeerId {
        assert_eq!(departure == SAID, peer == B);
        peer
    }

    /// So many looks that find nothing, evenly over `time`, and the deaths told after each.
    fn look(deaths: &mut ToldDeaths, now: &mut Instant, looks: u32, time: Duration) -> Vec<PeerId> {
        let mut told = Vec::new();
        for _ in 0..looks {
            *now += time / looks;
            deaths.looked(false, *now);
            told.extend(deaths.next(*now).map(told_of));
        }
        told
    }

    #[test]
    fn a_death_is_told_after_silence_and_many_looks_and_not_before() {
        let (mut deaths, mut now) = (ToldDeaths::default(), Instant::now());
        deaths.hear(A, Departure::Death, now);
        assert_eq!(deaths.next(now), None, "nothing was looked at yet");
        // Many looks in no time, and a long time with few looks, do not do alone.
        assert_eq!(look(&mut deaths, &mut now, 10 * LOOKS, SILENCE / 2), []);
        deaths.looked(true, now);
        assert_eq!(look(&mut deaths, &mut now, LOOKS - 1, 10 * SILENCE), []);
        assert_eq!(look(&mut deaths, &mut now, 1, SILENCE), [A]);
        assert!(deaths.is_empty());
    }

    #[test]
    fn a_message_that_comes_in_pieces_is_waited_for() {
        let (mut deaths, mut now) = (ToldDeaths::default(), Instant::now());
        deaths.hear(A, Departure::Death, now);
        // Each piece after a silence that is not long enough.
        for _ in 0..10 {
            assert_eq!(look(&mut deaths, &mut now, 2 * LOOKS, SILENCE * 9 / 10), []);
            deaths.looked(true, now);
        }
        assert_eq!(look(&mut deaths, &mut now, 4 * LOOKS, 2 * SILENCE), [A]);
    }

    #[test]
    fn a_second_death_is_waited_for_as_the_first_and_a_busy_fabric_hides_none_for_ever() {
        let (mut deaths, mut now) = (ToldDeaths::default(), Instant::now());
        deaths.hear(A, Departure::Death, now);
        assert_eq!(look(&mut deaths, &mut now, LOOKS - 1, SILENCE * 9 / 10), []);
        deaths.hear(B, SAID, now);
        assert_eq!(look(&mut deaths, &mut now, LOOKS - 1, SILENCE * 9 / 10), []);
        assert_eq!(deaths.farewell_of(B), Farewell::NONE, "it is not known yet");
        assert_eq!(look(&mut deaths, &mut now, 4, SILENCE), [A, B]);
        assert_eq!([A, B].map(|peer| deaths.farewell_of(peer).life), [0, 2]);

        deaths.hear(A, Departure::Death, now);
        deaths.hear(B, SAID, now);
        let until = now + LONGEST;
        while now < until {
            assert_eq!(deaths.next(now), None);
            now += SILENCE / 10;
            deaths.looked(true, now);
        }
        let mut next = || deaths.next(now).map(told_of);
        assert_eq!([next(), next(), next()], [Some(A), Some(B), None]);
    }

    #[test]
    fn a_late_death_is_not_told_because_an_early_one_has_waited_long() {
        let (mut deaths, mut now) = (ToldDeaths::default(), Instant::now());
        deaths.hear(A, Departure::Death, now);
        now += LONGEST - SILENCE / 10;
        deaths.hear(B, SAID, now);
        now += SILENCE / 10;
        deaths.looked(true, now);
        let mut next = || deaths.next(now).map(told_of);
        assert_eq!([next(), next()], [Some(A), None]);
        assert_eq!(look(&mut deaths, &mut now, LOOKS + 1, 2 * SILENCE), [B]);
    }
}
