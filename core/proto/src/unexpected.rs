//! Messages that arrived before their receive.
//!
//! One list in order of arrival, and an index for each class of pattern (exact, any tag, any source, any both), of which each holds the older
//! part of the list, up to `pending` of its class. A search looks in the index of its class first, then walks the first few of the rest;
//! one that goes past that walk takes all of the rest into the index. All classes therefore find the oldest acceptable message in
//! constant time; neither a program that never lets messages pile up pays for an index, nor a message that is received soon, however
//! many older ones nobody receives.

use crate::EntryId;
use crate::chains::{Chains, Ends, Link, NONE};
use crate::pattern::{Key, Pattern, class_of};

/// Entries that are not in the index and are looked at in order; beyond, all enter it.
const WALK: usize = 8;
/// Entries whose memory is kept for the next time; after a flood it goes back.
const KEEP: usize = 1024;

#[derive(Debug)]
struct Entry {
    key: Key,
    order: Link,
    /// Per class: neighbours of the same masked key, and the chain's number, [`NONE`] when not indexed.
    links: [Link; 4],
    chains: [u32; 4],
    value: u32,
}

/// Unexpected messages, each with a value (a message's slot).
#[derive(Debug)]
pub struct Unexpected {
    entries: Vec<Entry>,
    /// Unused entries, linked through `order.next`.
    free: u32,
    order: Ends,
    len: usize,
    index: Chains,
    /// Per class: first entry in order that is not in that class's index; [`NONE`] when all are.
    pending: [u32; 4],
}

impl Default for Unexpected {
    fn default() -> Unexpected {
        Unexpected {
            entries: Vec::new(),
            free: NONE,
            order: Ends::EMPTY,
            len: 0,
            index: Chains::default(),
            pending: [NONE; 4],
        }
    }
}

impl Unexpected {
    /// Number of messages that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a message, youngest of all.
    pub fn insert(&mut self, key: Key, value: u32) -> EntryId {
        let entry = Entry { key, order: Link::LOOSE, links: [Link::LOOSE; 4], chains: [NONE; 4], value };
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
        for pending in &mut self.pending {
            if *pending == NONE {
                *pending = id;
            }
        }
        self.len += 1;
        EntryId(id)
    }

    /// The oldest message that `pattern` accepts: entry and value. The message stays.
    #[inline]
    pub fn find(&mut self, pattern: Pattern) -> Option<(EntryId, u32)> {
        if self.len == 0 {
            return None;
        }
        self.find_among_some(pattern)
    }

    #[inline(never)]
    fn find_among_some(&mut self, pattern: Pattern) -> Option<(EntryId, u32)> {
        let class = class_of(pattern.mask);
        let (head, pending) = (self.order.head, self.pending[class]);
        // What is indexed is older than what is not.
        if pending != head {
            let oldest = &self.entries[head as usize];
            if pattern.accepts(oldest.key) {
                return Some((EntryId(head), oldest.value));
            }
            let found = self.find_in_index(pattern, class);
            if found.is_some() {
                return found;
            }
        }
        let mut at = pending;
        for _ in 0..WALK {
            if at == NONE {
                return None;
            }
            let entry = &self.entries[at as usize];
            if pattern.accepts(entry.key) {
                return Some((EntryId(at), entry.value));
            }
            at = entry.order.next;
        }
        if at == NONE {
            return None;
        }
        self.index_all(class);
        self.find_in_index(pattern, class)
    }

    /// Removes an entry that was not removed before; gives its value.
    #[inline]
    pub fn remove(&mut self, entry: EntryId) -> u32 {
        let id = entry.0;
        let next = self.entries[id as usize].order.next;
        for class in 0..4 {
            if self.pending[class] == id {
                self.pending[class] = next;
            }
            let chain = self.entries[id as usize].chains[class];
            if chain != NONE {
                self.index.unlink(&mut self.entries, id, chain, |entry| &mut entry.links[class]);
            }
        }
        self.order.unlink(&mut self.entries, id, |entry| &mut entry.order);
        let place = &mut self.entries[id as usize];
        let value = place.value;
        place.order.next = self.free;
        self.free = id;
        self.len -= 1;
        if self.len == 0 && self.entries.len() > KEEP {
            *self = Unexpected::default();
        }
        value
    }

    /// Entries and values of all messages, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (EntryId, u32)> + '_ {
        let mut at = self.order.head;
        std::iter::from_fn(move || {
            (at != NONE).then(|| {
                let entry = &self.entries[at as usize];
                let found = (EntryId(at), entry.value);
                at = entry.order.next;
                found
            })
        })
    }

    #[cold]
    #[inline(never)]
    fn index_all(&mut self, class: usize) {
        while self.pending[class] != NONE {
            let id = self.pending[class];
            let Entry { key, order, .. } = self.entries[id as usize];
            let chain = self.index.append(&mut self.entries, id, key, class, |entry| &mut entry.links[class]);
            self.entries[id as usize].chains[class] = chain;
            self.pending[class] = order.next;
        }
    }

    #[inline]
    fn find_in_index(&self, pattern: Pattern, class: usize) -> Option<(EntryId, u32)> {
        let chain = self.index.find(Key { context: pattern.context, name: pattern.name }, class);
        if chain == NONE {
            return None;
        }
        let id = self.index.oldest(chain);
        Some((EntryId(id), self.entries[id as usize].value))
    }
}
