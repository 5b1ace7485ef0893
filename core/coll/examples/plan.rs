//! What it costs to plan: `cargo run --profile fast -p weft-coll --example plan`.

use std::time::Instant;
use weft_coll::{Block, Call, Group, Model, Vector, plan};

fn main() {
    let model = Model::default();
    let vector = Vector { count: 1, element: 8, commutative: true };
    for size in [2, 8, 64, 1024] {
        let blocks: Vec<Block> =
            (0..i64::from(size)).map(|i| Block { displacement: i * 8, bytes: 8 }).collect();
        let calls = [
            Call::Barrier,
            Call::Allreduce { vector, in_place: false },
            Call::Alltoall { bytes: 65536, in_place: false },
            Call::Alltoallv { send: &blocks, recv: &blocks, in_place: false },
        ];
        for call in calls {
            let rounds = (200_000 / size / size).clamp(3, 10_000);
            let start = Instant::now();
            let steps: usize =
                (0..rounds).map(|_| plan(&call, Group { rank: 0, size }, &model).steps().len()).sum();
            let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);
            println!("{size:>5} ranks {:>10}: {each:9.2} us, {} steps", call.name(), steps / rounds as usize);
        }
    }
}
