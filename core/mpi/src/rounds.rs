//! Collectives inside a node, of communicators whose members are all on one (of others see [`levels`]): by flags and payloads in shared memory instead of messages
//! (design section 9). Blocking ones of any length, but for broadcasts to one other that are over sooner by a message; short
//! nonblocking ones by cells of their own (`weft_engine::Stream`), so that neither waits for the other; short persistent ones and persistent reductions to all, which may be started in any order,
//! by cells that each has for itself ([`kept`]).
//!
//! Which way a call goes is the same at all members, because it follows from what the standard wants to be the same at all:
//! the communicator, the operation, its bytes, and whether it reduces with a predefined operation on a predefined type.
//! Blocking and nonblocking collectives never match (section 6.12), so they may go different ways. Rules, which all members have alike, can say
//! otherwise (`weft_coll::rules`): a communicator with some asks them in each call.
//!
//! The cells are made late: a communicator's first calls go by messages; then rank 0 takes memory from the node's pool, and all
//! agree by messages on where it is, or that one of them has none, and then the communicator stays with messages. Memory for
//! long payloads is agreed on in the same way when the first call needs it. Whatever goes wrong in an agreement is not the
//! call's error: the call goes by messages then, at all members, and finds out for itself. So that nobody is left with cells
//! that another did not hear of, none is used before all have joined.
//!
//! A lost member, or calls that do not match, end the cells at all members before the same call (`weft_shm::rounds::leaving`);
//! this one and all after it go by messages. For that the calls of a communicator are numbered, whichever way they go. Broadcasts of
//! lengths that differ so much that one member goes by messages are not noticed by the cells (`WEFT_CHECK=collectives` names them).

mod agreement;
mod kept;
mod levels;
#[cfg(test)]
mod tests;

pub(crate) use agreement::least;
pub(crate) use kept::KeptCall;
pub use levels::{ByLevels, Levels, Making, Next};

use crate::collective::tuning::KEY;
use crate::comm::{Comm, Comms};
use crate::process::Process;
use crate::request::COLLECTIVE;
use std::sync::Arc;
use weft_coll::rounds::{NodeCall, Outcome, Room, Shape, Told, is_sooner_by_messages};
use weft_coll::{Call, Model, Rules, decide_on_node};
use weft_datatype::{Kernel, Memory};
use weft_engine::{
    Arguments, Begin, BlockingRoundsCall, Cells, Operation, Reduction, RequestId, Rounds, RoundsCall, Stream,
    needs_slots, needs_slots_as_told, needs_slots_later, wanted_room,
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
    /// By rounds once all members have joined.
    Joining(Box<Rounds>),
    /// By rounds.
    Ready(Box<Rounds>),
    /// By rounds, as far as rules do not say otherwise. What is done without looking at rules finds none here.
    Ruled(Box<Rounds>),
    /// By rounds, and the next call agrees on memory for long payloads of nonblocking ones, which had to do without.
    Wants(Box<Rounds>),
    /// By rounds, or by levels, and a call is under way.
    Lent,
    /// Not decided, of members on several nodes: short ones by levels, if all can.
    Apart,
    /// Of members on several nodes: short ones by levels.
    Levels(Box<Levels>),
}

/// How calls go that need memory which this member does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Without {
    /// Their members agree on some first.
    #[default]
    Agree,
    /// By messages at all members: they have agreed that there is none.
    Messages,
    /// This member alone has none, and has left: the others may have begun them in the cells, where they fail.
    Fail,
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
    /// The rules that may say something of its calls, the nearest first.
    rules: Option<Arc<Rules>>,
    /// What calls that need long payloads do without memory for them.
    slots: Without,
    /// The same of nonblocking ones.
    later_slots: Without,
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
    /// The members must agree on memory first; then the call begins again.
    Agree(Handle, Needed),
    /// It goes by levels.
    Levels(ByLevels),
    /// The members of each node must agree on memory first; then the call begins again.
    AgreeOnLevels(Handle),
    /// The members look first whether they have a group at the fabric's device; then the call begins again.
    Join(Handle),
}

/// Memory on which the members of a communicator agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// Cells of blocking calls, and of nonblocking ones.
    Cells,
    /// Room for long payloads of blocking calls.
    Slots,
    /// Room for long payloads of nonblocking calls.
    LaterSlots,
    /// Cells of that persistent collective, and room for its long payloads.
    Kept(Handle),
}

/// An agreement on memory under way.
#[derive(Debug)]
pub struct Agreement {
    /// The communicator.
    pub comm: Handle,
    needed: Needed,
    /// The request that ends with it.
    pub request: RequestId,
    heard: Memory,
    /// The blocks that this member took for it.
    taken: [u64; 2],
}

/// A call under way by rounds.
#[derive(Debug)]
pub struct UnderWay {
    /// The communicator.
    pub comm: Handle,
    rounds: Box<Rounds>,
    call: BlockingRoundsCall,
}

/// What a blocking call tells [`Process::start_collective`] and hears from it.
#[derive(Debug, Default)]
#[allow(clippy::large_enum_variant, reason = "as for its answer")]
pub(crate) enum Asked {
    /// Not a blocking call.
    #[default]
    No,
    /// By messages, come what may.
    Messages,
    /// By rounds if possible.
    Yes,
    Answered(Begun),
}

impl Node {
    /// How calls go now that there are cells.
    fn ready(&self, rounds: Box<Rounds>) -> OnNode {
        if self.rules.is_some() { OnNode::Ruled(rounds) } else { OnNode::Ready(rounds) }
    }
}

/// A call that may go by rounds.
#[derive(Clone, Copy, Debug)]
struct Going {
    /// Whether it needs long payloads.
    needs_slots: bool,
    /// What rules say of it.
    told: Told,
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
            Asked::Yes | Asked::No | Asked::Messages => started.map(Begun::Messages),
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
        let Some((shape, bytes, element, in_place)) = Shape::of(call) else { return Ok(false) };
        let Some(kernel) = kernel(reduction) else { return Ok(false) };
        let Some(Going { needs_slots, told }) = self.can_go_by_rounds(comm, call)? else {
            return self.take_over_by_levels(comm, call, arguments, reduction);
        };
        let of = self.comms.get_mut(comm)?;
        let mut rounds = match std::mem::replace(&mut of.node.way, OnNode::Lent) {
            OnNode::Ready(rounds) | OnNode::Ruled(rounds) => rounds,
            // The nonblocking calls may have gone over to messages since.
            OnNode::Wants(rounds) if of.node.later.is_none() => rounds,
            OnNode::Wants(rounds) => {
                of.node.way = of.node.ready(rounds);
                self.asked = Asked::Answered(Begun::Agree(comm, Needed::LaterSlots));
                return Ok(true);
            }
            OnNode::Undecided => {
                of.node.way = OnNode::Undecided;
                self.asked = Asked::Answered(Begun::Agree(comm, Needed::Cells));
                return Ok(true);
            }
            way @ (OnNode::Never | OnNode::Joining(_) | OnNode::Lent | OnNode::Apart | OnNode::Levels(_)) => {
                of.node.way = way;
                return Ok(false);
            }
        };
        let begun = rounds.begin(of.collectives.get());
        if let Ok(Begin::Over) = begun {
            of.node.way = OnNode::Never;
            return Ok(false);
        }
        // Also a member that has left takes part in this: the others may not know yet.
        if needs_slots && !rounds.cells_here().has_slots() {
            match of.node.slots {
                Without::Agree => {
                    of.node.way = of.node.ready(rounds);
                    self.asked = Asked::Answered(Begun::Agree(comm, Needed::Slots));
                    return Ok(true);
                }
                // Whether it has left or not: so do the others.
                Without::Messages => {
                    of.node.way = of.node.ready(rounds);
                    return Ok(false);
                }
                Without::Fail => {}
            }
        }
        if let Err(error) = begun {
            of.node.way = of.node.ready(rounds);
            of.collectives.advance();
            return Err(error);
        }
        of.collectives.advance();
        let call = BlockingRoundsCall::as_told(
            &mut rounds,
            (shape, bytes, element),
            arguments.clone(),
            kernel,
            in_place,
            told,
        )
        .expect("what fits was asked before");
        self.asked = Asked::Answered(Begun::Rounds(UnderWay { comm, rounds, call }));
        Ok(true)
    }

    /// Starts a nonblocking call by rounds, if it is short and the communicator has cells for such; `None`: it goes by messages.
    ///
    /// # Errors
    /// All request slots are in use.
    pub(crate) fn start_by_rounds(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: &Arguments,
        reduction: Option<&Reduction>,
    ) -> Result<Option<RequestId>> {
        let model = self.model_of_rules(comm)?;
        let of = self.comms.get_mut(comm)?;
        let Some(stream) = of.node.later.as_ref().filter(|_| of.lane == 0 && !of.is_reproducible()) else {
            return Ok(None);
        };
        let (Some((shape, bytes, element, in_place)), Some(kernel)) = (Shape::of(call), kernel(reduction))
        else {
            return Ok(None);
        };
        // What rings have become of the wanted ones all members see that have them.
        let fails = of.node.later_slots == Without::Fail;
        let mut room = self.engine.rounds_of(stream).room_later(fails);
        if let Some(rules) = &of.node.rules {
            let place = weft_coll::Group { rank: of.rank.0, size: of.size };
            let Some(told) = told(rules, call, place, false, room, &model) else { return Ok(None) };
            room.told = told;
        }
        let Some(long) = needs_slots_later((shape, bytes, element), of.size, room) else { return Ok(None) };
        if long && !fails && !self.engine.rounds_of(stream).cells_here().has_slots() {
            // A start is local: the members agree in the next call that is not.
            if of.node.later_slots == Without::Agree {
                of.node.way = match std::mem::take(&mut of.node.way) {
                    OnNode::Ready(rounds) | OnNode::Ruled(rounds) => OnNode::Wants(rounds),
                    way => way,
                };
            }
            return Ok(None);
        }
        let started = self.engine.start_in_stream(stream, of.collectives.get(), |rounds| {
            let what = (shape, bytes, element);
            RoundsCall::unattended_as_told(rounds, what, arguments.clone(), kernel, in_place, room.told)
        })?;
        match started {
            Some(request) => {
                of.collectives.advance();
                self.engine.tag_request(request, of.handle.0 | COLLECTIVE);
            }
            // The stream has ended.
            None => of.node.later = None,
        }
        Ok(started)
    }

    /// Whether calls of a communicator may go by cells at all. The same at all members.
    fn may_have_cells(&mut self, comm: Handle) -> Result<bool> {
        // What is checked or must not depend on the layout goes by schedules.
        let on = self.parameters.node_collectives != Choice::Off
            && !self.parameters.reproducible
            && !self.checks_collectives();
        let rules = Arc::clone(&self.tuning.rules);
        let of = self.comms.get_mut(comm)?;
        let possible = on && !of.is_reproducible() && of.inter.is_none();
        if !possible || matches!(of.node.way, OnNode::Never | OnNode::Apart | OnNode::Levels(_)) {
            return Ok(false);
        }
        if matches!(of.node.way, OnNode::Undecided) && of.node.calls == 0 {
            let here = self.engine.are_here(of.group.peers());
            if !here || !self.engine.can_join_rounds(of.size) {
                let apart = !here && self.shares_nodes(comm)?;
                self.comms.get_mut(comm)?.node.way = if apart { OnNode::Apart } else { OnNode::Never };
                return Ok(false);
            }
            let of = self.comms.get_mut(comm)?;
            if of.node.rules.is_none() && (rules.concern(of.size) || of.hints.text(KEY).is_some()) {
                of.node.rules = Some(Arc::new(of.rules()?.then(&rules)));
            }
        }
        Ok(true)
    }

    /// The model by which rules look at calls of a communicator whose members are all here; without rules nobody asks it anything.
    fn model_of_rules(&self, comm: Handle) -> Result<Model> {
        Ok(if self.comms.get(comm)?.node.rules.is_some() { self.model() } else { Model::default() })
    }

    /// Whether such a call may go by rounds.
    fn can_go_by_rounds(&mut self, comm: Handle, call: &Call<'_>) -> Result<Option<Going>> {
        if !self.may_have_cells(comm)? {
            return Ok(None);
        }
        let Some((shape, bytes, element, _)) = Shape::of(call) else { return Ok(None) };
        let of = self.comms.get(comm)?;
        let what = (shape, bytes, element);
        let going = match &of.node.rules {
            None if is_sooner_by_messages(shape, of.size, bytes) => None,
            None => needs_slots(shape, of.size, bytes, element)
                .map(|needs_slots| Going { needs_slots, told: Told::default() }),
            Some(rules) => self.can_go_as_told(of, call, what, rules),
        };
        let of = self.comms.get_mut(comm)?;
        if going.is_some() && matches!(of.node.way, OnNode::Undecided) && of.node.calls < FIRST_CALLS {
            of.node.calls += 1;
            return Ok(None);
        }
        Ok(going)
    }

    /// The same where there are rules. A way that needs memory for long payloads can be judged when there is some.
    #[cold]
    fn can_go_as_told(
        &self,
        of: &Comm,
        call: &Call<'_>,
        what: (Shape, u64, u64),
        rules: &Rules,
    ) -> Option<Going> {
        let place = weft_coll::Group { rank: of.rank.0, size: of.size };
        let model = self.model();
        let (room, has_slots) = match &of.node.way {
            OnNode::Ready(rounds) | OnNode::Ruled(rounds) | OnNode::Wants(rounds) => {
                (rounds.room(), rounds.cells_here().has_slots())
            }
            _ => (wanted_room(of.size), false),
        };
        let wants = rules.want_slots(call, place, &model);
        if wants && !has_slots && of.node.slots == Without::Agree {
            return Some(Going { needs_slots: true, told: Told::default() });
        }
        let told = told(rules, call, place, true, room, &model)?;
        let needs_slots = needs_slots_as_told(what, of.size, told)?;
        Some(Going { needs_slots, told })
    }

    /// The call is over at this member: the communicator has its rounds back.
    pub fn end_rounds(&mut self, call: UnderWay) {
        if let Ok(of) = self.comms.get_mut(call.comm) {
            of.node.way = of.node.ready(call.rounds);
        }
    }

    /// The error of a call in the cells of a communicator that has lost a process, or that waits for one that has left the
    /// cells: nobody knows whether it would ever end. This member has left them then.
    #[cold]
    pub fn hopeless_in_rounds(&mut self, comm: Handle, steps: &mut impl Steps) -> Option<Error> {
        if self.engine.knows_losses() {
            let of = self.comms.get(comm).ok()?;
            // Whether it is waited for or not: those that are may have failed over this loss and gone on.
            if let Some(lost) = self.engine.lost_among(of.group.peers()) {
                return Some(steps.rounds().leave_for_loss(lost));
            }
        }
        // Somebody who lost a process that this communicator has nothing to do with may have ended MPI over it.
        let of = self.comms.get(comm).ok()?;
        if let Some(left) =
            self.engine.left_among(of.context, || steps.missing(), |member| of.group.peer(steps.rank(member)))
        {
            return Some(steps.rounds().leave_for_leaver(left));
        }
        let gone = steps.rounds().cells_here().gone();
        // What is missing after this will not come.
        (gone != 0 && gone & steps.missing() != 0).then(|| steps.rounds().leave_too())
    }

    /// The processes that a call waits for.
    pub(crate) fn awaited_in_rounds(&self, comm: Handle, missing: u64) -> Vec<PeerId> {
        let Ok(of) = self.comms.get(comm) else { return Vec::new() };
        let awaited = (0..u64::BITS).filter(|member| missing >> member & 1 == 1);
        awaited.map(|member| of.in_cells(member)).collect()
    }
}

impl Comm {
    /// The process of a member of the cells, which are those of its node. For those who are told of a call that takes long:
    /// nothing is kept for it.
    #[cold]
    fn in_cells(&self, member: u32) -> PeerId {
        let layout = self.layout.get().filter(|layout| !layout.levels.is_empty());
        let stage = layout.map(|layout| layout.stages(self.rank.0, self.size, 0).swap_remove(0));
        self.group.peer(Rank(stage.map_or(member, |stage| stage.members.rank(member))))
    }
}

/// A collective under way by rounds.
pub trait Steps {
    /// Goes as far as it can without waiting.
    fn step(&mut self) -> Outcome;
    /// The members that have to go on first, one bit each.
    fn missing(&self) -> u64;
    /// Its cells.
    fn rounds(&mut self) -> &mut Rounds;
    /// The rank in its communicator of a member of the cells.
    fn rank(&self, member: u32) -> Rank {
        Rank(member)
    }
    /// Whether to let in another member that runs on this processor: one that it waits for, or (`behind_too`: each such question reads
    /// a line of every member, which they write to) one that is behind and has something to read.
    fn makes_way(&self, behind_too: bool) -> bool;
}

impl Steps for UnderWay {
    #[inline]
    fn step(&mut self) -> Outcome {
        self.call.step(&mut self.rounds)
    }

    fn missing(&self) -> u64 {
        self.call.missing(&self.rounds)
    }

    fn rounds(&mut self) -> &mut Rounds {
        &mut self.rounds
    }

    fn makes_way(&self, behind_too: bool) -> bool {
        self.rounds.cells_here().makes_way(self.missing(), behind_too)
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

    /// The same, and the number of its next collective.
    #[inline(always)]
    pub fn numbered_rounds(&mut self, raw: usize) -> Option<(&mut Cells, u32)> {
        let of = self.at(raw)?;
        match &mut of.node.way {
            OnNode::Ready(rounds) => Some((rounds.cells(), of.collectives.get())),
            _ => None,
        }
    }

    /// Counts a collective that was done by rounds.
    #[inline(always)]
    pub fn count_collective(&mut self, raw: usize) {
        if let Some(of) = self.at(raw) {
            of.collectives.advance();
        }
    }

    /// Gives the cells to a collective, which is counted.
    pub fn lend_rounds(&mut self, raw: usize) -> Option<Box<Rounds>> {
        let of = self.at(raw)?;
        match std::mem::replace(&mut of.node.way, OnNode::Lent) {
            OnNode::Ready(rounds) => {
                of.collectives.advance();
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

/// What rules say of a call that could go by rounds; `None`: it goes by messages. `blocking`: whether it is a blocking one.
fn told(
    rules: &Rules,
    call: &Call<'_>,
    place: weft_coll::Group,
    blocking: bool,
    room: Room,
    model: &Model,
) -> Option<Told> {
    let on_node = NodeCall::of(call, place.size, blocking, room)?;
    decide_on_node(call, place, model, on_node, &[rules]).cells.map(|call| call.room.told)
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
