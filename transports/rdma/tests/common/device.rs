//! Devices that do otherwise than the emulated one, and two processes that have them.
//!
//! One that works by itself finishes a receive while its queue pair is being stopped: the peer was told that the message has
//! arrived, so it counts. One has no way by some of its addresses, and says so when a queue pair is opened. One writes into
//! memory byte by byte while the processor looks, and one does not promise in which order.

use super::{Air, Antenna, Cards, Virtual, address, fabric_over};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use weft_api::Transport;
use weft_api::kit::Fabric;
use weft_api::verbs::{
    Access, CompletedWork, Completion, CompletionQueueId, CompletionStatus, Data, DeviceAddress,
    DeviceBuffer, Hca, HcaLimits, HcaRefusal, LocalKey, NOBODY, Nanos, PortAddress, QueuePairNumber,
    QueuePairPlan, RegionKeys, Remote, Segment, Sending, Service, SharedReceiveQueueId, Work, WorkRequest,
};
use weft_rdma::Rdma;
use weft_sim::Random;
use weft_softroce::Card;
use weft_types::PeerId;

/// The emulated card, which can be told to be slow in saying what has arrived, and to have no way to some addresses.
pub struct Odd {
    card: Card<Antenna>,
    /// Whether receives of connections are said only when their pair is finished.
    is_slow: Rc<RefCell<bool>>,
    /// No queue pair is opened towards these.
    no_way: Vec<SocketAddr>,
    connections: Vec<QueuePairNumber>,
    pub held: VecDeque<Completion>,
    told: VecDeque<Completion>,
    writes: Writes,
    /// Words of memory as the processor has seen them last, where the device may still be writing.
    seen: RefCell<(BTreeMap<u64, u64>, Random)>,
    /// A completion was polled, and nothing done since.
    has_said: Cell<bool>,
    /// Records that a completion told of and nobody has looked at.
    told_records: Cell<u64>,
}

thread_local! {
    /// So many of the next datagrams of this thread's devices cannot be sent.
    pub static SPOILT: Cell<u32> = const { Cell::new(0) };
}

/// How it writes into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// At once, as the emulator.
    AtOnce,
    /// A byte after the other, in the order of addresses.
    InOrder,
    /// It does not promise in which order: the last byte may be the first.
    InAnyOrder,
}

impl Hca for Odd {
    type Bell = <Card<Antenna> as Hca>::Bell;

    fn poll(&mut self, queue: CompletionQueueId) -> Option<Completion> {
        if let Some(done) = self.told.pop_front() {
            return Some(done);
        }
        while let Some(done) = self.card.poll(queue) {
            // The word that everything before it is there.
            self.has_said.set(true);
            let is_record = done.work == CompletedWork::ReceiveWrite && done.bytes > 0;
            self.told_records.update(|told| told + u64::from(is_record));
            let is_of_connection = self.connections.contains(&done.queue_pair);
            if !*self.is_slow.borrow() || done.work != CompletedWork::Receive || !is_of_connection {
                return Some(done);
            }
            self.held.push_back(done);
        }
        None
    }

    fn finish_queue_pair(&mut self, number: QueuePairNumber) {
        self.told.append(&mut taken(&mut self.held, number));
    }

    fn destroy_queue_pair(&mut self, number: QueuePairNumber) {
        // Of what it said of a pair that is gone, receive requests come back.
        self.told.append(&mut taken(&mut self.held, number));
        for done in self.told.iter_mut().filter(|done| done.queue_pair == number) {
            (done.queue_pair, done.status) = (NOBODY, CompletionStatus::Flushed);
        }
        self.card.destroy_queue_pair(number);
    }

    fn limits(&self) -> HcaLimits {
        let limits = self.card.limits();
        // As a card: its works go on while nobody looks.
        match self.writes {
            Writes::AtOnce => limits,
            Writes::InOrder | Writes::InAnyOrder => HcaLimits { works_in_calls: false, ..limits },
        }
    }

    fn writes_in_order(&self, _: QueuePairNumber) -> bool {
        self.writes != Writes::InAnyOrder
    }

    fn word(&self, address: u64) -> u64 {
        let there = self.card.word(address);
        if self.writes == Writes::AtOnce {
            return there;
        }
        let (seen, random) = &mut *self.seen.borrow_mut();
        let seen = seen.entry(address).or_insert(0);
        if self.writes == Writes::InAnyOrder {
            // A completion tells of one record; of others nothing need be there.
            if let Some(left) = self.told_records.get().checked_sub(1) {
                self.told_records.set(left);
                *seen = there;
            }
            return *seen;
        }
        if self.has_said.get() {
            *seen = there;
        }
        // Some bytes more than at the last look, the lower addresses first.
        let stored = random.below(9) as usize;
        let mut bytes = seen.to_le_bytes();
        let mut missing = stored;
        for (byte, there) in bytes.iter_mut().zip(there.to_le_bytes()) {
            if missing == 0 {
                break;
            }
            missing -= usize::from(*byte != there);
            *byte = there;
        }
        *seen = u64::from_le_bytes(bytes);
        *seen
    }

    fn address(&self) -> DeviceAddress {
        self.card.address()
    }

    fn addresses(&self) -> Vec<PortAddress> {
        self.card.addresses()
    }

    fn now(&self) -> Nanos {
        self.card.now()
    }

    fn allocate(&mut self, bytes: u64, access: Access) -> Result<DeviceBuffer, HcaRefusal> {
        self.card.allocate(bytes, access)
    }

    fn register(&mut self, address: u64, length: u64, access: Access) -> Result<RegionKeys, HcaRefusal> {
        self.card.register(address, length, access)
    }

    fn deregister(&mut self, keys: RegionKeys) {
        self.card.deregister(keys);
    }

    fn bytes(&self, address: u64, length: usize) -> &[u8] {
        self.card.bytes(address, length)
    }

    fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8] {
        // The processor sees its own writes.
        self.seen.get_mut().0.retain(|&word, _| !(address..address + length as u64).contains(&word));
        self.card.bytes_mut(address, length)
    }

    fn make_completion_queue(&mut self, depth: u32) -> Result<CompletionQueueId, HcaRefusal> {
        self.card.make_completion_queue(depth)
    }

    fn make_shared_receive_queue(&mut self, depth: u32) -> Result<SharedReceiveQueueId, HcaRefusal> {
        self.card.make_shared_receive_queue(depth)
    }

    fn make_queue_pair(&mut self, plan: QueuePairPlan) -> Result<QueuePairNumber, HcaRefusal> {
        let number = self.card.make_queue_pair(plan)?;
        if plan.service == Service::ReliableConnection {
            self.connections.push(number);
        }
        Ok(number)
    }

    fn open_queue_pair(
        &mut self,
        number: QueuePairNumber,
        ends: Option<(Remote, Sending)>,
    ) -> Result<(), HcaRefusal> {
        if ends.is_some_and(|(remote, _)| self.no_way.contains(&remote.address.socket)) {
            return Err(HcaRefusal::Invalid);
        }
        self.card.open_queue_pair(number, ends)
    }

    fn resume_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), HcaRefusal> {
        self.card.resume_queue_pair(number)
    }

    fn stop_queue_pair(&mut self, number: QueuePairNumber) {
        self.card.stop_queue_pair(number);
    }

    fn post_send(&mut self, number: QueuePairNumber, request: &WorkRequest<'_>) -> Result<(), HcaRefusal> {
        let spoilt = matches!(request.work, Work::Datagram { .. }) && SPOILT.get() > 0;
        if spoilt {
            SPOILT.set(SPOILT.get() - 1);
            // A key that nothing has.
            let nothing = [Segment { address: 0, length: 8, key: LocalKey(u32::MAX) }];
            return self.card.post_send(number, &WorkRequest { data: Data::Segments(&nothing), ..*request });
        }
        self.card.post_send(number, request)
    }

    fn post_sends(
        &mut self,
        number: QueuePairNumber,
        requests: &[WorkRequest<'_>],
    ) -> Result<(), HcaRefusal> {
        self.card.post_sends(number, requests)
    }

    fn doorbells(&self) -> u64 {
        self.card.doorbells()
    }

    fn is_crowded(&self) -> bool {
        self.card.is_crowded()
    }

    fn leaves_now(&self, number: QueuePairNumber, bytes: usize) -> bool {
        self.card.leaves_now(number, bytes)
    }

    fn post_receive(
        &mut self,
        queue: SharedReceiveQueueId,
        id: u64,
        segments: &[Segment],
    ) -> Result<(), HcaRefusal> {
        self.card.post_receive(queue, id, segments)
    }

    fn progress(&mut self) -> bool {
        self.has_said.set(false);
        self.card.progress()
    }

    fn unreachable(&mut self) -> Option<DeviceAddress> {
        self.card.unreachable()
    }

    fn bell(&self) -> Self::Bell {
        self.card.bell()
    }
}

/// What was held of a pair is taken out.
fn taken(held: &mut VecDeque<Completion>, pair: QueuePairNumber) -> VecDeque<Completion> {
    let (of_it, others) = held.drain(..).partition(|done| done.queue_pair == pair);
    *held = others;
    of_it
}

pub struct Two {
    pub ends: Vec<Rdma<Odd>>,
    pub air: Virtual,
}

impl Fabric for Two {
    type Transport = Rdma<Odd>;

    fn ends(&mut self) -> &mut [Self::Transport] {
        &mut self.ends
    }

    fn idle(&mut self) {
        self.air.idle();
    }

    fn kill(&mut self, process: usize) -> bool {
        self.air.kill(process)
    }
}

impl Two {
    pub fn round(&mut self) {
        for end in &mut self.ends {
            end.progress();
        }
        self.air.idle();
    }
}

/// Two processes over a network, the first of which can be told to be slow. The second list: towards whom each opens no queue
/// pair.
pub fn two_over(air: Air, is_slow: &Rc<RefCell<bool>>, no_way: [Vec<SocketAddr>; 2]) -> Two {
    two_writing(air, is_slow, no_way, Writes::AtOnce)
}

/// As [`two_over`], with devices that write in some way.
pub fn two_writing(
    air: Air,
    is_slow: &Rc<RefCell<bool>>,
    no_way: [Vec<SocketAddr>; 2],
    writes: Writes,
) -> Two {
    many_writing(air, is_slow, no_way.into(), writes)
}

/// As [`two_writing`], as many as there are lists.
pub fn many_writing(
    air: Air,
    is_slow: &Rc<RefCell<bool>>,
    no_way: Vec<Vec<SocketAddr>>,
    writes: Writes,
) -> Two {
    // The network alone: its own processes do nothing.
    let air = fabric_over(air, 0);
    let cards = Cards::default();
    let mut ends = Vec::new();
    for (process, no_way) in no_way.into_iter().enumerate() {
        let antenna = Antenna(air.air.clone(), address(process));
        let card = Odd {
            card: Card::new(address(process), antenna),
            is_slow: if process == 0 { is_slow.clone() } else { Rc::default() },
            no_way,
            connections: Vec::new(),
            held: VecDeque::new(),
            told: VecDeque::new(),
            writes,
            seen: RefCell::new((BTreeMap::new(), Random::new(process as u64))),
            has_said: Cell::new(false),
            told_records: Cell::new(0),
        };
        ends.push(Rdma::open_rails(vec![card], PeerId(process as u32), Box::new(cards.clone())).unwrap());
    }
    *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
    Two { ends, air }
}
