//! The launcher's part of the watchdog: gathers what blocked ranks tell, and decides when to speak and what to say.
//!
//! Without being asked it speaks up when a deadlock is certain, and never otherwise. Asked for (`--watchdog SECONDS`) it also
//! shows from time to time who waits for what. Pure: times come in as arguments.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use weft_boot::stall::{Place, Ranks, Stall};

use crate::deadlock::{self, Deadlock, Known};

/// How long news of one rank waits for those of others, so that one message shows all.
const GATHER: Duration = Duration::from_millis(700);
/// States, strays and collectives listed: with the rest they stay on one screen.
const STATES: usize = 9;
const PENDING: usize = 8;
const STRAYS: usize = 4;
const COLLECTIVES: usize = 3;
const CYCLE: usize = 8;

/// What a rank that is not blocked in MPI does, as far as the system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// It runs, or nothing is known.
    Running,
    /// Its main thread sleeps or waits for something.
    Sleeping,
    /// A signal or a debugger stopped it.
    Stopped,
}

impl Outside {
    fn words(self) -> &'static str {
        match self {
            Outside::Running => "not blocked: computing, or polling (MPI_Test, MPI_Iprobe)",
            Outside::Sleeping => "not blocked in MPI: sleeps, or waits for a file, a lock or the like",
            Outside::Stopped => "stopped, by a signal or a debugger",
        }
    }
}

/// What the watch wants to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Show these lines; they tell of a deadlock or of ranks that are only blocked.
    Show {
        /// The lines.
        text: String,
        /// Whether they tell of a deadlock.
        deadlock: bool,
    },
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
    /// Ranks that died while the others went on.
    died: Vec<usize>,
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
            died: Vec::new(),
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

    /// A rank that is gone has died, and the others go on.
    pub fn died(&mut self, rank: usize) {
        self.died.push(rank);
    }

    /// What became of a rank that is gone.
    fn farewell(&self, rank: usize) -> &'static str {
        if self.died.contains(&rank) { "has died" } else { "has ended MPI" }
    }

    /// A rank that had ended MPI uses it again.
    pub fn reopened(&mut self, rank: usize) {
        self.ranks[rank] = Known::Active;
    }

    /// When [`Watch::tick`] has to be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Whether a rank is known to be blocked, so that it matters what the others do.
    pub fn anybody_stalled(&self) -> bool {
        self.ranks.iter().any(|known| matches!(known, Known::Stalled(_)))
    }

    /// Looks at what was told; has to be called when the deadline has passed. `clock` is [`weft_boot::stall::now`];
    /// `outside` tells of ranks that are not blocked.
    pub fn tick(&mut self, now: Instant, clock: u64, outside: &dyn Fn(usize) -> Outside) -> Option<Word> {
        self.due.filter(|&due| due <= now)?;
        self.due = None;
        if !self.anybody_stalled() {
            return None;
        }
        let found = deadlock::find(&self.ranks);
        if found.is_some() && self.ends_job {
            return Some(Word::End(self.text(found.as_ref(), clock, outside)));
        }
        let is_news = found.as_ref().is_some_and(|found| found.ranks != self.deadlock);
        let waited = self.shown_at.is_none_or(|at| now >= at + self.again);
        let states = self.states(0, &|_| Outside::Running).join("\n");
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
        Some(Word::Show { text: self.text(found.as_ref(), clock, outside), deadlock: found.is_some() })
    }

    /// Who waits for what, for a job that is being ended; empty when nobody has told.
    pub fn summary(&self, clock: u64, outside: &dyn Fn(usize) -> Outside) -> String {
        match self.anybody_stalled() {
            true => self.body(deadlock::find(&self.ranks).as_ref(), clock, outside),
            false => String::new(),
        }
    }

    fn text(&self, found: Option<&Deadlock>, clock: u64, outside: &dyn Fn(usize) -> Outside) -> String {
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
                let stalled: Vec<usize> = stalled
                    .filter(|(_, known)| matches!(known, Known::Stalled(_)))
                    .map(|(rank, _)| rank)
                    .collect();
                let verb = if stalled.len() == 1 { "is" } else { "are" };
                let _ = writeln!(
                    text,
                    "{} {verb} blocked in MPI (this may be right: no deadlock is certain)",
                    list(&stalled)
                );
            }
        }
        text.push_str(&self.body(found, clock, outside));
        text
    }

    fn body(&self, found: Option<&Deadlock>, clock: u64, outside: &dyn Fn(usize) -> Outside) -> String {
        let mut lines = self.states(clock, outside);
        lines.extend(self.uncertain());
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
    fn states(&self, clock: u64, outside: &dyn Fn(usize) -> Outside) -> Vec<String> {
        let mut states = self.grouped(outside, false);
        if states.len() > STATES {
            // A ring of a thousand ranks is a thousand calls that differ in one number.
            states = self.grouped(outside, true);
        }
        let left = states.len().saturating_sub(STATES);
        let mut room = PENDING;
        let mut lines = Vec::new();
        for state in states.into_iter().take(STATES) {
            let time = match state.since.filter(|_| clock > 0) {
                Some((oldest, youngest)) => format!(" for {}", seconds(clock, youngest, oldest)),
                None => String::new(),
            };
            lines.push(format!("{}: {}{}{time}", list(&state.ranks), state.what, state.place));
            let shown = state.lines.len().min(room);
            room -= shown;
            lines.extend(state.lines.iter().take(shown).map(|line| format!("  pending: {line}")));
        }
        if left > 0 {
            lines.push(format!("and {left} more states of other ranks"));
        }
        lines
    }

    /// The states, blocked ones first. `roughly`: calls at one place are one state whatever their arguments.
    fn grouped(&self, outside: &dyn Fn(usize) -> Outside, roughly: bool) -> Vec<State> {
        let mut states: BTreeMap<(String, String, Vec<String>), State> = BTreeMap::new();
        let mut add = |rank: usize, what: &str, place: &str, lines: &[String], since: Option<u64>| {
            let key = (what.to_owned(), place.to_owned(), lines.to_vec());
            let state = states.entry(key).or_insert_with(|| State {
                ranks: Vec::new(),
                what: what.to_owned(),
                place: place.to_owned(),
                lines: lines.to_vec(),
                since: None,
            });
            if state.ranks.last() != Some(&rank) {
                state.ranks.push(rank);
            }
            if let Some(since) = since {
                let (least, most) = state.since.unwrap_or((since, since));
                state.since = Some((least.min(since), most.max(since)));
            }
        };
        for (rank, known) in self.ranks.iter().enumerate() {
            match known {
                Known::Stalled(stall) => {
                    for call in &stall.calls {
                        let place = match call.place.is_empty() {
                            true => String::new(),
                            false => format!(", called at {}", call.place),
                        };
                        match roughly {
                            true => add(
                                rank,
                                &format!("{} (arguments differ)", call.call),
                                &place,
                                &[],
                                Some(call.since),
                            ),
                            false => {
                                let what = format!("{}{}", call.call, call.what);
                                add(rank, &what, &place, &call.lines, Some(call.since));
                            }
                        }
                    }
                }
                Known::Active => add(rank, outside(rank).words(), "", &[], None),
                Known::Gone(_) => add(rank, self.farewell(rank), "", &[], None),
            }
        }
        let mut states: Vec<State> = states.into_values().collect();
        states.sort_by_key(|state| (state.since.is_none(), state.ranks.first().copied()));
        states
    }

    /// Ranks that are blocked and may act all the same.
    fn uncertain(&self) -> Option<String> {
        let ranks = self.ranks.iter().enumerate();
        let others = ranks.filter(|(_, known)| matches!(known, Known::Stalled(stall) if stall.others));
        let others: Vec<usize> = others.map(|(rank, _)| rank).collect();
        let has = have(others.len());
        (!others.is_empty()).then(|| {
            format!("{} {has} other threads, or operations under way, that may go on", list(&others))
        })
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
            (false, true) => {
                let gone = found.chain.last().map_or("", |edge| self.farewell(edge.for_rank));
                Some(format!("certain, because rank {}, which {gone}", edges.join(", ")))
            }
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
                let each: Vec<String> =
                    calls.iter().map(|(call, ranks)| format!("{call} on {}", list(ranks))).collect();
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
                lines
                    .extend(stall.strays.iter().map(|stray| format!("rank {rank} has not received {stray}")));
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

/// Ranks in the same state.
struct State {
    ranks: Vec<usize>,
    what: String,
    place: String,
    lines: Vec<String>,
    /// Since when: the oldest and the youngest.
    since: Option<(u64, u64)>,
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
