//! Small packets that leave together.
//!
//! Every send of a socket provider is a system call, and every send of a device a doorbell. The first packets to a peer after a
//! look for news leave at once; those that follow them wait in one slot for the next look, or until half of the window is there,
//! and are one message. So who sends one packet and waits pays nothing, and who sends many at a time pays once for dozens.
//!
//! Invariants: the packets that a peer's slot gathers have numbers that follow each other, so whatever leaves by itself leaves
//! after them; a peer with such packets stands in the list of those until they have left or the peer is gone.

use super::{Ofi, Use};
use crate::flow::WINDOW;
use crate::packet::{PREFIX, Prefix, What, begin_among_others, bytes_among_others};
use crate::slots::Slot;
use weft_api::Refused;
use weft_wire::Header;

/// Packets to a peer that leave at once between two looks: who says a word and its continuation, and then computes, has said both.
const AT_ONCE: u8 = 2;
/// Longest payload that waits for company, in bytes: from there on a copy costs about what a call does.
const LONGEST_JOINED: usize = 1 << 10;
/// Longest message of several packets, in bytes: what providers copy at once.
const MOST_BYTES: usize = 8 << 10;
/// Packets that do not wait for more: the peer can work on half of the window while the other half is gathered.
const ENOUGH: u16 = WINDOW / 2;

/// Packets to one peer that wait.
#[derive(Debug)]
pub(crate) struct Gathering {
    slot: Slot,
    /// Of the message so far.
    bytes: usize,
    /// The number of the first one.
    first: u16,
    packets: u16,
}

impl Ofi {
    /// Whether a packet shall wait for company: it is small and follows others of this turn.
    pub(super) fn waits_for_company(&mut self, number: u32, payload: usize) -> bool {
        let peer = &mut self.peers[number as usize];
        if peer.turn != self.turn {
            (peer.turn, peer.at_once) = (self.turn, 0);
        }
        payload <= LONGEST_JOINED.min(self.longest / 4)
            && (peer.gathering.is_some() || peer.at_once >= AT_ONCE)
    }

    /// Puts a packet to those that wait.
    pub(super) fn gather<F: FnOnce(&mut [u8])>(
        &mut self,
        number: u32,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        let (place, most) = (number as usize, MOST_BYTES.min(self.longest));
        let room = bytes_among_others(len);
        if self.peers[place].gathering.as_ref().is_some_and(|open| open.bytes + room > most) {
            self.send_gathered(number)?;
        }
        if self.peers[place].gathering.is_none() {
            let slot = self.slot_for_data().ok_or(Refused::Full)?;
            self.sending += 1;
            let peer = &mut self.peers[place];
            peer.gathering = Some(Gathering { slot, bytes: PREFIX, first: peer.flow.next(), packets: 0 });
            if !std::mem::replace(&mut peer.gathers, true) {
                self.gathered.push(number);
            }
        }
        let peer = &mut self.peers[place];
        let open = peer.gathering.as_mut().expect("it was just made, if it was not there");
        let message = self.slots.bytes_mut(open.slot, open.bytes + room);
        fill(begin_among_others(&mut message[open.bytes..], header, len));
        open.bytes += room;
        open.packets += 1;
        let enough = open.packets >= ENOUGH;
        peer.flow.was_sent();
        self.rests = false;
        if enough {
            // What is refused now is offered again with the next turn; of a death, the next packet is told.
            let _ = self.send_gathered(number);
        }
        Ok(())
    }

    /// Sends what waits for a peer.
    ///
    /// # Errors
    /// See [`Refused`]: when full, it waits on; when dead, it is dropped.
    pub(super) fn send_gathered(&mut self, number: u32) -> std::result::Result<(), Refused> {
        let peer = &mut self.peers[number as usize];
        let Some(gathering) = peer.gathering.take() else { return Ok(()) };
        let (address, gone) = (peer.address, peer.gone);
        let refused = if gone {
            Refused::Dead
        } else {
            let prefix = Prefix { sequence: gathering.first, ..self.prefix(number, What::Joined) };
            self.slots.bytes_mut(gathering.slot, PREFIX).copy_from_slice(&prefix.emit());
            match self.slots.send(gathering.slot, gathering.bytes, address) {
                Ok(()) => {
                    self.messages += 1;
                    self.uses[gathering.slot.index()] = Use::Send(number);
                    let peer = &mut self.peers[number as usize];
                    peer.in_flight += 1;
                    peer.stuck = None;
                    peer.flow.news();
                    return Ok(());
                }
                Err(denied) => self.refused(number, denied),
            }
        };
        if refused == Refused::Full {
            self.peers[number as usize].gathering = Some(gathering);
        } else {
            self.slots.give_back(gathering.slot);
            self.sending -= 1;
        }
        Err(refused)
    }

    /// Sends what waits for anybody, as far as that is possible now.
    pub(super) fn send_all_gathered(&mut self) {
        for at in (0..self.gathered.len()).rev() {
            let number = self.gathered[at];
            if self.send_gathered(number) != Err(Refused::Full) {
                self.gathered.swap_remove(at);
                self.peers[number as usize].gathers = false;
            }
        }
    }
}
