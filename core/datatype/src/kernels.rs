//! Reduction loops, one per operation and representation, written so that the compiler can vectorise them: the
//! elements are read and written as byte arrays, so that any alignment is right and nothing is unsafe. Each loop exists with two
//! operands (the result replaces the right one) and with three; those on words of 4 and 8 bytes are compiled once more
//! for each level of vectors, with the same results.

use crate::op::{Kernel, PredefinedOp};
use crate::predefined::Kind;
use crate::x87;

/// The loop for an operation on elements of a kind; `None` when this processor has none. The tables of section 6.9.2
/// are applied by the caller.
pub(crate) fn find(op: PredefinedOp, kind: Kind) -> Option<Kernel> {
    match kind {
        Kind::I8 => integer::i8(op),
        Kind::I16 => integer::i16(op),
        Kind::I32 => integer::i32(op),
        Kind::I64 => integer::i64(op),
        Kind::I128 => integer::i128(op),
        Kind::U8 => integer::u8(op),
        Kind::U16 => integer::u16(op),
        Kind::U32 => integer::u32(op),
        Kind::U64 => integer::u64(op),
        Kind::F32 => float::f32(op),
        Kind::F64 => float::f64(op),
        Kind::C32 => complex::f32(op),
        Kind::C64 => complex::f64(op),
        Kind::Bool => integer::u8(op),
        Kind::Logical(1) => logical::i8(op),
        Kind::Logical(2) => logical::i16(op),
        Kind::Logical(4) => logical::i32(op),
        Kind::Logical(8) => logical::i64(op),
        Kind::Logical(16) => logical::i128(op),
        Kind::Logical(_) | Kind::Opaque(_) => None,
        Kind::LongDouble => x87::real(op),
        Kind::CLongDouble => x87::complex(op),
        Kind::FloatInt => pair::float_int(op),
        Kind::DoubleInt => pair::double_int(op),
        Kind::LongInt => pair::long_int(op),
        Kind::IntInt => pair::int_int(op),
        Kind::ShortInt => pair::short_int(op),
        Kind::LongDoubleInt => pair::long_double_int(op),
        Kind::FloatFloat => pair::float_float(op),
        Kind::DoubleDouble => pair::double_double(op),
    }
}

/// `into[i] = f(left[i], into[i])` over elements of `N` bytes.
#[inline(always)]
pub(crate) fn zip<const N: usize>(left: &[u8], into: &mut [u8], f: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (left, _) = left.as_chunks::<N>();
    let (into, _) = into.as_chunks_mut::<N>();
    for (a, b) in left.iter().zip(into) {
        *b = f(*a, *b);
    }
}

/// `into[i] = f(left[i], right[i])` over elements of `N` bytes.
#[inline(always)]
pub(crate) fn zip_apart<const N: usize>(
    left: &[u8],
    right: &[u8],
    into: &mut [u8],
    f: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let (left, _) = left.as_chunks::<N>();
    let (right, _) = right.as_chunks::<N>();
    let (into, _) = into.as_chunks_mut::<N>();
    for ((a, b), c) in left.iter().zip(right).zip(into) {
        *c = f(*a, *b);
    }
}

/// The kernel of an elementwise operation on numbers of one type.
macro_rules! elementwise {
    ($number:ty, |$a:ident, $b:ident| $result:expr) => {{
        type N = $number;
        #[inline(always)]
        fn one(a: [u8; size_of::<N>()], b: [u8; size_of::<N>()]) -> [u8; size_of::<N>()] {
            let ($a, $b) = (N::from_ne_bytes(a), N::from_ne_bytes(b));
            N::to_ne_bytes($result)
        }
        fn plain(left: &[u8], into: &mut [u8]) {
            zip(left, into, one);
        }
        fn plain_apart(left: &[u8], right: &[u8], into: &mut [u8]) {
            zip_apart(left, right, into, one);
        }
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2")]
            fn avx2(left: &[u8], into: &mut [u8]) {
                zip(left, into, one);
            }
            #[target_feature(enable = "avx2")]
            fn avx2_apart(left: &[u8], right: &[u8], into: &mut [u8]) {
                zip_apart(left, right, into, one);
            }
            #[target_feature(enable = "avx512f")]
            fn avx512(left: &[u8], into: &mut [u8]) {
                zip(left, into, one);
            }
            #[target_feature(enable = "avx512f")]
            fn avx512_apart(left: &[u8], right: &[u8], into: &mut [u8]) {
                zip_apart(left, right, into, one);
            }
            let wide = matches!(size_of::<N>(), 4 | 8);
            match level() {
                // SAFETY: the processor has what the loops were compiled for, as its level says.
                Level::Avx512 | Level::Gather if wide => unsafe {
                    Kernel::compiled_for(avx512, avx512_apart)
                },
                // SAFETY: as above.
                Level::Avx2 if wide => unsafe { Kernel::compiled_for(avx2, avx2_apart) },
                _ => Kernel::apart(plain, plain_apart),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Kernel::apart(plain, plain_apart)
    }};
}

mod integer {
    use super::{Kernel, PredefinedOp, zip, zip_apart};
    #[cfg(target_arch = "x86_64")]
    use crate::processor::{Level, level};

    macro_rules! integers {
        ($($name:ident)*) => {$(
            pub(super) fn $name(op: PredefinedOp) -> Option<Kernel> {
                type T = $name;
                macro_rules! kernel {
                    (|$a:ident, $b:ident| $result:expr) => {
                        elementwise!($name, |$a, $b| $result)
                    };
                }
                Some(match op {
                    PredefinedOp::Max => kernel!(|a, b| a.max(b)),
                    PredefinedOp::Min => kernel!(|a, b| a.min(b)),
                    PredefinedOp::Sum => kernel!(|a, b| a.wrapping_add(b)),
                    PredefinedOp::Prod => kernel!(|a, b| a.wrapping_mul(b)),
                    PredefinedOp::Land => kernel!(|a, b| T::from(a != 0 && b != 0)),
                    PredefinedOp::Lor => kernel!(|a, b| T::from(a != 0 || b != 0)),
                    PredefinedOp::Lxor => kernel!(|a, b| T::from((a != 0) != (b != 0))),
                    PredefinedOp::Band => kernel!(|a, b| a & b),
                    PredefinedOp::Bor => kernel!(|a, b| a | b),
                    PredefinedOp::Bxor => kernel!(|a, b| a ^ b),
                    _ => return None,
                })
            }
        )*};
    }

    integers! { i8 i16 i32 i64 i128 u8 u16 u32 u64 }
}

/// Fortran's LOGICAL: whatever is not `.FALSE.` is true, and what is written is `.TRUE.` or `.FALSE.`, as the process was told.
mod logical {
    use super::{Kernel, PredefinedOp, zip, zip_apart};
    use crate::fortran;

    macro_rules! logicals {
        ($($name:ident)*) => {$(
            pub(super) fn $name(op: PredefinedOp) -> Option<Kernel> {
                type Bytes = [u8; size_of::<$name>()];
                macro_rules! kernel {
                    (|$a:ident, $b:ident| $result:expr) => {{
                        #[inline(always)]
                        fn one() -> impl Fn(Bytes, Bytes) -> Bytes {
                            let (yes, no) = fortran::numbers();
                            // The compiler's literal of this size: the same number, cut where it has fewer bytes.
                            let (yes, no) = ((yes as $name).to_ne_bytes(), (no as $name).to_ne_bytes());
                            move |a, b| {
                                let ($a, $b) = (a != no, b != no);
                                if $result { yes } else { no }
                            }
                        }
                        Kernel::apart(
                            |left, into| zip(left, into, one()),
                            |left, right, into| zip_apart(left, right, into, one()),
                        )
                    }};
                }
                Some(match op {
                    PredefinedOp::Land => kernel!(|a, b| a && b),
                    PredefinedOp::Lor => kernel!(|a, b| a || b),
                    PredefinedOp::Lxor => kernel!(|a, b| a != b),
                    _ => return None,
                })
            }
        )*};
    }

    logicals! { i8 i16 i32 i64 i128 }
}

mod float {
    use super::{Kernel, PredefinedOp, zip, zip_apart};
    #[cfg(target_arch = "x86_64")]
    use crate::processor::{Level, level};

    macro_rules! floats {
        ($($name:ident)*) => {$(
            pub(super) fn $name(op: PredefinedOp) -> Option<Kernel> {
                macro_rules! kernel {
                    (|$a:ident, $b:ident| $result:expr) => {
                        elementwise!($name, |$a, $b| $result)
                    };
                }
                Some(match op {
                    PredefinedOp::Max => kernel!(|a, b| if a > b { a } else { b }),
                    PredefinedOp::Min => kernel!(|a, b| if a < b { a } else { b }),
                    PredefinedOp::Sum => kernel!(|a, b| a + b),
                    PredefinedOp::Prod => kernel!(|a, b| a * b),
                    _ => return None,
                })
            }
        )*};
    }

    floats! { f32 f64 }
}

mod complex {
    use super::{Kernel, PredefinedOp};

    macro_rules! complexes {
        ($($name:ident)*) => {$(
            pub(super) fn $name(op: PredefinedOp) -> Option<Kernel> {
                const N: usize = size_of::<$name>();
                fn product(left: &[u8], into: &mut [u8]) {
                    let (left, _) = left.as_chunks::<N>();
                    let (into, _) = into.as_chunks_mut::<N>();
                    for (a, b) in left.as_chunks::<2>().0.iter().zip(into.as_chunks_mut::<2>().0) {
                        let [ar, ai] = a.map($name::from_ne_bytes);
                        let [br, bi] = b.map($name::from_ne_bytes);
                        *b = [ar * br - ai * bi, ar * bi + ai * br].map($name::to_ne_bytes);
                    }
                }
                match op {
                    PredefinedOp::Sum => super::float::$name(op),
                    PredefinedOp::Prod => Some(Kernel::new(product)),
                    _ => None,
                }
            }
        )*};
    }

    complexes! { f32 f64 }
}

mod pair {
    use super::{Kernel, PredefinedOp};
    use crate::x87;
    use std::cmp::Ordering;

    /// `MPI_MAXLOC` (`better` is `Greater`) and `MPI_MINLOC` (`Less`) on pairs of a `V`-byte value at the start and an
    /// `I`-byte index at `index` of every `extent` bytes. The last element may end at its last data byte.
    #[inline(always)]
    fn locate<const V: usize, const I: usize>(
        left: &[u8],
        into: &mut [u8],
        (index, extent): (usize, usize),
        better: Ordering,
        value: impl Fn(&[u8; V], &[u8; V]) -> Option<Ordering>,
        lower: impl Fn(&[u8; I], &[u8; I]) -> bool,
    ) {
        for (a, b) in left.chunks(extent).zip(into.chunks_mut(extent)) {
            let (Some((u, _)), Some((i, _))) =
                (a.split_first_chunk::<V>(), a[index..].split_first_chunk::<I>())
            else {
                continue;
            };
            let (value_bytes, index_bytes) = b.split_at_mut(index);
            let (Some((v, _)), Some((j, _))) =
                (value_bytes.split_first_chunk_mut::<V>(), index_bytes.split_first_chunk_mut::<I>())
            else {
                continue;
            };
            match value(u, v) {
                Some(order) if order == better => {
                    *v = *u;
                    *j = *i;
                }
                Some(Ordering::Equal) if lower(i, j) => *j = *i,
                _ => {}
            }
        }
    }

    macro_rules! pairs {
        ($($name:ident: $value:ident, $index:ident, $at:expr, $extent:expr;)*) => {$(
            pub(super) fn $name(op: PredefinedOp) -> Option<Kernel> {
                macro_rules! kernel {
                    ($better:expr) => {
                        Kernel::new(|left, into| locate(
                            left,
                            into,
                            ($at, $extent),
                            $better,
                            |u, v| $value::from_ne_bytes(*u).partial_cmp(&$value::from_ne_bytes(*v)),
                            |i, j| $index::from_ne_bytes(*i) < $index::from_ne_bytes(*j),
                        ))
                    };
                }
                match op {
                    PredefinedOp::Maxloc => Some(kernel!(Ordering::Greater)),
                    PredefinedOp::Minloc => Some(kernel!(Ordering::Less)),
                    _ => None,
                }
            }
        )*};
    }

    pairs! {
        float_int: f32, i32, 4, 8;
        double_int: f64, i32, 8, 16;
        long_int: i64, i32, 8, 16;
        int_int: i32, i32, 4, 8;
        short_int: i16, i32, 4, 8;
        float_float: f32, f32, 4, 8;
        double_double: f64, f64, 8, 16;
    }

    pub(super) fn long_double_int(op: PredefinedOp) -> Option<Kernel> {
        macro_rules! kernel {
            ($better:expr) => {
                Kernel::new(|left, into| {
                    locate(left, into, (16, 32), $better, x87::compare, |i, j| {
                        i32::from_ne_bytes(*i) < i32::from_ne_bytes(*j)
                    })
                })
            };
        }
        match op {
            _ if !x87::AVAILABLE => None,
            PredefinedOp::Maxloc => Some(kernel!(Ordering::Greater)),
            PredefinedOp::Minloc => Some(kernel!(Ordering::Less)),
            _ => None,
        }
    }
}
