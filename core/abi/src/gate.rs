//! The one static: this process's MPI state, and who may touch it when.
//!
//! Invariants:
//! * [`Process`] is reached through [`with`] only. What runs inside never calls user code (reduction, attribute and error
//!   handler functions run outside), never blocks and never calls `with` again, so there is one borrow at a time.
//! * Below MPI_THREAD_MULTIPLE the program promises that no two threads call MPI at once (section 11.6.2), and there is no lock:
//!   one branch on a plain load. With MPI_THREAD_MULTIPLE a mutex is held inside `with`, which is never while waiting.
//! * Blocked calls loop in [`wait`]: each turn progresses everything of the process, then waits outside the lock.
//! * What must work at any time from any thread (section 11.4.1) lies in [`Always`] behind its own mutex.

use std::cell::{OnceCell, UnsafeCell};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use weft::Process;
use weft::always::Always;
use weft_api::Bell;
use weft_engine::{EngineBell, Waiter};
use weft_types::{Error, ErrorClass, PeerId};

use crate::raise::Raised;
use crate::watch::{Awaited, Wait};

/// Bit of the phase: between `MPI_Init` and the end of `MPI_Finalize`.
pub(crate) const WORLD: u32 = 1;
/// Bit of the phase: at least one session is open.
pub(crate) const SESSION: u32 = 2;
/// Bit of the phase: several threads may call at once.
pub(crate) const MULTIPLE: u32 = 4;
/// Bit of the phase: `MPI_Init` was called, for `MPI_Initialized`.
pub(crate) const INITIALIZED: u32 = 8;
/// Bit of the phase: `MPI_Finalize` is over.
pub(crate) const FINALIZED: u32 = 16;
/// Bit of the phase: this is a child that `fork` made of an MPI process.
pub(crate) const FORKED: u32 = 32;

struct Gate {
    phase: AtomicU32,
    process: UnsafeCell<Option<Process>>,
    lock: Mutex<()>,
    always: Mutex<Always>,
    /// The thread that called `MPI_Init`.
    main_thread: OnceLock<ThreadId>,
}

// SAFETY: the only part that is not Sync is `process`; the module's invariants serialise every access to it.
unsafe impl Sync for Gate {}

static GATE: Gate = Gate {
    phase: AtomicU32::new(0),
    process: UnsafeCell::new(None),
    lock: Mutex::new(()),
    always: Mutex::new(Always::new()),
    main_thread: OnceLock::new(),
};

/// The phase bits. Relaxed: threads learn of a change by the program's own synchronisation, as section 11.6 asks.
#[inline(always)]
pub(crate) fn phase() -> u32 {
    GATE.phase.load(Ordering::Relaxed)
}

/// Sets and clears phase bits.
pub(crate) fn change_phase(set: u32, clear: u32) {
    let _ = GATE.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, |bits| Some((bits | set) & !clear));
}

/// Fails unless the World Model or a session is active.
#[inline(always)]
pub(crate) fn check_active() -> Result<(), Raised> {
    if phase() & (WORLD | SESSION) != 0 { Ok(()) } else { Err(not_active()) }
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
    let _guard = locked(&GATE.lock);
    // SAFETY: the lock is held; before the first start nobody is inside `with`, because no phase bit is set, and
    // afterwards the process is left alone.
    let process = unsafe { &mut *GATE.process.get() };
    if process.is_none() {
        let started = process.insert(Process::start()?);
        crate::watch::start(started);
        crate::leftovers::start(started);
    }
    Ok(())
}

/// The process, for the few calls that are counted in instructions: `None` with several threads, where [`with`] and its
/// lock are needed.
///
/// # Safety
/// The caller's phase check has passed, and the reference is not used any more when the gate is entered again.
#[inline(always)]
pub(crate) unsafe fn alone<'a>() -> Option<&'a mut Process> {
    if phase() & MULTIPLE != 0 {
        return None;
    }
    // SAFETY: below MPI_THREAD_MULTIPLE one thread calls at a time, and the caller does not nest borrows; the phase check
    // implies that the process was started.
    Some(unsafe { (*GATE.process.get()).as_mut().unwrap_unchecked() })
}

/// As [`alone`], and checks the phase: `None` also when neither the World Model nor a session is active.
///
/// # Safety
/// The reference is not used any more when the gate is entered again.
#[inline(always)]
pub(crate) unsafe fn alone_if_active<'a>() -> Option<&'a mut Process> {
    // One comparison: at least one of the two lowest bits, and not the third.
    const { assert!(WORLD | SESSION == 3 && MULTIPLE == 4) };
    if (phase() & (WORLD | SESSION | MULTIPLE)).wrapping_sub(1) >= 3 {
        return None;
    }
    // SAFETY: as in `alone`.
    Some(unsafe { (*GATE.process.get()).as_mut().unwrap_unchecked() })
}

/// Lends the process. Only after [`start`], which every caller's phase check implies.
#[inline(always)]
pub(crate) fn with<R>(work: impl FnOnce(&mut Process) -> R) -> R {
    let _guard = if phase() & MULTIPLE != 0 { Some(locked(&GATE.lock)) } else { None };
    // SAFETY: the module's invariants: below MPI_THREAD_MULTIPLE one thread calls at a time, with it the lock is held; `work` does
    // not come back here.
    match unsafe { &mut *GATE.process.get() } {
        Some(process) => work(process),
        None => nothing_started(),
    }
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

/// Blocks until `poll` gives an answer, progressing everything of this process meanwhile (section 2.9).
#[inline]
pub(crate) fn wait<T>(poll: impl FnMut(&mut Process) -> Option<T>) -> T {
    wait_for("an MPI call", Awaited::Something, poll)
}

/// As [`wait`], and says for what, so that the watchdog can tell.
#[inline]
pub(crate) fn wait_for<T>(
    call: &'static str,
    awaited: Awaited<'_>,
    mut poll: impl FnMut(&mut Process) -> Option<T>,
) -> T {
    let mut waiter = None;
    let bell = CallBell { bell: OnceCell::new(), watch: Wait::new(call, awaited) };
    loop {
        let (moved, answer) = turn(&mut poll);
        if let Some(answer) = answer {
            if let Some(mut waiter) = waiter {
                Waiter::finish(&mut waiter, &bell);
            }
            return answer;
        }
        let waiter = waiter.get_or_insert_with(|| with(|process| process.waiter()));
        if moved {
            waiter.moved();
            bell.watch.moved();
        }
        waiter.pause(&bell);
    }
}

/// One round of progress, then one look. For calls that test.
#[inline]
pub(crate) fn poll<T>(mut look: impl FnMut(&mut Process) -> T) -> T {
    turn(&mut |process| Some(look(process))).1.expect("the closure always answers")
}

/// Progress, user callbacks that became due (outside the borrow), and a look.
#[inline]
fn turn<T>(poll: &mut impl FnMut(&mut Process) -> Option<T>) -> (bool, Option<T>) {
    let (moved, answer, callback) = with(|process| {
        let moved = process.progress();
        (moved, poll(process), process.engine.take_callback())
    });
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
    crate::imp::run_callbacks(callback);
    answer.or_else(|| with(poll))
}

/// The bell of one blocked call, fetched when the call first thinks of sleeping.
struct CallBell<'a> {
    bell: OnceCell<EngineBell>,
    watch: Wait<'a>,
}

impl CallBell<'_> {
    fn get(&self) -> &EngineBell {
        self.bell.get_or_init(|| with(|process| process.bell()))
    }
}

impl Bell for CallBell<'_> {
    fn arm(&self) {
        self.get().arm();
    }

    fn sleep(&self, limit: Duration) {
        // With several threads one of them may take the news another sleeps for, so then nobody sleeps long.
        let longest = if phase() & MULTIPLE != 0 { Duration::from_micros(500) } else { limit };
        self.watch.before_sleep();
        self.get().sleep(limit.min(longest));
        self.watch.awake();
    }

    fn disarm(&self) {
        self.get().disarm();
    }
}

/// Remembers the calling thread as the main one (section 11.6.2).
pub(crate) fn set_main_thread() {
    let _ = GATE.main_thread.set(std::thread::current().id());
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

/// Ends some processes of the job, this one among them, and never returns: the others go on where they have said that
/// they can (section 11.4.2); otherwise as [`abort`].
pub(crate) fn abort_ranks(code: i32, message: &str, ranks: &[u32]) -> ! {
    let _guard = GATE.lock.try_lock();
    // SAFETY: as in `abort`: the process ends here, and of it only the launcher's channel and the transports' word for
    // the others are touched, which are atomic operations on shared memory.
    if let Some(process) = unsafe { &mut *GATE.process.get() }
        && process.launcher.abort_ranks(code, message, ranks)
    {
        process.engine.declare_lost(ranks.iter().map(|&rank| PeerId(rank)));
        eprintln!("weft: {message}; the other processes go on");
    }
    leave(code)
}

/// Ends the whole job with `code`; never returns. Called when nothing of this process can be trusted to work, so
/// it takes the launcher without the lock if need be.
pub(crate) fn abort(code: i32, message: &str) -> ! {
    let _guard = GATE.lock.try_lock();
    // SAFETY: the process ends here; if another thread is inside `with`, it is not waiting for us, and the launcher's
    // channel is the only part touched.
    if let Some(process) = unsafe { &mut *GATE.process.get() } {
        process.launcher.abort(code, message);
    }
    leave(code)
}

fn leave(code: i32) -> ! {
    // SAFETY: flushing all output streams of C and leaving; both may be called at any time.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(code)
    }
}
