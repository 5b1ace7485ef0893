//! The layout of one element in memory: which bytes, relative to the element's origin, carry data, in which order.
//!
//! A layout is a small tree of runs, loops and lists in type-map order. It is as large as the constructor calls
//! that made it, never as large as their counts, and a walk can begin at any packed byte.

use std::sync::Arc;

/// Byte blocks of one datatype element in type-map order, and the distance between elements (section 5.1).
#[derive(Clone, Debug)]
pub struct Layout {
    node: Node,
    /// Data bytes of one element (the sum of the blocks).
    pub size: usize,
    /// Distance in bytes from one element to the next (ub - lb).
    pub extent: i64,
}

/// `size` bytes of data; displacements inside are relative to `at`, which is relative to the parent's origin.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    at: i64,
    size: usize,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// One gap-free run.
    Run,
    /// `size / body.size` copies of `body`, `stride` bytes apart.
    Repeat { stride: i64, body: Arc<Node> },
    /// Several nodes, none of them empty; `starts[i]` is the packed offset of `nodes[i]`.
    List { starts: Arc<[usize]>, nodes: Arc<[Node]> },
}

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
            Shape::Repeat { stride: inner, ref body }
                if inner.checked_mul((self.size / body.size) as i64) == Some(stride) =>
            {
                Node { at, size, shape: Shape::Repeat { stride: inner, body: Arc::clone(body) } }
            }
            shape => {
                let body = Arc::new(Node { at: 0, size: self.size, shape });
                Node { at, size, shape: Shape::Repeat { stride, body } }
            }
        }
    }

    /// The nodes one after another in packed order; adjacent runs become one, equidistant runs of one length a loop.
    pub(crate) fn list(parts: impl IntoIterator<Item = Node>) -> Node {
        let mut nodes: Vec<Node> = Vec::new();
        for part in parts.into_iter().filter(|part| part.size > 0) {
            match nodes.last_mut() {
                Some(last) if last.is_run() && part.is_run() && last.end() == part.at => {
                    last.size += part.size
                }
                _ => nodes.push(part),
            }
        }
        match nodes.len() {
            0 => Node::EMPTY,
            1 => nodes.remove(0),
            _ => Node::equidistant(&nodes).unwrap_or_else(|| {
                let mut total = 0;
                let starts = nodes
                    .iter()
                    .map(|node| {
                        total += node.size;
                        total - node.size
                    })
                    .collect();
                Node { at: 0, size: total, shape: Shape::List { starts, nodes: nodes.into() } }
            }),
        }
    }

    fn equidistant(nodes: &[Node]) -> Option<Node> {
        let (first, second) = (&nodes[0], &nodes[1]);
        let stride = second.at.checked_sub(first.at)?;
        let regular = nodes.iter().all(|node| node.is_run() && node.size == first.size)
            && nodes.windows(2).all(|pair| pair[1].at.checked_sub(pair[0].at) == Some(stride));
        regular.then(|| first.clone().repeated(nodes.len(), stride))
    }

    fn is_run(&self) -> bool {
        matches!(self.shape, Shape::Run)
    }

    fn end(&self) -> i64 {
        self.at.wrapping_add(self.size as i64)
    }

    /// Calls `run(displacement, length)` for the packed bytes `skip..skip + len`; `len` is positive and in range.
    fn walk(&self, origin: i64, skip: usize, len: usize, run: &mut impl FnMut(i64, usize)) {
        let at = origin.wrapping_add(self.at);
        match &self.shape {
            Shape::Run => run(at.wrapping_add(skip as i64), len),
            Shape::Repeat { stride, body } => body.walk_many(at, *stride, skip, len, run),
            Shape::List { starts, nodes } => {
                let mut index = starts.partition_point(|&start| start <= skip) - 1;
                let mut skip = skip - starts[index];
                let mut left = len;
                while left > 0 {
                    let node = &nodes[index];
                    let now = (node.size - skip).min(left);
                    node.walk(at, skip, now, run);
                    left -= now;
                    skip = 0;
                    index += 1;
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

impl Layout {
    /// A layout of one block of `size` bytes at displacement 0, with elements back to back.
    pub fn contiguous(size: usize) -> Layout {
        Layout { node: Node::run(0, size), size, extent: size as i64 }
    }

    /// A layout of explicit blocks (displacement from the origin, length) in type-map order.
    pub fn from_blocks(blocks: &[(i64, usize)], extent: i64) -> Layout {
        Layout::new(Node::list(blocks.iter().map(|&(at, length)| Node::run(at, length))), extent)
    }

    pub(crate) fn new(node: Node, extent: i64) -> Layout {
        Layout { size: node.size, node, extent }
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
        assert!(matches!(loops.shape, Shape::Repeat { stride: 8, ref body } if body.is_run()));
        let regular = Node::list((0..5).map(|i| Node::run(i * 100, 4)));
        assert!(matches!(regular.shape, Shape::Repeat { stride: 100, .. }));
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
