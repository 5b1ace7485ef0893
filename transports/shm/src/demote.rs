//! Sending lines that were just written from this core's cache towards the one that all cores share.
//!
//! A line that another core reads next has to be asked for and sent from the writer's cache, and both hold it afterwards, so that whoever
//! writes it next has to ask again. Moved to the shared cache while nobody has asked yet, it is read from there, and its reader has it for
//! itself. Some processors have an instruction that does so; nothing but the time depends on it.

/// Whether the processor has the instruction.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) fn is_there() -> bool {
    use std::sync::OnceLock;
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    /// CLDEMOTE in ECX of leaf 7.
    const BIT: u32 = 25;
    // A virtual machine asks its host, which takes microseconds.
    *IS_THERE.get_or_init(|| {
        let last = std::arch::x86_64::__cpuid(0).eax;
        last >= 7 && std::arch::x86_64::__cpuid_count(7, 0).ecx >> BIT & 1 == 1
    })
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn is_there() -> bool {
    false
}

/// Demotes the line at an address, where [`is_there`]; elsewhere nothing happens.
#[inline(always)]
pub(crate) fn line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint about a line, which changes no memory and may be given any address; processors without it take it for a longer no-op.
    unsafe {
        std::arch::asm!("cldemote [{}]", in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// The same of all lines that begin among `bytes` bytes at an address that begins a line.
#[inline]
pub(crate) fn lines(at: *const u8, bytes: usize) {
    for step in (0..bytes).step_by(LINE) {
        line(at.wrapping_add(step));
    }
}

const LINE: usize = 64;
