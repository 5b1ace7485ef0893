//! Records on their way out: payloads that no cell holds, in a slot or in the data area.

use super::inbound::Leave;
use super::{Inbound, Shm};
use crate::demote;
use crate::ring::LONG_RECORD;
use crate::rounds::distance::{Distance, Writing};
use crate::sys;
use weft_api::Refused;
use weft_types::PeerId;
use weft_wire::Header;

/// Bytes of the longest record that is demoted; see [`crate::demote`].
const MOST_DEMOTED: usize = 4096;

impl Shm {
    /// Sends a packet whose payload is a record of `len` bytes; `cell` is free.
    ///
    /// # Errors
    /// [`Refused::Full`]: there is neither a slot nor room in the data area, or a long record must wait for its turn
    /// ([`super::inbound`]). [`Refused::Dead`]: nobody will read it.
    #[inline]
    pub(super) fn send_record<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        cell: u32,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        let position = self.position[self.map.local(peer) as usize] as usize;
        let is_long = len >= LONG_RECORD as usize;
        let leave = match self.active.get_mut(position) {
            Some(inbound) if is_long => inbound.turn().ok_or(Refused::Full)?,
            _ => Leave::AtOnce,
        };
        let Some(slot) = self.slot(peer, len, leave) else {
            return self.send_in_data_area(peer, header, cell, len, leave, fill);
        };
        // Its receiver waits for it. Of several in a row each would be later by the time that it takes to demote the ones before.
        let demotes = len <= MOST_DEMOTED
            && self.active.get_mut(position).is_some_and(|inbound| inbound.slots.is_answer())
            && demote::is_there();
        let outbound = self.outbound(peer);
        let place = outbound.producer.place_in_slot(slot);
        outbound.producer.memory_mut().fill_record(cell, header.words(), place, len, fill);
        outbound.producer.publish(len);
        let sent = outbound.notify();
        if demotes {
            outbound.producer.memory().demote(cell, place.offset, len);
        }
        if is_long {
            self.active.get_mut(position).map(Inbound::sent);
        }
        sent
    }

    /// A slot of ours for a record to that process: one that came from there, or a new one. None for a probe that finds room in
    /// the data area.
    #[inline]
    pub(super) fn slot(&mut self, peer: PeerId, len: usize, leave: Leave) -> Option<u32> {
        let local = self.map.local(peer);
        let position = self.position[local as usize] as usize;
        if leave == Leave::Probe && self.outbound(peer).producer.place(len).is_some() {
            return None;
        }
        if let Some(slot) = self.active.get_mut(position).and_then(|inbound| inbound.take_slot(leave)) {
            return Some(slot);
        }
        let (segment, lane, me) = (&self.segment, self.lane, self.me);
        let outbound = self.outbound[local as usize].as_mut()?;
        outbound.fresh.take(|index| {
            let layout = &segment.layout;
            let bytes = u64::from(layout.max_copy);
            let begin = layout.ring(lane, local, me) + layout.slots_offset() + u64::from(index) * bytes;
            sys::back(&segment.file, begin, bytes).is_ok()
        })
    }

    /// Sends a packet whose payload there is no slot for.
    #[inline]
    fn send_in_data_area<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        cell: u32,
        len: usize,
        leave: Leave,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        let position = self.position[self.map.local(peer) as usize] as usize;
        let is_long = len >= LONG_RECORD as usize;
        let alone = is_long && self.active.get(position).is_some_and(|inbound| inbound.is_timed_alone(leave));
        let outbound = self.outbound(peer);
        let Some(place) = outbound.producer.place(len) else { return Err(outbound.full()) };
        // What nobody has touched yet takes its time from the kernel.
        let end = place.offset + len as u32;
        let is_worn = end <= outbound.reached;
        if is_long {
            outbound.reached = end.max(outbound.reached);
        }
        let memory = outbound.producer.memory_mut();
        let writing = if alone {
            let payload = payload(len, fill);
            let writing = Some(Distance::time(len));
            memory.fill_record(cell, header.words(), place, len, |out| out.copy_from_slice(&payload));
            writing
        } else {
            let writing = is_long.then(|| Distance::time(len));
            memory.fill_record(cell, header.words(), place, len, fill);
            writing
        };
        // Before a sleeper is woken, which takes longer.
        let was_slow = writing.filter(|_| is_worn).and_then(Writing::was_slow);
        outbound.producer.take(place, len);
        outbound.producer.publish(len);
        let sent = outbound.notify();
        if let (true, Some(inbound)) = (is_long, self.active.get_mut(position)) {
            inbound.sent();
            if let Some(slow) = was_slow {
                inbound.learn(slow, alone);
            }
        }
        sent
    }
}

/// A payload in memory of this process's own: so that nothing but the copy from there is timed.
#[cold]
fn payload<F: FnOnce(&mut [u8])>(len: usize, fill: F) -> Vec<u8> {
    let mut payload = vec![0; len];
    fill(&mut payload);
    payload
}
