//! Which process should get which place of a virtual topology (sections 8.5.1 to 8.5.4, 8.5.8): little traffic between nodes
//! first, then between packages, NUMA nodes, caches and cores.
//!
//! The places form a tree, which need not be regular: nodes, in them packages, and so on. From the top down, the topology is
//! divided into parts as large as the branches, each part then among the branches below. At each step several divisions are
//! tried and the one that cuts least is taken:
//!
//! - what the ranks have now, so that a step never does worse than no reordering;
//! - equal blocks with the least surface, where a grid has such (Gropp, "Using node information to implement MPI Cartesian
//!   topologies", EuroMPI 2018);
//! - recursive bisection: of a grid along the best coordinate, of a graph by growing a region from its rim and exchanging
//!   pairs (Kernighan and Lin, 1970);
//!
//! and the winner is improved by exchanges between parts as long as that helps. All is deterministic and in whole numbers, so
//! that every process can compute it alone and all get the same. Work is bounded ([`Work`]): beyond that improvement stops, and
//! for enormous topologies ([`Edges::MOST`]) only blocks are tried.

pub mod edges;
mod grow;
mod refine;

pub use edges::{Edges, Grid, Traffic};
pub use grow::Scratch;

use std::ops::Range;

/// Levels of places, from the outermost in: node, package, NUMA node, shared cache, core.
pub const LEVELS: usize = 5;

/// Where one process sits: the number of its node, and of its package, NUMA node, cache and core there. Numbers are counted
/// over the whole node; [`Seat::UNKNOWN`] stands for "several, or not known".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(pub [u32; LEVELS]);

impl Seat {
    /// The process may move between several parts of this level, or nothing is known.
    pub const UNKNOWN: u32 = u32::MAX;
    /// Bytes of the form that travels.
    pub const BYTES: usize = 4 * LEVELS;

    /// A process about which only the node is known.
    pub const fn on_node(node: u32) -> Seat {
        let mut seat = Seat([Seat::UNKNOWN; LEVELS]);
        seat.0[0] = node;
        seat
    }

    /// The form that travels: little-endian words.
    pub fn to_bytes(self) -> [u8; Seat::BYTES] {
        std::array::from_fn(|at| self.0[at / 4].to_le_bytes()[at % 4])
    }

    /// What [`Seat::to_bytes`] gave.
    ///
    /// # Panics
    /// When there are fewer than [`Seat::BYTES`] bytes.
    pub fn from_bytes(bytes: &[u8]) -> Seat {
        Seat(std::array::from_fn(|at| u32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * at + byte]))))
    }
}

/// Traffic by the outermost level at which sender and receiver sit apart; the last entry counts what stays inside a core or
/// between processes not known to sit apart. Compared in this order, smaller is better.
pub type Spread = [u64; LEVELS + 1];

/// The traffic when process `order[v]` takes place `v` of the topology; the weight of an edge counts once, a grid's edge as its
/// two messages.
pub fn spread(edges: &impl Edges, seats: &[Seat], order: &[u32]) -> Spread {
    let mut spread = [0; LEVELS + 1];
    for vertex in 0..edges.len() as u32 {
        let own = seats[order[vertex as usize] as usize];
        edges.each(vertex, |to, weight| {
            let other = seats[order[to as usize] as usize];
            let apart = own.0.iter().zip(&other.0).position(|(own, other)| own != other);
            spread[apart.unwrap_or(LEVELS)] += weight;
        });
    }
    // Every edge was seen from both ends.
    spread.map(|weight| weight / 2)
}

/// How much effort a mapping may take, in visits of edges.
#[derive(Clone, Copy, Debug)]
pub struct Work(u64);

impl Work {
    /// Room for so many visits.
    pub const fn new(visits: u64) -> Work {
        Work(visits)
    }

    fn done(&mut self, visits: u64) {
        self.0 = self.0.saturating_sub(visits);
    }

    fn is_over(&self) -> bool {
        self.0 == 0
    }
}

impl Default for Work {
    /// About a tenth of a second.
    fn default() -> Work {
        Work(1 << 24)
    }
}

/// For each place of the topology the process that should take it; `seats[p]` is where process `p` sits. `None` when nothing
/// beats process `p` at place `p`, which is also the answer when there are not as many seats as places.
pub fn arrange(edges: &impl Edges, seats: &[Seat], work: Work) -> Option<Vec<u32>> {
    let count = edges.len();
    if seats.len() != count || seats.windows(2).all(|pair| pair[0] == pair[1]) {
        return None;
    }
    let mut slots: Vec<u32> = (0..count as u32).collect();
    slots.sort_by_key(|&process| (seats[process as usize], process));
    let mut arrangement = Arrangement {
        edges,
        seats,
        slots,
        order: vec![0; count],
        part_of: vec![refine::OUTSIDE; count],
        scratch: Scratch::new(count),
        work,
    };
    let all = (0..count as u32).collect();
    arrangement.divide(all, 0..count, 0);
    let order = arrangement.order;
    let identity: Vec<u32> = (0..count as u32).collect();
    (spread(edges, seats, &order) < spread(edges, seats, &identity)).then_some(order)
}

struct Arrangement<'a, E> {
    edges: &'a E,
    seats: &'a [Seat],
    /// The processes, sorted by where they sit.
    slots: Vec<u32>,
    /// The result.
    order: Vec<u32>,
    /// The part of each vertex in the division at hand, [`refine::OUTSIDE`] for those that are not divided.
    part_of: Vec<u32>,
    scratch: Scratch,
    work: Work,
}

impl<E: Edges> Arrangement<'_, E> {
    /// Gives the processes `slots` to the vertices, which are ascending; above `level` these processes sit together.
    fn divide(&mut self, vertices: Vec<u32>, slots: Range<usize>, mut level: usize) {
        let branches = loop {
            if level == LEVELS {
                return self.settle(&vertices, slots);
            }
            let branches = self.branches(slots.clone(), level);
            if branches.len() > 1 {
                break branches;
            }
            level += 1;
        };
        let parts = self.best_division(&vertices, &branches);
        let mut members = vec![Vec::new(); branches.len()];
        for (&vertex, &part) in vertices.iter().zip(&parts) {
            members[part as usize].push(vertex);
        }
        for (branch, members) in branches.into_iter().zip(members) {
            self.divide(members, branch, level + 1);
        }
    }

    /// The runs of slots that sit together at a level.
    fn branches(&self, slots: Range<usize>, level: usize) -> Vec<Range<usize>> {
        let mut begin = slots.start;
        let at = |process: u32| self.seats[process as usize].0[level];
        self.slots[slots]
            .chunk_by(|&left, &right| at(left) == at(right))
            .map(|run| {
                let branch = begin..begin + run.len();
                begin = branch.end;
                branch
            })
            .collect()
    }

    /// Processes that sit alike: each keeps its place if it can.
    fn settle(&mut self, vertices: &[u32], slots: Range<usize>) {
        let (mut places, mut processes) = (vertices.to_vec(), self.slots[slots].to_vec());
        processes.sort_unstable();
        let keeps = |list: &[u32], wanted: u32| list.binary_search(&wanted).is_ok();
        let staying: Vec<u32> = vertices.iter().copied().filter(|&place| keeps(&processes, place)).collect();
        places.retain(|&place| !keeps(&staying, place));
        processes.retain(|&process| !keeps(&staying, process));
        staying.iter().for_each(|&place| self.order[place as usize] = place);
        for (place, process) in places.into_iter().zip(processes) {
            self.order[place as usize] = process;
        }
    }

    /// The part of each vertex in the division that cuts least.
    fn best_division(&mut self, vertices: &[u32], branches: &[Range<usize>]) -> Vec<u32> {
        let capacities: Vec<usize> = branches.iter().map(Range::len).collect();
        let mut divisions = vec![self.present(vertices, branches)];
        divisions.extend(self.edges.shaped(vertices, &capacities));
        if self.edges.len() <= E::MOST {
            divisions.push(self.bisected(vertices, &capacities));
        }
        let mut best: Option<(u64, Vec<u32>)> = None;
        for division in divisions {
            let cut = refine::cut(self.edges, vertices, &division, &mut self.part_of);
            if best.as_ref().is_none_or(|(least, _)| cut < *least) {
                best = Some((cut, division));
            }
        }
        let (_, mut division) = best.expect("there is the present one");
        refine::exchange(self.edges, vertices, &mut division, &mut self.part_of, &mut self.work);
        division
    }

    /// The division that the ranks have now, where the vertices are those of the processes to be given out; otherwise one in
    /// the order of the numbering.
    fn present(&self, vertices: &[u32], branches: &[Range<usize>]) -> Vec<u32> {
        let runs = || (0..).zip(branches);
        let mut now: Vec<(u32, u32)> = runs()
            .flat_map(|(part, branch)| self.slots[branch.clone()].iter().map(move |&process| (process, part)))
            .collect();
        now.sort_unstable();
        match now.iter().map(|&(process, _)| process).eq(vertices.iter().copied()) {
            true => now.into_iter().map(|(_, part)| part).collect(),
            false => runs().flat_map(|(part, branch)| std::iter::repeat_n(part, branch.len())).collect(),
        }
    }

    /// Divides in two, and the halves again, until each part has one branch.
    fn bisected(&mut self, vertices: &[u32], capacities: &[usize]) -> Vec<u32> {
        let mut part_of_vertex: Vec<(u32, u32)> = Vec::with_capacity(vertices.len());
        let mut open = vec![(vertices.to_vec(), 0..capacities.len())];
        while let Some((mut vertices, parts)) = open.pop() {
            if parts.len() == 1 {
                part_of_vertex.extend(vertices.iter().map(|&vertex| (vertex, parts.start as u32)));
                continue;
            }
            // Half of the branches, or of what they hold where they differ much.
            let total = vertices.len();
            let (mut middle, mut first) = (parts.start, 0);
            while middle + 1 < parts.end
                && (middle == parts.start || first + capacities[middle] / 2 < total / 2)
            {
                first += capacities[middle];
                middle += 1;
            }
            let side = self.halved(&vertices, first);
            let mut sides = side.iter();
            // Both halves stay ascending.
            let rest = vertices.extract_if(.., |_| sides.next() == Some(&1)).collect();
            open.push((rest, middle..parts.end));
            open.push((vertices, parts.start..middle));
        }
        part_of_vertex.sort_unstable();
        part_of_vertex.into_iter().map(|(_, part)| part).collect()
    }

    /// For each vertex 0 or 1, so that `first` of them have 0 and little is cut.
    fn halved(&mut self, vertices: &[u32], first: usize) -> Vec<u32> {
        let mut best: Option<(u64, Vec<u32>)> = None;
        for order in self.edges.orders(vertices, first, &mut self.scratch, &mut self.work) {
            for &vertex in &order[..first] {
                self.part_of[vertex as usize] = 0;
            }
            let side = |&vertex: &u32| u32::from(self.part_of[vertex as usize] == refine::OUTSIDE);
            let division: Vec<u32> = vertices.iter().map(side).collect();
            let cut = refine::cut(self.edges, vertices, &division, &mut self.part_of);
            if best.as_ref().is_none_or(|(least, _)| cut < *least) {
                best = Some((cut, division));
            }
        }
        best.expect("there is an order").1
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
