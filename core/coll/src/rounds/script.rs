//! How a call is cut into rounds, what a member writes in each and what it makes of the others'.

use super::{Exchange, Exchanged, Operands, Payloads, Shape, Target, Term, Writers, block_of};
use crate::call::Group;
use crate::partition::Partition;

/// What more members than two would read in a flat reduction, beyond what two read, from which it goes in two phases: what takes
/// as long as the second wait.
const TWO_PHASES_FROM: u64 = 16 << 10;
/// The same where members share cores: there a wait is a change of processes.
const TWO_PHASES_FROM_CROWDED: u64 = 128 << 10;
/// The same there of reductions that all need, where blocks are exchanged.
const TWO_PHASES_FROM_EXCHANGED: u64 = 64 << 10;
/// The same of those to a root, where all others have done when they have written: 64 KiB of four 7.8 us in one phase and 14.4 in two, 256 KiB 27
/// and 33, of eight 64 KiB 20 and 30, 128 KiB 48 and 43.
const REDUCED_IN_TWO_PHASES_FROM: u64 = 768 << 10;
/// Bytes of all the others' terms that a member fetches ahead of combining them: they fit into the nearest cache beside those that it combines.
const FETCHED: usize = 16 << 10;
/// Fewest of them that are: fewer are under way at the same time anyhow.
const FETCHED_FROM: usize = 2048;
/// Bytes of a result that is made aside at a time.
const AT_A_TIME: usize = 4096;
/// Pieces a call of medium size is cut into at least, so that writing and reading overlap.
const PIECES: u64 = 2;
/// Bytes of a piece of a broadcast where members share cores. The root waits for nobody before its ring is full, so that pieces cost
/// it no change of processes, and those on other cores read while it still writes.
const BROADCAST_PIECE: u64 = 64 << 10;
/// Fewest pieces of a reduction to a root in more than one, where members share cores: all but the root wait for nobody's results, and
/// two pieces are slower than three (512 KiB of four near members 70 and 64 us).
const REDUCED_PIECES: u64 = 3;
/// Bytes of the longest element by which parts of a vector may differ in length without need of more room: a result is one of
/// as many equal parts of a contribution as there are members, and at most an element.
const LONG_ELEMENT: u64 = 1024;
/// Bytes of the longest piece where some write and others read, among more than two: those read it while the next one is written.
const LONGEST_PIECE: u64 = 14 << 10;
/// The same between two members, where one writes and the other reads, and payloads of which that many are faster than two: 64 KiB broadcast 8.6
/// instead of 9.6 us, 128 KiB reduced 17.2 instead of 18.6, gathered 22 instead of 25. Scattered
/// ones, and longer ones, gained nothing.
const LONGEST_FOR_ONE: u64 = 16 << 10;
const CUT_FOR_ONE: std::ops::RangeInclusive<u64> = 64 << 10..=128 << 10;
/// Smallest piece worth a round of its own.
const LEAST_PIECE: u64 = 8192;

/// What the members of a communicator have to write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of a long payload.
    pub slot: usize,
    /// The same of contributions of calls in two phases: two of them fit and two results, each a member's part of one. With half of
    /// it two results fit that are as long as they are.
    pub in_two_phases: usize,
    /// Bytes of a block that each member gives to each in such calls, written by who has read there last; 0: there are none.
    pub block: usize,
    /// Whether members share cores, so that each wait costs a change of processes. The same at all members.
    pub crowded: bool,
}

impl Room {
    /// Bytes of the longest payload of any call of so many members.
    pub fn most(self, members: u32) -> usize {
        self.slot.max(self.in_two_phases).max(self.block * members as usize)
    }

    /// The same for all calls.
    pub fn alike(slot: usize, crowded: bool) -> Room {
        Room { slot, in_two_phases: slot, block: 0, crowded }
    }
}

/// The other members, beginning with the next one: so not all read from the same one at a time, whose cache answers one after the other.
#[inline]
pub fn others_in_turn(me: u32, members: u32) -> impl Iterator<Item = u32> {
    (me + 1..members).chain(0..me)
}

/// Whether a member that combines so many bytes of each fetches the others' terms first. All begin to combine with those of the last
/// one, whose cache would have to answer all of them, and then all go on to the next; so they fetch [in turn](others_in_turn). Where they share
/// cores (`crowded`) they do not come at the same time, and it takes longer (64 KiB of four 13.9 and 17.0 us).
#[inline]
pub fn is_fetched(members: u32, bytes: usize, crowded: bool) -> bool {
    members > 2 && !crowded && bytes * (members as usize - 1) >= FETCHED_FROM
}

/// Whether a call surely goes in one round, whatever else is true of it: what a short form may do without a script. The
/// converse does not hold. `slot`, `block`: of the [`Room`].
#[inline]
pub fn is_one_round(shape: Shape, members: u32, bytes: u64, slot: usize, block: usize) -> bool {
    let blocks = shape.blocks(members);
    !is_exchanged(shape, members, bytes, block)
        && bytes * blocks <= slot as u64
        && pieces_for_overlap(shape, members, bytes) < 2
        && bytes * u64::from(members.saturating_sub(2)) < TWO_PHASES_FROM
}

/// Bytes of a block for each member from which on a call in one phase is exchanged block by block, where there is room for that. Shorter ones lie
/// in the nearest caches anyhow, and a short form is sooner there (8 members, 8 KiB for each: 20 and 23 us).
const EXCHANGED_FROM: u64 = 2 << 10;
/// Bytes of the blocks of all members for all to which it is: beyond, all is fetched from memory, and fewer longer pieces are better.
const EXCHANGED_TO: u64 = 8 << 20;
/// Most members that exchange what is the same for all: each writes it once for every other.
const ALIKE_AMONG: u32 = 5;

/// Whether a call in one phase is exchanged block by block; `block`: of the [`Room`]. The same for short forms and scripts.
#[inline]
fn is_exchanged(shape: Shape, members: u32, bytes: u64, block: usize) -> bool {
    let may_be = match shape {
        Shape::Alltoall | Shape::ReduceScatter => true,
        Shape::Allgather => members <= ALIKE_AMONG,
        _ => false,
    };
    let members = u64::from(members);
    let all = bytes.saturating_mul(members * members);
    block > 0 && may_be && bytes >= EXCHANGED_FROM * members && all <= EXCHANGED_TO
}

/// A broadcast to one other goes by a message from here to there: memory of a message goes to and fro between the two, that of
/// payloads one way only, which takes a sixth longer (128 KiB near 5.1 and 4.4 us, 256 KiB 8.6 and 7.6). Beyond, both are bound by memory.
const TO_ONE_BY_MESSAGE: std::ops::Range<u64> = (64 << 10) + 1..1 << 20;

/// Whether a call that could go by rounds is over sooner by messages. The same at all members.
#[inline]
pub fn is_sooner_by_messages(shape: Shape, members: u32, bytes: u64) -> bool {
    members == 2 && matches!(shape, Shape::Bcast { .. }) && TO_ONE_BY_MESSAGE.contains(&bytes)
}

/// Pieces of a medium payload, so that one is read while the next is written. The same for short forms and scripts: members that
/// cut a call differently would read what is not there.
/// Where all write, they do so at the same time, and then all read: a piece more is a wait more.
#[inline]
fn pieces_for_overlap(shape: Shape, members: u32, bytes: u64) -> u64 {
    if shape.joins_all() {
        return 1;
    }
    let payload = bytes.saturating_mul(shape.blocks(members));
    let longest = match shape {
        _ if members > 2 => LONGEST_PIECE,
        Shape::Bcast { .. } | Shape::Reduce { .. } | Shape::Gather { .. }
            if CUT_FOR_ONE.contains(&payload) =>
        {
            LONGEST_FOR_ONE
        }
        _ => u64::MAX,
    };
    (payload / LEAST_PIECE).min(PIECES).max(payload.div_ceil(longest))
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
    /// Whether payloads are exchanged block by block.
    exchanges: bool,
    long: bool,
    crowded: bool,
}

/// How the own payload of a round is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    /// The first round of the call.
    pub first: u64,
    /// For whom past the caches, one bit each.
    pub past: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Contributions.
    Parts,
    /// Combined parts.
    Results,
}

impl Script {
    /// Cuts a call. `bytes`: the whole of a vector or of a broadcast; of one block where each member gives one or gives one to
    /// each. `element`: bytes that stay together.
    pub fn new(shape: Shape, group: Group, bytes: u64, element: u64, in_place: bool, room: Room) -> Script {
        let blocks = shape.blocks(group.size);
        let element = element.max(1);
        let from = match shape {
            _ if !room.crowded => TWO_PHASES_FROM,
            Shape::Allreduce if room.block > 0 => TWO_PHASES_FROM_EXCHANGED,
            Shape::Reduce { .. } if room.block > 0 => REDUCED_IN_TWO_PHASES_FROM,
            _ => TWO_PHASES_FROM_CROWDED,
        };
        let more = bytes.saturating_mul(u64::from(group.size).saturating_sub(2));
        let two_phases = matches!(shape, Shape::Reduce { .. } | Shape::Allreduce) && more >= from;
        let exchanges = is_exchanged(shape, group.size, bytes, room.block) && element <= room.block as u64
            || two_phases && room.block > 0 && element <= LONG_ELEMENT;
        let slot = match two_phases {
            false if exchanges => room.block * blocks as usize,
            // A member's part of a piece fits a block; parts differ by an element.
            true if exchanges => room.block / element as usize * element as usize * group.size as usize,
            // One result may be as long as all of them are together otherwise.
            true if element > LONG_ELEMENT => room.in_two_phases / 2,
            true => room.in_two_phases,
            false => room.slot,
        };
        let fits = (slot as u64 / blocks / element * element).max(1);
        // Long calls go in as few pieces as fit, medium ones in two, short ones in one; all about equally long.
        let several = match shape {
            Shape::Reduce { .. } if room.crowded && two_phases && bytes > slot as u64 => REDUCED_PIECES,
            Shape::Bcast { .. } if room.crowded => bytes.div_ceil(BROADCAST_PIECE),
            // All write contributions, and then all read.
            _ if room.crowded || two_phases => 1,
            _ => pieces_for_overlap(shape, group.size, bytes),
        };
        let pieces = bytes.div_ceil(fits).max(several).max(1);
        let piece = bytes.div_ceil(pieces).next_multiple_of(64).div_ceil(element) * element;
        let piece = piece.min(fits).min(bytes.max(1)).max(1);
        let pieces = bytes.div_ceil(piece).max(1);
        Script {
            shape,
            group,
            bytes,
            element,
            in_place,
            piece,
            pieces,
            two_phases,
            exchanges,
            long: false,
            crowded: room.crowded,
        }
    }

    /// The same, told how much a short payload holds.
    pub(super) fn placed(self, short: usize) -> Script {
        Script { long: self.payload() > short as u64, ..self }
    }

    /// Bytes of the longest payload: a call that needs more than the cell itself needs slots.
    pub fn payload(&self) -> u64 {
        self.piece.min(self.bytes)
            * if self.shape == Shape::Barrier { 0 } else { self.shape.blocks(self.group.size) }
    }

    /// Bytes of the own payload of a round at most: of a result the part that this member combines.
    pub(super) fn payload_of(&self, round: u64) -> u64 {
        match self.of(round) {
            (Phase::Parts, _) => self.payload(),
            (Phase::Results, piece) => self.part(self.range(piece).1, self.group.rank).1 as u64,
        }
    }

    /// Bytes of the longest contribution and of the longest result of a call in two phases.
    pub(super) fn pair(&self) -> Option<(usize, usize)> {
        if !self.two_phases {
            return None;
        }
        let longest = self.piece.min(self.bytes) / self.element;
        let result = longest.div_ceil(u64::from(self.group.size)) * self.element;
        Some((self.payload() as usize, result as usize))
    }

    /// Whether an element fits into a slot at all.
    pub fn fits(&self, slot: usize) -> bool {
        self.payload() <= slot as u64 && self.piece >= self.element.min(self.bytes.max(1))
    }

    /// What must be the same at all members.
    pub fn signature(&self) -> u16 {
        self.shape.signature(self.bytes)
    }

    /// What is done.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Bytes of a block, or of the vector.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that stay together.
    pub(super) fn element(&self) -> u64 {
        self.element
    }

    /// Whether what this member contributes lies where its result will.
    pub(super) fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Who calls.
    pub(super) fn group(&self) -> Group {
        self.group
    }

    /// Whether payloads are long ones.
    pub(super) fn is_long(&self) -> bool {
        self.long
    }

    /// Whether the call goes in two phases.
    pub(super) fn is_in_two_phases(&self) -> bool {
        self.two_phases
    }

    /// Rounds, or pairs of them.
    pub(super) fn pieces(&self) -> u64 {
        self.pieces
    }

    /// Whether all is over with one payload of each member: what a short form can do.
    pub fn is_one_round(&self) -> bool {
        self.rounds() == 1
    }

    /// All rounds of the call.
    pub fn rounds(&self) -> u64 {
        self.pieces * if self.two_phases { 2 } else { 1 }
    }

    /// Whether payloads are exchanged block by block.
    #[inline]
    pub(super) fn exchanges(&self) -> bool {
        self.exchanges
    }

    /// How the payload of a round goes from member to member, where it is exchanged. `first`: the first round of the call;
    /// `read`: this member has read those below.
    pub(super) fn exchanged(&self, first: u64, round: u64, read: u64) -> Exchanged {
        let (phase, piece) = self.of(round);
        if !self.two_phases {
            return Exchanged { read, until: first + round, made_of: None, returned: 0, one_way: 0 };
        }
        let (returned, one_way) = match self.shape {
            Shape::Reduce { root } if root != self.group.rank => (1 << root, 1 << root),
            _ => (self.others(), 0),
        };
        let made_of = (phase == Phase::Results).then(|| first + self.parts_round(piece));
        Exchanged { read, until: first + self.results_round(piece), made_of, returned, one_way }
    }

    fn everyone(&self) -> u64 {
        (1 << self.group.size) - 1
    }

    pub(super) fn others(&self) -> u64 {
        self.everyone() & !(1 << self.group.rank)
    }

    /// See [`others_in_turn`].
    pub(super) fn others_in_turn(&self) -> impl Iterator<Item = u32> + use<> {
        others_in_turn(self.group.rank, self.group.size)
    }

    /// Phase and piece of a round: in two phases contributions 0, 1, results 0, contributions 2, results 1, ...
    pub(super) fn of(&self, round: u64) -> (Phase, u64) {
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
    pub(super) fn parts_round(&self, piece: u64) -> u64 {
        if !self.two_phases { piece } else { (2 * piece).saturating_sub(1) }
    }

    /// The round of the results of a piece.
    fn results_round(&self, piece: u64) -> u64 {
        if piece == self.pieces - 1 { self.rounds() - 1 } else { 2 * piece + 2 }
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

    pub(super) fn writes(&self, phase: Phase) -> bool {
        let me = self.group.rank;
        match self.shape {
            Shape::Bcast { root } | Shape::Scatter { root } => me == root,
            Shape::Gather { root } => me != root,
            // In place the root's own operand would be overwritten by what it is combined with.
            Shape::Reduce { root } if !self.two_phases => {
                me != root || self.in_place && !self.takes_own_in_place()
            }
            Shape::Barrier | Shape::Allgather | Shape::Alltoall | Shape::Allreduce | Shape::ReduceScatter => {
                true
            }
            Shape::Reduce { .. } => phase == Phase::Parts || self.two_phases,
        }
    }

    /// Whose payloads this member waits for in a round.
    pub(super) fn awaits(&self, phase: Phase) -> u64 {
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
    pub(super) fn joins_all(&self) -> bool {
        self.shape.joins_all()
    }

    /// Who writes beside this member when it writes.
    pub(super) fn writers(&self, phase: Phase) -> Writers {
        if self.joins_all() {
            Writers::All
        } else if self.writes(phase) && self.awaits(phase) == 0 && !self.two_phases {
            Writers::Alone
        } else {
            Writers::Any
        }
    }

    /// Who may sleep for a payload that is published; where all wait for all, those who see the round whole wake the others.
    pub(super) fn wakes(&self) -> u64 {
        match self.shape {
            Shape::Bcast { .. } | Shape::Scatter { .. } => self.others(),
            Shape::Gather { root } | Shape::Reduce { root } => (1 << root) & self.others(),
            _ => 0,
        }
    }

    /// Those for whom it is written past the caches (`past`), of the members that read what is written in a phase.
    fn past_for_readers(&self, phase: Phase, past: u64) -> u64 {
        match (self.shape, phase) {
            (Shape::Gather { root }, _) | (Shape::Reduce { root }, Phase::Results) => past & 1 << root,
            (Shape::Reduce { root }, Phase::Parts) if !self.two_phases => past & 1 << root,
            _ => past,
        }
    }

    /// Writes the own payload of a round.
    pub(super) fn write(
        &self,
        phase: Phase,
        piece: u64,
        Own { first, past }: Own,
        operands: &mut impl Operands,
        to: &mut [u8],
        from: &dyn Payloads,
    ) {
        let past = self.past_for_readers(phase, past);
        let (begin, len) = self.range(piece);
        let me = self.group.rank;
        let own = |block: u32| u64::from(block) * self.bytes + begin;
        match (self.shape, phase) {
            (Shape::Barrier, _) => {}
            (Shape::Scatter { .. } | Shape::Alltoall | Shape::ReduceScatter, _) => {
                // What stays here needs no detour.
                for member in (0..self.group.size).filter(|&member| member != me) {
                    let to = &mut to[block_of(member, me) * len..][..len];
                    operands.take(own(member), to, past >> member & 1 == 1);
                }
            }
            (Shape::Allgather, _) => {
                operands.take(if self.in_place { own(me) } else { begin }, &mut to[..len], past != 0)
            }
            (Shape::Reduce { .. } | Shape::Allreduce, Phase::Results) => {
                let round = first + self.parts_round(piece);
                let (at, part) = self.part(len, me);
                let term = |member: u32, at: usize, part: usize| match member == me {
                    true => Term::Own(begin + at as u64),
                    false => Term::Written(&from.get(member, round, self.long, len)[at..at + part]),
                };
                let term = |member: u32, done: usize, count: usize| term(member, at + done, count);
                if past == 0 {
                    return self.fold(operands, from, term, Target::Payload(&mut to[..part]));
                }
                let mut result = [0; AT_A_TIME];
                for (to, done) in to[..part].chunks_mut(AT_A_TIME).zip((0..).step_by(AT_A_TIME)) {
                    let result = &mut result[..to.len()];
                    let term = |member: u32, at: usize, count: usize| term(member, done + at, count);
                    self.fold(operands, from, term, Target::Payload(result));
                    operands.put(result, to);
                }
            }
            (Shape::Reduce { .. } | Shape::Allreduce, Phase::Parts) if self.two_phases => {
                for member in (0..self.group.size).filter(|&member| member != me) {
                    let (at, part) = self.part(len, member);
                    operands.take(begin + at as u64, &mut to[at..at + part], past >> member & 1 == 1);
                }
            }
            _ => operands.take(begin, &mut to[..len], past != 0),
        }
    }

    /// Writes the own blocks of a round of a call that exchanges them. What this member combines goes where it belongs at the same time.
    pub(super) fn write_blocks(
        &self,
        phase: Phase,
        piece: u64,
        operands: &mut impl Operands,
        blocks: &mut dyn Exchange,
    ) {
        let (begin, len) = self.range(piece);
        let me = self.group.rank;
        if phase == Phase::Parts {
            for member in self.others_in_turn() {
                let own = |block: u32| u64::from(block) * self.bytes + begin;
                let (at, part) = match self.shape {
                    Shape::Alltoall | Shape::ReduceScatter => (own(member), len),
                    Shape::Allgather if self.in_place => (own(me), len),
                    Shape::Allgather => (begin, len),
                    _ => {
                        let (at, part) = self.part(len, member);
                        (begin + at as u64, part)
                    }
                };
                let past = blocks.goes_past(member, part);
                operands.take(at, blocks.room(member, part), past);
            }
            return;
        }
        let (at, part) = self.part(len, me);
        let needs = |member: u32| !matches!(self.shape, Shape::Reduce { root } if root != member);
        let mut result = [0; AT_A_TIME];
        for done in (0..part).step_by(AT_A_TIME) {
            let result = &mut result[..AT_A_TIME.min(part - done)];
            let count = result.len();
            let term = |member: u32| match member == me {
                true => Term::Own(begin + (at + done) as u64),
                false => Term::Written(&blocks.heard(member, part)[done..][..count]),
            };
            self.combine_all(operands, term, Target::Payload(result));
            for member in self.others_in_turn().filter(|&member| needs(member)) {
                blocks.room(member, part)[done..][..count].copy_from_slice(result);
            }
            if needs(me) {
                operands.give(begin + (at + done) as u64, result);
            }
        }
    }

    /// Combines the terms of all members, each of so many bytes from there on, in the order of ranks.
    #[inline(always)]
    fn fold<'a>(
        &self,
        operands: &mut impl Operands,
        from: &dyn Payloads,
        term: impl Fn(u32, usize, usize) -> Term<'a>,
        into: Target<'_>,
    ) {
        let len = into.bytes();
        match is_fetched(self.group.size, len, self.crowded) {
            false => self.combine_all(operands, |member| term(member, 0, len), into),
            true => self.fold_fetched(operands, from, term, into),
        }
    }

    /// The same, which fetches the terms a piece ahead: see [`is_fetched`].
    #[inline(never)]
    fn fold_fetched<'a>(
        &self,
        operands: &mut impl Operands,
        from: &dyn Payloads,
        term: impl Fn(u32, usize, usize) -> Term<'a>,
        mut into: Target<'_>,
    ) {
        let (others, len, element) = (self.group.size as usize - 1, into.bytes(), self.element as usize);
        let fetch = |at: usize, count: usize| {
            for member in self.others_in_turn() {
                if let Term::Written(bytes) = term(member, at, count) {
                    from.fetch(bytes);
                }
            }
        };
        let at_a_time = (FETCHED / others / element * element).max(element);
        fetch(0, at_a_time.min(len));
        for at in (0..len).step_by(at_a_time) {
            let count = at_a_time.min(len - at);
            let next = at + count;
            if next < len {
                fetch(next, at_a_time.min(len - next));
            }
            self.combine_all(operands, |member| term(member, at, count), into.part(at, count));
        }
    }

    /// Combines one term of each member, from the right.
    fn combine_all<'a>(
        &self,
        operands: &mut impl Operands,
        term: impl Fn(u32) -> Term<'a>,
        mut into: Target<'_>,
    ) {
        let last = self.group.size - 1;
        operands.combine_two(term(last - 1), term(last), into.again());
        for member in (0..last - 1).rev() {
            operands.combine(term(member), into.again());
        }
    }

    /// The same of `len` bytes of a result that begins at `begin`, of which a [`Term`] may lie there: not straight into the result.
    #[inline(never)]
    fn fold_aside<'a>(
        &self,
        operands: &mut impl Operands,
        from: &dyn Payloads,
        term: impl Fn(u32, usize, usize) -> Term<'a>,
        begin: u64,
        len: usize,
    ) {
        let mut result = [0; AT_A_TIME];
        for at in (0..len).step_by(AT_A_TIME) {
            let result = &mut result[..AT_A_TIME.min(len - at)];
            self.fold(
                operands,
                from,
                |member, done, count| term(member, at + done, count),
                Target::Payload(result),
            );
            operands.give(begin + at as u64, result);
        }
    }

    /// Whether the own operand of a reduction in place is taken from where the result will be. Otherwise it is read from the own payload,
    /// which of two members has gone to the other's cache by then.
    fn takes_own_in_place(&self) -> bool {
        self.group.size == 2
    }

    /// Copies what this member gives to itself, whole, not piece by piece between the others', which would fetch each from
    /// farther away.
    pub(super) fn keep(&self, operands: &mut impl Operands) {
        let (me, len) = (u64::from(self.group.rank), self.bytes as usize);
        match self.shape {
            Shape::Allgather if !self.in_place => operands.keep(0, me * self.bytes, len),
            Shape::Alltoall if !self.in_place => operands.keep(me * self.bytes, me * self.bytes, len),
            _ => {}
        }
    }

    /// Reads the payloads of a round, which are all there.
    pub(super) fn read(
        &self,
        phase: Phase,
        piece: u64,
        round: u64,
        operands: &mut impl Operands,
        from: &dyn Payloads,
    ) {
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
            (Shape::Allgather | Shape::Alltoall, _) if self.exchanges => {
                for member in self.others_in_turn() {
                    operands.give(own(member), from.block(member, round, len));
                }
            }
            (Shape::Gather { .. } | Shape::Allgather, _) => {
                for member in self.others_in_turn() {
                    operands.give(own(member), get(member, len));
                }
                if matches!(self.shape, Shape::Gather { .. }) && !self.in_place {
                    operands.keep(begin, own(me), len);
                }
            }
            (Shape::Alltoall, _) => {
                for member in self.others_in_turn() {
                    operands
                        .give(own(member), &get(member, len * others)[block_of(me, member) * len..][..len]);
                }
            }
            (Shape::ReduceScatter, _) => {
                let term = |member: u32, at: usize, count: usize| match member == me {
                    true => Term::Own(own(me) + at as u64),
                    false if self.exchanges => Term::Written(&from.block(member, round, len)[at..][..count]),
                    false => {
                        Term::Written(&get(member, len * others)[block_of(me, member) * len + at..][..count])
                    }
                };
                if !self.in_place {
                    return self.fold(operands, from, term, Target::Result(begin, len));
                }
                self.fold_aside(operands, from, term, begin, len);
            }
            (Shape::Reduce { root }, _) if me != root => {}
            (Shape::Reduce { .. } | Shape::Allreduce, Phase::Results) if self.exchanges => {
                // The own part is there since it was made.
                for member in self.others_in_turn() {
                    let (at, part) = self.part(len, member);
                    operands.give(begin + at as u64, from.block(member, round, part));
                }
            }
            (Shape::Reduce { .. } | Shape::Allreduce, Phase::Results) => {
                for member in self.others_in_turn().chain([me]) {
                    let (at, part) = self.part(len, member);
                    operands.give(begin + at as u64, get(member, part));
                }
            }
            (Shape::Reduce { .. } | Shape::Allreduce, Phase::Parts) => {
                if self.two_phases {
                    return;
                }
                let takes_own = !self.in_place || self.takes_own_in_place();
                let term = |member: u32, at: usize, count: usize| match member == me && takes_own {
                    true => Term::Own(begin + at as u64),
                    false => Term::Written(&get(member, len)[at..at + count]),
                };
                match self.in_place && takes_own {
                    true => self.fold_aside(operands, from, term, begin, len),
                    false => self.fold(operands, from, term, Target::Result(begin, len)),
                }
            }
        }
    }
}
