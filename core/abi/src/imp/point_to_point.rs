//! Sends and receives, blocking and nonblocking (sections 3.2 to 3.7), and their combinations (section 3.2.7).

use std::ffi::{c_int, c_void};

use weft::Process;
use weft::lanes::request_handle;
use weft::request::{Kind, Local, MpiStatus, engine_handle, started_handle};
use weft_datatype::{Datatype, RecvBuf, SendBuf};
use weft_engine::{Completion, Envelope, RequestId, Selector, SendMode, Started};
use weft_types::{Error, ErrorClass, Handle, Result as Outcome};

use super::at_once;
use super::status;
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::threads;
use crate::watch::Awaited;

/// The largest address constant (`MPI_BUFFER_AUTOMATIC`): data never lies there.
pub(crate) const LAST_ADDRESS_CONSTANT: usize = 2;

#[cold]
#[inline(never)]
pub(super) fn no_buffer(address: usize, bytes: usize) -> Error {
    let what = match address {
        0 => "a null pointer",
        1 => "MPI_IN_PLACE",
        _ => "MPI_BUFFER_AUTOMATIC",
    };
    Error::new(
        ErrorClass::BUFFER,
        format!(
            "the buffer is {what}, but {bytes} bytes of data belong there; pass the address of the data, or count 0"
        ),
    )
}

/// The buffer of a send argument. The entry has refused negative counts.
///
/// # Safety
/// The program keeps the data as they are until the send is complete.
#[inline(always)]
pub(crate) unsafe fn send_buffer(
    datatype: &Datatype,
    address: *const c_void,
    count: i64,
) -> Outcome<SendBuf> {
    // SAFETY: the caller's promise.
    let buffer = unsafe { datatype.send_buf(address.cast(), count as u64)? };
    if address.addr() <= LAST_ADDRESS_CONSTANT && !buffer.is_empty() && datatype.is_contiguous() {
        return Err(no_buffer(address.addr(), buffer.len()));
    }
    Ok(buffer)
}

/// The buffer of a receive argument.
///
/// # Safety
/// The program leaves the memory alone until the receive is complete.
#[inline(always)]
pub(crate) unsafe fn receive_buffer(
    datatype: &Datatype,
    address: *mut c_void,
    count: i64,
) -> Outcome<RecvBuf> {
    // SAFETY: the caller's promise.
    let buffer = unsafe { datatype.recv_buf(address.cast(), count as u64)? };
    if address.addr() <= LAST_ADDRESS_CONSTANT && !buffer.is_empty() && datatype.is_contiguous() {
        return Err(no_buffer(address.addr(), buffer.len()));
    }
    Ok(buffer)
}

/// Datatypes with gaps, derived ones, and everything that is wrong.
///
/// # Safety
/// As [`send_buffer`].
#[cold]
#[inline(never)]
unsafe fn typed_send_buffer(
    process: &Process,
    datatype: MPI_Datatype,
    buf: *const c_void,
    count: i64,
) -> Outcome<SendBuf> {
    // SAFETY: the caller's promise.
    unsafe { send_buffer(process.types.usable(datatype.handle())?, buf, count) }
}

/// As [`typed_send_buffer`].
///
/// # Safety
/// As [`receive_buffer`].
#[cold]
#[inline(never)]
unsafe fn typed_receive_buffer(
    process: &Process,
    datatype: MPI_Datatype,
    buf: *mut c_void,
    count: i64,
) -> Outcome<RecvBuf> {
    // SAFETY: the caller's promise.
    unsafe { receive_buffer(process.types.usable(datatype.handle())?, buf, count) }
}

/// Starts a send; complete at once when it goes to `MPI_PROC_NULL`.
///
/// # Safety
/// As [`send_buffer`].
#[inline(always)]
pub(super) unsafe fn start_send(
    process: &mut Process,
    mode: SendMode,
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Outcome<Started> {
    let comm = process.comms.get(comm.handle())?;
    let Some(peer) = comm.destination(dest)? else { return Ok(Started::Complete) };
    let envelope = comm.envelope(peer, tag)?;
    if let Some(bytes) = process.types.plain_bytes(datatype.handle(), count)
        && buf.addr() > LAST_ADDRESS_CONSTANT
        && mode != SendMode::Synchronous
    {
        // SAFETY: the caller's promise; a predefined type without gaps, so the data are these bytes.
        let data = unsafe { std::slice::from_raw_parts(buf.cast::<u8>(), bytes) };
        if process.engine.send_at_once(envelope, data) || process.engine.send_packet_at_once(envelope, data) {
            return Ok(Started::Complete);
        }
    }
    let comm = comm.handle;
    // SAFETY: the caller's promise.
    unsafe { start_send_slowly(process, mode, envelope, comm, buf, count, datatype) }
}

/// Everything but a small message that leaves at once.
///
/// # Safety
/// As [`send_buffer`].
#[inline(never)]
unsafe fn start_send_slowly(
    process: &mut Process,
    mode: SendMode,
    envelope: Envelope,
    comm: Handle,
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
) -> Outcome<Started> {
    let buffer = match process.types.plain_bytes(datatype.handle(), count) {
        // SAFETY: the caller's promise.
        Some(bytes) if buf.addr() > LAST_ADDRESS_CONSTANT => unsafe {
            SendBuf::contiguous(buf.cast(), bytes)
        },
        // SAFETY: as above.
        _ => unsafe { typed_send_buffer(process, datatype, buf, count)? },
    };
    let started = process.engine.send_general(envelope, mode, buffer)?;
    if let Started::Pending(request) = started {
        process.engine.tag_request(request, comm.0);
    }
    Ok(started)
}

/// As [`start_send`], with several threads.
///
/// # Safety
/// As [`send_buffer`].
#[inline(never)]
unsafe fn start_send_locked(
    mode: SendMode,
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Outcome<Started> {
    // SAFETY: the caller's promise.
    if let Some(started) = unsafe { threads::start_send(mode, (buf, count, datatype), dest, tag, comm) } {
        return started;
    }
    // SAFETY: as above.
    gate::with(|process| unsafe { start_send(process, mode, buf, count, datatype, dest, tag, comm) })
}

/// What a receive call found.
enum Received {
    /// Nothing to wait for: the source is `MPI_PROC_NULL`.
    Null,
    /// The message was there.
    Done(Completion),
    /// It must be waited for.
    Pending(RequestId),
}

/// # Safety
/// As [`receive_buffer`].
#[inline(always)]
unsafe fn prepare_receive(
    process: &mut Process,
    (buf, count, datatype): (*mut c_void, i64, MPI_Datatype),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Outcome<Option<(Selector, RecvBuf)>> {
    let comm = process.comms.get(comm.handle())?;
    let Some(selector) = comm.selector(source, tag)? else { return Ok(None) };
    let buffer = match process.types.plain_bytes(datatype.handle(), count) {
        // SAFETY: the caller's promise.
        Some(bytes) if buf.addr() > LAST_ADDRESS_CONSTANT => unsafe {
            RecvBuf::contiguous(buf.cast(), bytes)
        },
        // SAFETY: as above.
        _ => unsafe { typed_receive_buffer(process, datatype, buf, count)? },
    };
    Ok(Some((selector, buffer)))
}

/// Receives what is there, looks `spins` times for what comes soon (such a message is copied once and costs no request),
/// and makes a request for what comes late.
///
/// # Safety
/// As [`receive_buffer`].
#[inline(always)]
unsafe fn receive_soon(
    process: &mut Process,
    data: (*mut c_void, i64, MPI_Datatype),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    spins: u32,
) -> Outcome<Received> {
    // SAFETY: the caller's promise.
    let Some((selector, mut buffer)) = (unsafe { prepare_receive(process, data, source, tag, comm)? }) else {
        return Ok(Received::Null);
    };
    match process.engine.spin_recv(selector, &mut buffer, spins) {
        Some(completion) => Ok(Received::Done(completion)),
        None => post(process, comm, selector, buffer).map(Received::Pending),
    }
}

/// Posts a receive and remembers its communicator.
#[inline(always)]
fn post(process: &mut Process, comm: MPI_Comm, selector: Selector, buffer: RecvBuf) -> Outcome<RequestId> {
    let request = process.engine.recv(selector, buffer)?;
    process.engine.tag_request(request, comm.handle().0);
    Ok(request)
}

/// Waits for a request of the engine, which is what `call` does, and takes it.
#[inline(never)]
pub(super) fn complete(call: &'static str, request: RequestId) -> Completion {
    if request.lane() != 0 {
        return threads::complete(call, request);
    }
    gate::wait_for(call, Awaited::Own(request), |process| {
        process.engine.is_complete(request).then(|| process.engine.take(request))
    })
}

#[inline(always)]
pub(super) fn check(error: Option<Error>) -> Result<(), Raised> {
    match error {
        None => Ok(()),
        Some(error) => Err(error.into()),
    }
}

const fn name_of(mode: SendMode) -> &'static str {
    match mode {
        SendMode::Standard => "MPI_Send",
        SendMode::Synchronous => "MPI_Ssend",
        SendMode::Ready => "MPI_Rsend",
    }
}

#[inline(always)]
unsafe fn blocking_send(
    mode: SendMode,
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: the program's data stay until this call returns; the entry has checked the phase.
    let started = unsafe {
        match gate::alone() {
            Some(mut alone) => start_send(alone.process(), mode, buf, count, datatype, dest, tag, comm),
            None => start_send_locked(mode, buf, count, datatype, dest, tag, comm),
        }
    };
    match started? {
        Started::Complete => Ok(()),
        Started::Pending(request) => check(complete(name_of(mode), request).error),
    }
}

/// `MPI_Send` (section 3.2.1).
#[inline(always)]
pub(crate) unsafe fn send(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: as for every entry: the program keeps the procedure's contract.
    unsafe {
        match at_once::send_longer(buf, count, datatype, dest, tag, comm) {
            Some(sent) => sent,
            None => blocking_send(SendMode::Standard, buf, count, datatype, dest, tag, comm),
        }
    }
}

/// `MPI_Ssend` (section 3.4).
pub(crate) unsafe fn ssend(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: as above.
    unsafe { blocking_send(SendMode::Synchronous, buf, count, datatype, dest, tag, comm) }
}

/// `MPI_Rsend` (section 3.4).
pub(crate) unsafe fn rsend(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: as above.
    unsafe { blocking_send(SendMode::Ready, buf, count, datatype, dest, tag, comm) }
}

/// As [`receive_soon`], with several threads.
///
/// # Safety
/// As [`receive_buffer`].
#[inline(never)]
unsafe fn receive_locked(
    data: (*mut c_void, i64, MPI_Datatype),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Outcome<Received> {
    // SAFETY: the caller's promise.
    unsafe {
        match threads::receive(data, source, tag, comm)? {
            threads::Received::There(completion) => Ok(Received::Done(completion)),
            threads::Received::Null => Ok(Received::Null),
            threads::Received::Elsewhere => {
                gate::with(|process| receive_soon(process, data, source, tag, comm, 1))
            }
        }
    }
}

/// As [`start_receive`], with several threads.
///
/// # Safety
/// As [`receive_buffer`].
#[inline(never)]
pub(crate) unsafe fn start_receive_locked(
    data: (*mut c_void, i64, MPI_Datatype),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Outcome<Handle> {
    // SAFETY: the caller's promise.
    unsafe {
        match threads::start_receive(data, source, tag, comm)? {
            threads::Received::There(request) => Ok(request_handle(request)),
            threads::Received::Null => gate::with(|process| process.requests.insert(Local::NullReceive)),
            threads::Received::Elsewhere => {
                gate::with(|process| start_receive(process, data, source, tag, comm))
            }
        }
    }
}

/// The handle of what a send call started in any lane.
pub(super) fn handle_of(started: Started) -> Handle {
    match started {
        Started::Complete => engine_handle(RequestId::COMPLETE),
        Started::Pending(request) => request_handle(request),
    }
}

/// `MPI_Recv` (section 3.2.4).
#[inline]
pub(crate) unsafe fn recv(
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<(), Raised> {
    let data = (buf, count, datatype);
    // SAFETY: the program's memory stays until this call returns; the entry has checked the phase.
    let received = unsafe {
        match gate::alone() {
            Some(mut alone) => {
                let process = alone.process();
                let spins = process.spins();
                receive_soon(process, data, source, tag, comm, spins)
            }
            None => receive_locked(data, source, tag, comm),
        }
    };
    let completion = match received? {
        Received::Done(completion) => completion,
        Received::Pending(request) => complete("MPI_Recv", request),
        Received::Null => {
            // SAFETY: the program's status.
            unsafe { status::write(status, &MpiStatus::PROC_NULL) };
            return Ok(());
        }
    };
    // SAFETY: the program's status.
    unsafe { status::write(status, &completion.status.into()) };
    check(completion.error)
}

#[inline(always)]
unsafe fn nonblocking_send(
    mode: SendMode,
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    // SAFETY: the program's data stay until the request is complete; the entry has checked the phase and refused null.
    unsafe {
        let started = match gate::alone() {
            Some(mut alone) => start_send(alone.process(), mode, buf, count, datatype, dest, tag, comm),
            None => {
                let started = start_send_locked(mode, buf, count, datatype, dest, tag, comm)?;
                request.write(MPI_Request::from_raw(handle_of(started).0));
                return Ok(());
            }
        };
        request.write(MPI_Request::from_raw(started_handle(started?).0));
    }
    Ok(())
}

macro_rules! nonblocking_sends {
    ($($name:ident: $mode:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[inline(always)]
        pub(crate) unsafe fn $name(
            buf: *const c_void,
            count: i64,
            datatype: MPI_Datatype,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
            request: *mut MPI_Request,
        ) -> Result<(), Raised> {
            // SAFETY: as for every entry: the program keeps the procedure's contract.
            unsafe { nonblocking_send(SendMode::$mode, buf, count, datatype, dest, tag, comm, request) }
        }
    )*};
}

nonblocking_sends! {
    isend: Standard, "`MPI_Isend` (section 3.7.2).";
    issend: Synchronous, "`MPI_Issend` (section 3.7.2).";
    irsend: Ready, "`MPI_Irsend` (section 3.7.2).";
}

/// `MPI_Irecv` (section 3.7.2).
#[inline(always)]
pub(crate) unsafe fn irecv(
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    let data = (buf, count, datatype);
    // SAFETY: the program's memory stays until the request is complete; the entry has checked the phase and refused null.
    unsafe {
        let handle = match gate::alone() {
            Some(mut alone) => start_receive(alone.process(), data, source, tag, comm),
            None => start_receive_locked(data, source, tag, comm),
        };
        request.write(MPI_Request::from_raw(handle?.0));
    }
    Ok(())
}

/// # Safety
/// As [`receive_buffer`].
#[inline(always)]
pub(super) unsafe fn start_receive(
    process: &mut Process,
    data: (*mut c_void, i64, MPI_Datatype),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Outcome<Handle> {
    // SAFETY: the caller's promise.
    match unsafe { prepare_receive(process, data, source, tag, comm)? } {
        Some((selector, buffer)) => Ok(engine_handle(post(process, comm, selector, buffer)?)),
        None => process.requests.insert(Local::NullReceive),
    }
}

/// `MPI_Cancel` (section 3.8.4).
pub(crate) unsafe fn cancel(request: *mut MPI_Request) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { request.read() }.handle();
    let generalized = gate::with(|process| process.cancel(handle))?;
    if let Some(generalized) = generalized {
        // SAFETY: the functions are those of MPI_Grequest_start.
        unsafe { super::generalized::call_cancel(&generalized)? };
    }
    Ok(())
}

/// `MPI_Request_free` (section 3.7.3).
pub(crate) unsafe fn request_free(request: *mut MPI_Request) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { request.read() }.handle();
    let generalized = gate::with(|process| process.free_request(handle))?;
    // SAFETY: as above.
    unsafe { request.write(MPI_Request::from_raw(weft_types::abi::MPI_REQUEST_NULL)) };
    if let Some(generalized) = generalized {
        // SAFETY: the functions are those of MPI_Grequest_start.
        unsafe { super::generalized::call_free(&generalized)? };
    }
    Ok(())
}

/// What a request is; for callers that treat the engine's own requests apart.
pub(super) fn kind(process: &Process, request: MPI_Request) -> Outcome<Kind> {
    process.requests.kind(&process.engine, request.handle())
}
