//! Packets that have come and are not shown yet: the front one of each peer waits in the transport below until it is due.

use super::nap::Due;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use weft_api::Transport;
use weft_types::{Farewell, PeerId};
use weft_wire::Header;

/// The front packet of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    /// Nobody has looked whether there is one.
    Unseen,
    /// It is there, and to be seen from then on.
    Held(u64),
    /// It is seen, until it is dropped.
    Shown,
}

/// The front packets of all peers that were ever heard.
#[derive(Debug, Default)]
pub(super) struct Fronts {
    peers: BTreeMap<u32, Front>,
    /// Who is asked last the next time.
    last: u32,
}

/// Looks at who has packets before it is taken that all of them are held back.
const LOOKS: u32 = 4;

impl Fronts {
    /// Whether there is a packet of `peer` that may be seen. `due` says of a packet that is looked at first when it may.
    pub(super) fn is_shown<T: Transport>(
        &mut self,
        below: &mut T,
        peer: PeerId,
        now: u64,
        naps: &Due,
        due: impl FnOnce(Header, &[u8]) -> u64,
    ) -> bool {
        let front = self.peers.entry(peer.0).or_insert(Front::Unseen);
        if *front == Front::Unseen {
            let Some((header, payload)) = below.peek(peer) else { return false };
            *front = Front::Held(due(header, payload));
        }
        if let Front::Held(until) = *front {
            if now < until && !is_over(below, peer) {
                naps.at(until);
                return false;
            }
            *front = Front::Shown;
        }
        true
    }

    /// The packet was dropped below.
    pub(super) fn advance(&mut self, peer: PeerId) {
        self.peers.insert(peer.0, Front::Unseen);
    }

    /// Whether the front packet of `peer` was shown.
    pub(super) fn is_seen(&self, peer: PeerId) -> bool {
        self.peers.get(&peer.0) == Some(&Front::Shown)
    }

    /// Whether a packet of `peer` is there and not to be seen; it is, from now on.
    pub(super) fn unveil(&mut self, peer: PeerId) -> bool {
        match self.peers.get_mut(&peer.0) {
            Some(front @ Front::Held(_)) => {
                *front = Front::Shown;
                true
            }
            _ => false,
        }
    }

    /// A peer that has a packet to be seen, in turns.
    pub(super) fn ready<T: Transport>(
        &mut self,
        below: &mut T,
        mut is_shown: impl FnMut(&mut Fronts, &mut T, PeerId) -> bool,
    ) -> Option<PeerId> {
        for _ in 0..LOOKS {
            let peer = below.ready()?;
            if is_shown(self, below, peer) {
                return Some(peer);
            }
        }
        // Whoever is found below may be held back each time; the others are asked one by one.
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let in_turn = self.peers.range(behind).chain(self.peers.range(..=self.last));
        let known: Vec<u32> = in_turn.map(|(&peer, _)| peer).collect();
        let peer = known.into_iter().map(PeerId).find(|&peer| is_shown(self, below, peer))?;
        self.last = peer.0;
        Some(peer)
    }
}

/// Losses that are to be told after what the lost had sent was looked at.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Who, and whether it only parted.
    waiting: VecDeque<(PeerId, bool)>,
    /// Whether what was told last was a farewell.
    only_parted: bool,
}

impl Losses {
    /// A loss that the transport below knows nothing of.
    pub(super) fn add(&mut self, peer: PeerId) {
        self.waiting.push_back((peer, false));
    }

    /// As [`Transport::lost`]; `is_known`: the layer has told of that death itself.
    pub(super) fn next<T: Transport>(
        &mut self,
        below: &mut T,
        fronts: &mut Fronts,
        is_known: impl Fn(PeerId) -> bool,
    ) -> Option<PeerId> {
        while let Some(peer) = below.lost() {
            let parted = below.has_only_parted();
            if !parted && is_known(peer) {
                continue;
            }
            self.waiting.push_back((peer, parted));
            if fronts.unveil(peer) {
                // After what it sent has been looked at.
                return None;
            }
        }
        let (peer, parted) = self.waiting.pop_front()?;
        self.only_parted = parted;
        Some(peer)
    }

    /// As [`Transport::has_only_parted`].
    pub(super) const fn only_parted(&self) -> bool {
        self.only_parted
    }
}

/// Whether nothing more comes from a process, so that what is there must be read.
fn is_over<T: Transport>(below: &T, peer: PeerId) -> bool {
    below.is_gone(peer) || below.has_ended(peer) || below.farewell_of(peer) != Farewell::NONE
}
