//! Collectives of a communicator whose members are all on this node, by flags and payloads in shared memory: binds the pure scripts of
//! `weft_coll::rounds` to the cells of `weft_shm::rounds` and to the program's memory.

use crate::engine::Engine;
use crate::schedule::Arguments;
use weft_coll::Group;
use weft_coll::rounds::{Operands, Outcome, Payloads, Room, Run, Script, Shape, Slots, Target, Term};
use weft_datatype::{Kernel, Memory, RecvBuf, SendBuf};
use weft_shm::rounds::{CELLS, IN_CELL, MOST_MEMBERS, MOST_WITH_CORES, slot_bytes};
use weft_types::{Error, PeerId, Result};

/// The cells of a communicator, as this process sees them.
#[derive(Debug)]
pub struct Rounds(weft_shm::Rounds);

impl Engine {
    /// Whether a communicator of so many members, all of this node, can work by rounds.
    pub fn can_join_rounds(&self, members: u32) -> bool {
        self.fabric.shm().is_some_and(|shm| {
            let most = if shm.is_crowded() { MOST_MEMBERS } else { MOST_WITH_CORES };
            (2..=most).contains(&members)
        })
    }

    /// Takes memory for the cells (`slots`: for the long payloads) of a communicator, for one member to tell to the others; 0 when
    /// there is none.
    pub fn take_block(&mut self, members: u32, slots: bool) -> u64 {
        let Some(shm) = self.fabric.shm_mut() else { return 0 };
        let Ok(pool) = shm.pool() else { return 0 };
        let block = match slots {
            true => pool.take(weft_shm::Rounds::slots_bytes(members)),
            false => weft_shm::Rounds::take_cells(pool, members),
        };
        block.map_or(0, weft_shm::pool::Block::word)
    }

    /// Joins the cells that one member took; `peers[me]` is this process.
    ///
    /// # Errors
    /// The memory cannot be mapped, or there is none of that name.
    pub fn join_rounds(&mut self, block: u64, me: u32, peers: &[PeerId]) -> Result<Rounds> {
        let Some(shm) = self.fabric.shm_mut() else { return Err(no_block(block)) };
        let bytes = weft_shm::Rounds::cells_bytes(peers.len() as u32);
        let block = shm.pool()?.block(block, bytes).ok_or_else(|| no_block(block))?;
        Ok(Rounds(shm.join_rounds(block, me, peers.iter().copied())?))
    }

    /// Adds the memory for long payloads that one member took.
    ///
    /// # Errors
    /// As [`Engine::join_rounds`].
    pub fn add_slots(&mut self, block: u64, rounds: &mut Rounds) -> Result<()> {
        let Some(shm) = self.fabric.shm_mut() else { return Err(no_block(block)) };
        let bytes = weft_shm::Rounds::slots_bytes(rounds.0.members());
        rounds.0.add_slots(shm.pool()?.block(block, bytes).ok_or_else(|| no_block(block))?);
        Ok(())
    }
}

#[cold]
fn no_block(block: u64) -> Error {
    Error::internal(format!("{block:#x} names no memory for the collectives of a communicator"))
}

impl Rounds {
    /// The cells themselves, for short ways.
    #[inline(always)]
    pub fn cells(&mut self) -> &mut weft_shm::Rounds {
        &mut self.0
    }

    /// As [`Rounds::cells`], to look.
    #[inline(always)]
    pub fn cells_here(&self) -> &weft_shm::Rounds {
        &self.0
    }
}

/// A view of the payloads.
struct View<'a>(weft_shm::rounds::Payloads<'a>);

impl Payloads for View<'_> {
    #[inline]
    fn get(&self, member: u32, round: u64, long: bool, len: usize) -> &[u8] {
        self.0.get(member, round, long, len)
    }
}

impl Slots for Rounds {
    const SHORT: usize = IN_CELL;

    fn next(&self) -> u64 {
        self.0.next()
    }

    fn has_room(&mut self, round: u64) -> bool {
        self.0.has_room(round)
    }

    fn fill(&mut self, round: u64, long: bool, work: impl FnOnce(&mut [u8], &dyn Payloads)) {
        let (room, payloads) = self.0.room(round, long);
        work(room, &View(payloads));
    }

    fn publish(&mut self, round: u64, signature: u16) {
        self.0.publish(round, signature);
    }

    fn missing(&self, round: u64, signature: u16, of: u64) -> u64 {
        self.0.missing(round, signature, of)
    }

    fn strayed(&self, round: u64, signature: u16, of: u64) -> Option<u32> {
        self.0.strayed(round, signature, of)
    }

    fn read(&self, work: impl FnOnce(&dyn Payloads)) {
        work(&View(self.0.payloads()));
    }

    fn heard_of_all(&mut self, first: u64) {
        self.0.heard_of_all(first);
    }

    fn finish(&mut self, rounds: u64) {
        self.0.finish(rounds);
    }

    fn end(&mut self, rounds: u64) {
        self.0.end(rounds);
    }

    fn wake(&self, of: u64) {
        self.0.wake(of);
    }
}

const _: () = assert!(CELLS >= 8);

/// One collective call of this process, under way by rounds.
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
    /// Cuts a call for these cells; `None` when an element does not fit a slot. `element`: bytes that stay together.
    pub fn new(
        rounds: &Rounds,
        (shape, bytes, element): (Shape, u64, u64),
        arguments: Arguments,
        kernel: Option<Kernel>,
        in_place: bool,
    ) -> Option<RoundsCall> {
        let group = Group { rank: rounds.0.me(), size: rounds.0.members() };
        let script = script((shape, bytes, element), group, in_place, rounds.0.is_crowded())?;
        let of_root = matches!(shape, Shape::Scatter { .. });
        let from_recv = matches!(shape, Shape::Bcast { .. }) || in_place && !of_root;
        Some(RoundsCall {
            run: Run::begin(script, rounds),
            bound: Bound { arguments, kernel, from_recv, keeps: in_place },
        })
    }

    /// The same as a nonblocking call: see [`Run::unattended`].
    #[must_use]
    pub fn unattended(self) -> RoundsCall {
        RoundsCall { run: self.run.unattended(), ..self }
    }

    /// Begins at the cells' next round: the calls before this one are over.
    pub(crate) fn begin(&mut self, rounds: &Rounds) {
        self.run = self.run.again(rounds);
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
///
/// `crowded`: whether members share cores, [`weft_shm::Rounds::is_crowded`].
pub fn script(
    (shape, bytes, element): (Shape, u64, u64),
    group: Group,
    in_place: bool,
    crowded: bool,
) -> Option<Script> {
    let room = Room { slot: slot_bytes(group.size), crowded };
    Some(Script::new(shape, group, bytes, element, in_place, room)).filter(|script| script.fits(room.slot))
}

/// Whether a call needs long payloads; `None` when it does not fit them either. The same at all members.
pub fn needs_slots(shape: Shape, size: u32, bytes: u64, element: u64) -> Option<bool> {
    // The longest payload is the same where members share cores: what is too long for a cell stays so in pieces.
    let script = script((shape, bytes, element), Group { rank: 0, size }, false, false)?;
    Some(script.payload() > IN_CELL as u64)
}

impl Operands for Bound {
    fn take(&self, at: u64, to: &mut [u8]) {
        self.contribution().send_view(0, at, to.len() as u64).pack(0, to);
    }

    fn give(&mut self, at: u64, from: &[u8]) {
        self.arguments.recv.recv_view(0, at, from.len() as u64).unpack(0, from);
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
            self.take(at, &mut own);
            return Operand::Copied(own);
        }
        Operand::Own(self.contribution().send_view(0, at, len as u64))
    }
}
