//! `MPI_Comm_split_type` (section 7.4.2): communicators of processes that share memory, utilise one part of the hardware, or are
//! in one process set.
//!
//! One small all-reduce tells all what is asked for, also those who give `MPI_UNDEFINED`, and whether anybody differs. Then
//! follow plain splits: by node, and on each node by part. Only an unguided split of processes on one node collects what
//! everybody is restricted to; on several nodes it is the split by node, which divides least of all.

use super::steps::{Driver, allgather, bytes_of_words, union, words_of_bytes};
use crate::info::Info;
use crate::process::Process;
use std::collections::BTreeMap;
use weft_place::Resource;
use weft_types::{Error, ErrorClass, Handle, PeerId, Result, abi};

/// The info key that names a kind of hardware, both ways.
pub const RESOURCE_KEY: &str = "mpi_hw_resource_type";
/// The info key that names a process set.
pub const SET_KEY: &str = "mpi_pset_name";

/// Number of kinds of parts.
const KINDS: usize = Resource::ALL.len();

/// What one process asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// To be in no new communicator.
    Nothing,
    /// With those on the same node.
    Shared,
    /// With those restricted to the same part of this kind.
    Part(Resource),
    /// With those restricted to the same part, of the kind that divides the communicator least.
    Unguided,
    /// With those in the process set of this name.
    ProcessSet(Vec<u8>),
}

/// What `split_type` and `info` ask for.
///
/// # Errors
/// `MPI_ERR_ARG` for a `split_type` that does not exist; `MPI_ERR_INFO` when `info` names hardware and a process set.
pub fn criterion(split_type: i32, info: &Info) -> Result<Criterion> {
    let part = || match info.text(RESOURCE_KEY) {
        Some("mpi_shared_memory") => Criterion::Shared,
        Some(name) => Resource::parse(name).map_or(Criterion::Nothing, Criterion::Part),
        None => Criterion::Nothing,
    };
    Ok(match split_type {
        abi::MPI_COMM_TYPE_SHARED => Criterion::Shared,
        abi::MPI_COMM_TYPE_HW_GUIDED => part(),
        abi::MPI_COMM_TYPE_HW_UNGUIDED => Criterion::Unguided,
        abi::MPI_COMM_TYPE_RESOURCE_GUIDED => {
            match (info.get(RESOURCE_KEY.as_bytes())?, info.get(SET_KEY.as_bytes())?) {
                (Some(_), Some(_)) => {
                    let text =
                        format!("info has both {RESOURCE_KEY} and {SET_KEY}; a split follows one of them");
                    return Err(Error::new(ErrorClass::INFO, text));
                }
                (None, Some(name)) => Criterion::ProcessSet(name.to_vec()),
                _ => part(),
            }
        }
        abi::MPI_UNDEFINED => Criterion::Nothing,
        _ => {
            return Err(Error::new(
                ErrorClass::ARG,
                format!(
                    "split_type is {split_type}; it must be one of MPI_COMM_TYPE_SHARED, _HW_GUIDED, _HW_UNGUIDED, _RESOURCE_GUIDED, or MPI_UNDEFINED"
                ),
            ));
        }
    })
}

/// The part of each kind that a process is restricted to; [`SEVERAL`] for none.
type Parts = [u32; KINDS];

/// The process may use several parts of a kind, or there is none.
const SEVERAL: u32 = u32::MAX;

/// A new communicator, and for an unguided split the kind of part it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its handle.
    pub comm: Handle,
    /// What the members share.
    pub resource: Option<Resource>,
}

/// Bits of the all-reduce: the types given, then what is wished for.
const TYPES: [(i32, u64); 4] = [
    (abi::MPI_COMM_TYPE_SHARED, 1),
    (abi::MPI_COMM_TYPE_HW_GUIDED, 2),
    (abi::MPI_COMM_TYPE_HW_UNGUIDED, 4),
    (abi::MPI_COMM_TYPE_RESOURCE_GUIDED, 8),
];
const SHARED: u64 = 1 << 8;
const UNGUIDED: u64 = 1 << 9;
const SET: u64 = 1 << 10;
const FIRST_PART: u64 = 1 << 16;

fn kind_of(resource: Resource) -> usize {
    Resource::ALL.iter().position(|&other| other == resource).expect("all kinds are listed")
}

/// The bits of what one process gives.
fn bits(split_type: i32, criterion: &Criterion) -> u64 {
    let given = TYPES.iter().find(|(value, _)| *value == split_type).map_or(0, |(_, bit)| *bit);
    given
        | match criterion {
            Criterion::Nothing => 0,
            Criterion::Shared => SHARED,
            Criterion::Unguided => UNGUIDED,
            Criterion::ProcessSet(_) => SET,
            Criterion::Part(resource) => FIRST_PART << kind_of(*resource),
        }
}

/// What all want, of the union of all bits: one wish, or none.
fn common_wish(bits: u64) -> Result<u64> {
    let types = bits & (SHARED - 1);
    if types.count_ones() > 1 {
        return Err(Error::new(
            ErrorClass::ARG,
            "split_type differs between processes; all must give the same, or MPI_UNDEFINED",
        ));
    }
    let wishes = bits & !(SHARED - 1);
    if wishes.count_ones() > 1 {
        return Err(Error::new(
            ErrorClass::ARG,
            format!("info has different values of {RESOURCE_KEY}, or different keys, at different processes"),
        ));
    }
    Ok(wishes)
}

/// Splits a communicator; `None` when this process is in no new one. Collective over `parent`.
///
/// # Errors
/// `MPI_ERR_ARG`, at all processes, when they give different types or values; what went wrong on the way.
pub fn split<D: Driver>(
    driver: &D,
    parent: Handle,
    split_type: i32,
    criterion: &Criterion,
    key: i32,
) -> Result<Option<Made>> {
    let node = driver.with(|process| process.comms.get(parent).map(|_| process.job.node()))?;
    // The second word tells whether all are on one node: then no bit is set at one and clear at another.
    let nodes = u64::from(node) | u64::from(!node) << 32;
    let [bits, nodes] = union(driver, parent, [bits(split_type, criterion), nodes])?;
    let wish = common_wish(bits)?;
    let one_node = nodes as u32 & (nodes >> 32) as u32 == 0;
    let asks = *criterion != Criterion::Nothing;
    let by_node = asks.then_some(node as i32);
    let plain = |comm: Option<Handle>, resource| Ok(comm.map(|comm| Made { comm, resource }));
    match wish {
        0 => Ok(None),
        SHARED => plain(by_color(driver, parent, by_node, key)?, None),
        UNGUIDED if !one_node => plain(by_color(driver, parent, by_node, key)?, Some(Resource::Machine)),
        UNGUIDED => {
            let own = driver
                .with(|process| (parts(process), process.comms.get(parent).map(|comm| comm.everyone())));
            let (own, everyone) = (own.0, own.1?);
            let record = record_of(asks, &own);
            let all = allgather(driver, parent, everyone.size, &record)?;
            let records: Vec<Option<Parts>> = all.chunks_exact(record.len()).map(parts_of).collect();
            let kind = least_division(&records);
            let part = kind.filter(|_| asks).and_then(|kind| color(own[kind]));
            plain(by_color(driver, parent, part, key)?, kind.map(|kind| Resource::ALL[kind]))
        }
        SET => {
            let color = driver.with(|process| set_color(process, parent, criterion));
            plain(by_color(driver, parent, color, key)?, None)
        }
        _ => {
            let Some(on_node) = by_color(driver, parent, by_node, key)? else { return Ok(None) };
            let part = match criterion {
                Criterion::Part(resource) => driver.with(parts)[kind_of(*resource)],
                _ => SEVERAL,
            };
            // The order is that of the keys already; the rank keeps it.
            let made = by_color(driver, on_node, color(part), 0);
            driver.with(|process| {
                process.sessions.forget(on_node);
                process.free_comm(on_node)
            })?;
            plain(made?, None)
        }
    }
}

fn by_color<D: Driver>(driver: &D, parent: Handle, color: Option<i32>, key: i32) -> Result<Option<Handle>> {
    let construction = driver.with(|process| process.split(parent, color, key))?;
    driver.construct(parent, construction)
}

fn color(part: u32) -> Option<i32> {
    i32::try_from(part).ok()
}

/// A number that the members of this process's set of that name share, and no other process of a communicator from a session has.
fn set_color(process: &Process, parent: Handle, criterion: &Criterion) -> Option<i32> {
    let Criterion::ProcessSet(name) = criterion else { return None };
    process.sessions.origin(parent)?;
    let set = process.process_set(name)?;
    set.rank_of(PeerId(process.job.rank))?;
    set.peers().map(|peer| peer.0).min().and_then(color)
}

/// What this process is restricted to now.
fn parts(process: &mut Process) -> Parts {
    let machine = process.hardware();
    let cpus = process.present_cpus();
    let part = |kind: usize| {
        let machine = machine.as_ref()?;
        machine.parts.part_of(Resource::ALL[kind], &cpus).map(|part| part as u32)
    };
    let mut parts = std::array::from_fn(|kind| part(kind).unwrap_or(SEVERAL));
    // Nobody is on two nodes.
    parts[kind_of(Resource::Machine)] = 0;
    parts
}

/// The record of a process: whether it asks for anything, and its parts.
fn record_of(asks: bool, parts: &Parts) -> Vec<u8> {
    bytes_of_words(std::iter::once(u32::from(asks)).chain(parts.iter().copied()))
}

/// The parts of a process that asks.
fn parts_of(record: &[u8]) -> Option<Parts> {
    let words = words_of_bytes(record);
    (words[0] == 1).then(|| std::array::from_fn(|kind| words[1 + kind]))
}

/// The kind of part that divides processes on one node into proper subsets: the one that leaves out fewest of those who ask,
/// then the one with fewest parts, then the outermost. `None` when every kind leaves them whole.
fn least_division(records: &[Option<Parts>]) -> Option<usize> {
    let asking = || records.iter().flatten();
    let mut best: Option<(usize, usize, usize)> = None;
    for kind in 0..KINDS {
        let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
        for parts in asking().filter(|parts| parts[kind] != SEVERAL) {
            *sizes.entry(parts[kind]).or_default() += 1;
        }
        let inside: usize = sizes.values().sum();
        let proper = !sizes.is_empty() && sizes.values().all(|&size| size < records.len());
        let rating = (asking().count() - inside, sizes.len(), kind);
        if proper && best.is_none_or(|best| rating < best) {
            best = Some(rating);
        }
    }
    best.map(|(_, _, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_place::{CpuSet, Hardware};

    fn records(hardware: &Hardware, ranks: &[&str]) -> Vec<Option<Parts>> {
        let parts = |cpus: &&str| {
            let cpus: CpuSet = cpus.parse().expect("a list");
            let part = |kind: usize| hardware.part_of(Resource::ALL[kind], &cpus).map(|part| part as u32);
            let mut parts: Parts = std::array::from_fn(|kind| part(kind).unwrap_or(SEVERAL));
            parts[0] = 0;
            Some(parts)
        };
        ranks.iter().map(parts).collect()
    }

    /// Who is with `me`, and by what.
    fn unguided(records: &[Option<Parts>], me: usize) -> (Vec<usize>, Option<Resource>) {
        let Some(kind) = least_division(records) else { return (Vec::new(), None) };
        let part = |rank: usize| records[rank].map(|parts| parts[kind]).filter(|&part| part != SEVERAL);
        let members = (0..records.len()).filter(|&rank| part(me).is_some() && part(rank) == part(me));
        (members.collect(), Some(Resource::ALL[kind]))
    }

    #[test]
    fn unguided_splits_descend_level_by_level() {
        let machine = Hardware::synthetic("pack:2 l3:2 core:2 pu:1").expect("readable");
        let mut level = records(&machine, &["0", "1", "2", "3", "4", "5", "6", "7"]);
        let mut seen = Vec::new();
        loop {
            let (members, resource) = unguided(&level, 0);
            let Some(resource) = resource else { break };
            seen.push((resource, members.len()));
            level = members.iter().map(|&rank| level[rank]).collect();
        }
        assert_eq!(seen, [(Resource::Package, 4), (Resource::L3Cache, 2), (Resource::Core, 1)]);
    }

    #[test]
    fn who_may_use_several_parts_is_left_out() {
        let machine = Hardware::synthetic("pack:2 core:2 pu:1").expect("readable");
        let four = records(&machine, &["0", "1", "2", "1-2"]);
        assert_eq!(unguided(&four, 0), (vec![0, 1], Some(Resource::Package)));
        assert_eq!(unguided(&four, 2), (vec![2], Some(Resource::Package)));
        assert_eq!(unguided(&four, 3), (vec![], Some(Resource::Package)));
        assert_eq!(unguided(&records(&machine, &["0-3", "0-3"]), 0), (vec![], None));
        let alone = records(&machine, &["2"]);
        assert_eq!(unguided(&alone, 0), (vec![], None), "a process alone has no proper subset");
    }

    #[test]
    fn who_does_not_ask_makes_the_others_a_proper_subset() {
        let machine = Hardware::synthetic("pack:2 core:2 pu:1").expect("readable");
        let mut three = records(&machine, &["0", "1", "1"]);
        three[2] = None;
        assert_eq!(unguided(&three, 0), (vec![0, 1], Some(Resource::Machine)));
        assert_eq!(unguided(&three, 2), (vec![], Some(Resource::Machine)));
    }

    #[test]
    fn arguments_are_read() {
        let info = |pairs: &[(&str, &str)]| {
            let mut info = Info::default();
            pairs.iter().for_each(|(key, value)| info.set(key.as_bytes(), value.as_bytes()).expect("legal"));
            info
        };
        let (guided, by_resource) = (abi::MPI_COMM_TYPE_HW_GUIDED, abi::MPI_COMM_TYPE_RESOURCE_GUIDED);
        let set = info(&[(SET_KEY, "mpi://WORLD")]);
        let table = [
            (guided, info(&[]), Criterion::Nothing),
            (guided, info(&[(RESOURCE_KEY, "NUMANode")]), Criterion::Part(Resource::NumaNode)),
            (guided, info(&[(RESOURCE_KEY, "hwloc://L3Cache")]), Criterion::Part(Resource::L3Cache)),
            (guided, info(&[(RESOURCE_KEY, "mpi_shared_memory")]), Criterion::Shared),
            (guided, info(&[(RESOURCE_KEY, "moon")]), Criterion::Nothing),
            (guided, set.clone(), Criterion::Nothing),
            (by_resource, set, Criterion::ProcessSet(b"mpi://WORLD".to_vec())),
            (by_resource, info(&[(RESOURCE_KEY, "Core")]), Criterion::Part(Resource::Core)),
            (abi::MPI_COMM_TYPE_HW_UNGUIDED, info(&[]), Criterion::Unguided),
            (abi::MPI_UNDEFINED, info(&[]), Criterion::Nothing),
        ];
        for (split_type, info, expected) in table {
            assert_eq!(criterion(split_type, &info), Ok(expected), "{info:?}");
        }
        let both = info(&[(RESOURCE_KEY, "Core"), (SET_KEY, "mpi://WORLD")]);
        assert_eq!(criterion(by_resource, &both).expect_err("both").class(), ErrorClass::INFO);
        assert_eq!(criterion(77, &Info::default()).expect_err("no type").class(), ErrorClass::ARG);
    }

    #[test]
    fn different_wishes_are_found_by_all() {
        let shared = bits(abi::MPI_COMM_TYPE_SHARED, &Criterion::Shared);
        let nothing = bits(abi::MPI_UNDEFINED, &Criterion::Nothing);
        let guided = |criterion| bits(abi::MPI_COMM_TYPE_HW_GUIDED, &criterion);
        assert_eq!(common_wish(shared | nothing), Ok(SHARED));
        assert_eq!(common_wish(nothing), Ok(0));
        assert_eq!(common_wish(guided(Criterion::Nothing)), Ok(0));
        let error = common_wish(shared | guided(Criterion::Shared)).expect_err("types");
        assert!(error.text().starts_with("split_type differs"));
        let cores = guided(Criterion::Part(Resource::Core));
        assert!(common_wish(cores | guided(Criterion::Nothing)).is_ok(), "some may have no part in it");
        assert!(common_wish(cores | guided(Criterion::Part(Resource::Pu))).is_err());
    }

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(asks in any::<bool>(), parts in any::<Parts>()) {
            prop_assert_eq!(parts_of(&record_of(asks, &parts)), asks.then_some(parts));
        }

        #[test]
        fn unguided_groups_are_proper_subsets(parts in prop::collection::vec((0u32..3, 0u32..4, any::<bool>()), 1..12)) {
            let records: Vec<Option<Parts>> = parts
                .into_iter()
                .map(|(package, core, asks)| {
                    let mut parts = [SEVERAL; KINDS];
                    parts[0] = 0;
                    parts[1] = if package == 2 { SEVERAL } else { package };
                    parts[7] = if core == 3 { SEVERAL } else { 4 * package + core };
                    asks.then_some(parts)
                })
                .collect();
            for me in 0..records.len() {
                let (members, _) = unguided(&records, me);
                prop_assert!(members.len() < records.len());
                prop_assert!(members.is_empty() || members.contains(&me));
                for &member in &members {
                    prop_assert_eq!(&unguided(&records, member).0, &members);
                }
            }
        }
    }
}
