//! Blocked calls of several threads in a simulated process: how they wait, help, sleep, wake each other and take over from one another,
//! by the code that does so in a real one ([`super::blocked`]), under a scheduler that decides by a seed who runs next at every step.
//!
//! Simulated are the surroundings ([`super::around::Around`]; `surroundings.rs`): lanes with a lock, a queue of packets and what is under way in them, and
//! the bell (`world.rs`). They keep the rules at the top of [`super`]: who gives a lock back rings for marked requests that ended and for
//! watchers. Threads of the program (`programs.rs`) block in lanes of their own choice, compute, and end; what they wait for ends by a packet, by a packet that
//! another one in another lane has to be answered for, or by another thread. In some programs there are no locks until a second thread comes.
//!
//! A program is lost where nobody can run, or nothing comes of it:
//! * A sleep ends by a ring; only a thread that leaves a lane to others wakes by itself, when nothing else can happen, and what it waits for
//!   itself must not be there then. So a lost wake-up, or a lane that nobody takes over, is found.
//! * A thread may stay outside MPI until its question is answered, as long as another one blocks: that one has to.
//! * Who gives a lock back has rung by the next step for what ended under it: nobody sleeps whose request has ended, also where something that
//!   comes later would wake him.
//! * Packets that nobody waits for may come without an end in the lane of a call whose question lies in another one.
//! * One round of progress takes few packets: whoever moved something looks again before it sleeps.
//! * When a call is over its bell is not armed, and in the end nobody is counted any more among those who attend, watch or follow.
//!
//! Every rule of `blocked.rs` was broken in turn. What is not found costs time and nothing else (whom a call helps in the middle of traffic has two
//! ways that stand in for each other, lanes that are listened to although others look after them, who is woken without need), but for one: a call that
//! sleeps by the rules for one thread although a second one has come. It takes a second one that comes between two steps of the first.
//!
//! `WEFT_SEED=n` replays one seed; `WEFT_PROGRAMS=n` runs that many, from `WEFT_FIRST_SEED` on.

mod programs;
mod surroundings;
mod world;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Condvar, Mutex};

use self::programs::{calls, others};
use self::surroundings::{Here, Sim};
use self::world::{Lane, Lost, State, Thread, World};

/// What happened in one program, or why it is lost.
fn run(seed: u64) -> Result<BTreeMap<&'static str, u64>, String> {
    let mut world = World {
        random: seed.wrapping_mul(0x2545_f491_4f6c_dd1d),
        running: 0,
        threads: Vec::new(),
        lanes: Vec::new(),
        flights: Vec::new(),
        asked: HashSet::new(),
        noise: None,
        ringing: 0,
        locals: Vec::new(),
        locks: true,
        inside: false,
        next: 0,
        pace: 1,
        run: 1,
        steps: 0,
        lost: None,
        met: BTreeMap::new(),
    };
    let threads = 2 + world.below(3) as usize;
    let lanes = 1 + world.below(3);
    world.pace = [2, 10, 40][world.below(3) as usize];
    world.run = [1, 1, 4, 16][world.below(4) as usize];
    world.lanes.resize_with(lanes as usize, Lane::default);
    // Without locks the first thread calls, the second one comes, and those after it wait for that.
    world.locks = world.below(3) != 0;
    let held = |at: usize| !world.locks && at >= 2 && at < threads;
    world.threads = (0..=threads)
        .map(|at| Thread {
            state: if held(at) { State::Held } else { State::Ready },
            awaits: None,
            arming: false,
            armed: 0,
            rung: false,
        })
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
    match world.lost.or(world.leftovers()) {
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
    let expected = [
        "takes over",
        "rings for another thread",
        "rings for a packet",
        "sleeps",
        "a second thread comes",
        "outside MPI until others have answered",
        "noise",
    ];
    if programs >= 100 {
        expected.iter().for_each(|what| assert!(met.contains_key(what), "it never happened: {what}"));
    }
}
