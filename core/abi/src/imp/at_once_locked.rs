//! The short forms ([`super::at_once`]) on communicators of lane 0 when calls take locks, for the thread to which the process's
//! lock is biased: MPI_COMM_WORLD with several threads, and everything at MPI_THREAD_SERIALIZED. Asked by
//! [`super::at_once_lanes`], which has found the communicator among those that the thread remembers.

use std::ffi::{c_int, c_void};

use weft::comm::Comm;
use weft::request::engine_handle;
use weft_datatype::RecvBuf;
use weft_engine::bias::Mine;
use weft_engine::{Ending, Envelope, Selector, Soon};
use weft_types::{Rank, Tag, abi};

use super::at_once::{engine_request, probe, tell_probed};
use super::at_once_parts;
use super::{point_to_point, status};
use crate::ctypes::*;
use crate::gate;
use crate::raise;
use crate::threads::LOCKED_SPINS;

/// Everything was done.
const DONE: Option<c_int> = Some(abi::MPI_SUCCESS);

/// A message whose arguments are in order.
pub(super) struct Message<'a> {
    /// The calling thread.
    pub(super) mine: Mine,
    /// Its communicator, which is of lane 0.
    pub(super) comm: &'a Comm,
    /// Its length, in one run.
    pub(super) bytes: usize,
}

impl Message<'_> {
    /// The envelope of a message from a member.
    #[inline(always)]
    fn from(&self, source: c_int, tag: c_int) -> Envelope {
        let source = Rank(source as u32);
        Envelope { peer: self.comm.group.peer(source), context: self.comm.context, source, tag: Tag(tag) }
    }

    /// Sends it, if that is possible at once.
    ///
    /// # Safety
    /// The bytes at `buf` are the program's data.
    pub(super) unsafe fn send(&self, buf: *const c_void, dest: c_int, tag: c_int) -> Option<()> {
        let comm = self.comm;
        // SAFETY: the caller's promise.
        let data = unsafe { std::slice::from_raw_parts(buf.cast::<u8>(), self.bytes) };
        let mut own = gate::own(self.mine)?;
        let sent = comm.send_at_once(&mut own.process().engine, Rank(dest as u32), Tag(tag), data);
        own.end();
        sent.then_some(())
    }

    /// `MPI_Recv`.
    ///
    /// # Safety
    /// The program keeps the procedure's contract.
    pub(super) unsafe fn recv(
        &self,
        buf: *mut c_void,
        source: c_int,
        tag: c_int,
        status: *mut MPI_Status,
    ) -> Option<c_int> {
        let envelope = self.from(source, tag);
        let owner = self.comm.handle.0;
        let spins = gate::spins().min(LOCKED_SPINS);
        let mut own = gate::own(self.mine)?;
        // SAFETY: the caller's promise: the program's memory is ours during this call.
        let mut buffer = unsafe { RecvBuf::contiguous(buf.cast(), self.bytes) };
        let engine = &mut own.process().engine;
        match engine.receive_at_once(envelope, &mut buffer, spins) {
            Soon::Received(received) => {
                own.leave(spins > 1);
                // SAFETY: the program's status.
                unsafe { status::write_message(status, &received) };
                DONE
            }
            Soon::Announced => {
                // Its data are on their way: posted now, they are not copied twice.
                let posted = engine.post_at_once(envelope, buffer, owner);
                own.leave(spins > 1);
                let done = point_to_point::complete("MPI_Recv", posted?);
                // SAFETY: the program's status.
                unsafe { status::write_message(status, &done.status) };
                let comm = MPI_Comm::from_raw(owner);
                Some(raise::finish_on_comm("MPI_Recv", comm, point_to_point::check(done.error)))
            }
            Soon::Behind | Soon::Nothing => {
                own.leave(spins > 1);
                None
            }
        }
    }

    /// `MPI_Irecv`.
    ///
    /// # Safety
    /// The program keeps the procedure's contract; `request` is not null.
    pub(super) unsafe fn irecv(
        &self,
        buf: *mut c_void,
        source: c_int,
        tag: c_int,
        request: *mut MPI_Request,
    ) -> Option<c_int> {
        let envelope = self.from(source, tag);
        let mut own = gate::own(self.mine)?;
        // SAFETY: the caller's promise: the program's memory stays until the request is complete.
        let buffer = unsafe { RecvBuf::contiguous(buf.cast(), self.bytes) };
        let posted = own.process().engine.post_at_once(envelope, buffer, self.comm.handle.0);
        own.end();
        let posted = posted?;
        // SAFETY: not null, so the program's request.
        unsafe { request.write(MPI_Request::from_raw(engine_handle(posted).0)) };
        DONE
    }
}

/// `MPI_Iprobe`.
///
/// # Safety
/// The program keeps the procedure's contract; `flag` is not null.
pub(super) unsafe fn iprobe(
    mine: Mine,
    selector: Selector,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Option<c_int> {
    gate::progress_lanes(0);
    let mut own = gate::own(mine)?;
    let process = own.process();
    let moved = process.progress();
    let found = probe(&mut process.engine, selector);
    own.leave(moved);
    // SAFETY: not null; the program's status.
    unsafe { tell_probed(found?, flag, status) }
}

/// `MPI_Wait` of a request of lane 0, not one that was complete when it started, that has ended well, or does so in one round
/// of progress.
///
/// # Safety
/// The program keeps the procedure's contract; `request` is not null.
pub(super) unsafe fn wait(mine: Mine, request: *mut MPI_Request, status: *mut MPI_Status) -> Option<c_int> {
    // SAFETY: not null, so the program's request.
    let pending = unsafe { *request };
    let Some(id) = engine_request(pending) else {
        // SAFETY: the caller's promise.
        return unsafe { at_once_parts::wait_locked(mine, pending, status) };
    };
    let mut own = gate::own(mine)?;
    let process = own.process();
    let (mut ending, mut moved) = (process.engine.ending(id), false);
    if ending == Ending::NotYet {
        moved = process.progress();
        ending = process.engine.ending(id);
    }
    let done = (ending == Ending::Well).then(|| process.engine.take_well(id));
    own.leave(moved);
    let done = done?;
    // SAFETY: the program's request and status.
    unsafe {
        request.write(MPI_Request::from_raw(abi::MPI_REQUEST_NULL));
        status::write_message(status, &done);
    }
    DONE
}
