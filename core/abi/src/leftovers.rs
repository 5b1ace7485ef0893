//! Says at the end of the process what the program did not free, when `WEFT_LEAKS` asks for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft::Process;
use weft::leaks::{self, Left};

use crate::{caller, gate, imp};

/// Whether anybody asked; read without the process, because a program may exit from anywhere.
static ASKED: AtomicBool = AtomicBool::new(false);
/// Requests and messages that were left when the World Model ended.
static TRAFFIC: Mutex<Vec<Left>> = Mutex::new(Vec::new());

fn traffic() -> MutexGuard<'static, Vec<Left>> {
    TRAFFIC.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the program is now: procedure and place of the call.
fn place() -> String {
    let found = caller::of_mpi();
    let procedure = found.procedure.unwrap_or_else(|| "an MPI call".to_owned());
    match found.place.is_empty() {
        true => procedure,
        false => format!("{procedure} at {}", found.place),
    }
}

/// Begins to remember where objects are made, if that was asked for.
pub(crate) fn start(process: &mut Process) {
    if process.parameters.leaks {
        ASKED.store(true, Ordering::Relaxed);
        process.remember_places(place);
        gate::always(|always| always.remember_places(place));
    }
}

/// Notes the requests and messages that are left; called while the communicators of the World Model still exist.
pub(crate) fn note_traffic() {
    if ASKED.load(Ordering::Relaxed) {
        let left = gate::with(|process| process.left_traffic());
        traffic().extend(left);
    }
}

/// Prints what is left. Called when the process ends and not when MPI does: error handlers and info objects may be freed after
/// that, and what one session made may be of use to the next (section 11.3.1).
pub(crate) fn report() {
    if !ASKED.load(Ordering::Relaxed) {
        return;
    }
    let mut all = gate::with(|process| process.left_objects());
    all.append(&mut traffic());
    all.extend(gate::always(|always| always.left()));
    let pieces = imp::allocated().into_iter();
    all.extend(
        pieces.map(|bytes| Left { kind: "piece of memory of MPI_Alloc_mem", text: format!("{bytes} bytes") }),
    );
    let who = gate::identity().map(|(rank, size)| format!("rank {rank} of {size}")).unwrap_or_default();
    eprint!("{}", leaks::report(&format!("{who} (process {})", std::process::id()), all));
}
