//! Rings that others begin to send on, and deaths, which are announced in the same way.

use super::{Departure, Inbound, Inquiry, NOT_ACTIVE, Shm};
use crate::arrivals::take_in;
use crate::past;
use crate::raw::RawRing;
use crate::ring::Consumer;
use crate::segment::PeerState;
use crate::shuttle::Shuttle;
use crate::words::Word;
use std::sync::Arc;
use weft_types::{Farewell, PeerId};

impl Shm {
    /// Takes in the rings that were announced since the last look.
    #[cold]
    pub(super) fn accept(&mut self) -> bool {
        let mut fresh = Vec::new();
        let (ranks, position) = (self.segment.layout.ranks, &self.position);
        let seen = take_in(&self.inbound.announced(self.me), self.segment.layout.inbound_words(), |local| {
            if local < ranks && position[local as usize] == NOT_ACTIVE {
                fresh.push(local);
            }
        });
        let moved = !fresh.is_empty();
        fresh.into_iter().for_each(|local| self.activate(local));
        // The launcher announces deaths in the same way, and processes their farewells.
        for local in 0..self.segment.layout.ranks {
            if !self.seen_dead[local as usize] && self.segment.slot(local).state() == PeerState::Dead {
                self.seen_dead[local as usize] = true;
                self.lost.push((self.map.peer(local), Departure::Death));
            }
            let said = self.segment.slot(local).said();
            if local != self.me && self.seen_farewells[local as usize] != said {
                self.seen_farewells[local as usize] = said;
                self.lost.push((self.map.peer(local), Departure::Farewell));
            }
        }
        // What lies in other lanes stays on this node.
        if self.lane == 0 {
            let before = self.lost.len();
            let far = self.segment.far_losses(self.far_seen).map(|peer| (PeerId(peer), Departure::Death));
            self.lost.extend(far);
            self.far_seen += (self.lost.len() - before) as u32;
            self.take_words();
        }
        self.arrivals = seen;
        moved || !self.lost.is_empty() || !self.inquiries.is_empty()
    }

    /// Takes in what else the launcher has said.
    fn take_words(&mut self) {
        let (words, seen) = self.segment.words(self.words_seen);
        for word in words {
            match word {
                Word::Farewell(peer, farewell) if !self.map.contains(peer) => {
                    let said = self.far_farewells.entry(peer).or_insert(Farewell::NONE);
                    *said = said.and(farewell);
                    self.lost.push((peer, Departure::Farewell));
                }
                Word::Asks { local, peer } if local == self.me => self.inquiries.push(Inquiry::Asks(peer)),
                Word::Unreachable { local, peer } if local == self.me => {
                    self.inquiries.push(Inquiry::Unreachable(peer));
                }
                _ => {}
            }
        }
        self.words_seen = seen;
    }

    fn activate(&mut self, local: u32) {
        let layout = &self.segment.layout;
        let offset = u64::from(local) * layout.ring_bytes();
        // SAFETY: the ring lies in the column by the layout; the column stays mapped as long as `self`, which owns
        // the consumer; this process is the only consumer (it claimed the slot) and makes it once.
        let memory =
            unsafe { RawRing::new(self.column.base().add(offset as usize), layout, self.fenced, None) };
        self.position[local as usize] = self.active.len() as u16;
        let consumer = Consumer::new(memory, layout.cells, layout.data_bytes);
        self.active.push(Inbound::new(consumer, self.map.peer(local), local));
        self.introduce_twins(local);
    }

    /// Tells the two rings that we share with a process about each other, as soon as both are in use.
    pub(super) fn introduce_twins(&mut self, local: u32) {
        let layout = self.segment.layout;
        // Where ranks share cores a line costs nothing, and pauses do. The same at both ends.
        let has_shuttle = !self.is_crowded() && (past::HAS_TICKS || cfg!(test));
        let second = local < self.me;
        let Some(outbound) = &mut self.outbound[local as usize] else { return };
        // SAFETY: the ring of that sender in our column, which stays mapped as long as `self`.
        unsafe {
            let base = self.column.base().add((u64::from(local) * layout.ring_bytes()) as usize);
            outbound.producer.memory_mut().know_twin(base, &layout, second);
        }
        if let Some(inbound) = self.active.get_mut(self.position[local as usize] as usize) {
            // SAFETY: the ring that we send on to that process; it is never unmapped before `self` ends.
            unsafe { inbound.consumer.memory_mut().know_twin(outbound.mapping.base(), &layout, !second) };
            if has_shuttle {
                let shuttle = Arc::new(Shuttle::new(second));
                outbound.producer.share(Arc::clone(&shuttle));
                inbound.consumer.share(shuttle);
            }
        }
    }
}
