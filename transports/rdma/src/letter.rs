//! The datagrams that messages go by: see [`crate::stream`] for what they mean.

use crate::stream::{Ack, Piece};
use weft_types::PeerId;

/// What stands in front of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) from: PeerId,
    pub(crate) to: PeerId,
    /// Which of all processes that ever had its number the sender is.
    pub(crate) life: u32,
    /// Which of the ways between the two, one after another, it belongs to.
    pub(crate) epoch: u32,
    pub(crate) ack: Ack,
    /// Whether an acknowledgement is wanted at once.
    pub(crate) ask: bool,
    /// What follows; `None`: nothing.
    pub(crate) piece: Option<Piece>,
}

/// Of the format.
pub(crate) const VERSION: u32 = 1;
/// "WFD" and the version.
const MAGIC: u32 = 0x5746_4400 | VERSION;

const HAS_PIECE: u32 = 1;
const FIRST: u32 = 2;
const LAST: u32 = 4;
const ASK: u32 = 8;

impl Letter {
    /// Bytes in front of a piece.
    pub(crate) const BYTES: usize = 36;

    /// The bytes, little-endian.
    pub(crate) fn emit(self) -> [u8; Letter::BYTES] {
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        let flags = self.piece.map_or(0, |piece| HAS_PIECE | bit(piece.first, FIRST) | bit(piece.last, LAST));
        let words = [
            MAGIC,
            flags | bit(self.ask, ASK) | u32::from(self.ack.room) << 8,
            self.from.0,
            self.to.0,
            self.life,
            self.epoch,
            self.piece.map_or(0, |piece| piece.number),
            self.ack.before,
            self.ack.besides,
        ];
        let mut bytes = [0; Letter::BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The letter and its piece's bytes; `None` for bytes that are none of ours.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Letter, &[u8])> {
        let (head, body) = bytes.split_first_chunk::<{ Letter::BYTES }>()?;
        let word =
            |i: usize| u32::from_le_bytes([head[4 * i], head[4 * i + 1], head[4 * i + 2], head[4 * i + 3]]);
        let flags = word(1) & 0xff;
        let has_piece = flags & HAS_PIECE != 0;
        let piece = has_piece.then_some(Piece {
            number: word(6),
            first: flags & FIRST != 0,
            last: flags & LAST != 0,
        });
        let letter = Letter {
            from: PeerId(word(2)),
            to: PeerId(word(3)),
            life: word(4),
            epoch: word(5),
            ack: Ack { before: word(7), besides: word(8), room: (word(1) >> 8) as u8 },
            ask: flags & ASK != 0,
            piece,
        };
        let sane = word(0) == MAGIC
            && word(1) >> 16 == 0
            && flags & !(HAS_PIECE | FIRST | LAST | ASK) == 0
            && has_piece != body.is_empty()
            && (has_piece || flags & (FIRST | LAST) == 0 && word(6) == 0);
        sane.then_some((letter, body))
    }
}

/// What a fuzzer calls with a datagram's bytes: a letter that is read is written the same.
///
/// # Panics
/// When it is not.
pub fn check_letter(bytes: &[u8]) {
    if let Some((letter, body)) = Letter::parse(bytes) {
        assert_eq!(letter.emit(), bytes[..Letter::BYTES], "{letter:?}");
        assert_eq!(body, &bytes[Letter::BYTES..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn what_is_read_was_written(words in proptest::collection::vec(proptest::prelude::any::<u32>(), 7),
                                    flags in 0_u32..0x2_0000, body in 0_usize..3) {
            let head = [MAGIC, flags].into_iter().chain(words).flat_map(u32::to_le_bytes);
            let bytes: Vec<u8> = head.chain(std::iter::repeat_n(7, body)).collect();
            check_letter(&bytes);
        }
    }

    #[test]
    fn letters_come_back() {
        let ack = Ack { before: 0xffff_ffff, besides: 0x8000_0001, room: 32 };
        let piece = Piece { number: 17, first: true, last: false };
        let letter = Letter {
            from: PeerId(3),
            to: PeerId(u32::MAX),
            life: 0xfeed,
            epoch: 2,
            ack,
            ask: true,
            piece: Some(piece),
        };
        let mut bytes = letter.emit().to_vec();
        assert_eq!(Letter::parse(&bytes), None, "a piece has bytes");
        bytes.push(9);
        assert_eq!(Letter::parse(&bytes), Some((letter, &[9][..])));
        let bare = Letter { piece: None, ..letter };
        assert_eq!(Letter::parse(&bare.emit()), Some((bare, &[][..])));
        assert_eq!(Letter::parse(&bare.emit()[1..]), None);
    }
}
