//! What stands in front of every message: who it is from, its place in the order, and what was received of the other way.
//!
//! 16 bytes, little-endian: key of the receiver (4), sender (4), sequence number (2), taken (2), arrived (2), kind (4
//! bits), era (12 bits). Data goes on with the engine's header and the payload.
//!
//! Several packets that leave together ([`What::Many`]) have one prefix, with the number of the first. Each takes a multiple of eight
//! bytes; every one but the first begins with a word that tells the length of its payload, and the last word of the message tells
//! that of the first (4) and how many there are (4): so one packet alone lies as data does.
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
    /// Several packets of the engine.
    Many,
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
            What::Many => 7,
        }
    }

    fn from_code(code: u8) -> Option<What> {
        [What::Data, What::News, What::Ask, What::Rest, What::Lost, What::Broken, What::Many]
            .into_iter()
            .find(|what| what.code() == code)
    }
}

/// How often a process has ended MPI or gone on, modulo 2^12.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Era(u16);

impl Era {
    /// Whether the process has ended MPI and has not gone on since.
    pub fn rests(self) -> bool {
        self.0 & 1 == 1
    }

    /// The one that begins when a process that rests goes on, or one that does not ends MPI.
    #[must_use]
    pub fn next(self) -> Era {
        Era((self.0 + 1) & 0xfff)
    }

    /// Whether this one is not before another.
    pub fn is_since(self, other: Era) -> bool {
        self.0.wrapping_sub(other.0) & 0xfff < 0x800
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
    /// How often the sender has ended MPI or gone on, modulo 2^12: odd while it rests. What it said before may be seen later.
    pub era: Era,
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
        bytes[14] = self.what.code() | (self.era.0 >> 8 << 4) as u8;
        bytes[15] = self.era.0 as u8;
        bytes
    }

    /// From a message; `None` for one that is too short for what it says it is, or says nothing that is known.
    pub fn parse(message: &[u8]) -> Option<Prefix> {
        let bytes: &[u8; PREFIX] = message.get(..PREFIX)?.try_into().ok()?;
        let long = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let what = What::from_code(bytes[14] & 0xf)?;
        if what == What::Data && message.len() < HEAD {
            return None;
        }
        Some(Prefix {
            key: long(0),
            from: PeerId(long(4)),
            sequence: short(8),
            taken: short(10),
            arrived: short(12),
            era: Era(u16::from(bytes[14] >> 4) << 8 | u16::from(bytes[15])),
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

/// The engine's header, which lies at this place of a message.
pub fn header_at(message: &[u8], at: usize) -> Header {
    let word = |at: usize| u64::from_le_bytes(message[at..at + 8].try_into().expect("eight bytes"));
    Header::from_words([word(at), word(at + 8)])
}

/// Bytes of the word before each packet but the first, and after the last.
pub const WORD: usize = 8;
/// Bytes of the engine's header.
const HEADER: usize = HEAD - PREFIX;

/// Packets that are put together in a message, as far as they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together {
    /// Payload of the first.
    first: u32,
    /// How many.
    count: u16,
    /// Bytes of the message so far.
    end: u32,
}

impl Together {
    /// None yet.
    pub const NONE: Together = Together { first: 0, count: 0, end: PREFIX as u32 };

    /// How many.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Whether another one with a payload of `length` bytes still fits into `bytes`, with what stands behind the last one.
    pub fn has_room(&self, length: usize, bytes: usize) -> bool {
        let before = if self.count == 0 { 0 } else { WORD };
        (self.end as usize).next_multiple_of(WORD) + before + (HEADER + length).next_multiple_of(WORD) + WORD
            <= bytes
    }

    /// Puts another one there, whose payload `fill` writes.
    pub fn put(&mut self, message: &mut [u8], header: Header, length: usize, fill: impl FnOnce(&mut [u8])) {
        let mut at = (self.end as usize).next_multiple_of(WORD);
        if self.count == 0 {
            self.first = length as u32;
        } else {
            message[at..at + WORD].copy_from_slice(&(length as u64).to_le_bytes());
            at += WORD;
        }
        message[at..at + HEADER].copy_from_slice(&header_bytes(header));
        at += HEADER;
        fill(&mut message[at..at + length]);
        self.count += 1;
        self.end = (at + length) as u32;
    }

    /// Writes what stands at both ends. The bytes of the whole message.
    pub fn close(&self, message: &mut [u8], prefix: Prefix) -> usize {
        let what = if self.count == 1 { What::Data } else { What::Many };
        message[..PREFIX].copy_from_slice(&Prefix { what, ..prefix }.emit());
        if self.count == 1 {
            return self.end as usize;
        }
        let at = (self.end as usize).next_multiple_of(WORD);
        message[at..at + 4].copy_from_slice(&self.first.to_le_bytes());
        message[at + 4..at + WORD].copy_from_slice(&u32::from(self.count).to_le_bytes());
        at + WORD
    }
}

/// Where the packets of a message lie: of each the place of its header, and the bytes of its payload. They end early where the message
/// contradicts itself.
pub fn parts(message: &[u8], what: What) -> impl Iterator<Item = (usize, usize)> + '_ {
    let last = message.len().saturating_sub(WORD);
    let half = |at: usize| {
        message.get(at..at + 4).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
            as usize
    };
    let (mut next, count, end) = match what {
        What::Data => ((PREFIX, message.len() - HEAD), 1, message.len()),
        What::Many => ((PREFIX, half(last)), half(last + 4), last),
        _ => ((0, 0), 0, 0),
    };
    (0..count).map_while(move |_| {
        let (header, payload) = next;
        let after = header.checked_add(HEADER)?.checked_add(payload).filter(|&after| after <= end)?;
        let word = after.next_multiple_of(WORD);
        next = (word + WORD, half(word));
        Some((header, payload))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_types::{ContextId, Rank, Tag};
    use weft_wire::Kind;

    #[test]
    fn eras_follow_each_other_also_when_their_number_wraps() {
        let mut era = Era::default();
        for _ in 0..5000 {
            let next = era.next();
            assert!(next.is_since(era) && next.is_since(next) && !era.is_since(next));
            assert_ne!(next.rests(), era.rests());
            era = next;
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(key: u32, from: u32, numbers: [u16; 3], era in 0_u16..4096, code in 1_u8..=7) {
            let what = What::from_code(code).unwrap();
            let [sequence, taken, arrived] = numbers;
            let prefix = Prefix { key, from: PeerId(from), sequence, taken, arrived, era: Era(era), what };
            let mut message = prefix.emit().to_vec();
            message.resize(HEAD, 0);
            prop_assert_eq!(Prefix::parse(&message), Some(prefix));
        }

        #[test]
        fn packets_that_leave_together_are_found_again(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..20)) {
            let mut message = vec![0; 4096];
            let mut together = Together::NONE;
            let tagged = |tag: usize| Header::new(Kind::Eager, ContextId(3), Rank(1), Tag(tag as i32));
            for (tag, payload) in payloads.iter().enumerate() {
                prop_assert!(together.has_room(payload.len(), message.len()));
                together.put(&mut message, tagged(tag), payload.len(), |place| place.copy_from_slice(payload));
            }
            let prefix = Prefix { key: 1, from: PeerId(2), sequence: 3, taken: 4, arrived: 5, era: Era(6), what: What::News };
            let bytes = together.close(&mut message, prefix);
            prop_assert!(!together.has_room(0, bytes), "what is written fits into what was counted");
            let message = &message[..bytes];
            let what = Prefix::parse(message).unwrap().what;
            prop_assert_eq!(what == What::Data, payloads.len() == 1);
            let found: Vec<_> = parts(message, what).map(|(at, length)| (header_at(message, at), &message[at + 16..at + 16 + length])).collect();
            let sent: Vec<_> = payloads.iter().enumerate().map(|(tag, payload)| (tagged(tag), &payload[..])).collect();
            prop_assert_eq!(found, sent);
        }

        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>, many: bool, lengths: [u32; 2]) {
            let mut bytes = bytes;
            if many {
                bytes.resize(bytes.len().max(PREFIX), 0);
                bytes[14] = What::Many.code();
                bytes.extend_from_slice(&lengths[0].to_le_bytes());
                bytes.extend_from_slice(&lengths[1].to_le_bytes());
            }
            if let Some(prefix) = Prefix::parse(&bytes) {
                for (at, length) in parts(&bytes, prefix.what) {
                    prop_assert!(at + HEADER + length <= bytes.len());
                }
                prop_assert!(prefix.what != What::Data || bytes.len() >= HEAD);
                prop_assert_eq!(&prefix.emit()[..], &bytes[..PREFIX]);
            }
        }
    }
}
