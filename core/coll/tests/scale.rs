//! What is chosen at a thousand to a million ranks and what it takes, by the cost formulas and message by message. The
//! table is kept in `scale/table.txt`: a change of a formula, a parameter or an algorithm is a difference there.
//!
//! `cargo test --profile fast -p weft-coll --test scale` looks at the rows of up to 10,000 ranks, and at what is chosen in the
//! others; with `WEFT_UPDATE=1` it writes the whole table anew (some minutes, 4 GiB), with `WEFT_UPDATE=small` those rows. The
//! picture is drawn from the table by `cargo run -p weft-tools --example scale_plot`.

use std::fmt::Write as _;
use std::path::PathBuf;
use weft_coll::registry::{Algorithm, rank_algorithms};
use weft_coll::simulation::simulate;
use weft_coll::{Call, Group, Model, Partition, Vector};

/// (nodes, ranks on each)
const SHAPES: [(u32, u32); 5] = [(128, 1), (128, 8), (128, 64), (1_563, 64), (7_813, 128)];
/// Ranks up to which every run simulates a row.
const ALWAYS: u32 = 10_000;
/// Messages up to which an algorithm is looked at, unless it is the chosen one: up to [`ALWAYS`] ranks, and beyond.
const MESSAGES: [f64; 2] = [6e5, 3e7];

struct Row {
    size: u32,
    nodes: u32,
    operation: &'static str,
    bytes: u64,
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (nodes, per_node) in SHAPES {
        let size = nodes * per_node;
        let mut row = |operation, bytes| rows.push(Row { size, nodes, operation, bytes });
        row("barrier", 0);
        if size > ALWAYS {
            row("allreduce", 8);
            continue;
        }
        for operation in ["bcast", "reduce", "allreduce"] {
            [8, 8 << 10, 1 << 20].into_iter().for_each(|bytes| row(operation, bytes));
        }
        // Bytes of a block, or of what each rank gets.
        for operation in ["gather", "scatter", "scan", "allgather", "alltoall", "reduce_scatter"] {
            let blocks_for_all = matches!(operation, "allgather" | "alltoall" | "reduce_scatter");
            // Every rank has a message for each of the others, or at least a block: much to look at for few figures.
            let most = if operation == "alltoall" { 128 } else { 1 << 10 };
            if size <= most || !blocks_for_all {
                [8, 1 << 10].into_iter().for_each(|bytes| row(operation, bytes));
            }
        }
    }
    rows
}

/// The chosen algorithm with its modelled and its simulated time, and the best by simulation among those that are modelled
/// within three times of it.
fn look(row: &Row) -> String {
    eprintln!("{} ranks, {}, {} bytes", row.size, row.operation, row.bytes);
    with_ranking(row, simulate_ranked)
}

/// What is chosen by the formulas, as the table begins with it.
fn choice(row: &Row) -> String {
    with_ranking(row, |row, _, _, ranked| opening(row, ranked[0]))
}

fn opening(row: &Row, (chosen, modelled): Ranked) -> String {
    let Row { size, nodes, operation, bytes } = row;
    format!("{size:>8} {nodes:>8} {operation:>14} {bytes:>8}  {:24} {:>11.2}", chosen.name, modelled * 1e6)
}

/// An algorithm and its modelled seconds.
type Ranked = (&'static Algorithm, f64);

fn with_ranking<T>(row: &Row, work: impl FnOnce(&Row, &Call<'_>, &Model, &[Ranked]) -> T) -> T {
    let &Row { size, nodes, operation, bytes } = row;
    let vector = Vector { count: bytes.div_ceil(8), element: 8, commutative: true };
    let counts = vec![vector.count; size as usize];
    let whole = Vector { count: vector.count * u64::from(size), ..vector };
    let call = match operation {
        "barrier" => Call::Barrier,
        "bcast" => Call::Bcast { root: 0, bytes },
        "reduce" => Call::Reduce { root: 0, vector, in_place: false },
        "allreduce" => Call::Allreduce { vector, in_place: false },
        "allgather" => Call::Allgather { bytes, in_place: false },
        "alltoall" => Call::Alltoall { bytes, in_place: false },
        "gather" => Call::Gather { root: 0, bytes, in_place: false },
        "scatter" => Call::Scatter { root: 0, bytes, in_place: false },
        "scan" => Call::Scan { vector, in_place: false },
        _ => Call::ReduceScatter { counts: &counts, vector: whole, in_place: false },
    };
    let model = Model::cluster(Partition::Block(size / nodes));
    let ranked = rank_algorithms(&call, Group { rank: 0, size }, &model);
    work(row, &call, &model, &ranked)
}

fn simulate_ranked(row: &Row, call: &Call<'_>, model: &Model, ranked: &[Ranked]) -> String {
    let &Row { size, .. } = row;
    let (chosen, modelled) = ranked[0];
    let near = ranked.iter().filter(|&&(_, seconds)| seconds < 3.0 * modelled);
    // Beyond the first few at the largest sizes: each takes a minute.
    let near = near.take(if size > ALWAYS { 2 } else { usize::MAX });
    let most = MESSAGES[usize::from(size > ALWAYS)];
    let group = Group { rank: 0, size };
    let simulated: Vec<_> = near
        .filter(|(algorithm, _)| {
            std::ptr::eq(*algorithm, chosen) || algorithm.messages(call, group, model) < most
        })
        .filter_map(|&(algorithm, _)| Some((algorithm, simulate(algorithm, call, size, model)?)))
        .collect();
    let of_chosen = simulated.iter().find(|(algorithm, _)| std::ptr::eq(*algorithm, chosen));
    let outcome = of_chosen.expect("the chosen one is looked at").1;
    let best = simulated.iter().min_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds)).expect("one at least");
    let mut text = opening(row, ranked[0]);
    write!(
        text,
        " {:>11.2} {:>10} {:>10}  {:24} {:>6.2}",
        outcome.seconds * 1e6,
        outcome.messages,
        outcome.far_messages,
        best.0.name,
        outcome.seconds / best.1.seconds
    )
    .expect("a string");
    text
}

const HEAD: &str = "   ranks    nodes      operation    bytes  chosen                     model us     run us   messages  far  best in a run            ratio";

fn place() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scale")
}

#[test]
fn choices_and_times_are_as_the_table_says() {
    let update = std::env::var("WEFT_UPDATE").ok();
    let all = update.as_deref().is_some_and(|what| what != "small");
    let rows = rows();
    let looked: Vec<(&Row, String)> =
        rows.iter().filter(|row| all || row.size <= ALWAYS).map(|row| (row, look(row))).collect();
    let kept = std::fs::read_to_string(place().join("table.txt")).expect("the table");
    if update.is_some() {
        let mut text = format!("{HEAD}\n");
        looked.iter().for_each(|(_, line)| writeln!(text, "{line}").expect("a string"));
        // The rows of more ranks come last; a run without update finds out if others are chosen there.
        let larger = rows.iter().filter(|row| !all && row.size > ALWAYS).count();
        let lines: Vec<&str> = kept.lines().collect();
        lines[lines.len() - larger..].iter().for_each(|line| writeln!(text, "{line}").expect("a string"));
        std::fs::write(place().join("table.txt"), text).expect("written");
        return;
    }
    let mut lines = kept.lines().skip(1);
    for row in &rows {
        let kept = lines.next().expect("a row");
        if let Some((_, line)) = looked.iter().find(|(looked, _)| std::ptr::eq(*looked, row)) {
            assert_eq!(kept, line, "core/coll/scale/table.txt is stale: run with WEFT_UPDATE=1");
        } else {
            let choice = choice(row);
            assert!(
                kept.starts_with(&choice),
                "core/coll/scale/table.txt has {kept:?}, chosen is {choice:?}"
            );
        }
    }
}

/// Messages up to which an algorithm is run to be compared; of those of more its formula counts.
const COMPARED: f64 = 1.1e6;

/// Runs every algorithm that can do a call: how much longer the chosen one takes than the best of the others, and their names.
fn beside_the_best(row: &Row) -> (f64, &'static str, &'static str) {
    with_ranking(row, |&Row { size, .. }, call, model, ranked| {
        let run = |algorithm| simulate(algorithm, call, size, model).expect("few steps").seconds;
        let chosen = run(ranked[0].0);
        let others = ranked[1..].iter().map(|&(algorithm, seconds)| {
            let messages = algorithm.messages(call, Group { rank: 0, size }, model);
            (if messages < COMPARED { run(algorithm) } else { seconds }, algorithm)
        });
        let (seconds, best) = others.min_by(|a, b| a.0.total_cmp(&b.0)).expect("more than one");
        (chosen / seconds, ranked[0].0.name, best.name)
    })
}

/// Operations and bytes for which the choice at 128 nodes is compared with all others.
fn compared() -> Vec<Row> {
    let mut rows = Vec::new();
    for per_node in [1, 8, 64] {
        let size = 128 * per_node;
        for operation in ["allreduce", "bcast", "reduce", "allgather", "alltoall", "reduce_scatter"] {
            let blocks_for_all = matches!(operation, "allgather" | "alltoall" | "reduce_scatter");
            for bytes in [8, 8 << 10, 1 << 20] {
                // A block for each of many others is many messages to look at.
                if per_node == 1 || !blocks_for_all {
                    rows.push(Row { size, nodes: 128, operation, bytes });
                }
            }
        }
    }
    rows
}

#[test]
fn the_choice_at_128_nodes_is_within_a_tenth_of_the_best_there_is() {
    let mut worse = Vec::new();
    for row in compared() {
        let Row { size, operation, bytes, .. } = row;
        let (ratio, chosen, best) = beside_the_best(&row);
        eprintln!("{size} ranks, {operation}, {bytes} bytes: {chosen} {ratio:.3} of {best}");
        if ratio > 1.1 {
            worse.push(format!(
                "{size} ranks, {operation}, {bytes} bytes: {chosen} takes {ratio:.3} times as long as {best}"
            ));
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}
