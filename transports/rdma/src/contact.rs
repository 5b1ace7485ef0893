//! Beginning and ending: first contact, silence, loss, rest.

use crate::flight::Holds;
use crate::handshake::{Hello, Step};
use crate::peers::State;
use crate::transport::{MOST_POSTED, Rdma, cannot};
use weft_api::verbs::{
    Access, Data, Hca, Nanos, ProtectionDomain, QueuePairNumber, QueuePairPlan, Remote, RemoteAddress,
    RemoteKey, Sending, Service, Work, WorkRequest,
};
use weft_types::{PeerId, Result};

/// Silence after which a peer is asked whether it is alive. With the retries, a dead one is known some seven seconds after it was heard last.
pub(crate) const SILENCE: Nanos = 2_000_000_000;

pub(crate) const FIRST_RETRY: Nanos = 20_000_000;
const LONGEST_RETRY: Nanos = 1_000_000_000;

/// How connections send: 67 ms of silence, then seven tries; a peer without receive requests is waited for.
const SENDING: Sending =
    Sending { first_packet: 0, timeout: 14, retries: 7, not_ready_retries: 7, max_reads: 4 };
/// 0.64 ms.
const NOT_READY_CODE: u8 = 12;

/// Where zero bytes go.
pub(crate) const NOWHERE: RemoteAddress = RemoteAddress { address: 0, key: RemoteKey(0) };

impl<H: Hca> Rdma<H> {
    /// Makes the own end of a connection.
    pub(crate) fn make_pair(&mut self) -> Result<QueuePairNumber> {
        let plan = QueuePairPlan {
            domain: ProtectionDomain(0),
            service: Service::ReliableConnection,
            send_queue: self.completions,
            receive_queue: self.completions,
            shared_receive_queue: Some(self.receives),
            max_send: MOST_POSTED as u32,
            max_receive: 0,
            qkey: 0,
        };
        self.hca.make_queue_pair(plan).map_err(|why| cannot("a queue pair", why))
    }

    /// Asks a process that was never talked to.
    pub(crate) fn begin(&mut self, id: PeerId) -> Result<()> {
        let card = self.directory.find(id)?;
        let pair = self.make_pair()?;
        let now = self.hca.now();
        // Who was never heard may compute for long before its first call.
        let state = State::Asking { next: now + FIRST_RETRY, pause: FIRST_RETRY, until: Nanos::MAX };
        let index = self.peers.insert(id, card, state, pair, now);
        self.asking.push(index);
        self.say(Step::Ask, index);
        Ok(())
    }

    /// A first packet number that differs from connection to connection, so that late packets of another find no echo.
    fn first_packet(&self, pair: QueuePairNumber, epoch: u32) -> u32 {
        let mixed = self.me.0.wrapping_mul(0x9e37_79b9) ^ pair.0.wrapping_mul(0x85eb_ca6b);
        (mixed ^ epoch.wrapping_mul(0xc2b2_ae35)) >> 8
    }

    pub(crate) fn say(&mut self, step: Step, index: u32) {
        let peer = self.peers.at(index);
        let (card, pair, epoch) = (peer.card, peer.pair, peer.epoch);
        let hello = Hello {
            step,
            from: self.me,
            to: peer.id,
            queue_pair: pair,
            first_packet: self.first_packet(pair, epoch),
            mtu: self.hca.limits().mtu,
            life: self.life,
            epoch,
            received: peer.received,
        }
        .emit();
        let work =
            Work::Datagram { to: card.address, queue_pair: card.datagrams, qkey: card.qkey, immediate: None };
        let mut request = WorkRequest::new(0, work, &[]);
        let parts = [&hello[..]];
        request.data = Data::Inline(&parts);
        request.signaled = false;
        // A datagram that finds no room is a lost one: it is said again.
        let _ = self.hca.post_send(self.card.datagrams, &request);
    }

    /// Opens the own end towards what the peer told.
    fn open_pair(&mut self, index: u32, hello: Hello) -> bool {
        let peer = self.peers.at(index);
        let pair = peer.pair;
        let remote = Remote {
            address: peer.card.address,
            queue_pair: hello.queue_pair,
            first_packet: hello.first_packet,
            mtu: hello.mtu.min(self.hca.limits().mtu),
            max_incoming_reads: SENDING.max_reads,
            not_ready_code: NOT_READY_CODE,
            // What may be done is a matter of each region.
            access: Access::ALL,
        };
        let first_packet = self.first_packet(pair, hello.epoch);
        self.hca.open_queue_pair(pair, Some((remote, Sending { first_packet, ..SENDING }))).is_ok()
    }

    /// A question or an answer came.
    pub(crate) fn greeted(&mut self, hello: Hello) {
        if hello.to != self.me || hello.from == self.me {
            return;
        }
        let id = hello.from;
        let known = self.peers.find(id);
        let index = match (known, hello.step) {
            (Some(index), _) => index,
            (None, Step::Ask) => {
                // Without means to connect, the peer asks again until there are some, or gives up.
                let Ok(pair) = self.make_pair() else { return };
                let Ok(card) = self.directory.find(id) else { return self.hca.destroy_queue_pair(pair) };
                let now = self.hca.now();
                let state = State::Asking { next: Nanos::MAX, pause: FIRST_RETRY, until: Nanos::MAX };
                self.peers.insert(id, card, state, pair, now)
            }
            (None, _) => return, // To a question that we never asked.
        };
        let peer = self.peers.at_mut(index);
        let mine = peer.epoch;
        if hello.step == Step::Rest {
            let of_this_one =
                matches!(peer.state, State::Open { remote_pair } if remote_pair == hello.queue_pair);
            peer.resting |= of_this_one && peer.life == hello.life;
            return;
        }
        if !matches!(peer.state, State::Gone) && peer.life != hello.life && peer.life != 0 {
            // The process that we knew is no more.
            return self.lose(index);
        }
        match (peer.state, hello.step) {
            (State::Gone, Step::Ask) => self.say(Step::Refuse, index),
            (State::Gone, _) | (_, Step::Rest) => {}
            (_, Step::Refuse) => self.lose(index),
            (State::Asking { .. }, Step::Ask) if hello.epoch >= mine => self.begin_with(index, hello),
            (State::Asking { .. }, Step::Answer) if hello.epoch == mine => self.begin_with(index, hello),
            (State::Open { remote_pair }, Step::Ask) if hello.epoch == mine => {
                if remote_pair == hello.queue_pair {
                    // Our answer was lost.
                    self.say(Step::Answer, index);
                } else {
                    self.lose(index);
                }
            }
            (State::Open { .. } | State::Failing { again: true }, Step::Ask) if hello.epoch > mine => {
                // It has found the connection broken. What had arrived by it is taken in before the answer.
                self.questions.push((index, hello));
                self.break_off(index);
            }
            // Late ones.
            _ => {}
        }
    }

    /// Connects to what the peer told.
    fn begin_with(&mut self, index: u32, hello: Hello) {
        if !self.open_pair(index, hello) {
            return self.lose(index);
        }
        let now = self.hca.now();
        let peer = self.peers.at_mut(index);
        peer.state = State::Open { remote_pair: hello.queue_pair };
        (peer.life, peer.epoch, peer.heard) = (hello.life, hello.epoch, now);
        self.asking.retain(|&asking| asking != index);
        if hello.step == Step::Ask {
            self.say(Step::Answer, index);
        }
        self.go_on(index, hello.received);
    }

    /// Repeats questions whose answer is overdue: at first contact for ever, since a program answers when it calls MPI, and may compute for
    /// long before it does so for the first time (of deaths the network or the launcher tells); after a failure for a while.
    pub(crate) fn ask_again(&mut self) {
        let now = self.hca.now();
        for place in (0..self.asking.len()).rev() {
            let index = self.asking[place];
            let peer = self.peers.at_mut(index);
            let State::Asking { next, pause, until } = &mut peer.state else { continue };
            if now >= *until {
                self.lose(index);
            } else if now >= *next {
                *pause = (*pause * 2).min(LONGEST_RETRY);
                *next = now + *pause;
                self.say(Step::Ask, index);
            }
        }
    }

    /// Asks connected peers that have not been heard for long whether they are alive: whoever only waits for a message would never
    /// learn that nobody is there to send it. Zero bytes written to them need no receive request and disturb nobody.
    pub(crate) fn ask_the_silent(&mut self, now: Nanos) {
        for index in 0..self.peers.all().len() as u32 {
            let peer = self.peers.at_mut(index);
            let silent = now.saturating_sub(peer.heard) >= SILENCE;
            let open = matches!(peer.state, State::Open { .. });
            if !silent || peer.resting || !peer.flight.is_empty() || !open {
                continue;
            }
            peer.heard = now;
            // One that finds no room now is asked the next time.
            let _ = self.post(index, NOTHING, Data::Segments(&[]), Holds::Question);
        }
    }

    /// Tells all peers that this process rests.
    pub(crate) fn say_rest(&mut self) {
        let open: Vec<u32> = (0..)
            .zip(self.peers.all())
            .filter(|(_, peer)| matches!(peer.state, State::Open { .. }) && !peer.resting)
            .map(|(index, _)| index)
            .collect();
        for index in open {
            // Twice, since nobody answers; should both be lost, the peer finds out by its retries.
            for _ in 0..2 {
                self.say(Step::Rest, index);
            }
            self.hca.progress();
        }
        self.hca.progress();
    }
}

/// A write of zero bytes.
pub(crate) const NOTHING: Work = Work::Write { to: NOWHERE, immediate: None };
