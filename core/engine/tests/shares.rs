//! Long messages of which both ends copy parts: each comes once and whole, whatever is denied and whoever dies, nobody waits for a sender that does
//! not look, and nothing is owed at the end.

use std::sync::Arc;
use weft_api::shares::Part;
use weft_datatype::Scratch;
use weft_engine::world::World;
use weft_engine::{Clock, Engine, Envelope, RequestId, Selector, SendMode, Started};
use weft_sim::Random;
use weft_types::{ContextId, ErrorClass, Farewell, PeerId, Rank, Tag};

const CONTEXT: ContextId = ContextId(4);
const ROOM: usize = 20_000;

fn to(peer: u32, source: u32) -> Envelope {
    Envelope { peer: PeerId(peer), context: CONTEXT, source: Rank(source), tag: Tag(1) }
}

fn from(peer: u32) -> Selector {
    Selector { context: CONTEXT, peer: Some(PeerId(peer)), source: Some(Rank(peer)), tag: Some(Tag(1)) }
}

/// Ranks that can read each other, where messages beyond 100 bytes are announced, and shared from 300 on (in rows from 100 on), in parts of 256.
fn world(ranks: u32, seed: u64, denial: f64, full: f64) -> World {
    World::new(ranks)
        .seed(seed)
        .full(full)
        .fabric(|sim| {
            (sim.single_copy, sim.denial) = (true, denial);
            (sim.max_copy, sim.depth, sim.delay) = (1024, 8, 5);
        })
        .engines(|config| {
            (config.eager_limit, config.shares_from, config.shares_asleep_from) = (100, 300, 7000);
            (config.shares_part, config.clock) = (256, Clock::Drawn);
        })
        .build()
}

fn message(random: &mut Random, length: usize) -> Arc<Scratch> {
    let scratch = Scratch::new(length);
    let mut room = scratch.recv_buf(0, length);
    // No byte is what a room has before.
    room.as_mut_slice().unwrap().iter_mut().for_each(|byte| *byte = random.next() as u8 | 1);
    scratch
}

fn bytes(scratch: &Arc<Scratch>) -> Vec<u8> {
    scratch.send_buf(0, scratch.len()).as_slice().unwrap().to_vec()
}

fn send(engine: &mut Engine, envelope: Envelope, mode: SendMode, data: &Arc<Scratch>) -> Option<RequestId> {
    match engine.send(envelope, mode, data.send_buf(0, data.len())).unwrap() {
        Started::Complete => None,
        Started::Pending(request) => Some(request),
    }
}

fn end(engine: &mut Engine, request: Option<RequestId>) {
    if let Some(request) = request {
        assert!(engine.is_complete(request));
        assert_eq!(engine.take(request).error, None);
    }
}

/// A message on its way.
struct Flight {
    rank: usize,
    data: Arc<Scratch>,
    room: Arc<Scratch>,
    place: usize,
    sent: Option<RequestId>,
    received: Option<RequestId>,
}

#[test]
fn each_message_comes_once_and_whole() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let denial = [0.0, 0.0, 0.2, 0.5][seed as usize % 4];
        let full = if seed % 3 == 0 { 0.3 } else { 0.0 };
        let mut world = world(2, seed, denial, full);
        for row in 0..12 {
            let mut flights = Vec::new();
            for _ in 0..=random.below(8) {
                let rank = random.below(2) as usize;
                let length =
                    [50, 99, 299, 300, 1023, 4000, 8998][random.below(7) as usize] + random.below(2) as usize;
                let (data, room) = (message(&mut random, length), Scratch::new(ROOM));
                // Some do not fit.
                let place = if random.chance(0.1) { length / 2 } else { ROOM };
                let mut flight = Flight { rank, data, room, place, sent: None, received: None };
                let post = |world: &mut World, flight: &mut Flight| {
                    let buffer = flight.room.recv_buf(0, flight.place);
                    let engine = &mut world.engines[1 - flight.rank];
                    flight.received = Some(engine.recv(from(flight.rank as u32), buffer).unwrap());
                };
                // All of one direction before their messages, or all after: they must meet in order.
                let before = (seed + row + rank as u64).is_multiple_of(2);
                if before {
                    post(&mut world, &mut flight);
                }
                let mode = if random.chance(0.3) { SendMode::Synchronous } else { SendMode::Standard };
                let envelope = to(1 - rank as u32, rank as u32);
                flight.sent = send(&mut world.engines[rank], envelope, mode, &flight.data);
                (0..random.below(12)).for_each(|_| _ = world.step());
                if !before {
                    post(&mut world, &mut flight);
                }
                flights.push(flight);
            }
            // One of the two is busy with something else for a while.
            let looks = random.below(2) as usize;
            (0..random.below(60)).for_each(|_| _ = world.engines[looks].progress());
            world.settle();
            for (number, flight) in flights.into_iter().enumerate() {
                end(&mut world.engines[flight.rank], flight.sent);
                let (engine, received) = (&mut world.engines[1 - flight.rank], flight.received.unwrap());
                let what = format!("seed {seed}, row {row}, message {number}");
                assert!(engine.is_complete(received), "{what}");
                let (length, error) = (flight.data.len(), engine.take(received).error);
                let truncated = (length > flight.place).then_some(ErrorClass::TRUNCATE);
                assert_eq!(error.map(|error| error.class()), truncated, "{what}");
                let here = length.min(flight.place);
                assert!(bytes(&flight.room)[..here] == bytes(&flight.data)[..here], "{what}");
                assert!(bytes(&flight.room)[here..].iter().all(|&byte| byte == 0), "{what}: beyond its end");
            }
        }
        assert!(world.engines.iter().all(Engine::is_quiet), "seed {seed}");
    }
}

/// A row of messages from rank 0 to rank 1 whose receives are posted.
struct Row {
    world: World,
    sent: Vec<Option<RequestId>>,
    received: Vec<RequestId>,
    data: Vec<Arc<Scratch>>,
    rooms: Vec<Arc<Scratch>>,
}

fn row(lengths: &[usize], seed: u64) -> Row {
    let (mut world, mut random) = (world(3, seed, 0.0, 0.0), Random::new(seed));
    let data: Vec<_> = lengths.iter().map(|&length| message(&mut random, length)).collect();
    let rooms: Vec<_> = lengths.iter().map(|_| Scratch::new(ROOM)).collect();
    let post = |room: &Arc<Scratch>| world.engines[1].recv(from(0), room.recv_buf(0, ROOM)).unwrap();
    let received = rooms.iter().map(post).collect();
    let start = |data| send(&mut world.engines[0], to(1, 0), SendMode::Standard, data);
    let sent = data.iter().map(start).collect();
    // Everything is announced, and seen at once.
    world.fabric().pass(100);
    Row { world, sent, received, data, rooms }
}

impl Row {
    /// Which bytes of a message are here, as the first one and their number.
    fn here(&self, message: usize) -> (usize, usize) {
        let room = bytes(&self.rooms[message]);
        let number = room.iter().filter(|&&byte| byte != 0).count();
        (room.iter().position(|&byte| byte != 0).unwrap_or(0), number)
    }

    /// The receiver looks until something is laid out.
    fn lay_out(&mut self) {
        let table = self.world.fabric().shares(0, 1);
        assert!((0..100).any(|_| {
            self.world.engines[1].progress();
            table.left() > 0
        }));
    }

    fn take(&self) -> Option<Part> {
        self.world.fabric().shares(0, 1).take().map(|(_, part)| part)
    }

    fn receiver_looks(&mut self) {
        (0..500).for_each(|_| _ = self.world.engines[1].progress());
        self.world.fabric().pass(100);
        (0..500).for_each(|_| _ = self.world.engines[1].progress());
    }

    fn ends(mut self) {
        self.world.settle();
        for (number, sent) in self.sent.into_iter().enumerate() {
            end(&mut self.world.engines[0], sent);
            end(&mut self.world.engines[1], Some(self.received[number]));
            assert!(bytes(&self.rooms[number])[..self.data[number].len()] == bytes(&self.data[number]));
        }
        assert!(self.world.engines.iter().all(Engine::is_quiet));
    }
}

#[test]
fn the_sender_copies_the_back_of_a_message() {
    let mut row = row(&[8000], 4);
    row.lay_out();
    assert_eq!(row.here(0), (0, 16 * 256), "the receiver reads so much in a row");
    (0..100).for_each(|_| _ = row.world.engines[0].progress());
    assert!((18 * 256..=19 * 256).contains(&row.here(0).1), "and lays three parts out");
    assert!(!row.world.engines[1].is_complete(row.received[0]), "it has not heard of it");
    row.ends();
}

#[test]
fn the_sender_copies_the_last_messages_of_a_row() {
    let mut row = row(&[1500; 6], 5);
    row.lay_out();
    let here = |row: &Row| [0, 1, 2, 3, 4, 5].map(|number| row.here(number).1);
    let read = here(&row);
    assert!(
        read[0] == 1500 && read[1] == 1500 && read[2] > 0,
        "the receiver begins with the first: {read:?}"
    );
    assert_eq!(read[3..], [0; 3]);
    row.world.engines[0].progress();
    let both = here(&row);
    assert!(both[..5] == read[..5] && (192..=256).contains(&both[5]), "its sender with the last: {both:?}");
    row.receiver_looks();
    (0..5).for_each(|number| assert!(row.world.engines[1].is_complete(row.received[number])));
    row.ends();
}

/// Who posts a receive and computes then, or looks now and then, leaves nothing behind.
#[test]
fn a_look_reads_all_that_is_there() {
    let mut world = world(2, 11, 0.0, 0.0);
    let (data, room) = (message(&mut Random::new(11), 4000), Scratch::new(ROOM));
    let _ = send(&mut world.engines[0], to(1, 0), SendMode::Standard, &data).expect("announced");
    world.fabric().pass(100);
    world.engines[1].progress();
    let received = world.engines[1].recv(from(0), room.recv_buf(0, ROOM)).unwrap();
    assert!(world.engines[1].is_complete(received), "posting it reads all");
    let mut row = row(&[1300; 3], 12);
    row.world.engines[1].progress();
    assert!(row.received.iter().all(|&received| row.world.engines[1].is_complete(received)), "one look");
    row.ends();
}

#[test]
fn nobody_waits_for_a_sender_that_does_not_look() {
    let mut row = row(&[8000, 2000, 100, 700], 6);
    row.receiver_looks();
    assert!(row.received.iter().all(|&received| row.world.engines[1].is_complete(received)));
    row.ends();
}

/// Parts cost a little, so that of a sender that is busy less and less is hoped for, until it copies again.
#[test]
fn a_busy_sender_is_left_alone_for_a_while() {
    let mut row = row(&[5000], 14);
    let table = row.world.fabric().shares(0, 1);
    let laid_out = |row: &mut Row, takes: bool| {
        let room = Scratch::new(ROOM);
        let received = row.world.engines[1].recv(from(0), room.recv_buf(0, ROOM)).unwrap();
        let sent = send(&mut row.world.engines[0], to(1, 0), SendMode::Standard, &row.data[0]);
        row.world.fabric().pass(100);
        row.world.engines[1].progress();
        let laid_out = table.left() > 0;
        (0..if takes { 5 } else { 0 }).for_each(|_| _ = row.world.engines[0].progress());
        row.receiver_looks();
        row.world.settle();
        end(&mut row.world.engines[0], sent);
        end(&mut row.world.engines[1], Some(received));
        laid_out
    };
    row.receiver_looks();
    let found: Vec<bool> = (0..12).map(|_| laid_out(&mut row, false)).collect();
    let expected = [2, 5, 10].map(|place| place - 1);
    assert!((0..12).all(|number| found[number] == expected.contains(&number)), "{found:?}");
    while !laid_out(&mut row, true) {}
    assert!(laid_out(&mut row, true) && laid_out(&mut row, true), "it copies again");
    row.ends();
}

/// Steps until a receive is complete; its error.
fn error_of(row: &mut Row) -> Option<ErrorClass> {
    for _ in 0..10_000 {
        row.world.engines[1].progress();
        if row.world.engines[1].is_complete(row.received[0]) {
            break;
        }
        row.world.fabric().pass(1);
    }
    assert!(row.world.engines[1].is_complete(row.received[0]), "the receiver waits for nobody");
    row.world.engines[1].take(row.received[0]).error.map(|error| error.class())
}

#[test]
fn a_sender_that_dies_with_a_part_ends_the_receive() {
    let mut row = row(&[8000], 7);
    row.lay_out();
    assert!(row.take().is_some_and(|part| part.from + part.length == 8000));
    row.receiver_looks();
    assert!(!row.world.engines[1].is_complete(row.received[0]), "the sender may still write there");
    row.world.kill(0);
    assert_eq!(error_of(&mut row), Some(ErrorClass::PROC_ABORTED));
}

/// Whoever wakes a sender may find that it is dead.
#[test]
fn a_sender_that_is_dead_when_its_parts_are_laid_out_ends_the_receive() {
    let mut row = row(&[8000], 13);
    row.world.fabric().kill(0);
    assert_eq!(error_of(&mut row), Some(ErrorClass::PROC_ABORTED));
}

#[test]
fn a_sender_that_leaves_with_a_part_ends_the_receive() {
    for taken in [true, false] {
        let mut row = row(&[16_000], 8);
        row.lay_out();
        let laid_out = row.here(0);
        while taken && row.here(0) == laid_out {
            row.world.engines[0].progress();
        }
        row.world.engines[0].farewell(Farewell::ALL);
        row.world.fabric().pass(100);
        assert_eq!(error_of(&mut row), Some(ErrorClass::PROC_ABORTED), "taken: {taken}");
        assert_eq!(row.world.fabric().shares(0, 1).left(), 0, "it may look again");
    }
}

#[test]
fn a_receive_that_is_given_up_ends_when_its_memory_is_left_alone() {
    // Its sender's word comes sooner or later.
    for (seed, taken) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut row = row(&[8000], seed);
        row.lay_out();
        let laid_out = row.here(0);
        while taken && row.here(0) == laid_out {
            row.world.engines[0].progress();
        }
        let before = row.here(0);
        row.world.engines[1].give_up(row.received[0], PeerId(2));
        let over = row.world.engines[1].is_complete(row.received[0]);
        assert_eq!(over, !taken, "the sender may still write there");
        assert_eq!(error_of(&mut row), Some(ErrorClass::PROC_ABORTED));
        assert_eq!(
            (row.here(0), row.world.fabric().shares(0, 1).left()),
            (before, 0),
            "nothing is read any more"
        );
    }
}

/// Who sleeps looks again when a packet comes.
#[test]
fn the_sender_of_a_long_message_is_woken() {
    for (length, wakes) in [(8000, true), (6000, false)] {
        let mut row = row(&[length], 10);
        row.world.engines[0].progress();
        row.lay_out();
        while row.take().is_some() {}
        row.world.fabric().pass(100);
        assert_eq!(row.world.engines[0].progress(), wakes, "{length} bytes");
    }
}
