//! Peers: how they are met, and how it is found out that they are gone.
//!
//! A message to a dead process fails, where the provider says so; nothing else tells of its death. So a silent peer is asked,
//! and where that does not help, knocked at ([`crate::knock`]).

use crate::card::OfiCard;
use crate::clock;
use crate::flow::Flow;
use crate::knock::{Answer, Knock, socket_address};
use crate::packet::{Era, What};
use crate::sys::{FI_ADDR_STR, FI_ADDR_UNSPEC};
use crate::transport::{Kept, Ofi, Place};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use weft_types::{Error, ErrorClass, PeerId, Result};

/// Silence after which a peer is asked: a message to a dead process fails, and nothing else tells of its death.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);
/// The longest pause between two questions that were not answered: a peer that computes is alive.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Pause between questions of a process that wants to end.
const IMPATIENCE: Duration = Duration::from_millis(20);
/// How long a message may be later than one that was sent after it, by a provider that keeps the order, and by one that does not.
const MISSING: Duration = Duration::from_secs(10);
const MISSING_WITHOUT_ORDER: Duration = Duration::from_secs(30);
/// How long a way may refuse everything before it is looked whether anybody is there; also the pause between looks at the silent.
pub(crate) const STUCK: Duration = Duration::from_millis(500);
/// How long the own address may take to answer.
const OWN_ANSWER: Duration = Duration::from_millis(200);
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    /// Its place in the address vector; `FI_ADDR_UNSPEC` while it has none: the library has refused one for now, or it is long lost.
    pub(crate) address: u64,
    /// Nothing can be sent to it as things are: it is gone or doubted, has no place, or must not be sent to before puts that wait.
    pub(crate) shut: bool,
    /// Pieces of puts that wait for the library.
    pub(crate) puts_waiting: u32,
    /// What messages to it begin with.
    pub(crate) key: u32,
    pub(crate) flow: Flow<Place>,
    /// Packets that wait to leave together.
    pub(crate) kept: Option<Kept>,
    /// Sends that have not completed.
    pub(crate) in_flight: u32,
    /// Whether it stands in the list of those with messages.
    pub(crate) listed: bool,
    /// News are due, and stand in the list of those.
    pub(crate) due: bool,
    /// Something has failed that goes to it: it may be lost.
    pub(crate) doubted: bool,
    pub(crate) gone: bool,
    /// It has ended MPI: its end is no loss, and its acknowledgements are not waited for. Since the era that it last told of.
    pub(crate) resting: bool,
    pub(crate) era: Era,
    /// It was heard.
    pub(crate) is_known: bool,
    /// Of what was sent to it, how much is known to have arrived, and since when no more.
    pub(crate) heeded: (u16, Instant),
    /// When it was heard last.
    pub(crate) heard: Instant,
    /// When it is asked next, and how long after that again.
    pub(crate) ask_at: Instant,
    pub(crate) pause: Duration,
    /// Something without a slot may have failed that went to it: it is asked also if it rests.
    pub(crate) suspected: bool,
    /// A question is open.
    pub(crate) asked: bool,
    /// The library has taken a message to it: there is a connection, where there are such.
    pub(crate) reached: bool,
    /// Since when sends are refused and none of those under way ends.
    pub(crate) stuck: Option<Instant>,
    /// Where it can be knocked at, where that tells something.
    pub(crate) door: Option<SocketAddr>,
    pub(crate) knock: Option<Knock>,
    pub(crate) missing: Option<Missing>,
}

/// A packet has not come that later messages were sent after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    pub(crate) since: Instant,
    /// Its number.
    pub(crate) number: u16,
    /// The number of the next packet when its sender asked.
    pub(crate) next: u16,
}

impl Peer {
    /// To be called when something has changed that [`Peer::shut`] tells of.
    pub(crate) fn look_whether_shut(&mut self, orders_puts: bool) {
        self.shut = self.gone
            || self.doubted
            || self.address == FI_ADDR_UNSPEC
            || orders_puts && self.puts_waiting > 0;
    }

    /// Whether a packet has been missing for so long that it will never come.
    fn lacks_for_ever(&mut self, now: Instant, patience: Duration) -> bool {
        let arrived = self.flow.seen().1;
        match self.missing {
            Some(Missing { number, next, .. }) if number != arrived || !self.flow.lacks(next) => {
                self.missing = None
            }
            Some(Missing { since, .. }) => return now.saturating_duration_since(since) >= patience,
            None => {}
        }
        false
    }

    /// Whether nothing more of what was sent has arrived for long, although the peer may be heard.
    fn is_unheeded(&mut self, now: Instant) -> bool {
        let arrived = self.flow.arrived_there();
        if self.flow.has_left() || self.heeded.0 != arrived {
            self.heeded = (arrived, now);
        }
        now.saturating_duration_since(self.heeded.1) >= SILENCE
    }
}

impl Ofi {
    /// Whether this process's own address answers as that of a living one.
    pub(crate) fn answers_at_its_door(&self) -> bool {
        let offer = self.slots.device_ref().offer();
        if offer.ip.is_none() || offer.drives_a_device() {
            return false;
        }
        let Some(mut knock) = socket_address(&self.card.address).and_then(Knock::at) else { return false };
        let begun = clock::now();
        while clock::since(begun) < OWN_ANSWER {
            match knock.look() {
                Answer::Waiting => std::thread::yield_now(),
                answer => return answer == Answer::Somebody,
            }
        }
        false
    }

    /// The number of a peer that is found by its card now.
    pub(crate) fn introduce(&mut self, id: PeerId) -> Result<u32> {
        if let Some(&number) = self.numbers.get(&id.0) {
            return Ok(number);
        }
        let card = self.card_of(id)?;
        let address = self.slots.device().insert(&card.address)?;
        let door = if self.has_doors { socket_address(&card.address) } else { None };
        let number = self.remember(id, address.unwrap_or(FI_ADDR_UNSPEC), card.key, door);
        if address.is_none() {
            self.unplaced.push((number, card.address));
        }
        Ok(number)
    }

    /// The card of a process, if its address is one for this provider.
    fn card_of(&mut self, id: PeerId) -> Result<OfiCard> {
        let card = self.directory.find(id)?;
        if card.provider != self.card.provider {
            return Err(Error::new(
                ErrorClass::OTHER,
                format!(
                    "process {} uses libfabric's provider {}, this one {}: set WEFT_OFI_PROVIDER alike everywhere",
                    id.0, card.provider, self.card.provider
                ),
            ));
        }
        if card.with_tags != self.card.with_tags {
            return Err(Error::new(
                ErrorClass::OTHER,
                format!(
                    "only one of process {} and this one sends messages with tags: set WEFT_OFI_TAGS alike everywhere",
                    id.0
                ),
            ));
        }
        let is_text = self.slots.device_ref().offer().addr_format == FI_ADDR_STR;
        let fits = if is_text {
            card.address.last() == Some(&0)
        } else {
            card.address.len() == self.card.address.len()
        };
        if !fits {
            return Err(Error::new(
                ErrorClass::OTHER,
                format!("the address of process {} is of another form than that of this one", id.0),
            ));
        }
        Ok(card)
    }

    /// Whether a peer has a place in the address vector; one that the library has refused for now is asked for again.
    #[inline]
    pub(crate) fn has_place(&mut self, number: u32) -> bool {
        self.peers[number as usize].address != FI_ADDR_UNSPEC || self.find_place(number)
    }

    #[cold]
    fn find_place(&mut self, number: u32) -> bool {
        let Peer { id, gone, .. } = self.peers[number as usize];
        let known = self.unplaced.iter().position(|(other, _)| *other == number);
        let placed = match known {
            Some(at) => self.slots.device().insert(&self.unplaced[at].1),
            // Somebody lost, who shall hear of it.
            None => self.card_of(id).and_then(|card| {
                self.peers[number as usize].key = card.key;
                self.slots.device().insert(&card.address)
            }),
        };
        match placed {
            Ok(Some(address)) => {
                if let Some(at) = known {
                    self.unplaced.swap_remove(at);
                }
                let peer = &mut self.peers[number as usize];
                peer.address = address;
                peer.look_whether_shut(self.orders_puts);
                if gone {
                    self.mourn(number);
                }
                true
            }
            Ok(None) => false,
            Err(error) => {
                self.lose_because(number, error);
                false
            }
        }
    }

    pub(crate) fn remember(&mut self, id: PeerId, address: u64, key: u32, door: Option<SocketAddr>) -> u32 {
        let now = clock::now();
        let number = self.peers.len() as u32;
        self.numbers.insert(id.0, number);
        self.peers.push(Peer {
            id,
            address,
            shut: address == FI_ADDR_UNSPEC,
            puts_waiting: 0,
            key,
            flow: Flow::default(),
            kept: None,
            in_flight: 0,
            listed: false,
            due: false,
            doubted: false,
            gone: false,
            resting: false,
            era: Era::default(),
            is_known: false,
            heeded: (0, now),
            heard: now,
            ask_at: now + SILENCE,
            pause: SILENCE,
            suspected: false,
            asked: false,
            reached: false,
            stuck: None,
            door,
            knock: None,
            missing: None,
        });
        self.post_receives();
        number
    }

    /// Asks peers that were not heard for long whether they are there, and those that a process that ends waits for. A question
    /// costs them an answer the next time they look; who does not answer is knocked at.
    pub(crate) fn ask(&mut self, now: Instant) {
        self.bury_mourned(now);
        self.watch_more(now);
        self.tell_the_lost(now);
        if !self.strangers.is_empty() {
            self.look_for_strangers(now);
        }
        let (leaving, rests) = (self.leaving.get(), self.rests());
        let patience = if self.keeps_order { MISSING } else { MISSING_WITHOUT_ORDER };
        for number in 0..self.peers.len() as u32 {
            let peer = &mut self.peers[number as usize];
            if peer.gone {
                continue;
            }
            if peer.lacks_for_ever(now, patience) {
                // It was on a connection that broke, and will never come.
                self.lose(number);
                self.peers[number as usize].ask_at = now;
                self.answer_lost(number);
                continue;
            }
            if let Some(knock) = &mut peer.knock {
                match knock.look() {
                    Answer::Waiting => {}
                    Answer::Somebody => peer.knock = None,
                    Answer::Nobody => {
                        self.doubt(number);
                        continue;
                    }
                }
            } else if let Some(since) = peer.stuck
                && now.saturating_duration_since(since) >= STUCK
            {
                peer.stuck = Some(now);
                peer.knock = peer.door.and_then(Knock::at);
            }
            // Who rests, there or here, is neither asked nor asks: only what does not get away, or does not end, tells of an end.
            if peer.resting && (peer.in_flight > 0 || self.operations.is_open(number)) {
                peer.stuck.get_or_insert(now);
            }
            if peer.resting && !peer.suspected || rests {
                continue;
            }
            let waited_for = leaving && !peer.flow.has_left();
            // A process that wants to end asks at once.
            if now < peer.ask_at && (peer.asked || !waited_for) {
                continue;
            }
            let silent = now.saturating_duration_since(peer.heard) >= SILENCE;
            if !(waited_for || silent || peer.is_unheeded(now)) {
                peer.ask_at = peer.heard + SILENCE;
                continue;
            }
            if !peer.asked {
                peer.pause = SILENCE;
            } else if silent && peer.knock.is_none() {
                peer.knock = peer.door.and_then(Knock::at);
            }
            // A question that the library refuses was not asked.
            if self.say(number, self.prefix(number, What::Ask), None) {
                let peer = &mut self.peers[number as usize];
                (peer.asked, peer.suspected) = (true, false);
                peer.ask_at = now + if waited_for { IMPATIENCE } else { peer.pause };
                peer.pause = (peer.pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}
