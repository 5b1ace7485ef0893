//! Every shape of `weft_coll::rounds` with all members in one thread, in random order, against the definition.

use proptest::prelude::*;
use weft_coll::Group;
use weft_coll::rounds::{
    Operands, Outcome, Payload, Payloads, Room, Run, Script, Shape, Slots, Target, Term, is_one_round,
    is_sooner_by_messages,
};

const CELLS: u64 = 8;

/// A round with a long payload, and where in its ring it begins and ends.
type Place = (u64, usize, usize);

/// The cells of all members, checked against the rules at every access.
struct Node {
    stamps: Vec<Vec<(u64, u16)>>,
    payloads: Vec<Vec<Vec<u8>>>,
    finished: Vec<u64>,
    next: Vec<u64>,
    slot: usize,
    /// Bytes of a ring, so few that payloads of the longest kind wait for one another before their cells do.
    ring: usize,
    /// Each member's count of places: where the next begins, and its last rounds with theirs.
    places: Vec<(usize, Vec<Place>)>,
    /// By member: results and contributions of calls in two phases that it wrote.
    paired: Vec<[usize; 2]>,
}

impl Node {
    fn new(size: u32, slot: usize) -> Node {
        let size = size as usize;
        Node {
            stamps: vec![vec![(0, 0); CELLS as usize]; size],
            payloads: vec![vec![Vec::new(); CELLS as usize]; size],
            finished: vec![0; size],
            next: vec![0; size],
            slot: most(slot, size),
            ring: 3 * slot,
            places: vec![(0, Vec::new()); size],
            paired: vec![[0; 2]; size],
        }
    }
}

/// Bytes of the longest contribution of which two and as many results fit three slots.
fn in_two_phases(slot: usize, size: usize) -> usize {
    (3 * slot - 2 * 64) * size / (2 * (size + 1))
}

/// Bytes of the longest payload.
fn most(slot: usize, size: usize) -> usize {
    slot.max(in_two_phases(slot, size))
}

/// One member's view.
struct Member<'a> {
    node: &'a mut Node,
    me: u32,
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

impl Payloads for Member<'_> {
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

/// Operands of one byte; the operation is not commutative, so that order shows: it keeps the sum of both and a trace of who is
/// left.
#[derive(Clone)]
struct Arguments {
    send: Option<Vec<u8>>,
    recv: Vec<u8>,
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

fn noise(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// The arguments of one member, and what its result must be at which members.
fn arguments(
    shape: Shape,
    me: usize,
    inputs: &[Vec<u8>],
    bytes: usize,
    in_place: bool,
) -> (Arguments, Option<Vec<u8>>) {
    let size = inputs.len();
    let folded = || -> Vec<u8> {
        (0..inputs[0].len())
            .map(|at| (0..size).map(|member| inputs[member][at]).reduce(op).expect("members"))
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

fn shapes(root: u32) -> [Shape; 9] {
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

fn per_block(shape: Shape) -> bool {
    matches!(shape, Shape::Scatter { .. } | Shape::Alltoall | Shape::ReduceScatter)
}

/// A call: what it is, bytes, bytes of an element, every member's input, whether in place.
type Plan = (Shape, usize, u64, Vec<Vec<u8>>, bool);

/// A member's call under way, its arguments and its result.
type Running = (Run, Arguments, Option<Vec<u8>>);

/// Several calls one after the other; members go on in random order, each as soon as it is done.
fn run_all(size: u32, slot: usize, calls: &[(usize, u32, usize, u64, bool)], mut seed: u64) {
    let mut node = Node::new(size, slot);
    let plans: Vec<Plan> = calls
        .iter()
        .map(|&(shape, root, bytes, element, in_place)| {
            let shape = shapes(root % size)[shape % 9];
            let bytes = if shape == Shape::Barrier { 0 } else { bytes / element as usize * element as usize };
            let len = if per_block(shape) { bytes * size as usize } else { bytes };
            let inputs = (0..size).map(|_| (0..len).map(|_| noise(&mut seed) as u8).collect()).collect();
            (shape, bytes, element, inputs, in_place)
        })
        .collect();
    let room = Room { slot, in_two_phases: in_two_phases(slot, size as usize), crowded: seed % 2 == 1 };
    let mut at = vec![0; size as usize];
    let mut running: Vec<Option<Running>> = (0..size).map(|_| None).collect();
    let mut idle = 0;
    while at.iter().any(|&at| at < plans.len()) {
        let me = (noise(&mut seed) % u64::from(size)) as usize;
        let Some((shape, bytes, element, inputs, in_place)) = plans.get(at[me]) else { continue };
        let mut member = Member { node: &mut node, me: me as u32 };
        let (run, arguments, expected) = running[me].get_or_insert_with(|| {
            let group = Group { rank: me as u32, size };
            let in_place = *in_place
                && !matches!(shape, Shape::Gather { root } | Shape::Reduce { root } if *root != me as u32);
            let script = Script::new(*shape, group, *bytes as u64, *element, in_place, room);
            assert!(script.fits(room.most()));
            let (arguments, expected) = arguments(*shape, me, inputs, *bytes, in_place);
            (Run::begin(script, &member), arguments, expected)
        });
        match run.step(&mut member, arguments) {
            Outcome::Done => {
                if let Some(expected) = expected {
                    assert!(
                        arguments.recv.starts_with(expected),
                        "{shape:?} of {bytes} bytes at {me} of {size}"
                    );
                }
                running[me] = None;
                at[me] += 1;
                idle = 0;
            }
            Outcome::Blocked => {
                assert_ne!(run.missing(&member), 0);
                idle += 1;
                assert!(idle < 100_000, "nobody goes on: {at:?}");
            }
            Outcome::Strayed(other) => panic!("{other} strayed"),
        }
    }
}

#[test]
fn every_shape_at_every_size_gives_what_the_definition_says() {
    for size in (2..=16).chain([33, 63]) {
        for shape in 0..9 {
            for bytes in [0, 1, 8, 100, 113, 600, 5000, 70_000] {
                if bytes * size as usize > 150_000 || size > 16 && bytes > 600 {
                    continue;
                }
                let root = (bytes as u32 + size) % size;
                for seed in [7, 8] {
                    let calls = [(shape, root, bytes, 1, false), (shape, 0, bytes, 1, true)];
                    run_all(size, 8192, &calls, seed + 2 * bytes as u64);
                }
            }
        }
    }
}

#[test]
fn only_medium_broadcasts_to_one_other_go_by_messages() {
    for shape in shapes(1) {
        for members in 2..5 {
            let goes = |bytes| is_sooner_by_messages(shape, members, bytes);
            let to_one = members == 2 && matches!(shape, Shape::Bcast { .. });
            assert!([0, 8, 64 << 10, 1 << 20, u64::MAX].into_iter().all(|bytes| !goes(bytes)), "{shape:?}");
            assert!(
                [(64 << 10) + 1, 256 << 10, (1 << 20) - 1].into_iter().all(|bytes| goes(bytes) == to_one)
            );
        }
    }
}

#[test]
fn what_short_forms_do_in_one_round_scripts_do_so_too() {
    let mut alike = 0;
    for (size, shape) in (2..=63).flat_map(|size| (0..9).map(move |shape| (size, shape))) {
        for slot in [3584, 14528, 29120, 65536] {
            // Every length where a cut can begin, some beyond.
            for bytes in
                (0..16_500).step_by(if size <= 8 { 1 } else { 7 }).chain((16_500..20_000).step_by(72))
            {
                let shape = shapes(0)[shape];
                for (crowded, element) in [(false, 1), (true, 1), (false, 8), (true, 24)] {
                    let group = Group { rank: 0, size };
                    let bytes = bytes / element * element;
                    let script = Script::new(shape, group, bytes, element, false, Room::alike(slot, crowded));
                    let short = is_one_round(shape, size, bytes, slot);
                    assert!(!short || script.is_one_round(), "{shape:?} of {bytes} bytes, {size} members");
                    alike += u32::from(short);
                }
            }
        }
    }
    assert!(alike > 10_000, "{alike}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Members run ahead of each other as far as the cells allow, from one call into the next.
    #[test]
    fn sequences_of_calls_do_not_mix(
        size in 2_u32..=9,
        slot in prop::sample::select(vec![1024_usize, 4096, 16384]),
        calls in prop::collection::vec((0_usize..9, 0_u32..16, 0_usize..9000, prop::sample::select(vec![1_u64, 4, 8, 16]), any::<bool>()), 1..12),
        seed in 1_u64..,
    ) {
        run_all(size, slot, &calls, seed);
    }
}

#[test]
fn calls_that_do_not_match_are_noticed() {
    let mut node = Node::new(2, 1024);
    let begin = |node: &mut Node, me: u32, bytes: u64| {
        let room = Room::alike(1024, false);
        let script = Script::new(Shape::Allreduce, Group { rank: me, size: 2 }, bytes, 8, false, room);
        let mut member = Member { node, me };
        let mut run = Run::begin(script, &member);
        let mut arguments = Arguments { send: Some(vec![0; bytes as usize]), recv: vec![0; bytes as usize] };
        run.step(&mut member, &mut arguments)
    };
    assert_eq!(begin(&mut node, 0, 8), Outcome::Blocked);
    assert_eq!(begin(&mut node, 1, 16), Outcome::Strayed(0));
}
