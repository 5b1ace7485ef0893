//! Eager budgets: how many bytes of unexpected data one sender may make one receiver hold.
//!
//! Both ends begin with the same budget. The sender's [`SendWindow`] shrinks by [`charge`] for every eager message;
//! the receiver's [`ReceiveLedger`] counts what has left its hands and gives it back in batches. When the window
//! is too small the sender announces (rendezvous) instead. Announcements cost nothing: they always pass, because
//! a receive for any of them may already be posted (section 3.5, progress).

/// What an entry in the receiver's queues costs beside its payload, in bytes: the message, its links in the matching
/// table, and what its memory is rounded up by.
pub const OVERHEAD: u32 = 256;

/// Largest message that may ever be sent without asking, whatever the configuration says: sums of charges fit 32 bits.
pub const EAGER_MOST: u32 = 1 << 28;

/// Budget used by an eager message of `payload` bytes, at most [`EAGER_MOST`].
#[inline]
pub const fn charge(payload: u32) -> u32 {
    debug_assert!(payload <= EAGER_MOST);
    payload + OVERHEAD
}

/// The budget of one sender in a job of `size` processes, which both ends compute alike: an equal share of the
/// `total`, at least 16 KiB so that small messages flow in the largest job, at most `per_sender`.
pub fn sender_budget(per_sender: u32, total: u64, size: u32) -> u32 {
    let share = (total / u64::from(size.max(1))).max(16 << 10);
    share.min(u64::from(per_sender)) as u32
}

/// The sender's side of a budget, with a gate in front: nothing overtakes what already queues for this peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendWindow {
    open: u32,
    held: u32,
    shut: bool,
}

impl SendWindow {
    /// A window of `budget` bytes, gate open.
    pub const fn new(budget: u32) -> SendWindow {
        SendWindow { open: budget, held: 0, shut: false }
    }

    /// Bytes that may be sent at once without asking and without overtaking anybody; 0 behind a shut gate.
    #[inline]
    pub const fn open(&self) -> u32 {
        self.open
    }

    /// Bytes left, whether or not the gate is open.
    #[inline]
    pub const fn left(&self) -> u32 {
        if self.shut { self.held } else { self.open }
    }

    /// Uses `bytes`, which the caller has seen to be left.
    #[inline]
    pub const fn spend(&mut self, bytes: u32) {
        if self.shut {
            self.held -= bytes;
        } else {
            self.open -= bytes;
        }
    }

    /// As [`SendWindow::spend`] when the gate is known to be open.
    #[inline]
    pub const fn spend_open(&mut self, bytes: u32) {
        self.open -= bytes;
    }

    /// The receiver gave back `bytes`.
    pub const fn grant(&mut self, bytes: u32) {
        if self.shut {
            self.held = self.held.saturating_add(bytes);
        } else {
            self.open = self.open.saturating_add(bytes);
        }
    }

    /// Something queues for this peer: nobody passes at once any more.
    pub const fn shut(&mut self) {
        if !self.shut {
            *self = SendWindow { open: 0, held: self.open, shut: true };
        }
    }

    /// The queue is empty again.
    pub const fn reopen(&mut self) {
        if self.shut {
            *self = SendWindow { open: self.held, held: 0, shut: false };
        }
    }
}

/// The receiver's side of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveLedger {
    owed: u32,
    batch: u32,
}

impl ReceiveLedger {
    /// A ledger for a sender with a window of `budget` bytes: a quarter of it is given back at a time.
    pub const fn new(budget: u32) -> ReceiveLedger {
        ReceiveLedger { owed: 0, batch: budget / 4 }
    }

    /// Data charged with `bytes` has left the library's hands. True when it is time to give back.
    #[inline]
    pub const fn release(&mut self, bytes: u32) -> bool {
        self.owed += bytes;
        self.owed > self.batch
    }

    /// What is not given back yet: another number after anything has come.
    #[inline]
    pub const fn owed(&self) -> u32 {
        self.owed
    }

    /// Whether it is time to give back.
    #[inline]
    pub const fn is_due(&self) -> bool {
        self.owed > self.batch
    }

    /// What is to be given back now; 0 when a batch is not yet full.
    #[inline]
    pub const fn collect(&mut self) -> u32 {
        if self.owed > self.batch { std::mem::replace(&mut self.owed, 0) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is sent and consumed in whatever order: the receiver never holds more than the budget, and a
        /// sender that finds the window too small while nothing is held is only ever short of the batch.
        #[test]
        fn held_bytes_never_exceed_the_budget(
            budget in 1024_u32..100_000,
            steps in proptest::collection::vec((any::<bool>(), 0_u32..5000), 0..400),
        ) {
            let mut window = SendWindow::new(budget);
            let mut ledger = ReceiveLedger::new(budget);
            let mut held: std::collections::VecDeque<u32> = Default::default();
            for (send, size) in steps {
                if send {
                    if charge(size) <= window.open() {
                        window.spend(charge(size));
                        held.push_back(charge(size));
                    }
                } else if let Some(bytes) = held.pop_front() {
                    ledger.release(bytes);
                    window.grant(ledger.collect());
                }
                prop_assert!(held.iter().sum::<u32>() <= budget);
                if held.is_empty() {
                    prop_assert!(window.left() >= budget - budget / 4);
                }
            }
        }
    }

    #[test]
    fn a_shut_gate_hides_the_window_and_keeps_what_is_granted() {
        let mut window = SendWindow::new(1000);
        window.spend(300);
        window.shut();
        assert_eq!((window.open(), window.left()), (0, 700));
        window.grant(200);
        window.spend(100);
        window.reopen();
        assert_eq!(window.open(), 800);
    }
}
