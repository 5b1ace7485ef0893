//! A process says farewell while something is under way between it and others. Who hears that gives up what waits for it, and
//! never takes for gone who may begin again.

use std::sync::Arc;
use weft_datatype::Scratch;
use weft_engine::world::World;
use weft_engine::{Envelope, RequestId, Selector, SendMode, Started};
use weft_types::{ContextId, ErrorClass, Farewell, PeerId, Rank, Tag};

const BYTES: usize = 1 << 20;
const WORLD: ContextId = ContextId::WORLD;
const FAREWELL: Farewell = Farewell { life: 0, world: true };

/// Rank 0 has announced a message, and rank 1 has just asked for it.
fn asked(seed: u64, from: &Arc<Scratch>, to: &Arc<Scratch>) -> (World, RequestId) {
    let mut world = World::new(2).seed(seed).fabric(|sim| sim.single_copy = false).build();
    let envelope = Envelope { peer: PeerId(1), context: WORLD, source: Rank(0), tag: Tag(3) };
    let sent = world.engines[0].send(envelope, SendMode::Standard, from.send_buf(0, BYTES)).unwrap();
    assert!(matches!(sent, Started::Pending(_)));
    world.settle();
    let selector =
        Selector { context: WORLD, peer: Some(PeerId(0)), source: Some(Rank(0)), tag: Some(Tag(3)) };
    let request = world.engines[1].recv(selector, to.recv_buf(0, BYTES)).unwrap();
    (world, request)
}

/// Until nothing moves any more; whether rank 1 has taken rank 0 for gone.
fn end(world: &mut World) -> bool {
    world.settle();
    world.engines[1].is_lost(PeerId(0))
}

#[test]
fn data_that_comes_after_a_farewell_is_dropped_and_its_sender_not_taken_for_gone() {
    let (from, to) = (Scratch::new(BYTES), Scratch::new(BYTES));
    for seed in 0..20 {
        let (mut world, request) = asked(seed, &from, &to);
        // Crosses what rank 1 asks.
        world.engines[0].farewell(FAREWELL);
        let lost = end(&mut world);
        assert!(world.engines[1].is_complete(request));
        if let Some(error) = world.engines[1].take(request).error {
            assert_eq!(error.class(), ErrorClass::PROC_ABORTED, "seed {seed}");
        }
        assert!(!lost, "seed {seed}");
    }
}

#[test]
fn what_streams_before_a_farewell_is_received() {
    let (from, to) = (Scratch::new(BYTES), Scratch::new(BYTES));
    for seed in 0..20 {
        let (mut world, request) = asked(seed, &from, &to);
        // Streams from the first step that has the demand on.
        let mut pushing = false;
        for _ in 0..1_000_000 {
            world.step();
            let pushes = world.engines[0].push_last_words(std::time::Duration::ZERO);
            if pushing && !pushes {
                break;
            }
            pushing |= pushes;
        }
        assert!(pushing, "seed {seed}: nothing has streamed");
        world.engines[0].farewell(FAREWELL);
        let lost = end(&mut world);
        assert!(world.engines[1].is_complete(request));
        assert_eq!(world.engines[1].take(request).error, None, "seed {seed}");
        assert!(!lost, "seed {seed}");
    }
}

/// A receive from anybody at rank 0.
fn recv_any(world: &mut World, to: &Arc<Scratch>) -> RequestId {
    let selector = Selector { context: WORLD, peer: None, source: None, tag: Some(Tag(3)) };
    world.engines[0].recv(selector, to.recv_buf(0, 8)).unwrap()
}

/// Two processes of which the second has sent the first one something.
fn met() -> World {
    let mut world = World::new(2).build();
    let (from, to) = (Scratch::new(8), Scratch::new(8));
    let envelope = Envelope { peer: PeerId(0), context: WORLD, source: Rank(1), tag: Tag(3) };
    if let Started::Pending(sent) =
        world.engines[1].send(envelope, SendMode::Standard, from.send_buf(0, 8)).unwrap()
    {
        world.engines[1].release(sent);
    }
    let request = recv_any(&mut world, &to);
    world.settle();
    assert_eq!(world.engines[0].take(request).error, None);
    world
}

#[test]
fn who_is_alone_after_a_death_receives_from_itself() {
    let mut world = met();
    let (from, to) = (Scratch::new(8), Scratch::new(8));
    let hears = recv_any(&mut world, &to);
    world.kill(1);
    world.settle();
    assert!(world.engines[0].take(hears).error.is_some(), "the loss is heard of once");
    world.engines[0].acknowledge_losses();
    let request = recv_any(&mut world, &to);
    assert!(!world.engines[0].is_complete(request), "it waits for a message of its own");
    let envelope = Envelope { peer: PeerId(0), context: WORLD, source: Rank(0), tag: Tag(3) };
    let sent = world.engines[0].send(envelope, SendMode::Standard, from.send_buf(0, 8)).unwrap();
    world.settle();
    assert_eq!(world.engines[0].take(request).error, None);
    if let Started::Pending(sent) = sent {
        assert_eq!(world.engines[0].take(sent).error, None);
    }
}

#[test]
fn who_waits_for_anybody_where_all_others_have_left_fails() {
    let mut world = met();
    let to = Scratch::new(8);
    let before = recv_any(&mut world, &to);
    world.engines[1].farewell(FAREWELL);
    world.settle();
    let after = recv_any(&mut world, &to);
    for request in [before, after] {
        let error = world.engines[0].take(request).error.expect("nobody is left");
        assert_eq!(error.class(), ErrorClass::PROC_ABORTED);
    }
}

/// A message that came before its sender's farewell, and was asked for after it: its sender's memory is not read any more.
#[test]
fn the_memory_of_who_has_left_is_not_read() {
    for single_copy in [false, true] {
        let mut world = World::new(2).fabric(|sim| sim.single_copy = single_copy).build();
        let (from, to) = (Scratch::new(BYTES), Scratch::new(BYTES));
        let envelope = Envelope { peer: PeerId(1), context: WORLD, source: Rank(0), tag: Tag(3) };
        let sent = world.engines[0].send(envelope, SendMode::Standard, from.send_buf(0, BYTES)).unwrap();
        assert!(matches!(sent, Started::Pending(_)));
        world.settle();
        world.engines[0].farewell(FAREWELL);
        world.settle();
        let selector =
            Selector { context: WORLD, peer: Some(PeerId(0)), source: Some(Rank(0)), tag: Some(Tag(3)) };
        let request = world.engines[1].recv(selector, to.recv_buf(0, BYTES)).unwrap();
        world.settle();
        let error = world.engines[1].take(request).error.expect("nothing is left to be had");
        assert_eq!(error.class(), ErrorClass::PROC_ABORTED);
        assert!(!world.engines[1].is_lost(PeerId(0)));
    }
}
