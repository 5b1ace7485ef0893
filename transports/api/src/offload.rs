//! Handing whole collectives to the device: the lowering interface of schedules (design sections 4 and 9).
//!
//! A device that can do more than move packets (triggered operations, deferred work, arithmetic in the adapter or in the
//! switch) may run a process's part of a collective by itself. What it gets is a [`Program`]: the schedule's steps, and
//! which waits for which, over plain memory of this process. The engine asks first ([`Offload::can_run`]), then hands over
//! ([`Offload::hand_over`]) under a token, and hears of the end by that token ([`Offload::finished`]).
//!
//! # Rules
//! - **All members answer alike.** A message that one member's device sends is received by another member's device, so a
//!   collective runs on the devices of all its members or on none. `can_run` decides from what is the same at all members by
//!   the rules of chapter 6 (the [`Outline`]) and from what the members agreed on when the job started; never from addresses,
//!   free slots or the length of this member's part. A device that is out of slots runs the program in the transport's
//!   [`progress`](crate::Transport::progress) instead, with the same messages.
//! - **Messages match by pair and key**, in order where a key is used twice. They meet no packets of the
//!   [`Transport`](crate::Transport). A send step is complete when its bytes have left this process's memory; it may wait for
//!   the receive.
//! - **The memory is the device's** from `hand_over` until the end is told; a transport registers what it must. After the end
//!   nothing of this process's memory is touched on behalf of the program.
//! - **A lost member ends what needs it.** A step whose partner is gone ends the program with [`Outcome::Lost`], and so do the
//!   programs of all who wait for this one, directly or through others, naming the same process. The engine tells what
//!   it hears of by other ways ([`Offload::give_up_on`]).
//! - The same [`Arc`] handed over again is the same program: a device may keep what it made of it (persistent collectives).
//!
//! # Groups
//! A device that runs a collective as a whole (libfabric's `fi_collective`) has no use for the steps: it wants to know who
//! takes part before the first call, and then the operands of each. Such a transport says what it can do by
//! [`Offload::offers_groups`]. The members of a communicator compare that, by messages; where it is the same at all of them,
//! each opens a group ([`Offload::open_group`]), shows the others its card and joins ([`Offload::join_group`]); when all have
//! joined ([`Offload::joined`], agreed on by messages again), the communicator's collectives name the group. Whatever fails on
//! the way fails for all, and the collectives stay with the engine. In a group programs run one after another, in the order in
//! which they are handed over, which is therefore the same at all members.
//!
//! # Deferred work
//! libfabric's other way (`FI_TRIGGER`, `fi_trigger.h`) would take the [`Program`]: a counter for each step that others wait
//! for, one `FI_OP_TSEND`/`FI_OP_TRECV` work entry a message with [`Step::Send::key`] as its tag, threshold
//! [`Program::waits_for`]; it has no arithmetic but `FI_OP_ATOMIC` on the receiver, so `can_run` would refuse arithmetic that
//! `fi_query_atomic` does not list.

use std::fmt;
use std::sync::Arc;
use weft_types::{Error, PeerId};

/// The collectives that are handed over today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast` from this rank.
    Bcast(u32),
    /// `MPI_Reduce` to this rank.
    Reduce(u32),
    /// `MPI_Allreduce`.
    Allreduce,
}

/// What a reduction does to two elements: `into = left op into`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "named as in section 6.9.2")]
pub enum Operation {
    Sum,
    Prod,
    Max,
    Min,
    Land,
    Lor,
    Lxor,
    Band,
    Bor,
    Bxor,
}

/// The machine's form of one element, with its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Element {
    /// Two's complement, in the machine's byte order.
    Signed(u8),
    /// Without sign.
    Unsigned(u8),
    /// IEEE 754 binary.
    Float(u8),
}

impl Element {
    /// Bytes of one element.
    pub const fn bytes(self) -> u8 {
        match self {
            Element::Signed(bytes) | Element::Unsigned(bytes) | Element::Float(bytes) => bytes,
        }
    }
}

/// What a program's [`Step::Reduce`] steps do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arithmetic {
    /// The operation.
    pub operation: Operation,
    /// The elements.
    pub element: Element,
}

/// A collective as all its members see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Which one.
    pub collective: Collective,
    /// Number of members.
    pub ranks: u32,
    /// Packed bytes of the whole message or vector; no message of any member is longer.
    pub bytes: u64,
    /// Of a reduction.
    pub arithmetic: Option<Arithmetic>,
}

/// Memory of this process, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
}

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send a piece.
    Send {
        /// Receiver.
        to: PeerId,
        /// What the receive of the same pair says, too.
        key: u64,
        /// Data.
        from: Piece,
    },
    /// Receive a piece.
    Recv {
        /// Sender.
        from: PeerId,
        /// As in the send.
        key: u64,
        /// Room; the message has exactly this length.
        into: Piece,
    },
    /// Copy between pieces of the same length, which do not overlap.
    Copy {
        /// Source.
        from: Piece,
        /// Destination.
        into: Piece,
    },
    /// `into = left op into`, by the outline's arithmetic.
    Reduce {
        /// Left operand.
        left: Piece,
        /// Right operand and result.
        into: Piece,
    },
}

/// Most bytes of what others must know of a process to join a group with it.
pub const CARD: usize = 127;

/// A group of processes that the device knows; the number is this process's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub u32);

/// How far the making of a group is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joining {
    /// Not all have joined.
    Waiting,
    /// All have.
    Joined,
    /// It will not be: why.
    Failed(String),
}

/// What a collective is about, for devices that run it as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Whose collective it is.
    pub group: GroupId,
    /// This member's data: what the root broadcasts, what is reduced. No bytes where it has none.
    pub operand: Piece,
    /// Where the outcome belongs; no bytes where this member gets none. May be the operand's memory, and is nothing else of it.
    pub result: Piece,
}

/// One member's part of a collective.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What all members run together.
    pub outline: Outline,
    /// For a device that runs it as a whole; then there are no steps.
    pub whole: Option<Whole>,
    /// The steps.
    pub steps: Vec<Step>,
    /// How many steps each one waits for.
    pub waits_for: Vec<u32>,
    /// The steps that wait for each one.
    pub successors: Vec<Vec<u32>>,
}

/// Why a collective is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The transport only moves packets.
    NoEngine,
    /// It is not among the operations that can be handed over (`MPI_Barrier`, `MPI_Bcast`, `MPI_Reduce`, `MPI_Allreduce` on
    /// an intracommunicator).
    NotOffloadable,
    /// One member needs no messages.
    Alone,
    /// A message may be longer than the device takes.
    TooLong {
        /// What it takes.
        limit: u64,
    },
    /// A user-defined operation runs on the processor.
    UserOperation,
    /// A predefined operation on a type that no device knows (pairs, complex and long double, Fortran logicals).
    UnknownArithmetic,
    /// The device has no such unit.
    Arithmetic(Arithmetic),
    /// This member's device does not reach that one.
    Unreachable(PeerId),
    /// The members have no group at the device: they have not agreed on one yet, or could not.
    NoGroup,
    /// No bytes: nothing travels.
    Nothing,
    /// Persistent collectives may be started in any order, those of a group may not.
    AnyOrder,
    /// The device has no such collective.
    Missing(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoEngine => f.write_str("the transport has no engine that runs collectives"),
            Refusal::NotOffloadable => f.write_str(
                "only barrier, bcast, reduce and allreduce on an intracommunicator are handed over",
            ),
            Refusal::Alone => f.write_str("a single process exchanges nothing"),
            Refusal::TooLong { limit } => write!(f, "the device takes at most {limit} bytes a message"),
            Refusal::UserOperation => f.write_str("a user-defined operation runs on the processor"),
            Refusal::UnknownArithmetic => f.write_str("no device combines elements of this type"),
            Refusal::Arithmetic(Arithmetic { operation, element }) => {
                write!(f, "the device has no {operation:?} on {element:?} bytes")
            }
            Refusal::Unreachable(peer) => write!(f, "process {} is reached another way", peer.0),
            Refusal::NoGroup => f.write_str("the communicator's members have joined no group of the device"),
            Refusal::Nothing => f.write_str("nothing travels"),
            Refusal::AnyOrder => f.write_str("persistent collectives may be started in any order"),
            Refusal::Missing(what) => write!(f, "the device has no {what}"),
        }
    }
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are done.
    Done,
    /// It needed a process that is gone.
    Lost(PeerId),
    /// Something is wrong with the program, or the device failed: what and why.
    Failed(Error),
}

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// As given to [`Offload::hand_over`].
    pub token: u64,
    /// How.
    pub outcome: Outcome,
}

/// A transport that can run collectives. The defaults are those of one that cannot.
pub trait Offload {
    /// Whether the device takes such a collective, with these members (the process of each rank), who have this group if any.
    /// See the rules of this module: all members must get the same answer.
    ///
    /// # Errors
    /// Why not.
    fn can_run(
        &self,
        outline: &Outline,
        group: Option<GroupId>,
        member: &dyn Fn(u32) -> PeerId,
    ) -> Result<(), Refusal> {
        let _ = (outline, group, member);
        Err(Refusal::NoEngine)
    }

    /// Starts a program that [`Offload::can_run`] accepted. Local, and never refused.
    fn hand_over(&mut self, program: &Arc<Program>, token: u64) {
        let _ = program;
        unreachable!("program {token} was handed to a transport that takes none");
    }

    /// The next program that has ended, each told once.
    fn finished(&mut self) -> Option<Finished> {
        None
    }

    /// Whether the device runs collectives of groups of so many members, as a number that stands for all it can do with them:
    /// the same number, the same abilities. It is never 0. `None`: it knows no groups, or has no room for another one.
    fn offers_groups(&self, members: u32) -> Option<u64> {
        let _ = members;
        None
    }

    /// Makes this process's end of a group of so many members. Gives what the others must know of it: at most [`CARD`] bytes.
    ///
    /// # Errors
    /// What the device refused.
    fn open_group(&mut self, members: u32) -> weft_types::Result<(GroupId, Vec<u8>)> {
        Err(Error::internal(format!("a group of {members} was asked of a transport that knows none")))
    }

    /// Begins to join the others of a group: `members` are the processes by rank, `cards` what each of them got from
    /// [`Offload::open_group`]; `name` is a number by which all of them know the group.
    ///
    /// # Errors
    /// What the device refused; the group will not be.
    fn join_group(
        &mut self,
        group: GroupId,
        name: u32,
        members: &[PeerId],
        cards: &[&[u8]],
    ) -> weft_types::Result<()> {
        let _ = (group, name, members, cards);
        Err(Error::internal("there are no groups"))
    }

    /// Whether all have joined.
    fn joined(&mut self, group: GroupId) -> Joining {
        let _ = group;
        Joining::Failed("there are no groups".into())
    }

    /// Nothing more will be handed over for a group; it goes when what was is over.
    fn leave_group(&mut self, group: GroupId) {
        let _ = group;
    }

    /// This process heard that `peer` is gone: what needs it ends.
    fn give_up_on(&mut self, peer: PeerId) {
        let _ = peer;
    }
}
