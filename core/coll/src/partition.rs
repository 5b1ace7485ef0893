//! Cutting a vector into nearly equal parts of whole elements.

/// `count` elements of `element` bytes in `parts` parts whose sizes differ by one element at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partition {
    pub(crate) count: u64,
    pub(crate) element: u64,
    pub(crate) parts: u64,
}

impl Partition {
    /// Byte offset of a part; that of `parts` is the end.
    pub(crate) fn offset(&self, part: u32) -> u64 {
        let part = u64::from(part);
        (self.count / self.parts * part + (self.count % self.parts).min(part)) * self.element
    }

    /// (offset, bytes) of parts `first..last`.
    pub(crate) fn span(&self, first: u32, last: u32) -> (u64, u64) {
        let offset = self.offset(first);
        (offset, self.offset(last) - offset)
    }
}
