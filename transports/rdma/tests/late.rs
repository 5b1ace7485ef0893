//! Devices that do otherwise than the emulated one. One that works by itself finishes a receive while its queue pair is being stopped: the peer
//! was told that the message has arrived, so it counts. One has no way by some of its addresses, and says so when a queue pair is opened.

mod common;

use common::{Air, Antenna, Cards, address, addresses_on, with_several};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use weft_api::Transport;
use weft_api::kit::Fabric;
use weft_api::verbs::{
    Access, CompletedWork, Completion, CompletionQueueId, CompletionStatus, DeviceAddress, DeviceBuffer, Hca,
    HcaLimits, HcaRefusal, NOBODY, Nanos, PortAddress, QueuePairNumber, QueuePairPlan, RegionKeys, Remote,
    Segment, Sending, Service, SharedReceiveQueueId, WorkRequest,
};
use weft_rdma::Rdma;
use weft_softroce::Card;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

/// The emulated card, which can be told to be slow in saying what has arrived, and to have no way to some addresses.
struct Late {
    card: Card<Antenna>,
    /// Whether receives of connections are said only when their pair is finished.
    is_slow: Rc<RefCell<bool>>,
    /// No queue pair is opened towards these.
    no_way: Vec<SocketAddr>,
    connections: Vec<QueuePairNumber>,
    held: VecDeque<Completion>,
    told: VecDeque<Completion>,
}

impl Hca for Late {
    type Bell = <Card<Antenna> as Hca>::Bell;

    fn poll(&mut self, queue: CompletionQueueId) -> Option<Completion> {
        if let Some(done) = self.told.pop_front() {
            return Some(done);
        }
        while let Some(done) = self.card.poll(queue) {
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
        self.card.limits()
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

    fn stop_queue_pair(&mut self, number: QueuePairNumber) {
        self.card.stop_queue_pair(number);
    }

    fn post_send(&mut self, number: QueuePairNumber, request: &WorkRequest<'_>) -> Result<(), HcaRefusal> {
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

    fn post_receive(
        &mut self,
        queue: SharedReceiveQueueId,
        id: u64,
        segments: &[Segment],
    ) -> Result<(), HcaRefusal> {
        self.card.post_receive(queue, id, segments)
    }

    fn progress(&mut self) -> bool {
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

struct Two {
    ends: Vec<Rdma<Late>>,
    air: common::Virtual,
}

impl Two {
    fn round(&mut self) {
        for end in &mut self.ends {
            end.progress();
        }
        self.air.idle();
    }
}

/// Two processes over a network, the first of which can be told to be slow. The second list: towards whom each opens no queue pair.
fn two_over(air: Air, is_slow: &Rc<RefCell<bool>>, no_way: [Vec<SocketAddr>; 2]) -> Two {
    // The network alone: its own processes do nothing.
    let air = common::fabric_over(air, 0);
    let cards = Cards::default();
    let mut ends = Vec::new();
    for (process, no_way) in no_way.into_iter().enumerate() {
        let antenna = Antenna(air.air.clone(), address(process));
        let card = Late {
            card: Card::new(address(process), antenna),
            is_slow: if process == 0 { is_slow.clone() } else { Rc::default() },
            no_way,
            connections: Vec::new(),
            held: VecDeque::new(),
            told: VecDeque::new(),
        };
        ends.push(Rdma::open_rails(vec![card], PeerId(process as u32), Box::new(cards.clone())).unwrap());
    }
    *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
    Two { ends, air }
}

/// A way that a device has not is no death: both go by another, whoever of them has it not and whoever asks.
#[test]
fn a_way_that_a_device_cannot_open_is_left_for_another() {
    let lacks: [[&[usize]; 2]; 6] =
        [[&[0], &[]], [&[], &[0]], [&[0], &[1]], [&[0, 1], &[]], [&[], &[0, 1]], [&[0, 1], &[0, 1]]];
    for (case, lacks) in lacks.into_iter().enumerate() {
        for (seed, who) in (0..6).zip([&[0][..], &[1], &[0, 1]].into_iter().cycle()) {
            let mut air = if seed < 3 { Air::quiet() } else { Air::deaf(seed) };
            (air.tells, air.pause) = (false, 1_000_000);
            let towards = |peer: usize, networks: &[usize]| {
                networks.iter().map(|&network| addresses_on(peer, 0)[network]).collect()
            };
            let no_way = [towards(1, lacks[0]), towards(0, lacks[1])];
            let mut two = two_over(with_several(air, 2), &Rc::default(), no_way);
            who.iter().for_each(|&me| two.ends[me].connect(PeerId(1 - me as u32)).unwrap());
            let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
            let (mut sent, mut heard) = ([false; 2], [false; 2]);
            while heard != [true; 2] {
                for me in 0..2 {
                    let peer = PeerId(1 - me as u32);
                    sent[me] = sent[me] || two.ends[me].send_inline(peer, header, b"hello").is_ok();
                    heard[me] |= two.ends[me].peek(peer).is_some();
                    assert_eq!(two.ends[me].lost(), None, "at {me}, which lives (case {case}, seed {seed})");
                }
                two.round();
                let now = two.air.air.borrow().now;
                assert!(now < 5_000_000_000, "{sent:?} {heard:?} (case {case}, seed {seed})");
            }
            assert!(two.ends.iter().any(|end| end.counts().moves > 0), "this shows nothing");
        }
    }
}

/// Where a device has no way at all it says so: who asked it is told.
#[test]
fn a_peer_that_no_way_leads_to_is_lost_in_the_end() {
    for lacks in [0, 1] {
        let mut air = Air::quiet();
        (air.tells, air.pause) = (false, 1_000_000);
        let mut no_way = [vec![], vec![]];
        no_way[lacks] = addresses_on(1 - lacks, 0).to_vec();
        let mut two = two_over(with_several(air, 2), &Rc::default(), no_way);
        two.ends[0].connect(PeerId(1)).unwrap();
        let mut lost = [None; 2];
        while lost != [Some(PeerId(1)), Some(PeerId(0))] {
            two.round();
            for (lost, end) in lost.iter_mut().zip(&mut two.ends) {
                *lost = lost.or_else(|| end.lost());
            }
            let now = two.air.air.borrow().now;
            assert!(now < 60_000_000_000, "{lost:?} of {lacks}: for ever");
            assert!(lost == [None; 2] || now > 9_000_000_000, "the patience is not over");
        }
    }
}

#[test]
fn a_receive_that_ends_while_its_pair_is_stopped_counts() {
    let mut air = Air::quiet();
    (air.tells, air.pause) = (false, 10_000_000);
    let is_slow = Rc::new(RefCell::new(false));
    let mut two = two_over(air, &is_slow, [vec![], vec![]]);
    let send = |two: &mut Two, from: usize, number: u8| {
        let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
        while two.ends[from].send_inline(PeerId(1 - from as u32), header, &[number]).is_err() {
            two.round();
        }
    };
    let take = |two: &mut Two, at: usize| {
        let peer = PeerId(1 - at as u32);
        for _ in 0..1_000_000 {
            if let Some((_, payload)) = two.ends[at].peek(peer) {
                let number = payload[0];
                two.ends[at].advance(peer);
                return number;
            }
            assert_eq!(two.ends[at].lost(), None, "nobody is gone");
            two.round();
        }
        panic!("the message does not come");
    };
    two.ends[1].connect(PeerId(0)).unwrap();
    send(&mut two, 1, 1);
    assert_eq!(take(&mut two, 0), 1);
    two.ends[0].connect(PeerId(1)).unwrap();
    send(&mut two, 0, 2);
    assert_eq!(take(&mut two, 1), 2);
    // Acknowledged, and not said.
    *is_slow.borrow_mut() = true;
    for number in 3..6 {
        send(&mut two, 1, number);
    }
    while !two.ends[1].has_left() {
        two.round();
    }
    // The connection fails at the receiver: what it sends reaches nobody until its retries are used up.
    let (here, there) = (address(0), address(1));
    two.air.air.borrow_mut().cut.extend([(here, there), (there, here)]);
    send(&mut two, 0, 7);
    while two.ends[0].counts().reconnections == 0 {
        if two.ends[0].hca().held.is_empty() {
            // It was stopped and finished. From now on the device is quick.
            *is_slow.borrow_mut() = false;
            two.air.air.borrow_mut().cut.clear();
        }
        assert_eq!(two.ends[0].lost(), None, "nobody is gone");
        two.round();
    }
    assert_eq!(take(&mut two, 1), 7);
    for number in 3..6 {
        assert_eq!(take(&mut two, 0), number, "in order, each once");
    }
    send(&mut two, 1, 8);
    assert_eq!(take(&mut two, 0), 8);
}
