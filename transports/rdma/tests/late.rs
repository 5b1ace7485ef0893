//! Devices that do otherwise than the emulated one: what they have taken counts, and a way that they have not is left for
//! another.

use crate::common::device::{SPOILT, Two, two_over};
use crate::common::{Air, address, addresses_on, with_several};
use std::cell::RefCell;
use std::rc::Rc;
use weft_api::Transport;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

/// A way that a device has not is no death: both go by another, whoever of them has it not and whoever asks.
#[test]
fn a_way_that_a_device_cannot_open_is_left_for_another() {
    let lacks: [[&[usize]; 2]; 6] =
        [[&[0], &[]], [&[], &[0]], [&[0], &[1]], [&[0, 1], &[]], [&[], &[0, 1]], [&[0, 1], &[0, 1]]];
    for (case, lacks) in lacks.into_iter().enumerate() {
        for (seed, who) in (0..6).zip([&[0][..], &[1], &[0, 1]].into_iter().cycle()) {
            let mut air = if seed < 3 { Air::quiet() } else { Air::deaf(seed) };
            (air.tells, air.pause) = (false, 1_000_000);
            let towards = |peer: usize, networks: &[usize]| {
                networks.iter().map(|&network| addresses_on(peer, 0)[network]).collect()
            };
            let no_way = [towards(1, lacks[0]), towards(0, lacks[1])];
            let mut two = two_over(with_several(air, 2), &Rc::default(), no_way);
            who.iter().for_each(|&me| two.ends[me].connect(PeerId(1 - me as u32)).unwrap());
            let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
            let (mut sent, mut heard) = ([false; 2], [false; 2]);
            while heard != [true; 2] {
                for me in 0..2 {
                    let peer = PeerId(1 - me as u32);
                    sent[me] = sent[me] || two.ends[me].send_inline(peer, header, b"hello").is_ok();
                    heard[me] |= two.ends[me].peek(peer).is_some();
                    assert_eq!(two.ends[me].lost(), None, "at {me}, which lives (case {case}, seed {seed})");
                }
                two.round();
                let now = two.air.air.borrow().now;
                assert!(now < 5_000_000_000, "{sent:?} {heard:?} (case {case}, seed {seed})");
            }
            assert!(two.ends.iter().any(|end| end.counts().moves > 0), "this shows nothing");
        }
    }
}

/// A datagram that a device cannot send stops the queue that all of them leave by. It goes on, so who is asked is reached.
#[test]
fn datagrams_that_cannot_be_sent_do_not_stop_those_behind_them() {
    for spoilt in 1..4 {
        let mut two = two_over(Air::quiet(), &Rc::default(), [vec![], vec![]]);
        SPOILT.set(spoilt);
        two.ends[0].connect(PeerId(1)).unwrap();
        let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
        let mut sent = false;
        while two.ends[1].peek(PeerId(0)).is_none() {
            sent = sent || two.ends[0].send_inline(PeerId(1), header, b"hello").is_ok();
            two.round();
            assert_eq!(two.ends[0].lost(), None, "it lives");
            let now = two.air.air.borrow().now;
            assert!(now < 20_000_000_000, "nothing leaves any more after {spoilt}");
        }
        assert_eq!(SPOILT.get(), 0, "this shows something");
    }
}

/// Where a device has no way at all it says so: who asked it is told.
#[test]
fn a_peer_that_no_way_leads_to_is_lost_in_the_end() {
    for lacks in [0, 1] {
        let mut air = Air::quiet();
        (air.tells, air.pause) = (false, 1_000_000);
        let mut no_way = [vec![], vec![]];
        no_way[lacks] = addresses_on(1 - lacks, 0).to_vec();
        let mut two = two_over(with_several(air, 2), &Rc::default(), no_way);
        two.ends[0].connect(PeerId(1)).unwrap();
        let mut lost = [None; 2];
        while lost != [Some(PeerId(1)), Some(PeerId(0))] {
            two.round();
            for (lost, end) in lost.iter_mut().zip(&mut two.ends) {
                *lost = lost.or_else(|| end.lost());
            }
            let now = two.air.air.borrow().now;
            assert!(now < 60_000_000_000, "{lost:?} of {lacks}: for ever");
            assert!(lost == [None; 2] || now > 9_000_000_000, "the patience is not over");
        }
    }
}

#[test]
fn a_receive_that_ends_while_its_pair_is_stopped_counts() {
    let mut air = Air::quiet();
    (air.tells, air.pause) = (false, 10_000_000);
    let is_slow = Rc::new(RefCell::new(false));
    let mut two = two_over(air, &is_slow, [vec![], vec![]]);
    let send = |two: &mut Two, from: usize, number: u8| {
        let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
        while two.ends[from].send_inline(PeerId(1 - from as u32), header, &[number]).is_err() {
            two.round();
        }
    };
    let take = |two: &mut Two, at: usize| {
        let peer = PeerId(1 - at as u32);
        for _ in 0..1_000_000 {
            if let Some((_, payload)) = two.ends[at].peek(peer) {
                let number = payload[0];
                two.ends[at].advance(peer);
                return number;
            }
            assert_eq!(two.ends[at].lost(), None, "nobody is gone");
            two.round();
        }
        panic!("the message does not come");
    };
    two.ends[1].connect(PeerId(0)).unwrap();
    send(&mut two, 1, 1);
    assert_eq!(take(&mut two, 0), 1);
    two.ends[0].connect(PeerId(1)).unwrap();
    send(&mut two, 0, 2);
    assert_eq!(take(&mut two, 1), 2);
    // Acknowledged, and not said.
    *is_slow.borrow_mut() = true;
    for number in 3..6 {
        send(&mut two, 1, number);
    }
    while !two.ends[1].has_left() {
        two.round();
    }
    // The connection fails at the receiver: what it sends reaches nobody until its retries are used up.
    let (here, there) = (address(0), address(1));
    two.air.air.borrow_mut().cut.extend([(here, there), (there, here)]);
    send(&mut two, 0, 7);
    while two.ends[0].counts().reconnections == 0 {
        if two.ends[0].hca().held.is_empty() {
            // It was stopped and finished. From now on the device is quick.
            *is_slow.borrow_mut() = false;
            two.air.air.borrow_mut().cut.clear();
        }
        assert_eq!(two.ends[0].lost(), None, "nobody is gone");
        two.round();
    }
    assert_eq!(take(&mut two, 1), 7);
    for number in 3..6 {
        assert_eq!(take(&mut two, 0), number, "in order, each once");
    }
    send(&mut two, 1, 8);
    assert_eq!(take(&mut two, 0), 8);
}
