//! Groups from members in order: regular stretches are found as they come, so that neither the result nor the way to it
//! takes memory for each member where there is regularity.

use super::{Group, Piece};
use weft_types::{PeerId, Rank};

/// Bytes of a piece, against 4 for a member in a list.
const PIECE_BYTES: usize = size_of::<Piece>();

/// Takes members in order and finds arithmetic progressions greedily. Equal sequences give equal groups, however they were
/// pushed.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pieces: Vec<Piece>,
    size: u32,
}

impl Pieces {
    /// Adds one member.
    pub(crate) fn push(&mut self, peer: PeerId) {
        let rank = self.size;
        self.size += 1;
        if let Some(last) = self.pieces.last_mut() {
            let length = rank - last.rank;
            match length {
                1 => {
                    let distance = i64::from(peer.0) - i64::from(last.first);
                    if let Ok(stride) = i32::try_from(distance)
                        && stride != 0
                    {
                        last.stride = stride;
                        return;
                    }
                }
                _ if last.at(length) == i64::from(peer.0) => return,
                _ => {}
            }
        }
        self.pieces.push(Piece { rank, first: peer.0, stride: 1 });
    }

    /// Adds `count` members from `first` on, `stride` apart; in constant time.
    pub(crate) fn push_progression(&mut self, first: PeerId, stride: i32, count: u32) {
        let piece = Piece { rank: 0, first: first.0, stride };
        // After three the piece under construction has this stride and ends here, so the others only lengthen it.
        (0..count.min(3)).for_each(|i| self.push(PeerId(piece.at(i) as u32)));
        self.size += count.saturating_sub(3);
    }

    /// Adds the members of a group.
    pub(crate) fn push_group(&mut self, group: &Group) {
        match group {
            Group::Strided { first, stride, size } => self.push_progression(PeerId(*first), *stride, *size),
            Group::Pieces(pieces) => {
                for (piece, length) in pieces.iter() {
                    self.push_progression(PeerId(piece.first), piece.stride, length);
                }
            }
            Group::List(peers) => peers.iter().for_each(|&peer| self.push(peer)),
        }
    }

    /// Adds the members of a group from rank `from` on up to, not including, `to`; in constant time for a strided one.
    pub(crate) fn push_ranks(&mut self, group: &Group, from: u32, to: u32) {
        match group {
            Group::Strided { stride, .. } if from < to => {
                self.push_progression(group.peer(Rank(from)), *stride, to - from);
            }
            _ => (from..to).for_each(|rank| self.push(group.peer(Rank(rank)))),
        }
    }

    /// The group, in the smallest form that can hold it.
    pub(crate) fn finish(self) -> Group {
        let Pieces { pieces, size } = self;
        match pieces[..] {
            [] => Group::EMPTY,
            [Piece { first, stride, .. }] => {
                Group::Strided { first, stride: if size == 1 { 1 } else { stride }, size }
            }
            _ if pieces.len() * PIECE_BYTES <= size as usize * size_of::<PeerId>() / 2 => {
                Group::Pieces(super::PieceList { pieces: pieces.into_boxed_slice(), size })
            }
            _ => {
                let list = super::PieceList { pieces: pieces.into_boxed_slice(), size };
                let members = list
                    .iter()
                    .flat_map(|(piece, length)| (0..length).map(move |step| PeerId(piece.at(step) as u32)));
                Group::List(members.collect())
            }
        }
    }
}

impl FromIterator<PeerId> for Group {
    /// The members in that order. The caller has excluded duplicates.
    fn from_iter<I: IntoIterator<Item = PeerId>>(peers: I) -> Group {
        let mut pieces = Pieces::default();
        peers.into_iter().for_each(|peer| pieces.push(peer));
        pieces.finish()
    }
}
