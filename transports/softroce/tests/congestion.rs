//! A way that is too narrow for all who send: the windows of the senders fit themselves to it, whatever room it has.

mod common;

use common::*;
use weft_api::verbs::*;

const BYTES: u64 = 512 << 10;
const PIECE: u64 = 16 << 10;

/// How bytes come to the one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Their owners write them there.
    Writes,
    /// It reads them.
    Reads,
}

/// So many devices have half a megabyte each for one, which gets it by a way that takes a microsecond for a packet and has room for so many;
/// connections may have `widest` packets under way. How many packets left in all for each that was needed, and how much later the last of
/// them was done than the first.
fn crowd(by: By, senders: usize, room: u64, widest: u32, seed: u64) -> (f64, f64) {
    let mut network = Network::new(senders + 1, 1 << 20, seed, Faults { delay: 1_000, ..Faults::NONE });
    network.narrow = Some((1_000, room));
    network.devices.iter_mut().for_each(|device| device.widen(widest));
    let plan = Plan { sending: Sending { retries: 255, ..Plan::default().sending }, ..Plan::default() };
    let ends: Vec<_> = (1..=senders).map(|sender| connect(&mut network, [0, sender], &plan)).collect();
    // Who posts, and whose memory is meant.
    let roles: Vec<_> =
        ends.iter().map(|&[to, from]| if by == By::Writes { (from, to) } else { (to, from) }).collect();
    for (active, passive) in &roles {
        for piece in 0..BYTES / PIECE {
            let own =
                [Segment { address: BASE + piece * PIECE, length: PIECE as u32, key: active.keys.local }];
            let at = RemoteAddress { address: BASE + piece * PIECE, key: passive.keys.remote };
            let work = match by {
                By::Writes => Work::Write { to: at, immediate: None },
                By::Reads => Work::Read { from: at },
            };
            let request = WorkRequest::new(piece, work, &own);
            network.devices[active.device].post_send(active.pair, &request).unwrap();
        }
    }
    let mut left = vec![BYTES / PIECE; senders];
    let mut ready = Vec::new();
    while ready.len() < senders {
        assert!(network.step(), "something is open and nothing moves");
        for ((active, _), left) in roles.iter().zip(&mut left) {
            while let Some(done) = network.devices[active.device].poll(active.sends) {
                assert_eq!(done.status, CompletionStatus::Success);
                *left -= 1;
                if *left == 0 {
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
    for (by, widest) in [(By::Writes, 128), (By::Writes, 512), (By::Reads, 128), (By::Reads, 512)] {
        for (senders, room) in [(1, 16), (1, 64), (2, 32), (4, 64), (8, 64), (16, 64)] {
            for seed in 0..3 {
                let (packets, spread) = crowd(by, senders, room, widest, seed);
                let who = format!("{by:?} of {widest}, {senders} senders, room {room}, seed {seed}");
                println!("{who}: {packets:.2} packets for one, last over first {spread:.2}");
                // A read that was cut short asks for all the rest again.
                let most = if by == By::Writes { 2.6 } else { 4.6 };
                assert!(packets < most, "{who}: {packets:.2} packets for one");
            }
        }
    }
}

/// Whoever gives a device no more messages than leave at once never waits for a timer, however long they are: some of what is under way
/// asks for an acknowledgement.
#[test]
fn a_message_that_has_to_wait_waits_for_an_answer() {
    // Timers of 67 ms.
    let plan = Plan { sending: Sending { timeout: 14, ..Plan::default().sending }, ..Plan::default() };
    for widest in [32, 64, 128, 16, 8] {
        for length in (500..17_000).step_by(500) {
            let mut network = Network::new(2, 1 << 20, 1, Faults::NONE);
            network.devices.iter_mut().for_each(|device| device.widen(widest));
            let [to, from] = connect(&mut network, [0, 1], &plan);
            let mut given = 0;
            for number in 0..200 {
                network.devices[to.device]
                    .post_receive(
                        to.pair,
                        number,
                        &[Segment { address: BASE, length: 32 << 10, key: to.keys.local }],
                    )
                    .unwrap();
            }
            while given < 100 {
                let device = &mut network.devices[from.device];
                if device.leaves_now(from.pair, length as usize) {
                    let own = [Segment { address: BASE, length, key: from.keys.local }];
                    let mut request = WorkRequest::new(given, Work::Send { immediate: None }, &own);
                    request.signaled = given == 99;
                    device.post_send(from.pair, &request).unwrap();
                    given += 1;
                } else {
                    assert!(network.step(), "nothing moves");
                }
                assert!(
                    network.now < 60_000_000,
                    "window {widest}, {length} B: message {given} waits for a timer"
                );
            }
        }
    }
}
