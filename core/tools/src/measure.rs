//! Measures the figures of the cost model on this machine: `mpiexec -n 2 weft-info --measure`, and with ranks on two hosts or
//! more also those of the network.
//!
//! The first two ranks of a node play ping-pong, streams and exchanges (small messages as steps of schedules, as the
//! collectives have them); then the first rank with the first on another node, and
//! last all ranks of the first node at once with as many of the other, for what they share. Rank 0 writes the file that
//! later starts read (`weft_coll::figures`). What was not measured now stays as an earlier run wrote it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weft::Process;
use weft::group::Group;
use weft_coll::{Buffer, Builder, Call, Figures, Link, Range, Schedule};
use weft_datatype::{Datatype, Memory, PredefinedOp};
use weft_engine::{
    Arguments, Channel, Envelope, PeerMap, RequestId, ScheduleRun, Selector, SendMode, Started,
};
use weft_types::{ContextId, Error, Handle, PeerId, Rank, Result, Tag, abi};

/// Longest message, in bytes.
const LARGE: u64 = 1 << 20;
/// Messages of a stream before the receiver answers.
const STREAM: u32 = 64;
/// How long one figure is measured, in batches of about so many seconds: short enough that some are not disturbed.
const TIME: Duration = Duration::from_millis(250);
const BATCH: f64 = 150e-6;
/// How much longer the usual batch may take than the fastest, or the machine was busy with other things.
const STEADY: f64 = 2.0;

/// This process as a player.
struct Player {
    process: Process,
    out: Memory,
    room: Memory,
    world: Arc<Group>,
    /// The largest ratio of a usual batch to the fastest.
    unsteady: f64,
}

impl Player {
    fn me(&self) -> u32 {
        self.process.job.rank
    }

    fn start_send(&mut self, to: u32, bytes: u64) -> Result<Option<RequestId>> {
        let source = Rank(self.me());
        let envelope = Envelope { peer: PeerId(to), context: ContextId::WORLD, source, tag: Tag(0) };
        let buffer = self.out.send_view(0, 0, bytes);
        match self.process.engine.send(envelope, SendMode::Standard, buffer)? {
            Started::Complete => Ok(None),
            Started::Pending(request) => Ok(Some(request)),
        }
    }

    fn finish(&mut self, request: RequestId) -> Result<()> {
        let bell = self.process.bell();
        let mut waiter = self.process.waiter();
        loop {
            let moved = self.process.progress();
            if self.process.engine.is_complete(request) {
                break;
            }
            if moved {
                waiter.moved();
            }
            waiter.pause(&bell);
        }
        waiter.finish(&bell);
        self.process.engine.take(request).error.map_or(Ok(()), Err)
    }

    fn send(&mut self, to: u32, bytes: u64) -> Result<()> {
        match self.start_send(to, bytes)? {
            Some(request) => self.finish(request),
            None => Ok(()),
        }
    }

    fn receive(&mut self, from: u32, bytes: u64) -> Result<()> {
        let (context, source) = (ContextId::WORLD, Some(Rank(from)));
        let selector = Selector { context, peer: Some(PeerId(from)), source, tag: Some(Tag(0)) };
        let mut room = self.room.recv_view(0, 0, bytes);
        if let Some(completion) = self.process.engine.spin_recv(selector, &mut room, self.process.spins()) {
            return completion.error.map_or(Ok(()), Err);
        }
        let request = self.process.engine.recv(selector, room)?;
        self.finish(request)
    }

    fn barrier(&mut self) -> Result<()> {
        let world = Handle(abi::MPI_COMM_WORLD);
        let arguments = Arguments::new(Memory::none(), Memory::none());
        let request = self.process.start_collective(world, &Call::Barrier, arguments, None)?;
        self.finish(request)
    }

    /// Seconds of one `turn`, at the first player; the others do the same turns. How many, the first one says.
    fn time(
        &mut self,
        first: bool,
        other: u32,
        mut turn: impl FnMut(&mut Player) -> Result<()>,
    ) -> Result<f64> {
        let mut samples = Vec::new();
        let begin = Instant::now();
        let mut turns = 1_u32;
        loop {
            // The word before each batch: its turns, 0 to end.
            let turns_now = if first {
                let enough = begin.elapsed() > TIME && samples.len() > 4;
                let say = if enough { 0 } else { turns };
                self.out.recv_view(0, 0, 4).unpack(0, &say.to_ne_bytes());
                self.send(other, 4)?;
                say
            } else {
                self.receive(other, 4)?;
                let mut word = [0; 4];
                self.room.send_view(0, 0, 4).pack(0, &mut word);
                u32::from_ne_bytes(word)
            };
            if turns_now == 0 {
                break;
            }
            let start = Instant::now();
            for _ in 0..turns_now {
                turn(self)?;
            }
            let seconds = start.elapsed().as_secs_f64();
            samples.push((seconds / f64::from(turns_now), turns_now));
            if seconds < BATCH / 2.0 {
                turns = turns_now.saturating_mul(2);
            }
        }
        samples.retain(|&(_, turns_then)| turns_then == turns);
        // What disturbs only adds time: the fastest is what the machine can do.
        samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at = |index: usize| samples.get(index).map_or(0.0, |sample| sample.0);
        let (fastest, usual) = (at(0), at(samples.len() / 2));
        if first && fastest > 0.0 {
            self.unsteady = self.unsteady.max(usual / fastest);
        }
        Ok(fastest)
    }

    /// Seconds from one to the other and back, halved.
    fn half_round_trip(&mut self, first: bool, other: u32, bytes: u64) -> Result<f64> {
        let both = self.time(first, other, |player| {
            if first {
                player.send(other, bytes)?;
                player.receive(other, bytes)
            } else {
                player.receive(other, bytes)?;
                player.send(other, bytes)
            }
        });
        Ok(both? / 2.0)
    }

    /// Runs a schedule of `first` and `other` to its end.
    fn run(&mut self, schedule: &Arc<Schedule>) -> Result<()> {
        let channel = Channel {
            context: ContextId::WORLD.collective(),
            rank: Rank(self.me()),
            peers: Arc::clone(&self.world) as Arc<dyn PeerMap>,
            sequence: 0,
            // Those that run once have the numbers of the barriers.
            persistent: true,
            group: None,
        };
        let arguments = Arguments::new(Memory::none(), self.room.clone());
        let run = ScheduleRun::new(Arc::clone(schedule), arguments, None, channel)?;
        let request = self.process.engine.start_schedule(run)?;
        self.finish(request)
    }

    /// Seconds of a small message between two steps of a collective, and of one among many at once: what the rounds of an
    /// algorithm are made of.
    fn steps(&mut self, first: bool, other: u32) -> Result<[f64; 2]> {
        let slot = |number: u32| Range::new(Buffer::Recv, 8 * u64::from(number), 8);
        let mut there_and_back = Builder::new();
        let mut many = Builder::new();
        for number in 0..STREAM {
            if first {
                there_and_back.send_on(number, other, slot(0));
                there_and_back.recv_on(number, other, slot(0));
                many.send_on(number, other, slot(number));
            } else {
                there_and_back.recv_on(number, other, slot(0));
                there_and_back.send_on(number, other, slot(0));
                many.recv_on(number, other, slot(number));
            }
        }
        // Many at once, and an answer when the last has come.
        let whole = Range::new(Buffer::Recv, 0, 8 * u64::from(STREAM));
        if first {
            many.recv_on(STREAM, other, whole);
        } else {
            many.send_on(STREAM, other, whole);
        }
        let (there_and_back, many) = (Arc::new(there_and_back.finish()), Arc::new(many.finish()));
        let small = self.time(first, other, |player| player.run(&there_and_back))?;
        let all = self.time(first, other, |player| player.run(&many))?;
        Ok([small / f64::from(2 * STREAM), all / f64::from(STREAM + 1)])
    }

    /// Seconds of a message among many that follow one another.
    fn stream(&mut self, first: bool, other: u32, bytes: u64, length: u32) -> Result<f64> {
        let all = self.time(first, other, |player| {
            if !first {
                for _ in 0..length {
                    player.receive(other, bytes)?;
                }
                return player.send(other, 1);
            }
            let mut pending = Vec::new();
            for _ in 0..length {
                pending.extend(player.start_send(other, bytes)?);
            }
            pending.into_iter().try_for_each(|request| player.finish(request))?;
            player.receive(other, 1)
        });
        Ok(all? / f64::from(length))
    }

    /// Seconds of an exchange in both directions at once.
    fn exchange(&mut self, first: bool, other: u32, bytes: u64) -> Result<f64> {
        self.time(first, other, |player| {
            let pending = player.start_send(other, bytes)?;
            player.receive(other, bytes)?;
            pending.map_or(Ok(()), |request| player.finish(request))
        })
    }

    /// The link between two ranks; both play, only the first learns.
    fn link(&mut self, first: bool, other: u32) -> Result<Link> {
        let [small, gap] = self.steps(first, other)?;
        let middle = self.half_round_trip(first, other, LARGE / 16)?;
        let large = self.half_round_trip(first, other, LARGE)?;
        let both = self.exchange(first, other, LARGE)?;
        // In a stream both ends work at the same time; in a round trip one after the other.
        let overhead = gap.min(0.4 * small);
        let per_byte = ((large - middle) / (LARGE - LARGE / 16) as f64).max(1e-13);
        let duplex = ((both - small) / (large - small).max(1e-9)).clamp(1.0, 2.0);
        let latency = (small - 2.0 * overhead).max(0.1 * small);
        Ok(Link { latency, overhead, per_byte, duplex, shared_per_message: 0.0, shared_per_byte: 0.0 })
    }
}

/// Seconds per byte of the vector that a sum of doubles takes.
fn reduction() -> Result<f64> {
    let double: Datatype =
        Datatype::predefined(abi::MPI_DOUBLE).ok_or_else(|| Error::internal("MPI_DOUBLE"))?.into();
    let kernel = PredefinedOp::Sum.kernel(&double)?;
    let (left, mut into) = (vec![1_u8; 64 << 10], vec![2_u8; 64 << 10]);
    Ok(fastest(|| kernel.apply(&left, &mut into)) / left.len() as f64)
}

/// Seconds per byte of a copy, in the second cache and beyond the last.
fn copies() -> [f64; 2] {
    [64 << 10, 64 << 20].map(|bytes| {
        let (from, mut into) = (vec![1_u8; bytes], vec![2_u8; bytes]);
        fastest(|| into.copy_from_slice(std::hint::black_box(&from))) / bytes as f64
    })
}

/// Seconds of the fastest of many calls.
fn fastest(mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let mut best = f64::MAX;
    while begin.elapsed() < TIME {
        let start = Instant::now();
        call();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

/// Seconds until a thread that sleeps runs instead of another one of the same core; `None` when threads cannot be bound.
fn switch() -> Option<f64> {
    use std::sync::mpsc::sync_channel;
    let cpu = *weft_boot::machine::allowed_cpus().iter().next()?;
    let bind = move || {
        let mut set = nix::sched::CpuSet::new();
        set.set(cpu).and_then(|()| nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)).is_ok()
    };
    const TURNS: u32 = 3000;
    let (there, here) = (sync_channel::<bool>(1), sync_channel::<bool>(1));
    let (to, from) = (there.0, here.1);
    let echo = std::thread::spawn(move || {
        let bound = bind();
        while there.1.recv().is_ok() && here.0.send(bound).is_ok() {}
    });
    let player = std::thread::spawn(move || {
        let mut bound = bind();
        let mut best = f64::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            for _ in 0..TURNS {
                bound &= to.send(true).is_ok() && from.recv() == Ok(true);
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        bound.then_some(best / f64::from(2 * TURNS))
    });
    let seconds = player.join().ok().flatten();
    echo.join().ok()?;
    seconds
}

/// What was measured, as rank 0 tells it.
#[derive(Debug)]
pub struct Outcome {
    /// The figures.
    pub figures: Figures,
    /// What people read.
    pub text: String,
    /// Whether the machine was quiet enough that the figures can be believed.
    pub steady: bool,
}

/// Measures; collective over the job. `None` at all ranks but 0.
///
/// # Errors
/// MPI could not be started, or a rank was lost.
pub fn run() -> Result<Option<Outcome>> {
    let byte: Datatype =
        Datatype::predefined(abi::MPI_BYTE).ok_or_else(|| Error::internal("MPI_BYTE"))?.into();
    let mut process = Process::start()?;
    process.start_world();
    let nodes = Arc::clone(&process.job.nodes);
    let world = Arc::new(Group::world(process.job.size));
    let mut player = Player {
        world,
        out: Memory::scratch(&byte, LARGE)?,
        room: Memory::scratch(&byte, LARGE)?,
        process,
        unsteady: 1.0,
    };
    let (me, size) = (player.me(), player.process.job.size);
    let of_node = |node: u32| (0..size).filter(|&rank| nodes.node(rank) == node).collect::<Vec<u32>>();
    let first_node = nodes.node(0);
    let here = of_node(first_node);
    let other_node = (0..size).map(|rank| nodes.node(rank)).find(|&node| node != first_node);
    let there = other_node.map(of_node).unwrap_or_default();
    let crowded = player.process.job.is_oversubscribed();

    let mut figures = Figures::default();
    let mut notes = Vec::new();
    player.barrier()?;
    match here.get(1) {
        Some(&near) if crowded => {
            notes.push(format!("memory: not measured, the ranks share cores (rank {near} is near)"))
        }
        Some(&near) if me == 0 => figures.memory = Some(player.link(true, near)?),
        Some(&near) if me == near => drop(player.link(false, 0)?),
        Some(_) => {}
        None => notes
            .push("memory: not measured, rank 0 is alone on its node; start two (mpiexec -n 2)".to_owned()),
    }
    player.barrier()?;
    if let Some(&far) = there.first() {
        if me == 0 {
            figures.network = Some(player.link(true, far)?);
        } else if me == far {
            player.link(false, 0)?;
        }
    }
    player.barrier()?;
    // Pairs over the border, all at once.
    let pairs: Vec<(u32, u32)> = here.iter().copied().zip(there.iter().copied()).collect();
    if let Some(&(a, b)) = pairs.iter().find(|&&(a, b)| a == me || b == me) {
        let (first, other) = if a == me { (true, b) } else { (false, a) };
        let message = player.stream(first, other, 8, STREAM)?;
        player.barrier_of(&pairs)?;
        let bytes = player.stream(first, other, LARGE / 4, 8)?;
        if me == 0
            && let Some(link) = &mut figures.network
        {
            let pairs = pairs.len() as f64;
            link.shared_per_message = (message / pairs).min(link.overhead);
            link.shared_per_byte = (bytes / pairs / (LARGE / 4) as f64).min(link.per_byte);
        }
    }
    player.barrier()?;
    let mut outcome = None;
    if me == 0 {
        figures.per_byte_reduced = Some(reduction()?);
        figures.per_switch = switch();
        let [near, far] = copies();
        notes.push(format!(
            "a copy: {:.4} ns a byte in the second cache, {:.4} beyond the last",
            near * 1e9,
            far * 1e9
        ));
        // Between processes of a node bytes are copied once or twice, by those that do nothing else.
        let slow = figures.memory.is_some_and(|link| link.per_byte > 4.0 * far);
        if slow {
            notes.push(
                "messages are much slower than copies: the machine is busy with other things".to_owned(),
            );
        }
        let steady = player.unsteady <= STEADY && !slow;
        if player.unsteady > STEADY {
            notes.push(format!(
                "the usual batch took {:.1} times as long as the fastest: the machine is busy with other things",
                player.unsteady
            ));
        }
        outcome = Some(Outcome { figures, text: notes.join("\n"), steady });
    }
    player.barrier()?;
    player.leave()?;
    Ok(outcome)
}

impl Player {
    /// Ends MPI when nothing of this process is on its way any more.
    fn leave(&mut self) -> Result<()> {
        let bell = self.process.bell();
        let mut waiter = self.process.waiter();
        while !self.process.is_quiet() {
            if self.process.progress() {
                waiter.moved();
            }
            waiter.pause(&bell);
        }
        waiter.finish(&bell);
        self.process.end_world()
    }

    /// Each pair by itself: the two meet.
    fn barrier_of(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        let me = self.me();
        for &(a, b) in pairs {
            if a == me {
                self.send(b, 1)?;
                self.receive(b, 1)?;
            } else if b == me {
                self.receive(a, 1)?;
                self.send(a, 1)?;
            }
        }
        Ok(())
    }
}

/// Where the figures are kept unless somebody says.
pub fn usual_place() -> Option<PathBuf> {
    weft_boot::settings::usual_place("WEFT_MODEL")
}

/// Writes the figures, with those that the file holds already where there are no new ones. The file is there as a whole or as
/// before.
///
/// # Errors
/// What could not be written, and why.
pub fn keep(figures: Figures, place: &Path) -> std::result::Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", place.display());
    let older = fs::read_to_string(place).ok();
    let older = older.and_then(|text| Figures::parse(&text, "").ok()).unwrap_or_default();
    let folder = place.parent().ok_or_else(|| format!("{} is no place for a file", place.display()))?;
    fs::create_dir_all(folder).map_err(told)?;
    let new = folder.join(format!(
        ".{}-{}",
        place.file_name().unwrap_or_default().to_string_lossy(),
        std::process::id()
    ));
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let text = format!(
        "{}# by weft-info --measure of Weft {}, {seconds} seconds after 1970\n",
        figures.or(older),
        env!("CARGO_PKG_VERSION")
    );
    let written = fs::File::create(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&new, place));
    written.map_err(|error| {
        // It may not even have been made.
        let _ = fs::remove_file(&new);
        told(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_kept_beside_older_ones_and_can_be_read() {
        let folder = std::env::temp_dir().join(format!("weft-measure-{}", std::process::id()));
        let place = folder.join("deep").join("model-here");
        keep(Figures { memory: Some(Link::MEMORY), ..Figures::default() }, &place).expect("written");
        keep(Figures { per_switch: Some(1e-6), ..Figures::default() }, &place).expect("written");
        let text = fs::read_to_string(&place).expect("there");
        let read = Figures::parse(&text, "").expect("ours");
        assert!(read.memory.is_some() && read.per_switch.is_some() && read.network.is_none(), "{text}");
        assert_eq!(fs::read_dir(folder.join("deep")).expect("a folder").count(), 1, "nothing else is left");
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn what_this_machine_does_alone_is_plausible() {
        let reduced = reduction().expect("a sum");
        assert!((1e-13..1e-7).contains(&reduced), "{reduced}");
        assert!(copies().iter().all(|seconds| (1e-13..1e-7).contains(seconds)));
        assert!(switch().is_none_or(|seconds| (1e-8..1e-2).contains(&seconds)));
    }
}
