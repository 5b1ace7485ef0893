//! Jobs on several hosts. The hosts are this machine under other names: their agents are started by `env`, which is as good as
//! ssh for everything but the network; that is tested in `ci/fabric`.

mod common;

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use common::{finish, mark, mpiexec, none_left, probe, processes, run, run_with, start, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Tells ending from not ending, also on a loaded machine.
const SOON: Duration = Duration::from_secs(30);

/// mpiexec whose agents are children of `env`, marked in their command line by the host's name.
fn on_hosts(options: &str) -> Command {
    let mut command = mpiexec("--agent");
    command.arg("env WEFT_TEST_HOST={host}");
    command.args(options.split_whitespace());
    command
}

fn script(options: &str, script: &str) -> common::Outcome {
    run(on_hosts(options).args(["sh", "-c", script]))
}

/// Starts a job of sleepers, one shell with a child a rank, and waits until all run.
fn sleepers(options: &str, ranks: usize, mark: &str) -> Child {
    let child = start(on_hosts(options).args(["sh", "-c", &format!("sleep {mark}; true")]));
    wait_until("ranks run", || processes(&format!("sleep\0{mark}")).len() == ranks);
    child
}

/// The agents of one mpiexec, in the order in which they were started.
fn agents(of: &Child) -> Vec<Pid> {
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        rest.split(' ').nth(1).and_then(|parent| parent.parse().ok()) == Some(of.id())
    };
    let mut pids: Vec<i32> = processes("--agent-of-mpiexec").into_iter().filter(is_child).collect();
    pids.sort_unstable();
    pids.into_iter().map(Pid::from_raw).collect()
}

#[test]
fn ranks_are_dealt_and_their_words_come_back() {
    let say = "echo $WEFT_TEST_HOST $PMI_RANK $MPI_LOCALRANKID of $PMI_SIZE";
    let outcome = script("--hosts far1:2,far2:1 -n 4 -l", say);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let lines = ["[0] 0 0 of 4", "[1] 1 1 of 4", "[2] 2 0 of 4", "[3] 3 2 of 4"];
    assert_eq!(outcome.sorted(), lines, "what belongs to a host's own environment is not passed on");
    let outcome = script("--hosts far1,far2 -n 4 -ppn 1 -v", "exit 0");
    for line in ["rank 0 is pid", "on far1", "on far2"] {
        assert!(outcome.err.contains(line), "{}", outcome.err);
    }
}

#[test]
fn host_files_and_sections_name_hosts() {
    let file = std::env::temp_dir().join(format!("weft-hosts-{}", std::process::id()));
    std::fs::write(&file, "far1 slots=1 # the first\n\nfar2:2\n").expect("a file");
    let options = format!("--hostfile {} -n 3 -v", file.display());
    let outcome = script(&options, "exit 0");
    std::fs::remove_file(&file).expect("it is ours");
    let on_far2 = outcome.err.lines().filter(|line| line.contains("on far2")).count();
    assert_eq!((outcome.code, on_far2), (0, 2), "{}", outcome.err);
    let outcome = run(&mut on_hosts("--hosts far1:2,far2:2 -v -n 2 true : -n 2 true : true"));
    let on = |host: &str| outcome.err.lines().filter(|line| line.contains(&format!("on {host}:"))).count();
    assert_eq!(
        (outcome.code, on("far1"), on("far2")),
        (0, 3, 2),
        "programs share the hosts: {}",
        outcome.err
    );
    let sections = "-host far1 -n 1 -v echo one : -host far2:2 echo two";
    let outcome = run(&mut on_hosts(sections));
    assert_eq!((outcome.code, outcome.sorted()), (0, vec!["one", "two", "two"]), "{}", outcome.err);
}

#[test]
fn standard_input_reaches_rank_0_and_all_output_comes_back() {
    let text: String = (0..40_000).map(|number| format!("line {number}\n")).collect();
    let outcome = run_with(on_hosts("--hosts far1,far2 -n 2").arg("cat"), text.as_bytes());
    assert_eq!((outcome.code, outcome.out == text), (0, true), "{} bytes came back", outcome.out.len());
    let lines = "i=0; while [ $i -lt 20000 ]; do echo $PMI_RANK $i; i=$((i+1)); done";
    let outcome = script("--hosts far1,far2 -n 2", lines);
    assert_eq!((outcome.code, outcome.out.lines().count()), (0, 40_000));
    assert!(outcome.out.lines().all(|line| line.split(' ').count() == 2), "lines stay whole");
    // A rank that reads nothing keeps nobody waiting.
    let outcome = run_with(on_hosts("--hosts far1,far2 -n 2").arg("true"), &vec![b'x'; 1 << 20]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
}

#[test]
fn keys_and_fences_span_the_hosts() {
    for (word, says) in [("names", "knows all names"), ("share", "shares memory with 2 ranks")] {
        let outcome = run(on_hosts("--hosts far1,far2,far3 -n 6").arg(probe()).arg(word));
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        assert_eq!(outcome.out.lines().filter(|line| line.contains(says)).count(), 6, "{}", outcome.out);
    }
}

#[test]
fn an_abort_ends_all_hosts() {
    let mark = mark(1);
    let line = format!("if [ $PMI_RANK = 3 ]; then {} abort 42 3; else sleep {mark}; fi", probe().display());
    let outcome = script("--hosts far1,far2 -n 4", &line);
    assert_eq!(outcome.code, 42, "{}", outcome.err);
    assert!(outcome.err.contains("rank 3") && outcome.err.contains("on far2"), "{}", outcome.err);
    assert!(outcome.took < SOON);
    none_left(&format!("sleep\0{mark}"));
}

#[test]
fn a_crash_is_named_with_its_host() {
    let outcome = script("--hosts far1,far2 -n 2", "[ $PMI_RANK = 1 ] && kill -SEGV $$; exec sleep 60");
    assert_eq!(outcome.code, 139);
    assert!(outcome.err.contains("on far2") && outcome.err.contains("SIGSEGV"), "{}", outcome.err);
    assert!(outcome.took < SOON);
}

#[test]
fn a_death_that_a_host_cannot_tell_its_ranks_ends_the_job() {
    let outcome = run(on_hosts("--hosts far1,far2 -n 4").arg(probe()).args(["outlive", "3"]));
    assert_eq!(outcome.code, 137, "{}", outcome.err);
    for words in ["cannot be told that rank 3 has died", "SIGKILL", "running ranks were ended"] {
        assert!(outcome.err.contains(words), "{words} is missing in {}", outcome.err);
    }
    assert!(outcome.took < SOON);
}

#[test]
fn a_program_that_is_missing_is_told_with_its_host() {
    let outcome = run(on_hosts("--hosts far1,far2 -n 4").arg("./no-such-program"));
    assert_eq!(outcome.code, 127, "{}", outcome.err);
    assert!(outcome.err.contains("on far") && outcome.err.contains("no-such-program"), "{}", outcome.err);
}

#[test]
fn a_lost_host_is_named_and_ends_the_job() {
    let mark = mark(2);
    let begun = Instant::now();
    let child = sleepers("--hosts far1,far2,far3 -n 6", 6, &mark);
    let victims = agents(&child);
    assert_eq!(victims.len(), 3);
    kill(victims[1], Signal::SIGKILL).expect("killed");
    let outcome = finish(child, begun);
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    assert!(outcome.err.contains("the host far2 is lost with ranks 2-3"), "{}", outcome.err);
    assert!(outcome.err.contains("the 4 other"), "{}", outcome.err);
    assert!(outcome.took < SOON);
    none_left(&format!("sleep\0{mark}"));
}

#[test]
fn a_host_without_an_agent_is_named() {
    let mut command = mpiexec("--agent /no/such/command --hosts far1,far2 -n 2 true");
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 1);
    assert!(outcome.err.contains("the host far1 is lost"), "{}", outcome.err);
    assert!(outcome.err.contains("/no/such/command"), "{}", outcome.err);
    let outcome = run(&mut mpiexec("--agent echo --hosts far1,far2 -n 2 true"));
    assert_eq!(outcome.code, 1);
    assert!(outcome.err.contains("something else than frames"), "{}", outcome.err);
}

#[test]
fn nothing_stays_when_mpiexec_is_killed_or_interrupted() {
    for (number, signal, code) in [(3, Signal::SIGKILL, 137), (4, Signal::SIGTERM, 143)] {
        let mark = mark(number);
        let begun = Instant::now();
        let child = sleepers("--hosts far1,far2 -n 4", 4, &mark);
        kill(Pid::from_raw(child.id() as i32), signal).expect("signalled");
        let outcome = finish(child, begun);
        assert_eq!(outcome.code, code, "{}", outcome.err);
        none_left(&format!("sleep\0{mark}"));
    }
}

#[test]
fn a_time_limit_holds_on_all_hosts() {
    let mark = mark(5);
    let outcome = script("--hosts far1,far2 -n 2 --timeout 1", &format!("sleep {mark}"));
    assert_eq!(outcome.code, 124, "{}", outcome.err);
    none_left(&format!("sleep\0{mark}"));
}

#[test]
fn each_host_finds_cores_for_the_lanes_of_its_ranks() {
    let outcome = run(&mut on_hosts(
        "--hosts far1:1,far2:1 -n 1 --threads 1 --report-bindings printenv WEFT_JOB : -n 1 true",
    ));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    for (rank, host) in [(0, "far1"), (1, "far2")] {
        let line =
            outcome.err.lines().find(|line| line.contains(&format!("{host}: rank {rank} is bound to")));
        assert!(line.is_some_and(|line| line.contains("lanes on core 0")), "{}", outcome.err);
    }
    assert!(outcome.out.contains(";lanes="), "{}", outcome.out);
}

/// What an agent tells is not trusted: one that says what cannot be loses its host, and mpiexec ends the job in order.
#[test]
fn an_agent_that_tells_nonsense_ends_the_job_and_not_mpiexec() {
    use weft_launch::hosts::frames::{Kind, emit};
    let pid = 1_i32.to_le_bytes();
    let refused: &[u8] = b"\x7f\0\0\0because";
    type Told<'a> = &'a [(Kind, u32, &'a [u8])];
    let tables: [(Told<'_>, &str); 4] = [
        (
            &[
                (Kind::Started, 0, &pid),
                (Kind::Started, 0, &pid),
                (Kind::Started, 0, &pid),
                (Kind::NotStarted, 0, refused),
            ],
            "because",
        ),
        (
            &[(Kind::Started, 0, &pid), (Kind::Ended, 0, &[2, 0, 0, 0, 0, 0])],
            "told no end that rank 0 can have",
        ),
        (&[(Kind::Started, 0, &pid), (Kind::Ended, 0, &[])], "told no end that rank 0 can have"),
        (
            &[(Kind::Started, 7, &[]), (Kind::Said, 0, b"cmd=finalize no=sense"), (Kind::Bye, 0, &[])],
            "went before they ended",
        ),
    ];
    for (number, (frames, told)) in tables.into_iter().enumerate() {
        let mut bytes = Vec::new();
        emit(Kind::Ping, 0, &[], &mut bytes);
        frames.iter().for_each(|&(kind, number, content)| emit(kind, number, content, &mut bytes));
        let base = std::env::temp_dir().join(format!("weft-liar-{}-{number}", std::process::id()));
        let (said, liar) = (base.with_extension("said"), base.with_extension("sh"));
        std::fs::write(&said, bytes).expect("a file");
        std::fs::write(&liar, format!("cat {}; exec cat >/dev/null", said.display())).expect("a file");
        let agent = format!("sh {} {{host}}", liar.display());
        let outcome = run(mpiexec("--hosts far1:2 -n 2 --timeout 20").arg("--agent").arg(agent).arg("true"));
        for file in [said, liar] {
            std::fs::remove_file(file).expect("it is ours");
        }
        assert!(![0, 101, 134].contains(&outcome.code), "{number}: {} {}", outcome.code, outcome.err);
        assert!(outcome.err.contains(told) && !outcome.err.contains("panicked"), "{number}: {}", outcome.err);
    }
}
