//! The ways of a collective inside a node as a table like that of the other algorithms: what each is, where it can go and pays, and what it takes. Rules
//! name them as they name algorithms (`crate::rules`), and `weft-info --explain` ranks them.
//!
//! The formulas count what differs from way to way: bytes that a member copies and reads, waits, and turns of the processes that share a core. Their
//! figures are not those of [`crate::Model`], which a user may have measured, but fitted to where one way began to be faster than another in
//! runs: a call must not become slower because a figure of something else is another one.

use super::cut::{
    BY_CORES_FROM, EXCHANGED_FROM, LONG_ELEMENT, TWO_PHASES_FROM, TWO_PHASES_FROM_EXCHANGED,
    is_measured_exchanged, longest_by_cores, second_wait,
};
use super::{Course, Room, Shape, is_contested, is_sooner_by_messages};
use crate::call::Call;
use crate::registry::Parameter;
use std::num::NonZeroU64;

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Every writer writes its piece, every reader reads all.
    Flat,
    /// A reduce-scatter and an allgather of each piece.
    TwoPhases,
    /// Each block lies where its writer has read last; reductions go in two phases.
    Exchanged,
    /// One sum for each core goes to the others.
    ByCores,
    /// Each member reads the others' memory.
    Reading,
    /// By schedules, as on several nodes.
    Messages,
}

impl Way {
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether members need memory for long payloads for it, however short a call is.
    pub const fn needs_slots(self) -> bool {
        matches!(self, Way::TwoPhases | Way::Exchanged | Way::ByCores)
    }
}

/// What rules say of the way of a call. The same at all members, as the rules are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    way: Option<Way>,
    /// Those that must not be taken, one bit each.
    barred: u8,
    /// Bytes of the longest piece.
    piece: Option<NonZeroU64>,
}

impl Told {
    /// That it is this way, in pieces of at most so many bytes.
    pub fn to_go(self, way: Way, piece: Option<u64>) -> Told {
        Told { way: Some(way), piece: piece.and_then(NonZeroU64::new), ..self }
    }

    /// That it is not this way.
    pub fn not_to_go(self, way: Way) -> Told {
        Told { barred: self.barred | way.bit(), ..self }
    }

    /// Whether a way must not be taken.
    pub fn bars(self, way: Way) -> bool {
        self.barred & way.bit() != 0
    }

    /// Whether nothing is said.
    pub fn is_nothing(self) -> bool {
        self == Told::default()
    }

    /// Bytes of the longest piece, of at most `fits`, in whole elements.
    pub(super) fn longest(self, fits: u64, element: u64) -> u64 {
        match self.piece {
            Some(piece) => fits.min((piece.get() / element * element).max(element)),
            None => fits,
        }
    }

    /// How the bytes of a long call go, where that is not found out by trial.
    pub(super) fn course(self) -> Option<Course> {
        match self.way {
            Some(Way::Reading) => Some(Course::Reading),
            Some(_) => Some(Course::Payloads),
            None if self.bars(Way::Reading) => Some(Course::Payloads),
            None => None,
        }
    }
}

/// A call as the table sees it.
#[derive(Clone, Copy, Debug)]
pub struct NodeCall {
    /// What is done.
    pub shape: Shape,
    /// Members.
    pub members: u32,
    /// As in [`super::Script::new`].
    pub bytes: u64,
    /// Bytes that stay together.
    pub element: u64,
    /// Whether what members contribute lies where the result will.
    pub in_place: bool,
    /// Whether it is a blocking call, which its members attend to.
    pub blocking: bool,
    /// What they have to write to.
    pub room: Room,
}

/// An entry.
pub struct NodeAlgorithm {
    /// Unique among those of an operation.
    pub name: &'static str,
    /// What it is to the scripts.
    pub way: Way,
    /// The operations it is for, by [`crate::Call::name`].
    pub operations: &'static [&'static str],
    /// Where it is described.
    pub source: &'static str,
    /// What a rule can say of it beside its name.
    pub parameters: &'static [Parameter],
    /// For which calls it is there, in words.
    pub restriction: &'static str,
    /// Whether it can do a call.
    can: fn(&NodeCall) -> bool,
    /// Whether it is taken where no rule names it, if it takes the least time: where it was found to be faster in runs, in words above.
    pays: fn(&NodeCall) -> bool,
    /// Picoseconds, but for what all ways have.
    estimate: fn(&NodeCall) -> u128,
}

impl std::fmt::Debug for NodeAlgorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.operations.join("/"), self.name)
    }
}

impl NodeAlgorithm {
    /// Whether it can do a call. The same at all members, if the room is.
    pub fn can(&self, call: &NodeCall) -> bool {
        self.operations.contains(&call.shape.operation()) && (self.can)(call)
    }

    /// Seconds, by its formula.
    pub fn seconds(&self, call: &NodeCall) -> f64 {
        (self.estimate)(call) as f64 * 1e-12
    }
}

/// Every way there is.
pub fn all() -> &'static [NodeAlgorithm] {
    WAYS
}

/// What is to be known of a way for a call.
#[derive(Clone, Copy, Debug)]
pub struct RankedWay {
    /// Which.
    pub algorithm: &'static NodeAlgorithm,
    /// Seconds by its formula.
    pub seconds: f64,
    /// What becomes of it.
    pub standing: Standing,
}

/// What becomes of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is taken.
    Taken,
    /// Calls find out by trial whether it is faster than the one that is taken.
    Tried,
    /// Another one takes less.
    Slower,
    /// A rule forbids it.
    Barred,
    /// It can do the call, but was not found to be faster; a rule can name it.
    DoesNotPay,
    /// It cannot do the call.
    Cannot,
}

/// All ways through cells for a call, the one that is taken first, the others by their time.
pub fn rank_on_node(call: &NodeCall) -> Vec<RankedWay> {
    let told = call.room.told;
    let (payloads, course) = (payload_way(call), course(call));
    let standing = |algorithm: &NodeAlgorithm| match algorithm.way {
        _ if !algorithm.can(call) => Standing::Cannot,
        Way::Reading if course == Some(Course::Reading) => Standing::Taken,
        way if way == payloads && course != Some(Course::Reading) => Standing::Taken,
        way if told.bars(way) => Standing::Barred,
        Way::Reading if course.is_none() && (algorithm.pays)(call) => Standing::Tried,
        _ if (algorithm.pays)(call) => Standing::Slower,
        _ => Standing::DoesNotPay,
    };
    let of_shape = WAYS.iter().filter(|algorithm| algorithm.operations.contains(&call.shape.operation()));
    let mut ranked: Vec<RankedWay> = of_shape
        .filter(|algorithm| algorithm.way != Way::Messages)
        .map(|algorithm| RankedWay {
            algorithm,
            seconds: algorithm.seconds(call),
            standing: standing(algorithm),
        })
        .collect();
    ranked.sort_by(|a, b| {
        let last =
            |ranked: &RankedWay| (ranked.standing != Standing::Taken, ranked.standing == Standing::Cannot);
        last(a).cmp(&last(b)).then(a.seconds.total_cmp(&b.seconds))
    });
    ranked
}

/// How the bytes of a call go: as rules say, else by trial (`None`) where it is contested.
pub(super) fn course(call: &NodeCall) -> Option<Course> {
    match call.room.told.course() {
        Some(Course::Reading) if !(entry(Way::Reading).can)(call) => Some(Course::Payloads),
        Some(course) => Some(course),
        None => None,
    }
}

/// The way of a call's payloads: what rules say where that can be, else the one that takes least of those that pay.
pub(super) fn payload_way(call: &NodeCall) -> Way {
    let told = call.room.told;
    let more = call.bytes.saturating_mul(u64::from(call.members).saturating_sub(2));
    if told.is_nothing() && call.room.block == 0 && more < TWO_PHASES_FROM {
        return Way::Flat;
    }
    // What turns out not to be readable goes through payloads that all have a part in.
    let reads = told.way == Some(Way::Reading);
    let payloads = || {
        let is_one = move |way| match way {
            Way::Reading | Way::Messages => false,
            Way::ByCores => !reads,
            _ => true,
        };
        WAYS.iter().filter(move |algorithm| is_one(algorithm.way))
    };
    if let Some(named) = payloads().find(|algorithm| told.way == Some(algorithm.way) && algorithm.can(call)) {
        return named.way;
    }
    let left = || payloads().filter(|algorithm| !told.bars(algorithm.way) && algorithm.can(call));
    let paying = left().filter(|algorithm| (algorithm.pays)(call));
    // Of two that take the same time the first one in the table.
    let least = paying.min_by_key(|algorithm| (algorithm.estimate)(call));
    let least = least.or_else(|| left().min_by_key(|algorithm| (algorithm.estimate)(call)));
    least.map_or(Way::Flat, |algorithm| algorithm.way)
}

/// Whether rules leave a way through the cells. By reading alone no call goes: who cannot read has to get the payloads.
fn is_left_a_way(call: &NodeCall) -> bool {
    let may = |algorithm: &NodeAlgorithm| {
        !matches!(algorithm.way, Way::Reading | Way::Messages)
            && algorithm.can(call)
            && !call.room.told.bars(algorithm.way)
    };
    WAYS.iter().any(may)
}

/// Whether a call goes by messages though it could go through the cells.
pub fn goes_by_messages(call: &NodeCall) -> bool {
    let told = call.room.told;
    told.way == Some(Way::Messages)
        || !is_left_a_way(call)
        || told.way.is_none()
            && !told.bars(Way::Messages)
            && is_sooner_by_messages(call.shape, call.members, call.bytes)
}

fn entry(way: Way) -> &'static NodeAlgorithm {
    WAYS.iter().find(|algorithm| algorithm.way == way).expect("every way has an entry")
}

/// Picoseconds for a byte that is copied, or read from another member.
const BYTE: u128 = 20;
/// For a wait for others that have cores of their own, and for a turn of the processes that share one.
const WAIT: u128 = TWO_PHASES_FROM as u128 * BYTE;
const TURN: u128 = 8 * WAIT;
/// For a block more to look after, for each member that exchanges some.
const BLOCK: u128 = EXCHANGED_FROM as u128 * BYTE;
/// For a call of the kernel that copies from another process.
const COPY_CALL: u128 = 300_000;
/// Waits of a call by reading: where to read, what is combined, and that all has been read.
const WORDS: u128 = 2;
const WORDS_OF_REDUCTION: u128 = 3;

impl NodeCall {
    /// A call of so many members of one node; `None` for what has no ways there.
    pub fn of(call: &Call<'_>, members: u32, blocking: bool, room: Room) -> Option<NodeCall> {
        let (shape, bytes, element, in_place) = Shape::of(call)?;
        Some(NodeCall { shape, members, bytes, element, in_place, blocking, room })
    }

    fn bytes(&self) -> u128 {
        u128::from(self.bytes)
    }

    fn others(&self) -> u128 {
        u128::from(self.members).saturating_sub(1)
    }

    /// A wait for all others.
    fn wait(&self) -> u128 {
        if self.room.crowded { TURN } else { WAIT }
    }

    /// What a member writes.
    fn written(&self) -> u128 {
        match self.shape {
            Shape::Barrier => 0,
            shape => self.bytes() * u128::from(shape.blocks(self.members)) * BYTE,
        }
    }

    /// What the member reads that reads most, where all is read as it was written.
    fn read(&self) -> u128 {
        match self.shape {
            Shape::Barrier => 0,
            Shape::Bcast { .. } | Shape::Scatter { .. } => self.bytes() * BYTE,
            Shape::Gather { .. }
            | Shape::Allgather
            | Shape::Alltoall
            | Shape::Reduce { .. }
            | Shape::Allreduce
            | Shape::ReduceScatter => self.bytes() * self.others() * BYTE,
        }
    }

    fn is_vector(&self) -> bool {
        matches!(self.shape, Shape::Reduce { .. } | Shape::Allreduce)
    }

    /// Whether there is a part of at least an element for each of so many.
    fn has_parts(&self, parts: u32) -> bool {
        self.bytes >= self.element.saturating_mul(u64::from(parts))
    }

    /// A reduction in two phases, in which each member combines a part.
    fn in_two_phases(&self) -> u128 {
        let second = u128::from(second_wait(self.shape, &self.room)) * BYTE;
        self.wait() + second + self.written() + self.bytes() * BYTE
    }
}

const ALL: &[&str] = &[
    "barrier",
    "bcast",
    "gather",
    "scatter",
    "allgather",
    "alltoall",
    "reduce",
    "allreduce",
    "reduce_scatter",
];
const PIECE: &[Parameter] = &[Parameter::Segment];
const HERE: &str = "Weft, core/coll/README.md: inside a node";

static WAYS: &[NodeAlgorithm] = &[
    NodeAlgorithm {
        name: "core-by-core",
        way: Way::ByCores,
        operations: &["allreduce"],
        source: "Weft, core/coll/src/rounds/by_cores.rs; after Parsons, Pai, Accelerating MPI collective communications through hierarchical algorithms, 2014",
        parameters: PIECE,
        restriction: "members bound to cores that some of them share; pays from two on one core and 64 KiB that the third and further members \
                      would write",
        can: |call| {
            let room = &call.room;
            let cores = &room.cores;
            cores.is_known()
                && call.element <= LONG_ELEMENT
                && call.has_parts(call.members)
                && longest_by_cores(call.element, room) > 0
        },
        pays: |call| {
            let more = call.bytes.saturating_mul(u64::from(call.members).saturating_sub(2));
            call.room.cores.most() >= BY_CORES_FROM && more >= TWO_PHASES_FROM_EXCHANGED
        },
        // As exchanged, but for the lines that do not go from core to core: 2 (C - 1) n of 2 (N - N / C) n.
        estimate: |call| {
            let (cores, most) = (u128::from(call.room.cores.count()), u128::from(call.room.cores.most()));
            let saved = call.bytes() * BYTE * cores.saturating_sub(1) * most.saturating_sub(1)
                / u128::from(call.members.max(1));
            call.in_two_phases().saturating_sub(saved / 2)
        },
    },
    NodeAlgorithm {
        name: "cells-exchanged",
        way: Way::Exchanged,
        operations: &["allgather", "alltoall", "reduce", "allreduce", "reduce_scatter"],
        source: HERE,
        parameters: PIECE,
        restriction: "three members to 16 that share cores; pays from 2 KiB for each member in each block, to 64 MiB in all (allgather: of at most five, to 8 \
                      MiB)",
        can: |call| {
            let block = call.room.block as u64;
            match call.is_vector() {
                true => block > 0 && call.element <= LONG_ELEMENT && call.has_parts(call.members),
                false => block > 0 && call.element <= block && call.bytes >= call.element.max(1),
            }
        },
        pays: |call| call.is_vector() || is_measured_exchanged(call.shape, call.members, call.bytes),
        estimate: |call| match call.is_vector() {
            true => call.in_two_phases(),
            false => {
                let blocks = u128::from(call.members) * call.others();
                call.wait() + call.written() + call.read() + BLOCK * blocks
            }
        },
    },
    NodeAlgorithm {
        name: "cells-two-phases",
        way: Way::TwoPhases,
        operations: &["reduce", "allreduce"],
        source: "Rabenseifner, Optimization of collective reduction operations, 2004; in cells",
        parameters: PIECE,
        restriction: "three members or more",
        can: |call| call.members > 2 && call.has_parts(call.members),
        pays: |_| true,
        estimate: |call| {
            // Lines have to be taken back from those that have read them.
            let back = if call.room.block > 0 { call.bytes() * BYTE / 2 } else { 0 };
            call.in_two_phases() + back
        },
    },
    NodeAlgorithm {
        name: "cells",
        way: Way::Flat,
        operations: ALL,
        source: HERE,
        parameters: PIECE,
        restriction: "none",
        can: |_| true,
        pays: |_| true,
        estimate: |call| {
            let exchanges = matches!(call.shape, Shape::Allgather | Shape::Alltoall | Shape::ReduceScatter);
            let back = if exchanges && call.room.block > 0 { call.read() } else { 0 };
            call.wait() + call.written() + call.read() + back
        },
    },
    NodeAlgorithm {
        name: "reading",
        way: Way::Reading,
        operations: &["allgather", "alltoall", "reduce", "allreduce", "reduce_scatter"],
        source: "Chai, Lai, Jin, Panda, Designing an efficient kernel-level and user-level hybrid approach for MPI intra-node communication, 2008; tried at run time",
        parameters: &[],
        restriction: "members that can read one another's memory, blocking calls from 4 KiB, alltoall not in place; tried from 16 to 128 KiB, by the \
                      operation",
        can: |call| {
            call.blocking
                && call.bytes >= READ_FROM
                && call.has_parts(call.members)
                && !(call.in_place && matches!(call.shape, Shape::Alltoall))
        },
        pays: |call| is_contested(call.shape, call.members, call.bytes, call.in_place, call.room.crowded),
        estimate: |call| {
            let words = if call.is_vector() && call.members > 2 { WORDS_OF_REDUCTION } else { WORDS };
            let read = match call.is_vector() {
                true => 2 * call.bytes() * BYTE,
                false => call.read(),
            };
            call.wait() * words + COPY_CALL * call.others() + read
        },
    },
    NodeAlgorithm {
        name: "messages",
        way: Way::Messages,
        operations: ALL,
        source: "the other algorithms of the operation; a rule that names one of them says the same",
        parameters: &[],
        restriction: "none; pays for broadcasts of 64 KiB to 1 MiB to one other",
        can: |_| true,
        pays: |call| is_sooner_by_messages(call.shape, call.members, call.bytes),
        estimate: |call| call.wait() + 2 * (call.written() + call.read()),
    },
];

/// Bytes of the shortest call that a rule can make go by reading.
const READ_FROM: u64 = 4 << 10;
