//! Faults by seed: what a provider may do to a program at any time, done often. No clock and no threads: the same calls of one thread
//! meet the same faults.

use crate::world::{Entry, World};
use weft_ofi::sys::FI_EAGAIN;

/// How often, of 1000 times; nothing by itself.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Faults {
    /// What is posted is refused for now.
    pub again: u32,
    /// With it begins a storm: everything of this provider is refused for a while.
    pub storm: u32,
    /// Memory is not registered, or a region not bound or enabled.
    pub no_memory: u32,
    /// A completion is told later, and after others: no provider here announces an order of completions.
    pub held: u32,
    /// A look at a queue tells one completion only, or some of those that there are.
    pub few: u32,
    /// An operation leaves later.
    pub late: u32,
    /// An address is not taken, for now.
    pub no_place: u32,
    /// The connection breaks under a message or a request: it fails, though the other end lives.
    pub broken: u32,
    /// The connection breaks under a message that has left: it does not arrive, and nobody is told.
    pub vanished: u32,
    /// What is posted fails at once.
    pub denied: u32,
    /// An address is not taken out, for now.
    pub no_removal: u32,
    /// A group is not joined: at once, or it is told later.
    pub unjoined: u32,
}

/// Longest storm, in calls.
const STORM: usize = 60;
/// Looks that a completion is held for, and an operation, at most.
const HELD: usize = 12;
/// What a connection to somebody who is gone is found by.
const GONE: [i32; 4] = [libc::EIO, libc::EHOSTUNREACH, libc::ECONNRESET, libc::ENOTCONN];

impl World {
    pub(crate) fn happens(&mut self, rate: u32) -> bool {
        rate > 0 && self.below(1000) < rate as usize
    }

    /// Whether a call is refused for now.
    pub(crate) fn refuses(&mut self, profile: usize) -> Option<isize> {
        if self.storm > 0 {
            self.storm -= 1;
        } else if self.happens(self.faults.storm) {
            self.storm = self.below(STORM);
            self.note(profile, "storms");
        } else if !self.happens(self.faults.again) {
            return None;
        }
        self.note(profile, "refused");
        Some(-(FI_EAGAIN as isize))
    }

    /// Whether there is no memory for a region just now.
    pub(crate) fn lacks_memory(&mut self, profile: usize) -> bool {
        let lacks = self.happens(self.faults.no_memory);
        if lacks {
            self.note(profile, "unregistered");
        }
        lacks
    }

    /// Whether there is no place for an address just now.
    pub(crate) fn lacks_place(&mut self, profile: usize) -> bool {
        let lacks = self.happens(self.faults.no_place);
        if lacks {
            self.note(profile, "unplaced");
        }
        lacks
    }

    /// Whether the connection breaks, as it does at this rate.
    pub(crate) fn breaks(&mut self, profile: usize, rate: u32) -> bool {
        let breaks = self.happens(rate);
        if breaks {
            self.note(profile, "broken");
        }
        breaks
    }

    /// Looks until a completion or an operation is due, beyond the usual.
    pub(crate) fn delay(&mut self, rate: u32) -> u32 {
        if self.happens(rate) { 1 + self.below(HELD) as u32 } else { 0 }
    }

    /// The error number of what was sent to nobody.
    pub(crate) fn nobody(&mut self) -> i32 {
        if self.seed == 0 { libc::EHOSTUNREACH } else { GONE[self.below(GONE.len())] }
    }

    /// How many completions a look tells at most.
    pub(crate) fn portion(&mut self, room: usize) -> usize {
        if self.happens(self.faults.few) { 1 + self.below(3).min(room.saturating_sub(1)) } else { room }
    }

    /// Puts a completion among those that can be read: anywhere, where faults hold some.
    pub(crate) fn show(&mut self, queue: usize, entry: Entry) {
        let entries = self.queues[&queue].entries.len();
        let at = if self.faults.held > 0 { self.below(entries + 1) } else { entries };
        self.queues.get_mut(&queue).expect("an open queue").entries.insert(at, entry);
    }

    /// Completions that were held long enough can be read.
    pub(crate) fn show_held(&mut self, queue: usize) {
        let held = &mut self.queues.get_mut(&queue).expect("an open queue").held;
        held.iter_mut().for_each(|(looks, _)| *looks -= 1);
        let due: Vec<Entry> = held.extract_if(.., |(looks, _)| *looks == 0).map(|(_, entry)| entry).collect();
        due.into_iter().for_each(|entry| self.show(queue, entry));
    }
}
