//! Messages of senders that wait in a call, of which both ends copy a part: each comes once and whole, whatever is denied and whoever dies,
//! and nothing is owed at the end.

use std::sync::Arc;
use std::time::Duration;
use weft_datatype::Scratch;
use weft_engine::world::World;
use weft_engine::{Clock, Engine, EngineConfig, Envelope, RequestId, Selector, SendMode, Started};
use weft_sim::Random;
use weft_types::{ContextId, ErrorClass, PeerId, Rank, Tag};

const CONTEXT: ContextId = ContextId(4);
const ROOM: usize = 9000;
const TIMED: u64 = 1 << 32;

fn to(peer: u32, source: u32) -> Envelope {
    Envelope { peer: PeerId(peer), context: CONTEXT, source: Rank(source), tag: Tag(1) }
}

fn from(peer: u32) -> Selector {
    Selector { context: CONTEXT, peer: Some(PeerId(peer)), source: Some(Rank(peer)), tag: Some(Tag(1)) }
}

fn limits(config: &mut EngineConfig, shares_within: u64, clock: Clock) {
    (config.eager_limit, config.shares_from, config.shares_asleep_from) = (100, 300, 700);
    (config.shares_within, config.clock) = (shares_within, clock);
}

/// Ranks that can read each other, where messages beyond 100 bytes are announced, and shared from 300 on, from 700 on also with who may be
/// asleep, as by some seeds all are. By one all look at the machine's clock.
fn world(ranks: u32, seed: u64, denial: f64, full: f64) -> World {
    World::new(ranks)
        .seed(seed)
        .full(full)
        .fabric(|sim| {
            (sim.single_copy, sim.denial) = (true, denial);
            (sim.max_copy, sim.depth, sim.delay) = (1024, 8, 5);
        })
        .engines(match seed % 4 {
            _ if seed == TIMED => |config| limits(config, 0, Clock::Machine),
            1 => |config| limits(config, 0, Clock::Drawn),
            _ => |config| limits(config, u64::MAX, Clock::Drawn),
        })
        .build()
}

fn message(random: &mut Random, length: usize) -> Arc<Scratch> {
    let scratch = Scratch::new(length);
    let room = scratch.recv_buf(0, length);
    let mut room = room;
    room.as_mut_slice().unwrap().iter_mut().for_each(|byte| *byte = random.next() as u8);
    scratch
}

fn bytes(scratch: &Arc<Scratch>) -> Vec<u8> {
    scratch.send_buf(0, scratch.len()).as_slice().unwrap().to_vec()
}

/// Begins a send that its rank waits for.
fn send(engine: &mut Engine, envelope: Envelope, mode: SendMode, data: &Arc<Scratch>) -> Option<RequestId> {
    engine.stay(true);
    let started = engine.send(envelope, mode, data.send_buf(0, data.len())).unwrap();
    engine.stay(false);
    match started {
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

#[test]
fn each_message_comes_once_and_whole() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let denial = [0.0, 0.0, 0.2, 0.5][seed as usize % 4];
        let full = if seed % 3 == 0 { 0.3 } else { 0.0 };
        let mut world = world(2, seed, denial, full);
        for exchange in 0..40_u32 {
            let (rank, other) = ((exchange % 2) as usize, 1 - exchange % 2);
            let length = [50, 299, 300, 698, 4000, 8998][random.below(6) as usize] + random.below(2) as usize;
            let (data, room) = (message(&mut random, length), Scratch::new(ROOM));
            // Some do not fit.
            let place = if random.chance(0.1) { length / 2 } else { ROOM };
            let before = random.chance(0.6);
            let post = |world: &mut World| {
                world.engines[other as usize].recv(from(rank as u32), room.recv_buf(0, place)).unwrap()
            };
            let posted = before.then(|| post(&mut world));
            let mode = if random.chance(0.3) { SendMode::Synchronous } else { SendMode::Standard };
            let sent = send(&mut world.engines[rank], to(other, rank as u32), mode, &data);
            (0..random.below(30)).for_each(|_| _ = world.step());
            let received = posted.unwrap_or_else(|| post(&mut world));
            world.settle();
            end(&mut world.engines[rank], sent);
            let engine = &mut world.engines[other as usize];
            assert!(engine.is_complete(received), "seed {seed}, exchange {exchange}");
            let error = engine.take(received).error.map(|error| error.class());
            assert_eq!(error, (length > place).then_some(ErrorClass::TRUNCATE), "seed {seed}");
            let here = length.min(place);
            assert!(bytes(&room)[..here] == bytes(&data)[..here], "seed {seed}, exchange {exchange}");
            assert!(bytes(&room)[here..].iter().all(|&byte| byte == 0), "seed {seed}: beyond its end");
        }
        assert!(world.engines.iter().all(Engine::is_quiet), "seed {seed}");
    }
}

/// A receive that has read its part, and whose sender has not looked yet: both requests, data and room.
fn half_way(world: &mut World) -> (RequestId, RequestId, Arc<Scratch>, Arc<Scratch>) {
    half_way_of(world, 8000, true)
}

/// The same of a message of so many bytes whose receive is posted before or after its announcement has come.
fn half_way_of(
    world: &mut World,
    length: usize,
    before: bool,
) -> (RequestId, RequestId, Arc<Scratch>, Arc<Scratch>) {
    let (data, room) = (message(&mut Random::new(9), length), Scratch::new(ROOM));
    let post = |world: &mut World| world.engines[1].recv(from(0), room.recv_buf(0, ROOM)).unwrap();
    let posted = before.then(|| post(world));
    let sent = send(&mut world.engines[0], to(1, 0), SendMode::Standard, &data).expect("it is announced");
    if !before {
        (0..500).for_each(|_| _ = world.engines[1].progress());
    }
    let received = posted.unwrap_or_else(|| post(world));
    (0..500).for_each(|_| _ = world.engines[1].progress());
    (sent, received, data, room)
}

#[test]
fn the_sender_copies_its_part() {
    let mut world = world(2, 4, 0.0, 0.0);
    let (sent, received, data, room) = half_way(&mut world);
    assert!(!world.engines[1].is_complete(received), "it waits for the sender");
    let here = bytes(&room).iter().zip(bytes(&data)).take_while(|(room, data)| **room == *data).count();
    assert!((4000..4250).contains(&here), "the receiver has copied {here} bytes");
    world.settle();
    end(&mut world.engines[0], Some(sent));
    end(&mut world.engines[1], Some(received));
    assert!(bytes(&room)[..8000] == bytes(&data));
}

/// Bytes of a message of `length` that its receiver has copied when it waits for the sender, if it does.
fn front(length: usize, before: bool, seed: u64) -> Option<usize> {
    let mut world = world(2, seed, 0.0, 0.0);
    let (sent, received, data, room) = half_way_of(&mut world, length, before);
    let here = bytes(&room).iter().zip(bytes(&data)).take_while(|(room, data)| **room == *data).count();
    let waits = !world.engines[1].is_complete(received);
    world.settle();
    end(&mut world.engines[0], Some(sent));
    end(&mut world.engines[1], Some(received));
    assert!(bytes(&room)[..length] == bytes(&data));
    waits.then_some(here)
}

#[test]
fn a_sender_that_may_be_asleep_copies_less_and_only_of_a_long_message() {
    let (fresh, late) = (4, 5);
    assert!((320..400).contains(&front(650, true, fresh).expect("its sender looks for the answer")));
    assert_eq!(front(650, true, late), None, "too short for waking its sender");
    assert_eq!(front(650, false, fresh), None, "its announcement had to wait for a receive");
    // 262 bytes, and half of what is left.
    for (before, seed) in [(true, late), (false, fresh)] {
        let here = front(8000, before, seed).expect("its sender is woken");
        assert!((4100..4300).contains(&here), "the receiver has copied {here} bytes");
    }
}

#[test]
fn a_sender_that_comes_late_is_left_asleep_next_time() {
    let mut world = world(2, TIMED, 0.0, 0.0);
    let (sent, received, ..) = half_way(&mut world);
    assert!(!world.engines[1].is_complete(received), "it is woken");
    // Far longer than it may take.
    std::thread::sleep(Duration::from_millis(20));
    world.settle();
    end(&mut world.engines[0], Some(sent));
    end(&mut world.engines[1], Some(received));
    let (sent, received, data, room) = half_way(&mut world);
    assert!(world.engines[1].is_complete(received), "its receiver reads all");
    world.settle();
    end(&mut world.engines[0], Some(sent));
    end(&mut world.engines[1], Some(received));
    assert!(bytes(&room)[..8000] == bytes(&data));
}

#[test]
fn a_sender_that_dies_ends_the_receive() {
    let mut world = world(2, 6, 0.0, 0.0);
    let (_, received, ..) = half_way(&mut world);
    world.kill(0);
    for _ in 0..10_000 {
        world.engines[1].progress();
        if world.engines[1].is_complete(received) {
            break;
        }
        world.step();
    }
    assert!(world.engines[1].is_complete(received), "the receiver waits for the dead");
    assert_eq!(world.engines[1].take(received).error.unwrap().class(), ErrorClass::PROC_ABORTED);
}

#[test]
fn a_receive_that_is_given_up_ends_when_its_memory_is_left_alone() {
    let mut world = world(3, 7, 0.0, 0.0);
    let (sent, received, data, room) = half_way(&mut world);
    world.engines[1].give_up(received, PeerId(2));
    assert!(!world.engines[1].is_complete(received), "the sender may still write there");
    world.settle();
    end(&mut world.engines[0], Some(sent));
    assert_eq!(world.engines[1].take(received).error, None);
    assert!(bytes(&room)[..8000] == bytes(&data));
}
