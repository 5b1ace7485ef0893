//! What a lane other than lane 0 needs to reach other nodes: an end of its own on the fabric, and how others find the same lane
//! of theirs.

use crate::fabric::Fabric;
use std::fmt;
use std::sync::Arc;
use weft_types::PeerId;

/// Who knows how the same lane of other processes is reached. A lane is opened long after the processes of a job have told each
/// other their addresses, so whoever is written to first is asked, through lane 0.
///
/// Shared with other threads: the owner of the process puts in what he hears while another thread works with the lane.
pub trait Contacts: fmt::Debug + Send + Sync {
    /// Whether the fabric's directory has an answer for a process now, even if that is why it cannot be reached. If not, the
    /// process is asked, and the lane's next look after the answer finds it.
    fn is_known(&self, peer: PeerId) -> bool;
}

/// A lane's end on a fabric.
#[derive(Debug)]
pub struct Wide {
    /// Open, and used by this lane alone.
    pub fabric: Fabric,
    /// Asked before anybody is connected to.
    pub contacts: Arc<dyn Contacts>,
}
