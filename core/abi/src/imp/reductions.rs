//! The reductions among the collective operations (sections 6.9 to 6.11): operation and operands of a call.

use std::ffi::{c_int, c_void};

use weft_coll::{Call, InterCall, Vector};
use weft_datatype::Memory;
use weft_engine::{Arguments, Reduction};
use weft_types::{Error, ErrorClass, Result as Outcome};

use super::collective::place;
use super::collective_forms::Form;
use super::collective_inter as inter;
use super::collective_memory::{List, is_in_place, read, write};
use super::objects::Objects;
use super::point_to_point::no_buffer;
use crate::ctypes::*;

/// The operation of a reduction and its vector.
pub(super) fn reduction(
    process: &impl Objects,
    count: u64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Outcome<(Reduction, Vector)> {
    let of = process.datatype(datatype.handle())?;
    let (reduction, commutative) = process.reduction(op.handle(), &of, datatype.handle())?;
    Ok((reduction, Vector { count, element: of.element_bytes() as u64, commutative }))
}

/// Send and receive memory of a reduction; none for an `MPI_IN_PLACE` send argument.
///
/// # Safety
/// As [`read`] and [`write`].
pub(super) unsafe fn operands(
    process: &impl Objects,
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
    process: &mut F::On,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    (count, datatype, op): (i64, MPI_Datatype, MPI_Op),
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    if place.inter.is_some() {
        // SAFETY: as here.
        return unsafe {
            inter::start_reduce(form, process, (sendbuf, recvbuf), (count, datatype, op), root, comm)
        };
    }
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
    process: &mut F::On,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    (count, datatype, op): (i64, MPI_Datatype, MPI_Op),
    comm: MPI_Comm,
    call: fn(Vector, bool) -> Call<'static>,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    let (reduction, vector) = reduction(process, count as u64, datatype, op)?;
    let call = call(vector, is_in_place(sendbuf));
    if place.inter.is_some() {
        inter::check_reduction_at_all(place, &call)?;
        // SAFETY: as here.
        let arguments = unsafe { operands(process, sendbuf, Some(recvbuf), count, datatype)? };
        return form.inter(process, comm, &InterCall::Allreduce { vector }, arguments, Some(reduction));
    }
    // The first process of an exclusive scan gets nothing: its receive buffer is not significant, and may be none. What is wrong with
    // the type is told there as anywhere.
    let first_of_exscan = matches!(call, Call::Exscan { in_place: false, .. }) && place.rank.0 == 0;
    let gets_nothing = first_of_exscan && recvbuf.is_null();
    // SAFETY: the program's memory stays until the operation is complete.
    let arguments =
        unsafe { operands(process, sendbuf, (!gets_nothing).then_some(recvbuf), count, datatype)? };
    form.collective(process, comm, &call, arguments, Some(reduction))
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
    process: &mut F::On,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    (counts, datatype, op): (&[u64], MPI_Datatype, MPI_Op),
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let place = place(process, comm)?;
    let (rank, is_inter) = (place.rank.0 as usize, place.inter.is_some());
    let in_place = is_in_place(sendbuf);
    if is_inter && in_place {
        return Err(inter::in_place_refused(place));
    }
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
    if is_inter {
        let call = InterCall::ReduceScatter { counts, vector };
        return form.inter(process, comm, &call, arguments, Some(reduction));
    }
    let call = Call::ReduceScatter { counts, vector, in_place };
    form.collective(process, comm, &call, arguments, Some(reduction))
}

/// The counts of `MPI_Reduce_scatter`.
pub(super) unsafe fn scatter_counts(
    process: &impl Objects,
    counts: IntArray,
    comm: MPI_Comm,
) -> Outcome<List<u64>> {
    if counts.is_null() {
        return Err(Error::new(ErrorClass::ARG, "recvcounts is a null pointer"));
    }
    let mut all = List::new();
    for rank in 0..place(process, comm)?.local_group().size() as usize {
        // SAFETY: the program passes one count for every rank.
        let count = unsafe { counts.get(rank) };
        all.push(u64::try_from(count).map_err(|_| {
            Error::new(
                ErrorClass::COUNT,
                format!("recvcounts[{rank}] is {count}, but it must not be negative"),
            )
        })?);
    }
    Ok(all)
}
