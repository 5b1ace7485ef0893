//! Jobs with more peers than connections: messages beyond go by datagrams, over networks that lose, double and reorder.
//!
//! `WEFT_SEEDS=1000` runs more worlds than CI does, `WEFT_SEED=n` one alone.

use crate::common::{Air, Virtual, address, address_on, fabric_on, fabric_over, virtual_fabric};
use std::sync::atomic::{AtomicU64, Ordering};
use weft_api::Transport;
use weft_api::kit::{self, Fabric};
use weft_api::verbs::Access;
use weft_api::zero_copy::{Atomic, MemoryRange, Outcome, Token};
use weft_rdma::Held;
use weft_sim::{Random, seeds, worlds};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

const PROCESSES: usize = 7;
const MOST: u32 = 2;

fn with_few(mut fabric: Virtual, most: u32) -> Virtual {
    fabric.ends.iter_mut().for_each(|end| end.set_connections(most));
    fabric
}

#[test]
fn every_property_holds_with_one_connection() {
    for seed in 0..2 {
        kit::every_property(|processes| with_few(virtual_fabric(processes, seed, seed as f64 * 0.01), 1));
    }
}

fn header(number: u32) -> Header {
    Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(number as i32))
}

/// Of a message: tiny, of one datagram, of many.
fn length_of(number: u32) -> usize {
    match number % 16 {
        0 => 16_384,
        1..4 => 900 + (number * 37 % 3_000) as usize,
        _ => (number * 7 % 200) as usize,
    }
}

fn send(fabric: &mut Virtual, (me, peer): (usize, usize), number: u32) -> bool {
    let (length, byte, to) = (length_of(number), (number * 13) as u8, PeerId(peer as u32));
    let end = &mut fabric.ends[me];
    if length < 200 {
        end.send_inline(to, header(number), &vec![byte; length]).is_ok()
    } else {
        end.send_copy(to, header(number), length, |room| room.fill(byte)).is_ok()
    }
}

/// Takes messages from `peer` and checks that they are those after `taken`.
fn take(fabric: &mut Virtual, (me, peer): (usize, usize), taken: &mut u32, seed: u64) {
    while let Some((head, payload)) = fabric.ends[me].peek(PeerId(peer as u32)) {
        assert_eq!(head, header(*taken), "from {peer} to {me} (seed {seed})");
        assert!(
            payload.len() == length_of(*taken) && payload.iter().all(|&byte| byte == (*taken * 13) as u8)
        );
        *taken += 1;
        fabric.ends[me].advance(PeerId(peer as u32));
    }
}

/// Random talk of everybody with everybody, now with some more than with others: whoever goes by what, messages arrive once and
/// in order, nobody has more connections than it may, and nothing is left over.
#[test]
fn talk_beyond_the_connections_arrives_once_and_in_order() {
    let worlds = worlds(seeds(12), |seed| {
        let mut air = Air::bad(seed);
        (air.loss, air.pause) = ((seed % 4) as f64 * 0.02, 2_000_000);
        let mut fabric = with_few(fabric_on(air, PROCESSES, 1 + (seed / 4 % 2) as usize), MOST);
        let mut random = Random::new(seed ^ 0x51de);
        let mut sent = [[0; PROCESSES]; PROCESSES];
        let mut taken = sent;
        let ways = |me| (0..PROCESSES).filter(move |&peer| peer != me);
        for phase in 0..4 {
            let favourite = [(); PROCESSES].map(|()| random.below(PROCESSES as u64) as usize);
            for _ in 0..700 {
                let me = random.below(PROCESSES as u64) as usize;
                let anybody = random.below(PROCESSES as u64) as usize;
                let peer = if random.chance(0.6) { favourite[me] } else { anybody };
                if peer != me {
                    fabric.ends[me].connect(PeerId(peer as u32)).unwrap();
                    sent[me][peer] += u32::from(send(&mut fabric, (me, peer), sent[me][peer]));
                }
                let reads = random.below(PROCESSES as u64) as usize;
                ways(reads).for_each(|peer| take(&mut fabric, (reads, peer), &mut taken[peer][reads], seed));
                fabric.random_round(&mut random);
            }
            if phase == 1 && random.chance(0.5) {
                // Nobody says anything for long.
                fabric.air.borrow_mut().now += 3_000_000_000;
            }
        }
        let begun = fabric.air.borrow().now;
        while sent != taken || fabric.ends.iter().any(|end| !end.has_left() || end.held() != Held::default())
        {
            for way in 0..PROCESSES * PROCESSES {
                let (me, peer) = (way / PROCESSES, way % PROCESSES);
                take(&mut fabric, (me, peer), &mut taken[peer][me], seed);
            }
            fabric.random_round(&mut random);
            let took = fabric.air.borrow().now - begun;
            assert!(took < 100_000_000_000, "it does not end (seed {seed})");
        }
        fabric.ends.iter_mut().fold([0; 2], |[letters, changes], end| {
            let (open, most) = end.connections();
            assert!(open <= most + 1, "{open} connections, {most} allowed (seed {seed})");
            assert_eq!(end.lost(), None, "seed {seed}");
            [letters + end.counts().letters, changes + end.counts().changes]
        })
    });
    let seeds = worlds.len() as u64;
    let [letters, changes] =
        worlds.into_iter().fold([0; 2], |sum, more| std::array::from_fn(|at| sum[at] + more[at]));
    println!("{letters} messages by datagrams, {changes} changes of the way in {seeds} worlds");
    assert!(seeds < 12 || letters > 1_000 * seeds && changes > 0, "this shows nothing");
}

/// One message from `me` to `peer`.
fn say(fabric: &mut Virtual, (me, peer): (usize, usize), number: &mut u32) {
    fabric.ends[me].connect(PeerId(peer as u32)).unwrap();
    while !send(fabric, (me, peer), *number) {
        fabric.round();
    }
    let begun = fabric.air.borrow().now;
    while fabric.ends[peer].peek(PeerId(me as u32)).is_none() {
        fabric.round();
        assert!(fabric.air.borrow().now - begun < 100_000_000_000, "it never arrives");
    }
    take(fabric, (peer, me), number, 0);
}

/// One end has room for a connection and the other never has: it is asked more and more seldom.
#[test]
fn who_has_no_room_is_asked_seldom() {
    let mut fabric = virtual_fabric(3, 5, 0.0);
    [1, 1, 16].into_iter().zip(&mut fabric.ends).for_each(|(most, end)| end.set_connections(most));
    let [mut others, mut number] = [0; 2];
    for _ in 0..4_000 {
        // The other two keep their connection busy.
        say(&mut fabric, (0, 1), &mut others);
        say(&mut fabric, (2, 0), &mut number);
    }
    let counts = fabric.ends[2].counts();
    assert!(counts.letters > 3_900, "{} messages by datagrams", counts.letters);
    assert!((2..8).contains(&counts.changes), "{} changes of the way", counts.changes);
}

/// A connection that nobody uses is given back when somebody else talks much, and taken up again when registered memory is to
/// be reached: then there may be one more. Atomics of a busy one are never cut off.
#[test]
fn unused_connections_are_given_back() {
    let mut fabric = with_few(fabric_over(Air::bad(3), 4), 1);
    fabric.air.borrow_mut().pause = 10_000_000;
    let mut numbers = [0; 4];
    say(&mut fabric, (0, 1), &mut numbers[1]);
    assert_eq!(fabric.ends[0].counts().letters, 0, "the first by a connection");
    for _ in 0..400 {
        say(&mut fabric, (0, 2), &mut numbers[2]);
    }
    let letters = fabric.ends[0].counts().letters;
    assert_eq!((letters, fabric.ends[0].connections()), (400, (1, 1)), "the second by datagrams");
    let begun = fabric.air.borrow().now;
    while fabric.air.borrow().now < begun + 3_000_000_000 {
        fabric.round();
    }
    for _ in 0..400 {
        say(&mut fabric, (0, 2), &mut numbers[2]);
        (0..10).for_each(|_| fabric.round());
    }
    let letters = fabric.ends[0].counts().letters - letters;
    assert!(letters < 400, "moved to a connection");
    assert_eq!(fabric.ends[0].connections(), (1, 1), "the other was given back");
    assert_eq!(fabric.ends[1].connections().0, 0, "by both");
    let before = fabric.ends[0].counts().letters;
    say(&mut fabric, (0, 1), &mut numbers[1]);
    assert_eq!(fabric.ends[0].counts().letters, before + 1);

    let number = Box::new(AtomicU64::new(0));
    let range = MemoryRange { address: (&raw const *number) as u64, length: 8 };
    let there = fabric.ends[1].register(range, Access::ALL).unwrap().remote;
    for token in 0..100 {
        while fabric.ends[0].atomic(PeerId(1), there, Atomic::FetchAdd(1), Token(token)).is_err() {
            fabric.round();
        }
        if token % 10 == 5 {
            say(&mut fabric, (0, 2), &mut numbers[2]);
            fabric.air.borrow_mut().now += 1_500_000_000;
        }
        loop {
            if let Some(done) = fabric.ends[0].completed() {
                assert_eq!((done.token, done.outcome), (Token(token), Outcome::Done(token)));
                break;
            }
            fabric.round();
        }
    }
    assert_eq!(number.load(Ordering::SeqCst), 100);
    assert!(fabric.ends.iter_mut().all(|end| end.lost().is_none()));
}

/// Those whose connection was unused for longest compute, or do not answer: others are asked for theirs.
#[test]
fn connections_are_asked_of_all_in_turn() {
    const MOST: usize = 20;
    let mut fabric = fabric_over(Air::quiet(), MOST + 2);
    fabric.air.borrow_mut().pause = 1_000_000;
    fabric.ends.iter_mut().for_each(|end| end.set_connections(MOST as u32));
    (1..=MOST).for_each(|peer| say(&mut fabric, (0, peer), &mut 0));
    assert_eq!(fabric.ends[0].connections(), (MOST as u32, MOST as u32));
    let looks: Vec<usize> = [0].into_iter().chain(17..MOST + 2).collect();
    while fabric.air.borrow().now < 20_000_000_000 && fabric.ends[0].connections().0 == MOST as u32 {
        say_among(&mut fabric, (0, MOST + 1), &looks);
        fabric.air.borrow_mut().now += 20_000_000;
    }
    assert!(
        fabric.ends[0].connections().0 < MOST as u32,
        "those that could give theirs back were never asked"
    );
}

/// As [`say`], while only these look.
fn say_among(fabric: &mut Virtual, (me, peer): (usize, usize), who: &[usize]) {
    fabric.ends[me].connect(PeerId(peer as u32)).unwrap();
    while fabric.ends[me].send_inline(PeerId(peer as u32), header(0), b"hello").is_err() {
        fabric.round_of(who);
    }
    while fabric.ends[peer].peek(PeerId(me as u32)).is_none() {
        fabric.round_of(who);
    }
    fabric.ends[peer].advance(PeerId(me as u32));
}

/// Whoever yields a connection may still receive by it: what it says of messages received is not final.
#[test]
fn a_message_crosses_the_wish_to_part() {
    let mut fabric = with_few(fabric_over(Air::quiet(), 3), 1);
    fabric.air.borrow_mut().pause = 1_000_000;
    say_among(&mut fabric, (0, 1), &[0, 1, 2]);
    while fabric.air.borrow().now < 1_200_000_000 {
        fabric.round();
    }
    // Process 1 computes; 0 talks much to 2, until it has asked for its connection back.
    while fabric.air.borrow().now < 6_000_000_000 {
        say_among(&mut fabric, (0, 2), &[0, 2]);
        (0..10).for_each(|_| fabric.round_of(&[0, 2]));
    }
    assert_eq!(fabric.ends[0].connections(), (1, 1));
    // Now it has something to say to 1.
    fabric.ends[0].send_inline(PeerId(1), header(7), b"more").unwrap();
    fabric.round_of(&[0, 2]);
    for _ in 0..5_000 {
        fabric.round();
        assert_eq!(fabric.ends[0].lost().or(fabric.ends[1].lost()), None);
    }
    assert_eq!(fabric.ends[1].peek(PeerId(0)).map(|message| message.0), Some(header(7)));
    assert_eq!(fabric.ends[0].connections().0 + fabric.ends[1].connections().0, 0, "it was given back");
}

/// A question whether the other lives is under way, and lost, while that other wants the connection back.
#[test]
fn a_lost_question_keeps_no_connection() {
    for at in [3_960, 3_970, 3_980, 3_990, 3_995] {
        let mut fabric = with_few(fabric_over(Air::quiet(), 3), 1);
        fabric.air.borrow_mut().pause = 1_000_000;
        let until = |fabric: &Virtual, ms: u64| fabric.air.borrow().now < ms * 1_000_000;
        say_among(&mut fabric, (0, 1), &[0, 1, 2]);
        while until(&fabric, 1_200) {
            fabric.round();
        }
        while until(&fabric, 3_300) {
            fabric.round_of(&[0, 2]);
            fabric.air.borrow_mut().now += 500_000;
        }
        while until(&fabric, at) {
            say_among(&mut fabric, (0, 2), &[0, 2]);
            (0..3).for_each(|_| fabric.round_of(&[0, 2]));
        }
        // 1 looks: it asks whether 0 is alive.
        let before = fabric.ends[1].counts().requests;
        fabric.air.borrow_mut().loss = 1.0;
        fabric.ends[1].progress();
        fabric.air.borrow_mut().loss = 0.0;
        assert_eq!(fabric.ends[1].counts().requests, before + 1, "no question, this shows nothing");
        while until(&fabric, 6_000) {
            say_among(&mut fabric, (0, 2), &[0, 1, 2]);
            (0..3).for_each(|_| fabric.round());
        }
        while fabric.ends[1].send_inline(PeerId(0), header(7), b"more").is_err() {
            fabric.round();
            assert!(until(&fabric, 20_000), "it waits for ever");
        }
        assert_eq!(fabric.ends[0].lost().or(fabric.ends[1].lost()), None);
    }
}

/// Datagrams, as packets of connections, are no larger than what both devices take.
#[test]
fn the_smaller_device_says_how_large_datagrams_are() {
    let mut air = Air::quiet();
    (air.jumbo, air.most) = (vec![address(0)], 1024 + 100);
    let mut fabric = with_few(fabric_over(air, 3), 1);
    let mut numbers = [0; 3];
    (1..3).for_each(|peer| say(&mut fabric, (0, peer), &mut numbers[peer]));
    (0..20).for_each(|_| say(&mut fabric, (0, 2), &mut numbers[2]));
    assert!(fabric.ends[0].counts().letters > 20);
}

/// Nobody is waited for that the network says is not there, and whoever computes for a minute is.
#[test]
fn deaths_of_peers_by_datagrams_are_told_and_silence_is_none() {
    for seed in 0..4 {
        let mut fabric = with_few(virtual_fabric(4, seed, 0.01), 1);
        let mut numbers = [0; 4];
        (1..4).for_each(|peer| say(&mut fabric, (0, peer), &mut numbers[peer]));
        assert!(send(&mut fabric, (0, 2), numbers[2]));
        fabric.minute_of_computing();
        assert_eq!(fabric.ends[0].lost(), None, "seed {seed}");
        assert!(!fabric.ends[0].has_left());
        while fabric.ends[2].peek(PeerId(0)).is_none() {
            fabric.round();
        }
        fabric.kill(3);
        let begun = fabric.air.borrow().now;
        let mut sent = false;
        while fabric.ends[0].lost() != Some(PeerId(3)) {
            sent = sent || send(&mut fabric, (0, 3), numbers[3]);
            fabric.round();
            assert!(fabric.air.borrow().now - begun < 12_000_000_000, "nobody noticed (seed {seed})");
        }
        assert!(fabric.ends[0].is_gone(PeerId(3)) && !fabric.ends[0].is_gone(PeerId(2)));
    }
}

/// With two rails, datagrams find the one that works.
#[test]
fn datagrams_take_the_other_rail() {
    let mut fabric = with_few(fabric_on(Air::deaf(5), 3, 2), 1);
    let mut numbers = [0; 3];
    (1..3).for_each(|peer| say(&mut fabric, (0, peer), &mut numbers[peer]));
    for rail in [0, 1, 0] {
        let way = (address_on(0, rail), address_on(2, rail));
        fabric.air.borrow_mut().cut = [way, (way.1, way.0)].into();
        (0..20).for_each(|_| say(&mut fabric, (0, 2), &mut numbers[2]));
    }
    assert!(fabric.ends[0].counts().letters > 50 && fabric.ends[0].counts().moves > 0);
    assert!(fabric.ends.iter_mut().all(|end| end.lost().is_none()));
    assert_ne!(address(0), address(2));
}

/// Who has sent computes, and the receiver asks for a connection while half of it lies in its device: all of that is taken, and
/// none of it once more when the sender is back. Also when the way after that is no connection.
#[test]
fn what_is_there_when_another_way_is_asked_for_is_taken() {
    for back in [8, 1] {
        let mut fabric = with_few(fabric_over(Air::quiet(), 3), 1);
        say(&mut fabric, (0, 1), &mut 0);
        let mut taken = 0;
        while taken < 50 {
            say(&mut fabric, (0, 2), &mut taken);
        }
        (0..1_000).for_each(|_| fabric.round());
        let mut sent = taken;
        // Of one datagram each; what has come it does not look at.
        let say_without_a_look = |fabric: &mut Virtual, sent: &mut u32| {
            for _ in 0..14 {
                fabric.ends[0].send_inline(PeerId(2), header(*sent), &[*sent as u8; 8]).unwrap();
                *sent += 1;
            }
            fabric.ends[0].push_out();
        };
        say_without_a_look(&mut fabric, &mut sent);
        fabric.ends[2].set_connections(8);
        let begun = fabric.air.borrow().now;
        while fabric.ends[2].counts().changes == 0 {
            fabric.round_of(&[2]);
        }
        say_without_a_look(&mut fabric, &mut sent);
        let mut take = |fabric: &mut Virtual| {
            while let Some((head, payload)) = fabric.ends[2].peek(PeerId(0)) {
                assert_eq!((head, payload), (header(taken), &[taken as u8; 8][..]));
                fabric.ends[2].advance(PeerId(0));
                taken += 1;
            }
            taken
        };
        while take(&mut fabric) < sent {
            fabric.round_of(&[2]);
            assert!(fabric.air.borrow().now - begun < 1_000_000_000, "it waits for who computes");
        }
        assert_eq!(fabric.ends[2].counts().changes, 1, "this shows nothing");
        fabric.ends[0].set_connections(back);
        for _ in 0..100 {
            while fabric.ends[0].send_inline(PeerId(2), header(sent), &[sent as u8; 8]).is_err() {
                fabric.round();
            }
            sent += 1;
            while take(&mut fabric) < sent {
                fabric.round();
            }
        }
        while fabric.ends.iter().any(|end| !end.has_left() || end.held() != Held::default()) {
            fabric.round();
        }
        assert_eq!(fabric.ends[2].connections().0, u32::from(back > 1));
        let repeats = fabric.ends[2].counts().repeats;
        assert!(repeats >= 14, "{repeats} came again: this shows nothing");
    }
}
