//! Packing and unpacking more than the caches hold: whole lines are written past them.
//!
//! An ordinary store to a line that is in no cache first fetches the line, only to write over all of it; a streaming store does
//! not. Beyond the caches, where memory is what one waits for, blocks of whole lines are unpacked twice as fast so, and packed
//! a third to a half faster. Nearer data would be driven out of the caches, so they go the ordinary way.
//!
//! Packing waits for the lines that it reads. The processor fetches ahead by itself, but only inside a block, and behind a
//! block it fetches lines of the gap that nobody wants. So every line of a block is asked for long before it is read: into the
//! second cache, as the nearest one has fewer misses under way at a time, and one by one while lines of an earlier block are
//! written.

use crate::layout::Layout;
use crate::long::{self, LINE};
#[cfg(target_arch = "x86_64")]
use crate::processor::{Level, level};
use crate::strided::copy_block;

/// Packed bytes of a buffer from which on its memory is taken to be in no cache: what a core has of the last cache of most
/// servers.
pub(crate) const BEYOND: usize = 32 << 20;
/// Fewest bytes at a time that are worth the fence at the end.
const FEWEST: usize = 4 << 10;
/// Half a line, the most that a streaming store of AVX2 writes.
pub(crate) const HALF: usize = 32;
/// Shortest blocks, in the mean, that are packed so where parts of lines have to be kept for the next block.
const SHORTEST: u64 = LINE as u64 + 1;
/// Shortest blocks that are unpacked so where they do not begin and end with a line.
const SHORTEST_UNALIGNED: usize = 4 * LINE;
/// Packed bytes between the block that is packed and the one that is asked for, and blocks that are listed at once.
pub(crate) const AHEAD: usize = 16 << 10;
const AT_ONCE: usize = 256;

impl Layout {
    /// As [`Layout::transfer`] from memory to packed bytes, of a part of a buffer of `total` packed bytes; the packed bytes are
    /// for this processor, not for another that waits for them.
    ///
    /// # Safety
    /// As [`Layout::transfer`].
    pub(crate) unsafe fn pack_of(
        &self,
        total: usize,
        origin: *mut u8,
        skip: usize,
        len: usize,
        packed: *mut u8,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if is_beyond(total, len)
                && (self.mean_block() >= SHORTEST || self.keeps_nothing(skip, len, packed))
            {
                self.pack_past_caches(origin, skip, len, packed);
            } else {
                self.transfer::<true>(origin, skip, len, packed);
            }
        }
    }

    /// Whether each block is half a line or whole lines, also where it is packed.
    fn keeps_nothing(&self, skip: usize, len: usize, packed: *const u8) -> bool {
        let regular = self.regular(std::ptr::null_mut(), skip, len);
        regular.is_some_and(|blocks| blocks.are_halves(packed) || blocks.are_whole_lines(packed))
    }

    /// # Safety
    /// As [`Layout::transfer`], with AVX2.
    unsafe fn pack_past_caches(&self, origin: *mut u8, skip: usize, len: usize, packed: *mut u8) {
        // SAFETY: the caller's promise; the runs are those of the packed bytes, one behind the other.
        let mut lines = unsafe { Lines::new(packed) };
        if let Some(regular) = self.regular(origin, skip, len) {
            // SAFETY: as above.
            return unsafe {
                if regular.are_halves(packed) {
                    regular.pack_halves(packed)
                } else if regular.are_whole_lines(packed) {
                    regular.pack_whole_lines(packed)
                } else {
                    regular.pack(lines)
                }
            };
        }
        let mut next = Ahead { blocks: [(std::ptr::null(), 0); AT_ONCE], number: 0, fetched: 0 };
        self.for_each_run(skip, len, |at, length| {
            next.blocks[next.number] = (origin.wrapping_offset(at as isize).cast_const(), length);
            next.number += 1;
            if next.number == AT_ONCE {
                // SAFETY: as above.
                unsafe { next.pack(AHEAD, &mut lines) };
            }
        });
        // SAFETY: as above.
        unsafe {
            next.pack(0, &mut lines);
            lines.finish();
        }
    }

    /// As [`Layout::transfer`] from packed bytes to memory, of a part of a buffer of `total` packed bytes.
    ///
    /// # Safety
    /// As [`Layout::transfer`].
    pub(crate) unsafe fn unpack_of(
        &self,
        total: usize,
        origin: *mut u8,
        skip: usize,
        len: usize,
        packed: *const u8,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if is_beyond(total, len) {
                if self.mean_block() >= LINE as u64 {
                    return self.unpack_past_caches(origin, skip, len, packed);
                }
                if self.regular(origin, skip, len).is_some_and(|blocks| blocks.unpack(packed)) {
                    return;
                }
            }
            self.transfer::<false>(origin, skip, len, packed.cast_mut());
        }
    }

    /// # Safety
    /// As [`Layout::transfer`].
    unsafe fn unpack_past_caches(&self, origin: *mut u8, skip: usize, len: usize, packed: *const u8) {
        let mut packed = packed;
        self.for_each_run(skip, len, |at, length| {
            // SAFETY: the caller's promise; the runs are those of the packed bytes, one behind the other.
            unsafe { past_caches(origin.wrapping_offset(at as isize), packed, length) };
            packed = packed.wrapping_add(length);
        });
        fence();
    }
}

/// Whether `len` bytes of a buffer of `total` packed bytes go past the caches.
#[inline]
fn is_beyond(total: usize, len: usize) -> bool {
    total >= BEYOND && len >= FEWEST && has_streams()
}

/// Whether there are streaming stores of 32 bytes. (Of 16 they are slower where their lines are read from memory at the same
/// time.)
pub(crate) fn has_streams() -> bool {
    #[cfg(target_arch = "x86_64")]
    return level() >= Level::Avx2;
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Streaming stores are not ordered with later ones: whoever is told that the data are there must see them.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Blocks that are to be packed; the first `fetched` of them were asked for.
struct Ahead {
    blocks: [(*const u8, usize); AT_ONCE],
    number: usize,
    fetched: usize,
}

impl Ahead {
    /// Packs the blocks that have `behind` packed bytes behind them, or all but one where blocks are longer, and half of the
    /// list in any case, or all where `behind` is 0; the others become the first ones.
    ///
    /// # Safety
    /// As [`Lines::append`] for each block, with AVX2.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
    unsafe fn pack(&mut self, behind: usize, lines: &mut Lines) {
        let blocks = &self.blocks[..self.number];
        let (mut fetched, mut done, mut under_way) = (self.fetched, 0, 0);
        for &(_, length) in &blocks[..fetched] {
            under_way += length;
        }
        while done < blocks.len() {
            while fetched < blocks.len() && (under_way < AHEAD || fetched <= done + 1) {
                let (block, length) = blocks[fetched];
                fetch_block(block, length);
                under_way += length;
                fetched += 1;
            }
            let (block, length) = blocks[done];
            let few_left = done >= AT_ONCE / 2 && under_way - length < behind;
            if fetched == blocks.len() && behind > 0 && few_left {
                break;
            }
            // SAFETY: the caller's promise.
            unsafe { lines.append(block, length, block) };
            under_way -= length;
            done += 1;
        }
        self.blocks.copy_within(done..self.number, 0);
        self.number -= done;
        self.fetched = fetched - done;
    }
}

/// Asks for a block, which is not empty; of one that is longer than what lies between, for its beginning: then the processor
/// sees it in time.
#[inline]
pub(crate) fn fetch_block(block: *const u8, length: usize) {
    if length > AHEAD {
        long::fetch_first(block, length);
        return;
    }
    for at in (0..length).step_by(LINE) {
        long::fetch_second(block.wrapping_add(at));
    }
    long::fetch_second(block.wrapping_add(length - 1));
}

/// One line.
#[repr(align(64))]
struct Line([u8; LINE]);

/// Packed bytes that leave as whole lines: what is less than a line waits for the block that completes it.
pub(crate) struct Lines {
    /// The line that is being filled, in packed memory.
    to: *mut u8,
    /// What is to come there: bytes `from..filled`. Only the first line begins inside.
    line: Line,
    from: usize,
    filled: usize,
}

impl Lines {
    /// # Safety
    /// Whatever is appended, as many bytes are writable at `packed`.
    unsafe fn new(packed: *mut u8) -> Lines {
        let inside = packed as usize % LINE;
        Lines { to: packed.wrapping_sub(inside), line: Line([0; LINE]), from: inside, filled: inside }
    }

    /// Appends a block, and asks for the lines of `next`, as long as it.
    ///
    /// # Safety
    /// The processor has AVX2. The block is readable, is not empty (`length` is not 0), lies outside the packed bytes, and
    /// there is room for it.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
    #[inline]
    pub(crate) unsafe fn append(&mut self, block: *const u8, length: usize, next: *const u8) {
        let (mut block, mut length, mut next) = (block, length, next);
        // What begins and ends with a line, here and there, has no line behind those that are asked for below.
        if !(self.filled | length | next as usize).is_multiple_of(LINE) {
            long::fetch_second(next.wrapping_add(length - 1));
        }
        // SAFETY: the caller's promise; what is left in the line is at least as long as what is put there.
        unsafe {
            if self.filled > 0 {
                let now = length.min(LINE - self.filled);
                copy_block(self.line.0.as_mut_ptr().add(self.filled), block, now);
                self.filled += now;
                long::fetch_second(next);
                if self.filled < LINE {
                    return;
                }
                self.put();
                self.to = self.to.wrapping_add(LINE);
                (self.from, self.filled) = (0, 0);
                (block, length, next) = (block.add(now), length - now, next.wrapping_add(now));
            }
            let whole = length / LINE * LINE;
            whole_lines::<true>(self.to, block, whole, next);
            self.to = self.to.wrapping_add(whole);
            self.filled = length - whole;
            copy_block(self.line.0.as_mut_ptr(), block.add(whole), self.filled);
        }
    }

    /// Writes the line, as far as it is filled.
    ///
    /// # Safety
    /// The processor has AVX2, and there is room for the line.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
    #[inline]
    unsafe fn put(&mut self) {
        // SAFETY: the caller's promise; `to` begins a line.
        unsafe {
            if (self.from, self.filled) == (0, LINE) {
                whole_lines::<false>(self.to, self.line.0.as_ptr(), LINE, std::ptr::null());
            } else {
                copy_block(
                    self.to.wrapping_add(self.from),
                    self.line.0.as_ptr().add(self.from),
                    self.filled - self.from,
                );
            }
        }
    }

    /// Writes what is left.
    ///
    /// # Safety
    /// The processor has AVX2.
    pub(crate) unsafe fn finish(mut self) {
        // SAFETY: `append`'s callers promised the room, the caller the instructions.
        unsafe { self.put() };
        fence();
    }
}

/// One block; its whole lines by streaming stores.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`], with AVX2.
#[inline]
unsafe fn past_caches(to: *mut u8, from: *const u8, length: usize) {
    let before = (to as usize).wrapping_neg() % LINE;
    // SAFETY: the caller's promise; the three parts lie inside the block.
    unsafe {
        if before == 0 && length.is_multiple_of(LINE) {
            return whole_lines::<false>(to, from, length, from);
        }
        // A line that is written in part is fetched anyway, and among streaming stores that costs more than it saves.
        if length < SHORTEST_UNALIGNED {
            return copy_block(to, from, length);
        }
        let lines = (length - before) / LINE * LINE;
        copy_block(to, from, before);
        whole_lines::<false>(to.add(before), from.add(before), lines, from);
        copy_block(to.add(before + lines), from.add(before + lines), length - before - lines);
    }
}

/// `FETCH`: asking for a line of `next` with each.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`], with AVX2; `to` begins a line, and `length` is a multiple of one.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
#[inline]
pub(crate) unsafe fn whole_lines<const FETCH: bool>(
    to: *mut u8,
    from: *const u8,
    length: usize,
    next: *const u8,
) {
    // SAFETY: the caller's promise: every half is inside and aligned.
    unsafe {
        for at in (0..length).step_by(LINE) {
            if FETCH {
                long::fetch_second(next.wrapping_add(at));
            }
            stream_half(to.add(at), from.add(at));
            stream_half(to.add(at + HALF), from.add(at + HALF));
        }
    }
}

/// Half a line past the caches.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`] of [`HALF`] bytes, with AVX2; `to` is a multiple of as many.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
#[inline]
pub(crate) unsafe fn stream_half(to: *mut u8, from: *const u8) {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::*;
            _mm256_stream_si256(to.cast(), _mm256_loadu_si256(from.cast()));
        }
        #[cfg(not(target_arch = "x86_64"))]
        std::ptr::copy_nonoverlapping(from, to, HALF);
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Blocks of every length and place, cut anywhere, against the ordinary way.
        #[test]
        fn past_the_caches_the_same_bytes_arrive(
            blocks in prop::collection::vec((0_i64..90, 1_usize..300), 1..12),
            offset in 0_usize..80,
            cut in 0_usize..1000,
        ) {
            let (blocks, end) = laid_out(blocks);
            let layout = Layout::from_blocks(&blocks, end + 3);
            let all = 3 * layout.size;
            let skip = cut % all;
            let packed: Vec<u8> = (0..all - skip).map(|i| (i % 251) as u8).collect();
            let mut memories = [vec![0xee_u8; offset + 3 * layout.extent as usize], vec![0xee_u8; offset + 3 * layout.extent as usize]];
            if !has_streams() {
                return Ok(());
            }
            // SAFETY: the memories hold three elements, and the packed bytes are as many.
            unsafe {
                let origin = memories[0].as_mut_ptr().add(offset);
                layout.transfer::<false>(origin, skip, packed.len(), packed.as_ptr().cast_mut());
                let origin = memories[1].as_mut_ptr().add(offset);
                layout.unpack_past_caches(origin, skip, packed.len(), packed.as_ptr());
            }
            prop_assert_eq!(&memories[0], &memories[1]);
            let mut rooms = [vec![0xee_u8; packed.len() + 80], vec![0xee_u8; packed.len() + 80]];
            // SAFETY: as above; the rooms hold as many bytes behind the offset.
            unsafe {
                let origin = memories[0].as_mut_ptr().add(offset);
                layout.transfer::<true>(origin, skip, packed.len(), rooms[0].as_mut_ptr().add(cut % 80));
                layout.pack_past_caches(origin, skip, packed.len(), rooms[1].as_mut_ptr().add(cut % 80));
            }
            prop_assert_eq!(&rooms[0], &rooms[1]);
        }

        /// More blocks than are listed at once, short ones and a few long ones.
        #[test]
        fn long_lists_of_blocks_are_packed_alike(
            blocks in prop::collection::vec((1_i64..9, 1_usize..40), 250..600),
            long in prop::collection::vec((0_usize..250, 1_usize..9000), 0..4),
            cut in 0_usize..1000,
        ) {
            let mut lengths = blocks;
            for (index, length) in long {
                lengths[index].1 = length;
            }
            let (blocks, end) = laid_out(lengths);
            packs_alike(&Layout::from_blocks(&blocks, end), cut)?;
        }

        /// Blocks of one length at a stride, forwards and backwards, which are not listed; also of halves of lines and of
        /// lines, to where such begin.
        #[test]
        fn blocks_at_a_stride_are_packed_alike(
            length in prop_oneof![1_usize..700, Just(HALF), (1_usize..40).prop_map(|lines| lines * LINE)],
            gap in 1_i64..200,
            count in 2_usize..60,
            backwards: bool,
            cut in 0_usize..1000,
        ) {
            let stride = length as i64 + gap;
            let first = if backwards { (count as i64 - 1) * stride } else { 0 };
            let step = if backwards { -stride } else { stride };
            let blocks: Vec<_> = (0..count as i64).map(|i| (first + i * step, length)).collect();
            packs_alike(&Layout::from_blocks(&blocks, count as i64 * stride), cut)?;
        }
    }

    /// Blocks one behind the other, each with a gap before it: where they begin, with their lengths, and where the last one ends.
    fn laid_out(blocks: Vec<(i64, usize)>) -> (Vec<(i64, usize)>, i64) {
        let mut end = 0;
        let place = |(gap, length): (i64, usize)| {
            let at = end + gap;
            end = at + length as i64;
            (at, length)
        };
        (blocks.into_iter().map(place).collect(), end)
    }

    /// One element, whole and from a place inside it.
    fn packs_alike(layout: &Layout, cut: usize) -> Result<(), TestCaseError> {
        if !has_streams() {
            return Ok(());
        }
        let mut memory: Vec<u8> = (0..layout.extent as usize).map(|i| (i % 253) as u8).collect();
        for skip in [0, cut % layout.size] {
            let length = layout.size - skip;
            let mut rooms = [vec![0xee_u8; length + 80], vec![0xee_u8; length + 80]];
            // Where half a line begins, or a line, or anywhere.
            let inside = |room: &[u8]| match cut % 3 {
                0 => room.as_ptr().align_offset(HALF),
                1 => room.as_ptr().align_offset(LINE),
                _ => cut % 80,
            };
            let insides = [inside(&rooms[0]), inside(&rooms[1])];
            // SAFETY: the memory holds an element, and the rooms as many bytes as are packed.
            unsafe {
                let origin = memory.as_mut_ptr();
                layout.transfer::<true>(origin, skip, length, rooms[0].as_mut_ptr().add(insides[0]));
                layout.pack_past_caches(origin, skip, length, rooms[1].as_mut_ptr().add(insides[1]));
            }
            let [ordinary, past] = [0, 1].map(|room| &rooms[room][insides[room]..][..length]);
            prop_assert_eq!(ordinary, past);
            let around = rooms[1][..insides[1]].iter().chain(&rooms[1][insides[1] + length..]);
            prop_assert!(around.copied().all(|byte| byte == 0xee));
        }
        Ok(())
    }
}
