//! A host channel adapter without sockets, threads or clock: requests, packets and time come in; packets and completions go out.

use crate::datagram::MAX_DATAGRAM;
use crate::memory::{self, Memory, Regions};
use crate::queue_pair::{QueuePair, flushed_receive};
use crate::queues::{CompletionQueue, ReceiveQueue};
use crate::request::{self, MAX_INLINE, MAX_MESSAGE, Posted, Received, Segments};
use crate::requester::{Ended, USUAL_WINDOW};
use crate::wire::sums::Sums;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use weft_api::numbers::NumberMap;
use weft_api::verbs::{
    Access, Completion, CompletionQueueId, CompletionStatus, Data, HcaRefusal as Refusal, LocalKey, Nanos,
    ProtectionDomain, QueuePairNumber, QueuePairPlan, QueuePairState, RegionKeys, Segment, Service,
    SharedReceiveQueueId, Work, WorkRequest,
};

pub use crate::wire::icrc::Flow;

/// Something that belongs to no completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A completion queue had no room: completions are lost.
    Overrun(CompletionQueueId),
    /// A queue pair went into error.
    QueuePairFailed(QueuePairNumber),
    /// A queue pair in *send queue drained* has nothing under way any more.
    SendQueueDrained(QueuePairNumber),
    /// Fewer receive requests than the limit are left.
    LimitReached(SharedReceiveQueueId),
}

/// What happened to packets that came, for people and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets given out.
    pub sent: u64,
    /// Packets taken in and understood.
    pub received: u64,
    /// Packets with a wrong invariant CRC.
    pub corrupt: u64,
    /// Packets that made no sense, or for queue pairs that do not exist or do not listen.
    pub dropped: u64,
    /// Datagrams for which no receive request was posted.
    pub no_receive: u64,
}

/// A device; see the module. `M` is the memory behind the addresses.
#[derive(Debug)]
pub struct Device<M> {
    pub(crate) local: SocketAddr,
    pub(crate) memory: M,
    pub(crate) regions: Regions,
    pub(crate) queue_pairs: NumberMap<QueuePair>,
    next_number: u32,
    domains: u32,
    pub(crate) completion_queues: Vec<CompletionQueue>,
    pub(crate) shared_receives: Vec<ReceiveQueue>,
    /// Queue pairs that may have something to send, each once, in turn.
    pub(crate) active: VecDeque<u32>,
    /// Packets in a row of the first of them.
    pub(crate) row: u32,
    /// Packets of one connection under way at most.
    pub(crate) widest: u32,
    /// What time alone will have to do: at most one entry of each queue pair, which may be too early.
    pub(crate) deadlines: BTreeSet<(Nanos, u32)>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    /// Whether peers that do not answer are asked for ever.
    pub(crate) patient: bool,
    /// Whose answers are overdue for long.
    pub(crate) overdue: Vec<SocketAddr>,
    /// Whose answers are.
    pub(crate) doubted: Vec<SocketAddr>,
    /// The invariant CRCs of what leaves and of what comes in.
    pub(crate) leaving: Sums,
    pub(crate) arriving: Sums,
}

impl<M: Memory> Device<M> {
    /// A device that is reached at `local` and whose regions lie in `memory`.
    pub fn new(local: SocketAddr, memory: M) -> Device<M> {
        Device {
            local,
            memory,
            regions: Regions::default(),
            queue_pairs: NumberMap::default(),
            // 0 and 1 are management's.
            next_number: 16,
            domains: 0,
            completion_queues: Vec::new(),
            shared_receives: Vec::new(),
            active: VecDeque::new(),
            row: 0,
            widest: USUAL_WINDOW,
            deadlines: BTreeSet::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            patient: false,
            overdue: Vec::new(),
            doubted: Vec::new(),
            leaving: Sums::default(),
            arriving: Sums::default(),
        }
    }

    /// Where the device is reached.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The memory behind the addresses.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory behind the addresses.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether connections wait for peers that do not answer as long as nothing says that nobody is there
    /// ([`Device::unreachable`]), beyond the number of retries. For peers whose device moves only while their program calls.
    pub fn wait_for_the_silent(&mut self, patient: bool) {
        self.patient = patient;
    }

    /// Connections that are made from now on may have so many packets under way, when nothing is lost. For drivers that know how much
    /// finds room on the way.
    pub fn widen(&mut self, packets: u32) {
        self.widest = packets;
    }

    /// Where a connection leads of which an answer is overdue; each timeout says it again.
    pub fn doubted(&mut self) -> Option<SocketAddr> {
        self.doubted.pop()
    }

    /// Where a connection leads that waits beyond its retries, when these begin to run out; each timeout says it again.
    pub fn overdue(&mut self) -> Option<SocketAddr> {
        self.overdue.pop()
    }

    /// The network says that nobody is at an address. Connections to it fail: at once when it is certain, otherwise when the
    /// retries are used up without an answer.
    pub fn unreachable(&mut self, address: SocketAddr, certain: bool) {
        let concerned: Vec<u32> = self
            .queue_pairs
            .values()
            .filter(|pair| pair.remote.is_some_and(|remote| remote.address.socket == address))
            .map(|pair| pair.number.0)
            .collect();
        for number in concerned {
            let Some(pair) = self.queue_pairs.get_mut(&number) else { continue };
            let mut ended = Ended::default();
            match &mut pair.requester {
                Some(requester) => requester.doubt(certain, &mut ended, QueuePairNumber(number)),
                None => ended.fatal = certain,
            }
            self.settle(number, ended);
        }
    }

    /// A new protection domain.
    pub fn make_domain(&mut self) -> ProtectionDomain {
        self.domains += 1;
        ProtectionDomain(self.domains)
    }

    /// Registers `length` bytes at `address`.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] when the range wraps or rights contradict each other, or keys are exhausted.
    pub fn register(
        &mut self,
        domain: ProtectionDomain,
        address: u64,
        length: u64,
        access: Access,
    ) -> Result<RegionKeys, Refusal> {
        self.regions.register(domain, address, length, access).ok_or(Refusal::Invalid)
    }

    /// Takes a region's keys back.
    ///
    /// # Errors
    /// [`Refusal::Unknown`].
    pub fn deregister(&mut self, key: LocalKey) -> Result<(), Refusal> {
        if self.regions.remove(key.0) { Ok(()) } else { Err(Refusal::Unknown) }
    }

    /// A new completion queue for `depth` entries.
    pub fn make_completion_queue(&mut self, depth: u32) -> CompletionQueueId {
        self.completion_queues.push(CompletionQueue::new(depth));
        CompletionQueueId(self.completion_queues.len() as u32 - 1)
    }

    /// A new shared receive queue for `depth` requests.
    pub fn make_shared_receive_queue(&mut self, depth: u32) -> SharedReceiveQueueId {
        self.shared_receives.push(ReceiveQueue::new(depth));
        SharedReceiveQueueId(self.shared_receives.len() as u32 - 1)
    }

    /// Asks for one [`Event::LimitReached`] when fewer than `limit` requests are left.
    ///
    /// # Errors
    /// [`Refusal::Unknown`].
    pub fn set_limit(&mut self, queue: SharedReceiveQueueId, limit: u32) -> Result<(), Refusal> {
        self.shared_receives.get_mut(queue.0 as usize).ok_or(Refusal::Unknown)?.limit = limit;
        Ok(())
    }

    /// A new queue pair in state *reset*.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] for queues that do not exist, [`Refusal::Exhausted`].
    pub fn make_queue_pair(&mut self, plan: QueuePairPlan) -> Result<QueuePairNumber, Refusal> {
        let queues = self.completion_queues.len();
        let known = |queue: CompletionQueueId| (queue.0 as usize) < queues;
        let shared = plan.shared_receive_queue.is_none_or(|q| (q.0 as usize) < self.shared_receives.len());
        if !known(plan.send_queue) || !known(plan.receive_queue) || !shared {
            return Err(Refusal::Unknown);
        }
        if self.queue_pairs.len() >= 1 << 20 {
            return Err(Refusal::Exhausted);
        }
        // Numbers come round late, so that packets of an old connection find nobody.
        while self.queue_pairs.contains_key(&self.next_number) {
            self.next_number = (self.next_number + 1) & 0x00ff_ffff;
        }
        let number = QueuePairNumber(self.next_number);
        self.next_number = ((self.next_number + 1) & 0x00ff_ffff).max(16);
        self.queue_pairs.insert(number.0, QueuePair::new(number, plan));
        Ok(number)
    }

    /// Ends a queue pair; nothing of it completes any more, but for the requests that it took from a shared receive queue:
    /// these complete as flushed and as nobody's, so that they can be posted again.
    ///
    /// # Errors
    /// [`Refusal::Unknown`].
    pub fn destroy_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), Refusal> {
        let pair = self.queue_pairs.remove(&number.0).ok_or(Refusal::Unknown)?;
        self.forget(number, pair);
        Ok(())
    }

    /// Posts a send request (section 11.4.1.1). In *error* and *send queue error* it completes as flushed, in *send queue drained* it waits.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn post_send(&mut self, number: QueuePairNumber, request: &WorkRequest<'_>) -> Result<(), Refusal> {
        let pair = self.queue_pairs.get_mut(&number.0).ok_or(Refusal::Unknown)?;
        let length = match request.data {
            Data::Segments(segments) => memory::total(segments),
            Data::Inline(parts) => parts.iter().map(|part| part.len() as u64).sum(),
        };
        if length > u64::from(MAX_MESSAGE) {
            return Err(Refusal::Size);
        }
        let length = length as u32;
        let is_datagram = matches!(request.work, Work::Datagram { .. });
        if is_datagram != (pair.plan.service == Service::Datagram) {
            return Err(Refusal::Invalid);
        }
        let atomic = matches!(request.work, Work::CompareSwap { .. } | Work::FetchAdd { .. });
        let into = atomic || matches!(request.work, Work::Read { .. });
        if atomic && length != 8 || is_datagram && length > MAX_DATAGRAM {
            return Err(Refusal::Size);
        }
        if into && matches!(request.data, Data::Inline(_)) {
            return Err(Refusal::Invalid);
        }
        if pair.open_sends() >= pair.plan.max_send as usize {
            return Err(Refusal::Full);
        }
        let data = match request.data {
            Data::Inline(_) if length as usize > MAX_INLINE => return Err(Refusal::Size),
            Data::Inline(parts) => request::Data::inline(parts),
            Data::Segments(segments) => {
                request::Data::Segments(Segments::new(segments).ok_or(Refusal::Size)?)
            }
        };
        let posted = Posted {
            id: request.id,
            work: request.work,
            data,
            length,
            signaled: request.signaled,
            fence: request.fence,
            solicited: request.solicited,
        };
        match pair.state {
            QueuePairState::ReadyToSend | QueuePairState::SendQueueDrained => {}
            QueuePairState::Error | QueuePairState::SendQueueError => {
                let ended = crate::requester::completion(&posted, CompletionStatus::Flushed, number);
                self.complete(pair_queue(&self.queue_pairs, number, true), ended);
                return Ok(());
            }
            state => return Err(Refusal::State(state)),
        }
        match &mut pair.requester {
            Some(requester) => requester.post(posted),
            None => pair.datagrams.push_back(posted),
        }
        enlist(&mut self.active, pair);
        Ok(())
    }

    /// Whether so many more send requests may be posted; also when there is no such queue pair, which posting will say.
    pub fn has_room(&self, number: QueuePairNumber, requests: usize) -> bool {
        self.queue_pairs
            .get(&number.0)
            .is_none_or(|pair| pair.open_sends() + requests <= pair.plan.max_send as usize)
    }

    /// Whether a message of so many bytes may go out by a connection before anything is acknowledged; also when there is no such
    /// connection, which posting will say.
    pub fn leaves_now(&self, number: QueuePairNumber, bytes: usize) -> bool {
        let pair = self.queue_pairs.get(&number.0);
        pair.and_then(|pair| pair.requester.as_ref()).is_none_or(|requester| requester.leaves_now(bytes))
    }

    /// Posts a receive request to a queue pair's own queue (section 11.4.1.2). In state *error* it completes as flushed.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn post_receive(
        &mut self,
        number: QueuePairNumber,
        id: u64,
        segments: &[Segment],
    ) -> Result<(), Refusal> {
        let pair = self.queue_pairs.get_mut(&number.0).ok_or(Refusal::Unknown)?;
        if pair.plan.shared_receive_queue.is_some() {
            return Err(Refusal::Invalid);
        }
        let segments = Segments::new(segments).ok_or(Refusal::Size)?;
        match pair.state {
            QueuePairState::Reset => Err(Refusal::State(QueuePairState::Reset)),
            QueuePairState::Error => {
                let queue = pair.plan.receive_queue;
                self.complete(queue, flushed_receive(id, number));
                Ok(())
            }
            _ if pair.receives.post(Received { id, segments }) => Ok(()),
            _ => Err(Refusal::Full),
        }
    }

    /// Posts a receive request to a shared queue.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn post_shared_receive(
        &mut self,
        queue: SharedReceiveQueueId,
        id: u64,
        segments: &[Segment],
    ) -> Result<(), Refusal> {
        let receives = self.shared_receives.get_mut(queue.0 as usize).ok_or(Refusal::Unknown)?;
        let segments = Segments::new(segments).ok_or(Refusal::Size)?;
        if receives.post(Received { id, segments }) { Ok(()) } else { Err(Refusal::Full) }
    }

    /// Receive requests left in a shared queue.
    pub fn shared_receives_left(&self, queue: SharedReceiveQueueId) -> usize {
        self.shared_receives.get(queue.0 as usize).map_or(0, ReceiveQueue::len)
    }

    /// The oldest completion of a queue.
    pub fn poll(&mut self, queue: CompletionQueueId) -> Option<Completion> {
        self.completion_queues.get_mut(queue.0 as usize)?.pop()
    }

    /// The oldest event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn complete(&mut self, queue: CompletionQueueId, completion: Completion) {
        let entry = &mut self.completion_queues[queue.0 as usize];
        let was = entry.overrun;
        entry.push(completion);
        if entry.overrun && !was {
            self.events.push_back(Event::Overrun(queue));
        }
    }

    /// Notes that a queue pair may have something to send or to wait for.
    pub(crate) fn list(&mut self, number: u32) {
        if let Some(pair) = self.queue_pairs.get_mut(&number) {
            enlist(&mut self.active, pair);
        }
    }

    /// Completions go to their queues; a queue pair that cannot go on is put into error.
    pub(crate) fn settle(&mut self, number: u32, mut ended: Ended) {
        let Some(pair) = self.queue_pairs.get_mut(&number) else { return };
        let (send_queue, receive_queue) = (pair.plan.send_queue, pair.plan.receive_queue);
        let drains = pair.state == QueuePairState::SendQueueDrained;
        let mut received = Vec::new();
        let failed = ended.fatal && pair.state != QueuePairState::Error;
        if failed {
            pair.fail(&mut ended, &mut received);
        } else if ended.halted && pair.state != QueuePairState::Error {
            pair.halt(&mut ended);
        }
        for completion in ended.completions {
            self.complete(send_queue, completion);
        }
        for completion in received {
            self.complete(receive_queue, completion);
        }
        if failed {
            self.events.push_back(Event::QueuePairFailed(QueuePairNumber(number)));
        }
        if drains {
            self.tell_drained(number);
        }
    }
}

/// Lists a queue pair that is not listed.
#[inline]
pub(crate) fn enlist(active: &mut VecDeque<u32>, pair: &mut QueuePair) {
    if !std::mem::replace(&mut pair.listed, true) {
        active.push_back(pair.number.0);
    }
}

/// Has a queue pair's clock looked at in time. Deadlines move on with every answer: they are noted when they come nearer, and
/// when a noted one is over.
pub(crate) fn note_deadline(deadlines: &mut BTreeSet<(Nanos, u32)>, pair: &mut QueuePair) {
    let Some(due) = pair.deadline() else { return };
    if pair.noted_deadline.is_none_or(|noted| due < noted) {
        if let Some(noted) = pair.noted_deadline.replace(due) {
            deadlines.remove(&(noted, pair.number.0));
        }
        deadlines.insert((due, pair.number.0));
    }
}

fn pair_queue(pairs: &NumberMap<QueuePair>, number: QueuePairNumber, send: bool) -> CompletionQueueId {
    let plan = &pairs[&number.0].plan;
    if send { plan.send_queue } else { plan.receive_queue }
}
