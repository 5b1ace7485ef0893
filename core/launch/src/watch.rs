//! The launcher's part of the watchdog: gathers what blocked ranks tell, and decides when to speak and what to say.
//!
//! Without being asked it speaks up when a deadlock is certain, and never otherwise. Asked for (`--watchdog SECONDS`) it also shows
//! from time to time who waits for what. Pure: times come in as arguments.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use weft_boot::stall::{Place, Ranks, Stall};

use crate::deadlock::{self, Deadlock, Known};

/// How long news of one rank waits for those of others, so that one message shows all.
const GATHER: Duration = Duration::from_millis(700);
/// States, strays and collectives listed: with the rest they stay on one screen.
const STATES: usize = 9;
const STRAYS: usize = 4;
const COLLECTIVES: usize = 3;
const CYCLE: usize = 8;

/// What the watch wants to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Show these lines.
    Show(String),
    /// A deadlock is certain, and the job is to be ended for it.
    End(String),
}

/// The watch of one job.
#[derive(Debug)]
pub struct Watch {
    ranks: Vec<Known>,
    /// Shows states regularly; otherwise deadlocks only.
    every: Option<Duration>,
    ends_job: bool,
    due: Option<Instant>,
    /// What was shown last, when, and when the same may be shown again.
    shown: String,
    shown_at: Option<Instant>,
    again: Duration,
    deadlock: Vec<usize>,
}

impl Watch {
    /// Of `size` ranks. `every`: shows states after so long. `ends_job`: a deadlock ends it.
    pub fn new(size: usize, every: Option<Duration>, ends_job: bool) -> Watch {
        Watch {
            ranks: vec![Known::Active; size],
            every,
            ends_job,
            due: None,
            shown: String::new(),
            shown_at: None,
            again: every.unwrap_or(Duration::from_secs(30)),
            deadlock: Vec::new(),
        }
    }

    /// A rank told that it is blocked, or, without calls, that it goes on.
    pub fn stalled(&mut self, rank: usize, stall: Stall, now: Instant) {
        self.ranks[rank] = if stall.calls.is_empty() { Known::Active } else { Known::Stalled(stall) };
        self.due.get_or_insert(now + GATHER);
    }

    /// A rank has ended MPI, or its process; `at` is [`weft_boot::stall::now`].
    pub fn gone(&mut self, rank: usize, at: u64, now: Instant) {
        if !matches!(self.ranks[rank], Known::Gone(_)) {
            self.ranks[rank] = Known::Gone(at);
            if self.anybody_stalled() {
                self.due.get_or_insert(now + GATHER);
            }
        }
    }

    /// A rank that had ended MPI uses it again.
    pub fn reopened(&mut self, rank: usize) {
        self.ranks[rank] = Known::Active;
    }

    /// When [`Watch::tick`] has to be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }

    fn anybody_stalled(&self) -> bool {
        self.ranks.iter().any(|known| matches!(known, Known::Stalled(_)))
    }

    /// Looks at what was told; has to be called when the deadline has passed. `clock` is [`weft_boot::stall::now`].
    pub fn tick(&mut self, now: Instant, clock: u64) -> Option<Word> {
        self.due.filter(|&due| due <= now)?;
        self.due = None;
        if !self.anybody_stalled() {
            return None;
        }
        let found = deadlock::find(&self.ranks);
        if found.is_some() && self.ends_job {
            return Some(Word::End(self.text(found.as_ref(), clock)));
        }
        let is_news = found.as_ref().is_some_and(|found| found.ranks != self.deadlock);
        let waited = self.shown_at.is_none_or(|at| now >= at + self.again);
        let states = self.states(0).join("\n");
        let wanted = match self.every {
            None => is_news && waited,
            Some(every) => {
                let changed = is_news || states != self.shown;
                waited || changed && self.shown_at.is_none_or(|at| now >= at + every)
            }
        };
        if !wanted {
            return None;
        }
        // The same again, or a little more of the same, waits twice as long: a job that hangs all night fills no disk.
        if self.shown_at.is_some() {
            self.again = self.again.saturating_mul(2);
        }
        self.shown_at = Some(now);
        self.shown = states;
        if let Some(found) = &found {
            self.deadlock.clone_from(&found.ranks);
        }
        Some(Word::Show(self.text(found.as_ref(), clock)))
    }

    /// Who waits for what, for a job that is being ended; empty when nobody has told.
    pub fn summary(&self, clock: u64) -> String {
        match self.anybody_stalled() {
            true => self.body(deadlock::find(&self.ranks).as_ref(), clock),
            false => String::new(),
        }
    }

    fn text(&self, found: Option<&Deadlock>, clock: u64) -> String {
        let mut text = String::new();
        match found {
            Some(found) => {
                let who = list(&found.ranks);
                let _ = match found.ranks.len() {
                    1 => writeln!(text, "deadlock: {who} waits for what can never come"),
                    _ => writeln!(text, "deadlock: {who} can never go on"),
                };
            }
            None => {
                let stalled = self.ranks.iter().enumerate();
                let stalled: Vec<usize> =
                    stalled.filter(|(_, known)| matches!(known, Known::Stalled(_))).map(|(rank, _)| rank).collect();
                let verb = if stalled.len() == 1 { "is" } else { "are" };
                let _ = writeln!(text, "{} {verb} blocked in MPI (this may be right: no deadlock is certain)", list(&stalled));
            }
        }
        text.push_str(&self.body(found, clock));
        text
    }

    fn body(&self, found: Option<&Deadlock>, clock: u64) -> String {
        let mut lines = self.states(clock);
        if let Some(found) = found {
            lines.extend(self.cycle(found));
        }
        lines.extend(self.collectives());
        lines.extend(self.strays(found));
        lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{line}");
            text
        })
    }

    /// Ranks in the same state share a line. `clock` 0 leaves the times out.
    fn states(&self, clock: u64) -> Vec<String> {
        #[derive(Default)]
        struct State {
            ranks: Vec<usize>,
            since: Option<(u64, u64)>,
            lines: Vec<String>,
        }
        let mut states: BTreeMap<String, State> = BTreeMap::new();
        for (rank, known) in self.ranks.iter().enumerate() {
            match known {
                Known::Stalled(stall) => {
                    for call in &stall.calls {
                        let place =
                            if call.place.is_empty() { String::new() } else { format!(", called at {}", call.place) };
                        let key = format!("{}{}{place}\n{}", call.call, call.what, call.lines.join("\n"));
                        let state = states.entry(key).or_default();
                        state.ranks.push(rank);
                        let (least, most) = state.since.unwrap_or((call.since, call.since));
                        state.since = Some((least.min(call.since), most.max(call.since)));
                        state.lines.clone_from(&call.lines);
                    }
                }
                Known::Active => {
                    let key = "not blocked: computing, or polling (MPI_Test, MPI_Iprobe)\n".to_owned();
                    states.entry(key).or_default().ranks.push(rank);
                }
                Known::Gone(_) => states.entry("has ended MPI\n".to_owned()).or_default().ranks.push(rank),
            }
        }
        let mut states: Vec<(String, State)> = states.into_iter().collect();
        states.sort_by_key(|(_, state)| (state.since.is_none(), state.ranks.first().copied()));
        let left = states.len().saturating_sub(STATES);
        let mut lines = Vec::new();
        for (key, mut state) in states.into_iter().take(STATES) {
            state.ranks.dedup();
            let what = key.lines().next().unwrap_or_default();
            let time = match state.since.filter(|_| clock > 0) {
                Some((oldest, youngest)) => format!(" for {}", seconds(clock, youngest, oldest)),
                None => String::new(),
            };
            lines.push(format!("{}: {what}{time}", list(&state.ranks)));
            // Details of the first states only: the rest is much of the same.
            if lines.len() < STATES {
                lines.extend(state.lines.iter().map(|line| format!("  pending: {line}")));
            }
        }
        if left > 0 {
            lines.push(format!("and {left} more states of other ranks"));
        }
        lines
    }

    fn cycle(&self, found: &Deadlock) -> Option<String> {
        let edges = found.chain.iter().take(CYCLE).map(|edge| {
            let Known::Stalled(stall) = &self.ranks[edge.waits] else { return String::new() };
            let call = &stall.calls[edge.call];
            let brief = if call.brief.is_empty() { String::new() } else { format!(" {}", call.brief) };
            format!("{} waits for {} ({}{brief})", edge.waits, edge.for_rank, call.call)
        });
        let edges: Vec<String> = edges.collect();
        let more = if found.chain.len() > CYCLE { ", ..." } else { "" };
        match (edges.is_empty(), found.ends_at_gone) {
            (true, _) => None,
            (false, true) => Some(format!("certain, because rank {}, which has ended MPI", edges.join(", "))),
            (false, false) => Some(format!("cycle: {}{more}", edges.join(", "))),
        }
    }

    fn collectives(&self) -> Vec<String> {
        let mut open: BTreeMap<Place, (BTreeMap<&str, Vec<usize>>, &Ranks)> = BTreeMap::new();
        for (rank, known) in self.ranks.iter().enumerate() {
            let Known::Stalled(stall) = known else { continue };
            for call in &stall.calls {
                if let Some((place, members)) = &call.collective {
                    let calls = &mut open.entry(*place).or_insert_with(|| (BTreeMap::new(), members)).0;
                    calls.entry(&call.call).or_default().push(rank);
                }
            }
        }
        let mut lines = Vec::new();
        for (place, (calls, members)) in open.into_iter().take(COLLECTIVES) {
            let members: Vec<u32> = members.iter().take(self.ranks.len()).collect();
            let (absent, unknown) = deadlock::absent(&self.ranks, place, &members);
            let name = calls.keys().next().copied().unwrap_or_default();
            if calls.len() > 1 {
                let each: Vec<String> = calls.iter().map(|(call, ranks)| format!("{call} on {}", list(ranks))).collect();
                lines.push(format!("different collective operations meet as one: {}", each.join(", ")));
            }
            if !absent.is_empty() {
                lines.push(format!("{name}: {} {} not entered it", list(&absent), have(absent.len())));
            }
            if absent.is_empty() && !unknown.is_empty() {
                lines.push(format!("{name}: {} may not have entered it (not blocked)", list(&unknown)));
            }
        }
        lines
    }

    fn strays(&self, found: Option<&Deadlock>) -> Vec<String> {
        let matters = |rank: &usize| found.is_none_or(|found| found.ranks.contains(rank));
        let mut lines = Vec::new();
        for (rank, known) in self.ranks.iter().enumerate().filter(|(rank, _)| matters(rank)) {
            if let Known::Stalled(stall) = known {
                lines.extend(stall.strays.iter().map(|stray| format!("rank {rank} has not received {stray}")));
            }
        }
        let left = lines.len().saturating_sub(STRAYS);
        lines.truncate(STRAYS);
        if left > 0 {
            lines.push(format!("and {left} more messages that nobody has asked for"));
        }
        lines
    }
}

fn have(count: usize) -> &'static str {
    if count == 1 { "has" } else { "have" }
}

/// `31 s`, or `31 to 45 s`.
fn seconds(clock: u64, youngest: u64, oldest: u64) -> String {
    let since = |then: u64| clock.saturating_sub(then) / 1_000_000_000;
    match (since(youngest), since(oldest)) {
        (least, most) if least == most => format!("{least} s"),
        (least, most) => format!("{least} to {most} s"),
    }
}

/// `rank 3`, `ranks 0-3,5`.
pub(crate) fn list(ranks: &[usize]) -> String {
    let set: Ranks = ranks.iter().map(|&rank| rank as u32).collect();
    match ranks.len() {
        1 => format!("rank {set}"),
        _ => format!("ranks {set}"),
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
