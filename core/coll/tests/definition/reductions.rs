//! Reductions, with an operation that commutes and one that only joins neighbouring ranges of ranks.

use crate::case::{Case, THOUSANDS, UNTOUCHED, counts, roots, sizes};
use crate::world::{Memory, Operation, Random};
use weft_coll::{Buffer, Call, Vector};

/// Bytes of one operand: an index and the range of ranks combined so far.
const ELEMENT: u64 = 12;

pub(crate) fn operand(index: u32, low: u32, high: u32) -> [u8; 12] {
    let mut out = [0; 12];
    for (bytes, value) in out.chunks_exact_mut(4).zip([index, low, high]) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
    out
}

fn parse(bytes: &[u8]) -> (u32, u32, u32) {
    let word = |i: usize| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap());
    (word(0), word(1), word(2))
}

/// Joins ranges of ranks; only neighbours may be joined, lower before higher. Associative, anything but commutative.
pub(crate) fn join(left: &[u8], into: &mut [u8]) {
    for (a, b) in left.chunks_exact(12).zip(into.chunks_exact_mut(12)) {
        let ((i, low, middle), (j, middle2, high)) = (parse(a), parse(b));
        assert!(i == j && middle == middle2, "combined {i}:{low}..{middle} with {j}:{middle2}..{high}");
        b.copy_from_slice(&operand(i, low, high));
    }
}

/// Commutative: counts contributions and adds up what they are.
fn count(left: &[u8], into: &mut [u8]) {
    for (a, b) in left.chunks_exact(12).zip(into.chunks_exact_mut(12)) {
        let ((i, x, n), (j, y, m)) = (parse(a), parse(b));
        assert_eq!(i, j);
        b.copy_from_slice(&operand(i, x + y, n + m));
    }
}

/// Commutative, one byte: the sum modulo 256.
fn add_bytes(left: &[u8], into: &mut [u8]) {
    left.iter().zip(into).for_each(|(a, b)| *b = b.wrapping_add(*a));
}

/// Commutative, eight bytes: the sum modulo 2^64.
fn add_words(left: &[u8], into: &mut [u8]) {
    for (a, b) in left.chunks_exact(8).zip(into.chunks_exact_mut(8)) {
        let read = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        b.copy_from_slice(&read(a).wrapping_add(read(b)).to_le_bytes());
    }
}

/// Not commutative, one byte: what two maps `x -> slope * x + offset` modulo 13 do one after the other.
fn compose_bytes(left: &[u8], into: &mut [u8]) {
    for (a, b) in left.iter().zip(into) {
        let [(slope, offset), (slope2, offset2)] = [*a, *b].map(|map| (map >> 4, map & 15));
        *b = ((slope * slope2 % 13) << 4) | ((slope2 * offset + offset2) % 13);
    }
}

/// Not commutative, eight bytes: the same modulo 2^32.
fn compose_words(left: &[u8], into: &mut [u8]) {
    for (a, b) in left.chunks_exact(8).zip(into.chunks_exact_mut(8)) {
        let read = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let slope = read(a, 0).wrapping_mul(read(b, 0));
        let offset = read(b, 0).wrapping_mul(read(a, 4)).wrapping_add(read(b, 4));
        b[..4].copy_from_slice(&slope.to_le_bytes());
        b[4..].copy_from_slice(&offset.to_le_bytes());
    }
}

/// An operation and the elements that ranks give it.
#[derive(Clone, Copy)]
struct Kind {
    commutative: bool,
    operation: Operation,
    /// Bytes of an element.
    element: u64,
    /// Element `index` of a rank.
    give: fn(u32, u32) -> Vec<u8>,
}

const KINDS: [Kind; 2] = [
    Kind {
        commutative: false,
        operation: join,
        element: ELEMENT,
        give: |index, rank| operand(index, rank, rank + 1).to_vec(),
    },
    Kind {
        commutative: true,
        operation: count,
        element: ELEMENT,
        give: |index, rank| operand(index, rank * 7 + 1, 1).to_vec(),
    },
];

const BYTE_SUM: Kind = Kind {
    commutative: true,
    operation: add_bytes,
    element: 1,
    give: |index, rank| vec![(index * 31 + rank * 7 + 1) as u8],
};

const BYTE_MAP: Kind = Kind {
    commutative: false,
    operation: compose_bytes,
    element: 1,
    give: |index, rank| vec![((1 + (index + rank) as u8 % 12) << 4) | ((index * 5 + rank * 3) as u8 % 13)],
};

/// Of other lengths of elements.
const OTHERS: [Kind; 4] = [
    BYTE_SUM,
    BYTE_MAP,
    Kind {
        commutative: true,
        operation: add_words,
        element: 8,
        give: |index, rank| ((u64::from(index) << 40) | u64::from(rank * 7 + 1)).to_le_bytes().to_vec(),
    },
    Kind {
        commutative: false,
        operation: compose_words,
        element: 8,
        give: |index, rank| {
            ((u64::from(index * 5 + rank) << 32) | u64::from(2 * rank + 3)).to_le_bytes().to_vec()
        },
    },
];

/// Those of twelve bytes and one of the others.
fn kinds(random: &mut Random) -> Vec<Kind> {
    KINDS.into_iter().chain([OTHERS[random.below(4) as usize]]).collect()
}

impl Kind {
    fn vector(self, count: u64) -> Vector {
        Vector { count, element: self.element, commutative: self.commutative }
    }

    fn input(self, rank: u32, count: u64) -> Vec<u8> {
        (0..count as u32).flat_map(|index| (self.give)(index, rank)).collect()
    }

    /// The combination of ranks `low..high` at elements `first..last`, in their order.
    fn expected(self, (low, high): (u32, u32), (first, last): (u64, u64)) -> Vec<u8> {
        let of = |rank: u32| -> Vec<u8> {
            (first as u32..last as u32).flat_map(|index| (self.give)(index, rank)).collect()
        };
        (low + 1..high).fold(of(low), |all, rank| {
            let mut next = of(rank);
            (self.operation)(&all, &mut next);
            next
        })
    }
}

/// Arguments of a reduction: input in the send argument, or in the receive argument in place.
fn reduction_memory(kind: Kind, rank: u32, count: u64, in_place: bool, room: u64) -> Memory {
    let input = kind.input(rank, count);
    if in_place {
        return Memory::default().with(Buffer::Recv, input);
    }
    let recv = vec![UNTOUCHED; (room * kind.element) as usize];
    Memory::default().with(Buffer::Send, input).with(Buffer::Recv, recv)
}

fn reduce_case(size: u32, kind: Kind, root: u32, count: u64, random: &mut Random) -> Case<'static> {
    let in_place = random.below(2) == 1;
    let vector = kind.vector(count);
    let memory = |rank| match rank == root {
        true => reduction_memory(kind, rank, count, in_place, count),
        false => Memory::default().with(Buffer::Send, kind.input(rank, count)),
    };
    let expected = |rank| match rank == root {
        true => Memory::default().with(Buffer::Recv, kind.expected((0, size), (0, count))),
        false => Memory::default().with(Buffer::Send, kind.input(rank, count)),
    };
    Case {
        size,
        calls: (0..size)
            .map(|rank| Call::Reduce { root, vector, in_place: in_place && rank == root })
            .collect(),
        memories: (0..size).map(memory).collect(),
        expected: (0..size).map(expected).collect(),
        operation: kind.operation,
    }
}

fn allreduce_case(size: u32, kind: Kind, count: u64, random: &mut Random) -> Case<'static> {
    let in_place = random.below(2) == 1;
    let result = Memory::default().with(Buffer::Recv, kind.expected((0, size), (0, count)));
    Case {
        size,
        calls: vec![Call::Allreduce { vector: kind.vector(count), in_place }; size as usize],
        memories: (0..size).map(|rank| reduction_memory(kind, rank, count, in_place, count)).collect(),
        expected: vec![result; size as usize],
        operation: kind.operation,
    }
}

#[test]
fn reduce_combines_in_rank_order_at_any_root() {
    let mut random = Random(10);
    for size in sizes() {
        for kind in kinds(&mut random) {
            for root in roots(size, &mut random) {
                for count in [0, 1, 2 + random.below(9), 6 + random.below(20), 700] {
                    if count > 100 && size > 20 {
                        continue;
                    }
                    reduce_case(size, kind, root, count, &mut random).check(&mut random);
                }
            }
        }
    }
}

#[test]
fn allreduce_gives_all_ranks_the_combination_in_rank_order() {
    let mut random = Random(11);
    for size in sizes() {
        for kind in kinds(&mut random) {
            for count in [0, 1, 2 + random.below(9), u64::from(size) + random.below(40), 700] {
                if count > 100 && size > 20 {
                    continue;
                }
                allreduce_case(size, kind, count, &mut random).check(&mut random);
            }
        }
    }
}

/// Checks a reduce_scatter to so many elements a rank with the algorithms that `check` takes.
fn reduce_scatter(size: u32, kind: Kind, most: u64, random: &mut Random, check: fn(&Case<'_>, &mut Random)) {
    let counts: Vec<u64> = (0..size).map(|_| random.below(most)).collect();
    let count = counts.iter().sum();
    // In place need not be chosen by all (section 6.10.2).
    let in_place: Vec<bool> = (0..size).map(|_| random.below(2) == 1).collect();
    let whole = kind.expected((0, size), (0, count));
    let memory =
        |rank: u32| reduction_memory(kind, rank, count, in_place[rank as usize], counts[rank as usize]);
    let expected = |rank: u32| {
        let first = counts[..rank as usize].iter().sum::<u64>() * kind.element;
        let part = &whole[first as usize..(first + counts[rank as usize] * kind.element) as usize];
        let mut recv = memory(rank).0.remove(&Buffer::Recv).unwrap();
        recv[..part.len()].copy_from_slice(part);
        Memory::default().with(Buffer::Recv, recv)
    };
    let call =
        |&in_place: &bool| Call::ReduceScatter { counts: &counts, vector: kind.vector(count), in_place };
    let case = Case {
        size,
        calls: in_place.iter().map(call).collect(),
        memories: (0..size).map(memory).collect(),
        expected: (0..size).map(expected).collect(),
        operation: kind.operation,
    };
    check(&case, random);
}

#[test]
fn reduce_scatter_gives_every_rank_its_part() {
    let mut random = Random(12);
    for size in sizes().into_iter().filter(|&size| size < 200) {
        // Short blocks, and long ones that go in segments.
        for (kind, most) in kinds(&mut random).into_iter().flat_map(|kind| [(kind, 4), (kind, 24)]) {
            reduce_scatter(size, kind, most, &mut random, |case, random| case.check(random));
        }
    }
}

/// A scan and an exscan of `count` elements.
fn scans(size: u32, kind: Kind, count: u64, random: &mut Random) -> [Case<'static>; 2] {
    let vector = kind.vector(count);
    let in_place: Vec<bool> = (0..size).map(|_| random.below(2) == 1).collect();
    let memory = |rank: u32| reduction_memory(kind, rank, count, in_place[rank as usize], count);
    let mut prefixes = vec![kind.input(0, count)];
    for rank in 1..size {
        let mut next = kind.input(rank, count);
        (kind.operation)(&prefixes[rank as usize - 1], &mut next);
        prefixes.push(next);
    }
    let inclusive = |rank: u32| Memory::default().with(Buffer::Recv, prefixes[rank as usize].clone());
    let exclusive = |rank: u32| match rank {
        0 => Memory::default().with(Buffer::Recv, memory(0).0[&Buffer::Recv].clone()),
        _ => inclusive(rank - 1),
    };
    let case = |exclude: bool| Case {
        size,
        calls: in_place
            .iter()
            .map(|&in_place| match exclude {
                true => Call::Exscan { vector, in_place },
                false => Call::Scan { vector, in_place },
            })
            .collect(),
        memories: (0..size).map(memory).collect(),
        expected: (0..size).map(|rank| if exclude { exclusive(rank) } else { inclusive(rank) }).collect(),
        operation: kind.operation,
    };
    [case(false), case(true)]
}

#[test]
fn scan_and_exscan_combine_the_ranks_before() {
    let mut random = Random(13);
    for size in sizes() {
        for kind in kinds(&mut random) {
            for count in counts(&mut random) {
                for case in scans(size, kind, count, &mut random) {
                    case.check(&mut random);
                }
            }
        }
    }
}

#[test]
fn reductions_of_thousands_of_ranks() {
    let mut random = Random(14);
    for size in THOUSANDS {
        for kind in KINDS {
            let count = 1 + random.below(3);
            allreduce_case(size, kind, count, &mut random).check_few_steps(&mut random);
            let root = random.below(u64::from(size)) as u32;
            reduce_case(size, kind, root, count, &mut random).check_few_steps(&mut random);
            for case in scans(size, kind, count, &mut random) {
                case.check_few_steps(&mut random);
            }
        }
    }
}

/// Bytes, since a rank has one for each of the others. Where their order matters a rank puts as many parts in another order, so
/// that there are fewer ranks.
#[test]
fn reduce_scatters_of_thousands_of_ranks() {
    let mut random = Random(15);
    for size in THOUSANDS {
        reduce_scatter(size, BYTE_SUM, 3, &mut random, |case, random| case.check_few_steps(random));
    }
    for size in [256, 700] {
        reduce_scatter(size, BYTE_MAP, 3, &mut random, |case, random| case.check_few_steps(random));
    }
}
