//! `MPI_Comm_split_type` (section 7.4.2): communicators of processes that share memory, utilise one part of the hardware, or are
//! in one process set.
//!
//! Every process tells all others what it asks for and which part of each kind it is restricted to; then everybody decides alike.
//! Parts are recognised by node and number, so that two nodes of one make do not mix.

use super::steps::{Driver, allgather};
use crate::group::Group;
use crate::info::Info;
use crate::process::Process;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_place::Resource;
use weft_types::{Error, ErrorClass, Handle, Rank, Result, abi};

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

/// What one process tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    split_type: i32,
    key: i32,
    node: u32,
    /// What it wants to share: a number that is the same for the same wish, 0 for none.
    wish: u64,
    /// The part of each kind it is restricted to; [`Record::SEVERAL`] for none.
    parts: [u32; KINDS],
}

impl Record {
    const SEVERAL: u32 = u32::MAX;
    const BYTES: usize = 20 + 4 * KINDS;

    fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Record::BYTES);
        bytes.extend(self.split_type.to_le_bytes());
        bytes.extend(self.key.to_le_bytes());
        bytes.extend(self.node.to_le_bytes());
        bytes.extend(self.wish.to_le_bytes());
        bytes.extend(self.parts.iter().flat_map(|part| part.to_le_bytes()));
        bytes
    }

    fn parse(bytes: &[u8]) -> Record {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Record {
            split_type: word(0) as i32,
            key: word(4) as i32,
            node: word(8),
            wish: u64::from(word(12)) | u64::from(word(16)) << 32,
            parts: std::array::from_fn(|kind| word(20 + 4 * kind)),
        }
    }

    /// The part of a kind, told apart from those of other nodes.
    fn part(&self, kind: usize) -> Option<(u32, u32)> {
        (self.parts[kind] != Record::SEVERAL).then_some((self.node, self.parts[kind]))
    }
}

/// A new communicator, and for an unguided split the kind of part it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its handle.
    pub comm: Handle,
    /// What the members share.
    pub resource: Option<Resource>,
}

/// Splits a communicator; `None` when this process is in no new one. Collective over `parent`.
///
/// # Errors
/// `MPI_ERR_ARG`, at all processes, when they give different types; what went wrong on the way.
pub fn split<D: Driver>(
    driver: &D,
    parent: Handle,
    split_type: i32,
    criterion: &Criterion,
    key: i32,
) -> Result<Option<Made>> {
    let (size, record) = driver.with(|process| describe(process, parent, split_type, criterion, key))?;
    let all = allgather(driver, parent, size, &record.emit())?;
    let records: Vec<Record> = all.chunks_exact(Record::BYTES).map(Record::parse).collect();
    check_types(&records)?;
    let begun = driver.with(|process| {
        let comm = process.comms.get(parent)?;
        let me = comm.rank.0 as usize;
        let (members, resource) = match criterion {
            Criterion::Nothing => (Vec::new(), None),
            Criterion::Shared => {
                (together(&records, me, |other| (other.wish == records[me].wish).then_some(other.node)), None)
            }
            Criterion::Part(resource) => {
                let kind = kind_of(*resource);
                let part = |other: &Record| other.part(kind).filter(|_| other.wish == records[me].wish);
                (together(&records, me, part), None)
            }
            Criterion::Unguided => match least_division(&records) {
                Some(kind) => {
                    let part = |other: &Record| other.part(kind).filter(|_| other.wish == UNGUIDED);
                    (together(&records, me, part), Some(Resource::ALL[kind]))
                }
                None => (Vec::new(), None),
            },
            Criterion::ProcessSet(name) => {
                let set = process.process_set(name).filter(|_| comm.of_session);
                let wish = records[me].wish;
                let inside = |rank: usize| {
                    let peer = comm.group.peer(Rank(rank as u32));
                    records[rank].wish == wish && set.as_ref().is_some_and(|set| set.rank_of(peer).is_some())
                };
                let members = (0..records.len()).filter(|&rank| inside(rank));
                (if inside(me) { in_order(&records, members) } else { Vec::new() }, None)
            }
        };
        let peers = members.iter().map(|&rank| comm.group.peer(Rank(rank))).collect();
        Ok((process.create(parent, &Arc::new(Group::from_peers(peers)))?, resource))
    });
    let (mut construction, resource) = begun?;
    let made = driver.wait(|process| construction.poll(process).transpose())?;
    Ok(made.map(|comm| Made { comm, resource }))
}

/// Wishes that are no names of process sets.
const NOTHING: u64 = 0;
const SHARED: u64 = 1;
const UNGUIDED: u64 = 2;
const FIRST_KIND: u64 = 16;
const FIRST_SET: u64 = 1 << 32;

fn kind_of(resource: Resource) -> usize {
    Resource::ALL.iter().position(|&other| other == resource).expect("all kinds are listed")
}

fn describe(
    process: &mut Process,
    parent: Handle,
    split_type: i32,
    criterion: &Criterion,
    key: i32,
) -> Result<(u32, Record)> {
    let size = process.comms.get(parent)?.size;
    let wish = match criterion {
        Criterion::Nothing => NOTHING,
        Criterion::Shared => SHARED,
        Criterion::Part(resource) => FIRST_KIND + kind_of(*resource) as u64,
        Criterion::Unguided => UNGUIDED,
        Criterion::ProcessSet(name) => {
            // FNV-1a.
            let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            hash | FIRST_SET
        }
    };
    let needs_parts = matches!(criterion, Criterion::Part(_) | Criterion::Unguided);
    let machine = if needs_parts { process.hardware() } else { None };
    let cpus = process.present_cpus();
    let part = |kind: usize| {
        let machine = machine.as_ref()?;
        machine.parts.part_of(Resource::ALL[kind], &cpus).map(|part| part as u32)
    };
    let mut parts = std::array::from_fn(|kind| part(kind).unwrap_or(Record::SEVERAL));
    // Nobody is on two nodes.
    parts[kind_of(Resource::Machine)] = 0;
    Ok((size, Record { split_type, key, node: process.job.node(), wish, parts }))
}

fn check_types(records: &[Record]) -> Result<()> {
    let mut given = records.iter().zip(0..).filter(|(record, _)| record.split_type != abi::MPI_UNDEFINED);
    let Some((first, at)) = given.next() else { return Ok(()) };
    match given.find(|(record, _)| record.split_type != first.split_type) {
        None => Ok(()),
        Some((other, there)) => Err(Error::new(
            ErrorClass::ARG,
            format!(
                "split_type is {} at rank {at} and {} at rank {there}; all must give the same, or MPI_UNDEFINED",
                first.split_type, other.split_type
            ),
        )),
    }
}

/// The ranks by key and then by rank.
fn in_order(records: &[Record], ranks: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut ranks: Vec<u32> = ranks.map(|rank| rank as u32).collect();
    ranks.sort_by_key(|&rank| (records[rank as usize].key, rank));
    ranks
}

/// Those who share with `me`, in order; nobody when it shares nothing.
fn together<T: PartialEq>(records: &[Record], me: usize, shared: impl Fn(&Record) -> Option<T>) -> Vec<u32> {
    let Some(mine) = shared(&records[me]) else { return Vec::new() };
    let all = 0..records.len();
    in_order(records, all.filter(|&rank| shared(&records[rank]).as_ref() == Some(&mine)))
}

/// The kind of part that divides a communicator into proper subsets: the one that leaves out fewest processes, then the one with fewest
/// parts, then the outermost. `None` when every kind leaves it whole.
fn least_division(records: &[Record]) -> Option<usize> {
    let asking = || records.iter().filter(|record| record.wish == UNGUIDED);
    let mut best: Option<(usize, usize, usize)> = None;
    for kind in 0..KINDS {
        let mut sizes: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for part in asking().filter_map(|record| record.part(kind)) {
            *sizes.entry(part).or_default() += 1;
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

    fn records(nodes: &[(&Hardware, &[&str])]) -> Vec<Record> {
        let mut records = Vec::new();
        for (node, (hardware, ranks)) in (0..).zip(nodes) {
            for cpus in *ranks {
                let cpus: CpuSet = cpus.parse().expect("a list");
                let part = |kind: usize| hardware.part_of(Resource::ALL[kind], &cpus).map(|part| part as u32);
                let mut parts = std::array::from_fn(|kind| part(kind).unwrap_or(Record::SEVERAL));
                parts[0] = 0;
                records.push(Record {
                    split_type: abi::MPI_COMM_TYPE_HW_UNGUIDED,
                    key: 0,
                    node,
                    wish: UNGUIDED,
                    parts,
                });
            }
        }
        records
    }

    fn unguided(records: &[Record], me: usize) -> (Vec<u32>, Option<Resource>) {
        match least_division(records) {
            None => (Vec::new(), None),
            Some(kind) => (together(records, me, |other| other.part(kind)), Some(Resource::ALL[kind])),
        }
    }

    #[test]
    fn unguided_splits_descend_level_by_level() {
        let machine = Hardware::synthetic("pack:2 l3:2 core:2 pu:1").expect("readable");
        let ranks: Vec<String> = (0..8).map(|cpu| cpu.to_string()).collect();
        let ranks: Vec<&str> = ranks.iter().map(String::as_str).collect();
        let mut level = records(&[(&machine, &ranks), (&machine, &ranks)]);
        let mut seen = Vec::new();
        loop {
            let (members, resource) = unguided(&level, 0);
            let Some(resource) = resource else { break };
            seen.push((resource, members.len()));
            level = members.iter().map(|&rank| level[rank as usize].clone()).collect();
        }
        use Resource::*;
        assert_eq!(seen, [(Machine, 8), (Package, 4), (L3Cache, 2), (Core, 1)]);
    }

    #[test]
    fn who_may_use_several_parts_is_left_out() {
        let machine = Hardware::synthetic("pack:2 core:2 pu:1").expect("readable");
        let four = records(&[(&machine, &["0", "1", "2", "1-2"])]);
        assert_eq!(unguided(&four, 0), (vec![0, 1], Some(Resource::Package)));
        assert_eq!(unguided(&four, 2), (vec![2], Some(Resource::Package)));
        assert_eq!(unguided(&four, 3), (vec![], Some(Resource::Package)));
        let free = records(&[(&machine, &["0-3", "0-3"])]);
        assert_eq!(unguided(&free, 0), (vec![], None));
        let one = records(&[(&machine, &["2"])]);
        assert_eq!(unguided(&one, 0), (vec![], None), "a process alone has no proper subset");
    }

    #[test]
    fn parts_of_different_nodes_are_different() {
        let machine = Hardware::synthetic("pack:2 core:1 pu:1").expect("readable");
        let four = records(&[(&machine, &["0", "1"]), (&machine, &["0", "1"])]);
        let package = kind_of(Resource::Package);
        assert_eq!(together(&four, 2, |other| other.part(package)), [2]);
        assert_eq!(together(&four, 3, |other| Some(other.node)), [2, 3]);
    }

    #[test]
    fn ranks_follow_keys_then_ranks() {
        let machine = Hardware::synthetic("core:4 pu:1").expect("readable");
        let mut four = records(&[(&machine, &["0", "1", "2", "3"])]);
        for (record, key) in four.iter_mut().zip([5, -1, 5, i32::MIN]) {
            record.key = key;
        }
        assert_eq!(together(&four, 0, |other| Some(other.node)), [3, 1, 0, 2]);
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
    fn different_types_are_found_by_all() {
        let machine = Hardware::synthetic("core:3 pu:1").expect("readable");
        let mut three = records(&[(&machine, &["0", "1", "2"])]);
        three[1].split_type = abi::MPI_UNDEFINED;
        assert_eq!(check_types(&three), Ok(()));
        three[2].split_type = abi::MPI_COMM_TYPE_SHARED;
        assert!(check_types(&three).expect_err("different").text().contains("at rank 2"));
    }

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(
            (split_type, key, node) in any::<(i32, i32, u32)>(),
            wish in any::<u64>(),
            parts in any::<[u32; KINDS]>(),
        ) {
            let record = Record { split_type, key, node, wish, parts };
            let bytes = record.emit();
            prop_assert_eq!(bytes.len(), Record::BYTES);
            prop_assert_eq!(Record::parse(&bytes), record);
        }

        #[test]
        fn unguided_groups_are_proper_subsets(parts in prop::collection::vec((0u32..3, 0u32..3, 0u32..4), 1..12)) {
            let records: Vec<Record> = parts
                .into_iter()
                .map(|(node, package, core)| {
                    let mut parts = [Record::SEVERAL; KINDS];
                    parts[0] = 0;
                    parts[1] = if package == 2 { Record::SEVERAL } else { package };
                    parts[7] = if core == 3 { Record::SEVERAL } else { 4 * package + core };
                    Record { split_type: 0, key: 0, node, wish: UNGUIDED, parts }
                })
                .collect();
            for me in 0..records.len() {
                let (members, _) = unguided(&records, me);
                prop_assert!(members.len() < records.len());
                prop_assert!(members.is_empty() || members.contains(&(me as u32)));
                for &member in &members {
                    prop_assert_eq!(&unguided(&records, member as usize).0, &members);
                }
            }
        }
    }
}
