//! Collectives of communicators over several nodes: by cells inside the nodes, by messages among those who stand for them (the
//! leaders: the lowest rank of each node, or the root on its own).
//!
//! A call goes in up to three parts: *up*, to the leader of each node; *among* the leaders, by a schedule of theirs on the
//! communicator's collective channel; *down*, to the members of each node. A barrier and a reduction to all have all three, a
//! broadcast begins at the leaders, and a reduction to a root ends there. Every element is combined in the order of ranks inside a node, at its
//! leader alone, and what the leaders make of that comes to all: the results are the same everywhere, bit for bit. Only
//! operations that commute go this way, because nodes and ranks need not be in the same order.
//!
//! Which calls do follows from what is the same at all members: layout, operation, bytes. Whether there are cells at all they
//! agree on together ([`making`]). From then on every such call has its parts, whatever becomes of the cells of a node: once their members
//! have left them (`weft_shm::rounds::leaving`) these do the parts inside by messages. So what happens inside a node is
//! nobody else's matter, and what goes from node to node stays the same.
//!
//! A part that fails at a member fails the rest of its call there. What it owes to others in the parts that follow is paid as by
//! every schedule that fails (`weft_engine`, `schedule::failure`), by messages of a wrong length; in the cells it leaves,
//! which those see that wait there. Calls of which one is too long for this way and the other is not wait for each other
//! (`WEFT_CHECK=collectives` names them).

mod making;
#[cfg(test)]
mod tests;

pub use making::Making;

use super::{Asked, Begun, OnNode, Steps, kernel};
use crate::collective::{Plans, Work};
use crate::process::Process;
use crate::request::COLLECTIVE;
use std::sync::Arc;
use weft_coll::rounds::{Outcome, Shape};
use weft_coll::{Call, Layout, Model, Stage, Vector, plan_among};
use weft_datatype::{Datatype, Kernel, Memory, memory};
use weft_engine::{Arguments, Begin, BlockingRoundsCall, IN_CELL, Reduction, RequestId, Rounds, ScheduleRun};
use weft_types::{Error, Handle, Rank, Result};

/// Roots whose leaders a communicator keeps.
const ROOTS: usize = 4;

/// What a communicator over several nodes knows of them.
#[derive(Debug)]
pub struct Levels {
    layout: Layout,
    inside: Inside,
    /// Of calls with recent roots.
    seats: Vec<Arc<Seats>>,
    oldest: usize,
    /// Schedules of the parts, by their calls: up, among the leaders, down.
    plans: [Plans; 3],
    /// Where this process, as leader, puts what its node contributes: type, elements.
    partial: Option<(Datatype, u64, Memory)>,
}

/// How the members of this node do their parts.
#[derive(Debug)]
enum Inside {
    /// There is one.
    Alone,
    Cells(Box<Rounds>),
    /// They have left their cells.
    Messages,
}

/// Where this process is in the calls with one root (0 where there is none).
#[derive(Debug)]
struct Seats {
    root: u32,
    /// The members of its node.
    node: Stage,
    /// The leaders, if it is one.
    leaders: Option<Stage>,
}

impl Seats {
    fn new(layout: &Layout, (rank, size): (Rank, u32), root: u32) -> Seats {
        let mut stages = layout.stages(rank.0, size, root).into_iter();
        let node = stages.next().expect("everybody is on a node");
        Seats { root, node, leaders: stages.next() }
    }
}

impl Levels {
    fn seats(&mut self, of: (Rank, u32), root: u32) -> Arc<Seats> {
        if let Some(seats) = self.seats.iter().find(|seats| seats.root == root) {
            return Arc::clone(seats);
        }
        let seats = Arc::new(Seats::new(&self.layout, of, root));
        if self.seats.len() < ROOTS {
            self.seats.push(Arc::clone(&seats));
        } else {
            self.seats[self.oldest] = Arc::clone(&seats);
            self.oldest = (self.oldest + 1) % ROOTS;
        }
        seats
    }

    /// Room for what this node contributes.
    fn partial(&mut self, reduction: &Reduction, elements: u64) -> Result<Memory> {
        let datatype = &reduction.datatype;
        if let Some((of, number, memory)) = &self.partial
            && of == datatype
            && *number == elements
        {
            return Ok(memory.clone());
        }
        let memory = Memory::scratch(datatype, elements)?;
        if datatype.is_predefined() {
            self.partial = Some((datatype.clone(), elements, memory.clone()));
        }
        Ok(memory)
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Barrier,
    Bcast { bytes: u64 },
    Reduce { vector: Vector },
    Allreduce { vector: Vector },
}

impl Operation {
    /// What a call does, its root (0 where there is none), and whether it is in place; `None` for what does not go by levels.
    fn of(call: &Call<'_>) -> Option<(Operation, u32, bool)> {
        let of = match *call {
            Call::Barrier => (Operation::Barrier, 0, false),
            Call::Bcast { root, bytes } => (Operation::Bcast { bytes }, root, false),
            Call::Reduce { root, vector, in_place } => (Operation::Reduce { vector }, root, in_place),
            Call::Allreduce { vector, in_place } => (Operation::Allreduce { vector }, 0, in_place),
            _ => return None,
        };
        let fits = match of.0 {
            Operation::Barrier => true,
            Operation::Bcast { bytes } => bytes <= IN_CELL as u64,
            Operation::Reduce { vector } | Operation::Allreduce { vector } => {
                vector.commutative && vector.bytes() <= IN_CELL as u64
            }
        };
        fits.then_some(of)
    }
}

/// The parts of a call, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Up,
    Among,
    Down,
    Over,
}

/// A call under way by levels.
#[derive(Debug)]
pub struct ByLevels {
    /// The communicator.
    pub comm: Handle,
    levels: Box<Levels>,
    seats: Arc<Seats>,
    operation: Operation,
    /// What this process contributes, where it is not there already, and the result or what is made of it: the receive
    /// argument, or room of the library at a leader that is not the root.
    arguments: Arguments,
    in_place: bool,
    reduction: Option<Reduction>,
    kernel: Option<Kernel>,
    number: u32,
    /// The next part.
    phase: Phase,
    in_cells: Option<BlockingRoundsCall>,
    failed: Option<Error>,
}

/// What comes next of a call by levels.
#[derive(Debug)]
pub enum Next {
    /// A part by cells: the call's [`Steps`].
    Cells,
    /// A part by messages.
    Messages(RequestId),
    /// It is over.
    Over,
}

impl Process {
    /// Takes a call over that goes by levels, as [`Process::take_over`].
    ///
    /// # Errors
    /// No memory.
    pub(super) fn take_over_by_levels(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: &Arguments,
        reduction: Option<&Reduction>,
    ) -> Result<bool> {
        if !self.may_have_levels(comm)? {
            return Ok(false);
        }
        let of = self.comms.get_mut(comm)?;
        if matches!(of.node.way, OnNode::Apart) {
            // Calls of all kinds count, and any is the one before which the members agree: so they do in the same one even when
            // their calls do not match, and number the next ones alike.
            let many = of.node.calls >= super::FIRST_CALLS;
            of.node.calls += 1;
            if many {
                self.asked = Asked::Answered(Begun::AgreeOnLevels(comm));
            }
            return Ok(many);
        }
        let (Some((operation, root, in_place)), Some(kernel)) = (Operation::of(call), kernel(reduction))
        else {
            return Ok(false);
        };
        let mut levels = match std::mem::replace(&mut of.node.way, OnNode::Lent) {
            OnNode::Levels(levels) => levels,
            way => {
                of.node.way = way;
                return Ok(false);
            }
        };
        let seats = levels.seats((of.rank, of.size), root);
        let arguments = match operation {
            // Room for what comes to a leader that is not the root; alone on its node it has that already.
            Operation::Reduce { vector }
                if of.rank.0 != root && seats.leaders.is_some() && seats.node.members.len() > 1 =>
            {
                match levels.partial(reduction.expect("a reduction has an operation"), vector.count) {
                    Ok(partial) => Arguments::new(arguments.send.clone(), partial),
                    Err(error) => {
                        of.node.way = OnNode::Levels(levels);
                        return Err(error);
                    }
                }
            }
            _ => arguments.clone(),
        };
        let number = of.collectives.get();
        let begun = match &mut levels.inside {
            Inside::Cells(rounds) => rounds.begin(number),
            Inside::Alone | Inside::Messages => Ok(Begin::Cells),
        };
        if let Ok(Begin::Over) = begun {
            levels.inside = Inside::Messages;
        }
        of.collectives.advance();
        self.asked = Asked::Answered(Begun::Levels(ByLevels {
            comm,
            levels,
            seats,
            operation,
            arguments,
            in_place,
            reduction: reduction.cloned(),
            kernel,
            number,
            phase: Phase::Up,
            in_cells: None,
            failed: begun.err(),
        }));
        Ok(true)
    }

    /// Begins the next part of a call, after the last one has ended so.
    pub fn next_by_levels(&mut self, call: &mut ByLevels, ended: Result<()>) -> Next {
        call.in_cells = None;
        if let Err(error) = ended {
            self.fail_by_levels(call, error);
        }
        loop {
            let phase = call.phase;
            let (todo, next) = match phase {
                Phase::Up => (call.up(), Phase::Among),
                Phase::Among => (call.among(), Phase::Down),
                Phase::Down => (call.down(), Phase::Over),
                Phase::Over => return Next::Over,
            };
            call.phase = next;
            let begun = match todo {
                Todo::Nothing => continue,
                Todo::Cells(shape, bytes, arguments, in_place) => {
                    call.begin_in_cells(shape, bytes, arguments, in_place)
                }
                Todo::Messages(what, arguments) => {
                    self.begin_by_messages(call, phase, &what, arguments).map(Next::Messages)
                }
            };
            match begun {
                Ok(next) => return next,
                Err(error) => self.fail_by_levels(call, error),
            }
        }
    }

    /// The call is over at this member: the communicator has its levels back.
    ///
    /// # Errors
    /// What went wrong first.
    pub fn end_by_levels(&mut self, call: ByLevels) -> Result<()> {
        if let Ok(of) = self.comms.get_mut(call.comm) {
            of.node.way = OnNode::Levels(call.levels);
        }
        call.failed.map_or(Ok(()), Err)
    }

    /// The call has failed here: its node's other members hear of it.
    #[cold]
    fn fail_by_levels(&mut self, call: &mut ByLevels, error: Error) {
        if let Inside::Cells(rounds) = &mut call.levels.inside {
            let lost = self.comms.get(call.comm).ok().and_then(|of| self.engine.lost_among(of.group.peers()));
            // In the cells no more, whether it has left them before or not.
            let _: Error = match lost {
                Some(lost) => rounds.leave_for_loss(lost),
                None => rounds.leave_for_failure(&error),
            };
        }
        call.failed.get_or_insert(error);
    }

    /// Starts a part by messages; where the call has failed before, for the others' sake.
    fn begin_by_messages(
        &mut self,
        call: &mut ByLevels,
        phase: Phase,
        what: &Call<'static>,
        arguments: Arguments,
    ) -> Result<RequestId> {
        let (seats, Levels { layout, plans, .. }) = (&call.seats, &mut *call.levels);
        // As it is kept a call names its root by rank: which members take part depends on it.
        let kept = match *what {
            Call::Bcast { bytes, .. } => Call::Bcast { root: seats.root, bytes },
            Call::Reduce { vector, in_place, .. } => Call::Reduce { root: seats.root, vector, in_place },
            _ => *what,
        };
        let (stage, between) = match &seats.leaders {
            Some(leaders) if phase == Phase::Among => (leaders, true),
            _ => (&seats.node, false),
        };
        let make = || Ok::<_, Error>(plan_among(what, stage, &self.model_of(layout, between)));
        let schedule = plans[phase as usize].get(&Work::Collective(&kept), make)?;
        let of = self.comms.get(call.comm)?;
        let channel = of.channel(of.everyone(), call.number, false);
        let run = ScheduleRun::new(schedule, arguments, call.reduction.clone(), channel)?;
        let (owner, lane) = (of.handle.0 | COLLECTIVE, of.lane);
        match call.failed.clone() {
            None => self.start_run(run, owner, lane),
            Some(why) => self.on_lane(lane, |engine| {
                let request = engine.start_failed_schedule(run, why)?;
                engine.tag_request(request, owner);
                Ok(request.in_lane(lane))
            }),
        }
    }

    /// What the schedules among leaders (`between` nodes), or inside a node, assume of the machine.
    fn model_of(&self, layout: &Layout, between: bool) -> Model {
        let model = self.tuning.figures.apply(Model { layout: layout.clone(), ..self.model() });
        let outer = model.layout.levels.first().filter(|_| between);
        Model { inside: outer.map_or(model.inside, |level| level.link), layout: Layout::default(), ..model }
    }
}

/// What a member has to do in a part.
#[allow(clippy::large_enum_variant, reason = "it lives for a moment, on the stack")]
enum Todo {
    Nothing,
    /// Shape, bytes, arguments, in place.
    Cells(Shape, u64, Arguments, bool),
    Messages(Call<'static>, Arguments),
}

impl ByLevels {
    fn leads(&self) -> bool {
        self.seats.leaders.is_some()
    }

    /// A part inside the node: by cells as a shape of so many bytes, or by messages as a call.
    fn inside(
        &self,
        shape: Shape,
        bytes: u64,
        what: Call<'static>,
        arguments: Arguments,
        in_place: bool,
    ) -> Todo {
        match &self.levels.inside {
            Inside::Alone => Todo::Nothing,
            // Who has failed has left them.
            Inside::Cells(_) if self.failed.is_some() => Todo::Nothing,
            Inside::Cells(_) => Todo::Cells(shape, bytes, arguments, in_place),
            Inside::Messages => Todo::Messages(what, arguments),
        }
    }

    fn up(&self) -> Todo {
        let root = self.seats.node.top;
        match self.operation {
            Operation::Barrier => self.inside(Shape::Gather { root }, 0, Call::Barrier, nothing(), false),
            Operation::Bcast { .. } => Todo::Nothing,
            Operation::Reduce { vector } | Operation::Allreduce { vector } => {
                // Not at the leader a result is no argument of this part, and what is in place is what is given.
                let in_place = self.in_place && self.leads();
                let arguments = match (self.leads(), self.in_place) {
                    (true, _) => self.arguments.clone(),
                    (false, false) => Arguments::new(self.arguments.send.clone(), Memory::none()),
                    (false, true) => Arguments::new(self.arguments.recv.clone(), Memory::none()),
                };
                let what = Call::Reduce { root, vector, in_place };
                self.inside(Shape::Reduce { root }, vector.bytes(), what, arguments, in_place)
            }
        }
    }

    fn among(&self) -> Todo {
        let Some(Stage { place, top: root, .. }) = &self.seats.leaders else { return Todo::Nothing };
        let (root, is_root) = (*root, place == root);
        let Arguments { send, recv, .. } = &self.arguments;
        let alone = matches!(self.levels.inside, Inside::Alone);
        let (what, arguments) = match self.operation {
            Operation::Barrier => (Call::Barrier, nothing()),
            Operation::Bcast { bytes } => (Call::Bcast { root, bytes }, self.arguments.clone()),
            Operation::Reduce { vector } => {
                let in_place = is_root && (!alone || self.in_place);
                let arguments = match (is_root, alone) {
                    (true, true) => self.arguments.clone(),
                    (true, false) => Arguments::new(Memory::none(), recv.clone()),
                    (false, true) => Arguments::new(send.clone(), Memory::none()),
                    // What its node contributes.
                    (false, false) => Arguments::new(recv.clone(), Memory::none()),
                };
                (Call::Reduce { root, vector, in_place }, arguments)
            }
            Operation::Allreduce { vector } => {
                if alone && !self.in_place {
                    let bytes = vector.bytes();
                    memory::copy(&send.send_view(0, 0, bytes), &mut recv.recv_view(0, 0, bytes));
                }
                let what = Call::Allreduce { vector, in_place: true };
                (what, Arguments::new(Memory::none(), recv.clone()))
            }
        };
        Todo::Messages(what, arguments)
    }

    fn down(&self) -> Todo {
        let root = self.seats.node.top;
        let bytes = match self.operation {
            // A broadcast of nothing has no messages to wait for.
            Operation::Barrier => {
                return self.inside(Shape::Bcast { root }, 0, Call::Barrier, nothing(), false);
            }
            Operation::Reduce { .. } => return Todo::Nothing,
            Operation::Bcast { bytes } => bytes,
            Operation::Allreduce { vector } => vector.bytes(),
        };
        let arguments = Arguments::new(Memory::none(), self.arguments.recv.clone());
        self.inside(Shape::Bcast { root }, bytes, Call::Bcast { root, bytes }, arguments, false)
    }

    /// Begins a part in the cells.
    fn begin_in_cells(
        &mut self,
        shape: Shape,
        bytes: u64,
        arguments: Arguments,
        in_place: bool,
    ) -> Result<Next> {
        let kernel = if matches!(shape, Shape::Reduce { .. }) { self.kernel } else { None };
        let element = match self.operation {
            Operation::Reduce { vector } | Operation::Allreduce { vector } => vector.element,
            Operation::Barrier | Operation::Bcast { .. } => 1,
        };
        let Inside::Cells(rounds) = &mut self.levels.inside else { unreachable!("there are cells") };
        let call = BlockingRoundsCall::new(rounds, (shape, bytes, element), arguments, kernel, in_place);
        self.in_cells = Some(call.expect("what fits a cell fits a piece"));
        Ok(Next::Cells)
    }

    fn cells(&mut self) -> (&mut BlockingRoundsCall, &mut Rounds) {
        match (&mut self.in_cells, &mut self.levels.inside) {
            (Some(call), Inside::Cells(rounds)) => (call, rounds),
            _ => unreachable!("a part is under way in the cells"),
        }
    }

    fn cells_here(&self) -> (&BlockingRoundsCall, &Rounds) {
        match (&self.in_cells, &self.levels.inside) {
            (Some(call), Inside::Cells(rounds)) => (call, rounds),
            _ => unreachable!("a part is under way in the cells"),
        }
    }
}

/// The arguments of a call that has none.
fn nothing() -> Arguments {
    Arguments::new(Memory::none(), Memory::none())
}

impl Steps for ByLevels {
    #[inline]
    fn step(&mut self) -> Outcome {
        let (call, rounds) = self.cells();
        call.step(rounds)
    }

    fn missing(&self) -> u64 {
        let (call, rounds) = self.cells_here();
        call.missing(rounds)
    }

    fn rounds(&mut self) -> &mut Rounds {
        self.cells().1
    }

    fn rank(&self, member: u32) -> Rank {
        Rank(self.seats.node.members.rank(member))
    }

    fn makes_way(&self, behind_too: bool) -> bool {
        self.cells_here().1.cells_here().makes_way(self.missing(), behind_too)
    }
}
