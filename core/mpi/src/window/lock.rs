//! Who holds the lock of a window at its owner, and who waits for it (section 12.5.3).

use std::collections::VecDeque;

/// What a lock excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Nobody but exclusive ones.
    Shared,
    /// Everybody else.
    Exclusive,
}

/// Somebody who asked for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) origin: u32,
    pub(super) kind: LockKind,
    /// The number to answer with.
    pub(super) id: u32,
}

/// The lock of one window at its owner. Granted in the order of the requests, so that nobody starves.
#[derive(Debug, Default)]
pub(super) struct Lock {
    exclusive: bool,
    /// The origins that hold it.
    holders: Vec<u32>,
    waiting: VecDeque<Waiting>,
}

impl Lock {
    pub(super) fn ask(&mut self, who: Waiting) {
        self.waiting.push_back(who);
    }

    /// The next one who gets the lock now; to be called until it gives none.
    pub(super) fn grant(&mut self) -> Option<Waiting> {
        let free = match self.waiting.front()?.kind {
            LockKind::Shared => !self.exclusive,
            LockKind::Exclusive => self.holders.is_empty(),
        };
        if !free {
            return None;
        }
        let granted = self.waiting.pop_front()?;
        self.exclusive = granted.kind == LockKind::Exclusive;
        self.holders.push(granted.origin);
        Some(granted)
    }

    /// Whether somebody waits for a holder to let go.
    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// `origin` lets go. False: it holds no lock, and nothing has changed.
    pub(super) fn release(&mut self, origin: u32) -> bool {
        let Some(place) = self.holders.iter().position(|&holder| holder == origin) else { return false };
        self.holders.swap_remove(place);
        self.exclusive = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(lock: &mut Lock) -> Vec<u32> {
        std::iter::from_fn(|| lock.grant()).map(|who| who.origin).collect()
    }

    #[test]
    fn shared_holders_come_together_and_exclusive_ones_alone_in_the_order_of_asking() {
        let mut lock = Lock::default();
        let kinds =
            [LockKind::Shared, LockKind::Shared, LockKind::Exclusive, LockKind::Shared, LockKind::Exclusive];
        for (origin, kind) in (0..).zip(kinds) {
            lock.ask(Waiting { origin, kind, id: 0 });
        }
        assert_eq!(granted(&mut lock), [0, 1]);
        assert!(lock.release(0));
        assert_eq!(granted(&mut lock), [] as [u32; 0], "one shared holder is left");
        assert!(lock.release(1));
        assert_eq!(granted(&mut lock), [2]);
        assert!(lock.release(2));
        assert_eq!(granted(&mut lock), [3], "the later exclusive request keeps its place");
        assert!(lock.release(3));
        assert_eq!(granted(&mut lock), [4]);
    }

    #[test]
    fn nobody_lets_go_of_the_lock_of_another() {
        let mut lock = Lock::default();
        for origin in 0..2 {
            lock.ask(Waiting { origin, kind: LockKind::Exclusive, id: 0 });
        }
        assert_eq!(granted(&mut lock), [0]);
        assert!(!lock.release(1) && !lock.release(7));
        assert_eq!(granted(&mut lock), [] as [u32; 0], "the first holds it still");
        assert!(lock.release(0) && !lock.release(0));
        assert_eq!(granted(&mut lock), [1]);
    }
}
