//! Compiles test programs with the MPI under test, runs them, and judges the runs.
//!
//! The MPI under test is an installed Weft (`WEFT_PREFIX`, by default `prefix` in the root of the repository). Setting
//! `WEFT_TEST_MPICC` and `WEFT_TEST_MPIEXEC` (and `WEFT_TEST_MPICXX`) runs the same programs with another
//! implementation: a conformance test that a correct peer fails is suspect.
//!
//! `WEFT_TEST_CHECKER` is a command (words split at blanks) that every rank of such a program runs under, valgrind for instance.
//!
//! `WEFT_TEST_HOSTS` names hosts, separated by commas, that every job is spread over (see `scripts/netns-hosts`).
//!
//! Further settings: `WEFT_TEST_PATIENCE` multiplies every timeout; `WEFT_TEST_STACKS=1` prints the stacks of all
//! processes of a run that hangs (needs gdb); `WEFT_TEST_LEAKS=1` has every run fail that leaves objects at the end;
//! `WEFT_TEST_COMPILE=only` compiles the programs and runs none, so that a slower machine with the same files finds them.

mod compile;
mod job;
mod leftovers;
mod packages;
mod skips;
mod toolchain;

pub use compile::{build, build_shared};
pub use job::{Ended, Job, Outcome};
pub use leftovers::{kill_marked, launcher_of, marked_processes};
pub use packages::{Mpi4py, Rsmpi, mpi4py, rsmpi};
pub use skips::skip;
pub use toolchain::Toolchain;

use crate::head::{Exit, Head};
use std::fs;
use std::path::{Path, PathBuf};

/// The root of this crate, where the programs lie.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder for build products and for the files of runs, below cargo's target folder.
#[must_use]
pub fn scratch() -> PathBuf {
    let base = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || root().parent().expect("the crate lies in the repository").join("target"),
        PathBuf::from,
    );
    base.join("fabric-tests")
}

/// Compiles the program at `relative` (to the root of this crate), runs it on `ranks` ranks as its head comment says,
/// and panics with everything it printed if it did not do what the comment demands.
///
/// With `WEFT_TEST_COMPILE=only` it is compiled and not run.
pub fn run_program(relative: &str, ranks: u32) {
    if std::env::var_os("WEFT_TEST_COMPILE").is_some_and(|wish| wish == "only") {
        let _ = head_and_program(Path::new(relative));
        return;
    }
    let _ = run_under(Path::new(relative), ranks, |job| job);
}

fn head_and_program(relative: &Path) -> (Head, PathBuf) {
    let path = root().join(relative);
    let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let head = Head::parse(&source).unwrap_or_else(|why| panic!("{}: {why}", relative.display()));
    let program = build(Toolchain::under_test(), &path, &head.flags);
    (head, program)
}

/// Like [`run_program`], with the run changed by `wrap` before it starts.
pub fn run_under(relative: &Path, ranks: u32, wrap: impl FnOnce(Job) -> Job) -> Outcome {
    let tools = Toolchain::under_test();
    let (head, program) = head_and_program(relative);
    let count = ranks.to_string();
    let mut options = vec!["-n", &count];
    if head.one_node && !tools.mpiexec_args.is_empty() && tools.is_weft() {
        options.extend(["-host", "localhost"]);
    }
    options.extend(head.mpiexec.iter().map(String::as_str));
    let mut job = Job::under_checker(tools, &options, &program).args(&head.args).timeout(head.timeout);
    let looks_for_leaks = std::env::var_os("WEFT_TEST_LEAKS").is_some();
    if looks_for_leaks {
        job = job.env("WEFT_LEAKS", "yes");
    }
    let unsaid = head.default_env.iter().filter(|(key, _)| std::env::var_os(key).is_none());
    for (key, value) in head.env.iter().chain(unsaid) {
        job = job.env(key, value);
    }
    let outcome = wrap(job).run();
    judge(&outcome, &head, ranks);
    if looks_for_leaks && !head.leaves && !head.aborts {
        outcome.demand(
            !outcome.stderr.contains("(WEFT_LEAKS)"),
            "nothing may be left at the end (or the head says Leaves: yes)",
        );
    }
    outcome
}

/// Panics unless the run did what the head comment demands.
pub fn judge(outcome: &Outcome, head: &Head, ranks: u32) {
    let right_exit = match (head.exit, outcome.ended) {
        (Exit::Code(wanted), Ended::Code(code)) => wanted == code,
        (Exit::Nonzero, Ended::Code(code)) => code != 0,
        _ => false,
    };
    outcome.demand(right_exit, &format!("mpiexec must exit with {:?}", head.exit));
    for text in &head.stderr {
        outcome.demand(outcome.stderr.contains(text.as_str()), &format!("standard error must say {text:?}"));
    }
    for text in &head.absent {
        let present = outcome.stdout.contains(text.as_str()) || outcome.stderr.contains(text.as_str());
        outcome.demand(!present, &format!("the output must not say {text:?}"));
    }
    if !head.aborts {
        outcome.demand_passes(ranks);
    }
    outcome.demand(outcome.left_processes.is_empty(), "no process may be left");
}
