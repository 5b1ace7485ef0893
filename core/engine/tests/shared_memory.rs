//! Engines over real shared memory, one thread each: every message of a random all-to-all arrives whole and in order, whatever
//! its protocol, with and without single copy, with waiting that really sleeps. And over shared memory and a fabric side by
//! side, as in a job on several nodes; and over a fabric alone, where the launcher tells of deaths in memory that carries no
//! messages.

use std::collections::HashMap;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_api::{Bell, Transport};
use weft_datatype::Scratch;
use weft_engine::{
    Completion, Directory, Engine, EngineConfig, Envelope, Fabric, NodeLocal, PeerCard, RequestId, Selector,
    SendMode, Started, Transports, Waiter,
};
use weft_sim::Random;
use weft_types::{ContextId, Error, PeerId, Rank, Result, Tag};
use weft_wire::{Header, Kind};

const CONTEXT: ContextId = ContextId(4);

struct Side {
    engine: Engine,
    me: u32,
    ranks: u32,
    oversubscribed: bool,
}

impl Side {
    fn wait(&mut self, request: RequestId) -> Completion {
        let bell = self.engine.bell();
        let mut waiter = Waiter::new(self.oversubscribed, self.engine.looks());
        loop {
            if self.engine.progress() {
                waiter.moved();
            }
            if self.engine.is_complete(request) {
                waiter.finish(&bell);
                return self.engine.take(request);
            }
            waiter.pause(&bell);
        }
    }

    fn finish(&mut self, started: Started) {
        if let Started::Pending(request) = started {
            assert_eq!(self.wait(request).error, None);
        }
    }

    /// One round: everybody sends `count` messages to everybody, sizes from both ends' common generator.
    fn round(&mut self, seed: u64, count: usize) {
        let mut received = Vec::new();
        let mut sent = Vec::new();
        for step in 0..self.ranks {
            let (to, from) = ((self.me + step) % self.ranks, (self.me + self.ranks - step) % self.ranks);
            for number in 0..count {
                let expected = message(seed, from, self.me, number);
                let room = Scratch::new(expected.len());
                let selector = Selector {
                    context: CONTEXT,
                    peer: Some(PeerId(from)),
                    source: Some(Rank(from)),
                    tag: (number % 2 == 0).then_some(Tag(7)),
                };
                let request = self.engine.recv(selector, room.recv_buf(0, room.len())).unwrap();
                received.push((request, room, expected));
                let data = message(seed, self.me, to, number);
                let envelope =
                    Envelope { peer: PeerId(to), context: CONTEXT, source: Rank(self.me), tag: Tag(7) };
                let mode = if number % 5 == 0 { SendMode::Synchronous } else { SendMode::Standard };
                let started = self.engine.send(envelope, mode, data.send_buf(0, data.len())).unwrap();
                sent.push((started, data));
            }
        }
        for (request, room, expected) in received {
            let completion = self.wait(request);
            assert_eq!((completion.error, completion.status.bytes), (None, expected.len() as u64));
            let (got, sent) = (room.send_buf(0, room.len()), expected.send_buf(0, expected.len()));
            assert!(got.as_slice() == sent.as_slice(), "data of {} bytes", expected.len());
        }
        for (started, _data) in sent {
            self.finish(started);
        }
    }

    /// As finalize does: nobody leaves while somebody may still need an answer.
    fn leave(&mut self) {
        for step in 1..self.ranks {
            let (to, from) = ((self.me + step) % self.ranks, (self.me + self.ranks - step) % self.ranks);
            let context = ContextId(6);
            let envelope = Envelope { peer: PeerId(to), context, source: Rank(self.me), tag: Tag(0) };
            let selector =
                Selector { context, peer: Some(PeerId(from)), source: Some(Rank(from)), tag: Some(Tag(0)) };
            let empty = weft_datatype::SendBuf::empty();
            let started = self.engine.send(envelope, SendMode::Standard, empty).unwrap();
            let request = self.engine.recv(selector, weft_datatype::RecvBuf::empty()).unwrap();
            assert_eq!(self.wait(request).error, None);
            self.finish(started);
        }
        while !self.engine.is_quiet() {
            self.engine.progress();
        }
    }
}

fn message(seed: u64, from: u32, to: u32, number: usize) -> Arc<Scratch> {
    let mut random = Random::new(seed ^ (u64::from(from) << 40) ^ (u64::from(to) << 20) ^ number as u64);
    const BORDERS: [u64; 10] = [0, 8, 40, 104, 8192, 32_768, 32_776, 65_536, 200_000, 1_500_000];
    let largest = match number % 4 {
        0 => 10,
        _ => 6,
    };
    let length = (BORDERS[random.below(largest) as usize] + random.below(3)).saturating_sub(1) as usize;
    let scratch = Scratch::new(length);
    let mut buffer = scratch.recv_buf(0, length);
    for piece in buffer.as_mut_slice().unwrap().chunks_mut(8) {
        let word = random.next().to_le_bytes();
        piece.copy_from_slice(&word[..piece.len()]);
    }
    scratch
}

fn world(ranks: u32, single_copy: bool, oversubscribed: bool) {
    let segment = weft_shm::create().unwrap();
    run(ranks, oversubscribed, |me| {
        let segment = segment.try_clone().unwrap();
        let peers = (0..ranks).map(PeerId).collect();
        let node = NodeLocal { segment, local_index: me, peers, single_copy, oversubscribed };
        Transports::node_local(node).unwrap()
    });
}

/// Runs an engine over the transports of every rank, a thread each.
fn run(ranks: u32, oversubscribed: bool, mut open: impl FnMut(u32) -> Transports) {
    let (done, all_done) = mpsc::channel();
    for me in 0..ranks {
        let (transports, done) = (open(me), done.clone());
        std::thread::spawn(move || {
            let config = EngineConfig { oversubscribed, ..EngineConfig::new(PeerId(me), ranks) };
            let engine = Engine::new(config, transports).unwrap();
            let mut side = Side { engine, me, ranks, oversubscribed };
            for seed in 0..6 {
                side.round(seed * 977 + 1, 24);
            }
            side.leave();
            done.send(me).unwrap();
        });
    }
    drop(done);
    for _ in 0..ranks {
        // A test must not hang; a rank that panics drops its sender, and the last drop ends this wait at once.
        all_done.recv_timeout(Duration::from_secs(120)).expect("all ranks come to their end");
    }
}

/// Where the ranks of a test are found.
#[derive(Clone, Debug, Default)]
struct Cards(Arc<Mutex<HashMap<u32, String>>>);

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        match self.0.lock().unwrap().get(&peer.0) {
            Some(card) => card.parse(),
            None => Err(Error::internal("all cards are there before anybody asks")),
        }
    }
}

/// As [`world`], on several nodes: shared memory to the ranks of the own one, the emulated fabric to the others.
fn world_on_nodes(nodes: &[u32], oversubscribed: bool) {
    let ranks = nodes.len() as u32;
    let cards = Cards::default();
    let segments: HashMap<u32, _> = nodes.iter().map(|&node| (node, weft_shm::create().unwrap())).collect();
    // All devices before the first engine: then everybody is in the directory.
    let mut opened: Vec<Option<Transports>> = (0..ranks)
        .map(|me| {
            let node = nodes[me as usize];
            let peers: Vec<PeerId> =
                (0..ranks).filter(|&peer| nodes[peer as usize] == node).map(PeerId).collect();
            let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let (fabric, card) =
                Fabric::softroce(PeerId(me), address, 1 + me % 2, None, 0, Box::new(cards.clone())).unwrap();
            cards.0.lock().unwrap().insert(me, card);
            if peers.len() == 1 {
                return Some(Transports::over(fabric));
            }
            let local_index = peers.iter().position(|peer| peer.0 == me).unwrap() as u32;
            let segment = segments[&node].try_clone().unwrap();
            let node = NodeLocal { segment, local_index, peers, single_copy: true, oversubscribed };
            Some(Transports::both(node, fabric).unwrap())
        })
        .collect();
    run(ranks, oversubscribed, |me| opened[me as usize].take().unwrap());
}

#[test]
fn messages_within_and_between_nodes_arrive_whole_and_in_order() {
    world_on_nodes(&[0, 0, 1, 1], true);
    world_on_nodes(&[0, 1, 0, 1, 2], true);
    world_on_nodes(&[0, 0, 1], false);
}

/// Who sleeps is woken by a message of the node and by one of another node, whichever it is.
#[test]
fn a_sleeper_is_woken_by_either_way() {
    let (cards, segment) = (Cards::default(), weft_shm::create().unwrap());
    let fabric = |me: u32| {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (fabric, card) =
            Fabric::softroce(PeerId(me), address, 1 + me % 2, None, 0, Box::new(cards.clone())).unwrap();
        cards.0.lock().unwrap().insert(me, card);
        fabric
    };
    let both = |local_index: u32, fabric: Fabric| {
        let (segment, peers) = (segment.try_clone().unwrap(), vec![PeerId(0), PeerId(1)]);
        let node = NodeLocal { segment, local_index, peers, single_copy: false, oversubscribed: false };
        Transports::both(node, fabric).unwrap()
    };
    let (first, second, third) = (fabric(0), fabric(1), fabric(2));
    let (mut sleeper, mut mate, mut far) = (both(0, first), both(1, second), Transports::over(third));
    let header = Header::new(Kind::Eager, CONTEXT, Rank(1), Tag(1));
    // The connection between the nodes is there before anybody sleeps.
    far.connect(PeerId(0)).unwrap();
    mate.connect(PeerId(0)).unwrap();
    while far.send_inline(PeerId(0), header, &[0]).is_err() {
        far.progress();
        sleeper.progress();
    }
    let patience = Instant::now() + Duration::from_secs(60);
    let drain = |sleeper: &mut Transports, far: &mut Transports, from: u32| {
        while sleeper.peek(PeerId(from)).is_none() {
            assert!(Instant::now() < patience, "the packet of {from} does not come");
            sleeper.progress();
            far.progress();
        }
        sleeper.advance(PeerId(from));
    };
    drain(&mut sleeper, &mut far, 2);
    while !far.has_left() {
        far.progress();
        sleeper.progress();
    }
    for from in [1, 2, 2, 1] {
        let bell = sleeper.bell();
        bell.arm();
        while sleeper.progress() {}
        let sender = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let way = if from == 1 { &mut mate } else { &mut far };
                way.send_inline(PeerId(0), header, &[1]).unwrap();
                way.progress();
            });
            bell.sleep(Duration::from_secs(30));
            sender.join()
        });
        sender.unwrap();
        assert!(Instant::now() < patience - Duration::from_secs(31), "nobody rang");
        drain(&mut sleeper, &mut far, from);
    }
}

#[test]
fn streamed_messages_arrive_whole_and_in_order() {
    world(2, false, false);
    world(3, false, true);
}

#[test]
fn read_messages_arrive_whole_and_in_order() {
    world(2, true, true);
    // Streams and reading in turn, as their times decide.
    world(2, true, false);
    world(4, true, true);
}

/// The launcher says that a process died: whoever waits for it, even asleep, is told at once.
#[test]
fn waiting_for_a_process_that_dies_ends() {
    let segment = weft_shm::create().unwrap();
    let node = |local_index| NodeLocal {
        segment: segment.try_clone().unwrap(),
        local_index,
        peers: vec![PeerId(0), PeerId(1)],
        single_copy: true,
        oversubscribed: false,
    };
    let transports = Transports::node_local(node(0)).unwrap();
    let _victim = Transports::node_local(node(1)).unwrap();
    let launcher = segment.try_clone().unwrap();
    let (waits, waiting) = mpsc::channel();
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let engine = Engine::new(EngineConfig::new(PeerId(0), 2), transports).unwrap();
        let mut side = Side { engine, me: 0, ranks: 2, oversubscribed: false };
        let (data, room) = (Scratch::new(1 << 20), Scratch::new(8));
        let envelope = Envelope { peer: PeerId(1), context: CONTEXT, source: Rank(0), tag: Tag(1) };
        let Started::Pending(send) =
            side.engine.send(envelope, SendMode::Standard, data.send_buf(0, 1 << 20)).unwrap()
        else {
            panic!("nobody received a megabyte");
        };
        let any = Selector { context: CONTEXT, peer: None, source: None, tag: None };
        let from_it = Selector { peer: Some(PeerId(1)), source: Some(Rank(1)), ..any };
        for selector in [from_it, any] {
            let request = side.engine.recv(selector, room.recv_buf(0, 8)).unwrap();
            waits.send(()).unwrap();
            let error = side.wait(request).error.expect("nobody is left to send");
            assert_eq!(error.class(), weft_types::ErrorClass::PROC_ABORTED);
        }
        let error = side.wait(send).error.expect("nobody is left to receive");
        assert_eq!(error.class(), weft_types::ErrorClass::PROC_ABORTED);
        assert!(side.engine.is_quiet());
        done.send(()).unwrap();
    });
    waiting.recv_timeout(Duration::from_secs(60)).expect("a send and a receive under way");
    // Long enough to fall asleep, mostly; awake it must hear of it as well.
    std::thread::sleep(Duration::from_millis(20));
    weft_shm::mark_dead(&launcher, 2, 1).unwrap();
    ended.recv_timeout(Duration::from_secs(60)).expect("the survivor is told");
}

/// Longer than anything here takes, and no measure of anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// `ranks` processes of one node over the emulated fabric, and the file by which the launcher tells them of deaths.
fn forced(ranks: u32) -> (Vec<Transports>, File) {
    let (cards, segment) = (Cards::default(), weft_shm::create().unwrap());
    let open = |me: u32| {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (fabric, card) =
            Fabric::softroce(PeerId(me), address, 1, None, 0, Box::new(cards.clone())).unwrap();
        cards.0.lock().unwrap().insert(me, card);
        let (segment, peers) = (segment.try_clone().unwrap(), (0..ranks).map(PeerId).collect());
        let node = NodeLocal { segment, local_index: me, peers, single_copy: false, oversubscribed: true };
        Transports::forced(node, fabric).unwrap()
    };
    ((0..ranks).map(open).collect(), segment)
}

/// Moves `way` until it tells of a loss.
fn loss(way: &mut Transports) -> PeerId {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "nobody tells of the death");
        way.progress();
        if let Some(peer) = way.lost() {
            return peer;
        }
    }
}

#[test]
fn the_death_of_a_process_never_talked_to_is_told_and_wakes_who_sleeps() {
    let (mut ways, launcher) = forced(3);
    let first = &mut ways[0];
    for victim in [2, 1] {
        assert!(!first.are_here([PeerId(victim)].into_iter()), "the memory carries no messages");
        let bell = first.bell();
        bell.arm();
        while first.progress() {}
        std::thread::scope(|scope| {
            scope.spawn(|| weft_shm::mark_dead(&launcher, 3, victim).unwrap());
            let begun = Instant::now();
            bell.sleep(PATIENCE);
            assert!(begun.elapsed() < PATIENCE, "nobody rang");
        });
        assert!(!first.is_idle(), "who only glances sees that there is news");
        assert_eq!(loss(first), PeerId(victim));
    }
    weft_shm::mark_far_dead(&launcher, 3, 7).unwrap();
    assert_eq!(loss(&mut ways[0]), PeerId(7), "a process of another node, too");
}

/// Two processes of different nodes, and the file by which the launcher tells the first of deaths.
fn on_two_nodes() -> (Vec<Transports>, File) {
    let (cards, segment) = (Cards::default(), weft_shm::create().unwrap());
    let open = |me: u32| {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (fabric, card) =
            Fabric::softroce(PeerId(me), address, 1, None, 0, Box::new(cards.clone())).unwrap();
        cards.0.lock().unwrap().insert(me, card);
        fabric
    };
    let (first, second) = (open(0), open(1));
    let (memory, peers) = (segment.try_clone().unwrap(), vec![PeerId(0)]);
    let node = NodeLocal { segment: memory, local_index: 0, peers, single_copy: false, oversubscribed: true };
    (vec![Transports::both(node, first).unwrap(), Transports::over(second)], segment)
}

#[test]
fn what_the_dead_have_sent_counts() {
    let (ways, launcher) = forced(2);
    all_that_was_sent_comes(ways, || weft_shm::mark_dead(&launcher, 2, 1).unwrap());
    let (ways, launcher) = on_two_nodes();
    all_that_was_sent_comes(ways, || weft_shm::mark_far_dead(&launcher, 1, 1).unwrap());
}

/// The second process sends and dies, and what it has sent comes bit by bit, after looks that find nothing.
fn all_that_was_sent_comes(mut ways: Vec<Transports>, die: impl Fn()) {
    let mut second = ways.pop().unwrap();
    let mut first = ways.pop().unwrap();
    let header = Header::new(Kind::Eager, ContextId(4), Rank(1), Tag(1));
    second.connect(PeerId(0)).unwrap();
    let begun = Instant::now();
    let mut sent = 0;
    // More than one look takes in.
    while sent < 40 {
        assert!(begun.elapsed() < PATIENCE, "message {sent} finds no room");
        sent += u32::from(second.send_inline(PeerId(0), header, &[1]).is_ok());
        second.progress();
        if sent == 0 {
            first.progress();
        }
    }
    die();
    let mut taken = 0;
    for look in 1.. {
        assert!(begun.elapsed() < PATIENCE, "nobody tells of the death");
        first.progress();
        while first.peek(PeerId(1)).is_some() {
            first.advance(PeerId(1));
            taken += 1;
        }
        // As a wire would that is slower than the launcher.
        if look % 8 == 0 {
            second.progress();
        }
        if first.lost().is_some() {
            break;
        }
    }
    assert_eq!(taken, sent);
}
