//! Distributed graph topologies (section 8.5.4): every process knows its own edges only.

use weft_types::{Error, ErrorClass, Result};

/// One process's edges of a distributed graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistGraph {
    /// Ranks this process is a destination of.
    pub sources: Box<[i32]>,
    /// Ranks this process is a source of.
    pub destinations: Box<[i32]>,
    /// Weights of the edges from the sources and to the destinations; `None` for a graph made with `MPI_UNWEIGHTED`.
    pub weights: Option<Weights>,
}

/// Weights of edges, in the order of the edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// Of the edges into this process.
    pub sources: Box<[i32]>,
    /// Of the edges out of this process.
    pub destinations: Box<[i32]>,
}

/// A directed edge between two ranks, as somebody specified it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Where it begins.
    pub source: i32,
    /// Where it ends.
    pub destination: i32,
    /// Its weight; 1 in an unweighted graph.
    pub weight: i32,
}

impl DistGraph {
    /// The edges into `rank` and out of it among those given, in their order.
    pub fn of(rank: i32, edges: &[Edge], weighted: bool) -> DistGraph {
        let into = || edges.iter().filter(|edge| edge.destination == rank);
        let out = || edges.iter().filter(|edge| edge.source == rank);
        DistGraph {
            sources: into().map(|edge| edge.source).collect(),
            destinations: out().map(|edge| edge.destination).collect(),
            weights: weighted.then(|| Weights {
                sources: into().map(|edge| edge.weight).collect(),
                destinations: out().map(|edge| edge.weight).collect(),
            }),
        }
    }

    /// The edges out of the calling process, `rank`.
    pub fn out_edges(&self, rank: i32) -> impl Iterator<Item = Edge> + '_ {
        self.destinations.iter().enumerate().map(move |(at, &destination)| Edge {
            source: rank,
            destination,
            weight: self.weights.as_ref().map_or(1, |weights| weights.destinations[at]),
        })
    }
}

/// Checks that the entries of an argument are ranks of a communicator of `size` processes.
///
/// # Errors
/// `MPI_ERR_RANK` with argument, place and value.
pub fn check_ranks(argument: &str, ranks: &[i32], size: u32) -> Result<()> {
    match ranks.iter().position(|&rank| rank < 0 || rank as u32 >= size) {
        None => Ok(()),
        Some(at) => Err(Error::new(
            ErrorClass::RANK,
            format!("{argument}[{at}] is {}; the communicator has the ranks 0 to {}", ranks[at], size - 1),
        )),
    }
}

/// Checks that the entries of an argument are not negative.
///
/// # Errors
/// `MPI_ERR_ARG` with argument, place and value.
pub fn check_not_negative(argument: &str, entries: &[i32]) -> Result<()> {
    match entries.iter().position(|&entry| entry < 0) {
        None => Ok(()),
        Some(at) => Err(Error::new(
            ErrorClass::ARG,
            format!("{argument}[{at}] is {}; it must not be negative", entries[at]),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_sorted_into_both_lists_and_kept_in_number() {
        let edge = |source, destination, weight| Edge { source, destination, weight };
        let edges = [edge(0, 1, 5), edge(1, 1, 6), edge(2, 1, 7), edge(1, 0, 8), edge(0, 1, 9)];
        let graph = DistGraph::of(1, &edges, true);
        assert_eq!(*graph.sources, [0, 1, 2, 0]);
        assert_eq!(*graph.destinations, [1, 0]);
        let weights = graph.weights.clone().expect("weighted");
        assert_eq!((&*weights.sources, &*weights.destinations), (&[5, 6, 7, 9][..], &[6, 8][..]));
        assert_eq!(graph.out_edges(1).map(|edge| edge.weight).collect::<Vec<_>>(), [6, 8]);
        assert_eq!(DistGraph::of(1, &edges, false).weights, None);
    }

    #[test]
    fn wrong_entries_are_named() {
        assert_eq!(
            check_ranks("sources", &[0, 4], 4).expect_err("outside").text(),
            "sources[1] is 4; the communicator has the ranks 0 to 3"
        );
        assert!(
            check_not_negative("weights", &[3, -1])
                .expect_err("negative")
                .text()
                .starts_with("weights[1] is -1")
        );
    }
}
