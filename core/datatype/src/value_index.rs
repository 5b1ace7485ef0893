//! `MPI_MAXLOC` and `MPI_MINLOC` on the unnamed pairs of section 6.9.4: any value with an order, any integer index.

use crate::op::{Kernel, PredefinedOp};
use crate::predefined::Kind;
use crate::x87;
use std::cmp::Ordering;

/// A member of a pair, compared as it stands in memory.
trait Member {
    const SIZE: usize;
    const ALIGNMENT: usize;
    /// Order of two members; `None` when one is not a number. Both slices have `SIZE` bytes.
    fn order(a: &[u8], b: &[u8]) -> Option<Ordering>;
}

macro_rules! members {
    ($($name:ty)*) => {$(
        impl Member for $name {
            const SIZE: usize = size_of::<$name>();
            const ALIGNMENT: usize = align_of::<$name>();
            #[inline(always)]
            fn order(a: &[u8], b: &[u8]) -> Option<Ordering> {
                let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| <$name>::from_ne_bytes(*bytes));
                number(a)?.partial_cmp(&number(b)?)
            }
        }
    )*};
}

members! { i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 }

/// C `long double` of the x87 unit.
struct LongDouble;

impl Member for LongDouble {
    const SIZE: usize = 16;
    const ALIGNMENT: usize = 16;
    fn order(a: &[u8], b: &[u8]) -> Option<Ordering> {
        x87::compare(a.first_chunk()?, b.first_chunk()?)
    }
}

/// Whether there is a loop for a value and an index of these kinds.
pub(crate) fn is_known(value: Kind, index: Kind) -> bool {
    find(PredefinedOp::Maxloc, value, index).is_some()
}

/// The loop for `MPI_MAXLOC` or `MPI_MINLOC`; `None` for other operations and kinds.
pub(crate) fn find(op: PredefinedOp, value: Kind, index: Kind) -> Option<Kernel> {
    match value {
        Kind::I8 => with_index::<i8>(op, index),
        Kind::I16 => with_index::<i16>(op, index),
        Kind::I32 => with_index::<i32>(op, index),
        Kind::I64 => with_index::<i64>(op, index),
        Kind::U8 => with_index::<u8>(op, index),
        Kind::U16 => with_index::<u16>(op, index),
        Kind::U32 => with_index::<u32>(op, index),
        Kind::U64 => with_index::<u64>(op, index),
        Kind::F32 => with_index::<f32>(op, index),
        Kind::F64 => with_index::<f64>(op, index),
        Kind::LongDouble if x87::AVAILABLE => with_index::<LongDouble>(op, index),
        _ => None,
    }
}

fn with_index<V: Member>(op: PredefinedOp, index: Kind) -> Option<Kernel> {
    match index {
        Kind::I8 => locate::<V, i8>(op),
        Kind::I16 => locate::<V, i16>(op),
        Kind::I32 => locate::<V, i32>(op),
        Kind::I64 => locate::<V, i64>(op),
        Kind::U8 => locate::<V, u8>(op),
        Kind::U16 => locate::<V, u16>(op),
        Kind::U32 => locate::<V, u32>(op),
        Kind::U64 => locate::<V, u64>(op),
        _ => None,
    }
}

fn locate<V: Member, I: Member>(op: PredefinedOp) -> Option<Kernel> {
    match op {
        PredefinedOp::Maxloc => Some(Kernel::new(|left, into| run::<V, I>(left, into, Ordering::Greater))),
        PredefinedOp::Minloc => Some(Kernel::new(|left, into| run::<V, I>(left, into, Ordering::Less))),
        _ => None,
    }
}

/// Gaps stay as they are; the last element may end at its last data byte.
fn run<V: Member, I: Member>(left: &[u8], into: &mut [u8], better: Ordering) {
    let at = V::SIZE.next_multiple_of(I::ALIGNMENT);
    let extent = (at + I::SIZE).next_multiple_of(V::ALIGNMENT.max(I::ALIGNMENT));
    for (a, b) in left.chunks(extent).zip(into.chunks_mut(extent)) {
        if a.len().min(b.len()) < at + I::SIZE {
            continue;
        }
        let order = V::order(&a[..V::SIZE], &b[..V::SIZE]);
        if order == Some(better) {
            b[..V::SIZE].copy_from_slice(&a[..V::SIZE]);
            b[at..at + I::SIZE].copy_from_slice(&a[at..at + I::SIZE]);
        } else if order == Some(Ordering::Equal)
            && I::order(&a[at..at + I::SIZE], &b[at..at + I::SIZE]) == Some(Ordering::Less)
        {
            b[at..at + I::SIZE].copy_from_slice(&a[at..at + I::SIZE]);
        }
    }
}
