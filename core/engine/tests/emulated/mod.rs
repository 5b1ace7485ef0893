//! Engines over the emulator and a network that loses, doubles and reorders.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_datatype::{Datatype, Memory};
use weft_engine::{Directory, Engine, EngineConfig, Fabric, PeerCard, Rendezvous, Transports};
use weft_rdma::Rdma;
use weft_softroce::{Faults, Udp};
use weft_types::{Error, PeerId, Result, abi};

/// Bytes of the memory that tests move data in.
pub(crate) const ROOM: u64 = 1 << 20;

#[derive(Clone, Debug, Default)]
struct Cards(Arc<Mutex<Vec<PeerCard>>>);

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        let cards = self.0.lock().unwrap();
        cards.get(peer.0 as usize).cloned().ok_or_else(|| Error::internal("no such process"))
    }
}

pub(crate) fn engines(number: u32, seed: u64, said: Rendezvous) -> Vec<Option<Engine>> {
    let cards = Cards::default();
    let bad = |me| Faults {
        seed: seed << 8 | u64::from(me),
        loss: if seed.is_multiple_of(2) { 0.0 } else { 0.01 },
        doubling: 0.01,
        overtaking: 0.01,
    };
    let open = |me: u32| {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let card = Udp::open_with(address, Some(0), 1500, Some(bad(me))).expect("a socket");
        let rdma = Rdma::open(card, PeerId(me), Box::new(cards.clone())).expect("a device");
        cards.0.lock().unwrap().push(rdma.card());
        let config = EngineConfig { rendezvous: said, ..EngineConfig::new(PeerId(me), number) };
        Engine::new(config, Transports::over(Fabric::Softroce(rdma))).expect("an engine")
    };
    (0..number).map(|me| Some(open(me))).collect()
}

pub(crate) fn step(engines: &mut [Option<Engine>]) {
    let mut moved = false;
    for engine in engines.iter_mut().flatten() {
        moved |= engine.progress();
    }
    if !moved {
        std::thread::sleep(Duration::from_micros(200));
    }
}

pub(crate) fn byte() -> Datatype {
    Datatype::from(Datatype::predefined(abi::MPI_BYTE).expect("predefined"))
}

pub(crate) fn filled(with: impl Fn(u64) -> u8) -> Memory {
    let memory = Memory::packed_scratch(ROOM as usize);
    let fill: Vec<u8> = (0..ROOM).map(with).collect();
    memory.recv_view(0, 0, ROOM).unpack(0, &fill);
    memory
}

pub(crate) fn image(memory: &Memory) -> Vec<u8> {
    let mut all = vec![0; ROOM as usize];
    memory.retyped(&byte()).send_view(0, 0, ROOM).pack(0, &mut all);
    all
}
