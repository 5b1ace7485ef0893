//! [`Wrapped`]: the ways of a process in layers that make faults, add the times of another network, or write packets down.
//!
//! Where there are none, the enum has another variant, and no instruction is spent on them.

use super::Transports;
use crate::contacts::Wide;
use weft_sim::layers::{Clock, Injected, Layered, Layers};
use weft_types::{PeerId, Result};

/// Transports in layers. All messages pass these: memory that processes of a node share carries none.
#[derive(Debug)]
pub struct Wrapped {
    pub(super) layers: Layered<Transports>,
    plan: Layers,
    me: PeerId,
}

impl Wrapped {
    pub(super) fn below(&self) -> &Transports {
        self.layers.inner().inner().inner()
    }

    pub(super) fn below_mut(&mut self) -> &mut Transports {
        self.layers.inner_mut().inner_mut().inner_mut()
    }

    /// As [`Transports::lane`].
    pub(super) fn lane(&self, lane: u32, wide: Option<Wide>) -> Result<Transports> {
        self.below().lane(lane, wide)?.in_layers(self.plan.clone(), self.me, lane, Clock::Machine)
    }
}

impl Transports {
    /// Compares a word (not 0) that all processes of a node must have alike, where messages go through its memory.
    ///
    /// # Errors
    /// That of the process which was first, where it is another one.
    pub fn agree(&self, word: u64) -> std::result::Result<(), u64> {
        match self {
            Transports::Shm(shm) => shm.agree(word),
            Transports::Both(both) => both.shm().agree(word),
            Transports::Wrapped(wrapped) => wrapped.below().agree(word),
            Transports::Fabric(_) | Transports::Alone(_) | Transports::Sim(_) => Ok(()),
        }
    }

    /// These, in the layers that `plan` names, if any. A job of one process has nothing that could pass them.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn wrapped(self, plan: Layers, me: PeerId) -> Result<Transports> {
        self.in_layers(plan, me, 0, Clock::Machine)
    }

    /// The same of a lane, by any clock.
    pub(crate) fn in_layers(self, plan: Layers, me: PeerId, lane: u32, clock: Clock) -> Result<Transports> {
        if plan.is_empty() || matches!(self, Transports::Alone(_)) {
            return Ok(self);
        }
        let layers = plan.wrap(self, me, lane, clock)?;
        Ok(Transports::Wrapped(Box::new(Wrapped { layers, plan, me })))
    }

    /// The faults that were made on purpose so far.
    pub fn injected(&self) -> Option<Injected> {
        match self {
            Transports::Wrapped(wrapped) => Some(wrapped.layers.inner().injected()),
            _ => None,
        }
    }
}
