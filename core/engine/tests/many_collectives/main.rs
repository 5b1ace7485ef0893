//! Random programs in simulated worlds: many collectives under way at once, on several communicators of some of the ranks and
//! on an intercommunicator, nonblocking and persistent ones, mixed with messages of the same communicators, at ranks of
//! different speed, over a fabric that refuses at times. Everything is compared with what the operations are defined to give.
//! Covers of `musts.md`, chapter 6: isolation (6.1), many outstanding in any order, mixed with messages (6.12), persistent ones
//! started in another order at each rank (6.13), intercommunicators (6.2.3), some of them run by the devices
//! (`weft_api::offload`).
//!
//! `WEFT_SEED=n` replays one seed; `WEFT_SEEDS=n` runs that many, `WEFT_PROGRAMS_OF_COLLECTIVES=n` if nothing is said of seeds.

mod actions;

use actions::{Action, Compose, Kind, Part, content, int, memory, pair, write};
use std::sync::Arc;
use weft_coll::{Model, Sides};
use weft_datatype::{Memory, PredefinedOp};
use weft_engine::world::World;
use weft_engine::{
    Arguments, Channel, Engine, Envelope, KeptRun, Operation, PeerMap, Reduction, RequestId, ScheduleRun,
    Selector, SendMode, Started,
};
use weft_sim::DeviceConfig;
use weft_types::{ContextId, PeerId, Rank, Tag};

/// The world's generator, with what these programs draw from it.
struct Random(weft_sim::Random);

impl Random {
    fn new(seed: u64) -> Random {
        Random(weft_sim::Random::new(seed))
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.0.below(u64::from(limit.max(1))) as u32
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

/// A communicator: its processes in the order of their numbers; of an intercommunicator the first group's come first.
#[derive(Clone, Debug)]
struct Comm {
    context: ContextId,
    members: Vec<u32>,
    first: Option<u32>,
}

impl PeerMap for Comm {
    fn peer(&self, rank: Rank) -> PeerId {
        PeerId(self.members[rank.0 as usize])
    }

    fn contains(&self, process: PeerId) -> bool {
        self.members.contains(&process.0)
    }
}

impl Comm {
    fn number(&self, process: u32) -> Option<u32> {
        self.members.iter().position(|&member| member == process).map(|number| number as u32)
    }

    fn sides(&self, number: u32) -> Option<Sides> {
        let first = self.first?;
        let second = self.members.len() as u32 - first;
        Some(match number < first {
            true => Sides { rank: number, local: first, remote: second, is_first: true },
            false => Sides { rank: number - first, local: second, remote: first, is_first: false },
        })
    }

    /// Numbers of those whose data reach `number`, in rank order.
    fn givers(&self, number: u32) -> Vec<u32> {
        let size = self.members.len() as u32;
        match self.first {
            None => (0..size).collect(),
            Some(first) if number < first => (first..size).collect(),
            Some(first) => (0..first).collect(),
        }
    }
}

/// A request under way and how to check it.
struct Open {
    action: usize,
    requests: Vec<RequestId>,
    recv: Memory,
    wanted: Option<Vec<i32>>,
}

/// A persistent collective of one rank.
struct Kept {
    action: usize,
    run: KeptRun,
    send: Memory,
    recv: Memory,
}

/// One rank's program: what it does next.
struct Process {
    rank: u32,
    round: u32,
    /// Actions of this round that are still to be started, last first.
    to_start: Vec<usize>,
    open: Vec<Open>,
    kept: Vec<Kept>,
    sequences: Vec<u32>,
    random: Random,
}

struct Program {
    comms: Vec<Arc<Comm>>,
    actions: Vec<Action>,
    model: Model,
    rounds: u32,
}

impl Program {
    fn random(random: &mut Random, processes: u32) -> Program {
        let everybody: Vec<u32> = (0..processes).collect();
        let mut comms = vec![Comm { context: ContextId(0), members: everybody.clone(), first: None }];
        for index in 0..2 {
            let mut members = everybody.clone();
            random.shuffle(&mut members);
            members.truncate(1 + random.below(processes) as usize);
            comms.push(Comm { context: ContextId(4 + 2 * index), members, first: None });
        }
        if processes > 1 {
            let mut members = everybody.clone();
            random.shuffle(&mut members);
            members.truncate(2 + random.below(processes - 1) as usize);
            let first = Some(1 + random.below(members.len() as u32 - 1));
            comms.push(Comm { context: ContextId(8), members, first });
        }
        const KINDS: [Kind; 12] = [
            Kind::Barrier,
            Kind::Bcast,
            Kind::Gather,
            Kind::Scatter,
            Kind::Allgather,
            Kind::Alltoall,
            Kind::Reduce,
            Kind::Allreduce,
            Kind::ReduceScatter,
            Kind::Message,
            Kind::Scan,
            Kind::Exscan,
        ];
        let number = 4 + random.below(24);
        let actions = (0..number).map(|_| {
            let comm = random.below(comms.len() as u32) as usize;
            let size = comms[comm].members.len() as u32;
            // No scans on intercommunicators, and messages there have other ranks.
            let kinds = if comms[comm].first.is_some() { 9 } else { 12 };
            let kind = KINDS[random.below(kinds) as usize];
            let count = [0, 1, 3, 200, 3000][random.below(5) as usize];
            let persistent = kind != Kind::Message && random.below(3) == 0;
            let (root, to) = (random.below(size), random.below(size));
            Action { kind, comm, root, to, count, ordered: random.below(2) == 0, persistent }
        });
        let actions = actions.collect();
        let model = Model { segment: Some(500), window: Some(2), ..Model::default() };
        Program { comms: comms.into_iter().map(Arc::new).collect(), actions, model, rounds: 3 }
    }

    fn bind(
        &self,
        action: &Action,
        part: &Part,
        number: u32,
        sequence: u32,
    ) -> (ScheduleRun, Memory, Memory) {
        let comm = &self.comms[action.comm];
        let reduces = matches!(
            action.kind,
            Kind::Reduce | Kind::Allreduce | Kind::ReduceScatter | Kind::Scan | Kind::Exscan
        );
        let datatype = if reduces && action.ordered { pair() } else { int() };
        // The vectors are counted in pairs; a sum of pairs is one of twice as many ints, which the schedule need not know.
        let reduction = reduces.then(|| match action.ordered {
            true => Reduction { datatype: pair(), operation: Operation::User(Arc::new(Compose)), name: "" },
            false => {
                let kernel = PredefinedOp::Sum.kernel(&int()).unwrap();
                Reduction { datatype: int(), operation: Operation::Predefined(kernel), name: "" }
            }
        });
        let (send, recv) = (memory(&part.send, &datatype), memory(&part.recv, &datatype));
        let channel = Channel {
            context: comm.context.collective(),
            rank: Rank(number),
            peers: Arc::clone(comm) as Arc<dyn PeerMap>,
            sequence,
            persistent: action.persistent,
            group: None,
        };
        let none =
            |memory: &Memory, ints: &[i32]| if ints.is_empty() { Memory::none() } else { memory.clone() };
        let arguments = Arguments::new(none(&send, &part.send), none(&recv, &part.recv));
        let schedule = part.schedule.clone().expect("a collective");
        let run = ScheduleRun::new(Arc::new(schedule), arguments, reduction, channel).unwrap();
        (run, send, recv)
    }

    fn process(&self, rank: u32, seed: u64) -> Process {
        let mut kept = Vec::new();
        let mut sequences = vec![0; self.comms.len()];
        for (index, action) in self.actions.iter().enumerate().filter(|(_, action)| action.persistent) {
            let Some(number) = self.comms[action.comm].number(rank) else { continue };
            let part = action.part(index, 0, &self.comms[action.comm], number, &self.model);
            let (run, send, recv) = self.bind(action, &part, number, sequences[action.comm]);
            sequences[action.comm] += 1;
            kept.push(Kept { action: index, run: run.keep(), send, recv });
        }
        let random = Random::new(seed ^ u64::from(rank) << 32);
        let sequences = vec![0; self.comms.len()];
        let mut process =
            Process { rank, round: 0, to_start: Vec::new(), open: Vec::new(), kept, sequences, random };
        process.begin_round(self);
        process
    }
}

impl Process {
    /// What runs once starts in the order of the program; what is persistent anywhere between.
    fn begin_round(&mut self, program: &Program) {
        let of = |persistent: bool| -> Vec<usize> {
            let all = program.actions.iter().enumerate();
            all.filter(|(_, action)| action.persistent == persistent)
                .filter(|(_, action)| program.comms[action.comm].number(self.rank).is_some())
                .map(|(index, _)| index)
                .collect()
        };
        self.to_start = of(false);
        self.to_start.reverse();
        for index in of(true) {
            let place = self.random.below(self.to_start.len() as u32 + 1) as usize;
            self.to_start.insert(place, index);
        }
    }

    /// One step; true when the program is over.
    fn step(&mut self, program: &Program, engine: &mut Engine) -> bool {
        while let Some(callback) = engine.take_callback() {
            callback.run();
            engine.callback_done(callback);
        }
        // Look at one of the open requests.
        if !self.open.is_empty() && self.random.below(2) == 0 {
            let which = self.random.below(self.open.len() as u32) as usize;
            self.look(program, engine, which);
        }
        // Now and then a rank waits for what it has begun before it goes on.
        let stays = self.open.len() > 12 || (!self.open.is_empty() && self.random.below(4) == 0);
        if !stays && let Some(action) = self.to_start.pop() {
            self.start(program, engine, action);
        }
        if self.to_start.is_empty() && self.open.is_empty() {
            self.round += 1;
            if self.round == program.rounds {
                return true;
            }
            self.begin_round(program);
        }
        false
    }

    fn look(&mut self, program: &Program, engine: &mut Engine, which: usize) {
        if !self.open[which].requests.iter().all(|&request| engine.is_complete(request)) {
            return;
        }
        let open = self.open.swap_remove(which);
        for request in open.requests.into_iter().filter(|&request| request != RequestId::COMPLETE) {
            let error = engine.take(request).error;
            assert_eq!(error, None, "rank {}, action {}", self.rank, open.action);
        }
        if let Some(wanted) = open.wanted {
            let got = content(&open.recv, wanted.len() as u32);
            let action = &program.actions[open.action];
            assert!(
                got == wanted,
                "rank {}, round {}, action {} {action:?} on {:?}:\n got {got:?}\nwant {wanted:?}",
                self.rank,
                self.round,
                open.action,
                program.comms[action.comm]
            );
        }
    }

    fn start(&mut self, program: &Program, engine: &mut Engine, index: usize) {
        let action = &program.actions[index];
        let comm = &program.comms[action.comm];
        let number = comm.number(self.rank).expect("a member");
        let part = action.part(index, self.round, comm, number, &program.model);
        if action.kind == Kind::Message {
            return self.message(engine, index, action, comm, number, &part);
        }
        if action.persistent {
            let kept = self.kept.iter().find(|kept| kept.action == index).expect("made before");
            write(&kept.send, &part.send);
            write(&kept.recv, &part.recv);
            let request = engine.start_schedule(kept.run.run()).unwrap();
            let recv = kept.recv.clone();
            self.open.push(Open { action: index, requests: vec![request], recv, wanted: part.wanted });
            return;
        }
        let (run, _, recv) = program.bind(action, &part, number, self.sequences[action.comm]);
        self.sequences[action.comm] += 1;
        let request = engine.start_schedule(run).unwrap();
        self.open.push(Open { action: index, requests: vec![request], recv, wanted: part.wanted });
    }

    fn message(
        &mut self,
        engine: &mut Engine,
        index: usize,
        action: &Action,
        comm: &Comm,
        number: u32,
        part: &Part,
    ) {
        // The tags of messages are those of collectives, too.
        let tag = Tag((action.root * 3 + action.to) as i32);
        let mut requests = Vec::new();
        let recv = memory(&part.recv, &int());
        if number == action.to {
            let source = Rank(action.root);
            let selector = Selector {
                context: comm.context,
                peer: Some(comm.peer(source)),
                source: Some(source),
                tag: Some(tag),
            };
            requests.push(engine.recv(selector, recv.recv_view(0, 0, 4 * u64::from(action.count))).unwrap());
        }
        if number == action.root {
            let peer = comm.peer(Rank(action.to));
            let envelope = Envelope { peer, context: comm.context, source: Rank(number), tag };
            let send = memory(&part.send, &int());
            let bytes = 4 * u64::from(action.count);
            let started = engine.send(envelope, SendMode::Standard, send.send_view(0, 0, bytes)).unwrap();
            if let Started::Pending(request) = started {
                requests.push(request);
            }
        }
        self.open.push(Open { action: index, requests, recv, wanted: part.wanted.clone() });
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let processes = 1 + random.below(6);
    let program = Program::random(&mut random, processes);
    let full = [0.0, 0.1, 0.4][random.below(3) as usize];
    // In three worlds of four the ranks' devices run what they can, among all the rest; with few slots, and long messages
    // refused.
    let slots = [None, Some(0), Some(1), Some(64)][random.below(4) as usize];
    let longest = [1 << 30, 4000][random.below(2) as usize];
    let device = slots.map(|slots| DeviceConfig { slots, longest, ..DeviceConfig::default() });
    let mut world =
        World::new(processes).seed(seed).full(full).fabric(|fabric| fabric.device = device).build();
    let mut ranks: Vec<Process> = (0..processes).map(|rank| program.process(rank, seed)).collect();
    world.run(5_000_000, |rank, engine| ranks[rank as usize].step(&program, engine));
    assert!(world.fabric().devices_are_empty());
}

#[test]
fn random_programs_of_collectives_and_messages() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let first: u64 = number("WEFT_SEED").unwrap_or(0);
    let asked = number("WEFT_SEEDS").or(number("WEFT_PROGRAMS_OF_COLLECTIVES"));
    let count = if number("WEFT_SEED").is_some() { 1 } else { asked.unwrap_or(60) };
    for seed in first..first + count {
        let result = std::panic::catch_unwind(|| run(seed));
        if let Err(panic) = result {
            eprintln!("the program of seed {seed} failed; WEFT_SEED={seed} replays it");
            std::panic::resume_unwind(panic);
        }
    }
}
