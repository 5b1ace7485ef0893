//! A stage under loom: nothing is read before it was written, or written again before it was read, and nothing is lost.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_staging`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use weft_shm::staging::{self, Words};

/// A stage for one start at a time, of one group of two partitions.
struct Model {
    word: AtomicU64,
    taken: AtomicU32,
    partitions: [UnsafeCell<u32>; 2],
}

impl Words for Model {
    fn word(&self, _: usize) -> u64 {
        self.word.load(Ordering::Acquire)
    }
    fn own_word(&self, _: usize) -> u64 {
        self.word.load(Ordering::Relaxed)
    }
    fn set_word(&self, _: usize, word: u64) {
        self.word.store(word, Ordering::Release);
    }
    fn taken(&self) -> u32 {
        self.taken.load(Ordering::Acquire)
    }
}

impl Model {
    fn write(&self, start: u32, partition: usize) {
        // SAFETY: loom reports the race when the receiver reads it.
        self.partitions[partition].with_mut(|data| unsafe { *data = start });
        staging::show(self, 0, start, 1 << partition);
    }

    /// Both in one go.
    fn write_whole(&self, start: u32) {
        for partition in &self.partitions {
            // SAFETY: as above.
            partition.with_mut(|data| unsafe { *data = start });
        }
        self.set_word(0, u64::from(start) << 32 | u64::from(staging::WHOLE));
    }

    /// What of a start is here, read.
    fn read(&self, start: u32) -> u32 {
        let shown = staging::shown(self, 0, start);
        let here = if shown == staging::WHOLE { 0b11 } else { shown };
        for partition in 0..2 {
            if here >> partition & 1 == 1 {
                // SAFETY: loom reports the race when the sender writes it.
                self.partitions[partition].with(|data| assert_eq!(unsafe { *data }, start));
            }
        }
        here
    }
}

fn two_starts_through_room_for_one(whole: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let stage = Arc::new(Model {
            word: AtomicU64::new(0),
            taken: AtomicU32::new(0),
            partitions: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let sender = {
            let stage = Arc::clone(&stage);
            thread::spawn(move || {
                let mut taken = 0;
                for start in 1..=2 {
                    while !staging::has_room(&*stage, &mut taken, start, 1) {
                        thread::yield_now();
                    }
                    // The first start marks one after the other, or both at once; the second the other way round.
                    if start == 1 && whole {
                        stage.write_whole(start);
                        continue;
                    }
                    stage.write(start, start as usize - 1);
                    stage.write(start, 2 - start as usize);
                }
            })
        };
        for start in 1..=2 {
            let mut before = 0;
            while before != 0b11 {
                let here = stage.read(start);
                assert_eq!(before & !here, 0, "what is here stays");
                before = here;
                if here != 0b11 {
                    thread::yield_now();
                }
            }
            stage.taken.store(start, Ordering::Release);
        }
        sender.join().unwrap();
    });
}

#[test]
fn two_starts_through_room_for_one_arrive_whole_in_any_order_of_marks() {
    two_starts_through_room_for_one(false);
}

#[test]
fn a_start_put_down_whole_and_one_put_down_in_parts_arrive_through_room_for_one() {
    two_starts_through_room_for_one(true);
}
