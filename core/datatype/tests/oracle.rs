//! Random nested types against a naive interpreter of type maps, written from the definitions of section 5.1: a list of
//! (basic type, displacement) entries with explicit lb and ub markers.

use proptest::prelude::*;
use weft_datatype::counts::{bytes_of_elements, get_count, get_elements};
use weft_datatype::{Datatype, Form, Memory, Predefined, memory};
use weft_types::abi::*;

/// One entry of a type map.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    Basic { size: i64, alignment: i64, at: i64 },
    Lb(i64),
    Ub(i64),
}

impl Entry {
    fn shifted(self, by: i64) -> Entry {
        match self {
            Entry::Basic { size, alignment, at } => Entry::Basic { size, alignment, at: at + by },
            Entry::Lb(at) => Entry::Lb(at + by),
            Entry::Ub(at) => Entry::Ub(at + by),
        }
    }
}

#[derive(Clone, Debug)]
struct Map(Vec<Entry>);

impl Map {
    fn basics(&self) -> impl Iterator<Item = (i64, i64, i64)> + '_ {
        self.0.iter().filter_map(|entry| match *entry {
            Entry::Basic { size, alignment, at } => Some((size, alignment, at)),
            _ => None,
        })
    }

    fn size(&self) -> i64 {
        self.basics().map(|(size, _, _)| size).sum()
    }

    fn lb(&self) -> i64 {
        let marked =
            self.0.iter().filter_map(|entry| if let Entry::Lb(at) = entry { Some(*at) } else { None });
        marked.min().or(self.basics().map(|(_, _, at)| at).min()).unwrap_or(0)
    }

    fn ub(&self) -> i64 {
        let marked =
            self.0.iter().filter_map(|entry| if let Entry::Ub(at) = entry { Some(*at) } else { None });
        marked.max().unwrap_or_else(|| {
            let Some(end) = self.basics().map(|(size, _, at)| at + size).max() else { return 0 };
            let alignment = self.basics().map(|(_, alignment, _)| alignment).max().unwrap();
            let mut ub = end;
            while (ub - self.lb()) % alignment != 0 {
                ub += 1;
            }
            ub
        })
    }

    fn extent(&self) -> i64 {
        self.ub() - self.lb()
    }

    fn true_bounds(&self) -> (i64, i64) {
        let low = self.basics().map(|(_, _, at)| at).min().unwrap_or(0);
        let high = self.basics().map(|(size, _, at)| at + size).max().unwrap_or(0);
        (low, high - low)
    }

    fn copies(&self, displacements: impl IntoIterator<Item = i64>) -> Vec<Entry> {
        displacements.into_iter().flat_map(|by| self.0.iter().map(move |entry| entry.shifted(by))).collect()
    }

    fn bytes(&self, count: i64) -> Vec<i64> {
        (0..count)
            .flat_map(|element| {
                self.basics().flat_map(move |(size, _, at)| {
                    (0..size).map(move |byte| at + byte + element * self.extent())
                })
            })
            .collect()
    }
}

#[derive(Clone, Debug)]
enum Recipe {
    Basic(u32),
    Contiguous(i64, Box<Recipe>),
    Vector(i64, i64, i64, Box<Recipe>),
    Hvector(i64, i64, i64, Box<Recipe>),
    Indexed(Vec<(i64, i64)>, Box<Recipe>),
    Hindexed(Vec<(i64, i64)>, Box<Recipe>),
    IndexedBlock(i64, Vec<i64>, Box<Recipe>),
    HindexedBlock(i64, Vec<i64>, Box<Recipe>),
    Struct(Vec<(i64, i64, Recipe)>),
    /// (size, subsize, start) per dimension
    Subarray(Vec<(i64, i64, i64)>, bool, Box<Recipe>),
    Resized(i64, i64, Box<Recipe>),
    Dup(Box<Recipe>),
}

impl Recipe {
    fn build(&self, form: Form) -> Datatype {
        let split = |blocks: &[(i64, i64)]| -> (Vec<i64>, Vec<i64>) { blocks.iter().copied().unzip() };
        match self {
            Recipe::Basic(handle) => Predefined::from_abi(*handle).unwrap().into(),
            Recipe::Contiguous(count, old) => Datatype::contiguous(*count, &old.build(form), form).unwrap(),
            Recipe::Vector(count, length, stride, old) => {
                Datatype::vector(*count, *length, *stride, &old.build(form), form).unwrap()
            }
            Recipe::Hvector(count, length, stride, old) => {
                Datatype::hvector(*count, *length, *stride, &old.build(form), form).unwrap()
            }
            Recipe::Indexed(blocks, old) => {
                let (lengths, places) = split(blocks);
                Datatype::indexed(&lengths, &places, &old.build(form), form).unwrap()
            }
            Recipe::Hindexed(blocks, old) => {
                let (lengths, places) = split(blocks);
                Datatype::hindexed(&lengths, &places, &old.build(form), form).unwrap()
            }
            Recipe::IndexedBlock(length, places, old) => {
                Datatype::indexed_block(*length, places, &old.build(form), form).unwrap()
            }
            Recipe::HindexedBlock(length, places, old) => {
                Datatype::hindexed_block(*length, places, &old.build(form), form).unwrap()
            }
            Recipe::Struct(members) => {
                let lengths: Vec<i64> = members.iter().map(|member| member.0).collect();
                let places: Vec<i64> = members.iter().map(|member| member.1).collect();
                let types: Vec<Datatype> = members.iter().map(|member| member.2.build(form)).collect();
                Datatype::structure(&lengths, &places, &types, form).unwrap()
            }
            Recipe::Subarray(dimensions, fortran, old) => {
                let pick = |f: fn(&(i64, i64, i64)) -> i64| dimensions.iter().map(f).collect::<Vec<i64>>();
                let order = if *fortran { MPI_ORDER_FORTRAN } else { MPI_ORDER_C };
                let (sizes, subsizes, starts) = (pick(|d| d.0), pick(|d| d.1), pick(|d| d.2));
                Datatype::subarray(&sizes, &subsizes, &starts, order, &old.build(form), form).unwrap()
            }
            Recipe::Resized(lb, extent, old) => {
                Datatype::resized(&old.build(form), *lb, *extent, form).unwrap()
            }
            Recipe::Dup(old) => old.build(form).duplicate().unwrap(),
        }
    }

    fn map(&self) -> Map {
        let block = |old: &Map, at: i64, length: i64| -> Vec<Entry> {
            old.copies((0..length).map(|j| at + j * old.extent()))
        };
        Map(match self {
            Recipe::Basic(handle) => match *handle {
                MPI_SHORT_INT => vec![
                    Entry::Basic { size: 2, alignment: 2, at: 0 },
                    Entry::Basic { size: 4, alignment: 4, at: 4 },
                ],
                MPI_DOUBLE_INT => vec![
                    Entry::Basic { size: 8, alignment: 8, at: 0 },
                    Entry::Basic { size: 4, alignment: 4, at: 8 },
                ],
                other => {
                    let predefined = Predefined::from_abi(other).unwrap();
                    let (size, alignment) = (predefined.size() as i64, predefined.alignment() as i64);
                    vec![Entry::Basic { size, alignment, at: 0 }]
                }
            },
            Recipe::Contiguous(count, old) => block(&old.map(), 0, *count),
            Recipe::Vector(count, length, stride, old) => {
                let old = old.map();
                (0..*count).flat_map(|i| block(&old, i * stride * old.extent(), *length)).collect()
            }
            Recipe::Hvector(count, length, stride, old) => {
                let old = old.map();
                (0..*count).flat_map(|i| block(&old, i * stride, *length)).collect()
            }
            Recipe::Indexed(blocks, old) => {
                let old = old.map();
                blocks.iter().flat_map(|&(length, at)| block(&old, at * old.extent(), length)).collect()
            }
            Recipe::Hindexed(blocks, old) => {
                let old = old.map();
                blocks.iter().flat_map(|&(length, at)| block(&old, at, length)).collect()
            }
            Recipe::IndexedBlock(length, places, old) => {
                let old = old.map();
                places.iter().flat_map(|&at| block(&old, at * old.extent(), *length)).collect()
            }
            Recipe::HindexedBlock(length, places, old) => {
                let old = old.map();
                places.iter().flat_map(|&at| block(&old, at, *length)).collect()
            }
            Recipe::Struct(members) => {
                members.iter().flat_map(|(length, at, old)| block(&old.map(), *at, *length)).collect()
            }
            Recipe::Subarray(dimensions, fortran, old) => {
                let old = old.map();
                // Row-major, slowest dimension first; Fortran order is the reverse.
                let mut slowest_first = dimensions.clone();
                if *fortran {
                    slowest_first.reverse();
                }
                let mut places = vec![0];
                for &(size, subsize, start) in &slowest_first {
                    places = places
                        .iter()
                        .flat_map(|place| (start..start + subsize).map(move |i| place * size + i))
                        .collect();
                }
                let total: i64 = dimensions.iter().map(|dimension| dimension.0).product();
                // Markers of the old type are erased with the rest (section 5.1.3 sets both explicitly).
                let mut entries: Vec<Entry> = old
                    .copies(places.iter().map(|place| place * old.extent()))
                    .into_iter()
                    .filter(|entry| matches!(entry, Entry::Basic { .. }))
                    .collect();
                entries.extend([Entry::Lb(0), Entry::Ub(total * old.extent())]);
                entries
            }
            Recipe::Resized(lb, extent, old) => {
                let mut entries: Vec<Entry> =
                    old.map().0.into_iter().filter(|entry| matches!(entry, Entry::Basic { .. })).collect();
                entries.extend([Entry::Lb(*lb), Entry::Ub(lb + extent)]);
                entries
            }
            Recipe::Dup(old) => return old.map(),
        })
    }
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let basic = prop::sample::select(vec![
        MPI_BYTE,
        MPI_SHORT,
        MPI_INT,
        MPI_DOUBLE,
        MPI_C_FLOAT_COMPLEX,
        MPI_SHORT_INT,
        MPI_DOUBLE_INT,
    ])
    .prop_map(Recipe::Basic);
    basic.prop_recursive(3, 12, 3, |inner| {
        let old = inner.clone().prop_map(Box::new);
        let blocks = prop::collection::vec((0_i64..4, -6_i64..12), 0..4);
        let places = prop::collection::vec(-6_i64..12, 0..4);
        prop_oneof![
            (0_i64..4, old.clone()).prop_map(|(count, old)| Recipe::Contiguous(count, old)),
            (0_i64..4, 0_i64..4, -5_i64..6, old.clone())
                .prop_map(|(c, b, s, old)| Recipe::Vector(c, b, s, old)),
            (0_i64..4, 0_i64..4, -40_i64..40, old.clone())
                .prop_map(|(c, b, s, old)| Recipe::Hvector(c, b, s, old)),
            (blocks.clone(), old.clone()).prop_map(|(blocks, old)| Recipe::Indexed(blocks, old)),
            (blocks, old.clone()).prop_map(|(blocks, old)| Recipe::Hindexed(blocks, old)),
            (0_i64..3, places.clone(), old.clone())
                .prop_map(|(b, places, old)| Recipe::IndexedBlock(b, places, old)),
            (0_i64..3, places, old.clone())
                .prop_map(|(b, places, old)| Recipe::HindexedBlock(b, places, old)),
            prop::collection::vec((0_i64..3, -20_i64..40, inner.clone()), 0..4).prop_map(Recipe::Struct),
            (prop::collection::vec((1_i64..4, 0_i64..100, 0_i64..100), 1..4), any::<bool>(), old.clone())
                .prop_map(|(dimensions, fortran, old)| {
                    let legal = dimensions.into_iter().map(|(size, a, b)| {
                        let subsize = 1 + a % size;
                        (size, subsize, b % (size - subsize + 1))
                    });
                    Recipe::Subarray(legal.collect(), fortran, old)
                }),
            (-20_i64..20, -30_i64..60, old.clone())
                .prop_map(|(lb, extent, old)| Recipe::Resized(lb, extent, old)),
            old.prop_map(Recipe::Dup),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

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
            prop_assert_eq!(get_elements(total, &datatype), Some(received));
            prop_assert_eq!(bytes_of_elements(received, &datatype), Some(total));
            if *size > 1 {
                prop_assert_eq!(get_elements(total + 1, &datatype), None);
            }
            let whole = total % map.size() as u64 == 0;
            prop_assert_eq!(get_count(total, &datatype), whole.then(|| total / map.size() as u64));
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
        let origin = user.as_mut_ptr().wrapping_offset(-low as isize);
        // SAFETY: `span` says which bytes from the origin are touched; `user` is exactly these.
        let source = unsafe { Memory::read(origin, &datatype, (low, high)) };
        let total = places.len();
        let mut packed = vec![0; total];
        source.send_view(0, 0, total as u64).pack(0, &mut packed);
        let expected: Vec<u8> = places.iter().map(|place| user[(place - low) as usize]).collect();
        prop_assert_eq!(&packed, &expected);

        // Unpack in two pieces into untouched memory.
        let mut other = vec![0xa5_u8; user.len()];
        let origin = other.as_mut_ptr().wrapping_offset(-low as isize);
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
}
