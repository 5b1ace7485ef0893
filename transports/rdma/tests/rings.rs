//! Messages by rings: all properties of a transport over devices that write at once, byte by byte in order, or in any order;
//! who gets a ring, keeps it and gives it back.

use crate::common::device::{Two, Writes, many_writing, two_writing};
use crate::common::{Air, Virtual, fabric_over, virtual_fabric};
use std::rc::Rc;
use weft_api::Transport;
use weft_api::kit::{self, Fabric};
use weft_rdma::ring::{PLACE_BYTES, PLACES};
use weft_rdma::{Counts, Held};
use weft_sim::{Random, seeds, worlds};
use weft_types::params::Choice;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

fn header(number: u32) -> Header {
    Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(number as i32))
}

/// Rings from the first message on, so many.
fn with_rings(mut fabric: Virtual, most: u32) -> Virtual {
    for end in &mut fabric.ends {
        end.set_rings(Choice::On);
        end.set_ring_limits(most, 1);
    }
    fabric
}

fn two(seed: u64, loss: f64, writes: Writes) -> Two {
    many(2, seed, loss, writes)
}

fn many(processes: usize, seed: u64, loss: f64, writes: Writes) -> Two {
    let mut air = Air::bad(seed);
    air.loss = loss;
    let mut two = many_writing(air, &Rc::default(), vec![vec![]; processes], writes);
    for end in &mut two.ends {
        end.set_rings(Choice::On);
        end.set_ring_limits(4, 1);
    }
    two
}

#[test]
fn every_property_holds_with_rings() {
    for seed in 0..4 {
        kit::every_property(|processes| with_rings(virtual_fabric(processes, seed, seed as f64 * 0.01), 2));
    }
}

#[test]
fn every_property_holds_however_the_device_writes() {
    for writes in [Writes::AtOnce, Writes::InOrder, Writes::InAnyOrder] {
        for seed in 0..2 {
            kit::every_property(|processes| many(processes, seed, seed as f64 * 0.01, writes));
        }
    }
}

/// Messages of all sizes both ways at random, over devices that show what they write bit by bit, or tell of it: each once,
/// whole, in order. Nothing is left over.
#[test]
fn messages_are_whole_however_the_device_writes() {
    for writes in [Writes::AtOnce, Writes::InOrder, Writes::InAnyOrder] {
        let by_ring = worlds(seeds(6), |seed| {
            let mut two = two(seed, (seed % 3) as f64 * 0.01, writes);
            let mut random = Random::new(seed ^ 0x51b6);
            let (mut sent, mut taken) = ([0_u32; 2], [0_u32; 2]);
            let length = |number: u32| [8, 0, 33, 200, 300, 480, 600, 3_000][(number * 5 % 8) as usize];
            (0..2).for_each(|me| two.ends[me].connect(PeerId(1 - me as u32)).unwrap());
            let mut rounds = 0;
            while taken != [2_000; 2] {
                for me in 0..2 {
                    let peer = PeerId(1 - me as u32);
                    let end = &mut two.ends[me];
                    for _ in 0..random.below(40) {
                        let (number, bytes) = (sent[me], [sent[me] as u8; 3_000]);
                        let bytes = &bytes[..length(number)];
                        let is_sent = number < 2_000
                            && match bytes.len() {
                                length @ ..=200 if length % 2 == 0 => {
                                    end.send_now(end.route(peer), header(number), bytes)
                                }
                                ..=200 => end.send_inline(peer, header(number), bytes).is_ok(),
                                length => end
                                    .send_copy(peer, header(number), length, |room| {
                                        room.copy_from_slice(bytes)
                                    })
                                    .is_ok(),
                            };
                        if !is_sent {
                            break;
                        }
                        sent[me] += 1;
                    }
                    for _ in 0..random.below(60) {
                        let Some((seen, payload)) = end.peek(peer) else { break };
                        let number = taken[me];
                        assert_eq!(seen, header(number), "{writes:?}, seed {seed}");
                        assert!(
                            payload.len() == length(number)
                                && payload.iter().all(|&byte| byte == number as u8),
                            "message {number}, {writes:?}, seed {seed}"
                        );
                        end.advance(peer);
                        taken[me] += 1;
                    }
                    assert_eq!(end.lost(), None, "{writes:?}, seed {seed}");
                }
                two.round();
                rounds += 1;
                assert!(rounds < 200_000, "{sent:?} {taken:?} {writes:?}, seed {seed}: it hangs");
            }
            while two.ends.iter().any(|end| !end.has_left() || end.held() != Held::default()) {
                two.round();
            }
            two.ends.iter().map(|end| end.counts().records).sum::<u64>()
        });
        let (seeds, by_ring) = (by_ring.len() as u64, by_ring.into_iter().sum::<u64>());
        assert!(seeds < 6 || by_ring > seeds * 200, "{by_ring} by rings: this shows nothing");
    }
}

/// Sends and takes so many messages of 8 bytes from 0 to a peer, so many at a time.
fn talk(fabric: &mut Virtual, to: usize, messages: u32, at_a_time: u32) -> Counts {
    let peer = PeerId(to as u32);
    fabric.ends[0].connect(peer).unwrap();
    let before = fabric.ends[0].counts();
    let (mut sent, mut taken) = (0, 0);
    while taken < messages {
        while sent < messages.min(taken + at_a_time)
            && fabric.ends[0].send_inline(peer, header(sent), &[7; 8]).is_ok()
        {
            sent += 1;
        }
        fabric.round();
        while let Some((seen, _)) = fabric.ends[to].peek(PeerId(0)) {
            assert_eq!(seen, header(taken));
            fabric.ends[to].advance(PeerId(0));
            taken += 1;
        }
    }
    let after = fabric.ends[0].counts();
    Counts { records: after.records - before.records, requests: after.requests - before.requests, ..after }
}

/// Who talks often gets a ring, and almost all of its messages go by it: also when more are under way than it has places, since
/// half a ring is told of.
#[test]
fn who_talks_often_gets_a_ring() {
    for at_a_time in [1, 16, 200] {
        let mut fabric = fabric_over(Air::quiet(), 2);
        fabric.ends.iter_mut().for_each(|end| end.set_rings(Choice::On));
        let counts = talk(&mut fabric, 1, 3_000, at_a_time);
        // 64 before there is one, and one that follows what is no message.
        assert!(counts.records > 1_400, "{counts:?} with {at_a_time} at a time");
        assert_eq!(fabric.ends[1].rings(), 1);
        let receives = fabric.ends[1].counts().receives;
        assert!(
            at_a_time > usize::from(PLACES) as u32 || receives < 1_000,
            "{receives} receive requests with {at_a_time} at a time"
        );
    }
}

#[test]
fn there_are_no_rings_unless_they_are_wanted() {
    for choice in [Choice::Auto, Choice::Off] {
        let mut fabric = fabric_over(Air::quiet(), 2);
        fabric.ends.iter_mut().for_each(|end| end.set_rings(choice));
        assert_eq!(talk(&mut fabric, 1, 500, 4).records, 0);
        assert!(fabric.ends[0].why_rings().starts_with("none"));
    }
    // A card that says it writes in order has them unasked, one that says nothing has not.
    for (writes, has) in [(Writes::InOrder, true), (Writes::InAnyOrder, false)] {
        let mut two = two_writing(Air::quiet(), &Rc::default(), [vec![], vec![]], writes);
        two.ends[0].connect(PeerId(1)).unwrap();
        for number in 0..300 {
            while two.ends[0].send_inline(PeerId(1), header(number), b"often").is_err() {
                two.round();
            }
            two.round();
            while two.ends[1].peek(PeerId(0)).is_some() {
                two.ends[1].advance(PeerId(0));
            }
        }
        assert_eq!(two.ends[0].counts().records > 0, has, "{writes:?}: {}", two.ends[0].why_rings());
    }
}

/// One ring for three peers: it goes to whoever talks, when the one before has been quiet for a moment. One that nobody uses is
/// asked back.
#[test]
fn a_ring_goes_to_whoever_talks_now() {
    let mut fabric = fabric_over(Air::quiet(), 3);
    for end in &mut fabric.ends {
        end.set_rings(Choice::On);
        end.set_ring_limits(1, 8);
    }
    // From 1 and 2 to 0: the talkers are the others.
    let send = |fabric: &mut Virtual, from: usize, messages: u32| {
        fabric.ends[from].connect(PeerId(0)).unwrap();
        let before = fabric.ends[from].counts().records;
        for number in 0..messages {
            while fabric.ends[from].send_inline(PeerId(0), header(number), &[1; 8]).is_err() {
                fabric.round();
            }
            while fabric.ends[0].peek(PeerId(from as u32)).is_none() {
                fabric.round();
            }
            fabric.ends[0].advance(PeerId(from as u32));
        }
        fabric.ends[from].counts().records - before
    };
    for from in [1, 2, 1] {
        fabric.air.borrow_mut().now += 20_000_000;
        let by_ring = send(&mut fabric, from, 200);
        assert!(by_ring > 100, "{by_ring} of {from}");
        assert_eq!(fabric.ends[0].rings(), 1);
    }
    let other = send(&mut fabric, 2, 40);
    assert_eq!(other, 0, "the other one has just talked");
    let begun = fabric.air.borrow().now;
    while fabric.ends[0].rings() > 0 {
        fabric.round();
        assert!(fabric.air.borrow().now < begun + 1_000_000_000, "a ring is kept for nobody");
    }
    assert!(send(&mut fabric, 2, 100) > 50, "it can be given again");
}

/// How many milliseconds a bell sleeps at most.
fn longest(bell: &impl weft_api::Pollable) -> u128 {
    bell.limit(std::time::Duration::from_secs(1)).as_millis()
}

/// Nothing rings for a record: beside a ring sleeps are short, where the device works by itself; and when it is given back they
/// are not. A call that is blocked has fetched its bell before.
#[test]
fn nobody_sleeps_for_long_beside_a_ring() {
    let mut two = two(0, 0.0, Writes::InOrder);
    let bell = two.ends[1].bell();
    assert_eq!(longest(&bell), 1_000);
    two.ends[0].connect(PeerId(1)).unwrap();
    while two.ends[1].rings() == 0 {
        let _ = two.ends[0].send_inline(PeerId(1), header(0), b"hello");
        two.round();
    }
    assert_eq!(longest(&bell), 1);
    while two.ends[1].rings() > 0 {
        two.round();
    }
    assert_eq!(longest(&bell), 1_000);
}

/// Beside a peer that computes, sleeps grow with its silence up to a tenth of a second, since it does not give its ring back;
/// they are short again when it talks.
#[test]
fn naps_beside_a_silent_peer_grow() {
    let mut two = two(0, 0.0, Writes::InOrder);
    let bell = two.ends[1].bell();
    two.ends[0].connect(PeerId(1)).unwrap();
    let talk = |two: &mut Two| {
        let records = two.ends[0].counts().records;
        // The ring that it had was asked back; it gets another.
        let has_written = |two: &Two| two.ends[0].counts().records > records && two.ends[1].rings() > 0;
        while !has_written(two) || !two.ends[0].has_left() {
            if !has_written(two) {
                let _ = two.ends[0].send_inline(PeerId(1), header(0), b"hello");
            }
            two.round();
            while two.ends[1].peek(PeerId(0)).is_some() {
                two.ends[1].advance(PeerId(0));
            }
        }
    };
    for _ in 0..3 {
        talk(&mut two);
        assert_eq!(longest(&bell), 1);
        let begun = two.air.air.borrow().now;
        for milliseconds in [20, 40, 80, 160, 400, 700, 2_000] {
            while two.air.air.borrow().now < begun + milliseconds * 1_000_000 {
                two.ends[1].progress();
                two.air.idle();
                two.air.air.borrow_mut().now += 100_000;
            }
            let expected = (u128::from(milliseconds) / 8).min(100);
            assert!(
                longest(&bell).abs_diff(expected) <= 1,
                "{} ms after {milliseconds} ms of silence",
                longest(&bell)
            );
        }
    }
}

/// A record is a packet: a place holds no more, and neither does a packet of the connection.
#[test]
fn longer_messages_are_sent() {
    let mut fabric = with_rings(fabric_over(Air::quiet(), 2), 1);
    talk(&mut fabric, 1, 10, 1);
    let most = usize::from(PLACE_BYTES) - 16 - 8;
    for (length, by_ring) in [(most, 1), (most + 1, 0), (most, 1)] {
        let before = fabric.ends[0].counts().records;
        fabric.ends[0].send_copy(PeerId(1), header(0), length, |room| room.fill(9)).unwrap();
        assert_eq!(fabric.ends[0].counts().records - before, by_ring, "{length} bytes");
        while fabric.ends[1].peek(PeerId(0)).is_none() {
            fabric.round();
        }
        assert_eq!(fabric.ends[1].peek(PeerId(0)).unwrap().1, vec![9; length]);
        fabric.ends[1].advance(PeerId(0));
    }
    assert!(PLACES.is_power_of_two());
}
