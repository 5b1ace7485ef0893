//! A fabric that is used for all peers, also those of the node: the launcher tells of deaths in the node's memory, which carries no messages.

use std::collections::HashMap;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_api::{Bell, Transport};
use weft_engine::{Directory, Fabric, NodeLocal, PeerCard, Transports};
use weft_types::{ContextId, Error, PeerId, Rank, Result, Tag};
use weft_wire::{Header, Kind};

/// Longer than anything here takes, and no measure of anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the ranks of a test are found.
#[derive(Clone, Debug, Default)]
struct Cards(Arc<Mutex<HashMap<u32, String>>>);

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        match self.0.lock().unwrap().get(&peer.0) {
            Some(card) => card.parse(),
            None => Err(Error::internal("all cards are there before anybody asks")),
        }
    }
}

/// `ranks` processes of one node over the emulated fabric, and the file by which the launcher tells them of deaths.
fn node(ranks: u32) -> (Vec<Transports>, File) {
    let (cards, segment) = (Cards::default(), weft_shm::create().unwrap());
    let open = |me: u32| {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (fabric, card) = Fabric::softroce(PeerId(me), address, 1, Box::new(cards.clone())).unwrap();
        cards.0.lock().unwrap().insert(me, card);
        let (segment, peers) = (segment.try_clone().unwrap(), (0..ranks).map(PeerId).collect());
        let node = NodeLocal { segment, local_index: me, peers, single_copy: false, oversubscribed: true };
        Transports::forced(node, fabric).unwrap()
    };
    ((0..ranks).map(open).collect(), segment)
}

/// Moves `way` until it tells of a loss.
fn loss(way: &mut Transports) -> PeerId {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "nobody tells of the death");
        way.progress();
        if let Some(peer) = way.lost() {
            return peer;
        }
    }
}

#[test]
fn the_death_of_a_process_never_talked_to_is_told_and_wakes_who_sleeps() {
    let (mut ways, launcher) = node(3);
    let first = &mut ways[0];
    for victim in [2, 1] {
        assert!(!first.are_here([PeerId(victim)].into_iter()), "the memory carries no messages");
        let bell = first.bell();
        bell.arm();
        while first.progress() {}
        std::thread::scope(|scope| {
            scope.spawn(|| weft_shm::mark_dead(&launcher, 3, victim).unwrap());
            let begun = Instant::now();
            bell.sleep(PATIENCE);
            assert!(begun.elapsed() < PATIENCE, "nobody rang");
        });
        assert!(!first.is_idle(), "who only glances sees that there is news");
        assert_eq!(loss(first), PeerId(victim));
    }
    weft_shm::mark_far_dead(&launcher, 3, 7).unwrap();
    assert_eq!(loss(&mut ways[0]), PeerId(7), "a process of another node, too");
}

#[test]
fn what_the_dead_have_sent_counts() {
    let (mut ways, launcher) = node(2);
    let mut second = ways.pop().unwrap();
    let mut first = ways.pop().unwrap();
    let header = Header::new(Kind::Eager, ContextId(4), Rank(1), Tag(1));
    second.connect(PeerId(0)).unwrap();
    let begun = Instant::now();
    let mut sent = 0;
    // More than one look takes in.
    while sent < 40 {
        assert!(begun.elapsed() < PATIENCE, "message {sent} finds no room");
        sent += u32::from(second.send_inline(PeerId(0), header, &[1]).is_ok());
        second.progress();
        if sent == 0 {
            first.progress();
        }
    }
    weft_shm::mark_dead(&launcher, 2, 1).unwrap();
    let mut taken = 0;
    loop {
        assert!(begun.elapsed() < PATIENCE, "nobody tells of the death");
        first.progress();
        while first.peek(PeerId(1)).is_some() {
            first.advance(PeerId(1));
            taken += 1;
        }
        second.progress();
        if first.lost().is_some() {
            break;
        }
    }
    assert_eq!(taken, sent);
}
