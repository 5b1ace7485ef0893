//! Announced rings and deaths under loom: a receiver that looks, or sleeps, misses none.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_arrivals`
#![cfg(loom)]

mod loom_model;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;
use loom_model::{Door, heavy_barrier};
use weft_shm::arrivals::{Inbox, announce, take_in};
use weft_shm::bell::{self, SleepWord};

#[derive(Default)]
struct Announced {
    bitmap: [AtomicU64; 2],
    count: AtomicU32,
    /// The state of a process that may die.
    dead: AtomicBool,
}

impl Inbox for Announced {
    fn set(&self, word: usize, bits: u64) {
        self.bitmap[word].fetch_or(bits, Ordering::Release);
    }
    fn bits(&self, word: usize) -> u64 {
        self.bitmap[word].load(Ordering::Acquire)
    }
    fn add(&self) {
        self.count.fetch_add(1, Ordering::Release);
    }
    fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }
}

/// What the receiver knows.
#[derive(Default)]
struct Known {
    count: u32,
    senders: Vec<u32>,
}

impl Known {
    fn look(&mut self, inbox: &Announced) {
        if inbox.count() != self.count {
            let senders = &mut self.senders;
            self.count = take_in(inbox, 2, |sender| {
                if !senders.contains(&sender) {
                    senders.push(sender);
                }
            });
        }
    }
}

#[test]
fn a_look_after_an_announcement_finds_it_whatever_was_seen_before() {
    loom::model(|| {
        let inbox = Arc::new(Announced::default());
        let senders: Vec<_> = [3, 64]
            .map(|sender| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || announce(&*inbox, sender))
            })
            .into();
        let mut known = Known::default();
        known.look(&inbox);
        known.look(&inbox);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        known.look(&inbox);
        known.senders.sort_unstable();
        assert_eq!(known.senders, [3, 64]);
    });
}

/// As `Segment::bury`: the state, the count, a fence, the bell; the sleeper arms, fences, looks.
#[test]
fn a_death_wakes_who_sleeps() {
    loom::model(|| {
        let (inbox, door) = (Arc::new(Announced::default()), Door::new());
        let launcher = {
            let (inbox, door) = (Arc::clone(&inbox), Arc::clone(&door));
            thread::spawn(move || {
                inbox.dead.store(true, Ordering::Release);
                inbox.add();
                fence(Ordering::SeqCst);
                if bell::needs_attention(door.load()) {
                    bell::ring(&*door);
                }
            })
        };
        while inbox.count() == 0 {
            let rings = bell::arm(&*door);
            heavy_barrier();
            if inbox.count() == 0 {
                while let Some(value) = bell::still_armed(&*door, rings) {
                    door.wait(value);
                }
            }
            bell::disarm(&*door, rings);
        }
        assert!(inbox.dead.load(Ordering::Acquire));
        launcher.join().unwrap();
    });
}
