//! Two streams over a network that loses, doubles and reorders: a seed each, in virtual time.

use super::*;
use std::collections::BTreeMap;
use weft_sim::Random;

const PIECE: u32 = 100;
const LONGEST: u32 = 1_000;

struct End {
    stream: Stream,
    /// Lengths of the messages that were queued and not seen complete.
    open: VecDeque<u32>,
    queued: u32,
    inbox: VecDeque<Box<[u8]>>,
    taken: u32,
    /// Takes messages only now and then.
    slow: bool,
}

type Datagram = (Ack, bool, Option<(Piece, Vec<u8>)>);

fn length_of(message: u32) -> u32 {
    1 + message.wrapping_mul(2_654_435_761) % if message.is_multiple_of(5) { LONGEST } else { PIECE / 2 }
}

/// Its bytes: no two places alike that are close.
fn byte_of(message: u32, offset: u32) -> u8 {
    (message.wrapping_mul(31) ^ offset.wrapping_mul(7)) as u8
}

struct World {
    ends: [End; 2],
    air: BTreeMap<(Nanos, u64), (usize, Datagram)>,
    now: Nanos,
    serial: u64,
    random: Random,
    loss: f64,
    sent: u64,
}

impl World {
    fn new(seed: u64, loss: f64) -> World {
        let mut random = Random::new(seed);
        let start = if random.chance(0.5) { u32::MAX - random.below(200) as u32 } else { 0 };
        let ends = [0, 1].map(|_| End {
            stream: Stream::new(PIECE, LONGEST, start),
            open: VecDeque::new(),
            queued: 0,
            inbox: VecDeque::new(),
            taken: 0,
            slow: random.chance(0.3),
        });
        World { ends, air: BTreeMap::new(), now: 0, serial: 0, random, loss, sent: 0 }
    }

    fn transmit(&mut self, at: usize) {
        let end = &mut self.ends[at];
        end.stream.tick(self.now);
        while let Some(out) = end.stream.next(self.now) {
            let ack = end.stream.ack();
            let piece = out.piece.map(|(piece, part)| {
                let message = end.queued - end.open.len() as u32 + part.message;
                let length = end.open[part.message as usize];
                assert!(part.offset + part.length <= length && part.length > 0);
                let places = part.offset..part.offset + part.length;
                (piece, places.map(|place| byte_of(message, place)).collect())
            });
            end.stream.left(self.now, out);
            assert!(end.stream.sent.len() <= WINDOW as usize);
            self.sent += 1;
            for _ in 0..1 + u32::from(self.random.chance(0.05)) {
                if !self.random.chance(self.loss) {
                    self.serial += 1;
                    let due = self.now + 1_000 + self.random.below(30_000);
                    self.air.insert((due, self.serial), (1 - at, (ack, out.ask, piece.clone())));
                }
            }
        }
    }

    fn arrive(&mut self) {
        while let Some(entry) = self.air.first_entry()
            && entry.key().0 <= self.now
        {
            let (at, (ack, ask, piece)) = entry.remove();
            let end = &mut self.ends[at];
            for _ in 0..end.stream.heard(ack) {
                end.open.pop_front().expect("no more than were sent");
            }
            match piece {
                Some((piece, bytes)) => {
                    let inbox = &mut end.inbox;
                    let taken = end.stream.came(self.now, piece, ask, &bytes, |whole| inbox.push_back(whole));
                    assert_eq!(taken, Ok(()));
                }
                None if ask => end.stream.was_asked(self.now),
                None => {}
            }
            assert!(end.inbox.len() <= 2 * WINDOW as usize, "it is made to hold {}", end.inbox.len());
            assert!(end.stream.ahead.len() < WINDOW as usize);
            if !end.slow || self.random.chance(0.05) {
                self.take(at);
            }
        }
    }

    fn take(&mut self, at: usize) {
        let end = &mut self.ends[at];
        while let Some(message) = end.inbox.pop_front() {
            let number = end.taken;
            assert_eq!(message.len() as u32, length_of(number));
            assert!((0..).zip(&message).all(|(place, &byte)| byte == byte_of(number, place)));
            end.taken += 1;
            end.stream.taken(self.now);
        }
    }

    fn step(&mut self) {
        for at in 0..2 {
            self.transmit(at);
        }
        let clocks = self.ends.iter().filter_map(|end| end.stream.deadline());
        let next = self.air.keys().map(|key| key.0).chain(clocks).min();
        self.now = next.map_or(self.now + 1_000_000, |next| next.max(self.now + 100));
        self.arrive();
    }

    fn queue(&mut self, at: usize) {
        let end = &mut self.ends[at];
        let length = length_of(end.queued);
        end.stream.queue(length);
        end.open.push_back(length);
        end.queued += 1;
    }

    fn run(&mut self, messages: u32, seed: u64) {
        while self.ends.iter().any(|end| end.queued < messages) {
            let at = self.random.below(2) as usize;
            if self.ends[at].queued < messages && self.ends[at].open.len() < 64 {
                self.queue(at);
            }
            if self.random.chance(0.3) {
                self.step();
            }
            if self.random.chance(0.02) {
                self.take(at);
            }
        }
        let begun = self.now;
        while self.ends.iter().any(|end| !end.open.is_empty() || end.taken < messages) {
            (0..2).for_each(|at| self.take(at));
            if self.random.chance(0.1) {
                (0..2).for_each(|at| self.ends[at].stream.hurry());
            }
            self.step();
            assert!(self.now - begun < 100_000_000_000, "it does not end (seed {seed})");
        }
    }
}

#[test]
fn every_message_arrives_once_and_in_order_over_a_bad_network() {
    weft_sim::worlds(weft_sim::seeds(60), |seed| {
        let loss = [0.0, 0.01, 0.1, 0.4][seed as usize % 4];
        World::new(seed, loss).run(300, seed);
    });
}

/// Without loss nothing leaves twice, and acknowledgements are few.
#[test]
fn a_good_network_carries_each_piece_once() {
    let mut world = World::new(3, 0.0);
    world.random = Random::new(0);
    world.ends.iter_mut().for_each(|end| end.slow = false);
    for _ in 0..64 {
        world.ends[0].stream.queue(PIECE);
        world.ends[0].open.push_back(PIECE);
        world.ends[0].queued += 1;
    }
    let mut pieces = 0;
    let mut bare = 0;
    for _ in 0..10_000 {
        for at in 0..2 {
            while let Some(out) = world.ends[at].stream.next(world.now) {
                let ack = world.ends[at].stream.ack();
                world.ends[at].stream.left(world.now, out);
                (pieces, bare) =
                    (pieces + u32::from(out.piece.is_some()), bare + u32::from(out.piece.is_none()));
                let other = &mut world.ends[1 - at];
                other.stream.heard(ack);
                if let Some((piece, _)) = out.piece {
                    let taken = other.stream.came(world.now, piece, out.ask, &[0; PIECE as usize], |_| {});
                    assert_eq!(taken, Ok(()));
                    other.stream.taken(world.now);
                }
            }
        }
        world.now += 1_000;
    }
    assert_eq!((pieces, bare), (64, 4), "one answer for each window");
    assert!(world.ends.iter().all(|end| end.stream.deadline().is_none()), "nothing moves any more");
}

/// Whoever does not look for a minute is not bothered by many repetitions, and gets everything.
#[test]
fn a_silent_receiver_is_asked_ever_less_often() {
    let mut world = World::new(1, 0.0);
    world.loss = 1.0;
    (0..3).for_each(|_| world.queue(0));
    while world.now < 60_000_000_000 {
        world.step();
    }
    assert!(world.sent < 250, "{} datagrams", world.sent);
    assert!(world.ends[0].stream.silences() >= 5);
    world.loss = 0.0;
    world.run(3, 1);
}

/// A receiver whose program takes nothing holds a bounded number, and goes on when it takes again.
#[test]
fn a_receiver_that_takes_nothing_is_not_flooded() {
    let mut world = World::new(2, 0.0);
    world.ends[1].slow = true;
    (0..200).for_each(|_| world.queue(0));
    let mut held = 0;
    for _ in 0..500 {
        world.transmit(0);
        world.transmit(1);
        world.now += 40_000;
        while let Some((&key, _)) = world.air.first_key_value() {
            let (at, (ack, ask, piece)) = world.air.remove(&key).unwrap();
            let end = &mut world.ends[at];
            for _ in 0..end.stream.heard(ack) {
                end.open.pop_front();
            }
            if let Some((piece, bytes)) = piece {
                let inbox = &mut end.inbox;
                end.stream.came(world.now, piece, ask, &bytes, |whole| inbox.push_back(whole)).unwrap();
            }
        }
        held = world.ends[1].inbox.len();
    }
    assert_eq!(held, WINDOW as usize);
    world.ends[1].slow = false;
    world.ends.iter_mut().for_each(|end| assert!(end.stream.ahead.is_empty()));
    world.run_to_end();
}

impl World {
    fn run_to_end(&mut self) {
        for _ in 0..100_000 {
            (0..2).for_each(|at| self.take(at));
            self.step();
        }
        assert!(self.ends[0].open.is_empty() && self.ends[1].taken == self.ends[0].queued);
    }
}

proptest::proptest! {
    /// As the fuzzer does it, from bytes of which most are steps near what is awaited.
    #[test]
    fn whatever_comes_a_conversation_keeps_no_more_than_it_may(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600)) {
        check_conversation(&bytes);
    }
}

#[test]
fn pieces_that_do_not_fit_together_are_refused() {
    let piece = |number, first, last| Piece { number, first, last };
    let mut stream = Stream::new(PIECE, LONGEST, 0);
    assert_eq!(stream.came(0, piece(0, false, true), false, &[1], |_| {}), Err(Nonsense), "no beginning");
    let mut stream = Stream::new(PIECE, LONGEST, 0);
    stream.came(0, piece(0, true, false), false, &[1], |_| {}).unwrap();
    assert_eq!(stream.came(0, piece(1, true, true), false, &[1], |_| {}), Err(Nonsense), "no end");
    assert_eq!(stream.came(0, piece(1, false, true), false, &[1; 1_000], |_| {}), Err(Nonsense), "too long");
    assert_eq!(stream.came(0, piece(7, true, true), false, &[], |_| {}), Err(Nonsense));
    stream.came(0, piece(u32::MAX / 2, true, true), false, &[1], |_| panic!("far off")).unwrap();
    assert_eq!(
        stream.heard(Ack { before: 77, besides: 0, room: 1 }),
        0,
        "what was never sent is not acknowledged"
    );
}

/// What a peer by datagrams costs while nothing is under way: the crate's readme says the same.
#[test]
fn a_conversation_that_is_over_keeps_numbers_only() {
    let mut world = World::new(4, 0.1);
    world.ends.iter_mut().for_each(|end| end.slow = false);
    world.run(100, 4);
    world.run_to_end();
    for end in &world.ends {
        let stream = &end.stream;
        let kept = stream.sent.capacity() + stream.queued.capacity() + stream.ahead.capacity();
        assert_eq!(kept + stream.partial.capacity(), 0);
    }
    let said = format!("{} bytes more for one that messages go to by datagrams", size_of::<Stream>());
    assert!(include_str!("../../README.md").contains(&said), "the readme should say: {said}");
}
