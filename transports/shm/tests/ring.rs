//! Packets between two transports in one process.

mod common;

use common::{header, node, node_with, pair, watchdog};
use std::time::Duration;
use weft_api::{Refused, Transport};
use weft_shm::Waking;
use weft_types::PeerId;

const A: PeerId = PeerId(0);
const B: PeerId = PeerId(1);

fn bytes(seed: u32, len: usize) -> Vec<u8> {
    let period: Vec<u8> =
        (0..251_u32).map(|i| (i.wrapping_mul(31).wrapping_add(seed) >> 3) as u8 ^ seed as u8).collect();
    let mut all = period.repeat(len / period.len() + 1);
    all.truncate(len);
    all
}

#[test]
fn every_size_around_the_limits_arrives_unchanged() {
    let (mut a, mut b) = pair();
    let caps = a.capabilities(B);
    let around = |n: usize| n.saturating_sub(3)..=n + 3;
    let sizes: Vec<usize> = (0..=130)
        .step_by(if cfg!(miri) { 13 } else { 1 })
        .chain(around(1024))
        .chain(around(4096))
        .chain(around(8192))
        .chain(caps.max_copy - 3..=caps.max_copy)
        .collect();
    for (tag, &len) in sizes.iter().enumerate() {
        let data = bytes(tag as u32, len);
        for inline in [true, false] {
            if inline && len > caps.max_inline {
                continue;
            }
            let sent = if inline {
                a.send_inline(B, header(tag as u32), &data)
            } else {
                a.send_copy(B, header(tag as u32), len, |to| to.copy_from_slice(&data))
            };
            assert_eq!(sent, Ok(()));
            assert_eq!(b.ready(), Some(A));
            let (envelope, payload) = b.peek(A).expect("a packet");
            assert_eq!(envelope, header(tag as u32));
            assert_eq!(payload, data, "{len} bytes, inline {inline}");
            b.advance(A);
            assert_eq!(b.ready(), None);
            assert!(b.peek(A).is_none());
        }
    }
}

#[test]
fn a_full_ring_refuses_and_recovers_in_order() {
    let lengths: &[usize] = if cfg!(miri) { &[8, 8192] } else { &[0, 8, 41, 1000, 8192, 32768] };
    for &len in lengths {
        let (mut a, mut b) = pair();
        let data = bytes(7, len);
        let mut sent = 0;
        let mut received = 0;
        for round in 0..if cfg!(miri) { 3 } else { 20 } {
            loop {
                match a.send_copy(B, header(sent), len, |to| to.copy_from_slice(&data)) {
                    Ok(()) => sent += 1,
                    Err(refused) => break assert_eq!(refused, Refused::Full),
                }
            }
            assert!(sent > received, "a drained ring has room");
            // Take back different amounts, all of it in the end.
            let take = if round % 5 == 4 { sent - received } else { (round * 37) % (sent - received) };
            for _ in 0..take {
                let (envelope, payload) = b.peek(A).expect("a packet");
                assert_eq!(envelope, header(received));
                assert_eq!(payload, data);
                b.advance(A);
                received += 1;
            }
            b.ready();
        }
        assert!(sent >= 15);
    }
}

#[test]
fn mixed_sizes_wrap_around_unharmed() {
    let (mut a, mut b) = pair();
    let max = a.capabilities(B).max_copy as u32;
    let mut state = 12345_u32;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let mut in_flight = std::collections::VecDeque::new();
    let mut tag = 0;
    let steps = if cfg!(miri) { 100 } else { 20_000 };
    for _ in 0..steps {
        if random() % 2 == 0 {
            let len = match random() % 4 {
                0 => random() % 41,
                1 => random() % 300,
                2 => random() % 5000,
                _ => random() % (max + 1),
            } as usize;
            let data = bytes(tag, len);
            match a.send_copy(B, header(tag), len, |to| to.copy_from_slice(&data)) {
                Ok(()) => {
                    in_flight.push_back((tag, data));
                    tag += 1;
                }
                Err(refused) => assert_eq!(refused, Refused::Full),
            }
        } else if let Some((tag, data)) = in_flight.pop_front() {
            let (envelope, payload) = b.peek(A).expect("a packet");
            assert_eq!(envelope, header(tag));
            assert_eq!(payload, data);
            b.advance(A);
        }
    }
    assert!(tag > steps / 4);
}

#[test]
fn ready_serves_everybody_in_turn() {
    let mut all = node(4);
    let mut receiver = all.remove(0);
    for sender in &mut all {
        sender.connect(A).expect("connected");
        for _ in 0..50 {
            sender.send_inline(A, header(0), &[]).expect("room");
        }
    }
    let mut served = [0_i32; 4];
    for _ in 0..150 {
        let peer = receiver.ready().expect("a packet");
        receiver.advance(peer);
        served[peer.0 as usize] += 1;
        let spread = served[1..].iter().max().unwrap() - served[1..].iter().min().unwrap();
        assert!(spread <= 1, "{served:?}");
    }
    assert_eq!(receiver.ready(), None);
}

#[test]
fn a_newcomer_is_heard_while_others_are_busy() {
    let mut all = node(3);
    all[1].connect(A).expect("connected");
    for _ in 0..100 {
        all[1].send_inline(A, header(0), &[]).expect("room");
    }
    assert_eq!(all[0].ready(), Some(PeerId(1)));
    all[2].connect(A).expect("connected");
    all[2].send_inline(A, header(0), &[]).expect("room");
    let mut seen = Vec::new();
    for _ in 0..3 {
        let peer = all[0].ready().expect("a packet");
        seen.push(peer);
        all[0].advance(peer);
    }
    assert!(seen.contains(&PeerId(2)), "{seen:?}");
}

#[test]
fn a_million_messages_each_way_keep_order_and_content() {
    const MESSAGES: u32 = if cfg!(miri) { 100 } else { 500_000 };
    for waking in [Waking::Membarrier, Waking::Fence] {
        let dog = watchdog(Duration::from_secs(120));
        let mut both = node_with(2, waking);
        let second = both.pop().expect("two");
        let first = both.pop().expect("two");
        let ends = [(first, B), (second, A)].map(|(mut end, peer)| {
            std::thread::spawn(move || {
                end.connect(peer).expect("connected");
                let (mut sent, mut received) = (0_u32, 0_u32);
                while sent < MESSAGES || received < MESSAGES {
                    let mut moved = false;
                    if sent < MESSAGES {
                        let len = if sent % 64 == 0 { sent as usize % 3000 } else { sent as usize % 48 };
                        let sending = end.send_copy(peer, header(sent), len, |to| to.fill(sent as u8));
                        moved |= sending.is_ok();
                        sent += u32::from(sending.is_ok());
                    }
                    if let Some(from) = end.ready() {
                        assert_eq!(from, peer);
                        let (envelope, payload) = end.peek(peer).expect("a packet");
                        assert_eq!(envelope, header(received));
                        let len = if received % 64 == 0 {
                            received as usize % 3000
                        } else {
                            received as usize % 48
                        };
                        assert_eq!(payload.len(), len);
                        assert!(payload.iter().all(|&byte| byte == received as u8));
                        end.advance(peer);
                        received += 1;
                        moved = true;
                    }
                    if !moved {
                        std::thread::yield_now();
                    }
                }
            })
        });
        for end in ends {
            end.join().expect("no panic");
        }
        dog.done();
    }
}
