//! Collectives inside a node, in rounds over cells that every member writes for itself and all others read (design section 9).
//!
//! Pure: what is written into which round and what is made of it. The cells and the order of their bytes in memory are behind
//! [`Slots`], the program's arguments behind [`Operands`]; so all members can run in one thread (`tests/rounds.rs`), and
//! the real cells are `weft_shm::rounds`.
//!
//! A call is cut into *pieces* of what a cell can carry, a round each, so that a member writes the next pieces while
//! others read the last ones:
//!
//! - **flat**: every writer writes its piece, every reader reads all. One round a piece.
//! - **two phases** (reductions of longer vectors): everybody writes what others combine of its piece; each member combines
//!   its part of all and writes that; each reads the parts. Two rounds a piece, and no element is combined twice. The
//!   second round of a piece comes after the first one of the next, so that nobody only waits.
//!
//! Reductions combine in the order of ranks, from the right; every element is combined at one place or by the same
//! operations in the same order everywhere, so the results of all members are the same bit for bit.

use crate::call::Group;
use crate::partition::Partition;

/// Bytes from which a reduction goes in two phases among more than two members.
const TWO_PHASES_FROM: u64 = 512;
/// The same among two, where less is saved.
const TWO_PHASES_OF_TWO_FROM: u64 = 32 << 10;
/// Bytes of a result that a reduce-scatter makes at a time.
const AT_A_TIME: usize = 4096;
/// Pieces a call of medium size is cut into, so that writing and reading overlap.
const PIECES: u64 = 2;
/// Rounds that a member writes before it reads the first of them; below the number of cells.
const AHEAD: u64 = 4;
/// Smallest piece worth a round of its own.
const LEAST_PIECE: u64 = 2048;

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
    /// Blocks in one payload.
    fn blocks(self, members: u32) -> u64 {
        match self {
            // One for each of the others.
            Shape::Scatter { .. } | Shape::Alltoall | Shape::ReduceScatter => u64::from(members.max(2) - 1),
            _ => 1,
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

/// Cells of all members, as one of them sees them. Rounds are numbered from the first operation of a communicator on.
pub trait Slots {
    /// Bytes of a short payload; longer ones take the long place of the cell.
    const SHORT: usize;
    /// The first round of the next operation.
    fn next(&self) -> u64;
    /// Whether this member may write in a round.
    fn has_room(&mut self, round: u64) -> bool;
    /// Lets `work` write the own payload of a round that has room; it may read payloads of earlier rounds meanwhile.
    fn fill(&mut self, round: u64, long: bool, work: impl FnOnce(&mut [u8], &dyn Payloads));
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

/// Payloads that are there.
pub trait Payloads {
    /// That of a member in a round.
    fn get(&self, member: u32, round: u64, long: bool, len: usize) -> &[u8];
}

/// The program's arguments of one call. Positions are packed bytes.
pub trait Operands {
    /// Copies from what this member contributes (the receive argument when in place).
    fn take(&self, at: u64, to: &mut [u8]);
    /// Copies to the result.
    fn give(&mut self, at: u64, from: &[u8]);
    /// Copies own contribution to the result, when it is not there already.
    fn keep(&mut self, from: u64, at: u64, len: usize);
    /// `result = left op result`.
    fn combine(&mut self, left: &[u8], at: u64);
    /// `result = own contribution op result`, the two being apart.
    fn combine_own(&mut self, at: u64, len: usize);
    /// `into = own contribution op into`.
    fn combine_with_own(&self, at: u64, into: &mut [u8]);
    /// `into = left op into`.
    fn combine_apart(&self, left: &[u8], into: &mut [u8]);
    /// As [`Operands::combine`], of what another member wrote, perhaps on another core: a block move may fetch it faster than the
    /// loads of a loop.
    fn combine_far(&mut self, left: &[u8], at: u64) {
        self.combine(left, at);
    }
    /// As [`Operands::combine_apart`], of what another member wrote.
    fn combine_apart_far(&mut self, left: &[u8], into: &mut [u8]) {
        self.combine_apart(left, into);
    }
}

/// One call at one member, cut into rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    shape: Shape,
    group: Group,
    /// Bytes of a block: of the vector, or what one member gives to one other.
    bytes: u64,
    element: u64,
    in_place: bool,
    /// Bytes of a block in one round.
    piece: u64,
    /// Rounds, or pairs of them.
    pieces: u64,
    two_phases: bool,
    long: bool,
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
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    script: Script,
    first: u64,
    written: u64,
    read: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Contributions.
    Parts,
    /// Combined parts.
    Results,
}

impl Script {
    /// Cuts a call. `bytes`: the whole of a vector or of a broadcast; of one block where each member gives one or gives one to each.
    /// `element`: bytes that stay together. `slot`: bytes of a long payload.
    pub fn new(shape: Shape, group: Group, bytes: u64, element: u64, in_place: bool, slot: usize) -> Script {
        let blocks = shape.blocks(group.size);
        let element = element.max(1);
        let from = if group.size > 2 { TWO_PHASES_FROM } else { TWO_PHASES_OF_TWO_FROM };
        let two_phases = matches!(shape, Shape::Reduce { .. } | Shape::Allreduce) && bytes >= from;
        let fits = (slot as u64 / blocks / element * element).max(1);
        // Long calls go in as few pieces as fit, medium ones in two, short ones in one; all about equally long.
        let several = (bytes / (LEAST_PIECE / blocks).max(1)).min(PIECES);
        let pieces = bytes.div_ceil(fits).max(several).max(1);
        let piece = bytes.div_ceil(pieces).next_multiple_of(64).div_ceil(element) * element;
        let piece = piece.min(fits).min(bytes.max(1)).max(1);
        let pieces = bytes.div_ceil(piece).max(1);
        Script { shape, group, bytes, element, in_place, piece, pieces, two_phases, long: false }
    }

    /// The same, told how much a short payload holds.
    fn placed(self, short: usize) -> Script {
        Script { long: self.payload() > short as u64, ..self }
    }

    /// Bytes of the longest payload: a call that needs more than the cell itself needs slots.
    pub fn payload(&self) -> u64 {
        self.piece.min(self.bytes)
            * if self.shape == Shape::Barrier { 0 } else { self.shape.blocks(self.group.size) }
    }

    /// Whether an element fits into a slot at all.
    pub fn fits(&self, slot: usize) -> bool {
        self.payload() <= slot as u64 && self.piece >= self.element.min(self.bytes.max(1))
    }

    /// What must be the same at all members.
    pub fn signature(&self) -> u16 {
        self.shape.signature(self.bytes)
    }

    fn rounds(&self) -> u64 {
        self.pieces * if self.two_phases { 2 } else { 1 }
    }

    fn everyone(&self) -> u64 {
        (1 << self.group.size) - 1
    }

    fn others(&self) -> u64 {
        self.everyone() & !(1 << self.group.rank)
    }

    /// Phase and piece of a round: in two phases contributions 0, 1, results 0, contributions 2, results 1, ...
    fn of(&self, round: u64) -> (Phase, u64) {
        if !self.two_phases {
            return (Phase::Parts, round);
        }
        match round {
            0 => (Phase::Parts, 0),
            _ if round == self.rounds() - 1 => (Phase::Results, self.pieces - 1),
            _ if round % 2 == 1 => (Phase::Parts, round.div_ceil(2)),
            _ => (Phase::Results, round / 2 - 1),
        }
    }

    /// The round of the contributions of a piece.
    fn parts_round(&self, piece: u64) -> u64 {
        if !self.two_phases { piece } else { (2 * piece).saturating_sub(1) }
    }

    /// Where a piece begins in its block, and its bytes.
    fn range(&self, piece: u64) -> (u64, usize) {
        let begin = piece * self.piece;
        (begin, (self.bytes - begin).min(self.piece) as usize)
    }

    /// The part of a piece of `len` bytes that a member combines: begin and bytes.
    fn part(&self, len: usize, member: u32) -> (usize, usize) {
        let (count, parts) = (len as u64 / self.element, u64::from(self.group.size));
        let (begin, bytes) = Partition { count, element: self.element, parts }.span(member, member + 1);
        (begin as usize, bytes as usize)
    }

    fn writes(&self, phase: Phase) -> bool {
        let me = self.group.rank;
        match self.shape {
            Shape::Bcast { root } | Shape::Scatter { root } => me == root,
            Shape::Gather { root } => me != root,
            // In place the root's own operand would be overwritten by what it is combined with.
            Shape::Reduce { root } if !self.two_phases => me != root || self.keeps_own_apart(),
            Shape::Barrier | Shape::Allgather | Shape::Alltoall | Shape::Allreduce | Shape::ReduceScatter => {
                true
            }
            Shape::Reduce { .. } => phase == Phase::Parts || self.two_phases,
        }
    }

    fn keeps_own_apart(&self) -> bool {
        self.in_place && self.group.rank != self.group.size - 1
    }

    /// Whose payloads this member waits for in a round.
    fn awaits(&self, phase: Phase) -> u64 {
        let me = self.group.rank;
        match self.shape {
            Shape::Bcast { root } | Shape::Scatter { root } => (1 << root) & self.others(),
            Shape::Gather { root } => {
                if me == root {
                    self.others()
                } else {
                    0
                }
            }
            Shape::Reduce { root } if phase == Phase::Results || !self.two_phases => {
                if me == root {
                    self.others()
                } else {
                    0
                }
            }
            _ => self.others(),
        }
    }

    /// Whether everybody waits for everybody in every round.
    fn joins_all(&self) -> bool {
        matches!(
            self.shape,
            Shape::Barrier | Shape::Allgather | Shape::Alltoall | Shape::Allreduce | Shape::ReduceScatter
        )
    }

    /// Who may sleep for a payload that is published; where all wait for all, those who see the round whole wake the others.
    fn wakes(&self) -> u64 {
        match self.shape {
            Shape::Bcast { .. } | Shape::Scatter { .. } => self.others(),
            Shape::Gather { root } | Shape::Reduce { root } => (1 << root) & self.others(),
            _ => 0,
        }
    }

    /// Writes the own payload of a round.
    fn write(
        &self,
        phase: Phase,
        piece: u64,
        first: u64,
        operands: &mut impl Operands,
        to: &mut [u8],
        from: &dyn Payloads,
    ) {
        let (begin, len) = self.range(piece);
        let me = self.group.rank;
        let own = |block: u32| u64::from(block) * self.bytes + begin;
        match (self.shape, phase) {
            (Shape::Barrier, _) => {}
            (Shape::Scatter { .. } | Shape::Alltoall | Shape::ReduceScatter, _) => {
                // What stays here needs no detour.
                for member in (0..self.group.size).filter(|&member| member != me) {
                    operands.take(own(member), &mut to[block_of(member, me) * len..][..len]);
                }
            }
            (Shape::Allgather, _) => {
                operands.take(if self.in_place { own(me) } else { begin }, &mut to[..len])
            }
            (Shape::Reduce { .. } | Shape::Allreduce, Phase::Results) => {
                let round = first + self.parts_round(piece);
                let (at, part) = self.part(len, me);
                let term = |member: u32| &from.get(member, round, self.long, len)[at..at + part];
                self.fold(operands, begin + at as u64, term, &mut to[..part]);
            }
            (Shape::Reduce { .. } | Shape::Allreduce, Phase::Parts) if self.two_phases => {
                for member in (0..self.group.size).filter(|&member| member != me) {
                    let (at, part) = self.part(len, member);
                    operands.take(begin + at as u64, &mut to[at..at + part]);
                }
            }
            _ => operands.take(begin, &mut to[..len]),
        }
    }

    /// Combines the terms of all members in the order of ranks, the own one at `own` of what this member contributes.
    fn fold<'a>(
        &self,
        operands: &mut impl Operands,
        own: u64,
        term: impl Fn(u32) -> &'a [u8],
        into: &mut [u8],
    ) {
        let (me, last) = (self.group.rank, self.group.size - 1);
        if me == last {
            operands.take(own, into)
        } else {
            into.copy_from_slice(term(last))
        }
        for member in (0..last).rev() {
            if member == me {
                operands.combine_with_own(own, into);
            } else {
                operands.combine_apart_far(term(member), into);
            }
        }
    }

    /// Reads the payloads of a round, which are all there.
    fn read(&self, phase: Phase, piece: u64, round: u64, operands: &mut impl Operands, from: &dyn Payloads) {
        let (begin, len) = self.range(piece);
        let (me, size) = (self.group.rank, self.group.size);
        let others = size as usize - 1;
        let own = |block: u32| u64::from(block) * self.bytes + begin;
        let get = |member: u32, len: usize| from.get(member, round, self.long, len);
        match (self.shape, phase) {
            (Shape::Barrier, _) => {}
            (Shape::Bcast { root }, _) => {
                if me != root {
                    operands.give(begin, get(root, len));
                }
            }
            (Shape::Scatter { root }, _) => match me == root {
                true => operands.keep(own(me), begin, len),
                false => operands.give(begin, &get(root, len * others)[block_of(me, root) * len..][..len]),
            },
            (Shape::Gather { root }, _) if me != root => {}
            (Shape::Gather { .. } | Shape::Allgather, _) => {
                for member in (0..size).filter(|&member| member != me) {
                    operands.give(own(member), get(member, len));
                }
                if !self.in_place {
                    operands.keep(begin, own(me), len);
                }
            }
            (Shape::Alltoall, _) => {
                for member in (0..size).filter(|&member| member != me) {
                    operands
                        .give(own(member), &get(member, len * others)[block_of(me, member) * len..][..len]);
                }
                if !self.in_place {
                    operands.keep(own(me), own(me), len);
                }
            }
            (Shape::ReduceScatter, _) => {
                // Not straight into the result: in place the own term may lie there.
                let mut result = [0; AT_A_TIME];
                for at in (0..len).step_by(AT_A_TIME) {
                    let count = AT_A_TIME.min(len - at);
                    let result = &mut result[..count];
                    let term =
                        |member: u32| &get(member, len * others)[block_of(me, member) * len + at..][..count];
                    self.fold(operands, own(me) + at as u64, term, result);
                    operands.give(begin + at as u64, result);
                }
            }
            (Shape::Reduce { root }, _) if me != root => {}
            (Shape::Reduce { .. } | Shape::Allreduce, Phase::Results) => {
                for member in 0..size {
                    let (at, part) = self.part(len, member);
                    operands.give(begin + at as u64, get(member, part));
                }
            }
            (Shape::Reduce { .. } | Shape::Allreduce, Phase::Parts) => {
                if self.two_phases {
                    return;
                }
                match me == size - 1 {
                    true => operands.keep(begin, begin, len),
                    false => operands.give(begin, get(size - 1, len)),
                }
                for member in (0..size - 1).rev() {
                    if member != me || self.writes(phase) {
                        match member == me {
                            true => operands.combine(get(member, len), begin),
                            false => operands.combine_far(get(member, len), begin),
                        }
                    } else {
                        // Only a root that wrote nothing: its operand is apart from the result.
                        operands.combine_own(begin, len);
                    }
                }
            }
        }
    }
}

impl Run {
    /// Begins a call, of which the first round may be written already.
    pub fn begin<S: Slots>(script: Script, slots: &S) -> Run {
        let (script, first) = (script.placed(S::SHORT), slots.next());
        // A short form may have written the one cell of the call before it gave up waiting.
        let shown = slots.missing(first, script.signature(), 1 << script.group.rank) == 0;
        Run { script, first, written: u64::from(shown), read: 0 }
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
        let (phase, _) = self.script.of(self.read);
        let missing =
            slots.missing(self.first + self.read, self.script.signature(), self.script.awaits(phase));
        // Otherwise it waits for room, which any may be short of.
        if missing != 0 { missing } else { self.script.others() }
    }

    fn write(&mut self, slots: &mut impl Slots, operands: &mut impl Operands, signature: u16) -> bool {
        let script = self.script;
        let (phase, piece) = script.of(self.written);
        if !script.writes(phase) {
            self.written += 1;
            return true;
        }
        let round = self.first + self.written;
        // Not too far ahead of its own reading: it reads its own payloads, too, and what is near is in the cache.
        let ahead = self.written - self.held() >= AHEAD;
        if ahead
            || phase == Phase::Results && self.read <= script.parts_round(piece)
            || !slots.has_room(round)
        {
            return false;
        }
        let first = self.first;
        slots.fill(round, script.long, |to, from| script.write(phase, piece, first, operands, to, from));
        slots.publish(round, signature);
        slots.wake(script.wakes());
        self.written += 1;
        true
    }

    /// Rounds whose payloads are not needed any more.
    fn held(&self) -> u64 {
        if !self.script.two_phases || self.written == self.script.rounds() {
            return self.read;
        }
        // Contributions are needed until the results made of them are written.
        let piece = (self.written.saturating_sub(1) / 2).min(self.script.pieces - 1);
        self.read.min(self.script.parts_round(piece))
    }
}
