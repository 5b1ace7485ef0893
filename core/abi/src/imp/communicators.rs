//! Communicators: asking, naming, constructing, freeing (chapter 7, sections 7.4 and 7.8).

use std::ffi::c_int;

use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;

/// Asks a communicator for a number.
unsafe fn ask(
    comm: MPI_Comm,
    answer: *mut c_int,
    question: impl FnOnce(&weft::comm::Comm) -> c_int,
) -> Result<(), Raised> {
    let value = gate::with(|process| process.comms.get(comm.handle()).map(question))?;
    // SAFETY: the entry has refused null.
    unsafe { answer.write(value) };
    Ok(())
}

/// `MPI_Comm_rank` (section 7.4.1).
pub(crate) unsafe fn comm_rank(comm: MPI_Comm, rank: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { ask(comm, rank, |comm| comm.rank.0 as c_int) }
}

/// `MPI_Comm_size` (section 7.4.1).
pub(crate) unsafe fn comm_size(comm: MPI_Comm, size: *mut c_int) -> Result<(), Raised> {
    // SAFETY: as above.
    unsafe { ask(comm, size, |comm| comm.size as c_int) }
}

/// `MPI_Comm_test_inter` (section 7.6.1).
pub(crate) unsafe fn comm_test_inter(comm: MPI_Comm, flag: *mut c_int) -> Result<(), Raised> {
    // SAFETY: as above.
    unsafe { ask(comm, flag, |_| 0) }
}
