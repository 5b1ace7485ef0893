//! How far members are from one another, as the time shows that it takes to write what another one has read; and so how long
//! payloads are written: into the writer's cache, or past it ([`crate::past`]).
//!
//! The kernel's tables tell which cores share a cache, but not where a virtual machine's cores are, which its host moves about.
//! So a writer times the long payloads that it writes into its cache. While they go slowly it writes past it, but for one
//! payload in 64, so that it notices when the others are near again.
//!
//! Where near members swap places or hand them over (`swaps.rs`), one payload in 64 goes into the own ring for that; far ones all do.
//!
//! Nothing depends on it but the time: each payload is complete with its stamp either way.

use super::Sort;
use crate::past;

/// Bytes of the shortest payload that is written past caches: below, what is saved in writing is lost in reading.
pub(super) const SHORTEST: usize = 2048;
/// Bytes of the shortest payload that tells anything: a core keeps shorter ones to itself until it has time for them.
const TELLING: usize = 4096;
/// Of so many payloads one is written into the cache though others are far.
const PROBE_EVERY: u32 = 64;
/// Ticks a line from which they are far. Measured: 3 to 15 within a cluster of cores, about 80 between clusters.
const FAR: u64 = 36;
/// Payloads in a row that must agree before a member changes its mind, to say that others are near and that they are far: some may have been
/// interrupted, or come from memory that was in no cache. (Where a line takes half as long as to far ones, two in a row were slow now and then, and
/// each of the next hundred cost three times what it does in the cache.)
const IN_A_ROW: (u8, u8) = (2, 4);
const LINE: usize = 64;

/// What one member found out.
#[derive(Debug, Default)]
pub(crate) struct Distance {
    is_far: bool,
    /// Payloads in a row that say otherwise.
    otherwise: u8,
    /// Long payloads that it wrote.
    written: u32,
}

/// How a payload is written.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    /// Past the caches, by [`past::copy_past_caches`].
    pub past: bool,
    /// When it began and its lines, when that will tell anything.
    timed: Option<(u64, u64)>,
    /// In the own ring, where members swap places otherwise.
    kept: bool,
}

impl Writing {
    /// Into the cache, without a look at the time.
    pub(super) const USUAL: Writing = Writing { past: false, timed: None, kept: false };

    /// The sort of a payload that is written so.
    #[inline(always)]
    pub fn sort(self, sort: Sort) -> Sort {
        match sort {
            Sort::Exchanged if self.kept => Sort::Kept,
            Sort::Alone if self.kept => Sort::Single,
            sort => sort,
        }
    }

    /// The same to where this member has never written, which tells nothing: the kernel gives it the memory meanwhile.
    #[inline]
    pub(super) const fn of_new_memory(self) -> Writing {
        Writing { timed: None, ..self }
    }

    /// Whether it took as long as to far ones, when that tells anything; called as soon as it has been written.
    #[inline]
    pub(crate) fn was_slow(self) -> Option<bool> {
        self.timed.map(|(began, lines)| past::ticks().wrapping_sub(began) > lines * FAR)
    }
}

impl Distance {
    /// A payload of so many bytes is about to be written.
    #[inline]
    pub(super) fn begin(&mut self, bytes: usize) -> Writing {
        if bytes < SHORTEST {
            return Writing::USUAL;
        }
        // A probe is a payload that tells something.
        let tells = bytes >= TELLING;
        self.written = self.written.wrapping_add(u32::from(tells));
        let past = self.is_far && !(tells && self.written.is_multiple_of(PROBE_EVERY));
        let telling = !past && tells;
        Writing { past, timed: telling.then(|| (past::ticks(), (bytes / LINE) as u64)), ..Writing::USUAL }
    }

    /// A payload of so many bytes is about to be written where two members swap places or hand them over, which is quickly done near or far and tells
    /// nothing: near ones keep to the own ring one in so many of those that can tell, far ones all that go past the caches, and the
    /// probes between them.
    #[inline]
    pub(super) fn begin_swapped(&mut self, bytes: usize) -> Writing {
        if self.is_far || bytes < TELLING || self.written.wrapping_add(1).is_multiple_of(PROBE_EVERY) {
            let writing = self.begin(bytes);
            return Writing { kept: writing.past || writing.timed.is_some(), ..writing };
        }
        self.written = self.written.wrapping_add(1);
        Writing::USUAL
    }

    /// A result of so many bytes is about to be combined, which tells nothing.
    #[inline]
    pub(super) fn begin_combining(&self, bytes: usize) -> Writing {
        Writing { past: self.is_far && bytes >= SHORTEST, ..Writing::USUAL }
    }

    /// What a writer has found out that is far.
    #[cfg(test)]
    pub(crate) fn far() -> Distance {
        Distance { is_far: true, ..Distance::default() }
    }

    /// A payload that tells something is about to be written into the cache, however far the others are.
    #[inline]
    pub(crate) fn time(bytes: usize) -> Writing {
        debug_assert!(bytes >= TELLING, "{bytes} bytes tell nothing");
        Writing { timed: Some((past::ticks(), (bytes / LINE) as u64)), ..Writing::USUAL }
    }

    /// Whether the others are far, as it seems now.
    #[inline]
    pub(crate) const fn is_far(&self) -> bool {
        self.is_far
    }

    /// It has been written.
    #[inline]
    pub(super) fn end(&mut self, writing: Writing) {
        if let Some(slow) = writing.was_slow() {
            self.learn(slow);
        }
    }

    /// A payload that tells something was written, as slowly as to far ones or not.
    pub(crate) fn learn(&mut self, slow: bool) {
        if slow == self.is_far {
            self.otherwise = 0;
            return;
        }
        self.otherwise += 1;
        if self.otherwise == if slow { IN_A_ROW.1 } else { IN_A_ROW.0 } {
            (self.is_far, self.otherwise) = (slow, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_slow_payloads_change_nothing_and_four_in_a_row_do() {
        let mut writer = Distance::default();
        let mut after = |slow: bool| {
            writer.learn(slow);
            writer.is_far
        };
        assert_eq!([false, true, false, true, true, true, false].map(&mut after), [false; 7]);
        assert_eq!([true, true, true, true, true].map(&mut after), [false, false, false, true, true]);
        assert_eq!([false, true, false, false].map(&mut after), [true, true, true, false]);
    }

    #[test]
    fn a_writer_goes_into_the_cache_now_and_then_so_that_it_can_tell() {
        let mut writer = Distance::default();
        assert!((0..1000).all(|_| !writer.begin(8192).past), "near");
        writer.is_far = true;
        let cached = (0..6400).filter(|_| !writer.begin(8192).past).count();
        assert_eq!(cached, 100);
        let cached = (0..6400).filter(|_| !(writer.begin(SHORTEST).past | writer.begin(8192).past)).count();
        assert_eq!(cached, 0, "what tells nothing is no probe");
        let probes =
            (0..6400).map(|_| (writer.begin(SHORTEST), writer.begin(8192))).filter(|both| !both.1.past);
        assert_eq!(probes.count(), 100, "those between take no probe's place");
        assert!((0..1000).all(|_| !writer.begin(SHORTEST - 1).past), "short ones never go past");
        assert!(writer.begin_combining(SHORTEST).past && !writer.begin_combining(SHORTEST - 1).past);
        assert!(!Distance::default().begin_combining(8192).past, "nor results while the others are near");
    }

    #[test]
    fn where_near_members_swap_places_one_in_some_tells_and_far_ones_keep_to_their_rings() {
        let mut writer = Distance::default();
        let kept = (0..6400).map(|_| writer.begin_swapped(8192)).filter(|writing| {
            assert_eq!((writing.kept, writing.past), (writing.timed.is_some(), false));
            writing.kept
        });
        assert_eq!(kept.count(), 100);
        assert!((0..1000).all(|_| !writer.begin_swapped(TELLING - 1).kept), "what tells nothing is swapped");
        writer.is_far = true;
        assert!((0..1000).all(|_| writer.begin_swapped(8192).kept && writer.begin_swapped(SHORTEST).past));
        assert!((0..1000).all(|_| !writer.begin_swapped(SHORTEST - 1).kept), "nor goes it past the caches");
        let [kept, usual] = [Writing { kept: true, ..Writing::USUAL }, Writing::USUAL];
        assert_eq!(
            [Sort::Exchanged, Sort::Alone, Sort::Single].map(|sort| kept.sort(sort)),
            [Sort::Kept, Sort::Single, Sort::Single]
        );
        assert_eq!(usual.sort(Sort::Alone), Sort::Alone);
    }
}
