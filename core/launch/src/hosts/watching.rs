//! The head's part of the watchdog and of deaths: what ranks of several hosts tell, in one time, and when others know of a loss.

use std::time::Instant;

use weft_boot::stall::{self, Stall};

use super::clocks::{self, Clock};
use super::frames::{self, Kind};
use super::head::Head;
use crate::judge::Cause;
use crate::report;
use crate::watch::{Outside, Word};

/// A rank that died while the others go on, and when the hosts were told (nanoseconds of [`stall::now`]).
pub(super) struct Loss {
    rank: usize,
    told: u64,
}

/// Nothing is known of what ranks on other hosts do while they are not blocked in MPI.
fn outside(_rank: usize) -> Outside {
    Outside::Running
}

impl Head {
    /// Asks a host whether it is there, and what its clock says.
    pub(super) fn ask_host(&mut self, index: usize) {
        let asked = stall::now().to_le_bytes();
        frames::emit(Kind::Ping, 0, &asked, &mut self.hosts[index].out);
    }

    /// A host answered: its clock, and that it has done what it was told before the question.
    pub(super) fn answered(&mut self, index: usize, content: &[u8]) {
        let Some((asked, theirs)) = content.split_first_chunk::<8>() else { return };
        let Ok(theirs) = <[u8; 8]>::try_from(theirs) else { return };
        let (asked, now) = (u64::from_le_bytes(*asked), stall::now());
        let host = &mut self.hosts[index];
        if let Some(clock) = Clock::measure(asked, u64::from_le_bytes(theirs), now) {
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

    /// A loss counts for the watchdog once all hosts know of it: a rank that says later that it waits for the lost one has not looked
    /// again since.
    pub(super) fn settle_losses(&mut self) {
        let known = self.hosts.iter().filter(|host| !host.gone).map(|host| host.obeyed).min();
        let known = known.unwrap_or(u64::MAX);
        let settled: Vec<Loss> = self.losses.extract_if(.., |loss| loss.told <= known).collect();
        for Loss { rank, .. } in settled {
            if !self.judge.is_running(rank) {
                self.watch.gone(rank, stall::now(), Instant::now());
                self.watch.died(rank);
            }
        }
    }

    /// Speaks up when there is something to say.
    pub(super) fn watch_ranks(&mut self, now: Instant) {
        match self.watch.tick(now, stall::now(), &outside) {
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
        let text = self.watch.summary(stall::now(), &outside);
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
