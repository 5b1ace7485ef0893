//! Processes that end one after another, over networks that lose: nobody waits for one that has ended and never looks at its
//! device again. Ends are moved at random, not all in each round.
//!
//! `WEFT_SEEDS=1000` runs more worlds than CI does, `WEFT_SEED=n` one alone.

use crate::common::{Air, Virtual, address, fabric_on};
use weft_api::Transport;
use weft_api::kit::Fabric;
use weft_api::zero_copy::RemoteMemory;
use weft_sim::{Random, seeds, worlds};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

const PROCESSES: usize = 5;
/// Messages of each process.
const MESSAGES: u32 = 60;

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
    let worlds = worlds(seeds(16), |seed| {
        let [mut lost, mut longest, mut lost_without_loss] = [0_u64; 3];
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
                let is_lost = u64::from(end.lost().is_some());
                lost += is_lost;
                lost_without_loss += is_lost * u64::from(seed % 4 == 0);
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
        let letters = fabric.ends.iter().map(|end| end.counts().letters).sum::<u64>();
        let changes = fabric.ends.iter().map(|end| end.counts().changes).sum::<u64>();
        ([letters, changes, lost, lost_without_loss], longest)
    });
    let seeds = worlds.len() as u64;
    let longest = worlds.iter().map(|&(_, longest)| longest).max().unwrap_or(0);
    let [letters, changes, lost, lost_without_loss] =
        worlds.into_iter().fold([0; 4], |sum, (more, _)| std::array::from_fn(|at| sum[at] + more[at]));
    println!(
        "{letters} messages by datagrams, {changes} changes of the way, {lost} found by retries, at most {longest} ns, in {seeds} worlds"
    );
    assert!(seeds < 16 || letters > 50 * seeds && changes > 0, "this shows nothing");
    assert_eq!(lost_without_loss, 0, "an end that everybody was told of is no loss");
}

fn header() -> Header {
    Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0))
}

fn say(fabric: &mut Virtual, (me, peer): (usize, usize)) {
    fabric.ends[me].connect(PeerId(peer as u32)).unwrap();
    while fabric.ends[me].send_inline(PeerId(peer as u32), header(), b"hello").is_err() {
        fabric.round();
    }
}

fn hear(fabric: &mut Virtual, (me, peer): (usize, usize)) {
    while fabric.ends[me].peek(PeerId(peer as u32)).is_none() {
        fabric.round();
    }
    fabric.ends[me].advance(PeerId(peer as u32));
}

/// The third process has been heard to send to the first, and both talk: neither has given the other up.
fn comes_back(fabric: &mut Virtual, when: &str) {
    let begun = fabric.air.borrow().now;
    while fabric.ends[0].peek(PeerId(2)).is_none() {
        fabric.round();
        let lost = [0, 2].map(|end| fabric.ends[end].lost());
        assert_eq!(lost, [None; 2], "{when}");
        assert!(fabric.air.borrow().now - begun < 9_000_000_000, "{when}: never");
    }
    fabric.ends[0].advance(PeerId(2));
    say(fabric, (0, 2));
    hear(fabric, (2, 0));
}

/// Process 0 talks to 2 by datagrams until 2 wants a connection, and then computes while 2 asks for it, rests and goes on
/// resting for so many milliseconds. What 0 finds when it looks again is a question and the word of the rest.
fn asked_for_a_way_and_rested(computes: u32) -> Virtual {
    let mut air = Air::quiet();
    air.tells = false;
    let mut fabric = fabric_on(air, 3, 1);
    fabric.ends.iter_mut().for_each(|end| end.set_connections(1));
    say(&mut fabric, (0, 1));
    hear(&mut fabric, (1, 0));
    for _ in 1..64 {
        say(&mut fabric, (0, 2));
        hear(&mut fabric, (2, 0));
        (0..50).for_each(|_| fabric.round());
    }
    say(&mut fabric, (0, 2));
    [0, 2].into_iter().for_each(|end| fabric.ends[end].set_connections(8));
    while fabric.ends[2].peek(PeerId(0)).is_none() {
        fabric.round_of(&[2]);
    }
    fabric.ends[2].advance(PeerId(0));
    assert_eq!(fabric.ends[2].counts().changes, 1, "this shows nothing");
    while !fabric.ends[2].has_left() {
        fabric.round_of(&[2]);
    }
    fabric.ends[2].rest();
    for _ in 0..computes {
        // Whoever looks again has come back.
        let looks = if fabric.ends[2].has_rested() { &[][..] } else { &[2] };
        fabric.round_of(looks);
        fabric.air.borrow_mut().now += 1_000_000;
    }
    while !fabric.ends[2].has_rested() {
        fabric.round();
    }
    fabric
}

/// Whoever does not look is told for as long as the readme says.
#[test]
fn the_word_of_a_rest_is_said_for_so_long() {
    for (connections, lasts) in [(8, 63), (1, 511)] {
        let mut air = Air::quiet();
        air.tells = false;
        let mut fabric = fabric_on(air, 3, 1);
        fabric.ends.iter_mut().for_each(|end| end.set_connections(connections));
        for other in [1, 2] {
            say(&mut fabric, (0, other));
            hear(&mut fabric, (other, 0));
        }
        (0..200).for_each(|_| fabric.round());
        fabric.ends[2].rest();
        let begun = fabric.air.borrow().now;
        while !fabric.ends[2].has_rested() {
            fabric.round_of(&[2]);
        }
        let took = (fabric.air.borrow().now - begun) / 1_000_000;
        assert!((lasts..lasts + 4).contains(&took), "{took} ms instead of {lasts}");
    }
}

const COMPUTES: [u32; 8] = [0, 1, 5, 10, 30, 100, 400, 1_200];

/// Whose last question was on its way when it rested may come back: it is no dead one, and is not refused.
#[test]
fn who_asked_for_a_way_and_rested_may_come_back() {
    for computes in COMPUTES {
        let mut fabric = asked_for_a_way_and_rested(computes);
        for _ in 0..2_000 {
            fabric.round_of(&[0]);
        }
        assert!(!fabric.ends[0].is_gone(PeerId(2)), "after {computes} ms");
        say(&mut fabric, (2, 0));
        comes_back(&mut fabric, &format!("after {computes} ms"));
    }
}

/// Nor does that question undo the word: when the process ends, that is no loss.
#[test]
fn who_asked_for_a_way_and_rested_may_end() {
    for computes in COMPUTES {
        let mut fabric = asked_for_a_way_and_rested(computes);
        fabric.air.borrow_mut().tells = true;
        fabric.kill(2);
        let begun = fabric.air.borrow().now;
        while fabric.air.borrow().now - begun < 30_000_000_000 {
            fabric.round_of(&[0, 1]);
            fabric.air.borrow_mut().now += 1_000_000;
            assert_eq!(fabric.ends[0].lost(), None, "after {computes} ms");
        }
        assert!(fabric.ends[0].has_left(), "after {computes} ms");
    }
}

/// Who rests while it is asked for another way, and nothing is kept for it, may come back at any time: nobody has given it up
/// meanwhile.
#[test]
fn who_rested_may_come_back_after_a_minute() {
    let mut air = Air::quiet();
    air.tells = false;
    let mut fabric = fabric_on(air, 3, 1);
    fabric.ends.iter_mut().for_each(|end| end.set_connections(1));
    for other in [1, 2] {
        say(&mut fabric, (0, other));
        hear(&mut fabric, (other, 0));
    }
    (0..1_000).for_each(|_| fabric.round());
    fabric.ends.iter_mut().for_each(|end| end.set_connections(8));
    // Registered memory is reached by connections alone; what it asks is lost.
    fabric.air.borrow_mut().cut.insert((address(0), address(2)));
    let nowhere = RemoteMemory { address: 0, key: 0 };
    assert!(fabric.ends[0].put_copy(PeerId(2), 8, |_| (), nowhere, None).is_err());
    (0..3).for_each(|_| fabric.round_of(&[0]));
    assert_eq!(fabric.ends[0].counts().changes, 1, "this shows nothing");
    assert!(fabric.ends[2].has_left());
    fabric.ends[2].rest();
    let begun = fabric.air.borrow().now;
    while fabric.air.borrow().now - begun < 60_000_000_000 {
        fabric.round_of(&[0, 1]);
        fabric.air.borrow_mut().now += 1_000_000;
    }
    assert!(fabric.ends[0].has_left() && !fabric.ends[0].is_gone(PeerId(2)));
    fabric.air.borrow_mut().cut.clear();
    say(&mut fabric, (2, 0));
    comes_back(&mut fabric, "after a minute");
}

/// A question that was sent before the word of a rest and arrives after it does not undo it.
#[test]
fn a_question_that_the_word_of_a_rest_overtakes_undoes_nothing() {
    let mut air = Air::quiet();
    air.tells = false;
    let mut fabric = fabric_on(air, 3, 1);
    fabric.ends.iter_mut().for_each(|end| end.set_connections(1));
    say(&mut fabric, (0, 1));
    hear(&mut fabric, (1, 0));
    for _ in 0..63 {
        say(&mut fabric, (0, 2));
        hear(&mut fabric, (2, 0));
        (0..50).for_each(|_| fabric.round());
    }
    [0, 2].into_iter().for_each(|end| fabric.ends[end].set_connections(8));
    say(&mut fabric, (0, 2));
    // What it asks is late.
    while fabric.ends[2].counts().changes == 0 {
        fabric.air.borrow_mut().held_way = Some((address(2), address(0)));
        fabric.round_of(&[2]);
    }
    fabric.round_of(&[2]);
    fabric.air.borrow_mut().held_way = None;
    fabric.ends[2].advance(PeerId(0));
    fabric.ends[2].rest();
    for _ in 0..3 {
        fabric.round_of(&[0]);
    }
    assert!(fabric.air.borrow_mut().let_go() > 0, "this shows nothing");
    (0..10).for_each(|_| fabric.round_of(&[0]));
    fabric.air.borrow_mut().tells = true;
    fabric.kill(2);
    let begun = fabric.air.borrow().now;
    while fabric.air.borrow().now - begun < 30_000_000_000 {
        fabric.round_of(&[0, 1]);
        fabric.air.borrow_mut().now += 1_000_000;
        assert_eq!(fabric.ends[0].lost(), None, "an end that it was told of is no loss");
    }
    assert!(fabric.ends[0].has_left());
}

/// Who has rested may come back: then it is waited for again, whether messages go by a connection or by datagrams.
#[test]
fn who_comes_back_is_waited_for_again() {
    for peer in [1, 2] {
        let mut fabric = fabric_on(Air::quiet(), 3, 1);
        fabric.ends.iter_mut().for_each(|end| end.set_connections(1));
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

/// Two end and come back together, again and again. Who has ended is not told that the other does, and hears of every second
/// turn at best: after more of them than a narrow number could tell apart, the word of the end still counts.
#[test]
fn an_end_after_many_is_no_loss() {
    for times in [0, 1, 15, 16, 31, 32, 33, 40, 63, 64, 127, 128, 129] {
        let mut air = Air::quiet();
        air.tells = false;
        let mut fabric = fabric_on(air, 2, 1);
        let talk = |fabric: &mut Virtual| {
            for (me, peer) in [(0, 1), (1, 0)] {
                say(fabric, (me, peer));
                hear(fabric, (peer, me));
            }
            (0..100).for_each(|_| fabric.round());
        };
        for _ in 0..times {
            talk(&mut fabric);
            for end in [0, 1] {
                assert!(fabric.ends[end].has_left());
                fabric.ends[end].rest();
                while !fabric.ends[end].has_rested() {
                    fabric.round();
                }
            }
        }
        talk(&mut fabric);
        // Now the one that was the second.
        fabric.ends[1].rest();
        while !fabric.ends[1].has_rested() {
            fabric.round();
        }
        fabric.air.borrow_mut().tells = true;
        fabric.kill(1);
        let begun = fabric.air.borrow().now;
        while fabric.air.borrow().now - begun < 15_000_000_000 {
            fabric.round_of(&[0]);
            fabric.air.borrow_mut().now += 10_000_000;
            assert_eq!(fabric.ends[0].lost(), None, "an end that it was told of is no loss, after {times}");
        }
    }
}

/// Who has sent its first messages may never look at its device again, in a long computation: the other has them all the same,
/// though it looks seldom and finds several datagrams at once. By a connection, also more than the emulated device sends unanswered,
/// and by datagrams.
#[test]
fn first_messages_arrive_though_their_sender_computes() {
    let cases = [(false, 1), (false, 12), (false, 60), (true, 1), (true, 12), (true, 60)];
    for ((by_datagrams, most), seldom) in cases.into_iter().flat_map(|case| [(case, 1), (case, 2), (case, 7)])
    {
        for asking in [&[0][..], &[1], &[0, 1]] {
            let mut air = Air::quiet();
            (air.tells, air.pause) = (false, 1_000);
            let mut fabric = fabric_on(air, 3, 1);
            if by_datagrams {
                // It has all the connections that it may have.
                fabric.ends.iter_mut().for_each(|end| end.set_connections(1));
                say(&mut fabric, (1, 2));
                hear(&mut fabric, (2, 1));
            }
            asking.iter().for_each(|&me| fabric.ends[me].connect(PeerId(1 - me as u32)).unwrap());
            let begun = fabric.air.borrow().now;
            let [mut turns, mut sent, mut heard] = [0; 3];
            while heard < most {
                let length = |number: usize| [8, 900, 4_000][number % 3];
                let end = &mut fabric.ends[1];
                if sent < most {
                    end.progress();
                    while sent < most
                        && end.send_copy(PeerId(0), header(), length(sent), |room| room.fill(1)).is_ok()
                    {
                        sent += 1;
                    }
                    end.push_out();
                }
                if turns % seldom == 0 {
                    fabric.ends[0].progress();
                    while fabric.ends[0].peek(PeerId(1)).is_some() {
                        fabric.ends[0].advance(PeerId(1));
                        heard += 1;
                    }
                }
                fabric.idle();
                turns += 1;
                let took = fabric.air.borrow().now - begun;
                let case = format!("by datagrams {by_datagrams}, {asking:?} asked, a look in {seldom} turns");
                assert!(took < 1_000_000_000, "{heard} of {sent} after {took} ns: {case}");
            }
            let letters = fabric.ends[1].counts().letters;
            assert_eq!(letters, if by_datagrams { most as u64 } else { 0 }, "this shows nothing");
        }
    }
}
