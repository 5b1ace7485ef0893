//! The ways of blocking calls through the cells of one node.

use super::{Question, write_rule, write_time};
use crate::tuning::Tuning;
use std::fmt::Write;
use weft_coll::rounds::{NodeCall, Standing, rank_on_node};
use weft_coll::{Call, Group, Model, decide_on_node};
use weft_engine::usual_room;

/// Writes the ranking of the ways inside the node, if there are such, and what is above that of messages; whether blocking calls go through cells.
pub(super) fn write(
    text: &mut String,
    question: &Question,
    tuning: &Tuning,
    call: &Call<'_>,
    group: Group,
    model: &Model,
) -> bool {
    let &Question { ranks, nodes, cores, .. } = question;
    if nodes > 1 {
        return false;
    }
    // Ranks that share cores are taken to be bound to them, as many to each as can be.
    let cores = cores.max(1);
    let crowded = ranks > cores;
    let seat = |rank: u32| 1 + (u64::from(rank) * u64::from(cores) / u64::from(ranks)) as u32;
    let seats: Vec<u32> = (0..ranks).map(|rank| if crowded { seat(rank) } else { 0 }).collect();
    let Some(room) = usual_room(&seats, crowded) else { return false };
    let Some(on_node) = NodeCall::of(call, ranks, true, room) else { return false };
    let decided = decide_on_node(call, group, model, on_node, &[&tuning.rules]);
    let goes = decided.cells.is_some();
    // Writing to a string cannot fail.
    let _ = match (goes, decided.rule) {
        (true, _) => writeln!(
            text,
            "Blocking calls with predefined types and operations go through cells of shared memory{}:",
            if crowded { ", with ranks bound to the cores that they share" } else { "" }
        ),
        (false, None) => {
            writeln!(text, "Calls through cells of shared memory would be over later, or are forbidden:")
        }
        (false, Some(_)) => {
            writeln!(text, "A rule lets calls go by messages instead of through cells of shared memory:")
        }
    };
    if let Some(rule) = decided.rule.filter(|_| goes) {
        write_rule(text, rule);
    }
    for ranked in rank_on_node(&decided.cells.unwrap_or(on_node)) {
        let (algorithm, taken) = (ranked.algorithm, goes && ranked.standing == Standing::Taken);
        let seconds = if ranked.standing == Standing::Cannot { 0.0 } else { ranked.seconds };
        write_time(text, if taken { '*' } else { ' ' }, algorithm.name, seconds);
        let why = match ranked.standing {
            Standing::Taken if taken => "",
            Standing::Taken | Standing::Slower => "  slower",
            Standing::Tried => "  tried by turns with the one above, and taken while it is faster",
            Standing::Barred => "  forbidden by a rule",
            Standing::DoesNotPay => "  not found to be faster for such calls; a rule can name it",
            Standing::Cannot => "  cannot do this call",
        };
        let _ = writeln!(text, "{why}\n      {}\n      for: {}", algorithm.source, algorithm.restriction);
    }
    let _ = writeln!(text, "{}, by messages:", if goes { "All other calls" } else { "All calls" });
    goes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(bytes: u64, cores: u32, rules: &str) -> String {
        let given = |name: &str| (name == "WEFT_COLLECTIVES").then(|| rules.to_owned());
        let question = Question {
            operation: "allreduce".to_owned(),
            ranks: 8,
            nodes: 1,
            bytes,
            cores,
            simulate: false,
            dims: Vec::new(),
        };
        super::super::text(&question, &Tuning::find(given)).expect("an operation")
    }

    fn marked(text: &str, mark: &str) -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(mark));
        lines.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
    }

    #[test]
    fn ways_inside_a_node_are_ranked_with_the_reason() {
        let text = explained(64 << 10, 2, "bcast -> flat");
        assert_eq!(marked(&text, "* "), ["core-by-core"], "{text}");
        assert_eq!(marked(&text, "> ").len(), 1, "what all other calls take: {text}");
        assert!(text.contains("slower") && text.contains("a rule can name it"), "{text}");
        let own_cores = explained(64 << 10, 8, "bcast -> flat");
        assert_eq!(marked(&own_cores, "* "), ["cells-two-phases"], "{own_cores}");
        assert!(
            own_cores.contains("tried by turns") && own_cores.contains("cannot do this call"),
            "{own_cores}"
        );
    }

    #[test]
    fn rules_force_and_forbid_ways() {
        let text = explained(64 << 10, 2, "allreduce -> not core-by-core");
        assert_eq!(marked(&text, "* "), ["cells-exchanged"], "{text}");
        assert!(text.contains("forbidden by a rule"), "{text}");
        let text = explained(64 << 10, 2, "allreduce -> cells");
        assert!(text.contains("A rule decides (WEFT_COLLECTIVES, line 1): allreduce -> cells\n"), "{text}");
        assert_eq!(marked(&text, "* "), ["cells"], "{text}");
        let text = explained(64 << 10, 2, "allreduce -> messages; allreduce -> ring");
        assert_eq!(marked(&text, "* "), ["ring"], "{text}");
    }
}
