//! Processes that end one after another, over networks that lose: nobody waits for one that has ended and never looks at its device again.
//! Ends are moved at random, not all in each round.
//!
//! `WEFT_SEEDS=1000` runs more worlds than CI does.

mod common;

use common::{Air, Virtual, fabric_on};
use weft_api::Transport;
use weft_api::kit::Fabric;
use weft_sim::Random;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

const PROCESSES: usize = 5;
/// Messages of each process.
const MESSAGES: u32 = 40;

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Talks,
    /// It has ended MPI and tells the others.
    Rests,
    /// It never looks again.
    Over,
}

#[test]
fn nobody_waits_for_who_has_ended() {
    let seeds = std::env::var("WEFT_SEEDS").map_or(32, |seeds| seeds.parse().expect("a number"));
    let [mut letters, mut changes, mut lost, mut longest] = [0_u64; 4];
    for seed in 0..seeds {
        let mut air = Air::deaf(seed);
        (air.loss, air.pause) = ((seed % 4) as f64 * 0.1, 1_000_000);
        let mut fabric = fabric_on(air, PROCESSES, 1 + (seed / 4 % 2) as usize);
        fabric.ends.iter_mut().for_each(|end| end.set_connections(1 + (seed / 8 % 2) as u32));
        let mut random = Random::new(seed ^ 0xe0d);
        let mut lives = [Life::Talks; PROCESSES];
        let [mut sent, mut taken] = [[0; PROCESSES]; 2];
        let mut to_come = [0; PROCESSES];
        let mut last = 0;
        while lives != [Life::Over; PROCESSES] {
            for me in 0..PROCESSES {
                if lives[me] == Life::Over || random.chance(0.5) {
                    continue;
                }
                let end = &mut fabric.ends[me];
                end.progress();
                while let Some(peer) = end.ready() {
                    taken[me] += 1;
                    end.advance(peer);
                }
                lost += u64::from(end.lost().is_some());
                if lives[me] == Life::Talks && sent[me] < MESSAGES {
                    // Most with its neighbour, so that there is a wish for a connection.
                    let other = if random.chance(0.7) { 1 } else { 1 + random.below(PROCESSES as u64 - 1) };
                    let peer = (me + other as usize) % PROCESSES;
                    end.connect(PeerId(peer as u32)).unwrap();
                    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
                    let length = [8, 2_000][random.below(2) as usize];
                    let taken = end.send_copy(PeerId(peer as u32), header, length, |room| room.fill(1));
                    sent[me] += u32::from(taken.is_ok());
                    to_come[peer] += u32::from(taken.is_ok());
                } else if lives[me] == Life::Talks {
                    // All of the job have said everything, and it has heard its part.
                    if sent == [MESSAGES; PROCESSES] && taken[me] == to_come[me] && end.has_left() {
                        end.rest();
                        lives[me] = Life::Rests;
                    }
                }
                if lives[me] == Life::Rests && fabric.ends[me].has_rested() {
                    lives[me] = Life::Over;
                    last = fabric.air.borrow().now;
                }
            }
            fabric.idle();
            let now = fabric.air.borrow().now;
            assert!(last == 0 || now - last < 60_000_000_000, "{lives:?} wait for ever (seed {seed})");
            longest = longest.max(now.saturating_sub(last) * u64::from(last > 0));
        }
        letters += fabric.ends.iter().map(|end| end.counts().letters).sum::<u64>();
        changes += fabric.ends.iter().map(|end| end.counts().changes).sum::<u64>();
    }
    println!(
        "{letters} messages by datagrams, {changes} changes of the way, {lost} found by retries, at most {longest} ns, in {seeds} worlds"
    );
    assert!(letters > 50 * seeds && changes > 0, "this shows nothing");
}

/// Who has rested may come back: then it is waited for again, whether messages go by a connection or by datagrams.
#[test]
fn who_comes_back_is_waited_for_again() {
    for peer in [1, 2] {
        let mut fabric = fabric_on(Air::quiet(), 3, 1);
        fabric.ends.iter_mut().for_each(|end| end.set_connections(1));
        let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
        let say = |fabric: &mut Virtual, (me, peer): (usize, usize)| {
            fabric.ends[me].connect(PeerId(peer as u32)).unwrap();
            while fabric.ends[me].send_inline(PeerId(peer as u32), header, b"hello").is_err() {
                fabric.round();
            }
        };
        let hear = |fabric: &mut Virtual, (me, peer): (usize, usize)| {
            while fabric.ends[me].peek(PeerId(peer as u32)).is_none() {
                fabric.round();
            }
            fabric.ends[me].advance(PeerId(peer as u32));
        };
        for other in [1, 2] {
            say(&mut fabric, (0, other));
            hear(&mut fabric, (other, 0));
        }
        while fabric.ends.iter().any(|end| !end.has_left()) {
            fabric.round();
        }
        fabric.ends[peer].rest();
        while !fabric.ends[peer].has_rested() {
            fabric.round();
        }
        say(&mut fabric, (0, peer));
        assert!(fabric.ends[0].has_left(), "who rests is not waited for");
        say(&mut fabric, (peer, 0));
        hear(&mut fabric, (0, peer));
        fabric.air.borrow_mut().loss = 1.0;
        say(&mut fabric, (0, peer));
        (0..100).for_each(|_| fabric.round());
        assert!(!fabric.ends[0].has_left(), "it is back");
        fabric.air.borrow_mut().loss = 0.0;
        (0..2).for_each(|_| hear(&mut fabric, (peer, 0)));
        while !fabric.ends[0].has_left() {
            fabric.round();
        }
    }
}
