//! A process dies, and survivors that know of it end MPI at any moment, while others wait for them in communicators that had
//! not the dead one: in collectives, for messages from them or from anybody, or until they take one. Who has ended MPI does
//! nothing more, and may rest so for ever, or begin again with all other survivors in a communicator of its second life.
//! Everybody comes to his end; nothing fails where nobody has left before his time, nor in second lives, however late farewells
//! of the first ones are heard.

use crate::program::{Action, Comm, KINDS, seeds};
use std::sync::Arc;
use std::time::Duration;
use weft_datatype::{RecvBuf, Scratch};
use weft_engine::world::World;
use weft_engine::{Engine, Envelope, PeerMap, RequestId, Selector, SendMode, Started};
use weft_sim::Random;
use weft_types::{Age, ContextId, Error, ErrorClass, Farewell, Rank, Tag};

/// One thing that members of a communicator do together.
#[derive(Clone, Debug)]
enum Deed {
    Collective(Action),
    /// From rank to rank, so many bytes.
    Message {
        comm: usize,
        from: u32,
        to: u32,
        bytes: usize,
        mode: SendMode,
    },
}

impl Deed {
    fn comm(&self) -> usize {
        match self {
            Deed::Collective(action) => action.comm,
            Deed::Message { comm, .. } => *comm,
        }
    }
}

/// The program of all.
#[derive(Debug)]
struct Plan {
    /// The last one is that of the second lives.
    comms: Vec<Comm>,
    ages: Vec<Age>,
    deeds: Vec<Deed>,
    /// Where second lives begin.
    second: usize,
    dies: u32,
    /// Who receives from anybody, and for so many ends his program last.
    asks_anybody: u32,
    window: usize,
    /// Whether all survivors begin again.
    again: bool,
}

impl Plan {
    fn new(random: &mut Random, size: u32) -> Plan {
        let dies = random.below(u64::from(size)) as u32;
        let mut comms = vec![Comm { context: ContextId::WORLD.collective(), members: (0..size).collect() }];
        let mut ages = vec![Age::WORLD];
        for context in [8, 16, 24, 32] {
            let mut members: Vec<u32> = (0..size).filter(|_| random.below(4) > 0).collect();
            members.retain(|&member| member != dies || random.below(4) == 0);
            if members.len() > 1 {
                comms.push(Comm { context: ContextId(context).collective(), members });
                ages.push(Age(random.below(2) as u32));
            }
        }
        let survivors = (0..size).filter(|&member| member != dies).collect();
        let last = comms.len();
        let mut deeds: Vec<Deed> =
            (0..15 + random.below(15)).map(|_| Plan::deed(random, &comms, 0..last)).collect();
        let second = deeds.len();
        comms.push(Comm { context: ContextId(40).collective(), members: survivors });
        ages.push(Age(2));
        deeds.extend((0..8).map(|_| Plan::deed(random, &comms, last..last + 1)));
        let again = random.below(2) == 0;
        if !again {
            deeds.truncate(second);
        }
        let asks_anybody = random.below(u64::from(size)) as u32;
        Plan { comms, ages, deeds, second, dies, asks_anybody, window: 1 + random.below(3) as usize, again }
    }

    fn is_collective(&self, at: usize) -> bool {
        matches!(self.deeds[at], Deed::Collective(_))
    }

    fn deed(random: &mut Random, comms: &[Comm], among: std::ops::Range<usize>) -> Deed {
        let comm = among.start + random.below(among.len() as u64) as usize;
        let size = comms[comm].members.len() as u64;
        if random.below(2) == 0 && size > 1 {
            let from = random.below(size);
            let to = (from + 1 + random.below(size - 1)) % size;
            let bytes = [0, 8, 3_000, 100_000][random.below(4) as usize];
            let mode = if random.below(3) == 0 { SendMode::Synchronous } else { SendMode::Standard };
            return Deed::Message { comm, from: from as u32, to: to as u32, bytes, mode };
        }
        let count = [0, 1, 50, 3_000, 40_000][random.below(5) as usize];
        let kind = random.below(KINDS);
        Deed::Collective(Action { comm, kind, count, algorithm: random.below(64), persistent: None })
    }
}

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Works,
    /// Has ended a life; so many looks remain for its last words.
    Leaves(u32),
    /// Has ended MPI and does nothing.
    Rests,
}

struct Member {
    me: u32,
    random: Random,
    next: usize,
    under_way: Vec<(usize, RequestId, Option<Arc<Scratch>>)>,
    state: State,
    life: u32,
    /// Where it was when it ended MPI before its time.
    deserted: Option<usize>,
    /// What it has begun a second time.
    asked_again: Vec<usize>,
    /// Of a hundred looks after a loss, so many end MPI.
    haste: u64,
}

impl Member {
    fn new(me: u32, random: &mut Random) -> Member {
        let haste = [0, 0, 2, 20][random.below(4) as usize];
        let own = Random::new(random.below(u64::MAX));
        let state = State::Works;
        Member {
            me,
            random: own,
            next: 0,
            under_way: Vec::new(),
            state,
            life: 1,
            deserted: None,
            asked_again: Vec::new(),
            haste,
        }
    }

    fn is_over(&self, plan: &Plan) -> bool {
        self.state == State::Rests && (!plan.again || self.life == 2)
    }

    /// Does what can be done now.
    fn step(&mut self, plan: &Plan, engine: &mut Engine, mut check: impl FnMut(usize, &Error)) {
        match self.state {
            State::Rests if plan.again && self.life == 1 && self.random.below(50) == 0 => {
                (self.state, self.life, self.next) = (State::Works, 2, plan.second);
            }
            State::Rests => return,
            State::Leaves(looks) => {
                if engine.push_last_words(Duration::ZERO) && looks > 0 {
                    self.state = State::Leaves(looks - 1);
                    return;
                }
                // Its communicators are over.
                engine.part(Farewell { life: self.life, world: true });
                self.state = State::Rests;
                return;
            }
            State::Works => {}
        }
        engine.progress();
        let mut again = Vec::new();
        self.under_way.retain(|&(at, request, _)| {
            if !engine.is_complete(request) {
                return true;
            }
            if let Some(error) = engine.take(request).error {
                check(at, &error);
                // Who waits for anybody hears of the loss, and asks again: the sender may live.
                again.extend((self.me == plan.asks_anybody && !plan.is_collective(at)).then_some(at));
            }
            false
        });
        for at in again {
            if self.asked_again.contains(&at) {
                // What it was sent it will not take.
                self.deserted = self.deserted.or(Some(at));
            } else {
                self.asked_again.push(at);
                self.begin(plan, engine, at, &mut check);
            }
        }
        let end = if self.life == 1 { plan.second } else { plan.deeds.len() };
        let hurries = self.life == 1 && engine.knows_losses() && self.random.below(100) < self.haste;
        if hurries && (self.next < end || !self.under_way.is_empty()) {
            self.deserted = Some(self.next);
        }
        // Receives from anybody hold nobody up: those that they wait for may wait for what comes next here.
        while !hurries && self.next < end && self.blocking(plan) < plan.window {
            let at = self.next;
            self.next += 1;
            self.begin(plan, engine, at, &mut check);
        }
        let done = self.next == end && self.under_way.is_empty();
        if hurries || done && engine.knows_losses() {
            self.under_way.clear();
            engine.farewell(Farewell { life: self.life, world: true });
            self.state = State::Leaves(3000);
        }
    }

    fn blocking(&self, plan: &Plan) -> usize {
        let asks = |at: usize| self.me == plan.asks_anybody && !plan.is_collective(at);
        self.under_way.iter().filter(|&&(at, ..)| !asks(at)).count()
    }

    fn begin(&mut self, plan: &Plan, engine: &mut Engine, at: usize, check: &mut impl FnMut(usize, &Error)) {
        let comm = &plan.comms[plan.deeds[at].comm()];
        let Some(me) = comm.members.iter().position(|&member| member == self.me) else { return };
        let me = me as u32;
        let (context, tag) = (ContextId(comm.context.0 & !1), Tag(at as i32));
        let started = match &plan.deeds[at] {
            Deed::Collective(action) => {
                engine.start_schedule(action.bind(comm, me, at as u32)).map(|request| (request, None))
            }
            Deed::Message { from, to, bytes, mode, .. } if *from == me => {
                let memory = Scratch::new(*bytes);
                let envelope = Envelope { peer: comm.peer(Rank(*to)), context, source: Rank(me), tag };
                match engine.send(envelope, *mode, memory.send_buf(0, *bytes)) {
                    Ok(Started::Complete) => return,
                    Ok(Started::Pending(request)) => Ok((request, Some(memory))),
                    Err(error) => Err(error),
                }
            }
            Deed::Message { from, to, bytes, .. } if *to == me => {
                let memory = Scratch::new(*bytes);
                // Where nobody but the dead could send, only the first receive from anybody would hear of that: the others wait
                // for the process itself.
                let alone = comm.members.iter().all(|&member| member == self.me || member == plan.dies);
                let named = self.me != plan.asks_anybody || self.life == 2 || alone;
                let selector = Selector {
                    context,
                    peer: named.then(|| comm.peer(Rank(*from))),
                    source: named.then_some(Rank(*from)),
                    tag: Some(tag),
                };
                let room: RecvBuf = memory.recv_buf(0, *bytes);
                engine.recv(selector, room).map(|request| (request, Some(memory)))
            }
            Deed::Message { .. } => return,
        };
        match started {
            Ok((request, memory)) => self.under_way.push((at, request, memory)),
            Err(error) => check(at, &error),
        }
    }
}

/// One world; whether somebody failed in a communicator without the dead, and whether second lives came to their end.
fn one(seed: u64) -> (bool, bool) {
    let mut random = Random::new(seed);
    let size = 3 + random.below(5) as u32;
    let plan = Plan::new(&mut random, size);
    let mut world = World::new(size).seed(seed).full(0.1).build();
    for engine in &mut world.engines {
        for (comm, &age) in plan.comms.iter().zip(&plan.ages).skip(1) {
            let (context, number) = (ContextId(comm.context.0 & !1), comm.members.len() as u32);
            engine.open_channel(context, age, Arc::new(comm.clone()), number);
        }
    }
    let mut members: Vec<Member> = (0..size).map(|me| Member::new(me, &mut random)).collect();
    let (death, mut bereft) = (random.below(150 * u64::from(size)), false);
    for step in 0..2_000_000_u64 {
        if step == death {
            world.kill(plan.dies);
        }
        if step > death && members.iter().all(|member| member.me == plan.dies || member.is_over(&plan)) {
            return (bereft, plan.again);
        }
        let rank = random.below(u64::from(size)) as usize;
        if !world.is_alive(rank as u32) {
            continue;
        }
        let deserted: Vec<Option<usize>> = members.iter().map(|member| member.deserted).collect();
        members[rank].step(&plan, &mut world.engines[rank], |at, error: &Error| {
            let deed = &plan.deeds[at];
            let of = &plan.comms[deed.comm()].members;
            let has_dead = of.contains(&plan.dies);
            let desert = of.iter().any(|&member| deserted[member as usize].is_some());
            // Who waits for anybody hears of the loss.
            let any = rank as u32 == plan.asks_anybody && matches!(deed, Deed::Message { .. });
            let what = format!(
                "seed {seed}, rank {rank} of {of:?}, deed {at} {deed:?}: {error}; left: {deserted:?}"
            );
            assert!(at < plan.second && (has_dead || desert || any), "{what}");
            assert_eq!(error.class(), ErrorClass::PROC_ABORTED, "{what}");
            bereft |= !has_dead && desert;
        });
    }
    for member in members.iter().filter(|member| member.me != plan.dies) {
        println!(
            "rank {} in life {} {:?} at {}, left at {:?}, waits for {:?}",
            member.me,
            member.life,
            member.state,
            member.next,
            member.deserted,
            member
                .under_way
                .iter()
                .map(|under_way| (under_way.0, &plan.deeds[under_way.0]))
                .collect::<Vec<_>>()
        );
    }
    panic!("seed {seed} does not come to its end: {plan:?}");
}

#[test]
fn nobody_waits_for_who_has_ended_mpi_and_nobody_takes_him_for_gone_who_begins_again() {
    let (mut bereft, mut again) = (0, 0);
    let seeds = seeds(300);
    let number = seeds.end - seeds.start;
    for seed in seeds {
        let (was_bereft, has_begun_again) = one(seed);
        bereft += u64::from(was_bereft);
        again += u64::from(has_begun_again);
    }
    println!("of {number} worlds, in {bereft} somebody waited for a leaver, in {again} all began again");
    assert!(number < 100 || (bereft > number / 10 && again > number / 3), "{bereft} and {again} of {number}");
}
