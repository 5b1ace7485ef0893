//! Packing and unpacking at every cut, of few and of many elements; layouts as bytes and back, and hostile bytes.

mod recipes;

use proptest::prelude::*;
use recipes::{Recipe, cases, check_range, image, is_plain, recipes};
use std::sync::Arc;
use weft_datatype::{Datatype, Form, Layout, Predefined, RecvBuf, SendBuf};
use weft_types::abi::*;

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn lists_of_runs_name_the_bytes_in_packed_order_whatever_their_room(
        recipe in recipes(), count in 1_i64..4, most in 1_usize..20
    ) {
        let places = recipe.map().bytes(count);
        prop_assume!(places.len() < 300);
        let layout = recipe.build(Form::Int).layout().clone();
        for from in 0..=places.len() {
            let (mut at, mut got) = (from, Vec::new());
            while at < places.len() {
                let mut runs = Vec::new();
                let listed = layout.list_runs(at, places.len() - at, most, &mut runs);
                prop_assert!(listed > 0 && runs.len() <= most);
                prop_assert_eq!(listed, runs.iter().map(|run| run.1).sum::<usize>());
                got.extend(runs.iter().flat_map(|&(at, len)| at..at + len as i64));
                at += listed;
            }
            prop_assert_eq!(&got[..], &places[from..]);
        }
    }

    #[test]
    fn every_cut_packs_and_unpacks_the_bytes_between(recipe in recipes(), count in 1_i64..4) {
        let places = recipe.map().bytes(count);
        prop_assume!(places.len() < 150 && is_plain(&places));
        let datatype = recipe.build(Form::Int);
        for from in 0..=places.len() {
            for to in from..=places.len() {
                check_range(&datatype, count as u64, &places, from, to);
            }
        }
    }

    #[test]
    fn many_elements_are_packed_as_few_are(
        recipe in recipes(),
        count in 1_i64..2000,
        cuts in (0.0_f64..1.0, 0.0_f64..1.0),
    ) {
        let one = recipe.map();
        prop_assume!(one.size() > 0 && one.size() * count < 60_000 && one.extent().abs() < 2000);
        let places = one.bytes(count);
        prop_assume!(is_plain(&places));
        let datatype = recipe.build(Form::Int);
        check_range(&datatype, count as u64, &places, 0, places.len());
        let cut = |part: f64| (part * places.len() as f64) as usize;
        let (a, b) = (cut(cuts.0), cut(cuts.1));
        check_range(&datatype, count as u64, &places, a.min(b), a.max(b));
    }

    #[test]
    fn layouts_survive_the_way_to_another_process(recipe in recipes()) {
        let datatype = recipe.build(Form::Int);
        let bytes = datatype.layout().to_bytes(1 << 20).unwrap();
        let rebuilt = Layout::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&rebuilt, &**datatype.layout());
        prop_assert_eq!(rebuilt.reach(3), Some(datatype.span(3).unwrap()));
        prop_assert!(datatype.layout().to_bytes(bytes.len() - 1).is_none());
        for length in 0..bytes.len() {
            prop_assert!(Layout::from_bytes(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn overlapping_entries_are_found_and_others_are_not_accused(recipe in recipes(), count in 1_i64..6) {
        let places = recipe.map().bytes(count);
        prop_assume!(places.len() < 3000);
        let datatype = recipe.build(Form::Int);
        prop_assert_eq!(datatype.check_distinct(count as u64).is_ok(), is_plain(&places));
    }

    /// Whatever is accepted can be walked inside what `reach` says, and is written as it was read.
    #[test]
    fn hostile_bytes_are_refused_or_harmless(
        recipe in recipes(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        noise in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let _ = Layout::from_bytes(&noise);
        let mut bytes = recipe.build(Form::Int).layout().to_bytes(1 << 20).unwrap();
        for (index, value) in changes {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        if let Ok(layout) = Layout::from_bytes(&bytes) {
            prop_assert_eq!(layout.to_bytes(1 << 20), Some(bytes));
            let (low, high) = layout.reach(1).unwrap();
            for skip in [0, layout.size / 2, layout.size.saturating_sub(100)] {
                let (mut runs, len) = (0, 100.min(layout.size - skip));
                layout.for_each_run(skip, len, |at, len| {
                    runs += 1;
                    assert!(at >= low && at + len as i64 <= high);
                });
                prop_assert!(runs <= 100);
            }
            copy_inside_its_reach(layout, 3);
        }
    }
}

/// Packs and unpacks elements of a layout that somebody sent, in memory that is what they reach and no byte more.
fn copy_inside_its_reach(layout: Layout, count: usize) {
    let Some((low, high)) = layout.reach(count) else { return };
    if high.checked_sub(low).is_none_or(|reach| reach > 1 << 20) || layout.size > 1 << 20 {
        return;
    }
    let layout = Arc::new(layout);
    let mut memory = image(high - low);
    let origin = memory.as_mut_ptr().wrapping_sub(low as usize);
    let mut packed = vec![0; count * layout.size];
    let half = packed.len() / 2;
    // SAFETY: `memory` is what the elements reach, and only these buffers use it.
    unsafe {
        let from = SendBuf::typed(origin, count, &layout);
        from.pack(half, &mut packed[half..]);
        from.pack(0, &mut packed[..half]);
        let mut to = RecvBuf::typed(origin, count, &layout);
        to.unpack(0, &packed[..half]);
        to.unpack(half, &packed[half..]);
    }
    // Bytes that overlap may have been written by either; the others are as they were.
    let mut places = Vec::new();
    layout.for_each_run(0, count * layout.size, |at, length| places.extend(at..at + length as i64));
    if is_plain(&places) {
        assert_eq!(memory, image(high - low));
    }
}

/// The loops with fetching ahead, blocks of every length, both directions of the stride.
#[test]
fn blocks_of_every_length_at_near_and_far_strides() {
    let byte = Datatype::from(Predefined::from_abi(MPI_BYTE).unwrap());
    for length in (1..70).chain([100, 128, 129, 200]) {
        for stride in [length + 1, 2 * length, 64, 512, 1000, -700] {
            if i64::abs(stride) < length {
                continue;
            }
            for count in [1, 2, 5, 130] {
                let vector = Datatype::hvector(count, length, stride, &byte, Form::Int).unwrap();
                let places: Vec<i64> = (0..count).flat_map(|i| i * stride..i * stride + length).collect();
                check_range(&vector, 1, &places, 0, places.len());
                check_range(&vector, 1, &places, 1, places.len() - places.len().min(2) / 2);
                // The same blocks in a list, in another order.
                let order: Vec<i64> = (0..count).map(|i| (i * 37 % count) * stride).collect();
                if count != 130 {
                    continue;
                }
                let listed = Datatype::hindexed_block(length, &order, &byte, Form::Int).unwrap();
                let places: Vec<i64> = order.iter().flat_map(|&at| at..at + length).collect();
                check_range(&listed, 1, &places, 0, places.len());
                check_range(&listed, 1, &places, 3, places.len() - 1);
            }
        }
    }
}

#[test]
fn nesting_has_a_limit_on_the_wire_only() {
    let mut recipe = Recipe::Basic(MPI_BYTE);
    for depth in 0..20 {
        recipe = Recipe::Hvector(2, 1, 3 * 5_i64.pow(depth), Box::new(recipe));
    }
    let datatype = recipe.build(Form::Int);
    assert!(datatype.layout().to_bytes(1 << 20).is_some());
    let mut bytes = vec![1];
    bytes.extend(1_i64.to_le_bytes());
    let mut loop_of_one = vec![1];
    [0_i64, 1, 1].iter().for_each(|word| loop_of_one.extend(word.to_le_bytes()));
    bytes.extend(loop_of_one.repeat(100_000));
    assert!(Layout::from_bytes(&bytes).is_err());
}
