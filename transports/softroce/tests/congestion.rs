//! A way that is too narrow for all who send: the windows of the senders fit themselves to it, whatever room it has.

mod common;

use common::*;
use weft_api::verbs::*;

const BYTES: u64 = 512 << 10;
const PIECE: u64 = 16 << 10;

/// So many senders write half a megabyte each to one device, by a way that takes a microsecond for a packet and has room for so many.
/// How many packets left in all for each that was needed, and how much later the last sender was ready than the first.
fn crowd(senders: usize, room: u64, seed: u64) -> (f64, f64) {
    let mut network = Network::new(senders + 1, 1 << 20, seed, Faults { delay: 1_000, ..Faults::NONE });
    network.narrow = Some((1_000, room));
    let plan = Plan { sending: Sending { retries: 255, ..Plan::default().sending }, ..Plan::default() };
    let ends: Vec<_> = (1..=senders).map(|sender| connect(&mut network, [0, sender], &plan)).collect();
    for [to, from] in &ends {
        for piece in 0..BYTES / PIECE {
            let own = [Segment { address: BASE + piece * PIECE, length: PIECE as u32, key: from.keys.local }];
            let at = RemoteAddress { address: BASE + piece * PIECE, key: to.keys.remote };
            let work = Work::Write { to: at, immediate: None };
            network.devices[from.device].post_send(from.pair, &WorkRequest::new(piece, work, &own)).unwrap();
        }
    }
    let mut left = vec![BYTES / PIECE; senders];
    let mut ready = Vec::new();
    while ready.len() < senders {
        assert!(network.step(), "something is open and nothing moves");
        for [_, from] in &ends {
            while let Some(done) = network.devices[from.device].poll(from.sends) {
                assert_eq!(done.status, CompletionStatus::Success);
                left[from.device - 1] -= 1;
                if left[from.device - 1] == 0 {
                    ready.push(network.now);
                }
            }
        }
    }
    let needed = senders as u64 * BYTES / 1024;
    (network.packets as f64 / needed as f64, *ready.last().unwrap() as f64 / ready[0] as f64)
}

#[test]
fn a_narrow_way_is_not_flooded() {
    for (senders, room) in [(1, 16), (1, 64), (2, 32), (4, 64), (8, 64), (16, 64)] {
        for seed in 0..3 {
            let (packets, spread) = crowd(senders, room, seed);
            println!(
                "{senders} senders, room {room}: {packets:.2} packets for one, last over first {spread:.2}"
            );
            assert!(
                packets < 2.5,
                "{senders} senders, room {room}, seed {seed}: {packets:.2} packets for one"
            );
        }
    }
}
