//! Packing and unpacking, natively and in "external32" (sections 5.2 and 5.3).

use std::ffi::{c_char, c_void};

use weft_datatype::{Datatype, external};
use weft_types::{Error, ErrorClass, Result as Outcome, abi};

use super::environment::{bytes, datatype};
use super::point_to_point::{receive_buffer, send_buffer};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::snapshot;

/// Fails unless the handle is a communicator's; with locks a look into what the thread remembers.
fn check_comm(comm: MPI_Comm) -> Outcome<()> {
    match gate::phase() & gate::LOCKED {
        0 => gate::with(|process| process.comms.get(comm.handle()).map(drop)),
        _ => snapshot::comm(comm.handle(), |_| Ok(())),
    }
}

const UNDEFINED: i64 = abi::MPI_UNDEFINED as i64;

/// `MPI_Pack_size` (section 5.2).
pub(crate) unsafe fn pack_size(
    incount: i64,
    of: MPI_Datatype,
    comm: MPI_Comm,
    size: CountOut,
) -> Result<(), Raised> {
    check_comm(comm)?;
    // More than any integer holds is MPI_UNDEFINED, as what is more than this one holds.
    let bytes =
        datatype(of, |of| Ok(of.packed_bytes(incount as u64).map_or(UNDEFINED, |bytes| bytes as i64)))?;
    // SAFETY: the entry has refused null.
    unsafe { size.set(bytes) };
    Ok(())
}

/// The part of a packing buffer that a call may use.
fn check_room(what: &str, position: i64, needed: usize, size: i64) -> Outcome<()> {
    if position < 0 || position.checked_add(needed as i64).is_none_or(|end| end > size) {
        return Err(Error::new(
            ErrorClass::TRUNCATE,
            format!("{needed} bytes at position {position} do not fit the {size} bytes of {what}"),
        ));
    }
    Ok(())
}

/// `len` bytes of room at a position; an empty room may have any address, null too.
///
/// # Safety
/// The program passes a buffer that long, which nobody else touches meanwhile.
unsafe fn room_at<'a>(buffer: *mut c_void, position: i64, len: usize) -> &'a mut [u8] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>().add(position as usize), len) }
}

/// `len` bytes of data at a position; no data may have any address, null too.
///
/// # Safety
/// The program passes a buffer that long, which nobody changes meanwhile.
unsafe fn data_at<'a>(buffer: *const c_void, position: i64, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(buffer.cast::<u8>().add(position as usize), len) }
}

/// Lends the type of a call, whose communicator is checked first. With locks it is what the thread remembers: nobody waits for
/// the copy of another.
fn with_type<R>(comm: MPI_Comm, of: MPI_Datatype, work: impl FnOnce(&Datatype) -> Outcome<R>) -> Outcome<R> {
    check_comm(comm)?;
    datatype(of, |of| {
        of.check_usable()?;
        work(of)
    })
}

/// `MPI_Pack` (section 5.2).
pub(crate) unsafe fn pack(
    inbuf: *const c_void,
    incount: i64,
    of: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: i64,
    position: CountOut,
    comm: MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: the program passes `incount` elements and `outsize` bytes of room, which do not overlap.
    unsafe {
        let at = position.get();
        let end = with_type(comm, of, |of| {
            let bytes = of.packed_bytes(incount as u64)?;
            check_room("outbuf", at, bytes, outsize)?;
            let room = room_at(outbuf, at, bytes);
            if of.is_contiguous() {
                send_buffer(of, inbuf, incount)?.pack(0, room);
            } else {
                of.pack_elements(inbuf.cast(), room);
            }
            Ok(at + bytes as i64)
        })?;
        position.set(end);
    }
    Ok(())
}

/// `MPI_Unpack` (section 5.2).
pub(crate) unsafe fn unpack(
    inbuf: *const c_void,
    insize: i64,
    position: CountOut,
    outbuf: *mut c_void,
    outcount: i64,
    of: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: the program passes `insize` bytes and room for `outcount` elements, which do not overlap.
    unsafe {
        let at = position.get();
        let end = with_type(comm, of, |of| {
            let bytes = of.packed_bytes(outcount as u64)?;
            check_room("inbuf", at, bytes, insize)?;
            let data = data_at(inbuf, at, bytes);
            if of.is_contiguous() {
                receive_buffer(of, outbuf, outcount)?.unpack(0, data);
            } else {
                of.check_distinct(outcount as u64)?;
                of.unpack_elements(outbuf.cast(), data);
            }
            Ok(at + bytes as i64)
        })?;
        position.set(end);
    }
    Ok(())
}

/// Refuses every data representation but "external32".
///
/// # Safety
/// The program passes a string; the entry has refused null.
unsafe fn check_representation(datarep: *const c_char) -> Outcome<()> {
    // SAFETY: the caller's promise.
    let name = unsafe { bytes(datarep) };
    if name == external::NAME {
        return Ok(());
    }
    Err(Error::new(
        ErrorClass::ARG,
        format!("datarep is \"{}\"; the only one here is \"external32\" (section 5.3)", name.escape_ascii()),
    ))
}

/// `MPI_Pack_external_size` (section 5.3).
pub(crate) unsafe fn pack_external_size(
    datarep: *const c_char,
    incount: i64,
    of: MPI_Datatype,
    size: *mut i64,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe {
        check_representation(datarep)?;
        size.write(datatype(of, |of| Ok(external::size(of, incount as u64).unwrap_or(UNDEFINED)))?);
    }
    Ok(())
}

/// `MPI_Pack_external` (section 5.3).
pub(crate) unsafe fn pack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: i64,
    of: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: i64,
    position: *mut i64,
) -> Result<(), Raised> {
    // SAFETY: the program passes `incount` elements and `outsize` bytes of room, which do not overlap.
    unsafe {
        check_representation(datarep)?;
        let at = position.read();
        let end = datatype(of, |of| {
            of.check_usable()?;
            let buffer = send_buffer(of, inbuf, incount)?;
            let needed = external::size(of, incount as u64)?;
            check_room("outbuf", at, needed as usize, outsize)?;
            external::pack(&of.signature(), incount as u64, &buffer, room_at(outbuf, at, needed as usize));
            Ok(at + needed)
        })?;
        position.write(end);
    }
    Ok(())
}

/// `MPI_Unpack_external` (section 5.3).
pub(crate) unsafe fn unpack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: i64,
    position: *mut i64,
    outbuf: *mut c_void,
    outcount: i64,
    of: MPI_Datatype,
) -> Result<(), Raised> {
    // SAFETY: the program passes `insize` bytes and room for `outcount` elements, which do not overlap.
    unsafe {
        check_representation(datarep)?;
        let at = position.read();
        let end = datatype(of, |of| {
            of.check_usable()?;
            let mut buffer = receive_buffer(of, outbuf, outcount)?;
            let needed = external::size(of, outcount as u64)?;
            check_room("inbuf", at, needed as usize, insize)?;
            external::unpack(
                &of.signature(),
                outcount as u64,
                data_at(inbuf, at, needed as usize),
                &mut buffer,
            );
            Ok(at + needed)
        })?;
        position.write(end);
    }
    Ok(())
}
