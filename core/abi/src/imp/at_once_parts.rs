//! The short forms of partitioned communication (chapter 4), as [`super::at_once`]: partitions that travel by memory which both
//! ends share.

use std::ffi::c_int;

use weft::Process;
use weft::request::MpiStatus;
use weft_engine::bias::Mine;
use weft_types::{Handle, HandleKind, Result as Outcome, abi};

use super::at_once::DONE;
use super::{partitioned, status};
use crate::ctypes::*;
use crate::gate::{self, Alone};
use crate::raise;
use crate::snapshot::{self, Here};

/// `MPI_Pready`.
///
/// # Safety
/// See [`super::at_once::send`].
#[inline(always)]
pub(crate) unsafe fn pready(partition: c_int, request: MPI_Request) -> Option<c_int> {
    // SAFETY: the caller's promise; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    if alone.process().requests.keep_ready(request.raw(), partition) {
        return DONE;
    }
    Some(pready_rarely(alone, partition, request))
}

/// Any other mark than one that is kept: here to its end, so that those that are kept save no registers for it.
#[inline(never)]
fn pready_rarely(mut alone: Alone, partition: c_int, request: MPI_Request) -> c_int {
    let process = alone.process();
    if process.requests.ready_rarely(&mut process.engine, request.handle(), partition) {
        return abi::MPI_SUCCESS;
    }
    // The full form enters the gate.
    drop(alone);
    raise::finish("MPI_Pready", partitioned::pready(partition, request))
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
    // SAFETY: the caller's promise; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    let process = alone.process();
    // SAFETY: not null, so the program's request.
    let handle = unsafe { request.read() }.handle();
    let started = process.requests.start_at_once(&mut process.engine, handle);
    drop(alone);
    if started { DONE } else { None }
}

/// `MPI_Wait` of a partitioned request that is done, or whose partitions arrive before long, or of a persistent collective that
/// goes by cells and ends before long; `None`: it is none, or not so simple.
///
/// # Safety
/// See [`super::at_once::send`].
#[inline(never)]
pub(super) unsafe fn wait(request: MPI_Request, status: *mut MPI_Status) -> Option<c_int> {
    if !is_local(request) {
        return None;
    }
    let handle = request.handle();
    // SAFETY: the caller's promise; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    let process = alone.process();
    let done = match process.requests.finish_partitioned_at_once(handle) {
        None => await_parts(process, handle)?,
        Some(done) => done,
    };
    // SAFETY: the caller's promise; the request stays, for it is a persistent one.
    unsafe { status::write(status, &done) };
    DONE
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
    let done = process.requests.keep_ready(request.raw(), partition)
        || process.requests.ready_rarely(&mut process.engine, request.handle(), partition);
    // One that is kept leaves with the next progress of anybody: of a thread that naps too. The last one completes the send, for
    // which another thread may wait.
    own.leave(done);
    if done { DONE } else { None }
}

/// `MPI_Pready` and its kin by the thread to which the lock of the process is biased, so that no board is made for it; `None`:
/// another thread, and nothing was done.
pub(super) fn ready_alone(
    request: MPI_Request,
    partitions: impl Iterator<Item = c_int> + Clone,
) -> Option<Outcome<()>> {
    // SAFETY: the reference does not outlive this call.
    let here = unsafe { Here::get()? };
    let mut own = gate::own(here.mine)?;
    let process = own.process();
    let marked = process.requests.ready(&mut process.engine, request.handle(), partitions);
    own.leave(true);
    snapshot::forget_board(here, request.handle());
    Some(marked)
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
    if !is_local(request) {
        return None;
    }
    let handle = request.handle();
    let mut own = gate::own(mine)?;
    let process = own.process();
    let mut done = process.requests.finish_partitioned_at_once(handle);
    if done.is_none() && gate::spins() > 1 {
        // A short look while nobody else can come in: below a microsecond.
        done = process.requests.spin_partitioned(&mut process.engine, handle, LOOKS);
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
fn await_parts(process: &mut Process, handle: Handle) -> Option<MpiStatus> {
    if !process.requests.is_expected_in_parts(handle) {
        return process.finish_kept_at_once(handle);
    }
    for _ in 0..process.spins().div_ceil(LOOKS) {
        if let Some(done) = process.requests.spin_partitioned(&mut process.engine, handle, LOOKS) {
            return Some(done);
        }
        process.progress();
        if process.engine.has_callback() {
            break;
        }
    }
    None
}
