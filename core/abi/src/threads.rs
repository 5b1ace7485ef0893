//! Calls of programs with MPI_THREAD_MULTIPLE on communicators that live in a lane of their own: they take that lane's lock
//! and no other. (Lane 0, and everything else, goes through the gate.)
//!
//! Locks and wake-ups: the rules at the top of [`crate::gate`].

pub(crate) mod remembered;
mod several;

use std::ffi::{c_int, c_void};

use weft::lanes::{Inner, Lane, lane_of, request_handle};
use weft::request::{Done, MpiStatus};
use weft_datatype::{RecvBuf, Scratch, SendBuf};
use weft_engine::{Completion, Envelope, MessageId, RequestId, Selector, SendMode, Started, Status};
use weft_types::{Error, Handle, HandleKind, Result as Outcome, abi};

pub(crate) use self::several::{
    are_all_done, common_lane, first_of, test_all, test_any, test_some, wait_all, wait_any, wait_some,
};
use crate::ctypes::*;
use crate::gate;
use crate::imp::probe::or_hopeless;
use crate::snapshot;
use crate::watch::{Awaited, Wait};

/// The lane of that number, which a communicator or request names.
#[inline]
pub(crate) fn lane(number: u32) -> &'static Lane {
    gate::shared().lanes.at(number)
}

/// Blocks until `look` gives an answer, progressing this lane at each turn and everything else every few turns.
pub(crate) fn wait_in<T>(
    number: u32,
    call: &'static str,
    awaited: Awaited<'_>,
    mut look: impl FnMut(&mut Inner) -> Option<T>,
) -> T {
    match turn_in(number, &mut look) {
        (_, Some(found)) => found,
        (moved, None) => {
            gate::until(gate::Real, number, Wait::new(call, awaited), moved, || turn_in(number, &mut look))
        }
    }
}

/// One round of progress of a lane, the user functions that became due, and a look.
pub(crate) fn turn_in<T>(number: u32, look: &mut impl FnMut(&mut Inner) -> Option<T>) -> (bool, Option<T>) {
    let turn = lane(number).turn(&mut *look);
    let Some(callback) = turn.callback else { return (turn.moved, turn.found) };
    crate::imp::run_callbacks(number, callback);
    (true, turn.found.or_else(|| lane(number).with(look)))
}

/// Starts a send on a communicator in a lane of its own; `None` when it is in lane 0.
///
/// # Safety
/// The program keeps the data as they are until the send is complete.
#[inline]
pub(crate) unsafe fn start_send(
    mode: SendMode,
    (buf, count, datatype): (*const c_void, i64, MPI_Datatype),
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<Outcome<Started>> {
    let found = snapshot::comm(comm.handle(), |comm| {
        if comm.lane == 0 {
            return Ok(None);
        }
        let envelope = comm.destination(dest)?.map(|peer| comm.envelope(peer, tag)).transpose()?;
        Ok(Some((comm.lane, envelope)))
    });
    let (number, envelope) = match found {
        Ok(None) => return None,
        Ok(Some((_, None))) => return Some(Ok(Started::Complete)),
        Ok(Some((number, Some(envelope)))) => (number, envelope),
        Err(error) => return Some(Err(error)),
    };
    // SAFETY: the caller's promise.
    let buffer = match unsafe { snapshot::sent(buf, count, datatype) } {
        Ok(buffer) => buffer,
        Err(error) => return Some(Err(error)),
    };
    Some(lane(number).with(|inner| match inner.engine.send(envelope, mode, buffer)? {
        Started::Complete => Ok(Started::Complete),
        Started::Pending(request) => {
            inner.engine.tag_request(request, comm.handle().0);
            Ok(Started::Pending(inner.global(request)))
        }
    }))
}

/// What a receive on a communicator in a lane of its own needs.
enum Prepared {
    /// It is in lane 0.
    Elsewhere,
    /// The source is `MPI_PROC_NULL`.
    Null,
    /// Lane, pattern, memory.
    There(u32, Selector, RecvBuf),
}

/// # Safety
/// The program leaves the memory alone until the receive is complete.
#[inline]
unsafe fn prepare_receive(
    (buf, count, datatype): (*mut c_void, i64, MPI_Datatype),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Outcome<Prepared> {
    let found = snapshot::comm(comm.handle(), |comm| {
        if comm.lane == 0 { Ok(None) } else { Ok(Some((comm.lane, comm.selector(source, tag)?))) }
    })?;
    Ok(match found {
        None => Prepared::Elsewhere,
        Some((_, None)) => Prepared::Null,
        Some((number, Some(selector))) => {
            // SAFETY: the caller's promise.
            let buffer = unsafe { snapshot::received(buf, count, datatype)? };
            Prepared::There(number, selector, buffer)
        }
    })
}

/// What [`receive`] and [`start_receive`] did.
pub(crate) enum Received<T> {
    /// Nothing: the communicator is in lane 0.
    Elsewhere,
    /// Nothing to do: the source is `MPI_PROC_NULL`.
    Null,
    /// The receive is under way or over.
    There(T),
}

/// A blocking receive on a communicator in a lane of its own.
///
/// # Safety
/// As [`prepare_receive`].
#[inline]
pub(crate) unsafe fn receive(
    data: (*mut c_void, i64, MPI_Datatype),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Outcome<Received<Completion>> {
    // SAFETY: the caller's promise.
    let (number, selector, mut buffer) = match unsafe { prepare_receive(data, source, tag, comm)? } {
        Prepared::Elsewhere => return Ok(Received::Elsewhere),
        Prepared::Null => return Ok(Received::Null),
        Prepared::There(number, selector, buffer) => (number, selector, buffer),
    };
    let spins = gate::spins().min(LOCKED_SPINS);
    let begun = lane(number).with(|inner| match inner.engine.spin_recv(selector, &mut buffer, spins) {
        Some(completion) => Ok(Begun::Received(completion)),
        None => post(inner, selector, buffer, comm).map(Begun::Posted),
    })?;
    Ok(Received::There(match begun {
        Begun::Received(completion) => completion,
        Begun::Posted(request) => complete("MPI_Recv", request),
    }))
}

/// What a blocking receive did at first.
enum Begun {
    Received(Completion),
    Posted(RequestId),
}

/// How often a blocking receive looks at its sender's ring while it holds the lane: well below a microsecond.
pub(crate) const LOCKED_SPINS: u32 = 64;

fn post(inner: &mut Inner, selector: Selector, buffer: RecvBuf, comm: MPI_Comm) -> Outcome<RequestId> {
    let request = inner.engine.recv(selector, buffer)?;
    inner.engine.tag_request(request, comm.handle().0);
    Ok(inner.global(request))
}

/// Starts a receive on a communicator in a lane of its own.
///
/// # Safety
/// As [`prepare_receive`].
#[inline]
pub(crate) unsafe fn start_receive(
    data: (*mut c_void, i64, MPI_Datatype),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Outcome<Received<RequestId>> {
    // SAFETY: the caller's promise.
    Ok(match unsafe { prepare_receive(data, source, tag, comm)? } {
        Prepared::Elsewhere => Received::Elsewhere,
        Prepared::Null => Received::Null,
        Prepared::There(number, selector, buffer) => {
            Received::There(lane(number).with(|inner| post(inner, selector, buffer, comm))?)
        }
    })
}

/// Waits for a request of a lane, which is what `call` does, and takes it.
pub(crate) fn complete(call: &'static str, request: RequestId) -> Completion {
    let id = request.local();
    let look = |inner: &mut Inner| inner.engine.is_complete(id).then(|| inner.engine.take(id));
    wait_in(request.lane(), call, Awaited::Own(request), look)
}

/// The lane of a request; `None` when it is of lane 0, not an engine's, or none at all.
#[inline]
pub(crate) fn lane_of_request(request: Handle) -> Option<u32> {
    let number = lane_of(request);
    let known =
        request.kind_bits() == HandleKind::LaneRequest as u32 && gate::shared().lanes.get(number).is_some();
    known.then_some(number)
}

/// Takes the request when it has ended: `Err` when there is no such request.
fn take(inner: &mut Inner, request: Handle) -> Result<Option<Done>, ()> {
    let id = inner.find(request).ok_or(())?;
    if !inner.engine.is_complete(id) {
        return Ok(None);
    }
    let owner = inner.engine.owner(id);
    Ok(Some(Done::of(inner.engine.take(id), owner)))
}

fn stale(request: Handle) -> Error {
    weft::table::stale(HandleKind::LaneRequest, request, true)
}

/// Waits for a request in a lane.
pub(crate) fn wait(call: &'static str, number: u32, request: Handle) -> Outcome<Done> {
    let looked = lane(number).look(|inner| take(inner, request)).map_err(|()| stale(request))?;
    if let Some(done) = looked {
        return Ok(done);
    }
    // Another thread may have completed it meanwhile, which the program must not do; then there is nothing to tell.
    let look = |inner: &mut Inner| match take(inner, request) {
        Ok(done) => done,
        Err(()) => Some(Done::new(MpiStatus::EMPTY)),
    };
    Ok(wait_in(number, call, Awaited::One(request), look))
}

/// `MPI_Test` of a request in a lane.
pub(crate) fn test(number: u32, request: Handle) -> Outcome<Option<Done>> {
    let looked = lane(number).look(|inner| take(inner, request)).map_err(|()| stale(request))?;
    if looked.is_some() {
        return Ok(looked);
    }
    gate::progress_process();
    gate::progress_lanes(number);
    Ok(turn_in(number, &mut |inner| take(inner, request).ok().flatten()).1)
}

/// Whether a request in a lane has ended, after one round of progress of everything if it has not.
pub(crate) fn is_done(number: u32, request: Handle) -> Outcome<bool> {
    let ended = |inner: &mut Inner| {
        let id = inner.find(request).ok_or(())?;
        Ok(inner.engine.is_complete(id))
    };
    if lane(number).look(ended).map_err(|()| stale(request))? {
        return Ok(true);
    }
    Ok(poll_in(number, |inner| ended(inner).unwrap_or_default().then_some(())).is_some())
}

/// How a request in a lane has ended, which stays as it is.
pub(crate) fn peek(number: u32, request: Handle) -> Done {
    let peeked = lane(number).look(|inner| {
        let id = inner.find(request)?;
        Some(Done::of(inner.engine.peek(id)?, inner.engine.owner(id)))
    });
    peeked.unwrap_or_else(|| Done::new(MpiStatus::EMPTY))
}

/// Takes a request of a lane that has ended.
pub(crate) fn finish(number: u32, request: Handle) -> Done {
    let taken = lane(number).look(|inner| take(inner, request));
    taken.ok().flatten().unwrap_or_else(|| Done::new(MpiStatus::EMPTY))
}

/// What a probe on a communicator accepts; `None` for `MPI_PROC_NULL`.
#[cold]
pub(crate) fn selector(source: c_int, tag: c_int, comm: MPI_Comm) -> Outcome<Option<Selector>> {
    snapshot::comm(comm.handle(), |comm| comm.selector(source, tag))
}

/// `MPI_Probe` in a lane.
pub(crate) fn probe(number: u32, selector: Selector) -> Outcome<Status> {
    wait_in(number, "MPI_Probe", Awaited::Probe(selector), |inner| {
        let found = inner.engine.iprobe(selector);
        or_hopeless(found, &mut inner.engine, selector)
    })
}

/// Takes a matching message of a lane out, waiting for it (section 3.8.2).
pub(crate) fn mprobe(number: u32, selector: Selector, comm: MPI_Comm) -> Outcome<(MessageId, Status)> {
    let take = |inner: &mut Inner| {
        let found = inner.take_message(selector, comm.handle());
        or_hopeless(found, &mut inner.engine, selector)
    };
    wait_in(number, "MPI_Mprobe", Awaited::Probe(selector), take)
}

/// One round of progress of everything, with a look at a lane.
pub(crate) fn poll_in<T>(number: u32, look: impl FnMut(&mut Inner) -> Option<T>) -> Option<T> {
    gate::progress_process();
    gate::progress_lanes(number);
    let mut look = look;
    turn_in(number, &mut look).1
}

/// Starts the receive of a message that a matched probe took out in a lane; errors come with the communicator.
///
/// # Safety
/// The program leaves the memory alone until the receive is complete.
pub(crate) unsafe fn start_matched(
    (buf, count, datatype): (*mut c_void, i64, MPI_Datatype),
    message: Handle,
) -> Result<Handle, (Handle, Error)> {
    let stale = || (Handle(abi::MPI_COMM_NULL), weft::table::stale(HandleKind::LaneMessage, message, true));
    let lane = gate::shared().lanes.get(lane_of(message)).ok_or_else(stale)?;
    let (id, comm) = lane.look(|inner| inner.message(message)).ok_or_else(stale)?;
    // SAFETY: the caller's promise.
    let buffer = unsafe { snapshot::received(buf, count, datatype) }.map_err(|error| (comm, error))?;
    lane.with(|inner| {
        let request = inner.engine.imrecv(id.local(), buffer)?;
        inner.engine.tag_request(request, comm.0);
        inner.forget_message(message);
        Ok(request_handle(inner.global(request)))
    })
    .map_err(|error| (comm, error))
}

/// The lane of a communicator; 0 with one thread, and for handles that name none.
#[inline]
pub(crate) fn lane_of_comm(comm: MPI_Comm) -> u32 {
    match gate::phase() & gate::LOCKED {
        0 => 0,
        _ => snapshot::comm(comm.handle(), |comm| Ok(comm.lane)).unwrap_or(0),
    }
}

/// A send argument: data, destination, tag.
pub(crate) type Send = ((*const c_void, i64, MPI_Datatype), c_int, c_int);
/// A receive argument: memory, source, tag.
pub(crate) type Receive = ((*mut c_void, i64, MPI_Datatype), c_int, c_int);

/// Starts both halves of a sendrecv on a communicator in a lane of its own; the receive first, so that a message to oneself is
/// matched at once. Gives the send's and the receive's handle.
///
/// # Safety
/// The program's memory stays until both are complete.
pub(crate) unsafe fn start_both(
    (send, dest, sendtag): Send,
    (receive, source, recvtag): Receive,
    comm: MPI_Comm,
) -> Outcome<(Handle, Handle)> {
    // Everything is checked before anything starts: a failing call has no effect.
    let (number, envelope) = envelope(dest, sendtag, comm)?;
    let buffer = match envelope {
        // SAFETY: the caller's promise.
        Some(_) => unsafe { snapshot::sent(send.0, send.1, send.2)? },
        None => SendBuf::empty(),
    };
    // SAFETY: as above.
    let receive = unsafe { start_receive_anyhow(receive, source, recvtag, comm)? };
    Ok((begin(number, envelope, buffer, comm)?, receive))
}

/// As [`start_both`], with the data replaced in place.
///
/// # Safety
/// As [`start_both`].
pub(crate) unsafe fn start_replace(
    (buf, count, datatype): (*mut c_void, i64, MPI_Datatype),
    (dest, sendtag): (c_int, c_int),
    (source, recvtag): (c_int, c_int),
    comm: MPI_Comm,
) -> Outcome<(Handle, Handle)> {
    let (number, envelope) = envelope(dest, sendtag, comm)?;
    let copy = match envelope {
        // SAFETY: the caller's promise; packing reads the data before the receive may change them.
        Some(_) => packed_copy(&unsafe { snapshot::sent(buf.cast_const(), count, datatype)? }),
        None => SendBuf::empty(),
    };
    // SAFETY: the caller's promise.
    let receive = unsafe { start_receive_anyhow((buf, count, datatype), source, recvtag, comm)? };
    Ok((begin(number, envelope, copy, comm)?, receive))
}

fn envelope(dest: c_int, tag: c_int, comm: MPI_Comm) -> Outcome<(u32, Option<Envelope>)> {
    snapshot::comm(comm.handle(), |comm| {
        Ok((comm.lane, comm.destination(dest)?.map(|peer| comm.envelope(peer, tag)).transpose()?))
    })
}

fn begin(number: u32, envelope: Option<Envelope>, buffer: SendBuf, comm: MPI_Comm) -> Outcome<Handle> {
    let Some(envelope) = envelope else { return Ok(request_handle(RequestId::COMPLETE)) };
    lane(number).with(|inner| match inner.engine.send(envelope, SendMode::Standard, buffer)? {
        Started::Complete => Ok(request_handle(RequestId::COMPLETE)),
        Started::Pending(request) => {
            inner.engine.tag_request(request, comm.handle().0);
            Ok(request_handle(inner.global(request)))
        }
    })
}

/// # Safety
/// As [`prepare_receive`].
unsafe fn start_receive_anyhow(
    data: (*mut c_void, i64, MPI_Datatype),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Outcome<Handle> {
    // SAFETY: the caller's promise.
    unsafe { crate::imp::start_receive_locked(data, source, tag, comm) }
}

/// A packed copy of what is to be sent.
fn packed_copy(buffer: &SendBuf) -> SendBuf {
    let copy = Scratch::new(buffer.len());
    if let Some(room) = copy.recv_buf(0, buffer.len()).as_mut_slice() {
        buffer.pack(0, room);
    }
    copy.send_buf(0, buffer.len())
}
