//! Collective operations on intercommunicators (section 6.2.3): counts are for the members of the other group, roots are
//! `MPI_ROOT`, `MPI_PROC_NULL` or ranks of the other group, and nothing is done in place.

use std::ffi::{c_int, c_void};

use weft::comm::Comm;
use weft_coll::{Call, InterCall, Root, Vector};
use weft_datatype::Memory;
use weft_engine::Arguments;
use weft_types::{Error, ErrorClass, Result as Outcome};

use super::collective::place;
use super::collective_forms::Form;
use super::collective_memory::{
    Data, List, Places, Typed, is_in_place, read, read_blocks, read_copies, typed_reads, typed_writes,
    writable, write, write_blocks,
};
use super::objects::Objects;
use super::reductions::{operands, reduction};
use crate::ctypes::*;

/// The root argument, and the number of members of the other group.
fn root_and_others(process: &impl Objects, comm: MPI_Comm, root: c_int) -> Outcome<(Root, u32)> {
    let place = place(process, comm)?;
    Ok((place.inter_root(root)?, place.size))
}

#[cold]
pub(super) fn in_place_refused(place: &Comm) -> Error {
    Error::new(
        ErrorClass::BUFFER,
        format!(
            "MPI_IN_PLACE means nothing on an intercommunicator (section 6.2.3), and {} is one",
            place.display_name()
        ),
    )
}

/// Refuses `MPI_IN_PLACE`.
fn not_in_place(process: &impl Objects, comm: MPI_Comm, buffer: *const c_void) -> Outcome<()> {
    if is_in_place(buffer) { Err(in_place_refused(place(process, comm)?)) } else { Ok(()) }
}

/// Refuses what there is none of on intercommunicators: scans, and reductions in place.
pub(super) fn check_reduction_at_all(place: &Comm, call: &Call<'_>) -> Outcome<()> {
    match call {
        Call::Scan { .. } => place.check_intra("MPI_Scan"),
        Call::Exscan { .. } => place.check_intra("MPI_Exscan"),
        Call::Allreduce { in_place: true, .. } => Err(in_place_refused(place)),
        _ => Ok(()),
    }
}

fn none() -> (Memory, u64) {
    (Memory::none(), 0)
}

pub(super) fn start_barrier<F: Form>(form: F, process: &mut F::On, comm: MPI_Comm) -> Outcome<F::Made> {
    form.inter(process, comm, &InterCall::Barrier, Arguments::new(Memory::none(), Memory::none()), None)
}

pub(super) unsafe fn start_bcast<F: Form>(
    form: F,
    process: &mut F::On,
    data: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let (root, _) = root_and_others(process, comm, root)?;
    // SAFETY: the program's memory stays until the operation is complete. What the root's gets back is what it holds, so its
    // entries may overlap.
    let (memory, bytes) = unsafe {
        match root {
            Root::Elsewhere => none(),
            Root::Here => writable(process, data, 1)?,
            Root::Remote(_) => write(process, data, 1)?,
        }
    };
    let arguments = Arguments::new(Memory::none(), memory);
    form.inter(process, comm, &InterCall::Bcast { root, bytes }, arguments, None)
}

pub(super) unsafe fn start_gather<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let (root, others) = root_and_others(process, comm, root)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, sent), (into, received)) = unsafe {
        match root {
            Root::Here => (none(), write(process, recv, others)?),
            Root::Remote(_) => {
                not_in_place(process, comm, send.0)?;
                (read(process, send)?, none())
            }
            Root::Elsewhere => (none(), none()),
        }
    };
    let call = InterCall::Gather { root, bytes: sent.max(received) };
    form.inter(process, comm, &call, Arguments::new(from, into), None)
}

pub(super) unsafe fn start_gatherv<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    (recvbuf, recv, recvtype): (*mut c_void, Places, MPI_Datatype),
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let (root, others) = root_and_others(process, comm, root)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, bytes), (blocks, into)) = unsafe {
        match root {
            Root::Here => (none(), write_blocks(process, recvbuf, recvtype, "recvcounts", recv, others)?),
            Root::Remote(_) => {
                not_in_place(process, comm, send.0)?;
                (read(process, send)?, (List::new(), Memory::none()))
            }
            Root::Elsewhere => (none(), (List::new(), Memory::none())),
        }
    };
    let call = InterCall::Gatherv { root, bytes, blocks: &blocks };
    form.inter(process, comm, &call, Arguments::new(from, into), None)
}

pub(super) unsafe fn start_scatter<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let (root, others) = root_and_others(process, comm, root)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, sent), (into, received)) = unsafe {
        match root {
            Root::Here => (read_copies(process, send, others)?, none()),
            Root::Remote(_) => {
                not_in_place(process, comm, recv.0)?;
                (none(), write(process, recv, 1)?)
            }
            Root::Elsewhere => (none(), none()),
        }
    };
    let call = InterCall::Scatter { root, bytes: sent.max(received) };
    form.inter(process, comm, &call, Arguments::new(from, into), None)
}

pub(super) unsafe fn start_scatterv<F: Form>(
    form: F,
    process: &mut F::On,
    (sendbuf, send, sendtype): (*const c_void, Places, MPI_Datatype),
    recv: Data<*mut c_void>,
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let (root, others) = root_and_others(process, comm, root)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let ((blocks, from), (into, bytes)) = unsafe {
        match root {
            Root::Here => (read_blocks(process, sendbuf, sendtype, "sendcounts", send, others)?, none()),
            Root::Remote(_) => {
                not_in_place(process, comm, recv.0)?;
                ((List::new(), Memory::none()), write(process, recv, 1)?)
            }
            Root::Elsewhere => ((List::new(), Memory::none()), none()),
        }
    };
    let call = InterCall::Scatterv { root, bytes, blocks: &blocks };
    form.inter(process, comm, &call, Arguments::new(from, into), None)
}

pub(super) unsafe fn start_allgather<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let others = place(process, comm)?.size;
    not_in_place(process, comm, send.0)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, sent), (into, received)) = unsafe { (read(process, send)?, write(process, recv, others)?) };
    let call = InterCall::Allgather { sent, received };
    form.inter(process, comm, &call, Arguments::new(from, into), None)
}

pub(super) unsafe fn start_allgatherv<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    (recvbuf, recv, recvtype): (*mut c_void, Places, MPI_Datatype),
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let others = place(process, comm)?.size;
    not_in_place(process, comm, send.0)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, sent), (blocks, into)) = unsafe {
        (read(process, send)?, write_blocks(process, recvbuf, recvtype, "recvcounts", recv, others)?)
    };
    let call = InterCall::Allgatherv { sent, blocks: &blocks };
    form.inter(process, comm, &call, Arguments::new(from, into), None)
}

pub(super) unsafe fn start_alltoall<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let others = place(process, comm)?.size;
    not_in_place(process, comm, send.0)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, sent), (into, received)) =
        unsafe { (read_copies(process, send, others)?, write(process, recv, others)?) };
    let call = InterCall::Alltoall { sent, received };
    form.inter(process, comm, &call, Arguments::new(from, into), None)
}

pub(super) unsafe fn start_alltoallv<F: Form>(
    form: F,
    process: &mut F::On,
    (sendbuf, send, sendtype): (*const c_void, Places, MPI_Datatype),
    (recvbuf, recv, recvtype): (*mut c_void, Places, MPI_Datatype),
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let others = place(process, comm)?.size;
    not_in_place(process, comm, sendbuf)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let ((send, from), (recv, into)) = unsafe {
        (
            read_blocks(process, sendbuf, sendtype, "sendcounts", send, others)?,
            write_blocks(process, recvbuf, recvtype, "recvcounts", recv, others)?,
        )
    };
    let call = InterCall::Alltoallv { send: &send, recv: &recv };
    form.inter(process, comm, &call, Arguments::new(from, into), None)
}

pub(super) unsafe fn start_alltoallw<F: Form>(
    form: F,
    process: &mut F::On,
    (sendbuf, send): (*const c_void, Typed),
    (recvbuf, recv): (*mut c_void, Typed),
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let others = place(process, comm)?.size;
    not_in_place(process, comm, sendbuf)?;
    // SAFETY: the program's memory and arrays, one entry for each member of the other group.
    let ((send, send_peers), (recv, recv_peers)) = unsafe {
        (typed_reads(process, sendbuf, send, others)?, typed_writes(process, recvbuf, recv, others)?)
    };
    let call = InterCall::Alltoallw { send: &send, recv: &recv };
    let arguments = Arguments { send_peers, recv_peers, ..Arguments::new(Memory::none(), Memory::none()) };
    form.inter(process, comm, &call, arguments, None)
}

pub(super) unsafe fn start_reduce<F: Form>(
    form: F,
    process: &mut F::On,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    (count, datatype, op): (i64, MPI_Datatype, MPI_Op),
    root: c_int,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let (root, _) = root_and_others(process, comm, root)?;
    if root == Root::Elsewhere {
        // Nothing that it has said of data means anything.
        let vector = Vector { count: 0, element: 1, commutative: true };
        let arguments = Arguments::new(Memory::none(), Memory::none());
        return form.inter(process, comm, &InterCall::Reduce { root, vector }, arguments, None);
    }
    let (reduction, vector) = reduction(process, count as u64, datatype, op)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let arguments = unsafe {
        match root {
            Root::Here => Arguments::new(Memory::none(), write(process, (recvbuf, count, datatype), 1)?.0),
            Root::Remote(_) => {
                not_in_place(process, comm, sendbuf)?;
                operands(process, sendbuf, None, count, datatype)?
            }
            Root::Elsewhere => Arguments::new(Memory::none(), Memory::none()),
        }
    };
    form.inter(process, comm, &InterCall::Reduce { root, vector }, arguments, Some(reduction))
}
