//! Messages of middle length between processes that take turns: sent in packets or read, whoever waits for whom, each comes once and
//! whole, and nothing is owed at the end.

use std::sync::Arc;
use weft_datatype::{Scratch, SendBuf};
use weft_engine::world::World;
use weft_engine::{Arriving, Clock, Engine, Envelope, RequestId, Selector, SendMode, Soon, Started};
use weft_sim::Random;
use weft_types::{ContextId, ErrorClass, PeerId, Rank, Tag};

const CONTEXT: ContextId = ContextId(4);
const ROOM: usize = 5000;

fn to(peer: u32, source: u32) -> Envelope {
    Envelope { peer: PeerId(peer), context: CONTEXT, source: Rank(source), tag: Tag(1) }
}

fn from(peer: u32) -> Selector {
    Selector { context: CONTEXT, peer: Some(PeerId(peer)), source: Some(Rank(peer)), tag: Some(Tag(1)) }
}

/// Two ranks that can read each other, where messages from 100 to 4,000 bytes may be offered.
fn world(seed: u64, denial: f64, full: f64, few_announcements: bool) -> World {
    World::new(2)
        .seed(seed)
        .full(full)
        .fabric(|sim| {
            (sim.single_copy, sim.compared, sim.denial) = (true, true, denial);
            (sim.max_copy, sim.depth, sim.delay) = (1024, 8, 5);
        })
        .engines(match few_announcements {
            false => |config| {
                (config.offers_from, config.eager_limit) = (100, 4000);
                (config.eager_budget_per_sender, config.clock) = (20_000, Clock::Drawn);
            },
            true => |config| {
                (config.offers_from, config.eager_limit) = (100, 4000);
                (config.eager_budget_per_sender, config.clock) = (20_000, Clock::Drawn);
                config.announcements_per_sender = 1;
            },
        })
        .build()
}

fn message(random: &mut Random, length: usize) -> Arc<Scratch> {
    let scratch = Scratch::new(length);
    scratch
        .recv_buf(0, length)
        .as_mut_slice()
        .unwrap()
        .iter_mut()
        .for_each(|byte| *byte = random.next() as u8);
    scratch
}

fn bytes(scratch: &Arc<Scratch>, length: usize) -> Vec<u8> {
    scratch.send_buf(0, length).as_slice().unwrap().to_vec()
}

/// Sends from memory that the program keeps; whether it was offered to be read.
fn send(world: &mut World, rank: u32, data: &Arc<Scratch>) -> (Option<RequestId>, bool) {
    let engine = &mut world.engines[rank as usize];
    let address = data.send_buf(0, data.len()).as_slice().unwrap().as_ptr();
    // SAFETY: the test keeps the memory until the send has ended.
    let buffer = unsafe { SendBuf::contiguous(address, data.len()) };
    let before = engine.offers();
    let started = engine.send(to(1 - rank, rank), SendMode::Standard, buffer).unwrap();
    let offered = engine.offers() != before;
    match started {
        Started::Complete => (None, offered),
        Started::Pending(request) => (Some(request), offered),
    }
}

fn end(world: &mut World, rank: u32, request: Option<RequestId>) {
    let Some(request) = request else { return };
    let engine = &mut world.engines[rank as usize];
    assert!(engine.is_complete(request));
    assert_eq!(engine.take(request).error, None);
}

/// A receive by the short ways, as a blocking call goes them; or a request for it.
fn receive(engine: &mut Engine, peer: u32, room: &Arc<Scratch>, turns: u32) -> Option<RequestId> {
    let mut buffer = room.recv_buf(0, ROOM);
    let arriving = match engine.receive_at_once(to(peer, peer), &mut buffer, turns) {
        Soon::Received(_) => return None,
        Soon::Announced => engine.receive_pieces(to(peer, peer), buffer, 7, turns).unwrap(),
        Soon::Behind | Soon::Nothing => Arriving::Nothing(buffer),
    };
    match arriving {
        Arriving::Received(_) => None,
        Arriving::Begun(request) => Some(request),
        Arriving::Nothing(buffer) => Some(engine.recv(from(peer), buffer).unwrap()),
    }
}

#[test]
fn each_message_comes_once_and_whole_whoever_waits_for_whom() {
    let (mut offers, mut early) = (0, 0);
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let denial = if seed % 5 == 0 { 0.02 } else { 0.0 };
        let full = if seed % 3 == 0 { 0.3 } else { 0.0 };
        let mut world = world(seed, denial, full, seed % 2 == 1);
        for exchange in 0..120_u32 {
            let rank = exchange % 2;
            let length = [150, 100, 400, 1600, 3999][random.below(5) as usize] + random.below(2) as usize;
            let (data, room) = (message(&mut random, length), Scratch::new(ROOM));
            let before = random.chance(0.6);
            let posted = before
                .then(|| world.engines[1 - rank as usize].recv(from(rank), room.recv_buf(0, ROOM)).unwrap());
            let (sent, offered) = send(&mut world, rank, &data);
            offers += u32::from(offered);
            early += u32::from(offered && !before);
            (0..random.below(30)).for_each(|_| _ = world.step());
            let turns = 1 + random.below(40) as u32;
            let received =
                posted.or_else(|| receive(&mut world.engines[1 - rank as usize], rank, &room, turns));
            world.settle();
            end(&mut world, rank, sent);
            end(&mut world, 1 - rank, received);
            assert!(bytes(&room, length) == bytes(&data, length), "seed {seed}, exchange {exchange}");
            assert!(
                bytes(&room, ROOM)[length..].iter().all(|&byte| byte == 0),
                "seed {seed}: beyond its end"
            );
        }
        world.settle();
        assert!(world.engines.iter().all(Engine::is_quiet), "seed {seed}");
    }
    assert!(offers > 1500 && early > 500, "{offers} offers, {early} of them before their receive");
}

/// Takes turns until the next message of rank 0 will be offered.
fn until_offered(world: &mut World, length: usize) {
    let mut random = Random::new(1);
    for _ in 0..1000 {
        let mut offered = [false; 2];
        for rank in [0, 1_u32] {
            let (data, room) = (message(&mut random, length), Scratch::new(ROOM));
            let received = world.engines[1 - rank as usize].recv(from(rank), room.recv_buf(0, ROOM)).unwrap();
            let sent = send(world, rank, &data);
            offered[rank as usize] = sent.1;
            world.settle();
            end(world, rank, sent.0);
            end(world, 1 - rank, Some(received));
        }
        // In a trial runs of four go the same way, and this was the first.
        if offered == [true; 2] {
            return;
        }
    }
    panic!("nothing is offered");
}

#[test]
fn two_that_send_first_meet_though_nobody_waits() {
    let mut world = world(3, 0.0, 0.0, false);
    until_offered(&mut world, 1000);
    let mut random = Random::new(2);
    let data = [message(&mut random, 1000), message(&mut random, 1000)];
    let sent = [0, 1].map(|rank| send(&mut world, rank, &data[rank as usize]));
    assert!(sent[0].1, "the turn is that of rank 0");
    world.settle();
    for rank in [0, 1] {
        // Complete before anybody receives: as if they had been sent in packets.
        end(&mut world, rank, sent[rank as usize].0);
    }
    for rank in [0, 1_u32] {
        let room = Scratch::new(ROOM);
        let received = receive(&mut world.engines[rank as usize], 1 - rank, &room, 1);
        world.settle();
        end(&mut world, rank, received);
        assert!(bytes(&room, 1000) == bytes(&data[1 - rank as usize], 1000));
    }
    world.settle();
    assert!(world.engines.iter().all(Engine::is_quiet));
}

#[test]
fn a_receive_that_is_too_short_gets_what_fits_and_its_error() {
    let mut world = world(4, 0.0, 0.0, false);
    until_offered(&mut world, 1000);
    let mut random = Random::new(3);
    let mut offers = 0;
    for (room_for, posted) in [(300, true), (300, false), (0, true)] {
        let (data, room) = (message(&mut random, 1000), Scratch::new(ROOM));
        let early = posted.then(|| world.engines[1].recv(from(0), room.recv_buf(0, room_for)).unwrap());
        let (sent, offered) = send(&mut world, 0, &data);
        offers += u32::from(offered);
        world.settle();
        let received =
            early.unwrap_or_else(|| world.engines[1].recv(from(0), room.recv_buf(0, room_for)).unwrap());
        world.settle();
        end(&mut world, 0, sent);
        let completion = world.engines[1].take(received);
        assert_eq!(completion.error.map(|error| error.class()), Some(ErrorClass::TRUNCATE));
        assert!(bytes(&room, room_for) == bytes(&data, room_for));
        assert!(bytes(&room, ROOM)[room_for..].iter().all(|&byte| byte == 0));
        // The turn is the other's.
        let (data, room) = (message(&mut random, 1000), Scratch::new(ROOM));
        let (sent, _) = send(&mut world, 1, &data);
        let received = world.engines[0].recv(from(1), room.recv_buf(0, ROOM)).unwrap();
        world.settle();
        end(&mut world, 1, sent);
        end(&mut world, 0, Some(received));
    }
    assert_eq!(offers, 3);
}

#[test]
fn rows_of_messages_to_one_process_go_in_packets() {
    let mut world = world(5, 0.0, 0.0, false);
    until_offered(&mut world, 1000);
    let mut random = Random::new(4);
    let data: Vec<_> = (0..8).map(|_| message(&mut random, 1000)).collect();
    let offered: Vec<bool> = data.iter().map(|data| send(&mut world, 0, data).1).collect();
    assert!(offered[0] && offered[1..].iter().all(|offered| !offered), "{offered:?}");
    for data in &data {
        let room = Scratch::new(ROOM);
        let received = world.engines[1].recv(from(0), room.recv_buf(0, ROOM)).unwrap();
        world.settle();
        end(&mut world, 1, Some(received));
        assert!(bytes(&room, 1000) == bytes(data, 1000));
    }
}

#[test]
fn what_can_never_be_read_goes_as_any_other_message() {
    let mut world = world(6, 1.0, 0.0, false);
    let mut random = Random::new(5);
    let mut offers = 0;
    for exchange in 0..200_u32 {
        let rank = exchange % 2;
        let (data, room) = (message(&mut random, 1000), Scratch::new(ROOM));
        let early = exchange % 3 == 0;
        let take = |world: &mut World| {
            world.engines[1 - rank as usize].recv(from(rank), room.recv_buf(0, ROOM)).unwrap()
        };
        let received = early.then(|| take(&mut world));
        let (sent, offered) = send(&mut world, rank, &data);
        offers += u32::from(offered);
        world.settle();
        let received = received.unwrap_or_else(|| take(&mut world));
        world.settle();
        end(&mut world, rank, sent);
        end(&mut world, 1 - rank, Some(received));
        assert!(bytes(&room, 1000) == bytes(&data, 1000));
    }
    assert!(offers > 0);
    assert!(world.engines.iter().all(Engine::is_quiet));
}

/// Messages of 50 bytes that rank 0 can send to rank 1 without being asked, while nobody receives them.
fn unasked(world: &mut World) -> u32 {
    let data = Scratch::new(50);
    let (mut count, mut last) = (0, None);
    while last.is_none() {
        (last, _) = send(world, 0, &data);
        count += u32::from(last.is_none());
        world.settle();
    }
    for _ in 0..=count {
        let room = Scratch::new(ROOM);
        let received = world.engines[1].recv(from(0), room.recv_buf(0, ROOM)).unwrap();
        world.settle();
        end(world, 1, Some(received));
    }
    end(world, 0, last);
    count
}

#[test]
fn an_offer_uses_its_budget_and_gives_it_back_however_it_is_taken() {
    // Posted before; looked for by a blocking call; received late; never readable.
    for (way, denial) in [(0, 0.0), (1, 0.0), (2, 0.0), (2, 1.0), (0, 1.0)] {
        let mut world = world(8, denial, 0.0, false);
        let before = unasked(&mut world);
        let mut random = Random::new(6);
        let (mut offers, mut short) = (0, 0);
        // Who comes late, or cannot read, ends it for hundreds of messages.
        for exchange in 0..3000_u32 {
            let rank = exchange % 2;
            let (data, room) = (message(&mut random, 1000), Scratch::new(ROOM));
            let take = |world: &mut World| {
                world.engines[1 - rank as usize].recv(from(rank), room.recv_buf(0, ROOM)).unwrap()
            };
            let early = (way == 0).then(|| take(&mut world));
            let (sent, offered) = send(&mut world, rank, &data);
            offers += u32::from(offered);
            let mut received = early;
            if way == 1 {
                received = receive(&mut world.engines[1 - rank as usize], rank, &room, 500);
                short += u32::from(offered && received.is_none());
            }
            world.settle();
            if way == 2 {
                received = Some(take(&mut world));
                world.settle();
            }
            end(&mut world, rank, sent);
            end(&mut world, 1 - rank, received);
            assert!(bytes(&room, 1000) == bytes(&data, 1000));
        }
        assert!(
            offers > 8 && (way != 1 || short > 5),
            "way {way}: {offers} offers, {short} by the short way"
        );
        // What is owed is given back in quarters.
        let after = unasked(&mut world);
        assert!(after <= before && after >= before * 3 / 4 - 1, "way {way}: {before} before, {after} after");
    }
}

#[test]
fn a_row_is_tried_after_many_in_packets() {
    const LONG: usize = 40_000;
    let mut world = World::new(2)
        .seed(8)
        .fabric(|sim| {
            (sim.single_copy, sim.compared) = (true, true);
            (sim.max_copy, sim.depth, sim.delay) = (34_000, 64, 1);
        })
        .engines(|config| config.clock = Clock::Drawn)
        .build();
    let mut random = Random::new(1);
    // All to one process, which sends nothing: what is announced waits for its receiver, what leaves in packets does not.
    let announced: Vec<bool> = (0..130)
        .map(|number| {
            let (data, room) = (message(&mut random, LONG), Scratch::new(LONG));
            let received = world.engines[1].recv(from(0), room.recv_buf(0, LONG)).unwrap();
            let (sent, _) = send(&mut world, 0, &data);
            world.settle();
            end(&mut world, 0, sent);
            end(&mut world, 1, Some(received));
            assert!(bytes(&room, LONG) == bytes(&data, LONG), "message {number}");
            sent.is_some()
        })
        .collect();
    assert_eq!(announced.iter().position(|&announced| announced), Some(96), "{announced:?}");
    assert!(announced[96..].iter().all(|&announced| announced), "{announced:?}");
}
