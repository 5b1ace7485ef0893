//! [`Both`]: shared memory to the processes of this node, a fabric to all others, and one bell for either.

use crate::contacts::{Contacts, Wide};
use crate::fabric::{Fabric, FabricBell};
use crate::told_deaths::{Departure, ToldDeaths};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weft_api::shares::Shares;
use weft_api::verbs::Access;
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Region, RegionId, RemoteMemory, RemoteRun, Token, Unregistered,
    ZeroCopy,
};
use weft_api::{Bell, Capabilities, Handler, Pollable, Refused, Sink, Transport};
use weft_shm::{Shm, ShmBell};
use weft_types::{Farewell, PeerId, Result};
use weft_wire::Header;

/// In a route: the peer is reached by the fabric.
const BY_FABRIC: u32 = 1 << 31;

/// Two ways of one process: which one leads to a peer depends on the peer alone and never changes.
#[derive(Debug)]
pub struct Both {
    shm: Shm,
    fabric: Fabric,
    /// Whose packets are taken first the next time.
    fabric_first: bool,
    /// When the fabric was looked at last and had nothing; `None` when it had something.
    quiet_since: Option<Instant>,
    /// Deaths on other nodes, of which the launcher tells through this one's memory; and in lanes other than lane 0 what lane 0
    /// has heard of processes there.
    deaths: ToldDeaths,
    /// Whether what was told last was a farewell.
    only_parted: bool,
    /// Bells that are armed: a look before a sleep must not leave the fabric out.
    armed: Arc<AtomicU32>,
    /// In lanes other than lane 0: who knows how others are reached.
    contacts: Option<Arc<dyn Contacts>>,
}

impl Both {
    /// Joins a node's shared memory and a fabric.
    pub fn new(shm: Shm, fabric: Fabric) -> Both {
        let (deaths, armed) = (ToldDeaths::default(), Arc::default());
        Both {
            shm,
            fabric,
            fabric_first: false,
            quiet_since: None,
            deaths,
            only_parted: false,
            armed,
            contacts: None,
        }
    }

    /// The same in a lane other than lane 0.
    pub(crate) fn in_lane(shm: Shm, wide: Wide) -> Both {
        Both { contacts: Some(wide.contacts), ..Both::new(shm, wide.fabric) }
    }

    /// As [`crate::Transports::is_known`].
    pub(crate) fn is_known(&self, peer: PeerId) -> bool {
        self.shm.is_here(peer) || self.contacts.as_ref().is_none_or(|contacts| contacts.is_known(peer))
    }

    /// As [`crate::Transports::hear_lost`].
    pub(crate) fn hear_lost(&mut self, peer: PeerId) {
        if !self.shm.is_here(peer) {
            self.deaths.hear(peer, Departure::Death, Instant::now());
        }
    }

    /// As [`crate::Transports::hear_parted`].
    pub(crate) fn hear_parted(&mut self, peer: PeerId, farewell: Farewell) {
        if !self.shm.is_here(peer) {
            self.deaths.hear(peer, Departure::Farewell(farewell), Instant::now());
        }
    }

    /// The way to other nodes.
    pub(crate) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The same, to work with.
    pub(crate) fn fabric_mut(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// The shared memory of the node.
    pub fn shm(&self) -> &Shm {
        &self.shm
    }

    /// The same, to work with.
    pub fn shm_mut(&mut self) -> &mut Shm {
        &mut self.shm
    }

    /// Whether the fabric shall be looked at now. A look at it may take far longer than one at shared memory, whose messages
    /// must not wait for it each time.
    fn is_fabric_due(&self) -> bool {
        let Some(since) = self.quiet_since else { return true };
        self.armed.load(Ordering::Relaxed) != 0
            || !self.deaths.is_empty()
            || since.elapsed() >= self.fabric.pause_between_looks()
    }
}

/// The same expression for the way that leads to a peer.
macro_rules! toward {
    ($both:expr, $peer:expr, $way:ident => $work:expr) => {
        if $both.shm.is_here($peer) {
            let $way = &mut $both.shm;
            $work
        } else {
            let $way = &mut $both.fabric;
            $work
        }
    };
}

impl Transport for Both {
    type Bell = BothBell;

    fn capabilities(&self, peer: PeerId) -> Capabilities {
        match self.shm.is_here(peer) {
            true => self.shm.capabilities(peer),
            false => self.fabric.capabilities(peer),
        }
    }

    fn connect(&mut self, peer: PeerId) -> Result<()> {
        toward!(self, peer, way => way.connect(peer))
    }

    #[inline]
    fn send_inline(
        &mut self,
        peer: PeerId,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        toward!(self, peer, way => way.send_inline(peer, header, payload))
    }

    fn route(&self, peer: PeerId) -> u32 {
        match self.shm.is_here(peer) {
            true => self.shm.route(peer),
            false => self.fabric.route(peer) | BY_FABRIC,
        }
    }

    #[inline]
    fn send_now(&mut self, route: u32, header: Header, payload: &[u8]) -> bool {
        match route & BY_FABRIC {
            0 => self.shm.send_now(route, header, payload),
            _ => self.fabric.send_now(route & !BY_FABRIC, header, payload),
        }
    }

    #[inline]
    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        toward!(self, peer, way => way.send_copy(peer, header, len, fill))
    }

    #[inline]
    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        toward!(self, peer, way => way.peek(peer))
    }

    #[inline]
    fn advance(&mut self, peer: PeerId) {
        toward!(self, peer, way => way.advance(peer));
    }

    #[inline]
    fn receive<H: Handler>(&mut self, peer: PeerId, handler: H) -> Option<H::Outcome> {
        toward!(self, peer, way => way.receive(peer, handler))
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.shm.is_idle() && (self.fabric.is_idle() || !self.is_fabric_due()) && self.deaths.is_empty()
    }

    /// Both in turns: whoever was first is second the next time, so neither can keep the other from being heard.
    #[inline]
    fn poll<S: Sink>(&mut self, burst: u32, left: &mut u32, sink: &mut S) -> Option<(PeerId, S::Outcome)> {
        self.fabric_first = !self.fabric_first;
        let first = match self.fabric_first {
            true => self.fabric.poll(burst, left, sink),
            false => self.shm.poll(burst, left, sink),
        };
        if first.is_some() || *left == 0 {
            return first;
        }
        match self.fabric_first {
            true => self.shm.poll(burst, left, sink),
            false => self.fabric.poll(burst, left, sink),
        }
    }

    fn ready(&mut self) -> Option<PeerId> {
        self.fabric_first = !self.fabric_first;
        match self.fabric_first {
            true => self.fabric.ready().or_else(|| self.shm.ready()),
            false => self.shm.ready().or_else(|| self.fabric.ready()),
        }
    }

    fn is_gone(&self, peer: PeerId) -> bool {
        match self.shm.is_here(peer) {
            true => self.shm.is_gone(peer),
            false => self.fabric.is_gone(peer),
        }
    }

    fn unanswered(&self, peer: PeerId) -> Option<Duration> {
        if self.shm.is_here(peer) { None } else { self.fabric.unanswered(peer) }
    }

    fn set_farewell(&mut self, farewell: Farewell) {
        self.shm.set_farewell(farewell);
    }

    fn farewell_of(&self, peer: PeerId) -> Farewell {
        if self.shm.is_here(peer) { self.shm.farewell_of(peer) } else { self.deaths.farewell_of(peer) }
    }

    fn has_only_parted(&self) -> bool {
        self.only_parted
    }

    fn has_ended(&self, peer: PeerId) -> bool {
        self.shm.is_here(peer) && self.shm.has_ended(peer)
    }

    #[inline]
    fn progress(&mut self) -> bool {
        let mut moved = self.shm.progress();
        if self.is_fabric_due() {
            let found = self.fabric.progress();
            self.quiet_since = (!found).then(Instant::now);
            moved |= found;
            if !self.deaths.is_empty() {
                self.deaths.looked(found, Instant::now());
                moved = true;
            }
        }
        moved
    }

    #[inline]
    fn push_out(&mut self) {
        self.fabric.push_out();
    }

    fn lost(&mut self) -> Option<PeerId> {
        while let Some(peer) = self.shm.lost() {
            self.only_parted = self.shm.has_only_parted();
            if self.shm.is_here(peer) {
                return Some(peer);
            }
            let departure = match self.only_parted {
                true => Departure::Farewell(self.shm.farewell_of(peer)),
                false => Departure::Death,
            };
            self.deaths.hear(peer, departure, Instant::now());
        }
        self.only_parted = false;
        if let Some(peer) = self.fabric.lost() {
            return Some(peer);
        }
        if self.deaths.is_empty() {
            return None;
        }
        let (peer, departure) = self.deaths.next(Instant::now())?;
        if matches!(departure, Departure::Farewell(_)) {
            self.only_parted = true;
            return Some(peer);
        }
        // The fabric would find out by its retries, seconds later.
        self.fabric.give_up(peer);
        Some(peer)
    }

    fn declare_lost(&mut self, peer: PeerId) {
        toward!(self, peer, way => way.declare_lost(peer));
    }

    fn has_left(&self) -> bool {
        self.shm.has_left() && self.fabric.has_left()
    }

    fn rest(&mut self) {
        self.shm.rest();
        self.fabric.rest();
    }

    fn has_rested(&self) -> bool {
        self.shm.has_rested() && self.fabric.has_rested()
    }

    fn read_remote(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<()> {
        toward!(self, peer, way => way.read_remote(peer, address, into))
    }

    fn write_remote(&mut self, peer: PeerId, address: u64, bytes: &[u8]) -> Result<()> {
        toward!(self, peer, way => way.write_remote(peer, address, bytes))
    }

    fn shares_of(&self, peer: PeerId) -> Option<&Shares> {
        if self.shm.is_here(peer) { self.shm.shares_of(peer) } else { None }
    }

    fn shares_for(&self, peer: PeerId) -> Option<&Shares> {
        if self.shm.is_here(peer) { self.shm.shares_for(peer) } else { None }
    }

    fn read_remote_runs(
        &mut self,
        peer: PeerId,
        remote: &[(u64, usize)],
        local: &[&[Cell<u8>]],
    ) -> Result<()> {
        toward!(self, peer, way => way.read_remote_runs(peer, remote, local))
    }

    fn zero_copy(&self, peer: PeerId) -> Option<ZeroCopy> {
        if self.shm.is_here(peer) { None } else { self.fabric.zero_copy(peer) }
    }

    fn register(&mut self, memory: MemoryRange, access: Access) -> std::result::Result<Region, Unregistered> {
        self.fabric.register(memory, access)
    }

    fn deregister(&mut self, region: RegionId) {
        self.fabric.deregister(region);
    }

    fn get(
        &mut self,
        peer: PeerId,
        from: &[RemoteRun],
        into: &[LocalRun],
        token: Token,
    ) -> std::result::Result<(), Refused> {
        toward!(self, peer, way => way.get(peer, from, into, token))
    }

    fn put(
        &mut self,
        peer: PeerId,
        from: &[LocalRun],
        to: &[RemoteRun],
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        toward!(self, peer, way => way.put(peer, from, to, token))
    }

    fn put_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        length: usize,
        fill: F,
        to: RemoteMemory,
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        toward!(self, peer, way => way.put_copy(peer, length, fill, to, token))
    }

    /// Of a peer of another node, which alone has memory that can be put to.
    #[inline]
    fn put_now(&mut self, route: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        self.fabric.put_now(route & !BY_FABRIC, bytes, to)
    }

    fn atomic(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        toward!(self, peer, way => way.atomic(peer, at, operation, token))
    }

    fn changes_own(&mut self) -> bool {
        self.fabric.changes_own()
    }

    fn change_own(
        &mut self,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        self.fabric.change_own(at, operation, token)
    }

    fn flush(&mut self, peer: PeerId, token: Token) -> std::result::Result<(), Refused> {
        toward!(self, peer, way => way.flush(peer, token))
    }

    fn completed(&mut self) -> Option<Completed> {
        self.fabric.completed()
    }

    fn bell(&self) -> BothBell {
        BothBell::new(self.shm.bell(), self.fabric.bell(), Arc::clone(&self.armed))
    }
}

/// The part of a bell that is a fabric's, of one lane.
#[derive(Debug)]
struct FabricPart {
    bell: FabricBell,
    /// Counts such parts while they are armed.
    armed: Arc<AtomicU32>,
    is_armed: Cell<bool>,
}

impl Clone for FabricPart {
    fn clone(&self) -> FabricPart {
        FabricPart { bell: self.bell.clone(), armed: Arc::clone(&self.armed), is_armed: Cell::new(false) }
    }
}

impl FabricPart {
    fn arm(&self) {
        if !self.is_armed.replace(true) {
            // Before the arming of the fabric, so that the look after it leaves nothing out.
            self.armed.fetch_add(1, Ordering::Relaxed);
            self.bell.arm();
        }
    }

    fn disarm(&self) {
        if self.is_armed.replace(false) {
            self.bell.disarm();
            self.armed.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for FabricPart {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// What a blocked caller sleeps on: shared memory, and the descriptors of the fabric in the lanes that it listens to.
#[derive(Clone, Debug)]
pub struct BothBell {
    shm: ShmBell,
    /// Of the lane that the bell comes from.
    own: FabricPart,
    /// Whether it listens to that.
    listens: Cell<bool>,
    /// Of other lanes that it listens to.
    others: RefCell<Vec<FabricPart>>,
}

impl BothBell {
    /// `armed` counts such bells while they are armed.
    pub(crate) fn new(shm: ShmBell, fabric: FabricBell, armed: Arc<AtomicU32>) -> BothBell {
        let own = FabricPart { bell: fabric, armed, is_armed: Cell::new(false) };
        BothBell { shm, own, listens: Cell::new(true), others: RefCell::default() }
    }

    /// As [`ShmBell::ring`].
    pub fn ring(&self, lane: u32) {
        self.shm.ring(lane);
    }

    /// As [`ShmBell::listen`], of a bell of lane 0. Other lanes' fabrics come by [`BothBell::listen_to`].
    pub fn listen(&self, lanes: u32) {
        self.shm.listen(lanes);
        self.listens.set(lanes & 1 != 0);
        self.others.borrow_mut().clear();
    }

    /// Until the next [`BothBell::listen`] it sleeps on this lane's fabric, too.
    pub(crate) fn listen_to(&self, lane: &BothBell) {
        self.others.borrow_mut().push(lane.own.clone());
    }

    fn disarm_fabrics(&self) {
        self.own.disarm();
        self.others.borrow().iter().for_each(FabricPart::disarm);
    }
}

impl Bell for BothBell {
    fn arm(&self) {
        if self.listens.get() {
            self.own.arm();
        }
        self.others.borrow().iter().for_each(FabricPart::arm);
        self.shm.arm();
    }

    fn sleep(&self, limit: Duration) {
        let others = self.others.borrow();
        let armed = || std::iter::once(&self.own).chain(&*others).filter(|part| part.is_armed.get());
        let mut descriptors = Vec::new();
        armed().for_each(|part| part.bell.descriptors(&mut descriptors));
        if descriptors.is_empty() {
            return self.shm.sleep(limit);
        }
        self.shm.sleep_beside(&descriptors, armed().fold(limit, |limit, part| part.bell.limit(limit)));
        drop(descriptors);
        drop(others);
        self.disarm_fabrics();
    }

    fn disarm(&self) {
        self.shm.disarm();
        self.disarm_fabrics();
    }
}
