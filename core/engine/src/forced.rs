//! [`Forced`]: one fabric to all processes, those of this node among them, and the node's memory for one thing alone: the
//! launcher's word that a process has died.
//!
//! Farewells after a loss are heard there in the same way, also those of processes that were never met.
//!
//! A fabric notices the death of a process that it exchanges packets with. Of one that was never talked to it knows nothing,
//! and a receive from it would wait for ever.

use crate::both::BothBell;
use crate::contacts::{Contacts, Wide};
use crate::fabric::{Fabric, FabricBell};
use crate::told_deaths::{Departure, ToldDeaths};
use std::sync::Arc;
use std::time::Instant;
use weft_api::Transport;
use weft_shm::{Inquiry, Shm};
use weft_types::{Error, Farewell, PeerId, Result as Answer};

/// One way to all peers.
#[derive(Debug)]
pub struct Forced {
    pub(crate) fabric: Fabric,
    /// Where the launcher tells of deaths, if it does.
    node: Option<Node>,
    /// Whether what was told last was a farewell.
    only_parted: bool,
    /// In lanes other than lane 0: who knows how others are reached.
    contacts: Option<Arc<dyn Contacts>>,
}

/// The node's memory, which carries no messages here.
#[derive(Debug)]
struct Node {
    shm: Shm,
    deaths: ToldDeaths,
}

impl Forced {
    pub(crate) fn new(fabric: Fabric, shm: Option<Shm>) -> Forced {
        let node = shm.map(|shm| Node { shm, deaths: ToldDeaths::default() });
        Forced { fabric, node, only_parted: false, contacts: None }
    }

    /// Whether another lane can be opened. A sleeper hears of several lanes through the node's memory.
    pub(crate) fn has_lanes(&self) -> bool {
        self.node.is_some()
    }

    /// The same process's end of another lane.
    pub(crate) fn lane(&self, lane: u32, wide: Wide) -> Answer<Forced> {
        let Some(node) = &self.node else {
            return Err(Error::internal("a lane is to be opened where no memory of the node is shared"));
        };
        let shm = Some(node.shm.lane(lane)?);
        Ok(Forced { contacts: Some(wide.contacts), ..Forced::new(wide.fabric, shm) })
    }

    /// As [`crate::Transports::is_known`].
    pub(crate) fn is_known(&self, peer: PeerId) -> bool {
        self.contacts.as_ref().is_none_or(|contacts| contacts.is_known(peer))
    }

    /// As [`crate::Transports::hear_lost`].
    pub(crate) fn hear_lost(&mut self, peer: PeerId) {
        if let Some(node) = &mut self.node {
            node.deaths.hear(peer, Departure::Death, Instant::now());
        }
    }

    /// As [`crate::Transports::hear_parted`]. Farewells of this node's processes lie in its memory.
    pub(crate) fn hear_parted(&mut self, peer: PeerId, farewell: Farewell) {
        if let Some(node) = self.node.as_mut().filter(|node| !node.shm.is_here(peer)) {
            node.deaths.hear(peer, Departure::Farewell(farewell), Instant::now());
        }
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.fabric.is_idle()
            && self.node.as_ref().is_none_or(|node| node.deaths.is_empty() && node.shm.is_idle())
    }

    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        let moved = self.fabric.progress();
        match &mut self.node {
            Some(node) if !node.deaths.is_empty() || !node.shm.is_idle() => node.listen(moved),
            _ => moved,
        }
    }

    /// As [`Transport::has_brought`].
    #[inline]
    pub(crate) fn has_brought(&self) -> bool {
        self.fabric.has_brought() || self.node.as_ref().is_some_and(|node| !node.deaths.is_empty())
    }

    /// As [`crate::Transports::asks_in_vain`].
    pub(crate) fn asks_in_vain(&self) -> bool {
        self.fabric.asks_in_vain() || self.node.as_ref().is_some_and(|node| node.shm.has_inquiries())
    }

    /// As [`crate::Transports::inquiries`].
    pub(crate) fn inquiries(&mut self) -> Vec<Inquiry> {
        self.node.as_mut().map_or_else(Vec::new, |node| node.shm.inquiries())
    }

    pub(crate) fn lost(&mut self) -> Option<PeerId> {
        self.only_parted = false;
        if let Some(peer) = self.fabric.lost() {
            return Some(peer);
        }
        let node = self.node.as_mut().filter(|node| !node.deaths.is_empty())?;
        let (peer, departure) = node.deaths.next(Instant::now())?;
        if matches!(departure, Departure::Farewell(_)) {
            self.only_parted = true;
            return Some(peer);
        }
        // The fabric would find out by its retries, seconds later, or never.
        self.fabric.give_up(peer);
        Some(peer)
    }

    /// As [`Transport::has_only_parted`].
    pub(crate) fn has_only_parted(&self) -> bool {
        self.only_parted
    }

    /// As [`Transport::set_farewell`].
    pub(crate) fn set_farewell(&mut self, farewell: Farewell) {
        if let Some(node) = &mut self.node {
            node.shm.set_farewell(farewell);
        }
    }

    /// As [`Transport::farewell_of`]; of a process that has only parted messages may still be under way.
    pub(crate) fn farewell_of(&self, peer: PeerId) -> Farewell {
        let Some(node) = &self.node else { return Farewell::NONE };
        if node.shm.is_here(peer) { node.shm.farewell_of(peer) } else { node.deaths.farewell_of(peer) }
    }

    pub(crate) fn declare_lost(&mut self, peer: PeerId) {
        self.fabric.declare_lost(peer);
        if let Some(node) = self.node.as_mut().filter(|node| node.shm.is_here(peer)) {
            node.shm.declare_lost(peer);
        }
    }

    /// What rings on the fabric's news, and on the node's if it is listened to.
    pub(crate) fn bell(&self) -> Result<BothBell, FabricBell> {
        let fabric = self.fabric.bell();
        match &self.node {
            // Nobody asks whether it is armed: the fabric is looked at each time.
            Some(node) => Ok(BothBell::new(node.shm.bell(), fabric, Arc::default())),
            None => Err(fabric),
        }
    }
}

impl Node {
    /// Takes in what the launcher says. `moved`: whether the fabric had something just now.
    #[cold]
    fn listen(&mut self, moved: bool) -> bool {
        let now = Instant::now();
        // Before what is heard now, of which that look says nothing.
        self.deaths.looked(moved, now);
        self.shm.progress();
        while let Some(peer) = self.shm.lost() {
            let departure = match self.shm.has_only_parted() {
                true => Departure::Farewell(self.shm.farewell_of(peer)),
                false => Departure::Death,
            };
            self.deaths.hear(peer, departure, now);
        }
        moved || !self.deaths.is_empty()
    }
}
