//! Programs started in the ways users start them: alone, several programs as one job, fed through standard input.

use std::fs;
use std::path::PathBuf;

use weft_fabric_tests::harness::{Ended, Job, Toolchain, build, root, scratch};

fn program(relative: &str) -> PathBuf {
    build(Toolchain::under_test(), &root().join(relative), &[])
}

#[test]
fn a_program_starts_without_a_launcher() {
    for relative in
        ["conformance/ch11/init.c", "conformance/ch03/to_self.c", "conformance/ch06/reduce_family.c"]
    {
        let outcome = Job::alone(&[program(relative)]).run();
        outcome.demand(outcome.ended == Ended::Code(0), "the program must end well");
        outcome.demand_passes(1);
    }
}

#[test]
fn several_programs_are_one_job() {
    let tools = Toolchain::under_test();
    // Both make the same collective calls on MPI_COMM_WORLD.
    let (first, second) = (program("conformance/ch11/init.c"), program("conformance/ch06/isolation.c"));
    let second_args = [
        "-n".as_ref(),
        "1".as_ref(),
        second.as_os_str(),
        ":".as_ref(),
        "-n".as_ref(),
        "2".as_ref(),
        second.as_os_str(),
    ];
    let outcome = Job::under(tools, &[], &second_args).run();
    outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
    outcome.demand_passes(3);
    let args = [
        "-n".as_ref(),
        "2".as_ref(),
        first.as_os_str(),
        ":".as_ref(),
        "-n".as_ref(),
        "2".as_ref(),
        first.as_os_str(),
    ];
    let outcome = Job::under(tools, &[], &args).run();
    outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
    outcome.demand_passes(4);
}

#[test]
fn standard_input_goes_to_rank_0() {
    let folder = scratch().join("starting");
    fs::create_dir_all(&folder).expect("the target folder can be written");
    let input = folder.join(format!("input-{}", std::process::id()));
    let text: String = (0..20_000).map(|i| format!("line {i} of the input\n")).collect();
    fs::write(&input, &text).expect("a file in the target folder");
    let outcome = Job::under(Toolchain::under_test(), &["-n", "3"], &["cat"]).stdin(&input).run();
    let _ = fs::remove_file(&input);
    outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
    outcome.demand(outcome.stdout == text, "exactly rank 0 must have copied the input");
}

#[test]
fn output_of_ranks_is_complete_and_in_order() {
    let script =
        "i=0; while [ $i -lt 2000 ]; do echo \"$PMI_RANK $i\"; i=$((i+1)); done; echo err $PMI_RANK >&2";
    let outcome = Job::under(Toolchain::under_test(), &["-n", "4"], &["sh", "-c", script]).run();
    outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
    for rank in 0..4 {
        let prefix = format!("{rank} ");
        let lines: Vec<&str> =
            outcome.stdout.lines().filter_map(|line| line.strip_prefix(prefix.as_str())).collect();
        let wanted: Vec<String> = (0..2000).map(|i| i.to_string()).collect();
        outcome
            .demand(lines == wanted, &format!("every line of rank {rank} must be there, in order and whole"));
        outcome.demand(outcome.stderr.contains(&format!("err {rank}\n")), "standard error must be there");
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let outcome = Job::under(Toolchain::under_test(), &["-n", "2"], &["./no-such-program"]).timeout(10).run();
    outcome.demand(matches!(outcome.ended, Ended::Code(code) if code != 0), "the job must fail");
    outcome.demand(outcome.stderr.contains("no-such-program"), "the message must name the program");
}
