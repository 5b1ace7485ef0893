//! Processes over one shared-memory segment: what each collective algorithm takes, without the C layer. For tuning the
//! cost model; the figures users care about come from `benches/osu`.
//!
//! `cargo run --profile fast -p weft-engine --example collectives -- RANKS [BYTES [OPERATION [ALGORITHM]]]`

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;
use weft_coll::registry::candidates;
use weft_coll::{Call, Group, Model, Schedule, Vector};
use weft_datatype::{Datatype, Memory, PredefinedOp};
use weft_engine::{
    Arguments, Channel, Engine, EngineConfig, Operation, PeerMap, Reduction, ScheduleRun, Transports, Waiter,
};
use weft_shm::{Config, Shm, Waking};
use weft_types::{ContextId, PeerId, Rank, abi};

const BATCHES: usize = 60;

#[derive(Debug)]
struct Identity;

impl PeerMap for Identity {
    fn peer(&self, rank: Rank) -> PeerId {
        PeerId(rank.0)
    }
    fn contains(&self, _: PeerId) -> bool {
        true
    }
}

struct Side {
    engine: Engine,
    group: Group,
    sequence: u32,
    peers: Arc<dyn PeerMap>,
    oversubscribed: bool,
}

impl Side {
    fn run(&mut self, schedule: &Arc<Schedule>, arguments: &Arguments, reduction: &Option<Reduction>) {
        let channel = Channel {
            context: ContextId::WORLD.collective(),
            rank: Rank(self.group.rank),
            peers: Arc::clone(&self.peers),
            sequence: self.sequence,
            persistent: false,
            group: None,
        };
        self.sequence += 1;
        let run = ScheduleRun::new(Arc::clone(schedule), arguments.clone(), reduction.clone(), channel);
        let request = self.engine.start_schedule(run.expect("bound")).expect("started");
        let bell = self.engine.bell();
        let mut waiter = Waiter::new(self.oversubscribed, self.engine.looks());
        loop {
            let moved = self.engine.progress();
            if self.engine.is_complete(request) {
                break;
            }
            if moved {
                waiter.moved();
            }
            waiter.pause(&bell);
        }
        waiter.finish(&bell);
        assert_eq!(self.engine.take(request).error, None);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let ranks: u32 = arguments.get(1).and_then(|ranks| ranks.parse().ok()).unwrap_or(2);
    let bytes: u64 = arguments.get(2).and_then(|bytes| bytes.parse().ok()).unwrap_or(8);
    let inherited = std::env::var("COLLECTIVES_RANK").ok();
    let me: u32 = inherited.as_deref().map_or(0, |rank| rank.parse().expect("a rank"));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let mut children = Vec::new();
    let file = match std::env::var("COLLECTIVES_FILE") {
        Ok(path) => File::options().read(true).write(true).open(path).expect("the segment"),
        Err(_) => {
            let file = weft_shm::create().expect("a segment");
            let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
            for rank in 1..ranks {
                let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
                command
                    .args(&arguments[1..])
                    .env("COLLECTIVES_FILE", &path)
                    .env("COLLECTIVES_RANK", rank.to_string());
                children.push(command.spawn().expect("another process"));
            }
            file
        }
    };
    if ranks <= cores {
        let mut cpus = nix::sched::CpuSet::new();
        cpus.set(me as usize).expect("a processor number");
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus).expect("bound");
    }
    let peers = (0..ranks).map(PeerId).collect();
    let shm = Shm::attach(Config { file, local: me, peers, single_copy: true, waking: Waking::Membarrier });
    let oversubscribed = ranks > cores;
    let config = EngineConfig { oversubscribed, ..EngineConfig::new(PeerId(me), ranks) };
    let engine = Engine::new(config, Transports::Shm(shm.expect("attached"))).expect("an engine");
    let group = Group { rank: me, size: ranks };
    let mut side = Side { engine, group, sequence: 0, peers: Arc::new(Identity), oversubscribed };
    let model = Model { ranks_per_core: f64::from(ranks) / f64::from(cores), ..Model::default() };
    measure(&mut side, bytes, &model, &arguments[3.min(arguments.len())..]);
    for mut child in children {
        child.wait().expect("another process");
    }
}

fn measure(side: &mut Side, bytes: u64, model: &Model, only: &[String]) {
    let group = side.group;
    let ranks = u64::from(group.size);
    let double: Datatype = Datatype::predefined(abi::MPI_DOUBLE).expect("MPI_DOUBLE is predefined").into();
    let vector = Vector { count: bytes.div_ceil(8), element: 8, commutative: true };
    let counts: Vec<u64> = vec![vector.count; group.size as usize];
    let scattered = Vector { count: vector.count * ranks, ..vector };
    let calls = [
        Call::Barrier,
        Call::Bcast { root: 0, bytes },
        Call::Reduce { root: 0, vector, in_place: false },
        Call::Allreduce { vector, in_place: false },
        Call::Allgather { bytes, in_place: false },
        Call::Alltoall { bytes, in_place: false },
        Call::ReduceScatter { counts: &counts, vector: scattered, in_place: false },
    ];
    let memory = || Memory::scratch(&double, ranks * vector.count).expect("memory");
    let bound = Arguments::new(memory(), memory());
    let kernel = PredefinedOp::Sum.kernel(&double).expect("a sum of doubles");
    let reduction =
        Some(Reduction { datatype: double, operation: Operation::Predefined(kernel), name: "MPI_SUM" });
    let barrier = candidates(&Call::Barrier, group, model).next().expect("a barrier");
    let barrier = Arc::new(barrier.build(&Call::Barrier, group, model));
    for call in calls {
        for algorithm in candidates(&call, group, model) {
            if [call.name(), algorithm.name].iter().zip(only).any(|(name, only)| name != only) {
                continue;
            }
            let schedule = Arc::new(algorithm.build(&call, group, model));
            let mut samples = Vec::new();
            let rounds = if bytes > 10_000 { 5 } else { 40 };
            let batches = if only.is_empty() { BATCHES } else { 100 * BATCHES };
            for _ in 0..batches {
                side.run(&barrier, &bound, &None);
                let start = Instant::now();
                for _ in 0..rounds {
                    side.run(&schedule, &bound, &reduction);
                }
                samples.push(start.elapsed().as_secs_f64() / f64::from(rounds) * 1e6);
            }
            samples.sort_by(f64::total_cmp);
            if group.rank == 0 {
                let modelled = algorithm.seconds(&call, group, model) * 1e6;
                println!(
                    "{:>14} {:26} p10 {:9.2} us  median {:9.2} us  model {modelled:9.2} us",
                    call.name(),
                    algorithm.name,
                    samples[samples.len() / 10],
                    samples[samples.len() / 2],
                );
            }
        }
    }
}
