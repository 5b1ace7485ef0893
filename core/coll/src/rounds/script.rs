//! The rounds of a call: what a member writes in each and what it makes of the others'.

mod folding;

pub use folding::is_fetched;

use super::cut::{Cut, Room};
use super::{
    Cores, Course, Exchange, Exchanged, Operands, Payloads, Shape, Target, Term, Way, Writers, block_of,
};
use crate::call::Group;
use crate::partition::Partition;

/// Bytes of a result that is made aside at a time.
pub(super) const AT_A_TIME: usize = 4096;

/// The other members, beginning with the next one: so not all read from the same one at a time, whose cache answers one after the other.
#[inline]
pub fn others_in_turn(me: u32, members: u32) -> impl Iterator<Item = u32> {
    (me + 1..members).chain(0..me)
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
    cut: Cut,
    long: bool,
    crowded: bool,
    cores: Cores,
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
        let element = element.max(1);
        let cut = Cut::of(shape, group.size, bytes, element, in_place, room);
        let (crowded, cores) = (room.crowded, room.cores);
        Script { shape, group, bytes, element, in_place, cut, long: false, crowded, cores }
    }

    /// The same, told how much a short payload holds.
    pub(super) fn placed(self, short: usize) -> Script {
        Script { long: self.payload() > short as u64, ..self }
    }

    /// Bytes of the longest payload: a call that needs more than the cell itself needs slots.
    pub fn payload(&self) -> u64 {
        self.cut.piece.min(self.bytes)
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
        if !self.cut.two_phases {
            return None;
        }
        let longest = self.cut.piece.min(self.bytes) / self.element;
        let result = longest.div_ceil(u64::from(self.group.size)) * self.element;
        Some((self.payload() as usize, result as usize))
    }

    /// Whether an element fits into a slot at all.
    pub fn fits(&self, slot: usize) -> bool {
        self.payload() <= slot as u64 && self.cut.piece >= self.element.min(self.bytes.max(1))
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
        self.cut.two_phases
    }

    /// Rounds, or pairs of them.
    pub(super) fn pieces(&self) -> u64 {
        self.cut.pieces
    }

    /// Whether all is over with one payload of each member: what a short form can do.
    pub fn is_one_round(&self) -> bool {
        self.rounds() == 1
    }

    /// All rounds of the call.
    pub fn rounds(&self) -> u64 {
        self.cut.pieces * if self.cut.two_phases { 2 } else { 1 }
    }

    /// Whether payloads are exchanged block by block.
    #[inline]
    pub(super) fn exchanges(&self) -> bool {
        self.cut.exchanges
    }

    /// How its bytes go, where a rule says so.
    pub(super) fn course(&self) -> Option<Course> {
        self.cut.course
    }

    /// The way of its payloads.
    pub fn way(&self) -> Way {
        match (self.cut.by_cores, self.cut.exchanges, self.cut.two_phases) {
            (true, _, _) => Way::ByCores,
            (_, true, _) => Way::Exchanged,
            (_, _, true) => Way::TwoPhases,
            _ => Way::Flat,
        }
    }

    /// Whether it goes core by core ([`super::by_cores`]).
    pub fn goes_by_cores(&self) -> bool {
        self.cut.by_cores
    }

    /// Who shares a core with whom.
    pub(super) fn cores(&self) -> &Cores {
        &self.cores
    }

    /// How the payload of a round goes from member to member, where it is exchanged. `first`: the first round of the call;
    /// `read`: this member has read those below.
    pub(super) fn exchanged(&self, first: u64, round: u64, read: u64) -> Exchanged {
        let (phase, piece) = self.of(round);
        let writers = self.everyone();
        // What goes to a root its readers have not all read when they begin the next call.
        let stays = round == 0 && self.joins_all();
        if !self.cut.two_phases {
            let (until, made_of, is_shared) = (first + round, None, false);
            return Exchanged { read, until, made_of, returned: 0, one_way: 0, is_shared, writers, stays };
        }
        let (returned, one_way) = match self.shape {
            Shape::Reduce { root } if root != self.group.rank => (1 << root, 1 << root),
            _ => (self.others(), 0),
        };
        let made_of = (phase == Phase::Results).then(|| first + self.parts_round(piece));
        let until = first + self.results_round(piece);
        Exchanged { read, until, made_of, returned, one_way, is_shared: false, writers, stays }
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
        if !self.cut.two_phases {
            return (Phase::Parts, round);
        }
        match round {
            0 => (Phase::Parts, 0),
            _ if round == self.rounds() - 1 => (Phase::Results, self.cut.pieces - 1),
            _ if round % 2 == 1 => (Phase::Parts, round.div_ceil(2)),
            _ => (Phase::Results, round / 2 - 1),
        }
    }

    /// The round of the contributions of a piece.
    pub(super) fn parts_round(&self, piece: u64) -> u64 {
        if !self.cut.two_phases { piece } else { (2 * piece).saturating_sub(1) }
    }

    /// The round of the results of a piece.
    fn results_round(&self, piece: u64) -> u64 {
        if piece == self.cut.pieces - 1 { self.rounds() - 1 } else { 2 * piece + 2 }
    }

    /// Where a piece begins in its block, and its bytes.
    pub(super) fn range(&self, piece: u64) -> (u64, usize) {
        let begin = piece * self.cut.piece;
        (begin, (self.bytes - begin).min(self.cut.piece) as usize)
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
            Shape::Reduce { root } if !self.cut.two_phases => {
                me != root || self.in_place && !self.takes_own_in_place()
            }
            Shape::Barrier | Shape::Allgather | Shape::Alltoall | Shape::Allreduce | Shape::ReduceScatter => {
                true
            }
            Shape::Reduce { .. } => phase == Phase::Parts || self.cut.two_phases,
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
            Shape::Reduce { root } if phase == Phase::Results || !self.cut.two_phases => {
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
        } else if self.writes(phase) && self.awaits(phase) == 0 && !self.cut.two_phases {
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
            (Shape::Reduce { root }, Phase::Parts) if !self.cut.two_phases => past & 1 << root,
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
            (Shape::Reduce { .. } | Shape::Allreduce, Phase::Parts) if self.cut.two_phases => {
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
            (Shape::Allgather | Shape::Alltoall, _) if self.cut.exchanges => {
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
                    false if self.cut.exchanges => {
                        Term::Written(&from.block(member, round, len)[at..][..count])
                    }
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
            (Shape::Reduce { .. } | Shape::Allreduce, Phase::Results) if self.cut.exchanges => {
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
                if self.cut.two_phases {
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
