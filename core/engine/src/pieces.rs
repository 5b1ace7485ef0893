//! Messages that leave in a few packets, by short ways at both ends.
//!
//! Such a message takes as long as its sender needs before the first packet is out, and its receiver, who is the slower of the
//! two, for all of them. So what either does beside copying counts: the sender looks once whether everything may leave and
//! makes a request only when the transport has no more room in the middle; the receiver who waits for the message looks at that
//! sender's packets alone, and makes a request only when they stop coming.

use crate::arrive::{Arrival, DRAIN_BURST, Todo};
use crate::engine::Engine;
use crate::offers;
use crate::peers::LeadTarget;
use crate::requests::{Buffer, Phase};
use crate::types::{Arriving, Ending, Envelope, RequestId, Started, Status};
use weft_api::{Handler, Transport};
use weft_datatype::{RecvBuf, SendBuf, buffer};
use weft_proto::announce::is_counted;
use weft_proto::turns::Course;
use weft_proto::{AnnounceCredit, EAGER_MOST, Key, charge};
use weft_types::{PeerId, Result};
use weft_wire::{Announce, Header, Kind};

impl Engine {
    /// Bytes of a packet of a message whose sender waits for nothing else, so that its latency counts: a message of 32 KiB
    /// takes 1.27 us in two and 1.50 in one, without any software between near cores; in four it gains no more there, and loses
    /// a tenth between distant ones. Of many messages at a time longer packets move more.
    pub const PIECE: usize = 16 << 10;

    /// Sends a message that may leave unasked in packets of `piece` bytes (or of half of what may leave unasked), all or the
    /// first ones: how many bytes have left. `None`: nothing was done. After less than all, [`Engine::send_on`] must follow at
    /// once.
    pub fn send_pieces(&mut self, to: Envelope, bytes: &[u8], piece: usize) -> Option<usize> {
        let offers_from = self.state.config.offers_from;
        if self.state.peers.find_mut(to.peer)?.shall_be_offered(bytes.len(), offers_from) {
            return None;
        }
        let moved = self.send_pieces_since(to, bytes, piece, 0)?;
        self.long_has_left(to.peer, bytes.len());
        Some(moved)
    }

    /// As [`Engine::send_pieces`], also in one piece, of a message whose receiver shall say how long it took since `stamp`; 0: it shall not.
    pub(crate) fn send_pieces_since(
        &mut self,
        to: Envelope,
        bytes: &[u8],
        piece: usize,
        stamp: u64,
    ) -> Option<usize> {
        let state = &mut self.state;
        let peer = state.peers.find_mut(to.peer)?;
        let length = u32::try_from(bytes.len()).ok()?;
        // An open window says: connected, alive, and nothing queues or is held back that this message could overtake.
        if length > peer.limits.eager || charge(length) > peer.window.open() || peer.means.is_some() {
            return None;
        }
        let most = (peer.limits.full as usize).saturating_sub(Announce::DATA);
        let piece = piece.min(peer.limits.eager as usize / 2).min(most);
        if piece == 0 || (bytes.len() <= piece && stamp == 0) {
            return None;
        }
        let credit = match is_counted(to.context) {
            true => Some(peer.announce.take(to.context)?),
            false => None,
        };
        let asked = if credit == Some(AnnounceCredit::Asked) { Announce::ASKED } else { 0 };
        let flags = if stamp == 0 { asked } else { asked | Announce::TIMED };
        let header =
            Header::new(Kind::Eager, to.context, to.source, to.tag).with_kind(Kind::Rts).with_flags(flags);
        // All that leaves unasked is the whole message: the receiver has nothing to say about it, so no request is named.
        let announce = Announce { length: u64::from(length), address: stamp, request: 0, lead: length };
        let (first, mut rest) = bytes.split_at(piece.min(bytes.len()));
        let packet = Announce::packet(first.len());
        let sent =
            self.fabric.send_copy(to.peer, header, packet, |out| buffer::copy(first, announce.put(out)));
        if sent.is_err() {
            if let Some(credit) = credit {
                peer.announce.put_back(credit, to.context);
            }
            return None;
        }
        peer.window.spend_open(charge(length));
        let mut moved = first.len();
        while !rest.is_empty() {
            let (data, behind) = rest.split_at(piece.min(rest.len()));
            let header = Header::control(Kind::Fragment, 0, moved as u64);
            if self.fabric.send_copy(to.peer, header, data.len(), |out| buffer::copy(data, out)).is_err() {
                break;
            }
            moved += data.len();
            rest = behind;
        }
        Some(moved)
    }

    /// Sends what is left of a message of which [`Engine::send_pieces`] has just sent `moved` bytes.
    ///
    /// # Errors
    /// The peer is gone.
    #[cold]
    pub fn send_on(&mut self, to: Envelope, buffer: SendBuf, moved: usize) -> Result<Started> {
        let index = self.meet(to.peer);
        let header = Header::new(Kind::Eager, to.context, to.source, to.tag);
        let length = buffer.len();
        let slot = self.state.requests.insert(Phase::Leading, to.peer, header, Buffer::Send(buffer))?;
        let request = self.state.requests.at_mut(slot);
        request.length = length as u64;
        request.announced(false, length as u32, moved as u64);
        self.leave(index, slot)
    }

    /// Receives the message that [`Engine::receive_at_once`] has just said is announced, if all of it comes unasked or it is offered, into a
    /// buffer that lies in one run and has room for it. When its packets stop coming for `turns` looks (about 10 ns each), a
    /// receive tagged with `owner` stands for what is still to come.
    ///
    /// # Errors
    /// The peer has sent nonsense, and is buried.
    pub fn receive_pieces(
        &mut self,
        from: Envelope,
        mut buffer: RecvBuf,
        owner: u32,
        turns: u32,
    ) -> Result<Arriving> {
        let Some(index) = self.state.peers.index(from.peer) else { return Ok(Arriving::Nothing(buffer)) };
        let peer = self.state.peers.at(index);
        let (dead, busy, budget) = (peer.dead, peer.lead.is_some(), peer.budget);
        let refuses = dead || busy || self.state.wary || !self.state.requests.has_free();
        if refuses || self.fabric.is_moved_by_progress(from.peer) {
            return Ok(Arriving::Nothing(buffer));
        }
        let Some(room) = buffer.as_mut_slice() else { return Ok(Arriving::Nothing(buffer)) };
        let wanted = Key::new(from.context, from.source, from.tag);
        let first = self.fabric.receive(from.peer, First { wanted, room, budget });
        let (header, announce, first) = match first {
            Some(Some(Found::Piece(header, announce, first))) => (header, announce, first),
            Some(Some(Found::Offer(header, announce, stamp))) => {
                return self.receive_offer(from, (index, owner), buffer, (header, announce, stamp));
            }
            _ => return Ok(Arriving::Nothing(buffer)),
        };
        let length = announce.lead as usize;
        let (mut moved, mut looks) = (first, 0);
        while moved < length && looks < turns {
            match self.fabric.receive(from.peer, Next { room: &mut room[..length], moved }) {
                Some(Some(bytes)) => (moved, looks) = (moved + bytes, 0),
                Some(None) => break,
                None => {
                    looks += 1;
                    std::hint::spin_loop();
                }
            }
        }
        self.enter_announcement(from.peer, index, header)?;
        if moved == length {
            if self.state.peers.at_mut(index).ledger.release(charge(announce.lead)) {
                self.give_credit(from.peer);
            }
            if header.flags() & Announce::TIMED != 0 {
                self.tell_time(from.peer, announce.lead, Course::Packets, announce.address);
            }
            let (source, tag) = (from.source, from.tag);
            return Ok(Arriving::Received(Status { source, tag, bytes: announce.length, cancelled: false }));
        }
        let slot = self.state.requests.insert(Phase::Receiving, from.peer, header, Buffer::Recv(buffer))?;
        self.state.expect(slot, from.peer, header, &announce, None);
        let request = self.state.requests.at_mut(slot);
        (request.moved, request.owner) = (moved as u64, owner);
        let target = LeadTarget::Request(slot);
        let stamp = if header.flags() & Announce::TIMED == 0 { 0 } else { announce.address };
        self.state.lead_goes_to(index, target, ((length - moved) as u32, announce.lead), stamp);
        Ok(Arriving::Begun(self.state.requests.id(slot)))
    }

    /// Takes packets of `peer` until the receive `request`, whose message it has announced, ends, or nothing has come for
    /// `turns` looks (about 10 ns each), or some have come and others should have their turn, or something waits to be sent:
    /// then it is for [`Engine::progress`].
    pub fn receive_rest(&mut self, peer: PeerId, request: RequestId, turns: u32) -> Ending {
        let Some(index) = self.state.peers.index(peer) else { return self.ending(request) };
        if self.fabric.is_moved_by_progress(peer) || !self.state.busy.is_empty() {
            return self.ending(request);
        }
        let (mut looks, mut packets, mut ending) = (0, 0, Ending::NotYet);
        while looks < turns && packets < DRAIN_BURST {
            let Some(todo) = self.fabric.receive(peer, Arrival { state: &mut self.state, index }) else {
                looks += 1;
                std::hint::spin_loop();
                continue;
            };
            (looks, packets) = (0, packets + 1);
            if todo != Todo::Nothing {
                self.follow(peer, todo);
            }
            ending = self.ending(request);
            if ending != Ending::NotYet {
                break;
            }
        }
        if packets > 0 {
            self.state.changes = self.state.changes.wrapping_add(1);
            if self.state.peers.at(index).ledger.is_due() {
                self.give_credit(peer);
            }
            while let Some(index) = self.state.owing.pop() {
                self.give_credit(self.state.peers.at(index).id);
            }
        }
        ending
    }
}

/// The packet that announces a message of which all comes unasked, or that is offered, to a receive with room for it; any other packet
/// stays.
struct First<'a> {
    wanted: Key,
    room: &'a mut [u8],
    budget: u32,
}

/// What [`First`] has taken.
enum Found {
    /// What the first packet says, and how many of the bytes it brought.
    Piece(Header, Announce, usize),
    /// An offer, and when its sender began.
    Offer(Header, Announce, u64),
}

impl Handler for First<'_> {
    type Outcome = Option<Found>;

    #[inline]
    fn handle(self, header: Header, payload: &[u8]) -> (bool, Self::Outcome) {
        const SPECIAL: u8 = !(Announce::ASKED | Announce::TIMED);
        if header.kind() != Some(Kind::Rts) || Key::of(header) != self.wanted {
            return (false, None);
        }
        if header.flags() & SPECIAL == Announce::OFFERED {
            let offer = offers::parse(header, payload, self.budget);
            let offer = offer.filter(|(announce, _)| announce.length as usize <= self.room.len());
            return match offer {
                Some((announce, stamp)) => (true, Some(Found::Offer(header, announce, stamp))),
                None => (false, None),
            };
        }
        if header.flags() & SPECIAL != 0 {
            return (false, None);
        }
        let Some((announce, data)) = Announce::parse(payload) else { return (false, None) };
        let whole = u64::from(announce.lead) == announce.length && announce.lead <= EAGER_MOST;
        let fits = announce.lead as usize <= self.room.len() && data.len() <= announce.lead as usize;
        if announce.lead == 0 || !whole || !fits || charge(announce.lead) > self.budget {
            return (false, None);
        }
        buffer::copy(data, &mut self.room[..data.len()]);
        (true, Some(Found::Piece(header, announce, data.len())))
    }
}

/// The next packet of such a message, of which `moved` bytes are here; any other packet stays.
struct Next<'a> {
    room: &'a mut [u8],
    moved: usize,
}

impl Handler for Next<'_> {
    type Outcome = Option<usize>;

    #[inline]
    fn handle(self, header: Header, data: &[u8]) -> (bool, Option<usize>) {
        let fits = !data.is_empty() && data.len() <= self.room.len() - self.moved;
        let is_next = header.kind() == Some(Kind::Fragment) && header.id() == 0;
        if !is_next || !fits || header.value() != self.moved as u64 {
            return (false, None);
        }
        buffer::copy(data, &mut self.room[self.moved..][..data.len()]);
        (true, Some(data.len()))
    }
}
