//! Operations that are over and of which nobody is told yet.

use super::nap::Due;
use weft_api::zero_copy::Completed;

/// In the order in which they ended; told in that in which they are due.
#[derive(Debug, Default)]
pub(super) struct Endings(Vec<(u64, Completed)>);

impl Endings {
    /// Of this one is told from then on.
    pub(super) fn push(&mut self, due: u64, done: Completed) {
        self.0.push((due, done));
    }

    /// The next one that is due.
    pub(super) fn pop(&mut self, now: u64, naps: &Due) -> Option<Completed> {
        let (index, &(due, _)) = self.0.iter().enumerate().min_by_key(|(_, (due, _))| *due)?;
        if due > now {
            naps.at(due);
            return None;
        }
        Some(self.0.remove(index).1)
    }
}
