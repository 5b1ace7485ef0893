//! Which ranks of a communicator live together: the tree of nodes and what is inside them, as the planner sees it.

use crate::model::Link;
use std::sync::Arc;

/// How the ranks of a communicator are cut into groups at one level.
#[derive(Clone, Debug, PartialEq)]
pub enum Partition {
    /// So many ranks after one another in each group; the last group may have fewer.
    Block(u32),
    /// Rank `r` is in group `r % groups`.
    Cyclic(u32),
    /// The group of each rank, numbered in the order of their lowest ranks.
    Listed(Arc<[u32]>),
}

impl Partition {
    /// The partition with these groups, in its shortest form.
    pub fn new(groups: &[u32]) -> Partition {
        let count = groups.iter().max().map_or(1, |&last| last + 1);
        let same = |partition: &Partition| {
            groups.iter().zip(0..).all(|(&group, rank)| partition.group(rank) == group)
        };
        let block = groups.iter().take_while(|&&group| Some(&group) == groups.first()).count().max(1);
        [Partition::Block(block as u32), Partition::Cyclic(count)]
            .into_iter()
            .find(same)
            .unwrap_or_else(|| Partition::Listed(groups.into()))
    }

    /// The group of a rank.
    pub fn group(&self, rank: u32) -> u32 {
        match self {
            Partition::Block(size) => rank / size,
            Partition::Cyclic(groups) => rank % groups,
            Partition::Listed(groups) => groups[rank as usize],
        }
    }

    /// Number of groups among `size` ranks.
    pub fn groups(&self, size: u32) -> u32 {
        match self {
            Partition::Block(block) => size.div_ceil(*block),
            Partition::Cyclic(groups) => size.min(*groups),
            Partition::Listed(groups) => groups.iter().max().map_or(0, |&last| last + 1),
        }
    }

    /// Ranks of the fullest group.
    pub fn fullest(&self, size: u32) -> u32 {
        match self {
            Partition::Block(block) => size.min(*block),
            Partition::Cyclic(groups) => size.div_ceil(*groups),
            Partition::Listed(groups) => {
                let mut counts = vec![0; self.groups(size) as usize];
                groups.iter().for_each(|&group| counts[group as usize] += 1);
                counts.into_iter().max().unwrap_or(0)
            }
        }
    }

    /// Whether all groups have equally many ranks, with the ranks of each after one another.
    pub fn is_even_block(&self, size: u32) -> bool {
        matches!(self, Partition::Block(block) if size.is_multiple_of(*block))
    }

    /// Whether the ranks of each group follow one another.
    pub fn is_contiguous(&self) -> bool {
        match self {
            Partition::Block(_) => true,
            Partition::Cyclic(groups) => *groups == 1,
            Partition::Listed(groups) => groups.is_sorted(),
        }
    }

    /// How many messages leave a group at once, at most, when every rank sends to the rank `distance` further on; with a
    /// `window`, both are in the same one of the windows of so many ranks that follow one another from rank 0 on.
    pub fn crossing(&self, distance: u32, window: Option<u32>, size: u32) -> f64 {
        if self.groups(size) <= 1 {
            return 0.0;
        }
        let crossing = match self {
            Partition::Block(block) if window.is_some_and(|window| block.is_multiple_of(window)) => 0,
            Partition::Block(block) => distance.min(*block),
            Partition::Cyclic(groups) if distance.is_multiple_of(*groups) => 0,
            Partition::Cyclic(_) | Partition::Listed(_) => self.fullest(size),
        };
        f64::from(crossing)
    }
}

/// One level of the tree: groups, and what joins ranks of different groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// The groups.
    pub groups: Partition,
    /// What a message takes that leaves a group of this level.
    pub link: Link,
}

/// The tree above the ranks, outermost level first; each level's groups lie within those of the level before. No levels:
/// all ranks are alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// The levels.
    pub levels: Vec<Level>,
}

/// Ranks that take part in one stage of an algorithm over the levels, ascending but for the one that `instead` names.
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    ranks: Ranks,
    /// At this place stands this rank.
    instead: Option<(u32, u32)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Ranks {
    /// `first`, `first + stride`, ..., `count` of them.
    Strided {
        first: u32,
        stride: u32,
        count: u32,
    },
    Listed(Vec<u32>),
}

impl Members {
    pub(crate) fn strided(first: u32, stride: u32, count: u32) -> Members {
        Members { ranks: Ranks::Strided { first, stride, count }, instead: None }
    }

    /// How many they are; never none.
    #[allow(clippy::len_without_is_empty, reason = "a stage without members is nobody's")]
    pub fn len(&self) -> u32 {
        match &self.ranks {
            Ranks::Strided { count, .. } => *count,
            Ranks::Listed(ranks) => ranks.len() as u32,
        }
    }

    /// The rank at a place.
    pub fn rank(&self, place: u32) -> u32 {
        match (self.instead, &self.ranks) {
            (Some((there, rank)), _) if there == place => rank,
            (_, Ranks::Strided { first, stride, .. }) => first + stride * place,
            (_, Ranks::Listed(ranks)) => ranks[place as usize],
        }
    }

    /// The place of a rank among the original ones.
    fn place(&self, rank: u32) -> Option<u32> {
        match &self.ranks {
            Ranks::Strided { first, stride, count } => {
                let offset = rank.checked_sub(*first)?;
                (offset.is_multiple_of(*stride) && offset / stride < *count).then_some(offset / stride)
            }
            Ranks::Listed(ranks) => ranks.binary_search(&rank).ok().map(|place| place as u32),
        }
    }
}

/// One stage: its members, this rank's place among them, and the place of the member that stands for them above.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Who takes part.
    pub members: Members,
    /// This rank's place among them.
    pub place: u32,
    /// The place of who stands for them.
    pub top: u32,
}

impl Layout {
    /// The stages this rank takes part in, innermost first. At each stage one member of a group, its lowest rank or `root`
    /// if that is in the group, stands for it at the next. The last stage is among those who stand for the outermost groups.
    pub fn stages(&self, rank: u32, size: u32, root: u32) -> Vec<Stage> {
        let mut stages = Vec::with_capacity(self.levels.len() + 1);
        for level in (0..=self.levels.len()).rev() {
            let outer = level.checked_sub(1).map(|outer| &self.levels[outer].groups);
            let inner = self.levels.get(level).map(|inner| &inner.groups);
            let members = members(rank, size, root, outer, inner);
            // The place in whose group (of the level within) the rank lies; it stands there itself or takes no part.
            let holds = |of: u32| match inner {
                None => members.place(of),
                Some(inner) => {
                    (0..members.len()).find(|&place| inner.group(members.rank(place)) == inner.group(of))
                }
            };
            let place = if inner.is_none() || members.place(rank).is_some() || rank == root {
                holds(rank)
            } else {
                None
            };
            let Some(place) = place.filter(|&place| members.rank(place) == rank) else { break };
            let with_root = outer.is_none_or(|outer| outer.group(root) == outer.group(rank));
            let top = if with_root {
                members.instead.map_or_else(|| holds(root), |(there, _)| Some(there))
            } else {
                None
            };
            stages.push(Stage { members, place, top: top.unwrap_or(0) });
        }
        stages
    }

    /// Whether the groups of every level are ranks after one another.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.levels.iter().all(|level| level.groups.is_contiguous())
    }

    /// Members of the largest stage between a level's groups and those of the level outside it; `None`: the whole.
    pub(crate) fn widest(&self, level: usize, size: u32) -> u32 {
        let count = |level: Option<&Level>| level.map_or(size, |level| level.groups.groups(size));
        let outer = level.checked_sub(1).map(|outer| &self.levels[outer]);
        let fullest = outer.map_or(size, |outer| outer.groups.fullest(size));
        match self.levels.get(level) {
            None => fullest,
            Some(inner) if outer.is_none() => count(Some(inner)),
            Some(inner) => fullest.div_ceil(inner.groups.fullest(size).max(1)),
        }
    }
}

/// Those who stand for the groups of `inner` (all ranks, without it) within `rank`'s group of `outer`.
fn members(rank: u32, size: u32, root: u32, outer: Option<&Partition>, inner: Option<&Partition>) -> Members {
    let with_root = outer.is_none_or(|outer| outer.group(root) == outer.group(rank));
    let ranks = match (outer, inner) {
        (None, None) => Ranks::Strided { first: 0, stride: 1, count: size },
        (None, Some(Partition::Block(block))) => {
            Ranks::Strided { first: 0, stride: *block, count: size.div_ceil(*block) }
        }
        (None, Some(Partition::Cyclic(groups))) => {
            Ranks::Strided { first: 0, stride: 1, count: size.min(*groups) }
        }
        (Some(Partition::Block(outer)), None | Some(Partition::Block(_))) => {
            let stride = if let Some(Partition::Block(inner)) = inner { *inner } else { 1 };
            let first = rank / outer * outer;
            Ranks::Strided { first, stride, count: (size - first).min(*outer).div_ceil(stride) }
        }
        (Some(Partition::Cyclic(groups)), None) => {
            let first = rank % groups;
            Ranks::Strided { first, stride: *groups, count: (size - first).div_ceil(*groups) }
        }
        _ => {
            let mut seen = std::collections::BTreeSet::new();
            let inside = |&other: &u32| outer.is_none_or(|outer| outer.group(other) == outer.group(rank));
            let first = |&other: &u32| inner.is_none_or(|inner| seen.insert(inner.group(other)));
            Ranks::Listed((0..size).filter(inside).filter(first).collect())
        }
    };
    let mut members = Members { ranks, instead: None };
    if let Some(inner) = inner
        && with_root
        && members.place(root).is_none()
    {
        let place = (0..members.len()).find(|&place| inner.group(members.rank(place)) == inner.group(root));
        members.instead = place.map(|place| (place, root));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layouts(size: u32) -> Vec<Layout> {
        let level = |groups: Partition| Level { groups, link: Link::default() };
        let mixed: Vec<u32> = (0..size).map(|rank| [0, 1, 0, 2, 1][rank as usize % 5].min(rank)).collect();
        vec![
            Layout::default(),
            Layout { levels: vec![level(Partition::Block(4))] },
            Layout { levels: vec![level(Partition::Cyclic(3))] },
            Layout { levels: vec![level(Partition::Block(12)), level(Partition::Block(3))] },
            Layout { levels: vec![level(Partition::new(&mixed))] },
            Layout { levels: vec![level(Partition::Cyclic(2)), level(Partition::Cyclic(6))] },
        ]
    }

    #[test]
    fn the_members_of_a_stage_agree_and_one_of_them_goes_on() {
        for size in [1, 2, 5, 7, 24, 41] {
            for layout in layouts(size) {
                for root in [0, size / 2, size - 1] {
                    let all: Vec<_> = (0..size).map(|rank| layout.stages(rank, size, root)).collect();
                    for (rank, stages) in (0..).zip(&all) {
                        assert!(!stages.is_empty());
                        for (depth, stage) in stages.iter().enumerate() {
                            assert_eq!(stage.members.rank(stage.place), rank);
                            for place in 0..stage.members.len() {
                                let other = &all[stage.members.rank(place) as usize][depth];
                                assert_eq!(
                                    (&other.members, other.top),
                                    (&stage.members, stage.top),
                                    "{layout:?}"
                                );
                                assert_eq!(other.place, place);
                            }
                            let goes_on = stages.len() > depth + 1;
                            let last = depth == layout.levels.len();
                            assert_eq!(
                                goes_on,
                                stage.place == stage.top && !last,
                                "{layout:?} {size} {root} {rank}"
                            );
                        }
                    }
                    assert_eq!(all[root as usize].len(), layout.levels.len() + 1);
                }
            }
        }
    }

    #[test]
    fn partitions_are_recognised() {
        assert_eq!(Partition::new(&[0, 0, 1, 1, 2]), Partition::Block(2));
        assert_eq!(Partition::new(&[0, 1, 2, 0, 1]), Partition::Cyclic(3));
        assert_eq!(Partition::new(&[0, 0, 0]), Partition::Block(3));
        assert!(matches!(Partition::new(&[0, 1, 1, 0]), Partition::Listed(_)));
    }
}
