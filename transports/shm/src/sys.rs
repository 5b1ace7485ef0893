//! The few system calls of this crate, each as a safe function or with its contract.

mod futex;

pub(crate) use futex::{futex_wait, futex_wake};
use std::cell::Cell;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of a page.
pub(crate) fn page_bytes() -> u64 {
    // SAFETY: a query without pointers.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// An unnamed file in memory, inheritable, or where the kernel has none, an unlinked file in `/dev/shm`.
pub(crate) fn memory_file() -> Result<File> {
    // SAFETY: the name is a C string; the result is checked.
    let fd = unsafe { libc::memfd_create(c"weft-node".as_ptr(), 0) };
    if fd >= 0 {
        // SAFETY: a fresh descriptor that nobody else owns.
        return Ok(unsafe { File::from_raw_fd(fd) });
    }
    let path = format!("/dev/shm/weft-{}-{:x}", std::process::id(), nonce());
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    // SAFETY: sets a flag of our own descriptor.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
    if done < 0 { Err(Error::last_os_error()) } else { Ok(file) }
}

/// A number that no other process is likely to hold.
pub(crate) fn nonce() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish() | 1
}

/// Backs a range of the file with memory, so that touching it later cannot fail.
///
/// Where the file system knows no `fallocate`, one zero byte is written to every page: the range must not be in use
/// yet.
pub(crate) fn back(file: &File, offset: u64, len: u64) -> Result<()> {
    if allocate(file, offset, len)? { Ok(()) } else { back_by_writing(file, offset, len) }
}

/// Backs a range of the file, which may be in use, with memory; `false` where the file system cannot (remembered for
/// the process).
pub(crate) fn allocate(file: &File, offset: u64, len: u64) -> Result<bool> {
    static WITHOUT_FALLOCATE: AtomicBool = AtomicBool::new(false);
    while !WITHOUT_FALLOCATE.load(Ordering::Relaxed) {
        // SAFETY: plain numbers.
        let done = unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as libc::off_t, len as libc::off_t) };
        if done == 0 {
            return Ok(true);
        }
        let error = Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => WITHOUT_FALLOCATE.store(true, Ordering::Relaxed),
            _ => return Err(error),
        }
    }
    Ok(false)
}

fn back_by_writing(file: &File, offset: u64, len: u64) -> Result<()> {
    let page = page_bytes();
    let mut at = offset;
    while at < offset + len {
        file.write_all_at(&[0], at)?;
        at = (at + 1).next_multiple_of(page);
    }
    Ok(())
}

/// One NUMA node is preferred.
const MPOL_PREFERRED: libc::c_int = 1;

/// A shared, writable mapping of a part of a file; unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is an address range of the process, valid on every thread; what lies in it is shared between
// processes anyway and is guarded by the protocols of the users.
unsafe impl Send for Mapping {}
// SAFETY: as above; the type itself gives out nothing but the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file` from `offset` (both whole pages).
    pub(crate) fn new(file: &File, offset: u64, len: u64) -> Result<Mapping> {
        let Ok(len) = usize::try_from(len) else { return Err(ErrorKind::OutOfMemory.into()) };
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, len })
    }

    /// First byte.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Asks for memory of NUMA node `node` for pages not yet there; a wish that may fail silently.
    pub(crate) fn prefer_node(&self, node: u32) {
        let mut mask = [0_u64; NODE_WORDS];
        let Some(word) = mask.get_mut(node as usize / 64) else { return };
        *word = 1 << (node % 64);
        // SAFETY: the range is ours and mapped; the mask outlives the call and has the bits that are announced.
        unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base.as_ptr(),
                self.len,
                libc::c_long::from(MPOL_PREFERRED),
                mask.as_ptr(),
                mask.len() * 64 + 1,
                0,
            );
        }
    }
}

/// The longest mask of NUMA nodes that is asked for or said, in words.
const NODE_WORDS: usize = 16;

/// A thread's policy for memory that it is given: mode and NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPolicy {
    mode: libc::c_int,
    nodes: [u64; NODE_WORDS],
}

impl MemoryPolicy {
    /// Memory of NUMA node `node` where there is some; `None` for a number beyond all machines.
    pub(crate) fn near(node: u32) -> Option<MemoryPolicy> {
        let mut nodes = [0; NODE_WORDS];
        *nodes.get_mut(node as usize / 64)? = 1 << (node % 64);
        Some(MemoryPolicy { mode: MPOL_PREFERRED, nodes })
    }

    /// That of the calling thread; `None` where the kernel does not tell.
    pub(crate) fn of_thread() -> Option<MemoryPolicy> {
        let mut policy = MemoryPolicy { mode: 0, nodes: [0; NODE_WORDS] };
        // SAFETY: the mode and a mask of the announced bits are ours to be written; no address is asked about.
        let done = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut policy.mode,
                policy.nodes.as_mut_ptr(),
                NODE_WORDS * 64,
                std::ptr::null::<libc::c_void>(),
                0,
            )
        };
        (done == 0).then_some(policy)
    }

    /// Gives it to the calling thread; a wish that may fail silently.
    pub(crate) fn set(&self) {
        let empty = self.nodes.iter().all(|&word| word == 0);
        let mask = if empty { std::ptr::null() } else { self.nodes.as_ptr() };
        let bits = if empty { 0 } else { NODE_WORDS * 64 + 1 };
        // SAFETY: the mask outlives the call and has the bits that are announced (the kernel counts one more than it reads).
        unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::c_long::from(self.mode), mask, bits) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and is unmapped once; users keep the mapping alive while they hold
        // pointers into it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Sleeps until one of at most 64 descriptors is readable (or broken), at most `limit`; the readable ones, one bit each. May
/// return early.
pub(crate) fn poll(descriptors: &[BorrowedFd<'_>], limit: Duration) -> u64 {
    let mut list: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|descriptor| libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let limit = libc::timespec {
        tv_sec: limit.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: limit.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the list and the time outlive the call; no signal mask is given.
    let found = unsafe {
        libc::ppoll(list.as_mut_ptr(), list.len() as libc::nfds_t, &raw const limit, std::ptr::null())
    };
    if found <= 0 {
        return 0;
    }
    (0..).zip(&list).filter(|(_, entry)| entry.revents != 0).fold(0, |bits, (index, _)| bits | 1_u64 << index)
}

/// Makes this process subject to [`membarrier`]; false where the kernel cannot.
pub(crate) fn membarrier_register() -> bool {
    membarrier_command(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED)
}

/// A full barrier on every running thread of every registered process; false when the kernel refused.
pub(crate) fn membarrier() -> bool {
    membarrier_command(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED)
}

/// Makes this process subject to [`membarrier_private`]; false where the kernel cannot.
pub(crate) fn membarrier_register_private() -> bool {
    membarrier_command(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

/// A full barrier on every running thread of this process.
pub(crate) fn membarrier_private() {
    let done = membarrier_command(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    assert!(done, "the kernel refuses a barrier that it registered this process for");
}

fn membarrier_command(command: libc::c_int) -> bool {
    // SAFETY: plain numbers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Lets every process of this user read our memory, where the Yama module would deny it to siblings.
pub(crate) fn allow_readers() {
    // SAFETY: plain numbers; kernels without Yama answer EINVAL, which is fine.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// NUMA node of the processor we run on.
pub(crate) fn current_node() -> u32 {
    let (mut cpu, mut node) = (0_u32, 0_u32);
    // SAFETY: both words outlive the call; the third argument is unused.
    unsafe {
        libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, std::ptr::null_mut::<libc::c_void>())
    };
    node
}

/// The processor we run on.
pub(crate) fn processor() -> u32 {
    // SAFETY: a query without pointers.
    unsafe { libc::sched_getcpu() }.max(0) as u32
}

/// Whether the machine has more than one NUMA node.
pub(crate) fn several_nodes() -> bool {
    std::fs::read_to_string("/sys/devices/system/node/online").is_ok_and(|online| online.trim() != "0")
}

/// Copies from the memory of process `pid` at `address` into `into`; the bytes copied.
pub(crate) fn read_process(pid: u32, address: u64, into: &mut [u8]) -> Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` describes `into`, which is ours for the call; the kernel checks the remote range.
    let copied =
        unsafe { libc::process_vm_readv(pid as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0) };
    if copied < 0 { Err(Error::last_os_error()) } else { Ok(copied as usize) }
}

/// Copies bytes into the memory of process `pid`; how many.
pub(crate) fn write_process(pid: u32, address: u64, bytes: &[u8]) -> Result<usize> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `local` describes `bytes`, which are only read; the kernel checks the remote range, which the other process has named for this.
    let copied =
        unsafe { libc::process_vm_writev(pid as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0) };
    if copied < 0 { Err(Error::last_os_error()) } else { Ok(copied as usize) }
}

/// Entries that the kernel takes in a list of runs (IOV_MAX).
pub(crate) const MOST_RUNS: usize = 1024;

/// Copies runs of the memory of process `pid` (address, bytes) onto ours, which have as many bytes; the bytes copied. Of longer
/// lists the first [`MOST_RUNS`] are used.
pub(crate) fn read_process_runs(pid: u32, remote: &[(u64, usize)], local: &[&[Cell<u8>]]) -> Result<usize> {
    let list = |address: *mut libc::c_void, bytes: usize| libc::iovec { iov_base: address, iov_len: bytes };
    let remote: Vec<libc::iovec> =
        remote.iter().take(MOST_RUNS).map(|run| list(run.0 as *mut libc::c_void, run.1)).collect();
    let local: Vec<libc::iovec> =
        local.iter().take(MOST_RUNS).map(|run| list(run.as_ptr().cast_mut().cast(), run.len())).collect();
    // SAFETY: `local` describes cells, which may be written through a shared reference, by this thread, for as long as they are
    // borrowed; the kernel checks the remote ranges.
    let copied = unsafe {
        libc::process_vm_readv(
            pid as libc::pid_t,
            local.as_ptr(),
            local.len() as libc::c_ulong,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    if copied < 0 { Err(Error::last_os_error()) } else { Ok(copied as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_backed_where_fallocate_is_not_known() {
        use std::os::unix::fs::MetadataExt;
        let file = memory_file().expect("a memory file");
        let page = page_bytes();
        file.set_len(100 * page).expect("sized");
        back_by_writing(&file, 10 * page + 64, 5 * page).expect("written");
        assert_eq!(file.metadata().expect("known").blocks() * 512, 6 * page);
        back(&file, 20 * page, 10 * page).expect("backed");
        assert_eq!(file.metadata().expect("known").blocks() * 512, 16 * page);
        assert_eq!(file.metadata().expect("known").len(), 100 * page);
    }
}
