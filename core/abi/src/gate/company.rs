//! Messages of several calls that wait for each other on a fabric ([`weft_engine::Engine::keep_company`]), and the calls that let them leave.

use super::phase::has;
use super::{COMPANY, GATE, LOCKED, change_phase, give_back, nothing_started, phase, shared, with};

/// MPI is active now: messages of several calls may wait for each other.
pub(crate) fn keep_company() {
    if with(|process| process.lanes.keep_company(&mut process.engine)) {
        change_phase(COMPANY, 0);
    }
}

/// At the end of every call that communicates but those that only begin something: what was sent leaves, since the program may
/// compute for long now and others wait for it.
#[inline(always)]
pub(crate) fn push_out() {
    if has::<COMPANY>() {
        push_out_now();
    }
}

/// The calling thread completes sends that were complete when they began, perhaps by another thread in any lane: what others sent leaves
/// at the end of this call, too.
#[inline(always)]
pub(crate) fn complete_sends() {
    if phase() & (COMPANY | LOCKED) == COMPANY | LOCKED {
        shared().lanes.complete_sends();
    }
}

#[cold]
#[inline(never)]
fn push_out_now() {
    if phase() & LOCKED == 0 {
        return with(|process| process.engine.push_out());
    }
    let shared = shared();
    let Some(own) = shared.lanes.push_out() else { return };
    let Some(guard) = shared.lock.lock_to_push(own) else { return };
    // SAFETY: as in `with_lock`.
    let Some(process) = (unsafe { &mut *GATE.process.get() }) else { nothing_started() };
    process.engine.push_out();
    give_back(guard, false);
}
