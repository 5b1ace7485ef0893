//! The receiving side of a stage (`weft_engine::StageIn`): what has been taken out of it, and what is looked at next.

use super::runs::Arrived;
use super::terms::Partitions;
use std::ops::Range;
use weft_engine::{FirstLook, Interest, StageIn};

/// A stage and what was seen in it since the last start.
#[derive(Debug)]
pub(super) struct Staged {
    stage: StageIn,
    /// Bytes of a partition, as the sender cuts.
    bytes: u64,
    start: u32,
    /// All groups before this one were taken whole.
    group: u32,
    /// The sender's partitions that were taken, or came in another way: at most [`super::sides::FEW`].
    seen: u64,
    /// What the sender was told last.
    told: Interest,
}

/// The lowest `count` bits.
fn lowest(count: u32) -> u64 {
    u64::MAX.checked_shr(64 - count).unwrap_or(0)
}

impl Staged {
    /// Of partitions of `bytes` bytes. Nothing is awaited before [`Staged::begin`].
    pub(super) fn new(stage: StageIn, bytes: u64) -> Staged {
        let group = stage.shape().groups();
        Staged { stage, bytes, start: 0, group, seen: 0, told: Interest::Unknown }
    }

    /// Whether anything can be put down here.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.stage.shape().has_room()
    }

    /// Whether the sender was told that nobody asks for partitions.
    pub(super) fn is_awaited_whole(&self) -> bool {
        self.told == Interest::Whole
    }

    /// The program asks for a partition: all travel as soon as they are ready from now on.
    #[inline]
    pub(super) fn ask(&mut self) {
        if self.told != Interest::Each {
            self.told = Interest::Each;
            self.stage.tell(Interest::Each);
        }
    }

    /// What the sender must know.
    pub(super) fn word(&self) -> u64 {
        self.stage.word()
    }

    /// A start begins.
    pub(super) fn begin(&mut self, start: u32) {
        (self.start, self.group, self.seen) = (start, 0, 0);
    }

    /// The start is over: nothing of it is read any more.
    #[inline]
    pub(super) fn give_back(&mut self) {
        self.group = self.stage.shape().groups();
        // Without room the sender never looks.
        if self.has_room() {
            self.stage.give_back(self.start);
        }
        if self.told == Interest::Unknown {
            self.told = Interest::Whole;
            self.stage.tell(Interest::Whole);
        }
    }

    /// These bytes of the whole came as packets or messages.
    pub(super) fn came_otherwise(&mut self, range: &Range<u64>) {
        let (first, end) = (range.start / self.bytes, range.end.div_ceil(self.bytes));
        self.seen |= lowest((end - first) as u32) << first;
    }

    /// Takes what is new from the first group on that is not whole, or (`all`) from all behind it too, into the program's memory.
    /// Whether there was anything.
    #[inline(always)]
    pub(super) fn take(&mut self, all: bool, into: &Partitions, arrived: &mut Arrived) -> bool {
        // Before anything has come a look is at one word.
        if self.group == 0 && self.seen == 0 {
            match self.stage.first_look(self.start) {
                FirstLook::Nothing if !all => return false,
                FirstLook::Whole(data) => {
                    if !into.memory.fill_run(0, data) {
                        into.memory.recv_view(0, 0, data.len() as u64).unpack(0, data);
                    }
                    arrived.add_all();
                    self.group = self.stage.shape().groups();
                    return true;
                }
                _ => {}
            }
        }
        self.take_parts(all, into, arrived)
    }

    /// As [`Staged::take`], of a start that is not here whole.
    #[inline(never)]
    fn take_parts(&mut self, all: bool, into: &Partitions, arrived: &mut Arrived) -> bool {
        let (shape, mut some, mut at) = (*self.stage.shape(), false, self.group);
        while at < shape.groups() {
            let (first, count) = shape.partitions(at);
            // A start that has come whole since the look above is seen with the next.
            let mut fresh =
                u64::from(self.stage.here(self.start, at)) & lowest(count) & !(self.seen >> first);
            self.seen |= fresh << first;
            while fresh != 0 {
                let within = fresh.trailing_zeros();
                let run = (fresh >> within).trailing_ones();
                fresh &= !(lowest(run) << within);
                let (begin, length) = (u64::from(first + within) * self.bytes, u64::from(run) * self.bytes);
                let data = self.stage.payload(self.start, at, within, run);
                if !into.memory.fill_run(begin, data) {
                    into.memory.recv_view(0, begin, length).unpack(0, data);
                }
                arrived.add(begin..begin + length);
                some = true;
            }
            let whole = self.seen >> first & lowest(count) == lowest(count);
            if whole && at == self.group {
                self.group += 1;
            } else if !whole && !all {
                break;
            }
            at += 1;
        }
        some
    }
}
