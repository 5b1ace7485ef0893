//! Alltoall and its `v` and `w` forms (section 6.8).

use crate::call::{Block, Group};
use crate::gather::block;
use crate::schedule::{Buffer, Builder, Range, StepId};

/// The blocks of one argument, by peer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blocks<'a> {
    /// Blocks of so many bytes, in rank order.
    Even(u64),
    /// Blocks at displacements.
    Varying(&'a [Block]),
    /// Every peer's block is an argument of its own.
    PerPeer(&'a [u64]),
}

impl Blocks<'_> {
    pub(crate) fn send(&self, peer: u32) -> Range {
        self.place(peer, Buffer::Send, Buffer::SendPeer(peer))
    }

    pub(crate) fn recv(&self, peer: u32) -> Range {
        self.place(peer, Buffer::Recv, Buffer::RecvPeer(peer))
    }

    fn place(&self, peer: u32, shared: Buffer, own: Buffer) -> Range {
        match self {
            Blocks::Even(bytes) => Range::new(shared, u64::from(peer) * bytes, *bytes),
            Blocks::Varying(blocks) => block(shared, blocks[peer as usize]),
            Blocks::PerPeer(bytes) => Range::new(own, 0, bytes[peer as usize]),
        }
    }
}

/// Every pair exchanges its blocks; with the peers at distance `i`, and at most `window` distances at a time. Each rank
/// begins with another peer, so that nobody is flooded. `send` is `None` for `MPI_IN_PLACE`.
pub(crate) fn spread(
    b: &mut Builder,
    group: Group,
    send: Option<Blocks<'_>>,
    recv: Blocks<'_>,
    window: usize,
) {
    let Group { rank, size } = group;
    let outgoing: Vec<Range> = match send {
        Some(send) => (0..size).map(|peer| send.send(peer)).collect(),
        None => (0..size).map(|peer| keep(b, rank, peer, recv.recv(peer))).collect(),
    };
    let mut rounds: Vec<Vec<StepId>> = Vec::new();
    for distance in 1..size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        let mut steps = Vec::new();
        if outgoing[to as usize].bytes > 0 {
            steps.push(b.send(to, outgoing[to as usize]));
        }
        if recv.recv(from).bytes > 0 {
            steps.push(b.recv(from, recv.recv(from)));
        }
        if let Some(earlier) = rounds.len().checked_sub(window) {
            for &before in &rounds[earlier] {
                steps.iter().for_each(|&step| b.order(before, step));
            }
        }
        rounds.push(steps);
    }
    if send.is_some() {
        b.copy(outgoing[rank as usize], recv.recv(rank));
    }
}

/// As [`spread`], but each rank writes its blocks into the others' receive arguments, which they offer: at most `window` offers and
/// as many writes at a time.
pub(crate) fn by_puts(
    b: &mut Builder,
    group: Group,
    send: Option<Blocks<'_>>,
    recv: Blocks<'_>,
    window: usize,
) {
    let Group { rank, size } = group;
    let outgoing: Vec<Range> = match send {
        Some(send) => (0..size).map(|peer| send.send(peer)).collect(),
        None => (0..size).map(|peer| keep(b, rank, peer, recv.recv(peer))).collect(),
    };
    let (mut written, mut awaited): (Vec<StepId>, Vec<StepId>) = (Vec::new(), Vec::new());
    let behind = |b: &mut Builder, earlier: &[StepId], step: StepId| {
        if let Some(&before) = earlier.len().checked_sub(window).map(|at| &earlier[at]) {
            b.order(before, step);
        }
    };
    for distance in 1..size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        if recv.recv(from).bytes > 0 {
            let (offer, wait) = b.offer_to_write(0, from, recv.recv(from));
            behind(b, &awaited, offer);
            awaited.push(wait);
        }
        if outgoing[to as usize].bytes > 0 {
            let put = b.put(0, to, outgoing[to as usize]);
            behind(b, &written, put);
            written.push(put);
        }
    }
    if send.is_some() {
        b.copy(outgoing[rank as usize], recv.recv(rank));
    }
}

/// Saves a block that the peer's will overwrite (section 6.8: with `MPI_IN_PLACE` data is taken from the receive buffer).
fn keep(b: &mut Builder, rank: u32, peer: u32, block: Range) -> Range {
    if peer == rank || block.bytes == 0 {
        return block;
    }
    let kept = b.packed_scratch(block.bytes);
    b.copy(block, kept);
    kept
}

/// In round `k` all blocks that still have to travel a distance with bit `k` set go 2^k ranks on, as one message (Bruck
/// et al. 1997): log2(size) messages, each block moved several times.
pub(crate) fn bruck(b: &mut Builder, group: Group, bytes: u64, in_place: bool) {
    let Group { rank, size } = group;
    if bytes == 0 {
        return;
    }
    let send = if in_place { Buffer::Recv } else { Buffer::Send };
    let blocks = |buffer, first: u32, count: u32| {
        Range::new(buffer, u64::from(first) * bytes, u64::from(count) * bytes)
    };
    // Block i of the work area travels a distance of i ranks.
    let work = b.packed_scratch(u64::from(size) * bytes);
    let at = |i: u32, count: u32| work.part(u64::from(i) * bytes, u64::from(count) * bytes);
    b.copy(blocks(send, rank, size - rank), at(0, size - rank));
    b.copy(blocks(send, 0, rank), at(size - rank, rank));
    let mut distance = 1;
    while distance < size {
        let travelling: Vec<u32> = (0..size).filter(|i| i & distance != 0).collect();
        let length = travelling.len() as u64 * bytes;
        let (outgoing, incoming) = (b.packed_scratch(length), b.packed_scratch(length));
        for (slot, &i) in (0..).zip(&travelling) {
            b.copy(at(i, 1), outgoing.part(slot * bytes, bytes));
        }
        b.send((rank + distance) % size, outgoing);
        b.recv((rank + size - distance) % size, incoming);
        for (slot, &i) in (0..).zip(&travelling) {
            b.copy(incoming.part(slot * bytes, bytes), at(i, 1));
        }
        distance *= 2;
    }
    // Block i has come from rank (rank - i).
    for i in 0..size {
        b.copy(at(i, 1), blocks(Buffer::Recv, (rank + size - i) % size, 1));
    }
}
