//! Programs once more in layers: with faults on purpose, with the times of another network, and with every packet written down, over
//! shared memory, the emulator and libfabric. They must do what they do without, and the faults must have been there.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use weft_fabric_tests::harness::{Ended, Job, Outcome, Toolchain, build, root, run_under, skip};

/// What happens at the seam of every transport, and to the datagrams of the emulator.
const FAULTS: &str = "seed=7,delay=0.05:100us,loss=0.005:1ms,refuse=0.1:6,hold=0.2:100us,deny=0.1";
const OF_DATAGRAMS: &str = ",double=0.01,overtake=0.01";

/// Why libfabric cannot be tried here, if so.
fn no_libfabric() -> Option<&'static str> {
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    let why = WHY.get_or_init(|| {
        let told = told(&[("WEFT_TRANSPORT", "ofi")]);
        (told.ended != Ended::Code(0))
            .then(|| format!("libfabric cannot be used here: {}", told.stderr.trim_end()))
    });
    why.as_deref()
}

/// A run of two ranks that meet and end.
fn told(settings: &[(&str, &str)]) -> Outcome {
    let tools = Toolchain::under_test();
    let program = build(tools, &root().join("conformance/ch06/barrier.c"), &[]);
    settings.iter().fold(Job::new(tools, 2, &program), |job, &(name, value)| job.env(name, value)).run()
}

/// Runs a program over a transport in layers; `None` where that cannot be.
#[track_caller]
fn run(program: &str, ranks: u32, transport: &str, settings: &[(&str, &str)]) -> Option<Outcome> {
    // Another implementation has no layers, and between hosts all but the clocks are the same.
    if !Toolchain::under_test().is_weft() || std::env::var_os("WEFT_TEST_HOSTS").is_some() {
        return None;
    }
    if transport == "ofi"
        && let Some(why) = no_libfabric()
    {
        skip(why);
        return None;
    }
    Some(run_under(&Path::new("conformance").join(program), ranks, |job| {
        let job = job.env("WEFT_TRANSPORT", transport).env("WEFT_VERBOSE", "2");
        settings.iter().fold(job, |job, &(name, value)| job.env(name, value))
    }))
}

#[track_caller]
fn with_faults(program: &str, ranks: u32, transport: &str) {
    let more = if transport == "softroce" { OF_DATAGRAMS } else { "" };
    let Some(outcome) = run(program, ranks, transport, &[("WEFT_FAULTS", &format!("{FAULTS}{more}"))]) else {
        return;
    };
    outcome
        .demand(outcome.stderr.contains("faults happen on purpose (WEFT_FAULTS=seed=7,"), "faults are told");
    let lines: Vec<&str> =
        outcome.stderr.lines().filter(|line| line.contains("had faults on purpose: ")).collect();
    outcome.demand(lines.len() == ranks as usize, "each process tells what it had");
    for what in [" packets late", " calls refused"] {
        let count = |line: &&str| {
            line.split(what)
                .next()?
                .rsplit([' ', ','])
                .next()?
                .parse::<u64>()
                .ok()
                .filter(|_| line.contains(what))
        };
        let all: u64 = lines.iter().filter_map(count).sum();
        outcome.demand(all > 0, &format!("there must be some:{what}"));
    }
}

macro_rules! programs {
    ($($name:ident: $program:literal, $ranks:literal;)*) => {
        mod faults {
            $(mod $name {
                #[test]
                fn shm() {
                    crate::with_faults($program, $ranks, "shm");
                }
                #[test]
                fn softroce() {
                    crate::with_faults($program, $ranks, "softroce");
                }
                #[test]
                fn ofi() {
                    crate::with_faults($program, $ranks, "ofi");
                }
            })*
        }
        mod latency {
            $(mod $name {
                #[test]
                fn shm() {
                    crate::run($program, $ranks, "shm", &[("WEFT_LATENCY", "30us,gap=1us,bandwidth=5G")]);
                }
            })*
        }
    };
}

programs! {
    order: "ch03/order.c", 2;
    sizes: "ch03/sizes.c", 2;
    ssend: "ch03/ssend.c", 2;
    mprobe: "ch03/mprobe.c", 2;
    buffer_levels: "ch03/buffer_levels.c", 3;
    random_traffic: "ch03/random_traffic.c", 3;
    reduce_family: "ch06/reduce_family.c", 3;
    nonblocking: "ch06/nonblocking.c", 3;
    fence: "ch12/fence.c", 2;
    fetching: "ch12/fetching.c", 3;
    locks: "ch12/locks.c", 3;
    post_start: "ch12/post_start.c", 3;
}

/// Over every transport tshark names what is in the files.
#[test]
fn what_is_written_down_can_be_read() {
    let folder = std::env::temp_dir().join(format!("weft-packets-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (transport, opcodes) in
        [("shm", &["4"][..]), ("softroce", &["4", "10", "12", "16", "17"]), ("ofi", &["4"])]
    {
        let file = folder.join(format!("{transport}-%r.pcap"));
        let setting = [("WEFT_TRACE_PACKETS", file.to_str().expect("a name of text"))];
        let Some(outcome) = run("ch12/fence.c", 2, transport, &setting) else { continue };
        for rank in ["0", "1"] {
            let file = folder.join(format!("{transport}-{rank}.pcap"));
            let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
            outcome.demand(bytes > 1_000, &format!("{bytes} bytes in {}", file.display()));
            let Some(seen) = dissected(&file) else { continue };
            for opcode in opcodes {
                outcome
                    .demand(seen.iter().any(|line| line == opcode), &format!("{opcode} is not in {seen:?}"));
            }
            let known = |line: &String| line.parse::<u32>().is_ok_and(|opcode| opcode <= 20);
            outcome.demand(seen.iter().all(known), &format!("no RoCE: {seen:?}"));
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}

/// The operations that tshark finds, each once.
fn dissected(file: &Path) -> Option<Vec<String>> {
    let tshark = Command::new("tshark")
        .arg("-r")
        .arg(file)
        // What it makes of the content by guessing (RPC over RDMA, say) is nothing to us.
        .args(["-T", "fields", "-e", "infiniband.bth.opcode"])
        .stderr(Stdio::null())
        .output();
    let Ok(output) = tshark else {
        skip("no tshark here (scripts/setup --tests)");
        return None;
    };
    let mut lines: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim().to_owned()).collect();
    lines.sort();
    lines.dedup();
    Some(lines)
}

/// A way that dies is an error of whoever needs it, and the job ends.
#[test]
fn a_way_that_dies_ends_the_job_with_a_word() {
    for transport in ["shm", "softroce"] {
        let tools = Toolchain::under_test();
        if !tools.is_weft() || std::env::var_os("WEFT_TEST_HOSTS").is_some() {
            return;
        }
        let program = build(tools, &root().join("conformance/ch03/sizes.c"), &[]);
        let job = Job::new(tools, 2, &program).env("WEFT_TRANSPORT", transport);
        let outcome = job.env("WEFT_FAULTS", "dead=1:40").run();
        outcome.demand(matches!(outcome.ended, Ended::Code(code) if code != 0), "the job must fail");
        outcome.demand(outcome.stderr.contains("MPI_ERR_PROC_ABORTED"), "and say that somebody is gone");
    }
}

#[test]
fn slips_of_the_pen_are_told() {
    if !Toolchain::under_test().is_weft() {
        return;
    }
    let slips: [(&str, &str, &[&str]); 4] = [
        ("WEFT_FAULTS", "delay=7", &["WEFT_FAULTS", "delay=CHANCE:TIME"]),
        ("WEFT_FAULTS", "double=0.1", &["double", "WEFT_TRANSPORT=softroce"]),
        ("WEFT_LATENCY", "20", &["WEFT_LATENCY", "2us"]),
        ("WEFT_TRACE_PACKETS", "/nonexistent/%r.pcap", &["/nonexistent/", ".pcap", "WEFT_TRACE_PACKETS"]),
    ];
    for (variable, value, words) in slips {
        let outcome = told(&[(variable, value), ("WEFT_TRANSPORT", "shm")]);
        outcome.demand(outcome.ended != Ended::Code(0), "the job must not begin");
        for word in words {
            outcome.demand(outcome.stderr.contains(word), &format!("the message must say {word:?}"));
        }
    }
}

/// One rank of three has a setting that the others have not; the first one or the last.
fn one_of_three(transport: &str, variable: &str, value: &str, first: bool) -> Outcome {
    let tools = Toolchain::under_test();
    let program = build(tools, &root().join("conformance/ch06/reduce_family.c"), &[]);
    let name = program.to_str().expect("a name of text");
    let (own, others) = (["-n", "1", "-env", variable, value], ["-n", "2"]);
    let options = match first {
        true => [&own[..], &[name, ":"], &others].concat(),
        false => [&others[..], &[name, ":"], &own].concat(),
    };
    Job::under_checker(tools, &options, &program).env("WEFT_TRANSPORT", transport).run()
}

#[test]
fn ranks_that_differ_in_their_layers_are_told_and_do_not_hang() {
    if !Toolchain::under_test().is_weft() || std::env::var_os("WEFT_TEST_HOSTS").is_some() {
        return;
    }
    let file = std::env::temp_dir().join(format!("weft-alone-{}-%r.pcap", std::process::id()));
    let trace = file.to_str().expect("a name of text");
    for transport in ["shm", "softroce", "ofi"] {
        if transport == "ofi"
            && let Some(why) = no_libfabric()
        {
            skip(why);
            continue;
        }
        for first in [true, false] {
            let outcome = one_of_three(transport, "WEFT_LATENCY", "20us", first);
            outcome.demand(matches!(outcome.ended, Ended::Code(code) if code != 0), "the job must fail");
            for word in ["WEFT_LATENCY=", "20us", "none", "set it for the whole job (mpiexec -genv)"] {
                // Who came later to the node's memory knows only that the first has another one.
                let shown = outcome.stderr.contains(word)
                    || word == "none" && outcome.stderr.contains("has another one")
                    || word == "20us" && outcome.stderr.contains("WEFT_LATENCY=none");
                outcome.demand(shown, &format!("{transport}: the message must say {word:?}"));
            }
            outcome.demand(!outcome.stderr.contains("internal error"), "it is a mistake of the user");
            for (variable, value) in [("WEFT_FAULTS", "delay=0.1:100us"), ("WEFT_TRACE_PACKETS", trace)] {
                let outcome = one_of_three(transport, variable, value, first);
                if transport == "shm" {
                    outcome
                        .demand(matches!(outcome.ended, Ended::Code(code) if code != 0), "the job must fail");
                    let told = outcome.stderr.contains("has WEFT_FAULTS or WEFT_TRACE_PACKETS and");
                    outcome.demand(told, "and say that ranks differ");
                } else {
                    outcome.demand(outcome.ended == Ended::Code(0), "one rank alone may have its own");
                }
            }
        }
    }
    for rank in 0..3 {
        let _ = std::fs::remove_file(trace.replace("%r", &rank.to_string()));
    }
}
