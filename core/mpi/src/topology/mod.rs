//! Virtual topologies (chapter 8): what a communicator may know about who talks to whom.
//!
//! The three kinds are plain values ([`Cart`], [`Graph`], [`DistGraph`]) that hang on a communicator behind a shared pointer, so
//! that duplicates share them. Making one is collective: [`create`] (with [`sparse`], the exchange of edges that anybody may
//! specify) builds group and topology, [`reorder`] decides who gets which rank.

pub mod cart;
pub mod create;
pub mod dims;
pub mod dist_graph;
pub mod graph;
pub mod locality;
pub mod neighborhood;
pub mod reorder;
mod sparse;
pub mod split_type;
pub(crate) mod steps;

pub use cart::Cart;
pub use dist_graph::{DistGraph, Edge, Weights};
pub use graph::Graph;
pub use steps::Driver;

use crate::comm::Comm;
use weft_types::{Error, ErrorClass, Result, abi};

/// The topology of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// From `MPI_Cart_create` or `MPI_Cart_sub`.
    Cart(Cart),
    /// From `MPI_Graph_create`.
    Graph(Graph),
    /// From `MPI_Dist_graph_create` or `MPI_Dist_graph_create_adjacent`.
    DistGraph(DistGraph),
}

/// Whom a process receives from and sends to in neighbourhood collectives, in the order of the blocks in its buffers
/// (section 8.6). Entries are ranks, `MPI_PROC_NULL` beyond the border of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighborhood {
    /// Sources, by block of the receive buffer.
    pub sources: Vec<i32>,
    /// Destinations, by block of the send buffer.
    pub destinations: Vec<i32>,
}

impl Topology {
    /// What `MPI_Topo_test` says.
    pub const fn kind(&self) -> i32 {
        match self {
            Topology::Cart(_) => abi::MPI_CART,
            Topology::Graph(_) => abi::MPI_GRAPH,
            Topology::DistGraph(_) => abi::MPI_DIST_GRAPH,
        }
    }

    /// The kind as error texts name it.
    const fn name(&self) -> &'static str {
        match self {
            Topology::Cart(_) => "a Cartesian topology",
            Topology::Graph(_) => "a graph topology",
            Topology::DistGraph(_) => "a distributed graph topology",
        }
    }

    /// The neighbours of the calling process, whose rank is `rank`.
    ///
    /// In a periodic dimension of one or two processes both neighbours are one process. Its message from "below" is the one that
    /// it sent "above": the block for destination `2d` fills the receiver's block of source `2d + 1`, and the other way round.
    ///
    /// # Errors
    /// `MPI_ERR_RANK` for a rank that is not in the topology.
    pub fn neighborhood(&self, rank: i32) -> Result<Neighborhood> {
        let both = |list: Vec<i32>| Neighborhood { sources: list.clone(), destinations: list };
        Ok(match self {
            Topology::Cart(cart) => both(cart.neighbors(rank)?),
            Topology::Graph(graph) => both(graph.neighbors(rank)?.to_vec()),
            Topology::DistGraph(own) => {
                Neighborhood { sources: own.sources.to_vec(), destinations: own.destinations.to_vec() }
            }
        })
    }
}

impl Topology {
    /// How many sources and destinations rank `rank` has, without listing them.
    ///
    /// # Errors
    /// As [`Topology::neighborhood`].
    pub fn degrees(&self, rank: i32) -> Result<(u32, u32)> {
        Ok(match self {
            Topology::Cart(cart) => {
                let both = 2 * cart.dims().len() as u32;
                (both, both)
            }
            Topology::Graph(graph) => {
                let both = graph.neighbors(rank)?.len() as u32;
                (both, both)
            }
            Topology::DistGraph(own) => (own.sources.len() as u32, own.destinations.len() as u32),
        })
    }
}

impl Comm {
    /// The topology, whatever its kind.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY` for a communicator without one.
    pub fn any_topology(&self) -> Result<&Topology> {
        self.topology.as_deref().ok_or_else(|| self.no_topology("a topology"))
    }

    /// The Cartesian topology.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY` for a communicator with none, or of another kind.
    pub fn cart(&self) -> Result<&Cart> {
        match self.topology.as_deref() {
            Some(Topology::Cart(cart)) => Ok(cart),
            _ => Err(self.no_topology("a Cartesian topology")),
        }
    }

    /// The graph topology.
    ///
    /// # Errors
    /// As [`Comm::cart`].
    pub fn graph(&self) -> Result<&Graph> {
        match self.topology.as_deref() {
            Some(Topology::Graph(graph)) => Ok(graph),
            _ => Err(self.no_topology("a graph topology")),
        }
    }

    /// The distributed graph topology.
    ///
    /// # Errors
    /// As [`Comm::cart`].
    pub fn dist_graph(&self) -> Result<&DistGraph> {
        match self.topology.as_deref() {
            Some(Topology::DistGraph(graph)) => Ok(graph),
            _ => Err(self.no_topology("a distributed graph topology")),
        }
    }

    #[cold]
    fn no_topology(&self, wanted: &str) -> Error {
        let has = self.topology.as_ref().map_or("none", |topology| topology.name());
        let name = self.display_name();
        Error::new(
            ErrorClass::TOPOLOGY,
            format!("comm is {name}, which has {has}; this procedure needs {wanted}"),
        )
    }
}
