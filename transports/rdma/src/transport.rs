//! [`Rdma`]: one process's end of an RDMA fabric.

use crate::handshake::{Hello, PeerCard, Step};
use crate::slots::Slots;
use std::collections::{HashMap, VecDeque};
use weft_api::verbs::{
    Access, CompletedWork, Completion, CompletionQueueId, CompletionStatus, Data, Hca, HcaRefusal, Nanos,
    ProtectionDomain, QueuePairNumber, QueuePairPlan, Remote, RemoteAddress, RemoteKey, Sending, Service,
    SharedReceiveQueueId, Work, WorkRequest,
};
use weft_api::{Capabilities, Refused, Transport};
use weft_types::{Error, ErrorClass, PeerId, Result};
use weft_wire::Header;

/// Largest payload of a message in bytes.
pub const MAX_COPY: usize = 16 << 10;

const HEADER_BYTES: usize = 16;
const SLOT_BYTES: u32 = (HEADER_BYTES + MAX_COPY) as u32;
/// A received datagram has 40 bytes in front.
const DATAGRAM_PREFIX: usize = 40;
const RECEIVE_SLOTS: u32 = 256;
const SEND_SLOTS: u32 = 128;
/// Of all connections together, where the device has so many.
const COMPLETIONS: u32 = 1 << 15;
/// Messages of one connection that the device has and has not completed.
const IN_FLIGHT: u32 = 64;
/// Completions handled before the caller gets its turn.
const BURST: usize = 64;
/// Marks requests that use no slot.
const NO_SLOT: u64 = 1 << 32;
/// The question whether a silent peer is alive: a write of nothing.
const ALIVE: u64 = NO_SLOT | 1;
/// Silence after which it is asked. With the retries, a dead peer is known some seven seconds after it was heard last.
const SILENCE: Nanos = 2_000_000_000;

const FIRST_RETRY: Nanos = 20_000_000;
const LONGEST_RETRY: Nanos = 1_000_000_000;
/// How long an unanswered question is repeated.
const PATIENCE: Nanos = 30_000_000_000;

/// How connections send: 67 ms of silence, then seven tries; a peer without receive requests is waited for.
const SENDING: Sending =
    Sending { first_packet: 0, timeout: 14, retries: 7, not_ready_retries: 7, max_reads: 4 };
/// 0.64 ms.
const NOT_READY_CODE: u8 = 12;

/// Where zero bytes go.
const NOWHERE: RemoteAddress = RemoteAddress { address: 0, key: RemoteKey(0) };

/// Where processes are found at first contact.
pub trait Directory: std::fmt::Debug + Send {
    /// The card of a process.
    ///
    /// # Errors
    /// It has none, or whoever keeps the cards cannot be asked.
    fn find(&mut self, peer: PeerId) -> Result<PeerCard>;
}

#[derive(Debug)]
enum State {
    /// The question is under way.
    Asking {
        since: Nanos,
        next: Nanos,
        pause: Nanos,
        card: PeerCard,
    },
    Open {
        remote_pair: QueuePairNumber,
    },
    Gone,
}

#[derive(Debug)]
struct Peer {
    state: State,
    pair: QueuePairNumber,
    /// Slots with messages that have arrived, and their bytes.
    inbox: VecDeque<(u32, u32)>,
    in_flight: u32,
    /// Whether it stands in the list of those with messages.
    listed: bool,
    /// It has ended MPI: its end is no loss, and its acknowledgements are not waited for.
    resting: bool,
    /// When it was heard last, as far as anybody looked.
    heard: Nanos,
}

impl Peer {
    fn new(state: State, pair: QueuePairNumber, now: Nanos) -> Peer {
        Peer { state, pair, inbox: VecDeque::new(), in_flight: 0, listed: false, resting: false, heard: now }
    }
}

/// One process's end; see the crate.
#[derive(Debug)]
pub struct Rdma<H> {
    hca: H,
    me: PeerId,
    directory: Box<dyn Directory>,
    card: PeerCard,
    completions: CompletionQueueId,
    receives: SharedReceiveQueueId,
    send_slots: Slots,
    receive_slots: Slots,
    peers: HashMap<u32, Peer>,
    pairs: HashMap<u32, PeerId>,
    /// Peers whose question is open.
    asking: Vec<PeerId>,
    /// Peers with messages, in turn.
    ready: VecDeque<PeerId>,
    lost: VecDeque<PeerId>,
    /// When silent peers are looked for next.
    next_round: Nanos,
}

fn cannot(what: &str, why: HcaRefusal) -> Error {
    Error::new(
        ErrorClass::NO_MEM,
        format!(
            "the RDMA device refused {what} ({why:?}): see weft-info for its limits, and ulimit -l for registered memory"
        ),
    )
}

impl<H: Hca> Rdma<H> {
    /// Sets up a device for process `me`. Other processes need [`Rdma::card`] before they can talk to it.
    ///
    /// # Errors
    /// What the device refused.
    pub fn open(mut hca: H, me: PeerId, directory: Box<dyn Directory>) -> Result<Rdma<H>> {
        let depth = hca.limits().max_completions.min(COMPLETIONS);
        let completions = hca.make_completion_queue(depth).map_err(|why| cannot("a completion queue", why))?;
        let receives = hca
            .make_shared_receive_queue(RECEIVE_SLOTS)
            .map_err(|why| cannot("a shared receive queue", why))?;
        let mut slots = |count: u32| {
            let access = Access { local_write: true, ..Access::default() };
            let bytes = u64::from(count) * u64::from(SLOT_BYTES);
            hca.allocate(bytes, access)
                .map(|buffer| Slots::new(buffer, SLOT_BYTES))
                .map_err(|why| cannot("registered memory", why))
        };
        let (send_slots, mut receive_slots) = (slots(SEND_SLOTS)?, slots(RECEIVE_SLOTS)?);
        while let Some(slot) = receive_slots.take() {
            let segment = [receive_slots.segment(slot, SLOT_BYTES)];
            hca.post_receive(receives, u64::from(slot), &segment)
                .map_err(|why| cannot("a receive request", why))?;
        }
        // Whoever guesses it can waste a datagram's handling, no more.
        let qkey = 0x5746_0000 | me.0 & 0xffff;
        let plan = QueuePairPlan {
            domain: ProtectionDomain(0),
            service: Service::Datagram,
            send_queue: completions,
            receive_queue: completions,
            shared_receive_queue: Some(receives),
            max_send: 1024,
            max_receive: 0,
            qkey,
        };
        let datagrams = hca.make_queue_pair(plan).map_err(|why| cannot("a queue pair", why))?;
        hca.open_queue_pair(datagrams, None).map_err(|why| cannot("a queue pair", why))?;
        let card = PeerCard { address: hca.address(), datagrams, qkey };
        Ok(Rdma {
            hca,
            me,
            directory,
            card,
            completions,
            receives,
            send_slots,
            receive_slots,
            peers: HashMap::new(),
            pairs: HashMap::new(),
            asking: Vec::new(),
            ready: VecDeque::new(),
            lost: VecDeque::new(),
            next_round: 0,
        })
    }

    /// What others must know to find this process.
    pub fn card(&self) -> PeerCard {
        self.card
    }

    /// The device.
    pub fn hca(&self) -> &H {
        &self.hca
    }

    /// Makes the own end of a connection.
    fn make_pair(&mut self, peer: PeerId) -> Result<QueuePairNumber> {
        let plan = QueuePairPlan {
            domain: ProtectionDomain(0),
            service: Service::ReliableConnection,
            send_queue: self.completions,
            receive_queue: self.completions,
            shared_receive_queue: Some(self.receives),
            max_send: IN_FLIGHT + 2, // Questions to the silent have room too.
            max_receive: 0,
            qkey: 0,
        };
        let pair = self.hca.make_queue_pair(plan).map_err(|why| cannot("a queue pair", why))?;
        self.pairs.insert(pair.0, peer);
        Ok(pair)
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
        let mut request = WorkRequest::new(NO_SLOT, work, &[]);
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
            // For writes of nothing; no region may be written to by others.
            access: Access { local_write: true, remote_write: true, ..Access::default() },
        };
        let sending = Sending { first_packet: self.first_packet(pair), ..SENDING };
        self.hca.open_queue_pair(pair, Some((remote, sending))).is_ok()
    }

    /// A question or an answer came.
    fn greeted(&mut self, hello: Hello) {
        if hello.to != self.me || hello.from == self.me {
            return;
        }
        let id = hello.from;
        if hello.step == Step::Rest {
            if let Some(peer) = self.peers.get_mut(&id.0)
                && matches!(peer.state, State::Open { remote_pair } if remote_pair == hello.queue_pair)
            {
                peer.resting = true;
            }
            return;
        }
        if !self.peers.contains_key(&id.0) {
            if hello.step == Step::Answer {
                return; // To a question that we never asked.
            }
            // Without means to connect, the peer asks again until there are some, or gives up.
            let Ok(pair) = self.make_pair(id) else { return };
            let Ok(card) = self.directory.find(id) else { return };
            let now = self.hca.now();
            let state = State::Asking { since: now, next: Nanos::MAX, pause: FIRST_RETRY, card };
            self.peers.insert(id.0, Peer::new(state, pair, now));
        }
        let peer = &self.peers[&id.0];
        let pair = peer.pair;
        match peer.state {
            State::Asking { card, .. } => {
                if !self.open_pair(pair, card, hello) {
                    return self.lose(id);
                }
                let open = State::Open { remote_pair: hello.queue_pair };
                self.peers.get_mut(&id.0).expect("it was just seen").state = open;
                self.asking.retain(|&asking| asking != id);
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
            State::Open { .. } => self.lose(id),
            State::Gone => {}
        }
    }

    /// A peer is gone.
    fn lose(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id.0) else { return };
        if matches!(peer.state, State::Gone) {
            return;
        }
        peer.state = State::Gone;
        self.asking.retain(|&asking| asking != id);
        if !peer.resting {
            self.lost.push_back(id);
        }
    }

    fn completed(&mut self, done: Completion, now: Nanos) {
        let received = matches!(done.work, CompletedWork::Receive | CompletedWork::ReceiveWrite);
        if done.queue_pair == self.card.datagrams {
            if received {
                let slot = done.id as u32;
                let address = self.receive_slots.address(slot) + DATAGRAM_PREFIX as u64;
                let length = (done.bytes as usize).saturating_sub(DATAGRAM_PREFIX);
                let hello = (done.status == CompletionStatus::Success)
                    .then(|| Hello::parse(self.hca.bytes(address, length)))
                    .flatten();
                self.repost(slot);
                if let Some(hello) = hello {
                    self.greeted(hello);
                }
            }
            return;
        }
        let id = self.pairs.get(&done.queue_pair.0).copied();
        if received {
            let slot = done.id as u32;
            let good = done.status == CompletionStatus::Success && done.bytes as usize >= HEADER_BYTES;
            match (good, id.and_then(|id| self.peers.get_mut(&id.0).map(|peer| (id, peer)))) {
                (true, Some((id, peer))) => {
                    peer.resting = false;
                    peer.heard = now;
                    peer.inbox.push_back((slot, done.bytes));
                    if !std::mem::replace(&mut peer.listed, true) {
                        self.ready.push_back(id);
                    }
                }
                _ => self.repost(slot),
            }
        } else {
            if done.id & NO_SLOT == 0 {
                self.send_slots.give_back(done.id as u32);
            }
            if let Some(peer) = id.and_then(|id| self.peers.get_mut(&id.0)) {
                if done.id != ALIVE {
                    peer.in_flight -= 1;
                }
                if done.status == CompletionStatus::Success {
                    peer.heard = now;
                }
            }
        }
        if done.status != CompletionStatus::Success
            && let Some(id) = id
        {
            self.lose(id);
        }
    }

    /// A receive slot can be used again.
    fn repost(&mut self, slot: u32) {
        let segment = [self.receive_slots.segment(slot, SLOT_BYTES)];
        let posted = self.hca.post_receive(self.receives, u64::from(slot), &segment);
        debug_assert_eq!(posted, Ok(()), "the queue has room for every slot");
    }

    /// Repeats questions whose answer is overdue.
    fn ask_again(&mut self) -> bool {
        let now = self.hca.now();
        let mut moved = false;
        for index in (0..self.asking.len()).rev() {
            let id = self.asking[index];
            let Some(Peer { state: State::Asking { since, next, pause, card }, pair, .. }) =
                self.peers.get_mut(&id.0)
            else {
                continue;
            };
            if now < *next {
                continue;
            }
            moved = true;
            if now - *since > PATIENCE {
                self.lose(id);
                continue;
            }
            *pause = (*pause * 2).min(LONGEST_RETRY);
            *next = now + *pause;
            let (card, pair) = (*card, *pair);
            self.say(Step::Ask, id, card, pair);
        }
        moved
    }

    /// Asks connected peers that have not been heard for long whether they are alive: whoever only waits for a message would never
    /// learn that nobody is there to send it. Zero bytes written to them need no receive request and disturb nobody.
    fn ask_the_silent(&mut self, now: Nanos) {
        for peer in self.peers.values_mut() {
            let silent = now.saturating_sub(peer.heard) >= SILENCE;
            if !silent || peer.resting || peer.in_flight > 0 || !matches!(peer.state, State::Open { .. }) {
                continue;
            }
            peer.heard = now;
            let request = WorkRequest::new(ALIVE, Work::Write { to: NOWHERE, immediate: None }, &[]);
            // One that finds no room waits behind others, which tell the same.
            let _ = self.hca.post_send(peer.pair, &request);
        }
    }

    /// The pair to send on.
    fn sendable(&self, id: PeerId) -> std::result::Result<QueuePairNumber, Refused> {
        match self.peers.get(&id.0) {
            Some(Peer { state: State::Open { .. }, pair, in_flight, .. }) if *in_flight < IN_FLIGHT => {
                Ok(*pair)
            }
            Some(Peer { state: State::Gone, .. }) => Err(Refused::Dead),
            _ => Err(Refused::Full),
        }
    }

    fn posted(
        &mut self,
        id: PeerId,
        result: std::result::Result<(), HcaRefusal>,
    ) -> std::result::Result<(), Refused> {
        match result {
            Ok(()) => {
                self.peers.get_mut(&id.0).expect("a peer that was sent to").in_flight += 1;
                Ok(())
            }
            Err(HcaRefusal::Full) => Err(Refused::Full),
            Err(_) => {
                self.lose(id);
                Err(Refused::Dead)
            }
        }
    }
}

fn header_bytes(header: Header) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(header.words()) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn header_from(bytes: &[u8]) -> Header {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Header::from_words([word(0), word(8)])
}

impl<H: Hca> Transport for Rdma<H> {
    type Bell = H::Bell;

    fn capabilities(&self, _peer: PeerId) -> Capabilities {
        let limits = self.hca.limits();
        Capabilities {
            max_inline: (limits.max_inline as usize).saturating_sub(HEADER_BYTES).min(MAX_COPY),
            max_copy: MAX_COPY,
            single_copy: false,
            latency: 15e-6,
            copy_bandwidth: 1e9,
            single_copy_bandwidth: 1e9,
            most_runs: 1,
            remote_run: 0.0,
            local_run: 0.0,
        }
    }

    fn connect(&mut self, peer: PeerId) -> Result<()> {
        if self.peers.contains_key(&peer.0) {
            return Ok(());
        }
        let card = self.directory.find(peer)?;
        let pair = self.make_pair(peer)?;
        let now = self.hca.now();
        let state = State::Asking { since: now, next: now + FIRST_RETRY, pause: FIRST_RETRY, card };
        self.peers.insert(peer.0, Peer::new(state, pair, now));
        self.asking.push(peer);
        self.say(Step::Ask, peer, card, pair);
        Ok(())
    }

    fn send_inline(
        &mut self,
        peer: PeerId,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        let pair = self.sendable(peer)?;
        let header = header_bytes(header);
        let parts = [&header[..], payload];
        let mut request = WorkRequest::new(NO_SLOT, Work::Send { immediate: None }, &[]);
        request.data = Data::Inline(&parts);
        let result = self.hca.post_send(pair, &request);
        self.posted(peer, result)
    }

    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        let pair = self.sendable(peer)?;
        let slot = self.send_slots.take().ok_or(Refused::Full)?;
        let place = self.hca.bytes_mut(self.send_slots.address(slot), HEADER_BYTES + len);
        let (head, body) = place.split_at_mut(HEADER_BYTES);
        head.copy_from_slice(&header_bytes(header));
        fill(body);
        let segment = [self.send_slots.segment(slot, (HEADER_BYTES + len) as u32)];
        let request = WorkRequest::new(u64::from(slot), Work::Send { immediate: None }, &segment);
        let result = self.hca.post_send(pair, &request);
        if result.is_err() {
            self.send_slots.give_back(slot);
        }
        self.posted(peer, result)
    }

    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        let &(slot, bytes) = self.peers.get(&peer.0)?.inbox.front()?;
        let message = self.hca.bytes(self.receive_slots.address(slot), bytes as usize);
        let (header, payload) = message.split_at(HEADER_BYTES);
        Some((header_from(header), payload))
    }

    fn advance(&mut self, peer: PeerId) {
        let Some((slot, _)) = self.peers.get_mut(&peer.0).and_then(|peer| peer.inbox.pop_front()) else {
            return;
        };
        self.repost(slot);
    }

    fn ready(&mut self) -> Option<PeerId> {
        for _ in 0..self.ready.len() {
            let id = self.ready.pop_front()?;
            let peer = self.peers.get_mut(&id.0).expect("listed peers exist");
            if peer.inbox.is_empty() {
                peer.listed = false;
            } else {
                // Its next turn comes after everybody else's.
                self.ready.push_back(id);
                return Some(id);
            }
        }
        None
    }

    fn is_gone(&self, peer: PeerId) -> bool {
        matches!(self.peers.get(&peer.0), Some(Peer { state: State::Gone, .. }))
    }

    fn progress(&mut self) -> bool {
        let mut moved = self.hca.progress();
        let now = self.hca.now();
        for _ in 0..BURST {
            let Some(done) = self.hca.poll(self.completions) else { break };
            self.completed(done, now);
            moved = true;
        }
        if !self.asking.is_empty() {
            moved |= self.ask_again();
        }
        if now >= self.next_round {
            self.next_round = now + SILENCE / 2;
            self.ask_the_silent(now);
        }
        moved
    }

    fn has_left(&self) -> bool {
        let open = |peer: &Peer| peer.in_flight > 0 && !peer.resting && !matches!(peer.state, State::Gone);
        !self.peers.values().any(open)
    }

    fn rest(&mut self) {
        let open: Vec<(PeerId, QueuePairNumber)> = self
            .peers
            .iter()
            .filter(|(_, peer)| matches!(peer.state, State::Open { .. }) && !peer.resting)
            .map(|(&id, peer)| (PeerId(id), peer.pair))
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

    fn lost(&mut self) -> Option<PeerId> {
        self.lost.pop_front()
    }

    fn read_remote(&mut self, _peer: PeerId, _address: u64, _into: &mut [u8]) -> Result<()> {
        Err(Error::internal("single copy was asked of a transport that does not offer it"))
    }

    fn bell(&self) -> H::Bell {
        self.hca.bell()
    }
}
