//! [`Several`]: a process of a job whose nodes differ, with a transport of its own toward each kind of nodes.
//!
//! A pair of processes uses one transport in both directions, which both know before they talk ([`Guide`]). So the order of a pair's messages
//! is that transport's, and a receive from anybody takes what any of them brings first. All that are open move, are slept on, and are rested
//! together; each finds out for itself who is lost.
//!
//! *Registered memory* is that of the first transport alone: a region has one key. What [`Lead::memory`] does not say of a peer goes to it in
//! copied messages, and operations on windows are executed by its engine. Collectives are not handed to libfabric.
//!
//! Memory: an entry for each peer that was met.

use super::{Fabric, FabricBell};
use crate::types::Carrier;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;
use weft_api::verbs::Access;
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Region, RegionId, RemoteMemory, RemoteRun, Token, Unregistered,
    ZeroCopy,
};
use weft_api::{Bell, Capabilities, Handler, Pollable, Refused, Sink, Transport};
use weft_types::{Error, PeerId, Result};
use weft_wire::Header;

/// Transports of one process: their number lies in three bits of a route, and one number means none.
pub const MOST_WAYS: usize = 7;
/// Where it lies; the bit above is the engine's.
const SHIFT: u32 = 28;
/// The rest of a route.
const OWN: u32 = (1 << SHIFT) - 1;
/// To whom no transport is ready to send in the shortest way.
const NOWHERE: u32 = (MOST_WAYS as u32) << SHIFT | OWN;

/// How one process is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    /// By which of the transports.
    pub way: usize,
    /// Whether both ends register memory with that one.
    pub memory: bool,
}

/// Who knows by which transport a process is reached. Asked once for each that is met; the answer never changes, and is the same at both
/// ends.
pub trait Guide: fmt::Debug + Send {
    /// What leads to a process.
    ///
    /// # Errors
    /// It has not said what it is, or nothing leads there.
    fn find(&mut self, peer: PeerId) -> Result<Lead>;
}

/// Transports, each toward some of the processes.
#[derive(Debug)]
pub struct Several {
    ways: Vec<Fabric>,
    guide: RefCell<Box<dyn Guide>>,
    /// Who was met.
    leads: RefCell<HashMap<PeerId, Lead>>,
    /// What moves the messages of the job, for a choice that is the same everywhere.
    carrier: Carrier,
    /// Which is looked at first the next time.
    turn: usize,
}

/// What a blocked caller sleeps on: the bells of all.
#[derive(Clone, Debug)]
pub struct SeveralBells(Vec<FabricBell>);

impl Several {
    /// Joins open transports, at most [`MOST_WAYS`]; the first one's devices have the registered memory.
    pub(super) fn new(ways: Vec<Fabric>, guide: Box<dyn Guide>, carrier: Carrier) -> Several {
        assert!((1..=MOST_WAYS).contains(&ways.len()), "{} transports are open", ways.len());
        Several { ways, guide: RefCell::new(guide), leads: RefCell::default(), carrier, turn: 0 }
    }

    pub(super) fn all(&self) -> &[Fabric] {
        &self.ways
    }

    pub(super) fn all_mut(&mut self) -> &mut [Fabric] {
        &mut self.ways
    }

    pub(super) fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// What leads to a process, asked for the first time.
    fn lead(&self, peer: PeerId) -> Result<Lead> {
        if let Some(lead) = self.known(peer) {
            return Ok(lead);
        }
        let lead = self.guide.borrow_mut().find(peer)?;
        if lead.way >= self.ways.len() {
            return Err(Error::internal(format!(
                "process {} is reached by a transport that is not open",
                peer.0
            )));
        }
        self.leads.borrow_mut().insert(peer, lead);
        Ok(lead)
    }

    /// The same of one that was met.
    fn known(&self, peer: PeerId) -> Option<Lead> {
        self.leads.borrow().get(&peer).copied()
    }

    /// The transport to a process; what is asked of one that nothing leads to, the first one answers.
    pub(super) fn toward(&self, peer: PeerId) -> &Fabric {
        &self.ways[self.lead(peer).map_or(0, |lead| lead.way)]
    }

    fn toward_mut(&mut self, peer: PeerId) -> &mut Fabric {
        let way = self.lead(peer).map_or(0, |lead| lead.way);
        &mut self.ways[way]
    }

    /// In which order they are looked at: each is the first in its turn.
    fn next_turn(&mut self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.turn, self.ways.len());
        self.turn = (first + 1) % count;
        (first..count).chain(0..first)
    }
}

/// The transport in a route, and its own route.
fn of_route(route: u32) -> (usize, u32) {
    ((route >> SHIFT & MOST_WAYS as u32) as usize, route & OWN)
}

impl Transport for Several {
    type Bell = SeveralBells;

    /// Of one that nothing is known of, what all can do: it is asked before anybody is connected to, and the answer is kept.
    #[cold]
    fn capabilities(&self, peer: PeerId) -> Capabilities {
        match self.lead(peer) {
            Ok(lead) => self.ways[lead.way].capabilities(peer),
            Err(_) => {
                let all = self.ways.iter().map(|way| way.capabilities(peer));
                let least = all.reduce(|a, b| Capabilities {
                    max_inline: a.max_inline.min(b.max_inline),
                    full_copy: a.full_copy.min(b.full_copy),
                    ..if a.max_copy <= b.max_copy { a } else { b }
                });
                least.unwrap_or(crate::transports::NONE)
            }
        }
    }

    #[cold]
    fn connect(&mut self, peer: PeerId) -> Result<()> {
        let lead = self.lead(peer)?;
        self.ways[lead.way].connect(peer)
    }

    #[cold]
    fn send_inline(
        &mut self,
        peer: PeerId,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        self.toward_mut(peer).send_inline(peer, header, payload)
    }

    #[cold]
    fn route(&self, peer: PeerId) -> u32 {
        let Some(lead) = self.known(peer) else { return NOWHERE };
        match self.ways[lead.way].route(peer) {
            route @ ..OWN => route | (lead.way as u32) << SHIFT,
            _ => NOWHERE,
        }
    }

    #[cold]
    #[inline(never)]
    fn send_now(&mut self, route: u32, header: Header, payload: &[u8]) -> bool {
        let (way, route) = of_route(route);
        self.ways.get_mut(way).is_some_and(|way| way.send_now(route, header, payload))
    }

    #[cold]
    #[inline(never)]
    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        self.toward_mut(peer).send_copy(peer, header, len, fill)
    }

    #[cold]
    #[inline(never)]
    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        self.toward_mut(peer).peek(peer)
    }

    #[cold]
    #[inline(never)]
    fn advance(&mut self, peer: PeerId) {
        self.toward_mut(peer).advance(peer);
    }

    #[cold]
    #[inline(never)]
    fn receive<H: Handler>(&mut self, peer: PeerId, handler: H) -> Option<H::Outcome> {
        self.toward_mut(peer).receive(peer, handler)
    }

    #[cold]
    #[inline(never)]
    fn is_idle(&self) -> bool {
        self.ways.iter().all(Transport::is_idle)
    }

    #[cold]
    #[inline(never)]
    fn has_brought(&self) -> bool {
        self.ways.iter().any(Transport::has_brought)
    }

    /// In turns, so that none keeps the others from being heard.
    #[cold]
    #[inline(never)]
    fn poll<S: Sink>(&mut self, burst: u32, left: &mut u32, sink: &mut S) -> Option<(PeerId, S::Outcome)> {
        for way in self.next_turn() {
            let found = self.ways[way].poll(burst, left, sink);
            if found.is_some() || *left == 0 {
                return found;
            }
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn ready(&mut self) -> Option<PeerId> {
        self.next_turn().find_map(|way| self.ways[way].ready())
    }

    fn is_gone(&self, peer: PeerId) -> bool {
        self.known(peer).is_some_and(|lead| self.ways[lead.way].is_gone(peer))
    }

    fn unanswered(&self, peer: PeerId) -> Option<Duration> {
        self.ways[self.known(peer)?.way].unanswered(peer)
    }

    #[cold]
    #[inline(never)]
    fn progress(&mut self) -> bool {
        self.ways.iter_mut().fold(false, |moved, way| way.progress() | moved)
    }

    #[cold]
    #[inline(never)]
    fn push_out(&mut self) {
        self.ways.iter_mut().for_each(Transport::push_out);
    }

    fn lost(&mut self) -> Option<PeerId> {
        self.ways.iter_mut().find_map(Transport::lost)
    }

    fn declare_lost(&mut self, peer: PeerId) {
        self.toward_mut(peer).declare_lost(peer);
    }

    fn give_up(&mut self, peer: PeerId) {
        self.toward_mut(peer).give_up(peer);
    }

    fn has_left(&self) -> bool {
        self.ways.iter().all(Transport::has_left)
    }

    fn rest(&mut self) {
        self.ways.iter_mut().for_each(Transport::rest);
    }

    fn has_rested(&self) -> bool {
        self.ways.iter().all(Transport::has_rested)
    }

    fn read_remote(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<()> {
        self.toward_mut(peer).read_remote(peer, address, into)
    }

    fn read_remote_runs(
        &mut self,
        peer: PeerId,
        remote: &[(u64, usize)],
        local: &[&[Cell<u8>]],
    ) -> Result<()> {
        self.toward_mut(peer).read_remote_runs(peer, remote, local)
    }

    fn zero_copy(&self, peer: PeerId) -> Option<ZeroCopy> {
        let lead = self.lead(peer).ok().filter(|lead| lead.memory && lead.way == 0)?;
        self.ways[lead.way].zero_copy(peer)
    }

    fn register(&mut self, memory: MemoryRange, access: Access) -> std::result::Result<Region, Unregistered> {
        self.ways[0].register(memory, access)
    }

    fn deregister(&mut self, region: RegionId) {
        self.ways[0].deregister(region);
    }

    fn get(
        &mut self,
        peer: PeerId,
        from: &[RemoteRun],
        into: &[LocalRun],
        token: Token,
    ) -> std::result::Result<(), Refused> {
        self.toward_mut(peer).get(peer, from, into, token)
    }

    fn put(
        &mut self,
        peer: PeerId,
        from: &[LocalRun],
        to: &[RemoteRun],
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        self.toward_mut(peer).put(peer, from, to, token)
    }

    fn put_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        length: usize,
        fill: F,
        to: RemoteMemory,
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        self.toward_mut(peer).put_copy(peer, length, fill, to, token)
    }

    #[cold]
    #[inline(never)]
    fn put_now(&mut self, route: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        let (way, route) = of_route(route);
        self.ways.get_mut(way).is_some_and(|way| way.put_now(route, bytes, to))
    }

    fn atomic(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        self.toward_mut(peer).atomic(peer, at, operation, token)
    }

    fn changes_own(&mut self) -> bool {
        self.ways[0].changes_own()
    }

    fn change_own(
        &mut self,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        self.ways[0].change_own(at, operation, token)
    }

    fn flush(&mut self, peer: PeerId, token: Token) -> std::result::Result<(), Refused> {
        self.toward_mut(peer).flush(peer, token)
    }

    /// Nothing was begun but on the first one.
    fn completed(&mut self) -> Option<Completed> {
        self.ways[0].completed()
    }

    fn bell(&self) -> SeveralBells {
        SeveralBells(self.ways.iter().map(Transport::bell).collect())
    }
}

impl SeveralBells {
    /// As [`FabricBell::ring`]: whoever sleeps on all is woken by the first.
    pub(super) fn ring(&self) {
        self.0[0].ring();
    }
}

impl Bell for SeveralBells {
    fn arm(&self) {
        self.0.iter().for_each(Bell::arm);
    }

    fn sleep(&self, limit: Duration) {
        let mut list = Vec::with_capacity(2 * self.0.len());
        self.descriptors(&mut list);
        let mut list: Vec<_> = list.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // A sleep that a signal ends is over: sleeps may end early for no reason.
        let _ = ppoll(&mut list, Some(TimeSpec::from_duration(self.limit(limit))), None);
        self.disarm();
    }

    fn disarm(&self) {
        self.0.iter().for_each(Bell::disarm);
    }
}

impl Pollable for SeveralBells {
    fn descriptors<'a>(&'a self, list: &mut Vec<std::os::fd::BorrowedFd<'a>>) {
        self.0.iter().for_each(|bell| bell.descriptors(list));
    }

    fn limit(&self, limit: Duration) -> Duration {
        self.0.iter().fold(limit, |limit, bell| bell.limit(limit))
    }
}
