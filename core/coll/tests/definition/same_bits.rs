//! Results bit by bit: the same at all ranks with every algorithm, and in reproducible mode the same whatever the call, the
//! length, the model and the root. Operands are floating-point numbers of very different size, whose sums show the order of
//! combination, and an operation that hashes its operands, which shows it exactly.

use crate::case::layouts;
use crate::world::{Memory, Operation, Random, Sends, World};
use weft_coll::registry::candidates;
use weft_coll::reproducible::plan_reproducible;
use weft_coll::{Algorithm, Buffer, Call, Group, Model, Schedule, Vector};

fn add(left: &[u8], into: &mut [u8]) {
    for (a, b) in left.chunks_exact(8).zip(into.chunks_exact_mut(8)) {
        let read = |bytes: &[u8]| f64::from_ne_bytes(bytes.try_into().unwrap());
        let sum = read(a) + read(b);
        b.copy_from_slice(&sum.to_ne_bytes());
    }
}

fn mix(left: u64, right: u64) -> u64 {
    (left.rotate_left(17) ^ right.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn hash(left: &[u8], into: &mut [u8]) {
    for (a, b) in left.chunks_exact(8).zip(into.chunks_exact_mut(8)) {
        let read = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
        let mixed = mix(read(a), read(b));
        b.copy_from_slice(&mixed.to_ne_bytes());
    }
}

/// What rank `rank` gives: element `i` is the same for every length.
fn operands(rank: u32, count: u64, floating: bool) -> Vec<u8> {
    let element = |i: u64| {
        let mut random = Random(u64::from(rank) << 20 | i);
        let (mantissa, exponent) = (random.next(), random.below(60));
        let value = (mantissa as f64 / 2f64.powi(64) - 0.5) * 2f64.powi(exponent as i32);
        if floating { value.to_ne_bytes() } else { mantissa.to_ne_bytes() }
    };
    (0..count).flat_map(element).collect()
}

fn vector(count: u64, commutative: bool) -> Vector {
    Vector { count, element: 8, commutative }
}

/// Runs the schedules of all ranks; the receive buffers afterwards.
fn results(
    schedules: &[Schedule],
    count: u64,
    floating: bool,
    operation: Operation,
    random: &mut Random,
) -> Vec<Vec<u8>> {
    let memories: Vec<Memory> = (0..schedules.len() as u32)
        .map(|rank| {
            Memory::default()
                .with(Buffer::Send, operands(rank, count, floating))
                .with(Buffer::Recv, vec![0; 8 * count as usize])
        })
        .collect();
    let after = World::new(schedules, &memories, operation, Sends::Eager).finish(random);
    after.into_iter().map(|mut memory| memory.0.remove(&Buffer::Recv).expect("the result")).collect()
}

/// Every algorithm for a call, those over levels with several layouts.
fn algorithms(call: &Call<'_>, size: u32, random: &mut Random) -> Vec<(&'static Algorithm, Model)> {
    let group = Group { rank: 0, size };
    let flat = Model::default();
    let mut all: Vec<_> = candidates(call, group, &flat).map(|algorithm| (algorithm, flat.clone())).collect();
    for layout in layouts(size, random) {
        let model = Model { layout, ..Model::default() };
        let over_levels =
            candidates(call, group, &model).filter(|algorithm| algorithm.name.contains("levels"));
        all.extend(over_levels.map(|algorithm| (algorithm, model.clone())));
    }
    all
}

#[test]
fn all_ranks_get_the_same_bits_from_every_allreduce() {
    let mut random = Random(41);
    for size in 1..=33 {
        for count in [1, 2, 40, 300] {
            for (floating, commutative, operation) in
                [(true, true, add as Operation), (true, false, add), (false, false, hash)]
            {
                let call = Call::Allreduce { vector: vector(count, commutative), in_place: false };
                for (algorithm, model) in algorithms(&call, size, &mut random) {
                    let build = |rank| algorithm.build(&call, Group { rank, size }, &model);
                    let schedules: Vec<Schedule> = (0..size).map(build).collect();
                    let all = results(&schedules, count, floating, operation, &mut random);
                    let same = all.iter().all(|one| *one == all[0]);
                    assert!(same, "{algorithm:?} at {size} ranks, {count} elements");
                }
            }
        }
    }
}

/// The tree of the module's text, for one element.
fn combined(first: u32, ranks: u32, value: &dyn Fn(u32) -> u64) -> u64 {
    let mut all = value(first);
    let mut step = 1;
    while step < ranks {
        all = mix(all, combined(first + step, step.min(ranks - step), value));
        step *= 2;
    }
    all
}

#[test]
fn a_reproducible_reduction_is_one_tree_whatever_the_call() {
    let mut random = Random(42);
    let models =
        [Model::default(), Model { ranks_per_core: 4.0, segment: 64, window: 1, ..Model::default() }];
    for size in 1..=33 {
        let value = |i: usize| {
            move |rank: u32| {
                let all = operands(rank, i as u64 + 1, false);
                u64::from_ne_bytes(all[8 * i..8 * i + 8].try_into().unwrap())
            }
        };
        for (count, commutative) in [(1, true), (5, false), (8200, true)] {
            if count > 1000 && size > 9 {
                continue;
            }
            let wanted: Vec<u8> =
                (0..count.min(5)).flat_map(|i| combined(0, size, &value(i as usize)).to_ne_bytes()).collect();
            let starts = |bytes: &[u8]| bytes[..wanted.len()] == wanted[..];
            let vector = vector(count, commutative);
            for model in &models {
                let plan_all = |call: &Call<'_>| -> Vec<Schedule> {
                    (0..size).map(|rank| plan_reproducible(call, Group { rank, size }, model)).collect()
                };
                let call = Call::Allreduce { vector, in_place: false };
                let all = results(&plan_all(&call), count, false, hash, &mut random);
                assert!(all.iter().all(|one| starts(one)), "allreduce at {size} ranks, {count} elements");
                for root in [0, size / 2, size - 1] {
                    let call = Call::Reduce { root, vector, in_place: false };
                    let all = results(&plan_all(&call), count, false, hash, &mut random);
                    assert!(starts(&all[root as usize]), "reduce to {root} of {size}, {count} elements");
                }
                let mut counts = vec![0; size as usize];
                counts[size as usize - 1] = count;
                let call = Call::ReduceScatter { counts: &counts, vector, in_place: false };
                let all = results(&plan_all(&call), count, false, hash, &mut random);
                assert!(starts(&all[size as usize - 1]), "reduce_scatter at {size} ranks, {count} elements");
                let call = Call::Scan { vector, in_place: false };
                let first = results(&plan_all(&call), count, false, hash, &mut random);
                let second = results(&plan_all(&call), count, false, hash, &mut random);
                assert!(first == second && (size > 2 || starts(&first[size as usize - 1])));
            }
        }
    }
}
