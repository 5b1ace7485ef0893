//! Tests: the kernels of every level that this processor has, held against the interpreter of type maps.

#[path = "../tests/recipes/mod.rs"]
mod recipes;

use crate::processor::tests::at_every_level;
use crate::{Datatype, Form, Predefined, PredefinedOp};
use proptest::prelude::*;
use recipes::{Recipe, cases, check_range, is_plain, recipes};
use weft_types::abi::*;

/// Elements in the property: under Miri every byte is interpreted.
const MOST: i64 = if cfg!(miri) { 20 } else { 300 };

fn byte() -> Datatype {
    Predefined::from_abi(MPI_BYTE).unwrap().into()
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    #[cfg_attr(miri, ignore = "making random types takes minutes there; nested ones are below")]
    fn random_types_are_copied_alike_at_every_level(
        recipe in recipes(),
        count in 1..MOST,
        cuts in (0.0_f64..1.0, 0.0_f64..1.0),
    ) {
        let one = recipe.map();
        prop_assume!(one.size() > 0 && one.size() * count < 60_000 && one.extent().abs() < 2000);
        let places = one.bytes(count);
        prop_assume!(is_plain(&places));
        let cut = |part: f64| (part * places.len() as f64) as usize;
        let (a, b) = (cut(cuts.0), cut(cuts.1));
        at_every_level(|_| {
            // A type of its own: what is kept with it belongs to the level.
            let datatype = recipe.build(Form::Int);
            check_range(&datatype, count as u64, &places, 0, places.len());
            check_range(&datatype, count as u64, &places, a.min(b), a.max(b));
        });
    }

    /// Structures of small members in any order, with and without gaps, some larger than a window.
    #[test]
    fn small_structures_are_copied_alike_at_every_level(
        members in prop::collection::vec((1_i64..20, 0_i64..12), 1..12),
        order in any::<u64>(),
        room in 0_i64..40,
        count in 1..MOST,
    ) {
        let mut at = 0;
        let mut places: Vec<(i64, i64)> = members
            .iter()
            .map(|&(length, gap)| {
                at += length + gap;
                (length, at - length)
            })
            .collect();
        let turn = (order % members.len() as u64) as usize;
        places.rotate_left(turn);
        let (lengths, displacements): (Vec<i64>, Vec<i64>) = places.iter().copied().unzip();
        let extent = at + room;
        let one: Vec<i64> = places.iter().flat_map(|&(length, at)| at..at + length).collect();
        let all: Vec<i64> = (0..count).flat_map(|i| one.iter().map(move |at| at + i * extent)).collect();
        at_every_level(|_| {
            let bare = Datatype::hindexed(&lengths, &displacements, &byte(), Form::Int).unwrap();
            let element = Datatype::resized(&bare, 0, extent, Form::Int).unwrap();
            check_range(&element, count as u64, &all, 0, all.len());
            check_range(&element, count as u64, &all, all.len() / 3, all.len() - all.len() / 4);
            let inside = Datatype::hvector(count, 1, extent, &element, Form::Int).unwrap();
            check_range(&inside, 1, &all, all.len() / 5, all.len());
        });
    }
}

/// A few types of every shape, cut anywhere.
#[test]
fn nested_types_are_copied_alike_at_every_level_and_cut() {
    let boxed = |recipe: &Recipe| Box::new(recipe.clone());
    let double = Recipe::Basic(MPI_DOUBLE);
    let pair = Recipe::Basic(MPI_SHORT_INT);
    let particle = Recipe::Resized(
        -3,
        31,
        Box::new(Recipe::Struct(vec![
            (1, 12, pair.clone()),
            (2, -3, Recipe::Basic(MPI_BYTE)),
            (1, 20, double.clone()),
        ])),
    );
    let recipes = [
        Recipe::Vector(9, 1, 2, boxed(&double)),
        Recipe::Hvector(9, 2, -40, boxed(&pair)),
        Recipe::Vector(3, 9, 10, boxed(&particle)),
        Recipe::Indexed(vec![(2, 5), (1, 0), (3, 9)], boxed(&particle)),
        Recipe::IndexedBlock(1, vec![9, 2, 4, 0, 7, 5, 3, 1, 8], boxed(&double)),
        Recipe::Subarray(vec![(4, 3, 1), (3, 2, 0), (3, 1, 2)], false, boxed(&pair)),
        Recipe::Darray(
            vec![(9, 2, MPI_DISTRIBUTE_CYCLIC, 2), (4, 1, MPI_DISTRIBUTE_NONE, 1)],
            1,
            true,
            boxed(&double),
        ),
    ];
    for recipe in recipes {
        let count = if cfg!(miri) { 2 } else { 9 };
        let places = recipe.map().bytes(count);
        assert!(is_plain(&places), "{recipe:?}");
        let step = if cfg!(miri) { places.len() / 3 } else { 7 };
        at_every_level(|_| {
            let datatype = recipe.build(Form::Int);
            for from in (0..places.len()).step_by(step) {
                for to in (from..=places.len()).rev().step_by(3 * step) {
                    check_range(&datatype, count as u64, &places, from, to);
                }
            }
        });
    }
}

/// Strides and lists, with counts on both sides of every bound; backwards too.
#[test]
fn regular_and_listed_blocks_are_copied_alike_at_every_level() {
    let counts: &[i64] = if cfg!(miri) { &[9] } else { &[1, 9, 33, 600, 613, 4101] };
    let lengths: &[i64] =
        if cfg!(miri) { &[1, 4, 8, 24] } else { &[1, 2, 3, 4, 7, 8, 9, 12, 16, 24, 32, 48, 64, 65, 100] };
    for &length in lengths {
        for stride in [length + 1, 2 * length, 64, 65, 136, -136] {
            if i64::abs(stride) < length {
                continue;
            }
            // The longest counts are there for scatters and gathers.
            for &count in counts.iter().filter(|&&count| count < 100 || length == 8) {
                let places: Vec<i64> = (0..count).flat_map(|i| i * stride..i * stride + length).collect();
                let order: Vec<i64> = (0..count).map(|i| (i * 37 % count) * stride).collect();
                let listed: Vec<i64> = order.iter().flat_map(|&at| at..at + length).collect();
                at_every_level(|_| {
                    let vector = Datatype::hvector(count, length, stride, &byte(), Form::Int).unwrap();
                    check_range(&vector, 1, &places, 0, places.len());
                    if count % 37 != 0 {
                        let list = Datatype::hindexed_block(length, &order, &byte(), Form::Int).unwrap();
                        check_range(&list, 1, &listed, 0, listed.len());
                    }
                });
            }
        }
    }
}

/// Blocks of more than a line, fetched ahead and not, with and without an odd end; lists in no order.
#[test]
fn long_blocks_are_copied_alike_at_every_level() {
    let lengths: &[i64] = if cfg!(miri) { &[65] } else { &[65, 96, 127, 128, 255, 256, 520, 1024, 4100] };
    for &length in lengths {
        for stride in [length + 1, 2 * length, -2 * length - 8] {
            let count = if cfg!(miri) { 2 } else { 11 };
            let places: Vec<i64> = (0..count).flat_map(|i| i * stride..i * stride + length).collect();
            let order: Vec<i64> = (0..count).map(|i| (i * 7 % count) * stride).collect();
            let listed: Vec<i64> = order.iter().flat_map(|&at| at..at + length).collect();
            at_every_level(|_| {
                let vector = Datatype::hvector(count, length, stride, &byte(), Form::Int).unwrap();
                check_range(&vector, 1, &places, 0, places.len());
                check_range(&vector, 1, &places, 70, places.len() - 3);
                let list = Datatype::hindexed_block(length, &order, &byte(), Form::Int).unwrap();
                check_range(&list, 1, &listed, 0, listed.len());
                check_range(&list, 1, &listed, 70, listed.len() - 3);
            });
        }
    }
}

/// Blocks so far from each other that they are fetched ahead.
#[test]
#[cfg_attr(
    miri,
    ignore = "the same code as for near blocks but for a prefetch; the memory between takes minutes"
)]
fn far_blocks_are_copied_alike_at_every_level() {
    let places: Vec<i64> = (0..40).map(|i: i64| (i * 17 % 40) * 70_000).collect();
    for length in [8, 16, 24, 32, 48, 64] {
        let bytes: Vec<i64> = places.iter().flat_map(|&at| at..at + length).collect();
        at_every_level(|_| {
            let list = Datatype::hindexed_block(length, &places, &byte(), Form::Int).unwrap();
            check_range(&list, 1, &bytes, 0, bytes.len());
        });
    }
}

/// Reductions give the same bits at every level, with two and with three operands, whatever the values, also not-a-numbers.
#[test]
fn reductions_are_alike_at_every_level() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    // Miri makes up the bits of every not-a-number anew: there, all numbers are below two.
    let most = if cfg!(miri) { 0x3f3f_3f3f_3f3f_3f3f } else { u64::MAX };
    let mut noise = |bytes: usize| -> Vec<u8> {
        let mut noise = Vec::with_capacity(bytes + 8);
        while noise.len() < bytes {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            noise.extend_from_slice(&(seed & most).to_le_bytes());
        }
        noise.truncate(bytes);
        noise
    };
    let ops = [
        MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_BAND, MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR,
        MPI_MAXLOC, MPI_MINLOC,
    ];
    let counts: &[usize] = if cfg!(miri) { &[5] } else { &[0, 1, 3, 17, 64, 333, 1500] };
    for predefined in Predefined::all() {
        let datatype = Datatype::from(predefined);
        if cfg!(miri) && predefined.name().contains("LONG_DOUBLE") {
            continue; // Instructions of the x87 unit, which it does not know.
        }
        for op in ops.map(|op| PredefinedOp::from_abi(op).expect("an operation")) {
            if op.kernel(&datatype).is_err() {
                continue;
            }
            for &count in counts {
                let bytes = count * predefined.extent();
                let (left, right) = (noise(bytes + 3), noise(bytes + 1));
                let mut first: Option<Vec<u8>> = None;
                at_every_level(|level| {
                    let kernel = op.kernel(&datatype).expect("asked before");
                    let (mut onto, mut apart) = (right.clone(), vec![0; bytes + 5]);
                    kernel.apply(&left[3..], &mut onto[1..]);
                    kernel.apply_apart(&left[3..], &right[1..], &mut apart[5..]);
                    assert_eq!(onto[1..], apart[5..], "{level:?}: {} on {}", op.name(), predefined.name());
                    let first = first.get_or_insert_with(|| onto.clone());
                    assert_eq!(*first, onto, "{level:?}: {} on {}", op.name(), predefined.name());
                });
            }
        }
    }
}
