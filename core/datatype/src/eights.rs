//! Blocks of eight bytes, the most frequent ones by far: a double each.
//!
//! Packing joins several blocks in a register, so that they are stored as one: two times as fast where the blocks are near.
//! Unpacking loads several as one and takes them apart, which is half as fast again there. Where nearly every block is a miss
//! of the nearest cache, gathers and scatters keep more misses under way than single moves do, on processors that are good at
//! them; between lines that follow each other the prefetcher does as well.

use crate::long::{self, LINE};
#[cfg(target_arch = "x86_64")]
use crate::processor::{Level, level};

/// Lines that fit the nearest cache, with room for the packed bytes.
#[cfg(target_arch = "x86_64")]
const NEAR_LINES: usize = 512;
/// Distance from which on the processor does not fetch the next line by itself.
#[cfg(target_arch = "x86_64")]
const FAR: usize = 128;

/// Lines of packed bytes asked for ahead of the block that is unpacked. Each block's own line is a miss as well, and where
/// another core has written the packed bytes, those would else wait their turn behind these.
const LINES_AHEAD: usize = 8;

/// Where blocks are.
pub(crate) trait Places: Copy {
    /// The address of block `index`.
    ///
    /// # Safety
    /// There is such a block.
    unsafe fn at(self, index: usize) -> *mut u8;
}

/// Blocks at a stride.
#[derive(Clone, Copy)]
pub(crate) struct Regular {
    pub(crate) first: *mut u8,
    pub(crate) stride: isize,
}

impl Places for Regular {
    #[inline(always)]
    unsafe fn at(self, index: usize) -> *mut u8 {
        self.first.wrapping_offset(self.stride.wrapping_mul(index as isize))
    }
}

/// Blocks at listed displacements.
#[derive(Clone, Copy)]
pub(crate) struct Listed<'a> {
    pub(crate) origin: *mut u8,
    pub(crate) places: &'a [i64],
}

impl Places for Listed<'_> {
    #[inline(always)]
    unsafe fn at(self, index: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.origin.wrapping_offset(unsafe { *self.places.get_unchecked(index) } as isize)
    }
}

/// Packs `count` blocks at a stride.
///
/// # Safety
/// The blocks are readable, the packed bytes writable, and the two do not overlap.
pub(crate) unsafe fn pack_regular(packed: *mut u8, from: Regular, count: usize) {
    // SAFETY: the caller's promise; the instructions are there.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if misses_hide(from.stride, count) {
            return x86_64::gather(packed, from, count);
        }
        pack(packed, from, count);
    }
}

/// Unpacks `count` blocks to places at a stride.
///
/// # Safety
/// The packed bytes are readable, the blocks writable, and the two do not overlap.
pub(crate) unsafe fn unpack_regular(packed: *const u8, to: Regular, count: usize) {
    // SAFETY: the caller's promise; the instructions are there.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if misses_hide(to.stride, count) {
            return x86_64::scatter(packed, to, count);
        }
        unpack(packed, to, count);
    }
}

/// Packs `count` blocks.
///
/// # Safety
/// The blocks are readable, the packed bytes writable, and the two do not overlap.
#[inline]
pub(crate) unsafe fn pack<P: Places>(packed: *mut u8, from: P, count: usize) {
    // SAFETY: the caller's promise; the instructions are there.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        match level() {
            Level::Plain => x86_64::join_16(packed, from, count),
            Level::Avx2 => x86_64::join_32(packed, from, count),
            Level::Avx512 | Level::Gather => x86_64::join_64(packed, from, count),
        }
        #[cfg(not(target_arch = "x86_64"))]
        pack_singly(packed, from, 0, count);
    }
}

/// Unpacks `count` blocks.
///
/// # Safety
/// The packed bytes are readable, the blocks writable, and the two do not overlap.
#[inline]
pub(crate) unsafe fn unpack<P: Places>(packed: *const u8, to: P, count: usize) {
    #[cfg(target_arch = "x86_64")]
    if (4..=NEAR_LINES).contains(&count) && level() >= Level::Avx2 {
        // SAFETY: the caller's promise; the instructions are there.
        return unsafe { x86_64::part_32(packed, to, count) };
    }
    // SAFETY: the caller's promise.
    unsafe { unpack_singly(packed, to, 0, count) }
}

/// Blocks `first..count`, one by one.
///
/// # Safety
/// As [`unpack`].
#[inline(always)]
unsafe fn unpack_singly<P: Places>(packed: *const u8, to: P, first: usize, count: usize) {
    let packed = packed.cast::<u64>();
    // SAFETY: the caller's promise; bytes have no alignment.
    unsafe {
        let fours = first + ((count - first) & !3);
        for i in (first..fours).step_by(4) {
            fetch_packed(packed.wrapping_add(i).cast(), i);
            for j in i..i + 4 {
                to.at(j).cast::<u64>().write_unaligned(packed.add(j).read_unaligned());
            }
        }
        for i in fours..count {
            to.at(i).cast::<u64>().write_unaligned(packed.add(i).read_unaligned());
        }
    }
}

/// Asks for the packed bytes that come behind those of block `index`, once for each line.
#[inline(always)]
fn fetch_packed(packed: *const u8, index: usize) {
    if index.is_multiple_of(LINE / 8) {
        long::fetch_near(packed.wrapping_add(LINES_AHEAD * LINE));
    }
}

/// Blocks `first..count`, one by one.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn pack_singly<P: Places>(packed: *mut u8, from: P, first: usize, count: usize) {
    let packed = packed.cast::<u64>();
    for i in first..count {
        // SAFETY: the caller's promise; bytes have no alignment.
        unsafe { packed.add(i).write_unaligned(from.at(i).cast::<u64>().read_unaligned()) }
    }
}

/// Whether gathers and scatters are worth it.
#[cfg(target_arch = "x86_64")]
#[inline]
fn misses_hide(stride: isize, count: usize) -> bool {
    count > NEAR_LINES && stride.unsigned_abs() >= FAR && level() >= Level::Gather
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Places, Regular, fetch_packed, pack_singly, unpack, unpack_singly};
    use std::arch::x86_64::*;

    /// Eight bytes without alignment.
    #[derive(Clone, Copy)]
    #[repr(C, packed)]
    struct Block(i64);

    /// Four blocks without alignment.
    #[derive(Clone, Copy)]
    #[repr(C, packed)]
    struct Four(__m256i);

    /// Two blocks. Volatile keeps their order: a processor that is shown lines backwards does not fetch the next ones, which made
    /// loops slower by half.
    ///
    /// # Safety
    /// There are blocks `i` and `i + 1`, and they are readable.
    #[inline(always)]
    unsafe fn pair<P: Places>(from: P, i: usize) -> __m128i {
        // SAFETY: the caller's promise.
        unsafe {
            let Block(low) = from.at(i).cast::<Block>().read_volatile();
            let Block(high) = from.at(i + 1).cast::<Block>().read_volatile();
            _mm_set_epi64x(high, low)
        }
    }

    /// # Safety
    /// As [`super::pack`].
    pub(super) unsafe fn join_16<P: Places>(packed: *mut u8, from: P, count: usize) {
        let joined = count & !3;
        // SAFETY: the caller's promise.
        unsafe {
            for i in (0..joined).step_by(4) {
                let to = packed.add(8 * i).cast::<__m128i>();
                _mm_storeu_si128(to, pair(from, i));
                _mm_storeu_si128(to.add(1), pair(from, i + 2));
            }
            pack_singly(packed, from, joined, count);
        }
    }

    /// # Safety
    /// As [`super::pack`], with AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn join_32<P: Places>(packed: *mut u8, from: P, count: usize) {
        let joined = count & !7;
        // SAFETY: the caller's promise.
        unsafe {
            for i in (0..joined).step_by(8) {
                let to = packed.add(8 * i).cast::<__m256i>();
                let (a, b, c, d) = (pair(from, i), pair(from, i + 2), pair(from, i + 4), pair(from, i + 6));
                _mm256_storeu_si256(to, _mm256_set_m128i(b, a));
                _mm256_storeu_si256(to.add(1), _mm256_set_m128i(d, c));
            }
            pack_singly(packed, from, joined, count);
        }
    }

    /// # Safety
    /// As [`super::pack`], with AVX-512.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn join_64<P: Places>(packed: *mut u8, from: P, count: usize) {
        let joined = count & !7;
        // SAFETY: the caller's promise.
        unsafe {
            for i in (0..joined).step_by(8) {
                let (a, b, c, d) = (pair(from, i), pair(from, i + 2), pair(from, i + 4), pair(from, i + 6));
                let (low, high) = (_mm256_set_m128i(b, a), _mm256_set_m128i(d, c));
                let all = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
                _mm512_storeu_si512(packed.add(8 * i).cast(), all);
            }
            pack_singly(packed, from, joined, count);
        }
    }

    /// # Safety
    /// As [`super::unpack`], with AVX2.
    ///
    /// Volatile keeps the four in one load, which compilers like to take apart again.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn part_32<P: Places>(packed: *const u8, to: P, count: usize) {
        let parted = count & !3;
        // SAFETY: the caller's promise; bytes have no alignment.
        unsafe {
            for i in (0..parted).step_by(4) {
                fetch_packed(packed.wrapping_add(8 * i), i);
                let Four(all) = packed.add(8 * i).cast::<Four>().read_volatile();
                let (low, high) = (_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all));
                to.at(i).cast::<i64>().write_unaligned(_mm_cvtsi128_si64(low));
                to.at(i + 1).cast::<i64>().write_unaligned(_mm_extract_epi64::<1>(low));
                to.at(i + 2).cast::<i64>().write_unaligned(_mm_cvtsi128_si64(high));
                to.at(i + 3).cast::<i64>().write_unaligned(_mm_extract_epi64::<1>(high));
            }
            unpack_singly(packed, to, parted, count);
        }
    }

    /// `stride` times 0 to 7.
    fn offsets(stride: isize) -> [i64; 8] {
        std::array::from_fn(|index| (stride as i64).wrapping_mul(index as i64))
    }

    /// # Safety
    /// As [`super::pack_regular`], with AVX-512.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn gather(packed: *mut u8, from: Regular, count: usize) {
        let offsets = offsets(from.stride);
        let gathered = count & !7;
        // SAFETY: the caller's promise; the offsets are 64 bytes.
        unsafe {
            let offsets = _mm512_loadu_si512(offsets.as_ptr().cast());
            for i in (0..gathered).step_by(8) {
                let blocks = _mm512_i64gather_epi64::<1>(offsets, from.at(i).cast());
                _mm512_storeu_si512(packed.add(8 * i).cast(), blocks);
            }
            pack_singly(packed, from, gathered, count);
        }
    }

    /// Two parts in turn: where another core has written the packed bytes, the processor so has more of their lines under way.
    ///
    /// # Safety
    /// As [`super::unpack_regular`], with AVX-512.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn scatter(packed: *const u8, to: Regular, count: usize) {
        let offsets = offsets(to.stride);
        let part = (count / 2) & !7;
        let scattered = 2 * part;
        // SAFETY: the caller's promise; the offsets are 64 bytes.
        unsafe {
            let offsets = _mm512_loadu_si512(offsets.as_ptr().cast());
            for first in (0..part).step_by(8) {
                for i in [first, part + first] {
                    fetch_packed(packed.wrapping_add(8 * i), i);
                    let blocks = _mm512_loadu_si512(packed.add(8 * i).cast());
                    _mm512_i64scatter_epi64::<1>(to.at(i).cast(), offsets, blocks);
                }
            }
            let rest = Regular { first: to.at(scattered), stride: to.stride };
            unpack(packed.add(8 * scattered), rest, count - scattered);
        }
    }
}
