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

#[derive(Clone, Copy)]
struct Kind {
    commutative: bool,
    operation: Operation,
}

const KINDS: [Kind; 2] =
    [Kind { commutative: false, operation: join }, Kind { commutative: true, operation: count }];

impl Kind {
    fn vector(self, count: u64) -> Vector {
        Vector { count, element: ELEMENT, commutative: self.commutative }
    }

    fn input(self, rank: u32, count: u64) -> Vec<u8> {
        (0..count as u32)
            .flat_map(|i| match self.commutative {
                true => operand(i, rank * 7 + 1, 1),
                false => operand(i, rank, rank + 1),
            })
            .collect()
    }

    /// The combination of ranks `low..high` at elements `first..last`.
    fn expected(self, (low, high): (u32, u32), (first, last): (u64, u64)) -> Vec<u8> {
        (first as u32..last as u32)
            .flat_map(|i| match self.commutative {
                true => operand(i, (low..high).map(|rank| rank * 7 + 1).sum(), high - low),
                false => operand(i, low, high),
            })
            .collect()
    }
}

/// Arguments of a reduction: input in the send argument, or in the receive argument in place.
fn reduction_memory(kind: Kind, rank: u32, count: u64, in_place: bool, room: u64) -> Memory {
    let input = kind.input(rank, count);
    if in_place {
        return Memory::default().with(Buffer::Recv, input);
    }
    let recv = vec![UNTOUCHED; (room * ELEMENT) as usize];
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
        for kind in KINDS {
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
        for kind in KINDS {
            for count in [0, 1, 2 + random.below(9), u64::from(size) + random.below(40), 700] {
                if count > 100 && size > 20 {
                    continue;
                }
                allreduce_case(size, kind, count, &mut random).check(&mut random);
            }
        }
    }
}

#[test]
fn reduce_scatter_gives_every_rank_its_part() {
    let mut random = Random(12);
    for size in sizes().into_iter().filter(|&size| size < 200) {
        // Short blocks, and long ones that go in segments.
        for (kind, most) in KINDS.into_iter().flat_map(|kind| [(kind, 4), (kind, 24)]) {
            let counts: Vec<u64> = (0..size).map(|_| random.below(most)).collect();
            let count = counts.iter().sum();
            // In place need not be chosen by all (section 6.10.2).
            let in_place: Vec<bool> = (0..size).map(|_| random.below(2) == 1).collect();
            let first = |rank: u32| counts[..rank as usize].iter().sum::<u64>();
            let memory = |rank: u32| {
                reduction_memory(kind, rank, count, in_place[rank as usize], counts[rank as usize])
            };
            let expected = |rank: u32| {
                let mine = counts[rank as usize];
                let part = kind.expected((0, size), (first(rank), first(rank) + mine));
                let mut recv = memory(rank).0[&Buffer::Recv].clone();
                recv[..part.len()].copy_from_slice(&part);
                Memory::default().with(Buffer::Recv, recv)
            };
            let call = |&in_place: &bool| Call::ReduceScatter {
                counts: &counts,
                vector: kind.vector(count),
                in_place,
            };
            Case {
                size,
                calls: in_place.iter().map(call).collect(),
                memories: (0..size).map(memory).collect(),
                expected: (0..size).map(expected).collect(),
                operation: kind.operation,
            }
            .check(&mut random);
        }
    }
}

#[test]
fn scan_and_exscan_combine_the_ranks_before() {
    let mut random = Random(13);
    for size in sizes() {
        for kind in KINDS {
            for count in counts(&mut random) {
                let vector = kind.vector(count);
                let in_place: Vec<bool> = (0..size).map(|_| random.below(2) == 1).collect();
                let memory = |rank: u32| reduction_memory(kind, rank, count, in_place[rank as usize], count);
                let inclusive =
                    |rank| Memory::default().with(Buffer::Recv, kind.expected((0, rank + 1), (0, count)));
                let exclusive = |rank| match rank {
                    0 => Memory::default().with(Buffer::Recv, memory(0).0[&Buffer::Recv].clone()),
                    _ => Memory::default().with(Buffer::Recv, kind.expected((0, rank), (0, count))),
                };
                Case {
                    size,
                    calls: in_place.iter().map(|&in_place| Call::Scan { vector, in_place }).collect(),
                    memories: (0..size).map(memory).collect(),
                    expected: (0..size).map(inclusive).collect(),
                    operation: kind.operation,
                }
                .check(&mut random);
                Case {
                    size,
                    calls: in_place.iter().map(|&in_place| Call::Exscan { vector, in_place }).collect(),
                    memories: (0..size).map(memory).collect(),
                    expected: (0..size).map(exclusive).collect(),
                    operation: kind.operation,
                }
                .check(&mut random);
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
        }
    }
}
