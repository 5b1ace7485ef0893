//! A ring in shared memory: the unsafe half of [`crate::ring`].
//!
//! Control words are atomics. Payload and envelope are plain memory, written and read only by whom rules A and B
//! of [`crate::ring`] allow at that moment; that is the argument of every block here, together with the bounds that
//! the constructor's caller promises.

use crate::layout::{CELL_BYTES, INLINE_BYTES, LINES_BYTES, Layout, RECORD_ALIGN};
use crate::ring::{Place, RingMemory};
use crate::slots::{SLOT, TWIN};
use crate::{demote, fetch};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
use weft_api::shares::Shares;

/// A pair of cache lines that carries a packet's stamp, its envelope and a small payload.
#[repr(C, align(128))]
struct Cell {
    stamp: AtomicU64,
    envelope: UnsafeCell<[u64; 2]>,
    payload: UnsafeCell<[u8; INLINE_BYTES]>,
}

/// The control words of a ring, one line for each writer.
#[repr(C, align(128))]
struct Lines {
    heads: AtomicU64,
    wants_room: Wish,
}

#[repr(C, align(128))]
struct Wish(AtomicU32);

const _: () = assert!(size_of::<Cell>() == CELL_BYTES as usize);
const _: () = assert!(size_of::<Lines>() == LINES_BYTES as usize);
#[cfg(not(loom))]
const _: () = assert!(size_of::<Shares>() == crate::layout::SHARES_BYTES as usize);

/// One end's view of a ring in shared memory.
#[derive(Debug)]
pub(crate) struct RawRing {
    cells: *mut Cell,
    lines: *const Lines,
    shares: *const Shares,
    data: *mut u8,
    data_bytes: u32,
    /// The slots that began in this ring.
    slots: *mut u8,
    /// Those that began in the ring of the other direction; null until it is known.
    twin: *mut u8,
    slot_count: u32,
    slot_bytes: u32,
    /// Whether this process must fence itself because sleepers cannot do it for it.
    fenced: bool,
    /// Backs more of the data area with memory.
    /// `None` once it may grow no more.
    grow: Option<Grow>,
}

/// What a producer needs to back more of its ring with memory: the segment file and where the data area lies in it.
#[derive(Debug)]
pub(crate) struct Grow {
    pub(crate) file: std::sync::Arc<std::fs::File>,
    pub(crate) data_offset: u64,
    pub(crate) page: u64,
}

// SAFETY: the pointers lead into a mapping that is shared between processes anyway; the end that owns this value
// is one writer or one reader, whichever thread drives it, and `&mut` on the ends keeps it to one at a time.
unsafe impl Send for RawRing {}

impl RawRing {
    /// The ring of `layout` that begins at `base`.
    ///
    /// # Safety
    /// `base` is page aligned; `layout.ring_bytes()` bytes from there stay mapped, readable and writable, and hold a
    /// ring (zeroes for a fresh one) for as long as the value lives. At most one producer and one consumer use it.
    pub(crate) unsafe fn new(base: *mut u8, layout: &Layout, fenced: bool, grow: Option<Grow>) -> RawRing {
        // SAFETY: all offsets lie inside `ring_bytes`, by `Layout`.
        let [lines, shares, data] = unsafe {
            [layout.lines(), layout.shares(), layout.data()].map(|offset| base.add(offset as usize))
        };
        RawRing {
            cells: base.cast(),
            lines: lines.cast(),
            shares: shares.cast(),
            data,
            data_bytes: layout.data_bytes,
            // SAFETY: as above.
            slots: unsafe { base.add(layout.slots_offset() as usize) },
            twin: std::ptr::null_mut(),
            slot_count: layout.slots,
            slot_bytes: layout.max_copy,
            fenced,
            grow,
        }
    }

    /// Tells where the ring of the other direction is.
    ///
    /// # Safety
    /// `base` is that ring of the same layout, under the same promise as for [`RawRing::new`].
    pub(crate) unsafe fn know_twin(&mut self, base: *mut u8, layout: &Layout) {
        // SAFETY: the caller's promise.
        self.twin = unsafe { base.add(layout.slots_offset() as usize) };
    }

    /// Where a record of `len` bytes is whose place a cell tells, if such a place exists.
    #[inline]
    fn at(&self, place: u32, len: usize) -> Option<*mut u8> {
        if place & SLOT == 0 {
            let (offset, bytes) = (place as usize, self.data_bytes as usize);
            // SAFETY: inside the data area.
            return (len <= bytes && offset <= bytes - len).then(|| unsafe { self.data.add(offset) });
        }
        let base = if place & TWIN == 0 { self.slots } else { self.twin };
        let index = place & !(SLOT | TWIN);
        let exists = index < self.slot_count && len <= self.slot_bytes as usize && !base.is_null();
        // SAFETY: the index is below the number of slots, which lie behind `base` by the layout.
        exists.then(|| unsafe { base.add(index as usize * self.slot_bytes as usize) })
    }

    #[inline]
    fn cell(&self, index: u32) -> *mut Cell {
        // SAFETY: `ring` masks every index with the number of cells.
        unsafe { self.cells.add(index as usize) }
    }

    #[inline]
    fn stamp_word(&self, index: u32) -> &AtomicU64 {
        // SAFETY: the cell is mapped for the life of `self`; stamps are only ever touched as atomics.
        unsafe { &(*self.cell(index)).stamp }
    }

    #[inline]
    fn lines(&self) -> &Lines {
        // SAFETY: mapped for the life of `self`; both words are atomics.
        unsafe { &*self.lines }
    }

    /// The table of parts of messages that come by this ring.
    pub(crate) fn shares(&self) -> &Shares {
        // SAFETY: mapped for the life of `self`, and made of atomics; aligned, since the ring is and the offset is by `Layout`.
        unsafe { &*self.shares }
    }

    /// Writes the envelope and an inline payload into a cell that the producer may write (rule B).
    #[inline(always)]
    pub(crate) fn write_inline(&mut self, cell: u32, envelope: [u64; 2], payload: &[u8]) {
        assert!(payload.len() <= INLINE_BYTES);
        let cell = self.cell(cell);
        // SAFETY: rule B: the consumer gave the cell back and will not read it before it is published; the
        // length is checked above.
        unsafe {
            *(*cell).envelope.get() = envelope;
            let to = (*cell).payload.get().cast::<u8>();
            if payload.len() == 8 {
                // One word is the most usual message; everything else is a call away.
                to.cast::<[u8; 8]>().write(*payload.as_ptr().cast::<[u8; 8]>());
            } else {
                copy_small(payload.as_ptr(), to, payload.len());
            }
        }
    }

    /// Lets `fill` write `len` inline payload bytes into a cell that the producer may write (rule B).
    #[inline]
    pub(crate) fn fill_inline(
        &mut self,
        cell: u32,
        envelope: [u64; 2],
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let cell = self.cell(cell);
        // SAFETY: rule B; the slice is the only reference to these bytes in this process.
        let payload = unsafe {
            *(*cell).envelope.get() = envelope;
            &mut *(*cell).payload.get()
        };
        fill(&mut payload[..len]);
    }

    /// Writes the envelope and the place of a record into a cell, and lets `fill` write the record (rule B).
    #[inline(always)]
    pub(crate) fn fill_record(
        &mut self,
        cell: u32,
        envelope: [u64; 2],
        place: Place,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let Some(record) = self.at(place.offset, len) else { panic!("a record outside its ring: {place:?}") };
        let cell = self.cell(cell);
        // SAFETY: rule B for the record, which the producer took from the free part of the data area; or the rule of slots,
        // which this end owns.
        fill(unsafe { std::slice::from_raw_parts_mut(record, len) });
        // The cell comes last: its line is the one that the consumer looks at all the time. Written before the record, it
        // would have to be fetched from the other core twice.
        // SAFETY: rule B for the cell.
        unsafe {
            *(*cell).envelope.get() = envelope;
            (*cell).payload.get().cast::<[u32; 2]>().write([place.offset, place.end]);
        }
    }

    /// The envelope of a published cell (rule A).
    #[inline]
    pub(crate) fn envelope(&self, cell: u32) -> [u64; 2] {
        // SAFETY: rule A: the stamp was seen, the producer is done with the cell until it is given back.
        unsafe { *(*self.cell(cell)).envelope.get() }
    }

    /// Demotes the record of a cell, which was just published at that place, and the line of the cell ([`crate::demote`]).
    #[inline(never)]
    pub(crate) fn demote(&self, cell: u32, place: u32, len: usize) {
        if let Some(record) = self.at(place, len) {
            demote::line(self.cell(cell).cast());
            demote::lines(record, len);
        }
    }

    /// The payload of a published cell (rule A), `len` bytes as its stamp says.
    ///
    /// # Panics
    /// When the record would lie outside the data area: the segment is damaged.
    #[inline]
    pub(crate) fn payload(&self, cell: u32, len: usize) -> &[u8] {
        if len <= INLINE_BYTES {
            // SAFETY: rule A; the length is within the array.
            return unsafe { std::slice::from_raw_parts((*self.cell(cell)).payload.get().cast(), len) };
        }
        let Some(record) = self.at(self.record(cell).0, len) else {
            panic!("the shared-memory segment is damaged: a record lies outside its ring")
        };
        // SAFETY: rule A for the record, which exists.
        unsafe { std::slice::from_raw_parts(record, len) }
    }
}

impl RingMemory for RawRing {
    #[inline]
    fn stamp(&self, cell: u32) -> u64 {
        self.stamp_word(cell).load(Ordering::Acquire)
    }

    #[inline]
    fn prefetch(&self, cell: u32) {
        fetch::line(self.cell(cell).cast());
    }

    #[inline]
    fn set_stamp(&self, cell: u32, stamp: u64) {
        self.stamp_word(cell).store(stamp, Ordering::Release);
    }

    #[inline]
    fn heads(&self) -> u64 {
        self.lines().heads.load(Ordering::Acquire)
    }

    #[inline]
    fn set_heads(&self, heads: u64) {
        self.lines().heads.store(heads, Ordering::Release);
    }

    #[inline]
    fn light_barrier(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        } else {
            compiler_fence(Ordering::SeqCst);
        }
    }

    #[inline]
    fn wants_room(&self) -> bool {
        self.lines().wants_room.0.load(Ordering::Relaxed) != 0
    }

    fn set_wants_room(&self, wants: bool) {
        self.lines().wants_room.0.store(u32::from(wants), Ordering::Relaxed);
    }

    #[inline]
    fn record(&self, cell: u32) -> (u32, u32) {
        // SAFETY: rule A: the caller saw the stamp.
        let [offset, end] = unsafe { (*self.cell(cell)).payload.get().cast::<[u32; 2]>().read() };
        (offset, end)
    }

    #[inline]
    fn own(&self, offset: u32, len: usize) {
        // Whole lines; and another process wrote the offset.
        let whole = len.next_multiple_of(RECORD_ALIGN as usize);
        let record = self.at(offset, whole).filter(|_| offset.is_multiple_of(RECORD_ALIGN));
        let Some(record) = record else { return };
        for line in (0..len).step_by(RECORD_ALIGN as usize) {
            // SAFETY: `record` begins a line and `whole` bytes are there, so each store is inside and aligned; the consumer has
            // not reported the record, so by rule B nobody else touches it, and no reference to it is left in this process.
            // Volatile: the store is wanted for the line, not for its value.
            unsafe { record.add(line).cast::<u64>().write_volatile(0) };
        }
    }

    #[cold]
    fn grow(&mut self, limit: u32, at_least: u32) -> u32 {
        let Some(grow) = &self.grow else { return limit };
        // Twice as much each time, in whole pages of the file.
        let wanted = u64::from(at_least.max(limit.saturating_mul(2).min(self.data_bytes)));
        let end = (grow.data_offset + wanted).next_multiple_of(grow.page);
        let begin = grow.data_offset + u64::from(limit);
        let enough = at_least <= self.data_bytes;
        if !enough || crate::sys::back(&grow.file, begin, end - begin).is_err() {
            // The area is whole, or memory is short: the ring works as it is.
            self.grow = None;
            return limit;
        }
        ((end - grow.data_offset) as u32).min(self.data_bytes)
    }
}

/// Copies a payload of a cell; up to 64 bytes with a few overlapping moves, without a call.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and the two do not overlap.
#[inline(never)]
pub(crate) unsafe fn copy_small(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every access lies inside `len` bytes of either side: moves of size s from the front and to the end are
    // used only for lengths in s..=2s.
    unsafe {
        macro_rules! pair {
            ($word:ty) => {{
                let last = len - size_of::<$word>();
                let a = from.cast::<$word>().read_unaligned();
                let b = from.add(last).cast::<$word>().read_unaligned();
                to.cast::<$word>().write_unaligned(a);
                to.add(last).cast::<$word>().write_unaligned(b);
            }};
        }
        match len {
            8..=16 => pair!(u64),
            17..=32 => pair!(u128),
            33..=64 => pair!([u128; 2]),
            65.. => std::ptr::copy_nonoverlapping(from, to, len),
            4..=7 => pair!(u32),
            2..=3 => pair!(u16),
            1 => *to = *from,
            0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Consumer, Producer};
    use std::alloc::{Layout as Block, alloc_zeroed, dealloc};

    /// A ring in ordinary memory, so that Miri can watch every access.
    struct Heap(*mut u8, Block);

    impl Heap {
        fn new(layout: &Layout) -> Heap {
            let block = Block::from_size_align(layout.ring_bytes() as usize, 4096).expect("a block");
            // SAFETY: the block is not empty.
            Heap(unsafe { alloc_zeroed(block) }, block)
        }
    }

    impl Drop for Heap {
        fn drop(&mut self) {
            // SAFETY: allocated with this block.
            unsafe { dealloc(self.0, self.1) }
        }
    }

    #[test]
    fn both_ends_on_two_threads_touch_only_what_the_rules_allow() {
        let layout = Layout::new(1024, 4096);
        let heap = Heap::new(&layout);
        // SAFETY: the block is a zeroed ring and outlives both ends, of which there is one each.
        let [theirs, ours] = [(), ()].map(|()| unsafe { RawRing::new(heap.0, &layout, true, None) });
        let mut producer = Producer::new(theirs, layout.cells, 1024);
        let mut consumer = Consumer::new(ours, layout.cells, layout.data_bytes);
        let lens = || (0..if cfg!(miri) { 60 } else { 20_000 }).map(|n| [n % 105, n % 500][n % 2]);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (n, len) in lens().enumerate() {
                    let cell = loop {
                        match producer.cell() {
                            Some(cell) => break cell,
                            None => std::thread::yield_now(),
                        }
                    };
                    let (envelope, data) = ([n as u64, len as u64], vec![n as u8; len]);
                    if len <= INLINE_BYTES && n % 3 == 0 {
                        producer.memory_mut().write_inline(cell, envelope, &data);
                    } else if len <= INLINE_BYTES {
                        let fill = |to: &mut [u8]| to.copy_from_slice(&data);
                        producer.memory_mut().fill_inline(cell, envelope, len, fill);
                    } else {
                        let place = loop {
                            match producer.place(len) {
                                Some(place) => break place,
                                None => std::thread::yield_now(),
                            }
                        };
                        let fill = |to: &mut [u8]| to.copy_from_slice(&data);
                        producer.memory_mut().fill_record(cell, envelope, place, len, fill);
                        producer.take(place, len);
                    }
                    producer.publish(len);
                }
            });
            for (n, len) in lens().enumerate() {
                let front = loop {
                    match consumer.front() {
                        Some(front) => break front,
                        None => {
                            if consumer.owes_heads() {
                                consumer.publish_heads();
                            }
                            std::thread::yield_now();
                        }
                    }
                };
                assert_eq!(consumer.memory().envelope(front.cell), [n as u64, len as u64]);
                let payload = consumer.memory().payload(front.cell, front.len);
                assert!(payload.len() == len && payload.iter().all(|&byte| byte == n as u8));
                consumer.release(front);
            }
        });
    }

    #[test]
    fn small_copies_of_every_length_stay_inside() {
        let from: Vec<u8> = (1..=INLINE_BYTES as u8).collect();
        for len in 0..=INLINE_BYTES {
            let mut to = vec![0; len + 2];
            // SAFETY: both sides have `len` bytes there.
            unsafe { copy_small(from.as_ptr(), to.as_mut_ptr().add(1), len) };
            assert_eq!(to[1..=len], from[..len]);
            assert_eq!((to[0], to[len + 1]), (0, 0));
        }
    }

    #[test]
    fn only_whole_lines_of_the_data_area_are_stored_to() {
        let layout = Layout::new(1024, 4096);
        let heap = Heap::new(&layout);
        let bytes = layout.ring_bytes() as usize;
        // SAFETY: the block is the test's own, and has so many bytes.
        unsafe { heap.0.write_bytes(0xff, bytes) };
        // SAFETY: the block is a ring, of which only the data area is used, and outlives its user.
        let ring = unsafe { RawRing::new(heap.0, &layout, false, None) };
        let end = layout.data_bytes;
        // Pages that nobody touched are compared as a whole, which Miri does at once.
        let stored = || -> usize {
            // SAFETY: as above; nobody writes meanwhile.
            let ring = unsafe { std::slice::from_raw_parts(heap.0, bytes) };
            let untouched = [0xff; 4096];
            let pages = ring.chunks(untouched.len()).filter(|page| **page != untouched[..page.len()]);
            pages.flatten().filter(|&&byte| byte == 0).count()
        };
        // What a damaged segment might tell: the last bytes of the area, a record that ends beyond it, places elsewhere.
        for (offset, len) in
            [(end - 4, 4), (end - 60, 60), (end - 64, 65), (end, 1), (1, 200), (SLOT - 64, 1)]
        {
            ring.own(offset, len);
            assert_eq!(stored(), 0, "{len} bytes at {offset}");
        }
        ring.own(end - 128, 100);
        assert_eq!(stored(), 16, "a word of each line");
    }

    #[test]
    #[should_panic(expected = "damaged")]
    fn a_record_that_points_outside_is_refused() {
        let layout = Layout::new(1024, 4096);
        let heap = Heap::new(&layout);
        // SAFETY: the block is a zeroed ring and outlives its user.
        let mut ring = unsafe { RawRing::new(heap.0, &layout, false, None) };
        let place = Place { offset: 0, end: 0 };
        ring.fill_record(0, [0; 2], place, 1000, |_| ());
        // SAFETY: the cell is ours; this is what a damaged segment would look like.
        unsafe { (*ring.cell(0)).payload.get().cast::<u32>().write(layout.data_bytes - 64) };
        ring.payload(0, 1000);
    }
}
