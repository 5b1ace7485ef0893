//! Allgather and its `v` form (section 6.7).

use crate::bcast;
use crate::call::{Block, Group};
use crate::fold::Fold;
use crate::gather::{add_gather, block};
use crate::schedule::{Buffer, Builder, Range};
use crate::tree::Shape;

/// Where every rank's data goes in the receive argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blocks<'a> {
    /// Blocks of so many bytes, in rank order.
    Even(u64),
    /// Blocks at displacements.
    Varying(&'a [Block]),
}

impl Blocks<'_> {
    fn bytes(&self, rank: u32) -> u64 {
        match self {
            Blocks::Even(bytes) => *bytes,
            Blocks::Varying(blocks) => blocks[rank as usize].bytes,
        }
    }

    fn place(&self, rank: u32) -> Range {
        match self {
            Blocks::Even(bytes) => Range::new(Buffer::Recv, u64::from(rank) * bytes, *bytes),
            Blocks::Varying(blocks) => block(Buffer::Recv, blocks[rank as usize]),
        }
    }
}

fn own_block(b: &mut Builder, group: Group, blocks: Blocks<'_>, in_place: bool) {
    if !in_place {
        b.copy(Range::new(Buffer::Send, 0, blocks.bytes(group.rank)), blocks.place(group.rank));
    }
}

/// Every rank passes on to its successor what its predecessor gave it.
///
/// Blocks that a program has put at one place, which it must not, are one range to the builder: nobody may receive before its
/// own message has left. Rank 0 takes first there, so that such a call ends like any other.
pub(crate) fn ring(b: &mut Builder, group: Group, blocks: Blocks<'_>, in_place: bool) {
    let Group { rank, size } = group;
    own_block(b, group, blocks, in_place);
    for step in 0..size.saturating_sub(1) {
        let given = (rank + size - step) % size;
        let taken = (rank + size - step - 1) % size;
        let take = |b: &mut Builder| {
            if blocks.bytes(taken) > 0 {
                b.recv_on(step, (rank + size - 1) % size, blocks.place(taken));
            }
        };
        let first = rank == 0 && matches!(blocks, Blocks::Varying(_));
        if first {
            take(b);
        }
        if blocks.bytes(given) > 0 {
            b.send_on(step, (rank + 1) % size, blocks.place(given));
        }
        if !first {
            take(b);
        }
    }
}

/// Pairs at doubling distance exchange all they have: ever larger neighbouring ranges of ranks, in their places in the receive
/// argument, or in packed scratch where blocks lie anyhow. At sizes that are no power of two some ranks are stood for by their
/// neighbours, which give them everything at the end (section 4.1 of Thakur, Rabenseifner, Gropp 2005).
pub(crate) fn recursive_doubling(b: &mut Builder, group: Group, blocks: Blocks<'_>, in_place: bool) {
    const FOLD: u32 = 1;
    let Group { rank, size } = group;
    let mut offsets = vec![0];
    for peer in 0..size {
        offsets.push(offsets[peer as usize] + blocks.bytes(peer));
    }
    let total = offsets[size as usize];
    if total == 0 {
        return;
    }
    let whole = match blocks {
        Blocks::Even(_) => Range::new(Buffer::Recv, 0, total),
        Blocks::Varying(_) => b.packed_scratch(total),
    };
    // Blocks of ranks `first..last`.
    let span = |first: u32, last: u32| {
        let start = offsets[first as usize];
        whole.part(start, offsets[last as usize] - start)
    };
    let mine = match in_place {
        true => blocks.place(rank),
        false => Range::new(Buffer::Send, 0, blocks.bytes(rank)),
    };
    let fold = Fold::new(size);
    match fold.number(rank) {
        None => {
            if mine.bytes > 0 {
                b.send_on(FOLD, rank + 1, mine);
            }
            b.recv_on(FOLD, rank + 1, whole);
        }
        Some(number) => {
            b.copy(mine, span(rank, rank + 1));
            let even = fold.stands_for(rank);
            if let Some(even) = even
                && blocks.bytes(even) > 0
            {
                b.recv_on(FOLD, even, span(even, rank));
            }
            let mut distance = 1;
            while distance < fold.power {
                let partner = number ^ distance;
                let window = |number: u32| {
                    let first = number & !(distance - 1);
                    span(fold.first(first), fold.first(first + distance))
                };
                if window(number).bytes > 0 {
                    b.send(fold.rank(partner), window(number));
                }
                if window(partner).bytes > 0 {
                    b.recv(fold.rank(partner), window(partner));
                }
                distance *= 2;
            }
            if let Some(even) = even {
                b.send_on(FOLD, even, whole);
            }
        }
    }
    if let Blocks::Varying(_) = blocks {
        for peer in (0..size).filter(|&peer| peer != rank || !in_place) {
            b.copy(span(peer, peer + 1), blocks.place(peer));
        }
    }
}

/// In rounds of doubling distance every rank passes on all it has (Bruck et al. 1997), through packed scratch in which
/// its own block is first.
pub(crate) fn bruck(b: &mut Builder, group: Group, blocks: Blocks<'_>, in_place: bool) {
    let Group { rank, size } = group;
    // Scratch offset of the block of rank (rank + i) % size.
    let mut offsets = vec![0; size as usize + 1];
    for i in 0..size {
        offsets[i as usize + 1] = offsets[i as usize] + blocks.bytes((rank + i) % size);
    }
    let total = offsets[size as usize];
    if total == 0 {
        return;
    }
    let scratch = b.packed_scratch(total);
    let span = |first: u32, last: u32| {
        scratch.part(offsets[first as usize], offsets[last as usize] - offsets[first as usize])
    };
    let mine = if in_place { blocks.place(rank) } else { Range::new(Buffer::Send, 0, blocks.bytes(rank)) };
    b.copy(mine, span(0, 1));
    let mut distance = 1;
    while distance < size {
        let count = distance.min(size - distance);
        if span(0, count).bytes > 0 {
            b.send((rank + size - distance) % size, span(0, count));
        }
        if span(distance, distance + count).bytes > 0 {
            b.recv((rank + distance) % size, span(distance, distance + count));
        }
        distance *= 2;
    }
    own_block(b, group, blocks, in_place);
    if let Blocks::Even(bytes) = blocks {
        // Two runs: the blocks of the ranks after this one, and those before it.
        let run = |first: u32, count: u32| {
            Range::new(Buffer::Recv, u64::from(first) * bytes, u64::from(count) * bytes)
        };
        b.copy(span(1, size - rank), run(rank + 1, size - rank - 1));
        b.copy(span(size - rank, size), run(0, rank));
    } else {
        for i in 1..size {
            b.copy(span(i, i + 1), blocks.place((rank + i) % size));
        }
    }
}

/// Rank 0 collects and broadcasts: the fewest waits when ranks share cores.
pub(crate) fn through_one(b: &mut Builder, group: Group, bytes: u64, in_place: bool, shape: Shape) {
    let own = match in_place {
        true => Blocks::Even(bytes).place(group.rank),
        false => Range::new(Buffer::Send, 0, bytes),
    };
    add_gather(b, group, 0, own, Buffer::Recv, in_place, shape);
    let all = Range::new(Buffer::Recv, 0, bytes * u64::from(group.size));
    bcast::add_tree(b, group, 0, all, shape, u64::MAX);
}
