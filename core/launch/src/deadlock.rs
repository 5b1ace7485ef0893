//! Who waits for whom, and whether that can ever end. Pure: what ranks tell goes in, a proof or nothing comes out.
//!
//! A blocked call needs *each* of some sets of ranks, and of a set *any* rank (a wildcard receive is one set of many, a wait for
//! all requests many sets of one). A rank can act when it is not blocked, when one of its calls may return, or when
//! something under way in it may go on because somebody it reacts to acts. Everything that can act is found by spreading from
//! those who are not blocked; the rest waits for itself, for ever.
//!
//! That is a proof only if it all was so at one moment, and if no message was on its way then. So each rank tells an interval
//! in which nothing moved in it, at whose end it looked at everything that had arrived by then; a moment that lies in all
//! intervals is such a moment. A message sent before it would have been found by the look. (Ranks of one machine share a clock;
//! those of others are told in the head's time, see `hosts::clocks`. A rank whose fabric has not had all its messages
//! acknowledged is one with operations under way.)

use weft_boot::stall::{Blocked, Place, Ranks, Stall};

/// What is known of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// It computes, tests, or says nothing: it may do anything.
    #[default]
    Active,
    /// It has been blocked for long.
    Stalled(Stall),
    /// It has ended MPI, or its process has ended: it will never act again. The time it was known.
    Gone(u64),
}

/// One edge of a cycle: who needs whom, and the call that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Who is blocked.
    pub waits: usize,
    /// For whom.
    pub for_rank: usize,
    /// Which of the blocked rank's calls.
    pub call: usize,
}

/// A deadlock that is certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The blocked ranks that can never go on, ascending.
    pub ranks: Vec<usize>,
    /// Some of them that wait in a circle, or one edge to a rank that is gone; empty only when a rank waits for nobody.
    pub chain: Vec<Edge>,
    /// Whether the chain ends at a rank that is gone, instead of closing.
    pub ends_at_gone: bool,
}

/// Looks for ranks that can never go on.
pub fn find(ranks: &[Known]) -> Option<Deadlock> {
    let can_act = spread(ranks);
    let stuck: Vec<usize> = (0..ranks.len()).filter(|&rank| !can_act[rank]).collect();
    let blocked: Vec<usize> =
        stuck.iter().copied().filter(|&rank| matches!(ranks[rank], Known::Stalled(_))).collect();
    if blocked.is_empty() || !at_one_moment(ranks, &stuck, &blocked) {
        return None;
    }
    let (chain, ends_at_gone) = chain(ranks, &can_act, &blocked);
    Some(Deadlock { ranks: blocked, chain, ends_at_gone })
}

/// Which ranks can act, now or after others have: the least set that is closed.
fn spread(ranks: &[Known]) -> Vec<bool> {
    let mut can_act: Vec<bool> = ranks.iter().map(|known| matches!(known, Known::Active)).collect();
    loop {
        let mut grew = false;
        for (rank, known) in ranks.iter().enumerate() {
            if let Known::Stalled(stall) = known
                && !can_act[rank]
                && may_go_on(stall, ranks, &can_act)
            {
                can_act[rank] = true;
                grew = true;
            }
        }
        if !grew {
            return can_act;
        }
    }
}

fn may_go_on(stall: &Stall, ranks: &[Known], can_act: &[bool]) -> bool {
    stall.others
        || stall.calls.is_empty()
        || stall.acts_on.iter().any(|set| set.iter().any(|rank| acts(rank, can_act)))
        || stall.calls.iter().any(|call| call.needs.iter().all(|set| may_help(set, call, ranks, can_act)))
}

/// Whether a rank can act. One outside the job would be a mistake of the description; nothing is concluded from it.
fn acts(rank: u32, can_act: &[bool]) -> bool {
    can_act.get(rank as usize).copied().unwrap_or(true)
}

/// Whether some rank of a set that a call needs can act, if need be by beginning MPI again.
fn may_help(set: &Ranks, call: &Blocked, ranks: &[Known], can_act: &[bool]) -> bool {
    let begins_again = |rank: u32| call.again && matches!(ranks.get(rank as usize), Some(Known::Gone(_)));
    set.iter().any(|rank| acts(rank, can_act) || begins_again(rank))
}

/// Whether some moment lies in the intervals of all blocked ranks, after all that are gone went.
fn at_one_moment(ranks: &[Known], stuck: &[usize], blocked: &[usize]) -> bool {
    let begin = stuck.iter().map(|&rank| match &ranks[rank] {
        Known::Stalled(stall) => stall.from,
        Known::Gone(at) => *at,
        Known::Active => u64::MAX,
    });
    let end = blocked.iter().map(|&rank| match &ranks[rank] {
        Known::Stalled(stall) => stall.until,
        _ => 0,
    });
    // Ranks that are gone and for whom nobody stuck waits do not matter, but cost at most one more period.
    begin.max().unwrap_or(u64::MAX) < end.min().unwrap_or(0)
}

/// The edge out of a stuck rank: the first call's first set of which nobody can act; of it a gone rank, or a blocked one.
fn edge(ranks: &[Known], can_act: &[bool], rank: usize) -> Option<Edge> {
    let Known::Stalled(stall) = &ranks[rank] else { return None };
    stall.calls.iter().enumerate().find_map(|(call, blocked)| {
        let set = blocked.needs.iter().find(|set| !may_help(set, blocked, ranks, can_act))?;
        let is_gone = |other: &u32| matches!(ranks[*other as usize], Known::Gone(_));
        // Of a wildcard, somebody else than the rank itself tells more.
        let others = || set.iter().filter(|&other| other as usize != rank);
        let chosen = others().find(is_gone).or_else(|| others().next()).or_else(|| set.iter().next())?;
        Some(Edge { waits: rank, for_rank: chosen as usize, call })
    })
}

/// Follows edges from the first blocked rank until they close or end.
fn chain(ranks: &[Known], can_act: &[bool], blocked: &[usize]) -> (Vec<Edge>, bool) {
    let mut path: Vec<Edge> = Vec::new();
    let Some(&first) = blocked.first() else { return (path, false) };
    let mut at = first;
    loop {
        if let Some(start) = path.iter().position(|edge| edge.waits == at) {
            return (path.split_off(start), false);
        }
        match edge(ranks, can_act, at) {
            Some(edge) => {
                at = edge.for_rank;
                path.push(edge);
            }
            None => {
                let ends_at_gone = matches!(ranks[at], Known::Gone(_));
                // The last edge says it all.
                let last = path.pop().into_iter().collect();
                return (last, ends_at_gone);
            }
        }
    }
}

/// Of the ranks that take part in a collective operation, those that have not entered it as far as is known (second), and those
/// of which nothing is known (third).
pub fn absent(ranks: &[Known], place: Place, members: &[u32]) -> (Vec<usize>, Vec<usize>) {
    let (mut absent, mut unknown) = (Vec::new(), Vec::new());
    for &member in members {
        match ranks.get(member as usize) {
            Some(Known::Stalled(stall)) => {
                let begun = stall.begun.iter().find(|begun| begun.channel == place.channel);
                if begun.is_none() && stall.begun.len() >= weft_boot::stall::MOST_BEGUN {
                    unknown.push(member as usize);
                    continue;
                }
                // Numbers wrap around; what is ahead by less than half is later.
                let has = begun.map_or(0, |begun| begun.number).wrapping_sub(place.number);
                if has == 0 || has > u32::MAX / 2 {
                    absent.push(member as usize);
                }
            }
            Some(Known::Gone(_)) => absent.push(member as usize),
            _ => unknown.push(member as usize),
        }
    }
    (absent, unknown)
}

#[cfg(test)]
#[path = "deadlock_tests.rs"]
mod tests;
