//! The layout of one element in memory: which bytes, relative to the element's origin, carry data, in which order.
//!
//! A layout is a small program of runs, loops and block lists in type-map order. It is as large as the constructor
//! calls that made it, never as large as their counts, and can begin at any packed byte: loops and equal blocks are
//! entered by a division, other lists by a binary search.
//!
//! Normal form: no empty node but [`Node::EMPTY`]; runs that touch are one; runs at equal distances are a loop; a
//! list of runs keeps displacements (and lengths, where they differ) in flat arrays.

use crate::shuffle::Prepared;
use std::sync::Arc;

/// Byte blocks of one datatype element in type-map order, and the distance between elements (section 5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(crate) node: Node,
    /// Data bytes of one element (the sum of the blocks).
    pub size: usize,
    /// Distance in bytes from one element to the next (ub - lb).
    pub extent: i64,
    /// Runs of one element.
    blocks: usize,
    /// How many elements at a time are copied, where these are small.
    pub(crate) shuffle: Prepared,
}

/// `size` bytes of data; displacements inside are relative to `at`, which is relative to the parent's origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) at: i64,
    pub(crate) size: usize,
    pub(crate) shape: Shape,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One gap-free run.
    Run,
    /// `count` copies of `body`, `stride` bytes apart; how several are copied at a time, where these are small.
    Repeat { count: usize, stride: i64, body: Arc<Node>, shuffle: Prepared },
    /// Runs of `length` bytes each at `places`.
    Blocks { length: usize, places: Arc<[i64]> },
    /// Runs at `places`; `starts[i]` is the packed offset of run `i`.
    Ragged { starts: Arc<[usize]>, places: Arc<[i64]> },
    /// Several nodes; `starts[i]` is the packed offset of `nodes[i]`.
    List { starts: Arc<[usize]>, nodes: Arc<[Node]> },
}

impl Shape {
    /// `count` copies of `body`, `stride` bytes apart.
    pub(crate) fn repeat(count: usize, stride: i64, body: Arc<Node>) -> Shape {
        Shape::Repeat { count, stride, body, shuffle: Prepared::default() }
    }
}

/// The shortest page of memory.
const PAGE: u64 = 4096;

/// Lists of at most so many entries become part of the list around them, while that has at most `ROOM` entries itself:
/// a program stays as large as what it was made of.
const FLATTENED: usize = 16;
const ROOM: usize = 256;

impl Node {
    /// Nothing at all.
    pub(crate) const EMPTY: Node = Node { at: 0, size: 0, shape: Shape::Run };

    /// `size` bytes in one run at displacement `at`.
    pub(crate) const fn run(at: i64, size: usize) -> Node {
        Node { at, size, shape: Shape::Run }
    }

    /// The same data, `by` bytes further on.
    pub(crate) fn shifted(mut self, by: i64) -> Node {
        if self.size > 0 {
            self.at = self.at.wrapping_add(by);
        }
        self
    }

    /// `count` copies, `stride` bytes apart. The caller has checked that the total size fits.
    pub(crate) fn repeated(self, count: usize, stride: i64) -> Node {
        if count == 0 || self.size == 0 {
            return Node::EMPTY;
        }
        if count == 1 {
            return self;
        }
        let (at, size) = (self.at, self.size * count);
        match self.shape {
            Shape::Run if stride == self.size as i64 => Node::run(at, size),
            Shape::Repeat { stride: inner, ref body, .. }
                if inner.checked_mul((self.size / body.size) as i64) == Some(stride) =>
            {
                Node { at, size, shape: Shape::repeat(size / body.size, inner, Arc::clone(body)) }
            }
            shape => {
                let body = Arc::new(Node { at: 0, size: self.size, shape });
                Node { at, size, shape: Shape::repeat(count, stride, body) }
            }
        }
    }

    /// Runs (displacement, length) in packed order. The caller has checked that the total size fits.
    pub(crate) fn runs(parts: impl IntoIterator<Item = (i64, usize)>) -> Node {
        let mut merged: Vec<(i64, usize)> = Vec::new();
        for (at, length) in parts.into_iter().filter(|part| part.1 > 0) {
            match merged.last_mut() {
                Some(last) if last.0.wrapping_add(last.1 as i64) == at => last.1 += length,
                _ => merged.push((at, length)),
            }
        }
        let Some(&(at, length)) = merged.first() else { return Node::EMPTY };
        if merged.len() == 1 {
            return Node::run(at, length);
        }
        let equal = merged.iter().all(|run| run.1 == length);
        let stride = merged[1].0.checked_sub(at);
        if equal
            && let Some(stride) = stride
            && merged.windows(2).all(|pair| pair[1].0.checked_sub(pair[0].0) == Some(stride))
        {
            return Node::run(at, length).repeated(merged.len(), stride);
        }
        let places = merged.iter().map(|run| run.0).collect();
        if equal {
            return Node { at: 0, size: length * merged.len(), shape: Shape::Blocks { length, places } };
        }
        let (starts, size) = starts(merged.iter().map(|run| run.1));
        Node { at: 0, size, shape: Shape::Ragged { starts, places } }
    }

    /// The nodes one after another in packed order. The caller has checked that the total size fits.
    pub(crate) fn list(parts: impl IntoIterator<Item = Node>) -> Node {
        let mut nodes: Vec<Node> = Vec::new();
        for part in parts.into_iter().filter(|part| part.size > 0) {
            let room = nodes.len() < ROOM;
            let mut add = |part: Node| match nodes.last_mut() {
                Some(last) if last.is_run() && part.is_run() && last.end() == part.at => {
                    last.size += part.size;
                }
                _ => nodes.push(part),
            };
            if room { part.flattened(&mut add) } else { add(part) }
        }
        if nodes.iter().all(Node::is_run) {
            return Node::runs(nodes.iter().map(|node| (node.at, node.size)));
        }
        if nodes.len() == 1 {
            return nodes.remove(0);
        }
        let (starts, size) = starts(nodes.iter().map(|node| node.size));
        Node { at: 0, size, shape: Shape::List { starts, nodes: nodes.into() } }
    }

    /// Gives the entries of a short list one by one, anything else as it is.
    fn flattened(self, give: &mut impl FnMut(Node)) {
        match &self.shape {
            Shape::Blocks { length, places } if places.len() <= FLATTENED => {
                places.iter().for_each(|&place| give(Node::run(self.at.wrapping_add(place), *length)));
            }
            Shape::Ragged { starts, places } if places.len() <= FLATTENED => {
                for (index, &place) in places.iter().enumerate() {
                    give(Node::run(self.at.wrapping_add(place), length_of(starts, self.size, index)));
                }
            }
            Shape::List { nodes, .. } if nodes.len() <= FLATTENED => {
                nodes.iter().for_each(|node| give(node.clone().shifted(self.at)));
            }
            _ => give(self),
        }
    }

    /// Number of runs; no more than bytes.
    pub(crate) fn blocks(&self) -> usize {
        match &self.shape {
            Shape::Run => 1,
            Shape::Repeat { count, body, .. } => count * body.blocks(),
            Shape::Blocks { places, .. } | Shape::Ragged { places, .. } => places.len(),
            Shape::List { nodes, .. } => nodes.iter().map(Node::blocks).sum(),
        }
    }

    pub(crate) fn is_run(&self) -> bool {
        matches!(self.shape, Shape::Run)
    }

    fn end(&self) -> i64 {
        self.at.wrapping_add(self.size as i64)
    }

    /// Calls `run(displacement, length)` for the packed bytes `skip..skip + len`; `len` is positive and in range.
    pub(crate) fn walk(&self, origin: i64, skip: usize, len: usize, run: &mut impl FnMut(i64, usize)) {
        let at = origin.wrapping_add(self.at);
        match &self.shape {
            Shape::Run => run(at.wrapping_add(skip as i64), len),
            Shape::Repeat { stride, body, .. } => body.walk_many(at, *stride, skip, len, run),
            Shape::Blocks { length, places } => {
                let (mut index, mut skip, mut left) = (skip / length, skip % length, len);
                while left > 0 {
                    let now = (length - skip).min(left);
                    run(at.wrapping_add(places[index]).wrapping_add(skip as i64), now);
                    (index, skip, left) = (index + 1, 0, left - now);
                }
            }
            Shape::Ragged { starts, places } => {
                let mut index = index_at(starts, skip);
                let (mut skip, mut left) = (skip - starts[index], len);
                while left > 0 {
                    let now = (length_of(starts, self.size, index) - skip).min(left);
                    run(at.wrapping_add(places[index]).wrapping_add(skip as i64), now);
                    (index, skip, left) = (index + 1, 0, left - now);
                }
            }
            Shape::List { starts, nodes } => {
                let mut index = index_at(starts, skip);
                let (mut skip, mut left) = (skip - starts[index], len);
                while left > 0 {
                    let now = (nodes[index].size - skip).min(left);
                    nodes[index].walk(at, skip, now, run);
                    (index, skip, left) = (index + 1, 0, left - now);
                }
            }
        }
    }

    /// As `walk`, over as many copies of this node as it takes, `stride` bytes apart.
    fn walk_many(&self, origin: i64, stride: i64, skip: usize, len: usize, run: &mut impl FnMut(i64, usize)) {
        let mut at = origin.wrapping_add(stride.wrapping_mul((skip / self.size) as i64));
        let mut skip = skip % self.size;
        let mut left = len;
        while left > 0 {
            let now = (self.size - skip).min(left);
            if self.is_run() {
                run(at.wrapping_add(self.at).wrapping_add(skip as i64), now);
            } else {
                self.walk(at, skip, now, run);
            }
            left -= now;
            skip = 0;
            at = at.wrapping_add(stride);
        }
    }
}

/// Packed offsets of consecutive entries, and the sum of their lengths.
pub(crate) fn starts(lengths: impl Iterator<Item = usize>) -> (Arc<[usize]>, usize) {
    let mut total = 0;
    let starts = lengths
        .map(|length| {
            total += length;
            total - length
        })
        .collect();
    (starts, total)
}

/// The entry that holds packed byte `skip`.
pub(crate) fn index_at(starts: &[usize], skip: usize) -> usize {
    starts.partition_point(|&start| start <= skip) - 1
}

/// Length of entry `index` of entries of `total` bytes.
pub(crate) fn length_of(starts: &[usize], total: usize, index: usize) -> usize {
    starts.get(index + 1).copied().unwrap_or(total) - starts[index]
}

impl Layout {
    /// A layout of one block of `size` bytes at displacement 0, with elements back to back.
    pub fn contiguous(size: usize) -> Layout {
        Layout::new(Node::run(0, size), size as i64)
    }

    /// A layout of explicit blocks (displacement from the origin, length) in type-map order.
    pub fn from_blocks(blocks: &[(i64, usize)], extent: i64) -> Layout {
        Layout::new(Node::runs(blocks.iter().copied()), extent)
    }

    pub(crate) fn new(node: Node, extent: i64) -> Layout {
        Layout { size: node.size, extent, blocks: node.blocks().max(1), shuffle: Prepared::default(), node }
    }

    /// Bytes of one run in the mean.
    pub fn mean_block(&self) -> u64 {
        (self.size / self.blocks) as u64
    }

    /// Whether blocks lie at one distance of a page or more, so that each of them costs the processor a look for its page.
    pub fn is_on_many_pages(&self) -> bool {
        let apart = match self.node.shape {
            Shape::Run => self.extent,
            Shape::Repeat { stride, ref body, .. } if body.is_run() => stride,
            _ => 0,
        };
        apart.unsigned_abs() >= PAGE
    }

    /// Whether any count of elements is one gap-free run that begins at the origin.
    pub fn is_contiguous(&self) -> bool {
        self.single_run() == Some(0)
    }

    /// Where the data begins when any count of elements is one gap-free run.
    pub fn single_run(&self) -> Option<i64> {
        match self.size {
            0 => Some(0),
            size => (self.node.is_run() && size as i64 == self.extent).then_some(self.node.at),
        }
    }

    /// Where the packed bytes `skip..skip + bytes` are, when they lie in one run: the displacement of the run, and the bytes
    /// to skip from there.
    pub(crate) fn run_of(&self, skip: usize, bytes: usize) -> Option<(i64, usize)> {
        if let Some(at) = self.single_run() {
            return Some((at, skip));
        }
        let (first, inside) = (skip / self.size, skip % self.size);
        let one = self.node.is_run() && bytes <= self.size - inside;
        one.then(|| (self.node.at.wrapping_add(self.extent.wrapping_mul(first as i64)), inside))
    }

    /// Calls `run(displacement from the first element's origin, length)` for each run of memory that holds the
    /// packed bytes `skip..skip + len` of consecutive elements, in packed order.
    pub fn for_each_run(&self, skip: usize, len: usize, mut run: impl FnMut(i64, usize)) {
        if len > 0 && self.size > 0 {
            self.node.walk_many(0, self.extent, skip, len, &mut run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(node: Node, extent: i64, skip: usize, len: usize) -> Vec<(i64, usize)> {
        let mut out = Vec::new();
        Layout::new(node, extent).for_each_run(skip, len, |at, len| out.push((at, len)));
        out
    }

    #[test]
    fn loops_and_lists_merge_what_lies_together() {
        assert!(Node::run(0, 4).repeated(1000, 4).is_run());
        assert!(Node::list([Node::run(0, 4), Node::EMPTY, Node::run(4, 8)]).is_run());
        let loops = Node::run(0, 4).repeated(10, 8).repeated(10, 80);
        assert!(matches!(loops.shape, Shape::Repeat { stride: 8, ref body, .. } if body.is_run()));
        let regular = Node::list((0..5).map(|i| Node::run(i * 100, 4)));
        assert!(matches!(regular.shape, Shape::Repeat { stride: 100, .. }));
        let blocks = Node::runs([(0, 8), (32, 8), (40, 8), (100, 16)]);
        assert!(matches!(blocks.shape, Shape::Ragged { .. }));
        let equal = Node::runs([(0, 8), (32, 8), (100, 8)]);
        assert!(matches!(equal.shape, Shape::Blocks { length: 8, .. }));
        let nested = Node::list([Node::run(0, 4), equal.shifted(4), Node::run(112, 4)]);
        assert_eq!(nested, Node::runs([(0, 12), (36, 8), (104, 12)]));
    }

    #[test]
    fn a_walk_begins_and_ends_at_any_packed_byte() {
        let node = Node::list([Node::run(10, 3), Node::run(0, 2).repeated(2, -5), Node::run(20, 1)]);
        let all = runs(node.clone(), 100, 0, 16);
        let bytes: Vec<i64> = all.iter().flat_map(|&(at, len)| at..at + len as i64).collect();
        assert_eq!(bytes, [10, 11, 12, 0, 1, -5, -4, 20, 110, 111, 112, 100, 101, 95, 96, 120]);
        for skip in 0..16 {
            for len in 0..=16 - skip {
                let part = runs(node.clone(), 100, skip, len);
                let got: Vec<i64> = part.iter().flat_map(|&(at, len)| at..at + len as i64).collect();
                assert_eq!(got, bytes[skip..skip + len]);
            }
        }
    }
}
