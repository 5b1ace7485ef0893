//! Rows of messages of middle length that may leave unasked, inside a node: whether they are better announced.
//!
//! In packets both ends copy at the same time; what is announced may be read by its receiver in one copy, which is faster on some
//! processors. The receiver knows it once it has timed both ([`crate::Paces`]), and then says from which length on rows are worth announcing; but it
//! times only what is announced. So a sender announces some messages of a row now and then, more and more rarely, for lengths for which it was told
//! nothing: those that leave in several packets. (For messages that take turns see [`crate::turns`].)

/// Classes of length: powers of two from 32 KiB on; the last one is 256 KiB and more.
const CLASSES: usize = 4;
/// Messages of a class in packets before the first trial: few are not worth one.
const FIRST: u32 = 96;
/// The same between the first two trials, and at most; each time four times as many.
const RESTS: (u32, u32) = (4096, 1 << 20);
/// Messages of a trial: what a receiver needs to time two runs of each way in windows of 64 messages.
const TRIAL: u32 = 768;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    /// Messages that are left of the rest, or of the trial.
    left: u32,
    trying: bool,
    /// How long the next rest lasts.
    rest: u32,
}

/// What a sender has tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    classes: [Class; CLASSES],
}

impl Default for Rows {
    fn default() -> Rows {
        Rows { classes: [Class { left: FIRST, trying: false, rest: RESTS.0 }; CLASSES] }
    }
}

impl Rows {
    /// Whether the next message of a row, of so many bytes, is announced for a trial.
    pub fn next_is_tried(&mut self, bytes: u64) -> bool {
        let class = (bytes >> 15).max(1).ilog2() as usize;
        let class = &mut self.classes[class.min(CLASSES - 1)];
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
