//! Running mpiexec (Weft's or another) in a test, with a time limit and a look at what it left behind.

#![allow(dead_code, unreachable_pub, reason = "every test file includes this one and uses its own part")]

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing here takes longer unless it hangs.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code, or 128 + signal.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Wall time.
    pub took: Duration,
}

impl Outcome {
    /// Lines of standard output in alphabetical order.
    pub fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }
}

/// Weft's mpiexec with `words`, split at blanks.
pub fn mpiexec(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpiexec"));
    command.args(words.split_whitespace());
    command
}

/// The probe, a rank without an MPI library.
pub fn probe() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_mpiexec")).with_file_name("examples").join("rank_probe");
    assert!(path.exists(), "cargo test -p weft-launch builds {}", path.display());
    path
}

/// Runs to the end.
pub fn run(command: &mut Command) -> Outcome {
    run_with(command, b"")
}

/// Runs a shell script in every rank.
pub fn script(options: &str, script: &str) -> Outcome {
    run(mpiexec(options).args(["sh", "-c", script]))
}

/// Runs the probe in every rank.
pub fn run_probe(options: &str, words: &str) -> Outcome {
    run(mpiexec(options).arg(probe()).args(words.split_whitespace()))
}

/// Runs to the end with `input` on standard input.
pub fn run_with(command: &mut Command, input: &[u8]) -> Outcome {
    let begun = Instant::now();
    let mut child = start(command);
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    // The reader may stop early; that is its right.
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let outcome = finish(child, begun);
    writer.join().expect("writer");
    outcome
}

/// Starts with pipes on all streams.
pub fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
}

/// Waits for the end; a child that hangs is killed and fails the test.
pub fn finish(mut child: Child, begun: Instant) -> Outcome {
    drop(child.stdin.take());
    let stdout = child.stdout.take().expect("piped");
    let stderr = child.stderr.take().expect("piped");
    let read = |mut stream: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("readable");
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let (out, err) = (read(Box::new(stdout)), read(Box::new(stderr)));
    let status = loop {
        if let Some(status) = child.try_wait().expect("waitable") {
            break status;
        }
        if begun.elapsed() > LIMIT {
            child.kill().expect("killed");
            child.wait().expect("reaped");
            panic!("mpiexec hangs; it said {:?} {:?}", out.join(), err.join());
        }
        thread::sleep(Duration::from_millis(2));
    };
    let took = begun.elapsed();
    let code = status.code().unwrap_or_else(|| 128 + status.signal().expect("ended by a signal"));
    Outcome { code, out: out.join().expect("read"), err: err.join().expect("read"), took }
}

/// Processes whose command line contains `mark`.
pub fn processes(mark: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let marked = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        line.contains(mark) && !state.contains(") Z ") && *pid != std::process::id() as i32
    };
    pids.filter(marked).collect()
}

/// Waits until no process has `mark` in its command line.
pub fn none_left(mark: &str) {
    let begun = Instant::now();
    while !processes(mark).is_empty() {
        assert!(begun.elapsed() < LIMIT, "left behind: {:?}", processes(mark));
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A number of seconds to sleep that marks the processes of one test.
pub fn mark(number: u32) -> String {
    format!("{}.{number}", 1000 + std::process::id() % 1_000_000)
}
