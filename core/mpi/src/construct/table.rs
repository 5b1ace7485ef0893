//! What the members of a communicator give to `MPI_Comm_split`, one (color, key) after another, in a form that is small where
//! programs are regular.
//!
//! ```text
//! color = rank / k, key = rank:    (0,0) (0,1) .. (0,k-1)  (1,k) (1,k+1) ..        one pattern of 36 bytes
//! color = rank % k, key = rank:    (0,0) (1,1) .. (k-1,k-1)  (0,k) (1,k+1) ..      one pattern of 36 bytes
//! every k-th only:                 (0,0) none .. none  (0,k) none .. none  ..      one pattern of 56 bytes
//! anything else                                                                      8 bytes a member
//! ```
//!
//! A *run* is a stretch where color and key grow by constant steps; a *pattern* is up to four runs, repeated with constant
//! steps.

use crate::letters::Reader;
use weft_types::Result;

/// What one member gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The color; [`Entry::NO_COLOR`] for `MPI_UNDEFINED`.
    pub(crate) color: i32,
    /// The key.
    pub(crate) key: i32,
}

impl Entry {
    /// Colors are not negative.
    pub(crate) const NO_COLOR: i32 = -1;

    fn write(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.color.to_le_bytes());
        to.extend_from_slice(&self.key.to_le_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Entry> {
        Ok(Entry { color: from.number()? as i32, key: from.number()? as i32 })
    }

    /// The step from `other` to here, if it is one.
    fn minus(self, other: Entry) -> Option<Entry> {
        Some(Entry { color: self.color.checked_sub(other.color)?, key: self.key.checked_sub(other.key)? })
    }

    /// `times` steps further, if that exists.
    fn plus(self, step: Entry, times: u32) -> Option<Entry> {
        let further =
            |from: i32, step: i32| i32::try_from(i64::from(from) + i64::from(step) * i64::from(times)).ok();
        Some(Entry { color: further(self.color, step.color)?, key: further(self.key, step.key)? })
    }
}

const NO_STEP: Entry = Entry { color: 0, key: 0 };

/// `first, first + step, ...`: `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: Entry,
    step: Entry,
    count: u32,
}

/// Runs in a pattern, at most.
const PERIOD: usize = 4;
const PLAIN: u32 = u32::MAX;

/// Appends entries to a message.
pub(crate) fn write(entries: &[Entry], to: &mut Vec<u8>) {
    let start = to.len();
    to.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    let plain = to.len() + 4 + size_of_val(entries);
    if let Some(runs) = runs(entries) {
        write_patterns(&runs, to, plain);
        if to.len() <= plain {
            return;
        }
    }
    to.truncate(start + 4);
    to.extend_from_slice(&PLAIN.to_le_bytes());
    entries.iter().for_each(|entry| entry.write(to));
}

/// The runs that entries consist of; `None` when there are too many to be worth a thought.
fn runs(entries: &[Entry]) -> Option<Vec<Run>> {
    let mut runs = Vec::new();
    let mut rest = entries;
    while let Some(run) = first_run(rest) {
        runs.push(run);
        if runs.len() > entries.len() / 2 + 1 {
            return None;
        }
        rest = &rest[run.count as usize..];
    }
    Some(runs)
}

/// The run at the front. One of two entries is taken for one when the second begins a longer one.
fn first_run(entries: &[Entry]) -> Option<Run> {
    let &[first, ref rest @ ..] = entries else { return None };
    let alone = Some(Run { first, step: NO_STEP, count: 1 });
    let Some(step) = rest.first().and_then(|second| second.minus(first)) else { return alone };
    let more =
        rest.iter().zip(1..).take_while(|&(&entry, times)| first.plus(step, times) == Some(entry)).count();
    if more == 1
        && let [second, third, fourth, ..] = *rest
        && fourth.minus(third) == third.minus(second)
    {
        return alone;
    }
    Some(Run { first, step, count: more as u32 + 1 })
}

fn write_patterns(runs: &[Run], to: &mut Vec<u8>, limit: usize) {
    let place = to.len();
    let mut patterns = 0_u32;
    to.extend_from_slice(&patterns.to_le_bytes());
    let mut rest = runs;
    while !rest.is_empty() && to.len() <= limit {
        let (period, repeats) = longest_pattern(rest);
        let stride = match repeats {
            1 => NO_STEP,
            _ => rest[period].first.minus(rest[0].first).unwrap_or(NO_STEP),
        };
        to.extend_from_slice(&(period as u32).to_le_bytes());
        to.extend_from_slice(&repeats.to_le_bytes());
        stride.write(to);
        for run in &rest[..period] {
            to.extend_from_slice(&run.count.to_le_bytes());
            run.first.write(to);
            run.step.write(to);
        }
        patterns += 1;
        rest = &rest[period * repeats as usize..];
    }
    to[place..place + 4].copy_from_slice(&patterns.to_le_bytes());
}

/// How many runs at the front to repeat, and how often, so that most runs are covered.
fn longest_pattern(runs: &[Run]) -> (usize, u32) {
    let repeats = |period: usize| {
        let Some(stride) = runs.get(period).and_then(|next| next.first.minus(runs[0].first)) else {
            return 1;
        };
        let same = |(index, run): &(usize, &Run)| {
            let like = runs[index % period];
            let first = like.first.plus(stride, (index / period) as u32);
            (Some(run.first), run.step, run.count) == (first, like.step, like.count)
        };
        (runs.iter().enumerate().take_while(same).count() / period) as u32
    };
    // Of equally good ones the shortest.
    let candidates = (1..=PERIOD.min(runs.len())).rev().map(|period| (period, repeats(period).max(1)));
    candidates
        .filter(|&(period, repeats)| period == 1 || repeats > 1)
        .max_by_key(|&(period, repeats)| period * repeats as usize)
        .expect("period 1 is always there")
}

/// Takes entries off the front of a message and hands them out with their places: all of them in order, or those of one color
/// in any order, which does not look at the others where they are regular.
///
/// # Errors
/// `MPI_ERR_INTERN` for bytes that are no entries, or more of them than `most`.
pub(crate) fn read(
    from: &mut Reader<'_>,
    most: u32,
    color: Option<i32>,
    mut each: impl FnMut(u32, Entry),
) -> Result<()> {
    let total = from.number()?;
    if total > most {
        return Err(from.broken());
    }
    let patterns = from.number()?;
    if patterns == PLAIN {
        for place in 0..total {
            let entry = Entry::read(from)?;
            if color.is_none_or(|color| color == entry.color) {
                each(place, entry);
            }
        }
        return Ok(());
    }
    let mut place = 0;
    for _ in 0..patterns {
        let (period, repeats) = (from.number()? as usize, from.number()?);
        let stride = Entry::read(from)?;
        if !(1..=PERIOD).contains(&period) {
            return Err(from.broken());
        }
        let mut pattern = Pattern { runs: [NO_RUN; PERIOD], period, stride, repeats };
        for run in &mut pattern.runs[..period] {
            *run = Run { count: from.number()?, first: Entry::read(from)?, step: Entry::read(from)? };
        }
        let given = pattern.length().checked_mul(repeats).filter(|&given| given > 0);
        let Some(given) = given.filter(|&given| given <= total - place && pattern.is_legal()) else {
            return Err(from.broken());
        };
        match color {
            None => pattern.all(|at, entry| each(place + at, entry)),
            Some(color) => pattern.of_color(color, |at, entry| each(place + at, entry)),
        }
        place += given;
    }
    if place == total { Ok(()) } else { Err(from.broken()) }
}

const NO_RUN: Run = Run { first: NO_STEP, step: NO_STEP, count: 0 };

/// Some runs, repeated.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    runs: [Run; PERIOD],
    period: usize,
    stride: Entry,
    repeats: u32,
}

impl Pattern {
    fn runs(&self) -> &[Run] {
        &self.runs[..self.period]
    }

    /// Entries of one repetition.
    fn length(&self) -> u32 {
        self.runs().iter().fold(0, |length, run| length.saturating_add(run.count))
    }

    /// Whether all entries exist: steps being constant, those at the corners tell.
    fn is_legal(&self) -> bool {
        self.runs().iter().all(|run| {
            let last = run.first.plus(self.stride, self.repeats - 1);
            let ends = [Some(run.first), last].into_iter();
            ends.map(|first| first?.plus(run.step, run.count.saturating_sub(1))).all(|end| end.is_some())
        })
    }

    fn entry(&self, run: &Run, repeat: u32, times: u32) -> Entry {
        let first = run.first.plus(self.stride, repeat);
        first.and_then(|first| first.plus(run.step, times)).expect("the pattern was checked")
    }

    fn all(&self, mut each: impl FnMut(u32, Entry)) {
        let mut at = 0;
        for repeat in 0..self.repeats {
            for run in self.runs() {
                for times in 0..run.count {
                    each(at, self.entry(run, repeat, times));
                    at += 1;
                }
            }
        }
    }

    /// Those of one color, in any order.
    fn of_color(&self, color: i32, mut each: impl FnMut(u32, Entry)) {
        let length = self.length();
        let mut before = 0;
        for run in self.runs() {
            let repeats = match run.step.color {
                0 => steps_to(color, run.first.color, self.stride.color, self.repeats),
                _ => 0..self.repeats,
            };
            for repeat in repeats {
                let first = self.entry(run, repeat, 0).color;
                for times in steps_to(color, first, run.step.color, run.count) {
                    each(repeat * length + before + times, self.entry(run, repeat, times));
                }
            }
            before += run.count;
        }
    }
}

/// The steps, of `count`, at which a color that begins with `first` and grows by `step` is the wanted one.
fn steps_to(wanted: i32, first: i32, step: i32, count: u32) -> std::ops::Range<u32> {
    let distance = i64::from(wanted) - i64::from(first);
    match i64::from(step) {
        0 if distance == 0 => 0..count,
        0 => 0..0,
        step if distance % step == 0 && (0..i64::from(count)).contains(&(distance / step)) => {
            let times = (distance / step) as u32;
            times..times + 1
        }
        _ => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(entries: &[Entry]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(entries, &mut bytes);
        bytes
    }

    fn entries(bytes: &[u8]) -> Result<Vec<Entry>> {
        let mut found = Vec::new();
        read(&mut Reader::new(bytes), 1 << 20, None, |place, entry| {
            assert_eq!(place as usize, found.len());
            found.push(entry);
        })?;
        for color in [Entry::NO_COLOR, 0, 1, 5] {
            let mut those = Vec::new();
            read(&mut Reader::new(bytes), 1 << 20, Some(color), |place, entry| those.push((place, entry)))?;
            those.sort_unstable_by_key(|&(place, _)| place);
            let wanted: Vec<_> =
                (0..).zip(found.iter().copied()).filter(|(_, entry)| entry.color == color).collect();
            assert_eq!(those, wanted);
        }
        Ok(found)
    }

    fn regular(size: u32, entry: impl Fn(i32) -> (i32, i32)) -> Vec<Entry> {
        (0..size as i32).map(entry).map(|(color, key)| Entry { color, key }).collect()
    }

    #[test]
    fn what_programs_give_takes_a_few_bytes_whatever_the_size() {
        for given in [
            regular(100_000, |rank| (rank / 48, rank)),
            regular(100_000, |rank| (rank % 48, rank)),
            regular(100_000, |rank| (rank % 2, -rank)),
            regular(100_000, |_| (0, 0)),
            regular(100_000, |rank| (rank, 7)),
            regular(100_000, |rank| (Entry::NO_COLOR + i32::from(rank % 48 == 0), rank)),
        ] {
            let bytes = bytes(&given);
            assert!(bytes.len() <= 160, "{} bytes", bytes.len());
            assert_eq!(entries(&bytes).expect("readable"), given);
        }
    }

    proptest! {
        #[test]
        fn extremes_are_written_and_read(given in proptest::collection::vec((prop_oneof![Just(-1), Just(0), Just(i32::MAX)], prop_oneof![Just(i32::MIN), Just(0), Just(i32::MAX)]), 0..40)) {
            let given: Vec<Entry> = given.into_iter().map(|(color, key)| Entry { color, key }).collect();
            prop_assert_eq!(entries(&bytes(&given)).expect("readable"), given);
        }

        #[test]
        fn what_was_written_is_read(given in proptest::collection::vec((-1..4i32, any::<i32>()), 0..70), cut in 0..500usize) {
            let given: Vec<Entry> = given.into_iter().map(|(color, key)| Entry { color, key: key % 3 }).collect();
            let bytes = bytes(&given);
            prop_assert!(bytes.len() <= 8 + 8 * given.len());
            prop_assert_eq!(entries(&bytes).expect("readable"), given);
            if cut < bytes.len() {
                prop_assert!(entries(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn nonsense_is_refused_or_read_but_does_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = entries(&bytes);
        }
    }
}
