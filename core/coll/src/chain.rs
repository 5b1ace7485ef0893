//! Reduction to one rank along a chain, in segments: while a rank combines one, the next is under way to it, so that long
//! vectors take about the time of one message however many ranks there are (Pjesivac-Grbovic et al., *Performance analysis of
//! MPI collective operations*, 2007).

use crate::call::{Group, Vector};
use crate::model::Estimate;
use crate::partition::Segments;
use crate::schedule::{Buffer, Builder, CHANNELS, Range};
use crate::tree::Rotation;

/// Segments of a vector that may be at a rank at a time.
const ROOMS: u32 = 4;

/// The segments of a vector that goes along a chain: `segment` bytes each, as many as there are channels at most.
pub(crate) fn segments(vector: Vector, segment: u64) -> Segments {
    Segments::new(vector.bytes(), vector.element, segment, CHANNELS)
}

/// From the last rank down to the root. An operation that does not commute is combined down to rank 0, which sends the result on
/// to the root, segment by segment.
pub(crate) fn reduce(b: &mut Builder, group: Group, root: u32, vector: Vector, in_place: bool, segment: u64) {
    let Group { rank, size } = group;
    let bytes = vector.bytes();
    if bytes == 0 {
        return;
    }
    let is_root = rank == root;
    let own = Range::new(if is_root && in_place { Buffer::Recv } else { Buffer::Send }, 0, bytes);
    let result = is_root.then_some(Range::new(Buffer::Recv, 0, bytes));
    let top = if vector.commutative { root } else { 0 };
    let rotation = Rotation { root: top, size };
    let me = rotation.relative(rank);
    let before = (me + 1 < size).then(|| rotation.absolute(me + 1));
    let after = match me {
        0 => (!is_root).then_some(root),
        _ => Some(rotation.absolute(me - 1)),
    };
    let segments = segments(vector, segment);
    let length = segments.length();
    // The root receives into the result unless that holds operands.
    let at_root = result.filter(|_| after.is_none() && !in_place);
    let rooms = match (before, at_root) {
        (Some(_), None) => (0..ROOMS.min(segments.count())).map(|_| b.operand_scratch(length)).collect(),
        _ => Vec::new(),
    };
    for (index, offset, bytes) in segments.iter() {
        let mine = own.part(offset, bytes);
        let mut combined = mine;
        if let Some(before) = before {
            combined = match at_root {
                Some(result) => result.part(offset, bytes),
                None => rooms[index as usize % rooms.len()].part(0, bytes),
            };
            b.recv_on(index, before, combined);
            b.reduce(mine, combined);
        }
        if let Some(after) = after {
            b.send_on(index, after, combined);
        }
        let Some(result) = result.map(|result| result.part(offset, bytes)) else { continue };
        match after {
            None => b.copy(combined, result),
            Some(_) => {
                b.recv_on(index, top, result);
            }
        }
    }
}

/// Adds the time of a vector along a chain in segments, combined at every rank.
pub(crate) fn estimate(estimate: &mut Estimate<'_>, vector: Vector, segment: u64) {
    let segments = f64::from(segments(vector, segment).count()).max(1.0);
    estimate.combining_chain(segments, vector.bytes() as f64 / segments);
}
