//! The biased lock under loom: an owner with its fast way, others who keep it out, and owners that change.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_bias`
#![cfg(loom)]

mod loom_model;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use loom_model::Seats;
use weft_shm::bias::{self, Words};

struct Lock {
    seats: Seats,
    slow: Mutex<()>,
    value: UnsafeCell<u32>,
}

impl Lock {
    fn new(owner: usize) -> Arc<Lock> {
        Arc::new(Lock { seats: Seats::of(owner), slow: Mutex::new(()), value: UnsafeCell::new(0) })
    }

    fn touch(&self) {
        // SAFETY: the caller is inside the lock; loom reports the race when somebody else is, too.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    /// How many turns there were, when all threads are done.
    fn turns(&self) -> u32 {
        // SAFETY: every thread that had turns was joined; loom reports the race if not.
        self.value.with(|value| unsafe { *value })
    }

    /// One turn of a thread; on the slow way it leaves the lock biased to `heir`.
    fn turn(&self, me: usize, heir: Option<usize>) {
        if bias::enter_fast(&self.seats, me) {
            self.touch();
            return bias::leave_fast(&self.seats, me);
        }
        let slow = self.slow.lock().unwrap();
        let kept_out = bias::keep_out_others(&self.seats, me, thread::yield_now);
        self.touch();
        if let Some(heir) = heir {
            self.seats.change_owner(heir);
        }
        if kept_out {
            bias::let_in(&self.seats);
        }
        drop(slow);
    }
}

impl Lock {
    /// A turn of a thread that must not wait; whether it had one.
    fn try_turn(&self, me: usize) -> bool {
        if bias::enter_fast(&self.seats, me) {
            self.touch();
            bias::leave_fast(&self.seats, me);
            return true;
        }
        let Ok(slow) = self.slow.try_lock() else { return false };
        let Some(kept_out) = bias::keep_out_others_now(&self.seats, me) else { return false };
        self.touch();
        if kept_out {
            bias::let_in(&self.seats);
        }
        drop(slow);
        true
    }
}

fn check(preemptions: usize, work: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(work);
}

#[test]
fn the_owner_and_a_helper_exclude_each_other() {
    check(3, || {
        let lock = Lock::new(1);
        let helper = Arc::clone(&lock);
        let other = thread::spawn(move || helper.turn(2, None));
        lock.turn(1, None);
        lock.turn(1, None);
        other.join().unwrap();
        assert_eq!(lock.turns(), 3);
    });
}

#[test]
fn a_lock_that_changes_hands_admits_one_at_a_time() {
    check(3, || {
        let lock = Lock::new(1);
        let taker = Arc::clone(&lock);
        let other = thread::spawn(move || {
            taker.turn(2, Some(2));
            taker.turn(2, Some(2));
        });
        lock.turn(1, Some(1));
        lock.turn(1, Some(1));
        other.join().unwrap();
        assert_eq!(lock.turns(), 4);
    });
}

#[test]
fn who_does_not_wait_never_meets_the_owner_and_leaves_it_its_lock() {
    check(3, || {
        let lock = Lock::new(1);
        let other = Arc::clone(&lock);
        let tries = thread::spawn(move || u32::from(other.try_turn(2)) + u32::from(other.try_turn(2)));
        lock.turn(1, None);
        lock.turn(1, None);
        let turns = tries.join().unwrap();
        assert_eq!(lock.turns(), 2 + turns);
        assert_eq!((lock.seats.owner(), lock.seats.is_wanted()), (1, false));
        assert!(lock.try_turn(2), "nobody is inside");
    });
}

#[test]
fn who_does_not_wait_a_helper_and_the_owner_exclude_each_other() {
    check(2, || {
        let lock = Lock::new(1);
        let (tries, helps) = (Arc::clone(&lock), Arc::clone(&lock));
        let trying = thread::spawn(move || u32::from(tries.try_turn(2)));
        let helping = thread::spawn(move || helps.turn(0, None));
        lock.turn(1, None);
        let turns = trying.join().unwrap();
        helping.join().unwrap();
        assert_eq!(lock.turns(), 2 + turns);
    });
}
