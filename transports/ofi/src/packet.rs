//! What stands in front of every message: who it is from, its place in the order, and what was received of the other way.
//!
//! 16 bytes, little-endian: key of the receiver (4), sender (4), sequence number (2), taken (2), arrived (2), kind (1), unused
//! (1). Data goes on with the engine's header and the payload.
#![forbid(unsafe_code)]

use weft_types::PeerId;
use weft_wire::Header;

/// Bytes of the prefix.
pub const PREFIX: usize = 16;
/// Bytes in front of the payload.
pub const HEAD: usize = PREFIX + 16;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A packet of the engine.
    Data,
    /// Only news of the other way: what arrived, what was taken.
    News,
    /// As [`What::News`], and asks for some.
    Ask,
    /// The sender has ended MPI: its end will be no loss.
    Rest,
    /// The process whose number follows (4 bytes) is about to end.
    Lost,
    /// The provider has failed the collective group of the name that follows (4 bytes).
    Broken,
}

impl What {
    fn code(self) -> u8 {
        match self {
            What::Data => 1,
            What::News => 2,
            What::Ask => 3,
            What::Rest => 4,
            What::Lost => 5,
            What::Broken => 6,
        }
    }

    fn from_code(code: u8) -> Option<What> {
        [What::Data, What::News, What::Ask, What::Rest, What::Lost, What::Broken]
            .into_iter()
            .find(|what| what.code() == code)
    }
}

/// The prefix as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The receiver's key, from its card: what comes from an earlier job has another.
    pub key: u32,
    /// The sender.
    pub from: PeerId,
    /// Number of a data packet among those of its way, modulo 2^16.
    pub sequence: u16,
    /// Packets of the other way that were taken, modulo 2^16.
    pub taken: u16,
    /// Packets of the other way that have arrived, modulo 2^16.
    pub arrived: u16,
    /// What follows.
    pub what: What,
}

impl Prefix {
    /// As bytes.
    pub fn emit(&self) -> [u8; PREFIX] {
        let mut bytes = [0; PREFIX];
        bytes[0..4].copy_from_slice(&self.key.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.from.0.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.taken.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.arrived.to_le_bytes());
        bytes[14] = self.what.code();
        bytes
    }

    /// From a message; `None` for one that is too short for what it says it is, or says nothing that is known.
    pub fn parse(message: &[u8]) -> Option<Prefix> {
        let bytes: &[u8; PREFIX] = message.get(..PREFIX)?.try_into().ok()?;
        let long = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let what = What::from_code(bytes[14])?;
        if what == What::Data && message.len() < HEAD {
            return None;
        }
        Some(Prefix {
            key: long(0),
            from: PeerId(long(4)),
            sequence: short(8),
            taken: short(10),
            arrived: short(12),
            what,
        })
    }
}

/// The engine's header as bytes.
pub fn header_bytes(header: Header) -> [u8; 16] {
    let [first, second] = header.words().map(u64::to_le_bytes);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first);
    bytes[8..].copy_from_slice(&second);
    bytes
}

/// The engine's header of a data message.
pub fn header_of(message: &[u8]) -> Header {
    let word = |at: usize| u64::from_le_bytes(message[at..at + 8].try_into().expect("eight bytes"));
    Header::from_words([word(PREFIX), word(PREFIX + 8)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(key: u32, from: u32, numbers: [u16; 3], code in 1_u8..=6) {
            let what = What::from_code(code).unwrap();
            let [sequence, taken, arrived] = numbers;
            let prefix = Prefix { key, from: PeerId(from), sequence, taken, arrived, what };
            let mut message = prefix.emit().to_vec();
            message.resize(HEAD, 0);
            prop_assert_eq!(Prefix::parse(&message), Some(prefix));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>) {
            if let Some(prefix) = Prefix::parse(&bytes) {
                prop_assert!(prefix.what != What::Data || bytes.len() >= HEAD);
                prop_assert_eq!(&prefix.emit()[..15], &bytes[..15]);
            }
        }
    }
}
