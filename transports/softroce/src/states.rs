//! The states of queue pairs, and what brings one from one to another (section 10.3.1). What is done with packets and requests in each
//! stands where they are handled; [`QueuePairState::may_become`] is the table.
//!
//! | state | requests to send | receive requests | packets that come |
//! | --- | --- | --- | --- |
//! | reset | refused | refused | dropped |
//! | initialised | refused | kept | dropped |
//! | ready to receive | refused | filled | taken and answered |
//! | ready to send | sent | filled | taken and answered |
//! | send queue drained | kept; what is under way ends | filled | taken and answered |
//! | send queue error (datagrams) | flushed | filled | taken |
//! | error | flushed | flushed | dropped |

use crate::device::{Device, Event};
use crate::memory::Memory;
use crate::queue_pair::{QueuePair, flushed_receive};
use crate::requester::{Ended, Requester};
use crate::responder::Responder;
use weft_api::verbs::{
    HcaRefusal as Refusal, NOBODY, QueuePairNumber, QueuePairState, Remote, Sending, Service,
};

impl<M: Memory> Device<M> {
    /// The state of a queue pair; `None` when there is no such one.
    pub fn state(&self, number: QueuePairNumber) -> Option<QueuePairState> {
        self.queue_pairs.get(&number.0).map(|pair| pair.state)
    }

    /// *Reset* to *initialised*.
    ///
    /// # Errors
    /// [`Refusal::State`], [`Refusal::Unknown`].
    pub fn initialise(&mut self, number: QueuePairNumber) -> Result<(), Refusal> {
        let pair = self.pair_in(number, &[QueuePairState::Reset])?;
        pair.state = QueuePairState::Initialised;
        Ok(())
    }

    /// *Initialised* to *ready to receive*; `remote` for connections only.
    ///
    /// # Errors
    /// [`Refusal::State`], [`Refusal::Unknown`], [`Refusal::Invalid`] for an impossible MTU or a missing remote end.
    pub fn ready_to_receive(
        &mut self,
        number: QueuePairNumber,
        remote: Option<Remote>,
    ) -> Result<(), Refusal> {
        let pair = self.pair_in(number, &[QueuePairState::Initialised])?;
        match (pair.plan.service, remote) {
            (Service::Datagram, None) => {}
            (Service::ReliableConnection, Some(remote))
                if (256..=4096).contains(&remote.mtu) && remote.mtu.is_power_of_two() =>
            {
                pair.remote = Some(remote);
                pair.responder = Some(Responder::new(remote));
            }
            _ => return Err(Refusal::Invalid),
        }
        pair.state = QueuePairState::ReadyToReceive;
        Ok(())
    }

    /// *Ready to receive* to *ready to send*; `sending` for connections only.
    ///
    /// # Errors
    /// [`Refusal::State`], [`Refusal::Unknown`], [`Refusal::Invalid`] when `sending` is missing or too much.
    pub fn ready_to_send(
        &mut self,
        number: QueuePairNumber,
        sending: Option<Sending>,
    ) -> Result<(), Refusal> {
        let widest = self.widest;
        let pair = self.pair_in(number, &[QueuePairState::ReadyToReceive])?;
        match (pair.plan.service, sending, pair.remote) {
            (Service::Datagram, None, _) => {}
            (Service::ReliableConnection, Some(sending), Some(remote)) => {
                pair.requester = Some(Requester::new(sending, remote.mtu, pair.plan.max_send, widest));
            }
            _ => return Err(Refusal::Invalid),
        }
        pair.state = QueuePairState::ReadyToSend;
        Ok(())
    }

    /// *Ready to send* to *send queue drained*: requests whose first packet has been due end as ever, and no other begins. When
    /// nothing is under way any more, [`Event::SendQueueDrained`] says so, and [`Device::is_drained`]. Requests may be posted; they wait.
    ///
    /// # Errors
    /// [`Refusal::State`], [`Refusal::Unknown`].
    pub fn drain(&mut self, number: QueuePairNumber) -> Result<(), Refusal> {
        let pair = self.pair_in(number, &[QueuePairState::ReadyToSend])?;
        pair.state = QueuePairState::SendQueueDrained;
        pair.told_drained = false;
        if let Some(requester) = &mut pair.requester {
            requester.drain();
        }
        self.list(number.0);
        self.tell_drained(number.0);
        Ok(())
    }

    /// Whether a queue pair is in *send queue drained*, and nothing that it sent is under way any more.
    pub fn is_drained(&self, number: QueuePairNumber) -> bool {
        self.queue_pairs.get(&number.0).is_some_and(QueuePair::is_drained)
    }

    /// *Send queue drained*, or *send queue error*, to *ready to send*: what was posted meanwhile begins, and what is posted from now on.
    ///
    /// # Errors
    /// [`Refusal::State`], [`Refusal::Unknown`].
    pub fn resume(&mut self, number: QueuePairNumber) -> Result<(), Refusal> {
        let from = [QueuePairState::SendQueueDrained, QueuePairState::SendQueueError];
        let pair = self.pair_in(number, &from)?;
        pair.state = QueuePairState::ReadyToSend;
        if let Some(requester) = &mut pair.requester {
            requester.resume();
        }
        self.list(number.0);
        Ok(())
    }

    /// Any state to *reset*: nothing of what was posted completes, nor can what has completed still be polled; but for requests that
    /// were taken from a shared receive queue, as in [`Device::destroy_queue_pair`].
    ///
    /// # Errors
    /// [`Refusal::Unknown`].
    pub fn reset(&mut self, number: QueuePairNumber) -> Result<(), Refusal> {
        let pair = self.queue_pairs.get_mut(&number.0).ok_or(Refusal::Unknown)?;
        let blank = QueuePair { listed: pair.listed, ..QueuePair::new(number, pair.plan) };
        let noted = pair.noted_deadline;
        let before = std::mem::replace(pair, blank);
        if let Some(noted) = noted {
            self.deadlines.remove(&(noted, number.0));
        }
        self.forget(number, before);
        Ok(())
    }

    /// Nothing of a queue pair that is no more, or was reset, completes.
    pub(crate) fn forget(&mut self, number: QueuePairNumber, before: QueuePair) {
        let plan = before.plan;
        let shared = plan.shared_receive_queue.is_some();
        for queue in [plan.send_queue, plan.receive_queue] {
            self.completion_queues[queue.0 as usize].forget(number, shared);
        }
        if shared && let Some(id) = before.responder.and_then(|mut responder| responder.abandon()) {
            self.complete(plan.receive_queue, flushed_receive(id, NOBODY));
        }
    }

    /// Puts a queue pair into *error* from whatever state: everything posted completes as flushed.
    ///
    /// # Errors
    /// [`Refusal::Unknown`].
    pub fn fail(&mut self, number: QueuePairNumber) -> Result<(), Refusal> {
        if !self.queue_pairs.contains_key(&number.0) {
            return Err(Refusal::Unknown);
        }
        self.settle(number.0, Ended { fatal: true, ..Ended::default() });
        Ok(())
    }

    /// Says once that a send queue is drained.
    pub(crate) fn tell_drained(&mut self, number: u32) {
        let Some(pair) = self.queue_pairs.get_mut(&number) else { return };
        if pair.is_drained() && !std::mem::replace(&mut pair.told_drained, true) {
            self.events.push_back(Event::SendQueueDrained(QueuePairNumber(number)));
        }
    }

    fn pair_in(
        &mut self,
        number: QueuePairNumber,
        from: &[QueuePairState],
    ) -> Result<&mut QueuePair, Refusal> {
        let pair = self.queue_pairs.get_mut(&number.0).ok_or(Refusal::Unknown)?;
        if from.contains(&pair.state) { Ok(pair) } else { Err(Refusal::State(pair.state)) }
    }
}
