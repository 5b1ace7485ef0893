//! What rules say of one call: the algorithm that it takes, and those that it must not take.

use super::{Named, Rule, Rules};
use crate::algorithms;
use crate::call::{Call, Group};
use crate::inter::{Alike, InterAlgorithm};
use crate::model::Model;
use crate::neighbor::{NeighborAlgorithm, NeighborCall};
use crate::registry::Algorithm;
use crate::rounds::{NodeCall, Way, goes_by_messages};

/// What rules say of a call.
#[derive(Debug)]
pub(crate) struct Verdict<'r, A: 'static> {
    /// The first one that names an algorithm which can do it and is not forbidden, and that algorithm.
    pub named: Option<(&'r Rule, &'static A)>,
    barred: Vec<&'static A>,
}

impl<'r, A> Verdict<'r, A> {
    /// Of those that fit the call, in their order; `of`: the algorithm that a rule names, if it is of this table and can do the call.
    fn of(rules: impl Iterator<Item = &'r Rule>, of: impl Fn(&Rule) -> Option<&'static A>) -> Verdict<'r, A> {
        let mut verdict = Verdict { named: None, barred: Vec::new() };
        for rule in rules {
            match of(rule) {
                Some(algorithm) if rule.forbids => verdict.barred.push(algorithm),
                Some(algorithm) if verdict.allows(algorithm) => {
                    verdict.named = Some((rule, algorithm));
                    break;
                }
                _ => {}
            }
        }
        verdict
    }

    /// Whether an algorithm is not forbidden.
    pub(crate) fn allows(&self, algorithm: &A) -> bool {
        !self.barred.iter().any(|barred| std::ptr::eq(*barred, algorithm))
    }
}

/// What rules (those of earlier `rules` first) say of a call.
pub(crate) fn verdict<'r>(
    rules: &[&'r Rules],
    call: &Call<'_>,
    group: Group,
    model: &Model,
) -> Verdict<'r, Algorithm> {
    let bytes = algorithms::bytes_of(call) as u64;
    let fitting = rules
        .iter()
        .flat_map(|rules| rules.iter())
        .filter(|rule| rule.fits(call.name(), group.size, bytes, model));
    Verdict::of(fitting, |rule| match rule.algorithm {
        Named::Collective(algorithm) if (algorithm.applies)(call, group, &rule.adjust(model)) => {
            Some(algorithm)
        }
        _ => None,
    })
}

/// The same of a call on an intercommunicator.
pub(crate) fn verdict_inter<'r>(
    rules: &[&'r Rules],
    operation: &str,
    alike: &Alike,
    model: &Model,
) -> Verdict<'r, InterAlgorithm> {
    let fitting = rules
        .iter()
        .flat_map(|rules| rules.iter())
        .filter(|rule| rule.fits(operation, alike.size(), alike.larger(), model));
    Verdict::of(fitting, |rule| match rule.algorithm {
        Named::Inter(algorithm) if (algorithm.applies)(alike) => Some(algorithm),
        _ => None,
    })
}

/// The same of a neighbourhood's.
pub(crate) fn verdict_neighbor<'r>(
    rules: &[&'r Rules],
    call: &NeighborCall<'_>,
    group: Group,
    model: &Model,
) -> Verdict<'r, NeighborAlgorithm> {
    let fitting = rules
        .iter()
        .flat_map(|rules| rules.iter())
        .filter(|rule| rule.fits(call.operation, group.size, call.bytes, model));
    Verdict::of(fitting, |rule| match rule.algorithm {
        Named::Neighbor(algorithm) => Some(algorithm),
        _ => None,
    })
}

/// What rules make of a call of members of one node.
#[derive(Clone, Copy, Debug)]
pub struct OnNode<'r> {
    /// It goes through the cells, and this is said of it there; `None`: it goes by messages.
    pub cells: Option<NodeCall>,
    /// The rule that says so.
    pub rule: Option<&'r Rule>,
}

/// What rules (those of earlier `rules` first) make of a call that could go through cells: `on_node` is the same as its members see it, and the same at all
/// of them.
pub fn decide_on_node<'r>(
    call: &Call<'_>,
    group: Group,
    model: &Model,
    on_node: NodeCall,
    rules: &[&'r Rules],
) -> OnNode<'r> {
    let mut on_node = on_node;
    let bytes = algorithms::bytes_of(call) as u64;
    for rule in rules.iter().flat_map(|rules| rules.iter()) {
        if !rule.fits(call.name(), group.size, bytes, model) {
            continue;
        }
        let told = on_node.room.told;
        match rule.algorithm {
            Named::OnNode(algorithm) if rule.forbids => on_node.room.told = told.not_to_go(algorithm.way),
            Named::OnNode(algorithm) if algorithm.way == Way::Messages && !told.bars(Way::Messages) => {
                return OnNode { cells: None, rule: Some(rule) };
            }
            Named::OnNode(algorithm) if !told.bars(algorithm.way) && algorithm.can(&on_node) => {
                on_node.room.told = told.to_go(algorithm.way, rule.segment);
                return OnNode { cells: Some(on_node), rule: Some(rule) };
            }
            Named::Collective(algorithm)
                if !rule.forbids && (algorithm.applies)(call, group, &rule.adjust(model)) =>
            {
                return OnNode { cells: None, rule: Some(rule) };
            }
            _ => {}
        }
    }
    OnNode { cells: (!goes_by_messages(&on_node)).then_some(on_node), rule: None }
}
