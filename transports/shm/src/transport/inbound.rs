//! The ring that one process sends to us on, and whose turn it is when both send long records.
//!
//! # Turns
//! Between distant cores two processes that send to each other at the same time do best by turns: read one record, put one into the slot that it
//! came in ([`crate::slots`]), whose lines are at hand. Who first writes all that there is room for writes to lines that the other
//! holds, and when the slots have run out to the data area, whose lines the other has just read: those take 30 ns each. So a long
//! record is refused (as if there were no room) while a packet of its receiver waits here, if there is no slot for it or it would be the
//! second since a long one was read; and the long record that was waited for ends a burst of reading. Without any software, a window of 64
//! messages in both directions moves 3 GB/s between distant cores, and by turns 15 to 26.
//!
//! Near cores lose more by so many turns than they gain. Which ones they are shows in the time that records in the data area take
//! ([`Distance`]); of those that wait for their turn, one in [`PROBE_EVERY`] goes there for that.
//!
//! It is a matter of speed alone. Nobody can wait for each other: only a packet that lies here makes a sender wait, and never for more
//! than [`PATIENCE`] tries, whatever it does in between.

use crate::layout::INLINE_BYTES;
use crate::raw::RawRing;
use crate::ring::{Consumer, Front, LONG_RECORD, RingMemory};
use crate::rounds::distance::{Distance, Writing};
use crate::slots::{Held, SLOT};
use weft_types::PeerId;

/// Tries after which a long record does not wait for its turn any more: what came in between were short packets only, or nothing
/// was read.
const PATIENCE: u8 = 16;
/// Of so many records that waited for their turn one goes to the data area though there is a slot.
const PROBE_EVERY: u32 = 256;

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
    /// Whether the record that is sent next has waited for its turn.
    has_waited: bool,
    /// Records that have waited.
    waited: u32,
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
            has_waited: false,
            waited: 0,
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

    /// Whether a long record to this process must wait until something of it was read.
    #[inline]
    pub(super) fn is_its_turn(&mut self) -> bool {
        self.distance.is_far() && self.is_its_turn_far_away()
    }

    #[inline(never)]
    fn is_its_turn_far_away(&mut self) -> bool {
        let waits = (self.has_sent || self.slots.is_empty())
            && self.refused < PATIENCE
            && self.consumer.front().is_some();
        if waits {
            self.refused += 1;
        } else {
            self.has_waited = self.refused != 0;
            self.waited = self.waited.wrapping_add(u32::from(self.has_waited));
            self.refused = 0;
            self.has_sent = true;
        }
        waits
    }

    /// Whether the record that is sent now shall tell how far the process is, though there may be a slot for it.
    #[inline]
    pub(super) fn is_probe(&self) -> bool {
        self.has_waited && self.waited.is_multiple_of(PROBE_EVERY)
    }

    /// A slot for a record to this process.
    #[inline]
    pub(super) fn take_slot(&mut self) -> Option<u32> {
        match std::mem::take(&mut self.has_waited) {
            true => self.slots.take_last(),
            false => self.slots.take(),
        }
    }

    /// A long record has been written to the data area.
    #[inline]
    pub(super) fn learn(&mut self, writing: Writing) {
        self.has_waited = false;
        self.distance.end(writing);
        if !self.distance.is_far() {
            self.refused = 0;
        }
    }

    /// Whether a long record to this process waits, and may leave now that one of its was read.
    #[inline]
    pub(super) fn is_our_turn(&self) -> bool {
        self.refused != 0 && !self.has_sent
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
