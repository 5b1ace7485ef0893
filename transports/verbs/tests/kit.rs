//! Messages over the device of the system have the properties of a transport. Needs a device: see `common::port`.

mod common;

use common::Cards;
use common::fabric::{Processes, open, open_rails};
use std::sync::atomic::{AtomicU8, Ordering};
use weft_api::Transport;
use weft_api::kit::{self, Fabric};
use weft_api::verbs::Access;
use weft_api::zero_copy::{Completed, LocalRun, MemoryRange, Outcome, RemoteRun, Token};
use weft_rdma::Rdma;
use weft_types::params::Choice as Setting;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

#[test]
fn every_property_holds_over_the_device() {
    let Some(choice) = common::port() else { return };
    kit::every_property(|processes| {
        let cards = Cards::default();
        let ends: Vec<_> = (0..processes).map(|process| open(&choice, process, cards.clone())).collect();
        *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
        Processes { ends, choice: choice.clone(), waits: false, immortal: false }
    });
}

/// Messages to all peers but one go by datagrams.
#[test]
fn every_property_holds_with_one_connection() {
    let Some(choice) = common::port() else { return };
    kit::every_property(|processes| {
        let cards = Cards::default();
        let mut ends: Vec<_> = (0..processes).map(|process| open(&choice, process, cards.clone())).collect();
        ends.iter_mut().for_each(|end| end.set_connections(1));
        *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
        Processes { ends, choice: choice.clone(), waits: false, immortal: true }
    });
}

/// Short messages go by rings. The kernel's device promises nothing of the order in which it writes, so each record completes a
/// receive request.
#[test]
fn every_property_holds_with_rings() {
    let Some(choice) = common::port() else { return };
    kit::every_property(|processes| {
        let cards = Cards::default();
        let mut ends: Vec<_> = (0..processes).map(|process| open(&choice, process, cards.clone())).collect();
        for end in &mut ends {
            end.set_rings(Setting::On);
            end.set_ring_limits(2, 1);
        }
        *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
        Processes { ends, choice: choice.clone(), waits: false, immortal: false }
    });
}

/// Two contexts of one device are two rails: large operations go by both, every byte arrives, and messages keep their order
/// beside them.
#[test]
fn two_rails_share_large_operations() {
    let Some(choice) = common::port() else { return };
    let cards = Cards::default();
    let ends: Vec<_> = (0..2).map(|process| open_rails(&choice, 2, process, cards.clone())).collect();
    *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
    let mut fabric = Processes { ends, choice, waits: false, immortal: false };
    const BYTES: usize = 200_000;
    let bytes =
        |salt: usize| (0..BYTES).map(|at| AtomicU8::new(((at * salt) >> 3) as u8)).collect::<Vec<_>>();
    let (from, to) = (bytes(7), bytes(0));
    let range = |bytes: &[AtomicU8]| MemoryRange { address: bytes.as_ptr() as u64, length: BYTES as u64 };
    let here = fabric.ends[0].register(range(&from), Access::ALL).unwrap();
    let there = fabric.ends[1].register(range(&to), Access::ALL).unwrap();
    let local = [LocalRun { address: range(&from).address, length: BYTES as u64, region: here.id }];
    let remote = [RemoteRun { memory: there.remote, length: BYTES as u64 }];
    let header = |number| Header::new(Kind::Eager, ContextId(8), Rank(0), Tag(number));
    let peer = PeerId(1);
    fabric.ends[0].connect(peer).unwrap();
    let (mut turn, mut rounds) = (0, 0);
    while fabric.ends[0].counts().shared < 4 {
        to.iter().for_each(|byte| byte.store(0, Ordering::Relaxed));
        let mut left = [true; 2];
        let mut done = false;
        while !done || fabric.ends[1].peek(PeerId(0)).is_none() {
            if left[0] {
                left[0] = fabric.ends[0].put(peer, &local, &remote, Some(Token(turn))).is_err();
            } else if left[1] {
                left[1] = fabric.ends[0].send_inline(peer, header(turn as i32), b"beside").is_err();
            }
            for end in &mut fabric.ends {
                end.progress();
            }
            fabric.idle();
            if let Some(ended) = fabric.ends[0].completed() {
                assert_eq!(ended, Completed { token: Token(turn), outcome: Outcome::Done(0) });
                done = true;
            }
            rounds += 1;
            assert!(rounds < 20_000_000, "turn {turn} does not end");
        }
        assert!(from.iter().zip(&to).all(|(a, b)| a.load(Ordering::Relaxed) == b.load(Ordering::Relaxed)));
        assert_eq!(fabric.ends[1].peek(PeerId(0)).unwrap().0, header(turn as i32));
        fabric.ends[1].advance(PeerId(0));
        turn += 1;
        assert!(turn < 1_000, "no second connection");
    }
}
