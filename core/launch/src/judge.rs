//! The fate of a job: what counts as failure, when the others are ended, which exit code comes out.
//!
//! Pure: what happens to ranks goes in with the time, [`Order`]s come out. The rules:
//!
//! - A rank that dies by a signal, exits with a code other than 0 before it has ended MPI, or exits inside MPI, ends the job, as
//!   the others would wait for it for ever. So do MPI_Abort, the time limit, and a broken control channel.
//! - But where all others have said that they go on without it, such a death after MPI_Init is told to them instead
//!   ([`Order::Tell`]), and the job's exit code will be that of the death.
//! - Ending means SIGTERM to every rank, and SIGKILL [`GRACE`] later to those that are left.
//! - An abort of some ranks only (MPI_Abort on a smaller communicator) ends those, where all others have said that they go on without
//!   them; otherwise it ends the job.
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

    /// The others could not be told of the last death, and wait for ever.
    pub fn cannot_tell(&mut self, now: Instant) -> Option<Order> {
        let Lost { rank, end, stage } = self.lost.pop()?;
        let others = self.running().count();
        self.condemn(Cause::Ended { rank, end, stage, others }, now)
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEGV: End = End::Signal { signal: 11, core: false };
    const TERM: End = End::Signal { signal: 15, core: false };

    fn job(size: usize, inside: bool) -> (Judge, Instant) {
        let mut judge = Judge::new(size);
        for rank in 0..size {
            if inside {
                judge.started(rank);
            }
        }
        (judge, Instant::now())
    }

    #[test]
    fn a_death_is_told_to_ranks_that_all_go_on_and_ends_any_other_job() {
        let (mut judge, now) = job(3, true);
        judge.survives(0);
        judge.survives(1);
        assert_eq!(judge.ended(2, SEGV, now), Some(Order::Tell(2)));
        assert_eq!(judge.cause(), None);
        judge.finished(0);
        assert_eq!(judge.ended(0, End::Exit(0), now), None);
        judge.finished(1);
        judge.ended(1, End::Exit(0), now);
        assert_eq!((judge.exit_code(), judge.lost().len()), (139, 1));

        let (mut judge, now) = job(3, true);
        judge.survives(0);
        assert_eq!(judge.ended(2, SEGV, now), Some(Order::Terminate), "rank 1 cannot do without it");
        let (mut judge, now) = job(2, false);
        judge.survives(0);
        assert_eq!(judge.ended(1, SEGV, now), Some(Order::Terminate), "it never came to MPI");
        let (mut judge, now) = job(2, true);
        judge.survives(0);
        judge.interrupted(2);
        assert_eq!(judge.ended(1, TERM, now), Some(Order::Terminate), "the user ends the job");
    }

    #[test]
    fn some_ranks_are_aborted_where_the_others_go_on() {
        let partial = |ranks: &[usize]| Partial { rank: 1, code: 9, message: None, ranks: ranks.to_vec() };
        let (mut judge, now) = job(4, true);
        judge.survives(0);
        assert_eq!(judge.abort_some(partial(&[1, 2]), now), None, "rank 3 cannot go on");
        judge.survives(3);
        assert_eq!(judge.abort_some(partial(&[]), now), None);
        assert_eq!(judge.abort_some(partial(&[0, 1, 2, 3]), now), None, "nobody would be left");
        assert_eq!(judge.abort_some(partial(&[1, 2]), now), Some(Order::TerminateDoomed));
        assert_eq!(judge.ended(1, End::Exit(9), now), None);
        assert_eq!(judge.doomed().collect::<Vec<_>>(), [2]);
        assert_eq!(judge.deadline(), Some(now + GRACE));
        assert_eq!(judge.tick(now + GRACE), Some(Order::KillDoomed));
        assert_eq!(judge.tick(now + GRACE), None);
        assert_eq!(judge.ended(2, TERM, now), None);
        for rank in [0, 3] {
            judge.finished(rank);
            assert_eq!(judge.ended(rank, End::Exit(0), now), None);
        }
        assert_eq!((judge.exit_code(), judge.cause()), (9, None));
    }

    #[test]
    fn a_survivor_that_dies_ends_what_is_left() {
        let (mut judge, now) = job(3, true);
        judge.survives(0);
        judge.survives(1);
        let partial = Partial { rank: 2, code: 256, message: None, ranks: vec![2] };
        assert_eq!(judge.abort_some(partial, now), Some(Order::TerminateDoomed));
        assert_eq!(judge.exit_code(), 1);
        assert_eq!(judge.ended(0, SEGV, now), Some(Order::Terminate));
        assert_eq!(judge.exit_code(), 128 + 11);
    }

    #[test]
    fn all_ranks_finish() {
        let (mut judge, now) = job(2, true);
        for rank in 0..2 {
            judge.finished(rank);
            assert_eq!(judge.ended(rank, End::Exit(0), now), None);
        }
        assert!(judge.all_ended());
        assert_eq!((judge.exit_code(), judge.cause()), (0, None));
    }

    #[test]
    fn a_crash_ends_the_job_with_its_signal() {
        let (mut judge, now) = job(3, true);
        assert_eq!(judge.ended(1, SEGV, now), Some(Order::Terminate));
        assert_eq!(judge.ended(0, TERM, now), None);
        assert_eq!(judge.tick(now), None);
        assert_eq!(judge.tick(now + GRACE), Some(Order::Kill));
        assert_eq!(judge.tick(now + 2 * GRACE), None, "once is enough");
        judge.ended(2, End::Signal { signal: 9, core: false }, now);
        assert_eq!(judge.exit_code(), 139);
        assert!(judge.also().is_empty());
    }

    #[test]
    fn an_exit_inside_mpi_ends_the_job_even_with_code_0() {
        let (mut judge, now) = job(2, true);
        assert_eq!(judge.ended(0, End::Exit(0), now), Some(Order::Terminate));
        assert_eq!(judge.exit_code(), 1);
    }

    #[test]
    fn an_exit_before_mpi_with_code_0_is_no_failure() {
        let (mut judge, now) = job(2, false);
        assert_eq!(judge.ended(0, End::Exit(0), now), None);
        assert_eq!(judge.ended(1, End::Exit(7), now), None, "nobody is left to be ended");
        assert_eq!(judge.exit_code(), 7);
    }

    #[test]
    fn a_code_after_mpi_is_passed_on_and_ends_nobody() {
        let (mut judge, now) = job(3, true);
        judge.finished(2);
        assert_eq!(judge.ended(2, End::Exit(5), now), None);
        judge.finished(0);
        assert_eq!(judge.ended(0, End::Exit(6), now), None);
        judge.finished(1);
        judge.ended(1, End::Exit(0), now);
        assert_eq!((judge.exit_code(), judge.late_failure()), (5, Some((2, 5))));
    }

    #[test]
    fn abort_gives_its_code_but_never_success() {
        for (code, expected) in [(3, 3), (0, 1), (256, 1), (-1, 255), (999, 231)] {
            let (mut judge, now) = job(2, true);
            assert_eq!(
                judge.condemn(Cause::Aborted { rank: 1, code, message: None }, now),
                Some(Order::Terminate)
            );
            assert_eq!(judge.ended(1, End::Exit(3), now), None);
            assert_eq!(judge.exit_code(), expected);
        }
    }

    #[test]
    fn the_second_interrupt_kills() {
        let (mut judge, now) = job(2, true);
        assert_eq!(judge.interrupted(2), None);
        assert_eq!(judge.interrupted(2), Some(Order::Kill));
        judge.ended(0, End::Signal { signal: 9, core: false }, now);
        assert_eq!(judge.exit_code(), 130);
    }

    #[test]
    fn ranks_that_end_by_a_passed_on_signal_were_interrupted() {
        let (mut judge, now) = job(2, true);
        judge.interrupted(15);
        assert_eq!(judge.ended(0, TERM, now), Some(Order::Terminate));
        assert_eq!(judge.exit_code(), 143);
        assert_eq!(judge.cause(), Some(&Cause::Interrupted { signal: 15 }));
    }

    #[test]
    fn ranks_that_survive_an_interrupt_decide_themselves() {
        let (mut judge, now) = job(1, true);
        judge.interrupted(2);
        judge.finished(0);
        judge.ended(0, End::Exit(0), now);
        assert_eq!(judge.exit_code(), 0);
    }

    #[test]
    fn a_second_crash_is_remembered() {
        let (mut judge, now) = job(3, true);
        judge.ended(1, SEGV, now);
        judge.ended(2, SEGV, now);
        assert_eq!(judge.also(), [(2, SEGV)]);
    }

    fn any_event() -> impl Strategy<Value = (u8, usize, i32)> {
        (0u8..6, 0usize..4, 0i32..40)
    }

    proptest! {
        /// Whatever happens: a job with a cause is killed at last, no order is given to nobody, and failure never looks like success.
        #[test]
        fn any_history_ends(events in prop::collection::vec(any_event(), 0..30)) {
            let (mut judge, mut now) = job(4, false);
            for (what, rank, number) in events {
                now += Duration::from_millis(100);
                let running_before = judge.running().count();
                let order = match what {
                    0 => { judge.started(rank); None }
                    1 => { judge.finished(rank); None }
                    2 if judge.is_running(rank) => judge.ended(rank, End::Exit(number), now),
                    3 if judge.is_running(rank) => judge.ended(rank, End::Signal { signal: number, core: false }, now),
                    4 => judge.condemn(Cause::Aborted { rank, code: number, message: None }, now),
                    _ => judge.tick(now),
                };
                prop_assert!(order.is_none() || running_before > 0);
            }
            if judge.cause().is_some() && !judge.all_ended() {
                prop_assert!(judge.was_killed() || judge.tick(now + GRACE) == Some(Order::Kill));
            }
            if judge.cause().is_some() {
                prop_assert!(judge.exit_code() != 0);
            }
        }
    }
}
