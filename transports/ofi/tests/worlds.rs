//! Worlds of faults: two to four processes run random programs of messages, puts, gets, atomics, flushes and registrations over each
//! described provider, while the provider does by seed whatever it may do (`examples/described_fabric/faults.rs`): it refuses what is
//! posted, also for long, tells of ends late, in another order and few at a time, and has no memory for regions. In some a process
//! dies, in some all end in the middle.
//!
//! What holds in each: every message arrives once, whole and in order; every operation ends, and what it says is so; nobody is lost who
//! lives, whoever has died is found to have, and the others go on; nothing is left registered, under way or open.
//!
//! `WEFT_SEEDS=5000` runs more of them, `WEFT_SEED=n` one alone.

mod library;
mod world;

use library::{count, function, wanted};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use weft_api::verbs::Access;
use weft_api::zero_copy::{Atomic, LocalRun, MemoryRange, Outcome, Region, RemoteRun, Token, Unregistered};
use weft_api::{Refused, Transport};
use weft_ofi::Ofi;
use weft_ofi::offer::Carrier;
use weft_sim::{Random, seeds};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};
use world::all;

const PROVIDERS: [&str; 10] =
    ["narrow", "mean", "opx", "psm2", "cxi", "cxi;keys", "efa", "verbs;ofi_rxm", "unordered", "tags"];
/// Bytes of a place of a window, and places of each process in the window of each.
const PLACE: usize = 8 << 10;
const PLACES: usize = 2;
/// Turns in which everything that is under way must end.
const PATIENCE: usize = 400_000;

/// As `examples/described_fabric/faults.rs` has it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Faults {
    again: u32,
    storm: u32,
    no_memory: u32,
    held: u32,
    few: u32,
    late: u32,
    no_place: u32,
    broken: u32,
    vanished: u32,
    denied: u32,
    no_removal: u32,
}

fn go_wrong(seed: u64, faults: Faults) {
    type Set = unsafe extern "C" fn(u64, *const Faults);
    // SAFETY: a function of this type, and rates that are there.
    unsafe {
        std::mem::transmute::<NonNull<c_void>, Set>(function(c"described_fabric_faults"))(
            seed,
            &raw const faults,
        );
    }
}

fn byte(of: u64, at: usize) -> u8 {
    (of.wrapping_mul(0x9e37_79b9) >> 7) as u8 ^ (at as u8).wrapping_mul(31) ^ (at >> 8) as u8
}

/// Memory of a process, which outlives the ends.
struct Memory {
    /// Places for the operations of the others.
    window: Vec<AtomicU8>,
    /// Where its own begin and end, by target.
    staging: Vec<AtomicU8>,
    sum: AtomicU64,
}

/// Memory that is registered.
struct Open {
    window: Region,
    staging: Region,
    sum: Region,
}

/// Place, length, stamp and target of a put that only a flush tells of.
type LoosePut = (usize, usize, u64, usize);

enum What {
    Put,
    Get,
    Add(u64),
    Flush(Vec<LoosePut>),
}

/// An operation under way.
struct Under {
    target: usize,
    place: usize,
    length: usize,
    stamp: u64,
    what: What,
}

struct World<'a> {
    seed: u64,
    random: Random,
    memory: &'a [Memory],
    ends: Vec<Option<Ofi>>,
    open: Vec<Option<Open>>,
    /// What was taken and has not come, by sender and receiver: number and length.
    on_its_way: HashMap<(usize, usize), VecDeque<(u32, usize)>>,
    numbers: HashMap<(usize, usize), u32>,
    under: Vec<HashMap<u64, Under>>,
    /// Puts that no flush has closed, by process and target.
    loose: HashMap<(usize, usize), Vec<LoosePut>>,
    /// Places in use: by process, target and place.
    busy: BTreeSet<(usize, usize, usize)>,
    found: Vec<BTreeSet<u64>>,
    /// Added for sure, and perhaps.
    added: Vec<(u64, u64)>,
    dead: Option<usize>,
    next: u64,
}

fn range(memory: &[AtomicU8]) -> MemoryRange {
    MemoryRange { address: memory.as_ptr() as u64, length: memory.len() as u64 }
}

fn fill(memory: &[AtomicU8], stamp: u64) {
    memory.iter().enumerate().for_each(|(at, cell)| cell.store(byte(stamp, at), Relaxed));
}

impl World<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn lives(&self) -> Vec<usize> {
        (0..self.ends.len()).filter(|&at| self.ends[at].is_some()).collect()
    }

    fn end(&mut self, me: usize) -> &mut Ofi {
        self.ends[me].as_mut().expect("a living one")
    }

    fn at(target: usize, me: usize, place: usize) -> usize {
        debug_assert!(place < PLACES && target < 4);
        (me * PLACES + place) * PLACE
    }

    /// A length at a border: of what is copied at once, of a packet, of the pieces of the provider that has the shortest.
    fn length(&mut self, me: usize, message: bool) -> usize {
        let can = self.end(me).capabilities(PeerId(9));
        let borders = if message {
            [0, 1, can.max_inline, can.max_inline + 1, can.max_copy - 1, can.max_copy, 40, 700]
        } else {
            [0, 1, 31, 2047, 2048, 2049, 3 * 2048 + 1, PLACE]
        };
        borders[self.below(borders.len())]
    }

    /// Registers memory, which the provider may refuse for a while.
    fn register(&mut self, me: usize) {
        let Memory { window, staging, sum } = &self.memory[me];
        let sum = MemoryRange { address: sum.as_ptr() as u64, length: 8 };
        let mut regions = Vec::new();
        for range in [range(window), range(staging), sum] {
            for tries in 0.. {
                match self.end(me).register(range, Access::ALL) {
                    Ok(region) => {
                        regions.push(region);
                        break;
                    }
                    Err(Unregistered::Cannot) => return,
                    Err(Unregistered::Exhausted) => assert!(tries < 1000, "never registered"),
                }
            }
        }
        self.open[me] = Some(Open { window: regions[0], staging: regions[1], sum: regions[2] });
    }

    fn deregister(&mut self, me: usize) {
        let Some(Open { window, staging, sum }) = self.open[me].take() else { return };
        [window, staging, sum].into_iter().for_each(|region| self.end(me).deregister(region.id));
    }

    fn dies(&self, me: usize, peer: usize, refused: &Refused) {
        assert!(
            *refused == Refused::Full || self.dead == Some(peer),
            "{me} says that {peer} is {refused:?}, which lives"
        );
    }

    fn send(&mut self, me: usize, peer: usize) {
        let length = self.length(me, true);
        let number = *self.numbers.entry((me, peer)).or_default();
        let header = Header::new(Kind::Eager, ContextId(8), Rank(me as u32), Tag(number as i32));
        let stamp = u64::from(number) * 64 + (me * 8 + peer) as u64;
        let inline = length <= self.end(me).capabilities(PeerId(peer as u32)).max_inline;
        let sent = if inline {
            let payload: Vec<u8> = (0..length).map(|at| byte(stamp, at)).collect();
            self.end(me).send_inline(PeerId(peer as u32), header, &payload)
        } else {
            let fill =
                |room: &mut [u8]| room.iter_mut().enumerate().for_each(|(at, to)| *to = byte(stamp, at));
            self.end(me).send_copy(PeerId(peer as u32), header, length, fill)
        };
        match sent {
            Ok(()) => {
                self.numbers.insert((me, peer), number + 1);
                self.on_its_way.entry((me, peer)).or_default().push_back((number, length));
            }
            Err(refused) => self.dies(me, peer, &refused),
        }
    }

    /// A place for an operation, which is its own until that ends.
    fn place(&mut self, me: usize, peer: usize) -> Option<usize> {
        let place = (0..PLACES).find(|&place| !self.busy.contains(&(me, peer, place)))?;
        self.open[me].as_ref()?;
        self.busy.insert((me, peer, place));
        Some(place)
    }

    /// Runs here and there; the provider's own pieces are shorter.
    fn runs(
        &mut self,
        me: usize,
        peer: usize,
        place: usize,
        length: usize,
    ) -> (Vec<LocalRun>, Vec<RemoteRun>) {
        let (here, there) = (Self::at(me, peer, place) as u64, Self::at(peer, me, place) as u64);
        let staging = self.open[me].as_ref().expect("registered").staging;
        // Whoever has died had it registered before.
        let window = self.windows(peer);
        let start = range(&self.memory[me].staging).address + here;
        let split = self.below(length + 1) as u64;
        let length = length as u64;
        let local = [(0, split), (split, length - split)].map(|(at, length)| LocalRun {
            address: start + at,
            length,
            region: staging.id,
        });
        (local.to_vec(), vec![RemoteRun { memory: window.remote.plus(there), length }])
    }

    fn windows(&self, peer: usize) -> Region {
        self.open[peer].as_ref().expect("it is kept").window
    }

    fn operate(&mut self, me: usize, peer: usize) {
        let id = PeerId(peer as u32);
        let Some(can) = self.end(me).zero_copy(id) else { return };
        if self.open[peer].is_none() {
            return;
        }
        let length = self.length(me, false);
        let (token, stamp) = (Token(self.next), self.next);
        self.next += 1;
        let kind = self.below(5);
        let Some(place) = self.place(me, peer) else { return };
        let there = Self::at(peer, me, place);
        let here = Self::at(me, peer, place);
        let memory = self.memory;
        let loose = self.below(3) == 0;
        let mut under = Under { target: peer, place, length, stamp, what: What::Put };
        let begun = match kind {
            0 | 1 if can.put => {
                fill(&memory[me].staging[here..here + length], stamp);
                let (local, remote) = self.runs(me, peer, place, length);
                self.end(me).put(id, &local, &remote, (!loose).then_some(token))
            }
            2 if can.put => {
                under.length = length.min(can.max_copy);
                let to = self.windows(peer).remote.plus(there as u64);
                let fill =
                    |room: &mut [u8]| room.iter_mut().enumerate().for_each(|(at, to)| *to = byte(stamp, at));
                self.end(me).put_copy(id, under.length, fill, to, (!loose).then_some(token))
            }
            3 if can.atomics => {
                let at = self.open[peer].as_ref().expect("registered").sum.remote;
                under.what = What::Add(1 + stamp % 5);
                self.end(me).atomic(id, at, Atomic::FetchAdd(1 + stamp % 5), token)
            }
            _ => {
                under.what = What::Get;
                fill(&memory[peer].window[there..there + length], stamp);
                fill(&memory[me].staging[here..here + length], stamp + 1);
                let (local, remote) = self.runs(me, peer, place, length);
                self.end(me).get(id, &remote, &local, token)
            }
        };
        match begun {
            Ok(()) => {
                if let What::Add(value) = under.what {
                    self.added[peer].1 += value;
                }
                if loose && matches!(under.what, What::Put) {
                    self.loose.entry((me, peer)).or_default().push((place, under.length, stamp, peer));
                } else {
                    self.under[me].insert(token.0, under);
                }
            }
            Err(refused) => {
                self.busy.remove(&(me, peer, place));
                self.dies(me, peer, &refused);
            }
        }
    }

    fn flush(&mut self, me: usize, peer: usize) {
        if self.end(me).zero_copy(PeerId(peer as u32)).is_none_or(|can| !can.put) {
            return;
        }
        let token = Token(self.next);
        self.next += 1;
        match self.end(me).flush(PeerId(peer as u32), token) {
            Ok(()) => {
                let puts = self.loose.remove(&(me, peer)).unwrap_or_default();
                let under = Under { target: peer, place: 0, length: 0, stamp: 0, what: What::Flush(puts) };
                self.under[me].insert(token.0, under);
            }
            Err(refused) => {
                self.dies(me, peer, &refused);
                if refused == Refused::Dead {
                    self.loose.remove(&(me, peer));
                }
            }
        }
    }

    /// What is told to have ended has.
    fn complete(&mut self, me: usize) {
        while let Some(done) = self.end(me).completed() {
            let under = self.under[me].remove(&done.token.0);
            let Under { target, place, length, stamp, what } =
                under.expect("it is told once, of what was begun");
            let good = done.outcome != Outcome::Failed;
            assert!(good || self.dead == Some(target), "an operation of {me} on {target} fails, which lives");
            let (here, there) = (Self::at(me, target, place), Self::at(target, me, place));
            let check = |memory: &[AtomicU8], stamp, word: &str| {
                let wrong =
                    memory.iter().enumerate().find(|(at, cell)| cell.load(Relaxed) != byte(stamp, *at));
                assert!(wrong.is_none(), "{word} of {me} on {target}: byte {wrong:?} of {}", memory.len());
            };
            let memory = self.memory;
            match what {
                What::Put if good => check(&memory[target].window[there..there + length], stamp, "a put"),
                What::Get if good => check(&memory[me].staging[here..here + length], stamp, "a get"),
                What::Add(value) if good => {
                    let Outcome::Done(found) = done.outcome else { unreachable!("it is good") };
                    self.added[target].0 += value;
                    assert!(self.found[target].insert(found), "two have found {found}");
                }
                What::Flush(puts) => {
                    for (place, length, stamp, target) in puts {
                        let there = Self::at(target, me, place);
                        if good {
                            check(&memory[target].window[there..there + length], stamp, "a flushed put");
                        }
                        self.busy.remove(&(me, target, place));
                    }
                    continue;
                }
                _ => {}
            }
            self.busy.remove(&(me, target, place));
        }
    }

    fn look(&mut self, me: usize, most: usize) {
        self.end(me).progress();
        for _ in 0..most {
            let Some(peer) = self.end(me).ready() else { break };
            let from = peer.0 as usize;
            let expected = self.on_its_way.entry((from, me)).or_default().pop_front();
            let Some((number, length)) = expected else {
                panic!("{me} has a message of {from} that nobody sent")
            };
            let (header, payload) = self.end(me).peek(peer).expect("it is ready");
            assert_eq!(header.tag(), Tag(number as i32), "{from} to {me}: the next one");
            assert_eq!(payload.len(), length, "{from} to {me}, number {number}");
            let stamp = u64::from(number) * 64 + (from * 8 + me) as u64;
            assert!(
                payload.iter().enumerate().all(|(at, &found)| found == byte(stamp, at)),
                "{from} to {me}, number {number} of {length} bytes: a wrong byte"
            );
            self.end(me).advance(peer);
        }
        self.complete(me);
        while let Some(PeerId(lost)) = self.end(me).lost() {
            assert_eq!(self.dead, Some(lost as usize), "{me} has lost one that lives");
        }
        if self.random.chance(0.3) {
            self.end(me).push_out();
        }
    }

    fn kill(&mut self, dead: usize) {
        self.dead = Some(dead);
        self.ends[dead] = None;
        self.under[dead].clear();
        self.busy.retain(|&(me, ..)| me != dead);
        self.loose.retain(|&(me, _), _| me != dead);
    }

    /// Everything that is under way among the living ends, and with the dead.
    fn settle(&mut self) {
        let lives = self.lives();
        for turn in 0.. {
            assert!(turn < PATIENCE, "it does not end: {}", self.open_matters());
            for &me in &lives {
                self.look(me, 8);
                self.end(me).push_out();
                for peer in 0..self.ends.len() {
                    if self.loose.contains_key(&(me, peer)) {
                        self.flush(me, peer);
                    }
                    // Somebody who died long before is found by what is sent.
                    if self.dead == Some(peer) && !self.end(me).is_gone(PeerId(peer as u32)) {
                        self.send(me, peer);
                    }
                }
            }
            let dead = self.dead;
            let arrived = self.on_its_way.iter().all(|(&(from, to), list)| {
                list.is_empty() || [from, to].iter().any(|&end| dead == Some(end))
            });
            let over = arrived && self.under.iter().all(HashMap::is_empty) && self.loose.is_empty();
            let found = dead.is_none_or(|dead| {
                lives.iter().all(|&me| self.ends[me].as_ref().unwrap().is_gone(PeerId(dead as u32)))
            });
            let left = lives.iter().filter(|&&me| self.ends[me].as_ref().unwrap().has_left()).count();
            if over && found && left == lives.len() {
                return;
            }
        }
    }

    fn open_matters(&self) -> String {
        let ways: Vec<_> = self.on_its_way.iter().map(|(way, list)| (way, list.len())).collect();
        let under: Vec<_> = self.under.iter().map(HashMap::len).collect();
        let left: Vec<_> = self.ends.iter().flatten().map(Transport::has_left).collect();
        format!(
            "messages {ways:?}, operations {under:?}, puts {:?}, left {left:?}, dead {:?} (seed {})",
            self.loose.keys(),
            self.dead,
            self.seed
        )
    }
}

/// One world. Whether somebody died in it.
fn world_of(seed: u64) -> bool {
    let provider = PROVIDERS[seed as usize % PROVIDERS.len()];
    let mut random = Random::new(seed ^ 0x0f1);
    let processes = 2 + random.below(3) as usize;
    let tags = provider != "tags" && random.chance(0.3);
    let rate = |random: &mut Random, most: u64| random.below(most + 1) as u32;
    let faults = Faults {
        again: rate(&mut random, 500),
        storm: rate(&mut random, 30),
        no_memory: rate(&mut random, 600),
        held: rate(&mut random, 600),
        few: rate(&mut random, 900),
        late: rate(&mut random, 600),
        no_place: rate(&mut random, 800),
        broken: 0,
        vanished: 0,
        denied: 0,
        no_removal: rate(&mut random, 900),
    };
    let memory: Vec<Memory> = (0..processes)
        .map(|_| {
            let bytes = || (0..processes * PLACES * PLACE).map(|_| AtomicU8::new(0)).collect();
            Memory { window: bytes(), staging: bytes(), sum: AtomicU64::new(0) }
        })
        .collect();
    go_wrong(seed + 1, Faults::default());
    let (ends, _) = all(processes, &wanted(provider, tags.then_some(Carrier::Tags)));
    let mut world = World {
        seed,
        random,
        memory: &memory,
        ends: ends.into_iter().map(Some).collect(),
        open: (0..processes).map(|_| None).collect(),
        on_its_way: HashMap::new(),
        numbers: HashMap::new(),
        under: (0..processes).map(|_| HashMap::new()).collect(),
        loose: HashMap::new(),
        busy: BTreeSet::new(),
        found: vec![BTreeSet::new(); processes],
        added: vec![(0, 0); processes],
        dead: None,
        next: 1,
    };
    go_wrong(seed + 1, faults);
    for me in 0..processes {
        (0..processes)
            .filter(|&peer| peer != me)
            .for_each(|peer| world.end(me).connect(PeerId(peer as u32)).unwrap());
        world.register(me);
    }
    let steps = 150 + world.below(400);
    // psm2 ends nothing that was asked of the dead before seconds have passed (`tests/described.rs` waits for it).
    let mortal = provider != "psm2" && world.random.chance(0.35);
    let death = mortal.then(|| world.below(steps));
    for step in 0..steps {
        if death == Some(step) {
            let dead = world.below(processes);
            world.kill(dead);
        }
        let lives = world.lives();
        let me = lives[world.below(lives.len())];
        let peer = (me + 1 + world.below(processes - 1)) % processes;
        match world.below(20) {
            0..7 => world.send(me, peer),
            7..12 => world.operate(me, peer),
            12 => world.flush(me, peer),
            // Memory that nothing is under way on goes and comes again.
            13 if world.dead.is_none() => {
                let idle = |&(one, other, _): &(usize, usize, usize)| one != me && other != me;
                if world.busy.iter().all(idle) {
                    world.deregister(me);
                    world.register(me);
                }
            }
            _ => {
                let most = world.below(6);
                world.look(me, most);
            }
        }
    }
    // Some end in the middle, in any order.
    if world.random.chance(0.75) {
        world.settle();
        // Answers to the last questions, and what goes to the dead.
        for turn in 0.. {
            if count(provider, "under way") == 0 {
                break;
            }
            assert!(turn < 1000, "sends or requests whose end is not read");
            world.lives().into_iter().for_each(|me| world.look(me, 1));
        }
        for (at, &(sure, perhaps)) in world.added.iter().enumerate() {
            let sum = memory[at].sum.load(Relaxed);
            assert!(sure <= sum && sum <= perhaps, "{sum} was added, of {sure} to {perhaps}");
            assert!(sure == perhaps || world.dead.is_some(), "an atomic that was not told");
        }
        for me in world.lives() {
            world.deregister(me);
        }
        assert_eq!(count(provider, "reachable"), 0, "memory is still registered");
    }
    let died = world.dead.is_some();
    while let lives = world.lives()
        && !lives.is_empty()
    {
        let last = lives[world.below(lives.len())];
        world.ends[last] = None;
    }
    go_wrong(0, Faults::default());
    assert_eq!(count(provider, "alive"), 0, "objects that were not closed");
    died
}

#[test]
fn nothing_is_lost_or_left_whatever_a_provider_may_do() {
    let seeds = seeds(60);
    let (worlds, mut deaths) = (seeds.end - seeds.start, 0);
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| world_of(seed))) {
            Ok(died) => deaths += u64::from(died),
            Err(panic) => {
                let provider = PROVIDERS[seed as usize % PROVIDERS.len()];
                eprintln!("over {provider}: WEFT_SEED={seed} repeats it");
                resume_unwind(panic);
            }
        }
    }
    let told = |what| PROVIDERS.iter().map(|provider| count(provider, what)).sum::<u64>();
    let faults = ["refused", "storms", "unregistered", "unplaced", "held", "reordered", "failed"]
        .map(|what| (what, told(what)));
    println!("{worlds} worlds, {deaths} deaths: {faults:?}");
    assert!(
        worlds < 200 || deaths > 0 && faults.iter().all(|&(_, count)| count > worlds / 10),
        "this shows nothing"
    );
}
