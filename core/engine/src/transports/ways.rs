//! By which ways others are reached over a fabric, and what becomes of those to whom none leads.

use super::Transports;
use crate::types::Carrier;
use std::time::Duration;
use weft_api::Transport;
use weft_shm::Inquiry;
use weft_types::{Error, PeerId};

impl Transports {
    /// As [`Fabric::ways`].
    pub(crate) fn ways(&self, most: usize) -> Vec<(PeerId, String)> {
        match self {
            Transports::Fabric(forced) => forced.fabric.ways(most),
            Transports::Both(both) => both.fabric().ways(most),
            Transports::Wrapped(wrapped) => wrapped.below().ways(most),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => Vec::new(),
        }
    }

    /// What moves messages to other nodes; `None` where there are none.
    pub(crate) fn carrier(&self) -> Option<Carrier> {
        match self {
            Transports::Fabric(forced) => Some(forced.fabric.carrier()),
            Transports::Both(both) => Some(both.fabric().carrier()),
            Transports::Wrapped(wrapped) => wrapped.below().carrier(),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => None,
        }
    }

    /// As [`Fabric::asks_in_vain`], or the launcher has something to say of ways.
    #[inline]
    pub(crate) fn asks_in_vain(&self) -> bool {
        match self {
            Transports::Both(both) => both.fabric().asks_in_vain() || both.shm().has_inquiries(),
            Transports::Fabric(forced) => forced.asks_in_vain(),
            Transports::Wrapped(wrapped) => wrapped.below().asks_in_vain(),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => false,
        }
    }

    /// As [`Fabric::in_vain`].
    pub(crate) fn in_vain(&self, least: Duration) -> Vec<(PeerId, Duration)> {
        match self {
            Transports::Fabric(forced) => forced.fabric.in_vain(least),
            Transports::Both(both) => both.fabric().in_vain(least),
            Transports::Wrapped(wrapped) => wrapped.below().in_vain(least),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => Vec::new(),
        }
    }

    /// What the launcher has said of ways since the last call.
    pub(crate) fn inquiries(&mut self) -> Vec<Inquiry> {
        match self {
            Transports::Fabric(forced) => forced.inquiries(),
            Transports::Both(both) => both.shm_mut().inquiries(),
            Transports::Wrapped(wrapped) => wrapped.below_mut().inquiries(),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => Vec::new(),
        }
    }

    /// As [`Fabric::way`].
    pub(crate) fn way(&self, peer: PeerId) -> Option<String> {
        match self {
            Transports::Fabric(forced) => forced.fabric.way(peer),
            Transports::Both(both) => both.fabric().way(peer),
            Transports::Wrapped(wrapped) => wrapped.below().way(peer),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => None,
        }
    }

    /// Why a process that was lost cannot be reached, where it is not gone: what the fabric says.
    pub(crate) fn why_unreachable(&self, peer: PeerId) -> Option<Error> {
        match self {
            Transports::Fabric(forced) => forced.fabric.why_unreachable(peer),
            Transports::Both(both) => both.fabric().why_unreachable(peer),
            Transports::Wrapped(wrapped) => wrapped.below().why_unreachable(peer),
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => None,
        }
    }

    /// No way leads to a peer of a fabric, which lives: its end of the fabric is closed as that of a dead one. What a device has
    /// of its operations ends in failure, nothing is asked there any more, and what it may still ask is refused.
    pub(crate) fn give_up_way(&mut self, peer: PeerId) {
        match self {
            Transports::Fabric(forced) => forced.fabric.give_up(peer),
            Transports::Both(both) if !both.shm().is_here(peer) => both.fabric_mut().give_up(peer),
            Transports::Wrapped(wrapped) => wrapped.below_mut().give_up_way(peer),
            Transports::Both(_) | Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) => {}
        }
    }
}
