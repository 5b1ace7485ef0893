//! The short forms of partitioned communication (chapter 4), as [`super::at_once`]: partitions that travel by memory which both ends
//! share.

use std::ffi::c_int;

use weft::Process;
use weft::request::MpiStatus;
use weft_types::{Handle, HandleKind, abi};

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
    process.requests.ready_at_once(request.handle(), partition).then_some(abi::MPI_SUCCESS)
}

/// Completes a partitioned request that is done, or whose partitions arrive before long; `None`: it is none, or not so simple. The
/// caller is the only thread and holds nothing of the process.
#[inline]
pub(super) fn wait(process: &mut Process, handle: Handle) -> Option<MpiStatus> {
    if handle.kind_bits() != HandleKind::LocalRequest as u32 {
        return None;
    }
    match process.requests.finish_partitioned_at_once(handle) {
        None if process.requests.awaits_stage(handle) => spin(process, handle),
        done => done,
    }
}

#[inline(never)]
fn spin(process: &mut Process, handle: Handle) -> Option<MpiStatus> {
    for turn in 1..process.spins() {
        std::hint::spin_loop();
        if let Some(done) = process.requests.finish_partitioned_at_once(handle) {
            return Some(done);
        }
        if turn % 32 == 0 {
            process.progress();
            if process.engine.has_callback() {
                break;
            }
        }
    }
    None
}
