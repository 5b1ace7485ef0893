//! The one static: this process's MPI state, and who may touch it when.
//!
//! Invariants:
//! * [`Process`] is reached through [`with`], and by the short forms of calls through [`alone()`] and [`own`], which keep the
//!   same rules. What runs inside never calls user code (reduction, attribute and error handler functions run outside), never
//!   blocks and never calls `with` again, so there is one borrow at a time.
//! * Below MPI_THREAD_SERIALIZED one thread calls MPI (section 11.6.2), and there is no lock: two plain stores say whether it has the
//!   process. From that level on ([`LOCKED`]) a lock is held inside `with`, which is never while waiting; it is biased to a thread
//!   that works with the process alone (`weft_shm::bias`), which then pays no read-modify-write. Any thread may open a session at any
//!   time (section 11.3.1), also beside a call of another. At MPI_THREAD_SERIALIZED the lock is there for it; below, locks are
//!   switched on by the thread that makes those calls, which is in no other then, or by another, which waits until that one does not
//!   have the process ([`mod@alone`]). They are never switched off.
//! * Blocked calls loop in [`wait_for`] (or, on one lane, in `crate::threads`): each turn progresses what is waited for, every
//!   few turns everything of the process, then waits outside all locks.
//! * What must work at any time from any thread (section 11.4.1) lies in [`Always`] behind its own mutex.
//!
//! With locks the process's one guards lane 0 and all objects; every other lane has its own
//! (`weft::lanes`). Lock order: the process, then one lane; who holds a lane takes nothing more. A thread reaches a lane
//! without the process's lock through what it remembers of communicators and datatypes (`crate::snapshot`).
//!
//! # Who wakes whom
//! A thread sleeps on the bells of the lanes that can bring what it waits for, and of those that nobody else looks after;
//! packets for these lanes ring them. What a thread does to another without a packet it must ring for itself:
//! * A sleeper arms the bell, marks what it waits for, then looks once more at everything under the locks, then sleeps. The
//!   marks: the engine's requests it waits for (`Engine::watch`), and where that is not all, a count of watchers of the process
//!   or of the lane.
//! * Who gives a lock back rings when a marked request ended under it; when there are watchers and it did more than look;
//!   when there are watchers and its progress moved something.
//!
//! Either the change came first, and the sleeper's last look, under the same lock, saw it; or it came after that look, and
//! then the lock passed the marks and the armed bell on to whoever changes something, so that it rings. Nothing here needs
//! an order of its own. (The packets' own argument is `weft_shm::bell`'s; the last look waits for locks, because a thread
//! that holds one may have looked for packets before the bell was armed.)
//!
//! A lane in which some thread is blocked, or was busy since the sleeper's last look, is left to that thread: otherwise every
//! packet would wake the sleeper for nothing. Should that thread leave MPI with work undone, a sleeper takes over within
//! `around::LEFT_TO_OTHERS`.
//!
//! `simulated.rs` runs blocked calls of several threads in a process that keeps these rules, step by step.

mod abort;
pub(crate) mod agent;
mod alone;
mod around;
mod blocked;
mod company;
pub(crate) mod lane_threads;
mod own;
mod phase;
#[cfg(test)]
mod simulated;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use weft::Process;
use weft::always::Always;
use weft::attributes::Cache;
use weft::collective::Planner;
use weft::comm::Changes;
use weft::group::NamedGroups;
use weft::lanes::{Lanes, Turn};
use weft_engine::bias::{BiasedLock, Guard};
use weft_engine::handover::{self, Announced};
use weft_types::{Error, ErrorClass};

pub(crate) use self::abort::{abort, abort_ranks};
pub(crate) use self::alone::{Alone, alone, enter_alone, from_any_thread};
pub(crate) use self::around::Real;
pub(crate) use self::blocked::until;
pub(crate) use self::company::{complete_sends, keep_company, push_out};
pub(crate) use self::own::{Own, own};
pub(crate) use self::phase::{change_phase, phase};
use crate::raise::Raised;
use crate::watch::{Awaited, Wait};

/// Bit of the phase: between `MPI_Init` and the end of `MPI_Finalize`.
pub(crate) const WORLD: u32 = 1;
/// Bit of the phase: at least one session is open.
pub(crate) const SESSION: u32 = 2;
/// Bit of the phase: calls take locks, because more than one thread makes them.
pub(crate) const LOCKED: u32 = 4;
/// Bit of the phase: `MPI_Init` was called, for `MPI_Initialized`.
pub(crate) const INITIALIZED: u32 = 8;
/// Bit of the phase: `MPI_Finalize` is over.
pub(crate) const FINALIZED: u32 = 16;
/// Bit of the phase: this is a child that `fork` made of an MPI process.
pub(crate) const FORKED: u32 = 32;
/// Bit of the phase, beside [`LOCKED`]: several threads may call at once.
pub(crate) const MULTIPLE: u32 = 64;
/// Bit of the phase, beside [`MULTIPLE`]: the program has asked for MPI_THREAD_MULTIPLE by its name, so its functions may run
/// in any thread. A session of another level, or of none, has threads of its own and says nothing of that.
pub(crate) const ANY_THREAD: u32 = 128;

/// Bit of the phase: messages of several calls may wait for each other on a fabric, so that calls that end something push them
/// out ([`push_out`]).
pub(crate) const COMPANY: u32 = 512;

/// Bit of the phase: neither [`WORLD`] nor [`SESSION`]. Kept by [`change_phase`], so that the short forms of calls learn from one
/// test of bits whether they may go on.
const CLOSED: u32 = 256;

struct Gate {
    phase: AtomicU32,
    /// Whether the process is lent without a lock.
    inside: alone::Inside,
    process: UnsafeCell<Option<Process>>,
    /// Held while the process is made.
    starting: Mutex<()>,
    always: Mutex<Always>,
    /// What threads reach without the process.
    shared: OnceLock<Shared>,
    /// Threads that sleep, or are about to, for something of the process that is no request of an engine.
    watchers: AtomicU32,
    /// Threads that have communicated in lanes, or taken the process's lock by a short form, and have not ended.
    threads: AtomicU32,
    /// Those of them that look at lane 0.
    attendants: AtomicU32,
    /// Calls through the gate so far, written under the lock.
    calls: AtomicU64,
    /// Whether partitions were marked that nobody has looked at.
    marks: Announced,
    /// The thread that called `MPI_Init`.
    main_thread: OnceLock<ThreadId>,
    /// The thread that opened the World Model or the latest session. Held while either opens.
    alone: Mutex<Option<ThreadId>>,
}

/// What threads reach without the process's lock.
pub(crate) struct Shared {
    /// The lock of the process.
    lock: BiasedLock<()>,
    /// The lanes other than lane 0.
    pub(crate) lanes: Arc<Lanes>,
    /// Whether what a thread remembers of communicators, datatypes and partitioned requests is still true.
    pub(crate) changes: Arc<Changes>,
    /// Whether what it remembers of attributes is.
    pub(crate) answers: Changes,
    /// The groups with a handle.
    pub(crate) groups: Arc<NamedGroups>,
    /// Attribute keys and attributes.
    pub(crate) cache: Arc<Cache>,
    /// Whether anything was derived from a session, so that the process knows more of objects than they do.
    derived: Arc<AtomicBool>,
    /// How nonblocking collectives begin in lanes; `None` where all go through the process.
    pub(crate) planner: Option<Planner>,
    /// The rank in the job.
    pub(crate) rank: u32,
    /// Whether ranks outnumber cores.
    oversubscribed: bool,
    /// How often a blocking receive looks before it posts a request.
    spins: u32,
    /// Threads of each rank that have a core to wait on.
    cores_each: u32,
}

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Shared>();
};

// SAFETY: the only part that is not Sync is `process`; the module's invariants serialise every access to it.
unsafe impl Sync for Gate {}

static GATE: Gate = Gate {
    phase: AtomicU32::new(CLOSED),
    inside: alone::Inside::new(),
    process: UnsafeCell::new(None),
    starting: Mutex::new(()),
    always: Mutex::new(Always::new()),
    shared: OnceLock::new(),
    watchers: AtomicU32::new(0),
    threads: AtomicU32::new(0),
    attendants: AtomicU32::new(0),
    calls: AtomicU64::new(0),
    marks: Announced::new(),
    main_thread: OnceLock::new(),
    alone: Mutex::new(None),
};

/// Fails unless the World Model or a session is active.
#[inline(always)]
pub(crate) fn check_active() -> Result<(), Raised> {
    if phase::has::<{ WORLD | SESSION }>() { Ok(()) } else { Err(not_active()) }
}

#[cold]
#[inline(never)]
fn not_active() -> Raised {
    let text = if phase() & FORKED != 0 {
        "this process was made by fork from an MPI process and cannot use MPI; only a program started anew (exec) can"
    } else if phase() & FINALIZED == 0 {
        "MPI is not initialised: call MPI_Init, MPI_Init_thread or MPI_Session_init first"
    } else {
        "MPI_Finalize was called before: communication must come before it, or use a session of its own (MPI_Session_init)"
    };
    Error::new(ErrorClass::OTHER, text).into()
}

/// Makes the process, unless it exists.
///
/// # Errors
/// As [`Process::start`].
pub(crate) fn start() -> weft_types::Result<()> {
    let _guard = locked(&GATE.starting);
    // SAFETY: one thread at a time is here; before the first start nobody is inside `with`, because no phase bit is set, and
    // afterwards the process is left alone.
    let process = unsafe { &mut *GATE.process.get() };
    if process.is_none() {
        let started = process.insert(Process::start_with(always(|always| always.tools.settings()))?);
        let ranks = started.job.local_ranks.len().max(1);
        let shared = Shared {
            // The lanes have the places of their numbers.
            lock: BiasedLock::new((), 0),
            lanes: Arc::clone(&started.lanes),
            changes: Arc::clone(&started.comms.changes),
            answers: Changes::default(),
            groups: Arc::clone(&started.groups),
            cache: Arc::clone(&started.cache),
            derived: started.sessions.derived(),
            planner: started.planner(),
            rank: started.job.rank,
            oversubscribed: started.spins() == 1,
            spins: started.spins(),
            cores_each: u32::try_from(started.job.cores / ranks).unwrap_or(u32::MAX),
        };
        let _ = GATE.shared.set(shared);
        crate::watch::start(started);
        crate::leftovers::start(started);
        STARTED.store(true, Ordering::Release);
    }
    Ok(())
}

/// What threads reach without the process's lock.
#[inline]
pub(crate) fn shared() -> &'static Shared {
    match GATE.shared.get() {
        Some(shared) => shared,
        None => nothing_started(),
    }
}

impl Shared {
    /// Whether all objects are of the World Model.
    pub(crate) fn no_sessions(&self) -> bool {
        !self.derived.load(Ordering::Acquire)
    }
}

/// Whether MPI was ever started in this process: parameters are fixed then.
pub(crate) fn started() -> bool {
    STARTED.load(Ordering::Acquire)
}

/// Set once the process exists.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Whether the World Model or a session is active, without locks.
#[inline(always)]
pub(crate) fn is_active_alone() -> bool {
    !phase::has::<{ CLOSED | LOCKED }>()
}

/// Whether the World Model or a session is active, calls take locks, and no messages wait for each other: what the short forms of calls
/// with locks need, which say of no lane that something waits there (`weft::lanes`, `rows`), and push out nothing. Where messages do wait each
/// costs system calls, beside which the long forms are nothing.
#[inline(always)]
pub(crate) fn is_active_with_threads() -> bool {
    phase() & (CLOSED | LOCKED | COMPANY) == LOCKED
}

/// Lends the process. Only after [`start`], which every caller's phase check implies.
#[inline(always)]
pub(crate) fn with<R>(work: impl FnOnce(&mut Process) -> R) -> R {
    // SAFETY: only after `start`, and `work` does not come back here.
    match unsafe { alone() } {
        Some(mut alone) => work(alone.process()),
        None => with_lock(work),
    }
}

/// [`with`], with several threads.
#[cold]
#[inline(never)]
fn with_lock<R>(work: impl FnOnce(&mut Process) -> R) -> R {
    let guard = shared().lock.lock();
    // No read-modify-write: the lock is held.
    GATE.calls.store(GATE.calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    // SAFETY: the lock is held, and `work` does not come back here.
    let Some(process) = (unsafe { &mut *GATE.process.get() }) else { nothing_started() };
    let result = work(process);
    give_back(guard, true);
    result
}

/// As [`with_lock`], for progress and looks, which answer first whether something moved: watchers need not hear of others.
fn look<R>(work: impl FnOnce(&mut Process) -> (bool, R)) -> (bool, R) {
    let guard = shared().lock.lock();
    // SAFETY: as in `with_lock`.
    let Some(process) = (unsafe { &mut *GATE.process.get() }) else { nothing_started() };
    let result = work(process);
    give_back(guard, result.0);
    result
}

/// Wakes the sleepers of this process, from outside the lock.
#[cold]
#[inline(never)]
fn ring() {
    look(|process| (false, process.bell())).1.ring(0);
}

/// Unlocks, wakes whoever sleeps for what happened under the lock, and does what others have left to this thread meanwhile.
#[inline(never)]
fn give_back(guard: Guard<'_, ()>, changed: bool) {
    if unlock(guard, changed) {
        serve_marks();
    }
}

/// Announces partitions that the calling thread has marked as ready, and sends them unless somebody else holds the lock, who
/// does so then.
pub(crate) fn announce_marks() {
    handover::announce(&GATE.marks);
    serve_marks();
}

#[cold]
#[inline(never)]
fn serve_marks() {
    // Whoever makes this fail came in on the slow way and looks at the marks when it goes.
    handover::look_after(
        &GATE.marks,
        || shared().lock.try_lock(),
        |guard| {
            // SAFETY: the lock is held, and nothing here comes back to the gate before it is given back.
            let Some(process) = (unsafe { &mut *GATE.process.get() }) else { nothing_started() };
            process.requests.serve_marks(&mut process.engine);
            unlock(guard, true);
        },
    );
}

/// Unlocks, and wakes whoever sleeps for what happened under the lock. Whether partitions can be marked by threads that do not
/// hold it. No reference to the process goes in or out: from the unlock on it is the next one's.
fn unlock(guard: Guard<'_, ()>, changed: bool) -> bool {
    // Relaxed: who watches counted itself before it took the lock for its last look.
    let watched = changed && GATE.watchers.load(Ordering::Relaxed) != 0;
    // SAFETY: the lock is held until `guard` is dropped below; nothing here comes back to the gate before.
    let Some(process) = (unsafe { &mut *GATE.process.get() }) else { nothing_started() };
    let marked_by_others = process.requests.is_marked_by_others();
    process.lanes.note_first(&process.engine);
    let bell = (process.engine.take_ended_watched() || watched).then(|| process.bell());
    drop(guard);
    if let Some(bell) = bell {
        bell.ring(0);
    }
    marked_by_others
}

#[cold]
#[inline(never)]
fn nothing_started() -> ! {
    unreachable!("the gate is open only after the process was started")
}

/// Lends the objects that exist at any time.
pub(crate) fn always<R>(work: impl FnOnce(&mut Always) -> R) -> R {
    work(&mut locked(&GATE.always))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic aborts the process, so a poisoned mutex is never seen.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks until `poll` gives an answer, progressing everything of this process meanwhile (section 2.9). `awaited` says for
/// what, so that nobody wakes this thread for anything else and the watchdog can tell.
#[inline]
pub(crate) fn wait_for<T>(
    call: &'static str,
    awaited: Awaited<'_>,
    mut poll: impl FnMut(&mut Process) -> Option<T>,
) -> T {
    let answer = match turn(&mut poll) {
        (_, Some(answer)) => answer,
        (moved, None) => until(Real, 0, Wait::new(call, awaited), moved, || turn(&mut poll)),
    };
    push_out();
    answer
}

/// One round of progress, then one look. For calls that test.
#[inline]
pub(crate) fn poll<T>(mut look: impl FnMut(&mut Process) -> T) -> T {
    if phase() & LOCKED != 0 {
        progress_lanes(0);
    }
    turn(&mut |process| Some(look(process))).1.expect("the closure always answers")
}

/// Progresses all lanes but `own` and lane 0 that nobody attends or holds, and runs the user functions that became due.
pub(crate) fn progress_lanes(own: u32) -> bool {
    let others = shared().lanes.iter().filter(|&(number, lane)| number != own && lane.attendance().0);
    others
        .fold(false, |moved, (number, lane)| lane.try_help().is_some_and(|turn| after(number, turn)) | moved)
}

/// Runs the user function that became due in a lane; whether anything moved.
fn after(number: u32, turn: Turn<()>) -> bool {
    let Some(callback) = turn.callback else { return turn.moved };
    crate::imp::run_callbacks(number, callback);
    true
}

/// Progresses lane 0 and everything of the process, unless somebody else holds it or works with it so much that the lock is
/// biased to him.
pub(crate) fn progress_process() -> bool {
    shared().lock.try_lock_to_help().is_some_and(|guard| progress_with(guard, true))
}

/// As [`progress_process`], by a thread that waits for the lock, and does not work with lane 0 itself.
fn help_process() -> bool {
    progress_with(shared().lock.lock_to_help(), true)
}

/// `runs_functions`: the calling thread may run functions of the program that became due.
fn progress_with(guard: Guard<'_, ()>, runs_functions: bool) -> bool {
    // SAFETY: as in `with_lock`.
    let Some(process) = (unsafe { &mut *GATE.process.get() }) else { nothing_started() };
    let moved = process.progress();
    let callback = if runs_functions { process.engine.take_callback() } else { None };
    give_back(guard, moved);
    let Some(callback) = callback else { return moved };
    crate::imp::run_callbacks(0, callback);
    true
}

/// Progress, user callbacks that became due (outside the borrow), and a look.
#[inline]
fn turn<T>(poll: &mut impl FnMut(&mut Process) -> Option<T>) -> (bool, Option<T>) {
    // SAFETY: whoever blocks or tests has passed its phase check, and nothing keeps the reference.
    let Some(mut alone) = (unsafe { alone() }) else { return turn_with_lock(poll) };
    let process = alone.process();
    let (moved, answer) = (process.progress(), poll(process));
    let callback = process.engine.take_callback();
    drop(alone);
    match callback {
        None => (moved, answer),
        Some(callback) => (true, after_callbacks(callback, answer, poll)),
    }
}

/// [`turn`], with several threads.
#[cold]
#[inline(never)]
fn turn_with_lock<T>(poll: &mut impl FnMut(&mut Process) -> Option<T>) -> (bool, Option<T>) {
    let (moved, (answer, callback)) =
        look(|process| (process.progress(), (poll(process), process.engine.take_callback())));
    match callback {
        None => (moved, answer),
        Some(callback) => (true, after_callbacks(callback, answer, poll)),
    }
}

/// An answer that was given stays; otherwise the look may come out differently now.
#[cold]
#[inline(never)]
fn after_callbacks<T>(
    callback: weft_engine::Callback,
    answer: Option<T>,
    poll: &mut impl FnMut(&mut Process) -> Option<T>,
) -> Option<T> {
    crate::imp::run_callbacks(0, callback);
    answer.or_else(|| with(poll))
}

/// The World Model or a session being opened: one at a time, until the phase tells of it.
pub(crate) struct Opening(MutexGuard<'static, Option<ThreadId>>);

impl Opening {
    /// Remembers the calling thread as the one that opened last. Once nothing can fail any more.
    pub(crate) fn done(mut self) {
        *self.0 = Some(std::thread::current().id());
    }
}

/// Begins to open the World Model or a session, before anything of the process is touched. When calls take no locks and the calling
/// thread is not the one that opened what is open, they do from now on: that one may be in a call.
///
/// # Errors
/// `MPI_ERR_OTHER` where that is impossible.
pub(crate) fn opening() -> weft_types::Result<Opening> {
    let opening = Opening(locked(&GATE.alone));
    if *opening.0 != Some(std::thread::current().id()) {
        alone::keep_out()?;
    }
    Ok(opening)
}

/// Remembers the calling thread as the main one (section 11.6.2).
pub(crate) fn set_main_thread() {
    let _ = GATE.main_thread.set(std::thread::current().id());
}

/// How often a blocking receive looks before it posts a request: once when somebody else needs the core.
pub(crate) fn spins() -> u32 {
    if is_crowded() { 1 } else { shared().spins }
}

/// Whether more threads of this process may communicate at once than it has cores: whoever waits then lets others run.
pub(crate) fn is_crowded() -> bool {
    phase() & MULTIPLE != 0 && GATE.threads.load(Ordering::Relaxed) > shared().cores_each
}

/// Counts the calling thread among those that communicate, or (-1) no longer.
pub(crate) fn count_thread(by: i32) {
    GATE.threads.fetch_add(by as u32, Ordering::Relaxed);
}

/// Whether the calling thread initialised MPI.
pub(crate) fn is_main_thread() -> bool {
    GATE.main_thread.get() == Some(&std::thread::current().id())
}

/// Rank and size of this process, for messages to people; `None` before the start.
pub(crate) fn identity() -> Option<(u32, u32)> {
    // SAFETY: `job` is never changed after the start, and the option is set once, before any phase bit.
    let process = unsafe { &*GATE.process.get() };
    process.as_ref().map(|process| (process.job.rank, process.job.size))
}
