//! Partitioned operations among the rest of a random program (chapter 4): any cuts on both sides, partitions that become ready
//! in any order, starts that run ahead of the other side.

use super::{COMM, Program};
use crate::partitioned::{Counterpart, Partitions, ReceiveSide, SendSide};
use crate::request::Requests;
use std::ops::Range;
use weft_datatype::Memory;
use weft_engine::Engine;
use weft_types::{ContextId, Handle, PeerId, Rank, Tag};

/// One side of an operation.
struct End {
    rank: usize,
    request: Handle,
    cut: Partitions,
    /// Starts so far.
    starts: u32,
    active: bool,
}

/// What `MPI_Psend_init` and the `MPI_Precv_init` that matches it made.
pub(super) struct Pair {
    send: End,
    recv: End,
    /// Partitions of the active send that are not ready yet.
    unready: Vec<i32>,
}

/// The byte at a place, of a start.
fn byte(start: u32, at: u64) -> u8 {
    (at as u8).wrapping_mul(7).wrapping_add((start as u8).wrapping_mul(31)) | 1
}

fn set(memory: &Memory, range: Range<u64>, value: impl Fn(u64) -> u8) {
    let data: Vec<u8> = range.clone().map(value).collect();
    memory.recv_view(0, range.start, range.end - range.start).unpack(0, &data);
}

impl End {
    /// The part of a process that partitioned requests live in.
    fn parts<'a>(&self, program: &'a mut Program) -> (&'a mut Requests, &'a mut Engine) {
        let process = &mut program.members[self.rank].process;
        (&mut process.requests, &mut process.engine)
    }

    fn start(&mut self, program: &mut Program) {
        assert!(!self.active);
        let (requests, engine) = self.parts(program);
        requests.start_partitioned(engine, self.request).expect("partitioned").expect("inactive");
        (self.starts, self.active) = (self.starts + 1, true);
        program.meet("partitioned start");
    }

    /// Completes the start it is at, if it is done.
    fn complete(&mut self, program: &mut Program) -> bool {
        let (requests, engine) = self.parts(program);
        if !self.active || !requests.is_done(engine, self.request) {
            return false;
        }
        assert_eq!(requests.finish(engine, self.request).error, None);
        self.active = false;
        true
    }
}

impl Pair {
    fn ready(&mut self, program: &mut Program, partition: i32) {
        let bytes = self.send.cut.bytes;
        let (first, start) = (partition as u64 * bytes, self.send.starts);
        set(&self.send.cut.memory, first..first + bytes, |at| byte(start, at));
        let (requests, engine) = self.send.parts(program);
        requests.ready(engine, self.send.request, std::iter::once(partition)).expect("not ready before");
    }

    fn start_send(&mut self, program: &mut Program) {
        self.send.start(program);
        self.unready = (0..self.send.cut.number as i32).collect();
    }

    fn start_recv(&mut self, program: &mut Program) {
        // What an earlier start left is no proof of anything.
        set(&self.recv.cut.memory, 0..self.recv.cut.total(), |_| 0);
        self.recv.start(program);
    }

    /// The bytes of these places at the receiver are those of its start.
    fn check(&self, range: Range<u64>) {
        let mut data = vec![0; (range.end - range.start) as usize];
        self.recv.cut.memory.send_view(0, range.start, range.end - range.start).pack(0, &mut data);
        let right = data.iter().zip(range).all(|(&got, at)| got == byte(self.recv.starts, at));
        assert!(right, "bytes of another start, or none");
    }

    /// Looks at every partition of an active receive; what has arrived must be right.
    fn look_for_arrivals(&self, program: &mut Program) {
        let bytes = self.recv.cut.bytes;
        for partition in 0..self.recv.cut.number {
            let (requests, engine) = self.recv.parts(program);
            if requests.arrived(engine, self.recv.request, partition as i32).expect("in range") {
                self.check(u64::from(partition) * bytes..u64::from(partition + 1) * bytes);
                program.meet("early partition");
            }
        }
    }

    fn complete_send(&mut self, program: &mut Program) -> bool {
        let ended = self.send.complete(program);
        if ended {
            assert!(self.unready.is_empty(), "a send has ended of which some partitions are not ready");
            // Whatever is still under way must not come from here any more.
            set(&self.send.cut.memory, 0..self.send.cut.total(), |_| 0);
        }
        ended
    }

    fn complete_recv(&mut self, program: &mut Program) -> bool {
        let ended = self.recv.complete(program);
        if ended {
            self.check(0..self.recv.cut.total());
        }
        ended
    }

    fn complete(&mut self, program: &mut Program, rank: usize) -> bool {
        let sent = self.send.rank == rank && self.complete_send(program);
        self.recv.rank == rank && self.complete_recv(program) || sent
    }
}

impl Program {
    fn with_pair(&mut self, index: usize, work: impl FnOnce(&mut Pair, &mut Program)) {
        let mut pair = self.pairs.swap_remove(index);
        work(&mut pair, self);
        self.pairs.push(pair);
    }

    /// `MPI_Psend_init` of `rank` and its counterpart. Few tags, so that several match in the order of their making.
    pub(super) fn new_pair(&mut self, rank: usize) {
        if self.pairs.len() >= 6 {
            return;
        }
        let to = self.below(self.members.len());
        let tag = Tag(self.below(2) as i32);
        let (sends, receives) = (1 + self.below(12) as u32, 1 + self.below(12) as u32);
        let part = [1, 8, 57, 400, 3000][self.below(5)];
        let total = u64::from(sends * receives) * part;
        let cut = |number: u32| Partitions {
            memory: Memory::packed_scratch(total as usize),
            number,
            bytes: total / u64::from(number),
        };
        let other = |peer: usize| Counterpart {
            peer: PeerId(peer as u32),
            context: ContextId::WORLD,
            source: Rank(rank as u32),
            tag,
        };
        let (from, into) = (cut(sends), cut(receives));
        let process = &mut self.members[rank].process;
        let send = process
            .requests
            .partitioned_send(&mut process.engine, SendSide::new(from.clone(), Some(other(to)), COMM))
            .expect("room");
        let process = &mut self.members[to].process;
        let recv = process
            .requests
            .partitioned_receive(&mut process.engine, ReceiveSide::new(into.clone(), Some(other(rank)), COMM))
            .expect("room");
        let end = |rank, request, cut| End { rank, request, cut, starts: 0, active: false };
        self.pairs.push(Pair { send: end(rank, send, from), recv: end(to, recv, into), unready: Vec::new() });
    }

    /// One call of `rank` on a partitioned request.
    pub(super) fn act_on_pair(&mut self, rank: usize) {
        let mine = |pair: &Pair| pair.send.rank == rank || pair.recv.rank == rank;
        let found: Vec<usize> = (0..self.pairs.len()).filter(|&index| mine(&self.pairs[index])).collect();
        let Some(&index) = found.get(self.below(found.len().max(1))) else { return };
        let choice = self.below(5);
        self.with_pair(index, |pair, program| {
            let (sends, receives) = (pair.send.rank == rank, pair.recv.rank == rank);
            if sends && !pair.send.active && choice == 0 {
                pair.start_send(program);
            } else if sends && !pair.unready.is_empty() && choice < 2 {
                let one = program.below(pair.unready.len());
                let partition = pair.unready.swap_remove(one);
                pair.ready(program, partition);
            } else if receives && !pair.recv.active && choice == 2 {
                pair.start_recv(program);
            } else if receives && pair.recv.active && choice != 2 {
                pair.look_for_arrivals(program);
            } else {
                pair.complete(program, rank);
            }
        });
    }

    /// Completes what is done of the partitioned requests of `rank`; whether anything was.
    pub(super) fn complete_pairs(&mut self, rank: usize) -> bool {
        let mut pairs = std::mem::take(&mut self.pairs);
        let ended = pairs.iter_mut().fold(false, |ended, pair| pair.complete(self, rank) | ended);
        self.pairs = pairs;
        ended
    }

    /// Partitioned requests of `rank`, and whether each is active.
    pub(super) fn partitioned(&self, rank: usize) -> Vec<(Handle, bool)> {
        let ends = self.pairs.iter().flat_map(|pair| [&pair.send, &pair.recv]);
        ends.filter(|end| end.rank == rank).map(|end| (end.request, end.active)).collect()
    }

    /// Completes this partitioned request if it is done; whether it was.
    pub(super) fn complete_partitioned(&mut self, rank: usize, request: Handle) -> bool {
        let ours = |pair: &Pair| pair.send.request == request && pair.send.rank == rank;
        let theirs = |pair: &Pair| pair.recv.request == request && pair.recv.rank == rank;
        let Some(index) = self.pairs.iter().position(|pair| ours(pair) || theirs(pair)) else { return false };
        let mut ended = false;
        self.with_pair(index, |pair, program| {
            ended = if ours(pair) { pair.complete_send(program) } else { pair.complete_recv(program) };
        });
        ended
    }

    /// Brings both sides of every pair to the same number of starts, with all partitions ready.
    pub(super) fn even_pairs(&mut self) {
        loop {
            let mut pairs = std::mem::take(&mut self.pairs);
            let mut uneven = false;
            for pair in &mut pairs {
                for partition in std::mem::take(&mut pair.unready) {
                    pair.ready(self, partition);
                }
                if pair.send.starts < pair.recv.starts && !pair.send.active {
                    pair.start_send(self);
                } else if pair.recv.starts < pair.send.starts && !pair.recv.active {
                    pair.start_recv(self);
                }
                uneven |= pair.send.starts != pair.recv.starts || !pair.unready.is_empty();
            }
            self.pairs = pairs;
            self.settle();
            if !uneven {
                return;
            }
        }
    }

    /// Frees all partitioned requests, which have ended.
    pub(super) fn free_pairs(&mut self) {
        for pair in std::mem::take(&mut self.pairs) {
            for end in [&pair.send, &pair.recv] {
                assert!(
                    !end.active,
                    "start {} of a partitioned operation of rank {} does not end",
                    end.starts, end.rank
                );
                let process = &mut self.members[end.rank].process;
                assert_eq!(process.free_request(end.request).expect("inactive"), None);
            }
        }
        self.settle();
    }
}
