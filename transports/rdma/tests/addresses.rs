//! Devices with several addresses, of which some reach nobody, or nobody reaches them: those that work are found by trying.

use crate::common::{Air, Virtual, addresses_on, fabric_over, with_several};
use std::time::Duration;
use weft_api::Transport;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

/// From `a` to `b` nothing arrives by the networks named; `false`: nor the other way.
fn cut(fabric: &Virtual, (a, b): (usize, usize), networks: &[(usize, bool)]) {
    let cut = &mut fabric.air.borrow_mut().cut;
    for &(network, one_way) in networks {
        let (from, to) = (addresses_on(a, 0)[network], addresses_on(b, 0)[network]);
        cut.insert((from, to));
        if !one_way {
            cut.insert((to, from));
        }
    }
}

/// Sends messages both ways between two processes and waits for each. How long the longest took.
fn talk(fabric: &mut Virtual, (a, b): (usize, usize), numbers: std::ops::Range<i32>) -> u64 {
    let mut longest = 0;
    for number in numbers {
        for (me, peer) in [(a, b), (b, a)] {
            let begun = fabric.air.borrow().now;
            let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(number));
            let to = PeerId(peer as u32);
            fabric.ends[me].connect(to).unwrap();
            let passed = |fabric: &Virtual| {
                let took = fabric.air.borrow().now - begun;
                assert!(took < 20_000_000_000, "{number} from {me} to {peer} never arrives");
                took
            };
            while fabric.ends[me].send_copy(to, header, 3_000, |room| room.fill(number as u8)).is_err() {
                fabric.round();
                passed(fabric);
            }
            let from = PeerId(me as u32);
            while fabric.ends[peer].peek(from).is_none() {
                fabric.round();
                passed(fabric);
            }
            let (head, payload) = fabric.ends[peer].peek(from).unwrap();
            assert_eq!((head, payload.len(), payload[0]), (header, 3_000, number as u8));
            fabric.ends[peer].advance(from);
            longest = longest.max(passed(fabric));
        }
    }
    longest
}

/// One connection each: the other peers by datagrams.
fn several(air: Air, processes: usize) -> Virtual {
    let mut fabric = fabric_over(with_several(air, processes), processes);
    fabric.ends.iter_mut().for_each(|end| end.set_connections(1));
    fabric
}

const DEAD: [&[(usize, bool)]; 6] = [
    &[(0, false)],
    &[(0, true)],
    &[(0, false), (1, false)],
    &[(0, true), (1, false)],
    &[(0, true), (2, true)],
    &[(1, false), (2, false)],
];

#[test]
fn first_contact_finds_an_address_that_works() {
    for (case, dead) in DEAD.iter().enumerate() {
        for seed in 0..6 {
            for ask in [(0, 1), (1, 0)] {
                let mut air = if seed % 2 == 0 { Air::deaf(seed) } else { Air::bad(seed) };
                (air.loss, air.pause) = ((seed % 3) as f64 * 0.02, 1_000_000);
                let mut fabric = several(air, 3);
                // By a connection, then by datagrams.
                for peer in [1, 2] {
                    cut(&fabric, (0, peer), dead);
                }
                let took = talk(&mut fabric, ask, 0..5);
                assert!(took < 3_000_000_000, "{took} ns (case {case}, seed {seed})");
                let first = fabric.ends[0].counts().moves + fabric.ends[1].counts().moves;
                assert_eq!(first > 0, case < 5, "{first} moves in case {case}");
                talk(&mut fabric, (0, 2), 0..5);
                assert!(fabric.ends[0].counts().letters > 0, "this shows nothing");
                assert!(fabric.ends.iter_mut().all(|end| end.lost().is_none()));
            }
        }
    }
}

/// What worked is tried first with the next peers of that network.
#[test]
fn what_worked_is_tried_first() {
    let mut air = Air::quiet();
    (air.tells, air.pause) = (false, 1_000_000);
    let mut fabric = several(air, 4);
    for peer in 1..4 {
        cut(&fabric, (0, peer), &[(0, false), (1, false)]);
    }
    assert!(talk(&mut fabric, (0, 1), 0..1) > 100_000_000, "tried in turn");
    let moves = fabric.ends[0].counts().moves;
    assert!(moves > 0);
    for peer in 2..4 {
        let took = talk(&mut fabric, (0, peer), 0..1);
        assert!(took < 20_000_000, "found at once, not after {took} ns");
    }
    assert_eq!(fabric.ends[0].counts().moves, moves);
}

/// A peer that computes is asked by all paths in turn. When it looks, it is reached by the one that was asked first: it is not
/// taken for a sign that the first do not work, and others of its network are asked by the first as before.
#[test]
fn a_late_answer_is_no_dead_address() {
    // How long it computes: until the first, the second, ... path was tried, and until each was, again and again.
    const COMPUTES: [u64; 6] =
        [90_000_000, 150_000_000, 400_000_000, 1_500_000_000, 11_500_000_000, 12_500_000_000];
    for seed in 0..3 * COMPUTES.len() as u64 {
        let computes = COMPUTES[seed as usize % COMPUTES.len()];
        let (quiet, losses) = (seed < COMPUTES.len() as u64, seed / COMPUTES.len() as u64);
        let mut air = if quiet { Air::quiet() } else { Air::deaf(seed) };
        (air.tells, air.pause, air.loss) = (false, 1_000_000, losses as f64 * 0.02);
        let mut fabric = fabric_over(with_several(air, 3), 3);
        fabric.ends[0].connect(PeerId(1)).unwrap();
        let begun = fabric.air.borrow().now;
        while fabric.air.borrow().now < begun + computes {
            fabric.round_of(&[0]);
        }
        talk(&mut fabric, (0, 1), 0..3);
        assert!(fabric.ends.iter_mut().all(|end| end.lost().is_none()));
        let ways = [0, 1].map(|me| fabric.ends[me].way(PeerId(1 - me as u32)));
        let [first, ..] = addresses_on(1, 0);
        // A network that reorders lets the last question be heard first.
        if quiet {
            assert!(
                ways[0].as_ref().is_some_and(|way| way.contains(&first.to_string())),
                "{ways:?} after {computes} ns (seed {seed})"
            );
            // The first one is tried first with the next.
            let moves = fabric.ends[0].counts().moves;
            talk(&mut fabric, (0, 2), 0..1);
            assert_eq!(fabric.ends[0].counts().moves, moves, "seed {seed}");
        }
    }
}

/// What worked is tried first; when it does not work any more, one peer finds out, not each.
#[test]
fn what_does_not_work_any_more_is_forgotten() {
    let mut air = Air::quiet();
    (air.tells, air.pause) = (false, 1_000_000);
    let mut fabric = fabric_over(with_several(air, 7), 7);
    cut(&fabric, (0, 1), &[(0, false)]);
    talk(&mut fabric, (0, 1), 0..1);
    let moves = fabric.ends[0].counts().moves;
    assert!(moves > 0, "this shows nothing");
    fabric.air.borrow_mut().cut.clear();
    for peer in 2..7 {
        cut(&fabric, (0, peer), &[(1, false), (2, false)]);
    }
    assert!(talk(&mut fabric, (0, 2), 0..1) > 50_000_000, "this shows nothing");
    let moves = fabric.ends[0].counts().moves;
    for peer in 3..7 {
        let took = talk(&mut fabric, (0, peer), 0..1);
        assert!(took < 20_000_000, "{peer} is not found at once but after {took} ns");
    }
    assert_eq!(fabric.ends[0].counts().moves, moves);
}

/// Addresses die one after another, of a connection and of a peer by datagrams, and come back: nothing is lost, and nobody.
#[test]
fn a_path_that_dies_is_left_for_another() {
    for seed in 0..6 {
        let mut air = if seed % 2 == 0 { Air::deaf(seed) } else { Air::bad(seed) };
        (air.loss, air.pause) = ((seed % 3) as f64 * 0.02, 1_000_000);
        let mut fabric = several(air, 3);
        let mut number = 0;
        for dead in [0, 1, 2, 0, 2, 1] {
            fabric.air.borrow_mut().cut.clear();
            // Two of three, the second one way alone.
            for peer in [1, 2] {
                cut(&fabric, (0, peer), &[(dead, false), ((dead + 1) % 3, true)]);
            }
            for peer in [1, 2] {
                talk(&mut fabric, (0, peer), number..number + 3);
            }
            number += 3;
        }
        let counts = fabric.ends[0].counts();
        assert!(counts.reconnections > 3 && counts.letters > 10, "{counts:?} (seed {seed})");
        assert!(fabric.ends.iter_mut().all(|end| end.lost().is_none()), "seed {seed}");
    }
}

/// Who was given up is refused by the path that it asks by, whatever was used before.
#[test]
fn a_refusal_goes_by_the_path_of_the_question() {
    let mut air = Air::quiet();
    (air.tells, air.pause) = (false, 1_000_000);
    let mut fabric = fabric_over(with_several(air, 2), 2);
    talk(&mut fabric, (0, 1), 0..2);
    fabric.ends[0].give_up(PeerId(1));
    cut(&fabric, (0, 1), &[(0, false)]);
    // So that nothing else ends it.
    fabric.ends[1].set_patience(Duration::from_secs(3_600));
    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
    fabric.ends[1].send_inline(PeerId(0), header, b"are you there").unwrap();
    let begun = fabric.air.borrow().now;
    while fabric.ends[1].lost() != Some(PeerId(0)) {
        fabric.round();
        assert!(fabric.air.borrow().now - begun < 60_000_000_000, "it asks for ever");
    }
}

/// Where datagrams pass and connections do not, another address is taken, also when nobody says anything but whether all are
/// alive.
#[test]
fn a_path_that_carries_no_connection_is_left_by_those_who_are_silent() {
    let mut air = Air::quiet();
    (air.tells, air.pause) = (false, 1_000_000);
    for (a, b) in addresses_on(0, 0).into_iter().zip(addresses_on(1, 0)).take(1) {
        air.datagrams_only.extend([(a, b), (b, a)]);
    }
    let mut fabric = fabric_over(with_several(air, 2), 2);
    fabric.ends[0].connect(PeerId(1)).unwrap();
    while fabric.air.borrow().now < 20_000_000_000 {
        fabric.round();
    }
    let moves = fabric.ends.iter().map(|end| end.counts().moves).sum::<u64>();
    let anew = fabric.ends.iter().map(|end| end.counts().reconnections).max().unwrap();
    assert_eq!((moves > 0, anew), (true, 1), "{moves} moves");
    assert!(talk(&mut fabric, (0, 1), 0..1) < 20_000_000, "the message is not what finds out");
}
