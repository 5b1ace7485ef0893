//! The head's part of the watchdog and of deaths: what ranks of several hosts tell, in one time, when others know of a loss,
//! and what hosts say as wholes.

use std::time::{Duration, Instant};

use weft_boot::stall::{self, Stall};
use weft_types::Farewell;

use super::SILENCE;
use super::clocks::{self, Clock};
use super::frames::{self, Answer, Kind, Question};
use super::head::{Head, PATIENCE_AT_START};
use crate::judge::Cause;
use crate::report;
use crate::watch::Word;
use crate::ways::Step;

/// A rank that died while the others go on, and when the hosts were told (nanoseconds of [`stall::now`]).
pub(super) struct Loss {
    rank: usize,
    told: u64,
}

/// Hosts are not asked again for so many nanoseconds.
const LOOKED_LATELY: u64 = 300_000_000;

/// A host that takes nothing is asked no more while so many bytes wait for it.
const MOST_UNHEARD: usize = 1 << 20;

impl Head {
    /// Asks a host whether it is there, and what its clock says.
    pub(super) fn ask_host(&mut self, index: usize) {
        let pids = match self.watch.anybody_stalled() {
            true => self.hosts[index]
                .ranks
                .iter()
                .map(|&rank| self.inside[rank].unwrap_or(self.known[rank].pid))
                .collect(),
            false => Vec::new(),
        };
        let question = Question { asked: stall::now(), pids };
        frames::emit(Kind::Ping, 0, &question.emit(), &mut self.hosts[index].out);
    }

    /// Asks whether the hosts are there, and loses those that have owed an answer for too long. Time in which the head itself
    /// did not read, because nobody takes its output, does not count.
    pub(super) fn ask_hosts(&mut self, now: Instant) {
        let reads = self.has_room();
        for index in 0..self.hosts.len() {
            let host = &mut self.hosts[index];
            if host.gone {
                continue;
            }
            let patience = if host.answered { SILENCE } else { PATIENCE_AT_START };
            if !reads {
                host.owes_since = None;
            }
            let since = *host.owes_since.get_or_insert(now);
            if now.saturating_duration_since(since) > patience {
                let why = format!("nothing was heard of it for {} s", patience.as_secs());
                self.lose(index, why);
            } else if host.out.len() < MOST_UNHEARD {
                self.ask_host(index);
            }
        }
    }

    /// All ranks of a host are in the fence; before it they put this.
    pub(super) fn enter(&mut self, index: usize, puts: &[u8]) {
        self.server.take_puts(puts);
        self.entrances.entered(index);
        for rank in self.hosts[index].ranks.clone() {
            self.hear(rank, b"cmd=barrier_in\n");
        }
    }

    /// A host answered: its clock, and that it has done what it was told before the question.
    pub(super) fn answered(&mut self, index: usize, content: &[u8]) {
        let Some(Answer { asked, clock, states }) = Answer::parse(content) else { return };
        let now = stall::now();
        let host = &mut self.hosts[index];
        for (&rank, state) in host.ranks.iter().zip(states) {
            self.outside[rank] = state;
        }
        if let Some(clock) = Clock::measure(asked, clock, now) {
            host.clock = Some(Clock::best(host.clock, clock, now));
        }
        host.obeyed = host.obeyed.max(asked);
        self.settle_losses();
    }

    /// A rank tells that it is blocked, or goes on.
    pub(super) fn stalled(&mut self, rank: usize, told: Stall) {
        let now = stall::now();
        let told = match &self.hosts[self.host_of[rank]].clock {
            Some(clock) => clock.translate(told, now),
            None => clocks::unproven(told, now),
        };
        self.watch.stalled(rank, told, Instant::now());
        // What the others do is shown beside it.
        for index in 0..self.hosts.len() {
            if !self.hosts[index].gone && now.saturating_sub(self.hosts[index].obeyed) > LOOKED_LATELY {
                self.ask_host(index);
            }
        }
    }

    /// Tells all ranks, through the memory of each host, that one is gone: whoever sleeps is woken.
    pub(super) fn tell_of_loss(&mut self, rank: usize) {
        for host in self.hosts.iter_mut().filter(|host| !host.gone) {
            frames::emit(Kind::Lost, rank as u32, &[], &mut host.out);
        }
        self.losses.push(Loss { rank, told: stall::now() });
        // The answers say that all were told.
        for index in 0..self.hosts.len() {
            if !self.hosts[index].gone {
                self.ask_host(index);
            }
        }
    }

    /// A rank asks others in vain over its fabric: those are asked, or it is certain that no way leads there.
    pub(super) fn in_vain(&mut self, rank: usize, others: &[usize], patience: Duration) {
        let running: Vec<usize> =
            others.iter().copied().filter(|&other| self.judge.is_running(other)).collect();
        for step in self.ways.in_vain(rank, &running, patience, Instant::now()) {
            match step {
                Step::Ask { rank, about } => {
                    self.tell(rank, Kind::Word, &frames::Word::Asks(about as u32).emit());
                }
                Step::Cut { one, other, time } => {
                    let hosts = [one, other].map(|rank| self.host_of[rank]);
                    if self.ways.is_to_be_told(hosts) {
                        let [first, second] = hosts.map(|host| self.hosts[host].name.as_str());
                        eprint!("{}", report::cut((one, first), (other, second), time));
                    }
                    for (rank, about) in [(one, other), (other, one)] {
                        self.tell(rank, Kind::Word, &frames::Word::Unreachable(about as u32).emit());
                    }
                }
            }
        }
    }

    /// A rank has ended MPI after a loss: those of other hosts hear of it, who may never have met it. On its own host its word
    /// lies in the memory that the ranks share.
    pub(super) fn parted(&mut self, rank: usize, farewell: Farewell) {
        let content = frames::Word::Farewell(farewell.to_word()).emit();
        let own = self.host_of[rank];
        let hosts = self.hosts.iter_mut().enumerate().filter(|(index, host)| *index != own && !host.gone);
        hosts.for_each(|(_, host)| frames::emit(Kind::Word, rank as u32, &content, &mut host.out));
    }

    /// Whether hosts are being told that a rank is gone.
    pub(super) fn is_being_told(&self, rank: usize) -> bool {
        self.losses.iter().any(|loss| loss.rank == rank)
    }

    /// The ranks of a host cannot be told that one is gone, and would wait for it for ever.
    pub(super) fn not_told(&mut self, index: usize, lost: usize, why: &str) {
        let host = &self.hosts[index].name;
        eprintln!("mpiexec: the ranks on {host} cannot be told that rank {lost} has died: {why}");
        let order = self.judge.cannot_tell(lost, Instant::now());
        self.obey(order);
    }

    /// A loss counts for the watchdog once the rank has ended and all hosts know of it: a rank that says later that it waits
    /// for the lost one has not looked again since.
    pub(super) fn settle_losses(&mut self) {
        let known = self.known_by_all();
        let judge = &self.judge;
        let settled: Vec<Loss> =
            self.losses.extract_if(.., |loss| loss.told <= known && !judge.is_running(loss.rank)).collect();
        for Loss { rank, .. } in settled {
            self.watch.gone(rank, stall::now(), Instant::now());
            self.watch.died(rank);
        }
    }

    /// Speaks up when there is something to say.
    pub(super) fn watch_ranks(&mut self, now: Instant) {
        match self.watch.tick(now, stall::now(), &|rank| self.outside[rank]) {
            None => {}
            Some(Word::Show { text, deadlock }) => {
                eprint!("{}", report::watched(&(text + &self.hosts_line())));
                if deadlock {
                    let host = &self.hosts[self.host_of[0]].name;
                    let pid = self.known[0].pid;
                    eprintln!(
                        "         the job goes on as it is: look into it (rank 0 is process {pid} on {host}) or end it"
                    );
                    eprintln!("         (mpiexec --watchdog-abort ends such jobs)");
                }
            }
            Some(Word::End(text)) => {
                let text = text + &self.hosts_line();
                let order = self.judge.condemn(Cause::Deadlock { text }, now);
                self.obey(order);
            }
        }
    }

    /// Who waits for what, for a job that is being ended; empty when nobody has told.
    pub(super) fn summary(&self) -> String {
        let text = self.watch.summary(stall::now(), &|rank| self.outside[rank]);
        if text.is_empty() { text } else { text + &self.hosts_line() }
    }

    /// Which ranks are where.
    fn hosts_line(&self) -> String {
        const LISTED: usize = 8;
        let listed: Vec<String> = self
            .hosts
            .iter()
            .take(LISTED)
            .map(|host| format!("{} has {}", host.name, crate::watch::list(&host.ranks)))
            .collect();
        let more = if self.hosts.len() > LISTED { ", ..." } else { "" };
        format!("hosts: {}{more}\n", listed.join(", "))
    }
}
