//! RDMA over the emulator has the properties of a transport: over a network that loses, doubles and reorders, and over UDP.

use crate::common::{Air, Cards, fabric_on, virtual_fabric};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::atomic::AtomicU8;
use weft_api::kit::{self, Fabric};
use weft_api::verbs::Access;
use weft_api::zero_copy::{LocalRun, MemoryRange, Outcome, RemoteRun, Token};
use weft_api::{Refused, Transport};
use weft_rdma::Rdma;
use weft_softroce::{Card, Udp};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

#[test]
fn every_property_holds_over_a_bad_network() {
    for seed in 0..4 {
        kit::every_property(|processes| virtual_fabric(processes, seed, seed as f64 * 0.01));
    }
}

#[test]
fn every_property_holds_over_two_rails() {
    for seed in 0..2 {
        kit::every_property(|processes| {
            let mut air = Air::bad(seed);
            air.loss = seed as f64 * 0.01;
            fabric_on(air, processes, 2)
        });
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
        fabric.minute_of_computing();
        assert_eq!(fabric.ends[0].lost(), None, "seed {seed}");
        assert!(!fabric.ends[0].has_left());
        while fabric.ends[1].peek(PeerId(0)).is_none() {
            fabric.round();
        }
        assert_eq!(fabric.ends[1].peek(PeerId(0)).unwrap().1, b"when you have time");
        assert!(!fabric.ends[1].is_gone(PeerId(0)) && !fabric.ends[0].is_gone(PeerId(1)));
    }
}

/// Nor is one that computes before it looks at its device for the first time. One that was never there is told.
#[test]
fn a_process_that_computes_before_its_first_call_is_waited_for_and_a_dead_one_is_not() {
    for seed in 0..4 {
        let mut fabric = virtual_fabric(3, seed, seed as f64 * 0.01);
        fabric.kill(2);
        fabric.ends[0].connect(PeerId(1)).unwrap();
        fabric.ends[0].connect(PeerId(2)).unwrap();
        fabric.minute_of_computing();
        let lost: Vec<_> = std::iter::from_fn(|| fabric.ends[0].lost()).collect();
        assert_eq!(lost, [PeerId(2)], "seed {seed}");
        let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(7));
        while fabric.ends[0].send_inline(PeerId(1), header, b"hello").is_err() {
            fabric.round();
        }
        while fabric.ends[1].peek(PeerId(0)).is_none() {
            fabric.round();
        }
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

/// Two that only answer each other, for as long as bursts are closed many times: nobody waits for what the other has kept.
#[test]
fn a_long_conversation_does_not_stop() {
    let mut fabric = virtual_fabric(2, 1, 0.0);
    fabric.introduce();
    fabric.air.borrow_mut().quiet = true;
    for end in 0..2 {
        fabric.ends[end].advance(PeerId(1 - end as u32));
    }
    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(7));
    for number in 0..20_000 {
        let (me, peer) = (number % 2, PeerId(1 - number as u32 % 2));
        while fabric.ends[me].send_inline(peer, header, b"ping") == Err(Refused::Full) {
            fabric.round();
        }
        let begun = fabric.air.borrow().now;
        while fabric.ends[1 - me].peek(PeerId(me as u32)).is_none() {
            fabric.round();
            assert!(fabric.air.borrow().now < begun + 1_000_000, "message {number} stays where it is");
        }
        fabric.ends[1 - me].advance(PeerId(me as u32));
    }
}

/// An operation on memory that may not be touched fails, and it alone: what is under way beside it arrives, and the peer stays.
#[test]
fn an_operation_on_forbidden_memory_fails_alone() {
    for seed in 0..20 {
        let mut fabric = virtual_fabric(2, seed, 0.01);
        fabric.introduce();
        for (end, peer) in [(0, 1), (1, 0)] {
            fabric.ends[end].advance(PeerId(peer));
        }
        let byte = AtomicU8::new(3);
        let range = MemoryRange { address: (&raw const byte) as u64, length: 1 };
        let [mine, theirs] = [0, 1].map(|end| fabric.ends[end].register(range, Access::ALL).unwrap());
        fabric.ends[1].deregister(theirs.id);
        let header = |number| Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(number));
        let here = [LocalRun { address: range.address, length: 1, region: mine.id }];
        let there = [RemoteRun { memory: theirs.remote, length: 1 }];
        for number in 0..60 {
            while fabric.ends[0].send_inline(PeerId(1), header(number), b"beside").is_err() {
                fabric.round();
            }
            while number % 20 == 5 && fabric.ends[0].put(PeerId(1), &here, &there, Some(Token(1))).is_err() {
                fabric.round();
            }
            let _ = fabric.ends[1].send_inline(PeerId(0), header(0), b"the other way");
        }
        let mut failures = 0;
        for number in 0..60 {
            while fabric.ends[1].peek(PeerId(0)).is_none() {
                fabric.round();
            }
            assert_eq!(fabric.ends[1].peek(PeerId(0)).unwrap().0, header(number), "seed {seed}");
            fabric.ends[1].advance(PeerId(0));
        }
        while fabric.ends.iter().any(|end| !end.has_left()) {
            fabric.round();
        }
        while let Some(done) = fabric.ends[0].completed() {
            assert_eq!(done.outcome, Outcome::Failed, "seed {seed}");
            failures += 1;
        }
        assert_eq!(failures, 3, "seed {seed}");
        assert!(fabric.ends.iter_mut().all(|end| end.lost().is_none()), "seed {seed}");
    }
}

struct Real(Vec<Rdma<Card<Udp>>>, IpAddr);

impl Fabric for Real {
    type Transport = Rdma<Card<Udp>>;

    fn ends(&mut self) -> &mut [Self::Transport] {
        &mut self.0
    }

    /// Its socket is closed; who takes its place is nobody that the others know.
    fn kill(&mut self, process: usize) -> bool {
        self.0[process] = over_udp(process, self.1, Cards::default());
        true
    }
}

fn over_udp(process: usize, local: IpAddr, cards: Cards) -> Rdma<Card<Udp>> {
    let card = Udp::open(local, Some(0), 65536).unwrap();
    Rdma::open(card, PeerId(process as u32), Box::new(cards)).unwrap()
}

fn linked_by_udp(processes: usize, local: IpAddr) -> Real {
    let cards = Cards::default();
    let ends: Vec<_> = (0..processes).map(|process| over_udp(process, local, cards.clone())).collect();
    *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
    Real(ends, local)
}

/// The host's own addresses that there are.
fn own_addresses() -> impl Iterator<Item = IpAddr> {
    let all = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    all.into_iter().filter(|&address| {
        let there = UdpSocket::bind((address, 0)).is_ok();
        if !there {
            println!("skipped: no {address} here");
        }
        there
    })
}

#[test]
fn every_property_holds_over_udp() {
    for local in own_addresses() {
        kit::every_property(|processes| linked_by_udp(processes, local));
    }
}

/// The emulator keeps packets for company, with and without leave to do so between calls.
#[test]
fn what_is_pushed_out_leaves_over_udp() {
    for local in own_addresses() {
        for keeps_company in [false, true] {
            let mut fabric = linked_by_udp(2, local);
            fabric.0.iter_mut().for_each(|end| end.keep_company(keeps_company));
            kit::what_is_pushed_out_needs_no_other_look(&mut fabric);
        }
    }
}
