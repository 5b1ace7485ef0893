//! A stage under loom: nothing is read before it was written, or written again before it was read, and nothing is lost.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_staging`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use weft_shm::staging::{self, Words};

/// A stage for one start at a time, of two groups of one partition.
struct Model {
    words: [AtomicU64; 2],
    taken: AtomicU32,
    partitions: [UnsafeCell<u32>; 2],
    /// The second word as memory: written by plain stores, or loaded as a word.
    laid_over: UnsafeCell<()>,
    /// The second word as memory: stored as a word, or read by plain loads.
    lent: UnsafeCell<()>,
}

impl Words for Model {
    fn word(&self, at: usize) -> u64 {
        match at {
            // loom reports the race when the sender lays bytes over it.
            1 => self.laid_over.with(|_| self.words[1].load(Ordering::Acquire)),
            _ => self.words[at].load(Ordering::Acquire),
        }
    }
    fn own_word(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }
    fn set_word(&self, at: usize, word: u64) {
        match at {
            1 => self.lent.with_mut(|_| self.words[1].store(word, Ordering::Release)),
            _ => self.words[at].store(word, Ordering::Release),
        }
    }
    fn taken(&self) -> u32 {
        self.taken.load(Ordering::Acquire)
    }
}

impl Model {
    fn write(&self, start: u32, partition: usize) {
        // SAFETY: loom reports the race when the receiver reads it.
        self.partitions[partition].with_mut(|data| unsafe { *data = start });
        staging::begin_parts(self, 0, 1..2, start);
        staging::show(self, partition, start, 1);
    }

    /// Both in one go; the second word becomes bytes of the program, which are by chance what shows a partition of start `like`.
    fn write_whole(&self, start: u32, like: u32) {
        let bytes = u64::from(like) << 32 | 1;
        self.laid_over.with_mut(|_| self.words[1].store(bytes, Ordering::Relaxed));
        for partition in &self.partitions {
            // SAFETY: as above.
            partition.with_mut(|data| unsafe { *data = start });
        }
        self.set_word(0, u64::from(start) << 32 | u64::from(staging::WHOLE));
    }

    /// What of a start is here, read.
    fn read(&self, start: u32) -> u32 {
        let whole = staging::shown(self, 0, start) == staging::WHOLE;
        if whole {
            self.lent.with(|_| ());
        }
        let part = |at| staging::here(self, 0, at, start) & 1;
        let here = if whole { 0b11 } else { part(0) | part(1) << 1 };
        for partition in 0..2 {
            if here >> partition & 1 == 1 {
                // SAFETY: loom reports the race when the sender writes it.
                self.partitions[partition].with(|data| assert_eq!(unsafe { *data }, start));
            }
        }
        here
    }
}

/// `like`: the first start is put down whole, with bytes like the word of that start.
fn two_starts_through_room_for_one(like: Option<u32>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let stage = Arc::new(Model {
            words: [AtomicU64::new(0), AtomicU64::new(0)],
            taken: AtomicU32::new(0),
            partitions: [UnsafeCell::new(0), UnsafeCell::new(0)],
            laid_over: UnsafeCell::new(()),
            lent: UnsafeCell::new(()),
        });
        let sender = {
            let stage = Arc::clone(&stage);
            thread::spawn(move || {
                let mut taken = 0;
                for start in 1..=2 {
                    while !staging::has_room(&*stage, &mut taken, start, 1) {
                        thread::yield_now();
                    }
                    // The first start marks one after the other, and the second the other way round; or the first is whole, and
                    // the second marks what is not hidden by the first.
                    if let (1, Some(like)) = (start, like) {
                        stage.write_whole(start, like);
                        continue;
                    }
                    let first = if like.is_some() { 0 } else { start as usize - 1 };
                    stage.write(start, first);
                    stage.write(start, 1 - first);
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
    two_starts_through_room_for_one(None);
}

#[test]
fn a_start_put_down_whole_and_one_put_down_in_parts_arrive_through_room_for_one() {
    two_starts_through_room_for_one(Some(1));
    two_starts_through_room_for_one(Some(2));
}
