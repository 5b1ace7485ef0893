//! Sleeping on a word that other processes change. The same under Miri.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` is `value`, at most `limit`, for wakers that name a bit of `bits`; may return early.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, bits: u32, limit: Duration) {
    let mut end = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place of ours for the answer. This form of futex takes the time of the clock at which it ends.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut end) };
    end.tv_sec += limit.as_secs().min(1 << 30) as libc::time_t;
    end.tv_nsec += limit.subsec_nanos() as libc::c_long;
    if end.tv_nsec >= 1_000_000_000 {
        (end.tv_sec, end.tv_nsec) = (end.tv_sec + 1, end.tv_nsec - 1_000_000_000);
    }
    let (call, nowhere) = (libc::FUTEX_WAIT_BITSET, std::ptr::null::<u32>());
    // SAFETY: the word is a valid, aligned u32 for the whole call; the time outlives it. Not FUTEX_PRIVATE: the
    // waker is another process.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), call, value, &raw const end, nowhere, bits);
    }
}

/// Wakes everybody who sleeps on `word` for one of `bits`.
pub(crate) fn futex_wake(word: &AtomicU32, bits: u32) {
    let nothing = std::ptr::null::<u32>();
    // SAFETY: the word is a valid, aligned u32; this form uses neither of the pointers.
    unsafe {
        let call = libc::FUTEX_WAKE_BITSET;
        libc::syscall(libc::SYS_futex, word.as_ptr(), call, i32::MAX, nothing, nothing, bits)
    };
}
