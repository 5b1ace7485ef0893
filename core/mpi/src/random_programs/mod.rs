//! Random programs of ranks with several threads each, over a fabric that delays, refuses and denies, against a plain model
//! of matching.
//!
//! Threads are interleavings: each has its own sequence of calls, of which the blocking ones are states that are looked at
//! again and again, as the gate does. Every message says who sent it and as which, so the model needs no oracle: each is
//! received once and whole or cancelled, and no receive and no message was passed over by a younger one (section 3.5).
//! Beside them partitioned operations go on whose bytes say to which start they belong (chapter 4). With several threads some
//! channels live in lanes, each over a fabric of its own, and calls that complete several requests list requests of all of
//! them, among null, inactive and generalized ones (section 3.7.5).
//! `WEFT_SEED=n` replays one seed; `WEFT_PROGRAMS=n` runs that many, from `WEFT_FIRST_SEED` on.

mod completions;
mod model;
mod operations;
mod pairs;

use crate::buffered::{Attached, Content, Owner};
use crate::process::Process;
use crate::request::{Local, engine_handle};
use completions::{Form, Listed};
use model::{Received, Sent, Wanted};
use operations::selector;
use pairs::Pair;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_datatype::Scratch;
use weft_engine::world::World;
use weft_engine::{Clock, MessageId, RequestId, SendMode};
use weft_types::{ContextId, Handle, abi};

const COMM: Handle = Handle(abi::MPI_COMM_WORLD);
/// The world's channel, another one, and those of communicators in lanes.
const CONTEXTS: [ContextId; 4] = [ContextId::WORLD, ContextId(4), ContextId(6), ContextId(8)];
/// The lane of each channel.
const LANES: [u32; CONTEXTS.len()] = [0, 0, 1, 2];
/// Channels of lane 0, which are all that a process of one thread has.
const FIRST_LANE: usize = 2;
const ROOM: usize = 42_000;

/// Something under way that ends by itself or is waited for.
#[derive(Clone)]
enum Open {
    /// The memory lives as long as the send.
    Send(Handle, usize, Arc<Scratch>),
    Recv(Handle, usize),
    Message(MessageId, Wanted),
    Flush(Handle),
    /// A generalized request, and whether it was told to be complete.
    Generalized(Handle, bool),
    /// A persistent operation, and the send or receive it is at while active.
    Port(Handle, Arc<Scratch>, Port, Option<usize>),
}

#[derive(Clone, Copy)]
enum Port {
    /// Channel, destination, tag, mode.
    Send(usize, u32, i32, SendMode),
    Recv(Wanted),
}

/// Where a thread is.
enum Thread {
    Free,
    /// Waits for its entry of the rank's list, by a number of its own.
    Waits(u64),
    Probes(Wanted, bool),
    Flushes(Content, bool),
    /// Waits for one, some or all of a list.
    Completes(Form, Vec<Listed>),
}

struct Member {
    process: Process,
    threads: Vec<Thread>,
    open: Vec<(u64, Open)>,
    sends: Vec<Sent>,
    recvs: Vec<Received>,
    /// The memory of sends whose requests were freed before they had ended.
    freed: Vec<Arc<Scratch>>,
    /// Receives whose requests were freed before they had ended.
    freed_recvs: Vec<(Handle, usize)>,
    next: u64,
}

struct Program {
    world: World,
    /// The fabrics of the lanes, which must outlive their engines' work.
    lanes: Vec<World>,
    /// How many of the channels are used.
    contexts: usize,
    members: Vec<Member>,
    pairs: Vec<Pair>,
    /// Counts what happens.
    now: u64,
    /// How often something happened that does not happen by itself.
    met: BTreeMap<&'static str, u64>,
}

impl Program {
    /// One lane of all ranks.
    fn world(seed: u64, ranks: u32) -> World {
        let (copy, full) = (seed % 5 < 2, if seed % 7 < 3 { 0.3 } else { 0.0 });
        let denial = if seed % 11 < 3 { 0.5 } else { 0.0 };
        World::new(ranks)
            .seed(seed)
            .full(full)
            .fabric(|sim| {
                sim.max_copy = 256;
                sim.depth = 2 + (seed % 9) as usize;
                sim.delay = 25;
                sim.single_copy = copy;
                sim.denial = denial;
            })
            .engines(|config| {
                config.eager_limit = 2048;
                config.eager_budget_per_sender = 6000;
                (config.shares_from, config.clock) = (256, Clock::Drawn);
                config.shares_asleep_from = 600;
                config.oversubscribed = config.size.is_multiple_of(2);
                config.announcements_per_sender = [64, 1, 3][config.size as usize % 3];
            })
            .build()
    }

    fn new(seed: u64) -> Program {
        let ranks = 2 + (seed % 3) as u32;
        let mut world = Program::world(seed, ranks);
        let threads = 1 + seed % 3;
        let lanes = if threads > 1 { 1..3 } else { 1..1 };
        let mut lanes: Vec<World> = lanes.map(|lane| Program::world(seed ^ lane << 40, ranks)).collect();
        let engines: Vec<_> = world.engines.drain(..).collect();
        let members = engines.into_iter().zip(0..).map(|(engine, rank)| {
            let mut process = Process::start().expect("nobody launched the tests");
            process.engine = engine;
            (process.job.rank, process.job.size) = (rank, ranks);
            process.start_world();
            for (world, lane) in lanes.iter_mut().zip(1..) {
                process.lanes.adopt(lane, world.engines.remove(0));
            }
            let attached = Attached {
                address: 8,
                size: [60_000, 9000][seed as usize % 2],
                automatic: seed.is_multiple_of(4),
            };
            process.requests.buffers.attach(Owner::Process, attached).expect("none before");
            let threads = (0..threads).map(|_| Thread::Free).collect();
            Member {
                process,
                threads,
                open: Vec::new(),
                sends: Vec::new(),
                recvs: Vec::new(),
                freed: Vec::new(),
                freed_recvs: Vec::new(),
                next: 0,
            }
        });
        let members = members.collect();
        let contexts = if lanes.is_empty() { FIRST_LANE } else { CONTEXTS.len() };
        Program { world, lanes, contexts, members, pairs: Vec::new(), now: 0, met: BTreeMap::new() }
    }

    fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    fn below(&mut self, bound: usize) -> usize {
        self.world.random.below(bound as u64) as usize
    }

    fn wanted(&mut self) -> Wanted {
        let ranks = self.members.len();
        let source = (self.below(10) < 6).then(|| self.below(ranks) as u32);
        let tag = (self.below(10) < 6).then(|| self.below(3) as i32);
        (self.below(self.contexts), source, tag)
    }

    /// One look of a thread that is in a blocking call.
    fn look(&mut self, rank: usize, thread: usize) {
        let member = &mut self.members[rank];
        match &member.threads[thread] {
            Thread::Free => {}
            Thread::Completes(form, list) => {
                let (form, list) = (*form, list.clone());
                if self.complete_several(rank, form, &list) {
                    self.members[rank].threads[thread] = Thread::Free;
                }
            }
            &Thread::Waits(key) => {
                match member.open.iter().position(|(other, _)| *other == key) {
                    // Another thread has completed it meanwhile, which real programs must not do.
                    None => member.threads[thread] = Thread::Free,
                    Some(index) => {
                        if self.complete(rank, index) {
                            self.members[rank].threads[thread] = Thread::Free;
                        }
                    }
                }
            }
            &Thread::Probes(wanted, matched) => {
                if matched {
                    if let Some((message, status)) =
                        member.process.on_lane(LANES[wanted.0], |engine| engine.improbe(selector(wanted)))
                    {
                        member.threads[thread] = Thread::Free;
                        self.matched(rank, message, status, wanted);
                    }
                } else if let Some(status) =
                    member.process.on_lane(LANES[wanted.0], |engine| engine.iprobe(selector(wanted)))
                {
                    member.threads[thread] = Thread::Free;
                    self.receive(rank, (wanted.0, Some(status.source.0), Some(status.tag.0)), Some(thread));
                }
            }
            &Thread::Flushes(content, detach) => {
                let process = &mut member.process;
                if process.requests.buffers.is_flushed(&process.engine, content) {
                    member.threads[thread] = Thread::Free;
                    let buffers = &mut process.requests.buffers;
                    if detach && let Some(attached) = buffers.detach(Owner::Process) {
                        buffers.attach(Owner::Process, attached).expect("just detached");
                    }
                }
            }
        }
    }

    fn act(&mut self, rank: usize, thread: usize) {
        if !matches!(self.members[rank].threads[thread], Thread::Free) {
            return self.look(rank, thread);
        }
        self.look_after_freed(rank);
        let open = self.members[rank].open.len();
        let some = self.below(open.max(1));
        match self.below(36) {
            0..3 => self.send(rank, None),
            3 => self.send(rank, Some(thread)),
            4..7 => {
                let wanted = self.wanted();
                self.receive(rank, wanted, None);
            }
            7 => {
                let wanted = self.wanted();
                self.receive(rank, wanted, Some(thread));
            }
            8 => self.members[rank].threads[thread] = Thread::Probes(self.wanted(), false),
            9 => self.members[rank].threads[thread] = Thread::Probes(self.wanted(), true),
            10 | 11 => self.buffered(rank),
            12 => self.new_port(rank),
            13 | 14 if open > 0 => self.start_port(rank, some),
            15 if open > 0 => self.cancel(rank, some),
            16 if open > 0 => self.take_message(rank, some),
            17 => {
                let process = &mut self.members[rank].process;
                let content = process.requests.buffers.content(Owner::Process).expect("attached");
                if self.below(2) == 0 {
                    let process = &mut self.members[rank].process;
                    let handle = process.requests.insert(Local::Flush(content)).expect("room");
                    self.keep(rank, Open::Flush(handle));
                } else {
                    let detach = self.below(2) == 0;
                    self.members[rank].threads[thread] = Thread::Flushes(content, detach);
                }
            }
            18 if open > 0 => self.free(rank, some),
            19 => self.probe(rank),
            20 => self.new_pair(rank),
            21..28 => self.act_on_pair(rank),
            28..32 => self.call_completion(rank, thread),
            32 => self.new_generalized(rank),
            33 => self.tell_generalized(rank, some),
            _ => (0..open).rev().for_each(|index| {
                self.complete(rank, index);
            }),
        }
    }

    /// A round of progress of one lane of a rank, or of all.
    fn move_on(&mut self, rank: usize, only: Option<usize>) -> bool {
        let process = &mut self.members[rank].process;
        let mut moved = only.is_none_or(|lane| lane == 0) && process.progress();
        for (lane, other) in process.lanes.iter() {
            moved |= only.is_none_or(|only| only == lane as usize) && other.help_silently();
        }
        moved
    }

    fn progress(&mut self, turns: usize) {
        for _ in 0..turns {
            let rank = self.below(self.members.len());
            let lane = self.below(1 + self.lanes.len());
            self.move_on(rank, Some(lane));
        }
    }
}

fn run(seed: u64) -> BTreeMap<&'static str, u64> {
    let mut program = Program::new(seed);
    // Every thread has a program of its own.
    let steps = program.members[0].threads.len() * (20 + program.below(300));
    for _ in 0..steps {
        let rank = program.below(program.members.len());
        let thread = program.below(program.members[rank].threads.len());
        program.now += 1;
        program.act(rank, thread);
        let turns = program.below(12 * (1 + program.lanes.len()));
        program.progress(turns);
    }
    program.wind_up();
    program.check_order();
    let unused = RequestId::COMPLETE;
    assert!(program.members.iter().all(|member| member.process.is_done(engine_handle(unused))));
    program.met
}

/// What some of a hundred programs must have met, so that no kind of call is left out unnoticed.
const KINDS: [&str; 18] = [
    "buffer too small",
    "cancelled receive",
    "cancelled send",
    "early partition",
    "empty message",
    "freed receive",
    "freed send",
    "generalized request",
    "list of one lane",
    "list of several lanes",
    "list without active ones",
    "matched probe",
    "partitioned start",
    "persistent ready send",
    "ready send",
    "short message",
    "synchronous send",
    "truncated receive",
];

/// How to see the failure of a seed again.
fn replay(seed: u64) -> String {
    format!("WEFT_SEED={seed} cargo test -p weft --lib random_programs")
}

#[test]
fn random_programs_of_threads_match_as_the_model_says() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let one = number("WEFT_SEED");
    let first = one.or_else(|| number("WEFT_FIRST_SEED")).unwrap_or(0);
    let count = if one.is_some() { 1 } else { number("WEFT_PROGRAMS").unwrap_or(150) };
    let mut met = BTreeMap::<&str, u64>::new();
    for seed in first..first + count {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(counts) => counts.into_iter().for_each(|(what, count)| *met.entry(what).or_default() += count),
            Err(panic) => {
                eprintln!("the program of seed {seed} failed; this replays it: {}", replay(seed));
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{count} programs from seed {first} on met {met:?}");
    assert!(count < 100 || met.keys().eq(&KINDS), "of {KINDS:?} they met {met:?}");
}
