//! Beginning and ending: first contact, silence, loss, rest.

use crate::flight::Holds;
use crate::handshake::{Hello, PeerCard, Step};
use crate::peers::State;
use crate::transport::{MOST_POSTED, Rdma, cannot};
use weft_api::verbs::{
    Access, CompletionStatus, Data, DeviceAddress, Hca, Nanos, ProtectionDomain, QueuePairNumber,
    QueuePairPlan, Remote, RemoteAddress, RemoteKey, Sending, Service, Work, WorkRequest,
};
use weft_api::zero_copy::{Completed, Outcome};
use weft_types::{PeerId, Result};

/// Silence after which a peer is asked whether it is alive. With the retries, a dead one is known some seven seconds after it was heard last.
pub(crate) const SILENCE: Nanos = 2_000_000_000;

const FIRST_RETRY: Nanos = 20_000_000;
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
    fn make_pair(&mut self) -> Result<QueuePairNumber> {
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
        let state = State::Asking { next: now + FIRST_RETRY, pause: FIRST_RETRY, card };
        let index = self.peers.insert(id, state, pair, now);
        self.asking.push(index);
        self.say(Step::Ask, id, card, pair);
        Ok(())
    }

    /// A first packet number that differs from connection to connection, so that late packets of another find no echo.
    fn first_packet(&self, pair: QueuePairNumber) -> u32 {
        (self.me.0.wrapping_mul(0x9e37_79b9) ^ pair.0.wrapping_mul(0x85eb_ca6b)) >> 8
    }

    fn say(&mut self, step: Step, to: PeerId, card: PeerCard, pair: QueuePairNumber) {
        let hello = Hello {
            step,
            from: self.me,
            to,
            queue_pair: pair,
            first_packet: self.first_packet(pair),
            mtu: self.hca.limits().mtu,
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
    fn open_pair(&mut self, pair: QueuePairNumber, peer: PeerCard, hello: Hello) -> bool {
        let remote = Remote {
            address: peer.address,
            queue_pair: hello.queue_pair,
            first_packet: hello.first_packet,
            mtu: hello.mtu.min(self.hca.limits().mtu),
            max_incoming_reads: SENDING.max_reads,
            not_ready_code: NOT_READY_CODE,
            // What may be done is a matter of each region.
            access: Access::ALL,
        };
        let sending = Sending { first_packet: self.first_packet(pair), ..SENDING };
        self.hca.open_queue_pair(pair, Some((remote, sending))).is_ok()
    }

    /// A question or an answer came.
    pub(crate) fn greeted(&mut self, hello: Hello) {
        if hello.to != self.me || hello.from == self.me {
            return;
        }
        let id = hello.from;
        let known = self.peers.find(id);
        if hello.step == Step::Rest {
            if let Some(peer) = known.map(|index| self.peers.at_mut(index))
                && matches!(peer.state, State::Open { remote_pair } if remote_pair == hello.queue_pair)
            {
                peer.resting = true;
            }
            return;
        }
        let index = match known {
            Some(index) => index,
            None if hello.step == Step::Answer => return, // To a question that we never asked.
            None => {
                // Without means to connect, the peer asks again until there are some, or gives up.
                let Ok(pair) = self.make_pair() else { return };
                let Ok(card) = self.directory.find(id) else { return self.hca.destroy_queue_pair(pair) };
                let now = self.hca.now();
                let state = State::Asking { next: Nanos::MAX, pause: FIRST_RETRY, card };
                self.peers.insert(id, state, pair, now)
            }
        };
        let peer = self.peers.at(index);
        let pair = peer.pair;
        match peer.state {
            State::Asking { card, .. } => {
                if !self.open_pair(pair, card, hello) {
                    return self.lose(index);
                }
                self.peers.at_mut(index).state = State::Open { remote_pair: hello.queue_pair };
                self.asking.retain(|&asking| asking != index);
                if hello.step == Step::Ask {
                    self.say(Step::Answer, id, card, pair);
                }
            }
            State::Open { remote_pair } if remote_pair == hello.queue_pair => {
                // Our answer was lost.
                if hello.step == Step::Ask
                    && let Ok(card) = self.directory.find(id)
                {
                    self.say(Step::Answer, id, card, pair);
                }
            }
            // Another queue pair: the process that we knew is no more.
            State::Open { .. } => self.lose(index),
            State::Failing | State::Gone => {}
        }
    }

    /// A connection has failed. What had arrived is still taken in; then [`Rdma::bury`] ends it.
    pub(crate) fn lose(&mut self, index: u32) {
        let peer = self.peers.at_mut(index);
        if matches!(peer.state, State::Failing | State::Gone) {
            return;
        }
        peer.state = State::Failing;
        self.asking.retain(|&asking| asking != index);
        self.failing.push(index);
    }

    /// Everything that had arrived is taken in: the device lets go of the connections that have failed, so that no memory of an
    /// operation is touched any more, and then those who wait hear of it.
    pub(crate) fn bury(&mut self) {
        while let Some(index) = self.failing.pop() {
            let peer = self.peers.at_mut(index);
            peer.state = State::Gone;
            self.hca.destroy_queue_pair(peer.pair);
            let (id, pair, resting) = (peer.id, peer.pair, peer.resting);
            self.peers.forget_pair(pair);
            while let Some((holds, _)) = self.peers.at_mut(index).flight.retire(u64::MAX) {
                self.give_back(holds, CompletionStatus::Flushed);
            }
            if !resting {
                self.lost.push_back(id);
            }
        }
    }

    /// A request is complete: what it held is free, and whoever waits hears of it.
    pub(crate) fn give_back(&mut self, holds: Holds, status: CompletionStatus) {
        let success = status == CompletionStatus::Success;
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

    /// The network says that nobody is at an address: who was asked there will not answer.
    pub(crate) fn nobody_at(&mut self, address: DeviceAddress) {
        for place in (0..self.asking.len()).rev() {
            let index = self.asking[place];
            if matches!(self.peers.at(index).state, State::Asking { card, .. } if card.address == address) {
                self.lose(index);
            }
        }
    }

    /// Repeats questions whose answer is overdue, for ever: a program answers when it calls MPI, and may compute for long before it does so
    /// for the first time. Of deaths the network or the launcher tells.
    pub(crate) fn ask_again(&mut self) {
        let now = self.hca.now();
        for place in (0..self.asking.len()).rev() {
            let index = self.asking[place];
            let peer = self.peers.at_mut(index);
            let State::Asking { next, pause, card } = &mut peer.state else { continue };
            if now < *next {
                continue;
            }
            *pause = (*pause * 2).min(LONGEST_RETRY);
            *next = now + *pause;
            let (id, card, pair) = (peer.id, *card, peer.pair);
            self.say(Step::Ask, id, card, pair);
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
        let open: Vec<(PeerId, QueuePairNumber)> = self
            .peers
            .all()
            .iter()
            .filter(|peer| matches!(peer.state, State::Open { .. }) && !peer.resting)
            .map(|peer| (peer.id, peer.pair))
            .collect();
        for (id, pair) in open {
            if let Ok(card) = self.directory.find(id) {
                // Twice, since nobody answers; should both be lost, the peer finds out by its retries.
                for _ in 0..2 {
                    self.say(Step::Rest, id, card, pair);
                }
                self.hca.progress();
            }
        }
        self.hca.progress();
    }
}

/// A write of zero bytes.
pub(crate) const NOTHING: Work = Work::Write { to: NOWHERE, immediate: None };
