//! The processes that were talked to: an entry each, found by process number or by queue pair. Nothing is kept of others.

use crate::flight::Flight;
use crate::paths::Paths;
use crate::rail::MOST_RAILS;
use crate::rings::Pair;
use crate::stream::Stream;
use crate::wide::Late;
use std::collections::VecDeque;
use weft_api::numbers::NumberMap;
use weft_api::verbs::{Nanos, QueuePairNumber};
use weft_types::PeerId;

/// How far the connection is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// The question is under way: first contact, or after a failure. `until`: when the peer is given up.
    Asking { next: Nanos, pause: Nanos, until: Nanos },
    /// The own end of a connection takes what comes, and the peer was told so; whether its end does is not known. Nothing is
    /// posted before: a device drops what comes to a queue pair that is not opened, and repeats it much later, an emulated one
    /// not before the program looks again. It is said again `next`; from `until` on retries shall tell. `received` is what the
    /// peer has of the flight.
    Answered { remote_pair: QueuePairNumber, received: u32, next: Nanos, pause: Nanos, until: Nanos },
    /// Messages flow by a connection.
    Open { remote_pair: QueuePairNumber },
    /// As `Open`, but nothing more is posted: it is given back ([`crate::wide`]). Who was asked for it, and has nothing under
    /// way, yields it: says so `next` and after that in ever longer pauses. The other gives it back when nothing of its own is
    /// under way.
    Parting { remote_pair: QueuePairNumber, next: Nanos, pause: Nanos },
    /// Messages flow by datagrams; there is no queue pair.
    Datagrams,
    /// It has failed; what had arrived is about to be taken in. Then another is made, or what it holds is given back. `until`:
    /// how long the next one is asked for.
    Failing { again: bool, until: Nanos },
    /// It is no more.
    Gone,
}

/// A message that has arrived.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// By a connection: in this slot of this device.
    Slot { rail: u8, slot: u16, bytes: u32 },
    /// By a ring: in this place of it.
    Record { place: u16, bytes: u16 },
    /// By datagrams, or copied.
    Letter(Box<[u8]>),
}

/// One connection to a process: the one of messages, or one beside it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    /// Which connection of the two it is: see [`Hello`](crate::handshake::Hello).
    pub(crate) channel: u8,
    /// Devices that it has.
    pub(crate) theirs: u8,
    /// The device that its queue pair is on.
    pub(crate) rail: u8,
    /// The device that its flight was posted on.
    pub(crate) flown: u8,
    /// Where it is found.
    pub(crate) paths: Paths,
    pub(crate) state: State,
    pub(crate) pair: QueuePairNumber,
    /// Which of all processes that ever had this number it is; 0: it was not heard yet.
    pub(crate) life: u32,
    /// Connections that have failed.
    pub(crate) epoch: u32,
    /// Most bytes of a packet that both devices take.
    pub(crate) mtu: u16,
    /// Messages that have arrived, ever, wrapping, as the peer is told: those that it sends no more.
    pub(crate) received: u32,
    /// Messages besides, taken while another way was asked for: they come once more by that, and are dropped.
    pub(crate) beyond: u32,
    pub(crate) inbox: VecDeque<Arrived>,
    pub(crate) flight: Flight,
    /// The way of messages while the state is [`State::Datagrams`].
    pub(crate) stream: Option<Box<Stream>>,
    /// That way still, while another is asked for.
    pub(crate) late: Option<Box<Late>>,
    /// Rings between the two, if there ever was one.
    pub(crate) rings: Option<Box<Pair>>,
    /// Whether it stands in the list of those whose streams have something under way.
    pub(crate) talking: bool,
    /// Its last connection failed before anything was heard by it.
    pub(crate) mute: bool,
    /// Changes of way in a row that were to gain a connection and did not.
    pub(crate) in_vain: u8,
    /// Registered memory is to be reached.
    pub(crate) needs: bool,
    /// When this connection was used last, as far as anybody looked, and what of its numbers told so.
    pub(crate) used: Nanos,
    pub(crate) mark: u32,
    /// Whether it stands in the list of those with messages.
    pub(crate) listed: bool,
    /// Whether it stands in the list of those whose last requests nothing tells of.
    pub(crate) open: bool,
    /// It has ended MPI: its end is no loss, and its acknowledgements are not waited for.
    pub(crate) resting: bool,
    /// How often that has changed, as it said last.
    pub(crate) spell: u32,
    /// When it was heard last, as far as anybody looked.
    pub(crate) heard: Nanos,
    /// When it was asked last whether it is alive.
    pub(crate) asked: Nanos,
    /// When this connection was made.
    pub(crate) made: Nanos,
}

impl Peer {
    /// A message has come by the present way. Whether it is new: of those that were taken beyond what the peer was told of, none
    /// is.
    #[inline]
    pub(crate) fn is_new(&mut self) -> bool {
        self.received = self.received.wrapping_add(1);
        let known = self.beyond > 0;
        self.beyond -= u32::from(known);
        !known
    }

    /// A message is there, and those ahead of it.
    pub(crate) fn has_come(&self) -> u32 {
        self.received.wrapping_add(self.beyond)
    }
}

/// All of them; an entry's place stays the same.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    entries: Vec<Peer>,
    /// By channel.
    by_id: [NumberMap<u32>; MOST_RAILS],
    by_pair: NumberMap<u32>,
}

/// No queue pair of a device has it: they have 24 bits. Of a peer that messages go to by datagrams.
pub(crate) const NO_PAIR: QueuePairNumber = QueuePairNumber(u32::MAX);

/// Numbers of queue pairs have 24 bits.
fn pair_on(rail: u8, pair: QueuePairNumber) -> u32 {
    pair.0 | u32::from(rail) << 24
}

impl Peers {
    pub(crate) fn insert(
        &mut self,
        (id, channel, theirs): (PeerId, u8, u8),
        paths: Paths,
        state: State,
        (rail, pair): (u8, QueuePairNumber),
        now: Nanos,
    ) -> u32 {
        let index = self.entries.len() as u32;
        self.entries.push(Peer {
            id,
            channel,
            theirs,
            rail,
            flown: rail,
            paths,
            state,
            pair,
            life: 0,
            epoch: 0,
            mtu: 0,
            received: 0,
            beyond: 0,
            inbox: VecDeque::new(),
            flight: Flight::default(),
            stream: None,
            late: None,
            rings: None,
            talking: false,
            mute: false,
            in_vain: 0,
            needs: false,
            used: now,
            mark: 0,
            listed: false,
            open: false,
            resting: false,
            spell: 0,
            heard: now,
            asked: now,
            made: now,
        });
        self.by_id[usize::from(channel)].insert(id.0, index);
        self.has_pair(index, rail, pair);
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

    /// The connections beside that of messages, as far as they were begun.
    pub(crate) fn beside(&self, id: PeerId) -> impl Iterator<Item = u32> + '_ {
        self.by_id[1..].iter().filter_map(move |of| of.get(&id.0).copied())
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

    /// It has another pair, on a device, or [`NO_PAIR`].
    pub(crate) fn has_pair(&mut self, index: u32, rail: u8, pair: QueuePairNumber) {
        let peer = self.at_mut(index);
        (peer.rail, peer.pair) = (rail, pair);
        if pair != NO_PAIR {
            self.by_pair.insert(pair_on(rail, pair), index);
        }
    }

    /// The pair is destroyed: its number may come again.
    pub(crate) fn forget_pair(&mut self, rail: u8, pair: QueuePairNumber) {
        self.by_pair.remove(&pair_on(rail, pair));
    }
}
