//! Blocks of more than a line: moved in the order of their addresses, 32 bytes at a time, while the first lines of later blocks
//! are on their way.
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
            copy(to, from, length);
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

/// Asks for the first lines of a block that is read soon.
#[inline(always)]
pub(crate) fn fetch_first(block: *const u8, length: usize) {
    for line in (0..length.min(LINES * LINE)).step_by(LINE) {
        fetch_near(block.wrapping_add(line));
    }
}

/// `_MM_HINT_T0`, `_MM_HINT_T1`. (Fetching to write, where blocks are unpacked, was not faster.)
const NEAREST: i32 = 3;
const SECOND: i32 = 2;

/// Asks for the line of `address`, which is read soon.
#[inline(always)]
pub(crate) fn fetch_near(address: *const u8) {
    fetch::<NEAREST>(address);
}

/// As [`fetch_near`], into the second cache, where there is room for more misses that are under way.
#[inline(always)]
pub(crate) fn fetch_second(address: *const u8) {
    fetch::<SECOND>(address);
}

#[inline(always)]
fn fetch<const HOW: i32>(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address has no effect that a program can see.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<HOW>(address.cast());
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
                    fetch_first(memory.at(i + ahead), length);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::tests::at_every_level;

    /// Targets that begin less than a line behind the source modulo a page, which go another way, and those beside them.
    #[test]
    fn a_copy_is_the_same_wherever_it_begins() {
        let lengths: &[usize] = if cfg!(miri) { &[2049] } else { &[2047, 2048, 2049, 4096, 9999] };
        let from: Vec<u8> = (0..10_000 + 8192).map(|i| (i % 251) as u8).collect();
        let mut to = vec![0_u8; 10_000 + 2 * 8192];
        let untouched = vec![0xee; to.len()];
        for &length in lengths {
            for behind in [0, 1, 15, 16, 31, 32, 63, 64, 4095] {
                at_every_level(|level| {
                    to.fill(0xee);
                    let first = (from.as_ptr() as usize).wrapping_sub(to.as_ptr() as usize) % 4096 + behind;
                    // SAFETY: both are long enough for the greatest offset and length, and two vectors do not overlap.
                    unsafe { copy(to.as_mut_ptr().add(first), from.as_ptr(), length) };
                    assert_eq!(to[first..first + length], from[..length], "{level:?}: {length} at {behind}");
                    let end = first + length;
                    let beside = to[..first] == untouched[..first] && to[end..] == untouched[end..];
                    assert!(beside, "{level:?}: {length} at {behind} touched more");
                });
            }
        }
    }
}
