//! Short partitions that travel together: which partitions of a send are ready and kept.
//!
//! Between processes of a node a partition of a few bytes costs as much as a message of its own when it travels alone, for the
//! receiver looks for it all the time: each fetches a cache line that the sender has to fetch back for the next. Nobody sees
//! the difference unless he asks for single partitions ([`weft_engine::Interest`]), and the standard promises that a partition
//! is seen before the others are ready to nobody (section 4.2.2: "all send partitions have been marked as ready"). So a send
//! whose receiver has waited for a whole start, and never called `MPI_Parrived`, keeps what is ready:
//!
//! - until the last partition is ready: then all leave in one piece, as one send does;
//! - or until the process makes progress, in any call that waits or tests and in the progress agent: then they leave as they
//!   are, and those that become ready afterwards leave at once. So whoever waits for what the receiver does with early
//!   partitions gets there.
//!
//! The first question for a partition ends this for good: from the next start on every partition leaves when it is ready.
//!
//! Above [`ALWAYS`] bytes it is better that partitions leave one by one when the program takes its time between them, because
//! they are copied meanwhile. So such a send keeps them only while they become ready in a row: every [`TIMED`]th start is
//! timed, and keeps them, for marks that send take time themselves.
//!
//! The clock is an argument, which starts that are not timed do not read.

use super::marks::Awaited;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of operations whose partitions are kept however long the program takes between them: copying them takes about a tenth of
/// a microsecond.
const ALWAYS: u64 = 1 << 10;
/// Starts from one that is timed to the next.
const TIMED: u32 = 16;

/// The longest time from the first mark of a start to the last that counts as in a row: copying at 8 bytes a nanosecond, and
/// half a microsecond for the calls.
fn in_a_row(bytes: u64) -> Duration {
    Duration::from_nanos(500 + bytes / 8)
}

/// What of one send is ready and kept.
#[derive(Debug)]
pub(super) struct Gathering {
    /// Partitions that are awaited, one bit each. 0: none are kept, or all are ready, or the first one is being timed.
    missing: Arc<Awaited>,
    /// The bits of all partitions; 0: there are too many.
    all: u64,
    /// Whether partitions of this start are kept, or have all left in one piece.
    on: bool,
    /// Whether whoever makes progress knows of this send.
    listed: bool,
    /// Whether the first mark of this start is awaited, to be timed.
    timed: bool,
    first: Option<Instant>,
    /// Starts before the next that is timed.
    until_timed: u32,
    in_a_row: bool,
    bytes: u64,
}

impl Gathering {
    /// Of `partitions` partitions of `bytes` bytes together.
    pub(super) fn new(partitions: u32, bytes: u64) -> Gathering {
        let all = if partitions <= u64::BITS { u64::MAX >> (u64::BITS - partitions) } else { 0 };
        Gathering {
            missing: Arc::default(),
            all,
            on: false,
            listed: false,
            timed: false,
            first: None,
            until_timed: 0,
            in_a_row: false,
            bytes,
        }
    }

    /// A start begins whose partitions may be kept. Whether they are.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> bool {
        if self.bytes > ALWAYS {
            return self.begin_timed();
        }
        self.on = self.all != 0;
        self.missing.set(self.all);
        self.on
    }

    /// As [`Gathering::begin`], of those that are timed now and then.
    #[inline(never)]
    fn begin_timed(&mut self) -> bool {
        self.first = None;
        self.timed = self.until_timed == 0;
        self.until_timed = if self.timed { TIMED - 1 } else { self.until_timed - 1 };
        self.on = (self.in_a_row || self.timed) && self.all != 0;
        self.missing.set(if self.on && !self.timed { self.all } else { 0 });
        self.on
    }

    /// Partitions are not kept, or no longer.
    pub(super) fn end(&mut self) {
        (self.on, self.timed) = (false, false);
        self.missing.set(0);
    }

    /// A partition is ready and kept. False: nothing was done, because it is the last one, or such as are not kept.
    #[inline(always)]
    pub(super) fn keeps(&self, partition: u32) -> bool {
        self.missing.keeps(partition)
    }

    /// Where the partitions are marked that are kept.
    pub(super) fn marks(&self) -> &Arc<Awaited> {
        &self.missing
    }

    /// Before any partition of a start is marked that [`Gathering::keeps`] does not keep.
    #[inline]
    pub(super) fn time(&mut self, clock: impl FnOnce() -> Instant) {
        if std::mem::take(&mut self.timed) && self.on {
            self.first = Some(clock());
            self.missing.set(self.all);
        }
    }

    /// All partitions of a start are ready.
    #[inline]
    pub(super) fn all_ready(&mut self, clock: impl FnOnce() -> Instant) {
        self.missing.set(0);
        if let Some(first) = self.first.take() {
            self.judge(clock().saturating_duration_since(first));
        }
    }

    /// A start was timed.
    #[cold]
    fn judge(&mut self, taken: Duration) {
        self.in_a_row = taken < in_a_row(self.bytes);
    }

    /// Whether that is the only partition that is awaited, the others being kept.
    #[inline]
    pub(super) fn awaits_only(&self, partition: u32) -> bool {
        partition < u64::BITS && self.missing.get() == 1 << partition
    }

    /// Whether that is the only partition that is ready, and it is kept.
    pub(super) fn keeps_only(&self, partition: u32) -> bool {
        let missing = self.missing.get();
        partition < u64::BITS && missing != 0 && missing == self.all & !(1 << partition)
    }

    /// Ends it; one bit for each partition that is kept, or has left with all others (`true`). `None`: none were.
    pub(super) fn scatter(&mut self) -> Option<(u64, bool)> {
        if !self.on {
            return None;
        }
        let kept = if self.timed { 0 } else { self.all & !self.missing.get() };
        let gone = !self.timed && self.missing.get() == 0;
        self.end();
        Some((kept, gone))
    }

    /// Whether partitions of this start are kept, or have all left in one piece.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Whether it must be put in the list of those that whoever makes progress looks at.
    #[inline]
    pub(super) fn needs_listing(&mut self) -> bool {
        let fresh = self.on && !self.listed;
        self.listed |= fresh;
        fresh
    }

    /// Whoever makes progress comes by: whether partitions are kept, and whether to come again.
    pub(super) fn visit(&mut self) -> (bool, bool) {
        let awaits_first = self.on && (self.timed || self.missing.get() == self.all);
        let keeps = self.on && !awaits_first && self.missing.get() != 0;
        self.listed = awaits_first;
        (keeps, awaits_first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread() -> Instant {
        unreachable!("only timed starts read the clock")
    }

    #[test]
    fn partitions_are_kept_until_one_is_awaited() {
        let mut few = Gathering::new(3, 24);
        assert!(few.begin());
        assert!(few.needs_listing() && !few.needs_listing());
        assert_eq!(few.visit(), (false, true));
        assert!(few.keeps(2) && !few.keeps(2) && !few.keeps(3) && !few.keeps(64));
        assert!(few.keeps_only(2) && !few.keeps_only(1) && !few.keeps_only(64));
        assert!(few.keeps(0) && !few.keeps(1) && few.awaits_only(1) && !few.awaits_only(64));
        assert_eq!(few.visit(), (true, false));
        assert_eq!(few.scatter(), Some((0b101, false)));
        assert!(!few.keeps(1) && few.scatter().is_none());
        assert!(few.begin() && few.keeps(0) && few.keeps(1));
        few.all_ready(unread);
        assert_eq!(few.scatter(), Some((0b111, true)));
        assert!(!Gathering::new(65, 65).begin());
        assert!(Gathering::new(64, 64).begin());
    }

    #[test]
    fn long_ones_are_kept_while_they_come_in_a_row() {
        let bytes = 2 << 20;
        let (mut long, mut now) = (Gathering::new(2, bytes), Instant::now());
        // Each turn has one start that is timed, which takes so long, and those up to the next.
        let short = in_a_row(bytes) - Duration::from_nanos(1);
        for (turn, (takes, kept)) in
            [(short, true), (in_a_row(bytes), false), (Duration::ZERO, true)].into_iter().enumerate()
        {
            assert!(long.begin() && !long.keeps(0), "turn {turn}: the first mark is timed");
            assert_eq!(long.visit(), (false, true));
            long.time(|| now);
            assert!(long.keeps(0));
            now += takes;
            long.all_ready(|| now);
            for start in 1..TIMED {
                assert_eq!(long.begin(), kept, "turn {turn}, start {start}");
                long.time(unread);
                assert_eq!(long.keeps(0), kept, "turn {turn}, start {start}");
                now += Duration::from_secs(1);
                long.all_ready(unread);
                assert_eq!(long.scatter(), kept.then_some((0b11, true)));
            }
        }
    }
}
