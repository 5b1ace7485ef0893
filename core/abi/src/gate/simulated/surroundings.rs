//! One thread's view of the simulated process: what a blocked call has around it.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use weft::lanes::lane_of;
use weft_api::Bell;
use weft_types::{Handle, HandleKind};

use super::super::around::Around;
use super::super::blocked::until;
use super::world::{Lost, Packet, State, World};
use crate::watch::{Awaited, Wait};

pub(super) struct Sim {
    pub(super) world: Mutex<World>,
    pub(super) turns: Vec<Condvar>,
}

/// One thread's view of the simulation.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    pub(super) sim: &'a Sim,
    pub(super) me: usize,
}

impl<'a> Here<'a> {
    pub(super) fn world(self) -> MutexGuard<'a, World> {
        self.sim.world.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Anybody may run now; returns when this thread does, with the world as it is then.
    pub(super) fn step(self) -> MutexGuard<'a, World> {
        self.step_as(State::Ready)
    }

    pub(super) fn step_as(self, state: State) -> MutexGuard<'a, World> {
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

    pub(super) fn done(self) {
        let mut world = self.world();
        world.threads[self.me].state = State::Done;
        if let Some(next) = world.choose() {
            world.running = next;
            self.sim.turns[next].notify_one();
        }
    }

    pub(super) fn lock(self, lane: u32) {
        let mut world = self.step();
        while world.lanes[lane as usize].holder.is_some() && world.lost.is_none() {
            drop(world);
            world = self.step_as(State::Awaits(lane));
        }
        world.lanes[lane as usize].holder = Some(self.me);
    }

    pub(super) fn unlock(self, lane: u32, changed: bool) {
        let mut world = self.step();
        let at = &mut world.lanes[lane as usize];
        let watched = at.watchers + at.followers != 0;
        let rings = std::mem::take(&mut at.ended_watched) || changed && watched;
        at.holder = None;
        world.ringing += u32::from(rings);
        drop(world);
        if rings {
            let mut world = self.step();
            world.met("rings for another thread");
            world.ring(lane);
            world.ringing -= 1;
        }
        self.world().look_for_forgotten();
    }

    /// Does something with a lane, as one who has it alone.
    pub(super) fn with<R>(self, lane: u32, work: impl FnOnce() -> (bool, R)) -> R {
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
        // As in a real one, what is left over when others get their turn is for the next look.
        let most = 1 + self.world().below(3);
        for _ in 0..most {
            let Some(packet) = ({ self.step().lanes[lane as usize].queue.pop_front() }) else { break };
            moved = true;
            let mut world = self.world();
            match packet {
                Packet::Ends(request) => world.end(lane, request),
                Packet::Asks(other, request) => {
                    world.asked.remove(&request);
                    let delay = world.below(40);
                    world.flights.push((delay, other, Packet::Ends(request)));
                }
                Packet::Noise => world.met("noise"),
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
    pub(super) fn block(self, lane: u32, request: Handle, is_request: bool) {
        let awaited = if is_request { Awaited::One(request) } else { Awaited::Something };
        self.block_at(lane, (lane, request), awaited, || self.turn(lane, request));
    }

    /// A call that blocks for something of the process, or for a request of another lane through the process.
    pub(super) fn block_for_process(self, lane: u32, request: Handle, is_request: bool) {
        let awaited = if is_request { Awaited::One(request) } else { Awaited::Something };
        self.block_at(0, (lane, request), awaited, || {
            self.with(0, || {
                let moved = self.progress(0);
                self.lock(lane);
                let found = self.world().lanes[lane as usize].ended.remove(&request).then_some(());
                self.unlock(lane, false);
                (moved, (moved, found))
            })
        });
    }

    fn block_at(
        self,
        home: u32,
        awaits: (u32, Handle),
        awaited: Awaited<'_>,
        turn: impl Fn() -> (bool, Option<()>),
    ) {
        let mut world = self.world();
        world.lanes[home as usize].calls += 1;
        world.threads[self.me].awaits = Some(awaits);
        drop(world);
        let (moved, found) = turn();
        if found.is_none() {
            until(self, home, Wait::new("simulated", awaited), moved, turn);
        }
        let mut world = self.world();
        world.threads[self.me].awaits = None;
        if world.threads[self.me].armed != 0 {
            world.lost = world.lost.or(Some("a bell stays armed that nobody sleeps on"));
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

pub(in crate::gate) struct SimBell<'a> {
    here: Here<'a>,
    lanes: Cell<u32>,
}

impl Bell for SimBell<'_> {
    fn arm(&self) {
        self.here.world().threads[self.here.me].arming = true;
        let mut world = self.here.step();
        let thread = &mut world.threads[self.here.me];
        (thread.armed, thread.rung, thread.arming) = (self.lanes.get(), false, false);
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
            let requests = awaited.each_request(|request| {
                let lane =
                    if request.kind_bits() == HandleKind::LaneRequest as u32 { lane_of(request) } else { 0 };
                if lane != home {
                    self.lock(lane);
                }
                let mut world = self.world();
                let at = &mut world.lanes[lane as usize];
                // One that has ended is seen by the next look.
                if !at.ended.contains(&request) {
                    at.marked.insert(request);
                }
                drop(world);
                if lane != home {
                    self.unlock(lane, false);
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
