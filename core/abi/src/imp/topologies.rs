//! Making communicators with topologies (sections 8.5.1 to 8.5.4, 8.5.7), and what is local about it (8.5.2, 8.5.8).

use std::cell::RefCell;
use std::ffi::c_int;

use weft::Process;
use weft::construct::Construction;
use weft::topology::dist_graph::{check_not_negative, check_ranks};
use weft::topology::{Cart, Driver, Edge, Graph, Weights, create, dims, reorder};
use weft_engine::RequestId;
use weft_types::{Error, ErrorClass, Handle, Result as Outcome, abi};

use super::collective_forms::check_making;
use super::errors;
use super::groups::slice;
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::watch::Awaited;

/// The gate, as constructions of several steps see it; with the procedure's name for the watchdog.
pub(super) struct Gate(pub(super) &'static str);

impl Driver for Gate {
    fn with<R>(&self, work: impl FnOnce(&mut Process) -> R) -> R {
        gate::with(work)
    }

    fn wait<T>(&self, poll: impl FnMut(&mut Process) -> Option<T>) -> T {
        gate::wait_for(self.0, Awaited::Something, poll)
    }

    fn complete(&self, request: RequestId) -> Outcome<()> {
        let done = gate::wait_for(self.0, Awaited::Own(request), |process| {
            process.has_ended(request).then(|| process.take_ended(request))
        });
        done.error.map_or(Ok(()), Err)
    }

    fn construct(&self, parent: Handle, construction: Construction) -> Outcome<Option<Handle>> {
        let construction = RefCell::new(construction);
        gate::wait_for(self.0, Awaited::Construction(&construction, parent), |process| {
            construction.borrow_mut().poll(process).transpose()
        })
    }
}

/// Hands a new communicator to the program, `MPI_COMM_NULL` when this process got none.
///
/// # Safety
/// `newcomm` is writable.
pub(super) unsafe fn hand_out(
    parent: MPI_Comm,
    newcomm: *mut MPI_Comm,
    made: Outcome<Option<Handle>>,
) -> Result<(), Raised> {
    let made = made.map_err(|error| Raised::on_comm(parent.handle(), error))?;
    if let Some(comm) = made {
        let inherited = gate::with(|process| process.comms.get(comm).map(|comm| comm.errhandler))?;
        errors::inherit(inherited);
    }
    // SAFETY: the caller's promise.
    unsafe { newcomm.write(MPI_Comm::from_raw(made.map_or(abi::MPI_COMM_NULL, |comm| comm.0))) };
    Ok(())
}

/// The `reorder` arguments and periods of C: any value but 0 is true.
fn truths(values: &[c_int]) -> Vec<bool> {
    values.iter().map(|&value| value != 0).collect()
}

/// `MPI_Cart_create` (section 8.5.1).
pub(crate) unsafe fn cart_create(
    comm_old: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    comm_cart: *mut MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: the program passes `ndims` entries; the entry has refused null.
    let (dims, periods) = unsafe { (slice(ndims, dims), truths(slice(ndims, periods))) };
    check_making("MPI_Cart_create", comm_old)?;
    let made = create::cart(&Gate("MPI_Cart_create"), comm_old.handle(), dims, &periods, reorder != 0);
    // SAFETY: the entry has refused null.
    unsafe { hand_out(comm_old, comm_cart, made) }
}

/// `MPI_Cart_map` (section 8.5.8).
pub(crate) unsafe fn cart_map(
    comm: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    newrank: *mut c_int,
) -> Result<(), Raised> {
    // SAFETY: as above.
    let (dims, periods) = unsafe { (slice(ndims, dims), truths(slice(ndims, periods))) };
    let found = gate::with(|process| {
        let cart = Cart::within(dims, &periods, process.comms.get(comm.handle())?.size)?;
        reorder::map_cart(process, comm.handle(), &cart)
    })
    .map_err(|error: Error| Raised::from(error))?;
    // SAFETY: the entry has refused null.
    unsafe { newrank.write(found.map_or(abi::MPI_UNDEFINED, |rank| rank as c_int)) };
    Ok(())
}

/// `MPI_Cart_sub` (section 8.5.7).
pub(crate) unsafe fn cart_sub(
    comm: MPI_Comm,
    remain_dims: *const c_int,
    newcomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    let ndims = gate::with(|process| process.comms.get(comm.handle())?.cart().map(Cart::ndims))?;
    crate::args::array("remain_dims", remain_dims.is_null(), ndims as i64)?;
    // SAFETY: the program passes an entry for each dimension; null was refused.
    let remain = truths(unsafe { slice(ndims as c_int, remain_dims) });
    check_making("MPI_Cart_sub", comm)?;
    let made = create::cart_sub(&Gate("MPI_Cart_sub"), comm.handle(), &remain);
    // SAFETY: the entry has refused null.
    unsafe { hand_out(comm, newcomm, made) }
}

/// `MPI_Dims_create` (section 8.5.2).
pub(crate) unsafe fn dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the program passes `ndims` entries; the entry has refused null.
    let mut chosen = unsafe { slice(ndims, dims.cast_const()) }.to_vec();
    dims::balance(nnodes, &mut chosen)?;
    for (at, &extent) in chosen.iter().enumerate() {
        // SAFETY: as above.
        unsafe { dims.add(at).write(extent) };
    }
    Ok(())
}

/// `index` and `edges` of a graph.
///
/// # Safety
/// The program passes `nnodes` entries in `index` and as many in `edges` as the last of them says.
unsafe fn graph_arguments<'a>(
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Result<(&'a [c_int], &'a [c_int]), Raised> {
    // SAFETY: the caller's promise; the entry has refused null.
    let index = unsafe { slice(nnodes, index) };
    let count = Graph::count_edges(index)?;
    crate::args::array("edges", edges.is_null(), count as i64)?;
    // SAFETY: the caller's promise.
    Ok((index, unsafe { slice(count as c_int, edges) }))
}

/// `MPI_Graph_create` (section 8.5.3).
pub(crate) unsafe fn graph_create(
    comm_old: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    comm_graph: *mut MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: the program's arrays.
    let (index, edges) = unsafe { graph_arguments(nnodes, index, edges)? };
    check_making("MPI_Graph_create", comm_old)?;
    let made = create::graph(&Gate("MPI_Graph_create"), comm_old.handle(), index, edges, reorder != 0);
    // SAFETY: the entry has refused null.
    unsafe { hand_out(comm_old, comm_graph, made) }
}

/// `MPI_Graph_map` (section 8.5.8).
pub(crate) unsafe fn graph_map(
    comm: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> Result<(), Raised> {
    // SAFETY: the program's arrays.
    let (index, edges) = unsafe { graph_arguments(nnodes, index, edges)? };
    let found = gate::with(|process| {
        let graph = Graph::within(index, edges, process.comms.get(comm.handle())?.size)?;
        reorder::map_graph(process, comm.handle(), &graph)
    })
    .map_err(|error: Error| Raised::from(error))?;
    // SAFETY: the entry has refused null.
    unsafe { newrank.write(found.map_or(abi::MPI_UNDEFINED, |rank| rank as c_int)) };
    Ok(())
}

/// What an argument of weights is: the predefined addresses are no arrays.
enum WeightsArgument<'a> {
    Unweighted,
    Given(&'a [c_int]),
}

/// # Safety
/// The program passes one of the constants or `count` entries.
unsafe fn weights_argument<'a>(
    name: &str,
    weights: *const c_int,
    count: usize,
) -> Result<WeightsArgument<'a>, Raised> {
    let address = weights.addr();
    if address == abi::MPI_UNWEIGHTED {
        return Ok(WeightsArgument::Unweighted);
    }
    let is_empty = address == abi::MPI_WEIGHTS_EMPTY;
    if count > 0 && (is_empty || weights.is_null()) {
        let what = if is_empty { "MPI_WEIGHTS_EMPTY" } else { "a null pointer" };
        let text = format!(
            "{name} is {what}, but there are {count} edges; pass their weights, or MPI_UNWEIGHTED at all processes"
        );
        return Err(Error::new(ErrorClass::ARG, text).into());
    }
    let count = if is_empty || weights.is_null() { 0 } else { count };
    // SAFETY: the caller's promise.
    let weights = unsafe { slice(count as c_int, weights) };
    check_not_negative(name, weights)?;
    Ok(WeightsArgument::Given(weights))
}

/// `MPI_Dist_graph_create_adjacent` (section 8.5.4). No info key is supported.
pub(crate) unsafe fn dist_graph_create_adjacent(
    comm_old: MPI_Comm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> Result<(), Raised> {
    gate::always(|always| always.hints(info.handle()).map(|_| ()))?;
    // SAFETY: the program passes arrays of the degrees; the entry has refused null.
    let (sources, destinations) = unsafe { (slice(indegree, sources), slice(outdegree, destinations)) };
    let size = gate::with(|process| process.comms.get(comm_old.handle()).map(|comm| comm.size))?;
    check_ranks("sources", sources, size)?;
    check_ranks("destinations", destinations, size)?;
    // SAFETY: the program passes arrays of the degrees, or the constants.
    let weights = unsafe {
        let into = weights_argument("sourceweights", sourceweights, sources.len())?;
        let out = weights_argument("destweights", destweights, destinations.len())?;
        match (into, out) {
            (WeightsArgument::Given(into), WeightsArgument::Given(out)) => {
                Some(Weights { sources: into.into(), destinations: out.into() })
            }
            (WeightsArgument::Unweighted, WeightsArgument::Unweighted) => None,
            // Without edges in one direction nothing was said about their weights.
            (WeightsArgument::Given(&[]), WeightsArgument::Unweighted) if sources.is_empty() => None,
            (WeightsArgument::Unweighted, WeightsArgument::Given(&[])) if destinations.is_empty() => None,
            _ => {
                let text = "one of sourceweights and destweights is MPI_UNWEIGHTED and the other is not; a graph is weighted everywhere or nowhere";
                return Err(Error::new(ErrorClass::ARG, text).into());
            }
        }
    };
    let own = create::adjacent(sources, destinations, weights);
    check_making("MPI_Dist_graph_create_adjacent", comm_old)?;
    let made = create::dist_graph_adjacent(
        &Gate("MPI_Dist_graph_create_adjacent"),
        comm_old.handle(),
        own,
        reorder != 0,
    );
    // SAFETY: the entry has refused null.
    unsafe { hand_out(comm_old, comm_dist_graph, made) }
}

/// `MPI_Dist_graph_create` (section 8.5.4). No info key is supported.
pub(crate) unsafe fn dist_graph_create(
    comm_old: MPI_Comm,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> Result<(), Raised> {
    gate::always(|always| always.hints(info.handle()).map(|_| ()))?;
    // SAFETY: the program passes `n` entries; the entry has refused null.
    let (sources, degrees) = unsafe { (slice(n, sources), slice(n, degrees)) };
    let size = gate::with(|process| process.comms.get(comm_old.handle()).map(|comm| comm.size))?;
    check_ranks("sources", sources, size)?;
    check_not_negative("degrees", degrees)?;
    let count: i64 = degrees.iter().map(|&degree| i64::from(degree)).sum();
    let Ok(count) = c_int::try_from(count) else {
        let text = format!("degrees add up to {count} edges; one process can specify {}", c_int::MAX);
        return Err(Error::new(ErrorClass::ARG, text).into());
    };
    crate::args::array("destinations", destinations.is_null(), i64::from(count))?;
    // SAFETY: the program passes as many destinations as the degrees say.
    let destinations = unsafe { slice(count, destinations) };
    check_ranks("destinations", destinations, size)?;
    // SAFETY: the program passes one of the constants or a weight for each edge.
    let (weighted, weights) = match unsafe { weights_argument("weights", weights, count as usize)? } {
        WeightsArgument::Unweighted => (Some(false), &[][..]),
        // A null pointer without edges may stand for either.
        WeightsArgument::Given(&[]) if weights.is_null() => (None, &[][..]),
        WeightsArgument::Given(given) => (Some(true), given),
    };
    let mut specified = Vec::with_capacity(count as usize);
    for (&source, &degree) in sources.iter().zip(degrees) {
        for _ in 0..degree {
            let at = specified.len();
            let weight = weights.get(at).copied().unwrap_or(1);
            specified.push(Edge { source, destination: destinations[at], weight });
        }
    }
    check_making("MPI_Dist_graph_create", comm_old)?;
    let made = create::dist_graph(
        &Gate("MPI_Dist_graph_create"),
        comm_old.handle(),
        &specified,
        weighted,
        reorder != 0,
    );
    // SAFETY: the entry has refused null.
    unsafe { hand_out(comm_old, comm_dist_graph, made) }
}
