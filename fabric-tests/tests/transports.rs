//! What carries messages is told in one line at the start, with the reasons for and against, and RDMA that was asked for is never
//! replaced in silence.

use std::fs;

use weft_fabric_tests::harness::{Ended, Job, Outcome, Toolchain, build, root, skip};

/// A run of two ranks that only begin and end, each on its own host where there are several.
fn run(settings: &[(&str, &str)]) -> Outcome {
    let tools = Toolchain::under_test();
    let program = build(tools, &root().join("conformance/ch11/init.c"), &[]);
    settings.iter().fold(Job::new(tools, 2, &program), |job, &(name, value)| job.env(name, value)).run()
}

fn on_several_hosts() -> bool {
    std::env::var_os("WEFT_TEST_HOSTS").is_some()
}

/// Whether this machine has a device that could carry messages.
fn has_device() -> bool {
    let has = fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some());
    if has {
        skip("this machine has RDMA devices");
    }
    has
}

/// The one line of the job, with all of `words`, and without those of other transports.
fn line(outcome: &Outcome, words: &[&str]) {
    outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.starts_with("weft: rank ")).collect();
    outcome.demand(lines.len() == 1, "one line for the job");
    for word in words {
        outcome.demand(lines[0].contains(word), &format!("the line must say {word:?}"));
    }
}

#[test]
fn the_line_at_the_start_tells_the_way_and_the_reasons() {
    let told = run(&[("WEFT_VERBOSE", "1")]);
    match on_several_hosts() {
        false => line(
            &told,
            &[
                "all peers over shm (they share this node's memory",
                "not verbs: ",
                "not ofi: ",
                "not softroce: ",
            ],
        ),
        true => line(
            &told,
            &[
                "peers of this node over shm, all others over softroce (",
                "not shm: other nodes share no memory",
                "not verbs: ",
                "not ofi: ",
            ],
        ),
    }
    let quiet = run(&[]);
    quiet.demand(quiet.stderr.is_empty(), "nothing is said unasked");
}

#[test]
fn a_transport_that_is_asked_for_by_name_is_told_as_such() {
    let told = run(&[("WEFT_VERBOSE", "1"), ("WEFT_TRANSPORT", "softroce")]);
    line(&told, &["all peers over softroce (", "not verbs: ", "not ofi: "]);
    let of_memory = told.stderr.contains("are read from the sender's memory where");
    told.demand(!of_memory, "what is true of a node's memory is not said of other transports");
    // What was opened, and what it does with messages of which length.
    let opened = told.stderr.lines().find(|line| line.starts_with("weft: softroce: packets of up to "));
    for words in ["; one rail, ", "; messages up to ", "; longer: announced, then "] {
        told.demand(
            opened.is_some_and(|line| line.contains(words)),
            &format!("{words:?} must be said of it"),
        );
    }
    told.demand(told.stderr.contains("weft:   registered memory is kept"), "and what becomes of memory");
    if on_several_hosts() {
        let refused = run(&[("WEFT_TRANSPORT", "shm")]);
        refused.demand(refused.ended != Ended::Code(0), "memory leads to no other host");
        refused.demand(refused.stderr.contains("WEFT_TRANSPORT=shm"), "it must say what was asked for");
    } else {
        line(&told, &["not shm: WEFT_TRANSPORT=softroce"]);
        line(
            &run(&[("WEFT_VERBOSE", "1"), ("WEFT_TRANSPORT", "shm")]),
            &["all peers over shm", "not softroce: WEFT_TRANSPORT=shm"],
        );
    }
}

/// Whether this machine has libfabric: asked of another program than the one that is tested.
fn has_libfabric() -> bool {
    let opened = std::process::Command::new("python3")
        .args(["-c", "import ctypes; ctypes.CDLL('libfabric.so.1')"])
        .output()
        .expect("python3");
    if !opened.status.success() {
        skip("libfabric cannot be opened");
    }
    opened.status.success()
}

#[test]
fn libfabric_tells_its_library_and_provider() {
    if !has_libfabric() {
        return;
    }
    let told = run(&[("WEFT_VERBOSE", "1"), ("WEFT_TRANSPORT", "ofi")]);
    line(&told, &["all peers over ofi (", "not softroce: WEFT_TRANSPORT=ofi"]);
    let of_library = told.stderr.lines().filter(|line| line.starts_with("weft: libfabric")).count();
    told.demand(of_library == 1, "one line for library and provider");
}

#[test]
fn rdma_that_is_required_is_never_replaced_by_sockets() {
    if has_device() {
        return;
    }
    let mut asked = vec![
        vec![("WEFT_TRANSPORT", "softroce")],
        vec![("WEFT_TRANSPORT", "ofi")],
        vec![("WEFT_TRANSPORT", "verbs")],
    ];
    if on_several_hosts() {
        asked.push(Vec::new());
    }
    for mut settings in asked {
        settings.push(("WEFT_RDMA", "require"));
        let refused = run(&settings);
        refused.demand(refused.ended != Ended::Code(0), "the job must fail");
        for word in ["WEFT_RDMA=require", "no RDMA device", "WEFT_RDMA=prefer"] {
            refused.demand(refused.stderr.contains(word), &format!("the message must say {word:?}"));
        }
    }
    if !on_several_hosts() {
        line(&run(&[("WEFT_VERBOSE", "1"), ("WEFT_RDMA", "require")]), &["all peers over shm"]);
    }
}

#[test]
fn a_device_that_is_asked_for_by_name_falls_to_sockets_only_where_that_is_allowed_and_said() {
    if has_device() {
        return;
    }
    let refused = run(&[("WEFT_TRANSPORT", "verbs")]);
    refused.demand(refused.ended != Ended::Code(0), "the job must fail");
    let fallen = run(&[("WEFT_TRANSPORT", "verbs"), ("WEFT_RDMA", "prefer"), ("WEFT_VERBOSE", "1")]);
    line(&fallen, &["peers of this node over shm, all others over softroce ("]);
    let told = fallen
        .stderr
        .lines()
        .filter(|line| line.starts_with("weft: WEFT_TRANSPORT=verbs cannot be had: "))
        .count();
    fallen.demand(told == 1, "the fall is told once");
}

/// Ranks may share a core without knowing it: hosts that are namespaces or guests of one machine, other people's jobs. Who looked for a message as often as
/// at memory, where each look is a call of the kernel, kept the core for milliseconds from whoever was to send it. What is counted is processor time, not time.
#[test]
fn ranks_that_share_a_core_unawares_soon_let_each_other_have_it() {
    let program = build(Toolchain::under_test(), &root().join("faults/shares.c"), &[]);
    let ways = ["auto", "softroce", "ofi"].into_iter().filter(|&way| way != "ofi" || has_libfabric());
    for way in ways {
        let job = Job::new(Toolchain::under_test(), 2, &program).env("WEFT_OVERSUBSCRIBED", "no");
        let outcome = job.env("WEFT_TRANSPORT", way).run();
        outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
        let micros = outcome.stdout.split(' ').find_map(|word| word.parse::<u32>().ok());
        let quick = micros.is_some_and(|micros| micros < 1000);
        outcome.demand(quick, &format!("over {way} a round trip must cost the processor less than 1000 us"));
    }
}

/// Whatever a message comes by, its receiver sleeps until it is there: a processor that is asked again and again is busy all the time, and a sleeper
/// whose clock has run down wakes every millisecond.
#[test]
fn a_rank_that_waits_leaves_its_core_to_others() {
    let program = build(Toolchain::under_test(), &root().join("faults/rests.c"), &[]);
    let ways = ["auto", "softroce", "ofi"].into_iter().filter(|&way| way != "ofi" || has_libfabric());
    for way in ways {
        let outcome = Job::new(Toolchain::under_test(), 2, &program).env("WEFT_TRANSPORT", way).run();
        outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
        let numbers: Vec<u32> = outcome.stdout.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [busy, slept] = numbers[..] else { panic!("two numbers: {:?}", outcome.stdout) };
        outcome.demand(busy < 30, &format!("over {way} it must sleep"));
        outcome.demand((1..400).contains(&slept), &format!("over {way} it must sleep for long"));
    }
}

/// Whether there are two hosts, so that four ranks are two on each.
fn on_two_hosts() -> bool {
    std::env::var("WEFT_TEST_HOSTS").is_ok_and(|hosts| hosts.split(',').count() == 2)
}

/// A run of four ranks that talk with one another, whose second host has `second` in its environment beside what all have.
fn differing(all: &[(&str, &str)], first: &[(&str, &str)], second: &[(&str, &str)]) -> Outcome {
    let tools = Toolchain::under_test();
    let program = build(tools, &root().join("conformance/ch06/allgather.c"), &[]);
    let program = program.to_str().expect("a path in UTF-8");
    let mut words = vec!["-n", "2"];
    first.iter().for_each(|&(name, value)| words.extend(["-env", name, value]));
    words.extend([program, ":", "-n", "2"]);
    second.iter().for_each(|&(name, value)| words.extend(["-env", name, value]));
    words.push(program);
    let job = Job::under(tools, &words, &[] as &[&str]);
    all.iter().fold(job, |job, &(name, value)| job.env(name, value)).run()
}

/// One host has libfabric with a provider, on the other one none is to be had: both take what both have, once, and say so.
#[test]
fn hosts_that_differ_take_what_both_have_and_say_so() {
    if !on_two_hosts() || !has_libfabric() || has_device() {
        return;
    }
    let lacking = [("WEFT_OFI_PROVIDER", "nonsuch")];
    let prefer = [("WEFT_TRANSPORT", "ofi"), ("WEFT_RDMA", "prefer")];
    for (first, second) in [(&[][..], &lacking[..]), (&lacking[..], &[][..])] {
        let told = differing(&prefer, first, second);
        told.demand(told.ended == Ended::Code(0), "the job must run over what both have");
        let lines: Vec<&str> = told
            .stderr
            .lines()
            .filter(|line| line.starts_with("weft: the nodes of this job differ"))
            .collect();
        told.demand(lines.len() == 1, "it is said once");
        let has = if first.is_empty() { 0 } else { 2 };
        let why = [format!("(rank {}) cannot use ofi, which ", 2 - has), format!("(rank {has}) can")];
        for words in why.iter().map(String::as_str).chain(["all take softroce between them: "]) {
            told.demand(lines[0].contains(words), &format!("it must say {words:?}"));
        }
        let failed = told.stderr.lines().filter(|line| line.contains("ofi cannot be had: ")).count();
        told.demand(failed == 1, "the host that lacks it says why, once");
    }
    let alike = differing(&prefer, &[], &[]);
    alike.demand(alike.ended == Ended::Code(0), "hosts that are alike keep their choice");
    alike.demand(!alike.stderr.contains("differ"), "of which nothing is said");
    // Where nothing else was allowed it is an error.
    let refused = differing(&[("WEFT_TRANSPORT", "ofi")], &[], &lacking);
    refused.demand(refused.ended != Ended::Code(0), "the job must fail");
    refused.demand(refused.stderr.contains("nonsuch"), "the message must say what is not to be had");
}

#[test]
fn transports_that_hosts_were_told_differently_are_named() {
    if !on_two_hosts() || !has_libfabric() {
        return;
    }
    let (ofi, softroce) = ([("WEFT_TRANSPORT", "ofi")], [("WEFT_TRANSPORT", "softroce")]);
    let refused = differing(&[], &ofi, &softroce);
    refused.demand(refused.ended != Ended::Code(0), "the job must fail");
    for words in ["(rank 0): ofi", "(rank 2): softroce", "WEFT_TRANSPORT", "-genv"] {
        refused.demand(refused.stderr.contains(words), &format!("the message must say {words:?}"));
    }
    // Of a host that may not use sockets the others hear, and it of them.
    let required = differing(&[], &[], &[("WEFT_RDMA", "require")]);
    if !has_device() {
        required.demand(required.ended != Ended::Code(0), "the job must fail");
        for words in ["(rank 0): softroce", "(rank 2): nothing"] {
            required.demand(required.stderr.contains(words), &format!("the message must say {words:?}"));
        }
    }
    // Whoever was told nothing has it anyway.
    let fits = differing(&[], &[], &softroce);
    fits.demand(fits.ended == Ended::Code(0), "both take softroce");
}

/// Whether there are three hosts, so that six ranks are two on each.
fn on_three_hosts() -> bool {
    std::env::var("WEFT_TEST_HOSTS").is_ok_and(|hosts| hosts.split(',').count() == 3)
}

/// A run of a program on three hosts, two ranks on each, of which the host `lacking` has no provider of libfabric's.
fn with_one_lacking(program: &str, lacking: usize, all: &[(&str, &str)]) -> Outcome {
    let tools = Toolchain::under_test();
    let program = build(tools, &root().join(program), &[]);
    let program = program.to_str().expect("a path in UTF-8");
    let mut words: Vec<&str> = Vec::new();
    for host in 0..3 {
        words.extend(if words.is_empty() { &["-n", "2"][..] } else { &[":", "-n", "2"] });
        if host == lacking {
            words.extend(["-env", "WEFT_OFI_PROVIDER", "nonsuch"]);
        }
        words.push(program);
    }
    let job =
        Job::under(tools, &words, &[] as &[&str]).env("WEFT_TRANSPORT", "ofi").env("WEFT_RDMA", "prefer");
    all.iter().fold(job, |job, &(name, value)| job.env(name, value)).run()
}

/// Two of three hosts have libfabric with a provider: they reach each other by it, and the third by softroce, whichever it is.
#[test]
fn a_host_that_lacks_a_transport_keeps_the_others_from_nothing() {
    if !on_three_hosts() || !has_libfabric() || has_device() {
        return;
    }
    for lacking in 0..3 {
        let told = with_one_lacking("conformance/ch06/allgather.c", lacking, &[]);
        told.demand(told.ended == Ended::Code(0), "the job must run over both");
        let lines: Vec<&str> = told
            .stderr
            .lines()
            .filter(|line| line.starts_with("weft: the nodes of this job differ: "))
            .collect();
        told.demand(lines.len() == 1, "it is said once, unasked");
        let rank = 2 * lacking;
        for words in [
            "ofi leads among ",
            "softroce leads between ",
            &format!("(rank {rank}) cannot use ofi; WEFT_RDMA=require"),
        ] {
            told.demand(lines[0].contains(words), &format!("it must say {words:?}"));
        }
    }
    let all = [("WEFT_VERBOSE", "1")];
    let told = with_one_lacking("conformance/ch11/init.c", 2, &all);
    told.demand(told.ended == Ended::Code(0), "the job must end well");
    for words in ["weft: libfabric", "weft: softroce: packets of up to "] {
        told.demand(told.stderr.lines().any(|line| line.starts_with(words)), "each that is opened is told");
    }
}

/// Messages of every length and from anybody, windows, persistent and partitioned communication, communicators of threads: all hold where the
/// members of a communicator are reached by two transports.
#[test]
fn programs_hold_across_two_transports() {
    if !on_three_hosts() || !has_libfabric() || has_device() {
        return;
    }
    for (number, program) in [
        "ch03/random_traffic",
        "ch03/random_rounds",
        "ch03/order",
        "ch03/send_modes",
        "ch03/buffer_automatic",
        "ch06/every",
        "ch06/nonblocking",
        "ch06/persistent",
        "ch06/reduce_family",
        "ch07/intercomm_create",
        "ch08/neighbor_cart",
        "ch11/threads_storm",
        "ch11/threads_comm_creation",
        "ch11/session_beside_traffic",
        "ch12/fence",
        "ch12/locks",
        "ch12/post_start",
        "ch12/sums_of_all_kinds",
    ]
    .into_iter()
    .enumerate()
    {
        let outcome = with_one_lacking(&format!("conformance/{program}.c"), number % 3, &[]);
        outcome.demand(outcome.ended == Ended::Code(0), &format!("{program} must hold"));
    }
}
