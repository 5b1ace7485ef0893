//! What decides which algorithm a collective takes, in real jobs: rules from a file, figures that `weft-info --measure` wrote, several
//! nodes; and `weft-info --explain` as a command.

use std::fs;
use std::path::{Path, PathBuf};

use weft_fabric_tests::harness::{Ended, Job, Outcome, Toolchain, build, root, scratch};

/// A tool of the installation; `None` where another implementation is under test.
fn tool(name: &str) -> Option<PathBuf> {
    Some(Toolchain::under_test().prefix.as_ref()?.join("bin").join(name))
}

/// A file of this test's own, with this text.
fn file(name: &str, text: &str) -> PathBuf {
    let folder = scratch().join(format!("algorithms-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder below the target folder");
    let path = folder.join(name);
    fs::write(&path, text).expect("room for a file");
    path
}

fn at(path: &Path) -> String {
    format!("@{}", path.display())
}

fn program(name: &str) -> PathBuf {
    build(Toolchain::under_test(), &root().join(name), &[])
}

fn job(ranks: u32, settings: &[(&str, &str)]) -> Outcome {
    let job = Job::new(Toolchain::under_test(), ranks, &program("conformance/ch06/same_result.c"));
    settings.iter().fold(job, |job, &(name, value)| job.env(name, value)).run()
}

fn explain(words: &[&str], settings: &[(&str, &str)]) -> Option<Outcome> {
    let command = [
        &[tool("weft-info")?.into_os_string(), "--explain".into()][..],
        &words.iter().map(Into::into).collect::<Vec<_>>(),
    ]
    .concat();
    Some(settings.iter().fold(Job::alone(&command), |job, &(name, value)| job.env(name, value)).run())
}

/// The algorithms in the order of the ranking, the chosen one with its star.
fn ranking(outcome: &Outcome) -> Vec<String> {
    let is_entry = |line: &&str| line.contains(" us") && (line.starts_with("* ") || line.starts_with("  "));
    let entries = outcome.stdout.lines().filter(is_entry);
    entries
        .map(|line| line.trim_end().split("  ").find(|part| !part.is_empty()).unwrap_or("").trim().to_owned())
        .collect()
}

#[test]
fn explain_ranks_every_operation_on_one_node_and_on_several() {
    let Some(refused) = explain(&["nothing"], &[]) else { return };
    refused.demand(refused.ended == Ended::Code(2), "an operation that does not exist is refused");
    let (_, known) =
        refused.stderr.split_once("known are ").unwrap_or_else(|| panic!("{}", refused.report()));
    for operation in known.trim().split(", ") {
        for nodes in ["1", "4"] {
            let words = [operation, "--ranks", "16", "--nodes", nodes, "--bytes", "8K"];
            let Some(told) = explain(&words, &[]) else { return };
            told.demand(told.ended == Ended::Code(0), "it must succeed");
            told.demand(told.stdout.contains("16 ranks on"), "it says for what");
            let ranking = ranking(&told);
            told.demand(ranking.first().is_some_and(|name| name.starts_with("* ")), "the first one is taken");
            told.demand(ranking.iter().filter(|name| name.starts_with("* ")).count() == 1, "one is taken");
        }
    }
    // Between nodes there are algorithms over them.
    let Some(told) = explain(&["allreduce", "--ranks", "16", "--nodes", "4", "--bytes", "8K"], &[]) else {
        return;
    };
    told.demand(ranking(&told).iter().any(|name| name.ends_with("levels")), "levels are among them");
}

#[test]
fn rules_come_from_a_file() {
    if tool("weft-info").is_none() {
        return;
    }
    let good = file(
        "good",
        "# of the test\nallreduce ranks=2.. -> circulant\nbcast -> flat # from the root\nreduce -> knomial-4\n",
    );
    let told = explain(&["bcast", "--ranks", "5", "--bytes", "1M"], &[("WEFT_COLLECTIVES", &at(&good))])
        .expect("the tool");
    told.demand(
        told.stdout.contains(&format!("A rule decides ({}, line 3): bcast -> flat", good.display())),
        "the rule is named",
    );
    told.demand(told.stdout.lines().any(|line| line.starts_with("* flat ")), "what the rule says is taken");
    for ranks in [2, 5] {
        let outcome = job(ranks, &[("WEFT_COLLECTIVES", &at(&good))]);
        outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
        outcome.demand_passes(ranks);
    }
    // Ranks read it: what is wrong in it ends the job, with file and line.
    let wrong = file("wrong", "allreduce -> circulant\nbcast -> magic\n");
    let outcome = job(2, &[("WEFT_COLLECTIVES", &at(&wrong))]);
    outcome.demand(outcome.ended != Ended::Code(0), "the job must fail");
    let said = format!("{}, line 2: bcast has no algorithm \"magic\"", wrong.display());
    outcome.demand(outcome.stderr.contains(&said), &format!("it must say {said:?}"));
}

#[test]
fn figures_are_measured_under_mpiexec_and_used_by_the_next_job() {
    let Some(info) = tool("weft-info") else { return };
    let model = file("model", "");
    fs::remove_file(&model).expect("it was there");
    let words: [&Path; 4] = [&info, Path::new("--measure"), Path::new("--output"), &model];
    let measured = Job::under(Toolchain::under_test(), &["-n", "2"], &words).timeout(120).run();
    measured.demand(measured.ended == Ended::Code(0), "it must measure");
    let text = fs::read_to_string(&model).unwrap_or_else(|why| panic!("{why}: {}", measured.report()));
    measured
        .demand(text.starts_with("weft-model ") && text.contains("latency-ns="), "it is kept in the file");

    let shown =
        Job::under(Toolchain::under_test(), &["-n", "2"], &[&info]).env("WEFT_MODEL", at(&model)).run();
    let lines = shown
        .stdout
        .lines()
        .filter(|line| line.starts_with("cost model") && line.contains(&*model.to_string_lossy()));
    shown.demand(lines.count() >= 2, "ranks compute from the file");
    let told = explain(&["allreduce", "--ranks", "8"], &[("WEFT_MODEL", &at(&model))]).expect("the tool");
    told.demand(told.stdout.contains(&*model.to_string_lossy()), "and so does the ranking");
    let outcome = job(4, &[("WEFT_MODEL", &at(&model)), ("WEFT_NODE_COLLECTIVES", "no")]);
    outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
    outcome.demand_passes(4);

    let wrong = file("wrong-model", "weft-model 1\nmemory latency-ns=soon\n");
    let outcome = job(2, &[("WEFT_MODEL", &at(&wrong))]);
    outcome.demand(outcome.ended != Ended::Code(0), "figures that cannot be read end the job");
    outcome.demand(outcome.stderr.contains(&*wrong.to_string_lossy()), "with the name of the file");
}

/// This machine taken for two: the agents are started by `env`. What goes by levels goes by them here.
#[test]
fn every_algorithm_by_rule_over_two_nodes() {
    if tool("weft-info").is_none() || std::env::var_os("WEFT_TEST_HOSTS").is_some() {
        return; // Between hosts the program of `quality` does the same.
    }
    let program = program("quality/collective_every_rule.c");
    for (hosts, ranks) in [("a:2,b:2", "4"), ("a:3,b:2", "5")] {
        let outcome = Job::under(Toolchain::under_test(), &["--hosts", hosts, "-n", ranks], &[&program])
            .env("MPIEXEC_AGENT", "env WHERE={host}")
            .timeout(120)
            .run();
        outcome.demand(outcome.ended == Ended::Code(0), "every algorithm gives the right result");
        outcome.demand_passes(ranks.parse().expect("a number"));
        outcome.demand(outcome.left_processes.is_empty(), "no process may be left");
    }
}

/// The programs of the standard's chapters, with a rule for each operation that names one way for all; where it does not fit a call the model
/// chooses.
#[test]
fn every_way_of_neighborhoods_and_between_two_groups_by_rule() {
    if tool("weft-info").is_none() {
        return;
    }
    let around = ["allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"]
        .map(|name| format!("neighbor_{name}"));
    let between = ["allgather", "allgatherv", "allreduce"].map(|name| format!("inter_{name}"));
    let cases = [
        (&around[..], &["direct", "combined"][..], "conformance/ch08/neighbor_cart.c", 8),
        (&around[..], &["combined"], "conformance/ch08/neighbor_graph.c", 5),
        (&between[..2], &["direct", "through-first"], "conformance/ch06/inter.c", 5),
        (&between[..1], &["through-all"], "conformance/ch06/inter.c", 4),
        (&between[2..], &["through-first", "through-all"], "conformance/ch06/inter.c", 4),
    ];
    for (operations, ways, name, ranks) in cases {
        let program = program(name);
        for way in ways {
            let rules: Vec<String> =
                operations.iter().map(|operation| format!("{operation} -> {way}")).collect();
            let outcome = Job::new(Toolchain::under_test(), ranks, &program)
                .env("WEFT_COLLECTIVES", rules.join(";"))
                .timeout(120)
                .run();
            outcome.demand(outcome.ended == Ended::Code(0), &format!("{name} by {rules:?}"));
            outcome.demand_passes(ranks);
        }
    }
}

/// Nodes of several ranks and of one, as many in all.
const NODES: [(&str, &str); 4] = [("a:2,b:2", "4"), ("a:3,b:2", "5"), ("a:3,b:1", "4"), ("a:1,b:2,c:1", "4")];

/// A job on this machine, taken for several; `None` between hosts, where the programs of `quality` do the same by themselves.
fn on_nodes(hosts: &str, ranks: &str, program: &Path) -> Option<Job> {
    if tool("weft-info").is_none() || std::env::var_os("WEFT_TEST_HOSTS").is_some() {
        return None;
    }
    let job = Job::under(Toolchain::under_test(), &["--hosts", hosts, "-n", ranks], &[program]);
    Some(job.env("MPIEXEC_AGENT", "env WHERE={host}").timeout(120))
}

#[test]
fn short_collectives_over_several_nodes_go_by_shared_memory_inside_them() {
    for name in ["by_levels", "far_threads", "far_mismatched"] {
        let program = program(&format!("quality/collectives_{name}.c"));
        for (hosts, ranks) in NODES {
            let Some(job) = on_nodes(hosts, ranks, &program) else { return };
            let outcome = job.run();
            outcome.demand(outcome.ended == Ended::Code(0), &format!("{name} on {hosts}"));
            outcome.demand_passes(ranks.parse().expect("a number"));
            outcome.demand(outcome.left_processes.is_empty(), "no process may be left");
        }
    }
}

/// Early messages of the other forms take memory on a machine with fewer cores than ranks, with this or without.
#[test]
fn a_repeated_blocking_collective_over_several_nodes_builds_nothing() {
    let program = program("quality/collectives_build_nothing.c");
    let Some(job) = on_nodes("a:2,b:2", "4", &program) else { return };
    let outcome = job.run();
    outcome.demand(outcome.ended != Ended::TimedOut, "it must end");
    let blocking = outcome.stderr.lines().filter(|line| line.contains("form 0,"));
    outcome.demand(blocking.count() == 0, "blocking calls take no memory");
}

#[test]
fn by_messages_the_ranks_of_a_node_send_some_that_its_shared_memory_saves() {
    let program = program("quality/collectives_by_levels.c");
    let Some(job) = on_nodes("a:2,b:2", "4", &program) else { return };
    let outcome = job.env("WEFT_NODE_COLLECTIVES", "no").run();
    outcome.demand(outcome.ended == Ended::Code(1), "the count must differ");
    outcome.demand(outcome.stderr.contains("rank 1: sent: got"), "rank 1 stands for nobody, and sends");
    let others = outcome.stderr.lines().filter(|line| line.contains("FAIL") && !line.contains(": sent: got"));
    outcome.demand(others.count() == 0, "the results are the same");
}

#[test]
fn a_death_in_a_collective_over_several_nodes_ends_it_everywhere() {
    let program = program("quality/survivors_levels.c");
    // The rank that stands for a node and another one of it, of the first node and the last.
    for from_the_end in ["1", "2", "4", "5"] {
        let Some(job) = on_nodes("a:3,b:2", "5", &program) else { return };
        let outcome = job.args(&[from_the_end]).run();
        outcome.demand(outcome.ended == Ended::Code(137), "the death is told");
        let survivors = outcome.stderr.matches("went on to its end").count();
        outcome.demand(survivors == 4 && !outcome.stderr.contains("FAIL"), "all others end, and are told");
        outcome.demand(outcome.left_processes.is_empty(), "no process may be left");
    }
}
