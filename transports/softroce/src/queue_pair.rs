//! A queue pair: its state, its two halves, and what it takes to make and change one.

use crate::memory::{Memory, Regions};
use crate::queues::ReceiveQueue;
use crate::request::{Posted, Received};
use crate::requester::{Ended, Requester, completion};
use crate::responder::Responder;
use crate::wire::{Deth, Opcode, Packet};
use std::collections::VecDeque;
use weft_api::verbs::{
    CompletedWork, Completion, CompletionStatus, Nanos, QueuePairNumber, QueuePairPlan, QueuePairState,
    Remote, Work,
};

/// Where a packet goes; the device turns it into addresses.
pub(crate) type Destination = std::net::SocketAddr;

#[derive(Debug)]
pub(crate) struct QueuePair {
    pub(crate) number: QueuePairNumber,
    pub(crate) plan: QueuePairPlan,
    pub(crate) state: QueuePairState,
    /// Its own receive requests, unless a shared queue serves it.
    pub(crate) receives: ReceiveQueue,
    /// Connections: the other end, from *ready to receive* on.
    pub(crate) remote: Option<Remote>,
    pub(crate) responder: Option<Responder>,
    /// Connections, from *ready to send* on.
    pub(crate) requester: Option<Requester>,
    /// Datagrams that wait to go out.
    pub(crate) datagrams: VecDeque<Posted>,
    /// Whether it stands in the device's list of those that may have something to send.
    pub(crate) listed: bool,
    /// When its clock is looked at next.
    pub(crate) noted_deadline: Option<Nanos>,
    /// Whether it was said that the send queue is drained, since it was told to be.
    pub(crate) told_drained: bool,
}

impl QueuePair {
    pub(crate) fn new(number: QueuePairNumber, plan: QueuePairPlan) -> QueuePair {
        QueuePair {
            number,
            plan,
            state: QueuePairState::Reset,
            receives: ReceiveQueue::new(plan.max_receive),
            remote: None,
            responder: None,
            requester: None,
            datagrams: VecDeque::new(),
            listed: false,
            noted_deadline: None,
            told_drained: false,
        }
    }

    /// Whether packets are taken.
    pub(crate) fn receives_packets(&self) -> bool {
        matches!(
            self.state,
            QueuePairState::ReadyToReceive
                | QueuePairState::ReadyToSend
                | QueuePairState::SendQueueDrained
                | QueuePairState::SendQueueError
        )
    }

    /// Whether it sends requests, be it only those that are under way.
    pub(crate) fn sends_packets(&self) -> bool {
        matches!(self.state, QueuePairState::ReadyToSend | QueuePairState::SendQueueDrained)
    }

    /// Whether it was told to drain its send queue, and nothing is under way. A datagram is done when it leaves.
    pub(crate) fn is_drained(&self) -> bool {
        self.state == QueuePairState::SendQueueDrained
            && self.requester.as_ref().is_none_or(Requester::is_drained)
    }

    /// Send requests that are not complete.
    pub(crate) fn open_sends(&self) -> usize {
        self.requester.as_ref().map_or(0, Requester::len) + self.datagrams.len()
    }

    /// Whether there is anything to send, now or when it may.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.responder.as_ref().is_some_and(Responder::has_answers)
            || self.requester.as_ref().is_some_and(Requester::has_more)
            || !self.datagrams.is_empty()
    }

    /// When time alone has something for it to do.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.requester.as_ref().filter(|_| self.sends_packets()).and_then(Requester::deadline)
    }

    /// Writes its next packet, without invariant CRC: answers before requests, so that the peer's window opens.
    pub(crate) fn transmit<M: Memory>(
        &mut self,
        now: impl Fn() -> Nanos,
        regions: &Regions,
        memory: &M,
        ended: &mut Ended,
        out: &mut Vec<u8>,
    ) -> Option<Destination> {
        let domain = self.plan.domain;
        if let (Some(remote), Some(responder)) = (self.remote, &mut self.responder)
            && responder.transmit(domain, regions, memory, out)
        {
            // Also in error: the last answer tells the peer why.
            return Some(remote.address.socket);
        }
        if !self.sends_packets() {
            return None;
        }
        if let (Some(remote), Some(requester)) = (self.remote, &mut self.requester) {
            if requester.transmit(now, remote.queue_pair, domain, regions, memory, out) {
                return Some(remote.address.socket);
            }
            requester.end_refused(ended, self.number);
            return None;
        }
        if self.state != QueuePairState::ReadyToSend {
            return None;
        }
        self.transmit_datagram(regions, memory, ended, out)
    }

    /// A datagram is complete when it has left (section 9.8.3). One that cannot leave stops the send queue (section 10.3.1).
    fn transmit_datagram<M: Memory>(
        &mut self,
        regions: &Regions,
        memory: &M,
        ended: &mut Ended,
        out: &mut Vec<u8>,
    ) -> Option<Destination> {
        let request = self.datagrams.pop_front()?;
        let Work::Datagram { to, queue_pair, qkey, immediate, .. } = request.work else {
            unreachable!("only datagrams are posted to datagram queue pairs")
        };
        if let crate::request::Data::Segments(segments) = &request.data
            && !segments.as_slice().iter().all(|&part| regions.allows_local(self.plan.domain, part, false))
        {
            ended.completions.push(completion(&request, CompletionStatus::LocalProtection, self.number));
            ended.halted = true;
            return None;
        }
        let opcode =
            if immediate.is_some() { Opcode::DATAGRAM_SEND_IMMEDIATE } else { Opcode::DATAGRAM_SEND };
        let mut packet = Packet::new(opcode, queue_pair.0, crate::psn::Psn::default());
        packet.deth = Some(Deth { qkey, from: self.number.0 });
        packet.immediate = immediate;
        packet.solicited = request.solicited;
        let mut read = Ok(());
        packet.emit_around(request.length as usize, out, |out| {
            read = crate::emission::bytes_of(&request, 0, request.length, memory, out);
        });
        if read.is_err() {
            ended.completions.push(completion(&request, CompletionStatus::LocalProtection, self.number));
            ended.halted = true;
            return None;
        }
        if request.signaled {
            ended.completions.push(completion(&request, CompletionStatus::Success, self.number));
        }
        Some(to.socket)
    }

    /// A datagram could not be sent: those behind it are flushed, and so is what is posted, until the owner resumes. What comes is taken.
    pub(crate) fn halt(&mut self, ended: &mut Ended) {
        self.state = QueuePairState::SendQueueError;
        for request in self.datagrams.drain(..) {
            ended.completions.push(completion(&request, CompletionStatus::Flushed, self.number));
        }
    }

    /// Everything posted ends; nothing moves any more.
    pub(crate) fn fail(&mut self, ended: &mut Ended, received: &mut Vec<Completion>) {
        self.state = QueuePairState::Error;
        if let Some(requester) = &mut self.requester {
            requester.flush(ended, self.number);
        }
        for request in self.datagrams.drain(..) {
            ended.completions.push(completion(&request, CompletionStatus::Flushed, self.number));
        }
        if let Some(id) = self.responder.as_mut().and_then(Responder::abandon) {
            received.push(flushed_receive(id, self.number));
        }
        while let Some((Received { id, .. }, _)) = self.receives.take() {
            received.push(flushed_receive(id, self.number));
        }
    }
}

/// The completion of a receive request that nothing will ever come for.
pub(crate) fn flushed_receive(id: u64, own: QueuePairNumber) -> Completion {
    Completion {
        id,
        status: CompletionStatus::Flushed,
        work: CompletedWork::Receive,
        bytes: 0,
        queue_pair: own,
        immediate: None,
        solicited: false,
        from: None,
    }
}
