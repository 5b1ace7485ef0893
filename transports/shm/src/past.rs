//! Copying past the caches: for what another core reads next.
//!
//! A line that was just written lies in the writer's own cache, and whoever reads it has it sent from there. Between cores of one
//! cluster that takes some 8 ns a line; between clusters of one chip, or chips, some 35 ns, and few such transfers go on at a
//! time: 2 GB/s on the machines this was measured on. What is written past the caches is read from memory, from which the
//! processor fetches ahead: 22 us for 256 KiB through shared memory where stores into the cache took 130 us.

/// Copies so that the bytes of `to` end up in no cache. Whatever is stored after it is seen after it by others that load with
/// Acquire.
///
/// # Panics
/// When the two are not equally long.
pub fn copy_past_caches(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy between ranges of different length");
    let lines = lines_of(to);
    let (first, last) = (lines.start, lines.end);
    to[..first].copy_from_slice(&from[..first]);
    stream(&from[first..last], &mut to[first..last]);
    to[last..].copy_from_slice(&from[last..]);
}

/// The part of a range that consists of whole lines.
fn lines_of(bytes: &[u8]) -> std::ops::Range<usize> {
    let first = bytes.as_ptr().align_offset(LINE).min(bytes.len());
    first..first + (bytes.len() - first) / LINE * LINE
}

const LINE: usize = 64;

/// Copies whole lines.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn stream(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    for (from, to) in from.chunks_exact(LINE).zip(to.chunks_exact_mut(LINE)) {
        let (from, to) = (from.as_ptr().cast::<__m128i>(), to.as_mut_ptr().cast::<__m128i>());
        // SAFETY: both are 64 bytes, and `to` begins a line, so that it is aligned. The fence below comes before anything that
        // tells others, or this thread's Rust code, of these bytes.
        unsafe {
            let line = [
                _mm_loadu_si128(from),
                _mm_loadu_si128(from.add(1)),
                _mm_loadu_si128(from.add(2)),
                _mm_loadu_si128(from.add(3)),
            ];
            for (at, part) in line.into_iter().enumerate() {
                _mm_stream_si128(to.add(at), part);
            }
        }
    }
    // Such stores are ordered by nothing else, not even by a store with Release.
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _mm_sfence() };
}

/// Copies whole lines: elsewhere there is no way that would be worth it.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn stream(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

/// Ticks of a steady counter, some two to four in a nanosecond; always 0 where [`copy_past_caches`] is an ordinary copy.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: reads a counter.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_wherever_a_range_begins_and_ends() {
        let from: Vec<u8> = (0..1000).map(|byte| (byte * 7 % 251) as u8).collect();
        let begins: &[usize] = if cfg!(miri) { &[0, 65] } else { &[0, 1, 15, 16, 63, 64, 65] };
        for &begin in begins {
            for len in [0, 1, 63, 64, 65, 127, 128, 129, 500] {
                let mut to = vec![255; 1000];
                copy_past_caches(&from[begin / 2..][..len], &mut to[begin..][..len]);
                assert_eq!(to[begin..][..len], from[begin / 2..][..len], "{len} bytes at {begin}");
                assert!(to[..begin].iter().chain(&to[begin + len..]).all(|&byte| byte == 255));
            }
        }
    }
}
