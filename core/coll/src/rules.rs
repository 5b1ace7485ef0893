//! Overrides of the choice among algorithms, as text: for which calls, which algorithm, with which parameters.
//!
//! ```text
//! # operation  calls                            algorithm            parameters
//! allreduce    ranks=2..16 bytes=0..8K       -> recursive-doubling
//! bcast        bytes=64K.. nodes=2..         -> pipelined-chain                segment=16K
//! alltoall                                   -> spread               window=8
//! ```
//!
//! The first rule that fits a call decides, if its algorithm can do the call; otherwise the next. Ranges include both ends; one
//! that is not written is everything. Bytes are those of the message, the vector or one rank's block (the sum of all blocks of
//! `allgatherv`), 0 where the ranks know different numbers (`gatherv`, `scatterv`, `alltoallv`, `alltoallw`, `barrier`).
//!
//! Collectives of intercommunicators that have ways of their own are operations of their own (`inter_allgather`), with the members of both
//! groups as ranks and the longer of the blocks that a member gives and takes as bytes; so are those of neighbourhoods (`neighbor_alltoall`),
//! whose bytes are 0 but for equal blocks on a grid. Of their nodes is only known whether there are several: then each rank counts as one.
//!
//! Blocking calls on one node, and short ones of the other forms, have ways of their own, through cells of shared memory (`crate::rounds`). They are named
//! like algorithms: `allreduce bytes=64K.. -> core-by-core`. A rule that names an algorithm makes the calls that it fits go by
//! messages; `-> messages` says no more than that, and leaves the algorithm to the next rules or the model.
//!
//! `-> not NAME` forbids an algorithm or a way for the calls that the rule fits; what comes behind decides among the others. Where all are forbidden the
//! model chooses as if none was.
//!
//! Statements end with the line or a semicolon. All ranks of a communicator must have the same rules.

mod verdict;

pub use verdict::{OnNode, decide_on_node};
pub(crate) use verdict::{verdict, verdict_inter, verdict_neighbor};

use crate::algorithms;
use crate::call::{Call, Group};
use crate::inter::{self, InterAlgorithm};
use crate::model::Model;
use crate::neighbor::{self, NeighborAlgorithm};
use crate::registry::Algorithm;
use crate::rounds::{self, NodeAlgorithm};
use crate::text::{Fault, statements};
use std::fmt;
use std::sync::Arc;
use weft_types::params::number;

/// An inclusive range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span(u64, u64);

impl Span {
    const ALL: Span = Span(0, u64::MAX);

    fn holds(self, value: u64) -> bool {
        (self.0..=self.1).contains(&value)
    }

    /// `3`, `3..`, `..8`, `3..8`.
    fn read(text: &str) -> Option<Span> {
        let (first, last) = match text.split_once("..") {
            None => (number(text)?, number(text)?),
            Some((first, last)) => (
                if first.is_empty() { 0 } else { number(first)? },
                if last.is_empty() { u64::MAX } else { number(last)? },
            ),
        };
        (first <= last).then_some(Span(first, last))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Span(first, u64::MAX) => write!(f, "{first}.."),
            Span(first, last) => write!(f, "{first}..{last}"),
        }
    }
}

/// An algorithm of one of the tables.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    /// Of an intracommunicator's collective.
    Collective(&'static Algorithm),
    /// Of an intercommunicator's.
    Inter(&'static InterAlgorithm),
    /// Of a neighbourhood's.
    Neighbor(&'static NeighborAlgorithm),
    /// A way inside a node.
    OnNode(&'static NodeAlgorithm),
}

impl Named {
    /// All there are.
    fn all() -> impl Iterator<Item = Named> {
        let inter = inter::all().iter().map(Named::Inter);
        let neighbor = neighbor::all().iter().map(Named::Neighbor);
        let on_node = rounds::all_ways().iter().map(Named::OnNode);
        algorithms::all().map(Named::Collective).chain(on_node).chain(inter).chain(neighbor)
    }

    /// Unique among those of an operation.
    pub fn name(self) -> &'static str {
        match self {
            Named::Collective(algorithm) => algorithm.name,
            Named::Inter(algorithm) => algorithm.name,
            Named::Neighbor(algorithm) => algorithm.name,
            Named::OnNode(algorithm) => algorithm.name,
        }
    }

    /// The operations it is for.
    pub fn operations(self) -> &'static [&'static str] {
        match self {
            Named::Collective(algorithm) => algorithm.operations,
            Named::Inter(algorithm) => algorithm.operations,
            Named::Neighbor(algorithm) => algorithm.operations,
            Named::OnNode(algorithm) => algorithm.operations,
        }
    }
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    operation: &'static str,
    ranks: Span,
    bytes: Span,
    nodes: Span,
    /// What fitting calls take, or must not take.
    pub algorithm: Named,
    forbids: bool,
    segment: Option<u64>,
    window: Option<usize>,
    source: Arc<str>,
    line: u32,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.to_string() == other.to_string()
    }
}

/// As it can be read again.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation)?;
        for (name, span) in [("ranks", self.ranks), ("bytes", self.bytes), ("nodes", self.nodes)] {
            if span != Span::ALL {
                write!(f, " {name}={span}")?;
            }
        }
        write!(f, " -> {}{}", if self.forbids { "not " } else { "" }, self.algorithm.name())?;
        if let Some(segment) = self.segment {
            write!(f, " segment={segment}")?;
        }
        if let Some(window) = self.window {
            write!(f, " window={window}")?;
        }
        Ok(())
    }
}

impl Rule {
    /// Where it stands: source and line.
    pub fn place(&self) -> (&str, u32) {
        (&self.source, self.line)
    }

    /// Whether it is for an operation of so many ranks and bytes.
    fn fits(&self, operation: &str, ranks: u32, bytes: u64, model: &Model) -> bool {
        self.operation == operation
            && self.ranks.holds(u64::from(ranks))
            && self.nodes.holds(u64::from(model.nodes(ranks)))
            && self.bytes.holds(bytes)
    }

    /// The model with the rule's parameters.
    pub fn adjust(&self, model: &Model) -> Model {
        let segment = self.segment.or(model.segment);
        let window = self.window.or(model.window);
        Model { segment, window, ..model.clone() }
    }

    fn read(statement: &str) -> Result<Rule, String> {
        let (calls, choice) = statement.split_once("->").ok_or(
            "a rule is: OPERATION [ranks=A..B] [bytes=A..B] [nodes=A..B] -> [not] ALGORITHM [segment=N] [window=N]",
        )?;
        let mut calls = calls.split_whitespace();
        let operation = calls.next().ok_or("the operation is missing before `->`")?;
        let known = || Named::all().flat_map(Named::operations).copied();
        let operation = known().find(|&known| known == operation).ok_or_else(|| no_operation(operation))?;
        let (mut ranks, mut bytes, mut nodes) = (Span::ALL, Span::ALL, Span::ALL);
        for word in calls {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let span = match name {
                "ranks" => &mut ranks,
                "bytes" => &mut bytes,
                "nodes" => &mut nodes,
                _ => return Err(format!("{word:?} is none of ranks=A..B, bytes=A..B, nodes=A..B")),
            };
            *span = Span::read(value).ok_or_else(|| {
                format!("{value:?} is no range; {name} are written 8, 2..8, 2.. or ..8, with K, M or G")
            })?;
        }
        let mut choice = choice.split_whitespace();
        let missing = "the algorithm is missing behind `->`";
        let first = choice.next().ok_or(missing)?;
        let forbids = first == "not";
        let name = if forbids { choice.next().ok_or(missing)? } else { first };
        let of_operation = || Named::all().filter(|algorithm| algorithm.operations().contains(&operation));
        let algorithm = of_operation().find(|algorithm| algorithm.name() == name).ok_or_else(|| {
            let known: Vec<&str> = of_operation().map(Named::name).collect();
            format!("{operation} has no algorithm {name:?}; it has {}", known.join(", "))
        })?;
        let (mut segment, mut window) = (None, None);
        for word in choice {
            if forbids {
                return Err(format!("{word:?} stands behind an algorithm that the rule forbids"));
            }
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let value = number(value)
                .filter(|&value| value > 0)
                .ok_or_else(|| format!("{word:?} is none of segment=N (bytes) and window=N, N above 0"))?;
            match name {
                "segment" => segment = Some(value),
                "window" => {
                    window = Some(usize::try_from(value).map_err(|_| format!("{word:?} is too much"))?)
                }
                _ => return Err(format!("{word:?} is none of segment=N and window=N")),
            }
        }
        Ok(Rule {
            operation,
            ranks,
            bytes,
            nodes,
            algorithm,
            forbids,
            segment,
            window,
            source: "".into(),
            line: 0,
        })
    }
}

/// What is wrong with a name, and the names of those that it may have been meant for.
fn no_operation(name: &str) -> String {
    const FAMILIES: [&str; 2] = ["inter_", "neighbor_"];
    let family = FAMILIES.into_iter().find(|family| name.starts_with(family));
    let belongs = |operation: &&str| match family {
        Some(family) => operation.starts_with(family),
        None => !FAMILIES.iter().any(|family| operation.starts_with(family)),
    };
    let mut known: Vec<&str> = Named::all().flat_map(Named::operations).copied().filter(belongs).collect();
    known.sort_unstable();
    known.dedup();
    let others = if family.is_none() { " beside those that begin with inter_ or neighbor_" } else { "" };
    format!("there is no operation {name:?}{others}; known are {}", known.join(", "))
}

/// Rules in the order in which they are asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads a text from `source`.
    ///
    /// # Errors
    /// The first statement that is no rule, with its line and what is wrong.
    pub fn parse(text: &str, source: &str) -> Result<Rules, Fault> {
        let name: Arc<str> = source.into();
        let rules = statements(text, source)?.into_iter().map(|(line, statement)| {
            Rule::read(statement)
                .map(|rule| Rule { source: Arc::clone(&name), line, ..rule })
                .map_err(|reason| Fault { source: source.to_owned(), line, reason })
        });
        rules.collect::<Result<_, _>>().map(Rules)
    }

    /// The rules.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// These and, behind them, others.
    pub fn then(&self, others: &Rules) -> Rules {
        Rules(self.0.iter().chain(&others.0).cloned().collect())
    }

    /// Whether one that fits a call names a way inside a node for which members need memory for long payloads, however short the call is.
    pub fn want_slots(&self, call: &Call<'_>, group: Group, model: &Model) -> bool {
        let bytes = algorithms::bytes_of(call) as u64;
        let wants = |rule: &Rule| match rule.algorithm {
            Named::OnNode(algorithm) => !rule.forbids && algorithm.way.needs_slots(),
            _ => false,
        };
        self.0.iter().any(|rule| wants(rule) && rule.fits(call.name(), group.size, bytes, model))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Rules {
    /// Whether some collective of chapter 6 on an intracommunicator of so many ranks could be decided by a rule.
    pub fn concern(&self, ranks: u32) -> bool {
        self.name_algorithms(ranks) || self.concern_nodes(ranks)
    }

    /// The same of a rule that names an algorithm of messages.
    pub fn name_algorithms(&self, ranks: u32) -> bool {
        let names = |rule: &&Rule| matches!(rule.algorithm, Named::Collective(_));
        self.0.iter().filter(names).any(|rule| rule.ranks.holds(u64::from(ranks)))
    }

    fn concern_nodes(&self, ranks: u32) -> bool {
        let names = |rule: &&Rule| matches!(rule.algorithm, Named::OnNode(_));
        self.0.iter().filter(names).any(|rule| rule.ranks.holds(u64::from(ranks)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Block, Vector};
    use crate::registry::{choose_by, plan_by};
    use crate::{Partition, registry};
    use proptest::prelude::*;

    const GROUP: Group = Group { rank: 1, size: 8 };

    fn allreduce(count: u64, commutative: bool) -> Call<'static> {
        Call::Allreduce { vector: Vector { count, element: 8, commutative }, in_place: false }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = Rules::parse(
            "# comment\nallreduce ranks=2..4 -> circulant\nallreduce bytes=..1K -> reduce-bcast # small\n\
             allreduce bytes=1025.. nodes=1 -> circulant; allreduce -> binomial-reduce-bcast",
            "test",
        )
        .expect("four rules");
        let model = Model::default();
        let by = |call: &Call<'_>, model: &Model| {
            let chosen = choose_by(call, GROUP, model, &[&rules]);
            let (rule, algorithm) = (chosen.rule.expect("a rule"), chosen.algorithm);
            (algorithm.name, rule.place().1)
        };
        assert_eq!(by(&allreduce(128, true), &model), ("reduce-bcast", 3));
        assert_eq!(by(&allreduce(129, true), &model), ("circulant", 4));
        // The circulant algorithm needs an operation that commutes, and this rule is for one node.
        assert_eq!(by(&allreduce(129, false), &model), ("binomial-reduce-bcast", 4));
        assert_eq!(
            by(&allreduce(129, true), &Model::cluster(Partition::Block(4))),
            ("binomial-reduce-bcast", 4)
        );
        assert!(choose_by(&Call::Barrier, GROUP, &model, &[&rules]).rule.is_none());
        assert!(rules.concern(3) && Rules::parse("bcast ranks=4.. -> flat", "").unwrap().concern(4));
        assert!(!Rules::parse("bcast ranks=4.. -> flat", "").unwrap().concern(3));
    }

    #[test]
    fn a_rule_changes_the_schedule_and_without_one_the_model_decides() {
        let model = Model::default();
        let call = Call::Bcast { root: 0, bytes: 100_000 };
        let rules = Rules::parse("bcast -> pipelined-chain segment=1000", "test").expect("a rule");
        let receives = |schedule: crate::Schedule| {
            schedule.steps().iter().filter(|step| matches!(step, crate::Step::Recv { .. })).count()
        };
        assert_eq!(receives(plan_by(&call, GROUP, &model, &[&rules])), 100, "100 segments");
        let none = Rules::default();
        let chosen = choose_by(&call, GROUP, &model, &[&none]);
        assert_eq!(chosen.algorithm.name, registry::choose(&call, GROUP, &model).name);
        assert!(chosen.rule.is_none());
        // Rules that are nearer go first.
        let nearer = Rules::parse("bcast -> flat", "info").expect("a rule");
        assert_eq!(choose_by(&call, GROUP, &model, &[&nearer, &rules]).algorithm.name, "flat");
    }

    #[test]
    fn every_algorithm_there_is_is_taken_where_a_rule_names_it() {
        let size = 16;
        let vector = Vector { count: 1 << 20, element: 8, commutative: true };
        let counts = vec![1 << 16; size];
        let (blocks, bytes) = (vec![Block { displacement: 0, bytes: 1 << 12 }; size], vec![8; size]);
        let (root, in_place) = (0, false);
        let calls = [
            Call::Barrier,
            Call::Bcast { root, bytes: 1 << 20 },
            Call::Gather { root, bytes: 8, in_place },
            Call::Gatherv { root, bytes: 8, blocks: &blocks, in_place },
            Call::Scatter { root, bytes: 8, in_place },
            Call::Scatterv { root, bytes: 8, blocks: &blocks, in_place },
            Call::Allgather { bytes: 8, in_place },
            Call::Allgatherv { blocks: &blocks, in_place },
            Call::Alltoall { bytes: 8, in_place },
            Call::Alltoallv { send: &blocks, recv: &blocks, in_place },
            Call::Alltoallw { send: &bytes, recv: &bytes, in_place },
            Call::Reduce { root, vector, in_place },
            Call::Allreduce { vector, in_place },
            Call::ReduceScatter { counts: &counts, vector, in_place },
            Call::Scan { vector, in_place },
            Call::Exscan { vector, in_place },
        ];
        let model = Model::cluster(Partition::Block(4));
        let group = Group { rank: 3, size: size as u32 };
        for algorithm in algorithms::all() {
            for operation in algorithm.operations {
                let text = format!("{operation} -> {}", algorithm.name);
                let rules = Rules::parse(&text, "test").expect("a rule");
                let call = calls.iter().find(|call| call.name() == *operation).expect("one of each");
                let chosen = choose_by(call, group, &model, &[&rules]);
                assert!(chosen.rule.is_some() && std::ptr::eq(chosen.algorithm, algorithm), "{text}");
                assert!(!plan_by(call, group, &model, &[&rules]).is_empty(), "{text}");
            }
        }
    }

    #[test]
    fn what_is_forbidden_is_not_taken_and_others_are_chosen_among_as_before() {
        let (model, call) = (Model::default(), allreduce(1 << 14, true));
        let ranked = registry::rank_algorithms(&call, GROUP, &model);
        let mut text = String::new();
        for pair in ranked.windows(2) {
            text += &format!("allreduce -> not {}\n", pair[0].0.name);
            let rules = Rules::parse(&text, "test").expect("rules");
            let chosen = choose_by(&call, GROUP, &model, &[&rules]);
            assert!(chosen.rule.is_none() && std::ptr::eq(chosen.algorithm, pair[1].0), "{text}");
        }
        // An earlier rule goes before a later one.
        let (first, second) = (ranked[0].0, ranked[1].0);
        for (text, taken) in [
            (format!("allreduce -> not {0}; allreduce -> {0}", first.name), second),
            (format!("allreduce -> {0}; allreduce -> not {0}", second.name), second),
            (format!("allreduce bytes=..8 -> not {}", first.name), first),
        ] {
            let rules = Rules::parse(&text, "test").expect("rules");
            assert!(std::ptr::eq(choose_by(&call, GROUP, &model, &[&rules]).algorithm, taken), "{text}");
        }
        let all: String =
            ranked.iter().map(|(algorithm, _)| format!("allreduce -> not {};", algorithm.name)).collect();
        let rules = Rules::parse(&all, "test").expect("rules");
        assert!(std::ptr::eq(choose_by(&call, GROUP, &model, &[&rules]).algorithm, first), "as if none was");
    }

    #[test]
    fn rules_decide_between_the_ways_inside_a_node_and_messages() {
        use crate::rounds::{NodeCall, Room, Shape, Told, Way};
        let call = allreduce(1 << 14, true);
        let Call::Allreduce { vector, .. } = call else { unreachable!("just made") };
        let on_node = NodeCall {
            shape: Shape::Allreduce,
            members: GROUP.size,
            bytes: vector.bytes(),
            element: 8,
            in_place: false,
            blocking: true,
            room: Room::alike(64 << 10, false),
        };
        let told = |text: &str| {
            let rules = Rules::parse(text, "test").expect("rules");
            decide_on_node(&call, GROUP, &Model::default(), on_node, &[&rules])
                .cells
                .map(|call| call.room.told)
        };
        let nothing = Told::default();
        assert_eq!(told("bcast -> flat"), Some(nothing));
        assert_eq!(told("allreduce -> not ring"), Some(nothing), "an algorithm of messages");
        assert_eq!(told("allreduce -> ring"), None);
        assert_eq!(told("allreduce -> messages"), None);
        assert_eq!(told("allreduce bytes=..8 -> messages"), Some(nothing), "of other calls");
        let flat = nothing.to_go(Way::Flat, Some(4096));
        assert_eq!(told("allreduce -> cells segment=4K; allreduce -> ring"), Some(flat));
        assert_eq!(
            told("allreduce -> core-by-core; allreduce -> cells segment=4K"),
            Some(flat),
            "nobody is bound"
        );
        let barred = nothing.not_to_go(Way::TwoPhases);
        assert_eq!(told("allreduce -> not cells-two-phases; allreduce -> cells-two-phases"), Some(barred));
        assert_eq!(
            told("allreduce -> not cells-two-phases; allreduce -> not cells"),
            None,
            "nothing is left"
        );
    }

    #[test]
    fn a_text_that_is_no_rule_is_named_with_line_and_reason() {
        for (text, line, reason) in [
            ("allreduce\n", 1, "a rule is: OPERATION"),
            ("\n\nallsum -> flat", 3, "no operation \"allsum\" beside those"),
            ("allsum -> flat", 1, "inter_ or neighbor_; known are allgather, "),
            ("inter_scan -> flat", 1, "no operation \"inter_scan\"; known are inter_allgather, "),
            (
                "neighbor_alltoall -> ring",
                1,
                "neighbor_alltoall has no algorithm \"ring\"; it has direct, combined",
            ),
            ("bcast -> ring", 1, "bcast has no algorithm \"ring\"; it has binomial"),
            ("bcast -> flat\nbcast size=3 -> flat", 2, "none of ranks=A..B"),
            ("bcast bytes=8..4 -> flat", 1, "\"8..4\" is no range"),
            ("bcast ranks=x -> flat", 1, "\"x\" is no range"),
            ("bcast -> ", 1, "the algorithm is missing"),
            ("-> flat", 1, "the operation is missing"),
            ("bcast -> pipelined-chain segment=0", 1, "N above 0"),
            ("bcast -> pipelined-chain depth=3", 1, "none of segment=N"),
            ("bcast -> not", 1, "the algorithm is missing"),
            ("bcast -> not ring-ring", 1, "bcast has no algorithm"),
            ("bcast -> not pipelined-chain segment=8K", 1, "behind an algorithm that the rule forbids"),
        ] {
            let fault = Rules::parse(text, "/etc/rules").expect_err(text);
            assert_eq!(fault.line, line, "{text:?}");
            assert!(fault.to_string().starts_with(&format!("/etc/rules, line {line}: ")), "{fault}");
            assert!(fault.reason.contains(reason), "{fault}");
        }
        let long = "#".repeat(crate::text::LONGEST + 1);
        assert!(Rules::parse(&long, "f").expect_err("too long").reason.contains("too long"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([a-z=0-9.>KMG;#\n -]|allreduce|bcast|ranks=|bytes=|-> |flat|ring){0,40}") {
            let _ = Rules::parse(&text, "fuzz");
        }

        #[test]
        fn what_is_written_is_read_again(
            operation in prop::sample::select(vec![
                "allreduce", "bcast", "reduce", "allgather", "alltoall", "inter_allgather", "neighbor_alltoallv",
            ]),
            choice in 0_usize..20,
            ranks in prop::option::of((0_u64..99, 99_u64..2000)),
            bytes in prop::option::of((0_u64..99, prop::option::of(99_u64..1 << 40))),
            segment in prop::option::of(1_u64..1 << 30),
        ) {
            let algorithms: Vec<_> =
                Named::all().filter(|algorithm| algorithm.operations().contains(&operation)).collect();
            let rule = Rule {
                operation,
                ranks: ranks.map_or(Span::ALL, |(first, last)| Span(first, last)),
                bytes: bytes.map_or(Span::ALL, |(first, last)| Span(first, last.unwrap_or(u64::MAX))),
                nodes: Span::ALL,
                algorithm: algorithms[choice % algorithms.len()],
                forbids: segment.is_none() && choice.is_multiple_of(3),
                segment,
                window: None,
                source: "".into(),
                line: 1,
            };
            let rules = Rules(vec![rule]);
            prop_assert_eq!(Rules::parse(&rules.0[0].to_string(), ""), Ok(rules));
        }
    }
}
