//! Runs collective schedules on the engine's point-to-point: one executor for blocking, nonblocking and persistent
//! collectives (design section 9, musts.md 6.12).
//!
//! A [`ScheduleRun`] binds a pure `weft_coll::Schedule` to memory, to a communicator's channel and to an operation. The
//! engine starts every step as soon as those it waits for are complete: sends and receives become requests whose
//! notices come back from [`Engine::progress`], copies and predefined reductions happen at once, user-defined
//! operations become [`Callback`]s that the owner runs while it does not hold the engine.
//!
//! A run that fails (a lost process, a message of the wrong length) starts nothing more, takes its receives back, and
//! ends with the first error when no request of its own can touch its memory any more.

use crate::engine::Engine;
use crate::internal::Notice;
use crate::types::{Completion, Envelope, RequestId, Selector, SendMode, Started};
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use weft_coll::{Buffer, Execution, Range, Schedule, Step, StepId};
use weft_datatype::{Datatype, Elements, Kernel, Memory, memory};
use weft_types::{ContextId, Error, ErrorClass, PeerId, Rank, Result, Tag};

/// Which process each rank of a communicator is.
pub trait PeerMap: Send + Sync + std::fmt::Debug {
    /// The process of a valid rank.
    fn peer(&self, rank: Rank) -> PeerId;
}

/// A user-defined operation (section 6.9.5): calls the user's function.
pub trait UserOperation: Send + Sync + std::fmt::Debug {
    /// `into[i] = left[i] op into[i]`. Both have the same number of elements, in the memory layout of the datatype the
    /// reduction was called with; they do not overlap. Called while nobody holds the engine.
    fn apply(&self, left: Elements, into: Elements);
}

/// What combines two operands.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A predefined one.
    Predefined(Kernel),
    /// A user's.
    User(Arc<dyn UserOperation>),
}

/// Type and operation of a reduction.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The datatype of the call: operands in scratch memory have its layout.
    pub datatype: Datatype,
    /// The operation.
    pub operation: Operation,
}

/// The memory of a call. What is not significant, or `MPI_IN_PLACE`, is `Memory::none()`.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// `Buffer::Send`.
    pub send: Memory,
    /// `Buffer::Recv`.
    pub recv: Memory,
    /// `Buffer::SendPeer`, by rank; empty but for `MPI_Alltoallw`.
    pub send_peers: Vec<Memory>,
    /// `Buffer::RecvPeer`, by rank; empty but for `MPI_Alltoallw`.
    pub recv_peers: Vec<Memory>,
}

impl Arguments {
    /// Send and receive argument.
    pub fn new(send: Memory, recv: Memory) -> Arguments {
        Arguments { send, recv, send_peers: Vec::new(), recv_peers: Vec::new() }
    }
}

/// Where the messages of one collective travel.
#[derive(Clone, Debug)]
pub struct Channel {
    /// The communicator's collective context (`ContextId::collective`).
    pub context: ContextId,
    /// This process's rank in the communicator.
    pub rank: Rank,
    /// The communicator's processes.
    pub peers: Arc<dyn PeerMap>,
    /// The communicator's number of this collective, the same at all ranks: see `weft_coll::tag`.
    pub sequence: u32,
    /// Whether the number is one of those for persistent collectives.
    pub persistent: bool,
}

/// A schedule bound to memory and communicator, ready to start. A clone shares the scratch memory, so that only one of
/// the clones may be under way at a time: a persistent collective keeps one and starts clones of it.
#[derive(Clone, Debug)]
pub struct ScheduleRun {
    schedule: Arc<Schedule>,
    arguments: Arguments,
    scratch: Arc<[Memory]>,
    reduction: Option<Reduction>,
    channel: Channel,
}

impl ScheduleRun {
    /// Binds a schedule; makes its scratch memory.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` when scratch in the datatype's layout does not fit 64 bits, `MPI_ERR_INTERN` when the schedule
    /// reduces and there is no `reduction`.
    pub fn new(
        schedule: Arc<Schedule>,
        arguments: Arguments,
        reduction: Option<Reduction>,
        channel: Channel,
    ) -> Result<ScheduleRun> {
        let need = |need: &weft_coll::ScratchNeed| match (need.elements, &reduction) {
            (true, Some(reduction)) => {
                let size = reduction.datatype.element_bytes().max(1) as u64;
                Memory::scratch(&reduction.datatype, need.bytes / size)
            }
            (true, None) => Err(Error::internal("a schedule that reduces was bound without an operation")),
            (false, _) => Ok(Memory::packed_scratch(need.bytes as usize)),
        };
        let scratch = schedule.scratch().iter().map(need).collect::<Result<Vec<_>>>()?.into();
        Ok(ScheduleRun { schedule, arguments, scratch, reduction, channel })
    }

    fn memory(&self, buffer: Buffer) -> &Memory {
        match buffer {
            Buffer::Send => &self.arguments.send,
            Buffer::Recv => &self.arguments.recv,
            Buffer::SendPeer(peer) => &self.arguments.send_peers[peer as usize],
            Buffer::RecvPeer(peer) => &self.arguments.recv_peers[peer as usize],
            Buffer::Scratch(index) => &self.scratch[index as usize],
        }
    }

    fn readable(&self, range: Range) -> weft_datatype::SendBuf {
        self.memory(range.buffer).send_view(range.displacement, range.start, range.bytes)
    }

    fn writable(&self, range: Range) -> weft_datatype::RecvBuf {
        self.memory(range.buffer).recv_view(range.displacement, range.start, range.bytes)
    }

    fn elements(&self, range: Range) -> Elements {
        self.memory(range.buffer).elements(range.displacement, range.start, range.bytes)
    }

    fn tag(&self, channel: u16) -> Tag {
        weft_coll::tag(self.channel.persistent, self.channel.sequence, channel)
    }
}

/// A user-defined operation to be applied while nobody holds the engine; give it back with [`Engine::callback_done`].
#[derive(Debug)]
#[must_use]
pub struct Callback {
    token: NonZeroU64,
    operation: Arc<dyn UserOperation>,
    left: Elements,
    into: Elements,
}

impl Callback {
    /// Calls the user's function.
    pub fn run(&self) {
        self.operation.apply(self.left, self.into);
    }
}

/// A run under way.
#[derive(Debug)]
struct Active {
    run: ScheduleRun,
    execution: Execution,
    /// The user's handle.
    request: RequestId,
    /// Sends and receives that have not ended.
    pending: Vec<(StepId, RequestId)>,
    /// Callbacks that are not done.
    callbacks: u32,
    error: Option<Error>,
    /// Whether the pending requests were cancelled after an error.
    taken_back: bool,
}

/// All runs of an engine.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    active: Vec<Option<Box<Active>>>,
    free: Vec<u32>,
    callbacks: VecDeque<Callback>,
    /// An ended run whose vectors the next one uses.
    spare: Option<(Execution, Vec<(StepId, RequestId)>)>,
}

fn token(slot: u32, step: StepId) -> NonZeroU64 {
    NonZeroU64::MIN.saturating_add(u64::from(slot) << 32 | u64::from(step))
}

fn from_token(token: NonZeroU64) -> (u32, StepId) {
    let value = token.get() - 1;
    ((value >> 32) as u32, value as u32)
}

impl Engine {
    /// Starts a collective. Local: it does what can be done at once and returns (section 2.4.1).
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when all request slots are in use. What goes wrong later is the request's error.
    pub fn start_schedule(&mut self, run: ScheduleRun) -> Result<RequestId> {
        let request = self.new_plain()?;
        let schedules = &mut self.state.schedules;
        let (mut execution, pending) = schedules.spare.take().unwrap_or_default();
        execution.reset(&run.schedule);
        let slot = schedules.free.pop().unwrap_or_else(|| {
            schedules.active.push(None);
            schedules.active.len() as u32 - 1
        });
        let active = Box::new(Active {
            run,
            execution,
            request,
            pending,
            callbacks: 0,
            error: None,
            taken_back: false,
        });
        self.advance(slot, active);
        self.notice_schedules();
        Ok(request)
    }

    /// The next user-defined operation to run, if a reduction waits for one.
    pub fn take_callback(&mut self) -> Option<Callback> {
        self.state.schedules.callbacks.pop_front()
    }

    /// The callback was run; the reduction goes on.
    pub fn callback_done(&mut self, callback: Callback) {
        let (slot, step) = from_token(callback.token);
        let mut active = self.take_active(slot);
        active.callbacks -= 1;
        active.execution.completed(&active.run.schedule, step);
        self.advance(slot, active);
        self.notice_schedules();
    }

    /// Steps every schedule whose requests have ended. True when there were any.
    pub(crate) fn notice_schedules(&mut self) -> bool {
        let mut moved = false;
        while let Some(Notice { token, completion }) = self.pop_notice() {
            moved = true;
            let (slot, step) = from_token(token);
            let mut active = self.take_active(slot);
            let entry = active.pending.iter().position(|&(pending, _)| pending == step);
            active.pending.swap_remove(entry.expect("a notice is of a pending step"));
            active.ended(step, completion);
            self.advance(slot, active);
        }
        moved
    }

    fn take_active(&mut self, slot: u32) -> Box<Active> {
        self.state.schedules.active[slot as usize].take().expect("a token names an active run")
    }

    /// Starts every step that may start; puts the run back, or ends it.
    fn advance(&mut self, slot: u32, mut active: Box<Active>) {
        while active.error.is_none()
            && let Some(step) = active.execution.next_ready()
        {
            if let Err(error) = self.start_step(slot, step, &mut active) {
                active.error = Some(error);
            }
        }
        if active.error.is_some() && !active.taken_back {
            active.taken_back = true;
            for &(_, request) in &active.pending {
                // One that ended meanwhile is gone; its notice waits.
                if self.exists(request) {
                    self.cancel(request);
                }
            }
        }
        let over = active.execution.is_finished() || active.error.is_some();
        if !over || !active.pending.is_empty() || active.callbacks > 0 {
            self.state.schedules.active[slot as usize] = Some(active);
            return;
        }
        let Active { execution, pending, request, error, .. } = *active;
        self.state.schedules.spare = Some((execution, pending));
        self.state.schedules.free.push(slot);
        self.complete_plain(request, error);
    }

    fn start_step(&mut self, slot: u32, step: StepId, active: &mut Active) -> Result<()> {
        let run = &active.run;
        match run.schedule.steps()[step as usize] {
            Step::Send { to, channel, from } => {
                let envelope = Envelope {
                    peer: run.channel.peers.peer(Rank(to)),
                    context: run.channel.context,
                    source: run.channel.rank,
                    tag: run.tag(channel),
                };
                match self.send(envelope, SendMode::Standard, run.readable(from))? {
                    Started::Complete => active.execution.completed(&run.schedule, step),
                    Started::Pending(request) => {
                        active.pending.push((step, request));
                        self.state.give_token(request.slot(), token(slot, step));
                    }
                }
            }
            Step::Recv { from, channel, into } => {
                let selector = Selector {
                    context: run.channel.context,
                    peer: Some(run.channel.peers.peer(Rank(from))),
                    source: Some(Rank(from)),
                    tag: Some(run.tag(channel)),
                };
                let mut room = run.writable(into);
                if let Some(completion) = self.try_recv(selector, &mut room) {
                    active.ended(step, completion);
                    return Ok(());
                }
                let request = self.recv(selector, room)?;
                active.pending.push((step, request));
                self.state.give_token(request.slot(), token(slot, step));
            }
            Step::Copy { from, into } => {
                memory::copy(&run.readable(from), &mut run.writable(into));
                active.execution.completed(&run.schedule, step);
            }
            Step::Reduce { left, into } => {
                let (left, into) = (run.elements(left), run.elements(into));
                match &run.reduction.as_ref().expect("checked when the run was bound").operation {
                    Operation::Predefined(kernel) => {
                        kernel.apply_elements(left, into);
                        active.execution.completed(&run.schedule, step);
                    }
                    Operation::User(operation) => {
                        let operation = Arc::clone(operation);
                        let token = token(slot, step);
                        self.state.schedules.callbacks.push_back(Callback { token, operation, left, into });
                        active.callbacks += 1;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Active {
    /// A send or a receive has ended.
    fn ended(&mut self, step: StepId, completion: Completion) {
        if self.error.is_some() {
            return;
        }
        if let Some(error) = completion.error {
            self.error = Some(error);
            return;
        }
        if let Step::Recv { from, into, .. } = self.run.schedule.steps()[step as usize]
            && completion.status.bytes != into.bytes
        {
            self.error = Some(Error::new(
                ErrorClass::TRUNCATE,
                format!(
                    "a collective operation got {} bytes from rank {from} where {} were expected: the ranks disagree \
                     about count, datatype or root (section 6.1)",
                    completion.status.bytes, into.bytes
                ),
            ));
            return;
        }
        self.execution.completed(&self.run.schedule, step);
    }
}
