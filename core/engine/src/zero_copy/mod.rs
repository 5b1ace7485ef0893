//! Announced messages that devices move: from the sender's memory into the receiver's, without a copy by either.
//!
//! ```text
//! by read    sender                          receiver
//!            Rts + place of its memory ----> registers its room
//!                                       <~~~ reads, several pieces at a time
//!            complete                   <--- Taken
//!
//! by write   Rts --------------------------> registers its room
//!            registers its memory       <--- Cts + place of the room
//!            writes ~~~~~~~~~~~~~~~~~~~~~~>
//!            Written ----------------------> complete
//! ```
//!
//! Windows use the same machinery without the peer's engine: [`exposed`].
//!
//! By write also travels what the sender cannot register, or what lies there with gaps: packed piece by piece into the
//! transport's buffers and written from those. What the receiver cannot register is streamed, as always. Which way a peer's
//! messages go, from which size on, is decided when it is met ([`weft_proto::rendezvous`]).
//!
//! Invariants: registered memory is leased from the cache as long as a request holds it ([`LEASED`]); a request that a device
//! works on ([`TRANSFERRING`]) does not end before the device has said so, or its transport has let go of the peer.

pub(crate) mod cache;
mod exposed;
mod keeping;
mod stage;
mod transfer;

pub(crate) use cache::Lease;
pub use exposed::{Changes, Reach, Wished};
pub(crate) use keeping::can_be_kept;

use crate::engine::{Engine, State};
use crate::peers::Peer;
use crate::requests::{KEYED, LEASED, READS};
use crate::transports::Transports;
use cache::{Cache, Registrar};
use stage::Stage;
use std::collections::{HashMap, VecDeque};
use transfer::Transfer;
use weft_api::Transport;
use weft_api::verbs::Access;
use weft_api::zero_copy::{MemoryRange, Region, RegionId, TO_BE_READ, TO_BE_WRITTEN, Unregistered, ZeroCopy};
use weft_proto::RendezvousPlan;
use weft_types::PeerId;
use weft_wire::{Cts, Header, Kind, RemotePlace};

/// Most that the cache keeps registered, where the device would take more: regions, and bytes.
pub(crate) const MOST_REGIONS: usize = 1024;
const MOST_BYTES: u64 = 4 << 30;

/// What a peer's device can do, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means {
    pub(crate) can: ZeroCopy,
    pub(crate) plan: RendezvousPlan,
    /// Bytes of the shortest message that pays for the registration of its memory alone.
    pub(crate) alone: u64,
}

/// What is under way, and the memory that is registered for it.
#[derive(Debug, Default)]
pub(crate) struct ZeroCopies {
    cache: Option<Cache>,
    transfers: Vec<Option<Transfer>>,
    free: Vec<u32>,
    /// Transfers with something to post.
    pushing: VecDeque<u32>,
    /// What requests hold that no transfer works on: announced memory, offered room.
    leases: HashMap<u32, Lease>,
    /// Leases that have ended.
    ended: Vec<Lease>,
    /// The program frees requests before they end (`MPI_Request_free`): what they hold may be other memory before they have.
    pub(crate) frees_active: bool,
    /// Transfers that are not over.
    under_way: usize,
    /// Where short gets of windows arrive.
    stage: Stage,
    /// Memory that devices pin stays registered as long as nothing tells that it has changed.
    keeps_pinned: bool,
}

impl ZeroCopies {
    /// Whether progress has something to look at.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.under_way > 0 || !self.ended.is_empty() || self.cache.as_ref().is_some_and(Cache::has_news)
    }

    /// Whether so many operations wait for room that it is worth a look whether there is some.
    pub(crate) fn are_many_waiting(&self) -> bool {
        self.pushing.len() >= 64
    }

    /// Whether everything of a request's transfer is posted.
    fn is_posted(&self, slot: u32) -> bool {
        self.transfers.iter().flatten().any(|transfer| transfer.is_posted(slot))
    }

    /// A request that held registered memory has ended.
    pub(crate) fn request_ended(&mut self, slot: u32) {
        self.ended.extend(self.leases.remove(&slot));
    }
}

impl Registrar for Transports {
    fn register(&mut self, range: MemoryRange, access: Access) -> Result<Region, Unregistered> {
        Transport::register(self, range, access)
    }

    fn deregister(&mut self, region: RegionId) {
        Transport::deregister(self, region);
    }
}

impl Peer {
    /// Whether a message of that length travels by the device, if `read` by the receiver's reading.
    fn goes_by(&self, length: u64, read: bool) -> bool {
        self.means.as_ref().is_some_and(|means| {
            length >= means.plan.least && if read { means.plan.read } else { means.plan.write }
        })
    }

    /// Whether a message of that length may travel by the device, so that nothing of it is sent along with its announcement.
    pub(crate) fn is_moved_by_device(&self, length: u64) -> bool {
        self.goes_by(length, true) || self.goes_by(length, false)
    }
}

impl Engine {
    /// What can be done with a peer that is met, by its transport's capabilities and the model.
    pub(crate) fn means(&mut self, id: PeerId) -> Option<Box<Means>> {
        let can = self.fabric.zero_copy(id)?;
        let capabilities = self.fabric.capabilities(id);
        let kept = self.state.zero_copies.cache(&can).keeps();
        let said = self.state.config.rendezvous;
        let plan_if = |kept| {
            let costs = crate::fabric::costs(&can, &capabilities, kept);
            weft_proto::rendezvous::choose(said, &costs)
        };
        let plan = plan_if(kept);
        // What is used as often as the device likes is worth it always.
        let alone = if can.follows_mappings { plan.least } else { plan_if(false).least };
        Some(Box::new(Means { can, plan, alone }))
    }

    /// Registers memory for an operation of a window, or finds it registered.
    fn lease(&mut self, means: &ZeroCopy, range: MemoryRange, access: Access) -> Option<Lease> {
        self.lease_from(means, 0, range, access)
    }

    /// Registers memory for a message, or finds it registered. `None` also where it does not pay.
    fn lease_for(&mut self, means: &Means, range: MemoryRange, access: Access) -> Option<Lease> {
        self.lease_from(&means.can, means.alone, range, access)
    }

    /// Registers memory of at least `alone` bytes, or of fewer that is used again and again, or finds it registered.
    fn lease_from(
        &mut self,
        means: &ZeroCopy,
        alone: u64,
        range: MemoryRange,
        access: Access,
    ) -> Option<Lease> {
        // What has ended since the last progress is not to be found: the program may have given that memory back, and have other at its address.
        self.end_leases();
        let zero = &mut self.state.zero_copies;
        let frees_active = zero.frees_active;
        let cache = zero.cache(means);
        if frees_active {
            cache.share_no_more();
        }
        if range.length < alone && !cache.is_worth_it(range, &mut self.fabric) {
            return None;
        }
        cache.lease(range, access, &mut self.fabric).ok()
    }

    fn end_leases(&mut self) {
        let zero = &mut self.state.zero_copies;
        if let Some(cache) = &mut zero.cache {
            zero.ended.drain(..).for_each(|lease| cache.release(lease, &mut self.fabric));
        }
    }

    /// The place that the announcement of a send names, when it is to be announced and the receiver shall read it there: its
    /// memory is registered from now on.
    pub(crate) fn place_to_read(&mut self, index: u32, slot: u32) -> Option<RemotePlace> {
        let peer = self.state.peers.at(index);
        let request = self.state.requests.at(slot);
        let in_row = request.flags & READS != 0;
        let announced = in_row
            || request.length > u64::from(peer.limits.eager)
            || weft_proto::charge(request.length as u32) > peer.window.left();
        if request.length == 0 || !announced || !(in_row || peer.goes_by(request.length, true)) {
            return None;
        }
        let address = request.send_buf().contiguous_address()?;
        let lease = match self.state.zero_copies.leases.get(&slot) {
            Some(&lease) => lease,
            None => {
                let means = **peer.means.as_ref()?;
                let range = MemoryRange { address, length: request.length };
                let lease = self.lease_for(&means, range, TO_BE_READ)?;
                self.state.zero_copies.leases.insert(slot, lease);
                self.state.requests.at_mut(slot).flags |= LEASED;
                lease
            }
        };
        Some(place_of(&lease, address))
    }

    /// Fetches an announced message by the device. False when it must come another way.
    pub(crate) fn fetch_by_device(&mut self, slot: u32) -> bool {
        let request = self.state.requests.at_mut(slot);
        let (peer, wanted, keyed) = (request.peer, request.wanted, request.flags & KEYED != 0);
        if request.lead > 0 || wanted == 0 {
            return false;
        }
        let place = RemotePlace { address: request.address, key: request.read };
        let Some(range) = transfer::range_of(request.recv_buf(), wanted) else { return false };
        let index = self.meet(peer);
        let peer = self.state.peers.at_mut(index);
        let Some(means) = peer.means.as_deref().copied() else { return false };
        if keyed && means.can.get {
            return self.read_there(slot, &means, place, range);
        }
        let offers = peer.goes_by(self.state.requests.at(slot).length, false);
        if !offers || self.state.requests.at_mut(slot).recv_buf().mean_block().is_some() {
            return false;
        }
        let Some(lease) = self.lease_for(&means, range, TO_BE_WRITTEN) else { return false };
        let zero = &mut self.state.zero_copies;
        zero.leases.insert(slot, lease);
        let id = self.state.requests.id(slot).0;
        let request = self.state.requests.at_mut(slot);
        request.flags |= LEASED;
        let mut payload = [0; Cts::BYTES + RemotePlace::BYTES];
        payload[..Cts::BYTES].copy_from_slice(&Cts { request: id }.emit());
        place_of(&lease, range.address).put(&mut payload);
        let header = Header::control(Kind::Cts, request.remote, wanted).with_flags(Cts::INTO);
        let peer = request.peer;
        self.send_control(peer, header, &payload);
        true
    }

    /// Takes what devices have finished, posts what waits for room, and gives back what nobody uses. True when something
    /// happened.
    #[cold]
    #[inline(never)]
    pub(crate) fn progress_zero_copies(&mut self) -> bool {
        let mut moved = false;
        while let Some(done) = self.fabric.completed() {
            self.device_is_done(done);
            moved = true;
        }
        moved |= self.push_transfers();
        self.end_leases();
        if let Some(cache) = self.state.zero_copies.cache.as_mut().filter(|cache| cache.has_news()) {
            cache.sweep(&mut self.fabric);
        }
        moved
    }

    /// Registered regions found, made and given back so far, for tests and people.
    pub fn registrations(&self) -> [u64; 3] {
        let counts = self.state.zero_copies.cache.as_ref().map(|cache| cache.counts).unwrap_or_default();
        [counts.hits, counts.registered, counts.given_back]
    }

    /// Regions that are registered now for other ranks' steps of collectives, in use or kept for the next start.
    pub fn lent(&self) -> usize {
        self.state.zero_copies.cache.as_ref().map_or(0, Cache::alone)
    }
}

impl State {
    /// The sender has written what was asked for into our memory.
    pub(crate) fn written(&mut self, index: u32, header: Header) -> crate::arrive::Todo {
        use crate::arrive::Todo;
        let peer = self.peers.at(index).id;
        let slot = self.requests.find(header.id()).filter(|&slot| {
            let request = self.requests.at(slot);
            request.phase == crate::requests::Phase::Receiving
                && request.peer == peer
                && request.flags & LEASED != 0
                && request.wanted == header.value()
        });
        let Some(slot) = slot else { return Todo::Broken("word of data in memory that nobody offered") };
        self.requests.at_mut(slot).moved += header.value();
        self.end_when_all_is_here(slot);
        Todo::Nothing
    }
}

/// What another process must say to reach `address`, which lies in the leased region.
fn place_of(lease: &Lease, address: u64) -> RemotePlace {
    let remote = lease.region.remote;
    RemotePlace { address: remote.address.wrapping_add(address - lease.begins_at()), key: remote.key }
}
