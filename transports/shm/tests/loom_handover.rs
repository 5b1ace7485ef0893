//! Work handed to the holder of a lock, under loom: whatever is noted is served, once, by the time that everybody has gone.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_handover`
#![cfg(loom)]

mod loom_model;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use loom_model::{Announced, Seats};
use weft_shm::bias;
use weft_shm::handover;

#[derive(Default)]
struct Model {
    announced: Announced,
    /// The marks of partitions.
    marked: AtomicU32,
    /// What the lock protects: the marks that were served.
    lock: Mutex<()>,
    served: UnsafeCell<u32>,
}

impl Model {
    /// Under the lock.
    fn serve(&self) {
        // Relaxed: the exchange that took the announcement made the marks visible.
        let marked = self.marked.load(Ordering::Relaxed);
        // SAFETY: loom reports the race when somebody else is inside.
        self.served.with_mut(|served| unsafe { *served = marked });
    }

    fn look_after(&self) {
        handover::look_after(
            &self.announced,
            || self.lock.try_lock().ok(),
            |guard| {
                self.serve();
                drop(guard);
            },
        );
    }

    /// `MPI_Pready`.
    fn ready(&self, partition: u32) {
        let before = self.marked.fetch_or(1 << partition, Ordering::Release);
        assert_eq!(before >> partition & 1, 0);
        handover::announce(&self.announced);
        self.look_after();
    }

    /// Any other call that takes the lock, and waits for it.
    fn another_call(&self) {
        drop(self.lock.lock().unwrap());
        self.look_after();
    }
}

/// The same behind a biased lock, whose owner comes and goes by the fast way.
struct Biased {
    model: Model,
    seats: Seats,
}

/// The thread whose lock it is.
const OWNER: usize = 1;

impl Default for Biased {
    fn default() -> Biased {
        Biased { model: Model::default(), seats: Seats::of(OWNER) }
    }
}

/// How a thread came in.
enum Way<'a> {
    Fast,
    Slow(loom::sync::MutexGuard<'a, ()>, bool),
}

impl Biased {
    /// The rule of `BiasedLock::try_lock`: who came in on the slow way makes it fail, who came in on the fast one is waited for.
    fn try_lock(&self, me: usize) -> Option<Way<'_>> {
        if bias::enter_fast(&self.seats, me) {
            return Some(Way::Fast);
        }
        let slow = self.model.lock.try_lock().ok()?;
        let kept_out = bias::keep_out_others(&self.seats, me, thread::yield_now);
        Some(Way::Slow(slow, kept_out))
    }

    fn lock(&self, me: usize) -> Way<'_> {
        if bias::enter_fast(&self.seats, me) {
            return Way::Fast;
        }
        let slow = self.model.lock.lock().unwrap();
        let kept_out = bias::keep_out_others(&self.seats, me, thread::yield_now);
        Way::Slow(slow, kept_out)
    }

    fn leave(&self, me: usize, way: Way<'_>) {
        match way {
            Way::Fast => bias::leave_fast(&self.seats, me),
            Way::Slow(slow, kept_out) => {
                if kept_out {
                    bias::let_in(&self.seats);
                }
                drop(slow);
            }
        }
    }

    fn look_after(&self, me: usize) {
        handover::look_after(
            &self.model.announced,
            || self.try_lock(me),
            |way| {
                self.model.serve();
                self.leave(me, way);
            },
        );
    }

    /// `MPI_Pready`.
    fn ready(&self, me: usize, partition: u32) {
        self.model.marked.fetch_or(1 << partition, Ordering::Release);
        handover::announce(&self.model.announced);
        self.look_after(me);
    }

    /// A short call, which looks after nothing when it came in on the fast way.
    fn short_call(&self, me: usize) {
        let way = self.lock(me);
        let fast = matches!(way, Way::Fast);
        self.leave(me, way);
        if !fast {
            self.look_after(me);
        }
    }
}

fn check(work: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(work);
}

fn all_served(model: &Model, marks: u32) {
    // SAFETY: everybody else has gone.
    assert_eq!(model.served.with(|served| unsafe { *served }), marks);
}

#[test]
fn what_two_threads_mark_is_served_though_neither_waits() {
    check(|| {
        let model = Arc::new(Model::default());
        let other = Arc::clone(&model);
        let thread = thread::spawn(move || other.ready(1));
        model.ready(0);
        thread.join().unwrap();
        all_served(&model, 0b11);
    });
}

#[test]
fn what_is_marked_while_another_call_holds_the_lock_is_served_by_it() {
    check(|| {
        let model = Arc::new(Model::default());
        let (other, third) = (Arc::clone(&model), Arc::clone(&model));
        let thread = thread::spawn(move || other.another_call());
        let marker = thread::spawn(move || third.ready(1));
        model.ready(0);
        thread.join().unwrap();
        marker.join().unwrap();
        all_served(&model, 0b11);
    });
}

#[test]
fn what_is_marked_while_the_owner_is_inside_by_its_fast_way_is_served_by_who_marked_it() {
    check(|| {
        let lock = Arc::new(Biased::default());
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || other.ready(2, 1));
        lock.short_call(OWNER);
        lock.short_call(OWNER);
        thread.join().unwrap();
        all_served(&lock.model, 0b10);
    });
}

#[test]
fn what_the_owner_and_another_mark_at_once_is_served() {
    check(|| {
        let lock = Arc::new(Biased::default());
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || other.ready(2, 1));
        lock.ready(OWNER, 0);
        thread.join().unwrap();
        all_served(&lock.model, 0b11);
    });
}
