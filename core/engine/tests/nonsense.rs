//! A peer that sends nonsense: packets of every kind with random fields and payloads, mixed with sense. Nothing
//! panics, no memory is taken for its promises, and once it is found out, operations that depend on it end.

use proptest::prelude::*;
use weft_api::{Refused, Transport};
use weft_datatype::Scratch;
use weft_engine::{Engine, EngineConfig, Envelope, Selector, SendMode, Started, Transports};
use weft_sim::{SimConfig, SimFabric};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

/// Kinds that there are, and the 0 that is none.
const KINDS: u64 = Kind::LAST as u64 + 1;
/// Those of every message that a program sends; of the others only nonsense brings more than a few.
const COMMON: u64 = Kind::Part as u64;

#[derive(Clone, Debug)]
enum Step {
    /// A packet from the stranger: the two header words and the payload.
    Packet(u64, u64, Vec<u8>),
    /// Our own operations.
    Send(usize, bool),
    Recv(bool),
    Cancel(usize),
    Progress,
}

fn word(kinds: u64) -> impl Strategy<Value = u64> {
    // Identifiers near those that exist, so that the packet meets a request now and then.
    (
        0..kinds,
        prop_oneof![0_u64..6, (0_u64..6).prop_map(|slot| slot | (1 << 20)), any::<u32>().prop_map(u64::from)],
    )
        .prop_map(|(kind, id)| kind | (id << 32))
}

/// As [`word`], with flags of any kind.
fn flagged(kinds: u64) -> impl Strategy<Value = u64> {
    (word(kinds), any::<u8>()).prop_map(|(word, flags)| word | (u64::from(flags) << 8))
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![0_u64..3000, any::<u64>(), Just((1 << 32) | 7)];
    let announce = (0_u64..70_000, any::<bool>(), 0_u32..5, prop_oneof![0_u32..70_000, any::<u32>()])
        .prop_map(|(length, readable, request, lead)| {
            weft_wire::Announce { length, address: u64::from(readable), request, lead }.emit().to_vec()
        });
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        (0_u32..6).prop_map(|id| id.to_le_bytes().to_vec()),
        announce,
        Just(vec![1; 1000]),
    ];
    let offer = (0_u64..70_000, any::<bool>(), 0_u32..5, any::<u64>()).prop_map(
        |(length, readable, request, stamp)| {
            weft_wire::Announce { length, address: u64::from(readable), request, lead: 0 }
                .stamped(stamp)
                .to_vec()
        },
    );
    let offered = prop_oneof![Just(16_u64), Just(48), Just(18)].prop_map(|flags| 3 | (flags << 8));
    prop_oneof![
        1 => (flagged(KINDS), value.clone(), payload.clone()).prop_map(|(a, b, payload)| Step::Packet(a, b, payload)),
        1 => (offered, value.clone(), offer).prop_map(|(a, b, payload)| Step::Packet(a, b, payload)),
        6 => (word(COMMON), value, payload).prop_map(|(a, b, payload)| Step::Packet(a, b, payload)),
        2 => (prop_oneof![Just(8_usize), Just(3000), Just(90_000)], any::<bool>()).prop_map(|(n, s)| Step::Send(n, s)),
        2 => any::<bool>().prop_map(Step::Recv),
        1 => (0_usize..10).prop_map(Step::Cancel),
        4 => Just(Step::Progress),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn nonsense_from_a_peer_breaks_nothing(steps in prop::collection::vec(step(), 0..60)) {
        let fabric = SimFabric::new(2, SimConfig { delay: 0, depth: 64, ..SimConfig::default() });
        let mut stranger = fabric.port(1);
        let mut engine = Engine::new(EngineConfig::new(PeerId(0), 2), Transports::Sim(fabric.port(0))).unwrap();
        let mut requests = Vec::new();
        let mut from_anybody = Vec::new();
        let mut memory = Vec::new();
        let mut has_left = false;
        for step in steps {
            match step {
                Step::Packet(a, b, payload) => {
                    let header = Header::from_words([a, b]);
                    has_left |= header.kind() == Some(Kind::Lost) && header.id() == 1;
                    let sent = stranger.send_copy(PeerId(0), header, payload.len(), |out| out.copy_from_slice(&payload));
                    prop_assert!(matches!(sent, Ok(()) | Err(Refused::Full)));
                }
                Step::Send(bytes, synchronous) => {
                    let data = Scratch::new(bytes);
                    let envelope =
                        Envelope { peer: PeerId(1), context: ContextId(0), source: Rank(0), tag: Tag(7) };
                    let mode = if synchronous { SendMode::Synchronous } else { SendMode::Standard };
                    if let Ok(Started::Pending(request)) = engine.send(envelope, mode, data.send_buf(0, bytes)) {
                        requests.push(request);
                    }
                    memory.push(data);
                }
                Step::Recv(any) => {
                    let room = Scratch::new(2000);
                    let from = Selector {
                        context: ContextId(0),
                        peer: (!any).then_some(PeerId(1)),
                        source: (!any).then_some(Rank(1)),
                        tag: (!any).then_some(Tag(7)),
                    };
                    let request = engine.recv(from, room.recv_buf(0, 2000)).unwrap();
                    requests.push(request);
                    if any {
                        from_anybody.push(request);
                    }
                    memory.push(room);
                }
                Step::Cancel(which) => {
                    if let Some(&request) = requests.get(which) {
                        engine.cancel(request);
                    }
                }
                Step::Progress => {
                    engine.progress();
                    while stranger.peek(PeerId(0)).is_some() {
                        stranger.advance(PeerId(0));
                    }
                }
            }
        }
        // A packet of unknown kind unmasks it for good.
        while stranger.send_copy(PeerId(0), Header::from_words([0xff, 0]), 0, |_| {}).is_err() {
            engine.progress();
        }
        for _ in 0..200 {
            engine.progress();
        }
        // Receives from anybody hear of the loss once, unless it had taken its leave; those posted after that one wait for the
        // living.
        let waiting = from_anybody.iter().position(|&request| !engine.is_complete(request));
        if let Some(first) = waiting {
            prop_assert!(first > 0 || has_left, "the first receive from anybody is told");
            from_anybody.drain(first..).for_each(|request| engine.cancel(request));
        }
        for request in requests {
            prop_assert!(engine.is_complete(request), "nothing waits for a peer that was found out");
            engine.take(request);
        }
        prop_assert!(engine.is_quiet());
    }
}
