//! The devices' engines: programs of triggered operations that run in virtual time, without their processes.
//!
//! Each rank's device has one unit that works off triggered steps one after another; messages between devices take their time
//! besides. A message moves when both its ends are there (the device keeps no data), straight from memory to memory.
//! What a device remembers of others is an entry for each triggered step and for each step that will never happen.
//!
//! A program that fails owes its partners an end: in place of every send and every receive that will not happen lies an
//! entry that says which process is gone, and whoever meets it fails in turn.
//!
//! A device has so many slots. Programs beyond them wait in the process: their steps are triggered by
//! [`weft_api::Transport::progress`] of their rank only, everything else is the same.

use crate::arithmetic;
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use weft_api::offload::{Finished, Outcome, Outline, Piece, Program, Refusal, Step};
use weft_types::{Error, ErrorClass, PeerId, Result};

/// What the devices are like. Times in ticks, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Programs that a device runs at a time by itself.
    pub slots: usize,
    /// Longest message.
    pub longest: u64,
    /// Time of the unit for a step.
    pub step: u64,
    /// Bytes that the unit copies or combines in a tick.
    pub bytes_per_tick: u64,
}

impl Default for DeviceConfig {
    fn default() -> DeviceConfig {
        DeviceConfig { slots: 64, longest: 1 << 30, step: 1, bytes_per_tick: 4096 }
    }
}

/// A program of one rank, by the number of its start.
type Id = u64;

/// A step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    id: Id,
    step: u32,
}

/// Where messages match: sender, receiver, key.
type Path = (u32, u32, u64);

/// One end of a message that waits for the other.
#[derive(Clone, Debug)]
enum End {
    /// The step is triggered.
    Ready(At),
    /// It will never happen, because this befell its program.
    Never(Outcome),
}

/// A message whose ends are both there.
#[derive(Debug)]
struct Flight {
    send: At,
    recv: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    /// In the unit's queue.
    Triggered,
    /// A message that is not through.
    Posted,
    Done,
}

#[derive(Debug)]
struct Running {
    rank: u32,
    token: u64,
    program: Arc<Program>,
    waits_for: Vec<u32>,
    states: Vec<State>,
    left: usize,
    /// Whether it has one of the device's slots.
    in_slot: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The unit does a step.
    Work(Id, u32),
    /// The message of this number is through.
    Through(u64),
    /// The others' devices find out that a rank is gone.
    Gone(u32),
}

/// One rank's device.
#[derive(Debug, Default)]
struct Device {
    /// When the unit is free.
    free: u64,
    /// Programs in slots.
    used: usize,
    /// Steps that the process must trigger.
    by_hand: VecDeque<(Id, u32)>,
    finished: VecDeque<Finished>,
    dead: bool,
    /// Whether the others know.
    gone: bool,
}

/// All devices of a fabric.
#[derive(Debug)]
pub(crate) struct Devices {
    config: DeviceConfig,
    devices: Vec<Device>,
    running: BTreeMap<Id, Running>,
    next: u64,
    sends: BTreeMap<Path, VecDeque<End>>,
    recvs: BTreeMap<Path, VecDeque<End>>,
    flights: BTreeMap<u64, Flight>,
    /// What happens when; the number keeps the order of what happens at one time.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
}

impl Devices {
    pub(crate) fn new(ranks: u32, config: DeviceConfig) -> Devices {
        Devices {
            config,
            devices: (0..ranks).map(|_| Device::default()).collect(),
            running: BTreeMap::new(),
            next: 0,
            sends: BTreeMap::new(),
            recvs: BTreeMap::new(),
            flights: BTreeMap::new(),
            events: BinaryHeap::new(),
        }
    }

    /// What all devices of the fabric answer.
    pub(crate) fn can_run(&self, outline: &Outline) -> std::result::Result<(), Refusal> {
        if outline.ranks < 2 {
            return Err(Refusal::Alone);
        }
        if outline.bytes > self.config.longest {
            return Err(Refusal::TooLong { limit: self.config.longest });
        }
        match outline.arithmetic {
            Some(arithmetic) if arithmetic::find(arithmetic).is_none() => {
                Err(Refusal::Arithmetic(arithmetic))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn start(&mut self, rank: u32, program: &Arc<Program>, token: u64, now: u64) {
        let device = &mut self.devices[rank as usize];
        if device.dead {
            return;
        }
        let in_slot = device.used < self.config.slots;
        device.used += usize::from(in_slot);
        let (id, steps) = (self.number(), program.steps.len());
        let running = Running {
            rank,
            token,
            program: Arc::clone(program),
            waits_for: program.waits_for.clone(),
            states: vec![State::Waits; steps],
            left: steps,
            in_slot,
        };
        let first: Vec<u32> =
            (0..).zip(&running.waits_for).filter(|&(_, &waits)| waits == 0).map(|(step, _)| step).collect();
        self.running.insert(id, running);
        if steps == 0 {
            return self.end(id, Outcome::Done);
        }
        for step in first {
            self.trigger(id, step, now);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn at(&mut self, time: u64, event: Event) {
        let number = self.number();
        self.events.push(Reverse((time, number, event)));
    }

    /// A step has nothing more to wait for.
    fn trigger(&mut self, id: Id, step: u32, now: u64) {
        let running = self.running.get_mut(&id).expect("a running program");
        running.states[step as usize] = State::Triggered;
        let rank = running.rank as usize;
        if running.in_slot {
            let work = self.work(id, step);
            let device = &mut self.devices[rank];
            device.free = device.free.max(now) + work;
            let done = device.free;
            self.at(done, Event::Work(id, step));
        } else {
            self.devices[rank].by_hand.push_back((id, step));
        }
    }

    /// How long the unit works on a step.
    fn work(&self, id: Id, step: u32) -> u64 {
        let bytes = match self.running[&id].program.steps[step as usize] {
            Step::Copy { into, .. } | Step::Reduce { into, .. } => into.bytes,
            Step::Send { .. } | Step::Recv { .. } => 0,
        };
        self.config.step + bytes / self.config.bytes_per_tick.max(1)
    }

    /// The process of `rank` triggers what waits for it. True when something did.
    pub(crate) fn by_hand(&mut self, rank: u32, delay: u64, now: u64, random: &mut Random) -> bool {
        let mut moved = false;
        while let Some((id, step)) = self.devices[rank as usize].by_hand.pop_front() {
            if self.running.contains_key(&id) {
                self.step(id, step, delay, now, random);
                moved = true;
            }
        }
        moved
    }

    /// Does what is due at `now`; messages take up to `delay` ticks.
    pub(crate) fn run(&mut self, delay: u64, now: u64, random: &mut Random) {
        while let Some(&Reverse((time, _, event))) = self.events.peek()
            && time <= now
        {
            self.events.pop();
            match event {
                Event::Work(id, step) if self.running.contains_key(&id) => {
                    self.step(id, step, delay, now, random);
                }
                Event::Work(..) => {}
                Event::Through(flight) => self.through(flight, now),
                Event::Gone(rank) => self.gone(rank),
            }
        }
    }

    fn step(&mut self, id: Id, step: u32, delay: u64, now: u64, random: &mut Random) {
        let running = self.running.get_mut(&id).expect("a running program");
        let (rank, at) = (running.rank, At { id, step });
        match running.program.steps[step as usize] {
            Step::Send { to, key, .. } => {
                running.states[step as usize] = State::Posted;
                self.meet(at, (rank, to.0, key), true, to, delay, now, random);
            }
            Step::Recv { from, key, .. } => {
                running.states[step as usize] = State::Posted;
                self.meet(at, (from.0, rank, key), false, from, delay, now, random);
            }
            Step::Copy { from, into } => match read(from).and_then(|bytes| write(into, &bytes)) {
                Ok(()) => self.done(at, now),
                Err(why) => self.end(id, Outcome::Failed(why)),
            },
            Step::Reduce { left, into } => {
                let arithmetic = running.program.outline.arithmetic;
                let combine = arithmetic.and_then(arithmetic::find).expect("can_run looked for it");
                let combined = apart(left, into).and_then(|()| {
                    let (left, mut bytes) = (read(left)?, read(into)?);
                    combine(&left, &mut bytes);
                    write(into, &bytes)
                });
                match combined {
                    Ok(()) => self.done(at, now),
                    Err(why) => self.end(id, Outcome::Failed(why)),
                }
            }
        }
    }

    /// One end of a message looks for the other.
    #[allow(clippy::too_many_arguments, reason = "who, where, and the fabric's state")]
    fn meet(
        &mut self,
        at: At,
        path: Path,
        sends: bool,
        partner: PeerId,
        delay: u64,
        now: u64,
        random: &mut Random,
    ) {
        let others = if sends { &mut self.recvs } else { &mut self.sends };
        match take(others, path) {
            Some(End::Ready(other)) => {
                let (send, recv) = if sends { (at, other) } else { (other, at) };
                let number = self.number();
                self.flights.insert(number, Flight { send, recv });
                let arrives = now + 1 + random.below(delay + 1);
                self.at(arrives, Event::Through(number));
            }
            Some(End::Never(why)) => self.end(at.id, why),
            None if self.devices[partner.0 as usize].gone => self.end(at.id, Outcome::Lost(partner)),
            None => {
                let own = if sends { &mut self.sends } else { &mut self.recvs };
                own.entry(path).or_default().push_back(End::Ready(at));
            }
        }
    }

    fn through(&mut self, flight: u64, now: u64) {
        // One of its ends failed meanwhile.
        let Some(Flight { send, recv }) = self.flights.remove(&flight) else { return };
        let piece = |at: At| match self.running[&at.id].program.steps[at.step as usize] {
            Step::Send { from: piece, .. } | Step::Recv { into: piece, .. } => piece,
            Step::Copy { .. } | Step::Reduce { .. } => unreachable!("an end of a message"),
        };
        let (from, into) = (piece(send), piece(recv));
        let moved = if from.bytes == into.bytes {
            read(from).and_then(|bytes| write(into, &bytes))
        } else {
            let (got, wanted) = (from.bytes, into.bytes);
            Err(Error::new(
                ErrorClass::TRUNCATE,
                format!(
                    "a collective operation got {got} bytes where {wanted} were expected: the ranks disagree about count, \
                     datatype or root (section 6.1)"
                ),
            ))
        };
        match moved {
            Ok(()) => {
                self.done(send, now);
                self.done(recv, now);
            }
            Err(why) => {
                self.end(send.id, Outcome::Failed(why.clone()));
                self.end(recv.id, Outcome::Failed(why));
            }
        }
    }

    fn done(&mut self, at: At, now: u64) {
        let running = self.running.get_mut(&at.id).expect("a running program");
        running.states[at.step as usize] = State::Done;
        running.left -= 1;
        if running.left == 0 {
            return self.end(at.id, Outcome::Done);
        }
        let program = Arc::clone(&running.program);
        let mut ready = Vec::new();
        for &next in &program.successors[at.step as usize] {
            let waits = &mut running.waits_for[next as usize];
            *waits -= 1;
            if *waits == 0 {
                ready.push(next);
            }
        }
        for next in ready {
            self.trigger(at.id, next, now);
        }
    }

    /// A program is over. Others that wait for it end, too.
    fn end(&mut self, id: Id, outcome: Outcome) {
        let mut ending = vec![(id, outcome)];
        while let Some((id, outcome)) = ending.pop() {
            let Some(running) = self.running.remove(&id) else { continue };
            let device = &mut self.devices[running.rank as usize];
            device.used -= usize::from(running.in_slot);
            if outcome != Outcome::Done {
                ending.extend(
                    self.owe(id, &running, &outcome).into_iter().map(|other| (other, outcome.clone())),
                );
            }
            let device = &mut self.devices[running.rank as usize];
            device.finished.push_back(Finished { token: running.token, outcome });
        }
    }

    /// Puts in place of every message of a failed program that will not happen what says why; the programs that met it.
    fn owe(&mut self, id: Id, running: &Running, why: &Outcome) -> Vec<Id> {
        let mut met = Vec::new();
        let flying: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.send.id == id || flight.recv.id == id)
            .map(|(&number, _)| number)
            .collect();
        for number in flying {
            let flight = self.flights.remove(&number).expect("just seen");
            met.push(if flight.send.id == id { flight.recv.id } else { flight.send.id });
        }
        for (step, state) in running.states.iter().enumerate() {
            let (path, sends, partner) = match running.program.steps[step] {
                Step::Send { to, key, .. } => ((running.rank, to.0, key), true, to),
                Step::Recv { from, key, .. } => ((from.0, running.rank, key), false, from),
                Step::Copy { .. } | Step::Reduce { .. } => continue,
            };
            if *state == State::Done || self.devices[partner.0 as usize].dead {
                continue;
            }
            let (own, others) = match sends {
                true => (&mut self.sends, &mut self.recvs),
                false => (&mut self.recvs, &mut self.sends),
            };
            if *state == State::Posted {
                // It waits in its place, or was in flight just now.
                let waiting = own.get_mut(&path).and_then(|ends| {
                    ends.iter_mut().find(|end| matches!(end, End::Ready(at) if at.id == id))
                });
                if let Some(end) = waiting {
                    *end = End::Never(why.clone());
                }
                continue;
            }
            match take(others, path) {
                Some(End::Ready(other)) => met.push(other.id),
                Some(End::Never(_)) => {}
                None => own.entry(path).or_default().push_back(End::Never(why.clone())),
            }
        }
        met
    }

    /// A rank dies: its device stops at once, the others' find out at `heard`.
    pub(crate) fn kill(&mut self, rank: u32, heard: u64) {
        if std::mem::replace(&mut self.devices[rank as usize].dead, true) {
            return;
        }
        let own: Vec<Id> =
            self.running.iter().filter(|(_, running)| running.rank == rank).map(|(&id, _)| id).collect();
        self.flights.retain(|_, flight| !own.contains(&flight.send.id) && !own.contains(&flight.recv.id));
        self.forget(rank);
        self.running.retain(|_, running| running.rank != rank);
        self.at(heard, Event::Gone(rank));
    }

    /// Nothing waits for a dead rank in its place any more.
    fn forget(&mut self, rank: u32) {
        for ends in [&mut self.sends, &mut self.recvs] {
            ends.retain(|&(from, to, _), _| from != rank && to != rank);
        }
    }

    fn gone(&mut self, rank: u32) {
        self.devices[rank as usize].gone = true;
        let waits = |running: &Running| {
            running.states.iter().zip(&running.program.steps).any(|(&state, step)| {
                let partner = match *step {
                    Step::Send { to: partner, .. } | Step::Recv { from: partner, .. } => Some(partner.0),
                    Step::Copy { .. } | Step::Reduce { .. } => None,
                };
                state == State::Posted && partner == Some(rank)
            })
        };
        let concerned: Vec<Id> =
            self.running.iter().filter(|(_, running)| waits(running)).map(|(&id, _)| id).collect();
        for id in concerned {
            self.end(id, Outcome::Lost(PeerId(rank)));
        }
        self.forget(rank);
    }

    pub(crate) fn finished(&mut self, rank: u32) -> Option<Finished> {
        self.devices[rank as usize].finished.pop_front()
    }

    /// Whether the devices have nothing to do and remember nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.flights.is_empty() && self.sends.is_empty() && self.recvs.is_empty()
    }
}

/// The oldest entry of a path.
fn take(ends: &mut BTreeMap<Path, VecDeque<End>>, path: Path) -> Option<End> {
    let queue = ends.get_mut(&path)?;
    let end = queue.pop_front();
    if queue.is_empty() {
        ends.remove(&path);
    }
    end
}

/// All ranks live in this process, so the device reads and writes memory by the system calls that reach another process: an
/// address that is wrong gives an error and no crash.
fn read(piece: Piece) -> Result<Vec<u8>> {
    let mut bytes = vec![0; piece.bytes as usize];
    if bytes.is_empty() {
        return Ok(bytes);
    }
    let remote = [nix::sys::uio::RemoteIoVec { base: piece.address as usize, len: bytes.len() }];
    let mut local = [std::io::IoSliceMut::new(&mut bytes)];
    let moved = nix::sys::uio::process_vm_readv(nix::unistd::Pid::this(), &mut local, &remote);
    whole(moved, piece, "read").map(|()| bytes)
}

fn write(piece: Piece, bytes: &[u8]) -> Result<()> {
    assert_eq!(piece.bytes, bytes.len() as u64, "a device writes what it has read");
    if bytes.is_empty() {
        return Ok(());
    }
    let remote = [nix::sys::uio::RemoteIoVec { base: piece.address as usize, len: bytes.len() }];
    let local = [std::io::IoSlice::new(bytes)];
    whole(nix::sys::uio::process_vm_writev(nix::unistd::Pid::this(), &local, &remote), piece, "write")
}

fn whole(moved: nix::Result<usize>, piece: Piece, what: &str) -> Result<()> {
    match moved {
        Ok(moved) if moved as u64 == piece.bytes => Ok(()),
        Ok(moved) => {
            Err(Error::internal(format!("the device could {what} {moved} of {} bytes", piece.bytes)))
        }
        Err(errno) => {
            Err(Error::internal(format!("the device could not {what} {} bytes: {errno}", piece.bytes)))
        }
    }
}

/// Operands of a reduction lie in different memory, or the program passed aliased buffers (section 2.3).
fn apart(left: Piece, into: Piece) -> Result<()> {
    if left.address < into.address + into.bytes && into.address < left.address + left.bytes {
        return Err(Error::new(
            ErrorClass::BUFFER,
            "send and receive buffer of a reduction overlap (section 2.3)",
        ));
    }
    Ok(())
}
