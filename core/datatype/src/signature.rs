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
