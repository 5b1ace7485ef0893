//! What the launcher tells the ranks of a node besides deaths: a list in the header of the segment that only grows.
//!
//! The launcher alone writes, one word at a time, and wakes everybody as for deaths; each rank remembers how many it has read.
//! A word is written before the count that includes it (Release), and read after it (Acquire), and is never changed again.
//! `tests/loom_words.rs` is a model of it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weft_types::{Farewell, PeerId};

/// Words that one node can be told; further ones are refused.
pub(crate) const MOST_WORDS: usize = 1024;
/// From so many on no more questions are taken: what ordinary computing brings must leave room for verdicts and farewells.
const MOST_BEFORE_QUESTIONS: usize = MOST_WORDS / 4;

/// One word of the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A process of another node has ended MPI after a loss, and left this behind.
    Farewell(PeerId, Farewell),
    /// To one local rank: this process asks it for a way between the two, and hears nothing of it.
    Asks {
        /// The local rank that is asked.
        local: u32,
        /// Who asks.
        peer: PeerId,
    },
    /// To one local rank: it and this process both look, and no way between the two has been found.
    Unreachable {
        /// The local rank that is told.
        local: u32,
        /// Who cannot be reached.
        peer: PeerId,
    },
}

const FAREWELL: u64 = 1;
const ASKS: u64 = 2;
const UNREACHABLE: u64 = 3;

impl Word {
    fn emit(self) -> [u64; 2] {
        let (kind, peer, value) = match self {
            Word::Farewell(peer, farewell) => (FAREWELL, peer, farewell.to_word()),
            Word::Asks { local, peer } => (ASKS, peer, local),
            Word::Unreachable { local, peer } => (UNREACHABLE, peer, local),
        };
        [kind << 32 | u64::from(peer.0), u64::from(value)]
    }

    /// `None` for what no launcher of this build writes.
    fn parse([first, second]: [u64; 2]) -> Option<Word> {
        let (peer, value) = (PeerId(first as u32), second as u32);
        match first >> 32 {
            FAREWELL => Some(Word::Farewell(peer, Farewell::from_word(value))),
            ASKS => Some(Word::Asks { local: value, peer }),
            UNREACHABLE => Some(Word::Unreachable { local: value, peer }),
            _ => None,
        }
    }
}

/// The list as it lies in the header; zeros are an empty one.
#[repr(C)]
pub(crate) struct Words {
    count: AtomicU32,
    _line: u32,
    words: [[AtomicU64; 2]; MOST_WORDS],
}

impl Words {
    /// Appends a word; one caller at a time. False when there is no room for it.
    pub(crate) fn push(&self, word: Word) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        if matches!(word, Word::Asks { .. }) && count as usize >= MOST_BEFORE_QUESTIONS {
            return false;
        }
        let Some(place) = self.words.get(count as usize) else { return false };
        for (half, value) in place.iter().zip(word.emit()) {
            half.store(value, Ordering::Relaxed);
        }
        self.count.store(count + 1, Ordering::Release);
        true
    }

    /// All but the first `seen`, and how many there are.
    pub(crate) fn after(&self, seen: u32) -> (impl Iterator<Item = Word> + '_, u32) {
        let count = (self.count.load(Ordering::Acquire) as usize).min(MOST_WORDS);
        let fresh = self.words[..count].iter().skip(seen as usize);
        let words = fresh.filter_map(|[first, second]| {
            Word::parse([first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)])
        });
        (words, count as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Box<Words> {
        let words = (0..MOST_WORDS).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect::<Vec<_>>();
        let words = words.try_into().unwrap_or_else(|_| unreachable!("as many were made"));
        Box::new(Words { count: AtomicU32::new(0), _line: 0, words })
    }

    #[test]
    fn words_are_read_once_and_as_they_were_written() {
        let list = empty();
        let told = [
            Word::Farewell(PeerId(7), Farewell { life: 3, world: true }),
            Word::Asks { local: 2, peer: PeerId(u32::MAX) },
            Word::Unreachable { local: 0, peer: PeerId(1) },
        ];
        assert!(list.push(told[0]) && list.push(told[1]));
        let (words, seen) = list.after(0);
        assert_eq!(words.collect::<Vec<_>>(), told[..2]);
        assert!(list.push(told[2]));
        let (words, seen) = list.after(seen);
        assert_eq!((words.collect::<Vec<_>>(), seen), (told[2..].to_vec(), 3));
        assert_eq!(list.after(seen).0.count(), 0);
    }

    #[test]
    fn questions_leave_room_for_what_must_be_known() {
        let list = empty();
        let asks = Word::Asks { local: 0, peer: PeerId(0) };
        assert_eq!((0..2 * MOST_WORDS).filter(|_| list.push(asks)).count(), MOST_BEFORE_QUESTIONS);
        let told = [
            Word::Farewell(PeerId(7), Farewell { life: 3, world: true }),
            Word::Unreachable { local: 0, peer: PeerId(1) },
        ];
        assert!(told.into_iter().all(|word| list.push(word)) && !list.push(asks));
        assert_eq!(list.after(MOST_BEFORE_QUESTIONS as u32).0.collect::<Vec<_>>(), told);
    }

    #[test]
    fn a_full_list_takes_nothing_more_and_strange_bytes_say_nothing() {
        let list = empty();
        let word = Word::Unreachable { local: 0, peer: PeerId(0) };
        assert_eq!((0..MOST_WORDS + 3).filter(|_| list.push(word)).count(), MOST_WORDS);
        assert_eq!(list.after(0).0.count(), MOST_WORDS);
        list.words[0][0].store(u64::MAX, Ordering::Relaxed);
        list.count.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(list.after(0).0.count(), MOST_WORDS - 1);
    }
}
