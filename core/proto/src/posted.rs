//! Receives that wait for their message.
//!
//! One list in posting order, of which the older part is in an index by masked key and the younger part, from `pending` on, is not. An
//! arriving message looks in the index first, at the four patterns that may accept it, of which the oldest wins; then it walks the
//! first few of the younger part. A search that goes past that walk takes all of them into the index. So neither a window of receives
//! that match in order nor one that is posted behind thousands of others and matched soon ever enters the index.

use crate::EntryId;
use crate::chains::{Chains, Ends, Link, NONE};
use crate::pattern::{Key, Pattern, class_of};
use weft_types::ContextId;

/// Entries that are not in the index and are looked at in order; beyond, all enter it.
const WALK: usize = 8;

#[derive(Debug)]
struct Entry {
    name: u64,
    mask: u64,
    sequence: u64,
    context: ContextId,
    value: u32,
    order: Link,
    /// Neighbours of the same masked key; `chain` is its number, [`NONE`] when not yet indexed.
    link: Link,
    chain: u32,
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

    /// Channel and value of every receive, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (ContextId, u32)> + '_ {
        let mut next = self.order.head;
        std::iter::from_fn(move || {
            let entry = self.entries.get(next as usize)?;
            next = entry.order.next;
            Some((entry.context, entry.value))
        })
    }

    /// Adds a receive, youngest of all.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, value: u32) -> EntryId {
        let Some(entry) = self.entries.get_mut(self.free as usize) else {
            return self.post_in_new(pattern, value);
        };
        let id = std::mem::replace(&mut self.free, entry.order.next);
        entry.name = pattern.name;
        entry.mask = pattern.mask;
        entry.context = pattern.context;
        entry.value = value;
        entry.chain = NONE;
        self.join_order(id);
        EntryId(id)
    }

    #[cold]
    #[inline(never)]
    fn post_in_new(&mut self, pattern: Pattern, value: u32) -> EntryId {
        let Pattern { context, name, mask } = pattern;
        let (order, link) = (Link::LOOSE, Link::LOOSE);
        let id = self.entries.len() as u32;
        self.entries.push(Entry { name, mask, sequence: 0, context, value, order, link, chain: NONE });
        self.join_order(id);
        EntryId(id)
    }

    /// Puts a filled entry behind all others.
    #[inline(always)]
    fn join_order(&mut self, id: u32) {
        let tail = std::mem::replace(&mut self.order.tail, id);
        let entry = &mut self.entries[id as usize];
        entry.sequence = self.sequence;
        entry.order = Link { prev: tail, next: NONE };
        self.sequence += 1;
        self.len += 1;
        match self.entries.get_mut(tail as usize) {
            Some(before) => before.order.next = id,
            None => self.order.head = id,
        }
        if self.pending == NONE {
            self.pending = id;
        }
    }

    /// Takes the oldest receive that accepts a message of `key`; gives its value.
    #[inline]
    pub fn take(&mut self, key: Key) -> Option<u32> {
        // The oldest of all, never indexed: a window of receives that match in order.
        let head = self.order.head;
        if let Some(entry) = self.entries.get_mut(head as usize)
            && key.name & entry.mask == entry.name
            && key.context == entry.context
            && entry.chain == NONE
        {
            let next = std::mem::replace(&mut entry.order.next, self.free);
            let value = entry.value;
            self.free = head;
            self.order.head = next;
            if self.pending == head {
                self.pending = next;
            }
            self.len -= 1;
            match self.entries.get_mut(next as usize) {
                Some(entry) => entry.order.prev = NONE,
                None => self.order.tail = NONE,
            }
            return Some(value);
        }
        self.take_deeper(key)
    }

    #[inline(never)]
    fn take_deeper(&mut self, key: Key) -> Option<u32> {
        let id = self.search(key);
        (id != NONE).then(|| self.remove(EntryId(id)))
    }

    /// Whether a receive waits that accepts a message of `key`.
    #[inline]
    pub fn accepts(&mut self, key: Key) -> bool {
        self.len != 0 && self.search(key) != NONE
    }

    /// Removes an entry that was neither taken nor removed before; gives its value.
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
        let Entry { name, context, mask, .. } = self.entries[entry.0 as usize];
        Pattern { context, name, mask }
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

    fn search(&mut self, key: Key) -> u32 {
        let Posted { order: Ends { head, .. }, pending, .. } = *self;
        // What is indexed is older than what is not.
        if pending != head {
            if self.entry_accepts(head, key) {
                return head;
            }
            let found = self.search_index(key);
            if found != NONE {
                return found;
            }
        }
        let mut at = pending;
        for _ in 0..WALK {
            if at == NONE {
                return NONE;
            }
            if self.entry_accepts(at, key) {
                return at;
            }
            at = self.entries[at as usize].order.next;
        }
        if at == NONE {
            return NONE;
        }
        self.index_all();
        self.search_index(key)
    }

    #[inline(always)]
    fn entry_accepts(&self, id: u32, key: Key) -> bool {
        let entry = &self.entries[id as usize];
        key.name & entry.mask == entry.name && key.context == entry.context
    }

    #[cold]
    #[inline(never)]
    fn leave_index(&mut self, id: u32) {
        let Entry { chain, mask, .. } = self.entries[id as usize];
        let class = class_of(mask);
        self.index.unlink(&mut self.entries, id, chain, |entry| &mut entry.link);
        self.indexed[class] -= 1;
    }

    #[cold]
    #[inline(never)]
    fn index_all(&mut self) {
        while self.pending != NONE {
            let id = self.pending;
            let Entry { name, context, mask, order, .. } = self.entries[id as usize];
            let class = class_of(mask);
            let chain = self
                .index
                .append(&mut self.entries, id, Key { context, name }, class, |entry| &mut entry.link);
            self.entries[id as usize].chain = chain;
            self.indexed[class] += 1;
            self.pending = order.next;
        }
    }

    /// The oldest indexed receive that accepts a message of `key`.
    #[inline(never)]
    fn search_index(&self, key: Key) -> u32 {
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
