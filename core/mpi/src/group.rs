//! Groups: ordered sets of processes (section 7.2.1), stored so that the whole world or any strided part of it
//! costs a few bytes.

mod encoded;
mod lookup;
mod named;
mod pieces;
mod ranges;
#[cfg(test)]
mod tests;

pub use named::NamedGroups;
pub(crate) use pieces::Pieces;

use weft_types::{Error, ErrorClass, PeerId, Rank, Result, abi};

/// An ordered set of processes. Equal sequences of members have equal values, as long as groups are made by this module.
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
    /// A few regular stretches one after another.
    Pieces(PieceList),
    /// Any other order.
    List(Box<[PeerId]>),
}

/// Members `rank, rank + 1, ...` of a group: `first`, `first + stride`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    rank: u32,
    first: u32,
    stride: i32,
}

impl Piece {
    fn at(self, step: u32) -> i64 {
        i64::from(self.first) + i64::from(self.stride) * i64::from(step)
    }
}

/// The stretches of [`Group::Pieces`], by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceList {
    pieces: Box<[Piece]>,
    size: u32,
}

impl PieceList {
    /// Each stretch with its length.
    fn iter(&self) -> impl Iterator<Item = (Piece, u32)> + '_ {
        let ends = self.pieces.iter().skip(1).map(|piece| piece.rank).chain([self.size]);
        self.pieces.iter().zip(ends).map(|(&piece, end)| (piece, end - piece.rank))
    }

    /// Out of the way of regular groups, whose members are found in a few instructions.
    #[inline(never)]
    fn peer(&self, rank: u32) -> PeerId {
        let piece = self.pieces[self.pieces.partition_point(|piece| piece.rank <= rank) - 1];
        PeerId(piece.at(rank - piece.rank) as u32)
    }

    fn rank_of(&self, peer: PeerId) -> Option<Rank> {
        self.iter().find_map(|(piece, length)| {
            step_of(peer, piece.first, piece.stride, length).map(|step| Rank(piece.rank + step))
        })
    }
}

/// Which step of a progression a process is.
#[inline]
fn step_of(peer: PeerId, first: u32, stride: i32, length: u32) -> Option<u32> {
    let distance = i64::from(peer.0) - i64::from(first);
    let stride = i64::from(stride);
    let step = distance / stride;
    (distance % stride == 0 && step >= 0 && step < i64::from(length)).then_some(step as u32)
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

    /// Number of members.
    #[inline]
    pub fn size(&self) -> u32 {
        match self {
            Group::Strided { size, .. } => *size,
            Group::Pieces(pieces) => pieces.size,
            Group::List(peers) => peers.len() as u32,
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Group::Strided { .. } => 0,
            Group::Pieces(pieces) => size_of_val(&*pieces.pieces),
            Group::List(peers) => size_of_val(&**peers),
        }
    }

    /// The process of a valid rank.
    #[inline]
    pub fn peer(&self, rank: Rank) -> PeerId {
        match self {
            Group::Strided { first, stride, .. } => {
                PeerId(first.wrapping_add(rank.0.wrapping_mul(*stride as u32)))
            }
            Group::Pieces(pieces) => pieces.peer(rank.0),
            Group::List(peers) => peers[rank.0 as usize],
        }
    }

    /// The rank of a process; `None` when it is no member.
    pub fn rank_of(&self, peer: PeerId) -> Option<Rank> {
        match self {
            Group::Strided { first, stride, size } => step_of(peer, *first, *stride, *size).map(Rank),
            Group::Pieces(pieces) => pieces.rank_of(peer),
            Group::List(peers) => peers.iter().position(|&p| p == peer).map(|rank| Rank(rank as u32)),
        }
    }

    /// The members in order.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> + '_ {
        (0..self.size()).map(|rank| self.peer(Rank(rank)))
    }

    /// Compares two groups (section 7.3.1).
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.size() != other.size() {
            return Comparison::Unequal;
        }
        if self == other {
            return Comparison::Identical;
        }
        let find = other.lookup();
        match self.peers().all(|peer| find.rank_of(peer).is_some()) {
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
        let find = other.lookup_for(ranks.len());
        ranks
            .iter()
            .map(|&rank| {
                if rank == abi::MPI_PROC_NULL {
                    return Ok(rank);
                }
                let rank = self.check(rank)?;
                Ok(find.rank_of(self.peer(rank)).map_or(abi::MPI_UNDEFINED, |found| found.0 as i32))
            })
            .collect()
    }

    /// Members of this group, then those of `other` that are not here (section 7.3.2).
    #[must_use]
    pub fn union(&self, other: &Group) -> Group {
        let mut union = Pieces::default();
        union.push_group(self);
        let find = self.lookup();
        other.peers().filter(|&peer| find.rank_of(peer).is_none()).for_each(|peer| union.push(peer));
        union.finish()
    }

    /// Members of this group that are also in `other`, in the order here.
    #[must_use]
    pub fn intersection(&self, other: &Group) -> Group {
        let find = other.lookup();
        self.peers().filter(|&peer| find.rank_of(peer).is_some()).collect()
    }

    /// Members of this group that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Group) -> Group {
        let find = other.lookup();
        self.peers().filter(|&peer| find.rank_of(peer).is_none()).collect()
    }

    /// Members of this group, then those of `other`, which has none of these.
    #[must_use]
    pub(crate) fn followed_by(&self, other: &Group) -> Group {
        let mut both = Pieces::default();
        both.push_group(self);
        both.push_group(other);
        both.finish()
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
