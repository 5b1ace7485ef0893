//! Matching alone: what a receive or a message costs with other receives or messages waiting.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "criterion's macros make items without")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use weft_proto::{Key, Pattern, Posted, Unexpected};
use weft_types::{ContextId, Rank, Tag};

/// Waiting entries beside the one that matches; the tables promise the same cost at any of them.
const DEPTHS: [i32; 5] = [0, 1, 64, 4096, 10_000];

fn key(tag: i32) -> Key {
    Key::new(ContextId::WORLD, Rank(1), Tag(tag))
}

/// A message arrives for the receive that was posted last, behind `depth` others that do not match.
fn posted(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("posted receive, last of");
    for depth in DEPTHS {
        let mut table = Posted::default();
        for tag in 0..depth {
            table.post(Pattern::exactly(key(tag)), tag as u32);
        }
        group.bench_function(BenchmarkId::from_parameter(depth), |bencher| {
            bencher.iter(|| {
                table.post(Pattern::exactly(key(depth)), 7);
                black_box(table.take(black_box(key(depth))))
            });
        });
    }
    group.finish();
}

/// The same with a receive from any source, of any tag in a second communicator.
fn wildcard(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wildcard receive, last of");
    let other = ContextId::FIRST_FREE;
    for depth in DEPTHS {
        let mut table = Posted::default();
        for tag in 0..depth {
            table.post(Pattern::exactly(key(tag)), tag as u32);
        }
        group.bench_function(BenchmarkId::from_parameter(depth), |bencher| {
            bencher.iter(|| {
                table.post(Pattern::new(other, None, None), 7);
                black_box(table.take(black_box(Key::new(other, Rank(3), Tag(5)))))
            });
        });
    }
    group.finish();
}

/// A receive finds the message that came last, behind `depth` others that nobody asked for.
fn unexpected(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("unexpected message, last of");
    for depth in DEPTHS {
        let mut table = Unexpected::default();
        for tag in 0..depth {
            table.insert(key(tag), tag as u32);
        }
        group.bench_function(BenchmarkId::from_parameter(depth), |bencher| {
            bencher.iter(|| {
                table.insert(key(depth), 7);
                let found = table.find(black_box(Pattern::exactly(key(depth))));
                found.map(|(entry, _)| black_box(table.remove(entry)))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, posted, wildcard, unexpected);
criterion_main!(benches);
