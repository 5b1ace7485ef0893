//! The lock by itself: whose it is, who waits, what a thread leaves behind.

use super::*;
use std::sync::Arc;

#[test]
fn a_lock_is_biased_to_who_takes_it_again_and_again_and_to_nobody_when_shared() {
    let lock = Arc::new(BiasedLock::new(0_u64, 0));
    for _ in 0..=STREAK {
        *lock.lock() += 1;
    }
    assert_eq!(lock.is_biased(), lock.can_bias);
    let helper = Arc::clone(&lock);
    std::thread::spawn(move || {
        assert_eq!(helper.try_lock_to_help().is_none(), helper.can_bias, "left to its owner");
        *helper.lock_to_help() += 1;
        assert_eq!(helper.is_biased(), helper.can_bias);
        *helper.lock() += 1;
        assert!(!helper.is_biased());
    })
    .join()
    .expect("no panic");
    assert_eq!(*lock.lock(), u64::from(STREAK) + 3);
}

#[test]
fn who_must_not_wait_does_not_wait_for_an_owner_inside() {
    let lock = Arc::new(BiasedLock::new(0_u64, 5));
    for _ in 0..=STREAK {
        *lock.lock() += 1;
    }
    let inside = lock.lock();
    let other = Arc::clone(&lock);
    // More tries than those of which one waits for the owner.
    let tries =
        std::thread::spawn(move || (0..4 * PASSES).filter(|_| other.try_lock_now().is_some()).count());
    assert_eq!(tries.join().expect("no panic"), 0);
    drop(inside);
    let other = Arc::clone(&lock);
    let after = std::thread::spawn(move || {
        other.try_lock_now().map(|mut value| {
            *value += 1;
            *value
        })
    });
    assert_eq!(after.join().expect("no panic"), Some(u64::from(STREAK) + 2));
    assert_eq!(lock.is_biased(), lock.can_bias, "it stays its owner's");
    assert_eq!(*lock.lock(), u64::from(STREAK) + 2);
}

#[test]
fn its_own_thread_gets_the_value_without_a_guard_and_others_do_not() {
    let lock = Arc::new(BiasedLock::new(0_u64, 1));
    // SAFETY: used in this test only.
    let mine = unsafe { Mine::get() }.expect("a thread in the middle of its life");
    assert_eq!(lock.own(mine).map(|value| *value), None, "biased to nobody yet");
    for _ in 0..=STREAK {
        *lock.lock() += 1;
    }
    let value = lock.own(mine).map(|value| *value);
    assert_eq!(value, lock.can_bias.then_some(u64::from(STREAK) + 1));
    let other = Arc::clone(&lock);
    // SAFETY: used at once.
    let theirs = std::thread::spawn(move || other.own(unsafe { Mine::get() }.expect("a thread")).is_none());
    assert!(theirs.join().expect("no panic"));
}

#[test]
fn what_is_attached_to_a_thread_goes_before_its_seat() {
    struct Forgets(Arc<AtomicBool>);
    impl Drop for Forgets {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let gone = Arc::new(AtomicBool::new(false));
    let forgets = Forgets(Arc::clone(&gone));
    let seat = std::thread::spawn(move || {
        // SAFETY: used at once.
        let mine = unsafe { Mine::get() }.expect("a thread");
        mine.attach(Box::new(forgets));
        mine.address()
    });
    assert_ne!(seat.join().expect("no panic"), 0);
    assert!(gone.load(Ordering::Acquire));
}

#[test]
fn threads_that_come_and_go_never_meet_inside() {
    const THREADS: u64 = 4;
    const TURNS: u64 = if cfg!(miri) { 100 } else { 20_000 };
    let lock = BiasedLock::new((0_u64, 0_u64), 3);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let lock = &lock;
            scope.spawn(move || {
                for turn in 0..TURNS {
                    // Runs of different lengths, so that the lock is biased now and then.
                    let mut both = if turn % 997 < thread * 200 { lock.lock_to_help() } else { lock.lock() };
                    both.0 += 1;
                    both.1 += 1;
                    assert_eq!(both.0, both.1);
                }
            });
        }
    });
    assert_eq!(*lock.lock(), (THREADS * TURNS, THREADS * TURNS));
}
