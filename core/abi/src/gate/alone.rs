//! The gate while one thread makes all calls: no lock, and no read-modify-write.
//!
//! Below MPI_THREAD_SERIALIZED the calls of what is open are one thread's (section 11.6.2), which says by a plain store that it has the
//! process, and by another that it has it no more. Every other thread may open a session at any time all the same, with a level of its
//! own (sections 11.3.1 and 11.6.2), or make one of the calls that are always allowed (section 11.4.1) and needs the process for it:
//! then it is over, calls take locks from there on ([`end`]), and the thread that was alone finds that at its next way in, also in the
//! middle of a call that is blocked. The protocol and its argument: [`weft_engine::lone`].

use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};
use std::thread;

use weft::Process;
use weft_engine::lone::{self, Words};
use weft_types::{Error, ErrorClass};

use super::phase::has;
use super::{GATE, LOCKED, MULTIPLE, change_phase, is_active_alone, locked, phase, with};

/// Whether the one thread has the process now.
pub(super) struct Inside(AtomicBool);

impl Inside {
    pub(super) const fn new() -> Inside {
        Inside(AtomicBool::new(false))
    }
}

/// The words of the gate: it is over when calls take locks.
struct OfGate;

impl Words for OfGate {
    #[inline(always)]
    fn is_over(&self) -> bool {
        has::<LOCKED>()
    }

    fn set_over(&self) {
        change_phase(LOCKED | MULTIPLE, 0);
    }

    fn is_inside(&self) -> bool {
        GATE.inside.0.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn set_inside(&self, inside: bool) {
        GATE.inside.0.store(inside, Ordering::Release);
    }

    #[inline(always)]
    fn light_barrier(&self) {
        compiler_fence(Ordering::SeqCst);
    }

    fn heavy_barrier(&self) {
        lone::heavy_barrier();
    }
}

/// The process, lent to the only thread that makes calls. Given back, by being dropped, before the gate is entered again.
pub(crate) struct Alone(());

/// The process, for the few calls that are counted in instructions: `None` with several threads, where [`with`] and its
/// lock are needed.
///
/// # Safety
/// The caller's phase check has passed, and it has no [`Alone`] already.
#[inline(always)]
pub(crate) unsafe fn alone() -> Option<Alone> {
    // SAFETY: the caller's promise.
    if OfGate.is_over() { None } else { unsafe { enter_alone() } }
}

/// The process, when [`is_active_alone`]; `None`: another thread has ended that.
///
/// # Safety
/// [`is_active_alone`] has just said so, and the caller has no [`Alone`] already.
#[inline(always)]
pub(crate) unsafe fn enter_alone() -> Option<Alone> {
    debug_assert!(!OfGate.is_inside(), "one borrow at a time");
    // Not `then_some`, which would make one to drop it.
    if lone::enter(&OfGate) { Some(Alone(())) } else { None }
}

impl Alone {
    /// What is lent.
    #[inline(always)]
    pub(crate) fn process(&mut self) -> &mut Process {
        // SAFETY: who made this was told that calls take no locks, and until this is dropped nobody relies on them; one thread calls
        // at a time, it has only one of these, and the reference borrows it. The phase check implies that the process was started.
        unsafe { (*GATE.process.get()).as_mut().unwrap_unchecked() }
    }
}

impl Drop for Alone {
    #[inline(always)]
    fn drop(&mut self) {
        lone::leave(&OfGate);
    }
}

/// The calling thread, which is not the one that opened what is open, is about to work with the process. One thread at a time, which
/// holds `GATE.alone`.
///
/// # Errors
/// As [`end`].
pub(super) fn keep_out() -> weft_types::Result<()> {
    if is_active_alone() {
        return end();
    }
    // Whoever closed the last of all may be about to go out; it does not come back. The phase tells of it, and that it went in is older.
    fence(Ordering::Acquire);
    while phase() & LOCKED == 0 && OfGate.is_inside() {
        thread::yield_now();
    }
    Ok(())
}

/// From now on calls take locks.
///
/// # Errors
/// `MPI_ERR_OTHER` where the kernel cannot hold up the other thread.
fn end() -> weft_types::Result<()> {
    if !lone::has_heavy_barrier() {
        return Err(Error::new(
            ErrorClass::OTHER,
            "MPI is open below MPI_THREAD_SERIALIZED, where one thread makes all calls and they take no locks, and this is not the thread that \
             opened it: that one may be in a call now, and this kernel cannot tell (it has no membarrier). Initialise with \
             MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE, or let the thread that initialised open a session of that level first",
        ));
    }
    lone::end(&OfGate, thread::yield_now);
    // What that thread sends from now on is noted with the lock, and pushed out by those notes; what it has sent before is not.
    let bell = with(|process| {
        process.engine.push_out();
        process.bell()
    });
    // It may sleep, and does so by the rules for one thread.
    bell.ring(0);
    Ok(())
}

/// The calling thread, which may be any, makes a call that is always allowed and needs the process.
#[cold]
pub(crate) fn from_any_thread() {
    if !is_active_alone() {
        return;
    }
    let opener = locked(&GATE.alone);
    if is_active_alone() && *opener != Some(thread::current().id()) {
        // Where that is impossible, nothing better can be done: such a call has nothing to fail with.
        let _ = end();
    }
}
