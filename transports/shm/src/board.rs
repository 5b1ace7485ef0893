//! What several threads see of one partitioned operation without any lock: marks of partitions that are ready, and of those
//! that are here.
//!
//! # Memory ordering
//! *Sends.* A thread marks a partition with an exchange (Release), then the summary bit of its word (Release), then it
//! announces ([`crate::handover`]). Who serves the announcement holds the lock, takes summary bits by exchange (Acquire) and
//! reads the words they name: it sees all marks that were announced, and through them what the threads wrote into their
//! partitions, which it then sends. Marks that it sees early are harmless: their summary bit finds nothing new. *Starts.* Marks
//! are cleared and `open` is set under the lock by the call that starts; the program lets its threads mark only after that call
//! (section 4.2.1), so it orders the two. *Receives.* Bits are stored by the lock's holder only (Release, after the data), and
//! read by `MPI_Parrived` (Acquire); `open` is closed with Release after the last of them.
//!
//! `tests/loom_board.rs` checks the type itself, together with [`crate::handover`].

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One bit a partition, shared with threads that do not hold the process.
#[derive(Debug)]
pub struct Board {
    partitions: u32,
    /// Whether the operation is active; of a receive also: and not complete.
    open: AtomicBool,
    bits: Box<[AtomicU64]>,
    /// One bit for each of `bits` that has news (sends only).
    summary: Box<[AtomicU64]>,
}

fn words(bits: u32) -> Box<[AtomicU64]> {
    (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
}

/// Whether a number occurs twice.
fn has_twins(partitions: &(impl Iterator<Item = i32> + Clone)) -> bool {
    let mut rest = partitions.clone();
    let Some(mut last) = rest.next() else { return false };
    // In rising order, as ranges and most lists are, nothing can occur twice.
    for next in rest {
        if next <= last {
            let mut all: Vec<i32> = partitions.clone().collect();
            all.sort_unstable();
            return all.windows(2).any(|pair| pair[0] == pair[1]);
        }
        last = next;
    }
    false
}

impl Board {
    /// A closed board without marks.
    pub fn new(partitions: u32) -> Board {
        let bits = words(partitions);
        Board { partitions, open: AtomicBool::new(false), summary: words(bits.len() as u32), bits }
    }

    /// Where a partition is, if it exists.
    #[inline]
    fn place(&self, partition: i32) -> Option<(usize, u64)> {
        let index = u32::try_from(partition).ok().filter(|&index| index < self.partitions)?;
        Some((index as usize / 64, 1 << (index % 64)))
    }

    /// Marks partitions of an active send: all of them, or none and false when one does not exist, is marked already or is named
    /// twice. The caller then announces it.
    ///
    /// Two threads that mark the same partition at the same time are an error of the program (section 4.2.1); then one of them
    /// gets false, what it marked before stays marked, and the caller must announce it all the same.
    pub fn mark(&self, partitions: impl Iterator<Item = i32> + Clone) -> bool {
        let free = |partition| {
            self.place(partition)
                .is_some_and(|(word, bit)| self.bits[word].load(Ordering::Relaxed) & bit == 0)
        };
        if !self.open.load(Ordering::Acquire) || !partitions.clone().all(free) || has_twins(&partitions) {
            return false;
        }
        let mut twice = false;
        for (word, bit) in partitions.filter_map(|partition| self.place(partition)) {
            // Taking marks back would not help: whoever serves may have sent for them already.
            twice |= self.bits[word].fetch_or(bit, Ordering::AcqRel) & bit != 0;
            self.summary[word / 64].fetch_or(1 << (word % 64), Ordering::AcqRel);
        }
        !twice
    }

    /// Whether a partition of a receive is here: `None` when it does not exist.
    pub fn arrived(&self, partition: i32) -> Option<bool> {
        let (word, bit) = self.place(partition)?;
        Some(!self.open.load(Ordering::Acquire) || self.bits[word].load(Ordering::Acquire) & bit != 0)
    }

    /// Sets a bit, and says whether it was set before. The caller holds the process; `alone`: and nobody else knows this board.
    #[inline]
    pub fn set(&self, index: u32, alone: bool) -> bool {
        let (word, bit) = (&self.bits[index as usize / 64], 1 << (index % 64));
        if !alone {
            return word.fetch_or(bit, Ordering::AcqRel) & bit != 0;
        }
        let before = word.load(Ordering::Relaxed);
        word.store(before | bit, Ordering::Relaxed);
        before & bit != 0
    }

    /// Takes a bit back. The caller holds the process.
    pub fn unset(&self, index: u32) {
        self.bits[index as usize / 64].fetch_and(!(1 << (index % 64)), Ordering::AcqRel);
    }

    /// Opens a board without marks, or closes one. The caller holds the process.
    pub fn begin(&self) {
        self.summary.iter().chain(&self.bits).for_each(|word| word.store(0, Ordering::Relaxed));
        self.open.store(true, Ordering::Release);
    }

    /// Closes it. The caller holds the process.
    pub fn close(&self) {
        self.open.store(false, Ordering::Release);
    }

    /// Whether marks may have come that [`Board::news`] has not told.
    pub fn has_news(&self) -> bool {
        self.summary.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Tells the words with news, each with all its marks. The caller holds the process.
    pub fn news(&self, mut tell: impl FnMut(usize, u64)) {
        for (index, summary) in self.summary.iter().enumerate() {
            if summary.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut fresh = summary.swap(0, Ordering::AcqRel);
            while fresh != 0 {
                let word = index * 64 + fresh.trailing_zeros() as usize;
                fresh &= fresh - 1;
                tell(word, self.bits[word].load(Ordering::Acquire));
            }
        }
    }
}
