//! Agreement on context ids: which hidden channel a new communicator gets (section 7.2.2).
//!
//! Channels are numbered in pairs (point-to-point, collective) and grouped in *windows* of 512 pairs. All
//! participants of a construction know the window to try, because it follows from the parent communicator alone;
//! each proposes the mask of pairs free here, one bitwise-and allreduce of 64 bytes tells which are free at all,
//! and everybody takes the lowest. An empty result is common knowledge too: all try another window, which
//! follows from a seed that is different for constructions under way at the same time. While a proposal is in flight
//! its window is closed to other constructions of this process (they propose nothing there), so two
//! constructions that run at the same time never get one number, and neither waits for the other.
//!
//! Numbers return when the communicator is freed. Memory is 64 bytes per window in use.
//!
//! The same exchange agrees on the new communicator's lane (see [`crate::lanes`]): the highest bits of a mask are no pairs
//! but say, one bit each, how many lanes this process can use. A process that serves one thread sets none.

use std::collections::BTreeMap;
use weft_types::ContextId;

/// Bits per window.
const PAIRS: u32 = 512;
/// Bits at the end of the last word of a mask that stand for lanes.
const LANE_BITS: u32 = crate::lanes::LANES;
/// Words of a proposal.
pub const WORDS: usize = PAIRS as usize / 64;
/// Windows before the search begins again at the first: 2^22 communicators alive at once.
const WINDOWS: u32 = 1 << 13;

/// The bits of a mask's last word that are pairs.
const PAIRS_OF_LAST: u64 = u64::MAX >> LANE_BITS;

/// A proposal and its answer: one bit per pair of the window, 1 = free; the last [`LANE_BITS`] bits are lanes.
pub type Mask = [u64; WORDS];

/// The channels in use at one process.
#[derive(Debug, Default)]
pub struct Contexts {
    windows: BTreeMap<u32, Window>,
    /// Lanes that this process can use; 0 and 1 both mean lane 0 only.
    pub lanes: u32,
}

#[derive(Debug, Default, Clone, Copy)]
struct Window {
    used: Mask,
    closed: bool,
}

/// One construction's search for a number.
#[derive(Debug)]
pub struct Search {
    window: u32,
    proposed: bool,
    /// Where the search goes on, by a generator that all participants run alike.
    state: u64,
}

impl Search {
    /// Begins at the window that the parent's last construction ended in (0 for a new parent). `seed` is the same at all
    /// participants, and another one for constructions that may be under way together.
    pub fn new(hint: u32, seed: u64) -> Search {
        Search { window: hint % WINDOWS, proposed: false, state: seed }
    }

    /// Another window. Were it simply the next one, constructions that met in one window would meet in all.
    fn leave(&mut self) {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.window = (mixed >> 40) as u32 % WINDOWS;
    }
}

impl Contexts {
    /// With the channels of `MPI_COMM_WORLD` and `MPI_COMM_SELF` taken.
    pub fn new() -> Contexts {
        let mut contexts = Contexts::default();
        let first = ContextId::FIRST_FREE.0 / 2;
        contexts.windows.entry(0).or_default().used[0] = (1 << first) - 1;
        contexts
    }

    /// What this process proposes; the window stays closed until [`Contexts::answer`].
    pub fn propose(&mut self, search: &mut Search) -> Mask {
        let window = self.windows.entry(search.window).or_default();
        let mut mask = [0; WORDS];
        search.proposed = !window.closed;
        if search.proposed {
            window.closed = true;
            mask = window.used.map(|word| !word);
        }
        let lanes = (1_u64 << self.lanes.min(LANE_BITS)) - 1;
        mask[WORDS - 1] = mask[WORDS - 1] & PAIRS_OF_LAST | lanes << (64 - LANE_BITS);
        mask
    }

    /// The lane of a channel that was agreed on with this mask.
    pub fn lane(context: ContextId, agreed: &Mask) -> u32 {
        // Bits are set from the lowest on, so what all have in common is the smallest number.
        let lanes = (agreed[WORDS - 1] >> (64 - LANE_BITS)).count_ones();
        // Lane 0 is left to MPI_COMM_WORLD and to whoever serves one thread.
        if lanes < 2 { 0 } else { 1 + context.0 / 2 % (lanes - 1) }
    }

    /// Takes the lowest pair everybody has free: the new point-to-point context and the parent's next hint. `None`:
    /// propose again, in another window.
    pub fn answer(&mut self, search: &mut Search, agreed: &Mask) -> Option<(ContextId, u32)> {
        let window = self.windows.entry(search.window).or_default();
        if search.proposed {
            window.closed = false;
            search.proposed = false;
        }
        let mut free = *agreed;
        free[WORDS - 1] &= PAIRS_OF_LAST;
        let Some(word) = free.iter().position(|&word| word != 0) else {
            self.forget_if_unused(search.window);
            search.leave();
            return None;
        };
        let bit = free[word].trailing_zeros();
        window.used[word] |= 1 << bit;
        let pair = search.window * PAIRS + word as u32 * 64 + bit;
        Some((ContextId(pair * 2), search.window))
    }

    /// Gives a context back.
    pub fn release(&mut self, context: ContextId) {
        let pair = context.0 / 2;
        let (number, bit) = (pair / PAIRS, pair % PAIRS);
        if let Some(window) = self.windows.get_mut(&number) {
            window.used[bit as usize / 64] &= !(1 << (bit % 64));
        }
        self.forget_if_unused(number);
    }

    /// Abandons a search whose answer will never come.
    pub fn abandon(&mut self, search: Search) {
        if search.proposed
            && let Some(window) = self.windows.get_mut(&search.window)
        {
            window.closed = false;
        }
    }

    fn forget_if_unused(&mut self, number: u32) {
        if self.windows.get(&number).is_some_and(|window| !window.closed && window.used == [0; WORDS]) {
            self.windows.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn agree(processes: &mut [Contexts], members: &[usize], hint: u32) -> (ContextId, u32) {
        let mut searches: Vec<Search> = members.iter().map(|_| Search::new(hint, 7)).collect();
        for _ in 0..100 {
            let mut mask = [u64::MAX; WORDS];
            for (&member, search) in members.iter().zip(&mut searches) {
                let mine = processes[member].propose(search);
                mask.iter_mut().zip(mine).for_each(|(all, mine)| *all &= mine);
            }
            let answers: Vec<_> = members
                .iter()
                .zip(&mut searches)
                .map(|(&member, search)| processes[member].answer(search, &mask))
                .collect();
            assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
            if let Some(answer) = answers[0] {
                return answer;
            }
        }
        panic!("no agreement");
    }

    #[test]
    fn the_lane_is_what_all_members_can_use() {
        let both = |first: u32, second: u32| {
            let mut processes = [Contexts::new(), Contexts::new()];
            (processes[0].lanes, processes[1].lanes) = (first, second);
            let mut mask = [u64::MAX; WORDS];
            for process in &mut processes {
                let mine = process.propose(&mut Search::new(0, 0));
                mask.iter_mut().zip(mine).for_each(|(all, mine)| *all &= mine);
            }
            let lanes: Vec<u32> = (2..9).map(|pair| Contexts::lane(ContextId(pair * 2), &mask)).collect();
            lanes
        };
        assert_eq!(both(0, 8), [0; 7], "a single-threaded member");
        assert_eq!(both(1, 8), [0; 7]);
        assert_eq!(both(3, 8), [1, 2, 1, 2, 1, 2, 1]);
        assert_eq!(both(8, 8), [3, 4, 5, 6, 7, 1, 2], "neighbours in different lanes");
    }

    #[test]
    fn the_first_context_is_the_first_free_one() {
        let mut processes = [Contexts::new(), Contexts::new()];
        assert_eq!(agree(&mut processes, &[0, 1], 0).0, ContextId::FIRST_FREE);
    }

    #[test]
    fn seventy_thousand_in_turn_and_forty_thousand_at_once() {
        let mut processes = [Contexts::new(), Contexts::new()];
        let mut hint = 0;
        for _ in 0..70_000 {
            let (context, next) = agree(&mut processes, &[0, 1], hint);
            hint = next;
            processes.iter_mut().for_each(|process| process.release(context));
        }
        assert_eq!(hint, 0);
        let mut alive = Vec::new();
        for _ in 0..40_000 {
            let (context, next) = agree(&mut processes, &[0, 1], hint);
            hint = next;
            alive.push(context);
        }
        alive.sort_unstable();
        alive.dedup();
        assert_eq!(alive.len(), 40_000);
        for context in alive {
            processes.iter_mut().for_each(|process| process.release(context));
        }
        assert!(processes.iter().all(|process| process.windows.len() == 1), "windows given back");
    }

    #[test]
    fn constructions_in_flight_together_get_different_numbers() {
        let mut processes = [Contexts::new(), Contexts::new(), Contexts::new()];
        // Processes 0 and 1 build A; 1 and 2 build B, begun at process 1 while A is in flight.
        let (mut a0, mut a1) = (Search::new(0, 1), Search::new(0, 1));
        let (mut b1, mut b2) = (Search::new(0, 2), Search::new(0, 2));
        let and = |x: Mask, y: Mask| -> Mask { std::array::from_fn(|i| x[i] & y[i]) };
        let mask_a = and(processes[0].propose(&mut a0), processes[1].propose(&mut a1));
        let mask_b = and(processes[1].propose(&mut b1), processes[2].propose(&mut b2));
        // B must not wait for A.
        assert_eq!(processes[1].answer(&mut b1, &mask_b), None);
        assert_eq!(processes[2].answer(&mut b2, &mask_b), None);
        let mask_b = and(processes[1].propose(&mut b1), processes[2].propose(&mut b2));
        let b = processes[1].answer(&mut b1, &mask_b).expect("the other window is open");
        assert_eq!(processes[2].answer(&mut b2, &mask_b), Some(b));
        let a = processes[0].answer(&mut a0, &mask_a).expect("free");
        assert_eq!(processes[1].answer(&mut a1, &mask_a), Some(a));
        assert_ne!(a.0, b.0);
    }

    proptest! {
        #[test]
        fn members_never_see_one_number_twice(script in proptest::collection::vec((1usize..15, any::<bool>()), 1..60)) {
            let mut processes: Vec<Contexts> = (0..4).map(|_| Contexts::new()).collect();
            let mut alive: Vec<(Vec<usize>, ContextId)> = Vec::new();
            for (members, free) in script {
                let members: Vec<usize> = (0..4).filter(|i| members >> i & 1 == 1).collect();
                let (context, _) = agree(&mut processes, &members, 0);
                for (others, other) in &alive {
                    prop_assert!(*other != context || members.iter().all(|m| !others.contains(m)));
                }
                alive.push((members, context));
                if free {
                    let (members, context) = alive.remove(0);
                    members.iter().for_each(|&m| processes[m].release(context));
                }
            }
        }
    }
}
