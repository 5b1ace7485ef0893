//! Runs collective schedules on the engine's point-to-point: one executor for blocking, nonblocking and persistent
//! collectives (design section 9, musts.md 6.12).
//!
//! A [`ScheduleRun`] binds a pure `weft_coll::Schedule` to memory, to a communicator's channel and to an operation. The
//! engine starts every step as soon as those it waits for are complete: sends and receives become requests whose
//! notices come back from [`Engine::progress`], copies and predefined reductions happen at once, user-defined
//! operations become [`Callback`]s that the owner runs while it does not hold the engine.
//!
//! A schedule that the transport's device can run is handed over instead (`offload.rs`), and its end comes back as a whole.
//!
//! A run that fails (a lost process, a message of the wrong length) starts nothing more, takes its receives back, and
//! ends with the first error when no request of its own can touch its memory any more.

mod bound;
mod failure;
mod offload;
mod remote;

use crate::engine::Engine;
use crate::internal::Notice;
use crate::outlook::Running;
use crate::types::{Completion, Envelope, RequestId, Selector, SendMode, Started};
use crate::zero_copy::Lease;
use bound::Run;
pub use bound::{KeptRun, ScheduleRun, Then};
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use weft_api::offload::GroupId;
use weft_coll::{Buffer, Execution, Range, Step, StepId};
use weft_datatype::{Datatype, Elements, Kernel, Memory, RecvBuf, ScratchPool, SendBuf, memory};
use weft_types::{ContextId, Error, ErrorClass, PeerId, Rank, Result, Tag};

/// Which process each rank of a communicator is.
pub trait PeerMap: Send + Sync + std::fmt::Debug {
    /// The process of a valid rank.
    fn peer(&self, rank: Rank) -> PeerId;
    /// Whether a process is one of them.
    fn contains(&self, process: PeerId) -> bool;
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
    /// What error texts call the operation.
    pub name: &'static str,
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
    /// The group of the fabric's device that all of them have joined, if there is one.
    pub group: Option<GroupId>,
}

impl Channel {
    /// The tag of the collective's messages on one of the schedule's channels.
    pub fn tag(&self, channel: u16) -> Tag {
        weft_coll::tag(self.persistent, self.sequence, channel)
    }
}

/// What is due while nobody holds the engine: a user-defined operation, or an error handler. Give it back with
/// [`Engine::callback_done`].
#[derive(Debug)]
#[must_use]
pub struct Callback(Due);

/// A request has failed whose error no call returns.
#[derive(Debug)]
pub struct Failure {
    /// Its owner word.
    pub owner: u32,
    /// What went wrong.
    pub error: Error,
    /// Whether the program had freed it; otherwise it was complete for the program before.
    pub freed: bool,
}

#[derive(Debug)]
enum Due {
    Operation { token: NonZeroU64, operation: Arc<dyn UserOperation>, left: Elements, into: Elements },
    Failure(Failure),
}

impl Callback {
    /// A request of that owner word has failed whose error no call returns.
    pub(crate) fn of_failure(owner: u32, error: Error, freed: bool) -> Callback {
        Callback(Due::Failure(Failure { owner, error, freed }))
    }

    /// Calls the user's operation; for a failure nothing.
    pub fn run(&self) {
        if let Due::Operation { operation, left, into, .. } = &self.0 {
            operation.apply(*left, *into);
        }
    }

    /// The failure of a request ([`Engine::abandon`], [`Engine::tell_failure_of`]); `None`: that is an operation.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.0 {
            Due::Failure(failure) => Some(failure),
            Due::Operation { .. } => None,
        }
    }
}

/// A run under way.
#[derive(Debug)]
struct Active {
    run: Run,
    then: Option<Box<dyn Then>>,
    vectors: Vectors,
    /// The user's handle; set when it starts.
    request: RequestId,
    /// Callbacks that are not done.
    callbacks: u32,
    error: Option<Error>,
    /// Whether the pending requests were cancelled after an error.
    taken_back: bool,
    /// Whether the device runs it.
    handed_over: bool,
}

/// The part of a run that allocates.
#[derive(Debug, Default)]
struct Vectors {
    execution: Execution,
    /// Sends and receives that have not ended.
    pending: Vec<(StepId, RequestId)>,
    scratch: Vec<Memory>,
    /// Puts and gets under way.
    remote: Vec<remote::Remote>,
    /// Registered for others, by the offer.
    lent: Vec<(StepId, Lease)>,
}

/// Ended runs whose memory is kept for the next ones.
const SPARES: usize = 8;

/// All runs of an engine.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    active: Vec<Option<Box<Active>>>,
    free: Vec<u32>,
    pub(crate) callbacks: VecDeque<Callback>,
    /// Of ended runs, for the next ones; at most [`SPARES`].
    #[allow(clippy::vec_box, reason = "the boxes are what is kept, so that a start allocates nothing")]
    spares: Vec<Box<Active>>,
    pool: ScratchPool,
    /// Runs that failed and are not over.
    owed: u32,
    /// Runs that the device has.
    handed_over: u32,
    /// Runs that it has been given so far.
    ever_handed_over: u64,
    /// Memory that others were offered so far.
    offered: u64,
    /// Messages so far.
    sent: u64,
}

impl Schedules {
    /// A place for one that is under way.
    #[inline]
    fn slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.active.push(None);
            self.active.len() as u32 - 1
        })
    }

    /// Room for a run, of an earlier one if there is any.
    fn activate(&mut self, ScheduleRun { run, then }: ScheduleRun) -> Box<Active> {
        match self.spares.pop() {
            Some(mut active) => {
                (active.run, active.then) = (run, then);
                active
            }
            None => Box::new(Active {
                run,
                then,
                vectors: Vectors::default(),
                request: RequestId::COMPLETE,
                callbacks: 0,
                error: None,
                taken_back: false,
                handed_over: false,
            }),
        }
    }

    /// Keeps the room of a run that is over, but nothing of what the program handed in.
    fn retire(&mut self, mut active: Box<Active>) {
        if self.spares.len() < SPARES {
            active.run = Run::Over;
            (active.then, active.taken_back) = (None, false);
            self.spares.push(active);
        }
    }
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
    /// `MPI_ERR_NO_MEM` when all request slots are in use, `MPI_ERR_COUNT` when scratch memory in the datatype's layout
    /// does not fit 64 bits. What goes wrong later is the request's error.
    pub fn start_schedule(&mut self, run: ScheduleRun) -> Result<RequestId> {
        let schedules = &mut self.state.schedules;
        let mut active = schedules.activate(run);
        let lowered = self.lower(&active.run)?;
        if lowered.is_none() {
            active.prepare(&mut self.state.schedules.pool)?;
        }
        let request = self.new_plain()?;
        active.request = request;
        let slot = self.state.schedules.slot();
        match lowered {
            Some(lowered) => self.hand_over(slot, active, &lowered),
            None => {
                active.error = self.loss_in(&active.run);
                self.advance(slot, active);
                self.notice_schedules();
            }
        }
        Ok(request)
    }

    /// Starts a collective that has failed at this process before its first message, for the others' sake: they get what they
    /// wait for, and fail over it (see `failure`). Its request ends with `why`.
    ///
    /// # Errors
    /// As [`Engine::start_schedule`].
    #[cold]
    pub fn start_failed_schedule(&mut self, run: ScheduleRun, why: Error) -> Result<RequestId> {
        let mut active = self.state.schedules.activate(run);
        active.prepare(&mut self.state.schedules.pool)?;
        let request = self.new_plain()?;
        (active.request, active.error) = (request, Some(why));
        let slot = self.state.schedules.slot();
        self.advance(slot, active);
        self.notice_schedules();
        Ok(request)
    }

    /// Messages that carried data of collectives so far. By cells, and by the device, there are none.
    pub fn messages_of_collectives(&self) -> u64 {
        self.state.schedules.sent
    }

    /// What is due next: the user-defined operation that a reduction waits for, or the error handler of a request that was
    /// abandoned.
    pub fn take_callback(&mut self) -> Option<Callback> {
        self.state.schedules.callbacks.pop_front()
    }

    /// Whether [`Engine::take_callback`] would give one.
    #[inline]
    pub fn has_callback(&self) -> bool {
        !self.state.schedules.callbacks.is_empty()
    }

    /// The callback was run; the reduction goes on.
    pub fn callback_done(&mut self, callback: Callback) {
        let Due::Operation { token, .. } = callback.0 else { return };
        let (slot, step) = from_token(token);
        let mut active = self.take_active(slot);
        active.callbacks -= 1;
        active.vectors.execution.completed(&active.run.schedule, step);
        self.advance(slot, active);
        self.notice_schedules();
    }

    /// Steps every schedule whose requests have ended, and ends those that have lost somebody. True when there were any.
    pub(crate) fn notice_schedules(&mut self) -> bool {
        let mut moved = false;
        while let Some(notice) = self.pop_notice() {
            let (token, completion) = match notice {
                Notice::Ended(token, completion) => (token, completion),
                Notice::Lost => {
                    moved = true;
                    self.end_bereft();
                    continue;
                }
                Notice::Parted => {
                    moved |= self.end_parted();
                    continue;
                }
                Notice::Owed => {
                    self.part_from_leavers();
                    continue;
                }
            };
            moved = true;
            let (slot, step) = from_token(token);
            let mut active = self.take_active(slot);
            let entry = active.vectors.pending.iter().position(|&(pending, _)| pending == step);
            active.vectors.pending.swap_remove(entry.expect("a notice is of a pending step"));
            if active.taken_back && completion.status.cancelled {
                self.pay_for_cancelled(&active, step);
            }
            self.step_ended(slot, step, &mut active, completion);
            self.advance(slot, active);
        }
        if self.state.schedules.owed > 0 && !(self.state.gone.is_empty() && self.state.partings.is_empty()) {
            // Looked at again at the next progress.
            self.state.notices.push_back(Notice::Owed);
        }
        moved
    }

    /// Every collective under way and its request.
    pub(crate) fn running(&self) -> impl Iterator<Item = (RequestId, Running)> + '_ {
        self.state.schedules.active.iter().flatten().map(|active| {
            let pending = &active.vectors.pending;
            let channel = &active.run.channel;
            let running = Running {
                context: channel.context,
                number: channel.sequence,
                persistent: channel.persistent,
                peers: pending
                    .iter()
                    .map(|(_, request)| self.state.requests.at(request.slot()).peer)
                    .collect(),
                // What a device waits for it does not say.
                goes_on: active.handed_over
                    || active.callbacks > 0
                    || active.error.is_some()
                    || pending.iter().any(|&(_, request)| !self.exists(request)),
            };
            (active.request, running)
        })
    }

    fn take_active(&mut self, slot: u32) -> Box<Active> {
        self.state.schedules.active[slot as usize].take().expect("a token names an active run")
    }

    /// Starts every step that may start; puts the run back, or ends it.
    fn advance(&mut self, slot: u32, mut active: Box<Active>) {
        while active.error.is_none()
            && let Some(step) = active.vectors.execution.next_ready()
        {
            if let Err(error) = self.start_step(slot, step, &mut active) {
                active.error = Some(error);
                self.pay(&active, step);
            }
        }
        if active.error.is_some() && !active.taken_back {
            active.taken_back = true;
            self.state.schedules.owed += 1;
            self.explain_failure(&mut active);
            self.take_back(&active);
            self.end_offers(&mut active);
        }
        let over = active.vectors.execution.is_finished() || active.error.is_some();
        if !over || !active.vectors.pending.is_empty() || active.callbacks > 0 {
            self.state.schedules.active[slot as usize] = Some(active);
            return;
        }
        self.conclude(slot, active);
    }

    /// A run is over: what follows on it, or its end.
    fn conclude(&mut self, slot: u32, mut active: Box<Active>) {
        self.end_offers(&mut active);
        let (request, error) = (active.request, active.error.take());
        let schedules = &mut self.state.schedules;
        schedules.owed -= u32::from(active.taken_back);
        active.vectors.scratch.drain(..).for_each(|memory| schedules.pool.recycle(memory));
        if error.is_none()
            && let Some(then) = active.then.take()
        {
            match then.next() {
                Ok(None) => {}
                Ok(Some(next)) => return self.go_on(slot, active, next),
                Err(error) => return self.end(slot, active, request, Some(error)),
            }
        }
        self.end(slot, active, request, error);
    }

    /// Runs what follows under the same request.
    fn go_on(&mut self, slot: u32, mut active: Box<Active>, next: ScheduleRun) {
        (active.run, active.then) = (next.run, next.then);
        let lowered = self.lower(&active.run);
        let prepared = match lowered {
            Ok(Some(lowered)) => return self.hand_over(slot, active, &lowered),
            Ok(None) => active.prepare(&mut self.state.schedules.pool),
            Err(error) => Err(error),
        };
        match prepared {
            Ok(()) => {
                active.error = self.loss_in(&active.run);
                self.advance(slot, active);
            }
            Err(error) => {
                let request = active.request;
                self.end(slot, active, request, Some(error));
            }
        }
    }

    fn end(&mut self, slot: u32, active: Box<Active>, request: RequestId, error: Option<Error>) {
        let schedules = &mut self.state.schedules;
        schedules.retire(active);
        schedules.free.push(slot);
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
                self.state.schedules.sent += 1;
                match self.send(envelope, SendMode::Standard, active.readable(from))? {
                    Started::Complete => active.vectors.execution.completed(&run.schedule, step),
                    Started::Pending(request) => {
                        active.vectors.pending.push((step, request));
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
                let mut room = active.writable(into);
                if let Some(completion) = self.try_recv(selector, &mut room) {
                    active.ended(step, completion);
                    return Ok(());
                }
                let request = self.recv(selector, room)?;
                active.vectors.pending.push((step, request));
                self.state.give_token(request.slot(), token(slot, step));
            }
            Step::Copy { from, into } => {
                memory::copy(&active.readable(from), &mut active.writable(into));
                active.vectors.execution.completed(&run.schedule, step);
            }
            Step::Reduce { left, into } => {
                let (left, into) = (active.elements(left), active.elements(into));
                match &run.reduction.as_ref().expect("checked when the run was bound").operation {
                    Operation::Predefined(kernel) => {
                        kernel.combine(left, into)?;
                        active.vectors.execution.completed(&run.schedule, step);
                    }
                    Operation::User(operation) => {
                        let operation = Arc::clone(operation);
                        let token = token(slot, step);
                        let due = Due::Operation { token, operation, left, into };
                        self.state.schedules.callbacks.push_back(Callback(due));
                        active.callbacks += 1;
                    }
                }
            }
            Step::Offer { .. } | Step::Put { .. } | Step::Get { .. } | Step::Await { .. } => {
                return self.start_remote(slot, step, active);
            }
        }
        Ok(())
    }
}

impl Active {
    /// Makes the scratch memory, and all steps undone.
    fn prepare(&mut self, pool: &mut ScratchPool) -> Result<()> {
        let Active { run, vectors, .. } = self;
        run.scratch(pool, &mut vectors.scratch)?;
        vectors.execution.reset(&run.schedule);
        Ok(())
    }

    fn memory(&self, buffer: Buffer) -> &Memory {
        let arguments = &self.run.arguments;
        match buffer {
            Buffer::Send => &arguments.send,
            Buffer::Recv => &arguments.recv,
            Buffer::SendPeer(peer) => &arguments.send_peers[peer as usize],
            Buffer::RecvPeer(peer) => &arguments.recv_peers[peer as usize],
            Buffer::Scratch(index) => &self.vectors.scratch[index as usize],
        }
    }

    fn readable(&self, range: Range) -> SendBuf {
        self.memory(range.buffer).send_view(range.displacement, range.start, range.bytes)
    }

    fn writable(&self, range: Range) -> RecvBuf {
        self.memory(range.buffer).recv_view(range.displacement, range.start, range.bytes)
    }

    fn elements(&self, range: Range) -> Elements {
        self.memory(range.buffer).elements(range.displacement, range.start, range.bytes)
    }

    /// A send or a receive has ended.
    fn ended(&mut self, step: StepId, completion: Completion) {
        if self.error.is_some() {
            return;
        }
        if let Some(error) = completion.error {
            let is_longer = error.class() == ErrorClass::TRUNCATE;
            self.error = Some(match self.run.schedule.steps()[step as usize] {
                Step::Recv { from, into, .. } if is_longer => disagreement("more", from, into.bytes),
                _ => error,
            });
            return;
        }
        let got = completion.status.bytes;
        let disagrees = match self.run.schedule.steps()[step as usize] {
            Step::Recv { from, into, .. } => (got != into.bytes).then_some((from, into)),
            Step::Await { from, range, access, .. } => {
                (!remote::is_flag(access, range, got)).then_some((from, range))
            }
            _ => None,
        };
        if let Some((from, into)) = disagrees {
            self.error = Some(disagreement(got, from, into.bytes));
            return;
        }
        self.vectors.execution.completed(&self.run.schedule, step);
    }
}

/// What is wrong when a step gets another number of bytes than its own.
#[cold]
fn disagreement(got: impl std::fmt::Display, from: u32, expected: u64) -> Error {
    Error::new(
        ErrorClass::TRUNCATE,
        format!(
            "a collective operation got {got} bytes from rank {from} where {expected} were expected: the ranks disagree about count, datatype or \
             root (section 6.1), or make their calls in different orders (section 6.14); WEFT_CHECK=collectives names both calls"
        ),
    )
}
