//! Posting: which requests are signalled, what is kept for the case that they must be sent again, and how bursts are closed.

use crate::contact::NOTHING;
use crate::flight::{Deed, FEW, Holds};
use crate::peers::State;
use crate::transport::{HEADER_BYTES, MESSAGES, Rdma, SEND_SLOTS};
use weft_api::Refused;
use weft_api::verbs::{Data, Hca, HcaRefusal, Nanos, Work, WorkRequest};
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

    /// The place of a peer that a message can be sent to.
    pub(crate) fn sendable(&self, id: PeerId) -> std::result::Result<u32, Refused> {
        let index = self.peers.find(id).ok_or(Refused::Full)?;
        let peer = self.peers.at(index);
        match peer.state {
            State::Open { .. }
                if peer.flight.len() < MESSAGES && !self.rails[usize::from(peer.rail)].hca.is_crowded() =>
            {
                Ok(index)
            }
            State::Datagrams if peer.flight.len() < MESSAGES => Ok(index),
            State::Gone => Err(Refused::Dead),
            _ => Err(Refused::Full),
        }
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
        let peer = self.peers.at(index);
        let signaled = match holds {
            Holds::Token(_) | Holds::SlotAndToken(..) | Holds::Found(..) => true,
            Holds::Share(_) | Holds::Question => true,
            Holds::Slot(_) => peer.flight.must_signal() || self.send_slots.left() < SCARCE,
            Holds::Nothing => peer.flight.must_signal(),
        };
        let request =
            WorkRequest { id: peer.flight.next(), work, data, signaled, fence: false, solicited: false };
        if let Err(why) = self.rails[usize::from(peer.rail)].hca.post_send(peer.pair, &request) {
            return self.not_taken(index, why, || (holds, signaled, deed, data));
        }
        self.counts.doorbells += 1;
        self.counts.requests += 1;
        self.noted(index, holds, signaled, deed, &data);
        Ok(())
    }

    /// As [`Rdma::post`] of a few bytes that nobody awaits: they are put together once, for the device and for the case that they must be sent again.
    #[inline]
    pub(crate) fn post_few(
        &mut self,
        index: u32,
        deed: Deed,
        work: Work,
        few: &[u8; FEW],
        length: usize,
    ) -> std::result::Result<(), Refused> {
        let peer = self.peers.at(index);
        let signaled = peer.flight.must_signal();
        let parts = [&few[..length]];
        let data = Data::Inline(&parts);
        let request =
            WorkRequest { id: peer.flight.next(), work, data, signaled, fence: false, solicited: false };
        if let Err(why) = self.rails[usize::from(peer.rail)].hca.post_send(peer.pair, &request) {
            return self.not_taken(index, why, || (Holds::Nothing, signaled, deed, data));
        }
        self.counts.doorbells += 1;
        self.counts.requests += 1;
        self.peers.at_mut(index).flight.push_few(signaled, deed, few, length);
        self.listed_open(index, signaled);
        Ok(())
    }

    /// A device did not take a request.
    #[cold]
    fn not_taken<'a>(
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
        self.listed_open(index, signaled);
    }

    /// Remembers a connection whose newest request nothing tells of.
    #[inline]
    fn listed_open(&mut self, index: u32, signaled: bool) {
        let peer = self.peers.at_mut(index);
        self.counts.signaled += u64::from(signaled);
        if !signaled && !peer.open {
            peer.open = true;
            self.open.push(index);
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
            peer.open = false;
            let connected = matches!(peer.state, State::Open { .. } | State::Parting { .. });
            if connected && peer.flight.is_open() && self.close(index).is_err() {
                let peer = self.peers.at_mut(index);
                peer.open = true;
                self.open.push(index);
            }
        }
        if !open.is_empty() {
            self.close_at = 0;
        }
        open.append(&mut self.open);
        self.open = open;
    }

    fn close(&mut self, index: u32) -> std::result::Result<(), Refused> {
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
        let (header, work) = (header_bytes(header), Work::Send { immediate: None });
        if payload.len() <= FEW - HEADER_BYTES {
            let mut few = [0; FEW];
            few[..HEADER_BYTES].copy_from_slice(&header);
            few[HEADER_BYTES..HEADER_BYTES + payload.len()].copy_from_slice(payload);
            return self.post_few(index, Deed::Message, work, &few, HEADER_BYTES + payload.len());
        }
        let parts = [&header[..], payload];
        self.post(index, Deed::Message, work, Data::Inline(&parts), Holds::Nothing)
    }
}

#[inline]
pub(crate) fn header_bytes(header: Header) -> [u8; HEADER_BYTES] {
    let [first, second] = header.words();
    (u128::from(second) << 64 | u128::from(first)).to_le_bytes()
}
