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
    shared: u32,
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
            LockKind::Exclusive => !self.exclusive && self.shared == 0,
        };
        if !free {
            return None;
        }
        let granted = self.waiting.pop_front()?;
        match granted.kind {
            LockKind::Shared => self.shared += 1,
            LockKind::Exclusive => self.exclusive = true,
        }
        Some(granted)
    }

    /// Whether somebody waits for a holder to let go.
    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// One holder less.
    pub(super) fn release(&mut self) {
        if self.exclusive {
            self.exclusive = false;
        } else {
            self.shared = self.shared.saturating_sub(1);
        }
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
        lock.release();
        assert_eq!(granted(&mut lock), [] as [u32; 0], "one shared holder is left");
        lock.release();
        assert_eq!(granted(&mut lock), [2]);
        lock.release();
        assert_eq!(granted(&mut lock), [3], "the later exclusive request keeps its place");
        lock.release();
        assert_eq!(granted(&mut lock), [4]);
    }
}
