//! One run of a program under the launcher.

use super::leftovers::{MARK, kill_marked, marked_processes};
use super::{Toolchain, scratch};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// How long the processes of a run may still be found after the launcher has returned.
const GRACE: Duration = Duration::from_secs(5);

/// A run to be made.
#[derive(Debug)]
pub struct Job {
    before: Vec<OsString>,
    command: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Option<PathBuf>,
    keep: Option<String>,
    timeout: u64,
}

/// How the launcher ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It was still there when its time was over, and was killed.
    TimedOut,
}

/// What a run did.
#[derive(Debug)]
pub struct Outcome {
    /// The command line, for messages.
    pub line: String,
    /// How the launcher ended.
    pub ended: Ended,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
    /// Wall time from start to end of the launcher.
    pub took: Duration,
    /// Processes of the run that were still there some seconds after the launcher had ended; they were killed.
    pub left_processes: Vec<String>,
    /// Files that the run left in the temporary folder it was given.
    pub left_files: Vec<String>,
    /// The text of the file that was to be kept, if it was there.
    pub kept: Option<String>,
    /// Stacks of the processes of a run that timed out, if asked for.
    stacks: String,
}

impl Job {
    /// A run of `program` on `ranks` ranks.
    #[must_use]
    pub fn new(tools: &Toolchain, ranks: u32, program: &Path) -> Self {
        Self::under(tools, &["-n", &ranks.to_string()], &[program])
    }

    /// As [`Job::under`], with every rank under the command in `WEFT_TEST_CHECKER`, if there is one.
    #[must_use]
    pub fn under_checker(tools: &Toolchain, options: &[&str], program: &Path) -> Self {
        let checker = env::var("WEFT_TEST_CHECKER").unwrap_or_default();
        let mut command: Vec<OsString> = checker.split_whitespace().map(OsString::from).collect();
        command.push(program.into());
        Self::under(tools, options, &command)
    }

    /// A run of the launcher with options of its own, followed by `command`.
    #[must_use]
    pub fn under<S: Into<OsString> + Clone>(tools: &Toolchain, options: &[&str], command: &[S]) -> Self {
        let mut line: Vec<OsString> = vec![tools.mpiexec.clone().into()];
        line.extend(tools.mpiexec_args.iter().map(OsString::from));
        line.extend(options.iter().map(OsString::from));
        line.extend(command.iter().cloned().map(Into::into));
        Self { before: Vec::new(), command: line, env: Vec::new(), stdin: None, keep: None, timeout: 60 }
    }

    /// A run without launcher.
    #[must_use]
    pub fn alone<S: Into<OsString> + Clone>(command: &[S]) -> Self {
        let command = command.iter().cloned().map(Into::into).collect();
        Self { before: Vec::new(), command, env: Vec::new(), stdin: None, keep: None, timeout: 60 }
    }

    /// Arguments after those given so far.
    #[must_use]
    pub fn args<S: Into<OsString> + Clone>(mut self, args: &[S]) -> Self {
        self.command.extend(args.iter().cloned().map(Into::into));
        self
    }

    /// A command that starts the launcher, given as its leading words.
    #[must_use]
    pub fn wrapped_in<S: Into<OsString> + Clone>(mut self, words: &[S]) -> Self {
        self.before = words.iter().cloned().map(Into::into).collect();
        self
    }

    /// A variable in the environment of the launcher.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// A file to be the launcher's standard input (otherwise it is empty).
    #[must_use]
    pub fn stdin(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdin = Some(path.into());
        self
    }

    /// A file of the run's temporary folder whose text becomes part of the outcome.
    #[must_use]
    pub fn keep(mut self, name: &str) -> Self {
        self.keep = Some(name.to_owned());
        self
    }

    /// Seconds after which the run is killed, before `WEFT_TEST_PATIENCE` is applied.
    #[must_use]
    pub fn timeout(mut self, seconds: u64) -> Self {
        self.timeout = seconds;
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If the command cannot be started.
    #[must_use]
    pub fn run(self) -> Outcome {
        self.run_with(|_| {})
    }

    /// Runs it to its end, with `during` called once after the start and given the mark of its processes.
    ///
    /// # Panics
    /// If the command cannot be started.
    #[must_use]
    pub fn run_with(self, during: impl FnOnce(&str)) -> Outcome {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = scratch().join("runs").join(&mark);
        let files = folder.join("tmp");
        fs::create_dir_all(&files).unwrap_or_else(|error| panic!("{}: {error}", files.display()));
        let words: Vec<&OsString> = self.before.iter().chain(&self.command).collect();
        let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");

        let stream = |name: &str| fs::File::create(folder.join(name)).expect("a fresh folder can be written");
        let stdin = self.stdin.as_ref().map_or_else(Stdio::null, |path| {
            fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).into()
        });
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .stdin(stdin)
            .stdout(stream("stdout"))
            .stderr(stream("stderr"))
            .current_dir(&folder)
            .env(MARK, &mark)
            // Settings of this runner are not settings of the library, which warns about names it does not know.
            .env_remove("WEFT_PREFIX")
            .env_remove("WEFT_TEST_MPICC")
            .env_remove("WEFT_TEST_MPICXX")
            .env_remove("WEFT_TEST_MPIEXEC")
            .env_remove("WEFT_TEST_PATIENCE")
            .env_remove("WEFT_TEST_STACKS")
            .env_remove("WEFT_TEST_LEAKS")
            .env_remove("WEFT_TEST_HOSTS")
            .env_remove("WEFT_TEST_CHECKER")
            .env("TMPDIR", &files)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .process_group(0);
        let started = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{line}: {error}"));
        let group = Pid::from_raw(i32::try_from(child.id()).expect("process ids are small"));

        let (send, receive) = mpsc::channel();
        let waiter = thread::spawn(move || {
            let status = child.wait().expect("a child can be waited for");
            // The receiver may have given up; it then kills and joins.
            let _ = send.send(status);
            status
        });
        during(&mark);
        let limit = Duration::from_secs(self.timeout * patience());
        let mut stacks = String::new();
        let ended = match receive.recv_timeout(limit) {
            Ok(status) => Ended::from_status(status),
            Err(_) => {
                stacks = stacks_of(&mark);
                // First politely, so that a launcher can end processes that only it knows of.
                let _ = killpg(group, Signal::SIGTERM);
                if receive.recv_timeout(Duration::from_secs(2)).is_err() {
                    let _ = killpg(group, Signal::SIGKILL);
                }
                kill_marked(&mark);
                Ended::TimedOut
            }
        };
        let took = started.elapsed();
        waiter.join().expect("the waiting thread does not panic");
        let left_processes = await_end_of(&mark);
        let read = |name: &str| {
            String::from_utf8_lossy(&fs::read(folder.join(name)).unwrap_or_default()).into_owned()
        };
        let outcome = Outcome {
            line,
            ended,
            stdout: read("stdout"),
            stderr: read("stderr"),
            took,
            left_processes,
            left_files: fs::read_dir(&files)
                .map(|entries| {
                    entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect()
                })
                .unwrap_or_default(),
            kept: self.keep.as_ref().and_then(|name| fs::read_to_string(files.join(name)).ok()),
            stacks,
        };
        // What was printed is in the outcome; a folder that cannot be removed is harmless.
        let _ = fs::remove_dir_all(&folder);
        outcome
    }
}

impl Ended {
    fn from_status(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

impl Outcome {
    /// Panics with `rule` and everything the run printed unless `holds`.
    pub fn demand(&self, holds: bool, rule: &str) {
        assert!(holds, "{rule}\n{}", self.report());
    }

    /// Panics unless every rank printed its last line and exited well.
    pub fn demand_passes(&self, ranks: u32) {
        for rank in 0..ranks {
            let line = format!("PASS rank {rank} of {ranks}\n");
            self.demand(self.stdout.contains(&line), &format!("rank {rank} must print its PASS line"));
        }
    }

    /// The command, how it ended and what it printed.
    #[must_use]
    pub fn report(&self) -> String {
        format!(
            "command: {}\nended: {:?} after {:.2} s\n--- stdout\n{}--- stderr\n{}---\nleft processes: {:?}\nleft files: {:?}\n{}",
            self.line,
            self.ended,
            self.took.as_secs_f64(),
            shortened(&self.stdout),
            shortened(&self.stderr),
            self.left_processes,
            self.left_files,
            self.stacks
        )
    }
}

/// Head and tail of a text that is too long to be read.
fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= 120 {
        return text.to_owned();
    }
    let (head, tail) = (&lines[..60], &lines[lines.len() - 50..]);
    format!("{}\n... {} lines ...\n{}\n", head.join("\n"), lines.len() - 110, tail.join("\n"))
}

fn patience() -> u64 {
    env::var("WEFT_TEST_PATIENCE").ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}

/// Waits until no process of the run is left; those that stay are named and killed.
fn await_end_of(mark: &str) -> Vec<String> {
    let until = Instant::now() + GRACE;
    loop {
        let left = marked_processes(mark);
        if left.is_empty() {
            return Vec::new();
        }
        if Instant::now() >= until {
            kill_marked(mark);
            return left.into_iter().map(|(pid, line)| format!("{pid} {line}")).collect();
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn stacks_of(mark: &str) -> String {
    if env::var_os("WEFT_TEST_STACKS").is_none() {
        return String::new();
    }
    marked_processes(mark)
        .into_iter()
        .map(|(pid, line)| {
            let output = Command::new("gdb")
                .args(["-batch", "-ex", "thread apply all backtrace 24", "-p", &pid.to_string()])
                .env_remove(MARK)
                .output();
            let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
            format!("=== {pid} {line}\n{text}\n")
        })
        .collect()
}
