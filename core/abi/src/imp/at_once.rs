//! The short forms of the calls whose instructions are counted (`benches/instructions`): each does the most frequent case
//! from end to end and answers the code to return, or does nothing at all. Their entry points ask them first; what is
//! wrong, rare or slow is found and told by the full form.
//!
//! The frequent case: one thread (with several: [`super::at_once_lanes`]), a communicator with ranks that are named, a predefined
//! datatype without gaps, a small message.

use std::ffi::{c_int, c_void};

use weft::Process;
use weft::comm::{Comm, Comms};
use weft::request::{MpiStatus, engine_handle};
use weft_datatype::{RecvBuf, SendBuf};
use weft_engine::{Arriving, Ending, Engine, Envelope, RequestId, Selector, Soon, Started, Status};
use weft_types::{HandleKind, PeerId, Rank, Tag, abi};

use super::at_once_parts;
use super::communicators;
use super::point_to_point::{self, LAST_ADDRESS_CONSTANT};
use super::status;
use crate::ctypes::*;
use crate::gate::{self, Alone};
use crate::raise::{self, Raised};

pub(crate) use super::at_once_parts::{pready, start};
pub(crate) use super::at_once_windows::put;

/// Tells the compiler that whoever calls it is seldom there, so that the usual way restores no arguments for the full form. A call
/// of nothing that stays one: of a function that is inlined nothing would be told.
#[cold]
#[inline(never)]
fn rare() {
    std::hint::black_box(());
}

/// `done`, which is usually true.
#[inline(always)]
pub(super) fn usually(done: bool) -> bool {
    if !done {
        rare();
    }
    done
}

/// Everything was done.
pub(super) const DONE: Option<c_int> = Some(abi::MPI_SUCCESS);

/// Bytes of `count` elements that lie in one run at `buf`; `None` for whatever is not simple or not small.
#[inline(always)]
pub(super) fn run(
    process: &Process,
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
) -> Option<usize> {
    // Unsigned, so that negative counts are large; the product of what passes cannot overflow.
    let small = (count as u64) < 1 << 40 && buf.addr() > LAST_ADDRESS_CONSTANT;
    if small { Some(process.types.plain_size(datatype.raw())? * count as usize) } else { None }
}

/// The communicator of a handle that names one.
#[inline(always)]
fn find(comms: &Comms, comm: MPI_Comm) -> Option<&Comm> {
    match comms.predefined(comm.raw()) {
        Some(comm) => Some(comm),
        None => comms.find(comm.handle()),
    }
}

/// The communicator and the rank, when the rank is a member's.
#[inline(always)]
fn member(comms: &Comms, comm: MPI_Comm, rank: c_int, tag: c_int) -> Option<&Comm> {
    let comm = find(comms, comm)?;
    ((rank as u32) < comm.size && tag >= 0).then_some(comm)
}

/// # Safety
/// The program keeps the contract of a send.
#[inline(always)]
unsafe fn send_now(
    process: &mut Process,
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> bool {
    let Some(bytes) = run(process, buf, count, datatype) else { return false };
    let Some(comm) = member(&process.comms, comm, dest, tag) else { return false };
    // SAFETY: the caller's promise: these bytes are the program's data, left alone during the call.
    let data = unsafe { std::slice::from_raw_parts(buf.cast::<u8>(), bytes) };
    comm.send_at_once(&mut process.engine, Rank(dest as u32), Tag(tag), data)
}

/// `MPI_Send`.
///
/// # Safety
/// As for every entry: the program keeps the procedure's contract. One thread calls and MPI is active, as
/// [`gate::is_active_alone`] said. The same holds for all functions here.
#[inline(always)]
pub(crate) unsafe fn send(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    // SAFETY: the caller's promise.
    if unsafe { send_now(alone.process(), buf, count, datatype, dest, tag, comm) } { DONE } else { None }
}

/// A message beyond one cell of the transport, up to the largest that is sent without asking; `None`: nothing was done. Asked by
/// the full form, so that the shortest messages save no registers for it.
///
/// # Safety
/// The program keeps the contract of a send.
#[inline(always)]
pub(crate) unsafe fn send_longer(
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<Result<(), Raised>> {
    if !gate::is_active_alone() {
        return None;
    }
    // SAFETY: the gate has just said so; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    let process = alone.process();
    let bytes = run(process, buf, count, datatype)?;
    let comm = member(&process.comms, comm, dest, tag)?;
    let peer = comm.group.peer(Rank(dest as u32));
    let envelope = Envelope { peer, context: comm.context, source: comm.rank, tag: Tag(tag) };
    let owner = comm.handle.0;
    // SAFETY: the caller's promise: these bytes are the program's data, left alone during the call.
    let data = unsafe { std::slice::from_raw_parts(buf.cast::<u8>(), bytes) };
    if process.engine.takes_turn(peer, bytes) {
        return send_in_turn(alone, envelope, data, owner);
    }
    if bytes > Engine::PIECE
        && let Some(begun) = send_in_pieces(process, envelope, data, owner)
    {
        // Waiting enters the gate.
        drop(alone);
        return Some(match begun {
            Ok(Started::Complete) => Ok(()),
            Ok(Started::Pending(id)) => point_to_point::check(point_to_point::complete("MPI_Send", id).error),
            Err(error) => Err(error),
        });
    }
    process.engine.send_packet_at_once(envelope, data).then_some(Ok(()))
}

/// Sends a message that its receiver may read, and waits; `None`: nothing was done.
#[cold]
#[inline(never)]
fn send_in_turn(mut alone: Alone, to: Envelope, data: &[u8], owner: u32) -> Option<Result<(), Raised>> {
    let process = alone.process();
    // SAFETY: the bytes are the program's, left alone during the call, which waits until they are taken.
    let buffer = unsafe { SendBuf::contiguous(data.as_ptr(), data.len()) };
    let begun = process.engine.send_in_turn(to, buffer).ok()?;
    if let Ok(Started::Pending(id)) = begun {
        process.engine.tag_request(id, owner);
    }
    // Waiting enters the gate.
    drop(alone);
    Some(match begun {
        Ok(Started::Complete) => Ok(()),
        Ok(Started::Pending(id)) => {
            // What the receiver sends next stays where it is until the program asks for it.
            match await_packets(id, to.peer) {
                Some(_) => Ok(()),
                None => point_to_point::check(point_to_point::complete("MPI_Send", id).error),
            }
        }
        Err(error) => Err(error.into()),
    })
}

/// Begins a message of several pieces; `None`: nothing was done.
#[cold]
#[inline(never)]
fn send_in_pieces(
    process: &mut Process,
    to: Envelope,
    data: &[u8],
    owner: u32,
) -> Option<Result<Started, Raised>> {
    // Where ranks share cores nobody copies the first piece out while the next one is copied in.
    if process.spins() == 1 {
        return None;
    }
    let engine = &mut process.engine;
    let moved = engine.send_pieces(to, data, Engine::PIECE)?;
    if moved == data.len() {
        return Some(Ok(Started::Complete));
    }
    // SAFETY: the bytes are the program's, left alone during the call, which waits for the rest.
    let buffer = unsafe { SendBuf::contiguous(data.as_ptr(), data.len()) };
    let started = engine.send_on(to, buffer, moved);
    if let Ok(Started::Pending(id)) = started {
        engine.tag_request(id, owner);
    }
    Some(started.map_err(Raised::from))
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
    // SAFETY: the caller's promise; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    // SAFETY: the caller's promise.
    if !unsafe { send_now(alone.process(), buf, count, datatype, dest, tag, comm) } {
        return None;
    }
    // SAFETY: not null, so the program's request.
    unsafe { request.write(MPI_Request::from_raw(engine_handle(RequestId::COMPLETE).0)) };
    DONE
}

/// What `MPI_Recv` waits for, the program's memory, and the communicator's handle; `None`: it is not simple.
///
/// # Safety
/// See [`send`].
#[inline(always)]
unsafe fn awaited(
    process: &Process,
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<(Envelope, RecvBuf, u32)> {
    let bytes = run(process, buf, count, datatype)?;
    let comm = member(&process.comms, comm, source, tag)?;
    let source = Rank(source as u32);
    let envelope = Envelope { peer: comm.group.peer(source), context: comm.context, source, tag: Tag(tag) };
    // SAFETY: the caller's promise: the program's memory is ours during this call.
    Some((envelope, unsafe { RecvBuf::contiguous(buf.cast(), bytes) }, comm.handle.0))
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
    // SAFETY: the caller's promise; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    let process = alone.process();
    // SAFETY: the caller's promise.
    let (envelope, mut buffer, _) = unsafe { awaited(process, buf, count, datatype, source, tag, comm) }?;
    let spins = process.spins();
    match process.engine.receive_at_once(envelope, &mut buffer, spins) {
        Soon::Received(received) => {
            // SAFETY: the program's status.
            unsafe { status::write_message(status, &received) };
            DONE
        }
        Soon::Announced | Soon::Behind => {
            drop(alone);
            // SAFETY: the caller's promise.
            unsafe { recv_pieces(buf, count, datatype, source, tag, comm, status) }
        }
        Soon::Nothing => None,
    }
}

/// `MPI_Recv` of a message that is announced, or behind another packet; `None`: nothing was done that the general way would not do.
/// Out of line with the program's arguments, which the caller has at hand anyway.
///
/// # Safety
/// See [`send`].
#[cold]
#[inline(never)]
unsafe fn recv_pieces(
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Option<c_int> {
    // SAFETY: the caller's promise; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    let process = alone.process();
    // SAFETY: the caller's promise.
    let (envelope, mut buffer, owner) = unsafe { awaited(process, buf, count, datatype, source, tag, comm) }?;
    let spins = process.spins();
    match process.engine.receive_behind_credit(envelope, &mut buffer, spins) {
        Soon::Received(received) => {
            // SAFETY: the program's status.
            unsafe { status::write_message(status, &received) };
            DONE
        }
        // SAFETY: the caller's promise.
        Soon::Announced => unsafe { recv_announced(alone, envelope, buffer, owner, status) },
        Soon::Behind | Soon::Nothing => None,
    }
}

/// `MPI_Recv` of a message that is announced; `None`: nothing was done.
///
/// # Safety
/// See [`send`].
#[cold]
#[inline(never)]
unsafe fn recv_announced(
    mut alone: Alone,
    envelope: Envelope,
    buffer: RecvBuf,
    owner: u32,
    status: *mut MPI_Status,
) -> Option<c_int> {
    let engine = &mut alone.process().engine;
    let id = match engine.receive_pieces(envelope, buffer, owner, LOOKS) {
        Ok(Arriving::Received(received)) => {
            // SAFETY: the program's status.
            unsafe { status::write_message(status, &received) };
            return DONE;
        }
        Ok(Arriving::Begun(id)) => id,
        Ok(Arriving::Nothing(buffer)) => engine.post_at_once(envelope, buffer, owner)?,
        Err(error) => {
            drop(alone);
            let comm = MPI_Comm::from_raw(owner);
            return Some(raise::finish_on_comm("MPI_Recv", comm, Err(Raised::from(error))));
        }
    };
    let (comm, peer) = (MPI_Comm::from_raw(owner), envelope.peer);
    // Waiting enters the gate.
    drop(alone);
    // SAFETY: the program's status.
    Some(raise::finish_on_comm("MPI_Recv", comm, unsafe { await_announced(id, peer, status) }))
}

/// Turns of waiting for an announced message, which is on its way, before the wait becomes one like any other.
const TURNS: u32 = 100;

/// Looks at the sender's packets alone in each of them.
const LOOKS: u32 = 32;

/// Waits for the message of a receive that was posted because the message is announced.
///
/// # Safety
/// The gate is open; `status` is the program's.
#[inline(never)]
unsafe fn await_announced(id: RequestId, peer: PeerId, status: *mut MPI_Status) -> Result<(), Raised> {
    if let Some(received) = await_packets(id, peer) {
        // SAFETY: the caller's promise.
        unsafe { status::write_message(status, &received) };
        return Ok(());
    }
    let completion = point_to_point::complete("MPI_Recv", id);
    // SAFETY: the caller's promise.
    unsafe { status::write_message(status, &completion.status) };
    point_to_point::check(completion.error)
}

/// Waits for packets of `peer` that end a request. `None`: it has ended otherwise, or should be waited for as any other.
#[inline(always)]
fn await_packets(id: RequestId, peer: PeerId) -> Option<Status> {
    for _ in 0..TURNS {
        // SAFETY: the call has passed its phase check; given back at the end of this turn.
        let mut alone = unsafe { gate::alone()? };
        let process = alone.process();
        let (mut ending, mut moved) = (process.engine.receive_rest(peer, id, LOOKS), true);
        if ending == Ending::NotYet {
            moved = process.progress();
            ending = process.engine.ending(id);
        }
        match ending {
            Ending::Well => return Some(process.engine.take_well(id)),
            Ending::Otherwise => break,
            // Where ranks share cores the other one may need this one's.
            Ending::NotYet if process.spins() == 1 || process.engine.has_callback() => break,
            Ending::NotYet if moved => {}
            Ending::NotYet => std::hint::spin_loop(),
        }
    }
    None
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
    // SAFETY: the caller's promise; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    let process = alone.process();
    let bytes = run(process, buf, count, datatype)?;
    let comm = member(&process.comms, comm, source, tag)?;
    let source = Rank(source as u32);
    let envelope = Envelope { peer: comm.group.peer(source), context: comm.context, source, tag: Tag(tag) };
    // SAFETY: the caller's promise: the program's memory stays until the request is complete.
    let buffer = unsafe { RecvBuf::contiguous(buf.cast(), bytes) };
    let id = process.engine.post_at_once(envelope, buffer, comm.handle.0)?;
    // SAFETY: not null, so the program's request.
    unsafe { request.write(MPI_Request::from_raw(engine_handle(id).0)) };
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
    if flag.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    let process = alone.process();
    let comm = member(&process.comms, comm, source, tag)?;
    let source = Rank(source as u32);
    let (peer, tag) = (Some(comm.group.peer(source)), Some(Tag(tag)));
    let selector = Selector { context: comm.context, peer, source: Some(source), tag };
    process.progress();
    let found = probe(&mut process.engine, selector)?;
    // SAFETY: not null; the program's status.
    unsafe { tell_probed(found, flag, status) }
}

/// What a probe finds after progress. `None`: user functions are to run first, or maybe nobody is left who could send it.
#[inline(always)]
pub(super) fn probe(engine: &mut Engine, selector: Selector) -> Option<Option<Status>> {
    if engine.has_callback() {
        return None;
    }
    let found = engine.iprobe(selector);
    (found.is_some() || !engine.knows_losses()).then_some(found)
}

/// Tells the program of `MPI_Iprobe` what was found.
///
/// # Safety
/// `flag` is not null, `status` the program's.
#[inline(always)]
pub(super) unsafe fn tell_probed(
    found: Option<Status>,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        flag.write(c_int::from(found.is_some()));
        if let Some(found) = found {
            status::write_message(status, &found);
        }
    }
    DONE
}

/// `MPI_Comm_rank`.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub(crate) unsafe fn comm_rank(comm: MPI_Comm, rank: *mut c_int) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe { ask(comm, rank, communicators::rank) }
}

/// `MPI_Comm_size`.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub(crate) unsafe fn comm_size(comm: MPI_Comm, size: *mut c_int) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe { ask(comm, size, communicators::size) }
}

/// Asks a communicator for a number.
///
/// # Safety
/// See [`send`].
#[inline(always)]
unsafe fn ask(comm: MPI_Comm, answer: *mut c_int, question: impl Fn(&Comm) -> c_int) -> Option<c_int> {
    if answer.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; given back before the gate is entered again.
    let mut alone = unsafe { gate::enter_alone()? };
    let value = question(find(&alone.process().comms, comm)?);
    // SAFETY: not null, so the program's number.
    unsafe { answer.write(value) };
    DONE
}

/// `MPI_Wait`.
///
/// # Safety
/// See [`send`].
#[inline(always)]
pub(crate) unsafe fn wait(request: *mut MPI_Request, status: *mut MPI_Status) -> Option<c_int> {
    if request.is_null() {
        return None;
    }
    // SAFETY: not null, so the program's request.
    let request = unsafe { &mut *request };
    let Some(id) = engine_request(*request) else {
        // SAFETY: the caller's promise.
        return unsafe { at_once_parts::wait(*request, status) };
    };
    // A send that was complete when it began needs nothing of the process.
    if id == RequestId::COMPLETE {
        // SAFETY: the program's status.
        unsafe { status::write(status, &MpiStatus::NO_MESSAGE) };
    } else {
        // SAFETY: the caller's promise; given back before the gate is entered again.
        let mut alone = unsafe { gate::enter_alone()? };
        let done = take(alone.process(), id)?;
        // SAFETY: the program's status.
        unsafe { status::write_message(status, &done) };
    }
    *request = MPI_Request::from_raw(abi::MPI_REQUEST_NULL);
    DONE
}

/// Takes a request of the engine's that has ended well, or does so in one round of progress.
#[inline(always)]
fn take(process: &mut Process, id: RequestId) -> Option<Status> {
    match process.engine.ending(id) {
        Ending::Well => {}
        Ending::Otherwise => return None,
        Ending::NotYet => {
            process.progress();
            if process.engine.ending(id) != Ending::Well {
                return None;
            }
        }
    }
    Some(process.engine.take_well(id))
}

/// Completes a request that is one of the engine's and has ended well, or does so in one round of progress.
///
/// # Safety
/// `status` is the program's.
#[inline(always)]
pub(super) unsafe fn complete(
    process: &mut Process,
    request: &mut MPI_Request,
    status: *mut MPI_Status,
) -> bool {
    let Some(id) = engine_request(*request) else { return false };
    if id == RequestId::COMPLETE {
        // SAFETY: the caller's promise.
        unsafe { status::write(status, &MpiStatus::NO_MESSAGE) };
    } else {
        let Some(done) = take(process, id) else { return false };
        // SAFETY: the caller's promise.
        unsafe { status::write_message(status, &done) };
    }
    *request = MPI_Request::from_raw(abi::MPI_REQUEST_NULL);
    true
}

/// The engine's name of a request, if it looks like one of the engine's.
#[inline(always)]
pub(super) fn engine_request(request: MPI_Request) -> Option<RequestId> {
    let id = request.raw().wrapping_sub((HandleKind::Request as usize) << 27);
    (id < 1 << 27).then_some(RequestId(id as u32))
}
