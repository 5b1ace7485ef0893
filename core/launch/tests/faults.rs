//! Ranks that die, abort, hang or leave; mpiexec that is interrupted or killed. Nothing may be left behind.
//!
//! Covers `musts.md`: the code of MPI_Abort as exit code of mpiexec [§11.4.2].

mod common;

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use common::{finish, mark, mpiexec, none_left, processes, run, run_probe, script, start, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The promise is 2 s on an idle machine; a test may run on a loaded one, and must only tell ending from not ending.
const SOON: Duration = Duration::from_secs(20);

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("signalled");
}

/// Starts a job whose ranks each run `sleep MARK` below a shell, and waits until all of them do.
fn sleepers(options: &str, ranks: usize, mark: &str) -> Child {
    let child = start(mpiexec(options).args(["sh", "-c", &format!("sleep {mark}; true")]));
    // Each rank is a shell with the mark in its script, and a sleep.
    wait_until("ranks run", || processes(&format!("sleep\0{mark}")).len() == ranks);
    child
}

#[test]
fn a_killed_rank_ends_the_job_and_is_named() {
    let mark = mark(1);
    let begun = Instant::now();
    let child = sleepers("-n 3", 3, &mark);
    let shells = processes(&format!("sh\0-c\0sleep {mark}"));
    let victim = shells.into_iter().filter(|&pid| pid != child.id() as i32).max().expect("a rank");
    kill(Pid::from_raw(victim), Signal::SIGKILL).expect("killed");
    let outcome = finish(child, begun);
    assert_eq!(outcome.code, 137);
    assert!(outcome.err.contains(&format!("pid {victim} on")), "{}", outcome.err);
    assert!(outcome.err.contains("signal 9 (SIGKILL)") && outcome.err.contains("dmesg"), "{}", outcome.err);
    assert!(outcome.took < SOON);
    none_left(&mark);
}

#[test]
fn a_crash_is_told_with_its_signal() {
    let outcome = script("-n 3", "[ $PMI_RANK = 2 ] && kill -SEGV $$; exec sleep 60");
    assert_eq!(outcome.code, 139);
    assert!(outcome.err.contains("rank 2") && outcome.err.contains("SIGSEGV"), "{}", outcome.err);
    assert!(outcome.took < SOON);
}

#[test]
fn abort_gives_its_code_and_words() {
    let outcome = run_probe("-n 3", "abort 42 1");
    assert_eq!(outcome.code, 42);
    assert!(
        outcome.err.contains("rank 1") && outcome.err.contains("ended the job with exit code 42"),
        "{}",
        outcome.err
    );
    assert!(outcome.err.contains("the probe was asked to"), "{}", outcome.err);
    assert_eq!(outcome.out, "last words\n", "the aborting rank ends itself");
    assert!(outcome.took < SOON);
    assert_eq!(run_probe("-n 2", "abort 0 0").code, 1, "an abort is never success");
}

#[test]
fn leaving_without_finalize_ends_the_job() {
    let outcome = run_probe("-n 3", "leave 0 2");
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.err.contains("rank 2") && outcome.err.contains("without calling MPI_Finalize"),
        "{}",
        outcome.err
    );
    assert_eq!(run_probe("-n 2", "leave 17 0").code, 17);
}

/// Whichever comes first: its exit, or the others' waiting.
#[test]
fn a_rank_that_never_joins_is_named() {
    let probe = common::probe().display().to_string();
    for (joins, leaves) in [("sleep 0.5; exec", "exec"), ("exec", "sleep 0.5; exec")] {
        let mut command = mpiexec("-n 2");
        command.args(["sh", "-c", &format!("{joins} {probe} names"), ":", "-n", "1"]);
        command.args(["sh", "-c", &format!("{leaves} {probe} exit-before")]);
        let outcome = run(&mut command);
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(
            outcome.err.contains("rank 2") && outcome.err.contains("for it; the job was ended"),
            "{}",
            outcome.err
        );
    }
}

#[test]
fn two_mpi_programs_in_one_rank_are_refused() {
    let probe = common::probe().display().to_string();
    let outcome = script("-n 2", &format!("{probe} facts; {probe} facts; exec sleep 60"));
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.err.contains("two programs"), "{}", outcome.err);
}

#[test]
fn the_time_limit_ends_the_job() {
    let mark = mark(2);
    let outcome = script("-n 2 --timeout 0.3", &format!("sleep {mark}; true"));
    assert_eq!(outcome.code, 124);
    assert!(
        outcome.err.contains("0.3 s (--timeout)") && outcome.err.contains("ranks 0-1"),
        "{}",
        outcome.err
    );
    none_left(&mark);
    assert_eq!(run(mpiexec("-n 1 sleep 60").env("MPIEXEC_TIMEOUT", "0.2")).code, 124);
    assert_eq!(run(&mut mpiexec("-n 1 --timeout 60 true")).code, 0);
}

#[test]
fn the_last_words_of_ranks_are_told_at_the_time_limit() {
    let mut command = mpiexec("-n 2 --timeout 1");
    let outcome = run(command.arg(common::probe()).args(["note", "waits in MPI_Recv from rank 1, tag 7"]));
    assert!(
        outcome.err.contains("rank 0 last said: waits in MPI_Recv from rank 1, tag 7"),
        "{}",
        outcome.err
    );
}

#[test]
fn ranks_that_ignore_sigterm_are_killed() {
    let mark = mark(3);
    let outcome = script("-n 2 --timeout 0.3", &format!("trap '' TERM; sleep {mark}; sleep {mark}; true"));
    assert_eq!(outcome.code, 124);
    assert!(outcome.err.contains("SIGKILL"), "{}", outcome.err);
    assert!(outcome.took < SOON);
    none_left(&mark);
}

#[test]
fn stopped_ranks_are_ended_too() {
    let outcome = script("-n 2", "[ $PMI_RANK = 0 ] && { sleep 0.3; exit 3; }; kill -STOP $$; sleep 60");
    assert_eq!(outcome.code, 3);
    assert!(outcome.took < SOON);
}

#[test]
fn what_ranks_leave_in_the_background_is_ended_with_the_job() {
    let mark = mark(4);
    let outcome = script("-n 2", &format!("sleep {mark} & exit 0"));
    assert_eq!(outcome.code, 0);
    assert!(processes(&format!("sleep\0{mark}")).is_empty(), "mpiexec ends after them");
}

#[test]
fn a_daemon_that_holds_the_output_open_is_not_waited_for() {
    let mark = mark(5);
    let outcome = script("-n 2", &format!("[ $PMI_RANK = 0 ] && setsid sleep {mark} & sleep 0.2; echo done"));
    let daemons = processes(&format!("sleep\0{mark}"));
    for &pid in &daemons {
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("killed");
    }
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "done\ndone\n"), "{outcome:?}");
    assert!(outcome.took < SOON);
}

#[test]
fn killing_mpiexec_ends_ranks_and_what_they_started() {
    let mark = mark(6);
    let child = sleepers("-n 3", 3, &mark);
    signal(&child, Signal::SIGKILL);
    finish(child, Instant::now());
    none_left(&mark);
}

#[test]
fn signals_are_passed_on() {
    let begun = Instant::now();
    let mark = mark(7);
    let text = format!(
        "trap 'echo usr1' USR1; trap 'echo term; exit 0' TERM; echo ready $PMI_RANK {mark}; while :; do sleep 0.05; done"
    );
    let child = start(mpiexec("-n 2").args(["sh", "-c", &text]));
    wait_until("traps are set", || processes(&format!("echo ready $PMI_RANK {mark}")).len() >= 3);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, Signal::SIGUSR1);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, Signal::SIGTERM);
    let outcome = finish(child, begun);
    assert_eq!(outcome.out.matches("usr1").count(), 2, "{outcome:?}");
    assert_eq!(outcome.out.matches("term").count(), 2, "{outcome:?}");
    // The shell may tell of its sleep's end; mpiexec has nothing to say about ranks that end well.
    assert_eq!((outcome.code, outcome.err.contains("mpiexec")), (0, false), "{outcome:?}");
}

#[test]
fn an_interrupt_ends_ranks_and_shows_in_the_code() {
    let mark = mark(8);
    let begun = Instant::now();
    let child = sleepers("-n 2", 2, &mark);
    signal(&child, Signal::SIGINT);
    let outcome = finish(child, begun);
    assert_eq!(outcome.code, 130, "{outcome:?}");
    assert!(outcome.err.contains("SIGINT") && outcome.err.lines().count() == 1, "{}", outcome.err);
    none_left(&mark);
}

#[test]
fn the_second_interrupt_kills_at_once() {
    let mark = mark(9);
    let begun = Instant::now();
    let text = format!("trap '' INT TERM; sleep {mark}; sleep {mark}; true");
    let child = start(mpiexec("-n 2").args(["sh", "-c", &text]));
    wait_until("ranks run", || processes(&format!("sleep\0{mark}")).len() == 2);
    signal(&child, Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(processes(&format!("sleep\0{mark}")).len(), 2, "the first one is theirs to handle");
    signal(&child, Signal::SIGINT);
    assert_eq!(finish(child, begun).code, 130);
    none_left(&mark);
}

#[test]
fn stop_and_continue_reach_the_ranks() {
    let mark = mark(10);
    let begun = Instant::now();
    let child = start(mpiexec("-n 1").args(["sh", "-c", &format!("sleep 0.{mark}; sleep 1; echo done")]));
    let state = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
    };
    wait_until("the rank runs", || processes(&mark).len() >= 2);
    std::thread::sleep(Duration::from_millis(100));
    signal(&child, Signal::SIGTSTP);
    wait_until("mpiexec stops", || state(child.id() as i32) == Some('T'));
    signal(&child, Signal::SIGCONT);
    let outcome = finish(child, begun);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "done\n"), "{outcome:?}");
}

#[test]
fn a_rank_that_talks_nonsense_is_named() {
    // Not every sh knows descriptors above 9.
    let outcome = script("-n 2", "[ $PMI_RANK = 1 ] && bash -c \"echo hello >&$PMI_FD\"; exec sleep 60");
    assert_eq!(outcome.code, 1);
    assert!(outcome.err.contains("rank 1") && outcome.err.contains("PMI_FD"), "{}", outcome.err);
}

/// Wrappers that close or reuse descriptors: the library must say so rather than write into somebody's file.
#[test]
fn descriptors_lost_on_the_way_are_named() {
    let probe = common::probe().display().to_string();
    for change in
        ["exec 9>/dev/null; export WEFT_NODE_FD=9", "export WEFT_NODE_FD=987", "export WEFT_NODE_FD=x"]
    {
        let outcome = script("-n 1", &format!("{change}; exec {probe} facts"));
        assert_eq!(outcome.code, 99, "{change}: {outcome:?}");
        assert!(
            outcome.err.contains("WEFT_NODE_FD") && outcome.err.contains("unset WEFT_JOB"),
            "{}",
            outcome.err
        );
    }
    let outcome = script("-n 1", &format!("export WEFT_JOB=v=7; exec {probe} facts"));
    assert!(outcome.err.contains("mpiexec of the same installation"), "{}", outcome.err);
}

#[test]
fn no_file_is_left_behind() {
    let weft_files = || {
        let entries =
            ["/dev/shm", "/tmp"].iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        let names =
            entries.filter_map(Result::ok).map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("weft-weft")).count()
    };
    let before = weft_files();
    assert_eq!(run_probe("-n 2", "share").code, 0);
    run_probe("-n 2", "leave 3 1");
    assert_eq!(weft_files(), before);
}

/// `become` replaces a rank after MPI has begun; its descriptors are closed then, and its end still counts.
#[test]
fn a_rank_that_turns_into_another_program_still_counts() {
    let mut command: Command = mpiexec("-n 2");
    let outcome = run(command.arg(common::probe()).args(["become", "false"]));
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.err.contains("without calling MPI_Finalize"), "{}", outcome.err);
}
