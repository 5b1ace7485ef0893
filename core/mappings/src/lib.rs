//! Tells when memory of the program is unmapped, moved or emptied, so that what a device was told of its pages is not used any
//! more; without functions in the place of the allocator's.
//!
//! A device without on-demand paging pins the pages that a range of addresses has when it is registered. The program may give
//! these pages back afterwards and have others at the same addresses. The kernel tells that to whoever watches the range by
//! `userfaultfd(2)`: `munmap`, `mmap` over it, `mremap`, `brk` and `madvise` (`MADV_DONTNEED`, `MADV_FREE`, `MADV_REMOVE`) do not return
//! to the program before the word of it has been read. A thread of ours reads it and marks the [`Spot`]s that it concerns.
//!
//! # Why nothing old is used
//!
//! Let a change of mappings have returned to the program before a lookup ([`Watch::is_good`]) of memory that it concerned.
//! The kernel made the word of it before it returned, and somebody has read the word. Words are read with the table locked,
//! and what they say is written into the table before it is unlocked; a lookup locks it, too. So the spot is marked, or was never
//! good. A change that has *not* returned yet may have taken effect already, so that another thread, which the kernel gave the same addresses,
//! asks for them: as long as such a change is under way the kernel refuses `UFFDIO_WRITEPROTECT` with `EAGAIN`, on whatever page. So
//! a lookup first lifts the protection, which it does not have, from a page of the watch's own. While that is refused it reads words itself; after
//! [`PATIENCE`] tries it calls the spot changed.
//!
//! # Why nobody waits for ever
//!
//! Who changes a mapping waits for a reader. Readers need the table's lock. Who holds that allocates, frees and maps nothing, so it waits for nobody
//! but the kernel, where changes that wait hold no lock. It may be held up by a signal whose handler changes a mapping, or in which the thread waits until
//! a collector of garbage that has stopped all threads has done so. So the thread waits for the lock for [`HELD_UP`] only; then it says that
//! anything may have changed ([`Shared::unknown`]), reads the words without the lock and forgets them. That was said before the change can return: whoever
//! looks up afterwards, with the lock and after it has asked the kernel, finds it and takes all spots for changed. The thread has no signals. Where the process forks, the child has neither the thread nor
//! watched memory: the kernel does not pass it on. What is not used any more is released while there is a reader, the rest before the last one ends.
//!
//! # What is watched
//!
//! Private memory without a file behind it ([`anonymous`]): what else is mapped may lose its pages by a truncation of the file, which no mapping of this process
//! is told. Ranges are watched in the mode for write protection (Linux 5.7; without privileges 5.11), in which nothing happens at faults, as
//! nothing is ever protected. Where another part of the program watches the same memory, or the kernel does not let an unprivileged process watch, or
//! a filter of system calls forbids it, there is no [`Watch`], or no spot in it, and the reason is told.

mod anonymous;
mod sys;
mod table;

use std::collections::TryReserveError;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use sys::{Page, Word};
use table::Table;

/// Spots that there are at most.
pub const MOST_SPOTS: usize = 4096;
/// How often a lookup asks whether changes of mappings are under way.
const PATIENCE: u32 = 64;
/// Words that are read in one go.
const WORDS: usize = 16;
/// How often, a millisecond apart, the thread tries to lock the table: longer than who is about to give it back lacks a processor.
const HELD_UP: u32 = 1000;

/// A range that is watched, until [`Watch::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Where it stands in the table.
    pub place: u32,
    /// Which of those that stood there.
    pub serial: u32,
}

/// Why nothing is watched.
#[derive(Clone, Debug)]
pub struct Why(String);

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the thread and the others share.
#[derive(Debug)]
struct Shared {
    descriptor: OwnedFd,
    /// Readable when the thread is to end.
    end: OwnedFd,
    /// A page that is watched and never touched. Unmapped after the descriptor is closed.
    probe: Page,
    table: Mutex<Table>,
    /// How often spots were marked.
    changes: AtomicU32,
    /// Words were read that nobody has looked at.
    unknown: AtomicBool,
}

/// Watches memory of this process; see the crate. There is one in a process, since the kernel takes one for a mapping.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The process's watch, while somebody uses it.
static WATCH: Mutex<Weak<Watch>> = Mutex::new(Weak::new());

/// The process's watch, with a thread of its own from now on if there was none.
///
/// # Errors
/// The kernel, or a filter of system calls, does not allow it; no memory, no descriptor.
pub fn watch() -> Result<Arc<Watch>, Why> {
    let mut current = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(watch) = current.upgrade() {
        return Ok(watch);
    }
    let watch = Arc::new(Watch::open()?);
    *current = Arc::downgrade(&watch);
    Ok(watch)
}

/// Whether there could be a watch, without a thread. `Err`: why not.
///
/// # Errors
/// As [`watch`].
pub fn can_watch() -> Result<(), Why> {
    sys::open().map(drop).map_err(refused)
}

fn refused(error: io::Error) -> Why {
    Why(match error.raw_os_error() {
        Some(libc::EPERM) => "userfaultfd is not allowed here (a filter of system calls, as containers have)".into(),
        Some(libc::ENOSYS) => "this kernel has no userfaultfd".into(),
        Some(libc::EINVAL) => "this kernel's userfaultfd lacks what is needed (Linux 5.11 or newer, x86-64, or arm64 from 6.11 on)".into(),
        _ => format!("userfaultfd: {error}"),
    })
}

impl Watch {
    fn open() -> Result<Watch, Why> {
        let failed = |what: &str, error: &dyn fmt::Display| Why(format!("{what}: {error}"));
        let descriptor = sys::open().map_err(refused)?;
        let end = sys::event().map_err(|error| failed("a descriptor", &error))?;
        let probe = Page::new().map_err(|error| failed("a page", &error))?;
        let no_room = |error: TryReserveError| failed("a table", &error);
        let table = Mutex::new(Table::with_room(MOST_SPOTS).map_err(no_room)?);
        let shared = Arc::new(Shared {
            descriptor,
            end,
            probe,
            table,
            changes: AtomicU32::new(0),
            unknown: AtomicBool::new(false),
        });
        let page = shared.probe.start();
        sys::register(shared.descriptor.as_fd(), page, page + sys::PAGE).map_err(refused)?;
        let reader = Arc::clone(&shared);
        let build = std::thread::Builder::new().name("weft-mappings".into()).stack_size(64 << 10);
        let thread = sys::without_signals(|| build.spawn(move || reader.read_all()))
            .map_err(|error| failed("a thread", &error))?;
        Ok(Watch { shared, thread: Some(thread) })
    }

    /// Begins to watch the pages of `length` bytes from `address` on. To be called before a device is told of them. `None`: they
    /// cannot be watched.
    pub fn begin(&self, address: u64, length: u64) -> Option<Spot> {
        let (start, end) = pages(address, length)?;
        // Reads a file, so before the table is locked.
        if !anonymous::is_anonymous(start, end) {
            return None;
        }
        let mut table = self.shared.lock();
        let spot = table.add(start, end)?;
        if sys::register(self.shared.descriptor.as_fd(), start, end).is_err() {
            self.shared.end(&mut table, spot);
            return None;
        }
        Some(spot)
    }

    /// Whether a spot's pages are those that were there when it was begun, and no change is under way.
    pub fn is_good(&self, spot: Spot) -> bool {
        let mut table = self.shared.lock();
        let settled = self.shared.settle(&mut table);
        self.shared.mark_unknown(&mut table);
        settled && table.is_good(spot)
    }

    /// Whether a change of a spot has been told. Asks the kernel nothing.
    pub fn is_marked(&self, spot: Spot) -> bool {
        !self.shared.lock().is_good(spot)
    }

    /// How often spots were marked so far: who has seen the same number before need not look through its spots. A hint, which may come late.
    #[inline]
    pub fn changes(&self) -> u32 {
        self.shared.changes.load(Ordering::Relaxed)
    }

    /// Ends a spot. Its pages cost nobody anything any more, but where other spots have them, too.
    pub fn end(&self, spot: Spot) {
        let mut table = self.shared.lock();
        self.shared.end(&mut table, spot);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // As long as somebody reads: closing the descriptor releases nothing while a child process has it, too.
        let mut table = self.shared.lock();
        while let Some((start, end)) = table.remove_any() {
            drop(sys::unregister(self.shared.descriptor.as_fd(), start, end));
        }
        drop(table);
        sys::ring(self.shared.end.as_fd());
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has ended the process.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does.
    fn read_all(&self) {
        while sys::wait(self.descriptor.as_fd(), self.end.as_fd()) {
            match self.lock_soon() {
                Some(mut table) => self.read(&mut table),
                None => {
                    // SeqCst, as the load: what is read below lets a change return.
                    self.unknown.store(true, Ordering::SeqCst);
                    sys::read(self.descriptor.as_fd(), &mut [Word::Other; WORDS]);
                }
            }
        }
    }

    /// The table, unless whoever has locked it is held up.
    fn lock_soon(&self) -> Option<MutexGuard<'_, Table>> {
        for _ in 0..HELD_UP {
            match self.table.try_lock() {
                Ok(table) => return Some(table),
                Err(TryLockError::Poisoned(table)) => return Some(table.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        None
    }

    /// Marks all spots where words were read that nobody has looked at.
    fn mark_unknown(&self, table: &mut Table) {
        if self.unknown.load(Ordering::SeqCst) && self.unknown.swap(false, Ordering::SeqCst) {
            // They may be mapped as before, and are released as a whole.
            self.mark(table, 0, u64::MAX, false);
        }
    }

    /// Reads the words that are there, and marks what they say.
    fn read(&self, table: &mut Table) {
        let mut words = [Word::Other; WORDS];
        loop {
            let count = sys::read(self.descriptor.as_fd(), &mut words);
            for word in &words[..count] {
                match *word {
                    Word::Unmapped { start, end } => self.mark(table, start, end, true),
                    Word::Emptied { start, end } => self.mark(table, start, end, false),
                    Word::Moved { from, to, length } => {
                        self.mark(table, from, from.saturating_add(length), true);
                        // It is watched where it lies now, which nobody has asked for.
                        self.release(table, to, to.saturating_add(length));
                    }
                    Word::Other => {}
                }
            }
            if count < WORDS {
                return;
            }
        }
    }

    /// A range has changed. What is left of the spots that had part of it is watched for other spots only.
    fn mark(&self, table: &mut Table, start: u64, end: u64, unmapped: bool) {
        if !table.mark(start, end) {
            return;
        }
        while let Some((first, last)) = table.let_go() {
            // Others may have what was unmapped by now.
            let (before, behind) = if unmapped { (last.min(start), first.max(end)) } else { (last, last) };
            self.release(table, first, before);
            self.release(table, behind, last);
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns when no change is under way whose word is not read; false when that does not come about.
    fn settle(&self, table: &mut Table) -> bool {
        for tried in 0..PATIENCE {
            if sys::is_settled(self.descriptor.as_fd(), self.probe.start()) {
                return true;
            }
            self.read(table);
            if tried > 4 {
                std::thread::yield_now();
            }
        }
        false
    }

    fn end(&self, table: &mut Table, spot: Spot) {
        if let Some((start, end)) = table.remove(spot) {
            self.release(table, start, end);
        }
    }

    /// Nobody watches a range any more, but the parts that spots have.
    fn release(&self, table: &Table, start: u64, end: u64) {
        // What is not there any more, or cannot be watched, need not be released.
        table.uncovered(start, end, |start, end| drop(sys::unregister(self.descriptor.as_fd(), start, end)));
    }
}

/// The whole pages around a range; `None` for one of no bytes, or beyond all addresses.
fn pages(address: u64, length: u64) -> Option<(u64, u64)> {
    let end = address.checked_add(length).filter(|&end| end > address)?;
    Some((address & !(sys::PAGE - 1), end.checked_next_multiple_of(sys::PAGE)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    use std::num::NonZeroUsize;

    /// As in a handler of a signal that comes while the thread looks something up.
    #[test]
    fn who_unmaps_with_the_table_locked_returns_and_is_believed() {
        let watch = match watch() {
            Ok(watch) => watch,
            Err(why) => return println!("skipped: {why}"),
        };
        let length = NonZeroUsize::new(4 * sys::PAGE as usize).unwrap();
        // SAFETY: a fresh mapping touches nothing that exists.
        let map = || unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)
        };
        let (one, other) = (map().unwrap(), map().unwrap());
        let begin = |start: std::ptr::NonNull<_>| watch.begin(start.as_ptr() as u64, length.get() as u64);
        let (gone, stays) = (begin(one).unwrap(), begin(other).unwrap());
        assert!(watch.is_good(gone) && watch.is_good(stays));
        let table = watch.shared.lock();
        // SAFETY: mapped above, and used no more.
        unsafe { munmap(one, length.get()) }.unwrap();
        drop(table);
        assert!(!watch.is_good(gone));
        assert!(!watch.is_good(stays), "what was told is not known, so it may be anything");
        watch.end(gone);
        watch.end(stays);
        let again = begin(other).unwrap();
        assert!(watch.is_good(again), "that was once");
        watch.end(again);
        // SAFETY: as above.
        unsafe { munmap(other, length.get()) }.unwrap();
    }
}
