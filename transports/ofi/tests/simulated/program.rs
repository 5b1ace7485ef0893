//! A world by seed: what it is like, and what happens in it.

use crate::library::count;
use crate::people::{MOST, Memory, PLACE, PLACES, Packet, State, Under, What, World, byte, fill, place_of};
use crate::{Faults, go_wrong};
use std::time::Duration;
use weft_api::Transport;
use weft_api::zero_copy::{Atomic, Token};
use weft_ofi::clock;
use weft_ofi::offer::Carrier;
use weft_sim::Random;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

pub(crate) const PROVIDERS: [&str; 13] = [
    "sockets",
    "sockets;ofi_rxm",
    "narrow",
    "mean",
    "mean;groups",
    "opx",
    "psm2",
    "cxi",
    "cxi;keys",
    "efa",
    "verbs;ofi_rxm",
    "unordered",
    "tags",
];
/// Those that run collectives.
const GATHERING: [&str; 3] = ["sockets;ofi_rxm", "cxi", "mean;groups"];
/// In which everything that is under way must end: more than all time-outs one after the other.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a world is like.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) provider: &'static str,
    pub(crate) carrier: Option<Carrier>,
    pub(crate) processes: usize,
    faults: Faults,
    /// Steps of its program.
    steps: usize,
    /// Of a thousand steps, in so many somebody dies, wants to end, or rests only to go on.
    deaths: usize,
    ends: usize,
    /// How often, of a thousand, time passes in which nobody looks.
    computes: usize,
    /// Whether some run collectives in groups of the provider's.
    pub(crate) gathers: bool,
    /// How often, of a thousand, the directory fails.
    pub(crate) unfound: u64,
    /// Most microseconds of a step.
    pace: u64,
    /// Whether all know each other from the beginning.
    all_meet: bool,
    /// Whether what was begun with the dead goes on while it is waited for the end.
    talks_to_dead: bool,
    /// Whether it is waited for the end of everything.
    settles: bool,
}

impl Plan {
    fn of(seed: u64, random: &mut Random) -> Plan {
        let provider = PROVIDERS[seed as usize % PROVIDERS.len()];
        let rate = |random: &mut Random, often: f64, most: u64| {
            if random.chance(often) { random.below(most + 1) as u32 } else { 0 }
        };
        let breaks = random.chance(0.2);
        Plan {
            provider,
            carrier: (provider != "tags" && random.chance(0.2)).then_some(Carrier::Tags),
            processes: 2 + random.below(MOST as u64 - 1) as usize,
            faults: Faults {
                again: rate(random, 0.5, 500),
                storm: rate(random, 0.3, 30),
                no_memory: rate(random, 0.5, 600),
                held: rate(random, 0.5, 600),
                few: rate(random, 0.5, 900),
                late: rate(random, 0.5, 600),
                no_place: rate(random, 0.5, 900),
                broken: if breaks { rate(random, 0.7, 20) } else { 0 },
                vanished: if breaks { rate(random, 0.7, 20) } else { 0 },
                denied: if breaks { rate(random, 0.3, 20) } else { 0 },
                no_removal: rate(random, 0.3, 900),
                unjoined: rate(random, 0.2, 300),
            },
            steps: 30 + random.below(300) as usize,
            deaths: rate(random, 0.3, 20) as usize,
            ends: rate(random, 0.5, 40) as usize,
            computes: rate(random, 0.5, 30) as usize,
            gathers: GATHERING.contains(&provider) && random.chance(0.7),
            unfound: rate(random, 0.3, 500).into(),
            pace: if random.chance(0.2) { 0 } else { 300 },
            all_meet: random.chance(0.3),
            talks_to_dead: random.chance(0.2),
            settles: random.chance(0.9),
        }
    }

    /// Whether somebody may be unable to join a group: it has no place for a member's address, or is refused.
    pub(crate) fn refuses_joins(&self) -> bool {
        self.faults.unjoined + self.faults.no_place > 0 || self.breaks()
    }

    /// Whether a collective may fail though nobody is lost.
    pub(crate) fn fails_collectives(&self) -> bool {
        self.breaks()
    }

    /// Whether connections between the living break.
    pub(crate) fn breaks(&self) -> bool {
        self.faults.broken + self.faults.vanished + self.faults.denied > 0
    }
}

impl World<'_> {
    fn meet(&mut self, me: usize, peer: usize) {
        if self.met.contains(&(me, peer)) {
            return;
        }
        // Whoever died or ended before is still found by its card.
        match self.end(me).connect(PeerId(peer as u32)) {
            Ok(()) => drop(self.met.insert((me, peer))),
            Err(error) => assert!(self.plan.unfound > 0, "a place, now or later: {}", error.text()),
        }
    }

    /// A length at a border: of what is copied at once, of a packet, of the pieces of the provider that has the shortest.
    fn length(&mut self, me: usize, message: bool) -> usize {
        let can = self.end(me).capabilities(PeerId(9));
        let borders = if message {
            vec![0, 1, can.max_inline, can.max_inline + 1, can.max_copy - 1, can.max_copy, 40, 700]
        } else {
            vec![0, 1, 31, 2047, 2048, 2049, 4000, 3 * 2048 + 1, PLACE]
        };
        borders[self.below(borders.len())]
    }

    pub(crate) fn send(&mut self, me: usize, peer: usize) {
        self.meet(me, peer);
        let length = self.length(me, true);
        let number = self.numbers.get(&(me, peer)).copied().unwrap_or(0);
        let header = Header::new(Kind::Eager, ContextId(8), Rank(me as u32), Tag(number as i32));
        let stamp = u64::from(number) * 64 + (me * 8 + peer) as u64;
        let inline = length <= self.end(me).capabilities(PeerId(peer as u32)).max_inline;
        let ordered = self.end(me).zero_copy(PeerId(peer as u32)).is_some_and(|can| can.put_before_send);
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
                if self.states[me] == State::Rests {
                    self.states[me] = State::Lives;
                }
                self.numbers.insert((me, peer), number + 1);
                // Where the connection broke under a put it is not there, whatever comes later.
                let puts = if ordered && !self.plan.breaks() { self.puts_to(me, peer) } else { Vec::new() };
                self.on_its_way.entry((me, peer)).or_default().push_back(Packet { number, length, puts });
            }
            Err(refused) => self.refused(me, peer, &refused),
        }
    }

    /// Puts to a peer that are not known to have ended.
    fn puts_to(&self, me: usize, peer: usize) -> Vec<(usize, usize, u64)> {
        let mut puts = self.loose.get(&(me, peer)).cloned().unwrap_or_default();
        for under in self.under[me].values().filter(|under| under.target == peer) {
            match &under.what {
                What::Put => puts.push((under.place, under.length, under.stamp)),
                What::Flush(closed) => puts.extend(closed),
                _ => {}
            }
        }
        puts
    }

    fn operate(&mut self, me: usize, peer: usize) {
        let id = PeerId(peer as u32);
        if self.open[peer].is_none() || self.open[me].is_none() {
            return;
        }
        let Some(can) = self.end(me).zero_copy(id) else { return };
        self.meet(me, peer);
        let length = self.length(me, false);
        let stamp = self.next;
        self.next += 1;
        let kind = self.below(6);
        let place = (0..PLACES).find(|&place| !self.busy.contains(&(me, peer, place)));
        let Some(place) = place else { return };
        let (here, there) = (place_of(peer, place), place_of(me, place));
        let memory = self.memory;
        let loose = self.below(3) == 0;
        let token = (!loose).then_some(Token(stamp));
        let others = self.open[peer].expect("registered");
        let mut under = Under { target: peer, place, length, stamp, what: What::Put };
        let begun = match kind {
            0..=2 if can.put => {
                fill(&memory[me].staging[here..here + length], stamp);
                let (local, remote) = self.runs((me, peer), place, length);
                self.end(me).put(id, &local, &remote, token)
            }
            3 if can.put => {
                under.length = length.min(can.max_copy);
                let to = others.window.remote.plus(there as u64);
                let fill =
                    |room: &mut [u8]| room.iter_mut().enumerate().for_each(|(at, to)| *to = byte(stamp, at));
                self.end(me).put_copy(id, under.length, fill, to, token)
            }
            4 if can.atomics => {
                under.what = What::Add(1 + stamp % 5);
                self.end(me).atomic(id, others.sum.remote, Atomic::FetchAdd(1 + stamp % 5), Token(stamp))
            }
            _ => {
                under.what = What::Get;
                self.stamps.remove(&(me, peer, place));
                fill(&memory[peer].window[there..there + length], stamp);
                fill(&memory[me].staging[here..here + length], stamp + 1);
                let (local, remote) = self.runs((me, peer), place, length);
                self.end(me).get(id, &remote, &local, Token(stamp))
            }
        };
        if let Err(refused) = begun {
            return self.refused(me, peer, &refused);
        }
        self.busy.insert((me, peer, place));
        match under.what {
            What::Add(value) => self.added[peer].1 += value,
            What::Put => drop(self.stamps.insert((me, peer, place), stamp)),
            _ => {}
        }
        if loose && matches!(under.what, What::Put) {
            self.loose.entry((me, peer)).or_default().push((place, under.length, stamp));
        } else {
            self.under[me].insert(stamp, under);
        }
    }

    fn flush(&mut self, me: usize, peer: usize) {
        if !self.met.contains(&(me, peer))
            || self.end(me).zero_copy(PeerId(peer as u32)).is_none_or(|can| !can.put)
        {
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
                self.refused(me, peer, &refused);
                if refused == weft_api::Refused::Dead {
                    self.loose.remove(&(me, peer));
                }
            }
        }
    }

    /// A process looks, often enough to look at the time in the end, or once.
    fn look(&mut self, me: usize, most: usize) {
        let looks = if self.random.chance(0.3) { 65 } else { 1 };
        for _ in 0..looks {
            if self.end(me).progress() {
                self.moved = true;
                break;
            }
        }
        self.take(me, most);
        self.complete(me);
        self.hear_losses(me);
        self.hear_of_collectives(me);
        if self.random.chance(0.5) {
            self.end(me).push_out();
        }
        let state = self.states[me];
        match state {
            State::Leaves if self.end(me).has_left() => self.begin_rest(me),
            State::Rests if self.end(me).has_rested() && self.random.chance(0.7) => self.end_in_order(me),
            _ => {}
        }
    }

    fn begin_rest(&mut self, me: usize) {
        self.end(me).rest();
        (self.states[me], self.moved) = (State::Rests, true);
        self.has_rested.insert(me);
    }

    fn end_in_order(&mut self, me: usize) {
        self.take(me, usize::MAX);
        self.complete(me);
        self.hear_losses(me);
        for peer in self.open_ends() {
            // Who rests is not told, and to whom nothing was sent there may be no connection.
            if self.has_rested.contains(&peer) || !self.numbers.contains_key(&(me, peer)) {
                self.torn.insert((peer, me));
            }
        }
        self.deregister(me);
        self.close(me, State::Ended);
    }

    fn die(&mut self, me: usize) {
        if self.random.chance(0.3) {
            // Somebody else has it die, and says so.
            let others: Vec<usize> = self.open_ends().into_iter().filter(|&other| other != me).collect();
            if !others.is_empty() {
                let teller = others[self.below(others.len())];
                self.states[me] = State::Dead;
                self.end(teller).declare_lost(PeerId(me as u32));
            }
        }
        self.close(me, State::Dead);
    }

    /// Time passes in which nobody looks but those who wait to end.
    fn compute(&mut self, time: Duration) {
        const SLICE: Duration = Duration::from_millis(20);
        let mut left = time;
        while left > SLICE && self.states.contains(&State::Rests) {
            for me in self.open_ends() {
                if self.states[me] == State::Rests {
                    self.look(me, 0);
                }
            }
            clock::pass(SLICE);
            left -= SLICE;
        }
        clock::pass(left);
    }

    fn step(&mut self) {
        let open = self.open_ends();
        if open.is_empty() {
            return;
        }
        let me = open[self.below(open.len())];
        let peer = (me + 1 + self.below(self.ends.len() - 1)) % self.ends.len();
        let chance = self.below(1000);
        if chance < self.plan.deaths {
            if open.len() > 1 {
                self.die(me);
            }
            return;
        }
        if chance < self.plan.deaths + self.plan.ends {
            match self.states[me] {
                State::Lives if self.is_in_no_group(me) => self.states[me] = State::Leaves,
                State::Leaves => self.states[me] = State::Lives,
                _ => {}
            }
            return;
        }
        if self.below(1000) < self.plan.computes {
            self.end(me).push_out();
            let time = Duration::from_millis(self.random.below(4000));
            return self.compute(time);
        }
        if self.plan.pace > 0 {
            clock::pass(Duration::from_micros(self.random.below(self.plan.pace)));
        }
        if self.plan.gathers && self.states[me] == State::Lives && self.random.chance(0.7) {
            self.go_on_in_groups(me, false);
        }
        let may_begin = self.states[me] == State::Lives || self.states[me] == State::Rests && chance > 950;
        match self.below(20) {
            0..7 if may_begin => self.send(me, peer),
            7..12 if self.states[me] == State::Lives => self.operate(me, peer),
            12 if self.states[me] == State::Lives => self.flush(me, peer),
            // Memory that nothing is under way on goes and comes again.
            13 if self.states.iter().all(|&state| state == State::Lives) => {
                let idle = |&(one, other, _): &(usize, usize, usize)| one != me && other != me;
                if self.busy.iter().all(idle) {
                    self.deregister(me);
                    self.open[me] = None;
                    self.register(me);
                }
            }
            14 if self.states[peer] == State::Dead && self.met.contains(&(me, peer)) => {
                self.end(me).give_up(PeerId(peer as u32));
            }
            16 if self.plan.gathers && self.states[me] == State::Lives => self.gather(me),
            17 | 18 if self.plan.gathers && self.states[me] == State::Lives => {
                self.go_on_in_groups(me, false);
            }
            15 => {
                let keep = self.random.chance(0.5);
                self.end(me).keep_company(keep);
            }
            _ => {
                let most = self.below(6);
                self.look(me, most);
            }
        }
    }

    /// Whether both ends of a pair know of each other's loss, or neither.
    fn agree(&self, me: usize, peer: usize) -> bool {
        let gone = |me: usize, peer: usize| {
            self.ends[me].as_ref().is_some_and(|end| end.is_gone(PeerId(peer as u32)))
        };
        let knows = |me: usize, peer: usize| self.met.contains(&(me, peer));
        !gone(me, peer) || self.is_away(peer) || gone(peer, me) || !knows(peer, me)
    }

    /// Why it is not over yet; `None`: it is.
    fn open_matter(&self) -> Option<&'static str> {
        let open = self.open_ends();
        let is_gone = |me: usize, peer: usize| self.ends[me].as_ref().unwrap().is_gone(PeerId(peer as u32));
        let arrives = |from: usize, to: usize| {
            let kept = matches!(self.states[from], State::Ended) && !self.torn.contains(&(to, from));
            !self.is_away(to)
                && (kept || !self.is_away(from))
                && !(self.plan.breaks() && (is_gone(to, from) || !self.is_away(from) && is_gone(from, to)))
        };
        if self.on_its_way.iter().any(|(&(from, to), list)| !list.is_empty() && arrives(from, to)) {
            return Some("packets that do not arrive");
        }
        if self.under.iter().any(|under| !under.is_empty()) || !self.loose.is_empty() {
            return Some("operations that do not end");
        }
        let finds = |me: usize, dead: usize| {
            self.states[dead] != State::Dead
                || self.has_rested.contains(&dead)
                || !self.met.contains(&(me, dead))
                || is_gone(me, dead)
        };
        if open.iter().any(|&me| (0..self.ends.len()).any(|dead| !finds(me, dead))) {
            return Some("a death that is not found");
        }
        if open.iter().any(|&me| (0..self.ends.len()).any(|peer| peer != me && !self.agree(me, peer))) {
            return Some("a loss that one end only knows of");
        }
        if open.iter().any(|&me| !self.ends[me].as_ref().unwrap().has_left()) {
            return Some("something that does not leave");
        }
        if let Some(matter) = self.open_group() {
            return Some(matter);
        }
        let holds = |me: usize| self.ends[me].as_ref().unwrap().slots_in_use() > 0;
        // What came before its turn from somebody who has ended is kept.
        if self.torn.is_empty() && open.iter().any(|&me| holds(me)) {
            return Some("slots that do not come back");
        }
        (count(self.plan.provider, "under way") > 0).then_some("places of a queue that do not come back")
    }

    /// Everything that is under way among those who are there, and with the others.
    fn settle(&mut self) {
        let begun = clock::passed();
        let mut pause = Duration::from_millis(1);
        let mut turns = 0_u32;
        loop {
            self.moved = false;
            for me in self.open_ends() {
                self.look(me, 16);
                if self.is_away(me) {
                    continue;
                }
                self.go_on_in_groups(me, true);
                self.end(me).push_out();
                for peer in 0..self.ends.len() {
                    if self.loose.contains_key(&(me, peer)) {
                        self.flush(me, peer);
                    }
                    let may_send = self.plan.talks_to_dead && self.states[me] == State::Lives;
                    let is_dead = self.states[peer] == State::Dead && self.met.contains(&(me, peer));
                    if may_send && is_dead && !self.end(me).is_gone(PeerId(peer as u32)) {
                        self.send(me, peer);
                    }
                }
            }
            let Some(matter) = self.open_matter() else { return };
            turns += 1;
            let time = clock::passed() - begun;
            assert!(time < PATIENCE, "after {time:?} and {turns} turns, {matter}: {}", self.open_matters());
            pause = if self.moved {
                Duration::from_millis(1)
            } else {
                (pause * 2).min(Duration::from_millis(250))
            };
            clock::pass(pause);
        }
    }
}

/// One world. What happened in it: whether somebody died, whether somebody ended in order, and how much time passed.
pub(crate) fn world_of(seed: u64) -> (bool, bool, Duration) {
    let mut random = Random::new(seed ^ 0x51e);
    let plan = Plan::of(seed, &mut random);
    let memory: Vec<Memory> = (0..plan.processes).map(|_| Memory::of(plan.processes)).collect();
    clock::set(Duration::from_micros(1 + random.below(500)));
    let begun = clock::passed();
    go_wrong(seed + 1, Faults::default());
    let mut world = World::new(&plan, &memory, random);
    go_wrong(seed + 1, plan.faults);
    (0..plan.processes).for_each(|me| world.register(me));
    if plan.all_meet {
        let pairs = (0..plan.processes).flat_map(|me| (0..plan.processes).map(move |peer| (me, peer)));
        pairs.filter(|(me, peer)| me != peer).for_each(|(me, peer)| world.meet(me, peer));
    }
    for _ in 0..plan.steps {
        world.step();
    }
    if plan.settles {
        world.settle();
        for (at, &(sure, perhaps)) in world.added.iter().enumerate() {
            let sum = memory[at].sum.load(std::sync::atomic::Ordering::Relaxed);
            assert!(sure <= sum && sum <= perhaps, "{sum} was added, of {sure} to {perhaps}");
        }
        for me in world.open_ends() {
            world.deregister(me);
        }
        assert_eq!(count(plan.provider, "reachable"), 0, "memory is still registered");
    }
    let (died, ended) = [State::Dead, State::Ended].map(|state| world.states.contains(&state)).into();
    let open = world.open_ends();
    for at in open {
        world.close(at, State::Dead);
    }
    go_wrong(0, Faults::default());
    assert_eq!(count(plan.provider, "alive"), 0, "objects that were not closed");
    (died, ended, clock::passed() - begun)
}
