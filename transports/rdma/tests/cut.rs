//! A host that is cut off from one moment to the next, over a network that says nothing of it: the calls that depend on it end
//! within the transport's own time for retries, in virtual time.

use crate::common::{Air, Virtual, address, fabric_over};
use std::time::Duration;
use weft_api::Transport;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

/// Seven retries of a packet (67 ms, doubled four times, with the first one twice because an acknowledgement has to be asked
/// for), and one wait more before the connection is given up.
const RETRIES: u64 = 67_108_864 * (1 + 1 + 2 + 4 + 8 + 16 * 4);
/// Until a question is asked by whoever only waits for a message.
const SILENCE: u64 = 3_000_000_000;

fn two(asked: bool) -> Virtual {
    let mut air = Air::quiet();
    (air.asked, air.pause) = (asked, 20_000_000);
    let mut fabric = fabric_over(air, 2);
    fabric.introduce();
    for me in 0..2 {
        fabric.ends[me].advance(PeerId(1 - me as u32));
    }
    fabric
}

fn cut(fabric: &Virtual) -> u64 {
    let mut air = fabric.air.borrow_mut();
    air.cut.extend([(address(0), address(1)), (address(1), address(0))]);
    air.now
}

/// The virtual time until process 0 knows that the other one is lost; `None`: not within `limit`.
fn time_of_loss(fabric: &mut Virtual, since: u64, limit: u64) -> Option<u64> {
    while fabric.air.borrow().now - since < limit {
        fabric.round();
        if let Some(peer) = fabric.ends[0].lost() {
            assert_eq!(peer, PeerId(1));
            return Some(fabric.air.borrow().now - since);
        }
    }
    None
}

#[test]
fn a_host_that_is_cut_off_is_lost_when_the_retries_are_used_up() {
    let patience = Duration::from_secs(10);
    for waits in [false, true] {
        let mut fabric = two(true);
        fabric.ends.iter_mut().for_each(|end| end.set_patience(patience));
        let since = cut(&fabric);
        if !waits {
            let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
            fabric.ends[0].send_inline(PeerId(1), header, b"more").unwrap();
        }
        let asked_after = if waits { SILENCE } else { 0 };
        let most = RETRIES + patience.as_nanos() as u64 + asked_after + 100_000_000;
        let time = time_of_loss(&mut fabric, since, 2 * most);
        assert!(time.is_some_and(|time| time <= most), "waits: {waits}, {time:?} of {most}");
    }
}

#[test]
fn a_peer_whose_host_is_there_is_waited_for_however_long_it_computes() {
    let mut fabric = two(true);
    let since = fabric.air.borrow().now;
    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
    fabric.ends[0].send_inline(PeerId(1), header, b"more").unwrap();
    // It computes: its device does not move.
    while fabric.air.borrow().now - since < 120_000_000_000 {
        fabric.ends[0].progress();
        // What waits at its device keeps the clock from running fast by itself.
        fabric.air.borrow_mut().now += 10_000_000;
        weft_api::kit::Fabric::idle(&mut fabric);
        assert_eq!(fabric.ends[0].lost(), None);
    }
    while fabric.ends[1].peek(PeerId(0)).is_none() {
        fabric.round();
    }
}
