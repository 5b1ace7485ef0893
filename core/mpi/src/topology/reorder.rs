//! Who gets which rank when `reorder` is true (sections 8.5.1 to 8.5.4), and the map procedures (8.5.8).
//!
//! What is known of everybody's place without asking decides the road: in a job on one node all know the CPUs of all, and every
//! process computes the same order by itself; otherwise the places are gathered first. A job whose processes all sit alike, as
//! far as anybody knows, is left as it is without any communication. The traffic of a Cartesian grid and of a graph is known to
//! all; that of a distributed graph is collected at rank 0, which broadcasts the order. The order itself is the group of the
//! new communicator.

use super::cart::Cart;
use super::dist_graph::{DistGraph, Weights};
use super::graph::Graph;
use super::sparse::own_tag;
use super::steps::{
    Driver, allgather, bcast, bytes_of, bytes_to_words, gather_to_first, memory_of, words_to_bytes,
};
use crate::comm::Comm;
use crate::process::Process;
use weft_datatype::Memory;
use weft_engine::{Envelope, Selector, SendMode, Started};
use weft_place::mapping::{Edges, Grid, Seat, Traffic, Work, arrange};
use weft_types::{Handle, PeerId, Rank, Result};

/// For each rank of the grid the rank of the process in the parent; `None` to leave them as they are.
pub(super) fn for_cart<D: Driver>(driver: &D, parent: Handle, cart: &Cart) -> Result<Option<Vec<u32>>> {
    order(driver, parent, &grid_of(cart))
}

/// The same for the nodes of a graph.
pub(super) fn for_graph<D: Driver>(driver: &D, parent: Handle, graph: &Graph) -> Result<Option<Vec<u32>>> {
    order(driver, parent, &traffic_of(graph))
}

fn order<D: Driver>(driver: &D, parent: Handle, edges: &impl Edges) -> Result<Option<Vec<u32>>> {
    let (known, own) = driver.with(|process| (known_seats(process, parent), process.own_seat()));
    let seats = match known? {
        Some(seats) => seats,
        None => {
            let size = driver.with(|process| process.comms.get(parent).map(|comm| comm.size))?;
            let all = allgather(driver, parent, size, &own.to_bytes())?;
            all.chunks_exact(Seat::BYTES).map(Seat::from_bytes).collect()
        }
    };
    Ok(arrange(edges, &seats[..edges.len()], Work::default()))
}

/// `MPI_Cart_map`: the new rank of the calling process; `None` outside the grid. Local.
///
/// # Errors
/// `MPI_ERR_COMM` for a bad handle.
pub fn map_cart(process: &mut Process, comm: Handle, cart: &Cart) -> Result<Option<u32>> {
    map(process, comm, &grid_of(cart))
}

/// `MPI_Graph_map`: the new rank of the calling process; `None` outside the graph. Local.
///
/// # Errors
/// `MPI_ERR_COMM` for a bad handle.
pub fn map_graph(process: &mut Process, comm: Handle, graph: &Graph) -> Result<Option<u32>> {
    map(process, comm, &traffic_of(graph))
}

/// By what is known without asking; where that is not enough everybody keeps its rank.
fn map(process: &mut Process, comm: Handle, edges: &impl Edges) -> Result<Option<u32>> {
    let rank = process.comms.get(comm)?.rank.0;
    let order =
        known_seats(process, comm)?.and_then(|seats| arrange(edges, &seats[..edges.len()], Work::default()));
    let new_rank = match order {
        None => rank as usize,
        Some(order) => order.iter().position(|&process| process == rank).unwrap_or(edges.len()),
    };
    Ok((new_rank < edges.len()).then_some(new_rank as u32))
}

fn grid_of(cart: &Cart) -> Grid {
    let dims: Vec<u32> = cart.dims().iter().map(|&extent| extent as u32).collect();
    Grid::new(&dims, cart.periods())
}

fn traffic_of(graph: &Graph) -> Traffic {
    let mut edges = Vec::with_capacity(graph.edges().len());
    let mut begin = 0;
    for (node, &end) in (0..).zip(graph.index()) {
        edges.extend(graph.edges()[begin..end as usize].iter().map(|&to| (node, to as u32, 1)));
        begin = end as usize;
    }
    Traffic::new(graph.size() as usize, &edges)
}

/// Where the members of a communicator sit, when every one of them knows that; the same answer at all.
fn known_seats(process: &mut Process, comm: Handle) -> Result<Option<Vec<Seat>>> {
    let job = &process.job;
    if job.local_ranks.len() != job.size as usize {
        return Ok(None);
    }
    let hardware = process.hardware();
    let comm: &Comm = process.comms.get(comm)?;
    let node = process.job.node();
    let seat = |peer: PeerId| match (&hardware, process.job.local_cpus.get(peer.0 as usize)) {
        (Some(hardware), Some(cpus)) => hardware.parts.seat(node, cpus),
        _ => Seat::on_node(node),
    };
    Ok(Some(comm.group.peers().map(seat).collect()))
}

/// The distributed graph with new ranks: the edges this process has then, and the order. Collective over `parent`.
pub(super) fn for_dist_graph<D: Driver>(
    driver: &D,
    parent: Handle,
    own: DistGraph,
) -> Result<(DistGraph, Option<Vec<u32>>)> {
    let (rank, size) =
        driver.with(|process| process.comms.get(parent).map(|comm| (comm.rank.0, comm.size)))?;
    let (known, seat) = driver.with(|process| (known_seats(process, parent), process.own_seat()));
    if known?.is_some_and(|seats| seats.iter().all(|other| *other == seats[0])) {
        return Ok((own, None));
    }
    let mut record = seat.to_bytes().to_vec();
    let edges = own.out_edges(rank as i32);
    record.extend(words_to_bytes(edges.flat_map(|edge| [edge.destination, edge.weight])));
    let records = gather_to_first(driver, parent, size, rank == 0, &record)?;
    let decided = (rank == 0).then(|| {
        let seats: Vec<Seat> = records.iter().map(|record| Seat::from_bytes(record)).collect();
        let mut edges = Vec::new();
        for (from, record) in (0..).zip(&records) {
            let words = bytes_to_words(&record[Seat::BYTES..]);
            // A weight of 0 says "hardly any", not "none": two processes joined by an edge should not sit apart for nothing.
            let edge = |edge: &[i32]| (from, edge[0] as u32, 16 * i64::from(edge[1]) as u64 + 1);
            edges.extend(words.chunks_exact(2).map(edge));
        }
        arrange(&Traffic::new(size as usize, &edges), &seats, Work::default())
            .unwrap_or_else(|| (0..size).collect())
    });
    let said = decided.map(|order| words_to_bytes(order.into_iter().map(|rank| rank as i32)));
    let said = bcast(driver, parent, said.as_deref(), 4 * size as usize)?;
    let order: Vec<u32> = bytes_to_words(&said).into_iter().map(|rank| rank as u32).collect();
    if order.iter().copied().eq(0..size) {
        return Ok((own, None));
    }
    // Vertex r of the graph was described by the process of rank r, and is the one of rank r from now on.
    let new_rank = order.iter().position(|&process| process == rank).unwrap_or(rank as usize) as u32;
    let handed = hand_over(driver, parent, order[rank as usize], new_rank, &emit(&own))?;
    Ok((parse(&handed), Some(order)))
}

fn emit(graph: &DistGraph) -> Vec<u8> {
    let no_weights = Weights::default();
    let weights = graph.weights.as_ref();
    let head = [graph.sources.len() as i32, graph.destinations.len() as i32, i32::from(weights.is_some())];
    let weights = weights.unwrap_or(&no_weights);
    let lists = [&graph.sources, &graph.destinations, &weights.sources, &weights.destinations];
    words_to_bytes(head.into_iter().chain(lists.into_iter().flatten().copied()))
}

fn parse(bytes: &[u8]) -> DistGraph {
    let words = bytes_to_words(bytes);
    let (head, mut rest) = words.split_at(3);
    let mut take = |count: i32| -> Box<[i32]> {
        let (list, after) = rest.split_at(count as usize);
        rest = after;
        list.into()
    };
    let (sources, destinations) = (take(head[0]), take(head[1]));
    let weights = (head[2] == 1).then(|| Weights { sources: take(head[0]), destinations: take(head[1]) });
    DistGraph { sources, destinations, weights }
}

/// Sends bytes to one rank and gets those of another, on the communicator's collective channel; each rank is the target of one.
fn hand_over<D: Driver>(driver: &D, comm: Handle, to: u32, from: u32, bytes: &[u8]) -> Result<Vec<u8>> {
    let memory = memory_of(bytes);
    let (sent, selector) =
        driver.with(|process| begin_hand_over(process, comm, to, from, &memory, bytes.len()))?;
    let (message, status) = driver.wait(|process| process.engine.improbe(selector));
    let length = status.bytes as usize;
    let room = Memory::packed_scratch(length);
    let request =
        driver.with(|process| process.engine.imrecv(message, room.recv_view(0, 0, length as u64)))?;
    driver.complete(request)?;
    if let Started::Pending(request) = sent {
        driver.complete(request)?;
    }
    Ok(bytes_of(&room, length))
}

fn begin_hand_over(
    process: &mut Process,
    comm: Handle,
    to: u32,
    from: u32,
    memory: &Memory,
    length: usize,
) -> Result<(Started, Selector)> {
    let tag = own_tag(process, comm)?;
    let comm = process.comms.get(comm)?;
    let context = comm.context.collective();
    let (to, from) = (Rank(to), Rank(from));
    let envelope = Envelope { peer: comm.group.peer(to), context, source: comm.rank, tag };
    let selector =
        Selector { context, peer: Some(comm.group.peer(from)), source: Some(from), tag: Some(tag) };
    let view = memory.send_view(0, 0, length as u64);
    Ok((process.engine.send(envelope, SendMode::Standard, view)?, selector))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_graph_handed_over_is_the_same(
            edges in prop::collection::vec((any::<i32>(), any::<i32>()), 0..9),
            into in 0usize..9,
            weighted in any::<bool>(),
        ) {
            let (into, out) = edges.split_at(into.min(edges.len()));
            let ranks = |edges: &[(i32, i32)]| edges.iter().map(|&(rank, _)| rank).collect();
            let weights = |edges: &[(i32, i32)]| edges.iter().map(|&(_, weight)| weight).collect();
            let graph = DistGraph {
                sources: ranks(into),
                destinations: ranks(out),
                weights: weighted.then(|| Weights { sources: weights(into), destinations: weights(out) }),
            };
            prop_assert_eq!(parse(&emit(&graph)), graph);
        }
    }
}
