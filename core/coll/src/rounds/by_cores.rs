//! Allreduces core by core, among more than two that share cores: what goes from core to core is one sum for each core, and not what every
//! member has for every other.
//!
//! The first member of each core stands for it. A piece takes three rounds:
//!
//! - **contributions**: the others of a core write theirs, which only the one that stands for it reads: they stay in the caches of the core.
//! - **sums**: each core finishes one of as many equal parts as there are cores. Who stands for a core combines for each other core the part that
//!   that one finishes, of all its own members, and writes it into the block that these two exchange.
//! - **results**: it combines the own part of its members with the sums of the other cores. The result goes back where the sum lay of which it was made, and
//!   all read it there, so that it comes to each core once.
//!
//! So of a vector that N members on C cores reduce, 2 (C - 1) times its bytes go from core to core instead of 2 (N - N / C)
//! (`tests/rounds.rs` counts them), and on each core processes change once for each of its members instead of twice. Where the
//! longest blocks do not hold a piece there are several; contributions to the next one are written before this one is combined.
//!
//! A core's contributions are combined in the order of ranks, and then the sums in the order of the cores' first ranks, each element at one place: all
//! members get the same bits. Where cores have ranks that do not follow one another that is no order of ranks, so only operations that commute may come here:
//! predefined ones, as all that go by rounds.

use super::script::{AT_A_TIME, Script};
use super::{Cores, Exchange, Exchanged, Operands, Outcome, Payload, Payloads, Slots, Target, Term, Writers};
use crate::partition::Partition;

/// Rounds of a piece.
const PHASES: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Contributions,
    Sums,
    Results,
}

/// A call under way.
#[derive(Debug)]
pub struct ByCores {
    script: Script,
    first: u64,
    written: u64,
    read: u64,
}

impl ByCores {
    pub(super) fn begin<S: Slots>(script: Script, slots: &S) -> ByCores {
        ByCores { script, first: slots.next(), written: 0, read: 0 }
    }

    /// Goes as far as it can without waiting.
    pub(super) fn step(&mut self, slots: &mut impl Slots, operands: &mut impl Operands) -> Outcome {
        let others = self.script.others();
        loop {
            let mut moved = self.written < self.rounds() && self.write(slots, operands);
            if self.read < self.written && self.awaited(slots) == 0 {
                self.take_in(slots, operands);
                self.read += 1;
                moved = true;
                if self.read == self.rounds() {
                    // Who stands for a core has heard of its members, and results are made of what all of those gave.
                    slots.heard_of_all(self.first);
                    slots.end(self.first + self.read);
                    slots.wake(others);
                    return Outcome::Done;
                }
                slots.finish(self.first + self.done_with());
                slots.wake(others);
            }
            if !moved {
                return self.strayed(slots).map_or(Outcome::Blocked, Outcome::Strayed);
            }
        }
    }

    /// Whom the call waits for, one bit each.
    pub(super) fn missing(&self, slots: &impl Slots) -> u64 {
        let reading = if self.read < self.written { self.awaited(slots) } else { 0 };
        reading | if self.written < self.rounds() { self.behind(slots) } else { 0 }
    }

    fn me(&self) -> u32 {
        self.script.group().rank
    }

    fn cores(&self) -> &Cores {
        self.script.cores()
    }

    fn core(&self) -> u32 {
        self.cores().core(self.me())
    }

    /// Who stands for a core.
    fn leader(&self, core: u32) -> u32 {
        self.cores().leader(core)
    }

    fn leads(&self) -> bool {
        self.leader(self.core()) == self.me()
    }

    /// The others of this core, one bit each.
    fn near(&self) -> u64 {
        self.cores().mask(self.core()) & self.script.others()
    }

    /// Those who stand for the other cores, one bit each.
    fn peers(&self) -> u64 {
        self.cores().leaders() & !self.cores().mask(self.core())
    }

    fn pieces(&self) -> u64 {
        self.script.pieces()
    }

    fn rounds(&self) -> u64 {
        self.pieces() * PHASES
    }

    /// Phase and piece of a round: contributions 0, 1, sums 0, results 0, contributions 2, sums 1, results 1, ...
    fn of(&self, round: u64) -> (Phase, u64) {
        let Some(round) = round.checked_sub(1) else { return (Phase::Contributions, 0) };
        let (piece, at) = (round / PHASES, round % PHASES);
        match at + u64::from(piece == self.pieces() - 1) {
            0 => (Phase::Contributions, piece + 1),
            1 => (Phase::Sums, piece),
            _ => (Phase::Results, piece),
        }
    }

    fn contributions_round(&self, piece: u64) -> u64 {
        if piece == 0 { 0 } else { 1 + (piece - 1) * PHASES }
    }

    fn sums_round(&self, piece: u64) -> u64 {
        1 + piece * PHASES + u64::from(piece < self.pieces() - 1)
    }

    fn results_round(&self, piece: u64) -> u64 {
        self.sums_round(piece) + 1
    }

    /// The rounds below are not needed any more: who stands for a core needs contributions until it has written the results of which they are a part.
    fn done_with(&self) -> u64 {
        let needs = |&piece: &u64| self.leads() && self.results_round(piece) >= self.written;
        match (0..self.pieces()).find(needs) {
            Some(piece) => self.read.min(self.contributions_round(piece)),
            None => self.read,
        }
    }

    /// The stamps that this member waits for before it writes in a round: rounds, and of whom.
    fn needed_to_write(&self, round: u64) -> (u64, u64) {
        let (phase, piece) = self.of(round);
        match phase {
            Phase::Sums if self.writes(phase) => (self.contributions_round(piece), self.near()),
            Phase::Results if self.writes(phase) => (round - 1, self.peers()),
            _ => (0, 0),
        }
    }

    /// The same before it reads in a round.
    fn needed_to_read(&self, round: u64) -> (u64, u64) {
        match self.of(round).0 {
            Phase::Results => (round, self.cores().leaders() & self.script.others()),
            _ => (0, 0),
        }
    }

    /// Those whose stamp this member waits for before it reads in a round that it has written, or passed.
    fn awaited(&self, slots: &impl Slots) -> u64 {
        self.missing_of(self.needed_to_read(self.read), slots)
    }

    /// The same before it writes in the next round.
    fn awaited_to_write(&self, slots: &impl Slots) -> u64 {
        self.missing_of(self.needed_to_write(self.written), slots)
    }

    fn missing_of(&self, (round, of): (u64, u64), slots: &impl Slots) -> u64 {
        slots.missing(self.first + round, self.script.signature(), of)
    }

    /// A member that is in another operation than this one, where it is waited for.
    fn strayed(&self, slots: &impl Slots) -> Option<u32> {
        let read = self.read < self.written;
        let write = self.written < self.rounds();
        let needed =
            [read.then(|| self.needed_to_read(self.read)), write.then(|| self.needed_to_write(self.written))];
        needed
            .into_iter()
            .flatten()
            .find_map(|(round, of)| slots.strayed(self.first + round, self.script.signature(), of))
    }

    /// Whether this member writes in a round.
    fn writes(&self, phase: Phase) -> bool {
        match phase {
            Phase::Contributions => !self.leads(),
            Phase::Sums | Phase::Results => self.leads(),
        }
    }

    fn behind(&self, slots: &impl Slots) -> u64 {
        let (phase, piece) = self.of(self.written);
        if !self.writes(phase) {
            return 0;
        }
        let room = match self.blocks(phase, piece) {
            Some(what) => slots.behind_with_blocks(self.first + self.written, what),
            None => slots.behind(self.payload()),
        };
        room | self.awaited_to_write(slots)
    }

    /// A contribution.
    fn payload(&self) -> Payload {
        let (round, bytes) = (self.first + self.written, self.longest());
        let writers = Writers::Near(bytes);
        Payload { round, bytes, long: true, writers, is_copied: true, pair: None }
    }

    /// Bytes of the longest contribution.
    fn longest(&self) -> usize {
        self.script.range(0).1
    }

    /// What is exchanged in a round; `None` of contributions.
    fn blocks(&self, phase: Phase, piece: u64) -> Option<Exchanged> {
        let made_of = match phase {
            Phase::Contributions => return None,
            Phase::Sums => None,
            Phase::Results => Some(self.first + self.sums_round(piece)),
        };
        Some(Exchanged {
            read: self.first + self.read,
            until: self.first + self.results_round(piece),
            made_of,
            returned: self.script.others(),
            one_way: 0,
            is_shared: true,
            writers: self.cores().leaders(),
            stays: false,
        })
    }

    /// Writes in the next round if it can.
    fn write(&mut self, slots: &mut impl Slots, operands: &mut impl Operands) -> bool {
        let (phase, piece) = self.of(self.written);
        let (round, what) = (self.first + self.written, self.blocks(phase, piece));
        if !self.writes(phase) {
            if let (Phase::Sums, Some(what)) = (phase, what) {
                slots.pass_blocks(round, what);
            }
            self.written += 1;
            return true;
        }
        let has_room = match what {
            Some(what) => slots.has_room_for_blocks(round, what),
            None => slots.has_room(self.payload()),
        };
        if !has_room || self.awaited_to_write(slots) != 0 {
            return false;
        }
        match what {
            None => slots.fill(self.payload(), |to, _, _| {
                let (begin, len) = self.script.range(piece);
                operands.take(begin, &mut to[..len], false);
            }),
            Some(what) => slots.exchange(round, what, |blocks| match phase {
                Phase::Sums => self.write_sums(piece, operands, blocks),
                _ => self.write_results(piece, operands, blocks),
            }),
        }
        slots.publish(round, self.script.signature());
        self.written += 1;
        slots.finish(self.first + self.done_with());
        slots.wake(self.script.others());
        true
    }

    /// The part of a piece that a core finishes: begin in the piece, and bytes.
    fn part(&self, piece: u64, core: u32) -> (usize, usize) {
        let (element, parts) = (self.script.element(), u64::from(self.cores().count()));
        let count = self.script.range(piece).1 as u64 / element;
        let (begin, bytes) = Partition { count, element, parts }.span(core, core + 1);
        (begin as usize, bytes as usize)
    }

    /// Bytes that are combined at a time: of whole elements.
    fn at_a_time(&self) -> usize {
        let element = self.script.element() as usize;
        AT_A_TIME / element * element
    }

    /// Combines what the members of this core have from `at` on of a piece.
    fn combine_core(
        &self,
        piece: u64,
        at: usize,
        operands: &mut impl Operands,
        blocks: &dyn Exchange,
        into: &mut [u8],
    ) {
        let (round, longest) = (self.first + self.contributions_round(piece), self.longest());
        let own = self.script.range(piece).0 + at as u64;
        let count = into.len();
        let term = |member: u32| match member == self.me() {
            true => Term::Own(own),
            false => Term::Written(&blocks.payload(member, round, longest)[at..][..count]),
        };
        let mut members = self.cores().members(self.core()).rev();
        let last = members.next().expect("this member");
        match members.next() {
            None => operands.take(own, into, false),
            Some(before) => operands.combine_two(term(before), term(last), Target::Payload(into)),
        }
        for member in members {
            operands.combine(term(member), Target::Payload(into));
        }
    }

    /// Combines the sum of this core and those of the others.
    fn combine_cores<'a>(
        &self,
        operands: &mut impl Operands,
        own: &[u8],
        sum: impl Fn(u32) -> &'a [u8],
        into: &mut [u8],
    ) {
        let term = |core: u32| Term::Written(if core == self.core() { own } else { sum(core) });
        let last = self.cores().count() - 1;
        operands.combine_two(term(last - 1), term(last), Target::Payload(into));
        for core in (0..last - 1).rev() {
            operands.combine(term(core), Target::Payload(into));
        }
    }

    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let core = self.core();
        (core + 1..self.cores().count()).chain(0..core)
    }

    fn write_sums(&self, piece: u64, operands: &mut impl Operands, blocks: &mut dyn Exchange) {
        let mut room = [0; AT_A_TIME];
        for core in self.others() {
            let (begin, part) = self.part(piece, core);
            for at in (0..part).step_by(self.at_a_time()) {
                let sum = &mut room[..self.at_a_time().min(part - at)];
                self.combine_core(piece, begin + at, operands, blocks, sum);
                blocks.room(self.leader(core), part)[at..][..sum.len()].copy_from_slice(sum);
            }
        }
    }

    /// Writes the part that this core finishes, which goes where it belongs at the same time.
    fn write_results(&self, piece: u64, operands: &mut impl Operands, blocks: &mut dyn Exchange) {
        let (begin, part) = self.part(piece, self.core());
        let own = self.script.range(piece).0 + begin as u64;
        let (mut sum, mut result) = ([0; AT_A_TIME], [0; AT_A_TIME]);
        for at in (0..part).step_by(self.at_a_time()) {
            let count = self.at_a_time().min(part - at);
            let (sum, result) = (&mut sum[..count], &mut result[..count]);
            self.combine_core(piece, begin + at, operands, blocks, sum);
            let of = |core| &blocks.heard(self.leader(core), part)[at..][..count];
            self.combine_cores(operands, sum, of, result);
            for core in self.others() {
                blocks.room(self.leader(core), part)[at..][..count].copy_from_slice(result);
            }
            operands.give(own + at as u64, result);
        }
    }

    /// Reads in a round that this member has written, or passed.
    fn take_in(&self, slots: &mut impl Slots, operands: &mut impl Operands) {
        let (Phase::Results, piece) = self.of(self.read) else { return };
        let (begin, own) = (self.script.range(piece).0, self.core());
        let next = (own + 1) % self.cores().count();
        slots.read(|from: &dyn Payloads| {
            // What comes from farther away first. Who has made a result has put it where it belongs.
            for core in self.others().chain((!self.leads()).then_some(own)) {
                let (at, part) = self.part(piece, core);
                let reader = self.leader(if core == own { next } else { own });
                let result = from.block_for(self.leader(core), reader, self.first + self.read, part);
                operands.give(begin + at as u64, result);
            }
        });
    }
}
