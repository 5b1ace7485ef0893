//! Several devices: large operations go by all, a dead one hands its work to the others.

use crate::common::{Air, Virtual, address_on, fabric_on, pieces};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use weft_api::Transport;
use weft_api::kit::Fabric;
use weft_api::verbs::Access;
use weft_api::zero_copy::{LocalRun, MemoryRange, Outcome, RemoteRun, Token};
use weft_rdma::MOST_RAILS;
use weft_sim::Random;
use weft_types::PeerId;

/// Enough to be shared by two rails.
const BYTES: usize = 300_000;

fn bytes(byte: u8) -> Vec<AtomicU8> {
    (0..BYTES).map(|_| AtomicU8::new(byte)).collect()
}

/// All of `from` at process 0 and of `to` at process 1, registered.
fn exposed(fabric: &mut Virtual, from: &[AtomicU8], to: &[AtomicU8]) -> ([LocalRun; 1], [RemoteRun; 1]) {
    let length = BYTES as u64;
    let [here, there] = [(0, from), (1, to)].map(|(end, bytes)| {
        let range = MemoryRange { address: bytes.as_ptr() as u64, length };
        fabric.ends[end].register(range, Access::ALL).unwrap()
    });
    let local = LocalRun { address: from.as_ptr() as u64, length, region: here.id };
    ([local], [RemoteRun { memory: there.remote, length }])
}

/// Lists of runs that are cut at other places at both ends, some with gaps: by both rails once there are two connections, each byte
/// where it belongs.
#[test]
fn long_lists_go_by_both_rails() {
    let mut fabric = fabric_on(Air::bad(3), 2, 2);
    fabric.introduce();
    let (here, there) = (bytes(0), bytes(0));
    let ([local], [remote]) = exposed(&mut fabric, &here, &there);
    let mut random = Random::new(5);
    let mut shared = 0;
    for number in 0..60_u64 {
        let total = 1_000 + random.below(200_000) as usize;
        // The runs of each end: in any order, with gaps between them.
        let [mine, theirs] = [(); 2].map(|()| {
            let count = 2 + random.below(15) as usize;
            let gap = random.below(2) as usize * 500;
            let mut runs: Vec<_> = pieces(total, count)
                .enumerate()
                .map(|(at, (begin, length))| (begin + at * gap, length))
                .collect();
            // Those of one length change places; the last one may have another.
            let swapped = random.below(count as u64 - 1) as usize;
            if runs[swapped].1 == runs[0].1 {
                runs.swap(0, swapped);
            }
            runs
        });
        let places = |runs: &[(usize, usize)]| -> Vec<usize> {
            runs.iter().flat_map(|&(begin, length)| begin..begin + length).collect()
        };
        let (mine_at, theirs_at) = (places(&mine), places(&theirs));
        here.iter().chain(&there).for_each(|byte| byte.store(0xee, Ordering::Relaxed));
        let puts = number % 2 == 0;
        let (from, to) = if puts { (&here, &there) } else { (&there, &here) };
        let (from_at, to_at) = if puts { (&mine_at, &theirs_at) } else { (&theirs_at, &mine_at) };
        let byte = |at: usize| (((at * 31) >> 3) as u8) % 200;
        from_at.iter().enumerate().for_each(|(at, &place)| from[place].store(byte(at), Ordering::Relaxed));
        let locals: Vec<_> = mine
            .iter()
            .map(|&(begin, length)| LocalRun {
                address: local.address + begin as u64,
                length: length as u64,
                ..local
            })
            .collect();
        let remotes: Vec<_> = theirs
            .iter()
            .map(|&(begin, length)| RemoteRun {
                memory: remote.memory.plus(begin as u64),
                length: length as u64,
            })
            .collect();
        let before = fabric.ends[0].counts().shared;
        loop {
            let end = &mut fabric.ends[0];
            let taken = match puts {
                true => end.put(PeerId(1), &locals, &remotes, Some(Token(number))),
                false => end.get(PeerId(1), &remotes, &locals, Token(number)),
            };
            if taken.is_ok() {
                break;
            }
            fabric.round();
        }
        for round in 0.. {
            if let Some(done) = fabric.ends[0].completed() {
                assert_eq!((done.token, done.outcome), (Token(number), Outcome::Done(0)));
                break;
            }
            fabric.round();
            assert!(round < 1_000_000, "it does not end");
        }
        assert!(fabric.ends[0].completed().is_none(), "told twice");
        let mut expected = vec![0xee; BYTES];
        to_at.iter().enumerate().for_each(|(at, &place)| expected[place] = byte(at));
        let found: Vec<u8> = to.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        assert!(found == expected, "operation {number}, {total} bytes");
        let by_both = fabric.ends[0].counts().shared - before;
        assert!(by_both <= u64::from(total >= 64 << 10), "{total} bytes");
        shared += by_both;
        for _ in 0..300 {
            fabric.round();
        }
    }
    assert!(shared > 25, "{shared} lists went by both rails");
}

/// Large operations go by both rails; a dead one hands its work to the other, whichever it is and whenever it dies, also before
/// first contact; and it is used again when it is back and the other dies.
#[test]
fn a_dead_rail_hands_its_work_to_the_other() {
    for (seed, dead) in (0..8).zip([0, 1].into_iter().cycle()) {
        let mut air = Air::deaf(seed);
        air.pause = 5_000_000;
        let mut fabric = fabric_on(air, 2, 2);
        let cut = |fabric: &Virtual, rail: usize| {
            let (a, b) = (address_on(0, rail), address_on(1, rail));
            fabric.air.borrow_mut().cut.extend([(a, b), (b, a)]);
        };
        if seed >= 6 {
            cut(&fabric, dead); // It never worked.
        }
        fabric.introduce();
        let (from, to) = (bytes(7), bytes(0));
        let (local, remote) = exposed(&mut fabric, &from, &to);
        let put = |fabric: &mut Virtual, number: u64, cut_after: usize| {
            to.iter().for_each(|byte| byte.store(0, Ordering::Relaxed));
            while fabric.ends[0].put(PeerId(1), &local, &remote, Some(Token(number))).is_err() {
                fabric.round();
            }
            for round in 0.. {
                if round == cut_after {
                    cut(fabric, dead);
                }
                if let Some(done) = fabric.ends[0].completed() {
                    assert_eq!((done.token, done.outcome), (Token(number), Outcome::Done(0)), "seed {seed}");
                    break;
                }
                fabric.round();
                assert!(round < 1_000_000, "it does not end (seed {seed})");
            }
            assert!(to.iter().all(|byte| byte.load(Ordering::Relaxed) == 7), "seed {seed}");
            // Until both connections are there, or it is clear that they are not.
            for _ in 0..300 {
                fabric.round();
            }
        };
        put(&mut fabric, 0, usize::MAX);
        put(&mut fabric, 1, usize::MAX);
        assert_eq!(fabric.ends[0].counts().shared, u64::from(seed < 6), "seed {seed}");
        put(&mut fabric, 2, 5 * seed as usize);
        put(&mut fabric, 3, usize::MAX);
        fabric.air.borrow_mut().cut.clear();
        cut(&fabric, 1 - dead);
        put(&mut fabric, 4, usize::MAX);
        // Both are back: large operations find it out.
        fabric.air.borrow_mut().cut.clear();
        fabric.air.borrow_mut().now += 6_000_000_000;
        let shared = fabric.ends[0].counts().shared;
        put(&mut fabric, 5, usize::MAX);
        put(&mut fabric, 6, usize::MAX);
        assert!(fabric.ends[0].counts().shared > shared, "seed {seed}");
        assert!(fabric.ends.iter_mut().all(|end| end.lost().is_none()), "seed {seed}");
    }
}

/// Two devices that stay dead, both connections of which are in use: all is over once, and everybody who waits hears of it.
#[test]
fn two_rails_that_stay_dead_are_one_loss() {
    for seed in 0..4 {
        let mut fabric = fabric_on(Air::deaf(seed), 2, 2);
        fabric.ends.iter_mut().for_each(|end| end.set_patience(Duration::from_secs(5)));
        fabric.introduce();
        fabric.ends[1].advance(PeerId(0));
        let (from, to) = (bytes(7), bytes(0));
        let (local, remote) = exposed(&mut fabric, &from, &to);
        // The first ones make the second connection.
        for number in 0..4 {
            while fabric.ends[0].put(PeerId(1), &local, &remote, Some(Token(number))).is_err() {
                fabric.round();
            }
            while fabric.ends[0].completed().is_none() {
                fabric.round();
            }
        }
        fabric.ends[0].put(PeerId(1), &local, &remote, Some(Token(9))).unwrap();
        for rail in 0..2 {
            let (a, b) = (address_on(0, rail), address_on(1, rail));
            fabric.air.borrow_mut().cut.extend([(a, b), (b, a)]);
        }
        let begun = fabric.air.borrow().now;
        while fabric.ends[0].lost().is_none() {
            fabric.ends[0].progress();
            fabric.idle();
            assert!(fabric.air.borrow().now - begun < 60_000_000_000, "for ever (seed {seed})");
        }
        let done = fabric.ends[0].completed().map(|done| (done.token, done.outcome));
        assert_eq!(done, Some((Token(9), Outcome::Failed)), "seed {seed}");
        for _ in 0..100 {
            fabric.ends[0].progress();
            fabric.idle();
        }
        let more = (fabric.ends[0].lost(), fabric.ends[0].completed().is_some());
        assert_eq!(more, (None, false), "told twice (seed {seed})");
    }
}

/// The second connection fails in the middle of reads of both ends, and both go on asking for flushes: the end that is asked for
/// another connection posts nothing by it before what is under way, or a later request would tell of a read that was not done.
#[test]
fn nothing_overtakes_what_a_failed_connection_leaves() {
    let mut reconnections = 0;
    for round in 0..40_u64 {
        let mut fabric = fabric_on(Air::deaf(round), 2, 2);
        fabric.introduce();
        for end in &mut fabric.ends {
            end.set_patience(Duration::from_secs(60));
        }
        let mut random = Random::new(round);
        let (source, landing) = ([0x41, 0x42].map(bytes), [bytes(0), bytes(0)]);
        let region = |fabric: &mut Virtual, end: usize, of: &[AtomicU8]| {
            let range = MemoryRange { address: of.as_ptr() as u64, length: BYTES as u64 };
            fabric.ends[end].register(range, Access::ALL).unwrap()
        };
        let sources = [0, 1].map(|end| region(&mut fabric, end, &source[end]));
        let landings = [0, 1].map(|end| region(&mut fabric, end, &landing[end]));
        let mut token = 0;
        let mut reads = 0;
        let mut open = [None; 2];
        // Of both directions, at another moment in each world.
        let ways = [(address_on(0, 1), address_on(1, 1)), (address_on(1, 1), address_on(0, 1))];
        let begun = fabric.air.borrow().now;
        let (mut next_cut, mut until) = (0, 0);
        while reads < 16 || open != [None; 2] {
            for me in 0..2 {
                let end = &mut fabric.ends[me];
                let peer = PeerId(1 - me as u32);
                token += 1;
                if open[me].is_none() && reads < 16 {
                    landing[me].iter().for_each(|byte| byte.store(0, Ordering::Relaxed));
                    let address = landing[me].as_ptr() as u64;
                    let into = [LocalRun { address, length: BYTES as u64, region: landings[me].id }];
                    let from = [RemoteRun { memory: sources[1 - me].remote, length: BYTES as u64 }];
                    if end.get(peer, &from, &into, Token(token)).is_ok() {
                        (open[me], reads) = (Some(token), reads + 1);
                    }
                } else if random.chance(0.02) {
                    // Now and then, or they fill the connection. Their tokens say nothing of the read.
                    let _ = end.flush(peer, Token(token));
                }
                while let Some(done) = end.completed() {
                    if open[me] == Some(done.token.0) {
                        open[me] = None;
                        let whole =
                            landing[me].iter().all(|byte| byte.load(Ordering::Relaxed) == 0x42 - me as u8);
                        assert!(whole && done.outcome == Outcome::Done(0), "world {round}, read {reads}");
                    }
                }
            }
            let now = fabric.air.borrow().now;
            if next_cut < 3 && reads > 3 * (next_cut + 1) && open.iter().all(Option::is_some) && now > until {
                (next_cut, until) = (next_cut + 1, now + 6_000_000_000 + 71_000_000 * round);
            }
            fabric.air.borrow_mut().cut = if now < until { ways.into() } else { [].into() };
            fabric.round();
            fabric.air.borrow_mut().now += if now < until { 5_000_000 } else { 100_000 * (1 + round % 4) };
            assert!(fabric.air.borrow().now - begun < 100_000_000_000, "world {round} does not end");
        }
        assert!(fabric.ends.iter_mut().all(|end| end.lost().is_none()));
        reconnections += fabric.ends.iter().map(|end| end.counts().reconnections).sum::<u64>();
    }
    assert!(reconnections > 40, "{reconnections}: this shows nothing");
}

/// Bytes that have come by each device of process 0.
fn carried(fabric: &Virtual) -> Vec<usize> {
    let air = fabric.air.borrow();
    (0..MOST_RAILS).map(|rail| air.carried.get(&address_on(0, rail)).copied().unwrap_or(0)).collect()
}

/// Large operations go by all of many rails, each its part; dead ones hand their work to those that live, and are used again when they are back.
#[test]
fn the_living_of_many_rails_go_on() {
    for (seed, rails) in (0..6_u64).zip([3, 4, 8, 5, 8, 4]) {
        let mut air = Air::deaf(seed);
        air.pause = 5_000_000;
        let mut fabric = fabric_on(air, 2, rails);
        fabric.introduce();
        let (from, to) = (bytes(7), bytes(0));
        let (local, remote) = exposed(&mut fabric, &from, &to);
        let put = |fabric: &mut Virtual, number: u64| {
            to.iter().for_each(|byte| byte.store(0, Ordering::Relaxed));
            let before = carried(fabric);
            while fabric.ends[0].put(PeerId(1), &local, &remote, Some(Token(number))).is_err() {
                fabric.round();
            }
            let begun = fabric.air.borrow().now;
            while fabric.ends[0].completed().is_none_or(|done| {
                assert_eq!((done.token, done.outcome), (Token(number), Outcome::Done(0)), "seed {seed}");
                false
            }) {
                fabric.round();
                assert!(fabric.air.borrow().now - begun < 60_000_000_000, "it does not end (seed {seed})");
            }
            assert!(to.iter().all(|byte| byte.load(Ordering::Relaxed) == 7), "seed {seed}");
            for _ in 0..400 {
                fabric.round();
            }
            carried(fabric).iter().zip(before).filter(|(after, before)| **after > before + 4_000).count()
        };
        // The first ones make the connections.
        let most = rails.min(BYTES / (32 << 10));
        (0..3).for_each(|number| _ = put(&mut fabric, number));
        assert_eq!(put(&mut fabric, 3), most, "all carry something (seed {seed})");
        // All but one die in the middle of traffic, then that one alone.
        let lives = seed as usize % rails;
        let cut = |fabric: &Virtual, which: &dyn Fn(usize) -> bool| {
            let dead =
                (0..rails).filter(|&rail| which(rail)).map(|rail| (address_on(0, rail), address_on(1, rail)));
            fabric.air.borrow_mut().cut = dead.flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        };
        cut(&fabric, &|rail| rail != lives);
        assert!(put(&mut fabric, 4) <= 1, "one is left (seed {seed})");
        cut(&fabric, &|rail| rail == lives);
        put(&mut fabric, 5);
        cut(&fabric, &|_| false);
        // Large operations find out that all are back.
        for number in 6..6 + 3 * rails as u64 {
            fabric.air.borrow_mut().now += 6_000_000_000;
            put(&mut fabric, number);
        }
        assert_eq!(put(&mut fabric, 100), most, "all are back (seed {seed})");
        assert!(fabric.ends.iter_mut().all(|end| end.lost().is_none()), "seed {seed}");
    }
}
