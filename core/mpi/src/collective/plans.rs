//! Schedules that a communicator keeps, so that a repeated call builds nothing.

use crate::topology::neighborhood::Blocks;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use weft_coll::{Block, Call, InterCall, Schedule};

/// What a collective call is about, on all kinds of communicators.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// Chapter 6, on an intracommunicator.
    Collective(&'a Call<'a>),
    /// Chapter 6, on an intercommunicator.
    Inter(&'a InterCall<'a>),
    /// Sections 8.6 to 8.8: blocks that go out and blocks that come in.
    Neighborhood(&'a Blocks<'a>, &'a Blocks<'a>),
}

/// Schedules of recent calls. Those that were used longest ago make way, so that a loop over all roots of a communicator builds each
/// schedule once.
///
/// A word in a communicator that has none.
#[derive(Debug, Default)]
pub struct Plans(Option<Box<Table>>);

#[derive(Debug, Default)]
struct Table {
    kept: Vec<Kept>,
    /// A mark of each one's call: a search is one over numbers.
    marks: Vec<u64>,
    /// The one used last: mostly the next one, too.
    latest: usize,
    /// Uses, but for repeated ones of one.
    uses: u64,
    /// Bytes of all of them.
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    key: Key,
    arrays: Arrays,
    schedule: Arc<Schedule>,
    /// [`Table::uses`] when it was used last.
    used: u64,
    bytes: usize,
}

/// A call without its arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Collective(Call<'static>),
    Inter(InterCall<'static>),
    Neighborhood(Layout, Layout),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Layout {
    One(u64),
    Even(u64),
    Placed,
    PerNeighbor,
}

/// The arrays of a call: of what is sent and of what is received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slices<'a> {
    blocks: [&'a [Block]; 2],
    numbers: [&'a [u64]; 2],
}

/// The same, owned.
#[derive(Debug)]
struct Arrays {
    blocks: [Box<[Block]>; 2],
    numbers: [Box<[u64]>; 2],
}

impl Arrays {
    fn of(slices: Slices<'_>) -> Arrays {
        Arrays { blocks: slices.blocks.map(Box::from), numbers: slices.numbers.map(Box::from) }
    }

    fn slices(&self) -> Slices<'_> {
        Slices {
            blocks: self.blocks.each_ref().map(|all| &**all),
            numbers: self.numbers.each_ref().map(|all| &**all),
        }
    }
}

impl Slices<'_> {
    fn entries(&self) -> usize {
        self.blocks.iter().map(|blocks| blocks.len()).sum::<usize>()
            + self.numbers.iter().map(|numbers| numbers.len()).sum::<usize>()
    }

    fn bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(|blocks| size_of_val(*blocks)).sum();
        blocks + self.numbers.iter().map(|numbers| size_of_val(*numbers)).sum::<usize>()
    }
}

/// Most schedules of a communicator, and bytes of them and their arrays: all roots of some hundred ranks, or all sizes that a program
/// has. A plan costs microseconds, a kept one the search for a number.
const MOST: (usize, usize) = (256, 1 << 20);

/// So many are kept whatever they take.
const LEAST: usize = 4;

/// Calls with more counts than this are planned anew, so that what is kept stays small beside what the program holds.
const MOST_ENTRIES: usize = 4096;

/// Entries of each array that the mark of a call tells apart.
const MARKED: usize = 4;

impl Plans {
    /// The schedule of a call, found or made.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn get<E>(
        &mut self,
        work: &Work<'_>,
        make: impl FnOnce() -> Result<Schedule, E>,
    ) -> Result<Arc<Schedule>, E> {
        self.0.get_or_insert_default().get(work, make)
    }
}

impl Table {
    /// As [`Plans::get`].
    #[inline]
    fn get<E>(
        &mut self,
        work: &Work<'_>,
        make: impl FnOnce() -> Result<Schedule, E>,
    ) -> Result<Arc<Schedule>, E> {
        let (key, slices) = split(work);
        let same = |kept: &Kept| kept.key == key && kept.arrays.slices() == slices;
        if let Some(kept) = self.kept.get(self.latest).filter(|kept| same(kept)) {
            return Ok(Arc::clone(&kept.schedule));
        }
        let mark = mark(&key, &slices);
        let mut found = self.marks.iter().zip(&self.kept);
        if let Some(index) = found.position(|(&other, kept)| other == mark && same(kept)) {
            self.uses += 1;
            self.latest = index;
            self.kept[index].used = self.uses;
            return Ok(Arc::clone(&self.kept[index].schedule));
        }
        let schedule = Arc::new(make()?);
        if slices.entries() <= MOST_ENTRIES {
            let bytes = size_of::<Kept>() + schedule.bytes() + slices.bytes();
            let (arrays, schedule) = (Arrays::of(slices), Arc::clone(&schedule));
            self.keep(Kept { key, arrays, schedule, used: self.uses + 1, bytes }, mark);
        }
        Ok(schedule)
    }

    #[cold]
    fn keep(&mut self, entry: Kept, mark: u64) {
        let (most, most_bytes) = MOST;
        self.uses = entry.used;
        self.bytes += entry.bytes;
        while self.kept.len() >= most || self.kept.len() >= LEAST && self.bytes > most_bytes {
            let oldest = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.used);
            let Some((oldest, _)) = oldest else { break };
            self.bytes -= self.kept.swap_remove(oldest).bytes;
            self.marks.swap_remove(oldest);
        }
        self.latest = self.kept.len();
        self.kept.push(entry);
        self.marks.push(mark);
    }
}

/// Nearly always another number for another call.
fn mark(key: &Key, slices: &Slices<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    for blocks in slices.blocks {
        (blocks.len(), &blocks[..blocks.len().min(MARKED)]).hash(&mut hasher);
    }
    for numbers in slices.numbers {
        (numbers.len(), &numbers[..numbers.len().min(MARKED)]).hash(&mut hasher);
    }
    hasher.finish()
}

/// A call as key and arrays.
fn split<'a>(work: &Work<'a>) -> (Key, Slices<'a>) {
    match *work {
        Work::Collective(call) => {
            let (call, slices) = split_call(call);
            (Key::Collective(call), slices)
        }
        Work::Inter(call) => {
            let (call, slices) = split_inter(call);
            (Key::Inter(call), slices)
        }
        Work::Neighborhood(send, recv) => {
            let (mut slices, mut layouts) = (Slices::default(), [Layout::Placed; 2]);
            for (side, blocks) in [send, recv].into_iter().enumerate() {
                layouts[side] = match blocks {
                    Blocks::One(bytes) => Layout::One(*bytes),
                    Blocks::Even(bytes) => Layout::Even(*bytes),
                    Blocks::Placed(blocks) => {
                        slices.blocks[side] = blocks;
                        Layout::Placed
                    }
                    Blocks::PerNeighbor(numbers) => {
                        slices.numbers[side] = numbers;
                        Layout::PerNeighbor
                    }
                };
            }
            (Key::Neighborhood(layouts[0], layouts[1]), slices)
        }
    }
}

#[inline]
fn split_call<'a>(call: &Call<'a>) -> (Call<'static>, Slices<'a>) {
    let plain = |call| (call, Slices::default());
    match *call {
        Call::Barrier => plain(Call::Barrier),
        Call::Bcast { root, bytes } => plain(Call::Bcast { root, bytes }),
        Call::Gather { root, bytes, in_place } => plain(Call::Gather { root, bytes, in_place }),
        Call::Scatter { root, bytes, in_place } => plain(Call::Scatter { root, bytes, in_place }),
        Call::Allgather { bytes, in_place } => plain(Call::Allgather { bytes, in_place }),
        Call::Alltoall { bytes, in_place } => plain(Call::Alltoall { bytes, in_place }),
        Call::Reduce { root, vector, in_place } => plain(Call::Reduce { root, vector, in_place }),
        Call::Allreduce { vector, in_place } => plain(Call::Allreduce { vector, in_place }),
        Call::Scan { vector, in_place } => plain(Call::Scan { vector, in_place }),
        Call::Exscan { vector, in_place } => plain(Call::Exscan { vector, in_place }),
        Call::Gatherv { root, bytes, blocks, in_place } => {
            (Call::Gatherv { root, bytes, blocks: &[], in_place }, received(blocks))
        }
        Call::Scatterv { root, bytes, blocks, in_place } => {
            (Call::Scatterv { root, bytes, blocks: &[], in_place }, received(blocks))
        }
        Call::Allgatherv { blocks, in_place } => {
            (Call::Allgatherv { blocks: &[], in_place }, received(blocks))
        }
        Call::Alltoallv { send, recv, in_place } => {
            let slices = Slices { blocks: [send, recv], ..Slices::default() };
            (Call::Alltoallv { send: &[], recv: &[], in_place }, slices)
        }
        Call::Alltoallw { send, recv, in_place } => {
            let slices = Slices { numbers: [send, recv], ..Slices::default() };
            (Call::Alltoallw { send: &[], recv: &[], in_place }, slices)
        }
        Call::ReduceScatter { counts, vector, in_place } => {
            let slices = Slices { numbers: [&[], counts], ..Slices::default() };
            (Call::ReduceScatter { counts: &[], vector, in_place }, slices)
        }
    }
}

fn received(blocks: &[Block]) -> Slices<'_> {
    Slices { blocks: [&[], blocks], ..Slices::default() }
}

fn split_inter<'a>(call: &InterCall<'a>) -> (InterCall<'static>, Slices<'a>) {
    let plain = |call| (call, Slices::default());
    match *call {
        InterCall::Barrier => plain(InterCall::Barrier),
        InterCall::Bcast { root, bytes } => plain(InterCall::Bcast { root, bytes }),
        InterCall::Gather { root, bytes } => plain(InterCall::Gather { root, bytes }),
        InterCall::Scatter { root, bytes } => plain(InterCall::Scatter { root, bytes }),
        InterCall::Allgather { sent, received } => plain(InterCall::Allgather { sent, received }),
        InterCall::Alltoall { sent, received } => plain(InterCall::Alltoall { sent, received }),
        InterCall::Reduce { root, vector } => plain(InterCall::Reduce { root, vector }),
        InterCall::Allreduce { vector } => plain(InterCall::Allreduce { vector }),
        InterCall::Gatherv { root, bytes, blocks } => {
            (InterCall::Gatherv { root, bytes, blocks: &[] }, received(blocks))
        }
        InterCall::Scatterv { root, bytes, blocks } => {
            (InterCall::Scatterv { root, bytes, blocks: &[] }, received(blocks))
        }
        InterCall::Allgatherv { sent, blocks } => {
            (InterCall::Allgatherv { sent, blocks: &[] }, received(blocks))
        }
        InterCall::Alltoallv { send, recv } => {
            let slices = Slices { blocks: [send, recv], ..Slices::default() };
            (InterCall::Alltoallv { send: &[], recv: &[] }, slices)
        }
        InterCall::Alltoallw { send, recv } => {
            let slices = Slices { numbers: [send, recv], ..Slices::default() };
            (InterCall::Alltoallw { send: &[], recv: &[] }, slices)
        }
        InterCall::ReduceScatter { counts, vector } => {
            let slices = Slices { numbers: [&[], counts], ..Slices::default() };
            (InterCall::ReduceScatter { counts: &[], vector }, slices)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_coll::Root;

    fn table(plans: &Plans) -> &Table {
        plans.0.as_ref().expect("a plan was asked for")
    }

    /// Asks for a schedule; whether it had to be made.
    fn made(plans: &mut Plans, work: &Work<'_>) -> bool {
        let mut made = false;
        let make = || {
            made = true;
            Ok::<_, ()>(Schedule::default())
        };
        assert!(plans.get(work, make).is_ok());
        made
    }

    #[test]
    fn a_call_is_found_again_and_another_one_is_not_taken_for_it() {
        let blocks = [Block { displacement: 0, bytes: 4 }, Block { displacement: 8, bytes: 4 }];
        let others = [blocks[0], Block { displacement: 12, bytes: 4 }];
        let calls = [
            Call::Barrier,
            Call::Bcast { root: 0, bytes: 8 },
            Call::Bcast { root: 1, bytes: 8 },
            Call::Allgather { bytes: 8, in_place: false },
            Call::Allgather { bytes: 8, in_place: true },
            Call::Allgatherv { blocks: &blocks, in_place: false },
            Call::Allgatherv { blocks: &others, in_place: false },
            Call::Alltoallv { send: &blocks, recv: &others, in_place: false },
            Call::Alltoallv { send: &others, recv: &blocks, in_place: false },
            Call::Alltoallw { send: &[1, 2], recv: &[3, 4], in_place: false },
            Call::Alltoallw { send: &[1, 2], recv: &[3, 5], in_place: false },
        ];
        let inter = [
            InterCall::Barrier,
            InterCall::Bcast { root: Root::Here, bytes: 8 },
            InterCall::Bcast { root: Root::Remote(0), bytes: 8 },
        ];
        let around = [Blocks::One(8), Blocks::Even(8)];
        let works: Vec<Work<'_>> = (calls.iter().map(Work::Collective))
            .chain(inter.iter().map(Work::Inter))
            .chain(around.iter().map(|blocks| Work::Neighborhood(blocks, &around[1])))
            .collect();
        let mut plans = Plans::default();
        assert!(works.iter().all(|work| made(&mut plans, work)));
        assert!(!works.iter().any(|work| made(&mut plans, work)));
        assert!(!works.iter().rev().any(|work| made(&mut plans, work)));
    }

    #[test]
    fn a_loop_over_all_roots_builds_each_schedule_once() {
        let mut plans = Plans::default();
        let calls: Vec<Call<'_>> =
            (0..64).flat_map(|root| [Call::Bcast { root, bytes: 8 }, Call::Barrier]).collect();
        let works: Vec<Work<'_>> = calls.iter().map(Work::Collective).collect();
        let first = works.iter().filter(|work| made(&mut plans, work)).count();
        assert_eq!(first, 65);
        assert!(!works.iter().any(|work| made(&mut plans, work)));
    }

    #[test]
    fn what_was_used_longest_ago_makes_way() {
        let mut plans = Plans::default();
        let bcast = |plans: &mut Plans, root| made(plans, &Work::Collective(&Call::Bcast { root, bytes: 8 }));
        let most = MOST.0 as u32;
        assert!((0..most).all(|root| bcast(&mut plans, root)));
        assert!(!bcast(&mut plans, 0), "it is the latest again");
        assert!(bcast(&mut plans, most));
        assert!(!bcast(&mut plans, 0));
        assert!(bcast(&mut plans, 1), "it had to go");
        assert_eq!((table(&plans).kept.len(), table(&plans).marks.len()), (MOST.0, MOST.0));
    }

    #[test]
    fn memory_is_bounded() {
        let counts: Vec<u64> = (0..MOST_ENTRIES as u64).collect();
        let call = |first| Call::Alltoallw { send: &counts[first..], recv: &[], in_place: false };
        let mut plans = Plans::default();
        for first in 0..100 {
            assert!(made(&mut plans, &Work::Collective(&call(first))));
            let sum: usize = table(&plans).kept.iter().map(|kept| kept.bytes).sum();
            assert_eq!(table(&plans).bytes, sum);
            assert!(sum <= MOST.1);
        }
        let all: usize = table(&plans).kept.len();
        assert!((LEAST..100).contains(&all), "{all}");
        assert!((100 - all..100).all(|first| !made(&mut plans, &Work::Collective(&call(first)))));
    }

    #[test]
    fn long_arrays_are_not_kept() {
        let counts = vec![1; MOST_ENTRIES + 1];
        let call = Call::Alltoallw { send: &[], recv: &counts, in_place: true };
        let mut plans = Plans::default();
        assert!(made(&mut plans, &Work::Collective(&call)));
        assert!(made(&mut plans, &Work::Collective(&call)));
    }
}
