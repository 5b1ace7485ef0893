//! Requests looked at without being completed (section 3.7.6): `MPI_Request_get_status` and its any, all and some forms.

use std::ffi::c_int;

use weft::request::{Done, MpiStatus};
use weft_types::{Result as Outcome, abi};

use super::completion::{
    Several, all_done, array, count_active, element, first_done, raised, some_done, take_or_progress,
};
use super::{generalized, point_to_point, status};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::threads;

/// Writes the status of a done request that stays as it is. Its error is the call's, and will be that of the call which completes it.
///
/// # Safety
/// The program's status.
unsafe fn show(done: Done, status: *mut MPI_Status) -> Result<(), Raised> {
    // SAFETY: the caller's promise; the functions are those of MPI_Grequest_start.
    unsafe {
        status::write(status, &done.status);
        if let Some(functions) = done.generalized {
            return generalized::call_query(&functions, status);
        }
    }
    raised(done.comm, done.error)
}

/// As [`show`], of several: each status tells how its request ended when one of them failed (section 3.7.6: as in Waitsome).
///
/// # Safety
/// The program's statuses, as many as requests.
unsafe fn show_several(
    requests: impl Iterator<Item = MPI_Request>,
    statuses: *mut MPI_Status,
) -> Result<(), Raised> {
    let mut several = Several::new(statuses);
    for request in requests {
        // SAFETY: the caller's promise.
        unsafe {
            let shown = show(peek(request), element(statuses, several.number));
            several.ended(shown);
        }
    }
    several.result()
}

fn peek(request: MPI_Request) -> Done {
    match threads::lane_of_request(request.handle()) {
        Some(lane) => threads::peek(lane, request.handle()),
        None => gate::with(|process| process.requests.peek(&process.engine, request.handle())),
    }
}

/// Whether a request is done, after one round of progress if it is not; its handle is checked first.
fn is_done(request: MPI_Request) -> Outcome<bool> {
    if let Some(lane) = threads::lane_of_request(request.handle()) {
        return threads::is_done(lane, request.handle());
    }
    gate::with(|process| point_to_point::kind(process, request))?;
    Ok(take_or_progress(|process| process.is_done(request.handle()).then_some(())).is_some())
}

/// Whether none of the requests is active, and the first that is active and done.
fn first(requests: &[MPI_Request]) -> Outcome<(bool, Option<usize>)> {
    if let Some(lane) = threads::common_lane(requests) {
        return threads::first_of(lane, requests);
    }
    if gate::with(|process| count_active(process, requests))? == 0 {
        return Ok((true, None));
    }
    Ok((false, take_or_progress(|process| first_done(process, requests))))
}

/// Whether all requests are done.
fn all(requests: &[MPI_Request]) -> Outcome<bool> {
    if let Some(lane) = threads::common_lane(requests) {
        return threads::are_all_done(lane, requests);
    }
    gate::with(|process| count_active(process, requests))?;
    let mut from = 0;
    Ok(take_or_progress(|process| all_done(process, requests, &mut from).then_some(())).is_some())
}

/// Those that are active and done; `None` when none is active. Progress is made also when something is done already: none that
/// is listed again and again may starve.
fn some(requests: &[MPI_Request]) -> Outcome<Option<Vec<usize>>> {
    if let Some(lane) = threads::common_lane(requests) {
        let done = threads::test_some(lane, requests)?;
        return Ok((lane != 0 || !done.is_empty()).then_some(done));
    }
    if gate::with(|process| count_active(process, requests))? == 0 {
        return Ok(None);
    }
    Ok(Some(gate::poll(|process| some_done(process, requests)).unwrap_or_default()))
}

/// `MPI_Request_get_status` (section 3.7.6).
pub(crate) unsafe fn request_get_status(
    request: MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    let done = is_done(request)?;
    // SAFETY: the entry has refused a null flag; the program's status.
    unsafe {
        flag.write(c_int::from(done));
        if done { show(peek(request), status) } else { Ok(()) }
    }
}

/// `MPI_Request_get_status_any` (section 3.7.6).
pub(crate) unsafe fn request_get_status_any(
    count: c_int,
    requests: *const MPI_Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the program's array, which is only read.
    let requests = unsafe { array(count, requests.cast_mut()) };
    let (idle, found) = first(requests)?;
    // SAFETY: the entry has refused null for index and flag; the program's status.
    unsafe {
        index.write(found.map_or(abi::MPI_UNDEFINED, |found| found as c_int));
        flag.write(c_int::from(idle || found.is_some()));
        match found {
            Some(found) => show(peek(requests[found]), status),
            None => {
                if idle {
                    status::write(status, &MpiStatus::EMPTY);
                }
                Ok(())
            }
        }
    }
}

/// `MPI_Request_get_status_all` (section 3.7.6).
pub(crate) unsafe fn request_get_status_all(
    count: c_int,
    requests: *const MPI_Request,
    flag: *mut c_int,
    statuses: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the program's array, which is only read.
    let requests = unsafe { array(count, requests.cast_mut()) };
    let done = all(requests)?;
    // SAFETY: the entry has refused a null flag; the program's statuses.
    unsafe {
        flag.write(c_int::from(done));
        if done { show_several(requests.iter().copied(), statuses) } else { Ok(()) }
    }
}

/// `MPI_Request_get_status_some` (section 3.7.6).
pub(crate) unsafe fn request_get_status_some(
    incount: c_int,
    requests: *const MPI_Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the program's array, which is only read.
    let requests = unsafe { array(incount, requests.cast_mut()) };
    let Some(done) = some(requests)? else {
        // SAFETY: the entry has refused null.
        unsafe { outcount.write(abi::MPI_UNDEFINED) };
        return Ok(());
    };
    // SAFETY: the entry has refused null; the program's arrays.
    unsafe {
        outcount.write(done.len() as c_int);
        for (place, &index) in done.iter().enumerate() {
            indices.add(place).write(index as c_int);
        }
        show_several(done.iter().map(|&index| requests[index]), statuses)
    }
}
