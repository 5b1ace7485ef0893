//! Requests as programs see them: one engine request, or something made of several (section 3.7).
//!
//! An `MPI_Request` is the null handle, a number of the engine (kind `Request`; number 0 is "a send complete at once", shared by
//! all), or an entry of the table here (kind `LocalRequest`): persistent requests, the two halves of a sendrecv,
//! generalized requests, the receive from `MPI_PROC_NULL`.

use crate::buffered::{Buffers, Content, Serial};
use crate::construct::Construction;
use crate::lanes::Lanes;
use crate::partitioned::{ReceiveSide, SendSide, Watched};
use crate::persistent::{Operation, Persistent};
use crate::table::{Table, stale};
use std::sync::Arc;
use weft_engine::{Completion, Engine, RequestId, ScheduleRun, Started};
use weft_types::{Error, Handle, HandleKind, Result, abi};

/// A status by the integers programs see (section 3.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpiStatus {
    /// `MPI_SOURCE`
    pub source: i32,
    /// `MPI_TAG`
    pub tag: i32,
    /// Bytes of packed data.
    pub bytes: u64,
    /// `MPI_Test_cancelled`
    pub cancelled: bool,
}

impl MpiStatus {
    /// What waiting for nothing gives (section 3.7.3).
    pub const EMPTY: MpiStatus =
        MpiStatus { source: abi::MPI_ANY_SOURCE, tag: abi::MPI_ANY_TAG, bytes: 0, cancelled: false };
    /// What a completed send or other operation without a message gives: of its status only cancellation is defined
    /// (section 3.7.3). Not [`MpiStatus::EMPTY`], whose `MPI_ERROR` is part of it.
    pub const NO_MESSAGE: MpiStatus =
        MpiStatus { source: abi::MPI_UNDEFINED, tag: abi::MPI_ANY_TAG, bytes: 0, cancelled: false };
    /// What receiving from `MPI_PROC_NULL` gives (section 3.10).
    pub const PROC_NULL: MpiStatus =
        MpiStatus { source: abi::MPI_PROC_NULL, tag: abi::MPI_ANY_TAG, bytes: 0, cancelled: false };
}

impl From<weft_engine::Status> for MpiStatus {
    #[inline]
    fn from(status: weft_engine::Status) -> MpiStatus {
        MpiStatus {
            source: status.source.0 as i32,
            tag: status.tag.0,
            bytes: status.bytes,
            cancelled: status.cancelled,
        }
    }
}

/// How a request ended, as its completing call reports it.
#[derive(Debug)]
pub struct Done {
    /// The status.
    pub status: MpiStatus,
    /// What went wrong, if anything did.
    pub error: Option<Error>,
    /// The communicator whose error handler is due; the null communicator when there is none.
    pub comm: Handle,
    /// Whether the handle stays (persistent requests).
    pub keeps_handle: bool,
    /// Callbacks due, when the request was a generalized one.
    pub generalized: Option<Generalized>,
    /// A communicator that was made, and where the program wants its handle.
    pub made: Option<(usize, Handle)>,
}

impl Done {
    /// An operation that went well, on no communicator.
    pub fn new(status: MpiStatus) -> Done {
        Done {
            status,
            error: None,
            comm: Handle(abi::MPI_COMM_NULL),
            keeps_handle: false,
            generalized: None,
            made: None,
        }
    }

    /// How a request of an engine ended, with its owner word.
    #[inline]
    pub fn of(completion: Completion, owner: u32) -> Done {
        Done {
            error: completion.error,
            comm: Handle(owner & !COLLECTIVE),
            ..Done::new(completion.status.into())
        }
    }
}

/// Bit of an engine request's owner word that marks a collective; the rest is the communicator's handle.
pub const COLLECTIVE: u32 = 1 << 31;

/// A generalized request (section 13.2): addresses of its functions, called by the C boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generalized {
    /// `query_fn`
    pub query: usize,
    /// `free_fn`
    pub free: usize,
    /// `cancel_fn`
    pub cancel: usize,
    /// Handed to all of them.
    pub extra_state: usize,
    /// Whether `MPI_Grequest_complete` was called.
    pub complete: bool,
    /// Whether `MPI_Request_free` was called; then `free_fn` runs at completion.
    pub released: bool,
}

/// A nonblocking communicator construction.
#[derive(Debug)]
pub struct Making {
    /// The construction, until it is over.
    pub construction: Option<Construction>,
    /// How it ended.
    pub outcome: Result<Option<Handle>>,
    /// The parent, whose error handler is due.
    pub parent: Handle,
    /// Where the program wants the handle: an address for the C boundary. 0 when nobody asks for it.
    pub place: usize,
}

/// Requests that are not one request of the engine.
#[derive(Debug)]
pub enum Local {
    /// A finished receive from `MPI_PROC_NULL`.
    NullReceive,
    /// A persistent request.
    Persistent(Box<Persistent>),
    /// Both halves of a nonblocking sendrecv.
    Pair {
        /// The send; the null handle once it was taken.
        send: Handle,
        /// The receive.
        receive: Handle,
        /// Its communicator.
        comm: Handle,
    },
    /// A generalized request.
    Generalized(Generalized),
    /// A flush of a buffer: done when what was in it has left.
    Flush(Content),
    /// A buffered send: complete from the start, unless it was marked for cancellation.
    Buffered {
        /// Its message.
        serial: Serial,
        /// Whether `MPI_Cancel` was called.
        cancelling: bool,
    },
    /// A communicator being made (`MPI_Comm_idup`).
    Construction(Box<Making>),
    /// A one-sided operation, and its window.
    OneSided(crate::window::Operation, Handle),
    /// A partitioned send.
    PartitionedSend(Box<SendSide>),
    /// A partitioned receive.
    PartitionedReceive(Box<ReceiveSide>),
}

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `MPI_REQUEST_NULL`
    Null,
    /// A send that was complete when it started.
    CompleteSend,
    /// A request of the engine.
    Engine(RequestId),
    /// A request of another lane.
    Lane(RequestId),
    /// An entry of the table.
    Local(Handle),
}

/// The table of requests that are not the engine's.
#[derive(Debug)]
pub struct Requests {
    pub(crate) locals: Table<Local>,
    pub(crate) watched: Watched,
    /// Buffered sends, which flush requests and the sends' own requests look at.
    pub buffers: Buffers,
    lanes: Arc<Lanes>,
}

impl Default for Requests {
    fn default() -> Requests {
        Requests::of(&Arc::default())
    }
}

/// The handle of a request of the engine.
#[inline]
pub const fn engine_handle(id: RequestId) -> Handle {
    Handle((HandleKind::Request as u32) << 27 | id.0)
}

/// The engine's number in the handle of a request of lane 0: what [`engine_handle`] was given.
#[inline(always)]
pub(crate) fn engine_request(handle: Handle) -> RequestId {
    RequestId(handle.0 & ((1 << 27) - 1))
}

/// The handle of what a send call started.
#[inline]
pub const fn started_handle(started: Started) -> Handle {
    match started {
        Started::Complete => engine_handle(RequestId::COMPLETE),
        Started::Pending(id) => engine_handle(id),
    }
}

impl Requests {
    /// None, of a process with these lanes.
    pub fn of(lanes: &Arc<Lanes>) -> Requests {
        let locals = Table::new(HandleKind::LocalRequest);
        Requests {
            locals,
            watched: Watched::default(),
            buffers: Buffers::of(lanes),
            lanes: Arc::clone(lanes),
        }
    }

    /// Lends the engine of a request of another lane.
    fn on_lane<R>(&self, request: RequestId, work: impl FnOnce(&mut Engine) -> R) -> R {
        self.lanes.at(request.lane()).with(|inner| work(&mut inner.engine))
    }

    /// Finds out what a handle stands for.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` for a stale or foreign handle.
    #[inline]
    pub fn kind(&self, engine: &Engine, handle: Handle) -> Result<Kind> {
        if handle.kind_bits() == HandleKind::Request as u32 {
            let id = engine_request(handle);
            if id == RequestId::COMPLETE {
                return Ok(Kind::CompleteSend);
            }
            if engine.exists(id) {
                return Ok(Kind::Engine(id));
            }
            return Err(stale(HandleKind::Request, handle, true));
        }
        if handle.0 == abi::MPI_REQUEST_NULL {
            return Ok(Kind::Null);
        }
        match self.locals.find(handle) {
            Some(_) => Ok(Kind::Local(handle)),
            None => match self.in_lane(handle) {
                Some(id) => Ok(Kind::Lane(id)),
                None => Err(self.explain(handle)),
            },
        }
    }

    /// The request of another lane that a handle names.
    #[cold]
    #[inline(never)]
    fn in_lane(&self, handle: Handle) -> Option<RequestId> {
        if handle.kind_bits() == HandleKind::LaneRequest as u32 { self.lanes.find(handle) } else { None }
    }

    #[cold]
    fn explain(&self, handle: Handle) -> Error {
        if handle.kind_bits() == HandleKind::LaneRequest as u32 {
            return stale(HandleKind::LaneRequest, handle, true);
        }
        if handle.kind_bits() == HandleKind::LocalRequest as u32 {
            return self.locals.get(handle).expect_err("looked up before");
        }
        stale(HandleKind::Request, handle, false)
    }

    /// As [`Table::remember_places`].
    pub(crate) fn remember_places(&mut self, place: fn() -> String) {
        self.locals.remember_places(place);
    }

    /// Every request of the table, and where it was made, if that was remembered.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, Option<&str>)> {
        self.locals.iter().map(|(handle, _)| (handle, self.locals.site(handle)))
    }

    /// Whether a request of the table has `inner` as its part.
    pub(crate) fn contains(&self, inner: Handle) -> bool {
        self.locals.iter().any(|(_, local)| match local {
            Local::Persistent(persistent) => persistent.active() == Some(inner),
            Local::Pair { send, receive, .. } => *send == inner || *receive == inner,
            _ => false,
        })
    }

    /// Keeps a request.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn insert(&mut self, local: Local) -> Result<Handle> {
        self.locals.insert(local)
    }

    /// The entry of a handle whose kind is [`Kind::Local`].
    pub fn local(&self, handle: Handle) -> &Local {
        self.locals.find(handle).expect("the kind was found out just now")
    }

    /// As [`Requests::local`], to change it.
    pub fn local_mut(&mut self, handle: Handle) -> &mut Local {
        self.locals.find_mut(handle).expect("the kind was found out just now")
    }

    /// The entry of a number that may be anybody's.
    pub(crate) fn find_local_mut(&mut self, handle: Handle) -> Option<&mut Local> {
        self.locals.find_mut(handle)
    }

    /// Whether a request that starts again later, or a construction, needs the channel of that communicator.
    pub(crate) fn keeps(&self, comm: Handle) -> bool {
        self.locals.iter().any(|(_, local)| match local {
            Local::Persistent(persistent) => persistent.comm == comm,
            Local::PartitionedSend(side) => side.comm == comm,
            Local::PartitionedReceive(side) => side.comm == comm,
            Local::Construction(making) => making.parent == comm && making.construction.is_some(),
            _ => false,
        })
    }

    /// Whether a persistent collective of the communicator has the tags of `run`.
    pub(crate) fn keeps_number(&self, comm: Handle, run: &ScheduleRun) -> bool {
        self.locals.iter().any(|(_, local)| match local {
            Local::Persistent(persistent) if persistent.comm == comm => match &persistent.operation {
                Operation::Collective(kept) => kept.channel().tag(0) == run.channel().tag(0),
                _ => false,
            },
            _ => false,
        })
    }

    /// Forgets the entry.
    pub fn forget(&mut self, handle: Handle) {
        let _ = self.locals.remove(handle);
    }

    /// Whether waiting for the request means anything: it is neither null nor an inactive persistent one.
    ///
    /// # Errors
    /// As [`Requests::kind`].
    #[inline]
    pub fn is_active(&self, engine: &Engine, handle: Handle) -> Result<bool> {
        Ok(match self.kind(engine, handle)? {
            Kind::Null => false,
            Kind::CompleteSend | Kind::Engine(_) | Kind::Lane(_) => true,
            Kind::Local(local) => match self.local(local) {
                Local::Persistent(persistent) => persistent.active().is_some(),
                Local::PartitionedSend(side) => side.is_active(),
                Local::PartitionedReceive(side) => side.is_active(),
                _ => true,
            },
        })
    }

    /// Whether an active request is complete. Makes no progress.
    #[inline]
    pub fn is_done(&self, engine: &Engine, handle: Handle) -> bool {
        match self.kind(engine, handle) {
            Ok(Kind::Engine(id)) => engine.is_complete(id),
            Ok(Kind::Lane(id)) => self.is_done_in_lane(id),
            Ok(Kind::Local(local)) => match self.local(local) {
                Local::NullReceive => true,
                Local::Persistent(persistent) => {
                    persistent.active().is_none_or(|inner| self.is_done(engine, inner))
                }
                Local::Pair { send, receive, .. } => {
                    self.is_done(engine, *send) && self.is_done(engine, *receive)
                }
                Local::Generalized(generalized) => generalized.complete,
                Local::Construction(making) => making.construction.is_none(),
                Local::OneSided(operation, _) => operation.is_done(),
                Local::PartitionedSend(side) => side.is_done(),
                Local::PartitionedReceive(side) => side.is_done(),
                Local::Flush(content) => self.buffers.is_flushed(engine, *content),
                Local::Buffered { serial, cancelling } => {
                    !cancelling || self.buffers.is_over(engine, *serial)
                }
            },
            Ok(Kind::Null | Kind::CompleteSend) | Err(_) => true,
        }
    }

    /// See [`crate::Process::watch`].
    pub(crate) fn watch(&self, engine: &mut Engine, handle: Handle) -> bool {
        match self.kind(engine, handle) {
            Ok(Kind::Engine(id)) => engine.watch(id),
            Ok(Kind::Lane(id)) => self.on_lane(id, |engine| engine.watch(id.local())),
            Ok(Kind::Local(local)) => match self.local(local) {
                Local::Persistent(persistent) => {
                    return persistent.active().is_none_or(|inner| self.watch(engine, inner));
                }
                &Local::Pair { send, receive, .. } => {
                    return self.watch(engine, send) && self.watch(engine, receive);
                }
                Local::NullReceive => {}
                _ => return false,
            },
            Ok(Kind::Null | Kind::CompleteSend) | Err(_) => {}
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn is_done_in_lane(&self, id: RequestId) -> bool {
        self.on_lane(id, |engine| engine.is_complete(id.local()))
    }

    #[cold]
    #[inline(never)]
    fn finish_in_lane(&self, id: RequestId) -> Done {
        self.on_lane(id, |engine| {
            let owner = engine.owner(id.local());
            Done::of(engine.take(id.local()), owner)
        })
    }

    /// Takes the result of a done request: it is gone, or inactive when persistent.
    pub fn finish(&mut self, engine: &mut Engine, handle: Handle) -> Done {
        match self.kind(engine, handle) {
            Ok(Kind::Engine(id)) => {
                let owner = engine.owner(id);
                Done::of(engine.take(id), owner)
            }
            Ok(Kind::Lane(id)) => self.finish_in_lane(id),
            Ok(Kind::Local(local)) => self.finish_local(engine, local),
            Ok(Kind::CompleteSend) => Done::new(MpiStatus::NO_MESSAGE),
            Ok(Kind::Null) | Err(_) => Done::new(MpiStatus::EMPTY),
        }
    }

    fn finish_local(&mut self, engine: &mut Engine, handle: Handle) -> Done {
        match self.local_mut(handle) {
            Local::Persistent(persistent) => {
                let comm = persistent.comm;
                let Some(inner) = persistent.end() else {
                    return Done { keeps_handle: true, ..Done::new(MpiStatus::EMPTY) };
                };
                let done = self.finish(engine, inner);
                Done { keeps_handle: true, comm, ..done }
            }
            &mut Local::Pair { send, receive, comm } => {
                self.forget(handle);
                let send = self.finish(engine, send);
                let receive = self.finish(engine, receive);
                Done { error: receive.error.or(send.error), comm, ..Done::new(receive.status) }
            }
            &mut Local::Generalized(generalized) => {
                self.forget(handle);
                Done { generalized: Some(generalized), ..Done::new(MpiStatus::NO_MESSAGE) }
            }
            Local::Construction(making) => {
                let (place, comm) = (making.place, making.parent);
                let outcome = std::mem::replace(&mut making.outcome, Ok(None));
                self.forget(handle);
                let nothing = Handle(abi::MPI_COMM_NULL);
                let made = Some((place, outcome.as_ref().ok().copied().flatten().unwrap_or(nothing)));
                Done { error: outcome.err(), comm, made, ..Done::new(MpiStatus::NO_MESSAGE) }
            }
            Local::OneSided(operation, window) => {
                let (error, window) = (operation.take_error(), *window);
                self.forget(handle);
                Done { error, comm: window, ..Done::new(MpiStatus::NO_MESSAGE) }
            }
            Local::PartitionedSend(side) => side.finish(),
            Local::PartitionedReceive(side) => side.finish(),
            Local::NullReceive => {
                self.forget(handle);
                Done::new(MpiStatus::PROC_NULL)
            }
            Local::Flush(_) => {
                self.forget(handle);
                Done::new(MpiStatus::NO_MESSAGE)
            }
            &mut Local::Buffered { serial, .. } => {
                let cancelled = self.buffers.was_cancelled(engine, serial);
                self.buffers.forget(serial);
                self.forget(handle);
                Done::new(MpiStatus { cancelled, ..MpiStatus::NO_MESSAGE })
            }
        }
    }

    /// The status of a done request, which stays as it is (section 3.7.6).
    pub fn peek(&self, engine: &Engine, handle: Handle) -> Done {
        match self.kind(engine, handle) {
            Ok(Kind::Engine(id)) => match engine.peek(id) {
                Some(completion) => Done::of(completion, engine.owner(id)),
                None => Done::new(MpiStatus::EMPTY),
            },
            Ok(Kind::Lane(id)) => self.on_lane(id, |engine| match engine.peek(id.local()) {
                Some(completion) => Done::of(completion, engine.owner(id.local())),
                None => Done::new(MpiStatus::EMPTY),
            }),
            Ok(Kind::Local(local)) => match self.local(local) {
                Local::Persistent(persistent) => match persistent.active() {
                    Some(inner) => {
                        Done { keeps_handle: true, comm: persistent.comm, ..self.peek(engine, inner) }
                    }
                    None => Done { keeps_handle: true, ..Done::new(MpiStatus::EMPTY) },
                },
                &Local::Pair { send, receive, comm } => {
                    let (send, receive) = (self.peek(engine, send), self.peek(engine, receive));
                    Done { error: receive.error.or(send.error), comm, ..Done::new(receive.status) }
                }
                Local::Generalized(generalized) => {
                    Done { generalized: Some(*generalized), ..Done::new(MpiStatus::NO_MESSAGE) }
                }
                Local::NullReceive => Done::new(MpiStatus::PROC_NULL),
                Local::Construction(making) => {
                    let error = making.outcome.as_ref().err().cloned();
                    Done { error, comm: making.parent, ..Done::new(MpiStatus::NO_MESSAGE) }
                }
                Local::OneSided(operation, window) => {
                    Done { error: operation.error(), comm: *window, ..Done::new(MpiStatus::NO_MESSAGE) }
                }
                Local::Flush(_) => Done::new(MpiStatus::NO_MESSAGE),
                &Local::Buffered { serial, .. } => {
                    let cancelled = self.buffers.was_cancelled(engine, serial);
                    Done::new(MpiStatus { cancelled, ..MpiStatus::NO_MESSAGE })
                }
                Local::PartitionedSend(side) => side.peek(),
                Local::PartitionedReceive(side) => side.peek(),
            },
            Ok(Kind::CompleteSend) => Done::new(MpiStatus::NO_MESSAGE),
            Ok(Kind::Null) | Err(_) => Done::new(MpiStatus::EMPTY),
        }
    }
}
