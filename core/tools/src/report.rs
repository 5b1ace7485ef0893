//! The report of `weft-info`: versions, machine, launcher, fabrics.

use crate::single_copy;
use crate::tuning::Tuning;
use std::fmt::Write;
use weft_boot::machine::{LiveSystem, allowed_cpus, usable};
use weft_boot::{Job, LauncherKind};
use weft_place::libraries::library;
use weft_place::{System, Topology};
use weft_types::abi;
use weft_types::params::{Choice, Parameters, Setting, TABLE};

/// The library that speaks to PMIx launchers.
const PMIX: &str = "libpmix.so.2";

/// One line: what, and what was found.
struct Line(&'static str, String);

/// Everything, as text.
pub fn text(variable: impl Fn(&str) -> Option<String>) -> String {
    let mut lines = vec![versions(), machine(), cores()];
    lines.extend(topology());
    lines.extend(job(discover()));
    lines.push(launchers(&variable));
    lines.extend(fabrics(&variable));
    lines.push(parameters(&variable));
    lines.extend(tuning(&variable));
    let mut text = String::new();
    for Line(what, found) in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{what:<14}{found}");
    }
    text
}

/// The job, which is left again at once: to the launcher this program is a rank like any other.
fn discover() -> weft_types::Result<Job> {
    let (job, mut launcher) = Job::discover()?;
    launcher.finalize()?;
    Ok(job)
}

fn versions() -> Line {
    Line(
        "Weft",
        format!(
            "{}: MPI {}.{} on the MPI standard ABI {}.{} (libmpi_abi.so.1)",
            env!("CARGO_PKG_VERSION"),
            abi::MPI_VERSION,
            abi::MPI_SUBVERSION,
            abi::MPI_ABI_VERSION,
            abi::MPI_ABI_SUBVERSION
        ),
    )
}

fn machine() -> Line {
    let read = |path: &str| LiveSystem.read(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    Line(
        "machine",
        format!(
            "{}, Linux {} on {}",
            read("/proc/sys/kernel/hostname"),
            read("/proc/sys/kernel/osrelease"),
            std::env::consts::ARCH
        ),
    )
}

fn cores() -> Line {
    let allowed = allowed_cpus();
    let (count, busy) = (allowed.len(), usable(&allowed));
    let limit = match busy < count {
        true => format!(", of which {busy} may be busy at a time (limit of the container)"),
        false => String::new(),
    };
    Line("processors", format!("{allowed} may be used ({count}){limit}"))
}

fn topology() -> Option<Line> {
    let topology = Topology::read(&LiveSystem, &allowed_cpus());
    let count = |level| topology.parts(level).len();
    let (cores, nodes) = (count(weft_place::topology::Level::Core), count(weft_place::topology::Level::Numa));
    (cores > 0).then(|| Line("topology", format!("{cores} cores in {nodes} NUMA nodes")))
}

fn job(found: weft_types::Result<Job>) -> Vec<Line> {
    let job = match found {
        Ok(job) => job,
        Err(error) => return vec![Line("launched", format!("by somebody, but {}", error.text()))],
    };
    let by = match job.launcher {
        LauncherKind::Singleton => {
            return vec![Line("launched", "by nobody: a job of one process".to_owned())];
        }
        LauncherKind::Weft => "Weft's mpiexec",
        LauncherKind::Pmi1 => "a launcher that speaks PMI-1",
        LauncherKind::Pmi2 => "a launcher that speaks PMI-2",
        LauncherKind::Pmix => "a launcher that speaks PMIx",
    };
    let mates = job.local_ranks.len();
    let bound =
        job.binding.as_ref().map_or_else(|| "not bound".to_owned(), |cpus| format!("bound to {cpus}"));
    let sharing =
        if job.is_oversubscribed() { "; more ranks than cores, so waiting ranks sleep" } else { "" };
    vec![
        Line("launched", format!("by {by}: rank {} of {}, job {}", job.rank, job.size, job.job_id)),
        Line("on this node", format!("{mates} ranks on {} cores, {bound}{sharing}", job.cores)),
    ]
}

/// Who can start ranks here; libpmix is looked for and not opened.
fn launchers(variable: &impl Fn(&str) -> Option<String>) -> Line {
    let library = library(&LiveSystem, PMIX, variable("LD_LIBRARY_PATH").as_deref());
    let by_pmix = match library {
        Some(path) => format!("those of PMIx through {path}"),
        None => format!("none of PMIx, for which {PMIX} is not installed (Debian: libpmix2)"),
    };
    Line("launchers", format!("Weft's mpiexec, those of PMI-1 and PMI-2, and {by_pmix}"))
}

fn fabrics(variable: &impl Fn(&str) -> Option<String>) -> Vec<Line> {
    let wished = variable("WEFT_SINGLE_COPY");
    let parameters = Parameters::from_environment(wished.map(|value| ("WEFT_SINGLE_COPY".to_owned(), value)));
    let choice = parameters.map_or(Choice::Auto, |(parameters, _)| parameters.single_copy);
    let copy = match (choice, single_copy::probe()) {
        (Choice::Off, _) => {
            "switched off by WEFT_SINGLE_COPY; large messages are copied through shared memory".to_owned()
        }
        (_, Ok(())) => {
            "process_vm_readv works: large messages can be read straight from the sender".to_owned()
        }
        (_, Err(why)) => {
            format!("process_vm_readv is refused ({why}); large messages are copied through shared memory")
        }
    };
    let scope = LiveSystem.read("/proc/sys/kernel/yama/ptrace_scope").map(|text| text.trim().to_owned());
    let mut lines = vec![
        Line(
            "fabrics",
            "self (a process to itself), shm (ranks of one node), softroce, verbs, ofi (between nodes)"
                .to_owned(),
        ),
        Line("single copy", copy),
    ];
    if let Some(scope) = scope.filter(|scope| scope != "0") {
        lines.push(Line(
            "",
            format!("kernel.yama.ptrace_scope is {scope}: ranks ask each other's consent at start"),
        ));
    }
    lines.push(Line("between nodes", crate::transports::far(variable)));
    lines
}

/// What the choice of collective algorithms rests on.
fn tuning(variable: &impl Fn(&str) -> Option<String>) -> Vec<Line> {
    let tuning = Tuning::find(variable);
    let mut lines: Vec<Line> =
        tuning.figures_text(true).into_iter().map(|text| Line("cost model", text)).collect();
    lines.extend(tuning.rules.iter().map(|rule| {
        let (source, line) = rule.place();
        Line("rule", format!("{rule} ({source}, line {line})"))
    }));
    lines.extend(tuning.faults.iter().map(|fault| Line("not used", fault.clone())));
    lines
}

fn parameters(variable: &impl Fn(&str) -> Option<String>) -> Line {
    let set: Vec<String> = TABLE
        .iter()
        .filter_map(|row| {
            variable(row.variable).map(|value| format!("{}={}", row.variable, Setting::brief(&value)))
        })
        .collect();
    let pairs = TABLE.iter().filter_map(|row| Some((row.variable.to_owned(), variable(row.variable)?)));
    let found = match (Parameters::from_environment(pairs), set.is_empty()) {
        (Err(error), _) => error.text().to_owned(),
        (Ok(_), true) => format!("all {} at their defaults (weft-info --params lists them)", TABLE.len()),
        (Ok(_), false) => format!("{} (weft-info --params lists all)", set.join(" ")),
    };
    Line("parameters", found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_version_machine_launcher_and_fabrics() {
        let text = text(|_| None);
        for word in [
            "MPI 4.1",
            "libmpi_abi.so.1",
            "processors",
            "launched",
            "PMIx",
            "shm",
            "process_vm_readv",
            "defaults",
        ] {
            assert!(text.contains(word), "{word} is missing in:\n{text}");
        }
    }

    #[test]
    fn a_parameter_that_cannot_be_read_is_said() {
        let text = text(|variable| (variable == "WEFT_EAGER_LIMIT").then(|| "lots".to_owned()));
        assert!(text.contains("WEFT_EAGER_LIMIT is \"lots\""), "{text}");
    }
}
