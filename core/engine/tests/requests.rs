//! Requests from birth to death: released ones go on and free themselves, ended ones can be looked at, stale ones
//! are found (musts.md: section 3.7.3 request_free, section 3.7.6 get_status, section 3.5 progress of synchronous sends).

use weft_datatype::Scratch;
use weft_engine::world::World;
use weft_engine::{Engine, Envelope, RequestId, Selector, SendMode, Started};
use weft_types::{ContextId, ErrorClass, PeerId, Rank, Tag};

const CONTEXT: ContextId = ContextId(4);

fn to(peer: u32, source: u32, tag: i32) -> Envelope {
    Envelope { peer: PeerId(peer), context: CONTEXT, source: Rank(source), tag: Tag(tag) }
}

fn from(peer: u32, tag: i32) -> Selector {
    Selector { context: CONTEXT, peer: Some(PeerId(peer)), source: Some(Rank(peer)), tag: Some(Tag(tag)) }
}

/// Lengths on every way a message can go.
const LENGTHS: [usize; 5] = [0, 8, 900, 30_000, 300_000];

#[test]
fn released_requests_go_on_to_their_end_and_free_themselves() {
    for length in LENGTHS {
        for mode in [SendMode::Standard, SendMode::Synchronous, SendMode::Ready] {
            let mut world = World::new(2).build();
            let (data, room) = (Scratch::new(length), Scratch::new(length));
            data.recv_buf(0, length).as_mut_slice().unwrap().fill(7);
            let received = world.engines[1].recv(from(0, 1), room.recv_buf(0, length)).unwrap();
            world.engines[1].release(received);
            let started = world.engines[0].send(to(1, 0, 1), mode, data.send_buf(0, length)).unwrap();
            if let Started::Pending(sent) = started {
                world.engines[0].release(sent);
            }
            world.settle();
            assert!(room.send_buf(0, length).as_slice().unwrap().iter().all(|&byte| byte == 7));
            assert!(!world.engines[1].exists(received), "{length} bytes, {mode:?}");
            if let Started::Pending(sent) = started {
                assert!(!world.engines[0].exists(sent), "{length} bytes, {mode:?}");
            }
            assert!(world.engines.iter().all(Engine::is_quiet));
        }
    }
}

/// Section 3.7.3: of a freed request no call can return the error.
#[test]
fn the_owner_of_an_abandoned_request_hears_that_it_failed() {
    for (length, early) in LENGTHS.into_iter().flat_map(|length| [(length, false), (length, true)]) {
        let mut world = World::new(2).build();
        let (data, room) = (Scratch::new(length), Scratch::new(length / 2));
        let received = world.engines[1].recv(from(0, 1), room.recv_buf(0, length / 2)).unwrap();
        world.engines[1].tag_request(received, 77);
        if early {
            world.engines[1].abandon(received);
        }
        let started =
            world.engines[0].send(to(1, 0, 1), SendMode::Standard, data.send_buf(0, length)).unwrap();
        if let Started::Pending(sent) = started {
            world.engines[0].abandon(sent);
        }
        world.settle();
        if !early {
            world.engines[1].abandon(received);
        }
        assert!(!world.engines[1].exists(received) && world.engines[0].take_callback().is_none());
        let told = world.engines[1].take_callback();
        let failure = told.as_ref().and_then(|callback| callback.failure());
        let heard = failure.map(|failure| (failure.owner, failure.error.class(), failure.freed));
        assert_eq!(
            heard,
            (length > 0).then_some((77, ErrorClass::TRUNCATE, true)),
            "{length} bytes, early: {early}"
        );
        if let Some(callback) = told {
            callback.run();
            world.engines[1].callback_done(callback);
        }
        assert!(world.engines.iter().all(Engine::is_quiet));
    }
}

/// As a buffered send: complete for the program before.
#[test]
fn the_owner_of_a_request_hears_that_it_failed_and_may_take_it() {
    for length in LENGTHS.into_iter().filter(|&length| length > 0) {
        let mut world = World::new(2).build();
        let (data, room) = (Scratch::new(length), Scratch::new(length / 2));
        let received = world.engines[1].recv(from(0, 1), room.recv_buf(0, length / 2)).unwrap();
        world.engines[1].tag_request(received, 77);
        world.engines[1].tell_failure_of(received);
        if let Started::Pending(sent) =
            world.engines[0].send(to(1, 0, 1), SendMode::Standard, data.send_buf(0, length)).unwrap()
        {
            world.engines[0].abandon(sent);
        }
        world.settle();
        let told = world.engines[1].take_callback().expect("told");
        let heard = told.failure().map(|failure| (failure.owner, failure.error.class(), failure.freed));
        assert_eq!(heard, Some((77, ErrorClass::TRUNCATE, false)), "{length} bytes");
        world.engines[1].callback_done(told);
        assert!(world.engines[1].is_complete(received) && world.engines[1].take(received).error.is_some());
        assert!(world.engines[1].take_callback().is_none(), "told once");
        assert!(world.engines.iter().all(Engine::is_quiet));
    }
}

#[test]
fn an_ended_request_can_be_looked_at_and_belongs_to_its_owner_until_it_is_taken() {
    for length in LENGTHS {
        let mut world = World::new(2).build();
        let (data, room) = (Scratch::new(length), Scratch::new(length));
        let received = world.engines[1].recv(from(0, 1), room.recv_buf(0, length)).unwrap();
        world.engines[1].tag_request(received, 0x0800_0007);
        assert_eq!(world.engines[1].peek(received), None);
        let started =
            world.engines[0].send(to(1, 0, 1), SendMode::Standard, data.send_buf(0, length)).unwrap();
        world.settle();
        let seen = world.engines[1].peek(received).expect("it has ended");
        assert_eq!(world.engines[1].owner(received), 0x0800_0007);
        assert_eq!(world.engines[1].take(received), seen);
        assert_eq!((seen.status.bytes, seen.error), (length as u64, None));
        assert!(!world.engines[1].exists(received) && !world.engines[1].exists(RequestId::COMPLETE));
        if let Started::Pending(sent) = started {
            assert!(world.engines[0].is_complete(sent));
        }
    }
}

/// Example 3.16: the receiver has started its receive and sits in another call, which makes progress.
#[test]
fn a_synchronous_send_ends_while_its_receiver_waits_for_something_else() {
    for length in LENGTHS {
        let mut world = World::new(2).build();
        let (data, room) = (Scratch::new(length), Scratch::new(length));
        let Started::Pending(sent) =
            world.engines[0].send(to(1, 0, 1), SendMode::Synchronous, data.send_buf(0, length)).unwrap()
        else {
            panic!("a synchronous send cannot be complete before its receive has started");
        };
        world.settle();
        assert!(!world.engines[0].is_complete(sent), "no receive yet");
        let matched = world.engines[1].recv(from(0, 1), room.recv_buf(0, length)).unwrap();
        let other = world.engines[1].recv(from(0, 2), room.recv_buf(0, length)).unwrap();
        world.settle();
        assert!(world.engines[0].is_complete(sent) && world.engines[1].is_complete(matched));
        assert!(!world.engines[1].is_complete(other));
        world.engines[1].cancel(other);
        assert!(world.engines[1].take(other).status.cancelled);
    }
}

/// A slot that is used again has another generation: 128 uses later, and not before, a number repeats.
#[test]
fn a_stale_request_is_told_from_the_one_that_has_its_slot() {
    let mut world = World::new(1).build();
    let room = Scratch::new(8);
    let engine = &mut world.engines[0];
    let mut stale: Vec<RequestId> = Vec::new();
    for _ in 0..127 {
        let request = engine.recv(from(0, 1), room.recv_buf(0, 8)).unwrap();
        assert!(!stale.contains(&request) && stale.iter().all(|&old| !engine.exists(old)));
        engine.cancel(request);
        engine.take(request);
        stale.push(request);
    }
}

/// A message that left in pieces needs no request: who cancels a later send (section 3.8.4) takes back that one and no other.
#[test]
fn a_cancelled_send_takes_back_its_own_message() {
    let mut world = World::new(2)
        .fabric(|sim| {
            sim.depth = 64;
            sim.max_copy = 64 << 10;
        })
        .build();
    let length = 40_000;
    let data = Scratch::new(length);
    // The two meet, and a request has been there.
    let received = world.engines[1].recv(from(0, 0), Scratch::new(8).recv_buf(0, 8)).unwrap();
    let sent = world.engines[0].send(to(1, 0, 0), SendMode::Synchronous, data.send_buf(0, 8)).unwrap();
    world.settle();
    assert_eq!(world.engines[1].take(received).error, None);
    let Started::Pending(sent) = sent else { panic!("a synchronous send waits for its receiver") };
    assert_eq!(world.engines[0].take(sent).error, None);

    let bytes = vec![7; length];
    assert_eq!(world.engines[0].send_pieces(to(1, 0, 2), &bytes, Engine::PIECE), Some(length));
    world.settle();
    let later = world.engines[0].send(to(1, 0, 3), SendMode::Synchronous, data.send_buf(0, length)).unwrap();
    let Started::Pending(later) = later else { panic!("a synchronous send waits for its receiver") };
    world.settle();
    world.engines[0].cancel(later);
    world.settle();
    assert!(world.engines[0].take(later).status.cancelled);
    assert!(world.engines[1].iprobe(from(0, 3)).is_none(), "the cancelled message is gone");
    let room = Scratch::new(length);
    let received = world.engines[1].recv(from(0, 2), room.recv_buf(0, length)).unwrap();
    world.settle();
    assert_eq!(world.engines[1].take(received).status.bytes, length as u64);
    assert!(room.send_buf(0, length).as_slice().unwrap() == bytes, "the message before it is whole");
}
