//! Stages of partitioned sends between processes of one node: see [`weft_shm::staging`]. Without one, partitions come as packets
//! ([`crate::landings`]).

use crate::engine::Engine;
use weft_shm::staging::{Shape, StageIn, StageOut};
use weft_types::PeerId;

impl Engine {
    /// Memory where `peer` can put down `number` partitions of `bytes` bytes; `None` when it is not on this node, there is none
    /// left, or they are better sent.
    pub fn make_stage(&mut self, peer: PeerId, number: u32, bytes: u64) -> Option<StageIn> {
        let shape = Shape::new(number, bytes)?;
        if peer == self.state.config.me {
            return None;
        }
        let shm = self.fabric.shm_mut().filter(|shm| shm.is_here(peer))?;
        shm.take_stage(shape).ok()?
    }

    /// Joins the stage that `peer` made for `number` partitions of `bytes` bytes, by its word.
    pub fn join_stage(&mut self, peer: PeerId, word: u64, number: u32, bytes: u64) -> Option<StageOut> {
        let shape = Shape::new(number, bytes)?;
        let shm = self.fabric.shm_mut().filter(|shm| shm.is_here(peer))?;
        shm.join_stage(peer, word, shape).ok()?
    }

    /// Leaves a stage that this process was told of and will not use, so that its memory returns when its maker leaves it too.
    pub fn refuse_stage(&mut self, word: u64) {
        // Any receiver will do, for nobody is woken, and the smallest shape, for nothing is put down.
        drop(self.join_stage(self.state.config.me, word, 1, 32 << 10));
    }
}
