//! Threads that are armed in several lanes at once, under loom: a lost wake-up would be a deadlock.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_doors`
#![cfg(loom)]

mod loom_model;

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use loom_model::{Doors, heavy_barrier};
use std::time::Duration;
use weft_shm::bell::{self, Arming, Doorway, SleepWord};

/// No sleep of a model ends by its limit.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

fn check(preemptions: usize, work: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(work);
}

/// Sleeps until `look` says yes, as a blocked call does.
fn wait_until(doors: &Doors, lanes: u32, mut look: impl FnMut() -> bool) {
    while !look() {
        let arming = Arming::of(lanes);
        arming.arm(doors);
        heavy_barrier();
        if look() {
            return arming.disarm(doors);
        }
        arming.sleep(doors, FOR_EVER);
    }
}

/// A packet for a lane: written first, then its receivers are rung if some are counted.
fn deliver(packet: &AtomicBool, doors: &Doors, lane: u32) {
    packet.store(true, Ordering::Release);
    // What the sleeper's membarrier makes of the sender's light barrier.
    fence(Ordering::SeqCst);
    let door = doors.door(lane);
    if bell::needs_attention(door.load()) {
        bell::ring(&door);
    }
}

#[test]
fn a_thread_armed_in_two_lanes_is_woken_by_either() {
    for lane in 0..2 {
        check(3, move || {
            let (doors, packet) = (Doors::new(), Arc::new(AtomicBool::new(false)));
            let sleeper = {
                let (doors, packet) = (Arc::clone(&doors), Arc::clone(&packet));
                thread::spawn(move || wait_until(&doors, 0b11, || packet.load(Ordering::Acquire)))
            };
            deliver(&packet, &doors, lane);
            sleeper.join().unwrap();
            assert!(doors.is_empty());
        });
    }
}

#[test]
fn rings_of_two_lanes_at_once_lose_nothing() {
    check(2, || {
        let doors = Doors::new();
        let packets: Arc<[AtomicBool; 2]> = Arc::default();
        let senders: Vec<_> = (0..2)
            .map(|lane| {
                let (doors, packets) = (Arc::clone(&doors), Arc::clone(&packets));
                thread::spawn(move || deliver(&packets[lane as usize], &doors, lane))
            })
            .collect();
        wait_until(&doors, 0b11, || packets.iter().all(|packet| packet.load(Ordering::Acquire)));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(doors.is_empty());
    });
}

#[test]
fn a_ring_of_one_lane_does_not_use_up_the_wake_up_of_another_thread() {
    check(2, || {
        let doors = Doors::new();
        let packets: Arc<[AtomicBool; 2]> = Arc::default();
        let sleepers: Vec<_> = [0b01, 0b10]
            .into_iter()
            .zip(0..)
            .map(|(lanes, packet): (u32, usize)| {
                let (doors, packets) = (Arc::clone(&doors), Arc::clone(&packets));
                thread::spawn(move || wait_until(&doors, lanes, || packets[packet].load(Ordering::Acquire)))
            })
            .collect();
        deliver(&packets[1], &doors, 1);
        deliver(&packets[0], &doors, 0);
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        assert!(doors.is_empty());
    });
}

/// What threads do to one another without a packet (`core/abi/src/gate.rs`, `core/mpi/src/lanes.rs`): the sleeper arms, counts
/// itself among the watchers, looks under the lock; who changes something does so under the lock, reads the watchers there and
/// rings after giving the lock back, all relaxed but for the lock.
#[test]
fn a_change_under_the_lock_wakes_who_watches() {
    check(3, || {
        let (doors, watchers) = (Doors::new(), Arc::new(AtomicU32::new(0)));
        let changed = Arc::new(Mutex::new(0));
        let sleepers: Vec<_> = (1..=2)
            .map(|wanted| {
                let (doors, watchers, changed) =
                    (Arc::clone(&doors), Arc::clone(&watchers), Arc::clone(&changed));
                thread::spawn(move || {
                    while *changed.lock().unwrap() < wanted {
                        let arming = Arming::of(0b01);
                        arming.arm(&*doors);
                        watchers.fetch_add(1, Ordering::SeqCst);
                        if *changed.lock().unwrap() < wanted {
                            arming.sleep(&*doors, FOR_EVER);
                        } else {
                            arming.disarm(&*doors);
                        }
                        watchers.fetch_sub(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let mut value = changed.lock().unwrap();
            *value += 1;
            let watched = watchers.load(Ordering::Relaxed) != 0;
            drop(value);
            if watched {
                bell::ring(&doors.door(0));
            }
        }
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        assert!(doors.is_empty());
    });
}
