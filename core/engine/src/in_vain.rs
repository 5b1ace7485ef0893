//! [`InVain`]: processes that are asked for a way over the fabric and give no answer, and what the launcher has to do with it.
//!
//! Nobody can tell from his own end of a network why nothing comes back: the other may compute for an hour before it calls MPI,
//! or be stopped, or a packet filter may drop what is sent. But each process reaches the launcher by another way. So a process
//! that has asked another in vain for some time *and has looked at its fabric all that time* says so, again and again for as long
//! as that is so. The launcher asks the other to ask back; if that one looks, too, and hears nothing either, it says the same. Two
//! that say so of each other over a long time, which a look by either would have ended if anything passed, cannot reach each
//! other, and the launcher tells them. A process that does not call MPI says nothing, and no verdict is possible.
//!
//! [`InVain`] is pure: times are arguments.

use crate::engine::Engine;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use weft_shm::Inquiry;
use weft_types::{Error, PeerId};

/// A process is in vain asked for so long before anything is said; the launcher's question shortens nothing.
pub(crate) const LEAST: Duration = Duration::from_secs(5);
/// What is so is said so often.
const PERIOD: Duration = Duration::from_secs(2);
/// Between two looks lies at most so much time, or the process has not been looking.
const GAP: Duration = Duration::from_secs(3);
/// Looks for those in vain asked are not made more often.
const PAUSE: Duration = Duration::from_millis(100);
/// Most processes that are told of at a time: one that waits for more hears of the first.
const MOST: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct InVain {
    /// Since when this process has looked without a gap, and when last.
    looking: Option<(Instant, Instant)>,
    /// When something was said last.
    said: Option<Instant>,
    /// Those that were told of.
    told: BTreeSet<PeerId>,
}

impl InVain {
    /// Whether it is too early for another [`InVain::look`].
    pub(crate) fn is_early(&self, now: Instant) -> bool {
        self.looking.is_some_and(|(_, last)| now.saturating_duration_since(last) < PAUSE)
    }

    /// This process has looked at its fabric; `silent`: who has been asked in vain, for [`LEAST`] at least. Returns of whom the
    /// launcher is to be told now.
    pub(crate) fn look(&mut self, silent: &[(PeerId, Duration)], now: Instant) -> Vec<PeerId> {
        let since = match self.looking {
            Some((since, last)) if now.saturating_duration_since(last) <= GAP => since,
            _ => now,
        };
        self.looking = Some((since, now));
        let looks = now.saturating_duration_since(since);
        let is_due = self.said.is_none_or(|said| now.saturating_duration_since(said) >= PERIOD);
        if looks < PERIOD || !is_due {
            return Vec::new();
        }
        let told = silent.iter().map(|&(peer, _)| peer);
        // Of those that were told of before the launcher waits to hear again.
        let (before, fresh): (Vec<PeerId>, Vec<PeerId>) = told.partition(|peer| self.told.contains(peer));
        self.told = before.into_iter().chain(fresh).take(MOST).collect();
        // Ascending, as lists of ranks travel.
        let told: Vec<PeerId> = self.told.iter().copied().collect();
        self.said = (!told.is_empty()).then_some(now).or(self.said);
        told
    }
}

/// What [`Engine::look_for_ways`] has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// The launcher is to be told that these give no answer, although this process looks.
    pub in_vain: Vec<PeerId>,
    /// The launcher says that no way leads to these, and nothing was heard of them since.
    pub unreachable: Vec<PeerId>,
}

impl Engine {
    /// Whether [`Engine::look_for_ways`] may have something to say.
    #[inline]
    pub fn asks_in_vain(&self) -> bool {
        self.fabric.asks_in_vain()
    }

    /// Whom this process asks in vain for a way over the fabric, as the module says; called now and then as long as
    /// [`Engine::asks_in_vain`]. Asks itself who is said to ask.
    #[cold]
    pub fn look_for_ways(&mut self) -> Ways {
        let now = Instant::now();
        let inquiries = self.fabric.inquiries();
        if inquiries.is_empty() && self.in_vain.is_early(now) {
            return Ways::default();
        }
        let mut ways = Ways::default();
        for inquiry in inquiries {
            match inquiry {
                // Should the two have met already, the fabric asks who is silent for long by itself.
                Inquiry::Asks(peer) => self.mind(peer),
                Inquiry::Unreachable(peer) => ways.unreachable.push(peer),
            }
        }
        let silent = self.fabric.in_vain(LEAST);
        ways.unreachable.retain(|peer| silent.iter().any(|(other, _)| other == peer));
        ways.in_vain = self.in_vain.look(&silent, now);
        ways
    }

    /// By which addresses a process is asked or reached, in words.
    pub fn way(&self, peer: PeerId) -> Option<String> {
        self.fabric.way(peer)
    }

    /// No way leads to a process, which lives: whatever depends on it ends with `error`, as if it were lost.
    #[cold]
    pub fn cannot_reach(&mut self, peer: PeerId, error: Error) {
        if !self.state.is_dead(peer) {
            self.state.unreached.insert(peer, error.clone());
            self.bury(peer, error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: PeerId = PeerId(3);

    fn silent(peers: u32) -> Vec<(PeerId, Duration)> {
        (0..peers).map(|peer| (PeerId(peer), LEAST)).collect()
    }

    #[test]
    fn who_looks_all_the_time_says_so_again_and_again() {
        let (mut in_vain, begun) = (InVain::default(), Instant::now());
        let mut said = Vec::new();
        for step in 0..100 {
            let now = begun + step * Duration::from_millis(200);
            if !in_vain.look(&[(PEER, LEAST)], now).is_empty() {
                said.push(step);
            }
        }
        assert_eq!(
            said,
            (10..100).step_by(10).collect::<Vec<_>>(),
            "every two seconds, after two of looking"
        );
    }

    #[test]
    fn who_computes_between_looks_says_nothing() {
        let (mut in_vain, begun) = (InVain::default(), Instant::now());
        for step in 0..100 {
            let now = begun + step * (GAP + PAUSE);
            assert_eq!(in_vain.look(&[(PEER, LEAST)], now), []);
        }
    }

    #[test]
    fn of_many_those_that_were_told_of_before_are_told_of_again() {
        let (mut in_vain, mut now) = (InVain::default(), Instant::now());
        let mut say = |peers: &[(PeerId, Duration)]| {
            loop {
                now += PAUSE;
                let told = in_vain.look(peers, now);
                if !told.is_empty() {
                    return told;
                }
            }
        };
        let mut all = silent(2 * MOST as u32);
        let first = say(&all[MOST..]);
        assert_eq!(first.len(), MOST);
        all.reverse();
        assert_eq!(say(&all), first, "ascending, too");
        assert_eq!(say(&all[..3]), [29, 30, 31].map(PeerId));
    }
}
