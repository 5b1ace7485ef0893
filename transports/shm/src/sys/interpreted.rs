//! What [`crate::sys`] is under Miri, which knows neither files in memory nor mappings of files: a segment is ordinary memory.
//!
//! A file stands for its segment by the number that it begins with; all mappings of it are views of the same memory, each of which
//! reaches no further than it was asked for (Stacked Borrows hold it to that). So processes of a node can be threads here, and what they
//! do with cells, records and pools is looked at byte by byte: bounds, alignment, what was never written, races. There is no barrier that
//! is sent to others (everybody fences himself), no memory of other processes, and no sleep on descriptors.

mod futex;

pub(crate) use futex::{futex_wait, futex_wake};
use std::cell::{Cell, UnsafeCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const PAGE: u64 = 4096;

/// The memory of every segment, by its number. It is never freed, as its file may be kept for longer than any mapping.
static SEGMENTS: Mutex<BTreeMap<u64, Memory>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy)]
struct Memory {
    base: NonNull<u8>,
    bytes: u64,
}

// SAFETY: an address; what lies there is shared by the protocols of the users.
unsafe impl Send for Memory {}

pub(crate) fn page_bytes() -> u64 {
    PAGE
}

/// A file whose content is a number that no other one has.
pub(crate) fn memory_file() -> Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weft-interpreted-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all_at(&number.to_ne_bytes(), 0)?;
    Ok(file)
}

/// The number of the segment that a file stands for.
fn number_of(file: &File) -> Result<u64> {
    let mut number = [0; 8];
    file.read_exact_at(&mut number, 0)?;
    Ok(u64::from_ne_bytes(number))
}

pub(crate) fn nonce() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(2, Ordering::Relaxed)
}

pub(crate) fn back(file: &File, offset: u64, len: u64) -> Result<()> {
    allocate(file, offset, len).map(drop)
}

/// Memory is always there; a file that stands for no segment is refused.
pub(crate) fn allocate(file: &File, _offset: u64, _len: u64) -> Result<bool> {
    number_of(file).map(|_| true)
}

/// A view of a part of a segment.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
}

// SAFETY: as for the mapping of a file.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(file: &File, offset: u64, len: u64) -> Result<Mapping> {
        assert!(offset.is_multiple_of(PAGE), "a mapping from {offset}");
        let (number, bytes) = (number_of(file)?, file.metadata()?.len());
        let mut segments = SEGMENTS.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = *segments.entry(number).or_insert_with(|| {
            let layout =
                std::alloc::Layout::from_size_align(bytes as usize, PAGE as usize).expect("a small segment");
            // SAFETY: a file that is mapped was sized before, so there are some bytes.
            let base = unsafe { std::alloc::alloc_zeroed(layout) };
            Memory { base: NonNull::new(base).expect("memory"), bytes }
        });
        assert!(
            offset + len <= memory.bytes,
            "a file is mapped as it was sized first: {len} bytes from {offset}"
        );
        // SAFETY: inside, as was just checked.
        let first = unsafe { memory.base.add(offset as usize) };
        let view =
            std::ptr::slice_from_raw_parts_mut(first.as_ptr(), len as usize) as *const UnsafeCell<[u8]>;
        // SAFETY: this memory lives for ever, and a cell may be shared. The reference is what makes the view end where it ends.
        let view: &UnsafeCell<[u8]> = unsafe { &*view };
        Ok(Mapping { base: NonNull::from(view).cast() })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn prefer_node(&self, _node: u32) {}
}

pub(crate) fn poll(_descriptors: &[BorrowedFd<'_>], _limit: Duration) -> u64 {
    std::thread::yield_now();
    0
}

pub(crate) fn membarrier_register() -> bool {
    false
}

pub(crate) fn membarrier() -> bool {
    false
}

pub(crate) fn membarrier_register_private() -> bool {
    false
}

pub(crate) fn membarrier_private() {
    unreachable!("nobody is registered")
}

pub(crate) fn allow_readers() {}

pub(crate) fn current_node() -> u32 {
    0
}

/// All threads are on one processor.
pub(crate) fn processor() -> u32 {
    0
}

/// There is one node, so that no thread has a policy to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPolicy;

impl MemoryPolicy {
    pub(crate) fn of_thread() -> Option<MemoryPolicy> {
        None
    }

    pub(crate) fn near(_node: u32) -> Option<MemoryPolicy> {
        Some(MemoryPolicy)
    }

    pub(crate) fn set(&self) {}
}

pub(crate) fn several_nodes() -> bool {
    false
}

pub(crate) fn read_process(_pid: u32, _address: u64, _into: &mut [u8]) -> Result<usize> {
    Err(Error::from_raw_os_error(libc::EPERM))
}

pub(crate) fn write_process(_pid: u32, _address: u64, _bytes: &[u8]) -> Result<usize> {
    Err(Error::from_raw_os_error(libc::EPERM))
}

pub(crate) const MOST_RUNS: usize = 1024;

pub(crate) fn read_process_runs(
    _pid: u32,
    _remote: &[(u64, usize)],
    _local: &[&[Cell<u8>]],
) -> Result<usize> {
    Err(Error::from_raw_os_error(libc::EPERM))
}
