//! Paths: by which rail, and by which addresses of the two devices there, a peer is reached.
//!
//! A port has several addresses, and nobody is asked which of them work: [`ways`](weft_api::verbs::ways) numbers the pairs
//! between two devices alike at both ends, and a question says its number. Whoever is asked takes the way of the question, so
//! what works in one direction only is left by whoever hears no answer: the next question goes by the next path, rails in turn,
//! then ways. What worked is kept for each peer, and where it was not the first one, it is the first that is tried towards
//! others of that network.
//!
//! Of each peer only the ways that are in use are kept. The others are in its card, which the directory gives again.
//!
//! What belongs to a way beside the addresses (its *route*: service level, bytes of a packet) devices may have to find out
//! ([`Hca::route`]). Nothing is sent by a way before that is over: a question is said when its way's route is known, and one that
//! comes by a way without is kept until then. Other peers do not wait, and the device says how long it takes at most.

use crate::card::PeerCard;
use crate::handshake::{Hello, Step};
use crate::peers::State;
use crate::rail::MOST_RAILS;
use crate::transport::Rdma;
use std::cmp::Ordering;
use weft_api::verbs::{
    DeviceAddress, Hca, Nanos, Pairing, PortAddress, QueuePairNumber, Route, Work, ways_seen,
};
use weft_types::PeerId;

/// How a peer's device is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) to: DeviceAddress,
    /// By which of the own addresses.
    pub(crate) by: u8,
    /// Which of the ways between the two devices that is.
    pub(crate) number: u8,
    /// The queue pair for datagrams there, and its key.
    pub(crate) datagrams: QueuePairNumber,
    pub(crate) qkey: u32,
}

/// The paths to a peer that are in use, by rail. Few processes have several, so the others are elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    first: Option<Path>,
    others: Option<Box<Others>>,
    /// How many there are to choose from.
    choices: u8,
}

/// Those by all rails but the first, in their order.
#[derive(Clone, Debug, Default)]
struct Others(Vec<Path>);

/// What was found out about ways that are not the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Liked {
    rail: u8,
    by: u8,
    network: u128,
}

/// How many of those are remembered.
const MOST_LIKED: usize = 16;

/// Stands in the time of the next question where it was not said yet, since the route is not known; with it, until when that is
/// waited for.
pub(crate) const UNSAID: Nanos = 1 << 63;

/// How long a route is waited for where there is another path, which is then tried instead.
const ROUTE_PATIENCE: Nanos = 300_000_000;

impl Path {
    /// A datagram to the peer.
    pub(crate) const fn datagram(&self) -> Work {
        Work::Datagram {
            to: self.to,
            by: self.by,
            queue_pair: self.datagrams,
            qkey: self.qkey,
            immediate: None,
        }
    }
}

impl Paths {
    /// By a rail.
    pub(crate) fn on(&self, rail: u8) -> Option<&Path> {
        match rail {
            0 => self.first.as_ref(),
            rail => self.others().get(usize::from(rail) - 1),
        }
    }

    fn others(&self) -> &[Path] {
        self.others.as_ref().map_or(&[], |others| &others.0)
    }

    /// Rails that lead there.
    pub(crate) fn rails(&self) -> u8 {
        u8::from(self.first.is_some()) + self.others().len() as u8
    }

    /// Whether there is another path.
    pub(crate) const fn has_others(&self) -> bool {
        self.choices > 1
    }

    /// By this way on a rail from now on. `false`: there is none.
    pub(crate) fn take(&mut self, path: Option<Path>, rail: u8) -> bool {
        let Some(path) = path else { return false };
        match rail {
            0 => self.first = Some(path),
            rail => {
                let others = &mut self.others.get_or_insert_default().0;
                let place = usize::from(rail) - 1;
                match others.len().cmp(&place) {
                    Ordering::Greater => others[place] = path,
                    Ordering::Equal => others.push(path),
                    // They come in their order.
                    Ordering::Less => return false,
                }
            }
        }
        true
    }

    /// Whether an address is that of one of the paths in use.
    pub(crate) fn leads_to(&self, address: DeviceAddress) -> bool {
        (0..MOST_RAILS as u8).filter_map(|rail| self.on(rail)).any(|path| path.to == address)
    }

    /// The number of the way on a rail.
    pub(crate) fn number(&self, rail: u8) -> u8 {
        self.on(rail).map_or(0, |path| path.number)
    }
}

impl<H: Hca> Rdma<H> {
    /// In words, how a process is reached: by which addresses, and by what. `None`: it was never talked to.
    pub fn way(&self, id: PeerId) -> Option<String> {
        let peer = self.peers.get(id)?;
        let path = peer.paths.on(peer.rail)?;
        let own = &self.rails[usize::from(peer.rail)].card.addresses;
        let by = own.get(usize::from(path.by)).map_or_else(String::new, PortAddress::to_string);
        let of = match (peer.paths.rails(), peer.paths.has_others()) {
            (1, false) => String::new(),
            (1, true) => format!(", way {} of {}", path.number + 1, peer.paths.choices),
            (rails, _) => format!(
                ", rail {} of {rails}, way {} of {} in all",
                peer.rail + 1,
                path.number + 1,
                peer.paths.choices
            ),
        };
        let what = match peer.state {
            State::Asking { .. } => "asked for",
            State::Answered { .. } => "answered",
            State::Open { .. } | State::Parting { .. } => "by a connection",
            State::Datagrams => "by datagrams",
            State::Failing { .. } => "failing",
            State::Gone => "gone",
        };
        let ring = peer.rings.as_ref().is_some_and(|pair| pair.out.is_some());
        let ring = if ring { ", short messages into a ring" } else { "" };
        let route = self.rails[usize::from(peer.rail)].hca.route_text(path.to, path.by);
        let route = route.map_or_else(String::new, |route| format!(", {route}"));
        Some(format!("{by} -> {} {what}{ring}{of}{route}", PortAddress::from(path.to)))
    }

    /// The processes that were talked to.
    pub fn met(&self) -> impl Iterator<Item = PeerId> {
        self.peers.all().iter().filter(|peer| peer.channel == 0).map(|peer| peer.id)
    }

    /// How many rails lead to a process: a device of ours and one of it each.
    fn rails_to(&self, card: &PeerCard) -> u8 {
        (self.rails.len() as u8).min(card.rails())
    }

    /// The ways to a process by a rail, the own addresses first.
    fn ways_to(&self, id: PeerId, card: &PeerCard, rail: u8) -> Vec<Pairing> {
        let Some(theirs) = card.rail(rail).filter(|_| rail < self.rails_to(card)) else { return Vec::new() };
        let own = &self.rails[usize::from(rail)].card.addresses;
        ways_seen(own, &theirs.addresses, self.me < id)
    }

    /// One of the ways to a process by a rail.
    pub(crate) fn path(&self, id: PeerId, card: &PeerCard, rail: u8, number: u8) -> Option<Path> {
        let pairing = self.ways_to(id, card, rail).get(usize::from(number)).copied()?;
        let theirs = card.rail(rail)?;
        Some(Path {
            to: theirs.addresses[usize::from(pairing.second)].address,
            by: pairing.first,
            number,
            datagrams: theirs.datagrams,
            qkey: theirs.qkey,
        })
    }

    /// The first paths to a process: on each rail the first way, or one that has worked towards that network.
    pub(crate) fn first_paths(&self, id: PeerId, card: &PeerCard) -> Paths {
        let mut paths = Paths::default();
        for rail in 0..self.rails_to(card) {
            let ways = self.ways_to(id, card, rail);
            let theirs = card.rail(rail).map_or(&[][..], |theirs| &theirs.addresses);
            let liked = self.liked.iter().rev().find_map(|liked| {
                ways.iter().position(|way| {
                    let network = theirs[usize::from(way.second)].network();
                    *liked == Liked { rail, by: way.first, network }
                })
            });
            paths.choices += ways.len() as u8;
            paths.take(self.path(id, card, rail, liked.unwrap_or(0) as u8), rail);
        }
        paths
    }

    /// A peer is reached by this way on a rail from now on. `false`: there is none.
    pub(crate) fn take_path(&mut self, index: u32, rail: u8, number: u8) -> bool {
        let peer = self.peers.at(index);
        if peer.paths.on(rail).is_some_and(|path| path.number == number) {
            return true;
        }
        let id = peer.id;
        let path = self.directory.find(id).ok().and_then(|card| self.path(id, &card, rail, number));
        self.peers.at_mut(index).paths.take(path, rail)
    }

    /// The path after the one in use: rail and number.
    pub(crate) fn next_path(&mut self, index: u32) -> Option<(u8, u8)> {
        let peer = self.peers.at(index);
        if !peer.paths.has_others() {
            return None;
        }
        let (id, now) = (peer.id, (peer.paths.number(peer.rail), peer.rail));
        let card = self.directory.find(id).ok()?;
        let rails = 0..self.rails_to(&card);
        let all =
            rails.flat_map(|rail| (0..self.ways_to(id, &card, rail).len() as u8).map(move |n| (n, rail)));
        let all: Vec<(u8, u8)> = all.collect();
        let later = all.iter().filter(|&&path| path > now).min();
        later.or_else(|| all.iter().min()).map(|&(number, rail)| (rail, number))
    }

    /// What is known of the route of the path in use.
    pub(crate) fn route_to(&mut self, index: u32) -> Route {
        let peer = self.peers.at(index);
        let rail = peer.rail;
        match peer.paths.on(rail) {
            Some(&path) => self.hca_of(rail).route(path.to, path.by),
            None => Route::Barred,
        }
    }

    /// Asks a peer for a way: now, or as soon as the route is known ([`Rdma::ask_unsaid`]).
    pub(crate) fn ask(&mut self, index: u32) {
        let now = self.now();
        if let Route::Known { .. } = self.route_to(index) {
            self.say(Step::Ask, index);
        } else if let State::Asking { next, .. } = &mut self.peers.at_mut(index).state {
            *next = UNSAID | (now + ROUTE_PATIENCE);
        }
    }

    /// A question that was not said yet, and whose route is waited for until `latest`. Returns whether it was said now.
    pub(crate) fn ask_unsaid(&mut self, index: u32, latest: Nanos) -> bool {
        match self.route_to(index) {
            Route::Known { .. } => {
                self.say(Step::Ask, index);
                return true;
            }
            Route::Asked if self.now() < latest => {}
            Route::Asked => {
                if let Some((rail, number)) = self.next_path(index)
                    && self.move_to(index, rail, number)
                {
                    self.peers.at_mut(index).epoch += 1;
                }
                self.ask(index);
            }
            Route::Barred => self.leave_barred(index),
        }
        false
    }

    /// The path in use must not be used: the next one that may be is, or the peer is lost.
    fn leave_barred(&mut self, index: u32) {
        for _ in 1..self.peers.at(index).paths.choices {
            let Some((rail, number)) = self.next_path(index) else { break };
            if !self.move_to(index, rail, number) {
                break;
            }
            if self.route_to(index) != Route::Barred {
                self.peers.at_mut(index).epoch += 1;
                return self.ask(index);
            }
        }
        self.lose(index);
    }

    /// A question or an answer came by a path whose route is not known: it is taken again when it is.
    pub(crate) fn hold(&mut self, index: u32, hello: Hello) {
        let rail = self.peers.at(index).rail;
        self.unrouted.retain(|&(of, ..)| of != index);
        self.unrouted.push((index, rail, hello));
    }

    /// Takes what was held, where the route is known by now.
    pub(crate) fn take_held(&mut self) {
        for (index, rail, hello) in std::mem::take(&mut self.unrouted) {
            match self.route_to(index) {
                Route::Asked => self.unrouted.push((index, rail, hello)),
                Route::Known { .. } | Route::Barred => self.greeted(rail, hello),
            }
        }
    }

    /// A connection by the path in use has failed: where that may lead elsewhere by now, it is asked for.
    pub(crate) fn renew_route(&mut self, index: u32) {
        let peer = self.peers.at(index);
        let rail = peer.rail;
        if let Some(&path) = peer.paths.on(rail) {
            self.hca_of(rail).renew_route(path.to, path.by);
        }
    }

    /// A peer has answered by the path in use.
    pub(crate) fn like_path(&mut self, index: u32) {
        let peer = self.peers.at(index);
        let (id, rail) = (peer.id, peer.rail);
        let Some(&path) = peer.paths.on(rail).filter(|path| path.number > 0 || !self.liked.is_empty()) else {
            return;
        };
        // What was liked for one of its networks is the choice of another peer: this one has settled it anew.
        let card = self.directory.find(id).ok();
        let theirs =
            card.as_ref().and_then(|card| card.rail(rail)).map_or(&[][..], |theirs| &theirs.addresses);
        self.liked
            .retain(|liked| liked.rail != rail || theirs.iter().all(|it| it.network() != liked.network));
        if path.number == 0 {
            return;
        }
        let network = PortAddress::from(path.to).network();
        let liked = Liked { rail, by: path.by, network };
        if self.liked.len() == MOST_LIKED {
            self.liked.remove(0);
        }
        self.liked.push(liked);
    }
}
