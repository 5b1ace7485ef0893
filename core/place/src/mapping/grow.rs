//! Growing regions in a graph, and improving a cut in two by exchanging pairs.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::Work;
use super::edges::Edges;

/// Not part of what is being divided.
const OUTSIDE: u32 = u32::MAX;
/// The same, where sums of weights are kept.
const TAKEN: u64 = u64::MAX;

/// Notes about all vertices, kept between uses so that dividing a part costs what the part costs. Everything is at rest (outside,
/// taken, 0) between uses.
#[derive(Debug)]
pub struct Scratch {
    side: Vec<u32>,
    partner: Vec<u32>,
    gains: Vec<i64>,
    pull: Vec<u64>,
}

impl Scratch {
    /// Notes about so many vertices.
    pub fn new(vertices: usize) -> Scratch {
        Scratch {
            side: vec![OUTSIDE; vertices],
            partner: vec![OUTSIDE; vertices],
            gains: vec![0; vertices],
            pull: vec![TAKEN; vertices],
        }
    }
}

/// `vertices` in the order of growing from `start`: always the one with the most traffic to those taken, among equals the one
/// numbered lowest; where nothing is left to grow into, on from the lowest number.
pub(super) fn grow(edges: &impl Edges, vertices: &[u32], start: u32, scratch: &mut Scratch) -> Vec<u32> {
    let pull = &mut scratch.pull;
    vertices.iter().for_each(|&vertex| pull[vertex as usize] = 0);
    // An entry whose sum is not the vertex's any more is passed over.
    let mut reached = BinaryHeap::from([(0, Reverse(start))]);
    let mut unreached = vertices.iter();
    let mut order = Vec::with_capacity(vertices.len());
    loop {
        let vertex = match reached.pop() {
            Some((sum, Reverse(vertex))) if pull[vertex as usize] == sum => vertex,
            Some(_) => continue,
            None => match unreached.find(|&&vertex| pull[vertex as usize] != TAKEN) {
                Some(&vertex) => vertex,
                None => return order,
            },
        };
        pull[vertex as usize] = TAKEN;
        order.push(vertex);
        edges.each(vertex, |to, weight| {
            let sum = &mut pull[to as usize];
            if *sum != TAKEN {
                *sum = sum.saturating_add(weight).min(TAKEN - 1);
                reached.push((*sum, Reverse(to)));
            }
        });
    }
}

/// `vertices` by their distance from `start`, whatever the weights; cheaper than [`grow`].
pub(super) fn spread_out(
    edges: &impl Edges,
    vertices: &[u32],
    start: u32,
    scratch: &mut Scratch,
) -> Vec<u32> {
    let pull = &mut scratch.pull;
    vertices.iter().for_each(|&vertex| pull[vertex as usize] = 0);
    let mut unreached = vertices.iter();
    let mut order = vec![start];
    pull[start as usize] = TAKEN;
    let mut next = 0;
    loop {
        while next < order.len() {
            edges.each(order[next], |to, _| {
                if std::mem::replace(&mut pull[to as usize], TAKEN) != TAKEN {
                    order.push(to);
                }
            });
            next += 1;
        }
        match unreached.find(|&&vertex| pull[vertex as usize] != TAKEN) {
            Some(&vertex) => {
                pull[vertex as usize] = TAKEN;
                order.push(vertex);
            }
            None => return order,
        }
    }
}

/// Kernighan and Lin (1970): in each pass pairs are exchanged tentatively, the best first and also for the worse, and the part
/// of the pass that gained most is kept. `order` holds one side in its first `first` places. Passes end when nothing is gained,
/// or the work is used up.
pub(super) fn exchange_pairs(
    edges: &impl Edges,
    order: &mut [u32],
    first: usize,
    scratch: &mut Scratch,
    work: &mut Work,
) {
    const PASSES: usize = 6;
    /// Pairs that may bring nothing before a pass is given up.
    const PATIENCE: usize = 32;
    let Scratch { side, partner, gains, .. } = scratch;
    for _ in 0..PASSES {
        if work.is_over() {
            break;
        }
        for (at, &vertex) in order.iter().enumerate() {
            side[vertex as usize] = u32::from(at >= first);
        }
        // What moving a vertex to the other side gains.
        let mut open = [BTreeSet::new(), BTreeSet::new()];
        for &vertex in order.iter() {
            let own = side[vertex as usize];
            let mut gain = 0_i64;
            edges.each(vertex, |to, weight| match side[to as usize] {
                OUTSIDE => {}
                other if other == own => gain -= weight as i64,
                _ => gain += weight as i64,
            });
            gains[vertex as usize] = gain;
            open[own as usize].insert((-gain, vertex));
            work.done(8);
        }
        let mut swaps: Vec<(u32, u32)> = Vec::new();
        let (mut total, mut best, mut kept) = (0_i64, 0_i64, 0);
        while !work.is_over() && swaps.len() < kept + PATIENCE {
            let Some(&(_, left)) = open[0].first() else { break };
            // The best partner need not be the first when the two are neighbours; it is near the front.
            let joined = |right: u32| {
                let mut between = 0;
                edges.each(left, |to, weight| between += if to == right { weight as i64 } else { 0 });
                between
            };
            let best_partner = open[1]
                .iter()
                .take(8)
                .map(|&(_, right)| (gains[left as usize] + gains[right as usize] - 2 * joined(right), right))
                .max_by_key(|&(gain, right)| (gain, Reverse(right)));
            let Some((gain, right)) = best_partner else { break };
            for vertex in [left, right] {
                let own = side[vertex as usize];
                open[own as usize].remove(&(-gains[vertex as usize], vertex));
                side[vertex as usize] = 1 - own;
                edges.each(vertex, |to, weight| {
                    let other = side[to as usize];
                    if other == OUTSIDE {
                        return;
                    }
                    let change = if other == own { 2 * weight as i64 } else { -2 * (weight as i64) };
                    let old = gains[to as usize];
                    gains[to as usize] = old + change;
                    // Those exchanged already stay where they are in this pass.
                    if open[other as usize].remove(&(-old, to)) {
                        open[other as usize].insert((-(old + change), to));
                    }
                });
                work.done(8);
            }
            swaps.push((left, right));
            total += gain;
            if total > best {
                (best, kept) = (total, swaps.len());
            }
        }
        if best == 0 {
            break;
        }
        for &(left, right) in &swaps[..kept] {
            partner[left as usize] = right;
            partner[right as usize] = left;
        }
        for vertex in order.iter_mut() {
            let other = std::mem::replace(&mut partner[*vertex as usize], OUTSIDE);
            *vertex = if other == OUTSIDE { *vertex } else { other };
        }
    }
    for &vertex in order.iter() {
        side[vertex as usize] = OUTSIDE;
        gains[vertex as usize] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::edges::Traffic;
    use super::*;

    /// Two rings of four, joined by one light edge, numbered alternately.
    fn two_rings() -> Traffic {
        let mut edges = vec![(0, 1, 1)];
        for ring in 0..2 {
            edges.extend((0..4).map(|at| (2 * at + ring, 2 * ((at + 1) % 4) + ring, 10)));
        }
        Traffic::new(8, &edges)
    }

    #[test]
    fn growing_stays_where_traffic_is() {
        let order = grow(&two_rings(), &[0, 1, 2, 3, 4, 5, 6, 7], 2, &mut Scratch::new(8));
        let mut ring: Vec<u32> = order[..4].to_vec();
        ring.sort_unstable();
        assert_eq!(ring, [0, 2, 4, 6]);
        assert_eq!(order.len(), 8);
    }

    #[test]
    fn spreading_out_reaches_everything_once() {
        let graph = Traffic::new(6, &[(0, 1, 9), (1, 2, 1), (4, 5, 1)]);
        assert_eq!(spread_out(&graph, &[0, 1, 2, 3, 4, 5], 1, &mut Scratch::new(6)), [1, 0, 2, 3, 4, 5]);
        assert_eq!(
            spread_out(&graph, &[0, 2, 5], 2, &mut Scratch::new(6)),
            [2, 0, 5],
            "through those given only"
        );
    }

    #[test]
    fn exchanging_pairs_finds_the_rings() {
        let mut order: Vec<u32> = (0..8).collect();
        exchange_pairs(&two_rings(), &mut order, 4, &mut Scratch::new(8), &mut Work::new(1 << 20));
        let mut left: Vec<u32> = order[..4].to_vec();
        left.sort_unstable();
        assert!(left == [0, 2, 4, 6] || left == [1, 3, 5, 7], "{order:?}");
    }
}
