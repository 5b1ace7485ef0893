//! Keys of registered memory, where programs choose them, and regions that give theirs back.
//!
//! A key must fit into as many bytes as the domain says, and no two open regions may have the same. One that was given back is the
//! last to be used again, so that whoever still names a region that is gone meets nobody for as long as possible.

use super::Object;
use crate::sys::fid_mr;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The keys of a domain.
#[derive(Debug)]
pub(super) struct Keys {
    next: u64,
    widest: u64,
    free: VecDeque<u64>,
}

impl Keys {
    /// Of a domain whose keys have so many bytes; 0 where it does not say.
    pub(super) fn new(bytes: usize) -> Keys {
        let widest = if (1..8).contains(&bytes) { (1 << (8 * bytes)) - 1 } else { u64::MAX - 1 };
        Keys { next: 1, widest, free: VecDeque::new() }
    }

    /// One that no open region has; `None` when all are in use.
    fn take(&mut self) -> Option<u64> {
        if self.next > self.widest {
            return self.free.pop_front();
        }
        self.next += 1;
        Some(self.next - 1)
    }
}

/// A key until it is dropped.
pub(super) struct Key {
    pub(super) number: u64,
    keys: Arc<Mutex<Keys>>,
}

impl Key {
    pub(super) fn of(keys: &Arc<Mutex<Keys>>) -> Option<Key> {
        let number = keys.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Key { number, keys: Arc::clone(keys) })
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).free.push_back(self.number);
    }
}

/// Registered memory.
pub(crate) struct MemoryRegion {
    // Closed before the key is another's.
    pub(super) object: Object<fid_mr>,
    pub(super) _key: Key,
}

impl MemoryRegion {
    pub(crate) fn raw(&self) -> *mut fid_mr {
        self.object.raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_fit_are_different_and_come_again_as_late_as_possible() {
        let keys = Arc::new(Mutex::new(Keys::new(1)));
        let first: Vec<Key> = (0..10).map(|_| Key::of(&keys).unwrap()).collect();
        drop(first);
        let others: Vec<Key> = std::iter::from_fn(|| Key::of(&keys)).collect();
        let numbers: Vec<u64> = others.iter().map(|key| key.number).collect();
        assert_eq!(numbers, (11..=255).chain(1..=10).collect::<Vec<u64>>());
        assert!(Key::of(&keys).is_none(), "all are in use");
        drop(others);
        assert_eq!(Key::of(&keys).unwrap().number, 11);
    }

    #[test]
    fn keys_without_a_size_have_eight_bytes() {
        for (bytes, widest) in
            [(0, u64::MAX - 1), (2, 0xffff), (4, 0xffff_ffff), (8, u64::MAX - 1), (16, u64::MAX - 1)]
        {
            assert_eq!(Keys::new(bytes).widest, widest, "{bytes}");
        }
    }
}
