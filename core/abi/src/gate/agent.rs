//! The progress agent: a thread of the library that moves what is under way while the program computes (`WEFT_PROGRESS_AGENT`).
//!
//! Section 2.9 lets an implementation progress inside MPI calls only, and so does everything here: a large message waits until
//! its receiver calls MPI again, and a put to a process that computes waits where it needs that process's help. The agent makes
//! those calls. It is one more thread that works by the rules of [`super`], so with it calls take locks at every thread level;
//! those are biased to the program's thread. It keeps out of the way:
//! * It looks after a lane (lane 0 with all objects of the process, and the others) only when no thread is blocked in it and
//!   there was no call since its last look, a tick ago. What it does then ends with the lane idle or with a call of the
//!   program.
//! * It sleeps on the bell of idle lanes alone. So in a program that communicates nobody rings for it; it wakes for its tick.
//! * Functions of the program (reductions, callbacks) run in it only when the program has asked for MPI_THREAD_MULTIPLE by its
//!   name. Otherwise they wait for the next call of the program's own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use weft::lanes::LANES;
use weft_api::Bell;
use weft_engine::EngineBell;

use super::{
    ANY_THREAD, GATE, LOCKED, SESSION, WORLD, after, change_phase, give_back, locked, phase, progress_with,
    shared,
};

/// How long the program must have been away from a lane before the agent looks after it, and between looks whether it is.
const TICK: Duration = Duration::from_millis(2);
/// Longest sleep on a bell.
const LONGEST: Duration = Duration::from_millis(100);

static AGENT: Mutex<Agent> = Mutex::new(Agent { scopes: 0, running: None });
/// Threads of agents that have not ended.
static THREADS: AtomicUsize = AtomicUsize::new(0);

struct Agent {
    /// The World Model and sessions that are open.
    scopes: u32,
    running: Option<(JoinHandle<()>, Arc<Stop>)>,
}

/// Ends one agent.
#[derive(Default)]
struct Stop {
    wanted: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn is_wanted(&self) -> bool {
        *locked(&self.wanted)
    }

    /// Sleeps for a tick, or until it is wanted.
    fn nap(&self) {
        drop(self.changed.wait_timeout_while(locked(&self.wanted), TICK, |wanted| !*wanted));
    }

    fn want(&self) {
        *locked(&self.wanted) = true;
        self.changed.notify_all();
    }
}

/// Whether there is to be one. Once the process is started.
pub(crate) fn is_wanted() -> bool {
    super::with(|process| process.parameters.progress_agent)
}

/// Calls take locks from now on, if there is to be an agent. By the thread that opens the World Model or a session, before it
/// is open.
pub(crate) fn prepare() {
    if is_wanted() {
        change_phase(LOCKED, 0);
    }
}

/// Moves the calling thread to the CPUs that the launcher left over for it.
fn settle(cpus: &[usize]) {
    if cpus.is_empty() {
        return;
    }
    // Where it may not go, it stays with the program's threads.
    weft_boot::machine::bind_thread(cpus);
}

/// The World Model or a session is open: there is an agent from the first on, if there is to be one.
pub(crate) fn opened() {
    if !is_wanted() {
        return;
    }
    let mut agent = locked(&AGENT);
    agent.scopes += 1;
    if agent.scopes > 1 {
        return;
    }
    let stop = Arc::new(Stop::default());
    let own = Arc::clone(&stop);
    THREADS.fetch_add(1, Ordering::Relaxed);
    let run = move || {
        run(&own);
        THREADS.fetch_sub(1, Ordering::Relaxed);
    };
    // The program's signals are its own threads' business.
    let spawned = without_signals(|| std::thread::Builder::new().name("weft-progress".to_owned()).spawn(run));
    match spawned {
        Ok(handle) => agent.running = Some((handle, stop)),
        Err(error) => {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            eprintln!(
                "weft: no thread for progress while the program computes (WEFT_PROGRESS_AGENT): {error}; it goes on without (see `ulimit -u`)"
            );
        }
    }
}

/// The World Model or a session is about to close: with the last one the agent ends, which is waited for.
pub(crate) fn closing() {
    if !is_wanted() {
        return;
    }
    let mut agent = locked(&AGENT);
    agent.scopes = agent.scopes.saturating_sub(1);
    let ends = if agent.scopes == 0 { agent.running.take() } else { None };
    drop(agent);
    if let Some((handle, stop)) = ends {
        stop.want();
        let bell = bell();
        (0..LANES).for_each(|lane| bell.ring(lane));
        // A panic would have ended the process.
        let _ = handle.join();
    }
}

/// The program exits with MPI open: the agent, which may be in a system library that is taken down, is given a moment to end.
pub(crate) fn exiting() {
    let Some((_, stop)) = locked(&AGENT).running.take() else { return };
    stop.want();
    for _ in 0..20 {
        if count() == 0 {
            return;
        }
        std::thread::sleep(LONGEST / 10);
    }
}

/// Threads of this process that are the library's own. Takes no lock: whoever asks may hold that of the process.
pub(crate) fn count() -> usize {
    THREADS.load(Ordering::Relaxed)
}

/// The process's bell. Its lock stays biased to the program's thread.
fn bell() -> EngineBell {
    let guard = shared().lock.lock_to_help();
    // SAFETY: the lock is held, and nothing here comes back to the gate before it is given back.
    let Some(process) = (unsafe { &mut *GATE.process.get() }) else { super::nothing_started() };
    let bell = process.bell();
    give_back(guard, false);
    bell
}

fn run(stop: &Stop) {
    settle(&super::with(|process| process.job.agent.as_ref().map(|cpus| cpus.to_vec()).unwrap_or_default()));
    let mut calls = [u64::MAX; LANES as usize];
    while !stop.is_wanted() {
        let lanes = idle(&mut calls);
        if lanes == 0 {
            stop.nap();
        } else if !progress(lanes) {
            // The bell knows when the transport's clock wants a look.
            let bell = bell();
            shared().lanes.listen(&bell, lanes);
            bell.arm();
            if progress(lanes) || stop.is_wanted() {
                bell.disarm();
            } else {
                bell.sleep(LONGEST);
            }
        }
    }
}

/// The lanes without a thread in a blocked call, and without calls since the last time, one bit each.
fn idle(calls: &mut [u64; LANES as usize]) -> u32 {
    // Nothing is to be done while nothing is open.
    if phase() & (WORLD | SESSION) == 0 {
        return 0;
    }
    let process = (GATE.attendants.load(Ordering::Relaxed) == 0, GATE.calls.load(Ordering::Relaxed));
    let others = shared().lanes.iter().map(|(number, lane)| (number, lane.attendance()));
    std::iter::once((0, process)).chain(others).fold(0, |lanes, (number, (alone, now))| {
        let same = std::mem::replace(&mut calls[number as usize], now) == now;
        if alone && same { lanes | 1 << number } else { lanes }
    })
}

/// Progresses these lanes, whose locks are waited for; whether anything moved.
fn progress(lanes: u32) -> bool {
    let runs_functions = phase() & ANY_THREAD != 0;
    let mut moved = lanes & 1 != 0 && progress_with(shared().lock.lock_to_help(), runs_functions);
    for (number, lane) in shared().lanes.iter() {
        if lanes >> number & 1 != 0 {
            moved |= if runs_functions { after(number, lane.help()) } else { lane.help_silently() };
        }
    }
    moved
}

/// Runs `work` with all signals blocked, which a thread that it starts inherits.
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let mut all = std::mem::MaybeUninit::uninit();
    let mut before = std::mem::MaybeUninit::uninit();
    // SAFETY: both sets live here; the calls write them, and the last one reads what the one before has written.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let done = work();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        done
    }
}
