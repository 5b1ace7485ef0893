//! Work without a lock until a second thread comes, with real threads and the kernel's barrier (the model checker's part is `loom_lone.rs`).

use std::cell::UnsafeCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};
use std::thread;

use weft_shm::lone::{self, Words};

#[derive(Default)]
struct Process {
    over: AtomicBool,
    inside: AtomicBool,
    lock: Mutex<()>,
    /// Two counts that are equal whenever nobody is inside.
    counts: UnsafeCell<(u64, u64)>,
    /// Turns of the lone thread so far, in all.
    turns: AtomicU32,
}

// SAFETY: `counts` is touched by who is inside alone, or has the lock once that is over.
unsafe impl Sync for Process {}

impl Words for Process {
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
    fn light_barrier(&self) {
        compiler_fence(Ordering::SeqCst);
    }
    fn heavy_barrier(&self) {
        lone::heavy_barrier();
    }
}

impl Process {
    fn count(&self) {
        // SAFETY: the caller is the only one inside.
        let counts = unsafe { &mut *self.counts.get() };
        assert_eq!(counts.0, counts.1, "somebody else is inside");
        counts.0 += 1;
        std::hint::black_box(&mut *counts);
        counts.1 += 1;
    }

    fn turn(&self) {
        if !self.is_over() && lone::enter(self) {
            self.count();
            lone::leave(self);
        } else {
            let _guard = self.lock.lock().unwrap();
            self.count();
        }
    }
}

#[test]
fn who_comes_second_never_meets_the_lone_thread() {
    if !lone::has_heavy_barrier() {
        eprintln!("skipped: this kernel has no membarrier");
        return;
    }
    let rounds = if cfg!(miri) { 5 } else { 300 };
    for round in 0..rounds {
        let process = Process::default();
        let stop = AtomicBool::new(false);
        let mut others = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    process.turn();
                    process.turns.fetch_add(1, Ordering::Relaxed);
                }
            });
            // It is in the middle of its turns.
            while process.turns.load(Ordering::Relaxed) <= round * 3 {
                thread::yield_now();
            }
            lone::end(&process, thread::yield_now);
            for _ in 0..200 {
                process.turn();
                others += 1;
            }
            stop.store(true, Ordering::Relaxed);
        });
        let turns = u64::from(process.turns.load(Ordering::Relaxed)) + others;
        assert_eq!(process.counts.into_inner(), (turns, turns), "in round {round} a turn was lost");
    }
}
