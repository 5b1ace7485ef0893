//! Connections that fail: the next one between the same two processes, or the end.
//!
//! A connection fails when the device has no answer after all retries, when an operation named memory that may not be touched, or when the
//! peer says that it has failed there. Its queue pair is stopped, what had arrived is taken in, it is destroyed: nothing of it touches memory
//! any more, and the number of messages received is final. Then a new one is asked for, as at first contact, and what the peer has not had is
//! posted again ([`crate::flight`] says what that is). When nobody answers for [`Rdma::patience`], or the network says that nobody is there,
//! the peer is lost.

use crate::contact::FIRST_RETRY;
use crate::flight::Holds;
use crate::handshake::Step;
use crate::peers::State;
use crate::transport::Rdma;
use weft_api::verbs::{Completion, CompletionStatus, DeviceAddress, Hca, Nanos};
use weft_api::zero_copy::{Completed, Outcome};

/// How long a peer whose connection has failed is asked for another.
pub(crate) const PATIENCE: Nanos = 10_000_000_000;

impl<H: Hca> Rdma<H> {
    /// A request of a connection, or a receive, ended otherwise than in success.
    pub(crate) fn failed(&mut self, index: u32, done: Completion, received: bool) {
        let peer = self.peers.at_mut(index);
        if !matches!(peer.state, State::Open { .. }) {
            return; // It has failed before, and the rest follows.
        }
        if received {
            return self.break_off(index);
        }
        match done.status {
            CompletionStatus::Success => {}
            // Not by its own fault; what came before it may be unfinished too.
            CompletionStatus::Flushed => self.break_off(index),
            CompletionStatus::RetriesExceeded | CompletionStatus::NotReadyRetriesExceeded => {
                self.retire_before(index, done.id);
                self.break_off(index);
            }
            // It would fail again.
            CompletionStatus::LocalLength
            | CompletionStatus::LocalProtection
            | CompletionStatus::RemoteInvalidRequest
            | CompletionStatus::RemoteAccess
            | CompletionStatus::RemoteOperation => {
                self.retire_before(index, done.id);
                let flight = &mut self.peers.at_mut(index).flight;
                if flight.tells_of(done.id)
                    && let Some((holds, _)) = flight.retire(done.id)
                {
                    self.give_back(holds, false);
                    self.break_off(index);
                } else {
                    // Nobody would hear that it did not happen.
                    self.lose(index);
                }
            }
        }
    }

    /// Those before it went well, or they would have said so.
    fn retire_before(&mut self, index: u32, id: u64) {
        let Some(before) = id.checked_sub(1) else { return };
        while let Some((holds, _)) = self.peers.at_mut(index).flight.retire(before) {
            self.give_back(holds, true);
        }
    }

    /// A connection has failed and its peer may live.
    pub(crate) fn break_off(&mut self, index: u32) {
        let peer = self.peers.at_mut(index);
        if peer.resting {
            // It need not answer any more.
            return self.lose(index);
        }
        if matches!(peer.state, State::Open { .. }) {
            peer.state = State::Failing { again: true };
            self.hca.stop_queue_pair(peer.pair);
            self.failing.push(index);
        }
    }

    /// A peer is given up. What had arrived is still taken in; then [`Rdma::bury`] ends it.
    pub(crate) fn lose(&mut self, index: u32) {
        let peer = self.peers.at_mut(index);
        match peer.state {
            State::Failing { again: false } | State::Gone => return,
            State::Failing { again: true } => {}
            State::Asking { .. } | State::Open { .. } => {
                self.hca.stop_queue_pair(peer.pair);
                self.failing.push(index);
            }
        }
        peer.state = State::Failing { again: false };
        self.asking.retain(|&asking| asking != index);
    }

    /// Everything that had arrived is taken in: the device lets go of the connections that have failed, so that no memory of an
    /// operation is touched any more. Then another is asked for, or those who wait hear of the end.
    pub(crate) fn bury(&mut self) {
        for index in std::mem::take(&mut self.failing) {
            let peer = self.peers.at_mut(index);
            let (id, pair) = (peer.id, peer.pair);
            self.hca.destroy_queue_pair(pair);
            self.peers.forget_pair(pair);
            let peer = self.peers.at_mut(index);
            if matches!(peer.state, State::Failing { again: true }) {
                self.ask_anew(index);
                continue;
            }
            peer.state = State::Gone;
            self.questions.retain(|&(of, _)| of != index);
            while let Some((holds, _)) = self.peers.at_mut(index).flight.retire(u64::MAX) {
                self.give_back(holds, false);
            }
            if !self.peers.at(index).resting {
                self.lost.push_back(id);
            }
        }
    }

    /// Asks for the next connection, or answers the question for it.
    fn ask_anew(&mut self, index: u32) {
        let now = self.hca.now();
        let peer = self.peers.at_mut(index);
        peer.epoch += 1;
        peer.state =
            State::Asking { next: now + FIRST_RETRY, pause: FIRST_RETRY, until: now + self.patience };
        match self.make_pair() {
            Ok(pair) => self.peers.has_pair(index, pair),
            Err(_) => return self.lose(index),
        }
        self.asking.push(index);
        match self.questions.iter().position(|&(of, _)| of == index) {
            Some(place) => {
                let (_, hello) = self.questions.swap_remove(place);
                self.greeted(hello);
            }
            None => self.say(Step::Ask, index),
        }
    }

    /// A peer is connected and has ever received `received` messages: what it has not had is posted again.
    pub(crate) fn go_on(&mut self, index: u32, received: u32) {
        self.counts.reconnections += u64::from(self.peers.at(index).epoch > 0);
        let Some(over) = self.peers.at_mut(index).flight.settle(received) else {
            // It has forgotten what it acknowledged, or counts what was never sent: nothing it says can be trusted.
            return self.lose(index);
        };
        for (holds, success) in over {
            self.give_back(holds, success);
        }
        let peer = self.peers.at_mut(index);
        let (hca, counts, pair) = (&mut self.hca, &mut self.counts, peer.pair);
        let posted = peer.flight.repeat(|id, work, data, signaled| {
            counts.requests += 1;
            counts.doorbells += 1;
            counts.signaled += u64::from(signaled);
            hca.post_send(
                pair,
                &weft_api::verbs::WorkRequest { id, work, data, signaled, fence: false, solicited: false },
            )
        });
        if posted.is_err() {
            self.lose(index);
        }
    }

    /// A request is over: what it held is free, and whoever waits hears of it.
    pub(crate) fn give_back(&mut self, holds: Holds, success: bool) {
        let (token, value) = match holds {
            Holds::Nothing | Holds::Question => return,
            Holds::Slot(slot) => return self.send_slots.give_back(slot),
            Holds::Token(token) => (token, 0),
            Holds::SlotAndToken(slot, token) => {
                self.send_slots.give_back(slot);
                (token, 0)
            }
            Holds::Found(slot, token) => {
                let found = self.hca.bytes(self.found.address(slot), 8);
                let value = u64::from_ne_bytes(found.try_into().expect("eight bytes"));
                self.found.give_back(slot);
                (token, value)
            }
        };
        let outcome = if success { Outcome::Done(value) } else { Outcome::Failed };
        self.ended.push_back(Completed { token, outcome });
    }

    /// The network says that nobody is at an address.
    pub(crate) fn nobody_at(&mut self, address: DeviceAddress) {
        for index in 0..self.peers.all().len() as u32 {
            if self.peers.at(index).card.address == address {
                self.lose(index);
            }
        }
    }
}
