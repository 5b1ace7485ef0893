//! Memory and sleep words for the model checker. Everything plain is a loom cell, so an access that the rules of the
//! ring do not order is reported as a race.
#![allow(dead_code, reason = "every model uses some of it")]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use weft_shm::bell::{Doorway, SleepWord};
use weft_shm::layout::RECORD_ALIGN;
use weft_shm::ring::RingMemory;
use weft_shm::shuttle::SHUTTLE;
use weft_shm::{bias, handover};

/// The word of a handover.
#[derive(Default)]
pub(crate) struct Announced(AtomicBool);

impl handover::Words for Announced {
    fn exchange(&self, announced: bool) -> bool {
        self.0.swap(announced, Ordering::AcqRel)
    }
    fn is_announced(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    fn barrier(&self) {
        fence(Ordering::SeqCst);
    }
}

/// The words of a biased lock.
pub(crate) struct Seats {
    inside: [AtomicBool; 3],
    owner: AtomicUsize,
    wanted: AtomicBool,
}

impl Seats {
    pub(crate) fn of(owner: usize) -> Seats {
        Seats { inside: Default::default(), owner: AtomicUsize::new(owner), wanted: AtomicBool::new(false) }
    }

    /// Under the lock, with its owner kept out.
    pub(crate) fn change_owner(&self, owner: usize) {
        self.owner.store(owner, Ordering::Relaxed);
    }
}

impl bias::Words for Seats {
    fn set_inside(&self, seat: usize, inside: bool) {
        self.inside[seat].store(inside, Ordering::Release);
    }
    fn is_inside(&self, seat: usize) -> bool {
        self.inside[seat].load(Ordering::Acquire)
    }
    fn owner(&self) -> usize {
        self.owner.load(Ordering::Relaxed)
    }
    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }
    fn set_wanted(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Release);
    }
    // A barrier in every thread at one instant is not in loom's language; fences on both sides are what it amounts to.
    fn light_barrier(&self) {
        fence(Ordering::SeqCst);
    }
    fn heavy_barrier(&self) {
        fence(Ordering::SeqCst);
    }
}

struct Inner {
    stamps: Vec<AtomicU64>,
    /// Per cell: the value sent and the record's place.
    cells: Vec<UnsafeCell<(u32, u32, u32)>>,
    /// One value for each line of the data area.
    lines: Vec<UnsafeCell<u32>>,
    heads: AtomicU64,
    wants_room: AtomicBool,
    shuttle: Arc<Line>,
}

/// The line that two rings share: a stamp, and what a cell has.
#[derive(Default)]
pub(crate) struct Line {
    stamp: AtomicU64,
    cell: UnsafeCell<(u32, u32, u32)>,
}

// SAFETY: loom reports every access that is not ordered.
unsafe impl Sync for Line {}
// SAFETY: as above.
unsafe impl Send for Line {}

/// A small ring that both ends share.
#[derive(Clone)]
pub(crate) struct Model(Arc<Inner>);

impl Model {
    pub(crate) fn new(cells: u32, lines: u32) -> Model {
        Model::sharing(cells, lines, &Arc::default())
    }

    /// As [`Model::new`], with a shuttle that another ring may have, too.
    pub(crate) fn sharing(cells: u32, lines: u32, shuttle: &Arc<Line>) -> Model {
        Model(Arc::new(Inner {
            stamps: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            cells: (0..cells).map(|_| UnsafeCell::new((0, 0, 0))).collect(),
            lines: (0..lines).map(|_| UnsafeCell::new(0)).collect(),
            heads: AtomicU64::new(0),
            wants_room: AtomicBool::new(false),
            shuttle: Arc::clone(shuttle),
        }))
    }

    fn cell(&self, cell: u32) -> &UnsafeCell<(u32, u32, u32)> {
        if cell == SHUTTLE { &self.0.shuttle.cell } else { &self.0.cells[cell as usize] }
    }

    /// Writes a cell, and the lines of its record.
    pub(crate) fn write(&self, cell: u32, value: u32, offset: u32, end: u32, record: u32) {
        // SAFETY: loom reports the race when somebody else may access the cell or a line now.
        self.cell(cell).with_mut(|to| unsafe { *to = (value, offset, end) });
        for line in 0..record / RECORD_ALIGN {
            // SAFETY: as above.
            self.0.lines[(offset / RECORD_ALIGN + line) as usize].with_mut(|to| unsafe { *to = value });
        }
    }

    /// Reads a cell's value after checking that its record carries the same.
    pub(crate) fn read(&self, cell: u32, record: u32) -> u32 {
        // SAFETY: as in `write`.
        let (value, offset, _) = self.cell(cell).with(|from| unsafe { *from });
        for line in 0..record / RECORD_ALIGN {
            // SAFETY: as in `write`.
            let found = self.0.lines[(offset / RECORD_ALIGN + line) as usize].with(|from| unsafe { *from });
            assert_eq!(found, value);
        }
        value
    }
}

impl RingMemory for Model {
    fn stamp(&self, cell: u32) -> u64 {
        self.0.stamps[cell as usize].load(Ordering::Acquire)
    }

    fn shuttle_stamp(&self) -> u64 {
        self.0.shuttle.stamp.load(Ordering::Acquire)
    }

    fn set_shuttle_stamp(&self, stamp: u64) {
        self.0.shuttle.stamp.store(stamp, Ordering::Release);
    }

    fn set_stamp(&self, cell: u32, stamp: u64) {
        self.0.stamps[cell as usize].store(stamp, Ordering::Release);
    }

    fn heads(&self) -> u64 {
        self.0.heads.load(Ordering::Acquire)
    }

    fn set_heads(&self, heads: u64) {
        self.0.heads.store(heads, Ordering::Release);
    }

    /// What the sleeper's membarrier makes of the light barrier, at the place where it takes effect.
    fn light_barrier(&self) {
        fence(Ordering::SeqCst);
    }

    fn wants_room(&self) -> bool {
        self.0.wants_room.load(Ordering::Relaxed)
    }

    fn set_wants_room(&self, wants: bool) {
        self.0.wants_room.store(wants, Ordering::Relaxed);
    }

    fn record(&self, cell: u32) -> (u32, u32) {
        // SAFETY: as in `write`.
        let (_, offset, end) = self.cell(cell).with(|from| unsafe { *from });
        (offset, end)
    }

    fn own(&self, offset: u32, len: usize) {
        for line in 0..(len as u32).div_ceil(RECORD_ALIGN) {
            // SAFETY: as in `write`.
            self.0.lines[(offset / RECORD_ALIGN + line) as usize].with_mut(|to| unsafe { *to = 0 });
        }
    }

    fn grow(&mut self, limit: u32, at_least: u32) -> u32 {
        let all = self.0.lines.len() as u32 * RECORD_ALIGN;
        if at_least <= all { all } else { limit }
    }
}

/// A sleep word with a futex made of a lock and a condition.
pub(crate) struct Door {
    word: AtomicU32,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Door {
    pub(crate) fn new() -> Arc<Door> {
        Arc::new(Door { word: AtomicU32::new(0), lock: Mutex::new(()), woken: Condvar::new() })
    }

    /// As `futex(FUTEX_WAIT)` without a limit: a lost wake-up is a deadlock, which loom reports.
    pub(crate) fn wait(&self, value: u32) {
        let guard = self.lock.lock().unwrap();
        if self.word.load(Ordering::SeqCst) == value {
            drop(self.woken.wait(guard).unwrap());
        }
    }
}

impl SleepWord for Door {
    fn load(&self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }

    fn swap_if(&self, current: u32, new: u32) -> Result<(), u32> {
        self.word.compare_exchange(current, new, Ordering::SeqCst, Ordering::Relaxed).map(|_| ())
    }

    fn wake_all(&self) {
        let _guard = self.lock.lock().unwrap();
        self.woken.notify_all();
    }
}

/// The sleep words of a process with two lanes, with a futex made of a lock and a condition.
pub(crate) struct Doors {
    words: [AtomicU32; 2],
    wakes: AtomicU32,
    lock: Mutex<()>,
    woken: Condvar,
}

/// The sleep word of a lane.
pub(crate) struct LaneDoor<'a> {
    doors: &'a Doors,
    lane: u32,
}

impl Doors {
    pub(crate) fn new() -> Arc<Doors> {
        Arc::new(Doors {
            words: Default::default(),
            wakes: AtomicU32::new(0),
            lock: Mutex::new(()),
            woken: Condvar::new(),
        })
    }

    /// Whether no thread is counted in any lane.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| !weft_shm::bell::needs_attention(word.load(Ordering::SeqCst)))
    }
}

impl Doorway for Doors {
    type Word<'a> = LaneDoor<'a>;

    fn door(&self, lane: u32) -> LaneDoor<'_> {
        LaneDoor { doors: self, lane }
    }

    fn wakes(&self) -> u32 {
        self.wakes.load(Ordering::SeqCst)
    }

    /// Without a limit, and for any ring: who was rung for a lane of others looks at the count again, and sleeps on.
    fn wait(&self, wakes: u32, _: u32, _: Duration) {
        let guard = self.lock.lock().unwrap();
        if self.wakes.load(Ordering::SeqCst) == wakes {
            drop(self.woken.wait(guard).unwrap());
        }
    }
}

impl SleepWord for LaneDoor<'_> {
    fn load(&self) -> u32 {
        self.doors.words[self.lane as usize].load(Ordering::Relaxed)
    }

    fn swap_if(&self, current: u32, new: u32) -> Result<(), u32> {
        let word = &self.doors.words[self.lane as usize];
        word.compare_exchange(current, new, Ordering::SeqCst, Ordering::Relaxed).map(|_| ())
    }

    fn wake_all(&self) {
        self.doors.wakes.fetch_add(1, Ordering::SeqCst);
        let _guard = self.doors.lock.lock().unwrap();
        self.doors.woken.notify_all();
    }
}

/// The sleeper's heavy barrier.
pub(crate) fn heavy_barrier() {
    fence(Ordering::SeqCst);
}
