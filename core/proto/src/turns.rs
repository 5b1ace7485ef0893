//! Which way messages of middle length take between two processes of a node that take turns: in packets, or read by the receiver.
//!
//! A message of 16 to 64 KiB may leave unasked, in packets that are copied in and out again. Where the receiver waits for it anyway, reading it
//! from the sender's memory saves one copy and costs a call of the kernel and an answer: on one processor that takes 0.6, on another 1.5
//! times as long. So a sender tries both. It decides alone, by what its receiver tells it of those that were timed: how long after their sender
//! had begun they were complete, by the clock of the node.
//!
//! Messages take turns when something came from the other process since the last one went to it. Of a row of messages to one process both ends
//! copy at the same time, and a sender that had to wait for each to be read would be slower: rows go in packets.
//!
//! Time is handed in, so all of this is pure.

/// How a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// In packets, both ends copy.
    Packets,
    /// The receiver reads it.
    Read,
}

/// How the next message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The way of its bytes.
    pub course: Course,
    /// Whether the receiver shall say how long it took.
    pub timed: bool,
}

/// Classes of length, each from one power of two times the shortest to the next; the last one is everything longer.
pub const CLASSES: usize = 5;
/// Messages in a row that go the same way in a trial. The first does not count: the caches hold what the other way left there.
const RUN: u32 = 4;
/// Messages of a trial: two runs of each way, by turns.
const TRIAL: u32 = 4 * RUN;
/// Messages in a row that find their receiver elsewhere before they go in packets for a while.
const LATE: u8 = 3;
/// Messages from the first trial to the second.
const FIRST_REST: u32 = 256;
/// The same at most. Each trial that finds the same is followed by four times as many.
const LONGEST_REST: u32 = 1 << 16;

/// What a sender knows of one length.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// What is found.
    found: Course,
    /// Messages to the next trial, or in it.
    left: u32,
    trying: bool,
    rest: u32,
    /// Nanoseconds of the fastest message either way in this trial.
    best: [u32; 2],
    /// Messages in a row for which their receiver did not wait.
    late: u8,
    /// The first of a run is not told yet.
    fresh: [bool; 2],
}

const NEW: Class = Class {
    found: Course::Packets,
    left: 0,
    trying: false,
    rest: FIRST_REST,
    best: [u32::MAX; 2],
    late: 0,
    fresh: [true; 2],
};

/// What a sender knows of the messages to one process.
#[derive(Debug)]
pub struct Turns {
    classes: [Class; CLASSES],
}

impl Turns {
    /// Nothing is known yet; `before`: messages of a class before its first trial, for few are not worth one.
    pub fn new(before: u32) -> Turns {
        Turns { classes: [Class { left: before, ..NEW }; CLASSES] }
    }
}

/// The class of a message of so many bytes, of which the shortest that can be read has `shortest`.
pub fn class_of(bytes: u64, shortest: u32) -> usize {
    let times = (bytes / u64::from(shortest.max(1))).max(1);
    (times.ilog2() as usize).min(CLASSES - 1)
}

impl Turns {
    /// Whether the next message of that class may go otherwise than in packets that nobody times. Changes nothing.
    #[inline]
    pub fn is_special(&self, class: usize) -> bool {
        let class = &self.classes[class];
        class.trying || class.left == 0 || class.found == Course::Read
    }

    /// A message of that class has gone in packets that nobody times.
    #[inline]
    pub fn count(&mut self, class: usize) {
        let class = &mut self.classes[class];
        class.left = class.left.saturating_sub(1);
    }

    /// How the next message of that class goes; it must go so, or [`Turns::put_back`] be called.
    pub fn next(&mut self, class: usize) -> Turn {
        let class = &mut self.classes[class];
        if class.left == 0 {
            if class.trying {
                class.judge();
            } else {
                (class.trying, class.left) = (true, TRIAL);
                (class.best, class.fresh) = ([u32::MAX; 2], [true; 2]);
            }
        }
        class.left -= 1;
        match class.trying {
            true => {
                let course = course_in_trial(class.left);
                if class.left % RUN == RUN - 1 {
                    class.fresh[course as usize] = true;
                }
                Turn { course, timed: true }
            }
            false => Turn { course: class.found, timed: false },
        }
    }

    /// The timed message of [`Turns::next`] could not go so.
    pub fn put_back(&mut self, class: usize) {
        self.classes[class].left += 1;
    }

    /// A timed message of that class was complete so many nanoseconds after its sender had begun.
    pub fn note(&mut self, class: usize, course: Course, took: u32) {
        let Some(class) = self.classes.get_mut(class) else { return };
        if !class.trying {
            return;
        }
        let (fresh, best) = (&mut class.fresh[course as usize], &mut class.best[course as usize]);
        if std::mem::replace(fresh, false) {
            return;
        }
        *best = took.min(*best);
    }

    /// A message that was to be read is taken; `late`: its receiver did not wait for it, or could not read it.
    pub fn was_taken(&mut self, class: usize, late: bool) {
        let Some(class) = self.classes.get_mut(class) else { return };
        class.late = if late { class.late + 1 } else { 0 };
        if class.late == LATE {
            class.late = 0;
            if class.found == Course::Read || class.trying {
                class.settle(Course::Packets);
            }
        }
    }
}

impl Class {
    /// Ends a trial.
    fn judge(&mut self) {
        let [packets, read] = self.best;
        // What is near stays as it is; of what was not told nothing is known.
        let found = match self.found {
            _ if packets == u32::MAX || read == u32::MAX => Course::Packets,
            Course::Packets if read < packets - packets / 16 => Course::Read,
            Course::Read if packets < read - read / 16 => Course::Packets,
            found => found,
        };
        if found != self.found {
            self.rest = FIRST_REST;
        }
        self.settle(found);
    }

    fn settle(&mut self, found: Course) {
        (self.found, self.left, self.trying) = (found, self.rest, false);
        self.rest = (4 * self.rest).min(LONGEST_REST);
    }
}

/// The way of a message in a trial after which `left` more come.
const fn course_in_trial(left: u32) -> Course {
    match left / RUN % 2 {
        0 => Course::Packets,
        _ => Course::Read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: u32 = 8;

    /// Sends up to the end of the next trial, in which messages take so long, and answers how many were sent before it.
    fn trial(turns: &mut Turns, packets: u32, read: u32) -> u32 {
        let mut before = 0;
        loop {
            let turn = match turns.is_special(1) {
                true => turns.next(1),
                false => {
                    turns.count(1);
                    Turn { course: Course::Packets, timed: false }
                }
            };
            if turn.timed {
                turns.note(1, turn.course, [packets, read][turn.course as usize]);
                break;
            }
            before += 1;
        }
        for _ in 1..TRIAL {
            let turn = turns.next(1);
            assert!(turn.timed);
            turns.note(1, turn.course, [packets, read][turn.course as usize]);
        }
        before
    }

    /// The way of the message behind a trial.
    fn found(turns: &mut Turns) -> Course {
        let turn = turns.next(1);
        assert!(!turn.timed);
        turn.course
    }

    #[test]
    fn the_faster_way_is_taken_and_tried_ever_more_seldom() {
        let mut turns = Turns::new(BEFORE);
        assert_eq!(trial(&mut turns, 1000, 700), BEFORE);
        assert_eq!(found(&mut turns), Course::Read);
        assert_eq!(trial(&mut turns, 1000, 700), FIRST_REST - 1);
        assert_eq!(found(&mut turns), Course::Read);
        assert_eq!(trial(&mut turns, 600, 700), 4 * FIRST_REST - 1);
        assert_eq!(found(&mut turns), Course::Packets);
        assert_eq!(trial(&mut turns, 600, 700), FIRST_REST - 1);
        assert!(!turns.is_special(0) && !turns.is_special(2), "other lengths are not concerned");
    }

    #[test]
    fn what_is_near_stays_as_it_is() {
        let mut turns = Turns::new(BEFORE);
        trial(&mut turns, 1000, 960);
        assert_eq!(found(&mut turns), Course::Packets);
        trial(&mut turns, 1000, 900);
        assert_eq!(found(&mut turns), Course::Read);
        trial(&mut turns, 960, 1000);
        assert_eq!(found(&mut turns), Course::Read);
    }

    #[test]
    fn the_first_of_a_run_does_not_count_and_what_nobody_tells_says_nothing() {
        let mut turns = Turns::new(BEFORE);
        (0..BEFORE).for_each(|_| turns.count(1));
        for left in (0..TRIAL).rev() {
            let turn = turns.next(1);
            // Reading is slower, but for the first of each run.
            let took = if left % RUN == RUN - 1 { 1 } else { [700, 1000][turn.course as usize] };
            turns.note(1, turn.course, took);
        }
        assert_eq!(found(&mut turns), Course::Packets);
        let mut turns = Turns::new(BEFORE);
        (0..BEFORE).for_each(|_| turns.count(1));
        (0..TRIAL).for_each(|_| _ = turns.next(1));
        assert_eq!(found(&mut turns), Course::Packets);
    }

    #[test]
    fn a_receiver_that_comes_late_ends_it_for_a_while() {
        let mut turns = Turns::new(BEFORE);
        trial(&mut turns, 1000, 700);
        assert_eq!(found(&mut turns), Course::Read);
        for late in [true, true, false, true, true] {
            turns.was_taken(1, late);
        }
        assert!(turns.is_special(1), "three in a row");
        turns.was_taken(1, true);
        assert!(!turns.is_special(1));
        assert_eq!(trial(&mut turns, 1000, 700), 4 * FIRST_REST);
        // Told again it says no more.
        (0..2 * LATE).for_each(|_| turns.was_taken(1, true));
        turns.was_taken(CLASSES, true);
        turns.note(CLASSES, Course::Read, 1);
        assert_eq!(trial(&mut turns, 1000, 700), 16 * FIRST_REST);
    }

    #[test]
    fn what_could_not_go_so_is_asked_again() {
        let mut turns = Turns::new(BEFORE);
        (0..BEFORE).for_each(|_| turns.count(1));
        let first = turns.next(1);
        turns.put_back(1);
        assert_eq!(turns.next(1), first);
        assert_eq!(
            [1, 16 << 10, 31 << 10, 32 << 10, 64 << 10, 1 << 40].map(|bytes| class_of(bytes, 16 << 10)),
            [0, 0, 0, 1, 2, 4]
        );
        assert_eq!(class_of(0, 0), 0);
    }
}
