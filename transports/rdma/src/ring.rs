//! Rings: places in a receiver's memory that one sender writes its short messages to. Pure: who may write where, what is valid,
//! what is over.
//!
//! A *record* is a message's header and payload and, behind them, eight bytes that say so ([`Tail`]). It stands at the end of
//! its place, so that the tail is always at the same address: the receiver looks at one word, and nothing need be cleared after
//! a lap.
//!
//! # When a record is there
//! The tail holds the lap of the ring. Before the record comes, its place holds what came a lap earlier (or zeroes before the
//! first), so a tail with the expected lap is the new one, or the new one in part. It says more than itself only where the
//! device makes the bytes of one packet visible in the order of their addresses
//! ([`Hca::writes_in_order`](weft_api::verbs::Hca::writes_in_order)): the lap is in the last two bytes of the record, so
//! whoever sees it, sees all bytes before it, if the look was an acquire ([`Hca::word`](weft_api::verbs::Hca::word)). The two
//! bytes may come apart: then one of them is new and the other is that of the lap before; where they differ in one byte only,
//! the other one is no matter, and where they differ in both, half a lap is a number that is not expected. A record never has
//! more bytes than one packet, since packets may be written in any order by cards that route them by several ways. Where the
//! device promises nothing, every record completes a receive request (*told*), and a completion is the word that everything
//! before it is there.
//!
//! A place is written again when the receiver has said that the record is taken, which it says after its last look at it: the
//! request that says so is posted later in the program's order, and drivers put a barrier before their doorbells. So the new
//! bytes are after the last look at the old ones. `tests/loom_ring.rs` models both halves, with a device that stores byte by
//! byte.
//!
//! # In which order
//! A message goes by ring or by send, and a tail says the number of its message: how many the sender ever sent before it. The
//! receiver counts what it took. A record with a later number waits, since a send before it has a completion that was not
//! looked at yet. When a send completes, all records before it are there (the connection does its requests in order, and a
//! completion makes what came before it visible: section 9.5, o9-20), and they are taken first. What was *put* before a message
//! must be seen with it. That rule names completions only, so the first message after anything that is no message goes by send.
//!
//! # How many
//! Who has no place left sends. That places are free is said with records of the other direction, and where there are none by
//! an empty write with immediate data when half of the ring is taken. A connection that fails takes its rings with it: what was
//! not counted is repeated by send.

use crate::transport::HEADER_BYTES;
use weft_api::verbs::{Nanos, RemoteAddress, RemoteKey};

/// Places of a ring that is given: a power of two.
pub const PLACES: u16 = 64;
/// Bytes of each, a multiple of eight.
pub const PLACE_BYTES: u16 = 512;
/// Bytes behind a record.
pub const TAIL_BYTES: usize = 8;

/// What stands behind a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// How often the ring was begun, from 1 on, wrapping.
    pub lap: u16,
    /// Bytes of header and payload.
    pub length: u16,
    /// Records of the other direction that its sender has taken, wrapping.
    pub taken: u16,
    /// Messages that its sender sent before this one, wrapping.
    pub number: u16,
}

impl Tail {
    /// The bytes: little-endian, the lap last.
    pub fn emit(self) -> [u8; TAIL_BYTES] {
        let [lap, length, taken, number] = [self.lap, self.length, self.taken, self.number].map(u64::from);
        (lap << 48 | length << 32 | taken << 16 | number).to_le_bytes()
    }

    /// What a word of the ring says.
    pub const fn of(word: u64) -> Tail {
        Tail {
            lap: (word >> 48) as u16,
            length: (word >> 32) as u16,
            taken: (word >> 16) as u16,
            number: word as u16,
        }
    }
}

/// The lap that a record of a ring belongs to.
pub const fn lap(record: u32, places: u16) -> u16 {
    (record / places as u32).wrapping_add(1) as u16
}

/// Where a record's tail is in its ring.
pub const fn tail_at(record: u32, places: u16, place_bytes: u16) -> u64 {
    let place = record % places as u32;
    (place as u64 + 1) * place_bytes as u64 - TAIL_BYTES as u64
}

/// What the two ends of a connection say of rings, by sends with [`Word::MARK`] as immediate data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// "Write your short messages here."
    Give {
        /// Where it begins, and the key of its region.
        to: RemoteAddress,
        /// Places, a power of two.
        places: u16,
        /// Bytes of each.
        place_bytes: u16,
        /// Whether each record shall complete a receive request.
        told: bool,
    },
    /// "Write no more there, and say so."
    TakeBack,
    /// "Nothing more is written there."
    Returned,
}

impl Word {
    /// Immediate data of sends that are no messages.
    pub const MARK: u32 = 0x5745_4654;
    /// Bytes on the wire.
    pub const BYTES: usize = 24;

    /// The bytes, little-endian.
    pub fn emit(self) -> [u8; Word::BYTES] {
        let (kind, to, sizes, told) = match self {
            Word::Give { to, places, place_bytes, told } => {
                (1, Some(to), u64::from(places) << 16 | u64::from(place_bytes) << 32, u64::from(told))
            }
            Word::TakeBack => (2, None, 0, 0),
            Word::Returned => (3, None, 0, 0),
        };
        let words =
            [kind | told << 8 | sizes, to.map_or(0, |to| to.address), to.map_or(0, |to| u64::from(to.key.0))];
        let mut bytes = [0; Word::BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None` for bytes that are none of ours, or a ring that cannot be.
    pub fn parse(bytes: &[u8]) -> Option<Word> {
        let bytes: &[u8; Word::BYTES] = bytes.try_into().ok()?;
        let mut words =
            bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let [first, address, key] = [words.next()?, words.next()?, words.next()?];
        let (places, place_bytes) = ((first >> 16) as u16, (first >> 32) as u16);
        let word = match first & 0xff {
            1 => {
                let ring = u64::from(places) * u64::from(place_bytes);
                let sane = places.is_power_of_two()
                    && places <= 1 << 14
                    && place_bytes.is_multiple_of(8)
                    && usize::from(place_bytes) >= HEADER_BYTES + TAIL_BYTES
                    && address.is_multiple_of(8)
                    && address.checked_add(ring).is_some();
                let to = RemoteAddress { address, key: RemoteKey(u32::try_from(key).ok()?) };
                sane.then_some(Word::Give { to, places, place_bytes, told: first >> 8 & 0xff == 1 })?
            }
            2 => Word::TakeBack,
            3 => Word::Returned,
            _ => return None,
        };
        (word.emit() == *bytes).then_some(word)
    }
}

/// The ring at a peer that this end writes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    to: RemoteAddress,
    places: u16,
    place_bytes: u16,
    pub(crate) told: bool,
    /// Records written and taken, ever, wrapping.
    written: u32,
    taken: u32,
    /// The number of the next message.
    number: u16,
    /// The request after the newest message: another that comes next is one of something else.
    last: u64,
}

impl Outgoing {
    /// A ring that a peer gives, when `messages` were ever sent to it. The next one is sent: what was put before may not be
    /// seen yet.
    pub(crate) fn new(word: Word, messages: u32) -> Option<Outgoing> {
        let Word::Give { to, places, place_bytes, told } = word else { return None };
        let number = messages as u16;
        Some(Outgoing { to, places, place_bytes, told, written: 0, taken: 0, number, last: u64::MAX })
    }

    /// Where a record of `length` bytes goes and its tail, if it may be written as request `next`, in packets of at most `mtu`
    /// bytes, by an end that has taken `taken` records of the peer.
    pub(crate) fn place(
        &self,
        length: usize,
        next: u64,
        mtu: u16,
        taken: u16,
    ) -> Option<(RemoteAddress, [u8; TAIL_BYTES])> {
        let whole = length + TAIL_BYTES;
        let free = self.written.wrapping_sub(self.taken) < u32::from(self.places);
        if !free || self.last != next || whole > usize::from(self.place_bytes.min(mtu)) {
            return None;
        }
        let at = tail_at(self.written, self.places, self.place_bytes) - length as u64;
        let tail =
            Tail { lap: lap(self.written, self.places), length: length as u16, taken, number: self.number };
        Some((RemoteAddress { address: self.to.address + at, key: self.to.key }, tail.emit()))
    }

    /// A record was posted, that [`Outgoing::place`] gave a place.
    pub(crate) fn wrote(&mut self) {
        self.written = self.written.wrapping_add(1);
    }

    /// A message was posted as the request before `next`, by whichever way.
    pub(crate) fn sent(&mut self, next: u64) {
        (self.number, self.last) = (self.number.wrapping_add(1), next);
    }

    /// An empty write was posted as the request before `next`: nothing that a message must not overtake.
    pub(crate) fn closed(&mut self, next: u64) {
        if self.last.checked_add(1) == Some(next) {
            self.last = next;
        }
    }

    /// The peer has taken so many records, as one of its words says. Those may come in any order.
    pub(crate) fn heard(&mut self, taken: u16) {
        let under_way = self.written.wrapping_sub(self.taken);
        let now = u32::from((self.written as u16).wrapping_sub(taken));
        if now < under_way {
            self.taken = self.written.wrapping_sub(now);
        }
    }
}

/// The ring of this end that a peer writes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    /// Which of all rings of the device it is.
    pub(crate) block: u32,
    /// Records seen and taken, ever, wrapping; and how many the peer was told of.
    seen: u32,
    taken: u32,
    said: u32,
    /// When a record came last.
    pub(crate) used: Nanos,
    /// It was asked back.
    pub(crate) asked: bool,
    /// Each record completes a receive request.
    pub(crate) told: bool,
}

impl Incoming {
    pub(crate) const fn new(block: u32, told: bool, now: Nanos) -> Incoming {
        Incoming { block, seen: 0, taken: 0, said: 0, used: now, asked: false, told }
    }

    /// Where the tail of the next record is; `None`: all places hold some that are not taken.
    pub(crate) fn next(&self) -> Option<u64> {
        let full = self.seen.wrapping_sub(self.taken) >= u32::from(PLACES);
        (!full).then(|| tail_at(self.seen, PLACES, PLACE_BYTES))
    }

    /// Whether a word is the tail of the next record, and that is the message after `received` others: see the module.
    pub(crate) fn is_next(&self, word: u64, received: u32) -> Option<Tail> {
        let tail = Tail::of(word);
        (tail.lap == lap(self.seen, PLACES) && tail.number == received as u16).then_some(tail)
    }

    /// It was seen. Its place.
    pub(crate) fn saw(&mut self) -> u16 {
        let place = self.seen % u32::from(PLACES);
        self.seen = self.seen.wrapping_add(1);
        place as u16
    }

    /// The oldest record that was seen will not be looked at any more. Whether the peer should hear of it.
    pub(crate) fn took(&mut self) -> bool {
        self.taken = self.taken.wrapping_add(1);
        self.owes()
    }

    /// Whether half of the ring is taken and the peer does not know.
    pub(crate) fn owes(&self) -> bool {
        self.taken.wrapping_sub(self.said) >= u32::from(PLACES / 2)
    }

    /// How many were taken.
    pub(crate) fn taken(&self) -> u16 {
        self.taken as u16
    }

    /// The peer was told.
    pub(crate) fn has_said(&mut self) {
        self.said = self.taken;
    }
}

/// Bytes of a record that can be: header and payload.
pub(crate) fn fits(tail: Tail) -> bool {
    (HEADER_BYTES..=usize::from(PLACE_BYTES) - TAIL_BYTES).contains(&usize::from(tail.length))
}

#[cfg(test)]
mod tests;
