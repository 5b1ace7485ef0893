//! The same of collectives on intercommunicators and on neighbourhoods of grids.

use super::{Question, write_rule, write_time};
use crate::tuning::Tuning;
use std::fmt::Write;
use weft_coll::inter::{self, choose_inter, rank_inter};
use weft_coll::neighbor::{self, NeighborCall, choose_neighbor, rank_neighbor};
use weft_coll::{Block, Grid, Group, InterCall, Model, Partition, Root, Sides, Vector};

/// Whether an operation is one of these.
pub(super) fn is_one(operation: &str) -> bool {
    operation.starts_with("inter") || operation.starts_with("neighbor")
}

/// The operations that can be asked about.
pub(super) fn operations() -> Vec<&'static str> {
    inter::OPERATIONS.into_iter().chain(neighbor::OPERATIONS).collect()
}

/// The ranking, cheapest first.
///
/// # Errors
/// As [`super::text`].
pub(super) fn text(question: &Question, tuning: &Tuning) -> Result<String, String> {
    let operation = question.operation.replace('-', "_");
    if question.simulate {
        return Err(format!("{operation} is not run message by message"));
    }
    // What is wrong with the numbers is the same for all operations.
    let model = question.model(tuning)?;
    let apart = Model { layout: Model::cluster(Partition::Block(1)).layout, ..model.clone() };
    let model = if question.nodes > 1 { tuning.figures().apply(apart) } else { model };
    match neighbor::OPERATIONS.into_iter().find(|known| *known == operation) {
        Some(operation) => neighbor_text(question, operation, &model, tuning),
        None => inter_text(question, &operation, &model, tuning),
    }
}

/// What is above the ranking; formulas of these know no nodes, only whether there are several.
fn head(question: &Question, operation: &str, tuning: &Tuning, what: &str) -> String {
    let between = if question.nodes > 1 { "on nodes of their own" } else { "on one node" };
    let Question { bytes, ranks, .. } = question;
    let mut text = format!("{operation}, {bytes} bytes, {ranks} ranks {between}, {what}\n");
    for line in tuning.figures_text(question.nodes > 1) {
        let _ = writeln!(text, "figures of {line}");
    }
    text
}

fn inter_text(
    question: &Question,
    operation: &str,
    model: &Model,
    tuning: &Tuning,
) -> Result<String, String> {
    let &Question { ranks, bytes, .. } = question;
    if ranks < 2 {
        return Err("an intercommunicator has at least two ranks, one in each group".to_owned());
    }
    let sides = Sides { rank: 0, local: ranks.div_ceil(2), remote: ranks / 2, is_first: true };
    let vector = Vector { count: bytes.div_ceil(8), element: 8, commutative: true };
    let root = Root::Remote(0);
    let blocks = vec![Block { displacement: 0, bytes }; sides.remote as usize];
    let sizes = vec![bytes; sides.remote as usize];
    // What each rank gets counts, as in the reductions of an intracommunicator.
    let whole = Vector { count: vector.count.saturating_mul(u64::from(sides.local)), ..vector };
    let counts = vec![vector.count; sides.local as usize];
    let call = match operation {
        "inter_allgather" => InterCall::Allgather { sent: bytes, received: bytes },
        "inter_allgatherv" => InterCall::Allgatherv { sent: bytes, blocks: &blocks },
        "inter_alltoall" => InterCall::Alltoall { sent: bytes, received: bytes },
        "inter_alltoallv" => InterCall::Alltoallv { send: &blocks, recv: &blocks },
        "inter_alltoallw" => InterCall::Alltoallw { send: &sizes, recv: &sizes },
        "inter_reduce" => InterCall::Reduce { root, vector },
        "inter_allreduce" => InterCall::Allreduce { vector },
        "inter_reduce_scatter" => InterCall::ReduceScatter { counts: &counts, vector: whole },
        _ => {
            return Err(format!(
                "there is no operation {operation} with ways of its own; those of intercommunicators and neighbourhoods are {}. The other \
                 rooted ones and the barrier of an intercommunicator go as those of an intracommunicator: of the root and the other group, of all",
                operations().join(", ")
            ));
        }
    };
    let what = format!("{} in one group and {} in the other", sides.local, sides.remote);
    let mut text = head(question, operation, tuning, &what);
    let chosen = choose_inter(&call, sides, model, &[&tuning.rules]);
    if let Some(rule) = chosen.and_then(|chosen| chosen.rule) {
        write_rule(&mut text, rule);
    }
    for (algorithm, seconds) in rank_inter(&call, sides, model) {
        let is_chosen = chosen.is_some_and(|chosen| std::ptr::eq(chosen.algorithm, algorithm));
        write_time(&mut text, if is_chosen { '*' } else { ' ' }, algorithm.name, seconds);
        let _ = writeln!(text, "\n      {}", algorithm.source);
    }
    Ok(text)
}

fn neighbor_text(
    question: &Question,
    operation: &'static str,
    model: &Model,
    tuning: &Tuning,
) -> Result<String, String> {
    let &Question { ranks, bytes, .. } = question;
    let dims = if question.dims.is_empty() {
        let shorter =
            (1..=ranks).rev().find(|&extent| ranks.is_multiple_of(extent) && extent <= ranks / extent);
        let shorter = shorter.unwrap_or(1);
        vec![ranks / shorter, shorter]
    } else {
        question.dims.clone()
    };
    let product = dims.iter().try_fold(1_u32, |product, &extent| product.checked_mul(extent));
    if product != Some(ranks) {
        return Err(format!("a grid of {dims:?} does not have {ranks} processes"));
    }
    let grid = Some(Grid::new(dims.iter().map(|&extent| (extent, true))));
    // Of blocks of different lengths a rule sees none.
    let bytes = if matches!(operation, "neighbor_allgather" | "neighbor_alltoall") { bytes } else { 0 };
    let call = NeighborCall { operation, grid, bytes, outgoing: &[], incoming: &[] };
    let group = Group { rank: 0, size: ranks };
    let shown: Vec<String> = dims.iter().map(u32::to_string).collect();
    let mut text = head(question, operation, tuning, &format!("a periodic grid of {}", shown.join(" x ")));
    let chosen = choose_neighbor(&call, group, model, &[&tuning.rules]);
    if let Some(rule) = chosen.rule {
        write_rule(&mut text, rule);
    }
    let mark = |algorithm| if std::ptr::eq(algorithm, chosen.algorithm) { '*' } else { ' ' };
    let mut ranked = rank_neighbor(&call, group, model);
    if ranked.is_empty() {
        text.push_str(
            "Where lengths may differ no process knows all of them: a rule can choose, the model does not. Times of equal blocks:\n",
        );
        let gathers = operation == "neighbor_allgatherv";
        let equal = if gathers { "neighbor_allgather" } else { "neighbor_alltoall" };
        let call = NeighborCall { operation: equal, bytes: question.bytes, ..call };
        ranked = rank_neighbor(&call, group, model);
        // What is taken is first all the same.
        ranked.sort_by_key(|(algorithm, _)| !std::ptr::eq(*algorithm, chosen.algorithm));
    }
    for (algorithm, seconds) in ranked {
        write_time(&mut text, mark(algorithm), algorithm.name, seconds);
        let _ = writeln!(text, "\n      {}", algorithm.source);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(operation: &str, dims: &[u32], rules: &str) -> Result<String, String> {
        let given = |name: &str| (name == "WEFT_COLLECTIVES").then(|| rules.to_owned());
        let question = Question {
            operation: operation.to_owned(),
            ranks: 16,
            nodes: 1,
            bytes: 64,
            cores: 16,
            simulate: false,
            dims: dims.to_vec(),
        };
        super::super::text(&question, &Tuning::find(given))
    }

    fn marked(text: &str) -> Vec<&str> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("* "));
        lines.filter_map(|line| line.split_whitespace().next()).collect()
    }

    #[test]
    fn every_operation_is_explained_with_one_chosen() {
        for operation in operations() {
            let text = explained(operation, &[], "bcast -> flat").expect("an operation");
            assert_eq!(marked(&text).len(), 1, "{text}");
        }
    }

    #[test]
    fn rules_and_grids_change_the_choice() {
        let text =
            explained("inter-allgather", &[], "inter_allgather -> through-first").expect("an operation");
        assert!(
            text.contains("A rule decides (WEFT_COLLECTIVES, line 1): inter_allgather -> through-first\n")
        );
        assert!(text.contains("8 in one group and 8 in the other"), "{text}");
        assert_eq!(marked(&text), ["through-first"]);
        assert_eq!(marked(&explained("neighbor_alltoall", &[], "bcast -> flat").expect("4 x 4")), ["direct"]);
        let text = explained("neighbor_alltoall", &[2, 2, 2, 2], "bcast -> flat").expect("a grid");
        assert!(text.contains("a periodic grid of 2 x 2 x 2 x 2"), "{text}");
        assert_eq!(marked(&text), ["combined"]);
    }

    #[test]
    fn a_wrong_question_is_answered_by_what_is_wrong() {
        let error =
            |operation: &str, dims: &[u32]| explained(operation, dims, "bcast -> flat").expect_err("wrong");
        assert!(error("neighbor_alltoall", &[3, 5]).contains("does not have 16 processes"));
        assert!(error("inter-bcast", &[]).contains("the root and the other group"));
        assert!(error("neighbor_sum", &[]).contains("neighbor_allgatherv"));
    }
}
