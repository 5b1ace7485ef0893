//! The short forms of partitioned communication (chapter 4), as [`super::at_once`]: partitions that travel by memory which both ends
//! share.

use std::ffi::c_int;

use weft::Process;
use weft::request::MpiStatus;
use weft_types::{Handle, HandleKind, abi};

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
    process.requests.ready_at_once(&mut process.engine, request.handle(), partition).then_some(abi::MPI_SUCCESS)
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
    process.requests.start_partitioned_at_once(&mut process.engine, handle).then_some(abi::MPI_SUCCESS)
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
    let done = wait(process, unsafe { request.read() }.handle())?;
    // SAFETY: the program's status; its request stays, for it is a persistent one.
    unsafe { status::write(status, &done) };
    Some(abi::MPI_SUCCESS)
}

/// Completes a partitioned request that is done, or whose partitions arrive before long; `None`: it is none, or not so simple. The
/// caller is the only thread and holds nothing of the process.
#[inline]
pub(super) fn wait(process: &mut Process, handle: Handle) -> Option<MpiStatus> {
    if handle.kind_bits() != HandleKind::LocalRequest as u32 {
        return None;
    }
    match process.requests.finish_partitioned_at_once(handle) {
        None if process.requests.is_expected_in_parts(handle) => spin(process, handle),
        done => done,
    }
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
