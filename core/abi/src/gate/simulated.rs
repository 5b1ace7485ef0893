//! Blocked calls of several threads in a simulated process: how they wait, help, sleep, wake each other and take over from one another,
//! by the code that does so in a real one ([`super::blocked`]), under a scheduler that decides by a seed who runs next at every step.
//!
//! Simulated are the surroundings ([`Around`]): lanes with a lock, a queue of packets and what is under way in them, and the bell. They
//! keep the rules at the top of [`super`]: who gives a lock back rings for marked requests that ended and for watchers. Threads of the
//! program block in lanes of their own choice, compute, and end; what they wait for ends by a packet, by a packet that another one in
//! another lane has to be answered for, or by another thread. In some programs there are no locks until a second thread comes.
//! A sleep ends by a ring; only a thread that leaves a lane to others wakes by itself, when nothing else can happen. So a lost wake-up, or a lane that
//! nobody takes over, is a program in which nobody can run.
//!
//! `WEFT_SEED=n` replays one seed; `WEFT_PROGRAMS=n` runs that many, from `WEFT_FIRST_SEED` on.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use weft::lanes::request_handle;
use weft_api::Bell;
use weft_engine::RequestId;
use weft_types::Handle;

use super::around::Around;
use super::blocked::until;
use crate::watch::{Awaited, Wait};

/// What comes in a lane.
#[derive(Clone, Copy, Debug)]
enum Packet {
    /// It ends a request of this lane.
    Ends(Handle),
    /// Whoever takes it answers, and then the other side ends a request of another lane.
    Asks(u32, Handle),
}

#[derive(Default)]
struct Lane {
    holder: Option<usize>,
    queue: VecDeque<Packet>,
    ended: HashSet<Handle>,
    marked: HashSet<Handle>,
    ended_watched: bool,
    watchers: u32,
    followers: u32,
    attendants: u32,
    calls: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready,
    /// For the lock of a lane.
    Awaits(u32),
    /// Until it is rung; or, if it leaves lanes to others, until nothing else happens.
    Asleep {
        leaves: bool,
    },
    /// Until what another thread says first.
    Held,
    Done,
}

struct Thread {
    state: State,
    /// The lanes that its bell is armed in, until it is rung.
    armed: u32,
    rung: bool,
}

struct World {
    random: u64,
    running: usize,
    threads: Vec<Thread>,
    lanes: Vec<Lane>,
    /// What is on its way: steps until it is there, lane, packet.
    flights: Vec<(u32, u32, Packet)>,
    /// What another thread of the program will end, with a lock.
    locals: Vec<(u32, Handle)>,
    locks: bool,
    /// Who has the process without a lock.
    inside: bool,
    next: u32,
    /// How seldom the others do something.
    pace: u32,
    steps: u32,
    /// Nobody can run, or nothing comes of it.
    lost: Option<&'static str>,
    met: BTreeMap<&'static str, u64>,
}

/// A thread that ends because the program is lost.
struct Lost;

impl World {
    fn below(&mut self, bound: u32) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % u64::from(bound.max(1))) as u32
    }

    fn met(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    /// Who runs next; `None`: nobody is left.
    fn choose(&mut self) -> Option<usize> {
        self.steps += 1;
        if self.steps > 400_000 {
            self.lost = self.lost.or(Some("nothing comes of it"));
        }
        if self.lost.is_some() {
            // Everybody ends.
            return (0..self.threads.len()).find(|&at| self.threads[at].state != State::Done);
        }
        loop {
            let can_run = |at: usize| match self.threads[at].state {
                State::Ready => true,
                State::Awaits(lane) => self.lanes[lane as usize].holder.is_none(),
                _ => false,
            };
            let ready: Vec<usize> = (0..self.threads.len()).filter(|&at| can_run(at)).collect();
            if !ready.is_empty() {
                // The others take their time, so that threads get to sleep.
                let others = usize::from(ready.last() == Some(&(self.threads.len() - 1)));
                let among = &ready[..ready.len() - others];
                let ready = if among.is_empty() || self.below(self.pace) == 0 { &ready[..] } else { among };
                let at = ready[self.below(ready.len() as u32) as usize];
                return Some(at);
            }
            if self.threads.iter().all(|thread| thread.state == State::Done) {
                return None;
            }
            let leaving = |at: &usize| self.threads[*at].state == State::Asleep { leaves: true };
            let leaving: Vec<usize> = (0..self.threads.len()).filter(leaving).collect();
            if leaving.is_empty() {
                self.lost = Some("everybody sleeps, and nobody will be woken");
                return self.choose();
            }
            let at = leaving[self.below(leaving.len() as u32) as usize];
            self.threads[at].state = State::Ready;
            self.met("takes over");
        }
    }

    fn ring(&mut self, lane: u32) {
        for thread in &mut self.threads {
            if thread.armed >> lane & 1 != 0 {
                (thread.armed, thread.rung) = (0, true);
                if matches!(thread.state, State::Asleep { .. }) {
                    thread.state = State::Ready;
                }
            }
        }
    }

    fn is_anyone_armed(&self, lane: u32) -> bool {
        self.threads.iter().any(|thread| thread.armed >> lane & 1 != 0)
    }

    fn end(&mut self, lane: u32, request: Handle) {
        let lane = &mut self.lanes[lane as usize];
        lane.ended.insert(request);
        lane.ended_watched |= lane.marked.remove(&request);
    }
}

struct Sim {
    world: Mutex<World>,
    turns: Vec<Condvar>,
}

/// One thread's view of the simulation.
#[derive(Clone, Copy)]
struct Here<'a> {
    sim: &'a Sim,
    me: usize,
}

impl<'a> Here<'a> {
    fn world(self) -> MutexGuard<'a, World> {
        self.sim.world.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Anybody may run now; returns when this thread does, with the world as it is then.
    fn step(self) -> MutexGuard<'a, World> {
        self.step_as(State::Ready)
    }

    fn step_as(self, state: State) -> MutexGuard<'a, World> {
        let mut world = self.world();
        if world.lost.is_some() {
            return self.give_up(world);
        }
        world.threads[self.me].state = state;
        let next = world.choose().unwrap_or(self.me);
        if next != self.me {
            world.running = next;
            self.sim.turns[next].notify_one();
            while world.running != self.me {
                world =
                    self.sim.turns[self.me].wait(world).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
        if world.lost.is_some() {
            return self.give_up(world);
        }
        world.threads[self.me].state = State::Ready;
        world
    }

    /// A thread that unwinds already goes on without steps.
    fn give_up(self, world: MutexGuard<'a, World>) -> MutexGuard<'a, World> {
        if std::thread::panicking() {
            return world;
        }
        drop(world);
        std::panic::resume_unwind(Box::new(Lost))
    }

    fn done(self) {
        let mut world = self.world();
        world.threads[self.me].state = State::Done;
        if let Some(next) = world.choose() {
            world.running = next;
            self.sim.turns[next].notify_one();
        }
    }

    fn lock(self, lane: u32) {
        let mut world = self.step();
        while world.lanes[lane as usize].holder.is_some() && world.lost.is_none() {
            drop(world);
            world = self.step_as(State::Awaits(lane));
        }
        world.lanes[lane as usize].holder = Some(self.me);
    }

    fn unlock(self, lane: u32, changed: bool) {
        let mut world = self.step();
        let at = &mut world.lanes[lane as usize];
        let watched = at.watchers + at.followers != 0;
        let rings = std::mem::take(&mut at.ended_watched) || changed && watched;
        at.holder = None;
        drop(world);
        if rings {
            let mut world = self.step();
            world.met("rings for another thread");
            world.ring(lane);
        }
    }

    /// Does something with a lane, as one who has it alone.
    fn with<R>(self, lane: u32, work: impl FnOnce() -> (bool, R)) -> R {
        let mut world = self.step();
        if !world.locks {
            world.inside = true;
            drop(world);
            let (_, result) = work();
            self.step().inside = false;
            return result;
        }
        drop(world);
        self.lock(lane);
        let (changed, result) = work();
        self.unlock(lane, changed);
        result
    }

    fn progress(self, lane: u32) -> bool {
        let mut moved = false;
        while let Some(packet) = { self.step().lanes[lane as usize].queue.pop_front() } {
            moved = true;
            let mut world = self.world();
            match packet {
                Packet::Ends(request) => world.end(lane, request),
                Packet::Asks(other, request) => {
                    let delay = world.below(40);
                    world.flights.push((delay, other, Packet::Ends(request)));
                }
            }
        }
        moved
    }

    /// One round of progress of a lane, and a look for a request, which is taken.
    fn turn(self, lane: u32, request: Handle) -> (bool, Option<()>) {
        self.with(lane, || {
            let moved = self.progress(lane);
            let found = self.world().lanes[lane as usize].ended.remove(&request).then_some(());
            (moved, (moved, found))
        })
    }

    /// A call of the program that blocks.
    fn block(self, lane: u32, request: Handle, is_request: bool) {
        self.world().lanes[lane as usize].calls += 1;
        let awaited = if is_request { Awaited::One(request) } else { Awaited::Something };
        let (moved, found) = self.turn(lane, request);
        if found.is_none() {
            until(self, lane, Wait::new("simulated", awaited), moved, || self.turn(lane, request));
        }
    }

    /// A call that blocks for something of the process that shows in another lane.
    fn block_for_process(self, lane: u32, request: Handle) {
        self.world().lanes[0].calls += 1;
        let turn = || {
            self.with(0, || {
                let moved = self.progress(0);
                self.lock(lane);
                let found = self.world().lanes[lane as usize].ended.remove(&request).then_some(());
                self.unlock(lane, false);
                (moved, (moved, found))
            })
        };
        let (moved, found) = turn();
        if found.is_none() {
            until(self, 0, Wait::new("simulated", Awaited::Something), moved, turn);
        }
    }

    fn try_progress(self, lane: u32) -> bool {
        let mut world = self.step();
        let at = &mut world.lanes[lane as usize];
        if at.holder.is_some() {
            return false;
        }
        at.holder = Some(self.me);
        drop(world);
        let moved = self.progress(lane);
        self.unlock(lane, moved);
        moved
    }
}

struct SimBell<'a> {
    here: Here<'a>,
    lanes: Cell<u32>,
}

impl Bell for SimBell<'_> {
    fn arm(&self) {
        let mut world = self.here.step();
        let thread = &mut world.threads[self.here.me];
        (thread.armed, thread.rung) = (self.lanes.get(), false);
    }

    fn sleep(&self, _: Duration) {
        unreachable!("sleeps as the surroundings say")
    }

    fn disarm(&self) {
        let mut world = self.here.step();
        world.threads[self.here.me].armed = 0;
    }
}

impl<'a> Around for Here<'a> {
    type Bell = SimBell<'a>;

    fn has_locks(self) -> bool {
        self.step().locks
    }

    fn is_crowded(self) -> bool {
        false
    }

    fn is_oversubscribed(self) -> bool {
        true
    }

    fn spins(self) -> u32 {
        1
    }

    fn open(self) -> u32 {
        (1 << self.world().lanes.len()) - 1
    }

    fn attend(self, lane: u32) {
        self.step().lanes[lane as usize].attendants += 1;
    }

    fn leave(self, lane: u32) {
        self.step().lanes[lane as usize].attendants -= 1;
    }

    fn attendance(self, lane: u32) -> (bool, u64) {
        let world = self.step();
        let lane = &world.lanes[lane as usize];
        (lane.attendants == 0, lane.calls)
    }

    fn bell(self) -> SimBell<'a> {
        SimBell { here: self, lanes: Cell::new(1) }
    }

    fn listen(self, bell: &SimBell<'a>, lanes: u32) {
        bell.lanes.set(lanes);
    }

    fn mark(self, home: u32, awaited: &Awaited<'_>) -> bool {
        self.with(home, || {
            let mut world = self.world();
            let lane = &mut world.lanes[home as usize];
            // One that has ended is seen by the next look.
            let requests = awaited.each_request(|request| {
                if !lane.ended.contains(&request) {
                    lane.marked.insert(request);
                }
            });
            (false, requests)
        })
    }

    fn watch(self, lane: u32) {
        self.step().lanes[lane as usize].watchers += 1;
    }

    fn unwatch(self, lane: u32) {
        self.step().lanes[lane as usize].watchers -= 1;
    }

    fn follow(self, lane: u32) {
        self.step().lanes[lane as usize].followers += 1;
    }

    fn unfollow(self, lane: u32) {
        self.step().lanes[lane as usize].followers -= 1;
    }

    fn help(self, lane: u32) -> bool {
        self.lock(lane);
        let moved = self.progress(lane);
        self.unlock(lane, moved);
        moved
    }

    fn progress_process(self) -> bool {
        self.try_progress(0)
    }

    fn progress_lanes(self, own: u32) -> bool {
        let lanes = self.world().lanes.len() as u32;
        (1..lanes)
            .filter(|&lane| lane != own && self.attendance(lane).0)
            .fold(false, |moved, lane| self.try_progress(lane) | moved)
    }

    fn sleep(self, bell: &SimBell<'a>, _: Duration, leaves: bool) {
        let mut world = self.step();
        if !world.threads[self.me].rung {
            world.met(if leaves { "sleeps and leaves lanes to others" } else { "sleeps" });
            drop(world);
            world = self.step_as(State::Asleep { leaves });
        }
        drop(world);
        bell.disarm();
    }

    fn before_sleep(self, _: &Wait<'_>) {}

    fn awake(self, _: &Wait<'_>) {}
}

/// What a thread of the program does.
fn calls(here: Here<'_>, second: bool) {
    if second {
        // The first one may sleep by then.
        let long = [0, 200, 1500][here.step().below(3) as usize];
        (0..long).for_each(|_| drop(here.step()));
        come_second(here);
    }
    let ops = 1 + here.step().below(4);
    for _ in 0..ops {
        let mut world = here.step();
        let open = if world.locks { world.lanes.len() as u32 } else { 1 };
        if world.below(4) == 0 {
            let long = world.below(60);
            world.met("computes");
            drop(world);
            (0..long).for_each(|_| drop(here.step()));
            continue;
        }
        let lane = world.below(open);
        world.next += 1;
        let request = request_handle(RequestId(world.next).in_lane(lane));
        let (delay, other, kind) = (world.below(80), world.below(open), world.below(4));
        match kind {
            0 => world.locals.push((lane, request)),
            1 => world.flights.push((delay, other, Packet::Asks(lane, request))),
            _ => world.flights.push((delay, lane, Packet::Ends(request))),
        }
        world.met(
            ["ended by a thread", "ended after an answer", "ended by a packet", "ended by a packet"]
                [kind as usize],
        );
        let (is_request, of_process) = (world.below(4) != 0, lane != 0 && world.below(3) == 0);
        drop(world);
        if of_process {
            here.block_for_process(lane, request);
        } else {
            here.block(lane, request, is_request);
        }
    }
}

/// The locks are switched on beside the first thread, as `alone::end` does.
fn come_second(here: Here<'_>) {
    let mut world = here.step();
    if world.locks {
        return;
    }
    world.met("a second thread comes");
    world.locks = true;
    while world.inside && world.lost.is_none() {
        drop(world);
        world = here.step();
    }
    drop(world);
    here.with(0, || (true, ()));
    let mut world = here.step();
    world.ring(0);
    for thread in &mut world.threads {
        if thread.state == State::Held {
            thread.state = State::Ready;
        }
    }
}

/// The other processes, and a thread of the program that ends what others wait for, until the threads that block are done.
fn others(here: Here<'_>) {
    loop {
        let mut world = here.step();
        let last = world.threads.len() - 1;
        for flight in &mut world.flights {
            flight.0 = flight.0.saturating_sub(1);
        }
        if let Some(at) = world.flights.iter().position(|flight| flight.0 == 0) {
            let (_, lane, packet) = world.flights.remove(at);
            world.lanes[lane as usize].queue.push_back(packet);
            drop(world);
            let mut world = here.step();
            if world.is_anyone_armed(lane) {
                world.met("rings for a packet");
                world.ring(lane);
            }
        } else if world.locks && !world.locals.is_empty() && world.below(20) == 0 {
            let (lane, request) = world.locals.remove(0);
            world.lanes[lane as usize].calls += 1;
            drop(world);
            here.with(lane, || {
                here.world().end(lane, request);
                (true, ())
            });
        } else if !world.locks && !world.locals.is_empty() && world.below(100) == 0 {
            // Nobody else may call, and perhaps nobody else comes: it comes from elsewhere.
            let (lane, request) = world.locals.remove(0);
            world.flights.push((10, lane, Packet::Ends(request)));
        } else if world.flights.is_empty() && world.locals.is_empty() {
            if world.threads[..last].iter().all(|thread| thread.state == State::Done) {
                return;
            }
            // Time goes on only when nobody else can run.
            let can_run = |thread: &Thread| matches!(thread.state, State::Ready | State::Awaits(_));
            if !world.threads[..last].iter().any(can_run) {
                let leaving: Vec<usize> = (0..last)
                    .filter(|&at| world.threads[at].state == State::Asleep { leaves: true })
                    .collect();
                if leaving.is_empty() {
                    world.lost = Some("everybody sleeps, and nobody will be woken");
                } else {
                    let at = leaving[world.below(leaving.len() as u32) as usize];
                    world.threads[at].state = State::Ready;
                    world.met("takes over");
                }
            }
        }
    }
}

/// What happened in one program, or why it is lost.
fn run(seed: u64) -> Result<BTreeMap<&'static str, u64>, String> {
    let mut world = World {
        random: seed.wrapping_mul(0x2545_f491_4f6c_dd1d),
        running: 0,
        threads: Vec::new(),
        lanes: Vec::new(),
        flights: Vec::new(),
        locals: Vec::new(),
        locks: true,
        inside: false,
        next: 0,
        pace: 1,
        steps: 0,
        lost: None,
        met: BTreeMap::new(),
    };
    let threads = 2 + world.below(3) as usize;
    let lanes = 1 + world.below(3);
    world.pace = [2, 10, 40][world.below(3) as usize];
    world.lanes.resize_with(lanes as usize, Lane::default);
    // Without locks the first thread calls, the second one comes, and those after it wait for that.
    world.locks = world.below(3) != 0;
    let held = |at: usize| !world.locks && at >= 2 && at < threads;
    world.threads = (0..=threads)
        .map(|at| Thread { state: if held(at) { State::Held } else { State::Ready }, armed: 0, rung: false })
        .collect();
    let turns = (0..=threads).map(|_| Condvar::new()).collect();
    let sim = Arc::new(Sim { world: Mutex::new(world), turns });
    std::thread::scope(|scope| {
        let spawn = |me: usize| {
            let sim = &sim;
            scope.spawn(move || {
                let here = Here { sim, me };
                // The first turn of each is given to it.
                let mut world = here.world();
                while world.running != me {
                    world = sim.turns[me].wait(world).unwrap_or_else(std::sync::PoisonError::into_inner);
                }
                drop(world);
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    if me == threads { others(here) } else { calls(here, me == 1) }
                }));
                here.done();
                if let Err(reason) = ended
                    && !reason.is::<Lost>()
                {
                    std::panic::resume_unwind(reason);
                }
            })
        };
        let all: Vec<_> = (0..=threads).map(spawn).collect();
        all.into_iter().for_each(|thread| thread.join().expect("no thread of the simulation panics"));
    });
    let world = sim.world.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match world.lost {
        None => Ok(world.met.clone()),
        Some(why) => {
            let states: Vec<String> =
                world.threads.iter().map(|thread| format!("{:?}", thread.state)).collect();
            Err(format!("seed {seed}, {threads} threads, {lanes} lanes: {why} ({})", states.join(", ")))
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn no_blocked_thread_is_forgotten() {
    let seeds = match number("WEFT_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("WEFT_FIRST_SEED").unwrap_or(0);
            first..first + number("WEFT_PROGRAMS").unwrap_or(300)
        }
    };
    let mut met = BTreeMap::new();
    let programs = seeds.end - seeds.start;
    for seed in seeds {
        match run(seed) {
            Ok(more) => more.into_iter().for_each(|(what, times)| *met.entry(what).or_insert(0) += times),
            Err(why) => panic!("{why}; WEFT_SEED={seed} replays it"),
        }
    }
    println!("{programs} programs: {met:?}");
    let expected =
        ["takes over", "rings for another thread", "rings for a packet", "sleeps", "a second thread comes"];
    if programs >= 100 {
        expected.iter().for_each(|what| assert!(met.contains_key(what), "it never happened: {what}"));
    }
}
