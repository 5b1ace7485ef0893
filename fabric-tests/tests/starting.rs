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

/// The values that the ranks of a job print under the keys of `MPI_INFO_ENV` and for their process sets, one line a rank.
fn told(options: &[&str]) -> Vec<String> {
    let program = program("starting/environment.c");
    let program = program.to_str().expect("a path in UTF-8");
    let words: Vec<&str> =
        options.iter().map(|&word| if word == "PROGRAM" { program } else { word }).collect();
    let outcome = Job::under(Toolchain::under_test(), &[], &words).run();
    outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
    let mut lines: Vec<String> =
        outcome.stdout.lines().map(|line| line.replace(program, "PROGRAM")).collect();
    lines.sort_by_key(|line| line.split_once(':').map(|(rank, _)| rank.parse::<u32>().unwrap_or(u32::MAX)));
    lines
}

fn line_of<'a>(lines: &'a [String], rank: usize, parts: &[&str]) -> &'a str {
    let line = lines.get(rank).unwrap_or_else(|| panic!("no line of rank {rank}: {lines:?}"));
    for part in parts {
        let (wanted, part) = match part.strip_prefix('!') {
            Some(part) => (false, part),
            None => (true, *part),
        };
        assert_eq!(line.contains(part), wanted, "{part:?} in the line of rank {rank}: {line}");
    }
    line
}

#[test]
fn each_program_is_told_what_was_asked_for_it() {
    let lines = told(&[
        "-n",
        "3",
        "-soft",
        "1:2",
        "-wdir",
        "/tmp",
        "-initial-errhandler",
        "mpi_errors_return",
        "-pset",
        "app://both",
        "PROGRAM",
        "one",
        "two",
        ":",
        "-n",
        "1",
        "-memory-alloc-kinds",
        "mpi:alloc_mem,moon",
        "-path",
        "/usr/bin:/bin",
        "-thread-level",
        "mpi_thread_serialized",
        "-pset",
        "app://both",
        "-pset",
        "app://second",
        "PROGRAM",
    ]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    for rank in 0..2 {
        line_of(
            &lines,
            rank,
            &[
                "command=PROGRAM;",
                "argv=one two;",
                "maxprocs=3;",
                "soft=1:2;",
                "wdir=/tmp;",
                "!path=",
                "!thread_level=",
                "mpi_initial_errhandler=mpi_errors_return;",
                "mpi_memory_alloc_kinds=mpi,system;",
                "level=MPI_THREAD_SINGLE;",
                "mpi://WORLD=3;",
                "mpi://SELF=1;",
                "weft://node=3;",
                "weft://app/0=2;",
                "app://both=3;",
                "!app://second",
                "!weft://app/1",
                "second=1;",
            ],
        );
    }
    line_of(
        &lines,
        2,
        &[
            "!argv=",
            "maxprocs=1;",
            "!soft=",
            "path=/usr/bin:/bin;",
            "thread_level=MPI_THREAD_SERIALIZED;",
            "mpi_initial_errhandler=mpi_errors_are_fatal;",
            "mpi_memory_alloc_kinds=mpi:alloc_mem,mpi,system;",
            "level=MPI_THREAD_SERIALIZED;",
            "weft://app/1=1;",
            "app://both=3;",
            "app://second=1;",
            "second=1;",
        ],
    );
}

#[test]
fn programs_and_options_come_from_files() {
    let folder = scratch().join("starting");
    fs::create_dir_all(&folder).expect("the target folder can be written");
    let program = program("starting/environment.c");
    let (config, options) = (
        folder.join(format!("config-{}", std::process::id())),
        folder.join(format!("options-{}", std::process::id())),
    );
    fs::write(&options, "# of the second program\n-wdir / \\\n -pset app://file\n").expect("a file");
    let text = format!(
        "# two programs\n-n 2 \\\n  {0} 'a b' # not these: c\n\n-n 1 -file {1} {0}\n",
        program.display(),
        options.display()
    );
    fs::write(&config, text).expect("a file in the target folder");
    let lines = told(&["-configfile", config.to_str().expect("UTF-8")]);
    let _ = fs::remove_file(&config);
    let _ = fs::remove_file(&options);
    assert_eq!(lines.len(), 3, "{lines:?}");
    for rank in 0..2 {
        line_of(&lines, rank, &["argv=a b;", "maxprocs=2;", "weft://app/0=2;", "!file="]);
    }
    line_of(&lines, 2, &["file=", "wdir=/;", "app://file=1;", "maxprocs=1;"]);
}
