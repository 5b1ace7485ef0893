//! The kernel's files as placement needs them.

use std::collections::BTreeMap;

/// A view of /sys and /proc: the live one does the system calls, a [`Snapshot`] stands for another machine.
pub trait System {
    /// The text of a file, `None` when it cannot be read.
    fn read(&self, path: &str) -> Option<String>;

    /// Names of the entries of a folder, in any order; empty when it cannot be read.
    fn list(&self, path: &str) -> Vec<String>;
}

/// Files kept in memory, path to text.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(pub BTreeMap<String, String>);

impl System for Snapshot {
    fn read(&self, path: &str) -> Option<String> {
        self.0.get(path).cloned()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let below = self.0.keys().filter_map(|file| file.strip_prefix(&prefix));
        let mut names: Vec<String> =
            below.map(|rest| rest.split('/').next().unwrap_or(rest).to_owned()).collect();
        names.dedup();
        names
    }
}
