//! Answers through the shuttle, as whole transports send them: every order of sending, receiving and connecting.

use super::{Config, Shm};
use crate::segment::Waking;
use weft_api::{Handler, Sink, Transport};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

const PEERS: [PeerId; 2] = [PeerId(0), PeerId(1)];

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

fn header(number: usize) -> Header {
    Header::new(Kind::Eager, ContextId::WORLD, Rank(0), Tag(number as i32))
}

/// What the packet of that number carries.
fn payload(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number * 31 + at) as u8).collect()
}

/// Sees that packets come once each and in order.
struct Expect<'a> {
    received: &'a mut usize,
    seed: u64,
}

impl Expect<'_> {
    fn see(&mut self, header: Header, bytes: &[u8]) {
        let number = header.tag().0 as usize;
        assert_eq!(number, *self.received, "seed {}", self.seed);
        assert_eq!(bytes, payload(number, bytes.len()), "seed {}, packet {number}", self.seed);
        *self.received += 1;
    }
}

impl Handler for Expect<'_> {
    type Outcome = ();
    fn handle(mut self, header: Header, bytes: &[u8]) -> (bool, ()) {
        self.see(header, bytes);
        (true, ())
    }
}

impl Sink for Expect<'_> {
    type Outcome = ();
    fn begin(&mut self, _: PeerId) -> std::ops::ControlFlow<()> {
        std::ops::ControlFlow::Continue(())
    }
    fn take(&mut self, header: Header, bytes: &[u8]) -> std::ops::ControlFlow<()> {
        self.see(header, bytes);
        std::ops::ControlFlow::Continue(())
    }
}

/// Two processes, or the same lane of both; those of lane 0 stand for them.
struct World {
    _processes: Vec<Shm>,
    ends: Vec<Option<Shm>>,
    sent: [usize; 2],
    received: [usize; 2],
    by_shuttle: usize,
    random: Random,
    seed: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let file = crate::create().expect("a memory file");
        let mut random = Random(seed);
        let waking = if random.below(8) == 0 { Waking::Fence } else { Waking::Membarrier };
        let attach = |local| {
            let (file, peers) = (file.try_clone().expect("a descriptor"), PEERS.to_vec());
            Shm::attach(Config { file, local, peers, single_copy: false, waking }).expect("attached")
        };
        let mut processes: Vec<Shm> = [0, 1].map(attach).into();
        let ends = match random.below(2) {
            0 => std::mem::take(&mut processes),
            _ => processes.iter().map(|process| process.lane(1).expect("a lane")).collect(),
        };
        let ends = ends.into_iter().map(Some).collect();
        World { _processes: processes, ends, sent: [0; 2], received: [0; 2], by_shuttle: 0, random, seed }
    }

    fn end(&mut self, of: usize) -> &mut Shm {
        self.ends[of].as_mut().expect("it lives")
    }

    fn is_here(&mut self, of: usize) -> bool {
        let other = PEERS[1 - of].0 as usize;
        self.end(of).outbound[other].as_ref().is_some_and(|outbound| outbound.producer.has_shuttle_here())
    }

    fn send(&mut self, from: usize, len: usize) {
        let (to, number, way) = (PEERS[1 - from], self.sent[from], self.random.below(8));
        let bytes = payload(number, len);
        let was_here = self.is_here(from);
        let end = self.ends[from].as_mut().expect("it lives");
        if end.outbound[to.0 as usize].is_none() {
            end.connect(to).expect("connected");
        }
        let sent = match way {
            0 => end.send_copy(to, header(number), len, |out| out.copy_from_slice(&bytes)).is_ok(),
            1 if len <= 104 => end.send_inline(to, header(number), &bytes).is_ok(),
            _ if len <= 104 => {
                let route = end.route(to);
                end.send_now(route, header(number), &bytes)
                    || end.send_inline(to, header(number), &bytes).is_ok()
            }
            _ => end.send_copy(to, header(number), len, |out| out.copy_from_slice(&bytes)).is_ok(),
        };
        self.sent[from] += usize::from(sent);
        self.by_shuttle += usize::from(was_here && !self.is_here(from));
    }

    /// One look, in one of the ways that there are; whoever is not idle finds something.
    fn receive(&mut self, at: usize) {
        let (seed, from, way) = (self.seed, PEERS[1 - at], self.random.below(4));
        let (waits, before) = (self.received[at] < self.sent[1 - at], self.received[at]);
        let end = self.ends[at].as_mut().expect("it lives");
        assert!(!(waits && end.is_idle()), "seed {seed}: a packet is here and was not seen");
        end.progress();
        let mut expect = Expect { received: &mut self.received[at], seed };
        match way {
            0 => {
                let mut left = 3;
                assert!(end.poll(2, &mut left, &mut expect).is_none());
            }
            1 => {
                if let Some((header, bytes)) = end.peek(from) {
                    expect.see(header, bytes);
                    end.advance(from);
                }
            }
            2 if end.ready().is_none() => {}
            _ => drop(end.receive(from, expect)),
        }
        assert_eq!(self.received[at] > before, waits, "seed {seed}, way {way}");
        assert!(self.received[at] <= self.sent[1 - at], "seed {seed}");
    }
}

fn length(random: &mut Random) -> usize {
    match random.below(10) {
        0 => 41 + random.below(64),
        1 => 105 + random.below(20_000),
        _ => random.below(41),
    }
}

/// Every packet arrives, once and in order, whoever connects first, whatever way it goes, in the process's lane and in others, by
/// turns or at the same time, and after its sender's end; every look sees what is there. Failures print their seed.
#[test]
fn packets_of_any_way_come_in_order_and_are_seen_by_every_look() {
    let mut by_shuttle = 0;
    for seed in 0..if cfg!(miri) { 0 } else { 60 } {
        let mut world = World::new(seed);
        for _ in 0..world.random.below(40) {
            // Strictly by turns, or as it comes.
            let first = world.random.below(2);
            match world.random.below(3) {
                0 => {
                    for turn in 0..world.random.below(200) {
                        let from = (first + turn) % 2;
                        let len = length(&mut world.random);
                        world.send(from, len);
                        while world.received[1 - from] < world.sent[from] {
                            world.receive(1 - from);
                        }
                    }
                }
                _ => {
                    for _ in 0..world.random.below(100) {
                        let who = world.random.below(2);
                        match world.random.below(2) {
                            0 => {
                                let len = length(&mut world.random);
                                world.send(who, len);
                            }
                            _ => world.receive(who),
                        }
                    }
                }
            }
        }
        by_shuttle += world.by_shuttle;
        // One of the two ends: what it has sent is there.
        let gone = world.random.below(2);
        world.ends[gone] = None;
        while world.received[1 - gone] < world.sent[gone] {
            world.receive(1 - gone);
        }
    }
    assert!(cfg!(miri) || by_shuttle > 500, "{by_shuttle} packets left in shuttles");
}

/// Where ranks share cores there is none.
#[test]
fn ranks_that_share_cores_have_no_shuttle() {
    let (mut with, mut without) = (0, 0);
    for seed in 0..if cfg!(miri) { 0 } else { 40 } {
        let mut world = World::new(seed);
        (0..4).for_each(|turn| {
            world.send(turn % 2, 8);
            world.receive(1 - turn % 2);
        });
        let crowded = world.end(0).is_crowded();
        assert_eq!(world.is_here(0) || world.is_here(1), !crowded, "seed {seed}");
        if crowded { without += 1 } else { with += 1 }
    }
    assert!(cfg!(miri) || (with > 0 && without > 0));
}
