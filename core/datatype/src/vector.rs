//! Every second block of 4 or 8 bytes, by vector registers where the processor has the instructions for it.
//!
//! Packing reads whole vectors, the gaps with them, and keeps the blocks; unpacking writes under a mask, so that gaps
//! are not touched. Both return `false` where this processor has no such instructions: the caller copies one by one.

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{pack_every_second, unpack_every_second};

/// # Safety
/// None needed: nothing is copied.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn pack_every_second<const N: usize>(_: *mut u8, _: *const u8, _: usize) -> bool {
    false
}

/// # Safety
/// None needed: nothing is copied.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn unpack_every_second<const N: usize>(_: *mut u8, _: *const u8, _: usize) -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use crate::processor::{Level, level};
    use std::arch::x86_64::*;

    /// Fewest blocks that make it worth a look at what the processor can do.
    const FEWEST: usize = 16;

    /// Packs `count` blocks of `N` bytes that begin every `2 * N` bytes. `false`: nothing was done.
    ///
    /// # Safety
    /// The blocks are readable, the packed bytes writable, and the two do not overlap.
    #[inline]
    pub(crate) unsafe fn pack_every_second<const N: usize>(
        to: *mut u8,
        from: *const u8,
        count: usize,
    ) -> bool {
        if count < FEWEST || !matches!(N, 4 | 8) || level() < Level::Avx2 {
            return false;
        }
        // SAFETY: the caller's promise; the processor has the instructions.
        unsafe {
            match N {
                4 => pack_4(to, from, count),
                _ => pack_8(to, from, count),
            }
        }
        true
    }

    /// Unpacks `count` blocks of `N` bytes to every `2 * N` bytes. `false`: nothing was done.
    ///
    /// # Safety
    /// The packed bytes are readable, the blocks writable, and the two do not overlap.
    #[inline]
    pub(crate) unsafe fn unpack_every_second<const N: usize>(
        to: *mut u8,
        from: *const u8,
        count: usize,
    ) -> bool {
        if count < FEWEST || !matches!(N, 4 | 8) || !has_fast_masks() {
            return false;
        }
        // SAFETY: the caller's promise; the processor has the instructions.
        unsafe {
            match N {
                4 => unpack_4(to, from, count),
                _ => unpack_8(to, from, count),
            }
        }
        true
    }

    /// Processors with AVX-512 have short masked stores; some older ones take twenty cycles for an AVX2 one.
    #[inline]
    fn has_fast_masks() -> bool {
        level() >= Level::Avx2 && is_x86_feature_detected!("avx512f")
    }

    macro_rules! every_second {
        ($pack:ident, $unpack:ident: $lane:ty, $lanes:literal, |$a:ident, $b:ident| $chosen:expr,
         |$data:ident| $spread:expr, $store:ident, $mask:expr) => {
            /// # Safety
            /// As [`pack_every_second`], with AVX2.
            #[target_feature(enable = "avx2")]
            unsafe fn $pack(to: *mut u8, from: *const u8, count: usize) {
                let (to, from) = (to.cast::<$lane>(), from.cast::<$lane>());
                // The last blocks one by one: a vector ends with a gap, which lies between two blocks of the caller's
                // promise everywhere but behind the last.
                let vectors = (count - 1) / $lanes;
                // SAFETY: the blocks are the caller's promise. A gap between two of them is read with them and dropped;
                // it is on a page that the blocks are on, so reading it cannot fail.
                unsafe {
                    for i in 0..vectors {
                        let from = from.add(2 * $lanes * i);
                        let $a = _mm256_loadu_si256(from.cast());
                        let $b = _mm256_loadu_si256(from.add($lanes).cast());
                        _mm256_storeu_si256(to.add($lanes * i).cast(), $chosen);
                    }
                    for i in vectors * $lanes..count {
                        to.add(i).write_unaligned(from.add(2 * i).read_unaligned());
                    }
                }
            }

            /// # Safety
            /// As [`unpack_every_second`], with AVX2.
            #[target_feature(enable = "avx2")]
            unsafe fn $unpack(to: *mut u8, from: *const u8, count: usize) {
                let (to, from) = (to.cast::<$lane>(), from.cast::<$lane>());
                let mask = $mask;
                let vectors = count / $lanes;
                // SAFETY: the blocks are the caller's promise; the mask leaves the gaps alone.
                unsafe {
                    for i in 0..vectors {
                        let $data = _mm256_loadu_si256(from.add($lanes * i).cast());
                        let to = to.add(2 * $lanes * i);
                        let (low, high) = $spread;
                        $store(to.cast(), mask, low);
                        $store(to.add($lanes).cast(), mask, high);
                    }
                    for i in vectors * $lanes..count {
                        to.add(2 * i).write_unaligned(from.add(i).read_unaligned());
                    }
                }
            }
        };
    }

    every_second!(
        pack_8, unpack_8: u64, 4,
        |a, b| _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_unpacklo_epi64(a, b)),
        |data| (_mm256_permute4x64_epi64::<0b01_01_00_00>(data), _mm256_permute4x64_epi64::<0b11_11_10_10>(data)),
        _mm256_maskstore_epi64, _mm256_setr_epi64x(-1, 0, -1, 0)
    );

    every_second!(
        pack_4, unpack_4: u32, 8,
        |a, b| {
            let mixed = _mm256_shuffle_ps::<0b10_00_10_00>(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(mixed))
        },
        |data| {
            let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(data);
            (_mm256_unpacklo_epi32(halves, halves), _mm256_unpackhi_epi32(halves, halves))
        },
        _mm256_maskstore_epi32, _mm256_setr_epi32(-1, 0, -1, 0, -1, 0, -1, 0)
    );
}
