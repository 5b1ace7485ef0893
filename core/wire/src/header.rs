//! The envelope: what kind of packet this is and what it matches.
//!
//! ```text
//!                 63..32    31..16   15..8   7..0
//! word 0:         context   (zero)   flags   kind
//! word 1:         source    tag (31..0)
//!
//! control packets (all kinds but Eager, EagerSync and Rts):
//! word 0:         id        (zero)   flags   kind
//! word 1:         value
//! ```
//!
//! Word 1 and the upper half of word 0 are the matching key, so that a posted receive without wildcards is
//! compared in two instructions. Control packets match nothing; they name a request and carry one number:
//!
//! | kind | id | value | payload |
//! | --- | --- | --- | --- |
//! | Cts | sender's request | packed bytes wanted | receiver's request ([`crate::payload::Cts`]); with flag `INTO` a [`crate::payload::RemotePlace`] |
//! | Written | receiver's request | bytes written to that place | |
//! | Share | sender's request | 0 | |
//! | Shared | place in the table of parts (`weft_api::shares`) | 1 when the part is written, 0 when it cannot be | |
//! | Fragment | receiver's request, 0 for the lead of the newest Rts | packed offset | data |
//! | Matched | sender's request | 0 | |
//! | Taken | sender's request | after a message that was read: from which length on others are worth announcing that could leave unasked, 0: none; else 0; flag [`crate::payload::LATE`] when it was offered and nobody waited for it | |
//! | Took | length of the message | nanoseconds from the time that it bore to its end here; flag [`crate::payload::READ`] when it was read | |
//! | Credit | 0 | bytes of budget; announcements in the upper half | |
//! | More | channel | announcements | |
//! | Part | receiver's landing | epoch in the upper half, packed offset in the lower | data |
//! | Cancel | sender's request | 0; 1 when nothing is to be forgotten, but answered | |
//! | CancelReply | sender's request | 1 when cancelled, else 0; 2 to a Cancel of 1 | |
//! | Lost | process that the sender has lost | 0 | |
//! | Lost | process that has ended MPI without waiting for anybody, as the sender itself or somebody who told it | its farewell (`weft_types::Farewell`), not 0 | |

use weft_types::{ContextId, Rank, Tag};

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A whole message: payload is the packed user data.
    Eager = 1,
    /// A whole message whose sender waits for [`Kind::Matched`]: payload is the sender's request, then data.
    EagerSync = 2,
    /// Announces a message kept at the sender (rendezvous).
    Rts = 3,
    /// The receiver is ready: the sender streams its data.
    Cts = 4,
    /// A piece of an announced message.
    Fragment = 5,
    /// The receiver has taken the data itself (single copy); the sender's request is done.
    Taken = 6,
    /// A synchronous eager message was matched.
    Matched = 7,
    /// The receiver gives back eager budget.
    Credit = 8,
    /// The sender asks the receiver to forget a message that it announced (section 3.8.4).
    Cancel = 9,
    /// The receiver's answer to [`Kind::Cancel`].
    CancelReply = 10,
    /// Something waits at the receiver on a channel: so many of its messages may be announced beyond the bound.
    More = 11,
    /// The sender's collective failed because this process is gone or has ended MPI; messages of a wrong length follow, which
    /// stand for that. Or the sender itself ends.
    Lost = 12,
    /// Some of the partitions of a partitioned send (chapter 4).
    Part = 13,
    /// The sender has written what was asked for into the receiver's memory.
    Written = 14,
    /// How long a message took whose announcement bore the time ([`crate::Announce::TIMED`]).
    Took = 15,
    /// The receiver has laid out parts of a long message for the sender to copy, which may be asleep.
    Share = 16,
    /// What the sender took of those is over: copied, or (0) not to be copied by it. The `id` is the place.
    Shared = 17,
}

impl Kind {
    /// The kind with the largest number. `from_byte` knows all up to it, and none behind (a test).
    pub const LAST: Kind = Kind::Shared;

    /// Reads the kind byte; `None` for a value this version does not know.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Eager,
            2 => Kind::EagerSync,
            3 => Kind::Rts,
            4 => Kind::Cts,
            5 => Kind::Fragment,
            6 => Kind::Taken,
            7 => Kind::Matched,
            8 => Kind::Credit,
            9 => Kind::Cancel,
            10 => Kind::CancelReply,
            11 => Kind::More,
            12 => Kind::Lost,
            13 => Kind::Part,
            14 => Kind::Written,
            15 => Kind::Took,
            16 => Kind::Share,
            17 => Kind::Shared,
            _ => return None,
        })
    }
}

/// The 16-byte envelope of a packet, kept as the two words that travel.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Header {
    word0: u64,
    word1: u64,
}

impl Header {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// Composes an envelope.
    #[inline]
    pub const fn new(kind: Kind, context: ContextId, source: Rank, tag: Tag) -> Header {
        Header {
            word0: ((context.0 as u64) << 32) | kind as u64,
            word1: ((source.0 as u64) << 32) | (tag.0 as u32 as u64),
        }
    }

    /// Composes a control packet about request `id` (meaning of `id` and `value`: see the module's table).
    #[inline]
    pub const fn control(kind: Kind, id: u32, value: u64) -> Header {
        Header { word0: ((id as u64) << 32) | kind as u64, word1: value }
    }

    /// The request that a control packet is about.
    #[inline]
    pub const fn id(self) -> u32 {
        (self.word0 >> 32) as u32
    }

    /// The number that a control packet carries.
    #[inline]
    pub const fn value(self) -> u64 {
        self.word1
    }

    /// Source and tag in one word, as matching compares them.
    #[inline]
    pub const fn name(self) -> u64 {
        self.word1
    }

    /// The same envelope on a packet of another kind.
    #[inline]
    #[must_use]
    pub const fn with_kind(self, kind: Kind) -> Header {
        Header { word0: (self.word0 & !0xff) | kind as u64, word1: self.word1 }
    }

    /// The same envelope with protocol flags (meaning depends on the kind).
    #[inline]
    #[must_use]
    pub const fn with_flags(self, flags: u8) -> Header {
        Header { word0: (self.word0 & !0xff00) | ((flags as u64) << 8), word1: self.word1 }
    }

    /// The two words as they travel.
    #[inline]
    pub const fn words(self) -> [u64; 2] {
        [self.word0, self.word1]
    }

    /// An envelope from the two words; checked lazily by [`Header::kind`].
    #[inline]
    pub const fn from_words(words: [u64; 2]) -> Header {
        Header { word0: words[0], word1: words[1] }
    }

    /// What the packet is, or `None` for bytes that are no packet of this version.
    #[inline]
    pub const fn kind(self) -> Option<Kind> {
        Kind::from_byte(self.word0 as u8)
    }

    /// Whether the packet is a whole message and nothing else is to be known of it: one comparison.
    #[inline]
    pub const fn is_eager(self) -> bool {
        self.word0 as u32 == Kind::Eager as u32
    }

    /// Protocol flags.
    #[inline]
    pub const fn flags(self) -> u8 {
        (self.word0 >> 8) as u8
    }

    /// The communicator's channel.
    #[inline]
    pub const fn context(self) -> ContextId {
        ContextId((self.word0 >> 32) as u32)
    }

    /// Rank of the sender in that communicator.
    #[inline]
    pub const fn source(self) -> Rank {
        Rank((self.word1 >> 32) as u32)
    }

    /// The message tag.
    #[inline]
    pub const fn tag(self) -> Tag {
        Tag(self.word1 as u32 as i32)
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?}(context {}, source {}, tag {}, flags {:#x})",
            self.kind(),
            self.context().0,
            self.source().0,
            self.tag().0,
            self.flags()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_survives_the_trip_through_its_words() {
        let header =
            Header::new(Kind::Rts, ContextId(u32::MAX), Rank(u32::MAX - 1), Tag(i32::MAX)).with_flags(0xa5);
        let back = Header::from_words(header.words());
        assert_eq!(back, header);
        assert_eq!(back.kind(), Some(Kind::Rts));
        assert_eq!(back.context(), ContextId(u32::MAX));
        assert_eq!(back.source(), Rank(u32::MAX - 1));
        assert_eq!(back.tag(), Tag(i32::MAX));
        assert_eq!(back.flags(), 0xa5);
    }

    #[test]
    fn a_control_packet_keeps_its_request_and_its_number() {
        let header = Header::control(Kind::Cts, u32::MAX, u64::MAX - 1);
        assert_eq!((header.kind(), header.id(), header.value()), (Some(Kind::Cts), u32::MAX, u64::MAX - 1));
    }

    #[test]
    fn unknown_kinds_are_refused() {
        assert_eq!(Header::from_words([0, 0]).kind(), None);
        assert_eq!(Header::from_words([0xff, 0]).kind(), None);
        assert_eq!(Header::from_words([18, 0]).kind(), None);
    }

    /// A new kind that is not [`Kind::LAST`] is found here, and what tests take from there forgets none.
    #[test]
    fn the_kinds_are_the_numbers_up_to_the_last() {
        for byte in 0..=u8::MAX {
            let known = (1..=Kind::LAST as u8).contains(&byte);
            assert_eq!(Kind::from_byte(byte).map(|kind| kind as u8), known.then_some(byte));
        }
    }
}
