//! All ranks of a collective in one process: plain memory, messages by value, steps in random order.

use std::collections::{HashMap, VecDeque};
use weft_coll::{Access, Buffer, Execution, Range, Schedule, Step, StepId};

/// splitmix64: small, seedable, good enough to shuffle.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// How sends complete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sends {
    /// At once; the data are copied.
    Eager,
    /// When the receive has taken the message; the data stay in the sender's memory until then.
    Synchronous,
}

/// `into = left op into` on bytes of whole elements.
pub(crate) type Operation = fn(&[u8], &mut [u8]);

/// One rank's arguments.
#[derive(Default, Clone)]
pub(crate) struct Memory(pub(crate) HashMap<Buffer, Vec<u8>>);

impl Memory {
    pub(crate) fn with(mut self, buffer: Buffer, bytes: Vec<u8>) -> Memory {
        self.0.insert(buffer, bytes);
        self
    }

    fn slice(&mut self, range: Range) -> &mut [u8] {
        if range.bytes == 0 {
            return &mut [];
        }
        let start = (range.displacement + range.start as i64) as usize;
        let buffer = self.0.get_mut(&range.buffer).unwrap_or_else(|| panic!("no such argument: {range:?}"));
        &mut buffer[start..start + range.bytes as usize]
    }
}

struct Rank {
    schedule: Schedule,
    execution: Execution,
    memory: Memory,
    posted: Vec<(StepId, u32, u16, Range)>,
    /// Steps that wait for an offer or for a flag.
    remote: Vec<StepId>,
}

/// From, to, channel.
type Path = (u32, u32, u16);

/// A message: the sender's step, where the data are in its memory, and their copy if the send is eager.
type Message = (StepId, Range, Option<Vec<u8>>);

/// Ranks and the messages between them.
pub(crate) struct World {
    ranks: Vec<Rank>,
    wire: HashMap<Path, VecDeque<Message>>,
    /// What was offered to the second rank of the path, and what for.
    offers: HashMap<Path, VecDeque<(Range, Access)>>,
    /// Flags raised at the second rank of the path.
    flags: HashMap<Path, u32>,
    operation: Operation,
    sends: Sends,
}

impl World {
    pub(crate) fn new(
        schedules: &[Schedule],
        memories: &[Memory],
        operation: Operation,
        sends: Sends,
    ) -> World {
        let rank = |(schedule, memory): (&Schedule, &Memory)| {
            let mut memory = memory.clone();
            for (index, need) in (0..).zip(schedule.scratch()) {
                memory.0.insert(Buffer::Scratch(index), vec![0xee; need.bytes as usize]);
            }
            Rank {
                execution: Execution::new(schedule),
                schedule: schedule.clone(),
                memory,
                posted: Vec::new(),
                remote: Vec::new(),
            }
        };
        let ranks = schedules.iter().zip(memories).map(rank).collect();
        World { ranks, wire: HashMap::new(), offers: HashMap::new(), flags: HashMap::new(), operation, sends }
    }

    /// Runs all ranks but `absent` until nothing moves. `absent` is as good as not having called yet.
    pub(crate) fn run_without(&mut self, absent: Option<usize>, random: &mut Random) {
        loop {
            let start = random.below(self.ranks.len() as u64) as usize;
            let mut moved = false;
            for turn in 0..self.ranks.len() {
                let me = (start + turn) % self.ranks.len();
                moved |= Some(me) != absent && self.step(me, 1 + random.below(4));
            }
            if !moved {
                return;
            }
        }
    }

    /// Runs all schedules to their end and gives back the memories.
    ///
    /// # Panics
    /// On a deadlock, a message of the wrong length, a message nobody receives, a range outside its memory.
    pub(crate) fn finish(mut self, random: &mut Random) -> Vec<Memory> {
        self.run_without(None, random);
        assert!((0..self.ranks.len()).all(|rank| self.is_finished(rank)), "deadlock");
        assert!(self.wire.values().all(VecDeque::is_empty), "a message nobody received");
        assert!(self.offers.values().all(VecDeque::is_empty), "an offer nobody took");
        assert!(self.flags.values().all(|&raised| raised == 0), "a flag nobody awaited");
        self.ranks.into_iter().map(|rank| rank.memory).collect()
    }

    pub(crate) fn is_finished(&self, rank: usize) -> bool {
        self.ranks[rank].execution.is_finished()
    }

    /// Lets a rank start up to `patience` steps and take the messages that are there.
    fn step(&mut self, me: usize, mut patience: u64) -> bool {
        let mut moved = false;
        let rank = &mut self.ranks[me];
        while patience > 0
            && let Some(step) = rank.execution.next_ready()
        {
            moved = true;
            patience -= 1;
            match rank.schedule.steps()[step as usize] {
                Step::Send { to, channel, from } => {
                    let copy = (self.sends == Sends::Eager).then(|| rank.memory.slice(from).to_vec());
                    if copy.is_some() {
                        rank.execution.completed(&rank.schedule, step);
                    }
                    self.wire.entry((me as u32, to, channel)).or_default().push_back((step, from, copy));
                }
                Step::Recv { from, channel, into } => rank.posted.push((step, from, channel, into)),
                Step::Copy { from, into } => {
                    let data = rank.memory.slice(from).to_vec();
                    rank.memory.slice(into).copy_from_slice(&data);
                    rank.execution.completed(&rank.schedule, step);
                }
                Step::Reduce { left, into } => {
                    let left = rank.memory.slice(left).to_vec();
                    (self.operation)(&left, rank.memory.slice(into));
                    rank.execution.completed(&rank.schedule, step);
                }
                Step::Offer { to, channel, range, access } => {
                    self.offers.entry((me as u32, to, channel)).or_default().push_back((range, access));
                    rank.execution.completed(&rank.schedule, step);
                }
                Step::Put { .. } | Step::Get { .. } | Step::Await { .. } => rank.remote.push(step),
            }
        }
        let remote = std::mem::take(&mut rank.remote);
        for step in remote {
            if self.reaches(me, step) {
                moved = true;
                let rank = &mut self.ranks[me];
                rank.execution.completed(&rank.schedule, step);
            } else {
                self.ranks[me].remote.push(step);
            }
        }
        let rank = &mut self.ranks[me];
        for posted in std::mem::take(&mut rank.posted) {
            let (step, from, channel, into) = posted;
            let queue = self.wire.get_mut(&(from, me as u32, channel));
            let Some((sent, range, copy)) = queue.and_then(VecDeque::pop_front) else {
                self.ranks[me].posted.push(posted);
                continue;
            };
            moved = true;
            let sender = &mut self.ranks[from as usize];
            let data = copy.unwrap_or_else(|| {
                sender.execution.completed(&sender.schedule, sent);
                sender.memory.slice(range).to_vec()
            });
            assert_eq!(data.len() as u64, into.bytes, "message {from} -> {me}, channel {channel}");
            let rank = &mut self.ranks[me];
            rank.memory.slice(into).copy_from_slice(&data);
            rank.execution.completed(&rank.schedule, step);
        }
        moved
    }
}

impl World {
    /// Does a step on another's memory, or sees a flag. False: not yet.
    fn reaches(&mut self, me: usize, step: StepId) -> bool {
        let step = self.ranks[me].schedule.steps()[step as usize];
        let (peer, channel, mine, wanted) = match step {
            Step::Put { to, channel, from } => (to, channel, from, Access::Write),
            Step::Get { from, channel, into } => (from, channel, into, Access::Read),
            Step::Await { from, channel, .. } => {
                let flag = self.flags.entry((from, me as u32, channel)).or_default();
                let raised = *flag > 0;
                *flag -= u32::from(raised);
                return raised;
            }
            _ => unreachable!("not on another's memory"),
        };
        let offers = self.offers.get_mut(&(peer, me as u32, channel));
        let Some((theirs, access)) = offers.and_then(VecDeque::pop_front) else { return false };
        assert_eq!((access, theirs.bytes), (wanted, mine.bytes), "{step:?} on what {peer} offers to {me}");
        match access {
            Access::Write => {
                let data = self.ranks[me].memory.slice(mine).to_vec();
                self.ranks[peer as usize].memory.slice(theirs).copy_from_slice(&data);
            }
            Access::Read => {
                let data = self.ranks[peer as usize].memory.slice(theirs).to_vec();
                self.ranks[me].memory.slice(mine).copy_from_slice(&data);
            }
        }
        *self.flags.entry((me as u32, peer, channel)).or_default() += 1;
        true
    }
}

/// Between two ranks every channel is used once, unless the messages on it are ordered at both ends.
pub(crate) fn check_channels(schedules: &[Schedule]) {
    for schedule in schedules {
        let mut seen: HashMap<(bool, u32, u16), StepId> = HashMap::new();
        for (step, id) in schedule.steps().iter().zip(0..) {
            // (whether it leaves, the other rank, channel)
            let keys: &[_] = match *step {
                Step::Send { to, channel, .. } | Step::Offer { to, channel, .. } => &[(true, to, channel)],
                Step::Recv { from, channel, .. } => &[(false, from, channel)],
                Step::Put { to: peer, channel, .. } | Step::Get { from: peer, channel, .. } => {
                    &[(false, peer, channel), (true, peer, channel + 1)]
                }
                Step::Await { from, channel, .. } => &[(false, from, channel + 1)],
                Step::Copy { .. } | Step::Reduce { .. } => &[],
            };
            for &key in keys {
                if let Some(earlier) = seen.insert(key, id) {
                    assert!(
                        schedule.successors(earlier).contains(&id),
                        "{key:?} is used twice without order"
                    );
                }
            }
        }
    }
}
