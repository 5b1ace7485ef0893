//! Paths that die and come back: random programs in virtual time, a seed each. Nothing is lost, doubled, reordered or written
//! twice, nothing is left over, and nobody is taken for dead.
//!
//! `WEFT_SEEDS=5000` runs more of them than CI does, `WEFT_SEED=889` one.

use crate::common::{Air, Virtual, address, addresses_on, fabric_on, fabric_over, pieces, with_several};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use weft_api::Transport;
use weft_api::kit::Fabric;
use weft_api::verbs::Access;
use weft_api::zero_copy::{Atomic, LocalRun, MemoryRange, Outcome, Region, RemoteRun, Token};
use weft_rdma::Held;
use weft_sim::{Random, seeds, worlds};
use weft_types::params::Choice;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

const PROCESSES: usize = 3;
/// Bytes of a place that is put to once, and how many there are for each origin.
const PLACE: usize = 300;
const PLACES: usize = 24;
/// Bytes of a short put.
const SHORT: usize = 40;
/// What the owner of a place writes there when it has seen what was put.
const OWNERS: u8 = 0xee;

/// Bytes that devices change behind the compiler's back.
struct Memory(Vec<AtomicU8>, Region);

impl Memory {
    fn all(&self, from: usize, length: usize, byte: u8) -> bool {
        self.0[from..from + length].iter().all(|at| at.load(Ordering::Relaxed) == byte)
    }

    fn fill(&self, from: usize, length: usize, byte: u8) {
        self.0[from..from + length].iter().for_each(|at| at.store(byte, Ordering::Relaxed));
    }

    fn here(&self, from: usize, length: usize) -> LocalRun {
        LocalRun { address: self.0.as_ptr() as u64 + from as u64, length: length as u64, region: self.1.id }
    }

    fn there(&self, from: usize, length: usize) -> RemoteRun {
        RemoteRun { memory: self.1.remote.plus(from as u64), length: length as u64 }
    }
}

/// What one process does towards another.
#[derive(Default)]
struct Way {
    sent: u32,
    taken: u32,
    put: usize,
    /// Bytes of the next place that were put already, by short puts in a row.
    begun: usize,
    /// Places whose owner has seen what was put.
    owned: usize,
    /// Tokens under way, and what they are for.
    open: BTreeMap<u64, Act>,
    /// Fetch-and-adds that were done, and those of which nobody knows.
    added: u64,
    doubtful: u64,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Put(usize),
    /// Into this place of the origin's landing.
    Get(usize),
    /// Places up to this one are written.
    Flush(usize),
    Add,
}

struct World {
    fabric: Virtual,
    random: Random,
    seed: u64,
    rails: usize,
    /// Constant, of each process: `0x40 | process`.
    source: Vec<Memory>,
    /// Written to by others: `PLACES` for each of them.
    places: Vec<Memory>,
    /// Where gets land: one place for each peer.
    landing: Vec<Memory>,
    numbers: Vec<(Box<AtomicU64>, Region)>,
    ways: Vec<Vec<Way>>,
    token: u64,
}

const SOURCE: usize = 80_000;

fn length_of(number: u32) -> usize {
    // Tiny, inline, in a slot of several packets.
    match number % 4 {
        0 => (number % 20) as usize,
        1 => 60 + (number % 100) as usize,
        2 => 1_000 + (number % 3_000) as usize,
        _ => 8,
    }
}

fn byte_of(number: u32) -> u8 {
    (number.wrapping_mul(37) >> 2) as u8
}

impl World {
    fn new(seed: u64) -> World {
        World::with_connections(seed, 0)
    }

    /// So many connections each; further peers by datagrams.
    fn with_connections(seed: u64, most: u32) -> World {
        World::with_rails(seed, most, 1 + (seed / 2 % 2) as usize)
    }

    /// The same, with so many devices each.
    fn with_rails(seed: u64, most: u32, rails: usize) -> World {
        let mut air = Air::bad(seed);
        (air.loss, air.tells, air.pause) = ((seed % 4) as f64 * 0.005, seed.is_multiple_of(2), 10_000_000);
        // Half of the worlds have two rails, and half of those and of the others several addresses on each.
        if seed / 4 % 2 == 1 {
            air = with_several(air, PROCESSES);
        }
        let mut fabric = fabric_on(air, PROCESSES, rails);
        for end in &mut fabric.ends {
            end.set_patience(Duration::from_secs(60)); // Longer than all paths are dead.
            end.set_connections(most);
            // Three worlds in four have rings, few, that come and go.
            if !seed.is_multiple_of(4) {
                end.set_rings(Choice::On);
                end.set_ring_limits(1 + (seed / 4 % 2) as u32, 4);
            }
        }
        let mut memory = |end: usize, bytes: usize, fill: u8| {
            let bytes: Vec<AtomicU8> = (0..bytes).map(|_| AtomicU8::new(fill)).collect();
            let range = MemoryRange { address: bytes.as_ptr() as u64, length: bytes.len() as u64 };
            let region = fabric.ends[end].register(range, Access::ALL).unwrap();
            Memory(bytes, region)
        };
        let source = (0..PROCESSES).map(|end| memory(end, SOURCE, 0x40 | end as u8)).collect();
        let places = (0..PROCESSES).map(|end| memory(end, PROCESSES * PLACES * PLACE, 0)).collect();
        let landing = (0..PROCESSES).map(|end| memory(end, PROCESSES * SOURCE, 0)).collect();
        let numbers = (0..PROCESSES)
            .map(|end| {
                let number = Box::new(AtomicU64::new(0));
                let range = MemoryRange { address: (&raw const *number) as u64, length: 8 };
                let region = fabric.ends[end].register(range, Access::ALL).unwrap();
                (number, region)
            })
            .collect();
        let ways = (0..PROCESSES).map(|_| (0..PROCESSES).map(|_| Way::default()).collect()).collect();
        let random = Random::new(seed ^ 0x7a7a);
        let mut world =
            World { fabric, random, seed, rails, source, places, landing, numbers, ways, token: 0 };
        for me in 0..PROCESSES {
            for peer in (0..PROCESSES).filter(|&peer| peer != me) {
                world.fabric.ends[me].connect(PeerId(peer as u32)).unwrap();
            }
        }
        world
    }

    fn place(origin: usize, number: usize) -> usize {
        (origin * PLACES + number) * PLACE
    }

    /// One random thing that `me` does towards `peer`.
    fn act(&mut self, me: usize, peer: usize) {
        let to = PeerId(peer as u32);
        let token = self.token;
        let way = &mut self.ways[me][peer];
        let end = &mut self.fabric.ends[me];
        let taken = match self.random.below(8) {
            0 if way.put < PLACES => {
                let at = Self::place(me, way.put);
                let run = [self.places[peer].there(at, PLACE)];
                let asked = way.put.is_multiple_of(3);
                let taken = if way.put % 3 == 1 {
                    let bytes = [0x40 | me as u8; SHORT];
                    let route = end.route(to);
                    while way.begun < PLACE {
                        let length = SHORT.min(PLACE - way.begun);
                        if !end.put_now(route, &bytes[..length], run[0].memory.plus(way.begun as u64)) {
                            return;
                        }
                        way.begun += length;
                    }
                    way.begun = 0;
                    Ok(())
                } else if asked {
                    end.put(to, &[self.source[me].here(0, PLACE)], &run, Some(Token(token)))
                } else {
                    end.put_copy(to, PLACE, |room| room.fill(0x40 | me as u8), run[0].memory, None)
                };
                way.put += usize::from(taken.is_ok());
                taken.map(|()| asked.then_some(Act::Put(at)))
            }
            1 if !way.open.values().any(|act| matches!(act, Act::Get(_))) => {
                // Of a few packets, or large enough for two rails.
                let length = match self.random.below(3) {
                    0 => SOURCE - self.random.below(10_000) as usize,
                    _ => 1 + self.random.below(4_000) as usize,
                };
                self.landing[me].fill(peer * SOURCE, length, 0);
                let (source, landing, at) = (&self.source[peer], &self.landing[me], peer * SOURCE);
                // In one run, or in lists of runs that end at other places here and there.
                let runs = if length > 1_000 { self.random.below(3) as usize } else { 0 };
                let from = pieces(length, 1 + 7 * runs).map(|(begin, length)| source.there(begin, length));
                let into =
                    pieces(length, 1 + 4 * runs).map(|(begin, length)| landing.here(at + begin, length));
                end.get(to, &from.collect::<Vec<_>>(), &into.collect::<Vec<_>>(), Token(token))
                    .map(|()| Some(Act::Get(length)))
            }
            2 => end.flush(to, Token(token)).map(|()| Some(Act::Flush(way.put))),
            3 => end
                .atomic(to, self.numbers[peer].1.remote, Atomic::FetchAdd(1), Token(token))
                .map(|()| Some(Act::Add)),
            _ => {
                // A message says how many places were put to before it.
                let header =
                    Header::new(Kind::Eager, ContextId(8), Rank(way.put as u32), Tag(way.sent as i32));
                let (length, byte) = (length_of(way.sent), byte_of(way.sent));
                let route = end.route(to);
                let taken = if way.sent.is_multiple_of(3)
                    && length <= 160
                    && end.send_now(route, header, &vec![byte; length])
                {
                    Ok(())
                } else if length <= 160 {
                    end.send_inline(to, header, &vec![byte; length])
                } else {
                    end.send_copy(to, header, length, |room| room.fill(byte))
                };
                way.sent += u32::from(taken.is_ok());
                taken.map(|()| None)
            }
        };
        if let Ok(Some(act)) = taken {
            way.open.insert(token, act);
            self.token += 1;
        }
    }

    /// Takes what has come to `me`, and checks it.
    fn take(&mut self, me: usize) {
        let seed = self.seed;
        for peer in (0..PROCESSES).filter(|&peer| peer != me) {
            while let Some((header, payload)) = self.fabric.ends[me].peek(PeerId(peer as u32)) {
                let way = &mut self.ways[peer][me];
                let number = way.taken;
                let expected = Header::new(Kind::Eager, ContextId(8), header.source(), Tag(number as i32));
                assert_eq!(header, expected, "message {number} from {peer} to {me} (seed {seed})");
                assert_eq!(payload.len(), length_of(number), "seed {seed}");
                assert!(payload.iter().all(|&byte| byte == byte_of(number)), "a wrong byte (seed {seed})");
                let put = header.source().0 as usize;
                for number in 0..put {
                    let at = Self::place(peer, number);
                    let places = &self.places[me];
                    // The owner writes to a place that it has seen; nobody else does so again.
                    let expected = if number < way.owned { OWNERS } else { 0x40 | peer as u8 };
                    assert!(
                        places.all(at, PLACE, expected),
                        "place {number} of {peer} at {me} (seed {seed})"
                    );
                    places.fill(at, PLACE, OWNERS);
                }
                way.owned = put;
                way.taken += 1;
                self.fabric.ends[me].advance(PeerId(peer as u32));
            }
        }
        while let Some(done) = self.fabric.ends[me].completed() {
            let (peer, act) = (0..PROCESSES)
                .find_map(|peer| Some((peer, self.ways[me][peer].open.remove(&done.token.0)?)))
                .unwrap_or_else(|| panic!("{:?} comes back again (seed {seed})", done.token));
            let written = |at: usize| {
                let places = &self.places[peer];
                places.all(at, PLACE, 0x40 | me as u8) || places.all(at, PLACE, OWNERS)
            };
            match (act, done.outcome) {
                (Act::Add, Outcome::Failed) => self.ways[me][peer].doubtful += 1,
                (Act::Add, Outcome::Done(_)) => self.ways[me][peer].added += 1,
                (_, Outcome::Failed) => panic!("{act:?} has failed (seed {seed})"),
                (Act::Put(at), _) => assert!(written(at), "seed {seed}"),
                (Act::Flush(put), _) => {
                    assert!((0..put).all(|number| written(Self::place(me, number))), "seed {seed}");
                }
                (Act::Get(length), _) => {
                    let landing = &self.landing[me];
                    assert!(landing.all(peer * SOURCE, length, 0x40 | peer as u8), "seed {seed}");
                }
            }
        }
    }

    fn round(&mut self) {
        for me in 0..PROCESSES {
            if self.random.chance(0.4) {
                continue;
            }
            self.fabric.ends[me].progress();
            self.take(me);
            let lost = self.fabric.ends[me].lost();
            assert_eq!(lost, None, "{me} takes a living process for dead (seed {})", self.seed);
        }
        self.fabric.idle();
    }

    /// Way a to b, or both, by some of the rails or by all. Where there is one rail, one cut in four is none.
    fn cut(&mut self) {
        let a = self.random.below(PROCESSES as u64) as usize;
        let b = (a + 1 + self.random.below(PROCESSES as u64 - 1) as usize) % PROCESSES;
        let air = &mut *self.fabric.air.borrow_mut();
        let dead: Vec<usize> = match self.rails {
            1 | 2 => [0..1, 1..2, 0..2, 0..2][self.random.below(4) as usize].clone().collect(),
            // Any of them, one time in four all.
            rails => {
                let all = self.random.chance(0.25);
                (0..rails).filter(|_| all || self.random.chance(0.4)).collect()
            }
        };
        for rail in dead {
            for (a, b) in addresses_on(a, rail).into_iter().zip(addresses_on(b, rail)) {
                // Of several, some may go on.
                if air.more.is_empty() || self.random.chance(0.8) {
                    air.cut.insert((a, b));
                    if self.random.chance(0.6) {
                        air.cut.insert((b, a));
                    }
                }
            }
        }
    }

    fn run(&mut self) -> [u64; 5] {
        // Four times a path dies, for a moment or for longer than the device repeats.
        for _ in 0..4 {
            let acts = 20 + self.random.below(100);
            for _ in 0..acts {
                let me = self.random.below(PROCESSES as u64) as usize;
                let peer = (me + 1 + self.random.below(PROCESSES as u64 - 1) as usize) % PROCESSES;
                self.act(me, peer);
                if self.random.chance(0.5) {
                    self.round();
                }
            }
            self.cut();
            let lasts =
                [1_000_000, 300_000_000, 8_000_000_000, 12_000_000_000][self.random.below(4) as usize];
            let until = self.fabric.air.borrow().now + lasts;
            while self.fabric.air.borrow().now < until {
                if self.random.chance(0.02) {
                    let me = self.random.below(PROCESSES as u64) as usize;
                    self.act(me, (me + 1) % PROCESSES);
                }
                self.round();
            }
            self.fabric.air.borrow_mut().cut.clear();
        }
        let begun = self.fabric.air.borrow().now;
        let idle = Held::default();
        while self.fabric.ends.iter().any(|end| !end.has_left() || end.held() != idle) {
            self.round();
            let took = self.fabric.air.borrow().now - begun;
            assert!(took < 100_000_000_000, "it does not end (seed {})", self.seed);
        }
        // Tokens that came back in a turn whose process did not look.
        (0..PROCESSES).for_each(|me| self.take(me));
        for me in 0..PROCESSES {
            let mut added = [0; 2];
            for peer in (0..PROCESSES).filter(|&peer| peer != me) {
                let way = &self.ways[peer][me];
                assert_eq!(way.sent, way.taken, "seed {}", self.seed);
                assert!(way.open.is_empty(), "{:?} (seed {})", way.open, self.seed);
                let owned = (0..way.owned).map(|number| Self::place(peer, number));
                assert!(
                    owned.into_iter().all(|at| self.places[me].all(at, PLACE, OWNERS)),
                    "seed {}",
                    self.seed
                );
                added[0] += way.added;
                added[1] += way.added + way.doubtful;
            }
            let number = self.numbers[me].0.load(Ordering::SeqCst);
            assert!((added[0]..=added[1]).contains(&number), "seed {}", self.seed);
        }
        let counts = self.fabric.ends.iter().map(|end| end.counts());
        counts.fold([0; 5], |[anew, moved, shared, saved, records], it| {
            let saved = saved + it.requests - it.doorbells;
            [anew + it.reconnections, moved + it.moves, shared + it.shared, saved, records + it.records]
        })
    }
}

#[test]
fn nothing_is_lost_or_doubled_when_paths_die_and_come_back() {
    let gave = worlds(seeds(16), |seed| World::new(seed).run());
    let worlds = gave.len() as u64;
    let [anew, moved, shared, saved, records] =
        gave.into_iter().fold([0; 5], |sum, more| std::array::from_fn(|at| sum[at] + more[at]));
    println!(
        "{anew} connections made anew, {moved} moved, {shared} operations shared, {saved} doorbells saved, {records} messages by rings in {worlds} worlds"
    );
    assert!(
        worlds < 16 || anew > worlds && moved > 0 && shared > worlds && saved > worlds && records > worlds,
        "this shows nothing"
    );
}

/// The same with three to eight devices, of which any may be dead: those that live go on, and who has more devices than it says keys of is
/// asked for the others.
#[test]
fn nothing_is_lost_or_doubled_when_any_of_many_rails_die_and_come_back() {
    let gave = worlds(seeds(12), |seed| World::with_rails(seed, 0, 3 + (seed % 6) as usize).run());
    let worlds = gave.len() as u64;
    let [anew, moved, shared, ..] =
        gave.into_iter().fold([0; 5], |sum, more| std::array::from_fn(|at| sum[at] + more[at]));
    println!("{anew} connections made anew, {moved} moved, {shared} operations shared in {worlds} worlds");
    assert!(worlds < 12 || anew > worlds && moved > worlds && shared > worlds, "this shows nothing");
}

/// The same where there is one connection for two peers: messages of the other go by datagrams, those who talk much and those
/// who put, get or add are moved to a connection, and unused connections are given back.
#[test]
fn nothing_is_lost_or_doubled_when_the_way_changes() {
    let gave = worlds(seeds(16), |seed| {
        let mut world = World::with_connections(seed, 1);
        world.run();
        let counts = world.fabric.ends.iter().map(|end| end.counts());
        counts.fold([0; 2], |[letters, changes], it| [letters + it.letters, changes + it.changes])
    });
    let worlds = gave.len() as u64;
    let [letters, changes] =
        gave.into_iter().fold([0; 2], |sum, more| std::array::from_fn(|at| sum[at] + more[at]));
    println!("{letters} messages by datagrams, {changes} changes of the way in {worlds} worlds");
    assert!(worlds < 16 || letters > worlds && changes > worlds, "this shows nothing");
}

/// A path that stays dead, without a word of the network: the peer is lost when the patience is over and not before, every
/// token comes back, and when the path is there again the other end is refused and knows.
#[test]
fn a_path_that_stays_dead_is_a_loss_in_the_end() {
    for seed in 0..4 {
        let mut fabric = fabric_over(Air::deaf(seed), 2);
        fabric.ends.iter_mut().for_each(|end| end.set_patience(Duration::from_secs(5)));
        fabric.introduce();
        let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(7));
        fabric.ends[1].advance(PeerId(0));
        let begun = fabric.air.borrow().now;
        fabric.air.borrow_mut().cut.extend([(address(0), address(1)), (address(1), address(0))]);
        fabric.ends[0].send_inline(PeerId(1), header, b"into the void").unwrap();
        fabric.ends[0].flush(PeerId(1), Token(5)).unwrap();
        while fabric.ends[0].lost().is_none() {
            assert_eq!(fabric.ends[0].completed(), None, "seed {seed}");
            fabric.ends[0].progress();
            fabric.idle();
            assert!(fabric.air.borrow().now - begun < 40_000_000_000, "for ever (seed {seed})");
        }
        assert!(fabric.air.borrow().now - begun > 10_000_000_000, "too early (seed {seed})");
        let done = fabric.ends[0].completed().map(|done| (done.token, done.outcome));
        assert_eq!(done, Some((Token(5), Outcome::Failed)), "seed {seed}");
        assert!(fabric.ends[0].is_gone(PeerId(1)) && fabric.ends[0].completed().is_none());
        fabric.air.borrow_mut().cut.clear();
        let back = fabric.air.borrow().now;
        while fabric.ends[1].lost().is_none() {
            let _ = fabric.ends[1].send_inline(PeerId(0), header, b"are you there");
            fabric.round();
            assert!(fabric.air.borrow().now - back < 12_000_000_000, "seed {seed}");
        }
    }
}
