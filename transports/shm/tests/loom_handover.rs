//! Work handed to the holder of a lock, under loom: whatever is noted is served, once, by the time that everybody has gone.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_handover`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use weft_shm::handover::{self, Words};

#[derive(Default)]
struct Model {
    announced: AtomicBool,
    /// The marks of partitions.
    marked: AtomicU32,
    /// What the lock protects: the marks that were served.
    lock: Mutex<()>,
    served: UnsafeCell<u32>,
}

impl Words for Model {
    fn exchange(&self, announced: bool) -> bool {
        self.announced.swap(announced, Ordering::AcqRel)
    }
    fn is_announced(&self) -> bool {
        self.announced.load(Ordering::Relaxed)
    }
    fn barrier(&self) {
        fence(Ordering::SeqCst);
    }
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
            self,
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
        handover::announce(self);
        self.look_after();
    }

    /// Any other call that takes the lock, and waits for it.
    fn another_call(&self) {
        drop(self.lock.lock().unwrap());
        self.look_after();
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
