//! Work without a lock until a second thread comes, under loom.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_lone`
#![cfg(loom)]

mod loom_model;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;
use loom_model::{Doors, heavy_barrier};
use std::time::Duration;
use weft_shm::bell::{self, Arming, Doorway};
use weft_shm::lone::{self, Words};

/// No sleep of a model ends by its limit.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

#[derive(Default)]
struct Lone {
    over: AtomicBool,
    inside: AtomicBool,
}

impl Words for Lone {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
    fn set_over(&self) {
        self.over.store(true, Ordering::Release);
    }
    fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Acquire)
    }
    fn set_inside(&self, inside: bool) {
        self.inside.store(inside, Ordering::Release);
    }
    // A barrier in every thread at one instant is not in loom's language; fences on both sides are what it amounts to.
    fn light_barrier(&self) {
        fence(Ordering::SeqCst);
    }
    fn heavy_barrier(&self) {
        fence(Ordering::SeqCst);
    }
}

/// A process: what one thread works with, or all with a lock.
#[derive(Default)]
struct Process {
    lone: Lone,
    lock: Mutex<()>,
    state: UnsafeCell<State>,
}

#[derive(Default)]
struct State {
    turns: u32,
    /// Whether what the lone thread waits for is done.
    done: bool,
    /// Whether it is to be rung for that.
    marked: bool,
}

impl Process {
    /// As the gate lends the process.
    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        if !self.lone.is_over() && lone::enter(&self.lone) {
            // SAFETY: the caller is the lone one; loom reports the race when somebody else is there, too.
            let result = self.state.with_mut(|state| work(unsafe { &mut *state }));
            lone::leave(&self.lone);
            return result;
        }
        self.with_lock(work)
    }

    fn with_lock<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let held: MutexGuard<'_, ()> = self.lock.lock().unwrap();
        // SAFETY: as above, with the lock.
        let result = self.state.with_mut(|state| work(unsafe { &mut *state }));
        drop(held);
        result
    }

    fn turn(&self) {
        self.with(|state| state.turns += 1);
    }

    /// A second thread comes.
    fn end(&self) {
        lone::end(&self.lone, thread::yield_now);
    }
}

fn check(preemptions: usize, work: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(work);
}

#[test]
fn who_ends_it_never_meets_the_lone_thread() {
    check(4, || {
        let process = Arc::new(Process::default());
        let second = Arc::clone(&process);
        let other = thread::spawn(move || {
            second.end();
            second.turn();
            second.turn();
        });
        process.turn();
        process.turn();
        other.join().unwrap();
        assert_eq!(process.with(|state| state.turns), 4);
    });
}

#[test]
fn a_third_thread_finds_what_both_have_done() {
    check(3, || {
        let process = Arc::new(Process::default());
        let second = Arc::clone(&process);
        let other = thread::spawn(move || {
            second.end();
            // A thread that may call from here on, because this one has opened something for it.
            let third = Arc::clone(&second);
            let third = thread::spawn(move || third.turn());
            second.turn();
            third.join().unwrap();
        });
        process.turn();
        process.turn();
        other.join().unwrap();
        assert_eq!(process.with(|state| state.turns), 4);
    });
}

/// A call of the lone thread that is blocked until `done`, as the gate does it.
fn block(process: &Process, doors: &Doors) {
    loop {
        if process.with(|state| state.done) {
            return;
        }
        let arming = Arming::of(0b1);
        let alone = !process.lone.is_over();
        arming.arm(doors);
        heavy_barrier();
        if !alone {
            process.with(|state| state.marked = true);
        }
        if process.with(|state| state.done) {
            return arming.disarm(doors);
        }
        if alone && process.lone.is_over() {
            arming.disarm(doors);
            continue;
        }
        arming.sleep(doors, FOR_EVER);
    }
}

#[test]
fn who_sleeps_alone_is_woken_and_sleeps_on_by_the_rules_for_several() {
    check(3, || {
        let (process, doors) = (Arc::new(Process::default()), Doors::new());
        let other = {
            let (process, doors) = (Arc::clone(&process), Arc::clone(&doors));
            thread::spawn(move || {
                process.end();
                process.with_lock(|_| ());
                bell::ring(&doors.door(0));
                // It ends what the other one waits for, and rings if that is marked.
                let marked = process.with(|state| {
                    state.done = true;
                    state.marked
                });
                if marked {
                    bell::ring(&doors.door(0));
                }
            })
        };
        block(&process, &doors);
        other.join().unwrap();
        assert!(doors.is_empty());
    });
}
