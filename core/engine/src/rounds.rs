//! Collectives of members that are all on this node (a communicator, or the part of one that is here), by flags and payloads in shared memory: binds the pure
//! scripts of `weft_coll::rounds` to the cells of `weft_shm::rounds` and to the program's memory.

mod blocking;
mod slots;

pub use blocking::BlockingRoundsCall;

use crate::engine::{Engine, State};
use crate::schedule::Arguments;
use weft_coll::Group;
use weft_coll::rounds::{
    Contest, Cores, Desk, Operands, Outcome, Room, Run, Script, Shape, Target, Term, Told,
};
use weft_datatype::{Kernel, Memory, RecvBuf, SendBuf};
use weft_shm::rounds::{
    CELLS, IN_CELL, MOST_MEMBERS, MOST_WITH_CORES, Way, wanted_longest, wanted_slot_bytes,
};
use weft_types::{Error, ErrorClass, PeerId, Result};

/// The cells of a communicator, as this process sees them.
#[derive(Debug)]
pub struct Rounds {
    cells: weft_shm::Rounds,
    /// The members, where this process can read their memory.
    readers: Option<weft_shm::Readers>,
    contest: Contest,
    desk: Desk,
    /// Which members share a core.
    cores: Cores,
}

impl Engine {
    /// Whether a communicator of so many members, all of this node, can work by rounds.
    pub fn can_join_rounds(&self, members: u32) -> bool {
        self.fabric.shm().is_some_and(|shm| {
            let most = if shm.is_crowded() { MOST_MEMBERS } else { MOST_WITH_CORES };
            (2..=most).contains(&members)
        })
    }

    /// Takes memory for the cells (`slots`: for the long payloads) of a communicator, for one member to tell to the others; 0
    /// when there is none.
    pub fn take_block(&mut self, members: u32, slots: bool) -> u64 {
        let Some(shm) = self.fabric.shm_mut() else { return 0 };
        let crowded = shm.is_crowded();
        let Ok(pool) = shm.pool() else { return 0 };
        let block = match slots {
            true => weft_shm::Rounds::take_slots(pool, members, crowded),
            false => weft_shm::Rounds::take_cells(pool, members),
        };
        block.map_or(0, weft_shm::pool::Block::word)
    }

    /// Takes memory for the long payloads of one call that comes again and again, unattended; 0 when there is none in which the
    /// call is short enough for that.
    pub fn take_block_for(&mut self, members: u32, what: (Shape, u64, u64)) -> u64 {
        let Some(shm) = self.fabric.shm_mut() else { return 0 };
        let crowded = shm.is_crowded();
        let cut = |slot| script(what, Group { rank: 0, size: members }, false, Room::alike(slot, crowded));
        let payload = cut(wanted_slot_bytes(members, crowded)).map_or(u64::MAX, |script| script.payload());
        let Ok(pool) = shm.pool() else { return 0 };
        let Some(block) = weft_shm::Rounds::take_slots_for(pool, members, payload, crowded) else { return 0 };
        // The block may be smaller than the wanted one by which the members have judged the call.
        let slot = weft_shm::Rounds::slot_bytes_of(pool, block, members, crowded);
        if cut(slot).is_some_and(|script| script.rounds() <= MOST_UNATTENDED) {
            return block.word();
        }
        pool.give_back_unused(block.word());
        0
    }

    /// Gives back memory that was taken and that nobody joined.
    pub fn give_block_back(&mut self, block: u64) {
        if let Some(Ok(pool)) = self.fabric.shm_mut().map(weft_shm::Shm::pool) {
            pool.give_back_unused(block);
        }
    }

    /// Whether this process can reach memory that others take, and can leave rounds with them: that takes a barrier which acts
    /// on all.
    pub fn can_map_blocks(&mut self) -> bool {
        self.fabric.shm_mut().is_some_and(|shm| !shm.is_blind() && shm.pool().is_ok())
    }

    /// Joins the cells that one member took; `peers[me]` is this process.
    ///
    /// # Errors
    /// The memory cannot be mapped, or there is none of that name.
    pub fn join_rounds(&mut self, block: u64, me: u32, peers: &[PeerId]) -> Result<Rounds> {
        let Some(shm) = self.fabric.shm_mut() else { return Err(no_block(block)) };
        let bytes = weft_shm::Rounds::cells_bytes(peers.len() as u32);
        let block = shm.pool()?.block(block, bytes).ok_or_else(|| no_block(block))?;
        let readers = shm.readers(me, peers.iter().copied());
        let cells = shm.join_rounds(block, me, peers.iter().copied())?;
        let (contest, desk) = (Contest::default(), Desk::default());
        Ok(Rounds { cells, readers, contest, desk, cores: Cores::default() })
    }

    /// Adds the memory for long payloads that one member took. All have said before to which core they are bound
    /// ([`weft_shm::Rounds::say_seat`]), or nobody has.
    ///
    /// # Errors
    /// As [`Engine::join_rounds`].
    pub fn add_slots(&mut self, block: u64, rounds: &mut Rounds) -> Result<()> {
        rounds.cells.add_slots(self.slots(block, rounds.cells.members())?);
        rounds.cores = Cores::of(&rounds.cells.seats());
        Ok(())
    }

    /// The block of that name, when it has room for the long payloads of so many members.
    pub(crate) fn slots(&mut self, block: u64, members: u32) -> Result<weft_shm::pool::Block> {
        let Some(shm) = self.fabric.shm_mut() else { return Err(no_block(block)) };
        let bytes = weft_shm::Rounds::slots_bytes(members);
        shm.pool()?.block(block, bytes).ok_or_else(|| no_block(block))
    }
}

/// Why the members of a communicator leave its cells: in the top bits of the word that they share, with what it is about below.
mod cause {
    /// A process of the job was lost.
    pub(super) const LOST: u64 = 1 << 62;
    /// The calls of two members do not match.
    pub(super) const MISMATCH: u64 = 1 << 61;
    /// The members could not agree on memory.
    pub(super) const NO_MEMORY: u64 = 1 << 60;
    /// A process that is waited for has ended MPI, as after a loss.
    pub(super) const LEFT: u64 = 1 << 59;
    /// The memory of a member cannot be read any more.
    pub(super) const UNREAD: u64 = 1 << 58;
    /// What the members of several nodes do by messages has failed, with an error of that class.
    pub(super) const OUTSIDE: u64 = 1 << 57;
}

#[cold]
fn no_block(block: u64) -> Error {
    Error::internal(format!("{block:#x} names no memory for the collectives of a communicator"))
}

impl Rounds {
    /// The cells themselves, for short ways.
    #[inline(always)]
    pub fn cells(&mut self) -> &mut weft_shm::Rounds {
        &mut self.cells
    }

    /// Begins the call of that number of the communicator in the cells. Once for a call; nothing may be done for it there before.
    ///
    /// # Errors
    /// Why the call fails: this member has left, and the others have not all.
    #[inline]
    pub fn begin(&mut self, number: u32) -> Result<Begin> {
        if self.cells.begin(number) { Ok(Begin::Cells) } else { self.begin_late(number) }
    }

    #[cold]
    fn begin_late(&mut self, number: u32) -> Result<Begin> {
        match self.cells.way_of(number) {
            Way::Cells => Ok(Begin::Cells),
            Way::Over => Ok(Begin::Over),
            Way::Left => Err(self.cause().expect("who has left had a cause")),
        }
    }

    /// Whether the members have left the cells, or are about to.
    pub fn has_cause(&self) -> bool {
        self.cells.cause() != 0
    }

    /// The error of calls that fail because members have left.
    fn cause(&self) -> Option<Error> {
        let cause = self.cells.cause();
        match cause {
            0 => None,
            _ if cause & cause::LOST != 0 => Some(State::gone(PeerId(cause as u32))),
            _ if cause & cause::LEFT != 0 => Some(State::parted(PeerId(cause as u32))),
            _ if cause & cause::UNREAD != 0 => Some(unread(cause as u32 >> 8, cause as u32 & 0xff)),
            _ if cause & cause::OUTSIDE != 0 => Some(outside(cause as u32 >> 16, cause as u16)),
            _ if cause & cause::MISMATCH != 0 => Some(mismatch(cause as u32 >> 8, cause as u32 & 0xff)),
            _ => Some(Error::new(
                ErrorClass::NO_MEM,
                "the members of a communicator could not agree on shared memory for its collective operations",
            )),
        }
    }

    /// Leaves because the call of `other` does not match; the error of this one.
    #[cold]
    pub fn leave_for_mismatch(&mut self, other: u32) -> Error {
        self.leave(cause::MISMATCH | u64::from(self.cells.me()) << 8 | u64::from(other))
    }

    /// Leaves because the memory of `other` cannot be read any more; the error of the call.
    #[cold]
    pub fn leave_unread(&mut self, other: u32) -> Error {
        self.leave(cause::UNREAD | u64::from(self.cells.me()) << 8 | u64::from(other))
    }

    /// Leaves because a process is gone; the error of the call.
    #[cold]
    pub fn leave_for_loss(&mut self, lost: PeerId) -> Error {
        self.leave(cause::LOST | u64::from(lost.0))
    }

    /// Leaves because a process that is waited for has ended MPI; the error of the call.
    #[cold]
    pub fn leave_for_leaver(&mut self, left: PeerId) -> Error {
        self.leave(cause::LEFT | u64::from(left.0))
    }

    /// Leaves because the part of a call that goes from node to node has failed at this member, which stands for its node.
    #[cold]
    pub fn leave_for_failure(&mut self, why: &Error) -> Error {
        self.leave(cause::OUTSIDE | u64::from(self.cells.me()) << 16 | u64::from(why.class().0 as u16))
    }

    /// Leaves because there is no memory for what the others may be about to do.
    #[cold]
    pub fn leave_for_memory(&mut self) -> Error {
        self.leave(cause::NO_MEMORY)
    }

    fn leave(&mut self, cause: u64) -> Error {
        self.cells.leave(cause);
        self.cause().expect("just set")
    }

    /// Leaves because others did; the error of the call.
    #[cold]
    pub fn leave_too(&mut self) -> Error {
        self.leave(self.cells.cause())
    }

    /// The room of attended calls.
    #[inline]
    pub fn room(&self) -> Room {
        let (slot, crowded) = (self.cells.attended_slot_bytes(), self.cells.is_crowded());
        Room {
            slot,
            in_two_phases: self.cells.slot_bytes_in_two_phases(),
            block: self.cells.block_bytes(),
            block_of_cores: self.cells.block_bytes_among(self.cores.count()),
            crowded,
            near: self.cells.near_bytes(),
            cores: self.cores,
            told: Told::default(),
        }
    }

    /// The room of calls that nobody may attend to.
    pub fn unattended_room(&self) -> Room {
        Room::alike(self.cells.slot_bytes(), self.cells.is_crowded())
    }

    /// The room by which it is judged whether a nonblocking call is too long for these cells: that of the slots; without slots
    /// that of wanted ones. `others_have`: of those that the other members may have, as well as it is known here.
    pub fn room_later(&self, others_have: bool) -> Room {
        let (size, crowded) = (self.cells.members(), self.cells.is_crowded());
        match self.cells.has_slots() {
            true => self.unattended_room(),
            false if others_have => Room::alike(wanted_slot_bytes(size, crowded), crowded),
            false => wanted_room(size),
        }
    }

    /// As [`Rounds::cells`], to look.
    #[inline(always)]
    pub fn cells_here(&self) -> &weft_shm::Rounds {
        &self.cells
    }
}

/// The error of a call that does not match that of another member.
fn mismatch(one: u32, other: u32) -> Error {
    Error::new(
        ErrorClass::TRUNCATE,
        format!(
            "ranks {one} and {other} are in different collective operations, or in ones of different size or root: the ranks \
             disagree about operation, count, datatype or root (section 6.1)"
        ),
    )
}

/// The error of a call in which a member could read the contribution of another, and then not the result made of it.
fn unread(one: u32, other: u32) -> Error {
    Error::new(
        ErrorClass::ACCESS,
        format!(
            "rank {one} cannot read the memory of rank {other} any more, in the middle of a collective operation: its process is gone, or a \
             thread of it unmapped or protected a buffer in use (section 6.1); WEFT_SINGLE_COPY=off does without such reading"
        ),
    )
}

/// The error of a call that has failed between the nodes, at those members of a node that had no part in that.
fn outside(member: u32, class: u16) -> Error {
    Error::new(
        ErrorClass(i32::from(class)),
        format!(
            "the part of a collective operation that goes from node to node has failed at the process that stands for this node (number \
             {member} of its processes in the communicator, counted from 0), which has returned what is wrong"
        ),
    )
}

/// How a call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// By the cells.
    Cells,
    /// The cells have ended: this call and all after it go by messages, at all members.
    Over,
}

const _: () = assert!(CELLS >= 8);

/// One nonblocking or persistent collective call of this process, under way by rounds.
#[derive(Debug)]
pub struct RoundsCall {
    run: Run,
    bound: Bound,
}

/// The call's arguments.
#[derive(Debug)]
struct Bound {
    arguments: Arguments,
    kernel: Option<Kernel>,
    /// What this member contributes lies in the receive argument.
    from_recv: bool,
    /// What it contributes to itself is where it belongs already.
    keeps: bool,
}

impl RoundsCall {
    /// Cuts a nonblocking call for these cells (see [`Run::unattended`]); `None` when an element does not fit a slot. `element`: bytes
    /// that stay together.
    pub fn unattended(
        rounds: &Rounds,
        what: (Shape, u64, u64),
        arguments: Arguments,
        kernel: Option<Kernel>,
        in_place: bool,
    ) -> Option<RoundsCall> {
        RoundsCall::unattended_as_told(rounds, what, arguments, kernel, in_place, Told::default())
    }

    /// The same of a call of which rules say something.
    pub fn unattended_as_told(
        rounds: &Rounds,
        what: (Shape, u64, u64),
        arguments: Arguments,
        kernel: Option<Kernel>,
        in_place: bool,
        told: Told,
    ) -> Option<RoundsCall> {
        let room = Room { told, ..rounds.unattended_room() };
        let (script, bound) = RoundsCall::bind(rounds, room, what, arguments, kernel, in_place)?;
        Some(RoundsCall { run: Run::begin(script, rounds).unattended(), bound })
    }

    fn bind(
        rounds: &Rounds,
        room: Room,
        (shape, bytes, element): (Shape, u64, u64),
        arguments: Arguments,
        kernel: Option<Kernel>,
        in_place: bool,
    ) -> Option<(Script, Bound)> {
        let group = Group { rank: rounds.cells.me(), size: rounds.cells.members() };
        let script = script((shape, bytes, element), group, in_place, room)?;
        let of_root = matches!(shape, Shape::Scatter { .. });
        let from_recv = matches!(shape, Shape::Bcast { .. }) || in_place && !of_root;
        Some((script, Bound { arguments, kernel, from_recv, keeps: in_place }))
    }

    /// Begins at the cells' next round: the calls before this one are over.
    pub(crate) fn begin(&mut self, rounds: &Rounds) {
        self.run = self.run.again(rounds);
    }

    /// The same of a call that ended and that is always this way, of which nothing can have been written yet.
    #[inline]
    pub(crate) fn begin_again(&mut self, rounds: &Rounds) {
        self.run.restart(rounds);
    }

    /// Goes as far as it can without waiting.
    #[inline]
    pub fn step(&mut self, rounds: &mut Rounds) -> Outcome {
        self.run.step(rounds, &mut self.bound)
    }

    /// The members that it waits for, one bit each.
    pub fn missing(&self, rounds: &Rounds) -> u64 {
        self.run.missing(rounds)
    }
}

/// Cuts a call for the slots of its communicator; `None` when an element does not fit one. `element`: bytes that stay together.
pub fn script(
    (shape, bytes, element): (Shape, u64, u64),
    group: Group,
    in_place: bool,
    room: Room,
) -> Option<Script> {
    Some(Script::new(shape, group, bytes, element, in_place, room))
        .filter(|script| script.fits(room.most(group.size)))
}

/// The room in rings of the wanted size.
pub fn wanted_room(size: u32) -> Room {
    Room::alike(wanted_slot_bytes(size, false), false)
}

/// The room of attended calls in rings of the wanted size, of members with those seats (numbers of cores; 0: not bound); `None` where so many have no
/// cells. `crowded`: whether they share cores.
pub fn usual_room(seats: &[u32], crowded: bool) -> Option<Room> {
    let size = seats.len() as u32;
    let most = if crowded { MOST_MEMBERS } else { MOST_WITH_CORES };
    let cores = Cores::of(seats);
    let longest = wanted_longest(size, cores.count(), crowded);
    (2..=most).contains(&size).then(|| Room {
        in_two_phases: longest.in_two_phases,
        block: longest.block,
        block_of_cores: longest.block_of_cores,
        near: longest.near,
        cores,
        ..Room::alike(longest.attended, crowded)
    })
}

/// Whether a call needs long payloads; `None` when it does not fit them either. The same at all members.
pub fn needs_slots(shape: Shape, size: u32, bytes: u64, element: u64) -> Option<bool> {
    needs_slots_as_told((shape, bytes, element), size, Told::default())
}

/// The same of a call of which rules say something.
pub fn needs_slots_as_told(what: (Shape, u64, u64), size: u32, told: Told) -> Option<bool> {
    // The longest payload is the same where members share cores: what is too long for a cell stays so in pieces.
    let script = script(what, Group { rank: 0, size }, false, Room { told, ..wanted_room(size) })?;
    Some(script.payload() > IN_CELL as u64)
}

/// Rounds of the longest nonblocking calls that go by cells: two times what a member writes at their start. What is longer
/// would wait for attention again and again, where a message waits once.
const MOST_UNATTENDED: u64 = 14;

/// As [`needs_slots`] for a nonblocking call; `None` also for what is too long for one in that room. The same at all members if
/// the room is.
pub fn needs_slots_later(what: (Shape, u64, u64), size: u32, room: Room) -> Option<bool> {
    let script = script(what, Group { rank: 0, size }, false, room)?;
    (script.rounds() <= MOST_UNATTENDED).then(|| script.payload() > IN_CELL as u64)
}

impl Operands for Bound {
    fn take(&self, at: u64, to: &mut [u8], past: bool) {
        let from = self.contribution().send_view(0, at, to.len() as u64);
        match from.as_slice().filter(|_| past) {
            Some(from) => weft_shm::copy_past_caches(from, to),
            None => from.pack(0, to),
        }
    }

    fn give(&mut self, at: u64, from: &[u8]) {
        self.arguments.recv.recv_view(0, at, from.len() as u64).unpack(0, from);
    }

    fn put(&self, from: &[u8], to: &mut [u8]) {
        weft_shm::copy_past_caches(from, to);
    }

    fn keep(&mut self, from: u64, at: u64, len: usize) {
        if !self.keeps {
            let from = self.arguments.send.send_view(0, from, len as u64);
            weft_datatype::memory::copy(&from, &mut self.arguments.recv.recv_view(0, at, len as u64));
        }
    }

    fn combine(&mut self, left: Term<'_>, into: Target<'_>) {
        let kernel = self.kernel();
        match into {
            Target::Result(at, len) => {
                let left = self.operand(left, len, Some(at));
                kernel.apply(left.bytes(), slice(&mut self.arguments.recv.recv_view(0, at, len as u64)));
            }
            Target::Payload(room) => kernel.apply(self.operand(left, room.len(), None).bytes(), room),
        }
    }

    fn combine_two(&mut self, left: Term<'_>, right: Term<'_>, into: Target<'_>) {
        let kernel = self.kernel();
        match into {
            Target::Result(at, len) => {
                let (left, right) = (self.operand(left, len, Some(at)), self.operand(right, len, Some(at)));
                let mut into = self.arguments.recv.recv_view(0, at, len as u64);
                kernel.apply_apart(left.bytes(), right.bytes(), slice(&mut into));
            }
            Target::Payload(room) => {
                let (left, right) =
                    (self.operand(left, room.len(), None), self.operand(right, room.len(), None));
                kernel.apply_apart(left.bytes(), right.bytes(), room);
            }
        }
    }
}

/// The bytes of an operand.
enum Operand<'a> {
    Written(&'a [u8]),
    Own(SendBuf),
    Copied(Vec<u8>),
}

impl Operand<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Operand::Written(bytes) => bytes,
            Operand::Own(view) => view.as_slice().expect("reductions by rounds are of gap-free types"),
            Operand::Copied(bytes) => bytes,
        }
    }
}

fn slice(view: &mut RecvBuf) -> &mut [u8] {
    view.as_mut_slice().expect("reductions by rounds are of gap-free types")
}

impl Bound {
    fn kernel(&self) -> Kernel {
        self.kernel.expect("a reduction has an operation")
    }

    /// What this member contributes.
    fn contribution(&self) -> &Memory {
        if self.from_recv { &self.arguments.recv } else { &self.arguments.send }
    }

    /// An operand of `len` bytes for a result at `result` of the receive argument.
    fn operand<'a>(&self, term: Term<'a>, len: usize, result: Option<u64>) -> Operand<'a> {
        let at = match term {
            Term::Written(bytes) => return Operand::Written(&bytes[..len]),
            Term::Own(at) => at,
        };
        let from = self.contribution().address() + at as usize;
        let into = result.map(|at| self.arguments.recv.address() + at as usize);
        if into.is_some_and(|into| from < into + len && into < from + len) {
            // The program passed buffers that overlap: its result is undefined (section 2.3), its memory is not harmed.
            let mut own = vec![0; len];
            self.take(at, &mut own, false);
            return Operand::Copied(own);
        }
        Operand::Own(self.contribution().send_view(0, at, len as u64))
    }
}
