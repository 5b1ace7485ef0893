//! Receives that find their message here already, and fetching what an announced message does not bring by itself.

use crate::arrive::{Todo, truncated};
use crate::engine::{Engine, pattern};
use crate::layouts::plan;
use crate::messages::Place;
use crate::offers::HELD;
use crate::peers::LeadTarget;
use crate::requests::{Buffer, Phase, TIMED};
use crate::types::{Completion, Early, RequestId, Selector, Status};
use weft_api::Transport;
use weft_datatype::RecvBuf;
use weft_proto::turns::Course;
use weft_proto::{EntryId, ReceivePlan};
use weft_types::{PeerId, Result};
use weft_wire::{Announce, Cts, Header, Kind};

/// Parts ([`crate::EngineConfig::shares_part`]) that are read in a row before others get a turn.
const READ_PARTS: u64 = 16;

impl Engine {
    /// A receive of a message in the unexpected table.
    pub(crate) fn receive_unexpected(
        &mut self,
        entry: EntryId,
        message: u32,
        buffer: RecvBuf,
    ) -> Result<RequestId> {
        let request = self.receive_message(message, buffer)?;
        self.state.unexpected.remove(entry);
        Ok(request)
    }

    /// A receive of a message that no table holds any more.
    pub(crate) fn receive_message(&mut self, message: u32, buffer: RecvBuf) -> Result<RequestId> {
        let found = self.state.messages.at(message);
        let (peer, header, place) = (found.peer, found.header, found.place);
        let slot = self.state.requests.insert(Phase::Receiving, peer, header, Buffer::Recv(buffer))?;
        let request = self.state.requests.id(slot);
        if place == Place::Own {
            self.receive_own(slot, message);
            return Ok(request);
        }
        let found = self.state.messages.at_mut(message);
        let (charged, credit) = (found.charged, found.credit);
        let synchronous = found.synchronous;
        let announce = Announce {
            length: found.length,
            address: found.address,
            request: found.remote,
            lead: found.lead,
        };
        let (scattered, place_there) = (found.scattered.take(), found.place_there);
        let (offered, stamp) = (found.patience.take().is_some(), found.stamp);
        let data = std::mem::take(&mut found.data);
        let whole = data.len() as u64 == announce.length;
        self.state.expect(slot, peer, header, &announce, scattered);
        self.state.expect_place(slot, place_there);
        self.state.place(slot, 0, &data);
        self.state.messages.at_mut(message).data = data;
        self.state.messages.remove(message);
        self.hand_lead_over(peer, (message, stamp), slot, charged);
        self.give_announcement_back(peer, credit);
        if self.state.any_dead && !whole && self.state.is_dead(peer) {
            // The rest died with its sender.
            let error = self.state.lost(peer);
            self.state.finish(slot, Some(error));
            return Ok(request);
        }
        if offered {
            self.take_offered(slot, stamp);
            return Ok(request);
        }
        if whole && stamp != 0 {
            self.tell_time(peer, announce.lead, Course::Packets, stamp);
        }
        match self.state.met(slot, synchronous) {
            Todo::Reply(header) => self.send_control(peer, header, &[]),
            Todo::Fetch(slot) => {
                self.fetch(slot);
                self.read_at_once(slot);
            }
            Todo::Nothing
            | Todo::Meet
            | Todo::Offered { .. }
            | Todo::Took { .. }
            | Todo::Write(_)
            | Todo::Shared(_)
            | Todo::Leave(_)
            | Todo::Broken(_) => {}
        }
        Ok(request)
    }

    /// The lead of a message now belongs to a receive: budget goes back when all of it is here.
    fn hand_lead_over(&mut self, peer: PeerId, (message, stamp): (u32, u64), slot: u32, charged: u32) {
        if peer == self.state.config.me {
            self.state.own_held -= charged;
            return;
        }
        let index = self.meet(peer);
        let peer = self.state.peers.at_mut(index);
        if let Some(lead) = &mut peer.lead
            && lead.target == LeadTarget::Message(message)
        {
            (lead.target, lead.stamp) = (LeadTarget::Request(slot), stamp);
            return;
        }
        if peer.ledger.release(charged) {
            let id = peer.id;
            self.give_credit(id);
        }
    }

    /// The general part of [`Engine::poll_recv`].
    #[inline(never)]
    pub(crate) fn poll_recv_unexpected(&mut self, from: Selector, buffer: &mut RecvBuf) -> Early {
        if self.state.unexpected.is_empty() {
            return Early::Nothing;
        }
        let Some((entry, slot)) = self.state.unexpected.find(pattern(from)) else { return Early::Nothing };
        let message = self.state.messages.at(slot);
        let whole = message.place == Place::Held && message.data.len() as u64 == message.length;
        if !whole || message.synchronous {
            return Early::Post;
        }
        self.state.unexpected.remove(entry);
        let (peer, header, length, charged) = (message.peer, message.header, message.length, message.charged);
        let (credit, stamp) = (message.credit, message.stamp);
        let capacity = buffer.len() as u64;
        let bytes = length.min(capacity);
        buffer.unpack(0, &message.data[..bytes as usize]);
        self.state.messages.remove(slot);
        if peer == self.state.config.me {
            self.state.own_held -= charged;
        } else if self.state.peers.find_mut(peer).is_some_and(|peer| peer.ledger.release(charged)) {
            self.give_credit(peer);
        }
        self.give_announcement_back(peer, credit);
        if stamp != 0 {
            self.tell_time(peer, length as u32, Course::Packets, stamp);
        }
        let error = (length > capacity).then(|| truncated(header, length, capacity));
        let status = Status { source: header.source(), tag: header.tag(), bytes, cancelled: false };
        Early::Received(Completion { status, error })
    }

    /// Decides how the rest of an announced message comes, and lets it come.
    pub(crate) fn fetch(&mut self, slot: u32) {
        let request = self.state.requests.at_mut(slot);
        let id = request.peer;
        let (lead, wanted) = (u64::from(request.lead), request.wanted);
        if wanted <= lead {
            let taken = Header::control(Kind::Taken, request.remote, 0);
            self.send_control(id, taken, &[]);
            return self.state.end_when_all_is_here(slot);
        }
        if self.ends_with_its_sender(slot) {
            return;
        }
        if self.state.peers.find_mut(id).is_some_and(|peer| peer.means.is_some())
            && self.fetch_by_device(slot)
        {
            return;
        }
        let request = self.state.requests.at_mut(slot);
        let readable = request.address != 0 || request.scattered.is_some();
        let theirs = request.scattered.as_ref().map(|scattered| scattered.mean_block());
        let blocks = [theirs, request.recv_buf().mean_block()];
        let index = self.meet(id);
        self.ask_whether_readable(index);
        let peer = self.state.peers.at(index);
        let model = plan(&peer.capabilities, &self.state.config, wanted - lead, readable, blocks);
        let both = peer.is_compared() && readable && blocks == [None; 2] && !self.state.config.oversubscribed;
        self.state.requests.at_mut(slot).entry = 0;
        match if both { self.way_of(index, slot, model) } else { model } {
            ReceivePlan::Stream => self.ask(slot),
            ReceivePlan::SingleCopy => {
                let request = self.state.requests.at_mut(slot);
                request.phase = Phase::Reading;
                request.read = lead;
                self.state.reading.push_back(slot);
            }
        }
    }

    /// Whether the sender has ended MPI without waiting until this was taken: then its memory is its program's again, and
    /// nobody answers.
    fn ends_with_its_sender(&mut self, slot: u32) -> bool {
        let request = self.state.requests.at(slot);
        let (peer, context) = (request.peer, request.header.context());
        let has_left = self.state.has_left(peer, context);
        if has_left {
            self.end_request_of(slot, peer);
        }
        has_left
    }

    /// Asks the sender to stream what does not come by itself.
    fn ask(&mut self, slot: u32) {
        let id = self.state.requests.id(slot).0;
        let request = self.state.requests.at_mut(slot);
        request.phase = Phase::Receiving;
        let header = Header::control(Kind::Cts, request.remote, request.wanted);
        let peer = request.peer;
        if self.ends_with_its_sender(slot) {
            return;
        }
        self.send_control(peer, header, &Cts { request: id }.emit());
    }

    /// Reads some more from senders' memory, and takes meanwhile what they say. True when there was something to read.
    pub(crate) fn read_some(&mut self) -> bool {
        let (mut moved, mut left) = (false, self.read_burst());
        while let Some(read) = self.read_step() {
            (moved, left) = (true, left.saturating_sub(read));
            // What is held is asked about once.
            if left == 0 || self.state.reading.front().is_none_or(|&slot| slot & HELD != 0) {
                break;
            }
            self.take_packets();
        }
        moved
    }

    /// Reads what a receive has met that is just being posted: who posts it may compute next.
    fn read_at_once(&mut self, slot: u32) {
        let mut left = self.read_burst();
        while left > 0 && self.state.requests.at(slot).phase == Phase::Reading {
            let Some(read) = self.read_step() else { break };
            left = left.saturating_sub(read);
        }
    }

    /// Bytes that are read in a row before others get a turn.
    fn read_burst(&self) -> u64 {
        READ_PARTS * u64::from(self.state.config.shares_part)
    }

    /// Reads one part, or of what is not shared some, from a sender's memory: how many bytes. `None`: there is nothing to read.
    fn read_step(&mut self) -> Option<u64> {
        let slot = *self.state.reading.front()?;
        if slot & HELD != 0 {
            self.state.reading.pop_front();
            self.read_held(slot & !HELD);
            return Some(0);
        }
        let peer = self.state.requests.at(slot).peer;
        let most = match self.lay_out(peer, slot) {
            true => u64::from(self.state.config.shares_part),
            false => self.read_burst(),
        };
        if self.state.reading.front() != Some(&slot) {
            // Its sender was found dead.
            return Some(0);
        }
        self.state.reading.pop_front();
        let request = self.state.requests.at_mut(slot);
        let (until, start, address) = (request.read_until(), request.read, request.address);
        let end = until.min(start + most);
        let mut read = 0;
        if start < end {
            let one_run = if request.scattered.is_none() { request.recv_buf().as_mut_slice() } else { None };
            let done = match one_run.and_then(|all| all.get_mut(start as usize..end as usize)) {
                Some(room) => {
                    self.fabric.read_remote(peer, address + start, room).is_ok().then_some(end - start)
                }
                None => self.read_runs(slot, start, end),
            };
            let Some(done) = done else {
                self.cannot_read(slot);
                return Some(0);
            };
            read = done;
            let request = self.state.requests.at_mut(slot);
            request.read = start + read;
            if request.read < until {
                self.state.reading.push_front(slot);
                return Some(read);
            }
        }
        self.read_rest(slot, peer);
        Some(read)
    }

    /// The kernel denies the reading of a message: it is streamed instead, as from now on is everything of this peer.
    #[cold]
    pub(crate) fn cannot_read(&mut self, slot: u32) {
        let index = self.meet(self.state.requests.at(slot).peer);
        let peer = self.state.peers.at_mut(index);
        peer.unreadable = true;
        peer.capabilities.single_copy = false;
        if self.state.requests.at(slot).flags & TIMED != 0 {
            self.state.way_has_ended(slot, false);
        }
        self.state.reading.retain(|&reading| reading != slot);
        self.unshare(slot);
        self.ask(slot);
    }
}
