//! Bytes across nodes in one exchange of a stencil, before and after reordering.

use std::fmt::Write as _;

use weft_place::mapping::{Edges, Grid, Seat, Traffic, Work, arrange, spread};

/// Numbers of nodes.
pub(crate) const NODES: [u32; 6] = [4, 8, 12, 16, 32, 64];
/// Numbers of ranks on each node.
pub(crate) const RANKS: [u32; 3] = [8, 24, 64];

/// How the launcher deals ranks to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dealt {
    /// Node after node.
    Block,
    /// One to each node in turn.
    Cyclic,
}

/// What the ranks exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stencil {
    /// 5 points in the plane, `MPI_Cart_create`: each rank has 512 x 512 doubles, a message has 4 KiB.
    Plane,
    /// 7 points in space, periodic, `MPI_Cart_create`: each rank has 64 x 64 x 64 doubles, a message has 32 KiB.
    Space,
    /// 9 points on a torus, `MPI_Dist_graph_create` (example 8.4): 4 KiB along the sides, 8 bytes over the corners.
    Corners,
}

impl Stencil {
    /// All of them.
    pub(crate) const ALL: [Stencil; 3] = [Stencil::Plane, Stencil::Space, Stencil::Corners];

    /// As the table calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stencil::Plane => "2-D, 5 points",
            Stencil::Space => "3-D, 7 points, periodic",
            Stencil::Corners => "2-D, 9 points, periodic",
        }
    }
}

/// One line of the table.
pub(crate) struct Row {
    pub(crate) stencil: Stencil,
    pub(crate) nodes: u32,
    pub(crate) ranks: u32,
    pub(crate) dims: Vec<u32>,
    pub(crate) dealt: Dealt,
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// All lines.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for stencil in Stencil::ALL {
        for ranks in RANKS {
            for nodes in NODES {
                rows.extend([Dealt::Block, Dealt::Cyclic].map(|dealt| row(stencil, nodes, ranks, dealt)));
            }
        }
    }
    rows
}

fn row(stencil: Stencil, nodes: u32, ranks: u32, dealt: Dealt) -> Row {
    let size = nodes * ranks;
    let seats: Vec<Seat> = (0..size)
        .map(|rank| Seat::on_node(if dealt == Dealt::Block { rank / ranks } else { rank % nodes }))
        .collect();
    let dims = balanced(size, if stencil == Stencil::Space { 3 } else { 2 });
    let (before, after) = match stencil {
        Stencil::Plane => across(&Grid::new(&dims, &[false; 2]), &seats, 4096),
        Stencil::Space => across(&Grid::new(&dims, &[true; 3]), &seats, 32 * 1024),
        Stencil::Corners => across(&nine_points(dims[0], dims[1]), &seats, 1),
    };
    Row { stencil, nodes, ranks, dims, dealt, before, after }
}

fn across(edges: &impl Edges, seats: &[Seat], unit: u64) -> (u64, u64) {
    let identity: Vec<u32> = (0..seats.len() as u32).collect();
    let before = spread(edges, seats, &identity)[0];
    let after =
        arrange(edges, seats, Work::default()).map_or(before, |order| spread(edges, seats, &order)[0]);
    (before * unit, after * unit)
}

fn nine_points(rows: u32, columns: u32) -> Traffic {
    let mut edges = Vec::new();
    for rank in 0..rows * columns {
        let (y, x) = (rank / columns, rank % columns);
        for (dy, dx) in (0..3).flat_map(|dy| (0..3).map(move |dx| (dy, dx))).filter(|&step| step != (1, 1)) {
            let to = (y + rows + dy - 1) % rows * columns + (x + columns + dx - 1) % columns;
            edges.push((rank, to, if dy == 1 || dx == 1 { 4096 } else { 8 }));
        }
    }
    Traffic::new((rows * columns) as usize, &edges)
}

/// Nonincreasing dimensions with the least sum: what `MPI_Dims_create` gives for these sizes.
fn balanced(size: u32, count: usize) -> Vec<u32> {
    if count == 1 {
        return vec![size];
    }
    let sides = (1..=size).filter(|side| size.is_multiple_of(*side));
    let with_rest = sides.map(|side| {
        let mut dims = balanced(size / side, count - 1);
        dims.push(side);
        dims.sort_unstable_by_key(|&side| std::cmp::Reverse(side));
        dims
    });
    with_rest.min_by_key(|dims| dims.iter().sum::<u32>()).expect("1 divides all")
}

/// The table as text.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut text = String::from(
        "KiB across nodes in one exchange, before and after reordering, and what is left in percent.\n\
         cargo run --profile fast -p weft-place --example reordering -- core/place/reordering\n\n\
         stencil                  ranks/node  nodes  grid        dealt   before   after   left\n",
    );
    for row in rows {
        let dims: Vec<String> = row.dims.iter().map(u32::to_string).collect();
        let dealt = if row.dealt == Dealt::Block { "block" } else { "cyclic" };
        let left = (row.after * 1000).checked_div(row.before).unwrap_or(1000);
        let _ = writeln!(
            text,
            "{:<24} {:>10} {:>6}  {:<11} {:<6} {:>8} {:>7} {:>4}.{}",
            row.stencil.name(),
            row.ranks,
            row.nodes,
            dims.join("x"),
            dealt,
            row.before.div_ceil(1024),
            row.after.div_ceil(1024),
            left / 10,
            left % 10
        );
    }
    text
}
