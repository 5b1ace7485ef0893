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

/// A message that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// By this device.
    pub(crate) rail: u8,
    /// In this slot of it.
    pub(crate) slot: u16,
    pub(crate) bytes: u32,
}

/// One connection to a process: the one of messages, or the one beside it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    /// Which connection of the two it is: see [`Hello`](crate::handshake::Hello).
    pub(crate) channel: u8,
    /// The device that its queue pair is on.
    pub(crate) rail: u8,
    /// The device that its flight was posted on.
    pub(crate) flown: u8,
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
    pub(crate) inbox: VecDeque<Arrived>,
    pub(crate) flight: Flight,
    /// Whether it stands in the list of those with messages.
    pub(crate) listed: bool,
    /// Whether it stands in the list of those whose last requests nothing tells of.
    pub(crate) open: bool,
    /// It has ended MPI: its end is no loss, and its acknowledgements are not waited for.
    pub(crate) resting: bool,
    /// When it was heard last, as far as anybody looked.
    pub(crate) heard: Nanos,
    /// When this connection was made.
    pub(crate) made: Nanos,
}

/// All of them; an entry's place stays the same.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    entries: Vec<Peer>,
    /// By channel.
    by_id: [NumberMap<u32>; 2],
    by_pair: NumberMap<u32>,
}

/// Numbers of queue pairs have 24 bits.
fn pair_on(rail: u8, pair: QueuePairNumber) -> u32 {
    pair.0 | u32::from(rail) << 24
}

impl Peers {
    pub(crate) fn insert(
        &mut self,
        (id, channel): (PeerId, u8),
        card: PeerCard,
        state: State,
        (rail, pair): (u8, QueuePairNumber),
        now: Nanos,
    ) -> u32 {
        let index = self.entries.len() as u32;
        self.entries.push(Peer {
            id,
            channel,
            rail,
            flown: rail,
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
            made: now,
        });
        self.by_id[usize::from(channel)].insert(id.0, index);
        self.by_pair.insert(pair_on(rail, pair), index);
        index
    }

    /// The connection of messages.
    pub(crate) fn find(&self, id: PeerId) -> Option<u32> {
        self.by_id[0].get(&id.0).copied()
    }

    /// One of the connections.
    pub(crate) fn find_channel(&self, id: PeerId, channel: u8) -> Option<u32> {
        self.by_id[usize::from(channel)].get(&id.0).copied()
    }

    pub(crate) fn of_pair(&self, rail: u8, pair: QueuePairNumber) -> Option<u32> {
        self.by_pair.get(&pair_on(rail, pair)).copied()
    }

    pub(crate) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.find(id).map(|index| self.at(index))
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Peer {
        &self.entries[index as usize]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Peer {
        &mut self.entries[index as usize]
    }

    pub(crate) fn all(&self) -> &[Peer] {
        &self.entries
    }

    /// It has another pair, on a device.
    pub(crate) fn has_pair(&mut self, index: u32, rail: u8, pair: QueuePairNumber) {
        let peer = self.at_mut(index);
        (peer.rail, peer.pair) = (rail, pair);
        self.by_pair.insert(pair_on(rail, pair), index);
    }

    /// The pair is destroyed: its number may come again.
    pub(crate) fn forget_pair(&mut self, rail: u8, pair: QueuePairNumber) {
        self.by_pair.remove(&pair_on(rail, pair));
    }
}
