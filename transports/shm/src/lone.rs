//! Work without a lock until a second thread comes.
//!
//! A process whose calls are all made by one thread takes no lock for them. Another thread may come at any time all the same (it
//! opens a session), and from then on everybody takes locks. The one thread, which may be in the middle of something, learns of
//! that by itself: it says when it goes in and out, with plain stores, and the other one waits until it is out.
//!
//! # Protocol
//! ```text
//! in:    is it over? then take the lock. inside = 1; light barrier; is it over? then inside = 0, and take the lock
//! out:   inside = 0 (Release)
//! end:   it is over (stays so); heavy barrier; wait for inside == 0 (Acquire); from here on the lock decides
//! ```
//! The first question of "in" is there for speed alone: once it is over several threads come by, and none of them writes the word.
//!
//! # Memory ordering
//! Dekker's pattern, made cheap for one side, as in [`crate::bias`]: take the instant at which the heavy barrier lets the lone thread
//! pass a full barrier. If its store to `inside` came before, whoever ends it, who reads `inside` afterwards, waits. Otherwise its
//! second question comes after, and the answer is that it is over. What the lone thread did is handed over by `inside` (Release, then
//! Acquire), and to everybody else by the lock, which whoever ends it takes next. The lone thread needs no order of its own: it has
//! written everything itself until it takes the lock for the first time.
//!
//! Nothing is waited for inside, so the end is near whatever the lone thread waits for. Who sleeps outside does so by rules without
//! locks, by which nobody wakes him for what other threads do: he is rung once it is over, and asks before he sleeps. Either the question
//! came before the heavy barrier: then so did all that led to the sleep, and the ring finds it; or he is told that it is over.
//!
//! `tests/loom_lone.rs` checks [`enter`], [`leave`] and [`end`], and such a sleeper.

use crate::sys;

/// What the lone thread and whoever ends its being alone share, so that the model checker can stand in.
pub trait Words {
    /// Whether it is over (relaxed).
    fn is_over(&self) -> bool;
    /// From now on it is (Release or stronger).
    fn set_over(&self);
    /// Whether the lone thread is inside (Acquire).
    fn is_inside(&self) -> bool;
    /// Says so (Release).
    fn set_inside(&self, inside: bool);
    /// Holds back the compiler: the other side's barrier does the rest.
    fn light_barrier(&self);
    /// A full barrier here and in every other thread of the process.
    fn heavy_barrier(&self);
}

/// The way in without a lock, of the only thread that may take it, when it was not over just now. False: it is over.
#[inline(always)]
pub fn enter(words: &impl Words) -> bool {
    words.set_inside(true);
    words.light_barrier();
    if !words.is_over() {
        return true;
    }
    words.set_inside(false);
    false
}

/// The way out after [`enter`].
#[inline(always)]
pub fn leave(words: &impl Words) {
    words.set_inside(false);
}

/// Ends it, by another thread than the lone one; `pause` is called while that one is inside. One thread at a time.
pub fn end(words: &impl Words, mut pause: impl FnMut()) {
    words.set_over();
    words.heavy_barrier();
    while words.is_inside() {
        pause();
    }
}

/// Whether the kernel has the heavy barrier. To be asked before [`heavy_barrier`].
pub fn has_heavy_barrier() -> bool {
    sys::membarrier_register_private()
}

/// A full barrier here and in every other thread of the process.
///
/// # Panics
/// Without [`has_heavy_barrier`].
pub fn heavy_barrier() {
    sys::membarrier_private();
}
