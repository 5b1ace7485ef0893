//! From processes to ranks, for many processes at once.

use super::Group;
use weft_types::{PeerId, Rank};

/// Finds ranks in a group. What it keeps beside the group lives as long as the operation that looks up.
#[derive(Debug)]
pub(crate) enum Lookup<'a> {
    /// The group answers by itself, in a few steps.
    Computed(&'a Group),
    /// One place for each process number from the lowest on; `NOBODY` where there is no member.
    Table { lowest: u32, ranks: Vec<u32> },
    /// Members by process.
    Sorted(Vec<(PeerId, Rank)>),
}

const NOBODY: u32 = u32::MAX;

/// Up to so many stretches a search through them is faster than to build anything.
const FEW: usize = 8;

impl Lookup<'_> {
    /// The rank of a process; `None` when it is no member.
    pub(crate) fn rank_of(&self, peer: PeerId) -> Option<Rank> {
        match self {
            Lookup::Computed(group) => group.rank_of(peer),
            Lookup::Table { lowest, ranks } => {
                let rank = *ranks.get(peer.0.checked_sub(*lowest)? as usize)?;
                (rank != NOBODY).then_some(Rank(rank))
            }
            Lookup::Sorted(members) => {
                let found = members.binary_search_by_key(&peer, |&(member, _)| member).ok()?;
                Some(members[found].1)
            }
        }
    }
}

impl Group {
    /// Finds the ranks of many processes.
    pub(crate) fn lookup(&self) -> Lookup<'_> {
        self.lookup_for(usize::MAX)
    }

    /// Finds the ranks of `questions` processes: for a few it does not pay to build anything.
    pub(crate) fn lookup_for(&self, questions: usize) -> Lookup<'_> {
        let computed = match self {
            Group::Strided { .. } => true,
            Group::Pieces(pieces) => pieces.pieces.len() <= FEW,
            Group::List(peers) => peers.len() <= FEW,
        };
        if computed || questions <= 2 {
            return Lookup::Computed(self);
        }
        let lowest = self.peers().map(|peer| peer.0).min().unwrap_or(0);
        let highest = self.peers().map(|peer| peer.0).max().unwrap_or(0);
        let places = (highest - lowest) as usize + 1;
        if places / 8 <= self.size() as usize {
            let mut ranks = vec![NOBODY; places];
            self.peers().zip(0..).for_each(|(peer, rank)| ranks[(peer.0 - lowest) as usize] = rank);
            return Lookup::Table { lowest, ranks };
        }
        let mut members: Vec<(PeerId, Rank)> = self.peers().zip((0..).map(Rank)).collect();
        members.sort_unstable_by_key(|&(peer, _)| peer);
        Lookup::Sorted(members)
    }
}
