//! Collectives inside a node, in rounds over cells that every member writes for itself and all others read (design section 9).
//!
//! Pure: what is written into which round and what is made of it. The cells and the order of their bytes in memory are behind
//! [`Slots`], the program's arguments behind [`Operands`]; so all members can run in one thread (`tests/rounds.rs`), and
//! the real cells are `weft_shm::rounds`.
//!
//! A call is cut into *pieces* of what a cell can carry, a round each, so that a member writes the next pieces while
//! others read the last ones:
//!
//! - **flat**: every writer writes its piece, every reader reads all. One round a piece. A reduction reads what two members
//!   wrote and writes its result in one pass, so two members move no byte more than in any other way, and wait once.
//! - **by reading** (long blocking calls, where that is found to be faster): nothing but words goes through the cells, see [`long`].
//! - **two phases** (reductions of longer vectors among more than two): everybody writes what others combine of its piece; each
//!   member combines its part of all and writes that; each reads the parts. Two rounds a piece, and no element is combined
//!   twice. The second round of a piece comes after the first one of the next, so that nobody only waits.
//!
//! - **exchanged** (longer payloads of more than two that share cores, of one block for each): each block lies where its writer has read last. In
//!   two phases a result comes back where the contribution lay of which it was made.
//! - **by cores** (longer allreduces where several members are bound to one core): see [`by_cores`].
//!
//! Reductions combine in the order of ranks, from the right: the last two by a loop with three operands, the others onto that.
//! Every element is combined at one place or by the same loops in the same order everywhere, so the results of all
//! members are the same bit for bit, signs and payloads of not-a-numbers included.

use crate::call::Call;

mod by_cores;
mod contest;
mod cores;
mod cut;
mod long;
mod script;
mod ways;

pub use contest::{Contest, Course, Plan, is_contested};
pub use cores::Cores;
pub use cut::{Room, is_one_round, is_sooner_by_messages};
pub use long::{BlockingRun, Desk};
use script::{Own, Phase};
pub use script::{Script, is_fetched, others_in_turn};
pub use ways::{
    NodeAlgorithm, NodeCall, RankedWay, Standing, Told, Way, all as all_ways, goes_by_messages, rank_on_node,
};

/// Rounds that a member writes before it reads the first of them; below the number of cells. More than two would only push
/// what was written out of the nearest cache before it is read.
const AHEAD: u64 = 2;
/// The same of a call that nobody attends to: what is written when it starts is what others find while this member does
/// something else.
const AHEAD_UNATTENDED: u64 = 7;
/// The same in two phases, where contributions stay until the results made of them are written.
const AHEAD_IN_TWO_PHASES: u64 = 4;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Bcast {
        /// Root.
        root: u32,
    },
    /// `MPI_Gather`.
    Gather {
        /// Root.
        root: u32,
    },
    /// `MPI_Scatter`.
    Scatter {
        /// Root.
        root: u32,
    },
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Alltoall`.
    Alltoall,
    /// `MPI_Reduce`.
    Reduce {
        /// Root.
        root: u32,
    },
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Reduce_scatter_block`, and `MPI_Reduce_scatter` with equal counts.
    ReduceScatter,
}

impl Shape {
    /// Whether all write and wait for all in every round.
    #[inline]
    const fn joins_all(self) -> bool {
        matches!(
            self,
            Shape::Barrier | Shape::Allgather | Shape::Alltoall | Shape::Allreduce | Shape::ReduceScatter
        )
    }

    /// Blocks in one payload.
    fn blocks(self, members: u32) -> u64 {
        match self {
            // One for each of the others.
            Shape::Scatter { .. } | Shape::Alltoall | Shape::ReduceScatter => u64::from(members.max(2) - 1),
            _ => 1,
        }
    }

    /// Of a call, with bytes of a block, bytes that stay together, and whether it is in place; `None` for what does not go by rounds.
    pub fn of(call: &Call<'_>) -> Option<(Shape, u64, u64, bool)> {
        Some(match *call {
            Call::Barrier => (Shape::Barrier, 0, 1, false),
            Call::Bcast { root, bytes } => (Shape::Bcast { root }, bytes, 1, false),
            Call::Gather { root, bytes, in_place } => (Shape::Gather { root }, bytes, 1, in_place),
            Call::Scatter { root, bytes, in_place } => (Shape::Scatter { root }, bytes, 1, in_place),
            Call::Allgather { bytes, in_place } => (Shape::Allgather, bytes, 1, in_place),
            Call::Alltoall { bytes, in_place } => (Shape::Alltoall, bytes, 1, in_place),
            Call::Reduce { root, vector, in_place } => {
                (Shape::Reduce { root }, vector.bytes(), vector.element, in_place)
            }
            Call::Allreduce { vector, in_place } => {
                (Shape::Allreduce, vector.bytes(), vector.element, in_place)
            }
            Call::ReduceScatter { counts: &[first, ref rest @ ..], vector, in_place } => {
                if rest.iter().any(|&count| count != first) {
                    return None;
                }
                (Shape::ReduceScatter, first * vector.element, vector.element, in_place)
            }
            _ => return None,
        })
    }

    /// The operation's name in the registry.
    pub const fn operation(self) -> &'static str {
        match self {
            Shape::Barrier => "barrier",
            Shape::Bcast { .. } => "bcast",
            Shape::Gather { .. } => "gather",
            Shape::Scatter { .. } => "scatter",
            Shape::Allgather => "allgather",
            Shape::Alltoall => "alltoall",
            Shape::Reduce { .. } => "reduce",
            Shape::Allreduce => "allreduce",
            Shape::ReduceScatter => "reduce_scatter",
        }
    }

    /// What must be the same at all members of a call, in 16 bits: enough to notice nearly all calls that do not match.
    #[inline]
    pub const fn signature(self, bytes: u64) -> u16 {
        let (kind, root) = match self {
            Shape::Barrier => (0, 0),
            Shape::Bcast { root } => (1, root),
            Shape::Gather { root } => (2, root),
            Shape::Scatter { root } => (3, root),
            Shape::Allgather => (4, 0),
            Shape::Alltoall => (5, 0),
            Shape::Reduce { root } => (6, root),
            Shape::Allreduce => (7, 0),
            Shape::ReduceScatter => (8, 0),
        };
        let folded = bytes ^ bytes >> 11 ^ bytes >> 22 ^ bytes >> 33;
        kind << 12 | ((folded as u16).wrapping_add(root as u16) & 0xfff)
    }
}

/// Where the block for `member` lies in the payload of `writer`, which has none for itself.
#[inline]
pub fn block_of(member: u32, writer: u32) -> usize {
    member as usize - usize::from(member > writer)
}

/// Who writes in a round, as all members know alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// All members, who wait for all, and attend to it.
    All,
    /// This member alone, which reads nothing in it, and attends to it.
    Alone,
    /// Any, and what this one writes is read on its own core only. The longest payload has so many bytes.
    Near(usize),
    /// Any.
    Any,
}

/// A payload that is about to be written.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    /// Its round.
    pub round: u64,
    /// Its bytes at most.
    pub bytes: usize,
    /// Whether it is longer than a short one.
    pub long: bool,
    /// Who writes in its round.
    pub writers: Writers,
    /// Whether the program's memory is copied there; otherwise it is the result of a reduction.
    pub is_copied: bool,
    /// Of a call in two phases that all attend to: bytes of the longest contribution and of the longest result. Contributions and results
    /// come in pairs, one of each a piece, in the order of pieces; there is room for two pairs, and after a contribution comes
    /// nothing but the next one before its result.
    pub pair: Option<(usize, usize)>,
}

/// A payload of one block for each of the others, or of results made of such blocks. Each block is written where its writer has read last, so that
/// nothing needs to be fetched from a reader to be written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// This member has read all that came to it in the rounds below.
    pub read: u64,
    /// The last round in which its place is read: that of the results.
    pub until: u64,
    /// Of results the round of the contributions that they are made of.
    pub made_of: Option<u64>,
    /// The members that give back a result for what they get, or to whom one is given for what comes from them, one bit each.
    pub returned: u64,
    /// The members whose blocks go one way only: they have read there last what this one writes again.
    pub one_way: u64,
    /// Whether others than the one that a block is for read it, too.
    pub is_shared: bool,
    /// Those that write blocks for one another, one bit each.
    pub writers: u64,
    /// Whether it goes where the contribution before lay: this is the first of its call, and what came there before each has read for itself
    /// when it begins the next call. The same at all members.
    pub stays: bool,
}

/// The own blocks of a round, and those of others that they are made of.
pub trait Exchange {
    /// The own block for a member.
    fn room(&mut self, member: u32, len: usize) -> &mut [u8];
    /// Its block, of so many bytes, is about to be written: whether past the caches.
    fn goes_past(&mut self, member: u32, len: usize) -> bool;
    /// The contribution of a member of which results are made.
    fn heard(&self, member: u32, len: usize) -> &[u8];
    /// A long payload that is there.
    fn payload(&self, member: u32, round: u64, len: usize) -> &[u8];
}

impl Payload {
    /// The bytes of a long payload, otherwise 0.
    #[inline]
    pub fn long_bytes(&self) -> usize {
        if self.long { self.bytes } else { 0 }
    }
}

/// Cells of all members, as one of them sees them. Rounds are numbered from the first operation of a communicator on.
pub trait Slots {
    /// Bytes of a short payload; longer ones take the long place of the cell.
    const SHORT: usize;
    /// The first round of the next operation.
    fn next(&self) -> u64;
    /// Whether this member may write a payload.
    fn has_room(&mut self, payload: Payload) -> bool;
    /// Those that have to go on before this member may write a payload, one bit each.
    fn behind(&self, payload: Payload) -> u64;
    /// Lets `work` write the own payload of a round that has room; it may read payloads of earlier rounds meanwhile. It is told
    /// for which members, one bit each, it shall write past the caches, upon which nothing but the time depends.
    fn fill(&mut self, payload: Payload, work: impl FnOnce(&mut [u8], &dyn Payloads, u64));
    /// Whether this member may write blocks that are exchanged in a round.
    fn has_room_for_blocks(&mut self, round: u64, what: Exchanged) -> bool;
    /// Those that have to go on before, one bit each.
    fn behind_with_blocks(&self, round: u64, what: Exchanged) -> u64;
    /// A round in which blocks are exchanged and this member writes none.
    fn pass_blocks(&mut self, round: u64, what: Exchanged);
    /// Lets `work` write the own blocks of a round that has room.
    fn exchange(&mut self, round: u64, what: Exchanged, work: impl FnOnce(&mut dyn Exchange));
    /// Shows the payload to the others.
    fn publish(&mut self, round: u64, signature: u16);
    /// Those of `of` (one bit each) whose payload of the round is not there yet.
    fn missing(&self, round: u64, signature: u16, of: u64) -> u64;
    /// A member of `of` that is in another operation in the same round.
    fn strayed(&self, round: u64, signature: u16, of: u64) -> Option<u32>;
    /// Lends the payloads.
    fn read(&self, work: impl FnOnce(&dyn Payloads));
    /// All members have begun the operation with that first round.
    fn heard_of_all(&mut self, first: u64);
    /// This member has finished the rounds below.
    fn finish(&mut self, rounds: u64);
    /// The operation ends; the next begins with that round.
    fn end(&mut self, rounds: u64);
    /// Wakes those of `of` that sleep.
    fn wake(&self, of: u64);
}

/// Cells of members that may read one another's memory.
pub trait Readers: Slots {
    /// Whether members share cores. The same at all members.
    fn is_crowded(&self) -> bool;
    /// What the members have found out about their ways.
    fn contest(&mut self) -> &mut Contest;
    /// What is kept from one long call to the next.
    fn desk(&mut self) -> &mut Desk;
    /// Whether this member can read the memory of all others.
    fn can_read(&self) -> bool;
    /// Where others can read these bytes, which do not change before all have told one another that they may.
    fn expose(&mut self, bytes: &[u8]) -> u64;
    /// Copies from an address in the memory of another member; whether that went well.
    fn copy_from(&mut self, member: u32, address: u64, into: &mut [u8]) -> bool;
    /// Nanoseconds since some moment.
    fn now(&self) -> u64;
}

/// Payloads that are there.
pub trait Payloads {
    /// That of a member in a round.
    fn get(&self, member: u32, round: u64, long: bool, len: usize) -> &[u8];
    /// The block of a member for this one in a round in which blocks are exchanged.
    fn block(&self, member: u32, round: u64, len: usize) -> &[u8];
    /// The block of a member for another one, who may be any but the writer.
    fn block_for(&self, member: u32, reader: u32, round: u64, len: usize) -> &[u8];
    /// Fetches what will be read soon, without waiting for it. Nothing but the time depends on it.
    fn fetch(&self, _bytes: &[u8]) {}
}

/// The program's arguments of one call. Positions are packed bytes.
pub trait Operands {
    /// Copies from what this member contributes (the receive argument when in place). `past`: past the caches, if that can be
    /// done.
    fn take(&self, at: u64, to: &mut [u8], past: bool);
    /// Copies to the result.
    fn give(&mut self, at: u64, from: &[u8]);
    /// Copies own contribution to the result, when it is not there already.
    fn keep(&mut self, from: u64, at: u64, len: usize);
    /// Copies a part of a result into a payload, past the caches if that can be done.
    fn put(&self, from: &[u8], to: &mut [u8]);
    /// `into = left op into`.
    fn combine(&mut self, left: Term<'_>, into: Target<'_>);
    /// `into = left op right`. Neither operand lies in `into`: of who contributes in place the operand is what it wrote into
    /// a payload, or the result is made aside.
    fn combine_two(&mut self, left: Term<'_>, right: Term<'_>, into: Target<'_>);
}

/// Arguments that lie in memory which others can read.
pub trait Readable: Operands {
    /// The address of `len` bytes of what this member contributes, where they lie without gaps.
    fn given_at(&self, at: u64, len: usize) -> Option<u64>;
    /// The same of the result.
    fn result_at(&self, at: u64, len: usize) -> Option<u64>;
    /// Lends `len` bytes of the result to `read`, and says what it says; false where they do not lie without gaps.
    fn receive(&mut self, at: u64, len: usize, read: impl FnOnce(&mut [u8]) -> bool) -> bool;
}

/// An operand of a reduction.
#[derive(Clone, Copy, Debug)]
pub enum Term<'a> {
    /// In a payload.
    Written(&'a [u8]),
    /// What this member contributes, at that position.
    Own(u64),
}

/// Where a reduction's result goes, with its bytes.
#[derive(Debug)]
pub enum Target<'a> {
    /// Into the result, at that position.
    Result(u64, usize),
    /// Into a payload.
    Payload(&'a mut [u8]),
}

impl Target<'_> {
    /// The same once more.
    fn again(&mut self) -> Target<'_> {
        match self {
            Target::Result(at, len) => Target::Result(*at, *len),
            Target::Payload(room) => Target::Payload(room),
        }
    }

    /// Its bytes.
    fn bytes(&self) -> usize {
        match self {
            Target::Result(_, len) => *len,
            Target::Payload(room) => room.len(),
        }
    }

    /// `count` bytes of it from `at` on.
    fn part(&mut self, at: usize, count: usize) -> Target<'_> {
        match self {
            Target::Result(begin, _) => Target::Result(*begin + at as u64, count),
            Target::Payload(room) => Target::Payload(&mut room[at..at + count]),
        }
    }
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation is over at this member.
    Done,
    /// Others have to go on first.
    Blocked,
    /// This member called another operation, or one of other size or root.
    Strayed(u32),
    /// The memory of that member, which could be read, cannot be read any more.
    Unread(u32),
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    script: Script,
    first: u64,
    written: u64,
    read: u64,
    unattended: bool,
}

impl Run {
    /// Begins a call, of which the first round may be written already.
    pub fn begin<S: Slots>(script: Script, slots: &S) -> Run {
        let (script, first) = (script.placed(S::SHORT), slots.next());
        // A short form may have written the one cell of the call before it gave up waiting.
        let shown = slots.missing(first, script.signature(), 1 << script.group().rank) == 0;
        Run { script, first, written: u64::from(shown), read: 0, unattended: false }
    }

    /// The same for a nonblocking call: its member does other things between two steps, so that every payload wakes whoever may
    /// sleep for it. (Where all wait for all, otherwise he does who sees the round whole.)
    #[must_use]
    pub fn unattended(self) -> Run {
        Run { unattended: true, ..self }
    }

    /// The same call from its beginning, at the cells' next round.
    #[must_use]
    pub fn again<S: Slots>(self, slots: &S) -> Run {
        Run { unattended: self.unattended, ..Run::begin(self.script, slots) }
    }

    /// The same call from its beginning, of which nothing is written.
    #[inline]
    pub fn restart<S: Slots>(&mut self, slots: &S) {
        (self.first, self.written, self.read) = (slots.next(), 0, 0);
    }

    /// Goes as far as it can without waiting.
    pub fn step(&mut self, slots: &mut impl Slots, operands: &mut impl Operands) -> Outcome {
        let script = self.script;
        let (rounds, signature) = (script.rounds(), script.signature());
        loop {
            let wrote = self.written < rounds && self.write(slots, operands, signature);
            let mut moved = wrote;
            if self.read < self.written {
                let (phase, piece) = script.of(self.read);
                let (round, awaited) = (self.first + self.read, script.awaits(phase));
                if slots.missing(round, signature, awaited) == 0 {
                    slots.read(|from| script.read(phase, piece, round, operands, from));
                    self.read += 1;
                    moved = true;
                    if self.read == rounds {
                        if script.joins_all() {
                            slots.heard_of_all(self.first);
                        }
                        slots.end(self.first + rounds);
                        slots.wake(script.others());
                        if !script.is_one_round() {
                            script.keep(operands);
                        }
                        return Outcome::Done;
                    }
                    slots.finish(self.first + self.held());
                    slots.wake(script.others());
                } else if !moved && let Some(member) = slots.strayed(round, signature, awaited) {
                    return Outcome::Strayed(member);
                }
            }
            if !moved {
                return Outcome::Blocked;
            }
        }
    }

    /// Whom the call waits for, one bit each.
    pub fn missing(&self, slots: &impl Slots) -> u64 {
        let script = self.script;
        let (rounds, signature) = (script.rounds(), script.signature());
        let mut missing = 0;
        if self.read < rounds {
            missing = slots.missing(self.first + self.read, signature, script.awaits(script.of(self.read).0));
        }
        if self.written < rounds && script.writes(script.of(self.written).0) {
            missing |= match script.exchanges() {
                true => slots.behind_with_blocks(self.first + self.written, self.exchanged()),
                false => slots.behind(self.payload()),
            };
        }
        missing
    }

    fn write(&mut self, slots: &mut impl Slots, operands: &mut impl Operands, signature: u16) -> bool {
        let script = self.script;
        let (phase, piece) = script.of(self.written);
        if !script.writes(phase) {
            self.written += 1;
            return true;
        }
        let payload = self.payload();
        let round = payload.round;
        // Not too far ahead of its own reading: it reads its own payloads, too, and what is near is in the cache.
        let most = match (script.is_in_two_phases(), self.unattended) {
            (true, _) => AHEAD_IN_TWO_PHASES,
            (false, true) => AHEAD_UNATTENDED,
            (false, false) => AHEAD,
        };
        let ahead = self.written - self.held() >= most;
        if ahead
            || phase == Phase::Results && self.read <= script.parts_round(piece)
            || match script.exchanges() {
                true => !slots.has_room_for_blocks(round, self.exchanged()),
                false => !slots.has_room(payload),
            }
        {
            return false;
        }
        let first = self.first;
        if script.exchanges() {
            self.exchange(slots, operands);
        } else {
            slots.fill(payload, |to, from, past| {
                script.write(phase, piece, Own { first, past }, operands, to, from);
            });
        }
        slots.publish(round, signature);
        slots.wake(if self.unattended { script.others() } else { script.wakes() });
        if script.is_one_round() {
            // While the others write.
            script.keep(operands);
        }
        self.written += 1;
        if phase == Phase::Results {
            // What it was made of is not needed any more.
            slots.finish(self.first + self.held());
            slots.wake(script.others());
        }
        true
    }

    /// What comes in the round that is to be written.
    fn payload(&self) -> Payload {
        let script = self.script;
        Payload {
            round: self.first + self.written,
            bytes: script.payload_of(self.written) as usize,
            long: script.is_long(),
            writers: match self.unattended {
                true => Writers::Any,
                false => script.writers(script.of(self.written).0),
            },
            is_copied: script.of(self.written).0 == Phase::Parts,
            pair: if script.is_in_two_phases() && !self.unattended { script.pair() } else { None },
        }
    }

    /// Writes the blocks of a round that has room. Not inside the caller: the shortest calls go without it.
    #[inline(never)]
    fn exchange(&self, slots: &mut impl Slots, operands: &mut impl Operands) {
        let (phase, piece) = self.script.of(self.written);
        slots.exchange(self.first + self.written, self.exchanged(), |blocks| {
            self.script.write_blocks(phase, piece, operands, blocks);
        });
    }

    /// What comes there, where it is exchanged.
    fn exchanged(&self) -> Exchanged {
        self.script.exchanged(self.first, self.written, self.first + self.read)
    }

    /// Rounds whose payloads are not needed any more.
    fn held(&self) -> u64 {
        if !self.script.is_in_two_phases() || self.written == self.script.rounds() {
            return self.read;
        }
        // Contributions are needed until the results made of them are written.
        let piece = (self.written.saturating_sub(1) / 2).min(self.script.pieces() - 1);
        self.read.min(self.script.parts_round(piece))
    }
}
