//! Operations on exposed memory over the emulator and a network that loses, doubles and reorders, against plain memory: the
//! owner's engine does nothing but let its device work.

mod emulated;

use emulated::{ROOM, byte, engines, filled, image, step};
use std::time::{Duration, Instant};
use weft_datatype::{Datatype, Form, Memory};
use weft_engine::{
    Atomic, Engine, MemoryRange, Region, RemoteMemory, Rendezvous, RequestId, Started, Wished,
};
use weft_sim::Random;
use weft_types::{ErrorClass, PeerId};

const OWNER: PeerId = PeerId(1);

fn range(memory: &Memory) -> MemoryRange {
    MemoryRange { address: memory.address() as u64, length: ROOM }
}

fn expose(engines: &mut [Option<Engine>], memory: &Memory) -> Region {
    let owner = engines[1].as_mut().unwrap();
    owner
        .expose(range(memory), std::iter::once(PeerId(0)), Wished::WhereFree)
        .expect("the emulator takes it")
        .0
}

/// Waits until requests of engine 0 have ended, and answers how.
fn finish(engines: &mut [Option<Engine>], requests: &[RequestId]) -> Vec<Option<ErrorClass>> {
    let begun = Instant::now();
    while !requests.iter().all(|&request| engines[0].as_ref().unwrap().is_complete(request)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "stuck");
        step(engines);
    }
    let origin = engines[0].as_mut().unwrap();
    requests.iter().map(|&request| origin.take(request).error.map(|error| error.class())).collect()
}

fn pending(started: Started) -> Option<RequestId> {
    match started {
        Started::Complete => None,
        Started::Pending(request) => Some(request),
    }
}

fn flush(engines: &mut [Option<Engine>]) {
    let flushed = engines[0].as_mut().unwrap().flush_exposed(OWNER).expect("alive");
    let ends = finish(engines, &pending(flushed).into_iter().collect::<Vec<_>>());
    assert!(ends.iter().all(Option::is_none));
}

/// Blocks of `block` bytes, each with as many behind it that are not touched.
fn strided(block: u64, bytes: u64) -> Datatype {
    Datatype::vector(bytes as i64 / block as i64, block as i64, 2 * block as i64, &byte(), Form::Int)
        .expect("legal")
}

/// Puts and gets of all lengths from and into memory in one run and in blocks.
#[test]
fn what_was_put_is_there_after_a_flush_and_what_was_got_is_here() {
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let mut engines = engines(2, seed, Rendezvous::Auto);
        let exposed = filled(|at| at as u8);
        let region = expose(&mut engines, &exposed);
        let mut model = image(&exposed);
        for turn in 0..12 {
            let bytes = [8, 240, 241, 4096, 5000, 16384, 16400, 70_000, 300_000][random.below(9) as usize];
            let bytes = if bytes > 8 { bytes / 8 * 8 } else { bytes };
            let layout =
                if random.chance(0.4) { strided([8, 1000][turn % 2].min(bytes), bytes) } else { byte() };
            let bytes = if layout.is_contiguous() { bytes } else { layout.element_bytes() as u64 };
            let at = random.below(ROOM - bytes);
            let there = region.remote.plus(at);
            let place = at as usize..(at + bytes) as usize;
            let origin = engines[0].as_mut().unwrap();
            if random.chance(0.5) {
                let data =
                    filled(|byte| (byte as u8).wrapping_mul(turn as u8 + 3) ^ seed as u8).retyped(&layout);
                let started = origin.put_exposed(OWNER, data.send_view(0, 0, bytes), there).expect("alive");
                data.send_view(0, 0, bytes).pack(0, &mut model[place]);
                let ends = finish(&mut engines, &pending(started).into_iter().collect::<Vec<_>>());
                assert!(ends.iter().all(Option::is_none), "seed {seed}");
                flush(&mut engines);
            } else {
                assert!(origin.prepare_gets(OWNER), "the emulator registers whatever there is");
                let room = filled(|_| 0xee).retyped(&layout);
                let started = origin.get_exposed(OWNER, room.recv_view(0, 0, bytes), there).expect("alive");
                let request = pending(started).expect("nothing is here at once");
                assert_eq!(finish(&mut engines, &[request]), [None], "seed {seed}");
                let expected = filled(|_| 0xee).retyped(&layout);
                expected.recv_view(0, 0, bytes).unpack(0, &model[place]);
                assert!(image(&room) == image(&expected), "seed {seed}: a get of {bytes} bytes at {at}");
            }
            assert!(image(&exposed) == model, "seed {seed}: {bytes} bytes at {at}");
        }
    }
}

/// More of everything than a connection has room for: changes stay in their order, everything ends.
#[test]
fn changes_keep_their_order_whatever_room_there_is() {
    for seed in 0..3 {
        let mut engines = engines(2, seed, Rendezvous::Auto);
        let exposed = filled(|_| 0);
        let region = expose(&mut engines, &exposed);
        let found = filled(|_| 0xee);
        let mut requests = Vec::new();
        let origin = engines[0].as_mut().unwrap();
        for number in 0..400_u64 {
            let one = filled_word(number);
            requests.extend(pending(
                origin
                    .put_exposed(OWNER, one.send_view(0, 0, 8), region.remote.plus(8 + 8 * number))
                    .expect("alive"),
            ));
            // A swap succeeds only behind the one before it; every third adds instead.
            let change = match number % 3 {
                2 => Atomic::FetchAdd(1),
                _ => Atomic::CompareSwap { compare: number, swap: number + 1 },
            };
            let room = found.recv_view(8 * number as i64, 0, 8);
            requests
                .extend(pending(origin.change_exposed(OWNER, region.remote, change, room).expect("alive")));
        }
        assert!(finish(&mut engines, &requests).iter().all(Option::is_none), "seed {seed}");
        flush(&mut engines);
        let words = |memory: &Memory| -> Vec<u64> {
            image(memory).chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
        };
        assert_eq!(words(&found)[..400], (0..400).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(words(&exposed)[0], 400, "seed {seed}");
        assert_eq!(words(&exposed)[1..401], (0..400).collect::<Vec<_>>(), "seed {seed}");
    }
}

fn filled_word(word: u64) -> Memory {
    let memory = Memory::packed_scratch(8);
    memory.recv_view(0, 0, 8).unpack(0, &word.to_ne_bytes());
    memory
}

/// What was taken back is refused, and an owner that dies ends everything; nobody waits.
#[test]
fn refusals_and_deaths_end_what_is_under_way() {
    for dies in [false, true] {
        let mut engines = engines(2, 0, Rendezvous::Auto);
        let (exposed, room) = (filled(|at| at as u8), filled(|_| 0));
        let region = expose(&mut engines, &exposed);
        let get = |engines: &mut [Option<Engine>], from: RemoteMemory, at: i64| {
            let origin = engines[0].as_mut().unwrap();
            origin.get_exposed(OWNER, room.recv_view(at, 0, 100_000), from).ok().and_then(pending)
        };
        let first = get(&mut engines, region.remote, 0).expect("alive");
        assert_eq!(finish(&mut engines, &[first]), [None]);
        let requests: Vec<RequestId> =
            (0..5).filter_map(|number| get(&mut engines, region.remote, 100_000 * number)).collect();
        if dies {
            engines[1] = None;
        } else {
            engines[1].as_mut().unwrap().withdraw(region.id);
        }
        let ends = finish(&mut engines, &requests);
        assert!(ends.iter().any(Option::is_some), "everything was through already");
        let allowed = [ErrorClass::PROC_ABORTED, ErrorClass::RMA_RANGE];
        assert!(
            ends.iter().flatten().all(|class| allowed[..2 - usize::from(dies)].contains(class)),
            "{ends:?}"
        );
    }
}
