//! The arithmetic unit of the simulated device: what it can combine, and how, bit by bit as a processor does.

use weft_api::offload::{Arithmetic, Element, Operation};

/// Combines `left` into `into`, both whole elements.
type Loop = fn(&[u8], &mut [u8]);

/// The loop of an operation on an element; `None` when the unit has none. Logical operations and products of floating-point
/// numbers are missing: a device has what fits on it.
pub(crate) fn find(Arithmetic { operation, element }: Arithmetic) -> Option<Loop> {
    match element {
        Element::Signed(1) => integer::i8(operation),
        Element::Signed(2) => integer::i16(operation),
        Element::Signed(4) => integer::i32(operation),
        Element::Signed(8) => integer::i64(operation),
        Element::Unsigned(1) => integer::u8(operation),
        Element::Unsigned(2) => integer::u16(operation),
        Element::Unsigned(4) => integer::u32(operation),
        Element::Unsigned(8) => integer::u64(operation),
        Element::Float(4) => float::f32(operation),
        Element::Float(8) => float::f64(operation),
        _ => None,
    }
}

fn each<const N: usize>(left: &[u8], into: &mut [u8], combine: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (left, _) = left.as_chunks::<N>();
    let (into, _) = into.as_chunks_mut::<N>();
    left.iter().zip(into).for_each(|(left, into)| *into = combine(*left, *into));
}

mod integer {
    use super::{Loop, Operation, each};

    macro_rules! integers {
        ($($name:ident)*) => {$(
            pub(super) fn $name(operation: Operation) -> Option<Loop> {
                type T = $name;
                macro_rules! unit {
                    (|$a:ident, $b:ident| $result:expr) => {
                        |left, into| each(left, into, |a, b| {
                            let ($a, $b) = (T::from_ne_bytes(a), T::from_ne_bytes(b));
                            T::to_ne_bytes($result)
                        })
                    };
                }
                Some(match operation {
                    Operation::Sum => unit!(|a, b| a.wrapping_add(b)),
                    Operation::Prod => unit!(|a, b| a.wrapping_mul(b)),
                    Operation::Max => unit!(|a, b| a.max(b)),
                    Operation::Min => unit!(|a, b| a.min(b)),
                    Operation::Band => unit!(|a, b| a & b),
                    Operation::Bor => unit!(|a, b| a | b),
                    Operation::Bxor => unit!(|a, b| a ^ b),
                    Operation::Land | Operation::Lor | Operation::Lxor => return None,
                })
            }
        )*};
    }

    integers! { i8 i16 i32 i64 u8 u16 u32 u64 }
}

mod float {
    use super::{Loop, Operation, each};

    macro_rules! floats {
        ($($name:ident)*) => {$(
            pub(super) fn $name(operation: Operation) -> Option<Loop> {
                type T = $name;
                macro_rules! unit {
                    (|$a:ident, $b:ident| $result:expr) => {
                        |left, into| each(left, into, |a, b| {
                            let ($a, $b) = (T::from_ne_bytes(a), T::from_ne_bytes(b));
                            T::to_ne_bytes($result)
                        })
                    };
                }
                Some(match operation {
                    Operation::Sum => unit!(|a, b| a + b),
                    Operation::Max => unit!(|a, b| if a > b { a } else { b }),
                    Operation::Min => unit!(|a, b| if a < b { a } else { b }),
                    _ => return None,
                })
            }
        )*};
    }

    floats! { f32 f64 }
}
