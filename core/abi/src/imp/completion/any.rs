//! The calls that complete one of many requests (section 3.7.5).

use std::ffi::c_int;

use weft::Process;
use weft::request::{Done, MpiStatus};
use weft_types::abi;

use super::{array, count_active, instead_of_remembered, report, take_or_progress};
use crate::ctypes::*;
use crate::gate;
use crate::imp::status;
use crate::raise::Raised;
use crate::threads;
use crate::watch::Awaited;

/// The first request that is active and done.
pub(in crate::imp) fn first_done(process: &Process, requests: &[MPI_Request]) -> Option<usize> {
    process.requests.first_done(&process.engine, requests)
}

/// `MPI_Waitany` (section 3.7.5).
pub(crate) unsafe fn waitany(
    count: c_int,
    requests: *mut MPI_Request,
    index: *mut c_int,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the program's array.
    let requests = unsafe { array(count, requests) };
    if let Some(lane) = threads::common_lane(requests) {
        let found = threads::wait_any(lane, requests)?;
        // SAFETY: the entry has refused a null index; the program's status.
        return unsafe { report_any(found, requests, index, status) };
    }
    instead_of_remembered!(requests, |inner| waitany(count, inner.as_mut_ptr(), index, status));
    if gate::with(|process| count_active(process, requests))? == 0 {
        // SAFETY: the entry has refused a null index; the program's status.
        unsafe {
            index.write(abi::MPI_UNDEFINED);
            status::write(status, &MpiStatus::EMPTY);
        }
        return Ok(());
    }
    let (found, done) = match gate::with(|process| take_first(process, requests)) {
        Some(taken) => taken,
        None => {
            gate::wait_for("MPI_Waitany", Awaited::Any(requests), |process| take_first(process, requests))
        }
    };
    // SAFETY: as above.
    unsafe {
        index.write(found as c_int);
        report(done, &mut requests[found], status)
    }
}

/// Reports what an "any" call of one lane found; with `None` nothing was active.
///
/// # Safety
/// The program's index and status.
unsafe fn report_any(
    found: Option<(usize, Done)>,
    requests: &mut [MPI_Request],
    index: *mut c_int,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the caller's promise.
    unsafe {
        match found {
            Some((found, done)) => {
                index.write(found as c_int);
                report(done, &mut requests[found], status)
            }
            None => {
                index.write(abi::MPI_UNDEFINED);
                status::write(status, &MpiStatus::EMPTY);
                Ok(())
            }
        }
    }
}

fn take_first(process: &mut Process, requests: &[MPI_Request]) -> Option<(usize, Done)> {
    let found = first_done(process, requests)?;
    Some((found, process.finish(requests[found].handle())))
}

/// `MPI_Testany` (section 3.7.5).
pub(crate) unsafe fn testany(
    count: c_int,
    requests: *mut MPI_Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the program's array.
    let requests = unsafe { array(count, requests) };
    if let Some(lane) = threads::common_lane(requests) {
        let found = threads::test_any(lane, requests)?;
        // SAFETY: the entry has refused null for index and flag; the program's status.
        unsafe {
            flag.write(c_int::from(found.is_some() || lane == 0));
            if found.is_some() || lane == 0 {
                return report_any(found, requests, index, status);
            }
            index.write(abi::MPI_UNDEFINED);
        }
        return Ok(());
    }
    instead_of_remembered!(requests, |inner| testany(count, inner.as_mut_ptr(), index, flag, status));
    let active = gate::with(|process| count_active(process, requests))?;
    let taken = if active == 0 { None } else { take_or_progress(|process| take_first(process, requests)) };
    // SAFETY: the entry has refused null for index and flag; the program's status.
    unsafe {
        match taken {
            Some((found, done)) => {
                index.write(found as c_int);
                flag.write(1);
                report(done, &mut requests[found], status)
            }
            None => {
                index.write(abi::MPI_UNDEFINED);
                flag.write(c_int::from(active == 0));
                if active == 0 {
                    status::write(status, &MpiStatus::EMPTY);
                }
                Ok(())
            }
        }
    }
}
