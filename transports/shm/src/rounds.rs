//! Collectives inside a node: flags and payloads that every member writes for itself and all others read.
//!
//! A communicator has one block of shared memory ([`crate::pool`]). Each member owns an *area* of it: a line that says how far
//! it has come, and [`CELLS`] cells that it alone writes. An operation is one or more *rounds*, which all members number alike.
//! In a round a member may write its cell (a stamp and a payload), and may read the cells of others once their stamps are
//! there. Payloads longer than a cell lie in *slots*: one after the other in a ring that the member has in a second block,
//! which is there once somebody needed it; the cell says where.
//!
//! ```text
//! block    head: who has joined, has left  area of member 0, of member 1, ...
//! area     finished rounds, begun calls    cell 0 .. cell 7      (128 bytes each)
//! cell     stamp 8, where a long payload begins 8, payload 112
//! stamp    round + 1 in bits 63..16, signature of the operation in bits 15..0
//! ```
//!
//! # Rules
//! - A. The payload of member j in round r may be read by i from when it sees j's stamp of r until it says that it has finished
//!   r.
//! - B. Member j may write its cell of round r when all others have finished round r - 8. In its ring it writes behind the
//!   payload before, when all others have finished the last round that had the place. Two members change rings with every lap
//!   of longer payloads in rounds in which both write: they count such rounds alike, so that their rings are never the same
//!   (`laps.rs`). Shorter ones in such rounds lie in two places of each ring, of which a member writes where it has read the
//!   other's two rounds of that kind before, when the other has finished that (`swaps.rs`).
//!   Among more than two that share cores, payloads of a block for each go into a part of the rings of their own, each block where its writer
//!   has read last what its reader wrote (`exchange.rs`).
//! - C. A member says that it has finished a round also when it neither writes nor reads in it.
//!
//! # Memory ordering
//! Payload and stamp: the writer stores the stamp with Release after the payload, a reader loads it with Acquire before. So
//! rule A gives the reader the whole payload. Finished rounds: a reader stores their number with Release after its last
//! load of payloads, the writer loads it with Acquire before it writes the cell again (rule B); so no load of the reader can
//! see the later write. A stamp of round r of member j says as well that j has finished every round before the operation that r
//! belongs to: its finishing is before the stamp in j's program order, and the stamp is Release; so the reader may write
//! on that knowledge as if it had loaded the number itself ([`Pace::heard_of`]).
//!
//! Sleeping: who waits for stamps or for room sleeps on its process's bell, as if it waited for a packet ([`crate::bell`]). Who
//! makes something true that others may sleep for passes the light barrier and rings those that are armed: after a stamp that
//! *few* wait for ([`Rounds::publish`] then [`Rounds::wake`]), after seeing a round whole for which *all* wait for all, and
//! after finishing. In the second case a stamp itself wakes nobody. That suffices: of the members of such a round the last to
//! store its stamp (in the order of its stores' visibility) either sees the round whole before it sleeps, or finds it whole at
//! its look after arming and the heavy barrier; either way it rings all who are armed. A sleeper whose heavy barrier came
//! before the ringer's look at its word is seen armed; otherwise its own look after that barrier comes after all stamps that
//! the ringer had seen (they happen before the ringer's barrier, by Acquire), and so sees the round whole.
//!
//! `tests/loom_rounds.rs` checks rules, stamps and sleeping with the code of [`Pace`] and [`crate::bell`].

pub(crate) mod distance;
pub mod exchange;
mod laps;
pub mod leaving;
mod memory;
pub mod swaps;

pub use crate::fetch::payload as fetch;
use crate::pool::{Block, Pool};
use crate::segment::Segment;
use distance::Distance;
pub use distance::Writing;
pub use exchange::Exchanged;
use laps::Home;
pub use laps::{Longest, Sort, wanted_longest, wanted_slot_bytes};
use memory::Memory;
pub use memory::{Exchange, Payloads};
use std::sync::Arc;

/// Cells of a member: rounds that it can be ahead of the slowest.
pub const CELLS: u64 = 8;
/// Bytes of a payload that lies in the cell itself.
pub const IN_CELL: usize = 112;
/// Most members: sets of them are words of one bit each.
pub const MOST_MEMBERS: u32 = 63;
/// Most members where each has a core of its own: every member looks at every other one, which beyond this takes longer than
/// the steps of a tree. Where they share cores the steps are changes of processes, and one round is best at any number.
pub const MOST_WITH_CORES: u32 = 16;

/// The stamp of a round. `signature`: what must be the same at all members.
#[inline]
pub const fn stamp(round: u64, signature: u16) -> u64 {
    (round + 1) << 16 | signature as u64
}

/// The words of the protocol, so that the model checker can stand in.
pub trait Words {
    /// Cells of a member.
    const CELLS: u64 = CELLS;
    /// A member's stamp in the cell of a round (Acquire).
    fn stamp(&self, member: u32, round: u64) -> u64;
    /// Sets the own stamp in the cell of a round (Release).
    fn set_stamp(&self, round: u64, stamp: u64);
    /// Rounds that a member has finished (Acquire).
    fn finished(&self, member: u32) -> u64;
    /// Says how many rounds this member has finished (Release).
    fn set_finished(&self, rounds: u64);
}

/// How far a member is and how far it may go: the protocol without memory.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// This member.
    pub me: u32,
    /// Number of members.
    pub members: u32,
    /// The first round of the next operation.
    pub next: u64,
    /// The own cells of rounds below may be written.
    room: u64,
}

impl Pace {
    /// Before the first round.
    pub fn new(me: u32, members: u32) -> Pace {
        Pace { me, members, next: 0, room: 0 }
    }

    /// Whether the own cell of `round` may be written (rule B).
    #[inline]
    pub fn has_room(&mut self, words: &impl Words, round: u64) -> bool {
        round < self.room || self.look_for_room(words, round)
    }

    #[cold]
    fn look_for_room<W: Words>(&mut self, words: &W, round: u64) -> bool {
        let others = (0..self.members).filter(|&member| member != self.me);
        let slowest = others.map(|member| words.finished(member)).min().unwrap_or(round);
        self.room = self.room.max(slowest + W::CELLS);
        round < self.room
    }

    /// The other members that have not finished enough rounds for this one to write in `round`.
    #[cold]
    pub fn behind<W: Words>(&self, words: &W, round: u64) -> u64 {
        if round < self.room {
            return 0;
        }
        let others = (0..self.members).filter(|&member| member != self.me);
        let behind = others.filter(|&member| words.finished(member) + W::CELLS <= round);
        behind.fold(0, |all, member| all | 1 << member)
    }

    /// Every other member has begun the operation of which `first` is the first round.
    #[inline]
    pub fn heard_of<W: Words>(&mut self, _: &W, first: u64) {
        self.room = self.room.max(first + W::CELLS);
    }

    /// The members without the stamp of a round, of those with a bit in `of`.
    #[inline]
    pub fn missing(&self, words: &impl Words, round: u64, signature: u16, of: u64) -> u64 {
        let wanted = stamp(round, signature);
        let (mut left, mut missing) = (of, 0);
        while left != 0 {
            let member = left.trailing_zeros();
            left &= left - 1;
            if words.stamp(member, round) != wanted {
                missing |= 1 << member;
            }
        }
        missing
    }

    /// All other members, one bit each.
    #[inline]
    pub fn others(&self) -> u64 {
        ((1 << self.members) - 1) & !(1 << self.me)
    }
}

/// A member's end of a communicator's flags and payloads.
///
/// One thread at a time drives it; the members' calls are in the same order, as those of collectives are.
#[derive(Debug)]
pub struct Rounds {
    memory: Memory,
    pace: Pace,
    /// This member does nothing in the cells any more.
    gone: bool,
    distance: Distance,
}

/// How a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the cells.
    Cells,
    /// It fails: this member has left before the cells end ([`Rounds::cause`]).
    Left,
    /// The cells have ended for all members.
    Over,
}

/// What a member must know to join.
#[derive(Debug)]
pub struct Members {
    /// Index of this process among them.
    pub me: u32,
    /// Local indices of all.
    pub locals: Vec<u32>,
}

/// How the ranks of the node wake each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakes {
    /// This process fences itself, because sleepers cannot do it for it.
    pub fenced: bool,
    /// Ranks outnumber cores: the same in all processes of the node.
    pub crowded: bool,
}

impl Rounds {
    /// Bytes of the block of cells.
    pub fn cells_bytes(members: u32) -> u64 {
        Memory::cells_bytes(members)
    }

    /// Bytes of the smallest block of slots.
    pub fn slots_bytes(members: u32) -> u64 {
        laps::all_rings(members, false).1
    }

    /// Takes a block of slots for `members` members, as large as they like it while there is plenty; `None` when the pool is used
    /// up. `crowded`: ranks outnumber cores.
    pub fn take_slots(pool: &Pool, members: u32, crowded: bool) -> Option<Block> {
        let (wanted, least) = laps::all_rings(members, crowded);
        pool.take_share(wanted, least)
    }

    /// The same for payloads of at most `payload` bytes.
    pub fn take_slots_for(pool: &Pool, members: u32, payload: u64, crowded: bool) -> Option<Block> {
        let (wanted, least) = laps::all_rings(members, crowded);
        pool.take_share(if laps::stay_at_hand(payload, crowded) { least } else { wanted }, least)
    }

    /// Bytes of the longest payload in a block of slots for `members` members.
    pub fn slot_bytes_of(pool: &Pool, block: Block, members: u32, crowded: bool) -> usize {
        laps::Laps::new(members, pool.bytes(block), crowded).slot_bytes()
    }

    /// Takes a block of cells for `members` members; `None` when the pool is used up.
    pub fn take_cells(pool: &Pool, members: u32) -> Option<Block> {
        let block = pool.take(Rounds::cells_bytes(members))?;
        Memory::clear(pool, block, members);
        Some(block)
    }

    /// Joins the block that one member took for all. Every member joins once, before its first round.
    ///
    /// # Panics
    /// When there are more than [`MOST_MEMBERS`].
    pub(crate) fn join(
        segment: &Arc<Segment>,
        pool: &Arc<Pool>,
        block: Block,
        members: &Members,
        wakes: Wakes,
    ) -> Rounds {
        let count = members.locals.len() as u32;
        assert!((2..=MOST_MEMBERS).contains(&count), "{count} members");
        let pace = Pace::new(members.me, count);
        Rounds {
            memory: Memory::new(segment, pool, block, members, wakes),
            pace,
            gone: false,
            distance: Distance::default(),
        }
    }

    /// Says that this member has joined and what calls it has behind it. Nobody begins a call before all have said so,
    /// [`Rounds::absent`].
    pub fn join_in(&mut self, calls: u32) {
        self.memory.join_in(calls);
        self.wake(self.others());
    }

    /// The members that have not joined yet, one bit each.
    pub fn absent(&self) -> u64 {
        (self.others() | 1 << self.me()) & !self.memory.joined()
    }

    /// Begins the call of that number, which is the same at all members; false when some have left, and [`Rounds::way_of`] has
    /// the answer.
    #[inline(always)]
    pub fn begin(&mut self, number: u32) -> bool {
        leaving::begin(&self.memory, number)
    }

    /// How a call goes that [`Rounds::begin`] did not begin.
    #[cold]
    pub fn way_of(&mut self, number: u32) -> Way {
        match leaving::may_still_begin(&self.memory, self.members(), number) {
            false => Way::Over,
            true if self.gone => Way::Left,
            true => Way::Cells,
        }
    }

    /// Leaves the cells: the call under way fails, and those that wait for this member learn that it will not come. `cause`:
    /// not 0; counts when there is none yet.
    #[cold]
    pub fn leave(&mut self, cause: u64) {
        leaving::Words::set_cause(&self.memory, cause);
        self.gone = true;
        self.memory.stand_aside();
        leaving::Words::go(&self.memory);
        self.wake(self.others());
    }

    /// Why members have left; 0: none has.
    #[inline]
    pub fn cause(&self) -> u64 {
        leaving::Words::cause(&self.memory)
    }

    /// The members that have left, one bit each. Whose stamp is missing after this was asked will not write it.
    pub fn gone(&self) -> u64 {
        leaving::Words::gone(&self.memory)
    }

    /// Adds the block of slots that one member took for all; all do between the same two operations.
    pub fn add_slots(&mut self, block: Block) {
        self.memory.add_slots(block);
    }

    /// Whether there are slots.
    #[inline]
    pub fn has_slots(&self) -> bool {
        self.memory.has_slots()
    }

    /// This member.
    #[inline]
    pub fn me(&self) -> u32 {
        self.pace.me
    }

    /// Number of members.
    #[inline]
    pub fn members(&self) -> u32 {
        self.pace.members
    }

    /// All other members, one bit each.
    #[inline]
    pub fn others(&self) -> u64 {
        self.pace.others()
    }

    /// The first round of the next operation.
    #[inline]
    pub fn next(&self) -> u64 {
        self.pace.next
    }

    /// Whether this member may write in a round; `long`: the bytes of a long payload, otherwise 0.
    #[inline]
    pub fn has_room(&mut self, round: u64, long: usize, sort: Sort) -> bool {
        self.pace.has_room(&self.memory, self.memory.reach(round, long, sort))
    }

    /// Those that have to go on before this member may write in a round; `long` as for [`Rounds::has_room`].
    pub fn behind(&self, round: u64, long: usize, sort: Sort) -> u64 {
        self.pace.behind(&self.memory, self.memory.reach(round, long, sort))
    }

    /// The own payload of a round, at least `len` bytes, to be written before [`Rounds::publish`], and all others. `long`: in
    /// the ring; once for a round then.
    ///
    /// # Panics
    /// When the round has no room, or it cannot be that long.
    #[inline(always)]
    pub fn room(&mut self, round: u64, long: bool, len: usize, sort: Sort) -> (&mut [u8], Payloads<'_>) {
        assert!(
            self.has_room(round, if long { len } else { 0 }, sort),
            "a cell is written before all have read it"
        );
        if long { self.memory.long_room(round, len, sort) } else { self.memory.room_in_cell(round) }
    }

    /// Whether this member may write blocks that are exchanged in a round.
    #[inline]
    pub fn has_room_for_blocks(&mut self, round: u64, what: Exchanged) -> bool {
        self.pace.has_room(&self.memory, self.memory.reach_of_blocks(round, what))
    }

    /// As [`Rounds::behind`] for blocks that are exchanged.
    pub fn behind_with_blocks(&self, round: u64, what: Exchanged) -> u64 {
        self.pace.behind(&self.memory, self.memory.reach_of_blocks(round, what))
    }

    /// The blocks that this member writes in a round, before [`Rounds::publish`]. Once for a round.
    ///
    /// # Panics
    /// When the round has no room.
    pub fn exchange(&mut self, round: u64, what: Exchanged) -> Exchange<'_> {
        assert!(
            self.has_room_for_blocks(round, what),
            "blocks are written before all have read what lies there"
        );
        self.memory.exchange(round, what, &mut self.distance)
    }

    /// A round in which blocks are exchanged and this member writes none.
    pub fn pass_blocks(&mut self, round: u64, what: Exchanged) {
        self.memory.pass_blocks(round, what);
    }

    /// Says to which core this member is bound, as a number that is the same at all members and not 0; 0: to none. Before all agree on slots.
    pub fn say_seat(&self, seat: u32) {
        self.memory.say_seat(seat);
    }

    /// What each member has said of its seat. The same at all members once all have agreed on slots.
    pub fn seats(&self) -> Vec<u32> {
        self.memory.seats()
    }

    /// Bytes of the longest payload that only members of the writer's core read.
    #[inline]
    pub fn near_bytes(&self) -> usize {
        self.memory.near_bytes()
    }

    /// Bytes of a block that each member gives to each in an attended call; 0: none are exchanged. The same at all members.
    #[inline]
    pub fn block_bytes(&self) -> usize {
        self.memory.block_bytes(self.members())
    }

    /// The same where only so many members do, each to each.
    pub fn block_bytes_among(&self, writers: u32) -> usize {
        self.memory.block_bytes(writers)
    }

    /// The own payload of that many bytes is about to be written: how. Its sort is that of [`Writing::sort`] from now on; then
    /// [`Rounds::has_written`].
    #[inline(always)]
    pub fn begin_writing(&mut self, bytes: usize, sort: Sort) -> Writing {
        if bytes < distance::SHORTEST { Writing::USUAL } else { self.begin_long(bytes, sort) }
    }

    #[inline(never)]
    fn begin_long(&mut self, bytes: usize, sort: Sort) -> Writing {
        if matches!(sort, Sort::Near { .. }) {
            return Writing::USUAL;
        }
        let writing = match self.memory.home(bytes, sort) {
            Home::Own => self.distance.begin(bytes),
            // What goes to and fro is quickly written, near or far.
            Home::ToAndFro => return Writing::USUAL,
            Home::Swapped => self.distance.begin_swapped(bytes),
        };
        if self.memory.is_worn(bytes, writing.sort(sort)) { writing } else { writing.of_new_memory() }
    }

    /// The same of a result that is combined into the own payload of that many bytes: past the caches where ranks share cores
    /// only, where that was measured to help.
    #[inline]
    pub fn begin_combining(&mut self, bytes: usize) -> Writing {
        self.distance.begin_combining(if self.memory.is_crowded() { bytes } else { 0 })
    }

    /// The others, one bit each, for whom what is written so goes past the caches: not for those on this processor.
    #[inline]
    pub fn past(&self, writing: Writing) -> u64 {
        if writing.past { self.memory.elsewhere() } else { 0 }
    }

    /// It has been written, and is not published yet.
    #[inline]
    pub fn has_written(&mut self, writing: Writing) {
        self.distance.end(writing);
    }

    /// Shows the own payload of a round to the others.
    #[inline(always)]
    pub fn publish(&mut self, round: u64, signature: u16) {
        self.memory.publish(round, stamp(round, signature));
    }

    /// Those of `of` whose stamp of the round is not there yet.
    #[inline]
    pub fn missing(&self, round: u64, signature: u16, of: u64) -> u64 {
        self.pace.missing(&self.memory, round, signature, of)
    }

    /// The first of `of` that is in another operation than this one in the same round: the program's calls do not match.
    #[cold]
    pub fn strayed(&self, round: u64, signature: u16, of: u64) -> Option<u32> {
        (0..self.members()).filter(|member| of >> member & 1 == 1).find(|&member| {
            let found = Words::stamp(&self.memory, member, round);
            found >> 16 == round + 1 && found != stamp(round, signature)
        })
    }

    /// The payloads.
    #[inline]
    pub fn payloads(&self) -> Payloads<'_> {
        self.memory.payloads()
    }

    /// Everybody has begun the operation of which `first` is the first round, as this member saw from their stamps.
    #[inline]
    pub fn heard_of_all(&mut self, first: u64) {
        self.pace.heard_of(&self.memory, first);
    }

    /// This member has finished all rounds below `rounds`.
    #[inline]
    pub fn finish(&mut self, rounds: u64) {
        self.memory.finish(rounds);
    }

    /// The operation ends: the next one begins with round `rounds`.
    #[inline]
    pub fn end(&mut self, rounds: u64) {
        self.memory.finish(rounds);
        self.pace.next = rounds;
    }

    /// Rings those of `of` that sleep or are about to.
    #[inline]
    pub fn wake(&self, of: u64) {
        self.memory.wake(of);
    }

    /// Fetches the own cell of a round for writing, while there is nothing better to do.
    #[inline]
    pub fn fetch(&self, round: u64) {
        self.memory.fetch(round);
    }

    /// Fetches the cells of `of` in a round, whose writers seem to be ahead.
    #[inline]
    pub fn expect(&self, of: u64, round: u64) {
        self.memory.expect(of, round);
    }

    /// Whether the ranks of this node share cores; the same at all members.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.memory.is_crowded()
    }

    /// Bytes of the longest payload of a call that nobody may attend to: the same at all members that have slots, and at all
    /// that have none.
    #[inline]
    pub fn slot_bytes(&self) -> usize {
        self.memory.slot_bytes()
    }

    /// The same of an attended call, of which a member writes at most two payloads ahead of its own reading.
    #[inline]
    pub fn attended_slot_bytes(&self) -> usize {
        self.memory.attended_slot_bytes()
    }

    /// The same of the contributions of an attended call in two phases: a member writes two, and parts of two
    /// results, before it has done with the first.
    #[inline]
    pub fn slot_bytes_in_two_phases(&self) -> usize {
        self.memory.slot_bytes_in_two_phases()
    }

    /// Tells on which processor this member runs, and whether it should make way, as it waits for `of`: one of them was last seen
    /// on the same processor, which can only go on then, or one that is behind this member and so has something to read. That
    /// one would have to be let in sooner or later; now it uses the time until those on other processors are there.
    /// `behind_too`: whether the latter are asked for, which reads a line of every member that it writes to in each round.
    pub fn makes_way(&self, of: u64, behind_too: bool) -> bool {
        self.memory.makes_way(of, behind_too)
    }
}
