//! Work requests, and how they end.

use super::{DeviceAddress, QueuePairNumber, RemoteAddress, Segment};

/// What a send request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A message into the peer's next receive request.
    Send {
        /// Given to the receiver with the completion.
        immediate: Option<u32>,
    },
    /// A write into the peer's memory.
    Write {
        /// Where to.
        to: RemoteAddress,
        /// With it, the peer's next receive request completes.
        immediate: Option<u32>,
    },
    /// A read of the peer's memory.
    Read {
        /// Where from.
        from: RemoteAddress,
    },
    /// Eight bytes of the peer's memory become `swap` if they are `compare`; what was there comes back.
    CompareSwap {
        /// Which eight bytes, aligned.
        at: RemoteAddress,
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// `add` is added to eight bytes of the peer's memory; what was there comes back.
    FetchAdd {
        /// Which eight bytes, aligned.
        at: RemoteAddress,
        /// Addend, wrapping.
        add: u64,
    },
    /// A datagram; only on queue pairs of that kind.
    Datagram {
        /// The device it goes to.
        to: DeviceAddress,
        /// By which of the own addresses, counted as in [`Hca::addresses`](super::Hca::addresses).
        by: u8,
        /// The queue pair there.
        queue_pair: QueuePairNumber,
        /// That queue pair's key.
        qkey: u32,
        /// Given to the receiver with the completion.
        immediate: Option<u32>,
    },
}

/// Own memory of a send request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// Registered memory: the data, or where an answer goes. It must stay until the request is complete.
    Segments(&'a [Segment]),
    /// These bytes one after another, copied when the request is posted.
    Inline(&'a [&'a [u8]]),
}

/// A send request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest<'a> {
    /// Comes back with the completion. The two highest bits are 0: some drivers use them.
    pub id: u64,
    /// What to do.
    pub work: Work,
    /// Own memory.
    pub data: Data<'a>,
    /// Whether success completes with an entry in the completion queue; failure always does.
    pub signaled: bool,
    /// Whether to wait until earlier reads and atomics of this queue pair are complete.
    pub fence: bool,
    /// Whether the receiver's completion is marked as one that it wants to be woken for.
    pub solicited: bool,
}

impl<'a> WorkRequest<'a> {
    /// A signaled request without any extras.
    pub const fn new(id: u64, work: Work, segments: &'a [Segment]) -> WorkRequest<'a> {
        WorkRequest {
            id,
            work,
            data: Data::Segments(segments),
            signaled: true,
            fence: false,
            solicited: false,
        }
    }
}

/// How a work request ended (section 11.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionStatus {
    /// As it should.
    Success,
    /// A message was longer than its receive request, or an answer had the wrong length.
    LocalLength,
    /// Own memory: key, bounds or rights do not allow it.
    LocalProtection,
    /// The queue pair was in error, or became so by another request.
    Flushed,
    /// The peer could make no sense of the request.
    RemoteInvalidRequest,
    /// The peer's memory: key, bounds or rights do not allow it.
    RemoteAccess,
    /// The peer could not finish it.
    RemoteOperation,
    /// No answer after all retries: the peer or the way to it is gone.
    RetriesExceeded,
    /// The peer posted no receive request in time.
    NotReadyRetriesExceeded,
}

/// What completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletedWork {
    /// A send or datagram of ours.
    Send,
    /// A write of ours.
    Write,
    /// A read of ours.
    Read,
    /// A compare and swap of ours.
    CompareSwap,
    /// A fetch and add of ours.
    FetchAdd,
    /// A receive: a message came.
    Receive,
    /// A receive: a write with immediate data came.
    ReceiveWrite,
}

/// An entry of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Of the work request.
    pub id: u64,
    /// How it ended; unless in success, only `id`, `queue_pair` and whether it was a receive mean anything besides.
    pub status: CompletionStatus,
    /// What it was.
    pub work: CompletedWork,
    /// Bytes received, read or (datagrams) received with the 40 bytes in front.
    pub bytes: u32,
    /// The own queue pair.
    pub queue_pair: QueuePairNumber,
    /// Immediate data that came.
    pub immediate: Option<u32>,
    /// Whether the sender marked it, where the device tells.
    pub solicited: bool,
    /// Datagrams received: who sent it, where the device tells.
    pub from: Option<(DeviceAddress, QueuePairNumber)>,
}
