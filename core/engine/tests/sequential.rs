//! Random programs, one operation after the other, against the plainest model of matching: ordered lists.
//!
//! After every operation the world comes to rest, so the model knows exactly which receive gets which message.
//! Sizes lie around every border of every protocol. Covers (musts.md): section 3.2.4 truncation, section 3.4 modes,
//! section 3.5 order, section 3.8 probe, matched probe and cancel.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_datatype::Scratch;
use weft_engine::world::World;
use weft_engine::{Clock, Envelope, Layers, MessageId, RequestId, Selector, SendMode, Started};
use weft_sim::Random;
use weft_types::params::{FaultPlan, LatencyModel};
use weft_types::{ContextId, ErrorClass, PeerId, Rank, Tag};

const RANKS: u32 = 3;

struct SendOp {
    from: u32,
    to: u32,
    tag: i32,
    context: u32,
    data: Arc<Scratch>,
    mode: SendMode,
    request: Option<RequestId>,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Nobody has matched it.
    Unmatched,
    /// Taken out by a matched probe.
    Extracted,
    /// A receive has started on it.
    Received,
    Cancelled,
}

struct RecvOp {
    at: u32,
    selector: (u32, Option<u32>, Option<i32>),
    room: Arc<Scratch>,
    request: RequestId,
    got: Option<usize>,
    over: bool,
}

struct Model {
    world: World,
    sends: Vec<SendOp>,
    recvs: Vec<RecvOp>,
    /// Per rank, oldest first: indices of sends.
    unexpected: Vec<Vec<usize>>,
    /// Per rank, oldest first: indices of receives.
    posted: Vec<Vec<usize>>,
    extracted: Vec<(u32, MessageId, usize)>,
}

fn accepts(selector: (u32, Option<u32>, Option<i32>), send: &SendOp) -> bool {
    selector.0 == send.context
        && selector.1.is_none_or(|source| source == send.from)
        && selector.2.is_none_or(|tag| tag == send.tag)
}

fn selector((context, source, tag): (u32, Option<u32>, Option<i32>)) -> Selector {
    Selector {
        context: ContextId(context),
        peer: source.map(PeerId),
        source: source.map(Rank),
        tag: tag.map(Tag),
    }
}

fn filled(bytes: usize, seed: u64) -> Arc<Scratch> {
    let scratch = Scratch::new(bytes);
    let mut random = Random::new(seed);
    let mut buffer = scratch.recv_buf(0, bytes);
    for byte in buffer.as_mut_slice().unwrap() {
        *byte = random.next() as u8;
    }
    scratch
}

fn bytes(scratch: &Arc<Scratch>) -> Vec<u8> {
    scratch.send_buf(0, scratch.len()).as_slice().unwrap().to_vec()
}

/// Around: empty, inline 48, packet 256 (minus 8 and 24 of prefixes), lead 1024, eager 2048, budget 8192.
const BORDERS: [usize; 11] = [0, 8, 48, 232, 248, 256, 512, 1024, 2048, 8192, 20_000];

/// How a message was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Met {
    /// By a receive that was posted before.
    Posted,
    /// By a receive that came after it.
    Late,
    /// By a receive of one call, which finds it there.
    AtOnce,
    /// By a matched probe, and then its receive.
    Extracted,
    /// By nobody: its sender took it back.
    Cancelled,
}

thread_local! {
    /// How often a message of that length, synchronous or not, was met so.
    static SEEN: RefCell<BTreeMap<(usize, bool, Met), u32>> = RefCell::default();
}

fn size(random: &mut Random) -> usize {
    let border = BORDERS[random.below(BORDERS.len() as u64) as usize];
    (border + random.below(3) as usize).saturating_sub(1)
}

impl Model {
    fn new(seed: u64) -> Model {
        let mut random = Random::new(seed);
        let (single_copy, full) = (random.chance(0.5), if random.chance(0.5) { 0.2 } else { 0.0 });
        let denial = if random.chance(0.3) { 0.5 } else { 0.0 };
        let plan = World::new(RANKS).seed(seed).full(full).fabric(|sim| {
            (sim.max_copy, sim.header) = (256, if seed % 4 < 2 { 48 } else { 0 });
            sim.depth = 4;
            sim.delay = 5;
            sim.single_copy = single_copy;
            sim.denial = denial;
            // Both ways in turn, as if their times were those of a machine that is never quiet.
            sim.compared = seed.is_multiple_of(2);
        });
        let plan = plan.engines(if random.chance(0.5) {
            |config| {
                config.eager_limit = 2048;
                config.eager_budget_per_sender = 8192;
                config.oversubscribed = true;
            }
        } else {
            |config| {
                config.eager_limit = 2048;
                config.eager_budget_per_sender = 8192;
                config.clock = Clock::Drawn;
            }
        });
        // After all other choices, which so stay those of their seeds.
        let layers = match random.below(4) {
            0 => Layers {
                faults: FaultPlan::parse(&format!(
                    "seed={seed},delay=0.2:60ns,loss=0.02:100ns,refuse=0.2:5,deny=0.3"
                )),
                ..Layers::default()
            },
            1 => Layers {
                latency: LatencyModel::parse("40ns,gap=2ns,bandwidth=20G,node=2"),
                ..Layers::default()
            },
            _ => Layers::default(),
        };
        Model {
            world: plan.layers(layers).build(),
            sends: Vec::new(),
            recvs: Vec::new(),
            unexpected: vec![Vec::new(); RANKS as usize],
            posted: vec![Vec::new(); RANKS as usize],
            extracted: Vec::new(),
        }
    }

    fn random_selector(&mut self) -> (u32, Option<u32>, Option<i32>) {
        let random = &mut self.world.random;
        let source = (!random.chance(0.3)).then(|| random.below(u64::from(RANKS)) as u32);
        let tag = (!random.chance(0.3)).then(|| random.below(3) as i32);
        (4 + 2 * random.below(2) as u32, source, tag)
    }

    fn send(&mut self) {
        let random = &mut self.world.random;
        let (from, to) = (random.below(u64::from(RANKS)) as u32, random.below(u64::from(RANKS)) as u32);
        let (tag, context) = (random.below(3) as i32, 4 + 2 * random.below(2) as u32);
        let data = filled(size(random), random.next());
        let mode = match random.below(3) {
            0 => SendMode::Synchronous,
            _ => SendMode::Standard,
        };
        let envelope =
            Envelope { peer: PeerId(to), context: ContextId(context), source: Rank(from), tag: Tag(tag) };
        let buffer = data.send_buf(0, data.len());
        let request = match self.world.engines[from as usize].send(envelope, mode, buffer).unwrap() {
            Started::Complete => None,
            Started::Pending(request) => Some(request),
        };
        let index = self.sends.len();
        self.sends.push(SendOp { from, to, tag, context, data, mode, request, fate: Fate::Unmatched });
        let posted = &mut self.posted[to as usize];
        match posted.iter().position(|&recv| accepts(self.recvs[recv].selector, &self.sends[index])) {
            Some(at) => {
                let recv = posted.remove(at);
                self.matched(recv, index, Met::Posted);
            }
            None => self.unexpected[to as usize].push(index),
        }
    }

    fn note(&self, send: usize, met: Met) {
        let send = &self.sends[send];
        let what = (send.data.len(), send.mode == SendMode::Synchronous, met);
        SEEN.with_borrow_mut(|seen| *seen.entry(what).or_default() += 1);
    }

    fn matched(&mut self, recv: usize, send: usize, met: Met) {
        self.note(send, met);
        self.recvs[recv].got = Some(send);
        self.sends[send].fate = Fate::Received;
    }

    fn oldest(&self, at: u32, wanted: (u32, Option<u32>, Option<i32>)) -> Option<usize> {
        self.unexpected[at as usize].iter().position(|&send| accepts(wanted, &self.sends[send]))
    }

    fn recv(&mut self, at: u32, wanted: (u32, Option<u32>, Option<i32>), room: usize) {
        let room = filled(room, 99);
        let request = self.world.engines[at as usize].recv(selector(wanted), room.recv_buf(0, room.len()));
        let recv = self.recvs.len();
        let request = request.unwrap();
        self.recvs.push(RecvOp { at, selector: wanted, room, request, got: None, over: false });
        match self.oldest(at, wanted) {
            Some(place) => {
                let send = self.unexpected[at as usize].remove(place);
                self.matched(recv, send, Met::Late);
            }
            None => self.posted[at as usize].push(recv),
        }
    }

    fn try_recv(&mut self, at: u32, wanted: (u32, Option<u32>, Option<i32>)) {
        let room = filled(4096, 98);
        let mut buffer = room.recv_buf(0, room.len());
        let done = self.world.engines[at as usize].try_recv(selector(wanted), &mut buffer);
        let Some(completion) = done else { return };
        let place = self.oldest(at, wanted).expect("only a message that is there is received");
        let send = self.unexpected[at as usize].remove(place);
        self.note(send, Met::AtOnce);
        self.sends[send].fate = Fate::Received;
        let sent = bytes(&self.sends[send].data);
        let fits = sent.len().min(room.len());
        assert_eq!(bytes(&room)[..fits], sent[..fits]);
        assert_eq!(completion.status.bytes, fits as u64);
        assert_eq!(completion.error.is_some(), fits < sent.len());
    }

    fn probe(&mut self, at: u32, wanted: (u32, Option<u32>, Option<i32>), extract: bool) {
        let place = self.oldest(at, wanted);
        let engine = &mut self.world.engines[at as usize];
        let seen = engine.iprobe(selector(wanted));
        let model = place.map(|place| &self.sends[self.unexpected[at as usize][place]]);
        assert_eq!(seen.is_some(), model.is_some());
        if let (Some(status), Some(send)) = (seen, model) {
            assert_eq!(
                (status.source, status.tag, status.bytes),
                (Rank(send.from), Tag(send.tag), send.data.len() as u64)
            );
        }
        if let (true, Some(place)) = (extract, place) {
            let (message, status) = engine.improbe(selector(wanted)).unwrap();
            assert_eq!(Some(status), seen);
            let send = self.unexpected[at as usize].remove(place);
            self.sends[send].fate = Fate::Extracted;
            self.extracted.push((at, message, send));
        }
    }

    fn imrecv(&mut self, which: usize) {
        let (at, message, send) = self.extracted.remove(which);
        let size = size(&mut self.world.random);
        let room = filled(size, 97);
        let engine = &mut self.world.engines[at as usize];
        assert!(engine.message_exists(message));
        let request = engine.imrecv(message, room.recv_buf(0, room.len())).unwrap();
        assert!(!engine.message_exists(message));
        assert_eq!(
            engine.imrecv(message, weft_datatype::RecvBuf::empty()).unwrap_err().class(),
            ErrorClass::ARG
        );
        self.recvs.push(RecvOp { at, selector: (0, None, None), room, request, got: None, over: false });
        self.matched(self.recvs.len() - 1, send, Met::Extracted);
    }

    fn cancel_recv(&mut self, at: u32) {
        let posted = &mut self.posted[at as usize];
        if posted.is_empty() {
            return;
        }
        let recv = posted.remove(self.world.random.below(posted.len() as u64) as usize);
        let request = self.recvs[recv].request;
        let engine = &mut self.world.engines[at as usize];
        engine.cancel(request);
        assert!(engine.is_complete(request), "cancelling an unmatched receive is local");
        assert!(engine.take(request).status.cancelled);
        assert!(!engine.exists(request));
        self.recvs[recv].over = true;
        assert_eq!(bytes(&self.recvs[recv].room), bytes(&filled(self.recvs[recv].room.len(), 99)));
    }

    fn cancel_send(&mut self) {
        let pending: Vec<usize> =
            (0..self.sends.len()).filter(|&send| self.sends[send].request.is_some()).collect();
        if pending.is_empty() {
            return;
        }
        let send = pending[self.world.random.below(pending.len() as u64) as usize];
        let SendOp { from, to, fate, request: Some(request), .. } = self.sends[send] else { return };
        self.world.engines[from as usize].cancel(request);
        self.world.settle();
        let engine = &mut self.world.engines[from as usize];
        match fate {
            Fate::Unmatched => {
                assert!(engine.is_complete(request), "a cancelled send completes");
                if engine.take(request).status.cancelled {
                    self.note(send, Met::Cancelled);
                    self.sends[send].fate = Fate::Cancelled;
                    self.unexpected[to as usize].retain(|&other| other != send);
                }
                self.sends[send].request = None;
            }
            _ => assert!(engine.peek(request).is_none_or(|done| !done.status.cancelled)),
        }
    }

    /// At rest: everything matched is complete and right, nothing else is (but for buffered sends).
    fn check(&mut self) {
        self.world.settle();
        for recv in self.recvs.iter_mut().filter(|recv| !recv.over) {
            let engine = &mut self.world.engines[recv.at as usize];
            assert_eq!(engine.is_complete(recv.request), recv.got.is_some());
            let Some(send) = recv.got.map(|send| &self.sends[send]) else { continue };
            let completion = engine.take(recv.request);
            recv.over = true;
            let fits = send.data.len().min(recv.room.len());
            let (got, sent) = (bytes(&recv.room), bytes(&send.data));
            assert!(got[..fits] == sent[..fits], "data of {} bytes", send.data.len());
            let filler = bytes(&filled(recv.room.len(), 99));
            assert!(got[fits..] == filler[fits..] || recv.selector.0 == 0, "nothing beyond the message");
            let status = completion.status;
            assert_eq!((status.source, status.tag), (Rank(send.from), Tag(send.tag)));
            assert_eq!((status.bytes, status.cancelled), (fits as u64, false));
            let error = completion.error.map(|error| error.class());
            assert_eq!(error, (fits < send.data.len()).then_some(ErrorClass::TRUNCATE));
        }
        for send in &mut self.sends {
            let Some(request) = send.request else { continue };
            let engine = &mut self.world.engines[send.from as usize];
            let complete = engine.is_complete(request);
            match send.fate {
                Fate::Received => assert!(complete, "a received send of {} bytes completes", send.data.len()),
                Fate::Unmatched | Fate::Extracted if send.mode == SendMode::Synchronous => {
                    assert!(!complete, "a synchronous send waits for the receive");
                }
                _ => {}
            }
            if complete {
                let completion = engine.take(request);
                assert_eq!((completion.status.cancelled, completion.error), (false, None));
                send.request = None;
            }
        }
    }

    fn wind_up(&mut self) {
        while !self.extracted.is_empty() {
            self.imrecv(0);
        }
        for at in 0..RANKS {
            while !self.posted[at as usize].is_empty() {
                self.cancel_recv(at);
            }
            while !self.unexpected[at as usize].is_empty() {
                let context = self.sends[self.unexpected[at as usize][0]].context;
                self.recv(at, (context, None, None), 30_000);
            }
        }
        self.check();
        assert!(self.world.engines.iter().all(weft_engine::Engine::is_quiet));
    }
}

fn program(seed: u64) {
    let mut model = Model::new(seed);
    let steps = 10 + model.world.random.below(60);
    for _ in 0..steps {
        let at = model.world.random.below(u64::from(RANKS)) as u32;
        let wanted = model.random_selector();
        match model.world.random.below(16) {
            0..6 => model.send(),
            6..10 => {
                let room = size(&mut model.world.random) * model.world.random.below(3) as usize;
                model.recv(at, wanted, room);
            }
            10 => model.try_recv(at, wanted),
            11 => model.probe(at, wanted, false),
            12 => model.probe(at, wanted, true),
            13 if !model.extracted.is_empty() => model.imrecv(0),
            14 => model.cancel_recv(at),
            15 => model.cancel_send(),
            _ => {}
        }
        model.check();
    }
    model.wind_up();
}

/// Every length around every border was met in every way that does not hang on chance much: so the programs are about what they
/// say.
fn all_borders_were_crossed() {
    SEEN.with_borrow(|seen| {
        let times = |length: usize, synchronous: bool, met: Met| {
            seen.get(&(length, synchronous, met)).copied().unwrap_or_default()
        };
        for border in BORDERS {
            let around = [border.saturating_sub(1), border, border + 1];
            for synchronous in [false, true] {
                for met in [Met::Posted, Met::Late] {
                    for length in around {
                        assert!(times(length, synchronous, met) > 0, "{length} {synchronous} {met:?}");
                    }
                }
                let of_all = |met| around.iter().map(|&length| times(length, synchronous, met)).sum::<u32>();
                assert!(of_all(Met::Extracted) > 0, "{border} {synchronous} extracted");
                // Only a send that is pending can be taken back, and only one that is there is found at once.
                assert!(!synchronous || of_all(Met::Cancelled) > 0, "{border} cancelled");
            }
        }
        assert!(seen.keys().any(|&(_, _, met)| met == Met::AtOnce));
    });
}

/// `WEFT_SEED=n` replays one seed; `WEFT_SEEDS=n` runs that many, `WEFT_PROGRAMS_OF_MESSAGES=n` if nothing is said of seeds.
#[test]
fn random_programs_match_as_ordered_lists_do() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    if let Some(seed) = number("WEFT_SEED") {
        return program(seed);
    }
    let seeds = number("WEFT_SEEDS").or(number("WEFT_PROGRAMS_OF_MESSAGES")).unwrap_or(600);
    for seed in 0..seeds {
        program(seed);
    }
    if seeds >= 600 {
        all_borders_were_crossed();
    }
}
