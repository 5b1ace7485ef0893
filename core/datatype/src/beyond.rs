//! Unpacking more than the caches hold: whole lines are written past them.
//!
//! An ordinary store to a line that is in no cache first fetches the line, only to write over all of it; a streaming store does
//! not. Beyond the caches, where memory is what one waits for, blocks of whole lines are unpacked twice as fast so. Nearer data
//! would be driven out of the caches, and blocks shorter than a line gain nothing, so both go the ordinary way.
//!
//! Packing gains little: most of its traffic are the lines that it reads.

use crate::layout::Layout;
use crate::strided::copy_block;

/// Packed bytes of a buffer from which on its memory is taken to be in no cache: what a core has of the last cache of most servers.
pub(crate) const BEYOND: usize = 32 << 20;
/// Bytes of a line.
const LINE: usize = 64;
/// Fewest bytes at a time that are worth the fence at the end.
const FEWEST: usize = 4 << 10;

impl Layout {
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
            let lines = self.mean_block() >= LINE as u64;
            if total >= BEYOND && len >= FEWEST && lines && cfg!(all(target_arch = "x86_64", not(miri))) {
                self.unpack_past_caches(origin, skip, len, packed);
            } else {
                self.transfer::<false>(origin, skip, len, packed.cast_mut());
            }
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
        // Streaming stores are not ordered with later ones: whoever is told that the data are there must see them.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every processor of this architecture has the instruction.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

/// One block; its whole lines by streaming stores.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
#[inline]
unsafe fn past_caches(to: *mut u8, from: *const u8, length: usize) {
    let before = (to as usize).wrapping_neg() % LINE;
    // SAFETY: the caller's promise; the three parts lie inside the block.
    unsafe {
        if before == 0 && length.is_multiple_of(LINE) {
            return whole_lines(to, from, length);
        }
        if length < before + LINE {
            return copy_block(to, from, length);
        }
        let lines = (length - before) / LINE * LINE;
        copy_block(to, from, before);
        whole_lines(to.add(before), from.add(before), lines);
        copy_block(to.add(before + lines), from.add(before + lines), length - before - lines);
    }
}

/// # Safety
/// As [`std::ptr::copy_nonoverlapping`]; `to` begins a line, and `length` is a multiple of one.
#[inline]
unsafe fn whole_lines(to: *mut u8, from: *const u8, length: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise: every part of 16 bytes is inside and aligned.
    unsafe {
        use std::arch::x86_64::*;
        let (mut to, mut from) = (to.cast::<__m128i>(), from.cast::<__m128i>());
        for _ in 0..length / LINE {
            let line = [
                _mm_loadu_si128(from),
                _mm_loadu_si128(from.add(1)),
                _mm_loadu_si128(from.add(2)),
                _mm_loadu_si128(from.add(3)),
            ];
            _mm_stream_si128(to, line[0]);
            _mm_stream_si128(to.add(1), line[1]);
            _mm_stream_si128(to.add(2), line[2]);
            _mm_stream_si128(to.add(3), line[3]);
            (to, from) = (to.add(4), from.add(4));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, length)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Blocks of every length and place, cut anywhere, against the ordinary way.
        #[test]
        fn past_the_caches_the_same_bytes_arrive(
            blocks in prop::collection::vec((0_i64..90, 1_usize..300), 1..12),
            offset in 0_usize..80,
            cut in 0_usize..1000,
        ) {
            let mut end = 0;
            let blocks: Vec<_> = blocks
                .into_iter()
                .map(|(gap, length)| {
                    let at = end + gap;
                    end = at + length as i64;
                    (at, length)
                })
                .collect();
            let layout = Layout::from_blocks(&blocks, end + 3);
            let all = 3 * layout.size;
            let skip = cut % all;
            let packed: Vec<u8> = (0..all - skip).map(|i| (i % 251) as u8).collect();
            let mut memories = [vec![0xee_u8; offset + 3 * layout.extent as usize], vec![0xee_u8; offset + 3 * layout.extent as usize]];
            // SAFETY: the memories hold three elements, and the packed bytes are as many.
            unsafe {
                let origin = memories[0].as_mut_ptr().add(offset);
                layout.transfer::<false>(origin, skip, packed.len(), packed.as_ptr().cast_mut());
                let origin = memories[1].as_mut_ptr().add(offset);
                layout.unpack_past_caches(origin, skip, packed.len(), packed.as_ptr());
            }
            prop_assert_eq!(&memories[0], &memories[1]);
        }
    }
}
