//! What a communicator keeps of the ways to its members, so that a small message need not look up the process of a rank and
//! what the engine knows of that process.

use super::Comm;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_engine::{Engine, MetPeer};
use weft_types::{Rank, Tag};

/// Ranks kept at a time, at the places of their lowest bits; a power of two. Neighbours in a ring or a grid have places of their
/// own; where two ranks share one, each is looked up anew.
const KEPT: usize = 4;
/// A word that stands for no rank: the largest number names none, because ranks lie below a number of 32 bits.
const EMPTY: u64 = u32::MAX as u64;

/// Ways to the ranks used last. Each word holds the rank below and the number of its process in the engine of the
/// communicator's lane above. It stays true, because a communicator keeps its group and its lane, and an engine the numbers.
#[derive(Debug)]
pub struct Routes([AtomicU64; KEPT]);

impl Default for Routes {
    fn default() -> Routes {
        Routes([const { AtomicU64::new(EMPTY) }; KEPT])
    }
}

impl Routes {
    /// Relaxed: a word is the whole of what is known, and says nothing of other memory.
    #[inline(always)]
    fn get(&self, rank: Rank) -> Option<MetPeer> {
        let word = self.0[rank.0 as usize % KEPT].load(Ordering::Relaxed);
        (word as u32 == rank.0).then_some(MetPeer((word >> 32) as u32))
    }

    #[inline(always)]
    fn set(&self, rank: Rank, way: MetPeer) {
        let word = u64::from(way.0) << 32 | u64::from(rank.0);
        self.0[rank.0 as usize % KEPT].store(word, Ordering::Relaxed);
    }
}

impl Comm {
    /// As [`Engine::send_at_once`], to a valid rank; `engine` is that of the communicator's lane.
    #[inline(always)]
    pub fn send_at_once(&self, engine: &mut Engine, dest: Rank, tag: Tag, bytes: &[u8]) -> bool {
        let way = match self.routes.get(dest) {
            Some(way) => way,
            None => {
                let Some(way) = engine.met(self.group.peer(dest)) else { return false };
                self.routes.set(dest, way);
                way
            }
        };
        debug_assert_eq!(
            engine.met(self.group.peer(dest)),
            Some(way),
            "a way leads to whom it led when it was kept"
        );
        engine.send_to_met_at_once(way, (self.context, self.rank, tag), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_tells_only_of_the_rank_that_was_put_there() {
        let routes = Routes::default();
        let some = (0..9).chain([u32::MAX - 1]).map(Rank);
        assert!(some.clone().all(|rank| routes.get(rank).is_none()));
        for (number, rank) in (100..).zip(some.clone()) {
            routes.set(rank, MetPeer(number));
            assert_eq!(routes.get(rank), Some(MetPeer(number)));
            let others = some.clone().filter(|other| *other != rank && other.0 % 4 == rank.0 % 4);
            assert!(others.clone().all(|other| routes.get(other).is_none()));
        }
    }
}
