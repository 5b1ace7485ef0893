//! Collective operations (sections 6.3 to 6.12): arguments into a [`Call`], memory, and a started request. The blocking
//! forms wait for it.
//!
//! Only significant arguments are looked at (section 2.3): receive arguments of rooted operations at the root, nothing
//! of a send argument that is `MPI_IN_PLACE`.

use std::ffi::{c_int, c_void};

use weft::Process;
use weft::comm::Comm;
use weft_coll::Call;
use weft_datatype::Memory;
use weft_engine::Arguments;
use weft_types::{Error, ErrorClass, Handle, Result as Outcome, abi};

use super::collective_forms::{
    Check, Form, Keep, Start, StartInLane, blocking, nonblocking, operations, persistent,
};
use super::collective_inter as inter;
use super::collective_memory::{
    Data, List, Places, Typed, check_own, is_in_place, read, read_blocks, read_copies, typed_reads,
    typed_writes, writable, write, write_blocks,
};
use super::objects::Objects;
use super::reductions::{
    allreduce_call, exscan_call, scan_call, scatter_counts, start_reduce, start_reduce_scatter,
    start_reduction_at_all,
};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::snapshot::Known;

/// Returns once every process of the job has called it, or a process is known to be lost: those who are left must come
/// to their end without it (section 11.2.2).
pub(super) fn last_barrier(call: &'static str) -> Result<(), Raised> {
    let begun = gate::with(|process| {
        match start_barrier(Start("finalize"), process, MPI_Comm::from_raw(abi::MPI_COMM_WORLD)) {
            Err(error) if tells_of_a_loss(process, &error) => Ok(None),
            begun => begun.map(Some),
        }
    })?;
    let Some(request) = begun else { return Ok(()) };
    let error = gate::wait_for(call, crate::watch::Awaited::Own(request), |process| {
        match process.engine.is_complete(request) {
            true => Some(process.engine.take(request).error),
            false => process.engine.knows_losses().then_some(None),
        }
    });
    match error {
        Some(error) if !gate::with(|process| tells_of_a_loss(process, &error)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether a barrier fails because a process is gone: an operation with it may find that before its death is told.
fn tells_of_a_loss(process: &Process, error: &Error) -> bool {
    process.engine.knows_losses() || error.class() == ErrorClass::PROC_ABORTED
}

/// Returns once every process of the communicator, in both groups of an intercommunicator, has called it.
pub(super) fn barrier_of_everyone(call: &'static str, comm: Handle) -> Result<(), Raised> {
    let arguments = || Arguments::new(Memory::none(), Memory::none());
    blocking(call, &mut |process| process.start_on_everyone(comm, &Call::Barrier, arguments(), None))
}

/// Where a call is made: on one group, or on the two of an intercommunicator.
#[inline]
pub(super) fn place(process: &impl Objects, comm: MPI_Comm) -> Outcome<&Comm> {
    process.comm(comm.handle())
}

fn start_barrier<F: Form>(form: F, process: &mut F::On, comm: MPI_Comm) -> Outcome<F::Made> {
    if place(process, comm)?.inter.is_some() {
        return inter::start_barrier(form, process, comm);
    }
    form.collective(process, comm, &Call::Barrier, Arguments::new(Memory::none(), Memory::none()), None)
}

unsafe fn start_bcast<F: Form>(
    form: F,
    process: &mut F::On,
    data: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    if place.inter.is_some() {
        // SAFETY: as here.
        return unsafe { inter::start_bcast(form, process, data, root, comm) };
    }
    let root = place.root(root)?.0;
    // SAFETY: the program's memory stays until the operation is complete.
    let (memory, bytes) = unsafe {
        match place.rank.0 == root {
            true => writable(process, data, 1)?,
            false => write(process, data, 1)?,
        }
    };
    let arguments = Arguments::new(Memory::none(), memory);
    form.collective(process, comm, &Call::Bcast { root, bytes }, arguments, None)
}

unsafe fn start_gather<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    if place.inter.is_some() {
        // SAFETY: as here.
        return unsafe { inter::start_gather(form, process, send, recv, root, comm) };
    }
    let (root, rank, size) = (place.root(root)?.0, place.rank.0, place.size);
    let in_place = rank == root && is_in_place(send.0);
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, sent), (into, received)) = unsafe {
        (
            if in_place { (Memory::none(), 0) } else { read(process, send)? },
            if rank == root { write(process, recv, size)? } else { (Memory::none(), 0) },
        )
    };
    let bytes = if rank == root { received } else { sent };
    if rank == root && !in_place {
        check_own(sent, received)?;
    }
    let call = Call::Gather { root, bytes, in_place };
    form.collective(process, comm, &call, Arguments::new(from, into), None)
}

unsafe fn start_gatherv<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    (recvbuf, recv, recvtype): (*mut c_void, Places, MPI_Datatype),
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    if place.inter.is_some() {
        // SAFETY: as here.
        return unsafe { inter::start_gatherv(form, process, send, (recvbuf, recv, recvtype), root, comm) };
    }
    let (root, rank, size) = (place.root(root)?.0, place.rank.0, place.size);
    let in_place = rank == root && is_in_place(send.0);
    // SAFETY: the program's memory stays until the operation is complete.
    unsafe {
        let (from, bytes) = if in_place { (Memory::none(), 0) } else { read(process, send)? };
        let (blocks, into) = match rank == root {
            true => write_blocks(process, recvbuf, recvtype, "recvcounts", recv, size)?,
            false => (List::new(), Memory::none()),
        };
        if rank == root && !in_place {
            check_own(bytes, blocks[rank as usize].bytes)?;
        }
        let call = Call::Gatherv { root, bytes, blocks: &blocks, in_place };
        form.collective(process, comm, &call, Arguments::new(from, into), None)
    }
}

unsafe fn start_scatter<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    if place.inter.is_some() {
        // SAFETY: as here.
        return unsafe { inter::start_scatter(form, process, send, recv, root, comm) };
    }
    let (root, rank, size) = (place.root(root)?.0, place.rank.0, place.size);
    let in_place = rank == root && is_in_place(recv.0);
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, sent), (into, received)) = unsafe {
        (
            if rank == root { read_copies(process, send, size)? } else { (Memory::none(), 0) },
            if in_place { (Memory::none(), 0) } else { write(process, recv, 1)? },
        )
    };
    let bytes = if rank == root { sent } else { received };
    if rank == root && !in_place {
        check_own(sent, received)?;
    }
    let call = Call::Scatter { root, bytes, in_place };
    form.collective(process, comm, &call, Arguments::new(from, into), None)
}

unsafe fn start_scatterv<F: Form>(
    form: F,
    process: &mut F::On,
    (sendbuf, send, sendtype): (*const c_void, Places, MPI_Datatype),
    recv: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    if place.inter.is_some() {
        // SAFETY: as here.
        return unsafe { inter::start_scatterv(form, process, (sendbuf, send, sendtype), recv, root, comm) };
    }
    let (root, rank, size) = (place.root(root)?.0, place.rank.0, place.size);
    let in_place = rank == root && is_in_place(recv.0);
    // SAFETY: the program's memory stays until the operation is complete.
    unsafe {
        let (into, bytes) = if in_place { (Memory::none(), 0) } else { write(process, recv, 1)? };
        let (blocks, from) = match rank == root {
            true => read_blocks(process, sendbuf, sendtype, "sendcounts", send, size)?,
            false => (List::new(), Memory::none()),
        };
        if rank == root && !in_place {
            check_own(blocks[rank as usize].bytes, bytes)?;
        }
        let call = Call::Scatterv { root, bytes, blocks: &blocks, in_place };
        form.collective(process, comm, &call, Arguments::new(from, into), None)
    }
}

unsafe fn start_allgather<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    if place.inter.is_some() {
        // SAFETY: as here.
        return unsafe { inter::start_allgather(form, process, send, recv, comm) };
    }
    let size = place.size;
    let in_place = is_in_place(send.0);
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, sent), (into, bytes)) = unsafe {
        (if in_place { (Memory::none(), 0) } else { read(process, send)? }, write(process, recv, size)?)
    };
    if !in_place {
        check_own(sent, bytes)?;
    }
    let call = Call::Allgather { bytes, in_place };
    form.collective(process, comm, &call, Arguments::new(from, into), None)
}

unsafe fn start_allgatherv<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    (recvbuf, recv, recvtype): (*mut c_void, Places, MPI_Datatype),
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    if place.inter.is_some() {
        // SAFETY: as here.
        return unsafe { inter::start_allgatherv(form, process, send, (recvbuf, recv, recvtype), comm) };
    }
    let (size, rank) = (place.size, place.rank.0 as usize);
    let in_place = is_in_place(send.0);
    // SAFETY: the program's memory stays until the operation is complete.
    unsafe {
        let (from, sent) = if in_place { (Memory::none(), 0) } else { read(process, send)? };
        let (blocks, into) = write_blocks(process, recvbuf, recvtype, "recvcounts", recv, size)?;
        if !in_place {
            check_own(sent, blocks[rank].bytes)?;
        }
        let call = Call::Allgatherv { blocks: &blocks, in_place };
        form.collective(process, comm, &call, Arguments::new(from, into), None)
    }
}

unsafe fn start_alltoall<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    if place.inter.is_some() {
        // SAFETY: as here.
        return unsafe { inter::start_alltoall(form, process, send, recv, comm) };
    }
    let size = place.size;
    let in_place = is_in_place(send.0);
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, sent), (into, bytes)) = unsafe {
        (
            if in_place { (Memory::none(), 0) } else { read_copies(process, send, size)? },
            write(process, recv, size)?,
        )
    };
    if !in_place {
        check_own(sent, bytes)?;
    }
    let call = Call::Alltoall { bytes, in_place };
    form.collective(process, comm, &call, Arguments::new(from, into), None)
}

unsafe fn start_alltoallv<F: Form>(
    form: F,
    process: &mut F::On,
    (sendbuf, send, sendtype): (*const c_void, Places, MPI_Datatype),
    (recvbuf, recv, recvtype): (*mut c_void, Places, MPI_Datatype),
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    if place.inter.is_some() {
        // SAFETY: as here.
        return unsafe {
            inter::start_alltoallv(form, process, (sendbuf, send, sendtype), (recvbuf, recv, recvtype), comm)
        };
    }
    let (size, rank) = (place.size, place.rank.0 as usize);
    let in_place = is_in_place(sendbuf);
    // SAFETY: the program's memory stays until the operation is complete.
    unsafe {
        let (sent, from) = match in_place {
            true => (List::new(), Memory::none()),
            false => read_blocks(process, sendbuf, sendtype, "sendcounts", send, size)?,
        };
        let (received, into) = write_blocks(process, recvbuf, recvtype, "recvcounts", recv, size)?;
        if !in_place {
            check_own(sent[rank].bytes, received[rank].bytes)?;
        }
        let call = Call::Alltoallv { send: &sent, recv: &received, in_place };
        form.collective(process, comm, &call, Arguments::new(from, into), None)
    }
}

unsafe fn start_alltoallw<F: Form>(
    form: F,
    process: &mut F::On,
    (sendbuf, send): (*const c_void, Typed),
    (recvbuf, recv): (*mut c_void, Typed),
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    if place.inter.is_some() {
        // SAFETY: as here.
        return unsafe { inter::start_alltoallw(form, process, (sendbuf, send), (recvbuf, recv), comm) };
    }
    let (size, rank) = (place.size, place.rank.0 as usize);
    let in_place = is_in_place(sendbuf);
    // SAFETY: the program's memory stays until the operation is complete.
    unsafe {
        let (sent, send_peers) = match in_place {
            true => (List::new(), Vec::new()),
            false => typed_reads(process, sendbuf, send, size)?,
        };
        let (received, recv_peers) = typed_writes(process, recvbuf, recv, size)?;
        if !in_place {
            check_own(sent[rank], received[rank])?;
        }
        let call = Call::Alltoallw { send: &sent, recv: &received, in_place };
        let arguments =
            Arguments { send_peers, recv_peers, ..Arguments::new(Memory::none(), Memory::none()) };
        form.collective(process, comm, &call, arguments, None)
    }
}

operations! {
    barrier ibarrier barrier_init(comm: MPI_Comm) "Barrier" |form, process, comm| start_barrier(form, process, comm);
    bcast ibcast bcast_init(buffer: *mut c_void, count: i64, datatype: MPI_Datatype, root: c_int, comm: MPI_Comm) "Bcast"
        |form, process, comm| start_bcast(form, process, (buffer, count, datatype), root, comm);
    gather igather gather_init(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) "Gather" |form, process, comm| start_gather(form, process, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root, comm
    );
    gatherv igatherv gatherv_init(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: IntArray, displs: IntArray, recvtype: MPI_Datatype,
        root: c_int, comm: MPI_Comm
    ) "Gatherv" |form, process, comm| start_gatherv(form, process, (sendbuf, sendcount, sendtype),
        (recvbuf, Places { counts: recvcounts, displacements: displs }, recvtype), root, comm
    );
    scatter iscatter scatter_init(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) "Scatter" |form, process, comm| start_scatter(form, process, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root, comm
    );
    scatterv iscatterv scatterv_init(
        sendbuf: *const c_void, sendcounts: IntArray, displs: IntArray, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) "Scatterv" |form, process, comm| start_scatterv(form, process, (sendbuf, Places { counts: sendcounts, displacements: displs }, sendtype),
        (recvbuf, recvcount, recvtype), root, comm
    );
    allgather iallgather allgather_init(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Allgather" |form, process, comm| start_allgather(form, process, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), comm
    );
    allgatherv iallgatherv allgatherv_init(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: IntArray, displs: IntArray, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Allgatherv" |form, process, comm| start_allgatherv(form, process, (sendbuf, sendcount, sendtype),
        (recvbuf, Places { counts: recvcounts, displacements: displs }, recvtype), comm
    );
    alltoall ialltoall alltoall_init(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Alltoall" |form, process, comm| start_alltoall(form, process, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), comm
    );
    alltoallv ialltoallv alltoallv_init(
        sendbuf: *const c_void, sendcounts: IntArray, sdispls: IntArray, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: IntArray, rdispls: IntArray, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Alltoallv" |form, process, comm| start_alltoallv(form, process, (sendbuf, Places { counts: sendcounts, displacements: sdispls }, sendtype),
        (recvbuf, Places { counts: recvcounts, displacements: rdispls }, recvtype), comm
    );
    alltoallw ialltoallw alltoallw_init(
        sendbuf: *const c_void, sendcounts: IntArray, sdispls: IntArray, sendtypes: *const MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: IntArray, rdispls: IntArray, recvtypes: *const MPI_Datatype,
        comm: MPI_Comm
    ) "Alltoallw" |form, process, comm| start_alltoallw(form, process, (sendbuf, Typed { places: Places { counts: sendcounts, displacements: sdispls }, types: sendtypes }),
        (recvbuf, Typed { places: Places { counts: recvcounts, displacements: rdispls }, types: recvtypes }),
        comm
    );
    reduce ireduce reduce_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op,
        root: c_int, comm: MPI_Comm
    ) "Reduce" |form, process, comm| start_reduce(form, process, (sendbuf, recvbuf), (count, datatype, op), root, comm);
    allreduce iallreduce allreduce_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm
    ) "Allreduce"
        |form, process, comm| start_reduction_at_all(form, process, (sendbuf, recvbuf), (count, datatype, op), comm, allreduce_call);
    scan iscan scan_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm
    ) "Scan" |form, process, comm| start_reduction_at_all(form, process, (sendbuf, recvbuf), (count, datatype, op), comm, scan_call);
    exscan iexscan exscan_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm
    ) "Exscan" |form, process, comm| start_reduction_at_all(form, process, (sendbuf, recvbuf), (count, datatype, op), comm, exscan_call);
    reduce_scatter ireduce_scatter reduce_scatter_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: IntArray, datatype: MPI_Datatype, op: MPI_Op,
        comm: MPI_Comm
    ) "Reduce_scatter" |form, process, comm| {
        let counts = scatter_counts(process, recvcounts, comm)?;
        start_reduce_scatter(form, process, (sendbuf, recvbuf), (&counts, datatype, op), comm)
    };
    reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: i64, datatype: MPI_Datatype, op: MPI_Op,
        comm: MPI_Comm
    ) "Reduce_scatter_block" |form, process, comm| {
        let mut counts = List::new();
        for _ in 0..place(process, comm)?.local_group().size() {
            counts.push(recvcount as u64);
        }
        start_reduce_scatter(form, process, (sendbuf, recvbuf), (&counts, datatype, op), comm)
    };
}
