//! Deaths and aborts are judged when all hosts have said what their ranks had told by then.
//!
//! Whether a job goes on without a rank depends on words of ranks on other hosts (`weft_survives`, `weft_done`), and what made
//! a rank abort may be a death elsewhere. So whoever's verdict depends on others waits in a queue, all agents are asked (they
//! listen to their ranks before they answer), and the answers let it be judged. What was said before a death, as the program
//! sees it, is heard before it.

use std::time::{Duration, Instant};

use weft_boot::pmi::wire1;
use weft_boot::stall;

use super::head::Head;
use crate::judge::{Cause, End, Partial};

/// An abort waits for the answers of hosts for so long at most: its cause is clear without them.
const ABORT_WAITS: Duration = Duration::from_secs(2);

/// Twice the turn of exits, so that aborts find room before them.
const AFTER_ABORTS: u8 = 4;

/// What is to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Matter {
    /// The process of a rank has ended.
    End { rank: usize, end: End },
    /// A rank asks for the end of the job or, where `ranks` are named, of these.
    Abort { rank: usize, code: i32, message: Option<String>, ranks: Vec<usize> },
}

/// Matters that wait for words of other hosts. Pure.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Each with the time (of [`stall::now`]) at which hosts were asked because of it, once they were.
    matters: Vec<(Matter, Option<u64>)>,
    /// When aborts are judged whoever has answered.
    overdue: Option<Instant>,
}

impl Queue {
    /// A matter comes in.
    fn push(&mut self, matter: Matter, now: Instant) {
        if matches!(matter, Matter::Abort { .. }) {
            self.overdue.get_or_insert(now + ABORT_WAITS);
        }
        self.matters.push((matter, None));
    }

    /// Whether hosts have to be asked; they are from `at` on. One question is under way at a time, so that a thousand ends cost
    /// no thousand questions to each host.
    fn ask(&mut self, at: u64) -> bool {
        if self.matters.iter().any(|(_, asked)| asked.is_some()) {
            return false;
        }
        let mut fresh = false;
        for asked in self.matters.iter_mut().map(|(_, asked)| asked).filter(|asked| asked.is_none()) {
            (*asked, fresh) = (Some(at), true);
        }
        fresh
    }

    /// When something has to happen without an answer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.overdue
    }

    /// What can be judged when all hosts have answered what was asked until `known`, in the order in which it is judged: ends
    /// by their `turn` ([`crate::judge::Judge::turn`]), and aborts, which deaths cause and after which processes exit, before
    /// exits.
    fn take(&mut self, known: u64, now: Instant, turn: impl Fn(usize, End) -> u8) -> Vec<Matter> {
        let late = self.overdue.is_some_and(|at| at <= now);
        let ready = |matter: &Matter, asked: Option<u64>| {
            late && matches!(matter, Matter::Abort { .. }) || asked.is_some_and(|asked| asked <= known)
        };
        let mut ready: Vec<Matter> = self
            .matters
            .extract_if(.., |(matter, asked)| ready(matter, *asked))
            .map(|(matter, _)| matter)
            .collect();
        if !self.matters.iter().any(|(matter, _)| matches!(matter, Matter::Abort { .. })) {
            self.overdue = None;
        }
        let aborting: Vec<usize> = ready
            .iter()
            .filter_map(|matter| match matter {
                Matter::Abort { rank, .. } => Some(*rank),
                Matter::End { .. } => None,
            })
            .collect();
        ready.sort_by_key(|matter| match matter {
            Matter::End { rank, .. } if aborting.contains(rank) => AFTER_ABORTS,
            Matter::End { rank, end } => 2 * turn(*rank, *end),
            Matter::Abort { .. } => AFTER_ABORTS - 1,
        });
        ready
    }
}

impl Head {
    /// Judges `matter` as soon as all hosts have said what they know.
    pub(super) fn bring(&mut self, matter: Matter) {
        self.queue.push(matter, Instant::now());
    }

    /// Asks the hosts because of what came in, and judges what they have answered.
    pub(super) fn judge_matters(&mut self) {
        let (known, judge) = (self.known_by_all(), &self.judge);
        for matter in self.queue.take(known, Instant::now(), |rank, end| judge.turn(rank, end)) {
            match matter {
                Matter::End { rank, end } => self.judge_end(rank, end),
                Matter::Abort { rank, code, message, ranks } => self.judge_abort(rank, code, message, ranks),
            }
        }
        let at = stall::now();
        if self.queue.ask(at) {
            for index in 0..self.hosts.len() {
                if !self.hosts[index].gone {
                    self.ask_host(index);
                }
            }
        }
    }

    /// What hosts were asked until this time (of [`stall::now`]) all of them have answered.
    pub(super) fn known_by_all(&self) -> u64 {
        let hosts = self.hosts.iter().filter(|host| !host.gone);
        hosts.map(|host| host.obeyed).min().unwrap_or(u64::MAX)
    }

    /// The process of a rank has ended.
    pub(super) fn judge_end(&mut self, rank: usize, end: End) {
        if !self.judge.is_running(rank) {
            return;
        }
        let now = Instant::now();
        self.ways.gone(rank);
        let order = self.judge.ended(rank, end, now);
        let others_are_told = matches!(order, Some(crate::judge::Order::Tell(_))) || self.is_being_told(rank);
        if !others_are_told {
            self.watch.gone(rank, stall::now(), now);
        }
        self.obey(order);
        self.settle_losses();
        self.check_barrier();
    }

    fn judge_abort(&mut self, rank: usize, code: i32, message: Option<String>, ranks: Vec<usize>) {
        let now = Instant::now();
        self.aborting = Some(rank);
        let asked_for_some = !ranks.is_empty();
        let partial = Partial { rank, code, message: message.clone(), ranks };
        let some = self.judge.abort_some(partial, now);
        if some.is_some() {
            let doomed: Vec<usize> = self.judge.doomed().collect();
            doomed.into_iter().for_each(|rank| self.tell_of_loss(rank));
        }
        if asked_for_some {
            let scope = if some.is_some() { "some" } else { "all" };
            let answer = wire1::Command::new("weft_aborted").with("scope", scope).emit();
            self.tell(rank, super::frames::Kind::Channel, answer.as_bytes());
        }
        let order = some.or_else(|| self.judge.condemn(Cause::Aborted { rank, code, message }, now));
        self.obey(order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judge;

    const KILLED: End = End::Signal { signal: 9, core: false };

    /// Of ranks that have begun MPI.
    fn inside(_: usize, end: End) -> u8 {
        if matches!(end, End::Signal { .. }) { 1 } else { 2 }
    }

    fn abort(rank: usize) -> Matter {
        Matter::Abort { rank, code: 1, message: None, ranks: Vec::new() }
    }

    #[test]
    fn nothing_is_judged_before_all_hosts_have_answered() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let (first, second) = (Matter::End { rank: 1, end: KILLED }, Matter::End { rank: 2, end: KILLED });
        queue.push(first.clone(), now);
        assert_eq!(queue.take(u64::MAX, now, inside), [], "nobody was asked");
        assert!(queue.ask(100) && !queue.ask(150), "asked once");
        queue.push(second.clone(), now);
        assert!(!queue.ask(160), "one question at a time");
        assert_eq!(queue.take(99, now, inside), []);
        assert_eq!(queue.take(100, now, inside), [first]);
        assert!(queue.ask(200));
        assert_eq!(
            queue.take(199, now + ABORT_WAITS, inside),
            [],
            "a death waits for whoever does not answer"
        );
        assert_eq!(queue.take(200, now, inside), [second]);
        assert_eq!(queue.deadline(), None);
    }

    #[test]
    fn deaths_are_judged_before_the_aborts_that_they_cause_and_exits_after_them() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let exit = Matter::End { rank: 0, end: End::Exit(3) };
        let death = Matter::End { rank: 5, end: KILLED };
        let own = Matter::End { rank: 4, end: KILLED };
        for matter in [exit.clone(), own.clone(), abort(4), death.clone()] {
            queue.push(matter, now);
        }
        queue.ask(1);
        assert_eq!(queue.take(1, now, inside), [death, abort(4), exit, own], "rank 4 died of its own abort");
    }

    #[test]
    fn who_left_without_mpi_is_gone_before_a_death_of_the_same_batch_is_judged() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let mut judge = Judge::new(4);
        [0, 1, 2].into_iter().for_each(|rank| judge.started(rank));
        [0, 1].into_iter().for_each(|rank| judge.survives(rank));
        let death = Matter::End { rank: 2, end: KILLED };
        let farewell = Matter::End { rank: 3, end: End::Exit(0) };
        queue.push(death.clone(), now);
        queue.push(farewell.clone(), now);
        queue.ask(1);
        let taken = queue.take(1, now, |rank, end| judge.turn(rank, end));
        assert_eq!(taken, [farewell, death]);
        for matter in taken {
            if let Matter::End { rank, end } = matter {
                let order = judge.ended(rank, end, now);
                assert_eq!(order, (rank == 2).then_some(crate::judge::Order::Tell(2)), "rank {rank}");
            }
        }
    }

    #[test]
    fn an_abort_waits_for_a_while_only() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(abort(0), now);
        queue.ask(7);
        assert_eq!(queue.take(6, now, inside), []);
        assert_eq!(queue.deadline(), Some(now + ABORT_WAITS));
        let death = Matter::End { rank: 3, end: KILLED };
        queue.push(death.clone(), now);
        assert_eq!(queue.take(6, now + ABORT_WAITS, inside), [abort(0)], "a death waits on");
        assert_eq!(queue.deadline(), None);
        queue.ask(8);
        assert_eq!(queue.take(8, now + ABORT_WAITS, inside), [death]);
    }
}
