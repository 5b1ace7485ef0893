//! [`Ofi`]: one process's end of a fabric that libfabric drives.

mod arrival;
mod company;
mod ending;
mod sending;

pub(crate) use arrival::Place;
pub(crate) use company::Kept;

use crate::bell::{OfiBell, WaitObject};
use crate::card::{OfiCard, OfiDirectory};
use crate::clock;
use crate::contact::{Peer, STUCK};
use crate::device::{Device, MOST_TOGETHER};
use crate::flow::WINDOW;
use crate::groups::Groups;
use crate::losses::{Doubt, Mourned};
use crate::offer::Carrier;
use crate::one_sided::MOST_READING;
use crate::operations::{OperationId, Operations};
use crate::packet::{Era, HEAD, PREFIX, header_at};
use crate::select::Wanted;
use crate::slots::{Done, Piece, Slot, Slots};
use crate::strangers::Stranger;
use crate::sys::{FI_ORDER_SAS, FI_ORDER_SAW};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Instant;
use weft_api::verbs::Access;
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Region, RegionId, RemoteMemory, RemoteRun, Token, Unregistered,
    ZeroCopy,
};
use weft_api::{Capabilities, Refused, Transport};
use weft_types::{Error, ErrorClass, PeerId, Result};
use weft_wire::Header;

/// Longest message in bytes, where the provider takes such long ones: what the engine sends in one packet, and what it says of
/// a message of two. Without that such a message leaves in three, of which the last has a few dozen bytes.
const LONGEST: usize = (32 << 10) + ANNOUNCED + HEAD;
const ANNOUNCED: usize = 128;
/// Largest payload that is copied at once, where the provider itself copies less.
const LEAST_INLINE: usize = 192;
/// Bytes per second of the kernel's sockets, and of packets through them that both ends copy (measured between two namespaces).
pub(crate) const SOCKETS: f64 = 4e9;
const SOCKET_PACKETS: f64 = 1.4e9;
/// Slots in all: what was received and not taken, posted, or is being sent.
const MOST_SLOTS: usize = 4096;
/// Of those, with data of this process on its way.
const MOST_SENDING: usize = MOST_SLOTS / 4;
/// Receives that are posted for each peer, and for nobody in particular.
const POSTED_EACH: usize = 16;
const POSTED_AT_LEAST: usize = 48;

/// Calls of progress without movement between looks at the clock.
const IDLE_CALLS: u32 = 64;
/// The number of nobody.
const NO_PEER: u32 = u32::MAX;

/// What the library does with a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    /// A message is to come.
    Receive,
    /// A message goes to this peer.
    Send(u32),
    /// It is written to a peer's memory.
    Operation(OperationId),
    /// An atomic's numbers.
    Atomic(OperationId),
}

/// Finds processes by their numbers, which nobody chooses to make them collide: at every packet, so it must be quick.
#[derive(Debug, Default)]
pub(crate) struct ByNumber(u64);

impl Hasher for ByNumber {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        // The table looks at the highest bits and at the lowest ones: a multiplication mixes those above, a rotation brings them down.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// One process's end; see the crate.
#[derive(Debug)]
pub struct Ofi {
    pub(crate) slots: Slots,
    pub(crate) me: PeerId,
    pub(crate) directory: Box<dyn OfiDirectory>,
    pub(crate) card: OfiCard,
    why: String,
    pub(crate) peers: Vec<Peer>,
    pub(crate) numbers: HashMap<u32, u32, BuildHasherDefault<ByNumber>>,
    /// By slot.
    pub(crate) uses: Vec<Use>,
    /// By slot: packets that came in it and are not taken.
    untaken: Vec<u16>,
    /// Packets that wait to leave together.
    company: company::Company,
    /// Messages of packets that the library was given.
    messages: u64,
    /// Requests to read or write memory that it was given.
    pub(crate) requests: u64,
    pub(crate) operations: Operations,
    /// Pieces that the library did not take, with the peer's number.
    pub(crate) waiting: VecDeque<(u32, Piece)>,
    /// Reads that leave in one request; 1 where nothing is gained by that.
    pub(crate) reads_together: usize,
    /// Most bytes of reads from one peer under way at a time, beside a single one.
    pub(crate) most_reading: u64,
    /// Receives that the library has.
    posted: usize,
    /// Slots that it has to send or to write from.
    pub(crate) sending: usize,
    /// Peers with messages, in turn.
    ready: VecDeque<u32>,
    /// Peers to whom news are due.
    pub(crate) due: Vec<u32>,
    pub(crate) lost: VecDeque<PeerId>,
    done: Vec<Done>,
    sleepers: Arc<WaitObject>,
    /// Longest message, bytes.
    pub(crate) longest: usize,
    inject: usize,
    idle_calls: u32,
    pub(crate) next_round: Instant,
    /// The time when it was last looked at, which is often enough.
    pub(crate) clock: Instant,
    /// Whether processes of this provider listen with TCP at their addresses, as this one does.
    pub(crate) has_doors: bool,
    /// Somebody wants to end and waits for what is on its way.
    pub(crate) leaving: Cell<bool>,
    /// How often this process has ended MPI or gone on, and when it has last ended it.
    pub(crate) era: Era,
    rests_since: Instant,
    /// Lost peers of which the library may have something.
    pub(crate) mourned: Vec<Mourned>,
    /// Peers to which something has failed.
    pub(crate) doubted: Vec<Doubt>,
    /// Peers whose address the library has refused for now, and the address.
    pub(crate) unplaced: Vec<(u32, Vec<u8>)>,
    /// Those who have sent something and cannot be found now.
    pub(crate) strangers: Vec<Stranger>,
    /// Lost peers that may live, and why they cannot be reached.
    pub(crate) unreachable: Vec<(PeerId, Error)>,
    /// Lost peers that have said something and shall hear of it, and since when.
    pub(crate) owed_words: Vec<(u32, Instant)>,
    /// Whether messages from one peer come as they were sent.
    pub(crate) keeps_order: bool,
    /// Whether packets sent after a put are seen after it.
    pub(crate) orders_puts: bool,
    /// Collectives that the provider runs.
    pub(crate) groups: Groups,
}

impl Ofi {
    /// Opens an endpoint for process `me`. Other processes need [`Ofi::card`] before they can talk to it.
    ///
    /// # Errors
    /// No library, no provider that does what is needed (each with the reason why not), or what it refused.
    pub fn open(me: PeerId, wanted: &Wanted, directory: Box<dyn OfiDirectory>) -> Result<Ofi> {
        let (device, why) = Device::open(wanted)?;
        let offer = device.offer();
        let longest = offer.max_msg_size.min(LONGEST).min(offer.eager_bytes());
        let inject = offer.inject_size.min(longest);
        let with_tags = device.carrier() == Carrier::Tags;
        let card = OfiCard {
            provider: offer.provider.clone(),
            with_tags,
            key: random_key(),
            address: device.name()?,
        };
        let sleepers = WaitObject::new(device.wait()).map_err(|error| {
            Error::new(ErrorClass::NO_MEM, format!("no descriptor to sleep on: {error} (see `ulimit -n`)"))
        })?;
        let mut ofi = Ofi {
            slots: Slots::new(device, longest),
            me,
            directory,
            card,
            why,
            peers: Vec::new(),
            numbers: HashMap::default(),
            uses: Vec::new(),
            untaken: Vec::new(),
            company: company::Company::default(),
            messages: 0,
            requests: 0,
            operations: Operations::default(),
            waiting: VecDeque::new(),
            reads_together: 1,
            most_reading: u64::MAX,
            posted: 0,
            sending: 0,
            ready: VecDeque::new(),
            due: Vec::new(),
            lost: VecDeque::new(),
            done: Vec::new(),
            sleepers: Arc::new(sleepers),
            longest,
            inject,
            idle_calls: 0,
            next_round: clock::now() + STUCK,
            clock: clock::now(),
            has_doors: false,
            leaving: Cell::new(false),
            era: Era::default(),
            rests_since: clock::now(),
            mourned: Vec::new(),
            doubted: Vec::new(),
            unplaced: Vec::new(),
            strangers: Vec::new(),
            unreachable: Vec::new(),
            owed_words: Vec::new(),
            keeps_order: false,
            orders_puts: false,
            groups: Groups::default(),
        };
        if !ofi.slots.device_ref().offer().drives_a_device() {
            ofi.most_reading = MOST_READING;
        }
        let order = ofi.slots.device_ref().offer().msg_order;
        (ofi.keeps_order, ofi.orders_puts) = (order & FI_ORDER_SAS != 0, order & FI_ORDER_SAW != 0);
        ofi.company.gathers = ofi.slots.device_ref().offer().pays_calls();
        if ofi.company.gathers {
            ofi.reads_together = ofi.slots.device_ref().offer().runs.clamp(1, MOST_TOGETHER);
        }
        ofi.has_doors = ofi.answers_at_its_door();
        ofi.grow()?;
        ofi.post_receives();
        Ok(ofi)
    }

    /// What others must know to find this process.
    pub fn card(&self) -> &OfiCard {
        &self.card
    }

    /// Which provider was chosen, why, and why not the others; several lines.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Who runs collectives, and why: a line.
    pub fn collectives(&self) -> String {
        self.slots.device_ref().collectives().to_string()
    }

    /// Whether the provider drives a device itself, and not the kernel's sockets.
    pub fn drives_a_device(&self) -> bool {
        self.slots.device_ref().offer().drives_a_device()
    }

    /// The domain that was opened: a device, or an interface of the host's network.
    pub fn domain(&self) -> &str {
        &self.slots.device_ref().offer().domain
    }

    /// Version and file of the library.
    pub fn library(&self) -> String {
        self.slots.device_ref().library()
    }

    /// Slots that are neither free nor posted for messages to come: with data of this process, or with packets that are not taken.
    pub fn slots_in_use(&self) -> usize {
        self.slots.in_use() - self.posted
    }

    fn grow(&mut self) -> Result<()> {
        self.slots.grow()?;
        self.uses.resize(self.slots.count(), Use::Receive);
        self.untaken.resize(self.slots.count(), 0);
        Ok(())
    }

    /// A free slot, if need be a new one.
    pub(crate) fn slot(&mut self) -> Option<Slot> {
        if let Some(slot) = self.slots.take() {
            return Some(slot);
        }
        if self.slots.count() >= MOST_SLOTS || self.grow().is_err() {
            return None;
        }
        self.slots.take()
    }

    /// As [`Ofi::slot`], for data of this process: sends that do not get away leave slots for receives, since others' sends
    /// wait for those.
    pub(crate) fn slot_for_data(&mut self) -> Option<Slot> {
        if self.sending < MOST_SENDING { self.slot() } else { None }
    }

    /// How many receives there should be.
    fn receives_wanted(&self) -> usize {
        let wanted = POSTED_AT_LEAST + POSTED_EACH * self.peers.len();
        wanted.min(self.slots.device_ref().offer().rx_size.max(1)).min(MOST_SLOTS / 2)
    }

    /// Posts as many receives as there should be, or can.
    pub(crate) fn post_receives(&mut self) {
        let wanted = self.receives_wanted();
        while self.posted < wanted {
            let Some(slot) = self.slot() else { return };
            if self.slots.receive(slot).is_err() {
                // Full for now, or the endpoint is broken, which sends will tell.
                return self.slots.give_back(slot);
            }
            self.uses[slot.index()] = Use::Receive;
            self.posted += 1;
        }
    }

    fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.numbers.get(&id.0).map(|&number| &self.peers[number as usize])
    }

    pub(crate) fn number(&self, id: PeerId) -> std::result::Result<u32, Refused> {
        // Who was never connected has no place yet.
        self.numbers.get(&id.0).copied().ok_or(Refused::Full)
    }
}

/// A number that no other process is likely to hold.
fn random_key() -> u32 {
    use std::hash::BuildHasher;
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish() as u32
}

impl Transport for Ofi {
    type Bell = OfiBell;

    fn capabilities(&self, _peer: PeerId) -> Capabilities {
        let offer = self.slots.device_ref().offer();
        let device = offer.drives_a_device();
        let speed = if offer.speed() > 0 { offer.speed() as f64 / 8.0 } else { SOCKETS };
        Capabilities {
            max_inline: self
                .inject
                .saturating_sub(HEAD)
                .clamp(0, LEAST_INLINE)
                .max(LEAST_INLINE.min(self.longest - HEAD)),
            max_copy: self.longest - HEAD,
            full_copy: self.longest - HEAD,
            single_copy: false,
            compared: false,
            latency: if device { 1.5e-6 } else { 12e-6 },
            copy_bandwidth: if device { speed.min(8e9) } else { speed.min(SOCKET_PACKETS) },
            single_copy_bandwidth: 1e9,
            most_runs: 1,
            remote_run: 0.0,
            local_run: 0.0,
        }
    }

    fn connect(&mut self, peer: PeerId) -> Result<()> {
        self.go_on();
        self.introduce(peer).map(drop)
    }

    fn route(&self, peer: PeerId) -> u32 {
        self.numbers.get(&peer.0).copied().unwrap_or(NO_PEER)
    }

    fn send_now(&mut self, route: u32, header: Header, payload: &[u8]) -> bool {
        route != NO_PEER && self.inline(route, header, payload).is_ok()
    }

    fn send_inline(
        &mut self,
        peer: PeerId,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        self.inline(self.number(peer)?, header, payload)
    }

    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        self.copy(self.number(peer)?, header, len, fill)
    }

    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        let &number = self.numbers.get(&peer.0)?;
        let &Place { slot, at, end } = self.peers[number as usize].flow.front()?;
        let message = self.slots.bytes(slot, end as usize);
        Some((header_at(message, at as usize), &message[at as usize + HEAD - PREFIX..]))
    }

    fn advance(&mut self, peer: PeerId) {
        let Some(&number) = self.numbers.get(&peer.0) else { return };
        let flow = &mut self.peers[number as usize].flow;
        let Some(Place { slot, .. }) = flow.take() else { return };
        let owes = flow.owes_news();
        self.let_go(slot);
        if owes {
            self.news_are_due(number);
        }
    }

    #[inline]
    fn has_brought(&self) -> bool {
        !(self.ready.is_empty() && self.lost.is_empty())
    }

    fn ready(&mut self) -> Option<PeerId> {
        for _ in 0..self.ready.len() {
            let number = self.ready.pop_front()?;
            let peer = &mut self.peers[number as usize];
            if peer.flow.front().is_none() {
                peer.listed = false;
            } else {
                // Its next turn comes after everybody else's.
                self.ready.push_back(number);
                return Some(peer.id);
            }
        }
        None
    }

    fn is_gone(&self, peer: PeerId) -> bool {
        self.peer(peer).is_some_and(|peer| peer.gone)
    }

    fn progress(&mut self) -> bool {
        self.begin_turn();
        let mut done = std::mem::take(&mut self.done);
        self.slots.poll(&mut done);
        let mut moved = !done.is_empty();
        for one in done.drain(..) {
            self.handle(one);
        }
        self.done = done;
        // What has come is not kept waiting for room for more, as long as there is enough: the next look that finds nothing makes it.
        let wanted = self.receives_wanted();
        if self.posted < if moved { wanted - wanted / 4 } else { wanted } {
            self.post_receives();
        }
        moved |= self.progress_groups();
        if !self.doubted.is_empty() {
            self.resolve_doubts(moved);
        }
        if !self.due.is_empty() {
            self.tell_news();
        }
        if !self.waiting.is_empty() {
            self.begin_waiting();
        }
        let awaited = self.sleepers.is_awaited();
        if !moved {
            self.idle_calls += 1;
            if awaited || self.idle_calls >= IDLE_CALLS || self.leaving.get() {
                self.idle_calls = 0;
                let now = clock::now();
                self.clock = now;
                if now >= self.next_round || self.leaving.get() {
                    self.next_round = now + STUCK / 2;
                    self.ask(now);
                }
            }
        }
        if awaited {
            let safe = !moved && !self.groups.have_news() && self.slots.device().may_sleep();
            let refused = self.is_refused();
            self.sleepers.may_sleep(safe, self.groups.are_silent() || refused);
        }
        moved
    }

    #[inline]
    fn push_out(&mut self) {
        // Progress ends its own turn: otherwise a call of the program ends.
        let ends_call = !self.in_turn();
        self.end_turn();
        if ends_call && self.holds_back() {
            self.insist();
        }
    }

    fn has_left(&self) -> bool {
        self.all_has_left()
    }

    fn rest(&mut self) {
        self.tell_rest();
    }

    fn has_rested(&self) -> bool {
        self.all_heard_of_rest()
    }

    fn give_up(&mut self, peer: PeerId) {
        if let Some(&number) = self.numbers.get(&peer.0) {
            self.part_from(number);
        }
    }

    fn declare_lost(&mut self, peer: PeerId) {
        self.tell_of_loss(peer);
    }

    fn lost(&mut self) -> Option<PeerId> {
        self.lost.pop_front()
    }

    fn zero_copy(&self, _peer: PeerId) -> Option<ZeroCopy> {
        self.what_zero_copy_can()
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
        self.transfer(peer, false, from, into, Some(token))
    }

    fn put(
        &mut self,
        peer: PeerId,
        from: &[LocalRun],
        to: &[RemoteRun],
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        self.transfer(peer, true, to, from, token)
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

    fn atomic(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        self.change(peer, at, operation, token)
    }

    fn flush(&mut self, peer: PeerId, token: Token) -> std::result::Result<(), Refused> {
        self.tell_when_flushed(peer, token)
    }

    #[inline]
    fn completed(&mut self) -> Option<Completed> {
        self.operations.next()
    }

    fn bell(&self) -> OfiBell {
        OfiBell::new(Arc::clone(&self.sleepers))
    }
}

const _: () = assert!((WINDOW as usize) < MOST_SENDING && MOST_SENDING + MOST_SLOTS / 2 < MOST_SLOTS);
