//! Copy kernels: blocks of one length between two regular places, or between listed places and a packed run.
//!
//! One kernel serves both directions: packing reads at a stride and writes back to back, unpacking the other way round.
//! Frequent lengths have loops of their own, in which a block is one or two register moves.

use crate::eights::{self, Listed, Regular};
use crate::long;
use crate::vector;

/// Listed blocks fetched ahead of the one that is copied, where these lie far from each other. (Near ones come soon enough, and
/// at a stride the processor sees far enough ahead by itself: fetching ahead made such loops slower, the nearest by half.)
const AHEAD: usize = 16;
/// What far is: most of the blocks are on pages of their own.
const FAR: u64 = 64 << 10;

/// Copies `count` blocks of `length` bytes from `from + i * from_stride` to `to + i * to_stride`.
///
/// # Safety
/// All blocks are readable or writable, and none that is written overlaps one that is read.
#[inline]
pub(crate) unsafe fn strided(
    to: *mut u8,
    to_stride: isize,
    from: *const u8,
    from_stride: isize,
    count: usize,
    length: usize,
) {
    // SAFETY: the caller's promise, throughout.
    unsafe {
        if count == 1 {
            return copy_block(to, from, length);
        }
        if to_stride == length as isize && from_stride == length as isize {
            return long::copy(to, from, length * count);
        }
        match length {
            1 => fixed::<1>(to, to_stride, from, from_stride, count),
            2 => fixed::<2>(to, to_stride, from, from_stride, count),
            4 => fixed::<4>(to, to_stride, from, from_stride, count),
            8 => fixed::<8>(to, to_stride, from, from_stride, count),
            12 => fixed::<12>(to, to_stride, from, from_stride, count),
            16 => fixed::<16>(to, to_stride, from, from_stride, count),
            24 => fixed::<24>(to, to_stride, from, from_stride, count),
            32 => fixed::<32>(to, to_stride, from, from_stride, count),
            48 => fixed::<48>(to, to_stride, from, from_stride, count),
            64 => fixed::<64>(to, to_stride, from, from_stride, count),
            long::FEWEST.. if to_stride == length as isize => {
                long::pack(to, Regular { first: from.cast_mut(), stride: from_stride }, count, length);
            }
            long::FEWEST.. if from_stride == length as isize => {
                long::unpack(from, Regular { first: to, stride: to_stride }, count, length);
            }
            _ => {
                for i in 0..count as isize {
                    copy_block(
                        to.wrapping_offset(i * to_stride),
                        from.wrapping_offset(i * from_stride),
                        length,
                    );
                }
            }
        }
    }
}

/// # Safety
/// As [`strided`].
#[inline]
unsafe fn fixed<const N: usize>(
    to: *mut u8,
    to_stride: isize,
    from: *const u8,
    from_stride: isize,
    count: usize,
) {
    let dense = N as isize;
    // SAFETY: the caller's promise.
    unsafe {
        if to_stride == dense {
            if from_stride == 2 * dense && vector::pack_every_second::<N>(to, from, count) {
                return;
            }
            if N == 8 {
                let from = Regular { first: from.cast_mut(), stride: from_stride };
                return eights::pack_regular(to, from, count);
            }
            near_blocks::<N, true, false>(to, to_stride, from, from_stride, count);
        } else if from_stride == dense {
            if to_stride == 2 * dense && vector::unpack_every_second::<N>(to, from, count) {
                return;
            }
            if N == 8 {
                return eights::unpack_regular(from, Regular { first: to, stride: to_stride }, count);
            }
            near_blocks::<N, false, true>(to, to_stride, from, from_stride, count);
        } else {
            near_blocks::<N, false, false>(to, to_stride, from, from_stride, count);
        }
    }
}

/// `TO_DENSE`, `FROM_DENSE`: that side lies back to back, which saves the processor half of the address arithmetic.
///
/// # Safety
/// As [`strided`].
#[inline(never)]
unsafe fn near_blocks<const N: usize, const TO_DENSE: bool, const FROM_DENSE: bool>(
    mut to: *mut u8,
    to_stride: isize,
    mut from: *const u8,
    from_stride: isize,
    count: usize,
) {
    let to_stride = if TO_DENSE { N as isize } else { to_stride };
    let from_stride = if FROM_DENSE { N as isize } else { from_stride };
    // SAFETY: the caller's promise; the last step goes nowhere.
    unsafe {
        if N <= 8 {
            for _ in 0..count / 4 {
                let (a, b) = (block::<N>(from), block::<N>(from.wrapping_offset(from_stride)));
                let c = block::<N>(from.wrapping_offset(2 * from_stride));
                let d = block::<N>(from.wrapping_offset(3 * from_stride));
                put(to, a);
                put(to.wrapping_offset(to_stride), b);
                put(to.wrapping_offset(2 * to_stride), c);
                put(to.wrapping_offset(3 * to_stride), d);
                to = to.wrapping_offset(4 * to_stride);
                from = from.wrapping_offset(4 * from_stride);
            }
        }
        for _ in 0..if N <= 8 { count % 4 } else { count } {
            moved::<N>(to, from);
            to = to.wrapping_offset(to_stride);
            from = from.wrapping_offset(from_stride);
        }
    }
}

/// One block in moves of at most 16 bytes, so that a long one does not go through the stack.
///
/// # Safety
/// As [`copy_nonoverlapping`].
#[inline(always)]
pub(crate) unsafe fn moved<const N: usize>(to: *mut u8, from: *const u8) {
    let step = if N.is_multiple_of(16) { 16 } else { 8 };
    // SAFETY: the caller's promise; the parts lie inside the block.
    unsafe {
        if N < 8 {
            return put(to, block::<N>(from));
        }
        for part in (0..N - step + 1).step_by(step) {
            if step == 16 {
                put(to.add(part), block::<16>(from.add(part)));
            } else {
                put(to.add(part), block::<8>(from.add(part)));
            }
        }
        if !N.is_multiple_of(step) {
            put(to.add(N - step), block::<8>(from.add(N - step)));
        }
    }
}

/// Packs (`PACK`) or unpacks blocks of `length` bytes at `memory + places[i]`, back to back at `packed`.
///
/// # Safety
/// All blocks are readable or writable, and none that is written overlaps one that is read.
pub(crate) unsafe fn listed<const PACK: bool>(
    memory: *mut u8,
    places: &[i64],
    packed: *mut u8,
    length: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if places.is_empty() {
            return;
        }
        match length {
            4 => listed_fixed::<4, PACK, false>(memory, places, packed),
            8 if PACK => eights::pack(packed, Listed { origin: memory, places }, places.len()),
            8 => eights::unpack(packed, Listed { origin: memory, places }, places.len()),
            12 => listed_fixed::<12, PACK, false>(memory, places, packed),
            16 => listed_near_or_far::<16, PACK>(memory, places, packed),
            24 => listed_near_or_far::<24, PACK>(memory, places, packed),
            32 => listed_near_or_far::<32, PACK>(memory, places, packed),
            48 => listed_near_or_far::<48, PACK>(memory, places, packed),
            64 => listed_near_or_far::<64, PACK>(memory, places, packed),
            long::FEWEST.. if PACK => {
                long::pack(packed, Listed { origin: memory, places }, places.len(), length);
            }
            long::FEWEST.. => long::unpack(packed, Listed { origin: memory, places }, places.len(), length),
            _ => {
                let mut packed = packed;
                for &place in places {
                    between::<PACK>(memory.wrapping_offset(place as isize), packed, length);
                    packed = packed.wrapping_add(length);
                }
            }
        }
    }
}

/// # Safety
/// As [`listed`].
#[inline]
unsafe fn listed_near_or_far<const N: usize, const PACK: bool>(
    memory: *mut u8,
    places: &[i64],
    packed: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if are_far(places) {
            listed_fixed::<N, PACK, true>(memory, places, packed);
        } else {
            listed_fixed::<N, PACK, false>(memory, places, packed);
        }
    }
}

/// Whether blocks lie far from their neighbours in the list, as a few of them tell.
fn are_far(places: &[i64]) -> bool {
    let last = places.len() - 1;
    let apart = |i: usize| places[i].abs_diff(places[i + 1]) / 4;
    last >= 2 * AHEAD && apart(0) + apart(last / 3) + apart(last / 2) + apart(last - 1) >= FAR
}

/// `FAR`: with fetching ahead.
///
/// # Safety
/// As [`listed`].
#[inline(never)]
unsafe fn listed_fixed<const N: usize, const PACK: bool, const FAR: bool>(
    memory: *mut u8,
    places: &[i64],
    mut packed: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for (i, &place) in places.iter().enumerate() {
            if FAR && let Some(&next) = places.get(i + AHEAD) {
                long::fetch_near(memory.wrapping_offset(next as isize));
            }
            let here = memory.wrapping_offset(place as isize);
            if PACK {
                moved::<N>(packed, here)
            } else {
                moved::<N>(here, packed)
            }
            packed = packed.wrapping_add(N);
        }
    }
}

/// One block from memory to packed bytes (`PACK`) or back.
///
/// # Safety
/// As [`strided`].
#[inline(always)]
pub(crate) unsafe fn between<const PACK: bool>(memory: *mut u8, packed: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { if PACK { copy_block(packed, memory, length) } else { copy_block(memory, packed, length) } }
}

/// `copy_nonoverlapping` without a call for short blocks: two moves that overlap cover every length between one and two
/// registers.
///
/// # Safety
/// As [`copy_nonoverlapping`].
#[inline(always)]
pub(crate) unsafe fn copy_block(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: the caller's promise; both ends of a pair of moves lie inside `length` bytes.
    unsafe {
        match length {
            64.. => long::copy(to, from, length),
            32..64 => ends::<32>(to, from, length),
            16..32 => ends::<16>(to, from, length),
            8..16 => ends::<8>(to, from, length),
            4..8 => ends::<4>(to, from, length),
            2..4 => ends::<2>(to, from, length),
            1 => to.write(from.read()),
            0 => {}
        }
    }
}

/// # Safety
/// As [`copy_nonoverlapping`], with `N <= length <= 2 * N`.
#[inline(always)]
unsafe fn ends<const N: usize>(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let (front, back) = (block::<N>(from), block::<N>(from.add(length - N)));
        put(to, front);
        put(to.add(length - N), back);
    }
}

/// # Safety
/// `N` bytes are readable.
#[inline(always)]
unsafe fn block<const N: usize>(from: *const u8) -> [u8; N] {
    // SAFETY: the caller's promise; bytes have no alignment.
    unsafe { from.cast::<[u8; N]>().read() }
}

/// # Safety
/// `N` bytes are writable.
#[inline(always)]
unsafe fn put<const N: usize>(to: *mut u8, value: [u8; N]) {
    // SAFETY: the caller's promise; bytes have no alignment.
    unsafe { to.cast::<[u8; N]>().write(value) }
}
