//! The card Weft's mpiexec gives each rank: the variable `WEFT_JOB`.
//!
//! `key=value;key=value;...`, values percent-encoded, so that a rank knows everything it needs without a
//! message. Unknown keys are ignored, so that an older library runs under a newer mpiexec; the key `v` is the version and
//! is raised when an old reader would misunderstand.

use weft_place::{CpuSet, LaneCore};
use weft_types::{Error, ErrorClass, Result};

use crate::nodes::Nodes;
use crate::pmi::wire1::{decode_word, encode_word};

/// Name of the environment variable that carries the card.
pub const VARIABLE: &str = "WEFT_JOB";

/// Name of the environment variable with the number of the inherited descriptor of the node segment.
pub const NODE_FD_VARIABLE: &str = "WEFT_NODE_FD";

const VERSION: &str = "1";

/// A named set of processes (section 11.3.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSet {
    /// Its name, a URI.
    pub name: String,
    /// Its members by their ranks in the job, ascending.
    pub ranks: Vec<u32>,
}

/// What the launcher tells one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Size of MPI_COMM_WORLD.
    pub size: u32,
    /// Name of the job, unique on this node while the job lives.
    pub job_id: String,
    /// Which program of the command line this is, from 0 (MPI_APPNUM).
    pub appnum: i32,
    /// MPI_UNIVERSE_SIZE, where the launcher knows it.
    pub universe_size: Option<i32>,
    /// Ranks on this node, ascending.
    pub local_ranks: Vec<u32>,
    /// The node of every rank. A card that does not tell (of an older mpiexec) is one of a job on one node.
    pub nodes: Nodes,
    /// Cores the ranks of this node may use together.
    pub cores: usize,
    /// CPUs this rank is bound to; `None` when it is not bound.
    pub binding: Option<CpuSet>,
    /// NUMA node this rank was placed on.
    pub numa_node: Option<u32>,
    /// The RDMA device that this rank shall use: the nearest to its CPUs, shared evenly where several are.
    pub rail: Option<String>,
    /// CPUs for its progress agent, which no rank is bound to; `None`: those of the rank.
    pub agent: Option<CpuSet>,
    /// The core of each lane, and then of further threads; empty when nobody said how many threads the rank has.
    pub lanes: Vec<LaneCore>,
    /// CPUs of each of the local ranks, in their order; empty when none was given any. On a machine that is only described
    /// (`HWLOC_XMLFILE`, `HWLOC_SYNTHETIC`) these are CPUs of the description, and nobody is bound.
    pub local_cpus: Vec<CpuSet>,
    /// Program and arguments as given to mpiexec.
    pub command: Vec<String>,
    /// Number of processes asked for this program.
    pub maxprocs: u32,
    /// Working directory asked for on the command line.
    pub wdir: Option<String>,
    /// Value of `--initial-errhandler`.
    pub initial_errhandler: Option<String>,
    /// Value of `--memory-alloc-kinds`.
    pub memory_alloc_kinds: Option<String>,
    /// Further requests for this program, by the keys of MPI_INFO_ENV.
    pub asked: Vec<(String, String)>,
    /// The job's process sets but for those the standard names.
    pub psets: Vec<ProcessSet>,
    /// Inode of the node segment, by which a rank knows that the inherited descriptor still is what it was.
    pub segment_inode: u64,
}

impl Card {
    /// The text for [`VARIABLE`].
    pub fn emit(&self) -> String {
        let mut text = format!("v={VERSION}");
        field(&mut text, "rank", self.rank);
        field(&mut text, "size", self.size);
        field(&mut text, "job", &self.job_id);
        field(&mut text, "app", self.appnum);
        field(&mut text, "local", ranks_text(&self.local_ranks));
        field(&mut text, "nodes", &self.nodes);
        field(&mut text, "cores", self.cores);
        field(&mut text, "maxprocs", self.maxprocs);
        field(&mut text, "inode", self.segment_inode);
        optional(&mut text, "universe", self.universe_size);
        optional(&mut text, "bind", self.binding.as_ref());
        optional(&mut text, "numa", self.numa_node);
        optional(&mut text, "rail", self.rail.as_ref());
        optional(&mut text, "agent", self.agent.as_ref());
        if !self.lanes.is_empty() {
            field(&mut text, "lanes", self.lanes.iter().map(lane_text).collect::<Vec<_>>().join("/"));
        }
        if !self.local_cpus.is_empty() {
            let lists: Vec<String> = self.local_cpus.iter().map(CpuSet::to_string).collect();
            field(&mut text, "cpus", lists.join("/"));
        }
        optional(&mut text, "wdir", self.wdir.as_ref());
        optional(&mut text, "errhandler", self.initial_errhandler.as_ref());
        optional(&mut text, "memkinds", self.memory_alloc_kinds.as_ref());
        for word in &self.command {
            field(&mut text, "arg", word);
        }
        for (key, value) in &self.asked {
            field(&mut text, "ask", format!("{key}={value}"));
        }
        for set in &self.psets {
            field(&mut text, "pset", format!("{} {}", ranks_text(&set.ranks), set.name));
        }
        text
    }

    /// Reads the text of [`VARIABLE`].
    ///
    /// Errors: class `MPI_ERR_OTHER`, naming the field; the variable was changed, or comes from another version.
    pub fn parse(text: &str) -> Result<Card> {
        let mut card = Card::default();
        let (mut version, mut rank, mut size, mut nodes) = (None, None, None, None);
        for item in text.split(';').filter(|item| !item.is_empty()) {
            let (key, encoded) = item.split_once('=').ok_or_else(|| bad(item, "is not key=value"))?;
            let value = decode_word(encoded).ok_or_else(|| bad(item, "is not percent-encoded UTF-8"))?;
            match key {
                "v" => version = Some(value),
                "rank" => rank = Some(number(item, &value)?),
                "size" => size = Some(number(item, &value)?),
                "job" => card.job_id = value,
                "app" => card.appnum = number(item, &value)?,
                "local" => card.local_ranks = parse_ranks(item, &value)?,
                "nodes" => nodes = Some(value),
                "cores" => card.cores = number(item, &value)?,
                "inode" => card.segment_inode = number(item, &value)?,
                "maxprocs" => card.maxprocs = number(item, &value)?,
                "universe" => card.universe_size = Some(number(item, &value)?),
                "bind" => card.binding = Some(number(item, &value)?),
                "rail" => card.rail = Some(value),
                "agent" => card.agent = Some(number(item, &value)?),
                "numa" => card.numa_node = Some(number(item, &value)?),
                "lanes" => {
                    card.lanes =
                        value.split('/').map(|lane| parse_lane(item, lane)).collect::<Result<_>>()?;
                }
                "cpus" => {
                    card.local_cpus =
                        value.split('/').map(|list| number(item, list)).collect::<Result<_>>()?;
                }
                "wdir" => card.wdir = Some(value),
                "errhandler" => card.initial_errhandler = Some(value),
                "memkinds" => card.memory_alloc_kinds = Some(value),
                "arg" => card.command.push(value),
                "ask" => {
                    card.asked.extend(value.split_once('=').map(|(key, value)| (key.into(), value.into())))
                }
                "pset" => card.psets.push(parse_set(item, &value)?),
                _ => {}
            }
        }
        if version.as_deref() != Some(VERSION) {
            return Err(bad(
                text,
                "was written by another version of mpiexec; start the program with the mpiexec of the same installation",
            ));
        }
        card.rank = rank.ok_or_else(|| bad(text, "lacks the field rank"))?;
        card.size = size.ok_or_else(|| bad(text, "lacks the field size"))?;
        card.nodes = match nodes {
            None => Nodes::one(card.size),
            Some(nodes) => Nodes::parse(&nodes, card.size)
                .ok_or_else(|| bad(&nodes, "does not tell which rank is on which node"))?,
        };
        card.check(text)?;
        Ok(card)
    }

    fn check(&self, text: &str) -> Result<()> {
        if self.rank >= self.size {
            return Err(bad(text, "names a rank outside the job"));
        }
        let ascending = self.local_ranks.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = self.local_ranks.last().is_some_and(|&last| last < self.size);
        if !ascending || !inside || !self.local_ranks.contains(&self.rank) {
            return Err(bad(text, "names local ranks that do not fit the job"));
        }
        let node = self.nodes.node(self.rank);
        if self.local_ranks.iter().any(|&rank| self.nodes.node(rank) != node) {
            return Err(bad(text, "names local ranks that are on different nodes"));
        }
        if self.cores == 0 {
            return Err(bad(text, "names no cores"));
        }
        let sound = |set: &ProcessSet| {
            set.ranks.is_sorted_by(|a, b| a < b) && set.ranks.last().is_some_and(|&last| last < self.size)
        };
        if !self.psets.iter().all(sound) {
            return Err(bad(text, "names process sets that do not fit the job"));
        }
        if !self.local_cpus.is_empty() && self.local_cpus.len() != self.local_ranks.len() {
            return Err(bad(text, "names CPUs for another number of local ranks"));
        }
        Ok(())
    }
}

fn field(text: &mut String, key: &str, value: impl ToString) {
    text.push(';');
    text.push_str(key);
    text.push('=');
    text.push_str(&encode_word(&value.to_string()));
}

fn optional(text: &mut String, key: &str, value: Option<impl ToString>) {
    if let Some(value) = value {
        field(text, key, value);
    }
}

/// A lane's CPUs and, behind `@`, their NUMA node.
fn lane_text(lane: &LaneCore) -> String {
    match lane.numa_node {
        Some(node) => format!("{}@{node}", lane.cpus),
        None => lane.cpus.to_string(),
    }
}

fn parse_lane(item: &str, text: &str) -> Result<LaneCore> {
    let (cpus, node) = text.split_once('@').map_or((text, None), |(cpus, node)| (cpus, Some(node)));
    let node = node.map(|node| number(item, node)).transpose()?;
    Ok(LaneCore { cpus: number(item, cpus)?, numa_node: node })
}

/// Ascending ranks as ranges (`0-7,9`): short for the usual job.
pub(crate) fn ranks_text(ranks: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = ranks;
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..).take_while(|&(&rank, expected)| rank == expected).count();
        if !text.is_empty() {
            text.push(',');
        }
        match run {
            1 => text.push_str(&first.to_string()),
            _ => text.push_str(&format!("{first}-{}", rest[run - 1])),
        }
        rest = &rest[run..];
    }
    text
}

fn parse_ranks(item: &str, text: &str) -> Result<Vec<u32>> {
    /// More ranks than this do not live on one node; a damaged range must not fill the memory.
    const MOST: usize = 1 << 20;
    let mut ranks = Vec::new();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (first, last): (u32, u32) = match range.split_once('-') {
            Some((first, last)) => (number(item, first)?, number(item, last)?),
            None => {
                let rank = number(item, range)?;
                (rank, rank)
            }
        };
        if first > last || ranks.len() + (last - first) as usize >= MOST {
            return Err(bad(item, "has a range that is no list of ranks"));
        }
        ranks.extend(first..=last);
    }
    Ok(ranks)
}

/// Reads ranks as they are written in the card and in requests to the launcher (`0-7,9`), ascending.
///
/// Errors: class `MPI_ERR_OTHER`, naming the text.
pub fn parse_rank_list(text: &str) -> Result<Vec<u32>> {
    let ranks = parse_ranks(text, text)?;
    match ranks.is_sorted_by(|a, b| a < b) {
        true => Ok(ranks),
        false => Err(bad(text, "is no ascending list of ranks")),
    }
}

/// As [`parse_rank_list`], of ranks in any order and named more than once; returns them ascending, each once.
///
/// Errors: class `MPI_ERR_OTHER`, naming the text.
pub fn parse_ranks_in_any_order(text: &str) -> Result<Vec<u32>> {
    let mut ranks = parse_ranks(text, text)?;
    ranks.sort_unstable();
    ranks.dedup();
    Ok(ranks)
}

fn parse_set(item: &str, text: &str) -> Result<ProcessSet> {
    let (ranks, name) = text.split_once(' ').ok_or_else(|| bad(item, "has a process set without a name"))?;
    Ok(ProcessSet { name: name.to_owned(), ranks: parse_ranks(item, ranks)? })
}

fn number<T: std::str::FromStr>(item: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| bad(item, "has a value that cannot be read"))
}

fn bad(item: &str, why: &str) -> Error {
    Error::new(
        ErrorClass::OTHER,
        format!(
            "the variable {VARIABLE}, set by mpiexec for its ranks, cannot be used: {item:?} {why}. Unset it to run without mpiexec"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_card() -> impl Strategy<Value = Card> {
        let strings = (
            ".{0,12}",
            prop::option::of(".{0,12}"),
            prop::option::of(".{0,12}"),
            prop::option::of(".{0,12}"),
        );
        let numbers = (1u32..5000, any::<prop::sample::Index>(), 1usize..512, 0u32..9, -3i32..50);
        let places = (prop::option::of(prop::collection::vec(0usize..300, 1..9)), prop::option::of(0u32..16));
        let flags = prop::collection::vec(any::<bool>(), 0..64);
        let command = prop::collection::vec(".{0,12}", 0..5);
        (strings, numbers, places, flags, command).prop_map(|(strings, numbers, places, flags, command)| {
            let (size, index, cores, maxprocs, appnum) = numbers;
            let rank = index.index(size as usize) as u32;
            let mut local_ranks: Vec<u32> =
                (0..size).filter(|&r| r == rank || flags.get(r as usize).copied().unwrap_or(false)).collect();
            local_ranks.dedup();
            let psets = vec![ProcessSet { name: format!("a://{appnum}"), ranks: local_ranks.clone() }];
            Card {
                rank,
                size,
                job_id: strings.0,
                appnum,
                universe_size: places.1.map(|n| n as i32),
                cores,
                local_cpus: match &places.0 {
                    Some(cpus) => {
                        (0..local_ranks.len()).map(|at| cpus.iter().map(|cpu| cpu + at).collect()).collect()
                    }
                    None => Vec::new(),
                },
                binding: places.0.map(|cpus| cpus.into_iter().collect()),
                numa_node: places.1,
                nodes: Nodes::listed(
                    &(0..size).map(|rank| u32::from(!local_ranks.contains(&rank))).collect::<Vec<u32>>(),
                ),
                local_ranks,
                command,
                maxprocs,
                lanes: (0..cores % 5)
                    .map(|at| LaneCore {
                        cpus: CpuSet::from_iter([at, at + cores]),
                        numa_node: (at % 2 == 0).then_some(appnum.unsigned_abs()),
                    })
                    .collect(),
                rail: strings.1.clone(),
                agent: maxprocs.is_multiple_of(2).then(|| CpuSet::from_iter([maxprocs as usize % 77])),
                wdir: strings.1,
                initial_errhandler: strings.2,
                memory_alloc_kinds: strings.3.clone(),
                asked: strings.3.map(|value| ("soft".to_owned(), value)).into_iter().collect(),
                psets,
                segment_inode: u64::MAX - u64::from(maxprocs),
            }
        })
    }

    proptest! {
        #[test]
        fn a_card_is_read_as_it_was_written(card in any_card()) {
            prop_assert_eq!(Card::parse(&card.emit()), Ok(card));
        }

        #[test]
        fn a_damaged_card_is_refused_or_sound(card in any_card(), at in any::<prop::sample::Index>(), byte in 32u8..127) {
            let mut bytes = card.emit().into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(card) = Card::parse(&String::from_utf8_lossy(&bytes)) {
                prop_assert!(card.rank < card.size && card.local_ranks.contains(&card.rank) && card.cores > 0);
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,80}") {
            let _ = Card::parse(&text);
        }
    }

    #[test]
    fn a_card_of_another_version_says_what_to_do() {
        let error = Card::parse("v=9;rank=0;size=1").expect_err("another version");
        assert!(error.text().contains("mpiexec of the same installation"), "{error}");
    }
}
