//! What has ended: messages that came, sends and operations that are over.

use super::{Ofi, Use};
use crate::clock;
use crate::contact::Missing;
use crate::packet::{HEAD, PREFIX, Prefix, What, parts};
use crate::slots::{Done, Slot, Work};
use weft_types::PeerId;

/// Where a packet lies that has arrived: its header and what follows in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: Slot,
    pub(super) at: u32,
    pub(super) end: u32,
}

impl Ofi {
    /// A packet of a slot is taken.
    pub(crate) fn let_go(&mut self, slot: Slot) {
        let untaken = &mut self.untaken[slot.index()];
        *untaken -= 1;
        if *untaken == 0 {
            self.slots.give_back(slot);
        }
    }

    pub(super) fn handle(&mut self, done: Done) {
        let good = done.error == 0;
        let slot = match done.work {
            Work::Slot(slot) => slot,
            Work::Piece(operation) => return self.operations.piece_ended(operation, good, 0),
            // A small message that nobody keeps track of has failed: the questions find out whose.
            Work::Unknown => return self.doubt_everybody(),
        };
        match self.uses[slot.index()] {
            Use::Receive => {
                self.posted -= 1;
                if good && self.arrived(slot, done.bytes) {
                    return;
                }
            }
            Use::Send(number) => {
                self.sending -= 1;
                let peer = &mut self.peers[number as usize];
                peer.in_flight -= 1;
                peer.stuck = None;
                if !good {
                    self.doubt(number);
                }
            }
            Use::Operation(operation) => {
                self.sending -= 1;
                self.operations.piece_ended(operation, good, 0);
            }
            Use::Atomic(operation) => {
                self.sending -= 1;
                let found = self.slots.bytes(slot, 24)[16..].try_into().expect("eight bytes");
                self.operations.piece_ended(operation, good, u64::from_ne_bytes(found));
            }
        }
        self.slots.give_back(slot);
    }

    /// A message came. False: its slot is not needed any more.
    pub(crate) fn arrived(&mut self, slot: Slot, bytes: usize) -> bool {
        let message = self.slots.bytes(slot, bytes.min(self.longest));
        let Some(prefix) = Prefix::parse(message) else { return false };
        let named = named_in(message);
        if prefix.key != self.card.key || prefix.from == self.me {
            return false;
        }
        let number = match self.numbers.get(&prefix.from.0) {
            Some(&number) => number,
            None if self.is_stranger(prefix.from) => return self.keep_of_stranger(prefix.from, slot, bytes),
            None => match self.introduce(prefix.from) {
                Ok(number) => number,
                Err(_) => return self.keep_of_stranger(prefix.from, slot, bytes),
            },
        };
        let peer = &mut self.peers[number as usize];
        if peer.gone {
            if !matches!(prefix.what, What::Rest | What::Lost | What::Broken) {
                self.answer_lost(number);
            }
            if !matches!(prefix.what, What::Data | What::Many) {
                return false;
            }
        }
        let peer = &mut self.peers[number as usize];
        peer.heard = self.clock;
        peer.asked = false;
        peer.flow.told(prefix.taken, prefix.arrived);
        // What was said before may be seen later; of somebody who was not heard yet anything is new.
        if !peer.is_known || prefix.era.is_since(peer.era) {
            (peer.is_known, peer.era, peer.resting) = (true, prefix.era, prefix.era.rests());
        }
        match prefix.what {
            What::Data | What::Many => {
                let mut sequence = prefix.sequence;
                let mut untaken = 0;
                let message = self.slots.bytes(slot, bytes.min(self.longest));
                for (at, length) in parts(message, prefix.what) {
                    let end = (at + HEAD - PREFIX + length) as u32;
                    let place = Place { slot, at: at as u32, end };
                    untaken += u16::from(peer.flow.arrive(sequence, place).is_ok());
                    sequence = sequence.wrapping_add(1);
                }
                self.untaken[slot.index()] = untaken;
                if untaken == 0 {
                    return false;
                }
                if !std::mem::replace(&mut peer.listed, true) {
                    self.ready.push_back(number);
                }
                return true;
            }
            What::News | What::Rest => {}
            What::Ask => {
                if peer.missing.is_none() && peer.flow.lacks(prefix.sequence) {
                    peer.missing = Some(Missing {
                        since: clock::now(),
                        number: peer.flow.seen().1,
                        next: prefix.sequence,
                    });
                }
                self.news_are_due(number);
            }
            What::Lost => {
                // Who names this process has lost something of it.
                let named = named.filter(|&named| named != self.me).unwrap_or(prefix.from);
                // Also of somebody who cannot be found.
                let number = self.introduce(named).unwrap_or_else(|_| self.remember_by_number(named));
                // Whoever said so says it to the others, too.
                self.lost_in_groups(named, false);
                self.lose(number);
            }
            What::Broken => {
                if let Some(PeerId(name)) = named {
                    self.broken_elsewhere(prefix.from, name);
                }
            }
        }
        false
    }
}

/// The process that a message about a death names.
fn named_in(message: &[u8]) -> Option<PeerId> {
    let body = message.get(PREFIX..PREFIX + 4)?;
    Some(PeerId(u32::from_le_bytes(body.try_into().expect("four bytes"))))
}
