//! Messages that leave in a few packets, by short ways at both ends.
//!
//! Such a message takes as long as its sender needs before the first packet is out, and its receiver, who is the slower of the
//! two, for all of them. So what either does beside copying counts: the sender looks once whether everything may leave and
//! makes a request only when the transport has no more room in the middle; the receiver who waits for the message looks at that
//! sender's packets alone.

use crate::arrive::{Arrival, DRAIN_BURST, Todo};
use crate::engine::Engine;
use crate::requests::{Buffer, Phase};
use crate::types::{Ending, Envelope, RequestId, Started};
use weft_api::Transport;
use weft_datatype::{SendBuf, buffer};
use weft_proto::announce::is_counted;
use weft_proto::{AnnounceCredit, charge};
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
        let state = &mut self.state;
        let peer = state.peers.find_mut(to.peer)?;
        let length = u32::try_from(bytes.len()).ok()?;
        // An open window says: connected, alive, and nothing queues or is held back that this message could overtake.
        if length > peer.limits.eager || charge(length) > peer.window.open() || peer.means.is_some() {
            return None;
        }
        let most = (peer.limits.packet as usize).saturating_sub(Announce::DATA);
        let piece = piece.min(peer.limits.eager as usize / 2).min(most);
        if piece == 0 || bytes.len() <= piece {
            return None;
        }
        let credit = match is_counted(to.context) {
            true => Some(peer.announce.take(to.context)?),
            false => None,
        };
        let flags = if credit == Some(AnnounceCredit::Asked) { Announce::ASKED } else { 0 };
        let header =
            Header::new(Kind::Eager, to.context, to.source, to.tag).with_kind(Kind::Rts).with_flags(flags);
        // All that leaves unasked is the whole message: the receiver has nothing to say about it, so no request is named.
        let announce = Announce { length: u64::from(length), address: 0, request: 0, lead: length };
        let (first, mut rest) = bytes.split_at(piece);
        let packet = Announce::packet(piece);
        let sent =
            self.fabric.send_copy(to.peer, header, packet, |out| buffer::copy(first, announce.put(out)));
        if sent.is_err() {
            if let Some(credit) = credit {
                peer.announce.put_back(credit, to.context);
            }
            return None;
        }
        peer.window.spend_open(charge(length));
        let mut moved = piece;
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
