//! Ends that go while traffic is under way: nothing hangs, nothing moves afterwards, and who stays goes on.

use super::one_sided::{Shared, can, insist, noise, wait};
use super::{Fabric, PATIENCE, connect, offer, round, take};
use crate::verbs::Access;
use crate::zero_copy::Token;
use crate::{Refused, Transport};
use std::collections::BTreeSet;
use weft_types::PeerId;

/// Rounds of traffic before somebody goes: before the first contact, in the middle of it, and behind it.
const MOMENTS: [usize; 5] = [0, 1, 5, 30, 200];
/// Bytes of registered memory of a process, and of one operation on it.
const ROOM: usize = 20_000;

/// All of some processes send, take only some of what arrives, and get and put: what is under way is never waited for.
struct Traffic {
    /// By sender and receiver.
    sent: Vec<Vec<u32>>,
    taken: Vec<Vec<u32>>,
    /// Registered memory of each process, where there is such a thing.
    memory: Vec<Shared>,
    /// Operations of each process that are not over.
    open: Vec<BTreeSet<u64>>,
    next: u64,
    turn: usize,
    /// Longest payload.
    limit: usize,
}

impl Traffic {
    fn between<F: Fabric>(fabric: &mut F) -> Traffic {
        let processes = fabric.ends().len();
        for from in 0..processes {
            (0..processes).filter(|&to| to != from).for_each(|to| connect(fabric, from, to));
        }
        let memory = if can(fabric).is_some_and(|can| can.get && can.put) {
            let of = |end| Shared::new(end, noise(ROOM, 3), Access::ALL);
            fabric.ends().iter_mut().map(of).collect()
        } else {
            Vec::new()
        };
        let limit = fabric.ends()[0].capabilities(PeerId(1)).max_copy.min(1_500);
        let numbers = vec![vec![0; processes]; processes];
        let open = vec![BTreeSet::new(); processes];
        Traffic { sent: numbers.clone(), taken: numbers, memory, open, next: 0, turn: 0, limit }
    }

    fn length(&self, number: u32) -> usize {
        (number as usize * 389) % (self.limit + 1)
    }

    /// One more of everything between those processes, as far as it is taken. A peer may turn out to be gone.
    fn go_on<F: Fabric>(&mut self, fabric: &mut F, among: &[usize]) {
        self.turn += 1;
        for &from in among {
            for &to in among.iter().filter(|&&to| to != from) {
                let number = self.sent[from][to];
                if offer(fabric, from, to, number, self.length(number)) == Ok(()) {
                    self.sent[from][to] += 1;
                }
                // Every third packet stays where it is for a while, looked at or not.
                if self.turn.is_multiple_of(3) {
                    fabric.ends()[to].peek(PeerId(from as u32));
                } else {
                    self.take_one(fabric, to, from);
                }
                if !self.memory.is_empty() && self.open[from].len() < 6 {
                    self.operate(fabric, from, to);
                }
            }
            self.hear(fabric, from);
        }
    }

    fn take_one<F: Fabric>(&mut self, fabric: &mut F, at: usize, from: usize) -> bool {
        let number = self.taken[from][at];
        let is_taken = take(fabric, at, from, number, self.length(number));
        self.taken[from][at] += u32::from(is_taken);
        is_taken
    }

    fn operate<F: Fabric>(&mut self, fabric: &mut F, from: usize, to: usize) {
        let (token, peer) = (Token(self.next), PeerId(to as u32));
        let (here, there) = ([self.memory[from].local(0, ROOM)], [self.memory[to].remote(0, ROOM)]);
        let end = &mut fabric.ends()[from];
        let begun = match self.next % 3 {
            0 => end.get(peer, &there, &here, token),
            1 => end.put(peer, &here, &there, Some(token)),
            _ => end.flush(peer, token),
        };
        if begun.is_ok() {
            self.open[from].insert(self.next);
            self.next += 1;
        }
    }

    fn hear<F: Fabric>(&mut self, fabric: &mut F, at: usize) {
        while let Some(done) = fabric.ends()[at].completed() {
            assert!(self.open[at].remove(&done.token.0), "token {} was not under way", done.token.0);
        }
    }

    fn bytes(&self) -> Vec<Vec<u8>> {
        self.memory.iter().map(|memory| (0..ROOM).map(|at| memory.at(at)).collect()).collect()
    }
}

/// All ends go at many moments of the traffic, in no order and without a word: that ends, no byte of the program's memory changes
/// afterwards, and new ends in their place work.
pub fn all_may_go_in_the_middle<F: Fabric>(make: &mut impl FnMut(usize) -> F) {
    for moment in MOMENTS {
        let mut fabric = make(2);
        let mut traffic = Traffic::between(&mut fabric);
        for _ in 0..=moment {
            traffic.go_on(&mut fabric, &[0, 1]);
            if moment > 0 {
                round(&mut fabric);
            }
        }
        drop(fabric);
        let left = traffic.bytes();
        let mut fabric = make(2);
        one_of_everything(&mut fabric);
        drop(fabric);
        assert!(left == traffic.bytes(), "memory changed after its ends had gone (moment {moment})");
    }
}

/// A message, and a get where there are such, from 0 to 1.
fn one_of_everything<F: Fabric>(fabric: &mut F) {
    connect(fabric, 0, 1);
    insist_on_message(fabric, 0, 1, 0);
    let Some(can) = can(fabric) else { return };
    if can.get {
        let there = Shared::new(&mut fabric.ends()[1], noise(ROOM, 4), Access::ALL);
        let here = Shared::new(&mut fabric.ends()[0], noise(ROOM, 5), Access::ALL);
        let (from, into) = ([there.remote(0, ROOM)], [here.local(0, ROOM)]);
        insist(fabric, 0, |end| end.get(PeerId(1), &from, &into, Token(1)));
        wait(fabric, 0);
        assert!((0..ROOM).all(|at| here.at(at) == there.at(at)), "a get between new ends");
    }
}

fn insist_on_message<F: Fabric>(fabric: &mut F, from: usize, to: usize, number: u32) {
    let mut rounds = 0;
    while offer(fabric, from, to, number, 100) != Ok(()) {
        rounds += 1;
        assert!(rounds < PATIENCE, "a new way from {from} to {to} takes nothing");
        round(fabric);
    }
    while !take(fabric, to, from, number, 100) {
        rounds += 1;
        assert!(rounds < PATIENCE, "nothing arrives on a new way from {from} to {to}");
        round(fabric);
    }
}

/// One of three goes in the middle of traffic between all: the others hear of it once, every token of theirs comes back, and what
/// they send each other arrives, all of it and in order; then they go as well.
pub fn the_others_go_on_when_one_goes_in_the_middle<F: Fabric>(make: &mut impl FnMut(usize) -> F) {
    for moment in MOMENTS {
        let mut fabric = make(3);
        let mut traffic = Traffic::between(&mut fabric);
        // Nobody learns of the death of whom he never met.
        let (mut met, mut rounds) = (false, 0);
        while !met {
            traffic.go_on(&mut fabric, &[0, 1, 2]);
            round(&mut fabric);
            met = traffic.taken.iter().flatten().filter(|&&taken| taken > 0).count() == 6;
            rounds += 1;
            assert!(rounds < PATIENCE, "they do not meet: {:?}", traffic.taken);
        }
        for _ in 0..moment {
            traffic.go_on(&mut fabric, &[0, 1, 2]);
            round(&mut fabric);
        }
        if !fabric.kill(1) {
            return;
        }
        let goal = [(0, 2), (2, 0)].map(|(from, to)| traffic.taken[from][to] + 60);
        let mut told = [Vec::new(), Vec::new(), Vec::new()];
        let mut rounds = 0;
        loop {
            let before = (traffic.taken.clone(), traffic.open.iter().map(BTreeSet::len).sum::<usize>());
            traffic.go_on(&mut fabric, &[0, 2]);
            for at in [0, 2] {
                // Some find out when they try; what had arrived of the dead stays readable.
                let number = traffic.sent[at][1];
                let size = traffic.length(number);
                if offer(&mut fabric, at, 1, number, size) == Ok(()) {
                    traffic.sent[at][1] += 1;
                }
                traffic.take_one(&mut fabric, at, 1);
                told[at].extend(fabric.ends()[at].lost());
            }
            let arrived = traffic.taken[0][2] >= goal[0] && traffic.taken[2][0] >= goal[1];
            if arrived && told[0].len() + told[2].len() >= 2 && moved_on(&mut fabric) {
                break;
            }
            rounds = if before.0 == traffic.taken { rounds + 1 } else { 0 };
            assert!(rounds < PATIENCE, "moment {moment}: told {told:?}, taken {:?}", traffic.taken);
            round(&mut fabric);
        }
        assert_eq!((&told[0], &told[2]), (&vec![PeerId(1)], &vec![PeerId(1)]), "moment {moment}");
        // What is still under way ends: of those that are there as well as of the dead.
        let mut rounds = 0;
        while !traffic.open[0].is_empty() || !traffic.open[2].is_empty() {
            for (at, from) in [(0, 1), (0, 2), (2, 0), (2, 1)] {
                // An operation may wait behind a packet for which its receiver has no room.
                traffic.take_one(&mut fabric, at, from);
                traffic.hear(&mut fabric, at);
            }
            rounds += 1;
            assert!(rounds < PATIENCE, "moment {moment}: operations without an end: {:?}", traffic.open);
            round(&mut fabric);
        }
        drop(fabric);
    }
}

/// Whether both refuse to send to the dead one.
fn moved_on<F: Fabric>(fabric: &mut F) -> bool {
    [0, 2].into_iter().all(|at| offer(fabric, at, 1, 0, 8) == Err(Refused::Dead))
}
