//! Short forms of one-sided calls, as `at_once.rs` has them for others: a few bytes of one predefined type, in one run at both
//! ends, into memory that a device reaches, in an epoch that an operation before has found open.

use std::ffi::{c_int, c_void};

use super::at_once::{DONE, run};
use crate::ctypes::*;
use crate::gate;

/// `MPI_Put`.
///
/// # Safety
/// As for every entry: the program keeps the procedure's contract. One thread calls and MPI is active, as
/// [`gate::is_active_alone`] said.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the procedure's")]
pub(crate) unsafe fn put(
    origin: *const c_void,
    origin_count: i64,
    origin_type: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    count: i64,
    datatype: MPI_Datatype,
    win: MPI_Win,
) -> Option<c_int> {
    if count != origin_count || datatype.raw() != origin_type.raw() {
        return None;
    }
    // SAFETY: the caller's promise; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    let process = alone.process();
    let bytes = run(process, origin, origin_count, origin_type)?;
    let window = process.windows.find_mut(win.handle())?;
    // SAFETY: the caller's promise: these bytes are the program's data, left alone during the call.
    let data = unsafe { std::slice::from_raw_parts(origin.cast::<u8>(), bytes) };
    // A rank below zero becomes one that no window has.
    if window.put_at_once(&mut process.engine, data, rank as u32, disp) { DONE } else { None }
}
