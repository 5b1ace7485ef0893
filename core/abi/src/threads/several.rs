//! The calls that complete several requests, when all are of one lane: they take that lane's lock and no other.
//!
//! The rules are those of [`crate::imp::completion`](super::super::imp): handles are checked before anything is completed, null
//! ones count as done and are not active.

use weft::lanes::{Inner, LANE_BITS};
use weft::request::{Done, MpiStatus};
use weft_engine::RequestId;
use weft_types::{Error, Handle, HandleKind, Result as Outcome, abi};

use super::{lane, lane_of_request, poll_in, stale, take, wait_in};
use crate::ctypes::*;
use crate::gate;
use crate::watch::Awaited;

/// The one lane whose requests these are, when all are of one lane, complete sends, or null: 0 when all are complete or null.
/// `None` without locks.
#[inline]
pub(crate) fn common_lane(requests: &[MPI_Request]) -> Option<u32> {
    if gate::phase() & gate::LOCKED == 0 {
        return None;
    }
    let (mut common, mut any_complete) = (0, false);
    // Kind and lane of the last request that had one, as a handle shows them: most are like their neighbours.
    let mut like = usize::MAX;
    let complete = weft::request::engine_handle(RequestId::COMPLETE).0 as usize;
    for request in requests {
        let raw = request.raw();
        if raw == complete {
            any_complete = true;
            continue;
        }
        if raw >> LANE_BITS == like || raw == abi::MPI_REQUEST_NULL as usize {
            continue;
        }
        let handle = request.handle();
        let number = lane_of_request(handle)?;
        if common != 0 && common != number {
            return None;
        }
        common = number;
        like = raw >> LANE_BITS;
    }
    if any_complete {
        gate::complete_sends();
    }
    Some(common)
}

/// `MPI_Waitall` of requests of one lane, null ones and complete sends: takes those from the front that end well, and answers
/// how many these are. The others have ended then.
///
/// # Errors
/// `MPI_ERR_REQUEST` for a stale handle, before anything is waited for.
///
/// # Safety
/// The program's statuses, as many as requests, or null.
pub(crate) unsafe fn wait_all(
    number: u32,
    requests: &mut [MPI_Request],
    statuses: *mut MPI_Status,
) -> Outcome<usize> {
    if number == 0 {
        for (index, request) in requests.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { forget(request, index, statuses) };
        }
        return Ok(requests.len());
    }
    let mut taken = 0;
    // What is here already, or one look away, is taken in one visit.
    let mut begin = |inner: &mut Inner| {
        if let Err(index) = check(inner, requests) {
            return (false, Err(index));
        }
        // SAFETY: the caller's promise.
        taken = unsafe { take_from(inner, requests, 0, statuses) };
        let mut moved = false;
        while taken < requests.len() && inner.engine.progress() {
            moved = true;
            let before = taken;
            // SAFETY: as above.
            taken = unsafe { take_from(inner, requests, taken, statuses) };
            if taken == before {
                break;
            }
        }
        (moved, Ok(()))
    };
    lane(number).visit(&mut begin).map_err(|index| stale_at(requests, index))?;
    if taken == requests.len() {
        return Ok(taken);
    }
    let (mut ended, rest) = (0, &requests[taken..]);
    let look = |inner: &mut Inner| inner.all_ended(rest, &mut ended).then_some(());
    wait_in(number, "MPI_Waitall", Awaited::All(rest), look);
    // SAFETY: the caller's promise.
    Ok(lane(number).look(|inner| unsafe { take_from(inner, requests, taken, statuses) }))
}

/// Takes requests from index `from` on, one after the other, as long as they have ended well; answers where it stopped.
///
/// # Safety
/// As [`wait_all`].
unsafe fn take_from(
    inner: &mut Inner,
    requests: &mut [MPI_Request],
    from: usize,
    statuses: *mut MPI_Status,
) -> usize {
    for (index, request) in requests.iter_mut().enumerate().skip(from) {
        let handle = request.handle();
        if handle.kind_bits() != HandleKind::LaneRequest as u32 {
            // SAFETY: the caller's promise.
            unsafe { forget(request, index, statuses) };
            continue;
        }
        let Some(status) = inner.take_well(handle) else { return index };
        *request = MPI_Request::from_raw(abi::MPI_REQUEST_NULL);
        if !statuses.is_null() {
            // SAFETY: the caller's promise.
            unsafe { crate::imp::write_message(statuses.add(index), &status) };
        }
    }
    requests.len()
}

/// Whether the handle is of a lane and names no request any more.
#[inline(always)]
fn is_stale(inner: &Inner, request: Handle) -> bool {
    request.kind_bits() == HandleKind::LaneRequest as u32 && !inner.has(request)
}

/// Completes a request that is a complete send or null.
///
/// # Safety
/// As [`wait_all`].
#[inline]
unsafe fn forget(request: &mut MPI_Request, index: usize, statuses: *mut MPI_Status) {
    let null = MPI_Request::from_raw(abi::MPI_REQUEST_NULL);
    let status = if *request == null { MpiStatus::EMPTY } else { MpiStatus::NO_MESSAGE };
    *request = null;
    if !statuses.is_null() {
        // SAFETY: the caller's promise.
        unsafe { crate::imp::write_status(statuses.add(index), &status) };
    }
}

/// Fails with the index of the first stale handle.
fn check(inner: &Inner, requests: &[MPI_Request]) -> Result<(), usize> {
    match requests.iter().position(|request| is_stale(inner, request.handle())) {
        Some(index) => Err(index),
        None => Ok(()),
    }
}

#[cold]
fn stale_at(requests: &[MPI_Request], index: usize) -> Error {
    let error = stale(requests[index].handle());
    Error::new(error.class(), format!("array_of_requests[{index}]: {}", error.text()))
}

/// `MPI_Testall` of requests of one lane, null ones and complete sends: as [`wait_all`] when all have ended, otherwise `None`.
///
/// # Errors
/// As [`wait_all`].
///
/// # Safety
/// As [`wait_all`].
pub(crate) unsafe fn test_all(
    number: u32,
    requests: &mut [MPI_Request],
    statuses: *mut MPI_Status,
) -> Outcome<Option<usize>> {
    if number != 0 {
        let mut ended = 0;
        let mut look = |inner: &mut Inner| inner.all_ended(requests, &mut ended).then_some(());
        if look_or_progress(number, requests, &mut look)?.is_none() {
            return Ok(None);
        }
    }
    // All have ended, so nothing is waited for.
    // SAFETY: the caller's promise.
    unsafe { wait_all(number, requests, statuses).map(Some) }
}

/// Checks all handles, looks, and, when that finds nothing, progresses everything once and looks again.
fn look_or_progress<T>(
    number: u32,
    requests: &[MPI_Request],
    look: &mut impl FnMut(&mut Inner) -> Option<T>,
) -> Outcome<Option<T>> {
    let looked = lane(number).look(|inner| check(inner, requests).map(|()| look(inner)));
    match looked.map_err(|index| stale_at(requests, index))? {
        Some(found) => Ok(Some(found)),
        None => Ok(poll_in(number, look)),
    }
}

/// As [`look_or_progress`], until something is found.
fn look_until<T>(
    call: &'static str,
    number: u32,
    requests: &[MPI_Request],
    mut look: impl FnMut(&mut Inner) -> Option<T>,
) -> Outcome<T> {
    let looked = lane(number).look(|inner| check(inner, requests).map(|()| look(inner)));
    match looked.map_err(|index| stale_at(requests, index))? {
        Some(found) => Ok(found),
        None => Ok(wait_in(number, call, Awaited::Any(requests), look)),
    }
}

/// As [`test_any`], without taking it: whether none is active, and the first that has ended.
///
/// # Errors
/// As [`wait_all`].
pub(crate) fn first_of(number: u32, requests: &[MPI_Request]) -> Outcome<(bool, Option<usize>)> {
    if number == 0 {
        let found = requests.iter().position(|&request| is_complete_send(request));
        return Ok((found.is_none(), found));
    }
    let mut first = |inner: &mut Inner| inner.first_ended(requests);
    Ok((false, look_or_progress(number, requests, &mut first)?))
}

/// As [`test_all`], without taking any.
///
/// # Errors
/// As [`wait_all`].
pub(crate) fn are_all_done(number: u32, requests: &[MPI_Request]) -> Outcome<bool> {
    if number == 0 {
        return Ok(true);
    }
    let mut ended = 0;
    let mut look = |inner: &mut Inner| inner.all_ended(requests, &mut ended).then_some(());
    Ok(look_or_progress(number, requests, &mut look)?.is_some())
}

/// Whether a request is a send that was complete when it started.
fn is_complete_send(request: MPI_Request) -> bool {
    weft::completion::is_complete_send(request.handle())
}

/// Takes the first request that is active and has ended.
fn take_first(inner: &mut Inner, requests: &[MPI_Request]) -> Option<(usize, Done)> {
    let index = inner.first_ended(requests)?;
    let done = match lane_of_request(requests[index].handle()) {
        Some(_) => take(inner, requests[index].handle()).ok().flatten()?,
        None => Done::new(MpiStatus::NO_MESSAGE),
    };
    Some((index, done))
}

/// Without requests of a lane: the first complete send.
fn first_complete_send(requests: &[MPI_Request]) -> Option<(usize, Done)> {
    let index = requests.iter().position(|&request| is_complete_send(request))?;
    Some((index, Done::new(MpiStatus::NO_MESSAGE)))
}

/// Without requests of a lane: the complete sends.
fn complete_sends(requests: &[MPI_Request]) -> Vec<usize> {
    (0..requests.len()).filter(|&index| is_complete_send(requests[index])).collect()
}

/// `MPI_Waitany` of requests of one lane, null ones and complete sends; `None` when none is active.
///
/// # Errors
/// As [`wait_all`].
pub(crate) fn wait_any(number: u32, requests: &[MPI_Request]) -> Outcome<Option<(usize, Done)>> {
    if number == 0 {
        return Ok(first_complete_send(requests));
    }
    look_until("MPI_Waitany", number, requests, |inner| take_first(inner, requests)).map(Some)
}

/// `MPI_Testany`, as [`wait_any`]; inside, `None` when none has ended.
///
/// # Errors
/// As [`wait_all`].
pub(crate) fn test_any(number: u32, requests: &[MPI_Request]) -> Outcome<Option<(usize, Done)>> {
    if number == 0 {
        return Ok(first_complete_send(requests));
    }
    look_or_progress(number, requests, &mut |inner| take_first(inner, requests))
}

/// `MPI_Waitsome` of requests of one lane, null ones and complete sends: those that have ended; empty when none is active.
///
/// # Errors
/// As [`wait_all`].
pub(crate) fn wait_some(number: u32, requests: &[MPI_Request]) -> Outcome<Vec<usize>> {
    if number == 0 {
        return Ok(complete_sends(requests));
    }
    match test_some_of(number, requests)? {
        Some(found) => Ok(found),
        None => {
            let look = |inner: &mut Inner| inner.some_ended(requests);
            Ok(wait_in(number, "MPI_Waitsome", Awaited::Any(requests), look))
        }
    }
}

/// Those that have ended after one round of progress of everything, made also when some had ended before: none that is listed
/// again and again may starve (section 3.7.5).
fn test_some_of(number: u32, requests: &[MPI_Request]) -> Outcome<Option<Vec<usize>>> {
    lane(number).look(|inner| check(inner, requests)).map_err(|index| stale_at(requests, index))?;
    Ok(poll_in(number, |inner| inner.some_ended(requests)))
}

/// `MPI_Testsome`, as [`wait_some`]; empty also when none has ended.
///
/// # Errors
/// As [`wait_all`].
pub(crate) fn test_some(number: u32, requests: &[MPI_Request]) -> Outcome<Vec<usize>> {
    if number == 0 {
        return Ok(complete_sends(requests));
    }
    Ok(test_some_of(number, requests)?.unwrap_or_default())
}
