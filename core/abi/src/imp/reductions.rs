//! The reductions among the collective operations (sections 6.9 to 6.11): operation and operands of a call.

use std::ffi::{c_int, c_void};

use weft::Process;
use weft_coll::{Call, Vector};
use weft_datatype::Memory;
use weft_engine::{Arguments, Reduction};
use weft_types::{Error, ErrorClass, Result as Outcome};

use super::collective::{is_in_place, place, read, write};
use super::collective_forms::Form;
use super::point_to_point::no_buffer;
use crate::ctypes::*;

/// The operation of a reduction and its vector.
fn reduction(
    process: &Process,
    count: u64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Outcome<(Reduction, Vector)> {
    let of = process.types.usable(datatype.handle())?;
    let (reduction, commutative) = process.ops.reduction(op.handle(), of, datatype.handle())?;
    Ok((reduction, Vector { count, element: of.element_bytes() as u64, commutative }))
}

/// Send and receive memory of a reduction; none for an `MPI_IN_PLACE` send argument.
///
/// # Safety
/// As [`read`] and [`write`].
unsafe fn operands(
    process: &Process,
    sendbuf: *const c_void,
    recvbuf: Option<*mut c_void>,
    count: i64,
    datatype: MPI_Datatype,
) -> Outcome<Arguments> {
    // SAFETY: the caller's promise.
    unsafe {
        let from = match is_in_place(sendbuf) {
            true => Memory::none(),
            false => read(process, (sendbuf, count, datatype))?.0,
        };
        let into = match recvbuf {
            Some(recvbuf) => write(process, (recvbuf, count, datatype), 1)?.0,
            None => Memory::none(),
        };
        Ok(Arguments::new(from, into))
    }
}

pub(super) unsafe fn start_reduce<F: Form>(
    form: F,
    process: &mut Process,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    (count, datatype, op): (i64, MPI_Datatype, MPI_Op),
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm.handle())?;
    let (root, rank) = (place.root(root)?.0, place.rank.0);
    let in_place = rank == root && is_in_place(sendbuf);
    let (reduction, vector) = reduction(process, count as u64, datatype, op)?;
    if rank != root && is_in_place(sendbuf) {
        return Err(no_buffer(sendbuf.addr(), vector.bytes() as usize));
    }
    // SAFETY: the program's memory stays until the operation is complete.
    let arguments =
        unsafe { operands(process, sendbuf, (rank == root).then_some(recvbuf), count, datatype)? };
    form.collective(process, comm, &Call::Reduce { root, vector, in_place }, arguments, Some(reduction))
}

/// Allreduce, Scan and Exscan, which differ in the call only.
pub(super) unsafe fn start_reduction_at_all<F: Form>(
    form: F,
    process: &mut Process,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    (count, datatype, op): (i64, MPI_Datatype, MPI_Op),
    comm: MPI_Comm,
    call: fn(Vector, bool) -> Call<'static>,
) -> Outcome<F::Made> {
    place(process, comm.handle())?;
    let (reduction, vector) = reduction(process, count as u64, datatype, op)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let arguments = unsafe { operands(process, sendbuf, Some(recvbuf), count, datatype)? };
    form.collective(process, comm, &call(vector, is_in_place(sendbuf)), arguments, Some(reduction))
}

pub(super) fn allreduce_call(vector: Vector, in_place: bool) -> Call<'static> {
    Call::Allreduce { vector, in_place }
}

pub(super) fn scan_call(vector: Vector, in_place: bool) -> Call<'static> {
    Call::Scan { vector, in_place }
}

pub(super) fn exscan_call(vector: Vector, in_place: bool) -> Call<'static> {
    Call::Exscan { vector, in_place }
}

pub(super) unsafe fn start_reduce_scatter<F: Form>(
    form: F,
    process: &mut Process,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    (counts, datatype, op): (&[u64], MPI_Datatype, MPI_Op),
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let rank = place(process, comm.handle())?.rank.0 as usize;
    let in_place = is_in_place(sendbuf);
    let total: u64 = counts.iter().sum();
    let (reduction, vector) = reduction(process, total, datatype, op)?;
    // In place the whole vector lies in the receive buffer; otherwise it has room for this rank's part.
    let room = if in_place { total } else { counts[rank] };
    // SAFETY: the program's memory stays until the operation is complete.
    let arguments = unsafe {
        let from = match in_place {
            true => Memory::none(),
            false => read(process, (sendbuf, total as i64, datatype))?.0,
        };
        Arguments::new(from, write(process, (recvbuf, room as i64, datatype), 1)?.0)
    };
    let call = Call::ReduceScatter { counts, vector, in_place };
    form.collective(process, comm, &call, arguments, Some(reduction))
}

/// The counts of `MPI_Reduce_scatter`.
pub(super) unsafe fn scatter_counts(
    process: &Process,
    counts: IntArray,
    comm: MPI_Comm,
) -> Outcome<Vec<u64>> {
    if counts.is_null() {
        return Err(Error::new(ErrorClass::ARG, "recvcounts is a null pointer"));
    }
    (0..place(process, comm.handle())?.size as usize)
        .map(|rank| {
            // SAFETY: the program passes one count for every rank.
            let count = unsafe { counts.get(rank) };
            u64::try_from(count).map_err(|_| {
                Error::new(
                    ErrorClass::COUNT,
                    format!("recvcounts[{rank}] is {count}, but it must not be negative"),
                )
            })
        })
        .collect()
}
