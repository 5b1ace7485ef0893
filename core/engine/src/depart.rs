//! Messages and packets on their way out.
//!
//! Per peer there is one queue of matching-relevant and control packets, kept in order, and one list of streams
//! (data that a receiver asked for), which flow when the queue is empty. Invariants: the peer's window is shut
//! exactly while its queue is not empty or it cannot be sent to; a peer with a queue or streams is in `busy`.

use crate::engine::{Engine, State};
use crate::peers::Outgoing;
use crate::requests::{ANSWERED, Buffer, CANCEL_ASKED, Phase, READS, SYNCHRONOUS, TAKEN};
use crate::types::{Envelope, SendMode, Started};
use weft_api::{Refused, Transport};
use weft_datatype::SendBuf;
use weft_proto::choice::SendLimits;
use weft_proto::{
    EAGER_MOST, SendPlan, announcements, charge, piece, piece_with_gaps, plan_send, sender_budget,
    single_with_gaps,
};
use weft_types::{PeerId, Result};
use weft_wire::{Announce, Header, Kind, RemotePlace, SmallPacket, SyncPrefix};

/// Packets of one stream pushed before others get a turn.
const STREAM_BURST: u32 = 16;

/// Largest message sent in one packet. In two or more it would not be faster, and streams of such messages are slower.
pub(crate) const SINGLE_PACKET: u32 = 32 << 10;

/// Sends, matched receives and reads under way, to and from anybody, also those that lie still, with which the lead of an announced
/// message still fills time that would be lost: itself and one more, as where two exchange one message each. While others move anyway, leads of a whole window would go out before
/// anything is read, and all that memory comes back from the other core's cache.
const ALONE: usize = 2;

/// What became of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It has left.
    Yes,
    /// No room.
    Full,
    /// The receiver has enough announcements, or older messages of the channel are held back.
    Held,
    /// The peer is gone, and everything that depended on it has ended.
    Dead,
}

impl Engine {
    /// A send that is not tiny, not contiguous, not standard, or not possible at once: the rest of [`Engine::send`] after
    /// [`Engine::send_at_once`] said no.
    ///
    /// # Errors
    /// As [`Engine::send`].
    #[inline(never)]
    pub fn send_general(&mut self, to: Envelope, mode: SendMode, buffer: SendBuf) -> Result<Started> {
        let header = Header::new(Kind::Eager, to.context, to.source, to.tag);
        if to.peer == self.state.config.me {
            return self.send_to_self(header, mode, buffer);
        }
        if self.state.has_left(to.peer, to.context) {
            return Err(State::parted(to.peer));
        }
        let length = buffer.len();
        self.look_for_credit(to.peer, length);
        let index = self.contact(to.peer)?;
        let reads = mode != SendMode::Synchronous && self.state.is_read_in_row(index, &buffer);
        let is_long = length >= self.state.config.offers_from as usize;
        let buffer = match is_long && mode != SendMode::Synchronous && !reads {
            false => buffer,
            true => match self.send_in_turn(to, buffer) {
                Ok(started) => return started,
                Err(buffer) => buffer,
            },
        };
        let tried =
            is_long && mode != SendMode::Synchronous && !reads && self.is_tried_in_row(index, &buffer);
        let peer = self.state.peers.at_mut(index);
        if mode != SendMode::Synchronous
            && !reads
            && length <= limits_for(&peer.limits, &buffer).single as usize
            && charge(length as u32) <= peer.window.open()
            && self.fabric.send_copy(to.peer, header, length, |out| buffer.pack(0, out)).is_ok()
        {
            peer.window.spend_open(charge(length as u32));
            if is_long {
                self.long_has_left(to.peer, length);
            }
            return Ok(Started::Complete);
        }
        if mode != SendMode::Synchronous
            && !reads
            && length > peer.limits.single as usize
            && !tried
            && !self.is_announced_in_row(index, length as u64)
            && let Some(bytes) = buffer.plain()
            && let piece = piece(length as u64, &self.state.peers.at(index).limits) as usize
            && let Some(moved) = self.send_pieces(to, bytes, piece)
        {
            return if moved == length { Ok(Started::Complete) } else { self.send_on(to, buffer, moved) };
        }
        let slot = self.state.requests.insert(Phase::Queued, to.peer, header, Buffer::Send(buffer))?;
        let request = self.state.requests.at_mut(slot);
        request.length = length as u64;
        if mode == SendMode::Synchronous {
            request.flags |= SYNCHRONOUS;
        }
        if reads || tried {
            request.flags |= READS;
        }
        self.leave(index, slot)
    }

    /// Sends what can leave now of a new request, which is gone when that is all.
    ///
    /// # Errors
    /// The peer is gone.
    pub(crate) fn leave(&mut self, index: u32, slot: u32) -> Result<Started> {
        let sent = match self.state.peers.at(index).queue.is_empty() {
            true => self.transmit(index, slot),
            false => Sent::Full,
        };
        match sent {
            Sent::Yes | Sent::Dead => {}
            Sent::Full => self.state.enqueue(index, Outgoing::Message(slot)),
            Sent::Held => self.state.hold(index, slot),
        }
        if self.state.requests.at(slot).phase == Phase::Complete {
            let error = self.state.requests.at_mut(slot).error.take();
            self.state.requests.remove(slot);
            return error.map_or(Ok(Started::Complete), Err);
        }
        Ok(Started::Pending(self.state.requests.id(slot)))
    }

    /// Takes what the peer has sent, when the budget for a message of `length` bytes is used up: it may have given budget
    /// back. A program that only sends would otherwise never see that, and announce every small message.
    fn look_for_credit(&mut self, id: PeerId, length: usize) {
        if let Some(peer) = self.state.peers.find_mut(id)
            && length <= peer.limits.eager as usize
            && charge(length as u32) > peer.window.left()
        {
            self.drain(id);
        }
    }

    /// Index of a peer that can be sent to; makes ready to send at first contact.
    ///
    /// # Errors
    /// The peer is gone, or the transport's resources are exhausted.
    pub(crate) fn contact(&mut self, id: PeerId) -> Result<u32> {
        let index = self.meet(id);
        let peer = self.state.peers.at_mut(index);
        if peer.connected && !peer.dead {
            return Ok(index);
        }
        if peer.dead {
            return Err(self.state.absence(id));
        }
        if !self.fabric.is_known(id) {
            // It is asked: what is to leave is refused as if there were no room, and waits (see `push`).
            return Ok(index);
        }
        self.fabric.connect(id)?;
        peer.route = self.fabric.route(id);
        peer.connected = true;
        if peer.means.as_ref().is_some_and(|means| means.can.put) {
            peer.max_put = peer.capabilities.max_inline.min(u32::MAX as usize) as u32;
        }
        peer.reopen();
        Ok(index)
    }

    /// Something waits for this process: its end shall be noticed, also where nothing was ever sent to it, so the way there is
    /// made. A way that cannot be made is told to whoever sends.
    pub fn mind(&mut self, id: PeerId) {
        if id != self.state.config.me {
            let _ = self.contact(id);
        }
    }

    /// Index of a peer, remembered from now on.
    #[inline]
    pub(crate) fn meet(&mut self, id: PeerId) -> u32 {
        match self.state.peers.index(id) {
            Some(index) => index,
            None => self.meet_first(id),
        }
    }

    #[cold]
    #[inline(never)]
    fn meet_first(&mut self, id: PeerId) -> u32 {
        let config = &self.state.config;
        let budget = sender_budget(config.eager_budget_per_sender, config.eager_budget_total, config.size);
        let eager = config.eager_limit.min(EAGER_MOST);
        let announcements = match config.announcements_per_sender {
            0 => announcements(budget),
            number => number,
        };
        let index = self.state.peers.insert(id, budget, announcements, self.fabric.capabilities(id));
        let peer = self.state.peers.at_mut(index);
        peer.limits.eager = eager;
        peer.limits.single = eager.min(SINGLE_PACKET);
        peer.limits.lead = eager / 2;
        peer.limits.piece = config.piece.max(1024);
        peer.max_inline = peer.max_inline.min(eager);
        self.state.peers.at_mut(index).means = self.means(id);
        index
    }

    /// Sends a control packet of at most 24 payload bytes, now or in its turn.
    pub(crate) fn send_control(&mut self, id: PeerId, header: Header, payload: &[u8]) {
        let index = match self.contact(id) {
            Ok(index) => index,
            // Budget for a process that has left in order is of no use to anybody, and no sign of failure.
            Err(_) if header.kind() == Some(Kind::Credit) => return,
            Err(error) => return self.refused(id, error),
        };
        if !self.state.peers.at(index).queue.is_empty()
            || self.send_packet(index, header, payload) == Sent::Full
        {
            let packet = SmallPacket::new(header, payload);
            self.state.enqueue(index, Outgoing::Packet(packet));
        }
    }

    /// Gives back eager budget that is due.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_credit(&mut self, id: PeerId) {
        let index = self.meet(id);
        let peer = self.state.peers.at_mut(index);
        let bytes = peer.ledger.collect();
        let announcements = if peer.announced.is_due() { peer.announced.collect() } else { 0 };
        if bytes > 0 || announcements > 0 {
            let value = u64::from(announcements) << 32 | u64::from(bytes);
            self.send_control(id, Header::control(Kind::Credit, 0, value), &[]);
        }
        if self.state.peers.at(index).announced.is_exhausted() {
            self.ask_for_what_waits(index);
        }
    }

    /// Pushes whatever waits for room, and reads whatever is being read. True when something moved.
    #[cold]
    #[inline(never)]
    pub(crate) fn push_all(&mut self) -> bool {
        let mut moved = self.read_some();
        let mut busy = std::mem::take(&mut self.state.busy);
        busy.retain(|&index| {
            moved |= self.push(index);
            let peer = self.state.peers.at_mut(index);
            peer.listed = !(peer.queue.is_empty() && peer.streams.is_empty());
            peer.listed
        });
        // Pushing may have ended or begun work for others.
        busy.append(&mut self.state.busy);
        self.state.busy = busy;
        moved
    }

    /// Pushes what waits for a process that was not known how to reach, once it is.
    #[cold]
    #[inline(never)]
    fn push_first(&mut self, index: u32) -> bool {
        let id = self.state.peers.at(index).id;
        match self.contact(id) {
            Ok(_) => self.state.peers.at(index).connected && self.push(index),
            Err(error) => {
                self.refused(id, error);
                true
            }
        }
    }

    fn push(&mut self, index: u32) -> bool {
        let peer = self.state.peers.at(index);
        if !(peer.connected || peer.dead) {
            return self.push_first(index);
        }
        let mut moved = false;
        while let Some(outgoing) = self.state.peers.at(index).queue.front() {
            let sent = match *outgoing {
                Outgoing::Packet(packet) => self.send_packet(index, packet.header, packet.payload()),
                Outgoing::Message(slot) => {
                    let before = self.state.requests.at(slot).moved;
                    let sent = self.transmit(index, slot);
                    moved |= sent == Sent::Full && self.state.requests.at(slot).moved != before;
                    sent
                }
                Outgoing::Filler { done, lead } => self.fill(index, done, lead),
            };
            match sent {
                Sent::Yes => {
                    self.state.peers.at_mut(index).queue.pop_front();
                    moved = true;
                }
                Sent::Held => {
                    if let Some(Outgoing::Message(slot)) = self.state.peers.at_mut(index).queue.pop_front() {
                        self.state.hold(index, slot);
                    }
                }
                Sent::Full => return moved,
                Sent::Dead => return true,
            }
            if self.state.peers.at(index).queue.is_empty() {
                self.state.let_go(index);
            }
        }
        self.state.peers.at_mut(index).reopen();
        let streams = self.state.peers.at(index).streams.len();
        for _ in 0..streams {
            let Some(&slot) = self.state.peers.at(index).streams.front() else { break };
            let before = self.state.requests.at(slot).moved;
            let wanted = self.state.requests.at(slot).wanted;
            let remote = self.state.requests.at(slot).remote;
            let sent = self.send_fragments(index, slot, remote, wanted, STREAM_BURST);
            if sent == Sent::Dead {
                return true;
            }
            moved |= self.state.requests.at(slot).moved != before;
            let peer = self.state.peers.at_mut(index);
            let _ = peer.streams.pop_front();
            if self.state.requests.at(slot).moved == wanted {
                self.state.finish(slot, None);
            } else if sent == Sent::Full {
                peer.streams.push_front(slot);
                break;
            } else {
                peer.streams.push_back(slot);
            }
        }
        moved
    }

    /// Sends what is missing of a lead that was given up.
    #[cold]
    fn fill(&mut self, index: u32, mut done: u32, lead: u32) -> Sent {
        let peer = self.state.peers.at_mut(index);
        while done < lead {
            let len = (lead - done).min(peer.limits.full);
            let header = Header::control(Kind::Fragment, 0, u64::from(done));
            let sent = self.fabric.send_copy(peer.id, header, len as usize, |out| out.fill(0));
            if sent.is_err() {
                return self.judge(index, sent);
            }
            done += len;
            peer.queue[0] = Outgoing::Filler { done, lead };
        }
        Sent::Yes
    }

    #[inline(never)]
    fn send_packet(&mut self, index: u32, header: Header, payload: &[u8]) -> Sent {
        let peer = self.state.peers.at(index);
        let sent = if payload.len() <= peer.max_inline as usize {
            self.fabric.send_inline(peer.id, header, payload)
        } else {
            self.fabric.send_copy(peer.id, header, payload.len(), |out| out.copy_from_slice(payload))
        };
        if sent == Err(Refused::Dead) && header.kind() == Some(Kind::Credit) {
            return Sent::Yes;
        }
        self.judge(index, sent)
    }

    pub(crate) fn judge(&mut self, index: u32, sent: std::result::Result<(), Refused>) -> Sent {
        match sent {
            Ok(()) => Sent::Yes,
            Err(Refused::Full) => Sent::Full,
            Err(Refused::Dead) => {
                let id = self.state.peers.at(index).id;
                self.refused(id, State::gone(id));
                Sent::Dead
            }
        }
    }

    /// Sends a message in phase Queued, or what is left of its lead in phase Leading.
    fn transmit(&mut self, index: u32, slot: u32) -> Sent {
        if self.state.requests.at(slot).phase == Phase::Queued {
            if self.state.must_wait(index, slot) {
                return Sent::Held;
            }
            let sent = self.transmit_envelope(index, slot);
            // A request that nobody takes (the executor's, a released one) is freed as it ends.
            let ended = matches!(self.state.requests.at(slot).phase, Phase::Complete | Phase::Free);
            if sent != Sent::Yes || ended {
                return sent;
            }
        }
        let lead = u64::from(self.state.requests.at(slot).lead);
        if self.state.requests.at(slot).moved < lead {
            let sent = self.send_fragments(index, slot, 0, lead, u32::MAX);
            if sent != Sent::Yes {
                return sent;
            }
        }
        self.lead_has_left(index, slot);
        Sent::Yes
    }

    /// Sends the packet that matching sees.
    fn transmit_envelope(&mut self, index: u32, slot: u32) -> Sent {
        let id = self.state.requests.id(slot).0;
        if self.state.requests.at(slot).is_offered()
            && let Some(sent) = self.transmit_offer(index, slot)
        {
            return sent;
        }
        if self.state.requests.at(slot).length > u64::from(self.state.peers.at(index).limits.eager) {
            self.ask_whether_readable(index);
        }
        let place = match self.state.peers.at(index).means {
            Some(_) => self.place_to_read(index, slot),
            None => None,
        };
        let telling = self.state.telling(index, slot);
        let others_move = self.state.requests.moving > ALONE;
        let peer = self.state.peers.at_mut(index);
        let request = self.state.requests.at_mut(slot);
        let header = request.header;
        let synchronous = request.flags & SYNCHRONOUS != 0;
        let prefix = if synchronous { SyncPrefix::BYTES } else { 0 };
        let address = match request.send_buf().contiguous_address() {
            Some(address) if peer.capabilities.single_copy => address,
            _ => 0,
        };
        let taken = telling.is_some()
            || peer.means.is_some() && peer.is_moved_by_device(request.length)
            || address != 0 && self.state.config.reads(peer, request.length);
        let limits = limits_for(&peer.limits, request.send_buf());
        let announced = peer.announces(request.length) || request.flags & READS != 0;
        let limits = match address != 0 && announced {
            true => SendLimits { eager: 0, lead: 0, ..limits },
            false if place.is_some() && request.flags & READS != 0 => {
                SendLimits { eager: 0, lead: 0, ..limits }
            }
            false if others_move => SendLimits { lead: 0, ..limits },
            false => limits,
        };
        match plan_send(request.length, prefix as u32, &limits, peer.window.left(), taken) {
            SendPlan::Eager => {
                let (length, buffer) = (request.length as usize, request.send_buf());
                let sent = if synchronous {
                    let header = header.with_kind(Kind::EagerSync);
                    self.fabric.send_copy(peer.id, header, length + SyncPrefix::BYTES, |out| {
                        let (front, data) = out.split_at_mut(SyncPrefix::BYTES);
                        front.copy_from_slice(&SyncPrefix { request: id }.emit());
                        buffer.pack(0, data);
                    })
                } else {
                    self.fabric.send_copy(peer.id, header, length, |out| buffer.pack(0, out))
                };
                if sent.is_ok() {
                    peer.window.spend(charge(length as u32));
                    let request = self.state.take_credit_back(index, slot);
                    request.moved = length as u64;
                    request.lead = length as u32;
                    if synchronous {
                        request.phase = Phase::Waiting;
                    } else {
                        self.state.finish(slot, None);
                    }
                }
                self.judge(index, sent)
            }
            SendPlan::Announce { lead } => {
                let Some(asked) = crate::held::credit(request, &mut peer.announce) else { return Sent::Held };
                // An empty message beyond the budget has nothing to ask for; its sender waits to be matched, or
                // empty messages would be without limit.
                let synchronous = synchronous || request.length == 0;
                let rather =
                    if announced && telling.is_none() && request.length <= u64::from(peer.limits.eager) {
                        Announce::RATHER
                    } else {
                        0
                    };
                let flags = if synchronous { Announce::SYNCHRONOUS } else { rather } | asked;
                let header = header.with_kind(Kind::Rts).with_flags(flags);
                let announce = Announce { length: request.length, address, request: id, lead };
                if let Some(telling) = telling {
                    debug_assert_eq!(lead, 0, "what the receiver takes has no lead");
                    let header = header.with_flags(flags | Announce::SCATTERED);
                    let announce = Announce { address: telling.address, ..announce };
                    let sent = self.fabric.send_copy(peer.id, header, telling.packet(), |out| {
                        telling.put(&announce, out);
                    });
                    if sent.is_ok() {
                        peer.layouts.get_or_insert_default().told(telling);
                        request.announced(synchronous, 0, 0);
                    }
                    return self.judge(index, sent);
                }
                if let Some(place) = place.filter(|_| lead == 0) {
                    let header = header.with_flags(flags | Announce::KEYED);
                    let bytes = Announce::BYTES + RemotePlace::BYTES;
                    let sent = self.fabric.send_copy(peer.id, header, bytes, |out| {
                        out[..Announce::BYTES].copy_from_slice(&announce.emit());
                        place.put(out);
                    });
                    if sent.is_ok() {
                        request.announced(synchronous, 0, 0);
                    }
                    return self.judge(index, sent);
                }
                let buffer = request.send_buf();
                let piece = piece_of(request.length, &peer.limits, buffer)
                    .min(peer.limits.full - Announce::DATA as u32);
                // What the receiver must ask for it shall ask for at once, not after it has copied the first piece.
                let whole = u64::from(lead) == request.length;
                let first = if whole { lead.min(piece) as usize } else { 0 };
                let sent = self.fabric.send_copy(peer.id, header, Announce::packet(first), |out| {
                    buffer.pack(0, announce.put(out));
                });
                if sent.is_ok() {
                    if lead > 0 {
                        peer.window.spend(charge(lead));
                    }
                    request.announced(synchronous, lead, first as u64);
                    if address != 0 && lead == 0 {
                        self.state.lend(index, slot);
                    }
                }
                self.judge(index, sent)
            }
        }
    }

    /// Whether memory can be read between this peer and us may become known only after first contact: a peer that is
    /// still starting cannot be asked.
    pub(crate) fn ask_whether_readable(&mut self, index: u32) {
        let peer = self.state.peers.at_mut(index);
        if !peer.capabilities.single_copy && !peer.unreadable {
            peer.capabilities.single_copy = self.fabric.capabilities(peer.id).single_copy;
        }
    }

    /// Sends packed bytes up to `end` as fragments for the receiver's request `remote` (0: the lead).
    fn send_fragments(&mut self, index: u32, slot: u32, remote: u32, end: u64, burst: u32) -> Sent {
        let peer = self.state.peers.at(index);
        let request = self.state.requests.at_mut(slot);
        let piece = u64::from(piece_of(request.length, &peer.limits, request.send_buf()));
        for _ in 0..burst {
            if request.moved == end {
                return Sent::Yes;
            }
            let offset = request.moved;
            let len = (end - offset).min(piece) as usize;
            let header = Header::control(Kind::Fragment, remote, offset);
            let buffer = request.send_buf();
            match self.fabric.send_copy(peer.id, header, len, |out| buffer.pack(offset as usize, out)) {
                Ok(()) => request.moved += len as u64,
                refused => return self.judge(index, refused),
            }
        }
        Sent::Yes
    }

    /// All that may leave unasked has left.
    fn lead_has_left(&mut self, index: u32, slot: u32) {
        let request = self.state.requests.at_mut(slot);
        let whole = u64::from(request.lead) == request.length;
        let asked = request.flags & CANCEL_ASKED != 0;
        request.phase = Phase::Waiting;
        if request.flags & TAKEN != 0
            || (whole && (request.flags & SYNCHRONOUS == 0 || request.flags & ANSWERED != 0))
        {
            self.state.finish(slot, None);
        } else if request.flags & ANSWERED != 0 {
            self.state.start_stream(index, slot);
        } else if asked {
            self.ask_to_forget(slot);
        }
    }
}

impl State {
    /// Puts something behind everything else that goes to the peer.
    pub(crate) fn enqueue(&mut self, index: u32, outgoing: Outgoing) {
        let peer = self.peers.at_mut(index);
        peer.queue.push_back(outgoing);
        peer.window.shut();
        self.list(index);
    }

    /// The receiver asked for `wanted` bytes of an announced message: they flow from now on.
    pub(crate) fn start_stream(&mut self, index: u32, slot: u32) {
        let request = self.requests.at_mut(slot);
        request.phase = Phase::Streaming;
        if request.moved >= request.wanted {
            return self.finish(slot, None);
        }
        self.peers.at_mut(index).streams.push_back(slot);
        self.list(index);
    }

    pub(crate) fn list(&mut self, index: u32) {
        let peer = self.peers.at_mut(index);
        if !peer.listed {
            peer.listed = true;
            self.busy.push(index);
        }
    }
}

impl crate::peers::Peer {
    /// The queue is empty: messages may leave at once again, if the peer can be sent to at all.
    pub(crate) fn reopen(&mut self) {
        if self.connected && !self.dead && self.queue.is_empty() && self.held.is_empty() {
            self.window.reopen();
        }
    }
}

/// The limits of one message: what has gaps is sent in more and shorter packets.
fn limits_for(limits: &SendLimits, buffer: &SendBuf) -> SendLimits {
    let single = match buffer.mean_block() {
        Some(block) => single_with_gaps(block, limits),
        None => limits.single,
    };
    SendLimits { single: single.min(limits.packet), ..*limits }
}

fn piece_of(length: u64, limits: &SendLimits, buffer: &SendBuf) -> u32 {
    match buffer.mean_block() {
        Some(block) => piece_with_gaps(length, block, buffer.is_on_many_pages(), limits),
        None => piece(length, limits),
    }
}
