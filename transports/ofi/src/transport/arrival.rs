//! What has ended: messages that came, sends and operations that are over.

use super::{Ofi, Use};
use crate::packet::{PREFIX, Prefix, What, joined};
use crate::slots::{Done, Slot, Work};
use weft_types::PeerId;

/// A packet that has arrived: a part of a slot, from the byte in front of its head to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) slot: Slot,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Ofi {
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
                self.peers[number as usize].in_flight -= 1;
                if !good {
                    self.lose(number);
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
    fn arrived(&mut self, slot: Slot, bytes: usize) -> bool {
        let message = self.slots.bytes(slot, bytes.min(self.longest));
        let Some(prefix) = Prefix::parse(message) else { return false };
        let named = named_in(message);
        if prefix.key != self.card.key || prefix.from == self.me {
            return false;
        }
        // Whoever cannot be found cannot be answered either.
        let Ok(number) = self.introduce(prefix.from) else { return false };
        let peer = &mut self.peers[number as usize];
        if peer.gone && !matches!(prefix.what, What::Data | What::Joined) {
            return false;
        }
        peer.heard = self.clock;
        peer.asked = false;
        peer.flow.told(prefix.taken, prefix.arrived);
        peer.resting = prefix.what == What::Rest;
        match prefix.what {
            What::Data | What::Joined => return self.packets_arrived(number, &prefix, slot, bytes),
            What::News | What::Rest => {}
            What::Ask => {
                if peer.missing.is_none() && peer.flow.lacks(prefix.sequence) {
                    peer.missing = Some((self.clock, prefix.sequence));
                }
                self.news_are_due(number);
            }
            What::Lost => {
                // Who names this process has lost something of it.
                let named = named.filter(|&named| named != self.me).unwrap_or(prefix.from);
                if let Ok(number) = self.introduce(named) {
                    // Whoever said so says it to the others, too.
                    self.lost_in_groups(named, false);
                    self.lose(number);
                }
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

impl Ofi {
    /// A message brought packets of a peer. False: none of them is new.
    fn packets_arrived(&mut self, number: u32, prefix: &Prefix, slot: Slot, bytes: usize) -> bool {
        let peer = &mut self.peers[number as usize];
        let mut arrive = |sequence, start: usize, end: usize| {
            let packet = Arrived { slot, start: start as u32, end: end as u32 };
            u16::from(peer.flow.arrive(sequence, packet).is_ok())
        };
        let mut shares = 0;
        if prefix.what == What::Data {
            shares = arrive(prefix.sequence, 0, bytes);
        } else {
            let mut sequence = prefix.sequence;
            for place in joined(self.slots.bytes(slot, bytes.min(self.longest))) {
                shares += arrive(sequence, place.start, place.end);
                sequence = sequence.wrapping_add(1);
            }
        }
        self.shares[slot.index()] = shares;
        if shares == 0 {
            return false;
        }
        if !std::mem::replace(&mut peer.listed, true) {
            self.ready.push_back(number);
        }
        true
    }
}

/// The process that a message about a death names.
fn named_in(message: &[u8]) -> Option<PeerId> {
    let body = message.get(PREFIX..PREFIX + 4)?;
    Some(PeerId(u32::from_le_bytes(body.try_into().expect("four bytes"))))
}
