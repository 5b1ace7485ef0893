//! Blocks of more than a line: moved in the order of their addresses, 32 bytes at a time, while the first lines of later blocks are
//! on their way.
//!
//! Two things slow such blocks down when each is left to `memcpy`. The processor fetches the next lines by itself only within a
//! block and learns of the next block when it is reached, so its first lines are asked for ahead. And the C library moves some kilobytes
//! by the processor's instruction for strings, which on several processors (AMD's families 25 and 26; glibc bug 30994) falls to a
//! twentieth of its speed where the target begins up to 15 bytes after the source modulo a page, to a half or a third up to 63.

use crate::eights::Places;
#[cfg(target_arch = "x86_64")]
use crate::processor::{Level, level};
use std::ptr::copy_nonoverlapping;

/// Shortest block that is moved here.
pub(crate) const FEWEST: usize = 65;
/// Length from which on the C library's copies are as good: it knows the caches' sizes.
#[cfg(target_arch = "x86_64")]
const MOST: usize = 256 << 10;
/// Shortest block whose successors are fetched ahead, and how many bytes ahead.
const FETCHED: usize = 256;
const AHEAD: usize = 1 << 10;
/// Bytes of a line, and how many lines of a block are fetched: the processor sees by them that more follow.
pub(crate) const LINE: usize = 64;
const LINES: usize = 2;
/// Shortest copy for which the C library may take the instruction for strings.
#[cfg(target_arch = "x86_64")]
const STRING: usize = 2 << 10;

/// Packs `count` blocks of `length` bytes, [`FEWEST`] or more.
///
/// # Safety
/// The blocks are readable, the packed bytes writable, and the two do not overlap.
pub(crate) unsafe fn pack<P: Places>(packed: *mut u8, from: P, count: usize, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { each::<P, true>(packed, from, count, length) }
}

/// Unpacks `count` blocks of `length` bytes, [`FEWEST`] or more.
///
/// # Safety
/// The packed bytes are readable, the blocks writable, and the two do not overlap.
pub(crate) unsafe fn unpack<P: Places>(packed: *const u8, to: P, count: usize, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { each::<P, false>(packed.cast_mut(), to, count, length) }
}

/// # Safety
/// As [`pack`] (`PACK`) or [`unpack`].
#[inline(always)]
unsafe fn each<P: Places, const PACK: bool>(packed: *mut u8, memory: P, count: usize, length: usize) {
    // SAFETY: the caller's promise; the instructions are there.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if (FEWEST..MOST).contains(&length) && level() >= Level::Avx2 {
            return x86_64::each::<P, PACK>(packed, memory, count, length);
        }
        for i in 0..count {
            let (here, packed) = (memory.at(i), packed.wrapping_add(i * length));
            let (to, from) = if PACK { (packed, here) } else { (here, packed) };
            copy_nonoverlapping(from, to, length);
        }
    }
}

/// `copy_nonoverlapping` without the trap of the instruction for strings.
///
/// # Safety
/// As [`copy_nonoverlapping`].
#[inline(always)]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if length >= STRING && begins_just_behind(to, from) && level() >= Level::Avx2 {
            return x86_64::copy(to, from, length);
        }
        copy_nonoverlapping(from, to, length);
    }
}

/// Whether `to` begins less than a line after `from` modulo a page.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn begins_just_behind(to: *mut u8, from: *const u8) -> bool {
    let behind = (to as usize).wrapping_sub(from as usize) % 4096;
    (1..LINE).contains(&behind)
}

/// Asks for the first lines of a block that is read (`READ`) or written soon.
#[inline(always)]
pub(crate) fn fetch_first<const READ: bool>(block: *const u8, length: usize) {
    for line in 0..LINES {
        if line * LINE < length {
            fetch::<READ>(block.wrapping_add(line * LINE));
        }
    }
}

#[inline(always)]
fn fetch<const READ: bool>(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address has no effect that a program can see.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        if READ {
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        } else {
            _mm_prefetch::<_MM_HINT_ET0>(address.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{AHEAD, FETCHED, Places, fetch_first};
    use std::arch::x86_64::*;

    const VECTOR: usize = 32;

    /// # Safety
    /// As [`super::each`], with AVX2 and blocks of [`VECTOR`] bytes or more.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn each<P: Places, const PACK: bool>(
        packed: *mut u8,
        memory: P,
        count: usize,
        length: usize,
    ) {
        // Nothing is fetched behind the last block: lines that nobody asked for would drive out others.
        let ahead = if length < FETCHED { count } else { (AHEAD / length).max(1) };
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..count {
                if i + ahead < count {
                    fetch_first::<PACK>(memory.at(i + ahead), length);
                }
                let (here, packed) = (memory.at(i), packed.wrapping_add(i * length));
                if PACK { copy(packed, here, length) } else { copy(here, packed, length) }
            }
        }
    }

    /// # Safety
    /// As [`std::ptr::copy_nonoverlapping`], with AVX2 and [`VECTOR`] bytes or more.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
        let last = length - VECTOR;
        // SAFETY: the caller's promise; the last vector overlaps the one before it.
        unsafe {
            for at in (0..last).step_by(VECTOR) {
                _mm256_storeu_si256(to.add(at).cast(), _mm256_loadu_si256(from.add(at).cast()));
            }
            _mm256_storeu_si256(to.add(last).cast(), _mm256_loadu_si256(from.add(last).cast()));
        }
    }
}
