//! How a process may leave without saying so, and what is said for it: exit without MPI_Finalize, fork, and panics
//! of the library itself.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::gate;
use crate::say::say;

/// The process that initialised MPI; a child made by `fork` has another number.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Begins to watch; once per process.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        OWNER.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: both functions may be registered at any time; they are of this library, which is never unloaded
        // while its process state is in use.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
        std::panic::set_hook(Box::new(|panic| {
            let who = gate::identity().map(|(rank, size)| format!(" on rank {rank} of {size}")).unwrap_or_default();
            say(&format!(
                "weft: internal error{who} (process {}): {panic}\n  This is a bug in Weft. Please report it with the \
                 program that shows it; the job ends here.",
                std::process::id()
            ));
            gate::abort(70, "internal error in Weft (a bug); see the message of that rank");
        }));
    });
}

extern "C" fn at_exit() {
    if OWNER.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    if gate::phase() & gate::WORLD == 0 {
        crate::leftovers::report();
        return;
    }
    gate::agent::exiting();
    let who = gate::identity().map(|(rank, size)| format!("rank {rank} of {size}")).unwrap_or_default();
    say(&format!(
        "weft: {who} (process {}) exits without calling MPI_Finalize; messages still under way are lost and other ranks may wait \
         for it in vain",
        std::process::id()
    ));
}

/// A forked child shares this process's rings and channel, so it must not use MPI.
extern "C" fn in_child() {
    gate::change_phase(gate::FORKED, gate::WORLD | gate::SESSION | gate::COMPANY);
}
