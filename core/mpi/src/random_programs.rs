//! Random programs of ranks with several threads each, over a fabric that delays, refuses and denies, against a plain model
//! of matching.
//!
//! Threads are interleavings: each has its own sequence of calls, of which the blocking ones are states that are looked at
//! again and again, as the gate does. Every message says who sent it and as which, so the model needs no oracle: each is
//! received once and whole or cancelled, and no receive and no message was passed over by a younger one (section 3.5).
//! `WEFT_SEED=n` replays one seed; `WEFT_SEEDS=n` runs that many.

use crate::buffered::{Attached, Content, Owner};
use crate::process::Process;
use crate::request::{Local, MpiStatus, Operation, engine_handle, started_handle};
use std::sync::Arc;
use weft_datatype::Scratch;
use weft_engine::world::World;
use weft_engine::{Envelope, MessageId, RequestId, Selector, SendMode};
use weft_types::{ContextId, ErrorClass, Handle, PeerId, Rank, Tag, abi};

const COMM: Handle = Handle(abi::MPI_COMM_WORLD);
/// The world's channel, and another one.
const CONTEXTS: [ContextId; 2] = [ContextId::WORLD, ContextId(4)];
const ROOM: usize = 42_000;

#[derive(Default)]
struct Sent {
    to: u32,
    tag: i32,
    context: usize,
    data: Vec<u8>,
    cancelled: bool,
    /// Receive at the destination that got it.
    got_by: Option<usize>,
}

/// What a receive or probe asks for: channel, source, tag.
type Wanted = (usize, Option<u32>, Option<i32>);

struct Received {
    wanted: Wanted,
    room: Arc<Scratch>,
    cancelled: bool,
    /// Sender and number of its message.
    got: Option<(u32, usize)>,
}

/// Something under way that ends by itself or is waited for.
#[derive(Clone)]
enum Open {
    /// The memory lives as long as the send.
    Send(Handle, usize, #[expect(dead_code, reason = "kept, not read")] Arc<Scratch>),
    Recv(Handle, usize),
    Message(MessageId, Wanted),
    Flush(Handle),
    /// A persistent operation, and the send or receive it is at while active.
    Port(Handle, Arc<Scratch>, Port, Option<usize>),
}

#[derive(Clone, Copy)]
enum Port {
    Send(u32, i32),
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
    next: u64,
}

struct Program {
    world: World,
    members: Vec<Member>,
}

fn selector((context, source, tag): Wanted) -> Selector {
    let context = CONTEXTS[context];
    Selector { context, peer: source.map(PeerId), source: source.map(Rank), tag: tag.map(Tag) }
}

fn fill(room: &Arc<Scratch>, data: &[u8]) {
    room.recv_buf(0, data.len()).unpack(0, data);
}

fn read(room: &Arc<Scratch>) -> Vec<u8> {
    let mut data = vec![0; room.len()];
    room.send_buf(0, room.len()).pack(0, &mut data);
    data
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
            let attached = Attached { address: 8, size: 60_000, automatic: seed.is_multiple_of(2) };
            process.requests.buffers.attach(Owner::Process, attached).expect("none before");
            let threads = (0..1 + seed % 3).map(|_| Thread::Free).collect();
            Member { process, threads, open: Vec::new(), sends: Vec::new(), recvs: Vec::new(), next: 0 }
        });
        let members = members.collect();
        Program { world, members }
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

    /// A new message of `rank` on a channel: its number, after the model has been told.
    fn message(&mut self, rank: usize, context: usize) -> (usize, Envelope, Arc<Scratch>) {
        const BORDERS: [usize; 10] = [8, 48, 232, 248, 256, 1024, 2048, 4096, 8192, 40_000];
        let ranks = self.members.len();
        let (to, tag) = (self.below(ranks) as u32, self.below(3) as i32);
        let length = (BORDERS[self.below(BORDERS.len())] + self.below(3)).max(9) - 1;
        let number = self.members[rank].sends.len();
        let mut data = vec![0; length];
        let mut random = weft_random(rank as u64 * 100_000 + number as u64);
        data.fill_with(|| random.next().unwrap_or(0));
        data[..4].copy_from_slice(&(rank as u32).to_le_bytes());
        data[4..8].copy_from_slice(&(number as u32).to_le_bytes());
        let room = Scratch::new(length);
        fill(&room, &data);
        self.members[rank].sends.push(Sent { to, tag, context, data, ..Sent::default() });
        let envelope = Envelope {
            peer: PeerId(to),
            context: CONTEXTS[context],
            source: Rank(rank as u32),
            tag: Tag(tag),
        };
        (number, envelope, room)
    }

    fn keep(&mut self, rank: usize, open: Open) -> u64 {
        let member = &mut self.members[rank];
        member.next += 1;
        member.open.push((member.next, open));
        member.next
    }

    fn send(&mut self, rank: usize, blocking: Option<usize>) {
        let context = self.below(2);
        let mode = if self.below(3) == 0 { SendMode::Synchronous } else { SendMode::Standard };
        let (number, envelope, room) = self.message(rank, context);
        let engine = &mut self.members[rank].process.engine;
        let started = engine.send(envelope, mode, room.send_buf(0, room.len())).expect("all live");
        let key = self.keep(rank, Open::Send(started_handle(started), number, room));
        self.block(rank, blocking, key);
    }

    fn buffered(&mut self, rank: usize) {
        let (number, envelope, room) = self.message(rank, 0);
        let process = &mut self.members[rank].process;
        match process.buffered_send(COMM, envelope, &room.send_buf(0, room.len())) {
            // Its memory belongs to the program again at once.
            Ok(handle) => {
                fill(&room, &vec![0xEE; room.len()]);
                self.keep(rank, Open::Send(handle, number, room));
            }
            Err(error) => {
                assert_eq!(error.class(), ErrorClass::BUFFER);
                self.members[rank].sends[number].cancelled = true;
            }
        }
    }

    fn receive(&mut self, rank: usize, wanted: Wanted, blocking: Option<usize>) {
        let room = Scratch::new(ROOM);
        let looks = if blocking.is_some() { 1 + self.below(40) as u32 } else { 0 };
        let member = &mut self.members[rank];
        let early = (looks > 0)
            .then(|| member.process.engine.spin_recv(selector(wanted), &mut room.recv_buf(0, ROOM), looks));
        let number = member.recvs.len();
        if let Some(completion) = early.flatten() {
            assert_eq!(completion.error, None);
            member.recvs.push(Received { wanted, room, cancelled: false, got: None });
            return self.got(rank, number, completion.status.into());
        }
        let request = member.process.engine.recv(selector(wanted), room.recv_buf(0, ROOM)).expect("room");
        member.recvs.push(Received { wanted, room, cancelled: false, got: None });
        let key = self.keep(rank, Open::Recv(engine_handle(request), number));
        self.block(rank, blocking, key);
    }

    fn block(&mut self, rank: usize, blocking: Option<usize>, key: u64) {
        if let Some(thread) = blocking {
            self.members[rank].threads[thread] = Thread::Waits(key);
        }
    }

    /// The model hears that a receive has its message.
    fn got(&mut self, rank: usize, number: usize, status: MpiStatus) {
        let recv = &mut self.members[rank].recvs[number];
        let data = read(&recv.room);
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| data[at + byte]));
        let (from, message) = (word(0), word(4) as usize);
        recv.got = Some((from, message));
        let context = recv.wanted.0;
        let sent = &mut self.members[from as usize].sends[message];
        assert_eq!((sent.to, sent.context, sent.cancelled), (rank as u32, context, false));
        assert_eq!(
            (status.source, status.tag, status.bytes),
            (from as i32, sent.tag, sent.data.len() as u64)
        );
        assert_eq!(sent.got_by.replace(number), None, "received twice");
        let length = sent.data.len();
        assert!(data[..length] == sent.data[..], "data of {length} bytes");
        assert!(data[length..].iter().all(|&byte| byte == 0), "nothing beyond the message");
    }

    /// A matched probe succeeded: the receive counts from now.
    fn matched(&mut self, rank: usize, message: MessageId, status: weft_engine::Status, wanted: Wanted) {
        assert!(wanted.1.is_none_or(|source| source == status.source.0));
        assert!(wanted.2.is_none_or(|tag| tag == status.tag.0));
        let member = &mut self.members[rank];
        // Its place in the order is kept by an entry without a room.
        member.recvs.push(Received { wanted, room: Scratch::new(ROOM), cancelled: false, got: None });
        self.keep(rank, Open::Message(message, wanted));
        let number = self.members[rank].recvs.len() - 1;
        if let Some((_, Open::Message(_, (context, ..)))) = self.members[rank].open.last_mut() {
            // The number of the receive travels in the channel's upper part.
            *context += 2 * number;
        }
    }

    fn start_port(&mut self, rank: usize, index: usize) {
        let (key, Open::Port(handle, room, port, None)) = self.members[rank].open[index].clone() else {
            return;
        };
        let number = match port {
            Port::Send(to, tag) => {
                let number = self.members[rank].sends.len();
                let mut data = read(&room);
                data[..4].copy_from_slice(&(rank as u32).to_le_bytes());
                data[4..8].copy_from_slice(&(number as u32).to_le_bytes());
                fill(&room, &data);
                self.members[rank].sends.push(Sent { to, tag, context: 0, data, ..Sent::default() });
                number
            }
            Port::Recv(wanted) => {
                fill(&room, &vec![0; ROOM]);
                let recvs = &mut self.members[rank].recvs;
                recvs.push(Received { wanted, room: Arc::clone(&room), cancelled: false, got: None });
                recvs.len() - 1
            }
        };
        let member = &mut self.members[rank];
        match member.process.start_request(handle) {
            Ok(()) => member.open[index] = (key, Open::Port(handle, room, port, Some(number))),
            Err(error) => {
                assert_eq!(error.class(), ErrorClass::BUFFER);
                member.sends[number].cancelled = true;
            }
        }
    }

    fn new_port(&mut self, rank: usize) {
        let comm_world = 0;
        if self.below(2) == 0 {
            let (number, envelope, room) = self.message(rank, comm_world);
            let Sent { to, tag, .. } = self.members[rank].sends[number];
            self.members[rank].sends.pop();
            let buffer = room.send_buf(0, room.len());
            let operation = match self.below(3) {
                0 => Operation::Buffered(Some(envelope), buffer),
                1 => Operation::Send(Some(envelope), SendMode::Synchronous, buffer),
                _ => Operation::Send(Some(envelope), SendMode::Standard, buffer),
            };
            let handle = self.members[rank].process.persistent(operation, COMM).expect("room");
            self.keep(rank, Open::Port(handle, room, Port::Send(to, tag), None));
        } else {
            let (_, source, tag) = self.wanted();
            let (wanted, room) = ((comm_world, source, tag), Scratch::new(ROOM));
            let operation = Operation::Receive(Some(selector(wanted)), room.recv_buf(0, ROOM));
            let handle = self.members[rank].process.persistent(operation, COMM).expect("room");
            self.keep(rank, Open::Port(handle, room, Port::Recv(wanted), None));
        }
    }

    fn cancel(&mut self, rank: usize, index: usize) {
        let handle = match &self.members[rank].open[index].1 {
            Open::Send(handle, ..) | Open::Recv(handle, ..) | Open::Port(handle, _, _, Some(_)) => *handle,
            _ => return,
        };
        self.members[rank].process.cancel(handle).expect("can be cancelled");
    }

    /// Completes one entry if it is done; false when it is not, or is nothing that completes.
    fn complete(&mut self, rank: usize, index: usize) -> bool {
        let (key, open) = self.members[rank].open[index].clone();
        let process = &mut self.members[rank].process;
        let (handle, number, is_send) = match &open {
            Open::Send(handle, number, _) => (*handle, *number, true),
            Open::Recv(handle, number) => (*handle, *number, false),
            Open::Port(handle, _, port, Some(number)) => (*handle, *number, matches!(port, Port::Send(..))),
            Open::Flush(handle) => {
                if process.is_done(*handle) {
                    assert_eq!(process.finish(*handle).error, None);
                    self.members[rank].open.remove(index);
                    return true;
                }
                return false;
            }
            Open::Message(..) | Open::Port(_, _, _, None) => return false,
        };
        if !process.is_done(handle) {
            return false;
        }
        let done = process.finish(handle);
        assert_eq!(done.error, None);
        match open {
            Open::Port(handle, room, port, _) => {
                self.members[rank].open[index] = (key, Open::Port(handle, room, port, None));
            }
            _ => drop(self.members[rank].open.remove(index)),
        }
        match (is_send, done.status.cancelled) {
            (true, cancelled) => self.members[rank].sends[number].cancelled |= cancelled,
            (false, true) => {
                let recv = &mut self.members[rank].recvs[number];
                recv.cancelled = true;
                assert!(
                    read(&recv.room).iter().all(|&byte| byte == 0),
                    "a cancelled receive changes nothing"
                );
            }
            (false, false) => self.got(rank, number, done.status),
        }
        true
    }

    fn take_message(&mut self, rank: usize, index: usize) {
        let (_, Open::Message(message, (place, ..))) = self.members[rank].open[index].clone() else { return };
        let number = place / 2;
        let member = &mut self.members[rank];
        member.open.remove(index);
        let room = member.recvs[number].room.recv_buf(0, ROOM);
        let request = member.process.engine.imrecv(message, room).expect("probed");
        self.keep(rank, Open::Recv(engine_handle(request), number));
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
        let open = self.members[rank].open.len();
        let some = self.below(open.max(1));
        match self.below(20) {
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

    /// Everything that can move moves, and what is complete is completed.
    fn settle(&mut self) {
        let mut calm = 0;
        for _ in 0..200_000 {
            let rank = self.below(self.members.len());
            let moved = self.members[rank].process.progress();
            let mut ended = false;
            if !moved {
                for index in (0..self.members[rank].open.len()).rev() {
                    ended |= self.complete(rank, index);
                }
            }
            calm = if moved || ended { 0 } else { calm + 1 };
            if calm > 150 + 60 * self.members.len() {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// Whoever waits is helped: receives that got nothing are cancelled, messages that nobody took are received.
    fn wind_up(&mut self) {
        self.settle();
        for rank in 0..self.members.len() {
            // A probe that nobody answered ends with the thread.
            self.members[rank].threads.fill_with(|| Thread::Free);
            for index in (0..self.members[rank].open.len()).rev() {
                match self.members[rank].open[index].1 {
                    Open::Message(..) => self.take_message(rank, index),
                    Open::Recv(..) | Open::Port(_, _, Port::Recv(_), _) => self.cancel(rank, index),
                    _ => {}
                }
            }
        }
        self.settle();
        for rank in 0..self.members.len() {
            for context in 0..2 {
                let sends = self.members.iter().flat_map(|member| &member.sends);
                let missing = sends
                    .filter(|sent| (sent.to, sent.context) == (rank as u32, context))
                    .filter(|sent| !sent.cancelled && sent.got_by.is_none())
                    .count();
                for _ in 0..missing {
                    self.receive(rank, (context, None, None), None);
                }
            }
        }
        self.settle();
        for member in &mut self.members {
            for (_, open) in std::mem::take(&mut member.open) {
                match open {
                    Open::Port(handle, _, _, None) => {
                        assert_eq!(member.process.free_request(handle).expect("inactive"), None);
                    }
                    Open::Port(_, _, _, Some(number)) | Open::Send(_, number, _) | Open::Recv(_, number) => {
                        panic!("operation {number} of rank {} does not end", member.process.job.rank)
                    }
                    Open::Message(..) | Open::Flush(_) => panic!("a message or flush was forgotten"),
                }
            }
            let process = &mut member.process;
            assert!(process.requests.buffers.is_all_flushed(&mut process.engine));
            assert!(process.engine.is_quiet(), "nothing is left under way");
            assert!(member.sends.iter().all(|sent| sent.cancelled != sent.got_by.is_some()));
        }
    }

    /// Section 3.5: of two messages of one sender that fit the same receive the older one is taken; of two receives that
    /// fit the same message the older one takes it.
    fn check_order(&self) {
        for (rank, member) in self.members.iter().enumerate() {
            for (sender, other) in self.members.iter().enumerate() {
                let accepts = |recv: &Received, sent: &Sent| {
                    recv.wanted.0 == sent.context
                        && recv.wanted.1.is_none_or(|source| source == sender as u32)
                        && recv.wanted.2.is_none_or(|tag| tag == sent.tag)
                };
                let sent: Vec<&Sent> =
                    other.sends.iter().filter(|sent| sent.to == rank as u32 && !sent.cancelled).collect();
                for (newer, late) in sent.iter().enumerate() {
                    let Some(by) = late.got_by else { continue };
                    for early in &sent[..newer] {
                        let overtaken =
                            accepts(&member.recvs[by], early) && early.got_by.is_none_or(|other| other > by);
                        assert!(!overtaken, "rank {rank}: a message of {sender} overtook an older one");
                    }
                    for (older, recv) in member.recvs[..by].iter().enumerate() {
                        let Some((from, got)) = recv.got else { continue };
                        let later = from == sender as u32
                            && accepts(recv, late)
                            && got > member.recvs[by].got.map_or(usize::MAX, |(_, got)| got);
                        assert!(!later, "rank {rank}: receive {older} was passed over");
                    }
                }
            }
        }
    }
}

/// Bytes from a seed.
fn weft_random(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some((state >> 32) as u8)
    })
}

fn run(seed: u64) {
    let mut program = Program::new(seed);
    let steps = 20 + program.below(300);
    for _ in 0..steps {
        let rank = program.below(program.members.len());
        let thread = program.below(program.members[rank].threads.len());
        program.act(rank, thread);
        let turns = program.below(12);
        program.progress(turns);
    }
    program.wind_up();
    program.check_order();
    let unused = RequestId::COMPLETE;
    assert!(program.members.iter().all(|member| member.process.is_done(engine_handle(unused))));
}

#[test]
fn random_programs_of_threads_match_as_the_model_says() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let first: u64 = number("WEFT_SEED").unwrap_or(0);
    let count = if number("WEFT_SEED").is_some() { 1 } else { number("WEFT_SEEDS").unwrap_or(150) };
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| run(seed));
        if let Err(panic) = outcome {
            eprintln!("the program of seed {seed} failed; WEFT_SEED={seed} replays it");
            std::panic::resume_unwind(panic);
        }
    }
}
