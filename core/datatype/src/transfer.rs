//! Packing and unpacking: a layout's program run over memory, from any packed byte to any other.
//!
//! Parts of blocks at the two ends are copied one by one; what lies between are whole copies of a node, which are done
//! many at a time. Where an element is small and there are many, the loop over elements goes inside: each block of the
//! element becomes one strided copy of many elements, in portions that stay in the nearest cache.

use crate::layout::{Layout, Node, Shape, index_at, length_of};
use crate::shuffle::Prepared;
use crate::strided::{between, listed, strided};

/// Packed bytes of the elements that are done block by block.
const PORTION: usize = 8 << 10;
/// Fewest elements that make it worth it.
const FEWEST: usize = 4;

impl Layout {
    /// Copies the packed bytes `skip..skip + len` of consecutive elements at `origin` to `packed` (`PACK`), or from there
    /// to the elements.
    ///
    /// # Safety
    /// The bytes of the type map in that range are readable (writable), `len` bytes at `packed` are writable (readable),
    /// and the two do not overlap.
    pub(crate) unsafe fn transfer<const PACK: bool>(
        &self,
        origin: *mut u8,
        skip: usize,
        len: usize,
        packed: *mut u8,
    ) {
        if len > 0 && self.size > 0 {
            // SAFETY: the caller's promise.
            unsafe {
                // The most frequent call by far needs no look at where it begins and ends.
                if skip == 0 && len == self.size {
                    return self.node.once::<PACK>(origin.wrapping_offset(self.node.at as isize), packed);
                }
                self.node.span::<PACK>(origin, (self.extent, &self.shuffle), skip, len, packed);
            }
        }
    }
}

impl Node {
    /// The packed bytes `skip..skip + len` of copies of this node, `stride` bytes apart, with the steps for these.
    ///
    /// # Safety
    /// As [`Layout::transfer`].
    unsafe fn span<const PACK: bool>(
        &self,
        origin: *mut u8,
        (stride, shuffle): (i64, &Prepared),
        skip: usize,
        len: usize,
        packed: *mut u8,
    ) {
        let loop_of = (stride, shuffle);
        let stride = stride as isize;
        // Divisions are what a short call would wait for.
        let (index, skip) = if skip < self.size { (0, skip) } else { (skip / self.size, skip % self.size) };
        let mut at = origin.wrapping_offset(stride.wrapping_mul(index as isize));
        let mut packed = packed;
        let mut left = len;
        // SAFETY: the caller's promise; the parts lie inside the range, one behind the other.
        unsafe {
            if skip > 0 {
                let now = (self.size - skip).min(left);
                self.part::<PACK>(at, skip, now, packed);
                at = at.wrapping_offset(stride);
                packed = packed.wrapping_add(now);
                left -= now;
            }
            let whole = if left == self.size { 1 } else { left / self.size };
            if whole > 0 {
                self.copies::<PACK>(at, whole, loop_of, packed);
                at = at.wrapping_offset(stride.wrapping_mul(whole as isize));
                packed = packed.wrapping_add(whole * self.size);
                left -= whole * self.size;
            }
            if left > 0 {
                self.part::<PACK>(at, 0, left, packed);
            }
        }
    }

    /// The packed bytes `skip..skip + len` of one copy; `len` is positive and in range.
    ///
    /// # Safety
    /// As [`Layout::transfer`].
    unsafe fn part<const PACK: bool>(&self, origin: *mut u8, skip: usize, len: usize, packed: *mut u8) {
        let at = origin.wrapping_offset(self.at as isize);
        // SAFETY: the caller's promise.
        unsafe {
            match &self.shape {
                Shape::Run => between::<PACK>(at.wrapping_add(skip), packed, len),
                Shape::Repeat { stride, body, shuffle, .. } => {
                    body.span::<PACK>(at, (*stride, shuffle), skip, len, packed);
                }
                Shape::Blocks { length, places } => {
                    self.part_of_blocks::<PACK>(at, (*length, places), skip, len, packed);
                }
                Shape::Ragged { starts, places } => {
                    let mut index = index_at(starts, skip);
                    let (mut skip, mut left, mut packed) = (skip - starts[index], len, packed);
                    while left > 0 {
                        let now = (length_of(starts, self.size, index) - skip).min(left);
                        between::<PACK>(
                            at.wrapping_offset(places[index] as isize).wrapping_add(skip),
                            packed,
                            now,
                        );
                        (index, skip, left, packed) = (index + 1, 0, left - now, packed.wrapping_add(now));
                    }
                }
                Shape::List { starts, nodes } => {
                    let mut index = index_at(starts, skip);
                    let (mut skip, mut left, mut packed) = (skip - starts[index], len, packed);
                    while left > 0 {
                        let now = (nodes[index].size - skip).min(left);
                        if now == nodes[index].size {
                            nodes[index].many::<PACK>(at, 1, 0, packed, 0);
                        } else {
                            nodes[index].part::<PACK>(at, skip, now, packed);
                        }
                        (index, skip, left, packed) = (index + 1, 0, left - now, packed.wrapping_add(now));
                    }
                }
            }
        }
    }

    /// # Safety
    /// As [`Layout::transfer`].
    unsafe fn part_of_blocks<const PACK: bool>(
        &self,
        at: *mut u8,
        (length, places): (usize, &[i64]),
        skip: usize,
        len: usize,
        packed: *mut u8,
    ) {
        let (mut index, skip) = (skip / length, skip % length);
        let (mut left, mut packed) = (len, packed);
        // SAFETY: the caller's promise.
        unsafe {
            if skip > 0 {
                let now = (length - skip).min(left);
                between::<PACK>(at.wrapping_offset(places[index] as isize).wrapping_add(skip), packed, now);
                (index, left, packed) = (index + 1, left - now, packed.wrapping_add(now));
            }
            let whole = left / length;
            listed::<PACK>(at, &places[index..index + whole], packed, length);
            (left, packed) = (left - whole * length, packed.wrapping_add(whole * length));
            if left > 0 {
                between::<PACK>(at.wrapping_offset(places[index + whole] as isize), packed, left);
            }
        }
    }

    /// `count` whole copies, `stride` bytes apart in memory and back to back in packed bytes, with the steps for these.
    ///
    /// # Safety
    /// As [`Layout::transfer`].
    #[inline]
    unsafe fn copies<const PACK: bool>(
        &self,
        origin: *mut u8,
        count: usize,
        (stride, shuffle): (i64, &Prepared),
        packed: *mut u8,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let done = match shuffle.of(self, stride, count) {
                Some(steps) if !(PACK && self.is_every_second(stride)) => {
                    steps.run::<PACK>(origin, count, packed)
                }
                _ => 0,
            };
            let stride = stride as isize;
            let origin = origin.wrapping_offset(stride.wrapping_mul(done as isize));
            let packed = packed.wrapping_add(done * self.size);
            if done < count {
                self.many::<PACK>(origin, count - done, stride, packed, self.size as isize);
            }
        }
    }

    /// Whether a kernel of its own packs these, which moves more bytes at a time than steps do.
    #[inline]
    fn is_every_second(&self, stride: i64) -> bool {
        self.is_run() && matches!(self.size, 4 | 8) && stride == 2 * self.size as i64
    }

    /// `count` whole copies, `stride` bytes apart in memory and `packed_stride` apart in packed bytes.
    ///
    /// # Safety
    /// As [`Layout::transfer`].
    unsafe fn many<const PACK: bool>(
        &self,
        origin: *mut u8,
        count: usize,
        stride: isize,
        packed: *mut u8,
        packed_stride: isize,
    ) {
        let at = origin.wrapping_offset(self.at as isize);
        // SAFETY: the caller's promise.
        unsafe {
            if let Shape::Run = self.shape {
                return blocks::<PACK>(at, stride, packed, packed_stride, count, self.size);
            }
            if count == 1 {
                return self.once::<PACK>(at, packed);
            }
            let portion = if count < FEWEST { 0 } else { PORTION / self.size };
            if portion < FEWEST || self.has_long_loop(count) {
                let (mut at, mut packed) = (at, packed);
                for _ in 0..count {
                    self.once::<PACK>(at, packed);
                    at = at.wrapping_offset(stride);
                    packed = packed.wrapping_offset(packed_stride);
                }
                return;
            }
            let (mut at, mut packed, mut left) = (at, packed, count);
            while left > 0 {
                let now = left.min(portion);
                self.side_by_side::<PACK>(at, now, stride, packed, packed_stride);
                at = at.wrapping_offset(stride.wrapping_mul(now as isize));
                packed = packed.wrapping_offset(packed_stride.wrapping_mul(now as isize));
                left -= now;
            }
        }
    }

    /// Whether the loop inside one copy is longer than the loop over the copies.
    fn has_long_loop(&self, count: usize) -> bool {
        match &self.shape {
            Shape::Repeat { count: inside, stride, body, shuffle } => {
                *inside >= count.min(PORTION / self.size) || shuffle.of(body, *stride, *inside).is_some()
            }
            Shape::Blocks { places, .. } => places.len() >= count.min(PORTION / self.size),
            _ => false,
        }
    }

    /// One whole copy in its own order; `at` includes the node's displacement.
    ///
    /// # Safety
    /// As [`Layout::transfer`].
    unsafe fn once<const PACK: bool>(&self, at: *mut u8, packed: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.shape {
                Shape::Run => between::<PACK>(at, packed, self.size),
                Shape::Repeat { count, stride, body, shuffle } => {
                    // So far apart that hardly two are in one window: steps are never prepared.
                    if matches!(body.shape, Shape::Run) && stride.unsigned_abs() >= 32 {
                        let at = at.wrapping_offset(body.at as isize);
                        let (size, stride) = (body.size, *stride as isize);
                        return blocks::<PACK>(at, stride, packed, size as isize, *count, size);
                    }
                    body.copies::<PACK>(at, *count, (*stride, shuffle), packed);
                }
                Shape::Blocks { length, places } => listed::<PACK>(at, places, packed, *length),
                Shape::Ragged { starts, places } => {
                    for (index, (&start, &place)) in starts.iter().zip(places.iter()).enumerate() {
                        let length = length_of(starts, self.size, index);
                        between::<PACK>(
                            at.wrapping_offset(place as isize),
                            packed.wrapping_add(start),
                            length,
                        );
                    }
                }
                Shape::List { starts, nodes } => {
                    for (&start, node) in starts.iter().zip(nodes.iter()) {
                        node.many::<PACK>(at, 1, 0, packed.wrapping_add(start), 0);
                    }
                }
            }
        }
    }

    /// `count` whole copies, one block of all of them after the other; `at` includes the node's displacement.
    ///
    /// # Safety
    /// As [`Layout::transfer`].
    unsafe fn side_by_side<const PACK: bool>(
        &self,
        at: *mut u8,
        count: usize,
        stride: isize,
        packed: *mut u8,
        packed_stride: isize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.shape {
                Shape::Run => blocks::<PACK>(at, stride, packed, packed_stride, count, self.size),
                Shape::Repeat { count: inside, stride: inner, body, .. } => {
                    for index in 0..*inside {
                        let at = at.wrapping_offset((*inner as isize).wrapping_mul(index as isize));
                        body.many::<PACK>(
                            at,
                            count,
                            stride,
                            packed.wrapping_add(index * body.size),
                            packed_stride,
                        );
                    }
                }
                Shape::Blocks { length, places } => {
                    for (index, &place) in places.iter().enumerate() {
                        let at = at.wrapping_offset(place as isize);
                        let packed = packed.wrapping_add(index * length);
                        blocks::<PACK>(at, stride, packed, packed_stride, count, *length);
                    }
                }
                Shape::Ragged { starts, places } => {
                    for (index, (&start, &place)) in starts.iter().zip(places.iter()).enumerate() {
                        let length = length_of(starts, self.size, index);
                        let at = at.wrapping_offset(place as isize);
                        blocks::<PACK>(at, stride, packed.wrapping_add(start), packed_stride, count, length);
                    }
                }
                Shape::List { starts, nodes } => {
                    for (&start, node) in starts.iter().zip(nodes.iter()) {
                        node.many::<PACK>(at, count, stride, packed.wrapping_add(start), packed_stride);
                    }
                }
            }
        }
    }
}

/// Blocks of one length, regular on both sides.
///
/// # Safety
/// As [`strided`].
#[inline(always)]
unsafe fn blocks<const PACK: bool>(
    memory: *mut u8,
    stride: isize,
    packed: *mut u8,
    packed_stride: isize,
    count: usize,
    length: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if PACK {
            strided(packed, packed_stride, memory, stride, count, length);
        } else {
            strided(memory, stride, packed, packed_stride, count, length);
        }
    }
}
