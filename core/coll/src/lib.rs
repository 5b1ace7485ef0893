//! Collective schedules: the step format, the algorithm registry and the builders (design section 9).
//!
//! # For the layer above
//!
//! A collective call becomes numbers ([`Call`]), the numbers become this rank's [`Schedule`], and the engine runs it:
//!
//! ```text
//! let call = Call::Allreduce { vector: Vector { count, element: size_of_type, commutative }, in_place };
//! let schedule = weft_coll::plan(&call, Group { rank, size }, &model);         // pure, no communication
//! let run = weft_engine::ScheduleRun::new(Arc::new(schedule), Binding { send, recv, ... }, channel)?;
//! let request = engine.start_schedule(run)?;                                    // then as any other request
//! ```
//!
//! - The arguments are bound as [`Buffer::Send`] and [`Buffer::Recv`] by `weft_datatype::Memory`, made at the boundary
//!   from address, datatype and the range of bytes the call may touch. An argument that is not significant, or is
//!   `MPI_IN_PLACE`, is `Memory::none()`. A broadcast's buffer is `Recv`, at the root too.
//! - All ranks must use the same [`Model`], and what decides the choice in a [`Call`] (sizes, root, commutativity) is
//!   the same at all ranks by the rules of chapter 6. What may differ from rank to rank (datatypes, `in_place` at a
//!   root, displacements, counts of `v` calls) never decides.
//! - Each started collective takes the communicator's next sequence number ([`tag`]), so that many run at once and
//!   never mix. Persistent ones take theirs when initialised, from a counter of their own.
//! - A schedule depends on nothing but its call: it may be kept and run again (persistent requests, repeated calls).
//! - A call that moves nothing (size 1, no bytes) gives an empty or copy-only schedule; it still takes a number.
#![forbid(unsafe_code)]

mod algorithms;
mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod blocks;
pub mod call;
mod chain;
mod circulant;
pub mod execution;
pub mod figures;
mod fold;
mod gather;
mod halving;
pub mod inter;
pub mod layout;
mod leveled;
pub mod model;
pub mod neighbor;
mod partition;
mod reduce;
mod reduce_scatter;
pub mod registry;
pub mod reproducible;
mod ring;
pub mod rounds;
pub mod rules;
mod scan;
pub mod schedule;
pub mod simulation;
pub mod text;
mod tree;

pub use call::{Block, Call, Group, Vector};
pub use execution::Execution;
pub use figures::Figures;
pub use inter::{InterCall, Root, Sides, plan_inter, plan_inter_by, plan_inter_reproducible};
pub use layout::{Layout, Level, Members, Partition, Stage};
pub use model::{Estimate, Link, Model};
pub use neighbor::{Grid, NeighborCall, plan_neighbor};
pub use registry::{Algorithm, Parameter, plan, plan_among, plan_by, rank_algorithms};
pub use reproducible::plan_reproducible;
pub use rules::{Rule, Rules, decide_on_node};
pub use schedule::{
    Access, Buffer, Builder, Collective, Outline, Range, Schedule, ScratchNeed, Step, StepId,
};

use weft_types::Tag;

/// Bits of the tag that hold the sequence number.
const SEQUENCE_BITS: u32 = 19;

/// Numbers that can be told apart on a communicator.
pub const SEQUENCES: u32 = 1 << SEQUENCE_BITS;

/// The tag of a message on a communicator's collective channel.
///
/// `sequence` counts the collectives started on the communicator (persistent ones: initialised), and wraps: numbers
/// repeat after 2^19, far beyond what can be under way at once.
pub const fn tag(persistent: bool, sequence: u32, channel: u16) -> Tag {
    let sequence = sequence & ((1 << SEQUENCE_BITS) - 1);
    Tag(((persistent as i32) << 30) | ((sequence as i32) << 11) | channel as i32)
}
