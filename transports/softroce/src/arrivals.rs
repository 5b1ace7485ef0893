//! Packets that come in: checked, given to their queue pair, answered.

use crate::device::{Device, Event, Flow, enlist, note_deadline};
use crate::memory::Memory;
use crate::requester::Ended;
use crate::responder::{Outcome, Surroundings};
use crate::wire::{Operation, Packet};
use std::net::SocketAddr;
use weft_api::verbs::{Nanos, QueuePairNumber, QueuePairPlan, QueuePairState};

impl<M: Memory> Device<M> {
    /// Takes in a datagram. `identification` is that of its IPv4 header, 0 where the driver cannot know it.
    pub fn receive(&mut self, now: Nanos, from: SocketAddr, identification: u16, datagram: &[u8]) {
        let flow = Flow { source: from, destination: self.local };
        self.receive_by(now, flow, identification, datagram);
    }

    /// As [`Device::receive`], for drivers whose device has several addresses: the flow says to which of them it came.
    pub fn receive_by(&mut self, now: Nanos, flow: Flow, identification: u16, datagram: &[u8]) {
        let from = flow.source;
        let Some(bytes) = self.arriving.open(flow, identification, datagram) else {
            self.counters.corrupt += 1;
            return;
        };
        let taken = match Packet::parse(bytes) {
            Ok(packet) if packet.opcode.is_datagram() => self.receive_datagram(flow, &packet),
            Ok(packet) => self.receive_connected(now, from, &packet),
            Err(_) => false,
        };
        if taken {
            self.counters.received += 1;
        } else {
            self.counters.dropped += 1;
        }
    }

    fn receive_connected(&mut self, now: Nanos, from: SocketAddr, packet: &Packet<'_>) -> bool {
        let Some(pair) = self.queue_pairs.get_mut(&packet.to) else { return false };
        let expected = pair.remote.is_some_and(|remote| remote.address.socket.ip() == from.ip());
        if !expected || !pair.receives_packets() || packet.pkey & 0x7fff != 0x7fff {
            return false;
        }
        let (number, plan) = (pair.number, pair.plan);
        if packet.opcode.is_response() {
            let Some(requester) = &mut pair.requester else { return false };
            let mut ended = Ended::default();
            match (packet.opcode.operation(), packet.aeth) {
                (Operation::Acknowledge, Some(aeth)) => {
                    requester.acknowledged(now, packet.psn, aeth.syndrome, &mut ended, number);
                }
                _ => requester.answered(now, packet, &mut self.memory, &mut ended, number),
            }
            note_deadline(&mut self.deadlines, pair);
            if pair.has_more() {
                enlist(&mut self.active, pair);
            }
            let drains = pair.state == QueuePairState::SendQueueDrained;
            if ended.fatal || drains || !ended.completions.is_empty() {
                self.settle(number.0, ended);
            }
        } else {
            let Some(responder) = &mut pair.responder else { return false };
            let receives = match plan.shared_receive_queue {
                Some(shared) => &mut self.shared_receives[shared.0 as usize],
                None => &mut pair.receives,
            };
            let outcome = responder.receive(
                packet,
                &mut Surroundings {
                    own: number,
                    domain: plan.domain,
                    regions: &self.regions,
                    receives,
                    memory: &mut self.memory,
                },
            );
            if pair.has_more() {
                enlist(&mut self.active, pair);
            }
            self.received(number, plan, outcome);
        }
        true
    }

    pub(crate) fn received(&mut self, number: QueuePairNumber, plan: QueuePairPlan, outcome: Outcome) {
        if let Some(completion) = outcome.completion {
            self.complete(plan.receive_queue, completion);
        }
        if let (true, Some(shared)) = (outcome.limit, plan.shared_receive_queue) {
            self.events.push_back(Event::LimitReached(shared));
        }
        if outcome.fatal {
            self.settle(number.0, Ended { fatal: true, ..Ended::default() });
        }
    }
}
