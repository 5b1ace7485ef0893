//! What the device tells: messages that have arrived, requests that are over.

use crate::flight::Holds;
use crate::handshake::Hello;
use crate::peers::State;
use crate::transport::{HEADER_BYTES, NO_KEY, Rdma, SLOT_BYTES};
use weft_api::verbs::{CompletedWork, Completion, CompletionStatus, Hca, Nanos, Segment};

/// A received datagram has 40 bytes in front.
const DATAGRAM_PREFIX: usize = 40;
/// Receive slots that go back to the device with one doorbell.
const RETURNED: usize = 16;

impl<H: Hca> Rdma<H> {
    /// Takes a completion in. Whether it is news: a question answered, a datagram that changes nothing, or unsignalled sends heard of, are
    /// none to whoever waits.
    pub(crate) fn completed_work(&mut self, done: Completion, now: Nanos) -> bool {
        self.counts.completions += 1;
        let received = matches!(done.work, CompletedWork::Receive | CompletedWork::ReceiveWrite);
        self.posted_receives -= u32::from(received);
        if done.queue_pair == self.card.datagrams {
            return received && self.datagram(done);
        }
        let mut news = received || done.status != CompletionStatus::Success;
        let index = self.peers.of_pair(done.queue_pair);
        if received {
            let slot = done.id as u32;
            let good = done.status == CompletionStatus::Success && done.bytes as usize >= HEADER_BYTES;
            match index {
                Some(index) if good => {
                    let peer = self.peers.at_mut(index);
                    peer.resting = false;
                    peer.heard = now;
                    peer.received = peer.received.wrapping_add(1);
                    peer.inbox.push_back((slot, done.bytes));
                    if !std::mem::replace(&mut peer.listed, true) {
                        self.ready.push_back(index);
                    }
                }
                _ => self.repost(slot),
            }
        } else if let Some(index) = index
            && done.status == CompletionStatus::Success
        {
            self.peers.at_mut(index).heard = now;
            while let Some((holds, _)) = self.peers.at_mut(index).flight.retire(done.id) {
                news |= !matches!(holds, Holds::Question);
                self.give_back(holds, true);
            }
        }
        if done.status != CompletionStatus::Success
            && let Some(index) = index
        {
            self.failed(index, done, received);
        }
        news
    }

    /// A datagram came. Whether it opened a connection, which may have been waited for.
    fn datagram(&mut self, done: Completion) -> bool {
        let slot = done.id as u32;
        let address = self.receive_slots.address(slot) + DATAGRAM_PREFIX as u64;
        let length = (done.bytes as usize).saturating_sub(DATAGRAM_PREFIX);
        let hello = (done.status == CompletionStatus::Success)
            .then(|| Hello::parse(self.hca.bytes(address, length)))
            .flatten();
        self.repost(slot);
        let Some(hello) = hello else { return false };
        let is_open = |rdma: &Self| {
            rdma.peers.get(hello.from).is_some_and(|peer| matches!(peer.state, State::Open { .. }))
        };
        let was_open = is_open(self);
        self.greeted(hello);
        !was_open && is_open(self)
    }

    /// A receive slot can be used again.
    pub(crate) fn repost(&mut self, slot: u32) {
        self.returned.push(slot);
        if self.returned.len() >= RETURNED {
            self.return_slots();
        }
    }

    pub(crate) fn return_slots(&mut self) {
        self.posted_receives += self.returned.len() as u32;
        self.counts.receives += self.returned.len() as u64;
        while !self.returned.is_empty() {
            let mut requests = [(0, Segment { address: 0, length: 0, key: NO_KEY }); RETURNED];
            let count = self.returned.len().min(RETURNED);
            for (request, slot) in requests.iter_mut().zip(self.returned.drain(..count)) {
                *request = (u64::from(slot), self.receive_slots.segment(slot, SLOT_BYTES));
            }
            self.counts.receive_doorbells += 1;
            let posted = self.hca.post_receives(self.receives, &requests[..count]);
            debug_assert_eq!(posted, Ok(()), "the queue has room for every slot");
        }
    }
}
