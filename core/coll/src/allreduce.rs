//! Reductions whose result all ranks get (section 6.9.6), bitwise the same everywhere.

use crate::bcast;
use crate::call::{Group, Vector};
use crate::partition::Partition;
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

/// The ranks that take part in the power-of-two phases. Of the first `2 * surplus` ranks each odd one also stands for
/// the even one before it; the numbers of those that take part ascend with their ranks.
#[derive(Clone, Copy, Debug)]
struct Fold {
    size: u32,
    power: u32,
    surplus: u32,
}

impl Fold {
    fn new(size: u32) -> Fold {
        let power = 1 << size.ilog2();
        Fold { size, power, surplus: size - power }
    }

    /// This rank's number; `None` when its neighbour stands for it.
    fn number(self, rank: u32) -> Option<u32> {
        debug_assert!(rank < self.size);
        match rank < 2 * self.surplus {
            true => (rank % 2 == 1).then_some(rank / 2),
            false => Some(rank - self.surplus),
        }
    }

    fn rank(self, number: u32) -> u32 {
        if number < self.surplus { 2 * number + 1 } else { number + self.surplus }
    }

    /// The even rank that `rank` stands for.
    fn stands_for(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.surplus && rank % 2 == 1).then(|| rank - 1)
    }
}

/// The running value of one rank and the memory it may move between.
struct Operand<'a> {
    b: &'a mut Builder,
    value: Range,
    result: Range,
    scratch: Vec<Range>,
}

impl Operand<'_> {
    /// A writable range like `value` elsewhere than where it lies.
    fn free(&mut self) -> Range {
        let like = self.value;
        let at = |range: Range| Range { start: like.start, bytes: like.bytes, ..range };
        if self.value.buffer != self.result.buffer {
            return at(self.result);
        }
        if self.scratch.is_empty() {
            let whole = self.b.operand_scratch(self.result.bytes);
            self.scratch.push(whole);
        }
        at(self.scratch[0])
    }

    /// `value = received op value`: what comes from lower ranks.
    fn combine_lower(&mut self, from: u32, channel: u32) {
        if self.value.buffer == Buffer::Send {
            let into = self.free();
            self.b.copy(self.value, into);
            self.value = into;
        }
        let received = self.free();
        self.b.recv_on(channel, from, received);
        self.b.reduce(received, self.value);
    }

    /// `value = value op received`: what comes from higher ranks.
    fn combine_higher(&mut self, from: u32, channel: u32) {
        let received = self.free();
        self.b.recv_on(channel, from, received);
        self.b.reduce(self.value, received);
        self.value = received;
    }
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
    let mut operand = Operand { b, value: own, result, scratch: Vec::new() };
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

/// Halves the vector at doubling distance, combining; then gathers the parts on the way back (Rabenseifner 2004). The
/// distance doubles, so that what is combined are always neighbouring ranges of ranks, in order.
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
    let mut operand = Operand { b, value: own, result, scratch: Vec::new() };
    let even = fold.stands_for(group.rank);
    if let Some(even) = even {
        operand.combine_lower(even, FOLD);
    }
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
        let window = |at: u32| parts.span(at, at + count);
        let (offset, bytes) = window(given);
        if bytes > 0 {
            let value = operand.value;
            operand.b.send(partner, Range { start: offset, bytes, ..value });
        }
        let (offset, bytes) = window(kept);
        operand.value = Range { start: offset, bytes, ..operand.value };
        // Each part is combined at one rank only, so that an operation that commutes may do it without a copy.
        match (bytes, lower || vector.commutative) {
            (0, _) => {}
            (_, true) => operand.combine_higher(partner, 0),
            (_, false) => operand.combine_lower(partner, 0),
        }
        first = kept;
        trail.push((partner, given, count));
        distance *= 2;
    }
    let value = operand.value;
    b.copy(value, Range { start: value.start, bytes: value.bytes, ..result });
    let part = |at: u32, count: u32| {
        let (offset, bytes) = parts.span(at, at + count);
        Range { start: offset, bytes, ..result }
    };
    for (partner, given, count) in trail.into_iter().rev() {
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
