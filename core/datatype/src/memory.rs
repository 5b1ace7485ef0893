//! A whole user argument (address, datatype and the elements it covers), from which buffers are cut.
//!
//! A collective makes many messages out of one argument. [`Memory`] is made once, at the boundary, with the promise
//! about all the bytes the call may touch; every view is checked against it, so that what stands above stays safe.

use crate::buffer::{self, Extra, RecvBuf, Scratch, SendBuf};
use crate::object::Datatype;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_types::{Error, ErrorClass, Result};

/// An address, the datatype of the elements there, and the range of bytes that may be touched.
#[derive(Clone, Debug)]
pub struct Memory {
    address: *mut u8,
    datatype: Datatype,
    /// Touchable bytes, relative to `address`.
    low: i64,
    high: i64,
    writable: bool,
    /// Set when the library owns the bytes.
    keep: Option<Arc<Extra>>,
}

// SAFETY: an address and immutable description; the constructor's promise covers whichever thread drives the call.
unsafe impl Send for Memory {}

// SAFETY: nothing in it changes; that views of one `Memory` are not used at the same time is the constructor's promise, as it is
// for views of two clones.
unsafe impl Sync for Memory {}

/// Whole elements inside a [`Memory`], in their memory layout, for a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    pub(crate) address: *mut u8,
    pub(crate) count: usize,
    /// Bytes from the first element's origin to the end of the last element's data.
    pub(crate) span: usize,
    pub(crate) writable: bool,
}

impl Elements {
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Address of the first element's origin, for a user-defined operation.
    pub fn address(&self) -> usize {
        self.address as usize
    }
}

// SAFETY: as for `Memory`.
unsafe impl Send for Elements {}

impl Datatype {
    /// The bytes that `count` elements at displacement 0 cover: first, and one past the last.
    pub fn span(&self, count: u64) -> Result<(i64, i64)> {
        let bounds = self.bounds();
        if count == 0 || bounds.true_extent == 0 {
            return Ok((0, 0));
        }
        let reach = i64::try_from(count - 1).ok().and_then(|last| bounds.extent.checked_mul(last));
        let low = bounds.true_lb;
        let high = low.checked_add(bounds.true_extent);
        match (reach, high) {
            (Some(reach), Some(high)) => {
                match (low.checked_add(reach.min(0)), high.checked_add(reach.max(0))) {
                    (Some(low), Some(high)) if high.checked_sub(low).is_some() => Ok((low, high)),
                    _ => Err(self.too_many(count)),
                }
            }
            _ => Err(self.too_many(count)),
        }
    }

    /// Packed bytes of `count` elements.
    #[inline]
    pub fn packed_bytes(&self, count: u64) -> Result<usize> {
        match count.checked_mul(self.element_bytes() as u64) {
            Some(bytes) if bytes <= i64::MAX as u64 => Ok(bytes as usize),
            _ => Err(self.too_many(count)),
        }
    }

    #[cold]
    fn too_many(&self, count: u64) -> Error {
        Error::new(
            ErrorClass::COUNT,
            format!(
                "count {count} times {} bytes of the datatype does not fit 63 bits",
                self.element_bytes()
            ),
        )
    }

    /// The buffer to send `count` elements at `address`; for a contiguous type one multiplication.
    ///
    /// # Safety
    /// Every byte of the type map of these elements stays readable and unmodified until the request that uses the
    /// buffer is complete (section 3.7.2).
    #[inline]
    pub unsafe fn send_buf(&self, address: *const u8, count: u64) -> Result<SendBuf> {
        let bytes = self.packed_bytes(count)?;
        if self.is_contiguous() {
            // SAFETY: the caller's promise.
            return Ok(unsafe { SendBuf::contiguous(address, bytes) });
        }
        // SAFETY: the caller's promise.
        Ok(unsafe { SendBuf::sliced(address, 0, bytes, self.layout(), None) })
    }

    /// The room to receive `count` elements at `address`; for a contiguous type one multiplication. An error of class
    /// `MPI_ERR_TYPE` when entries overlap.
    ///
    /// # Safety
    /// Every byte of the type map of these elements stays writable and otherwise untouched until the request that
    /// uses the buffer is complete.
    #[inline]
    pub unsafe fn recv_buf(&self, address: *mut u8, count: u64) -> Result<RecvBuf> {
        let bytes = self.packed_bytes(count)?;
        if self.is_contiguous() {
            // SAFETY: the caller's promise.
            return Ok(unsafe { RecvBuf::contiguous(address, bytes) });
        }
        self.check_distinct(count)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { RecvBuf::sliced(address, 0, bytes, self.layout(), None) })
    }

    /// Packs whole elements at `address`, as many as fill `out` (section 5.2), without making a buffer first.
    ///
    /// # Safety
    /// The bytes of the type map of these elements are readable, and `out` is none of them.
    #[inline]
    pub unsafe fn pack_elements(&self, address: *const u8, out: &mut [u8]) {
        // SAFETY: the caller's promise; packing only reads at `address`.
        unsafe { self.layout().pack_of(out.len(), address.cast_mut(), 0, out.len(), out.as_mut_ptr()) }
    }

    /// Unpacks `data` into whole elements at `address`, as many as `data` holds (section 5.2), without making a buffer first. The
    /// caller has looked for overlaps ([`Datatype::check_distinct`]).
    ///
    /// # Safety
    /// The bytes of the type map of these elements are writable, and `data` is none of them.
    #[inline]
    pub unsafe fn unpack_elements(&self, address: *mut u8, data: &[u8]) {
        // SAFETY: the caller's promise; unpacking only reads at `data`.
        unsafe { self.layout().unpack_of(data.len(), address, 0, data.len(), data.as_ptr()) }
    }
}

/// Runs that are checked before more are listed.
const RUNS_AT_ONCE: usize = 256;
/// Packed bytes that are looked at before more are.
const BYTES_AT_ONCE: usize = 64 << 10;

impl Memory {
    /// No elements at all (an argument that is not significant at this rank).
    pub fn none() -> Memory {
        Memory {
            address: std::ptr::null_mut(),
            datatype: byte(),
            low: 0,
            high: 0,
            writable: false,
            keep: None,
        }
    }

    /// An argument that is only read: elements of `datatype` in the bytes `low..high` from `address`.
    ///
    /// # Safety
    /// The bytes of the type map of all elements inside the range stay readable and unmodified until the operation
    /// is complete.
    pub unsafe fn read(address: *const u8, datatype: &Datatype, (low, high): (i64, i64)) -> Memory {
        let address = address.cast_mut();
        Memory { address, datatype: datatype.clone(), low, high, writable: false, keep: None }
    }

    /// An argument that is written (and perhaps read): elements of `datatype` in the bytes `low..high` from `address`.
    ///
    /// # Safety
    /// The bytes of the type map of all elements inside the range stay readable and writable and otherwise untouched
    /// until the operation is complete.
    pub unsafe fn write(address: *mut u8, datatype: &Datatype, (low, high): (i64, i64)) -> Memory {
        Memory { address, datatype: datatype.clone(), low, high, writable: true, keep: None }
    }

    /// Whether it may be written.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Zeroed memory of the library, in the memory layout of `count` elements of `datatype`.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` when these do not fit 64 bits.
    pub fn scratch(datatype: &Datatype, count: u64) -> Result<Memory> {
        Memory::elements_in(datatype, count, |bytes| Extra::keeping(&Scratch::new(bytes)))
    }

    /// Zeroed memory of the library for `bytes` packed bytes.
    pub fn packed_scratch(bytes: usize) -> Memory {
        Memory::packed_in(bytes, Extra::keeping(&Scratch::new(bytes)))
    }

    /// As [`Memory::scratch`], in a block of at least the bytes that `block` is asked for.
    pub(crate) fn elements_in(
        datatype: &Datatype,
        count: u64,
        block: impl FnOnce(usize) -> Arc<Extra>,
    ) -> Result<Memory> {
        let (low, high) = datatype.span(count)?;
        let bytes = usize::try_from(high - low).map_err(Error::internal)?;
        // The first data byte keeps the alignment the user's own element would have.
        let lead = low.rem_euclid(16) as usize;
        let block = block(bytes + lead);
        assert!(block.scratch_bytes() >= bytes + lead, "a block smaller than asked for");
        let address = block.scratch_address().wrapping_add(lead).wrapping_sub(low as usize);
        Ok(Memory { address, datatype: datatype.clone(), low, high, writable: true, keep: Some(block) })
    }

    /// As [`Memory::packed_scratch`], in a given block.
    pub(crate) fn packed_in(bytes: usize, block: Arc<Extra>) -> Memory {
        assert!(block.scratch_bytes() >= bytes, "a block smaller than asked for");
        Memory {
            address: block.scratch_address(),
            datatype: byte(),
            low: 0,
            high: bytes as i64,
            writable: true,
            keep: Some(block),
        }
    }

    /// Fails when this argument and `other` begin with the same byte, one of them to be written: the program passed
    /// one buffer twice, which section 2.3 forbids. (Blocks of two arguments may interleave, so that more cannot be
    /// said of their ranges.)
    pub fn check_distinct(&self, other: &Memory) -> Result<()> {
        let first = |memory: &Memory| memory.address.wrapping_offset(memory.low as isize);
        let both = self.high > self.low && other.high > other.low && (self.writable || other.writable);
        if both && std::ptr::eq(first(self), first(other)) {
            return Err(aliased(self.address as usize, other.address as usize));
        }
        Ok(())
    }

    /// The library's block behind this memory.
    pub(crate) fn into_block(self) -> Option<Arc<Extra>> {
        self.keep
    }

    /// The elements' type.
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// The same bytes as elements of another type: what is at target of a one-sided operation.
    #[must_use]
    pub fn retyped(&self, datatype: &Datatype) -> Memory {
        Memory { datatype: datatype.clone(), ..self.clone() }
    }

    /// The `bytes` bytes that begin `first` bytes from the address, as memory of their own; `None` when that is not all of this one's.
    #[must_use]
    pub fn part(&self, first: i64, bytes: i64) -> Option<Memory> {
        let end = first.checked_add(bytes)?;
        let inside = bytes >= 0 && self.low <= first && end <= self.high;
        let address = self.address.wrapping_offset(first as isize);
        inside.then(|| Memory { address, datatype: byte(), low: 0, high: bytes, ..self.clone() })
    }

    /// `count` elements of `datatype`, `at` bytes from address 0, when every run of them lies in one of `parts`, or in some that
    /// touch: memory of which nothing but these elements may be looked at. `None` when some byte lies in none.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` when the elements do not fit 63 bits.
    pub fn across(parts: &[&Memory], datatype: &Datatype, count: u64, at: i64) -> Result<Option<Memory>> {
        let (low, high) = datatype.span(count)?;
        // Elements on top of each other lie where the first of them does.
        let apart = if datatype.bounds().extent == 0 { count.min(1) } else { count };
        let total = datatype.packed_bytes(apart)?;
        let mut parts: Vec<(i128, i128)> = parts
            .iter()
            .map(|part| {
                let start = part.address as usize as i128;
                (start + i128::from(part.low), start + i128::from(part.high))
            })
            .collect();
        parts.sort_unstable();
        let covered = |mut first: i128, last: i128| {
            for &(low, high) in &parts {
                if low <= first && first < high {
                    first = high;
                }
            }
            first >= last
        };
        // One run, however many elements there are.
        let whole = datatype.is_contiguous() && count > 0;
        if whole && !covered(i128::from(at) + i128::from(low), i128::from(at) + i128::from(high)) {
            return Ok(None);
        }
        let (mut done, mut runs) = (if whole { total } else { 0 }, Vec::new());
        while done < total {
            runs.clear();
            // Not all at once: what touches becomes one run, whoever wants too much hears so after what is here.
            let most = (total - done).min(BYTES_AT_ONCE);
            done += datatype.layout().list_runs(done, most, RUNS_AT_ONCE, &mut runs);
            let inside = |&(place, len): &(i64, usize)| {
                let first = i128::from(at) + i128::from(place);
                covered(first, first + len as i128)
            };
            if !runs.iter().all(inside) {
                return Ok(None);
            }
        }
        let (Some(low), Some(high)) = (at.checked_add(low), at.checked_add(high)) else { return Ok(None) };
        let datatype = datatype.clone();
        Ok(Some(Memory { address: std::ptr::null_mut(), datatype, low, high, writable: true, keep: None }))
    }

    /// The address the argument began at.
    pub fn address(&self) -> usize {
        self.address as usize
    }

    /// Packed bytes `start..start + bytes` of the elements `displacement` bytes from the address, to be sent.
    ///
    /// # Panics
    /// When that lies outside the promised range: a wrong schedule.
    pub fn send_view(&self, displacement: i64, start: u64, bytes: u64) -> SendBuf {
        let Some((address, skip, bytes)) = self.checked(displacement, start, bytes) else {
            return SendBuf::empty();
        };
        if self.datatype.is_contiguous() {
            // SAFETY: `checked` found the bytes inside the range that the constructor's caller promised.
            return unsafe { SendBuf::kept(address.wrapping_add(skip), bytes, self.keep.clone()) };
        }
        // SAFETY: as above.
        unsafe { SendBuf::sliced(address, skip, bytes, self.datatype.layout(), self.keep.as_ref()) }
    }

    /// The room for packed bytes `start..start + bytes` of the elements `displacement` bytes from the address.
    ///
    /// # Panics
    /// When that lies outside the promised range, or the argument is only read.
    pub fn recv_view(&self, displacement: i64, start: u64, bytes: u64) -> RecvBuf {
        let Some((address, skip, bytes)) = self.checked(displacement, start, bytes) else {
            return RecvBuf::empty();
        };
        assert!(self.writable, "a schedule writes to an argument that is only read");
        if self.datatype.is_contiguous() {
            // SAFETY: `checked` found the bytes inside the range that the constructor's caller promised.
            return unsafe { RecvBuf::kept(address.wrapping_add(skip), bytes, self.keep.clone()) };
        }
        // SAFETY: as above.
        unsafe { RecvBuf::sliced(address, skip, bytes, self.datatype.layout(), self.keep.as_ref()) }
    }

    /// Where packed bytes `start..start + bytes` of elements without gaps begin; `None` for others, and outside the promised
    /// range.
    #[inline]
    fn run_at(&self, start: u64, bytes: u64) -> Option<*mut u8> {
        let end = i64::try_from(start.checked_add(bytes)?).ok()?;
        let inside = start as i64 >= self.low && end <= self.high && self.datatype.is_contiguous();
        inside.then(|| self.address.wrapping_add(start as usize))
    }

    /// As [`Memory::send_view`] at displacement 0, where the bytes lie in one run; `None`: ask for the view.
    #[inline]
    pub fn run(&self, start: u64, bytes: u64) -> Option<&[u8]> {
        let at = self.run_at(start, bytes)?;
        // SAFETY: inside the range that the constructor's caller promised.
        Some(unsafe { std::slice::from_raw_parts(at, bytes as usize) })
    }

    /// Copies data to packed offset `start`, where the elements there lie in one run; false: nothing was done, ask for
    /// [`Memory::recv_view`].
    #[inline]
    pub fn fill_run(&self, start: u64, data: &[u8]) -> bool {
        let at = if self.writable { self.run_at(start, data.len() as u64) } else { None };
        // SAFETY: inside the range that the constructor's caller promised, writable and otherwise untouched; `data` is none of
        // it.
        at.is_some_and(|at| unsafe {
            buffer::copy_bytes(data.as_ptr(), at, data.len());
            true
        })
    }

    /// Changes the eight bytes at `at` from the address to what `change` makes of them, a number in the machine's byte order, in one
    /// step towards everybody who does so too: threads, other processes that have the memory mapped, and devices whose atomics are
    /// atomic towards processors. Answers what was there; `change` is called again whenever somebody else was faster, and changes
    /// nothing with `None`. `None`: nothing was done, since these bytes are no aligned number inside the promised range, or may only
    /// be read.
    pub fn change_word(&self, at: i64, mut change: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        let inside = at >= self.low && at.checked_add(8)? <= self.high;
        let word = self.address.wrapping_offset(at as isize).cast::<u64>();
        if !inside || !self.writable || !word.is_aligned() {
            return None;
        }
        // SAFETY: aligned, and inside the range that the constructor's caller promised: mapped, writable, and otherwise untouched
        // but by others that change such words in one step. A view of the same bytes is not used at the same time.
        let word = unsafe { AtomicU64::from_ptr(word) };
        let mut found = word.load(Ordering::Acquire);
        while let Some(new) = change(found) {
            match word.compare_exchange_weak(found, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(there) => found = there,
            }
        }
        Some(found)
    }

    /// The whole elements at packed bytes `start..start + bytes`, for a reduction.
    ///
    /// # Panics
    /// When the range is outside, or does not begin and end between elements.
    pub fn elements(&self, displacement: i64, start: u64, bytes: u64) -> Elements {
        let Some((address, skip, bytes)) = self.checked(displacement, start, bytes) else {
            return Elements { address: self.address, count: 0, span: 0, writable: self.writable };
        };
        let size = self.datatype.element_bytes();
        assert!(skip % size == 0 && bytes % size == 0, "a reduction begins or ends inside an element");
        let bounds = self.datatype.bounds();
        let count = bytes / size;
        Elements {
            address: address.wrapping_offset((skip / size) as isize * bounds.extent as isize),
            count,
            span: ((count as i64 - 1) * bounds.extent + bounds.true_lb + bounds.true_extent).max(0) as usize,
            writable: self.writable,
        }
    }

    /// Address of the elements, packed bytes to skip, packed bytes; `None` when there is nothing.
    fn checked(&self, displacement: i64, start: u64, bytes: u64) -> Option<(*mut u8, usize, usize)> {
        let size = self.datatype.element_bytes() as u64;
        if bytes == 0 || size == 0 {
            return None;
        }
        let bounds = self.datatype.bounds();
        let end = start.checked_add(bytes).expect("a schedule's packed range overflows");
        let inside = if self.datatype.is_contiguous() {
            let low = displacement as i128 + start as i128;
            low >= self.low as i128 && displacement as i128 + end as i128 <= self.high as i128
        } else {
            let (first, last) = ((start / size) as i128, ((end - 1) / size) as i128);
            let origin = displacement as i128 + bounds.true_lb as i128;
            let (a, b) = (origin + first * bounds.extent as i128, origin + last * bounds.extent as i128);
            a.min(b) >= self.low as i128 && a.max(b) + bounds.true_extent as i128 <= self.high as i128
        };
        assert!(
            inside,
            "a schedule touches packed bytes {start}..{end} at displacement {displacement}, outside {}..{}",
            self.low, self.high
        );
        Some((self.address.wrapping_offset(displacement as isize), start as usize, bytes as usize))
    }
}

/// Two arguments that must not share memory do.
#[cold]
pub(crate) fn aliased(a: usize, b: usize) -> Error {
    Error::new(
        ErrorClass::BUFFER,
        format!(
            "the send buffer ({a:#x}) and the receive buffer ({b:#x}) overlap (section 2.3); pass MPI_IN_PLACE as the \
             send buffer to have the data replaced"
        ),
    )
}

fn byte() -> Datatype {
    Datatype::predefined(weft_types::abi::MPI_BYTE).expect("MPI_BYTE is predefined").into()
}

/// Copies all of `from` into the room of `to`.
///
/// # Panics
/// When the packed lengths differ.
pub fn copy(from: &SendBuf, to: &mut RecvBuf) {
    assert_eq!(from.len(), to.len(), "a copy between ranges of different length");
    if let Some(slice) = from.as_slice() {
        to.unpack(0, slice);
    } else if let Some(slice) = to.as_mut_slice() {
        from.pack(0, slice);
    } else {
        let mut staging = [0_u8; 4096];
        for offset in (0..from.len()).step_by(staging.len()) {
            let len = staging.len().min(from.len() - offset);
            from.pack(offset, &mut staging[..len]);
            to.unpack(offset, &staging[..len]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: usize = 4;

    fn words(memory: &Memory) -> Vec<u64> {
        let mut bytes = [0; 8 * WORDS];
        memory.send_view(0, 0, bytes.len() as u64).pack(0, &mut bytes);
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    /// Threads that add, double and swap by turns lose nothing: each change is made to what it was given.
    #[test]
    fn words_are_changed_in_one_step() {
        const TURNS: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let memory = Memory::packed_scratch(8 * WORDS);
        let add = |memory: &Memory| {
            (0..TURNS).for_each(|_| {
                memory.change_word(8, |found| Some(found + 1));
            })
        };
        let swap = |memory: &Memory| {
            let mut swapped = 0;
            while swapped < TURNS {
                let seen = memory.change_word(8, |_| None).unwrap();
                let found = memory.change_word(8, |found| (found == seen).then_some(seen + 1)).unwrap();
                swapped += u64::from(found == seen);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| add(&memory));
                scope.spawn(|| swap(&memory));
            }
        });
        assert_eq!(words(&memory), [0, 4 * TURNS, 0, 0]);
    }

    #[test]
    fn what_is_no_word_is_left_alone() {
        let memory = Memory::packed_scratch(8 * WORDS);
        let touched = |memory: &Memory, at| memory.change_word(at, |_| Some(u64::MAX)).is_some();
        for at in [-8, 1, 4, 7, 8 * WORDS as i64 - 7, 8 * WORDS as i64, i64::MAX, i64::MIN] {
            assert!(!touched(&memory, at), "{at}");
        }
        // SAFETY: bytes of the memory above, which stays.
        let read = unsafe { Memory::read(memory.address as *const u8, &byte(), (0, 8)) };
        assert!(!touched(&read, 0));
        assert_eq!(words(&memory), [0; WORDS]);
        assert!(touched(&memory, 8 * WORDS as i64 - 8));
        assert_eq!(words(&memory), [0, 0, 0, u64::MAX]);
    }
}
