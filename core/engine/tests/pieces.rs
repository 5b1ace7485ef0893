//! The short ways of messages that come in a few packets: they end as the long ones do, wherever they stop.

use std::sync::Arc;
use weft_datatype::Scratch;
use weft_engine::world::World;
use weft_engine::{Arriving, Engine, Envelope, Selector, SendMode, Soon, Started};
use weft_types::{ContextId, PeerId, Rank, Tag};

const CONTEXT: ContextId = ContextId(4);
const LENGTH: usize = 40_000;

fn envelope(peer: u32, source: u32) -> Envelope {
    Envelope { peer: PeerId(peer), context: CONTEXT, source: Rank(source), tag: Tag(1) }
}

fn selector(peer: u32) -> Selector {
    Selector { context: CONTEXT, peer: Some(PeerId(peer)), source: Some(Rank(peer)), tag: Some(Tag(1)) }
}

/// Two ranks that have met, with room for `depth` packets each way.
fn world(depth: usize) -> World {
    let mut world = World::new(2)
        .fabric(|sim| {
            sim.depth = depth;
            sim.delay = 0;
            (sim.max_copy, sim.header) = (16 << 10, 64);
        })
        .engines(|config| config.eager_budget_per_sender = 200_000)
        .build();
    for (from, to) in [(0, 1), (1, 0)] {
        exchange(&mut world, from, to, 8);
    }
    world
}

fn exchange(world: &mut World, from: u32, to: u32, length: usize) {
    let (data, room) = (Scratch::new(length), Scratch::new(length));
    let received = world.engines[to as usize].recv(selector(from), room.recv_buf(0, length)).unwrap();
    let envelope = envelope(to, from);
    let sent =
        world.engines[from as usize].send(envelope, SendMode::Standard, data.send_buf(0, length)).unwrap();
    world.settle();
    assert_eq!(world.engines[to as usize].take(received).error, None);
    if let Started::Pending(sent) = sent {
        assert_eq!(world.engines[from as usize].take(sent).error, None);
    }
}

fn message() -> Vec<u8> {
    (0..LENGTH).map(|at| (at * 7 % 251) as u8).collect()
}

fn holds(room: &Arc<Scratch>, bytes: &[u8]) -> bool {
    room.send_buf(0, bytes.len()).as_slice().unwrap() == bytes
}

/// What engine 1 makes of the message that engine 0 has announced.
fn receive(engine: &mut Engine, room: &Arc<Scratch>, length: usize) -> Arriving {
    let mut buffer = room.recv_buf(0, length);
    assert_eq!(engine.receive_at_once(envelope(0, 0), &mut buffer, 1), Soon::Announced);
    engine.receive_pieces(envelope(0, 0), buffer, 7, 3).unwrap()
}

#[test]
fn a_message_whose_packets_are_here_needs_no_request() {
    let mut world = world(64);
    let (bytes, room) = (message(), Scratch::new(LENGTH));
    // Often enough for budget and announcements to be given back.
    for _ in 0..1000 {
        assert_eq!(world.engines[0].send_pieces(envelope(1, 0), &bytes, 9000), Some(LENGTH));
        room.recv_buf(0, LENGTH).as_mut_slice().unwrap().fill(0);
        let Arriving::Received(status) = receive(&mut world.engines[1], &room, LENGTH) else {
            panic!("all of it is here")
        };
        assert_eq!((status.source, status.tag, status.bytes), (Rank(0), Tag(1), LENGTH as u64));
        assert!(holds(&room, &bytes));
        world.engines[0].progress();
        assert!(world.engines.iter().all(Engine::is_quiet));
    }
}

#[test]
fn a_receive_stands_for_what_is_still_to_come() {
    let mut world = world(2);
    let (bytes, data, room) = (message(), Scratch::new(LENGTH), Scratch::new(LENGTH));
    data.recv_buf(0, LENGTH).as_mut_slice().unwrap().copy_from_slice(&bytes);
    let moved = world.engines[0].send_pieces(envelope(1, 0), &bytes, 9000).expect("it may leave");
    assert_eq!(moved, 18_000, "two packets");
    let sent = world.engines[0].send_on(envelope(1, 0), data.send_buf(0, LENGTH), moved).unwrap();
    let Arriving::Begun(request) = receive(&mut world.engines[1], &room, LENGTH) else {
        panic!("two packets are here")
    };
    assert!(holds(&room, &bytes[..moved]));
    assert_eq!(world.engines[1].owner(request), 7);
    assert!(!world.engines[1].is_complete(request));
    world.settle();
    let completion = world.engines[1].take(request);
    assert_eq!((completion.error, completion.status.bytes), (None, LENGTH as u64));
    assert!(holds(&room, &bytes));
    if let Started::Pending(sent) = sent {
        assert_eq!(world.engines[0].take(sent).error, None);
    }
    assert!(world.engines.iter().all(Engine::is_quiet));
}

#[test]
fn what_needs_an_answer_or_does_not_fit_is_left_to_the_long_way() {
    for (mode, length, room_for) in [
        (SendMode::Synchronous, LENGTH, LENGTH),
        (SendMode::Standard, LENGTH, LENGTH - 1),
        (SendMode::Standard, 100_000, 100_000),
    ] {
        let mut world = world(64);
        let (data, room) = (Scratch::new(length), Scratch::new(room_for));
        let sent = world.engines[0].send(envelope(1, 0), mode, data.send_buf(0, length)).unwrap();
        let Arriving::Nothing(buffer) = receive(&mut world.engines[1], &room, room_for) else {
            panic!("{mode:?} of {length} bytes into {room_for}")
        };
        let request = world.engines[1].recv(selector(0), buffer).unwrap();
        world.settle();
        let completion = world.engines[1].take(request);
        assert_eq!(completion.error.is_some(), room_for < length);
        if let Started::Pending(sent) = sent {
            assert_eq!(world.engines[0].take(sent).error, None);
        }
        assert!(world.engines.iter().all(Engine::is_quiet));
    }
}

/// Credit comes before a message now and then; a receive that took the long way for it took half as long again.
#[test]
fn credit_in_front_of_a_message_does_not_end_the_short_way() {
    let mut world = world(64);
    let bytes = message();
    let room = Scratch::new(LENGTH);
    // A quarter of the budget is given back at a time.
    for _ in 0..2 {
        assert_eq!(world.engines[0].send_pieces(envelope(1, 0), &bytes, 9000), Some(LENGTH));
        assert!(matches!(receive(&mut world.engines[1], &room, LENGTH), Arriving::Received(_)));
    }
    assert_eq!(world.engines[1].send_pieces(envelope(0, 1), &bytes, 9000), Some(LENGTH));
    let mut buffer = room.recv_buf(0, LENGTH);
    let engine = &mut world.engines[0];
    let soon = engine.receive_at_once(envelope(1, 1), &mut buffer, 1);
    assert_eq!(soon, Soon::Behind, "credit is the first packet");
    assert_eq!(engine.receive_behind_credit(envelope(1, 1), &mut buffer, 1), Soon::Announced);
}

fn send(world: &mut World, to: Envelope, byte: u8) {
    let data = Scratch::new(8);
    data.recv_buf(0, 8).as_mut_slice().unwrap().fill(byte);
    let sent = world.engines[0].send(to, SendMode::Standard, data.send_buf(0, 8)).unwrap();
    assert!(matches!(sent, Started::Complete));
}

/// Receives that match something else and messages that nobody receives do not send a receive the long way; those that come first do.
#[test]
fn what_matches_something_else_does_not_end_the_short_way() {
    let other = Envelope { tag: Tag(2), ..envelope(1, 0) };
    let bytes = message();
    for (posted, unexpected) in [(1, 0), (0, 1), (20, 0), (0, 20), (20, 20)] {
        let mut world = world(64);
        let (older, room) = (Scratch::new(8), Scratch::new(LENGTH));
        for number in 0..posted {
            let tag = Some(Tag(100 + number));
            world.engines[1].recv(Selector { tag, ..selector(0) }, older.recv_buf(0, 8)).unwrap();
        }
        for _ in 0..unexpected {
            send(&mut world, other, 1);
        }
        // Short ways only take requests that were free before.
        exchange(&mut world, 0, 1, 8);
        for turn in 0..20_u8 {
            assert_eq!(world.engines[0].send_pieces(envelope(1, 0), &bytes, 9000), Some(LENGTH));
            assert!(matches!(receive(&mut world.engines[1], &room, LENGTH), Arriving::Received(_)));
            assert!(holds(&room, &bytes));
            let engine = &mut world.engines[1];
            let request =
                engine.post_at_once(envelope(0, 0), room.recv_buf(0, 8), 7).expect("nothing is here");
            send(&mut world, envelope(1, 0), turn);
            world.settle();
            assert_eq!(world.engines[1].take(request).error, None);
            assert!(holds(&room, &[turn; 8]));
        }
        // One that is here comes first, and so does a receive that accepts it, too.
        send(&mut world, envelope(1, 0), 50);
        world.settle();
        let (engine, mut buffer) = (&mut world.engines[1], room.recv_buf(0, 8));
        assert_eq!(engine.receive_at_once(envelope(0, 0), &mut buffer, 1), Soon::Nothing);
        assert_eq!(engine.post_at_once(envelope(0, 0), buffer, 7), None);
        let request = engine.recv(selector(0), room.recv_buf(0, 8)).unwrap();
        assert_eq!(engine.take(request).error, None);
        assert!(holds(&room, &[50; 8]));
        let anybody = Selector { peer: None, source: None, ..selector(0) };
        let request = engine.recv(anybody, room.recv_buf(0, LENGTH)).unwrap();
        assert_eq!(world.engines[0].send_pieces(envelope(1, 0), &bytes, 9000), Some(LENGTH));
        let (engine, mut buffer) = (&mut world.engines[1], older.recv_buf(0, 8));
        assert_eq!(engine.receive_at_once(envelope(0, 0), &mut buffer, 1), Soon::Nothing);
        world.settle();
        assert_eq!(world.engines[1].take(request).error, None);
        assert!(holds(&room, &bytes));
    }
}
