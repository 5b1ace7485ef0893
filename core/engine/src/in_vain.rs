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
/// So many of them are kept for those that ask this process, where there are as many. A verdict needs the words of both of a pair,
/// and where more than [`MOST`] cannot be reached each would else name others than those that name it.
const OF_THOSE_THAT_ASK: usize = MOST / 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct InVain {
    /// Since when this process has looked without a gap, and when last.
    looking: Option<(Instant, Instant)>,
    /// When something was said last.
    said: Option<Instant>,
    /// Those that were told of.
    told: BTreeSet<PeerId>,
    /// Those that ask this process, as the launcher said; at most the job's.
    asked_by: BTreeSet<PeerId>,
}

impl InVain {
    /// Whether it is too early for another [`InVain::look`].
    pub(crate) fn is_early(&self, now: Instant) -> bool {
        self.looking.is_some_and(|(_, last)| now.saturating_duration_since(last) < PAUSE)
    }

    /// The launcher says that this process is asked.
    pub(crate) fn is_asked(&mut self, by: PeerId) {
        self.asked_by.insert(by);
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
        let silent: BTreeSet<PeerId> = silent.iter().map(|&(peer, _)| peer).collect();
        // The lowest first, here as at all others: who has the lowest number of all is named by whomever it names.
        let mut told: Vec<PeerId> =
            self.asked_by.intersection(&silent).copied().take(OF_THOSE_THAT_ASK).collect();
        // Of those that were told of before the launcher waits to hear again.
        let others = silent.iter().filter(|peer| !told.contains(peer)).copied();
        let (before, fresh): (Vec<PeerId>, Vec<PeerId>) = others.partition(|peer| self.told.contains(peer));
        let room = MOST - told.len();
        told.extend(before.into_iter().chain(fresh).take(room));
        told.sort_unstable();
        self.told = told.iter().copied().collect();
        self.said = (!told.is_empty()).then_some(now).or(self.said);
        told
    }
}

/// What [`Engine::look_for_ways`] has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// The launcher is to be told that these give no answer, although this process looks.
    pub in_vain: Vec<PeerId>,
    /// The launcher says that no way leads to these. That binds both of a pair, as a death does, also when something was heard
    /// meanwhile: the other has given this process up, or is about to, and the launcher does not speak of the two again.
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
                Inquiry::Asks(peer) => {
                    self.in_vain.is_asked(peer);
                    self.mind(peer);
                }
                Inquiry::Unreachable(peer) => ways.unreachable.push(peer),
            }
        }
        let silent = self.fabric.in_vain(LEAST);
        ways.in_vain = self.in_vain.look(&silent, now);
        ways
    }

    /// By which addresses a process is asked or reached, in words.
    pub fn way(&self, peer: PeerId) -> Option<String> {
        self.fabric.way(peer)
    }

    /// What is said of a process that lives and cannot be reached ([`Engine::cannot_reach`]).
    pub fn unreached(&self, peer: PeerId) -> Option<&Error> {
        self.state.unreached.get(&peer)
    }

    /// No way leads to a process, which lives: whatever depends on it ends with `error`, as if it were lost, also what a device
    /// has of it, and should the way carry again nothing comes by it.
    #[cold]
    pub fn cannot_reach(&mut self, peer: PeerId, error: Error) {
        if !self.state.is_dead(peer) {
            self.state.unreached.insert(peer, error.clone());
            self.fabric.give_up_way(peer);
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
    fn those_that_are_told_of_are_in_order_whatever_the_order_of_contact() {
        let (mut in_vain, mut now) = (InVain::default(), Instant::now());
        let met = [(PeerId(5), LEAST), (PeerId(3), LEAST)];
        for _ in 0..60 {
            now += PAUSE;
            let told = in_vain.look(&met, now);
            assert!(told.is_empty() || told == [PeerId(3), PeerId(5)], "{told:?}");
        }
        assert_eq!(in_vain.told.len(), 2);
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

    /// Of many hosts none of which can reach another, in whatever order they have met: all pairs get their verdict, though each
    /// process names a few at a time. The launcher is what `weft-launch` says in its `ways`: who is named is told who asks, and two
    /// that name each other without a pause are cut.
    #[test]
    fn of_many_that_cannot_reach_each_other_all_pairs_are_cut() {
        for (hosts, stride) in [(17, 1), (34, 1), (34, 5), (41, 1), (60, 7)] {
            let mut all: Vec<InVain> = (0..hosts).map(|_| InVain::default()).collect();
            let mut silent: Vec<Vec<(PeerId, Duration)>> = (0..hosts)
                .map(|me| (1..hosts).map(|step| (PeerId((me + step * stride) % hosts), LEAST)).collect())
                .collect();
            silent
                .iter_mut()
                .zip(0..)
                .for_each(|(silent, me)| silent.retain(|&(peer, _)| peer != PeerId(me)));
            let (mut now, mut turns) = (Instant::now(), 0);
            // Since when two name each other.
            let mut mutual = std::collections::BTreeMap::new();
            while silent.iter().any(|silent| !silent.is_empty()) {
                turns += 1;
                assert!(turns < 4000, "{hosts} hosts, stride {stride}: some never hear a verdict");
                now += PERIOD;
                let named: Vec<Vec<PeerId>> = (0..hosts as usize)
                    .map(|me| {
                        // It looks in between, too, and speaks at one of the two looks.
                        let mut said = all[me].look(&silent[me], now - PERIOD / 2);
                        said.extend(all[me].look(&silent[me], now));
                        said
                    })
                    .collect();
                for (me, peers) in named.iter().enumerate() {
                    for peer in peers {
                        all[peer.0 as usize].is_asked(PeerId(me as u32));
                        let names = named[peer.0 as usize].contains(&PeerId(me as u32));
                        let pair = (me.min(peer.0 as usize), me.max(peer.0 as usize));
                        if names {
                            mutual.entry(pair).or_insert(turns);
                        }
                    }
                }
                let names = |one: usize, other: usize| named[one].contains(&PeerId(other as u32));
                mutual.retain(|&(one, other), _| names(one, other) && names(other, one));
                for (&(one, other), _) in mutual.iter().filter(|&(_, &since)| turns - since >= 15) {
                    silent[one].retain(|&(peer, _)| peer != PeerId(other as u32));
                    silent[other].retain(|&(peer, _)| peer != PeerId(one as u32));
                }
            }
        }
    }
}
