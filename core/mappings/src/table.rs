//! Which ranges are watched, and which of them have changed. Pure, and without allocations once it is made.
#![forbid(unsafe_code)]

use super::Spot;
use std::collections::TryReserveError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Good,
    /// It has changed, and may be watched still.
    Changed,
    /// It has changed, and nobody watches it for this spot's sake.
    Let,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    state: State,
    /// Spots that were at this place before.
    serial: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Table {
    entries: Vec<Entry>,
    /// Places that are free.
    free: Vec<u32>,
}

impl Table {
    pub(super) fn with_room(most: usize) -> Result<Table, TryReserveError> {
        let mut table = Table { entries: Vec::new(), free: Vec::new() };
        table.entries.try_reserve_exact(most)?;
        table.free.try_reserve_exact(most)?;
        Ok(table)
    }

    /// A spot of a range; `None` where there is no room.
    pub(super) fn add(&mut self, start: u64, end: u64) -> Option<Spot> {
        let fresh = Entry { start, end, state: State::Good, serial: 0 };
        if let Some(place) = self.free.pop() {
            let entry = &mut self.entries[place as usize];
            *entry = Entry { serial: entry.serial.wrapping_add(1), ..fresh };
            return Some(Spot { place, serial: entry.serial });
        }
        // Room that was not reserved would have to be allocated.
        if self.entries.len() == self.entries.capacity() {
            return None;
        }
        self.entries.push(fresh);
        Some(Spot { place: self.entries.len() as u32 - 1, serial: 0 })
    }

    fn entry(&self, spot: Spot) -> Option<&Entry> {
        let entry = self.entries.get(spot.place as usize)?;
        (entry.serial == spot.serial && entry.state != State::Free).then_some(entry)
    }

    pub(super) fn is_good(&self, spot: Spot) -> bool {
        self.entry(spot).is_some_and(|entry| entry.state == State::Good)
    }

    /// A range has changed. Whether spots were good that have part of it.
    pub(super) fn mark(&mut self, start: u64, end: u64) -> bool {
        let mut any = false;
        for entry in &mut self.entries {
            if entry.state == State::Good && entry.start < end && start < entry.end {
                (entry.state, any) = (State::Changed, true);
            }
        }
        any
    }

    /// The range of a spot that has changed since the last call.
    pub(super) fn let_go(&mut self) -> Option<(u64, u64)> {
        let entry = self.entries.iter_mut().find(|entry| entry.state == State::Changed)?;
        entry.state = State::Let;
        Some((entry.start, entry.end))
    }

    /// Ends a spot; its range, where it is watched for the spot's sake.
    pub(super) fn remove(&mut self, spot: Spot) -> Option<(u64, u64)> {
        let entry = *self.entry(spot)?;
        self.entries[spot.place as usize].state = State::Free;
        self.free.push(spot.place);
        (entry.state != State::Let).then_some((entry.start, entry.end))
    }

    /// Ends all spots, as [`Table::remove`] one after the other.
    pub(super) fn remove_any(&mut self) -> Option<(u64, u64)> {
        let good = |entry: &Entry| matches!(entry.state, State::Good | State::Changed);
        let entry = self.entries.iter_mut().find(|entry| good(entry))?;
        entry.state = State::Let;
        Some((entry.start, entry.end))
    }

    /// The parts of a range that no good spot has.
    pub(super) fn uncovered(&self, start: u64, end: u64, mut each: impl FnMut(u64, u64)) {
        let good = || self.entries.iter().filter(|entry| entry.state == State::Good);
        let mut at = start;
        while at < end {
            if let Some(behind) =
                good().filter(|entry| entry.start <= at && at < entry.end).map(|entry| entry.end).max()
            {
                at = behind;
                continue;
            }
            let next = good().map(|entry| entry.start).filter(|&next| next > at).min();
            let until = next.map_or(end, |next| next.min(end));
            each(at, until);
            at = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list of bytes: good is what was added and of which nothing has changed since; uncovered is what no good one has.
        #[test]
        fn spots_are_good_until_something_of_them_changes(
            steps in prop::collection::vec((0_u8..4, 0_u64..60, 1_u64..20, 0_usize..10), 1..100)
        ) {
            let mut table = Table::with_room(6).unwrap();
            let mut spots: Vec<(Spot, u64, u64, bool)> = Vec::new();
            for (what, start, length, at) in steps {
                let end = start + length;
                match what {
                    0 | 1 => match table.add(start, end) {
                        Some(spot) => spots.push((spot, start, end, true)),
                        None => prop_assert_eq!(spots.len(), 6),
                    },
                    2 => {
                        let mut any = false;
                        for spot in spots.iter_mut().filter(|spot| spot.3 && spot.1 < end && start < spot.2) {
                            (spot.3, any) = (false, true);
                        }
                        let before = spots.iter().filter(|spot| !spot.3).count();
                        prop_assert_eq!(table.mark(start, end), any);
                        let mut let_go = 0;
                        while table.let_go().is_some() {
                            let_go += 1;
                        }
                        prop_assert!(let_go <= before && (let_go > 0) == any);
                    }
                    _ if !spots.is_empty() => {
                        let (spot, start, end, good) = spots.swap_remove(at % spots.len());
                        prop_assert_eq!(table.remove(spot), good.then_some((start, end)));
                        prop_assert!(!table.is_good(spot) && table.remove(spot).is_none(), "a spot of before");
                    }
                    _ => {}
                }
                for &(spot, _, _, good) in &spots {
                    prop_assert_eq!(table.is_good(spot), good);
                }
                let mut found = Vec::new();
                table.uncovered(start, end, |from, to| found.extend(from..to));
                let covered = |byte: u64| spots.iter().any(|&(_, start, end, good)| good && start <= byte && byte < end);
                prop_assert_eq!(found, (start..end).filter(|&byte| !covered(byte)).collect::<Vec<_>>());
            }
        }
    }
}
