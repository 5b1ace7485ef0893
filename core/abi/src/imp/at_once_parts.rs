//! The short forms of partitioned communication (chapter 4), as [`super::at_once`]: partitions that travel by memory which both ends
//! share.

use std::ffi::c_int;

use weft::Process;
use weft::request::MpiStatus;
use weft_engine::bias::Mine;
use weft_types::{Handle, HandleKind};

use super::at_once::DONE;
use super::status;
use crate::ctypes::*;
use crate::gate;

/// `MPI_Pready`.
///
/// # Safety
/// See [`super::at_once::send`].
#[inline(always)]
pub(crate) unsafe fn pready(partition: c_int, request: MPI_Request) -> Option<c_int> {
    // SAFETY: the caller's promise; the reference is not used after this call.
    let process = unsafe { gate::process_alone() };
    let requests = &mut process.requests;
    match requests.keep_ready(request.handle(), partition) {
        Some(true) => DONE,
        Some(false) if requests.ready_rarely(&mut process.engine, request.handle(), partition) => DONE,
        _ => None,
    }
}

/// `MPI_Start`.
///
/// # Safety
/// See [`super::at_once::send`].
#[inline(always)]
pub(crate) unsafe fn start(request: *mut MPI_Request) -> Option<c_int> {
    if request.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; the reference is not used after this call.
    let process = unsafe { gate::process_alone() };
    // SAFETY: not null, so the program's request.
    let handle = unsafe { request.read() }.handle();
    if process.requests.start_at_once(&mut process.engine, handle) { DONE } else { None }
}

/// `MPI_Wait`.
///
/// # Safety
/// See [`super::at_once::send`]; the request is not null, and `process` is not used after this call.
#[inline]
pub(super) unsafe fn wait_for(
    process: &mut Process,
    request: *mut MPI_Request,
    status: *mut MPI_Status,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let request = unsafe { request.read() };
    if !is_local(request) {
        return None;
    }
    let done = wait(process, request.handle())?;
    // SAFETY: the program's status; its request stays, for it is a persistent one.
    unsafe { status::write(status, &done) };
    DONE
}

/// Completes a partitioned request that is done, or whose partitions arrive before long; `None`: it is none, or not so simple. The
/// caller is the only thread and holds nothing of the process.
#[inline]
fn wait(process: &mut Process, handle: Handle) -> Option<MpiStatus> {
    match process.requests.finish_partitioned_at_once(handle) {
        None if process.requests.is_expected_in_parts(handle) => spin(process, handle),
        done => done,
    }
}

/// Whether a handle is of the table of the process, where partitioned requests are.
#[inline(always)]
pub(super) fn is_local(request: MPI_Request) -> bool {
    request.raw() >> 27 == HandleKind::LocalRequest as usize
}

/// `MPI_Pready` when calls take locks, by the thread to which the lock of the process is biased.
#[inline(always)]
pub(super) fn pready_locked(mine: Mine, partition: c_int, request: MPI_Request) -> Option<c_int> {
    let mut own = gate::own(mine)?;
    let process = own.process();
    let done = match process.requests.keep_ready(request.handle(), partition) {
        Some(true) => {
            own.end();
            return DONE;
        }
        Some(false) => process.requests.ready_rarely(&mut process.engine, request.handle(), partition),
        None => false,
    };
    // The last one completes the send, for which another thread may wait.
    own.leave(done);
    if done { DONE } else { None }
}

/// `MPI_Start` of a partitioned request when calls take locks, by the thread to which the lock of the process is biased.
#[inline(always)]
pub(super) fn start_locked(mine: Mine, request: MPI_Request) -> Option<c_int> {
    if !is_local(request) {
        return None;
    }
    let mut own = gate::own(mine)?;
    let process = own.process();
    let done = process.requests.start_at_once(&mut process.engine, request.handle());
    own.end();
    if done { DONE } else { None }
}

/// `MPI_Wait` of a partitioned request when calls take locks, by the thread to which the lock of the process is biased.
///
/// # Safety
/// The program's status.
pub(super) unsafe fn wait_locked(mine: Mine, request: MPI_Request, status: *mut MPI_Status) -> Option<c_int> {
    let handle = request.handle();
    let mut own = gate::own(mine)?;
    let process = own.process();
    let mut done = process.requests.finish_partitioned_at_once(handle);
    if done.is_none() && gate::spins() > 1 {
        // A short look while nobody else can come in: below a microsecond.
        done = process.requests.spin_partitioned(handle, LOOKS);
    }
    own.end();
    let done = done?;
    // SAFETY: the caller's promise; the request stays, for it is a persistent one.
    unsafe { status::write(status, &done) };
    DONE
}

/// Looks between two rounds of progress.
const LOOKS: u32 = 32;

#[inline(never)]
fn spin(process: &mut Process, handle: Handle) -> Option<MpiStatus> {
    for _ in 0..process.spins().div_ceil(LOOKS) {
        if let Some(done) = process.requests.spin_partitioned(handle, LOOKS) {
            return Some(done);
        }
        process.progress();
        if process.engine.has_callback() {
            break;
        }
    }
    None
}
