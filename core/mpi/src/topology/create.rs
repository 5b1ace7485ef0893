//! Making communicators with topologies (sections 8.5.1, 8.5.3, 8.5.4, 8.5.7): who is a member, under which rank, and what it
//! knows.

use super::cart::Cart;
use super::dist_graph::{DistGraph, Edge};
use super::graph::Graph;
use super::reorder;
use super::sparse::exchange;
use super::steps::Driver;
use super::{Topology, Weights};
use crate::comm::Comm;
use crate::construct::Construction;
use crate::group::Group;
use std::sync::Arc;
use weft_types::{Error, ErrorClass, Handle, PeerId, Rank, Result};

/// Who says what about weights in `MPI_Dist_graph_create`: all must agree (section 8.5.4).
const WEIGHTED: u64 = 1;
const UNWEIGHTED: u64 = 2;
const REORDER: u64 = 4;
const NO_REORDER: u64 = 8;

/// `MPI_Cart_create`; `None` for processes outside the grid. Collective over `parent`.
///
/// # Errors
/// As [`Cart::within`]; what went wrong on the way.
pub fn cart<D: Driver>(
    driver: &D,
    parent: Handle,
    dims: &[i32],
    periods: &[bool],
    reorder: bool,
) -> Result<Option<Handle>> {
    let cart = driver.with(|process| {
        let comm = process.comms.get(parent)?;
        comm.check_intra("MPI_Cart_create")?;
        Cart::within(dims, periods, comm.size)
    })?;
    let order = if reorder { reorder::for_cart(driver, parent, &cart)? } else { None };
    let size = cart.size();
    build(driver, parent, |comm| first_members(comm, size, order), Topology::Cart(cart))
}

/// `MPI_Graph_create`; `None` for processes outside the graph. Collective over `parent`.
///
/// # Errors
/// As [`Graph::within`]; what went wrong on the way.
pub fn graph<D: Driver>(
    driver: &D,
    parent: Handle,
    index: &[i32],
    edges: &[i32],
    reorder: bool,
) -> Result<Option<Handle>> {
    let graph = driver.with(|process| {
        let comm = process.comms.get(parent)?;
        comm.check_intra("MPI_Graph_create")?;
        Graph::within(index, edges, comm.size)
    })?;
    let order = if reorder { reorder::for_graph(driver, parent, &graph)? } else { None };
    let size = graph.size();
    build(driver, parent, |comm| first_members(comm, size, order), Topology::Graph(graph))
}

/// `MPI_Cart_sub`: the subgrid of the dimensions that remain. Collective over `parent`.
///
/// # Errors
/// `MPI_ERR_TOPOLOGY` for a communicator that has no Cartesian topology; what went wrong on the way.
pub fn cart_sub<D: Driver>(driver: &D, parent: Handle, remain: &[bool]) -> Result<Option<Handle>> {
    let (cart, members) = driver.with(|process| {
        let comm = process.comms.get(parent)?;
        comm.cart()?.sub(comm.rank.0 as i32, remain)
    })?;
    let ranks = move |comm: &Comm| {
        Arc::new(Group::from_peers(members.iter().map(|&rank| comm.group.peer(Rank(rank as u32)))))
    };
    build(driver, parent, ranks, Topology::Cart(cart))
}

/// `MPI_Dist_graph_create_adjacent`: `own` are the edges at this process. Collective over `parent`.
///
/// # Errors
/// What went wrong on the way.
pub fn dist_graph_adjacent<D: Driver>(
    driver: &D,
    parent: Handle,
    own: DistGraph,
    reorder: bool,
) -> Result<Option<Handle>> {
    driver.with(|process| process.comms.get(parent)?.check_intra("a distributed graph"))?;
    let (own, order) = match reorder {
        true => reorder::for_dist_graph(driver, parent, own)?,
        false => (own, None),
    };
    build(driver, parent, |comm| first_members(comm, comm.size, order), Topology::DistGraph(own))
}

/// `MPI_Dist_graph_create`: `specified` are edges between any processes; `weighted` is `None` when this process specifies none
/// and leaves the question to the others. Collective over `parent`.
///
/// # Errors
/// `MPI_ERR_ARG`, at all processes, when they do not agree about weights or reordering; what went wrong on the way.
pub fn dist_graph<D: Driver>(
    driver: &D,
    parent: Handle,
    specified: &[Edge],
    weighted: Option<bool>,
    reorder: bool,
) -> Result<Option<Handle>> {
    driver.with(|process| process.comms.get(parent)?.check_intra("a distributed graph"))?;
    let about_weights = weighted.map_or(0, |weighted| if weighted { WEIGHTED } else { UNWEIGHTED });
    let about_order = if reorder { REORDER } else { NO_REORDER };
    let exchanged = exchange(driver, parent, specified, about_weights | about_order)?;
    let said = |flag| exchanged.flags & flag != 0;
    if said(WEIGHTED) && said(UNWEIGHTED) {
        return Err(Error::new(
            ErrorClass::ARG,
            "weights is MPI_UNWEIGHTED at some processes and not at others; a graph is weighted everywhere or nowhere (MPI_WEIGHTS_EMPTY where there are no edges)",
        ));
    }
    if said(REORDER) && said(NO_REORDER) {
        return Err(Error::new(
            ErrorClass::ARG,
            "reorder is true at some processes and false at others; all must give the same value",
        ));
    }
    let rank = driver.with(|process| process.comms.get(parent).map(|comm| comm.rank))?;
    let own = DistGraph::of(rank.0 as i32, &exchanged.edges, !said(UNWEIGHTED));
    dist_graph_adjacent(driver, parent, own, reorder)
}

/// The edges of `MPI_Dist_graph_create_adjacent` at one process; `weights` is `None` for `MPI_UNWEIGHTED`.
pub fn adjacent(sources: &[i32], destinations: &[i32], weights: Option<Weights>) -> DistGraph {
    DistGraph { sources: sources.into(), destinations: destinations.into(), weights }
}

/// The first `size` ranks, or those in `order`.
fn first_members(comm: &Comm, size: u32, order: Option<Vec<u32>>) -> Arc<Group> {
    match order {
        None if size == comm.size => Arc::clone(&comm.group),
        None => Arc::new(Group::from_peers((0..size).map(|rank| comm.group.peer(Rank(rank))))),
        Some(order) => Arc::new(Group::from_peers(order.into_iter().map(|rank| comm.group.peer(Rank(rank))))),
    }
}

/// Makes the communicator of the members; `None` for this process when it is none.
fn build<D: Driver>(
    driver: &D,
    parent: Handle,
    members: impl FnOnce(&Comm) -> Arc<Group>,
    topology: Topology,
) -> Result<Option<Handle>> {
    let begun = driver.with(|process| {
        let group = members(process.comms.get(parent)?);
        let is_member = group.rank_of(PeerId(process.job.rank)).is_some();
        let mut construction = process.create(parent, &group)?;
        construction.topology = is_member.then(|| Arc::new(topology));
        Ok(construction)
    });
    let construction: Construction = begun?;
    driver.construct(parent, construction)
}
