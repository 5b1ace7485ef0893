//! Persistent requests (section 3.9) and buffered mode (section 3.6).

use std::ffi::{c_int, c_void};

use weft::Process;
use weft::buffered::{Attached, Owner};
use weft::request::{Local, Operation, engine_handle};
use weft_datatype::SendBuf;
use weft_engine::{Envelope, RequestId, SendMode};
use weft_types::{Error, Result as Outcome, abi};

use super::point_to_point::{receive_buffer, send_buffer};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;

/// Envelope and buffer of a send argument; `None` for `MPI_PROC_NULL`.
///
/// # Safety
/// The program keeps the data as they are until the send is complete.
unsafe fn prepare(
    process: &Process,
    (buf, count, datatype): (*const c_void, i64, MPI_Datatype),
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Outcome<(Option<Envelope>, SendBuf)> {
    let comm = process.comms.get(comm.handle())?;
    let envelope = comm.destination(dest)?.map(|peer| comm.envelope(peer, tag)).transpose()?;
    if envelope.is_none() {
        return Ok((None, SendBuf::empty()));
    }
    // SAFETY: the caller's promise.
    let buffer = unsafe { send_buffer(process.types.usable(datatype.handle())?, buf, count)? };
    Ok((envelope, buffer))
}

macro_rules! persistent_sends {
    ($($name:ident: |$envelope:ident, $buffer:ident| $operation:expr, $doc:literal;)*) => {$(
        #[doc = $doc]
        pub(crate) unsafe fn $name(
            buf: *const c_void,
            count: i64,
            datatype: MPI_Datatype,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
            request: *mut MPI_Request,
        ) -> Result<(), Raised> {
            let handle = gate::with(|process| {
                // SAFETY: the program's data stay while a started request is under way.
                let ($envelope, $buffer) = unsafe { prepare(process, (buf, count, datatype), dest, tag, comm)? };
                process.persistent($operation, comm.handle())
            })?;
            // SAFETY: the entry has refused null.
            unsafe { request.write(MPI_Request::from_raw(handle.0)) };
            Ok(())
        }
    )*};
}

persistent_sends! {
    send_init: |envelope, buffer| Operation::Send(envelope, SendMode::Standard, buffer), "`MPI_Send_init` (section 3.9).";
    ssend_init: |envelope, buffer| Operation::Send(envelope, SendMode::Synchronous, buffer), "`MPI_Ssend_init` (section 3.9).";
    rsend_init: |envelope, buffer| Operation::Send(envelope, SendMode::Ready, buffer), "`MPI_Rsend_init` (section 3.9).";
    bsend_init: |envelope, buffer| Operation::Buffered(envelope, buffer), "`MPI_Bsend_init` (section 3.9).";
}

/// `MPI_Recv_init` (section 3.9).
pub(crate) unsafe fn recv_init(
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    let handle = gate::with(|process| {
        let selector = process.comms.get(comm.handle())?.selector(source, tag)?;
        let buffer = match selector {
            // SAFETY: the program leaves the memory alone while a started request is under way.
            Some(_) => unsafe { receive_buffer(process.types.usable(datatype.handle())?, buf, count)? },
            None => weft_datatype::RecvBuf::empty(),
        };
        process.persistent(Operation::Receive(selector, buffer), comm.handle())
    })?;
    // SAFETY: the entry has refused null.
    unsafe { request.write(MPI_Request::from_raw(handle.0)) };
    Ok(())
}

/// `MPI_Start` (section 3.9).
pub(crate) unsafe fn start(request: *mut MPI_Request) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { request.read() }.handle();
    gate::with(|process| process.start_request(handle))?;
    Ok(())
}

/// `MPI_Startall` (section 3.9).
pub(crate) unsafe fn startall(count: c_int, requests: *mut MPI_Request) -> Result<(), Raised> {
    for index in 0..count.max(0) as usize {
        // SAFETY: the program passes `count` requests; the entry has refused a null array of positive length.
        let handle = unsafe { requests.add(index).read() }.handle();
        gate::with(|process| process.start_request(handle))?;
    }
    Ok(())
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
    gate::with(|process| {
        // SAFETY: the program's data stay until this call returns, and are copied in it.
        let (envelope, buffer) = unsafe { prepare(process, (buf, count, datatype), dest, tag, comm)? };
        match envelope {
            Some(envelope) => process.buffered_send(comm.handle(), envelope, &buffer),
            None => Ok(()),
        }
    })?;
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
    unsafe { bsend(buf, count, datatype, dest, tag, comm)? };
    // SAFETY: the entry has refused null.
    unsafe { request.write(MPI_Request::from_raw(engine_handle(RequestId::COMPLETE).0)) };
    Ok(())
}

fn attach(owner: Owner, buffer: *mut c_void, size: i64) -> Outcome<()> {
    let automatic = buffer.addr() == abi::MPI_BUFFER_AUTOMATIC;
    let attached =
        Attached { address: buffer.expose_provenance(), size: u64::try_from(size).unwrap_or(0), automatic };
    gate::with(|process| process.buffers.attach(owner, attached))
}

fn flush(owner: Owner) -> Result<(), Raised> {
    gate::with(|process| process.buffers.check_attached(owner))?;
    gate::wait(|process| process.buffers.is_flushed(&mut process.engine, owner).then_some(()));
    Ok(())
}

unsafe fn detach(owner: Owner, address: *mut c_void, size: CountOut) -> Result<(), Raised> {
    flush(owner)?;
    if let Some(attached) = gate::with(|process| process.buffers.detach(owner)) {
        // SAFETY: the entry has refused null; `address` is the address of a pointer.
        unsafe {
            address.cast::<*mut c_void>().write(std::ptr::with_exposed_provenance_mut(attached.address));
            size.set(i64::try_from(attached.size).unwrap_or(i64::MAX));
        }
    }
    Ok(())
}

fn owned_by(comm: MPI_Comm) -> Outcome<Owner> {
    gate::with(|process| process.comms.get(comm.handle()).map(|comm| Owner::Comm(comm.handle)))
}

/// A request that is complete once everything in the buffer has left.
unsafe fn iflush(owner: Owner, request: *mut MPI_Request) -> Result<(), Raised> {
    let handle = gate::with(|process| {
        process.buffers.check_attached(owner)?;
        let sends = process.buffers.under_way(owner);
        process.requests.insert(Local::Flush(sends))
    })
    .map_err(|error: Error| Raised::from(error))?;
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
    unsafe { detach(Owner::Process, buffer_addr, size) }
}

/// `MPI_Buffer_flush` (section 3.6).
pub(crate) fn buffer_flush() -> Result<(), Raised> {
    flush(Owner::Process)
}

/// `MPI_Buffer_iflush` (section 3.6).
pub(crate) unsafe fn buffer_iflush(request: *mut MPI_Request) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { iflush(Owner::Process, request) }
}

/// `MPI_Comm_attach_buffer` (section 3.6).
pub(crate) unsafe fn comm_attach_buffer(
    comm: MPI_Comm,
    buffer: *mut c_void,
    size: i64,
) -> Result<(), Raised> {
    Ok(attach(owned_by(comm)?, buffer, size)?)
}

/// `MPI_Comm_detach_buffer` (section 3.6).
pub(crate) unsafe fn comm_detach_buffer(
    comm: MPI_Comm,
    buffer_addr: *mut c_void,
    size: CountOut,
) -> Result<(), Raised> {
    // SAFETY: the arguments are this procedure's.
    unsafe { detach(owned_by(comm)?, buffer_addr, size) }
}

/// `MPI_Comm_flush_buffer` (section 3.6).
pub(crate) unsafe fn comm_flush_buffer(comm: MPI_Comm) -> Result<(), Raised> {
    flush(owned_by(comm)?)
}

/// `MPI_Comm_iflush_buffer` (section 3.6).
pub(crate) unsafe fn comm_iflush_buffer(comm: MPI_Comm, request: *mut MPI_Request) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { iflush(owned_by(comm)?, request) }
}
