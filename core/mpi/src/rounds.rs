//! Collectives of communicators whose members are all on one node: by flags and payloads in shared memory instead of messages (design
//! section 9). Blocking ones of any length; short nonblocking ones by cells of their own (`weft_engine::Stream`), so that neither waits
//! for the other; persistent ones, which may be started in any order, go by messages.
//!
//! Which way a call goes is the same at all members, because it follows from what the standard wants to be the same at all:
//! the communicator, the operation, its bytes, and whether it reduces with a predefined operation on a predefined type.
//! Blocking and nonblocking collectives never match (section 6.12), so they may go different ways.
//!
//! The cells are made late: a communicator's first calls go by messages; then rank 0 takes memory from the node's pool
//! and tells the others in a broadcast where it is, or that there is none, and then the communicator stays with
//! messages. Memory for long payloads is agreed on in the same way when the first call needs it.

use crate::collective::tuning::KEY;
use crate::comm::Comms;
use crate::process::Process;
use crate::request::COLLECTIVE;
use std::sync::Arc;
use weft_coll::Call;
use weft_coll::rounds::{Outcome, Shape};
use weft_datatype::{Kernel, Memory};
use weft_engine::{
    Arguments, Operation, Reduction, RequestId, Rounds, RoundsCall, Stream, needs_slots, strayed,
};
use weft_types::params::Choice;
use weft_types::{Error, Handle, PeerId, Rank, Result};

/// Calls that go by messages before a communicator gets cells: many communicators live for one.
const FIRST_CALLS: u32 = 1;

/// How a communicator's blocking collectives go.
#[derive(Debug, Default)]
pub enum OnNode {
    /// Not decided: calls so far.
    #[default]
    Undecided,
    /// By messages, for good.
    Never,
    /// By rounds.
    Ready(Box<Rounds>),
    /// By rounds, and a call is under way.
    Lent,
}

/// What a communicator knows of its rounds.
#[derive(Debug, Default)]
pub struct Node {
    /// How its calls go.
    pub way: OnNode,
    /// The same for nonblocking ones, once it is decided that blocking ones go by rounds.
    later: Option<Stream>,
    /// Calls that went by messages though they could have gone by rounds.
    calls: u32,
    /// Calls that need long payloads go by messages: there is no memory.
    no_slots: bool,
}

/// What became of a blocking call in [`Process::by_rounds`].
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "it lives on the stack of the call; a box would be memory taken by every call"
)]
pub enum Begun {
    /// It goes by messages; this is its request.
    Messages(RequestId),
    /// It goes by rounds.
    Rounds(UnderWay),
    /// The members must agree on memory first; then the call begins again. `true`: on memory for long payloads.
    Agree(Handle, bool),
}

/// A call under way by rounds.
#[derive(Debug)]
pub struct UnderWay {
    /// The communicator.
    pub comm: Handle,
    rounds: Option<Box<Rounds>>,
    call: RoundsCall,
}

/// What a blocking call tells [`Process::start_collective`] and hears from it.
#[derive(Debug, Default)]
#[allow(clippy::large_enum_variant, reason = "as for its answer")]
pub(crate) enum Asked {
    /// Not a blocking call: by messages.
    #[default]
    No,
    /// By rounds if possible.
    Yes,
    Answered(Begun),
}

impl Process {
    /// Runs `start`, which starts one blocking collective: by rounds where that is possible.
    ///
    /// # Errors
    /// Those of `start`.
    pub fn by_rounds(&mut self, start: impl FnOnce(&mut Process) -> Result<RequestId>) -> Result<Begun> {
        self.asked = Asked::Yes;
        let started = start(self);
        match std::mem::take(&mut self.asked) {
            Asked::Answered(begun) => started.map(|_| begun),
            Asked::Yes | Asked::No => started.map(Begun::Messages),
        }
    }

    /// Takes a call over, when it may go by rounds. Then nothing else is to be started.
    pub(crate) fn take_over(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: &Arguments,
        reduction: Option<&Reduction>,
    ) -> Result<bool> {
        if !matches!(self.asked, Asked::Yes) {
            return Ok(false);
        }
        let Some((shape, bytes, element, in_place)) = shape(call) else { return Ok(false) };
        let Some(kernel) = kernel(reduction) else { return Ok(false) };
        let Some(needs_slots) = self.can_go_by_rounds(comm, shape, bytes, element)? else { return Ok(false) };
        arguments.send.check_distinct(&arguments.recv)?;
        let of = self.comms.get_mut(comm)?;
        let begun = match std::mem::replace(&mut of.node.way, OnNode::Lent) {
            OnNode::Ready(rounds) if !needs_slots || rounds.cells_here().has_slots() => {
                match RoundsCall::new(&rounds, (shape, bytes, element), arguments.clone(), kernel, in_place) {
                    Some(call) => {
                        of.collectives = of.collectives.wrapping_add(1);
                        Begun::Rounds(UnderWay { comm, rounds: Some(rounds), call })
                    }
                    None => unreachable!("what fits was asked before"),
                }
            }
            OnNode::Ready(rounds) => {
                of.node.way = OnNode::Ready(rounds);
                Begun::Agree(comm, true)
            }
            OnNode::Undecided => {
                of.node.way = OnNode::Undecided;
                Begun::Agree(comm, false)
            }
            way @ (OnNode::Never | OnNode::Lent) => {
                of.node.way = way;
                return Ok(false);
            }
        };
        self.asked = Asked::Answered(begun);
        Ok(true)
    }

    /// Starts a nonblocking call by rounds, if it is short and the communicator has cells for such; `None`: it goes by messages.
    ///
    /// # Errors
    /// Overlapping arguments; all request slots are in use.
    pub(crate) fn start_by_rounds(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: &Arguments,
        reduction: Option<&Reduction>,
    ) -> Result<Option<RequestId>> {
        let of = self.comms.get_mut(comm)?;
        let Some(stream) = of.node.later.as_ref().filter(|_| of.lane == 0 && !of.is_reproducible()) else {
            return Ok(None);
        };
        let (Some((shape, bytes, element, in_place)), Some(kernel)) = (shape(call), kernel(reduction)) else {
            return Ok(None);
        };
        if needs_slots(shape, of.size, bytes, element) != Some(false) || of.hints.text(KEY).is_some() {
            return Ok(None);
        }
        arguments.send.check_distinct(&arguments.recv)?;
        let started = self.engine.start_in_stream(stream, |rounds| {
            let what = (shape, bytes, element);
            RoundsCall::new(rounds, what, arguments.clone(), kernel, in_place).map(RoundsCall::unattended)
        })?;
        if let Some(request) = started {
            self.engine.tag_request(request, of.handle.0 | COLLECTIVE);
        }
        Ok(started)
    }

    /// Whether such a call may go by rounds, and then whether it needs long payloads.
    fn can_go_by_rounds(
        &mut self,
        comm: Handle,
        shape: Shape,
        bytes: u64,
        element: u64,
    ) -> Result<Option<bool>> {
        // What is checked or must not depend on the layout goes by schedules.
        let on = self.parameters.node_collectives != Choice::Off
            && !self.parameters.reproducible
            && !self.checks_collectives();
        let rules = Arc::clone(&self.tuning.rules);
        let of = self.comms.get_mut(comm)?;
        // Who says which algorithm to take wants it taken.
        let ruled = rules.concern(of.size) || of.hints.text(KEY).is_some();
        let possible = on
            && !ruled
            && !of.is_reproducible()
            && of.inter.is_none()
            && self.engine.can_join_rounds(of.size);
        if !possible || matches!(of.node.way, OnNode::Never) {
            return Ok(None);
        }
        if matches!(of.node.way, OnNode::Undecided)
            && of.node.calls == 0
            && !self.engine.are_here(of.group.peers())
        {
            of.node.way = OnNode::Never;
            return Ok(None);
        }
        let Some(needs_slots) = needs_slots(shape, of.size, bytes, element) else { return Ok(None) };
        if needs_slots && of.node.no_slots {
            return Ok(None);
        }
        if matches!(of.node.way, OnNode::Undecided) && of.node.calls < FIRST_CALLS {
            of.node.calls += 1;
            return Ok(None);
        }
        Ok(Some(needs_slots))
    }

    /// Begins the agreement on memory: a broadcast by messages, of the two words that [`Process::agreed`] takes. The second one is
    /// that of nonblocking calls.
    ///
    /// # Errors
    /// As [`Process::start_collective`].
    pub fn agree_on_memory(&mut self, comm: Handle, slots: bool) -> Result<(RequestId, Memory)> {
        let of = self.comms.get(comm)?;
        let (rank, size) = (of.rank.0, of.size);
        let word = Memory::packed_scratch(16);
        if rank == 0 {
            let block = self.engine.take_block(size, slots);
            let later = if slots || block == 0 { 0 } else { self.engine.take_block(size, false) };
            word.recv_view(0, 0, 8).unpack(0, &block.to_ne_bytes());
            word.recv_view(0, 8, 8).unpack(0, &later.to_ne_bytes());
        }
        let arguments = Arguments::new(Memory::none(), word.clone());
        let request = self.start_collective(comm, &Call::Bcast { root: 0, bytes: 16 }, arguments, None)?;
        Ok((request, word))
    }

    /// The agreement is there.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn agreed(&mut self, comm: Handle, slots: bool, word: &Memory) -> Result<()> {
        let [block, later] = [0, 8].map(|at| {
            let mut block = [0; 8];
            word.send_view(0, at, 8).pack(0, &mut block);
            u64::from_ne_bytes(block)
        });
        let of = self.comms.get_mut(comm)?;
        match (&mut of.node.way, slots) {
            (_, true) if block == 0 => of.node.no_slots = true,
            (OnNode::Ready(rounds), true) => self.engine.add_slots(block, rounds)?,
            (way, _) if block == 0 => *way = OnNode::Never,
            (way, _) => {
                let peers: Vec<PeerId> = of.group.peers().collect();
                *way = OnNode::Ready(Box::new(self.engine.join_rounds(block, of.rank.0, &peers)?));
                if later != 0 {
                    let rounds = self.engine.join_rounds(later, of.rank.0, &peers)?;
                    of.node.later = Some(self.engine.open_stream(rounds, peers));
                }
            }
        }
        Ok(())
    }

    /// The call is over at this member: the communicator has its rounds back.
    pub fn end_rounds(&mut self, call: &mut UnderWay) {
        if let (Some(rounds), Ok(of)) = (call.rounds.take(), self.comms.get_mut(call.comm)) {
            of.node.way = OnNode::Ready(rounds);
        }
    }

    /// The error of a call that waits for processes of which one is gone: it will never end.
    pub fn loss_in_rounds(&mut self, comm: Handle) -> Option<Error> {
        if !self.engine.knows_losses() {
            return None;
        }
        let of = self.comms.get_mut(comm).ok()?;
        let gone = of.group.peers().find_map(|peer| self.engine.loss_of(peer));
        if gone.is_some() {
            of.node.way = OnNode::Never;
        }
        gone
    }

    /// The error of a call that does not match that of another member.
    pub fn mismatch_in_rounds(&mut self, comm: Handle, other: u32) -> Error {
        if let Ok(of) = self.comms.get_mut(comm) {
            of.node.way = OnNode::Never;
        }
        strayed(other)
    }

    /// The processes that a call waits for.
    pub(crate) fn awaited_in_rounds(&self, comm: Handle, missing: u64) -> Vec<PeerId> {
        let Ok(of) = self.comms.get(comm) else { return Vec::new() };
        (0..of.size).filter(|rank| missing >> rank & 1 == 1).map(|rank| of.group.peer(Rank(rank))).collect()
    }
}

impl UnderWay {
    /// Goes as far as it can without waiting.
    #[inline]
    pub fn step(&mut self) -> Outcome {
        match &mut self.rounds {
            Some(rounds) => self.call.step(rounds),
            None => Outcome::Done,
        }
    }

    /// The members that it waits for, one bit each.
    pub fn missing(&self) -> u64 {
        self.rounds.as_ref().map_or(0, |rounds| self.call.missing(rounds))
    }

    /// Whether one of the members that it waits for was last seen on this processor.
    pub fn shares_processor(&self) -> bool {
        let rounds = self.rounds.as_ref();
        rounds.is_some_and(|rounds| rounds.cells_here().shares_processor(self.call.missing(rounds)))
    }
}

impl Comms {
    /// The cells of a communicator that has them, by the value of the handle as programs hold it.
    #[inline(always)]
    pub fn rounds(&mut self, raw: usize) -> Option<&mut Rounds> {
        match &mut self.at(raw)?.node.way {
            OnNode::Ready(rounds) => Some(rounds),
            _ => None,
        }
    }

    /// Counts a collective that was done by rounds.
    #[inline(always)]
    pub fn count_collective(&mut self, raw: usize) {
        if let Some(of) = self.at(raw) {
            of.collectives = of.collectives.wrapping_add(1);
        }
    }

    /// Gives the cells to a collective, which is counted.
    pub fn lend_rounds(&mut self, raw: usize) -> Option<Box<Rounds>> {
        let of = self.at(raw)?;
        match std::mem::replace(&mut of.node.way, OnNode::Lent) {
            OnNode::Ready(rounds) => {
                of.collectives = of.collectives.wrapping_add(1);
                Some(rounds)
            }
            way => {
                of.node.way = way;
                None
            }
        }
    }

    /// Takes the cells back.
    pub fn return_rounds(&mut self, raw: usize, rounds: Box<Rounds>) {
        if let Some(of) = self.at(raw) {
            of.node.way = OnNode::Ready(rounds);
        }
    }
}

/// What combines, if anything has to; `None` for what does not go by rounds.
fn kernel(reduction: Option<&Reduction>) -> Option<Option<Kernel>> {
    match reduction {
        None => Some(None),
        Some(Reduction { datatype, operation: Operation::Predefined(kernel), .. })
            if datatype.is_contiguous() =>
        {
            Some(Some(*kernel))
        }
        Some(_) => None,
    }
}

/// Shape, bytes of a block, bytes that stay together, in place; `None` for what does not go by rounds.
fn shape(call: &Call<'_>) -> Option<(Shape, u64, u64, bool)> {
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
        Call::Allreduce { vector, in_place } => (Shape::Allreduce, vector.bytes(), vector.element, in_place),
        Call::ReduceScatter { counts: &[first, ref rest @ ..], vector, in_place } => {
            if rest.iter().any(|&count| count != first) {
                return None;
            }
            (Shape::ReduceScatter, first * vector.element, vector.element, in_place)
        }
        _ => return None,
    })
}
