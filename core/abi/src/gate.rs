//! Whether MPI may be called now: between the first initialisation and the last finalisation (section 11.4.1).

use weft_types::{Error, ErrorClass};

use crate::raise::Raised;

/// Fails unless the World Model or a session is active.
#[inline(always)]
pub(crate) fn check_active() -> Result<(), Raised> {
    // Nothing can be initialised yet: this library holds only the procedures that need no initialisation.
    Err(not_active())
}

#[cold]
#[inline(never)]
fn not_active() -> Raised {
    Error::new(
        ErrorClass::OTHER,
        "MPI is not initialised: call MPI_Init, MPI_Init_thread or MPI_Session_init first, and nothing after the last finalisation",
    )
    .into()
}
