//! RDMA over the emulator has the properties of a transport: over a network that loses, doubles and reorders, and over UDP.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_api::Bell;
use weft_api::kit::{self, Fabric};
use weft_api::verbs::Nanos;
use weft_rdma::{Directory, PeerCard, Rdma};
use weft_sim::Random;
use weft_softroce::{Card, Udp, Wire};
use weft_types::{Error, PeerId};

/// Cards by process.
#[derive(Clone, Debug, Default)]
struct Cards(Arc<Mutex<Vec<PeerCard>>>);

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> weft_types::Result<PeerCard> {
        let cards = self.0.lock().unwrap();
        cards.get(peer.0 as usize).copied().ok_or_else(|| Error::internal("no such process"))
    }
}

/// A network in virtual time.
#[derive(Debug)]
struct Air {
    now: Nanos,
    random: Random,
    loss: f64,
    flying: BTreeMap<(Nanos, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    arrived: BTreeMap<SocketAddr, Vec<(SocketAddr, Vec<u8>)>>,
    dead: Vec<SocketAddr>,
    serial: u64,
}

#[derive(Clone, Debug)]
struct Antenna(Rc<RefCell<Air>>, SocketAddr);

#[derive(Clone, Debug)]
struct Silent;

impl Bell for Silent {
    fn arm(&self) {}
    fn sleep(&self, _: Duration) {}
    fn disarm(&self) {}
}

impl Wire for Antenna {
    type Bell = Silent;

    fn now(&self) -> Nanos {
        self.0.borrow().now
    }

    fn send(&mut self, to: SocketAddr, datagram: &[u8]) -> bool {
        let air = &mut *self.0.borrow_mut();
        if air.random.chance(0.05) {
            return false;
        }
        let copies = 1 + usize::from(air.random.chance(0.05));
        for _ in 0..copies {
            if !air.random.chance(air.loss) {
                let at = air.now + 1_000 + air.random.below(20_000);
                air.serial += 1;
                air.flying.insert((at, air.serial), (self.1, to, datagram.to_vec()));
            }
        }
        true
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        let air = &mut *self.0.borrow_mut();
        let (from, datagram) = air.arrived.get_mut(&self.1)?.pop()?;
        buffer.clear();
        buffer.extend(datagram);
        Some(from)
    }

    fn bell(&self, _: Option<Nanos>) -> Silent {
        Silent
    }

    fn mtu(&self) -> u32 {
        1024
    }
}

struct Virtual {
    air: Rc<RefCell<Air>>,
    ends: Vec<Rdma<Card<Antenna>>>,
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
            if !air.dead.contains(&from) && !air.dead.contains(&to) {
                air.arrived.entry(to).or_default().push((from, datagram));
            }
        }
        if air.flying.is_empty() && air.arrived.values().all(Vec::is_empty) {
            air.now += 200_000; // Only clocks are left.
        }
    }

    fn kill(&mut self, process: usize) -> bool {
        self.air.borrow_mut().dead.push(address(process));
        true
    }
}

fn address(process: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 7, 0, 1 + process as u8), 4791))
}

#[test]
fn every_property_holds_over_a_bad_network() {
    for seed in 0..4 {
        kit::every_property(|processes| {
            let air = Air {
                now: 0,
                random: Random::new(seed),
                loss: seed as f64 * 0.01,
                flying: BTreeMap::new(),
                arrived: BTreeMap::new(),
                dead: Vec::new(),
                serial: 0,
            };
            let air = Rc::new(RefCell::new(air));
            let cards = Cards::default();
            let ends: Vec<_> = (0..processes)
                .map(|process| {
                    let card = Card::new(address(process), Antenna(air.clone(), address(process)));
                    Rdma::open(card, PeerId(process as u32), Box::new(cards.clone())).unwrap()
                })
                .collect();
            *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
            Virtual { air, ends }
        });
    }
}

struct Real(Vec<Rdma<Card<Udp>>>);

impl Fabric for Real {
    type Transport = Rdma<Card<Udp>>;

    fn ends(&mut self) -> &mut [Self::Transport] {
        &mut self.0
    }
}

#[test]
fn every_property_holds_over_udp() {
    kit::every_property(|processes| {
        let cards = Cards::default();
        let ends: Vec<_> = (0..processes)
            .map(|process| {
                let card = Udp::open(Ipv4Addr::LOCALHOST.into(), Some(0), 65536).unwrap();
                Rdma::open(card, PeerId(process as u32), Box::new(cards.clone())).unwrap()
            })
            .collect();
        *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
        Real(ends)
    });
}
