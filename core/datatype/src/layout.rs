//! The layout of one element in memory: which bytes, relative to the element's origin, carry data.

/// Byte blocks of one datatype element in type-map order, and the distance between elements (section 5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// (displacement from the element's origin, length), in type-map order; adjacent blocks are merged.
    pub blocks: Box<[(i64, usize)]>,
    /// Data bytes of one element (the sum of the blocks).
    pub size: usize,
    /// Distance in bytes from one element to the next (ub - lb).
    pub extent: i64,
}

impl Layout {
    /// A layout of one block of `size` bytes at displacement 0, with elements back to back.
    pub fn contiguous(size: usize) -> Layout {
        Layout { blocks: Box::new([(0, size)]), size, extent: size as i64 }
    }

    /// Whether any count of elements is one gap-free run that begins at the origin.
    pub fn is_contiguous(&self) -> bool {
        self.size as i64 == self.extent
            && match &*self.blocks {
                [] => true,
                [(displacement, length)] => *displacement == 0 && *length == self.size,
                _ => false,
            }
    }
}
