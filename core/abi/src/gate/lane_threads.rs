//! Threads that are bound to the core of the lane with which they work (`WEFT_BIND_LANES`, `mpiexec --bind-threads`).
//!
//! Threads are the program's, and none is bound unless that is asked for. Then a thread that first uses a communicator of a lane other
//! than lane 0 is bound, once, to the core that the launcher chose for the lane, or, where another thread has that, to the nearest
//! of the process's that no thread has; it keeps it until it ends. Never bound are
//! * the thread that opened MPI and the process's first one: threads that they start later would inherit one core;
//! * a thread that may not use all CPUs of the process: somebody has bound it already;
//! * any thread, when all cores are taken.

use std::cell::RefCell;
use std::sync::{Mutex, OnceLock};
use std::thread::ThreadId;

use super::locked;
use weft::lanes::{CpuSet, LaneCore, choose};
use weft_boot::machine;

/// The cores of this process's lanes, and which are taken.
struct Cores {
    cores: Vec<LaneCore>,
    /// All CPUs of the process.
    own: CpuSet,
    taken: Mutex<Vec<bool>>,
    /// Who opened MPI first.
    opener: ThreadId,
}

static CORES: OnceLock<Cores> = OnceLock::new();

/// The core of a thread, given back when it ends.
struct Taken(usize);

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(cores) = CORES.get() {
            locked(&cores.taken)[self.0] = false;
        }
    }
}

thread_local! {
    static TAKEN: RefCell<Option<Taken>> = const { RefCell::new(None) };
}

/// Threads are bound from now on, if that is asked for and the launcher has chosen cores. By the thread that opens the World Model or
/// a session.
pub(crate) fn prepare() {
    let asked = super::with(|process| {
        let binding = process.job.binding.as_ref().filter(|_| process.parameters.bind_lanes)?;
        Some((process.job.lanes.clone(), binding.clone()))
    });
    let Some((cores, own)) = asked.filter(|(cores, _)| !cores.is_empty()) else { return };
    let taken = Mutex::new(vec![false; cores.len()]);
    let opener = std::thread::current().id();
    // A session that is opened later changes nothing.
    let _ = CORES.set(Cores { cores, own, taken, opener });
}

/// The calling thread uses a communicator of this lane that it has not used before.
#[cold]
#[inline(never)]
pub(crate) fn settle(lane: u32) {
    let Some(cores) = CORES.get() else { return };
    // SAFETY: two queries without pointers.
    let first = unsafe { libc::gettid() == libc::getpid() };
    if first || std::thread::current().id() == cores.opener || !cores.own.is_subset(&machine::allowed_cpus())
    {
        return;
    }
    // A thread that is about to end takes nothing.
    let _ = TAKEN.try_with(|own| {
        let mut own = own.borrow_mut();
        if own.is_some() {
            return;
        }
        let mut taken = locked(&cores.taken);
        let Some(at) = choose(&cores.cores, lane as usize, &taken) else { return };
        if machine::bind_thread(&cores.cores[at].cpus) {
            taken[at] = true;
            *own = Some(Taken(at));
        }
    });
}
