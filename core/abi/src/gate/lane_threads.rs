//! Threads that are bound to the core of the lane with which they work (`WEFT_BIND_LANES`, `mpiexec --bind-threads`).
//!
//! Threads are the program's, and none is bound unless that is asked for. Then a thread that first uses a communicator of a lane other
//! than lane 0 is bound, once, to the core that the launcher chose for the lane, or, where another thread has that, to the nearest
//! of the process's that no thread has; it keeps it until it ends. Never bound are
//! * the thread that opened MPI and the process's first one: threads that they start later would inherit one core;
//! * a thread that may not use all CPUs of the process: somebody has bound it already;
//! * any thread, when all cores are taken.

use std::cell::RefCell;
use std::mem::{size_of, zeroed};
use std::sync::{Mutex, OnceLock};
use std::thread::ThreadId;

use super::locked;
use weft::lanes::{LaneCore, choose};

/// The cores of this process's lanes, and which are taken.
struct Cores {
    cores: Vec<LaneCore>,
    /// All CPUs of the process.
    own: Vec<usize>,
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
        Some((process.job.lanes.clone(), binding.to_vec()))
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
    if first || std::thread::current().id() == cores.opener || !may_use(&cores.own) {
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
        if bind(&cores.cores[at].cpus) {
            taken[at] = true;
            *own = Some(Taken(at));
        }
    });
}

/// Whether the calling thread may use all of `cpus`.
fn may_use(cpus: &[usize]) -> bool {
    // SAFETY: the set is plain bits, which zeroes make empty; the call writes it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        match libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) {
            0 => set,
            _ => return false,
        }
    };
    // SAFETY: the set is ours; numbers beyond it are not asked about.
    cpus.iter().all(|&cpu| cpu < libc::CPU_SETSIZE as usize && unsafe { libc::CPU_ISSET(cpu, &set) })
}

/// Binds the calling thread; false where it may not go there, and then it stays where it is.
pub(super) fn bind(cpus: &[usize]) -> bool {
    // SAFETY: the set is plain bits, which zeroes make empty; the calls change it, and the calling thread's affinity.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}
