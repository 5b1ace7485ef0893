//! The index behind both matching tables: for every masked key the entries that have it, oldest first.
//!
//! The tables are walked in order for the first few entries and use this index only beyond; entries enter it
//! lazily, when a search first goes that deep. Invariant: an entry is in at most one chain per class, and a chain
//! is never empty.

use crate::pattern::{Key, MASKS};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// No entry, no chain.
pub(crate) const NONE: u32 = u32::MAX;

/// Neighbours in a doubly linked list of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) prev: u32,
    pub(crate) next: u32,
}

impl Link {
    pub(crate) const LOOSE: Link = Link { prev: NONE, next: NONE };
}

/// First and last entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

impl Ends {
    pub(crate) const EMPTY: Ends = Ends { head: NONE, tail: NONE };

    /// Appends `id`; `link` gives the place where an entry keeps its neighbours.
    #[inline]
    pub(crate) fn append<E>(&mut self, entries: &mut [E], id: u32, link: impl Fn(&mut E) -> &mut Link) {
        *link(&mut entries[id as usize]) = Link { prev: self.tail, next: NONE };
        match self.tail {
            NONE => self.head = id,
            tail => link(&mut entries[tail as usize]).next = id,
        }
        self.tail = id;
    }

    /// Takes `id` out.
    #[inline]
    pub(crate) fn unlink<E>(&mut self, entries: &mut [E], id: u32, link: impl Fn(&mut E) -> &mut Link) {
        let Link { prev, next } = *link(&mut entries[id as usize]);
        match prev {
            NONE => self.head = next,
            prev => link(&mut entries[prev as usize]).next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => link(&mut entries[next as usize]).prev = prev,
        }
    }
}

/// A masked key: name, and context with the class in the upper half.
type MaskedKey = (u64, u64);

#[inline]
fn masked(key: Key, class: usize) -> MaskedKey {
    (key.name & MASKS[class], ((class as u64) << 32) | u64::from(key.context.0))
}

/// Multiplicative hashing of two words; keys come from communicators, ranks and tags, not from an adversary.
#[derive(Default)]
pub(crate) struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Chains by masked key. Chains have numbers, so that an entry leaves its chain without a look-up.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    numbers: HashMap<MaskedKey, u32, BuildHasherDefault<Fold>>,
    chains: Vec<(Ends, MaskedKey)>,
    free: Vec<u32>,
}

impl Chains {
    /// Number of the chain for `key` seen through `class`; [`NONE`] when there is none.
    #[inline]
    pub(crate) fn find(&self, key: Key, class: usize) -> u32 {
        self.numbers.get(&masked(key, class)).copied().unwrap_or(NONE)
    }

    /// The oldest entry of a chain.
    #[inline]
    pub(crate) fn oldest(&self, chain: u32) -> u32 {
        self.chains[chain as usize].0.head
    }

    /// Appends entry `id` to the chain for `key` seen through `class`; gives the chain's number.
    pub(crate) fn append<E>(
        &mut self,
        entries: &mut [E],
        id: u32,
        key: Key,
        class: usize,
        link: impl Fn(&mut E) -> &mut Link,
    ) -> u32 {
        let Chains { numbers, chains, free } = self;
        let masked = masked(key, class);
        let number = *numbers.entry(masked).or_insert_with(|| match free.pop() {
            Some(number) => {
                chains[number as usize] = (Ends::EMPTY, masked);
                number
            }
            None => {
                chains.push((Ends::EMPTY, masked));
                (chains.len() - 1) as u32
            }
        });
        chains[number as usize].0.append(entries, id, link);
        number
    }

    /// Takes entry `id` out of chain `number`.
    pub(crate) fn unlink<E>(
        &mut self,
        entries: &mut [E],
        id: u32,
        number: u32,
        link: impl Fn(&mut E) -> &mut Link,
    ) {
        let (ends, masked) = &mut self.chains[number as usize];
        ends.unlink(entries, id, link);
        if ends.head == NONE {
            self.numbers.remove(masked);
            self.free.push(number);
        }
    }
}
