//! Neighbourhood collectives (sections 8.6 and 8.7): a block along each edge of a virtual topology, and the table of ways to
//! carry them.

use crate::algorithms::NONE;
use crate::call::Group;
use crate::model::{Estimate, Model};
use crate::registry::Parameter;
use crate::rules::{Rule, Rules, verdict_neighbor};
use crate::schedule::{Builder, Range, Schedule};

/// A block and the edge it travels along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The process at the other end.
    pub neighbor: u32,
    /// Tells edges between the same two processes apart: the same at both ends.
    pub channel: u32,
    /// The data, or the room for them.
    pub block: Range,
}

/// The edges of a process of a Cartesian topology that is at no border: what all know alike of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// Neighbours by one edge in each direction.
    pub single: u32,
    /// Neighbours by two, in periodic dimensions of two processes.
    pub double: u32,
    /// Edges from the process to itself, in periodic dimensions of one.
    pub own: u32,
}

impl Grid {
    /// The grid with these dimensions: processes, and whether it is periodic.
    pub fn new(dimensions: impl IntoIterator<Item = (u32, bool)>) -> Grid {
        let mut grid = Grid::default();
        for dimension in dimensions {
            match dimension {
                (1, true) => grid.own += 2,
                (1, false) => {}
                (2, true) => grid.double += 1,
                (2, false) => grid.single += 1,
                _ => grid.single += 2,
            }
        }
        grid
    }

    fn edges(&self) -> u32 {
        self.single + 2 * self.double + self.own
    }
}

/// A neighbourhood collective as one process calls it.
#[derive(Clone, Copy, Debug)]
pub struct NeighborCall<'a> {
    /// One of [`OPERATIONS`].
    pub operation: &'static str,
    /// The grid; `None` for a graph, of which each process knows its own edges only.
    pub grid: Option<Grid>,
    /// On a grid, the bytes of the longest block of a process and its neighbours if blocks are equal; otherwise 0.
    pub bytes: u64,
    /// What goes out, without edges that lead nowhere.
    pub outgoing: &'a [Edge],
    /// What comes in.
    pub incoming: &'a [Edge],
}

impl NeighborCall<'_> {
    /// Whether all neighbours get the same block.
    fn gathers(&self) -> bool {
        self.operation.starts_with("neighbor_allgather")
    }
}

/// The operations.
pub const OPERATIONS: [&str; 5] = [
    "neighbor_allgather",
    "neighbor_allgatherv",
    "neighbor_alltoall",
    "neighbor_alltoallv",
    "neighbor_alltoallw",
];

/// One algorithm.
pub struct NeighborAlgorithm {
    /// Unique.
    pub name: &'static str,
    /// The operations it is for.
    pub operations: &'static [&'static str],
    /// Where it is described.
    pub source: &'static str,
    /// What a rule can say of it.
    pub parameters: &'static [Parameter],
    /// Adds up its time on a grid, for blocks of so many bytes; whether all neighbours get the same one.
    estimate: fn(&mut Estimate<'_>, &Grid, f64, bool),
    write: fn(&NeighborCall<'_>, u32) -> Schedule,
}

impl std::fmt::Debug for NeighborAlgorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl NeighborAlgorithm {
    /// The schedule of the process of this rank.
    pub fn build(&self, call: &NeighborCall<'_>, rank: u32) -> Schedule {
        (self.write)(call, rank)
    }

    fn seconds(&self, call: &NeighborCall<'_>, grid: &Grid, group: Group, model: &Model) -> f64 {
        let mut estimate = Estimate::new(model, group);
        (self.estimate)(&mut estimate, grid, call.bytes as f64, call.gathers());
        estimate.seconds()
    }
}

/// Every algorithm there is.
pub fn all() -> &'static [NeighborAlgorithm] {
    ALGORITHMS
}

static ALGORITHMS: &[NeighborAlgorithm] = &[
    NeighborAlgorithm {
        name: "direct",
        operations: &OPERATIONS,
        source: "the definition, section 8.6",
        parameters: NONE,
        estimate: |estimate, grid, bytes, _| estimate.exchange_many(grid.edges(), 1, None, bytes),
        write: |call, _| exchange(call.outgoing, call.incoming),
    },
    NeighborAlgorithm {
        name: "combined",
        operations: &OPERATIONS,
        source: "Träff, Hunold, Cartesian collective communication, 2019: blocks between the same two in one message",
        parameters: NONE,
        estimate: |estimate, grid, bytes, gathers| {
            let others = grid.single + grid.double;
            let each = if gathers { 1.0 } else { 2.0 };
            let longer = f64::from(grid.single) + each * f64::from(grid.double);
            if others > 0 {
                estimate.exchange_many(others, 1, None, bytes * longer / f64::from(others));
            }
            // What came together is copied to its places.
            let copies = each * f64::from(grid.double) + f64::from(grid.own);
            estimate.combine(copies * bytes);
            estimate.work(12e-9 * copies);
        },
        write: combined,
    },
];

/// What decides a call.
#[derive(Clone, Copy, Debug)]
pub struct NeighborChosen<'r> {
    /// What it takes.
    pub algorithm: &'static NeighborAlgorithm,
    /// The rule that says so; `None`: the model finds it cheapest.
    pub rule: Option<&'r Rule>,
}

/// What decides a call on a communicator of `group`: the first rule that fits, then the model. Of what is not the same at both ends of each
/// edge the model knows nothing: it chooses on grids, where blocks are equal.
pub fn choose_neighbor<'r>(
    call: &NeighborCall<'_>,
    group: Group,
    model: &Model,
    rules: &[&'r Rules],
) -> NeighborChosen<'r> {
    let verdict = verdict_neighbor(rules, call, group, model);
    if let Some((rule, algorithm)) = verdict.named {
        return NeighborChosen { algorithm, rule: Some(rule) };
    }
    let ranked = rank_neighbor(call, group, model);
    let mut all = ranked.iter().map(|&(algorithm, _)| algorithm).chain(ALGORITHMS);
    let algorithm = all.find(|algorithm| verdict.allows(algorithm)).unwrap_or(&ALGORITHMS[0]);
    NeighborChosen { algorithm, rule: None }
}

/// All algorithms, with their modelled seconds, cheapest first; none where the model does not choose.
pub fn rank_neighbor(
    call: &NeighborCall<'_>,
    group: Group,
    model: &Model,
) -> Vec<(&'static NeighborAlgorithm, f64)> {
    let has_equal_blocks = matches!(call.operation, "neighbor_allgather" | "neighbor_alltoall");
    let Some(grid) = call.grid.filter(|_| has_equal_blocks) else { return Vec::new() };
    let mut ranked: Vec<_> = ALGORITHMS
        .iter()
        .map(|algorithm| (algorithm, algorithm.seconds(call, &grid, group, model)))
        .collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    ranked
}

/// The schedule of a process, by the first rule that fits the call, and by the model when none does.
pub fn plan_neighbor(call: &NeighborCall<'_>, group: Group, model: &Model, rules: &[&Rules]) -> Schedule {
    choose_neighbor(call, group, model, rules).algorithm.build(call, group.rank)
}

/// Sends and receives a block along each edge. Blocks without data are left out, at both ends alike (their lengths agree).
/// Receives come first, so that data that arrive at once find their place.
pub fn exchange(outgoing: &[Edge], incoming: &[Edge]) -> Schedule {
    let mut b = Builder::new();
    for edge in incoming.iter().filter(|edge| edge.block.bytes > 0) {
        b.recv_on(edge.channel, edge.neighbor, edge.block);
    }
    for edge in outgoing.iter().filter(|edge| edge.block.bytes > 0) {
        b.send_on(edge.channel, edge.neighbor, edge.block);
    }
    b.finish()
}

/// What goes to the same neighbour goes in one message, in the order of the edges' channels, which both ends know; a block that it gets along several edges
/// once. What a process gives itself is copied.
fn combined(call: &NeighborCall<'_>, rank: u32) -> Schedule {
    let mut b = Builder::new();
    let (outgoing, incoming) = (by_neighbor(call.outgoing), by_neighbor(call.incoming));
    let others = |edges: &&[Edge]| edges[0].neighbor != rank;
    // What comes together, and where it is first.
    let mut arrived = Vec::new();
    for edges in split(&incoming).filter(others) {
        let whole = match joined(edges) {
            _ if call.gathers() => edges[0].block,
            Some(whole) => whole,
            None => b.packed_scratch(edges.iter().map(|edge| edge.block.bytes).sum()),
        };
        b.recv(edges[0].neighbor, whole);
        arrived.push((edges, whole));
    }
    for edges in split(&outgoing).filter(others) {
        let whole = match joined(edges) {
            _ if call.gathers() => edges[0].block,
            Some(whole) => whole,
            None => {
                let whole = b.packed_scratch(edges.iter().map(|edge| edge.block.bytes).sum());
                let mut offset = 0;
                for edge in edges {
                    b.copy(edge.block, whole.part(offset, edge.block.bytes));
                    offset += edge.block.bytes;
                }
                whole
            }
        };
        b.send(edges[0].neighbor, whole);
    }
    let of_own = |edges: &[Edge]| -> Vec<Edge> {
        edges.iter().copied().filter(|edge| edge.neighbor == rank).collect()
    };
    for (from, into) in of_own(&outgoing).iter().zip(&of_own(&incoming)) {
        b.copy(from.block, into.block);
    }
    for (edges, whole) in arrived {
        let mut offset = 0;
        for edge in edges {
            let part = if call.gathers() { whole } else { whole.part(offset, edge.block.bytes) };
            b.copy(part, edge.block);
            offset += edge.block.bytes;
        }
    }
    b.finish()
}

/// The edges that have data, those with the same neighbour together, in the order of their channels.
fn by_neighbor(edges: &[Edge]) -> Vec<Edge> {
    let mut edges: Vec<Edge> = edges.iter().copied().filter(|edge| edge.block.bytes > 0).collect();
    edges.sort_by_key(|edge| (edge.neighbor, edge.channel));
    edges
}

fn split(edges: &[Edge]) -> impl Iterator<Item = &[Edge]> {
    edges.chunk_by(|a, b| a.neighbor == b.neighbor)
}

/// The range that the blocks of edges are, one behind the other; `None` if they are none.
fn joined(edges: &[Edge]) -> Option<Range> {
    let follow = |pair: &[Edge]| {
        let (a, b) = (pair[0].block, pair[1].block);
        (a.buffer, a.displacement, a.start + a.bytes) == (b.buffer, b.displacement, b.start)
    };
    let bytes = edges.iter().map(|edge| edge.block.bytes).sum();
    edges.windows(2).all(follow).then_some(Range { bytes, ..edges[0].block })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Buffer, Step};

    #[test]
    fn all_edges_run_at_once() {
        let edge = |neighbor, channel, buffer, start| Edge {
            neighbor,
            channel,
            block: Range::new(buffer, start, if start == 16 { 0 } else { 8 }),
        };
        let out = [edge(1, 0, Buffer::Send, 0), edge(1, 1, Buffer::Send, 0), edge(2, 0, Buffer::Send, 16)];
        let incoming = [edge(1, 1, Buffer::Recv, 0), edge(1, 0, Buffer::Recv, 8)];
        let schedule = exchange(&out, &incoming);
        assert_eq!(schedule.steps().len(), 4, "the empty block is no message");
        assert_eq!(schedule.waits_for(), [0; 4]);
        let channels: Vec<u16> = schedule
            .steps()
            .iter()
            .map(|step| match *step {
                Step::Recv { channel, .. } | Step::Send { channel, .. } => channel,
                _ => unreachable!("messages only"),
            })
            .collect();
        assert_eq!(channels, [1, 0, 0, 1]);
    }
}
