//! Lanes: independent engines of one process, each behind a lock of its own (design section 6, standard section 11.6).
//!
//! Lane 0 is [`crate::Process::engine`], under whatever lock the owner of the process has. The lanes here exist beside it,
//! from the moment when the first communicator needs them. A communicator lives in one lane, the same at all its members,
//! for good: its messages, probes, requests and collectives meet nobody else's.
//!
//! Invariants:
//! * A lane other than 0 is given only to communicators whose members all allow several threads (agreed on together with the
//!   channel, see [`crate::context`]) and, where they are on several nodes, all can open lanes that reach those
//!   (`crate::wide`). So a single-threaded process never sees one.
//! * Lock order: the process (lane 0), then one lane. Who holds a lane takes no other lock. Nothing under a lane's lock
//!   blocks or calls user code.
//! * A request or message of lane L has L in the bits of its identifier above the engine's own 27. As a handle it is of a
//!   kind of its own, with lane, a shortened generation and the slot.
//! * Whoever ends what another thread sleeps for rings the bell after giving the lock back ([`Lane::with`]).
//! * Whoever gives a lock back says whether messages wait there for company (`rows`), which calls that end something push out
//!   ([`Lanes::push_out`]).

mod handles;
mod rows;

pub use handles::{LANE_BITS, lane_of, message_handle, request_handle};
pub use weft_engine::LANES;
pub use weft_place::lanes::choose;
pub use weft_place::{CpuSet, LaneCore};

use crate::comm::Comm;
use crate::request::COLLECTIVE;
use handles::{GENERATION_BITS, SLOT_BITS, compose};
use rows::Rows;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use weft_engine::bias::{self, BiasedLock, Guard, Mine};
use weft_engine::{Callback, Ending, Engine, EngineBell, MessageId, RequestId, Selector, Status, Wide};
use weft_types::{Farewell, Handle, HandleKind, PeerId, Result};

/// Least lanes of a process whose threads may call at once, unless it is asked for fewer.
const LEAST: usize = 4;
/// Most lanes by the cores of the node where other processes use them, too: a lane that many processes talk in costs each of
/// them as many rings.
const MOST_SHARED: usize = 8;

/// How many lanes a process has, with lane 0, when its threads may call at once: as many as are asked for (`WEFT_LANES`); for 0
/// one more than it has cores, so that as many communicators as threads that run at once have a lane each. Its cores are its
/// share of the `cores` that `ranks` processes of the node use together, or as many as the launcher has chosen for its
/// `threads`.
pub fn number(asked: u32, cores: usize, ranks: usize, threads: usize) -> u32 {
    let own = (cores / ranks.max(1)).max(threads).saturating_add(1);
    let by_cores = own.max(cores.saturating_add(1).min(MOST_SHARED)).max(LEAST);
    (if asked == 0 { u32::try_from(by_cores).unwrap_or(u32::MAX) } else { asked }).min(LANES)
}

/// The NUMA node of a lane's core; lanes beyond the cores begin again with the first. `None` where the launcher has said no cores.
pub fn node(cores: &[LaneCore], lane: u32) -> Option<u32> {
    cores.get((lane as usize).checked_rem(cores.len())?)?.numa_node
}

/// What a lane's lock protects.
#[derive(Debug)]
pub struct Inner {
    /// What moves the lane's messages.
    pub engine: Engine,
    number: u32,
    /// The communicators of messages taken by matched probes, by what their handles show of their names.
    messages: HashMap<Handle, (MessageId, Handle)>,
}

impl Inner {
    /// The handle of a request of this lane.
    #[inline(always)]
    pub fn handle(&self, id: RequestId) -> Handle {
        compose(HandleKind::LaneRequest, id.0, self.number)
    }

    /// The request of a handle of this lane, without the lane's bits; `None` when it is stale.
    #[inline(always)]
    pub fn find(&self, handle: Handle) -> Option<RequestId> {
        let generation = handle.0 >> SLOT_BITS & ((1 << GENERATION_BITS) - 1);
        self.engine.recall(handle.slot(), generation, (1 << GENERATION_BITS) - 1)
    }

    /// Whether a handle of this lane names a request.
    #[inline(always)]
    pub fn has(&self, handle: Handle) -> bool {
        self.find(handle).is_some()
    }

    /// Takes a request of this lane that has ended well; `None` leaves it as it is.
    #[inline(always)]
    pub fn take_well(&mut self, handle: Handle) -> Option<Status> {
        let id = self.find(handle)?;
        (self.engine.ending(id) == Ending::Well).then(|| self.engine.take_well(id))
    }

    /// Gives a local request its place among all.
    #[inline]
    pub fn global(&self, id: RequestId) -> RequestId {
        id.in_lane(self.number)
    }

    /// Takes a matching message out and remembers its communicator (section 3.8.2).
    pub fn take_message(&mut self, selector: Selector, comm: Handle) -> Option<(MessageId, Status)> {
        let (id, status) = self.engine.improbe(selector)?;
        let id = id.in_lane(self.number);
        self.messages.insert(message_handle(id), (id, comm));
        Some((id, status))
    }

    /// The message of a handle and its communicator; `None` when it was received already.
    pub fn message(&self, handle: Handle) -> Option<(MessageId, Handle)> {
        self.messages.get(&handle).copied()
    }

    /// Forgets a message whose receive has begun.
    pub fn forget_message(&mut self, handle: Handle) {
        self.messages.remove(&handle);
    }
}

/// One lane. Alone on its lines: each is written by the thread that works with it.
#[derive(Debug)]
#[repr(align(128))]
pub struct Lane {
    inner: BiasedLock<Inner>,
    /// Threads that sleep, or are about to, for something here that is no request: any change must ring.
    watchers: AtomicU32,
    /// Threads that sleep, or are about to, for something of the process: progress here that moves something must ring.
    followers: AtomicU32,
    /// Threads in blocked calls on this lane: they move it.
    attendants: AtomicU32,
    /// Calls on this lane so far, written under the lock. Others see from it whether somebody works with the lane.
    calls: AtomicU64,
    /// Whether it reaches other nodes. Written under the process's lock.
    wide: AtomicBool,
    /// Of all lanes.
    rows: Rows,
}

impl Lane {
    fn new(mut engine: Engine, number: u32, rows: Rows) -> Lane {
        let wide = AtomicBool::new(engine.takes_wide());
        if rows.are_kept() {
            engine.keep_company(true);
        }
        Lane {
            wide,
            rows,
            inner: BiasedLock::new(Inner { engine, number, messages: HashMap::new() }, number as usize),
            watchers: AtomicU32::new(0),
            followers: AtomicU32::new(0),
            attendants: AtomicU32::new(0),
            calls: AtomicU64::new(0),
        }
    }

    /// Locks for a call of the program.
    #[inline]
    fn enter(&self) -> Guard<'_, Inner> {
        let inner = self.inner.lock();
        // No read-modify-write: the lock is held.
        self.calls.store(self.calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        inner
    }

    /// The lane, for the thread to whom its lock is biased; `None` to others. Given back with [`Own::end`] after an operation
    /// that can neither end a request nor let a probe find something (a send to another process, a receive that is posted),
    /// otherwise with [`Own::leave`]. Not where messages wait for company, which is not noted here.
    #[inline(always)]
    pub fn own(&self, mine: Mine) -> Option<Own<'_>> {
        let inner = self.inner.own(mine)?;
        self.calls.store(self.calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        Some(Own { inner, lane: self })
    }

    /// Wakes the sleepers of this process, from outside the lock.
    #[cold]
    #[inline(never)]
    fn ring(&self) {
        ring(self.inner.lock());
    }

    /// Lends the lane for an operation that may change what others wait for.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.enter();
        let result = work(&mut inner);
        self.rows.note(inner.number, &inner.engine);
        // Relaxed: who watches counted itself before it took this lock for its last look.
        let rings = inner.engine.take_ended_watched() || self.watchers.load(Ordering::Relaxed) != 0;
        if rings {
            ring(inner);
        }
        result
    }

    /// Lends the lane for an operation that answers first whether it changed what others may wait for.
    #[inline]
    pub fn visit<R>(&self, work: impl FnOnce(&mut Inner) -> (bool, R)) -> R {
        let mut inner = self.enter();
        let (changed, result) = work(&mut inner);
        self.rows.note(inner.number, &inner.engine);
        if self.rings(&mut inner, changed) {
            ring(inner);
        }
        result
    }

    /// Whether sleepers must be woken; `changed`: something moved that they may wait for.
    #[inline(always)]
    fn rings(&self, inner: &mut Inner, changed: bool) -> bool {
        let watched = || self.watchers.load(Ordering::Relaxed) + self.followers.load(Ordering::Relaxed) != 0;
        inner.engine.take_ended_watched() || changed && watched()
    }

    /// Lends the lane for a look, or for what changes nothing that others wait for.
    #[inline]
    pub fn look<R>(&self, work: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.enter();
        let result = work(&mut inner);
        if inner.engine.take_ended_watched() {
            ring(inner);
        }
        result
    }

    /// One round of progress, then a look. Rings when something moved that others may wait for.
    #[inline]
    pub fn turn<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> Turn<T> {
        self.turn_of(self.inner.lock(), look)
    }

    /// As [`Lane::turn`] for a thread that does not work with this lane.
    pub fn help(&self) -> Turn<()> {
        self.turn_of(self.inner.lock_to_help(), |_| ())
    }

    /// As [`Lane::help`], by a thread that runs no functions of the program: those that became due stay.
    pub fn help_silently(&self) -> bool {
        let mut inner = self.inner.lock_to_help();
        let moved = inner.engine.progress();
        self.rows.note(inner.number, &inner.engine);
        if self.rings(&mut inner, moved) {
            ring(inner);
        }
        moved
    }

    /// As [`Lane::help`]; `None` when somebody else holds the lane, or works with it so much that the lock is biased to him.
    pub fn try_help(&self) -> Option<Turn<()>> {
        Some(self.turn_of(self.inner.try_lock_to_help()?, |_| ()))
    }

    #[inline]
    fn turn_of<T>(&self, mut inner: Guard<'_, Inner>, look: impl FnOnce(&mut Inner) -> T) -> Turn<T> {
        let moved = inner.engine.progress();
        let found = look(&mut inner);
        let callback = inner.engine.take_callback();
        self.rows.note(inner.number, &inner.engine);
        if self.rings(&mut inner, moved) {
            ring(inner);
        }
        Turn { moved, found, callback }
    }

    /// Whether it reaches other nodes, by an end of its own on the fabric.
    pub fn is_wide(&self) -> bool {
        // Relaxed: whoever acts on it takes the lane's lock.
        self.wide.load(Ordering::Relaxed)
    }

    /// From now on it reaches other nodes. By who holds the process.
    pub(crate) fn widen(&self, end: Wide) {
        self.with(|inner| {
            inner.engine.widen(end);
            if self.rows.are_kept() {
                inner.engine.keep_company(true);
            }
        });
        self.wide.store(true, Ordering::Relaxed);
    }

    /// A process of another node is lost, or cannot be reached, as lane 0, whose engine is given, has found out.
    pub(crate) fn hear_gone(&self, peer: PeerId, first: &Engine) {
        match first.unreached(peer) {
            Some(error) => self.with(|inner| inner.engine.cannot_reach(peer, error.clone())),
            None => self.hear_lost(peer),
        }
    }

    /// A process of another node is lost, or has no end of this lane.
    pub(crate) fn hear_lost(&self, peer: PeerId) {
        self.with(|inner| inner.engine.hear_lost(peer));
    }

    /// A process of another node has said farewell, as lane 0 has heard.
    pub(crate) fn hear_parted(&self, peer: PeerId, farewell: Farewell) {
        self.with(|inner| inner.engine.hear_parted(peer, farewell));
    }

    /// Its bell, which alone knows its end on the fabric.
    fn bell(&self) -> EngineBell {
        self.inner.lock_to_help().engine.bell()
    }

    /// What was sent here leaves now. `own`: the calling thread has sent some of it; otherwise what another thread sent that has the
    /// lane to itself is left to it.
    fn push_out(&self, own: bool) {
        if let Some(mut inner) = self.inner.lock_to_push(own) {
            inner.engine.push_out();
            self.rows.note(inner.number, &inner.engine);
        }
    }

    /// Counts the calling thread among those that any change here must wake, until [`Lane::unwatch`].
    pub fn watch(&self) {
        self.watchers.fetch_add(1, Ordering::SeqCst);
    }

    /// Marks requests of this lane that the calling thread is about to sleep for; its next look sees those that have ended.
    pub fn watch_requests(&self, requests: &[Handle]) {
        self.with(|inner| {
            for &request in requests {
                if let Some(id) = inner.find(request) {
                    inner.engine.watch(id);
                }
            }
        });
    }

    /// Ends [`Lane::watch`].
    pub fn unwatch(&self) {
        self.watchers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts the calling thread among those that progress here must wake, until [`Lane::unfollow`].
    pub fn follow(&self) {
        self.followers.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends [`Lane::follow`].
    pub fn unfollow(&self) {
        self.followers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts the calling thread among those that move this lane, until [`Lane::leave`].
    pub fn attend(&self) {
        self.attendants.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends [`Lane::attend`].
    pub fn leave(&self) {
        self.attendants.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether nobody is blocked here, and the calls so far.
    pub fn attendance(&self) -> (bool, u64) {
        (self.attendants.load(Ordering::Relaxed) == 0, self.calls.load(Ordering::Relaxed))
    }
}

/// A lane, lent to the thread to whom its lock is biased.
#[derive(Debug)]
pub struct Own<'a> {
    /// What the lock protects.
    pub inner: bias::Own<'a, Inner>,
    lane: &'a Lane,
}

impl Own<'_> {
    /// Gives the lane back after what concerns nobody else.
    #[inline(always)]
    pub fn end(self) {
        self.inner.end();
    }

    /// Gives the lane back; `changed`: something moved that others may wait for.
    #[inline(always)]
    pub fn leave(mut self, changed: bool) {
        let rings = self.lane.rings(&mut self.inner, changed);
        self.inner.end();
        if rings {
            self.lane.ring();
        }
    }
}

/// What came of a round of progress.
#[derive(Debug)]
pub struct Turn<T> {
    /// Whether something moved.
    pub moved: bool,
    /// What the look found.
    pub found: T,
    /// A user function that became due, to be run without the lane and given back to it.
    pub callback: Option<Callback>,
}

/// Wakes the sleepers of this process, after the lane's lock is free.
#[cold]
#[inline(never)]
fn ring(inner: Guard<'_, Inner>) {
    let (bell, number) = (inner.engine.bell(), inner.number);
    drop(inner);
    bell.ring(number);
}

/// The lanes of a process but lane 0, each made when it is first needed.
#[derive(Debug, Default)]
pub struct Lanes {
    /// Boxed: most processes have few.
    lanes: [OnceLock<Box<Lane>>; LANES as usize],
    /// Those that are open, one bit each.
    open: AtomicU32,
    rows: Rows,
}

impl Lanes {
    /// A lane that exists. Lane 0 is not here.
    #[inline]
    pub fn get(&self, lane: u32) -> Option<&Lane> {
        self.lanes.get(lane as usize)?.get().map(|lane| &**lane)
    }

    /// A lane that a communicator, request or message names: it was opened when the communicator was made.
    ///
    /// # Panics
    /// When it was not: an invariant of this module.
    #[inline]
    pub fn at(&self, lane: u32) -> &Lane {
        match self.get(lane) {
            Some(lane) => lane,
            None => unreachable!("lane {lane} is opened before anything is named after it"),
        }
    }

    /// Opens a lane unless it is open. The caller holds the process, so two never do it at once.
    ///
    /// # Errors
    /// As [`Engine::open_lane`].
    pub fn open(&self, lane: u32, process: &Engine, wide: Option<Wide>) -> Result<()> {
        if lane != 0 && self.get(lane).is_none() {
            self.adopt(lane, process.open_lane(lane, wide)?);
        }
        Ok(())
    }

    /// As [`Lanes::open`], of a lane that is not open, with this engine.
    pub(crate) fn adopt(&self, lane: u32, engine: Engine) {
        let made = Box::new(Lane::new(engine, lane, self.rows.clone()));
        assert!(self.lanes[lane as usize].set(made).is_ok(), "the caller holds the process");
        // Release: who sees the bit finds the lane in its cell.
        self.open.fetch_or(1 << lane, Ordering::Release);
    }

    /// Messages of several calls may wait for each other from now on, where that gains anything: whoever lets a thread go on without
    /// MPI calls [`Lanes::push_out`] before. Whether lane 0, whose engine this is, has a transport that gains.
    pub fn keep_company(&self, first: &mut Engine) -> bool {
        let keeps = first.keep_company(true);
        self.rows.keep(keeps);
        keeps
    }

    /// Says whether messages wait for company in lane 0, whose lock the caller is about to give back.
    #[inline(always)]
    pub fn note_first(&self, engine: &Engine) {
        self.rows.note(0, engine);
    }

    /// The calling thread completes sends of which nobody knows by whom they were begun, nor in which lane: its next
    /// [`Lanes::push_out`] takes all for its own.
    #[cold]
    #[inline(never)]
    pub fn complete_sends(&self) {
        rows::own_all();
    }

    /// Lets what was sent in lanes leave, and answers whether something waits in lane 0, and whether the calling thread has sent some of
    /// that. The caller holds no lock.
    pub fn push_out(&self) -> Option<bool> {
        let (mut waiting, own) = self.rows.take();
        let first = (waiting & 1 != 0).then_some(own & 1 != 0);
        waiting &= !1;
        while waiting != 0 {
            let number = waiting.trailing_zeros();
            waiting &= waiting - 1;
            if let Some(lane) = self.get(number) {
                lane.push_out(own >> number & 1 != 0);
            }
        }
        first
    }

    /// All that are open.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Lane)> {
        let mut open = self.open.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            let number = open.trailing_zeros();
            // No lane has the number that an empty word gives.
            let lane = self.get(number)?;
            open &= open - 1;
            Some((number, lane))
        })
    }

    /// The next arming of a bell of lane 0 listens to these lanes, one bit each. Their locks are taken for a moment: the caller
    /// holds none.
    pub fn listen(&self, bell: &EngineBell, lanes: u32) {
        bell.listen(lanes);
        for (number, lane) in self.iter() {
            if lanes >> number & 1 != 0 && lane.is_wide() {
                bell.listen_to(&lane.bell());
            }
        }
    }

    /// The request of a handle of kind [`HandleKind::LaneRequest`]; `None` when it is stale or of a lane that is not open.
    pub fn find(&self, handle: Handle) -> Option<RequestId> {
        self.get(lane_of(handle))?.with(|inner| Some(inner.global(inner.find(handle)?)))
    }

    /// Whether nothing is under way in any lane that finalize must wait for.
    pub fn are_quiet(&self) -> bool {
        self.iter().all(|(_, lane)| lane.with(|inner| inner.engine.is_quiet()))
    }
}

/// Marks a request as one of `comm`, for error handlers.
pub fn tag(engine: &mut Engine, request: RequestId, comm: &Comm, collective: bool) {
    engine.tag_request(request, comm.handle.0 | if collective { COLLECTIVE } else { 0 });
}

#[cfg(test)]
mod tests;
