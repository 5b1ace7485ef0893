//! Processes with a transport toward each kind of nodes: every property of a transport holds, and messages of each pair keep their order
//! beside those of others, whatever brings them.

use nix::poll::{PollFd, PollFlags};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_api::{Bell, Pollable, Transport, kit};
use weft_datatype::Scratch;
use weft_engine::{
    Carrier, Directory, Engine, EngineConfig, Envelope, Fabric, Guide, Lead, OfiCard, OfiDirectory,
    OfiWanted, PeerCard, Selector, SendMode, Started, Transports,
};
use weft_ofi::offers;
use weft_types::{ContextId, Error, PeerId, Rank, Result, Tag};

/// The cards of one transport's ends.
#[derive(Clone, Debug, Default)]
struct Cards(Arc<Mutex<HashMap<u32, String>>>);

impl Cards {
    fn of(&self, peer: PeerId) -> Result<String> {
        self.0.lock().unwrap().get(&peer.0).cloned().ok_or_else(|| Error::internal("no card"))
    }
}

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        self.of(peer)?.parse()
    }
}

impl OfiDirectory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<OfiCard> {
        self.of(peer)?.parse()
    }
}

/// The first so many processes reach each other by the first transport, with registered memory, and everybody else by the second.
#[derive(Clone, Copy, Debug)]
struct Split {
    me: u32,
    first: u32,
}

impl Guide for Split {
    fn find(&mut self, peer: PeerId) -> Result<Lead> {
        let by_first = self.me.max(peer.0) < self.first;
        Ok(Lead { way: usize::from(!by_first), memory: by_first })
    }
}

/// What the second transport is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Second {
    Emulator,
    Libfabric,
}

const PROVIDER: &str = "tcp;ofi_rxm";

fn has_libfabric() -> bool {
    offers().is_ok_and(|(offers, _)| offers.iter().any(|offer| offer.provider == PROVIDER))
}

fn open(me: u32, cards: &[Cards; 2], second: Second, first: u32) -> Fabric {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let emulated = |cards: &Cards| {
        let (fabric, card) =
            Fabric::softroce(PeerId(me), address, 1, None, 0, Box::new(cards.clone())).expect("a socket");
        cards.0.lock().unwrap().insert(me, card);
        fabric
    };
    let by_libfabric = |cards: &Cards| {
        let wanted =
            OfiWanted { address: Some(address), provider: Some(PROVIDER.into()), ..OfiWanted::default() };
        let (fabric, card) = Fabric::ofi(PeerId(me), &wanted, Box::new(cards.clone())).expect("an endpoint");
        cards.0.lock().unwrap().insert(me, card);
        fabric
    };
    let other = match second {
        Second::Emulator => emulated(&cards[1]),
        Second::Libfabric => by_libfabric(&cards[1]),
    };
    Fabric::several(vec![emulated(&cards[0]), other], Box::new(Split { me, first }), Carrier::Emulator)
}

fn ends(number: u32, second: Second, first: u32) -> Vec<Fabric> {
    let cards = Default::default();
    (0..number).map(|me| open(me, &cards, second, first)).collect()
}

struct Ends(Vec<Fabric>);

impl kit::Fabric for Ends {
    type Transport = Fabric;

    fn ends(&mut self) -> &mut [Fabric] {
        &mut self.0
    }

    fn idle(&mut self) {
        std::thread::sleep(Duration::from_micros(20));
    }
}

#[test]
fn every_property_holds_of_each_pair() {
    // Most pairs by the first, with memory of each other; and all by the second.
    for first in [3, 1] {
        kit::every_property(|processes| Ends(ends(processes as u32, Second::Emulator, first)));
    }
}

#[test]
fn registered_memory_is_the_first_ones_alone() {
    let all = ends(4, Second::Emulator, 2);
    assert!(all[0].zero_copy(PeerId(1)).is_some() && all[1].zero_copy(PeerId(0)).is_some());
    for (me, peer) in [(0, 2), (2, 0), (1, 3), (2, 3), (3, 2)] {
        assert!(all[me].zero_copy(PeerId(peer)).is_none(), "{me} and {peer}");
    }
}

/// All processes send to all others, long and short; each receives from anybody. What one sends comes in its order. Each sends so many messages
/// to each before it receives.
fn all_to_all(second: Second, ahead: u32) {
    const EACH: u32 = 40;
    const CONTEXT: ContextId = ContextId(4);
    let mut engines: Vec<Engine> = (0..)
        .zip(ends(4, second, 2))
        .map(|(me, fabric)| {
            Engine::new(EngineConfig::new(PeerId(me), 4), Transports::over(fabric)).expect("an engine")
        })
        .collect();
    let length = |number: u32| [0, 8, 700, 5000, 40_000, 300_000][(number % 6) as usize];
    let room = Scratch::new(300_000);
    let mut seen = [[0; 4]; 4];
    let mut requests = Vec::new();
    for number in 0..EACH {
        for me in 0..4 {
            for to in (0..4).filter(|&to| to != me) {
                let data = Scratch::new(300_000);
                let envelope = Envelope {
                    peer: PeerId(to),
                    context: CONTEXT,
                    source: Rank(me),
                    tag: Tag(number as i32),
                };
                let engine = &mut engines[me as usize];
                let started = engine.send(envelope, SendMode::Standard, data.send_buf(0, length(number)));
                if let Started::Pending(request) = started.expect("a send") {
                    requests.push((me, request, data));
                }
            }
        }
        if (number + 1) % ahead != 0 {
            continue;
        }
        // As many receives as messages, from anybody.
        for me in 0..4_u32 {
            for _ in 0..3 * ahead {
                let anybody = Selector { context: CONTEXT, peer: None, source: None, tag: None };
                let request =
                    engines[me as usize].recv(anybody, room.recv_buf(0, 300_000)).expect("a receive");
                let begun = Instant::now();
                while !engines[me as usize].is_complete(request) {
                    assert!(begun.elapsed() < Duration::from_secs(60), "process {me} waits in row {number}");
                    engines.iter_mut().for_each(|engine| _ = engine.progress());
                }
                let completion = engines[me as usize].take(request);
                assert!(completion.error.is_none(), "{:?}", completion.error);
                let from = completion.status.source.0 as usize;
                let next = &mut seen[me as usize][from];
                assert_eq!(completion.status.tag, Tag(*next), "process {me} hears {from} in order");
                assert_eq!(completion.status.bytes, length(*next as u32) as u64);
                *next += 1;
            }
        }
    }
    for (me, request, _data) in requests {
        while !engines[me as usize].is_complete(request) {
            engines.iter_mut().for_each(|engine| _ = engine.progress());
        }
        assert!(engines[me as usize].take(request).error.is_none());
    }
    assert_eq!(seen.as_flattened().iter().sum::<i32>(), EACH as i32 * 12);
}

#[test]
fn receives_from_anybody_take_what_each_transport_brings_in_order() {
    for ahead in [1, 40] {
        all_to_all(Second::Emulator, ahead);
    }
    match has_libfabric() {
        true => [1, 40].into_iter().for_each(|ahead| all_to_all(Second::Libfabric, ahead)),
        false => println!("skipped: no libfabric with {PROVIDER} here"),
    }
}

/// What any of the transports brings wakes a sleeper: it makes a descriptor of the bell readable.
#[test]
fn a_sleeper_is_woken_by_each_transport() {
    let mut all = ends(3, Second::Emulator, 2);
    let header = || weft_wire::Header::new(weft_wire::Kind::Eager, ContextId(8), Rank(1), Tag(1));
    for from in [1, 2_usize] {
        all[from].connect(PeerId(0)).expect("a connection");
        while all[from].send_inline(PeerId(0), header(), b"first").is_err() {
            all.iter_mut().for_each(|end| _ = end.progress());
        }
        while all[0].peek(PeerId(from as u32)).is_none() {
            all.iter_mut().for_each(|end| _ = end.progress());
        }
        all[0].advance(PeerId(from as u32));
        // Until nothing is under way any more.
        for _ in 0..2000 {
            all.iter_mut().for_each(|end| _ = end.progress());
        }
        let bell = all[0].bell();
        bell.arm();
        let readable = |limit: u16| {
            let mut list = Vec::new();
            bell.descriptors(&mut list);
            let mut list: Vec<_> = list.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            nix::poll::poll(&mut list, limit).expect("a poll")
        };
        all[0].progress();
        assert_eq!(readable(0), 0, "nothing has come");
        assert!(all[from].send_inline(PeerId(0), header(), b"second").is_ok());
        all[from].push_out();
        assert!(readable(10_000) > 0, "what comes from {from} wakes");
        bell.disarm();
        while all[0].peek(PeerId(from as u32)).is_none() {
            all.iter_mut().for_each(|end| _ = end.progress());
        }
        all[0].advance(PeerId(from as u32));
    }
}
