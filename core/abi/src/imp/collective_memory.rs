//! The buffer arguments of collective operations as memory with its packed bytes. Only what is significant at the calling
//! process is looked at (section 2.3).

use std::cell::RefCell;
use std::ffi::c_void;
use std::ops::Deref;

use weft_coll::Block;
use weft_datatype::{Datatype, Memory};
use weft_types::{Error, ErrorClass, Result as Outcome, Side, abi};

use super::objects::Objects;
use super::point_to_point::no_buffer;
use crate::ctypes::*;
use crate::raise::negative_count;

/// A list that lives as long as a call: its room is kept for the next one.
#[derive(Debug)]
pub(super) struct List<T: Listed>(Vec<T>);

/// What such lists hold.
pub(super) trait Listed: Sized + 'static {
    fn with_kept<R>(work: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> Option<R>;
}

/// Rooms kept by each thread: a call has four lists at most.
const KEPT: usize = 4;

/// Lists with more entries give their memory back.
const LONGEST: usize = 4096;

macro_rules! listed {
    ($($name:ident: $ty:ty;)*) => {$(
        thread_local! {
            static $name: RefCell<Vec<Vec<$ty>>> = const { RefCell::new(Vec::new()) };
        }

        impl Listed for $ty {
            fn with_kept<R>(work: impl FnOnce(&mut Vec<Vec<$ty>>) -> R) -> Option<R> {
                // None while the thread ends.
                $name.try_with(|kept| work(&mut kept.borrow_mut())).ok()
            }
        }
    )*};
}

listed! {
    BLOCKS: Block;
    NUMBERS: u64;
}

impl<T: Listed> List<T> {
    /// An empty list.
    pub(super) fn new() -> List<T> {
        List(T::with_kept(Vec::pop).flatten().unwrap_or_default())
    }

    pub(super) fn push(&mut self, value: T) {
        self.0.push(value);
    }
}

impl<T: Listed> Drop for List<T> {
    fn drop(&mut self) {
        let mut room = std::mem::take(&mut self.0);
        room.clear();
        if room.capacity() > 0 && room.capacity() <= LONGEST {
            T::with_kept(|kept| {
                if kept.len() < KEPT {
                    kept.push(room);
                }
            });
        }
    }
}

impl<T: Listed> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// One buffer argument: address, count, datatype.
pub(super) type Data<P> = (P, i64, MPI_Datatype);

pub(super) fn is_in_place(address: *const c_void) -> bool {
    address.addr() == abi::MPI_IN_PLACE
}

/// Nothing is mapped below this address, where the kernel is as usual (vm.mmap_min_addr).
const LOWEST_ADDRESS: i64 = 1 << 16;

/// Refuses data at an address that is a constant of the library. `low`, `high`: where they begin and end from there on, with the displacement; from
/// `MPI_BOTTOM` on that may be an address itself (section 5.1.12).
fn check_address(address: usize, datatype: &Datatype, (low, high): (i64, i64)) -> Outcome<()> {
    let is_address = address == abi::MPI_BOTTOM && !(-LOWEST_ADDRESS..LOWEST_ADDRESS).contains(&low);
    if address <= abi::MPI_BUFFER_AUTOMATIC && high > low && datatype.is_contiguous() && !is_address {
        return Err(no_buffer(address, (high - low) as usize));
    }
    Ok(())
}

/// Refuses a call whose own data are not as long as the room for them: what a process sends itself must fit like all else
/// (section 6.1).
#[inline]
pub(super) fn check_own(sent: u64, received: u64) -> Outcome<()> {
    if sent == received { Ok(()) } else { Err(own_differs(sent, received)) }
}

#[cold]
fn own_differs(sent: u64, received: u64) -> Error {
    let class = if sent > received { ErrorClass::TRUNCATE } else { ErrorClass::COUNT };
    Error::new(
        class,
        format!(
            "this process's own block has {sent} bytes in the send argument, but {received} bytes in the receive argument; counts are \
             those of one process's block, not of all"
        ),
    )
}

/// A count that the entry could not check, because it is not significant at every process.
fn whole(count: i64) -> Outcome<u64> {
    u64::try_from(count).map_err(|_| Error::new(ErrorClass::COUNT, negative_count(count)))
}

/// A send argument of `count` elements, with its packed bytes.
///
/// # Safety
/// The program keeps the data as they are until the operation is complete.
pub(super) unsafe fn read(
    process: &impl Objects,
    (address, count, datatype): Data<*const c_void>,
) -> Outcome<(Memory, u64)> {
    let look = || {
        let count = whole(count)?;
        let datatype = process.datatype(datatype.handle())?;
        let span = datatype.span(count)?;
        check_address(address.addr(), &datatype, span)?;
        let bytes = datatype.packed_bytes(count)? as u64;
        Ok((datatype, span, bytes))
    };
    let (datatype, span, bytes) = look().map_err(|error: Error| error.on_side(Side::Send))?;
    // SAFETY: the caller's promise; the span is that of `count` elements.
    Ok((unsafe { Memory::read(address.cast(), &datatype, span) }, bytes))
}

/// A receive argument of `copies` times `count` elements, with the packed bytes of `count`.
///
/// # Safety
/// The program leaves the memory alone until the operation is complete.
pub(super) unsafe fn write(
    process: &impl Objects,
    data: Data<*mut c_void>,
    copies: u32,
) -> Outcome<(Memory, u64)> {
    // SAFETY: the caller's promise.
    let argument = unsafe { writable(process, data, copies)? };
    let all = (data.1 as u64).saturating_mul(u64::from(copies));
    let distinct = process.datatype(data.2.handle()).and_then(|datatype| datatype.check_distinct(all));
    distinct.map_err(|error| error.on_side(Side::Receive))?;
    Ok(argument)
}

/// As [`write`], of a type whose entries may overlap: the root's of a broadcast, which gets back what it holds.
///
/// # Safety
/// As [`write`].
pub(super) unsafe fn writable(
    process: &impl Objects,
    (address, count, datatype): Data<*mut c_void>,
    copies: u32,
) -> Outcome<(Memory, u64)> {
    let look = || {
        let count = whole(count)?;
        let datatype = process.datatype(datatype.handle())?;
        let span = datatype.span(count.saturating_mul(u64::from(copies)))?;
        check_address(address.addr(), &datatype, span)?;
        let bytes = datatype.packed_bytes(count)? as u64;
        Ok((datatype, span, bytes))
    };
    let (datatype, span, bytes) = look().map_err(|error: Error| error.on_side(Side::Receive))?;
    // SAFETY: the caller's promise; the span is that of all elements.
    Ok((unsafe { Memory::write(address.cast(), &datatype, span) }, bytes))
}

/// As [`write`], of memory that the program only sends from, so that it is never written.
///
/// # Safety
/// As [`read`].
pub(super) unsafe fn read_copies(
    process: &impl Objects,
    (address, count, datatype): Data<*const c_void>,
    copies: u32,
) -> Outcome<(Memory, u64)> {
    let count = whole(count).map_err(|error| error.on_side(Side::Send))?;
    let all = (count as i64).saturating_mul(i64::from(copies));
    // SAFETY: the caller's promise.
    let (memory, _) = unsafe { read(process, (address, all, datatype))? };
    let bytes = process.datatype(datatype.handle())?.packed_bytes(count)?;
    Ok((memory, bytes as u64))
}

/// Counts and displacements (in elements) of a `v` argument.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) counts: IntArray,
    pub(super) displacements: IntArray,
}

/// The blocks of a `v` argument and the bytes they cover.
///
/// # Safety
/// The program passes arrays of `size` numbers.
unsafe fn blocks(
    datatype: &Datatype,
    name: &str,
    places: Places,
    size: u32,
) -> Outcome<(List<Block>, (i64, i64))> {
    if (places.counts.is_null() || places.displacements.is_null()) && size > 0 {
        return Err(Error::new(ErrorClass::ARG, format!("{name} or its displacements is a null pointer")));
    }
    let extent = datatype.bounds().extent;
    let mut all = List::new();
    let mut reach: Option<(i64, i64)> = None;
    for rank in 0..size as usize {
        // SAFETY: the caller's promise.
        let (count, place) = unsafe { (places.counts.get(rank), places.displacements.get(rank)) };
        let count = u64::try_from(count).map_err(|_| {
            Error::new(ErrorClass::COUNT, format!("{name}[{rank}] is {count}, but it must not be negative"))
        })?;
        let displacement = place.checked_mul(extent).ok_or_else(|| {
            Error::new(
                ErrorClass::ARG,
                format!("displacement {place} of rank {rank} does not fit 63 bits of bytes"),
            )
        })?;
        let bytes = datatype.packed_bytes(count)? as u64;
        all.push(Block { displacement, bytes });
        if bytes > 0 {
            let (low, high) = datatype.span(count)?;
            let (low, high) = (low.saturating_add(displacement), high.saturating_add(displacement));
            reach = Some(reach.map_or((low, high), |(a, b)| (a.min(low), b.max(high))));
        }
    }
    Ok((all, reach.unwrap_or((0, 0))))
}

/// A receive argument of blocks.
///
/// # Safety
/// As [`write`] and [`blocks`].
pub(super) unsafe fn write_blocks(
    process: &impl Objects,
    address: *mut c_void,
    datatype: MPI_Datatype,
    name: &str,
    places: Places,
    size: u32,
) -> Outcome<(List<Block>, Memory)> {
    let datatype = process.datatype(datatype.handle()).map_err(|error| error.on_side(Side::Receive))?;
    // SAFETY: the caller's promise.
    unsafe {
        let (blocks, span) = blocks(&datatype, name, places, size)?;
        for rank in 0..size as usize {
            datatype
                .check_distinct(places.counts.get(rank) as u64)
                .map_err(|error| error.on_side(Side::Receive))?;
        }
        check_address(address.addr(), &datatype, span)?;
        Ok((blocks, Memory::write(address.cast(), &datatype, span)))
    }
}

/// A send argument of blocks.
///
/// # Safety
/// As [`read`] and [`blocks`].
pub(super) unsafe fn read_blocks(
    process: &impl Objects,
    address: *const c_void,
    datatype: MPI_Datatype,
    name: &str,
    places: Places,
    size: u32,
) -> Outcome<(List<Block>, Memory)> {
    let datatype = process.datatype(datatype.handle()).map_err(|error| error.on_side(Side::Send))?;
    // SAFETY: the caller's promise.
    unsafe {
        let (blocks, span) = blocks(&datatype, name, places, size)?;
        check_address(address.addr(), &datatype, span)?;
        Ok((blocks, Memory::read(address.cast(), &datatype, span)))
    }
}

/// One side of an `MPI_Alltoallw`: a datatype for every rank, displacements in bytes.
#[derive(Clone, Copy)]
pub(super) struct Typed {
    pub(super) places: Places,
    pub(super) types: *const MPI_Datatype,
}

/// The memory and the packed bytes for every rank.
///
/// # Safety
/// The program passes arrays of `size` elements; `bind` promises what its memory needs.
unsafe fn typed_blocks(
    process: &impl Objects,
    name: &str,
    address: usize,
    typed: Typed,
    size: u32,
    bind: impl Fn(i64, &Datatype, (i64, i64)) -> Memory,
) -> Outcome<(List<u64>, Vec<Memory>)> {
    if size == 0 {
        return Ok((List::new(), Vec::new()));
    }
    if typed.places.counts.is_null() || typed.places.displacements.is_null() || typed.types.is_null() {
        return Err(Error::new(
            ErrorClass::ARG,
            format!("{name}, its displacements or its datatypes is a null pointer"),
        ));
    }
    let (mut bytes, mut memories) = (List::new(), Vec::with_capacity(size as usize));
    for rank in 0..size as usize {
        // SAFETY: the caller's promise.
        let (count, displacement, datatype) = unsafe {
            (
                typed.places.counts.get(rank),
                typed.places.displacements.get(rank),
                typed.types.add(rank).read(),
            )
        };
        let count = u64::try_from(count).map_err(|_| {
            Error::new(ErrorClass::COUNT, format!("{name}[{rank}] is {count}, but it must not be negative"))
        })?;
        let of_rank = |error: Error| {
            let types = name.replace("counts", "types");
            Error::new(error.class(), format!("{types}[{rank}]: {}", error.text()))
        };
        let datatype = process.datatype(datatype.handle()).map_err(of_rank)?;
        let span = datatype.span(count)?;
        let (low, high) = span;
        check_address(
            address,
            &datatype,
            (low.saturating_add(displacement), high.saturating_add(displacement)),
        )?;
        bytes.push(datatype.packed_bytes(count)? as u64);
        let memory = bind(displacement, &datatype, span);
        if memory.is_writable() {
            datatype.check_distinct(count).map_err(of_rank)?;
        }
        memories.push(memory);
    }
    Ok((bytes, memories))
}

/// What is sent to each of `size` processes.
///
/// # Safety
/// As [`read`] and [`typed_blocks`].
pub(super) unsafe fn typed_reads(
    process: &impl Objects,
    buffer: *const c_void,
    typed: Typed,
    size: u32,
) -> Outcome<(List<u64>, Vec<Memory>)> {
    // SAFETY: the caller's promise.
    unsafe {
        typed_blocks(process, "sendcounts", buffer.addr(), typed, size, |at, datatype, span| {
            Memory::read(buffer.cast::<u8>().wrapping_offset(at as isize), datatype, span)
        })
    }
}

/// Where what comes from each of `size` processes goes.
///
/// # Safety
/// As [`write`] and [`typed_blocks`].
pub(super) unsafe fn typed_writes(
    process: &impl Objects,
    buffer: *mut c_void,
    typed: Typed,
    size: u32,
) -> Outcome<(List<u64>, Vec<Memory>)> {
    // SAFETY: the caller's promise.
    unsafe {
        typed_blocks(process, "recvcounts", buffer.addr(), typed, size, |at, datatype, span| {
            Memory::write(buffer.cast::<u8>().wrapping_offset(at as isize), datatype, span)
        })
    }
}
