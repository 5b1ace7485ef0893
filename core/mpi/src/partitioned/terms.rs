//! What the two sides of a partitioned operation have to know of each other, and tell each other.

use super::refused;
use weft_datatype::Memory;
use weft_types::{ContextId, ErrorClass, Handle, PeerId, Rank, Result, Tag};

/// The elements of a partitioned buffer: `number` times the same number of elements of one datatype, without gaps between
/// partitions (section 4.2.3).
#[derive(Clone, Debug)]
pub struct Partitions {
    /// The elements of all partitions.
    pub memory: Memory,
    /// Number of partitions, at least 1.
    pub number: u32,
    /// Packed bytes of one partition.
    pub bytes: u64,
}

impl Partitions {
    /// Packed bytes of all partitions; the maker has checked that they fit.
    pub fn total(&self) -> u64 {
        u64::from(self.number) * self.bytes
    }

    pub(super) fn check(&self, partition: i32) -> Result<u32> {
        match u32::try_from(partition) {
            Ok(index) if index < self.number => Ok(index),
            _ => Err(refused(
                ErrorClass::ARG,
                format!("partition is {partition}; this request has the partitions 0 to {}", self.number - 1),
            )),
        }
    }
}

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counterpart {
    /// The process.
    pub peer: PeerId,
    /// Point-to-point channel of the communicator.
    pub context: ContextId,
    /// Rank of the *sender* in the communicator.
    pub source: Rank,
    /// The tag of both init calls.
    pub tag: Tag,
}

/// What one side waits for, as the watchdog tells it.
pub(crate) struct PartsOutlook {
    /// `None` for `MPI_PROC_NULL`.
    pub other: Option<Counterpart>,
    /// Partitions, and what is wrong with them.
    pub words: String,
    /// Whether the other process has to do something.
    pub needs: bool,
}

/// What the receiver answers to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// One more epoch may be sent to this request, or all to this landing.
    Granted(Handle),
    /// The two sides describe different numbers of bytes.
    Refused,
}

impl Answer {
    pub(super) fn from_tag(tag: Tag) -> Answer {
        if tag.0 == 0 { Answer::Refused } else { Answer::Granted(Handle(tag.0 as u32)) }
    }

    pub(super) fn tag(self) -> Tag {
        match self {
            Answer::Granted(handle) => Tag(handle.0 as i32),
            Answer::Refused => Tag(0),
        }
    }
}

/// What a sender tells when it introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Introduction {
    pub(super) sender: Handle,
    pub(super) partitions: u32,
    pub(super) total: u64,
}

impl Introduction {
    pub(super) const BYTES: usize = 16;

    pub(super) fn emit(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.total.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.partitions.to_le_bytes());
        bytes[12..].copy_from_slice(&self.sender.0.to_le_bytes());
        bytes
    }

    /// Reads [`Introduction::emit`]; `None` for bytes that no sender can have meant: it has partitions, and all are equal.
    pub(super) fn parse(bytes: &[u8; Self::BYTES]) -> Option<Introduction> {
        let (total, rest) = bytes.split_first_chunk()?;
        let (partitions, sender) = rest.split_first_chunk()?;
        let introduction = Introduction {
            sender: Handle(u32::from_le_bytes(sender.try_into().ok()?)),
            partitions: u32::from_le_bytes(*partitions),
            total: u64::from_le_bytes(*total),
        };
        let partitions = u64::from(introduction.partitions);
        (partitions > 0 && introduction.total.is_multiple_of(partitions)).then_some(introduction)
    }
}

/// What a fuzzer calls with the bytes of an introduction: one that is read is written the same, and its partitions make the whole.
///
/// # Panics
/// When that is not so.
pub fn check_introduction(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk() else { return };
    if let Some(introduction) = Introduction::parse(bytes) {
        assert_eq!(&introduction.emit(), bytes);
        let partition = introduction.total / u64::from(introduction.partitions);
        assert_eq!(partition * u64::from(introduction.partitions), introduction.total);
        let answer = Answer::Granted(introduction.sender);
        let refused = introduction.sender.0 == 0;
        assert_eq!(Answer::from_tag(answer.tag()), if refused { Answer::Refused } else { answer });
    }
}
