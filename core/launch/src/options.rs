//! The options of mpiexec: their names, and what one section of the command line asks for.
//!
//! One table names every option with all spellings other launchers made usual; one or two dashes mean the same.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use weft_place::policy::{BindTo, MapBy};
use weft_types::params::Watchdog;

use crate::hosts::dealing::NamedHost;
use crate::placing::Threads;

/// One program of the command line (what stands between two `:`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Number of processes.
    pub count: u32,
    /// Program as given.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables set for this program only, in order.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory.
    pub wdir: Option<PathBuf>,
    /// Folders searched for the program before PATH.
    pub path: Option<OsString>,
    /// Hosts for this program alone (`-host`); none: those of the job.
    pub hosts: Vec<NamedHost>,
    /// Threads of each of its ranks, for which placement finds cores; `None`: that of the job.
    pub threads: Option<Threads>,
    /// What was asked for in words that the program can look up.
    pub asked: Asked,
}

/// The requests of one program that its processes find in `MPI_INFO_ENV` or act on themselves (section 11.5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Number of processes before `-soft` lowered it.
    pub maxprocs: u32,
    /// Value of `-soft`.
    pub soft: Option<String>,
    /// Value of `-host` or `--hosts`.
    pub host: Option<String>,
    /// Value of `-arch`.
    pub arch: Option<String>,
    /// Value of `-file`.
    pub file: Option<String>,
    /// Initial error handler, as the standard names it, lower case.
    pub initial_errhandler: Option<String>,
    /// Memory allocation kinds.
    pub memory_alloc_kinds: Option<String>,
    /// The least thread level, as the standard names it.
    pub thread_level: Option<String>,
    /// Process sets that the program's processes belong to.
    pub psets: Vec<String>,
}

/// What is asked for the whole job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Variables set for all programs, in order.
    pub environment: Vec<(OsString, OsString)>,
    /// Ranks get only the variables set on the command line (and PATH).
    pub bare_environment: bool,
    /// Lines of output carry their rank.
    pub tag_output: bool,
    /// The job may not take longer.
    pub timeout: Option<Duration>,
    /// When blocked ranks tell; `None`: not said.
    pub watchdog: Option<Watchdog>,
    /// A deadlock that is certain ends the job.
    pub watchdog_abort: bool,
    /// What a rank is bound to; `None`: not said.
    pub bind_to: Option<BindTo>,
    /// How ranks are dealt to the machine; `None`: not said.
    pub map_by: Option<MapBy>,
    /// Threads of the ranks of all programs that say nothing else; `None`: not said.
    pub threads: Option<Threads>,
    /// Threads that make a lane their own are bound to its core.
    pub bind_threads: bool,
    /// Print where each rank runs.
    pub report_bindings: bool,
    /// Print what is started.
    pub verbose: bool,
    /// No rank reads standard input.
    pub no_stdin: bool,
    /// MPI_UNIVERSE_SIZE.
    pub universe_size: Option<u32>,
    /// Hosts that were named for all programs (`--hosts`, `--hostfile`).
    pub hosts: Vec<NamedHost>,
    /// Ranks dealt to a host before the next one comes.
    pub per_node: Option<u32>,
    /// The command that starts an agent on a host, with `{host}` for its name; `None`: ssh.
    pub agent: Option<String>,
}

impl Settings {
    /// Whether ranks go to the hosts in turn.
    pub(crate) fn deals_by_node(&self) -> bool {
        self.map_by == Some(MapBy::Node)
    }

    /// How often blocked ranks are shown; `None`: deadlocks only.
    pub(crate) fn watchdog_period(&self) -> Option<Duration> {
        match self.watchdog {
            Some(Watchdog::Every(seconds)) => Some(Duration::from_secs(u64::from(seconds))),
            _ => None,
        }
    }
}

/// The option a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Count,
    Env,
    Export,
    Wdir,
    Path,
    Soft,
    Arch,
    File,
    ThreadLevel,
    ProcessSet,
    GlobalEnv,
    WholeEnvironment,
    BareEnvironment,
    EnvironmentList,
    TagOutput,
    Timeout,
    Watchdog,
    WatchdogAbort,
    BindTo,
    MapBy,
    Threads,
    BindThreads,
    ReportBindings,
    Verbose,
    Host,
    Hosts,
    HostFile,
    Agent,
    PerNode,
    Stdin,
    UniverseSize,
    InitialErrhandler,
    MemoryAllocKinds,
    ConfigFile,
    Granted,
    OpenMpiParameter,
    Help,
    Version,
}

impl Key {
    /// How many words follow the option.
    pub(crate) fn values(self) -> usize {
        match self {
            Key::Env | Key::GlobalEnv | Key::OpenMpiParameter => 2,
            Key::WholeEnvironment
            | Key::BareEnvironment
            | Key::TagOutput
            | Key::WatchdogAbort
            | Key::BindThreads
            | Key::ReportBindings
            | Key::Verbose
            | Key::Granted
            | Key::Help
            | Key::Version => 0,
            _ => 1,
        }
    }
}

/// Every name, without dashes.
pub(crate) const NAMES: &[(&str, Key)] = &[
    ("n", Key::Count),
    ("np", Key::Count),
    ("c", Key::Count),
    ("env", Key::Env),
    ("x", Key::Export),
    ("wdir", Key::Wdir),
    ("wd", Key::Wdir),
    ("path", Key::Path),
    ("soft", Key::Soft),
    ("arch", Key::Arch),
    ("file", Key::File),
    ("thread-level", Key::ThreadLevel),
    ("pset", Key::ProcessSet),
    ("genv", Key::GlobalEnv),
    ("genvall", Key::WholeEnvironment),
    ("envall", Key::WholeEnvironment),
    ("genvnone", Key::BareEnvironment),
    ("envnone", Key::BareEnvironment),
    ("genvlist", Key::EnvironmentList),
    ("envlist", Key::EnvironmentList),
    ("l", Key::TagOutput),
    ("prepend-rank", Key::TagOutput),
    ("tag-output", Key::TagOutput),
    ("timeout", Key::Timeout),
    ("watchdog", Key::Watchdog),
    ("watchdog-abort", Key::WatchdogAbort),
    ("bind-to", Key::BindTo),
    ("map-by", Key::MapBy),
    ("threads", Key::Threads),
    ("cpus-per-rank", Key::Threads),
    ("cpus-per-proc", Key::Threads),
    ("cpus-per-task", Key::Threads),
    ("bind-threads", Key::BindThreads),
    ("report-bindings", Key::ReportBindings),
    ("v", Key::Verbose),
    ("verbose", Key::Verbose),
    ("host", Key::Host),
    ("hosts", Key::Hosts),
    ("H", Key::Hosts),
    ("f", Key::HostFile),
    ("hostfile", Key::HostFile),
    ("machinefile", Key::HostFile),
    ("agent", Key::Agent),
    ("ppn", Key::PerNode),
    ("perhost", Key::PerNode),
    ("npernode", Key::PerNode),
    ("N", Key::PerNode),
    ("s", Key::Stdin),
    ("stdin", Key::Stdin),
    ("usize", Key::UniverseSize),
    ("initial-errhandler", Key::InitialErrhandler),
    ("memory-alloc-kinds", Key::MemoryAllocKinds),
    ("configfile", Key::ConfigFile),
    ("oversubscribe", Key::Granted),
    ("allow-run-as-root", Key::Granted),
    ("use-hwthread-cpus", Key::Granted),
    ("mca", Key::OpenMpiParameter),
    ("gmca", Key::OpenMpiParameter),
    ("help", Key::Help),
    ("h", Key::Help),
    ("?", Key::Help),
    ("version", Key::Version),
    ("V", Key::Version),
];

/// The option named `name` (without dashes).
pub(crate) fn find(name: &str) -> Option<Key> {
    NAMES.iter().find(|(known, _)| *known == name).map(|&(_, key)| key)
}

/// The known name most like `name`, when one is close.
pub(crate) fn suggestion(name: &str) -> Option<&'static str> {
    let near = NAMES.iter().map(|&(known, _)| (distance(name, known), known)).min()?;
    (near.0 <= name.chars().count() / 3).then_some(near.1)
}

/// Edits (insert, delete, replace) between two short words.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (at, (name, _)) in NAMES.iter().enumerate() {
            assert!(NAMES[at + 1..].iter().all(|(other, _)| other != name), "{name}");
        }
    }

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        assert_eq!(suggestion("bindto"), Some("bind-to"));
        assert_eq!(suggestion("time-out"), Some("timeout"));
        assert_eq!(suggestion("frobnicate"), None);
    }
}
