//! The agent: mpiexec's hand on one host. One loop, one thread; it decides nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{MsgFlags, recv, send};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use weft_boot::stall;
use weft_types::{Farewell, PeerId};

use super::frames::{self, Answer, Frame, Kind, Orders, Question, Reader, Word};
use super::gather::{Gather, Step, usual_end};
use super::local::{self, Common, LocalRank, Places};
use crate::judge::End;
use crate::machine;
use crate::pmi_server::share_of_host;
use crate::spawn;
use crate::words;

/// Output of ranks is not read while more than this waits for the head.
const HIGH_WATER: usize = 256 * 1024;

/// How long the last words may take to leave.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Signals that end an agent, and its ranks with it: its way to the head is gone or going.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Serves the head at standard input and output until it is done. Returns the agent's exit code.
pub(crate) fn run() -> i32 {
    match Agent::new().and_then(|mut agent| agent.serve()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("mpiexec: the agent on {}: {error}", crate::machine::host_name());
            1
        }
    }
}

struct Agent {
    reader: Reader,
    /// Frames that found no room.
    out: Vec<u8>,
    signals: SignalFd,
    mask_before: SigSet,
    common: Option<Common>,
    ranks: Vec<LocalRank>,
    gather: Gather,
    /// Standard input for rank 0 that found no room.
    input: Vec<u8>,
    input_ended: bool,
    /// Whether ranks here missed words of the head.
    has_missed_words: bool,
    finished: bool,
}

impl Drop for Agent {
    /// However the agent ends, nothing of the job stays here.
    fn drop(&mut self) {
        if !self.finished {
            local::end_all(&self.ranks);
        }
    }
}

impl Agent {
    fn new() -> io::Result<Agent> {
        spawn::watch_children()?;
        let mut mask: SigSet = ENDING.into_iter().collect();
        mask.add(Signal::SIGCHLD);
        mask.add(Signal::SIGPIPE);
        let mask_before = SigSet::thread_get_mask()?;
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        for end in [io::stdin().as_fd(), io::stdout().as_fd()] {
            fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        nix::sys::prctl::set_child_subreaper(true)?;
        let mut agent = Agent {
            reader: Reader::default(),
            out: Vec::new(),
            signals,
            mask_before,
            common: None,
            ranks: Vec::new(),
            gather: Gather::default(),
            input: Vec::new(),
            input_ended: false,
            has_missed_words: false,
            finished: false,
        };
        agent.tell(Kind::Ping, 0, &[]);
        Ok(agent)
    }

    fn tell(&mut self, kind: Kind, number: u32, content: &[u8]) {
        frames::emit(kind, number, content, &mut self.out);
    }

    fn serve(&mut self) -> io::Result<()> {
        while !self.finished {
            self.wait()?;
            self.take_signals()?;
            self.listen_to_head()?;
            for index in 0..self.ranks.len() {
                self.listen(index)?;
                self.read_output(index)?;
            }
            self.feed();
            self.write()?;
        }
        self.say_last_words()
    }

    /// Waits until there is something to do.
    fn wait(&self) -> io::Result<()> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let mut wanted = vec![
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        if !self.out.is_empty() {
            wanted.push(PollFd::new(stdout.as_fd(), PollFlags::POLLOUT));
        }
        for rank in &self.ranks {
            if let Some(channel) = &rank.channel {
                wanted.push(PollFd::new(channel.as_fd(), PollFlags::POLLIN));
            }
            if self.out.len() < HIGH_WATER {
                let open = rank.pipes.iter().flatten();
                wanted.extend(open.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
            }
            if let Some(input) = rank.input.as_ref().filter(|_| !self.input.is_empty()) {
                wanted.push(PollFd::new(input.as_fd(), PollFlags::POLLOUT));
            }
        }
        match poll(&mut wanted, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn take_signals(&mut self) -> io::Result<()> {
        while let Some(info) = self.signals.read_signal()? {
            let signal = Signal::try_from(info.ssi_signo as i32);
            if signal == Ok(Signal::SIGCHLD) {
                let pid = Pid::from_raw(info.ssi_pid as i32);
                let keeper = self.common.as_ref().map(|common| common.keeper.pid());
                // Orphans of ranks are buried at once; ranks stay until the end, so that their numbers stay theirs.
                if Some(pid) != keeper && self.ranks.iter().all(|rank| rank.pid != pid) {
                    let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
                }
            } else if signal.is_ok_and(|signal| ENDING.contains(&signal)) {
                return Err(io::Error::other(format!("ended by signal {}", info.ssi_signo)));
            }
        }
        self.look_for_ends()
    }

    fn look_for_ends(&mut self) -> io::Result<()> {
        let mut ends: Vec<(usize, End)> = Vec::new();
        for (index, rank) in self.ranks.iter().enumerate().filter(|(_, rank)| !rank.ended) {
            if let Some(end) = spawn::ended(rank.pid)? {
                ends.push((index, end));
            }
        }
        // Deaths first: the end of one must not be taken for the cause of another's.
        ends.sort_by_key(|(_, end)| matches!(end, End::Exit(_)));
        for (index, end) in ends {
            // It may have said good-bye, or why it ends, with its last breath; and the others, that they go on without it.
            self.listen_to_all()?;
            self.read_output(index)?;
            self.ranks[index].ended = true;
            let mut steps = Vec::new();
            self.gather.ended(&mut steps);
            self.follow(steps);
            let number = self.ranks[index].rank;
            self.tell(Kind::Ended, number, &frames::ending(end));
        }
        Ok(())
    }

    fn listen_to_head(&mut self) -> io::Result<()> {
        let mut bytes = [0; 64 * 1024];
        loop {
            match io::stdin().lock().read(&mut bytes) {
                Ok(0) => return Err(io::Error::other("mpiexec is gone; its ranks here were ended")),
                Ok(count) => self.reader.push(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            while let Some(frame) =
                self.reader.next_frame().map_err(|_| io::Error::other("what came is not from mpiexec"))?
            {
                self.obey(&frame)?;
            }
        }
    }

    fn obey(&mut self, frame: &Frame) -> io::Result<()> {
        let found = self.ranks.iter().position(|rank| rank.rank == frame.number);
        match (frame.kind, found) {
            (Kind::Start, _) => return self.start(&frame.content),
            (Kind::Ping, _) => {
                if let Some(Question { asked, pids }) = Question::parse(&frame.content) {
                    // The answer says that all is told that was known here when the question came.
                    self.look_for_ends()?;
                    self.listen_to_all()?;
                    let states = pids.into_iter().map(machine::state_of).collect();
                    let answer = Answer { asked, clock: stall::now(), states };
                    self.tell(Kind::Ping, 0, &answer.emit());
                }
            }
            (Kind::Lost, _) => self.tell_of_loss(frame.number),
            (Kind::Word, _) => self.tell_word(frame),
            (Kind::Finish, _) => self.finish()?,
            (Kind::Left, _) => self.leave_fence(&frame.content),
            (Kind::Channel, Some(index)) => {
                self.ranks[index].unsent.extend_from_slice(&frame.content);
                self.send_unsent(index);
            }
            (Kind::Signal, Some(index)) => {
                let signal = frames::parse_number(&frame.content).and_then(|n| Signal::try_from(n).ok());
                if let Some(signal) = signal {
                    let _ = killpg(self.ranks[index].pid, signal);
                }
            }
            (Kind::Input, _) => {
                self.input.extend_from_slice(&frame.content);
                self.input_ended |= frame.content.is_empty();
            }
            // About a rank that was not started.
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, content: &[u8]) -> io::Result<()> {
        let orders =
            Orders::parse(content).filter(|orders| orders.version == env!("CARGO_PKG_VERSION")).ok_or_else(
                || io::Error::other("mpiexec here and at the head are of different versions of Weft"),
            )?;
        let common = Common::prepare(orders.ranks.len(), self.mask_before)?;
        let share = share_of_host(orders.ranks.len(), orders.size as usize);
        self.gather = Gather::new(orders.ranks.len(), share);
        let places = Places::choose(&orders).map_err(io::Error::other)?;
        for line in &places.lines {
            self.tell(Kind::Line, 0, line.as_bytes());
        }
        for index in 0..orders.ranks.len() {
            let number = orders.ranks[index].rank;
            match local::start(&orders, index, &places, &common) {
                Ok(rank) => {
                    self.tell(Kind::Started, number, &rank.pid.as_raw().to_le_bytes());
                    self.ranks.push(rank);
                }
                Err(refused) => {
                    let mut content = refused.code.to_le_bytes().to_vec();
                    content.extend(refused.why.bytes());
                    self.tell(Kind::NotStarted, number, &content);
                    break;
                }
            }
        }
        self.common = Some(common);
        Ok(())
    }

    fn follow(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Said(index, bytes) => self.tell(Kind::Said, self.ranks[index].rank, &bytes),
                Step::Puts(lines) => self.tell(Kind::Puts, 0, &lines),
                Step::Entered(lines) => self.tell(Kind::Entered, 0, &lines),
                Step::Answer(index, line) => {
                    self.ranks[index].unsent.extend_from_slice(line.as_bytes());
                    self.send_unsent(index);
                }
            }
        }
    }

    /// The fence is over for all ranks here, which hear `line`; empty: the usual one.
    fn leave_fence(&mut self, line: &[u8]) {
        self.gather.left();
        let usual = usual_end();
        let line = if line.is_empty() { usual.as_bytes() } else { line };
        for index in 0..self.ranks.len() {
            self.ranks[index].unsent.extend_from_slice(line);
            self.send_unsent(index);
        }
    }

    /// Tells the ranks here that one of the job is gone.
    fn tell_of_loss(&mut self, lost: u32) {
        let Some(common) = &self.common else { return };
        let memory = common.memory.try_clone().map(File::from);
        let here = self.ranks.iter().position(|rank| rank.rank == lost);
        let told = memory.map_err(|error| error.to_string()).and_then(|memory| {
            let ranks = self.ranks.len() as u32;
            let marked = match here {
                Some(index) => weft_shm::mark_dead(&memory, ranks, index as u32),
                None => weft_shm::mark_far_dead(&memory, ranks, lost),
            };
            marked.map_err(|error| error.text().to_owned())
        });
        if let Err(why) = told {
            self.tell(Kind::CannotTell, lost, why.as_bytes());
        }
    }

    /// Tells ranks here a word of the head. The head hears of the first verdict or farewell that cannot be told; without a question
    /// two ranks wait as if nobody had asked it.
    fn tell_word(&mut self, frame: &Frame) {
        let Some(common) = &self.common else { return };
        let here = self.ranks.iter().position(|rank| rank.rank == frame.number).map(|index| index as u32);
        let word = match (Word::parse(&frame.content), here) {
            (Some(Word::Asks(peer)), Some(local)) => weft_shm::Word::Asks { local, peer: PeerId(peer) },
            (Some(Word::Unreachable(peer)), Some(local)) => {
                weft_shm::Word::Unreachable { local, peer: PeerId(peer) }
            }
            (Some(Word::Farewell(word)), None) => {
                weft_shm::Word::Farewell(PeerId(frame.number), Farewell::from_word(word))
            }
            _ => return,
        };
        if let Err(why) = words::tell(&common.memory, self.ranks.len(), word)
            && !std::mem::replace(&mut self.has_missed_words, true)
        {
            self.tell(Kind::NotSaid, frame.number, why.as_bytes());
        }
    }

    fn listen_to_all(&mut self) -> io::Result<()> {
        (0..self.ranks.len()).try_for_each(|index| self.listen(index))
    }

    /// Passes on what a rank says through its control channel.
    fn listen(&mut self, index: usize) -> io::Result<()> {
        let mut bytes = [0; 8192];
        while let Some(channel) = &self.ranks[index].channel {
            match recv(channel.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
                Ok(0) | Err(Errno::ECONNRESET) => self.ranks[index].channel = None,
                Ok(count) => {
                    let steps = self.gather.said(index, &bytes[..count]);
                    self.follow(steps);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        self.send_unsent(index);
        Ok(())
    }

    fn send_unsent(&mut self, index: usize) {
        let rank = &mut self.ranks[index];
        while let Some(channel) = rank.channel.as_ref().filter(|_| !rank.unsent.is_empty()) {
            match send(channel.as_raw_fd(), &rank.unsent, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Ok(count) => drop(rank.unsent.drain(..count)),
                Err(Errno::EINTR) => {}
                // It gets the rest when it speaks again: PMI is question and answer.
                Err(Errno::EAGAIN) => return,
                Err(_) => rank.unsent.clear(),
            }
        }
    }

    /// Passes on what a rank has written, as far as the head keeps up.
    fn read_output(&mut self, index: usize) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        for (stream, kind) in [Kind::Output, Kind::Error].into_iter().enumerate() {
            while self.out.len() < HIGH_WATER {
                let rank = &mut self.ranks[index];
                let Some(pipe) = &mut rank.pipes[stream] else { break };
                match pipe.read(&mut bytes) {
                    Ok(0) => rank.pipes[stream] = None,
                    Ok(count) => {
                        let number = rank.rank;
                        self.tell(kind, number, &bytes[..count]);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Gives rank 0 what waits of its standard input.
    fn feed(&mut self) {
        let Some(rank) = self.ranks.iter_mut().find(|rank| rank.rank == 0) else { return };
        let mut taken = 0;
        while let Some(pipe) = rank.input.as_mut().filter(|_| taken < self.input.len()) {
            match pipe.write(&self.input[taken..]) {
                Ok(count) => taken += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It reads no more.
                Err(_) => rank.input = None,
            }
        }
        if rank.input.is_none() {
            taken = self.input.len();
        }
        self.input.drain(..taken);
        if self.input.is_empty() && self.input_ended {
            rank.input = None;
        }
        if taken > 0 {
            self.tell(Kind::Took, 0, &(taken as u32).to_le_bytes());
        }
    }

    /// Writes what the head takes without blocking.
    fn write(&mut self) -> io::Result<()> {
        let mut written = 0;
        while written < self.out.len() {
            match nix::unistd::write(io::stdout(), &self.out[written..]) {
                Ok(count) => written += count,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        self.out.drain(..written);
        Ok(())
    }

    /// The job is over: ends what is left here, and passes on what was written last.
    fn finish(&mut self) -> io::Result<()> {
        local::end_all(&self.ranks);
        self.finished = true;
        let deadline = Instant::now() + LAST_WORDS;
        for index in 0..self.ranks.len() {
            loop {
                self.read_output(index)?;
                if self.out.len() < HIGH_WATER {
                    // Nothing more is there; whoever holds the pipe outside the ranks' groups is not waited for.
                    break;
                }
                self.flush(deadline)?;
            }
        }
        if let Some(common) = self.common.take() {
            common.keeper.dismiss();
        }
        Ok(())
    }

    fn say_last_words(&mut self) -> io::Result<()> {
        self.tell(Kind::Bye, 0, &[]);
        self.flush(Instant::now() + LAST_WORDS)
    }

    fn flush(&mut self, deadline: Instant) -> io::Result<()> {
        while !self.out.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::other("mpiexec does not take the last output"));
            }
            let stdout = io::stdout();
            let limit = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let _ = poll(&mut [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)], limit);
            self.write()?;
        }
        Ok(())
    }
}
