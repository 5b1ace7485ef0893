//! Type signatures (section 5.1): the sequence of basic types, without displacements, kept as a small tree.

use crate::predefined::{Kind, Predefined};
use std::sync::Arc;

/// The sequence of basic elements of one datatype element, in type-map order.
#[derive(Clone, Debug)]
pub struct Signature {
    bytes: u64,
    elements: u64,
    /// Bytes in the "external32" representation; at most `bytes` (section 14.5.2 widens nothing).
    external: u64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// Basic elements of so many bytes each; the kind and the bytes in "external32", for conversions.
    Basic {
        size: u32,
        external: u32,
        kind: Kind,
    },
    /// Copies of one sequence.
    Repeat(Arc<Signature>),
    /// Different sequences one after another.
    List(Arc<[Signature]>),
    Empty,
}

impl Signature {
    pub(crate) const fn empty() -> Signature {
        Signature { bytes: 0, elements: 0, external: 0, shape: Shape::Empty }
    }

    /// One element of a predefined type; a pair counts as its two members (section 6.9.4 defines it as a struct).
    pub(crate) fn of(predefined: &Predefined) -> Signature {
        let Some(kind) = predefined.kind() else { return Signature::empty() };
        let basic = |size: usize, external: u32, kind| Signature {
            bytes: size as u64,
            elements: 1,
            external: u64::from(external),
            shape: Shape::Basic { size: size as u32, external, kind },
        };
        let members = match kind {
            Kind::FloatInt => [Kind::F32, Kind::I32],
            Kind::DoubleInt => [Kind::F64, Kind::I32],
            Kind::LongInt => [Kind::I64, Kind::I32],
            Kind::IntInt => [Kind::I32, Kind::I32],
            Kind::ShortInt => [Kind::I16, Kind::I32],
            Kind::LongDoubleInt => [Kind::LongDouble, Kind::I32],
            Kind::FloatFloat => [Kind::F32, Kind::F32],
            Kind::DoubleDouble => [Kind::F64, Kind::F64],
            single => return basic(predefined.size(), predefined.external_sizes().0, single),
        };
        let sizes = kind.pair_sizes().map_or([0, 0], |(first, second)| [first, second]);
        let external = predefined.external_sizes();
        Signature::list([basic(sizes[0], external.0, members[0]), basic(sizes[1], external.1, members[1])])
    }

    /// Bytes of packed data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes in the "external32" representation (section 14.5.2).
    pub fn external_bytes(&self) -> u64 {
        self.external
    }

    /// Number of basic elements.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// `count` copies; the caller has checked that the bytes fit.
    pub(crate) fn repeated(self, count: u64) -> Signature {
        if count == 0 || self.bytes == 0 {
            return Signature::empty();
        }
        let (bytes, elements, external) = (self.bytes * count, self.elements * count, self.external * count);
        let shape = match self.shape {
            shape @ (Shape::Basic { .. } | Shape::Repeat(_)) => shape,
            _ if count == 1 => return self,
            _ => Shape::Repeat(Arc::new(self)),
        };
        Signature { bytes, elements, external, shape }
    }

    pub(crate) fn list(parts: impl IntoIterator<Item = Signature>) -> Signature {
        let mut all: Vec<Signature> = Vec::new();
        for part in parts.into_iter().filter(|part| part.bytes > 0) {
            if let Some(last) = all.last_mut()
                && let (
                    Shape::Basic { kind, external, .. },
                    Shape::Basic { kind: next, external: next_external, .. },
                ) = (&last.shape, &part.shape)
                && (kind, external) == (next, next_external)
            {
                last.bytes += part.bytes;
                last.elements += part.elements;
                last.external += part.external;
                continue;
            }
            all.push(part);
        }
        match all.len() {
            0 => Signature::empty(),
            1 => all.remove(0),
            _ => Signature {
                bytes: all.iter().map(|part| part.bytes).sum(),
                elements: all.iter().map(|part| part.elements).sum(),
                external: all.iter().map(|part| part.external).sum(),
                shape: Shape::List(all.into()),
            },
        }
    }

    /// Basic elements that the first `bytes` packed bytes of consecutive copies hold; `None` when the last of
    /// them is cut in two (section 5.1.11).
    pub fn elements_in(&self, bytes: u64) -> Option<u64> {
        if self.bytes == 0 {
            return (bytes == 0).then_some(0);
        }
        let copies = bytes / self.bytes;
        let rest = bytes % self.bytes;
        let inside = match &self.shape {
            _ if rest == 0 => 0,
            Shape::Empty => return None,
            Shape::Basic { size, .. } => {
                rest.is_multiple_of(u64::from(*size)).then_some(rest / u64::from(*size))?
            }
            Shape::Repeat(body) => body.elements_in(rest)?,
            Shape::List(parts) => {
                let (mut left, mut elements) = (rest, 0);
                for part in parts.iter() {
                    if left < part.bytes {
                        elements += part.elements_in(left)?;
                        break;
                    }
                    left -= part.bytes;
                    elements += part.elements;
                }
                elements
            }
        };
        copies.checked_mul(self.elements)?.checked_add(inside)
    }

    /// Bytes of the first `elements` basic elements of consecutive copies; `None` when they do not fit 64 bits.
    pub fn bytes_of(&self, elements: u64) -> Option<u64> {
        if self.elements == 0 {
            return (elements == 0).then_some(0);
        }
        let copies = elements / self.elements;
        let rest = elements % self.elements;
        let inside = match &self.shape {
            _ if rest == 0 => 0,
            Shape::Empty => return None,
            Shape::Basic { size, .. } => rest * u64::from(*size),
            Shape::Repeat(body) => body.bytes_of(rest)?,
            Shape::List(parts) => {
                let (mut left, mut bytes) = (rest, 0);
                for part in parts.iter() {
                    if left < part.elements {
                        bytes += part.bytes_of(left)?;
                        break;
                    }
                    left -= part.elements;
                    bytes += part.bytes;
                }
                bytes
            }
        };
        copies.checked_mul(self.bytes)?.checked_add(inside)
    }

    /// Calls `run(elements)` for the runs of equal basic types of one copy, in order.
    ///
    /// # Errors
    /// The first one of `run`.
    pub fn for_each<E>(&self, run: &mut impl FnMut(Basics) -> Result<(), E>) -> Result<(), E> {
        match &self.shape {
            Shape::Empty => Ok(()),
            Shape::Basic { size, external, kind } => {
                run(Basics { kind: *kind, size: *size, external: *external, count: self.elements })
            }
            Shape::Repeat(body) => (0..self.bytes / body.bytes).try_for_each(|_| body.for_each(run)),
            Shape::List(parts) => parts.iter().try_for_each(|part| part.for_each(run)),
        }
    }
}

impl Signature {
    /// A number that the signatures of `copies` elements have in common when they are the same sequence of representations: how
    /// the sequence was built up does not matter. The converse is a matter of chance: two different sequences of `n` elements
    /// are polynomials that agree at no more than `n` of the 2^61 points of the field, so sequences that were not made for the
    /// one point taken here agree about once in 2^61 / `n` pairs.
    pub fn fingerprint(&self, copies: u64) -> u64 {
        self.digest().repeated(copies).sum
    }

    fn digest(&self) -> Digest {
        match &self.shape {
            Shape::Empty => Digest::EMPTY,
            Shape::Basic { size, kind, .. } => Digest::basic(*kind, *size).repeated(self.elements),
            Shape::Repeat(body) => body.digest().repeated(self.bytes / body.bytes),
            Shape::List(parts) => {
                parts.iter().fold(Digest::EMPTY, |all, part| all.followed_by(part.digest()))
            }
        }
    }
}

/// A sequence as a polynomial at one point of the field of 2^61 - 1 numbers, and the power that its length stands for. A prime,
/// since sums of 2^k equal elements modulo 2^64 are multiples of 2^k.
#[derive(Clone, Copy)]
struct Digest {
    sum: u64,
    power: u64,
}

impl Digest {
    const EMPTY: Digest = Digest { sum: 0, power: 1 };
    const PRIME: u64 = (1 << 61) - 1;
    const BASE: u64 = 0x1e37_79b9_7f4a_7c15;

    fn basic(kind: Kind, size: u32) -> Digest {
        let class = match kind {
            Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 | Kind::I128 => 1,
            Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 => 2,
            Kind::F32 | Kind::F64 => 3,
            Kind::LongDouble => 4,
            Kind::C32 | Kind::C64 | Kind::CLongDouble => 5,
            Kind::Bool | Kind::Logical(_) => 6,
            Kind::Opaque(_) => 7,
            // Pairs are lists of their members.
            _ => 8,
        };
        let mut code = class << 32 | u64::from(size);
        code = (code ^ code >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        code = (code ^ code >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Digest { sum: (code ^ code >> 31) % Digest::PRIME, power: Digest::BASE }
    }

    fn product(a: u64, b: u64) -> u64 {
        let all = u128::from(a) * u128::from(b);
        // 2^61 is 1 here.
        let folded = (all as u64 & Digest::PRIME) + (all >> 61) as u64;
        folded % Digest::PRIME
    }

    fn followed_by(self, next: Digest) -> Digest {
        Digest {
            sum: (Digest::product(self.sum, next.power) + next.sum) % Digest::PRIME,
            power: Digest::product(self.power, next.power),
        }
    }

    fn repeated(self, mut copies: u64) -> Digest {
        let (mut all, mut square) = (Digest::EMPTY, self);
        while copies > 0 {
            if copies & 1 == 1 {
                all = all.followed_by(square);
            }
            square = square.followed_by(square);
            copies >>= 1;
        }
        all
    }
}

/// Consecutive basic elements of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basics {
    /// Their representation in memory.
    pub kind: Kind,
    /// Bytes of each in memory.
    pub size: u32,
    /// Bytes of each in "external32".
    pub external: u32,
    /// How many.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Datatype;
    use weft_types::abi;

    fn of(value: u32) -> Signature {
        Signature::of(Datatype::predefined(value).expect("a predefined type"))
    }

    #[test]
    fn a_fingerprint_is_that_of_the_sequence_however_it_is_made() {
        let (int, double) = (of(abi::MPI_INT), of(abi::MPI_DOUBLE));
        let both = Signature::list([int.clone(), double.clone()]);
        let four = Signature::list([both.clone().repeated(2), both.clone().repeated(2)]);
        assert_eq!(both.fingerprint(12), four.fingerprint(3));
        assert_eq!(int.fingerprint(6), int.clone().repeated(3).fingerprint(2));
        assert_eq!(int.fingerprint(0), Signature::empty().fingerprint(7));
        let different = [
            int.fingerprint(1),
            int.fingerprint(2),
            double.fingerprint(1),
            of(abi::MPI_FLOAT).fingerprint(1),
            of(abi::MPI_UNSIGNED).fingerprint(1),
            both.fingerprint(1),
            both.fingerprint(2),
            Signature::list([double, int]).fingerprint(1),
            of(abi::MPI_BYTE).fingerprint(4),
            Signature::empty().fingerprint(1),
        ];
        for (place, one) in different.iter().enumerate() {
            assert!(different[..place].iter().all(|other| other != one), "{place}");
        }
        assert_eq!(of(abi::MPI_DOUBLE_INT).fingerprint(3), {
            Signature::list([of(abi::MPI_DOUBLE), of(abi::MPI_INT)]).fingerprint(3)
        });
    }

    #[test]
    fn long_repeats_leave_all_bits_of_a_fingerprint() {
        let (int, float) = (of(abi::MPI_INT), of(abi::MPI_FLOAT));
        for doublings in 20..62 {
            let apart = int.fingerprint(1 << doublings) ^ float.fingerprint(1 << doublings);
            assert!(apart.trailing_zeros() < 20, "2^{doublings} elements: {apart:x}");
            assert!(apart >> 40 != 0, "2^{doublings} elements: {apart:x}");
        }
    }
}
