//! C `long double` on x86-64: the 80-bit format of the x87 unit in 16 bytes, the last 6 without meaning.
//!
//! Rust has no such type. Sums and products are three instructions of the unit itself, so that results are those of
//! a C program; comparisons are done on the bits. On other processors there is no kernel and the caller says so.

use crate::op::{Kernel, PredefinedOp};
use std::cmp::Ordering;

/// Whether this processor has the format.
pub(crate) const AVAILABLE: bool = cfg!(target_arch = "x86_64");

type Bytes = [u8; 16];

pub(crate) fn real(op: PredefinedOp) -> Option<Kernel> {
    if !AVAILABLE {
        return None;
    }
    Some(match op {
        PredefinedOp::Sum => Kernel::new(|left, into| super::kernels::zip(left, into, add)),
        PredefinedOp::Prod => Kernel::new(|left, into| super::kernels::zip(left, into, multiply)),
        PredefinedOp::Max => {
            Kernel::new(|left, into| {
                super::kernels::zip(left, into, |a, b| {
                    if compare(&a, &b) == Some(Ordering::Greater) { a } else { b }
                });
            })
        }
        PredefinedOp::Min => Kernel::new(|left, into| {
            super::kernels::zip(
                left,
                into,
                |a, b| if compare(&a, &b) == Some(Ordering::Less) { a } else { b },
            );
        }),
        _ => return None,
    })
}

pub(crate) fn complex(op: PredefinedOp) -> Option<Kernel> {
    match op {
        PredefinedOp::Sum => real(op),
        PredefinedOp::Prod if AVAILABLE => Some(Kernel::new(|left, into| {
            super::kernels::zip::<32>(left, into, |a, b| {
                let ([ar, ai], [br, bi]) = (split(a), split(b));
                let real = subtract(multiply(ar, br), multiply(ai, bi));
                let imaginary = add(multiply(ar, bi), multiply(ai, br));
                let mut out = [0; 32];
                out[..16].copy_from_slice(&real);
                out[16..].copy_from_slice(&imaginary);
                out
            });
        })),
        _ => None,
    }
}

fn split(value: [u8; 32]) -> [Bytes; 2] {
    let (parts, _) = value.as_chunks::<16>();
    [parts[0], parts[1]]
}

/// Order of two values; `None` when one is not a number.
pub(crate) fn compare(a: &Bytes, b: &Bytes) -> Option<Ordering> {
    Some(key(a)?.cmp(&key(b)?))
}

/// A number ordered as the value: sign, 15 bits of exponent and 64 bits of significand are ordered as they stand.
fn key(value: &Bytes) -> Option<i128> {
    let bits = u128::from_le_bytes(*value) & ((1 << 80) - 1);
    let magnitude = (bits & ((1 << 79) - 1)) as i128;
    let significand = bits as u64;
    if magnitude >> 64 == 0x7fff && significand << 1 != 0 {
        return None;
    }
    Some(if bits >> 79 == 1 { -magnitude } else { magnitude })
}

macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident = $instruction:literal;)*) => {$(
        $(#[$doc])*
        #[cfg(target_arch = "x86_64")]
        #[inline]
        fn $name(a: Bytes, mut b: Bytes) -> Bytes {
            // SAFETY: the pointers are to 16-byte locals, of which the instructions read and write the first 10; the
            // unit's stack is empty on entry (all its registers are declared clobbered) and is left empty.
            unsafe {
                std::arch::asm!(
                    "fld tbyte ptr [{a}]",
                    "fld tbyte ptr [{b}]",
                    $instruction,
                    "fstp tbyte ptr [{b}]",
                    a = in(reg) &raw const a,
                    b = in(reg) &raw mut b,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
            b
        }

        #[cfg(not(target_arch = "x86_64"))]
        fn $name(_: Bytes, _: Bytes) -> Bytes {
            unreachable!("kernels of the x87 format are handed out on x86-64 only")
        }
    )*};
}

instructions! {
    /// a + b
    add = "faddp st(1), st";
    /// a * b
    multiply = "fmulp st(1), st";
    /// a - b
    subtract = "fsubp st(1), st";
}
