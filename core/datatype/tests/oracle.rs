//! Random nested types against the naive interpreter of type maps in `recipes`.

mod recipes;

use proptest::prelude::*;
use recipes::{cases, recipes};
use weft_datatype::counts::{bytes_of_elements, get_count, get_elements};
use weft_datatype::{Datatype, Form, Memory, Predefined, memory};
use weft_types::abi::*;

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn types_are_what_their_type_map_says(recipe in recipes(), count in 0_i64..4, cuts in (0_usize..1000, 0_usize..1000)) {
        let map = recipe.map();
        prop_assume!(map.size() < 3000);
        for form in [Form::Int, Form::Large] {
            let datatype = recipe.build(form);
            let bounds = datatype.bounds();
            prop_assert_eq!(datatype.size(), Some(map.size() as u64));
            prop_assert_eq!((bounds.lb, bounds.extent), (map.lb(), map.extent()));
            prop_assert_eq!((bounds.true_lb, bounds.true_extent), map.true_bounds());
            prop_assert_eq!(datatype.signature().elements(), map.basics().count() as u64);
        }
        let datatype = recipe.build(Form::Int);

        // The bytes in order, whole and cut anywhere.
        let expected = map.bytes(count);
        let walk = |skip: usize, len: usize| {
            let mut bytes = Vec::new();
            datatype.layout().for_each_run(skip, len, |at, run| bytes.extend(at..at + run as i64));
            bytes
        };
        prop_assert_eq!(&walk(0, expected.len()), &expected);
        let (a, b) = (cuts.0 % (expected.len() + 1), cuts.1 % (expected.len() + 1));
        prop_assert_eq!(&walk(a.min(b), a.abs_diff(b)), &expected[a.min(b)..a.max(b)]);
        if datatype.is_contiguous() {
            prop_assert!(expected.iter().copied().eq(0..expected.len() as i64));
        }

        // Counting received elements.
        let sizes: Vec<u64> = (0..3).flat_map(|_| map.basics().map(|(size, _, _)| size as u64)).collect();
        let mut total = 0;
        for (received, size) in (0..).zip(&sizes) {
            prop_assert_eq!(get_elements(total.into(), &datatype), Some(received));
            prop_assert_eq!(bytes_of_elements(received, &datatype), Some(total.into()));
            if *size > 1 {
                prop_assert_eq!(get_elements(u128::from(total) + 1, &datatype), None);
            }
            let whole = total % map.size() as u64 == 0;
            prop_assert_eq!(get_count(total.into(), &datatype), whole.then(|| total / map.size() as u64));
            total += size;
        }
        if map.size() == 0 {
            prop_assert_eq!((get_count(0, &datatype), get_count(8, &datatype)), (Some(0), None));
        }
    }

    #[test]
    fn packing_moves_the_bytes_of_the_map_and_no_others(recipe in recipes(), count in 1_u64..4, cut in 0_usize..1000) {
        let map = recipe.map();
        let places = map.bytes(count as i64);
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assume!(map.size() < 2000 && sorted.len() == places.len());
        let datatype = recipe.build(Form::Int);
        let (low, high) = datatype.span(count).unwrap();
        let mut user: Vec<u8> = (0..high - low).map(|i| (i % 251) as u8).collect();
        let origin = user.as_mut_ptr().wrapping_sub(low as usize);
        // SAFETY: `span` says which bytes from the origin are touched; `user` is exactly these.
        let source = unsafe { Memory::read(origin, &datatype, (low, high)) };
        let total = places.len();
        let mut packed = vec![0; total];
        source.send_view(0, 0, total as u64).pack(0, &mut packed);
        let expected: Vec<u8> = places.iter().map(|place| user[(place - low) as usize]).collect();
        prop_assert_eq!(&packed, &expected);

        // Unpack in two pieces into untouched memory.
        let mut other = vec![0xa5_u8; user.len()];
        let origin = other.as_mut_ptr().wrapping_sub(low as usize);
        // SAFETY: as above, for `other`.
        let target = unsafe { Memory::write(origin, &datatype, (low, high)) };
        let cut = cut % (total + 1);
        target.recv_view(0, 0, cut as u64).unpack(0, &packed[..cut]);
        target.recv_view(0, cut as u64, (total - cut) as u64).unpack(0, &packed[cut..]);
        let mut expected = vec![0xa5_u8; user.len()];
        places.iter().zip(&packed).for_each(|(place, &byte)| expected[(place - low) as usize] = byte);
        prop_assert_eq!(&other, &expected);

        // From layout to layout.
        let scratch = Memory::scratch(&datatype, count).unwrap();
        memory::copy(&source.send_view(0, 0, total as u64), &mut scratch.recv_view(0, 0, total as u64));
        let mut again = vec![0; total];
        scratch.send_view(0, 0, total as u64).pack(0, &mut again);
        prop_assert_eq!(again, packed);
    }
}

#[test]
fn a_large_count_costs_no_memory_and_too_large_ones_are_refused() {
    let int = Datatype::from(Predefined::from_abi(MPI_INT).unwrap());
    let vector = Datatype::vector(1 << 40, 3, 1000, &int, Form::Large).unwrap();
    assert_eq!(vector.size(), Some(12 << 40));
    let huge = Datatype::contiguous(1 << 20, &vector, Form::Large).unwrap_err();
    assert_eq!(huge.class(), weft_types::ErrorClass::COUNT);
    assert_eq!(Datatype::contiguous(-1, &int, Form::Int).unwrap_err().class(), weft_types::ErrorClass::COUNT);
    assert!(vector.packed_bytes(1 << 30).is_err());
    let small = Datatype::vector(2, 3, 1000, &int, Form::Large).unwrap();
    let bytes = |datatype: &Datatype| datatype.layout().to_bytes(1 << 20).unwrap().len();
    assert_eq!(bytes(&vector), bytes(&small));
}
