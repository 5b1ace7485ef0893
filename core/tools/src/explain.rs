//! Which algorithm a collective takes, and why: every candidate with its time by the cost model (`weft-info --explain`).

mod on_node;
mod others;

use crate::plot::{self, Chart, Curve};
use crate::tuning::Tuning;
use std::fmt::Write;
use weft_coll::registry::{choose_by, rank_algorithms};
use weft_coll::simulation::simulate;
use weft_coll::{Block, Call, Group, Model, Partition, Rule, Vector};

/// Messages up to which a run message by message ends within seconds.
const MESSAGES: f64 = 2e6;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The operation, as in `MPI_Allreduce`: `allreduce`.
    pub operation: String,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Nodes they live on, in blocks of equal size.
    pub nodes: u32,
    /// Bytes: of the message, the vector or one rank's block.
    pub bytes: u64,
    /// Cores of a node.
    pub cores: u32,
    /// Whether each algorithm is also run message by message.
    pub simulate: bool,
    /// Of a neighbourhood: processes in each dimension of the grid, all of them periodic; empty: two as equal as can be.
    pub dims: Vec<u32>,
}

/// Operations that can be asked about.
pub const OPERATIONS: [&str; 17] = [
    "barrier",
    "bcast",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "reduce_scatter_block",
    "scan",
    "exscan",
];

/// The ranking, cheapest first.
///
/// # Errors
/// What is wrong with the question, as a sentence.
pub fn text(question: &Question, tuning: &Tuning) -> Result<String, String> {
    if others::is_one(&question.operation) {
        return others::text(question, tuning);
    }
    question.ask(|call| ranking(question, tuning, call))?
}

/// The time of every algorithm against the bytes, from 1 byte to 16 MiB, with those chosen marked, as SVG.
///
/// # Errors
/// As [`text`].
pub fn picture(question: &Question, tuning: &Tuning) -> Result<String, String> {
    if others::is_one(&question.operation) {
        return Err(format!("there is no picture of {}", question.operation));
    }
    let model = question.model(tuning)?;
    let group = Group { rank: 0, size: question.ranks };
    let mut curves: Vec<Curve> = Vec::new();
    for bytes in (0..=24).map(|power| 1_u64 << power) {
        Question { bytes, ..question.clone() }.ask(|call| {
            let chosen = choose_by(call, group, &model, &[&tuning.rules]).algorithm;
            for (algorithm, seconds) in rank_algorithms(call, group, &model) {
                let known = curves.iter().position(|curve| curve.name == algorithm.name);
                let curve = known.unwrap_or_else(|| {
                    curves.push(Curve { name: algorithm.name.to_owned(), points: Vec::new() });
                    curves.len() - 1
                });
                let microseconds = (seconds * 1e6).max(1e-3);
                curves[curve].points.push((bytes as f64, microseconds, std::ptr::eq(algorithm, chosen)));
            }
        })?;
    }
    let Question { operation, ranks, nodes, .. } = question;
    Ok(plot::svg(&Chart {
        title: format!("{operation}, {ranks} ranks on {nodes} nodes, by the cost model"),
        x_label: "bytes of the message, the vector or one rank's block".into(),
        y_label: "microseconds".into(),
        mark_label: "chosen".into(),
        x_base: 2.0,
        x_text: plot::bytes_text,
        curves,
    }))
}

impl Question {
    fn model(&self, tuning: &Tuning) -> Result<Model, String> {
        let &Question { ranks, nodes, cores, .. } = self;
        if ranks == 0 || nodes == 0 || nodes > ranks {
            return Err(format!("{ranks} ranks do not fit on {nodes} nodes; each node has at least one"));
        }
        let per_node = ranks.div_ceil(nodes);
        let base = if nodes > 1 { Model::cluster(Partition::Block(per_node)) } else { Model::default() };
        let base = Model { ranks_per_core: f64::from(per_node) / f64::from(cores.max(1)), ..base };
        Ok(tuning.figures().apply(base))
    }

    /// Lends the call that is asked about.
    fn ask<T>(&self, answer: impl FnOnce(&Call<'_>) -> T) -> Result<T, String> {
        let &Question { ranks, bytes, .. } = self;
        // Whole elements of 8 bytes, the operation a sum.
        let vector = Vector { count: bytes.div_ceil(8), element: 8, commutative: true };
        let counts = vec![vector.count; ranks as usize];
        let whole = Vector { count: vector.count.saturating_mul(u64::from(ranks)), ..vector };
        let in_place = false;
        // Of forms with counts for each rank: equal ones. They are what most such calls have, and what the formulas average others to.
        let displaced =
            |rank: u64| Block { displacement: rank.saturating_mul(bytes).min(i64::MAX as u64) as i64, bytes };
        let blocks: Vec<Block> = (0..u64::from(ranks)).map(displaced).collect();
        let sizes = vec![bytes; ranks as usize];
        let call = match self.operation.as_str() {
            "barrier" => Call::Barrier,
            "bcast" => Call::Bcast { root: 0, bytes },
            "gather" => Call::Gather { root: 0, bytes, in_place },
            "gatherv" => Call::Gatherv { root: 0, bytes, blocks: &blocks, in_place },
            "scatter" => Call::Scatter { root: 0, bytes, in_place },
            "scatterv" => Call::Scatterv { root: 0, bytes, blocks: &blocks, in_place },
            "allgather" => Call::Allgather { bytes, in_place },
            "allgatherv" => Call::Allgatherv { blocks: &blocks, in_place },
            "alltoall" => Call::Alltoall { bytes, in_place },
            "alltoallv" => Call::Alltoallv { send: &blocks, recv: &blocks, in_place },
            "alltoallw" => Call::Alltoallw { send: &sizes, recv: &sizes, in_place },
            "reduce" => Call::Reduce { root: 0, vector, in_place },
            "allreduce" => Call::Allreduce { vector, in_place },
            "reduce_scatter" | "reduce_scatter_block" => {
                Call::ReduceScatter { counts: &counts, vector: whole, in_place }
            }
            "scan" => Call::Scan { vector, in_place },
            "exscan" => Call::Exscan { vector, in_place },
            other => {
                return Err(format!(
                    "there is no operation {other}; known are {}, {}",
                    OPERATIONS.join(", "),
                    others::operations().join(", ")
                ));
            }
        };
        Ok(answer(&call))
    }
}

fn write_time(text: &mut String, mark: char, name: &str, seconds: f64) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{mark} {name:31} {:>12.2} us", seconds * 1e6);
}

fn write_rule(text: &mut String, rule: &Rule) {
    let (source, line) = rule.place();
    let _ = writeln!(text, "A rule decides ({source}, line {line}): {rule}");
}

/// Bytes as a rule takes them: `32K`.
fn bytes_exactly(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

fn ranking(question: &Question, tuning: &Tuning, call: &Call<'_>) -> Result<String, String> {
    let &Question { ranks, nodes, bytes, cores, .. } = question;
    let model = question.model(tuning)?;
    let per_node = ranks.div_ceil(nodes);
    let group = Group { rank: 0, size: ranks };
    let mut text = format!(
        "{}, {bytes} bytes, {ranks} ranks on {nodes} nodes (a node: {per_node} ranks, {cores} cores)\n",
        question.operation
    );
    if ["gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw", "reduce_scatter"]
        .contains(&question.operation.as_str())
    {
        text.push_str("Blocks of equal size are assumed.\n");
    }
    for line in tuning.figures_text(nodes > 1) {
        let _ = writeln!(text, "figures of {line}");
    }
    let through_cells = on_node::write(&mut text, question, tuning, call, group, &model);
    let chosen = choose_by(call, group, &model, &[&tuning.rules]);
    if let Some(rule) = chosen.rule {
        write_rule(&mut text, rule);
    }
    let taken = if through_cells { '>' } else { '*' };
    for (algorithm, seconds) in rank_algorithms(call, group, &model) {
        let is_chosen = std::ptr::eq(algorithm, chosen.algorithm);
        let mark = if is_chosen { taken } else { ' ' };
        let told = chosen.rule.filter(|_| is_chosen).map(|rule| rule.adjust(&model));
        let told = told.as_ref().unwrap_or(&model);
        let name = match (algorithm.segment(call, group, told), algorithm.window(call, group, told)) {
            (Some(segment), _) => format!("{} segment={}", algorithm.name, bytes_exactly(segment)),
            (None, Some(window)) => format!("{} window={window}", algorithm.name),
            (None, None) => algorithm.name.to_owned(),
        };
        write_time(&mut text, mark, &name, seconds);
        if question.simulate {
            let outcome = (algorithm.messages(call, group, &model) <= MESSAGES)
                .then(|| simulate(algorithm, call, ranks, &model))
                .flatten();
            let _ = match outcome {
                Some(outcome) => write!(
                    text,
                    "  run {:>12.2} us, {} messages, {} between nodes",
                    outcome.seconds * 1e6,
                    outcome.messages,
                    outcome.far_messages
                ),
                None => write!(text, "  too many messages to run"),
            };
        }
        let _ = writeln!(text, "\n      {}", algorithm.source);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(operation: &str) -> Question {
        Question {
            operation: operation.to_owned(),
            ranks: 512,
            nodes: 8,
            bytes: 8 << 10,
            cores: 64,
            simulate: false,
            dims: Vec::new(),
        }
    }

    #[test]
    fn every_operation_is_explained_with_the_cheapest_first() {
        for operation in OPERATIONS {
            let text = text(&question(operation), &Tuning::default()).expect("an operation");
            let times: Vec<f64> = text
                .lines()
                .filter_map(|line| line.strip_suffix(" us")?.split_whitespace().last()?.parse().ok())
                .collect();
            assert!(!times.is_empty() && times.is_sorted(), "{text}");
            assert_eq!(text.lines().filter(|line| line.starts_with('*')).count(), 1, "{text}");
        }
    }

    #[test]
    fn a_wrong_question_is_answered_by_what_is_wrong() {
        assert!(text(&question("allsum"), &Tuning::default()).expect_err("unknown").contains("allreduce"));
        let crowded = Question { nodes: 600, ..question("bcast") };
        assert!(text(&crowded, &Tuning::default()).expect_err("too many nodes").contains("600 nodes"));
    }

    #[test]
    fn algorithms_over_nodes_are_run_message_by_message() {
        let question = Question { simulate: true, bytes: 8, ..question("allreduce") };
        let text = text(&question, &Tuning::default()).expect("an operation");
        assert!(text.contains("levels") && text.contains("between nodes"), "{text}");
    }

    #[test]
    fn a_rule_is_told_with_its_place_and_what_it_chooses_is_marked() {
        let given = |name: &str| {
            (name == "WEFT_COLLECTIVES")
                .then(|| "allreduce bytes=1M.. -> circulant\nallreduce -> reduce-bcast".to_owned())
        };
        let tuning = Tuning::find(given);
        let text = text(&question("allreduce"), &tuning).expect("an operation");
        assert!(
            text.contains("A rule decides (WEFT_COLLECTIVES, line 2): allreduce -> reduce-bcast\n"),
            "{text}"
        );
        let marked: Vec<&str> = text.lines().filter(|line| line.starts_with('*')).collect();
        assert!(marked.len() == 1 && marked[0].contains("reduce-bcast"), "{text}");
    }

    #[test]
    fn segments_are_told_as_a_rule_takes_them() {
        let question = Question { bytes: 1 << 20, ..question("bcast") };
        let chain = |text: &str| {
            let line =
                text.lines().find(|line| !line.starts_with("A rule") && line.contains("-chain segment="));
            let words =
                line.and_then(|line| line.split_once("segment=")).map(|(_, rest)| rest.split(' ').next());
            words.flatten().expect("a segment").to_owned()
        };
        let text_by = |rules: &str| {
            let given = |name: &str| (name == "WEFT_COLLECTIVES").then(|| rules.to_owned());
            text(&question, &Tuning::find(given)).expect("an operation")
        };
        let free = chain(&text_by("bcast -> binomial"));
        assert_ne!(free, "96K", "no power of two");
        assert_eq!(chain(&text_by("bcast -> pipelined-chain segment=96K")), "96K");
        assert_eq!(chain(&text_by(&format!("bcast -> pipelined-chain segment={free}"))), free);
    }

    #[test]
    fn a_picture_has_every_algorithm_and_a_mark_at_every_size() {
        let picture = picture(&question("bcast"), &Tuning::default()).expect("an operation");
        for name in ["binomial", "knomial-8", "pipelined-chain", "scatter-allgather", "levels"] {
            assert!(picture.contains(&format!(">{name}<")), "{name}");
        }
        assert_eq!(picture.matches("<circle").count(), 26, "25 sizes and the legend");
    }
}
