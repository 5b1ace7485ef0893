//! Reductions to one rank (section 6.9.1).

use crate::call::{Group, Vector};
use crate::model::Estimate;
use crate::partition::Segments;
use crate::schedule::{Buffer, Builder, Range};
use crate::tree::{Rotation, Shape, Tree};

/// Vectors up to this many bytes get a receive buffer for each child, so that all receives are posted at the start.
const SMALL: u64 = 8 << 10;
/// So many get longer ones; and so many segments may be at a rank at a time.
const ROOMS: usize = 3;

/// Up a tree. An operation that does not commute is combined in the tree of absolute ranks, in which every subtree is a
/// range of ranks, and the result goes from rank 0 to the root.
pub(crate) fn tree(b: &mut Builder, group: Group, root: u32, vector: Vector, in_place: bool, shape: Shape) {
    let is_root = group.rank == root;
    let bytes = vector.bytes();
    let own = Range::new(if is_root && in_place { Buffer::Recv } else { Buffer::Send }, 0, bytes);
    let result = is_root.then_some(Range::new(Buffer::Recv, 0, bytes));
    add_tree(b, group, root, vector, own, result, shape);
}

/// Appends a reduction of every rank's `own`; at the root into `result`.
pub(crate) fn add_tree(
    b: &mut Builder,
    group: Group,
    root: u32,
    vector: Vector,
    own: Range,
    result: Option<Range>,
    shape: Shape,
) {
    if own.bytes == 0 {
        return;
    }
    let top = if vector.commutative { root } else { 0 };
    let rotation = Rotation { root: top, size: group.size };
    let tree = Tree::new(shape, rotation.relative(group.rank), group.size);
    let at_top = if top == root { result } else { None };
    let buffers = if own.bytes <= SMALL { tree.children.len() } else { tree.children.len().min(ROOMS) };
    let mut rooms = Rooms::new(buffers);
    let combined = combine(b, rotation, &tree, vector, own, at_top, &mut rooms);
    if let Some(parent) = tree.parent {
        b.send(rotation.absolute(parent), combined);
    } else if group.rank != root {
        b.send(root, combined);
    }
    if let Some(result) = result
        && top != root
    {
        b.recv(top, result);
    }
}

/// Where what children send comes, that is not combined in place.
struct Rooms {
    /// On which it comes.
    channel: u32,
    most: usize,
    ranges: Vec<Range>,
}

impl Rooms {
    fn new(most: usize) -> Rooms {
        Rooms { channel: 0, most, ranges: Vec::with_capacity(most) }
    }

    /// One that does not hold `operand`.
    fn next(&mut self, b: &mut Builder, bytes: u64, operand: Range) -> Range {
        if self.ranges.len() < self.most {
            self.ranges.push(b.operand_scratch(bytes));
            return self.ranges[self.ranges.len() - 1];
        }
        // The one used longest ago; with at least two it is not the one that holds the operand.
        self.ranges.rotate_left(1);
        if self.ranges[self.most - 1] == operand {
            self.ranges.rotate_left(1);
        }
        self.ranges[self.most - 1]
    }
}

/// Appends a reduction up a tree in segments of `segment` bytes, for operations that commute or a root that is rank 0. While a rank combines one, the next
/// ones are under way to it.
pub(crate) fn add_segments(
    b: &mut Builder,
    group: Group,
    root: u32,
    vector: Vector,
    own: Range,
    result: Option<Range>,
    (shape, segments): (Shape, Segments),
) {
    let rotation = Rotation { root, size: group.size };
    let tree = Tree::new(shape, rotation.relative(group.rank), group.size);
    let buffers = tree.children.len().min(ROOMS);
    let mut sets: Vec<Vec<Range>> = Vec::new();
    for (index, offset, bytes) in segments.iter() {
        let at = index as usize % ROOMS;
        if sets.len() <= at {
            sets.push((0..buffers).map(|_| b.operand_scratch(segments.length())).collect());
        }
        let ranges = sets[at].iter().map(|room| room.part(0, bytes)).collect();
        let result = result.map(|result| result.part(offset, bytes));
        let mut rooms = Rooms { channel: index, most: buffers, ranges };
        let combined = combine(b, rotation, &tree, vector, own.part(offset, bytes), result, &mut rooms);
        if let Some(parent) = tree.parent {
            b.send_on(index, rotation.absolute(parent), combined);
        }
    }
}

/// Combines `own` with what the children send, in ascending order; into `result` if given. Returns where it lies.
fn combine(
    b: &mut Builder,
    rotation: Rotation,
    tree: &Tree,
    vector: Vector,
    own: Range,
    result: Option<Range>,
    rooms: &mut Rooms,
) -> Range {
    let mut combined = own;
    for (index, &(child, _)) in tree.children.iter().enumerate() {
        let last = index + 1 == tree.children.len();
        let into_result = result.filter(|result| {
            result.buffer != combined.buffer && (last || (vector.commutative && combined == own))
        });
        let received = into_result.unwrap_or_else(|| rooms.next(b, own.bytes, combined));
        b.recv_on(rooms.channel, rotation.absolute(child), received);
        // A user's send argument is only read; the own operand may be written where it is the result's place too.
        if vector.commutative && (combined != own || result == Some(own)) {
            b.reduce(received, combined);
        } else {
            b.reduce(combined, received);
            combined = received;
        }
    }
    match result {
        Some(result) => {
            b.copy(combined, result);
            result
        }
        None => combined,
    }
}

/// Adds the time of a reduction of `bytes` up a tree.
pub(crate) fn estimate(estimate: &mut Estimate<'_>, group: Group, bytes: f64, shape: Shape) {
    let n = f64::from(group.size);
    // Up the tree the top waits for what comes, the leaves for nothing.
    match shape {
        Shape::Flat => {
            estimate.with_all(bytes);
            estimate.combine((n - 1.0) * bytes);
            estimate.waits(0.25 * n);
        }
        Shape::Chain => {
            estimate.chain(1.0, bytes);
            estimate.combine((n - 1.0) * bytes);
        }
        Shape::Binomial => ascend(estimate, group, bytes, 2),
        Shape::Knomial(radix) => ascend(estimate, group, bytes, radix),
    }
}

fn ascend(estimate: &mut Estimate<'_>, group: Group, bytes: f64, radix: u32) {
    let mut distance = 1_u32;
    while distance < group.size {
        let children = (1..radix).take_while(|k| distance.saturating_mul(*k) < group.size).count() as u32;
        estimate.fan(children, distance, bytes);
        estimate.combine(f64::from(children) * bytes);
        distance = distance.saturating_mul(radix);
    }
    estimate.waits(f64::from(group.size));
}
