//! Blocks of one length at a stride, more than the caches hold: packed with later ones asked for, or several parts of them in
//! turn.
//!
//! Where blocks are shorter than a line, every line between the first and the last block is waited for, and the processor
//! fetches ahead on one page at a time for each place that is read or written. From several places at a time it has more lines
//! under way: eight parts, a block of each in turn, are unpacked a fourth to two fifths faster than one.

use crate::beyond::{AHEAD, HALF, Lines, fence, fetch_block, stream_half, whole_lines};
use crate::eights::{Places, Regular};
use crate::layout::{Layout, Shape};
use crate::long::{self, LINE};
use crate::strided::moved;

/// Parts whose blocks go in turn, when packing halves of lines and when unpacking, and packed bytes of each (shorter parts are
/// as fast down to 32 KiB; on the same page they are slower than one).
const PACKED_PARTS: usize = 4;
const UNPACKED_PARTS: usize = 8;
const PART: usize = 512 << 10;

/// Blocks that are asked for several at a time, and packed bytes of these: a tenth faster than line by line for such lengths,
/// and a tenth slower for 256 bytes.
const BURSTS: std::ops::RangeInclusive<usize> = 512..=BURST;
const BURST: usize = 2 << 10;

impl Layout {
    /// The blocks of `len` packed bytes from the first element's first on, where they are of one length at a stride.
    pub(crate) fn regular(&self, origin: *mut u8, skip: usize, len: usize) -> Option<Blocks> {
        if skip != 0 || !len.is_multiple_of(self.size) {
            return None;
        }
        let first = origin.wrapping_offset(self.node.at as isize);
        if self.node.is_run() {
            let from = Regular { first, stride: self.extent as isize };
            return Some(Blocks { from, count: len / self.size, length: self.size });
        }
        let Shape::Repeat { count, stride, body, .. } = &self.node.shape else { return None };
        let from = Regular { first: first.wrapping_offset(body.at as isize), stride: *stride as isize };
        (body.is_run() && len == self.size).then_some(Blocks { from, count: *count, length: body.size })
    }
}

/// Blocks of one length at a stride: nothing needs to be listed.
pub(crate) struct Blocks {
    from: Regular,
    count: usize,
    length: usize,
}

impl Blocks {
    /// Whether each block is half a line, and half a line where it is packed: nothing need be kept for the block that completes
    /// it.
    pub(crate) fn are_halves(&self, packed: *const u8) -> bool {
        self.length == HALF && (packed as usize).is_multiple_of(HALF)
    }

    /// Packs blocks that are halves. They are not asked for: the processor sees enough of them by itself, and asking was slower.
    ///
    /// # Safety
    /// The blocks are readable, as many bytes at `packed` are writable, and the two do not overlap; with AVX2.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
    pub(crate) unsafe fn pack_halves(self, packed: *mut u8) {
        let Blocks { from, count, .. } = self;
        // Two blocks at a time, so that a line is whole before another part's is begun.
        in_turn::<PACKED_PARTS>(count / 2, PART / (2 * HALF), |pair| {
            for i in [2 * pair, 2 * pair + 1] {
                // SAFETY: the caller's promise; every half is inside and aligned.
                unsafe { stream_half(packed.add(i * HALF), from.at(i)) };
            }
        });
        if !count.is_multiple_of(2) {
            // SAFETY: as above.
            unsafe { stream_half(packed.add((count - 1) * HALF), from.at(count - 1)) };
        }
        fence();
    }

    /// Whether each block is whole lines where it is packed: nothing need be kept either.
    pub(crate) fn are_whole_lines(&self, packed: *const u8) -> bool {
        (packed as usize | self.length).is_multiple_of(LINE)
    }

    /// Packs blocks that are whole lines, while later ones are asked for: [`BURSTS`] some at a time, others a line with each
    /// that is packed.
    ///
    /// # Safety
    /// The blocks are readable, as many bytes at `packed` are writable, and the two do not overlap; with AVX2.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
    pub(crate) unsafe fn pack_whole_lines(self, packed: *mut u8) {
        let Blocks { from, count, length } = self;
        let ahead = (AHEAD / length).max(1);
        let burst = if BURSTS.contains(&length) { BURST / length } else { count };
        let is_even = (from.first as usize | from.stride as usize).is_multiple_of(LINE);
        // SAFETY: the caller's promise; the last blocks have nothing behind them: of those lines are asked for that are there.
        unsafe {
            for first in (0..count).step_by(burst) {
                let last = (first + burst).min(count);
                if burst < count {
                    for next in first + ahead..(last + ahead).min(count) {
                        fetch_block(from.at(next), length);
                    }
                    for i in first..last {
                        whole_lines::<false>(packed.add(i * length), from.at(i), length, packed);
                    }
                    continue;
                }
                for i in first..last {
                    let next = from.at((i + ahead).min(count - 1));
                    if length > AHEAD {
                        fetch_block(next, length);
                        whole_lines::<true>(packed.add(i * length), from.at(i), length, from.at(i));
                        continue;
                    }
                    if !is_even {
                        long::fetch_second(next.wrapping_add(length - 1));
                    }
                    whole_lines::<true>(packed.add(i * length), from.at(i), length, next);
                }
            }
        }
        fence();
    }

    /// # Safety
    /// As [`Lines::append`] for each block, with AVX2.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
    pub(crate) unsafe fn pack(self, mut lines: Lines) {
        let Blocks { from, count, length } = self;
        let ahead = (AHEAD / length).max(1);
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..count {
                let block = from.at(i);
                // As above.
                let mut next = from.at((i + ahead).min(count - 1));
                if length > AHEAD {
                    fetch_block(next, length);
                    next = block;
                }
                lines.append(block, length, next);
            }
            lines.finish();
        }
    }

    /// Unpacks blocks of a length that is a few moves, by ordinary stores: of a line that is written in part the rest has to be
    /// fetched. Whether it is such a length; nothing is done otherwise.
    ///
    /// # Safety
    /// The blocks are writable, as many bytes at `packed` are readable, and the two do not overlap.
    pub(crate) unsafe fn unpack(&self, packed: *const u8) -> bool {
        // SAFETY: the caller's promise, and each is called for its length.
        unsafe {
            match self.length {
                16 => self.unpack_fixed::<16>(packed),
                24 => self.unpack_fixed::<24>(packed),
                32 => self.unpack_fixed::<32>(packed),
                48 => self.unpack_fixed::<48>(packed),
                _ => return false,
            }
        }
        true
    }

    /// # Safety
    /// As [`Blocks::unpack`], of blocks of `N` bytes.
    unsafe fn unpack_fixed<const N: usize>(&self, packed: *const u8) {
        in_turn::<UNPACKED_PARTS>(self.count, PART / N, |i| {
            // SAFETY: the caller's promise.
            unsafe { moved::<N>(self.from.at(i), packed.add(i * N)) };
        });
    }
}

/// Calls `each` for every number below `count`, of `PARTS` neighbouring parts of `part` numbers in turn: 0, `part`, 2 * `part`,
/// ..., then 1, `part` + 1, ...; what is left behind the last such group in order.
#[inline(always)]
fn in_turn<const PARTS: usize>(count: usize, part: usize, each: impl Fn(usize)) {
    let grouped = count - count % (PARTS * part);
    for group in (0..grouped).step_by(PARTS * part) {
        for i in group..group + part {
            for other in 0..PARTS {
                each(i + other * part);
            }
        }
    }
    for i in grouped..count {
        each(i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than all parts hold, and a rest: packed and unpacked as in one part, also where an element is a block.
    #[cfg(not(miri))]
    #[test]
    fn blocks_in_parts_arrive_where_those_in_one_part_do() {
        for length in [16_usize, 24, 32, 48] {
            let (count, stride) = (UNPACKED_PARTS * PART / length + 1001, length + 13);
            let places: Vec<_> = (0..count).map(|i| ((i * stride) as i64, length)).collect();
            let whole = Layout::from_blocks(&places, (count * stride) as i64);
            let single = Layout::from_blocks(&places[..1], stride as i64);
            let room = vec![0_u8; count * length + HALF];
            let packed: Vec<u8> = (0..count * length).map(|i| (i % 251) as u8).collect();
            let mut wanted = vec![0xee_u8; count * stride];
            // SAFETY: every memory holds the blocks, and the packed bytes and the room are as many.
            unsafe {
                whole.transfer::<false>(wanted.as_mut_ptr(), 0, packed.len(), packed.as_ptr().cast_mut());
                for layout in [&whole, &single] {
                    let mut memory = vec![0xee_u8; count * stride];
                    let blocks =
                        layout.regular(memory.as_mut_ptr(), 0, packed.len()).expect("they are at a stride");
                    assert_eq!((blocks.count, blocks.length), (count, length));
                    assert!(blocks.unpack(packed.as_ptr()));
                    assert!(memory == wanted, "blocks of {length} bytes");
                }
            }
            if length == HALF && crate::beyond::has_streams() {
                let mut room = room;
                let inside = room.as_ptr().align_offset(HALF);
                // SAFETY: as above; there are streaming stores.
                unsafe {
                    let blocks =
                        whole.regular(wanted.as_mut_ptr(), 0, packed.len()).expect("they are at a stride");
                    assert!(blocks.are_halves(room.as_ptr().wrapping_add(inside)));
                    blocks.pack_halves(room.as_mut_ptr().add(inside));
                }
                assert!(room[inside..][..packed.len()] == packed[..]);
            }
        }
        let layout = Layout::from_blocks(&[(0, 32), (64, 32)], 128);
        assert!(layout.regular(std::ptr::null_mut(), 32, 32).is_none());
        assert!(layout.regular(std::ptr::null_mut(), 0, 128).is_none());
    }

    #[test]
    fn parts_in_turn_are_every_number_once() {
        for count in [0, 1, 11, 12, 13, 24, 35, 36] {
            let seen = std::cell::RefCell::new(Vec::new());
            in_turn::<4>(count, 3, |i| seen.borrow_mut().push(i));
            let mut seen = seen.into_inner();
            if count >= 12 {
                assert_eq!(seen[..6], [0, 3, 6, 9, 1, 4]);
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count));
        }
    }
}
