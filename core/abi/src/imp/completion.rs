//! The Wait and Test families (sections 3.7.3, 3.7.5, 3.7.6).
//!
//! One rule for all: every handle is checked before anything is completed; null and inactive requests count as done with an
//! empty status; what completes is freed, or becomes inactive when it is persistent. Searches for "any" begin at the front,
//! "some" take all that are done, and make progress also when something is done already, so that no request that is listed
//! again and again can starve (section 3.7.5).

mod all;
mod any;
mod several;
mod some;

use std::ffi::c_int;

use weft::Process;
use weft::request::{Done, Kind, MpiStatus, engine_handle};
use weft_engine::RequestId;
use weft_types::{Error, Handle, Result as Outcome, abi};

pub(super) use self::all::all_done;
pub(crate) use self::all::{testall, waitall};
pub(super) use self::any::first_done;
pub(crate) use self::any::{testany, waitany};
pub(super) use self::several::Several;
pub(super) use self::some::some_done;
pub(crate) use self::some::{testsome, waitsome};
use super::{at_once, generalized, point_to_point, status};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::threads::{self, remembered};
use crate::watch::Awaited;

/// Returns what a call does with the requests under way in the place of persistent ones that this thread remembers.
macro_rules! instead_of_remembered {
    ($requests:ident, |$inner:ident| $call:expr) => {
        // SAFETY: the program's arguments, but for requests of ours.
        let again = |$inner: &mut [MPI_Request]| unsafe { $call };
        if let Some(result) = $crate::threads::remembered::instead($requests, again) {
            return result;
        }
    };
}
use instead_of_remembered;

/// The requests of an array argument.
///
/// # Safety
/// The program passes `count` requests; the entry has refused a null array of positive length.
pub(super) unsafe fn array<'a>(count: c_int, requests: *mut MPI_Request) -> &'a mut [MPI_Request] {
    if count <= 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(requests, count as usize) }
}

/// The status of element `index`, or `MPI_STATUS_IGNORE`.
pub(super) unsafe fn element(statuses: *mut MPI_Status, index: usize) -> *mut MPI_Status {
    // SAFETY: the program passes as many statuses as requests, unless it ignores them.
    if statuses.is_null() { statuses } else { unsafe { statuses.add(index) } }
}

/// Reports a completed request: status, handle, callbacks of generalized requests, the communicator that was made, error.
///
/// # Safety
/// `status` is the program's.
unsafe fn report(done: Done, request: &mut MPI_Request, status: *mut MPI_Status) -> Result<(), Raised> {
    if !done.keeps_handle {
        *request = MPI_Request::from_raw(abi::MPI_REQUEST_NULL);
    }
    // SAFETY: the caller's promise; the functions are those of MPI_Grequest_start.
    unsafe {
        status::write(status, &done.status);
        if let Some(functions) = done.generalized {
            // The code is that of the last function (section 13.2). Where that one went well the other's is told and not lost, which the
            // text would have: so do MPICH and Open MPI, and mpi4py raises what a query function has raised.
            let queried = generalized::call_query(&functions, status);
            return generalized::call_free(&functions).and(queried);
        }
        if let Some((place, comm)) = done.made {
            let place = std::ptr::with_exposed_provenance_mut::<MPI_Comm>(place);
            place.write(MPI_Comm::from_raw(comm.0));
        }
    }
    raised(done.comm, done.error)
}

#[inline(always)]
pub(super) fn raised(comm: Handle, error: Option<Error>) -> Result<(), Raised> {
    match error {
        None => Ok(()),
        Some(error) => Err(Raised::on_comm(comm, error)),
    }
}

/// Takes a request that is done already.
#[inline(always)]
fn look(process: &mut Process, handle: Handle) -> Outcome<Option<Done>> {
    match process.requests.kind(&process.engine, handle)? {
        Kind::Engine(id) if !process.engine.is_complete(id) => Ok(None),
        Kind::Local(_) | Kind::Lane(_) if !process.is_done(handle) => Ok(None),
        _ => Ok(Some(process.finish(handle))),
    }
}

/// `MPI_Wait` (section 3.7.3).
pub(crate) unsafe fn wait(request: *mut MPI_Request, status: *mut MPI_Status) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let request = unsafe { &mut *request };
    let handle = request.handle();
    if handle == engine_handle(RequestId::COMPLETE) {
        // A send that was complete when it started: most waits of small messages.
        gate::complete_sends();
        *request = MPI_Request::from_raw(abi::MPI_REQUEST_NULL);
        // SAFETY: the program's status.
        unsafe { status::write(status, &MpiStatus::NO_MESSAGE) };
        return Ok(());
    }
    // SAFETY: the entry has checked the phase.
    let looked = match unsafe { gate::alone() } {
        Some(mut alone) => {
            let process = alone.process();
            process.spin_kept(handle);
            look(process, handle)?
        }
        None => match (threads::lane_of_request(handle), remembered::under_way(*request)) {
            (Some(lane), _) => Some(threads::wait("MPI_Wait", lane, handle)?),
            // SAFETY: the program's status.
            (None, Some(inner)) => return unsafe { wait_persistent(*request, inner, status) },
            (None, None) => gate::with(|process| look(process, handle))?,
        },
    };
    let done = match looked {
        Some(done) => done,
        None => gate::wait_for("MPI_Wait", Awaited::One(handle), |process| {
            process.is_done(handle).then(|| process.finish(handle))
        }),
    };
    // SAFETY: the program's status.
    unsafe { report(done, request, status) }
}

/// `MPI_Wait` of a persistent request, of which `inner` is under way.
///
/// # Safety
/// The program's status.
unsafe fn wait_persistent(
    request: MPI_Request,
    mut inner: MPI_Request,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    if inner.raw() == abi::MPI_REQUEST_NULL as usize {
        // SAFETY: the caller's promise.
        unsafe { status::write(status, &MpiStatus::EMPTY) };
        return Ok(());
    }
    // SAFETY: as above; the request is ours.
    let result = unsafe { wait(&raw mut inner, status) };
    remembered::tell(request, inner);
    result
}

/// `MPI_Test` (section 3.7.3).
pub(crate) unsafe fn test(
    request: *mut MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let request = unsafe { &mut *request };
    let handle = request.handle();
    if let Some(lane) = threads::lane_of_request(handle) {
        let done = threads::test(lane, handle)?;
        // SAFETY: as above; the program's status.
        return unsafe {
            flag.write(c_int::from(done.is_some()));
            done.map_or(Ok(()), |done| report(done, request, status))
        };
    }
    if let Some(mut inner) = remembered::under_way(*request) {
        if inner.raw() == abi::MPI_REQUEST_NULL as usize || is_complete_send(inner) {
            remembered::tell(*request, MPI_Request::from_raw(abi::MPI_REQUEST_NULL));
            // SAFETY: the entry has refused null; the program's status.
            unsafe {
                flag.write(1);
                let ended = if is_complete_send(inner) { &MpiStatus::NO_MESSAGE } else { &MpiStatus::EMPTY };
                status::write(status, ended);
            }
            return Ok(());
        }
        // SAFETY: as above; the request is ours.
        let result = unsafe { test(&raw mut inner, flag, status) };
        remembered::tell(*request, inner);
        return result;
    }
    if is_complete_send(*request) {
        gate::complete_sends();
    }
    gate::with(|process| point_to_point::kind(process, *request))?;
    let done = take_or_progress(|process| process.is_done(handle).then(|| process.finish(handle)));
    // SAFETY: the entry has refused null; the program's status.
    unsafe {
        flag.write(c_int::from(done.is_some()));
        done.map_or(Ok(()), |done| report(done, request, status))
    }
}

/// Whether a request is a send that was complete when it started.
fn is_complete_send(request: MPI_Request) -> bool {
    request.handle() == engine_handle(RequestId::COMPLETE)
}

/// Looks first, then progresses once and looks again: every test makes progress when it would fail (section 2.9).
pub(super) fn take_or_progress<T>(mut look: impl FnMut(&mut Process) -> Option<T>) -> Option<T> {
    match gate::with(&mut look) {
        Some(found) => Some(found),
        None => gate::poll(look),
    }
}

/// Checks all handles and counts the active ones.
pub(super) fn count_active(process: &Process, requests: &[MPI_Request]) -> Outcome<usize> {
    let mut active = 0;
    for (index, request) in requests.iter().enumerate() {
        if at_once::engine_request(*request)
            .is_some_and(|id| id == RequestId::COMPLETE || process.engine.exists(id))
        {
            active += 1;
            continue;
        }
        match process.requests.is_active(&process.engine, request.handle()) {
            Ok(is_active) => active += usize::from(is_active),
            Err(error) => {
                return Err(Error::new(
                    error.class(),
                    format!("array_of_requests[{index}]: {}", error.text()),
                ));
            }
        }
    }
    Ok(active)
}

/// Completes the requests of `indices`, which are all done, into `statuses` (element `k` for the `k`-th index).
///
/// # Safety
/// The program's statuses.
unsafe fn complete_all(
    requests: &mut [MPI_Request],
    indices: impl Iterator<Item = usize>,
    statuses: *mut MPI_Status,
) -> Result<(), Raised> {
    let mut several = Several::new(statuses);
    for index in indices {
        let done = finish(requests[index].handle());
        // SAFETY: the caller's promise.
        unsafe { several.complete(done, &mut requests[index]) };
    }
    several.result()
}

/// Takes the result of a done request.
#[inline]
fn finish(request: Handle) -> Done {
    match threads::lane_of_request(request) {
        Some(lane) => threads::finish(lane, request),
        None => gate::with(|process| process.finish(request)),
    }
}
