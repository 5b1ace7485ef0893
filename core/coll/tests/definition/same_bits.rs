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
    for size in 1..=64 {
        // As many elements as make all parts of a vector, some of them, or none of it long enough for every algorithm.
        let counts: &[u64] = if size > 33 { &[2, 140] } else { &[1, 2, 40, 300] };
        for &count in counts {
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
    let models = [
        Model::default(),
        Model { ranks_per_core: 4.0, segment: Some(64), window: Some(1), ..Model::default() },
    ];
    for size in 1..=64 {
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
            }
        }
    }
}

/// What a rank has in a scan by doubling after the rounds up to `distance`: of at most so many ranks up to it.
fn inclusive(rank: u32, distance: u32, value: &dyn Fn(u32) -> u64) -> u64 {
    match distance / 2 {
        0 => value(rank),
        half if half <= rank => mix(inclusive(rank - half, half, value), inclusive(rank, half, value)),
        half => inclusive(rank, half, value),
    }
}

/// What a rank has of the ranks before it then.
fn exclusive(rank: u32, size: u32, value: &dyn Fn(u32) -> u64) -> Option<u64> {
    let distances = std::iter::successors(Some(1), |distance| Some(2 * distance));
    distances.take_while(|&distance| distance < size && distance <= rank).fold(None, |all, distance| {
        let received = inclusive(rank - distance, distance, value);
        Some(all.map_or(received, |all| mix(received, all)))
    })
}

#[test]
fn reproducible_scans_combine_by_doubling_whatever_the_length_and_the_model() {
    let mut random = Random(43);
    let models = [
        Model::default(),
        Model { ranks_per_core: 4.0, segment: Some(64), window: Some(1), ..Model::default() },
    ];
    for size in 1..=64_u32 {
        for (count, commutative) in [(1, true), (3, false), (4500, true)] {
            if count > 1000 && size > 9 {
                continue;
            }
            let vector = vector(count, commutative);
            let first = |bytes: &[u8]| u64::from_ne_bytes(bytes[..8].try_into().unwrap());
            let value = |rank: u32| first(&operands(rank, 1, false));
            for model in &models {
                let all = |call: Call<'_>, random: &mut Random| {
                    let plan = |rank| plan_reproducible(&call, Group { rank, size }, model);
                    results(&(0..size).map(plan).collect::<Vec<_>>(), count, false, hash, random)
                };
                let scanned = all(Call::Scan { vector, in_place: false }, &mut random);
                let excluded = all(Call::Exscan { vector, in_place: false }, &mut random);
                for rank in 0..size {
                    let wanted = inclusive(rank, size.next_power_of_two(), &value);
                    assert_eq!(first(&scanned[rank as usize]), wanted, "scan, rank {rank} of {size}");
                    if let Some(wanted) = exclusive(rank, size, &value) {
                        assert_eq!(first(&excluded[rank as usize]), wanted, "exscan, rank {rank} of {size}");
                    }
                }
            }
        }
    }
}
