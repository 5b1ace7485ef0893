//! Persistent requests (section 3.9): what they do each time they are started, and whether they are under way.
//!
//! Those in a lane other than 0 are started and completed without the process: a thread remembers what one does ([`Kept`]) and
//! works with the lane alone. Shared between the process's table and such threads is one word, [`State`].
//!
//! # Memory ordering of the word
//! A request is used by one thread at a time, and from one to the next the program synchronises (section 11.6: two threads
//! never start or complete the same request concurrently). So a thread always sees what the last user stored; Release and
//! Acquire make a thread that looks for others (the watchdog, a table that is walked) see the request that a number names.
//! Nothing else is read on the strength of it: the number is looked up in its lane, under the lane's lock, where a stale one is
//! found out by its generation.

use crate::lanes::request_handle;
use crate::request::{COLLECTIVE, Local, Requests};
use crate::rounds::KeptCall;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_datatype::{RecvBuf, SendBuf};
use weft_engine::{Engine, Envelope, KeptRun, RequestId, Selector, SendMode, Started, Stream};
use weft_types::{Error, ErrorClass, Handle, Result, abi};

/// What a persistent request does each time it is started.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A send; `None` goes to `MPI_PROC_NULL`.
    Send(Option<Envelope>, SendMode, SendBuf),
    /// A buffered send: [`crate::process::Process::buffered_send`] at each start.
    Buffered(Option<Envelope>, SendBuf),
    /// A receive; `None` comes from `MPI_PROC_NULL`.
    Receive(Option<Selector>, RecvBuf),
    /// A collective (sections 6.13 and 8.8), whose schedule, memory and number are those of its making.
    Collective(KeptRun),
}

/// A persistent request.
#[derive(Debug)]
pub struct Persistent {
    /// What it does.
    pub operation: Operation,
    /// The communicator.
    pub comm: Handle,
    /// Its lane.
    pub lane: u32,
    /// How it goes when it is a collective.
    pub(crate) cells: OnCells,
    state: Arc<State>,
}

/// Whether a persistent collective goes by cells of its own.
#[derive(Debug, Default)]
pub(crate) enum OnCells {
    /// No.
    #[default]
    No,
    /// It will, once its members have agreed on memory.
    Wanted(Box<KeptCall>),
    /// Yes.
    Yes(Stream),
}

/// The request under way of a persistent one: its handle, [`INACTIVE`] or [`GONE`].
#[derive(Debug)]
struct State(AtomicU32);

const INACTIVE: u32 = abi::MPI_REQUEST_NULL;
/// The persistent request was freed: who remembers it forgets it.
const GONE: u32 = 0;

impl State {
    fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, word: u32) {
        self.0.store(word, Ordering::Release);
    }
}

/// The error of starting what is under way.
pub(crate) fn active_already() -> Error {
    Error::new(ErrorClass::REQUEST, "the persistent request is active; complete it before starting it again")
}

/// Starts a send in the engine of its lane; [`RequestId::COMPLETE`] when it was complete at once.
#[inline]
pub(crate) fn begin_send(
    engine: &mut Engine,
    envelope: Envelope,
    mode: SendMode,
    buffer: SendBuf,
    comm: Handle,
) -> Result<RequestId> {
    Ok(match engine.send(envelope, mode, buffer)? {
        Started::Complete => RequestId::COMPLETE,
        Started::Pending(request) => {
            engine.tag_request(request, comm.0);
            request
        }
    })
}

/// Starts a receive in the engine of its lane.
#[inline]
pub(crate) fn begin_receive(
    engine: &mut Engine,
    selector: Selector,
    buffer: RecvBuf,
    comm: Handle,
) -> Result<RequestId> {
    let request = engine.recv(selector, buffer)?;
    engine.tag_request(request, comm.0);
    Ok(request)
}

/// Starts a collective in the engine of its lane.
#[inline]
pub(crate) fn begin_collective(engine: &mut Engine, kept: &KeptRun, comm: Handle) -> Result<RequestId> {
    let request = engine.start_schedule(kept.run())?;
    engine.tag_request(request, comm.0 | COLLECTIVE);
    Ok(request)
}

/// The handle of what was begun in a lane. A send that is complete has no lane.
pub(crate) fn begun_in(lane: u32, request: RequestId) -> Handle {
    request_handle(if request == RequestId::COMPLETE { request } else { request.in_lane(lane) })
}

impl Persistent {
    /// An inactive one.
    pub(crate) fn new(operation: Operation, comm: Handle, lane: u32) -> Persistent {
        Persistent {
            operation,
            comm,
            lane,
            cells: OnCells::No,
            state: Arc::new(State(AtomicU32::new(INACTIVE))),
        }
    }

    /// What needs its lane alone, other than 0: a message, or a collective.
    fn can_be_remembered(&self) -> bool {
        let needs_its_lane = matches!(
            self.operation,
            Operation::Send(Some(_), ..) | Operation::Receive(Some(_), _) | Operation::Collective(_)
        );
        self.lane != 0 && needs_its_lane
    }

    /// The request under way.
    #[inline]
    pub fn active(&self) -> Option<Handle> {
        let word = self.state.get();
        (word != INACTIVE).then_some(Handle(word))
    }

    /// It was started.
    #[inline]
    pub(crate) fn begun(&self, request: Handle) {
        self.state.set(request.0);
    }

    /// It is over; the request that was under way.
    #[inline]
    pub(crate) fn end(&self) -> Option<Handle> {
        let active = self.active();
        self.state.set(INACTIVE);
        active
    }
}

impl Drop for Persistent {
    fn drop(&mut self) {
        self.state.set(GONE);
    }
}

/// A persistent request as a thread remembers it: a message or a collective in a lane other than 0.
#[derive(Debug)]
pub struct Kept {
    /// Its handle.
    pub handle: Handle,
    /// Its lane.
    pub lane: u32,
    comm: Handle,
    operation: Operation,
    state: Arc<State>,
}

impl Kept {
    /// Whether it was freed.
    pub fn is_gone(&self) -> bool {
        self.state.get() == GONE
    }

    /// The request under way.
    #[inline]
    pub fn active(&self) -> Option<Handle> {
        let word = self.state.get();
        (word != INACTIVE).then_some(Handle(word))
    }

    /// Starts it in the engine of its lane.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when it is active; errors of the operation.
    pub fn start(&self, engine: &mut Engine) -> Result<()> {
        if self.active().is_some() {
            return Err(active_already());
        }
        let begun = match self.operation.clone() {
            Operation::Send(Some(envelope), mode, buffer) => {
                begin_send(engine, envelope, mode, buffer, self.comm)?
            }
            Operation::Receive(Some(selector), buffer) => begin_receive(engine, selector, buffer, self.comm)?,
            Operation::Collective(kept) => begin_collective(engine, &kept, self.comm)?,
            _ => unreachable!("nothing else is remembered"),
        };
        self.state.set(begun_in(self.lane, begun).0);
        Ok(())
    }

    /// The envelope and the bytes of a standard send of one run, when it is inactive: what [`Engine::send_at_once`] takes.
    #[inline]
    pub fn plain_send(&self) -> Option<(Envelope, &[u8])> {
        match &self.operation {
            Operation::Send(Some(envelope), SendMode::Standard, buffer) if self.active().is_none() => {
                Some((*envelope, buffer.plain()?))
            }
            _ => None,
        }
    }

    /// A send was complete when it was started.
    #[inline]
    pub fn sent(&self) {
        self.state.set(request_handle(RequestId::COMPLETE).0);
    }

    /// The request under way was completed.
    #[inline]
    pub fn end(&self) {
        self.state.set(INACTIVE);
    }
}

impl Persistent {
    /// Starts a small message of lane 0 that needs no more than its engine. False: nothing was done.
    #[inline(never)]
    fn start_at_once(&self, engine: &mut Engine) -> bool {
        if self.lane != 0 || self.active().is_some() {
            return false;
        }
        if let OnCells::Yes(stream) = &self.cells {
            // Where the cells have ended, or there is no request, nothing was begun.
            let Ok(Some(request)) = engine.start_kept(stream) else { return false };
            engine.tag_request(request, self.comm.0 | COLLECTIVE);
            self.begun(request_handle(request));
            return true;
        }
        let started = match &self.operation {
            Operation::Send(Some(envelope), SendMode::Standard, buffer) => {
                let sent = buffer.plain().is_some_and(|bytes| engine.send_at_once(*envelope, bytes));
                sent.then_some(RequestId::COMPLETE)
            }
            &Operation::Receive(
                Some(Selector { context, peer: Some(peer), source: Some(source), tag: Some(tag) }),
                ref buffer,
            ) => {
                let from = Envelope { peer, context, source, tag };
                engine.post_at_once(from, buffer.clone(), self.comm.0)
            }
            _ => None,
        };
        started.inspect(|&request| self.begun(request_handle(request))).is_some()
    }
}

impl Requests {
    /// `MPI_Start` in the usual cases, by the only thread that is here: small messages and partitioned requests. False: nothing
    /// was done.
    #[inline(always)]
    pub fn start_at_once(&mut self, engine: &mut Engine, handle: Handle) -> bool {
        match self.locals.find(handle) {
            Some(Local::Persistent(persistent)) => persistent.start_at_once(engine),
            Some(Local::PartitionedSend(_) | Local::PartitionedReceive(_)) => {
                self.start_partitioned_at_once(engine, handle)
            }
            _ => false,
        }
    }

    /// Whether calls on a request need not go through the process once a thread remembers it.
    pub fn can_be_remembered(&self, request: Handle) -> bool {
        matches!(self.locals.find(request), Some(Local::Persistent(persistent)) if persistent.can_be_remembered())
    }

    /// What a thread remembers of a persistent request; `None` when calls on it need the process.
    pub fn remember(&self, request: Handle) -> Option<Kept> {
        let Some(Local::Persistent(persistent)) = self.locals.find(request) else { return None };
        persistent.can_be_remembered().then(|| Kept {
            handle: request,
            lane: persistent.lane,
            comm: persistent.comm,
            operation: persistent.operation.clone(),
            state: Arc::clone(&persistent.state),
        })
    }
}
