//! Processes over a network in virtual time that loses, doubles and reorders.

#![allow(dead_code, unreachable_pub, reason = "shared by test files, each of which uses its part")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_api::kit::Fabric;
use weft_api::verbs::Nanos;
use weft_api::{Bell, Pollable, Transport};
use weft_rdma::{Directory, PeerCard, Rdma};
use weft_sim::Random;
use weft_softroce::{Card, Unreachable, Wire};
use weft_types::{ContextId, Error, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

/// Cards by process.
#[derive(Clone, Debug, Default)]
pub struct Cards(pub Arc<Mutex<Vec<PeerCard>>>);

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> weft_types::Result<PeerCard> {
        let cards = self.0.lock().unwrap();
        cards.get(peer.0 as usize).copied().ok_or_else(|| Error::internal("no such process"))
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
    /// Time that passes at once when only clocks are left.
    pub pause: Nanos,
    /// Ways (from, to) on which nothing arrives.
    pub cut: BTreeSet<(SocketAddr, SocketAddr)>,
    flying: BTreeMap<(Nanos, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    arrived: BTreeMap<SocketAddr, Vec<(SocketAddr, Vec<u8>)>>,
    dead: Vec<SocketAddr>,
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
            pause: 200_000,
            cut: BTreeSet::new(),
            flying: BTreeMap::new(),
            arrived: BTreeMap::new(),
            dead: Vec::new(),
            bounced: BTreeMap::new(),
            serial: 0,
            jumbo: Vec::new(),
            most: usize::MAX,
        }
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

    fn send(&mut self, to: SocketAddr, datagram: &[u8]) -> bool {
        let air = &mut *self.0.borrow_mut();
        if !air.quiet && air.random.chance(0.05) {
            return false;
        }
        let copies = 1 + usize::from(!air.quiet && air.random.chance(0.05));
        for _ in 0..copies {
            if datagram.len() <= air.most && !air.random.chance(air.loss) {
                let delay = if air.quiet { 1_000 } else { 1_000 + air.random.below(20_000) };
                let at = air.now + delay;
                air.serial += 1;
                air.flying.insert((at, air.serial), (self.1, to, datagram.to_vec()));
            }
        }
        true
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        let air = &mut *self.0.borrow_mut();
        let arrived = air.arrived.get_mut(&self.1)?;
        let (from, datagram) =
            if air.quiet { (!arrived.is_empty()).then(|| arrived.remove(0))? } else { arrived.pop()? };
        buffer.clear();
        buffer.extend(datagram);
        Some(from)
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
        air.asked && air.cut.contains(&(self.1, address))
    }

    fn bell(&self, _: Option<Nanos>) -> Silent {
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
            let (dead, cut) = (air.dead.contains(&to), air.cut.contains(&(from, to)));
            if dead || cut {
                if air.tells && !air.asked {
                    let news = Unreachable { address: to, certain: dead };
                    air.bounced.entry(from).or_default().push(news);
                }
            } else if !air.dead.contains(&from) {
                air.arrived.entry(to).or_default().push((from, datagram));
            }
        }
        if air.flying.is_empty() && air.arrived.values().all(Vec::is_empty) {
            air.now += air.pause; // Only clocks are left.
        }
    }

    fn kill(&mut self, process: usize) -> bool {
        self.air.borrow_mut().dead.extend([address_on(process, 0), address_on(process, 1)]);
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
