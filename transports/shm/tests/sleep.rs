//! Sleeping and waking, peers that end, and what a watchdog must never see: a lost wake-up.

mod common;

use common::{header, node_with, pair, watchdog};
use std::time::{Duration, Instant};
use weft_api::{Bell, Refused, Transport};
use weft_shm::{PeerState, Shm, Waking};
use weft_types::PeerId;

const A: PeerId = PeerId(0);
const B: PeerId = PeerId(1);
/// Far above any wake-up, far below the watchdog's patience for all rounds: sleeping through it would show.
const LONG: Duration = Duration::from_secs(20);

/// Waits as the engine does: arm, look once more, sleep.
fn wait_for_packet(shm: &mut Shm) -> PeerId {
    let bell = shm.bell();
    loop {
        if let Some(peer) = shm.ready() {
            return peer;
        }
        bell.arm();
        if let Some(peer) = shm.ready() {
            bell.disarm();
            return peer;
        }
        bell.sleep(LONG);
    }
}

#[test]
fn ping_pong_with_sleep_at_every_step_loses_no_wake_up() {
    for waking in [Waking::Membarrier, Waking::Fence] {
        let dog = watchdog(Duration::from_secs(60));
        let start = Instant::now();
        let mut both = node_with(2, waking);
        let mut second = both.pop().expect("two");
        let mut first = both.pop().expect("two");
        const ROUNDS: u32 = if cfg!(miri) { 10 } else { 10_000 };
        let echo = std::thread::spawn(move || {
            second.connect(A).expect("connected");
            for round in 0..ROUNDS {
                assert_eq!(wait_for_packet(&mut second), A);
                assert_eq!(second.peek(A).expect("a packet").0, header(round));
                second.advance(A);
                second.send_inline(A, header(round), &[]).expect("room");
            }
        });
        first.connect(B).expect("connected");
        for round in 0..ROUNDS {
            first.send_inline(B, header(round), &[]).expect("room");
            assert_eq!(wait_for_packet(&mut first), B);
            assert_eq!(first.peek(B).expect("a packet").0, header(round));
            first.advance(B);
        }
        echo.join().expect("no panic");
        assert!(start.elapsed() < LONG, "a wake-up was lost and the limit of a sleep ended it");
        dog.done();
    }
}

#[test]
fn a_sender_waiting_for_room_is_woken() {
    for waking in [Waking::Membarrier, Waking::Fence] {
        let dog = watchdog(Duration::from_secs(60));
        let start = Instant::now();
        let mut both = node_with(2, waking);
        let mut receiver = both.pop().expect("two");
        let mut sender = both.pop().expect("two");
        const PACKETS: u32 = if cfg!(miri) { 160 } else { 20_000 };
        let reader = std::thread::spawn(move || {
            for packet in 0..PACKETS {
                assert_eq!(wait_for_packet(&mut receiver), A);
                assert_eq!(receiver.peek(A).expect("a packet").0, header(packet));
                receiver.advance(A);
            }
        });
        sender.connect(B).expect("connected");
        let bell = sender.bell();
        for packet in 0..PACKETS {
            let len = if packet % 100 < 50 { 8 } else { 20_000 };
            let send = |sender: &mut Shm| sender.send_copy(B, header(packet), len, |to| to.fill(1));
            while send(&mut sender).is_err() {
                bell.arm();
                match send(&mut sender) {
                    Ok(()) => {
                        bell.disarm();
                        break;
                    }
                    Err(refused) => assert_eq!(refused, Refused::Full),
                }
                bell.sleep(LONG);
            }
        }
        reader.join().expect("no panic");
        assert!(start.elapsed() < LONG, "a wake-up was lost and the limit of a sleep ended it");
        dog.done();
    }
}

#[test]
fn several_threads_of_one_process_sleep_and_all_are_woken() {
    let dog = watchdog(Duration::from_secs(60));
    let (mut a, b) = pair();
    for _ in 0..if cfg!(miri) { 2 } else { 50 } {
        let start = Instant::now();
        let armed = std::sync::Arc::new(std::sync::Barrier::new(5));
        let sleepers: Vec<_> = (0..4)
            .map(|_| {
                let (bell, armed) = (b.bell(), armed.clone());
                std::thread::spawn(move || {
                    bell.arm();
                    armed.wait();
                    bell.sleep(LONG);
                })
            })
            .collect();
        armed.wait();
        a.send_inline(B, header(0), &[]).expect("room");
        for sleeper in sleepers {
            sleeper.join().expect("no panic");
        }
        assert!(start.elapsed() < LONG);
    }
    dog.done();
}

#[test]
fn a_sleep_ends_at_its_limit_and_leaves_nothing_armed() {
    let (_a, b) = pair();
    let bell = b.bell();
    bell.arm();
    let start = Instant::now();
    bell.sleep(Duration::from_millis(20));
    assert!(start.elapsed() >= Duration::from_millis(20));
    // A bell that is not armed does not sleep.
    bell.sleep(LONG);
    assert!(start.elapsed() < LONG);
}

#[test]
fn a_peer_that_left_is_dead_to_senders_and_never_blocks_them() {
    let (mut a, b) = pair();
    assert_eq!(a.peer_state(B), PeerState::Attached);
    a.send_inline(B, header(0), &[]).expect("room");
    drop(b);
    assert_eq!(a.peer_state(B), PeerState::Finalized);
    assert!(a.is_gone(B));
    assert_eq!(a.send_inline(B, header(0), &[]), Err(Refused::Dead));
    assert_eq!(a.send_copy(B, header(0), 4000, |to| to.fill(0)), Err(Refused::Dead));
}

#[test]
fn the_launchers_word_that_a_peer_died_wakes_everybody() {
    let dog = watchdog(Duration::from_secs(30));
    let file = weft_shm::create().expect("a memory file");
    let mut all: Vec<Shm> = (0..3)
        .map(|local| {
            let config = weft_shm::Config {
                file: file.try_clone().expect("a descriptor"),
                local,
                peers: (10..13).map(PeerId).collect(),
                single_copy: false,
                waking: Waking::Membarrier,
            };
            Shm::attach(config).expect("attached")
        })
        .collect();
    all[0].connect(PeerId(12)).expect("connected");
    let bell = all[0].bell();
    bell.arm();
    let launcher = std::thread::spawn(move || weft_shm::mark_dead(&file, 3, 2));
    let start = Instant::now();
    bell.sleep(LONG);
    assert!(start.elapsed() < LONG);
    launcher.join().expect("no panic").expect("marked");
    assert_eq!(all[0].peer_state(PeerId(12)), PeerState::Dead);
    assert_eq!(all[0].peer_state(PeerId(11)), PeerState::Attached);
    assert!(all[0].is_gone(PeerId(12)) && !all[0].is_gone(PeerId(11)));
    // Whether the ring is empty or full, the answer is the same.
    for _ in 0..1000 {
        assert_eq!(all[0].send_inline(PeerId(12), header(0), &[]), Err(Refused::Dead));
    }
    dog.done();
}
