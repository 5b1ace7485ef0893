//! Packets that go out: the next one of whoever has some, sealed, and those that are repeated because their time is over.

use crate::device::{Device, Flow, note_deadline};
use crate::memory::Memory;
use crate::requester::Ended;
use std::net::SocketAddr;
use weft_api::verbs::{Nanos, Service};

/// Packets that one queue pair may send before others get their turn: as many as a driver can hand on together.
const ROW: u32 = 64;

impl<M: Memory> Device<M> {
    /// Writes the next packet that may go out, sealed, into `datagram` (cleared first), and says where it goes.
    pub fn transmit(&mut self, now: Nanos, datagram: &mut Vec<u8>) -> Option<SocketAddr> {
        let local = self.local;
        self.transmit_from(|| now, datagram, |_, _| local)
    }

    /// As [`Device::transmit`], for drivers that send from several addresses or ports: `source` says from which those of a
    /// service to an address leave. `now` is asked for the time when it matters: a clock may take as long as a packet.
    pub fn transmit_from(
        &mut self,
        now: impl Fn() -> Nanos,
        datagram: &mut Vec<u8>,
        source: impl FnOnce(SocketAddr, Service) -> SocketAddr,
    ) -> Option<SocketAddr> {
        // Each listed queue pair gets a few packets in turn; who has none leaves the list.
        while let Some(number) = self.active.pop_front() {
            let Some(pair) = self.queue_pairs.get_mut(&number) else { continue };
            datagram.clear();
            let mut ended = Ended::default();
            let to = pair.transmit(&now, &self.regions, &self.memory, &mut ended, datagram);
            self.row += 1;
            match to {
                Some(_) if pair.has_more() && self.row < ROW => self.active.push_front(number),
                Some(_) if pair.has_more() => {
                    self.active.push_back(number);
                    self.row = 0;
                }
                _ => (pair.listed, self.row) = (false, 0),
            }
            let service = pair.plan.service;
            note_deadline(&mut self.deadlines, pair);
            if ended.fatal || !ended.completions.is_empty() {
                self.settle(number, ended);
            }
            if let Some(to) = to {
                self.leaving.seal(Flow { source: source(to, service), destination: to }, datagram);
                self.counters.sent += 1;
                return Some(to);
            }
        }
        None
    }

    /// Whether any queue pair may have something to send.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// When [`Device::tick`] has something to do.
    pub fn deadline(&self) -> Option<Nanos> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Time passed: packets are repeated where answers are overdue.
    pub fn tick(&mut self, now: Nanos) {
        while let Some(&(at, number)) = self.deadlines.first() {
            if at > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(pair) = self.queue_pairs.get_mut(&number) else { continue };
            pair.noted_deadline = None;
            if !pair.sends_packets() {
                continue;
            }
            if pair.deadline().is_none_or(|due| due > now) {
                // Answers have come since it was noted.
                note_deadline(&mut self.deadlines, pair);
                continue;
            }
            let mut ended = Ended::default();
            if let Some(requester) = &mut pair.requester {
                requester.tick(now, self.patient, &mut ended, pair.number);
                let remote = pair.remote.map(|remote| remote.address.socket);
                if self.patient && requester.is_late() {
                    self.doubted.extend(remote);
                }
                if self.patient && requester.is_overdue() {
                    self.overdue.extend(remote);
                }
            }
            note_deadline(&mut self.deadlines, pair);
            self.settle(number, ended);
            self.list(number);
        }
    }
}
