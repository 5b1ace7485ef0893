//! Work requests as the device keeps them.

use weft_api::verbs::{LocalKey, Segment, Work};

/// Most entries of a scatter or gather list.
pub const MAX_SEGMENTS: usize = 4;

/// Largest message in bytes.
pub const MAX_MESSAGE: u32 = 1 << 30;

/// Most bytes of an inline request.
pub const MAX_INLINE: usize = 220;

/// A scatter or gather list, kept in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    list: [Segment; MAX_SEGMENTS],
    count: u8,
}

impl Segments {
    /// `None` when there are too many.
    pub(crate) fn new(segments: &[Segment]) -> Option<Segments> {
        let mut list = [Segment { address: 0, length: 0, key: LocalKey(0) }; MAX_SEGMENTS];
        list.get_mut(..segments.len())?.copy_from_slice(segments);
        Some(Segments { list, count: segments.len() as u8 })
    }

    pub(crate) fn as_slice(&self) -> &[Segment] {
        &self.list[..usize::from(self.count)]
    }
}

/// A receive request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) id: u64,
    pub(crate) segments: Segments,
}

/// Where the data of a send request come from.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// Registered memory, checked when the request begins.
    Segments(Segments),
    /// Copied when it was posted.
    Inline(Box<[u8]>),
    /// The same, of few bytes, for which no memory is asked.
    Few(Few),
}

/// Few bytes, kept in place: no more than a list takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Few {
    length: u8,
    bytes: [u8; FEW],
}

/// See [`Few`].
const FEW: usize = 64;

impl Few {
    /// `None` when there are too many.
    pub(crate) fn new(parts: &[&[u8]]) -> Option<Few> {
        let mut few = Few { length: 0, bytes: [0; FEW] };
        for part in parts {
            let (begin, end) = (usize::from(few.length), usize::from(few.length) + part.len());
            few.bytes.get_mut(begin..end)?.copy_from_slice(part);
            few.length = end as u8;
        }
        Some(few)
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl Data {
    /// Copies bytes.
    pub(crate) fn inline(parts: &[&[u8]]) -> Data {
        Few::new(parts).map_or_else(|| Data::Inline(parts.concat().into()), Data::Few)
    }
}

/// A send request that is posted and not complete.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) id: u64,
    pub(crate) work: Work,
    pub(crate) data: Data,
    pub(crate) length: u32,
    pub(crate) signaled: bool,
    pub(crate) fence: bool,
    pub(crate) solicited: bool,
}

impl Posted {
    /// Whether it ends with an answer that carries data, and not with an acknowledgement.
    pub(crate) fn wants_answer(&self) -> bool {
        matches!(self.work, Work::Read { .. } | Work::CompareSwap { .. } | Work::FetchAdd { .. })
    }

    /// Packet numbers that it takes: those of its packets, or of the answer's for a read (section 9.7.2).
    pub(crate) fn packets(&self, mtu: u32) -> u32 {
        match self.work {
            Work::CompareSwap { .. } | Work::FetchAdd { .. } => 1,
            _ => self.length.div_ceil(mtu).max(1),
        }
    }

    /// The packets of a message; of another request none.
    #[inline]
    pub(crate) fn message_packets(&self, packets: u32) -> u32 {
        if matches!(self.work, Work::Send { .. }) { packets } else { 0 }
    }
}
