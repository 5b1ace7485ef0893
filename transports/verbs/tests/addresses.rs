//! A port's further addresses are tried where its first does not reach the peer. Needs a device with two addresses: see
//! `common::port`.

mod common;

use common::Cards;
use std::time::{Duration, Instant};
use weft_api::Transport;
use weft_rdma::{PeerCard, Rdma};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_verbs::Verbs;
use weft_wire::{Header, Kind};

/// An address of the same network that nobody has, in the place of the first.
fn with_a_dead_first(mut card: PeerCard) -> PeerCard {
    let first = &mut card.first.addresses[0];
    let mut socket = first.address.socket;
    match socket.ip() {
        std::net::IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            socket.set_ip([a, b, c, 177].into());
        }
        std::net::IpAddr::V6(_) => panic!("the first address is of IPv4, where there is one"),
    }
    first.address = socket.into();
    card
}

#[test]
fn an_address_that_nobody_has_is_left_for_another() {
    let Some(choice) = common::port() else { return };
    assert!(choice.gids.len() > 1, "a second address is needed: {}", choice.why);
    for most in [0, 1] {
        let cards = Cards::default();
        let open = |process| {
            let device = Verbs::open(choice.clone()).unwrap();
            let mut rdma = Rdma::open(device, PeerId(process), Box::new(cards.clone())).unwrap();
            rdma.set_connections(most);
            rdma
        };
        let mut ends: Vec<_> = (0..3).map(open).collect();
        *cards.0.lock().unwrap() = ends.iter().map(|end| with_a_dead_first(end.card())).collect();
        let begun = Instant::now();
        for number in 0..20 {
            for (me, peer) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
                let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(number));
                ends[me].connect(PeerId(peer as u32)).unwrap();
                let mut sent = false;
                while ends[peer].peek(PeerId(me as u32)).is_none() {
                    let to = PeerId(peer as u32);
                    sent =
                        sent || ends[me].send_copy(to, header, 3_000, |room| room.fill(number as u8)).is_ok();
                    ends.iter_mut().for_each(|end| _ = end.progress());
                    assert!(begun.elapsed() < Duration::from_secs(60), "message {number} never arrives");
                    std::thread::yield_now();
                }
                let (head, payload) = ends[peer].peek(PeerId(me as u32)).unwrap();
                assert_eq!((head, payload.len(), payload[0]), (header, 3_000, number as u8));
                ends[peer].advance(PeerId(me as u32));
            }
        }
        let counts = ends[0].counts();
        println!("{:?}: {counts:?}, of {}", begun.elapsed(), choice.why);
        assert!(counts.moves > 0 && (most == 0 || counts.letters > 0));
        assert!(ends.iter_mut().all(|end| end.lost().is_none()));
    }
}
