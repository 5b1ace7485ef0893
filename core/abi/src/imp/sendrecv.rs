//! Sends and receives at once (sections 3.2.7 and 3.7.2).

use std::ffi::{c_int, c_void};

use weft::Process;
use weft::request::{Local, started_handle};
use weft_datatype::{Scratch, SendBuf};
use weft_engine::{SendMode, Started};
use weft_types::{Handle, Result as Outcome};

use super::point_to_point::{check, send_buffer, start_receive, start_send};
use super::status;
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::threads;
use crate::watch::Awaited;

/// Starts both halves of a sendrecv; the receive first, so that a message to oneself is matched at once.
///
/// # Safety
/// As [`start_send`] and [`start_receive`].
unsafe fn start_both(
    process: &mut Process,
    (send, dest, sendtag): ((*const c_void, i64, MPI_Datatype), c_int, c_int),
    (receive, source, recvtag): ((*mut c_void, i64, MPI_Datatype), c_int, c_int),
    comm: MPI_Comm,
) -> Outcome<(Handle, Handle)> {
    // Everything is checked before anything starts: a failing call has no effect.
    let checked = process.comms.get(comm.handle())?;
    if let Some(peer) = checked.destination(dest)? {
        checked.envelope(peer, sendtag)?;
        // SAFETY: the caller's promise.
        unsafe { send_buffer(process.types.usable(send.2.handle())?, send.0, send.1)? };
    }
    // SAFETY: the caller's promise.
    unsafe {
        let receive = start_receive(process, receive, source, recvtag, comm)?;
        let send = started_handle(start_send(
            process,
            SendMode::Standard,
            send.0,
            send.1,
            send.2,
            dest,
            sendtag,
            comm,
        )?);
        Ok((send, receive))
    }
}

/// `MPI_Sendrecv` (section 3.2.7).
pub(crate) unsafe fn sendrecv(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    let send = ((sendbuf, sendcount, sendtype), dest, sendtag);
    let receive = ((recvbuf, recvcount, recvtype), source, recvtag);
    let started = match threads::lane_of_comm(comm) {
        // SAFETY: the program's memory stays until this call returns.
        0 => gate::with(|process| unsafe { start_both(process, send, receive, comm) })?,
        // SAFETY: as above.
        _ => unsafe { threads::start_both(send, receive, comm)? },
    };
    // SAFETY: the program's status.
    unsafe { finish_both(started, status) }
}

unsafe fn finish_both((send, receive): (Handle, Handle), status: *mut MPI_Status) -> Result<(), Raised> {
    let (send, receive) = gate::wait_for("MPI_Sendrecv", Awaited::Both(send, receive), |process| {
        (process.is_done(send) && process.is_done(receive))
            .then(|| (process.finish(send), process.finish(receive)))
    });
    // SAFETY: the caller's promise.
    unsafe { status::write(status, &receive.status) };
    check(receive.error.or(send.error))
}

/// A packed copy of what is to be sent, so that the buffer can be received into.
///
/// # Safety
/// As [`send_buffer`].
unsafe fn packed_copy(
    process: &Process,
    (buf, count, datatype): (*const c_void, i64, MPI_Datatype),
) -> Outcome<SendBuf> {
    // SAFETY: the caller's promise.
    let buffer = unsafe { send_buffer(process.types.usable(datatype.handle())?, buf, count)? };
    let copy = Scratch::new(buffer.len());
    if let Some(room) = copy.recv_buf(0, buffer.len()).as_mut_slice() {
        buffer.pack(0, room);
    }
    Ok(copy.send_buf(0, buffer.len()))
}

/// Starts a sendrecv that replaces the data in place.
///
/// # Safety
/// As [`receive_buffer`].
unsafe fn start_replace(
    process: &mut Process,
    (buf, count, datatype): (*mut c_void, i64, MPI_Datatype),
    (dest, sendtag): (c_int, c_int),
    (source, recvtag): (c_int, c_int),
    comm: MPI_Comm,
) -> Outcome<(Handle, Handle)> {
    let checked = process.comms.get(comm.handle())?;
    let envelope = checked.destination(dest)?.map(|peer| checked.envelope(peer, sendtag)).transpose()?;
    // SAFETY: the caller's promise; packing reads the data before the receive may change them.
    unsafe {
        let copy = match envelope {
            Some(envelope) => Some((envelope, packed_copy(process, (buf.cast_const(), count, datatype))?)),
            None => None,
        };
        let receive = start_receive(process, (buf, count, datatype), source, recvtag, comm)?;
        let started = match copy {
            Some((envelope, copy)) => process.engine.send(envelope, SendMode::Standard, copy)?,
            None => Started::Complete,
        };
        if let Started::Pending(request) = started {
            process.engine.tag_request(request, comm.handle().0);
        }
        Ok((started_handle(started), receive))
    }
}

/// `MPI_Sendrecv_replace` (section 3.2.7).
pub(crate) unsafe fn sendrecv_replace(
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    let data = (buf, count, datatype);
    let started = match threads::lane_of_comm(comm) {
        // SAFETY: the program's memory stays until this call returns.
        0 => gate::with(|process| unsafe {
            start_replace(process, data, (dest, sendtag), (source, recvtag), comm)
        })?,
        // SAFETY: as above.
        _ => unsafe { threads::start_replace(data, (dest, sendtag), (source, recvtag), comm)? },
    };
    // SAFETY: the program's status.
    unsafe { finish_both(started, status) }
}

/// One request for both halves.
fn pair(process: &mut Process, (send, receive): (Handle, Handle), comm: MPI_Comm) -> Outcome<Handle> {
    process.requests.insert(Local::Pair { send, receive, comm: comm.handle() })
}

/// `MPI_Isendrecv` (section 3.7.2).
pub(crate) unsafe fn isendrecv(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    let send = ((sendbuf, sendcount, sendtype), dest, sendtag);
    let receive = ((recvbuf, recvcount, recvtype), source, recvtag);
    let handle = match threads::lane_of_comm(comm) {
        0 => gate::with(|process| {
            // SAFETY: the program's memory stays until the request is complete.
            let both = unsafe { start_both(process, send, receive, comm)? };
            pair(process, both, comm)
        })?,
        _ => {
            // SAFETY: as above.
            let both = unsafe { threads::start_both(send, receive, comm)? };
            gate::with(|process| pair(process, both, comm))?
        }
    };
    // SAFETY: the entry has refused null.
    unsafe { request.write(MPI_Request::from_raw(handle.0)) };
    Ok(())
}

/// `MPI_Isendrecv_replace` (section 3.7.2).
pub(crate) unsafe fn isendrecv_replace(
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    let data = (buf, count, datatype);
    let handle = match threads::lane_of_comm(comm) {
        0 => gate::with(|process| {
            // SAFETY: the program's memory stays until the request is complete.
            let both = unsafe { start_replace(process, data, (dest, sendtag), (source, recvtag), comm)? };
            pair(process, both, comm)
        })?,
        _ => {
            // SAFETY: as above.
            let both = unsafe { threads::start_replace(data, (dest, sendtag), (source, recvtag), comm)? };
            gate::with(|process| pair(process, both, comm))?
        }
    };
    // SAFETY: the entry has refused null.
    unsafe { request.write(MPI_Request::from_raw(handle.0)) };
    Ok(())
}
