//! Ranks that cannot reach each other over the network although both live and look: who is asked, and when that is certain.
//!
//! A rank that has long asked another in vain over its fabric, and has looked at the fabric all that time, says so every two
//! seconds for as long as that is so (`weft_in_vain`). The other is asked to ask back. When it says the same of the first, and
//! both go on saying it without a pause for as long as they are to be patient, nothing passes between them: a message of either
//! would have been seen by the other, which looks. A rank that computes, is stopped by a signal or a debugger, or has not begun
//! MPI says nothing, and then nothing is concluded, however long it takes.
//!
//! Pure. Times are those at which words were read here, so that a word which was long on its way makes a pause longer, and a
//! verdict later; several that were read at one time count as one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Ranks say every two seconds that they ask in vain; who has not said it for so long has heard something, or does not look.
const PAUSE: Duration = Duration::from_secs(7);
/// No verdict is possible before so many words of each, whatever patience was asked for.
const LEAST_WORDS: u32 = 3;
/// Most pairs that are watched; of others nothing is concluded until some of these are over.
const MOST_PAIRS: usize = 1 << 16;

/// A rank is told so often of each that asks it. It asks for ever from then on; the further ones help if it began MPI anew.
const MOST_ASKED: u8 = 3;

/// Most pairs of hosts that are named to the user: more than a screen helps nobody.
const MOST_TOLD: usize = 6;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A rank is to be told that another one asks it.
    Ask {
        /// Who is told.
        rank: usize,
        /// Who asks.
        about: usize,
    },
    /// Two ranks cannot reach each other: both are to be told.
    Cut {
        /// The lower one.
        one: usize,
        /// The higher one.
        other: usize,
        /// For how long both have looked in vain.
        time: Duration,
    },
}

/// One of a pair.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// When it said last that it asks the other in vain.
    last: Option<Instant>,
    /// How often, since both began.
    words: u32,
    /// How often the other was told that this one asks it.
    asked: u8,
}

/// Two ranks of which one at least asks the other in vain.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    /// The lower rank first.
    sides: [Side; 2],
    /// Since when both say it.
    both: Option<Instant>,
    is_cut: bool,
}

/// All pairs.
#[derive(Debug, Default)]
pub struct Ways {
    pairs: BTreeMap<(usize, usize), Pair>,
    /// Hosts between which nothing passes, as the user was told.
    told: BTreeSet<[usize; 2]>,
    /// Whether ranks missed a verdict or a farewell.
    has_missed_words: bool,
}

impl Ways {
    /// `rank` says that it looks, and asks `others` in vain. `patience`: how long both of a pair have to say so.
    pub fn in_vain(&mut self, rank: usize, others: &[usize], patience: Duration, now: Instant) -> Vec<Step> {
        let mut steps = Vec::new();
        for &about in others.iter().filter(|&&about| about != rank) {
            let names = (rank.min(about), rank.max(about));
            if self.pairs.len() >= MOST_PAIRS && !self.pairs.contains_key(&names) {
                let silent =
                    |side: &Side| side.last.is_none_or(|last| now.saturating_duration_since(last) > PAUSE);
                self.pairs.retain(|_, pair| pair.is_cut || !pair.sides.iter().all(silent));
                if self.pairs.len() >= MOST_PAIRS {
                    continue;
                }
            }
            let pair = self.pairs.entry(names).or_default();
            steps.extend(pair.says(usize::from(rank > about), patience, now).map(|verdict| match verdict {
                None => Step::Ask { rank: about, about: rank },
                Some(time) => Step::Cut { one: names.0, other: names.1, time },
            }));
        }
        steps
    }

    /// Whether the user is to be told of two ranks, on these hosts, that cannot reach each other: of the first of each two hosts.
    pub fn is_to_be_told(&mut self, mut hosts: [usize; 2]) -> bool {
        hosts.sort_unstable();
        self.told.len() < MOST_TOLD && self.told.insert(hosts)
    }

    /// A verdict or a farewell cannot be told. Whether the user is to be told so: once.
    pub fn misses_words(&mut self) -> bool {
        !std::mem::replace(&mut self.has_missed_words, true)
    }

    /// A rank has ended MPI, or its process: nobody has to reach it.
    pub fn gone(&mut self, rank: usize) {
        self.pairs.retain(|&(one, other), _| one != rank && other != rank);
    }
}

impl Pair {
    /// One side says it. `Some(None)`: the other has to be asked; `Some(Some(time))`: it is certain.
    fn says(&mut self, side: usize, patience: Duration, now: Instant) -> Option<Option<Duration>> {
        if self.is_cut {
            return None;
        }
        let lasts = |side: &Side| side.last.is_some_and(|last| now.saturating_duration_since(last) <= PAUSE);
        let (own, other) = (lasts(&self.sides[side]), lasts(&self.sides[1 - side]));
        if !(own && other) {
            // Somebody has paused, or has just begun.
            self.both = other.then_some(now);
            self.sides.iter_mut().for_each(|side| side.words = 0);
        }
        let before = self.sides[side].last.replace(now);
        // What was read at one time was held up, and says no more than one word.
        self.sides[side].words += u32::from(before.is_none_or(|before| before < now));
        // As far as the other has said it, too: it may not look any more.
        let until = self.sides[1 - side].last;
        let both = self.both.zip(until).map(|(since, until)| until.saturating_duration_since(since));
        if let Some(time) = both.filter(|&time| time >= patience)
            && self.sides.iter().all(|side| side.words >= LEAST_WORDS)
        {
            self.is_cut = true;
            return Some(Some(time));
        }
        // Again when it begins anew: the other may have been asked before it lost what it had.
        if own || other || self.sides[side].asked >= MOST_ASKED {
            return None;
        }
        self.sides[side].asked += 1;
        Some(None)
    }
}

#[cfg(test)]
#[path = "ways_tests.rs"]
mod tests;
