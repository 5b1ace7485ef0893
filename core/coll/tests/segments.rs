//! The length of segments that an algorithm's formula chooses, against runs message by message with every other one.

use weft_coll::registry::{Parameter, candidates};
use weft_coll::simulation::simulate;
use weft_coll::{Call, Group, Link, Model, Partition, Vector};

/// Lengths that are run.
fn lengths() -> impl Iterator<Item = u64> {
    (10..=20).step_by(2).map(|power| 1 << power)
}

fn models(size: u32) -> Vec<(&'static str, Model)> {
    let one_each = |link: Link| {
        let mut model = Model::cluster(Partition::Block(1));
        model.layout.levels[0].link = link;
        model
    };
    vec![
        ("memory", Model::default()),
        ("shared cores", Model { ranks_per_core: f64::from(size) / 2.0, ..Model::default() }),
        ("network", one_each(Link::NETWORK)),
        ("sockets", one_each(Link::SOCKETS)),
        ("emulated", one_each(Link::EMULATED)),
        ("nodes", Model::cluster(Partition::Block(4))),
    ]
}

fn with_calls(size: u32, bytes: u64, mut look: impl FnMut(&Call<'_>)) {
    let vector = Vector { count: bytes / 8, element: 8, commutative: true };
    let counts = vec![vector.count; size as usize];
    let whole = Vector { count: vector.count * u64::from(size), ..vector };
    let in_place = false;
    look(&Call::Bcast { root: 0, bytes });
    look(&Call::Reduce { root: 0, vector, in_place });
    look(&Call::Allreduce { vector: whole, in_place });
    look(&Call::ReduceScatter { counts: &counts, vector: whole, in_place });
    look(&Call::Scan { vector, in_place });
}

#[test]
fn the_segments_that_a_formula_chooses_are_near_the_best_in_a_run() {
    let mut differ = std::collections::BTreeSet::new();
    for size in [4, 17] {
        for (name, model) in models(size) {
            for bytes in [64 << 10, 1 << 20] {
                with_calls(size, bytes, |call| {
                    let group = Group { rank: 0, size };
                    let in_segments = |algorithm: &&weft_coll::Algorithm| {
                        algorithm.parameters.contains(&Parameter::Segment)
                    };
                    for algorithm in candidates(call, group, &model).filter(in_segments) {
                        let run = |segment| {
                            let model = Model { segment: Some(segment), ..model.clone() };
                            simulate(algorithm, call, size, &model).expect("few steps").seconds
                        };
                        let chosen = algorithm.segment(call, group, &model).expect("it has segments");
                        differ.insert(chosen);
                        let taken = run(chosen);
                        let best = lengths().map(run).min_by(f64::total_cmp).expect("lengths");
                        // Ranks that share a core overlap more than the formula of a chain of them says.
                        let most = if model.ranks_per_core > 1.0 { 1.35 } else { 1.17 };
                        assert!(
                            taken <= most * best,
                            "{algorithm:?}, {name}, {size} ranks, {bytes} bytes: {taken} s in segments of {chosen}, the best {best} s"
                        );
                    }
                });
            }
        }
    }
    assert!(differ.len() > 3, "one length does not fit all: {differ:?}");
}

#[test]
fn windows_that_the_model_chooses_are_as_good_as_none() {
    let mut differ = std::collections::BTreeSet::new();
    for size in [16, 100] {
        for (name, model) in models(size) {
            for bytes in [8, 4 << 10, 256 << 10] {
                let call = Call::Alltoall { bytes, in_place: false };
                let group = Group { rank: 0, size };
                let spread = candidates(&call, group, &model).find(|algorithm| algorithm.name == "spread");
                let spread = spread.expect("it has no restriction");
                let run = |window| {
                    let model = Model { window, ..model.clone() };
                    simulate(spread, &call, size, &model).expect("few steps").seconds
                };
                differ.insert(spread.window(&call, group, &model).expect("it has one"));
                let (chosen, all) = (run(None), run(Some(size as usize)));
                assert!(
                    chosen <= 1.1 * all,
                    "{name}, {size} ranks, {bytes} bytes: {chosen} s, without window {all} s"
                );
            }
        }
    }
    assert!(differ.len() > 1, "one window does not fit all: {differ:?}");
}
