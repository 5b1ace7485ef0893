//! The fate of a job: what counts as failure, when the others are ended, which exit code comes out.
//!
//! Pure: what happens to ranks goes in with the time, [`Order`]s come out. The rules:
//!
//! - A rank that dies by a signal, exits with a code other than 0 before it has ended MPI, or exits inside MPI, ends the job, as
//!   the others would wait for it for ever. So do MPI_Abort, the time limit, and a broken control channel.
//! - But where all others have said that they go on without it, such a death after MPI_Init is told to them instead
//!   ([`Order::Tell`]), and the job's exit code will be that of the death.
//! - Ending means SIGTERM to every rank, and SIGKILL [`GRACE`] later to those that are left.
//! - An abort of some ranks only (MPI_Abort on a smaller communicator) ends those, where all others have said that they go on
//!   without them; otherwise it ends the job.
//! - A rank that has ended MPI may exit as it likes; the first code other than 0 becomes the job's.

use std::time::{Duration, Instant};

/// Time between SIGTERM and SIGKILL.
pub const GRACE: Duration = Duration::from_millis(1000);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By exit with this code.
    Exit(i32),
    /// By this signal; `core`: the kernel wrote a core file.
    Signal {
        /// Number of the signal.
        signal: i32,
        /// Whether the kernel wrote a core file.
        core: bool,
    },
}

/// How far a rank has come in MPI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It has not begun MPI.
    #[default]
    Before,
    /// Between the beginning and the end.
    Inside,
    /// It has ended MPI.
    After,
}

/// Why a job is ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A rank died by a signal or exited too early.
    Ended {
        /// Who.
        rank: usize,
        /// How.
        end: End,
        /// How far it had come.
        stage: Stage,
        /// How many others were running.
        others: usize,
    },
    /// A rank called MPI_Abort.
    Aborted {
        /// Who.
        rank: usize,
        /// The code it gave.
        code: i32,
        /// Its words.
        message: Option<String>,
    },
    /// The time limit passed; these ranks were running.
    Timeout {
        /// The limit.
        limit: Duration,
        /// Who was running.
        running: Vec<usize>,
    },
    /// Ranks wait for each other for ever, and that is to end the job.
    Deadlock {
        /// Who waits for what.
        text: String,
    },
    /// A rank exited without joining, and others wait for it in the launcher.
    NeverJoined {
        /// Who exited.
        rank: usize,
        /// Who waits.
        waiting: Vec<usize>,
    },
    /// A rank began MPI twice.
    StartedTwice {
        /// Who.
        rank: usize,
    },
    /// A rank spoke something else than PMI-1.
    Garbled {
        /// Who.
        rank: usize,
        /// What came.
        what: String,
    },
    /// A host is gone, and these ranks with it.
    HostLost {
        /// Its name.
        host: String,
        /// What was seen of it.
        why: String,
        /// Ranks that ran there.
        ranks: Vec<usize>,
        /// How many ranks ran elsewhere.
        others: usize,
    },
    /// mpiexec itself got this signal and ranks ended by it.
    Interrupted {
        /// Number of the signal.
        signal: i32,
    },
    /// A program could not be started.
    NotStarted {
        /// Which rank.
        rank: usize,
        /// Why.
        why: String,
        /// The shell's code for it (126 or 127).
        code: i32,
    },
}

/// What to do to all ranks still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ask them to end: SIGTERM, and SIGCONT for stopped ones.
    Terminate,
    /// SIGKILL.
    Kill,
    /// As [`Order::Terminate`], to the ranks that were aborted alone.
    TerminateDoomed,
    /// As [`Order::Kill`], to the ranks that were aborted alone.
    KillDoomed,
    /// Tell the others that this rank has died.
    Tell(usize),
}

/// A rank that died while the others went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Who.
    pub rank: usize,
    /// How.
    pub end: End,
    /// How far it had come.
    pub stage: Stage,
}

/// An abort of some ranks, after which the others went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Who asked for it.
    pub rank: usize,
    /// The code it gave.
    pub code: i32,
    /// Its words.
    pub message: Option<String>,
    /// Who was ended.
    pub ranks: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    stage: Stage,
    end: Option<End>,
    /// It goes on when others are aborted.
    survives: bool,
    /// It was aborted and the job was not.
    doomed: bool,
}

/// The judge of one job.
#[derive(Debug)]
pub struct Judge {
    ranks: Vec<State>,
    cause: Option<Cause>,
    /// First exit code other than 0 of a rank that had ended MPI, and whose it is.
    late_code: Option<(usize, i32)>,
    /// Ranks that died on their own while the job was being ended.
    also: Vec<(usize, End)>,
    kill_at: Option<Instant>,
    killed: bool,
    interrupted: Option<i32>,
    partial: Vec<Partial>,
    /// Deaths that the others survived, in order.
    lost: Vec<Lost>,
    /// When doomed ranks that are left get SIGKILL.
    doomed_kill_at: Option<Instant>,
}

impl Judge {
    /// A job of `size` ranks.
    pub fn new(size: usize) -> Judge {
        Judge {
            ranks: vec![State::default(); size],
            cause: None,
            late_code: None,
            also: Vec::new(),
            kill_at: None,
            killed: false,
            interrupted: None,
            partial: Vec::new(),
            lost: Vec::new(),
            doomed_kill_at: None,
        }
    }

    /// `rank` began MPI.
    pub fn started(&mut self, rank: usize) {
        self.ranks[rank].stage = Stage::Inside;
    }

    /// `rank` ended MPI.
    pub fn finished(&mut self, rank: usize) {
        self.ranks[rank].stage = Stage::After;
    }

    /// `rank`'s process has ended.
    pub fn ended(&mut self, rank: usize, end: End, now: Instant) -> Option<Order> {
        self.ranks[rank].end = Some(end);
        let stage = self.ranks[rank].stage;
        if self.ranks[rank].doomed {
            return None;
        }
        if self.cause.is_some() {
            // What we sent ourselves, or a rank saying good-bye, is no news.
            if matches!(end, End::Signal { signal, .. } if is_crash(signal)) {
                self.also.push((rank, end));
            }
            return None;
        }
        let others = self.running().count();
        match end {
            End::Exit(0) if stage != Stage::Inside => None,
            End::Exit(code) if stage == Stage::After => {
                self.late_code.get_or_insert((rank, code));
                None
            }
            _ => match self.interrupted {
                Some(signal) => self.condemn(Cause::Interrupted { signal }, now),
                None if others > 0
                    && stage != Stage::Before
                    && self.running().all(|rank| self.goes_on(rank)) =>
                {
                    self.lost.push(Lost { rank, end, stage });
                    Some(Order::Tell(rank))
                }
                None => self.condemn(Cause::Ended { rank, end, stage, others }, now),
            },
        }
    }

    /// Whether the verdict on the end of `rank` depends on what became of other ranks or on what they have said, so that all of
    /// them must be heard before [`Judge::ended`]. Also that of a farewell: it may have gone because of a death that is not
    /// known yet, and whether anybody goes on without the dead one is to be judged as the dead one left it.
    pub fn depends_on_others(&self, rank: usize, end: End) -> bool {
        let State { stage, doomed, .. } = self.ranks[rank];
        let is_farewell = match end {
            End::Exit(code) => stage == Stage::After || code == 0 && stage == Stage::Before,
            End::Signal { .. } => false,
        };
        let somebody_inside =
            || self.running().any(|other| other != rank && self.ranks[other].stage == Stage::Inside);
        self.cause.is_none() && !doomed && (!is_farewell || somebody_inside())
    }

    /// Of several ends that were found at once, those with the smallest number are judged first: a rank that left with 0 and
    /// without MPI does not run, and nobody need go on without it; then deaths by a signal, which make others end; then exits.
    pub fn turn(&self, rank: usize, end: End) -> u8 {
        match end {
            End::Exit(0) if self.ranks[rank].stage == Stage::Before => 0,
            End::Signal { .. } => 1,
            End::Exit(_) => 2,
        }
    }

    /// The others could not be told of the death of `rank`, or of its end by an abort that they survive, and wait for ever.
    pub fn cannot_tell(&mut self, rank: usize, now: Instant) -> Option<Order> {
        let others = self.running().count();
        if let Some(at) = self.lost.iter().position(|lost| lost.rank == rank) {
            let Lost { rank, end, stage } = self.lost.remove(at);
            return self.condemn(Cause::Ended { rank, end, stage, others }, now);
        }
        let at = self.partial.iter().position(|partial| partial.ranks.contains(&rank))?;
        let Partial { rank, code, message, .. } = self.partial.remove(at);
        self.condemn(Cause::Aborted { rank, code, message }, now)
    }

    /// Whether a rank can do without another one.
    fn goes_on(&self, rank: usize) -> bool {
        self.ranks[rank].survives || self.ranks[rank].stage == Stage::After
    }

    /// Deaths that the others survived, in order.
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// `rank` can go on when others are aborted.
    pub fn survives(&mut self, rank: usize) {
        self.ranks[rank].survives = true;
    }

    /// Ends some ranks only, unless somebody who runs cannot go on without them or nobody would be left; `None` then, and
    /// nothing is done.
    pub fn abort_some(&mut self, partial: Partial, now: Instant) -> Option<Order> {
        let others = self.running().filter(|rank| !partial.ranks.contains(rank));
        let mut left = 0;
        for rank in others {
            if !self.goes_on(rank) {
                return None;
            }
            left += 1;
        }
        if partial.ranks.is_empty() || left == 0 || self.cause.is_some() {
            return None;
        }
        for &rank in &partial.ranks {
            self.ranks[rank].doomed = true;
        }
        self.partial.push(partial);
        self.doomed_kill_at = Some(now + GRACE);
        Some(Order::TerminateDoomed)
    }

    /// Ranks that were aborted alone and still run.
    pub fn doomed(&self) -> impl Iterator<Item = usize> {
        self.running().filter(|&rank| self.ranks[rank].doomed)
    }

    /// Aborts of some ranks, in order.
    pub fn partial(&self) -> &[Partial] {
        &self.partial
    }

    /// Ends the job for `cause`, unless it is being ended already.
    pub fn condemn(&mut self, cause: Cause, now: Instant) -> Option<Order> {
        if self.cause.is_some() {
            return None;
        }
        self.cause = Some(cause);
        self.running().next()?;
        self.kill_at = Some(now + GRACE);
        Some(Order::Terminate)
    }

    /// mpiexec got a signal that asks for the end and passed it on. The second one ends the job at once.
    pub fn interrupted(&mut self, signal: i32) -> Option<Order> {
        match self.interrupted.replace(signal) {
            None if self.cause.is_none() => None,
            _ => {
                self.cause.get_or_insert(Cause::Interrupted { signal });
                self.killed = true;
                self.kill_at = None;
                Some(Order::Kill)
            }
        }
    }

    /// Has to be called when [`Judge::deadline`] has passed.
    pub fn tick(&mut self, now: Instant) -> Option<Order> {
        let due = self.kill_at.is_some_and(|at| at <= now);
        if !due || self.all_ended() {
            return match self.doomed_kill_at.take_if(|at| *at <= now) {
                Some(_) if self.doomed().next().is_some() => Some(Order::KillDoomed),
                _ => None,
            };
        }
        self.kill_at = None;
        self.killed = true;
        Some(Order::Kill)
    }

    /// When something has to happen without an event.
    pub fn deadline(&self) -> Option<Instant> {
        self.kill_at.into_iter().chain(self.doomed_kill_at).min().filter(|_| !self.all_ended())
    }

    /// Whether every process has ended.
    pub fn all_ended(&self) -> bool {
        self.running().next().is_none()
    }

    /// Ranks whose process runs.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        self.ranks.iter().enumerate().filter(|(_, state)| state.end.is_none()).map(|(rank, _)| rank)
    }

    /// Whether `rank`'s process runs.
    pub fn is_running(&self, rank: usize) -> bool {
        self.ranks[rank].end.is_none()
    }

    /// Whether `rank` ended well without ever having begun MPI.
    pub fn never_joined(&self, rank: usize) -> bool {
        let state = self.ranks[rank];
        state.stage == Stage::Before && state.end == Some(End::Exit(0))
    }

    /// Why the job was ended, if it was.
    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// Ranks that died by a crash of their own while the job was being ended.
    pub fn also(&self) -> &[(usize, End)] {
        &self.also
    }

    /// Whether SIGKILL was needed.
    pub fn was_killed(&self) -> bool {
        self.killed
    }

    /// A rank that exited with a code other than 0 after MPI, when nothing worse happened.
    pub fn late_failure(&self) -> Option<(usize, i32)> {
        self.late_code.filter(|_| self.cause.is_none())
    }

    /// mpiexec's own exit code.
    pub fn exit_code(&self) -> i32 {
        match &self.cause {
            None => match (self.partial.first(), self.lost.first()) {
                (Some(partial), _) if partial.code & 0xff == 0 => 1,
                (Some(partial), _) => partial.code & 0xff,
                (None, Some(lost)) => code_of(lost.end),
                (None, None) => self.late_code.map_or(0, |(_, code)| code),
            },
            Some(Cause::Ended { end, .. }) => code_of(*end),
            Some(Cause::Interrupted { signal }) => 128 + signal,
            // The kernel keeps 8 bits; a code that would look like success must not.
            Some(Cause::Aborted { code, .. }) if code & 0xff == 0 => 1,
            Some(Cause::Aborted { code, .. }) => code & 0xff,
            Some(Cause::Timeout { .. }) => 124,
            Some(Cause::Deadlock { .. }) => 125,
            Some(Cause::NotStarted { code, .. }) => *code,
            Some(
                Cause::NeverJoined { .. }
                | Cause::StartedTwice { .. }
                | Cause::Garbled { .. }
                | Cause::HostLost { .. },
            ) => 1,
        }
    }
}

/// The exit code that a death gives to the job; never 0.
fn code_of(end: End) -> i32 {
    match end {
        End::Exit(0) => 1,
        End::Exit(code) => code,
        End::Signal { signal, .. } => 128 + signal,
    }
}

/// Signals by which a program fails on its own, rather than being told to end.
fn is_crash(signal: i32) -> bool {
    use nix::libc;
    matches!(
        signal,
        libc::SIGSEGV
            | libc::SIGBUS
            | libc::SIGFPE
            | libc::SIGILL
            | libc::SIGABRT
            | libc::SIGTRAP
            | libc::SIGSYS
    )
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
