//! How an engine goes, told to tools and people: how full it is, what its devices did, and by which ways.

use crate::engine::Engine;
use weft_types::PeerId;

/// How full an engine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Receives that wait for a message.
    pub posted: usize,
    /// Messages that no receive has matched yet.
    pub unexpected: usize,
    /// Requests that are neither free nor taken.
    pub requests: usize,
    /// Processes this one has talked to.
    pub peers: usize,
}

impl Engine {
    /// How full the engine is, for the tool interface.
    pub fn levels(&self) -> Levels {
        Levels {
            posted: self.state.posted.len(),
            unexpected: self.state.unexpected.len(),
            requests: self.state.requests.in_use().count(),
            peers: self.state.peers.count(),
        }
    }

    /// Work requests posted to an RDMA device so far, and doorbells rung for them; 0 without one.
    pub fn device_work(&self) -> (u64, u64) {
        self.fabric.device_work()
    }

    /// In words, how processes are reached that were talked to over the network, where that was tried and not configured: at
    /// most so many.
    pub fn ways(&self, most: usize) -> Vec<(PeerId, String)> {
        self.fabric.ways(most)
    }
}
