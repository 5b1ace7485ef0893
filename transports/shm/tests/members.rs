//! Members of a communicator, one thread each, exchange payloads round by round: whole ones, of everybody, whatever memory they go
//! through. Under Miri it is the memory itself that is looked at: that nobody reads what is being written.
#![cfg(all(target_os = "linux", not(loom)))]

mod common;

use common::{node_with, watchdog};
use std::time::Duration;
use weft_shm::rounds::Sort;
use weft_shm::{Rounds, Waking};
use weft_types::PeerId;

const SIGNATURE: u16 = 7;

/// What a member writes in a round.
fn payload(member: u32, round: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![(u64::from(member) * 83 + round * 29) as u8; len];
    // Not all alike, so that a shift shows; few, for all are interpreted at times.
    bytes.iter_mut().step_by(97).zip((1..=255).cycle()).for_each(|(byte, number)| *byte = number);
    bytes
}

/// Members with cells, and with slots if there shall be some.
fn members(count: u32, slots: bool) -> Vec<Rounds> {
    let mut node = node_with(count, Waking::Fence);
    let pool = node[0].pool().expect("a pool");
    let cells = Rounds::take_cells(pool, count).expect("a block").word();
    let rings = slots.then(|| Rounds::take_slots(pool, count, false).expect("a block").word());
    let join = |(me, shm): (u32, &mut weft_shm::Shm)| {
        let block = shm.pool().expect("a pool").block(cells, Rounds::cells_bytes(count)).expect("a block");
        let mut rounds = shm.join_rounds(block, me, (0..count).map(PeerId)).expect("joined");
        if let Some(rings) = rings {
            rounds.add_slots(
                shm.pool().expect("a pool").block(rings, Rounds::slots_bytes(count)).expect("a block"),
            );
        }
        rounds.join_in(0);
        rounds
    };
    (0..count).zip(&mut node).map(join).collect()
}

/// One round of a member: writes `len` bytes, waits for those of all others, and reads them.
fn exchange(rounds: &mut Rounds, len: usize, long: bool, sort: Sort) {
    let (me, round) = (rounds.me(), rounds.next());
    while !rounds.has_room(round, if long { len } else { 0 }, sort) {
        std::thread::yield_now();
    }
    let writing = rounds.begin_writing(len, sort);
    let (room, _) = rounds.room(round, long, len, writing.sort(sort));
    room[..len].copy_from_slice(&payload(me, round, len));
    rounds.has_written(writing);
    rounds.publish(round, SIGNATURE);
    rounds.wake(rounds.others());
    while rounds.missing(round, SIGNATURE, rounds.others()) != 0 {
        std::thread::yield_now();
    }
    for member in 0..rounds.members() {
        let found = rounds.payloads().get(member, round, long, len);
        let arrived = found == payload(member, round, len);
        assert!(arrived, "{len} bytes of member {member} in round {round} at member {me}: {found:?}");
    }
    rounds.end(round + 1);
}

/// One round in which one of two writes alone and the other reads.
fn give(rounds: &mut Rounds, writer: u32, len: usize) {
    let (me, round) = (rounds.me(), rounds.next());
    if me == writer {
        while !rounds.has_room(round, len, Sort::Alone) {
            std::thread::yield_now();
        }
        let writing = rounds.begin_writing(len, Sort::Alone);
        let (room, _) = rounds.room(round, true, len, writing.sort(Sort::Alone));
        room[..len].copy_from_slice(&payload(me, round, len));
        rounds.has_written(writing);
        rounds.publish(round, SIGNATURE);
    } else {
        while rounds.missing(round, SIGNATURE, 1 << writer) != 0 {
            std::thread::yield_now();
        }
        assert!(
            rounds.payloads().get(writer, round, true, len) == payload(writer, round, len),
            "round {round}"
        );
    }
    rounds.end(round + 1);
    rounds.wake(rounds.others());
}

#[test]
fn payloads_that_are_handed_over_and_swapped_by_turns_arrive_whole() {
    let dog = watchdog(Duration::from_secs(60));
    let turns = if cfg!(miri) { 20 } else { 5_000 };
    std::thread::scope(|scope| {
        for mut rounds in members(2, true) {
            scope.spawn(move || {
                let mut random = 88_172_645_463_325_252_u64;
                for _ in 0..turns {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let len = [113, 600, 4096, 9000][random as usize >> 8 & 3];
                    match random & 3 {
                        0 => exchange(&mut rounds, len, true, Sort::Exchanged),
                        1 => give(&mut rounds, 0, len),
                        _ => give(&mut rounds, random as u32 >> 4 & 1, len),
                    }
                }
            });
        }
    });
    dog.done();
}

fn all_exchange(count: u32, slots: bool, lengths: &[usize], sort: Sort) {
    let dog = watchdog(Duration::from_secs(60));
    let turns = if cfg!(miri) { 10 } else { 500 };
    std::thread::scope(|scope| {
        for mut rounds in members(count, slots) {
            scope.spawn(move || {
                for turn in 0..turns {
                    exchange(&mut rounds, lengths[turn % lengths.len()], slots, sort);
                }
            });
        }
    });
    dog.done();
}

#[test]
fn payloads_in_cells_arrive_whole() {
    for count in [2, 3] {
        all_exchange(count, false, &[0, 1, 8, 31, 112], Sort::Single);
    }
}

#[test]
fn payloads_in_rings_arrive_whole() {
    all_exchange(3, true, &[113, 1000, 4097], Sort::Single);
    // Of two members each writes where the other has read, in places that they swap.
    for length in [200, 3000, 15000] {
        all_exchange(2, true, &[length], Sort::Exchanged);
    }
}

/// Whether a payload of the first member, which takes so long to write, made it go past the caches.
#[cfg(not(miri))]
fn goes_past_after(all: &mut [Rounds], slow: bool) -> bool {
    const LONG: usize = 32 << 10;
    let first = &mut all[0];
    let round = first.next();
    let writing = first.begin_writing(LONG, Sort::Single);
    // Far longer than to distant cores.
    if slow {
        std::thread::sleep(Duration::from_millis(2));
    }
    first.room(round, true, LONG, writing.sort(Sort::Single)).0.fill(1);
    first.has_written(writing);
    first.publish(round, SIGNATURE);
    all.iter_mut().for_each(|rounds| rounds.end(round + 1));
    writing.past
}

#[test]
#[cfg(not(miri))]
fn memory_that_is_new_makes_nobody_distant() {
    let _watchdog = watchdog(Duration::from_secs(60));
    let mut all = members(2, true);
    let lap = (0..40).filter(|_| goes_past_after(&mut all, true)).count();
    assert_eq!(lap, 0, "the kernel gives it the memory");
    // Then slow ones count: some may lie where the first lap ended.
    let past = (0..60).filter(|_| goes_past_after(&mut all, true)).count();
    assert!(past > 20, "{past} of 60");
}
