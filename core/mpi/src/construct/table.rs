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

    fn minus(self, other: Entry) -> Entry {
        Entry { color: self.color.wrapping_sub(other.color), key: self.key.wrapping_sub(other.key) }
    }

    fn plus(self, step: Entry, times: u32) -> Entry {
        let times = times as i32;
        Entry {
            color: self.color.wrapping_add(step.color.wrapping_mul(times)),
            key: self.key.wrapping_add(step.key.wrapping_mul(times)),
        }
    }
}

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
    let plain = to.len() + 4 + entries.len() * size_of::<Entry>();
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
    let step = rest.first().map_or(Entry { color: 0, key: 0 }, |second| second.minus(first));
    let more = rest.iter().zip(1..).take_while(|&(&entry, times)| entry == first.plus(step, times)).count();
    if more == 1
        && let [second, third, fourth, ..] = *rest
        && fourth.minus(third) == third.minus(second)
    {
        return Some(Run { first, step: Entry { color: 0, key: 0 }, count: 1 });
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
            1 => Entry { color: 0, key: 0 },
            _ => rest[period].first.minus(rest[0].first),
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
        let Some(next) = runs.get(period) else { return 1 };
        let stride = next.first.minus(runs[0].first);
        let same = |(index, run): &(usize, &Run)| {
            let like = runs[index % period];
            let first = like.first.plus(stride, (index / period) as u32);
            (run.first, run.step, run.count) == (first, like.step, like.count)
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

/// Takes entries off the front of a message and hands them out, in order.
///
/// # Errors
/// `MPI_ERR_INTERN` for bytes that are no entries, or more of them than `most`.
pub(crate) fn read(from: &mut Reader<'_>, most: u32, mut each: impl FnMut(Entry)) -> Result<()> {
    let total = from.number()?;
    if total > most {
        return Err(from.broken());
    }
    let patterns = from.number()?;
    if patterns == PLAIN {
        for _ in 0..total {
            each(Entry::read(from)?);
        }
        return Ok(());
    }
    let mut left = total;
    for _ in 0..patterns {
        let (period, repeats) = (from.number()? as usize, from.number()?);
        let stride = Entry::read(from)?;
        if !(1..=PERIOD).contains(&period) {
            return Err(from.broken());
        }
        let mut runs = [Run { first: stride, step: stride, count: 0 }; PERIOD];
        let mut given = 0_u32;
        for run in &mut runs[..period] {
            *run = Run { count: from.number()?, first: Entry::read(from)?, step: Entry::read(from)? };
            given = given.saturating_add(run.count);
        }
        let given = given.checked_mul(repeats).filter(|&given| given > 0);
        left = match given.and_then(|given| left.checked_sub(given)) {
            Some(left) => left,
            None => return Err(from.broken()),
        };
        for repeat in 0..repeats {
            for run in &runs[..period] {
                let first = run.first.plus(stride, repeat);
                (0..run.count).for_each(|times| each(first.plus(run.step, times)));
            }
        }
    }
    if left == 0 { Ok(()) } else { Err(from.broken()) }
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
        read(&mut Reader::new(bytes), 1 << 20, |entry| found.push(entry))?;
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
