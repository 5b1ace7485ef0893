//! Arm, ring, sleep and disarm together with a ring, under loom: a lost wake-up would be a deadlock.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_bell`
#![cfg(loom)]

mod loom_model;

use loom::sync::Arc;
use loom::thread;
use loom_model::{Door, Model, heavy_barrier};
use weft_shm::bell::{self, SleepWord};
use weft_shm::ring::{Consumer, Producer, RingMemory};

/// Repeats `attempt` until it gives something, asleep in between, as the engine does.
fn wait_until<T>(door: &Door, mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(got) = attempt() {
            return got;
        }
        let rings = bell::arm(door);
        heavy_barrier();
        if let Some(got) = attempt() {
            bell::disarm(door, rings);
            return got;
        }
        while let Some(value) = bell::still_armed(door, rings) {
            door.wait(value);
        }
        bell::disarm(door, rings);
    }
}

fn notify(memory: &Model, door: &Door) {
    memory.light_barrier();
    if bell::needs_attention(door.load()) {
        bell::ring(door);
    }
}

/// `packets` through a ring of `cells` cells; both ends sleep when they cannot go on.
fn exchange(cells: u32, packets: u32, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let memory = Model::new(cells, 0);
        let (sender_door, receiver_door) = (Door::new(), Door::new());
        let mut producer = Producer::new(memory.clone(), cells, 0);
        let mut consumer = Consumer::new(memory, cells, 0);
        let doors = (Arc::clone(&sender_door), Arc::clone(&receiver_door));
        let sender = thread::spawn(move || {
            for value in 1..=packets {
                let cell = wait_until(&doors.0, || producer.cell());
                producer.memory().write(cell, value, 0, 0, 0);
                producer.publish(0);
                notify(producer.memory(), &doors.1);
            }
        });
        for value in 1..=packets {
            let front = wait_until(&receiver_door, || {
                let front = consumer.front();
                if front.is_none() && consumer.owes_heads() && consumer.publish_heads() {
                    bell::ring(&*sender_door);
                }
                front
            });
            assert_eq!(consumer.memory().read(front.cell, 0), value);
            if consumer.release(front) {
                bell::ring(&*sender_door);
            }
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_packet_wakes_its_receiver() {
    exchange(2, 1, 4);
}

#[test]
fn room_wakes_the_sender_and_packets_the_receiver() {
    exchange(1, 2, 3);
}

#[test]
fn a_larger_ring_loses_no_wake_up_either() {
    exchange(2, 3, 2);
}

#[test]
fn two_threads_of_one_process_are_both_woken() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let memory = Model::new(2, 0);
        let door = Door::new();
        let mut producer = Producer::new(memory.clone(), 2, 0);
        let sleepers: Vec<_> = (0..2)
            .map(|_| {
                let (door, consumer) = (Arc::clone(&door), Consumer::new(memory.clone(), 2, 0));
                thread::spawn(move || wait_until(&door, || consumer.front()))
            })
            .collect();
        let cell = producer.cell().unwrap();
        producer.memory().write(cell, 1, 0, 0, 0);
        producer.publish(0);
        notify(producer.memory(), &door);
        for sleeper in sleepers {
            sleeper.join().unwrap();
        }
    });
}
