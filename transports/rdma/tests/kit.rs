//! RDMA over the emulator has the properties of a transport: over a network that loses, doubles and reorders, and over UDP.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_api::kit::{self, Fabric};
use weft_api::verbs::Nanos;
use weft_api::{Bell, Transport};
use weft_rdma::{Directory, PeerCard, Rdma};
use weft_sim::Random;
use weft_softroce::{Card, Udp, Unreachable, Wire};
use weft_types::{ContextId, Error, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

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
    /// What reached nobody, by sender.
    bounced: BTreeMap<SocketAddr, Vec<SocketAddr>>,
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

    fn unreachable(&mut self) -> Option<Unreachable> {
        let air = &mut *self.0.borrow_mut();
        let address = air.bounced.get_mut(&self.1)?.pop()?;
        Some(Unreachable { address, certain: true })
    }

    fn tells_unreachable(&self) -> bool {
        true
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
            if air.dead.contains(&to) {
                air.bounced.entry(from).or_default().push(to);
            } else if !air.dead.contains(&from) {
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

/// Processes over a network that loses one packet in `1 / loss`.
fn virtual_fabric(processes: usize, seed: u64, loss: f64) -> Virtual {
    let air = Air {
        now: 0,
        random: Random::new(seed),
        loss,
        flying: BTreeMap::new(),
        arrived: BTreeMap::new(),
        dead: Vec::new(),
        bounced: BTreeMap::new(),
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
}

#[test]
fn every_property_holds_over_a_bad_network() {
    for seed in 0..4 {
        kit::every_property(|processes| virtual_fabric(processes, seed, seed as f64 * 0.01));
    }
}

impl Virtual {
    fn round(&mut self) {
        for end in &mut self.ends {
            end.progress();
        }
        self.idle();
    }

    /// One message each way between 0 and 1.
    fn introduce(&mut self) {
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

/// Whoever only waits for a message learns that nobody is there to send it, within the time that the retries take.
#[test]
fn a_process_that_only_listens_learns_of_a_death() {
    for seed in 0..4 {
        let mut fabric = virtual_fabric(3, seed, seed as f64 * 0.01);
        fabric.introduce();
        for _ in 0..100_000 {
            fabric.round();
            assert_eq!(fabric.ends[0].lost(), None, "silence alone is no death (seed {seed})");
        }
        fabric.kill(1);
        let died = fabric.air.borrow().now;
        while fabric.ends[0].lost() != Some(PeerId(1)) {
            fabric.round();
            let took = fabric.air.borrow().now - died;
            assert!(took < 12_000_000_000, "nobody noticed for {took} ns (seed {seed})");
        }
    }
}

/// A process that computes does not look at its device, and is no dead one: what is sent to it arrives when it looks again.
#[test]
fn a_process_that_computes_for_a_minute_is_waited_for() {
    for seed in 0..4 {
        let mut fabric = virtual_fabric(2, seed, seed as f64 * 0.01);
        fabric.introduce();
        let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(7));
        fabric.ends[1].advance(PeerId(0));
        fabric.ends[0].send_inline(PeerId(1), header, b"when you have time").unwrap();
        let begun = fabric.air.borrow().now;
        while fabric.air.borrow().now < begun + 60_000_000_000 {
            fabric.ends[0].progress();
            fabric.idle();
            fabric.air.borrow_mut().now += 1_000_000;
            assert_eq!(fabric.ends[0].lost(), None, "seed {seed}");
        }
        assert!(!fabric.ends[0].has_left());
        while fabric.ends[1].peek(PeerId(0)).is_none() {
            fabric.round();
        }
        assert_eq!(fabric.ends[1].peek(PeerId(0)).unwrap().1, b"when you have time");
        assert!(!fabric.ends[1].is_gone(PeerId(0)) && !fabric.ends[0].is_gone(PeerId(1)));
    }
}

/// A process may end when what it sent has arrived, and only then; and nobody waits for one that has ended.
#[test]
fn what_has_left_has_arrived_and_the_resting_are_not_waited_for() {
    for seed in 0..20 {
        let mut fabric = virtual_fabric(2, seed, 0.2);
        fabric.introduce();
        let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(7));
        let mut sent = 0;
        while sent < 20 {
            sent +=
                u32::from(fabric.ends[0].send_copy(PeerId(1), header, 5_000, |place| place.fill(3)).is_ok());
            fabric.round();
        }
        assert!(!fabric.ends[0].has_left(), "the last one cannot be there yet");
        while !fabric.ends[0].has_left() {
            fabric.round();
        }
        fabric.ends[0].rest();
        fabric.kill(0);
        let mut seen = 0;
        fabric.ends[1].progress();
        while let Some((_, payload)) = fabric.ends[1].peek(PeerId(0)) {
            seen += u32::from(payload.len() == 5_000);
            fabric.ends[1].advance(PeerId(0));
            fabric.ends[1].progress();
        }
        assert_eq!(seen, 20, "seed {seed}");
        // What it answers now reaches nobody; that keeps it from ending for as long as the retries last at most, and is no loss
        // where the word of the rest arrived.
        let _ = fabric.ends[1].send_inline(PeerId(0), header, b"thanks");
        let begun = fabric.air.borrow().now;
        while !fabric.ends[1].has_left() {
            fabric.round();
            assert!(fabric.air.borrow().now - begun < 12_000_000_000, "waits for the dead (seed {seed})");
        }
    }
}

struct Real(Vec<Rdma<Card<Udp>>>);

impl Fabric for Real {
    type Transport = Rdma<Card<Udp>>;

    fn ends(&mut self) -> &mut [Self::Transport] {
        &mut self.0
    }

    /// Its socket is closed; who takes its place is nobody that the others know.
    fn kill(&mut self, process: usize) -> bool {
        self.0[process] = over_udp(process, Cards::default());
        true
    }
}

fn over_udp(process: usize, cards: Cards) -> Rdma<Card<Udp>> {
    let card = Udp::open(Ipv4Addr::LOCALHOST.into(), Some(0), 65536).unwrap();
    Rdma::open(card, PeerId(process as u32), Box::new(cards)).unwrap()
}

#[test]
fn every_property_holds_over_udp() {
    kit::every_property(|processes| {
        let cards = Cards::default();
        let ends: Vec<_> = (0..processes).map(|process| over_udp(process, cards.clone())).collect();
        *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
        Real(ends)
    });
}
