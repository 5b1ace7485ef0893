//! The cells of all members in one thread, checked against the rules at every access, and calls with what they must give.

#![allow(dead_code, reason = "each test has its own use for it")]

use weft_coll::rounds::{
    Contest, Desk, Exchange, Exchanged, Operands, Payload, Payloads, Readable, Readers, Shape, Slots, Target,
    Term,
};

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

const CELLS: u64 = 8;

/// A block that came to a core: the core, who wrote it for whom, and the round.
type Fetched = (u32, u32, u32, u64);

/// A round with a long payload, and where in its ring it begins and ends.
type Place = (u64, usize, usize);

/// The cells of all members, checked against the rules at every access.
pub(crate) struct Node {
    stamps: Vec<Vec<(u64, u16)>>,
    payloads: Vec<Vec<Vec<u8>>>,
    finished: Vec<u64>,
    next: Vec<u64>,
    slot: usize,
    /// Bytes of a block that is exchanged.
    block: usize,
    /// Whether members share cores.
    pub(crate) crowded: bool,
    /// Bytes of a ring, so few that payloads of the longest kind wait for one another before their cells do.
    ring: usize,
    /// Each member's count of places: where the next begins, and its last rounds with theirs.
    places: Vec<(usize, Vec<Place>)>,
    /// By member: results and contributions of calls in two phases that it wrote.
    paired: Vec<[usize; 2]>,
    /// By member: blocks that it gave to each, by cell.
    blocks: Vec<Vec<Vec<Vec<u8>>>>,
    /// By member and place that is exchanged: one more than the round in which it reads there last, and than that which others may read there.
    exchanged: Vec<[(u64, u64); 2]>,
    /// By member and cell: whether others than the one for whom a block is may read it.
    shared: Vec<[bool; CELLS as usize]>,
    /// By member: contributions that it exchanged.
    exchanges: Vec<usize>,
    /// By member: the places that it took one after the other.
    begun: Vec<usize>,
    /// By member and place: between whom it was divided last.
    writers: Vec<[u64; 2]>,
    /// The core of each member, to count what goes from core to core.
    pub(crate) seats: Vec<u32>,
    /// Blocks that came from another core, each once for a core, and their bytes.
    fetched: RefCell<HashSet<Fetched>>,
    crossed: Cell<u64>,
    /// What members can read of one another.
    pub(crate) memories: Vec<Memory>,
}

/// What others can read of a member, and what it keeps for that.
#[derive(Default)]
pub(crate) struct Memory {
    /// Contribution and result as after its last step.
    pub(crate) arguments: Arguments,
    exposed: Vec<u8>,
    pub(crate) contest: Contest,
    desk: Desk,
    /// It can read nobody.
    pub(crate) is_blind: bool,
    /// Reads that still go well.
    pub(crate) reads: u64,
    /// Reads that went well.
    pub(crate) read: u64,
    pub(crate) now: u64,
    /// Nanoseconds of a read.
    pub(crate) cost: u64,
}

impl Node {
    pub(crate) fn new(size: u32, slot: usize) -> Node {
        let size = size as usize;
        Node {
            stamps: vec![vec![(0, 0); CELLS as usize]; size],
            payloads: vec![vec![Vec::new(); CELLS as usize]; size],
            finished: vec![0; size],
            next: vec![0; size],
            slot: most(slot, size),
            block: block_bytes(slot, size),
            crowded: false,
            ring: 3 * slot,
            places: vec![(0, Vec::new()); size],
            paired: vec![[0; 2]; size],
            blocks: vec![vec![vec![Vec::new(); size]; CELLS as usize]; size],
            exchanged: vec![[(0, 0); 2]; size],
            seats: vec![0; size],
            fetched: RefCell::default(),
            crossed: Cell::new(0),
            shared: vec![[false; CELLS as usize]; size],
            exchanges: vec![0; size],
            begun: vec![0; size],
            writers: vec![[0; 2]; size],
            memories: (0..size)
                .map(|_| Memory { contest: Contest::at_once(), reads: u64::MAX, ..Memory::default() })
                .collect(),
        }
    }
}

impl Node {
    /// Contributions that were exchanged block by block.
    pub(crate) fn exchanged_in_all(&self) -> usize {
        self.exchanges.iter().sum()
    }

    /// Bytes of blocks that went from core to core: what a core has fetched it has.
    pub(crate) fn crossed(&self) -> u64 {
        self.crossed.get()
    }
}

/// Bytes of the longest contribution of which two and as many results fit three slots.
pub(crate) fn in_two_phases(slot: usize, size: usize) -> usize {
    (3 * slot - 2 * 64) * size / (2 * (size + 1))
}

/// Bytes of a block of those that are exchanged.
pub(crate) fn block_bytes(slot: usize, size: usize) -> usize {
    slot / size / 64 * 64
}

/// Bytes of the longest payload.
pub(crate) fn most(slot: usize, size: usize) -> usize {
    slot.max(in_two_phases(slot, size))
}

/// One member's view.
pub(crate) struct Member<'a> {
    pub(crate) node: &'a mut Node,
    pub(crate) me: u32,
}

impl Member<'_> {
    /// Where the next long payload begins in the ring.
    fn place(&self, payload: Payload) -> usize {
        let bytes = payload.long_bytes();
        if let Some((contribution, result)) = payload.pair {
            let pairs = self.node.ring / (contribution + result).max(1);
            assert!(pairs >= 2, "room for two contributions of {contribution} bytes, and results");
            assert!(bytes <= if payload.is_copied { contribution } else { result });
            let number = self.node.paired[self.me as usize][usize::from(payload.is_copied)] % pairs;
            return number * (contribution + result) + if payload.is_copied { 0 } else { contribution };
        }
        let next = self.node.places[self.me as usize].0;
        if next + bytes <= self.node.ring { next } else { 0 }
    }

    /// The last round that had the place of a payload of `long` bytes; none for short ones.
    fn displaced(&self, payload: Payload) -> Option<u64> {
        let last = &self.node.places[self.me as usize].1;
        let (at, long) = (self.place(payload), payload.long_bytes());
        let met = last.iter().rev().find(|&&(_, begin, end)| begin < at + long && at < end);
        met.filter(|_| long > 0).map(|&(round, ..)| round)
    }
}

/// The blocks of one member in a round.
struct Blocks<'a> {
    node: &'a mut Node,
    me: usize,
    round: u64,
    what: Exchanged,
}

impl Exchange for Blocks<'_> {
    fn room(&mut self, member: u32, len: usize) -> &mut [u8] {
        assert_ne!(member as usize, self.me, "nobody gives itself a block");
        let writers = self.what.writers;
        assert!(writers >> self.me & writers >> member & 1 == 1, "both write blocks");
        // Fewer writers have longer ones.
        assert!(len <= block_bytes(self.node.ring / 3, writers.count_ones() as usize));
        let cell = (self.round % CELLS) as usize;
        let room = &mut self.node.blocks[self.me][cell][member as usize];
        room.resize(len, 0);
        room
    }
    fn goes_past(&mut self, member: u32, _: usize) -> bool {
        (self.round + u64::from(member)).is_multiple_of(2)
    }
    fn payload(&self, member: u32, round: u64, len: usize) -> &[u8] {
        Member::payload(self.node, self.me, member, round, len)
    }
    fn heard(&self, member: u32, len: usize) -> &[u8] {
        let parts = self.what.made_of.expect("only results are made of contributions");
        Member::block(self.node, self.me, (member, self.me as u32), parts, len)
    }
}

impl Member<'_> {
    fn payload(node: &Node, me: usize, member: u32, round: u64, len: usize) -> &[u8] {
        let cell = (round % CELLS) as usize;
        assert_eq!(
            node.stamps[member as usize][cell].0,
            round + 1,
            "read before it is there, or overwritten"
        );
        assert!(node.finished[me] <= round, "read after the reader said that it has finished");
        &node.payloads[member as usize][cell][..len]
    }

    /// What the first of two gave to the second.
    fn block(node: &Node, me: usize, (member, to): (u32, u32), round: u64, len: usize) -> &[u8] {
        let (member, cell) = (member as usize, (round % CELLS) as usize);
        assert_eq!(node.stamps[member][cell].0, round + 1, "read before it is there, or overwritten");
        assert!(node.finished[me] <= round, "read after the reader said that it has finished");
        let shared = to as usize == me || node.shared[member][cell];
        assert!(shared, "a block of two that others may not read");
        let here = node.seats[me];
        if node.seats[member] != here && node.fetched.borrow_mut().insert((here, member as u32, to, round)) {
            node.crossed.set(node.crossed.get() + len as u64);
        }
        &node.blocks[member][cell][to as usize][..len]
    }

    /// What has to be over before blocks are exchanged: rounds that this member has read, and that others have finished.
    fn before_blocks(&self, what: Exchanged) -> (u64, u64) {
        let me = self.me as usize;
        match what.made_of {
            Some(_) => (0, 0),
            None => {
                let number = self.next_place(what);
                let (unread, lent) = self.node.exchanged[me][number];
                (unread, if self.node.writers[me][number] == what.writers { lent } else { unread })
            }
        }
    }

    /// The place of the next contribution.
    fn next_place(&self, what: Exchanged) -> usize {
        self.node.begun[self.me as usize].wrapping_sub(usize::from(what.stays)) % 2
    }
}

impl Payloads for Member<'_> {
    fn block(&self, member: u32, round: u64, len: usize) -> &[u8] {
        Member::block(self.node, self.me as usize, (member, self.me), round, len)
    }
    fn block_for(&self, member: u32, reader: u32, round: u64, len: usize) -> &[u8] {
        Member::block(self.node, self.me as usize, (member, reader), round, len)
    }
    fn get(&self, member: u32, round: u64, long: bool, len: usize) -> &[u8] {
        let (node, cell) = (&self.node, (round % CELLS) as usize);
        assert_eq!(
            node.stamps[member as usize][cell].0,
            round + 1,
            "read before it is there, or after it was overwritten"
        );
        assert!(node.finished[self.me as usize] <= round, "read after the reader said that it has finished");
        assert!(len <= if long { node.slot } else { Member::SHORT });
        &node.payloads[member as usize][cell][..len]
    }
}

impl Slots for Member<'_> {
    const SHORT: usize = 112;
    fn next(&self) -> u64 {
        self.node.next[self.me as usize]
    }
    fn has_room(&mut self, payload: Payload) -> bool {
        let own = self.node.finished[self.me as usize];
        let displaced = self.displaced(payload);
        assert!(displaced.is_none_or(|before| before < own), "it has not read that itself");
        self.behind(payload) == 0
    }
    fn behind(&self, payload: Payload) -> u64 {
        let others = (0..self.node.finished.len()).filter(|&other| other != self.me as usize);
        let displaced = self.displaced(payload).map_or(0, |before| before + 1);
        let free = displaced.max((payload.round + 1).saturating_sub(CELLS));
        let behind = others.filter(|&other| self.node.finished[other] < free);
        behind.fold(0, |all, member| all | 1 << member)
    }
    fn fill(&mut self, payload: Payload, work: impl FnOnce(&mut [u8], &dyn Payloads, u64)) {
        let Payload { round, bytes, long, .. } = payload;
        assert!(bytes <= if long { self.node.slot } else { Member::SHORT });
        assert!(self.has_room(payload));
        if long {
            let at = self.place(payload);
            if payload.pair.is_some() {
                self.node.paired[self.me as usize][usize::from(payload.is_copied)] += 1;
            }
            let (next, last) = &mut self.node.places[self.me as usize];
            *next = at + bytes;
            last.push((round, at, *next));
        }
        let (me, cell) = (self.me as usize, (round % CELLS) as usize);
        // A read of the cell being written would find nothing.
        let mut room = std::mem::take(&mut self.node.payloads[me][cell]);
        room.resize(bytes, 0);
        work(&mut room, &*self, [0, 0b0110, u64::MAX][round as usize % 3]);
        self.node.payloads[me][cell] = room;
    }
    fn has_room_for_blocks(&mut self, round: u64, what: Exchanged) -> bool {
        self.behind_with_blocks(round, what) == 0
    }
    fn behind_with_blocks(&self, round: u64, what: Exchanged) -> u64 {
        let others = (0..self.node.finished.len()).filter(|&other| other != self.me as usize);
        let (unread, lent) = self.before_blocks(what);
        let free = lent.max((round + 1).saturating_sub(CELLS));
        let behind = others.filter(|&other| unread > what.read || self.node.finished[other] < free);
        behind.fold(0, |all, member| all | 1 << member)
    }
    fn pass_blocks(&mut self, round: u64, what: Exchanged) {
        let me = self.me as usize;
        if what.made_of.is_none() {
            let number = self.next_place(what);
            self.node.exchanges[me] += 1;
            self.node.begun[me] += usize::from(!what.stays);
            self.node.writers[me][number] = what.writers;
            let lent = match what.is_shared {
                true => what.until + 1,
                false if what.one_way != 0 => round + 1,
                false => 0,
            };
            self.node.exchanged[me][number] = (what.until + 1, lent);
        }
    }
    fn exchange(&mut self, round: u64, what: Exchanged, work: impl FnOnce(&mut dyn Exchange)) {
        assert!(self.has_room_for_blocks(round, what));
        let me = self.me as usize;
        self.pass_blocks(round, what);
        self.node.shared[me][(round % CELLS) as usize] = what.is_shared;
        work(&mut Blocks { node: self.node, me, round, what });
    }
    fn publish(&mut self, round: u64, signature: u16) {
        self.node.stamps[self.me as usize][(round % CELLS) as usize] = (round + 1, signature);
    }
    fn missing(&self, round: u64, signature: u16, of: u64) -> u64 {
        (0..64)
            .filter(|member| of >> member & 1 == 1)
            .filter(|&member| self.node.stamps[member][(round % CELLS) as usize] != (round + 1, signature))
            .fold(0, |missing, member| missing | 1 << member)
    }
    fn strayed(&self, round: u64, signature: u16, of: u64) -> Option<u32> {
        (0..64).filter(|member| of >> member & 1 == 1).find(|&member| {
            let (found, theirs) = self.node.stamps[member as usize][(round % CELLS) as usize];
            found == round + 1 && theirs != signature
        })
    }
    fn read(&self, work: impl FnOnce(&dyn Payloads)) {
        work(self);
    }
    fn heard_of_all(&mut self, first: u64) {
        assert!(self.node.finished.iter().all(|&finished| finished >= first));
    }
    fn finish(&mut self, rounds: u64) {
        assert!(self.node.finished[self.me as usize] <= rounds);
        self.node.finished[self.me as usize] = rounds;
    }
    fn end(&mut self, rounds: u64) {
        self.finish(rounds);
        self.node.next[self.me as usize] = rounds;
    }
    fn wake(&self, _: u64) {}
}

/// Where contributions, results and parts of results begin, for those who read them.
const SENT: u64 = 1 << 40;
const RECEIVED: u64 = 2 << 40;
const EXPOSED: u64 = 3 << 40;

impl Readers for Member<'_> {
    fn is_crowded(&self) -> bool {
        self.node.crowded
    }
    fn contest(&mut self) -> &mut Contest {
        &mut self.node.memories[self.me as usize].contest
    }
    fn desk(&mut self) -> &mut Desk {
        &mut self.node.memories[self.me as usize].desk
    }
    fn can_read(&self) -> bool {
        !self.node.memories[self.me as usize].is_blind
    }
    fn expose(&mut self, bytes: &[u8]) -> u64 {
        self.node.memories[self.me as usize].exposed = bytes.to_vec();
        EXPOSED
    }
    fn copy_from(&mut self, member: u32, address: u64, into: &mut [u8]) -> bool {
        assert_ne!(member, self.me, "nobody reads itself");
        let own = &mut self.node.memories[self.me as usize];
        if own.is_blind || own.reads == 0 {
            return false;
        }
        own.reads -= 1;
        own.read += 1;
        own.now += own.cost;
        let memory = &self.node.memories[member as usize];
        let from = match address >> 40 {
            1 => memory.arguments.send.as_ref().expect("in place nothing is sent"),
            2 => &memory.arguments.recv,
            _ => &memory.exposed,
        };
        into.copy_from_slice(&from[(address & (SENT - 1)) as usize..][..into.len()]);
        true
    }
    fn now(&self) -> u64 {
        self.node.memories[self.me as usize].now
    }
}

impl Readable for Arguments {
    fn given_at(&self, at: u64, len: usize) -> Option<u64> {
        let (base, memory) = self.send.as_ref().map_or((RECEIVED, &self.recv), |send| (SENT, send));
        assert!(at as usize + len <= memory.len());
        Some(base + at)
    }
    fn result_at(&self, at: u64, len: usize) -> Option<u64> {
        assert!(at as usize + len <= self.recv.len());
        Some(RECEIVED + at)
    }
    fn receive(&mut self, at: u64, len: usize, read: impl FnOnce(&mut [u8]) -> bool) -> bool {
        read(&mut self.recv[at as usize..][..len])
    }
}

/// Operands of one byte; the operation is not commutative, so that order shows: it keeps the sum of both and a trace of who is
/// left.
#[derive(Clone, Default)]
pub(crate) struct Arguments {
    pub(crate) send: Option<Vec<u8>>,
    pub(crate) recv: Vec<u8>,
}

fn op(left: u8, right: u8) -> u8 {
    // Associative, not commutative: 2 x 2 upper triangular matrices over small residues, packed into a byte.
    let (a, b) = (left >> 4, left & 15);
    let (c, d) = (right >> 4, right & 15);
    ((a * c % 16) << 4) | ((a * d + b) % 16)
}

impl Operands for Arguments {
    fn take(&self, at: u64, to: &mut [u8], _: bool) {
        let from = self.send.as_ref().unwrap_or(&self.recv);
        to.copy_from_slice(&from[at as usize..][..to.len()]);
    }
    fn give(&mut self, at: u64, from: &[u8]) {
        self.recv[at as usize..][..from.len()].copy_from_slice(from);
    }
    fn put(&self, from: &[u8], to: &mut [u8]) {
        to.copy_from_slice(from);
    }
    fn keep(&mut self, from: u64, at: u64, len: usize) {
        if let Some(send) = &self.send {
            self.recv[at as usize..][..len].copy_from_slice(&send[from as usize..][..len]);
        }
    }
    fn combine(&mut self, left: Term<'_>, into: Target<'_>) {
        let right = match &into {
            &Target::Result(at, len) => self.recv[at as usize..][..len].to_vec(),
            Target::Payload(room) => room.to_vec(),
        };
        let left = self.term(left, right.len());
        self.put(&left, &right, into);
    }
    fn combine_two(&mut self, left: Term<'_>, right: Term<'_>, into: Target<'_>) {
        let len = match &into {
            Target::Result(_, len) => *len,
            Target::Payload(room) => room.len(),
        };
        if let (&Target::Result(..), Term::Own(_), _) | (&Target::Result(..), _, Term::Own(_)) =
            (&into, left, right)
        {
            assert!(self.send.is_some(), "an operand in place lies in the result");
        }
        self.put(&self.term(left, len), &self.term(right, len), into);
    }
}

impl Arguments {
    fn term(&self, term: Term<'_>, len: usize) -> Vec<u8> {
        match term {
            Term::Written(bytes) => bytes[..len].to_vec(),
            Term::Own(at) => self.send.as_ref().unwrap_or(&self.recv)[at as usize..][..len].to_vec(),
        }
    }

    fn put(&mut self, left: &[u8], right: &[u8], into: Target<'_>) {
        let into = match into {
            Target::Result(at, len) => &mut self.recv[at as usize..][..len],
            Target::Payload(room) => room,
        };
        assert!(left.len() == into.len() && right.len() == into.len());
        for ((&left, &right), into) in left.iter().zip(right).zip(into) {
            *into = op(left, right);
        }
    }
}

pub(crate) fn noise(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// The arguments of one member, and what its result must be at which members.
pub(crate) fn arguments(
    shape: Shape,
    me: usize,
    inputs: &[Vec<u8>],
    bytes: usize,
    in_place: bool,
) -> (Arguments, Option<Vec<u8>>) {
    arguments_in_order(shape, me, inputs, bytes, in_place, &(0..inputs.len()).collect::<Vec<_>>())
}

/// The same where reductions combine in that order of members.
pub(crate) fn arguments_in_order(
    shape: Shape,
    me: usize,
    inputs: &[Vec<u8>],
    bytes: usize,
    in_place: bool,
    order: &[usize],
) -> (Arguments, Option<Vec<u8>>) {
    let size = inputs.len();
    let folded = || -> Vec<u8> {
        (0..inputs[0].len())
            .map(|at| order.iter().map(|&member| inputs[member][at]).reduce(op).expect("members"))
            .collect()
    };
    let gathered = || -> Vec<u8> { inputs.iter().flat_map(|input| input[..bytes].to_vec()).collect() };
    let block = |of: usize, block: usize| inputs[of][block * bytes..][..bytes].to_vec();
    let apart = |recv: usize| Arguments { send: Some(inputs[me].clone()), recv: vec![0xEE; recv] };
    let placed = |at: usize, what: Vec<u8>, recv: usize| {
        let mut all = vec![0xEE; recv];
        all[at..][..what.len()].copy_from_slice(&what);
        Arguments { send: None, recv: all }
    };
    let whole = |recv: usize| if in_place { placed(0, inputs[me].clone(), recv) } else { apart(recv) };
    match shape {
        Shape::Barrier => (apart(0), None),
        Shape::Bcast { root } => {
            let own = if me == root as usize { inputs[me].clone() } else { vec![0; bytes] };
            (Arguments { send: None, recv: own }, Some(inputs[root as usize].clone()))
        }
        Shape::Gather { root } => match me == root as usize {
            true if in_place => (placed(me * bytes, inputs[me].clone(), size * bytes), Some(gathered())),
            true => (apart(size * bytes), Some(gathered())),
            false => (apart(0), None),
        },
        Shape::Scatter { root } => match me == root as usize {
            true if in_place => (Arguments { send: Some(inputs[me].clone()), recv: block(me, me) }, None),
            true => (apart(bytes), Some(block(me, me))),
            false => (Arguments { send: None, recv: vec![0; bytes] }, Some(block(root as usize, me))),
        },
        Shape::Allgather if in_place => {
            (placed(me * bytes, inputs[me].clone(), size * bytes), Some(gathered()))
        }
        Shape::Allgather => (apart(size * bytes), Some(gathered())),
        Shape::Alltoall => {
            let expected = (0..size).flat_map(|from| block(from, me)).collect();
            (whole(size * bytes), Some(expected))
        }
        Shape::Reduce { root } => match me == root as usize {
            true => (whole(bytes), Some(folded())),
            false => (apart(0), None),
        },
        Shape::Allreduce => (whole(bytes), Some(folded())),
        Shape::ReduceScatter => {
            let expected = folded()[me * bytes..][..bytes].to_vec();
            (if in_place { whole(size * bytes) } else { apart(bytes) }, Some(expected))
        }
    }
}

pub(crate) fn shapes(root: u32) -> [Shape; 9] {
    [
        Shape::Barrier,
        Shape::Bcast { root },
        Shape::Gather { root },
        Shape::Scatter { root },
        Shape::Allgather,
        Shape::Alltoall,
        Shape::Reduce { root },
        Shape::Allreduce,
        Shape::ReduceScatter,
    ]
}

pub(crate) fn per_block(shape: Shape) -> bool {
    matches!(shape, Shape::Scatter { .. } | Shape::Alltoall | Shape::ReduceScatter)
}

/// A call: what it is, bytes, bytes of an element, every member's input, whether in place.
pub(crate) type Plan = (Shape, usize, u64, Vec<Vec<u8>>, bool);
