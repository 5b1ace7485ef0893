//! Which partitions are ready, and which bytes have arrived: the bookkeeping of one side, without any communication.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use weft_engine::board::Board;

/// The partitions of a send that were marked ready since its start, and those of them that have not left.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Where threads mark that do not hold the process; all marks are there.
    board: Arc<Board>,
    /// The marks taken note of.
    marked: Box<[u64]>,
    held: Box<[u64]>,
    /// All that have not left lie in this range.
    span: Range<u32>,
    partitions: u32,
    count: u32,
}

impl Ready {
    /// None of `partitions` is ready.
    pub(crate) fn new(partitions: u32) -> Ready {
        let words: Box<[u64]> = vec![0; partitions.div_ceil(64) as usize].into();
        let board = Arc::new(Board::new(partitions));
        Ready { board, marked: words.clone(), held: words, span: 0..0, partitions, count: 0 }
    }

    /// Where other threads mark.
    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Whether other threads may mark.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        !is_ours(&self.board)
    }

    /// Begins again.
    #[inline(never)]
    pub(crate) fn clear(&mut self) {
        self.board.begin();
        self.marked.fill(0);
        self.held.fill(0);
        self.span = 0..0;
        self.count = 0;
    }

    /// Marks a partition. False when it was marked before.
    pub(crate) fn mark(&mut self, partition: u32) -> bool {
        // Boards are handed out by who holds the process, so nobody else has this one when it is ours alone.
        let alone = is_ours(&self.board);
        !self.board.set(partition, alone) && self.note(partition)
    }

    /// Marks a partition that leaves at once, when no other waits to leave and no other thread can mark. False: nothing was done.
    #[inline]
    pub(crate) fn mark_leaving(&mut self, partition: u32) -> bool {
        let (word, bit) = (partition as usize / 64, 1 << (partition % 64));
        let alone = self.span.is_empty() && is_ours(&self.board);
        if !alone || partition >= self.partitions || self.marked[word] & bit != 0 {
            return false;
        }
        self.board.set(partition, true);
        self.marked[word] |= bit;
        self.count += 1;
        true
    }

    /// Takes note of the marks that other threads have made.
    pub(crate) fn collect(&mut self) {
        if !self.board.has_news() {
            return;
        }
        let board = Arc::clone(&self.board);
        board.news(|word, marks| {
            let mut fresh = marks & !self.marked[word];
            while fresh != 0 {
                self.note(word as u32 * 64 + fresh.trailing_zeros());
                fresh &= fresh - 1;
            }
        });
    }

    /// False when it was noted before.
    fn note(&mut self, partition: u32) -> bool {
        let (word, bit) = (partition as usize / 64, 1 << (partition % 64));
        if self.marked[word] & bit != 0 {
            return false;
        }
        self.marked[word] |= bit;
        self.held[word] |= bit;
        self.count += 1;
        self.span = match self.span.is_empty() {
            true => partition..partition + 1,
            false => self.span.start.min(partition)..self.span.end.max(partition + 1),
        };
        true
    }

    /// Takes back a mark on a partition that has not left.
    pub(crate) fn unmark(&mut self, partition: u32) {
        self.board.unset(partition);
        let (word, bit) = (partition as usize / 64, 1 << (partition % 64));
        self.marked[word] &= !bit;
        self.held[word] &= !bit;
        self.count -= 1;
    }

    /// Whether all are ready.
    pub(crate) fn is_full(&self) -> bool {
        self.count == self.partitions
    }

    /// Takes the lowest run of partitions that have not left, as long as possible.
    pub(crate) fn take_run(&mut self) -> Option<Range<u32>> {
        let end = self.span.end;
        let Some(start) = self.next(self.span.start, end, true) else {
            self.span = 0..0;
            return None;
        };
        let stop = self.next(start, end, false).unwrap_or(end);
        for partition in start..stop {
            self.held[partition as usize / 64] &= !(1 << (partition % 64));
        }
        self.span = if stop < end { stop..end } else { 0..0 };
        Some(start..stop)
    }

    /// The first partition of `from..end` that has not left (`held`), or that has or is not ready.
    fn next(&self, from: u32, end: u32, held: bool) -> Option<u32> {
        let mut at = from;
        while at < end {
            let word = self.held[at as usize / 64];
            let rest = if held { word } else { !word } >> (at % 64);
            if rest != 0 {
                at += rest.trailing_zeros();
                return (at < end).then_some(at);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

/// What has arrived of a receive since its start: bytes per partition, so that the sender's partitions may be cut otherwise.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// What threads see that do not hold the process, once one has asked.
    board: Option<Arc<Board>>,
    /// Bytes still missing, for each partition; stale when none are of all, and while nothing has come since the start.
    missing: Box<[u64]>,
    nothing_yet: bool,
    /// Bytes of one partition.
    partition: u64,
    /// Bytes missing of all.
    left: u64,
}

impl Arrived {
    /// Nothing has arrived of `partitions` times `partition` bytes.
    pub(crate) fn new(partitions: u32, partition: u64) -> Arrived {
        let missing = vec![partition; partitions as usize].into();
        let left = u64::from(partitions) * partition;
        Arrived { board: None, missing, nothing_yet: false, partition, left }
    }

    /// Makes `missing` true when nothing has come since the start.
    #[inline]
    fn refresh(&mut self) {
        if std::mem::take(&mut self.nothing_yet) {
            self.missing.fill(self.partition);
        }
    }

    /// Where other threads look; open or closed as `open` says.
    pub(crate) fn board(&mut self, open: bool) -> &Arc<Board> {
        self.refresh();
        if self.left == 0 {
            self.missing.fill(0);
        }
        let (missing, partition) = (&self.missing, self.partition);
        self.board.get_or_insert_with(|| {
            let board = Board::new(missing.len() as u32);
            if open {
                board.begin();
            }
            // Partitions without bytes are here when their message is, which closes the board.
            let is_here = |&(_, &bytes): &(u32, &u64)| bytes == 0 && partition > 0;
            (0..).zip(missing).filter(is_here).for_each(|(index, _)| {
                board.set(index, true);
            });
            Arc::new(board)
        })
    }

    /// Everything is here, or nothing is awaited: whoever asks is told so without the lock.
    pub(crate) fn close(&self) {
        if let Some(board) = &self.board {
            board.close();
        }
    }

    /// Begins again.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        if let Some(board) = &self.board {
            board.begin();
        }
        self.nothing_yet = true;
        self.left = self.missing.len() as u64 * self.partition;
    }

    /// Notes that everything is here, of which nothing was before.
    #[inline(always)]
    pub(crate) fn add_all(&mut self) {
        if self.board.is_some() {
            return self.add(0..self.left);
        }
        self.left = 0;
        self.nothing_yet = false;
    }

    /// Notes that these bytes of the whole are here; each byte comes once per start.
    pub(crate) fn add(&mut self, bytes: Range<u64>) {
        if bytes.end - bytes.start == self.left && self.board.is_none() {
            self.left = 0;
            self.nothing_yet = false;
            return;
        }
        self.refresh();
        let mut at = bytes.start;
        while at < bytes.end {
            let index = at / self.partition;
            let end = bytes.end.min((index + 1) * self.partition);
            self.missing[index as usize] -= end - at;
            self.left -= end - at;
            if self.missing[index as usize] == 0
                && let Some(board) = &self.board
            {
                board.set(index as u32, false);
            }
            at = end;
        }
    }

    /// Whether a whole partition is here.
    pub(crate) fn has(&self, partition: u32) -> bool {
        self.left == 0 || (!self.nothing_yet && self.missing[partition as usize] == 0)
    }

    /// Whether other threads look.
    pub(crate) fn is_shared(&self) -> bool {
        self.board.is_some()
    }

    /// Bytes that are not here yet.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }
}

/// Whether no other thread can mark on a board. What one marked that has let go of it is seen from here on: who lets go
/// releases the count that is read here. (`Arc::get_mut` would say the same by a read-modify-write.)
#[inline]
fn is_ours(board: &Arc<Board>) -> bool {
    let ours = Arc::strong_count(board) == 1;
    fence(Ordering::Acquire);
    ours
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_ready_partition_leaves_once_in_the_longest_runs(
            rounds in proptest::collection::vec(proptest::collection::vec(0_u32..200, 0..60), 1..6)
        ) {
            let mut ready = Ready::new(200);
            let mut left = [false; 200];
            for round in rounds {
                let mut held = [false; 200];
                for &partition in &round {
                    let fresh = !left[partition as usize] && !held[partition as usize];
                    prop_assert_eq!(ready.mark(partition), fresh);
                    held[partition as usize] = !left[partition as usize];
                }
                if let Some(partition) = round.iter().copied().find(|&partition| held[partition as usize]) {
                    ready.unmark(partition);
                    held[partition as usize] = false;
                }
                while let Some(run) = ready.take_run() {
                    prop_assert!(run.start < run.end);
                    prop_assert!(run.end == 200 || !held[run.end as usize], "as long as possible");
                    for partition in run {
                        prop_assert!(std::mem::replace(&mut held[partition as usize], false));
                        left[partition as usize] = true;
                    }
                }
                prop_assert!(!held.contains(&true));
            }
            prop_assert_eq!(ready.is_full(), left.iter().all(|&left| left));
        }

        /// Bytes sent in any cut and order: a partition is here exactly when its last byte is.
        #[test]
        fn partitions_are_here_when_their_bytes_are(
            partitions in 1_u32..20, size in 1_u64..50, cut in 1_u64..60, seed in any::<u64>()
        ) {
            let mut arrived = Arrived::new(partitions, size);
            let total = u64::from(partitions) * size;
            let mut pieces: Vec<Range<u64>> =
                (0..total.div_ceil(cut)).map(|piece| piece * cut..total.min((piece + 1) * cut)).collect();
            pieces.sort_by_key(|piece| piece.start.wrapping_mul(seed | 1));
            let mut here = vec![false; total as usize];
            for piece in pieces {
                piece.clone().for_each(|byte| here[byte as usize] = true);
                arrived.add(piece);
                for partition in 0..partitions {
                    let whole = (u64::from(partition) * size..u64::from(partition + 1) * size)
                        .all(|byte| here[byte as usize]);
                    prop_assert_eq!(arrived.has(partition), whole);
                }
            }
            prop_assert_eq!(arrived.left(), 0);
            arrived.clear();
            prop_assert_eq!(arrived.left(), total);
            arrived.add_all();
            prop_assert!((0..partitions).all(|partition| arrived.has(partition)) && arrived.left() == 0);
        }
    }
}
