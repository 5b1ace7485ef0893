//! Which way long messages take between two processes of a node, found by measuring.
//!
//! Reading the sender's memory copies once, by one core; a stream copies twice, by two cores at a time. Which is faster depends on the
//! processor (what lines cost that come from another core), on the length, and on whether messages come one by one or in
//! bursts, where both cores are busy anyway: on one processor a stream of 256 KiB takes 0.6, on another 1.5 times as long as reading.
//! So the receiver takes the time of what it moves, begins with what the model says ([`crate::plan_receive`]), tries the other way
//! a few times, stays with the faster, and looks again more and more rarely.
//!
//! What is timed is a *burst*: messages of one size and one way, each of which begins while another one is under way or soon after
//! it has ended ([`GAP`]). Bursts of several messages and messages alone are kept apart: which
//! comes next is guessed by what came last, and what a burst took counts where its way was chosen, whatever it turned out to be. (Otherwise
//! windows that look like single messages when they are read, and like bursts when they stream, would never time either way where it is chosen.)
//! Two processes that receive from each other at the same time share caches and the way between their cores: what one reads disturbs what the
//! other streams, so that a stream looks slow while the other one reads, though two streams are faster than two reads. Therefore one of them finds out for both and the
//! other one follows (`others` of [`Paces::begin`]): what is timed is both directions in one way.
//!
//! Time is handed in, so all of this is pure.

use crate::choice::ReceivePlan;

/// Length of the shortest message that is looked at, as a power of two: what comes in one packet is never asked for.
const SHORTEST: u32 = 14;
/// Classes of length: powers of two from 16 KiB on; the last one is 4 MiB and more.
const CLASSES: usize = 9;
/// Nanoseconds after the end of a message in which the next one belongs to the same burst: a part of what a message took, since what lies
/// between two that are read one after the other takes longer where everything does, but at least and at most so many.
const GAP_PART: u64 = 4;
const GAP: (u64, u64) = (1500, 4000);
/// Messages alone, one after the other, after which more such are expected.
const ALONE: u8 = 2;
/// The class from which on messages are long ones: 2 MiB. A window of these takes milliseconds, and the slower way may take twice as long, so fewer
/// are tried.
const LONG: usize = 7;
/// Messages after which a burst is judged that has not ended, of short ones and of long ones.
const MOST: (u32, u32) = (16, 4);
/// Bursts in a run.
const RUN: (u8, u8) = (4, 2);
/// Runs of each way that are timed before the slower one is left alone.
const FIRST: u16 = 2;
/// Messages between two runs that try the slower way, for each that such a run has: at first, and in the end.
const PAUSES: (u32, u32) = (4, 512);
/// The other way is taken when its time is at most this part.
const CLEARLY: f32 = 0.95;
/// Shorter messages are never announced for being read, in bytes.
const SHORTEST_ANNOUNCED: f32 = 32768.0;
/// What a message that is announced and read costs beside its bytes, in nanoseconds, where messages follow one another.
const ANNOUNCED: f32 = 400.0;

/// What one way has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Estimate {
    /// Nanoseconds a byte.
    cost: f32,
    runs: u16,
}

impl Estimate {
    /// Takes a run in. What disturbs makes it longer, nothing shorter, so a shorter one weighs more.
    fn take(&mut self, cost: f32) {
        self.cost = match self.runs {
            0 => cost,
            1..FIRST => self.cost.min(cost),
            _ if cost < self.cost => (self.cost + cost) / 2.0,
            _ => self.cost + (cost - self.cost).min(self.cost) / 8.0,
        };
        self.runs = self.runs.saturating_add(1);
    }
}

/// Bursts in a row that take one way. What lies in which cache is the work of those before, so a single one between many of the other
/// way takes longer than it would among its own: the first of a run does not count, and of the others the shortest.
#[derive(Clone, Copy, Debug)]
struct Run {
    plan: ReceivePlan,
    begun: u8,
    timed: u8,
    least: f32,
    messages: u32,
}

/// Both ways of one class of length, one by one or in bursts.
#[derive(Clone, Copy, Debug, Default)]
struct Contest {
    read: Estimate,
    stream: Estimate,
    /// Whether reading is the faster one, once that is known.
    reads: Option<bool>,
    run: Option<Run>,
    /// Messages since the slower way was tried, how many those were, and after how many times that it is tried again. (A run that streams
    /// may be of many windows, one that reads of a few messages.)
    since: u32,
    tried: u32,
    pause: u32,
}

impl Contest {
    const fn of(&mut self, plan: ReceivePlan) -> &mut Estimate {
        match plan {
            ReceivePlan::SingleCopy => &mut self.read,
            ReceivePlan::Stream => &mut self.stream,
        }
    }

    /// The faster way, as far as is known.
    fn favourite(&self, prior: ReceivePlan) -> ReceivePlan {
        match self.reads {
            Some(true) => ReceivePlan::SingleCopy,
            Some(false) => ReceivePlan::Stream,
            None => prior,
        }
    }

    /// The way of the next burst; `bursts`: those of a run.
    fn decide(&mut self, prior: ReceivePlan, bursts: u8) -> ReceivePlan {
        if let Some(run) = &mut self.run
            && run.begun < bursts
        {
            run.begun += 1;
            return run.plan;
        }
        if let Some(run) = self.run.take() {
            match run.plan == self.favourite(prior) {
                true => self.since = self.since.saturating_add(run.messages),
                false => self.tried = run.messages,
            }
            if run.least < f32::INFINITY {
                self.take(run.plan, run.least, prior);
            }
        }
        let plan = self.next(prior);
        self.run = Some(Run { plan, begun: 1, timed: 0, least: f32::INFINITY, messages: 0 });
        plan
    }

    /// A message of the run has begun.
    fn count(&mut self) {
        if let Some(run) = &mut self.run {
            run.messages = run.messages.saturating_add(1);
        }
    }

    /// The way of the next run.
    fn next(&mut self, prior: ReceivePlan) -> ReceivePlan {
        let favourite = self.favourite(prior);
        let other = opposite(favourite);
        // By turns at first, when memory was never touched, which makes either slow.
        let (tried, others) = (self.of(favourite).runs, self.of(other).runs);
        if tried < FIRST || others < FIRST {
            return if tried <= others { favourite } else { other };
        }
        if self.since <= self.pause.saturating_mul(self.tried) {
            return favourite;
        }
        self.since = 0;
        self.pause = (self.pause * 2).clamp(PAUSES.0, PAUSES.1);
        other
    }

    /// A burst has taken so long.
    fn note(&mut self, plan: ReceivePlan, cost: f32) {
        if let Some(run) = &mut self.run
            && run.plan == plan
        {
            run.timed += 1;
            if run.timed > 1 {
                run.least = run.least.min(cost);
            }
        }
    }

    fn take(&mut self, plan: ReceivePlan, cost: f32, prior: ReceivePlan) {
        self.of(plan).take(cost);
        if self.read.runs == 0 || self.stream.runs == 0 {
            return;
        }
        let favourite = self.favourite(prior);
        let (mine, others) = (self.of(favourite).cost, self.of(opposite(favourite)).cost);
        let changes = others < mine * CLEARLY;
        let best = if changes { opposite(favourite) } else { favourite };
        if changes {
            self.pause = PAUSES.0;
        }
        self.reads = Some(best == ReceivePlan::SingleCopy);
    }
}

const fn opposite(plan: ReceivePlan) -> ReceivePlan {
    match plan {
        ReceivePlan::SingleCopy => ReceivePlan::Stream,
        ReceivePlan::Stream => ReceivePlan::SingleCopy,
    }
}

/// Messages that follow one another.
#[derive(Clone, Copy, Debug)]
struct Burst {
    plan: ReceivePlan,
    class: usize,
    /// The contest in which its way was chosen: one by one, in bursts.
    kind: usize,
    /// When it began; not before the last message of the other way has ended.
    began: Option<u64>,
    ended: u64,
    bytes: u64,
    messages: u32,
    /// All of one class and one way.
    clean: bool,
    /// A message began while another was under way.
    joined: bool,
}

/// What is known of both ways by which messages of one process come. Bytes, and nanoseconds of any clock that does not go back.
#[derive(Debug, Default)]
pub struct Paces {
    /// By class of length: one by one, in bursts.
    contests: [[Contest; 2]; CLASSES],
    /// Messages that are being read, and that stream.
    under_way: [u32; 2],
    burst: Option<Burst>,
    /// Whether messages are expected to come in bursts, and how many came alone since one did.
    in_bursts: bool,
    alone: u8,
}

impl Burst {
    /// Whether a message that begins at `now`, when none is under way, belongs to others.
    fn is_over(&self, now: u64) -> bool {
        if self.messages == 0 {
            return false;
        }
        let each = self.began.map_or(0, |began| (self.ended - began) / u64::from(self.messages));
        now.saturating_sub(self.ended) > (each / GAP_PART).clamp(GAP.0, GAP.1)
    }
}

fn class_of(bytes: u64) -> usize {
    (bytes.max(1).ilog2().saturating_sub(SHORTEST) as usize).min(CLASSES - 1)
}

impl Paces {
    /// A message of which `bytes` are wanted begins at `now`: the way it takes. `prior`: what the model says. `others`: the way in which
    /// the process that it is from receives messages of this one, where it finds out for both. [`Paces::end`] must follow.
    pub fn begin(
        &mut self,
        bytes: u64,
        prior: ReceivePlan,
        others: Option<ReceivePlan>,
        now: u64,
    ) -> ReceivePlan {
        let class = class_of(bytes);
        let under_way = self.under_way[0] + self.under_way[1];
        if under_way == 0 && self.burst.is_some_and(|burst| burst.is_over(now)) {
            self.judge();
        }
        let plan = match &mut self.burst {
            Some(burst) if burst.class == class => {
                burst.joined |= under_way > 0;
                burst.plan
            }
            Some(burst) => {
                let plan = self.contests[class][usize::from(self.in_bursts)].favourite(prior);
                burst.clean = false;
                plan
            }
            None => {
                let kind = usize::from(self.in_bursts);
                let bursts = if class < LONG { RUN.0 } else { RUN.1 };
                let plan = others.unwrap_or_else(|| self.contests[class][kind].decide(prior, bursts));
                let began = (self.under_way[opposite(plan) as usize] == 0).then_some(now);
                let (joined, clean) = (under_way > 0, true);
                let (ended, bytes, messages) = (now, 0, 0);
                self.burst = Some(Burst { plan, class, kind, began, ended, bytes, messages, clean, joined });
                plan
            }
        };
        if let Some(burst) = &self.burst
            && burst.class == class
        {
            self.contests[class][burst.kind].count();
        }
        self.under_way[plan as usize] += 1;
        plan
    }

    /// A message that began with `plan` has ended at `now`, all its `bytes` are here.
    pub fn end(&mut self, plan: ReceivePlan, bytes: u64, now: u64) {
        self.leave(plan);
        let Some(burst) = &mut self.burst else { return };
        burst.ended = now;
        if burst.began.is_none() {
            burst.began = (self.under_way[opposite(burst.plan) as usize] == 0).then_some(now);
            return;
        }
        burst.bytes += bytes;
        burst.messages += 1;
        burst.clean &= plan == burst.plan;
        let most = if burst.class < LONG { MOST.0 } else { MOST.1 };
        if burst.messages == most {
            self.judge();
        }
    }

    /// A message that began with `plan` has failed or goes on in another way: the burst says nothing.
    pub fn give_up(&mut self, plan: ReceivePlan) {
        self.leave(plan);
        self.burst = None;
    }

    /// The shortest message, in bytes, that is worth announcing, so that it is read, where it could be sent
    /// without being asked for; 0: none.
    pub fn announced_from(&self) -> u32 {
        // Of those that rows are tried with ([`crate::rows`]), then of messages that are announced in any case, by default: of shorter ones
        // a stream costs more than what leaves unasked.
        let (short, long) = self.contests.split_at(class_of(64 << 10));
        let mut known = long.iter().chain(short.iter().rev()).map(|[_, bursts]| bursts);
        let Some(contest) = known.find(|contest| contest.reads.is_some()) else { return 0 };
        let gain = contest.stream.cost - contest.read.cost;
        if contest.reads == Some(false) || gain <= 0.0 {
            return 0;
        }
        (ANNOUNCED / gain).clamp(SHORTEST_ANNOUNCED, 1e9) as u32
    }

    fn leave(&mut self, plan: ReceivePlan) {
        let under_way = &mut self.under_way[plan as usize];
        *under_way = under_way.saturating_sub(1);
    }

    /// Ends the burst and takes in what it says.
    fn judge(&mut self) {
        let Some(burst) = self.burst.take() else { return };
        let Some(began) = burst.began else { return };
        self.alone = if burst.messages > 1 || burst.joined { 0 } else { self.alone.saturating_add(1) };
        self.in_bursts = self.alone == 0 || self.in_bursts && self.alone < ALONE;
        if burst.clean && burst.bytes > 0 {
            let cost = (burst.ended - began) as f32 / burst.bytes as f32;
            self.contests[burst.class][burst.kind].note(burst.plan, cost);
        }
    }
}

#[cfg(test)]
#[path = "paces_tests.rs"]
mod tests;
