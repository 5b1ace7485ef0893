//! Groups as bytes, for messages between processes: regular stretches, 12 bytes each, or a list, 4 bytes a member.

use super::Group;
use super::pieces::Pieces;
use crate::letters::Reader;
use weft_types::{PeerId, Result};

const STRETCHES: u8 = 0;
const LIST: u8 = 1;

impl Group {
    /// Appends the group's bytes.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        let mut stretch = |first: u32, stride: i32, length: u32| {
            to.extend_from_slice(&first.to_le_bytes());
            to.extend_from_slice(&stride.to_le_bytes());
            to.extend_from_slice(&length.to_le_bytes());
        };
        match self {
            Group::Strided { first, stride, size } => {
                stretch(STRETCHES.into(), 0, 1);
                stretch(*first, *stride, *size);
            }
            Group::Pieces(pieces) => {
                stretch(STRETCHES.into(), 0, pieces.iter().count() as u32);
                pieces.iter().for_each(|(piece, length)| stretch(piece.first, piece.stride, length));
            }
            Group::List(peers) => {
                stretch(LIST.into(), 0, peers.len() as u32);
                peers.iter().for_each(|peer| to.extend_from_slice(&peer.0.to_le_bytes()));
            }
        }
    }

    /// Takes a group from the front of a letter.
    ///
    /// # Errors
    /// `MPI_ERR_INTERN` for bytes that are none.
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Group> {
        let kind = from.number()?;
        from.number()?;
        let count = from.number()?;
        let mut pieces = Pieces::default();
        let mut total = 0_u64;
        for _ in 0..count {
            if kind == u32::from(LIST) {
                pieces.push(PeerId(from.number()?));
                continue;
            }
            let (first, stride, length) = (from.number()?, from.number()? as i32, from.number()?);
            total += u64::from(length);
            let last = i64::from(first) + i64::from(stride) * (i64::from(length) - 1).max(0);
            if total > u64::from(u32::MAX) || !(0..=i64::from(u32::MAX)).contains(&last) {
                return Err(from.broken());
            }
            pieces.push_progression(PeerId(first), stride, length);
        }
        Ok(pieces.finish())
    }
}
