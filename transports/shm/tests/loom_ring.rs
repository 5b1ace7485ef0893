//! Every interleaving of one producer and one consumer of a small ring, under loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_ring`
#![cfg(loom)]

mod loom_model;

use loom::thread;
use loom_model::Model;
use std::sync::Arc;
use weft_shm::layout::{INLINE_BYTES, RECORD_ALIGN};
use weft_shm::ring::{Consumer, Producer};
use weft_shm::shuttle::{SHUTTLE, Shuttle};

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
                if consumer.is_idle(false) {
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

/// One slot goes to and fro between two ends, each of which writes to it as soon as it is its own.
#[test]
fn a_slot_is_touched_by_its_owner_alone() {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use weft_shm::ring::RingMemory;
    use weft_shm::slots::{Fresh, Held, SLOT, TWIN};

    struct Slot(UnsafeCell<u32>);
    // SAFETY: loom reports every access that is not ordered.
    unsafe impl Sync for Slot {}
    // SAFETY: as above.
    unsafe impl Send for Slot {}
    const LEN: usize = INLINE_BYTES + 1;

    fn send(producer: &mut Producer<Model>, slot: u32, memory: &Slot, value: u32) {
        // SAFETY: loom reports the race when the slot is another's.
        memory.0.with_mut(|to| unsafe { *to = value });
        let cell = producer.cell().expect("one packet at a time");
        let place = producer.place_in_slot(slot);
        producer.memory().write(cell, value, place.offset, place.end, 0);
        producer.publish(LEN);
    }

    fn receive(consumer: &mut Consumer<Model>, held: &mut Held, memory: &Slot, twin: u32, value: u32) {
        let front = loop {
            match consumer.front() {
                Some(front) => break front,
                None => thread::yield_now(),
            }
        };
        let place = consumer.memory().record(front.cell).0;
        assert_eq!((place, front.len), (SLOT | twin, LEN));
        // SAFETY: as in `send`.
        assert_eq!(memory.0.with(|from| unsafe { *from }), value);
        held.put(place);
        consumer.release(front);
    }

    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let [there, back] = [(), ()].map(|()| Model::new(2, 0));
        let slot = Arc::new(Slot(UnsafeCell::new(0)));
        let (mut out, mut away) = (Producer::new(there.clone(), 2, 0), Consumer::new(there, 2, 0));
        let (mut home, mut coming) = (Producer::new(back.clone(), 2, 0), Consumer::new(back, 2, 0));
        let theirs = Arc::clone(&slot);
        let other = thread::spawn(move || {
            let mut held = Held::default();
            for value in [1, 3] {
                receive(&mut away, &mut held, &theirs, 0, value);
                send((&mut home, &away), held.take().expect("it has come"), &theirs, value + 1);
            }
            assert_eq!(held.take(), None);
        });
        let (mut fresh, mut held) = (Fresh::new(1), Held::default());
        for value in [1, 3] {
            let mine = held.take().or_else(|| fresh.take(|_| true)).expect("the slot is here");
            send((&mut out, &coming), mine, &slot, value);
            receive(&mut coming, &mut held, &slot, TWIN, value + 1);
        }
        assert_eq!((held.take(), held.take()), (Some(SLOT), None));
        other.join().unwrap();
    });
}

/// Both ends of one process.
type Ends = (Producer<Model>, Consumer<Model>, Arc<Shuttle>);

/// Two processes with a ring of `cells` cells in each direction and the line that goes to and fro.
fn with_shuttle(cells: u32) -> [Ends; 2] {
    let line = loom::sync::Arc::default();
    let [there, back] = [(), ()].map(|()| Model::sharing(cells, 0, &line));
    let both = [(there.clone(), back.clone(), false), (back, there, true)];
    both.map(|(out, inward, second)| {
        let shuttle = Arc::new(Shuttle::new(second));
        let (mut producer, mut consumer) = (Producer::new(out, cells, 0), Consumer::new(inward, cells, 0));
        producer.share(Arc::clone(&shuttle));
        consumer.share(Arc::clone(&shuttle));
        (producer, consumer, shuttle)
    })
}

/// Whether it left in the shuttle. `long`: it is longer than what leaves there.
fn send((producer, consumer): (&mut Producer<Model>, &Consumer<Model>), value: u32, long: bool) -> bool {
    let free = loop {
        match producer.cell_at_hand() {
            Some(free) => break free,
            None if producer.cell().is_none() => thread::yield_now(),
            None => {}
        }
    };
    let len = if long { INLINE_BYTES } else { 8 };
    if producer.leaves_in_shuttle(free, len) {
        producer.memory().write(SHUTTLE, value, 0, 0, 0);
        producer.publish_in_shuttle(free, len, consumer.received());
        return true;
    }
    producer.memory().write(free.cell, value, 0, 0, 0);
    producer.publish_at_hand(free, len);
    false
}

/// `idle`: it asks first whether there is anything, as progress does.
fn receive(consumer: &mut Consumer<Model>, value: u32, idle: bool) {
    let front = loop {
        if idle && consumer.is_idle(true) {
            thread::yield_now();
            continue;
        }
        match consumer.awaited_front() {
            Some(front) => break front,
            None => {
                if consumer.owes_heads() {
                    consumer.publish_heads();
                }
                thread::yield_now();
            }
        }
    };
    assert_eq!(consumer.memory().read(front.cell, 0), value);
    consumer.release(front);
}

/// Answers to answers, of which those given by `long` go by the ring.
fn answers(cells: u32, long: &'static [bool]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let [(mut out, mut coming, shuttle), (mut home, mut away, _)] = with_shuttle(cells);
        let other = thread::spawn(move || {
            for (value, &long) in (1..).step_by(2).zip(long) {
                receive(&mut away, value, value % 4 == 1);
                assert_eq!(send((&mut home, &away), value + 1, long), !long);
            }
        });
        for (value, &long) in (1..).step_by(2).zip(long) {
            // As long as an answer goes by the ring, the other one keeps the shuttle.
            let is_here = !shuttle.is_away();
            assert_eq!(send((&mut out, &coming), value, false), is_here);
            receive(&mut coming, value + 1, value % 4 == 3);
            assert_eq!(shuttle.is_away(), long);
        }
        other.join().unwrap();
    });
}

#[test]
fn the_shuttle_is_touched_by_its_holder_alone() {
    answers(2, &[false, false]);
}

#[test]
fn a_ring_whose_cells_are_skipped_comes_round() {
    // Three packets each way, in rings of two cells and of one: a skipped cell's turn comes again.
    answers(2, &[false, true, false]);
    answers(1, &[true, false]);
    answers(1, &[false, false]);
}

/// Two packets each way: the first of the four leaves in the shuttle, the others in whatever place is there.
#[test]
fn packets_of_ring_and_shuttle_come_in_order() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let [(mut out, mut coming, _), (mut home, mut away, _)] = with_shuttle(2);
        let other = thread::spawn(move || {
            send((&mut home, &away), 11, false);
            receive(&mut away, 1, false);
            send((&mut home, &away), 12, false);
            receive(&mut away, 2, true);
        });
        assert!(send((&mut out, &coming), 1, false));
        assert!(!send((&mut out, &coming), 2, false), "it is away");
        receive(&mut coming, 11, true);
        receive(&mut coming, 12, false);
        other.join().unwrap();
    });
}
