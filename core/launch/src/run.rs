//! Running a job: start its ranks, carry their words, and see it to its end.

mod losses;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use weft_boot::pmi::wire1;
use weft_boot::{card, segment, stall};

use crate::events::{Events, Token};
use crate::input::{self, Typed};
use crate::judge::{Cause, End, Judge, Order, Partial};
use crate::machine;
use crate::options::Settings;
use crate::output::Outputs;
use crate::plan::{Plan, RankPlan, shown};
use crate::pmi_server::{Action, Server};
use crate::report::{self, Known};
use crate::resolve;
use crate::spawn::{self, Keeper, Preparation};
use crate::watch::{Outside, Watch, Word};
use crate::ways::Ways;

/// Signals that ask a job to end; the second one ends it at once.
pub(crate) const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Signals that are only passed on.
pub(crate) const PASSED_ON: [Signal; 4] =
    [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGTSTP, Signal::SIGCONT];

/// How long the end waits for processes that ranks left behind to disappear after SIGKILL.
const SWEEP: Duration = Duration::from_millis(500);

/// Longest note kept of a rank, in letters.
pub(crate) const NOTE: usize = 400;

/// Runs the job. Returns mpiexec's exit code.
///
/// Errors: mpiexec itself cannot work (no descriptors, no memory).
pub(crate) fn run(plan: Plan, settings: &Settings) -> io::Result<i32> {
    for line in plan.notes.iter().chain(&plan.bindings) {
        eprintln!("mpiexec: {line}");
    }
    let mut job = Job::new(&plan, settings)?;
    job.start_all(plan, settings)?;
    while !job.judge.all_ended() {
        let ready = job.events.wait(job.deadline())?;
        job.handle(&ready)?;
    }
    job.close()
}

struct Job {
    host: String,
    events: Events,
    signals: SignalFd,
    /// Blocked signals as mpiexec found them; ranks get them so.
    mask_before: SigSet,
    keeper: Keeper,
    /// What the ranks share.
    memory: Arc<OwnedFd>,
    server: Server,
    judge: Judge,
    ranks: Vec<Rank>,
    outputs: Outputs,
    typed: Option<Typed>,
    limit: Option<(Instant, Duration)>,
    watch: Watch,
    /// Ranks that ask each other in vain.
    ways: Ways,
    /// Who waited for what when the job began to be ended.
    waiting: String,
    /// The rank that called MPI_Abort: it ends itself, once its last words are written.
    aborting: Option<usize>,
    actions: Vec<Action>,
}

/// One rank that was started.
struct Rank {
    pid: Pid,
    channel: Option<OwnedFd>,
    unsent: Vec<u8>,
    known: Known,
    /// The process that uses MPI, when it told.
    inside: Option<i32>,
    /// Its words are being acted on.
    listened_to: bool,
}

impl Job {
    fn new(plan: &Plan, settings: &Settings) -> io::Result<Job> {
        spawn::watch_children()?;
        let mut mask: SigSet = ENDING.into_iter().chain(PASSED_ON).collect();
        mask.add(Signal::SIGCHLD);
        let mask_before = SigSet::thread_get_mask()?;
        mask.thread_block()?;
        let events = Events::new()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        events.await_input(&signals, Token::Signals)?;
        // Orphans of ranks become children of mpiexec, so that it can see them end.
        nix::sys::prctl::set_child_subreaper(true)?;
        let memory = segment::create_memory(0).map_err(|error| io::Error::other(error.text().to_owned()))?;
        let appnums: Vec<i32> = plan.ranks.iter().map(|rank| rank.appnum).collect();
        Ok(Job {
            host: plan.host.clone(),
            events,
            signals,
            mask_before,
            keeper: Keeper::start()?,
            memory: Arc::new(memory),
            server: Server::new(&plan.job_id, &appnums, plan.universe_size),
            judge: Judge::new(plan.ranks.len()),
            watch: Watch::new(plan.ranks.len(), settings.watchdog_period(), settings.watchdog_abort),
            ways: Ways::default(),
            waiting: String::new(),
            ranks: Vec::with_capacity(plan.ranks.len()),
            outputs: Outputs::new(plan.ranks.len(), settings.tag_output),
            typed: None,
            aborting: None,
            limit: settings.timeout.map(|limit| (Instant::now() + limit, limit)),
            actions: Vec::new(),
        })
    }

    fn start_all(&mut self, plan: Plan, settings: &Settings) -> io::Result<()> {
        let size = plan.ranks.len();
        let needed = 3 * size as u64 + 32;
        let open_files = match machine::open_files(needed) {
            Ok(raised) => raised,
            Err(allowed) => {
                return Err(io::Error::other(format!(
                    "{size} ranks need {needed} open files in mpiexec, {allowed} are allowed (ulimit -n)"
                )));
            }
        };
        let inode = nix::sys::stat::fstat(&self.memory)?.st_ino;
        for mut rank in plan.ranks {
            rank.card.segment_inode = inode;
            let number = self.ranks.len();
            let executable = rank.executable.clone();
            if let Err(error) = self.start(rank, number, open_files, settings) {
                let refused = resolve::explain(&executable, &error);
                let cause = Cause::NotStarted { rank: number, why: refused.why, code: refused.code };
                let order = self.judge.condemn(cause, Instant::now());
                for missing in self.ranks.len()..size {
                    self.judge.ended(missing, End::Exit(0), Instant::now());
                }
                self.obey(order);
                break;
            }
        }
        if self.typed.is_none() {
            input::let_go();
        }
        Ok(())
    }

    fn start(
        &mut self,
        plan: RankPlan,
        number: usize,
        open_files: Option<(u64, u64)>,
        settings: &Settings,
    ) -> io::Result<()> {
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
        fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let mut command = Command::new(&plan.executable);
        command
            .arg0(&plan.program)
            .args(&plan.arguments)
            .current_dir(&plan.wdir)
            .env_clear()
            .envs(&plan.environment);
        command.env(card::VARIABLE, plan.card.emit());
        command.env("PMI_FD", theirs.as_raw_fd().to_string());
        command.env(card::NODE_FD_VARIABLE, self.memory.as_raw_fd().to_string());
        let typed = match number == 0 && !settings.no_stdin {
            true => {
                let (stdin, typed) = input::for_rank_0()?;
                command.stdin(stdin);
                typed
            }
            false => {
                command.stdin(Stdio::null());
                None
            }
        };
        let pipes = self.outputs.connect(&mut command, number)?;
        let affinity = plan.binding.as_ref().map(kernel_set).transpose()?;
        spawn::prepare(
            &mut command,
            Preparation {
                channel: theirs,
                memory: self.memory.clone(),
                keeper: self.keeper.socket(),
                affinity,
                mask: self.mask_before,
                open_files,
            },
        );
        let child = command.spawn()?;
        // Our copies of the child's ends go with it.
        drop(command);
        let pid = Pid::from_raw(child.id() as i32);
        // From here on the rank is known, and is ended with the others should something below fail.
        let known = Known { pid: pid.as_raw(), program: shown(&plan.program), note: None };
        let awaited = self.events.await_input(&ours, Token::Channel(number));
        self.ranks.push(Rank {
            pid,
            channel: Some(ours),
            unsent: Vec::new(),
            known,
            inside: None,
            listened_to: false,
        });
        awaited?;
        self.outputs.adopt(pipes, &self.events)?;
        if let Some(mut typed) = typed {
            typed.watch(&self.events)?;
            self.typed = Some(typed);
        }
        if settings.verbose {
            let place = plan.binding.map_or("not bound".to_owned(), |cpus| format!("bound to CPUs {cpus}"));
            let program = plan.executable.display();
            eprintln!(
                "mpiexec: rank {number} is pid {pid} on {}: {program}, in {}, {place}",
                self.host,
                plan.wdir.display()
            );
        }
        Ok(())
    }

    /// When something has to happen without an event.
    fn deadline(&self) -> Option<Instant> {
        let typed = self.typed.as_ref().and_then(Typed::deadline);
        let limit = self.limit.filter(|_| self.judge.cause().is_none()).map(|(at, _)| at);
        let watch = self.watch.deadline().filter(|_| self.judge.cause().is_none());
        let others = typed.into_iter().chain(limit).chain(watch);
        self.outputs.deadline().into_iter().chain(others).chain(self.judge.deadline()).min()
    }

    fn handle(&mut self, ready: &[Token]) -> io::Result<()> {
        // Deaths first: what other ranks say because of one must not be taken for the cause.
        if ready.contains(&Token::Signals) {
            self.take_signals()?;
        }
        for token in ready {
            match *token {
                Token::Signals => {}
                Token::Channel(rank) => self.listen(rank)?,
                Token::Stream(stream) => self.outputs.read(stream, &self.events)?,
                Token::Outlet(outlet) => self.events.forget_outlet(outlet),
                Token::Input => self.with_typed(Typed::read)?,
                Token::InputPipe => self.with_typed(Typed::write)?,
            }
        }
        let now = Instant::now();
        self.with_typed(|typed, events| typed.tick(now, events))?;
        if let Some((_, limit)) = self.limit.filter(|&(at, _)| at <= now) {
            let running = self.judge.running().collect();
            self.waiting = self.watch.summary(stall::now(), &|rank| outside(&self.ranks, rank));
            let order = self.judge.condemn(Cause::Timeout { limit, running }, now);
            self.limit = None;
            self.obey(order);
        }
        if self.judge.cause().is_none() {
            self.watch_ranks(now);
        }
        let order = self.judge.tick(now);
        self.obey(order);
        self.outputs.flush(now);
        self.outputs.write(&self.events)
    }

    fn watch_ranks(&mut self, now: Instant) {
        match self.watch.tick(now, stall::now(), &|rank| outside(&self.ranks, rank)) {
            None => {}
            Some(Word::Show { text, deadlock }) => {
                eprint!("{}", report::watched(&text));
                if deadlock {
                    eprintln!(
                        "         the job goes on as it is: look into it (rank 0 is process {}) or end it",
                        self.ranks[0].known.pid
                    );
                    eprintln!("         (mpiexec --watchdog-abort ends such jobs)");
                }
            }
            Some(Word::End(text)) => {
                let order = self.judge.condemn(Cause::Deadlock { text }, now);
                self.obey(order);
            }
        }
    }

    fn with_typed(&mut self, act: impl FnOnce(&mut Typed, &Events) -> io::Result<()>) -> io::Result<()> {
        match &mut self.typed {
            Some(typed) => act(typed, &self.events),
            None => Ok(()),
        }
    }

    fn take_signals(&mut self) -> io::Result<()> {
        while let Some(info) = self.signals.read_signal()? {
            let number = info.ssi_signo as i32;
            let Ok(signal) = Signal::try_from(number) else { continue };
            if signal == Signal::SIGCHLD {
                let pid = Pid::from_raw(info.ssi_pid as i32);
                self.bury_orphan(pid);
                self.tell_of_terminal(pid, info.ssi_code, info.ssi_status);
                continue;
            }
            self.send_all(signal, None);
            if ENDING.contains(&signal) {
                if self.waiting.is_empty() {
                    self.waiting = self.watch.summary(stall::now(), &|rank| outside(&self.ranks, rank));
                }
                let order = self.judge.interrupted(number);
                self.obey(order);
            }
            if signal == Signal::SIGTSTP {
                // Ranks are stopped; now mpiexec, so that the shell sees the job stop. SIGCONT wakes both.
                nix::sys::signal::raise(Signal::SIGSTOP)?;
            }
        }
        self.look_for_ends()
    }

    /// Ranks are background jobs of the terminal; one that wants it is stopped by the kernel and would hang in silence.
    fn tell_of_terminal(&mut self, pid: Pid, code: i32, status: i32) {
        use nix::libc::{CLD_STOPPED, SIGTTIN, SIGTTOU};
        let Some(rank) = self.ranks.iter().position(|rank| rank.pid == pid) else { return };
        if code == CLD_STOPPED && (status == SIGTTIN || status == SIGTTOU) {
            let Known { program, .. } = &self.ranks[rank].known;
            eprintln!(
                "mpiexec: rank {rank} ({program}, pid {pid}) was stopped by {}: it wants the terminal itself, which ranks cannot \
                 have; what is typed reaches rank 0 through standard input",
                report::signal_name(status)
            );
        }
    }

    /// Orphans of ranks that became children of mpiexec are buried at once; ranks stay until the end.
    fn bury_orphan(&self, pid: Pid) {
        if pid != self.keeper.pid() && self.ranks.iter().all(|rank| rank.pid != pid) {
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
    }

    /// Finds ranks that ended, and judges them in their turns.
    fn look_for_ends(&mut self) -> io::Result<()> {
        let mut ends = Vec::new();
        for rank in self.judge.running() {
            if let Some(end) =
                self.ranks.get(rank).map(|known| spawn::ended(known.pid)).transpose()?.flatten()
            {
                ends.push((rank, end));
            }
        }
        // Whether it has begun MPI may be among its last words.
        for &(rank, _) in ends.iter().filter(|(_, end)| *end == End::Exit(0)) {
            self.listen(rank)?;
        }
        ends.sort_by_key(|&(rank, end)| self.judge.turn(rank, end));
        for (rank, end) in ends {
            self.judge_end(rank, end)?;
        }
        self.check_barrier();
        Ok(())
    }

    /// A rank that ended without MPI is missing for ever in a barrier others wait in.
    fn check_barrier(&mut self) {
        if !self.server.anybody_waits() || self.judge.cause().is_some() {
            return;
        }
        if let Some(rank) = (0..self.ranks.len()).find(|&rank| self.judge.never_joined(rank)) {
            let waiting = (0..self.ranks.len()).filter(|&other| self.server.waits(other)).collect();
            let order = self.judge.condemn(Cause::NeverJoined { rank, waiting }, Instant::now());
            self.obey(order);
        }
    }

    /// Acts on what a rank has said. What it says while that is done is next: a rank's words are heard in their order.
    fn listen(&mut self, rank: usize) -> io::Result<()> {
        if std::mem::replace(&mut self.ranks[rank].listened_to, true) {
            return Ok(());
        }
        let heard = self.hear(rank);
        self.ranks[rank].listened_to = false;
        heard
    }

    fn hear(&mut self, rank: usize) -> io::Result<()> {
        let mut bytes = [0; 8192];
        while let Some(channel) = &self.ranks[rank].channel {
            match recv(channel.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
                Ok(0) | Err(Errno::ECONNRESET) => {
                    self.events.forget(channel);
                    self.ranks[rank].channel = None;
                }
                Ok(count) => {
                    let mut actions = std::mem::take(&mut self.actions);
                    self.server.receive(rank, &bytes[..count], &mut actions);
                    for action in actions.drain(..) {
                        self.act(action)?;
                    }
                    self.actions = actions;
                    // Entering a barrier is no action.
                    self.check_barrier();
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        self.send_unsent(rank);
        Ok(())
    }

    /// Hears what all ranks have said already: what they said before one of them ended or spoke counts, whoever is listened
    /// to first.
    fn catch_up(&mut self) -> io::Result<()> {
        (0..self.ranks.len()).try_for_each(|rank| self.listen(rank))
    }

    fn act(&mut self, action: Action) -> io::Result<()> {
        let now = Instant::now();
        let order = match action {
            Action::Reply { rank, line } => {
                self.ranks[rank].unsent.extend_from_slice(line.as_bytes());
                self.send_unsent(rank);
                None
            }
            Action::Started { rank, pid } => {
                self.ranks[rank].inside = pid;
                self.judge.started(rank);
                None
            }
            Action::Finished { rank } => {
                self.judge.finished(rank);
                self.ways.gone(rank);
                self.watch.gone(rank, stall::now(), now);
                None
            }
            Action::Stalled { rank, stall } => {
                self.watch.stalled(rank, *stall, now);
                None
            }
            Action::InVain { rank, others, patience } => {
                self.in_vain(rank, &others, patience);
                None
            }
            // It lies in the memory that all ranks share.
            Action::Parted { .. } => None,
            Action::Reopened { rank } => {
                self.watch.reopened(rank);
                None
            }
            Action::Note { rank, text } => {
                let text: String = text.chars().take(NOTE).collect();
                self.ranks[rank].known.note = Some(text).filter(|text| !text.is_empty());
                None
            }
            Action::Survives { rank } => {
                self.judge.survives(rank);
                None
            }
            Action::Abort { rank, code, message, ranks } => {
                // If a death elsewhere made this rank abort, the death is the cause.
                self.judge_deaths()?;
                self.aborting = Some(rank);
                let asked_for_some = !ranks.is_empty();
                if asked_for_some {
                    self.catch_up()?;
                }
                let partial = Partial { rank, code, message: message.clone(), ranks };
                let some = self.judge.abort_some(partial, now);
                if asked_for_some {
                    let scope = if some.is_some() { "some" } else { "all" };
                    let answer = wire1::Command::new("weft_aborted").with("scope", scope).emit();
                    self.ranks[rank].unsent.extend_from_slice(answer.as_bytes());
                    self.send_unsent(rank);
                }
                some.or_else(|| self.judge.condemn(Cause::Aborted { rank, code, message }, now))
            }
            Action::StartedAgain { rank } => self.judge.condemn(Cause::StartedTwice { rank }, now),
            Action::Garbled { rank, what } => self.judge.condemn(Cause::Garbled { rank, what }, now),
        };
        self.obey(order);
        Ok(())
    }

    /// Sends what the rank's socket takes. PMI is question and answer, so more than a socket buffer waits only for a rank that
    /// never reads; it gets the rest when it speaks again.
    fn send_unsent(&mut self, rank: usize) {
        let rank = &mut self.ranks[rank];
        while let Some(channel) = rank.channel.as_ref().filter(|_| !rank.unsent.is_empty()) {
            match send(channel.as_raw_fd(), &rank.unsent, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Ok(count) => drop(rank.unsent.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                // Its end is noticed as a child's end.
                Err(_) => rank.unsent.clear(),
            }
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            None => {}
            Some(Order::Terminate) => {
                self.send_all(Signal::SIGTERM, self.aborting);
                self.send_all(Signal::SIGCONT, None);
            }
            Some(Order::Kill) => self.send_all(Signal::SIGKILL, None),
            Some(Order::TerminateDoomed) => {
                self.send_to(self.judge.doomed(), Signal::SIGTERM, self.aborting);
                self.send_to(self.judge.doomed(), Signal::SIGCONT, None);
            }
            Some(Order::KillDoomed) => self.send_to(self.judge.doomed(), Signal::SIGKILL, None),
            Some(Order::Tell(lost)) => self.tell_of_death(lost),
        }
    }

    /// Sends `signal` to the groups of all ranks that run, but for `spared`.
    fn send_all(&self, signal: Signal, spared: Option<usize>) {
        self.send_to(self.judge.running(), signal, spared);
    }

    fn send_to(&self, ranks: impl Iterator<Item = usize>, signal: Signal, spared: Option<usize>) {
        for rank in ranks.filter(|&rank| Some(rank) != spared) {
            if let Some(rank) = self.ranks.get(rank) {
                // The group exists at least until its first process is reaped, which is at the end.
                let _ = killpg(rank.pid, signal);
            }
        }
    }

    /// All ranks have ended: end what they left behind, show what they last wrote, say what happened.
    fn close(mut self) -> io::Result<i32> {
        for rank in &self.ranks {
            let _ = killpg(rank.pid, Signal::SIGKILL);
        }
        for rank in &self.ranks {
            let _ = waitpid(rank.pid, None);
        }
        self.sweep();
        self.outputs.drain(&self.events)?;
        let known: Vec<Known> = self.ranks.iter().map(|rank| rank.known.clone()).collect();
        let died_of_pipe = matches!(
            self.judge.cause(),
            Some(Cause::Ended { end: End::Signal { signal: nix::libc::SIGPIPE, .. }, .. })
        );
        if !(self.outputs.broken && died_of_pipe) {
            eprint!("{}", report::failure(&self.judge, &known, &self.host, &self.waiting));
        }
        self.keeper.dismiss();
        Ok(self.judge.exit_code())
    }

    /// Waits until the ranks' groups are empty; everybody in them has SIGKILL already.
    fn sweep(&self) {
        let deadline = Instant::now() + SWEEP;
        while self.ranks.iter().any(|rank| killpg(rank.pid, None).is_ok()) && Instant::now() < deadline {
            if let Ok(WaitStatus::StillAlive) | Err(_) =
                waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG))
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// What the system says a rank does.
fn outside(ranks: &[Rank], rank: usize) -> Outside {
    let Some(rank) = ranks.get(rank) else { return Outside::Running };
    machine::state_of(rank.inside.unwrap_or(rank.pid.as_raw()))
}

pub(crate) fn kernel_set(cpus: &weft_place::CpuSet) -> io::Result<nix::sched::CpuSet> {
    let mut set = nix::sched::CpuSet::new();
    for &cpu in cpus.iter() {
        set.set(cpu)?;
    }
    Ok(set)
}
