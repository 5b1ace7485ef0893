//! Neighbourhood collectives (sections 8.6 and 8.7) on the communicators of all three topologies.
//!
//! Which message belongs to which block is a matter of pairing the two ends of each edge. On a grid the message to the
//! neighbour below comes from above: it fills the receiver's block of its upper neighbour, also where both neighbours are one
//! process. In graphs the edges between two processes are paired in their order, first with first.

use super::Topology;
use crate::comm::Comm;
use std::collections::HashMap;
use weft_coll::neighbor::Edge;
use weft_coll::{Buffer, Grid, Model, NeighborCall, Range, Rules, Schedule, plan_neighbor};
use weft_types::Result;

/// One end of an edge: the neighbour, `None` for `MPI_PROC_NULL`, and a number that its other end has, too.
pub type End = Option<(u32, u32)>;

/// Both sides of a process's neighbourhood, by block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Where blocks come from.
    pub sources: Vec<End>,
    /// Where blocks go.
    pub destinations: Vec<End>,
}

impl Topology {
    /// The ends of the edges at rank `rank`, the calling process.
    ///
    /// # Errors
    /// `MPI_ERR_RANK` as [`Topology::neighborhood`].
    pub fn ends(&self, rank: i32) -> Result<Ends> {
        let around = self.neighborhood(rank)?;
        Ok(match self {
            Topology::Cart(_) => {
                // Named by the direction in which the message goes.
                let named = |list: &[i32], turned: u32| {
                    let named = list.iter().zip(0..).map(|(&rank, place)| end(rank, place ^ turned));
                    named.collect()
                };
                Ends { sources: named(&around.sources, 1), destinations: named(&around.destinations, 0) }
            }
            Topology::Graph(_) | Topology::DistGraph(_) => {
                Ends { sources: counted(&around.sources), destinations: counted(&around.destinations) }
            }
        })
    }
}

impl Topology {
    /// What all processes of a Cartesian topology know alike of their edges.
    fn grid(&self) -> Option<Grid> {
        let Topology::Cart(cart) = self else { return None };
        let dims = cart.dims().iter().map(|&extent| extent.unsigned_abs());
        Some(Grid::new(dims.zip(cart.periods().iter().copied())))
    }
}

fn end(rank: i32, name: u32) -> End {
    u32::try_from(rank).ok().map(|rank| (rank, name))
}

/// Each edge named by how many with the same neighbour came before it.
fn counted(list: &[i32]) -> Vec<End> {
    let mut met: HashMap<i32, u32> = HashMap::new();
    list.iter()
        .map(|&rank| {
            let count = met.entry(rank).or_default();
            *count += 1;
            end(rank, *count - 1)
        })
        .collect()
}

/// How the blocks of an argument lie.
#[derive(Clone, Copy, Debug)]
pub enum Blocks<'a> {
    /// The same bytes for every neighbour.
    One(u64),
    /// So many bytes for each, one after another.
    Even(u64),
    /// At displacements.
    Placed(&'a [weft_coll::Block]),
    /// Each block is an argument of its own.
    PerNeighbor(&'a [u64]),
}

impl Blocks<'_> {
    fn range(&self, place: usize, whole: Buffer, own: fn(u32) -> Buffer) -> Range {
        match self {
            Blocks::One(bytes) => Range::new(whole, 0, *bytes),
            Blocks::Even(bytes) => Range::new(whole, place as u64 * bytes, *bytes),
            Blocks::Placed(blocks) => {
                let block = blocks[place];
                Range { buffer: whole, displacement: block.displacement, start: 0, bytes: block.bytes }
            }
            Blocks::PerNeighbor(bytes) => Range::new(own(place as u32), 0, bytes[place]),
        }
    }
}

/// The operation that has its arguments so.
fn operation(send: &Blocks<'_>, recv: &Blocks<'_>) -> &'static str {
    match (send, recv) {
        (Blocks::One(_), Blocks::Placed(_)) => "neighbor_allgatherv",
        (Blocks::One(_), _) => "neighbor_allgather",
        (Blocks::PerNeighbor(_), _) => "neighbor_alltoallw",
        (Blocks::Placed(_), _) => "neighbor_alltoallv",
        (Blocks::Even(_), _) => "neighbor_alltoall",
    }
}

/// Bytes of the longest block where all of one side are equal. What a process sends its neighbours receive, and the other way round: on a
/// grid this is the same at all.
fn longest(send: &Blocks<'_>, recv: &Blocks<'_>) -> u64 {
    match (send, recv) {
        (Blocks::One(sent) | Blocks::Even(sent), Blocks::Even(received)) => *sent.max(received),
        _ => 0,
    }
}

impl Comm {
    /// The schedule of a neighbourhood collective, by the first rule that fits it or by the model.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY` for a communicator without topology.
    pub(crate) fn plan_neighborhood(
        &self,
        send: &Blocks<'_>,
        recv: &Blocks<'_>,
        model: &Model,
        rules: &[&Rules],
    ) -> Result<Schedule> {
        let topology = self.any_topology()?;
        let Ends { sources, destinations } = topology.ends(self.rank.0 as i32)?;
        let edges = |ends: &[End], blocks: &Blocks<'_>, whole: Buffer, own: fn(u32) -> Buffer| -> Vec<Edge> {
            let edge = |(place, end): (usize, &End)| {
                end.map(|(neighbor, channel)| {
                    let block = blocks.range(place, whole, own);
                    Edge { neighbor, channel, block }
                })
            };
            ends.iter().enumerate().filter_map(edge).collect()
        };
        let grid = topology.grid();
        let call = NeighborCall {
            operation: operation(send, recv),
            grid,
            bytes: if grid.is_some() { longest(send, recv) } else { 0 },
            outgoing: &edges(&destinations, send, Buffer::Send, Buffer::SendPeer),
            incoming: &edges(&sources, recv, Buffer::Recv, Buffer::RecvPeer),
        };
        let group = weft_coll::Group { rank: self.rank.0, size: self.size };
        Ok(plan_neighbor(&call, group, model, rules))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cart, DistGraph, Graph};
    use super::*;
    use proptest::prelude::*;

    fn ends(topology: &Topology, rank: i32) -> Ends {
        topology.ends(rank).expect("a member")
    }

    #[test]
    fn what_goes_down_comes_from_above() {
        let ring = Topology::Cart(Cart::new(&[2], &[true]).expect("a grid"));
        // Both neighbours are the other process; its block 1 is filled by what goes down, block 0.
        assert_eq!(ends(&ring, 0).destinations, [Some((1, 0)), Some((1, 1))]);
        assert_eq!(ends(&ring, 1).sources, [Some((0, 1)), Some((0, 0))]);
        let line = Topology::Cart(Cart::new(&[2], &[false]).expect("a grid"));
        assert_eq!(ends(&line, 0).destinations, [None, Some((1, 1))]);
        assert_eq!(ends(&line, 1).sources, [Some((0, 1)), None]);
    }

    #[test]
    fn rules_and_the_model_decide_how_blocks_travel() {
        let comm = |topology: Topology| {
            let group = std::sync::Arc::new(crate::group::Group::world(2));
            let mut comm =
                Comm::new(weft_types::ContextId::WORLD, weft_types::Rank(0), group, weft_types::Handle(0));
            comm.topology = Some(std::sync::Arc::new(topology));
            comm
        };
        let messages = |comm: &Comm, (send, recv): (Blocks<'_>, Blocks<'_>), rules: &str| {
            let rules = Rules::parse(rules, "test").expect("rules");
            let schedule =
                comm.plan_neighborhood(&send, &recv, &Model::default(), &[&rules]).expect("a plan");
            schedule.steps().iter().filter(|step| matches!(step, weft_coll::Step::Send { .. })).count()
        };
        let ring = comm(Topology::Cart(Cart::new(&[2], &[true]).expect("a grid")));
        let even = |bytes| (Blocks::Even(bytes), Blocks::Even(bytes));
        assert_eq!(messages(&ring, even(8), ""), 1, "both blocks in one message");
        assert_eq!(messages(&ring, even(1 << 20), ""), 2);
        assert_eq!(
            messages(&ring, (Blocks::Even(8), Blocks::Even(1 << 20)), ""),
            2,
            "as the neighbour sees it"
        );
        assert_eq!(messages(&ring, even(8), "neighbor_alltoall -> direct"), 2);
        assert_eq!(messages(&ring, even(1 << 20), "neighbor_alltoall -> combined"), 1);
        assert_eq!(messages(&ring, (Blocks::One(8), Blocks::Even(8)), ""), 1);
        let blocks = [weft_coll::Block { displacement: 0, bytes: 8 }; 2];
        let placed = || (Blocks::Placed(&blocks), Blocks::Placed(&blocks));
        assert_eq!(messages(&ring, placed(), ""), 2, "the members do not know all lengths alike");
        assert_eq!(messages(&ring, placed(), "neighbor_alltoallv -> combined"), 1);
        let graph = comm(Topology::Graph(Graph::within(&[2, 4], &[1, 1, 0, 0], 2).expect("a graph")));
        assert_eq!(messages(&graph, even(8), "neighbor_alltoall bytes=1.. -> combined"), 2);
        assert_eq!(messages(&graph, even(8), "neighbor_alltoall -> combined"), 1);
    }

    #[test]
    fn multiple_edges_are_paired_in_their_order() {
        let graph = Topology::Graph(Graph::within(&[2, 4], &[1, 1, 0, 0], 2).expect("a graph"));
        assert_eq!(ends(&graph, 0).sources, [Some((1, 0)), Some((1, 1))]);
        let own = DistGraph { sources: [3, 1, 3].into(), destinations: [0, 0, 2].into(), weights: None };
        let own = Topology::DistGraph(own);
        assert_eq!(ends(&own, 0).sources, [Some((3, 0)), Some((1, 0)), Some((3, 1))]);
        assert_eq!(ends(&own, 0).destinations, [Some((0, 0)), Some((0, 1)), Some((2, 0))]);
    }

    proptest! {
        /// Every end on a grid has exactly one other end, with the same name.
        #[test]
        fn both_ends_of_an_edge_agree(dims in prop::collection::vec((1i32..4, any::<bool>()), 0..4)) {
            let (dims, periods): (Vec<i32>, Vec<bool>) = dims.into_iter().unzip();
            let cart = Cart::new(&dims, &periods).expect("a grid");
            let size = cart.size();
            let grid = Topology::Cart(cart);
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            for rank in 0..size {
                let Ends { sources, destinations } = ends(&grid, rank as i32);
                sent.extend(destinations.into_iter().flatten().map(|(to, name)| (rank, to, name)));
                received.extend(sources.into_iter().flatten().map(|(from, name)| (from, rank, name)));
            }
            sent.sort_unstable();
            received.sort_unstable();
            prop_assert!(sent.windows(2).all(|pair| pair[0] != pair[1]));
            prop_assert_eq!(sent, received);
        }
    }
}
