//! Jobs that hang, and jobs that only look like it: what mpiexec says of them, and of which it says nothing.

use weft_fabric_tests::harness::{Ended, Job, Outcome, Toolchain, build, root};

/// A job that hangs is ended by the watchdog after about two seconds.
const PATIENCE: u64 = 60;

fn job(program: &str, ranks: u32, options: &[&str]) -> Job {
    let hang =
        build(Toolchain::under_test(), &root().join("watchdog").join("hang.c"), &["-pthread".to_owned()]);
    let count = ranks.to_string();
    let options: Vec<&str> = ["-n", &count].into_iter().chain(options.iter().copied()).collect();
    Job::under(Toolchain::under_test(), &options, &[hang]).args(&[program]).timeout(PATIENCE)
}

/// Demands that the deadlock is found, ends the job with its code, and is described with all of `words` on one screen.
fn dead(program: &str, ranks: u32, words: &[&str]) {
    let outcome = job(program, ranks, &["--watchdog", "1", "--watchdog-abort"]).run();
    outcome.demand(outcome.ended == Ended::Code(125), "a deadlock must end the job with code 125");
    for word in words {
        outcome.demand(outcome.stderr.contains(word), &format!("the message must say {word:?}"));
    }
    let last = outcome.stderr.rfind("mpiexec: deadlock: ").unwrap_or(0);
    outcome.demand(outcome.stderr[last..].lines().count() <= 24, "the message must fit one screen");
    outcome.demand(outcome.left_processes.is_empty(), "no process may be left");
}

macro_rules! deadlocks {
    ($($name:ident: $ranks:expr, [$($word:expr),*];)*) => {
        mod is_a_deadlock {
            $(#[test] fn $name() { super::dead(stringify!($name), $ranks, &[$($word),*]); })*
        }
    };
}

deadlocks! {
    circle: 3, [
        "ranks 0-2 can never go on", "rank 0: MPI_Recv(source=1, tag=5, MPI_COMM_WORLD, room for 4 bytes)", "called at hang",
        "cycle: 0 waits for 1 (MPI_Recv tag 5), 1 waits for 2 (MPI_Recv tag 5), 2 waits for 0 (MPI_Recv tag 5)"
    ];
    ssends: 2, ["MPI_Ssend(dest=1, tag=7, MPI_COMM_WORLD, 4 bytes)", "0 waits for 1 (MPI_Ssend tag 7)"];
    tag: 2, ["source=1, tag=3", "rank 0 has not received a message with tag 8 from rank 1 of MPI_COMM_WORLD (4 bytes)"];
    finalized: 2, ["rank 1: MPI_Finalize, called at", "cycle: 0 waits for 1 (MPI_Recv tag 2), 1 waits for 0 (MPI_Finalize)"];
    absent: 4, ["ranks 0-2: MPI_Barrier(MPI_COMM_WORLD", "MPI_Barrier: rank 3 has not entered it"];
    later: 3, ["ranks 0-1: MPI_Waitall: 0 of 2 complete", "pending: collective(MPI_COMM_WORLD, collective operation", "cycle: 0 waits for 2 (MPI_Waitall), 2 waits for 0 (MPI_Recv tag 9)"];
    wildcard: 3, ["ranks 0-2: MPI_Recv(source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, MPI_COMM_WORLD"];
    waitall: 2, ["rank 0: MPI_Waitall: 1 of 3 complete", "pending: receive(source=1, tag=1, MPI_COMM_WORLD"];
    waitany: 2, ["rank 1: MPI_Waitany: 0 of 2 complete", "pending: receive(source=0, tag=1, MPI_COMM_WORLD"];
    probe: 2, ["rank 0: MPI_Probe(source=1, tag=6, MPI_COMM_WORLD)"];
    dup: 2, ["rank 0: MPI_Comm_dup(from MPI_COMM_WORLD)", "MPI_Comm_dup: rank 1 has not entered it"];
    window: 2, ["rank 1: MPI_Win_lock(", "lock", "1 waits for 0 (MPI_Win_lock)"];
    named: 4, ["ranks 0-3 can never go on", "rank 0: MPI_Recv(source=0 (rank 1 of MPI_COMM_WORLD), tag=5, row"];
    partitioned: 2, [
        "MPI_Wait: partitioned receive(source=1, tag=3, MPI_COMM_WORLD, 4 partitions)",
        "0 waits for 1 (MPI_Wait tag 3)"
    ];
    partitioned_sends: 2, [
        "MPI_Wait: partitioned send(dest=1, tag=3, row, 4 partitions, the receive is not started)",
        "0 waits for 1 (MPI_Wait tag 3), 1 waits for 0 (MPI_Wait tag 3)"
    ];
    flush_request: 2, [
        "rank 0: MPI_Wait: flush(2 buffered messages must end first, send: dest=1, tag=5, MPI_COMM_WORLD, 200000 bytes",
        "0 waits for 1 (MPI_Wait tag 6), 1 waits for 0 (MPI_Wait tag 6)"
    ];
    flush: 2, ["rank 0: MPI_Buffer_detach(1 buffered messages must end first)", "pending: send(dest=1, tag=5"];
    generalized: 2, ["rank 0: MPI_Wait: generalized request, which the program completes", "cycle: 0 waits for 0 (MPI_Wait"];
    generalized_any: 2, ["rank 0: MPI_Waitany: 0 of 2 complete", "pending: generalized request", "pending: receive(source=1, tag=5"];
    disconnect: 2, ["rank 0: MPI_Comm_disconnect(1 operations on it must end first)", "pending: receive(source=1, tag=5"];
    from_group: 2, ["rank 0: MPI_Comm_create_from_group(from a group)", "0 waits for 1 (MPI_Comm_create_from_group)"];
    session_end: 2, ["rank 1: MPI_Session_finalize(1 operations of the session must end first)", "pending: synchronous send(dest=0, tag=5"];
    threads: 2, ["rank 0: MPI_Recv(source=1, tag=20", "rank 0: MPI_Recv(source=1, tag=21"];
}

/// A job that is slow, stopped, or at work out of sight is never called dead, and ends as if there were no watchdog.
fn alive(program: &str, ranks: u32, words: &[&str]) {
    let outcome = job(program, ranks, &["--watchdog", "1", "--watchdog-abort"]).run();
    outcome.demand(!outcome.stderr.contains("deadlock:"), "a job that lives must not be called dead");
    outcome.demand(outcome.ended == Ended::Code(0), "the job must end by itself");
    outcome.demand(outcome.stdout == "over\n".repeat(ranks as usize), "every rank must come to its end");
    for word in words {
        outcome.demand(outcome.stderr.contains(word), &format!("the message must say {word:?}"));
    }
}

macro_rules! lives {
    ($($name:ident: $ranks:expr, [$($word:expr),*];)*) => {
        mod is_no_deadlock {
            $(#[test] fn $name() { super::alive(stringify!($name), $ranks, &[$($word),*]); })*
        }
    };
}

lives! {
    live_compute: 4, ["ranks 1-3 are blocked in MPI", "MPI_Barrier: rank 0 may not have entered it"];
    live_sleep: 4, ["rank 0: not blocked in MPI: sleeps"];
    live_stopped: 3, ["rank 0: stopped, by a signal or a debugger"];
    live_test: 2, ["rank 0: not blocked"];
    live_thread: 2, ["ranks 0-1 have other threads, or operations under way, that may go on"];
    live_background: 3, ["ranks 0,2 are blocked in MPI"];
    live_session: 2, ["rank 0 is blocked in MPI"];
    live_new_session: 2, ["rank 0 is blocked in MPI"];
    live_generalized_thread: 2, ["ranks 0-1 have other threads, or operations under way, that may go on"];
    live_generalized_any: 2, ["rank 0: MPI_Waitany: 0 of 2 complete"];
    live_disconnect: 2, ["rank 0: MPI_Comm_disconnect("];
    live_late_session: 2, ["rank 0: MPI_Comm_create_from_group(from a group)"];
    live_session_end: 2, ["rank 0: MPI_Session_finalize(1 operations of the session must end first)"];
    live_later: 3, ["MPI_Waitall: 0 of 2 complete"];
    live_flush_request_thread: 2, ["MPI_Wait: flush(1 buffered messages must end first, send: dest=1, tag=5"];
    live_lock: 3, ["rank 1: MPI_Win_lock("];
}

fn demand_silence(outcome: &Outcome) {
    outcome.demand(outcome.ended == Ended::Code(124), "nothing but the time limit may end the job");
    let said: Vec<&str> = outcome.stderr.lines().collect();
    outcome.demand(said.len() == 2 && said[1].contains("still running"), "only the time limit may be told");
}

#[test]
fn switched_off_nothing_is_said() {
    demand_silence(&job("circle", 2, &["--watchdog", "off", "--timeout", "4"]).run());
    demand_silence(&job("circle", 2, &["--timeout", "4"]).env("WEFT_WATCHDOG", "off").run());
}

#[test]
fn a_job_without_the_option_is_left_alone_and_told_of_once() {
    let outcome = job("circle", 2, &["--timeout", "8"]).env("WEFT_WATCHDOG", "1").run();
    outcome.demand(outcome.ended == Ended::Code(124), "the watchdog ends nothing unless asked to");
    outcome.demand(
        outcome.stderr.contains("mpiexec: deadlock: ranks 0-1 can never go on"),
        "the deadlock must be told",
    );
    let limit = outcome.stderr.find("did not end within").unwrap_or(0);
    let end = &outcome.stderr[limit..];
    outcome.demand(end.contains("rank 1: MPI_Recv(source=0"), "the time limit tells who waited for what");
}

#[test]
fn without_a_launcher_a_rank_prints_for_itself_when_asked() {
    let hang =
        build(Toolchain::under_test(), &root().join("watchdog").join("hang.c"), &["-pthread".to_owned()]);
    let words = ["timeout".into(), "4".into(), hang.into_os_string(), "circle".into()];
    let asked = Job::alone(&words).env("WEFT_WATCHDOG", "1").run();
    let line = "weft: rank 0 of 1 (process ";
    asked.demand(asked.stderr.starts_with(line), "the rank must say who it is");
    asked.demand(
        asked.stderr.contains("in MPI_Recv(source=0, tag=5, MPI_COMM_WORLD"),
        "and what it waits for",
    );
    let unasked = Job::alone(&words).run();
    unasked.demand(unasked.stderr.is_empty(), "and nothing when nobody asked");
}

#[test]
fn a_wrong_period_is_refused_with_the_form_of_a_right_one() {
    let outcome = job("circle", 1, &["--watchdog", "soon"]).run();
    outcome.demand(outcome.ended == Ended::Code(2), "a wrong command line has code 2");
    outcome.demand(
        outcome.stderr.contains("whole seconds above 0, off or auto, not \"soon\""),
        "it must say what is right",
    );
}
