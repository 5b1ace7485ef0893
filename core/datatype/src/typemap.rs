//! The algebra of type maps: what every constructor is made of.
//!
//! A [`TypeMap`] holds what can be said of a type map without listing it (layout tree, bounds, alignment,
//! signature). Constructors only repeat, move, join and resize; the rules of section 5.1.6 live here once.

use crate::layout::Node;
use crate::signature::Signature;
use weft_types::{Error, ErrorClass, Result};

/// Lower bound and one past the last byte, from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

impl Span {
    fn join(self, other: Span) -> Span {
        Span { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    fn shifted(self, by: i64) -> Result<Span> {
        Ok(Span { low: add(self.low, by)?, high: add(self.high, by)? })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct TypeMap {
    pub(crate) node: Node,
    pub(crate) signature: Signature,
    /// Data bytes.
    pub(crate) size: i64,
    /// Largest alignment among the basic types.
    pub(crate) alignment: i64,
    /// Bounds of the data (true bounds, section 5.1.8); `None` without data.
    pub(crate) data: Option<Span>,
    /// Bounds set by lb and ub markers, which always come in pairs (section 5.1.6).
    pub(crate) marked: Option<Span>,
}

impl TypeMap {
    pub(crate) fn empty() -> TypeMap {
        TypeMap {
            node: Node::EMPTY,
            signature: Signature::empty(),
            size: 0,
            alignment: 1,
            data: None,
            marked: None,
        }
    }

    /// lb and ub of section 5.1.6: markers win; otherwise the data rounded up to the alignment.
    pub(crate) fn bounds(&self) -> Result<Span> {
        match (self.marked, self.data) {
            (Some(marked), _) => Ok(marked),
            (None, None) => Ok(Span { low: 0, high: 0 }),
            (None, Some(data)) => {
                let extent = sub(data.high, data.low)?;
                Ok(Span { low: data.low, high: add(data.low, round_up(extent, self.alignment)?)? })
            }
        }
    }

    /// The same map `by` bytes further on.
    pub(crate) fn shifted(mut self, by: i64) -> Result<TypeMap> {
        self.data = self.data.map(|span| span.shifted(by)).transpose()?;
        self.marked = self.marked.map(|span| span.shifted(by)).transpose()?;
        self.node = self.node.shifted(by);
        Ok(self)
    }

    /// `count` copies, `stride` bytes apart.
    pub(crate) fn repeated(self, count: i64, stride: i64) -> Result<TypeMap> {
        if count == 0 {
            return Ok(TypeMap::empty());
        }
        let last = mul(stride, count - 1)?;
        let stretch = |span: Span| Ok::<_, Error>(span.join(span.shifted(last)?));
        Ok(TypeMap {
            size: mul(self.size, count)?,
            data: self.data.map(stretch).transpose()?,
            marked: self.marked.map(stretch).transpose()?,
            signature: self.signature.repeated(count as u64),
            node: self.node.repeated(count as usize, stride),
            alignment: self.alignment,
        })
    }

    /// Blocks (number of copies, displacement in `unit` bytes) of copies `extent` bytes apart. Costs a few words for each
    /// block and nothing for its copies.
    pub(crate) fn blocks(
        self,
        blocks: impl Iterator<Item = (i64, i64)> + Clone,
        unit: i64,
        extent: i64,
    ) -> Result<TypeMap> {
        let (mut copies, mut data, mut marked) = (0, None, None);
        let stretch = |all: Option<Span>, one: Option<Span>, reach: i64, at: i64| -> Result<Option<Span>> {
            let Some(one) = one else { return Ok(all) };
            let block = one.join(one.shifted(reach)?).shifted(at)?;
            Ok(Some(all.map_or(block, |all| all.join(block))))
        };
        for (length, displacement) in blocks.clone() {
            let (at, reach) = (mul(displacement, unit)?, mul(extent, length - 1)?);
            copies = add(copies, length)?;
            data = stretch(data, self.data, reach, at)?;
            marked = stretch(marked, self.marked, reach, at)?;
        }
        if copies == 0 {
            return Ok(TypeMap::empty());
        }
        let size = mul(self.size, copies)?;
        let old = self.node;
        let node = if old.is_run() && old.size as i64 == extent {
            // The product fits: `reach` did.
            Node::runs(blocks.map(|(length, displacement)| {
                (displacement.wrapping_mul(unit).wrapping_add(old.at), old.size * length as usize)
            }))
        } else {
            Node::list(blocks.map(|(length, displacement)| {
                old.clone().repeated(length as usize, extent).shifted(displacement.wrapping_mul(unit))
            }))
        };
        let signature = self.signature.repeated(copies as u64);
        Ok(TypeMap { node, signature, size, alignment: self.alignment, data, marked })
    }

    /// The maps one after another, as they are placed.
    pub(crate) fn joined(parts: Vec<TypeMap>) -> Result<TypeMap> {
        let mut all = TypeMap::empty();
        let join = |a: Option<Span>, b: Option<Span>| match (a, b) {
            (Some(a), Some(b)) => Some(a.join(b)),
            (a, b) => a.or(b),
        };
        for part in &parts {
            all.size = add(all.size, part.size)?;
            all.alignment = all.alignment.max(part.alignment);
            all.data = join(all.data, part.data);
            all.marked = join(all.marked, part.marked);
        }
        all.signature = Signature::list(parts.iter().map(|part| part.signature.clone()));
        all.node = Node::list(parts.into_iter().map(|part| part.node));
        Ok(all)
    }

    /// New markers; the earlier ones are erased (section 5.1.7).
    pub(crate) fn resized(mut self, low: i64, extent: i64) -> Result<TypeMap> {
        self.marked = Some(Span { low, high: add(low, extent)? });
        Ok(self)
    }
}

fn round_up(value: i64, to: i64) -> Result<i64> {
    match value.rem_euclid(to) {
        0 => Ok(value),
        rest => add(value, to - rest),
    }
}

#[cold]
fn too_large() -> Error {
    Error::new(
        ErrorClass::COUNT,
        "the size or the bounds of the datatype do not fit 64 bits; use smaller counts, strides or displacements",
    )
}

pub(crate) fn add(a: i64, b: i64) -> Result<i64> {
    a.checked_add(b).ok_or_else(too_large)
}

pub(crate) fn sub(a: i64, b: i64) -> Result<i64> {
    a.checked_sub(b).ok_or_else(too_large)
}

pub(crate) fn mul(a: i64, b: i64) -> Result<i64> {
    a.checked_mul(b).ok_or_else(too_large)
}
