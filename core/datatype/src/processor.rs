//! What the processor's vector instructions can do, asked once.
//!
//! The kernels have portable loops for everything; a level only says which faster ones may be used. Under Miri, and on processors
//! other than x86-64, there is [`Level::Plain`] alone.

use std::sync::atomic::{AtomicU8, Ordering};

/// What may be used; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "there is only the plain level"))]
#[repr(u8)]
pub(crate) enum Level {
    /// What every processor of this architecture has.
    Plain = 1,
    /// 32-byte vectors.
    Avx2 = 2,
    /// 64-byte vectors, masks, and permutations of their bytes (AVX-512 F, BW and VBMI).
    Avx512 = 3,
    /// Also gathers and scatters that hide misses of the nearest cache better than single moves do (AMD's processors with
    /// AVX-512; Intel's microcode has made gathers slow).
    Gather = 4,
}

/// 0: not asked yet.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The level of this processor.
#[inline]
pub(crate) fn level() -> Level {
    #[cfg(test)]
    if let Some(limit) = tests::LIMIT.get() {
        return detected().min(limit);
    }
    detected()
}

#[inline]
fn detected() -> Level {
    // Relaxed: whoever asks at the same time finds the same.
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Plain,
        2 => Level::Avx2,
        3 => Level::Avx512,
        4 => Level::Gather,
        _ => ask(),
    }
}

#[cold]
fn ask() -> Level {
    let level = if cfg!(miri) { Level::Plain } else { of_this_processor() };
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

#[cfg(target_arch = "x86_64")]
fn of_this_processor() -> Level {
    let wide = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi");
    if !is_x86_feature_detected!("avx2") {
        Level::Plain
    } else if !wide {
        Level::Avx2
    } else if is_amd() {
        Level::Gather
    } else {
        Level::Avx512
    }
}

#[cfg(target_arch = "x86_64")]
fn is_amd() -> bool {
    let names = std::arch::x86_64::__cpuid(0);
    [names.ebx, names.edx, names.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD"
}

#[cfg(not(target_arch = "x86_64"))]
fn of_this_processor() -> Level {
    Level::Plain
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        pub(super) static LIMIT: Cell<Option<Level>> = const { Cell::new(None) };
    }

    /// Runs `work` once for every level that this processor has.
    pub(crate) fn at_every_level(mut work: impl FnMut(Level)) {
        for limit in [Level::Plain, Level::Avx2, Level::Avx512, Level::Gather] {
            if limit <= detected() {
                LIMIT.set(Some(limit));
                work(limit);
            }
        }
        LIMIT.set(None);
    }
}
