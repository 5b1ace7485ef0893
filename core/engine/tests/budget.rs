//! A receiver that does not receive: what it can be made to hold stays within its budget, and nothing is lost.

use weft_datatype::Scratch;
use weft_engine::world::World;
use weft_engine::{Engine, Envelope, RequestId, Selector, SendMode, Started};
use weft_proto::charge;
use weft_types::{ContextId, PeerId, Rank, Tag};

const FROM: Selector = Selector { context: ContextId(4), peer: None, source: None, tag: None };

fn envelope(rank: u32) -> Envelope {
    Envelope { peer: PeerId(0), context: ContextId(4), source: Rank(rank), tag: Tag(1) }
}

/// A process that sends without end blocks (its sends stay pending) when its budget of 8192 is used up, of
/// which every message is charged for its bookkeeping too.
#[test]
fn blocking_senders_are_stopped_by_the_budget() {
    for length in [0_usize, 100, 2000] {
        let mut world = World::new(3)
            .fabric(|sim| sim.depth = 64)
            .engines(|config| {
                config.eager_limit = 2048;
                config.eager_budget_per_sender = 8192;
            })
            .build();
        let data = Scratch::new(length);
        let mut unasked = [0_usize; 3];
        let mut blocked: Vec<(usize, RequestId)> = Vec::new();
        for (rank, unasked) in unasked.iter_mut().enumerate().skip(1) {
            loop {
                let buffer = data.send_buf(0, length);
                let started = world.engines[rank].send(envelope(rank as u32), SendMode::Standard, buffer);
                world.settle();
                match started.unwrap() {
                    Started::Complete => *unasked += 1,
                    Started::Pending(request) if world.engines[rank].is_complete(request) => {
                        world.engines[rank].take(request);
                        *unasked += 1;
                    }
                    Started::Pending(request) => {
                        blocked.push((rank, request));
                        break;
                    }
                }
                assert!(*unasked * charge(length as u32) as usize <= 8192, "{length} bytes, {unasked} sends");
            }
            assert!((*unasked + 1) * charge(length as u32) as usize > 8192, "the budget is used");
        }
        // All of it is received, and budget comes back: another round passes unasked.
        receive(&mut world, unasked[1] + unasked[2] + 2, length);
        for (rank, request) in blocked {
            assert!(world.engines[rank].is_complete(request));
            world.engines[rank].take(request);
        }
        for _ in 0..unasked[1] / 2 {
            let buffer = data.send_buf(0, length);
            let started = world.engines[1].send(envelope(1), SendMode::Standard, buffer).unwrap();
            world.settle();
            if let Started::Pending(request) = started {
                assert!(world.engines[1].is_complete(request));
                world.engines[1].take(request);
            }
        }
        receive(&mut world, unasked[1] / 2, length);
        assert!(world.engines.iter().all(Engine::is_quiet));
    }
}

fn receive(world: &mut World, count: usize, length: usize) {
    let room = Scratch::new(length);
    for _ in 0..count {
        let request = world.engines[0].recv(FROM, room.recv_buf(0, length)).unwrap();
        world.settle();
        let completion = world.engines[0].take(request);
        assert_eq!((completion.error, completion.status.bytes), (None, length as u64));
    }
}

/// Many nonblocking sends beyond the budget: each is announced, none is lost, all arrive in order.
#[test]
fn a_flood_of_nonblocking_sends_arrives_whole_and_in_order() {
    let mut world = World::new(2)
        .fabric(|sim| sim.depth = 16)
        .engines(|config| config.eager_budget_per_sender = 8192)
        .build();
    const COUNT: u32 = 3000;
    let data = Scratch::new(8 * COUNT as usize);
    let mut buffer = data.recv_buf(0, data.len());
    for (number, bytes) in buffer.as_mut_slice().unwrap().chunks_mut(8).enumerate() {
        bytes.copy_from_slice(&(number as u64).to_le_bytes());
    }
    let mut pending = Vec::new();
    for number in 0..COUNT {
        let buffer = data.send_buf(8 * number as usize, 8);
        if let Started::Pending(request) =
            world.engines[1].send(envelope(1), SendMode::Standard, buffer).unwrap()
        {
            pending.push(request);
        }
        if number % 64 == 0 {
            world.step();
        }
    }
    world.settle();
    assert!(pending.len() > COUNT as usize / 2, "most of them are beyond the budget");
    let room = Scratch::new(8);
    for number in 0..COUNT {
        let request = world.engines[0].recv(FROM, room.recv_buf(0, 8)).unwrap();
        for _ in 0..100_000 {
            if world.engines[0].is_complete(request) {
                break;
            }
            world.step();
        }
        assert_eq!(world.engines[0].take(request).error, None);
        let buffer = room.send_buf(0, 8);
        assert_eq!(buffer.as_slice().unwrap(), u64::from(number).to_le_bytes());
    }
    world.settle();
    for request in pending {
        assert_eq!(world.engines[1].take(request).error, None);
    }
    assert!(world.engines.iter().all(Engine::is_quiet));
}

/// Messages to ourselves beyond the budget wait in the sender's buffer, and a stale request is found.
#[test]
fn messages_to_oneself_are_kept_within_the_budget() {
    let mut world = World::new(1).engines(|config| config.eager_budget_per_sender = 8192).build();
    let engine = &mut world.engines[0];
    let data = Scratch::new(1000);
    let mut pending = Vec::new();
    for _ in 0..20 {
        let started = engine.send(envelope(0), SendMode::Standard, data.send_buf(0, 1000)).unwrap();
        pending.push(started);
    }
    let kept = pending.iter().filter(|&&started| started == Started::Complete).count();
    assert_eq!(kept, 8192 / charge(1000) as usize);
    let room = Scratch::new(1000);
    for started in pending {
        let request = engine.recv(FROM, room.recv_buf(0, 1000)).unwrap();
        assert!(engine.is_complete(request));
        assert_eq!(engine.take(request).status.bytes, 1000);
        assert!(!engine.exists(request));
        if let Started::Pending(send) = started {
            assert!(engine.is_complete(send));
            engine.take(send);
        }
    }
    assert!(engine.is_quiet());
}
