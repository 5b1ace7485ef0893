//! Where short partitions of a partitioned send (chapter 4 of the standard) are put down for their receiver: memory of the two
//! ends alone, so that a partition travels with one store, and nothing is matched, queued or answered.
//!
//! A *stage* is a block of the node's pool ([`crate::pool`]). It has room for some *starts* at a time, one after the other in a
//! circle; a start has *groups* of partitions that share a word:
//!
//! ```text
//! head    taken: starts that the receiver has taken whole | ends that have left, what the receiver looks for
//! start   group 0, group 1, ...      (start s lies at s modulo their number, a power of two)
//! group   word: number of the start, one bit for each partition that is here | the bytes of the partitions
//! ```
//!
//! Partitions of up to 56 bytes share a group of one cache line; a longer one is a group of its own.
//!
//! A start can also be put down *whole*: then the word of its first group has a bit of its own, and the bytes of all partitions
//! follow it over the words of other groups. What lies in a line that the receiver looks at all the time is fetched by it after
//! each change, and fetched back for the next: eight partitions of a byte take 0.20 us one by one and 0.09 together. So the
//! receiver says what it looks for ([`Interest`]), and the sender does not hurry with what nobody sees. Of operations beyond
//! [`MOST_BYTES`] there is nothing but the head, for that word.
//!
//! # Memory ordering
//! - The sender alone writes words. It writes the bytes of a partition first and stores the word with its bit last, with
//!   Release; the receiver loads the word with Acquire and reads only partitions whose bit it saw under the number of the start
//!   that it awaits (rule A). Other partitions of the group may be written meanwhile; they are other bytes. A word of an older
//!   start has another number, so it need not be cleared.
//! - The receiver stores `taken` with Release after its last read of a start; the sender loads it with Acquire before it writes
//!   where that start was (rule B). It keeps a copy and looks again only when the copy says that there is no room.
//! - The words behind the first group are bytes of the program after a start that was whole, and while one is laid down. So the
//!   sender clears them before a start in parts takes the place of a whole one, and stores the first word with [`PARTS`]
//!   afterwards, with Release; the receiver loads them only after it saw, with Acquire, the first word with [`PARTS`] under the
//!   start that it awaits (rule C). Of that start it then finds nothing but zeroes, words of older starts, and words shown
//!   since; and a start in parts is never laid down whole as well, so what it loads is not written otherwise meanwhile. Zeroes
//!   are no partitions of any start, of number 0 neither.
//! - What the receiver looks for is advice: relaxed, and nothing is read on the strength of it.
//! - Starts are counted by 32 bits that wrap; what is kept is far below 2^31, so differences are exact.
//!
//! A sender that has put something down wakes its receiver as after a packet ([`crate::bell`]): a receiver that is about to
//! sleep looks at its stages once more after arming.
//!
//! `tests/loom_staging.rs` checks [`begin_parts`], [`show`], [`shown`], [`here`], [`WHOLE`] and [`has_room`].

use crate::bell::{self, Doors};
use crate::pool::{Block, Pool};
use crate::raw::copy_small;
use crate::segment::Segment;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

/// The words of one stage, so that the model checker can stand in. `at` is the place of a group in the circle.
pub trait Words {
    /// The word of a group (Acquire).
    fn word(&self, at: usize) -> u64;
    /// The word of a group as its only writer sees it (relaxed).
    fn own_word(&self, at: usize) -> u64;
    /// Stores the word of a group (Release).
    fn set_word(&self, at: usize, word: u64);
    /// The starts taken whole (Acquire).
    fn taken(&self) -> u32;
}

/// Shows partitions of a group (one bit each), whose bytes were written just now, of a start in parts ([`begin_parts`]).
#[inline(always)]
pub fn show(words: &impl Words, at: usize, start: u32, bits: u32) {
    let before = words.own_word(at);
    let here = if (before >> 32) as u32 == start { before as u32 } else { 0 };
    words.set_word(at, u64::from(start) << 32 | u64::from(here | bits));
}

/// Bit of the word of the first group: the whole start is here, in one run.
pub const WHOLE: u32 = 1 << 31;

/// Bit of the word of the first group: the start comes in parts, so that what lies where its other groups have words are words
/// (rule C).
pub const PARTS: u32 = 1 << 30;

/// Comes before anything of a start is shown in parts. `first`: the place of its first group; `others`: of the others.
#[inline(always)]
pub fn begin_parts(words: &impl Words, first: usize, others: impl Iterator<Item = usize>, start: u32) {
    let before = words.own_word(first);
    if (before >> 32) as u32 == start && before as u32 & PARTS != 0 {
        return;
    }
    if before as u32 & WHOLE != 0 {
        others.for_each(|at| words.set_word(at, 0));
    }
    words.set_word(first, u64::from(start) << 32 | u64::from(PARTS));
}

/// What the word of a group says of a start: the partitions that are here, one bit each, and in the first group [`WHOLE`] or
/// [`PARTS`].
#[inline(always)]
pub fn shown(words: &impl Words, at: usize, start: u32) -> u32 {
    let word = words.word(at);
    if (word >> 32) as u32 == start { word as u32 } else { 0 }
}

/// As [`shown`], of any group of a start whose first one lies at `first`.
#[inline(always)]
pub fn here(words: &impl Words, first: usize, at: usize, start: u32) -> u32 {
    if at != first && shown(words, first, start) & PARTS == 0 {
        return 0;
    }
    shown(words, at, start)
}

/// Whether partitions of a start may be written, in a circle of `starts`; `taken` is what was read last.
#[inline(always)]
pub fn has_room(words: &impl Words, taken: &mut u32, start: u32, starts: u32) -> bool {
    if start.wrapping_sub(*taken) <= starts {
        return true;
    }
    *taken = words.taken();
    start.wrapping_sub(*taken) <= starts
}

/// Bytes of the word of a group.
const WORD: u32 = 8;
/// Bytes of a cache line.
const LINE: u32 = 64;
/// Bytes of the largest start that is put down. Beyond, records in the slots of a ring are faster, for they go to and fro
/// ([`crate::slots`]): 8 partitions of 1 KiB take 2.9 us between distant cores by a stage and 2.1 by packets, near the same; of
/// 512 bytes 1.9 either way, near 0.45 and 0.66.
const MOST_BYTES: u32 = 6 << 10;
/// Bytes of the largest operation of which the receiver says what it looks for.
const MOST_TOLD: u64 = 32 << 10;
/// Most partitions of a group: their bits are below [`PARTS`] and [`WHOLE`].
const MOST_EACH: u32 = 16;
const _: () = assert!(MOST_EACH <= PARTS.trailing_zeros() && PARTS < WHOLE);
/// Bytes of starts that are worth keeping at a time.
const WANTED_BYTES: u32 = 16 << 10;
/// Most starts kept at a time.
const MOST_STARTS: u32 = 16;

/// How the partitions of one operation lie in a stage; the same at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    number: u32,
    partition: u32,
    /// Partitions of a group are 2 to this power.
    each: u32,
    /// Bytes of a group.
    group: u32,
    groups: u32,
    /// A power of two; 0: nothing is put down.
    starts: u32,
}

/// What a receiver looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Interest {
    /// It has not said.
    Unknown = 0,
    /// The end of a start: single partitions were never asked for.
    Whole = 1,
    /// Single partitions.
    Each = 2,
}

impl Shape {
    /// Of `number` partitions of `bytes` bytes; `None` when they are too many or too long.
    pub fn new(number: u32, bytes: u64) -> Option<Shape> {
        let partition = u32::try_from(bytes).ok().filter(|&bytes| bytes > 0 && number > 0)?;
        bytes.checked_mul(u64::from(number)).filter(|&total| total <= MOST_TOLD)?;
        let each = ((LINE - WORD) / partition).clamp(1, MOST_EACH).ilog2();
        let group = ((partition << each) + WORD).next_multiple_of(LINE);
        let groups = number.div_ceil(1 << each);
        let start = u64::from(groups) * u64::from(group);
        if start > u64::from(MOST_BYTES) {
            return Some(Shape { number, partition, each, group: 0, groups: 0, starts: 0 });
        }
        let starts = 1 << (WANTED_BYTES / start as u32).clamp(2, MOST_STARTS).ilog2();
        Some(Shape { number, partition, each, group, groups, starts })
    }

    /// Whether anything can be put down; otherwise the receiver says what it looks for, and that is all.
    pub fn has_room(&self) -> bool {
        self.starts > 0
    }

    /// Bytes of the block.
    pub fn bytes(&self) -> u64 {
        size_of::<Head>() as u64 + u64::from(self.starts) * u64::from(self.groups) * u64::from(self.group)
    }

    /// The groups of a start.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// The group of a partition.
    pub fn group_of(&self, partition: u32) -> u32 {
        partition >> self.each
    }

    /// The first partition of a group, and how many there are.
    pub fn partitions(&self, group: u32) -> (u32, u32) {
        let first = group << self.each;
        (first, (1 << self.each).min(self.number - first))
    }

    /// Bytes of all partitions.
    #[inline]
    fn total(&self) -> usize {
        self.number as usize * self.partition as usize
    }

    /// Where a group of a start begins behind the head.
    #[inline]
    fn at(&self, start: u32, group: u32) -> usize {
        debug_assert!(group < self.groups);
        (((start & (self.starts - 1)) * self.groups + group) * self.group) as usize
    }
}

/// What a stage begins with.
#[repr(C, align(128))]
struct Head {
    taken: AtomicU32,
    _line: [u8; 124],
    /// Ends that have left; the second one gives the block back.
    left: AtomicU32,
    /// An [`Interest`].
    interest: AtomicU32,
}

/// One end's view of a stage.
#[derive(Debug)]
struct Stage {
    head: NonNull<Head>,
    groups: NonNull<u8>,
    shape: Shape,
    block: Block,
    pool: Arc<Pool>,
}

// SAFETY: the pointers lead into the mapping that `pool` keeps; it is shared between processes anyway, and each end is used by
// one thread at a time.
unsafe impl Send for Stage {}
// SAFETY: what `&Stage` reaches is atomics and bytes under rules A and B, which hold for each end whatever its threads are.
unsafe impl Sync for Stage {}

impl Stage {
    fn new(pool: &Arc<Pool>, block: Block, shape: Shape) -> Stage {
        let head = NonNull::new(pool.at(block)).expect("a mapping does not begin at null").cast::<Head>();
        // SAFETY: the block has room for the head and the groups: its taker asked for so many bytes, and words of others are
        // checked.
        let groups = unsafe { head.add(1) }.cast();
        Stage { head, groups, shape, block, pool: Arc::clone(pool) }
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: mapped while `self` lives; all atomics.
        unsafe { self.head.as_ref() }
    }

    /// The bytes of a partition.
    #[inline]
    fn bytes(&self, start: u32, group: u32, within: u32) -> *mut u8 {
        let at = self.shape.at(start, group) + (WORD + within * self.shape.partition) as usize;
        // SAFETY: inside the block by the shape.
        unsafe { self.groups.as_ptr().add(at) }
    }

    #[inline]
    fn atomic(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` is the place of a group, a multiple of a line, where its word lies; mapped while `self` lives.
        unsafe { &*self.groups.as_ptr().add(at).cast::<AtomicU64>() }
    }
}

impl Words for Stage {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.atomic(at).load(Ordering::Acquire)
    }

    #[inline]
    fn own_word(&self, at: usize) -> u64 {
        self.atomic(at).load(Ordering::Relaxed)
    }

    #[inline]
    fn set_word(&self, at: usize, word: u64) {
        self.atomic(at).store(word, Ordering::Release);
    }

    #[inline]
    fn taken(&self) -> u32 {
        self.head().taken.load(Ordering::Acquire)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.head().left.fetch_add(1, Ordering::AcqRel) == 1 {
            self.pool.give_back(self.block);
        }
    }
}

/// What [`StageIn::first_look`] finds.
#[derive(Debug)]
pub enum FirstLook<'a> {
    /// Nothing of the start.
    Nothing,
    /// All of it, in one run; the bytes are lent until it is given back.
    Whole(&'a [u8]),
    /// Some of its partitions.
    Parts,
}

/// The receiver's end.
#[derive(Debug)]
pub struct StageIn(Stage);

impl StageIn {
    /// Takes memory for a stage; `None` when the pool is used up. The sender must be told its [`StageIn::word`].
    pub(crate) fn take(pool: &Arc<Pool>, shape: Shape) -> Option<StageIn> {
        let block = pool.take(shape.bytes())?;
        // SAFETY: the block is ours alone, has so many bytes, and zeroes are valid for all of it.
        unsafe { pool.at(block).write_bytes(0, shape.bytes() as usize) };
        Some(StageIn(Stage::new(pool, block, shape)))
    }

    /// Names the block to the sender.
    pub fn word(&self) -> u64 {
        self.0.block.word()
    }

    /// How the partitions lie.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// The partitions of a group that are here, one bit each; other bits of the first group say that something of the start is
    /// here.
    #[inline]
    pub fn here(&self, start: u32, group: u32) -> u32 {
        let shape = &self.0.shape;
        here(&self.0, shape.at(start, 0), shape.at(start, group), start)
    }

    /// What the first group says of a start of which nothing was taken, and which was not given back.
    #[inline(always)]
    pub fn first_look(&self, start: u32) -> FirstLook<'_> {
        let stage = &self.0;
        if !stage.shape.has_room() {
            return FirstLook::Nothing;
        }
        match shown(stage, stage.shape.at(start, 0), start) {
            0 => FirstLook::Nothing,
            WHOLE => FirstLook::Whole(self.lend_whole(start)),
            _ => FirstLook::Parts,
        }
    }

    /// The bytes of a start that was seen to be here whole, and was not given back.
    #[inline(always)]
    fn lend_whole(&self, start: u32) -> &[u8] {
        // SAFETY: inside the groups of the start, which have room for a word and all partitions; rule A: the sender leaves them
        // alone until `give_back`, which needs `&mut`.
        unsafe { std::slice::from_raw_parts(self.0.bytes(start, 0, 0), self.0.shape.total()) }
    }

    /// Says what is looked for from now on.
    pub fn tell(&self, interest: Interest) {
        self.0.head().interest.store(interest as u32, Ordering::Relaxed);
    }

    /// Lends `count` neighbours of a group from its partition `within` on; all were in [`StageIn::here`] of a start that was not
    /// given back.
    ///
    /// # Panics
    /// When the group has not so many, or they are not here.
    #[inline]
    pub fn payload(&self, start: u32, group: u32, within: u32, count: u32) -> &[u8] {
        assert!(
            within + count <= 1 << self.0.shape.each && group < self.0.shape.groups,
            "partitions of one group"
        );
        let wanted = ((1_u64 << count) - 1) << within;
        assert!(u64::from(self.here(start, group)) & wanted == wanted, "partitions that are here");
        let bytes = (count * self.0.shape.partition) as usize;
        // SAFETY: inside the group and here, as just checked; rule A: the sender leaves them alone until `give_back`, which
        // needs `&mut`.
        unsafe { std::slice::from_raw_parts(self.0.bytes(start, group, within), bytes) }
    }

    /// Gives a start back, and all before it: nothing of them is read any more.
    #[inline]
    pub fn give_back(&mut self, start: u32) {
        self.0.head().taken.store(start, Ordering::Release);
    }
}

/// The sender's end.
#[derive(Debug)]
pub struct StageOut {
    stage: Stage,
    /// Starts taken, as read last.
    taken: u32,
    /// The receiver's sleep words, which live as long as `_segment`.
    doors: NonNull<Doors>,
    fenced: bool,
    _segment: Arc<Segment>,
}

// SAFETY: the sleep words are shared memory made of atomics, kept mapped by `_segment`.
unsafe impl Send for StageOut {}
// SAFETY: the same.
unsafe impl Sync for StageOut {}

impl StageOut {
    /// Joins the block that the receiver, local rank `to`, has taken.
    pub(crate) fn join(
        segment: &Arc<Segment>,
        pool: &Arc<Pool>,
        word: u64,
        shape: Shape,
        to: u32,
        fenced: bool,
    ) -> Option<StageOut> {
        let stage = Stage::new(pool, pool.block(word, shape.bytes())?, shape);
        let doors = NonNull::from(&segment.slot(to).doors);
        Some(StageOut { stage, taken: 0, doors, fenced, _segment: Arc::clone(segment) })
    }

    /// Whether partitions of this start may be put down.
    #[inline]
    pub fn has_room(&mut self, start: u32) -> bool {
        let starts = self.stage.shape.starts;
        // Without room nothing is ever taken, and start 0 would follow at once.
        starts != 0 && has_room(&self.stage, &mut self.taken, start, starts)
    }

    /// Whether the receiver waits for whole starts and has never asked for a partition.
    #[inline]
    pub fn is_awaited_whole(&self) -> bool {
        self.stage.head().interest.load(Ordering::Relaxed) == Interest::Whole as u32
    }

    /// Puts a whole start down of which nothing was put down before: `fill` writes the bytes of all partitions. The receiver is
    /// woken when it sleeps.
    ///
    /// # Panics
    /// When there is no room ([`StageOut::has_room`]).
    #[inline]
    pub fn put_whole(&mut self, start: u32, fill: impl FnOnce(&mut [u8])) {
        let (to, _, _) = self.room(start, 0);
        // SAFETY: as `room` says, of all partitions: the groups of the start have room for a word and all of them.
        fill(unsafe { std::slice::from_raw_parts_mut(to, self.stage.shape.total()) });
        self.stage.set_word(self.stage.shape.at(start, 0), u64::from(start) << 32 | u64::from(WHOLE));
        self.ring();
    }

    /// As [`StageOut::put_whole`], of bytes in one run.
    ///
    /// # Panics
    /// As there, and when `data` has another length than all partitions.
    #[inline]
    pub fn put_whole_run(&mut self, start: u32, data: &[u8]) {
        let (to, _, _) = self.room(start, 0);
        assert!(data.len() == self.stage.shape.total(), "partitions of {} bytes", data.len());
        // The line of the word comes last: the receiver looks at it all the time, and written first it would be fetched back
        // twice.
        let (first, rest) = data.split_at(data.len().min((LINE - WORD) as usize));
        // SAFETY: as in `put_whole`, and just checked; the program's memory is not the node's.
        unsafe {
            if !rest.is_empty() {
                copy_small(rest.as_ptr(), to.add(first.len()), rest.len());
            }
            copy_small(first.as_ptr(), to, first.len());
        }
        self.stage.set_word(self.stage.shape.at(start, 0), u64::from(start) << 32 | u64::from(WHOLE));
        self.ring();
    }

    /// Puts a partition down: `fill` writes its bytes. The receiver is woken when it sleeps.
    ///
    /// # Panics
    /// When there is no such partition, or no room ([`StageOut::has_room`]).
    pub fn put_with(&mut self, start: u32, partition: u32, fill: impl FnOnce(&mut [u8])) {
        let (to, group, within) = self.room(start, partition);
        // SAFETY: as `room` says.
        fill(unsafe { std::slice::from_raw_parts_mut(to, self.stage.shape.partition as usize) });
        self.show(start, group, within);
    }

    /// As [`StageOut::put_with`], of bytes in one run.
    ///
    /// # Panics
    /// As there, and when `data` has another length than a partition.
    #[inline]
    pub fn put(&mut self, start: u32, partition: u32, data: &[u8]) {
        let (to, group, within) = self.room(start, partition);
        assert!(data.len() == self.stage.shape.partition as usize, "a partition of {} bytes", data.len());
        // SAFETY: as `room` says, and just checked; the program's memory is not the node's.
        unsafe { copy_small(data.as_ptr(), to, data.len()) };
        self.show(start, group, within);
    }

    /// Where a partition goes, writable for its bytes: inside the group, and by rule B the receiver has given back what was
    /// here, and reads this partition only after [`StageOut::show`].
    #[inline]
    fn room(&self, start: u32, partition: u32) -> (*mut u8, u32, u32) {
        let shape = &self.stage.shape;
        assert!(start.wrapping_sub(self.taken) <= shape.starts && partition < shape.number, "no room");
        let (group, within) = (partition >> shape.each, partition & ((1 << shape.each) - 1));
        (self.stage.bytes(start, group, within), group, within)
    }

    /// Shows a partition that was written, and wakes the receiver when it sleeps.
    #[inline]
    fn show(&self, start: u32, group: u32, within: u32) {
        let shape = &self.stage.shape;
        let others = (1..shape.groups).map(|other| shape.at(start, other));
        begin_parts(&self.stage, shape.at(start, 0), others, start);
        show(&self.stage, shape.at(start, group), start, 1 << within);
        self.ring();
    }

    /// Wakes the receiver when it sleeps, after something was shown.
    #[inline]
    fn ring(&self) {
        if self.fenced {
            fence(Ordering::SeqCst)
        } else {
            compiler_fence(Ordering::SeqCst)
        }
        // SAFETY: see the field.
        let doors = unsafe { self.doors.as_ref() };
        if bell::needs_attention(doors.word(0).load(Ordering::Relaxed)) {
            doors.ring(0);
        }
    }
}

#[cfg(test)]
mod tests;
