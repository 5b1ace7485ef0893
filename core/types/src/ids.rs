//! Newtypes of the identifiers that travel together and must not be confused.

/// A process of the job, by its index in the launcher's numbering (rank in `MPI_COMM_WORLD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// A rank in a communicator, already validated: never a wildcard, never `MPI_PROC_NULL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(pub u32);

/// A message tag, already validated: 0 to 2^31-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub i32);

/// The hidden channel of a communicator (section 7.1.2). The lowest bit separates point-to-point (0) from
/// collective (1) traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u32);

impl ContextId {
    /// `MPI_COMM_WORLD`'s point-to-point channel.
    pub const WORLD: ContextId = ContextId(0);
    /// `MPI_COMM_SELF`'s point-to-point channel.
    pub const SELF: ContextId = ContextId(2);
    /// First channel that communicator constructors may hand out.
    pub const FIRST_FREE: ContextId = ContextId(4);

    /// Where granted epochs of partitioned operations are announced to their senders; belongs to no communicator.
    pub const PARTITION_GRANTS: ContextId = ContextId(0xC000_0000);
    /// Where the data of partitioned operations travel; belongs to no communicator.
    pub const PARTITION_DATA: ContextId = ContextId(0xC000_0002);
    /// Letters between processes that build a communicator together without a channel of their own.
    pub const LETTERS: ContextId = ContextId(0xC000_0004);

    /// Where the data of partitioned operations of few partitions travel; belongs to no communicator.
    pub const PARTITIONS: ContextId = ContextId(0xC000_0006);

    /// The channel of a communicator on which partitioned operations find their counterpart (section 4.2.1). Constructors hand
    /// out numbers below 2^23 only.
    #[must_use]
    pub const fn partitioned(self) -> ContextId {
        ContextId(self.0 | 1 << 31)
    }

    /// The collective twin of a point-to-point channel.
    #[must_use]
    pub const fn collective(self) -> ContextId {
        ContextId(self.0 | 1)
    }
}
