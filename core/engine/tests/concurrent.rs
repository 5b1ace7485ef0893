//! Random programs of ranks that run at the same time, over a fabric that delays, refuses and denies: every message
//! is received once and whole, and the order of section 3.5 holds whatever happens. Then the same with ranks that
//! die: whatever depends on them ends.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use weft_datatype::{Scratch, SendBuf};
use weft_engine::world::World;
use weft_engine::{Arriving, Clock, Ending, Envelope, RequestId, Selector, SendMode, Soon, Started, Status};
use weft_sim::Random;
use weft_types::{ContextId, ErrorClass, PeerId, Rank, Tag};

const CONTEXT: ContextId = ContextId(4);

struct Send {
    to: u32,
    tag: i32,
    data: Arc<Scratch>,
    request: Option<RequestId>,
    /// Receive at the destination that got it.
    got_by: Option<usize>,
    /// Its sender took it back.
    cancelled: bool,
    way: Way,
}

/// How a message is sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    Standard,
    Synchronous,
    /// As much as there is room for at once, and the rest, if there is one, as an engine sends it.
    Pieces,
}

struct Recv {
    source: Option<u32>,
    tag: Option<i32>,
    room: Arc<Scratch>,
    request: Option<RequestId>,
    /// The message it got.
    got: Option<Got>,
}

/// A message as its receive knows it.
#[derive(Clone, Copy)]
struct Got {
    from: u32,
    tag: i32,
    length: usize,
    /// Its index. `None` while it is only known to be one of that sender with that tag: it is too short to say more.
    message: Option<usize>,
}

#[derive(Default)]
struct Program {
    sends: Vec<Send>,
    recvs: Vec<Recv>,
    /// Receives from here on were posted after the unmatched ones before were cancelled.
    cancelled_at: usize,
    /// A receive from any source has heard of the death; later ones wait for the living.
    told: bool,
}

fn bytes(scratch: &Arc<Scratch>) -> Vec<u8> {
    scratch.send_buf(0, scratch.len()).as_slice().unwrap().to_vec()
}

/// Bytes in which a message says who sent it and as which. Shorter ones have the beginning of that.
const IDENTITY: usize = 8;

/// The message says who sent it and as which: the first bytes, the index before the rank; the rest follows from them.
fn message(from: u32, index: usize, length: usize) -> Arc<Scratch> {
    let scratch = Scratch::new(length);
    let mut random = Random::new((u64::from(from) << 32) | index as u64);
    let mut buffer = scratch.recv_buf(0, length);
    let all = buffer.as_mut_slice().unwrap();
    for byte in all.iter_mut() {
        *byte = random.next() as u8;
    }
    let identity = u64::from(from) << 32 | index as u64;
    all.iter_mut().zip(identity.to_le_bytes()).for_each(|(to, byte)| *to = byte);
    scratch
}

/// Where one protocol ends and another begins, in one kind of world or another.
const BORDERS: [usize; 10] = [8, 48, 232, 248, 256, 1024, 2048, 4096, 8192, 40_000];

/// Bytes that may leave unasked, in the worlds where most may.
const LONGEST_UNASKED: usize = 40_000;

/// A length beside a border, or one of the shortest.
fn size(random: &mut Random) -> usize {
    if random.below(6) == 0 {
        return random.below(IDENTITY as u64) as usize;
    }
    let border = BORDERS[random.below(BORDERS.len() as u64) as usize];
    border + random.below(3) as usize - 1
}

const ROOM: usize = 50_000;

fn world(seed: u64, random: &mut Random) -> (World, Vec<Program>) {
    let ranks = 2 + random.below(3) as u32;
    let single_copy = random.chance(0.5);
    let denial = if random.chance(0.3) { 0.5 } else { 0.0 };
    let depth = 2 + random.below(10) as usize;
    let world = World::new(ranks)
        .seed(seed)
        .full(if random.chance(0.5) { 0.3 } else { 0.0 })
        .fabric(|sim| {
            sim.max_copy = 256;
            sim.depth = depth;
            sim.delay = 30;
            sim.single_copy = single_copy;
            sim.denial = denial;
            sim.compared = seed.is_multiple_of(2);
        })
        .engines(|config| {
            config.eager_limit = 2048;
            config.clock = Clock::Drawn;
            config.eager_budget_per_sender = 6000;
            if config.size == 3 {
                // Messages that are read may leave unasked, too.
                (config.eager_limit, config.eager_budget_per_sender) = (LONGEST_UNASKED as u32, 100_000);
                (config.offers_from, config.offers_after) = (8, 0);
            }
            config.oversubscribed = config.size % 2 == 0;
            config.announcements_per_sender = [64, 1, 3][config.size as usize % 3];
        })
        .build();
    (world, (0..ranks).map(|_| Program::default()).collect())
}

fn start_send(world: &mut World, program: &mut Program, random: &mut Random, rank: u32) {
    let to = random.below(u64::from(world.ranks())) as u32;
    let tag = random.below(3) as i32;
    let data = message(rank, program.sends.len(), size(random));
    let envelope = Envelope { peer: PeerId(to), context: CONTEXT, source: Rank(rank), tag: Tag(tag) };
    let mode = if random.chance(0.3) { SendMode::Synchronous } else { SendMode::Standard };
    let buffer = match random.chance(0.5) {
        true => data.send_buf(0, data.len()),
        // SAFETY: the program keeps the memory.
        false => unsafe {
            SendBuf::contiguous(data.send_buf(0, data.len()).as_slice().unwrap().as_ptr(), data.len())
        },
    };
    let engine = &mut world.engines[rank as usize];
    let in_pieces = if mode == SendMode::Standard && random.chance(0.5) {
        engine.send_pieces(envelope, &bytes(&data), 1 + random.below(300) as usize)
    } else {
        None
    };
    let way = match in_pieces {
        Some(_) => Way::Pieces,
        None if mode == SendMode::Synchronous => Way::Synchronous,
        None => Way::Standard,
    };
    let started = match in_pieces {
        Some(left) if left == data.len() => Ok(Started::Complete),
        Some(left) => engine.send_on(envelope, buffer, left),
        None => engine.send(envelope, mode, buffer),
    };
    let request = match started {
        Ok(Started::Complete) => None,
        Ok(Started::Pending(request)) => Some(request),
        Err(error) => {
            assert_eq!(error.class(), ErrorClass::PROC_ABORTED);
            assert!(!world.is_alive(to), "only a dead rank is refused");
            return;
        }
    };
    program.sends.push(Send { to, tag, data, request, got_by: None, cancelled: false, way });
}

/// Takes back a send that is not complete, if it is not too late for that.
fn cancel_send(world: &mut World, program: &Program, random: &mut Random, rank: u32) {
    let pending: Vec<RequestId> = program.sends.iter().filter_map(|send| send.request).collect();
    if !pending.is_empty() {
        let request = pending[random.below(pending.len() as u64) as usize];
        world.engines[rank as usize].cancel(request);
    }
}

fn start_recv(world: &mut World, program: &mut Program, random: &mut Random, rank: u32) {
    let source = (!random.chance(0.4)).then(|| random.below(u64::from(world.ranks())) as u32);
    let tag = (!random.chance(0.4)).then(|| random.below(3) as i32);
    post(world, program, rank, source, tag);
}

fn post(world: &mut World, program: &mut Program, rank: u32, source: Option<u32>, tag: Option<i32>) {
    let room = Scratch::new(ROOM);
    let request = world.engines[rank as usize].recv(selector(source, tag), room.recv_buf(0, ROOM)).unwrap();
    program.recvs.push(Recv { source, tag, room, request: Some(request), got: None });
}

/// A receive has its message: which one it is, whether it is right, and that nobody else got it.
fn note_received(programs: &mut [Program], rank: u32, index: usize, status: Status) {
    let recv = &mut programs[rank as usize].recvs[index];
    let (from, tag, length) = (status.source.0, status.tag.0, status.bytes as usize);
    let got = bytes(&recv.room);
    assert!(got[length..].iter().all(|&byte| byte == 0), "nothing beyond the message");
    recv.got = Some(Got { from, tag, length, message: None });
    if length >= IDENTITY {
        let identity = u64::from_le_bytes(got[..IDENTITY].try_into().unwrap());
        assert_eq!((identity >> 32) as u32, from);
        is_message(programs, rank, index, identity as u32 as usize);
    }
}

/// It is known which message a receive has.
fn is_message(programs: &mut [Program], rank: u32, index: usize, message: usize) {
    let recv = &mut programs[rank as usize].recvs[index];
    let data = bytes(&recv.room);
    let got = recv.got.as_mut().expect("it has one");
    got.message = Some(message);
    let got = *got;
    let send = &mut programs[got.from as usize].sends[message];
    assert_eq!((send.to, got.tag, got.length), (rank, send.tag, send.data.len()));
    assert_eq!(send.got_by.replace(index), None, "received twice");
    assert!(data[..got.length] == bytes(&send.data)[..], "data of {} bytes", got.length);
}

/// What one rank sent to another with one tag is received in order: says which messages those were that are too short to say so
/// themselves.
fn tell_short_ones(programs: &mut [Program]) {
    let ranks = programs.len() as u32;
    for (rank, from) in (0..ranks).flat_map(|rank| (0..ranks).map(move |from| (rank, from))) {
        for tag in 0..3 {
            let sends = programs[from as usize].sends.iter().enumerate();
            let kept = sends.filter(|(_, send)| (send.to, send.tag, send.cancelled) == (rank, tag, false));
            let sent: Vec<usize> = kept.map(|(message, _)| message).collect();
            let recvs = programs[rank as usize].recvs.iter().enumerate();
            let got = recvs.filter_map(|(index, recv)| Some((index, recv.got?)));
            let got: Vec<(usize, Got)> = got.filter(|(_, got)| (got.from, got.tag) == (from, tag)).collect();
            assert_eq!(got.len(), sent.len(), "rank {rank}: messages of {from} with tag {tag}");
            for ((index, got), message) in got.into_iter().zip(sent) {
                match got.message {
                    Some(said) => assert_eq!(said, message, "rank {rank}: receive {index} had not its turn"),
                    None => is_message(programs, rank, index, message),
                }
            }
        }
    }
}

/// A receive that waits for the rest of its message from its source alone.
fn await_rest(world: &mut World, program: &Program, random: &mut Random, rank: u32) {
    let waiting = program.recvs.iter().rev().find_map(|recv| Some((recv.source?, recv.request?)));
    let Some((source, request)) = waiting else { return };
    let engine = &mut world.engines[rank as usize];
    let ending = engine.receive_rest(PeerId(source), request, random.below(3) as u32);
    if ending != Ending::NotYet {
        assert!(engine.is_complete(request));
    }
}

/// The first part of a blocking receive, which may find its message in the transport or among the unexpected.
fn spin(world: &mut World, programs: &mut [Program], random: &mut Random, rank: u32) {
    let source = (!random.chance(0.2)).then(|| random.below(u64::from(world.ranks())) as u32);
    let tag = (!random.chance(0.4)).then(|| random.below(3) as i32);
    let room = Scratch::new(ROOM);
    let mut buffer = room.recv_buf(0, ROOM);
    let turns = 1 + random.below(70) as u32;
    let done = world.engines[rank as usize].spin_recv(selector(source, tag), &mut buffer, turns);
    if let Some(completion) = done {
        assert_eq!(completion.error, None);
        let recvs = &mut programs[rank as usize].recvs;
        recvs.push(Recv { source, tag, room, request: None, got: None });
        let index = recvs.len() - 1;
        note_received(programs, rank, index, completion.status);
    }
}

/// A blocking receive from one rank with one tag by the short ways, as far as it goes without making progress.
fn receive_by_pieces(world: &mut World, programs: &mut [Program], random: &mut Random, rank: u32) {
    let (source, tag) = (random.below(u64::from(world.ranks())) as u32, random.below(3) as i32);
    let from = Envelope { peer: PeerId(source), context: CONTEXT, source: Rank(source), tag: Tag(tag) };
    let room = Scratch::new(ROOM);
    let mut buffer = room.recv_buf(0, ROOM);
    let engine = &mut world.engines[rank as usize];
    let turns = 1 + random.below(3) as u32;
    let soon = match engine.receive_at_once(from, &mut buffer, turns) {
        Soon::Behind => engine.receive_behind_credit(from, &mut buffer, turns),
        soon => soon,
    };
    let arriving = match soon {
        Soon::Received(status) => Arriving::Received(status),
        Soon::Announced => engine.receive_pieces(from, buffer, 7, 1 + random.below(3) as u32).unwrap(),
        Soon::Behind | Soon::Nothing => return,
    };
    let (request, received) = match arriving {
        Arriving::Received(status) => (None, Some(status)),
        Arriving::Begun(request) => {
            assert_eq!(engine.owner(request), 7);
            (Some(request), None)
        }
        Arriving::Nothing(buffer) => {
            (Some(engine.recv(selector(Some(source), Some(tag)), buffer).unwrap()), None)
        }
    };
    let recvs = &mut programs[rank as usize].recvs;
    recvs.push(Recv { source: Some(source), tag: Some(tag), room, request, got: None });
    let index = recvs.len() - 1;
    if let Some(status) = received {
        note_received(programs, rank, index, status);
    }
}

fn selector(source: Option<u32>, tag: Option<i32>) -> Selector {
    Selector { context: CONTEXT, peer: source.map(PeerId), source: source.map(Rank), tag: tag.map(Tag) }
}

/// Takes what is complete; checks content and status.
fn harvest(world: &mut World, programs: &mut [Program], rank: u32, deaths: bool) {
    let engine = &mut world.engines[rank as usize];
    let mut received = Vec::new();
    let mut told = false;
    for (index, recv) in programs[rank as usize].recvs.iter_mut().enumerate() {
        let Some(request) = recv.request.filter(|&request| engine.is_complete(request)) else { continue };
        recv.request = None;
        let completion = engine.take(request);
        if let Some(error) = completion.error {
            assert!(deaths && error.class() == ErrorClass::PROC_ABORTED, "{error}");
            told |= recv.source.is_none();
            continue;
        }
        if completion.status.cancelled {
            continue;
        }
        received.push((index, completion.status));
    }
    programs[rank as usize].told |= told;
    for (index, status) in received {
        note_received(programs, rank, index, status);
    }
    let engine = &mut world.engines[rank as usize];
    for send in &mut programs[rank as usize].sends {
        let Some(request) = send.request.filter(|&request| engine.is_complete(request)) else { continue };
        send.request = None;
        let completion = engine.take(request);
        send.cancelled = completion.status.cancelled;
        let class = completion.error.map(|error| error.class());
        assert!(class.is_none() || deaths && class == Some(ErrorClass::PROC_ABORTED));
    }
}

/// Section 3.5: of two messages of one sender that fit the same receive the older one is taken; of two receives that
/// fit the same message the older one takes it.
fn check_order(programs: &[Program]) {
    for (rank, program) in programs.iter().enumerate() {
        for (sender, other) in programs.iter().enumerate() {
            let kept = other.sends.iter().filter(|send| !send.cancelled);
            let messages: Vec<&Send> = kept.filter(|send| send.to == rank as u32).collect();
            let accepts = |recv: &Recv, send: &Send| {
                recv.source.is_none_or(|source| source == sender as u32)
                    && recv.tag.is_none_or(|tag| tag == send.tag)
            };
            for (newer, late) in messages.iter().enumerate() {
                let Some(by) = late.got_by else { continue };
                for early in &messages[..newer] {
                    let overtaken =
                        accepts(&program.recvs[by], early) && early.got_by.is_none_or(|other| other > by);
                    assert!(!overtaken, "rank {rank}: a message of {sender} overtook an older one");
                }
                for (older, recv) in program.recvs[..by].iter().enumerate() {
                    let Some(got) = recv.got else {
                        assert!(
                            by >= program.cancelled_at || !accepts(recv, late),
                            "rank {rank}: receive {older} was passed over and got nothing"
                        );
                        continue;
                    };
                    let later = got.from == sender as u32
                        && accepts(recv, late)
                        && got.message > program.recvs[by].got.and_then(|got| got.message);
                    assert!(!later, "rank {rank}: receive {older} was passed over");
                }
            }
        }
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed ^ 0x5eed);
    let (mut world, mut programs) = world(seed, &mut random);
    for _ in 0..random.below(400) {
        let rank = random.below(u64::from(world.ranks())) as u32;
        let program = &mut programs[rank as usize];
        match random.below(12) {
            11 => receive_by_pieces(&mut world, &mut programs, &mut random, rank),
            0..3 => start_send(&mut world, program, &mut random, rank),
            3..6 => start_recv(&mut world, program, &mut random, rank),
            6 => harvest(&mut world, &mut programs, rank, false),
            7 => spin(&mut world, &mut programs, &mut random, rank),
            8 => await_rest(&mut world, program, &mut random, rank),
            9 if random.chance(0.3) => cancel_send(&mut world, program, &mut random, rank),
            _ => {
                for _ in 0..random.below(20) {
                    world.step();
                }
            }
        }
    }
    world.settle();
    // All of them first: what was taken back is not missing.
    for rank in 0..world.ranks() {
        harvest(&mut world, &mut programs, rank, false);
    }
    for rank in 0..world.ranks() {
        let pending: Vec<RequestId> =
            programs[rank as usize].recvs.iter().filter_map(|recv| recv.request).collect();
        programs[rank as usize].cancelled_at = programs[rank as usize].recvs.len();
        for request in pending {
            world.engines[rank as usize].cancel(request);
        }
        harvest(&mut world, &mut programs, rank, false);
        let missing = (programs.iter().flat_map(|program| &program.sends))
            .filter(|send| send.to == rank && send.got_by.is_none() && !send.cancelled)
            .count();
        let recvs = programs[rank as usize].recvs.iter();
        let untold = recvs.filter(|recv| recv.got.is_some_and(|got| got.message.is_none())).count();
        for _ in untold..missing {
            post(&mut world, &mut programs[rank as usize], rank, None, None);
        }
    }
    world.settle();
    for rank in 0..world.ranks() {
        harvest(&mut world, &mut programs, rank, false);
    }
    tell_short_ones(&mut programs);
    let mut met = MET.lock().unwrap();
    for program in &programs {
        for send in &program.sends {
            assert!(send.got_by.is_some() != send.cancelled && send.request.is_none());
            met.insert((send.data.len(), send.way));
        }
        assert!(program.recvs.iter().all(|recv| recv.request.is_none()));
    }
    drop(met);
    assert!(world.engines.iter().all(weft_engine::Engine::is_quiet));
    let offers: u32 = world.engines.iter().map(weft_engine::Engine::offers).sum();
    OFFERS.fetch_add(offers, Ordering::Relaxed);
    check_order(&programs);
}

fn run_with_deaths(seed: u64) {
    let mut random = Random::new(seed ^ 0xdead);
    let (mut world, mut programs) = world(seed, &mut random);
    let victim = random.below(u64::from(world.ranks())) as u32;
    let steps = random.below(300);
    let moment = random.below(steps + 1);
    for step in 0..steps {
        if step == moment {
            world.kill(victim);
        }
        let rank = random.below(u64::from(world.ranks())) as u32;
        if !world.is_alive(rank) {
            continue;
        }
        let program = &mut programs[rank as usize];
        match random.below(10) {
            0..3 => start_send(&mut world, program, &mut random, rank),
            3..6 => start_recv(&mut world, program, &mut random, rank),
            6 => harvest(&mut world, &mut programs, rank, true),
            _ => {
                for _ in 0..random.below(20) {
                    world.step();
                }
            }
        }
    }
    world.kill(victim);
    world.settle();
    for rank in (0..world.ranks()).filter(|&rank| rank != victim) {
        harvest(&mut world, &mut programs, rank, true);
        let program = &programs[rank as usize];
        for recv in program.recvs.iter().filter(|recv| recv.request.is_some()) {
            assert!(
                recv.source.map_or(program.told, |source| source != victim),
                "receive {:?} of rank {rank} waits for the dead {victim}",
                recv.request
            );
        }
        for send in program.sends.iter().filter(|send| send.request.is_some()) {
            assert!(send.to != victim, "a send waits for the dead");
        }
    }
    // The living still talk to each other, and having acknowledged the loss also receive from any source.
    let living: Vec<u32> = (0..world.ranks()).filter(|&rank| rank != victim).collect();
    let mut open = Vec::new();
    for (position, &rank) in living.iter().enumerate() {
        let engine = &mut world.engines[rank as usize];
        assert!(engine.acknowledge_losses().iter().all(|&lost| lost == PeerId(victim)));
        let next = living[(position + 1) % living.len()];
        let envelope =
            Envelope { peer: PeerId(next), context: ContextId(6), source: Rank(rank), tag: Tag(7) };
        let any = Selector { context: ContextId(6), peer: None, source: None, tag: None };
        let (data, room) = (Scratch::new(3000), Scratch::new(3000));
        let sent = engine.send(envelope, SendMode::Synchronous, data.send_buf(0, 3000)).unwrap();
        let received = engine.recv(any, room.recv_buf(0, 3000)).unwrap();
        open.push((rank, sent, received));
    }
    world.settle();
    for (rank, sent, received) in open {
        let engine = &mut world.engines[rank as usize];
        assert_eq!(engine.take(received).error, None);
        if let Started::Pending(sent) = sent {
            assert_eq!(engine.take(sent).error, None);
        }
    }
}

/// Lengths of messages that were sent, and how, in all worlds.
static MET: Mutex<BTreeSet<(usize, Way)>> = Mutex::new(BTreeSet::new());

/// Every length from below to above each border, and each of the shortest, has been sent in every way that there is for it; the shortest
/// in pieces are a matter of luck.
fn demand_borders() {
    let beside = BORDERS.iter().flat_map(|border| border - 1..=border + 1);
    let wanted: BTreeSet<(usize, Way)> = (0..IDENTITY)
        .chain(beside)
        .flat_map(|length| [Way::Standard, Way::Synchronous, Way::Pieces].map(|way| (length, way)))
        .filter(|&(length, way)| way != Way::Pieces || (40..=LONGEST_UNASKED).contains(&length))
        .collect();
    let met = MET.lock().unwrap();
    let missing: Vec<_> = wanted.difference(&met).collect();
    assert!(missing.is_empty(), "never sent: {missing:?}");
}

/// Messages that were offered to be read, in all worlds.
static OFFERS: AtomicU32 = AtomicU32::new(0);

/// How many seeds were run.
fn seeds(run: fn(u64), usual: u64) -> u64 {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    if let Some(seed) = number("WEFT_SEED") {
        run(seed);
        return 1;
    }
    let seeds = number("WEFT_SEEDS").or(number("WEFT_PROGRAMS_OF_MESSAGES")).unwrap_or(usual);
    (0..seeds).for_each(run);
    seeds
}

/// `WEFT_SEED=n` replays one seed; `WEFT_SEEDS=n` runs that many, `WEFT_PROGRAMS_OF_MESSAGES=n` if nothing is said of seeds.
#[test]
fn messages_arrive_once_whole_and_in_order_whatever_the_fabric_does() {
    if seeds(run, 500) >= 500 {
        demand_borders();
        assert!(OFFERS.load(Ordering::Relaxed) > 5, "some are offered to be read");
    }
}

#[test]
fn operations_that_depend_on_a_dead_rank_end() {
    seeds(run_with_deaths, 300);
}
