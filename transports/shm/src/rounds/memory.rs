//! Flags and payloads in shared memory: the unsafe half of [`super`].
//!
//! Stamps and counts are atomics. Payloads are plain memory, written and read only by whom rules A and B allow at that
//! moment; that is the argument of every block here.

mod views;

pub use views::{Exchange, Payloads};

use super::distance::{Distance, Writing};
use super::exchange::{Exchanged, Place, Places, block_bytes};
use super::laps::{Home, Laps, Sort, wanted_slot_bytes};
use super::{CELLS, IN_CELL, Members, Wakes, Words, leaving};
use crate::bell::{Doors, needs_attention};
use crate::pool::{Block, Pool};
use crate::segment::Segment;
use crate::{demote, fetch, sys};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

/// Bytes of the longest payload that is demoted: longer ones take longer to demote than to fetch from the writer's cache (8 KiB 1.16
/// instead of 1.11 us, 16 KiB 2.7 instead of 2.0). What one member writes alone may come one after the other, and demoting takes longer
/// than writing: bare program, 1 KiB .33 instead of .14 us.
const MOST_DEMOTED: usize = 4096;

/// A round that no member gets to.
const NEVER: u64 = u64::MAX / 4;

/// The beginning of a block of cells.
#[repr(C, align(128))]
struct Head {
    /// Members that have given their share back.
    returned: AtomicU32,
    /// Members that have joined, one bit each.
    joined: AtomicU64,
    /// Why members leave before the end of the communicator, those that have, and the first call that goes another way: see
    /// [`leaving`].
    cause: AtomicU64,
    gone: AtomicU64,
    end: AtomicU64,
}

/// One round of a member.
#[repr(C, align(128))]
struct Cell {
    stamp: AtomicU64,
    /// Where a long payload begins in the rings. Written before the stamp.
    at: AtomicU64,
    payload: UnsafeCell<[u8; IN_CELL]>,
}

/// How far a member is; written by it alone.
#[repr(C, align(128))]
struct Course {
    finished: AtomicU64,
    /// Where it runs, one more; 0: not said.
    processor: AtomicU32,
    /// The calls that it has begun.
    begun: AtomicU32,
    /// The core to which it is bound, one more; 0: none, or not said.
    seat: AtomicU32,
}

/// What one member writes.
#[repr(C)]
struct Area {
    course: Course,
    cells: [Cell; CELLS as usize],
}

const _: () = assert!(size_of::<Cell>() == 128 && size_of::<Area>() == 128 * (1 + CELLS as usize));

/// The memory of one communicator as one member sees it.
#[derive(Debug)]
pub(super) struct Memory {
    areas: NonNull<Area>,
    /// The slots; dangling while there are none.
    slots: Option<NonNull<u8>>,
    me: u32,
    members: u32,
    /// The rounds that this member has finished.
    finished: u64,
    /// Where its long payloads go; the rings of all members are alike.
    laps: Laps,
    /// Where what it exchanges block by block goes.
    places: Places,
    /// Whether what another one reads next is demoted: between two members with cores of their own, where that was measured.
    demotes: bool,
    /// Bytes of the long payload that is demoted with the next stamp.
    fresh: usize,
    wakes: Wakes,
    /// By member: its process's sleep words, which live as long as `segment`.
    doors: Box<[NonNull<Doors>]>,
    blocks: (Block, Option<Block>),
    pool: Arc<Pool>,
    _segment: Arc<Segment>,
}

// SAFETY: the pointers lead into mappings that `pool` and `_segment` keep; they are shared between processes anyway, and `&mut`
// keeps this member's part to one thread at a time.
unsafe impl Send for Memory {}

impl Memory {
    pub(super) fn cells_bytes(members: u32) -> u64 {
        (size_of::<Head>() + members as usize * size_of::<Area>()) as u64
    }

    /// Makes a block that others used before look new; nobody else knows it yet.
    pub(super) fn clear(pool: &Pool, block: Block, members: u32) {
        // SAFETY: the block was taken with this many bytes and nobody else uses it; zeroes are valid for all of it.
        unsafe { pool.at(block).write_bytes(0, Memory::cells_bytes(members) as usize) };
    }

    pub(super) fn new(
        segment: &Arc<Segment>,
        pool: &Arc<Pool>,
        block: Block,
        members: &Members,
        wakes: Wakes,
    ) -> Memory {
        let count = members.locals.len() as u32;
        // SAFETY: `block` has room for the head and the areas (its maker took it so, and words of others are checked).
        let areas = unsafe { NonNull::new_unchecked(pool.at(block).add(size_of::<Head>())) };
        Memory {
            areas: areas.cast(),
            slots: None,
            me: members.me,
            members: count,
            finished: 0,
            laps: Laps::new(count, 0, wakes.crowded).seen_by(members.me),
            places: Places::default(),
            demotes: count == 2 && !wakes.crowded && demote::is_there(),
            fresh: 0,
            wakes,
            doors: members.locals.iter().map(|&local| NonNull::from(&segment.slot(local).doors)).collect(),
            blocks: (block, None),
            pool: Arc::clone(pool),
            _segment: Arc::clone(segment),
        }
    }

    pub(super) fn join_in(&self, calls: u32) {
        leaving::Words::set_begun(self, calls);
        self.head().joined.fetch_or(1 << self.me, Ordering::Release);
    }

    pub(super) fn say_seat(&self, seat: u32) {
        self.course(self.me).seat.store(seat, Ordering::Relaxed);
    }

    pub(super) fn seats(&self) -> Vec<u32> {
        (0..self.members).map(|member| self.course(member).seat.load(Ordering::Relaxed)).collect()
    }

    pub(super) fn joined(&self) -> u64 {
        self.head().joined.load(Ordering::Acquire)
    }

    /// Nobody needs to wait until this member has finished any round.
    pub(super) fn stand_aside(&self) {
        self.set_finished(u64::MAX / 2);
    }

    pub(super) fn add_slots(&mut self, block: Block) {
        assert!(self.slots.is_none(), "slots are added once");
        self.slots = NonNull::new(self.pool.at(block));
        self.laps = Laps::new(self.members, self.pool.bytes(block), self.wakes.crowded).seen_by(self.me);
        self.blocks.1 = Some(block);
    }

    #[inline]
    pub(super) fn has_slots(&self) -> bool {
        self.slots.is_some()
    }

    /// Bytes of the longest payload of a call that nobody may attend to; without slots of one that there may be.
    #[inline]
    pub(super) fn slot_bytes(&self) -> usize {
        if self.slots.is_some() { self.laps.slot_bytes() } else { wanted_slot_bytes(self.members, false) }
    }

    /// The same of an attended call.
    #[inline]
    pub(super) fn attended_slot_bytes(&self) -> usize {
        if self.slots.is_some() { self.laps.attended() } else { wanted_slot_bytes(self.members, false) }
    }

    /// The same of an attended call in two phases.
    #[inline]
    pub(super) fn slot_bytes_in_two_phases(&self) -> usize {
        if self.slots.is_some() { self.laps.in_two_phases() } else { wanted_slot_bytes(self.members, false) }
    }

    /// Bytes of the longest payload for the own core; 0: there is no room for such.
    #[inline]
    pub(super) fn near_bytes(&self) -> usize {
        if self.slots.is_some() { self.laps.near_bytes() } else { 0 }
    }

    /// Bytes of a block that so many of more than two exchange; 0: there are none.
    #[inline]
    pub(super) fn block_bytes(&self, writers: u32) -> usize {
        if self.slots.is_some() { block_bytes(self.laps.exchanged().1, writers as usize) } else { 0 }
    }

    /// As [`Memory::reach`] for blocks that are exchanged: who writes them has read what lay there.
    pub(super) fn reach_of_blocks(&self, round: u64, what: Exchanged) -> u64 {
        match what.made_of {
            Some(_) => round,
            None if self.places.unread(what) > what.read => NEVER,
            // All others have finished the rounds below `lent`.
            None => match self.places.lent(what) {
                0 => round,
                lent => round.max(lent + CELLS - 1),
            },
        }
    }

    /// A round in which this member exchanges nothing.
    pub(super) fn pass_blocks(&mut self, round: u64, what: Exchanged) {
        let others = ((1 << self.members) - 1) & !(1 << self.me);
        self.places.begin(round, what, others);
    }

    /// The blocks that this member writes in a round for which the caller has found room.
    pub(super) fn exchange<'a>(
        &'a mut self,
        round: u64,
        what: Exchanged,
        distance: &'a mut Distance,
    ) -> Exchange<'a> {
        let others = ((1 << self.members) - 1) & !(1 << self.me);
        let place = self.places.begin(round, what, others);
        self.at_word(self.me, round).store(place.word(), Ordering::Relaxed);
        let one_way = if what.made_of.is_none() { what.one_way } else { 0 };
        let far = if one_way != 0 { one_way & self.elsewhere() } else { 0 };
        Exchange { memory: self, distance, place, far, writing: Writing::USUAL, made_of: what.made_of }
    }

    /// Where `len` bytes of the block lie that one member gives to another at a place.
    fn block(&self, place: Place, from: u32, to: u32, len: usize) -> *mut u8 {
        let (begin, bytes) = self.laps.exchanged();
        assert!(from < self.members && to < self.members, "a block of another");
        let (ring, at, block) = place.given(from, to, bytes);
        assert!(len <= block && at % bytes + len <= bytes, "a block that is not that long");
        let slots = self.slots.expect("blocks only where there are slots");
        // SAFETY: the block of slots has a ring for each member, with the blocks of all places behind `begin` of each; whatever another process says of
        // a place, the number of this one is one of those, and the block lies in it, as just checked.
        unsafe { slots.as_ptr().add(ring as usize * self.laps.ring() + begin + at) }
    }

    /// What a long payload is to the one who writes it.
    #[inline]
    pub(super) fn home(&self, len: usize, sort: Sort) -> Home {
        self.laps.home(len, sort)
    }

    /// Whether this member has written where that would go now.
    #[inline]
    pub(super) fn is_worn(&self, len: usize, sort: Sort) -> bool {
        self.laps.is_worn(len, sort)
    }

    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.wakes.crowded
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: the block begins with a head, all atomics, and the areas follow.
        unsafe { &*self.areas.as_ptr().cast::<Head>().sub(1) }
    }

    #[inline]
    fn area(&self, member: u32) -> *mut Area {
        debug_assert!(member < self.members);
        // SAFETY: callers name members, whose areas lie in the block.
        unsafe { self.areas.as_ptr().add(member as usize) }
    }

    #[inline]
    fn course(&self, member: u32) -> &Course {
        // SAFETY: mapped while `self` lives; all atomics.
        unsafe { &(*self.area(member)).course }
    }

    #[inline]
    fn cell(&self, member: u32, round: u64) -> *mut Cell {
        // SAFETY: the index is below the number of cells.
        unsafe { &raw mut (*self.area(member)).cells[(round % CELLS) as usize] }
    }

    #[inline]
    fn stamp_word(&self, member: u32, round: u64) -> &AtomicU64 {
        // SAFETY: mapped while `self` lives; stamps are touched as atomics only.
        unsafe { &(*self.cell(member, round)).stamp }
    }

    /// Where a payload of `len` bytes lies; nowhere when it cannot be that long, or its writer says that it lies elsewhere.
    #[inline]
    fn place(&self, member: u32, round: u64, long: bool, len: usize) -> Option<*mut u8> {
        if !long {
            // SAFETY: mapped while `self` lives; only the address is taken.
            return (len <= IN_CELL).then(|| unsafe { (*self.cell(member, round)).payload.get().cast() });
        }
        let (slots, rings) = (self.slots?, self.members as usize * self.laps.ring());
        // Another process wrote it.
        let at = self.at_word(member, round).load(Ordering::Relaxed);
        if len > rings || at > (rings - len) as u64 {
            return None;
        }
        // SAFETY: the block has a ring for each member, in one of which the payload lies.
        Some(unsafe { slots.as_ptr().add(at as usize) })
    }

    #[inline]
    fn at_word(&self, member: u32, round: u64) -> &AtomicU64 {
        // SAFETY: mapped while `self` lives; touched as an atomic only.
        unsafe { &(*self.cell(member, round)).at }
    }

    /// The round of which the own cell must be free so that the payload of `round` may be written. `long`: the bytes of a long
    /// one, otherwise 0.
    #[inline(always)]
    pub(super) fn reach(&self, round: u64, long: usize, sort: Sort) -> u64 {
        if long == 0 { round } else { self.reach_of_long(round, long, sort) }
    }

    /// Not inside the callers: the shortest calls go without it.
    #[inline(never)]
    fn reach_of_long(&self, round: u64, long: usize, sort: Sort) -> u64 {
        // Everybody must have read what lies there, as what lies in the cell.
        match self.laps.displaces(long, sort) {
            None => round,
            // Nor does this member write over what it may still read itself.
            Some(before) if before >= self.finished => NEVER,
            Some(before) => round.max(before + CELLS),
        }
    }

    /// The own payload of a round for which the caller has found room (rule B), in its cell.
    #[inline(always)]
    pub(super) fn room_in_cell(&mut self, round: u64) -> (&mut [u8], Payloads<'_>) {
        // SAFETY: mapped while `self` lives; only the address is taken.
        let place = unsafe { (*self.cell(self.me, round)).payload.get() };
        // SAFETY: rule B: nobody reads the cell until it is published; `&mut self` keeps other threads away, and the view of payloads
        // leaves out this one.
        (unsafe { &mut *place }, Payloads { memory: self, but: Some(round % CELLS) })
    }

    /// The same of a long one, in a ring.
    #[inline(never)]
    pub(super) fn long_room(&mut self, round: u64, len: usize, sort: Sort) -> (&mut [u8], Payloads<'_>) {
        assert!(len <= self.laps.most(), "a payload that is longer than any");
        if self.demotes && len <= MOST_DEMOTED && self.home(len, sort) == Home::Swapped {
            self.fresh = len;
        }
        let at = self.laps.place(self.me, round, len, sort);
        self.at_word(self.me, round).store(at as u64, Ordering::Relaxed);
        let place = self.place(self.me, round, true, len).expect("long payloads only where there are slots");
        // SAFETY: rule B as above: in the rings nobody else writes there, since both count the places that go to and fro alike, and who
        // has one that is handed over has read what lies there.
        let room = unsafe { std::slice::from_raw_parts_mut(place, len) };
        (room, Payloads { memory: self, but: Some(round % CELLS) })
    }

    #[inline]
    pub(super) fn payloads(&self) -> Payloads<'_> {
        Payloads { memory: self, but: None }
    }

    #[inline(always)]
    pub(super) fn publish(&mut self, round: u64, stamp: u64) {
        self.set_stamp(round, stamp);
        if self.demotes {
            self.demote(round);
        }
    }

    /// Demotes the payload that was published in a round, and the stamp.
    #[inline(never)]
    fn demote(&mut self, round: u64) {
        demote::lines(self.cell(self.me, round).cast(), size_of::<Cell>());
        if self.fresh != 0 {
            if let Some(place) = self.place(self.me, round, true, self.fresh) {
                demote::lines(place, self.fresh);
            }
            self.fresh = 0;
        }
    }

    #[inline]
    pub(super) fn finish(&mut self, rounds: u64) {
        self.finished = rounds;
        self.set_finished(rounds);
    }

    #[inline]
    fn light_barrier(&self) {
        if self.wakes.fenced { fence(Ordering::SeqCst) } else { compiler_fence(Ordering::SeqCst) }
    }

    #[inline]
    pub(super) fn wake(&self, of: u64) {
        self.light_barrier();
        let mut left = of;
        while left != 0 {
            let member = left.trailing_zeros();
            left &= left - 1;
            // SAFETY: see the field; the bits are members'.
            let doors = unsafe { self.doors[member as usize].as_ref() };
            if needs_attention(doors.word(0).load(Ordering::Relaxed)) {
                doors.ring(0);
            }
        }
    }

    #[inline]
    pub(super) fn fetch(&self, round: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch reads nothing and may be given any address.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) self.cell(self.me, round), options(nostack, preserves_flags));
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = round;
    }

    #[inline]
    pub(super) fn expect(&self, of: u64, round: u64) {
        let mut left = of;
        while left != 0 {
            let member = left.trailing_zeros();
            left &= left - 1;
            fetch::line(self.cell(member, round).cast());
        }
    }

    pub(super) fn makes_way(&self, of: u64, behind_too: bool) -> bool {
        let here = self.here();
        let runs_here = |member: u32| self.course(member).processor.load(Ordering::Relaxed) == here;
        let of = of & !(1 << self.me);
        if (0..self.members).filter(|member| of >> member & 1 == 1).any(runs_here) {
            return true;
        }
        // A count that is behind the times costs a change of processes, no more.
        let mut others = (0..self.members).filter(|&member| behind_too && member != self.me);
        others.any(|member| runs_here(member) && self.finished(member) < self.finished)
    }

    /// The others that were not last seen on this processor, one bit each.
    pub(super) fn elsewhere(&self) -> u64 {
        let here = self.here();
        let is_elsewhere = |&member: &u32| self.course(member).processor.load(Ordering::Relaxed) != here;
        (0..self.members).filter(is_elsewhere).fold(0, |all, member| all | 1 << member)
    }

    /// Tells where this member runs.
    fn here(&self) -> u32 {
        let here = sys::processor() + 1;
        let own = &self.course(self.me).processor;
        if own.load(Ordering::Relaxed) != here {
            own.store(here, Ordering::Relaxed);
        }
        here
    }
}

impl Words for Memory {
    #[inline]
    fn stamp(&self, member: u32, round: u64) -> u64 {
        self.stamp_word(member, round).load(Ordering::Acquire)
    }

    #[inline]
    fn set_stamp(&self, round: u64, stamp: u64) {
        self.stamp_word(self.me, round).store(stamp, Ordering::Release);
    }

    #[inline]
    fn finished(&self, member: u32) -> u64 {
        self.course(member).finished.load(Ordering::Acquire)
    }

    #[inline]
    fn set_finished(&self, rounds: u64) {
        self.course(self.me).finished.store(rounds, Ordering::Release);
    }
}

impl leaving::Words for Memory {
    #[inline]
    fn set_begun(&self, calls: u32) {
        self.course(self.me).begun.store(calls, Ordering::Relaxed);
    }

    fn begun(&self, member: u32) -> u32 {
        self.course(member).begun.load(Ordering::Relaxed)
    }

    #[inline]
    fn light_barrier(&self) {
        Memory::light_barrier(self);
    }

    fn heavy_barrier(&self) {
        // Where the kernel has none all members' light barriers are fences; who alone may not ask for it joins no cells
        // (`Shm::is_blind`).
        sys::membarrier();
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn cause(&self) -> u64 {
        self.head().cause.load(Ordering::Acquire)
    }

    fn set_cause(&self, cause: u64) {
        // Whoever was first is right.
        let _ = self.head().cause.compare_exchange(0, cause, Ordering::AcqRel, Ordering::Acquire);
    }

    fn end(&self) -> u64 {
        self.head().end.load(Ordering::Acquire)
    }

    fn set_end(&self, end: u64) -> u64 {
        match self.head().end.compare_exchange(0, end, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => end,
            Err(known) => known,
        }
    }

    fn gone(&self) -> u64 {
        self.head().gone.load(Ordering::Acquire)
    }

    fn go(&self) {
        self.head().gone.fetch_or(1 << self.me, Ordering::Release);
    }
}

impl Drop for Memory {
    /// The last member to leave gives the blocks back: by then nobody reads or writes them any more.
    fn drop(&mut self) {
        if self.head().returned.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            self.pool.give_back(self.blocks.0);
            if let Some(slots) = self.blocks.1 {
                self.pool.give_back(slots);
            }
        }
    }
}
