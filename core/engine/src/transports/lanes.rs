//! The lanes of [`Transports`]: ends of the same process for engines of their own, in shared memory and on a fabric.

use super::Transports;
use crate::both::Both;
use crate::contacts::Wide;
use weft_types::{Error, Farewell, PeerId, Result};

impl Transports {
    /// Whether there is more than one lane.
    pub fn has_lanes(&self) -> bool {
        match self {
            Transports::Alone(_) | Transports::Shm(_) | Transports::Both(_) => true,
            Transports::Fabric(forced) => forced.has_lanes(),
            // What shall pass through layers passes through shared memory of one lane.
            Transports::Wrapped(wrapped) => wrapped.below().takes_wide(),
            Transports::Sim(_) => false,
        }
    }

    /// Says on which NUMA node the core of each lane is, as far as it is known, so that the others' messages are written there.
    pub(crate) fn place_lanes(&self, nodes: &[Option<u32>]) {
        match self {
            Transports::Shm(shm) => shm.place_lanes(nodes),
            Transports::Both(both) => both.shm().place_lanes(nodes),
            // What is between nodes, or alone, writes into memory of the lane's own.
            Transports::Fabric(_) | Transports::Wrapped(_) | Transports::Alone(_) | Transports::Sim(_) => {}
        }
    }

    /// Whether a lane reaches other nodes with an end of its own on the fabric ([`Wide`]).
    pub fn takes_wide(&self) -> bool {
        match self {
            Transports::Both(_) => true,
            Transports::Fabric(forced) => forced.has_lanes(),
            Transports::Wrapped(wrapped) => wrapped.below().takes_wide(),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => false,
        }
    }

    /// As [`crate::Engine::keep_company`].
    pub(crate) fn keep_company(&mut self, keep: bool) -> bool {
        match self {
            Transports::Fabric(forced) => forced.fabric.keep_company(keep),
            Transports::Both(both) => both.fabric_mut().keep_company(keep),
            Transports::Wrapped(wrapped) => wrapped.below_mut().keep_company(keep),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => false,
        }
    }

    /// As [`crate::Engine::is_in_row`].
    pub(crate) fn is_in_row(&self) -> bool {
        match self {
            Transports::Fabric(forced) => forced.fabric.is_in_row(),
            Transports::Both(both) => both.fabric().is_in_row(),
            Transports::Wrapped(wrapped) => wrapped.below().is_in_row(),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => false,
        }
    }

    /// Whether it is known how a process is reached: in lanes other than lane 0 it may have to be asked first, which this does.
    pub(crate) fn is_known(&self, peer: PeerId) -> bool {
        match self {
            Transports::Fabric(forced) => forced.is_known(peer),
            Transports::Both(both) => both.is_known(peer),
            Transports::Wrapped(wrapped) => wrapped.below().is_known(peer),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => true,
        }
    }

    /// Another lane has found out that a process of another node is lost. What it has sent in this one comes first.
    pub(crate) fn hear_lost(&mut self, peer: PeerId) {
        match self {
            Transports::Fabric(forced) => forced.hear_lost(peer),
            Transports::Both(both) => both.hear_lost(peer),
            Transports::Wrapped(wrapped) => wrapped.below_mut().hear_lost(peer),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => {}
        }
    }

    /// Another lane has heard the farewell of a process of another node. What it has sent in this one comes first.
    pub(crate) fn hear_parted(&mut self, peer: PeerId, farewell: Farewell) {
        match self {
            Transports::Fabric(forced) => forced.hear_parted(peer, farewell),
            Transports::Both(both) => both.hear_parted(peer, farewell),
            Transports::Wrapped(wrapped) => wrapped.below_mut().hear_parted(peer, farewell),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => {}
        }
    }

    /// The same process's end of another lane, for an engine of its own (design section 6). Each lane is opened at most once.
    /// Without `wide` it reaches this node alone, until [`Transports::widen`].
    ///
    /// # Errors
    /// The lane's memory cannot be had; there is nothing but a fabric, and no end on it; a simulated fabric has no lanes.
    pub fn lane(&self, lane: u32, wide: Option<Wide>) -> Result<Transports> {
        match (self, wide) {
            (Transports::Alone(bell), _) => Ok(Transports::Alone(bell.clone())),
            (Transports::Shm(shm), _) => shm.lane(lane).map(Transports::Shm),
            (Transports::Both(both), None) => both.shm().lane(lane).map(Transports::Shm),
            (Transports::Both(both), Some(wide)) => {
                Ok(Transports::Both(Box::new(Both::in_lane(both.shm().lane(lane)?, wide))))
            }
            (Transports::Fabric(forced), Some(wide)) => {
                Ok(Transports::Fabric(Box::new(forced.lane(lane, wide)?)))
            }
            (Transports::Wrapped(wrapped), wide) => wrapped.lane(lane, wide),
            (Transports::Fabric(_) | Transports::Sim(_), _) => {
                Err(Error::internal("a fabric with one lane was asked for another"))
            }
        }
    }

    /// From now on this lane, which has reached this node alone, reaches other nodes, too. What is under way is not touched:
    /// the ways to the processes of this node stay the same.
    pub(crate) fn widen(&mut self, wide: Wide) {
        // Nothing but the place of what is taken out for a moment.
        *self = match std::mem::replace(self, Transports::alone()) {
            Transports::Shm(shm) => Transports::Both(Box::new(Both::in_lane(shm, wide))),
            other => other,
        };
    }
}
