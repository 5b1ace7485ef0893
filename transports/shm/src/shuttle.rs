//! A line that two processes write in turn: the shortest way to and fro.
//!
//! A packet in a ring takes two transfers of its line: the reader looks at it all the time, so its writer must take it away
//! first. A line that was just read, and at which nobody looks meanwhile, can be written at once; the other one, who wrote it last,
//! fetches it when the time has come. So every two processes share one such line, the *shuttle*. Who holds it may send a
//! short packet in it; with that the other one holds it. Answers, and answers to answers, take one transfer each.
//!
//! # Memory ordering
//! The shuttle is a cell with two writers that take turns. Only its holder writes to it, its stamp last and with Release; the
//! other one loads nothing but the stamp (with Acquire) until it shows the packet that he waits for: its sequence number, with
//! the mark of its direction, so that nobody takes what he has written himself, or an empty line, for an answer. Then he holds it:
//! the holder's stores happen before his loads, and his loads before his own later stores, in his program order, and their
//! stamp. No word is shared beyond the stamp. At the start the process of the lower number holds it.
//!
//! A packet in the shuttle has its sequence number like any other, and its cell in the ring stays empty: so it is in order
//! with all others, and the receiver looks for the one packet that is next in two places.
//!
//! # When
//! Looking at the shuttle takes the line away from him who is about to write it. So the one who waits gives the answer time: there is a
//! pause before each of the first looks, which finds its length: it grows when an answer was not there at the first look and
//! shrinks when it was. Who had to look often, or to whom the shuttle comes with a packet that left before all of his own were
//! read (two processes that send to each other at the same time), keeps it for some messages; while it is kept, nobody pauses.
//!
//! Each look is a whole one, whatever the pauses: who arms his bell and looks once more before he sleeps misses nothing.

use crate::layout::FIRST_LINE;
use crate::past;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The number of the shuttle where a cell's is asked for.
pub const SHUTTLE: u32 = u32::MAX;

/// Bits of a stamp that say who wrote it: there is always one, as no stamp of a fresh line has.
const MARKS: [u64; 2] = [1 << 63, 1 << 62];

/// The other one holds it.
const AWAY: u32 = 0;
/// It is here; more: that it is kept for so many messages.
const HERE: u32 = 1;
/// Where a stamp of the shuttle has the length of its packet, and where the number of packets that its sender has read, as far as
/// that goes into the bits below the marks.
const LEN: u32 = 32;
const READ: u32 = 40;
const READ_BITS: u32 = (1 << 22) - 1;
const _: () = assert!(FIRST_LINE < 1 << (READ - LEN));
/// Messages for which a shuttle is kept that did not pay.
const KEPT: u32 = 64;
/// Looks that are paused before; an answer that took more came late.
const PAUSED: u32 = 16;
/// In place of looks: nothing was sent in it that had to be waited for.
const NEVER: u32 = u32::MAX;
/// Ticks from the packet, or the last look, to the next look: at least and at most. A bare line takes 80 ticks near, where a look too
/// early costs two transfers, and 350 far, where it costs less than a late one.
const SHORTEST: u32 = 120;
const LONGEST: u32 = 250;
/// Ticks by which the pause grows when an answer was not there at the first look; it shrinks by one when it was.
const GROWTH: u32 = 3;

/// What one process knows of the shuttle that it shares with another. Its two ends there, of the ring to the other and of that
/// from it, share this; they belong to one owner, so nothing here orders anything.
#[derive(Debug)]
pub struct Shuttle {
    state: AtomicU32,
    /// Sequence number of the next packet to the other process, and of the next one from there.
    sent: AtomicU32,
    read: AtomicU32,
    /// Looks since it left.
    looks: AtomicU32,
    /// Ticks when it left or was looked at.
    since: AtomicU64,
    /// Ticks from then to the next look.
    pause: AtomicU32,
    /// Which of the two this process is.
    second: bool,
}

impl Shuttle {
    /// That of the process with the lower number of the two, who holds it at first, or of the other one.
    pub fn new(second: bool) -> Shuttle {
        Shuttle {
            state: AtomicU32::new(if second { AWAY } else { HERE }),
            sent: AtomicU32::new(0),
            read: AtomicU32::new(0),
            looks: AtomicU32::new(NEVER),
            since: AtomicU64::new(0),
            pause: AtomicU32::new(LONGEST),
            second,
        }
    }

    /// Its stamp with the packet of `len` bytes after which `next` is sent.
    #[inline]
    pub(crate) fn stamp(&self, next: u32, len: usize) -> u64 {
        let read = u64::from(self.read.load(Relaxed) & READ_BITS);
        MARKS[self.second as usize] | read << READ | (len as u64) << LEN | u64::from(next)
    }

    /// The length of the packet after which `next` is read, if it is that one which has this stamp.
    #[inline]
    pub(crate) fn brings(&self, stamp: u64, next: u32) -> Option<usize> {
        let is_theirs = stamp & MARKS[!self.second as usize] != 0;
        (is_theirs && stamp as u32 == next).then_some((stamp >> LEN) as usize & ((1 << (READ - LEN)) - 1))
    }

    /// Packets were sent; `next` is the next one.
    #[inline(always)]
    pub(crate) fn sent(&self, next: u32) {
        self.sent.store(next, Relaxed);
    }

    /// Packets were read; `next` is the next one.
    #[inline(always)]
    pub(crate) fn read(&self, next: u32) {
        self.read.store(next, Relaxed);
        // Whatever was waited for, this has answered it.
        self.looks.store(NEVER, Relaxed);
    }

    /// Whether a packet of `len` bytes, which is about to be sent, leaves in it.
    #[inline(always)]
    pub(crate) fn leaves(&self, len: usize) -> bool {
        let state = self.state.load(Relaxed);
        if state > HERE {
            self.state.store(state - 1, Relaxed);
        }
        state == HERE && len <= FIRST_LINE
    }

    /// It has left.
    #[inline(always)]
    pub(crate) fn left(&self) {
        self.state.store(AWAY, Relaxed);
        self.looks.store(0, Relaxed);
        self.since.store(past::ticks(), Relaxed);
    }

    #[inline(always)]
    pub(crate) fn is_away(&self) -> bool {
        self.state.load(Relaxed) < HERE
    }

    /// Pauses where that helps the one who is about to answer; a look follows.
    #[inline]
    pub(crate) fn before_look(&self) {
        let looks = self.looks.load(Relaxed);
        if looks >= PAUSED {
            return;
        }
        let (since, pause) = (self.since.load(Relaxed), u64::from(self.pause.load(Relaxed)));
        let now = loop {
            let now = past::ticks();
            // Another core's clock may be behind.
            if now.wrapping_sub(since) >= pause || cfg!(any(miri, loom)) {
                break now;
            }
        };
        self.since.store(now, Relaxed);
        self.looks.store(looks + 1, Relaxed);
    }

    /// It has come, with that stamp.
    #[inline]
    pub(crate) fn came(&self, stamp: u64) {
        let (looks, pause) = (self.looks.load(Relaxed), self.pause.load(Relaxed));
        let late = looks >= PAUSED && looks != NEVER;
        let pause = match looks {
            1 => pause.saturating_sub(1).max(SHORTEST),
            2..PAUSED => (pause + GROWTH).min(LONGEST),
            _ => pause,
        };
        self.pause.store(pause, Relaxed);
        // Who answers has read all that was sent.
        let answers = ((stamp >> READ) as u32 ^ self.sent.load(Relaxed)) & READ_BITS == 0;
        self.state.store(if late || !answers { HERE + KEPT } else { HERE }, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One packet from one to the other, who has read so many, the `number`th of its direction.
    fn bring(from: &Shuttle, to: &Shuttle, number: u32) {
        assert!(from.leaves(8));
        let stamp = from.stamp(number, 8);
        from.left();
        from.sent(number);
        assert_eq!(from.brings(stamp, number), None, "nobody takes his own packet");
        assert_eq!(to.brings(stamp, number + 1), None, "nor another one's turn");
        assert_eq!(to.brings(stamp, number), Some(8));
        to.came(stamp);
        to.read(number);
    }

    #[test]
    fn answers_and_answers_to_answers_leave_in_it() {
        let (first, second) = (Shuttle::new(false), Shuttle::new(true));
        assert!(!second.leaves(8) && second.is_away(), "the first one holds it");
        assert_eq!(second.brings(0, 0), None, "a fresh line brings nothing");
        for number in 1..200 {
            bring(&first, &second, number);
            bring(&second, &first, number);
        }
        assert!(!first.leaves(FIRST_LINE + 1), "what takes more than a line goes by the ring");
        assert!(first.leaves(FIRST_LINE));
    }

    #[test]
    fn who_sends_at_the_same_time_keeps_it_for_a_while() {
        let (first, second) = (Shuttle::new(false), Shuttle::new(true));
        second.sent(1);
        bring(&first, &second, 1);
        assert!(!second.is_away());
        for _ in 0..KEPT {
            assert!(!second.leaves(8), "its packet left before ours was read");
        }
        first.read(1);
        bring(&second, &first, 2);
    }

    #[test]
    fn a_late_answer_lets_it_rest_and_one_by_the_ring_is_no_late_one() {
        let (first, second) = (Shuttle::new(false), Shuttle::new(true));
        for by_ring in [false, true] {
            bring(&first, &second, 1);
            (0..PAUSED + 3).for_each(|_| first.before_look());
            if by_ring {
                first.read(1);
            }
            bring(&second, &first, 1);
            assert_eq!(first.leaves(8), by_ring);
            first.state.store(HERE, Relaxed);
        }
    }

    #[test]
    fn pauses_stay_in_their_bounds() {
        let shuttle = Shuttle::new(false);
        for looks in [1, 2, 1, 5] {
            for _ in 0..500 {
                shuttle.left();
                (0..looks).for_each(|_| shuttle.before_look());
                shuttle.came(0);
                assert!((SHORTEST..=LONGEST).contains(&shuttle.pause.load(Relaxed)));
            }
            let bound = if looks == 1 { SHORTEST } else { LONGEST };
            assert_eq!(shuttle.pause.load(Relaxed), bound);
        }
    }
}
