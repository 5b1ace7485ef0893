//! [`Shm`]: one process's end of the node segment.

use crate::arrivals::announce;
use crate::bell;
use crate::layout::{INLINE_BYTES, Layout};
use crate::peers::PeerMap;
use crate::pool::{Block, Pool};
use crate::raw::{Grow, RawRing};
use crate::ring::{Front, Producer};
use crate::rounds::{Members, Rounds, Wakes};
use crate::segment::{Inbound as Arrived, PeerState, Segment, Slot, Waking, no_room};
use crate::single_copy::{Readers, SingleCopy};
use crate::sleeping::ShmBell;
use crate::slots::Fresh;
use crate::sys::{self, Mapping};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_api::shares::Shares;
use weft_api::{Capabilities, Handler, Refused, Sink, Transport};
use weft_types::{Farewell, PeerId, Result};
use weft_wire::Header;

mod arriving;
mod attach;
mod departing;
mod inbound;
mod outbound;
mod stages;

pub use attach::Config;
use attach::no_address_space;
use inbound::Inbound;
use outbound::Outbound;

/// The node-local transport of one process, or of one of its lanes.
#[derive(Debug)]
pub struct Shm {
    segment: Arc<Segment>,
    /// Which set of rings; lane 0 stands for the process.
    lane: u32,
    /// Who sends to whom in this lane.
    inbound: Arrived,
    /// Our own slot; lives as long as `segment`.
    own: NonNull<Slot>,
    /// Our column of rings: everything that comes in.
    column: Mapping,
    me: u32,
    map: PeerMap,
    /// By local index: the ring we send on, once connected.
    outbound: Vec<Option<Box<Outbound>>>,
    /// Rings that somebody sends on, in order of arrival.
    active: Vec<Inbound>,
    /// By local index: position in `active`, or [`NOT_ACTIVE`].
    position: Vec<u16>,
    /// Where the next fair search begins in `active`.
    cursor: usize,
    /// Arrivals that were taken in.
    arrivals: u32,
    /// The packet that `ready` or `peek` showed last: position in `active`, and where it is. Stays true until
    /// `advance`, for nobody else takes packets away.
    shown: Option<(usize, Front)>,
    /// By local index: whether its death was seen.
    seen_dead: Vec<bool>,
    /// By local index: its farewell as it was seen last.
    seen_farewells: Vec<Farewell>,
    /// Deaths and farewells seen and not yet told.
    lost: Vec<(PeerId, Departure)>,
    /// What was told last.
    named: Departure,
    /// Deaths on other nodes that were seen.
    far_seen: u32,
    /// Words of the launcher that were seen; what they say of processes of other nodes that have ended MPI, and of ways to them.
    words_seen: u32,
    far_farewells: BTreeMap<PeerId, Farewell>,
    inquiries: Vec<Inquiry>,
    single_copy: SingleCopy,
    /// What the first rank of the node said of its cores.
    agreed: Waking,
    fenced: bool,
    blind: bool,
    numa: bool,
    /// Memory for collectives; mapped when somebody first asks.
    pool: Option<Arc<Pool>>,
}

// SAFETY: our own slot is shared memory made of atomics, kept mapped by `segment`; everything else in it is `Send`.
unsafe impl Send for Shm {}

/// Why nothing more comes from a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Departure {
    /// The launcher says that it died.
    Death,
    /// It says that it has ended MPI after a loss.
    Farewell,
}

/// What the launcher says of the way to a process, by whatever else reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inquiry {
    /// It asks for a way, and hears nothing of this process.
    Asks(PeerId),
    /// It and this process both look for one, and have found none.
    Unreachable(PeerId),
}

/// What `examples/pingpong` measured (README.md), cautiously: seconds, bytes per second.
const LATENCY: f64 = 1e-7;
const COPY_BANDWIDTH: f64 = 3e10;
const SINGLE_COPY_BANDWIDTH: f64 = 1.2e10;
/// Seconds for each run in a list: the kernel looks up the pages of every run of the other process by themselves.
const REMOTE_RUN: f64 = 5e-7;
const LOCAL_RUN: f64 = 1.5e-8;

/// Packets at least this long are copied for so long that the next cell can be fetched meanwhile.
const FETCH_NEXT: usize = 2048;

const NOT_ACTIVE: u16 = u16::MAX;

impl Shm {
    /// Where `peer` is in its life.
    pub fn peer_state(&self, peer: PeerId) -> PeerState {
        self.segment.slot(self.map.local(peer)).state()
    }

    /// Whether `peer` is on this node.
    #[inline]
    pub fn is_here(&self, peer: PeerId) -> bool {
        self.map.contains(peer)
    }

    /// What the launcher has said of ways to processes since the last call.
    #[inline]
    pub fn inquiries(&mut self) -> Vec<Inquiry> {
        std::mem::take(&mut self.inquiries)
    }

    /// Whether it has said anything of them.
    #[inline]
    pub fn has_inquiries(&self) -> bool {
        !self.inquiries.is_empty()
    }

    /// How this process's sends make sure that sleepers wake, for reports.
    pub fn waking(&self) -> &'static str {
        match (self.fenced, self.blind) {
            (false, _) => "sleepers use membarrier",
            (true, false) => "senders fence",
            (true, true) => "senders fence and sleeps are short: membarrier is not available",
        }
    }

    /// Whether this process may not ask for barriers that act on others, though they rely on it.
    pub const fn is_blind(&self) -> bool {
        self.blind
    }

    /// Memory for collectives of the node.
    ///
    /// # Errors
    /// It cannot be mapped or backed.
    pub fn pool(&mut self) -> Result<&Arc<Pool>> {
        if self.pool.is_none() {
            self.pool = Some(Arc::new(Pool::open(&self.segment.file, &self.segment.layout)?));
        }
        Ok(self.pool.as_ref().expect("opened just now"))
    }

    /// Whether ranks outnumber the cores of the node, as its first rank said; the same at all, whatever each of them can do.
    pub fn is_crowded(&self) -> bool {
        self.agreed == Waking::Fence
    }

    /// Joins the collectives of `peers`, all on this node, `peers[me]` being this process, in the block of cells that one of
    /// them took for all.
    ///
    /// # Errors
    /// As [`Shm::pool`].
    pub fn join_rounds(
        &mut self,
        block: Block,
        me: u32,
        peers: impl IntoIterator<Item = PeerId>,
    ) -> Result<Rounds> {
        let locals = peers.into_iter().map(|peer| self.map.local(peer)).collect();
        let pool = Arc::clone(self.pool()?);
        let wakes = Wakes { fenced: self.fenced, crowded: self.is_crowded() };
        Ok(Rounds::join(&self.segment, &pool, block, &Members { me, locals }, wakes))
    }

    /// Those processes, of which the one at `me` is this one, for it to read their memory at any time; `None` when the kernel does not
    /// let it read one of them, or single copy is switched off.
    pub fn readers(&self, me: u32, peers: impl IntoIterator<Item = PeerId>) -> Option<Readers> {
        let locals = peers.into_iter().map(|peer| self.map.local(peer));
        self.single_copy.readers(me, locals.map(|local| (local, self.segment.slot(local))))
    }

    /// The figures of the segment.
    pub fn layout(&self) -> Layout {
        self.segment.layout
    }

    #[inline]
    fn outbound(&mut self, peer: PeerId) -> &mut Outbound {
        let local = self.map.local(peer);
        match &mut self.outbound[local as usize] {
            Some(outbound) => outbound,
            None => unreachable!("the engine connects to peer {} before it sends", peer.0),
        }
    }

    #[inline]
    fn own(&self) -> &Slot {
        // SAFETY: see the field.
        unsafe { self.own.as_ref() }
    }

    /// The inbound ring of `peer`, when it has ever sent.
    #[inline]
    fn inbound(&mut self, peer: PeerId) -> Option<usize> {
        let local = self.map.local(peer) as usize;
        let position = self.position[local];
        if position != NOT_ACTIVE {
            return Some(position as usize);
        }
        self.look_for_arrivals();
        let position = self.position[local];
        (position != NOT_ACTIVE).then_some(position as usize)
    }

    #[inline]
    fn look_for_arrivals(&mut self) -> bool {
        let arrivals = self.own().arrivals.load(Ordering::Acquire);
        arrivals != self.arrivals && self.accept()
    }

    /// Where the next packet of `active[index]` is, kept as the one shown; without one, tells the sender what was taken.
    #[inline]
    fn front(&mut self, index: usize) -> Option<(PeerId, Front)> {
        let inbound = self.active.get_mut(index)?;
        let Some(front) = inbound.consumer.front() else {
            if inbound.consumer.owes_heads() && inbound.consumer.publish_heads() {
                self.wake(index);
            }
            return None;
        };
        self.shown = Some((index, front));
        Some((inbound.peer, front))
    }

    /// A packet of anybody but `active[cursor]`.
    #[inline(never)]
    fn ready_others(&mut self) -> Option<PeerId> {
        let (cursor, count) = (self.cursor, self.active.len());
        (cursor + 1..count).chain(0..cursor).find_map(|index| self.found(index))
    }

    /// The peer of `active[index]` when it has a packet; the others come first next time.
    #[inline]
    fn found(&mut self, index: usize) -> Option<PeerId> {
        let (peer, _) = self.front(index)?;
        self.cursor = if index + 1 < self.active.len() { index + 1 } else { 0 };
        Some(peer)
    }

    /// Wakes the sender of `active[index]`, who waits for room.
    #[cold]
    fn wake(&self, index: usize) {
        self.segment.slot(self.active[index].local).doors.ring(self.lane);
    }

    /// The packet shown last, when it is one of `peer`.
    #[inline]
    fn shown(&self, peer: PeerId) -> Option<(usize, Front)> {
        self.shown.filter(|&(index, _)| self.active.get(index).is_some_and(|inbound| inbound.peer == peer))
    }
}

impl Transport for Shm {
    type Bell = ShmBell;

    fn capabilities(&self, peer: PeerId) -> Capabilities {
        let local = self.map.local(peer);
        Capabilities {
            max_inline: INLINE_BYTES,
            max_copy: self.segment.layout.max_copy as usize,
            full_copy: self.segment.layout.max_copy as usize,
            single_copy: self.single_copy.possible(local, self.segment.slot(local)),
            compared: true,
            latency: LATENCY,
            copy_bandwidth: COPY_BANDWIDTH,
            single_copy_bandwidth: SINGLE_COPY_BANDWIDTH,
            most_runs: sys::MOST_RUNS,
            remote_run: REMOTE_RUN,
            local_run: LOCAL_RUN,
        }
    }

    fn connect(&mut self, peer: PeerId) -> Result<()> {
        let local = self.map.local(peer);
        debug_assert_ne!(local, self.me, "messages to oneself stay in the engine");
        if self.outbound[local as usize].is_some() {
            return Ok(());
        }
        let layout = self.segment.layout;
        let offset = layout.ring(self.lane, local, self.me);
        let mapping = Mapping::new(&self.segment.file, offset, layout.ring_bytes())
            .map_err(|error| no_address_space(&error, layout.ring_bytes()))?;
        let slot = self.segment.slot(local);
        if self.numa && slot.state() == PeerState::Attached {
            mapping.prefer_node(slot.lane_node(self.lane));
        }
        sys::back(&self.segment.file, offset, layout.first_bytes()).map_err(|error| {
            no_room(&error, layout.first_bytes(), format_args!("messages to rank {}", peer.0))
        })?;
        let grow = Grow {
            file: Arc::clone(&self.segment.file),
            data_offset: offset + layout.data(),
            page: sys::page_bytes(),
        };
        // SAFETY: the mapping is one ring, kept with the producer; this process is its only producer (it claimed
        // its slot) and makes it once.
        let memory = unsafe { RawRing::new(mapping.base(), &layout, self.fenced, Some(grow)) };
        let limit = ((layout.first_bytes() - layout.data()) as u32).min(layout.data_bytes);
        let producer = Producer::new(memory, layout.cells, limit);
        self.outbound[local as usize] = Some(Box::new(Outbound {
            producer,
            doors: NonNull::from(&slot.doors),
            word: NonNull::from(slot.doors.word(self.lane)),
            lane: self.lane,
            reached: 0,
            fresh: Fresh::new(layout.slots),
            mapping,
        }));
        self.introduce_twins(local);
        announce(&self.inbound.announced(local), self.me);
        Ok(())
    }

    #[inline]
    fn send_inline(
        &mut self,
        peer: PeerId,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        let outbound = self.outbound(peer);
        let Some(cell) = outbound.producer.cell() else { return Err(outbound.full()) };
        outbound.producer.memory_mut().write_inline(cell, header.words(), payload);
        outbound.producer.publish(payload.len());
        outbound.notify()
    }

    fn route(&self, peer: PeerId) -> u32 {
        self.map.local(peer)
    }

    #[inline(always)]
    fn send_now(&mut self, route: u32, header: Header, payload: &[u8]) -> bool {
        let Some(Some(outbound)) = self.outbound.get_mut(route as usize) else { return false };
        let outbound: &mut Outbound = outbound;
        let Some(free) = outbound.producer.cell_at_hand() else { return false };
        outbound.producer.memory_mut().write_inline(free.cell, header.words(), payload);
        outbound.producer.publish_at_hand(free, payload.len());
        // A peer that is gone is noticed by whoever waits for it.
        let _ = outbound.notify();
        true
    }

    #[inline]
    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        assert!(len <= self.segment.layout.max_copy as usize, "a packet of {len} bytes");
        // Who finds no cell has no turn to wait for, and none to take.
        let outbound = self.outbound(peer);
        let Some(cell) = outbound.producer.cell() else { return Err(outbound.full()) };
        if len <= INLINE_BYTES {
            outbound.producer.memory_mut().fill_inline(cell, header.words(), len, fill);
            outbound.producer.publish(len);
            return outbound.notify();
        }
        self.send_record(peer, header, cell, len, fill)
    }

    #[inline]
    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        let (index, front) = match self.shown(peer) {
            Some(shown) => shown,
            None => {
                let index = self.inbound(peer)?;
                (index, self.front(index)?.1)
            }
        };
        let memory = self.active[index].consumer.memory();
        Some((Header::from_words(memory.envelope(front.cell)), memory.payload(front.cell, front.len)))
    }

    #[inline]
    fn advance(&mut self, peer: PeerId) {
        if self.shown(peer).is_none() {
            // Another packet was looked at in between.
            self.peek(peer);
        }
        let Some((index, front)) = self.shown.take() else { unreachable!("advance drops what peek showed") };
        if self.active[index].release(front) {
            self.wake(index);
        }
    }

    #[inline(always)]
    fn receive<H: Handler>(&mut self, peer: PeerId, handler: H) -> Option<H::Outcome> {
        let (index, front) = match self.shown(peer) {
            Some(shown) => shown,
            None => {
                let index = self.inbound(peer)?;
                (index, self.front(index)?.1)
            }
        };
        let inbound = &mut self.active[index];
        let memory = inbound.consumer.memory();
        if front.len >= FETCH_NEXT {
            inbound.consumer.prefetch_next();
        }
        let header = Header::from_words(memory.envelope(front.cell));
        let (done, result) = handler.handle(header, memory.payload(front.cell, front.len));
        if done {
            self.shown = None;
            if inbound.release(front) {
                self.wake(index);
            }
        }
        Some(result)
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.own().arrivals.load(Ordering::Acquire) == self.arrivals
            && self.lost.is_empty()
            && self.active.iter().all(|inbound| inbound.consumer.is_idle())
    }

    #[inline]
    fn poll<S: Sink>(&mut self, burst: u32, left: &mut u32, sink: &mut S) -> Option<(PeerId, S::Outcome)> {
        let first = self.cursor;
        let mut index = first;
        loop {
            let inbound = self.active.get_mut(index)?;
            let end = left.saturating_sub(burst);
            let mut wakes = false;
            let mut outcome = None;
            if let Some(mut front) = inbound.consumer.front() {
                if let ControlFlow::Break(why) = sink.begin(inbound.peer) {
                    self.cursor = index;
                    return Some((inbound.peer, why));
                }
                self.shown = None;
                loop {
                    let memory = inbound.consumer.memory();
                    if front.len >= FETCH_NEXT {
                        inbound.consumer.prefetch_next();
                    }
                    let header = Header::from_words(memory.envelope(front.cell));
                    let flow = sink.take(header, memory.payload(front.cell, front.len));
                    wakes |= inbound.release(front);
                    *left -= 1;
                    if let ControlFlow::Break(why) = flow {
                        outcome = Some((inbound.peer, why));
                        break;
                    }
                    if *left == end || inbound.is_our_turn() {
                        break;
                    }
                    match inbound.consumer.front() {
                        Some(next) => front = next,
                        None => break,
                    }
                }
            } else if inbound.consumer.owes_heads() {
                wakes = inbound.consumer.publish_heads();
            }
            if wakes {
                self.wake(index);
            }
            index = if index + 1 < self.active.len() { index + 1 } else { 0 };
            if outcome.is_some() || *left == 0 || index == first {
                self.cursor = index;
                return outcome;
            }
        }
    }

    #[inline]
    fn ready(&mut self) -> Option<PeerId> {
        self.look_for_arrivals();
        match self.found(self.cursor) {
            None if self.active.len() > 1 => self.ready_others(),
            found => found,
        }
    }

    fn is_gone(&self, peer: PeerId) -> bool {
        bell::is_gone(self.segment.slot(self.map.local(peer)).doors.word(self.lane).load(Ordering::Acquire))
    }

    fn has_ended(&self, peer: PeerId) -> bool {
        self.segment.slot(self.map.local(peer)).has_ended()
    }

    fn farewell_of(&self, peer: PeerId) -> Farewell {
        match self.map.contains(peer) {
            true => self.segment.slot(self.map.local(peer)).farewell(),
            false => self.far_farewells.get(&peer).copied().unwrap_or(Farewell::NONE),
        }
    }

    fn set_farewell(&mut self, farewell: Farewell) {
        self.segment.part(self.me, farewell);
    }

    fn has_only_parted(&self) -> bool {
        self.named == Departure::Farewell
    }

    #[inline]
    fn progress(&mut self) -> bool {
        self.look_for_arrivals()
    }

    #[inline]
    fn lost(&mut self) -> Option<PeerId> {
        let (peer, departure) = self.lost.pop()?;
        self.named = departure;
        Some(peer)
    }

    fn declare_lost(&mut self, peer: PeerId) {
        self.segment.bury(self.map.local(peer));
    }

    fn read_remote(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<()> {
        let local = self.map.local(peer);
        self.single_copy.read(local, self.segment.slot(local), peer, address, into)
    }

    fn write_remote(&mut self, peer: PeerId, address: u64, bytes: &[u8]) -> Result<()> {
        let local = self.map.local(peer);
        self.single_copy.write(local, self.segment.slot(local), peer, address, bytes)
    }

    fn shares_of(&self, peer: PeerId) -> Option<&Shares> {
        let position = self.position[self.map.local(peer) as usize];
        Some(self.active.get(position as usize)?.consumer.memory().shares())
    }

    fn shares_for(&self, peer: PeerId) -> Option<&Shares> {
        Some(self.outbound[self.map.local(peer) as usize].as_ref()?.producer.memory().shares())
    }

    fn read_remote_runs(
        &mut self,
        peer: PeerId,
        remote: &[(u64, usize)],
        local: &[&[Cell<u8>]],
    ) -> Result<()> {
        let index = self.map.local(peer);
        self.single_copy.read_runs(index, self.segment.slot(index), peer, remote, local)
    }

    fn bell(&self) -> ShmBell {
        ShmBell::new(Arc::clone(&self.segment), self.me, self.lane, !self.fenced, self.blind)
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        if self.lane == 0 {
            self.segment.finalize(self.me);
        }
    }
}
