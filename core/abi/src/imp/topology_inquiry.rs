//! Asking for topologies (sections 8.5.5 and 8.5.6); all local.

use std::ffi::c_int;

use weft::comm::Comm;
use weft::topology::{Cart, Topology};
use weft_types::{Error, ErrorClass, Result as Outcome, abi};

use super::groups::slice;
use crate::args;
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;

/// Asks a communicator.
fn ask<T>(comm: MPI_Comm, question: impl FnOnce(&Comm) -> Outcome<T>) -> Result<T, Raised> {
    Ok(gate::with(|process| question(process.comms.get(comm.handle())?))?)
}

/// Writes `values` to an array of the program.
///
/// # Safety
/// The array has that much room.
unsafe fn write(array: *mut c_int, values: impl IntoIterator<Item = c_int>) {
    for (at, value) in values.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { array.add(at).write(value) };
    }
}

/// A room that is too small. The standard leaves open what happens then; an error tells more than half an answer.
fn check_room(argument: &str, room: c_int, needed: usize, class: ErrorClass) -> Outcome<()> {
    match room as usize >= needed {
        true => Ok(()),
        false => {
            Err(Error::new(class, format!("{argument} is {room}, but {needed} entries are to be written")))
        }
    }
}

/// `MPI_Topo_test` (section 8.5.5).
pub(crate) unsafe fn topo_test(comm: MPI_Comm, status: *mut c_int) -> Result<(), Raised> {
    let kind = ask(comm, |comm| Ok(comm.topology.as_deref().map_or(abi::MPI_UNDEFINED, Topology::kind)))?;
    // SAFETY: the entry has refused null.
    unsafe { status.write(kind) };
    Ok(())
}

/// `MPI_Cartdim_get` (section 8.5.5).
pub(crate) unsafe fn cartdim_get(comm: MPI_Comm, ndims: *mut c_int) -> Result<(), Raised> {
    let count = ask(comm, |comm| comm.cart().map(Cart::ndims))?;
    // SAFETY: the entry has refused null.
    unsafe { ndims.write(count as c_int) };
    Ok(())
}

/// `MPI_Cart_get` (section 8.5.5).
pub(crate) unsafe fn cart_get(
    comm: MPI_Comm,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> Result<(), Raised> {
    let (cart, own) = ask(comm, |comm| {
        let cart = comm.cart()?;
        check_room("maxdims", maxdims, cart.ndims(), ErrorClass::DIMS)?;
        Ok((cart.clone(), cart.coords(comm.rank.0 as i32)?))
    })?;
    // SAFETY: the program's arrays have room for `maxdims` entries; the entry has refused null.
    unsafe {
        write(dims, cart.dims().iter().copied());
        write(periods, cart.periods().iter().map(|&periodic| c_int::from(periodic)));
        write(coords, own);
    }
    Ok(())
}

/// `MPI_Cart_rank` (section 8.5.5).
pub(crate) unsafe fn cart_rank(comm: MPI_Comm, coords: *const c_int, rank: *mut c_int) -> Result<(), Raised> {
    let cart = ask(comm, |comm| comm.cart().cloned())?;
    args::array("coords", coords.is_null(), cart.ndims() as i64)?;
    // SAFETY: the program passes a coordinate for each dimension; null was refused.
    let found = cart.rank(unsafe { slice(cart.ndims() as c_int, coords) })?;
    // SAFETY: the entry has refused null.
    unsafe { rank.write(found) };
    Ok(())
}

/// `MPI_Cart_coords` (section 8.5.5).
pub(crate) unsafe fn cart_coords(
    comm: MPI_Comm,
    rank: c_int,
    maxdims: c_int,
    coords: *mut c_int,
) -> Result<(), Raised> {
    let found = ask(comm, |comm| {
        let cart = comm.cart()?;
        check_room("maxdims", maxdims, cart.ndims(), ErrorClass::DIMS)?;
        cart.coords(rank)
    })?;
    // SAFETY: the program's array has room for `maxdims` entries; the entry has refused null.
    unsafe { write(coords, found) };
    Ok(())
}

/// `MPI_Cart_shift` (section 8.5.6).
pub(crate) unsafe fn cart_shift(
    comm: MPI_Comm,
    direction: c_int,
    disp: c_int,
    rank_source: *mut c_int,
    rank_dest: *mut c_int,
) -> Result<(), Raised> {
    let (source, dest) = ask(comm, |comm| comm.cart()?.shift(comm.rank.0 as i32, direction, disp))?;
    // SAFETY: the entry has refused null.
    unsafe {
        rank_source.write(source);
        rank_dest.write(dest);
    }
    Ok(())
}

/// `MPI_Graphdims_get` (section 8.5.5).
pub(crate) unsafe fn graphdims_get(
    comm: MPI_Comm,
    nnodes: *mut c_int,
    nedges: *mut c_int,
) -> Result<(), Raised> {
    let (nodes, edges) = ask(comm, |comm| comm.graph().map(|graph| (graph.size(), graph.edges().len())))?;
    // SAFETY: the entry has refused null.
    unsafe {
        nnodes.write(nodes as c_int);
        nedges.write(edges as c_int);
    }
    Ok(())
}

/// `MPI_Graph_get` (section 8.5.5).
pub(crate) unsafe fn graph_get(
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    index: *mut c_int,
    edges: *mut c_int,
) -> Result<(), Raised> {
    let graph = ask(comm, |comm| {
        let graph = comm.graph()?;
        check_room("maxindex", maxindex, graph.index().len(), ErrorClass::ARG)?;
        check_room("maxedges", maxedges, graph.edges().len(), ErrorClass::ARG)?;
        Ok(graph.clone())
    })?;
    // SAFETY: the program's arrays have that much room; the entry has refused null.
    unsafe {
        write(index, graph.index().iter().copied());
        write(edges, graph.edges().iter().copied());
    }
    Ok(())
}

/// `MPI_Graph_neighbors_count` (section 8.5.5).
pub(crate) unsafe fn graph_neighbors_count(
    comm: MPI_Comm,
    rank: c_int,
    nneighbors: *mut c_int,
) -> Result<(), Raised> {
    let count = ask(comm, |comm| comm.graph()?.neighbors(rank).map(<[i32]>::len))?;
    // SAFETY: the entry has refused null.
    unsafe { nneighbors.write(count as c_int) };
    Ok(())
}

/// `MPI_Graph_neighbors` (section 8.5.5).
pub(crate) unsafe fn graph_neighbors(
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> Result<(), Raised> {
    let found = ask(comm, |comm| {
        let found = comm.graph()?.neighbors(rank)?;
        check_room("maxneighbors", maxneighbors, found.len(), ErrorClass::ARG)?;
        Ok(found.to_vec())
    })?;
    // SAFETY: the program's array has that much room; the entry has refused null.
    unsafe { write(neighbors, found) };
    Ok(())
}

/// `MPI_Dist_graph_neighbors_count` (section 8.5.5).
pub(crate) unsafe fn dist_graph_neighbors_count(
    comm: MPI_Comm,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> Result<(), Raised> {
    let (into, out, has_weights) = ask(comm, |comm| {
        let own = comm.dist_graph()?;
        Ok((own.sources.len(), own.destinations.len(), own.weights.is_some()))
    })?;
    // SAFETY: the entry has refused null.
    unsafe {
        indegree.write(into as c_int);
        outdegree.write(out as c_int);
        weighted.write(c_int::from(has_weights));
    }
    Ok(())
}

/// `MPI_Dist_graph_neighbors` (section 8.5.5): the first part of each list when the room is smaller.
pub(crate) unsafe fn dist_graph_neighbors(
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> Result<(), Raised> {
    let own = ask(comm, |comm| comm.dist_graph().cloned())?;
    let wanted = |weights: *mut c_int| {
        !weights.is_null()
            && weights.addr() != abi::MPI_UNWEIGHTED
            && weights.addr() != abi::MPI_WEIGHTS_EMPTY
    };
    let first = |list: &[c_int], room: c_int| list[..list.len().min(room as usize)].to_vec();
    // SAFETY: the program's arrays have the room it says, those of weights unless they are one of the constants; the entry has
    // refused null.
    unsafe {
        write(sources, first(&own.sources, maxindegree));
        write(destinations, first(&own.destinations, maxoutdegree));
        if let Some(weights) = &own.weights {
            if wanted(sourceweights) {
                write(sourceweights, first(&weights.sources, maxindegree));
            }
            if wanted(destweights) {
                write(destweights, first(&weights.destinations, maxoutdegree));
            }
        }
    }
    Ok(())
}
