//! The short forms of the two reduce-scatters; see [`super`].

use std::ffi::{c_int, c_void};

use weft_coll::rounds::Shape;

use super::plain::{Call, Plain};
use super::way::{Held, Way};
use super::{Part, apart, fold, kernel, plain, result, run, show_to_others};
use crate::ctypes::*;

/// `MPI_Reduce_scatter_block`.
///
/// # Safety
/// See [`super::barrier`].
#[inline(always)]
pub(crate) unsafe fn reduce_scatter_block(
    way: impl Way,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        scatter_reduced(
            ("MPI_Reduce_scatter_block", way.enter()?),
            sendbuf,
            recvbuf,
            recvcount,
            datatype,
            op,
            comm,
        )
    }
}

/// `MPI_Reduce_scatter` with equal counts.
///
/// # Safety
/// See [`super::barrier`].
#[inline(always)]
pub(crate) unsafe fn reduce_scatter(
    way: impl Way,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: IntArray,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    let mut held = way.enter()?;
    let members = held.process().comms.rounds(comm.raw())?.cells_here().members();
    if recvcounts.is_null() {
        return None;
    }
    // SAFETY: the program passes one count for every member.
    let count = |member: u32| unsafe { recvcounts.get(member as usize) };
    let recvcount = count(0);
    if (1..members).any(|member| count(member) != recvcount) {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { scatter_reduced(("MPI_Reduce_scatter", held), sendbuf, recvbuf, recvcount, datatype, op, comm) }
}

/// What both forms of reduce-scatter do: a block of `recvcount` elements for each member.
///
/// # Safety
/// See [`super::barrier`].
#[inline(always)]
unsafe fn scatter_reduced(
    (name, mut held): (&'static str, impl Held),
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    let process = held.process();
    let (bytes, element) = plain(process, recvbuf, recvcount, datatype)?;
    let kernel = kernel(process, op, datatype)?;
    let cells = process.comms.rounds(comm.raw())?.cells_here();
    let (members, me) = (cells.members(), cells.me());
    let whole = bytes * members as usize;
    if !apart(sendbuf, whole, recvbuf, bytes) {
        return None;
    }
    let memory = Plain::new(sendbuf, recvbuf, Some(kernel), false);
    let shape = Shape::ReduceScatter;
    let call = Call { name, shape, bytes, element, in_place: false, memory };
    // SAFETY: the caller's promise, in all closures.
    unsafe {
        run(
            held,
            comm,
            call,
            whole - bytes,
            Part::of_all,
            |room, past| show_to_others(me, sendbuf, bytes, room, past),
            || {},
            |payloads| {
                let own = std::slice::from_raw_parts(sendbuf.cast::<u8>().add(me as usize * bytes), bytes);
                let term = |member| if member == me { own } else { payloads.block_of(member, bytes) };
                fold(payloads.cells, kernel, term, result(recvbuf, bytes));
            },
        )
    }
}
