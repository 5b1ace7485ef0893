//! The calls that complete all of many requests (section 3.7.5).

use std::ffi::c_int;

use weft::Process;
use weft::request::Done;

use super::{
    Several, array, complete_all, count_active, element, finish, instead_of_remembered, take_or_progress,
};
use crate::ctypes::*;
use crate::gate;
use crate::imp::at_once;
use crate::raise::Raised;
use crate::threads;
use crate::watch::Awaited;

/// Whether all requests from `*from` on are done; moves `*from` past those that are, so that a long array is walked once.
pub(in crate::imp) fn all_done(process: &Process, requests: &[MPI_Request], from: &mut usize) -> bool {
    process.requests.all_done(&process.engine, requests, from)
}

/// `MPI_Waitall` (section 3.7.5).
pub(crate) unsafe fn waitall(
    count: c_int,
    requests: *mut MPI_Request,
    statuses: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the program's array.
    let requests = unsafe { array(count, requests) };
    if let Some(lane) = threads::common_lane(requests) {
        // SAFETY: the program's statuses.
        unsafe {
            let taken = threads::wait_all(lane, requests, statuses)?;
            return complete_rest(requests, taken, statuses);
        }
    }
    instead_of_remembered!(requests, |inner| waitall(count, inner.as_mut_ptr(), statuses));
    gate::with(|process| count_active(process, requests))?;
    let mut several = Several::new(statuses);
    while several.number < requests.len() {
        // SAFETY: the program's statuses; the entry has checked the phase, and the process is not kept.
        unsafe {
            match gate::alone() {
                Some(mut alone) => complete_some(alone.process(), requests, &mut several),
                // In one visit, not in one for each.
                None => gate::with(|process| complete_some(process, requests, &mut several)),
            }
            if several.number < requests.len() {
                let index = several.number;
                let done = await_next(requests, index);
                several.complete(done, &mut requests[index]);
            }
        }
    }
    several.result()
}

/// Completes the requests of one lane from index `taken` on, which have ended; those before are completed.
///
/// # Safety
/// The program's statuses.
unsafe fn complete_rest(
    requests: &mut [MPI_Request],
    taken: usize,
    statuses: *mut MPI_Status,
) -> Result<(), Raised> {
    let mut several = Several { number: taken, ..Several::new(statuses) };
    for request in &mut requests[taken..] {
        // SAFETY: the caller's promise.
        unsafe { several.complete(finish(request.handle()), request) };
    }
    several.result()
}

/// Completes requests in order, as long as each has ended well or does so in one round of progress.
///
/// # Safety
/// The program's statuses.
#[inline(always)]
unsafe fn complete_some(process: &mut Process, requests: &mut [MPI_Request], several: &mut Several) {
    while let Some(request) = requests.get_mut(several.number) {
        // SAFETY: the caller's promise.
        unsafe {
            let status = element(several.statuses, several.number);
            if !at_once::complete(process, request, status) {
                return;
            }
            several.went_well();
        }
    }
}

/// Waits for one of all requests, before which all are over, and takes its result.
#[inline(never)]
fn await_next(all: &[MPI_Request], index: usize) -> Done {
    let handle = all[index].handle();
    let look = |process: &mut Process| process.is_done(handle).then(|| process.finish(handle));
    match gate::with(look) {
        Some(done) => done,
        None => gate::wait_for("MPI_Waitall", Awaited::All(all), look),
    }
}

/// `MPI_Testall` (section 3.7.5).
pub(crate) unsafe fn testall(
    count: c_int,
    requests: *mut MPI_Request,
    flag: *mut c_int,
    statuses: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the program's array.
    let requests = unsafe { array(count, requests) };
    if let Some(lane) = threads::common_lane(requests) {
        // SAFETY: the program's statuses; the entry has refused a null flag.
        unsafe {
            let taken = threads::test_all(lane, requests, statuses)?;
            flag.write(c_int::from(taken.is_some()));
            return taken.map_or(Ok(()), |taken| complete_rest(requests, taken, statuses));
        }
    }
    instead_of_remembered!(requests, |inner| testall(count, inner.as_mut_ptr(), flag, statuses));
    gate::with(|process| count_active(process, requests))?;
    let mut from = 0;
    let done = take_or_progress(|process| all_done(process, requests, &mut from).then_some(())).is_some();
    // SAFETY: the entry has refused a null flag.
    unsafe { flag.write(c_int::from(done)) };
    if !done {
        return Ok(());
    }
    let all = 0..requests.len();
    // SAFETY: the program's statuses.
    unsafe { complete_all(requests, all, statuses) }
}
