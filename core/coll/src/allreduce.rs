//! Reductions whose result all ranks get (section 6.9.6), bitwise the same everywhere.

use crate::bcast;
use crate::call::{Group, Vector};
use crate::fold::{Fold, Operand};
use crate::halving::{Half, Halved, halve};
use crate::reduce;
use crate::schedule::{Buffer, Builder, Range};
use crate::tree::Shape;

fn own_operand(vector: Vector, in_place: bool) -> Range {
    Range::new(if in_place { Buffer::Recv } else { Buffer::Send }, 0, vector.bytes())
}

/// Rank 0 reduces and broadcasts.
pub(crate) fn through_one(b: &mut Builder, group: Group, vector: Vector, in_place: bool, shape: Shape) {
    let result = Range::new(Buffer::Recv, 0, vector.bytes());
    let at_root = (group.rank == 0).then_some(result);
    reduce::add_tree(b, group, 0, vector, own_operand(vector, in_place), at_root, shape);
    bcast::add_tree(b, group, 0, result, shape, u64::MAX);
}

/// Pairs at doubling distance exchange and combine (section 4.3 of Thakur, Rabenseifner, Gropp 2005). Both members of a
/// pair compute lower op higher, so that all end with the same bits, also when the operation does not commute.
pub(crate) fn recursive_doubling(b: &mut Builder, group: Group, vector: Vector, in_place: bool) {
    let own = own_operand(vector, in_place);
    if own.bytes == 0 {
        return;
    }
    let fold = Fold::new(group.size);
    let result = Range::new(Buffer::Recv, 0, own.bytes);
    let Some(number) = fold.number(group.rank) else {
        b.send(group.rank + 1, own);
        b.recv(group.rank + 1, result);
        return;
    };
    let mut operand = Operand::new(b, own, result);
    let even = fold.stands_for(group.rank);
    if let Some(even) = even {
        operand.combine_lower(even, 0);
    }
    let mut distance = 1;
    while distance < fold.power {
        let partner = fold.rank(number ^ distance);
        operand.b.send(partner, operand.value);
        match number & distance {
            0 => operand.combine_higher(partner, 0),
            _ => operand.combine_lower(partner, 0),
        }
        distance *= 2;
    }
    let value = operand.value;
    b.copy(value, result);
    if let Some(even) = even {
        b.send(even, result);
    }
}

/// Halves the vector at doubling distance, combining; then gathers the parts on the way back (Rabenseifner 2004).
pub(crate) fn reduce_scatter_allgather(b: &mut Builder, group: Group, vector: Vector, in_place: bool) {
    const FOLD: u32 = 2;
    let own = own_operand(vector, in_place);
    if own.bytes == 0 {
        return;
    }
    let fold = Fold::new(group.size);
    let result = Range::new(Buffer::Recv, 0, own.bytes);
    let Some(number) = fold.number(group.rank) else {
        b.send_on(FOLD, group.rank + 1, own);
        b.recv_on(FOLD, group.rank + 1, result);
        return;
    };
    let mut operand = Operand::new(b, own, result);
    let even = fold.stands_for(group.rank);
    if let Some(even) = even {
        operand.combine_lower(even, FOLD);
    }
    let Halved { parts, mut first, trail } = halve(&mut operand, fold, number, vector);
    let part = |at: u32, count: u32| {
        let (offset, bytes) = parts.span(at, at + count);
        Range { start: offset, bytes, ..result }
    };
    for Half { partner, given, count, .. } in trail.into_iter().rev() {
        if part(given, count).bytes > 0 {
            b.recv_on(1, partner, part(given, count));
        }
        if part(first, count).bytes > 0 {
            b.send_on(1, partner, part(first, count));
        }
        first = first.min(given);
    }
    if let Some(even) = even {
        b.send_on(FOLD, even, result);
    }
}

/// As recursive doubling, in groups of `radix` (a power of two) ranks that all send their value to one another: fewer
/// rounds for more messages (Ruefenacht, Bull, Booth 2017). All combine in rank order, so that all get the same bits.
pub(crate) fn recursive_multiplying(
    b: &mut Builder,
    group: Group,
    vector: Vector,
    in_place: bool,
    radix: u32,
) {
    debug_assert!(radix.is_power_of_two());
    let own = own_operand(vector, in_place);
    if own.bytes == 0 {
        return;
    }
    let fold = Fold::new(group.size);
    let result = Range::new(Buffer::Recv, 0, own.bytes);
    let Some(number) = fold.number(group.rank) else {
        b.send(group.rank + 1, own);
        b.recv(group.rank + 1, result);
        return;
    };
    let mut value = own;
    let even = fold.stands_for(group.rank);
    if let Some(even) = even {
        let combined = b.operand_scratch(own.bytes);
        b.copy(own, combined);
        let lower = b.operand_scratch(own.bytes);
        b.recv(even, lower);
        b.reduce(lower, combined);
        value = combined;
    }
    let mut distance = 1;
    while distance < fold.power {
        let members = radix.min(fold.power / distance);
        let mine = number / distance % members;
        let member = |digit: u32| fold.rank(number - mine * distance + digit * distance);
        let mut values = vec![value; members as usize];
        for digit in (0..members).filter(|&digit| digit != mine) {
            values[digit as usize] = b.operand_scratch(own.bytes);
            b.recv(member(digit), values[digit as usize]);
        }
        // Each begins with another member.
        for turn in 1..members {
            b.send(member((mine + turn) % members), value);
        }
        if mine > 0 {
            let combined = b.operand_scratch(own.bytes);
            b.copy(value, combined);
            values[mine as usize] = combined;
        }
        for digit in 1..members as usize {
            b.reduce(values[digit - 1], values[digit]);
        }
        value = values[members as usize - 1];
        distance *= members;
    }
    b.copy(value, result);
    if let Some(even) = even {
        b.send(even, result);
    }
}
