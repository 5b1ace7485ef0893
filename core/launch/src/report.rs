//! What mpiexec says about a job that failed: who, where, how, and what to look at. At most one screen.

use std::fmt::Write as _;
use std::time::Duration;

use nix::libc;

use crate::judge::{Cause, End, Judge, Stage};

/// Says that two ranks, each named with its host, cannot reach each other over the network although both have looked for `time`.
pub fn cut(one: (usize, &str), other: (usize, &str), time: Duration) -> String {
    let (place, remedy) = match one.1 == other.1 {
        true => (
            format!("ranks {} and {} on {}", one.0, other.0, one.1),
            "weft-doctor looks for reasons".to_owned(),
        ),
        false => (
            format!("rank {} on {} and rank {} on {}", one.0, one.1, other.0, other.1),
            format!("weft-doctor --peer {} on {} tries the way", other.1, one.1),
        ),
    };
    format!(
        "mpiexec: {place} cannot reach each other over the network: both run, and for {} s each has asked the other in vain.\n\
         mpiexec: a packet filter, or a way that is down, drops what they send; {remedy}\n",
        time.as_secs()
    )
}

/// Says that the ranks of a host are not told which others have ended MPI after a loss or cannot be reached, from now on.
pub fn not_said(host: &str, why: &str) -> String {
    format!(
        "mpiexec: the ranks on {host} cannot be told of others that have ended MPI or cannot be reached: {why}. They may wait for \
         them for ever\n"
    )
}

/// Ranks listed one by one; of more, only the number is told.
const LISTED: usize = 8;

/// What is known of a rank for a message.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Process that was started.
    pub pid: i32,
    /// Program as given.
    pub program: String,
    /// Last line of diagnosis it gave.
    pub note: Option<String>,
}

/// What the watchdog says, as mpiexec says it.
pub fn watched(found: &str) -> String {
    let mut text = String::new();
    for (number, words) in found.lines().enumerate() {
        match number {
            0 => text = format!("mpiexec: {words}\n"),
            _ => line(&mut text, words),
        }
    }
    text
}

/// The message for the last death that the others survive.
pub fn lost(judge: &Judge, known: &Known, host: &str) -> String {
    let Some(lost) = judge.lost().last() else { return String::new() };
    let (others, Known { pid, program, .. }) = (judge.running().count(), known);
    let mut text = format!(
        "mpiexec: rank {} ({program}, pid {pid} on {host}) {}\n",
        lost.rank,
        how(lost.end, lost.stage)
    );
    match others {
        1 => line(&mut text, "the other running rank goes on without it: its error handler returns"),
        _ => line(
            &mut text,
            &format!("the {others} other running ranks go on without it: their error handlers return"),
        ),
    }
    line(&mut text, hint(lost.end, lost.stage, others + 1));
    text
}

/// The message for a job, empty when there is nothing to say. `waiting`: who waited for what when the end began, if that is
/// known.
pub fn failure(judge: &Judge, ranks: &[Known], host: &str, waiting: &str) -> String {
    failure_on(judge, ranks, &|_| host, waiting)
}

/// As [`failure`], of ranks on the hosts that `host` tells.
pub fn failure_on<'a>(
    judge: &Judge,
    ranks: &[Known],
    host: &dyn Fn(usize) -> &'a str,
    waiting: &str,
) -> String {
    let mut text = String::new();
    let name = |rank: usize| {
        let known = &ranks[rank];
        format!("rank {rank} ({}, pid {} on {})", known.program, known.pid, host(rank))
    };
    match judge.cause() {
        None if !judge.partial().is_empty() => {
            for partial in judge.partial() {
                let who = list(&partial.ranks);
                let _ = writeln!(
                    text,
                    "mpiexec: {} ended {who} with exit code {}; the others went on",
                    name(partial.rank),
                    partial.code
                );
                for words in partial.message.iter().flat_map(|message| message.lines()).take(20) {
                    line(&mut text, words);
                }
            }
            return text;
        }
        None => {
            // A single process's code speaks for itself, as without mpiexec.
            if let Some((rank, code)) = judge.late_failure().filter(|_| ranks.len() > 1) {
                let _ =
                    writeln!(text, "mpiexec: {} ended with exit code {code} after MPI_Finalize", name(rank));
            }
            return text;
        }
        Some(Cause::Ended { end: End::Exit(code), stage: Stage::Before, .. })
            if ranks.len() == 1 && *code != 0 =>
        {
            return text;
        }
        Some(Cause::Ended { rank, end, stage, others }) => {
            let _ = writeln!(text, "mpiexec: {} {}", name(*rank), how(*end, *stage));
            ended_others(&mut text, *others);
            line(&mut text, hint(*end, *stage, ranks.len()));
        }
        Some(Cause::Aborted { rank, code, message }) => {
            // The rank's own words say whether it was MPI_Abort, a fatal error or something else.
            let _ = writeln!(text, "mpiexec: {} ended the job with exit code {code}", name(*rank));
            for words in message.iter().flat_map(|message| message.lines()).take(20) {
                line(&mut text, words);
            }
        }
        Some(Cause::Timeout { limit, running }) => {
            let _ = writeln!(
                text,
                "mpiexec: the job did not end within {} s (--timeout); it was ended",
                limit.as_secs_f64()
            );
            let who = list(running);
            line(&mut text, &format!("still running: {who}"));
            waiting.lines().for_each(|words| line(&mut text, words));
        }
        Some(Cause::Deadlock { text: found }) => {
            text.push_str(&watched(found));
            line(&mut text, "the job was ended (--watchdog-abort)");
            return text;
        }
        Some(Cause::NeverJoined { rank, waiting }) => {
            let _ = writeln!(text, "mpiexec: {} ended without calling MPI_Init", name(*rank));
            line(
                &mut text,
                &format!(
                    "but {} wait{} for it; the job was ended",
                    list(waiting),
                    if waiting.len() == 1 { "s" } else { "" }
                ),
            );
            line(
                &mut text,
                "every process of a job has to call MPI_Init if one does: is a rank running another program, or returning early?",
            );
        }
        Some(Cause::StartedTwice { rank }) => {
            let _ = writeln!(
                text,
                "mpiexec: {} called MPI_Init in two programs, one after the other; the job was ended",
                name(*rank)
            );
            line(
                &mut text,
                "a rank runs one MPI program: start each program of a script with its own mpiexec",
            );
        }
        Some(Cause::Garbled { rank, what }) => {
            let _ = writeln!(
                text,
                "mpiexec: {} sent something that is not PMI-1 through PMI_FD: {what:?}",
                name(*rank)
            );
            line(
                &mut text,
                "PMI_FD belongs to the MPI library; does the program write to descriptors it did not open?",
            );
        }
        Some(Cause::Interrupted { signal }) => {
            let _ = writeln!(text, "mpiexec: the job was ended by {}", signal_name(*signal));
            waiting.lines().for_each(|words| line(&mut text, words));
            return text;
        }
        Some(Cause::HostLost { host, why, ranks, others }) => {
            let _ = writeln!(text, "mpiexec: the host {host} is lost with {}: {why}", list(ranks));
            ended_others(&mut text, *others);
        }
        Some(Cause::NotStarted { rank, why, .. }) => {
            let _ = writeln!(text, "mpiexec: rank {rank} could not be started: {why}");
        }
    }
    for (rank, end) in judge.also().iter().take(LISTED) {
        line(&mut text, &format!("meanwhile {} {}", name(*rank), how(*end, Stage::Inside)));
    }
    let notes = ranks.iter().enumerate().filter_map(|(rank, known)| Some((rank, known.note.as_ref()?)));
    for (rank, note) in notes.take(LISTED) {
        line(&mut text, &format!("rank {rank} last said: {note}"));
    }
    if judge.was_killed() {
        line(&mut text, "ranks that did not end on SIGTERM were killed (SIGKILL)");
    }
    text
}

fn line(text: &mut String, words: &str) {
    if !words.is_empty() {
        let _ = writeln!(text, "         {words}");
    }
}

fn ended_others(text: &mut String, others: usize) {
    match others {
        0 => {}
        1 => line(text, "the other running rank was ended"),
        _ => line(text, &format!("the {others} other running ranks were ended")),
    }
}

fn how(end: End, stage: Stage) -> String {
    match (end, stage) {
        (End::Signal { signal, core }, _) => {
            format!("was killed by {}{}", signal_name(signal), if core { ", core dumped" } else { "" })
        }
        (End::Exit(code), Stage::Inside) => {
            format!("ended with exit code {code} without calling MPI_Finalize")
        }
        (End::Exit(code), Stage::Before) => format!("ended with exit code {code} before MPI_Init"),
        (End::Exit(code), Stage::After) => format!("ended with exit code {code} after MPI_Finalize"),
    }
}

fn hint(end: End, stage: Stage, size: usize) -> &'static str {
    match end {
        End::Signal { signal: libc::SIGSEGV, .. } => {
            "an invalid memory access: build with -g -fsanitize=address, or look at the core file (ulimit -c unlimited) with gdb"
        }
        End::Signal { signal: libc::SIGBUS, .. } => {
            "a memory access the system could not serve: a mapped file that shrank, or a full /dev/shm or /tmp (df /dev/shm /tmp)"
        }
        End::Signal { signal: libc::SIGKILL, .. } => {
            "somebody killed it, or the system ran out of memory: look at dmesg for the out-of-memory killer, and at the container's limit"
        }
        End::Signal { signal: libc::SIGABRT, .. } => {
            "the program gave up itself (abort, a failed assertion): its own words stand above"
        }
        End::Signal { signal: libc::SIGILL, .. } => {
            "an instruction this processor does not have: was it built for another machine?"
        }
        End::Signal { signal: libc::SIGFPE, .. } => {
            "an integer division by zero, or a trapped floating-point operation"
        }
        End::Signal { signal: libc::SIGXCPU, .. } => "its processor time limit is used up (ulimit -t)",
        End::Signal { signal: libc::SIGPIPE, .. } => "the reader of its output has gone",
        End::Exit(127) if stage == Stage::Before => {
            "127 is the shell's code for a command that was not found"
        }
        End::Exit(126) if stage == Stage::Before => {
            "126 is the shell's code for a command that cannot be executed"
        }
        End::Exit(_) if stage == Stage::Inside => {
            "its own words, if any, stand above; a program must call MPI_Finalize or MPI_Abort before it ends"
        }
        End::Exit(_) if size > 1 => "its own words, if any, stand above",
        _ => "",
    }
}

fn list(ranks: &[usize]) -> String {
    let numbers: weft_place::CpuSet = ranks.iter().copied().collect();
    match ranks.len() {
        1 => format!("rank {numbers}"),
        _ => format!("ranks {numbers}"),
    }
}

/// `signal 11 (SIGSEGV)`.
pub fn signal_name(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(known) => format!("signal {signal} ({})", known.as_str()),
        Err(_) => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn ranks(count: i32) -> Vec<Known> {
        (0..count).map(|rank| Known { pid: 100 + rank, program: "./a".to_owned(), note: None }).collect()
    }

    #[test]
    fn a_crash_tells_who_where_how_and_what_to_do() {
        let mut judge = Judge::new(3);
        judge.started(1);
        judge.ended(1, End::Signal { signal: 11, core: true }, Instant::now());
        let text = failure(&judge, &ranks(3), "vm", "");
        let expected = "mpiexec: rank 1 (./a, pid 101 on vm) was killed by signal 11 (SIGSEGV), core dumped\n         the 2 other \
                        running ranks were ended\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("gdb"), "{text}");
    }

    #[test]
    fn success_and_a_single_programs_own_code_are_silent() {
        let mut judge = Judge::new(1);
        judge.ended(0, End::Exit(0), Instant::now());
        assert_eq!(failure(&judge, &ranks(1), "vm", ""), "");
        let mut judge = Judge::new(1);
        judge.ended(0, End::Exit(4), Instant::now());
        assert_eq!((failure(&judge, &ranks(1), "vm", "").as_str(), judge.exit_code()), ("", 4));
    }

    #[test]
    fn a_message_stays_on_one_screen() {
        let mut judge = Judge::new(500);
        let running = (0..500).collect();
        judge.condemn(Cause::Timeout { limit: Duration::from_secs(3), running }, Instant::now());
        let mut known = ranks(500);
        known.iter_mut().for_each(|known| known.note = Some("waits in MPI_Recv".to_owned()));
        let text = failure(&judge, &known, "vm", "");
        assert!(text.lines().count() <= 24, "{text}");
        assert!(text.contains("ranks 0-499"), "{text}");
    }
}
