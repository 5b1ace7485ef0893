//! Processes over a network in virtual time that loses, doubles and reorders.

#![allow(dead_code, unreachable_pub, reason = "shared by test files, each of which uses its part")]

pub mod device;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_api::kit::Fabric;
use weft_api::verbs::{Nanos, PortAddress};
use weft_api::{Bell, Pollable, Transport};
use weft_rdma::{Directory, MOST_RAILS, PeerCard, Rdma};
use weft_sim::Random;
use weft_softroce::{Arrival, Card, Unreachable, Wire};
use weft_types::{ContextId, Error, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

/// Cards by process.
#[derive(Clone, Debug, Default)]
pub struct Cards(pub Arc<Mutex<Vec<PeerCard>>>);

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> weft_types::Result<PeerCard> {
        let cards = self.0.lock().unwrap();
        cards.get(peer.0 as usize).cloned().ok_or_else(|| Error::internal("no such process"))
    }
}

/// A network in virtual time.
#[derive(Debug)]
pub struct Air {
    pub now: Nanos,
    random: Random,
    pub loss: f64,
    /// Whether it does anything else than carry.
    pub quiet: bool,
    /// Whether it tells where nobody is. Without, retries alone say so, as with cards.
    pub tells: bool,
    /// Whether it says so only to whoever asks for a host.
    pub asked: bool,
    /// Whether hosts answer for themselves all the same, as behind a packet filter: nobody tells of ways that are cut.
    pub filtered: bool,
    /// Time that passes at once when only clocks are left.
    pub pause: Nanos,
    /// Ways (from, to) on which nothing arrives.
    pub cut: BTreeSet<(SocketAddr, SocketAddr)>,
    /// Ways on which datagrams arrive, and nothing of connections.
    pub datagrams_only: BTreeSet<(SocketAddr, SocketAddr)>,
    /// Further addresses of devices, by the first.
    pub more: BTreeMap<SocketAddr, Vec<SocketAddr>>,
    /// Where the datagram arrived that a device took last.
    flying: BTreeMap<(Nanos, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    /// By the first address of a device: from where, to which of its addresses, what.
    arrived: BTreeMap<SocketAddr, Vec<Came>>,
    dead: Vec<SocketAddr>,
    /// Bytes that arrived, by the first address of the device that sent them.
    pub carried: BTreeMap<SocketAddr, usize>,
    /// A way (from, to) whose datagrams are held back, and those.
    pub held_way: Option<(SocketAddr, SocketAddr)>,
    held: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// What reached nobody, by sender.
    bounced: BTreeMap<SocketAddr, Vec<Unreachable>>,
    serial: u64,
    /// Devices that would send larger packets.
    pub jumbo: Vec<SocketAddr>,
    /// Larger datagrams are lost.
    pub most: usize,
}

impl Air {
    /// As [`Air::bad`], and it says nothing of where nobody is.
    pub fn deaf(seed: u64) -> Air {
        Air { tells: false, ..Air::bad(seed) }
    }

    /// A network that doubles, reorders and refuses.
    pub fn bad(seed: u64) -> Air {
        Air { random: Random::new(seed), quiet: false, ..Air::quiet() }
    }

    /// A network that does nothing but carry.
    pub fn quiet() -> Air {
        Air {
            now: 0,
            random: Random::new(0),
            loss: 0.0,
            quiet: true,
            tells: true,
            asked: false,
            filtered: false,
            pause: 200_000,
            cut: BTreeSet::new(),
            datagrams_only: BTreeSet::new(),
            more: BTreeMap::new(),
            flying: BTreeMap::new(),
            arrived: BTreeMap::new(),
            dead: Vec::new(),
            carried: BTreeMap::new(),
            held_way: None,
            held: Vec::new(),
            bounced: BTreeMap::new(),
            serial: 0,
            jumbo: Vec::new(),
            most: usize::MAX,
        }
    }
}

impl Air {
    /// What was held back arrives now. How much that is.
    pub fn let_go(&mut self) -> usize {
        let held = std::mem::take(&mut self.held);
        let count = held.len();
        for (from, to, datagram) in held {
            self.serial += 1;
            self.flying.insert((self.now, self.serial), (from, to, datagram));
        }
        count
    }
}

/// A datagram: from where, to which address, what.
type Came = (SocketAddr, SocketAddr, Vec<u8>);

impl Air {
    /// The first address of the device that has this one.
    fn device(&self, address: SocketAddr) -> SocketAddr {
        let has = self.more.iter().find(|(_, more)| more.contains(&address));
        has.map_or(address, |(&first, _)| first)
    }

    /// By which of its addresses a device sends to another one: that of the same network.
    fn exit(&self, device: SocketAddr, to: SocketAddr) -> Option<SocketAddr> {
        let network = |address| PortAddress::routable(address).network();
        let more = self.more.get(&device).map_or(&[][..], |more| more);
        let alike = |own: &SocketAddr| network(*own) == network(to);
        // Who has one address has a route everywhere.
        [device]
            .into_iter()
            .chain(more.iter().copied())
            .find(alike)
            .or_else(|| more.is_empty().then_some(device))
    }
}

#[derive(Clone, Debug)]
pub struct Antenna(pub Rc<RefCell<Air>>, pub SocketAddr);

#[derive(Clone, Debug)]
pub struct Silent;

impl Bell for Silent {
    fn arm(&self) {}
    fn sleep(&self, _: Duration) {}
    fn disarm(&self) {}
}

impl Pollable for Silent {
    fn descriptors<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}
}

impl Wire for Antenna {
    type Bell = Silent;

    fn now(&self) -> Nanos {
        self.0.borrow().now
    }

    fn send(&mut self, to: SocketAddr, datagram: &mut Vec<u8>) -> bool {
        let air = &mut *self.0.borrow_mut();
        let Some(from) = air.exit(self.1, to) else { return true };
        if !air.quiet && air.random.chance(0.05) {
            return false;
        }
        if air.held_way == Some((from, to)) {
            air.held.push((from, to, datagram.to_vec()));
            return true;
        }
        let copies = 1 + usize::from(!air.quiet && air.random.chance(0.05));
        for _ in 0..copies {
            if datagram.len() <= air.most && !air.random.chance(air.loss) {
                let delay = if air.quiet { 1_000 } else { 1_000 + air.random.below(20_000) };
                let at = air.now + delay;
                air.serial += 1;
                air.flying.insert((at, air.serial), (from, to, datagram.to_vec()));
            }
        }
        true
    }

    fn receive<'a>(&'a mut self, buffer: &'a mut Vec<u8>) -> Option<Arrival<'a>> {
        let air = &mut *self.0.borrow_mut();
        let arrived = air.arrived.get_mut(&self.1)?;
        let (from, at, datagram) =
            if air.quiet { (!arrived.is_empty()).then(|| arrived.remove(0))? } else { arrived.pop()? };
        *buffer = datagram;
        Some(Arrival { at: Some(at), ..Arrival::new(from, buffer) })
    }

    fn more_addresses(&self) -> Vec<SocketAddr> {
        self.0.borrow().more.get(&self.1).cloned().unwrap_or_default()
    }

    fn source(&mut self, to: SocketAddr) -> Option<SocketAddr> {
        self.leaves_by(to)
    }

    fn leaves_by(&self, to: SocketAddr) -> Option<SocketAddr> {
        self.0.borrow().exit(self.1, to)
    }

    fn unreachable(&mut self) -> Option<Unreachable> {
        let air = &mut *self.0.borrow_mut();
        air.bounced.get_mut(&self.1)?.pop()
    }

    fn tells_unreachable(&self) -> bool {
        self.0.borrow().tells
    }

    fn is_gone(&mut self, address: SocketAddr) -> bool {
        let air = self.0.borrow();
        air.asked && !air.filtered && air.cut.contains(&(self.1, address))
    }

    fn bell(&self) -> Silent {
        Silent
    }

    fn mtu(&self) -> u32 {
        if self.0.borrow().jumbo.contains(&self.1) { 4096 } else { 1024 }
    }
}

pub struct Virtual {
    pub air: Rc<RefCell<Air>>,
    pub ends: Vec<Rdma<Card<Antenna>>>,
}

impl Fabric for Virtual {
    type Transport = Rdma<Card<Antenna>>;

    fn ends(&mut self) -> &mut [Self::Transport] {
        &mut self.ends
    }

    fn idle(&mut self) {
        let air = &mut *self.air.borrow_mut();
        air.now += 5_000;
        while let Some((&(at, _), _)) = air.flying.first_key_value() {
            if at > air.now {
                break;
            }
            let (_, (from, to, datagram)) = air.flying.pop_first().unwrap();
            let (sender, device) = (air.device(from), air.device(to));
            // The upper three bits of the operation (IBTA, volume 1, section 9.2.1) name the service.
            let is_datagram = datagram.first().is_some_and(|operation| operation >> 5 == 0b011);
            let passes = is_datagram || !air.datagrams_only.contains(&(from, to));
            let (dead, cut) = (air.dead.contains(&device), air.cut.contains(&(from, to)) || !passes);
            if dead || cut {
                if air.tells && !air.asked && !(cut && air.filtered) {
                    let news = Unreachable { address: to, certain: dead };
                    air.bounced.entry(sender).or_default().push(news);
                }
            } else if !air.dead.contains(&sender) {
                *air.carried.entry(sender).or_default() += datagram.len();
                air.arrived.entry(device).or_default().push((from, to, datagram));
            }
        }
        if air.flying.is_empty() && air.arrived.values().all(Vec::is_empty) {
            air.now += air.pause; // Only clocks are left.
        }
    }

    fn kill(&mut self, process: usize) -> bool {
        self.air.borrow_mut().dead.extend((0..MOST_RAILS).map(|rail| address_on(process, rail)));
        true
    }
}

pub fn address(process: usize) -> SocketAddr {
    address_on(process, 0)
}

/// Of a process's device.
pub fn address_on(process: usize, rail: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 7, rail as u8, 1 + process as u8), 4791))
}

/// Of a process's device that has several: the first is that of [`address_on`], the last of IPv6.
pub fn addresses_on(process: usize, rail: usize) -> [SocketAddr; 3] {
    let other = SocketAddr::from((Ipv4Addr::new(10, 20, rail as u8, 1 + process as u8), 4791));
    let six = Ipv6Addr::new(0x2001, 0xdb8, 0, rail as u16, 0, 0, 0, 1 + process as u16);
    [address_on(process, rail), other, SocketAddr::from((six, 4791))]
}

/// Has all devices have [`addresses_on`].
pub fn with_several(mut air: Air, processes: usize) -> Air {
    for [first, more @ ..] in
        (0..processes).flat_map(|process| (0..MOST_RAILS).map(move |rail| addresses_on(process, rail)))
    {
        air.more.insert(first, more.to_vec());
    }
    air
}

/// Processes over a network that loses one packet in `1 / loss`.
pub fn virtual_fabric(processes: usize, seed: u64, loss: f64) -> Virtual {
    let mut air = Air::bad(seed);
    air.loss = loss;
    fabric_over(air, processes)
}

/// Processes over any network.
pub fn fabric_over(air: Air, processes: usize) -> Virtual {
    fabric_on(air, processes, 1)
}

/// Processes over any network, with so many devices each.
pub fn fabric_on(air: Air, processes: usize, rails: usize) -> Virtual {
    let air = Rc::new(RefCell::new(air));
    let cards = Cards::default();
    let ends: Vec<_> = (0..processes)
        .map(|process| {
            let devices = (0..rails).map(|rail| {
                let here = address_on(process, rail);
                Card::new(here, Antenna(air.clone(), here))
            });
            let me = PeerId(process as u32);
            Rdma::open_rails(devices.collect(), me, Box::new(cards.clone())).unwrap()
        })
        .collect();
    *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
    Virtual { air, ends }
}

impl Virtual {
    pub fn round(&mut self) {
        for end in &mut self.ends {
            end.progress();
        }
        self.idle();
    }

    /// As [`Virtual::round`], of these alone.
    pub fn round_of(&mut self, who: &[usize]) {
        for &end in who {
            self.ends[end].progress();
        }
        self.idle();
    }

    /// As [`Virtual::round`], of about half of them.
    pub fn random_round(&mut self, random: &mut Random) {
        for end in &mut self.ends {
            if random.chance(0.5) {
                end.progress();
            }
        }
        self.idle();
    }

    /// A minute in which only process 0 looks at its device.
    pub fn minute_of_computing(&mut self) {
        let begun = self.air.borrow().now;
        while self.air.borrow().now < begun + 60_000_000_000 {
            self.ends[0].progress();
            self.idle();
            self.air.borrow_mut().now += 1_000_000;
        }
    }

    /// One message each way between 0 and 1.
    pub fn introduce(&mut self) {
        let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
        self.ends[0].connect(PeerId(1)).unwrap();
        self.ends[1].connect(PeerId(0)).unwrap();
        let mut sent = [false; 2];
        while self.ends[0].peek(PeerId(1)).is_none() || self.ends[1].peek(PeerId(0)).is_none() {
            for (me, sent) in sent.iter_mut().enumerate() {
                let peer = PeerId(1 - me as u32);
                *sent = *sent || self.ends[me].send_inline(peer, header, b"hello").is_ok();
            }
            self.round();
        }
    }
}

/// Where each of `count` pieces of so many bytes begins, and its length.
pub fn pieces(bytes: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).map(move |at| {
        let [begin, end] = [at, at + 1].map(|at| bytes * at / count);
        (begin, end - begin)
    })
}
