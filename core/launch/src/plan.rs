//! From what is asked for to what is started: every rank with its program, environment and place.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use weft_boot::card::{self, Card, ProcessSet};
use weft_boot::machine::{Described, LiveSystem, allowed_cpus, described, usable};
use weft_place::devices::{self, Device};
use weft_place::policy::{self, BindTo};
use weft_place::{CpuSet, Placement, Topology, agents, described, lanes};

use crate::machine;
use crate::options::{Section, Settings};
use crate::placing;
use crate::resolve::{self, Unstartable};

/// A job ready to be started.
pub(crate) struct Plan {
    /// Name of the job.
    pub(crate) job_id: String,
    /// This machine.
    pub(crate) host: String,
    /// The ranks in order.
    pub(crate) ranks: Vec<RankPlan>,
    /// MPI_UNIVERSE_SIZE.
    pub(crate) universe_size: u32,
    /// Lines of `--report-bindings`.
    pub(crate) bindings: Vec<String>,
    /// What the user should know before the job starts.
    pub(crate) notes: Vec<String>,
}

/// Variables and their values.
pub(crate) type Environment = BTreeMap<OsString, OsString>;

/// One rank.
pub(crate) struct RankPlan {
    /// Which section it belongs to.
    pub(crate) appnum: i32,
    /// Absolute path of the program.
    pub(crate) executable: PathBuf,
    /// Program as given.
    pub(crate) program: OsString,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Working directory.
    pub(crate) wdir: PathBuf,
    /// What it is told about the job; the inode of the node segment is still missing.
    pub(crate) card: Card,
    /// Its whole environment, but for the card and what depends on descriptors.
    pub(crate) environment: Environment,
    /// CPUs it is bound to.
    pub(crate) binding: Option<CpuSet>,
}

/// Plans the job, or says why it cannot be started.
pub(crate) fn plan(sections: &[Section], settings: &Settings) -> Result<Plan, Unstartable> {
    let host = machine::host_name();
    let refuse = |why: String, code: i32| Unstartable { why, code };
    let notes = allocation_note().into_iter().collect();
    let size: u32 = sections.iter().map(|section| section.count).sum();
    let allowed = allowed_cpus();
    let threads: Vec<u32> = sections
        .iter()
        .flat_map(|section| std::iter::repeat_n(placing::number(section), section.count as usize))
        .collect();
    let (bind_to, map_by) = lanes::complete(&threads, settings.bind_to, settings.map_by);
    let nothing_to_place = bind_to == BindTo::None && !settings.report_bindings;
    let described = match described_machine() {
        // Nothing here asks for it; the ranks tell what they cannot do without.
        Err(_) if nothing_to_place => None,
        described => described.map_err(|why| refuse(why, 2))?,
    };
    let is_here = described.as_ref().is_none_or(|machine| machine.is_here);
    let free = || vec![policy::unbound(); size as usize];
    let own_rails =
        |devices: &[Device]| devices::assign_names(devices, &vec![allowed.clone(); size as usize]);
    let (placements, local_cpus, rails, agents, bindings) = if nothing_to_place {
        let devices = described.filter(|machine| machine.is_here).map(|machine| machine.devices);
        let rails = own_rails(&devices.unwrap_or_else(|| devices::read(&LiveSystem)));
        (free(), Vec::new(), rails, Vec::new(), Vec::new())
    } else {
        let (topology, devices) = match described {
            Some(machine) => (machine.topology, machine.devices),
            None => (Topology::read(&LiveSystem, &allowed), devices::read(&LiveSystem)),
        };
        let placements = lanes::place(&topology, &devices, &threads, bind_to, map_by);
        let rails = policy::rails(&devices, &topology, &placements);
        let agents = agents::agents(&topology, &placements);
        let inherited = inherited_environment(settings.bare_environment);
        let wanted: Vec<u32> = sections
            .iter()
            .flat_map(|section| {
                let environment = section_environment(&inherited, settings, section);
                let rails = rails_wanted(environment.get(OsStr::new(RAILS)).map(OsString::as_os_str));
                std::iter::repeat_n(rails, section.count as usize)
            })
            .collect();
        let all = topology.cpus();
        let report = |(rank, placement): (usize, &Placement)| {
            let cpus = placement.cpus.as_ref().unwrap_or(&all);
            let rails = devices::rails_of(&devices, rails[rank].as_deref(), cpus, wanted[rank]);
            policy::report(&topology, rank, placement, &rails, agents[rank].as_ref())
        };
        let mut lines: Vec<String> =
            placements.iter().enumerate().map(report).filter(|_| settings.report_bindings).collect();
        // All or none: without a place for one there is none for any.
        let local_cpus: Option<Vec<CpuSet>> =
            placements.iter().map(|placement| placement.cpus.clone()).collect();
        let local_cpus = local_cpus.unwrap_or_default();
        match is_here {
            true => (placements, local_cpus, rails, agents, lines),
            // The plan is shown, and communicators are split by it; ranks run here, where its CPUs and devices mean nothing.
            false => {
                lines.push(NOT_HERE.to_owned());
                (free(), local_cpus, own_rails(&devices::read(&LiveSystem)), Vec::new(), lines)
            }
        }
    };
    let used: CpuSet = placements
        .iter()
        .flat_map(|placement| placement.cpus.as_ref().unwrap_or(&allowed).iter().copied())
        .collect();
    let cores = usable(&used);
    let universe_size = settings.universe_size.unwrap_or_else(|| size.max(cores as u32));
    let job_id = job_id();
    let inherited = inherited_environment(settings.bare_environment);
    let current = std::env::current_dir()
        .map_err(|error| refuse(format!("the current folder cannot be used: {error}"), 1))?;

    let psets = process_sets(sections);
    let mut ranks = Vec::with_capacity(size as usize);
    for (appnum, section) in (0..).zip(sections) {
        let wdir = section.wdir.as_ref().map_or_else(|| current.clone(), |wdir| current.join(wdir));
        if section.wdir.is_some() && !wdir.is_dir() {
            return Err(refuse(format!("there is no folder {} (-wdir)", wdir.display()), 1));
        }
        let environment = section_environment(&inherited, settings, section);
        let path = environment.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        let search: Vec<&OsStr> =
            section.path.iter().map(OsString::as_os_str).chain([path.as_os_str()]).collect();
        let executable = resolve::find(&section.program, &wdir, &current, &search)?;
        let asked = asked_words(section);
        for _ in 0..section.count {
            let rank = ranks.len() as u32;
            let placement = &placements[rank as usize];
            let card = Card {
                rank,
                size,
                job_id: job_id.clone(),
                appnum,
                universe_size: Some(universe_size as i32),
                nodes: weft_boot::Nodes::one(size),
                local_ranks: (0..size).collect(),
                cores,
                binding: placement.cpus.clone(),
                numa_node: placement.numa_node,
                rail: rails[rank as usize].clone(),
                agent: agents.get(rank as usize).cloned().flatten(),
                lanes: placement.lanes.clone(),
                local_cpus: local_cpus.clone(),
                command: command_words(section),
                maxprocs: section.asked.maxprocs,
                wdir: section.wdir.as_ref().map(|wdir| wdir.display().to_string()),
                initial_errhandler: section.asked.initial_errhandler.clone(),
                memory_alloc_kinds: section.asked.memory_alloc_kinds.clone(),
                asked: asked.clone(),
                psets: psets.clone(),
                segment_inode: 0,
            };
            let mut environment = environment.clone();
            for (name, value) in [
                ("PMI_RANK", rank.to_string()),
                ("PMI_SIZE", size.to_string()),
                // As Hydra sets them; scripts that choose a GPU by local rank read these.
                ("MPI_LOCALRANKID", rank.to_string()),
                ("MPI_LOCALNRANKS", size.to_string()),
            ] {
                environment.insert(name.into(), value.into());
            }
            ranks.push(RankPlan {
                card,
                appnum,
                executable: executable.clone(),
                program: section.program.clone(),
                arguments: section.arguments.clone(),
                wdir: wdir.clone(),
                environment,
                binding: placement.cpus.clone(),
            });
        }
    }
    Ok(Plan { job_id, host, ranks, universe_size, bindings, notes })
}

/// Inside an allocation of several machines, running on one of them only must not go unnoticed.
fn allocation_note() -> Option<String> {
    let nodes = std::env::var("SLURM_JOB_NUM_NODES").ok()?.trim().parse::<u32>().ok()?;
    let note = format!(
        "the Slurm allocation has {nodes} nodes, and all ranks start on this one, as no hosts are named: srun --mpi=pmi2 ./program, or \
         mpiexec --hosts $(scontrol show hostnames | paste -sd,) ./program, uses them all"
    );
    Some(note).filter(|_| nodes > 1)
}

const NOT_HERE: &str = "planned for the machine that HWLOC_XMLFILE or HWLOC_SYNTHETIC describes; ranks are not bound here \
                        (HWLOC_THISSYSTEM=1 says that it is this machine)";

/// A machine that hwloc's variables describe.
struct DescribedMachine {
    topology: Topology,
    /// Its RDMA devices; synthetic descriptions have none.
    devices: Vec<Device>,
    /// Whether it is said to be this one.
    is_here: bool,
}

fn described_machine() -> Result<Option<DescribedMachine>, String> {
    let Some(Described { source, text, is_xml, is_here }) = described()? else { return Ok(None) };
    let named = |why: String| format!("{source}: {why}");
    let topology = if is_xml { described::xml(&text) } else { described::synthetic(&text) };
    let devices = if is_xml { devices::xml(&text).map_err(named)? } else { Vec::new() };
    Ok(Some(DescribedMachine { topology: topology.map_err(named)?, devices, is_here }))
}

/// The environment of a program's ranks, on whatever host: what is inherited, what mpiexec was told, and what all ranks of a
/// job must have the same (rules and figures of collectives), read here once.
pub(crate) fn section_environment(
    inherited: &Environment,
    settings: &Settings,
    section: &Section,
) -> Environment {
    let mut environment = inherited.clone();
    environment.extend(settings.environment.iter().cloned());
    environment.extend(section.environment.iter().cloned());
    for variable in ["WEFT_COLLECTIVES", "WEFT_MODEL"] {
        let value = environment.get(OsStr::new(variable)).and_then(|value| value.to_str());
        if let Some(text) = weft_boot::settings::for_ranks(variable, value) {
            environment.insert(variable.into(), text.into());
        }
    }
    environment
}

/// mpiexec's own environment without what another launcher put there: a rank must not find two stories.
pub(crate) fn inherited_environment(bare: bool) -> Environment {
    const FOREIGN: [&[u8]; 5] = [b"PMI_", b"PMI2_", b"PMIX_", b"HYDI_", b"WEFT_JOB"];
    let foreign = |name: &OsStr| {
        FOREIGN.iter().any(|prefix| name.as_bytes().starts_with(prefix)) || name == card::NODE_FD_VARIABLE
    };
    let keep = |name: &OsStr| !foreign(name) && (!bare || name == "PATH");
    std::env::vars_os().filter(|(name, _)| keep(name)).collect()
}

/// The variable that says how many RDMA devices each rank uses.
pub(crate) const RAILS: &str = "WEFT_RAILS";

/// Its value, for the report alone: what means nothing the ranks refuse.
pub(crate) fn rails_wanted(value: Option<&OsStr>) -> u32 {
    value.and_then(OsStr::to_str).and_then(|text| text.trim().parse().ok()).unwrap_or(1)
}

/// What was asked for one program, by the keys of MPI_INFO_ENV (section 11.2.1).
pub(crate) fn asked_words(section: &Section) -> Vec<(String, String)> {
    let asked = &section.asked;
    let path = section.path.as_ref().map(|path| path.to_string_lossy().into_owned());
    [
        ("soft", asked.soft.clone()),
        ("host", asked.host.clone()),
        ("arch", asked.arch.clone()),
        ("path", path),
        ("file", asked.file.clone()),
        ("thread_level", asked.thread_level.clone()),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
    .collect()
}

/// The process sets of the job but for those the standard names: one for each program of the command line, and those of
/// `-pset`, which several programs may share.
pub(crate) fn process_sets(sections: &[Section]) -> Vec<ProcessSet> {
    let mut sets: Vec<ProcessSet> = Vec::new();
    let mut first = 0;
    for (number, section) in sections.iter().enumerate() {
        let ranks = first..first + section.count;
        sets.push(ProcessSet { name: format!("weft://app/{number}"), ranks: ranks.clone().collect() });
        first = ranks.end;
    }
    let mut first = 0;
    for section in sections {
        let ranks = first..first + section.count;
        for name in &section.asked.psets {
            match sets.iter_mut().find(|set| set.name == *name) {
                Some(set) if set.ranks.last().is_some_and(|&last| last >= ranks.start) => {}
                Some(set) => set.ranks.extend(ranks.clone()),
                None => sets.push(ProcessSet { name: name.clone(), ranks: ranks.clone().collect() }),
            }
        }
        first = ranks.end;
    }
    sets.retain(|set| !set.ranks.is_empty());
    sets
}

/// Program and arguments for MPI_INFO_ENV; very long ones are cut, since the environment is bounded.
pub(crate) fn command_words(section: &Section) -> Vec<String> {
    const MOST: usize = 16 * 1024;
    let mut room = MOST;
    let words = std::iter::once(&section.program).chain(&section.arguments);
    words
        .map(|word| word.to_string_lossy().into_owned())
        .take_while(|word| {
            let fits = word.len() < room;
            room = room.saturating_sub(word.len() + 1);
            fits
        })
        .collect()
}

/// Unique on this machine while the job lives, and hard to meet again afterwards.
pub(crate) fn job_id() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("weft-{}-{:x}", std::process::id(), since.as_nanos())
}

/// The name a rank is shown under.
pub(crate) fn shown(program: &OsStr) -> String {
    Path::new(program).display().to_string()
}
