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
use weft_shm::rounds::exchange::{Exchanged, Places};
use weft_shm::rounds::swaps::Swaps;
use weft_shm::rounds::{Pace, Words, leaving, stamp};

/// What one member writes: two cells, so that a member may be two rounds ahead.
struct Area {
    stamps: [AtomicU64; 2],
    payloads: [UnsafeCell<u64>; 2],
    /// Where payloads lie that have no place by cell: ring and place there.
    at: [AtomicU64; 2],
    /// The places in this member's ring that two swap or hand over; both write there.
    places: [UnsafeCell<u64>; 3],
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
            at: [AtomicU64::new(0), AtomicU64::new(0)],
            places: [UnsafeCell::new(0), UnsafeCell::new(0), UnsafeCell::new(0)],
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

    /// Writes at a place of a ring, and says where in the own cell of the round.
    fn write_at(&self, ring: usize, place: usize, round: u64, value: u64) {
        // SAFETY: as in `write`.
        self.0[ring].places[place].with_mut(|to| unsafe { *to = value });
        self.own().at[round as usize % 2].store((ring * 3 + place) as u64, Ordering::Relaxed);
    }

    /// What a member wrote so in a round, and in which ring it lies.
    fn read_at(&self, member: u32, round: u64) -> (usize, u64) {
        let at = self.0[member as usize].at[round as usize % 2].load(Ordering::Relaxed) as usize;
        // SAFETY: as in `write`.
        (at / 3, self.0[at / 3].places[at % 3].with(|from| unsafe { *from }))
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

/// Bytes of a place.
const PLACE: usize = 64;

/// Both give a number in every round and read both, at places that they swap; nobody waits but for the other's number.
fn swapped(view: View, rounds: u64) {
    let me = view.1;
    let (mut pace, mut swaps) = (Pace::new(me, 2), Swaps::new(me));
    for round in 0..rounds {
        let reach = swaps.displaces().map_or(round, |before| round.max(before + View::CELLS));
        assert!(pace.has_room(&view, reach), "whoever saw the last round whole has room");
        let (at, turned) = swaps.place(round, PLACE);
        let ring = if turned { 1 - me } else { me };
        view.write_at(ring as usize, at / (2 * PLACE), round, u64::from(me) + 10 * round);
        view.set_stamp(round, stamp(round, 7));
        view.wait_until(|| pace.missing(&view, round, 7, pace.others()) == 0);
        for member in 0..2 {
            assert_eq!(view.read_at(member, round).1, u64::from(member) + 10 * round);
        }
        pace.heard_of(&view, round);
        view.set_finished(round + 1);
        view.wake();
    }
}

#[test]
fn two_members_swap_places() {
    check(2, 2, |view| swapped(view, 5));
}

/// One of two gives a number in each round, at a place that it hands over if it has one, otherwise by cell.
fn handed(view: View, writers: &[u32]) {
    let me = view.1;
    let (mut pace, mut swaps) = (Pace::new(me, 2), Swaps::new(me));
    for (&writer, round) in writers.iter().zip(0..) {
        if writer == me {
            view.wait_until(|| pace.has_room(&view, round));
            let signature = if swaps.has_one() {
                let (ring, at) = (swaps.hand_over(), Swaps::handed(PLACE));
                view.write_at(ring, at / (2 * PLACE), round, 10 + round);
                1
            } else {
                view.write(round, 10 + round);
                2
            };
            view.set_stamp(round, stamp(round, signature));
        } else {
            let handed = |pace: &Pace| pace.missing(&view, round, 1, pace.others()) == 0;
            view.wait_until(|| handed(&pace) || pace.missing(&view, round, 2, pace.others()) == 0);
            let value = if handed(&pace) {
                let (ring, value) = view.read_at(writer, round);
                swaps.take_over(ring);
                value
            } else {
                view.read(writer, round)
            };
            assert_eq!(value, 10 + round);
        }
        view.set_finished(round + 1);
        view.wake();
    }
}

#[test]
fn who_has_read_a_place_that_is_handed_over_may_write_it() {
    check(2, 2, |view| handed(view, &[0, 1, 0, 1]));
    check(2, 2, |view| handed(view, &[0, 0, 0, 1, 1, 1, 0]));
    check(1, 2, |view| handed(view, &[1, 1, 0, 0, 1]));
}

/// Rounds of two members in which each writes a block for the other where it has read last: contributions, of which some are answered by
/// results that are written where they lay, to both or to the root alone.
#[derive(Clone, Copy)]
enum Blocks {
    /// Contributions without results.
    Parts,
    /// Those of which results are made in the next round, for one member alone or for both.
    PartsOf(Option<u32>),
    Results(Option<u32>),
}

fn exchanged(view: View, calls: &[Blocks]) {
    /// Bytes of a place: of one block.
    const PLACE: usize = 128;
    let (me, other) = (view.1, 1 - view.1);
    let (mut pace, mut places) = (Pace::new(me, 2), Places::default());
    for (&call, round) in calls.iter().zip(0_u64..) {
        let (until, made_of, root) = match call {
            Blocks::Parts => (round, None, None),
            Blocks::PartsOf(root) => (round + 1, None, root),
            Blocks::Results(root) => (round, Some(round - 1), root),
        };
        let has_results = !matches!(call, Blocks::Parts);
        let one_way = if root == Some(other) { 1 << other } else { 0 };
        let returned = if has_results { 1 << other } else { 0 };
        let stays = matches!(call, Blocks::Parts | Blocks::PartsOf(None));
        let (is_shared, writers) = (false, 0b11);
        let what = Exchanged { read: round, until, made_of, returned, one_way, is_shared, writers, stays };
        assert!(made_of.is_some() || places.unread(what) <= round, "all that came before is read");
        let lent = if made_of.is_some() { 0 } else { places.lent(what) };
        view.wait_until(|| {
            pace.has_room(&view, round) && (lent == 0 || pace.has_room(&view, lent + View::CELLS - 1))
        });
        let place = places.begin(round, what, 1 << other);
        let is_result = made_of.is_some();
        if !is_result || root.is_none_or(|root| root == other) {
            // A line each: the number of the place and who gives it.
            let (ring, at, _) = place.given(me, other, PLACE);
            view.write_at(ring as usize, at / PLACE, round, u64::from(me) + 10 * round);
        }
        view.set_stamp(round, stamp(round, 7));
        if !is_result || root.is_none_or(|root| root == me) {
            view.wait_until(|| pace.missing(&view, round, 7, pace.others()) == 0);
            assert_eq!(view.read_at(other, round).1, u64::from(other) + 10 * round);
        }
        // Of what results are made of is needed until they are written.
        if !matches!(call, Blocks::PartsOf(_)) {
            view.set_finished(round + 1);
        }
        view.wake();
    }
}

#[test]
fn each_writes_its_blocks_where_it_has_read_last() {
    use Blocks::{Parts, PartsOf, Results};
    check(2, 2, |view| exchanged(view, &[Parts, Parts, Parts, Parts]));
    check(2, 2, |view| exchanged(view, &[PartsOf(None), Results(None), Parts, Parts]));
    check(2, 2, |view| exchanged(view, &[PartsOf(Some(0)), Results(Some(0)), Parts, Parts, Parts]));
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
