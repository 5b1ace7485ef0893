//! Splits and reordering by hardware, on machines that hwloc's variables describe and mpiexec plans for.

use std::path::PathBuf;

use weft_fabric_tests::harness::{Ended, Job, Outcome, Toolchain, build, root};

fn program(name: &str) -> PathBuf {
    build(Toolchain::under_test(), &root().join("locality").join(name), &[])
}

/// Runs a program with options of mpiexec on a described machine, and gives what it printed.
fn run(name: &str, machine: (&str, &str), options: &[&str], args: &[&str]) -> Outcome {
    let program = program(name);
    let job = Job::under(Toolchain::under_test(), options, &[&program]).args(args).env(machine.0, machine.1);
    let outcome = job.run();
    outcome.demand(outcome.ended == Ended::Code(0), "it must succeed");
    outcome
}

fn synthetic(text: &str) -> (&'static str, &str) {
    ("HWLOC_SYNTHETIC", text)
}

#[track_caller]
fn prints(outcome: &Outcome, lines: &[&str]) {
    outcome.demand(outcome.stdout.lines().eq(lines.iter().copied()), &format!("it must print {lines:#?}"));
}

/// Figure 7.3 in small: packages with two NUMA nodes, each with its cache and cores; ranks are bound to cores.
#[test]
fn unguided_splits_show_the_hierarchy() {
    let machine = synthetic("pack:2 numa:2 l3:1 core:2 pu:1");
    let outcome = run("splits.c", machine, &["-n", "8", "--bind-to", "core"], &["hwloc://L3Cache"]);
    let parts = "in one Machine Package NUMANode L3Cache Core PU; unguided";
    prints(
        &outcome,
        &[
            &format!("rank 0 {parts} Package=0+1+2+3 NUMANode=0+1 Core=0; hwloc://L3Cache=0+1"),
            &format!("rank 1 {parts} Package=0+1+2+3 NUMANode=0+1 Core=1; hwloc://L3Cache=0+1"),
            &format!("rank 2 {parts} Package=0+1+2+3 NUMANode=2+3 Core=2; hwloc://L3Cache=2+3"),
            &format!("rank 3 {parts} Package=0+1+2+3 NUMANode=2+3 Core=3; hwloc://L3Cache=2+3"),
            &format!("rank 4 {parts} Package=4+5+6+7 NUMANode=4+5 Core=4; hwloc://L3Cache=4+5"),
            &format!("rank 5 {parts} Package=4+5+6+7 NUMANode=4+5 Core=5; hwloc://L3Cache=4+5"),
            &format!("rank 6 {parts} Package=4+5+6+7 NUMANode=6+7 Core=6; hwloc://L3Cache=6+7"),
            &format!("rank 7 {parts} Package=4+5+6+7 NUMANode=6+7 Core=7; hwloc://L3Cache=6+7"),
        ],
    );
}

/// An XML file with CPUs numbered crosswise and packages that differ: the second split is by NUMA nodes in one, by cores in the
/// other.
#[test]
fn packages_may_differ() {
    let file = root().join("locality/numbered_crosswise.xml");
    let machine = ("HWLOC_XMLFILE", file.to_str().expect("a path of letters"));
    let outcome = run("splits.c", machine, &["-n", "8", "--bind-to", "core"], &["NUMANode"]);
    let parts = "in one Machine Package NUMANode L3Cache Core PU; unguided";
    let line = |rank: u32, rest: &str| format!("rank {rank} {parts} {rest}");
    let expected: Vec<String> = (0..8)
        .map(|rank| match rank {
            0 | 1 => line(rank, &format!("Package=0+1+2+3 NUMANode=0+1 Core={rank}; NUMANode=0+1")),
            2 | 3 => line(rank, &format!("Package=0+1+2+3 NUMANode=2+3 Core={rank}; NUMANode=2+3")),
            _ => line(rank, &format!("Package=4+5+6+7 Core={rank}; NUMANode=4+5+6+7")),
        })
        .collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    // mpiexec numbers cores as the file does: first NUMA node 0, then 1, then 2.
    prints(&outcome, &expected);
}

/// Ranks bound to packages utilise nothing smaller, ranks bound to nothing only the machine.
#[test]
fn wide_bindings_end_the_hierarchy_early() {
    let machine = synthetic("pack:2 l3:2 core:2 pu:2");
    let outcome = run("splits.c", machine, &["-n", "4", "--bind-to", "socket"], &["Core"]);
    let line = |rank: u32, with: &str| {
        format!("rank {rank} in one Machine Package NUMANode; unguided Package={with}; Core none")
    };
    // One memory for all is a NUMA node, too.
    let lines = [line(0, "0+2"), line(1, "1+3"), line(2, "0+2"), line(3, "1+3")];
    prints(&outcome, &lines.each_ref().map(String::as_str));
    let outcome = run("splits.c", machine, &["-n", "2"], &["Package"]);
    prints(
        &outcome,
        &[
            "rank 0 in one Machine NUMANode; unguided; Package none",
            "rank 1 in one Machine NUMANode; unguided; Package none",
        ],
    );
}

/// mpiexec's report and the splits tell one story.
#[test]
fn report_bindings_agrees_with_the_splits() {
    let machine = synthetic("pack:2 core:4 pu:1");
    let options = ["-n", "4", "--bind-to", "core", "--map-by", "socket", "--report-bindings"];
    let outcome = run("splits.c", machine, &options, &["Package"]);
    for (rank, (package, mates)) in [(0, "0+2"), (1, "1+3"), (0, "0+2"), (1, "1+3")].into_iter().enumerate() {
        let report = format!("rank {rank} is bound to socket {package}");
        let told = outcome.stderr.contains(&report) || outcome.stdout.contains(&report);
        outcome.demand(told, &format!("the report must say {report:?}"));
        let split = format!("Package={mates}");
        let line = outcome.stdout.lines().find(|line| line.starts_with(&format!("rank {rank} in one")));
        outcome.demand(line.is_some_and(|line| line.ends_with(&split)), &format!("rank {rank}: {split}"));
    }
}

/// A description that cannot be read is named once; the rest works without it.
#[test]
fn a_broken_description_is_told_once() {
    let outcome = run("splits.c", ("HWLOC_XMLFILE", "/no/such/file.xml"), &["-n", "2"], &["Package"]);
    let told = outcome.stderr.matches("/no/such/file.xml").count();
    outcome.demand(told == 1, "the file is named once");
}

#[track_caller]
fn reorders(form: &str, torus: bool, options: &[&str], expected: &str) {
    let machine = synthetic("pack:2 core:8 pu:1");
    let outcome = run("reorder.c", machine, options, &[form, if torus { "1" } else { "0" }]);
    prints(&outcome, &[&format!("messages between packages: {expected}; consistent")]);
}

/// Ranks that are dealt to two packages in turn are gathered: a grid of 4 x 4 crosses between them four times each way, a torus
/// eight times.
#[test]
fn topologies_are_reordered_by_package() {
    let dealt = ["-n", "16", "--bind-to", "core", "--map-by", "socket"];
    for form in ["cart", "graph", "dist", "adjacent"] {
        reorders(form, false, &dealt, "24 before, 8 after");
        reorders(form, true, &dealt, "32 before, 16 after");
    }
}

/// Ranks that sit well stay, and so do ranks of which nothing is known.
#[test]
fn what_is_good_or_unknown_is_left_alone() {
    reorders("cart", false, &["-n", "16", "--bind-to", "core"], "8 before, 8 after");
    reorders("dist", true, &["-n", "16", "--bind-to", "core"], "16 before, 16 after");
    reorders("graph", false, &["-n", "16"], "0 before, 0 after");
}
