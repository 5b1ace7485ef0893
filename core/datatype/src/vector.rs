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
        if count < FEWEST || !matches!(N, 4 | 8) || !is_x86_feature_detected!("avx512f") {
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
        if count < FEWEST || !matches!(N, 4 | 8) || !is_x86_feature_detected!("avx512f") {
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

    macro_rules! every_second {
        ($pack:ident, $unpack:ident: $lane:ty, $lanes:literal, $choose:ident, $index:expr, $permute:ident, $store:ident,
         $mask:expr, $spread:expr) => {
            /// # Safety
            /// As [`pack_every_second`], with AVX-512F.
            #[target_feature(enable = "avx512f")]
            unsafe fn $pack(to: *mut u8, from: *const u8, count: usize) {
                let (to, from) = (to.cast::<$lane>(), from.cast::<$lane>());
                let chosen = $index;
                // The last blocks one by one: a vector ends with a gap, which lies between two blocks of the caller's
                // promise everywhere but behind the last.
                let vectors = (count - 1) / $lanes;
                // SAFETY: the blocks are the caller's promise. A gap between two of them is read with them and dropped;
                // it is on a page that the blocks are on, so reading it cannot fail.
                unsafe {
                    for i in 0..vectors {
                        let from = from.add(2 * $lanes * i);
                        let (a, b) =
                            (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add($lanes).cast()));
                        _mm512_storeu_si512(to.add($lanes * i).cast(), $choose(a, chosen, b));
                    }
                    for i in vectors * $lanes..count {
                        to.add(i).write_unaligned(from.add(2 * i).read_unaligned());
                    }
                }
            }

            /// # Safety
            /// As [`unpack_every_second`], with AVX-512F.
            #[target_feature(enable = "avx512f")]
            unsafe fn $unpack(to: *mut u8, from: *const u8, count: usize) {
                let (to, from) = (to.cast::<$lane>(), from.cast::<$lane>());
                let (low, high) = $spread;
                let vectors = count / $lanes;
                // SAFETY: the blocks are the caller's promise; the mask leaves the gaps alone.
                unsafe {
                    for i in 0..vectors {
                        let data = _mm512_loadu_si512(from.add($lanes * i).cast());
                        let to = to.add(2 * $lanes * i);
                        $store(to.cast(), $mask, $permute(low, data));
                        $store(to.add($lanes).cast(), $mask, $permute(high, data));
                    }
                    for i in vectors * $lanes..count {
                        to.add(2 * i).write_unaligned(from.add(i).read_unaligned());
                    }
                }
            }
        };
    }

    every_second!(
        pack_8, unpack_8: u64, 8, _mm512_permutex2var_epi64,
        _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), _mm512_permutexvar_epi64, _mm512_mask_storeu_epi64, 0x55,
        (_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3), _mm512_setr_epi64(4, 4, 5, 5, 6, 6, 7, 7))
    );

    every_second!(
        pack_4, unpack_4: u32, 16, _mm512_permutex2var_epi32,
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), _mm512_permutexvar_epi32,
        _mm512_mask_storeu_epi32, 0x5555,
        (
            _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
            _mm512_setr_epi32(8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15)
        )
    );
}
