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
//! the mark of its direction, so that nobody takes what he has written himself, or an empty line, for an answer. Then he holds it
//! (rule C): the other one's stores happen before his loads, and his loads before his own later stores, in his program order, and
//! their stamp. No word is shared beyond the stamp. At the start the process of the lower number holds it.
//!
//! A packet in the shuttle has its sequence number like any other, and its cell in the ring is skipped: so it is in order
//! with all others, and the receiver looks for the one packet that is next in two places. A skipped cell keeps its stamp, which
//! would be the awaited one again after 2^32 packets. So the last packets before every multiple of 2^31, as many as there are
//! cells, go by the ring ([`is_for_the_ring`]): no stamp in it is ever that old. Nor is one in the shuttle: who waits for it has written it last,
//! and the other one's next stamp there is that of a packet that he has not taken yet.
//!
//! # When
//! Looking at the shuttle takes the line away from him who is about to write it. So the one who waits gives the answer time: there is a
//! pause before each of the first looks, which finds its length: it grows when an answer was not there at the first look and
//! shrinks when it was. During a pause the ring is looked at, so that only what comes in the shuttle comes later for it. Who had to look often, or
//! to whom it comes with a packet that left before all of his own were read (two processes that send to each other at the same
//! time), keeps it for some messages. Nobody pauses who has sent more since it left, or has found its packet and not taken it,
//! or waits for several processes at the same time.
//!
//! Each look is a whole one, whatever the pauses: who arms his bell and looks once more before he sleeps misses nothing.
//! Where there is no counter of ticks, there is no shuttle either ([`past::HAS_TICKS`]).

use crate::layout::FIRST_LINE;
use crate::past;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The number of the shuttle where a packet's cell is told.
pub const SHUTTLE: u32 = u32::MAX;

/// Bits of a stamp that say who wrote it: there is always one, as no stamp of a fresh line has.
const MARKS: [u64; 2] = [1 << 63, 1 << 62];
/// Where a stamp has the length of its packet, above the sequence number, and where the number of packets that its sender has
/// read, as far as that goes into the bits below the marks.
const LEN: u32 = 32;
const READ: u32 = 40;
const READ_BITS: u32 = (1 << 22) - 1;
const _: () = assert!(FIRST_LINE < 1 << (READ - LEN));

/// The other one holds it; less: and this process has sent something else since it left.
const AWAY: u32 = 1;
/// It is here; more: that it is kept for so many messages.
const HERE: u32 = 2;
/// It has just come; whether it was an answer is seen when the next packet leaves.
const CAME: u32 = u32::MAX;
/// Messages for which a shuttle is kept that did not pay.
const KEPT: u32 = 64;
/// Looks that are paused before; an answer that took more came late.
const PAUSED: u32 = 16;
/// In place of the count of looks: it was never sent.
const NEVER: u32 = PAUSED + 1;
/// In the count of looks: its packet has been found.
const FOUND: u32 = 1 << 31;
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
    /// Packets that the other one had read when it sent it last, in [`READ_BITS`].
    read_there: AtomicU32,
    /// Looks after pauses since it left, and [`FOUND`].
    looks: AtomicU32,
    /// Ticks when it left or was looked at after a pause.
    since: AtomicU64,
    /// Ticks from then to the next look.
    pause: AtomicU32,
    /// Which of the two this process is.
    second: bool,
}

/// Whether the packet of that sequence number goes by the ring of `mask` + 1 cells in any case, so that each of its cells is written
/// at least once in 2^31 packets.
#[inline]
pub(crate) fn is_for_the_ring(sequence: u32, mask: u32) -> bool {
    sequence & (u32::MAX >> 1) >= (u32::MAX >> 1) - mask
}

impl Shuttle {
    /// That of the process with the lower number of the two, who holds it at first, or of the other one.
    pub fn new(second: bool) -> Shuttle {
        Shuttle {
            state: AtomicU32::new(if second { AWAY } else { HERE }),
            read_there: AtomicU32::new(0),
            looks: AtomicU32::new(NEVER),
            since: AtomicU64::new(0),
            pause: AtomicU32::new(LONGEST),
            second,
        }
    }

    /// Its stamp with the packet of `len` bytes after which `next` is sent, from one who has read so many packets.
    #[inline]
    pub(crate) fn stamp(&self, next: u32, len: usize, read: u32) -> u64 {
        let read = u64::from(read & READ_BITS);
        MARKS[self.second as usize] | read << READ | (len as u64) << LEN | u64::from(next)
    }

    /// The length of the packet after which `next` is read, if it is that one which has this stamp.
    #[inline]
    pub(crate) fn brings(&self, stamp: u64, next: u32) -> Option<usize> {
        let is_theirs = stamp & (MARKS[0] | MARKS[1]) == MARKS[!self.second as usize];
        if !is_theirs || stamp as u32 != next {
            return None;
        }
        self.looks.store(self.looks.load(Relaxed) | FOUND, Relaxed);
        self.read_there.store((stamp >> READ) as u32 & READ_BITS, Relaxed);
        Some((stamp >> LEN) as usize & ((1 << (READ - LEN)) - 1))
    }

    /// Whether a packet of `len` bytes, which is about to be sent after `sent` others, leaves in it. Otherwise it is sent in
    /// another way.
    #[inline(always)]
    pub(crate) fn leaves(&self, len: usize, sent: u32) -> bool {
        let state = self.state.load(Relaxed);
        if state == CAME {
            return self.answers(len, sent);
        }
        if state == HERE {
            return len <= FIRST_LINE;
        }
        // A message less to keep it for; or one that was sent while it was away.
        self.state.store(state.saturating_sub(1), Relaxed);
        false
    }

    /// As [`Shuttle::leaves`], when it has just come: who answers has read all that was sent.
    #[inline]
    fn answers(&self, len: usize, sent: u32) -> bool {
        let answers = (self.read_there.load(Relaxed) ^ sent) & READ_BITS == 0;
        self.state.store(if answers { HERE } else { HERE + KEPT }, Relaxed);
        answers && len <= FIRST_LINE
    }

    /// It has left.
    #[inline]
    pub(crate) fn left(&self) {
        self.state.store(AWAY, Relaxed);
        self.looks.store(0, Relaxed);
        self.since.store(past::ticks(), Relaxed);
    }

    /// Whether the other one holds it, or has sent it.
    #[inline(always)]
    pub fn is_away(&self) -> bool {
        self.state.load(Relaxed) <= AWAY
    }

    /// Pauses where that helps the one who is about to answer, but only as long as there is nothing `else_here`; a look
    /// follows, unless this says that there is.
    #[inline]
    pub(crate) fn pause(&self, mut else_here: impl FnMut() -> bool) -> bool {
        let looks = self.looks.load(Relaxed);
        if !past::HAS_TICKS || looks >= PAUSED || self.state.load(Relaxed) != AWAY {
            return false;
        }
        let (since, pause) = (self.since.load(Relaxed), u64::from(self.pause.load(Relaxed)));
        let now = loop {
            let now = past::ticks();
            // Another core's clock may be behind: then it is time as well. The models have no time.
            if now.wrapping_sub(since) >= pause || cfg!(loom) {
                break now;
            }
            if else_here() {
                return true;
            }
        };
        self.since.store(now, Relaxed);
        self.looks.store(looks + 1, Relaxed);
        false
    }

    /// It has come, and its packet is read.
    #[inline]
    pub(crate) fn came(&self) {
        let (looks, pause) = (self.looks.load(Relaxed) & !FOUND, self.pause.load(Relaxed));
        let pause = match looks {
            1 => pause.saturating_sub(1).max(SHORTEST),
            2..PAUSED => (pause + GROWTH).min(LONGEST),
            _ => pause,
        };
        self.pause.store(pause, Relaxed);
        self.state.store(if looks == PAUSED { HERE + KEPT } else { CAME }, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One packet from one, who has read so many, to the other: the `number`th of its direction.
    fn bring(from: &Shuttle, to: &Shuttle, number: u32, read: u32) {
        assert!(from.leaves(8, number - 1));
        let stamp = from.stamp(number, 8, read);
        from.left();
        assert_eq!(from.brings(stamp, number), None, "nobody takes his own packet");
        assert_eq!(to.brings(stamp, number + 1), None, "nor another one's turn");
        assert_eq!(to.brings(stamp, number), Some(8));
        to.came();
    }

    /// Nothing comes while it pauses.
    fn look(shuttle: &Shuttle) {
        assert!(!shuttle.pause(|| false));
    }

    #[test]
    fn answers_and_answers_to_answers_leave_in_it() {
        let (first, second) = (Shuttle::new(false), Shuttle::new(true));
        assert!(second.is_away() && !first.is_away(), "the first one holds it");
        assert_eq!(second.brings(0, 0), None, "a fresh line brings nothing");
        for number in 1..200 {
            bring(&first, &second, number, number - 1);
            bring(&second, &first, number, number);
        }
        assert!(!first.leaves(FIRST_LINE + 1, 199), "what takes more than a line goes by the ring");
        assert!(first.leaves(FIRST_LINE, 199));
    }

    #[test]
    fn who_is_not_answered_keeps_it_for_a_while() {
        let (first, second) = (Shuttle::new(false), Shuttle::new(true));
        assert!(!second.leaves(8, 0));
        bring(&first, &second, 1, 0);
        assert!(!second.is_away());
        for sent in 1..=KEPT + 1 {
            assert!(!second.leaves(8, sent), "its packet left before ours was read");
        }
        bring(&second, &first, KEPT + 3, 1);
        assert!(first.leaves(8, 1));
    }

    #[test]
    fn answers_by_the_ring_while_it_is_kept_are_answers_too() {
        let (first, second) = (Shuttle::new(false), Shuttle::new(true));
        // The second one sends by the ring meanwhile, and all is read before the shuttle leaves.
        (0..10).for_each(|sent| assert!(!second.leaves(8, sent)));
        bring(&first, &second, 11, 10);
        assert!(second.leaves(8, 10));
    }

    #[test]
    fn a_late_answer_lets_it_rest() {
        let (first, second) = (Shuttle::new(false), Shuttle::new(true));
        for (number, late) in [(1, false), (2, true)] {
            bring(&first, &second, number, number - 1);
            (0..if late { PAUSED + 3 } else { 1 }).for_each(|_| look(&first));
            bring(&second, &first, number, number);
            assert_eq!(first.leaves(8, number), !late || !past::HAS_TICKS);
        }
    }

    #[test]
    fn nobody_pauses_who_has_found_its_packet_or_sent_another() {
        let (first, second) = (Shuttle::new(false), Shuttle::new(true));
        for (number, sends) in [(1, false), (2, true)] {
            bring(&first, &second, number, number - 1);
            first.pause.store(u32::MAX, Relaxed);
            if past::HAS_TICKS {
                assert!(first.pause(|| true), "something else ends a pause");
            }
            match sends {
                true => assert!(!first.leaves(8, number)),
                false => assert_eq!(first.brings(second.stamp(number, 8, number), number), Some(8)),
            }
            look(&first);
            bring(&second, &first, number, number);
        }
    }

    #[test]
    fn pauses_stay_in_their_bounds() {
        let shuttle = Shuttle::new(false);
        for looks in [1, 2, 1, 5] {
            for _ in 0..500 {
                shuttle.left();
                (0..looks).for_each(|_| look(&shuttle));
                shuttle.came();
                assert!((SHORTEST..=LONGEST).contains(&shuttle.pause.load(Relaxed)));
            }
            let bound = if looks == 1 { SHORTEST } else { LONGEST };
            assert!(shuttle.pause.load(Relaxed) == bound || !past::HAS_TICKS);
        }
    }

    #[test]
    fn every_cell_is_written_once_in_half_of_all_sequence_numbers() {
        for mask in [0, 1, 255] {
            for end in [1 << 31, 0u32] {
                assert!(!is_for_the_ring(end.wrapping_sub(mask + 2), mask));
                assert!((1..=mask + 1).all(|before| is_for_the_ring(end.wrapping_sub(before), mask)));
                assert!(!is_for_the_ring(end, mask));
            }
        }
    }
}
