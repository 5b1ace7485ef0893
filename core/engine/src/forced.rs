//! [`Forced`]: one fabric to all processes, those of this node among them, and the node's memory for one thing alone: the launcher's word
//! that a process has died.
//!
//! A fabric notices the death of a process that it exchanges packets with. Of one that was never talked to it knows nothing, and a receive
//! from it would wait for ever.

use crate::both::BothBell;
use crate::fabric::{Fabric, FabricBell};
use std::collections::VecDeque;
use std::sync::Arc;
use weft_api::Transport;
use weft_shm::Shm;
use weft_types::PeerId;

/// So many looks at a fabric that always has something may pass before a death is told all the same.
const MOST_LOOKS: u32 = 64;

/// One way to all peers.
#[derive(Debug)]
pub struct Forced {
    pub(crate) fabric: Fabric,
    /// Where the launcher tells of deaths, if it does.
    node: Option<Node>,
}

/// The node's memory, which carries no messages here.
#[derive(Debug)]
struct Node {
    shm: Shm,
    /// Deaths that were heard of. What the dead have sent before is on its way or here, and counts.
    heard: VecDeque<PeerId>,
    /// Whether the last look at the fabric found nothing, and how many found something since there are such deaths.
    is_quiet: bool,
    looks: u32,
}

impl Forced {
    pub(crate) fn new(fabric: Fabric, shm: Option<Shm>) -> Forced {
        let node = shm.map(|shm| Node { shm, heard: VecDeque::new(), is_quiet: false, looks: 0 });
        Forced { fabric, node }
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.fabric.is_idle()
            && self.node.as_ref().is_none_or(|node| node.heard.is_empty() && node.shm.is_idle())
    }

    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        let moved = self.fabric.progress();
        match &mut self.node {
            Some(node) if !node.heard.is_empty() || !node.shm.is_idle() => node.listen(moved),
            _ => moved,
        }
    }

    pub(crate) fn lost(&mut self) -> Option<PeerId> {
        if let Some(peer) = self.fabric.lost() {
            return Some(peer);
        }
        let peer = self.node.as_mut()?.next()?;
        // The fabric would find out by its retries, seconds later, or never.
        self.fabric.give_up(peer);
        Some(peer)
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
        // What was sent before a death may have come since the last look, which then says nothing of it: the next one does.
        let knew = !self.heard.is_empty();
        self.shm.progress();
        self.heard.extend(std::iter::from_fn(|| self.shm.lost()));
        self.is_quiet = knew && !moved;
        self.looks += u32::from(!self.heard.is_empty());
        moved || !self.heard.is_empty()
    }

    /// The next death to be told, when what its process has sent is taken in.
    fn next(&mut self) -> Option<PeerId> {
        if !self.is_quiet && self.looks < MOST_LOOKS {
            return None;
        }
        let peer = self.heard.pop_front();
        if self.heard.is_empty() {
            self.looks = 0;
        }
        peer
    }
}
