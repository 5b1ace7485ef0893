//! Jobs as users start them: numbers, environment, folders, input, output, exit codes.
//!
//! Covers `musts.md`: **mpiexec** [§11.5], the facts behind MPI_INFO_ENV and the initial error handler [§11.2.1], memory
//! allocation kinds at startup [§11.4.3], MPI_APPNUM for each command and singleton start [§11.10].

mod common;

use common::{mpiexec, run, run_probe, run_with, script};

#[test]
fn ranks_know_their_number() {
    let outcome = script("-n 3", "echo $PMI_RANK of $PMI_SIZE, local $MPI_LOCALRANKID of $MPI_LOCALNRANKS");
    assert_eq!(outcome.sorted(), ["0 of 3, local 0 of 3", "1 of 3, local 1 of 3", "2 of 3, local 2 of 3"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "no stray output");
}

#[test]
fn ten_ranks_run_without_a_flag() {
    assert_eq!(script("-n 10", "echo x").sorted().len(), 10);
}

#[test]
fn several_programs_have_their_own_environment_and_folder() {
    let text = "echo $PMI_RANK $A $B $C $(pwd)";
    let mut command = mpiexec("-genv A a -n 1 -env B b -wdir /tmp sh -c");
    command.arg(text).args([":", "-np", "2", "-x", "C=c", "-wdir", "/usr", "sh", "-c"]).arg(text);
    assert_eq!(run(&mut command).sorted(), ["0 a b /tmp", "1 a c /usr", "2 a c /usr"]);
}

#[test]
fn the_environment_is_passed_on_unless_told_otherwise() {
    let outcome = run(mpiexec("-n 1 sh -c").arg("echo $OWN").env("OWN", "mine"));
    assert_eq!(outcome.out, "mine\n");
    let outcome = run(mpiexec("-genvnone -x KEPT -n 1 sh -c")
        .arg("echo $OWN $KEPT")
        .env("OWN", "mine")
        .env("KEPT", "kept"));
    assert_eq!(outcome.out, "kept\n");
}

#[test]
fn variables_of_another_launcher_do_not_reach_ranks() {
    let outcome =
        run(mpiexec("-n 1 sh -c").arg("echo [$PMI_ID$PMIX_RANK]").env("PMI_ID", "7").env("PMIX_RANK", "7"));
    assert_eq!(outcome.out, "[]\n");
}

#[test]
fn standard_input_goes_to_rank_0_unchanged() {
    let input: Vec<u8> = (0..8_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let sum = run_with(std::process::Command::new("cksum").arg("-"), &input).out;
    let outcome = run_with(mpiexec("-n 3 sh -c").arg("[ $PMI_RANK = 0 ] && cksum - || wc -c"), &input);
    let sum = sum.trim_end_matches(" -\n").trim_end();
    assert!(outcome.out.contains(sum), "{outcome:?} {sum}");
    assert_eq!(
        outcome.out.lines().filter(|line| line.trim() == "0").count(),
        2,
        "others read nothing: {outcome:?}"
    );
}

#[test]
fn standard_input_that_nobody_reads_is_no_hindrance() {
    let outcome = run_with(&mut mpiexec("-n 2 true"), &vec![7; 4_000_000]);
    assert_eq!(outcome.code, 0);
}

#[test]
fn standard_input_can_be_kept_from_all() {
    assert_eq!(run_with(&mut mpiexec("-s none -n 1 wc -c"), b"text").out.trim(), "0");
}

#[test]
fn a_file_is_read_only_as_far_as_rank_0_reads() {
    let text =
        "printf 'a\\nb\\nc\\n' | { \"$MPIEXEC\" -n 2 sh -c '[ $PMI_RANK = 0 ] && head -c 2 || true'; cat; }";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", text]).env("MPIEXEC", env!("CARGO_BIN_EXE_mpiexec"));
    assert_eq!(run(&mut command).out, "a\nb\nc\n");
}

#[test]
fn lines_stay_whole_and_all_come_out() {
    let line = "x".repeat(150);
    let outcome = script(
        "-n 4",
        &format!("i=0; while [ $i -lt 2000 ]; do echo $PMI_RANK {line}; i=$((i+1)); done | cat"),
    );
    let lines = outcome.sorted();
    assert_eq!(lines.len(), 8000);
    for (number, line_out) in lines.iter().enumerate() {
        assert_eq!(*line_out, format!("{} {line}", number / 2000));
    }
}

#[test]
fn tagged_lines_carry_their_rank() {
    let outcome = script("-n 2 -l", "echo one; echo two >&2; printf three");
    assert_eq!(outcome.sorted(), ["[0] one", "[0] three", "[1] one", "[1] three"]);
    let mut errors: Vec<&str> = outcome.err.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["[0] two", "[1] two"]);
}

#[test]
fn output_and_error_into_one_file_keep_their_order() {
    let text = "\"$MPIEXEC\" -n 2 sh -c 'for i in 1 2 3 4 5 6 7 8; do echo $PMI_RANK o$i; echo $PMI_RANK e$i >&2; done' 2>&1";
    let mut command = std::process::Command::new("sh");
    let outcome = run(command.args(["-c", text]).env("MPIEXEC", env!("CARGO_BIN_EXE_mpiexec")));
    for rank in ["0 ", "1 "] {
        let said: Vec<&str> = outcome.out.lines().filter_map(|line| line.strip_prefix(rank)).collect();
        let expected: Vec<String> = (1..=8).flat_map(|i| [format!("o{i}"), format!("e{i}")]).collect();
        assert_eq!(said, expected);
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_job_quietly() {
    let text = "\"$MPIEXEC\" -n 2 yes | head -n 1";
    let mut command = std::process::Command::new("sh");
    let outcome = run(command.args(["-c", text]).env("MPIEXEC", env!("CARGO_BIN_EXE_mpiexec")));
    assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("y\n", ""));
}

#[test]
fn exit_codes_come_out() {
    assert_eq!(run(&mut mpiexec("-n 2 true")).code, 0);
    assert_eq!(script("-n 1", "exit 5").code, 5);
    assert_eq!(script("-n 1", "exit 5").err, "", "one process speaks for itself");
    let outcome = script("-n 3", "[ $PMI_RANK = 1 ] && exit 9; exec sleep 60");
    assert_eq!(outcome.code, 9);
    assert!(outcome.err.contains("rank 1") && outcome.err.contains("exit code 9"), "{}", outcome.err);
}

#[test]
fn a_code_after_the_end_of_mpi_ends_nobody() {
    let outcome = run_probe("-n 3", "code-after 6");
    assert_eq!(outcome.code, 6);
    assert!(outcome.err.contains("rank 1") && outcome.err.contains("after MPI_Finalize"), "{}", outcome.err);
}

/// A command line that cannot work says so before anything is started.
#[test]
fn errors_are_clear() {
    let table = [
        ("-n 2 ./no-such-program", 127, "no program ./no-such-program"),
        ("-n 2 no-such-program", 127, "neither in PATH"),
        ("-n 2 /etc/passwd", 126, "chmod +x"),
        ("-n 2 /tmp", 126, "folder"),
        ("-n zero true", 2, "\"zero\""),
        ("-n 9999 true", 2, "4096"),
        ("-wdir /no/such/folder true", 1, "/no/such/folder"),
        ("--agent /no/such/agent -host elsewhere true", 1, "the host elsewhere is lost"),
        ("--frobnicate true", 2, "--frobnicate"),
        ("", 2, "no program"),
    ];
    for (words, code, part) in table {
        let outcome = run(&mut mpiexec(words));
        assert_eq!(outcome.code, code, "{words}: {outcome:?}");
        assert!(outcome.err.contains(part), "{words}: {}", outcome.err);
        assert_eq!(outcome.out, "", "{words}");
    }
}

#[test]
fn help_and_version_are_answered() {
    let help = run(&mut mpiexec("--help"));
    assert_eq!(help.code, 0);
    for option in
        ["-n", "-genv", "-wdir", "--timeout", "--bind-to", "--map-by", "-configfile", "--initial-errhandler"]
    {
        assert!(help.out.contains(option), "{option}");
    }
    assert!(run(&mut mpiexec("-V")).out.starts_with("mpiexec (Weft) "));
}

#[test]
fn ranks_are_bound_where_the_report_says() {
    let outcome = script("-n 2 --bind-to core --report-bindings", "grep Cpus_allowed_list /proc/self/status");
    let reported = outcome.err.lines().filter(|line| line.contains("is bound to")).count();
    assert_eq!(reported, 2, "{}", outcome.err);
    for line in outcome.out.lines() {
        let cpus = line.split_whitespace().last().expect("a list");
        assert!(outcome.err.contains(&format!("{cpus})")), "{line} is not in {}", outcome.err);
    }
    let free = script("-n 1 --report-bindings", "true").err;
    assert!(free.contains("not bound"), "{free}");
}

#[test]
fn a_described_machine_is_planned_for_but_not_bound_to() {
    let mut command = mpiexec(
        "-n 4 --bind-to core --map-by socket --report-bindings grep Cpus_allowed_list /proc/self/status",
    );
    let outcome = run(command.env("HWLOC_SYNTHETIC", "pack:2 numa:1 core:4 pu:2"));
    assert!(
        outcome.err.contains("rank 1 is bound to socket 1, NUMA node 1, core 4 (CPUs 8-9)"),
        "{outcome:?}"
    );
    assert!(outcome.err.contains("core 4 (CPUs 8-9), progress agent on CPU 12"), "{outcome:?}");
    assert!(outcome.err.contains("ranks are not bound here"), "{outcome:?}");
    let own = run(std::process::Command::new("grep").args(["Cpus_allowed_list", "/proc/self/status"])).out;
    assert_eq!(outcome.out, own.repeat(4));
    let refused = run(mpiexec("--bind-to core true").env("HWLOC_XMLFILE", "/no/such/file"));
    assert!(refused.code == 2 && refused.err.contains("/no/such/file"), "{refused:?}");
}

#[test]
fn ranks_with_threads_get_a_core_for_each_lane() {
    // Two sockets of 64 cores.
    let mut command = mpiexec("-n 3 --threads 32 --report-bindings printenv WEFT_JOB");
    let outcome = run(command.env("HWLOC_SYNTHETIC", "pack:2 numa:1 core:64 pu:1"));
    let line = "rank 2 is bound to socket 1, NUMA node 1, cores 64-95 (CPUs 64-95), lanes in turn on cores 64-95, progress agent on \
                CPU 98\n";
    assert!(outcome.err.contains(line), "{outcome:?}");
    assert!(!outcome.out.contains("lanes="), "nobody is there: {outcome:?}");
    // Eight NUMA nodes; ranks of two programs, in turn over the nodes.
    let mut command = mpiexec(
        "--map-by numa:PE=3 --report-bindings -n 2 true : -n 1 --threads 5 true : -n 1 --threads 1 true",
    );
    let outcome = run(command.env("HWLOC_SYNTHETIC", "pack:2 numa:4 core:8 pu:1"));
    for (rank, numa, cores) in [(0, 0, "0-2"), (1, 1, "8-10"), (2, 2, "16-20"), (3, 3, "24")] {
        let line = outcome.err.lines().find(|line| line.contains(&format!("rank {rank} is bound")));
        let line = line.unwrap_or_else(|| panic!("{outcome:?}"));
        assert!(
            line.contains(&format!("NUMA node {numa}, ")) && line.contains(&format!("CPUs {cores})"))
                || rank == 3,
            "{line}"
        );
        assert!(
            line.contains(&format!(
                "lanes {} {cores}, ",
                if rank == 3 { "on core" } else { "in turn on cores" }
            )),
            "{line}"
        );
    }
    // What a rank has of it here.
    let own = run(std::process::Command::new("nproc").arg("--all")).out;
    let here = run(mpiexec("-n 1 --threads 2 printenv WEFT_JOB").env_remove("HWLOC_SYNTHETIC"));
    if own.trim() == "2" {
        let word = here.out.split(';').find_map(|word| word.strip_prefix("lanes=")).expect("lanes");
        assert_eq!(word.replace("%40", "@").replace("%2F", "/"), "0@0/1@0");
    }
    let refused = run(&mut mpiexec("--bind-threads true"));
    assert!(refused.code == 2 && refused.err.contains("--threads"), "{refused:?}");
    let told = run(mpiexec("--bind-to core true").env("OMP_NUM_THREADS", "4"));
    assert!(told.code == 0 && told.err.contains("--threads omp"), "{told:?}");
}

/// hwloc's file of two sockets of two cores, each with an RDMA device.
const TWO_DEVICES: &str = r#"<topology><object type="Machine" cpuset="0xf">
  <object type="Package" os_index="0" cpuset="0x3"><object type="NUMANode" os_index="0" cpuset="0x3"/>
    <object type="Core" cpuset="0x1"><object type="PU" os_index="0"/></object>
    <object type="Core" cpuset="0x2"><object type="PU" os_index="1"/></object>
    <object type="PCIDev" pci_busid="0000:3b:00.0"><object type="OSDev" name="mlx5_0" osdev_type="3"/></object>
  </object>
  <object type="Package" os_index="1" cpuset="0xc"><object type="NUMANode" os_index="1" cpuset="0xc"/>
    <object type="Core" cpuset="0x4"><object type="PU" os_index="2"/></object>
    <object type="Core" cpuset="0x8"><object type="PU" os_index="3"/></object>
    <object type="PCIDev" pci_busid="0000:af:00.0"><object type="OSDev" name="mlx5_1" osdev_type="3"/></object>
  </object></object></topology>"#;

#[test]
fn lanes_begin_near_the_device_and_agents_are_beside_them() {
    let file = std::env::temp_dir().join(format!("weft-one-device-{}.xml", std::process::id()));
    // The first socket's device is down.
    let down = "osdev_type=\"3\"><info name=\"Port1State\" value=\"1\"/></object>";
    std::fs::write(&file, TWO_DEVICES.replacen("osdev_type=\"3\"/>", down, 1)).expect("a file");
    let outcome = run(mpiexec("-n 1 --threads 2 --report-bindings true").env("HWLOC_XMLFILE", &file));
    std::fs::remove_file(&file).expect("removed");
    let line = "rank 0 is bound to socket 1, NUMA node 1, cores 2-3 (CPUs 2-3), lanes in turn on cores 2-3, RDMA device mlx5_1, \
                progress agent on CPU 0\n";
    assert!(outcome.err.contains(line), "{outcome:?}");
}

#[test]
fn each_rank_is_reported_with_the_nearest_device() {
    let file = std::env::temp_dir().join(format!("weft-two-devices-{}.xml", std::process::id()));
    std::fs::write(&file, TWO_DEVICES).expect("a file");
    let mut command = mpiexec("-n 4 --bind-to core --report-bindings printenv WEFT_JOB");
    let outcome = run(command.env("HWLOC_XMLFILE", &file));
    std::fs::remove_file(&file).expect("removed");
    for (rank, device) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        let line = outcome.err.lines().find(|line| line.contains(&format!("rank {rank} is bound")));
        let line = line.unwrap_or_else(|| panic!("{outcome:?}"));
        assert!(line.ends_with(&format!(", RDMA device mlx5_{device}")), "{line}");
        let card = outcome.out.lines().find(|card| card.contains(&format!(";rank={rank};")));
        // The library is told nothing of devices of a machine that this one is not.
        assert!(card.is_some_and(|card| !card.contains(";rail=")), "{outcome:?}");
    }
}

#[test]
fn both_devices_of_a_rank_are_reported() {
    let file = std::env::temp_dir().join(format!("weft-two-rails-{}.xml", std::process::id()));
    std::fs::write(&file, TWO_DEVICES).expect("a file");
    let line = "-bind-to core -map-by socket -report-bindings -n 1 -env WEFT_RAILS 2 true : -n 1 true";
    let outcome = run(mpiexec(line).env("HWLOC_XMLFILE", &file));
    std::fs::remove_file(&file).expect("removed");
    for (rank, devices) in [(0, "RDMA devices mlx5_0 and mlx5_1"), (1, "RDMA device mlx5_1")] {
        let line = outcome.err.lines().find(|line| line.contains(&format!("rank {rank} is bound")));
        assert!(
            line.is_some_and(|line| line.contains(&format!(", {devices}, progress agent"))),
            "{outcome:?}"
        );
    }
}

#[test]
fn an_allocation_of_several_machines_is_not_used_in_silence() {
    let outcome = run(mpiexec("-n 1 true").env("SLURM_JOB_NUM_NODES", "2"));
    assert!(outcome.code == 0 && outcome.err.contains("srun --mpi=pmi2"), "{outcome:?}");
    assert_eq!(run(mpiexec("-n 1 true").env("SLURM_JOB_NUM_NODES", "1")).err, "");
}

#[test]
fn verbose_tells_what_is_started() {
    let outcome = script("-n 2 --verbose", "true");
    assert_eq!(outcome.err.lines().filter(|line| line.contains("pid")).count(), 2, "{}", outcome.err);
}

#[test]
fn a_configuration_file_starts_its_programs() {
    let path = std::env::temp_dir().join(format!("weft-configfile-{}", std::process::id()));
    std::fs::write(&path, "# two\n-n 1 sh -c 'echo a $PMI_RANK'\n-n 2 sh -c 'echo b $PMI_RANK'\n")
        .expect("written");
    let outcome = run(mpiexec("-configfile").arg(&path));
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(outcome.sorted(), ["a 0", "b 1", "b 2"]);
}

#[test]
fn facts_reach_the_library_without_a_message() {
    let mut command = mpiexec(
        "-n 1 -wdir /tmp --initial-errhandler MPI_ERRORS_RETURN --memory-alloc-kinds mpi,system -usize 9",
    );
    let probe = common::probe();
    command.arg(&probe).arg("facts").args([":", "-n", "2"]).arg(&probe).arg("facts");
    let outcome = run(&mut command);
    let lines = outcome.sorted();
    assert!(lines[0].starts_with("rank=0 size=3 local=[0, 1, 2] index=0 cores="), "{outcome:?}");
    let first = "app=Some(0) universe=Some(9) by=Weft bound= numa=None command=[\"facts\"] maxprocs=Some(1) wdir=Some(\"/tmp\") \
                 handler=Some(\"mpi_errors_return\") kinds=Some(\"mpi,system\")";
    assert!(lines[0].ends_with(first), "{}", lines[0]);
    assert!(
        lines[2].contains("rank=2 size=3")
            && lines[2].contains("app=Some(1)")
            && lines[2].contains("maxprocs=Some(2)")
    );
}

#[test]
fn ranks_share_memory_and_names() {
    for words in ["share", "names"] {
        let outcome = run_probe("-n 4", words);
        assert_eq!((outcome.code, outcome.out.lines().count()), (0, 4), "{outcome:?}");
    }
}

#[test]
fn a_process_alone_is_a_job_of_one() {
    let outcome = run(std::process::Command::new(common::probe()).arg("facts"));
    assert!(outcome.out.starts_with("rank=0 size=1 local=[0] index=0"), "{outcome:?}");
    assert!(outcome.out.contains("by=Singleton"), "{outcome:?}");
}

#[test]
fn a_program_started_by_a_rank_is_a_job_of_its_own() {
    let outcome = run_probe("-n 2", "child");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(
        outcome.out.lines().filter(|line| line.contains("size=1") && line.contains("by=Singleton")).count(),
        2
    );
}

/// Runs a command line at a terminal (util-linux's `script`) while `typing`, a shell script, types.
fn at_a_terminal(line: &str, typing: &str) -> Option<common::Outcome> {
    let text = format!("( {typing} ) | script -qec \"{line}\" /dev/null");
    if !std::path::Path::new("/usr/bin/script").exists() {
        println!("skipped: no script(1) here (Debian: bsdutils)");
        return None;
    }
    let mut command = std::process::Command::new("sh");
    Some(run(command.args(["-c", &text]).env("MPIEXEC", env!("CARGO_BIN_EXE_mpiexec"))))
}

#[test]
fn what_is_typed_reaches_rank_0_with_its_end() {
    let line = "$MPIEXEC -n 2 sh -c '[ \\$PMI_RANK = 0 ] && { tr a-z A-Z; echo end; } || cat'";
    let Some(outcome) = at_a_terminal(line, "sleep 0.5; echo hello; sleep 0.5; printf '\\004'; sleep 2")
    else {
        return;
    };
    assert!(outcome.out.contains("HELLO") && outcome.out.contains("end"), "{outcome:?}");
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn ctrl_c_at_a_terminal_ends_the_job() {
    let ready = std::env::temp_dir().join(format!("weft-ready-{}", std::process::id()));
    let path = ready.display();
    // `exec`: the terminal's signal goes to the shell as well, and what a shell does with it differs.
    let line = format!("exec $MPIEXEC -n 2 sh -c 'touch {path}; exec sleep 50'");
    let typing = format!("until [ -e {path} ]; do sleep 0.05; done; sleep 0.2; printf '\\003'; sleep 2");
    let outcome = at_a_terminal(&line, &typing);
    drop(std::fs::remove_file(&ready));
    let Some(outcome) = outcome else { return };
    assert!(outcome.out.contains("SIGINT") && outcome.code == 130, "{outcome:?}");
}

#[test]
fn ranks_at_a_terminal_write_to_it_themselves() {
    let Some(outcome) = at_a_terminal("$MPIEXEC -n 2 sh -c '[ -t 1 ] && echo yes'", "sleep 2") else {
        return;
    };
    assert_eq!(outcome.out.matches("yes").count(), 2, "{outcome:?}");
}

#[test]
fn closed_standard_streams_are_survived() {
    for closed in ["<&-", ">&-", "<&- >&- 2>&-"] {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("\"$MPIEXEC\" -n 2 sh -c 'echo x; exit 3' {closed}")]);
        assert_eq!(run(command.env("MPIEXEC", env!("CARGO_BIN_EXE_mpiexec"))).code, 3, "{closed}");
    }
}

#[test]
fn a_job_inside_a_job_is_a_job_of_its_own() {
    let mut command = mpiexec("-n 2");
    command.arg(env!("CARGO_BIN_EXE_mpiexec")).args(["-n", "2", "sh", "-c", "echo $PMI_RANK of $PMI_SIZE"]);
    assert_eq!(run(&mut command).sorted(), ["0 of 2", "0 of 2", "1 of 2", "1 of 2"]);
}

#[test]
fn a_low_limit_of_open_files_is_raised_and_given_back() {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -Sn 24; \"$MPIEXEC\" -n 12 sh -c 'ulimit -Sn'"]);
    let outcome = run(command.env("MPIEXEC", env!("CARGO_BIN_EXE_mpiexec")));
    assert_eq!(outcome.out, "24\n".repeat(12), "{outcome:?}");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -n 24; \"$MPIEXEC\" -n 12 true"]);
    let outcome = run(command.env("MPIEXEC", env!("CARGO_BIN_EXE_mpiexec")));
    assert!(outcome.code != 0 && outcome.err.contains("ulimit -n"), "{outcome:?}");
}

#[test]
fn a_long_line_without_end_passes_in_pieces() {
    let outcome = script("-n 2", "head -c 5000000 /dev/zero | tr '\\0' x");
    assert_eq!(outcome.out.len(), 10_000_000);
}
