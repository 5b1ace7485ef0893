//! Which fabrics this process uses, and their opening.

use weft_boot::{Job, Launcher};
use weft_engine::Transports;
use weft_types::params::Parameters;
use weft_types::{Error, ErrorClass, Result};

/// Opens the transports that lead to the other processes of the job.
///
/// # Errors
/// What could not be had, why, and what to do.
pub fn open(job: &mut Job, _launcher: &mut dyn Launcher, _parameters: &Parameters) -> Result<Transports> {
    if job.size == 1 {
        return Ok(Transports::Alone);
    }
    if job.local_ranks.len() != job.size as usize {
        return Err(Error::new(
            ErrorClass::UNSUPPORTED_OPERATION,
            format!(
                "the job has {} processes, {} of them on this node; this version of Weft has no network transport yet, so \
                 all must run on one node",
                job.size,
                job.local_ranks.len()
            ),
        ));
    }
    Err(Error::internal("the shared-memory transport is not joined yet"))
}
