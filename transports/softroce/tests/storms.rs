//! Many ends and little room: several send to one receiver that posts its receives late, or everybody to everybody, over a network that
//! loses. Send queues, receive queues, shared receive queues and completion queues are all as short as can be and are all full at the same
//! time; in some worlds a sender's patience with a receiver that is not ready is limited, in some a device dies. What is refused can be
//! tried again, each message arrives once, whole and in order of its sender, every request ends once, and at the end nothing is held.
//!
//! `WEFT_SEEDS=20000` runs more of them, `WEFT_SEED=n` one alone.

mod common;
#[path = "common/counted.rs"]
mod counted;

use common::*;
use std::collections::{BTreeMap, VecDeque};
use weft_api::verbs::*;
use weft_sim::{Random, seeds, worlds};
use weft_softroce::Event;

const MEMORY: usize = 1 << 16;
/// Where messages are sent from: below, they land.
const SOURCE: u64 = BASE + MEMORY as u64 - 2048;
/// Bytes that a receive has room for, and so many of these.
const ROOM: u64 = 1500;
const PLACES: u64 = 40;
/// Messages of each sender to each receiver.
const MESSAGES: u32 = 24;
/// Bytes that a device may keep when everything is given back: its queues and the room of its lists, 7,649 at most in 2,000 worlds.
const KEPT: usize = 8192;

/// One side of a connection.
struct Side {
    device: usize,
    peer: usize,
    /// None: it has failed and is destroyed.
    pair: Option<QueuePairNumber>,
    /// Of the messages to the peer: begun, and ended well.
    begun: u32,
    done: u32,
    /// Requests without a completion.
    open: VecDeque<u32>,
    /// The next message of the peer.
    due: u32,
}

/// What a device has beside its connections.
struct Host {
    keys: RegionKeys,
    sends: CompletionQueueId,
    receives: CompletionQueueId,
    /// None: each connection has receive requests of its own.
    shared: Option<SharedReceiveQueueId>,
    /// Room in a receive queue, and in the queues of completions.
    depth: u32,
    send_room: u32,
    receive_room: u32,
    /// Places of receive requests without a completion, and whose they are if connections have their own.
    posted: BTreeMap<u64, Option<QueuePairNumber>>,
    /// Nothing is posted and nothing is looked at before.
    looks_from: Nanos,
}

/// How often what was full, and what came of it.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sends: u64,
    receives: u64,
    shared: u64,
    send_completions: u64,
    receive_completions: u64,
    not_ready: u64,
    given_up: u64,
    deaths: u64,
}

struct World {
    seed: u64,
    network: Network,
    random: Random,
    hosts: Vec<Host>,
    sides: Vec<Side>,
    /// Whether anybody may give up.
    may_fail: bool,
    /// Who dies, and when.
    dies: Option<(usize, Nanos)>,
    seen: Seen,
    /// Memory of this thread when the devices were made.
    live: usize,
}

fn length_of(number: u32) -> u64 {
    [8, 0, 1, 700, ROOM, 257, 64, 1024][(number * 5 % 8) as usize]
}

/// What stands at the source of a device; message `number` begins at byte `number` of it.
fn source_byte(device: usize, at: usize) -> u8 {
    ((at * 37) >> 2) as u8 ^ ((device as u8 + 1) * 29)
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed ^ 0x5702);
        let devices = 2 + random.below(5) as usize;
        let (everybody, dies) = (random.chance(0.5), random.chance(0.15));
        let impatient = !dies && random.chance(0.2);
        let faults = Faults {
            loss: [0.0, 0.01, 0.05][random.below(3) as usize],
            doubling: [0.0, 0.03][random.below(2) as usize],
            damage: [0.0, 0.01][random.below(2) as usize],
            delay: 1 + random.below(12_000),
        };
        let network = Network::new(devices, MEMORY, seed, faults);
        let live = counted::live();
        let late = 1 + random.below(2_000_000);
        let dies = dies.then(|| (devices - 1, random.below(1_500_000)));
        let may_fail = dies.is_some() || impatient;
        let (hosts, sides) = (Vec::new(), Vec::new());
        let mut world =
            World { seed, network, random, hosts, sides, may_fail, dies, seen: Seen::default(), live };
        for at in 0..devices {
            let connections = if everybody || at == 0 { devices as u32 - 1 } else { 1 };
            world.furnish(at, connections, late);
        }
        for a in 0..if everybody { devices } else { 1 } {
            for b in a + 1..devices {
                world.join(a, b, if impatient { 2 } else { 7 }, everybody);
            }
        }
        world
    }

    fn furnish(&mut self, at: usize, connections: u32, late: Nanos) {
        let (device, random) = (&mut self.network.devices[at], &mut self.random);
        let source = (SOURCE - BASE) as usize;
        let bytes = &mut device.memory_mut().0[source..];
        bytes.iter_mut().enumerate().for_each(|(place, byte)| *byte = source_byte(at, place));
        let domain = device.make_domain();
        let keys = device.register(domain, BASE, MEMORY as u64, Access::ALL).unwrap();
        let depth = 1 + random.below(4) as u32;
        let shared = random.chance(0.5).then(|| device.make_shared_receive_queue(depth));
        // As many as can be posted, and not one more; of a shared queue, as many as are posted or a few that wait to be seen.
        let receive_room =
            if shared.is_some() { depth + random.below(4) as u32 } else { depth * connections };
        let send_room = 1 + random.below(4 * u64::from(connections)) as u32;
        self.hosts.push(Host {
            keys,
            sends: device.make_completion_queue(send_room),
            receives: device.make_completion_queue(receive_room),
            shared,
            depth,
            send_room,
            receive_room,
            posted: BTreeMap::new(),
            looks_from: late * random.below(2),
        });
    }

    fn join(&mut self, a: usize, b: usize, not_ready_retries: u8, both_ways: bool) {
        let pairs = [a, b].map(|at| {
            let host = &self.hosts[at];
            let plan = QueuePairPlan {
                domain: ProtectionDomain(1),
                service: Service::ReliableConnection,
                send_queue: host.sends,
                receive_queue: host.receives,
                shared_receive_queue: host.shared,
                max_send: 1 + self.random.below(4) as u32,
                max_receive: host.depth,
                qkey: 0,
            };
            self.network.devices[at].make_queue_pair(plan).unwrap()
        });
        // Numbers that wrap in the middle.
        let first = [0, 1].map(|_| 0xff_ff80 | self.random.below(128) as u32);
        for (me, (device, peer)) in [(a, b), (b, a)].into_iter().enumerate() {
            let remote = Remote {
                address: address(peer).into(),
                by: 0,
                queue_pair: pairs[1 - me],
                first_packet: first[1 - me],
                mtu: 256,
                max_incoming_reads: 1,
                not_ready_code: 1,
                access: Access::ALL,
            };
            // Who has died is found out; nobody else is taken for dead because of what is lost.
            let retries = if self.may_fail { 30 } else { 255 };
            let sending =
                Sending { first_packet: first[me], timeout: 4, retries, not_ready_retries, max_reads: 1 };
            let it = &mut self.network.devices[device];
            it.initialise(pairs[me]).unwrap();
            it.ready_to_receive(pairs[me], Some(remote)).unwrap();
            it.ready_to_send(pairs[me], Some(sending)).unwrap();
            // The receiver of many says nothing itself.
            let [begun, due] = if both_ways { [0; 2] } else { [[MESSAGES, 0], [0, MESSAGES]][me] };
            let (pair, open) = (Some(pairs[me]), VecDeque::new());
            self.sides.push(Side { device, peer, pair, begun, done: begun, open, due });
        }
    }

    fn is_dead(&self, device: usize) -> bool {
        self.network.dead.contains(&device)
    }

    /// One side sends until its queue is full, or that of completions might be, or everything is said.
    fn send(&mut self, at: usize) {
        let device = self.sides[at].device;
        let host = &self.hosts[device];
        let of_device = self.sides.iter().filter(|side| side.device == device);
        let mut open: u32 = of_device.map(|side| side.open.len() as u32).sum();
        let side = &mut self.sides[at];
        while let Some(pair) = side.pair.filter(|_| side.begun < MESSAGES) {
            if open >= host.send_room {
                self.seen.send_completions += 1;
                break;
            }
            let (number, key) = (side.begun, host.keys.local);
            let from = SOURCE + u64::from(number);
            let segment = [Segment { address: from, length: length_of(number) as u32, key }];
            let id = (at as u64) << 32 | u64::from(number);
            let request = WorkRequest::new(id, Work::Send { immediate: Some(number) }, &segment);
            match self.network.devices[device].post_send(pair, &request) {
                Ok(()) => {
                    side.open.push_back(number);
                    side.begun += 1;
                    open += 1;
                }
                Err(why) => {
                    assert_eq!(why, HcaRefusal::Full, "seed {}", self.seed);
                    self.seen.sends += 1;
                    break;
                }
            }
        }
    }

    /// A device posts receives until its queues are full, or that of completions might be.
    fn post(&mut self, at: usize) {
        let (host, device) = (&mut self.hosts[at], &mut self.network.devices[at]);
        let own = self.sides.iter().filter(|side| side.device == at).filter_map(|side| side.pair);
        let queues = if host.shared.is_some() { vec![None] } else { own.map(Some).collect::<Vec<_>>() };
        for queue in queues {
            loop {
                if host.posted.len() as u32 >= host.receive_room {
                    self.seen.receive_completions += 1;
                    return;
                }
                let place =
                    (0..PLACES).find(|place| !host.posted.contains_key(place)).expect("there are enough");
                let segment =
                    [Segment { address: BASE + place * ROOM, length: ROOM as u32, key: host.keys.local }];
                let (taken, full) = match (queue, host.shared) {
                    (Some(pair), _) => (device.post_receive(pair, place, &segment), &mut self.seen.receives),
                    (None, shared) => {
                        let shared = shared.expect("no queue of a pair");
                        (device.post_shared_receive(shared, place, &segment), &mut self.seen.shared)
                    }
                };
                if let Err(why) = taken {
                    assert_eq!(why, HcaRefusal::Full, "seed {}", self.seed);
                    *full += 1;
                    break;
                }
                host.posted.insert(place, queue);
            }
        }
    }

    /// A device looks at what has ended.
    fn look(&mut self, at: usize) {
        let seed = self.seed;
        while let Some(done) = self.network.devices[at].poll(self.hosts[at].sends) {
            let side = &mut self.sides[(done.id >> 32) as usize];
            assert_eq!(side.device, at, "seed {seed}");
            assert_eq!(side.open.pop_front(), Some(done.id as u32), "in order, each once (seed {seed})");
            match done.status {
                CompletionStatus::Success => {
                    assert_eq!(side.done, done.id as u32, "nothing is sent after a failure (seed {seed})");
                    side.done += 1;
                }
                CompletionStatus::RetriesExceeded
                | CompletionStatus::NotReadyRetriesExceeded
                | CompletionStatus::Flushed => {
                    assert!(self.may_fail, "{done:?} (seed {seed})");
                    if side.open.is_empty() {
                        self.part((done.id >> 32) as usize);
                    }
                }
                other => panic!("{other:?} (seed {seed})"),
            }
        }
        while let Some(done) = self.network.devices[at].poll(self.hosts[at].receives) {
            assert!(
                self.hosts[at].posted.remove(&done.id).is_some(),
                "{done:?} comes back again (seed {seed})"
            );
            if done.status == CompletionStatus::Flushed {
                assert!(self.may_fail, "{done:?} (seed {seed})");
                continue;
            }
            assert_eq!(done.status, CompletionStatus::Success, "seed {seed}");
            let side =
                self.sides.iter_mut().find(|side| side.device == at && side.pair == Some(done.queue_pair));
            let side = side.expect("a completion of one of its pairs");
            let number = side.due;
            assert_eq!(done.immediate, Some(number), "once and in order (seed {seed})");
            assert_eq!(u64::from(done.bytes), length_of(number), "seed {seed}");
            let here =
                &self.network.devices[at].memory().0[(done.id * ROOM) as usize..][..done.bytes as usize];
            let is_whole = here
                .iter()
                .enumerate()
                .all(|(place, &byte)| byte == source_byte(side.peer, place + number as usize));
            assert!(is_whole, "a wrong byte in message {number} of {} at {at} (seed {seed})", side.peer);
            side.due += 1;
        }
    }

    /// Gives up a connection: what it had taken from a shared queue comes back.
    fn part(&mut self, at: usize) {
        let side = &mut self.sides[at];
        let Some(pair) = side.pair.take() else { return };
        side.open.clear();
        // With a queue of its own its requests are gone with it.
        self.hosts[side.device].posted.retain(|_, of| *of != Some(pair));
        self.network.devices[side.device].destroy_queue_pair(pair).unwrap();
    }

    /// A device is no more. Of the others some hear of it, all of those that would not find out by sending.
    fn die(&mut self, who: usize) {
        self.network.dead.push(who);
        self.seen.deaths += 1;
        for at in 0..self.sides.len() {
            let side = &self.sides[at];
            let asks = side.begun < MESSAGES || !side.open.is_empty();
            if side.peer == who && (!asks || self.random.chance(0.5)) {
                self.part(at);
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.sides.iter().enumerate().all(|(at, side)| {
            let other = &self.sides[at ^ 1];
            let hears_all = side.due == MESSAGES || other.pair.is_none() || self.is_dead(other.device);
            let said_all = side.begun == MESSAGES && side.open.is_empty();
            self.is_dead(side.device) || side.pair.is_none() || said_all && hears_all
        })
    }

    fn run(mut self) -> Seen {
        let seed = self.seed;
        let mut still = 0;
        for round in 0.. {
            assert!(round < 1_000_000 && still < 1_000, "it does not end (seed {seed})");
            if let Some((who, _)) = self.dies.take_if(|(_, when)| *when <= self.network.now) {
                self.die(who);
            }
            for at in 0..self.hosts.len() {
                if !self.is_dead(at)
                    && self.hosts[at].looks_from <= self.network.now
                    && self.random.chance(0.5)
                {
                    self.look(at);
                    self.post(at);
                }
            }
            for at in 0..self.sides.len() {
                if !self.is_dead(self.sides[at].device) && self.random.chance(0.5) {
                    self.send(at);
                }
            }
            let steps = 1 + self.random.below(30);
            if (0..steps).all(|_| self.network.step()) {
                still = 0;
                continue;
            }
            if self.has_ended() {
                break;
            }
            // Only those who do not look yet, or nobody.
            still += 1;
            let later = self.hosts.iter().map(|host| host.looks_from).chain(self.dies.map(|(_, when)| when));
            let next = later.filter(|&when| when > self.network.now).min();
            self.network.now = next.unwrap_or(self.network.now);
        }
        self.end()
    }

    /// Everybody has what it was sent; all is given back.
    fn end(mut self) -> Seen {
        let seed = self.seed;
        for (at, side) in self.sides.iter().enumerate() {
            let other = &self.sides[at ^ 1];
            if self.may_fail {
                let parted = side.pair.is_none() || other.pair.is_none();
                // The dead look at nothing.
                let both = !parted && !self.is_dead(side.device) && !self.is_dead(other.device);
                assert!(!both || side.due >= other.done, "ended and not there (seed {seed})");
                self.seen.given_up += u64::from(side.pair.is_none());
            } else {
                assert_eq!((side.due, side.done), (MESSAGES, MESSAGES), "seed {seed}");
            }
        }
        (0..self.sides.len()).for_each(|at| self.part(at));
        self.network.settle();
        for at in 0..self.hosts.len() {
            if !self.is_dead(at) {
                self.look(at);
                let host = &self.hosts[at];
                let left =
                    host.shared.map_or(0, |queue| self.network.devices[at].shared_receives_left(queue));
                assert_eq!(host.posted.len(), left, "a receive request is lost (seed {seed})");
            }
            let device = &mut self.network.devices[at];
            assert_eq!(device.deadline(), None, "seed {seed}");
            while let Some(event) = device.event() {
                assert!(!matches!(event, Event::Overrun(_)), "{event:?} (seed {seed})");
            }
        }
        let World { network, hosts, sides, seen, live, .. } = self;
        drop((hosts, sides));
        let kept = counted::live().saturating_sub(live);
        assert!(kept <= KEPT * network.devices.len(), "{kept} bytes are kept (seed {seed})");
        Seen { not_ready: network.not_ready, ..seen }
    }
}

fn run(seed: u64) -> Seen {
    World::new(seed).run()
}

#[test]
fn many_ends_with_little_room_lose_nothing() {
    let all = worlds(seeds(200), run);
    let sum = |of: fn(&Seen) -> u64| all.iter().map(of).sum::<u64>();
    let full = [
        sum(|it| it.sends),
        sum(|it| it.receives),
        sum(|it| it.shared),
        sum(|it| it.send_completions),
        sum(|it| it.receive_completions),
    ];
    let [not_ready, given_up, deaths] = [sum(|it| it.not_ready), sum(|it| it.given_up), sum(|it| it.deaths)];
    println!(
        "{} worlds: not ready {not_ready} times, {given_up} ends given up, {deaths} deaths; full, by queue: {full:?}",
        all.len()
    );
    let worlds = all.len() as u64;
    assert!(worlds < 200 || full.iter().all(|&times| times > worlds), "some queue was never full");
    assert!(worlds < 200 || not_ready > 20 * worlds && given_up > worlds / 4 && deaths > 0, "no storm");
}
