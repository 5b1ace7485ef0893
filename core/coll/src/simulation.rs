//! A run of all ranks' schedules against the model, message by message: what the cost formulas are checked against, and the
//! only way to look at a million ranks.
//!
//! A rank does one thing at a time: `overhead` for each send and each receive, `per_byte_reduced` for each byte that it
//! combines or copies. A message leaves when the sender has done its part. What leaves and what enters an outermost group
//! (a node) passes its adapter one after the other, in each direction; a copy in shared memory takes the sender's and the
//! receiver's time. Sends complete when the sender has done its part: this is the time of a collective whose messages
//! are sent eagerly. Nothing is known of congestion in the network.
//!
//! Of ranks that share a core one works until it has nothing to do but wait; that another goes on costs a switch.
//!
//! Everything is kept in a few arrays for all ranks, about 20 bytes a step.

use crate::call::{Call, Group};
use crate::model::{Link, Model};
use crate::registry::Algorithm;
use crate::schedule::Step;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Seconds until the last rank was done.
    pub seconds: f64,
    /// Messages of all ranks.
    pub messages: u64,
    /// Those that left a node.
    pub far_messages: u64,
    /// Bytes that left a node.
    pub far_bytes: u64,
}

const SEND: u8 = 0;
const RECV: u8 = 1;
const LOCAL: u8 = 2;
/// Awaits an offer, then writes.
const PUT: u8 = 3;
/// Awaits an offer, then reads.
const GET: u8 = 4;
/// Awaits what it reads.
const GETTING: u8 = 5;

/// Added to the channel of what a get awaits, so that it is no message of the schedule's.
const READ: u16 = 1 << 15;

/// The steps of all ranks.
#[derive(Default)]
struct Steps {
    kind: Vec<u8>,
    /// Rank at the other end.
    peer: Vec<u32>,
    /// Channel of a message.
    channel: Vec<u16>,
    bytes: Vec<u64>,
    waits_for: Vec<u16>,
    /// `successors[first_successor[i]..first_successor[i + 1]]`, as offsets from the rank's first step.
    first_successor: Vec<u32>,
    successors: Vec<u16>,
    /// First step of each rank, and the end.
    first: Vec<u32>,
}

impl Steps {
    /// `None` if a rank has more steps than the numbers hold.
    fn push(&mut self, schedule: &crate::Schedule) -> Option<()> {
        let base = u32::try_from(self.kind.len()).ok()?;
        self.first.push(base);
        u16::try_from(schedule.steps().len()).ok()?;
        for (step, id) in schedule.steps().iter().zip(0..) {
            let (kind, peer, channel, bytes) = match *step {
                Step::Send { to, channel, from } => (SEND, to, channel, from.bytes),
                Step::Recv { from, channel, into } => (RECV, from, channel, into.bytes),
                Step::Copy { into, .. } | Step::Reduce { into, .. } => (LOCAL, 0, 0, into.bytes),
                Step::Offer { to, channel, .. } => (SEND, to, channel, 0),
                Step::Put { to, channel, from } => (PUT, to, channel, from.bytes),
                Step::Get { from, channel, into } => (GET, from, channel, into.bytes),
                // Neither what was put nor a flag takes this rank's processor a copy.
                Step::Await { from, channel, .. } => (RECV, from, channel + 1, 0),
            };
            self.kind.push(kind);
            self.peer.push(peer);
            self.channel.push(channel);
            self.bytes.push(bytes);
            self.waits_for.push(schedule.waits_for()[id as usize] as u16);
            self.first_successor.push(u32::try_from(self.successors.len()).ok()?);
            self.successors.extend(schedule.successors(id).iter().map(|&next| next as u16));
        }
        Some(())
    }

    fn of(&self, rank: u32) -> std::ops::Range<usize> {
        self.first[rank as usize] as usize..self.first[rank as usize + 1] as usize
    }
}

/// A time as an integer, so that it can be ordered: picoseconds.
fn ticks(seconds: f64) -> u64 {
    (seconds * 1e12).round() as u64
}

/// What happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A rank that has something to do is free.
    Run(u32),
    /// The first byte of a message is at the receiver's adapter; it came over the wire.
    Enter(Message),
    /// A message is there.
    Arrive(Message),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    to: u32,
    from: u32,
    channel: u16,
    bytes: u64,
}

/// What a rank may do next.
#[derive(Clone, Copy, Debug)]
enum Ready {
    /// A step.
    Start(u32),
    /// The rest of a receive whose message is there.
    Take(u32),
}

/// (receiver, sender, channel)
type Path = (u32, u32, u16);

/// A hash for small keys that nobody chooses to collide.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u32(u32::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(23) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Paths<T> = HashMap<Path, T, BuildHasherDefault<Mix>>;

struct World<'m> {
    model: &'m Model,
    steps: Steps,
    ready: Vec<VecDeque<Ready>>,
    /// When each core is free again, and the rank that worked there last.
    free: Vec<u64>,
    last: Vec<u32>,
    /// When each node's adapter is free again to send, and to receive.
    leaving: Vec<u64>,
    entering: Vec<u64>,
    /// Messages that are there before their receive, by number.
    arrived: Paths<u32>,
    /// Receives that wait for their message.
    posted: Paths<VecDeque<u32>>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    outcome: Outcome,
    unfinished: u64,
}

/// The time that an algorithm takes when all ranks call at the same moment. `None` if its schedules are too large to be run
/// (more than 65,535 steps at a rank or four milliards in all).
pub fn simulate(algorithm: &Algorithm, call: &Call<'_>, size: u32, model: &Model) -> Option<Outcome> {
    let mut steps = Steps::default();
    for rank in 0..size {
        steps.push(&algorithm.build(call, Group { rank, size }, model))?;
    }
    steps.first.push(u32::try_from(steps.kind.len()).ok()?);
    steps.first_successor.push(u32::try_from(steps.successors.len()).ok()?);
    let nodes = model.layout.levels.first().map_or(0, |level| level.groups.groups(size)) as usize;
    let mut world = World {
        model,
        unfinished: steps.kind.len() as u64,
        steps,
        ready: vec![VecDeque::new(); size as usize],
        free: vec![0; size as usize],
        last: (0..size).collect(),
        leaving: vec![0; nodes],
        entering: vec![0; nodes],
        arrived: Paths::default(),
        posted: Paths::default(),
        events: BinaryHeap::new(),
        outcome: Outcome::default(),
    };
    for rank in 0..size {
        for step in world.steps.of(rank).filter(|&step| world.steps.waits_for[step] == 0) {
            world.ready[rank as usize].push_back(Ready::Start(step as u32));
        }
        world.events.push(Reverse((0, Event::Run(rank))));
    }
    while let Some(Reverse((time, event))) = world.events.pop() {
        match event {
            Event::Run(rank) => world.run(time, rank),
            Event::Enter(message) => world.enter(time, message),
            Event::Arrive(message) => world.arrive(time, message),
        }
    }
    assert_eq!(world.unfinished, 0, "{algorithm:?}: the schedules of {size} ranks wait for one another");
    world.outcome.seconds = world.free.iter().max().map_or(0.0, |&last| last as f64 * 1e-12);
    Some(world.outcome)
}

impl World<'_> {
    /// The core that a rank works on.
    fn core(&self, rank: u32) -> usize {
        (f64::from(rank) / self.model.ranks_per_core.max(1.0)) as usize
    }

    fn busy(&mut self, rank: u32, seconds: f64) {
        let core = self.core(rank);
        self.free[core] += ticks(seconds);
    }

    /// Does the next thing of a rank, or all that it can do where others wait for its core.
    fn run(&mut self, time: u64, rank: u32) {
        let core = self.core(rank);
        if self.free[core] > time {
            return self.events.push(Reverse((self.free[core], Event::Run(rank))));
        }
        self.free[core] = time;
        if self.last[core] != rank && self.model.ranks_per_core > 1.0 {
            self.last[core] = rank;
            self.busy(rank, self.model.per_switch);
        }
        loop {
            let Some(next) = self.ready[rank as usize].pop_front() else { return };
            self.proceed(rank, next);
            if self.model.ranks_per_core <= 1.0 {
                break;
            }
        }
        if !self.ready[rank as usize].is_empty() {
            self.events.push(Reverse((self.free[core], Event::Run(rank))));
        }
    }

    fn proceed(&mut self, rank: u32, next: Ready) {
        match next {
            Ready::Take(step) => {
                self.take(rank, step as usize);
                self.taken(rank, step as usize);
            }
            Ready::Start(step) => {
                let step = step as usize;
                match self.steps.kind[step] {
                    SEND => self.send(rank, step),
                    RECV | PUT | GET => {
                        if self.recv(rank, step) {
                            self.taken(rank, step);
                        }
                    }
                    _ => {
                        self.busy(rank, self.steps.bytes[step] as f64 * self.model.per_byte_reduced);
                        self.complete(rank, step);
                    }
                }
            }
        }
    }

    fn complete(&mut self, rank: u32, step: usize) {
        self.unfinished -= 1;
        let base = self.steps.first[rank as usize];
        let successors =
            self.steps.first_successor[step] as usize..self.steps.first_successor[step + 1] as usize;
        for index in successors {
            let next = base + u32::from(self.steps.successors[index]);
            self.steps.waits_for[next as usize] -= 1;
            if self.steps.waits_for[next as usize] == 0 {
                self.ready[rank as usize].push_back(Ready::Start(next));
            }
        }
    }

    fn send(&mut self, rank: u32, step: usize) {
        let (to, channel, bytes) = (self.steps.peer[step], self.steps.channel[step], self.steps.bytes[step]);
        let link = self.model.link(rank, to);
        let core = self.core(rank);
        self.free[core] += ticks(link.overhead + bytes as f64 * link.per_byte_of_processor());
        let leaves = self.free[core];
        self.outcome.messages += 1;
        let message = Message { to, from: rank, channel, bytes };
        let groups = self.model.layout.levels.first().map(|level| &level.groups);
        let ends = groups.map(|groups| (groups.group(rank), groups.group(to)));
        let event = match ends {
            Some((here, there)) if here != there => {
                self.outcome.far_messages += 1;
                self.outcome.far_bytes += bytes;
                let start = leaves.max(self.leaving[here as usize]);
                self.leaving[here as usize] = start + occupied(link, bytes);
                (start + ticks(link.latency), Event::Enter(message))
            }
            _ => {
                let on_the_way = bytes as f64 * (link.per_byte - link.per_byte_of_processor());
                (leaves + ticks(link.latency + on_the_way), Event::Arrive(message))
            }
        };
        self.events.push(Reverse(event));
        self.complete(rank, step);
    }

    /// A message that a step has awaited is here.
    fn taken(&mut self, rank: u32, step: usize) {
        match self.steps.kind[step] {
            PUT => {
                self.steps.channel[step] += 1;
                self.send(rank, step);
            }
            GET => self.read(rank, step),
            // The flag for the owner.
            GETTING => {
                (self.steps.bytes[step], self.steps.channel[step]) = (0, self.steps.channel[step] + 1);
                self.send(rank, step);
            }
            _ => self.complete(rank, step),
        }
    }

    /// Asks an adapter for the bytes of an offer; the owner's processor has no part in it.
    fn read(&mut self, rank: u32, step: usize) {
        let (from, bytes) = (self.steps.peer[step], self.steps.bytes[step]);
        let channel = self.steps.channel[step] | READ;
        let link = self.model.link(from, rank);
        let core = self.core(rank);
        self.free[core] += ticks(link.overhead);
        let asked = self.free[core] + ticks(link.latency);
        let message = Message { to: rank, from, channel, bytes };
        let groups = self.model.layout.levels.first().map(|level| &level.groups);
        let event = match groups.map(|groups| (groups.group(from), groups.group(rank))) {
            Some((there, here)) if there != here => {
                self.outcome.far_bytes += bytes;
                let start = asked.max(self.leaving[there as usize]);
                self.leaving[there as usize] = start + occupied(link, bytes);
                (start + ticks(link.latency), Event::Enter(message))
            }
            _ => (asked + ticks(bytes as f64 * link.per_byte), Event::Arrive(message)),
        };
        self.steps.kind[step] = GETTING;
        self.posted.entry((rank, from, channel)).or_default().push_back(step as u32);
        self.events.push(Reverse(event));
    }

    fn enter(&mut self, time: u64, message: Message) {
        let link = self.model.link(message.from, message.to);
        let groups = self.model.layout.levels.first().map(|level| &level.groups);
        let there = groups.map_or(0, |groups| groups.group(message.to)) as usize;
        let enters = time.max(self.entering[there]);
        self.entering[there] = enters + occupied(link, message.bytes);
        // What processors move, the sender has moved; not what is read.
        let moved = if message.channel & READ == 0 { link.per_byte_of_processor() } else { 0.0 };
        let on_the_way = message.bytes as f64 * (link.per_byte - moved);
        let there = self.entering[there].max(time + ticks(on_the_way));
        self.events.push(Reverse((there, Event::Arrive(message))));
    }

    /// Whether the message was there.
    fn recv(&mut self, rank: u32, step: usize) -> bool {
        let path = (rank, self.steps.peer[step], self.steps.channel[step]);
        let Some(count) = self.arrived.get_mut(&path) else {
            self.posted.entry(path).or_default().push_back(step as u32);
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.arrived.remove(&path);
        }
        self.take(rank, step);
        true
    }

    /// The receiver's part of a message.
    fn take(&mut self, rank: u32, step: usize) {
        let link: &Link = self.model.link(rank, self.steps.peer[step]);
        let bytes = if self.steps.kind[step] == RECV { self.steps.bytes[step] } else { 0 };
        let copies = bytes as f64 * link.per_byte_of_processor() * (link.duplex - 1.0);
        let core = self.core(rank);
        self.free[core] += ticks(link.overhead + copies);
    }

    fn arrive(&mut self, time: u64, message: Message) {
        let path = (message.to, message.from, message.channel);
        let Some(steps) = self.posted.get_mut(&path) else {
            *self.arrived.entry(path).or_default() += 1;
            return;
        };
        let step = steps.pop_front().expect("there is one");
        if steps.is_empty() {
            self.posted.remove(&path);
        }
        let ready = &mut self.ready[message.to as usize];
        ready.push_back(Ready::Take(step));
        // A rank that has more to do has been told already.
        if ready.len() == 1 {
            let at = self.free[self.core(message.to)].max(time);
            self.events.push(Reverse((at, Event::Run(message.to))));
        }
    }
}

/// For how long a message occupies an adapter.
fn occupied(link: &Link, bytes: u64) -> u64 {
    ticks(link.shared_per_message + bytes as f64 * link.shared_per_byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Vector;
    use crate::registry::candidates;

    /// What an algorithm of a 1-MiB scan takes among four ranks with so many on a core, in microseconds.
    fn scan(name: &str, ranks_per_core: f64) -> f64 {
        let vector = Vector { count: 1 << 17, element: 8, commutative: true };
        let call = Call::Scan { vector, in_place: false };
        let model = Model { ranks_per_core, ..Model::default() };
        let algorithm = candidates(&call, Group { rank: 0, size: 4 }, &model)
            .find(|algorithm| algorithm.name == name)
            .expect("it applies");
        simulate(algorithm, &call, 4, &model).expect("few steps").seconds * 1e6
    }

    #[test]
    fn segments_overlap_where_every_rank_has_a_core_and_not_where_one_has_all() {
        assert!(scan("pipelined-chain", 1.0) < 0.5 * scan("chain", 1.0));
        assert!(scan("pipelined-chain", 4.0) > 0.9 * scan("chain", 4.0));
    }

    #[test]
    fn ranks_that_share_a_core_take_its_time_and_switches_one_after_the_other() {
        let (alone, pairs, all) = (scan("chain", 1.0), scan("chain", 2.0), scan("chain", 4.0));
        // Nothing overlaps in a chain but that the next waits already; some hops are switches.
        assert!(pairs > alone + 1.5 && all > alone + 1.5 && all < 1.1 * alone, "{alone} {pairs} {all}");
        let doubling = [1.0, 2.0, 4.0].map(|sharing| scan("recursive-doubling", sharing));
        assert!(doubling[1] > 1.4 * doubling[0] && doubling[2] > 1.4 * doubling[1], "{doubling:?}");
    }
}
