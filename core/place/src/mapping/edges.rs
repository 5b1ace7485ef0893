//! Who talks to whom, as mapping sees it: a grid whose neighbours are computed, or a weighted graph.

use super::Work;
use super::grow::{Scratch, exchange_pairs, grow, spread_out};

/// The traffic between processes that have not been given places yet, numbered from 0.
pub trait Edges {
    /// Topologies with more processes than this are not bisected.
    const MOST: usize;

    /// Number of processes.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` with the other end and the weight of every edge from or to `vertex`; edges to itself are left out.
    fn each(&self, vertex: u32, visit: impl FnMut(u32, u64));

    /// Partitions that follow from the shape: for each of `vertices`, which are ascending, the number of its part. Parts have the
    /// given capacities.
    fn shaped(&self, _vertices: &[u32], _capacities: &[usize]) -> Option<Vec<u32>> {
        None
    }

    /// Orders of `vertices` that are worth cutting in two after `first` of them.
    fn orders(&self, vertices: &[u32], first: usize, scratch: &mut Scratch, work: &mut Work)
    -> Vec<Vec<u32>>;
}

/// A Cartesian grid in row-major order where each process exchanges one unit with each neighbour.
#[derive(Clone, Debug)]
pub struct Grid {
    dims: Vec<u32>,
    periodic: Vec<bool>,
    /// How far apart neighbours along each dimension are in the numbering.
    strides: Vec<u32>,
}

impl Grid {
    /// A grid; `dims` and `periodic` have an entry for each dimension.
    pub fn new(dims: &[u32], periodic: &[bool]) -> Grid {
        let mut strides = vec![1; dims.len()];
        for at in (1..dims.len()).rev() {
            strides[at - 1] = strides[at] * dims[at];
        }
        Grid { dims: dims.to_vec(), periodic: periodic.to_vec(), strides }
    }

    fn coordinate(&self, cell: u32, dimension: usize) -> u32 {
        cell / self.strides[dimension] % self.dims[dimension]
    }

    /// First coordinates and extents of the smallest box around `cells`.
    fn sides(&self, cells: &[u32]) -> Vec<(u32, u32)> {
        (0..self.dims.len())
            .map(|dimension| {
                let coordinates = cells.iter().map(|&cell| self.coordinate(cell, dimension));
                let (low, high) =
                    coordinates.fold((u32::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
                (low, high + 1 - low)
            })
            .collect()
    }

    /// The box that `cells` fill; `None` when they fill none.
    fn filled_box(&self, cells: &[u32]) -> Option<Vec<(u32, u32)>> {
        let sides = self.sides(cells);
        let volume: u64 = sides.iter().map(|&(_, extent)| u64::from(extent)).product();
        (volume == cells.len() as u64).then_some(sides)
    }

    /// Edges cut when a box is divided into blocks.
    fn cut(&self, sides: &[(u32, u32)], block: &[u32]) -> u64 {
        let volume: u64 = sides.iter().map(|&(_, extent)| u64::from(extent)).product();
        (0..sides.len())
            .map(|dimension| {
                let extent = sides[dimension].1;
                let blocks = u64::from(extent / block[dimension]);
                let closed = self.periodic[dimension] && extent == self.dims[dimension] && blocks > 1;
                volume / u64::from(extent) * (blocks - 1 + u64::from(closed))
            })
            .sum()
    }
}

impl Edges for Grid {
    const MOST: usize = 1 << 20;

    fn len(&self) -> usize {
        self.dims.iter().product::<u32>() as usize
    }

    fn each(&self, vertex: u32, mut visit: impl FnMut(u32, u64)) {
        for (dimension, &extent) in self.dims.iter().enumerate() {
            let at = self.coordinate(vertex, dimension);
            let stride = self.strides[dimension];
            // Both ends of an edge send one unit: weight 2.
            if at + 1 < extent {
                visit(vertex + stride, 2);
            } else if self.periodic[dimension] && extent > 1 {
                visit(vertex - at * stride, 2);
            }
            if at > 0 {
                visit(vertex - stride, 2);
            } else if self.periodic[dimension] && extent > 1 {
                visit(vertex + (extent - 1) * stride, 2);
            }
        }
    }

    /// Equal blocks with the least surface, where the capacities are equal and blocks fill the box of the vertices.
    fn shaped(&self, vertices: &[u32], capacities: &[usize]) -> Option<Vec<u32>> {
        let capacity = *capacities.first()?;
        if capacities.iter().any(|&other| other != capacity) || capacity * capacities.len() != vertices.len()
        {
            return None;
        }
        let sides = self.filled_box(vertices)?;
        let mut best: Option<(u64, Vec<u32>)> = None;
        blocks(&sides, capacity as u32, &mut Vec::new(), &mut |block| {
            let cut = self.cut(&sides, block);
            if best.as_ref().is_none_or(|(least, _)| cut < *least) {
                best = Some((cut, block.to_vec()));
            }
        });
        let (_, block) = best?;
        let part = |&cell: &u32| {
            sides.iter().zip(&block).enumerate().fold(0, |part, (dimension, (&(low, extent), &side))| {
                part * (extent / side) + (self.coordinate(cell, dimension) - low) / side
            })
        };
        Some(vertices.iter().map(part).collect())
    }

    /// By each coordinate in turn, or where there are many by that of the longest side; among equals in the order of the
    /// numbering.
    fn orders(&self, vertices: &[u32], first: usize, _: &mut Scratch, _: &mut Work) -> Vec<Vec<u32>> {
        const MANY: usize = 1 << 14;
        let by = |dimension: usize| {
            let mut order = vertices.to_vec();
            if first < order.len() {
                order.select_nth_unstable_by_key(first, |&cell| (self.coordinate(cell, dimension), cell));
            }
            order
        };
        let sides = if vertices.len() > MANY { self.sides(vertices) } else { Vec::new() };
        match (0..sides.len()).max_by_key(|&dimension| sides[dimension].1) {
            Some(longest) => vec![by(longest)],
            None => (0..self.dims.len()).map(by).collect(),
        }
    }
}

/// All blocks of `volume` cells whose sides divide those of the box.
fn blocks(sides: &[(u32, u32)], volume: u32, chosen: &mut Vec<u32>, visit: &mut impl FnMut(&[u32])) {
    let Some(&(_, extent)) = sides.get(chosen.len()) else {
        if volume == 1 {
            visit(chosen);
        }
        return;
    };
    for side in 1..=extent.min(volume) {
        if extent.is_multiple_of(side) && volume.is_multiple_of(side) {
            chosen.push(side);
            blocks(sides, volume / side, chosen, visit);
            chosen.pop();
        }
    }
}

/// A weighted graph; the direction of edges does not matter for where processes should be.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// `ends[first[v]..first[v + 1]]` are the other ends of the edges at vertex `v`, with their weights.
    first: Vec<usize>,
    ends: Vec<(u32, u64)>,
}

impl Traffic {
    /// The graph of `vertices` vertices with the given edges (from, to, weight); those from a vertex to itself cost nothing and
    /// are left out. Several edges between two vertices add up.
    ///
    /// # Panics
    /// When an edge ends at no vertex.
    pub fn new(vertices: usize, edges: &[(u32, u32, u64)]) -> Traffic {
        let edges = || edges.iter().filter(|(from, to, _)| from != to);
        let mut first = vec![0; vertices + 1];
        for &(from, to, _) in edges() {
            first[from as usize + 1] += 1;
            first[to as usize + 1] += 1;
        }
        for vertex in 0..vertices {
            first[vertex + 1] += first[vertex];
        }
        let mut next = first.clone();
        let mut ends = vec![(0, 0); first[vertices]];
        for &(from, to, weight) in edges() {
            ends[next[from as usize]] = (to, weight);
            next[from as usize] += 1;
            ends[next[to as usize]] = (from, weight);
            next[to as usize] += 1;
        }
        Traffic { first, ends }
    }
}

impl Edges for Traffic {
    const MOST: usize = 1 << 18;

    fn len(&self) -> usize {
        self.first.len().saturating_sub(1)
    }

    fn each(&self, vertex: u32, mut visit: impl FnMut(u32, u64)) {
        let vertex = vertex as usize;
        for &(to, weight) in &self.ends[self.first[vertex]..self.first[vertex + 1]] {
            visit(to, weight);
        }
    }

    /// As numbered, and by growing from a vertex at the rim; both improved by exchanging pairs.
    fn orders(
        &self,
        vertices: &[u32],
        first: usize,
        scratch: &mut Scratch,
        work: &mut Work,
    ) -> Vec<Vec<u32>> {
        const MANY: usize = 1 << 12;
        let mut orders = vec![vertices.to_vec()];
        if let Some(&start) = vertices.first() {
            // The last one reached from anywhere lies at the rim.
            let rim = spread_out(self, vertices, start, scratch).last().copied().unwrap_or(start);
            orders.push(match vertices.len() > MANY {
                true => spread_out(self, vertices, rim, scratch),
                false => grow(self, vertices, rim, scratch),
            });
        }
        orders.iter_mut().for_each(|order| exchange_pairs(self, order, first, scratch, work));
        orders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbors(edges: &impl Edges, vertex: u32) -> Vec<u32> {
        let mut found = Vec::new();
        edges.each(vertex, |to, _| found.push(to));
        found.sort_unstable();
        found
    }

    #[test]
    fn a_grid_knows_its_neighbors() {
        let grid = Grid::new(&[3, 4], &[true, false]);
        assert_eq!(neighbors(&grid, 0), [1, 4, 8]);
        assert_eq!(neighbors(&grid, 5), [1, 4, 6, 9]);
        assert_eq!(neighbors(&Grid::new(&[2], &[true]), 0), [1, 1], "two edges around a circle of two");
        assert_eq!(neighbors(&Grid::new(&[1], &[true]), 0), []);
    }

    #[test]
    fn blocks_have_the_least_surface() {
        let grid = Grid::new(&[4, 8], &[false, false]);
        let all: Vec<u32> = (0..32).collect();
        let parts = grid.shaped(&all, &[8; 4]).expect("blocks fit");
        assert_eq!(parts[..8], [0, 0, 0, 0, 1, 1, 1, 1], "4 x 4 halves of rows: blocks of 2 x 4");
        assert_eq!(grid.shaped(&all, &[5, 27]), None);
        assert_eq!(Grid::new(&[7], &[false]).shaped(&[0, 1, 2, 4], &[2, 2]), None, "no box");
    }

    #[test]
    fn a_graph_keeps_both_ends_and_no_loops() {
        let graph = Traffic::new(3, &[(0, 1, 5), (1, 1, 9), (2, 1, 7)]);
        assert_eq!(neighbors(&graph, 1), [0, 2]);
        assert_eq!(neighbors(&graph, 0), [1]);
        assert_eq!(graph.len(), 3);
    }
}
