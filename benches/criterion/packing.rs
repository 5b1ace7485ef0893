//! Packing and unpacking of derived datatypes, beside a plain copy of as many bytes.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "criterion's macros make items without")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use weft_datatype::{Datatype, Form, Memory};
use weft_types::abi::MPI_DOUBLE;

/// Bytes of data in every case.
const BYTES: usize = 64 << 10;

/// Types of 64 KiB of doubles in blocks of `block` doubles, every other block left out.
fn strided(block: i64) -> Datatype {
    let double = Datatype::predefined(MPI_DOUBLE).expect("predefined").into();
    let count = BYTES as i64 / 8 / block;
    let datatype = Datatype::vector(count, block, 2 * block, &double, Form::Int).expect("a vector");
    datatype.commit();
    datatype
}

fn packing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("vector of doubles, block of");
    group.throughput(Throughput::Bytes(BYTES as u64));
    let mut packed = vec![0_u8; BYTES];
    for block in [1, 2, 8, 64, 1024] {
        let memory = Memory::scratch(&strided(block), 1).expect("memory");
        let from = memory.send_view(0, 0, BYTES as u64);
        group.bench_function(BenchmarkId::new("pack", block), |bencher| {
            bencher.iter(|| from.pack(0, black_box(&mut packed)));
        });
        let mut into = memory.recv_view(0, 0, BYTES as u64);
        group.bench_function(BenchmarkId::new("unpack", block), |bencher| {
            bencher.iter(|| into.unpack(0, black_box(&packed)));
        });
    }
    let source = vec![1_u8; BYTES];
    group.bench_function("plain copy", |bencher| bencher.iter(|| packed.copy_from_slice(black_box(&source))));
    group.finish();
}

criterion_group!(benches, packing);
criterion_main!(benches);
