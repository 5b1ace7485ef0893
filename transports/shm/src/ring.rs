//! The protocol of one ring: a single producer, a single consumer, no read-modify-write.
//!
//! A ring is a circle of *cells* for control and small payloads and a *data area* for larger ones. This module
//! decides who may touch what; the memory itself is behind [`RingMemory`], so the very same code runs over
//! shared memory ([`crate::raw`]) and under the loom model checker (`tests/loom_ring.rs`).
//!
//! # Memory ordering
//! - Cell `i` holds a *stamp*: the low half is the sequence number of the packet, plus one; the upper half its
//!   length. The producer writes everything else of the packet first and stores the stamp last, with Release;
//!   the consumer loads it with Acquire and touches the packet only when the sequence number is the one it
//!   waits for. So every plain read of the consumer happens after the plain writes it reads (rule A). Stamps of
//!   earlier laps differ by a multiple of the number of cells, so nothing is ever cleared.
//! - The consumer publishes how far it has come (cells and data bytes in one word, *heads*) with Release, after
//!   its last read of what it gives back; the producer loads it with Acquire before it writes there again. So
//!   no write of the producer races with a read of the consumer (rule B). The producer keeps a copy and
//!   looks again only when the copy says "full"; an old copy errs to the safe side, for heads only grow.
//! - Until it is reported, what was consumed is the consumer's to write, too: it stores to the lines of records that will soon be
//!   written again ([`RingMemory::own`]) after its last read of them and before it reports them, so rule B orders these stores
//!   before the producer's like its reads.
//! - Sequence numbers and byte counts are 32 bits and wrap; what is in flight is far below 2^31, so differences are
//!   exact.
//!
//! # The data area
//! Records are contiguous and 64-byte aligned. The producer alone chooses their place and writes it into the cell, with the
//! byte count that the consumer reports back when it is done (skipped bytes at the end of the area included). A fresh ring
//! begins with a small part of the area backed by memory and takes in more (`grow`) as a lap comes to its end, so memory is
//! there only for pairs that send larger messages. Growing while something in flight lies behind `offset` would be wrong, as a
//! wrap's skipped bytes are counted against the old end: it grows only when all that is in flight lies before, in the first lap
//! or after the area was empty.
//!
//! Short records wrap at [`SHORT_LAP`] already, to stay in the nearest caches; the rest of the area is skipped, and counted,
//! like any other skip. Records of [`LONG_RECORD`] and more use the whole area: a lap of long records that fits the sender's
//! cache comes back to lines that both cores hold, with the writer as their owner, and on many machines those are the slowest
//! to write (cores of one cache: 8.7 GB/s in laps of 256 KiB, 40 in laps of 2 MiB; far cores: 2.2). It is not so where the
//! reader was the last to write to a line. Hence, where laps are short, the consumer does ([`RingMemory::own`]): 18 GB/s in
//! records of 1 KiB, 33 of 4 KiB. Beyond the cache its stores cost more than they save (16 KiB: 42 GB/s without, 32 with them).

use crate::layout::{INLINE_BYTES, RECORD_ALIGN};
use crate::shuttle::{SHUTTLE, Shuttle, is_for_the_ring};
use crate::slots::SLOT;
use std::sync::Arc;

/// The memory of a ring, seen from both ends.
pub trait RingMemory {
    /// Loads a cell's stamp, with Acquire.
    fn stamp(&self, cell: u32) -> u64;
    /// Loads the shuttle's stamp, with Acquire.
    fn shuttle_stamp(&self) -> u64;
    /// Stores the shuttle's stamp, with Release.
    fn set_shuttle_stamp(&self, stamp: u64);
    /// Has the processor fetch a cell's first line, if it can.
    fn prefetch(&self, cell: u32) {
        let _ = cell;
    }
    /// Stores a cell's stamp, with Release.
    fn set_stamp(&self, cell: u32, stamp: u64);
    /// Loads the consumer's heads, with Acquire.
    fn heads(&self) -> u64;
    /// Stores the consumer's heads, with Release.
    fn set_heads(&self, heads: u64);
    /// Keeps a store before it and a load after it in order, as far as a sleeper can tell (see [`crate::bell`]).
    fn light_barrier(&self);
    /// Loads the producer's wish to be woken when there is room (relaxed; ordered by the light barrier).
    fn wants_room(&self) -> bool;
    /// Stores that wish (relaxed).
    fn set_wants_room(&self, wants: bool);
    /// Loads the record's place from a cell whose stamp was seen: (offset, byte count after it).
    fn record(&self, cell: u32) -> (u32, u32);
    /// Stores to every line of a record of `len` bytes in the data area, which the consumer is done with and has not reported:
    /// the producer fetches lines from there sooner than it regains those that it owns and others have copies of.
    fn own(&self, offset: u32, len: usize);
    /// Takes in more of the data area, `at_least` bytes in total; answers how much is usable now: at least that, or
    /// `limit` when no more is to be had, then and ever after.
    fn grow(&mut self, limit: u32, at_least: u32) -> u32;
}

/// Bytes of the data area after which short records begin anew.
pub const SHORT_LAP: u32 = 256 << 10;
/// Bytes of a record from which on it uses the whole data area.
pub const LONG_RECORD: u32 = 16 << 10;

/// The sending end.
#[derive(Debug)]
pub struct Producer<M> {
    memory: M,
    mask: u32,
    /// Sequence number of the next packet.
    next: u32,
    /// Copy of the consumer's cell head.
    cell_head: u32,
    /// Bytes of the data area taken so far, skips included.
    tail: u32,
    /// Copy of the consumer's data head, in the same count.
    data_head: u32,
    /// Where the next record would begin.
    offset: u32,
    /// Usable bytes of the data area.
    limit: u32,
    /// Whether something in flight may lie behind `offset`.
    wrapped: bool,
    /// Whether the area may still grow.
    grows: bool,
    wants_room: bool,
    /// The line that goes to and fro between the two processes ([`crate::shuttle`]).
    shuttle: Option<Arc<Shuttle>>,
}

/// A place for a payload in the data area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// First byte in the data area.
    pub offset: u32,
    /// Byte count after the record: what the consumer reports when it is done.
    pub end: u32,
}

/// The next cell, free to be written.
#[derive(Clone, Copy, Debug)]
pub struct FreeCell {
    /// Index of the cell.
    pub cell: u32,
    /// Sequence number of the packet.
    next: u32,
}

impl<M: RingMemory> Producer<M> {
    /// The sending end of a fresh ring of `cells` cells (a power of two) with `limit` usable data bytes.
    pub fn new(memory: M, cells: u32, limit: u32) -> Producer<M> {
        assert!(cells.is_power_of_two(), "{cells} cells");
        Producer {
            memory,
            mask: cells - 1,
            next: 0,
            cell_head: 0,
            tail: 0,
            data_head: 0,
            offset: 0,
            limit,
            wrapped: false,
            grows: true,
            wants_room: false,
            shuttle: None,
        }
    }

    /// Gives this end its shuttle; the receiver has, or gets before it looks for the first packet, that of the same line.
    pub fn share(&mut self, shuttle: Arc<Shuttle>) {
        self.shuttle = Some(shuttle);
    }

    #[cfg(test)]
    pub(crate) fn has_shuttle_here(&self) -> bool {
        self.shuttle.as_ref().is_some_and(|shuttle| !shuttle.is_away())
    }

    /// The memory.
    #[inline]
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory, to write what the producer may write.
    #[inline]
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The next free cell, or `None` when the ring is full. By rule B the caller may write the cell until
    /// [`Producer::publish`].
    #[inline]
    pub fn cell(&mut self) -> Option<u32> {
        if self.next.wrapping_sub(self.cell_head) > self.mask && !self.cell_after_reload() {
            return None;
        }
        Some(self.next & self.mask)
    }

    /// As [`Producer::cell`], from the copy of the consumer's head alone.
    #[inline(always)]
    pub fn cell_at_hand(&self) -> Option<FreeCell> {
        let next = self.next;
        (next.wrapping_sub(self.cell_head) <= self.mask).then_some(FreeCell { cell: next & self.mask, next })
    }

    /// Whether the packet of `len` bytes for which [`Producer::cell_at_hand`] gave a cell just now shall leave in the shuttle instead,
    /// which the caller may write then (rule C of [`crate::shuttle`]) until [`Producer::publish_in_shuttle`]. To be asked
    /// once for a packet.
    #[inline(always)]
    pub fn leaves_in_shuttle(&self, free: FreeCell, len: usize) -> bool {
        match &self.shuttle {
            Some(shuttle) => shuttle.leaves(len, free.next) && !is_for_the_ring(free.next, self.mask),
            None => false,
        }
    }

    /// As [`Producer::publish`], of the cell that [`Producer::cell_at_hand`] gave just now.
    #[inline(always)]
    pub fn publish_at_hand(&mut self, free: FreeCell, len: usize) {
        let next = free.next.wrapping_add(1);
        self.next = next;
        self.memory.set_stamp(free.cell, ((len as u64) << 32) | u64::from(next));
    }

    /// As [`Producer::publish_at_hand`], of the shuttle, now filled, in place of the cell, by one who has received so many packets
    /// from the other process.
    #[inline]
    pub fn publish_in_shuttle(&mut self, free: FreeCell, len: usize, received: u32) {
        let Some(shuttle) = &self.shuttle else { unreachable!("it leaves in the shuttle") };
        let next = free.next.wrapping_add(1);
        self.next = next;
        self.memory.set_shuttle_stamp(shuttle.stamp(next, len, received));
        shuttle.left();
    }

    /// Room for `len` bytes in the data area, or `None` when it is full. By rule B the caller may write it until
    /// [`Producer::publish`]. Nothing is taken before [`Producer::take`].
    #[inline]
    pub fn place(&mut self, len: usize) -> Option<Place> {
        let record = record_bytes(len);
        let used = self.tail.wrapping_sub(self.data_head);
        if self.offset + record <= self.lap(record) && used + record <= self.limit {
            return Some(Place { offset: self.offset, end: self.tail.wrapping_add(record) });
        }
        self.place_slowly(record)
    }

    /// Takes the room that [`Producer::place`] found.
    #[inline]
    pub fn take(&mut self, place: Place, len: usize) {
        self.tail = place.end;
        self.offset = place.offset + record_bytes(len);
    }

    /// The place of a record in a slot of this end's ([`crate::slots`]), which takes nothing of the data area.
    #[inline]
    pub fn place_in_slot(&self, slot: u32) -> Place {
        Place { offset: slot, end: self.tail }
    }

    /// Publishes the cell that [`Producer::cell`] gave, now filled (rule A), with a payload of `len` bytes.
    #[inline]
    pub fn publish(&mut self, len: usize) {
        let cell = self.next & self.mask;
        self.next = self.next.wrapping_add(1);
        self.memory.set_stamp(cell, ((len as u64) << 32) | u64::from(self.next));
    }

    #[cold]
    fn cell_after_reload(&mut self) -> bool {
        self.reload();
        let room = self.next.wrapping_sub(self.cell_head) <= self.mask;
        self.note_room(room);
        room
    }

    /// Where a record of that length wraps.
    #[inline(always)]
    fn lap(&self, record: u32) -> u32 {
        match record < LONG_RECORD {
            true => self.limit.min(SHORT_LAP),
            // The slow way looks whether the area has become empty and may grow.
            false if self.wrapped && self.grows => 0,
            false => self.limit,
        }
    }

    #[cold]
    fn place_slowly(&mut self, record: u32) -> Option<Place> {
        self.reload();
        let used = self.tail.wrapping_sub(self.data_head);
        self.wrapped &= used != 0;
        let wants_more = record >= LONG_RECORD || self.limit < SHORT_LAP;
        if self.offset + record > self.limit && wants_more && !self.wrapped {
            let grown = self.memory.grow(self.limit, self.offset + record);
            self.grows = grown != self.limit;
            self.limit = grown;
        }
        let lap = if record < LONG_RECORD { self.limit.min(SHORT_LAP) } else { self.limit };
        let after = |skip: u32, offset| {
            (used + skip + record <= self.limit)
                .then(|| Place { offset, end: self.tail.wrapping_add(skip + record) })
        };
        let here = |lap: u32| if self.offset + record <= lap { after(0, self.offset) } else { None };
        let mut place = here(lap);
        if place.is_none() && self.offset + record > lap {
            place = after(self.limit.saturating_sub(self.offset), 0);
            match place {
                Some(_) => self.wrapped = true,
                // Behind long records in flight there is still room.
                None => place = here(self.limit),
            }
        }
        if place.is_none() && used == 0 && record <= self.limit {
            // Nobody reads anything any more, so what a wrap leaves over at the end is nobody's: without this an area that
            // cannot grow would refuse for ever what is longer than either part of it.
            self.wrapped = false;
            place = Some(Place { offset: 0, end: self.tail.wrapping_add(record) });
        }
        self.note_room(place.is_some());
        place
    }

    fn reload(&mut self) {
        let heads = self.memory.heads();
        self.cell_head = heads as u32;
        self.data_head = (heads >> 32) as u32;
    }

    /// Keeps the consumer informed whether somebody waits for room.
    fn note_room(&mut self, room: bool) {
        if self.wants_room == room {
            self.wants_room = !room;
            self.memory.set_wants_room(!room);
        }
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Consumer<M> {
    memory: M,
    mask: u32,
    /// Sequence number of the next packet.
    next: u32,
    data_head: u32,
    /// The heads as last published.
    published_next: u32,
    published_data: u32,
    /// Consumed data bytes after which the producer is told at once.
    report: u32,
    /// Bytes of the shortest record whose lines are left to the producer, as its lap is longer than a cache.
    left: usize,
    shuttle: Option<Arc<Shuttle>>,
}

/// A packet that waits: its cell and the length of its payload in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Index of the cell, or [`SHUTTLE`].
    pub cell: u32,
    /// Payload length.
    pub len: usize,
}

impl<M: RingMemory> Consumer<M> {
    /// The receiving end of a fresh ring of `cells` cells (a power of two) and `data_bytes` bytes of data area: what was
    /// consumed is reported when it is a quarter of either (at most of a short lap), or when the ring is empty.
    pub fn new(memory: M, cells: u32, data_bytes: u32) -> Consumer<M> {
        assert!(cells.is_power_of_two(), "{cells} cells");
        Consumer {
            memory,
            mask: cells - 1,
            next: 0,
            data_head: 0,
            published_next: 0,
            published_data: 0,
            report: (data_bytes.min(SHORT_LAP) / 4).max(1),
            left: if data_bytes > SHORT_LAP { LONG_RECORD as usize } else { usize::MAX },
            shuttle: None,
        }
    }

    /// Gives this end its shuttle.
    pub fn share(&mut self, shuttle: Arc<Shuttle>) {
        self.shuttle = Some(shuttle);
    }

    /// The memory.
    #[inline]
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory, to tell it something.
    #[inline]
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The oldest packet; by rule A (rule C in the shuttle) it may be read until [`Consumer::release`].
    #[inline]
    pub fn front(&self) -> Option<Front> {
        self.look(false)
    }

    /// As [`Consumer::front`], for one who waits for nothing else: with a pause of some 0.1 us at most where an answer is about to come.
    #[inline]
    pub fn awaited_front(&self) -> Option<Front> {
        self.look(true)
    }

    #[inline(always)]
    fn look(&self, pauses: bool) -> Option<Front> {
        if let Some(front) = self.front_in_ring() {
            return Some(front);
        }
        match &self.shuttle {
            Some(shuttle) if shuttle.is_away() => self.look_into(shuttle, pauses),
            _ => None,
        }
    }

    #[inline(always)]
    fn front_in_ring(&self) -> Option<Front> {
        let cell = self.next & self.mask;
        let stamp = self.memory.stamp(cell);
        (stamp as u32 == self.next.wrapping_add(1)).then_some(Front { cell, len: (stamp >> 32) as usize })
    }

    #[inline(never)]
    fn look_into(&self, shuttle: &Shuttle, pauses: bool) -> Option<Front> {
        if pauses && shuttle.pause(|| self.front_in_ring().is_some()) {
            return self.front_in_ring();
        }
        let len = shuttle.brings(self.memory.shuttle_stamp(), self.next.wrapping_add(1))?;
        Some(Front { cell: SHUTTLE, len })
    }

    /// Has the processor fetch the cell behind the oldest packet's.
    #[inline]
    pub fn prefetch_next(&self) {
        self.memory.prefetch(self.next.wrapping_add(1) & self.mask);
    }

    /// Whether there is no packet and nothing to report; `pauses`: for one who waits for nothing else, as
    /// [`Consumer::awaited_front`].
    #[inline]
    pub fn is_idle(&self, pauses: bool) -> bool {
        self.next == self.published_next && self.look(pauses).is_none()
    }

    /// Gives the oldest packet back. True when the producer waits for room and should be woken.
    ///
    /// Must follow a [`Consumer::front`] that showed it.
    #[inline]
    pub fn release(&mut self, front: Front) -> bool {
        if front.len > INLINE_BYTES {
            let (place, end) = self.memory.record(front.cell);
            if front.len < self.left && place & SLOT == 0 {
                self.memory.own(place, front.len);
            }
            self.data_head = end;
        }
        self.next = self.next.wrapping_add(1);
        if front.cell == SHUTTLE
            && let Some(shuttle) = &self.shuttle
        {
            shuttle.came();
        }
        let cells = self.next.wrapping_sub(self.published_next);
        let bytes = self.data_head.wrapping_sub(self.published_data);
        (cells > self.mask / 4 || bytes >= self.report) && self.publish_heads()
    }

    /// How many packets were received, modulo 2^32.
    #[inline]
    pub fn received(&self) -> u32 {
        self.next
    }

    /// Whether something consumed has not been reported yet.
    #[inline]
    pub fn owes_heads(&self) -> bool {
        self.next != self.published_next
    }

    /// Reports all that is consumed (rule B). True when the producer waits for room and should be woken.
    #[inline]
    pub fn publish_heads(&mut self) -> bool {
        self.published_next = self.next;
        self.published_data = self.data_head;
        self.memory.set_heads((u64::from(self.data_head) << 32) | u64::from(self.next));
        self.memory.light_barrier();
        self.memory.wants_room()
    }
}

/// Bytes that a payload of `len` bytes takes in the data area.
#[inline]
fn record_bytes(len: usize) -> u32 {
    (len as u32).next_multiple_of(RECORD_ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    /// A ring without bytes: what both ends say to each other.
    #[derive(Debug)]
    struct Words {
        heads: Rc<Cell<u64>>,
        whole: u32,
    }

    impl RingMemory for Words {
        fn stamp(&self, _: u32) -> u64 {
            0
        }
        fn set_stamp(&self, _: u32, _: u64) {}
        fn shuttle_stamp(&self) -> u64 {
            0
        }
        fn set_shuttle_stamp(&self, _: u64) {}
        fn heads(&self) -> u64 {
            self.heads.get()
        }
        fn set_heads(&self, heads: u64) {
            self.heads.set(heads);
        }
        fn light_barrier(&self) {}
        fn wants_room(&self) -> bool {
            false
        }
        fn set_wants_room(&self, _: bool) {}
        fn record(&self, _: u32) -> (u32, u32) {
            (0, 0)
        }
        fn own(&self, _: u32, _: usize) {}
        fn grow(&mut self, limit: u32, at_least: u32) -> u32 {
            if at_least > self.whole { limit } else { at_least.max(2 * limit).min(self.whole) }
        }
    }

    /// Records of all lengths, some behind others: none lies over one in flight, short ones keep to the short lap when they
    /// can, long ones come to use the whole area, and an empty ring has room for any.
    #[test]
    fn records_never_overlap_whatever_their_lengths() {
        let (farthest, beyond) = records_in(2 << 20, 32 << 10);
        assert_eq!(beyond, 0, "short records alone stay in the short lap");
        assert!(cfg!(miri) || farthest > (2 << 20) - (64 << 10), "long ones use all: {farthest}");
    }

    /// The kernel may have no more memory for it.
    #[test]
    fn areas_that_cannot_grow_take_any_record_once_they_are_empty() {
        records_in(36_608, 36_608);
        records_in(20_224, 20_224);
    }

    /// An area of `limit` bytes that may grow to `whole`: the farthest end of a record, and how many short ones went beyond the
    /// short lap.
    fn records_in(whole: u32, limit: u32) -> (u32, u32) {
        let heads = Rc::new(Cell::new(0));
        let mut producer = Producer::new(Words { heads: Rc::clone(&heads), whole }, 4, limit);
        let mut flying: VecDeque<(u32, u32, u32)> = VecDeque::new();
        let (mut state, mut farthest, mut beyond) = (0x9e37_79b9_u64, 0, 0);
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for turn in 0..if cfg!(miri) { 2_000 } else { 200_000 } {
            // Seasons of short records, of long ones and of both, with few or many in flight.
            let len = match turn / 5_000 % 3 {
                0 => 105 + draw(8_000),
                1 => 16_384 + draw(16_384),
                _ => 105 + draw(32_000),
            }
            .min(u64::from(limit) - 64) as usize;
            let room = producer.place(len);
            assert!(room.is_some() || !flying.is_empty(), "an empty ring takes {len} bytes");
            if let Some(place) = room {
                let end = place.offset + record_bytes(len);
                assert!(end <= whole);
                assert!(
                    flying.iter().all(|&(begin, over, _)| end <= begin || over <= place.offset),
                    "{place:?}"
                );
                producer.take(place, len);
                flying.push_back((place.offset, end, place.end));
                farthest = farthest.max(end);
                beyond += u32::from(turn > 100 && turn < 5_000 && end > SHORT_LAP + (32 << 10));
            }
            while flying.len() > draw(90) as usize || room.is_none() && !flying.is_empty() {
                let (_, _, end) = flying.pop_front().expect("not empty");
                heads.set(u64::from(end) << 32);
                if draw(4) == 0 {
                    break;
                }
            }
        }
        (farthest, beyond)
    }

    /// Cells without payloads, and the shuttle: what both directions of two processes say.
    #[derive(Clone, Debug)]
    struct Stamps {
        cells: Rc<[Cell<u64>]>,
        heads: Rc<Cell<u64>>,
        shuttle: Rc<Cell<u64>>,
    }

    impl RingMemory for Stamps {
        fn stamp(&self, cell: u32) -> u64 {
            self.cells[cell as usize].get()
        }
        fn set_stamp(&self, cell: u32, stamp: u64) {
            self.cells[cell as usize].set(stamp);
        }
        fn shuttle_stamp(&self) -> u64 {
            self.shuttle.get()
        }
        fn set_shuttle_stamp(&self, stamp: u64) {
            self.shuttle.set(stamp);
        }
        fn heads(&self) -> u64 {
            self.heads.get()
        }
        fn set_heads(&self, heads: u64) {
            self.heads.set(heads);
        }
        fn light_barrier(&self) {}
        fn wants_room(&self) -> bool {
            false
        }
        fn set_wants_room(&self, _: bool) {}
        fn record(&self, _: u32) -> (u32, u32) {
            unreachable!("all are short")
        }
        fn own(&self, _: u32, _: usize) {}
        fn grow(&mut self, limit: u32, _: u32) -> u32 {
            limit
        }
    }

    /// What is left in a cell by the packet of 2^32 packets before is never taken for one, though the shuttle skips cells; answers
    /// go on in it after that.
    #[test]
    fn no_packet_comes_twice_when_sequence_numbers_come_round() {
        const CELLS: u32 = 8;
        let shuttle = Rc::new(Cell::new(0));
        // Every cell has the stamp that is awaited there in the first lap from 0 on.
        let [there, back] = [(), ()].map(|()| Stamps {
            cells: (1..=u64::from(CELLS)).map(|stamp| Cell::new(3 << 32 | stamp)).collect(),
            heads: Rc::new(Cell::new(0)),
            shuttle: Rc::clone(&shuttle),
        });
        let begin = 0u32.wrapping_sub(64);
        let mut ends = [(&there, &back, false), (&back, &there, true)].map(|(out, inward, second)| {
            let shuttle = Arc::new(Shuttle::new(second));
            let mut producer = Producer::new(out.clone(), CELLS, 0);
            let mut consumer = Consumer::new(inward.clone(), CELLS, 0);
            (producer.next, producer.cell_head) = (begin, begin);
            (consumer.next, consumer.published_next) = (begin, begin);
            out.heads.set(u64::from(begin));
            producer.share(Arc::clone(&shuttle));
            consumer.share(shuttle);
            (producer, consumer)
        });
        let (turns, mut left) = (600, 0);
        for turn in 0..turns {
            let (from, to) = (turn % 2, 1 - turn % 2);
            assert_eq!(ends[to].1.front(), None, "turn {turn}");
            assert!(ends[from].0.cell().is_some());
            let free = ends[from].0.cell_at_hand().expect("a cell");
            if ends[from].0.leaves_in_shuttle(free, 8) {
                let received = ends[from].1.received();
                ends[from].0.publish_in_shuttle(free, 8, received);
                left += 1;
            } else {
                ends[from].0.publish_at_hand(free, 8);
            }
            let front = ends[to].1.front().expect("it is here");
            assert_eq!(front.len, 8);
            assert!(!ends[to].1.is_idle(false));
            ends[to].1.release(front);
        }
        assert_eq!(
            left,
            turns - 2 * CELLS as usize,
            "the last lap before goes by the rings, all else in the shuttle"
        );
    }
}
