//! Layouts as bytes, for another process: announced with a message or a one-sided operation, rebuilt and used there.
//!
//! Format, all numbers little-endian: version (1 byte), extent (i64), node. A node is a tag (1 byte), its displacement
//! (i64) and
//!
//! | tag | shape | then |
//! | --- | --- | --- |
//! | 0 | run | length (u64) |
//! | 1 | loop | stride (i64), copies (u64), node |
//! | 2 | blocks | length (u64), number (u64), displacements (i64 each) |
//! | 3 | ragged | number (u64), (displacement i64, length u64) each |
//! | 4 | list | number (u64), nodes |
//!
//! The reader believes nothing: numbers are bounded by the bytes that are there, sums by 63 bits, nesting by
//! [`DEEPEST`], and every displacement that a walk can reach by the address space.

use crate::layout::{Layout, Node, Shape, length_of, starts};
use std::sync::Arc;
use weft_types::{Error, ErrorClass, Result};

const VERSION: u8 = 1;

/// Deepest nesting of nodes that is written or read.
pub const DEEPEST: usize = 32;

impl Layout {
    /// The layout as bytes; `None` when these are more than `most` or the nesting is deeper than [`DEEPEST`].
    pub fn to_bytes(&self, most: usize) -> Option<Vec<u8>> {
        let mut out = vec![VERSION];
        out.extend(self.extent.to_le_bytes());
        write(&self.node, &mut out, most, DEEPEST)?;
        (out.len() <= most).then_some(out)
    }

    /// Rebuilds a layout from [`Layout::to_bytes`].
    ///
    /// # Errors
    /// `MPI_ERR_INTERN` when the bytes are no layout.
    pub fn from_bytes(bytes: &[u8]) -> Result<Layout> {
        read(bytes).ok_or_else(|| {
            Error::new(
                ErrorClass::INTERN,
                format!("{} bytes from another process are no datatype layout", bytes.len()),
            )
        })
    }

    /// The bytes from the first element's origin that `count` elements cover: first, and one past the last. `None` when
    /// these do not fit 63 bits.
    pub fn reach(&self, count: usize) -> Option<(i64, i64)> {
        if count == 0 || self.size == 0 {
            return Some((0, 0));
        }
        let (low, high) = reach(&self.node)?;
        loop_reach((low, high), self.extent, count)
    }
}

fn write(node: &Node, out: &mut Vec<u8>, most: usize, depth: usize) -> Option<()> {
    if depth == 0 || out.len() > most {
        return None;
    }
    let tag = match node.shape {
        Shape::Run => 0,
        Shape::Repeat { .. } => 1,
        Shape::Blocks { .. } => 2,
        Shape::Ragged { .. } => 3,
        Shape::List { .. } => 4,
    };
    out.push(tag);
    out.extend(node.at.to_le_bytes());
    let number = |out: &mut Vec<u8>, value: usize| out.extend((value as u64).to_le_bytes());
    match &node.shape {
        Shape::Run => number(out, node.size),
        Shape::Repeat { count, stride, body, .. } => {
            out.extend(stride.to_le_bytes());
            number(out, *count);
            write(body, out, most, depth - 1)?;
        }
        Shape::Blocks { length, places } => {
            if places.len() > most / 8 {
                return None;
            }
            number(out, *length);
            number(out, places.len());
            places.iter().for_each(|place| out.extend(place.to_le_bytes()));
        }
        Shape::Ragged { starts, places } => {
            if places.len() > most / 16 {
                return None;
            }
            number(out, places.len());
            for (index, place) in places.iter().enumerate() {
                out.extend(place.to_le_bytes());
                number(out, length_of(starts, node.size, index));
            }
        }
        Shape::List { nodes, .. } => {
            number(out, nodes.len());
            nodes.iter().try_for_each(|node| write(node, out, most, depth - 1))?;
        }
    }
    Some(())
}

fn read(bytes: &[u8]) -> Option<Layout> {
    let mut rest = bytes;
    if take::<1>(&mut rest)? != [VERSION] {
        return None;
    }
    let extent = signed(&mut rest)?;
    let node = read_node(&mut rest, DEEPEST)?;
    let layout = Layout::new(node, extent);
    // What is walked later must not leave the address space.
    layout.reach(1)?;
    rest.is_empty().then_some(layout)
}

fn read_node(rest: &mut &[u8], depth: usize) -> Option<Node> {
    let depth = depth.checked_sub(1)?;
    let [tag] = take::<1>(rest)?;
    let at = signed(rest)?;
    let node = match tag {
        0 => {
            let size = length(rest)?;
            Node { at, size, shape: Shape::Run }
        }
        1 => {
            let (stride, count) = (signed(rest)?, length(rest)?);
            let body = read_node(rest, depth)?;
            let size = bounded(body.size.checked_mul(count)?)?;
            (count > 0 && body.size > 0).then_some(())?;
            Node { at, size, shape: Shape::repeat(count, stride, Arc::new(body)) }
        }
        2 => {
            let (length, number) = (length(rest)?, number(rest, 8)?);
            (length > 0 && number > 0).then_some(())?;
            let places = (0..number).map(|_| signed(rest)).collect::<Option<Arc<[i64]>>>()?;
            Node { at, size: bounded(length.checked_mul(number)?)?, shape: Shape::Blocks { length, places } }
        }
        3 => {
            let number = number(rest, 16)?;
            (number > 0).then_some(())?;
            let (mut places, mut lengths) = (Vec::with_capacity(number), Vec::with_capacity(number));
            for _ in 0..number {
                places.push(signed(rest)?);
                lengths.push(positive(rest)?);
            }
            sum(lengths.iter().copied())?;
            let (starts, size) = starts(lengths.into_iter());
            Node { at, size, shape: Shape::Ragged { starts, places: places.into() } }
        }
        4 => {
            // A node takes at least 17 bytes.
            let number = number(rest, 17)?;
            (number > 0).then_some(())?;
            let nodes = (0..number)
                .map(|_| read_node(rest, depth).filter(|node| node.size > 0))
                .collect::<Option<Arc<[Node]>>>()?;
            sum(nodes.iter().map(|node| node.size))?;
            let (starts, size) = starts(nodes.iter().map(|node| node.size));
            Node { at, size, shape: Shape::List { starts, nodes } }
        }
        _ => return None,
    };
    Some(node)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (front, back) = rest.split_first_chunk::<N>()?;
    *rest = back;
    Some(*front)
}

fn signed(rest: &mut &[u8]) -> Option<i64> {
    take(rest).map(i64::from_le_bytes)
}

fn bounded(value: usize) -> Option<usize> {
    i64::try_from(value).ok().map(|_| value)
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    take(rest).map(u64::from_le_bytes).and_then(|value| usize::try_from(value).ok()).and_then(bounded)
}

fn positive(rest: &mut &[u8]) -> Option<usize> {
    length(rest).filter(|&value| value > 0)
}

/// A number of entries of `each` bytes, all of which must be there.
fn number(rest: &mut &[u8], each: usize) -> Option<usize> {
    length(rest).filter(|&number| number <= rest.len() / each)
}

fn sum(mut values: impl Iterator<Item = usize>) -> Option<usize> {
    values.try_fold(0_usize, |all, value| all.checked_add(value).and_then(bounded))
}

/// First byte and one past the last of a node that is not empty, from its parent's origin.
fn reach(node: &Node) -> Option<(i64, i64)> {
    let run = |at: i64, length: usize| Some((at, at.checked_add(i64::try_from(length).ok()?)?));
    let join = |all: Option<(i64, i64)>, (low, high): (i64, i64)| match all {
        Some((least, most)) => (low.min(least), high.max(most)),
        None => (low, high),
    };
    let (low, high) = match &node.shape {
        Shape::Run => run(0, node.size)?,
        Shape::Repeat { count, stride, body, .. } => loop_reach(reach(body)?, *stride, *count)?,
        Shape::Blocks { length, places } => {
            let (least, most) = (*places.iter().min()?, *places.iter().max()?);
            (least, run(most, *length)?.1)
        }
        Shape::Ragged { starts, places } => {
            let mut all = None;
            for (index, &place) in places.iter().enumerate() {
                all = Some(join(all, run(place, length_of(starts, node.size, index))?));
            }
            all?
        }
        Shape::List { nodes, .. } => {
            let mut all = None;
            for node in nodes.iter() {
                all = Some(join(all, reach(node)?));
            }
            all?
        }
    };
    Some((low.checked_add(node.at)?, high.checked_add(node.at)?))
}

fn loop_reach((low, high): (i64, i64), stride: i64, count: usize) -> Option<(i64, i64)> {
    let last = stride.checked_mul(i64::try_from(count).ok()? - 1)?;
    Some((low.checked_add(last.min(0))?, high.checked_add(last.max(0))?))
}
