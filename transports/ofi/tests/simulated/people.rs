//! Who is in a world, what each has under way, and what must be true of what it is told.

use crate::groups::Group;
use crate::world::{Cards, all_with};
use crate::{library, program::Plan};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use weft_api::verbs::Access;
use weft_api::zero_copy::{LocalRun, MemoryRange, Outcome, Region, RemoteRun, Unregistered};
use weft_api::{Refused, Transport};
use weft_ofi::{Ofi, OfiCard, OfiDirectory};
use weft_sim::Random;
use weft_types::{Error, PeerId, Result, Tag};

/// Most processes of a world.
pub(crate) const MOST: usize = 6;
/// Bytes of a place of a window, and places of each process in the window of each.
pub(crate) const PLACE: usize = 20 << 10;
pub(crate) const PLACES: usize = 3;

pub(crate) fn byte(of: u64, at: usize) -> u8 {
    (of.wrapping_mul(0x9e37_79b9) >> 7) as u8 ^ (at as u8).wrapping_mul(31) ^ (at >> 8) as u8
}

/// Memory of a process, which outlives the ends.
pub(crate) struct Memory {
    /// Places for the operations of the others.
    pub(crate) window: Vec<AtomicU8>,
    /// Where its own begin and end, by target.
    pub(crate) staging: Vec<AtomicU8>,
    pub(crate) sum: AtomicU64,
}

impl Memory {
    pub(crate) fn of(processes: usize) -> Memory {
        let bytes = || (0..processes * PLACES * PLACE).map(|_| AtomicU8::new(0)).collect();
        Memory { window: bytes(), staging: bytes(), sum: AtomicU64::new(0) }
    }
}

/// Memory that is registered.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    pub(crate) window: Region,
    pub(crate) staging: Region,
    pub(crate) sum: Region,
}

/// A put: place, length and stamp.
pub(crate) type Put = (usize, usize, u64);

pub(crate) enum What {
    Put,
    Get,
    Add(u64),
    Flush(Vec<Put>),
}

/// An operation under way.
pub(crate) struct Under {
    pub(crate) target: usize,
    pub(crate) place: usize,
    pub(crate) length: usize,
    pub(crate) stamp: u64,
    pub(crate) what: What,
}

/// A packet that was taken and has not come: its number, its length, and the puts to its receiver that were begun before it.
pub(crate) struct Packet {
    pub(crate) number: u32,
    pub(crate) length: usize,
    pub(crate) puts: Vec<Put>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Lives,
    /// It waits until all has left, to end.
    Leaves,
    /// It has ended MPI, and may go on.
    Rests,
    /// It has ended in order.
    Ended,
    Dead,
}

pub(crate) struct World<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) random: Random,
    pub(crate) memory: &'a [Memory],
    pub(crate) ends: Vec<Option<Ofi>>,
    pub(crate) states: Vec<State>,
    pub(crate) open: Vec<Option<Open>>,
    /// Who has ever sent to whom, or wanted to.
    pub(crate) met: BTreeSet<(usize, usize)>,
    /// Pairs of which the first may find the second lost though it ended in order, and need not hear all of it.
    pub(crate) torn: BTreeSet<(usize, usize)>,
    /// Who has told whom that it rests.
    pub(crate) has_rested: BTreeSet<usize>,
    pub(crate) told_lost: BTreeSet<(usize, usize)>,
    pub(crate) on_its_way: BTreeMap<(usize, usize), VecDeque<Packet>>,
    pub(crate) numbers: HashMap<(usize, usize), u32>,
    pub(crate) under: Vec<BTreeMap<u64, Under>>,
    /// Puts that no flush has closed, by process and target.
    pub(crate) loose: BTreeMap<(usize, usize), Vec<Put>>,
    /// Stamps of the last puts to places, by process, target and place.
    pub(crate) stamps: HashMap<(usize, usize, usize), u64>,
    /// Places in use: by process, target and place.
    pub(crate) busy: BTreeSet<(usize, usize, usize)>,
    pub(crate) found: Vec<BTreeSet<u64>>,
    /// Added for sure, and perhaps.
    pub(crate) added: Vec<(u64, u64)>,
    /// Collectives that were handed over and have not ended, by process and token: group, rank and number.
    pub(crate) collectives: Vec<BTreeMap<u64, (usize, usize, usize)>>,
    pub(crate) groups: Vec<Group>,
    pub(crate) next: u64,
    /// Something has come, ended or been told since this was cleared.
    pub(crate) moved: bool,
}

/// A directory that fails so often, of a thousand times.
#[derive(Debug)]
struct Flaky {
    cards: Cards,
    random: Random,
    rate: u64,
}

impl OfiDirectory for Flaky {
    fn find(&mut self, peer: PeerId) -> Result<OfiCard> {
        if self.random.below(1000) < self.rate {
            return Err(Error::internal("not now"));
        }
        self.cards.find(peer)
    }
}

pub(crate) fn range(memory: &[AtomicU8]) -> MemoryRange {
    MemoryRange { address: memory.as_ptr() as u64, length: memory.len() as u64 }
}

pub(crate) fn fill(memory: &[AtomicU8], stamp: u64) {
    memory.iter().enumerate().for_each(|(at, cell)| cell.store(byte(stamp, at), Relaxed));
}

/// Where a place of `me` begins, in the window of a target or in its own memory.
pub(crate) fn place_of(other: usize, place: usize) -> usize {
    (other * PLACES + place) * PLACE
}

impl<'a> World<'a> {
    pub(crate) fn new(plan: &'a Plan, memory: &'a [Memory], random: Random) -> World<'a> {
        let processes = plan.processes;
        let mut wanted = library::wanted(plan.provider, plan.carrier);
        let by_sockets = plan.provider.starts_with("sockets");
        wanted.address = by_sockets.then_some(std::net::Ipv4Addr::LOCALHOST.into());
        wanted.between_nodes = !by_sockets;
        wanted.offload = plan.gathers.then_some(true);
        World {
            plan,
            random,
            memory,
            ends: all_with(processes, &wanted, |process, cards| {
                let random = Random::new(plan.unfound ^ process as u64);
                Box::new(Flaky { cards, random, rate: plan.unfound })
            })
            .0
            .into_iter()
            .map(Some)
            .collect(),
            states: vec![State::Lives; processes],
            open: vec![None; processes],
            met: BTreeSet::new(),
            torn: BTreeSet::new(),
            has_rested: BTreeSet::new(),
            told_lost: BTreeSet::new(),
            on_its_way: BTreeMap::new(),
            numbers: HashMap::new(),
            under: (0..processes).map(|_| BTreeMap::new()).collect(),
            loose: BTreeMap::new(),
            stamps: HashMap::new(),
            busy: BTreeSet::new(),
            found: vec![BTreeSet::new(); processes],
            added: vec![(0, 0); processes],
            collectives: vec![BTreeMap::new(); processes],
            groups: Vec::new(),
            next: 1,
            moved: false,
        }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// Those whose ends are open.
    pub(crate) fn open_ends(&self) -> Vec<usize> {
        (0..self.ends.len()).filter(|&at| self.ends[at].is_some()).collect()
    }

    pub(crate) fn end(&mut self, me: usize) -> &mut Ofi {
        self.ends[me].as_mut().expect("an open end")
    }

    pub(crate) fn is_away(&self, peer: usize) -> bool {
        self.ends[peer].is_none()
    }

    /// Whether `me` may find `peer` lost.
    pub(crate) fn may_lose(&self, me: usize, peer: usize) -> bool {
        self.plan.breaks() || self.states[peer] == State::Dead || self.torn.contains(&(me, peer))
    }

    /// Whether what `me` does with `peer` may fail.
    pub(crate) fn may_fail(&self, me: usize, peer: usize) -> bool {
        self.may_lose(me, peer) || self.states[peer] == State::Ended
    }

    /// Registers memory, which the provider may refuse for a while.
    pub(crate) fn register(&mut self, me: usize) {
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

    /// Gives the memory back; others may still know it.
    pub(crate) fn deregister(&mut self, me: usize) {
        let Some(Open { window, staging, sum }) = self.open[me] else { return };
        [window, staging, sum].into_iter().for_each(|region| self.end(me).deregister(region.id));
    }

    pub(crate) fn refused(&mut self, me: usize, peer: usize, refused: &Refused) {
        assert!(
            *refused == Refused::Full || self.may_fail(me, peer),
            "{me} says that {peer} is {refused:?}, which {:?}",
            self.states[peer]
        );
    }

    /// Runs here and there; the provider's own pieces are shorter.
    pub(crate) fn runs(
        &mut self,
        (me, peer): (usize, usize),
        place: usize,
        length: usize,
    ) -> (Vec<LocalRun>, Vec<RemoteRun>) {
        let (here, there) = (place_of(peer, place) as u64, place_of(me, place) as u64);
        let [own, others] = [me, peer].map(|at| self.open[at].expect("registered"));
        let start = range(&self.memory[me].staging).address + here;
        let split = self.below(length + 1) as u64;
        let length = length as u64;
        let local = [(0, split), (split, length - split)].map(|(at, length)| LocalRun {
            address: start + at,
            length,
            region: own.staging.id,
        });
        (local.to_vec(), vec![RemoteRun { memory: others.window.remote.plus(there), length }])
    }

    fn check(&self, memory: &[AtomicU8], stamp: u64, what: &str) {
        let wrong = memory.iter().enumerate().find(|(at, cell)| cell.load(Relaxed) != byte(stamp, *at));
        assert!(wrong.is_none(), "{what}: byte {wrong:?} of {}", memory.len());
    }

    /// What `me` has put at a target is there, if it has not begun to put something else there.
    fn check_put(&self, me: usize, target: usize, (place, length, stamp): Put, what: &str) {
        if self.stamps.get(&(me, target, place)) == Some(&stamp) {
            let there = place_of(me, place);
            let window = &self.memory[target].window[there..there + length];
            self.check(window, stamp, &format!("{what} of {me} on {target}"));
        }
    }

    /// What is told to have ended has.
    pub(crate) fn complete(&mut self, me: usize) {
        while let Some(done) = self.end(me).completed() {
            self.moved = true;
            let under = self.under[me].remove(&done.token.0);
            let Under { target, place, length, stamp, what } =
                under.expect("it is told once, of what was begun");
            let good = done.outcome != Outcome::Failed;
            assert!(
                good || self.may_fail(me, target),
                "an operation of {me} on {target} fails, which {:?}",
                self.states[target]
            );
            match what {
                What::Put if good => self.check_put(me, target, (place, length, stamp), "a put"),
                What::Get if good => {
                    let here = place_of(target, place);
                    let staging = &self.memory[me].staging[here..here + length];
                    self.check(staging, stamp, &format!("a get of {me} from {target}"));
                }
                What::Add(value) if good => {
                    let Outcome::Done(found) = done.outcome else { unreachable!("it is good") };
                    self.added[target].0 += value;
                    assert!(self.found[target].insert(found), "two have found {found}");
                }
                What::Flush(puts) => {
                    for put in puts {
                        if good {
                            self.check_put(me, target, put, "a flushed put");
                        }
                        self.busy.remove(&(me, target, put.0));
                    }
                    continue;
                }
                _ => {}
            }
            self.busy.remove(&(me, target, place));
        }
    }

    /// Takes packets, at most so many.
    pub(crate) fn take(&mut self, me: usize, most: usize) {
        for _ in 0..most {
            let Some(peer) = self.end(me).ready() else { return };
            self.moved = true;
            let from = peer.0 as usize;
            self.met.insert((me, from));
            let expected = self.on_its_way.entry((from, me)).or_default().pop_front();
            let Some(Packet { number, length, puts }) = expected else {
                panic!("{me} has a packet of {from} that nobody sent")
            };
            // Of a dead process what it has put goes with its memory, where the provider had not fetched it.
            if self.states[from] != State::Dead {
                for put in puts {
                    self.check_put(from, me, put, "before a packet, a put");
                }
            }
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
    }

    pub(crate) fn hear_losses(&mut self, me: usize) {
        while let Some(PeerId(lost)) = self.end(me).lost() {
            self.moved = true;
            let lost = lost as usize;
            assert!(self.may_lose(me, lost), "{me} has lost {lost}, which {:?}", self.states[lost]);
            assert!(self.told_lost.insert((me, lost)), "{me} is told twice that {lost} is lost");
        }
    }

    /// An end goes, with all that it has.
    pub(crate) fn close(&mut self, me: usize, state: State) {
        (self.states[me], self.ends[me]) = (state, None);
        self.under[me].clear();
        self.collectives[me].clear();
        self.busy.retain(|&(other, ..)| other != me);
        self.loose.retain(|&(other, _), _| other != me);
        self.moved = true;
    }

    pub(crate) fn open_matters(&self) -> String {
        let list = |of: &BTreeMap<(usize, usize), VecDeque<Packet>>| -> Vec<_> {
            of.iter().filter(|(_, list)| !list.is_empty()).map(|(&way, list)| (way, list.len())).collect()
        };
        let under: Vec<_> = self.under.iter().map(BTreeMap::len).collect();
        let ends = (0..self.ends.len()).map(|me| {
            let end = self.ends[me].as_ref();
            let gone: Vec<_> = (0..self.ends.len())
                .filter(|&peer| end.is_some_and(|end| end.is_gone(PeerId(peer as u32))))
                .collect();
            (self.states[me], end.map(Transport::has_left), end.map(|end| end.slots_in_use()), gone)
        });
        format!(
            "packets {:?}, operations {under:?}, puts {:?}, ends (all left, slots in use, gone) {:?}",
            list(&self.on_its_way),
            self.loose.keys(),
            ends.collect::<Vec<_>>(),
        )
    }
}
