//! The properties of zero copy: every byte moves, what is told is true, every token comes back once.
//!
//! A fabric without zero copy passes, having said so.

use super::{Fabric, PATIENCE, connect, header, offer, round};
use crate::verbs::Access;
use crate::zero_copy::{
    Atomic, LocalRun, MemoryRange, Outcome, Region, RemoteRun, TO_BE_READ, TO_BE_WRITTEN, Token, ZeroCopy,
};
use crate::{Refused, Transport};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use weft_types::PeerId;

/// Bytes that a device may change behind the compiler's back, and their region.
pub(super) struct Shared {
    bytes: Vec<AtomicU8>,
    region: Region,
}

impl Shared {
    pub(super) fn new<T: Transport>(
        end: &mut T,
        content: impl Iterator<Item = u8>,
        access: Access,
    ) -> Shared {
        let bytes: Vec<AtomicU8> = content.map(AtomicU8::new).collect();
        let range = MemoryRange { address: bytes.as_ptr() as u64, length: bytes.len() as u64 };
        let region = end.register(range, access).expect("memory that is there");
        Shared { bytes, region }
    }

    pub(super) fn local(&self, offset: usize, length: usize) -> LocalRun {
        let address = self.bytes.as_ptr() as u64 + offset as u64;
        LocalRun { address, length: length as u64, region: self.region.id }
    }

    pub(super) fn remote(&self, offset: usize, length: usize) -> RemoteRun {
        RemoteRun { memory: self.region.remote.plus(offset as u64), length: length as u64 }
    }

    pub(super) fn at(&self, offset: usize) -> u8 {
        self.bytes[offset].load(Ordering::Relaxed)
    }

    fn fill(&self, byte: u8) {
        self.bytes.iter().for_each(|place| place.store(byte, Ordering::Relaxed));
    }
}

pub(super) fn can<F: Fabric>(fabric: &mut F) -> Option<ZeroCopy> {
    fabric.ends()[0].zero_copy(PeerId(1))
}

pub(super) fn noise(length: usize, salt: usize) -> impl Iterator<Item = u8> {
    (0..length).map(move |at| (at.wrapping_mul(salt + 7) >> 2 ^ at >> 9) as u8)
}

/// Offers an operation of process `from` until it is taken.
pub(super) fn insist<F: Fabric>(
    fabric: &mut F,
    from: usize,
    mut operation: impl FnMut(&mut F::Transport) -> Result<(), Refused>,
) {
    for _ in 0..PATIENCE {
        match operation(&mut fabric.ends()[from]) {
            Ok(()) => return,
            Err(Refused::Full) => round(fabric),
            Err(Refused::Dead) => panic!("the peer is alive"),
        }
    }
    panic!("an operation that is never taken");
}

/// Waits for the next token of a process.
pub(super) fn wait<F: Fabric>(fabric: &mut F, at: usize) -> (Token, Outcome) {
    for _ in 0..PATIENCE {
        if let Some(done) = fabric.ends()[at].completed() {
            return (done.token, done.outcome);
        }
        round(fabric);
    }
    panic!("an operation that does not end");
}

/// Gets and puts of every size around every limit, in one run and in lists, move every byte and no other.
pub fn gets_and_puts_move_every_byte<F: Fabric>(fabric: &mut F) {
    let Some(can) = can(fabric) else { return };
    connect(fabric, 0, 1);
    const ROOM: usize = 70_000;
    let there = Shared::new(&mut fabric.ends()[1], noise(ROOM, 1), Access::ALL);
    let here = Shared::new(&mut fabric.ends()[0], noise(ROOM, 2), TO_BE_WRITTEN);
    let mut sizes = vec![0, 1, 3, 8, 64, 255, 256, 257, 1023, 1024, 1025, 4096, 4097, 16384, 16385, 65537];
    sizes.retain(|&size| size as u64 <= can.max_bytes);
    for (number, &size) in sizes.iter().enumerate() {
        let (token, from, to) = (Token(number as u64), 3 + number, 11 * number);
        if can.get {
            here.fill(0);
            insist(fabric, 0, |end| {
                end.get(PeerId(1), &[there.remote(from, size)], &[here.local(to, size)], token)
            });
            assert_eq!(wait(fabric, 0), (token, Outcome::Done(0)), "a get of {size} bytes");
            assert!((0..size).all(|at| here.at(to + at) == there.at(from + at)), "a get of {size} bytes");
            assert!((to == 0 || here.at(to - 1) == 0) && here.at(to + size) == 0, "and no other");
        }
        if can.put {
            there.fill(0);
            here.bytes.iter().zip(noise(ROOM, number)).for_each(|(b, new)| b.store(new, Ordering::Relaxed));
            insist(fabric, 0, |end| {
                end.put(PeerId(1), &[here.local(from, size)], &[there.remote(to, size)], Some(token))
            });
            assert_eq!(wait(fabric, 0), (token, Outcome::Done(0)), "a put of {size} bytes");
            assert!((0..size).all(|at| there.at(to + at) == here.at(from + at)), "a put of {size} bytes");
            assert!((to == 0 || there.at(to - 1) == 0) && there.at(to + size) == 0, "and no other");
        }
        if can.put && size <= can.max_copy {
            there.fill(0);
            insist(fabric, 0, |end| {
                let fill = |room: &mut [u8]| room.iter_mut().zip(noise(size, 5)).for_each(|(r, b)| *r = b);
                end.put_copy(PeerId(1), size, fill, there.remote(to, size).memory, Some(token))
            });
            assert_eq!(wait(fabric, 0), (token, Outcome::Done(0)));
            assert!(noise(size, 5).enumerate().all(|(at, byte)| there.at(to + at) == byte), "{size} copied");
        }
    }
    // Lists without a byte are over all the same.
    let (nothing_there, nothing_here) = ([there.remote(0, 0); 3], [here.local(0, 0); 2]);
    for (nothing_there, nothing_here) in [(&nothing_there[..], &nothing_here[..]), (&[], &[])] {
        if can.max_runs >= 3 && can.get {
            insist(fabric, 0, |end| end.get(PeerId(1), nothing_there, nothing_here, Token(80)));
            assert_eq!(wait(fabric, 0), (Token(80), Outcome::Done(0)), "a get of nothing");
        }
        if can.max_runs >= 3 && can.put {
            insist(fabric, 0, |end| end.put(PeerId(1), nothing_here, nothing_there, Some(Token(81))));
            assert_eq!(wait(fabric, 0), (Token(81), Outcome::Done(0)), "a put of nothing");
        }
    }
    // Runs of 100, 200, ... there, of 250 here; and the other way round.
    let [ones, others] = [
        (1..=5).map(|i| (1_000 * i, 100 * i)).collect::<Vec<_>>(),
        (1..=6).map(|i| (700 * i, 250)).collect(),
    ];
    for (remote, local) in [(&ones, &others), (&others, &ones)] {
        if remote.len().max(local.len()) > can.max_runs {
            continue;
        }
        here.bytes.iter().zip(noise(ROOM, 9)).for_each(|(b, new)| b.store(new, Ordering::Relaxed));
        there.bytes.iter().zip(noise(ROOM, 8)).for_each(|(b, new)| b.store(new, Ordering::Relaxed));
        let there_runs: Vec<_> = remote.iter().map(|&(at, length)| there.remote(at, length)).collect();
        let here_runs: Vec<_> = local.iter().map(|&(at, length)| here.local(at, length)).collect();
        let bytes = |of: &Shared, runs: &[(usize, usize)]| -> Vec<u8> {
            runs.iter().flat_map(|&(at, length)| (at..at + length).map(|at| of.at(at))).collect()
        };
        if can.get {
            insist(fabric, 0, |end| end.get(PeerId(1), &there_runs, &here_runs, Token(90)));
            assert_eq!(wait(fabric, 0), (Token(90), Outcome::Done(0)));
            assert_eq!(bytes(&here, local), bytes(&there, remote), "a get from runs to runs");
        }
        if can.put {
            there.fill(0);
            insist(fabric, 0, |end| end.put(PeerId(1), &here_runs, &there_runs, Some(Token(91))));
            assert_eq!(wait(fabric, 0), (Token(91), Outcome::Done(0)));
            assert_eq!(bytes(&here, local), bytes(&there, remote), "a put from runs to runs");
            assert_eq!(there.at(remote[0].0 + remote[0].1), 0, "nothing between the runs");
        }
    }
}

/// What was put without a token is visible when the flush's token is here, and before a later packet where the fabric says so.
pub fn what_was_put_is_visible_after_a_flush<F: Fabric>(fabric: &mut F) {
    let Some(can) = can(fabric).filter(|can| can.put) else { return };
    connect(fabric, 0, 1);
    let there = Shared::new(&mut fabric.ends()[1], noise(4_000, 1), TO_BE_WRITTEN);
    for turn in 0..30_u8 {
        there.fill(0);
        for piece in 0..40_usize {
            let to = there.remote(100 * piece, 100).memory;
            let fill = |room: &mut [u8]| room.fill(turn + 1);
            insist(fabric, 0, |end| end.put_copy(PeerId(1), 100, fill, to, None));
        }
        if can.put_before_send && turn % 2 == 0 {
            insist(fabric, 0, |end| {
                let length = 4.min(end.capabilities(PeerId(1)).max_inline);
                end.send_inline(PeerId(1), header(u32::from(turn)), &[1; 4][..length])
            });
            let mut rounds = 0;
            while fabric.ends()[1].peek(PeerId(0)).is_none() {
                rounds += 1;
                assert!(rounds < PATIENCE, "the packet does not arrive");
                round(fabric);
            }
            assert!((0..4_000).all(|at| there.at(at) == turn + 1), "puts are seen before a later packet");
            fabric.ends()[1].advance(PeerId(0));
        }
        let token = Token(u64::from(turn));
        insist(fabric, 0, |end| end.flush(PeerId(1), token));
        assert_eq!(wait(fabric, 0), (token, Outcome::Done(0)));
        assert!((0..4_000).all(|at| there.at(at) == turn + 1), "everything is visible after a flush");
    }
    for _ in 0..100 {
        assert_eq!(fabric.ends()[0].completed(), None, "what has no token has no end");
        round(fabric);
    }
}

/// Several processes add to one number: nothing is lost, everybody sees another value. One exchange wins.
pub fn atomics_lose_nothing<F: Fabric>(fabric: &mut F) {
    let Some(can) = can(fabric) else { return };
    if !can.atomics {
        return;
    }
    const EACH: u64 = 50;
    let number = AtomicU64::new(1_000);
    let range = MemoryRange { address: (&raw const number) as u64, length: 8 };
    let region = fabric.ends()[1].register(range, Access::ALL).expect("memory that is there");
    let mut seen = BTreeSet::new();
    for from in [0, 2] {
        connect(fabric, from, 1);
    }
    let mut sent = [0; 3];
    let mut rounds = 0;
    while (seen.len() as u64) < 2 * EACH {
        for from in [0, 2] {
            let add = Atomic::FetchAdd(1);
            if sent[from] < EACH
                && fabric.ends()[from].atomic(PeerId(1), region.remote, add, Token(sent[from])).is_ok()
            {
                sent[from] += 1;
            }
            while let Some(done) = fabric.ends()[from].completed() {
                let Outcome::Done(value) = done.outcome else { panic!("an atomic failed") };
                assert!(seen.insert(value), "two found {value}");
            }
        }
        rounds += 1;
        assert!(rounds < PATIENCE, "{} of {} additions", seen.len(), 2 * EACH);
        round(fabric);
    }
    assert!(seen.iter().copied().eq(1_000..1_000 + 2 * EACH));
    assert_eq!(number.load(Ordering::SeqCst), 1_000 + 2 * EACH);
    for (compare, found) in [(7, 1_100), (1_100, 1_100), (1_100, 42)] {
        let exchange = Atomic::CompareSwap { compare, swap: 42 };
        insist(fabric, 0, |end| end.atomic(PeerId(1), region.remote, exchange, Token(5)));
        assert_eq!(wait(fabric, 0), (Token(5), Outcome::Done(found)));
    }
    assert_eq!(number.load(Ordering::SeqCst), 42);
    fabric.ends()[1].deregister(region.id);
}

/// Memory that was taken back is not touched: whoever tries hears of a failure. Others go on.
pub fn what_was_taken_back_is_not_touched<F: Fabric>(fabric: &mut F) {
    let Some(can) = can(fabric) else { return };
    connect(fabric, 0, 1);
    connect(fabric, 0, 2);
    let there = Shared::new(&mut fabric.ends()[1], noise(100, 1), Access::ALL);
    let here = Shared::new(&mut fabric.ends()[0], noise(100, 2), TO_BE_WRITTEN);
    let other = Shared::new(&mut fabric.ends()[2], noise(100, 1), TO_BE_READ);
    fabric.ends()[1].deregister(there.region.id);
    if can.put {
        let (from, to) = ([here.local(0, 100)], [there.remote(0, 100)]);
        insist(fabric, 0, |end| end.put(PeerId(1), &from, &to, Some(Token(1))));
        assert_eq!(wait(fabric, 0), (Token(1), Outcome::Failed));
        assert!(noise(100, 1).enumerate().all(|(at, byte)| there.at(at) == byte), "it was written to");
    }
    if can.get {
        insist(fabric, 0, |end| end.get(PeerId(2), &[other.remote(0, 100)], &[here.local(0, 100)], Token(2)));
        assert_eq!(wait(fabric, 0), (Token(2), Outcome::Done(0)));
    }
}

/// A process dies while operations with it are under way: every token comes back, once, and nothing is left.
pub fn every_token_comes_back_from_the_dead<F: Fabric>(fabric: &mut F) {
    let Some(can) = can(fabric).filter(|can| can.put && can.get) else { return };
    connect(fabric, 0, 1);
    let there = Shared::new(&mut fabric.ends()[1], noise(60_000, 1), Access::ALL);
    let here = Shared::new(&mut fabric.ends()[0], noise(60_000, 2), TO_BE_WRITTEN);
    let mut open = BTreeSet::new();
    let take = |fabric: &mut F, open: &mut BTreeSet<u64>| {
        while let Some(done) = fabric.ends()[0].completed() {
            assert!(open.remove(&done.token.0), "token {} was not under way", done.token.0);
        }
    };
    for number in 0..60_u64 {
        let (from, into) = ([there.remote(0, 60_000)], [here.local(0, 60_000)]);
        insist(fabric, 0, |end| match number % 3 {
            0 => end.get(PeerId(1), &from, &into, Token(number)),
            1 => end.put(PeerId(1), &into, &from, Some(Token(number))),
            _ if can.atomics => {
                let at = there.region.remote.plus((there.region.remote.address.wrapping_neg()) & 7);
                end.atomic(PeerId(1), at, Atomic::FetchAdd(1), Token(number))
            }
            _ => end.flush(PeerId(1), Token(number)),
        });
        open.insert(number);
        take(fabric, &mut open);
    }
    if !fabric.kill(1) {
        return;
    }
    let mut rounds = 0;
    while !open.is_empty() {
        take(fabric, &mut open);
        rounds += 1;
        assert!(rounds < PATIENCE, "{} tokens do not come back", open.len());
        round(fabric);
    }
    for _ in 0..100 {
        round(fabric);
        take(fabric, &mut open);
    }
    let mut rounds = 0;
    while offer(fabric, 0, 1, 1, 10) != Err(Refused::Dead) {
        rounds += 1;
        assert!(rounds < PATIENCE, "the death is not noticed");
        round(fabric);
    }
    let refused = fabric.ends()[0].put(PeerId(1), &[here.local(0, 8)], &[there.remote(0, 8)], None);
    assert_eq!(refused, Err(Refused::Dead));
}
