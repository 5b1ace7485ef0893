//! Agreement on context ids: which hidden channel a new communicator gets (section 7.2.2).
//!
//! Channels are numbered in pairs (point-to-point, collective) and grouped in *windows* of 512 pairs. All
//! participants of a construction know the window to try; each proposes the mask of pairs free here, one bitwise-and
//! reduction of 80 bytes tells which are free at all, and everybody takes the lowest. An empty result is common
//! knowledge too: all try another window, which follows from a seed that is different for constructions under way at the
//! same time. While a proposal is in flight its window is closed to other constructions of this process (they propose
//! nothing there), so two constructions that run at the same time never get one number, and neither waits for the other.
//!
//! The window to try first is common knowledge in one of two ways. Blocking constructions over a whole parent are in the same
//! order everywhere, so the parent remembers where the last one ended ([`Search::after`]). All others (nonblocking ones, which
//! end at different times at different members, and those of some members only) begin where their seed says
//! ([`Search::anywhere`]).
//!
//! Beside the mask travel *flags*, which all must have set for all to see set: that nothing went wrong so far, that there is room
//! for one more handle, which side of an intercommunicator goes first. So what fails, fails at all members.
//!
//! Other bits of the flags say, one each, how many lanes this process can use: the new communicator's lane follows from the
//! number and from the smallest of these ([`Proposal::lane`], [`crate::lanes`]). A process that serves one thread sets none.
//! Numbers that follow one another go to different lanes, so communicators that are made one after the other share none as long
//! as there are no more of them than lanes beside the first.
//!
//! A word of its own says which lanes are open here, one bit each. Where the lane that results is not open at all participants, they open it, and agree
//! once more on whether all could ([`LANE_OPEN`]); if not, the communicator shares lane 0.
//!
//! Numbers return when the communicator is freed. Memory is 64 bytes per window in use.

use crate::lanes::LANES;
use std::collections::BTreeMap;
use weft_types::{Age, ContextId, Error, ErrorClass, Handle, Result};

/// Pairs per window.
const PAIRS: u32 = 512;
/// Words of a mask.
const WORDS: usize = PAIRS as usize / 64;
/// Windows: 2^22 communicators alive at once.
const WINDOWS: u32 = 1 << 13;
/// Windows that constructions without a remembered one begin in, so that their numbers stay together.
const FIRST_WINDOWS: u32 = 128;
/// Full windows looked into before the search gives up.
const PATIENCE: u32 = 1024;

/// One bit per pair of the window, 1 = free.
pub type Mask = [u64; WORDS];

/// What one participant tells, and what all together answer: the bitwise and of all proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Free pairs of the window.
    pub mask: Mask,
    /// See the constants.
    pub flags: u64,
    /// Open lanes, see [`open_lane`].
    pub open: u64,
    /// Of what the new communicator descends from, the greatest of all ([`weft_types::life`]). It travels in letters only: who
    /// agrees on a parent's channel knows it.
    pub age: Age,
}

/// Nothing has gone wrong here.
pub const WELL: u64 = 1;
/// There is room for one more communicator handle.
pub const ROOM: u64 = 1 << 1;
/// The window is not closed by another construction.
const OPEN: u64 = 1 << 2;
/// An intercommunicator is merged, and its first group asked to be the high one; it did not; the same of the second group.
pub const FIRST_HIGH: u64 = 1 << 3;
/// See [`FIRST_HIGH`].
pub const FIRST_LOW: u64 = 1 << 4;
/// See [`FIRST_HIGH`].
pub const SECOND_HIGH: u64 = 1 << 5;
/// See [`FIRST_HIGH`].
pub const SECOND_LOW: u64 = 1 << 6;

/// This process can open lanes that reach other nodes.
pub const WIDE: u64 = 1 << 7;

/// This process's end of the lane agreed upon is open.
pub const LANE_OPEN: u64 = 1 << 8;

/// First of the bits that stand for lanes.
const FIRST_LANE: u32 = 16;
/// First of those of [`Proposal::open`] that say of each lane that it reaches other nodes.
const FIRST_WIDE: u32 = 32;

const _: () = assert!(FIRST_LANE + LANES <= 64 && LANES <= FIRST_WIDE);

/// The bits of a lane that is open here; `wide`: it reaches other nodes.
pub const fn open_lane(lane: u32, wide: bool) -> u64 {
    1 << lane | (wide as u64) << (FIRST_WIDE + lane)
}

/// The flags of a process that can use `lanes` lanes; 0 and 1 both mean lane 0 only.
pub const fn lane_flags(lanes: u32) -> u64 {
    ((1 << lanes) - 1) << FIRST_LANE
}

impl Proposal {
    /// The lane of a channel that was agreed on.
    pub fn lane(&self, context: ContextId) -> u32 {
        // Bits are set from the lowest on, so what all have in common is the smallest number.
        let lanes = (self.flags & lane_flags(LANES)).count_ones();
        // Lane 0 is left to MPI_COMM_WORLD and to whoever serves one thread.
        if lanes < 2 { 0 } else { 1 + context.0 / 2 % (lanes - 1) }
    }

    /// Whether a lane is open at all that took part; `wide`: so that it reaches other nodes.
    pub const fn is_open(&self, lane: u32, wide: bool) -> bool {
        let wanted = open_lane(lane, wide);
        self.open & wanted == wanted
    }

    /// Words of a proposal on the wire.
    pub const WORDS: usize = WORDS + 2;
    /// Bytes of a proposal on the wire.
    pub const BYTES: usize = Proposal::WORDS * 8;

    /// Bytes of a proposal in letters.
    pub const LETTER: usize = Proposal::BYTES + 4;

    /// The proposal in a letter.
    pub fn to_letter(&self) -> Vec<u8> {
        let mut letter = self.to_bytes().to_vec();
        letter.extend_from_slice(&self.age.0.to_le_bytes());
        letter
    }

    /// The proposal of a letter.
    pub fn from_letter(letter: &[u8; Proposal::LETTER]) -> Proposal {
        let (words, age) = letter.split_at(Proposal::BYTES);
        let age = Age(u32::from_le_bytes(std::array::from_fn(|byte| age[byte])));
        Proposal { age, ..Proposal::from_bytes(&std::array::from_fn(|byte| words[byte])) }
    }

    /// The proposal as it travels on a parent's channel.
    pub fn to_bytes(&self) -> [u8; Proposal::BYTES] {
        let mut bytes = [0; Proposal::BYTES];
        let words = self.mask.iter().chain([&self.flags, &self.open]);
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// The proposal that travelled.
    pub fn from_bytes(bytes: &[u8; Proposal::BYTES]) -> Proposal {
        let word = |index: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[index * 8 + byte]));
        Proposal {
            mask: std::array::from_fn(word),
            flags: word(WORDS),
            open: word(WORDS + 1),
            age: Age::WORLD,
        }
    }

    /// What both agree to.
    pub fn and(&mut self, other: &Proposal) {
        self.mask.iter_mut().zip(other.mask).for_each(|(mine, other)| *mine &= other);
        self.flags &= other.flags;
        self.open &= other.open;
        self.age = self.age.max(other.age);
    }
}

/// The channels in use at one process.
#[derive(Debug, Default)]
pub struct Contexts {
    windows: BTreeMap<u32, Window>,
    /// Windows closed now.
    closed: usize,
    /// Lanes that this process can use.
    pub lanes: u32,
    /// Those that are open, as [`open_lane`] says it.
    pub open: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Window {
    used: Mask,
    closed: bool,
}

/// One construction's search for a number.
#[derive(Clone, Debug)]
pub struct Search {
    window: u32,
    proposed: bool,
    /// Where the search goes on, by a generator that all participants run alike.
    state: u64,
    /// Windows that had nothing free though nobody had closed them.
    full: u32,
}

impl Search {
    /// Begins at the window that the parent's last construction ended in (0 for a new parent). `seed` is the same at all
    /// participants, and another one for constructions that may be under way together.
    pub fn after(hint: u32, seed: u64) -> Search {
        Search { window: hint % WINDOWS, proposed: false, state: seed, full: 0 }
    }

    /// Begins where the seed says.
    pub fn anywhere(seed: u64) -> Search {
        let mut search = Search::after(0, seed);
        search.leave();
        search.window %= FIRST_WINDOWS;
        search
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

    /// What this process proposes, with the flags given and no age; the window stays closed until [`Contexts::answer`].
    pub fn propose(&mut self, search: &mut Search, flags: u64) -> Proposal {
        let window = self.windows.entry(search.window).or_default();
        if window.closed {
            search.proposed = false;
            return Proposal { mask: [0; WORDS], flags, open: self.open, age: Age::WORLD };
        }
        window.closed = true;
        self.closed += 1;
        search.proposed = true;
        Proposal {
            mask: window.used.map(|word| !word),
            flags: flags | OPEN,
            open: self.open,
            age: Age::WORLD,
        }
    }

    /// Takes the lowest pair everybody has free: the new point-to-point context and the parent's next hint. `None`:
    /// propose again, in another window.
    ///
    /// # Errors
    /// The same at all participants: `MPI_ERR_OTHER` when something went wrong at one of them, `MPI_ERR_NO_MEM` when one of them
    /// has no room for a handle, or when no number is free at all of them.
    pub fn answer(&mut self, search: &mut Search, agreed: &Proposal) -> Result<Option<(ContextId, u32)>> {
        let window = self.windows.entry(search.window).or_default();
        if std::mem::take(&mut search.proposed) {
            window.closed = false;
            self.closed -= 1;
        }
        let found = agreed.mask.iter().position(|&word| word != 0);
        let refused = refusal(agreed.flags);
        let (Some(word), None) = (found, &refused) else {
            self.forget_if_unused(search.window);
            search.leave();
            search.full += u32::from(agreed.flags & OPEN != 0);
            return match refused {
                Some(error) => Err(error),
                None if search.full > PATIENCE => Err(exhausted()),
                None => Ok(None),
            };
        };
        let bit = agreed.mask[word].trailing_zeros();
        window.used[word] |= 1 << bit;
        let pair = search.window * PAIRS + word as u32 * 64 + bit;
        Ok(Some((ContextId(pair * 2), search.window)))
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
    pub fn abandon(&mut self, search: &mut Search) {
        if std::mem::take(&mut search.proposed)
            && let Some(window) = self.windows.get_mut(&search.window)
        {
            window.closed = false;
            self.closed -= 1;
        }
    }

    /// Proposals in flight, each of which may become a communicator.
    pub fn proposals(&self) -> usize {
        self.closed
    }

    fn forget_if_unused(&mut self, number: u32) {
        if self.windows.get(&number).is_some_and(|window| !window.closed && window.used == [0; WORDS]) {
            self.windows.remove(&number);
        }
    }
}

#[cold]
fn refusal(flags: u64) -> Option<Error> {
    if flags & WELL == 0 {
        return Some(Error::new(
            ErrorClass::OTHER,
            "the call failed at another member of the communicator, whose error says why, so no member gets a new communicator",
        ));
    }
    (flags & ROOM == 0).then(|| {
        Error::new(
            ErrorClass::NO_MEM,
            format!(
                "{} communicators are alive at this process or at another member, the most there can be; free those that are \
                 no longer used",
                Handle::SLOTS
            ),
        )
    })
}

#[cold]
fn exhausted() -> Error {
    Error::new(
        ErrorClass::NO_MEM,
        format!(
            "no number for a new communicator is free at all its members: {PATIENCE} of the {WINDOWS} windows of {PAIRS} numbers \
             are full (at most {} communicators at all members together); free communicators that are no longer used",
            WINDOWS * PAIRS
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn proposal(flags: u64, open: u64) -> Proposal {
        Proposal { mask: [0; WORDS], flags, open, age: Age::WORLD }
    }

    #[test]
    fn the_lane_is_what_all_members_can_use() {
        let both = |first: u32, second: u32| {
            let mut agreed = proposal(lane_flags(first), 0);
            agreed.and(&proposal(lane_flags(second) | WELL, 0));
            (2..9).map(|pair| agreed.lane(ContextId(pair * 2))).collect::<Vec<u32>>()
        };
        assert_eq!(both(0, 8), [0; 7], "a single-threaded member");
        assert_eq!(both(1, 8), [0; 7]);
        assert_eq!(both(3, 8), [1, 2, 1, 2, 1, 2, 1]);
        assert_eq!(both(8, 8), [3, 4, 5, 6, 7, 1, 2], "neighbours in different lanes");
        assert_eq!(both(8, 32), both(8, 8));
        assert_eq!(both(32, 32), [3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn a_lane_is_open_where_it_is_at_all() {
        let mut agreed = proposal(0, open_lane(1, true) | open_lane(7, true) | open_lane(31, true));
        agreed.and(&proposal(u64::MAX, open_lane(1, false) | open_lane(7, true) | open_lane(31, true)));
        let open = [(1, false), (1, true), (2, false), (7, true), (31, true), (30, false)]
            .map(|(lane, wide)| agreed.is_open(lane, wide));
        assert_eq!(open, [true, false, false, true, true, false]);
        assert_eq!(agreed.flags, 0);
        let bits = (0..LANES).fold(0, |sum, lane| sum + open_lane(lane, true).count_ones());
        let all = (0..LANES).fold(0, |all, lane| all | open_lane(lane, true));
        assert_eq!(bits, all.count_ones(), "no two lanes share a bit");
        assert_eq!(lane_flags(LANES) & (LANE_OPEN | WIDE | WELL | ROOM | OPEN), 0);
    }

    #[test]
    fn as_many_communicators_as_lanes_beside_the_first_share_none() {
        for lanes in 2..=LANES {
            let mut contexts = Contexts { lanes, ..Contexts::new() };
            let mut hint = 0;
            let mut taken = Vec::new();
            for _ in 1..lanes {
                let mut search = Search::after(hint, 7);
                let all = contexts.propose(&mut search, WELL | ROOM | lane_flags(lanes));
                let (context, next) = contexts.answer(&mut search, &all).expect("room").expect("free");
                hint = next;
                taken.push(all.lane(context));
            }
            taken.sort_unstable();
            assert_eq!(taken, (1..lanes).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn a_proposal_travels_whole() {
        let mut one = proposal(WELL | lane_flags(LANES), open_lane(31, true) | open_lane(3, false));
        one.mask = std::array::from_fn(|word| 3 << word);
        one.age = Age(9);
        let letter: [u8; Proposal::LETTER] = one.to_letter().try_into().expect("as long as letters are");
        assert_eq!(Proposal::from_letter(&letter), one);
        assert_eq!(Proposal::from_bytes(&one.to_bytes()), Proposal { age: Age::WORLD, ..one });
    }

    fn agree(processes: &mut [Contexts], members: &[usize], hint: u32) -> (ContextId, u32) {
        let mut searches: Vec<Search> = members.iter().map(|_| Search::after(hint, 7)).collect();
        for _ in 0..100 {
            let mut all =
                Proposal { mask: [u64::MAX; WORDS], flags: u64::MAX, open: u64::MAX, age: Age::WORLD };
            for (&member, search) in members.iter().zip(&mut searches) {
                all.and(&processes[member].propose(search, WELL | ROOM));
            }
            let answers: Vec<_> = members
                .iter()
                .zip(&mut searches)
                .map(|(&member, search)| processes[member].answer(search, &all).expect("room"))
                .collect();
            assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
            if let Some(answer) = answers[0] {
                return answer;
            }
        }
        panic!("no agreement");
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
        let (mut a0, mut a1) = (Search::after(0, 1), Search::after(0, 1));
        let (mut b1, mut b2) = (Search::after(0, 2), Search::after(0, 2));
        let flags = WELL | ROOM;
        let and = |mut x: Proposal, y: Proposal| {
            x.and(&y);
            x
        };
        let all_a = and(processes[0].propose(&mut a0, flags), processes[1].propose(&mut a1, flags));
        let all_b = and(processes[1].propose(&mut b1, flags), processes[2].propose(&mut b2, flags));
        // B must not wait for A.
        assert_eq!(processes[1].answer(&mut b1, &all_b), Ok(None));
        assert_eq!(processes[2].answer(&mut b2, &all_b), Ok(None));
        let all_b = and(processes[1].propose(&mut b1, flags), processes[2].propose(&mut b2, flags));
        let b = processes[1].answer(&mut b1, &all_b).expect("room").expect("the other window is open");
        assert_eq!(processes[2].answer(&mut b2, &all_b), Ok(Some(b)));
        let a = processes[0].answer(&mut a0, &all_a).expect("room").expect("free");
        assert_eq!(processes[1].answer(&mut a1, &all_a), Ok(Some(a)));
        assert_ne!(a.0, b.0);
    }

    #[test]
    fn what_one_member_refuses_fails_at_all_and_leaves_nothing_closed() {
        let mut contexts = Contexts::new();
        for (flags, class) in [(ROOM, ErrorClass::OTHER), (WELL, ErrorClass::NO_MEM)] {
            let mut search = Search::after(0, 1);
            let all = contexts.propose(&mut search, flags);
            assert_eq!(contexts.answer(&mut search, &all).expect_err("refused").class(), class);
        }
        let mut search = Search::after(0, 1);
        let all = contexts.propose(&mut search, WELL | ROOM);
        let found = contexts.answer(&mut search, &all).expect("room").expect("window 0 is open again");
        assert_eq!(found, (ContextId::FIRST_FREE, 0));
    }

    #[test]
    fn a_search_through_full_windows_ends_and_names_the_limit() {
        let (mut contexts, mut search) = (Contexts::new(), Search::anywhere(3));
        let full = proposal(WELL | ROOM | OPEN, 0);
        let error = (0..=PATIENCE)
            .find_map(|_| {
                contexts.propose(&mut search, WELL | ROOM);
                contexts.answer(&mut search, &full).err()
            })
            .expect("it ends");
        assert_eq!(error.class(), ErrorClass::NO_MEM);
        assert!(error.text().contains("4194304"), "{error}");
        assert!(contexts.windows.len() == 1, "empty windows are forgotten");
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
