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

/// From each rank to the next: the least work, `size` messages deep; in segments of `segment` bytes, which follow one another.
pub(crate) fn chain(
    b: &mut Builder,
    group: Group,
    vector: Vector,
    in_place: bool,
    exclusive: bool,
    segment: u64,
) {
    let Group { rank, size } = group;
    let bytes = vector.bytes();
    if bytes == 0 {
        return;
    }
    let input = Range::new(if in_place { Buffer::Recv } else { Buffer::Send }, 0, bytes);
    let result = Range::new(Buffer::Recv, 0, bytes);
    let before = rank.checked_sub(1);
    let passes_on = rank + 1 < size;
    // What may change places is combined where it comes.
    let straight = !exclusive && !in_place && vector.commutative;
    // What comes where it is not the result; where it is, what is passed on.
    let other = match exclusive {
        false => before.is_some() && !straight,
        true => before.is_some() && passes_on,
    }
    .then(|| b.operand_scratch(bytes));
    for (index, offset, bytes) in crate::chain::segments(vector, segment).iter() {
        let part = |whole: Range| whole.part(offset, bytes);
        let (input, result) = (part(input), part(result));
        let mut passed = input;
        match (before, other.map(part)) {
            (Some(before), Some(received)) if !exclusive => {
                b.copy(input, result);
                b.recv_on(index, before, received);
                b.reduce(received, result);
                passed = result;
            }
            (Some(before), Some(inclusive)) => {
                b.copy(input, inclusive);
                b.recv_on(index, before, result);
                b.reduce(result, inclusive);
                passed = inclusive;
            }
            (Some(before), None) => {
                b.recv_on(index, before, result);
                if straight {
                    b.reduce(input, result);
                    passed = result;
                }
            }
            (None, _) if !exclusive => b.copy(input, result),
            (None, _) => {}
        }
        if passes_on {
            b.send_on(index, rank + 1, passed);
        }
    }
}
