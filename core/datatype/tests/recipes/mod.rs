//! Random nested types, and what they are by a naive interpreter of type maps, written from the definitions of section
//! 5.1: a list of (basic type, displacement) entries with explicit lb and ub markers.
#![allow(dead_code, reason = "shared by test files that use different parts")]

use proptest::prelude::*;
use weft_datatype::{Datatype, Form, Grid, Memory, Predefined};
use weft_types::abi::*;

/// One entry of a type map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Entry {
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
pub(crate) struct Map(pub(crate) Vec<Entry>);

impl Map {
    pub(crate) fn basics(&self) -> impl Iterator<Item = (i64, i64, i64)> + '_ {
        self.0.iter().filter_map(|entry| match *entry {
            Entry::Basic { size, alignment, at } => Some((size, alignment, at)),
            _ => None,
        })
    }

    pub(crate) fn size(&self) -> i64 {
        self.basics().map(|(size, _, _)| size).sum()
    }

    pub(crate) fn lb(&self) -> i64 {
        let marked =
            self.0.iter().filter_map(|entry| if let Entry::Lb(at) = entry { Some(*at) } else { None });
        marked.min().or(self.basics().map(|(_, _, at)| at).min()).unwrap_or(0)
    }

    pub(crate) fn ub(&self) -> i64 {
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

    pub(crate) fn extent(&self) -> i64 {
        self.ub() - self.lb()
    }

    pub(crate) fn true_bounds(&self) -> (i64, i64) {
        let low = self.basics().map(|(_, _, at)| at).min().unwrap_or(0);
        let high = self.basics().map(|(size, _, at)| at + size).max().unwrap_or(0);
        (low, high - low)
    }

    fn copies(&self, displacements: impl IntoIterator<Item = i64>) -> Vec<Entry> {
        displacements.into_iter().flat_map(|by| self.0.iter().map(move |entry| entry.shifted(by))).collect()
    }

    pub(crate) fn bytes(&self, count: i64) -> Vec<i64> {
        let extent = self.extent();
        (0..count)
            .flat_map(|element| {
                self.basics()
                    .flat_map(move |(size, _, at)| (0..size).map(move |byte| at + byte + element * extent))
            })
            .collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Recipe {
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
    /// (size, processes, distribution, argument) per dimension; rank; whether in Fortran's order
    Darray(Vec<(i64, i32, i32, i32)>, i32, bool, Box<Recipe>),
    Resized(i64, i64, Box<Recipe>),
    Dup(Box<Recipe>),
}

impl Recipe {
    pub(crate) fn build(&self, form: Form) -> Datatype {
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
            Recipe::Darray(dimensions, rank, fortran, old) => {
                let pick =
                    |f: fn(&(i64, i32, i32, i32)) -> i32| dimensions.iter().map(f).collect::<Vec<i32>>();
                let processes = pick(|d| d.1);
                let grid = Grid {
                    size: processes.iter().product(),
                    rank: *rank,
                    sizes: &dimensions.iter().map(|d| d.0).collect::<Vec<i64>>(),
                    distributions: &pick(|d| d.2),
                    arguments: &pick(|d| d.3),
                    processes: &processes,
                    order: if *fortran { MPI_ORDER_FORTRAN } else { MPI_ORDER_C },
                };
                Datatype::darray(&grid, &old.build(form), form).unwrap()
            }
            Recipe::Resized(lb, extent, old) => {
                Datatype::resized(&old.build(form), *lb, *extent, form).unwrap()
            }
            Recipe::Dup(old) => old.build(form).duplicate().unwrap(),
        }
    }

    pub(crate) fn map(&self) -> Map {
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
            Recipe::Darray(dimensions, rank, fortran, old) => {
                let old = old.map();
                // Who owns element `i` of a dimension, from the meaning of the distributions.
                let owner = |&(size, processes, distribution, argument): &(i64, i32, i32, i32), i: i64| {
                    let processes = i64::from(processes);
                    let block = match (distribution, argument) {
                        (MPI_DISTRIBUTE_NONE, _) => size,
                        (MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG) => {
                            (size + processes - 1) / processes
                        }
                        (_, MPI_DISTRIBUTE_DFLT_DARG) => 1,
                        (_, argument) => i64::from(argument),
                    };
                    i / block % processes
                };
                let mut rest = i64::from(*rank);
                let mut coordinates: Vec<i64> = dimensions
                    .iter()
                    .rev()
                    .map(|d| {
                        let here = rest % i64::from(d.1);
                        rest /= i64::from(d.1);
                        here
                    })
                    .collect();
                coordinates.reverse();
                let mut slowest_first: Vec<_> = dimensions.iter().zip(coordinates).collect();
                if *fortran {
                    slowest_first.reverse();
                }
                let mut places = vec![0];
                for (dimension, here) in slowest_first {
                    let mine: Vec<i64> = (0..dimension.0).filter(|&i| owner(dimension, i) == here).collect();
                    places = places
                        .iter()
                        .flat_map(|place| mine.iter().map(move |i| place * dimension.0 + i))
                        .collect();
                }
                let total: i64 = dimensions.iter().map(|dimension| dimension.0).product();
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

pub(crate) fn recipes() -> impl Strategy<Value = Recipe> {
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
            (
                prop::collection::vec((1_i64..6, 1_i32..4, 0_i32..5, 1_i32..4), 1..3),
                any::<i32>(),
                any::<bool>(),
                old.clone()
            )
                .prop_map(|(dimensions, rank, fortran, old)| {
                    let legal: Vec<_> = dimensions
                        .into_iter()
                        .map(|(size, processes, how, argument)| {
                            let fits = (size as i32 + processes - 1) / processes;
                            match how {
                                0 => (size, 1, MPI_DISTRIBUTE_NONE, argument),
                                1 => (size, processes, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG),
                                2 => (size, processes, MPI_DISTRIBUTE_BLOCK, fits + argument - 1),
                                3 => (size, processes, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG),
                                _ => (size, processes, MPI_DISTRIBUTE_CYCLIC, argument),
                            }
                        })
                        .collect();
                    let size: i32 = legal.iter().map(|dimension| dimension.1).product();
                    Recipe::Darray(legal, rank.rem_euclid(size), fortran, old)
                }),
            (-20_i64..20, -30_i64..60, old.clone())
                .prop_map(|(lb, extent, old)| Recipe::Resized(lb, extent, old)),
            old.prop_map(Recipe::Dup),
        ]
    })
}

/// `usual` cases of every property, or what PROPTEST_CASES says.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let given = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { given.cases } else { usual };
    ProptestConfig { cases, ..given }
}

/// Memory in which every byte of an element can be told from its neighbours.
pub(crate) fn image(bytes: i64) -> Vec<u8> {
    // In pieces: where each instruction is interpreted, bytes one by one take most of the time.
    const ROUND: [u8; 251] = {
        let mut round = [0; 251];
        let mut i = 0;
        while i < round.len() {
            round[i] = i as u8;
            i += 1;
        }
        round
    };
    let mut image = ROUND.repeat(bytes as usize / ROUND.len() + 1);
    image.truncate(bytes as usize);
    image
}

/// Packs and unpacks `from..to` of the packed bytes of `count` elements and compares with the list of places.
pub(crate) fn check_range(datatype: &Datatype, count: u64, places: &[i64], from: usize, to: usize) {
    let (low, high) = datatype.span(count).unwrap();
    // No alignment at all: the memory and the packed bytes begin where they happen to.
    let shift = places.len() % 8;
    let mut room = vec![0; shift];
    room.extend(image(high - low));
    let user = &mut room[shift..];
    let origin = user.as_mut_ptr().wrapping_sub(low as usize);
    // SAFETY: `span` says which bytes from the origin are touched; `user` is exactly these.
    let source = unsafe { Memory::read(origin, datatype, (low, high)) };
    let mut packed = vec![0xee; to - from + 1 + from % 8];
    let packed = &mut packed[1 + from % 8..];
    source.send_view(0, 0, places.len() as u64).pack(from, packed);
    let part = &places[from..to];
    let expected: Vec<u8> = part.iter().map(|place| ((place - low) % 251) as u8).collect();
    assert_eq!(packed, expected, "packed bytes {from}..{to}");

    let mut other = vec![0xfb_u8; user.len()];
    let origin = other.as_mut_ptr().wrapping_sub(low as usize);
    // SAFETY: as above, for `other`.
    let target = unsafe { Memory::write(origin, datatype, (low, high)) };
    target.recv_view(0, 0, places.len() as u64).unpack(from, packed);
    for place in part {
        let at = (place - low) as usize;
        assert_eq!(other[at], user[at]);
        other[at] = 0xfb;
    }
    assert!(other == vec![0xfb; other.len()], "a byte outside the type map was touched");
}

/// Whether no two entries overlap.
pub(crate) fn is_plain(places: &[i64]) -> bool {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}
