//! Reads that leave in one request: fewer calls of the library, and the same bytes.

mod world;

use weft_api::Transport;
use weft_api::verbs::Access;
use weft_api::zero_copy::{Completed, LocalRun, MemoryRange, Outcome, RegionId, RemoteRun, Token};
use weft_ofi::Ofi;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};
use world::{all, wanted};

const PATIENCE: usize = 1_000_000;
/// Of each read, in bytes; the last one is too long for company.
const LENGTHS: [usize; 10] = [5_000, 1, 40_000, 4_096, 65_536, 7, 20_000, 130_000, 65_000, 300_000];

fn range(bytes: &[u8]) -> MemoryRange {
    MemoryRange { address: bytes.as_ptr() as u64, length: bytes.len() as u64 }
}

/// Both have heard of each other, so that connections stand.
fn meet(reader: &mut Ofi, owner: &mut Ofi) {
    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
    reader.connect(PeerId(1)).unwrap();
    owner.connect(PeerId(0)).unwrap();
    let mut sent = false;
    for _ in 0..PATIENCE {
        sent = sent || owner.send_inline(PeerId(0), header, b"word").is_ok();
        [&mut *owner, &mut *reader].into_iter().for_each(|end| {
            end.progress();
            end.push_out();
        });
        if reader.peek(PeerId(1)).is_some() {
            return reader.advance(PeerId(1));
        }
    }
    panic!("in vain: a word");
}

fn read_all(provider: &str, in_turn: bool, requests: u64) {
    let Some(wanted) = wanted(provider) else { return };
    let (mut ends, _cards) = all(2, &wanted);
    let [reader, owner] = &mut ends[..] else { unreachable!("two ends") };
    meet(reader, owner);
    let there: Vec<Vec<u8>> = LENGTHS
        .iter()
        .enumerate()
        .map(|(at, &length)| (0..length).map(|byte| (byte * 7 + at) as u8).collect())
        .collect();
    let mut here: Vec<Vec<u8>> = LENGTHS.iter().map(|&length| vec![0; length]).collect();
    let regions: Vec<_> =
        there.iter().map(|bytes| owner.register(range(bytes), Access::ALL).expect("a region")).collect();
    let before = reader.requests();
    if in_turn {
        reader.progress();
    }
    for (at, room) in here.iter_mut().enumerate() {
        let from = [RemoteRun { memory: regions[at].remote, length: room.len() as u64 }];
        let into = [LocalRun {
            address: room.as_mut_ptr() as u64,
            length: room.len() as u64,
            region: RegionId(u32::MAX),
        }];
        while reader.get(PeerId(1), &from, &into, Token(at as u64)).is_err() {
            owner.progress();
            reader.progress();
        }
    }
    reader.push_out();
    let mut ended = Vec::new();
    for _ in 0..PATIENCE {
        reader.progress();
        owner.progress();
        while let Some(Completed { token, outcome }) = reader.completed() {
            assert!(matches!(outcome, Outcome::Done(_)));
            ended.push(token.0);
        }
        if ended.len() == LENGTHS.len() {
            break;
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, (0..LENGTHS.len() as u64).collect::<Vec<_>>(), "each is told of once");
    assert!(here == there, "and has the bytes of its own region");
    assert_eq!(reader.requests() - before, requests, "{provider}, in a turn: {in_turn}");
}

#[test]
fn reads_of_a_turn_leave_in_few_requests() {
    // Four and four as soon as they are there; the last two are too long to leave together.
    for provider in ["tcp", "net", "tcp;ofi_rxm"] {
        read_all(provider, true, 4);
    }
}

#[test]
fn outside_of_turns_each_read_leaves_at_once() {
    for provider in ["tcp", "net", "tcp;ofi_rxm"] {
        read_all(provider, false, LENGTHS.len() as u64);
    }
}
