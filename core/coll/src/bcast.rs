//! Broadcasts (section 6.4). The buffer is the receive argument at every rank.

use crate::call::Group;
use crate::circulant;
use crate::fold::Fold;
use crate::model::Estimate;
use crate::partition::Partition;
use crate::schedule::{Buffer, Builder, CHANNELS, Range};
use crate::tree::{Rotation, Shape, Tree};

/// Down a tree, in segments of `segment` bytes; a rank passes on each segment as it arrives.
pub(crate) fn tree(b: &mut Builder, group: Group, root: u32, bytes: u64, shape: Shape, segment: u64) {
    add_tree(b, group, root, Range::new(Buffer::Recv, 0, bytes), shape, segment);
}

/// Down a tree: each rank reads what the one above it offers, all at once, and offers it to those below.
pub(crate) fn tree_by_gets(b: &mut Builder, group: Group, root: u32, bytes: u64, shape: Shape) {
    let rotation = Rotation { root, size: group.size };
    let tree = Tree::new(shape, rotation.relative(group.rank), group.size);
    let data = Range::new(Buffer::Recv, 0, bytes);
    if bytes == 0 {
        return;
    }
    if let Some(parent) = tree.parent {
        b.get(0, rotation.absolute(parent), data);
    }
    for &(child, _) in tree.children.iter().rev() {
        b.offer_to_read(0, rotation.absolute(child), data);
    }
}

/// Appends a broadcast of `data` down a tree.
pub(crate) fn add_tree(b: &mut Builder, group: Group, root: u32, data: Range, shape: Shape, segment: u64) {
    let rotation = Rotation { root, size: group.size };
    let tree = Tree::new(shape, rotation.relative(group.rank), group.size);
    let segment = segment.max(data.bytes.div_ceil(u64::from(CHANNELS))).max(1);
    let mut offset = 0;
    while offset < data.bytes {
        let part = data.part(offset, segment.min(data.bytes - offset));
        let channel = (offset / segment) as u32;
        if let Some(parent) = tree.parent {
            b.recv_on(channel, rotation.absolute(parent), part);
        }
        // The child with the most ranks below it first.
        for &(child, _) in tree.children.iter().rev() {
            b.send_on(channel, rotation.absolute(child), part);
        }
        offset += part.bytes;
    }
}

/// Adds the time of one message down a tree.
pub(crate) fn estimate(estimate: &mut Estimate<'_>, group: Group, bytes: f64, shape: Shape) {
    let n = f64::from(group.size);
    match shape {
        Shape::Flat => {
            estimate.with_all(bytes);
            estimate.waits(n - 1.0);
        }
        Shape::Chain => estimate.chain(1.0, bytes),
        Shape::Binomial => descend(estimate, group, bytes, 2),
        Shape::Knomial(radix) => descend(estimate, group, bytes, radix),
    }
}

fn descend(estimate: &mut Estimate<'_>, group: Group, bytes: f64, radix: u32) {
    let mut distance = 1_u32;
    while distance < group.size {
        let children = (1..radix).take_while(|k| distance.saturating_mul(*k) < group.size).count() as u32;
        estimate.fan(children, distance, bytes);
        distance = distance.saturating_mul(radix);
    }
    estimate.waits(1.5 * f64::from(group.size));
}

/// Scatters the message down a binomial tree, then passes the parts around a ring (van de Geijn; Barnett et al. 1994).
pub(crate) fn scatter_allgather(b: &mut Builder, group: Group, root: u32, bytes: u64) {
    let size = group.size;
    let rotation = Rotation { root, size };
    let me = rotation.relative(group.rank);
    let parts = Partition { count: bytes, element: 1, parts: u64::from(size) };
    let data = |first, last| {
        let (offset, bytes) = parts.span(first, last);
        Range::new(Buffer::Recv, offset, bytes)
    };
    add_scatter(b, rotation, me, bytes);
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    let (scattered, scattered_to_next) = (me..reach(me, size), next..reach(next, size));
    for step in 0..size - 1 {
        let given = (me + size - step) % size;
        let taken = (me + size - step - 1) % size;
        // A part that came down the tree is not sent again to a rank that has it.
        if data(given, given + 1).bytes > 0 && !scattered_to_next.contains(&given) {
            b.send_on(step + 1, rotation.absolute(next), data(given, given + 1));
        }
        if data(taken, taken + 1).bytes > 0 && !scattered.contains(&taken) {
            b.recv_on(step + 1, rotation.absolute(previous), data(taken, taken + 1));
        }
    }
}

/// Scatters the message down a binomial tree, then exchanges the parts on a circulant graph: in few rounds at any size.
pub(crate) fn scatter_circulant(b: &mut Builder, group: Group, root: u32, bytes: u64) {
    let rotation = Rotation { root, size: group.size };
    add_scatter(b, rotation, rotation.relative(group.rank), bytes);
    circulant::allgather_parts(b, group, root, bytes);
}

/// The end of the parts that a rank has after the scatter: those of its subtree, from its own on.
fn reach(rank: u32, size: u32) -> u32 {
    let tree = Tree::new(Shape::Binomial, rank, size);
    tree.children.last().map_or(rank + 1, |&(child, below)| child + below)
}

/// Appends the way of the parts down a binomial tree, one for each rank as seen from the root.
fn add_scatter(b: &mut Builder, rotation: Rotation, me: u32, bytes: u64) {
    let size = rotation.size;
    let parts = Partition { count: bytes, element: 1, parts: u64::from(size) };
    let data = |first, last| {
        let (offset, bytes) = parts.span(first, last);
        Range::new(Buffer::Recv, offset, bytes)
    };
    let tree = Tree::new(Shape::Binomial, me, size);
    if let Some(parent) = tree.parent
        && data(me, reach(me, size)).bytes > 0
    {
        b.recv(rotation.absolute(parent), data(me, reach(me, size)));
    }
    for &(child, below) in tree.children.iter().rev() {
        if data(child, child + below).bytes > 0 {
            b.send(rotation.absolute(child), data(child, child + below));
        }
    }
}

/// Scatters the message down a binomial tree, then exchanges the parts at doubling distance (Thakur, Rabenseifner, Gropp 2005):
/// fewer messages than around the ring. At sizes that are no power of two some ranks get all from the neighbour that stands for
/// them.
pub(crate) fn scatter_doubling(b: &mut Builder, group: Group, root: u32, bytes: u64) {
    const EXCHANGE: u32 = 1;
    if bytes == 0 {
        return;
    }
    let rotation = Rotation { root, size: group.size };
    let me = rotation.relative(group.rank);
    let fold = Fold::keeping(group.size, 0);
    let Some(number) = fold.number(me) else {
        b.recv(rotation.absolute(me ^ 1), Range::new(Buffer::Recv, 0, bytes));
        return;
    };
    let absolute = |number: u32| rotation.absolute(fold.rank(number));
    let parts = Partition { count: bytes, element: 1, parts: u64::from(fold.power) };
    let data = |first: u32, count: u32| {
        let (offset, bytes) = parts.span(first, first + count);
        Range::new(Buffer::Recv, offset, bytes)
    };
    let tree = Tree::new(Shape::Binomial, number, fold.power);
    let below: u32 = tree.children.iter().map(|&(_, below)| below).sum();
    if let Some(parent) = tree.parent
        && data(number, below + 1).bytes > 0
    {
        b.recv(absolute(parent), data(number, below + 1));
    }
    for &(child, below) in tree.children.iter().rev() {
        if data(child, below).bytes > 0 {
            b.send(absolute(child), data(child, below));
        }
    }
    let mut distance = 1;
    while distance < fold.power {
        let partner = number ^ distance;
        // What both have next, the first of them has from the scatter.
        let is_first = |number: u32| number.is_multiple_of(2 * distance);
        let window = |number: u32| data(number & !(distance - 1), distance);
        if !is_first(partner) && window(number).bytes > 0 {
            b.send_on(EXCHANGE, absolute(partner), window(number));
        }
        if !is_first(number) && window(partner).bytes > 0 {
            b.recv_on(EXCHANGE, absolute(partner), window(partner));
        }
        distance *= 2;
    }
    if let Some(other) = fold.stands_for(me) {
        b.send(rotation.absolute(other), Range::new(Buffer::Recv, 0, bytes));
    }
}
