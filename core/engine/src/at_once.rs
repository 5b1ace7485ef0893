//! The short ways: the usual case of a call in one piece, or nothing. For callers that count instructions (the C boundary's
//! `at_once.rs`), who take the general way when nothing was done.

use crate::engine::Engine;
use crate::peers::{Lead, LeadTarget};
use crate::requests::{Buffer, Phase};
use crate::types::{Ending, Envelope, RequestId, Soon, Started, Status};
use weft_api::{Handler, Transport};
use weft_datatype::{RecvBuf, SendBuf};
use weft_proto::{AnnounceCredit, EAGER_MOST, Key, Pattern, charge, piece};
use weft_types::{PeerId, Result};
use weft_wire::{Announce, Header, Kind};

/// Looks for the next piece of a message before the wait for it becomes one that makes all other progress: some 2 us.
const PATIENCE: u32 = 200;

impl Engine {
    /// The first part of [`Engine::send`], for callers that count instructions: a small message that may leave now. False
    /// says that nothing was sent.
    #[inline(always)]
    pub fn send_at_once(&mut self, to: Envelope, bytes: &[u8]) -> bool {
        let Some(peer) = self.state.peers.find_mut(to.peer) else { return false };
        if bytes.len() > peer.max_inline as usize || charge(bytes.len() as u32) > peer.window.open() {
            return false;
        }
        // An open window says: connected, alive, and nothing queues that this message could overtake.
        let header = Header::new(Kind::Eager, to.context, to.source, to.tag);
        let sent = self.fabric.send_now(peer.route, header, bytes);
        if sent {
            peer.window.spend_open(charge(bytes.len() as u32));
        }
        sent
    }

    /// As [`Engine::send_at_once`], of a message that fits one packet of the transport.
    #[inline(never)]
    pub fn send_packet_at_once(&mut self, to: Envelope, bytes: &[u8]) -> bool {
        let Some(peer) = self.state.peers.find_mut(to.peer) else { return false };
        let charge = match u32::try_from(bytes.len()) {
            Ok(length) if length <= peer.limits.single.min(peer.limits.packet) => charge(length),
            _ => return false,
        };
        if charge > peer.window.open() {
            return false;
        }
        let header = Header::new(Kind::Eager, to.context, to.source, to.tag);
        let fill = |out: &mut [u8]| out.copy_from_slice(bytes);
        let sent = self.fabric.send_copy(to.peer, header, bytes.len(), fill).is_ok();
        if sent {
            peer.window.spend_open(charge);
        }
        sent
    }

    /// As [`Engine::send_at_once`], of a message of medium length that leaves in several packets, asked for by nobody.
    /// Answers how many of its bytes have left: `None`, nothing was done; all of them, it is sent; fewer, the caller must go
    /// on with [`Engine::send_the_rest`].
    #[inline(never)]
    pub fn send_pieces_at_once(&mut self, to: Envelope, bytes: &[u8]) -> Option<usize> {
        let peer = self.state.peers.find_mut(to.peer)?;
        let length = u32::try_from(bytes.len()).ok().filter(|&length| length <= peer.limits.eager)?;
        if charge(length) > peer.window.open() {
            return None;
        }
        let credit = peer.announce.take_if_counted(to.context)?;
        let flags = if credit == Some(AnnounceCredit::Asked) { Announce::ASKED } else { 0 };
        let header = Header::new(Kind::Rts, to.context, to.source, to.tag).with_flags(flags);
        // Nobody answers a message that comes whole by itself, so no request needs a name.
        let announce = Announce { length: u64::from(length), address: 0, request: 0, lead: length };
        if self.fabric.send_inline(to.peer, header, &announce.emit()).is_err() {
            if let Some(credit) = credit {
                peer.announce.put_back(credit, to.context);
            }
            return None;
        }
        peer.window.spend_open(charge(length));
        let piece = piece(u64::from(length), &peer.limits) as usize;
        let mut moved = 0;
        for data in bytes.chunks(piece) {
            let header = Header::control(Kind::Fragment, 0, moved as u64);
            if self.fabric.send_copy(to.peer, header, data.len(), |out| out.copy_from_slice(data)).is_err() {
                break;
            }
            moved += data.len();
        }
        Some(moved)
    }

    /// What [`Engine::send_pieces_at_once`] began: `buffer` is the whole message, of which `moved` bytes have left. Must follow
    /// it before anything else is done with the engine.
    ///
    /// # Errors
    /// The peer is gone; `MPI_ERR_NO_MEM` when all request slots are in use.
    pub fn send_the_rest(&mut self, to: Envelope, buffer: SendBuf, moved: usize) -> Result<Started> {
        let header = Header::new(Kind::Rts, to.context, to.source, to.tag);
        let index = self.meet(to.peer);
        let length = buffer.len();
        let slot = match self.state.requests.insert(Phase::Leading, to.peer, header, Buffer::Send(buffer)) {
            Ok(slot) => slot,
            Err(error) => {
                // The receiver waits for bytes that will never come.
                self.bury(to.peer, error.clone());
                return Err(error);
            }
        };
        let request = self.state.requests.at_mut(slot);
        request.length = length as u64;
        request.lead = length as u32;
        request.moved = moved as u64;
        self.leave(index, slot)
    }

    /// As [`Engine::recv`] from a named source with a named tag, tagged with `owner`, for callers that count instructions.
    /// `None` says that nothing was done, and nothing about why: the message may be here.
    #[inline(always)]
    pub fn post_at_once(&mut self, from: Envelope, buffer: RecvBuf, owner: u32) -> Option<RequestId> {
        let state = &mut self.state;
        if !state.unexpected.is_empty() || state.wary {
            return None;
        }
        let (slot, request) = state.requests.take_free()?;
        request.post(from.peer, buffer, owner);
        let id = request.id(slot);
        let key = Key::new(from.context, from.source, from.tag);
        request.entry = state.posted.post(Pattern::exactly(key), slot).0;
        Some(id)
    }

    /// As [`Engine::spin_recv`] from a named source with a named tag into a buffer that owns nothing, while no other receive
    /// and no message waits; for callers that count instructions.
    #[inline(always)]
    pub fn receive_at_once(&mut self, from: Envelope, buffer: &mut RecvBuf, turns: u32) -> Soon {
        let wanted = Key::new(from.context, from.source, from.tag);
        let mut turn = 0;
        loop {
            let state = &mut self.state;
            if !state.unexpected.is_empty() || !state.posted.is_empty() {
                return Soon::Nothing;
            }
            let Some(peer) = state.peers.find_mut(from.peer) else { return Soon::Nothing };
            match self.fabric.receive(from.peer, Awaited { wanted, buffer }) {
                Some(Seen::Received(bytes)) => {
                    if peer.ledger.release(charge(bytes)) {
                        self.give_credit(from.peer);
                    }
                    let (source, tag) = (from.source, from.tag);
                    return Soon::Received(Status { source, tag, bytes: u64::from(bytes), cancelled: false });
                }
                Some(Seen::Announced) => return Soon::Announced,
                Some(Seen::Other) => return Soon::Nothing,
                None => {}
            }
            turn += 1;
            if turn >= turns {
                return Soon::Nothing;
            }
            std::hint::spin_loop();
            if turn % 32 == 0 {
                self.progress();
            }
        }
    }

    /// Receives the message of `from` whose announcement [`Engine::receive_at_once`] saw just now, when it comes by itself in
    /// pieces. The buffer is the caller's no more when the answer is [`Soon::Pending`].
    #[inline(never)]
    pub fn receive_pieces_at_once(&mut self, from: PeerId, buffer: &mut RecvBuf, turns: u32) -> Soon {
        let index = self.meet(from);
        let peer = self.state.peers.at(index);
        if peer.lead.is_some() || peer.dead {
            return Soon::Announced;
        }
        let budget = peer.budget;
        let Some((header, announce)) = self.fabric.receive(from, Coming { room: buffer }).flatten() else {
            return Soon::Announced;
        };
        let length = announce.lead;
        if length > EAGER_MOST || charge(length) > budget {
            self.broken(from, "more data at once than it may");
            return Soon::Nothing;
        }
        let Ok(credit) = self.state.count_announcement(index, header) else {
            self.broken(from, "more announcements than it may");
            return Soon::Nothing;
        };
        self.state.announcement_left(index, credit);
        let (mut done, mut turn) = (0, 0);
        let patience = turns.min(PATIENCE);
        while done < length {
            match self.fabric.receive(from, NextPiece { offset: done, left: length - done, buffer }) {
                Some(Some(bytes)) => (done, turn) = (done + bytes, 0),
                Some(None) => {
                    self.broken(from, "something else than the data that it announced");
                    return Soon::Nothing;
                }
                None if turn < patience => {
                    turn += 1;
                    std::hint::spin_loop();
                }
                None => return self.receive_rest(index, header, &announce, done, buffer),
            }
        }
        self.state.changes = self.state.changes.wrapping_add(1);
        if self.state.peers.at_mut(index).ledger.release(charge(length)) {
            self.give_credit(from);
        }
        Soon::Received(Status {
            source: header.source(),
            tag: header.tag(),
            bytes: u64::from(length),
            cancelled: false,
        })
    }

    /// The next piece is long in coming: the receive becomes a request, which ends while other things make progress.
    #[cold]
    fn receive_rest(
        &mut self,
        index: u32,
        header: Header,
        announce: &Announce,
        done: u32,
        buffer: &mut RecvBuf,
    ) -> Soon {
        let buffer = std::mem::replace(buffer, RecvBuf::empty());
        let id = self.state.peers.at(index).id;
        let slot = match self.state.requests.insert(Phase::Receiving, id, header, Buffer::Recv(buffer)) {
            Ok(slot) => slot,
            Err(error) => {
                self.bury(id, error);
                return Soon::Nothing;
            }
        };
        self.state.expect(slot, id, header, announce, None);
        self.state.requests.at_mut(slot).moved = u64::from(done);
        let (left, total) = (announce.lead - done, announce.lead);
        self.state.peers.at_mut(index).lead = Some(Lead { target: LeadTarget::Request(slot), left, total });
        Soon::Pending(self.state.requests.id(slot))
    }

    /// How far a request is, for callers that count instructions.
    #[inline(always)]
    pub fn ending(&self, request: RequestId) -> Ending {
        self.state.requests.ending(request)
    }

    /// How a request ended of which [`Engine::ending`] just said that it ended well; frees it.
    #[inline(always)]
    pub fn take_well(&mut self, request: RequestId) -> Status {
        self.state.requests.take_well(request)
    }
}

/// The very message that a blocking receive waits for; any other packet stays.
struct Awaited<'a> {
    wanted: Key,
    buffer: &'a mut RecvBuf,
}

/// What [`Awaited`] saw.
enum Seen {
    /// The message, of that many bytes; it is in the buffer.
    Received(u32),
    /// Its announcement.
    Announced,
    /// Another packet.
    Other,
}

impl Handler for Awaited<'_> {
    type Outcome = Seen;

    #[inline(always)]
    fn handle(self, header: Header, payload: &[u8]) -> (bool, Seen) {
        if header.is_eager() && Key::of(header) == self.wanted && self.buffer.unpack_plain(payload) {
            return (true, Seen::Received(payload.len() as u32));
        }
        let announced = header.kind() == Some(Kind::Rts) && Key::of(header) == self.wanted;
        (false, if announced { Seen::Announced } else { Seen::Other })
    }
}

/// The announcement that [`Awaited`] saw: taken when all of the message comes by itself, into one run of memory that has room
/// for it, and nobody must be answered.
struct Coming<'a> {
    room: &'a mut RecvBuf,
}

impl Handler for Coming<'_> {
    type Outcome = Option<(Header, Announce)>;

    #[inline(always)]
    fn handle(self, header: Header, payload: &[u8]) -> (bool, Self::Outcome) {
        let Some((announce, [])) = Announce::parse(payload) else { return (false, None) };
        let comes = header.flags() & Announce::SYNCHRONOUS == 0
            && announce.length > 0
            && u64::from(announce.lead) == announce.length
            && self.room.as_mut_slice().is_some_and(|room| announce.length <= room.len() as u64);
        (comes, comes.then_some((header, announce)))
    }
}

/// The packet that must come next: a piece of the message that a blocking receive has begun to receive.
struct NextPiece<'a> {
    offset: u32,
    left: u32,
    buffer: &'a mut RecvBuf,
}

impl Handler for NextPiece<'_> {
    /// The piece's length, when it is one.
    type Outcome = Option<u32>;

    #[inline(always)]
    fn handle(self, header: Header, payload: &[u8]) -> (bool, Option<u32>) {
        let due = Header::control(Kind::Fragment, 0, u64::from(self.offset));
        if header != due || payload.is_empty() || payload.len() > self.left as usize {
            return (false, None);
        }
        self.buffer.unpack(self.offset as usize, payload);
        (true, Some(payload.len() as u32))
    }
}
