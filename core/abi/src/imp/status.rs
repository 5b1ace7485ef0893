//! `MPI_Status` in memory: how counts and cancellation are kept in its hidden part (sections 3.2.5 and 13.3).
//!
//! Hidden integers 0 and 1 hold the byte count, 64 bits wide at an alignment of 4; the lowest bit of integer 2 says whether the
//! operation was cancelled. The bits above it are those of the byte count above 64, which only a program can set (section 13.3). A
//! status made by hand (all zero) reads as "0 bytes, not cancelled".

use std::ffi::c_int;

use weft::request::MpiStatus;
use weft_datatype::counts;
use weft_types::{Error, ErrorClass};

use super::environment::datatype;
use crate::ctypes::*;
use crate::raise::Raised;

const BYTES_LOW: usize = 0;
const BYTES_HIGH: usize = 1;
const CANCELLED: usize = 2;
/// Place of the byte count's bits above 64 in the integer of [`CANCELLED`].
const ABOVE: u32 = 1;

/// Writes everything but `MPI_ERROR`, which single-status calls leave alone (section 3.2.5); the empty status has
/// `MPI_SUCCESS` there (section 3.7.3).
///
/// # Safety
/// `status` is `MPI_STATUS_IGNORE` or points to a status of the program.
#[inline(always)]
pub(crate) unsafe fn write_status(status: *mut MPI_Status, from: &MpiStatus) {
    // SAFETY: the caller's promise.
    unsafe { write(status, from) };
}

/// See [`write_status`].
///
/// # Safety
/// As [`write_status`].
#[inline(always)]
pub(super) unsafe fn write(status: *mut MPI_Status, from: &MpiStatus) {
    if status.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        (*status).source = from.source;
        (*status).tag = from.tag;
        if *from == MpiStatus::EMPTY {
            (*status).error = weft_types::abi::MPI_SUCCESS;
        }
        (*status).internal[BYTES_LOW] = from.bytes as c_int;
        (*status).internal[BYTES_HIGH] = (from.bytes >> 32) as c_int;
        (*status).internal[CANCELLED] = c_int::from(from.cancelled);
    }
}

/// As [`write`], of a message.
///
/// # Safety
/// As [`write`].
#[inline(always)]
pub(crate) unsafe fn write_message(status: *mut MPI_Status, from: &weft_engine::Status) {
    if status.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        (*status).source = from.source.0 as c_int;
        (*status).tag = from.tag.0;
        (*status).internal[BYTES_LOW] = from.bytes as c_int;
        (*status).internal[BYTES_HIGH] = (from.bytes >> 32) as c_int;
        (*status).internal[CANCELLED] = c_int::from(from.cancelled);
    }
}

fn bytes(status: &MPI_Status) -> u128 {
    let [low, high, above, ..] = status.internal.map(|word| word as u32);
    let low = u64::from(low) | u64::from(high) << 32;
    u128::from(low) | u128::from(above >> ABOVE) << 64
}

/// Lends the status of an argument that must not be `MPI_STATUS_IGNORE`.
unsafe fn required<'a>(status: *mut MPI_Status) -> Result<&'a mut MPI_Status, Raised> {
    if status.is_null() {
        return Err(Error::new(
            ErrorClass::ARG,
            "status is MPI_STATUS_IGNORE, but a status object is needed",
        )
        .into());
    }
    // SAFETY: not null, so the program passes a status.
    Ok(unsafe { &mut *status })
}

/// `MPI_Get_count` (section 3.2.5).
pub(crate) unsafe fn get_count(
    status: *const MPI_Status,
    of: MPI_Datatype,
    count: CountOut,
) -> Result<(), Raised> {
    // SAFETY: the program passes a status; the entry has refused a null count.
    unsafe {
        let status = required(status.cast_mut())?;
        let elements = datatype(of, |of| Ok(counts::get_count(bytes(status), of)))?;
        set(count, elements);
    }
    Ok(())
}

/// `MPI_Get_elements` (section 5.1.11).
pub(crate) unsafe fn get_elements(
    status: *const MPI_Status,
    of: MPI_Datatype,
    count: CountOut,
) -> Result<(), Raised> {
    // SAFETY: the program passes a status; the entry has refused a null count.
    unsafe {
        let status = required(status.cast_mut())?;
        let elements = datatype(of, |of| Ok(counts::get_elements(bytes(status), of)))?;
        set(count, elements);
    }
    Ok(())
}

/// `MPI_Get_elements_x` (section 16.4).
pub(crate) unsafe fn get_elements_x(
    status: *const MPI_Status,
    of: MPI_Datatype,
    count: *mut MPI_Count,
) -> Result<(), Raised> {
    // SAFETY: the arguments are those of MPI_Get_elements_c.
    unsafe { get_elements(status, of, CountOut::I64(count)) }
}

unsafe fn set(count: CountOut, value: Option<u64>) {
    let value = value
        .and_then(|value| i64::try_from(value).ok())
        .unwrap_or(i64::from(weft_types::abi::MPI_UNDEFINED));
    // SAFETY: the entry has refused null.
    unsafe { count.set(value) }
}

/// `MPI_Status_set_elements` (section 13.3).
pub(crate) unsafe fn status_set_elements(
    status: *mut MPI_Status,
    of: MPI_Datatype,
    count: i64,
) -> Result<(), Raised> {
    // SAFETY: the program passes a status.
    let status = unsafe { required(status)? };
    let elements = u64::try_from(count).unwrap_or(0);
    let bytes = datatype(of, |of| {
        counts::bytes_of_elements(elements, of).ok_or_else(|| {
            Error::new(
                ErrorClass::COUNT,
                format!("count is {count}, but this datatype has no basic elements"),
            )
        })
    })?;
    status.internal[BYTES_LOW] = bytes as c_int;
    status.internal[BYTES_HIGH] = (bytes >> 32) as c_int;
    // Below 2^63 elements of less than 2^32 bytes each.
    status.internal[CANCELLED] = status.internal[CANCELLED] & 1 | ((bytes >> 64) as c_int) << ABOVE;
    Ok(())
}

/// `MPI_Status_set_elements_x` (section 16.4).
pub(crate) unsafe fn status_set_elements_x(
    status: *mut MPI_Status,
    of: MPI_Datatype,
    count: MPI_Count,
) -> Result<(), Raised> {
    // SAFETY: the arguments are those of MPI_Status_set_elements_c.
    unsafe { status_set_elements(status, of, count) }
}

/// `MPI_Status_set_cancelled` (section 13.3).
pub(crate) unsafe fn status_set_cancelled(status: *mut MPI_Status, flag: c_int) -> Result<(), Raised> {
    // SAFETY: the program passes a status.
    let status = unsafe { required(status)? };
    status.internal[CANCELLED] = status.internal[CANCELLED] & !1 | c_int::from(flag != 0);
    Ok(())
}

/// `MPI_Test_cancelled` (section 3.8.4).
pub(crate) unsafe fn test_cancelled(status: *const MPI_Status, flag: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the program passes a status; the entry has refused a null flag.
    unsafe { flag.write(required(status.cast_mut())?.internal[CANCELLED] & 1) };
    Ok(())
}
