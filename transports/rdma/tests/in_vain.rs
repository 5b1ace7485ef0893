//! Ways on which nothing arrives, in one direction or both, over a network that says nothing of it and whose hosts are there: both ends
//! say for as long as they look that they ask in vain, and nobody is lost; as soon as it carries again nothing is in vain.

use crate::common::{Air, Virtual, address, fabric_over};
use std::time::Duration;
use weft_api::Transport;
use weft_sim::{seeds, worlds};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

const SECOND: u64 = 1_000_000_000;
/// What the engine calls long.
const LONG: u64 = 5 * SECOND;

/// Both progress for so long in virtual time; nobody is lost.
fn go(fabric: &mut Virtual, seconds: u64, context: &str) {
    let until = fabric.air.borrow().now + seconds * SECOND;
    while fabric.air.borrow().now < until {
        fabric.round();
        for end in &mut fabric.ends {
            assert_eq!(end.lost(), None, "both live ({context})");
        }
    }
}

/// Who says that it asks in vain, each of the other.
fn in_vain(fabric: &Virtual) -> [bool; 2] {
    [0, 1].map(|me| {
        let end = &fabric.ends[me];
        // As the engine does: without a flag nobody looks.
        let mut silent = end.in_vain(LONG).filter(|_| end.asks_in_vain());
        silent.next().is_some_and(|(peer, time)| {
            assert_eq!(peer, PeerId(1 - me as u32));
            time >= Duration::from_nanos(LONG)
        })
    })
}

#[test]
fn both_ends_of_a_way_that_carries_nothing_say_so_until_it_carries() {
    worlds(seeds(40), |seed| {
        for (met, directions) in [(false, 1), (false, 2), (false, 3), (true, 1), (true, 2), (true, 3)] {
            let context = format!("seed {seed}, met before: {met}, cut: {directions:02b}");
            let mut air = if seed == 0 { Air::quiet() } else { Air::bad(seed) };
            (air.filtered, air.pause) = (true, 20_000_000);
            let mut fabric = fabric_over(air, 2);
            if met {
                fabric.introduce();
                (0..2).for_each(|me| fabric.ends[me].advance(PeerId(1 - me as u32)));
                go(&mut fabric, 10, &context);
                assert_eq!(in_vain(&fabric), [false; 2], "nothing is wrong yet ({context})");
            }
            for (bit, way) in [(address(0), address(1)), (address(1), address(0))].into_iter().enumerate() {
                if directions >> bit & 1 == 1 {
                    fabric.air.borrow_mut().cut.insert(way);
                }
            }
            if !met {
                // One asks; the other does when the launcher has told it.
                fabric.ends[0].connect(PeerId(1)).unwrap();
                go(&mut fabric, 7, &context);
                fabric.ends[1].connect(PeerId(0)).unwrap();
            }
            go(&mut fabric, 20, &context);
            // From now on without a pause, as the launcher wants to hear it.
            for _ in 0..30 {
                assert_eq!(in_vain(&fabric), [true; 2], "nothing passes ({context})");
                go(&mut fabric, 1, &context);
            }
            fabric.air.borrow_mut().cut.clear();
            go(&mut fabric, 15, &context);
            assert_eq!(in_vain(&fabric), [false; 2], "it carries again ({context})");
            let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
            for me in 0..2 {
                let peer = PeerId(1 - me as u32);
                while fabric.ends[me].send_inline(peer, header, b"more").is_err() {
                    go(&mut fabric, 1, &context);
                }
                while fabric.ends[1 - me].peek(PeerId(me as u32)).is_none() {
                    go(&mut fabric, 1, &context);
                }
            }
        }
    });
}

#[test]
fn a_peer_that_computes_is_asked_in_vain_by_one_side_only() {
    for met in [false, true] {
        let mut air = Air::quiet();
        (air.filtered, air.pause) = (true, 20_000_000);
        let mut fabric = fabric_over(air, 2);
        if met {
            fabric.introduce();
        }
        fabric.ends[0].connect(PeerId(1)).unwrap();
        fabric.minute_of_computing();
        assert!(in_vain(&fabric)[0], "it has not answered (met before: {met})");
        go(&mut fabric, 3, "");
        assert_eq!(in_vain(&fabric), [false; 2], "it has (met before: {met})");
    }
}
