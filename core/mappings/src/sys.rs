//! What is needed of `userfaultfd(2)` and `ioctl_userfaultfd(2)`; declarations by hand, since those of the kernel's header would
//! need it, and a parser of C, where Weft is built. `tests/header.rs` compares them with the header.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Bytes of a page: where they are more than that, ranges of 4 KiB are refused, and nothing is watched.
pub(super) const PAGE: u64 = 4096;

const UFFD_API: u64 = 0xaa;
const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_UNREGISTER: u64 = 0x8010_aa01;
const UFFDIO_WRITEPROTECT: u64 = 0xc018_aa06;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;
const UFFD_FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const UFFD_FEATURE_EVENT_REMAP: u64 = 1 << 2;
const UFFD_FEATURE_EVENT_REMOVE: u64 = 1 << 3;
const UFFD_FEATURE_EVENT_UNMAP: u64 = 1 << 6;
const UFFD_EVENT_REMAP: u64 = 0x14;
const UFFD_EVENT_REMOVE: u64 = 0x15;
const UFFD_EVENT_UNMAP: u64 = 0x16;

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_range`.
#[repr(C)]
struct Range {
    start: u64,
    length: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct WriteProtect {
    range: Range,
    mode: u64,
}

/// `struct uffd_msg`: the event in the lowest byte of the first word, then what belongs to it.
type Message = [u64; 4];

/// What the kernel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A range is mapped no more.
    Unmapped { start: u64, end: u64 },
    /// A range loses its pages and stays mapped.
    Emptied { start: u64, end: u64 },
    /// A range has been moved.
    Moved { from: u64, to: u64, length: u64 },
    /// Something that was not asked for.
    Other,
}

impl Word {
    fn of(message: Message) -> Word {
        match message[0] & 0xff {
            UFFD_EVENT_REMAP => Word::Moved { from: message[1], to: message[2], length: message[3] },
            UFFD_EVENT_REMOVE => Word::Emptied { start: message[1], end: message[2] },
            UFFD_EVENT_UNMAP => Word::Unmapped { start: message[1], end: message[2] },
            _ => Word::Other,
        }
    }
}

/// # Safety
/// `argument` is what the request wants.
unsafe fn control<T>(descriptor: BorrowedFd<'_>, request: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: an open descriptor, and by contract what the kernel reads and writes.
    match unsafe { libc::ioctl(descriptor.as_raw_fd(), request as _, std::ptr::from_mut(argument)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A descriptor that is told of unmapped, moved and emptied ranges. By the flag everybody may have one, and kernels know it from 5.11 on.
pub(super) fn open() -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
    // SAFETY: the call takes flags alone and makes a descriptor.
    let number = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number as _) };
    let features = UFFD_FEATURE_PAGEFAULT_FLAG_WP
        | UFFD_FEATURE_EVENT_REMAP
        | UFFD_FEATURE_EVENT_REMOVE
        | UFFD_FEATURE_EVENT_UNMAP;
    let mut api = Api { api: UFFD_API, features, ioctls: 0 };
    // SAFETY: the structure of this request.
    unsafe { control(std::os::fd::AsFd::as_fd(&descriptor), UFFDIO_API, &mut api) }?;
    Ok(descriptor)
}

/// Watches whole pages.
pub(super) fn register(descriptor: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<()> {
    let range = Range { start, length: end - start };
    let mut register = Register { range, mode: UFFDIO_REGISTER_MODE_WP, ioctls: 0 };
    // SAFETY: the structure of this request; whatever the range is, its bytes stay what they are.
    unsafe { control(descriptor, UFFDIO_REGISTER, &mut register) }
}

/// Watches them no more.
pub(super) fn unregister(descriptor: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<()> {
    // SAFETY: as in `register`.
    unsafe { control(descriptor, UFFDIO_UNREGISTER, &mut Range { start, length: end - start }) }
}

/// Whether no change of watched mappings is under way: otherwise the kernel does not lift protections.
pub(super) fn is_settled(descriptor: BorrowedFd<'_>, page: u64) -> bool {
    let range = Range { start: page, length: PAGE };
    let mut lift = WriteProtect { range, mode: 0 };
    // SAFETY: as in `register`; the page has no protection to lift.
    unsafe { control(descriptor, UFFDIO_WRITEPROTECT, &mut lift) }.is_ok()
}

/// Takes words that are there; how many.
pub(super) fn read(descriptor: BorrowedFd<'_>, words: &mut [Word]) -> usize {
    let mut messages = [Message::default(); 16];
    let most = words.len().min(messages.len()) * size_of::<Message>();
    // SAFETY: room for so many bytes; all bits are numbers.
    let bytes = unsafe { libc::read(descriptor.as_raw_fd(), messages.as_mut_ptr().cast(), most) };
    let count = usize::try_from(bytes).unwrap_or(0) / size_of::<Message>();
    for (word, message) in words.iter_mut().zip(&messages[..count]) {
        *word = Word::of(*message);
    }
    count
}

/// A descriptor that [`ring`] makes readable.
pub(super) fn event() -> io::Result<OwnedFd> {
    use nix::sys::eventfd::{EfdFlags, EventFd};
    Ok(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?.into())
}

pub(super) fn ring(event: BorrowedFd<'_>) {
    // A counter that is full has rung already.
    let _ = nix::unistd::write(event, &1_u64.to_ne_bytes());
}

/// Waits for words; false when `end` has rung.
pub(super) fn wait(descriptor: BorrowedFd<'_>, end: BorrowedFd<'_>) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut list = [PollFd::new(descriptor, PollFlags::POLLIN), PollFd::new(end, PollFlags::POLLIN)];
    loop {
        match poll(&mut list, PollTimeout::NONE) {
            Ok(_) => return !list[1].any().unwrap_or(false),
            Err(nix::errno::Errno::EINTR) => {}
            // No memory for the moment: nobody is to wait for ever.
            Err(_) => return true,
        }
    }
}

/// A page that nobody touches.
#[derive(Debug)]
pub(super) struct Page(NonNull<libc::c_void>);

// SAFETY: it is an address.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    pub(super) fn new() -> io::Result<Page> {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
        let length = const { std::num::NonZeroUsize::new(PAGE as usize).unwrap() };
        // SAFETY: a fresh mapping touches nothing that exists.
        let start = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)
        }?;
        Ok(Page(start))
    }

    pub(super) fn start(&self) -> u64 {
        self.0.as_ptr() as u64
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and unmapped once. The descriptor is closed before, so that nobody waits for a word of that.
        let _ = unsafe { nix::sys::mman::munmap(self.0, PAGE as usize) };
    }
}

/// Runs `work` with all signals blocked, which a thread that it starts inherits.
pub(super) fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets live here; the calls write them, and the last one reads what the one before has written.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let done = work();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    done
}
