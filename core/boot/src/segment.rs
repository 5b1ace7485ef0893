//! The node's shared memory: where its pages come from, and how its size is set.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statvfs::fstatvfs;
use weft_types::{Error, ErrorClass, Result};

/// New shared memory of `bytes` bytes, closed at exec: a memfd or, where the kernel refuses that, a file without a name in
/// /dev/shm or /tmp. It lives as long as somebody holds it open or mapped, so nothing can be left behind; a memfd does not
/// count against the size of /dev/shm.
pub fn create_memory(bytes: u64) -> Result<OwnedFd> {
    let file = match memfd_create("weft-node", MFdFlags::MFD_CLOEXEC) {
        Ok(memory) => File::from(memory),
        Err(errno) => nameless_file().ok_or_else(|| refused("memfd_create", bytes, &errno.into()))?,
    };
    set_length(&file, bytes)?;
    Ok(file.into())
}

fn nameless_file() -> Option<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
    ["/dev/shm", "/tmp"].iter().find_map(|folder| options.open(folder).ok())
}

/// Makes `segment` exactly `bytes` long. Every rank of the node calls it with the same number; all calls but the first
/// change nothing.
pub(crate) fn set_length(segment: &File, bytes: u64) -> Result<()> {
    let facts = segment.metadata().map_err(|error| refused("fstat", bytes, &error))?;
    let now = facts.len();
    if now == bytes {
        return Ok(());
    }
    if now != 0 {
        return Err(Error::internal(format_args!(
            "ranks of this node disagree on the size of the shared segment ({now} and {bytes} bytes)"
        )));
    }
    reserve(segment, bytes)?;
    segment.set_len(bytes).map_err(|error| refused("ftruncate", bytes, &error))
}

/// A file on a small /dev/shm would grow without complaint and kill whoever touches it later (SIGBUS); a memfd is bounded by
/// memory only and its "file system" has no size.
fn reserve(segment: &File, bytes: u64) -> Result<()> {
    let Ok(space) = fstatvfs(segment) else { return Ok(()) };
    // The kernel's internal tmpfs of memfds reports no blocks at all.
    let limited = space.blocks() > 0;
    let free = space.blocks_available().saturating_mul(space.fragment_size());
    match limited && free < bytes {
        true => Err(refused("reserving it", bytes, &Errno::ENOSPC.into())),
        false => Ok(()),
    }
}

/// Takes the place of rank number `index` of the node for as long as `segment`'s description lives. `false` when another
/// process holds it: then this process merely inherited a rank's environment.
///
/// The lock is one of the open file description (`F_OFD_SETLK`), so it goes with the last descriptor or mapping of it and can
/// never be left behind.
pub(crate) fn claim_place(segment: &File, index: u32) -> io::Result<bool> {
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::from(index),
        l_len: 1,
        l_pid: 0,
    };
    match fcntl(segment, FcntlArg::F_OFD_SETLK(&lock)) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

pub(crate) fn refused(call: &str, bytes: u64, error: &io::Error) -> Error {
    let remedy = match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        Errno::EMFILE | Errno::ENFILE => "raise the limit of open files (ulimit -n)",
        Errno::EFBIG => "raise the file size limit (ulimit -f unlimited)",
        Errno::ENOSPC => "make room in /dev/shm and /tmp, or enlarge /dev/shm (docker run --shm-size=1g)",
        Errno::ENOMEM => "free memory or raise the memory limit of the container",
        Errno::ENOSYS | Errno::EPERM => "allow memfd_create in the container's seccomp profile",
        _ => "see the system's log",
    };
    Error::new(
        ErrorClass::NO_MEM,
        format!(
            "no shared memory of {bytes} bytes for the ranks of this node: {call} failed ({error}); {remedy}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_the_same_length_again_changes_nothing() {
        let file = File::from(create_memory(8192).expect("memfd"));
        assert!(set_length(&file, 8192).is_ok());
        assert_eq!(set_length(&file, 4096).expect_err("another length").class(), ErrorClass::INTERN);
    }

    #[test]
    fn a_place_is_claimed_by_one_description_only() {
        let first = File::from(create_memory(4096).expect("memfd"));
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&first));
        let second = File::options().read(true).write(true).open(path).expect("reopened");
        assert!(claim_place(&first, 3).expect("lock"));
        assert!(!claim_place(&second, 3).expect("lock"));
        assert!(claim_place(&second, 4).expect("lock"));
        drop(first);
        assert!(claim_place(&second, 3).expect("lock"));
    }
}
