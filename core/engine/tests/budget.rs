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

/// Announcements beyond the bound are held back at the sender, whatever it starts; a receive or probe for one of them, however
/// deep, still finds it, and so do others on other channels meanwhile.
#[test]
fn announcements_are_bounded_unless_something_waits_for_more() {
    const COUNT: i32 = 500;
    let mut world = World::new(2)
        .fabric(|sim| sim.depth = 16)
        .engines(|config| {
            config.eager_limit = 2048;
            config.eager_budget_per_sender = 300;
            config.announcements_per_sender = 20;
        })
        .build();
    let data = Scratch::new(100);
    let send = |world: &mut World, context: u32, tag: i32| {
        let to = Envelope { peer: PeerId(0), context: ContextId(context), source: Rank(1), tag: Tag(tag) };
        match world.engines[1].send(to, SendMode::Standard, data.send_buf(0, 100)).unwrap() {
            Started::Pending(request) => request,
            Started::Complete => panic!("there is no budget for it"),
        }
    };
    let only = |context: u32, tag: i32| Selector {
        context: ContextId(context),
        peer: Some(PeerId(1)),
        source: Some(Rank(1)),
        tag: Some(Tag(tag)),
    };
    let mut sends: Vec<RequestId> = (0..COUNT).map(|tag| send(&mut world, 4, tag)).collect();
    sends.push(send(&mut world, 6, 7));
    sends.push(send(&mut world, 5, 8));
    world.settle();
    // Seen without being asked for: those within the bound, and what the library sends on its own channels.
    let seen =
        |world: &mut World, context: u32, tag: i32| world.engines[0].iprobe(only(context, tag)).is_some();
    assert!(seen(&mut world, 4, 0));
    assert!(seen(&mut world, 4, 19));
    assert!(seen(&mut world, 5, 8));
    assert!(!seen(&mut world, 6, 7), "another channel of the program, held back");
    world.settle();
    assert!(seen(&mut world, 6, 7), "it was asked for");
    assert!(!seen(&mut world, 4, 25), "which says nothing about others");
    let room = Scratch::new(100);
    let receive = |world: &mut World, context: u32, tag: i32| {
        let request = world.engines[0].recv(only(context, tag), room.recv_buf(0, 100)).unwrap();
        world.settle();
        assert_eq!(world.engines[0].take(request).error, None, "tag {tag}");
    };
    // The last of all is found, behind all others.
    receive(&mut world, 4, COUNT - 1);
    // One is taken back while it is held or announced; the rest is received in any order.
    world.engines[1].cancel(sends[333]);
    world.settle();
    assert!(world.engines[1].take(sends[333]).status.cancelled);
    for tag in (0..COUNT - 1).rev().filter(|&tag| tag != 333) {
        receive(&mut world, 4, tag);
    }
    receive(&mut world, 6, 7);
    receive(&mut world, 5, 8);
    for (number, request) in sends.into_iter().enumerate().filter(|&(number, _)| number != 333) {
        assert!(world.engines[1].is_complete(request), "send {number}");
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
