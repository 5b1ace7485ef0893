//! Allgather of blocks of different lengths: what is chosen, against runs of all, message by message.

use weft_coll::registry::rank_algorithms;
use weft_coll::simulation::simulate;
use weft_coll::{Block, Call, Group, Model, Partition};

/// Lengths of the blocks of 32 ranks: one has all, few have much, all have about as much.
fn lengths() -> Vec<(&'static str, Vec<u64>)> {
    let one: Vec<u64> = (0..32).map(|rank| if rank == 5 { 1 << 20 } else { 0 }).collect();
    let few = (0..32).map(|rank| if rank % 11 == 3 { 300 << 10 } else { 64 }).collect();
    let all = (0..32).map(|rank| 16_000 + 64 * rank).collect();
    vec![("one", one), ("few", few), ("all", all)]
}

#[test]
fn the_longest_block_decides_how_blocks_of_different_lengths_travel() {
    for (nodes, model) in [(1, Model::default()), (32, Model::cluster(Partition::Block(1)))] {
        for (name, lengths) in lengths() {
            let blocks: Vec<Block> = lengths.iter().map(|&bytes| Block { displacement: 0, bytes }).collect();
            let call = Call::Allgatherv { blocks: &blocks, in_place: true };
            let runs: Vec<_> = rank_algorithms(&call, Group { rank: 0, size: 32 }, &model)
                .into_iter()
                .map(|(algorithm, seconds)| {
                    let run = simulate(algorithm, &call, 32, &model).expect("few steps").seconds;
                    (algorithm.name, seconds, run)
                })
                .collect();
            let best = runs.iter().map(|run| run.2).min_by(f64::total_cmp).expect("some");
            let what = format!("{nodes} nodes, {name}: {runs:?}");
            assert!(runs[0].2 <= 1.3 * best, "{what}");
            // The ring passes the one long block on from rank to rank, the others send it with empty ones again and again.
            assert!(name != "one" || runs[0].0 == "block-broadcasts" && runs[1].2 > 4.0 * best, "{what}");
        }
    }
}
