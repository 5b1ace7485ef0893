//! Receives that wait for their message.
//!
//! One list in posting order, walked for the first few entries; beyond them an index by masked key, where an
//! arriving message looks at the four patterns that may accept it and the oldest wins. Entries enter the index
//! when a search first goes past the short walk, so a window of receives that match in order never pays for it.

use crate::EntryId;
use crate::chains::{Chains, Ends, Link, NONE};
use crate::pattern::{Key, MASKS, Pattern};
use weft_types::ContextId;

/// Entries looked at in order before the index is asked.
const WALK: usize = 8;

#[derive(Debug)]
struct Entry {
    name: u64,
    mask: u64,
    sequence: u64,
    context: ContextId,
    class: u8,
    order: Link,
    /// Neighbours of the same masked key; `chain` is its number, [`NONE`] when not yet indexed.
    link: Link,
    chain: u32,
    value: u32,
}

/// Posted receives, each with a value (a request's slot).
#[derive(Debug)]
pub struct Posted {
    entries: Vec<Entry>,
    /// Unused entries, linked through `order.next`.
    free: u32,
    order: Ends,
    len: usize,
    sequence: u64,
    /// First entry in order that is not in the index; [`NONE`] when all are.
    pending: u32,
    index: Chains,
    /// Indexed entries of each class.
    indexed: [u32; 4],
}

impl Default for Posted {
    fn default() -> Posted {
        Posted {
            entries: Vec::new(),
            free: NONE,
            order: Ends::EMPTY,
            len: 0,
            sequence: 0,
            pending: NONE,
            index: Chains::default(),
            indexed: [0; 4],
        }
    }
}

impl Posted {
    /// Number of receives that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a receive, youngest of all.
    pub fn post(&mut self, pattern: Pattern, value: u32) -> EntryId {
        let class = pattern.class & 3;
        self.sequence += 1;
        let entry = Entry {
            name: pattern.name,
            mask: MASKS[usize::from(class)],
            sequence: self.sequence,
            context: pattern.context,
            class,
            order: Link::LOOSE,
            link: Link::LOOSE,
            chain: NONE,
            value,
        };
        let id = self.free;
        let id = if id == NONE {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            let place = &mut self.entries[id as usize];
            self.free = place.order.next;
            *place = entry;
            id
        };
        self.order.append(&mut self.entries, id, |entry| &mut entry.order);
        if self.pending == NONE {
            self.pending = id;
        }
        self.len += 1;
        EntryId(id)
    }

    /// Takes the oldest receive that accepts a message of `key`; gives its value.
    #[inline]
    pub fn take(&mut self, key: Key) -> Option<u32> {
        let id = self.search(key);
        (id != NONE).then(|| self.remove(EntryId(id)))
    }

    /// Whether a receive waits that accepts a message of `key`.
    #[inline]
    pub fn accepts(&mut self, key: Key) -> bool {
        self.search(key) != NONE
    }

    /// Removes an entry that was neither taken nor removed before; gives its value.
    #[inline]
    pub fn remove(&mut self, entry: EntryId) -> u32 {
        let id = entry.0;
        if self.pending == id {
            self.pending = self.entries[id as usize].order.next;
        }
        self.order.unlink(&mut self.entries, id, |entry| &mut entry.order);
        let Entry { chain, value, .. } = self.entries[id as usize];
        if chain != NONE {
            self.leave_index(id);
        }
        self.entries[id as usize].order.next = self.free;
        self.free = id;
        self.len -= 1;
        value
    }

    /// What an entry that was neither taken nor removed accepts.
    pub fn pattern(&self, entry: EntryId) -> Pattern {
        let Entry { name, context, class, .. } = self.entries[entry.0 as usize];
        Pattern { context, name, class }
    }

    /// Values of all receives, oldest first.
    pub fn values(&self) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.order.head;
        std::iter::from_fn(move || {
            (at != NONE).then(|| {
                let entry = &self.entries[at as usize];
                at = entry.order.next;
                entry.value
            })
        })
    }

    #[inline]
    fn search(&mut self, key: Key) -> u32 {
        let mut at = self.order.head;
        for _ in 0..WALK {
            if at == NONE {
                return NONE;
            }
            let entry = &self.entries[at as usize];
            if key.name & entry.mask == entry.name && key.context == entry.context {
                return at;
            }
            at = entry.order.next;
        }
        if at == NONE { NONE } else { self.search_index(key) }
    }

    #[cold]
    #[inline(never)]
    fn leave_index(&mut self, id: u32) {
        let Entry { chain, class, .. } = self.entries[id as usize];
        self.index.unlink(&mut self.entries, id, chain, |entry| &mut entry.link);
        self.indexed[usize::from(class)] -= 1;
    }

    #[cold]
    #[inline(never)]
    fn search_index(&mut self, key: Key) -> u32 {
        while self.pending != NONE {
            let id = self.pending;
            let Entry { name, context, class, order, .. } = self.entries[id as usize];
            let class = usize::from(class);
            let chain = self
                .index
                .append(&mut self.entries, id, Key { context, name }, class, |entry| &mut entry.link);
            self.entries[id as usize].chain = chain;
            self.indexed[class] += 1;
            self.pending = order.next;
        }
        let mut best = NONE;
        let mut best_sequence = u64::MAX;
        for class in 0..4 {
            if self.indexed[class] == 0 {
                continue;
            }
            let chain = self.index.find(key, class);
            if chain != NONE {
                let id = self.index.oldest(chain);
                let sequence = self.entries[id as usize].sequence;
                if sequence < best_sequence {
                    (best, best_sequence) = (id, sequence);
                }
            }
        }
        best
    }
}
