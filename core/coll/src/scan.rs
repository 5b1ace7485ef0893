//! Prefix reductions (section 6.11), for any associative operation.

use crate::call::{Group, Vector};
use crate::schedule::{Buffer, Builder, Range};

/// In round `k` every rank gets the running value of the one 2^k before it, which covers just the ranks before its own
/// (Hillis, Steele 1986).
pub(crate) fn recursive_doubling(
    b: &mut Builder,
    group: Group,
    vector: Vector,
    in_place: bool,
    exclusive: bool,
) {
    let Group { rank, size } = group;
    let bytes = vector.bytes();
    if bytes == 0 {
        return;
    }
    let input = Range::new(if in_place { Buffer::Recv } else { Buffer::Send }, 0, bytes);
    let result = Range::new(Buffer::Recv, 0, bytes);
    // The inclusive value of the ranks covered so far; an exclusive scan keeps it apart from the result.
    let inclusive = if exclusive { b.operand_scratch(bytes) } else { result };
    b.copy(input, inclusive);
    let mut first = true;
    let mut distance = 1;
    while distance < size {
        if rank + distance < size {
            b.send(rank + distance, inclusive);
        }
        if let Some(from) = rank.checked_sub(distance) {
            let received = b.operand_scratch(bytes);
            b.recv(from, received);
            match (exclusive, first) {
                (false, _) => {}
                (true, true) => b.copy(received, result),
                (true, false) => b.reduce(received, result),
            }
            b.reduce(received, inclusive);
            first = false;
        }
        distance *= 2;
    }
}

/// From each rank to the next: the least work, `size` messages deep.
pub(crate) fn chain(b: &mut Builder, group: Group, vector: Vector, in_place: bool, exclusive: bool) {
    let Group { rank, size } = group;
    let bytes = vector.bytes();
    if bytes == 0 {
        return;
    }
    let input = Range::new(if in_place { Buffer::Recv } else { Buffer::Send }, 0, bytes);
    let result = Range::new(Buffer::Recv, 0, bytes);
    let passes_on = rank + 1 < size;
    if !exclusive {
        b.copy(input, result);
        if rank > 0 {
            let received = b.operand_scratch(bytes);
            b.recv(rank - 1, received);
            b.reduce(received, result);
        }
        if passes_on {
            b.send(rank + 1, result);
        }
        return;
    }
    if rank == 0 {
        if passes_on {
            b.send(1, input);
        }
        return;
    }
    if !passes_on {
        b.recv(rank - 1, result);
        return;
    }
    let inclusive = b.operand_scratch(bytes);
    b.copy(input, inclusive);
    b.recv(rank - 1, result);
    b.reduce(result, inclusive);
    b.send(rank + 1, inclusive);
}
