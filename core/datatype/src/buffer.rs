//! User memory as the engine holds it: a place to read packed bytes from or write packed bytes to.
//!
//! A buffer is `count` elements of a layout at an address. Offsets are *packed* offsets: byte `o` of the message
//! as it travels. Contiguous memory (the hot path) needs no allocation and no reference count.

use crate::layout::Layout;
use crate::long;
use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;

/// Bytes to send: packed length known, readable at any packed offset.
#[derive(Clone, Debug)]
pub struct SendBuf(Raw);

/// Room for a message: packed capacity known, writable at any packed offset.
#[derive(Clone, Debug)]
pub struct RecvBuf(Raw);

#[derive(Clone, Debug)]
struct Raw {
    address: *mut u8,
    bytes: usize,
    extra: Option<Arc<Extra>>,
}

#[derive(Debug)]
pub(crate) struct Extra {
    layout: Option<Arc<Layout>>,
    /// Packed bytes of the elements at `address` that come before the buffer's first byte.
    skip: usize,
    /// Keeps library-owned memory alive for as long as a request may touch it.
    keep: Option<Arc<Scratch>>,
}

impl Extra {
    pub(crate) fn keeping(scratch: &Arc<Scratch>) -> Arc<Extra> {
        Arc::new(Extra { layout: None, skip: 0, keep: Some(Arc::clone(scratch)) })
    }

    pub(crate) fn scratch_bytes(&self) -> usize {
        self.keep.as_ref().map_or(0, |scratch| scratch.len())
    }

    pub(crate) fn scratch_address(&self) -> *mut u8 {
        self.keep.as_ref().map_or(std::ptr::null_mut(), |scratch| scratch.address())
    }
}

// SAFETY: a buffer is an address and immutable description; whoever makes one (see the constructors) promises
// that the memory may be accessed by whichever thread drives the request to its end.
unsafe impl Send for Raw {}

/// Memory owned by the library that requests may point into (collective scratch, staging).
pub struct Scratch {
    words: Box<[UnsafeCell<u128>]>,
    bytes: usize,
}

// SAFETY: access goes through `SendBuf`/`RecvBuf` or `with`/`with_mut`; the schedule that owns the scratch orders
// its steps so that no two of them touch overlapping ranges at the same time, and one thread at a time drives it.
unsafe impl Send for Scratch {}
// SAFETY: as above.
unsafe impl Sync for Scratch {}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scratch({} bytes)", self.bytes)
    }
}

impl Scratch {
    /// Zeroed memory of `bytes` bytes, aligned to 16.
    pub fn new(bytes: usize) -> Arc<Scratch> {
        let words = (0..bytes.div_ceil(16)).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Scratch { words, bytes })
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.words.as_ptr() as *mut u8
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// A buffer to send `len` bytes from `offset`.
    ///
    /// # Panics
    /// When the range lies outside.
    pub fn send_buf(self: &Arc<Self>, offset: usize, len: usize) -> SendBuf {
        SendBuf(self.raw(offset, len))
    }

    /// A buffer to receive `len` bytes at `offset`.
    ///
    /// # Panics
    /// When the range lies outside.
    pub fn recv_buf(self: &Arc<Self>, offset: usize, len: usize) -> RecvBuf {
        RecvBuf(self.raw(offset, len))
    }

    fn raw(self: &Arc<Self>, offset: usize, len: usize) -> Raw {
        assert!(offset <= self.bytes && len <= self.bytes - offset, "scratch range outside its memory");
        Raw {
            // SAFETY: the range was checked to lie inside the allocation.
            address: unsafe { self.address().add(offset) },
            bytes: len,
            extra: Some(Extra::keeping(self)),
        }
    }
}

impl Raw {
    /// The packed bytes `skip..skip + bytes` of elements of `layout` at `address`.
    fn typed(
        address: *mut u8,
        skip: usize,
        bytes: usize,
        layout: &Arc<Layout>,
        keep: Option<&Arc<Extra>>,
    ) -> Raw {
        if let Some((at, skip)) = layout.run_of(skip, bytes) {
            let address = address.wrapping_offset(at as isize).wrapping_add(skip);
            return Raw { address, bytes, extra: keep.cloned() };
        }
        let keep = keep.and_then(|extra| extra.keep.clone());
        let extra = Extra { layout: Some(Arc::clone(layout)), skip, keep };
        Raw { address, bytes, extra: Some(Arc::new(extra)) }
    }

    #[inline]
    fn layout(&self) -> Option<(&Layout, usize)> {
        let extra = self.extra.as_ref()?;
        Some((extra.layout.as_deref()?, extra.skip))
    }

    /// The layout of a buffer that has one, after checking that the packed range lies inside the buffer.
    fn in_range(&self, offset: usize, len: usize) -> Option<(&Layout, usize)> {
        assert!(offset <= self.bytes && len <= self.bytes - offset, "packed range outside the buffer");
        self.layout()
    }
}

impl SendBuf {
    /// Nothing to send.
    pub const fn empty() -> SendBuf {
        SendBuf(Raw { address: std::ptr::null_mut(), bytes: 0, extra: None })
    }

    /// `bytes` contiguous bytes at `address`.
    ///
    /// # Safety
    /// The memory stays readable and unmodified until the request that uses the buffer is complete (section 3.7.2).
    #[inline]
    pub const unsafe fn contiguous(address: *const u8, bytes: usize) -> SendBuf {
        SendBuf(Raw { address: address.cast_mut(), bytes, extra: None })
    }

    /// `count` elements of `layout` at `address`.
    ///
    /// # Safety
    /// Every byte of the type map stays readable and unmodified until the request is complete.
    pub unsafe fn typed(address: *const u8, count: usize, layout: &Arc<Layout>) -> SendBuf {
        SendBuf(Raw::typed(address.cast_mut(), 0, count * layout.size, layout, None))
    }

    /// The packed bytes `skip..skip + bytes` of elements of `layout` at `address`.
    ///
    /// # Safety
    /// As for [`SendBuf::typed`], for the bytes in that range.
    pub(crate) unsafe fn sliced(
        address: *const u8,
        skip: usize,
        bytes: usize,
        layout: &Arc<Layout>,
        keep: Option<&Arc<Extra>>,
    ) -> SendBuf {
        SendBuf(Raw::typed(address.cast_mut(), skip, bytes, layout, keep))
    }

    /// `bytes` contiguous bytes at `address`, inside memory that `extra` keeps alive.
    ///
    /// # Safety
    /// As for [`SendBuf::contiguous`].
    pub(crate) unsafe fn kept(address: *const u8, bytes: usize, extra: Option<Arc<Extra>>) -> SendBuf {
        SendBuf(Raw { address: address.cast_mut(), bytes, extra })
    }

    /// Packed length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.0.bytes
    }

    /// Whether there is nothing to send.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// The bytes as one slice, when they lie in one run.
    #[inline]
    pub fn as_slice(&self) -> Option<&[u8]> {
        if self.0.layout().is_some() {
            return None;
        }
        if self.0.bytes == 0 {
            return Some(&[]);
        }
        // SAFETY: the constructor's promise: `bytes` readable bytes at `address`, unmodified meanwhile.
        Some(unsafe { std::slice::from_raw_parts(self.0.address, self.0.bytes) })
    }

    /// As [`SendBuf::as_slice`], of a buffer that owns nothing: dropping or forgetting it is the same.
    #[inline]
    pub fn plain(&self) -> Option<&[u8]> {
        if self.0.extra.is_some() { None } else { self.as_slice() }
    }

    /// The address for a single copy by the receiver, when the bytes lie in one run.
    #[inline]
    pub fn contiguous_address(&self) -> Option<u64> {
        self.0.layout().is_none().then_some(self.0.address as u64)
    }

    /// Bytes of a block in the mean, when the bytes do not lie in one run.
    #[inline]
    pub fn mean_block(&self) -> Option<u64> {
        self.0.layout().map(|(layout, _)| layout.mean_block())
    }

    /// Whether the blocks lie on pages of their own ([`Layout::is_on_many_pages`]).
    pub fn is_on_many_pages(&self) -> bool {
        self.0.layout().is_some_and(|(layout, _)| layout.is_on_many_pages())
    }

    /// Where the bytes are for a single copy by the receiver, when they do not lie in one run: the address of the first element,
    /// the layout, and the packed bytes to skip.
    pub fn scattered(&self) -> Option<(u64, &Arc<Layout>, u64)> {
        let extra = self.0.extra.as_ref()?;
        Some((self.0.address as u64, extra.layout.as_ref()?, extra.skip as u64))
    }

    /// Copies packed bytes `offset..offset + out.len()` into `out`.
    ///
    /// # Panics
    /// When the range lies outside the buffer.
    #[inline]
    pub fn pack(&self, offset: usize, out: &mut [u8]) {
        match self.as_slice() {
            Some(slice) => copy(&slice[offset..offset + out.len()], out),
            None => self.pack_runs(offset, out),
        }
    }

    #[inline(never)]
    fn pack_runs(&self, offset: usize, out: &mut [u8]) {
        let Some((layout, skip)) = self.0.in_range(offset, out.len()) else { return };
        // SAFETY: the constructor's caller promised the bytes of the type map; the range was checked against the buffer's
        // and `out` is as long as it; user memory and a transport buffer do not overlap.
        unsafe { layout.transfer::<true>(self.0.address, skip + offset, out.len(), out.as_mut_ptr()) }
    }
}

impl RecvBuf {
    /// No room.
    pub const fn empty() -> RecvBuf {
        RecvBuf(Raw { address: std::ptr::null_mut(), bytes: 0, extra: None })
    }

    /// `bytes` contiguous bytes of room at `address`.
    ///
    /// # Safety
    /// The memory stays writable and otherwise untouched until the request that uses the buffer is complete.
    #[inline]
    pub const unsafe fn contiguous(address: *mut u8, bytes: usize) -> RecvBuf {
        RecvBuf(Raw { address, bytes, extra: None })
    }

    /// Room for `count` elements of `layout` at `address`.
    ///
    /// # Safety
    /// Every byte of the type map stays writable and otherwise untouched until the request is complete.
    pub unsafe fn typed(address: *mut u8, count: usize, layout: &Arc<Layout>) -> RecvBuf {
        RecvBuf(Raw::typed(address, 0, count * layout.size, layout, None))
    }

    /// The packed bytes `skip..skip + bytes` of elements of `layout` at `address`.
    ///
    /// # Safety
    /// As for [`RecvBuf::typed`], for the bytes in that range.
    pub(crate) unsafe fn sliced(
        address: *mut u8,
        skip: usize,
        bytes: usize,
        layout: &Arc<Layout>,
        keep: Option<&Arc<Extra>>,
    ) -> RecvBuf {
        RecvBuf(Raw::typed(address, skip, bytes, layout, keep))
    }

    /// `bytes` contiguous bytes at `address`, inside memory that `extra` keeps alive.
    ///
    /// # Safety
    /// As for [`RecvBuf::contiguous`].
    pub(crate) unsafe fn kept(address: *mut u8, bytes: usize, extra: Option<Arc<Extra>>) -> RecvBuf {
        RecvBuf(Raw { address, bytes, extra })
    }

    /// Packed capacity in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.0.bytes
    }

    /// Whether there is no room.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// The room as one slice, when it lies in one run.
    #[inline]
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        if self.0.layout().is_some() {
            return None;
        }
        if self.0.bytes == 0 {
            return Some(&mut []);
        }
        // SAFETY: the constructor's promise: `bytes` writable bytes at `address`, otherwise untouched.
        Some(unsafe { std::slice::from_raw_parts_mut(self.0.address, self.0.bytes) })
    }

    /// Bytes of a block in the mean, when the room does not lie in one run.
    pub fn mean_block(&self) -> Option<u64> {
        self.0.layout().map(|(layout, _)| layout.mean_block())
    }

    /// Appends to `out` the runs of memory behind the packed bytes from `offset` on: `len` bytes, or as many as fit `most` runs.
    /// Answers the bytes listed. Cells, because entries of a type may overlap unnoticed (see [`crate::overlap`]).
    ///
    /// # Panics
    /// When the range lies outside the buffer.
    pub fn list_runs<'a>(
        &'a mut self,
        offset: usize,
        len: usize,
        most: usize,
        out: &mut Vec<&'a [Cell<u8>]>,
    ) -> usize {
        let mut runs = Vec::new();
        let bytes = match self.0.in_range(offset, len) {
            Some((layout, skip)) => layout.list_runs(skip + offset, len, most, &mut runs),
            None if len > 0 => {
                runs.push((offset as i64, len));
                len
            }
            None => 0,
        };
        out.extend(runs.into_iter().map(|(at, len)| {
            let start = self.0.address.wrapping_offset(at as isize).cast::<Cell<u8>>();
            // SAFETY: the constructor's caller promised the bytes of the type map, which stay otherwise untouched while the
            // buffer is borrowed; the range was checked against the buffer's; cells may lie on top of each other.
            unsafe { std::slice::from_raw_parts(start.cast_const(), len) }
        }));
        bytes
    }

    /// Copies `data` to packed offset `offset`; only bytes of the type map are touched.
    ///
    /// # Panics
    /// When the range lies outside the buffer.
    #[inline]
    pub fn unpack(&mut self, offset: usize, data: &[u8]) {
        match self.as_mut_slice() {
            Some(slice) => copy(data, &mut slice[offset..offset + data.len()]),
            None => self.unpack_runs(offset, data),
        }
    }

    /// As [`RecvBuf::unpack`] of a whole message, into a buffer that owns nothing and has room for it: dropping or
    /// forgetting such a buffer is the same. False when it is another one; then nothing was copied.
    #[inline(always)]
    pub fn unpack_plain(&mut self, data: &[u8]) -> bool {
        if self.0.extra.is_some() || data.len() > self.0.bytes {
            return false;
        }
        // SAFETY: the constructor's promise: `bytes` writable bytes at `address`, which are at least as many as the data
        // have; user memory and a transport buffer do not overlap.
        unsafe { copy_bytes(data.as_ptr(), self.0.address, data.len()) };
        true
    }

    #[inline(never)]
    fn unpack_runs(&mut self, offset: usize, data: &[u8]) {
        let Some((layout, skip)) = self.0.in_range(offset, data.len()) else { return };
        // SAFETY: as in `pack_runs`; `data` is only read.
        unsafe {
            layout.unpack_of(self.0.bytes, self.0.address, skip + offset, data.len(), data.as_ptr());
        }
    }
}

/// Copies a slice onto one of the same length; the shortest messages without a call, and none into the trap of the instruction
/// for strings (`long.rs`).
///
/// # Panics
/// When they are not of the same length.
#[inline]
pub fn copy(from: &[u8], to: &mut [u8]) {
    if let (Ok(from), Ok(to)) = (<&[u8; 8]>::try_from(from), <&mut [u8; 8]>::try_from(&mut *to)) {
        *to = *from;
    } else {
        assert_eq!(from.len(), to.len(), "a part of a message and its room are as long as each other");
        // SAFETY: two slices of one length, of which one is borrowed alone.
        unsafe { long::copy(to.as_mut_ptr(), from.as_ptr(), from.len()) }
    }
}

/// Copies `bytes` bytes; the most usual small message without a call.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes` bytes, and the two do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if bytes == 8 {
            to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read());
        } else if bytes > 0 {
            long::copy(to, from, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_type_is_packed_without_its_gap_at_every_cut() {
        let layout = Arc::new(Layout::from_blocks(&[(0, 2), (4, 4)], 8));
        let memory: Vec<u8> = (0..24).collect();
        let expected = [0u8, 1, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23];
        // SAFETY: `memory` outlives the buffer and is not modified.
        let buffer = unsafe { SendBuf::typed(memory.as_ptr(), 3, &layout) };
        for start in 0..=18 {
            for end in start..=18 {
                let mut out = vec![0xff; end - start];
                buffer.pack(start, &mut out);
                assert_eq!(out, &expected[start..end]);
            }
        }
    }

    #[test]
    fn unpack_touches_only_bytes_of_the_type_map() {
        let layout = Arc::new(Layout::from_blocks(&[(0, 2), (4, 4)], 8));
        let mut memory = vec![0xee_u8; 16];
        // SAFETY: `memory` outlives the buffer and is touched only through it.
        let mut buffer = unsafe { RecvBuf::typed(memory.as_mut_ptr(), 2, &layout) };
        buffer.unpack(0, &[1; 12]);
        let gaps: Vec<u8> = [2, 3, 10, 11].iter().map(|&i| memory[i]).collect();
        assert_eq!(gaps, [0xee; 4]);
        assert_eq!(memory.iter().filter(|&&b| b == 1).count(), 12);
    }

    #[test]
    #[should_panic(expected = "outside its memory")]
    fn scratch_refuses_ranges_outside() {
        let _ = Scratch::new(10).send_buf(8, 3);
    }
}
