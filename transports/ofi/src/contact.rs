//! Peers: how they are met, and how it is found out that they are gone.
//!
//! A message to a dead process fails, where the provider says so; nothing else tells of its death. So a silent peer is asked,
//! and where that does not help, knocked at ([`crate::knock`]).

use crate::clock;
use crate::flow::Flow;
use crate::knock::{Answer, Knock, socket_address};
use crate::packet::What;
use crate::sys::{FI_ADDR_STR, FI_ORDER_SAS};
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
/// How long a message may be later than one that was sent after it, by a provider that keeps the order.
const MISSING: Duration = Duration::from_secs(10);
/// How long a way may refuse everything before it is looked whether anybody is there; also the pause between looks at the silent.
pub(crate) const STUCK: Duration = Duration::from_millis(500);
/// How long the own address may take to answer.
const OWN_ANSWER: Duration = Duration::from_millis(200);
/// How long the library may keep operations with a lost peer. It ends them when it finds the connection closed; until then it
/// may still write to the memory that they name, so they are not over.
const MOURNING: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    /// Its place in the address vector.
    pub(crate) address: u64,
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
    pub(crate) gone: bool,
    /// It has ended MPI: its end is no loss, and its acknowledgements are not waited for.
    pub(crate) resting: bool,
    /// When it was heard last.
    pub(crate) heard: Instant,
    /// When it is asked next, and how long after that again.
    pub(crate) ask_at: Instant,
    pub(crate) pause: Duration,
    /// A question is open.
    pub(crate) asked: bool,
    /// The library has taken a message to it: there is a connection, where there are such.
    pub(crate) reached: bool,
    /// Since when sends are refused and none of those under way ends.
    pub(crate) stuck: Option<Instant>,
    /// Where it can be knocked at, where that tells something.
    pub(crate) door: Option<SocketAddr>,
    pub(crate) knock: Option<Knock>,
    /// Since when something is missing that later messages were sent after, and up to which number.
    pub(crate) missing: Option<(Instant, u16)>,
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
        let address = self.slots.device().insert(&card.address)?;
        let door = if self.has_doors { socket_address(&card.address) } else { None };
        Ok(self.remember(id, address, card.key, door))
    }

    pub(crate) fn remember(&mut self, id: PeerId, address: u64, key: u32, door: Option<SocketAddr>) -> u32 {
        let now = clock::now();
        let number = self.peers.len() as u32;
        self.numbers.insert(id.0, number);
        self.peers.push(Peer {
            id,
            address,
            key,
            flow: Flow::default(),
            kept: None,
            in_flight: 0,
            listed: false,
            due: false,
            gone: false,
            resting: false,
            heard: now,
            ask_at: now + SILENCE,
            pause: SILENCE,
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

    /// A peer is gone.
    pub(crate) fn lose(&mut self, number: u32) {
        let peer = &mut self.peers[number as usize];
        if std::mem::replace(&mut peer.gone, true) {
            return;
        }
        if !peer.resting {
            let id = peer.id;
            self.lost.push_back(id);
            self.lost_in_groups(id, true);
        }
        self.mourn(number);
    }

    /// Everything with a peer that is gone has failed; what the library still has of it is told when it gives it back, or after
    /// a while.
    pub(crate) fn mourn(&mut self, number: u32) {
        self.drop_kept(number);
        if self.operations.lose(number) {
            self.mourned.push((clock::now(), number));
        }
    }

    /// Looks after operations with the lost that the library does not give back: their connection is closed, and they are told.
    fn bury_mourned(&mut self, now: Instant) {
        for at in (0..self.mourned.len()).rev() {
            let (since, number) = self.mourned[at];
            if self.operations.is_open(number) {
                if now.duration_since(since) < MOURNING {
                    continue;
                }
                self.slots.device().forget(self.peers[number as usize].address);
                self.operations.abandon(number);
            }
            self.mourned.swap_remove(at);
        }
    }

    /// Asks peers that were not heard for long whether they are there, and those that a process that ends waits for. A question
    /// costs them an answer the next time they look; who does not answer is knocked at.
    pub(crate) fn ask(&mut self, now: Instant) {
        self.bury_mourned(now);
        self.watch_more(now);
        let leaving = self.leaving.get();
        let keeps_order = self.slots.device_ref().offer().msg_order & FI_ORDER_SAS != 0;
        for number in 0..self.peers.len() as u32 {
            let peer = &mut self.peers[number as usize];
            if peer.gone {
                continue;
            }
            match peer.missing {
                Some((_, next)) if !peer.flow.lacks(next) => peer.missing = None,
                // It was on a connection that broke, and will never come.
                Some((since, _)) if keeps_order && now.duration_since(since) >= MISSING => {
                    let id = peer.id;
                    self.say(number, self.prefix(number, What::Lost), Some(id));
                    self.lose(number);
                    continue;
                }
                _ => {}
            }
            let peer = &mut self.peers[number as usize];
            if let Some(knock) = &mut peer.knock {
                match knock.look() {
                    Answer::Waiting => {}
                    Answer::Somebody => peer.knock = None,
                    Answer::Nobody => {
                        peer.knock = None;
                        self.lose(number);
                        continue;
                    }
                }
            } else if let Some(since) = peer.stuck
                && now.duration_since(since) >= STUCK
            {
                peer.stuck = Some(now);
                peer.knock = peer.door.and_then(Knock::at);
            }
            let peer = &mut self.peers[number as usize];
            // Who rests, there or here, is neither asked nor asks: only what does not get away tells of an end.
            if peer.resting || self.rests {
                continue;
            }
            let waited_for = leaving && !peer.flow.has_left();
            // A process that wants to end asks at once.
            if now < peer.ask_at && (peer.asked || !waited_for) {
                continue;
            }
            if !waited_for && now.duration_since(peer.heard) < SILENCE {
                peer.ask_at = peer.heard + SILENCE;
                continue;
            }
            if !peer.asked {
                peer.pause = SILENCE;
            } else if peer.knock.is_none() && now.duration_since(peer.heard) >= SILENCE {
                peer.knock = peer.door.and_then(Knock::at);
            }
            peer.asked = true;
            peer.ask_at = now + if waited_for { IMPATIENCE } else { peer.pause };
            peer.pause = (peer.pause * 2).min(LONGEST_PAUSE);
            self.say(number, self.prefix(number, What::Ask), None);
        }
    }
}
