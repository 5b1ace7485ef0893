//! The phase of the process: which models of MPI are open, and whether calls take locks.

use std::sync::atomic::Ordering;

use super::{CLOSED, GATE, Gate, SESSION, WORLD};

/// The phase bits. Relaxed: threads learn of a change by the program's own synchronisation, as section 11.6 asks.
#[inline(always)]
pub(crate) fn phase() -> u32 {
    GATE.phase.load(Ordering::Relaxed)
}

/// Whether the phase has one of `BITS`: [`phase`] for the calls that are counted in instructions. Compilers load an atomic word before
/// they look at it; this looks at it where it lies.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(super) fn has<const BITS: u32>() -> bool {
    // SAFETY: reads a word that exists as long as the program, as a relaxed load would.
    unsafe {
        std::arch::asm!(
            "test dword ptr [rip + {gate} + {phase}], {bits}",
            "jnz {yes}",
            gate = sym GATE,
            phase = const std::mem::offset_of!(Gate, phase),
            bits = const BITS,
            yes = label { return true },
            options(nostack),
        );
    }
    false
}

/// See above.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(super) fn has<const BITS: u32>() -> bool {
    phase() & BITS != 0
}

/// Sets and clears phase bits.
pub(crate) fn change_phase(set: u32, clear: u32) {
    let changed = |bits| {
        let bits = (bits | set) & !(clear | CLOSED);
        Some(if bits & (WORLD | SESSION) == 0 { bits | CLOSED } else { bits })
    };
    let _ = GATE.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
}
