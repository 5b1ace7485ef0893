//! Mistakes under the default error handler, processes that die, and machines that lack something.

use std::fs;
use std::path::{Path, PathBuf};

use weft_fabric_tests::harness::{Ended, Job, Outcome, Toolchain, build, root, run_under, skip};

fn program(name: &str) -> PathBuf {
    build(Toolchain::under_test(), &root().join("faults").join(name), &[])
}

/// Seconds within which a job must be over in which somebody died; the aim is 2.
const SOON: u64 = 10;

/// Runs the mistake on `ranks` ranks and demands a failing exit and a message with all of `words`.
fn fatal(mistake: &str, ranks: u32, words: &[&str]) {
    let outcome =
        Job::new(Toolchain::under_test(), ranks, &program("fatal.c")).args(&[mistake]).timeout(SOON).run();
    outcome.demand(matches!(outcome.ended, Ended::Code(code) if code != 0), "the job must fail");
    outcome.demand(!outcome.stdout.contains("survived"), "nobody may go on");
    for word in words {
        outcome.demand(outcome.stderr.contains(word), &format!("the message must say {word:?}"));
    }
    outcome.demand(outcome.left_processes.is_empty(), "no process may be left");
}

macro_rules! fatal_mistakes {
    ($($name:ident: $ranks:expr, [$($word:expr),*];)*) => {
        mod fatal_mistake_is_told {
            $(#[test] fn $name() { super::fatal(stringify!($name), $ranks, &[$($word),*]); })*
        }
    };
}

fatal_mistakes! {
    rank: 2, ["MPI_Send", "rank 1 of 2", "MPI_ERR_RANK", "dest", "77"];
    tag: 2, ["MPI_Send", "rank 1 of 2", "MPI_ERR_TAG", "tag", "-77"];
    count: 2, ["MPI_Send", "rank 1 of 2", "MPI_ERR_COUNT", "count", "-77"];
    datatype: 1, ["MPI_Send", "rank 0 of 1", "MPI_ERR_TYPE", "datatype"];
    comm: 2, ["MPI_Send", "rank 1 of 2", "MPI_ERR_COMM", "comm"];
    buffer: 2, ["MPI_Send", "rank 1 of 2", "MPI_ERR_BUFFER", "buf"];
    root: 2, ["MPI_Bcast", "rank 1 of 2", "MPI_ERR_ROOT", "root", "77"];
    op: 2, ["MPI_Allreduce", "rank 1 of 2", "MPI_ERR_OP", "op"];
    request: 2, ["MPI_Request_free", "rank 1 of 2", "MPI_ERR_REQUEST", "request"];
    truncate: 2, ["MPI_Recv", "rank 1 of 2", "MPI_ERR_TRUNCATE", "400", "4"];
    freed_comm: 2, ["MPI_Barrier", "rank 1 of 2", "MPI_ERR_COMM", "freed"];
    double_init: 2, ["MPI_Init", "rank 1 of 2"];
    before_init: 2, ["MPI_Send", "MPI_Init"];
    rank_before_init: 2, ["MPI_Comm_rank", "MPI_Init"];
    after_finalize: 2, ["MPI_Send", "MPI_Finalize"];
}

/// Where a run with a /dev/shm of its own leaves the list of what it left there.
const LISTING: &str = "listing";

/// Wraps the job in a mount namespace with a /dev/shm of `size` (as `mount -o size=` takes it), and lists what is left in it.
fn with_own_shm(job: Job, size: &str) -> Job {
    let script = format!(
        "mount -t tmpfs -o size={size} tmpfs /dev/shm || exit 125; \"$@\"; code=$?; ls -A /dev/shm > \"$TMPDIR/{LISTING}\"; exit $code"
    );
    job.wrapped_in(&["unshare", "--mount", "--map-root-user", "sh", "-c", &script, "sh"]).keep(LISTING)
}

/// Whether this user can have a mount namespace; where not, the tests that need one say so and do nothing.
fn namespaces_work() -> bool {
    let works = std::process::Command::new("unshare")
        .args(["--mount", "--map-root-user", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !works {
        skip("unshare --mount does not work here");
    }
    works
}

fn demand_nothing_left(outcome: &Outcome, isolated: bool) {
    outcome.demand(outcome.left_processes.is_empty(), "no process may be left");
    if isolated {
        outcome.demand(outcome.kept.as_deref() == Some(""), "no file may be left in /dev/shm");
    }
    let files: Vec<_> = outcome.left_files.iter().filter(|name| *name != LISTING).collect();
    outcome.demand(files.is_empty(), "no file may be left in the temporary folder");
}

/// Names under /dev/shm and /tmp that look like ours.
fn traces() -> Vec<String> {
    ["/dev/shm", "/tmp"]
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flat_map(|entries| entries.flatten())
        .map(|entry| entry.path().display().to_string())
        .filter(|path| path.contains("weft"))
        .collect()
}

/// The last of `ranks` ranks dies by `signal` at `moment`, `delay` ms into it.
fn dies(moment: &str, signal: i32, name: &str, delay: u32, ranks: u32) {
    let job = Job::new(Toolchain::under_test(), ranks, &program("victim.c"))
        .args(&[moment.to_owned(), signal.to_string(), delay.to_string()])
        .timeout(SOON);
    let isolated = namespaces_work();
    let before = traces();
    let outcome = if isolated { with_own_shm(job, "256m") } else { job }.run();
    outcome.demand(matches!(outcome.ended, Ended::Code(code) if code != 0), "the job must fail, soon");
    outcome.demand(!outcome.stdout.contains("survived"), "nobody may go on");
    let rank = format!("rank {}", ranks - 1);
    outcome.demand(outcome.stderr.contains(&rank), &format!("the message must say {rank:?}"));
    let number = format!("signal {signal}");
    outcome.demand(
        outcome.stderr.contains(&number) || outcome.stderr.contains(name),
        &format!("the message must say {number:?} or {name:?}"),
    );
    demand_nothing_left(&outcome, isolated);
    if !isolated {
        outcome.demand(traces().iter().all(|path| before.contains(path)), "no file may be left in /tmp");
    }
}

macro_rules! deaths {
    ($($name:ident: $moment:literal, $signal:literal, $text:literal, $delay:literal, $ranks:literal;)*) => {
        mod when_a_rank_dies_the_job_ends {
            $(#[test] fn $name() { super::dies($moment, $signal, $text, $delay, $ranks); })*
        }
    };
}

deaths! {
    killed_before_init: "before_init", 9, "SIGKILL", 0, 2;
    killed_in_init_at_once: "init", 9, "SIGKILL", 0, 2;
    killed_in_init_at_2_ms: "init", 9, "SIGKILL", 2, 3;
    killed_in_init_at_8_ms: "init", 9, "SIGKILL", 8, 2;
    killed_after_init: "after_init", 9, "SIGKILL", 0, 2;
    killed_in_receive: "recv", 9, "SIGKILL", 50, 2;
    killed_in_receive_of_four: "recv", 9, "SIGKILL", 50, 4;
    crashed_in_receive: "recv", 11, "SIGSEGV", 30, 2;
    aborted_in_receive: "recv", 6, "SIGABRT", 30, 2;
    terminated_in_receive: "recv", 15, "SIGTERM", 30, 2;
    killed_while_others_are_in_barrier: "barrier", 9, "SIGKILL", 50, 4;
    crashed_while_others_are_in_barrier: "barrier", 11, "SIGSEGV", 50, 3;
    killed_in_collectives: "collectives", 9, "SIGKILL", 60, 3;
    killed_in_collectives_of_eight: "collectives", 9, "SIGKILL", 100, 8;
    crashed_in_collectives: "collectives", 11, "SIGSEGV", 35, 2;
    killed_among_small_messages: "small_messages", 9, "SIGKILL", 40, 2;
    crashed_among_small_messages: "small_messages", 11, "SIGSEGV", 25, 4;
    killed_among_large_messages: "large_messages", 9, "SIGKILL", 40, 2;
    crashed_among_large_messages: "large_messages", 11, "SIGSEGV", 55, 2;
    killed_while_others_compute: "computing", 9, "SIGKILL", 40, 2;
    killed_while_others_are_in_finalize: "finalize", 9, "SIGKILL", 50, 3;
    crashed_while_others_are_in_finalize: "finalize", 11, "SIGSEGV", 50, 2;
    killed_after_finalize: "after_finalize", 9, "SIGKILL", 50, 2;
}

/// Runs a conformance program as it is, in a machine that lacks something.
fn conformance_in(relative: &str, ranks: u32, wrap: impl FnOnce(Job) -> Job) {
    let _ = run_under(Path::new(relative), ranks, wrap);
}

macro_rules! in_a_poor_machine {
    ($($name:ident: $program:literal, $ranks:literal;)*) => {
        mod with_a_dev_shm_of_64_mib {
            $(#[test] fn $name() {
                if super::namespaces_work() {
                    super::conformance_in(concat!("conformance/", $program), $ranks, |job| super::with_own_shm(job, "64m"));
                }
            })*
        }
        mod with_a_dev_shm_of_one_page {
            $(#[test] fn $name() {
                if super::namespaces_work() {
                    super::conformance_in(concat!("conformance/", $program), $ranks, |job| super::with_own_shm(job, "4k"));
                }
            })*
        }
        mod with_process_vm_readv_denied {
            $(#[test] fn $name() {
                let deny = super::program("deny.c");
                super::conformance_in(concat!("conformance/", $program), $ranks, |job| job.wrapped_in(&[deny]));
            })*
        }
    };
}

in_a_poor_machine! {
    messages_of_all_sizes: "ch03/sizes.c", 2;
    every_mode: "ch03/send_modes.c", 3;
    truncated_messages: "ch03/truncation.c", 2;
    order: "ch03/order.c", 4;
    broadcasts: "ch06/bcast.c", 8;
    reductions: "ch06/reduce_family.c", 4;
    exchanges: "ch06/alltoall.c", 5;
}

/// The job's exit code is what MPI_Abort was given.
#[test]
fn abort_code_is_the_exit_code_of_mpiexec() {
    let outcome = Job::new(
        Toolchain::under_test(),
        2,
        &build(Toolchain::under_test(), &root().join("conformance/ch11/abort.c"), &[]),
    )
    .timeout(SOON)
    .run();
    outcome.demand(outcome.ended == Ended::Code(7), "mpiexec must exit with the code of MPI_Abort");
    outcome.demand(outcome.stderr.contains("rank 1"), "the message must say who aborted");
    demand_nothing_left(&outcome, false);
}

/// A rank that fails by its exit code, without any MPI error, gives its code to the job.
#[test]
fn exit_code_of_a_rank_is_the_exit_code_of_mpiexec() {
    let outcome =
        Job::under(Toolchain::under_test(), &["-n", "2"], &["sh", "-c", "exit 23"]).timeout(SOON).run();
    outcome.demand(outcome.ended == Ended::Code(23), "mpiexec must exit with the code of the rank");
}

/// Killing mpiexec itself, even by SIGKILL, leaves no rank and no file.
#[test]
fn ranks_end_when_mpiexec_is_killed() {
    let before = traces();
    for signal in ["KILL", "TERM", "INT"] {
        let job = Job::new(Toolchain::under_test(), 3, &program("victim.c"))
            .args(&["recv", "9", "60000"])
            .timeout(SOON);
        let outcome = job.run_with(|mark| {
            std::thread::sleep(std::time::Duration::from_millis(400));
            let launcher = weft_fabric_tests::harness::launcher_of(mark).expect("the launcher is running");
            let _ = std::process::Command::new("kill")
                .args([&format!("-{signal}"), &launcher.to_string()])
                .status();
        });
        outcome.demand(outcome.ended != Ended::TimedOut, "mpiexec must end");
        outcome.demand(outcome.ended != Ended::Code(0), "the job must fail");
        outcome
            .demand(outcome.left_processes.is_empty(), &format!("no process may be left after SIG{signal}"));
        outcome.demand(traces().iter().all(|path| before.contains(path)), "no file may be left");
    }
}
