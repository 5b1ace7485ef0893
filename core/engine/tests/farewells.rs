//! A process says farewell while something is under way between it and others. Who hears that gives up what waits for it, and never takes for gone
//! who may begin again.

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
