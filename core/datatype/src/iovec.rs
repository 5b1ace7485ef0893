//! The runs of memory behind packed bytes, as lists: what scatter-gather devices and the kernel's copies between processes
//! take. A list can begin at any packed byte and ends after so many bytes or entries, wherever that is.

use crate::layout::{Layout, Node, Shape, index_at, length_of};

/// Displacement from the first element's origin, and length in bytes.
pub type Run = (i64, usize);

impl Layout {
    /// Appends to `out` the runs that hold the packed bytes from `skip` on of consecutive elements, in packed order: `len` bytes,
    /// or as many as fit `most` entries of the list. Runs that touch are one. Answers the bytes listed.
    pub fn list_runs(&self, skip: usize, len: usize, most: usize, out: &mut Vec<Run>) -> usize {
        let mut list = List { out, most, bytes: 0 };
        if len > 0 && self.size > 0 {
            list.copies(&self.node, 0, self.extent, skip, len);
        }
        list.bytes
    }
}

struct List<'a> {
    out: &'a mut Vec<Run>,
    most: usize,
    bytes: usize,
}

impl List<'_> {
    /// False when the list is full; then nothing was added.
    fn add(&mut self, at: i64, len: usize) -> bool {
        let room = self.out.len() < self.most;
        match self.out.last_mut() {
            Some(last) if last.0.wrapping_add(last.1 as i64) == at => last.1 += len,
            _ if room => self.out.push((at, len)),
            _ => return false,
        }
        self.bytes += len;
        true
    }

    /// The packed bytes `skip..skip + len` of a node, which are there. False when the list was full before the end.
    fn node(&mut self, node: &Node, origin: i64, skip: usize, len: usize) -> bool {
        let at = origin.wrapping_add(node.at);
        match &node.shape {
            Shape::Run => self.add(at.wrapping_add(skip as i64), len),
            Shape::Repeat { stride, body, .. } => self.copies(body, at, *stride, skip, len),
            Shape::Blocks { length, places } => {
                let first = (skip / length, skip % length);
                entries(
                    first,
                    len,
                    |_| *length,
                    |index, skip, now| {
                        self.add(at.wrapping_add(places[index]).wrapping_add(skip as i64), now)
                    },
                )
            }
            Shape::Ragged { starts, places } => {
                let index = index_at(starts, skip);
                let length = |index| length_of(starts, node.size, index);
                entries((index, skip - starts[index]), len, length, |index, skip, now| {
                    self.add(at.wrapping_add(places[index]).wrapping_add(skip as i64), now)
                })
            }
            Shape::List { starts, nodes } => {
                let index = index_at(starts, skip);
                entries(
                    (index, skip - starts[index]),
                    len,
                    |index| nodes[index].size,
                    |index, skip, now| self.node(&nodes[index], at, skip, now),
                )
            }
        }
    }

    /// As [`List::node`], over as many copies as it takes, `stride` bytes apart.
    fn copies(&mut self, body: &Node, origin: i64, stride: i64, skip: usize, len: usize) -> bool {
        let mut at = origin.wrapping_add(stride.wrapping_mul((skip / body.size) as i64));
        let (mut skip, mut left) = (skip % body.size, len);
        while left > 0 {
            let now = (body.size - skip).min(left);
            if !self.node(body, at, skip, now) {
                return false;
            }
            (at, skip, left) = (at.wrapping_add(stride), 0, left - now);
        }
        true
    }
}

/// Visits `len` bytes of entries, from byte `skip` of entry `index` on, until `visit` says false.
fn entries(
    (mut index, mut skip): (usize, usize),
    mut len: usize,
    length: impl Fn(usize) -> usize,
    mut visit: impl FnMut(usize, usize, usize) -> bool,
) -> bool {
    while len > 0 {
        let now = (length(index) - skip).min(len);
        if !visit(index, skip, now) {
            return false;
        }
        (index, skip, len) = (index + 1, 0, len - now);
    }
    true
}
