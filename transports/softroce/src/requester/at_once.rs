//! Short requests in one piece: posted, made a packet and counted, without a place in any list that is looked through.
//!
//! That is most of a program's messages. It is the general way with the steps left out that find nothing: the queue pair has nothing
//! else to send, nor has any other. The tests compare both, packets and state.

use super::{Cursor, Entry, Requester};
use crate::device::{Device, note_deadline};
use crate::emission::emit;
use crate::memory::Memory;
use crate::request::{Data, Few, Posted};
use crate::wire::icrc::Flow;
use crate::wire::{Opcode, Packet};
use std::net::SocketAddr;
use weft_api::verbs::{Nanos, QueuePairNumber, QueuePairState, Work};

/// A send request of one inline part that goes to a connection, before it is posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short<'a> {
    pub(crate) number: QueuePairNumber,
    pub(crate) id: u64,
    /// [`Work::Send`] or [`Work::Write`].
    pub(crate) work: Work,
    pub(crate) bytes: &'a [u8],
    pub(crate) signaled: bool,
}

impl Posted {
    /// `None` when its bytes need memory of their own, or it is neither a send nor a write.
    #[inline]
    fn short(short: &Short<'_>) -> Option<Posted> {
        let &Short { id, work, bytes, signaled, .. } = short;
        let fits = matches!(work, Work::Send { .. } | Work::Write { .. });
        let few = Few::new(&[bytes]).filter(|_| fits)?;
        let length = bytes.len() as u32;
        Some(Posted { id, work, data: Data::Few(few), length, signaled, fence: false, solicited: false })
    }
}

impl<M: Memory> Device<M> {
    /// [`Device::post_send`] and [`Device::transmit_from`] in one piece, of a request that is one packet and may leave now because
    /// nothing else waits to. `None`: nothing was done.
    #[inline]
    pub(crate) fn send_at_once(
        &mut self,
        short: &Short<'_>,
        now: impl FnOnce() -> Nanos,
        datagram: &mut Vec<u8>,
        source: impl FnOnce(SocketAddr) -> SocketAddr,
    ) -> Option<SocketAddr> {
        if !self.active.is_empty() {
            return None;
        }
        let pair = self.queue_pairs.get_mut(&short.number.0)?;
        if pair.state != QueuePairState::ReadyToSend || pair.has_more() {
            return None;
        }
        let (remote, requester) = (pair.remote?, pair.requester.as_mut()?);
        if requester.len() >= pair.plan.max_send as usize {
            return None;
        }
        let was_armed = requester.deadline().is_some();
        datagram.clear();
        requester.send_at_once(short, now, remote.queue_pair, &self.memory, datagram)?;
        if !was_armed {
            note_deadline(&mut self.deadlines, pair);
        }
        let to = remote.address.socket;
        self.leaving.seal(Flow { source: source(to), destination: to }, datagram);
        self.counters.sent += 1;
        Some(to)
    }
}

impl Requester {
    /// [`Requester::post`] and [`Requester::transmit`] in one piece, of a request that is one packet, while there is nothing else to
    /// send. `None`: it may not leave now, or is none of those; nothing was done.
    #[inline]
    fn send_at_once(
        &mut self,
        short: &Short<'_>,
        now: impl FnOnce() -> Nanos,
        to: QueuePairNumber,
        memory: &impl Memory,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let psn = self.next;
        let may = self.paused_until.is_none()
            && self.started == self.queue.len()
            && psn.ahead_of(self.unacknowledged) < self.window.packets() as i32
            && short.bytes.len() <= self.mtu as usize;
        if !may {
            return None;
        }
        let request = Posted::short(short)?;
        let (index, length) = (self.queue.len(), request.length);
        self.messages += request.message_packets(1);
        self.queue.push_back(Entry {
            request,
            first: psn,
            packets: 1,
            offset: 0,
            length,
            part: false,
            answered: 0,
            refused: None,
        });
        self.started += 1;
        self.next = psn.plus(1);
        self.cursor = Cursor { entry: index + 1, packet: 0 };
        let asks = self.asks(index, 0, psn);
        if asks {
            self.asked = psn;
        }
        if matches!(short.work, Work::Send { immediate: None }) {
            // The most frequent one by itself: its headers are known beforehand.
            let wire = Packet { ack_request: asks, ..Packet::new(Opcode::SEND_ONLY, to.0, psn) };
            wire.emit_around(short.bytes.len(), out, |out| out.extend_from_slice(short.bytes));
        } else {
            let written = emit(&self.queue[index], 0, psn, to, self.mtu, asks, memory, out);
            debug_assert!(written.is_ok(), "the bytes lie in the request");
        }
        if self.deadline.is_none() {
            self.arm(now());
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
