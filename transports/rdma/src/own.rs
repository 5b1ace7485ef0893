//! The connection of a device with itself: changes of this process's registered memory by the device that executes those of others
//! on it. Where a device's atomics are atomic among themselves alone, the owner's must be such, too.
//!
//! It is two queue pairs of the device, one that asks and one that answers, made when they are first needed (not one towards itself:
//! what it refuses as the one that answers would flush what it has asked, and nobody would know which request was at fault). Nothing
//! else passes, so each request tells, and they end in their order. When it fails, what it had not told of may have been done or not: nobody knows, and it fails, but for
//! what lay behind a request that named memory which may not be touched: that was not begun, and the next connection does it.

use crate::contact::SENDING;
use crate::flight::Holds;
use crate::keys::first_key;
use crate::peers::NO_PAIR;
use crate::transport::{MESSAGES, Rdma};
use std::collections::VecDeque;
use weft_api::Refused;
use weft_api::verbs::{
    Access, Completion, CompletionStatus, Data, Hca, HcaRefusal, Nanos, QueuePairNumber, Remote,
    RemoteAddress, Sending, Work, WorkRequest,
};
use weft_api::zero_copy::{Atomic, RemoteMemory, Token};

/// The first device's: with two, atomics are offered where they exclude processors too, and nobody needs this.
const RAIL: u8 = 0;

/// Devices with fewer queue pairs keep them for peers.
const LEAST_PAIRS: u32 = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Own {
    /// The end that asks. [`NO_PAIR`]: it was not needed yet, or has failed.
    pair: QueuePairNumber,
    /// The end that answers.
    other: QueuePairNumber,
    /// What is posted, the oldest first.
    under_way: VecDeque<Change>,
    /// Since when nothing of that has ended.
    since: Nanos,
    /// The identifier of the next request: of all connections, so that none is taken for another's.
    next: u64,
}

/// One request.
#[derive(Clone, Copy, Debug)]
struct Change {
    id: u64,
    at: RemoteMemory,
    operation: Atomic,
    /// The place for what it finds.
    slot: u32,
    token: Token,
}

impl Default for Own {
    fn default() -> Own {
        Own { pair: NO_PAIR, other: NO_PAIR, under_way: VecDeque::new(), since: 0, next: 1 }
    }
}

impl Own {
    /// Requests that are not known to be complete.
    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }
}

/// The work of an atomic.
pub(crate) fn work_of(operation: Atomic, at: RemoteAddress) -> Work {
    match operation {
        Atomic::FetchAdd(add) => Work::FetchAdd { at, add },
        Atomic::CompareSwap { compare, swap } => Work::CompareSwap { at, compare, swap },
    }
}

impl<H: Hca> Rdma<H> {
    /// Makes the connection of the first device with itself, unless it is there. False: it cannot be had.
    pub(crate) fn open_own(&mut self) -> bool {
        if self.own.pair != NO_PAIR {
            return true;
        }
        if self.limits.max_queue_pairs < LEAST_PAIRS {
            return false;
        }
        let Ok(pair) = self.make_pair(RAIL) else { return false };
        let Ok(other) = self.make_pair(RAIL) else {
            self.rails[usize::from(RAIL)].destroy_pair(pair);
            return false;
        };
        let is_open = self.open_towards(pair, other) && self.open_towards(other, pair);
        let rail = &mut self.rails[usize::from(RAIL)];
        if !is_open {
            rail.destroy_pair(pair);
            rail.destroy_pair(other);
            return false;
        }
        (self.own.pair, self.own.other) = (pair, other);
        self.counts.own_connections += 1;
        true
    }

    /// Opens one of the two ends.
    fn open_towards(&mut self, pair: QueuePairNumber, other: QueuePairNumber) -> bool {
        let epoch = self.counts.own_connections as u32;
        let [own, theirs] = [pair, other].map(|pair| self.first_packet(pair, epoch));
        let rail = &mut self.rails[usize::from(RAIL)];
        let remote = Remote {
            // It never leaves the device: nobody is asked for the way.
            address: rail.hca.address(),
            by: 0,
            queue_pair: other,
            first_packet: theirs,
            mtu: rail.hca.limits().mtu.min(4096),
            max_incoming_reads: SENDING.max_reads,
            not_ready_code: 0,
            access: Access::ALL,
        };
        rail.hca.open_queue_pair(pair, Some((remote, Sending { first_packet: own, ..SENDING }))).is_ok()
    }

    /// As [`Rdma::change`], of registered memory of this process.
    pub(crate) fn change_by_own(
        &mut self,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> Result<(), Refused> {
        let is_crowded = self.rails[usize::from(RAIL)].hca.is_crowded();
        if self.own.len() >= MESSAGES || is_crowded {
            return Err(Refused::Full);
        }
        if !self.limits.atomics || !self.open_own() {
            return Err(Refused::Dead);
        }
        let slot = self.found.take().ok_or(Refused::Full)?;
        let id = self.own.next;
        let posted = self.post_own(Change { id, at, operation, slot, token });
        match posted {
            Ok(()) => return Ok(()),
            Err(HcaRefusal::Full) => {}
            // What it had under way ends with it, and this is tried again by the next one.
            Err(_) => self.end_own(),
        }
        self.found.give_back(slot);
        Err(Refused::Full)
    }

    fn post_own(&mut self, change: Change) -> Result<(), HcaRefusal> {
        let Change { id, at, operation, slot, .. } = change;
        let segment = [self.found.segment(RAIL, slot, 8)];
        let fence = !self.limits.atomics_in_order;
        let request = WorkRequest::new(id, work_of(operation, first_key(at)), &[]);
        let request = WorkRequest { data: Data::Segments(&segment), fence, ..request };
        self.rails[usize::from(RAIL)].hca.post_send(self.own.pair, &request)?;
        self.counts.requests += 1;
        self.counts.signaled += 1;
        self.counts.doorbells += 1;
        self.own.next = id + 1;
        if self.own.under_way.is_empty() {
            self.own.since = self.now();
        }
        self.own.under_way.push_back(change);
        Ok(())
    }

    /// A request ended that is of no peer's connection. Whether it is this one's.
    pub(crate) fn own_completed(&mut self, done: &Completion) -> bool {
        let expected = self.own.under_way.front().map(|change| change.id);
        if done.queue_pair != self.own.pair || expected != Some(done.id) {
            return false;
        }
        let Some(change) = self.own.under_way.pop_front() else { return false };
        self.own.since = self.now();
        let success = done.status == CompletionStatus::Success;
        self.give_back(RAIL, Holds::Found(change.slot, change.token), success);
        match done.status {
            CompletionStatus::Success => {}
            // The other end, which is in error now, has begun nothing of what follows.
            CompletionStatus::RemoteInvalidRequest
            | CompletionStatus::RemoteAccess
            | CompletionStatus::RemoteOperation => {
                let behind = std::mem::take(&mut self.own.under_way);
                self.end_own();
                self.begin_again(behind);
            }
            CompletionStatus::LocalLength
            | CompletionStatus::LocalProtection
            | CompletionStatus::Flushed
            | CompletionStatus::RetriesExceeded
            | CompletionStatus::NotReadyRetriesExceeded => self.end_own(),
        }
        true
    }

    /// Gives the connection up where nothing of what it has ends for long: a device that waits for ever for an answer would never
    /// say so.
    pub(crate) fn look_at_own(&mut self, now: Nanos) {
        if self.own.len() > 0 && now.saturating_sub(self.own.since) >= self.patience {
            self.end_own();
        }
    }

    /// Has the next connection do what the last one did not begin.
    fn begin_again(&mut self, behind: VecDeque<Change>) {
        let mut is_open = self.open_own();
        for change in behind {
            let id = self.own.next;
            is_open = is_open && self.post_own(Change { id, ..change }).is_ok();
            if !is_open {
                self.give_back(RAIL, Holds::Found(change.slot, change.token), false);
            }
        }
    }

    /// The connection has failed: the device lets go of it, and what it had under way fails.
    fn end_own(&mut self) {
        let ends = [&mut self.own.pair, &mut self.own.other].map(|end| std::mem::replace(end, NO_PAIR));
        let rail = &mut self.rails[usize::from(RAIL)];
        ends.into_iter().for_each(|end| rail.hca.stop_queue_pair(end));
        for end in ends {
            rail.hca.finish_queue_pair(end);
            rail.destroy_pair(end);
        }
        while let Some(change) = self.own.under_way.pop_front() {
            self.give_back(RAIL, Holds::Found(change.slot, change.token), false);
        }
    }
}
