//! Probe and matched probe (section 3.8).

use std::ffi::{c_int, c_void};

use weft::Process;
use weft::lanes::message_handle;
use weft::request::{Local, MpiStatus, engine_handle};
use weft_engine::{Engine, MessageId, Selector, Status};
use weft_types::{Error, Handle, HandleKind, Result as Outcome, abi};

use super::{point_to_point, status};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::threads;
use crate::watch::Awaited;

/// What a probe looks for; `None` for `MPI_PROC_NULL`.
fn selector(source: c_int, tag: c_int, comm: MPI_Comm) -> Outcome<Option<Selector>> {
    // SAFETY: the entry has checked the phase.
    match unsafe { gate::alone() } {
        Some(mut alone) => alone.process().comms.get(comm.handle())?.selector(source, tag),
        None => threads::selector(source, tag, comm),
    }
}

/// What a probe finds, or the error when it finds nothing because its only sender is lost.
pub(crate) fn or_hopeless<T>(
    found: Option<T>,
    engine: &mut Engine,
    selector: Selector,
) -> Option<Outcome<T>> {
    found.map(Ok).or_else(|| engine.hopeless(selector).map(Err))
}

/// `MPI_Probe` (section 3.8.1).
pub(crate) unsafe fn probe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    let found = match selector(source, tag, comm)? {
        Some(selector) => match threads::lane_of_comm(comm) {
            0 => gate::wait_for("MPI_Probe", Awaited::Probe(selector), |process| {
                let found = process.engine.iprobe(selector);
                or_hopeless(found, &mut process.engine, selector)
            }),
            lane => threads::probe(lane, selector),
        }
        .map_err(|error| Raised::on_comm(comm.handle(), error))?
        .into(),
        None => MpiStatus::PROC_NULL,
    };
    // SAFETY: the program's status.
    unsafe { status::write(status, &found) };
    Ok(())
}

/// `MPI_Iprobe` (section 3.8.1).
pub(crate) unsafe fn iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    let found = match selector(source, tag, comm)? {
        Some(selector) => match threads::lane_of_comm(comm) {
            0 => gate::poll(|process| {
                let found = process.engine.iprobe(selector);
                or_hopeless(found, &mut process.engine, selector)
            }),
            lane => threads::poll_in(lane, |inner| {
                let found = inner.engine.iprobe(selector);
                or_hopeless(found, &mut inner.engine, selector)
            }),
        }
        .transpose()
        .map_err(|error| Raised::on_comm(comm.handle(), error))?
        .map(MpiStatus::from),
        None => Some(MpiStatus::PROC_NULL),
    };
    // SAFETY: the entry has refused a null flag; the program's status.
    unsafe {
        flag.write(c_int::from(found.is_some()));
        if let Some(found) = found {
            status::write(status, &found);
        }
    }
    Ok(())
}

/// Takes a matching message out and remembers whose error handler its receive concerns.
fn take(process: &mut Process, selector: Selector, comm: MPI_Comm) -> Option<(MessageId, Status)> {
    let found = process.engine.improbe(selector)?;
    process.messages.insert(found.0, comm.handle());
    Some(found)
}

/// Writes what a matched probe found.
///
/// # Safety
/// The program's places.
unsafe fn report(found: Option<(MessageId, Status)>, message: *mut MPI_Message, status: *mut MPI_Status) {
    let (handle, found) = match found {
        Some((id, found)) => (MPI_Message::from_raw(message_handle(id).0), found.into()),
        None => (MPI_Message::from_raw(abi::MPI_MESSAGE_NO_PROC), MpiStatus::PROC_NULL),
    };
    // SAFETY: the caller's promise.
    unsafe {
        message.write(handle);
        status::write(status, &found);
    }
}

/// `MPI_Mprobe` (section 3.8.2).
pub(crate) unsafe fn mprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    let found = selector(source, tag, comm)?
        .map(|selector| match threads::lane_of_comm(comm) {
            0 => gate::wait_for("MPI_Mprobe", Awaited::Probe(selector), |process| {
                let found = take(process, selector, comm);
                or_hopeless(found, &mut process.engine, selector)
            }),
            lane => threads::mprobe(lane, selector, comm),
        })
        .transpose()
        .map_err(|error| Raised::on_comm(comm.handle(), error))?;
    // SAFETY: the entry has refused a null message; the program's status.
    unsafe { report(found, message, status) };
    Ok(())
}

/// `MPI_Improbe` (section 3.8.2).
pub(crate) unsafe fn improbe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    let selector = selector(source, tag, comm)?;
    let found = selector
        .and_then(|selector| match threads::lane_of_comm(comm) {
            0 => gate::poll(|process| {
                let found = take(process, selector, comm);
                or_hopeless(found, &mut process.engine, selector)
            }),
            lane => threads::poll_in(lane, |inner| {
                let found = inner.take_message(selector, comm.handle());
                or_hopeless(found, &mut inner.engine, selector)
            }),
        })
        .transpose()
        .map_err(|error| Raised::on_comm(comm.handle(), error))?;
    let is_there = found.is_some() || selector.is_none();
    // SAFETY: the entry has refused null; the program's status.
    unsafe {
        flag.write(c_int::from(is_there));
        if is_there {
            report(found, message, status);
        }
    }
    Ok(())
}

/// The message of a handle and its communicator; `None` for `MPI_MESSAGE_NO_PROC`.
fn message(process: &Process, message: MPI_Message) -> Outcome<Option<(MessageId, Handle)>> {
    let handle = message.handle();
    if handle.0 == abi::MPI_MESSAGE_NO_PROC {
        return Ok(None);
    }
    let id = MessageId(handle.0 & ((1 << 27) - 1));
    match process.messages.get(&id) {
        Some(&comm)
            if handle.kind_bits() == HandleKind::Message as u32 && process.engine.message_exists(id) =>
        {
            Ok(Some((id, comm)))
        }
        _ => Err(weft::table::stale(HandleKind::Message, handle, true)),
    }
}

/// Starts the receive of a matched message.
///
/// # Safety
/// The program leaves the memory alone until the request is complete.
unsafe fn start(
    process: &mut Process,
    (buf, count, datatype): (*mut c_void, i64, MPI_Datatype),
    handle: MPI_Message,
) -> Result<Handle, (Handle, Error)> {
    let nowhere = Handle(abi::MPI_COMM_NULL);
    let Some((id, comm)) = message(process, handle).map_err(|error| (nowhere, error))? else {
        return process.requests.insert(Local::NullReceive).map_err(|error| (nowhere, error));
    };
    let started = process.types.usable(datatype.handle()).and_then(|datatype| {
        // SAFETY: the caller's promise.
        unsafe { point_to_point::receive_buffer(datatype, buf, count) }
    });
    let request =
        started.and_then(|buffer| process.engine.imrecv(id, buffer)).map_err(|error| (comm, error))?;
    process.messages.remove(&id);
    process.engine.tag_request(request, comm.0);
    Ok(engine_handle(request))
}

/// # Safety
/// As [`start`].
unsafe fn start_matched(
    data: (*mut c_void, i64, MPI_Datatype),
    message: *mut MPI_Message,
) -> Result<Handle, Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { message.read() };
    let started = match handle.handle().kind_bits() == HandleKind::LaneMessage as u32 {
        // SAFETY: the caller's promise.
        true => unsafe { threads::start_matched(data, handle.handle()) },
        // SAFETY: as above.
        false => gate::with(|process| unsafe { start(process, data, handle) }),
    };
    let request = started.map_err(|(comm, error)| Raised::on_comm(comm, error))?;
    // SAFETY: as above.
    unsafe { message.write(MPI_Message::from_raw(abi::MPI_MESSAGE_NULL)) };
    Ok(request)
}

/// `MPI_Mrecv` (section 3.8.3).
pub(crate) unsafe fn mrecv(
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    // SAFETY: the program's memory stays until this call returns.
    let request = unsafe { start_matched((buf, count, datatype), message)? };
    let done = match threads::lane_of_request(request) {
        Some(lane) => threads::wait("MPI_Mrecv", lane, request)?,
        None => gate::wait_for("MPI_Mrecv", Awaited::One(request), |process| {
            process.is_done(request).then(|| process.finish(request))
        }),
    };
    // SAFETY: the program's status.
    unsafe { status::write(status, &done.status) };
    match done.error {
        None => Ok(()),
        Some(error) => Err(Raised::on_comm(done.comm, error)),
    }
}

/// `MPI_Imrecv` (section 3.8.3).
pub(crate) unsafe fn imrecv(
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    // SAFETY: the program's memory stays until the request is complete.
    let handle = unsafe { start_matched((buf, count, datatype), message)? };
    // SAFETY: the entry has refused null.
    unsafe { request.write(MPI_Request::from_raw(handle.0)) };
    Ok(())
}
