//! The short forms ([`super::at_once`]) when calls take locks, on communicators in a lane whose lock is biased to the calling
//! thread: one look into thread-local memory, no read-modify-write. Those of lane 0 go to [`super::at_once_locked`], everything
//! else takes the full forms.

use std::ffi::{c_int, c_void};

use weft::comm::Comm;
use weft::lanes::{Lane, lane_of};
use weft::request::{MpiStatus, engine_handle};
use weft_datatype::RecvBuf;
use weft_engine::bias::Mine;
use weft_engine::{Envelope, RequestId, Selector, Soon};
use weft_types::{Handle, HandleKind, Rank, Tag, abi};

use super::at_once::{probe, tell_probed, usually};
use super::at_once_locked::{self, Message as Locked};
use super::at_once_parts;
use super::point_to_point::LAST_ADDRESS_CONSTANT;
use super::status;
use crate::ctypes::*;
use crate::gate;
use crate::snapshot::{Here, Known};
use crate::threads::{LOCKED_SPINS, remembered};

/// Everything was done.
const DONE: Option<c_int> = Some(abi::MPI_SUCCESS);

/// What the calling thread remembers, when several threads may call.
///
/// # Safety
/// The reference does not outlive the call.
#[inline(always)]
unsafe fn here<'a>() -> Option<&'a Here> {
    if !gate::is_active_with_threads() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { Here::get() }
}

/// What a message needs: its communicator and lane, and the bytes at `buf` when they lie in one run.
struct Message<'a> {
    mine: Mine,
    comm: &'a Comm,
    /// `None`: lane 0.
    lane: Option<&'static Lane>,
    bytes: usize,
}

/// # Safety
/// As [`here`].
#[inline(always)]
unsafe fn message<'a>(
    (buf, count, datatype): (*const c_void, i64, MPI_Datatype),
    rank: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<Message<'a>> {
    // SAFETY: the caller's promise.
    let here = unsafe { here()? };
    // Unsigned, so that negative counts are large; the product of what passes cannot overflow.
    if count as u64 >= 1 << 40 || buf.addr() <= LAST_ADDRESS_CONSTANT {
        return None;
    }
    let bytes = here.predefined.plain_size(datatype.raw())? * count as usize;
    let Known { comm, lane } = here.known(comm)?;
    let valid = (rank as u32) < comm.size && tag >= 0;
    valid.then_some(Message { mine: here.mine, comm, lane: *lane, bytes })
}

impl<'a> Message<'a> {
    /// The message on lane 0, behind the process's lock.
    #[inline(always)]
    fn locked(&self) -> Locked<'a> {
        Locked { mine: self.mine, comm: self.comm, bytes: self.bytes }
    }

    /// Sends it, if that is possible at once.
    ///
    /// # Safety
    /// The bytes at `buf` are the program's data.
    #[inline(always)]
    unsafe fn send(&self, buf: *const c_void, dest: c_int, tag: c_int) -> Option<()> {
        let Some(lane) = self.lane else {
            // SAFETY: the caller's promise.
            return unsafe { self.locked().send(buf, dest, tag) };
        };
        let comm = self.comm;
        // SAFETY: the caller's promise.
        let data = unsafe { std::slice::from_raw_parts(buf.cast::<u8>(), self.bytes) };
        let mut own = lane.own(self.mine)?;
        let sent = comm.send_at_once(&mut own.inner.engine, Rank(dest as u32), Tag(tag), data);
        own.end();
        usually(sent).then_some(())
    }

    /// The envelope of what a receive waits for.
    #[inline(always)]
    fn awaited(&self, source: c_int, tag: c_int) -> Envelope {
        let source = Rank(source as u32);
        Envelope { peer: self.comm.group.peer(source), context: self.comm.context, source, tag: Tag(tag) }
    }
}

/// `MPI_Send`.
///
/// # Safety
/// As for every entry: the program keeps the procedure's contract. The same holds for all functions here.
#[inline(always)]
pub(crate) unsafe fn send(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the program's data; nothing is kept.
    unsafe { message((buf, count, datatype), dest, tag, comm)?.send(buf, dest, tag)? };
    DONE
}

/// `MPI_Isend`.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub(crate) unsafe fn isend(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Option<c_int> {
    if request.is_null() {
        return None;
    }
    // SAFETY: the program's data; nothing is kept; the request is not null.
    unsafe {
        message((buf, count, datatype), dest, tag, comm)?.send(buf, dest, tag)?;
        request.write(MPI_Request::from_raw(engine_handle(RequestId::COMPLETE).0));
    }
    DONE
}

/// `MPI_Recv`.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub(crate) unsafe fn recv(
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Option<c_int> {
    // SAFETY: nothing is kept.
    let message = unsafe { message((buf, count, datatype), source, tag, comm)? };
    let Some(lane) = message.lane else {
        // SAFETY: the caller's promise.
        return unsafe { message.locked().recv(buf, source, tag, status) };
    };
    let envelope = message.awaited(source, tag);
    let spins = gate::spins().min(LOCKED_SPINS);
    let mut own = lane.own(message.mine)?;
    // SAFETY: the caller's promise: the program's memory is ours during this call.
    let mut buffer = unsafe { RecvBuf::contiguous(buf.cast(), message.bytes) };
    // A receive that looks again makes progress, and that may concern others.
    let soon = own.inner.engine.receive_at_once(envelope, &mut buffer, spins);
    own.leave(spins > 1);
    let Soon::Received(received) = soon else { return None };
    // SAFETY: the program's status.
    unsafe { status::write_message(status, &received) };
    DONE
}

/// `MPI_Irecv`.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub(crate) unsafe fn irecv(
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Option<c_int> {
    if request.is_null() {
        return None;
    }
    // SAFETY: nothing is kept.
    let message = unsafe { message((buf, count, datatype), source, tag, comm)? };
    let Some(lane) = message.lane else {
        // SAFETY: the caller's promise; not null.
        return unsafe { message.locked().irecv(buf, source, tag, request) };
    };
    let envelope = message.awaited(source, tag);
    let owner = message.comm.handle.0;
    let mut own = lane.own(message.mine)?;
    // SAFETY: the caller's promise: the program's memory stays until the request is complete.
    let buffer = unsafe { RecvBuf::contiguous(buf.cast(), message.bytes) };
    let posted = own.inner.engine.post_at_once(envelope, buffer, owner).map(|id| own.inner.handle(id));
    own.end();
    usually(posted.is_some());
    let posted = posted?;
    // SAFETY: not null, so the program's request.
    unsafe { request.write(MPI_Request::from_raw(posted.0)) };
    DONE
}

/// `MPI_Iprobe`.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub(crate) unsafe fn iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Option<c_int> {
    // SAFETY: nothing is kept.
    let here = unsafe { here()? };
    let Known { comm, lane } = here.known(comm)?;
    if flag.is_null() || (source as u32) >= comm.size || tag < 0 {
        return None;
    }
    let source = Rank(source as u32);
    let (peer, tag) = (Some(comm.group.peer(source)), Some(Tag(tag)));
    let selector = Selector { context: comm.context, peer, source: Some(source), tag };
    let Some(lane) = *lane else {
        // SAFETY: the caller's promise; not null.
        return unsafe { at_once_locked::iprobe(here.mine, selector, flag, status) };
    };
    // Every test moves everything of the process (section 2.9); user functions may run, so nothing remembered is used any more.
    let (mine, number) = (here.mine, comm.lane);
    gate::progress_process();
    gate::progress_lanes(number);
    let mut own = lane.own(mine)?;
    let moved = own.inner.engine.progress();
    let found = probe(&mut own.inner.engine, selector);
    own.leave(moved);
    // SAFETY: not null; the program's status.
    unsafe { tell_probed(found?, flag, status) }
}

/// The lane of a request that is of a lane.
#[inline(always)]
fn lane_of_request(here: &Here, request: MPI_Request) -> Option<(Handle, &'static Lane)> {
    if request.raw() >> 27 != HandleKind::LaneRequest as usize {
        return None;
    }
    let handle = Handle(request.raw() as u32);
    Some((handle, here.lanes.get(lane_of(handle))?))
}

/// `MPI_Wait`.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub(crate) unsafe fn wait(request: *mut MPI_Request, status: *mut MPI_Status) -> Option<c_int> {
    // SAFETY: nothing is kept.
    let here = unsafe { here()? };
    if request.is_null() {
        return None;
    }
    // SAFETY: not null, so the program's request.
    let pending = unsafe { *request };
    if pending.raw() == engine_handle(RequestId::COMPLETE).0 as usize {
        // SAFETY: the program's request and status.
        unsafe {
            request.write(MPI_Request::from_raw(abi::MPI_REQUEST_NULL));
            status::write(status, &MpiStatus::NO_MESSAGE);
        }
        return DONE;
    }
    let Some((handle, lane)) = lane_of_request(here, pending) else {
        // SAFETY: the caller's promise; not null.
        return unsafe { at_once_locked::wait(here.mine, request, status) };
    };
    let mut own = lane.own(here.mine)?;
    let (mut done, mut moved) = (own.inner.take_well(handle), false);
    if done.is_none() {
        moved = own.inner.engine.progress();
        done = own.inner.take_well(handle);
    }
    own.leave(moved);
    let done = done?;
    // SAFETY: the program's request and status.
    unsafe {
        request.write(MPI_Request::from_raw(abi::MPI_REQUEST_NULL));
        status::write_message(status, &done);
    }
    DONE
}

/// `MPI_Start`: of a send in a lane that this thread has started before, or of a partitioned request.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub(crate) unsafe fn start(request: *mut MPI_Request) -> Option<c_int> {
    // SAFETY: nothing is kept.
    let here = unsafe { here()? };
    if request.is_null() {
        return None;
    }
    // SAFETY: not null, so the program's request.
    let request = unsafe { request.read() };
    if remembered::start_at_once(here, request.handle()).is_some() {
        return DONE;
    }
    at_once_parts::start_locked(here.mine, request)
}

/// `MPI_Pready`, by a thread that works with the process alone: others mark partitions on the request's board.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub(crate) unsafe fn pready(partition: c_int, request: MPI_Request) -> Option<c_int> {
    // SAFETY: nothing is kept.
    let here = unsafe { here()? };
    at_once_parts::pready_locked(here.mine, partition, request)
}
