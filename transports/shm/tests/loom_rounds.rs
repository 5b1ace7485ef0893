//! Rounds under loom: payloads against the rules, and sleeping members against lost wake-ups, which would be deadlocks.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_rounds`
#![cfg(loom)]

mod loom_model;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;
use loom_model::{Door, heavy_barrier};
use weft_shm::bell::{self, SleepWord};
use weft_shm::rounds::{Pace, Words, leaving, stamp};

/// What one member writes: two cells, so that a member may be two rounds ahead.
struct Area {
    stamps: [AtomicU64; 2],
    payloads: [UnsafeCell<u64>; 2],
    finished: AtomicU64,
    door: Arc<Door>,
}

/// The view of one member.
#[derive(Clone)]
struct View(Arc<Vec<Area>>, u32);

impl View {
    fn all(members: u32) -> Vec<View> {
        let areas = (0..members).map(|_| Area {
            stamps: [AtomicU64::new(0), AtomicU64::new(0)],
            payloads: [UnsafeCell::new(0), UnsafeCell::new(0)],
            finished: AtomicU64::new(0),
            door: Door::new(),
        });
        let areas = Arc::new(areas.collect::<Vec<Area>>());
        (0..members).map(|me| View(Arc::clone(&areas), me)).collect()
    }

    fn own(&self) -> &Area {
        &self.0[self.1 as usize]
    }

    fn write(&self, round: u64, value: u64) {
        // SAFETY: loom reports the race when somebody else may access the payload now.
        self.own().payloads[round as usize % 2].with_mut(|to| unsafe { *to = value });
    }

    fn read(&self, member: u32, round: u64) -> u64 {
        // SAFETY: as in `write`.
        self.0[member as usize].payloads[round as usize % 2].with(|from| unsafe { *from })
    }

    /// As `write`, into a place of that member's that goes round among all.
    fn write_at(&self, ring: u32, value: u64) {
        // SAFETY: as in `write`.
        self.0[ring as usize].payloads[0].with_mut(|to| unsafe { *to = value });
    }

    fn read_at(&self, ring: u32) -> u64 {
        // SAFETY: as in `write`.
        self.0[ring as usize].payloads[0].with(|from| unsafe { *from })
    }

    /// As `Rounds::wake`.
    fn wake(&self) {
        // What the sleeper's membarrier makes of the light barrier.
        fence(Ordering::SeqCst);
        for (member, area) in self.0.iter().enumerate() {
            if member != self.1 as usize && bell::needs_attention(area.door.load()) {
                bell::ring(&*area.door);
            }
        }
    }

    /// As a blocked call.
    fn wait_until(&self, mut look: impl FnMut() -> bool) {
        let door = &*self.own().door;
        loop {
            if look() {
                return;
            }
            let rings = bell::arm(door);
            heavy_barrier();
            if look() {
                return bell::disarm(door, rings);
            }
            while let Some(value) = bell::still_armed(door, rings) {
                door.wait(value);
            }
            bell::disarm(door, rings);
        }
    }
}

impl Words for View {
    const CELLS: u64 = 2;

    fn stamp(&self, member: u32, round: u64) -> u64 {
        self.0[member as usize].stamps[round as usize % 2].load(Ordering::Acquire)
    }

    fn set_stamp(&self, round: u64, stamp: u64) {
        self.own().stamps[round as usize % 2].store(stamp, Ordering::Release);
    }

    fn finished(&self, member: u32) -> u64 {
        self.0[member as usize].finished.load(Ordering::Acquire)
    }

    fn set_finished(&self, rounds: u64) {
        self.own().finished.store(rounds, Ordering::Release);
    }
}

fn check(preemptions: usize, members: u32, member: impl Fn(View) + Send + Sync + Copy + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let mut views = View::all(members);
        let first = views.remove(0);
        let others: Vec<_> = views.into_iter().map(|view| thread::spawn(move || member(view))).collect();
        member(first);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Every member gives a number in every round and adds up all; a round seen whole wakes the others, a stamp alone does not.
fn sums(view: View, members: u32, rounds: u64) {
    let me = view.1;
    let mut pace = Pace::new(me, members);
    for round in 0..rounds {
        assert!(pace.has_room(&view, round), "whoever saw the last round whole has room");
        view.write(round, u64::from(me) + round);
        view.set_stamp(round, stamp(round, 7));
        let others = pace.others();
        view.wait_until(|| pace.missing(&view, round, 7, others) == 0);
        let sum: u64 = (0..members).map(|member| view.read(member, round)).sum();
        assert_eq!(sum, (0..members).map(|member| u64::from(member) + round).sum::<u64>());
        pace.heard_of(&view, round);
        view.set_finished(round + 1);
        view.wake();
    }
}

/// As `sums` where each ring has one place: every round the members go on in the next one's, when all have finished the round before.
fn sums_in_turn(view: View, members: u32, rounds: u64) {
    let me = view.1;
    let mut pace = Pace::new(me, members);
    for round in 0..rounds {
        let ring = |member: u32| (member + round as u32) % members;
        let reach = round.checked_sub(1).map_or(round, |before| before + View::CELLS);
        view.wait_until(|| pace.has_room(&view, reach));
        view.write_at(ring(me), u64::from(me) + round);
        view.set_stamp(round, stamp(round, 7));
        let others = pace.others();
        view.wait_until(|| pace.missing(&view, round, 7, others) == 0);
        let sum: u64 = (0..members).map(|member| view.read_at(ring(member))).sum();
        assert_eq!(sum, (0..members).map(|member| u64::from(member) + round).sum::<u64>());
        pace.heard_of(&view, round);
        view.set_finished(round + 1);
        view.wake();
    }
}

#[test]
fn a_place_goes_round_and_nobody_reads_what_the_next_one_writes_there() {
    check(2, 2, |view| sums_in_turn(view, 2, 3));
}

#[test]
fn all_get_the_payloads_of_all_and_nobody_sleeps_for_ever() {
    check(3, 2, |view| sums(view, 2, 3));
}

#[test]
fn the_last_of_three_wakes_those_who_sleep() {
    check(2, 3, |view| sums(view, 3, 1));
}

/// Member 0 gives numbers as fast as the cells allow; the others take them.
fn broadcasts(view: View, members: u32, rounds: u64) {
    let mut pace = Pace::new(view.1, members);
    for round in 0..rounds {
        if view.1 == 0 {
            view.wait_until(|| pace.has_room(&view, round));
            view.write(round, 10 + round);
            view.set_stamp(round, stamp(round, 1));
        } else {
            view.wait_until(|| pace.missing(&view, round, 1, 1) == 0);
            assert_eq!(view.read(0, round), 10 + round);
        }
        pace.next = round + 1;
        view.set_finished(round + 1);
        view.wake();
    }
}

#[test]
fn a_writer_overwrites_nothing_that_is_still_read() {
    check(2, 2, |view| broadcasts(view, 2, 4));
    check(1, 3, |view| broadcasts(view, 3, 3));
}

/// The words of leaving.
struct Exits {
    begun: Vec<AtomicU32>,
    cause: AtomicU64,
    end: AtomicU64,
    gone: AtomicU64,
}

#[derive(Clone)]
struct Exit(Arc<Exits>, u32);

impl leaving::Words for Exit {
    fn set_begun(&self, calls: u32) {
        self.0.begun[self.1 as usize].store(calls, Ordering::Relaxed);
    }
    fn begun(&self, member: u32) -> u32 {
        self.0.begun[member as usize].load(Ordering::Relaxed)
    }
    fn light_barrier(&self) {
        fence(Ordering::SeqCst);
    }
    fn heavy_barrier(&self) {
        heavy_barrier();
    }
    fn cause(&self) -> u64 {
        self.0.cause.load(Ordering::Acquire)
    }
    fn set_cause(&self, cause: u64) {
        let _ = self.0.cause.compare_exchange(0, cause, Ordering::AcqRel, Ordering::Acquire);
    }
    fn end(&self) -> u64 {
        self.0.end.load(Ordering::Acquire)
    }
    fn set_end(&self, end: u64) -> u64 {
        self.0
            .end
            .compare_exchange(0, end, Ordering::AcqRel, Ordering::Acquire)
            .map_or_else(|known| known, |_| end)
    }
    fn gone(&self) -> u64 {
        self.0.gone.load(Ordering::Acquire)
    }
    fn go(&self) {
        self.0.gone.fetch_or(1 << self.1, Ordering::Release);
    }
}

/// Each member makes its calls without waiting for anybody, as roots of broadcasts may; the number after which each leaves is in
/// `leave_after`. Which way each call went.
fn calls_of(exit: &Exit, members: u32, calls: u32, leave_after: Option<u32>) -> Vec<bool> {
    let mut by_cells = Vec::new();
    for number in 0..calls {
        by_cells.push(leaving::begin(exit, number) || leaving::may_still_begin(exit, members, number));
        if leave_after == Some(number) {
            leaving::Words::set_cause(exit, 1 + u64::from(exit.1));
            leaving::Words::go(exit);
        }
    }
    by_cells
}

fn leaves(preemptions: usize, leave_after: &'static [Option<u32>], calls: u32) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let members = leave_after.len() as u32;
        let exits = Arc::new(Exits {
            begun: (0..members).map(|_| AtomicU32::new(0)).collect(),
            cause: AtomicU64::new(0),
            end: AtomicU64::new(0),
            gone: AtomicU64::new(0),
        });
        let others: Vec<_> = (1..members)
            .map(|me| {
                let exit = Exit(Arc::clone(&exits), me);
                thread::spawn(move || calls_of(&exit, members, calls, leave_after[me as usize]))
            })
            .collect();
        let own = calls_of(&Exit(exits, 0), members, calls, leave_after[0]);
        for other in others {
            assert_eq!(
                other.join().unwrap(),
                own,
                "a call went by the cells at one member and not at another"
            );
        }
    });
}

#[test]
fn all_members_leave_before_the_same_call() {
    leaves(3, &[Some(0), None], 3);
    leaves(3, &[Some(1), Some(0)], 3);
    leaves(2, &[Some(0), None, None], 2);
}
