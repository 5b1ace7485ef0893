//! What the threads of a simulated program do, and what comes from elsewhere.

use weft::lanes::request_handle;
use weft_engine::RequestId;

use super::surroundings::Here;
use super::world::{Packet, State};

/// What a thread of the program does.
pub(super) fn calls(here: Here<'_>, second: bool) {
    if second {
        // The first one may sleep by then.
        let long = [0, 200, 1500][here.step().below(3) as usize];
        (0..long).for_each(|_| drop(here.step()));
        // Best of all while it makes up its mind to sleep.
        if here.step().below(2) == 0 {
            (0..2000).any(|_| here.step().threads[0].arming);
        }
        come_second(here);
    }
    let ops = 1 + here.step().below(4);
    for op in 0..ops {
        let mut world = here.step();
        // What a second thread finds, and does as soon as it has come, matters most.
        let first = op == 0 && world.below(2) == 0;
        let comes = first && second;
        let alone = first && !world.locks;
        let open = if world.locks { world.lanes.len() as u32 } else { 1 };
        if !first && world.below(4) == 0 {
            let long = world.below(60);
            world.met("computes");
            drop(world);
            (0..long).for_each(|_| drop(here.step()));
            continue;
        }
        let lane = world.below(open);
        world.next += 1;
        let request = request_handle(RequestId(world.next).in_lane(lane));
        let (delay, other, kind) = (world.below(80), world.below(open), world.below(5));
        let kind = if alone {
            0
        } else if comes {
            1
        } else {
            kind
        };
        match kind {
            0 => world.locals.push((lane, request)),
            1 | 2 => {
                world.asked.insert(request);
                world.flights.push((delay, other, Packet::Asks(lane, request)));
            }
            _ => world.flights.push((delay, lane, Packet::Ends(request))),
        }
        world.met(
            [
                "ended by a thread",
                "ended after an answer",
                "ended after an answer",
                "ended by a packet",
                "ended by a packet",
            ][kind as usize],
        );
        let (is_request, of_process) = (world.below(4) != 0, lane != 0 && world.below(3) == 0);
        let home = if of_process { 0 } else { lane };
        // While a request is under way its thread may be outside MPI, or have its hands full with what it does not wait for.
        if kind == 1 && (comes || world.below(2) == 0) {
            world.met("outside MPI until others have answered");
            drop(world);
            drop(here.step_as(State::Outside(request)));
        } else if kind == 2 && home != other && world.below(2) == 0 {
            world.noise = world.noise.or(Some((home, request)));
            drop(world);
        } else {
            drop(world);
        }
        if of_process {
            here.block_for_process(lane, request, is_request);
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
    world.ringing += 1;
    while world.inside && world.lost.is_none() {
        drop(world);
        world = here.step();
    }
    drop(world);
    here.with(0, || (true, ()));
    let mut world = here.step();
    world.ring(0);
    world.ringing -= 1;
    for thread in &mut world.threads {
        if thread.state == State::Held {
            thread.state = State::Ready;
        }
    }
}

/// The other processes, and a thread of the program that ends what others wait for, until the threads that block are done.
pub(super) fn others(here: Here<'_>) {
    loop {
        let mut world = here.step();
        // A thread ends nothing while it is outside.
        let locals = !world.locals.is_empty() && !world.is_anyone_outside();
        let last = world.threads.len() - 1;
        for flight in &mut world.flights {
            flight.0 = flight.0.saturating_sub(1);
        }
        if let Some(at) = world.flights.iter().position(|flight| flight.0 == 0) {
            let (_, lane, packet) = world.flights.remove(at);
            // It may come behind more than one look takes.
            let before = if world.below(4) == 0 { world.below(12) } else { 0 };
            let queue = &mut world.lanes[lane as usize].queue;
            queue.extend((0..before).map(|_| Packet::Noise));
            queue.push_back(packet);
            drop(world);
            let mut world = here.step();
            if world.is_anyone_armed(lane) {
                world.met("rings for a packet");
                world.ring(lane);
            }
        } else if let Some((lane, _)) = world.noise.filter(|(lane, request)| {
            world.asked.contains(request) && world.lanes[*lane as usize].queue.is_empty()
        }) {
            world.lanes[lane as usize].queue.push_back(Packet::Noise);
            drop(world);
            here.step().ring(lane);
        } else if world.locks && locals && world.below(20) == 0 {
            let (lane, request) = world.locals.remove(0);
            world.lanes[lane as usize].calls += 1;
            drop(world);
            here.with(lane, || {
                here.world().end(lane, request);
                (true, ())
            });
        } else if !world.locks && locals && world.below(100) == 0 {
            // Nobody else may call, and perhaps nobody else comes: it comes from elsewhere.
            let (lane, request) = world.locals.remove(0);
            world.flights.push((10, lane, Packet::Ends(request)));
        } else if world.flights.is_empty() && !locals {
            if world.threads[..last].iter().all(|thread| thread.state == State::Done) {
                return;
            }
            // Time goes on only when nobody else can run.
            let can_run = |at| world.can_run(at) || matches!(world.threads[at].state, State::Awaits(_));
            if !(0..last).any(can_run) {
                world.take_over();
            }
        }
    }
}
