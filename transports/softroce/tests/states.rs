//! The states of queue pairs (section 10.3.1): which lead to which, and what becomes in each of requests and packets.

mod common;

use common::*;
use weft_api::verbs::*;
use weft_sim::seeds;
use weft_softroce::{DATAGRAM_PREFIX, Device, Event};

use CompletionStatus::{Flushed, LocalProtection, Success};

const STATES: [QueuePairState; 7] = [
    QueuePairState::Reset,
    QueuePairState::Initialised,
    QueuePairState::ReadyToReceive,
    QueuePairState::ReadyToSend,
    QueuePairState::SendQueueDrained,
    QueuePairState::SendQueueError,
    QueuePairState::Error,
];

/// The table of the specification for connections and for datagrams: by row from where, by column to where, both in the order of
/// [`STATES`]. `x`: the owner brings it there; `.`: he cannot.
const TABLES: [(Service, [&str; 7]); 2] = [
    (
        Service::ReliableConnection,
        [".x....x", "x.x...x", "x..x..x", "x...x.x", "x..x..x", "x.....x", "x......"],
    ),
    (Service::Datagram, [".x....x", "x.x...x", "x..x..x", "x...x.x", "x..x..x", "x..x..x", "x......"]),
];

/// A device with a queue pair, and what belongs to it.
struct Alone {
    device: Device<Bytes>,
    pair: QueuePairNumber,
    sends: CompletionQueueId,
    receives: CompletionQueueId,
    service: Service,
    keys: RegionKeys,
}

const TO: u32 = 77;

impl Alone {
    fn new(service: Service) -> Alone {
        let mut device = Device::new(address(0), Bytes(vec![0; 1 << 16]));
        let domain = device.make_domain();
        let keys = device.register(domain, BASE, 1 << 16, Access::ALL).unwrap();
        let (sends, receives) = (device.make_completion_queue(64), device.make_completion_queue(64));
        let plan = QueuePairPlan {
            domain,
            service,
            send_queue: sends,
            receive_queue: receives,
            shared_receive_queue: None,
            max_send: 16,
            max_receive: 16,
            qkey: 5,
        };
        let pair = device.make_queue_pair(plan).unwrap();
        Alone { device, pair, sends, receives, service, keys }
    }

    /// Brings it somewhere by the call for that.
    fn go(&mut self, to: QueuePairState) -> Result<(), HcaRefusal> {
        let (device, pair) = (&mut self.device, self.pair);
        let connects = self.service == Service::ReliableConnection;
        let plan = Plan::default();
        let remote = Remote {
            address: address(1).into(),
            by: 0,
            queue_pair: QueuePairNumber(TO),
            first_packet: 0,
            mtu: 1024,
            max_incoming_reads: 4,
            not_ready_code: 1,
            access: Access::ALL,
        };
        match to {
            QueuePairState::Reset => device.reset(pair),
            QueuePairState::Initialised => device.initialise(pair),
            QueuePairState::ReadyToReceive => device.ready_to_receive(pair, connects.then_some(remote)),
            QueuePairState::ReadyToSend => match device.state(pair).unwrap() {
                QueuePairState::SendQueueDrained | QueuePairState::SendQueueError => device.resume(pair),
                _ => device.ready_to_send(pair, connects.then_some(plan.sending)),
            },
            QueuePairState::SendQueueDrained => device.drain(pair),
            // There is no call for it.
            QueuePairState::SendQueueError => Err(HcaRefusal::State(device.state(pair).unwrap())),
            QueuePairState::Error => device.fail(pair),
        }
    }

    fn datagram(&mut self, id: u64, key: LocalKey) -> Result<(), HcaRefusal> {
        let to = address(1).into();
        let work = Work::Datagram { to, by: 0, queue_pair: QueuePairNumber(TO), qkey: 5, immediate: None };
        let segment = [Segment { address: BASE, length: 8, key }];
        self.device.post_send(self.pair, &WorkRequest::new(id, work, &segment))
    }

    /// A datagram from memory that is not registered.
    fn spoil(&mut self, id: u64) {
        self.datagram(id, LocalKey(self.keys.local.0 ^ 0x5555)).unwrap();
    }

    fn transmit(&mut self) -> usize {
        let mut out = Vec::new();
        std::iter::from_fn(|| self.device.transmit(0, &mut out)).count()
    }

    /// Brings a new one into a state; `None` where there is none of this service in it.
    fn reach(service: Service, state: QueuePairState) -> Option<Alone> {
        let mut alone = Alone::new(service);
        let way = &STATES[1..4];
        let at = STATES.iter().position(|&other| other == state).unwrap();
        way.iter().take(if at == 6 { 0 } else { at }).for_each(|&next| alone.go(next).unwrap());
        match state {
            QueuePairState::SendQueueDrained | QueuePairState::Error => alone.go(state).unwrap(),
            QueuePairState::SendQueueError if service == Service::Datagram => {
                alone.spoil(1);
                alone.transmit();
            }
            QueuePairState::SendQueueError => return None,
            _ => {}
        }
        assert_eq!(alone.device.state(alone.pair), Some(state));
        Some(alone)
    }

    fn polled(&mut self, queue: CompletionQueueId) -> Vec<(u64, CompletionStatus)> {
        std::iter::from_fn(|| self.device.poll(queue)).map(|done| (done.id, done.status)).collect()
    }
}

#[test]
fn states_lead_where_the_specification_says_and_nowhere_else() {
    for (service, table) in TABLES {
        for (row, &from) in table.iter().zip(&STATES) {
            for (mark, &to) in row.bytes().zip(&STATES) {
                let allowed = mark == b'x';
                assert_eq!(from.may_become(to, service), allowed, "{service:?}: {from:?} to {to:?}");
                let Some(mut alone) = Alone::reach(service, from) else { continue };
                let outcome = alone.go(to);
                let now = alone.device.state(alone.pair);
                match (from == to, allowed) {
                    // To reset what is reset, or fail what has failed, is harmless.
                    (true, _) => assert_eq!(now, Some(from)),
                    (_, true) => assert_eq!((outcome, now), (Ok(()), Some(to)), "{service:?}: {from:?}"),
                    (_, false) => {
                        assert_eq!((outcome, now), (Err(HcaRefusal::State(from)), Some(from)), "to {to:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn requests_are_refused_kept_or_flushed_as_the_state_says() {
    use QueuePairState::{Initialised, Reset};
    for state in STATES {
        let Some(mut alone) = Alone::reach(Service::Datagram, state) else { continue };
        let (sends, receives, pair, key) = (alone.sends, alone.receives, alone.pair, alone.keys.local);
        alone.polled(sends);
        let posted = alone.device.post_receive(pair, 9, &[Segment { address: BASE, length: 64, key }]);
        assert_eq!(posted.is_err(), state == Reset, "{state:?}");
        let flushed: &[_] = if state == QueuePairState::Error { &[(9, Flushed)] } else { &[] };
        assert_eq!(alone.polled(receives), flushed, "{state:?}");
        let posted = alone.datagram(8, key);
        let too_early = [Reset, Initialised, QueuePairState::ReadyToReceive].contains(&state);
        assert_eq!(posted, if too_early { Err(HcaRefusal::State(state)) } else { Ok(()) });
        let leaves = usize::from(state == QueuePairState::ReadyToSend);
        assert_eq!(alone.transmit(), leaves, "{state:?}");
        let told: &[_] = match state {
            QueuePairState::ReadyToSend => &[(8, Success)],
            QueuePairState::Error | QueuePairState::SendQueueError => &[(8, Flushed)],
            _ => &[],
        };
        assert_eq!(alone.polled(sends), told, "{state:?}");
        if state == QueuePairState::SendQueueDrained {
            alone.go(QueuePairState::ReadyToSend).unwrap();
            assert_eq!((alone.transmit(), alone.polled(sends)), (1, vec![(8, Success)]), "it had waited");
        }
    }
}

/// Of datagrams, one that cannot be sent stops the send queue alone, until its owner resumes.
#[test]
fn a_datagram_that_cannot_be_sent_stops_the_send_queue_alone() {
    let mut alone = Alone::reach(Service::Datagram, QueuePairState::ReadyToSend).unwrap();
    let (pair, key) = (alone.pair, alone.keys.local);
    let room = 64 + DATAGRAM_PREFIX;
    for id in [20, 21] {
        alone.device.post_receive(pair, id, &[Segment { address: BASE + 4096, length: room, key }]).unwrap();
    }
    alone.datagram(1, key).unwrap();
    alone.spoil(2);
    alone.datagram(3, key).unwrap();
    assert_eq!(alone.transmit(), 1);
    assert_eq!(alone.device.state(pair), Some(QueuePairState::SendQueueError));
    alone.datagram(4, key).unwrap();
    let sends = alone.sends;
    let told = [(1, Success), (2, LocalProtection), (3, Flushed), (4, Flushed)];
    assert_eq!(alone.polled(sends), told);
    assert_eq!(alone.device.event(), None, "the queue pair has not failed");

    // What comes is taken: its own datagram, as another device would send it.
    let mut other = Alone::reach(Service::Datagram, QueuePairState::ReadyToSend).unwrap();
    let mut packet = Vec::new();
    let work = Work::Datagram { to: address(0).into(), by: 0, queue_pair: pair, qkey: 5, immediate: None };
    for id in [20, 21] {
        let segment = [Segment { address: BASE, length: 8, key: other.keys.local }];
        other.device.post_send(other.pair, &WorkRequest::new(7, work, &segment)).unwrap();
        assert!(other.device.transmit(0, &mut packet).is_some());
        alone.device.receive(0, address(0), 0, &packet);
        let receives = alone.receives;
        assert_eq!(alone.polled(receives), [(id, Success)]);
        if id == 20 {
            alone.go(QueuePairState::ReadyToSend).unwrap();
            alone.datagram(5, key).unwrap();
            assert_eq!((alone.transmit(), alone.polled(sends)), (1, vec![(5, Success)]));
        }
    }
}

fn send(end: End, id: u64, length: u32, signaled: bool) -> (WorkRequest<'static>, Vec<Segment>) {
    let segment = vec![Segment { address: BASE, length, key: end.keys.local }];
    (WorkRequest { signaled, ..WorkRequest::new(id, Work::Send { immediate: None }, &[]) }, segment)
}

fn post(network: &mut Network, end: End, id: u64, length: u32, signaled: bool) {
    let (request, segments) = send(end, id, length, signaled);
    let request = WorkRequest { data: Data::Segments(&segments), ..request };
    network.devices[end.device].post_send(end.pair, &request).unwrap();
}

fn room(network: &mut Network, end: End, ids: std::ops::Range<u64>) {
    for id in ids {
        let segment = [Segment { address: BASE + 32_768, length: 8192, key: end.keys.local }];
        network.devices[end.device].post_receive(end.pair, id, &segment).unwrap();
    }
}

fn told(network: &mut Network, end: End, queue: CompletionQueueId) -> Vec<u64> {
    let done = std::iter::from_fn(|| network.devices[end.device].poll(queue));
    done.map(|done| {
        assert_eq!(done.status, Success);
        done.id
    })
    .collect()
}

/// Whatever the network loses: what has begun ends, nothing else begins before its owner resumes, and then everything ends once and
/// in order. Meanwhile the other end's messages are taken.
#[test]
fn a_drained_send_queue_ends_what_has_begun_and_begins_nothing() {
    const EACH: u64 = 20;
    for seed in seeds(60) {
        let faults = Faults { loss: 0.05, doubling: 0.05, damage: 0.01, delay: 5_000 };
        let mut network = Network::new(2, 1 << 16, seed, faults);
        let [a, b] = connect(&mut network, [0, 1], &Plan::default());
        room(&mut network, b, 0..2 * EACH);
        room(&mut network, a, 0..1);
        (0..EACH).for_each(|id| {
            post(&mut network, a, id, 1 + 700 * (id as u32 % 8), id % 3 == 0 || id == EACH - 1)
        });
        let steps = network.random.below(60);
        (0..steps).for_each(|_| {
            network.step();
        });
        network.devices[0].drain(a.pair).unwrap();
        (EACH..2 * EACH).for_each(|id| post(&mut network, a, id, 100, true));
        post(&mut network, b, 99, 64, true);
        network.settle();
        assert!(network.devices[0].is_drained(a.pair), "seed {seed}");
        assert_eq!(network.devices[0].event(), Some(Event::SendQueueDrained(a.pair)), "seed {seed}");
        assert_eq!(network.devices[0].event(), None, "told once (seed {seed})");
        assert_eq!(told(&mut network, a, a.receives), [0], "receives go on (seed {seed})");
        let mut arrived = told(&mut network, b, b.receives);
        let mut ended = told(&mut network, a, a.sends);
        let begun = arrived.len() as u64;
        assert!(begun <= EACH, "none of those that were posted afterwards (seed {seed})");
        assert!(ended.iter().all(|&id| id < begun), "seed {seed}: {ended:?} of {begun}");
        network.devices[0].resume(a.pair).unwrap();
        network.settle();
        arrived.extend(told(&mut network, b, b.receives));
        ended.extend(told(&mut network, a, a.sends));
        assert_eq!(arrived, (0..2 * EACH).collect::<Vec<_>>(), "seed {seed}");
        let signaled = (0..2 * EACH).filter(|id| id % 3 == 0 || *id >= EACH - 1);
        assert_eq!(ended, signaled.collect::<Vec<_>>(), "seed {seed}");
    }
}

/// Nobody waits for a request that is not signalled, so nothing asks the peer whether it has arrived; a drained queue has to know,
/// whether all of it had left before or not.
#[test]
fn what_nobody_waits_for_is_drained_without_a_timeout() {
    let silent = Sending { timeout: 0, ..Plan::default().sending };
    for left_before in [3, 20] {
        let plan = Plan { mtu: 256, sending: silent, ..Plan::default() };
        let mut network = Network::new(2, 1 << 16, 1, Faults::NONE);
        let [a, b] = connect(&mut network, [0, 1], &plan);
        room(&mut network, b, 0..2);
        post(&mut network, a, 1, 5000, false);
        let mut packet = Vec::new();
        for _ in 0..left_before {
            assert!(network.devices[0].transmit(network.now, &mut packet).is_some());
            network.devices[1].receive(network.now, address(0), 0, &packet);
        }
        network.devices[0].drain(a.pair).unwrap();
        post(&mut network, a, 2, 8, true);
        network.settle();
        assert_eq!(told(&mut network, b, b.receives), [0]);
        assert!(network.devices[0].is_drained(a.pair), "{left_before} packets had left");
        assert_eq!(network.devices[0].event(), Some(Event::SendQueueDrained(a.pair)));
        network.devices[0].resume(a.pair).unwrap();
        network.settle();
        assert_eq!(told(&mut network, a, a.sends), [2]);
    }
}

/// A read that is asked for in parts is one request: it has begun, and ends.
#[test]
fn a_long_read_that_has_begun_ends_in_a_drained_queue() {
    const LENGTH: u32 = 50_000;
    let mut network = Network::new(2, 1 << 17, 1, Faults::NONE);
    let [a, b] = connect(&mut network, [0, 1], &Plan { mtu: 256, ..Plan::default() });
    let from = RemoteAddress { address: BASE, key: b.keys.remote };
    let into = [Segment { address: BASE + 65_536, length: LENGTH, key: a.keys.local }];
    network.devices[1].memory_mut().0[..LENGTH as usize].fill(7);
    for id in [1, 2] {
        network.devices[0].post_send(a.pair, &WorkRequest::new(id, Work::Read { from }, &into)).unwrap();
    }
    network.step();
    network.devices[0].drain(a.pair).unwrap();
    assert!(!network.devices[0].is_drained(a.pair));
    network.settle();
    let all = |network: &Network| {
        network.devices[0].memory().0[65_536..][..LENGTH as usize].iter().all(|&b| b == 7)
    };
    assert!(network.devices[0].is_drained(a.pair) && all(&network));
    let first = told(&mut network, a, a.sends);
    network.devices[0].resume(a.pair).unwrap();
    network.settle();
    assert_eq!([first, told(&mut network, a, a.sends)].concat(), [1, 2]);
}

/// A peer that is gone while the queue is drained is an error of the connection, as ever.
#[test]
fn a_drained_connection_to_a_dead_peer_fails() {
    let mut network = Network::new(2, 1 << 16, 1, Faults::NONE);
    let [a, b] = connect(&mut network, [0, 1], &Plan::default());
    room(&mut network, b, 0..1);
    post(&mut network, a, 1, 64, true);
    network.dead.push(1);
    network.step();
    network.devices[0].drain(a.pair).unwrap();
    network.settle();
    assert_eq!(network.devices[0].state(a.pair), Some(QueuePairState::Error));
    assert_eq!(network.devices[0].event(), Some(Event::QueuePairFailed(a.pair)));
    assert_eq!(network.devices[0].event(), None, "that is not drained");
}

/// What was reset tells nothing of before, whatever is still on its way, and can be brought up again.
#[test]
fn a_reset_queue_pair_begins_anew() {
    let mut network = Network::new(2, 1 << 16, 1, Faults::NONE);
    let [a, b] = connect(&mut network, [0, 1], &Plan::default());
    room(&mut network, b, 0..4);
    (0..4).for_each(|id| post(&mut network, a, id, 3000, true));
    (0..5).for_each(|_| {
        network.step();
    });
    for end in [a, b] {
        network.devices[end.device].reset(end.pair).unwrap();
    }
    network.settle();
    for (end, queue) in [(a, a.sends), (b, b.receives)] {
        assert_eq!(told(&mut network, end, queue), [0; 0], "nothing completes");
        assert_eq!(network.devices[end.device].event(), None);
    }
    reconnect(&mut network, [a, b], &Plan::default());
    room(&mut network, b, 10..11);
    post(&mut network, a, 20, 3000, true);
    network.settle();
    assert_eq!(told(&mut network, b, b.receives), [10]);
    assert_eq!(told(&mut network, a, a.sends), [20]);
}
