//! Announced messages that devices move, over the emulator and a network that loses, doubles and reorders: every byte arrives,
//! gaps stay as they were, memory goes back, whichever way is taken and whatever memory the two ends have.

mod emulated;

use emulated::{ROOM, byte, engines, filled, image, step};
use std::time::{Duration, Instant};
use weft_datatype::{Datatype, Form, Memory};
use weft_engine::{Engine, Envelope, Rendezvous, RequestId, Selector, SendMode, Started};
use weft_sim::Random;
use weft_types::{ContextId, Error, ErrorClass, PeerId, Rank, Tag};

const CONTEXT: ContextId = ContextId(4);

/// Blocks of about `block` bytes with gaps, `bytes` in all.
fn with_gaps(random: &mut Random, block: u64, bytes: u64) -> Datatype {
    let (mut lengths, mut displacements, mut at, mut left) = (Vec::new(), Vec::new(), 0, bytes);
    while left > 0 {
        let length = (block / 2 + random.below(block) + 1).min(left);
        lengths.push(length as i64);
        displacements.push(at as i64);
        (at, left) = (at + length + 1 + random.below(40), left - length);
    }
    assert!(at < ROOM);
    Datatype::hindexed(&lengths, &displacements, &byte(), Form::Int).expect("legal")
}

fn envelope(tag: i32) -> (Envelope, Selector) {
    let envelope = Envelope { peer: PeerId(1), context: CONTEXT, source: Rank(0), tag: Tag(tag) };
    let selector =
        Selector { context: CONTEXT, peer: Some(PeerId(0)), source: Some(Rank(0)), tag: Some(Tag(tag)) };
    (envelope, selector)
}

/// Messages of many sizes between memory in one run and in blocks, expected and unexpected, too long for their room or not.
fn exchange(seed: u64, said: Rendezvous) -> [[u64; 3]; 2] {
    let mut random = Random::new(seed);
    let mut engines = engines(2, seed, said);
    for number in 0..10 {
        let sent = [65_537, 70_001, 200_000, 300_000, 700_003][random.below(5) as usize];
        let wanted = if random.chance(0.2) { sent - 1 - random.below(60_000) } else { sent };
        let layout = |random: &mut Random, bytes| match random.below(3) {
            0 => byte(),
            kind => with_gaps(random, [100, 4000][kind as usize - 1], bytes),
        };
        let (source, target) = (layout(&mut random, sent), layout(&mut random, wanted));
        let data = filled(|at| (at >> 3) as u8 ^ (at as u8).wrapping_mul(number as u8 + 3)).retyped(&source);
        let room = filled(|_| 0xee).retyped(&target);
        let (envelope, selector) = envelope(number);
        let receive = |engines: &mut [Option<Engine>]| {
            engines[1].as_mut().unwrap().recv(selector, room.recv_view(0, 0, wanted)).unwrap()
        };
        let early = random.chance(0.5).then(|| receive(&mut engines));
        let mode = if random.chance(0.3) { SendMode::Synchronous } else { SendMode::Standard };
        let send =
            match engines[0].as_mut().unwrap().send(envelope, mode, data.send_view(0, 0, sent)).unwrap() {
                Started::Pending(request) => request,
                Started::Complete => panic!("such a message needs its receiver"),
            };
        for _ in 0..random.below(20) {
            step(&mut engines);
        }
        let receive = early.unwrap_or_else(|| receive(&mut engines));
        let begun = Instant::now();
        while !(engines[0].as_ref().unwrap().is_complete(send)
            && engines[1].as_ref().unwrap().is_complete(receive))
        {
            assert!(begun.elapsed() < Duration::from_secs(60), "seed {seed}: message {number} is stuck");
            step(&mut engines);
        }
        assert_eq!(engines[0].as_mut().unwrap().take(send).error, None);
        let completion = engines[1].as_mut().unwrap().take(receive);
        assert_eq!(completion.status.bytes, wanted.min(sent));
        assert_eq!(
            completion.error.map(|error| error.class()),
            (wanted < sent).then_some(ErrorClass::TRUNCATE),
            "seed {seed}, message {number}"
        );
        let expected = filled(|_| 0xee).retyped(&target);
        let mut packed = vec![0; wanted as usize];
        data.send_view(0, 0, sent).pack(0, &mut packed);
        expected.recv_view(0, 0, wanted).unpack(0, &packed);
        assert!(image(&room) == image(&expected), "seed {seed}: {sent} bytes of message {number}");
    }
    [0, 1].map(|me| engines[me].as_ref().unwrap().registrations())
}

#[test]
fn every_way_of_rendezvous_moves_every_byte() {
    for way in [Rendezvous::Read, Rendezvous::Write, Rendezvous::Stream, Rendezvous::Auto] {
        let mut used = [0; 2];
        for seed in 0..3 {
            let both = exchange(seed, way);
            used.iter_mut().zip(both).for_each(|(sum, [hits, made, _])| *sum += hits + made);
        }
        match way {
            Rendezvous::Read | Rendezvous::Write => {
                assert!(used[0] > 0 && used[1] > 0, "{way:?} was not used")
            }
            Rendezvous::Stream => assert_eq!(used, [0, 0], "nothing is registered for a stream"),
            Rendezvous::Auto => {}
        }
    }
}

/// One message of `bytes` bytes, announced and received.
fn whole(engines: &mut [Option<Engine>], number: i32, data: &Memory, room: &Memory, bytes: u64) {
    let (envelope, selector) = envelope(number);
    let receive = engines[1].as_mut().unwrap().recv(selector, room.recv_view(0, 0, bytes)).unwrap();
    let sender = engines[0].as_mut().unwrap();
    let Ok(Started::Pending(send)) = sender.send(envelope, SendMode::Standard, data.send_view(0, 0, bytes))
    else {
        panic!("announced")
    };
    let done = |engines: &[Option<Engine>], me: usize, request: RequestId| {
        engines[me].as_ref().unwrap().is_complete(request)
    };
    while !(done(engines, 0, send) && done(engines, 1, receive)) {
        step(engines);
    }
    assert_eq!(engines[0].as_mut().unwrap().take(send).error, None);
    assert_eq!(engines[1].as_mut().unwrap().take(receive).error, None);
}

/// The same memory is registered once, as long as there is room for it.
#[test]
fn memory_that_is_used_again_is_not_registered_again() {
    let mut engines = engines(2, 0, Rendezvous::Read);
    let (data, room) = (filled(|at| at as u8), filled(|_| 0));
    for number in 0..10 {
        whole(&mut engines, number, &data, &room, 100_000);
    }
    for engine in engines.iter().flatten() {
        assert_eq!(engine.registrations(), [9, 1, 0]);
    }
}

/// Long blocks of a receiver are a list for the device, which writes the whole message into them; short ones are sent packed,
/// and no memory is registered for them.
#[test]
fn long_blocks_of_a_receiver_are_a_list_for_the_device() {
    const BYTES: u64 = 200_000;
    for (block, registered) in [(4000, 1), (64, 0)] {
        let mut engines = engines(2, 0, Rendezvous::Read);
        let target = with_gaps(&mut Random::new(block), block, BYTES);
        let (data, room) = (filled(|at| at as u8), filled(|_| 0xee).retyped(&target));
        whole(&mut engines, 1, &data, &room, BYTES);
        let [hits, made, _] = engines[1].as_ref().unwrap().registrations();
        assert_eq!([hits, made], [0, registered], "blocks of {block} bytes");
        let expected = filled(|_| 0xee).retyped(&target);
        let mut packed = vec![0; BYTES as usize];
        data.send_view(0, 0, BYTES).pack(0, &mut packed);
        expected.recv_view(0, 0, BYTES).unpack(0, &packed);
        assert!(image(&room) == image(&expected), "blocks of {block} bytes");
    }
}

/// A process that dies in the middle of messages by the device: everybody who waits for it hears of it, at either end.
#[test]
fn a_death_in_the_middle_ends_both_kinds() {
    for (seed, said) in [(2, Rendezvous::Read), (3, Rendezvous::Write), (5, Rendezvous::Read)] {
        for dies in [0, 1] {
            let mut engines = engines(2, seed, said);
            let (data, room) = (filled(|at| at as u8), filled(|_| 0));
            let mut waiting: Vec<(usize, RequestId)> = Vec::new();
            for number in 0..6 {
                let (envelope, selector) = envelope(number);
                let receiver = engines[1].as_mut().unwrap();
                waiting.push((1, receiver.recv(selector, room.recv_view(0, 0, ROOM)).unwrap()));
                let sender = engines[0].as_mut().unwrap();
                match sender.send(envelope, SendMode::Standard, data.send_view(0, 0, ROOM)).unwrap() {
                    Started::Pending(request) => waiting.push((0, request)),
                    Started::Complete => panic!("announced"),
                }
            }
            let first = |engines: &[Option<Engine>]| engines[1].as_ref().unwrap().registrations()[1] > 0;
            while !first(&engines) {
                step(&mut engines);
            }
            step(&mut engines);
            engines[dies] = None;
            waiting.retain(|&(me, _)| me != dies);
            let begun = Instant::now();
            let survivor = 1 - dies;
            while !waiting
                .iter()
                .all(|&(_, request)| engines[survivor].as_ref().unwrap().is_complete(request))
            {
                assert!(begun.elapsed() < Duration::from_secs(60), "seed {seed}: the survivor waits");
                step(&mut engines);
            }
            let engine = engines[survivor].as_mut().unwrap();
            let ends: Vec<_> = waiting.iter().map(|&(_, request)| engine.take(request).error).collect();
            assert!(ends.iter().any(Option::is_some), "seed {seed}: all six were through already");
            for error in ends.into_iter().flatten() {
                assert_eq!(error.class(), ErrorClass::PROC_ABORTED);
            }
        }
    }
}

#[test]
fn what_a_device_moves_ends_when_no_way_leads_to_the_other() {
    for way in [Rendezvous::Read, Rendezvous::Write] {
        for steps in 0..40 {
            let mut engines = engines(2, 2, way);
            let (data, room) = (filled(|at| at as u8), filled(|_| 0));
            let (envelope, selector) = envelope(1);
            let receive = engines[1].as_mut().unwrap().recv(selector, room.recv_view(0, 0, ROOM)).unwrap();
            let sender = engines[0].as_mut().unwrap();
            let sent = sender.send(envelope, SendMode::Standard, data.send_view(0, 0, ROOM)).unwrap();
            let Started::Pending(send) = sent else { panic!("such a message needs its receiver") };
            for _ in 0..steps {
                step(&mut engines);
            }
            // The launcher's verdict: from now on nothing passes, because neither sees the other move.
            for (me, request) in [(0, send), (1, receive)] {
                let engine = engines[me].as_mut().unwrap();
                let context = format!("{way:?}, after {steps} steps, process {me}");
                engine.cannot_reach(PeerId(1 - me as u32), Error::new(ErrorClass::OTHER, "out of reach"));
                let begun = Instant::now();
                while !engine.is_complete(request) {
                    assert!(begun.elapsed() < Duration::from_secs(60), "it never ends ({context})");
                    engine.progress();
                }
                let error = engine.take(request).error;
                assert!(
                    error.as_ref().is_none_or(|error| error.text() == "out of reach"),
                    "{error:?} ({context})"
                );
                while engine.asks_in_vain() || !engine.is_quiet_since(Duration::ZERO) {
                    assert!(
                        begun.elapsed() < Duration::from_secs(60),
                        "it asks or waits for ever ({context})"
                    );
                    engine.progress();
                }
            }
        }
    }
}
