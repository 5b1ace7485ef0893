//! Which way long blocking calls go inside a node: through the cells, or by reading the others' memory (`super::long`).
//!
//! Which is faster depends on the processor, the length, how many members there are and where they run, so it is tried. All
//! members must go the same way, so everything here follows from what all of them know: the calls of the communicator, and
//! the times that they have told one another.

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
    /// Whether its members tell one another how long it took.
    pub timed: bool,
}

/// Calls in a row that go the same way in a trial. The first does not count: the caches hold what the other way left there.
const RUN: u32 = 3;
/// Calls of a trial: two runs of each way, by turns.
const TRIAL: u32 = 4 * RUN;
/// Calls from the first trial to the second.
const FIRST_REST: u32 = 256;
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
#[derive(Debug, Default)]
pub struct Contest(Vec<Class>);

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
}

impl Contest {
    /// How the next call of that shape and length goes.
    pub fn next(&mut self, shape: Shape, bytes: u64) -> Plan {
        let class = self.class(shape, bytes);
        if class.left == 0 {
            class.trying = true;
            class.left = TRIAL;
            (class.best, class.word) = ([u64::MAX; 2], u64::MAX);
        }
        class.left -= 1;
        match class.trying {
            true => Plan { course: course_in_trial(class.left), timed: true },
            false => Plan { course: class.found, timed: false },
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
        // The first of a run has the highest number left.
        if class.left % RUN != RUN - 1 {
            let best = &mut class.best[course as usize];
            *best = took.min(*best);
        }
        if class.left == 0 {
            let [payloads, reading] = class.best;
            // Readers tell one another where to read and when they have, which is not in the time; and what is near stays as it is.
            let words = WORDS_OF_READERS.saturating_mul(class.word);
            let margin = if class.found == Course::Reading { 0 } else { reading / 32 };
            let reading = reading.saturating_add(margin).saturating_add(words);
            let found = if reading < payloads { Course::Reading } else { Course::Payloads };
            let rest = if class.rest == 0 || found != class.found { FIRST_REST } else { 4 * class.rest };
            class.settle(found, rest.min(LONGEST_REST));
        }
    }

    /// A call could not go by reading at some member.
    pub fn refuse(&mut self, shape: Shape, bytes: u64) {
        self.class(shape, bytes).settle(Course::Payloads, LONGEST_REST);
    }

    fn class(&mut self, shape: Shape, bytes: u64) -> &mut Class {
        let key = ((shape.signature(0) >> 12) as u8, bytes.max(1).ilog2());
        let at = self.0.iter().position(|class| class.key == key).unwrap_or_else(|| {
            let found = Course::Payloads;
            self.0.push(Class {
                key,
                found,
                left: 0,
                trying: false,
                rest: 0,
                best: [u64::MAX; 2],
                word: u64::MAX,
            });
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

impl Class {
    fn settle(&mut self, found: Course, rest: u32) {
        (self.found, self.rest, self.left, self.trying) = (found, rest, rest, false);
    }
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
        let mut contest = Contest::default();
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
    fn words_count_where_they_are_needed() {
        for (word, course) in [(140, Course::Reading), (160, Course::Payloads)] {
            let mut contest = Contest::default();
            let rest = trial_with_words(&mut contest, 1000, 679, word);
            assert_eq!(settled(&mut contest, rest), course);
        }
    }

    #[test]
    fn the_first_call_of_each_run_does_not_count() {
        let mut contest = Contest::default();
        for call in 0..TRIAL {
            let plan = contest.next(Shape::Alltoall, BYTES);
            let warm = [1000, 700][plan.course as usize];
            contest.note(Shape::Alltoall, BYTES, if call % RUN == 0 { 1 } else { warm }, 0);
        }
        assert_eq!(settled(&mut contest, FIRST_REST), Course::Reading);
    }

    #[test]
    fn both_ways_take_turns_in_a_trial() {
        let mut contest = Contest::default();
        let courses: Vec<Course> = (0..TRIAL).map(|_| contest.next(Shape::Alltoall, BYTES).course).collect();
        let (one, other) = (vec![Course::Payloads; RUN as usize], vec![Course::Reading; RUN as usize]);
        assert_eq!(courses, [one.clone(), other.clone(), one, other].concat());
    }

    #[test]
    fn a_refusal_ends_the_trial_for_long_and_for_that_class_alone() {
        let mut contest = Contest::default();
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
