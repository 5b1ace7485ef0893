//! Connections that fail: the next one between the same two processes, or the end.
//!
//! A connection fails when the device has no answer after all retries, when an operation named memory that may not be touched,
//! or when the peer says that it has failed there. Its queue pair is stopped, what had arrived is taken in, it is destroyed:
//! nothing of it touches memory any more, and the number of messages received is final. Then a new one is asked for, as at
//! first contact, and what the peer has not had is posted again ([`crate::flight`] says what that is). When nobody answers for
//! [`Rdma::patience`], or the network says that nobody is there, the peer is lost.

use crate::contact::FIRST_RETRY;
use crate::flight::Holds;
use crate::handshake::{Hello, Step, Wants};
use crate::peers::{NO_PAIR, State};
use crate::rail::MOST_RAILS;
use crate::transport::Rdma;
use crate::wide::Late;
use weft_api::verbs::{Completion, CompletionStatus, DeviceAddress, Hca, Nanos, WorkRequest};
use weft_api::zero_copy::{Completed, Outcome};

/// How long a peer whose connection has failed is asked for another.
pub(crate) const PATIENCE: Nanos = 10_000_000_000;

impl<H: Hca> Rdma<H> {
    /// A request of a connection, or a receive, ended otherwise than in success.
    pub(crate) fn failed(&mut self, index: u32, done: Completion, received: bool) {
        let peer = self.peers.at(index);
        let rail = peer.rail;
        if !matches!(peer.state, State::Answered { .. } | State::Open { .. } | State::Parting { .. }) {
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
                let peer = self.peers.at_mut(index);
                peer.mute = peer.heard <= peer.made;
                self.renew_route(index);
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
                    self.give_back(rail, holds, false);
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
        let rail = self.peers.at(index).rail;
        while let Some((holds, _)) = self.peers.at_mut(index).flight.retire(before) {
            self.give_back(rail, holds, true);
        }
    }

    /// A connection has failed and its peer may live.
    pub(crate) fn break_off(&mut self, index: u32) {
        let until = self.now() + self.patience;
        self.leave_way(index, until);
    }

    /// The next way to a peer is asked for, until it is taken for lost.
    pub(crate) fn leave_way(&mut self, index: u32, until: Nanos) {
        let peer = self.peers.at_mut(index);
        let (id, state, rail, pair) = (peer.id, peer.state, peer.rail, peer.pair);
        let asks = self.questions.iter().any(|&(of, ..)| of == index);
        if !asks && self.peers.get(id).is_some_and(|peer| peer.resting) {
            // It need not answer any more. Whose question is here is answered: it may look once more.
            return self.lose(index);
        }
        let until = match state {
            State::Answered { .. } | State::Open { .. } | State::Parting { .. } => until,
            // Nothing can fail: it may compute for long.
            State::Datagrams => Nanos::MAX,
            _ => return,
        };
        let peer = self.peers.at_mut(index);
        peer.state = State::Failing { again: true, until };
        peer.flight.stop();
        self.asking.retain(|&asking| asking != index);
        if pair != NO_PAIR {
            self.hca_of(rail).stop_queue_pair(pair);
        }
        self.failing.push(index);
    }

    /// A peer is given up, with all its connections. What had arrived is still taken in; then [`Rdma::bury`] ends it.
    pub(crate) fn lose(&mut self, index: u32) {
        let id = self.peers.at(index).id;
        for channel in 0..MOST_RAILS as u8 {
            if let Some(index) = self.peers.find_channel(id, channel) {
                self.end(index);
            }
        }
    }

    fn end(&mut self, index: u32) {
        let peer = self.peers.at_mut(index);
        let (rail, pair) = (peer.rail, peer.pair);
        let state = std::mem::replace(&mut peer.state, State::Failing { again: false, until: 0 });
        peer.flight.stop();
        match state {
            State::Failing { .. } => {}
            State::Gone => peer.state = State::Gone,
            State::Asking { .. }
            | State::Answered { .. }
            | State::Open { .. }
            | State::Parting { .. }
            | State::Datagrams => {
                if pair != NO_PAIR {
                    self.hca_of(rail).stop_queue_pair(pair);
                }
                self.failing.push(index);
            }
        }
        self.asking.retain(|&asking| asking != index);
    }

    /// Everything that had arrived is taken in: the device lets go of the connections that have failed, so that no memory of an
    /// operation is touched any more. Then another is asked for, or those who wait hear of the end.
    pub(crate) fn bury(&mut self) {
        self.finish_pairs();
        for index in std::mem::take(&mut self.failing) {
            let peer = self.peers.at(index);
            let (id, channel, rail, pair, flown) = (peer.id, peer.channel, peer.rail, peer.pair, peer.flown);
            self.rails[usize::from(rail)].destroy_pair(pair);
            self.peers.forget_pair(rail, pair);
            let now = self.now();
            self.end_rings(index, now);
            let peer = self.peers.at_mut(index);
            (peer.pair, peer.late) = (NO_PAIR, peer.stream.take().map(|stream| Late::of(*stream, peer)));
            if let State::Failing { again: true, until } = peer.state {
                self.ask_anew(index, until);
                continue;
            }
            let peer = self.peers.at_mut(index);
            (peer.state, peer.late) = (State::Gone, None);
            self.has_heard(index);
            self.questions.retain(|&(of, ..)| of != index);
            while let Some((holds, _)) = self.peers.at_mut(index).flight.retire(u64::MAX) {
                self.give_back(flown, holds, false);
            }
            if channel == 0 {
                self.keyrings.drop_peer(id);
                if !self.peers.at(index).resting {
                    self.lost.push_back(id);
                }
            }
        }
    }

    /// Takes in what arrived by connections that have failed while they were being stopped. Their peers were told that it has
    /// arrived.
    fn finish_pairs(&mut self) {
        let mut finished = 0;
        while finished < self.failing.len() {
            let peer = self.peers.at(self.failing[finished]);
            let (rail, pair) = (peer.rail, peer.pair);
            self.hca_of(rail).finish_queue_pair(pair);
            finished += 1;
            if finished < self.failing.len() {
                continue;
            }
            // What is told here may fail others.
            let now = self.now();
            for at in 0..self.rails.len() {
                let queue = self.rails[at].completions;
                while let Some(done) = self.rails[at].hca.poll(queue) {
                    self.completed_work(at as u8, done, now);
                }
            }
        }
    }

    /// Asks for the next connection, or answers the question for it.
    fn ask_anew(&mut self, index: u32, until: Nanos) {
        let peer = self.peers.at(index);
        let before = (peer.rail, peer.paths.number(peer.rail));
        let question = self.questions.iter().position(|&(of, ..)| of == index);
        let question = question.map(|place| self.questions.swap_remove(place));
        let question = question.filter(|&(_, rail, hello)| self.take_path(index, rail, hello.way));
        let mut rail = question.map_or(self.peers.at(index).rail, |(_, rail, _)| rail);
        if std::mem::take(&mut self.peers.at_mut(index).mute)
            && question.is_none()
            && let Some((other, number)) = self.next_path(index)
            && self.take_path(index, other, number)
        {
            // Datagrams pass there, and a connection does not.
            rail = other;
        }
        let peer = self.peers.at(index);
        // What is under way on registered memory goes on by a connection.
        let must = peer.needs || !peer.flight.is_messages();
        let theirs = question.map_or(Wants::Connection, |(.., hello)| match hello.step {
            Step::Yield => Wants::Datagrams,
            _ => hello.wants,
        });
        let wants = if must { Wants::MustConnect } else { theirs };
        // Who yields may have received more since, and waits for a question.
        let question = question.filter(|(.., hello)| hello.step == Step::Ask);
        let pair = match self.make_end(rail, peer.channel, wants) {
            Ok(pair) => pair,
            Err(_) if self.peers.at(index).flight.is_messages() && self.peers.at(index).channel == 0 => {
                NO_PAIR
            }
            Err(_) => return self.lose_bare(index),
        };
        let peer = self.peers.at_mut(index);
        peer.needs = must;
        self.counts.moves += u64::from((rail, peer.paths.number(rail)) != before);
        self.peers.has_pair(index, rail, pair);
        match question {
            // It does not know yet that datagrams will not do.
            Some((.., hello)) if must && hello.wants == Wants::Datagrams => {
                self.peers.at_mut(index).epoch = hello.epoch;
                self.ask_for_next(index, None, until);
            }
            _ => self.ask_for_next(index, question.map(|(.., hello)| hello), until),
        }
    }

    /// A new queue pair is there, for the next connection.
    pub(crate) fn ask_for_next(&mut self, index: u32, question: Option<Hello>, until: Nanos) {
        let now = self.now();
        let patience = now.saturating_add(self.patience);
        let peer = self.peers.at_mut(index);
        // Who rests need not answer.
        let until = if peer.resting { until.min(patience) } else { until };
        peer.state = State::Asking { next: now + FIRST_RETRY, pause: FIRST_RETRY, until };
        peer.flight.stop();
        peer.epoch = question.map_or(peer.epoch + 1, |hello| hello.epoch);
        self.asking.push(index);
        match question {
            Some(hello) => self.begin_with(index, hello),
            None => self.ask(index),
        }
    }

    /// No other queue pair can be had.
    fn lose_bare(&mut self, index: u32) {
        // Its last one is destroyed; a number that is none of a device's is stopped in vain.
        self.peers.at_mut(index).pair = NO_PAIR;
        self.lose(index);
        // The burial that this is part of is over for it; the next one tells those who wait.
        self.failing.push(index);
    }

    /// A peer is connected and has ever received `received` messages: what it has not had is posted again.
    pub(crate) fn go_on(&mut self, index: u32, received: u32) {
        let flown = self.peers.at(index).flown;
        let Some(over) = self.peers.at_mut(index).flight.settle(received) else {
            // It has forgotten what it acknowledged, or counts what was never sent: nothing it says can be trusted.
            return self.lose(index);
        };
        for (holds, success) in over {
            self.give_back(flown, holds, success);
        }
        let peer = self.peers.at(index);
        let rail = peer.rail;
        if rail != flown {
            self.carry_over(index, flown, rail);
        }
        let peer = self.peers.at_mut(index);
        let id = peer.id;
        peer.flown = rail;
        if matches!(peer.state, State::Datagrams) {
            if !peer.flight.is_messages() {
                // The next way must be a connection.
                peer.needs = true;
                return self.break_off(index);
            }
            return self.begin_stream(index);
        }
        peer.needs = false;
        let (hca, counts, pair) = (&mut self.rails[usize::from(rail)].hca, &mut self.counts, peer.pair);
        let keyrings = &self.keyrings;
        let doorbells = hca.doorbells();
        let posted = peer.flight.repeat(|number, _, deed, data, signaled| {
            counts.requests += 1;
            counts.signaled += u64::from(signaled);
            let work = deed.work(keyrings, id, rail);
            let request = WorkRequest { id: number, work, data, signaled, fence: false, solicited: false };
            hca.post_send(pair, &request)
        });
        self.counts.doorbells += hca.doorbells() - doorbells;
        if posted.is_err() {
            self.lose(index);
        }
    }

    /// Makes what is to be repeated ready for another rail: slots there have the same content, regions their names there.
    fn carry_over(&mut self, index: u32, from: u8, to: u8) {
        let (rails, slots, registered) = (&mut self.rails, &self.send_slots, &self.registered);
        self.peers.at_mut(index).flight.each_segment(|holds, segment| match holds {
            Holds::Slot(slot) | Holds::SlotAndToken(slot, _) => {
                let length = segment.length as usize;
                let old = rails[usize::from(from)].hca.bytes(segment.address, length).to_vec();
                *segment = slots.segment(to, slot, segment.length);
                rails[usize::from(to)].hca.bytes_mut(segment.address, length).copy_from_slice(&old);
            }
            _ => segment.key = registered.key_on(segment.key, from, to),
        });
    }

    /// A request is over: what it held is free, and whoever waits hears of it.
    pub(crate) fn give_back(&mut self, rail: u8, holds: Holds, success: bool) {
        let (token, value) = match holds {
            Holds::Nothing | Holds::Question => return,
            Holds::Slot(slot) => return self.send_slots.give_back(slot),
            Holds::Token(token) => (token, 0),
            Holds::SlotAndToken(slot, token) => {
                self.send_slots.give_back(slot);
                (token, 0)
            }
            Holds::Found(slot, token) => {
                let found = self.rails[usize::from(rail)].hca.bytes(self.found.address(rail, slot), 8);
                let value = u64::from_ne_bytes(found.try_into().expect("eight bytes"));
                self.found.give_back(slot);
                (token, value)
            }
            Holds::Share(number) => return self.shares.over(number, success, &mut self.ended),
        };
        let outcome = if success { Outcome::Done(value) } else { Outcome::Failed };
        self.ended.push_back(Completed { token, outcome });
    }

    /// The network says that nobody is at an address.
    pub(crate) fn nobody_at(&mut self, address: DeviceAddress) {
        for index in 0..self.peers.all().len() as u32 {
            if self.peers.at(index).paths.leads_to(address) {
                self.lose(index);
            }
        }
    }
}
