//! All ranks of a collective in one process: plain memory, messages by value, steps in random order.

use std::collections::{HashMap, VecDeque};
use weft_coll::{Buffer, Execution, Range, Schedule, Step, StepId};

/// splitmix64: small, seedable, good enough to shuffle.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// How sends complete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sends {
    /// At once.
    Eager,
    /// When the receive has taken the message.
    Synchronous,
}

/// `into = left op into` on bytes of whole elements.
pub type Operation = fn(&[u8], &mut [u8]);

/// One rank's arguments.
#[derive(Default, Clone)]
pub struct Memory(pub HashMap<Buffer, Vec<u8>>);

impl Memory {
    pub fn with(mut self, buffer: Buffer, bytes: Vec<u8>) -> Memory {
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
}

/// Runs all schedules to their end.
///
/// # Panics
/// On a deadlock, a message of the wrong length, a message nobody receives, a range outside its memory, or two messages
/// on one channel at a time.
pub fn run(
    schedules: Vec<Schedule>,
    memories: Vec<Memory>,
    operation: Operation,
    sends: Sends,
    random: &mut Random,
) -> Vec<Memory> {
    let mut ranks: Vec<Rank> = schedules
        .into_iter()
        .zip(memories)
        .map(|(schedule, mut memory)| {
            for (index, need) in (0..).zip(schedule.scratch()) {
                memory.0.insert(Buffer::Scratch(index), vec![0xee; need.bytes as usize]);
            }
            Rank { execution: Execution::new(&schedule), schedule, memory, posted: Vec::new() }
        })
        .collect();
    // (from, to, channel) -> messages with the sender's step
    let mut wire: HashMap<(u32, u32, u16), VecDeque<(Vec<u8>, StepId)>> = HashMap::new();
    loop {
        let mut moved = false;
        let start = random.below(ranks.len() as u64) as usize;
        for turn in 0..ranks.len() {
            let me = (start + turn) % ranks.len();
            let mut wakes = Vec::new();
            {
                let rank = &mut ranks[me];
                // A random number of steps, so that ranks drift apart.
                let mut patience = 1 + random.below(4);
                while patience > 0
                    && let Some(step) = rank.execution.next_ready()
                {
                    moved = true;
                    patience -= 1;
                    match rank.schedule.steps()[step as usize] {
                        Step::Send { to, channel, from } => {
                            let data = rank.memory.slice(from).to_vec();
                            let queue = wire.entry((me as u32, to, channel)).or_default();
                            queue.push_back((data, step));
                            if sends == Sends::Eager {
                                rank.execution.completed(&rank.schedule, step);
                            }
                        }
                        Step::Recv { from, channel, into } => rank.posted.push((step, from, channel, into)),
                        Step::Copy { from, into } => {
                            let data = rank.memory.slice(from).to_vec();
                            rank.memory.slice(into).copy_from_slice(&data);
                            rank.execution.completed(&rank.schedule, step);
                        }
                        Step::Reduce { left, into } => {
                            let left = rank.memory.slice(left).to_vec();
                            operation(&left, rank.memory.slice(into));
                            rank.execution.completed(&rank.schedule, step);
                        }
                    }
                }
                rank.posted.retain(|&(step, from, channel, into)| {
                    let queue = wire.get_mut(&(from, me as u32, channel));
                    let Some((data, sender)) = queue.and_then(VecDeque::pop_front) else { return true };
                    assert_eq!(data.len() as u64, into.bytes, "message {from} -> {me}, channel {channel}");
                    rank.memory.slice(into).copy_from_slice(&data);
                    rank.execution.completed(&rank.schedule, step);
                    wakes.push((from, sender));
                    false
                });
            }
            for (from, step) in wakes {
                moved = true;
                if sends == Sends::Synchronous {
                    let sender = &mut ranks[from as usize];
                    sender.execution.completed(&sender.schedule, step);
                }
            }
        }
        if ranks.iter().all(|rank| rank.execution.is_finished()) {
            break;
        }
        assert!(moved, "deadlock");
    }
    assert!(wire.values().all(VecDeque::is_empty), "a message nobody received");
    ranks.into_iter().map(|rank| rank.memory).collect()
}

/// Between two ranks every channel is used once, unless the messages on it are ordered at both ends.
pub fn check_channels(schedules: &[Schedule]) {
    for schedule in schedules {
        let mut seen: HashMap<(bool, u32, u16), StepId> = HashMap::new();
        for (step, id) in schedule.steps().iter().zip(0..) {
            let key = match *step {
                Step::Send { to, channel, .. } => (true, to, channel),
                Step::Recv { from, channel, .. } => (false, from, channel),
                _ => continue,
            };
            if let Some(earlier) = seen.insert(key, id) {
                assert!(schedule.successors(earlier).contains(&id), "{key:?} is used twice without order");
            }
        }
    }
}
