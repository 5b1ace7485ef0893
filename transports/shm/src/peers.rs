//! From the job's numbering to the node's and back.

use std::collections::HashMap;
use weft_types::PeerId;

/// Which local index a peer has.
#[derive(Clone, Debug)]
pub(crate) struct PeerMap {
    /// By local index.
    peers: Vec<PeerId>,
    /// The first peer.
    base: u32,
    /// How many peers there are, when all follow the first without a gap (the usual mapping); otherwise 0.
    in_order: u32,
    /// Local indices where they do not.
    scattered: HashMap<u32, u32>,
}

impl PeerMap {
    pub(crate) fn new(peers: Vec<PeerId>) -> PeerMap {
        let base = peers[0].0;
        let in_order = peers.iter().zip(base..).all(|(peer, expected)| peer.0 == expected);
        let scattered =
            if in_order { HashMap::new() } else { peers.iter().map(|peer| peer.0).zip(0..).collect() };
        let in_order = if in_order { peers.len() as u32 } else { 0 };
        PeerMap { peers, base, in_order, scattered }
    }

    /// The local index of `peer`.
    ///
    /// # Panics
    /// When the peer is not on this node; the engine asks only for those that are.
    #[inline]
    pub(crate) fn local(&self, peer: PeerId) -> u32 {
        let index = peer.0.wrapping_sub(self.base);
        if index < self.in_order { index } else { self.local_slowly(peer) }
    }

    #[cold]
    fn local_slowly(&self, peer: PeerId) -> u32 {
        match self.scattered.get(&peer.0) {
            Some(&local) => local,
            None => unreachable!("peer {} is not on this node", peer.0),
        }
    }

    /// Whether `peer` is on this node.
    #[inline]
    pub(crate) fn contains(&self, peer: PeerId) -> bool {
        peer.0.wrapping_sub(self.base) < self.in_order || self.scattered.contains_key(&peer.0)
    }

    /// The peer with local index `local`.
    pub(crate) fn peer(&self, local: u32) -> PeerId {
        self.peers[local as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_in_order_and_scattered_are_found() {
        for peers in [vec![4, 5, 6], vec![0], vec![6, 4, 5], vec![0, 2, 4, 9]] {
            let map = PeerMap::new(peers.iter().map(|&p| PeerId(p)).collect());
            for (local, &peer) in peers.iter().enumerate() {
                assert_eq!(map.local(PeerId(peer)), local as u32);
                assert_eq!(map.peer(local as u32), PeerId(peer));
                assert!(map.contains(PeerId(peer)));
            }
            assert!((0..20).all(|peer| map.contains(PeerId(peer)) == peers.contains(&peer)), "{peers:?}");
        }
    }
}
