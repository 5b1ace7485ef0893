//! Hosts that are cut off, or whose agent dies, in the middle of traffic (`scripts/netns-hosts 2` before the test; without
//! hosts these tests are skipped). Between two guests of `scripts/rxe-vm` the first of them runs over the kernel's soft-RoCE.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use weft_fabric_tests::harness::{Ended, Job, Outcome, Toolchain, build, root, scratch, skip};

const RANKS: u32 = 4;

fn cut_program() -> PathBuf {
    build(Toolchain::under_test(), &root().join("faults/cut.c"), &[])
}

/// The first two hosts, for one test at a time; `None` where there are none.
fn hosts() -> Option<(MutexGuard<'static, ()>, [String; 2])> {
    static TURN: Mutex<()> = Mutex::new(());
    let named = env::var("WEFT_TEST_HOSTS").unwrap_or_default();
    let mut names = named.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
    let (Some(first), Some(second)) = (names.next(), names.next()) else {
        skip("no hosts (scripts/netns-hosts 2)");
        return None;
    };
    Some((TURN.lock().unwrap_or_else(PoisonError::into_inner), [first, second]))
}

/// Runs the program, and does `harm` when messages flow between all ranks.
fn run(mode: &str, harm: impl FnOnce()) -> Outcome {
    run_with("30", mode, harm)
}

/// As [`run`]; `patience`: of `WEFT_UNREACHABLE_AFTER`.
fn run_with(patience: &str, mode: &str, harm: impl FnOnce()) -> Outcome {
    run_job(&[("WEFT_UNREACHABLE_AFTER", patience)], mode, harm)
}

fn run_job(variables: &[(&str, &str)], mode: &str, harm: impl FnOnce()) -> Outcome {
    // A guest moves a megabyte in 0.2 s.
    let rounds = if guest_door().is_some() { "8" } else { "200" };
    run_words(variables, &[mode, rounds], harm)
}

/// As [`run_job`], with all words that the program is given.
fn run_words(variables: &[(&str, &str)], words: &[&str], harm: impl FnOnce()) -> Outcome {
    let program = cut_program();
    let job = Job::new(Toolchain::under_test(), RANKS, &program);
    let job = variables.iter().fold(job, |job, (name, value)| job.env(name, value));
    job.args(words).run_with(|mark| {
        let printed = scratch().join("runs").join(mark).join("stdout");
        let begun = Instant::now();
        let flows = || {
            let text = fs::read_to_string(&printed).unwrap_or_default();
            text.lines().filter(|line| line.starts_with("traffic")).count() == RANKS as usize
        };
        // Should they never flow, the run's own time limit ends it.
        while !flows() && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(10));
        }
        harm();
    })
}

/// Where the hosts are guests: what runs a program on another one.
fn guest_door() -> Option<OsString> {
    env::var_os("WEFT_VM_EXEC")
}

/// The program `ip` for a host, which is a network namespace or a guest.
fn ip(host: &str) -> Command {
    let Some(door) = guest_door() else {
        let mut command = Command::new("ip");
        command.args(["-n", host]);
        return command;
    };
    let mut command = Command::new(door);
    command.args([host, "ip"]).stdin(Stdio::null());
    command
}

fn link(host: &str, state: &str) {
    let status = ip(host).args(["link", "set", "eth0", state]).status();
    assert!(status.is_ok_and(|status| status.success()), "the link of {host} cannot be set {state}");
}

/// As [`run`], with the second host cut off from the network; its agent still speaks with mpiexec. A guest's agent has no other way
/// than the link, so only datagrams, of which RoCE is made, are cut off there.
fn cut(mode: &str, second: &str) -> Outcome {
    let guests = guest_door().is_some();
    if guests {
        put_own_addresses_later(second);
    }
    let change = |verb, state| match guests {
        true => drop_datagrams(second, verb),
        false => link(second, state),
    };
    let outcome = run(mode, || change("add", "down"));
    change("del", "up");
    outcome
}

#[test]
fn calls_that_concern_a_host_that_is_cut_off_return_errors() {
    // Also where it cannot be run: guests, who see this machine's files, find it compiled.
    cut_program();
    let Some((_turn, [_, second])) = hosts() else { return };
    demand_errors(&cut("return", &second));
}

/// Of a job whose hosts were cut off from each other: everybody was told, and ranks of one host go on.
fn demand_errors(outcome: &Outcome) {
    outcome.demand(outcome.ended != Ended::TimedOut, "nobody may wait for ever");
    for rank in 0..RANKS {
        let told = format!("rank {rank} was told: process gone");
        outcome.demand(outcome.stdout.contains(&told), &format!("{told:?} must be said"));
    }
    let answers = outcome.stdout.matches("its mate answers").count();
    outcome.demand(answers == RANKS as usize, "ranks of one host go on with each other");
    outcome.demand(outcome.left_processes.is_empty(), "no process may be left");
}

/// That messages went by one of libfabric's providers for sockets: which comes first depends on its version.
fn demand_sockets_of_libfabric(outcome: &Outcome) {
    let named = ["net", "tcp"].iter().any(|name| outcome.stderr.contains(&format!("libfabric: {name}")));
    outcome.demand(named, "messages go by libfabric over sockets");
}

const OVER_LIBFABRIC: [(&str, &str); 2] = [("WEFT_TRANSPORT", "ofi"), ("WEFT_VERBOSE", "1")];

#[test]
fn calls_that_concern_a_host_that_is_cut_off_return_errors_over_libfabric() {
    let Some((_turn, [_, second])) = hosts() else { return };
    let outcome = run_job(&OVER_LIBFABRIC, "return", || link(&second, "down"));
    link(&second, "up");
    demand_sockets_of_libfabric(&outcome);
    demand_errors(&outcome);
}

#[test]
fn calls_that_concern_a_host_that_answers_nothing_return_errors_over_libfabric() {
    let Some((_turn, [_, second])) = hosts() else { return };
    put_own_addresses_later(&second);
    // The host is still found on its network, and its kernel says nothing: neither that it has got anything nor that nobody is there.
    let outcome = run_job(&OVER_LIBFABRIC, "return", || drop_packets(&second, "tcp", "add"));
    drop_packets(&second, "tcp", "del");
    demand_sockets_of_libfabric(&outcome);
    demand_errors(&outcome);
}

#[test]
fn a_host_that_is_cut_off_ends_a_job_whose_errors_are_fatal() {
    let Some((_turn, [_, second])) = hosts() else { return };
    let outcome = cut("fatal", &second);
    outcome.demand(matches!(outcome.ended, Ended::Code(code) if code != 0), "the job must fail");
    outcome.demand(!outcome.stdout.contains("was told"), "nobody may go on");
    for word in ["MPI_ERR_PROC_ABORTED", "MPI_Sendrecv", "ended the job"] {
        outcome.demand(outcome.stderr.contains(word), &format!("the message must say {word:?}"));
    }
    outcome.demand(outcome.left_processes.is_empty(), "no process may be left");
}

#[test]
fn a_host_whose_agent_dies_is_named_and_the_job_ends() {
    let Some((_turn, [_, second])) = hosts() else { return };
    for mode in ["return", "fatal"] {
        let outcome = run(mode, || {
            let agent = agent_on(&second).expect("an agent runs there");
            let _ = Command::new("kill").args(["-KILL", &agent]).status();
        });
        outcome.demand(outcome.ended == Ended::Code(1), "the job must fail");
        let told = format!("the host {second} is lost with ranks 2-3");
        outcome.demand(outcome.stderr.contains(&told), &format!("{told:?} must be said"));
        outcome.demand(outcome.left_processes.is_empty(), "no process may be left");
    }
}

/// Changes the rules of a host so that no datagram that comes to it arrives, as behind a packet filter, or back.
fn drop_datagrams(host: &str, verb: &str) {
    drop_packets(host, "udp", verb);
}

/// As [`drop_datagrams`], of a protocol.
fn drop_packets(host: &str, protocol: &str, verb: &str) {
    for family in ["-4", "-6"] {
        let rule = [family, "rule", verb, "pref", "10", "iif", "eth0", "ipproto", protocol, "blackhole"];
        let status = ip(host).args(rule).status();
        // A host may be without IPv6.
        assert!(
            family == "-6" || status.is_ok_and(|status| status.success()),
            "the rules of {host} cannot be changed"
        );
    }
}

/// The kernel looks for own addresses in its first rule: it must not be the first.
fn put_own_addresses_later(host: &str) {
    for family in ["-4", "-6"] {
        for rule in [["add", "pref", "100", "lookup", "local"], ["del", "pref", "0", "lookup", "local"]] {
            // It was done by an earlier test, or cannot be done, and then the next rule has no effect.
            let _ = ip(host).args([family, "rule"]).args(rule).output();
        }
    }
}

#[test]
fn a_network_that_drops_datagrams_is_named_and_the_job_goes_on_when_it_is_mended() {
    let Some((_turn, [_, second])) = hosts() else { return };
    let program = build(Toolchain::under_test(), &root().join("conformance/ch03/sendrecv.c"), &[]);
    put_own_addresses_later(&second);
    drop_datagrams(&second, "add");
    let words = ["-n", "4", "--watchdog", "2", "--watchdog-abort"];
    let silence = "has not answered over the network yet";
    let outcome = Job::under(Toolchain::under_test(), &words, &[&program]).run_with(|mark| {
        let told = scratch().join("runs").join(mark).join("stderr");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(40)
            && !fs::read_to_string(&told).unwrap_or_default().contains(silence)
        {
            thread::sleep(Duration::from_millis(50));
        }
        drop_datagrams(&second, "del");
    });
    outcome.demand(outcome.stderr.contains(silence), "it must be said that nobody answers");
    outcome.demand(outcome.stderr.contains("weft-doctor --peer"), "it must be said what to do");
    outcome.demand(!outcome.stderr.contains("can never go on"), "a network may be mended");
    outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
    outcome.demand_passes(4);
}

/// What is said of two ranks of the two hosts between which nothing passes.
fn demand_cut(outcome: &Outcome, [first, second]: &[String; 2]) {
    for words in [first, second, "cannot reach each other over the network", "weft-doctor --peer"] {
        outcome.demand(outcome.stderr.contains(words), &format!("{words:?} must be said"));
    }
    let addresses =
        [&outcome.stdout, &outcome.stderr].into_iter().any(|text| text.contains("softroce (10.77."));
    outcome.demand(addresses, "the error must name the addresses");
    outcome.demand(outcome.left_processes.is_empty(), "no process may be left");
}

#[test]
fn a_network_that_drops_datagrams_for_good_ends_the_job() {
    let Some((_turn, hosts)) = hosts() else { return };
    let program = build(Toolchain::under_test(), &root().join("conformance/ch03/sendrecv.c"), &[]);
    put_own_addresses_later(&hosts[1]);
    drop_datagrams(&hosts[1], "add");
    let job = Job::new(Toolchain::under_test(), 4, &program).env("WEFT_UNREACHABLE_AFTER", "3");
    let outcome = job.run();
    drop_datagrams(&hosts[1], "del");
    outcome.demand(matches!(outcome.ended, Ended::Code(code) if code != 0), "the job must fail");
    demand_cut(&outcome, &hosts);
    for words in ["MPI_ERR_OTHER", "runs and cannot be reached", "WEFT_UNREACHABLE_AFTER"] {
        outcome.demand(outcome.stderr.contains(words), &format!("{words:?} must be said"));
    }
    outcome.demand(!outcome.stderr.contains("PROC_ABORTED"), "nobody has died");
}

#[test]
fn a_packet_filter_that_comes_up_in_the_middle_of_traffic_ends_the_calls() {
    let Some((_turn, hosts)) = hosts() else { return };
    put_own_addresses_later(&hosts[1]);
    for mode in ["return", "put", "fatal"] {
        let outcome = run_with("3", mode, || drop_datagrams(&hosts[1], "add"));
        drop_datagrams(&hosts[1], "del");
        demand_cut(&outcome, &hosts);
        if mode == "fatal" {
            outcome.demand(matches!(outcome.ended, Ended::Code(code) if code != 0), "the job must fail");
            continue;
        }
        outcome.demand(outcome.ended != Ended::TimedOut, "nobody may wait for ever");
        for rank in 0..RANKS {
            let told = format!("rank {rank} was told: something else");
            outcome.demand(outcome.stdout.contains(&told), &format!("{told:?} must be said"));
        }
        let answers = outcome.stdout.matches("its mate answers").count();
        outcome.demand(answers == RANKS as usize, "ranks of one host go on with each other");
    }
}

/// Frames of Ethernet go where the peer was heard last: when it has moved to another interface they are lost, and the kernel, which knows better,
/// is asked again.
#[test]
fn a_neighbour_whose_address_of_ethernet_changes_is_found_again() {
    let Some((_turn, [first, second])) = hosts() else { return };
    if guest_door().is_some() {
        return skip("the address of a guest is the machine's");
    }
    let set = |address: &str| {
        let status = ip(&second).args(["link", "set", "eth0", "address", address]).status();
        assert!(status.is_ok_and(|status| status.success()), "{second} keeps its address");
        // What an announcement would do.
        let status = ip(&first).args(["neigh", "flush", "dev", "eth0"]).status();
        assert!(status.is_ok_and(|status| status.success()), "{first} forgets nobody");
    };
    let shown = ip(&second).args(["-o", "link", "show", "eth0"]).output().expect("ip");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let before = shown.split("link/ether ").nth(1).and_then(|rest| rest.split(' ').next());
    let before = before.expect("an address").to_owned();
    for frames in ["yes", "no"] {
        let variables = [("WEFT_FRAMES", frames), ("WEFT_VERBOSE", "1")];
        let outcome = run_words(&variables, &["return", "200", "1000"], || set("02:57:65:66:74:01"));
        set(&before);
        outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
        let told = if frames == "yes" { "leave in frames of Ethernet" } else { "WEFT_FRAMES=no" };
        outcome.demand(outcome.stderr.contains(told), &format!("{told:?} must be said"));
        let ends = outcome.stdout.matches("bytes to the end").count();
        outcome.demand(ends == RANKS as usize, "all must come to the end");
    }
}

/// Jumbo frames are used where the network has them, and where one host has not, by nobody: each says what its interface carries.
#[test]
fn packets_are_as_long_as_both_networks_carry() {
    let Some((_turn, [first, second])) = hosts() else { return };
    if guest_door().is_some() {
        return skip("the interfaces of guests carry 1500 bytes");
    }
    let switch = format!("{}switch", first.trim_end_matches(|digit: char| digit.is_ascii_digit()));
    let set = |place: &str, interface: &str, bytes: &str| {
        let status = ip(place).args(["link", "set", interface, "mtu", bytes]).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "{interface} of {place} takes no packets of {bytes}"
        );
    };
    let set_host = |host: &str, bytes: &str| {
        let number = &host[switch.len() - "switch".len()..];
        set(&switch, &format!("port{number}"), bytes);
        set(host, "eth0", bytes);
    };
    for (of_second, wanted, told) in [("9000", "0", 4096), ("1500", "0", 4096), ("9000", "1500", 1024)] {
        set_host(&first, "9000");
        set_host(&second, of_second);
        let variables = [("WEFT_VERBOSE", "1"), ("WEFT_LINK_MTU", wanted)];
        let outcome = run_words(&variables, &["return", "20", "100"], || {});
        set_host(&first, "1500");
        set_host(&second, "1500");
        outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
        let told = format!("packets of up to {told} bytes");
        outcome.demand(outcome.stderr.contains(&told), &format!("{told:?} must be said"));
        let ends = outcome.stdout.matches("bytes to the end").count();
        outcome.demand(ends == RANKS as usize, "all must come to the end");
    }
}

#[test]
fn a_process_that_computes_or_is_stopped_is_not_called_unreachable() {
    let Some((_turn, _)) = hosts() else { return };
    let program = build(Toolchain::under_test(), &root().join("faults/late.c"), &[]);
    for mode in ["computes", "stops"] {
        let job = Job::new(Toolchain::under_test(), 4, &program).env("WEFT_UNREACHABLE_AFTER", "1");
        let outcome = job.args(&[mode]).run();
        outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
        outcome.demand(!outcome.stderr.contains("cannot reach"), "nothing is wrong with the network");
        outcome.demand_passes(4);
    }
}

/// The process id of mpiexec's agent on a host.
fn agent_on(host: &str) -> Option<String> {
    let pids = Command::new("ip").args(["netns", "pids", host]).output().ok()?;
    let pids = String::from_utf8_lossy(&pids.stdout).into_owned();
    let is_agent = |pid: &&str| {
        let line = fs::read(Path::new("/proc").join(pid).join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("--agent-of-mpiexec")
    };
    pids.lines().map(str::trim).find(is_agent).map(str::to_owned)
}

/// The address of a host in the network of the others.
fn address_of(host: &str) -> Option<String> {
    let told = Command::new("ip").args(["-n", host, "-4", "-o", "address", "show", "eth0"]).output().ok()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let mut words = told.split_whitespace().skip_while(|word| *word != "inet");
    Some(words.nth(1)?.split('/').next()?.to_owned())
}

#[test]
fn hydra_starts_a_job_on_several_hosts() {
    let Some((_turn, [first, second])) = hosts() else { return };
    let hydra = Path::new("/usr/bin/mpiexec.hydra");
    if !hydra.exists() {
        skip(&format!("no {} (Debian: mpich)", hydra.display()));
        return;
    }
    // As rsh: options, a host, and words for a shell there.
    let shell = scratch().join("netns-shell");
    let text = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\nexec ip netns exec \"$host\" sh -c \"$*\"\n";
    fs::write(&shell, text).expect("a file");
    fs::set_permissions(&shell, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is ours");
    let program = build(Toolchain::under_test(), &root().join("conformance/ch08/neighbor_cart.c"), &[]);
    let own = address_of(&first).expect("an address");
    let line = [
        "ip".into(),
        "netns".into(),
        "exec".into(),
        first.clone(),
        hydra.display().to_string(),
        "-launcher".into(),
        "rsh".into(),
        "-launcher-exec".into(),
        shell.display().to_string(),
        "-localhost".into(),
        own,
        "-hosts".into(),
        format!("{first}:3,{second}:3"),
        "-n".into(),
        "6".into(),
        program.display().to_string(),
    ];
    let outcome = Job::alone(&line).env("WEFT_VERBOSE", "1").run();
    outcome.demand(outcome.ended == Ended::Code(0), "the job must end well");
    outcome.demand_passes(6);
    let told = "3 ranks on this node";
    outcome.demand(outcome.stderr.contains(told), "half of the ranks run on each host");
    outcome.demand(outcome.stderr.contains("all others over softroce"), "hosts are joined by a fabric");
}
