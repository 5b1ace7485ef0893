//! The processes that were talked to: an entry each, found by process number or by queue pair. Nothing is kept of others.

use crate::flight::Flight;
use crate::handshake::PeerCard;
use std::collections::VecDeque;
use weft_api::numbers::NumberMap;
use weft_api::verbs::{Nanos, QueuePairNumber};
use weft_types::PeerId;

/// How far the connection is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// The question is under way: first contact, or after a failure. `until`: when the peer is given up.
    Asking { next: Nanos, pause: Nanos, until: Nanos },
    /// Messages flow.
    Open { remote_pair: QueuePairNumber },
    /// It has failed; what had arrived is about to be taken in. Then another is made, or what it holds is given back.
    Failing { again: bool },
    /// It is no more.
    Gone,
}

/// One process.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    /// Where it is found.
    pub(crate) card: PeerCard,
    pub(crate) state: State,
    pub(crate) pair: QueuePairNumber,
    /// Which of all processes that ever had this number it is; 0: it was not heard yet.
    pub(crate) life: u32,
    /// Connections that have failed.
    pub(crate) epoch: u32,
    /// Messages that have arrived, ever, wrapping.
    pub(crate) received: u32,
    /// Slots with messages that have arrived, and their bytes.
    pub(crate) inbox: VecDeque<(u32, u32)>,
    pub(crate) flight: Flight,
    /// Whether it stands in the list of those with messages.
    pub(crate) listed: bool,
    /// Whether it stands in the list of those whose last requests nothing tells of.
    pub(crate) open: bool,
    /// It has ended MPI: its end is no loss, and its acknowledgements are not waited for.
    pub(crate) resting: bool,
    /// When it was heard last, as far as anybody looked.
    pub(crate) heard: Nanos,
}

/// All of them; an entry's place stays the same.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    entries: Vec<Peer>,
    by_id: NumberMap<u32>,
    by_pair: NumberMap<u32>,
}

impl Peers {
    pub(crate) fn insert(
        &mut self,
        id: PeerId,
        card: PeerCard,
        state: State,
        pair: QueuePairNumber,
        now: Nanos,
    ) -> u32 {
        let index = self.entries.len() as u32;
        self.entries.push(Peer {
            id,
            card,
            state,
            pair,
            life: 0,
            epoch: 0,
            received: 0,
            inbox: VecDeque::new(),
            flight: Flight::default(),
            listed: false,
            open: false,
            resting: false,
            heard: now,
        });
        self.by_id.insert(id.0, index);
        self.by_pair.insert(pair.0, index);
        index
    }

    pub(crate) fn find(&self, id: PeerId) -> Option<u32> {
        self.by_id.get(&id.0).copied()
    }

    pub(crate) fn of_pair(&self, pair: QueuePairNumber) -> Option<u32> {
        self.by_pair.get(&pair.0).copied()
    }

    pub(crate) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.find(id).map(|index| self.at(index))
    }

    pub(crate) fn at(&self, index: u32) -> &Peer {
        &self.entries[index as usize]
    }

    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Peer {
        &mut self.entries[index as usize]
    }

    pub(crate) fn all(&self) -> &[Peer] {
        &self.entries
    }

    /// It has another pair.
    pub(crate) fn has_pair(&mut self, index: u32, pair: QueuePairNumber) {
        self.at_mut(index).pair = pair;
        self.by_pair.insert(pair.0, index);
    }

    /// The pair is destroyed: its number may come again.
    pub(crate) fn forget_pair(&mut self, pair: QueuePairNumber) {
        self.by_pair.remove(&pair.0);
    }
}
