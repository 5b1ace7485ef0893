//! Rings of shared memory, both ends in one thread: the instructions of sending and receiving without the way between cores.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "criterion's macros make items without")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use weft_api::Transport;
use weft_shm::{Config, Shm, Waking};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

const A: PeerId = PeerId(0);
const B: PeerId = PeerId(1);

fn pair() -> (Shm, Shm) {
    let file = weft_shm::create().expect("a memory file");
    let attach = |local| {
        let file = file.try_clone().expect("a descriptor");
        Shm::attach(Config { file, local, peers: vec![A, B], single_copy: true, waking: Waking::Membarrier })
            .expect("attached")
    };
    let (mut a, mut b) = (attach(0), attach(1));
    a.connect(B).expect("connected");
    b.connect(A).expect("connected");
    (a, b)
}

/// One packet in, one packet out.
fn packet(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("packet through a ring");
    let (mut a, mut b) = pair();
    let header = Header::new(Kind::Eager, ContextId::WORLD, Rank(0), Tag(1));
    for len in [8_usize, 40, 256, 8192] {
        let data = vec![7_u8; len];
        let mut room = vec![0_u8; len];
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(BenchmarkId::from_parameter(len), |bencher| {
            bencher.iter(|| {
                if len <= a.capabilities(B).max_inline {
                    a.send_inline(B, header, black_box(&data)).expect("room");
                } else {
                    a.send_copy(B, header, len, |to| to.copy_from_slice(black_box(&data))).expect("room");
                }
                let (envelope, payload) = b.peek(A).expect("a packet");
                black_box(envelope);
                room.copy_from_slice(payload);
                b.advance(A);
            });
        });
    }
    group.finish();
}

/// Looking at a ring in which nothing is.
fn empty(criterion: &mut Criterion) {
    let (_a, mut b) = pair();
    criterion
        .bench_function("look at an empty ring", |bencher| bencher.iter(|| black_box(b.peek(A).is_none())));
    let (_c, mut d) = pair();
    criterion
        .bench_function("search all peers for a packet", |bencher| bencher.iter(|| black_box(d.ready())));
}

criterion_group!(benches, packet, empty);
criterion_main!(benches);
