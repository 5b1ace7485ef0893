//! Worlds in which word that a message was taken comes later than other signs of it. They print their seeds.

use super::*;
use weft_datatype::RecvBuf;
use weft_engine::world::World;
use weft_engine::{Selector, Status};
use weft_types::{ContextId, PeerId, Rank, Tag, abi};

const WORLD: Handle = Handle(abi::MPI_COMM_WORLD);
/// Longer than what is sent unasked.
const BYTES: usize = 5_000;

struct Ranks {
    world: World,
    processes: Vec<Process>,
}

impl Ranks {
    /// Three processes far apart; each has a buffer for one message.
    fn new(seed: u64) -> Ranks {
        println!("seed {seed}");
        let mut world = World::new(3)
            .seed(seed)
            .fabric(|sim| {
                sim.max_copy = 512;
                sim.delay = 100;
                sim.single_copy = seed.is_multiple_of(2);
            })
            .engines(|config| config.eager_limit = 1024)
            .build();
        let engines: Vec<Engine> = world.engines.drain(..).collect();
        let process = |(engine, rank): (Engine, u32)| {
            let mut process = Process::start().expect("nobody launched the tests");
            process.engine = engine;
            (process.job.rank, process.job.size) = (rank, 3);
            process.start_world();
            let attached = Attached { address: 8, size: BYTES as u64 + ENTRY, automatic: false };
            process.requests.buffers.attach(Owner::Process, attached).expect("none before");
            process
        };
        let processes = engines.into_iter().zip(0..).map(process).collect();
        Ranks { world, processes }
    }

    fn bsend(&mut self, from: usize, to: u32, content: u8) -> Result<()> {
        let room = Scratch::new(BYTES);
        room.recv_buf(0, BYTES).unpack(0, &[content; BYTES]);
        let process = &mut self.processes[from];
        let source = Rank(from as u32);
        let envelope = Envelope { peer: PeerId(to), context: context(process), source, tag: Tag(5) };
        let handle = process.buffered_send(WORLD, envelope, &room.send_buf(0, BYTES))?;
        if handle != engine_handle(RequestId::COMPLETE) {
            process.free_request(handle).expect("freed");
        }
        Ok(())
    }

    /// Receives at `at` while all move.
    fn receive(&mut self, at: usize, from: u32, tag: i32, into: RecvBuf) -> Status {
        let context = context(&self.processes[at]);
        let (source, tag) = (Some(Rank(from)), Some(Tag(tag)));
        let selector = Selector { context, peer: Some(PeerId(from)), source, tag };
        let request = self.processes[at].engine.recv(selector, into).expect("posted");
        self.until("a receive", |ranks| ranks.processes[at].engine.is_complete(request));
        let completion = self.processes[at].engine.take(request);
        assert_eq!(completion.error, None);
        completion.status
    }

    /// An empty message, which arrives.
    fn token(&mut self, from: usize, to: u32) {
        let process = &mut self.processes[from];
        let (source, context) = (Rank(from as u32), context(process));
        let envelope = Envelope { peer: PeerId(to), context, source, tag: Tag(9) };
        let empty = Scratch::new(0);
        let started = process.engine.send(envelope, SendMode::Standard, empty.send_buf(0, 0)).expect("sent");
        if let Started::Pending(request) = started {
            process.engine.release(request);
        }
        let into = empty.recv_buf(0, 0);
        self.receive(to as usize, from as u32, 9, into);
    }

    fn until(&mut self, what: &str, mut happens: impl FnMut(&mut Ranks) -> bool) {
        for _ in 0..100_000 {
            if happens(self) {
                return;
            }
            let rank = self.world.random.below(3) as usize;
            self.processes[rank].progress();
        }
        panic!("in vain: {what}");
    }

    /// Asks, and waits for the answers; `None`: there was nothing to ask.
    fn ask(&mut self, at: usize) -> Option<()> {
        let question = self.processes[at].ask_for_room()?;
        assert!(self.processes[at].ask_for_room().is_none(), "nothing new is to be asked");
        self.until("answers", |ranks| ranks.processes[at].is_answered(&question));
        Some(())
    }

    fn received(&mut self, at: usize, from: u32, content: u8) {
        let room = Scratch::new(BYTES);
        let status = self.receive(at, from, 5, room.recv_buf(0, BYTES));
        assert_eq!(status.bytes, BYTES as u64);
        let mut got = vec![0; BYTES];
        room.send_buf(0, BYTES).pack(0, &mut got);
        assert!(got.iter().all(|&byte| byte == content));
    }
}

fn context(process: &Process) -> ContextId {
    process.comms.get(WORLD).expect("the world").context
}

#[test]
fn what_was_received_makes_room_whoever_tells_of_it_first() {
    let mut asked = 0;
    for seed in 0..200 {
        let mut ranks = Ranks::new(seed);
        ranks.bsend(0, 1, 1).expect("room for one");
        ranks.received(1, 0, 1);
        // The receiver tells a third process, and that the sender.
        ranks.token(1, 2);
        ranks.token(2, 0);
        if let Err(error) = ranks.bsend(0, 1, 2) {
            assert_eq!(error.class(), ErrorClass::BUFFER);
            ranks.ask(0).expect("there is somebody to ask");
            asked += 1;
            ranks.bsend(0, 1, 2).expect("what was received has left");
        }
        ranks.received(1, 0, 2);
    }
    assert!(asked >= 5, "{asked}: the worlds are too kind");
}

#[test]
fn what_was_not_received_keeps_its_room_and_arrives() {
    for seed in 0..100 {
        let mut ranks = Ranks::new(seed);
        ranks.bsend(0, 1, 1).expect("room for one");
        // It is announced before anybody is asked about it.
        for _ in 0..50 {
            ranks.processes[0].progress();
        }
        for _ in 0..2 {
            assert_eq!(ranks.bsend(0, 2, 2).expect_err("full").class(), ErrorClass::BUFFER);
            ranks.ask(0).expect("there is somebody to ask");
            assert_eq!(ranks.bsend(0, 2, 2).expect_err("still full").class(), ErrorClass::BUFFER);
        }
        ranks.received(1, 0, 1);
        ranks.until("room", |ranks| {
            ranks.processes[0].progress();
            ranks.bsend(0, 2, 2).is_ok()
        });
        ranks.received(2, 0, 2);
    }
}

#[test]
fn nobody_is_asked_for_what_never_fits() {
    let mut ranks = Ranks::new(3);
    let large = Scratch::new(BYTES + 1);
    let process = &mut ranks.processes[0];
    let envelope = Envelope { peer: PeerId(1), context: context(process), source: Rank(0), tag: Tag(5) };
    let error = process.buffered_send(WORLD, envelope, &large.send_buf(0, BYTES + 1)).expect_err("too large");
    assert_eq!(error.class(), ErrorClass::BUFFER);
    assert!(process.ask_for_room().is_none());
}
