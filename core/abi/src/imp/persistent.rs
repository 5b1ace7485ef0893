//! Persistent requests (section 3.9).

use std::ffi::{c_int, c_void};

use weft::Process;
use weft::persistent::Operation;
use weft_datatype::SendBuf;
use weft_engine::{Envelope, SendMode};
use weft_types::{Handle, Result as Outcome};

use super::buffers::once_more;
use super::point_to_point::{receive_buffer, send_buffer};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::threads::remembered;

/// Envelope and buffer of a send argument; `None` for `MPI_PROC_NULL`.
///
/// # Safety
/// The program keeps the data as they are until the send is complete.
pub(super) unsafe fn prepare(
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

/// Starts a persistent request: without the process's lock when it is of messages in a lane, but for a thread's first start of
/// it.
#[inline]
fn start_one(request: Handle) -> Outcome<()> {
    // Lanes are of programs whose threads call at once.
    if gate::phase() & gate::MULTIPLE != 0 {
        return start_with_threads(request);
    }
    begin(request)
}

fn begin(request: Handle) -> Outcome<()> {
    let start = |process: &mut Process| process.start_request(request);
    gate::with(start).or_else(|error| once_more(error, start))
}

#[cold]
#[inline(never)]
fn start_with_threads(request: Handle) -> Outcome<()> {
    if let Some(started) = remembered::start(request) {
        return started;
    }
    begin(request)?;
    let is_worth_keeping = gate::with(|process| process.requests.can_be_remembered(request));
    if is_worth_keeping && let Some(kept) = gate::with(|process| process.requests.remember(request)) {
        remembered::keep(kept);
    }
    Ok(())
}

/// `MPI_Start` (section 3.9).
pub(crate) unsafe fn start(request: *mut MPI_Request) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { request.read() }.handle();
    start_one(handle)?;
    Ok(())
}

/// `MPI_Startall` (section 3.9).
pub(crate) unsafe fn startall(count: c_int, requests: *mut MPI_Request) -> Result<(), Raised> {
    for index in 0..count.max(0) as usize {
        // SAFETY: the program passes `count` requests; the entry has refused a null array of positive length.
        let handle = unsafe { requests.add(index).read() }.handle();
        start_one(handle)?;
    }
    Ok(())
}
