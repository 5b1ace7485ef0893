//! Groups: ordered sets of processes (section 7.2.1), stored so that the whole world or any strided part of it
//! costs a few bytes.

use std::collections::HashMap;
use weft_types::{Error, ErrorClass, PeerId, Rank, Result, abi};

/// An ordered set of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// Member `i` is process `first + i * stride`. A whole job is `first` 0, `stride` 1.
    Strided {
        /// Process of rank 0.
        first: u32,
        /// Distance between neighbours; may be negative.
        stride: i32,
        /// Number of members.
        size: u32,
    },
    /// Any other order.
    List(Box<[PeerId]>),
}

/// How two groups compare (section 7.3.1), by the value programs see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Comparison {
    /// Same members in the same order.
    Identical = abi::MPI_IDENT,
    /// For communicators: same members and order, other context.
    Congruent = abi::MPI_CONGRUENT,
    /// Same members in another order.
    Similar = abi::MPI_SIMILAR,
    /// Anything else.
    Unequal = abi::MPI_UNEQUAL,
}

impl Group {
    /// No members.
    pub const EMPTY: Group = Group::Strided { first: 0, stride: 1, size: 0 };

    /// Processes `0..size` in order.
    pub const fn world(size: u32) -> Group {
        Group::Strided { first: 0, stride: 1, size }
    }

    /// One process.
    pub const fn single(peer: PeerId) -> Group {
        Group::Strided { first: peer.0, stride: 1, size: 1 }
    }

    /// The members in that order, in the smallest form that can hold them. The caller has excluded duplicates.
    pub fn from_peers(peers: Vec<PeerId>) -> Group {
        let strided = match *peers {
            [] => Some(Group::EMPTY),
            [only] => Some(Group::single(only)),
            [first, second, ..] => {
                let stride = i64::from(second.0) - i64::from(first.0);
                let regular =
                    peers.windows(2).all(|pair| i64::from(pair[1].0) - i64::from(pair[0].0) == stride);
                match i32::try_from(stride) {
                    Ok(stride) if regular => {
                        Some(Group::Strided { first: first.0, stride, size: peers.len() as u32 })
                    }
                    _ => None,
                }
            }
        };
        strided.unwrap_or_else(|| Group::List(peers.into_boxed_slice()))
    }

    /// Number of members.
    #[inline]
    pub fn size(&self) -> u32 {
        match self {
            Group::Strided { size, .. } => *size,
            Group::List(peers) => peers.len() as u32,
        }
    }

    /// The process of a valid rank.
    #[inline]
    pub fn peer(&self, rank: Rank) -> PeerId {
        match self {
            Group::Strided { first, stride, .. } => {
                PeerId(first.wrapping_add(rank.0.wrapping_mul(*stride as u32)))
            }
            Group::List(peers) => peers[rank.0 as usize],
        }
    }

    /// The rank of a process; `None` when it is no member.
    pub fn rank_of(&self, peer: PeerId) -> Option<Rank> {
        match self {
            Group::Strided { first, stride, size } => {
                let distance = i64::from(peer.0) - i64::from(*first);
                let stride = i64::from(*stride);
                let rank = distance / stride;
                (distance % stride == 0 && rank >= 0 && rank < i64::from(*size)).then_some(Rank(rank as u32))
            }
            Group::List(peers) => peers.iter().position(|&p| p == peer).map(|rank| Rank(rank as u32)),
        }
    }

    /// The members in order.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> + '_ {
        (0..self.size()).map(|rank| self.peer(Rank(rank)))
    }

    /// Ranks of this group's processes, found in constant time each.
    fn index(&self) -> impl Fn(PeerId) -> Option<Rank> + '_ {
        let map: Option<HashMap<PeerId, Rank>> = match self {
            Group::Strided { .. } => None,
            Group::List(peers) => {
                Some(peers.iter().enumerate().map(|(rank, &peer)| (peer, Rank(rank as u32))).collect())
            }
        };
        move |peer| match &map {
            None => self.rank_of(peer),
            Some(map) => map.get(&peer).copied(),
        }
    }

    /// Compares two groups (section 7.3.1).
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.size() != other.size() {
            return Comparison::Unequal;
        }
        if self == other || self.peers().eq(other.peers()) {
            return Comparison::Identical;
        }
        let find = other.index();
        match self.peers().all(|peer| find(peer).is_some()) {
            true => Comparison::Similar,
            false => Comparison::Unequal,
        }
    }

    /// For each rank here the rank of the same process in `other`, by the integers programs see: `MPI_PROC_NULL`
    /// stays, a process that is no member there gives `MPI_UNDEFINED` (section 7.3.1).
    ///
    /// # Errors
    /// `MPI_ERR_RANK` for a rank that is not in this group.
    pub fn translate(&self, ranks: &[i32], other: &Group) -> Result<Vec<i32>> {
        let find = other.index();
        ranks
            .iter()
            .map(|&rank| {
                if rank == abi::MPI_PROC_NULL {
                    return Ok(rank);
                }
                let rank = self.check(rank)?;
                Ok(find(self.peer(rank)).map_or(abi::MPI_UNDEFINED, |found| found.0 as i32))
            })
            .collect()
    }

    /// Members of this group, then those of `other` that are not here (section 7.3.2).
    #[must_use]
    pub fn union(&self, other: &Group) -> Group {
        let find = self.index();
        Group::from_peers(self.peers().chain(other.peers().filter(|&peer| find(peer).is_none())).collect())
    }

    /// Members of this group that are also in `other`, in the order here.
    #[must_use]
    pub fn intersection(&self, other: &Group) -> Group {
        let find = other.index();
        Group::from_peers(self.peers().filter(|&peer| find(peer).is_some()).collect())
    }

    /// Members of this group that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Group) -> Group {
        let find = other.index();
        Group::from_peers(self.peers().filter(|&peer| find(peer).is_none()).collect())
    }

    /// The members of the given ranks, in that order.
    ///
    /// # Errors
    /// `MPI_ERR_RANK` for a rank outside the group or one given twice.
    pub fn include(&self, ranks: impl IntoIterator<Item = i32>) -> Result<Group> {
        let mut seen = vec![false; self.size() as usize];
        let mut peers = Vec::new();
        for rank in ranks {
            let rank = self.check(rank)?;
            if std::mem::replace(&mut seen[rank.0 as usize], true) {
                return Err(Error::new(
                    ErrorClass::RANK,
                    format!("rank {} is given twice; a group has each process once", rank.0),
                ));
            }
            peers.push(self.peer(rank));
        }
        Ok(Group::from_peers(peers))
    }

    /// The group without the members of the given ranks, in the order here.
    ///
    /// # Errors
    /// As [`Group::include`].
    pub fn exclude(&self, ranks: impl IntoIterator<Item = i32>) -> Result<Group> {
        let out = self.include(ranks)?;
        Ok(self.difference(&out))
    }

    /// The ranks that `(first, last, stride)` triplets stand for (section 7.3.2).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a stride of zero, `MPI_ERR_RANK` for a rank outside the group.
    pub fn expand_ranges(&self, ranges: &[[i32; 3]]) -> Result<Vec<i32>> {
        let mut ranks = Vec::new();
        for &[first, last, stride] in ranges {
            if stride == 0 {
                return Err(Error::new(
                    ErrorClass::ARG,
                    format!(
                        "the range ({first}, {last}, {stride}) has stride 0; it must be negative or positive"
                    ),
                ));
            }
            if (stride > 0) != (last >= first) && last != first {
                return Err(Error::new(
                    ErrorClass::ARG,
                    format!(
                        "the range ({first}, {last}, {stride}) never reaches its last rank; the sign of the stride is wrong"
                    ),
                ));
            }
            self.check(first)?;
            let steps = (i64::from(last) - i64::from(first)) / i64::from(stride);
            self.check((i64::from(first) + steps * i64::from(stride)) as i32)?;
            ranks.extend((0..=steps).map(|step| (i64::from(first) + step * i64::from(stride)) as i32));
        }
        Ok(ranks)
    }

    fn check(&self, rank: i32) -> Result<Rank> {
        if rank >= 0 && (rank as u32) < self.size() {
            return Ok(Rank(rank as u32));
        }
        Err(Error::new(
            ErrorClass::RANK,
            match self.size() {
                0 => format!("rank {rank} is given, but the group is empty"),
                size => format!("rank {rank} is outside 0..={} of the group", size - 1),
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn group(peers: &[u32]) -> Group {
        Group::from_peers(peers.iter().map(|&peer| PeerId(peer)).collect())
    }

    fn list(group: &Group) -> Vec<u32> {
        group.peers().map(|peer| peer.0).collect()
    }

    #[test]
    fn regular_groups_take_no_memory_per_member() {
        for peers in [&[][..], &[4], &[0, 1, 2, 3], &[1, 3, 5], &[9, 6, 3, 0]] {
            let group = group(peers);
            assert!(matches!(group, Group::Strided { .. }), "{group:?}");
            assert_eq!(list(&group), peers);
        }
        assert!(matches!(group(&[0, 1, 3]), Group::List(_)));
    }

    #[test]
    fn set_operations_keep_the_order_of_the_first_group() {
        let (a, b) = (group(&[5, 1, 3]), group(&[3, 0, 5]));
        assert_eq!(list(&a.union(&b)), [5, 1, 3, 0]);
        assert_eq!(list(&a.intersection(&b)), [5, 3]);
        assert_eq!(list(&a.difference(&b)), [1]);
        assert_eq!(a.difference(&a), Group::EMPTY);
    }

    #[test]
    fn comparison_tells_order_from_membership() {
        assert_eq!(group(&[0, 1, 2]).compare(&Group::world(3)), Comparison::Identical);
        assert_eq!(group(&[2, 1, 0]).compare(&Group::world(3)), Comparison::Similar);
        assert_eq!(group(&[0, 1, 3]).compare(&Group::world(3)), Comparison::Unequal);
        assert_eq!(Group::EMPTY.compare(&group(&[])), Comparison::Identical);
    }

    #[test]
    fn ranges_may_run_backwards_and_stop_before_their_last() {
        let world = Group::world(10);
        assert_eq!(world.expand_ranges(&[[8, 1, -3]]).expect("legal"), [8, 5, 2]);
        assert_eq!(world.expand_ranges(&[[0, 9, 4], [1, 1, 7]]).expect("legal"), [0, 4, 8, 1]);
        assert_eq!(world.expand_ranges(&[[0, 4, 0]]).expect_err("stride 0").class(), ErrorClass::ARG);
        assert_eq!(world.expand_ranges(&[[0, 12, 4]]).expect_err("outside").class(), ErrorClass::RANK);
        assert_eq!(world.expand_ranges(&[[5, 1, 1]]).expect_err("wrong sign").class(), ErrorClass::ARG);
    }

    #[test]
    fn translation_keeps_proc_null_and_marks_strangers() {
        let world = Group::world(4);
        let odd = group(&[3, 1]);
        let translated = world.translate(&[0, 1, abi::MPI_PROC_NULL, 3], &odd).expect("legal");
        assert_eq!(translated, [abi::MPI_UNDEFINED, 1, abi::MPI_PROC_NULL, 0]);
        assert_eq!(world.translate(&[4], &odd).expect_err("outside").class(), ErrorClass::RANK);
    }

    #[test]
    fn duplicates_are_refused() {
        let error = Group::world(3).include([1, 1]).expect_err("twice");
        assert_eq!(error.class(), ErrorClass::RANK);
    }

    proptest! {
        #[test]
        fn rank_and_peer_are_inverse(first in 0u32..1000, stride in -9i32..9, size in 1u32..40) {
            prop_assume!(stride != 0 && i64::from(first) + i64::from(stride) * 40 >= 0);
            let group = Group::Strided { first, stride, size };
            for rank in 0..size {
                prop_assert_eq!(group.rank_of(group.peer(Rank(rank))), Some(Rank(rank)));
            }
            let members: Vec<u32> = list(&group);
            for peer in 0..1500 {
                prop_assert_eq!(group.rank_of(PeerId(peer)).is_some(), members.contains(&peer));
            }
        }

        #[test]
        fn inclusion_and_exclusion_split_a_group(ranks in proptest::sample::subsequence((0..12).collect::<Vec<i32>>(), 0..12)) {
            let world = Group::world(12);
            let inside = world.include(ranks.iter().copied()).expect("legal");
            let outside = world.exclude(ranks.iter().copied()).expect("legal");
            prop_assert_eq!(inside.size() + outside.size(), 12);
            prop_assert_eq!(inside.intersection(&outside), Group::EMPTY);
            prop_assert_eq!(inside.union(&outside).compare(&world), match inside == world.intersection(&inside) {
                _ if inside.union(&outside) == world => Comparison::Identical,
                _ => Comparison::Similar,
            });
        }
    }
}
