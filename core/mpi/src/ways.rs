//! Processes that live and cannot be reached over the fabric: what is said of them to the launcher, and to whoever needs them.
//!
//! The engine knows whom it asks in vain and whether it looks (`weft_engine::Ways`), the launcher hears the same of the other
//! side, and gives the verdict. Under launchers other than Weft's nobody gives one, and calls wait for as long as the other does
//! not answer.

use crate::process::Process;
use weft_types::{Error, ErrorClass, PeerId};

impl Process {
    /// Tells the launcher who is asked in vain, and ends what needs those of whom it says that no way leads there. Whether there
    /// was anything of that.
    #[cold]
    pub(crate) fn look_for_ways(&mut self) -> bool {
        let ways = self.engine.look_for_ways();
        let patience = self.parameters.unreachable_after;
        if patience > 0 && !ways.in_vain.is_empty() {
            let ranks: Vec<u32> = ways.in_vain.iter().map(|peer| peer.0).collect();
            self.launcher.in_vain(&ranks, patience);
        }
        for &peer in &ways.unreachable {
            let error = self.unreachable(peer, patience);
            self.engine.cannot_reach(peer, error);
        }
        !ways.unreachable.is_empty()
    }

    fn unreachable(&self, peer: PeerId, patience: u32) -> Error {
        let by = self.wide.as_ref().map_or_else(|| "the fabric".to_owned(), |wide| wide.way());
        let way = self.engine.way(peer).map_or_else(String::new, |way| format!(" ({way})"));
        Error::new(
            ErrorClass::OTHER,
            format!(
                "rank {} of MPI_COMM_WORLD runs and cannot be reached by {by}{way}: for {patience} s (WEFT_UNREACHABLE_AFTER) both have called MPI \
                 and have heard nothing of each other. A packet filter drops what is sent there or comes from there, or a way is \
                 down; mpiexec names the two hosts, and weft-doctor --peer HOST tries the way between them",
                peer.0
            ),
        )
    }
}
