//! Groups as programs name them.
//!
//! Groups never change, so making one concerns nobody else: their table has a lock of its own, which is held for one look or
//! one entry, and nothing else is taken under it. Threads make and free groups while others communicate.

use super::Group;
use crate::comm::Changes;
use crate::table::Table;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_types::{Handle, HandleKind, Result, abi};

/// All groups with a handle.
#[derive(Debug)]
pub struct NamedGroups {
    table: Mutex<Table<Arc<Group>>>,
    /// Whether a handle that a thread remembers may be stale. Counted under the table's lock.
    pub changes: Changes,
}

impl Default for NamedGroups {
    fn default() -> NamedGroups {
        NamedGroups { table: Mutex::new(Table::new(HandleKind::Group)), changes: Changes::default() }
    }
}

impl NamedGroups {
    fn table(&self) -> MutexGuard<'_, Table<Arc<Group>>> {
        // A panic ends the process or the test.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group of a handle.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`.
    pub fn get(&self, handle: Handle) -> Result<Arc<Group>> {
        match handle.0 {
            abi::MPI_GROUP_EMPTY => Ok(Arc::new(Group::EMPTY)),
            _ => self.table().get(handle).cloned(),
        }
    }

    /// Names a group; an empty one is `MPI_GROUP_EMPTY`.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn name(&self, group: Arc<Group>) -> Result<Handle> {
        match group.size() {
            0 => Ok(Handle(abi::MPI_GROUP_EMPTY)),
            _ => self.table().insert(group),
        }
    }

    /// Forgets a handle; from now on it is stale.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`.
    pub fn remove(&self, handle: Handle) -> Result<Arc<Group>> {
        let mut table = self.table();
        let removed = table.remove(handle)?;
        self.changes.add();
        Ok(removed)
    }

    /// As [`Table::remember_places`].
    pub(crate) fn remember_places(&self, place: fn() -> String) {
        self.table().remember_places(place);
    }

    /// The size of every group with a handle, and where it was named, if that was remembered.
    pub(crate) fn left(&self) -> Vec<(u32, Option<String>)> {
        let table = self.table();
        table.iter().map(|(handle, group)| (group.size(), table.site(handle).map(str::to_owned))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::ErrorClass;

    #[test]
    fn threads_name_and_free_groups_at_once_and_each_finds_its_own() {
        const TURNS: u32 = if cfg!(miri) { 20 } else { 2_000 };
        let groups = NamedGroups::default();
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                let groups = &groups;
                scope.spawn(move || {
                    for turn in 0..TURNS {
                        let size = thread * TURNS + turn;
                        let handle = groups.name(Arc::new(Group::world(size))).expect("room");
                        assert_eq!(groups.get(handle).expect("alive").size(), size);
                        assert_eq!(groups.remove(handle).expect("alive").size(), size);
                        let gone = groups.get(handle).map(|group| group.size());
                        assert!(gone.as_ref().is_ok_and(|&other| other != size) || gone.is_err());
                    }
                });
            }
        });
        assert!(groups.left().is_empty());
        assert_eq!(groups.name(Arc::new(Group::EMPTY)).expect("predefined").0, abi::MPI_GROUP_EMPTY);
        assert_eq!(
            groups.remove(Handle(abi::MPI_GROUP_EMPTY)).expect_err("not made").class(),
            ErrorClass::GROUP
        );
    }
}
