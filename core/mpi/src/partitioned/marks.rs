//! The short course of marks: what `MPI_Pready` needs to know of a send whose partitions are kept together ([`super::gathered`]).
//!
//! A mark of such a send is one bit, and whether that is allowed was found out when the send was started: which request it is, that it
//! is active, and which partitions it has. So the bits that are awaited lie where both the send and [`Courses`] reach them. A bit is
//! set only while the mark of that partition is right and would do nothing but be kept; whatever is wrong (an inactive or a freed
//! request, a partition that does not exist or is marked already) finds no bit, and neither does the last mark, which sends. All of
//! these take the way through the table of requests.
//!
//! Only who holds the process comes here, so that the loads and stores are relaxed and no read-modify-write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_types::Handle;

/// The partitions of one send that are awaited while the others are kept, one bit each.
#[derive(Debug, Default)]
pub(super) struct Awaited(AtomicU64);

impl Awaited {
    #[inline(always)]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn set(&self, partitions: u64) {
        self.0.store(partitions, Ordering::Relaxed);
    }

    /// A partition is ready and kept. False: nothing was done, because it is the last one, or such as are not kept.
    #[inline(always)]
    pub(super) fn keeps(&self, partition: u32) -> bool {
        let before = self.get();
        if partition >= u64::BITS {
            return false;
        }
        let rest = before ^ 1 << partition;
        // A bit that was not set makes the rest more than before; the last one leaves none, of which one less is the most there is.
        if rest.wrapping_sub(1) >= before {
            return false;
        }
        self.set(rest);
        true
    }
}

/// Sends whose marks are found without the table of requests: a power of two. Handles that differ by a multiple of it share a
/// place, of which the send has it that began to be marked last.
const PLACES: usize = 16;

/// One place.
#[derive(Clone, Debug, Default)]
struct Course {
    /// The number of the request; 0: none.
    request: usize,
    awaited: Arc<Awaited>,
}

impl Course {
    fn forget(&mut self, request: Handle) {
        if self.request == request.0 as usize {
            *self = Course::default();
        }
    }
}

/// Where marks are found by the number of their request.
#[derive(Debug, Default)]
pub(crate) struct Courses {
    /// The send that began to be marked last, for those that are marked one after the other.
    last: Course,
    /// All that are known, for those that are marked by turns.
    places: [Course; PLACES],
}

impl Courses {
    /// A partition of the request `request`, which may be any number, is ready and kept. False: nothing was done.
    #[inline(always)]
    pub(crate) fn keeps(&self, request: usize, partition: u32) -> bool {
        if self.last.request == request {
            return self.last.awaited.keeps(partition);
        }
        let course = &self.places[request % PLACES];
        course.request == request && course.awaited.keeps(partition)
    }

    /// From now on these are found, until another one takes the place.
    #[inline(never)]
    pub(super) fn learn(&mut self, request: Handle, awaited: &Arc<Awaited>) {
        let request = request.0 as usize;
        self.last = Course { request, awaited: Arc::clone(awaited) };
        self.places[request % PLACES] = self.last.clone();
    }

    /// That request is no more.
    pub(super) fn forget(&mut self, request: Handle) {
        self.last.forget(request);
        self.places[request.0 as usize % PLACES].forget(request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_by_their_request_until_it_is_gone_or_displaced() {
        let (mut courses, awaited) = (Courses::default(), Arc::new(Awaited::default()));
        let first = Handle(0x7000_0005);
        let (second, third) = (Handle(first.0 + PLACES as u32), Handle(first.0 + 1));
        let keeps = |courses: &Courses, of: Handle, partition| courses.keeps(of.0 as usize, partition);
        assert!(!keeps(&courses, Handle(0), 0), "an empty place is nobody's");
        awaited.set(0b1111);
        courses.learn(first, &awaited);
        let other = Arc::new(Awaited::default());
        other.set(0b11);
        // Marked one after the other, and by turns.
        for (bit, others) in [(1, false), (2, true)] {
            courses.learn(if others { third } else { first }, if others { &other } else { &awaited });
            assert!(keeps(&courses, first, bit));
            for wrong in [bit, 4, 63, 64, u32::MAX] {
                assert!(!keeps(&courses, first, wrong), "partition {wrong}");
            }
            assert!(!courses.keeps(first.0 as usize | 1 << 40, 0), "a number of more bits is another one");
            assert!(!keeps(&courses, second, 0));
        }
        assert!(keeps(&courses, first, 0) && !keeps(&courses, first, 3), "the last one is not only kept");
        assert_eq!((awaited.get(), other.get()), (0b1000, 0b11));
        awaited.set(0b111);
        courses.learn(second, &awaited);
        courses.forget(first);
        courses.forget(third);
        assert!(!keeps(&courses, first, 0) && !keeps(&courses, third, 0), "displaced, and gone");
        assert!(keeps(&courses, second, 0));
        courses.forget(second);
        assert!(!keeps(&courses, second, 1));
    }
}
