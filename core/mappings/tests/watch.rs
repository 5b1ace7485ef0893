//! What the kernel of this machine tells, through the crate: every way in which memory changes is seen before the call that
//! changes it returns, and nothing else is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_mappings::{Watch, can_watch, watch};

const PAGE: usize = 4096;

/// The watch, for one test at a time: while others change mappings, some lookups find nothing settled. Or why there is none on this machine.
fn watched() -> Option<(MutexGuard<'static, ()>, Arc<Watch>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    match watch() {
        Ok(watch) => Some((alone, watch)),
        Err(why) => {
            println!("skipped: {why}");
            assert!(can_watch().is_err());
            None
        }
    }
}

/// Fresh memory with its pages there.
fn map(bytes: usize) -> *mut u8 {
    map_at(std::ptr::null_mut(), bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
}

fn map_at(at: *mut u8, bytes: usize, flags: i32) -> *mut u8 {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: memory of these tests alone: fresh, or mapped before by them at that address.
    let start = unsafe { libc::mmap(at.cast(), bytes, rights, flags | libc::MAP_POPULATE, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start.cast()
}

fn unmap(start: *mut u8, bytes: usize) {
    // SAFETY: mapped by these tests, and used no more.
    assert_eq!(unsafe { libc::munmap(start.cast(), bytes) }, 0);
}

/// Empties a page.
fn advise(page: *mut u8, how: i32) {
    // SAFETY: mapped by these tests, which expect nothing to be left there.
    assert_eq!(unsafe { libc::madvise(page.cast(), PAGE, how) }, 0);
}

#[test]
fn every_change_is_seen_and_nothing_else() {
    let Some((_alone, watch)) = watched() else { return };
    let bytes = 16 * PAGE;
    type Change = fn(*mut u8);
    let changes: [(&str, Change); 6] = [
        ("munmap", |at| unmap(at.wrapping_add(PAGE), PAGE)),
        ("mmap over it", |at| {
            map_at(at, PAGE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
        }),
        ("MADV_DONTNEED", |at| advise(at, libc::MADV_DONTNEED)),
        ("MADV_FREE", |at| advise(at, libc::MADV_FREE)),
        ("mremap", |at| {
            // SAFETY: as above; what moved stays where it is.
            let moved = unsafe { libc::mremap(at.cast(), 4 * PAGE, 64 * PAGE, libc::MREMAP_MAYMOVE) };
            assert_ne!(moved, libc::MAP_FAILED);
        }),
        ("a shorter mremap", |at| {
            // SAFETY: as above.
            assert_eq!(unsafe { libc::mremap(at.cast(), 4 * PAGE, 3 * PAGE, 0) }, at.cast());
        }),
    ];
    for (name, change) in changes {
        let start = map(bytes);
        let (before, after) = (map(PAGE), map(PAGE));
        let spot = watch.begin(start as u64 + 10, bytes as u64 - 20).expect("private memory");
        let part = watch.begin(start as u64, 10).expect("of watched memory");
        let other = watch.begin((start as usize + 14 * PAGE) as u64, 10).expect("of watched memory");
        assert!(watch.is_good(spot) && watch.is_good(part) && !watch.is_marked(spot));
        // SAFETY: ten pages from the start on are the test's.
        unsafe { start.add(8 * PAGE).write_bytes(7, 100) };
        // SAFETY: as above; rights are no pages.
        assert_eq!(unsafe { libc::mprotect(start.cast(), PAGE, libc::PROT_READ) }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::mprotect(start.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE) }, 0);
        unmap(before, PAGE);
        unmap(after, PAGE);
        assert!(watch.is_good(spot), "{name}: other memory is another matter");
        let seen = watch.changes();
        change(start);
        assert!(watch.is_marked(spot) && !watch.is_good(spot), "{name}");
        assert_ne!(watch.changes(), seen, "{name}");
        assert!(watch.is_good(other), "{name}: it has none of the pages that changed");
        watch.end(spot);
        assert!(!watch.is_good(spot) && watch.is_good(other));
        unmap(start.wrapping_add(14 * PAGE), PAGE);
        assert!(
            !watch.is_good(other),
            "{name}: who shared pages with another is watched when that has ended"
        );
        [part, other].into_iter().for_each(|spot| watch.end(spot));
    }
}

#[test]
fn memory_of_files_and_holes_is_not_watched() {
    let Some((_alone, watch)) = watched() else { return };
    let shared = map_at(std::ptr::null_mut(), 2 * PAGE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    assert_eq!(watch.begin(shared as u64, 100), None, "a file that may be truncated");
    let hole = map(3 * PAGE);
    unmap(hole.wrapping_add(PAGE), PAGE);
    assert_eq!(watch.begin(hole as u64, 3 * PAGE as u64), None);
    assert_eq!(watch.begin(hole as u64, 0), None, "no bytes");
    assert_eq!(watch.begin(u64::MAX - 10, 100), None, "beyond all addresses");
    unmap(shared, 2 * PAGE);
}

#[test]
fn what_the_allocator_gives_back_is_seen() {
    let Some((_alone, watch)) = watched() else { return };
    // As long as glibc maps by itself, and longer than what it keeps.
    let buffer = vec![1_u8; 64 << 20];
    let spot = watch.begin(buffer.as_ptr() as u64, buffer.len() as u64).expect("the allocator's memory");
    assert!(watch.is_good(spot));
    drop(buffer);
    assert!(!watch.is_good(spot));
    watch.end(spot);
}

#[test]
fn a_child_process_neither_waits_nor_tells() {
    let Some((_alone, watch)) = watched() else { return };
    let start = map(4 * PAGE);
    let spot = watch.begin(start as u64, 4 * PAGE as u64).expect("private memory");
    // SAFETY: the child makes system calls alone.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::munmap(start.cast(), 4 * PAGE);
            libc::_exit(0)
        }
    }
    let mut status = 0;
    // SAFETY: a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(watch.is_good(spot), "the child's memory is the child's");
    watch.end(spot);
    unmap(start, 4 * PAGE);
}

/// Threads map, watch and unmap; the kernel gives one the addresses of another while that is on its way out of `munmap`. Who has them
/// next never finds the spot good that was theirs before.
#[test]
fn nobody_finds_the_spot_of_memory_that_another_had_before() {
    let Some((_alone, watch)) = watched() else { return };
    const THREADS: usize = 4;
    let rounds = if cfg!(debug_assertions) { 300 } else { 3000 };
    // Of each address the last spot that anybody had of it.
    let spots = Mutex::new(std::collections::HashMap::new());
    let hits = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let start = map(4 * PAGE);
                        let mut known = spots.lock().unwrap();
                        if let Some(&old) = known.get(&(start as usize)) {
                            assert!(!watch.is_good(old), "the spot of who had these addresses before");
                            hits.fetch_add(1, Ordering::Relaxed);
                            watch.end(old);
                        }
                        let spot = watch.begin(start as u64, 4 * PAGE as u64).expect("room");
                        known.insert(start as usize, spot);
                        drop(known);
                        unmap(start, 4 * PAGE);
                        assert!(watch.is_marked(spot));
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    let hits = hits.load(Ordering::Relaxed);
    assert!(hits > rounds as u64 / 10, "addresses came again {hits} times");
}

#[test]
fn room_comes_back() {
    let Some((_alone, watch)) = watched() else { return };
    let start = map(PAGE);
    for _ in 0..3 * weft_mappings::MOST_SPOTS {
        let spot = watch.begin(start as u64, 1).expect("room");
        watch.end(spot);
    }
    unmap(start, PAGE);
}
