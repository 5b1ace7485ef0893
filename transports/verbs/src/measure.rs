//! What it takes to register memory, measured when a device is opened: where regions do not follow mappings it is paid for each
//! transfer, and decides whether long messages are moved by the device at all.

use crate::context::Context;
use crate::memory::{deregister, register};
use crate::sys::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Bytes of a page.
const PAGE: usize = 4096;

/// Pages of the longer one of the two regions that are measured: below what a huge page needs, so that each counts.
const PAGES: usize = 64;

/// Regions of each length; the quickest counts, since everything else that the machine does only adds.
const TIMES: usize = 4;

/// Of registering a region and giving it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Nanoseconds, of one without pages.
    pub nanoseconds: u32,
    /// Picoseconds for each page of 4 KiB.
    pub picoseconds_per_page: u32,
}

impl Registration {
    /// The line through the times of one page and of [`PAGES`]. A clock that stood still between them makes pages free, not dearer.
    fn through(one: Duration, many: Duration) -> Registration {
        let clamp = |number: u128| u32::try_from(number).unwrap_or(u32::MAX);
        let a_page = many.saturating_sub(one).as_nanos() * 1000 / (PAGES as u128 - 1);
        Registration {
            nanoseconds: clamp(one.as_nanos().saturating_sub(a_page / 1000)),
            picoseconds_per_page: clamp(a_page),
        }
    }

    /// Seconds of a region, and of each byte.
    pub(crate) fn seconds(self) -> (f64, f64) {
        (f64::from(self.nanoseconds) * 1e-9, f64::from(self.picoseconds_per_page) * 1e-12 / PAGE as f64)
    }
}

/// Measures, in some [`TIMES`] registrations of 256 KiB and as many of a page: below a millisecond on cards. `None` where memory cannot be
/// registered now (then the limit of `ulimit -l` says so when it is needed).
pub(crate) fn registration(context: &Context) -> Option<Registration> {
    let length = const { NonZeroUsize::new(PAGES * PAGE).unwrap() };
    let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // Pages are there when they are pinned, as those of a message are.
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_POPULATE;
    // SAFETY: a fresh mapping touches nothing that exists.
    let start = unsafe { mmap_anonymous(None, length, rights, flags) }.ok()?;
    let time = |pages: usize| {
        let begun = Instant::now();
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
        let region = register(context, start.as_ptr() as u64, (pages * PAGE) as u64, access).ok()?;
        deregister(context, region);
        Some(begun.elapsed())
    };
    let quickest = |pages: usize| (0..TIMES).map(|_| time(pages)).min().flatten();
    let times = quickest(1).zip(quickest(PAGES));
    // SAFETY: it was mapped above; its regions are given back, and nobody else has seen it.
    let _ = unsafe { munmap(start, length.get()) };
    times.map(|(one, many)| Registration::through(one, many))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_both_times() {
        let measured = Registration::through(Duration::from_nanos(20_100), Duration::from_nanos(26_400));
        assert_eq!(measured, Registration { nanoseconds: 20_000, picoseconds_per_page: 100_000 });
        let (fixed, per_byte) = measured.seconds();
        assert!((fixed - 20e-6).abs() < 1e-12 && (per_byte - 0.1e-6 / 4096.0).abs() < 1e-18);
        let still = Registration::through(Duration::from_nanos(500), Duration::from_nanos(400));
        assert_eq!(still, Registration { nanoseconds: 500, picoseconds_per_page: 0 });
    }
}
