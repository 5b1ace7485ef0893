//! The values that cross the engine's doors: envelopes, selectors, statuses, identifiers, configuration.

use crate::paces::Clock;
use weft_datatype::RecvBuf;
use weft_proto::{Gaps, Rendezvous};
use weft_types::{ContextId, Error, PeerId, Rank, Tag};

/// Where a message goes and what it is called there (section 3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The process that receives it.
    pub peer: PeerId,
    /// The communicator's channel.
    pub context: ContextId,
    /// The sender's own rank in that communicator.
    pub source: Rank,
    /// The message tag.
    pub tag: Tag,
}

/// Which messages a receive or probe accepts (section 3.2.4); `None` is a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The communicator's channel.
    pub context: ContextId,
    /// The process of `source`; `None` exactly when `source` is `None`.
    pub peer: Option<PeerId>,
    /// The sender's rank in the communicator; `None` is `MPI_ANY_SOURCE`.
    pub source: Option<Rank>,
    /// The tag; `None` is `MPI_ANY_TAG`.
    pub tag: Option<Tag>,
}

/// When a send is complete (section 3.4). Buffered mode is a standard send from the library's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// When the buffer may be reused.
    Standard,
    /// When, in addition, the matching receive has started.
    Synchronous,
    /// As standard; the caller says that the receive is posted already.
    Ready,
}

/// How far a send came at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Started {
    /// Complete: the buffer may be reused and there is no request.
    Complete,
    /// Under way; the request must be completed and taken, or released.
    Pending(RequestId),
}

/// A request of an engine: `generation << 20 | slot`, 27 bits. [`RequestId::COMPLETE`] is never handed out.
///
/// Where a process has several engines (lanes), the bits above say which; an engine neither sets nor reads them and takes
/// only [`RequestId::local`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u32);

impl RequestId {
    /// Stands for "a send that was complete at once"; shared by everybody, owned by nobody.
    pub const COMPLETE: RequestId = RequestId(0);
    /// Slots of an engine; it refuses requests that it has none for.
    pub const SLOTS: u32 = 1 << crate::requests::SLOT_BITS;
}

/// Bits of an identifier that an engine uses.
const OWN_BITS: u32 = 27;

macro_rules! lane_bits {
    ($name:ident) => {
        impl $name {
            /// The same, as something of `lane` (below 32).
            #[inline]
            pub const fn in_lane(self, lane: u32) -> $name {
                $name(self.local().0 | lane << OWN_BITS)
            }

            /// The lane.
            #[inline]
            pub const fn lane(self) -> u32 {
                self.0 >> OWN_BITS
            }

            /// The name in its own engine.
            #[inline]
            pub const fn local(self) -> $name {
                $name(self.0 & ((1 << OWN_BITS) - 1))
            }
        }
    };
}

lane_bits!(RequestId);
lane_bits!(MessageId);

/// A message taken out of matching by [`crate::Engine::improbe`]: `generation << 20 | slot`, 27 bits, never 0. The bits above are
/// used as those of a [`RequestId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(pub u32);

/// What is known of a message or a finished receive (section 3.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The sender's rank in the communicator.
    pub source: Rank,
    /// The message's tag.
    pub tag: Tag,
    /// Bytes of packed data: of the message (probe), or received into the buffer (receive).
    pub bytes: u64,
    /// Whether the operation was cancelled; then nothing else here means anything.
    pub cancelled: bool,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The status; for sends only `cancelled` means something.
    pub status: Status,
    /// What went wrong, if anything did.
    pub error: Option<Error>,
}

/// What moves messages between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// An adapter, through verbs or libfabric.
    Device,
    /// The kernel's sockets, through libfabric.
    Sockets,
    /// The RDMA emulator, over UDP.
    Emulator,
}

/// What [`crate::Engine::ending`] says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is under way.
    NotYet,
    /// It is complete, without error and not cancelled: [`crate::Engine::take_well`] may be called.
    Well,
    /// It ended in another way, or there is no such request.
    Otherwise,
}

/// What [`crate::Engine::receive_at_once`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Soon {
    /// The message is in the buffer.
    Received(Status),
    /// The very message is announced: post a receive for it, then make progress.
    Announced,
    /// Another packet came first: see [`crate::Engine::receive_behind_credit`].
    Behind,
    /// Nothing, or something that is not simple.
    Nothing,
}

/// What became of an announced message, see [`crate::Engine::receive_pieces`].
#[derive(Debug)]
#[must_use]
pub enum Arriving {
    /// It is in the buffer.
    Received(Status),
    /// Some of it is; the rest comes to this receive.
    Begun(RequestId),
    /// Nothing was done, and the buffer is the caller's again.
    Nothing(RecvBuf),
}

/// What [`crate::Engine::poll_recv`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Early {
    /// The message is in the buffer.
    Received(Completion),
    /// The message is near but must meet a request: call [`crate::Engine::recv`] now, before making progress.
    Post,
    /// Nothing yet.
    Nothing,
}

/// What an engine must be told when it is made. The same on all ranks of a job, but for `me`.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineConfig {
    /// This process.
    pub me: PeerId,
    /// Processes in the job.
    pub size: u32,
    /// Whether this node runs more ranks than it has cores for them.
    pub oversubscribed: bool,
    /// Bytes of unexpected eager data one sender may make one receiver hold.
    pub eager_budget_per_sender: u32,
    /// Bytes of unexpected eager data all senders together may make one receiver hold.
    pub eager_budget_total: u64,
    /// Largest message sent without asking, in bytes, if the peer's budget allows it.
    pub eager_limit: u32,
    /// Shortest message that may be offered to its receiver for reading where both take turns (`weft_proto::turns`), in bytes.
    pub offers_from: u32,
    /// Messages to a process in turns, of about one length, before either way is tried.
    pub offers_after: u32,
    /// Shortest message of which its sender copies a part, where it waits for something and memory can be read, in bytes (at least 256). Of a row of
    /// messages shorter ones are copied by it, from a third of this on. `u32::MAX`: none are.
    pub shares_from: u32,
    /// Shortest message for whose parts a sender is woken that may be asleep, in bytes.
    pub shares_asleep_from: u32,
    /// Longest part of a message that its sender copies in one go, in bytes (a multiple of 64).
    pub shares_part: u32,
    /// Announced messages that one sender may have waiting at one receiver; 0: as follows from the eager budget.
    pub announcements_per_sender: u32,
    /// Shortest packet of a message that leaves in several, in bytes: what both ends copy at the same time.
    pub piece: u32,
    /// How messages with gaps travel where memory can be read.
    pub gaps: Gaps,
    /// How announced messages travel where devices can move them.
    pub rendezvous: Rendezvous,
    /// Whether memory that devices pin stays registered for later messages where the kernel tells what becomes of it.
    pub keep_registered: bool,
    /// Where the time of messages comes from that can come in two ways.
    pub clock: Clock,
}

impl EngineConfig {
    /// The defaults for rank `me` of `size`.
    pub fn new(me: PeerId, size: u32) -> EngineConfig {
        EngineConfig {
            me,
            size,
            oversubscribed: false,
            eager_budget_per_sender: 1 << 20,
            eager_budget_total: 64 << 20,
            eager_limit: 64 << 10,
            offers_from: 16 << 10,
            offers_after: 8,
            shares_from: 96 << 10,
            shares_asleep_from: 1 << 20,
            shares_part: 256 << 10,
            announcements_per_sender: 0,
            piece: 32 << 10,
            gaps: Gaps::Auto,
            rendezvous: Rendezvous::Auto,
            keep_registered: true,
            clock: Clock::Machine,
        }
    }
}
