//! Who makes way for whom where members of a communicator share a processor.
#![cfg(all(target_os = "linux", not(miri), not(loom)))]

mod common;

use common::node_with;
use weft_shm::{Rounds, Waking};
use weft_types::PeerId;

const SIGNATURE: u16 = 7;

/// Members that all run in this thread, so on one processor.
fn members(count: u32) -> Vec<Rounds> {
    // SAFETY: the set is ours, and 0 is this thread.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &one), 0);
    }
    let mut node = node_with(count, Waking::Fence);
    let block = Rounds::take_cells(node[0].pool().expect("a pool"), count).expect("a block");
    let join = |(me, shm): (u32, &mut weft_shm::Shm)| {
        let block =
            shm.pool().expect("a pool").block(block.word(), Rounds::cells_bytes(count)).expect("a block");
        let mut rounds = shm.join_rounds(block, me, (0..count).map(PeerId)).expect("joined");
        rounds.join_in(0);
        rounds
    };
    (0..count).zip(&mut node).map(join).collect()
}

#[test]
fn who_waits_makes_way_for_those_that_it_waits_for_and_those_behind_it() {
    let mut all = members(3);
    let [first, second, third] = all.as_mut_slice() else { unreachable!("three members") };
    assert!(!first.makes_way(0b110), "nobody knows where the others run");
    assert!(second.makes_way(0b001), "who is waited for said that it runs here");
    assert!(!second.makes_way(0b100), "that one did not");
    assert!(!first.makes_way(0b100));
    assert!(!third.makes_way(0), "nobody is behind");
    // The first writes a round, which it has finished with that.
    first.publish(0, SIGNATURE);
    first.end(1);
    assert!(first.makes_way(0), "the others have something to read");
    assert!(!second.makes_way(0), "who is behind makes way for nobody");
    second.end(1);
    assert!(first.makes_way(0));
    third.end(1);
    assert!(!first.makes_way(0));
    assert!(first.makes_way(0b010));
}
