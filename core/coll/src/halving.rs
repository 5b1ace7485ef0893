//! Reductions by halving the vector: in every round a pair of ranks gives one another the half that the other is to have and
//! combines what it keeps (Rabenseifner, *Optimization of collective reduction operations*, 2004; Thakur, Rabenseifner,
//! Gropp 2005). Sizes that are no power of two are folded.
//!
//! Where the distance of the pairs doubles from round to round, what is combined are always neighbouring ranges of ranks, in
//! order: that is right for any operation. Where it halves, the parts lie in the order of the ranks that get them.

use crate::call::{Group, Vector};
use crate::fold::{Fold, Operand};
use crate::partition::Partition;
use crate::schedule::{Buffer, Builder, Range};

/// A round of halving.
pub(crate) struct Half {
    /// The rank at the other end.
    pub(crate) partner: u32,
    /// The bit in which the numbers of both differ.
    pub(crate) distance: u32,
    /// First of the parts that the partner keeps.
    pub(crate) given: u32,
    /// Parts that each keeps.
    pub(crate) count: u32,
}

/// What halving leaves: part `first` of `parts` is combined, and in its place in the result.
pub(crate) struct Halved {
    pub(crate) parts: Partition,
    pub(crate) first: u32,
    /// The rounds, by which the parts come together again if they are gone backwards.
    pub(crate) trail: Vec<Half>,
}

/// Halves the value at doubling distance among those that take part, down to one part for each.
pub(crate) fn halve(operand: &mut Operand<'_>, fold: Fold, number: u32, vector: Vector) -> Halved {
    let parts = Partition { count: vector.count, element: vector.element, parts: u64::from(fold.power) };
    // The window of parts this rank is responsible for.
    let (mut first, mut count) = (0, fold.power);
    let mut trail = Vec::new();
    let mut distance = 1;
    while distance < fold.power {
        let partner = fold.rank(number ^ distance);
        count /= 2;
        let lower = number & distance == 0;
        let (kept, given) = if lower { (first, first + count) } else { (first + count, first) };
        exchange(
            operand,
            partner,
            parts.span(given, given + count),
            parts.span(kept, kept + count),
            lower || vector.commutative,
        );
        first = kept;
        trail.push(Half { partner, distance, given, count });
        distance *= 2;
    }
    let (value, result) = (operand.value, operand.result());
    operand.b.copy(value, Range { start: value.start, bytes: value.bytes, ..result });
    Halved { parts, first, trail }
}

/// Gives one window (offset, bytes) of the value to `partner` and combines the other with what it gives; `as_higher` where that
/// comes from higher ranks, or may be taken so: each part is combined at one rank only.
fn exchange(operand: &mut Operand<'_>, partner: u32, given: (u64, u64), kept: (u64, u64), as_higher: bool) {
    let value = operand.value;
    if given.1 > 0 {
        operand.b.send(partner, Range { start: given.0, bytes: given.1, ..value });
    }
    operand.value = Range { start: kept.0, bytes: kept.1, ..value };
    match (kept.1, as_higher) {
        (0, _) => {}
        (_, true) => operand.combine_higher(partner, 0),
        (_, false) => operand.combine_lower(partner, 0),
    }
}

/// Combines what the rank has that is stood for.
fn combine_folded(operand: &mut Operand<'_>, rank: u32, other: u32, commutative: bool) {
    match other > rank || commutative {
        true => operand.combine_higher(other, 0),
        false => operand.combine_lower(other, 0),
    }
}

/// Reduce to one rank: halved, then gathered up a binomial tree, the rounds backwards (Rabenseifner 2004). The root takes part
/// itself, so that it need not be sent the result.
pub(crate) fn reduce(b: &mut Builder, group: Group, root: u32, vector: Vector, in_place: bool) {
    let bytes = vector.bytes();
    if bytes == 0 {
        return;
    }
    let is_root = group.rank == root;
    let own = Range::new(if is_root && in_place { Buffer::Recv } else { Buffer::Send }, 0, bytes);
    let fold = Fold::keeping(group.size, root);
    let Some(number) = fold.number(group.rank) else {
        b.send(group.rank ^ 1, own);
        return;
    };
    let result = if is_root { Range::new(Buffer::Recv, 0, bytes) } else { b.operand_scratch(bytes) };
    let mut operand = Operand::new(b, own, result);
    if let Some(other) = fold.stands_for(group.rank) {
        combine_folded(&mut operand, group.rank, other, vector.commutative);
    }
    let Halved { parts, mut first, trail } = halve(&mut operand, fold, number, vector);
    let target = fold.number(root).expect("the root takes part");
    for Half { partner, distance, given, count } in trail.into_iter().rev() {
        let part = |at: u32| {
            let (offset, bytes) = parts.span(at, at + count);
            Range { start: offset, bytes, ..result }
        };
        if (number ^ target) & distance != 0 {
            if part(first).bytes > 0 {
                b.send_on(1, partner, part(first));
            }
            return;
        }
        if part(given).bytes > 0 {
            b.recv_on(1, partner, part(given));
        }
        first = first.min(given);
    }
}

/// Reduce-scatter: halved at halving distance if the operation commutes. Otherwise at doubling distance, for which the parts
/// are put in the order in which they are halved then, that of the reversed bits of the ranks' numbers.
pub(crate) fn reduce_scatter(b: &mut Builder, group: Group, counts: &[u64], vector: Vector, in_place: bool) {
    let input = Range::new(if in_place { Buffer::Recv } else { Buffer::Send }, 0, vector.bytes());
    if input.bytes == 0 {
        return;
    }
    let Group { rank, size } = group;
    let bytes = |rank: u32| counts[rank as usize] * vector.element;
    let mine = Range::new(Buffer::Recv, 0, bytes(rank));
    let fold = Fold::new(size);
    let Some(number) = fold.number(rank) else {
        b.send(rank + 1, input);
        if mine.bytes > 0 {
            b.recv(rank + 1, mine);
        }
        return;
    };
    // The receive argument holds this rank's part only, and in place nothing behind it is written.
    let room = b.operand_scratch(input.bytes);
    let mut operand = Operand::new(b, input, room);
    let even = fold.stands_for(rank);
    if let Some(even) = even {
        combine_folded(&mut operand, rank, even, vector.commutative);
    }
    let bits = fold.power.ilog2();
    let number_at = |place: u32| match (vector.commutative, bits) {
        (true, _) | (_, 0) => place,
        (false, bits) => place.reverse_bits() >> (u32::BITS - bits),
    };
    // Where the parts of the numbers begin, in their order.
    let mut begins = vec![0];
    for place in 0..fold.power {
        let number = number_at(place);
        let part: u64 = (fold.first(number)..fold.first(number + 1)).map(bytes).sum();
        begins.push(begins[place as usize] + part);
    }
    if !vector.commutative {
        reorder(&mut operand, fold, &begins, counts, vector.element, number_at);
    }
    let span = |first: u32, count: u32| {
        let begin = begins[first as usize];
        (begin, begins[(first + count) as usize] - begin)
    };
    let (mut first, mut count) = (0, fold.power);
    for round in 0..bits {
        let distance = if vector.commutative { fold.power >> (round + 1) } else { 1 << round };
        let partner = fold.rank(number ^ distance);
        count /= 2;
        let lower = number & distance == 0;
        let (kept, given) = if lower { (first, first + count) } else { (first + count, first) };
        exchange(&mut operand, partner, span(given, count), span(kept, count), lower || vector.commutative);
        first = kept;
    }
    let value = operand.value;
    let kept = value.bytes - mine.bytes;
    if let Some(even) = even
        && kept > 0
    {
        b.send(even, value.part(0, kept));
    }
    b.copy(value.part(kept, mine.bytes), mine);
}

/// Puts the parts of the value in the order of `number_at`, in which they begin at `begins`.
fn reorder(
    operand: &mut Operand<'_>,
    fold: Fold,
    begins: &[u64],
    counts: &[u64],
    element: u64,
    number_at: impl Fn(u32) -> u32,
) {
    let mut offsets = vec![0];
    for number in 0..fold.power {
        let ranks = fold.first(number) as usize..fold.first(number + 1) as usize;
        let part: u64 = counts[ranks].iter().sum::<u64>() * element;
        offsets.push(offsets[number as usize] + part);
    }
    let (value, into) = (operand.value, operand.free());
    for place in 0..fold.power {
        let bytes = begins[place as usize + 1] - begins[place as usize];
        let from = value.part(offsets[number_at(place) as usize], bytes);
        operand.b.copy(from, into.part(begins[place as usize], bytes));
    }
    operand.value = into;
}
