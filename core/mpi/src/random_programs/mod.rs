//! Random programs of ranks with several threads each, over a fabric that delays, refuses and denies, against a plain model
//! of matching.
//!
//! Threads are interleavings: each has its own sequence of calls, of which the blocking ones are states that are looked at
//! again and again, as the gate does. Every message says who sent it and as which, so the model needs no oracle: each is
//! received once and whole or cancelled, and no receive and no message was passed over by a younger one (section 3.5).
//! Beside them partitioned operations go on whose bytes say to which start they belong (chapter 4).
//! `WEFT_SEED=n` replays one seed; `WEFT_PROGRAMS=n` runs that many, from `WEFT_FIRST_SEED` on.

mod model;
mod operations;
mod pairs;

use crate::buffered::{Attached, Content, Owner};
use crate::process::Process;
use crate::request::{Local, engine_handle};
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
/// The world's channel, and another one.
const CONTEXTS: [ContextId; 2] = [ContextId::WORLD, ContextId(4)];
const ROOM: usize = 42_000;

/// Something under way that ends by itself or is waited for.
#[derive(Clone)]
enum Open {
    /// The memory lives as long as the send.
    Send(Handle, usize, Arc<Scratch>),
    Recv(Handle, usize),
    Message(MessageId, Wanted),
    Flush(Handle),
    /// A persistent operation, and the send or receive it is at while active.
    Port(Handle, Arc<Scratch>, Port, Option<usize>),
}

#[derive(Clone, Copy)]
enum Port {
    /// Destination, tag, mode.
    Send(u32, i32, SendMode),
    Recv(Wanted),
}

/// Where a thread is.
enum Thread {
    Free,
    /// Waits for its entry of the rank's list, by a number of its own.
    Waits(u64),
    Probes(Wanted, bool),
    Flushes(Content, bool),
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
    members: Vec<Member>,
    pairs: Vec<Pair>,
    /// Counts what happens.
    now: u64,
    /// How often something happened that does not happen by itself.
    met: BTreeMap<&'static str, u64>,
}

impl Program {
    fn new(seed: u64) -> Program {
        let ranks = 2 + (seed % 3) as u32;
        let (copy, full) = (seed % 5 < 2, if seed % 7 < 3 { 0.3 } else { 0.0 });
        let denial = if seed % 11 < 3 { 0.5 } else { 0.0 };
        let mut world = World::new(ranks)
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
            .build();
        let engines: Vec<_> = world.engines.drain(..).collect();
        let members = engines.into_iter().zip(0..).map(|(engine, rank)| {
            let mut process = Process::start().expect("nobody launched the tests");
            process.engine = engine;
            (process.job.rank, process.job.size) = (rank, ranks);
            process.start_world();
            let attached = Attached {
                address: 8,
                size: [60_000, 9000][seed as usize % 2],
                automatic: seed.is_multiple_of(4),
            };
            process.requests.buffers.attach(Owner::Process, attached).expect("none before");
            let threads = (0..1 + seed % 3).map(|_| Thread::Free).collect();
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
        Program { world, members, pairs: Vec::new(), now: 0, met: BTreeMap::new() }
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
        (self.below(2), source, tag)
    }

    /// One look of a thread that is in a blocking call.
    fn look(&mut self, rank: usize, thread: usize) {
        let member = &mut self.members[rank];
        match &member.threads[thread] {
            Thread::Free => {}
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
                    if let Some((message, status)) = member.process.engine.improbe(selector(wanted)) {
                        member.threads[thread] = Thread::Free;
                        self.matched(rank, message, status, wanted);
                    }
                } else if let Some(status) = member.process.engine.iprobe(selector(wanted)) {
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
        match self.below(30) {
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
            _ => (0..open).rev().for_each(|index| {
                self.complete(rank, index);
            }),
        }
    }

    fn progress(&mut self, turns: usize) {
        for _ in 0..turns {
            let rank = self.below(self.members.len());
            self.members[rank].process.progress();
        }
    }
}

fn run(seed: u64) -> BTreeMap<&'static str, u64> {
    let mut program = Program::new(seed);
    let steps = 20 + program.below(300);
    for _ in 0..steps {
        let rank = program.below(program.members.len());
        let thread = program.below(program.members[rank].threads.len());
        program.now += 1;
        program.act(rank, thread);
        let turns = program.below(12);
        program.progress(turns);
    }
    program.wind_up();
    program.check_order();
    let unused = RequestId::COMPLETE;
    assert!(program.members.iter().all(|member| member.process.is_done(engine_handle(unused))));
    program.met
}

/// What some of a hundred programs must have met, so that no kind of call is left out unnoticed.
const KINDS: [&str; 14] = [
    "buffer too small",
    "cancelled receive",
    "cancelled send",
    "early partition",
    "empty message",
    "freed receive",
    "freed send",
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
