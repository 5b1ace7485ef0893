//! Says at the end of MPI what the program did not free, when `WEFT_LEAKS` asks for it.

use weft::Process;
use weft::leaks::{self, Left};

use crate::{caller, gate, imp};

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
        process.remember_places(place);
        gate::always(|always| always.remember_places(place));
    }
}

/// Prints what is left, unless a session is open that may still free it.
pub(crate) fn report() {
    let all = gate::with(|process| {
        (process.parameters.leaks && process.sessions.is_empty()).then(|| process.left())
    });
    let Some(mut all) = all else { return };
    all.extend(gate::always(|always| always.left()));
    let pieces = imp::allocated().into_iter();
    all.extend(
        pieces.map(|bytes| Left { kind: "piece of memory of MPI_Alloc_mem", text: format!("{bytes} bytes") }),
    );
    let who = gate::identity().map(|(rank, size)| format!("rank {rank} of {size}")).unwrap_or_default();
    eprint!("{}", leaks::report(&format!("{who} (process {})", std::process::id()), all));
}
