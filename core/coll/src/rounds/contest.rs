//! Which way long blocking calls go inside a node: through the cells, or by reading the others' memory (`super::long`).
//!
//! Which is faster depends on the processor, the length, how many members there are and where they run, so it is tried. All
//! members must go the same way, so everything here follows from what all of them know: the calls of the communicator, and
//! the times that they have told one another.
//!
//! Where each has a core of its own, all tell how long each call of a trial took from a moment when all were there. Where they share cores
//! that would be a call of another kind: words are changes of processes, and between calls without words one member writes while another
//! one still reads (64 KiB of four through the payloads: 103 us with words, 37 without). So there each takes the time of its calls as they
//! are, and tells once, with the last word of the trial.

use super::Shape;

/// How the bytes of a call go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Through payloads in the cells.
    Payloads,
    /// Each member reads the others' memory.
    Reading,
}

/// How one call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The way of its bytes.
    pub course: Course,
    /// Whether it is of a trial.
    pub timed: bool,
    /// Whether it is the last of one.
    pub last: bool,
}

/// Calls in a row that go the same way in a trial. The first does not count: the caches hold what the other way left there.
const RUN: u32 = 5;
/// Calls of a trial: two runs of each way, by turns.
const TRIAL: u32 = 4 * RUN;
/// Bytes of the vectors or blocks of calls through the payloads before the first trial: they come to memory that nobody has touched yet, until
/// all have been round their rings, and the first time round after that the lines lie far off (128 KiB of two to a root: 100 us the first time
/// round, 28 the second, 19 from then on; 23 by reading).
const WARMING: u64 = 12 << 20;
/// The same before a later trial, where calls went by reading meanwhile.
const WARMING_AGAIN: u64 = 4 << 20;
/// Calls that these are at least and at most.
const WARMING_CALLS: (u64, u64) = (16, 256);
/// Calls from the first trial to the second.
const FIRST_REST: u32 = 512;
/// The same at most. Each trial that finds the same is followed by four times as many.
const LONGEST_REST: u32 = 1 << 16;

/// Words of all to all that a call by reading needs beside what is timed: where to read, and that all has been read.
const WORDS_OF_READERS: u64 = 2;

/// Blocks from which on their copies take longer than the words that readers need.
const BLOCKS_FROM: u64 = 32 << 10;
/// The same of blocks for each of more than two that have cores of their own: there are more copies to a word.
const BLOCKS_OF_MANY_FROM: u64 = 16 << 10;
/// The same of vectors that are reduced: their parts are shorter, and they need words once more.
const VECTORS_FROM: u64 = 64 << 10;
/// The same of two members, who need words only to begin and to end: where one, and where both need the result. Below, the short forms are
/// sooner there, which contested calls do without.
const VECTORS_OF_TWO_FROM: (u64, u64) = (16 << 10, 128 << 10);
/// Longest vector of two that is contested: in place a member keeps all of its result aside until the end.
const VECTORS_OF_TWO_TO: u64 = 8 << 20;

/// Whether a call may go either way. `crowded`: members share cores, where a wait is a change of processes; there the
/// payloads of others are ready at once, but for alltoall, where they would be copied twice. The same at all members.
pub fn is_contested(shape: Shape, members: u32, bytes: u64, in_place: bool, crowded: bool) -> bool {
    match shape {
        // In place the others would read what has been overwritten.
        Shape::Alltoall if members > 2 && !crowded => !in_place && bytes >= BLOCKS_OF_MANY_FROM,
        Shape::Alltoall => !in_place && bytes >= BLOCKS_FROM,
        Shape::Allgather => !crowded && bytes >= BLOCKS_FROM,
        // Of two members each combines all that it needs by itself.
        Shape::Reduce { .. } if members == 2 => {
            !crowded && (VECTORS_OF_TWO_FROM.0..=VECTORS_OF_TWO_TO).contains(&bytes)
        }
        Shape::Allreduce if members == 2 => {
            !crowded && (VECTORS_OF_TWO_FROM.1..=VECTORS_OF_TWO_TO).contains(&bytes)
        }
        Shape::Reduce { .. } | Shape::Allreduce => !crowded && bytes >= VECTORS_FROM,
        Shape::ReduceScatter => !crowded && bytes * u64::from(members) >= VECTORS_FROM,
        Shape::Barrier | Shape::Bcast { .. } | Shape::Gather { .. } | Shape::Scatter { .. } => false,
    }
}

/// What a communicator has found out.
#[derive(Debug)]
pub struct Contest {
    classes: Vec<Class>,
    /// See [`WARMING`] and [`WARMING_AGAIN`].
    warming: [u64; 2],
}

impl Default for Contest {
    fn default() -> Contest {
        Contest { classes: Vec::new(), warming: [WARMING, WARMING_AGAIN] }
    }
}

/// Calls of one shape and about the same length.
#[derive(Debug)]
struct Class {
    /// Shape without root, and the length's power of two.
    key: (u8, u32),
    /// What is found.
    found: Course,
    /// Calls to the next trial, or in it.
    left: u32,
    trying: bool,
    rest: u32,
    /// Nanoseconds of the fastest call either way in this trial.
    best: [u64; 2],
    /// The same of the fastest word.
    word: u64,
    /// Nanoseconds of this member's calls either way in this trial, where members share cores.
    spent: [Vec<u64>; 2],
}

impl Contest {
    /// Calls in a row that go the same way in a trial, of which there are four: through the payloads, by reading, and again.
    pub const RUN: u32 = RUN;

    /// One whose trials begin at once, for tests.
    pub fn at_once() -> Contest {
        Contest { warming: [0; 2], ..Contest::default() }
    }

    /// How the next call of that shape and length goes.
    pub fn next(&mut self, shape: Shape, bytes: u64) -> Plan {
        let again = warming_calls(self.warming[1], bytes);
        let class = self.class(shape, bytes);
        if class.left == 0 {
            class.trying = true;
            class.left = TRIAL + if class.found == Course::Reading { again } else { 0 };
            (class.best, class.word) = ([u64::MAX; 2], u64::MAX);
            class.spent.iter_mut().for_each(Vec::clear);
        }
        class.left -= 1;
        match class.trying {
            true if class.left >= TRIAL => Plan { course: Course::Payloads, timed: false, last: false },
            true => Plan { course: course_in_trial(class.left), timed: true, last: class.left == 0 },
            false => Plan { course: class.found, timed: false, last: false },
        }
    }

    /// A timed call, the last one of that shape and length, took its slowest member so many nanoseconds; and a word of all to all that nobody
    /// was late with took `word`.
    pub fn note(&mut self, shape: Shape, bytes: u64, took: u64, word: u64) {
        let class = self.class(shape, bytes);
        if !class.trying {
            return;
        }
        let course = course_in_trial(class.left);
        class.word = word.min(class.word);
        if !is_first_of_run(class.left) {
            let best = &mut class.best[course as usize];
            *best = took.min(*best);
        }
        if class.left == 0 {
            let [payloads, reading] = class.best;
            // Readers tell one another where to read and when they have, which is not in the time; and what is near stays as it is.
            let words = WORDS_OF_READERS.saturating_mul(class.word);
            class.judge(payloads, reading.saturating_add(words));
        }
    }

    /// A call of a trial among members that share cores, the last one of that shape and length, took this member so long from its begin to
    /// its end.
    pub fn spend(&mut self, shape: Shape, bytes: u64, took: u64) {
        let class = self.class(shape, bytes);
        if class.trying && !is_first_of_run(class.left) {
            class.spent[course_in_trial(class.left) as usize].push(took);
        }
    }

    /// What this member's calls of the trial took on an average, but for the longest: through the payloads, and by reading. All tell it.
    pub fn spent(&mut self, shape: Shape, bytes: u64) -> [u64; 2] {
        let class = self.class(shape, bytes);
        [0, 1].map(|course| {
            let spent = &class.spent[course];
            let longest = spent.iter().max().copied().unwrap_or(0);
            (spent.iter().sum::<u64>() - longest) / (spent.len() as u64).saturating_sub(1).max(1)
        })
    }

    /// What all members together have spent either way, as they have told one another with the last call of a trial.
    pub fn conclude(&mut self, shape: Shape, bytes: u64, [payloads, reading]: [u64; 2]) {
        let class = self.class(shape, bytes);
        if class.trying && class.left == 0 {
            class.judge(payloads, reading);
        }
    }

    /// A call could not go by reading at some member.
    pub fn refuse(&mut self, shape: Shape, bytes: u64) {
        self.class(shape, bytes).settle(Course::Payloads, LONGEST_REST);
    }

    fn class(&mut self, shape: Shape, bytes: u64) -> &mut Class {
        let key = ((shape.signature(0) >> 12) as u8, bytes.max(1).ilog2());
        let at = self.classes.iter().position(|class| class.key == key).unwrap_or_else(|| {
            let found = Course::Payloads;
            let left = warming_calls(self.warming[0], bytes);
            self.classes.push(Class {
                key,
                found,
                left,
                trying: false,
                rest: 0,
                best: [u64::MAX; 2],
                word: u64::MAX,
                spent: Default::default(),
            });
            self.classes.len() - 1
        });
        &mut self.classes[at]
    }
}

impl Class {
    /// Ends a trial.
    fn judge(&mut self, payloads: u64, reading: u64) {
        let margin = if self.found == Course::Reading { 0 } else { reading / 32 };
        let found =
            if reading.saturating_add(margin) < payloads { Course::Reading } else { Course::Payloads };
        let rest = if self.rest == 0 || found != self.found { FIRST_REST } else { 4 * self.rest };
        self.settle(found, rest.min(LONGEST_REST));
    }

    fn settle(&mut self, found: Course, rest: u32) {
        (self.found, self.rest, self.left, self.trying) = (found, rest, rest, false);
    }
}

/// The calls that have so many bytes, and at least and at most [`WARMING_CALLS`].
fn warming_calls(warming: u64, bytes: u64) -> u32 {
    let (least, most) = WARMING_CALLS;
    if warming == 0 { 0 } else { (warming / bytes.max(1)).clamp(least, most) as u32 }
}

/// Whether a call of a trial after which `left` more come is the first of its run.
const fn is_first_of_run(left: u32) -> bool {
    left % RUN == RUN - 1
}

/// The way of a call in a trial after which `left` more come.
const fn course_in_trial(left: u32) -> Course {
    match left / RUN % 2 {
        0 => Course::Reading,
        _ => Course::Payloads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 100_000;

    /// Runs one trial in which calls take so long, and answers the calls until the next.
    fn trial(contest: &mut Contest, payloads: u64, reading: u64) -> u32 {
        trial_with_words(contest, payloads, reading, 0)
    }

    /// The same where a word takes so long.
    fn trial_with_words(contest: &mut Contest, payloads: u64, reading: u64, word: u64) -> u32 {
        for _ in 0..TRIAL {
            let plan = contest.next(Shape::Alltoall, BYTES);
            assert!(plan.timed);
            contest.note(Shape::Alltoall, BYTES, [payloads, reading][plan.course as usize], word);
        }
        contest.class(Shape::Alltoall, BYTES).left
    }

    fn settled(contest: &mut Contest, calls: u32) -> Course {
        let plans: Vec<Plan> = (0..calls).map(|_| contest.next(Shape::Alltoall, BYTES)).collect();
        assert!(plans.iter().all(|plan| *plan == plans[0] && !plan.timed), "{plans:?}");
        plans[0].course
    }

    #[test]
    fn the_faster_way_is_taken_and_tried_ever_more_seldom() {
        let mut contest = Contest::at_once();
        let rest = trial(&mut contest, 1000, 700);
        assert_eq!((rest, settled(&mut contest, rest)), (FIRST_REST, Course::Reading));
        let rest = trial(&mut contest, 1000, 700);
        assert_eq!((rest, settled(&mut contest, rest)), (4 * FIRST_REST, Course::Reading));
        let rest = trial(&mut contest, 600, 700);
        assert_eq!((rest, settled(&mut contest, rest)), (FIRST_REST, Course::Payloads));
        for _ in 0..10 {
            let rest = trial(&mut contest, 600, 700);
            settled(&mut contest, rest);
        }
        assert_eq!(trial(&mut contest, 600, 700), LONGEST_REST);
    }

    #[test]
    fn where_cores_are_shared_what_all_have_spent_decides() {
        for (reading, course) in [(700, Course::Reading), (1100, Course::Payloads)] {
            let mut contest = Contest::at_once();
            for call in 0..TRIAL {
                let plan = contest.next(Shape::Alltoall, BYTES);
                assert_eq!(plan.last, call == TRIAL - 1);
                // The first of a run, one that was disturbed, and the last count nothing.
                let usual = [1000, reading][plan.course as usize];
                let took = if call % RUN == 0 {
                    1
                } else if call == 1 || call == RUN + 1 {
                    1_000_000
                } else {
                    usual
                };
                if !plan.last {
                    contest.spend(Shape::Alltoall, BYTES, took);
                }
            }
            assert_eq!(contest.spent(Shape::Alltoall, BYTES), [1000, reading]);
            contest.conclude(Shape::Alltoall, BYTES, [3000, 3 * reading]);
            assert_eq!(settled(&mut contest, FIRST_REST), course);
        }
    }

    #[test]
    fn nothing_is_tried_before_rings_are_warm() {
        let mut contest = Contest::default();
        assert_eq!(settled(&mut contest, (WARMING / BYTES) as u32), Course::Payloads);
        trial(&mut contest, 1000, 700);
        assert_eq!(settled(&mut contest, FIRST_REST), Course::Reading);
        // Those have gone cold meanwhile, but not where they are the faster way.
        assert_eq!(settled(&mut contest, (WARMING_AGAIN / BYTES) as u32), Course::Payloads);
        trial(&mut contest, 600, 700);
        assert_eq!(settled(&mut contest, FIRST_REST), Course::Payloads);
        assert!(contest.next(Shape::Alltoall, BYTES).timed);
    }

    #[test]
    fn words_count_where_they_are_needed() {
        for (word, course) in [(140, Course::Reading), (160, Course::Payloads)] {
            let mut contest = Contest::at_once();
            let rest = trial_with_words(&mut contest, 1000, 679, word);
            assert_eq!(settled(&mut contest, rest), course);
        }
    }

    #[test]
    fn the_first_call_of_each_run_does_not_count() {
        let mut contest = Contest::at_once();
        for call in 0..TRIAL {
            let plan = contest.next(Shape::Alltoall, BYTES);
            let warm = [1000, 700][plan.course as usize];
            contest.note(Shape::Alltoall, BYTES, if call % RUN == 0 { 1 } else { warm }, 0);
        }
        assert_eq!(settled(&mut contest, FIRST_REST), Course::Reading);
    }

    #[test]
    fn both_ways_take_turns_in_a_trial() {
        let mut contest = Contest::at_once();
        let courses: Vec<Course> = (0..TRIAL).map(|_| contest.next(Shape::Alltoall, BYTES).course).collect();
        let (one, other) = (vec![Course::Payloads; RUN as usize], vec![Course::Reading; RUN as usize]);
        assert_eq!(courses, [one.clone(), other.clone(), one, other].concat());
    }

    #[test]
    fn a_refusal_ends_the_trial_for_long_and_for_that_class_alone() {
        let mut contest = Contest::at_once();
        while contest.next(Shape::Alltoall, BYTES).course == Course::Payloads {
            contest.note(Shape::Alltoall, BYTES, 1000, 0);
        }
        contest.refuse(Shape::Alltoall, BYTES);
        assert_eq!(settled(&mut contest, LONGEST_REST), Course::Payloads);
        assert!(contest.next(Shape::Alltoall, BYTES).timed);
        assert!(contest.next(Shape::Alltoall, 8 * BYTES).timed);
        assert!(contest.next(Shape::Allgather, BYTES).timed);
    }
}
