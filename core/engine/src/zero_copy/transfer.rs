//! One message, or one operation of a window, on its way by the device: pieces posted, some at a time, and their ends counted.

use super::Means;
use super::cache::Lease;
use super::stage::STAGED;
use crate::engine::{Engine, State};
use crate::requests::{Phase, TRANSFERRING};
use std::cell::Cell;
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Outcome, RegionId, RemoteMemory, RemoteRun, TO_BE_READ,
    TO_BE_WRITTEN, Token, ZeroCopy,
};
use weft_api::{Refused, Transport};
use weft_datatype::RecvBuf;
use weft_types::{Error, ErrorClass, PeerId};
use weft_wire::{Header, Kind, RemotePlace};

/// Bytes of a piece: what else goes to the peer waits for one of them at most.
const PIECE: u64 = 256 << 10;
/// Pieces under way at a time.
const DEPTH: u32 = 4;
/// Shortest block in the mean that is worth an entry of a list of runs.
const LEAST_BLOCK: u64 = 512;

/// Bits of a token below the place that a piece is staged in, plus one.
const PLACE: u32 = 32;

/// Which way the bytes go, and where they are here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// Into one run.
    Read(u64),
    /// Into the runs of a layout.
    ReadRuns,
    /// From one registered run.
    Write(u64),
    /// From wherever they are, packed into the transport's buffers.
    WritePacked,
    /// Into registered memory of the engine, and from there to wherever they belong.
    ReadStaged,
    /// One number is changed.
    Change(Atomic),
    /// One number of this process is changed by its own device.
    ChangeOwn(Atomic),
    /// Everything written so far is waited for.
    Flush,
}

impl Way {
    fn changes(self) -> bool {
        matches!(self, Way::Change(_) | Way::ChangeOwn(_))
    }
}

/// Where a transfer goes, and who is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) slot: u32,
    pub(super) peer: PeerId,
    pub(super) way: Way,
    pub(super) there: RemoteMemory,
    pub(super) lease: Option<Lease>,
    pub(super) end: u64,
    /// An operation of a window, of which the peer's engine knows nothing.
    pub(super) one_sided: bool,
}

/// How a transfer is cut into pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    most_runs: usize,
    most_copied: usize,
    /// Whether a packet sent now is seen after what was written.
    ordered: bool,
}

impl Pieces {
    /// Of what is one request, without lists and buffers.
    pub(super) const ONE: Pieces = Pieces { most_runs: 1, most_copied: 0, ordered: false };
}

impl From<&ZeroCopy> for Pieces {
    fn from(can: &ZeroCopy) -> Pieces {
        Pieces { most_runs: can.max_runs, most_copied: can.max_copy, ordered: can.put_before_send }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Transfer {
    slot: u32,
    peer: PeerId,
    way: Way,
    there: RemoteMemory,
    lease: Option<Lease>,
    /// Packed bytes that are posted, and that shall be.
    next: u64,
    end: u64,
    pieces: Pieces,
    outstanding: u32,
    failed: bool,
    /// The receiver has been told that everything is written, or is not to be told.
    told: bool,
    one_sided: bool,
    /// Whether it is among those that wait for room.
    queued: bool,
}

impl Transfer {
    /// Whether it is that request's, and the device has all of it.
    pub(super) fn is_posted(&self, slot: u32) -> bool {
        self.slot == slot && self.next == self.end && !self.failed
    }

    /// Whether it changes a number of that peer: such must be posted in their order.
    fn changes(&self, peer: PeerId) -> bool {
        self.peer == peer && self.way.changes()
    }
}

/// The memory that the first `bytes` of a message take here, with what lies between; `None` when it is too much in pieces.
pub(super) fn range_of(buffer: &mut RecvBuf, bytes: u64) -> Option<MemoryRange> {
    let bytes = usize::try_from(bytes).ok()?;
    match buffer.mean_block() {
        Some(block) if block < LEAST_BLOCK => return None,
        None => {
            let room = buffer.as_mut_slice()?.get(..bytes)?;
            return Some(MemoryRange { address: room.as_ptr() as u64, length: bytes as u64 });
        }
        Some(_) => {}
    }
    let mut runs = Vec::new();
    buffer.list_runs(0, bytes, usize::MAX, &mut runs);
    let ends = |run: &&[Cell<u8>]| (run.as_ptr() as u64, run.as_ptr() as u64 + run.len() as u64);
    let first = runs.iter().map(|run| ends(run).0).min()?;
    let last = runs.iter().map(|run| ends(run).1).max()?;
    Some(MemoryRange { address: first, length: last - first })
}

impl Engine {
    /// Reads an announced message from its sender's memory. False when the own memory cannot be registered, or is too much in
    /// pieces.
    pub(super) fn read_there(
        &mut self,
        slot: u32,
        means: &Means,
        place: RemotePlace,
        range: MemoryRange,
    ) -> bool {
        let request = self.state.requests.at_mut(slot);
        let way = match request.recv_buf().mean_block() {
            None => Way::Read(range.address),
            Some(_) if means.can.max_runs > 1 => Way::ReadRuns,
            Some(_) => return false,
        };
        let (peer, end) = (request.peer, request.wanted);
        let lease = match means.can.local_regions {
            true => match self.lease_for(means, range, TO_BE_WRITTEN) {
                Some(lease) => Some(lease),
                None => return false,
            },
            false => None,
        };
        self.state.requests.at_mut(slot).phase = Phase::Reading;
        let there = RemoteMemory { address: place.address, key: place.key };
        self.begin_transfer(Plan { slot, peer, way, there, lease, end, one_sided: false }, &means.can);
        true
    }

    /// Writes a message into the room that its receiver has offered.
    pub(crate) fn write_there(&mut self, slot: u32) {
        let request = self.state.requests.at_mut(slot);
        request.phase = Phase::Streaming;
        let (peer, end) = (request.peer, request.wanted);
        let place = RemotePlace { address: request.address, key: request.read };
        let address = request.send_buf().contiguous_address();
        let index = self.meet(peer);
        let Some(means) = self.state.peers.at(index).means.as_deref().copied() else {
            return self.broken(peer, "room to write to, where nothing can be written");
        };
        let range = address.map(|address| MemoryRange { address, length: end });
        let lease = match means.can.local_regions {
            true => range.and_then(|range| self.lease_for(&means, range, TO_BE_READ)),
            false => None,
        };
        let way = match address {
            Some(address) if lease.is_some() || !means.can.local_regions => Way::Write(address),
            _ => Way::WritePacked,
        };
        let there = RemoteMemory { address: place.address, key: place.key };
        self.begin_transfer(Plan { slot, peer, way, there, lease, end, one_sided: false }, &means.can);
    }

    pub(super) fn begin_transfer(&mut self, plan: Plan, pieces: impl Into<Pieces>) {
        let Plan { slot, peer, way, there, lease, end, one_sided } = plan;
        let transfer = Transfer {
            slot,
            peer,
            way,
            there,
            lease,
            next: 0,
            end,
            pieces: pieces.into(),
            outstanding: 0,
            failed: false,
            told: one_sided,
            one_sided,
            queued: false,
        };
        self.state.requests.at_mut(slot).flags |= TRANSFERRING;
        let zero = &mut self.state.zero_copies;
        zero.under_way += 1;
        let number = match zero.free.pop() {
            Some(number) => {
                zero.transfers[number as usize] = Some(transfer);
                number
            }
            None => {
                zero.transfers.push(Some(transfer));
                zero.transfers.len() as u32 - 1
            }
        };
        let waits = |&other: &u32| {
            let other = self.state.zero_copies.transfers[other as usize].as_ref();
            other.is_some_and(|other| other.changes(peer))
        };
        if way.changes() && self.state.zero_copies.pushing.iter().any(waits) {
            self.queue(number);
        } else {
            self.push_transfer(number);
        }
    }

    /// A transfer waits for room.
    fn queue(&mut self, number: u32) {
        let zero = &mut self.state.zero_copies;
        if let Some(transfer) = &mut zero.transfers[number as usize] {
            transfer.queued = true;
            zero.pushing.push_back(number);
        }
    }

    /// Posts what waits for room, in turns. Behind one that finds no room others to the same peer are not tried: changes of its
    /// numbers stay in their order, and a thousand that wait cost no thousand tries.
    pub(super) fn push_transfers(&mut self) -> bool {
        let mut moved = false;
        let mut full: Vec<PeerId> = Vec::new();
        for _ in 0..self.state.zero_copies.pushing.len() {
            let Some(number) = self.state.zero_copies.pushing.pop_front() else { break };
            let Some(transfer) = &mut self.state.zero_copies.transfers[number as usize] else { continue };
            transfer.queued = false;
            let peer = transfer.peer;
            if full.contains(&peer) {
                self.queue(number);
                continue;
            }
            moved |= self.push_transfer(number);
            let after = self.state.zero_copies.transfers[number as usize].as_ref();
            if after.is_some_and(|transfer| transfer.queued) {
                full.push(peer);
            }
        }
        moved
    }

    /// Posts pieces of a transfer as long as there is room, and ends it when it is over. True when something was posted.
    pub(super) fn push_transfer(&mut self, number: u32) -> bool {
        let Some(mut transfer) = self.state.zero_copies.transfers[number as usize].take() else {
            return false;
        };
        let begun = transfer.next;
        while transfer.next < transfer.end && transfer.outstanding < DEPTH && !transfer.failed {
            match self.post_piece(&mut transfer, Token(u64::from(number))) {
                Ok(()) => {}
                Err(Refused::Full) => {
                    transfer.queued = true;
                    self.state.zero_copies.pushing.push_back(number);
                    break;
                }
                // Its loss ends the request.
                Err(Refused::Dead) => transfer.failed = true,
            }
        }
        let moved = transfer.next != begun;
        let posted = transfer.next == transfer.end && !transfer.failed;
        if posted && !transfer.told && (transfer.pieces.ordered || transfer.outstanding == 0) {
            self.tell_written(&mut transfer);
        }
        let over = transfer.outstanding == 0 && (posted || transfer.failed);
        match over {
            true => self.end_transfer(number, transfer),
            false => self.state.zero_copies.transfers[number as usize] = Some(transfer),
        }
        moved
    }

    fn post_piece(&mut self, transfer: &mut Transfer, token: Token) -> Result<(), Refused> {
        let start = transfer.next;
        let length = PIECE.min(transfer.end - start);
        let region = transfer.lease.map_or(RegionId(u32::MAX), |lease| lease.region.id);
        let there = |length| RemoteRun { memory: transfer.there.plus(start), length };
        let peer = transfer.peer;
        match transfer.way {
            Way::Read(address) => {
                let here = LocalRun { address: address + start, length, region };
                self.fabric.get(peer, &[there(length)], &[here], token)?;
                transfer.next += length;
            }
            Way::ReadRuns => {
                let buffer = self.state.requests.at_mut(transfer.slot).recv_buf();
                let mut runs = Vec::new();
                let listed =
                    buffer.list_runs(start as usize, length as usize, transfer.pieces.most_runs, &mut runs);
                let here: Vec<LocalRun> = runs
                    .iter()
                    .map(|run| LocalRun { address: run.as_ptr() as u64, length: run.len() as u64, region })
                    .collect();
                self.fabric.get(peer, &[there(listed as u64)], &here, token)?;
                transfer.next += listed as u64;
            }
            Way::Write(address) => {
                let here = LocalRun { address: address + start, length, region };
                self.fabric.put(peer, &[here], &[there(length)], Some(token))?;
                transfer.next += length;
            }
            Way::WritePacked => {
                let length = length.min(transfer.pieces.most_copied as u64);
                let buffer = self.state.requests.at(transfer.slot).send_buf();
                let fill = |room: &mut [u8]| buffer.pack(start as usize, room);
                // The last one tells for all, where somebody must know.
                let last = start + length == transfer.end;
                let tells = transfer.one_sided || last && !transfer.pieces.ordered;
                let token = tells.then_some(token);
                self.fabric.put_copy(peer, length as usize, fill, transfer.there.plus(start), token)?;
                transfer.next += length;
                transfer.outstanding += u32::from(token.is_some());
                return Ok(());
            }
            Way::ReadStaged => {
                let length = length.min(STAGED);
                let (place, here) = self.state.zero_copies.stage.take(start, length).ok_or(Refused::Full)?;
                let token = Token(token.0 | u64::from(place + 1) << PLACE);
                if let Err(refused) = self.fabric.get(peer, &[there(length)], &[here], token) {
                    self.state.zero_copies.stage.give_back(place);
                    return Err(refused);
                }
                transfer.next += length;
            }
            Way::Change(atomic) => {
                self.fabric.atomic(peer, transfer.there, atomic, token)?;
                transfer.next = transfer.end;
            }
            Way::ChangeOwn(atomic) => {
                self.fabric.change_own(transfer.there, atomic, token)?;
                transfer.next = transfer.end;
            }
            Way::Flush => {
                self.fabric.flush(peer, token)?;
                transfer.next = transfer.end;
            }
        }
        transfer.outstanding += 1;
        Ok(())
    }

    /// Everything is written, or will be before the receiver sees this.
    fn tell_written(&mut self, transfer: &mut Transfer) {
        transfer.told = true;
        if matches!(transfer.way, Way::Write(_) | Way::WritePacked) {
            let remote = self.state.requests.at(transfer.slot).remote;
            self.send_control(transfer.peer, Header::control(Kind::Written, remote, transfer.end), &[]);
        }
    }

    /// A piece is over.
    pub(super) fn device_is_done(&mut self, done: Completed) {
        let number = done.token.0 as u32;
        let zero = &mut self.state.zero_copies;
        let Some(Some(transfer)) = zero.transfers.get_mut(number as usize) else { return };
        transfer.outstanding -= 1;
        let (place, queued) = ((done.token.0 >> PLACE) as u32, transfer.queued);
        match done.outcome {
            Outcome::Failed => transfer.failed = true,
            Outcome::Done(_) if place > 0 => {
                let (start, bytes) = zero.stage.bytes(place - 1);
                self.state.requests.at_mut(transfer.slot).recv_buf().unpack(start as usize, &bytes);
            }
            Outcome::Done(found) if transfer.way.changes() => {
                let room = self.state.requests.at_mut(transfer.slot).recv_buf();
                let bytes = found.to_ne_bytes();
                // Nobody wants what an operation without a result found.
                room.unpack(0, &bytes[..room.len().min(bytes.len())]);
            }
            Outcome::Done(_) => {}
        }
        if place > 0 {
            zero.stage.give_back(place - 1);
        }
        if !queued {
            self.push_transfer(number);
        }
    }

    /// The device works on it no more.
    fn end_transfer(&mut self, number: u32, transfer: Transfer) {
        let Transfer { slot, peer, lease, failed, way, end, one_sided, queued, .. } = transfer;
        let zero = &mut self.state.zero_copies;
        zero.free.push(number);
        if queued {
            zero.pushing.retain(|&other| other != number);
        }
        zero.under_way -= 1;
        zero.ended.extend(lease);
        let request = self.state.requests.at_mut(slot);
        request.flags &= !TRANSFERRING;
        if let Some(error) = request.error.take() {
            // Its peer was given up meanwhile.
            return self.state.finish(slot, Some(error));
        }
        if one_sided {
            let own = matches!(way, Way::ChangeOwn(_));
            let gone = failed && !own && self.fabric.is_gone(peer);
            let error = match (failed, gone) {
                (false, _) => None,
                (true, _) if own => Some(own_failed()),
                (true, true) => Some(self.state.lost(peer)),
                (true, false) => Some(denied(peer)),
            };
            self.state.finish(slot, error);
            return if gone {
                self.refused(peer, State::gone(peer))
            };
        }
        if failed {
            return match self.fabric.is_gone(peer) {
                // The device could not reach memory that was named; no other way is more to be trusted.
                false => self.broken(peer, "a place in memory that its device does not allow to be used"),
                true => self.refused(peer, State::gone(peer)),
            };
        }
        if matches!(way, Way::Write(_) | Way::WritePacked) {
            request.moved = end;
            return self.state.finish(slot, None);
        }
        request.moved += end;
        request.phase = Phase::Receiving;
        let taken = Header::control(Kind::Taken, request.remote, 0);
        self.send_control(peer, taken, &[]);
        self.state.end_when_all_is_here(slot);
    }
}

#[cold]
fn own_failed() -> Error {
    Error::new(
        ErrorClass::OTHER,
        "the device of this process failed to change a number of its own window: the connection of the device with itself was lost, \
         or memory of a window was unmapped before MPI_Win_free",
    )
}

#[cold]
fn denied(peer: PeerId) -> Error {
    Error::new(
        ErrorClass::RMA_RANGE,
        format!(
            "the device refused an operation on memory that process {} exposes: was memory of a window unmapped before MPI_Win_free?",
            peer.0
        ),
    )
}
