//! A rank without an MPI library: does what a rank does towards its launcher, and says what it found. The process tests start it
//! under Weft's mpiexec and under others.

use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::time::Duration;

use weft_boot::pmi::channel::LauncherSocket;
use weft_boot::pmi::{client2, mapping};
use weft_boot::{Job, Launcher};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words == ["exit-before"] {
        exit(0);
    }
    if words == ["pmi2"] {
        pmi2();
        return;
    }
    let before = caught_signals();
    let (mut job, mut launcher) = match Job::discover() {
        Ok(found) => found,
        Err(error) => {
            eprintln!("{error}");
            exit(99);
        }
    };
    match words[..] {
        ["facts"] => facts(&job),
        ["share"] => share(&mut job, launcher.as_mut()),
        ["names"] => {
            values(&job, launcher.as_mut());
            names(&job, launcher.as_mut());
        }
        ["values"] => {
            values(&job, launcher.as_mut());
            println!("rank {} of {} knows all values", job.rank, job.size);
        }
        ["longest"] => {
            longest(&job, launcher.as_mut());
            println!("rank {} of {} knows the longest values", job.rank, job.size);
        }
        ["no-names"] => no_names(launcher.as_mut()),
        ["threads"] => threads(&job, before),
        ["abort", code, who] => {
            if job.rank.to_string() == who {
                let code = code.parse().unwrap_or(1);
                launcher.abort(code, "the probe was asked to; it has two lines\nof words");
                // As a library does that still has to write what C's streams hold.
                std::thread::sleep(Duration::from_millis(50));
                println!("last words");
                exit(code);
            }
            std::thread::sleep(Duration::from_secs(60));
        }
        // Ends without saying good-bye.
        ["leave", code, who] => {
            if job.rank.to_string() == who {
                exit(code.parse().unwrap_or(1));
            }
            std::thread::sleep(Duration::from_secs(60));
        }
        // One dies; the others have said that they go on, and wait for it. Nobody can be told: the memory is none in which a
        // death could be marked.
        ["outlive", who] => {
            let memory = job.node_segment(8192).expect("memory");
            memory.write_all_at(&[0x55; 4096], 0).expect("write");
            launcher.survives_losses();
            launcher.fence().expect("fence");
            if job.rank.to_string() == who {
                nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("dead");
            }
            std::thread::sleep(Duration::from_secs(60));
        }
        ["code-after", code] => {
            launcher.finalize().expect("good-bye");
            exit(if job.rank == 1 { code.parse().unwrap_or(1) } else { 0 });
        }
        ["note", text] => {
            launcher.note(text);
            std::thread::sleep(Duration::from_secs(60));
        }
        ["child"] => {
            let program = std::env::current_exe().expect("own path");
            // Another program started by a rank, with the rank's environment.
            let status = Command::new(program).arg("facts").status().expect("child");
            assert!(status.success());
        }
        ["become", ref rest @ ..] => {
            let error = Command::new(rest[0]).args(&rest[1..]).exec();
            panic!("{error}");
        }
        _ => panic!("unknown words {words:?}"),
    }
    launcher.finalize().expect("good-bye");
}

/// Speaks PMI-2 to a launcher that would take PMI-1 too.
fn pmi2() {
    let number =
        |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok()).expect("a number");
    let socket = LauncherSocket::new(number("PMI_FD") as i32);
    let job = std::env::var("PMI_JOBID").unwrap_or_default();
    let (mut client, facts) = client2::Client::greet(socket, number("PMI_RANK"), &job).expect("greeting");
    assert_eq!(facts.rank, number("PMI_RANK"));
    // Hydra 4.3 and 5.0 answer `(vector,0)` here; then host names tell the nodes.
    if let Ok(nodes) = mapping::nodes(&facts.mapping.unwrap_or_default(), facts.size) {
        assert_eq!((nodes.len(), nodes[0]), (facts.size as usize, 0));
    }
    client
        .put(&format!("card-{}", facts.rank), &format!("of;{}", facts.rank).replace(';', ":"))
        .expect("put");
    client.fence().expect("fence");
    for rank in 0..facts.size {
        assert_eq!(client.get(rank, &format!("card-{rank}")).expect("get"), Some(format!("of:{rank}")));
    }
    println!("rank {} of {} spoke PMI-2", facts.rank, facts.size);
    client.finalize().expect("good-bye");
}

/// A launcher without a name service says so.
fn no_names(launcher: &mut dyn Launcher) {
    for refused in [launcher.publish("a", "b"), launcher.unpublish("a"), launcher.lookup("a").map(drop)] {
        println!("{}", refused.expect_err("no name service"));
    }
}

/// What /proc tells of the signals of a thread.
fn signals(of: &str, which: &str) -> String {
    let status = std::fs::read_to_string(format!("{of}/status")).expect("a thread");
    let line = status.lines().find(|line| line.starts_with(which)).expect("signals");
    line.split_whitespace().last().unwrap_or_default().to_owned()
}

/// Those that are caught, but for the C library's own two.
fn caught_signals() -> u64 {
    u64::from_str_radix(&signals("/proc/self", "SigCgt"), 16).expect("a mask") & !(3 << 31)
}

/// Joining has changed nothing of the program's signals, and its threads take none.
fn threads(job: &Job, before: u64) {
    assert_eq!(caught_signals(), before);
    let own = format!("/proc/self/task/{}", std::process::id());
    assert_eq!(u64::from_str_radix(&signals(&own, "SigBlk"), 16), Ok(0));
    let mut threads = 0;
    for thread in std::fs::read_dir("/proc/self/task").expect("threads") {
        let path = thread.expect("a thread").path().to_string_lossy().into_owned();
        if path != own {
            threads += 1;
            let blocked = u64::from_str_radix(&signals(&path, "SigBlk"), 16).expect("a mask");
            // All but those that nobody can block, and the two of the C library's own.
            assert_eq!(blocked | 1 << 8 | 1 << 18 | 3 << 31, u64::MAX, "{blocked:x}");
        }
    }
    println!("rank {} has {threads} threads that take no signals", job.rank);
}

fn facts(job: &Job) {
    println!(
        "rank={} size={} local={:?} index={} cores={} app={:?} universe={:?} by={:?} bound={} numa={:?} command={:?} maxprocs={:?} \
         wdir={:?} handler={:?} kinds={:?}",
        job.rank,
        job.size,
        job.local_ranks,
        job.local_index,
        job.cores,
        job.appnum,
        job.universe_size,
        job.launcher,
        job.binding.as_ref().map(ToString::to_string).unwrap_or_default(),
        job.numa_node,
        job.command.iter().skip(1).collect::<Vec<_>>(),
        job.maxprocs,
        job.wdir,
        job.initial_errhandler,
        job.memory_alloc_kinds,
    );
}

/// Every rank leaves a mark in the shared memory and sees those of all.
fn share(job: &mut Job, launcher: &mut dyn Launcher) {
    let memory = job.node_segment(8192).expect("memory");
    memory.write_all_at(&[job.local_index as u8 + 1], u64::from(job.local_index)).expect("write");
    launcher.fence().expect("fence");
    let mut marks = vec![0; job.local_ranks.len()];
    memory.read_exact_at(&mut marks, 0).expect("read");
    let expected: Vec<u8> = (1..=job.local_ranks.len() as u8).collect();
    assert_eq!(marks, expected);
    assert_eq!(memory.metadata().expect("facts").len(), 8192);
    println!("rank {} shares memory with {} ranks", job.rank, marks.len());
    launcher.fence().expect("fence");
}

/// What all put, all get.
fn values(job: &Job, launcher: &mut dyn Launcher) {
    launcher.put(&format!("card-{}", job.rank), &format!("value=of:{}", job.rank)).expect("put");
    launcher.fence().expect("fence");
    for rank in 0..job.size {
        let value = launcher.get(rank, &format!("card-{rank}")).expect("get");
        assert_eq!(value, Some(format!("value=of:{rank}")));
    }
    assert_eq!(launcher.get(0, "nobody-put-this").expect("get"), None);
    assert!(launcher.put("two words", "x").is_err());
    launcher.fence().expect("fence");
}

/// A value of the greatest length.
fn longest(job: &Job, launcher: &mut dyn Launcher) {
    let (most, last) = (launcher.max_value().min(1 << 16), job.size - 1);
    launcher.put(&format!("longest-{}", job.rank), &"v".repeat(most)).expect("put");
    launcher.fence().expect("fence");
    let longest = launcher.get(last, &format!("longest-{last}")).expect("get").expect("found");
    assert_eq!(longest.len(), most);
    launcher.fence().expect("fence");
}

fn names(job: &Job, launcher: &mut dyn Launcher) {
    let service = format!("service-{}", job.rank);
    launcher.publish(&service, "port:1").expect("publish");
    assert_eq!(launcher.lookup(&service).expect("lookup"), "port:1");
    launcher.unpublish(&service).expect("unpublish");
    assert!(launcher.lookup(&service).is_err());
    println!("rank {} of {} knows all names", job.rank, job.size);
    launcher.fence().expect("fence");
}
