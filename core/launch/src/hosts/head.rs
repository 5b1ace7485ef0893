//! mpiexec's part in a job on several hosts: it decides, and agents do.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use weft_boot::stall;

use super::PING;
use super::agents::{agent_words, start_agent};
use super::clocks::Clock;
use super::dealing::{self, Dealer, NamedHost};
use super::frames::{self, Frame, Kind, Reader};
use super::gather::{Down, Entrances};
use super::orders::orders;
use super::verdicts::{Matter, Queue};
use super::watching::Loss;
use crate::judge::{Cause, End, Judge, Order};
use crate::lines::Lines;
use crate::options::{Section, Settings};
use crate::output::{HIGH_WATER, Outlet, same_file};
use crate::plan;
use crate::pmi_server::{Action, Server};
use crate::report::{self, Known};
use crate::run::{ENDING, NOTE, PASSED_ON};
use crate::watch::{Outside, Watch};
use crate::ways::Ways;

/// A connection may take longer to be made than an agent may be silent later.
pub(super) const PATIENCE_AT_START: Duration = Duration::from_secs(60);

/// How long agents may take to end what ranks left behind, after all ranks have ended.
const FAREWELL: Duration = Duration::from_secs(10);

/// One host and its agent.
pub(super) struct Host {
    pub(super) name: String,
    /// `None`: it was never started.
    pub(super) child: Option<Child>,
    reader: Reader,
    /// Frames that found no room.
    pub(super) out: Vec<u8>,
    /// Its clock, once it was asked.
    pub(super) clock: Option<Clock>,
    /// Everything that it was told before this time (of [`weft_boot::stall::now`]) it has done.
    pub(super) obeyed: u64,
    /// Since when it owes an answer that the head could have read; `None`: it owes none.
    pub(super) owes_since: Option<Instant>,
    pub(super) answered: bool,
    pub(super) ranks: Vec<usize>,
    /// Ranks that its agent has started.
    started: usize,
    /// It said good-bye, or is lost.
    pub(super) gone: bool,
}

/// A job on several hosts.
pub(super) struct Head {
    pub(super) hosts: Vec<Host>,
    pub(super) host_of: Vec<usize>,
    pub(super) entrances: Entrances,
    pub(super) server: Server,
    pub(super) judge: Judge,
    pub(super) watch: Watch,
    /// Ranks that ask each other in vain.
    pub(super) ways: Ways,
    /// Losses that not all hosts know of yet.
    pub(super) losses: Vec<Loss>,
    /// Deaths and aborts that wait for words of other hosts.
    pub(super) queue: Queue,
    /// Who waited for what when the job was given up.
    waiting: String,
    pub(super) known: Vec<Known>,
    /// The process of each rank that began MPI, where it said so.
    pub(super) inside: Vec<Option<i32>>,
    /// What each rank did when its host was last asked.
    pub(super) outside: Vec<Outside>,
    pub(super) lines: Vec<[Lines; 2]>,
    pub(super) tags: Vec<String>,
    pub(super) outlets: [Outlet; 2],
    /// The outlet of standard error: 0 when both are the same file.
    pub(super) error_outlet: usize,
    pub(super) broken: bool,
    signals: SignalFd,
    limit: Option<(Instant, Duration)>,
    next_ping: Instant,
    pub(super) aborting: Option<usize>,
    pub(super) input_open: bool,
    pub(super) input_under_way: usize,
    verbose: bool,
    actions: Vec<Action>,
}

/// Runs the job on the hosts of `settings`. Returns mpiexec's exit code.
///
/// Errors: mpiexec itself cannot work.
pub(crate) fn run(sections: &[Section], settings: &Settings) -> io::Result<i32> {
    let mut head = match Head::start(sections, settings)? {
        Ok(head) => head,
        Err(why) => {
            eprintln!("mpiexec: {why}");
            return Ok(2);
        }
    };
    while !head.judge.all_ended() {
        head.wait(head.deadline())?;
        head.turn()?;
    }
    head.close()
}

impl Head {
    fn start(sections: &[Section], settings: &Settings) -> io::Result<Result<Head, String>> {
        let per_host = settings.per_node.or_else(|| settings.deals_by_node().then_some(1));
        let (mut dealer, mut host_of) = (Dealer::default(), Vec::new());
        for section in sections {
            let list: Vec<NamedHost> =
                dealing::hosts_of(section, sections, &settings.hosts).into_iter().cloned().collect();
            let together = match section.hosts.is_empty() {
                true => sections.iter().filter(|other| other.hosts.is_empty()).map(|other| other.count).sum(),
                false => section.count,
            };
            let dealt = dealer.deal(&list, section.count, per_host, together);
            if dealt.len() < section.count as usize {
                return Ok(Err("none of the hosts has a slot for a rank".to_owned()));
            }
            host_of.extend(dealt);
        }
        let names = dealer.names;
        let slots = dealing::slots(dealing::all_hosts(sections, &settings.hosts), None);
        let job_id = plan::job_id();
        let orders = orders(sections, settings, &names, &host_of, slots, &job_id)?;
        // Before signals are blocked, which agents and ranks would inherit. A signal that ends mpiexec here ends them too, since
        // their way to it is gone then.
        let agents: Vec<(Vec<OsString>, io::Result<Child>)> = names
            .iter()
            .map(|name| {
                let words = agent_words(name, settings);
                let child = start_agent(&words);
                (words, child)
            })
            .collect();
        let mut mask: SigSet = ENDING.into_iter().chain(PASSED_ON).collect();
        mask.add(Signal::SIGCHLD);
        mask.add(Signal::SIGPIPE);
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let appnums: Vec<i32> =
            (0..).zip(sections).flat_map(|(app, section)| (0..section.count).map(move |_| app)).collect();
        let size = host_of.len();
        let now = Instant::now();
        let universe = settings.universe_size.unwrap_or(slots.max(size as u32));
        let programs = sections
            .iter()
            .flat_map(|section| std::iter::repeat_n(plan::shown(&section.program), section.count as usize));
        let ranks_of: Vec<u32> =
            (0..names.len()).map(|host| host_of.iter().filter(|&&of| of == host).count() as u32).collect();
        let mut head = Head {
            server: Server::on_nodes(&job_id, &appnums, universe, dealing::nodes(&host_of).to_string()),
            judge: Judge::new(size),
            watch: Watch::new(size, settings.watchdog_period(), settings.watchdog_abort),
            ways: Ways::default(),
            losses: Vec::new(),
            queue: Queue::default(),
            inside: vec![None; size],
            outside: vec![Outside::Running; size],
            waiting: String::new(),
            known: programs.map(|program| Known { pid: 0, program, note: None }).collect(),
            lines: (0..size).map(|_| Default::default()).collect(),
            tags: (0..size)
                .map(|rank| if settings.tag_output { format!("[{rank}] ") } else { String::new() })
                .collect(),
            outlets: [Outlet::new(0), Outlet::new(1)],
            error_outlet: usize::from(!same_file(io::stdout().as_fd(), io::stderr().as_fd())),
            broken: false,
            signals,
            limit: settings.timeout.map(|limit| (now + limit, limit)),
            next_ping: now + PING,
            aborting: None,
            input_open: !settings.no_stdin,
            input_under_way: 0,
            verbose: settings.verbose,
            actions: Vec::new(),
            hosts: Vec::new(),
            entrances: Entrances::new(ranks_of),
            host_of,
        };
        for (index, (name, orders)) in names.iter().zip(orders).enumerate() {
            let ranks = (0..size).filter(|&rank| head.host_of[rank] == index).collect();
            head.hosts.push(Host {
                name: name.clone(),
                child: None,
                reader: Reader::default(),
                out: Vec::new(),
                clock: None,
                obeyed: 0,
                owes_since: Some(now),
                answered: false,
                ranks,
                started: 0,
                gone: false,
            });
            frames::emit(Kind::Start, 0, &orders.emit(), &mut head.hosts[index].out);
        }
        for (index, (words, child)) in agents.into_iter().enumerate() {
            match child {
                Ok(child) => head.hosts[index].child = Some(child),
                Err(error) => {
                    let program = words[0].to_string_lossy().into_owned();
                    head.lose(index, format!("its agent cannot be started: {program}: {error}"));
                }
            }
        }
        Ok(Ok(head))
    }

    /// When something has to happen without an event.
    fn deadline(&self) -> Instant {
        let lines = self.lines.iter().flatten().filter_map(Lines::deadline);
        let limit = self.limit.filter(|_| self.judge.cause().is_none()).map(|(at, _)| at);
        let watch = self.watch.deadline().filter(|_| self.judge.cause().is_none());
        let judge = self.judge.deadline().into_iter().chain(self.queue.deadline());
        lines.chain(limit).chain(watch).chain(judge).fold(self.next_ping, Instant::min)
    }

    fn wait(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let mut wanted = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let has_room = self.has_room();
        for host in self.hosts.iter().filter(|host| !host.gone) {
            let Some(child) = &host.child else { continue };
            // What ranks write waits for whoever reads mpiexec's output.
            if let Some(from) = child.stdout.as_ref().filter(|_| has_room) {
                wanted.push(PollFd::new(from.as_fd(), PollFlags::POLLIN));
            }
            if let Some(to) = child.stdin.as_ref().filter(|_| !host.out.is_empty()) {
                wanted.push(PollFd::new(to.as_fd(), PollFlags::POLLOUT));
            }
        }
        for (outlet, fd) in self.outlets.iter().zip([stdout.as_fd(), stderr.as_fd()]) {
            if outlet.waiting() > 0 {
                wanted.push(PollFd::new(fd, PollFlags::POLLOUT));
            }
        }
        if self.may_read_input() {
            wanted.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
        }
        // Rounded up: waking before the deadline would spin.
        let limit = Duration::from_millis(left.as_micros().div_ceil(1000) as u64);
        match poll(&mut wanted, PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether what ranks write can be taken in; otherwise nothing is read of what agents say.
    pub(super) fn has_room(&self) -> bool {
        self.outlets.iter().all(|outlet| outlet.waiting() < HIGH_WATER)
    }

    /// Handles whatever is there.
    fn turn(&mut self) -> io::Result<()> {
        self.take_signals()?;
        for index in 0..self.hosts.len() {
            self.listen(index);
        }
        self.judge_matters();
        self.pass_input()?;
        let now = Instant::now();
        if let Some((_, limit)) = self.limit.filter(|&(at, _)| at <= now) {
            let running = self.judge.running().collect();
            self.waiting = self.summary();
            let order = self.judge.condemn(Cause::Timeout { limit, running }, now);
            self.limit = None;
            self.obey(order);
        }
        if now >= self.next_ping {
            self.next_ping = now + PING;
            self.ask_hosts(now);
        }
        if self.judge.cause().is_none() {
            self.watch_ranks(now);
        }
        let order = self.judge.tick(now);
        self.obey(order);
        for rank in 0..self.lines.len() {
            self.flush_lines(rank, now, false);
        }
        self.write();
        Ok(())
    }

    fn take_signals(&mut self) -> io::Result<()> {
        while let Some(info) = self.signals.read_signal()? {
            let number = info.ssi_signo as i32;
            let Ok(signal) = Signal::try_from(number) else { continue };
            // The end of an agent shows as the end of its output.
            if matches!(signal, Signal::SIGCHLD | Signal::SIGPIPE) {
                continue;
            }
            self.send_all(signal, None);
            if ENDING.contains(&signal) {
                if self.waiting.is_empty() {
                    self.waiting = self.summary();
                }
                let order = self.judge.interrupted(number);
                self.obey(order);
            }
            if signal == Signal::SIGTSTP {
                self.write();
                nix::sys::signal::raise(Signal::SIGSTOP)?;
            }
        }
        Ok(())
    }

    /// Takes what a host's agent says.
    fn listen(&mut self, index: usize) {
        let mut bytes = [0; 64 * 1024];
        while !self.hosts[index].gone && self.has_room() {
            let host = &mut self.hosts[index];
            let Some(from) = host.child.as_mut().and_then(|child| child.stdout.as_mut()) else { return };
            match from.read(&mut bytes) {
                Ok(0) => return self.lose(index, "the connection to it ended".to_owned()),
                Ok(count) => {
                    (host.owes_since, host.answered) = (None, true);
                    host.reader.push(&bytes[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.lose(index, format!("the connection to it failed: {error}")),
            }
            loop {
                match self.hosts[index].reader.next_frame() {
                    Ok(Some(frame)) => self.take(index, frame),
                    Ok(None) => break,
                    Err(frames::Broken) => {
                        let why = "its agent sent something else than frames: does the login there print something?";
                        return self.lose(index, why.to_owned());
                    }
                }
            }
        }
    }

    fn take(&mut self, index: usize, frame: Frame) {
        let rank = frame.number as usize;
        let ours = self.host_of.get(rank) == Some(&index);
        match frame.kind {
            Kind::Ping => self.answered(index, &frame.content),
            // Nobody would hear of their ends any more.
            Kind::Bye => match self.hosts[index].ranks.iter().any(|&rank| self.judge.is_running(rank)) {
                true => self.lose(index, "its agent went before they ended".to_owned()),
                false => self.hosts[index].gone = true,
            },
            Kind::Took => {
                let taken = frames::parse_number(&frame.content).unwrap_or(0).max(0) as usize;
                self.input_under_way = self.input_under_way.saturating_sub(taken);
            }
            Kind::Line => eprintln!("mpiexec: {}", String::from_utf8_lossy(&frame.content)),
            Kind::Started if ours => {
                self.hosts[index].started += 1;
                self.known[rank].pid = frames::parse_number(&frame.content).unwrap_or(0);
                if self.verbose {
                    let Known { pid, program, .. } = &self.known[rank];
                    eprintln!("mpiexec: rank {rank} is pid {pid} on {}: {program}", self.hosts[index].name);
                }
            }
            Kind::NotStarted if ours => {
                let (code, why) = frame.content.split_at(frame.content.len().min(4));
                let why = String::from_utf8_lossy(why).into_owned();
                let why = format!("on {}: {why}", self.hosts[index].name);
                let code = frames::parse_number(code).unwrap_or(1);
                let now = Instant::now();
                let order = self.judge.condemn(Cause::NotStarted { rank, why, code }, now);
                // Those of the host that were to come after it were not started either.
                let host = &self.hosts[index];
                let missing = host.ranks.get(host.started..).unwrap_or_default().to_vec();
                for missing in missing {
                    self.judge.ended(missing, End::Exit(0), now);
                }
                self.obey(order);
            }
            Kind::Said if ours => self.hear(rank, &frame.content),
            Kind::Puts => self.server.take_puts(&frame.content),
            Kind::Entered => self.enter(index, &frame.content),
            Kind::Output if ours => self.show(rank, 0, &frame.content),
            Kind::Error if ours => self.show(rank, 1, &frame.content),
            Kind::Ended if ours => {
                // Nobody would hear of that rank's end any more.
                let Some(end) = frames::parse_ending(&frame.content) else {
                    return self.lose(index, format!("its agent told no end that rank {rank} can have"));
                };
                self.flush_lines(rank, Instant::now(), true);
                match self.judge.depends_on_others(rank, end) {
                    true => self.bring(Matter::End { rank, end }),
                    false => self.judge_end(rank, end),
                }
            }
            Kind::CannotTell => {
                let why = String::from_utf8_lossy(&frame.content).into_owned();
                self.not_told(index, rank, &why);
            }
            Kind::NotSaid => {
                let (host, why) = (&self.hosts[index].name, String::from_utf8_lossy(&frame.content));
                eprint!("{}", report::not_said(host, &why));
            }
            // Not an agent's to say.
            _ => {}
        }
    }

    /// A host is gone, and its ranks with it.
    pub(super) fn lose(&mut self, index: usize, why: String) {
        let now = Instant::now();
        let host = &mut self.hosts[index];
        if std::mem::replace(&mut host.gone, true) {
            return;
        }
        if let Some(child) = &mut host.child {
            // Should only the connection be stuck, its end ends the agent.
            let _ = child.kill();
        }
        let name = host.name.clone();
        let ranks: Vec<usize> =
            host.ranks.iter().copied().filter(|&rank| self.judge.is_running(rank)).collect();
        if ranks.is_empty() {
            return;
        }
        let others = self.judge.running().count() - ranks.len();
        let order =
            self.judge.condemn(Cause::HostLost { host: name, why, ranks: ranks.clone(), others }, now);
        for rank in ranks {
            self.judge.ended(rank, End::Signal { signal: Signal::SIGKILL as i32, core: false }, now);
        }
        self.obey(order);
        self.settle_losses();
        self.judge_matters();
    }

    /// A rank that ended without MPI is missing for ever in a barrier others wait in.
    pub(super) fn check_barrier(&mut self) {
        if !self.server.anybody_waits() || self.judge.cause().is_some() {
            return;
        }
        if let Some(rank) = (0..self.known.len()).find(|&rank| self.judge.never_joined(rank)) {
            let waiting = (0..self.known.len()).filter(|&other| self.server.waits(other)).collect();
            let order = self.judge.condemn(Cause::NeverJoined { rank, waiting }, Instant::now());
            self.obey(order);
        }
    }

    pub(super) fn hear(&mut self, rank: usize, bytes: &[u8]) {
        let mut actions = std::mem::take(&mut self.actions);
        self.server.receive(rank, bytes, &mut actions);
        for action in actions.drain(..) {
            self.act(action);
        }
        self.actions = actions;
        self.check_barrier();
    }

    pub(super) fn tell(&mut self, rank: usize, kind: Kind, content: &[u8]) {
        let host = &mut self.hosts[self.host_of[rank]];
        if !host.gone {
            frames::emit(kind, rank as u32, content, &mut host.out);
        }
    }

    fn act(&mut self, action: Action) {
        let now = Instant::now();
        let order = match action {
            Action::Reply { rank, line } => {
                match self.entrances.answer(self.host_of[rank], rank, line) {
                    Some(Down::Left(host, line)) if !self.hosts[host].gone => {
                        frames::emit(Kind::Left, 0, line.as_bytes(), &mut self.hosts[host].out);
                    }
                    Some(Down::Line(rank, line)) => self.tell(rank, Kind::Channel, line.as_bytes()),
                    Some(Down::Left(..)) | None => {}
                }
                None
            }
            Action::Started { rank, pid } => {
                self.inside[rank] = pid;
                self.judge.started(rank);
                None
            }
            Action::Finished { rank } => {
                self.judge.finished(rank);
                self.ways.gone(rank);
                self.watch.gone(rank, stall::now(), now);
                None
            }
            Action::Note { rank, text } => {
                let text: String = text.chars().take(NOTE).collect();
                self.known[rank].note = Some(text).filter(|text| !text.is_empty());
                None
            }
            Action::Survives { rank } => {
                self.judge.survives(rank);
                None
            }
            Action::Stalled { rank, stall } => {
                self.stalled(rank, *stall);
                None
            }
            Action::InVain { rank, others, patience } => {
                self.in_vain(rank, &others, patience);
                None
            }
            Action::Parted { rank, farewell } => {
                self.parted(rank, farewell);
                None
            }
            Action::Reopened { rank } => {
                self.watch.reopened(rank);
                None
            }
            Action::Abort { rank, code, message, ranks } => {
                self.bring(Matter::Abort { rank, code, message, ranks });
                None
            }
            Action::StartedAgain { rank } => self.judge.condemn(Cause::StartedTwice { rank }, now),
            Action::Garbled { rank, what } => self.judge.condemn(Cause::Garbled { rank, what }, now),
        };
        self.obey(order);
    }

    pub(super) fn obey(&mut self, order: Option<Order>) {
        let doomed: Vec<usize> = self.judge.doomed().collect();
        match order {
            None => {}
            Some(Order::Terminate) => {
                self.send_all(Signal::SIGTERM, self.aborting);
                self.send_all(Signal::SIGCONT, None);
            }
            Some(Order::Kill) => self.send_all(Signal::SIGKILL, None),
            Some(Order::TerminateDoomed) => {
                self.send_to(&doomed, Signal::SIGTERM, self.aborting);
                self.send_to(&doomed, Signal::SIGCONT, None);
            }
            Some(Order::KillDoomed) => self.send_to(&doomed, Signal::SIGKILL, None),
            Some(Order::Tell(lost)) => {
                self.tell_of_loss(lost);
                let host = &self.hosts[self.host_of[lost]].name;
                eprint!("{}", report::lost(&self.judge, &self.known[lost], host));
            }
        }
    }

    fn send_all(&mut self, signal: Signal, spared: Option<usize>) {
        let running: Vec<usize> = self.judge.running().collect();
        self.send_to(&running, signal, spared);
    }

    fn send_to(&mut self, ranks: &[usize], signal: Signal, spared: Option<usize>) {
        for &rank in ranks.iter().filter(|&&rank| Some(rank) != spared) {
            self.tell(rank, Kind::Signal, &(signal as i32).to_le_bytes());
        }
    }

    /// All ranks have ended: agents end what is left, and mpiexec says what happened.
    fn close(mut self) -> io::Result<i32> {
        for host in self.hosts.iter_mut().filter(|host| !host.gone) {
            frames::emit(Kind::Finish, 0, &[], &mut host.out);
        }
        self.input_open = false;
        let deadline = Instant::now() + FAREWELL;
        while self.hosts.iter().any(|host| !host.gone) && Instant::now() < deadline {
            self.write();
            self.wait(deadline)?;
            while self.signals.read_signal()?.is_some() {}
            for index in 0..self.hosts.len() {
                self.listen(index);
            }
        }
        for rank in 0..self.lines.len() {
            self.flush_lines(rank, Instant::now(), true);
        }
        self.outlets.iter_mut().for_each(|outlet| outlet.write(true));
        for host in &mut self.hosts {
            let Some(child) = &mut host.child else { continue };
            drop(child.stdin.take());
            if !host.gone {
                let _ = child.kill();
            }
            let _ = child.wait();
        }
        let died_of_pipe = matches!(
            self.judge.cause(),
            Some(Cause::Ended { end: End::Signal { signal: nix::libc::SIGPIPE, .. }, .. })
        );
        if !(self.broken && died_of_pipe) {
            let host = |rank: usize| self.hosts[self.host_of[rank]].name.as_str();
            eprint!("{}", report::failure_on(&self.judge, &self.known, &host, &self.waiting));
        }
        Ok(self.judge.exit_code())
    }
}
