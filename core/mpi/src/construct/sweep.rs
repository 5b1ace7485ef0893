//! Agreement up and down a binomial tree, for constructions whose members have no channel of their own, and the exchange of
//! `MPI_Comm_split`. Pure: letters in, letters out.
//!
//! ```text
//! up:    each waits for its children, lowest first, and gives its parent the agreement of its subtree
//! top:   rank 0 knows what all agree to
//! down:  the same back
//! ```
//!
//! A split takes its colors and keys along. Upwards a letter has those of a subtree, which is a range of ranks ([`table`] says
//! how small that is). Downwards goes the whole table when it is small ([`SMALL`]): then each member picks its own group out of
//! it. Otherwise rank 0 sorts, and a letter has only the groups that have members in its subtree. So no process but those near
//! the top ever holds more than its group, and a member at the bottom sends two letters and gets one.

use super::table::{self, Entry};
use crate::context::Proposal;
use crate::group::Group;
use crate::letters::Reader;
use std::collections::BTreeMap;
use weft_types::{Age, PeerId, Rank, Result};

/// A table of so many bytes goes to everybody.
const SMALL: usize = 2048;

/// Neighbours in the binomial tree over `0..size`: rank `v` has the children `v + 1, v + 2, v + 4, ...`, each with the ranks up
/// to the next child below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) parent: Option<u32>,
    /// Child and number of ranks in its subtree, ascending.
    pub(crate) children: Vec<(u32, u32)>,
}

impl Tree {
    pub(crate) fn new(place: u32, size: u32) -> Tree {
        let reach = if place == 0 { size.next_power_of_two() } else { place & place.wrapping_neg() };
        let steps = std::iter::successors(Some(1), |step: &u32| step.checked_mul(2));
        let steps = steps.take_while(|&step| step < reach && place + step < size);
        Tree {
            parent: (place > 0).then(|| place - reach),
            children: steps.map(|step| (place + step, step.min(size - place - step))).collect(),
        }
    }
}

/// The members of a new communicator by their ranks in the parent: of the first (or only) group, and of the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    /// Of the parent's first group; for an intracommunicator of the whole parent.
    pub(crate) first: Group,
    /// Of the parent's second group, by the ranks that follow the first group's.
    pub(crate) second: Group,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// What all agree to.
    pub(crate) agreed: Proposal,
    /// The own group of a split; `None` for those without a color, and when nothing was split.
    pub(crate) members: Option<Members>,
}

/// The colors and keys of a split at one process.
#[derive(Clone, Debug)]
struct Colors {
    own: Entry,
    /// Those of the subtree, own first.
    subtree: Vec<Entry>,
    /// Ranks from here on are the second group of an intercommunicator.
    second: u32,
}

/// One process's part in a sweep.
#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    place: u32,
    size: u32,
    tree: Tree,
    /// Children heard.
    heard: usize,
    proposal: Proposal,
    colors: Option<Colors>,
    outcome: Option<Outcome>,
    leaving: Vec<(u32, Vec<u8>)>,
}

impl Sweep {
    /// Begins an agreement of `size` processes at the one that is number `place`.
    pub(crate) fn agree(place: u32, size: u32, proposal: Proposal) -> Sweep {
        Sweep::new(place, size, proposal, None)
    }

    /// Begins a split; ranks from `second` on are an intercommunicator's second group.
    pub(crate) fn split(place: u32, size: u32, second: u32, own: Entry, proposal: Proposal) -> Sweep {
        Sweep::new(place, size, proposal, Some(Colors { own, subtree: vec![own], second }))
    }

    fn new(place: u32, size: u32, proposal: Proposal, colors: Option<Colors>) -> Sweep {
        let tree = Tree::new(place, size);
        let mut sweep =
            Sweep { place, size, tree, heard: 0, proposal, colors, outcome: None, leaving: Vec::new() };
        sweep.rise();
        sweep
    }

    /// The process whose letter comes next; `None` when this one's part is done.
    pub(crate) fn next(&self) -> Option<u32> {
        match self.outcome {
            Some(_) => None,
            None => self.tree.children.get(self.heard).map(|&(child, _)| child).or(self.tree.parent),
        }
    }

    /// Takes the letter of [`Sweep::next`].
    ///
    /// # Errors
    /// `MPI_ERR_INTERN` for bytes that make no sense.
    pub(crate) fn hear(&mut self, letter: &[u8]) -> Result<()> {
        let mut reader = Reader::new(letter);
        let bytes = reader.bytes(Proposal::LETTER)?;
        let proposal = Proposal::from_letter(&std::array::from_fn(|byte| bytes[byte]));
        if self.heard == self.tree.children.len() {
            return self.descend(proposal, reader);
        }
        self.proposal.and(&proposal);
        if let Some(colors) = &mut self.colors {
            let (_, below) = self.tree.children[self.heard];
            let before = colors.subtree.len();
            table::read(&mut reader, below, None, |_, entry| colors.subtree.push(entry))?;
            if colors.subtree.len() - before != below as usize {
                return Err(reader.broken());
            }
        }
        self.heard += 1;
        self.rise();
        Ok(())
    }

    /// The largest age heard so far.
    pub(crate) fn age(&self) -> Age {
        self.proposal.age
    }

    /// Letters to send now: to whom, and what.
    pub(crate) fn leaving(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.leaving)
    }

    /// What came out, when this process's part is done.
    pub(crate) fn outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    /// Takes part, but does not look for its own group.
    #[cfg(test)]
    pub(crate) fn lose_interest(&mut self) {
        if let Some(colors) = &mut self.colors {
            colors.own.color = Entry::NO_COLOR;
        }
    }

    /// Bytes that colors and keys take here now.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.colors.as_ref().map_or(0, |colors| size_of_val(&colors.subtree[..]))
    }

    /// When all children were heard: tells the parent, or turns round at the top.
    fn rise(&mut self) {
        if self.heard < self.tree.children.len() {
            return;
        }
        let mut letter = self.proposal.to_letter();
        if let Some(colors) = &self.colors {
            table::write(&colors.subtree, &mut letter);
        }
        match self.tree.parent {
            Some(parent) => self.leaving.push((parent, letter)),
            None => self.turn(letter),
        }
    }

    /// At the top: everything is known.
    fn turn(&mut self, letter: Vec<u8>) {
        let Some(colors) = self.colors.take() else {
            return self.tell(letter, None);
        };
        if letter.len() <= Proposal::LETTER + SMALL {
            let members = pick(colors.own.color, colors.second, colors.subtree.into_iter());
            return self.tell(tabled(letter), members);
        }
        let groups = sort(&colors);
        self.pass_on(&colors, &groups);
        self.outcome =
            Some(Outcome { agreed: self.proposal, members: groups.get(&colors.own.color).cloned() });
    }

    /// On the way down.
    fn descend(&mut self, agreed: Proposal, mut reader: Reader<'_>) -> Result<()> {
        self.proposal = agreed;
        let Some(colors) = self.colors.take() else {
            self.tell(agreed.to_letter(), None);
            return Ok(());
        };
        let groups = reader.number()?;
        if groups == TABLE {
            let table = reader.rest();
            let mut found = Picker::new(colors.own.color, colors.second);
            if colors.own.color != Entry::NO_COLOR {
                table::read(&mut Reader::new(table), self.size, Some(colors.own.color), |rank, entry| {
                    found.look(rank, entry);
                })?;
            }
            let mut letter = agreed.to_letter();
            letter.extend_from_slice(table);
            self.tell(tabled(letter), found.finish());
            return Ok(());
        }
        let mut all = BTreeMap::new();
        for _ in 0..groups {
            let color = reader.number()? as i32;
            let members = Members { first: Group::read(&mut reader)?, second: Group::read(&mut reader)? };
            all.insert(color, members);
        }
        self.pass_on(&colors, &all);
        self.outcome = Some(Outcome { agreed, members: all.remove(&colors.own.color) });
        Ok(())
    }

    /// The same letter to all children, and the end.
    fn tell(&mut self, letter: Vec<u8>, members: Option<Members>) {
        // The child with the most ranks below it first.
        self.leaving.extend(self.tree.children.iter().rev().map(|&(child, _)| (child, letter.clone())));
        self.outcome = Some(Outcome { agreed: self.proposal, members });
    }

    /// To each child the groups that have members in its subtree.
    fn pass_on(&mut self, colors: &Colors, groups: &BTreeMap<i32, Members>) {
        for &(child, below) in self.tree.children.iter().rev() {
            let from = (child - self.place) as usize;
            let mut theirs: Vec<i32> =
                colors.subtree[from..from + below as usize].iter().map(|entry| entry.color).collect();
            theirs.sort_unstable();
            theirs.dedup();
            let theirs: Vec<_> =
                theirs.into_iter().filter_map(|color| Some((color, groups.get(&color)?))).collect();
            let mut letter = self.proposal.to_letter();
            letter.extend_from_slice(&(theirs.len() as u32).to_le_bytes());
            for (color, members) in theirs {
                letter.extend_from_slice(&color.to_le_bytes());
                members.first.write(&mut letter);
                members.second.write(&mut letter);
            }
            self.leaving.push((child, letter));
        }
    }
}

/// Stands where otherwise the number of groups does.
const TABLE: u32 = u32::MAX;

/// The downward letter for the upward letter of the whole tree.
fn tabled(mut letter: Vec<u8>) -> Vec<u8> {
    letter.splice(Proposal::LETTER..Proposal::LETTER, TABLE.to_le_bytes());
    letter
}

/// Collects those of one color.
#[derive(Debug)]
struct Picker {
    color: i32,
    second: u32,
    /// (key, rank) of both groups.
    found: [Vec<(i32, u32)>; 2],
}

impl Picker {
    fn new(color: i32, second: u32) -> Picker {
        Picker { color, second, found: [Vec::new(), Vec::new()] }
    }

    fn look(&mut self, rank: u32, entry: Entry) {
        if entry.color == self.color && entry.color != Entry::NO_COLOR {
            self.found[usize::from(rank >= self.second)].push((entry.key, rank));
        }
    }

    /// By key, and then by rank (section 7.4.2).
    fn finish(self) -> Option<Members> {
        if self.color == Entry::NO_COLOR {
            return None;
        }
        let [first, second] = self.found.map(|mut found| {
            found.sort_unstable();
            Group::from_iter(found.into_iter().map(|(_, rank)| PeerId(rank)))
        });
        Some(Members { first, second })
    }
}

fn pick(color: i32, second: u32, entries: impl Iterator<Item = Entry>) -> Option<Members> {
    let mut picker = Picker::new(color, second);
    (0..).zip(entries).for_each(|(rank, entry)| picker.look(rank, entry));
    picker.finish()
}

/// All groups by color.
fn sort(colors: &Colors) -> BTreeMap<i32, Members> {
    let mut order: Vec<(i32, i32, u32)> = (0..)
        .zip(&colors.subtree)
        .filter(|(_, entry)| entry.color != Entry::NO_COLOR)
        .map(|(rank, entry)| (entry.color, entry.key, rank))
        .collect();
    order.sort_unstable();
    order
        .chunk_by(|a, b| a.0 == b.0)
        .map(|same| {
            let side = |second: bool| {
                let ranks = same.iter().map(|&(.., rank)| rank);
                Group::from_iter(ranks.filter(|&rank| (rank >= colors.second) == second).map(PeerId))
            };
            (same[0].0, Members { first: side(false), second: side(true) })
        })
        .collect()
}

impl Members {
    /// The processes, given those of the parent's groups.
    pub(crate) fn processes(&self, first: &Group, second: &Group) -> (Group, Group) {
        let of = |ranks: &Group, all: &Group, skip: u32| {
            Group::from_iter(ranks.peers().map(|rank| all.peer(Rank(rank.0 - skip))))
        };
        (of(&self.first, first, 0), of(&self.second, second, first.size()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{ROOM, WELL};
    use proptest::prelude::*;

    fn proposal(word: u64) -> Proposal {
        Proposal { mask: [word; 8], flags: WELL | ROOM, open: !word, age: Age((word % 7) as u32) }
    }

    /// Runs all processes; letters are delivered in an order that `order` decides.
    fn run(mut sweeps: Vec<Sweep>, order: u64) -> Vec<Outcome> {
        let mut letters: Vec<(u32, u32, Vec<u8>)> = Vec::new();
        let mut state = order;
        loop {
            for (from, sweep) in (0..).zip(&mut sweeps) {
                letters.extend(sweep.leaving().into_iter().map(|(to, letter)| (from, to, letter)));
            }
            let due: Vec<usize> = (0..letters.len())
                .filter(|&index| sweeps[letters[index].1 as usize].next() == Some(letters[index].0))
                .collect();
            if due.is_empty() {
                assert!(letters.is_empty(), "letters that nobody waits for");
                return sweeps.iter_mut().map(|sweep| sweep.outcome().expect("done")).collect();
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (_, to, letter) = letters.swap_remove(due[(state >> 33) as usize % due.len()]);
            sweeps[to as usize].hear(&letter).expect("a letter");
        }
    }

    #[test]
    fn all_get_what_all_agree_to() {
        for size in 1..40 {
            let sweeps = (0..size).map(|place| Sweep::agree(place, size, proposal(!(1 << place)))).collect();
            for outcome in run(sweeps, 7) {
                assert_eq!(outcome.agreed.mask, [!((1 << size) - 1); 8]);
                assert_eq!(outcome.members, None);
            }
        }
    }

    #[test]
    fn trees_join_all() {
        for size in 1..70 {
            for place in 0..size {
                let tree = Tree::new(place, size);
                let mut next = place + 1;
                for (child, below) in tree.children {
                    assert_eq!((child, Tree::new(child, size).parent), (next, Some(place)));
                    next += below;
                }
                assert!(place > 0 || next == size);
            }
        }
    }

    /// The definition: by color, side, key, rank.
    fn wanted(entries: &[Entry], second: u32, rank: usize) -> Option<Members> {
        let color = entries[rank].color;
        if color == Entry::NO_COLOR {
            return None;
        }
        let mut same: Vec<(i32, u32)> = (0..)
            .zip(entries)
            .filter(|(_, entry)| entry.color == color)
            .map(|(rank, entry)| (entry.key, rank))
            .collect();
        same.sort_unstable();
        let side = |second_side| {
            let ranks = same.iter().map(|&(_, rank)| rank).filter(|&rank| (rank >= second) == second_side);
            Group::from_iter(ranks.map(PeerId))
        };
        Some(Members { first: side(false), second: side(true) })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        /// Up to some hundred members, so that both forms of the way down are met.
        #[test]
        fn a_split_is_that_of_the_definition(
            size in 1u32..700, colors in 1i32..400, keys in 0i32..5, kind in 0u32..4, part in 0u32..=100, seed in any::<u64>(),
        ) {
            let mut state = seed;
            let mut random = |limit: i32| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((state >> 33) % limit.unsigned_abs() as u64) as i32
            };
            let entries: Vec<Entry> = (0..size as i32)
                .map(|rank| match kind {
                    0 => Entry { color: rank / colors, key: rank },
                    1 => Entry { color: rank % colors, key: -rank },
                    2 => Entry { color: random(colors + 1) - 1, key: random(keys + 1) },
                    _ => Entry { color: random(colors + 1) - 1, key: random(i32::MAX) },
                })
                .collect();
            let second = size * part / 100;
            let sweeps = (0..size)
                .map(|place| Sweep::split(place, size, second, entries[place as usize], proposal(5)))
                .collect();
            for (rank, outcome) in run(sweeps, seed).into_iter().enumerate() {
                prop_assert_eq!(outcome.agreed.mask, [5; 8]);
                prop_assert_eq!(outcome.members, wanted(&entries, second, rank));
            }
        }

        #[test]
        fn nonsense_is_refused_or_heard_but_does_no_harm(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), place in 0u32..4,
        ) {
            let own = Entry { color: 1, key: 0 };
            let mut sweep = Sweep::split(place, 4, 4, own, proposal(1));
            let _ = sweep.hear(&bytes);
        }
    }
}
