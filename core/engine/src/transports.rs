//! The ways of this process to others, joined in one enum so that every call is static and inlined.

use crate::both::Both;
use crate::fabric::Fabric;
use crate::forced::Forced;
use std::cell::Cell;
use std::fs::File;
use std::time::Duration;
use weft_api::shares::Shares;
use weft_api::verbs::Access;
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Region, RegionId, RemoteMemory, RemoteRun, Token, Unregistered,
    ZeroCopy,
};
use weft_api::{Capabilities, Handler, Refused, Sink, Transport};
use weft_shm::{Config, LonelyBell, Shm, Waking};
use weft_sim::SimPort;
use weft_types::{Error, Farewell, PeerId, Result};
use weft_wire::Header;

mod bell;
mod elsewhere;
mod lanes;
mod ways;
mod wrapped;

pub use bell::EngineBell;
pub use wrapped::Wrapped;

/// The ways to other processes.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one per process, and an indirection would be paid by every message"
)]
// An explicit tag is one compare; the niche the compiler would find is six instructions. Those of other nodes come last: what concerns
// them alone is one compare, too.
#[repr(u8)]
pub enum Transports {
    /// A job of one: messages to itself need no transport; the bell is for its threads.
    Alone(LonelyBell),
    /// All processes of the job are on this node.
    Shm(Shm),
    /// A simulated world.
    Sim(SimPort),
    /// Some are on this node, others are not.
    Both(Box<Both>),
    /// No other process of the job is on this node, or all shall be reached like those of other nodes.
    Fabric(Box<Forced>),
    /// Any of these, in layers.
    Wrapped(Box<Wrapped>),
}

/// What is needed to reach the other processes of this node.
#[derive(Debug)]
pub struct NodeLocal {
    /// The file behind the node segment; sized as [`Transports::segment_bytes`] says.
    pub segment: File,
    /// Index of this process among `peers`.
    pub local_index: u32,
    /// The processes of this node, by local index.
    pub peers: Vec<PeerId>,
    /// Whether memory of other processes may be read directly.
    pub single_copy: bool,
    /// Whether more processes than cores share the node.
    pub oversubscribed: bool,
}

impl Transports {
    /// Those of a job of one process.
    pub fn alone() -> Transports {
        Transports::Alone(LonelyBell::default())
    }

    /// Bytes of the node segment for that many processes.
    pub fn segment_bytes(processes: u32) -> u64 {
        weft_shm::segment::bytes(processes)
    }

    /// Joins the node's shared memory, for a job that is on this node alone.
    ///
    /// # Errors
    /// What could not be had, why, and what to do.
    pub fn node_local(node: NodeLocal) -> Result<Transports> {
        node.attach().map(Transports::Shm)
    }

    /// One fabric to all.
    pub fn over(fabric: Fabric) -> Transports {
        Transports::Fabric(Box::new(Forced::new(fabric, None)))
    }

    /// One fabric to all; in the node's shared memory, which carries no messages, the launcher tells of deaths.
    ///
    /// # Errors
    /// As [`Transports::node_local`].
    pub fn forced(node: NodeLocal, fabric: Fabric) -> Result<Transports> {
        Ok(Transports::Fabric(Box::new(Forced::new(fabric, Some(node.attach()?)))))
    }

    /// The node's shared memory to the processes of this node, a fabric to all others.
    ///
    /// # Errors
    /// As [`Transports::node_local`].
    pub fn both(node: NodeLocal, fabric: Fabric) -> Result<Transports> {
        Ok(Transports::Both(Box::new(Both::new(node.attach()?, fabric))))
    }

    /// Whether all these processes are reached by shared memory, so that they share lanes and memory for collectives.
    pub fn are_here(&self, mut peers: impl Iterator<Item = PeerId>) -> bool {
        match self {
            Transports::Alone(_) | Transports::Shm(_) => true,
            Transports::Both(both) => peers.all(|peer| both.shm().is_here(peer)),
            // Everything shall pass through the layers.
            Transports::Fabric(_) | Transports::Sim(_) | Transports::Wrapped(_) => false,
        }
    }

    /// The shared memory of this node, where it is used.
    pub(crate) fn shm(&self) -> Option<&Shm> {
        match self {
            Transports::Shm(shm) => Some(shm),
            Transports::Both(both) => Some(both.shm()),
            Transports::Alone(_) | Transports::Fabric(_) | Transports::Sim(_) | Transports::Wrapped(_) => {
                None
            }
        }
    }

    /// The same, to work with.
    pub(crate) fn shm_mut(&mut self) -> Option<&mut Shm> {
        match self {
            Transports::Shm(shm) => Some(shm),
            Transports::Both(both) => Some(both.shm_mut()),
            Transports::Alone(_) | Transports::Fabric(_) | Transports::Sim(_) | Transports::Wrapped(_) => {
                None
            }
        }
    }

    /// As [`Fabric::device_work`].
    pub(crate) fn device_work(&self) -> (u64, u64) {
        match self {
            Transports::Fabric(forced) => forced.fabric.device_work(),
            Transports::Both(both) => both.fabric().device_work(),
            Transports::Wrapped(wrapped) => wrapped.below().device_work(),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => (0, 0),
        }
    }

    /// Whether one fabric, as it is, leads to all.
    #[inline(always)]
    pub(crate) fn is_fabric(&self) -> bool {
        matches!(self, Transports::Fabric(_))
    }

    /// Looks of a blocked call before it lets others have its core: 20 to 100 us of looks at memory, and about as much where each is a call
    /// of the kernel. What comes later than that costs a change of threads next to what it took.
    pub(crate) fn looks(&self) -> u32 {
        let fabric = match self {
            Transports::Fabric(forced) => &forced.fabric,
            Transports::Both(both) => both.fabric(),
            Transports::Wrapped(wrapped) => return wrapped.below().looks(),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => return LOOKS,
        };
        match (fabric.pause_between_looks().is_zero(), self.is_fabric()) {
            (true, _) => LOOKS,
            (false, true) => LOOKS_BY_CALLS,
            (false, false) => LOOKS_BESIDE_CALLS,
        }
    }

    /// Whether packets of a peer come with [`Transport::progress`] only, so that a second look before it finds nothing.
    #[inline]
    pub fn is_moved_by_progress(&self, peer: PeerId) -> bool {
        match self {
            Transports::Fabric(_) | Transports::Wrapped(_) => true,
            Transports::Both(both) => !both.shm().is_here(peer),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => false,
        }
    }
}

/// See [`Transports::looks`]: where each is one at memory, where each is a call of the kernel, and where some are.
const LOOKS: u32 = 2000;
const LOOKS_BY_CALLS: u32 = 40;
const LOOKS_BESIDE_CALLS: u32 = 400;

impl NodeLocal {
    fn attach(self) -> Result<Shm> {
        let waking = if self.oversubscribed { Waking::Fence } else { Waking::Membarrier };
        Shm::attach(Config {
            file: self.segment,
            local: self.local_index,
            peers: self.peers,
            single_copy: self.single_copy,
            waking,
        })
    }
}

pub(crate) const NONE: Capabilities = Capabilities {
    max_inline: 0,
    max_copy: 0,
    full_copy: 0,
    single_copy: false,
    compared: false,
    latency: 0.0,
    copy_bandwidth: 1.0,
    single_copy_bandwidth: 1.0,
    most_runs: 1,
    remote_run: 0.0,
    local_run: 0.0,
};

impl Transport for Transports {
    type Bell = EngineBell;

    fn capabilities(&self, peer: PeerId) -> Capabilities {
        match self {
            Transports::Alone(_) => NONE,
            Transports::Shm(shm) => shm.capabilities(peer),
            Transports::Fabric(forced) => forced.fabric.capabilities(peer),
            Transports::Both(both) => both.capabilities(peer),
            Transports::Sim(port) => port.capabilities(peer),
            Transports::Wrapped(wrapped) => wrapped.layers.capabilities(peer),
        }
    }

    fn connect(&mut self, peer: PeerId) -> Result<()> {
        match self {
            Transports::Alone(_) => {
                Err(Error::internal(format!("process {} was addressed in a job of one process", peer.0)))
            }
            Transports::Shm(shm) => shm.connect(peer),
            Transports::Fabric(forced) => forced.fabric.connect(peer),
            Transports::Both(both) => both.connect(peer),
            Transports::Sim(port) => port.connect(peer),
            Transports::Wrapped(wrapped) => wrapped.layers.connect(peer),
        }
    }

    #[inline]
    fn send_inline(
        &mut self,
        peer: PeerId,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        match self {
            Transports::Alone(_) => Err(Refused::Dead),
            Transports::Shm(shm) => shm.send_inline(peer, header, payload),
            Transports::Fabric(forced) => forced.fabric.send_inline(peer, header, payload),
            Transports::Both(both) => both.send_inline(peer, header, payload),
            Transports::Sim(port) => port.send_inline(peer, header, payload),
            Transports::Wrapped(wrapped) => wrapped.layers.send_inline(peer, header, payload),
        }
    }

    fn route(&self, peer: PeerId) -> u32 {
        match self {
            Transports::Alone(_) => peer.0,
            Transports::Shm(shm) => shm.route(peer),
            Transports::Fabric(forced) => forced.fabric.route(peer),
            Transports::Both(both) => both.route(peer),
            Transports::Sim(port) => port.route(peer),
            Transports::Wrapped(wrapped) => wrapped.layers.route(peer),
        }
    }

    #[inline(always)]
    fn send_now(&mut self, route: u32, header: Header, payload: &[u8]) -> bool {
        match self {
            Transports::Shm(shm) => shm.send_now(route, header, payload),
            Transports::Fabric(forced) => forced.fabric.send_now(route, header, payload),
            other => other.send_now_elsewhere(route, header, payload),
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
        match self {
            Transports::Shm(shm) => shm.send_copy(peer, header, len, fill),
            other => other.send_copy_elsewhere(peer, header, len, fill),
        }
    }

    #[inline]
    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        match self {
            Transports::Alone(_) => None,
            Transports::Shm(shm) => shm.peek(peer),
            Transports::Fabric(forced) => forced.fabric.peek(peer),
            Transports::Both(both) => both.peek(peer),
            Transports::Sim(port) => port.peek(peer),
            Transports::Wrapped(wrapped) => wrapped.layers.peek(peer),
        }
    }

    #[inline]
    fn advance(&mut self, peer: PeerId) {
        match self {
            Transports::Alone(_) => {}
            Transports::Shm(shm) => shm.advance(peer),
            Transports::Fabric(forced) => forced.fabric.advance(peer),
            Transports::Both(both) => both.advance(peer),
            Transports::Sim(port) => port.advance(peer),
            Transports::Wrapped(wrapped) => wrapped.layers.advance(peer),
        }
    }

    #[inline(always)]
    fn receive<H: Handler>(&mut self, peer: PeerId, handler: H) -> Option<H::Outcome> {
        match self {
            Transports::Shm(shm) => shm.receive(peer, handler),
            other => other.receive_elsewhere(peer, handler),
        }
    }

    #[inline(always)]
    fn is_idle(&self) -> bool {
        match self {
            Transports::Shm(shm) => shm.is_idle(),
            other => other.is_idle_elsewhere(),
        }
    }

    /// Layers and shared memory are looked at each time.
    #[inline]
    fn has_brought(&self) -> bool {
        match self {
            Transports::Fabric(forced) => forced.has_brought(),
            _ => true,
        }
    }

    #[inline(always)]
    fn poll<S: Sink>(&mut self, burst: u32, left: &mut u32, sink: &mut S) -> Option<(PeerId, S::Outcome)> {
        match self {
            Transports::Shm(shm) => shm.poll(burst, left, sink),
            other => other.poll_elsewhere(burst, left, sink),
        }
    }

    #[inline]
    fn ready(&mut self) -> Option<PeerId> {
        match self {
            Transports::Alone(_) => None,
            Transports::Shm(shm) => shm.ready(),
            Transports::Fabric(forced) => forced.fabric.ready(),
            Transports::Both(both) => both.ready(),
            Transports::Sim(port) => port.ready(),
            Transports::Wrapped(wrapped) => wrapped.layers.ready(),
        }
    }

    #[inline]
    fn progress(&mut self) -> bool {
        match self {
            Transports::Shm(shm) => shm.progress(),
            other => other.progress_elsewhere(),
        }
    }

    #[inline]
    fn push_out(&mut self) {
        match self {
            Transports::Shm(_) => {}
            other => other.push_out_elsewhere(),
        }
    }

    #[inline]
    fn lost(&mut self) -> Option<PeerId> {
        match self {
            Transports::Shm(shm) => shm.lost(),
            other => other.lost_elsewhere(),
        }
    }

    fn declare_lost(&mut self, peer: PeerId) {
        match self {
            Transports::Alone(_) => {}
            Transports::Shm(shm) => shm.declare_lost(peer),
            Transports::Fabric(forced) => forced.declare_lost(peer),
            Transports::Both(both) => both.declare_lost(peer),
            Transports::Sim(port) => port.declare_lost(peer),
            Transports::Wrapped(wrapped) => wrapped.layers.declare_lost(peer),
        }
    }

    fn give_up(&mut self, peer: PeerId) {
        self.give_up_way(peer);
    }

    fn has_left(&self) -> bool {
        match self {
            Transports::Alone(_) => true,
            Transports::Shm(shm) => shm.has_left(),
            Transports::Fabric(forced) => forced.fabric.has_left(),
            Transports::Both(both) => both.has_left(),
            Transports::Sim(port) => port.has_left(),
            Transports::Wrapped(wrapped) => wrapped.layers.has_left(),
        }
    }

    fn rest(&mut self) {
        match self {
            Transports::Alone(_) => {}
            Transports::Shm(shm) => shm.rest(),
            Transports::Fabric(forced) => forced.fabric.rest(),
            Transports::Both(both) => both.rest(),
            Transports::Sim(port) => port.rest(),
            Transports::Wrapped(wrapped) => wrapped.layers.rest(),
        }
    }

    fn has_rested(&self) -> bool {
        match self {
            Transports::Alone(_) => true,
            Transports::Shm(shm) => shm.has_rested(),
            Transports::Fabric(forced) => forced.fabric.has_rested(),
            Transports::Both(both) => both.has_rested(),
            Transports::Sim(port) => port.has_rested(),
            Transports::Wrapped(wrapped) => wrapped.layers.has_rested(),
        }
    }

    fn read_remote(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<()> {
        match self {
            Transports::Alone(_) => Err(Error::internal("single copy in a job of one process")),
            Transports::Shm(shm) => shm.read_remote(peer, address, into),
            Transports::Fabric(forced) => forced.fabric.read_remote(peer, address, into),
            Transports::Both(both) => both.read_remote(peer, address, into),
            Transports::Sim(port) => port.read_remote(peer, address, into),
            Transports::Wrapped(wrapped) => wrapped.layers.read_remote(peer, address, into),
        }
    }

    fn write_remote(&mut self, peer: PeerId, address: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Transports::Shm(shm) => shm.write_remote(peer, address, bytes),
            Transports::Both(both) => both.write_remote(peer, address, bytes),
            Transports::Sim(port) => port.write_remote(peer, address, bytes),
            Transports::Alone(_) | Transports::Fabric(_) | Transports::Wrapped(_) => {
                Err(Error::internal("memory that is not reached so was to be written"))
            }
        }
    }

    fn shares_of(&self, peer: PeerId) -> Option<&Shares> {
        match self {
            Transports::Shm(shm) => shm.shares_of(peer),
            Transports::Both(both) => both.shares_of(peer),
            Transports::Sim(port) => port.shares_of(peer),
            Transports::Alone(_) | Transports::Fabric(_) | Transports::Wrapped(_) => None,
        }
    }

    fn shares_for(&self, peer: PeerId) -> Option<&Shares> {
        match self {
            Transports::Shm(shm) => shm.shares_for(peer),
            Transports::Both(both) => both.shares_for(peer),
            Transports::Sim(port) => port.shares_for(peer),
            Transports::Alone(_) | Transports::Fabric(_) | Transports::Wrapped(_) => None,
        }
    }

    fn read_remote_runs(
        &mut self,
        peer: PeerId,
        remote: &[(u64, usize)],
        local: &[&[Cell<u8>]],
    ) -> Result<()> {
        match self {
            Transports::Alone(_) => Err(Error::internal("single copy in a job of one process")),
            Transports::Shm(shm) => shm.read_remote_runs(peer, remote, local),
            Transports::Fabric(forced) => forced.fabric.read_remote_runs(peer, remote, local),
            Transports::Both(both) => both.read_remote_runs(peer, remote, local),
            Transports::Sim(port) => port.read_remote_runs(peer, remote, local),
            Transports::Wrapped(wrapped) => wrapped.layers.read_remote_runs(peer, remote, local),
        }
    }

    fn is_gone(&self, peer: PeerId) -> bool {
        match self {
            Transports::Alone(_) => false,
            Transports::Shm(shm) => shm.is_gone(peer),
            Transports::Fabric(forced) => forced.fabric.is_gone(peer),
            Transports::Both(both) => both.is_gone(peer),
            Transports::Sim(port) => port.is_gone(peer),
            Transports::Wrapped(wrapped) => wrapped.layers.is_gone(peer),
        }
    }

    fn unanswered(&self, peer: PeerId) -> Option<Duration> {
        match self {
            Transports::Fabric(forced) => forced.fabric.unanswered(peer),
            Transports::Both(both) => both.unanswered(peer),
            Transports::Wrapped(wrapped) => wrapped.layers.unanswered(peer),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => None,
        }
    }

    fn set_farewell(&mut self, farewell: Farewell) {
        match self {
            Transports::Alone(_) => {}
            Transports::Shm(shm) => shm.set_farewell(farewell),
            Transports::Fabric(forced) => forced.set_farewell(farewell),
            Transports::Both(both) => both.set_farewell(farewell),
            Transports::Sim(port) => port.set_farewell(farewell),
            Transports::Wrapped(wrapped) => wrapped.layers.set_farewell(farewell),
        }
    }

    fn farewell_of(&self, peer: PeerId) -> Farewell {
        match self {
            Transports::Alone(_) => Farewell::NONE,
            Transports::Shm(shm) => shm.farewell_of(peer),
            Transports::Fabric(forced) => forced.farewell_of(peer),
            Transports::Both(both) => both.farewell_of(peer),
            Transports::Sim(port) => port.farewell_of(peer),
            Transports::Wrapped(wrapped) => wrapped.layers.farewell_of(peer),
        }
    }

    fn has_only_parted(&self) -> bool {
        match self {
            Transports::Alone(_) => false,
            Transports::Shm(shm) => shm.has_only_parted(),
            Transports::Fabric(forced) => forced.has_only_parted(),
            Transports::Both(both) => both.has_only_parted(),
            Transports::Sim(port) => port.has_only_parted(),
            Transports::Wrapped(wrapped) => wrapped.layers.has_only_parted(),
        }
    }

    fn has_ended(&self, peer: PeerId) -> bool {
        match self {
            Transports::Alone(_) | Transports::Fabric(_) => false,
            Transports::Shm(shm) => shm.has_ended(peer),
            Transports::Both(both) => both.has_ended(peer),
            Transports::Sim(port) => port.has_ended(peer),
            Transports::Wrapped(wrapped) => wrapped.layers.has_ended(peer),
        }
    }

    fn zero_copy(&self, peer: PeerId) -> Option<ZeroCopy> {
        match self {
            Transports::Fabric(forced) => forced.fabric.zero_copy(peer),
            Transports::Both(both) => both.zero_copy(peer),
            Transports::Wrapped(wrapped) => wrapped.layers.zero_copy(peer),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => None,
        }
    }

    fn register(&mut self, memory: MemoryRange, access: Access) -> std::result::Result<Region, Unregistered> {
        match self {
            Transports::Fabric(forced) => forced.fabric.register(memory, access),
            Transports::Both(both) => both.register(memory, access),
            Transports::Wrapped(wrapped) => wrapped.layers.register(memory, access),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => Err(Unregistered::Cannot),
        }
    }

    fn deregister(&mut self, region: RegionId) {
        match self {
            Transports::Fabric(forced) => forced.fabric.deregister(region),
            Transports::Both(both) => both.deregister(region),
            Transports::Wrapped(wrapped) => wrapped.layers.deregister(region),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => {}
        }
    }

    fn get(
        &mut self,
        peer: PeerId,
        from: &[RemoteRun],
        into: &[LocalRun],
        token: Token,
    ) -> std::result::Result<(), Refused> {
        match self {
            Transports::Fabric(forced) => forced.fabric.get(peer, from, into, token),
            Transports::Both(both) => both.get(peer, from, into, token),
            Transports::Wrapped(wrapped) => wrapped.layers.get(peer, from, into, token),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => Err(Refused::Dead),
        }
    }

    fn put(
        &mut self,
        peer: PeerId,
        from: &[LocalRun],
        to: &[RemoteRun],
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        match self {
            Transports::Fabric(forced) => forced.fabric.put(peer, from, to, token),
            Transports::Both(both) => both.put(peer, from, to, token),
            Transports::Wrapped(wrapped) => wrapped.layers.put(peer, from, to, token),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => Err(Refused::Dead),
        }
    }

    fn put_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        length: usize,
        fill: F,
        to: RemoteMemory,
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        match self {
            Transports::Fabric(forced) => forced.fabric.put_copy(peer, length, fill, to, token),
            Transports::Both(both) => both.put_copy(peer, length, fill, to, token),
            Transports::Wrapped(wrapped) => wrapped.layers.put_copy(peer, length, fill, to, token),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => Err(Refused::Dead),
        }
    }

    #[inline(always)]
    fn put_now(&mut self, route: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        match self {
            Transports::Fabric(forced) => forced.fabric.put_now(route, bytes, to),
            Transports::Both(both) => both.put_now(route, bytes, to),
            Transports::Wrapped(wrapped) => wrapped.layers.put_now(route, bytes, to),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => false,
        }
    }

    fn atomic(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        match self {
            Transports::Fabric(forced) => forced.fabric.atomic(peer, at, operation, token),
            Transports::Both(both) => both.atomic(peer, at, operation, token),
            Transports::Wrapped(wrapped) => wrapped.layers.atomic(peer, at, operation, token),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => Err(Refused::Dead),
        }
    }

    fn changes_own(&mut self) -> bool {
        match self {
            Transports::Fabric(forced) => forced.fabric.changes_own(),
            Transports::Both(both) => both.changes_own(),
            Transports::Wrapped(wrapped) => wrapped.layers.changes_own(),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => false,
        }
    }

    fn change_own(
        &mut self,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        match self {
            Transports::Fabric(forced) => forced.fabric.change_own(at, operation, token),
            Transports::Both(both) => both.change_own(at, operation, token),
            Transports::Wrapped(wrapped) => wrapped.layers.change_own(at, operation, token),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => Err(Refused::Dead),
        }
    }

    fn flush(&mut self, peer: PeerId, token: Token) -> std::result::Result<(), Refused> {
        match self {
            Transports::Fabric(forced) => forced.fabric.flush(peer, token),
            Transports::Both(both) => both.flush(peer, token),
            Transports::Wrapped(wrapped) => wrapped.layers.flush(peer, token),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => Err(Refused::Dead),
        }
    }

    fn completed(&mut self) -> Option<Completed> {
        match self {
            Transports::Fabric(forced) => forced.fabric.completed(),
            Transports::Both(both) => both.completed(),
            Transports::Wrapped(wrapped) => wrapped.layers.completed(),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => None,
        }
    }

    fn bell(&self) -> EngineBell {
        match self {
            Transports::Alone(bell) => EngineBell::Alone(bell.clone()),
            Transports::Shm(shm) => EngineBell::Shm(shm.bell()),
            Transports::Fabric(forced) => forced.bell().map_or_else(EngineBell::Fabric, EngineBell::Both),
            Transports::Both(both) => EngineBell::Both(both.bell()),
            Transports::Sim(port) => EngineBell::Sim(port.bell()),
            Transports::Wrapped(wrapped) => EngineBell::Wrapped(Box::new(wrapped.layers.bell())),
        }
    }
}
