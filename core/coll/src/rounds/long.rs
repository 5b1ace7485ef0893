//! Long blocking calls inside a node by reading: each member copies what it needs out of the others' memory, once, instead of
//! through the cells, where everything is copied twice. The cells carry only words about it, a round each:
//!
//! - **offers**: where a member's contribution lies, or that it cannot be read, or cannot read the others. One such word sends all through
//!   the payloads.
//! - **shares** (of vectors that three or more reduce together): each member has combined its part of all contributions; here it lies. Who needs the
//!   whole reads the parts.
//! - **closing**: this member has read all that it needs, or it failed to. When all have said so, their memory is the program's again.
//!
//! Nothing of a contribution is overwritten before the last word that may send all through the payloads, so a call that could
//! not be read after all begins again there. In place a member's part is kept elsewhere until then. After the shares there
//! is no way back ([`Outcome::Unread`]): that a memory which could be read just now cannot be read any more means that its process is gone,
//! or unmapped it.
//!
//! While the two ways are compared ([`super::contest`]) calls through the payloads begin and end with the same words, and all tell how long they
//! took from the one to the other; where members share cores each takes its own time, and tells with the last call.

use super::by_cores::ByCores;
use super::contest::{Course, Plan};
use super::script::Script;
use super::{
    Operands, Outcome, Payload, Payloads, Readable, Readers, Run, Shape, Slots, Target, Term, Writers,
    is_contested,
};
use crate::partition::Partition;

/// Bytes of two contributions that are read and combined at a time: short enough for the nearer caches, and each is a call of the kernel (256 KiB
/// of two members 17.7 instead of 20.1 us in pieces of 64 KiB). Of more members the pieces are as much shorter.
const AT_A_TIME: usize = 512 << 10;
/// Bytes of a kept part that a communicator holds on to between calls.
const MOST_HELD: usize = 1 << 20;
/// Bytes of a word on the cells.
const WORD_BYTES: usize = 32;

/// A blocking call under way, whichever way it goes.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "it lives on the stack of the call; a box would be memory taken by every call"
)]
pub enum BlockingRun {
    /// Through the payloads, and nothing is compared.
    Payloads(Run),
    /// By reading, or timed.
    Long(Long),
    /// Core by core.
    ByCores(ByCores),
}

impl BlockingRun {
    /// Begins a call.
    pub fn begin<S: Readers>(script: Script, slots: &mut S) -> BlockingRun {
        if script.goes_by_cores() {
            return BlockingRun::ByCores(ByCores::begin(script, slots));
        }
        if script.course() == Some(Course::Reading) {
            let plan = Plan { course: Course::Reading, timed: false, last: false };
            return BlockingRun::Long(Long::begin(script, plan, slots));
        }
        let (shape, bytes) = (script.shape(), script.bytes());
        let contested = script.course().is_none()
            && is_contested(shape, script.group().size, bytes, script.is_in_place(), slots.is_crowded());
        if contested {
            let plan = slots.contest().next(shape, bytes);
            if plan.timed || plan.course == Course::Reading {
                return BlockingRun::Long(Long::begin(script, plan, slots));
            }
        }
        BlockingRun::Payloads(Run::begin(script, slots))
    }

    /// Goes as far as it can without waiting.
    #[inline]
    pub fn step(&mut self, slots: &mut impl Readers, operands: &mut impl Readable) -> Outcome {
        match self {
            BlockingRun::Payloads(run) => run.step(slots, operands),
            BlockingRun::Long(long) => long.step(slots, operands),
            BlockingRun::ByCores(run) => run.step(slots, operands),
        }
    }

    /// Whom the call waits for, one bit each.
    pub fn missing(&self, slots: &impl Slots) -> u64 {
        match self {
            BlockingRun::Payloads(run) => run.missing(slots),
            BlockingRun::Long(long) => long.missing(slots),
            BlockingRun::ByCores(run) => run.missing(slots),
        }
    }
}

/// What a member tells all others.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// Whether it could do what this is about.
    well: bool,
    /// Where others may read.
    address: u64,
    /// Nanoseconds since all had heard all offers; of the last call of a trial among members that share cores what calls through the payloads
    /// have taken.
    took: u64,
    /// Nanoseconds from when its offer was written to when it had heard all; the same of those by reading.
    heard: u64,
}

impl Word {
    const REFUSED: Word = Word { well: false, address: 0, took: 0, heard: 0 };

    fn bytes(self) -> [u8; WORD_BYTES] {
        let mut bytes = [0; WORD_BYTES];
        for (to, word) in
            bytes.chunks_exact_mut(8).zip([u64::from(self.well), self.address, self.took, self.heard])
        {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn of(bytes: &[u8]) -> Word {
        let word = |at: usize| u64::from_ne_bytes(bytes[8 * at..][..8].try_into().expect("eight bytes"));
        Word { well: word(0) == 1, address: word(1), took: word(2), heard: word(3) }
    }
}

/// What a communicator keeps from one long call to the next.
#[derive(Debug, Default)]
pub struct Desk {
    /// The last word of each member.
    words: Vec<Word>,
    /// A piece of each of the others' contributions, of two at least.
    pieces: Vec<u8>,
    /// The own part of a result until nothing can overtake it.
    kept: Vec<u8>,
}

#[derive(Debug)]
enum Stage {
    /// A word of each member.
    Word(About),
    /// Through the payloads.
    Payloads(Run),
}

/// What a word is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Offers,
    Shares,
    Closing,
}

/// A call that is timed or goes by reading.
#[derive(Debug)]
pub struct Long {
    script: Script,
    plan: Plan,
    stage: Stage,
    /// The own word, and whether it is written.
    word: Option<Word>,
    written: bool,
    /// The round of the word.
    first: u64,
    /// When the call began, where members share cores and it is timed.
    began: Option<u64>,
    /// When the offer was written, and when all had been heard.
    offered: u64,
    since: u64,
    desk: Desk,
}

impl Long {
    fn begin<S: Readers>(script: Script, plan: Plan, slots: &mut S) -> Long {
        let mut desk = std::mem::take(slots.desk());
        desk.words.clear();
        desk.words.resize(script.group().size as usize, Word::REFUSED);
        let first = slots.next();
        let began = (plan.timed && slots.is_crowded()).then(|| slots.now());
        let stage = match plan.course {
            Course::Payloads if began.is_some() => Stage::Payloads(Run::begin(script, slots)),
            _ => Stage::Word(About::Offers),
        };
        Long { script, plan, stage, word: None, written: false, first, began, offered: 0, since: 0, desk }
    }

    fn step(&mut self, slots: &mut impl Readers, operands: &mut impl Readable) -> Outcome {
        loop {
            let about = match &mut self.stage {
                Stage::Payloads(run) => match run.step(slots, operands) {
                    // Timed ones tell how long it took.
                    Outcome::Done if self.plan.timed && self.began.is_none() => {
                        let word = self.closing(slots);
                        self.tell(About::Closing, word, slots);
                        continue;
                    }
                    Outcome::Done => {
                        self.spend(slots);
                        return self.end(slots);
                    }
                    outcome => return outcome,
                },
                &mut Stage::Word(about) => about,
            };
            let word = *self.word.get_or_insert_with(|| offer(&self.script, slots, operands));
            match self.exchange(word, slots) {
                Outcome::Done => {}
                outcome => return outcome,
            }
            if let Some(outcome) = self.heard(about, slots, operands) {
                return outcome;
            }
        }
    }

    fn missing(&self, slots: &impl Slots) -> u64 {
        match &self.stage {
            Stage::Payloads(run) => run.missing(slots),
            Stage::Word(_) if self.written => {
                slots.missing(self.first, self.script.signature(), self.script.others())
            }
            Stage::Word(_) => slots.behind(self.payload()),
        }
    }

    /// That all went well, and how long it took.
    fn closing(&self, slots: &mut impl Readers) -> Word {
        if self.plan.last && self.began.is_some() {
            let [took, heard] = slots.contest().spent(self.script.shape(), self.script.bytes());
            return Word { well: true, address: 0, took, heard };
        }
        let took = slots.now().saturating_sub(self.since);
        Word { well: true, address: 0, took, heard: self.since.saturating_sub(self.offered) }
    }

    /// Takes down how long a call of a trial took this member, where members share cores.
    fn spend(&self, slots: &mut impl Readers) {
        if let Some(began) = self.began.filter(|_| self.plan.timed && !self.plan.last) {
            let took = slots.now().saturating_sub(began);
            slots.contest().spend(self.script.shape(), self.script.bytes(), took);
        }
    }

    /// Goes on to a word.
    fn tell(&mut self, about: About, word: Word, slots: &impl Slots) {
        (self.stage, self.word) = (Stage::Word(about), Some(word));
        (self.written, self.first) = (false, slots.next());
    }

    /// Goes on to the payloads, from the beginning of the call.
    fn go_by_payloads(&mut self, slots: &impl Slots) {
        self.stage = Stage::Payloads(Run::begin(self.script, slots));
    }

    fn payload(&self) -> Payload {
        let round = self.first;
        Payload { round, bytes: WORD_BYTES, long: false, writers: Writers::All, is_copied: true, pair: None }
    }

    /// Writes the own word and hears those of all others.
    fn exchange(&mut self, word: Word, slots: &mut impl Readers) -> Outcome {
        let (signature, others) = (self.script.signature(), self.script.others());
        if !self.written {
            let payload = self.payload();
            if !slots.has_room(payload) {
                return Outcome::Blocked;
            }
            slots.fill(payload, |to, _, _| to[..WORD_BYTES].copy_from_slice(&word.bytes()));
            if self.plan.timed && self.since == 0 {
                self.offered = slots.now();
            }
            slots.publish(self.first, signature);
            self.written = true;
        }
        if slots.missing(self.first, signature, others) != 0 {
            return match slots.strayed(self.first, signature, others) {
                Some(member) => Outcome::Strayed(member),
                None => Outcome::Blocked,
            };
        }
        let (words, me) = (&mut self.desk.words, self.script.group().rank);
        let first = self.first;
        slots.read(|from: &dyn Payloads| {
            for (member, heard) in (0..).zip(words.iter_mut()) {
                *heard =
                    if member == me { word } else { Word::of(from.get(member, first, false, WORD_BYTES)) };
            }
        });
        slots.heard_of_all(first);
        slots.end(first + 1);
        slots.wake(others);
        Outcome::Done
    }

    /// All words about something are here; `None` when the call goes on.
    fn heard(
        &mut self,
        about: About,
        slots: &mut impl Readers,
        operands: &mut impl Readable,
    ) -> Option<Outcome> {
        let well = self.desk.words.iter().all(|word| word.well);
        let (shape, bytes) = (self.script.shape(), self.script.bytes());
        match about {
            About::Offers => {
                self.since = slots.now();
                if !well {
                    slots.contest().refuse(shape, bytes);
                    self.plan.timed = false;
                }
                if !well || self.plan.course == Course::Payloads {
                    self.go_by_payloads(slots);
                    return None;
                }
                let address = self.read_contributions(slots, operands);
                let word = address.map_or(Word::REFUSED, |address| Word { address, ..self.closing(slots) });
                let next = if self.is_shared() { About::Shares } else { About::Closing };
                self.tell(next, word, slots);
            }
            About::Shares | About::Closing if !well => {
                slots.contest().refuse(shape, bytes);
                self.plan.timed = false;
                self.go_by_payloads(slots);
            }
            About::Shares => {
                if let Err(member) = self.read_shares(slots, operands) {
                    return Some(Outcome::Unread(member));
                }
                let word = self.closing(slots);
                self.tell(About::Closing, word, slots);
            }
            About::Closing => {
                self.spend(slots);
                let words = &self.desk.words;
                if self.plan.last && self.began.is_some() && self.plan.timed {
                    let all = words.iter().fold([0_u64; 2], |[payloads, reading], word| {
                        [payloads.saturating_add(word.took), reading.saturating_add(word.heard)]
                    });
                    slots.contest().conclude(shape, bytes, all);
                } else if self.plan.timed && self.began.is_none() {
                    let slowest = words.iter().map(|word| word.took).max().unwrap_or(0);
                    // Whose offer was the last heard all as soon as a word takes.
                    let word = words.iter().map(|word| word.heard).min().unwrap_or(0);
                    slots.contest().note(shape, bytes, slowest, word);
                }
                if self.plan.course == Course::Reading && self.gives_at_the_end() {
                    operands.give(0, &self.desk.kept);
                }
                return Some(self.end(slots));
            }
        }
        None
    }

    fn end(&mut self, slots: &mut impl Readers) -> Outcome {
        let mut desk = std::mem::take(&mut self.desk);
        if desk.kept.capacity() > MOST_HELD {
            desk.kept = Vec::new();
        }
        *slots.desk() = desk;
        Outcome::Done
    }

    /// Whether members combine parts that others need. Of two each that needs the result combines all of it.
    fn is_shared(&self) -> bool {
        let combines = matches!(self.script.shape(), Shape::Reduce { .. } | Shape::Allreduce);
        combines && self.script.group().size > 2
    }

    /// Whether this member's part of the result must not go where it belongs yet, or belongs to another.
    fn keeps(&self) -> bool {
        let me = self.script.group().rank;
        match self.script.shape() {
            Shape::Reduce { root } if self.is_shared() => me != root || self.script.is_in_place(),
            _ => self.script.is_in_place(),
        }
    }

    /// Whether what this member has kept is its result, which goes where it belongs when nobody reads there any more.
    fn gives_at_the_end(&self) -> bool {
        let has_all = match self.script.shape() {
            Shape::ReduceScatter => true,
            Shape::Allreduce => !self.is_shared(),
            Shape::Reduce { root } => !self.is_shared() && root == self.script.group().rank,
            _ => false,
        };
        has_all && self.keeps()
    }

    /// The part of the vector that a member combines: begin and bytes.
    fn part(&self, member: u32) -> (u64, usize) {
        let (element, parts) = (self.script.element(), u64::from(self.script.group().size));
        let (begin, bytes) =
            Partition { count: self.script.bytes() / element, element, parts }.span(member, member + 1);
        (begin, bytes as usize)
    }

    /// Reads what this member needs of the contributions; answers where its part of a result lies, `None` when it failed to.
    fn read_contributions(&mut self, slots: &mut impl Readers, operands: &mut impl Readable) -> Option<u64> {
        let (me, bytes) = (u64::from(self.script.group().rank), self.script.bytes());
        match self.script.shape() {
            Shape::Allgather | Shape::Alltoall => {
                let skip = if self.script.shape() == Shape::Alltoall { me * bytes } else { 0 };
                for member in self.script.others_in_turn() {
                    let from = self.desk.words[member as usize].address + skip;
                    let at = u64::from(member) * bytes;
                    if !operands.receive(at, bytes as usize, |into| slots.copy_from(member, from, into)) {
                        return None;
                    }
                }
                self.script.keep(operands);
                Some(0)
            }
            Shape::ReduceScatter => self.fold((me * bytes, 0), bytes as usize, slots, operands),
            Shape::Reduce { root } if !self.is_shared() && u64::from(root) != me => Some(0),
            Shape::Reduce { .. } | Shape::Allreduce if !self.is_shared() => {
                self.fold((0, 0), bytes as usize, slots, operands)
            }
            _ => {
                let (begin, len) = self.part(me as u32);
                self.fold((begin, begin), len, slots, operands)
            }
        }
    }

    /// Combines `len` bytes at `from` of all contributions, for `into` of the result; answers where they lie.
    fn fold(
        &mut self,
        (from, into): (u64, u64),
        len: usize,
        slots: &mut impl Readers,
        operands: &mut impl Readable,
    ) -> Option<u64> {
        let element = self.script.element() as usize;
        let others = (self.script.group().size as usize - 1).max(2);
        let at_a_time = ((AT_A_TIME / others).min(len) / element * element).max(element);
        let keeps = self.keeps();
        let mut kept = std::mem::take(&mut self.desk.kept);
        kept.resize(if keeps { len } else { 0 }, 0);
        let mut pieces = std::mem::take(&mut self.desk.pieces);
        if pieces.len() < others * at_a_time {
            pieces.resize(others * at_a_time, 0);
        }
        let mut is_well = true;
        for at in (0..len).step_by(at_a_time) {
            let count = at_a_time.min(len - at);
            let target = match keeps {
                true => Target::Payload(&mut kept[at..at + count]),
                false => Target::Result(into + at as u64, count),
            };
            is_well &=
                self.fold_piece(from + at as u64, count, &mut pieces, target, slots, operands).is_some();
            if !is_well {
                break;
            }
        }
        let address = match keeps {
            true => slots.expose(&kept),
            false => operands.result_at(into, len).unwrap_or(0),
        };
        (self.desk.kept, self.desk.pieces) = (kept, pieces);
        is_well.then_some(address)
    }

    /// Combines a piece in the order of ranks, from the right, as [`Script`] does. It is read in another order, in which not all read from the
    /// same member at a time.
    fn fold_piece(
        &self,
        at: u64,
        len: usize,
        pieces: &mut [u8],
        mut into: Target<'_>,
        slots: &mut impl Readers,
        operands: &mut impl Operands,
    ) -> Option<()> {
        let (me, last) = (self.script.group().rank, self.script.group().size - 1);
        let place = |member: u32| (member - u32::from(member > me)) as usize * len;
        for member in self.script.others_in_turn() {
            let from = self.desk.words[member as usize].address + at;
            if !slots.copy_from(member, from, &mut pieces[place(member)..][..len]) {
                return None;
            }
        }
        let term = |member: u32| match member == me {
            true => Term::Own(at),
            false => Term::Written(&pieces[place(member)..][..len]),
        };
        operands.combine_two(term(last - 1), term(last), into.again());
        for member in (0..last - 1).rev() {
            operands.combine(term(member), into.again());
        }
        Some(())
    }

    /// Reads the parts that the others have combined, where this member needs them; or says whose it could not.
    fn read_shares(&self, slots: &mut impl Readers, operands: &mut impl Readable) -> Result<(), u32> {
        let me = self.script.group().rank;
        if matches!(self.script.shape(), Shape::Reduce { root } if root != me) {
            return Ok(());
        }
        for member in self.script.others_in_turn() {
            let (begin, len) = self.part(member);
            let from = self.desk.words[member as usize].address;
            if !operands.receive(begin, len, |into| slots.copy_from(member, from, into)) {
                return Err(member);
            }
        }
        if self.keeps() {
            operands.give(self.part(me).0, &self.desk.kept);
        }
        Ok(())
    }
}

/// Where this member's contribution lies, when it can be read and this member can do with that of the others what it has to.
fn offer(script: &Script, slots: &impl Readers, operands: &impl Readable) -> Word {
    let (bytes, group) = (script.bytes(), script.group());
    let all = bytes * u64::from(group.size);
    let (at, given, taken) = match script.shape() {
        Shape::Allgather => {
            (if script.is_in_place() { u64::from(group.rank) * bytes } else { 0 }, bytes, all)
        }
        Shape::Alltoall => (0, all, all),
        Shape::ReduceScatter => (0, all, bytes),
        Shape::Reduce { root } if root != group.rank => (0, bytes, 0),
        _ => (0, bytes, bytes),
    };
    let takes = slots.can_read() && (taken == 0 || operands.result_at(0, taken as usize).is_some());
    match operands.given_at(at, given as usize).filter(|_| takes) {
        Some(address) => Word { well: true, address, ..Word::default() },
        None => Word::REFUSED,
    }
}
