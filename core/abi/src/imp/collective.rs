//! Collective operations (sections 6.3 to 6.12): arguments into a [`Call`], memory, and a started request. The blocking
//! forms wait for it.
//!
//! Only significant arguments are looked at (section 2.3): receive arguments of rooted operations at the root, nothing
//! of a send argument that is `MPI_IN_PLACE`.

use std::ffi::{c_int, c_void};

use weft::Process;
use weft::comm::Comm;
use weft_coll::{Block, Call};
use weft_datatype::{Datatype, Memory};
use weft_engine::{Arguments, RequestId};
use weft_types::{Error, ErrorClass, Handle, Result as Outcome, abi};

use super::point_to_point::{complete, no_buffer};
use super::reductions::{
    allreduce_call, exscan_call, scan_call, scatter_counts, start_reduce, start_reduce_scatter,
    start_reduction_at_all,
};
use crate::ctypes::*;
use crate::gate;
use crate::raise::{Raised, negative_count};

/// One buffer argument: address, count, datatype.
pub(super) type Data<P> = (P, i64, MPI_Datatype);

/// Starts something and gives its request; the shape shared by the blocking and the nonblocking forms.
type Start<'a> = &'a mut dyn FnMut(&mut Process) -> Outcome<RequestId>;

/// Starts, then waits.
pub(super) fn blocking(call: &'static str, start: Start<'_>) -> Result<(), Raised> {
    let request = gate::with(|process| start(process))?;
    match complete(call, request).error {
        None => Ok(()),
        Some(error) => Err(error.into()),
    }
}

/// Starts, and gives the program the request.
///
/// # Safety
/// The entry has refused a null `request`.
pub(super) unsafe fn nonblocking(request: *mut MPI_Request, start: Start<'_>) -> Result<(), Raised> {
    let started = gate::with(|process| start(process))?;
    // SAFETY: the caller's promise.
    unsafe { request.write(MPI_Request::from_raw(weft::lanes::request_handle(started).0)) };
    Ok(())
}

/// Returns once every process of the job has called it, or a process is known to be lost: those who are left must come
/// to their end without it (section 11.2.2).
pub(super) fn last_barrier(call: &'static str) -> Result<(), Raised> {
    let request = gate::with(|process| start_barrier(process, Handle(abi::MPI_COMM_WORLD)))?;
    let error = gate::wait_for(call, crate::watch::Awaited::Own(request), |process| {
        match process.engine.is_complete(request) {
            true => Some(process.engine.take(request).error),
            false => process.engine.knows_losses().then_some(None),
        }
    });
    match error {
        Some(error) if !gate::with(|process| process.engine.knows_losses()) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns once every process of the communicator, in both groups of an intercommunicator, has called it.
pub(super) fn barrier_of_everyone(call: &'static str, comm: Handle) -> Result<(), Raised> {
    let arguments = || Arguments::new(Memory::none(), Memory::none());
    blocking(call, &mut |process| process.start_on_everyone(comm, &Call::Barrier, arguments(), None))
}

pub(super) fn is_in_place(address: *const c_void) -> bool {
    address.addr() == abi::MPI_IN_PLACE
}

/// Refuses data at an address that is a constant of the library.
fn check_address(address: usize, datatype: &Datatype, (low, high): (i64, i64)) -> Outcome<()> {
    if address <= abi::MPI_BUFFER_AUTOMATIC && high > low && datatype.is_contiguous() {
        return Err(no_buffer(address, (high - low) as usize));
    }
    Ok(())
}

/// A count that the entry could not check, because it is not significant at every process.
fn whole(count: i64) -> Outcome<u64> {
    u64::try_from(count).map_err(|_| Error::new(ErrorClass::COUNT, negative_count(count)))
}

/// A send argument of `count` elements, with its packed bytes.
///
/// # Safety
/// The program keeps the data as they are until the operation is complete.
pub(super) unsafe fn read(
    process: &Process,
    (address, count, datatype): Data<*const c_void>,
) -> Outcome<(Memory, u64)> {
    let count = whole(count)?;
    let datatype = process.types.usable(datatype.handle())?;
    let span = datatype.span(count)?;
    check_address(address.addr(), datatype, span)?;
    let bytes = datatype.packed_bytes(count)? as u64;
    // SAFETY: the caller's promise; the span is that of `count` elements.
    Ok((unsafe { Memory::read(address.cast(), datatype, span) }, bytes))
}

/// A receive argument of `copies` times `count` elements, with the packed bytes of `count`.
///
/// # Safety
/// The program leaves the memory alone until the operation is complete.
pub(super) unsafe fn write(
    process: &Process,
    data: Data<*mut c_void>,
    copies: u32,
) -> Outcome<(Memory, u64)> {
    // SAFETY: the caller's promise.
    let argument = unsafe { writable(process, data, copies)? };
    let all = (data.1 as u64).saturating_mul(u64::from(copies));
    process.types.get(data.2.handle())?.check_distinct(all)?;
    Ok(argument)
}

/// As [`write`], of a type whose entries may overlap.
///
/// # Safety
/// As [`write`].
unsafe fn writable(
    process: &Process,
    (address, count, datatype): Data<*mut c_void>,
    copies: u32,
) -> Outcome<(Memory, u64)> {
    let count = whole(count)?;
    let datatype = process.types.usable(datatype.handle())?;
    let all = count.saturating_mul(u64::from(copies));
    let span = datatype.span(all)?;
    check_address(address.addr(), datatype, span)?;
    let bytes = datatype.packed_bytes(count)? as u64;
    // SAFETY: the caller's promise; the span is that of all elements.
    Ok((unsafe { Memory::write(address.cast(), datatype, span) }, bytes))
}

/// As [`write`], of memory that the program only sends from, so that it is never written.
///
/// # Safety
/// As [`read`].
pub(super) unsafe fn read_copies(
    process: &Process,
    (address, count, datatype): Data<*const c_void>,
    copies: u32,
) -> Outcome<(Memory, u64)> {
    let all = (whole(count)? as i64).saturating_mul(i64::from(copies));
    // SAFETY: the caller's promise.
    let (memory, _) = unsafe { read(process, (address, all, datatype))? };
    let bytes = process.types.get(datatype.handle())?.packed_bytes(count as u64)?;
    Ok((memory, bytes as u64))
}

/// Counts and displacements (in elements) of a `v` argument.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) counts: IntArray,
    pub(super) displacements: IntArray,
}

/// The blocks of a `v` argument and the bytes they cover.
///
/// # Safety
/// The program passes arrays of `size` numbers.
unsafe fn blocks(
    datatype: &Datatype,
    name: &str,
    places: Places,
    size: u32,
) -> Outcome<(Vec<Block>, (i64, i64))> {
    if (places.counts.is_null() || places.displacements.is_null()) && size > 0 {
        return Err(Error::new(ErrorClass::ARG, format!("{name} or its displacements is a null pointer")));
    }
    let extent = datatype.bounds().extent;
    let mut all = Vec::with_capacity(size as usize);
    let mut reach: Option<(i64, i64)> = None;
    for rank in 0..size as usize {
        // SAFETY: the caller's promise.
        let (count, place) = unsafe { (places.counts.get(rank), places.displacements.get(rank)) };
        let count = u64::try_from(count).map_err(|_| {
            Error::new(ErrorClass::COUNT, format!("{name}[{rank}] is {count}, but it must not be negative"))
        })?;
        let displacement = place.checked_mul(extent).ok_or_else(|| {
            Error::new(
                ErrorClass::ARG,
                format!("displacement {place} of rank {rank} does not fit 63 bits of bytes"),
            )
        })?;
        let bytes = datatype.packed_bytes(count)? as u64;
        all.push(Block { displacement, bytes });
        if bytes > 0 {
            let (low, high) = datatype.span(count)?;
            let (low, high) = (low.saturating_add(displacement), high.saturating_add(displacement));
            reach = Some(reach.map_or((low, high), |(a, b)| (a.min(low), b.max(high))));
        }
    }
    Ok((all, reach.unwrap_or((0, 0))))
}

pub(super) fn place(process: &Process, comm: Handle) -> Outcome<&Comm> {
    let comm = process.comms.get(comm)?;
    comm.check_collective()?;
    Ok(comm)
}

fn start_barrier(process: &mut Process, comm: Handle) -> Outcome<RequestId> {
    // Over both groups of an intercommunicator: more than section 6.3 asks for, which is that the other group has entered.
    process.start_on_everyone(comm, &Call::Barrier, Arguments::new(Memory::none(), Memory::none()), None)
}

unsafe fn start_bcast(
    process: &mut Process,
    data: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<RequestId> {
    let place = place(process, comm.handle())?;
    let (root, rank) = (place.root(root)?.0, place.rank.0);
    // SAFETY: the program's memory stays until the operation is complete. What the root's gets back is what it holds, so its
    // entries may overlap.
    let (memory, bytes) = unsafe {
        match rank == root {
            true => writable(process, data, 1)?,
            false => write(process, data, 1)?,
        }
    };
    let arguments = Arguments::new(Memory::none(), memory);
    process.start_collective(comm.handle(), &Call::Bcast { root, bytes }, arguments, None)
}

unsafe fn start_gather(
    process: &mut Process,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<RequestId> {
    let place = place(process, comm.handle())?;
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
    let call = Call::Gather { root, bytes, in_place };
    process.start_collective(comm.handle(), &call, Arguments::new(from, into), None)
}

unsafe fn start_gatherv(
    process: &mut Process,
    send: Data<*const c_void>,
    (recvbuf, recv, recvtype): (*mut c_void, Places, MPI_Datatype),
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<RequestId> {
    let place = place(process, comm.handle())?;
    let (root, rank, size) = (place.root(root)?.0, place.rank.0, place.size);
    let in_place = rank == root && is_in_place(send.0);
    // SAFETY: the program's memory stays until the operation is complete.
    unsafe {
        let (from, bytes) = if in_place { (Memory::none(), 0) } else { read(process, send)? };
        let (blocks, into) = match rank == root {
            true => write_blocks(process, recvbuf, recvtype, "recvcounts", recv, size)?,
            false => (Vec::new(), Memory::none()),
        };
        let call = Call::Gatherv { root, bytes, blocks: &blocks, in_place };
        process.start_collective(comm.handle(), &call, Arguments::new(from, into), None)
    }
}

/// A receive argument of blocks.
///
/// # Safety
/// As [`write`] and [`blocks`].
pub(super) unsafe fn write_blocks(
    process: &Process,
    address: *mut c_void,
    datatype: MPI_Datatype,
    name: &str,
    places: Places,
    size: u32,
) -> Outcome<(Vec<Block>, Memory)> {
    let datatype = process.types.usable(datatype.handle())?;
    // SAFETY: the caller's promise.
    unsafe {
        let (blocks, span) = blocks(datatype, name, places, size)?;
        for rank in 0..size as usize {
            datatype.check_distinct(places.counts.get(rank) as u64)?;
        }
        check_address(address.addr(), datatype, span)?;
        Ok((blocks, Memory::write(address.cast(), datatype, span)))
    }
}

/// A send argument of blocks.
///
/// # Safety
/// As [`read`] and [`blocks`].
pub(super) unsafe fn read_blocks(
    process: &Process,
    address: *const c_void,
    datatype: MPI_Datatype,
    name: &str,
    places: Places,
    size: u32,
) -> Outcome<(Vec<Block>, Memory)> {
    let datatype = process.types.usable(datatype.handle())?;
    // SAFETY: the caller's promise.
    unsafe {
        let (blocks, span) = blocks(datatype, name, places, size)?;
        check_address(address.addr(), datatype, span)?;
        Ok((blocks, Memory::read(address.cast(), datatype, span)))
    }
}

unsafe fn start_scatter(
    process: &mut Process,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<RequestId> {
    let place = place(process, comm.handle())?;
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
    let call = Call::Scatter { root, bytes, in_place };
    process.start_collective(comm.handle(), &call, Arguments::new(from, into), None)
}

unsafe fn start_scatterv(
    process: &mut Process,
    (sendbuf, send, sendtype): (*const c_void, Places, MPI_Datatype),
    recv: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<RequestId> {
    let place = place(process, comm.handle())?;
    let (root, rank, size) = (place.root(root)?.0, place.rank.0, place.size);
    let in_place = rank == root && is_in_place(recv.0);
    // SAFETY: the program's memory stays until the operation is complete.
    unsafe {
        let (into, bytes) = if in_place { (Memory::none(), 0) } else { write(process, recv, 1)? };
        let (blocks, from) = match rank == root {
            true => read_blocks(process, sendbuf, sendtype, "sendcounts", send, size)?,
            false => (Vec::new(), Memory::none()),
        };
        let call = Call::Scatterv { root, bytes, blocks: &blocks, in_place };
        process.start_collective(comm.handle(), &call, Arguments::new(from, into), None)
    }
}

unsafe fn start_allgather(
    process: &mut Process,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    comm: MPI_Comm,
) -> Outcome<RequestId> {
    let size = place(process, comm.handle())?.size;
    let in_place = is_in_place(send.0);
    // SAFETY: the program's memory stays until the operation is complete.
    let (from, (into, bytes)) = unsafe {
        (if in_place { Memory::none() } else { read(process, send)?.0 }, write(process, recv, size)?)
    };
    let call = Call::Allgather { bytes, in_place };
    process.start_collective(comm.handle(), &call, Arguments::new(from, into), None)
}

unsafe fn start_allgatherv(
    process: &mut Process,
    send: Data<*const c_void>,
    (recvbuf, recv, recvtype): (*mut c_void, Places, MPI_Datatype),
    comm: MPI_Comm,
) -> Outcome<RequestId> {
    let size = place(process, comm.handle())?.size;
    let in_place = is_in_place(send.0);
    // SAFETY: the program's memory stays until the operation is complete.
    unsafe {
        let from = if in_place { Memory::none() } else { read(process, send)?.0 };
        let (blocks, into) = write_blocks(process, recvbuf, recvtype, "recvcounts", recv, size)?;
        let call = Call::Allgatherv { blocks: &blocks, in_place };
        process.start_collective(comm.handle(), &call, Arguments::new(from, into), None)
    }
}

unsafe fn start_alltoall(
    process: &mut Process,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    comm: MPI_Comm,
) -> Outcome<RequestId> {
    let size = place(process, comm.handle())?.size;
    let in_place = is_in_place(send.0);
    // SAFETY: the program's memory stays until the operation is complete.
    let (from, (into, bytes)) = unsafe {
        (
            if in_place { Memory::none() } else { read_copies(process, send, size)?.0 },
            write(process, recv, size)?,
        )
    };
    let call = Call::Alltoall { bytes, in_place };
    process.start_collective(comm.handle(), &call, Arguments::new(from, into), None)
}

unsafe fn start_alltoallv(
    process: &mut Process,
    (sendbuf, send, sendtype): (*const c_void, Places, MPI_Datatype),
    (recvbuf, recv, recvtype): (*mut c_void, Places, MPI_Datatype),
    comm: MPI_Comm,
) -> Outcome<RequestId> {
    let size = place(process, comm.handle())?.size;
    let in_place = is_in_place(sendbuf);
    // SAFETY: the program's memory stays until the operation is complete.
    unsafe {
        let (sent, from) = match in_place {
            true => (Vec::new(), Memory::none()),
            false => read_blocks(process, sendbuf, sendtype, "sendcounts", send, size)?,
        };
        let (received, into) = write_blocks(process, recvbuf, recvtype, "recvcounts", recv, size)?;
        let call = Call::Alltoallv { send: &sent, recv: &received, in_place };
        process.start_collective(comm.handle(), &call, Arguments::new(from, into), None)
    }
}

/// One side of an `MPI_Alltoallw`: a datatype for every rank, displacements in bytes.
#[derive(Clone, Copy)]
pub(super) struct Typed {
    pub(super) places: Places,
    pub(super) types: *const MPI_Datatype,
}

/// The memory and the packed bytes for every rank.
///
/// # Safety
/// The program passes arrays of `size` elements; `bind` promises what its memory needs.
pub(super) unsafe fn typed_blocks(
    process: &Process,
    name: &str,
    address: usize,
    typed: Typed,
    size: u32,
    bind: impl Fn(i64, &Datatype, (i64, i64)) -> Memory,
) -> Outcome<(Vec<u64>, Vec<Memory>)> {
    if typed.places.counts.is_null() || typed.places.displacements.is_null() || typed.types.is_null() {
        return Err(Error::new(
            ErrorClass::ARG,
            format!("{name}, its displacements or its datatypes is a null pointer"),
        ));
    }
    let (mut bytes, mut memories) = (Vec::new(), Vec::new());
    for rank in 0..size as usize {
        // SAFETY: the caller's promise.
        let (count, displacement, datatype) = unsafe {
            (
                typed.places.counts.get(rank),
                typed.places.displacements.get(rank),
                typed.types.add(rank).read(),
            )
        };
        let count = u64::try_from(count).map_err(|_| {
            Error::new(ErrorClass::COUNT, format!("{name}[{rank}] is {count}, but it must not be negative"))
        })?;
        let of_rank = |error: Error| {
            let types = name.replace("counts", "types");
            Error::new(error.class(), format!("{types}[{rank}]: {}", error.text()))
        };
        let datatype = process.types.usable(datatype.handle()).map_err(of_rank)?;
        let span = datatype.span(count)?;
        check_address(address, datatype, span)?;
        bytes.push(datatype.packed_bytes(count)? as u64);
        let memory = bind(displacement, datatype, span);
        if memory.is_writable() {
            datatype.check_distinct(count).map_err(of_rank)?;
        }
        memories.push(memory);
    }
    Ok((bytes, memories))
}

unsafe fn start_alltoallw(
    process: &mut Process,
    (sendbuf, send): (*const c_void, Typed),
    (recvbuf, recv): (*mut c_void, Typed),
    comm: MPI_Comm,
) -> Outcome<RequestId> {
    let size = place(process, comm.handle())?.size;
    let in_place = is_in_place(sendbuf);
    // SAFETY: the program's memory stays until the operation is complete.
    unsafe {
        let (sent, send_peers) = match in_place {
            true => (Vec::new(), Vec::new()),
            false => {
                typed_blocks(process, "sendcounts", sendbuf.addr(), send, size, |at, datatype, span| {
                    Memory::read(sendbuf.cast::<u8>().wrapping_offset(at as isize), datatype, span)
                })?
            }
        };
        let (received, recv_peers) =
            typed_blocks(process, "recvcounts", recvbuf.addr(), recv, size, |at, datatype, span| {
                Memory::write(recvbuf.cast::<u8>().wrapping_offset(at as isize), datatype, span)
            })?;
        let call = Call::Alltoallw { send: &sent, recv: &received, in_place };
        let arguments =
            Arguments { send_peers, recv_peers, ..Arguments::new(Memory::none(), Memory::none()) };
        process.start_collective(comm.handle(), &call, arguments, None)
    }
}

/// Makes the blocking and the nonblocking form of an operation.
macro_rules! operations {
    ($($blocking:ident $nonblocking:ident($($argument:ident: $ty:ty),*) $name:literal
        |$process:ident| $start:expr;)*) => {$(
        #[doc = concat!("`MPI_", $name, "` (chapter 6; on neighbourhoods section 8.6).")]
        #[allow(unused_unsafe, reason = "a barrier has no memory to promise anything about")]
        pub(crate) unsafe fn $blocking($($argument: $ty),*) -> Result<(), Raised> {
            // SAFETY: the program keeps the procedure's contract until this call returns.
            blocking(concat!("MPI_", $name), &mut |$process| unsafe { $start })
        }
        #[doc = concat!("The nonblocking form of `MPI_", $name, "` (section 6.12; on neighbourhoods section 8.7).")]
        pub(crate) unsafe fn $nonblocking($($argument: $ty,)* request: *mut MPI_Request) -> Result<(), Raised> {
            // SAFETY: the program keeps the procedure's contract until the request is complete.
            unsafe { nonblocking(request, &mut |$process| $start) }
        }
    )*};
}

pub(super) use operations;

operations! {
    barrier ibarrier(comm: MPI_Comm) "Barrier" |process| start_barrier(process, comm.handle());
    bcast ibcast(buffer: *mut c_void, count: i64, datatype: MPI_Datatype, root: c_int, comm: MPI_Comm) "Bcast"
        |process| start_bcast(process, (buffer, count, datatype), root, comm);
    gather igather(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) "Gather" |process| start_gather(
        process, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root, comm
    );
    gatherv igatherv(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: IntArray, displs: IntArray, recvtype: MPI_Datatype,
        root: c_int, comm: MPI_Comm
    ) "Gatherv" |process| start_gatherv(
        process, (sendbuf, sendcount, sendtype),
        (recvbuf, Places { counts: recvcounts, displacements: displs }, recvtype), root, comm
    );
    scatter iscatter(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) "Scatter" |process| start_scatter(
        process, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root, comm
    );
    scatterv iscatterv(
        sendbuf: *const c_void, sendcounts: IntArray, displs: IntArray, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) "Scatterv" |process| start_scatterv(
        process, (sendbuf, Places { counts: sendcounts, displacements: displs }, sendtype),
        (recvbuf, recvcount, recvtype), root, comm
    );
    allgather iallgather(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Allgather" |process| start_allgather(
        process, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), comm
    );
    allgatherv iallgatherv(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: IntArray, displs: IntArray, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Allgatherv" |process| start_allgatherv(
        process, (sendbuf, sendcount, sendtype),
        (recvbuf, Places { counts: recvcounts, displacements: displs }, recvtype), comm
    );
    alltoall ialltoall(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Alltoall" |process| start_alltoall(
        process, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), comm
    );
    alltoallv ialltoallv(
        sendbuf: *const c_void, sendcounts: IntArray, sdispls: IntArray, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: IntArray, rdispls: IntArray, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Alltoallv" |process| start_alltoallv(
        process, (sendbuf, Places { counts: sendcounts, displacements: sdispls }, sendtype),
        (recvbuf, Places { counts: recvcounts, displacements: rdispls }, recvtype), comm
    );
    alltoallw ialltoallw(
        sendbuf: *const c_void, sendcounts: IntArray, sdispls: IntArray, sendtypes: *const MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: IntArray, rdispls: IntArray, recvtypes: *const MPI_Datatype,
        comm: MPI_Comm
    ) "Alltoallw" |process| start_alltoallw(
        process,
        (sendbuf, Typed { places: Places { counts: sendcounts, displacements: sdispls }, types: sendtypes }),
        (recvbuf, Typed { places: Places { counts: recvcounts, displacements: rdispls }, types: recvtypes }),
        comm
    );
    reduce ireduce(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op,
        root: c_int, comm: MPI_Comm
    ) "Reduce" |process| start_reduce(process, (sendbuf, recvbuf), (count, datatype, op), root, comm);
    allreduce iallreduce(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm
    ) "Allreduce"
        |process| start_reduction_at_all(process, (sendbuf, recvbuf), (count, datatype, op), comm, allreduce_call);
    scan iscan(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm
    ) "Scan" |process| start_reduction_at_all(process, (sendbuf, recvbuf), (count, datatype, op), comm, scan_call);
    exscan iexscan(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm
    ) "Exscan" |process| start_reduction_at_all(process, (sendbuf, recvbuf), (count, datatype, op), comm, exscan_call);
    reduce_scatter ireduce_scatter(
        sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: IntArray, datatype: MPI_Datatype, op: MPI_Op,
        comm: MPI_Comm
    ) "Reduce_scatter" |process| {
        let counts = scatter_counts(process, recvcounts, comm)?;
        start_reduce_scatter(process, (sendbuf, recvbuf), (&counts, datatype, op), comm)
    };
    reduce_scatter_block ireduce_scatter_block(
        sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: i64, datatype: MPI_Datatype, op: MPI_Op,
        comm: MPI_Comm
    ) "Reduce_scatter_block" |process| {
        let counts = vec![recvcount as u64; place(process, comm.handle())?.size as usize];
        start_reduce_scatter(process, (sendbuf, recvbuf), (&counts, datatype, op), comm)
    };
}
