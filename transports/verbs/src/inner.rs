//! Memory inside of the device, for data that is too long to go with its request: the device then need not fetch it across the bus.
//!
//! A short message lies in a buffer of ours when it is posted, where the device would read it some hundred nanoseconds after the
//! doorbell. Devices that have memory of their own take it from there instead: it is copied into a piece of that, which is used again
//! when the request is over. Where there is none, or no piece is free, the buffer is read as ever; nobody else knows of it.
//!
//! Only data in our own buffers goes this way, as the processor reads it: memory of the program may be gone when the device
//! would say so.

use crate::context::Context;
use crate::sys::{IBV_ACCESS_ZERO_BASED, ibv_alloc_dm_attr, ibv_dm, ibv_mr, ibv_sge, verbs_context_end};
use libc::{c_int, c_void, size_t};
use std::mem::offset_of;

/// Longer data is better read in the usual way: copying costs the processor more than it saves.
pub(crate) const PIECE: usize = 1024;
/// All processes of a host share what a device has: some hundred KiB.
const MOST_PIECES: usize = 16;

/// How bytes get there.
type Copy = unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, size_t) -> c_int;

/// Pieces of a device's memory. Its owner calls [`Inner::release`] before the context goes.
#[derive(Debug)]
pub(crate) struct Inner {
    raw: *mut ibv_dm,
    region: *mut ibv_mr,
    key: u32,
    copy: Copy,
    free: Vec<u8>,
    pieces: usize,
}

impl Inner {
    /// As much as the device gives; `None`: it has no memory, or none left.
    pub(crate) fn open(context: &Context) -> Option<Inner> {
        let around = context.around(offset_of!(verbs_context_end, reg_dm_mr))?;
        // SAFETY: these members are there: they stand one after another.
        let (register, allocate, free) =
            unsafe { ((*around).reg_dm_mr?, (*around).alloc_dm?, (*around).free_dm?) };
        let mut pieces = MOST_PIECES.min(usize::try_from(context.inner_memory()).ok()? / PIECE);
        while pieces > 0 {
            let mut plan = ibv_alloc_dm_attr { length: pieces * PIECE, log_align_req: 0, comp_mask: 0 };
            // SAFETY: the device is open.
            let raw = unsafe { allocate(context.raw(), &mut plan) };
            if raw.is_null() {
                pieces /= 2;
                continue;
            }
            // SAFETY: just made, of the same device; it is read by its own requests only.
            let region = unsafe { register(context.domain(), raw, 0, pieces * PIECE, IBV_ACCESS_ZERO_BASED) };
            // SAFETY: just made.
            let copy = unsafe { (*raw).memcpy_to_dm };
            if let (false, Some(copy)) = (region.is_null(), copy) {
                // SAFETY: just made.
                let key = unsafe { (*region).lkey };
                return Some(Inner { raw, region, key, copy, free: (0..pieces as u8).collect(), pieces });
            }
            // SAFETY: both are ours, and nothing uses them.
            unsafe {
                if !region.is_null() {
                    (context.library.ibv_dereg_mr)(region);
                }
                free(raw);
            }
            return None;
        }
        None
    }

    /// Bytes of it.
    pub(crate) fn bytes(&self) -> u64 {
        (self.pieces * PIECE) as u64
    }

    /// Puts data of at most [`PIECE`] bytes there. The piece, and what a request says to send it.
    pub(crate) fn put<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) -> Option<(u8, ibv_sge)> {
        let piece = self.free.pop()?;
        // Devices want whole words (the manual page of ibv_alloc_dm).
        let (mut words, mut length) = ([0_u32; PIECE / 4], 0);
        // SAFETY: the bytes of the same array.
        let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), PIECE) };
        for part in parts {
            bytes[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        let at = usize::from(piece) * PIECE;
        // SAFETY: the memory is ours, and the piece is in it; the bytes are borrowed.
        let result =
            unsafe { (self.copy)(self.raw, at as u64, bytes.as_ptr().cast(), length.next_multiple_of(4)) };
        if result != 0 {
            self.free.push(piece);
            return None;
        }
        Some((piece, ibv_sge { addr: at as u64, length: length as u32, lkey: self.key }))
    }

    /// The request that a piece was for is over.
    pub(crate) fn take_back(&mut self, piece: u8) {
        self.free.push(piece);
    }

    /// Gives everything back; no request uses it any more.
    pub(crate) fn release(self, context: &Context) {
        // SAFETY: both came from the library, and go with this.
        unsafe { (context.library.ibv_dereg_mr)(self.region) };
        let around = context.around(offset_of!(verbs_context_end, reg_dm_mr));
        // SAFETY: the member is there, as when the memory was made.
        if let Some(free) = around.and_then(|around| unsafe { (*around).free_dm }) {
            // SAFETY: as above.
            unsafe { free(self.raw) };
        }
    }
}
