//! Private memory by number of processes: nothing for those never talked to, little for the others. The crate's readme says the
//! figures.

mod common;
#[path = "../../softroce/tests/common/counted.rs"]
mod counted;

use common::{Air, Antenna, address};
use counted::live;
use std::cell::RefCell;
use std::rc::Rc;
use weft_api::Transport;
use weft_api::verbs::{Hca, PortAddress, ProtectionDomain, QueuePairNumber, QueuePairPlan, Service};
use weft_rdma::{Directory, PeerCard, RailCard, Rdma};
use weft_softroce::Card;
use weft_types::{PeerId, Result};

/// Knows everybody, as the launcher's store does.
#[derive(Debug)]
struct Everybody;

impl Directory for Everybody {
    fn find(&mut self, _: PeerId) -> Result<PeerCard> {
        let first = RailCard {
            addresses: vec![PortAddress::routable(address(7))],
            datagrams: QueuePairNumber(16),
            qkey: 0,
        };
        Ok(PeerCard { first, others: Vec::new() })
    }
}

#[test]
fn the_silent_cost_nothing_and_others_little() {
    let air = Rc::new(RefCell::new(Air::quiet()));
    let mut rdma = Rdma::open(
        Card::new(address(0), Antenna(Rc::clone(&air), address(0))),
        PeerId(0),
        Box::new(Everybody),
    )
    .unwrap();
    air.borrow_mut().loss = 1.0; // Packets under way are nobody's memory.
    let before = live();
    for _ in 0..1_000 {
        rdma.progress();
        assert!(!rdma.is_gone(PeerId(999_999)) && rdma.peek(PeerId(999_999)).is_none());
    }
    assert_eq!(live(), before, "processes that nobody talked to");

    const PEERS: usize = 1 << 10;
    for peer in 1..=PEERS {
        rdma.connect(PeerId(peer as u32)).unwrap();
        rdma.progress();
    }
    let all = (live() - before) / PEERS;

    let mut card = Card::new(address(1), Antenna(air, address(1)));
    let queue = card.make_completion_queue(16).unwrap();
    let shared = card.make_shared_receive_queue(16).unwrap();
    let before = live();
    for _ in 0..PEERS {
        card.make_queue_pair(QueuePairPlan {
            domain: ProtectionDomain(0),
            service: Service::ReliableConnection,
            send_queue: queue,
            receive_queue: queue,
            shared_receive_queue: Some(shared),
            max_send: 128,
            max_receive: 0,
            qkey: 0,
        })
        .unwrap();
    }
    let device = (live() - before) / PEERS;
    let said =
        format!("a connected one {} bytes here, and {device} in the emulator's queue pair", all - device);
    assert!(include_str!("../README.md").contains(&said), "the readme should say: {said}");
}
