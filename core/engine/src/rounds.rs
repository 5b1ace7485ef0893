//! Collectives of a communicator whose members are all on this node, by flags and payloads in shared memory: binds the pure scripts of
//! `weft_coll::rounds` to the cells of `weft_shm::rounds` and to the program's memory.

use crate::engine::Engine;
use crate::schedule::Arguments;
use weft_coll::Group;
use weft_coll::rounds::{Operands, Outcome, Payloads, Run, Script, Shape, Slots};
use weft_datatype::Kernel;
use weft_shm::rounds::{CELLS, IN_CELL, MOST_MEMBERS, slot_bytes};
use weft_types::{Error, PeerId, Result};

/// The cells of a communicator, as this process sees them.
#[derive(Debug)]
pub struct Rounds(weft_shm::Rounds);

impl Engine {
    /// Whether a communicator of so many members, all of this node, can work by rounds.
    pub fn can_join_rounds(&self, members: u32) -> bool {
        self.fabric.shm().is_some() && (2..=MOST_MEMBERS).contains(&members)
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
        let script = script((shape, bytes, element), group, in_place)?;
        let of_root = matches!(shape, Shape::Scatter { .. });
        let from_recv = matches!(shape, Shape::Bcast { .. }) || in_place && !of_root;
        Some(RoundsCall {
            run: Run::begin(script, rounds),
            bound: Bound { arguments, kernel, from_recv, keeps: in_place },
        })
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
pub fn script((shape, bytes, element): (Shape, u64, u64), group: Group, in_place: bool) -> Option<Script> {
    let slot = slot_bytes(group.size);
    Some(Script::new(shape, group, bytes, element, in_place, slot)).filter(|script| script.fits(slot))
}

/// Whether a call needs long payloads; `None` when it does not fit them either. The same at all members.
pub fn needs_slots(shape: Shape, size: u32, bytes: u64, element: u64) -> Option<bool> {
    let script = script((shape, bytes, element), Group { rank: 0, size }, false)?;
    Some(script.payload() > IN_CELL as u64)
}

impl Operands for Bound {
    fn take(&self, at: u64, to: &mut [u8]) {
        let from = if self.from_recv { &self.arguments.recv } else { &self.arguments.send };
        from.send_view(0, at, to.len() as u64).pack(0, to);
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

    fn combine(&mut self, left: &[u8], at: u64) {
        let mut into = self.arguments.recv.recv_view(0, at, left.len() as u64);
        let into = into.as_mut_slice().expect("reductions by rounds are of gap-free types");
        self.kernel().apply(left, into);
    }

    fn combine_own(&mut self, at: u64, len: usize) {
        let left = self.arguments.send.elements(0, at, len as u64);
        let into = self.arguments.recv.elements(0, at, len as u64);
        if self.kernel().combine(left, into).is_err() {
            // The program passed buffers that overlap: its result is undefined (section 2.3), its memory is not harmed.
            let mut own = vec![0; len];
            self.take(at, &mut own);
            self.combine(&own, at);
        }
    }

    fn combine_with_own(&self, at: u64, into: &mut [u8]) {
        let from = if self.from_recv { &self.arguments.recv } else { &self.arguments.send };
        let own = from.send_view(0, at, into.len() as u64);
        let own = own.as_slice().expect("reductions by rounds are of gap-free types");
        self.kernel().apply(own, into);
    }

    fn combine_apart(&self, left: &[u8], into: &mut [u8]) {
        self.kernel().apply(left, into);
    }
}

impl Bound {
    fn kernel(&self) -> Kernel {
        self.kernel.expect("a reduction has an operation")
    }
}
