//! The fabrics of this process joined in one enum, so that every call is static and inlined.

use std::cell::Cell;
use std::fs::File;
use std::net::IpAddr;
use std::time::Duration;
use weft_api::{Bell, Capabilities, Handler, Refused, Sink, Transport};
use weft_rdma::{Directory, Rdma};
use weft_shm::{Config, LonelyBell, Shm, ShmBell, Waking};
use weft_sim::{SimBell, SimPort};
use weft_softroce::{Card, Udp, UdpBell};
use weft_types::{Error, ErrorClass, PeerId, Result};
use weft_wire::Header;

/// The ways to other processes.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one per process, and an indirection would be paid by every message"
)]
#[repr(u8)] // An explicit tag is one compare; the niche the compiler would find is six instructions.
pub enum Transports {
    /// A job of one: messages to itself need no transport; the bell is for its threads.
    Alone(LonelyBell),
    /// All processes of the job are on this node.
    Shm(Shm),
    /// RDMA by the emulator, over UDP.
    Softroce(Box<Rdma<Card<Udp>>>),
    /// A simulated world.
    Sim(SimPort),
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

    /// Joins the node's shared memory.
    ///
    /// # Errors
    /// What could not be had, why, and what to do.
    pub fn node_local(node: NodeLocal) -> Result<Transports> {
        let waking = if node.oversubscribed { Waking::Fence } else { Waking::Membarrier };
        Shm::attach(Config {
            file: node.segment,
            local: node.local_index,
            peers: node.peers,
            single_copy: node.single_copy,
            waking,
        })
        .map(Transports::Shm)
    }

    /// Whether there is more than one lane.
    pub fn has_lanes(&self) -> bool {
        matches!(self, Transports::Alone(_) | Transports::Shm(_))
    }

    /// The same process's end of another lane, for an engine of its own (design section 6). Each lane is opened at most once.
    ///
    /// # Errors
    /// The lane's memory cannot be had; a simulated fabric has no lanes.
    pub fn lane(&self, lane: u32) -> Result<Transports> {
        match self {
            Transports::Alone(bell) => Ok(Transports::Alone(bell.clone())),
            Transports::Shm(shm) => shm.lane(lane).map(Transports::Shm),
            Transports::Softroce(_) | Transports::Sim(_) => {
                Err(Error::internal("a fabric with one lane was asked for another"))
            }
        }
    }
}

impl Transports {
    /// Opens an emulated RDMA device at `address` for process `me`. Also returns how others find it: what their `directory` must
    /// answer.
    ///
    /// # Errors
    /// The socket cannot be had; what the device refused.
    pub fn softroce(
        me: PeerId,
        address: IpAddr,
        directory: Box<dyn Directory>,
    ) -> Result<(Transports, String)> {
        let link_mtu = if address.is_loopback() { LOOPBACK_MTU } else { ETHERNET_MTU };
        let card = Udp::open(address, Some(0), link_mtu).map_err(|error| {
            Error::new(
                ErrorClass::OTHER,
                format!("softroce cannot open a UDP socket at {address}: {error}. Is the network up? See weft-doctor"),
            )
        })?;
        let rdma = Rdma::open(card, me, directory)?;
        let name = rdma.card().to_string();
        Ok((Transports::Softroce(Box::new(rdma)), name))
    }
}

/// What one frame carries on the loopback, and where nothing better is known.
const LOOPBACK_MTU: u32 = 65_536;
const ETHERNET_MTU: u32 = 1_500;

/// What a blocked caller sleeps on while nobody holds the engine.
#[derive(Clone, Debug)]
pub enum EngineBell {
    /// Only this process's own threads ring.
    Alone(LonelyBell),
    /// See [`ShmBell`].
    Shm(ShmBell),
    /// See [`UdpBell`].
    Softroce(UdpBell),
    /// See [`SimBell`].
    Sim(SimBell),
}

const NONE: Capabilities = Capabilities {
    max_inline: 0,
    max_copy: 0,
    single_copy: false,
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
            Transports::Softroce(rdma) => rdma.capabilities(peer),
            Transports::Sim(port) => port.capabilities(peer),
        }
    }

    fn connect(&mut self, peer: PeerId) -> Result<()> {
        match self {
            Transports::Alone(_) => {
                Err(Error::internal(format!("process {} was addressed in a job of one process", peer.0)))
            }
            Transports::Shm(shm) => shm.connect(peer),
            Transports::Softroce(rdma) => rdma.connect(peer),
            Transports::Sim(port) => port.connect(peer),
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
            Transports::Softroce(rdma) => rdma.send_inline(peer, header, payload),
            Transports::Sim(port) => port.send_inline(peer, header, payload),
        }
    }

    fn route(&self, peer: PeerId) -> u32 {
        match self {
            Transports::Alone(_) => peer.0,
            Transports::Shm(shm) => shm.route(peer),
            Transports::Softroce(rdma) => rdma.route(peer),
            Transports::Sim(port) => port.route(peer),
        }
    }

    #[inline(always)]
    fn send_now(&mut self, route: u32, header: Header, payload: &[u8]) -> bool {
        match self {
            Transports::Shm(shm) => shm.send_now(route, header, payload),
            Transports::Softroce(rdma) => rdma.send_now(route, header, payload),
            // Not worth a place in the hottest function of all.
            Transports::Alone(_) | Transports::Sim(_) => false,
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
            Transports::Alone(_) => Err(Refused::Dead),
            Transports::Shm(shm) => shm.send_copy(peer, header, len, fill),
            Transports::Softroce(rdma) => rdma.send_copy(peer, header, len, fill),
            Transports::Sim(port) => port.send_copy(peer, header, len, fill),
        }
    }

    #[inline]
    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        match self {
            Transports::Alone(_) => None,
            Transports::Shm(shm) => shm.peek(peer),
            Transports::Softroce(rdma) => rdma.peek(peer),
            Transports::Sim(port) => port.peek(peer),
        }
    }

    #[inline]
    fn advance(&mut self, peer: PeerId) {
        match self {
            Transports::Alone(_) => {}
            Transports::Shm(shm) => shm.advance(peer),
            Transports::Softroce(rdma) => rdma.advance(peer),
            Transports::Sim(port) => port.advance(peer),
        }
    }

    #[inline(always)]
    fn receive<H: Handler>(&mut self, peer: PeerId, handler: H) -> Option<H::Outcome> {
        match self {
            Transports::Alone(_) => None,
            Transports::Shm(shm) => shm.receive(peer, handler),
            Transports::Softroce(rdma) => rdma.receive(peer, handler),
            Transports::Sim(port) => port.receive(peer, handler),
        }
    }

    #[inline(always)]
    fn is_idle(&self) -> bool {
        match self {
            Transports::Shm(shm) => shm.is_idle(),
            Transports::Alone(_) => true,
            Transports::Softroce(rdma) => rdma.is_idle(),
            Transports::Sim(_) => false,
        }
    }

    #[inline(always)]
    fn poll<S: Sink>(&mut self, burst: u32, left: &mut u32, sink: &mut S) -> Option<(PeerId, S::Outcome)> {
        match self {
            Transports::Alone(_) => None,
            Transports::Shm(shm) => shm.poll(burst, left, sink),
            Transports::Softroce(rdma) => rdma.poll(burst, left, sink),
            Transports::Sim(port) => port.poll(burst, left, sink),
        }
    }

    #[inline]
    fn ready(&mut self) -> Option<PeerId> {
        match self {
            Transports::Alone(_) => None,
            Transports::Shm(shm) => shm.ready(),
            Transports::Softroce(rdma) => rdma.ready(),
            Transports::Sim(port) => port.ready(),
        }
    }

    #[inline]
    fn progress(&mut self) -> bool {
        match self {
            Transports::Alone(_) => false,
            Transports::Shm(shm) => shm.progress(),
            Transports::Softroce(rdma) => rdma.progress(),
            Transports::Sim(port) => port.progress(),
        }
    }

    #[inline]
    fn lost(&mut self) -> Option<PeerId> {
        match self {
            Transports::Alone(_) => None,
            Transports::Shm(shm) => shm.lost(),
            Transports::Softroce(rdma) => rdma.lost(),
            Transports::Sim(port) => port.lost(),
        }
    }

    fn declare_lost(&mut self, peer: PeerId) {
        match self {
            Transports::Alone(_) => {}
            Transports::Shm(shm) => shm.declare_lost(peer),
            Transports::Softroce(rdma) => rdma.declare_lost(peer),
            Transports::Sim(port) => port.declare_lost(peer),
        }
    }

    fn has_left(&self) -> bool {
        match self {
            Transports::Alone(_) => true,
            Transports::Shm(shm) => shm.has_left(),
            Transports::Softroce(rdma) => rdma.has_left(),
            Transports::Sim(port) => port.has_left(),
        }
    }

    fn rest(&mut self) {
        match self {
            Transports::Alone(_) => {}
            Transports::Shm(shm) => shm.rest(),
            Transports::Softroce(rdma) => rdma.rest(),
            Transports::Sim(port) => port.rest(),
        }
    }

    fn read_remote(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<()> {
        match self {
            Transports::Alone(_) => Err(Error::internal("single copy in a job of one process")),
            Transports::Shm(shm) => shm.read_remote(peer, address, into),
            Transports::Softroce(rdma) => rdma.read_remote(peer, address, into),
            Transports::Sim(port) => port.read_remote(peer, address, into),
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
            Transports::Softroce(rdma) => rdma.read_remote_runs(peer, remote, local),
            Transports::Sim(port) => port.read_remote_runs(peer, remote, local),
        }
    }

    fn bell(&self) -> EngineBell {
        match self {
            Transports::Alone(bell) => EngineBell::Alone(bell.clone()),
            Transports::Shm(shm) => EngineBell::Shm(shm.bell()),
            Transports::Softroce(rdma) => EngineBell::Softroce(rdma.bell()),
            Transports::Sim(port) => EngineBell::Sim(port.bell()),
        }
    }
}

impl EngineBell {
    /// Wakes the threads of this process that listen to a lane; see [`ShmBell::ring`]. Simulated ranks have one thread.
    pub fn ring(&self, lane: u32) {
        match self {
            EngineBell::Alone(bell) => bell.ring(lane),
            EngineBell::Shm(bell) => bell.ring(lane),
            EngineBell::Softroce(bell) => bell.ring(),
            EngineBell::Sim(_) => {}
        }
    }

    /// The next arming listens to these lanes, one bit each; without this it is the one lane the bell comes from.
    pub fn listen(&self, lanes: u32) {
        match self {
            EngineBell::Alone(bell) => bell.listen(lanes),
            EngineBell::Shm(bell) => bell.listen(lanes),
            // One lane.
            EngineBell::Softroce(_) | EngineBell::Sim(_) => {}
        }
    }
}

impl Bell for EngineBell {
    fn arm(&self) {
        match self {
            EngineBell::Alone(bell) => bell.arm(),
            EngineBell::Shm(bell) => bell.arm(),
            EngineBell::Softroce(bell) => bell.arm(),
            EngineBell::Sim(bell) => bell.arm(),
        }
    }

    fn sleep(&self, limit: Duration) {
        match self {
            EngineBell::Alone(bell) => bell.sleep(limit),
            EngineBell::Shm(bell) => bell.sleep(limit),
            EngineBell::Softroce(bell) => bell.sleep(limit),
            EngineBell::Sim(bell) => bell.sleep(limit),
        }
    }

    fn disarm(&self) {
        match self {
            EngineBell::Alone(bell) => bell.disarm(),
            EngineBell::Shm(bell) => bell.disarm(),
            EngineBell::Softroce(bell) => bell.disarm(),
            EngineBell::Sim(bell) => bell.disarm(),
        }
    }
}
