//! What a division cuts, and exchanges between its parts that cut less.

use super::Work;
use super::edges::Edges;

/// Not among the vertices that are divided.
pub(super) const OUTSIDE: u32 = u32::MAX;

/// Writes the parts to where they can be looked up by vertex; everything is [`OUTSIDE`] before and between uses.
fn note(vertices: &[u32], division: &[u32], part_of: &mut [u32]) {
    for (&vertex, &part) in vertices.iter().zip(division) {
        part_of[vertex as usize] = part;
    }
}

/// The weight of the edges between different parts, seen from both ends.
pub(super) fn cut(edges: &impl Edges, vertices: &[u32], division: &[u32], part_of: &mut [u32]) -> u64 {
    note(vertices, division, part_of);
    let mut cut = 0;
    for (&vertex, &own) in vertices.iter().zip(division) {
        edges.each(vertex, |to, weight| {
            let other = part_of[to as usize];
            cut += if other != own && other != OUTSIDE { weight } else { 0 };
        });
    }
    vertices.iter().for_each(|&vertex| part_of[vertex as usize] = OUTSIDE);
    cut
}

/// Exchanges vertices of different parts as long as that cuts less and work is left. Parts keep their sizes.
pub(super) fn exchange(
    edges: &impl Edges,
    vertices: &[u32],
    division: &mut [u32],
    part_of: &mut [u32],
    work: &mut Work,
) {
    note(vertices, division, part_of);
    let parts = division.iter().max().map_or(0, |&part| part as usize + 1);
    let mut members = vec![Vec::new(); parts];
    for (&vertex, &part) in vertices.iter().zip(division.iter()) {
        members[part as usize].push(vertex);
    }
    // Weight of the edges from a vertex to two parts, and to one other vertex.
    let weights = |part_of: &[u32], vertex: u32, here: u32, there: u32, other: u32| {
        let (mut inside, mut across, mut between) = (0_i64, 0_i64, 0_i64);
        edges.each(vertex, |to, weight| {
            let part = part_of[to as usize];
            inside += if part == here { weight as i64 } else { 0 };
            across += if part == there { weight as i64 } else { 0 };
            between += if to == other { weight as i64 } else { 0 };
        });
        (inside, across, between)
    };
    let mut improved = true;
    while improved && !work.is_over() {
        improved = false;
        for &vertex in vertices {
            let here = part_of[vertex as usize];
            let mut near: Vec<u32> = Vec::new();
            edges.each(vertex, |to, _| {
                let part = part_of[to as usize];
                if part != here && part != OUTSIDE && !near.contains(&part) {
                    near.push(part);
                }
            });
            let mut best: Option<(i64, u32, usize)> = None;
            for &there in &near {
                let (inside, across, _) = weights(part_of, vertex, here, there, vertex);
                for (at, &partner) in members[there as usize].iter().enumerate() {
                    let (stays, comes, between) = weights(part_of, partner, there, here, vertex);
                    let gain = (across - inside) + (comes - stays) - 2 * between;
                    if gain > best.map_or(0, |(gain, _, _)| gain) {
                        best = Some((gain, there, at));
                    }
                }
                work.done(members[there as usize].len() as u64 * 8);
            }
            if let Some((_, there, at)) = best {
                let partner = std::mem::replace(&mut members[there as usize][at], vertex);
                let own = members[here as usize].iter_mut().find(|member| **member == vertex);
                *own.expect("a member of its part") = partner;
                part_of[vertex as usize] = there;
                part_of[partner as usize] = here;
                improved = true;
            }
            if work.is_over() {
                break;
            }
        }
    }
    for (part, &vertex) in division.iter_mut().zip(vertices) {
        *part = std::mem::replace(&mut part_of[vertex as usize], OUTSIDE);
    }
}
