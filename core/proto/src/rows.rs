//! Rows of messages of middle length that may leave unasked, inside a node: whether they are better announced.
//!
//! In packets both ends copy at the same time; what is announced may be read by its receiver in one copy, which is faster on some
//! processors. The receiver knows it once it has timed both ([`crate::Paces`]), and then says from which length on rows are worth announcing; but it
//! times only what is announced. So a sender announces some messages of a row now and then, more and more rarely, for lengths for which it was told
//! nothing: those that leave in several packets. (For messages that take turns see [`crate::turns`].)
//!
//! What the receiver compares with are streams that were announced, which may take twice as long as what leaves unasked: where both directions
//! are busy, or both cores share their caches, reading can be the faster of these two and the slowest of the three. So a sender that was told to announce
//! a row takes the time of some messages as they follow one another, both ways, and goes back to packets where these are faster ([`Rows::next_is_announced`]).

/// Classes of length: powers of two from 32 KiB on; the last one is 256 KiB and more.
const CLASSES: usize = 4;
/// Messages of a class in packets before the first trial: few are not worth one.
const FIRST: u32 = 96;
/// The same between the first two trials, and at most; each time four times as many.
const RESTS: (u32, u32) = (4096, 1 << 20);
/// Messages of a trial: what a receiver needs to time two runs of each way in windows of 64 messages.
const TRIAL: u32 = 768;

/// Messages of which a sender takes the time, and those of the same way before them that do not count.
const TIMED: u32 = 64;
/// Messages as they were told to go before a sender takes the time of both ways at first, and between the next two times, and at most; each time twice as
/// many.
const TOLD: u32 = 256;
const PAUSES: (u32, u32) = (2048, 1 << 16);
/// The other way is taken when its time is at most this part, twice in a row.
const CLEARLY: f32 = 0.95;
const TIMES: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    /// Messages that are left of the rest, or of the trial.
    left: u32,
    trying: bool,
    /// How long the next rest lasts.
    rest: u32,
}

/// What a sender has tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rows {
    classes: [Class; CLASSES],
    checks: [Check; CLASSES],
}

impl Default for Rows {
    fn default() -> Rows {
        let class = Class { left: FIRST, trying: false, rest: RESTS.0 };
        Rows { classes: [class; CLASSES], checks: [Check::default(); CLASSES] }
    }
}

/// What a check does with the messages that come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// They go the way that counts as the faster one.
    Rest,
    /// So they do, and are timed from the end of the step on.
    Warm,
    Time,
    /// They go the other way, and are timed in the next step.
    WarmOther,
    TimeOther,
}

/// Which way is faster for messages that follow one another, of one class of length, where the receiver says that it would read them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Check {
    step: Step,
    /// Messages that are left of the step.
    left: u32,
    /// Whether the way that counts as the faster one is to announce.
    announces: bool,
    /// How long the next rest lasts.
    rest: u32,
    /// How often in a row the other way was the faster one.
    won: u8,
    /// When the step began, the bytes since then, and what a byte took in the last one that was timed.
    began: u64,
    bytes: u64,
    cost: f32,
}

impl Default for Check {
    fn default() -> Check {
        let (step, left, announces, rest) = (Step::Rest, TOLD, true, PAUSES.0);
        Check { step, left, announces, rest, won: 0, began: 0, bytes: 0, cost: 0.0 }
    }
}

impl Check {
    /// The way of the next message. `now`: asked for a few times in hundreds of messages.
    #[inline]
    fn next(&mut self, bytes: u64, now: impl FnOnce() -> u64) -> bool {
        if self.left == 0 {
            self.turn(now());
        }
        self.left -= 1;
        self.bytes += bytes;
        self.goes_by_announcement()
    }

    fn goes_by_announcement(&self) -> bool {
        self.announces != matches!(self.step, Step::WarmOther | Step::TimeOther)
    }

    /// The next step.
    #[cold]
    fn turn(&mut self, now: u64) {
        let cost = now.saturating_sub(self.began) as f32 / self.bytes.max(1) as f32;
        (self.step, self.left) = match self.step {
            Step::Rest => (Step::Warm, TIMED),
            Step::Warm => (Step::Time, TIMED),
            Step::Time => {
                self.cost = cost;
                (Step::WarmOther, TIMED)
            }
            Step::WarmOther => (Step::TimeOther, TIMED),
            Step::TimeOther => self.judge(cost),
        };
        (self.began, self.bytes) = (now, 0);
    }

    fn judge(&mut self, others: f32) -> (Step, u32) {
        self.won = if others < self.cost * CLEARLY { self.won + 1 } else { 0 };
        match self.won {
            0 => {
                let rest = self.rest;
                self.rest = (2 * rest).min(PAUSES.1);
                (Step::Rest, rest)
            }
            TIMES.. => {
                (self.announces, self.rest, self.won) = (!self.announces, PAUSES.0, 0);
                (Step::Rest, PAUSES.0)
            }
            _ => (Step::Warm, TIMED),
        }
    }
}

fn class_of(bytes: u64) -> usize {
    ((bytes >> 15).max(1).ilog2() as usize).min(CLASSES - 1)
}

impl Rows {
    /// Whether the next message of a row, of so many bytes, is announced for a trial.
    pub fn next_is_tried(&mut self, bytes: u64) -> bool {
        let class = &mut self.classes[class_of(bytes)];
        if class.left == 0 {
            class.trying = !class.trying;
            class.left = if class.trying { TRIAL } else { class.rest };
            if !class.trying {
                class.rest = (4 * class.rest).min(RESTS.1);
            }
        }
        class.left -= 1;
        class.trying
    }

    /// Whether the next message of a row, of so many bytes, is announced, where the receiver says that this is worth it. `now`: nanoseconds of a clock that does
    /// not go back, asked for a few times in hundreds of messages.
    #[inline]
    pub fn next_is_announced(&mut self, bytes: u64, now: impl FnOnce() -> u64) -> bool {
        self.checks[class_of(bytes)].next(bytes, now)
    }

    /// The next message of a row, of so many bytes, goes the way that the other process takes for messages to this one: it finds out for both, as with [`crate::Paces`].
    #[inline]
    pub fn follow(&mut self, bytes: u64, announced: bool) {
        let rest = Check::default();
        self.checks[class_of(bytes)] = Check { announces: announced, ..rest };
    }

    /// What [`Rows::next_is_announced`] said last of such a length.
    pub fn announces(&self, bytes: u64) -> bool {
        self.checks[class_of(bytes)].goes_by_announcement()
    }

    /// The receiver has said something else than before: what was found does not count any more.
    pub fn told_anew(&mut self) {
        self.checks = [Check::default(); CLASSES];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_become_rare() {
        let mut rows = Rows::default();
        let tried: Vec<bool> = (0..200_000).map(|_| rows.next_is_tried(64 << 10)).collect();
        let count = |range: std::ops::Range<usize>| tried[range].iter().filter(|&&tried| tried).count();
        assert_eq!(count(0..96), 0);
        assert_eq!(count(96..96 + 768), 768);
        assert_eq!(count(96 + 768..96 + 768 + 4096), 0);
        assert_eq!(count(0..200_000), 4 * 768, "after 96, 4096, 16384 and 65536 more");
    }

    /// Messages of 64 KiB, of which one that is announced takes `announced` nanoseconds, another `packets`: how many of them are announced.
    fn announced(rows: &mut Rows, messages: u32, times: (u64, u64), clock: &mut u64) -> u32 {
        let mut count = 0;
        for _ in 0..messages {
            let is_announced = rows.next_is_announced(64 << 10, || *clock);
            assert_eq!(rows.announces(64 << 10), is_announced);
            count += u32::from(is_announced);
            *clock += if is_announced { times.0 } else { times.1 };
        }
        count
    }

    #[test]
    fn the_faster_way_is_found_and_the_other_one_tried_more_and_more_rarely() {
        let (mut rows, mut clock) = (Rows::default(), 1000);
        assert_eq!(
            announced(&mut rows, 256, (6000, 3000), &mut clock),
            256,
            "as the receiver says, at first"
        );
        announced(&mut rows, 600, (6000, 3000), &mut clock);
        assert_eq!(announced(&mut rows, 1000, (6000, 3000), &mut clock), 0, "packets are faster");
        let tries = announced(&mut rows, 500_000, (6000, 3000), &mut clock);
        assert!((512..3000).contains(&tries), "{tries}");
        // The cores are elsewhere now.
        announced(&mut rows, 70_000, (5000, 20_000), &mut clock);
        let sent = 100_000 - announced(&mut rows, 100_000, (5000, 20_000), &mut clock);
        assert!(sent < 1000, "{sent}");
    }

    #[test]
    fn what_is_no_better_changes_nothing() {
        let (mut rows, mut clock) = (Rows::default(), 0);
        let sent = 20_000 - announced(&mut rows, 20_000, (5000, 4900), &mut clock);
        assert!((128..1000).contains(&sent), "{sent}");
        // Other lengths were not counted.
        assert!(rows.next_is_announced(128 << 10, || panic!("too early")));
        rows.told_anew();
        assert_eq!(rows, Rows::default());
        rows.follow(64 << 10, false);
        assert!(!rows.announces(64 << 10) && rows.announces(128 << 10));
        // Nobody is followed any more: after a while both ways are timed again.
        assert!((0..256).all(|_| !rows.next_is_announced(64 << 10, || panic!("too early"))));
        assert!((0..300).any(|_| rows.next_is_announced(64 << 10, || 0)));
    }

    #[test]
    fn lengths_are_apart() {
        let mut rows = Rows::default();
        (0..90).for_each(|_| assert!(!rows.next_is_tried((64 << 10) - 1)));
        (0..96).for_each(|_| assert!(!rows.next_is_tried(64 << 10)));
        assert!(rows.next_is_tried(100 << 10));
        assert!(!rows.next_is_tried(40 << 10));
        assert!(!rows.next_is_tried(1 << 40));
    }
}
