//! Stages between this process and others of its node ([`crate::staging`]).

use super::Shm;
use crate::staging::{Shape, StageIn, StageOut};
use std::sync::Arc;
use weft_types::{PeerId, Result};

impl Shm {
    /// Takes a stage for what a partitioned send of that shape brings; `None` when the pool is used up.
    ///
    /// # Errors
    /// As [`Shm::pool`].
    pub fn take_stage(&mut self, shape: Shape) -> Result<Option<StageIn>> {
        Ok(StageIn::take(self.pool()?, shape))
    }

    /// Joins the stage that `peer` took; `None` when there is none of that word.
    ///
    /// # Errors
    /// As [`Shm::pool`].
    pub fn join_stage(&mut self, peer: PeerId, word: u64, shape: Shape) -> Result<Option<StageOut>> {
        let (to, fenced, pool) = (self.map.local(peer), self.fenced, Arc::clone(self.pool()?));
        Ok(StageOut::join(&self.segment, &pool, word, shape, to, fenced))
    }
}
