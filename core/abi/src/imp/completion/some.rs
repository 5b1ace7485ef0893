//! The calls that complete those of many requests that are done (section 3.7.5).

use std::ffi::c_int;

use weft::Process;
use weft_types::abi;

use super::{array, complete_all, count_active, instead_of_remembered};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::threads;
use crate::watch::Awaited;

/// The indices of all requests that are active and done; `None` when there is none.
pub(in crate::imp) fn some_done(process: &Process, requests: &[MPI_Request]) -> Option<Vec<usize>> {
    process.requests.some_done(&process.engine, requests)
}

/// Reports what a "some" call found.
///
/// # Safety
/// The program's arrays, of the length of `requests`.
unsafe fn report_some(
    requests: &mut [MPI_Request],
    done: &[usize],
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the caller's promise.
    unsafe {
        outcount.write(done.len() as c_int);
        for (place, &index) in done.iter().enumerate() {
            indices.add(place).write(index as c_int);
        }
        complete_all(requests, done.iter().copied(), statuses)
    }
}

/// `MPI_Waitsome` (section 3.7.5).
pub(crate) unsafe fn waitsome(
    incount: c_int,
    requests: *mut MPI_Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the program's array.
    let requests = unsafe { array(incount, requests) };
    if let Some(lane) = threads::common_lane(requests) {
        let done = threads::wait_some(lane, requests)?;
        if done.is_empty() {
            // SAFETY: the entry has refused null.
            unsafe { outcount.write(abi::MPI_UNDEFINED) };
            return Ok(());
        }
        // SAFETY: the program's arrays.
        return unsafe { report_some(requests, &done, outcount, indices, statuses) };
    }
    instead_of_remembered!(requests, |inner| waitsome(
        incount,
        inner.as_mut_ptr(),
        outcount,
        indices,
        statuses
    ));
    if gate::with(|process| count_active(process, requests))? == 0 {
        // SAFETY: the entry has refused null.
        unsafe { outcount.write(abi::MPI_UNDEFINED) };
        return Ok(());
    }
    let done = match gate::poll(|process| some_done(process, requests)) {
        Some(done) => done,
        None => {
            gate::wait_for("MPI_Waitsome", Awaited::Any(requests), |process| some_done(process, requests))
        }
    };
    // SAFETY: the program's arrays.
    unsafe { report_some(requests, &done, outcount, indices, statuses) }
}

/// `MPI_Testsome` (section 3.7.5).
pub(crate) unsafe fn testsome(
    incount: c_int,
    requests: *mut MPI_Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the program's array.
    let requests = unsafe { array(incount, requests) };
    if let Some(lane) = threads::common_lane(requests) {
        let done = threads::test_some(lane, requests)?;
        if done.is_empty() && lane == 0 {
            // SAFETY: the entry has refused null.
            unsafe { outcount.write(abi::MPI_UNDEFINED) };
            return Ok(());
        }
        // SAFETY: the program's arrays.
        return unsafe { report_some(requests, &done, outcount, indices, statuses) };
    }
    instead_of_remembered!(requests, |inner| testsome(
        incount,
        inner.as_mut_ptr(),
        outcount,
        indices,
        statuses
    ));
    if gate::with(|process| count_active(process, requests))? == 0 {
        // SAFETY: the entry has refused null.
        unsafe { outcount.write(abi::MPI_UNDEFINED) };
        return Ok(());
    }
    let done = gate::poll(|process| some_done(process, requests)).unwrap_or_default();
    // SAFETY: the program's arrays.
    unsafe { report_some(requests, &done, outcount, indices, statuses) }
}
