//! Memory that windows bring with them: allocated, or shared by the processes of a node (sections 12.2.2 and 12.2.3).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use weft_types::{Error, ErrorClass, Result as Outcome};

/// Allocated memory, freed when dropped.
#[derive(Debug)]
pub(super) struct Allocation(NonNull<libc::c_void>);

// SAFETY: the memory is only freed here; who touches it otherwise is the affair of the window's owner.
unsafe impl Send for Allocation {}

impl Allocation {
    /// Zeroed memory of `bytes` bytes, aligned to `alignment`, a power of two of at least 8.
    pub(super) fn new(bytes: usize, alignment: usize) -> Outcome<Allocation> {
        let mut memory = std::ptr::null_mut();
        // SAFETY: `memory` is writable; the caller vouches for the alignment.
        let failed = unsafe { libc::posix_memalign(&raw mut memory, alignment, bytes.max(1)) };
        match NonNull::new(memory) {
            Some(memory) if failed == 0 => {
                // SAFETY: just allocated with at least that size.
                unsafe { memory.as_ptr().cast::<u8>().write_bytes(0, bytes) };
                Ok(Allocation(memory))
            }
            _ => Err(Error::new(
                ErrorClass::NO_MEM,
                format!("{bytes} bytes for a window cannot be had from the system"),
            )),
        }
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: it came from posix_memalign and is freed once.
        unsafe { libc::free(self.0.as_ptr()) };
    }
}

/// A mapping of a memory file, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    address: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: as for `Allocation`.
unsafe impl Send for Mapping {}

fn failed(what: &str) -> Error {
    Error::new(
        ErrorClass::RMA_SHARED,
        format!(
            "memory for a shared window: {what}: {}; are all processes of the communicator on one node and of one user?",
            std::io::Error::last_os_error()
        ),
    )
}

/// An anonymous memory file of `bytes` bytes; gone with its last descriptor and mapping, whatever happens.
pub(super) fn memory_file(bytes: usize) -> Outcome<OwnedFd> {
    // SAFETY: the name is a string constant.
    let fd = unsafe { libc::memfd_create(c"weft-window".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(failed("memfd_create"));
    }
    // SAFETY: just opened, owned by nobody else.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: a descriptor that is open.
    match unsafe { libc::ftruncate(file.as_raw_fd(), bytes.max(1) as libc::off_t) } {
        0 => Ok(file),
        _ => Err(failed("ftruncate")),
    }
}

impl Mapping {
    /// Maps `bytes` bytes of the file that process `pid` has open as `fd`.
    pub(super) fn of(pid: u64, fd: u64, bytes: usize) -> Outcome<Mapping> {
        let path = format!("/proc/{pid}/fd/{fd}");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).map_err(|error| {
            Error::new(
                ErrorClass::RMA_SHARED,
                format!("the memory of a shared window is {path} of another process, which cannot be opened: {error}"),
            )
        })?;
        let length = bytes.max(1);
        // SAFETY: a new mapping where the kernel wants it; nothing of this process is replaced.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(address) {
            Some(address) if address.as_ptr() != libc::MAP_FAILED => Ok(Mapping { address, bytes: length }),
            _ => Err(failed("mmap")),
        }
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.address.as_ptr().cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length by `of`, unmapped once.
        unsafe { libc::munmap(self.address.as_ptr(), self.bytes) };
    }
}
