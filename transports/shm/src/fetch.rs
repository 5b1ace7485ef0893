//! Fetching lines before they are needed.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Fetches the line of an address for reading, without waiting for it; upon which nothing but the time depends. Any address will do.
#[inline(always)]
pub(crate) fn line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and may be given any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The same of all lines of a payload. The processor waits where it has no room for more misses, so no more than what its nearest
/// cache holds is worth it.
#[inline]
pub fn payload(bytes: &[u8]) {
    bytes.chunks(LINE).for_each(|piece| line(piece.as_ptr()));
    if let Some(last) = bytes.last() {
        line(last);
    }
}
