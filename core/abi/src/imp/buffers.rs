//! Buffered mode (section 3.6): sends, and the buffers attached to communicators, sessions and the process.

use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use weft::Process;
use weft::buffered::{Attached, Owner};
use weft::request::{Local, engine_handle};
use weft_engine::RequestId;
use weft_types::{Error, ErrorClass, Handle, Result as Outcome, abi};

use super::persistent::prepare;
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::watch::Awaited;

/// A buffered send; the handle of its request.
///
/// # Safety
/// The arguments are those of `MPI_Bsend`.
unsafe fn send(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<Handle, Raised> {
    let begin = |process: &mut Process| {
        // SAFETY: the program's data stay until this call returns, and are copied in it.
        let (envelope, buffer) = unsafe { prepare(process, (buf, count, datatype), dest, tag, comm)? };
        match envelope {
            Some(envelope) => process.buffered_send(comm.handle(), envelope, &buffer),
            None => Ok(engine_handle(RequestId::COMPLETE)),
        }
    };
    Ok(gate::with(begin).or_else(|error| once_more(error, begin))?)
}

/// How long a buffered send without room waits for the word of receivers that they have received what is in the buffer. They say so
/// at once unless they do not call MPI, and the send must not depend on that they do.
const ANSWERS: Duration = Duration::from_millis(100);

/// What begins a buffered send has failed. If it was for want of room, the receivers of what is in the buffer are asked (see
/// [`weft::buffered`]), and it is tried once more.
///
/// # Errors
/// The same, or that of the second try.
#[cold]
#[inline(never)]
pub(super) fn once_more<T>(error: Error, begin: impl FnOnce(&mut Process) -> Outcome<T>) -> Outcome<T> {
    if error.class() != ErrorClass::BUFFER {
        return Err(error);
    }
    let Some(question) = gate::with(Process::ask_for_room) else { return Err(error) };
    let until = Instant::now() + ANSWERS;
    gate::wait_for("MPI_Bsend", Awaited::Flush(question.content), |process| {
        (process.is_answered(&question) || Instant::now() >= until).then_some(())
    });
    gate::with(begin)
}

/// `MPI_Bsend` (section 3.4).
pub(crate) unsafe fn bsend(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: the arguments are this procedure's.
    let handle = unsafe { send(buf, count, datatype, dest, tag, comm)? };
    if handle != engine_handle(RequestId::COMPLETE) {
        gate::with(|process| process.free_request(handle))?;
    }
    Ok(())
}

/// `MPI_Ibsend` (section 3.7.2).
pub(crate) unsafe fn ibsend(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    // SAFETY: the arguments are those of MPI_Bsend.
    let handle = unsafe { send(buf, count, datatype, dest, tag, comm)? };
    // SAFETY: the entry has refused null.
    unsafe { request.write(MPI_Request::from_raw(handle.0)) };
    Ok(())
}

fn attach(owner: Owner, buffer: *mut c_void, size: i64) -> Outcome<()> {
    let automatic = buffer.addr() == abi::MPI_BUFFER_AUTOMATIC;
    let attached =
        Attached { address: buffer.expose_provenance(), size: u64::try_from(size).unwrap_or(0), automatic };
    gate::with(|process| process.requests.buffers.attach(owner, attached))
}

fn flush(owner: Owner) -> Outcome<()> {
    let content = gate::with(|process| process.requests.buffers.content(owner))?;
    gate::wait_for("MPI_Buffer_flush", Awaited::Flush(content), |process| {
        process.requests.buffers.is_flushed(&process.engine, content).then_some(())
    });
    Ok(())
}

unsafe fn detach(owner: Owner, address: *mut c_void, size: CountOut) -> Outcome<()> {
    flush(owner)?;
    if let Some(attached) = gate::with(|process| process.requests.buffers.detach(owner)) {
        // SAFETY: the entry has refused null; `address` is the address of a pointer.
        unsafe {
            address.cast::<*mut c_void>().write(std::ptr::with_exposed_provenance_mut(attached.address));
            size.set(i64::try_from(attached.size).unwrap_or(i64::MAX));
        }
    }
    Ok(())
}

/// A request that is complete once everything in the buffer has left.
unsafe fn iflush(owner: Owner, request: *mut MPI_Request) -> Outcome<()> {
    let handle = gate::with(|process| -> Outcome<Handle> {
        let content = process.requests.buffers.content(owner)?;
        process.requests.insert(Local::Flush(content))
    })?;
    // SAFETY: the entry has refused null.
    unsafe { request.write(MPI_Request::from_raw(handle.0)) };
    Ok(())
}

/// `MPI_Buffer_attach` (section 3.6).
pub(crate) unsafe fn buffer_attach(buffer: *mut c_void, size: i64) -> Result<(), Raised> {
    Ok(attach(Owner::Process, buffer, size)?)
}

/// `MPI_Buffer_detach` (section 3.6).
pub(crate) unsafe fn buffer_detach(buffer_addr: *mut c_void, size: CountOut) -> Result<(), Raised> {
    // SAFETY: the arguments are this procedure's.
    unsafe { detach(Owner::Process, buffer_addr, size) }.map_err(Raised::from)
}

/// `MPI_Buffer_flush` (section 3.6).
pub(crate) fn buffer_flush() -> Result<(), Raised> {
    Ok(flush(Owner::Process)?)
}

/// `MPI_Buffer_iflush` (section 3.6).
pub(crate) unsafe fn buffer_iflush(request: *mut MPI_Request) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { iflush(Owner::Process, request) }.map_err(Raised::from)
}

fn of_comm(comm: MPI_Comm) -> Outcome<Owner> {
    gate::with(|process| process.comms.get(comm.handle()).map(|comm| Owner::Comm(comm.handle)))
}

/// `MPI_Comm_attach_buffer` (section 3.6).
pub(crate) unsafe fn comm_attach_buffer(
    comm: MPI_Comm,
    buffer: *mut c_void,
    size: i64,
) -> Result<(), Raised> {
    Ok(attach(of_comm(comm)?, buffer, size)?)
}

/// `MPI_Comm_detach_buffer` (section 3.6).
pub(crate) unsafe fn comm_detach_buffer(
    comm: MPI_Comm,
    buffer_addr: *mut c_void,
    size: CountOut,
) -> Result<(), Raised> {
    // SAFETY: the arguments are this procedure's.
    unsafe { detach(of_comm(comm)?, buffer_addr, size) }.map_err(Raised::from)
}

/// `MPI_Comm_flush_buffer` (section 3.6).
pub(crate) unsafe fn comm_flush_buffer(comm: MPI_Comm) -> Result<(), Raised> {
    Ok(flush(of_comm(comm)?)?)
}

/// `MPI_Comm_iflush_buffer` (section 3.6).
pub(crate) unsafe fn comm_iflush_buffer(comm: MPI_Comm, request: *mut MPI_Request) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { iflush(of_comm(comm)?, request) }.map_err(Raised::from)
}

fn of_session(session: MPI_Session) -> Outcome<Owner> {
    gate::with(|process| process.sessions.get(session.handle()).map(|_| Owner::Session(session.handle())))
}

/// `MPI_Session_attach_buffer` (section 3.6).
pub(crate) unsafe fn session_attach_buffer(
    session: MPI_Session,
    buffer: *mut c_void,
    size: i64,
) -> Result<(), Raised> {
    Ok(attach(of_session(session)?, buffer, size)?)
}

/// `MPI_Session_detach_buffer` (section 3.6).
pub(crate) unsafe fn session_detach_buffer(
    session: MPI_Session,
    buffer_addr: *mut c_void,
    size: CountOut,
) -> Result<(), Raised> {
    // SAFETY: the arguments are this procedure's.
    unsafe { detach(of_session(session)?, buffer_addr, size) }.map_err(Raised::from)
}

/// `MPI_Session_flush_buffer` (section 3.6).
pub(crate) unsafe fn session_flush_buffer(session: MPI_Session) -> Result<(), Raised> {
    Ok(flush(of_session(session)?)?)
}

/// `MPI_Session_iflush_buffer` (section 3.6).
pub(crate) unsafe fn session_iflush_buffer(
    session: MPI_Session,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { iflush(of_session(session)?, request) }.map_err(Raised::from)
}
