//! From the words of the command line to the job that is asked for.
//!
//! `mpiexec OPTIONS program arguments : OPTIONS program arguments : ...` (MPI 4.1 section 11.5). Pure: files that options name
//! are read through a callback.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use weft_types::params::Watchdog;

use crate::configfile;
use crate::hosts::dealing::complete_counts;
use crate::options::{Asked, Key, Section, Settings, find, suggestion};
use crate::placing::{place, threads};
use crate::values::{
    architecture, count, error_handler, hosts_in_file, hosts_in_list, pset, seconds, soft_counts,
    thread_level, variable,
};

/// More ranks than this on one machine are taken for a slip of the finger.
pub const MAX_RANKS: u32 = 4096;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Start a job.
    Run(Vec<Section>, Settings),
    /// Print the help text.
    Help,
    /// Print the version.
    Version,
}

/// What is wrong with the command line: one sentence, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Reads files and variables on behalf of the parser.
pub trait Surroundings {
    /// The text of a file an option names.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// A variable of mpiexec's own environment.
    fn variable(&self, name: &OsStr) -> Option<OsString>;
    /// The machine's architecture as `-arch` names it.
    fn architecture(&self) -> &str;
}

/// Reads the words after the program name.
pub fn parse(words: &[OsString], around: &dyn Surroundings) -> Result<Request, UsageError> {
    let mut parser = Parser { around, settings: Settings::default() };
    let (mut sections, mut counts) = (Vec::new(), Vec::new());
    let mut add = |section: Section, counted: bool| {
        counts.push(Some(section.count).filter(|_| counted));
        sections.push(section);
    };
    for words in words.split(|word| word == ":") {
        match parser.section(words)? {
            Outcome::Section(section, counted) => add(*section, counted),
            Outcome::File(lines) => {
                for line in lines {
                    match parser.section(&line)? {
                        Outcome::Section(section, counted) => add(*section, counted),
                        Outcome::File(_) => {
                            return Err(usage("-configfile inside a configuration file is not possible"));
                        }
                        Outcome::Only(request) => return Ok(request),
                    }
                }
            }
            Outcome::Only(request) => return Ok(request),
        }
    }
    // Whoever lists places for processes and gives no number wants them all.
    let settings = &parser.settings;
    for (at, count) in
        complete_counts(&counts, &sections, &settings.hosts, settings.per_node).into_iter().enumerate()
    {
        if counts[at].is_none() {
            (sections[at].count, sections[at].asked.maxprocs) = (count, count);
        }
    }
    let total: u64 = sections.iter().map(|section| u64::from(section.count)).sum();
    if total == 0 {
        return Err(usage(
            "the job has no process: every program has -n 0, or the configuration file is empty",
        ));
    }
    if total > u64::from(MAX_RANKS) {
        return Err(usage(format!(
            "{total} processes are asked for; on one machine at most {MAX_RANKS} are allowed"
        )));
    }
    let mut settings = parser.settings;
    if let Some(per_node) = settings.per_node.filter(|&per_node| u64::from(per_node) < total)
        && settings.hosts.is_empty()
        && sections.iter().all(|section| section.hosts.is_empty())
    {
        return Err(usage(format!(
            "{total} processes with at most {per_node} on each machine need several machines: name them with --hosts or \
             --hostfile"
        )));
    }
    if settings.agent.is_none() {
        settings.agent = around
            .variable(OsStr::new("MPIEXEC_AGENT"))
            .and_then(|text| text.into_string().ok())
            .filter(|text| !text.trim().is_empty());
    }
    if settings.timeout.is_none() {
        settings.timeout = around
            .variable(OsStr::new("MPIEXEC_TIMEOUT"))
            .map(|text| seconds("the variable MPIEXEC_TIMEOUT", &text))
            .transpose()?;
    }
    if settings.watchdog.is_none() {
        settings.watchdog = around
            .variable(OsStr::new(WATCHDOG))
            .map(|text| watchdog("the variable WEFT_WATCHDOG", &text.to_string_lossy()))
            .transpose()?;
    }
    Ok(Request::Run(sections, settings))
}

/// The variable by which ranks, and mpiexec itself, are told.
const WATCHDOG: &str = "WEFT_WATCHDOG";

/// The variable by which ranks are told to bind threads.
const BIND_LANES: &str = "WEFT_BIND_LANES";

fn watchdog(word: &str, value: &str) -> Result<Watchdog, UsageError> {
    Watchdog::parse(value).ok_or_else(|| {
        usage(format!("{word} needs a number of whole seconds above 0, off or auto, not {value:?}"))
    })
}

enum Outcome {
    /// A program, and whether its number of processes was given.
    Section(Box<Section>, bool),
    File(Vec<Vec<OsString>>),
    Only(Request),
}

struct Parser<'a> {
    around: &'a dyn Surroundings,
    settings: Settings,
}

impl Parser<'_> {
    fn section(&mut self, words: &[OsString]) -> Result<Outcome, UsageError> {
        let mut section = Section {
            count: 1,
            program: OsString::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            wdir: None,
            path: None,
            hosts: Vec::new(),
            threads: None,
            asked: Asked::default(),
        };
        let (mut soft, mut counted) = (None, false);
        let mut words: VecDeque<OsString> = words.iter().cloned().collect();
        while let Some(word) = words.pop_front() {
            let word = &word;
            let Some((name, inline)) = option_name(word) else {
                section.program.clone_from(word);
                break;
            };
            if name.is_empty() {
                // `--`: the next word is the program, whatever it looks like.
                section.program = words.pop_front().unwrap_or_default();
                break;
            }
            let key = find(name).ok_or_else(|| unknown(word, name))?;
            let mut values = Vec::with_capacity(2);
            values.extend(inline.clone());
            if inline.is_some() && key.values() == 0 {
                return Err(usage(format!("the option {} takes no value", word.display())));
            }
            while values.len() < key.values() {
                let missing = || usage(format!("the option {} needs {}", word.display(), needs(key)));
                values.push(words.pop_front().ok_or_else(missing)?);
            }
            match key {
                Key::Help => return Ok(Outcome::Only(Request::Help)),
                Key::Version => return Ok(Outcome::Only(Request::Version)),
                Key::ConfigFile => return self.config_file(&values[0]).map(Outcome::File),
                Key::Count => {
                    section.count = count(word, &values[0])?;
                    counted = true;
                }
                Key::Env => section.environment.push(variable(word, &values[0], &values[1])?),
                Key::Export => self.export(word, &values[0], &mut section)?,
                Key::Threads => {
                    section.threads = Some(threads(&word.to_string_lossy(), text(word, &values)?)?);
                }
                Key::Wdir => section.wdir = Some(values.remove(0).into()),
                Key::Path => section.path = Some(values.remove(0)),
                Key::Host => {
                    let value = text(word, &values)?;
                    section.hosts.extend(hosts_in_list(word, value)?);
                    section.asked.host = Some(value.to_owned());
                }
                Key::Soft => {
                    soft = Some(soft_counts(word, &values[0])?);
                    section.asked.soft = Some(text(word, &values)?.to_owned());
                }
                Key::File => {
                    if section.asked.file.replace(text(word, &values)?.to_owned()).is_some() {
                        return Err(usage("a program can have one -file"));
                    }
                    for word in self.option_file(&values[0])?.into_iter().rev() {
                        words.push_front(word);
                    }
                }
                _ => match self.asked(key, word, &values, &mut section.asked)? {
                    true => {}
                    false => self.global(key, word, &values)?,
                },
            }
        }
        section.arguments = words.into();
        section.asked.maxprocs = section.count;
        if section.program.is_empty() {
            return Err(usage("no program is named: mpiexec -n 4 ./program arguments"));
        }
        if let Some(allowed) = soft {
            let asked = section.count;
            section.count =
                allowed.into_iter().filter(|&count| count <= asked).max().ok_or_else(|| {
                    usage(format!("-soft allows no number of processes up to {asked} (-n)"))
                })?;
        }
        // Of numbers that are acceptable to it, a program gets the largest up to what it asks for, which is one if it does not.
        counted |= section.asked.soft.is_some();
        Ok(Outcome::Section(Box::new(section), counted))
    }

    fn config_file(&self, path: &OsStr) -> Result<Vec<Vec<OsString>>, UsageError> {
        let text = self.around.read(Path::new(path)).map_err(|error| {
            usage(format!("the configuration file {} cannot be read: {error}", path.display()))
        })?;
        configfile::sections(&text)
            .map_err(|why| usage(format!("the configuration file {}: {why}", path.display())))
    }

    /// The words of a `-file`: further options of the program, in the form of a configuration file.
    fn option_file(&self, path: &OsStr) -> Result<Vec<OsString>, UsageError> {
        let text = self
            .around
            .read(Path::new(path))
            .map_err(|error| usage(format!("the file {} (-file) cannot be read: {error}", path.display())))?;
        let sections = configfile::sections(&text);
        let sections =
            sections.map_err(|why| usage(format!("the file {} (-file): {why}", path.display())))?;
        Ok(sections.into_iter().flatten().collect())
    }

    /// Options whose values the program's processes learn; false for another option.
    fn asked(
        &mut self,
        key: Key,
        word: &OsStr,
        values: &[OsString],
        asked: &mut Asked,
    ) -> Result<bool, UsageError> {
        match key {
            Key::InitialErrhandler => asked.initial_errhandler = Some(error_handler(text(word, values)?)?),
            Key::MemoryAllocKinds => asked.memory_alloc_kinds = Some(text(word, values)?.to_owned()),
            Key::ThreadLevel => asked.thread_level = Some(thread_level(text(word, values)?)?),
            Key::ProcessSet => asked.psets.push(pset(text(word, values)?)?),
            Key::Arch => asked.arch = Some(architecture(text(word, values)?, self.around.architecture())?),
            Key::Hosts => {
                let value = text(word, values)?;
                self.settings.hosts.extend(hosts_in_list(word, value)?);
                asked.host = Some(value.to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `-x NAME=VALUE` sets, `-x NAME` passes on; ranks inherit everything already unless `-genvnone` is given.
    fn export(&mut self, word: &OsStr, value: &OsStr, section: &mut Section) -> Result<(), UsageError> {
        let bytes = value.as_bytes();
        match bytes.iter().position(|&byte| byte == b'=') {
            Some(at) => {
                let (name, value) = (OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..]));
                section.environment.push(variable(word, name, value)?);
            }
            None => {
                if let Some(present) = self.around.variable(value) {
                    section.environment.push(variable(word, value, &present)?);
                }
            }
        }
        Ok(())
    }

    fn global(&mut self, key: Key, word: &OsStr, values: &[OsString]) -> Result<(), UsageError> {
        let settings = &mut self.settings;
        let text = || text(word, values);
        match key {
            Key::GlobalEnv => settings.environment.push(variable(word, &values[0], &values[1])?),
            Key::BareEnvironment => settings.bare_environment = true,
            Key::EnvironmentList => {
                for name in text()?.split(',').filter(|name| !name.is_empty()) {
                    let name = OsStr::new(name);
                    if let Some(present) = self.around.variable(name) {
                        settings.environment.push(variable(word, name, &present)?);
                    }
                }
            }
            Key::TagOutput => settings.tag_output = true,
            Key::Timeout => settings.timeout = Some(seconds(&word.to_string_lossy(), &values[0])?),
            Key::Watchdog => {
                let value = text()?;
                settings.watchdog = Some(watchdog(&word.to_string_lossy(), value)?);
                settings.environment.push((WATCHDOG.into(), value.into()));
            }
            Key::WatchdogAbort => settings.watchdog_abort = true,
            Key::BindTo => {
                let (bind_to, threads) = place(&word.to_string_lossy(), text()?)?;
                (settings.bind_to, settings.threads) = (Some(bind_to), threads.or(settings.threads));
            }
            Key::MapBy => {
                let (map_by, threads) = place(&word.to_string_lossy(), text()?)?;
                (settings.map_by, settings.threads) = (Some(map_by), threads.or(settings.threads));
            }
            Key::BindThreads => {
                settings.bind_threads = true;
                settings.environment.push((BIND_LANES.into(), "yes".into()));
            }
            Key::ReportBindings => settings.report_bindings = true,
            Key::Verbose => settings.verbose = true,
            Key::HostFile => {
                let path = Path::new(&values[0]);
                let read = self.around.read(path);
                let list = read.map_err(|error| {
                    usage(format!("the host file {} cannot be read: {error}", path.display()))
                })?;
                settings.hosts.extend(hosts_in_file(path, &list)?);
            }
            Key::Agent => settings.agent = Some(text()?.to_owned()).filter(|text| !text.trim().is_empty()),
            Key::PerNode => settings.per_node = Some(count(word, &values[0])?),
            Key::Stdin => match text()? {
                "0" => settings.no_stdin = false,
                "none" => settings.no_stdin = true,
                other => {
                    return Err(usage(format!(
                        "standard input goes to rank 0 or to none ({} 0, {} none), not to {other:?}",
                        word.display(),
                        word.display()
                    )));
                }
            },
            Key::UniverseSize => settings.universe_size = Some(count(word, &values[0])?),
            Key::OpenMpiParameter => {
                return Err(usage(format!(
                    "{} sets parameters of Open MPI, which mean nothing here ({} {}): remove it",
                    word.display(),
                    values[0].display(),
                    values[1].display()
                )));
            }
            // The whole environment is passed on, and more ranks than cores and root are fine, without being asked.
            Key::WholeEnvironment | Key::Granted => {}
            _ => unreachable!("options of a section are handled there: {key:?}"),
        }
        Ok(())
    }
}

/// The name of an option without its dashes, and the value after `=`; `None` when the word is no option.
fn option_name(word: &OsStr) -> Option<(&str, Option<OsString>)> {
    let bytes = word.as_bytes();
    let name = bytes.strip_prefix(b"--").or_else(|| bytes.strip_prefix(b"-"))?;
    if bytes == b"-" {
        return None;
    }
    let (name, value) = match name.iter().position(|&byte| byte == b'=').filter(|_| bytes.starts_with(b"--"))
    {
        Some(at) => (&name[..at], Some(OsStr::from_bytes(&name[at + 1..]).to_owned())),
        None => (name, None),
    };
    Some((std::str::from_utf8(name).unwrap_or("\u{fffd}"), value))
}

/// The first value of an option, as text.
fn text<'a>(word: &OsStr, values: &'a [OsString]) -> Result<&'a str, UsageError> {
    let value = values.first().map(OsString::as_os_str).unwrap_or_default();
    value.to_str().ok_or_else(|| usage(format!("the value of {} is not UTF-8 text", word.display())))
}

pub(crate) fn usage(text: impl Into<String>) -> UsageError {
    UsageError(text.into())
}

fn unknown(word: &OsStr, name: &str) -> UsageError {
    let hint = match suggestion(name) {
        Some(near) => format!("; did you mean {}{near}?", if near.len() > 2 { "--" } else { "-" }),
        None => "; options of the program stand after its name".to_owned(),
    };
    usage(format!("there is no option {}{hint}", word.display()))
}

fn needs(key: Key) -> &'static str {
    match key {
        Key::Count | Key::PerNode | Key::UniverseSize => "a number of processes",
        Key::Env | Key::GlobalEnv => "a variable's name and its value (two words)",
        Key::Timeout | Key::Watchdog => "a number of seconds",
        Key::Threads => "a number of threads, or omp",
        Key::Wdir => "a folder",
        Key::HostFile | Key::ConfigFile | Key::File => "a file",
        Key::ProcessSet => "the name of a process set",
        _ => "a value",
    }
}

#[cfg(test)]
#[path = "command_line_tests.rs"]
mod tests;
