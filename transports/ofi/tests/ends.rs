//! How processes part: what is heard of one that has ended MPI is no loss, whatever it answers afterwards.

mod world;

use std::time::Duration;
use weft_api::Transport;
use weft_ofi::Ofi;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};
use world::{all, wanted};

const PATIENCE: usize = 100_000;

fn send(from: &mut Ofi, to: u32) -> bool {
    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
    from.send_inline(PeerId(to), header, b"word").is_ok()
}

fn until(what: &str, mut happens: impl FnMut() -> bool) {
    for _ in 0..PATIENCE {
        if happens() {
            return;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    panic!("in vain: {what}");
}

fn over(provider: &str) {
    let Some(wanted) = wanted(provider) else { return };
    let (mut ends, _cards) = all(2, &wanted);
    let [stays, goes] = &mut ends[..] else { unreachable!("two ends") };
    stays.connect(PeerId(1)).unwrap();
    goes.connect(PeerId(0)).unwrap();
    let mut sent = false;
    until("the first word", || {
        sent = sent || send(goes, 0);
        goes.progress();
        stays.progress();
        stays.peek(PeerId(1)).is_some()
    });
    stays.advance(PeerId(1));
    // One more is on its way, and the question whether it has arrived: the other hears both when it has told that it rests.
    until("the second word", || {
        stays.progress();
        send(stays, 1)
    });
    assert!(!stays.has_left());
    stays.progress();
    until("both are heard", || {
        goes.rest();
        goes.peek(PeerId(0)).is_some()
    });
    until("everything has left", || {
        goes.progress();
        stays.progress();
        stays.has_left()
    });
    for _ in 0..100 {
        goes.progress();
        stays.progress();
    }
    ends.pop();
    let stays = &mut ends[0];
    until("its end is noticed", || {
        send(stays, 1);
        stays.progress();
        stays.is_gone(PeerId(1))
    });
    assert_eq!(stays.lost(), None, "who has ended MPI is not lost");
}

#[test]
fn who_rests_is_not_lost_by_tcp_below_rxm() {
    over("tcp;ofi_rxm");
}

#[test]
fn who_rests_is_not_lost_by_tcp_alone() {
    over("tcp");
}

#[test]
fn who_rests_is_not_lost_by_net_alone() {
    over("net");
}
