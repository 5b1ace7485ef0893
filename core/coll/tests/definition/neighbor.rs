//! Neighbourhood collectives (section 8.6) against their definition: along every edge of a graph, also along several between the
//! same two processes and from one to itself, the block that was given for it arrives, and nothing else is touched.

use crate::case::{UNTOUCHED, pattern};
use crate::world::{Memory, Random, Sends, World, check_channels};
use std::collections::HashMap;
use weft_coll::neighbor::{Edge, all, choose_neighbor};
use weft_coll::{Buffer, Grid, Group, Model, NeighborCall, Range, Rules, Schedule, Step};

fn never(_: &[u8], _: &mut [u8]) {
    unreachable!("nothing is reduced");
}

/// From, to: in the order of both processes' lists of neighbours.
type Edges = Vec<(u32, u32)>;

/// A torus of one dimension, and edges anyhow.
fn graphs(size: u32, random: &mut Random) -> [Edges; 2] {
    let ring = (0..size).flat_map(|rank| [(rank, (rank + size - 1) % size), (rank, (rank + 1) % size)]);
    let mut any = || random.below(u64::from(size)) as u32;
    let anyhow = (0..3 * size).map(|_| (any(), any())).collect();
    [ring.collect(), anyhow]
}

/// Whether every edge of a process has a block of its own (alltoall, `v`) or all have the same (allgather).
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blocks {
    OneForAll,
    OneForEach,
}

fn check(size: u32, edges: &Edges, blocks: Blocks, random: &mut Random) {
    let length = |edge: usize| -> u64 {
        let (from, to) = edges[edge];
        let varies = if blocks == Blocks::OneForEach { edge as u64 % 3 * u64::from(from + to) } else { 0 };
        (u64::from(from) + varies) % 11
    };
    let data = |edge: usize| {
        let number = if blocks == Blocks::OneForEach { edge as u32 } else { 0 };
        pattern(edges[edge].0, number, length(edge))
    };
    let mut outgoing: Vec<Vec<Edge>> = vec![Vec::new(); size as usize];
    let mut incoming = outgoing.clone();
    let (mut sent, mut received) = (vec![Vec::new(); size as usize], vec![Vec::new(); size as usize]);
    // Edges between the same two are told apart by their number.
    let mut numbers: HashMap<(u32, u32), u32> = HashMap::new();
    for (index, &(from, to)) in edges.iter().enumerate() {
        let channel = numbers.entry((from, to)).or_default();
        let (own, room): (&mut Vec<u8>, &mut Vec<u8>) =
            (&mut sent[from as usize], &mut received[to as usize]);
        let block = match blocks {
            Blocks::OneForAll if !own.is_empty() => Range::new(Buffer::Send, 0, length(index)),
            _ => {
                let start = own.len() as u64;
                own.extend(data(index));
                Range::new(Buffer::Send, start, length(index))
            }
        };
        outgoing[from as usize].push(Edge { neighbor: to, channel: *channel, block });
        // A byte between blocks that nobody writes.
        room.push(UNTOUCHED);
        let place = Range::new(Buffer::Recv, room.len() as u64, length(index));
        room.extend(data(index));
        incoming[to as usize].push(Edge { neighbor: from, channel: *channel, block: place });
        *channel += 1;
    }
    let operation = match blocks {
        Blocks::OneForAll => "neighbor_allgatherv",
        Blocks::OneForEach => "neighbor_alltoallv",
    };
    let memories: Vec<Memory> = sent
        .iter()
        .zip(&received)
        .map(|(own, room)| {
            let empty = vec![UNTOUCHED; room.len()];
            Memory::default().with(Buffer::Send, own.clone()).with(Buffer::Recv, empty)
        })
        .collect();
    for algorithm in all() {
        let schedules: Vec<Schedule> = (0..)
            .zip(outgoing.iter().zip(&incoming))
            .map(|(rank, (outgoing, incoming))| {
                algorithm.build(&NeighborCall { operation, grid: None, bytes: 0, outgoing, incoming }, rank)
            })
            .collect();
        check_channels(&schedules);
        for sends in [Sends::Eager, Sends::Synchronous] {
            let after = World::new(&schedules, &memories, never, sends).finish(random);
            for (rank, memory) in after.iter().enumerate() {
                let what =
                    format!("{algorithm:?} {blocks:?}, {sends:?}, rank {rank} of {size}, edges {edges:?}");
                assert_eq!(memory.0[&Buffer::Recv], received[rank], "{what}");
                assert_eq!(memory.0[&Buffer::Send], sent[rank], "{what}");
            }
        }
    }
}

/// The neighbour of a rank of a grid at a place of its list (below and above in each dimension); `None` beyond a border.
fn around(dimensions: &[(u32, bool)], rank: u32, place: usize) -> Option<u32> {
    let (extent, periodic) = dimensions[place / 2];
    let stride: u32 = dimensions[place / 2 + 1..].iter().map(|&(extent, _)| extent).product();
    let at = rank / stride % extent;
    let inside = if place.is_multiple_of(2) { at > 0 } else { at + 1 < extent };
    let there = if place.is_multiple_of(2) { (at + extent - 1) % extent } else { (at + 1) % extent };
    (inside || periodic).then(|| rank - at * stride + there * stride)
}

/// All ways on a grid: a block that leaves downwards comes from above, also where both are one process; the rooms of neighbours
/// beyond a border stay as they are.
fn check_grid(dimensions: &[(u32, bool)], bytes: u64, random: &mut Random) {
    let size: u32 = dimensions.iter().map(|&(extent, _)| extent).product();
    let grid = Some(Grid::new(dimensions.iter().copied()));
    let places = 2 * dimensions.len();
    for operation in ["neighbor_allgather", "neighbor_alltoall", "neighbor_alltoallw"] {
        let for_all = operation == "neighbor_allgather";
        let data = |rank: u32, place: usize| pattern(rank, if for_all { 0 } else { place as u32 }, bytes);
        let edges = |rank: u32, coming: bool| -> Vec<Edge> {
            let edge = |place: usize| {
                let own = place as u32;
                let block = match (operation, coming) {
                    ("neighbor_alltoallw", true) => Range::new(Buffer::RecvPeer(own), 0, bytes),
                    ("neighbor_alltoallw", false) => Range::new(Buffer::SendPeer(own), 0, bytes),
                    (_, true) => Range::new(Buffer::Recv, place as u64 * bytes, bytes),
                    (_, false) => {
                        Range::new(Buffer::Send, if for_all { 0 } else { place as u64 * bytes }, bytes)
                    }
                };
                // Named by the direction in which it travels.
                let channel = own ^ u32::from(coming);
                around(dimensions, rank, place).map(|neighbor| Edge { neighbor, channel, block })
            };
            (0..places).filter_map(edge).collect()
        };
        let memory = |rank: u32, after: bool| {
            let mut memory = Memory::default();
            let (mut sent, mut room) = (Vec::new(), Vec::new());
            for place in 0..places {
                let from = around(dimensions, rank, place).filter(|_| after);
                let block = from.map_or(vec![UNTOUCHED; bytes as usize], |from| data(from, place ^ 1));
                memory = memory.with(Buffer::SendPeer(place as u32), data(rank, place)).with(
                    Buffer::RecvPeer(place as u32),
                    if operation.ends_with('w') { block.clone() } else { Vec::new() },
                );
                sent.extend(data(rank, place));
                room.extend(if operation.ends_with('w') { vec![UNTOUCHED; bytes as usize] } else { block });
            }
            memory.with(Buffer::Send, sent).with(Buffer::Recv, room)
        };
        let memories: Vec<Memory> = (0..size).map(|rank| memory(rank, false)).collect();
        for algorithm in all() {
            let schedule = |rank| {
                let (outgoing, incoming) = (edges(rank, false), edges(rank, true));
                let call = NeighborCall { operation, grid, bytes, outgoing: &outgoing, incoming: &incoming };
                algorithm.build(&call, rank)
            };
            let schedules: Vec<Schedule> = (0..size).map(schedule).collect();
            check_channels(&schedules);
            if algorithm.name == "combined" {
                check_messages(&schedules);
            }
            for sends in [Sends::Eager, Sends::Synchronous] {
                let after = World::new(&schedules, &memories, never, sends).finish(random);
                for (rank, after) in (0..).zip(&after) {
                    let what = format!("{algorithm:?} {operation}, {sends:?}, rank {rank} of {dimensions:?}");
                    for (buffer, bytes) in memory(rank, true).0 {
                        assert_eq!(after.0[&buffer], bytes, "{what}, {buffer:?}");
                    }
                }
            }
        }
    }
}

/// No rank sends two messages to another, or one to itself.
fn check_messages(schedules: &[Schedule]) {
    for (rank, schedule) in (0..).zip(schedules) {
        let to = schedule.steps().iter().filter_map(|step| match step {
            Step::Send { to, .. } => Some(*to),
            _ => None,
        });
        let mut to: Vec<u32> = to.collect();
        let messages = to.len();
        to.sort_unstable();
        to.dedup();
        assert!(to.len() == messages && !to.contains(&rank));
    }
}

#[test]
fn what_leaves_a_process_of_a_grid_downwards_comes_from_above() {
    let mut random = Random(52);
    let extents: Vec<(u32, bool)> = (1..=4).flat_map(|extent| [(extent, false), (extent, true)]).collect();
    for &first in &extents {
        check_grid(&[first], 5, &mut random);
        for &second in &extents {
            check_grid(&[first, second], 3, &mut random);
            for third in [(1, true), (2, false), (2, true), (3, true)] {
                check_grid(&[first, second, third], 8, &mut random);
            }
        }
    }
    check_grid(&[(2, true), (2, true)], 0, &mut random);
}

#[test]
fn short_blocks_between_the_same_two_go_together() {
    let chosen = |dimensions: &[(u32, bool)], operation, bytes, rules: &str| {
        let size = dimensions.iter().map(|&(extent, _)| extent).product();
        let grid = Some(Grid::new(dimensions.iter().copied()));
        let call = NeighborCall { operation, grid, bytes, outgoing: &[], incoming: &[] };
        let rules = Rules::parse(rules, "test").expect("rules");
        let group = Group { rank: 0, size };
        choose_neighbor(&call, group, &Model::default(), &[&rules]).algorithm.name
    };
    let (torus, wide) = ([(2, true), (2, true), (4, true)], [(3, true), (4, false)]);
    assert_eq!(chosen(&torus, "neighbor_alltoall", 8, ""), "combined");
    assert_eq!(chosen(&torus, "neighbor_allgather", 1 << 20, ""), "combined", "half of the bytes");
    assert_eq!(chosen(&torus, "neighbor_alltoall", 1 << 20, ""), "direct", "the copies take longer");
    assert_eq!(chosen(&wide, "neighbor_alltoall", 8, ""), "direct", "no two edges have the same ends");
    assert_eq!(chosen(&torus, "neighbor_alltoallv", 0, ""), "direct", "nobody knows all lengths");
    let rule = "neighbor_alltoall bytes=..16 ranks=16 -> direct; neighbor_alltoallv -> combined";
    assert_eq!(chosen(&torus, "neighbor_alltoall", 8, rule), "direct");
    assert_eq!(chosen(&torus, "neighbor_alltoall", 17, rule), "combined");
    assert_eq!(chosen(&torus, "neighbor_alltoallv", 0, rule), "combined");
}

#[test]
fn along_every_edge_its_block_arrives() {
    let mut random = Random(51);
    for size in 1..=64 {
        for edges in graphs(size, &mut random) {
            for blocks in [Blocks::OneForAll, Blocks::OneForEach] {
                check(size, &edges, blocks, &mut random);
            }
        }
    }
}
