//! The seam between the engine and every fabric.
//!
//! A transport moves *packets*: a 16-byte [`Header`] and up to `max_copy` payload bytes, reliably and in order
//! between two processes. Whatever it cannot take now it refuses with [`Refused::Full`]; it never spins or
//! waits inside. What a transport can do is data ([`Capabilities`]), not code. The engine joins the transports
//! in an enum, so every call here is static and inlined.
//!
//! Flavours: *inline* (tiny, copied at once), *copy* (into a transport buffer, filled by the caller in place),
//! *single copy* (the receiver reads the sender's memory), *zero copy* (get, put and atomics on registered memory, see
//! [`zero_copy`]).
#![forbid(unsafe_code)]

pub mod kit;
pub mod numbers;
pub mod offload;
mod pollable;
mod primitive;
pub mod shares;
pub mod sleepers;
pub mod verbs;
pub mod zero_copy;

pub use pollable::{Bells, Pollable};

use shares::Shares;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::Duration;
use verbs::Access;
use weft_types::{Error, Farewell, PeerId, Result};
use weft_wire::Header;
use zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Region, RegionId, RemoteMemory, RemoteRun, Token, Unregistered,
    ZeroCopy,
};

/// What a transport can do for one peer. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capabilities {
    /// Largest payload of [`Transport::send_inline`].
    pub max_inline: usize,
    /// Largest payload of [`Transport::send_copy`].
    pub max_copy: usize,
    /// The longest such payload that fills packets of the device below, which have a header of ours too: long messages are cut into
    /// these. At most `max_copy`, and equal to it where nothing is cut again.
    pub full_copy: usize,
    /// Whether [`Transport::read_remote`] works for this peer.
    pub single_copy: bool,
    /// Whether a single copy and a stream are two ways through the same memory, of which the time they take decides.
    pub compared: bool,
    /// Model: seconds from a send call to the packet being seen by a polling receiver.
    pub latency: f64,
    /// Model: bytes per second of copied payload with both ends working.
    pub copy_bandwidth: f64,
    /// Model: bytes per second of a single copy.
    pub single_copy_bandwidth: f64,
    /// Scatter-gather entries that one [`Transport::read_remote_runs`] takes on either side; 1: no lists.
    pub most_runs: usize,
    /// Model: seconds for each run of the other side's memory in such a list.
    pub remote_run: f64,
    /// Model: seconds for each run of the own side's memory.
    pub local_run: f64,
}

/// Why a packet was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No room now; try again after progress. Nothing was sent.
    Full,
    /// The peer is gone; nothing will ever be delivered to it.
    Dead,
}

/// A way to packets and back. One instance serves one process (or one simulated rank).
pub trait Transport {
    /// What this transport sleeps on; usable while the engine is not borrowed or locked.
    type Bell: Bell + Clone + Send;

    /// What can be done for `peer`.
    fn capabilities(&self, peer: PeerId) -> Capabilities;

    /// Makes ready to send to `peer` (idempotent; local; called by the engine at first contact).
    ///
    /// # Errors
    /// Resources exhausted, with what ran out and the remedy.
    fn connect(&mut self, peer: PeerId) -> Result<()>;

    /// Sends header and payload of at most `max_inline` bytes.
    ///
    /// # Errors
    /// See [`Refused`].
    fn send_inline(
        &mut self,
        peer: PeerId,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused>;

    /// What [`Transport::send_now`] calls a peer that was connected: the transport's own number for it, so that it is
    /// looked up once.
    fn route(&self, peer: PeerId) -> u32 {
        peer.0
    }

    /// As [`Transport::send_inline`] where that takes no second look at anything: the fast half of the hot path. `route` is
    /// what [`Transport::route`] says of the peer. `false`: nothing was sent, and nothing is said about why; use
    /// [`Transport::send_inline`]. A peer that is gone may still be sent to.
    #[inline]
    fn send_now(&mut self, route: u32, header: Header, payload: &[u8]) -> bool {
        self.send_inline(PeerId(route), header, payload).is_ok()
    }

    /// Sends a packet of `len` payload bytes (at most `max_copy`), which `fill` writes in place.
    ///
    /// `fill` is not called when the packet is refused.
    ///
    /// # Errors
    /// See [`Refused`].
    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused>;

    /// The next packet from `peer`, left in place until [`Transport::advance`]; every call until then shows the same.
    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])>;

    /// Drops the packet that `peek(peer)` showed.
    fn advance(&mut self, peer: PeerId);

    /// Shows the next packet from `peer` to `handler` and drops it when that answers `true`: [`Transport::peek`] and
    /// [`Transport::advance`] with one look at the memory. `None` when there is no packet.
    #[inline]
    fn receive<H: Handler>(&mut self, peer: PeerId, handler: H) -> Option<H::Outcome> {
        let (header, payload) = self.peek(peer)?;
        let (done, result) = handler.handle(header, payload);
        if done {
            self.advance(peer);
        }
        Some(result)
    }

    /// True when it can be seen at a glance that neither [`Transport::progress`], [`Transport::lost`] nor [`Transport::poll`]
    /// would find anything.
    #[inline]
    fn is_idle(&self) -> bool {
        false
    }

    /// False when neither [`Transport::poll`] nor [`Transport::lost`] would find anything before [`Transport::progress`] says that
    /// something moved; for transports whose packets come with it.
    #[inline]
    fn has_brought(&self) -> bool {
        true
    }

    /// Takes packets of everybody who has some, in fair turns, at most `burst` of each and `left` in all (counted down), and
    /// gives each to `sink`. Ends early when the sink breaks off: with the peer of the packet and what the sink said.
    #[inline]
    fn poll<S: Sink>(&mut self, burst: u32, left: &mut u32, sink: &mut S) -> Option<(PeerId, S::Outcome)> {
        while *left > 0 {
            let peer = self.ready()?;
            if let ControlFlow::Break(outcome) = sink.begin(peer) {
                return Some((peer, outcome));
            }
            for _ in 0..burst.min(*left) {
                let Some((header, payload)) = self.peek(peer) else { break };
                let flow = sink.take(header, payload);
                self.advance(peer);
                *left -= 1;
                if let ControlFlow::Break(outcome) = flow {
                    return Some((peer, outcome));
                }
            }
        }
        None
    }

    /// A peer that has a packet waiting, searched fairly; `None` when nothing is there.
    fn ready(&mut self) -> Option<PeerId>;

    /// Whether `peer` has died or left: nothing can be sent to it, and nothing comes from it but what has arrived
    /// already.
    fn is_gone(&self, peer: PeerId) -> bool {
        let _ = peer;
        false
    }

    /// For how long a peer that was never heard has been asked for a way to it; `None`: it has answered, or was not asked. It
    /// may compute before its first call, or the network may drop what is sent to it.
    fn unanswered(&self, peer: PeerId) -> Option<Duration> {
        let _ = peer;
        None
    }

    /// This process has ended MPI, or a part of it, after a loss and without waiting for the others, and said its last words:
    /// whatever it wrote into memory that others share comes before this. It may begin again. Where processes share memory all
    /// see it ([`Transport::lost`]), also those that never met it.
    fn set_farewell(&mut self, farewell: Farewell) {
        let _ = farewell;
    }

    /// What `peer` is known to have left behind: everything when it has left in order, or what it said
    /// ([`Transport::set_farewell`]).
    fn farewell_of(&self, peer: PeerId) -> Farewell {
        let _ = peer;
        Farewell::NONE
    }

    /// Whether `peer` is known to have left in order.
    fn has_ended(&self, peer: PeerId) -> bool {
        let _ = peer;
        false
    }

    /// Whether the process that [`Transport::lost`] named last is not gone, but has said farewell.
    fn has_only_parted(&self) -> bool {
        false
    }

    /// Housekeeping: new connections, timers, retransmission. True when something moved. Called before packets are looked
    /// for.
    fn progress(&mut self) -> bool;

    /// What was taken leaves now, as far as there is room, also where it was kept back for company: the caller may not call again
    /// for long. Called when a turn is over that began with [`Transport::progress`], and by whoever lets calls keep each other
    /// company. What is sent afterwards, before the next progress, leaves at once unless the owner says otherwise.
    #[inline]
    fn push_out(&mut self) {}

    /// A process found to be gone since the last call, each named once, or to have said farewell
    /// ([`Transport::has_only_parted`]); whatever it sent before stays readable.
    fn lost(&mut self) -> Option<PeerId> {
        None
    }

    /// Whether everything that was taken has arrived at its process's end, or never will: what a process waits for before it
    /// ends MPI, since its transport ends with it.
    fn has_left(&self) -> bool {
        true
    }

    /// This process has ended MPI and may not call again for long, or ever: nobody shall wait for its transport. It may still go
    /// on later.
    fn rest(&mut self) {}

    /// Whether everybody who would wait has heard of [`Transport::rest`], or was told often enough: until then the caller goes
    /// on with [`Transport::progress`], half a second at most.
    fn has_rested(&self) -> bool {
        true
    }

    /// Tells everybody that this transport reaches that `peer` (which may be this process) is about to end: they will find it
    /// lost. For a process that aborts some of its job, itself among them.
    fn declare_lost(&mut self, peer: PeerId) {
        let _ = peer;
    }

    /// Somebody else knows that `peer` is gone: nothing is waited for from it any more. It need not be named by
    /// [`Transport::lost`].
    fn give_up(&mut self, peer: PeerId) {
        let _ = peer;
    }

    /// Copies from `peer`'s memory at `address` straight into `into` (single copy).
    ///
    /// # Errors
    /// The kernel or device denied it; the engine then streams instead.
    fn read_remote(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<()> {
        let _ = (peer, address, into);
        Err(Error::internal("single copy was asked of a transport that does not offer it"))
    }

    /// Copies `bytes` straight into `peer`'s memory at `address`, where [`Transport::read_remote`] works.
    ///
    /// # Errors
    /// As [`Transport::read_remote`]; some of the bytes may have been copied. The default cannot.
    fn write_remote(&mut self, peer: PeerId, address: u64, bytes: &[u8]) -> Result<()> {
        let _ = (peer, address, bytes);
        Err(Error::internal("single copy was asked of a transport that does not offer it"))
    }

    /// Where parts of `peer`'s messages are laid out for it to copy them ([`shares`]), where [`Transport::write_remote`] works and it has sent
    /// something.
    fn shares_of(&self, peer: PeerId) -> Option<&Shares> {
        let _ = peer;
        None
    }

    /// Where `peer` lays out parts of our messages, once we are connected.
    fn shares_for(&self, peer: PeerId) -> Option<&Shares> {
        let _ = peer;
        None
    }

    /// Copies runs of `peer`'s memory (address, bytes) onto runs of ours, in order: single copy from layout to layout. Both lists
    /// have the same number of bytes and at most `most_runs` entries. The default reads every piece by itself.
    ///
    /// # Errors
    /// As [`Transport::read_remote`]; some of the bytes may have been copied.
    fn read_remote_runs(
        &mut self,
        peer: PeerId,
        remote: &[(u64, usize)],
        local: &[&[Cell<u8>]],
    ) -> Result<()> {
        let mut piece = Vec::new();
        let mut cells = local.iter().flat_map(|run| run.iter());
        for &(address, len) in remote {
            piece.resize(len, 0);
            self.read_remote(peer, address, &mut piece)?;
            piece.iter().zip(cells.by_ref()).for_each(|(byte, cell)| cell.set(*byte));
        }
        Ok(())
    }

    /// What can be done with registered memory for `peer`; `None`: nothing.
    fn zero_copy(&self, peer: PeerId) -> Option<ZeroCopy> {
        let _ = peer;
        None
    }

    /// Registers memory of this process, for own operations with anybody and for those of others as `access` says. See
    /// [`zero_copy`] for who promises that the memory is there.
    ///
    /// # Errors
    /// See [`Unregistered`].
    fn register(&mut self, memory: MemoryRange, access: Access) -> std::result::Result<Region, Unregistered> {
        let _ = (memory, access);
        Err(Unregistered::Cannot)
    }

    /// Takes a region back. No operation of this process uses it any more; what others try with it fails.
    fn deregister(&mut self, region: RegionId) {
        let _ = region;
    }

    /// Reads runs of `peer`'s memory into own ones, in order: both lists have the same number of bytes, and at most `max_runs`
    /// entries. One call is at most one doorbell. The token comes back when all bytes are here.
    ///
    /// # Errors
    /// See [`Refused`]; then nothing was begun.
    fn get(
        &mut self,
        peer: PeerId,
        from: &[RemoteRun],
        into: &[LocalRun],
        token: Token,
    ) -> std::result::Result<(), Refused> {
        let _ = (peer, from, into, token);
        Err(Refused::Dead)
    }

    /// Writes own runs into runs of `peer`'s memory, in order; as [`Transport::get`] otherwise. With a token it comes back when
    /// all bytes are visible there, and only then may the own memory change. Without one, [`Transport::flush`] tells.
    ///
    /// # Errors
    /// As [`Transport::get`].
    fn put(
        &mut self,
        peer: PeerId,
        from: &[LocalRun],
        to: &[RemoteRun],
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        let _ = (peer, from, to, token);
        Err(Refused::Dead)
    }

    /// Writes `length` bytes (at most `max_copy`), which `fill` writes into a transport's buffer, to one run of `peer`'s memory:
    /// nothing of the caller's need be registered or stay. `fill` is not called when the operation is refused.
    ///
    /// # Errors
    /// As [`Transport::get`].
    fn put_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        length: usize,
        fill: F,
        to: RemoteMemory,
        token: Option<Token>,
    ) -> std::result::Result<(), Refused> {
        let _ = (peer, length, fill, to, token);
        Err(Refused::Dead)
    }

    /// As [`Transport::put_copy`] without a token, of at most [`Capabilities::max_inline`] bytes, where that takes no second
    /// look at anything: the fast half of a short put. `route` is what [`Transport::route`] says of the peer. `false`: nothing
    /// was begun, and nothing is said about why; use [`Transport::put_copy`].
    #[inline]
    fn put_now(&mut self, route: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        let _ = (route, bytes, to);
        false
    }

    /// An atomic operation on an aligned number of eight bytes of `peer`'s memory. The token comes back with what was there.
    ///
    /// # Errors
    /// As [`Transport::get`].
    fn atomic(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        let _ = (peer, at, operation, token);
        Err(Refused::Dead)
    }

    /// Whether [`Transport::change_own`] works: makes what it needs, unless that is there.
    fn changes_own(&mut self) -> bool {
        false
    }

    /// As [`Transport::atomic`], on registered memory of this very process, by the device that executes those of others on it: the two
    /// exclude each other whatever else the device's atomics exclude. Executed in the order of the calls.
    ///
    /// # Errors
    /// As [`Transport::get`]; [`Refused::Dead`] where the device reaches itself no more.
    fn change_own(
        &mut self,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> std::result::Result<(), Refused> {
        let _ = (at, operation, token);
        Err(Refused::Dead)
    }

    /// The token comes back when everything put to `peer` before is visible there.
    ///
    /// # Errors
    /// As [`Transport::get`].
    fn flush(&mut self, peer: PeerId, token: Token) -> std::result::Result<(), Refused> {
        let _ = (peer, token);
        Err(Refused::Dead)
    }

    /// An operation that is over since the last call; looked for after [`Transport::progress`].
    #[inline]
    fn completed(&mut self) -> Option<Completed> {
        None
    }

    /// The bell to sleep on.
    fn bell(&self) -> Self::Bell;
}

/// What [`Transport::receive`] does with a packet. A trait and not a closure, so that an implementation can insist on
/// being inlined into each transport's loop.
pub trait Handler {
    /// What comes of it.
    type Outcome;
    /// Handles a packet that still lies in the transport; answers whether it can go.
    fn handle(self, header: Header, payload: &[u8]) -> (bool, Self::Outcome);
}

/// Where [`Transport::poll`] puts packets.
pub trait Sink {
    /// Why the sink breaks off.
    type Outcome;
    /// The packets that follow come from `peer`. A sink that breaks off here has taken nothing yet.
    fn begin(&mut self, peer: PeerId) -> ControlFlow<Self::Outcome>;
    /// Takes a packet that still lies in the transport; it is dropped afterwards, also when the sink breaks off.
    fn take(&mut self, header: Header, payload: &[u8]) -> ControlFlow<Self::Outcome>;
}

/// Sleeping until a packet may have arrived, without holding the engine.
///
/// Protocol: `arm`, look once more (for packets, and for room where a send was [`Refused::Full`], by sending again), then
/// `sleep`, or `disarm` when something was found. What happens after the second look rings the bell: a packet from
/// anybody, room where it was refused, the death of a peer. A sleep may also end early for no reason.
///
/// One bell serves one thread at a time; threads that sleep side by side take a clone each.
pub trait Bell {
    /// Announces that this process is about to sleep; senders ring from now on.
    fn arm(&self);
    /// Sleeps until rung, at most `limit`. Disarms.
    fn sleep(&self, limit: Duration);
    /// Takes the announcement back.
    fn disarm(&self);
}
