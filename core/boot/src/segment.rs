//! The node's shared memory: where its pages come from, and how its size is set.

use std::fs::File;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use weft_types::{Error, ErrorClass, Result};

/// A new memfd of `bytes` bytes, closed at exec. It lives as long as somebody holds it open or mapped, so nothing can be
/// left behind, and it does not count against the size of /dev/shm.
pub(crate) fn create_memfd(bytes: u64) -> Result<OwnedFd> {
    let memory = memfd_create("weft-node", MFdFlags::MFD_CLOEXEC)
        .map_err(|errno| refused("memfd_create", bytes, errno))?;
    set_length(&File::from(memory.try_clone().map_err(|error| refused_io("dup", bytes, &error))?), bytes)?;
    Ok(memory)
}

/// Makes `segment` exactly `bytes` long. Every rank of the node calls it with the same number; all calls but the first
/// change nothing.
pub(crate) fn set_length(segment: &File, bytes: u64) -> Result<()> {
    let now = segment.metadata().map_err(|error| refused_io("fstat", bytes, &error))?.len();
    if now == bytes {
        return Ok(());
    }
    if now != 0 {
        return Err(Error::internal(format_args!(
            "ranks of this node disagree on the size of the shared segment ({now} and {bytes} bytes)"
        )));
    }
    segment.set_len(bytes).map_err(|error| refused_io("ftruncate", bytes, &error))
}

fn refused_io(call: &str, bytes: u64, error: &std::io::Error) -> Error {
    refused(call, bytes, Errno::from_raw(error.raw_os_error().unwrap_or(0)))
}

pub(crate) fn refused(call: &str, bytes: u64, errno: Errno) -> Error {
    let remedy = match errno {
        Errno::EMFILE | Errno::ENFILE => "raise the limit of open files (ulimit -n)",
        Errno::EFBIG => "raise the file size limit (ulimit -f unlimited)",
        Errno::ENOMEM | Errno::ENOSPC => "free memory or raise the memory limit of the container",
        Errno::ENOSYS | Errno::EPERM => "allow memfd_create in the container's seccomp profile",
        _ => "see the system's log",
    };
    Error::new(
        ErrorClass::NO_MEM,
        format!(
            "no shared memory of {bytes} bytes for the ranks of this node: {call} failed ({errno}); {remedy}"
        ),
    )
}
