//! Memory that windows expose (chapter 12), and operations of others on it, which the owner's engine does not see.
//!
//! ```text
//! owner                                  origin
//! expose: registers; tells address, key
//!                                        put_exposed     ~~~ short: one work request from the transport's own buffers, nothing is awaited
//!                                                        ~~~ long: from registered memory, piece by piece; a request
//!                                        get_exposed     ~~~ short: into registered memory of the engine, then copied; long: in place
//!                                        change_exposed  ~~~ one atomic
//!                                        flush_exposed   ~~~ all short puts before it are visible
//! withdraw
//! ```
//!
//! Invariants: a request ends when its bytes are where they belong and visible to everybody, or cannot be any more; a put that
//! was complete at once is visible when a later flush of its peer has ended, and, where [`Reach::ordered`] says so, to whoever
//! handles a later packet; changes of one peer's numbers are executed in the order of the calls. Nothing here is ordered with
//! anything else.

use super::Lease;
use super::stage::{BYTES, STAGED};
use super::transfer::{Pieces, Plan, Way, range_of};
use crate::engine::Engine;
use crate::requests::{Buffer, Phase};
use crate::types::{RequestId, Started};
use weft_api::verbs::Access;
use weft_api::zero_copy::{
    Atomic, MemoryRange, Region, RegionId, RemoteMemory, TO_BE_READ, TO_BE_WRITTEN, ZeroCopy,
};
use weft_api::{Refused, Transport};
use weft_datatype::{RecvBuf, Scratch, SendBuf};
use weft_types::{Error, PeerId, Result};
use weft_wire::Header;

/// Longest put that is copied although registered memory is kept.
const COPIED: u64 = 4 << 10;

/// What can be done to the memory that a process exposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// [`Engine::put_exposed`] works.
    pub put: bool,
    /// [`Engine::get_exposed`] works.
    pub get: bool,
    /// [`Engine::change_exposed`] works on aligned numbers of eight bytes, where the owner's [`Changes`] allow it.
    pub change: bool,
    /// Packets sent after a put or change are handled after it.
    pub ordered: bool,
}

/// What others may have the device of a process change in the memory that it exposes, and what those changes are atomic towards:
/// the owner says so of its own device, since that executes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Changes {
    /// Nothing: the device has no atomics, they are atomic among themselves alone, or the owner does not wish it.
    #[default]
    None = 0,
    /// Aligned numbers of eight bytes, never while the owner's process executes something: the device works inside its calls.
    InCalls = 1,
    /// Aligned numbers of eight bytes, at any moment, each in one step towards processors too.
    AtAnyMoment = 2,
    /// Aligned numbers of eight bytes, at any moment; each in one step towards others of the device's changes alone, so that the owner
    /// has its own device do it, too ([`Engine::change_own`]).
    Alone = 3,
}

/// What a process wishes others to have its device change in what it exposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wished {
    /// Nothing.
    Nothing,
    /// What costs its own operations on that memory no more than without.
    WhereFree,
    /// Whatever can be had: also [`Changes::Alone`].
    Everywhere,
}

impl Changes {
    /// What a process may offer whose device can so much, and does not reach itself.
    pub const fn of(can: &ZeroCopy) -> Changes {
        match can {
            ZeroCopy { atomics: true, atomic_with_packets: true, .. } => Changes::InCalls,
            ZeroCopy { atomics: true, atomic_with_processors: true, .. } => Changes::AtAnyMoment,
            _ => Changes::None,
        }
    }

    /// As it travels.
    pub const fn from_word(word: u64) -> Changes {
        match word {
            1 => Changes::InCalls,
            2 => Changes::AtAnyMoment,
            3 => Changes::Alone,
            _ => Changes::None,
        }
    }
}

impl Engine {
    /// Registers memory of this process for the operations of others, if a device reaches any of `peers` and takes it; changes of
    /// numbers are among them where that is `wished` and the device's exclude what else the owner does. What is registered for
    /// messages and not in use is given back for it.
    pub fn expose(
        &mut self,
        memory: MemoryRange,
        mut peers: impl Iterator<Item = PeerId>,
        wished: Wished,
    ) -> Option<(Region, Changes)> {
        if memory.length == 0 {
            return None;
        }
        let can = peers.find_map(|peer| self.fabric.zero_copy(peer))?;
        let changes = match (wished, Changes::of(&can)) {
            (Wished::Nothing, _) => Changes::None,
            (Wished::Everywhere, Changes::None) if can.atomics && self.fabric.changes_own() => Changes::Alone,
            (_, changes) => changes,
        };
        let remote_atomic = changes != Changes::None;
        let access = Access { local_write: true, remote_write: true, remote_read: true, remote_atomic };
        self.register_exposed(&can, memory, access).map(|region| (region, changes))
    }

    fn register_exposed(&mut self, can: &ZeroCopy, memory: MemoryRange, access: Access) -> Option<Region> {
        let cache = self.state.zero_copies.cache(can);
        cache.register(memory, access, &mut self.fabric).ok()
    }

    /// Takes exposed memory back. Nobody uses it any more.
    pub fn withdraw(&mut self, region: RegionId) {
        Transport::deregister(&mut self.fabric, region);
    }

    /// Registers memory of this process for steps of a collective on it, as long as the cache has room. Those that are kept and not in
    /// use are given back for it.
    pub(crate) fn lend(&mut self, memory: MemoryRange, access: Access, peer: PeerId) -> Option<Lease> {
        let can = self.fabric.zero_copy(peer)?;
        let cache = self.state.zero_copies.cache(&can);
        cache.lease_alone(memory, access, &mut self.fabric).ok()
    }

    /// What was lent before and rests, if it is good for another time.
    pub(crate) fn lend_again(&mut self, lease: Lease) -> Option<Lease> {
        self.state.zero_copies.cache.as_mut()?.again(lease, &mut self.fabric)
    }

    /// Nobody uses the memory that was lent until it is lent again. Kept where the registration follows what the program maps there, or somebody tells of it.
    pub(crate) fn rest_lent(&mut self, lease: Lease) {
        if let Some(cache) = &mut self.state.zero_copies.cache {
            cache.release(lease, &mut self.fabric);
        }
    }

    /// Takes memory that was lent back. Nobody uses it any more.
    pub(crate) fn take_back_lent(&mut self, lease: Lease) {
        if let Some(cache) = &mut self.state.zero_copies.cache {
            cache.give_back(lease, &mut self.fabric);
        }
    }

    /// Whether the device has all of an operation on exposed memory that has not ended.
    pub(crate) fn is_posted(&self, request: RequestId) -> bool {
        self.exists(request) && self.state.zero_copies.is_posted(request.slot())
    }

    /// What can be done to memory that `peer` exposes; `None`: nothing.
    pub fn reach(&mut self, peer: PeerId) -> Option<Reach> {
        let index = self.meet(peer);
        let can = &self.state.peers.at(index).means.as_ref()?.can;
        Some(Reach { put: can.put, get: can.get, change: can.atomics, ordered: can.put_before_send })
    }

    /// Writes `data` to memory that `peer` exposes. Complete: they are copied; a flush tells when they are there.
    ///
    /// # Errors
    /// `MPI_ERR_PROC_ABORTED` when the peer is gone, `MPI_ERR_NO_MEM` when requests are exhausted.
    pub fn put_exposed(&mut self, peer: PeerId, data: SendBuf, to: RemoteMemory) -> Result<Started> {
        let bytes = data.len() as u64;
        let can = self.means_of(peer)?;
        // Pinning pages for one put must be worth it.
        let pinning = if can.follows_mappings { 0.0 } else { can.registration * can.bandwidth };
        if bytes <= COPIED.max(pinning as u64).min(can.max_copy as u64) {
            let fill = |room: &mut [u8]| data.pack(0, room);
            for looked in [false, true] {
                match self.fabric.put_copy(peer, bytes as usize, fill, to, None) {
                    Ok(()) => return Ok(Started::Complete),
                    Err(Refused::Full) if looked => {}
                    // A row of puts is not to pile up here while the device could take them.
                    Err(Refused::Full) => self.look_at_device(),
                    Err(Refused::Dead) => return Err(self.state.lost(peer)),
                }
            }
            return self.operate(peer, Way::WritePacked, to, None, bytes, Buffer::Send(data), &can);
        }
        let range = data.contiguous_address().map(|address| MemoryRange { address, length: bytes });
        let lease = match can.local_regions {
            true => range.and_then(|range| self.lease(&can, range, TO_BE_READ)),
            false => None,
        };
        let way = match range {
            Some(range) if lease.is_some() || !can.local_regions => Way::Write(range.address),
            _ => Way::WritePacked,
        };
        self.operate(peer, way, to, lease, bytes, Buffer::Send(data), &can)
    }

    /// The number that [`Engine::put_at_once`] takes for a process that was met: it stays the same.
    pub fn peer_number(&self, peer: PeerId) -> Option<u32> {
        self.state.peers.index(peer)
    }

    /// As [`Engine::put_exposed`] of a few bytes that may leave now, for callers that count instructions. False: nothing was
    /// done, and nothing is said about why.
    #[inline(always)]
    pub fn put_at_once(&mut self, peer: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        let peer = self.state.peers.at(peer);
        bytes.len() <= peer.max_put as usize && self.fabric.put_now(peer.route, bytes, to)
    }

    /// Makes what [`Engine::get_exposed`] needs. False: it cannot be had.
    pub fn prepare_gets(&mut self, peer: PeerId) -> bool {
        let index = self.meet(peer);
        let Some(can) = self.state.peers.at(index).means.as_ref().map(|means| means.can) else {
            return false;
        };
        self.register_staging(&can)
    }

    /// Fills `room` from memory that `peer` exposes; after [`Engine::prepare_gets`].
    ///
    /// # Errors
    /// As [`Engine::put_exposed`].
    pub fn get_exposed(&mut self, peer: PeerId, mut room: RecvBuf, from: RemoteMemory) -> Result<Started> {
        let bytes = room.len() as u64;
        let can = self.means_of(peer)?;
        let staged = self.state.zero_copies.stage.is_set();
        // The library's own memory is registered already; long ones are worth their own.
        let range = if staged && bytes <= STAGED { None } else { range_of(&mut room, bytes) };
        let range = range.filter(|_| room.mean_block().is_none() || can.max_runs > 1);
        let lease = match can.local_regions {
            true => range.and_then(|range| self.lease(&can, range, TO_BE_WRITTEN)),
            false => None,
        };
        let way = match range {
            Some(range) if lease.is_some() || !can.local_regions => match room.mean_block() {
                None => Way::Read(range.address),
                Some(_) => Way::ReadRuns,
            },
            _ if staged => Way::ReadStaged,
            _ => return Err(unregistered()),
        };
        self.operate(peer, way, from, lease, bytes, Buffer::Recv(room), &can)
    }

    /// Changes an aligned number of eight bytes in memory that `peer` exposes; what was there goes to `found`, if that has room
    /// for it.
    ///
    /// # Errors
    /// As [`Engine::put_exposed`].
    pub fn change_exposed(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        change: Atomic,
        found: RecvBuf,
    ) -> Result<Started> {
        let can = self.means_of(peer)?;
        self.operate(peer, Way::Change(change), at, None, 8, Buffer::Recv(found), &can)
    }

    /// As [`Engine::change_exposed`], in memory that this very process exposes as [`Changes::Alone`].
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when requests are exhausted; the request's, when its device does not reach itself any more.
    pub fn change_own(&mut self, at: RemoteMemory, change: Atomic, found: RecvBuf) -> Result<Started> {
        let me = self.state.config.me;
        self.operate(me, Way::ChangeOwn(change), at, None, 8, Buffer::Recv(found), Pieces::ONE)
    }

    /// Ends when everything that was put to `peer` is visible there.
    ///
    /// # Errors
    /// As [`Engine::put_exposed`].
    pub fn flush_exposed(&mut self, peer: PeerId) -> Result<Started> {
        let can = self.means_of(peer)?;
        let nowhere = RemoteMemory { address: 0, key: 0 };
        self.operate(peer, Way::Flush, nowhere, None, 1, Buffer::None, &can)
    }

    fn means_of(&mut self, peer: PeerId) -> Result<ZeroCopy> {
        let index = self.contact(peer)?;
        match &self.state.peers.at(index).means {
            Some(means) => Ok(means.can),
            None => {
                Err(Error::internal("an operation on exposed memory of a process that no device reaches"))
            }
        }
    }

    fn register_staging(&mut self, can: &ZeroCopy) -> bool {
        if self.state.zero_copies.stage.is_set() {
            return true;
        }
        let memory = Scratch::new(BYTES);
        let Some(address) = memory.send_buf(0, BYTES).contiguous_address() else { return false };
        let range = MemoryRange { address, length: BYTES as u64 };
        let region = self.register_exposed(can, range, TO_BE_WRITTEN);
        if let Some(region) = region {
            self.state.zero_copies.stage.set(memory, region.id);
        }
        region.is_some()
    }

    /// Takes what the device has finished, and posts what waits for that.
    #[cold]
    fn look_at_device(&mut self) {
        self.fabric.progress();
        self.progress_zero_copies();
        self.fabric.push_out();
    }

    #[expect(clippy::too_many_arguments, reason = "one operation in all its parts")]
    fn operate(
        &mut self,
        peer: PeerId,
        way: Way,
        there: RemoteMemory,
        lease: Option<Lease>,
        bytes: u64,
        buffer: Buffer,
        pieces: impl Into<Pieces>,
    ) -> Result<Started> {
        if self.state.zero_copies.are_many_waiting() {
            self.look_at_device();
        }
        let made = self.state.requests.insert(Phase::Reading, peer, Header::from_words([0, 0]), buffer);
        let slot = match made {
            Ok(slot) => slot,
            Err(error) => {
                self.state.zero_copies.ended.extend(lease);
                return Err(error);
            }
        };
        let request = self.state.requests.at_mut(slot);
        (request.length, request.wanted) = (bytes, bytes);
        let id: RequestId = request.id(slot);
        self.begin_transfer(Plan { slot, peer, way, there, lease, end: bytes, one_sided: true }, pieces);
        Ok(Started::Pending(id))
    }
}

#[cold]
fn unregistered() -> Error {
    Error::new(
        weft_types::ErrorClass::NO_MEM,
        "no memory could be registered for a get: see ulimit -l, and weft-info for the device's limits",
    )
}
