//! The ways between nodes, joined in one enum so that every call is static.
//!
//! A new way is a variant of [`Fabric`] and of [`FabricBell`], one arm in each of the two macros, and a constructor. What it
//! must hold beyond [`Transport`]: its bell is [`Pollable`], so that a process can sleep on it and on shared memory at the same
//! time.

use crate::types::Carrier;
use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use weft_api::verbs::{Access, Hca};
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Region, RegionId, RemoteMemory, RemoteRun, Token, Unregistered,
    ZeroCopy,
};
use weft_api::{Bell, Bells, Capabilities, Handler, Pollable, Refused, Sink, Transport};
use weft_ofi::{Ofi, OfiBell};
use weft_rdma::Rdma;
use weft_softroce::{Card, Udp, UdpBell};
use weft_types::params::Choice as Setting;
use weft_types::{Error, PeerId, Result};
use weft_verbs::{Verbs, VerbsBell};
use weft_wire::Header;

mod limits;
mod open;
mod several;
mod told;

pub use limits::{DeviceLimits, SocketBuffers, rdma_limits};
pub use several::{Guide, Lead, MOST_WAYS, Several, SeveralBells};
pub(crate) use told::costs;
pub use told::{rdma_ports, rdma_routes};

/// A way to processes of other nodes (and of this one, where it is forced).
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one per process")]
#[repr(u8)] // A byte of its own says which: the hottest calls ask it.
pub enum Fabric {
    /// RDMA by the emulator, over UDP.
    Softroce(Rdma<Card<Udp>>),
    /// RDMA by a device of the system.
    Verbs(Rdma<Verbs>),
    /// Whatever libfabric drives.
    Ofi(Ofi),
    /// One of these toward each kind of nodes. Last, and behind a pointer: who has one transport pays nothing for it.
    Several(Box<Several>),
}

/// Tells the compiler that whoever calls it is seldom there, so that the usual way restores no arguments for it. A call of
/// nothing that stays one: of a function that is inlined nothing would be told.
#[cold]
#[inline(never)]
fn rare() {
    std::hint::black_box(());
}

/// `done`, which is usually true.
#[inline(always)]
fn usually(done: bool) -> bool {
    if !done {
        rare();
    }
    done
}

/// What a blocked caller sleeps on.
#[derive(Clone, Debug)]
pub enum FabricBell {
    /// See [`UdpBell`].
    Softroce(Bells<UdpBell>),
    /// See [`VerbsBell`].
    Verbs(Bells<VerbsBell>),
    /// See [`OfiBell`].
    Ofi(OfiBell),
    /// See [`SeveralBells`].
    Several(SeveralBells),
}

/// The same expression for whichever way it is.
macro_rules! each_fabric {
    ($fabric:expr, $way:ident => $work:expr) => {
        match $fabric {
            Fabric::Softroce($way) => $work,
            Fabric::Verbs($way) => $work,
            Fabric::Ofi($way) => $work,
            Fabric::Several($way) => $work,
        }
    };
}

/// The same expression for whichever bell it is.
macro_rules! each_bell {
    ($bell:expr, $way:ident => $work:expr) => {
        match $bell {
            FabricBell::Softroce($way) => $work,
            FabricBell::Verbs($way) => $work,
            FabricBell::Ofi($way) => $work,
            FabricBell::Several($way) => $work,
        }
    };
}

fn ways_of<H: Hca>(rdma: &Rdma<H>, most: usize) -> Vec<(PeerId, String)> {
    rdma.met().take(most).filter_map(|peer| Some((peer, rdma.way(peer)?))).collect()
}

impl Fabric {
    /// Whether somebody may be asked in vain; see [`Fabric::in_vain`].
    #[inline]
    pub(crate) fn asks_in_vain(&self) -> bool {
        match self {
            Fabric::Softroce(rdma) => rdma.asks_in_vain(),
            Fabric::Verbs(rdma) => rdma.asks_in_vain(),
            Fabric::Ofi(_) => false,
            Fabric::Several(several) => several.all().iter().any(Fabric::asks_in_vain),
        }
    }

    /// Those that owe an answer, and were not heard for at least so long: they compute, or no way leads there. What libfabric
    /// drives finds out for itself.
    pub(crate) fn in_vain(&self, least: Duration) -> Vec<(PeerId, Duration)> {
        let least = least.as_nanos() as u64;
        match self {
            Fabric::Softroce(rdma) => rdma.in_vain(least).collect(),
            Fabric::Verbs(rdma) => rdma.in_vain(least).collect(),
            Fabric::Ofi(_) => Vec::new(),
            Fabric::Several(several) => {
                several.all().iter().flat_map(|way| way.in_vain(Duration::from_nanos(least))).collect()
            }
        }
    }

    /// By which addresses a process is asked or reached, in words.
    pub(crate) fn way(&self, peer: PeerId) -> Option<String> {
        match self {
            Fabric::Softroce(rdma) => rdma.way(peer),
            Fabric::Verbs(rdma) => rdma.way(peer),
            Fabric::Ofi(_) => None,
            Fabric::Several(several) => several.toward(peer).way(peer),
        }
    }

    /// Why a peer that was lost cannot be reached, where it is not gone.
    pub(crate) fn why_unreachable(&self, peer: PeerId) -> Option<Error> {
        match self {
            Fabric::Ofi(ofi) => ofi.why_unreachable(peer).cloned(),
            Fabric::Several(several) => several.toward(peer).why_unreachable(peer),
            Fabric::Softroce(_) | Fabric::Verbs(_) => None,
        }
    }

    /// Of everything that processes say to each other over fabrics: they understand nobody of another one.
    pub fn version() -> String {
        format!("{}.{:x}", weft_wire::VERSION, weft_rdma::VERSION)
    }

    /// The name of libfabric's provider, where that drives it.
    pub fn provider(&self) -> Option<String> {
        self.libfabric().map(|ofi| ofi.card().provider.clone())
    }

    /// Sets how many connections there may be before messages to further peers go by datagrams, where there are connections; 0:
    /// chosen.
    pub fn set_connections(&mut self, most: u32) {
        match self {
            Fabric::Softroce(rdma) => rdma.set_connections(most),
            Fabric::Verbs(rdma) => rdma.set_connections(most),
            Fabric::Ofi(_) => {}
            Fabric::Several(several) => {
                several.all_mut().iter_mut().for_each(|way| way.set_connections(most))
            }
        }
    }

    /// Sets whether peers that talk often get rings, where there are connections.
    pub fn set_rings(&mut self, choice: Setting) {
        match self {
            Fabric::Softroce(rdma) => rdma.set_rings(choice),
            Fabric::Verbs(rdma) => rdma.set_rings(choice),
            Fabric::Ofi(_) => {}
            Fabric::Several(several) => several.all_mut().iter_mut().for_each(|way| way.set_rings(choice)),
        }
    }

    /// Sets whether the emulator's short packets may leave in frames of Ethernet.
    pub fn set_frames(&mut self, wanted: bool) {
        match self {
            Fabric::Softroce(rdma) => rdma.hcas_mut().for_each(|card| card.wire_mut().set_frames(wanted)),
            Fabric::Several(several) => several.all_mut().iter_mut().for_each(|way| way.set_frames(wanted)),
            Fabric::Verbs(_) | Fabric::Ofi(_) => {}
        }
    }

    /// Whether messages of several calls may wait for each other; see [`Rdma::keep_company`]. Whether they do.
    pub(crate) fn keep_company(&mut self, keep: bool) -> bool {
        match self {
            Fabric::Softroce(rdma) => {
                rdma.keep_company(keep);
                keep
            }
            Fabric::Ofi(ofi) => ofi.keep_company(keep),
            Fabric::Verbs(_) => false,
            Fabric::Several(several) => {
                several.all_mut().iter_mut().fold(false, |kept, way| way.keep_company(keep) | kept)
            }
        }
    }

    /// What moves its messages.
    pub(crate) fn carrier(&self) -> Carrier {
        match self {
            Fabric::Softroce(_) => Carrier::Emulator,
            Fabric::Ofi(ofi) if ofi.is_by_sockets() => Carrier::Sockets,
            Fabric::Verbs(_) | Fabric::Ofi(_) => Carrier::Device,
            Fabric::Several(several) => several.carrier(),
        }
    }

    /// Whether anything was sent outside of turns since the last one, or since it was pushed out, where messages may wait for each other.
    pub(crate) fn is_in_row(&self) -> bool {
        match self {
            Fabric::Softroce(rdma) => rdma.is_in_row(),
            Fabric::Ofi(ofi) => ofi.is_in_row(),
            Fabric::Verbs(_) => false,
            Fabric::Several(several) => several.all().iter().any(Fabric::is_in_row),
        }
    }

    /// Libfabric, whose providers may run collectives: not where it leads to some of the nodes alone.
    pub(crate) fn libfabric(&self) -> Option<&Ofi> {
        match self {
            Fabric::Ofi(ofi) => Some(ofi),
            Fabric::Softroce(_) | Fabric::Verbs(_) | Fabric::Several(_) => None,
        }
    }

    /// The same, to work with.
    pub(crate) fn libfabric_mut(&mut self) -> Option<&mut Ofi> {
        match self {
            Fabric::Ofi(ofi) => Some(ofi),
            Fabric::Softroce(_) | Fabric::Verbs(_) | Fabric::Several(_) => None,
        }
    }

    /// Whether a device of hardware carries the messages, past the kernel.
    pub fn drives_a_device(&self) -> bool {
        match self {
            Fabric::Softroce(_) => false,
            Fabric::Verbs(rdma) => !rdma.hca().choice().emulated,
            Fabric::Ofi(ofi) => ofi.drives_a_device(),
            Fabric::Several(several) => several.all().iter().all(Fabric::drives_a_device),
        }
    }

    /// Work requests posted so far, and doorbells rung for them; 0 where no such device is.
    pub(crate) fn device_work(&self) -> (u64, u64) {
        let counts = match self {
            Fabric::Softroce(rdma) => rdma.counts(),
            Fabric::Verbs(rdma) => rdma.counts(),
            Fabric::Ofi(_) => return (0, 0),
            Fabric::Several(several) => {
                let all = several.all().iter().map(Fabric::device_work);
                return all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            }
        };
        (counts.requests, counts.doorbells)
    }

    /// In words, how processes are reached that were talked to: at most so many.
    pub(crate) fn ways(&self, most: usize) -> Vec<(PeerId, String)> {
        match self {
            Fabric::Softroce(rdma) => ways_of(rdma, most),
            Fabric::Verbs(rdma) => ways_of(rdma, most),
            Fabric::Ofi(_) => Vec::new(),
            Fabric::Several(several) => {
                several.all().iter().flat_map(|way| way.ways(most)).take(most).collect()
            }
        }
    }

    /// How long shared memory may be looked at alone before this way's turn comes again: nothing where a look is as cheap as
    /// one at memory, about a system call's time where it takes one.
    pub(crate) fn pause_between_looks(&self) -> Duration {
        match self {
            Fabric::Softroce(_) => Duration::from_micros(1),
            // The device writes its completions to memory.
            Fabric::Verbs(_) => Duration::ZERO,
            // Devices write to memory; sockets are system calls.
            Fabric::Ofi(ofi) => {
                if ofi.drives_a_device() {
                    Duration::ZERO
                } else {
                    Duration::from_micros(1)
                }
            }
            // A look is one at all of them.
            Fabric::Several(several) => {
                several.all().iter().map(Fabric::pause_between_looks).max().unwrap_or_default()
            }
        }
    }
}

impl Transport for Fabric {
    type Bell = FabricBell;

    fn capabilities(&self, peer: PeerId) -> Capabilities {
        each_fabric!(self, way => way.capabilities(peer))
    }

    fn connect(&mut self, peer: PeerId) -> Result<()> {
        each_fabric!(self, way => way.connect(peer))
    }

    #[inline]
    fn send_inline(
        &mut self,
        peer: PeerId,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        each_fabric!(self, way => way.send_inline(peer, header, payload))
    }

    fn route(&self, peer: PeerId) -> u32 {
        each_fabric!(self, way => way.route(peer))
    }

    #[inline(always)]
    fn send_now(&mut self, route: u32, header: Header, payload: &[u8]) -> bool {
        usually(each_fabric!(self, way => way.send_now(route, header, payload)))
    }

    #[inline]
    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        each_fabric!(self, way => way.send_copy(peer, header, len, fill))
    }

    #[inline]
    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        each_fabric!(self, way => way.peek(peer))
    }

    #[inline]
    fn advance(&mut self, peer: PeerId) {
        each_fabric!(self, way => way.advance(peer));
    }

    #[inline]
    fn receive<H: Handler>(&mut self, peer: PeerId, handler: H) -> Option<H::Outcome> {
        each_fabric!(self, way => way.receive(peer, handler))
    }

    #[inline]
    fn is_idle(&self) -> bool {
        each_fabric!(self, way => way.is_idle())
    }

    #[inline]
    fn has_brought(&self) -> bool {
        each_fabric!(self, way => way.has_brought())
    }

    #[inline]
    fn poll<S: Sink>(&mut self, burst: u32, left: &mut u32, sink: &mut S) -> Option<(PeerId, S::Outcome)> {
        each_fabric!(self, way => way.poll(burst, left, sink))
    }

    #[inline]
    fn ready(&mut self) -> Option<PeerId> {
        each_fabric!(self, way => way.ready())
    }

    fn is_gone(&self, peer: PeerId) -> bool {
        each_fabric!(self, way => way.is_gone(peer))
    }

    fn unanswered(&self, peer: PeerId) -> Option<Duration> {
        each_fabric!(self, way => way.unanswered(peer))
    }

    #[inline]
    fn progress(&mut self) -> bool {
        each_fabric!(self, way => way.progress())
    }

    #[inline]
    fn push_out(&mut self) {
        each_fabric!(self, way => way.push_out());
    }

    fn lost(&mut self) -> Option<PeerId> {
        each_fabric!(self, way => way.lost())
    }

    fn declare_lost(&mut self, peer: PeerId) {
        each_fabric!(self, way => way.declare_lost(peer));
    }

    fn give_up(&mut self, peer: PeerId) {
        each_fabric!(self, way => way.give_up(peer));
    }

    fn has_left(&self) -> bool {
        each_fabric!(self, way => way.has_left())
    }

    fn rest(&mut self) {
        each_fabric!(self, way => way.rest());
    }

    fn has_rested(&self) -> bool {
        each_fabric!(self, way => way.has_rested())
    }

    fn read_remote(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<()> {
        each_fabric!(self, way => way.read_remote(peer, address, into))
    }

    fn read_remote_runs(
        &mut self,
        peer: PeerId,
        remote: &[(u64, usize)],
        local: &[&[Cell<u8>]],
    ) -> Result<()> {
        each_fabric!(self, way => way.read_remote_runs(peer, remote, local))
    }

    fn zero_copy(&self, peer: PeerId) -> Option<ZeroCopy> {
        each_fabric!(self, way => way.zero_copy(peer))
    }

    fn register(&mut self, memory: MemoryRange, access: Access) -> std::result::Result<Region, Unregistered> {
        each_fabric!(self, way => way.register(memory, access))
    }

    fn deregister(&mut self, region: RegionId) {
        each_fabric!(self, way => way.deregister(region));
    }

    fn get(
        &mut self,
        peer: PeerId,
        from: &[RemoteRun],
        into: &[LocalRun],
        token: Token,
    ) -> std::result::Result<(), Refused> {
        each_fabric!(self, way => way.get(peer, from, into, token))
    }

    fn put(
        &mut self,
        peer: PeerId,
        from: &[LocalRun],
        to: &[RemoteRun],
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        each_fabric!(self, way => way.put(peer, from, to, token))
    }

    fn put_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        length: usize,
        fill: F,
        to: RemoteMemory,
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        each_fabric!(self, way => way.put_copy(peer, length, fill, to, token))
    }

    #[inline(always)]
    fn put_now(&mut self, route: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        usually(each_fabric!(self, way => way.put_now(route, bytes, to)))
    }

    fn atomic(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        each_fabric!(self, way => way.atomic(peer, at, operation, token))
    }

    fn changes_own(&mut self) -> bool {
        each_fabric!(self, way => way.changes_own())
    }

    fn change_own(
        &mut self,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        each_fabric!(self, way => way.change_own(at, operation, token))
    }

    fn flush(&mut self, peer: PeerId, token: Token) -> std::result::Result<(), Refused> {
        each_fabric!(self, way => way.flush(peer, token))
    }

    fn completed(&mut self) -> Option<Completed> {
        each_fabric!(self, way => way.completed())
    }

    fn bell(&self) -> FabricBell {
        match self {
            Fabric::Softroce(rdma) => FabricBell::Softroce(rdma.bell()),
            Fabric::Verbs(rdma) => FabricBell::Verbs(rdma.bell()),
            Fabric::Ofi(ofi) => FabricBell::Ofi(ofi.bell()),
            Fabric::Several(several) => FabricBell::Several(several.bell()),
        }
    }
}

impl FabricBell {
    /// Wakes the threads of this process that sleep on the fabric or are about to.
    pub fn ring(&self) {
        match self {
            FabricBell::Softroce(bells) => bells.first().ring(),
            FabricBell::Verbs(bells) => bells.first().ring(),
            FabricBell::Ofi(bell) => bell.ring(),
            FabricBell::Several(bells) => bells.ring(),
        }
    }
}

impl Bell for FabricBell {
    fn arm(&self) {
        each_bell!(self, bell => bell.arm());
    }

    fn sleep(&self, limit: Duration) {
        each_bell!(self, bell => bell.sleep(limit));
    }

    fn disarm(&self) {
        each_bell!(self, bell => bell.disarm());
    }
}

impl Pollable for FabricBell {
    fn descriptors<'a>(&'a self, list: &mut Vec<BorrowedFd<'a>>) {
        each_bell!(self, bell => bell.descriptors(list));
    }

    fn limit(&self, limit: Duration) -> Duration {
        each_bell!(self, bell => bell.limit(limit))
    }
}
