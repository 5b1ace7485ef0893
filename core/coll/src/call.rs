//! The collective operations as numbers: what a builder knows of a call. No addresses, no datatypes.

/// One rank's place in the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// This rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
}

/// One rank's block of a `v` argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Block {
    /// Displacement in bytes of memory (the argument's displacement times the extent).
    pub displacement: i64,
    /// Packed bytes (the argument's count times the size).
    pub bytes: u64,
}

/// The vector of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vector {
    /// Number of elements.
    pub count: u64,
    /// Packed bytes of one element. Steps never cut an element.
    pub element: u64,
    /// Whether the operation commutes.
    pub commutative: bool,
}

impl Vector {
    /// Packed bytes of the whole vector.
    pub const fn bytes(&self) -> u64 {
        self.count * self.element
    }
}

/// A collective operation of sections 6.3 to 6.11 on an intracommunicator, as one rank calls it.
///
/// "Bytes" are packed bytes: count times size of the datatype. Where the standard lets arguments be significant
/// at the root only, they are read at the root only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call<'a> {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`. The buffer is [`Buffer::Recv`](crate::Buffer::Recv) at every rank; at the root it is only read.
    Bcast {
        /// Root.
        root: u32,
        /// Bytes of the whole message, the same at all ranks.
        bytes: u64,
    },
    /// `MPI_Gather`.
    Gather {
        /// Root.
        root: u32,
        /// Bytes of one rank's block, the same at all ranks.
        bytes: u64,
        /// Whether the root gave `MPI_IN_PLACE`; read at the root only.
        in_place: bool,
    },
    /// `MPI_Gatherv`.
    Gatherv {
        /// Root.
        root: u32,
        /// Bytes this rank sends; not read at the root.
        bytes: u64,
        /// Where each rank's data goes; read at the root only.
        blocks: &'a [Block],
        /// Whether the root gave `MPI_IN_PLACE`; read at the root only.
        in_place: bool,
    },
    /// `MPI_Scatter`.
    Scatter {
        /// Root.
        root: u32,
        /// Bytes of one rank's block, the same at all ranks.
        bytes: u64,
        /// Whether the root gave `MPI_IN_PLACE`; read at the root only.
        in_place: bool,
    },
    /// `MPI_Scatterv`.
    Scatterv {
        /// Root.
        root: u32,
        /// Bytes this rank receives; not read at the root.
        bytes: u64,
        /// Where each rank's data comes from; read at the root only.
        blocks: &'a [Block],
        /// Whether the root gave `MPI_IN_PLACE`; read at the root only.
        in_place: bool,
    },
    /// `MPI_Allgather`.
    Allgather {
        /// Bytes of one rank's block, the same at all ranks.
        bytes: u64,
        /// Whether `MPI_IN_PLACE` was given.
        in_place: bool,
    },
    /// `MPI_Allgatherv`.
    Allgatherv {
        /// Where each rank's data goes; the byte counts are the same at all ranks.
        blocks: &'a [Block],
        /// Whether `MPI_IN_PLACE` was given.
        in_place: bool,
    },
    /// `MPI_Alltoall`.
    Alltoall {
        /// Bytes of one block, the same for all pairs.
        bytes: u64,
        /// Whether `MPI_IN_PLACE` was given.
        in_place: bool,
    },
    /// `MPI_Alltoallv`.
    Alltoallv {
        /// What each rank gets; not read with `in_place`.
        send: &'a [Block],
        /// Where each rank's data goes.
        recv: &'a [Block],
        /// Whether `MPI_IN_PLACE` was given.
        in_place: bool,
    },
    /// `MPI_Alltoallw`: as `Alltoallv`; the ranges are of [`Buffer::SendPeer`](crate::Buffer::SendPeer) and
    /// [`Buffer::RecvPeer`](crate::Buffer::RecvPeer), whose addresses include the displacement, so that blocks are
    /// given by their bytes only.
    Alltoallw {
        /// Bytes for each rank; not read with `in_place`.
        send: &'a [u64],
        /// Bytes from each rank.
        recv: &'a [u64],
        /// Whether `MPI_IN_PLACE` was given.
        in_place: bool,
    },
    /// `MPI_Reduce`.
    Reduce {
        /// Root.
        root: u32,
        /// The operands.
        vector: Vector,
        /// Whether the root gave `MPI_IN_PLACE`; read at the root only.
        in_place: bool,
    },
    /// `MPI_Allreduce`.
    Allreduce {
        /// The operands.
        vector: Vector,
        /// Whether `MPI_IN_PLACE` was given.
        in_place: bool,
    },
    /// `MPI_Reduce_scatter_block` and `MPI_Reduce_scatter`.
    ReduceScatter {
        /// Number of elements each rank gets.
        counts: &'a [u64],
        /// The operands; `vector.count` is the sum of `counts`.
        vector: Vector,
        /// Whether this rank gave `MPI_IN_PLACE`.
        in_place: bool,
    },
    /// `MPI_Scan`.
    Scan {
        /// The operands.
        vector: Vector,
        /// Whether this rank gave `MPI_IN_PLACE`.
        in_place: bool,
    },
    /// `MPI_Exscan`.
    Exscan {
        /// The operands.
        vector: Vector,
        /// Whether this rank gave `MPI_IN_PLACE`.
        in_place: bool,
    },
}

impl Call<'_> {
    /// The operation's name in the registry and in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Call::Barrier => "barrier",
            Call::Bcast { .. } => "bcast",
            Call::Gather { .. } => "gather",
            Call::Gatherv { .. } => "gatherv",
            Call::Scatter { .. } => "scatter",
            Call::Scatterv { .. } => "scatterv",
            Call::Allgather { .. } => "allgather",
            Call::Allgatherv { .. } => "allgatherv",
            Call::Alltoall { .. } => "alltoall",
            Call::Alltoallv { .. } => "alltoallv",
            Call::Alltoallw { .. } => "alltoallw",
            Call::Reduce { .. } => "reduce",
            Call::Allreduce { .. } => "allreduce",
            Call::ReduceScatter { .. } => "reduce_scatter",
            Call::Scan { .. } => "scan",
            Call::Exscan { .. } => "exscan",
        }
    }
}
