//! Every interleaving of one producer and one consumer of a small ring, under loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_ring`
#![cfg(loom)]

mod loom_model;

use loom::thread;
use loom_model::Model;
use weft_shm::layout::{INLINE_BYTES, RECORD_ALIGN};
use weft_shm::ring::{Consumer, Producer};

/// Sends `packets` of the given lengths through a ring of `cells` cells with `lines` data lines, `first` of them usable
/// from the start, and receives them in order.
fn exchange(cells: u32, lines: u32, first: u32, lens: &'static [usize]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let memory = Model::new(cells, lines);
        let mut producer = Producer::new(memory.clone(), cells, first * RECORD_ALIGN);
        let mut consumer = Consumer::new(memory, cells, lines * RECORD_ALIGN);
        let sender = thread::spawn(move || {
            for (value, &len) in (1..).zip(lens) {
                // The short way of inline packets, where it sees room.
                if len <= INLINE_BYTES
                    && let Some(free) = producer.cell_at_hand()
                {
                    producer.memory().write(free.cell, value, 0, 0, 0);
                    producer.publish_at_hand(free, len);
                    continue;
                }
                let cell = loop {
                    match producer.cell() {
                        Some(cell) => break cell,
                        None => thread::yield_now(),
                    }
                };
                if len <= INLINE_BYTES {
                    producer.memory().write(cell, value, 0, 0, 0);
                } else {
                    let place = loop {
                        match producer.place(len) {
                            Some(place) => break place,
                            None => thread::yield_now(),
                        }
                    };
                    producer.memory().write(cell, value, place.offset, place.end, record(len));
                    producer.take(place, len);
                }
                producer.publish(len);
            }
        });
        for (value, &len) in (1..).zip(lens) {
            let front = loop {
                if consumer.is_idle() {
                    thread::yield_now();
                    continue;
                }
                match consumer.front() {
                    Some(front) => break front,
                    None => {
                        if consumer.owes_heads() {
                            consumer.publish_heads();
                        }
                        thread::yield_now();
                    }
                }
            };
            assert_eq!(front.len, len);
            assert_eq!(consumer.memory().read(front.cell, record(len)), value);
            consumer.release(front);
        }
        sender.join().unwrap();
    });
}

fn record(len: usize) -> u32 {
    if len <= INLINE_BYTES { 0 } else { (len as u32).next_multiple_of(RECORD_ALIGN) }
}

#[test]
fn cells_are_reused_only_after_they_were_read() {
    exchange(2, 0, 0, &[0, 8, 40, 104]);
}

#[test]
fn records_are_reused_only_after_they_were_read() {
    exchange(4, 4, 4, &[120, 128, 110]);
}

#[test]
fn a_record_that_does_not_fit_the_end_is_put_in_front() {
    exchange(4, 5, 5, &[120, 120, 120]);
}

#[test]
fn an_area_that_grows_in_its_first_lap_keeps_what_is_in_flight() {
    exchange(2, 4, 2, &[120, 120, 120]);
}
