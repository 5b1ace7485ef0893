//! What goes to a peer: packets of the engine, and words between the transports.

use super::{LEAST_INLINE, Ofi, Use};
use crate::clock;
use crate::device::Denied;
use crate::packet::{HEAD, PREFIX, Prefix, What, header_bytes};
use crate::slots::Slot;
use weft_api::Refused;
use weft_types::PeerId;
use weft_wire::Header;

impl Ofi {
    pub(crate) fn prefix(&self, number: u32, what: What) -> Prefix {
        let peer = &self.peers[number as usize];
        let (taken, arrived) = peer.flow.seen();
        Prefix {
            key: peer.key,
            from: self.me,
            sequence: peer.flow.next(),
            taken,
            arrived,
            era: self.era,
            what,
        }
    }

    /// Sends a message that lies in a slot; the slot is the library's, or free again.
    fn send_slot(&mut self, number: u32, slot: Slot, bytes: usize) -> std::result::Result<(), Refused> {
        let peer = &mut self.peers[number as usize];
        match self.slots.send(slot, bytes, peer.address) {
            Ok(()) => {
                self.uses[slot.index()] = Use::Send(number);
                self.sending += 1;
                peer.in_flight += 1;
                (peer.reached, peer.stuck) = (true, None);
                Ok(())
            }
            Err(denied) => {
                self.slots.give_back(slot);
                Err(self.refused(number, denied))
            }
        }
    }

    pub(crate) fn refused(&mut self, number: u32, denied: Denied) -> Refused {
        match denied {
            _ if self.peers[number as usize].gone => Refused::Dead,
            Denied::Again => {
                // Also while a send is under way: one that a provider took on a connection that closed then may never end.
                let peer = &mut self.peers[number as usize];
                peer.stuck.get_or_insert_with(clock::now);
                if !peer.reached {
                    self.company.waits_to_reach(number);
                }
                Refused::Full
            }
            Denied::Failed(_) => {
                self.doubt(number);
                Refused::Full
            }
        }
    }

    /// Says something that is no packet. False: not now.
    ///
    /// Always by a slot: of a message without one nobody learns to whom it failed.
    pub(crate) fn say(&mut self, number: u32, prefix: Prefix, named: Option<PeerId>) -> bool {
        if self.peers[number as usize].doubted && !self.peers[number as usize].gone {
            return false;
        }
        if !self.has_place(number) {
            self.refused(number, Denied::Again);
            return false;
        }
        if self.let_leave(number).is_err() {
            return false;
        }
        let Some(slot) = self.slot() else { return false };
        let body = named.map_or([0; 4], |named| named.0.to_le_bytes());
        let bytes = if named.is_some() { PREFIX + body.len() } else { PREFIX };
        let message = self.slots.bytes_mut(slot, PREFIX + body.len());
        message[..PREFIX].copy_from_slice(&prefix.emit());
        message[PREFIX..].copy_from_slice(&body);
        let sent = self.send_slot(number, slot, bytes).is_ok();
        if sent {
            self.peers[number as usize].flow.news();
        }
        sent
    }

    /// Tells the peers to whom news are due.
    pub(super) fn tell_news(&mut self) {
        for at in (0..self.due.len()).rev() {
            let number = self.due[at];
            let peer = &self.peers[number as usize];
            // News alone do not wake a process that rests.
            let what = if self.rests() { What::Rest } else { What::News };
            if peer.gone || peer.resting || self.say(number, self.prefix(number, what), None) {
                self.due.swap_remove(at);
                self.peers[number as usize].due = false;
            }
        }
    }

    pub(crate) fn news_are_due(&mut self, number: u32) {
        if !std::mem::replace(&mut self.peers[number as usize].due, true) {
            self.due.push(number);
        }
    }

    /// Ready for another packet to a peer.
    fn sendable(&mut self, number: u32) -> std::result::Result<(), Refused> {
        let peer = &self.peers[number as usize];
        if peer.shut {
            self.opens(number)
        } else if peer.flow.has_room() {
            Ok(())
        } else {
            Err(Refused::Full)
        }
    }

    /// As [`Ofi::sendable`], of a peer that cannot be sent to as things are.
    #[cold]
    fn opens(&mut self, number: u32) -> std::result::Result<(), Refused> {
        if !self.peers[number as usize].gone && !self.has_place(number) {
            return Err(self.refused(number, Denied::Again));
        }
        let peer = &self.peers[number as usize];
        if peer.gone {
            Err(Refused::Dead)
        } else if !peer.shut && peer.flow.has_room() {
            Ok(())
        } else {
            Err(Refused::Full)
        }
    }

    pub(super) fn inline(
        &mut self,
        number: u32,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        self.sendable(number)?;
        let bytes = HEAD + payload.len();
        let fill = |place: &mut [u8]| place.copy_from_slice(payload);
        if bytes > self.inject {
            return self.copy(number, header, payload.len(), fill);
        }
        if self.keep(number, header, payload.len(), fill)?.is_none() {
            return Ok(());
        }
        let mut message = [0; HEAD + LEAST_INLINE];
        self.go_on();
        let prefix = self.prefix(number, What::Data).emit();
        message[..PREFIX].copy_from_slice(&prefix);
        message[PREFIX..HEAD].copy_from_slice(&header_bytes(header));
        message[HEAD..bytes].copy_from_slice(payload);
        let peer = &mut self.peers[number as usize];
        match self.slots.device().inject(&message[..bytes], peer.address) {
            Ok(()) => {
                peer.flow.was_sent();
                peer.flow.news();
                (peer.reached, peer.stuck) = (true, None);
                self.messages += 1;
                Ok(())
            }
            Err(denied) => Err(self.refused(number, denied)),
        }
    }

    pub(super) fn copy<F: FnOnce(&mut [u8])>(
        &mut self,
        number: u32,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        self.sendable(number)?;
        let Some(fill) = self.keep(number, header, len, fill)? else { return Ok(()) };
        let slot = self.slot_for_data().ok_or(Refused::Full)?;
        self.go_on();
        let prefix = self.prefix(number, What::Data).emit();
        let message = self.slots.bytes_mut(slot, HEAD + len);
        message[..PREFIX].copy_from_slice(&prefix);
        message[PREFIX..HEAD].copy_from_slice(&header_bytes(header));
        fill(&mut message[HEAD..]);
        self.send_slot(number, slot, HEAD + len)?;
        let flow = &mut self.peers[number as usize].flow;
        flow.was_sent();
        flow.news();
        self.messages += 1;
        Ok(())
    }
}
