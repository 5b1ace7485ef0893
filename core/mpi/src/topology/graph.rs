//! Graph topologies (section 8.5.3): every process knows the whole graph, as it was given.

use weft_types::{Error, ErrorClass, Result};

/// A graph topology: for each node the end of its neighbours in `edges`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    index: Box<[i32]>,
    edges: Box<[i32]>,
}

impl Graph {
    /// Checks `index`, whose last entry tells how many edges there are.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for an entry that is negative or smaller than the one before.
    pub fn count_edges(index: &[i32]) -> Result<usize> {
        let mut before = 0;
        for (at, &end) in index.iter().enumerate() {
            if end < before {
                return Err(Error::new(
                    ErrorClass::ARG,
                    format!(
                        "index[{at}] is {end}; the entries count the neighbors of all nodes so far and cannot fall below {before}"
                    ),
                ));
            }
            before = end;
        }
        Ok(before as usize)
    }

    /// A graph of `index.len()` nodes for some of `available` processes.
    ///
    /// # Errors
    /// As [`Graph::count_edges`]; `MPI_ERR_ARG` for more nodes than processes or an edge to no node.
    pub fn within(index: &[i32], edges: &[i32], available: u32) -> Result<Graph> {
        let nodes = index.len();
        if nodes > available as usize {
            return Err(Error::new(
                ErrorClass::ARG,
                format!("nnodes is {nodes}; the communicator has {available} processes"),
            ));
        }
        debug_assert_eq!(Graph::count_edges(index), Ok(edges.len()));
        match edges.iter().position(|&to| to < 0 || to as usize >= nodes) {
            None => Ok(Graph { index: index.into(), edges: edges.into() }),
            Some(at) => Err(Error::new(
                ErrorClass::ARG,
                format!("edges[{at}] is {}; the graph has {nodes} nodes, numbered from 0", edges[at]),
            )),
        }
    }

    /// For each node the number of neighbours of it and all before it.
    pub fn index(&self) -> &[i32] {
        &self.index
    }

    /// The neighbours, node after node.
    pub fn edges(&self) -> &[i32] {
        &self.edges
    }

    /// Number of nodes.
    pub fn size(&self) -> u32 {
        self.index.len() as u32
    }

    /// The neighbours of a rank, as given.
    ///
    /// # Errors
    /// `MPI_ERR_RANK` for a rank that is not in the graph.
    pub fn neighbors(&self, rank: i32) -> Result<&[i32]> {
        let Some(&end) = usize::try_from(rank).ok().and_then(|rank| self.index.get(rank)) else {
            return Err(Error::new(
                ErrorClass::RANK,
                format!(
                    "rank is {rank}; the graph topology has the ranks 0 to {}",
                    self.index.len() as i64 - 1
                ),
            ));
        };
        let begin = if rank == 0 { 0 } else { self.index[rank as usize - 1] };
        Ok(&self.edges[begin as usize..end as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_of_example_8_5_keep_order_and_number() {
        let graph = Graph::within(&[3, 5, 6, 9], &[1, 1, 3, 0, 0, 3, 0, 2, 2], 4).expect("a graph");
        let lists: Vec<&[i32]> = (0..4).map(|rank| graph.neighbors(rank).expect("a node")).collect();
        assert_eq!(lists, [&[1, 1, 3][..], &[0, 0], &[3], &[0, 2, 2]]);
        assert_eq!(graph.neighbors(4).expect_err("no node").class(), ErrorClass::RANK);
        assert_eq!(graph.neighbors(-1).expect_err("no node").class(), ErrorClass::RANK);
    }

    #[test]
    fn wrong_graphs_are_named() {
        assert!(Graph::count_edges(&[2, 1]).expect_err("falls").text().starts_with("index[1] is 1"));
        assert!(Graph::count_edges(&[-1]).expect_err("negative").text().starts_with("index[0] is -1"));
        let error = Graph::within(&[1, 2], &[1, 2], 2).expect_err("no node 2");
        assert_eq!(error.text(), "edges[1] is 2; the graph has 2 nodes, numbered from 0");
        assert!(Graph::within(&[0, 0], &[], 1).expect_err("too many").text().starts_with("nnodes is 2"));
    }
}
