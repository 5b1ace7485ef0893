//! Whether a type's entries overlap: such a type may be sent but not received into (section 5.1.11).
//!
//! The answer is found from the program of the layout, in a time that does not grow with its counts: parts whose hulls
//! lie apart need no closer look. Where hulls interleave, the runs themselves are compared as long as these are few. An
//! overlap among more of them is not noticed; nothing that lies apart is ever called an overlap.

use crate::layout::{Layout, Node, Shape, length_of};

/// Runs that are compared with each other at most.
const MOST_RUNS: usize = 1 << 14;
/// Distances between elements that are looked at.
const MOST_DISTANCES: u64 = 64;

/// What is known of bytes that do not overlap each other.
enum Covered {
    /// They lie between these two.
    Hull(i64, i64),
    /// They are these runs (first byte, one past the last), in ascending order.
    Runs(Vec<(i64, i64)>),
}

struct Overlap;

/// The smallest number of consecutive elements whose entries overlap; `u64::MAX` when none is known.
pub(crate) fn fewest_that_overlap(layout: &Layout) -> u64 {
    if layout.size == 0 {
        return u64::MAX;
    }
    let Ok(one) = covered(&layout.node) else { return 1 };
    let (low, high) = one.hull();
    let extent = layout.extent.unsigned_abs();
    if extent >= high.abs_diff(low) {
        return u64::MAX;
    }
    let Covered::Runs(runs) = one else { return if extent == 0 { 2 } else { u64::MAX } };
    (1..=MOST_DISTANCES)
        .take_while(|distance| extent.checked_mul(*distance).is_some_and(|apart| apart < high.abs_diff(low)))
        .find(|&distance| {
            let apart = (extent * distance) as i64;
            meet(&runs, &runs.iter().map(|run| (run.0 + apart, run.1 + apart)).collect::<Vec<_>>())
        })
        .map_or(u64::MAX, |distance| distance + 1)
}

fn covered(node: &Node) -> Result<Covered, Overlap> {
    let run = |at: i64, length: usize| (at, at.wrapping_add(length as i64));
    let covered = match &node.shape {
        Shape::Run => Covered::Runs(vec![run(0, node.size)]),
        Shape::Repeat { count, stride, body, .. } => copies(covered(body)?, *stride, *count)?,
        Shape::Blocks { length, places } => several(places.iter().map(|&at| run(at, *length)).collect())?,
        Shape::Ragged { starts, places } => {
            let runs = places.iter().enumerate();
            several(runs.map(|(index, &at)| run(at, length_of(starts, node.size, index))).collect())?
        }
        Shape::List { nodes, .. } => {
            let parts = nodes.iter().map(covered).collect::<Result<Vec<Covered>, Overlap>>()?;
            let low = parts.iter().map(|part| part.hull().0).min().unwrap_or(0);
            let high = parts.iter().map(|part| part.hull().1).max().unwrap_or(0);
            let mut runs = Vec::new();
            let exact = parts.into_iter().all(|part| match part {
                Covered::Runs(part) => {
                    runs.extend(part);
                    runs.len() <= MOST_RUNS
                }
                Covered::Hull(..) => false,
            });
            if exact { several(runs)? } else { Covered::Hull(low, high) }
        }
    };
    Ok(covered.shifted(node.at))
}

/// `count` copies, `stride` bytes apart.
fn copies(one: Covered, stride: i64, count: usize) -> Result<Covered, Overlap> {
    let (low, high) = one.hull();
    let last = stride.wrapping_mul(count as i64 - 1);
    let hull = Covered::Hull(low.wrapping_add(last.min(0)), high.wrapping_add(last.max(0)));
    let apart = stride.unsigned_abs() >= high.abs_diff(low);
    let Covered::Runs(runs) = one else {
        return if stride == 0 { Err(Overlap) } else { Ok(hull) };
    };
    if !apart {
        // Any two copies have the distance of the first and a later one.
        for distance in 1..count.min(MOST_DISTANCES as usize) as i64 {
            let moved = stride.wrapping_mul(distance);
            if moved.unsigned_abs() >= high.abs_diff(low) {
                break;
            }
            let others: Vec<_> = runs.iter().map(|run| (run.0 + moved, run.1 + moved)).collect();
            if meet(&runs, &others) {
                return Err(Overlap);
            }
        }
    }
    if runs.len().saturating_mul(count) > MOST_RUNS / 4 {
        return Ok(hull);
    }
    let all = (0..count as i64).flat_map(|i| {
        let moved = stride.wrapping_mul(i);
        runs.iter().map(move |run| (run.0 + moved, run.1 + moved)).collect::<Vec<_>>()
    });
    several(all.collect())
}

/// Runs in any order.
fn several(mut runs: Vec<(i64, i64)>) -> Result<Covered, Overlap> {
    runs.sort_unstable();
    if runs.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err(Overlap);
    }
    Ok(Covered::Runs(runs))
}

/// Whether a run of one ascending list overlaps one of the other.
fn meet(a: &[(i64, i64)], b: &[(i64, i64)]) -> bool {
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        if x.1 <= y.0 {
            i += 1;
        } else if y.1 <= x.0 {
            j += 1;
        } else {
            return true;
        }
    }
    false
}

impl Covered {
    fn hull(&self) -> (i64, i64) {
        match self {
            Covered::Hull(low, high) => (*low, *high),
            Covered::Runs(runs) => (runs.first().map_or(0, |run| run.0), runs.last().map_or(0, |run| run.1)),
        }
    }

    fn shifted(self, by: i64) -> Covered {
        let moved = |(low, high): (i64, i64)| (low.wrapping_add(by), high.wrapping_add(by));
        match self {
            Covered::Hull(low, high) => {
                let (low, high) = moved((low, high));
                Covered::Hull(low, high)
            }
            Covered::Runs(runs) => Covered::Runs(runs.into_iter().map(moved).collect()),
        }
    }
}
