//! Neighbourhood collectives (sections 8.6 and 8.7). `MPI_IN_PLACE` has no meaning here and is refused,
//! also where nothing would lie there.

use std::ffi::c_void;

use weft::Process;
use weft::topology::neighborhood::Blocks;
use weft_datatype::Memory;
use weft_engine::Arguments;
use weft_types::{Error, ErrorClass, Result as Outcome};

use super::collective_forms::{
    Check, Form, Keep, Start, StartInLane, blocking, nonblocking, operations, persistent,
};
use super::collective_memory::{
    Data, Places, Typed, is_in_place, read, read_blocks, read_copies, typed_reads, typed_writes, write,
    write_blocks,
};
use super::objects::Objects;
use crate::ctypes::*;
use crate::raise::Raised;
use crate::snapshot::Known;

/// Numbers of sources and destinations of the calling process, whose buffers are at these addresses.
///
/// # Errors
/// `MPI_ERR_BUFFER` where one of them is `MPI_IN_PLACE`, `MPI_ERR_TOPOLOGY` where the communicator has no topology.
fn degrees(
    process: &impl Objects,
    comm: MPI_Comm,
    sendbuf: *const c_void,
    recvbuf: *const c_void,
) -> Outcome<(u32, u32)> {
    let comm = process.comm(comm.handle())?;
    for (name, address) in [("sendbuf", sendbuf), ("recvbuf", recvbuf)] {
        if is_in_place(address) {
            return Err(in_place_refused(name));
        }
    }
    comm.any_topology()?.degrees(comm.rank.0 as i32)
}

#[cold]
fn in_place_refused(name: &str) -> Error {
    Error::new(
        ErrorClass::BUFFER,
        format!(
            "{name} is MPI_IN_PLACE, which means nothing in a neighborhood collective (section 8.6); pass the address of \
             a buffer that shares no memory with the other one"
        ),
    )
}

unsafe fn start_allgather<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let (sources, _) = degrees(process, comm, send.0, recv.0)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, sent), (into, received)) = unsafe { (read(process, send)?, write(process, recv, sources)?) };
    let arguments = Arguments::new(from, into);
    form.neighborhood(process, comm, (&Blocks::One(sent), &Blocks::Even(received)), arguments)
}

unsafe fn start_allgatherv<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    (recvbuf, recv, recvtype): (*mut c_void, Places, MPI_Datatype),
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let (sources, _) = degrees(process, comm, send.0, recvbuf)?;
    // SAFETY: the program's memory and arrays, one entry for each source.
    let ((from, sent), (blocks, into)) = unsafe {
        (read(process, send)?, write_blocks(process, recvbuf, recvtype, "recvcounts", recv, sources)?)
    };
    let arguments = Arguments::new(from, into);
    form.neighborhood(process, comm, (&Blocks::One(sent), &Blocks::Placed(&blocks)), arguments)
}

unsafe fn start_alltoall<F: Form>(
    form: F,
    process: &mut F::On,
    send: Data<*const c_void>,
    recv: Data<*mut c_void>,
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let (sources, destinations) = degrees(process, comm, send.0, recv.0)?;
    // SAFETY: the program's memory stays until the operation is complete.
    let ((from, sent), (into, received)) =
        unsafe { (read_copies(process, send, destinations)?, write(process, recv, sources)?) };
    let arguments = Arguments::new(from, into);
    form.neighborhood(process, comm, (&Blocks::Even(sent), &Blocks::Even(received)), arguments)
}

unsafe fn start_alltoallv<F: Form>(
    form: F,
    process: &mut F::On,
    (sendbuf, send, sendtype): (*const c_void, Places, MPI_Datatype),
    (recvbuf, recv, recvtype): (*mut c_void, Places, MPI_Datatype),
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let (sources, destinations) = degrees(process, comm, sendbuf, recvbuf)?;
    // SAFETY: the program's memory and arrays, one entry for each neighbour.
    let ((sent, from), (received, into)) = unsafe {
        (
            read_blocks(process, sendbuf, sendtype, "sendcounts", send, destinations)?,
            write_blocks(process, recvbuf, recvtype, "recvcounts", recv, sources)?,
        )
    };
    let arguments = Arguments::new(from, into);
    form.neighborhood(process, comm, (&Blocks::Placed(&sent), &Blocks::Placed(&received)), arguments)
}

unsafe fn start_alltoallw<F: Form>(
    form: F,
    process: &mut F::On,
    (sendbuf, send): (*const c_void, Typed),
    (recvbuf, recv): (*mut c_void, Typed),
    comm: MPI_Comm,
) -> Outcome<F::Made> {
    let (sources, destinations) = degrees(process, comm, sendbuf, recvbuf)?;
    // SAFETY: the program's memory and arrays, one entry for each neighbour.
    let ((sent, send_peers), (received, recv_peers)) = unsafe {
        (typed_reads(process, sendbuf, send, destinations)?, typed_writes(process, recvbuf, recv, sources)?)
    };
    let arguments = Arguments { send_peers, recv_peers, ..Arguments::new(Memory::none(), Memory::none()) };
    let (send, recv) = (Blocks::PerNeighbor(&sent), Blocks::PerNeighbor(&received));
    form.neighborhood(process, comm, (&send, &recv), arguments)
}

operations! {
    neighbor_allgather ineighbor_allgather neighbor_allgather_init(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Neighbor_allgather" |form, process, comm| start_allgather(form, process, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), comm
    );
    neighbor_allgatherv ineighbor_allgatherv neighbor_allgatherv_init(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: IntArray, displs: IntArray, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Neighbor_allgatherv" |form, process, comm| start_allgatherv(form, process, (sendbuf, sendcount, sendtype),
        (recvbuf, Places { counts: recvcounts, displacements: displs }, recvtype), comm
    );
    neighbor_alltoall ineighbor_alltoall neighbor_alltoall_init(
        sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: i64, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Neighbor_alltoall" |form, process, comm| start_alltoall(form, process, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), comm
    );
    neighbor_alltoallv ineighbor_alltoallv neighbor_alltoallv_init(
        sendbuf: *const c_void, sendcounts: IntArray, sdispls: IntArray, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: IntArray, rdispls: IntArray, recvtype: MPI_Datatype, comm: MPI_Comm
    ) "Neighbor_alltoallv" |form, process, comm| start_alltoallv(form, process, (sendbuf, Places { counts: sendcounts, displacements: sdispls }, sendtype),
        (recvbuf, Places { counts: recvcounts, displacements: rdispls }, recvtype), comm
    );
    neighbor_alltoallw ineighbor_alltoallw neighbor_alltoallw_init(
        sendbuf: *const c_void, sendcounts: IntArray, sdispls: *const MPI_Aint, sendtypes: *const MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: IntArray, rdispls: *const MPI_Aint, recvtypes: *const MPI_Datatype,
        comm: MPI_Comm
    ) "Neighbor_alltoallw" |form, process, comm| start_alltoallw(form, process, (sendbuf, Typed {
            places: Places { counts: sendcounts, displacements: IntArray::I64(sdispls) }, types: sendtypes
        }),
        (recvbuf, Typed {
            places: Places { counts: recvcounts, displacements: IntArray::I64(rdispls) }, types: recvtypes
        }),
        comm
    );
}
