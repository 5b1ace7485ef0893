//! Rounds under loom: payloads against the rules, and sleeping members against lost wake-ups, which would be deadlocks.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_rounds`
#![cfg(loom)]

mod loom_model;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use loom_model::{Door, heavy_barrier};
use weft_shm::bell::{self, SleepWord};
use weft_shm::rounds::{Pace, Words, stamp};

/// What one member writes: two cells, so that a member may be two rounds ahead.
struct Area {
    stamps: [AtomicU64; 2],
    payloads: [UnsafeCell<u64>; 2],
    finished: AtomicU64,
    door: Arc<Door>,
}

/// The view of one member.
#[derive(Clone)]
struct View(Arc<Vec<Area>>, u32);

impl View {
    fn all(members: u32) -> Vec<View> {
        let areas = (0..members).map(|_| Area {
            stamps: [AtomicU64::new(0), AtomicU64::new(0)],
            payloads: [UnsafeCell::new(0), UnsafeCell::new(0)],
            finished: AtomicU64::new(0),
            door: Door::new(),
        });
        let areas = Arc::new(areas.collect::<Vec<Area>>());
        (0..members).map(|me| View(Arc::clone(&areas), me)).collect()
    }

    fn own(&self) -> &Area {
        &self.0[self.1 as usize]
    }

    fn write(&self, round: u64, value: u64) {
        // SAFETY: loom reports the race when somebody else may access the payload now.
        self.own().payloads[round as usize % 2].with_mut(|to| unsafe { *to = value });
    }

    fn read(&self, member: u32, round: u64) -> u64 {
        // SAFETY: as in `write`.
        self.0[member as usize].payloads[round as usize % 2].with(|from| unsafe { *from })
    }

    /// As `Rounds::wake`.
    fn wake(&self) {
        // What the sleeper's membarrier makes of the light barrier.
        fence(Ordering::SeqCst);
        for (member, area) in self.0.iter().enumerate() {
            if member != self.1 as usize && bell::needs_attention(area.door.load()) {
                bell::ring(&*area.door);
            }
        }
    }

    /// As a blocked call.
    fn wait_until(&self, mut look: impl FnMut() -> bool) {
        let door = &*self.own().door;
        loop {
            if look() {
                return;
            }
            let rings = bell::arm(door);
            heavy_barrier();
            if look() {
                return bell::disarm(door, rings);
            }
            while let Some(value) = bell::still_armed(door, rings) {
                door.wait(value);
            }
            bell::disarm(door, rings);
        }
    }
}

impl Words for View {
    const CELLS: u64 = 2;

    fn stamp(&self, member: u32, round: u64) -> u64 {
        self.0[member as usize].stamps[round as usize % 2].load(Ordering::Acquire)
    }

    fn set_stamp(&self, round: u64, stamp: u64) {
        self.own().stamps[round as usize % 2].store(stamp, Ordering::Release);
    }

    fn finished(&self, member: u32) -> u64 {
        self.0[member as usize].finished.load(Ordering::Acquire)
    }

    fn set_finished(&self, rounds: u64) {
        self.own().finished.store(rounds, Ordering::Release);
    }
}

fn check(preemptions: usize, members: u32, member: impl Fn(View) + Send + Sync + Copy + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let mut views = View::all(members);
        let first = views.remove(0);
        let others: Vec<_> = views.into_iter().map(|view| thread::spawn(move || member(view))).collect();
        member(first);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Every member gives a number in every round and adds up all; a round seen whole wakes the others, a stamp alone does not.
fn sums(view: View, members: u32, rounds: u64) {
    let me = view.1;
    let mut pace = Pace::new(me, members);
    for round in 0..rounds {
        assert!(pace.has_room(&view, round), "whoever saw the last round whole has room");
        view.write(round, u64::from(me) + round);
        view.set_stamp(round, stamp(round, 7));
        let others = pace.others();
        view.wait_until(|| pace.missing(&view, round, 7, others) == 0);
        let sum: u64 = (0..members).map(|member| view.read(member, round)).sum();
        assert_eq!(sum, (0..members).map(|member| u64::from(member) + round).sum::<u64>());
        pace.heard_of(&view, round);
        view.set_finished(round + 1);
        view.wake();
    }
}

#[test]
fn all_get_the_payloads_of_all_and_nobody_sleeps_for_ever() {
    check(3, 2, |view| sums(view, 2, 3));
}

#[test]
fn the_last_of_three_wakes_those_who_sleep() {
    check(2, 3, |view| sums(view, 3, 1));
}

/// Member 0 gives numbers as fast as the cells allow; the others take them.
fn broadcasts(view: View, members: u32, rounds: u64) {
    let mut pace = Pace::new(view.1, members);
    for round in 0..rounds {
        if view.1 == 0 {
            view.wait_until(|| pace.has_room(&view, round));
            view.write(round, 10 + round);
            view.set_stamp(round, stamp(round, 1));
        } else {
            view.wait_until(|| pace.missing(&view, round, 1, 1) == 0);
            assert_eq!(view.read(0, round), 10 + round);
        }
        pace.next = round + 1;
        view.set_finished(round + 1);
        view.wake();
    }
}

#[test]
fn a_writer_overwrites_nothing_that_is_still_read() {
    check(2, 2, |view| broadcasts(view, 2, 4));
    check(1, 3, |view| broadcasts(view, 3, 3));
}
