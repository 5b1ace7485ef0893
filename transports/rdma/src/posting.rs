//! Posting: which requests are signalled, what is kept for the case that they must be sent again, and how bursts are closed.

use crate::contact::NOTHING;
use crate::flight::{Deed, FEW, Holds, SIGNAL_EVERY};
use crate::keys::first_key;
use crate::peers::State;
use crate::transport::{HEADER_BYTES, MESSAGES, MOST_POSTED, Rdma, SEND_SLOTS, full_copy};
use weft_api::Refused;
use weft_api::verbs::{Data, Hca, HcaRefusal, Nanos, Segment, Work, WorkRequest};
use weft_api::zero_copy::RemoteMemory;
use weft_types::PeerId;
use weft_wire::Header;

/// Slots left at which every request that holds one is signalled.
const SCARCE: usize = SEND_SLOTS as usize / 4;
/// How long the last requests of a burst, that nothing tells of, may stay so when nobody needs what they hold.
const QUIET: Nanos = 10_000_000;

/// Bursts closed in one turn.
const CLOSED_AT_ONCE: usize = 128;

impl<H: Hca> Rdma<H> {
    /// A slot to send from. When there is none, what unsignalled requests hold is asked for.
    pub(crate) fn take_slot(&mut self) -> std::result::Result<u32, Refused> {
        let slot = self.send_slots.take();
        if slot.is_none() {
            self.close_at = 0;
        }
        slot.ok_or(Refused::Full)
    }

    /// The place of a peer that a message of so many bytes can be sent to.
    pub(crate) fn sendable(&mut self, id: PeerId, bytes: usize) -> std::result::Result<u32, Refused> {
        let index = self.peers.find(id).ok_or(Refused::Full)?;
        let peer = self.peers.at(index);
        match peer.state {
            State::Open { .. }
                if peer.flight.len() < MESSAGES && !self.rails[usize::from(peer.rail)].hca.is_crowded() =>
            {
                self.posts_at_once(index, HEADER_BYTES + bytes).then_some(index).ok_or(Refused::Full)
            }
            State::Datagrams if peer.flight.len() < MESSAGES => {
                self.leaves_at_once(index, HEADER_BYTES + bytes)
            }
            State::Gone => Err(Refused::Dead),
            _ => Err(Refused::Full),
        }
    }

    /// Takes no message for a connection whose device would keep it until something is acknowledged: whoever sent it may compute
    /// for long after the call that does. Pieces of long messages that fill their packets may wait in the device, where they leave as
    /// fast as it hears: the last one of a message is shorter but for a length in many.
    #[inline]
    fn posts_at_once(&self, index: u32, bytes: usize) -> bool {
        let peer = self.peers.at(index);
        let is_piece = bytes == HEADER_BYTES + full_copy(self.limits.mtu);
        is_piece || self.rails[usize::from(peer.rail)].hca.leaves_now(peer.pair, bytes)
    }

    /// Whether a connection and its device have room for so many requests.
    #[inline]
    pub(crate) fn has_room(&self, index: u32, requests: usize) -> bool {
        let peer = self.peers.at(index);
        peer.flight.len() + requests <= MOST_POSTED - 2
            && !self.rails[usize::from(peer.rail)].hca.is_crowded()
    }

    /// Posts one request, signalled if somebody waits or it is time.
    #[inline]
    pub(crate) fn post(
        &mut self,
        index: u32,
        deed: Deed,
        work: Work,
        data: Data<'_>,
        holds: Holds,
    ) -> std::result::Result<(), Refused> {
        self.post_chain(index)?;
        self.post_kept(index, deed, work, (data, data), holds).map(|_| ())
    }

    /// Posts one request of which other data is kept than it carries: what the next connection would send. Nothing is kept back
    /// on this one. Whether the device has it; otherwise the next connection does it.
    #[inline]
    pub(crate) fn post_kept(
        &mut self,
        index: u32,
        deed: Deed,
        work: Work,
        (data, kept): (Data<'_>, Data<'_>),
        holds: Holds,
    ) -> std::result::Result<bool, Refused> {
        let peer = self.peers.at(index);
        let signaled = match holds {
            Holds::Token(_) | Holds::SlotAndToken(..) | Holds::Found(..) => true,
            Holds::Share(_) | Holds::Question => true,
            Holds::Slot(_) => peer.flight.must_signal() || self.send_slots.left() < SCARCE,
            Holds::Nothing => peer.flight.must_signal(),
        };
        if let State::Answered { .. } = peer.state {
            // Behind what waits for the other end: all of it is posted then, in order.
            self.noted(index, holds, signaled, deed, &kept);
            return Ok(false);
        }
        // Behind earlier ones, where the device would not keep their order.
        let fence = matches!(deed, Deed::Atomic) && !self.limits.atomics_in_order;
        let request = WorkRequest { id: peer.flight.next(), work, data, signaled, fence, solicited: false };
        if let Err(why) = self.rails[usize::from(peer.rail)].hca.post_send(peer.pair, &request) {
            return self.not_taken(index, why, || (holds, signaled, deed, kept)).map(|()| false);
        }
        self.counts.doorbells += 1;
        self.counts.requests += 1;
        self.noted(index, holds, signaled, deed, &kept);
        Ok(true)
    }

    /// Sends what a slot was filled with, by a ring or else by a send.
    pub(crate) fn send_filled(&mut self, index: u32, slot: u32, segment: Segment) {
        let (work, data) = (Work::Send { immediate: None }, [segment]);
        let posted = match self.post_chain(index) {
            Ok(()) => self.write_filled_record(index, slot, segment),
            full => Some(full),
        };
        let posted = posted.unwrap_or_else(|| {
            self.post(index, Deed::Message, work, Data::Segments(&data), Holds::Slot(slot))
        });
        if posted.is_err() {
            // It is filled, and there was room: a device that does not take it has lost the connection.
            self.send_slots.give_back(slot);
            self.lose(index);
        }
    }

    /// Posts the short writes of a connection that were kept back, with one doorbell.
    ///
    /// # Errors
    /// The device has no room for them: they stay kept back.
    #[inline]
    pub(crate) fn post_chain(&mut self, index: u32) -> std::result::Result<(), Refused> {
        if self.peers.at(index).flight.kept_back() == 0 { Ok(()) } else { self.post_kept_back(index) }
    }

    #[inline(never)]
    fn post_kept_back(&mut self, index: u32) -> std::result::Result<(), Refused> {
        let peer = self.peers.at_mut(index);
        if !matches!(peer.state, State::Open { .. } | State::Parting { .. }) {
            // The next connection does it.
            peer.flight.chain_posted();
            return Ok(());
        }
        let mut parts = [[&[][..]; 1]; SIGNAL_EVERY as usize];
        let mut count = 0;
        for (part, (_, _, bytes, _)) in parts.iter_mut().zip(peer.flight.chain()) {
            *part = [bytes];
            count += 1;
        }
        let mut requests = [WorkRequest::new(0, NOTHING, &[]); SIGNAL_EVERY as usize];
        let mut signals = 0;
        for ((request, part), (id, deed, _, signaled)) in
            requests.iter_mut().zip(&parts).zip(peer.flight.chain())
        {
            let empty = WorkRequest::new(id, deed.work(&self.keyrings, peer.id, peer.rail), &[]);
            *request = WorkRequest { data: Data::Inline(part), signaled, ..empty };
            signals += u64::from(signaled);
        }
        let hca = &mut self.rails[usize::from(peer.rail)].hca;
        let doorbells = hca.doorbells();
        let posted = hca.post_sends(peer.pair, &requests[..count]);
        self.counts.doorbells += hca.doorbells() - doorbells;
        if posted == Err(HcaRefusal::Full) {
            return Err(Refused::Full);
        }
        self.counts.requests += count as u64;
        self.counts.signaled += signals;
        peer.flight.chain_posted();
        let told = !peer.flight.is_open();
        match posted {
            Ok(()) => self.listed_open(index, told),
            Err(HcaRefusal::State(_)) => self.break_off(index),
            // Some of them may be posted: what was begun ends with the connection.
            Err(_) => self.lose(index),
        }
        Ok(())
    }

    /// Posts whatever is kept back.
    pub(crate) fn post_chains(&mut self) {
        for place in (0..self.chained.len()).rev() {
            if self.post_chain(self.chained[place]).is_ok() {
                self.chained.swap_remove(place);
            }
        }
    }

    /// See [`weft_api::Transport::send_now`]: one look whether the request can be posted without a second one, and what is kept
    /// of it is written where the device reads it. Out of line with six arguments in registers: its callers' registers are all
    /// in use.
    #[inline(never)]
    pub(crate) fn message_now(&mut self, index: u32, header: Header, payload: &[u8]) -> bool {
        match self.short_message(index, header, payload, None) {
            Some(sent) => sent,
            None => self.message_after_a_look(index, header, payload),
        }
    }

    /// Posts a short message, as [`Flight::message`](crate::flight::Flight::message) says.
    #[inline(always)]
    fn short_message(
        &mut self,
        index: u32,
        header: Header,
        payload: &[u8],
        tells: Option<usize>,
    ) -> Option<bool> {
        let peer = self.peers.at_mut(index);
        let hca = &mut self.rails[usize::from(peer.rail)].hca;
        if hca.is_crowded() {
            return None;
        }
        let (id, bytes) = peer.flight.message(header.words(), payload, tells)?;
        if let Err(why) = hca.send_few(peer.pair, id, bytes, tells.is_some()) {
            let id = peer.id;
            return Some(self.short_not_taken(id, why));
        }
        peer.flight.posted(tells.is_some());
        self.short += 1;
        Some(true)
    }

    #[inline(never)]
    fn message_after_a_look(&mut self, index: u32, header: Header, payload: &[u8]) -> bool {
        if !self.peers.at(index).flight.messages_left()
            && self.may_follow(index)
            && let Some(sent) = self.short_message(index, header, payload, None)
        {
            return sent;
        }
        if !self.peers.at(index).flight.messages_left()
            && self.may_tell(index)
            && let Some(sent) = self.short_message(index, header, payload, Some(MESSAGES))
        {
            self.has_told(index, sent);
            return sent;
        }
        let peer = self.peers.at(index);
        let open = matches!(peer.state, State::Open { .. })
            && peer.flight.len() < MESSAGES
            && !self.rails[usize::from(peer.rail)].hca.is_crowded();
        open && self.posts_at_once(index, HEADER_BYTES + payload.len())
            && self.send_inline_to(index, header, payload).is_ok()
    }

    /// See [`weft_api::Transport::put_now`]. The first of a turn is posted at once; those that follow it in the same turn are
    /// kept back, where the device wants that, until there are [`SIGNAL_EVERY`] of them, anything else is posted on the
    /// connection, or the turn ends.
    #[inline(never)]
    pub(crate) fn write_now(&mut self, index: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        if self.rails.len() > 1 {
            return self.write_by_a_rail(index, bytes, to);
        }
        if self.peers.at(index).flight.turn == self.turn {
            return self.write_in_a_row(index, bytes, to);
        }
        match self.short_write(index, bytes, to, true, None) {
            Some(sent) => sent,
            None => self.write_after_a_look(index, bytes, to),
        }
    }

    /// As [`Rdma::write_now`], by one of several devices.
    #[cold]
    #[inline(never)]
    fn write_by_a_rail(&mut self, index: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        if self.has_key(index, to).is_err() {
            return false;
        }
        if self.peers.at(index).flight.turn == self.turn {
            return self.write_in_a_row(index, bytes, to);
        }
        self.write_after_a_look(index, bytes, to)
    }

    /// As [`Rdma::write_now`], of one that follows another in the same turn.
    #[inline(never)]
    fn write_in_a_row(&mut self, index: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        let peer = self.peers.at_mut(index);
        let crowded = self.rails[usize::from(peer.rail)].hca.is_crowded();
        !crowded && peer.flight.keep_back(bytes, to) || self.write_after_a_look(index, bytes, to)
    }

    /// As [`Rdma::short_message`], a write; `one`: there is one device.
    #[inline(always)]
    fn short_write(
        &mut self,
        index: u32,
        bytes: &[u8],
        to: RemoteMemory,
        one: bool,
        tells: Option<usize>,
    ) -> Option<bool> {
        let peer = self.peers.at_mut(index);
        let hca = &mut self.rails[usize::from(peer.rail)].hca;
        if hca.is_crowded() {
            return None;
        }
        let (id, bytes) = peer.flight.write(bytes, to, tells)?;
        let to = if one { first_key(to) } else { self.keyrings.remote(peer.id, to, peer.rail) };
        if let Err(why) = hca.write_few(peer.pair, id, bytes, to, tells.is_some()) {
            let id = peer.id;
            return Some(self.short_not_taken(id, why));
        }
        peer.flight.posted(tells.is_some());
        peer.flight.turn = self.turn;
        self.short += 1;
        Some(true)
    }

    /// Whether a short request may be posted that tells: it is time, the connection is open, and its device has room.
    fn may_tell(&self, index: u32) -> bool {
        let peer = self.peers.at(index);
        matches!(peer.state, State::Open { .. })
            && peer.flight.must_signal()
            && !self.rails[usize::from(peer.rail)].hca.is_crowded()
    }

    /// A short request that tells was given to the device, or was not.
    fn has_told(&mut self, index: u32, posted: bool) {
        self.counts.signaled += u64::from(posted);
        self.listed_open(index, posted);
    }

    #[inline(never)]
    fn write_after_a_look(&mut self, index: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        let chains = self.limits.chains;
        let may_follow = self.may_follow(index);
        let in_a_row = self.peers.at(index).flight.turn == self.turn;
        if may_follow
            && !(chains && in_a_row)
            && let Some(sent) = self.short_write(index, bytes, to, false, None)
        {
            return sent;
        }
        if !matches!(self.peers.at(index).state, State::Open { .. }) || !self.has_room(index, 1) {
            return false;
        }
        if !(chains && in_a_row)
            && self.may_tell(index)
            && let Some(sent) = self.short_write(index, bytes, to, false, Some(MESSAGES))
        {
            self.has_told(index, sent);
            return sent;
        }
        let peer = self.peers.at_mut(index);
        if chains && in_a_row && bytes.len() <= FEW {
            let kept_back = peer.flight.kept_back();
            if kept_back >= SIGNAL_EVERY {
                return false; // The device had no room for them.
            }
            if kept_back > 0 {
                peer.flight.keep_last(bytes, to);
                // What the device has no room for stays kept back.
                let _ = self.post_kept_back(index);
                return true;
            }
            peer.flight.begin_chain();
            if peer.flight.keep_back(bytes, to) {
                if self.chained.last() != Some(&index) {
                    self.chained.push(index);
                }
                return true;
            }
        }
        peer.flight.turn = self.turn;
        let deed = Deed::Write(to);
        let work = deed.work(&self.keyrings, peer.id, peer.rail);
        self.post(index, deed, work, Data::Inline(&[bytes]), Holds::Nothing).is_ok()
    }

    /// Whether a short request may be posted without a signal now: an open connection is listed as one whose newest request
    /// nothing may tell of, has places, and it is known how many may follow.
    #[inline(always)]
    fn may_follow(&mut self, index: u32) -> bool {
        let peer = self.peers.at_mut(index);
        if !matches!(peer.state, State::Open { .. }) {
            return false;
        }
        if !std::mem::replace(&mut peer.open, true) {
            self.open.push(index);
        }
        peer.flight.make_places(MESSAGES);
        peer.flight.allow(MESSAGES);
        peer.flight.is_allowed()
    }

    /// A device did not take a request that is written down already.
    #[cold]
    fn short_not_taken(&mut self, id: PeerId, why: HcaRefusal) -> bool {
        let Some(index) = self.peers.find(id) else { unreachable!("a peer that was just sent to") };
        match why {
            HcaRefusal::State(_) => {
                // As in `not_taken`: the next connection does it.
                self.peers.at_mut(index).flight.posted(false);
                self.break_off(index);
                true
            }
            HcaRefusal::Full => false,
            _ => {
                self.lose(index);
                false
            }
        }
    }

    /// A device did not take a request.
    #[cold]
    pub(crate) fn not_taken<'a>(
        &mut self,
        index: u32,
        why: HcaRefusal,
        request: impl FnOnce() -> (Holds, bool, Deed, Data<'a>),
    ) -> std::result::Result<(), Refused> {
        match why {
            HcaRefusal::State(_) => {
                let (holds, signaled, deed, data) = request();
                // The device gave it up, and the completion that says so is on its way. The next connection does it.
                self.break_off(index);
                if deed == Deed::Atomic {
                    return Err(Refused::Full); // It does no atomics, since it cannot know which were done.
                }
                self.noted(index, holds, signaled, deed, &data);
                Ok(())
            }
            HcaRefusal::Full => Err(Refused::Full),
            _ => {
                self.lose(index);
                Err(Refused::Full)
            }
        }
    }

    /// A request was posted.
    #[inline]
    pub(crate) fn noted(&mut self, index: u32, holds: Holds, signaled: bool, deed: Deed, data: &Data<'_>) {
        let peer = self.peers.at_mut(index);
        peer.flight.push(holds, signaled, deed, data);
        if let Some(out) = peer.rings.as_mut().and_then(|pair| pair.out.as_mut()) {
            match deed {
                Deed::Message => out.sent(peer.flight.next()),
                Deed::Nothing => out.closed(peer.flight.next()),
                Deed::Write(_) | Deed::Read(_) | Deed::Atomic => {}
            }
        }
        self.counts.signaled += u64::from(signaled);
        self.listed_open(index, signaled);
    }

    /// Remembers a connection whose newest request nothing tells of, and how many more may be posted without a second look.
    #[inline]
    fn listed_open(&mut self, index: u32, told: bool) {
        let peer = self.peers.at_mut(index);
        if !told && !peer.open {
            peer.open = true;
            self.open.push(index);
        }
        if peer.open && matches!(peer.state, State::Open { .. }) {
            peer.flight.allow(MESSAGES);
        }
    }

    /// Closes bursts whose last requests nothing tells of, when it is time.
    pub(crate) fn close_bursts(&mut self, now: Nanos) {
        if self.close_at == Nanos::MAX {
            self.close_at = now + QUIET;
        }
        if now < self.close_at && !self.leaving.take() {
            return;
        }
        self.close_at = Nanos::MAX;
        let mut open = std::mem::take(&mut self.open);
        // Closing is never refused, or a crowded device would stay so; a few at a time leave room for what completes.
        let some = open.len().min(CLOSED_AT_ONCE);
        for index in open.drain(..some) {
            let peer = self.peers.at_mut(index);
            let connected = matches!(peer.state, State::Open { .. } | State::Parting { .. });
            if connected && peer.flight.is_open() {
                // It stays listed until nothing was posted for a while; what finds no room is closed the next time.
                let _ = self.close(index);
                self.open.push(index);
            } else {
                peer.open = false;
                peer.flight.stop();
            }
        }
        if !open.is_empty() {
            self.close_at = 0;
        }
        open.append(&mut self.open);
        self.open = open;
    }

    fn close(&mut self, index: u32) -> std::result::Result<(), Refused> {
        self.post_chain(index)?;
        let peer = self.peers.at(index);
        let request = WorkRequest::new(peer.flight.next(), NOTHING, &[]);
        match self.rails[usize::from(peer.rail)].hca.post_send(peer.pair, &request) {
            Ok(()) => {
                self.counts.doorbells += 1;
                self.counts.requests += 1;
                self.noted(index, Holds::Nothing, true, Deed::Nothing, &Data::Segments(&[]));
                Ok(())
            }
            Err(_) => Err(Refused::Full),
        }
    }

    /// Sends a message inline.
    #[inline]
    pub(crate) fn send_inline_to(
        &mut self,
        index: u32,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        self.post_chain(index)?;
        if let Some(written) = self.write_record(index, header, payload) {
            return written;
        }
        let (header, work) = (header_bytes(header), Work::Send { immediate: None });
        self.post(index, Deed::Message, work, Data::Inline(&[&header, payload]), Holds::Nothing)
    }
}

#[inline]
pub(crate) fn header_bytes(header: Header) -> [u8; HEADER_BYTES] {
    let [first, second] = header.words();
    (u128::from(second) << 64 | u128::from(first)).to_le_bytes()
}
