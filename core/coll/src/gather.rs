//! Gather and scatter with their `v` forms (sections 6.5 and 6.6).

use crate::call::{Block, Group};
use crate::schedule::{Buffer, Builder, Range};
use crate::tree::{Rotation, Shape, Tree};

/// A block of an argument.
pub(crate) fn block(buffer: Buffer, block: Block) -> Range {
    Range { displacement: block.displacement, ..Range::new(buffer, 0, block.bytes) }
}

/// `MPI_Gather` up a tree; inner ranks forward packed bytes.
pub(crate) fn gather(b: &mut Builder, group: Group, root: u32, bytes: u64, in_place: bool, shape: Shape) {
    add_gather(b, group, root, Range::new(Buffer::Send, 0, bytes), Buffer::Recv, in_place, shape);
}

/// Appends a gather of every rank's `own` block to the beginning of `into`, at the root; its own is in its place already when
/// `in_place`.
pub(crate) fn add_gather(
    b: &mut Builder,
    group: Group,
    root: u32,
    own: Range,
    into: Buffer,
    in_place: bool,
    shape: Shape,
) {
    let bytes = own.bytes;
    if bytes == 0 {
        return;
    }
    let rotation = Rotation { root, size: group.size };
    let me = rotation.relative(group.rank);
    let tree = Tree::new(shape, me, group.size);
    match tree.parent {
        Some(parent) if tree.children.is_empty() => {
            b.send(rotation.absolute(parent), own);
        }
        Some(parent) => {
            let below: u32 = tree.children.iter().map(|&(_, below)| below).sum();
            let all = b.packed_scratch(bytes * u64::from(below + 1));
            for &(child, below) in &tree.children {
                let part = all.part(u64::from(child - me) * bytes, u64::from(below) * bytes);
                b.recv(rotation.absolute(child), part);
            }
            b.copy(own, all.part(0, bytes));
            b.send(rotation.absolute(parent), all);
        }
        None => {
            for &(child, below) in &tree.children {
                let (staged, pieces) = root_pieces(b, rotation, child, below, bytes, into);
                b.recv(rotation.absolute(child), staged);
                pieces.into_iter().for_each(|(part, place)| b.copy(part, place));
            }
            if !in_place {
                b.copy(own, Range::new(into, u64::from(root) * bytes, bytes));
            }
        }
    }
}

/// Where the root keeps the blocks of relative ranks `first..first + count`: in the argument itself when they follow
/// one another there, otherwise (they wrap around) in scratch, with the copies between both.
fn root_pieces(
    b: &mut Builder,
    rotation: Rotation,
    first: u32,
    count: u32,
    bytes: u64,
    argument: Buffer,
) -> (Range, Vec<(Range, Range)>) {
    let begin = rotation.absolute(first);
    let place =
        |rank: u32, blocks: u32| Range::new(argument, u64::from(rank) * bytes, u64::from(blocks) * bytes);
    if begin + count <= rotation.size {
        return (place(begin, count), Vec::new());
    }
    let staged = b.packed_scratch(u64::from(count) * bytes);
    let before = rotation.size - begin;
    let cut = u64::from(before) * bytes;
    let pieces = vec![
        (staged.part(0, cut), place(begin, before)),
        (staged.part(cut, staged.bytes - cut), place(0, count - before)),
    ];
    (staged, pieces)
}

/// `MPI_Gatherv`: everybody sends to the root. Not up a tree: the counts are known at the root only (section 6.5), and a rank in
/// between would need those of the ranks below it, to have room for their blocks and to tell them apart.
pub(crate) fn gatherv(
    b: &mut Builder,
    group: Group,
    root: u32,
    bytes: u64,
    blocks: &[Block],
    in_place: bool,
) {
    if group.rank != root {
        if bytes > 0 {
            b.send(root, Range::new(Buffer::Send, 0, bytes));
        }
        return;
    }
    for (rank, &place) in (0..).zip(blocks) {
        if rank != root && place.bytes > 0 {
            b.recv(rank, block(Buffer::Recv, place));
        }
    }
    let own = blocks[root as usize];
    if !in_place {
        b.copy(Range::new(Buffer::Send, 0, own.bytes), block(Buffer::Recv, own));
    }
}

/// `MPI_Scatter` down a tree; inner ranks forward packed bytes.
pub(crate) fn scatter(b: &mut Builder, group: Group, root: u32, bytes: u64, in_place: bool, shape: Shape) {
    if bytes == 0 {
        return;
    }
    let rotation = Rotation { root, size: group.size };
    let me = rotation.relative(group.rank);
    let tree = Tree::new(shape, me, group.size);
    let own = Range::new(Buffer::Recv, 0, bytes);
    match tree.parent {
        Some(parent) if tree.children.is_empty() => {
            b.recv(rotation.absolute(parent), own);
        }
        Some(parent) => {
            let below: u32 = tree.children.iter().map(|&(_, below)| below).sum();
            let all = b.packed_scratch(bytes * u64::from(below + 1));
            b.recv(rotation.absolute(parent), all);
            for &(child, below) in tree.children.iter().rev() {
                let part = all.part(u64::from(child - me) * bytes, u64::from(below) * bytes);
                b.send(rotation.absolute(child), part);
            }
            b.copy(all.part(0, bytes), own);
        }
        None => {
            for &(child, below) in tree.children.iter().rev() {
                let (staged, pieces) = root_pieces(b, rotation, child, below, bytes, Buffer::Send);
                pieces.into_iter().for_each(|(part, place)| b.copy(place, part));
                b.send(rotation.absolute(child), staged);
            }
            if !in_place {
                b.copy(Range::new(Buffer::Send, u64::from(root) * bytes, bytes), own);
            }
        }
    }
}

/// `MPI_Scatterv`: the root sends to everybody. Not down a tree, for the same reason (section 6.6).
pub(crate) fn scatterv(
    b: &mut Builder,
    group: Group,
    root: u32,
    bytes: u64,
    blocks: &[Block],
    in_place: bool,
) {
    if group.rank != root {
        if bytes > 0 {
            b.recv(root, Range::new(Buffer::Recv, 0, bytes));
        }
        return;
    }
    for (rank, &place) in (0..).zip(blocks) {
        if rank != root && place.bytes > 0 {
            b.send(rank, block(Buffer::Send, place));
        }
    }
    let own = blocks[root as usize];
    if !in_place {
        b.copy(block(Buffer::Send, own), Range::new(Buffer::Recv, 0, own.bytes));
    }
}
