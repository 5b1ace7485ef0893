//! What each operation costs, counted, over a network without faults: the table in the crate's readme says the same.

use crate::common::{Virtual, virtual_fabric};
use std::fmt::Write;
use std::sync::atomic::AtomicU8;
use weft_api::Transport;
use weft_api::verbs::Access;
use weft_api::zero_copy::{Atomic, LocalRun, MemoryRange, RemoteRun, Token};
use weft_rdma::Counts;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

const PEER: PeerId = PeerId(1);

fn counted(fabric: &Virtual) -> (Counts, [u64; 2]) {
    let packets = [0, 1].map(|end| fabric.ends[end].hca().device().counters().sent);
    (fabric.ends[0].counts(), packets)
}

/// Lets everything that moves come to rest, but for what only time moves.
fn settle(fabric: &mut Virtual) {
    for _ in 0..2_000 {
        for end in &mut fabric.ends {
            end.progress();
        }
        while fabric.ends[1].peek(PeerId(0)).is_some() {
            fabric.ends[1].advance(PeerId(0));
        }
        while fabric.ends[0].completed().is_some() {}
        let now = fabric.air.borrow().now;
        weft_api::kit::Fabric::idle(fabric);
        fabric.air.borrow_mut().now = now + 1_000;
    }
}

fn row(name: &str, fabric: &mut Virtual, work: impl FnOnce(&mut Virtual)) -> String {
    let before = counted(fabric);
    work(fabric);
    settle(fabric);
    let after = counted(fabric);
    for _ in 0..10 {
        settle(fabric); // A burst is closed later; that is nobody's cost.
    }
    let [ours, theirs] = [0, 1].map(|end| after.1[end] - before.1[end]);
    let (after, before) = (after.0, before.0);
    format!(
        "| {name} | {} | {} | {} | {ours} + {theirs} |",
        after.requests - before.requests,
        after.doorbells - before.doorbells,
        after.signaled - before.signaled,
    )
}

#[test]
fn the_table_in_the_readme_is_what_is_counted() {
    let mut fabric = virtual_fabric(2, 1, 0.0);
    fabric.introduce();
    fabric.air.borrow_mut().quiet = true;
    for _ in 0..20 {
        settle(&mut fabric); // Also closes what the introduction left.
    }
    let header = Header::new(Kind::Eager, ContextId(8), Rank(0), Tag(1));
    let bytes: Vec<AtomicU8> = (0..1 << 20).map(|_| AtomicU8::new(7)).collect();
    let address = bytes.as_ptr() as u64;
    let range = MemoryRange { address, length: 1 << 20 };
    let there = fabric.ends[1].register(range, Access::ALL).unwrap().remote;
    let region = fabric.ends[0].register(range, Access::ALL).unwrap().id;
    let local = |at: u64, length| LocalRun { address: address + at, length, region };
    let remote = |at, length| RemoteRun { memory: there.plus(at), length };

    let mut table = String::from("| operation | requests | doorbells | signalled | packets, both ways |\n");
    table += "| --- | --- | --- | --- | --- |\n";
    let mut add = |name: &str, fabric: &mut Virtual, work: &mut dyn FnMut(&mut Virtual)| {
        writeln!(table, "{}", row(name, fabric, work)).unwrap();
    };
    add("message of 8 bytes (inline)", &mut fabric, &mut |f| {
        f.ends[0].send_inline(PEER, header, &[1; 8]).unwrap();
    });
    add("64 of them", &mut fabric, &mut |f| {
        for _ in 0..64 {
            while f.ends[0].send_inline(PEER, header, &[1; 8]).is_err() {
                settle(f);
            }
        }
    });
    add("message of 1 KiB", &mut fabric, &mut |f| {
        f.ends[0].send_copy(PEER, header, 1024, |room| room.fill(1)).unwrap();
    });
    add("message of 16 KiB", &mut fabric, &mut |f| {
        f.ends[0].send_copy(PEER, header, 16384, |room| room.fill(1)).unwrap();
    });
    add("piece of a longer message", &mut fabric, &mut |f| {
        let full = f.ends[0].capabilities(PEER).full_copy;
        f.ends[0].send_copy(PEER, header, full, |room| room.fill(1)).unwrap();
    });
    add("put of 8 bytes (inline)", &mut fabric, &mut |f| {
        f.ends[0].put_copy(PEER, 8, |room| room.fill(1), there, None).unwrap();
    });
    add("64 of them and a flush", &mut fabric, &mut |f| {
        for _ in 0..64 {
            while f.ends[0].put_copy(PEER, 8, |room| room.fill(1), there, None).is_err() {
                settle(f);
            }
        }
        f.ends[0].flush(PEER, Token(1)).unwrap();
    });
    let route = fabric.ends[0].route(PEER);
    add("short put of 8 bytes", &mut fabric, &mut |f| {
        while !f.ends[0].put_now(route, &[1; 8], there) {
            settle(f);
        }
    });
    add("64 of them and a flush", &mut fabric, &mut |f| {
        for _ in 0..64 {
            while !f.ends[0].put_now(route, &[1; 8], there) {
                settle(f);
            }
        }
        f.ends[0].flush(PEER, Token(1)).unwrap();
    });
    add("6 of them and a message", &mut fabric, &mut |f| {
        for _ in 0..6 {
            while !f.ends[0].put_now(route, &[1; 8], there) {
                settle(f);
            }
        }
        f.ends[0].send_inline(PEER, header, &[1; 8]).unwrap();
    });
    add("put of 1 MiB", &mut fabric, &mut |f| {
        f.ends[0].put(PEER, &[local(0, 1 << 20)], &[remote(0, 1 << 20)], Some(Token(1))).unwrap();
    });
    add("put of 16 runs into one", &mut fabric, &mut |f| {
        let runs: Vec<_> = (0..16).map(|run| local(8192 * run, 1000)).collect();
        f.ends[0].put(PEER, &runs, &[remote(0, 16_000)], Some(Token(1))).unwrap();
    });
    add("put of 16 runs into 16", &mut fabric, &mut |f| {
        let runs: Vec<_> = (0..16).map(|run| local(8192 * run, 1000)).collect();
        let places: Vec<_> = (0..16).map(|run| remote(8192 * run, 1000)).collect();
        f.ends[0].put(PEER, &runs, &places, Some(Token(1))).unwrap();
    });
    add("get of 8 bytes", &mut fabric, &mut |f| {
        f.ends[0].get(PEER, &[remote(0, 8)], &[local(0, 8)], Token(1)).unwrap();
    });
    add("get of 1 MiB", &mut fabric, &mut |f| {
        f.ends[0].get(PEER, &[remote(0, 1 << 20)], &[local(0, 1 << 20)], Token(1)).unwrap();
    });
    add("atomic", &mut fabric, &mut |f| {
        let at = there.plus(address.wrapping_neg() & 7);
        f.ends[0].atomic(PEER, at, Atomic::FetchAdd(1), Token(1)).unwrap();
    });
    let readme = include_str!("../README.md");
    assert!(readme.contains(&table), "the readme's table should be:\n{table}");
}
