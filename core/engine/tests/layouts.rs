//! Messages between random layouts, read by the receiver or streamed: the data arrive, gaps and everything beyond stay as they
//! were, whatever is refused or denied on the way.

use weft_api::Transport;
use weft_datatype::{Datatype, Form, Memory};
use weft_engine::world::World;
use weft_engine::{Engine, EngineConfig, Envelope, Gaps, RequestId, Selector, SendMode, Started, Transports};
use weft_sim::{Random, SimConfig, SimFabric};
use weft_types::{ContextId, ErrorClass, PeerId, Rank, Tag, abi};
use weft_wire::{Announce, Announced, Header, Kind};

const CONTEXT: ContextId = ContextId(4);
/// Bytes of memory behind each buffer; displacements lie inside.
const ROOM: u64 = 1 << 17;

fn byte() -> Datatype {
    Datatype::from(Datatype::predefined(abi::MPI_BYTE).expect("predefined"))
}

/// A layout of at least `least` packed bytes inside [`ROOM`], of blocks that do not overlap; and where each packed byte is.
fn layout(random: &mut Random, least: u64) -> (Datatype, Vec<usize>) {
    let (mut lengths, mut displacements, mut at, mut bytes) = (Vec::new(), Vec::new(), random.below(9), 0);
    let longest = [1, 8, 64, 3000][random.below(4) as usize];
    let regular = random.chance(0.3).then_some((1 + random.below(longest), 1 + random.below(20)));
    while bytes < least {
        let (length, gap) = regular.unwrap_or_else(|| (1 + random.below(longest), random.below(20)));
        lengths.push(length as i64);
        displacements.push(at as i64);
        (at, bytes) = (at + length + gap, bytes + length);
    }
    assert!(at < ROOM, "the layout fits its memory");
    // Packed order is any order.
    if regular.is_none() {
        for i in 1..lengths.len() {
            let j = random.below(i as u64 + 1) as usize;
            lengths.swap(i, j);
            displacements.swap(i, j);
        }
    }
    let datatype = Datatype::hindexed(&lengths, &displacements, &byte(), Form::Int).expect("legal");
    let runs = lengths.iter().zip(&displacements);
    (datatype, runs.flat_map(|(&len, &at)| at as usize..(at + len) as usize).collect())
}

/// All bytes of a memory.
fn image(memory: &Memory) -> Vec<u8> {
    let mut all = vec![0; ROOM as usize];
    memory.retyped(&byte()).send_view(0, 0, ROOM).pack(0, &mut all);
    all
}

struct Message {
    data: Memory,
    from: Vec<usize>,
    sent: u64,
    room: Memory,
    to: Vec<usize>,
    wanted: u64,
    send: Option<RequestId>,
    receive: Option<RequestId>,
}

/// One sender and one receiver exchange some messages between a few layouts, so that layouts are told, known and forgotten.
fn exchange(seed: u64, gaps: fn(&mut EngineConfig), denial: f64) {
    let mut random = Random::new(seed);
    let full = if random.chance(0.5) { 0.3 } else { 0.0 };
    let max_copy = [96, 1024, 8192][random.below(3) as usize];
    let mut world = World::new(2)
        .seed(seed)
        .full(full)
        .fabric(|sim| {
            sim.max_copy = max_copy;
            sim.denial = denial;
        })
        .engines(gaps)
        .build();
    let types: Vec<_> = (0..1 + random.below(24)).map(|_| layout(&mut random, 4000)).collect();
    let mut messages = Vec::new();
    for number in 0..40 {
        let pick = |random: &mut Random| types[random.below(types.len() as u64) as usize].clone();
        let ((source, from), (target, to)) = (pick(&mut random), pick(&mut random));
        let data = Memory::packed_scratch(ROOM as usize);
        let fill: Vec<u8> = (0..ROOM).map(|i| (i as u8 ^ number as u8) | 1).collect();
        data.recv_view(0, 0, ROOM).unpack(0, &fill);
        let (data, room) = (data.retyped(&source), Memory::packed_scratch(ROOM as usize).retyped(&target));
        // Parts of a buffer: what is skipped in front, and what is shorter or longer at the other end.
        let (sent, wanted) = (1 + random.below(4000), 1 + random.below(4000));
        let skip = random.below(4000 - sent + 1);
        let from = from[skip as usize..(skip + sent) as usize].to_vec();
        let buffer = data.send_view(0, skip, sent);
        let selector = Selector {
            context: CONTEXT,
            peer: Some(PeerId(0)),
            source: Some(Rank(0)),
            tag: Some(Tag(number)),
        };
        let envelope = Envelope { peer: PeerId(1), context: CONTEXT, source: Rank(0), tag: Tag(number) };
        let mode = if random.chance(0.3) { SendMode::Synchronous } else { SendMode::Standard };
        let early = random.chance(0.5);
        let post = |world: &mut World| {
            world.engines[1].recv(selector, room.recv_view(0, 0, wanted)).expect("room for a request")
        };
        let before = early.then(|| post(&mut world));
        let send = match world.engines[0].send(envelope, mode, buffer).expect("nobody dies") {
            Started::Complete => None,
            Started::Pending(request) => Some(request),
        };
        for _ in 0..random.below(60) {
            world.step();
        }
        let receive = Some(before.unwrap_or_else(|| post(&mut world)));
        messages.push(Message { data, from, sent, room, to, wanted, send, receive });
    }
    world.settle();
    for message in &mut messages {
        if let Some(send) = message.send.take() {
            assert_eq!(world.engines[0].take(send).error, None);
        }
        let receive = message.receive.take().expect("posted");
        assert!(world.engines[1].is_complete(receive), "the world is at rest");
        let completion = world.engines[1].take(receive);
        let got = message.sent.min(message.wanted) as usize;
        assert_eq!(completion.status.bytes, got as u64);
        let class = completion.error.as_ref().map(weft_types::Error::class);
        assert_eq!(class, (message.sent > message.wanted).then_some(ErrorClass::TRUNCATE));
        let (sent, mut expected) = (image(&message.data), vec![0; ROOM as usize]);
        for (from, to) in message.from.iter().zip(&message.to).take(got) {
            expected[*to] = sent[*from];
        }
        assert!(image(&message.room) == expected, "{got} bytes arrive where they belong and nowhere else");
    }
}

fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("WEFT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(25)
}

fn read(config: &mut EngineConfig) {
    config.gaps = Gaps::Read;
    config.eager_limit = 100;
}

#[test]
fn layouts_are_read_by_the_receiver() {
    seeds().for_each(|seed| exchange(seed, read, 0.0));
}

#[test]
fn what_is_denied_in_the_middle_is_streamed() {
    seeds().for_each(|seed| exchange(seed, read, 0.02));
}

#[test]
fn layouts_are_streamed_and_chosen() {
    let stream = |config: &mut EngineConfig| {
        config.gaps = Gaps::Stream;
        config.eager_limit = 100;
    };
    let auto = |config: &mut EngineConfig| {
        config.oversubscribed = true;
        config.eager_limit = 100;
    };
    seeds().for_each(|seed| {
        exchange(seed, stream, 0.0);
        exchange(seed, auto, 0.0);
    });
}

/// Announcements with layouts from somebody who lies: true ones with bytes changed, slots never told, absurd lengths and
/// addresses.
#[test]
fn layouts_of_a_liar_break_nothing() {
    let mut random = Random::new(11);
    let true_ones: Vec<Vec<u8>> =
        (0..20).filter_map(|_| layout(&mut random, 40).0.layout().to_bytes(Announced::LONGEST)).collect();
    for _ in 0..800 {
        let fabric = SimFabric::new(2, SimConfig { delay: 0, max_copy: 4096, ..SimConfig::default() });
        let mut liar = fabric.port(1);
        let mut config = EngineConfig::new(PeerId(0), 2);
        read(&mut config);
        let mut engine = Engine::new(config, Transports::Sim(fabric.port(0))).expect("an engine");
        let room = Memory::packed_scratch(ROOM as usize).retyped(&layout(&mut random, 4000).0);
        for tag in 0..4 {
            let mut program = true_ones[random.below(true_ones.len() as u64) as usize].clone();
            for _ in 0..random.below(4) {
                let at = random.below(program.len() as u64) as usize;
                program[at] = random.next() as u8;
            }
            if random.chance(0.2) {
                program.clear();
            }
            let odd =
                |random: &mut Random| if random.chance(0.5) { random.below(5000) } else { random.next() };
            let address = if random.chance(0.5) { program.as_ptr() as u64 } else { random.next() };
            let announce = Announce { length: odd(&mut random), address, request: 1, lead: 0 };
            let announced =
                Announced { skip: odd(&mut random), slot: random.below(20) as u32, program: &program };
            let header = Header::new(Kind::Rts, CONTEXT, Rank(1), Tag(tag)).with_flags(Announce::SCATTERED);
            let bytes = Announce::BYTES + Announced::BYTES + program.len();
            let sent = liar.send_copy(PeerId(0), header, bytes, |out| {
                let (front, back) = out.split_at_mut(Announce::BYTES);
                front.copy_from_slice(&announce.emit());
                announced.put(back);
            });
            assert_eq!(sent, Ok(()));
            let from = Selector {
                context: CONTEXT,
                peer: Some(PeerId(1)),
                source: Some(Rank(1)),
                tag: Some(Tag(tag)),
            };
            let _ = engine.recv(from, room.recv_view(0, 0, 4000)).expect("room for a request");
            for _ in 0..8 {
                engine.progress();
                while liar.peek(PeerId(0)).is_some() {
                    liar.advance(PeerId(0));
                }
            }
        }
    }
}
