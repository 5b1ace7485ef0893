//! The ring that one process sends to us on, and whose turn it is when both send long records.
//!
//! # Turns
//! Between distant cores two processes that send to each other at the same time do best by turns: read one record, put one into
//! the slot that it came in ([`crate::slots`]), whose lines are at hand. Who first writes all that there is room for writes to
//! lines that the other holds, and when the slots have run out to the data area, whose lines the other has just read: those
//! take 30 ns each. So a long record is refused (as if there were no room) while a packet of its receiver waits here, if there
//! is no slot for it or it would be the second since a long one was read; and the long record that was waited for ends a burst
//! of reading. Without any software, a window of 64 messages in both directions moves 3 GB/s between distant cores, and by
//! turns 15 to 26.
//!
//! Near cores lose more by so many turns than they gain. Which ones they are shows in the time that records in the data area take
//! ([`Distance`]); of those that wait for their turn, one in [`PROBE_EVERY`] goes there for that, if there is room.
//!
//! That time is the writing of a record together with what fills it: packing, or reading a buffer that is in no cache. A short
//! one tells that cores are near whatever was in it. A long one tells nothing: only after [`DOUBTFUL`] long ones in a row is a
//! record filled in memory of our own and the copy from there timed alone, and so is every probe. It is these that make cores
//! distant.
//!
//! A record takes its turn when it has left: one that finds no room has not been sent, and waits for nothing more.
//!
//! It is a matter of speed alone. Nobody can wait for each other: only a packet that lies here makes a sender wait, and never
//! for more than [`PATIENCE`] tries, whatever it does in between.

use crate::layout::INLINE_BYTES;
use crate::raw::RawRing;
use crate::ring::{Consumer, Front, LONG_RECORD, RingMemory};
use crate::rounds::distance::Distance;
use crate::slots::{Held, SLOT};
use weft_types::PeerId;

/// Tries after which a long record does not wait for its turn any more: what came in between were short packets only, or nothing
/// was read.
const PATIENCE: u8 = 16;
/// Of so many records that waited for their turn one goes to the data area though there is a slot.
const PROBE_EVERY: u32 = 256;
/// Records in the data area in a row that were slow with what filled them, after which the copy of one is timed alone. It is
/// copied twice: where every record is packed slowly, one in nine.
const DOUBTFUL: u8 = 8;

/// How a record leaves whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// It has not waited.
    AtOnce,
    /// It has waited for its turn.
    Waited,
    /// It has waited, and shall tell how far the process is, though there may be a slot for it.
    Probe,
}

/// One process that sends to us.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) consumer: Consumer<RawRing>,
    /// Slots that came from this sender and are ours now.
    pub(super) slots: Held,
    pub(super) peer: PeerId,
    pub(super) local: u32,
    /// Whether a long record was sent there since the last one was read.
    has_sent: bool,
    /// Tries of a long record that were refused since the last one was sent.
    refused: u8,
    /// Whether a burst of reading has ended for that record since its last try: if it does not come back it was given up.
    was_called: bool,
    /// Records that have waited and left.
    waited: u32,
    /// Records in a row that were slow with what filled them.
    slow: u8,
    /// How far away the process is.
    distance: Distance,
}

impl Inbound {
    pub(super) fn new(consumer: Consumer<RawRing>, peer: PeerId, local: u32) -> Inbound {
        Inbound {
            consumer,
            slots: Held::default(),
            peer,
            local,
            has_sent: false,
            refused: 0,
            was_called: false,
            waited: 0,
            slow: 0,
            distance: Distance::default(),
        }
    }

    /// Gives the oldest packet back; a slot that it came in is ours from now on. As [`Consumer::release`].
    #[inline]
    pub(super) fn release(&mut self, front: Front) -> bool {
        if front.len > INLINE_BYTES {
            let place = self.consumer.memory().record(front.cell).0;
            if place & SLOT != 0 {
                self.slots.put(place);
            }
            self.has_sent &= front.len < LONG_RECORD as usize;
        }
        self.consumer.release(front)
    }

    /// How a long record to this process leaves, if there is room; or none: it must wait until something of it was read.
    #[inline]
    pub(super) fn turn(&mut self) -> Option<Leave> {
        if self.distance.is_far() { self.turn_far_away() } else { Some(Leave::AtOnce) }
    }

    #[inline(never)]
    fn turn_far_away(&mut self) -> Option<Leave> {
        let waits = (self.has_sent || self.slots.is_empty())
            && self.refused < PATIENCE
            && self.consumer.front().is_some();
        if waits {
            self.refused += 1;
            self.was_called = false;
            return None;
        }
        Some(match self.refused {
            0 => Leave::AtOnce,
            _ if self.waited.wrapping_add(1).is_multiple_of(PROBE_EVERY) => Leave::Probe,
            _ => Leave::Waited,
        })
    }

    /// A slot for a record to this process.
    #[inline]
    pub(super) fn take_slot(&mut self, leave: Leave) -> Option<u32> {
        match leave {
            Leave::AtOnce => self.slots.take(),
            Leave::Waited | Leave::Probe => self.slots.take_last(),
        }
    }

    /// A long record has left.
    #[inline]
    pub(super) fn sent(&mut self) {
        self.waited = self.waited.wrapping_add(u32::from(self.refused != 0));
        self.refused = 0;
        self.has_sent = true;
    }

    /// Whether a long record that is written to the data area now shall be filled elsewhere first.
    #[inline]
    pub(super) fn is_timed_alone(&self, leave: Leave) -> bool {
        leave == Leave::Probe || self.slow == DOUBTFUL
    }

    /// A long record has been written to the data area, as slowly as to a distant core or not; `alone`: without what filled it.
    #[inline]
    pub(super) fn learn(&mut self, slow: bool, alone: bool) {
        if slow && !alone {
            self.slow = (self.slow + 1).min(DOUBTFUL);
            return;
        }
        self.distance.learn(slow);
        if !slow || self.distance.is_far() {
            self.slow = 0;
        }
    }

    /// Whether a burst of reading ends, as a long record to this process waits and may leave now that one of its was read. Once
    /// for each of its tries: a send may be given up.
    #[inline]
    pub(super) fn is_our_turn(&mut self) -> bool {
        self.refused != 0 && !self.has_sent && !std::mem::replace(&mut self.was_called, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Waking;
    use crate::transport::{Config, Shm};
    use weft_api::{Handler, Refused, Sink, Transport};
    use weft_types::{ContextId, Rank, Tag};
    use weft_wire::{Header, Kind};

    const A: PeerId = PeerId(0);
    const B: PeerId = PeerId(1);
    const LONG: usize = LONG_RECORD as usize;

    fn header() -> Header {
        Header::new(Kind::Eager, ContextId::WORLD, Rank(0), Tag(1))
    }

    fn send(from: &mut Shm, to: PeerId, len: usize) -> Result<(), Refused> {
        from.send_copy(to, header(), len, |out| out.fill(len as u8))
    }

    struct Drop;

    impl Handler for Drop {
        type Outcome = usize;
        fn handle(self, _: Header, payload: &[u8]) -> (bool, usize) {
            assert!(payload.iter().all(|&byte| byte == payload.len() as u8));
            (true, payload.len())
        }
    }

    #[derive(Default)]
    struct Count(u32);

    impl Sink for Count {
        type Outcome = ();
        fn begin(&mut self, _: PeerId) -> std::ops::ControlFlow<()> {
            std::ops::ControlFlow::Continue(())
        }
        fn take(&mut self, _: Header, _: &[u8]) -> std::ops::ControlFlow<()> {
            self.0 += 1;
            std::ops::ControlFlow::Continue(())
        }
    }

    /// Two processes that have heard of each other; the first takes the second for a distant one.
    fn distant() -> (Shm, Shm) {
        let file = crate::create().expect("a memory file");
        let [mut a, mut b] = [0, 1].map(|local| {
            let (file, peers) = (file.try_clone().expect("a descriptor"), vec![A, B]);
            Shm::attach(Config { file, local, peers, single_copy: false, waking: Waking::Membarrier })
                .expect("attached")
        });
        a.connect(B).expect("connected");
        b.connect(A).expect("connected");
        a.progress();
        b.progress();
        a.active[0].distance = Distance::far();
        (a, b)
    }

    #[test]
    fn both_send_by_turns() {
        let (mut a, mut b) = distant();
        assert_eq!(send(&mut a, B, LONG), Ok(()), "nothing waits");
        for _ in 0..4 {
            assert_eq!(send(&mut b, A, LONG), Ok(()));
        }
        for _ in 0..4 {
            assert_eq!(send(&mut a, B, LONG), Err(Refused::Full));
            assert_eq!(send(&mut a, B, LONG - 1), Ok(()), "short ones do not wait");
            let mut count = Count::default();
            assert!(a.poll(32, &mut 32, &mut count).is_none());
            assert_eq!(count.0, 1, "then it is our turn");
            assert_eq!(send(&mut a, B, LONG), Ok(()));
            assert!(a.active[0].slots.is_empty(), "it left in the slot that has come");
        }
        assert_eq!(send(&mut a, B, LONG), Ok(()), "nothing waits any more");
        for len in std::iter::once(LONG).chain([LONG - 1, LONG].into_iter().cycle().take(8)).chain([LONG]) {
            assert_eq!(b.receive(A, Drop), Some(len));
        }
    }

    #[test]
    fn only_what_waits_here_makes_a_sender_wait_and_not_for_ever() {
        let (mut a, mut b) = distant();
        assert_eq!(send(&mut b, A, 8), Ok(()));
        for _ in 0..PATIENCE {
            assert_eq!(send(&mut a, B, LONG), Err(Refused::Full));
        }
        assert_eq!(send(&mut a, B, LONG), Ok(()), "though nothing was read");
        assert_eq!(send(&mut a, B, LONG), Err(Refused::Full), "the next one waits again");
        assert_eq!(a.receive(B, Drop), Some(8));
        for _ in 0..20 {
            assert_eq!(send(&mut a, B, LONG), Ok(()), "nothing waits");
        }
        a.active[0].distance = Distance::default();
        assert_eq!(send(&mut b, A, LONG), Ok(()));
        assert_eq!(send(&mut a, B, LONG), Ok(()), "near ones take no turns");
    }

    #[test]
    fn a_record_that_found_no_room_has_taken_no_turn() {
        let (mut a, mut b) = distant();
        for len in [LONG, 8] {
            assert_eq!(send(&mut b, A, len), Ok(()));
        }
        assert_eq!(a.receive(B, Drop), Some(LONG));
        let sent = (0..).take_while(|_| send(&mut a, B, 8).is_ok()).count();
        for _ in 0..2 * PATIENCE {
            assert_eq!(send(&mut a, B, LONG), Err(Refused::Full), "no cell");
        }
        (0..sent).for_each(|_| assert_eq!(b.receive(A, Drop), Some(8)));
        assert_eq!(send(&mut a, B, LONG), Ok(()), "it leaves in the slot that has come, at its first try");
        assert_eq!(send(&mut a, B, LONG), Err(Refused::Full), "that was its turn");
    }

    #[test]
    fn a_probe_that_finds_no_room_leaves_in_a_slot() {
        let (mut a, mut b) = distant();
        let most = a.layout().max_copy as usize;
        for _ in 0..a.layout().slots {
            assert_eq!(send(&mut a, B, most), Ok(()), "in a new slot");
            assert_eq!(b.receive(A, Drop), Some(most));
        }
        while send(&mut a, B, most).is_ok() {}
        while send(&mut a, B, LONG).is_ok() {}
        assert_eq!(send(&mut a, B, 8), Ok(()), "there are cells");
        assert_eq!(send(&mut b, A, LONG), Ok(()));
        a.active[0].waited = PROBE_EVERY - 1;
        assert_eq!(send(&mut a, B, LONG), Err(Refused::Full), "it waits for its turn");
        assert_eq!(a.receive(B, Drop), Some(LONG));
        assert_eq!(send(&mut a, B, LONG), Ok(()));
        assert!(a.active[0].slots.is_empty());
        assert_eq!(a.active[0].waited, PROBE_EVERY);
    }

    #[test]
    fn a_send_that_was_given_up_ends_one_burst() {
        let (mut a, mut b) = distant();
        assert_eq!(send(&mut a, B, LONG), Ok(()), "nothing waits");
        for _ in 0..8 {
            assert_eq!(send(&mut b, A, LONG), Ok(()));
        }
        assert_eq!(send(&mut a, B, LONG), Err(Refused::Full));
        for expected in [1, 7] {
            let mut count = Count::default();
            assert!(a.poll(32, &mut 32, &mut count).is_none());
            assert_eq!(count.0, expected);
        }
    }

    #[test]
    fn only_records_timed_alone_make_cores_distant() {
        let (mut a, b) = distant();
        let inbound = &mut a.active[0];
        inbound.distance = Distance::default();
        for _ in 0..100 {
            (0..DOUBTFUL).for_each(|_| {
                assert!(!inbound.is_timed_alone(Leave::AtOnce));
                inbound.learn(true, false);
            });
            assert!(inbound.is_timed_alone(Leave::AtOnce));
            inbound.learn(false, true);
        }
        assert!(!inbound.distance.is_far(), "only what filled them was slow");
        (0..DOUBTFUL).for_each(|_| inbound.learn(true, false));
        for _ in 0..3 {
            inbound.learn(true, true);
            assert!(inbound.is_timed_alone(Leave::AtOnce) && !inbound.distance.is_far());
        }
        inbound.learn(true, true);
        assert!(inbound.distance.is_far());
        (0..100).for_each(|_| inbound.learn(false, false));
        assert!(!inbound.distance.is_far(), "short times tell");
        drop(b);
    }

    #[test]
    fn a_record_in_new_memory_tells_nothing() {
        let (mut a, mut b) = distant();
        let (mut next, mut told) = (0, 0);
        while told == 0 {
            // No slot is left, and the memory of the data area lasts for a while.
            while a.outbound(B).producer.place(LONG).is_none() {
                assert_eq!(b.receive(A, Drop), Some(LONG));
            }
            while a.slot(B, LONG, Leave::AtOnce).is_some() {}
            let offset = a.outbound(B).producer.place(LONG).expect("room").offset;
            (a.active[0].distance, a.active[0].slow) = (Distance::default(), DOUBTFUL - 1);
            assert_eq!(send(&mut a, B, LONG), Ok(()));
            if offset < next {
                told += u32::from(a.active[0].slow != DOUBTFUL - 1);
                assert_eq!(told, 1, "what was slow is one more of these, and what was quick ends them");
            } else {
                assert_eq!(a.active[0].slow, DOUBTFUL - 1);
                next = offset + LONG as u32;
            }
        }
        assert!(next > 2 * LONG as u32, "nothing was new but the first");
    }

    #[test]
    fn now_and_then_a_record_that_has_waited_tells_how_far_it_is() {
        let (mut a, mut b) = distant();
        let mut probes = 0;
        for _ in 0..2 * PROBE_EVERY {
            assert_eq!(send(&mut b, A, LONG), Ok(()));
            // Whatever the probes say here.
            a.active[0].distance = Distance::far();
            a.active[0].has_sent = true;
            assert_eq!(send(&mut a, B, LONG), Err(Refused::Full));
            assert_eq!(a.receive(B, Drop), Some(LONG));
            assert_eq!(send(&mut a, B, LONG), Ok(()));
            probes += u32::from(!a.active[0].slots.is_empty());
            while a.active[0].slots.take().is_some() {}
            assert_eq!(b.receive(A, Drop), Some(LONG));
        }
        assert_eq!(probes, 2);
    }
}
