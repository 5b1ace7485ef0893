//! The progress agent: a thread of the library that moves what is under way while the program computes (`WEFT_PROGRESS_AGENT`).
//!
//! Section 2.9 lets an implementation progress inside MPI calls only, and so does everything here: a large message waits until its
//! receiver calls MPI again, and a put to a process that computes waits where it needs that process's help. The agent makes those calls.
//! It is one more thread that works by the rules of [`super`], so with it calls take locks at every thread level; those are biased to the
//! program's thread. It keeps out of the way:
//! * It looks after a lane (lane 0 with all objects of the process, and the others) only when no thread is blocked in it and there was no call since its last look, a
//!   tick ago. What it does then ends with the lane idle or with a call of the program.
//! * It sleeps on the bell of idle lanes alone. So in a program that communicates nobody rings for it; it wakes for its tick.
//! * Functions of the program (reductions, callbacks) run in it only where the program has said that several threads may call MPI at
//!   once (MPI_THREAD_MULTIPLE). Otherwise they wait for the next call of the program's own.

use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use weft::lanes::LANES;
use weft_api::Bell;

use super::{
    GATE, LOCKED, MULTIPLE, SESSION, WORLD, after, change_phase, locked, look, phase, progress_with, shared,
};

/// How long the program must have been away from a lane before the agent looks after it, and between looks whether it is.
const TICK: Duration = Duration::from_millis(2);
/// Longest sleep on a bell.
const LONGEST: Duration = Duration::from_millis(100);

static AGENT: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);
static STOPPING: Mutex<bool> = Mutex::new(false);
static STOPPED: Condvar = Condvar::new();

/// Whether there is to be one. Once the process is started.
pub(crate) fn is_wanted() -> bool {
    super::with(|process| process.parameters.progress_agent)
}

/// Calls take locks from now on, if there is to be an agent. By the thread that opens the World Model or a session, before it is open.
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
    // SAFETY: the set is plain bits, which zeroes make empty; the calls change it, and the calling thread's affinity.
    let moved = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    // Where it may not go, it stays with the program's threads.
    let _ = moved;
}

/// Starts the agent, if there is to be one and it does not run. Once the World Model or a session is open.
pub(crate) fn start() {
    let mut agent = locked(&AGENT);
    if agent.is_some() || !is_wanted() {
        return;
    }
    *locked(&STOPPING) = false;
    // The program's signals are its own threads' business.
    let spawned = without_signals(|| std::thread::Builder::new().name("weft-progress".to_owned()).spawn(run));
    match spawned {
        Ok(handle) => *agent = Some(handle),
        Err(error) => eprintln!(
            "weft: no thread for progress while the program computes (WEFT_PROGRESS_AGENT): {error}; it goes on without (see `ulimit -u`)"
        ),
    }
}

/// Ends the agent and waits for its end. Before the last of World Model and sessions closes.
pub(crate) fn stop() {
    let Some(agent) = locked(&AGENT).take() else { return };
    *locked(&STOPPING) = true;
    STOPPED.notify_all();
    let (_, bell) = look(|process| (false, process.bell()));
    (0..LANES).for_each(|lane| bell.ring(lane));
    // A panic would have ended the process.
    let _ = agent.join();
}

/// Threads of this process that are the library's own.
pub(crate) fn count() -> usize {
    usize::from(locked(&AGENT).is_some())
}

fn is_stopping() -> bool {
    *locked(&STOPPING)
}

fn nap() {
    let stopping = locked(&STOPPING);
    drop(STOPPED.wait_timeout_while(stopping, TICK, |stopping| !*stopping));
}

fn run() {
    settle(&super::with(|process| process.job.agent.as_ref().map(|cpus| cpus.to_vec()).unwrap_or_default()));
    let mut calls = [u64::MAX; LANES as usize];
    while !is_stopping() {
        let lanes = idle(&mut calls);
        if lanes == 0 {
            nap();
        } else if !progress(lanes) {
            // The bell knows when the transport's clock wants a look.
            let (_, bell) = look(|process| (false, process.bell()));
            bell.listen(lanes);
            bell.arm();
            if progress(lanes) || is_stopping() {
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
    let mut moved = lanes & 1 != 0 && progress_with(shared().lock.lock_to_help(), phase() & MULTIPLE != 0);
    for (number, lane) in shared().lanes.iter() {
        if lanes >> number & 1 != 0 {
            moved |= after(number, lane.help());
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
