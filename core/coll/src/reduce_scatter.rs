//! Reductions whose result is scattered (section 6.10).

use crate::call::{Group, Vector};
use crate::reduce;
use crate::schedule::{Buffer, Builder, Range};
use crate::tree::Shape;

fn offsets(counts: &[u64], element: u64) -> Vec<u64> {
    let mut total = 0;
    let mut offsets = vec![0];
    offsets.extend(counts.iter().map(|count| {
        total += count * element;
        total
    }));
    offsets
}

/// Everybody sends every rank its part and combines what comes, in rank order: right for any operation.
pub(crate) fn pairwise(b: &mut Builder, group: Group, counts: &[u64], vector: Vector, in_place: bool) {
    let Group { rank, size } = group;
    let offsets = offsets(counts, vector.element);
    let input = if in_place { Buffer::Recv } else { Buffer::Send };
    let part = |peer: u32| {
        let (start, end) = (offsets[peer as usize], offsets[peer as usize + 1]);
        Range::new(input, start, end - start)
    };
    let mine = part(rank).bytes;
    // All receives first, then the sends, each rank beginning with another peer.
    let mut received = vec![part(rank); size as usize];
    if mine > 0 {
        for distance in 1..size {
            let from = (rank + size - distance) % size;
            received[from as usize] = b.operand_scratch(mine);
            b.recv(from, received[from as usize]);
        }
    }
    for distance in 1..size {
        let to = (rank + distance) % size;
        if part(to).bytes > 0 {
            b.send(to, part(to));
        }
    }
    if mine == 0 {
        return;
    }
    let result = Range::new(Buffer::Recv, 0, mine);
    let mut combined = received[0];
    for peer in 1..size {
        let mut next = received[peer as usize];
        if peer == rank {
            // The own operand is the user's: combine into a copy.
            next = b.operand_scratch(mine);
            b.copy(part(rank), next);
        }
        b.reduce(combined, next);
        combined = next;
    }
    b.copy(combined, result);
}

/// Rank 0 reduces the whole vector and scatters it.
pub(crate) fn through_one(
    b: &mut Builder,
    group: Group,
    counts: &[u64],
    vector: Vector,
    in_place: bool,
    shape: Shape,
) {
    let offsets = offsets(counts, vector.element);
    let own = Range::new(if in_place { Buffer::Recv } else { Buffer::Send }, 0, vector.bytes());
    let whole = (group.rank == 0 && own.bytes > 0).then(|| b.operand_scratch(own.bytes));
    reduce::add_tree(b, group, 0, vector, own, whole, shape);
    let mine = Range::new(Buffer::Recv, 0, counts[group.rank as usize] * vector.element);
    match whole {
        Some(whole) => {
            for peer in 1..group.size {
                let (start, end) = (offsets[peer as usize], offsets[peer as usize + 1]);
                if end > start {
                    b.send(peer, whole.part(start, end - start));
                }
            }
            b.copy(whole.part(0, mine.bytes), mine);
        }
        None if mine.bytes > 0 => {
            b.recv(0, mine);
        }
        None => {}
    }
}
