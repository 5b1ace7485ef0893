//! Neighbourhood collectives (section 8.6) against their definition: along every edge of a graph, also along several between the
//! same two processes and from one to itself, the block that was given for it arrives, and nothing else is touched.

use crate::case::{UNTOUCHED, pattern};
use crate::world::{Memory, Random, Sends, World, check_channels};
use std::collections::HashMap;
use weft_coll::neighbor::{Edge, exchange};
use weft_coll::{Buffer, Range, Schedule};

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
    let schedules: Vec<Schedule> =
        outgoing.iter().zip(&incoming).map(|(outgoing, incoming)| exchange(outgoing, incoming)).collect();
    check_channels(&schedules);
    let memories: Vec<Memory> = sent
        .iter()
        .zip(&received)
        .map(|(own, room)| {
            let empty = vec![UNTOUCHED; room.len()];
            Memory::default().with(Buffer::Send, own.clone()).with(Buffer::Recv, empty)
        })
        .collect();
    for sends in [Sends::Eager, Sends::Synchronous] {
        let after = World::new(&schedules, &memories, never, sends).finish(random);
        for (rank, memory) in after.iter().enumerate() {
            let what = format!("{blocks:?}, {sends:?}, rank {rank} of {size}, edges {edges:?}");
            assert_eq!(memory.0[&Buffer::Recv], received[rank], "{what}");
            assert_eq!(memory.0[&Buffer::Send], sent[rank], "{what}");
        }
    }
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
