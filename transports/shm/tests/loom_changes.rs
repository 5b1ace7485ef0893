//! What threads remember of shared objects, under loom: nobody uses an object of whose removal he must know.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_changes`
#![cfg(loom)]

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use weft_shm::changes::Changes;

/// A table of one place, as that of communicators: the object is the number of its incarnation.
#[derive(Default)]
struct Shared {
    changes: Changes,
    object: Mutex<u32>,
    told: AtomicBool,
}

/// A thread's copy, as `core/abi/src/snapshot.rs` keeps it.
#[derive(Default)]
struct Kept {
    count: u64,
    object: Option<u32>,
}

impl Kept {
    fn get(&mut self, shared: &Shared) -> u32 {
        let count = shared.changes.count();
        if count != self.count {
            self.object = None;
            self.count = count;
        }
        *self.object.get_or_insert_with(|| *shared.object.lock().unwrap())
    }
}

fn replace(shared: &Shared) {
    let mut object = shared.object.lock().unwrap();
    *object += 1;
    shared.changes.add();
}

#[test]
fn who_was_told_of_a_removal_sees_the_new_object() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let remover = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                replace(&shared);
                shared.told.store(true, Ordering::Release);
            })
        };
        let mut kept = Kept::default();
        // Before, at the same time, or after: any incarnation is right, unless we were told.
        kept.get(&shared);
        let told = shared.told.load(Ordering::Acquire);
        let seen = kept.get(&shared);
        assert!(!told || seen == 1);
        remover.join().unwrap();
        assert_eq!(kept.get(&shared), 1);
    });
}

#[test]
fn removals_by_several_threads_are_all_counted() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let mut kept = Kept::default();
        kept.get(&shared);
        let removers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || replace(&shared))
            })
            .collect();
        kept.get(&shared);
        removers.into_iter().for_each(|remover| remover.join().unwrap());
        assert_eq!((kept.get(&shared), shared.changes.count()), (2, 2));
    });
}
