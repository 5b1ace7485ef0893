//! Which fabrics this process uses, and their opening.

use weft_boot::Job;
use weft_engine::{NodeLocal, Transports};
use weft_types::params::{Choice, Parameters};
use weft_types::{Error, ErrorClass, PeerId, Result};

/// Opens the transports that lead to the other processes of the job.
///
/// # Errors
/// What could not be had, why, and what to do.
pub(crate) fn open(job: &mut Job, parameters: &Parameters, oversubscribed: bool) -> Result<Transports> {
    if job.size == 1 {
        return Ok(Transports::alone());
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
    Transports::node_local(NodeLocal {
        segment: job.node_segment(Transports::segment_bytes(job.size))?,
        local_index: job.local_index,
        peers: job.local_ranks.iter().map(|&rank| PeerId(rank)).collect(),
        single_copy: parameters.single_copy != Choice::Off,
        oversubscribed,
    })
}
