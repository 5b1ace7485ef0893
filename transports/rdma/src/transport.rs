//! [`Rdma`]: one process's end of an RDMA fabric.

use crate::card::PeerCard;
use crate::contact::SILENCE;
use crate::flight::Holds;
use crate::handshake::Hello;
use crate::keys::Keyrings;
use crate::one_sided::{FOUND, Registered};
use crate::own::Own;
use crate::paths::Liked;
use crate::peers::{Arrived, Peers, State};
use crate::posting::header_bytes;
use crate::rail::{MOST_RAILS, Rail, Rails, buffer};
use crate::recovery::PATIENCE;
use crate::rest::Rest;
use crate::ring::TAIL_BYTES;
use crate::rings::Rings;
use crate::shares::Shares;
use crate::slots::Slots;
use crate::wide::Wide;
use std::cell::Cell;
use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;
use weft_api::verbs::{Access, Data, Hca, HcaLimits, HcaRefusal, LocalKey, Nanos};
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Region, RegionId, RemoteMemory, RemoteRun, Token, Unregistered,
    ZeroCopy,
};
use weft_api::{Bells, Capabilities, Pollable, Refused, Transport};
use weft_types::params::Choice;
use weft_types::{Error, ErrorClass, PeerId, Result};
use weft_wire::Header;

/// Largest payload of a message in bytes.
pub const MAX_COPY: usize = 16 << 10;

pub(crate) const HEADER_BYTES: usize = 16;
pub(crate) const SLOT_BYTES: u32 = (HEADER_BYTES + MAX_COPY) as u32;
/// Beside it a slot to send from has room for what stands behind a record, so that it can become one.
const SEND_SLOT_BYTES: u32 = SLOT_BYTES + TAIL_BYTES as u32;
pub(crate) const RECEIVE_SLOTS: u32 = 256;
pub(crate) const SEND_SLOTS: u32 = 128;
/// Of all connections together, where the device has so many; those that have more under way wait for each other
/// ([`Hca::is_crowded`]).
pub(crate) const COMPLETIONS: u32 = 1 << 15;
/// Messages are refused when so many requests of one connection are not complete.
pub(crate) const MESSAGES: usize = 64;
/// Requests of one connection that the device has and has not completed: messages, operations, and a question or a closing one.
pub(crate) const MOST_POSTED: usize = 128;
/// Completions handled before the caller gets its turn.
const BURST: usize = 64;
/// No region has it.
pub(crate) const NO_KEY: LocalKey = LocalKey(0);

/// Where processes are found at first contact.
pub trait Directory: std::fmt::Debug + Send {
    /// The card of a process.
    ///
    /// # Errors
    /// It has none, or whoever keeps the cards cannot be asked.
    fn find(&mut self, peer: PeerId) -> Result<PeerCard>;
}

/// What was asked of the device, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Send requests posted, of connections.
    pub requests: u64,
    /// How many of them complete with an entry.
    pub signaled: u64,
    /// Doorbells rung for them.
    pub doorbells: u64,
    /// Receive requests posted.
    pub receives: u64,
    /// Doorbells rung for those.
    pub receive_doorbells: u64,
    /// Connections made anew after one had failed.
    pub reconnections: u64,
    /// How many of them by another device or address than the one before, or asked for there at first contact.
    pub moves: u64,
    /// Operations that two devices did together.
    pub shared: u64,
    /// Completion entries taken.
    pub completions: u64,
    /// Messages that were written into rings of their receivers.
    pub records: u64,
    /// Messages that went by datagrams, and datagrams posted for them and for acknowledgements.
    pub letters: u64,
    /// See there.
    pub datagrams: u64,
    /// Peers that were moved between datagrams and a connection by this end's wish.
    pub changes: u64,
    /// Messages taken by datagrams while that was asked for, which came again by the other way.
    pub repeats: u64,
    /// Connections of the device with itself: one, and those made after one had failed.
    pub own_connections: u64,
}

/// What is in use, of all that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Registered buffers of messages and small puts that have not left.
    pub send_slots: usize,
    /// Registered buffers with messages that were not taken.
    pub receive_slots: usize,
    /// Places for what atomics find.
    pub numbers: usize,
    /// Requests that are not known to be complete.
    pub requests: usize,
}

/// One process's end; see the crate.
#[derive(Debug)]
pub struct Rdma<H> {
    /// Its devices.
    pub(crate) rails: Rails<H>,
    /// What all of them can do.
    pub(crate) limits: HcaLimits,
    pub(crate) me: PeerId,
    pub(crate) directory: Box<dyn Directory>,
    pub(crate) send_slots: Slots,
    /// Where atomics put what they find.
    pub(crate) found: Slots,
    /// Tokens of operations that two connections share.
    pub(crate) shares: Shares,
    pub(crate) registered: Registered,
    pub(crate) keyrings: Keyrings,
    pub(crate) peers: Peers,
    /// The connection of the first device with itself.
    pub(crate) own: Own,
    /// Ways that have worked where the first did not, the latest last.
    pub(crate) liked: Vec<Liked>,
    /// Peers whose question is open.
    pub(crate) asking: Vec<u32>,
    /// Peers whose connection has failed.
    pub(crate) failing: Vec<u32>,
    /// Questions for another connection and their rails, of peers whose last one is not ended yet.
    pub(crate) questions: Vec<(u32, u8, Hello)>,
    /// Questions and answers that came by a way whose route is not known yet, and their rails; one of a peer.
    pub(crate) unrouted: Vec<(u32, u8, Hello)>,
    /// Which of all processes that ever have this number this is.
    pub(crate) life: u32,
    /// How long a peer whose connection has failed is asked for another.
    pub(crate) patience: Nanos,
    /// Peers whose last requests nothing tells of, and when that shall change.
    pub(crate) open: Vec<u32>,
    pub(crate) close_at: Nanos,
    /// Peers of whom short writes are kept back.
    pub(crate) chained: Vec<u32>,
    /// Rises with every call of `progress`, wrapping.
    pub(crate) turn: u32,
    /// Short requests posted one by one without a signal, each with a doorbell; the other counts do without them.
    pub(crate) short: u64,
    /// Somebody waits until everything has left.
    pub(crate) leaving: Cell<bool>,
    /// Whether the last round found somebody who owes an answer for long.
    pub(crate) overdue: bool,
    /// Peers with messages, in turn.
    pub(crate) ready: VecDeque<u32>,
    pub(crate) lost: VecDeque<PeerId>,
    /// Operations that are over.
    pub(crate) ended: VecDeque<Completed>,
    /// When silent peers are looked for next.
    next_round: Nanos,
    /// Peers beyond the connections that there may be.
    pub(crate) wide: Wide,
    /// Who has heard that this process has ended MPI.
    pub(crate) rest: Rest,
    /// Peers that have rings.
    pub(crate) rings: Rings,
    pub(crate) counts: Counts,
}

/// What all devices can do.
fn limits_of<H: Hca>(rails: &Rails<H>) -> HcaLimits {
    let all = rails.iter().map(|rail| rail.hca.limits());
    let common = all.reduce(|a, b| HcaLimits {
        mtu: a.mtu.min(b.mtu),
        max_message: a.max_message.min(b.max_message),
        max_inline: a.max_inline.min(b.max_inline),
        max_segments: a.max_segments.min(b.max_segments),
        max_queue_pairs: a.max_queue_pairs.min(b.max_queue_pairs),
        queue_pair_bytes: a.queue_pair_bytes.max(b.queue_pair_bytes),
        max_reads: a.max_reads.min(b.max_reads),
        max_regions: a.max_regions.min(b.max_regions),
        max_registered: a.max_registered.min(b.max_registered),
        follows_mappings: a.follows_mappings && b.follows_mappings,
        // Two devices are atomic towards each other where they are towards everybody, or where the process itself does their
        // work.
        atomics: [a, b].iter().all(|it| it.atomics && (it.atomic_with_processors || it.works_in_calls)),
        atomic_with_processors: a.atomic_with_processors && b.atomic_with_processors,
        atomics_in_order: a.atomics_in_order && b.atomics_in_order,
        works_in_calls: a.works_in_calls && b.works_in_calls,
        chains: a.chains || b.chains,
        latency: a.latency.max(b.latency),
        bandwidth: a.bandwidth + b.bandwidth,
        registration: a.registration + b.registration,
        registration_per_byte: a.registration_per_byte + b.registration_per_byte,
        ..a
    });
    common.expect("there is a device")
}

/// With more devices each is known by one address.
const MANY: usize = 4;

pub(crate) fn cannot(what: &str, why: HcaRefusal) -> Error {
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
    pub fn open(hca: H, me: PeerId, directory: Box<dyn Directory>) -> Result<Rdma<H>> {
        Rdma::open_rails(vec![hca], me, directory)
    }

    /// As [`Rdma::open`], with several devices, at most [`MOST_RAILS`]: device `i` here reaches device `i` of others. Messages go by the
    /// first that works, large operations by all, and what a dead one carried by the next.
    ///
    /// # Errors
    /// What a device refused.
    ///
    /// # Panics
    /// When there are no devices, or more than [`MOST_RAILS`].
    pub fn open_rails(hcas: Vec<H>, me: PeerId, directory: Box<dyn Directory>) -> Result<Rdma<H>> {
        assert!((1..=MOST_RAILS).contains(&hcas.len()), "{} devices", hcas.len());
        // Whoever guesses it can waste a datagram's handling, no more.
        let qkey = 0x5746_0000 | me.0 & 0xffff;
        let mut rails = Rails::new(hcas.into_iter().map(|hca| Rail::open(hca, qkey)).collect::<Result<_>>()?);
        if rails.len() > MANY {
            // Other devices do for other addresses, and what all must know of a process stays short.
            rails.iter_mut().for_each(|rail| rail.card.addresses.truncate(1));
        }
        let mut slots = |count: u32, bytes: u32| {
            let buffers = rails.iter_mut().map(|rail| buffer(&mut rail.hca, count, bytes));
            buffers.collect::<Result<_>>().map(|buffers| Slots::new(buffers, bytes))
        };
        let (send_slots, found) = (slots(SEND_SLOTS, SEND_SLOT_BYTES)?, slots(FOUND, 8)?);
        // Two that are mixed up at the same number do not begin at the same nanosecond with the same queue pair.
        let mut life = DefaultHasher::new();
        (rails[0].hca.now(), &rails[0].card).hash(&mut life);
        let life = (life.finish() as u32).max(1);
        let limits = limits_of(&rails);
        Ok(Rdma {
            rings: Rings::new(Choice::Auto, &limits),
            limits,
            wide: Wide::new(&rails),
            rails,
            me,
            directory,
            send_slots,
            found,
            shares: Shares::default(),
            registered: Registered::default(),
            keyrings: Keyrings::default(),
            peers: Peers::default(),
            own: Own::default(),
            liked: Vec::new(),
            asking: Vec::new(),
            failing: Vec::new(),
            questions: Vec::new(),
            unrouted: Vec::new(),
            life,
            patience: PATIENCE,
            open: Vec::new(),
            close_at: Nanos::MAX,
            chained: Vec::new(),
            turn: 1,
            short: 0,
            leaving: Cell::new(false),
            overdue: false,
            ready: VecDeque::new(),
            lost: VecDeque::new(),
            ended: VecDeque::new(),
            next_round: 0,
            rest: Rest::default(),
            counts: Counts::default(),
        })
    }

    /// What others must know to find this process.
    pub fn card(&self) -> PeerCard {
        PeerCard {
            first: self.rails[0].card.clone(),
            others: self.rails.others().iter().map(|rail| rail.card.clone()).collect(),
        }
    }

    /// The first device.
    pub fn hca(&self) -> &H {
        &self.rails[0].hca
    }

    /// All devices, the first one first.
    pub fn hcas(&self) -> impl Iterator<Item = &H> {
        self.rails.iter().map(|rail| &rail.hca)
    }

    /// All devices, to be set up: before the first message.
    pub fn hcas_mut(&mut self) -> impl Iterator<Item = &mut H> {
        self.rails.iter_mut().map(|rail| &mut rail.hca)
    }

    /// Sets how long a peer whose connection has failed is asked for another before it is lost. 10 s otherwise.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience.as_nanos().try_into().unwrap_or(Nanos::MAX);
    }

    /// Whether messages of several calls may wait for each other, where a device gains by that: then the owner calls
    /// [`Transport::push_out`] at the end of every call but those that only begin something.
    pub fn keep_company(&mut self, keep: bool) {
        self.rails.iter_mut().for_each(|rail| rail.hca.keep_company(keep));
    }

    /// As [`Hca::is_in_row`], of any device.
    pub fn is_in_row(&self) -> bool {
        self.rails.iter().any(|rail| rail.hca.is_in_row())
    }

    /// What requests under way and messages not taken hold, of all that there is.
    pub fn held(&self) -> Held {
        Held {
            send_slots: SEND_SLOTS as usize - self.send_slots.left(),
            receive_slots: self
                .rails
                .iter()
                .map(|rail| (RECEIVE_SLOTS - rail.posted_receives) as usize - rail.returned.len())
                .sum(),
            numbers: FOUND as usize - self.found.left(),
            requests: self.peers.all().iter().map(|peer| peer.flight.len()).sum::<usize>() + self.own.len(),
        }
    }

    /// What was asked of the device so far.
    pub fn counts(&self) -> Counts {
        let Counts { requests, doorbells, .. } = self.counts;
        Counts { requests: requests + self.short, doorbells: doorbells + self.short, ..self.counts }
    }
}

fn header_from(bytes: &[u8]) -> Header {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Header::from_words([word(0), word(8)])
}

/// Largest payload that fills packets of so many bytes whole, with its header.
pub(crate) const fn full_copy(mtu: u32) -> usize {
    MAX_COPY / mtu as usize * mtu as usize - HEADER_BYTES
}

impl<H: Hca<Bell: Pollable>> Transport for Rdma<H> {
    type Bell = Bells<H::Bell>;

    fn capabilities(&self, _peer: PeerId) -> Capabilities {
        let limits = &self.limits;
        Capabilities {
            max_inline: (limits.max_inline as usize).saturating_sub(HEADER_BYTES).min(MAX_COPY),
            max_copy: MAX_COPY,
            full_copy: full_copy(limits.mtu),
            single_copy: false,
            compared: false,
            latency: limits.latency / 2.0,
            // Packets go by the first rail.
            copy_bandwidth: limits.copied,
            single_copy_bandwidth: limits.bandwidth,
            most_runs: 1,
            remote_run: 0.0,
            local_run: 0.0,
        }
    }

    fn connect(&mut self, peer: PeerId) -> Result<()> {
        if self.peers.find(peer).is_some() { Ok(()) } else { self.begin(peer, 0) }
    }

    fn route(&self, peer: PeerId) -> u32 {
        self.peers.find(peer).unwrap_or(u32::MAX)
    }

    #[inline(always)]
    fn send_now(&mut self, route: u32, header: Header, payload: &[u8]) -> bool {
        self.message_now(route, header, payload)
    }

    fn send_inline(
        &mut self,
        peer: PeerId,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        let index = self.sendable(peer, payload.len())?;
        if self.peers.at(index).stream.is_some() {
            self.send_letter(index, header, payload);
            return Ok(());
        }
        self.send_inline_to(index, header, payload)
    }

    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        let index = self.sendable(peer, len)?;
        let slot = self.take_slot()?;
        let rail = self.peers.at(index).rail;
        let address = self.send_slots.address(rail, slot);
        let place = self.rails[usize::from(rail)].hca.bytes_mut(address, HEADER_BYTES + len);
        let (head, body) = place.split_at_mut(HEADER_BYTES);
        head.copy_from_slice(&header_bytes(header));
        fill(body);
        let segment = self.send_slots.segment(rail, slot, (HEADER_BYTES + len) as u32);
        if self.peers.at(index).stream.is_some() {
            self.queue_letter(index, Data::Segments(&[segment]), Holds::Slot(slot));
        } else {
            self.send_filled(index, slot, segment);
        }
        Ok(())
    }

    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        let message = match self.peers.get(peer)?.inbox.front()? {
            &Arrived::Slot { rail, slot, bytes } => {
                let rail = &self.rails[usize::from(rail)];
                rail.hca.bytes(rail.receive_slots.address(0, u32::from(slot)), bytes as usize)
            }
            &Arrived::Record { place, bytes } => self.record(self.peers.find(peer)?, place, bytes),
            Arrived::Letter(whole) => whole,
        };
        let (header, payload) = message.split_at(HEADER_BYTES);
        Some((header_from(header), payload))
    }

    fn advance(&mut self, peer: PeerId) {
        let Some(index) = self.peers.find(peer) else { return };
        match self.peers.at_mut(index).inbox.pop_front() {
            Some(Arrived::Slot { rail, slot, .. }) => self.repost(rail, u32::from(slot)),
            Some(Arrived::Record { .. }) => self.record_taken(index),
            Some(Arrived::Letter(_)) => self.letter_taken(index),
            None => {}
        }
    }

    #[inline]
    fn has_brought(&self) -> bool {
        !(self.ready.is_empty() && self.lost.is_empty())
    }

    fn ready(&mut self) -> Option<PeerId> {
        for _ in 0..self.ready.len() {
            let index = self.ready.pop_front()?;
            let peer = self.peers.at_mut(index);
            if peer.inbox.is_empty() {
                peer.listed = false;
            } else {
                // Its next turn comes after everybody else's.
                let id = peer.id;
                self.ready.push_back(index);
                return Some(id);
            }
        }
        None
    }

    fn is_gone(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(|peer| matches!(peer.state, State::Gone))
    }

    fn unanswered(&self, peer: PeerId) -> Option<Duration> {
        let peer = self.peers.get(peer)?;
        let asks = matches!(peer.state, State::Asking { .. }) && peer.life == 0;
        asks.then(|| Duration::from_nanos(self.now().saturating_sub(peer.made)))
    }

    fn progress(&mut self) -> bool {
        // Datagrams alone are no news: acknowledgements, and questions whether somebody is alive.
        let mut moved = false;
        let mut now = 0;
        let mut all = true;
        self.turn = self.turn.wrapping_add(1);
        if self.rest.says {
            self.may_be_back();
        }
        if !self.chained.is_empty() {
            self.post_chains();
        }
        for at in 0..self.rails.len() {
            let mut left = BURST;
            let rail = &mut self.rails[at];
            rail.hca.progress();
            now = rail.hca.turned().max(now);
            let queue = rail.completions;
            while left > 0
                && let Some(done) = self.rails[at].hca.poll(queue)
            {
                moved |= self.completed_work(at as u8, done, now);
                left -= 1;
            }
            all &= left > 0;
        }
        moved |= self.look_at_rings(now);
        if all {
            // The devices have nothing more to tell.
            if !self.failing.is_empty() {
                self.bury();
                moved = true;
            }
            for rail in self.rails.iter_mut() {
                if !rail.returned.is_empty() {
                    self.counts.receive_doorbells += rail.return_slots();
                }
            }
        }
        if self.wide.is_busy() || self.rest.says {
            self.tend_all(now);
            self.repeat_rest(now);
        }
        if !self.open.is_empty() {
            self.close_bursts(now);
        }
        for at in 0..self.rails.len() {
            while let Some(address) = self.rails[at].hca.unreachable() {
                self.nobody_at(address);
            }
        }
        if !self.unrouted.is_empty() {
            self.take_held();
        }
        if !self.asking.is_empty() {
            self.ask_again();
        }
        if now >= self.next_round {
            self.next_round = now + SILENCE / 2;
            self.ask_the_silent(now);
            self.look_for_unused(now);
            self.look_at_own(now);
        }
        // What was just posted must not make the program's next message wait.
        self.rails.iter_mut().for_each(|rail| rail.hca.end_turn());
        moved
    }

    #[inline]
    fn push_out(&mut self) {
        if !self.chained.is_empty() {
            self.post_chains();
        }
        self.rails.iter_mut().for_each(|rail| rail.hca.push_out());
    }

    fn has_left(&self) -> bool {
        let waits = |state: &State| !matches!(state, State::Failing { again: false, .. } | State::Gone);
        let left =
            !self.peers.all().iter().any(|peer| peer.flight.is_busy() && !peer.resting && waits(&peer.state));
        self.leaving.set(!left);
        left
    }

    fn rest(&mut self) {
        self.acknowledge_all();
        self.begin_rest();
    }

    fn has_rested(&self) -> bool {
        !self.is_telling()
    }

    fn give_up(&mut self, peer: PeerId) {
        if let Some(index) = self.peers.find(peer) {
            // Nobody need be told.
            self.peers.at_mut(index).resting = true;
            self.lose(index);
        }
    }

    fn lost(&mut self) -> Option<PeerId> {
        self.lost.pop_front()
    }

    fn zero_copy(&self, _peer: PeerId) -> Option<ZeroCopy> {
        Some(self.what_zero_copy_can())
    }

    fn register(&mut self, memory: MemoryRange, access: Access) -> std::result::Result<Region, Unregistered> {
        self.register_memory(memory, access)
    }

    fn deregister(&mut self, region: RegionId) {
        self.deregister_memory(region);
    }

    fn get(
        &mut self,
        peer: PeerId,
        from: &[RemoteRun],
        into: &[LocalRun],
        token: Token,
    ) -> std::result::Result<(), Refused> {
        self.read(peer, from, into, token)
    }

    fn put(
        &mut self,
        peer: PeerId,
        from: &[LocalRun],
        to: &[RemoteRun],
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        self.write(peer, from, to, token)
    }

    fn put_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        length: usize,
        fill: F,
        to: RemoteMemory,
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        self.write_copy(peer, length, fill, to, token)
    }

    #[inline(always)]
    fn put_now(&mut self, route: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        self.write_now(route, bytes, to)
    }

    fn atomic(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        self.change(peer, at, operation, token)
    }

    fn changes_own(&mut self) -> bool {
        self.limits.atomics && self.open_own()
    }

    fn change_own(
        &mut self,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        self.change_by_own(at, operation, token)
    }

    fn flush(&mut self, peer: PeerId, token: Token) -> std::result::Result<(), Refused> {
        self.tell(peer, token)
    }

    #[inline]
    fn completed(&mut self) -> Option<Completed> {
        self.ended.pop_front()
    }

    fn bell(&self) -> Bells<H::Bell> {
        let others = self.rails.others().iter().map(|rail| rail.hca.bell());
        Bells::new(self.rails[0].hca.bell(), others.collect()).at_most(self.rings.nap())
    }
}
