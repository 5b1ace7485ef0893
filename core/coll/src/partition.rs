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

/// Cutting bytes of whole elements into segments that follow one another, each on a channel of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    bytes: u64,
    length: u64,
}

impl Segments {
    /// Segments of at most `length` bytes but at least an element; longer ones if there were more than `most` otherwise.
    pub(crate) fn new(bytes: u64, element: u64, length: u64, most: u32) -> Segments {
        let element = element.max(1);
        let least = (bytes / element).div_ceil(u64::from(most.max(1)));
        let elements = (length / element).max(least).max(1);
        Segments { bytes, length: elements * element }
    }

    /// Bytes of all segments but the last.
    pub(crate) fn length(&self) -> u64 {
        self.length.min(self.bytes)
    }

    /// Number of segments.
    pub(crate) fn count(&self) -> u32 {
        self.bytes.div_ceil(self.length) as u32
    }

    /// (index, offset, bytes) of each.
    pub(crate) fn iter(self) -> impl Iterator<Item = (u32, u64, u64)> {
        (0..self.count()).map(move |index| {
            let offset = u64::from(index) * self.length;
            (index, offset, self.length.min(self.bytes - offset))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_of_whole_elements_and_no_more_than_there_may_be() {
        for (bytes, element, length, most) in
            [(0, 4, 64, 9), (120, 12, 64, 9), (120, 12, 5, 3), (7, 1, u64::MAX, 1), (96, 12, u64::MAX, 5)]
        {
            let segments = Segments::new(bytes, element, length, most);
            let all: Vec<_> = segments.iter().collect();
            assert_eq!(all.len() as u32, segments.count());
            assert!(segments.count() <= most);
            let mut end = 0;
            for (index, offset, bytes) in all {
                assert_eq!((offset, bytes % element), (end, 0));
                assert!(bytes > 0 && bytes <= segments.length(), "segment {index}");
                end += bytes;
            }
            assert_eq!(end, bytes);
        }
    }
}
