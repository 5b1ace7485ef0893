//! A lock that costs its usual holder no read-modify-write and no fence.
//!
//! After a thread has taken the lock several times in a row, the lock is *biased* to it: it goes in and out with plain stores to
//! a flag of its own. Everybody else goes through a mutex and, as long as the lock is biased to another thread, makes
//! that one stay outside by a heavy barrier (`membarrier`) first. The usual holder of a lane's lock sends messages while
//! it holds it; an unlock that is a read-modify-write would wait for the stores into the receiver's cache line each time,
//! which is a third of the price of a small message.
//!
//! # Protocol
//! ```text
//! owner, fast way in:   inside = 1; light barrier; wanted == 0 and owner == me ? in : (inside = 0; slow way)
//! owner, fast way out:  inside = 0 (Release)
//! slow way in:          lock the mutex; owner is null or me ? in : (wanted = 1; heavy barrier; wait for owner.inside == 0)
//! slow way out:         wanted = 0 (Release); unlock the mutex
//! without waiting:      try the mutex; owner is null or me ? in :
//!                       (wanted = 1; heavy barrier; owner.inside == 0 ? in : slow way out)
//! ```
//! `inside` belongs to the thread (one per lock in a [`Seat`]), `owner` and `wanted` to the lock. `owner` changes only on the
//! slow way, after the old owner was kept out.
//!
//! # Memory ordering
//! Dekker's pattern, made cheap for one side: take the instant at which the heavy barrier lets the fast thread pass a full
//! barrier. If its store to `inside` came before, the slow thread, which reads `inside` afterwards, waits. Otherwise its
//! loads come after, and see `wanted`; or see a `wanted` that the slow thread has taken back since (Acquire and Release), and
//! then also the `owner` that it left. The data are handed over by `inside` (Release, then Acquire by the slow thread) and by
//! `wanted` (Release, then Acquire by the fast thread); among slow threads by the mutex. A thread that was the owner and stalled
//! before its store to `inside` touches its own flag only, and finds on its second look that it is the owner no more. A flag
//! is used by one thread at a time: threads take and give back their seats under a mutex.
//!
//! A try that gives up has changed nothing but `wanted`, for a while: the owner, if it looks meanwhile, takes the slow way and
//! finds the mutex free again.
//!
//! `tests/loom_bias.rs` checks [`enter_fast`], [`leave_fast`], [`keep_out_others`], [`keep_out_others_now`] and [`let_in`] with
//! owners that change, and `tests/loom_handover.rs` work that is handed to the holder of such a lock.

use crate::layout::LANES;
use crate::sys;
use std::any::Any;
use std::cell::{RefCell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Locks that one thread can have fast ways into: a process's and those of its lanes.
pub const PLACES: usize = LANES as usize;
/// Turns in a row after which a lock is biased to a thread, at first.
const STREAK: u32 = 32;
/// And at most, after it has changed hands again and again.
const LONGEST_STREAK: u32 = 1 << 20;
/// Of so many tries to help with a lock that is biased to another thread, one keeps that thread out and helps: it may have gone
/// away with work undone.
const PASSES: u32 = 128;

/// What the fast and the slow way share, so that the model checker can stand in.
pub trait Words {
    /// The thread's flag.
    fn set_inside(&self, seat: usize, inside: bool);
    /// The flag of a thread (Acquire).
    fn is_inside(&self, seat: usize) -> bool;
    /// The thread to which the lock is biased, 0 for none (relaxed).
    fn owner(&self) -> usize;
    /// Whether the owner shall stay outside (Acquire).
    fn is_wanted(&self) -> bool;
    /// Sets that (Release).
    fn set_wanted(&self, wanted: bool);
    /// Holds back the compiler: the other side's barrier does the rest.
    fn light_barrier(&self);
    /// A full barrier here and in every other thread of the process.
    fn heavy_barrier(&self);
}

/// The fast way in. False: not the owner, or kept out.
#[inline(always)]
pub fn enter_fast(words: &impl Words, me: usize) -> bool {
    if words.owner() != me {
        return false;
    }
    words.set_inside(me, true);
    words.light_barrier();
    if !words.is_wanted() && words.owner() == me {
        return true;
    }
    words.set_inside(me, false);
    false
}

/// The fast way out.
#[inline(always)]
pub fn leave_fast(words: &impl Words, me: usize) {
    words.set_inside(me, false);
}

/// Keeps the owner, if it is another thread than `me`, out until [`let_in`]; whether there is one. The caller holds the lock's
/// mutex. `pause` is called while the owner is inside.
pub fn keep_out_others(words: &impl Words, me: usize, mut pause: impl FnMut()) -> bool {
    let owner = words.owner();
    if owner == 0 || owner == me {
        return false;
    }
    words.set_wanted(true);
    words.heavy_barrier();
    while words.is_inside(owner) {
        pause();
    }
    true
}

/// As [`keep_out_others`], without waiting: `None` when the owner is inside, and then nobody is kept out.
pub fn keep_out_others_now(words: &impl Words, me: usize) -> Option<bool> {
    let owner = words.owner();
    if owner == 0 || owner == me {
        return Some(false);
    }
    words.set_wanted(true);
    words.heavy_barrier();
    if words.is_inside(owner) {
        let_in(words);
        return None;
    }
    Some(true)
}

/// Ends [`keep_out_others`].
pub fn let_in(words: &impl Words) {
    words.set_wanted(false);
}

/// A thread's flags, by the place of the lock. Alone on its lines: its thread writes it all the time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Seat {
    inside: [AtomicBool; PLACES],
}

/// Seats of threads that have ended. Seats are never freed: a stale pointer to one is looked at, at worst.
static EMPTY_SEATS: Mutex<Vec<&'static Seat>> = Mutex::new(Vec::new());

/// The calling thread's seat, given back when it ends.
struct Taken {
    seat: &'static Seat,
    /// See [`Mine::attach`].
    attached: RefCell<Vec<Box<dyn Any>>>,
}

impl Taken {
    fn new() -> Taken {
        let empty = EMPTY_SEATS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Taken { seat: empty.unwrap_or_else(|| Box::leak(Box::default())), attached: RefCell::default() }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Whoever remembers this thread's `Mine` forgets it before another thread can get the seat.
        self.attached.take().clear();
        EMPTY_SEATS.lock().unwrap_or_else(PoisonError::into_inner).push(self.seat);
    }
}

thread_local! {
    static MINE: Taken = Taken::new();
}

/// The calling thread, as the locks know it. Whoever asks once saves the look into thread-local memory at every lock.
#[derive(Clone, Copy, Debug)]
pub struct Mine {
    seat: &'static Seat,
    /// Of this thread only.
    stays_here: PhantomData<*const ()>,
}

impl Mine {
    /// The calling thread; `None` when it is about to end and its thread-local memory is gone.
    ///
    /// # Safety
    /// It is not used any more once the thread drops what was attached to it ([`Mine::attach`]): from then on the seat may be
    /// another thread's.
    #[inline]
    pub unsafe fn get() -> Option<Mine> {
        MINE.try_with(|taken| Mine { seat: taken.seat, stays_here: PhantomData }).ok()
    }

    /// Gives this thread something to drop when it ends, before its seat may become another thread's.
    pub fn attach(self, what: Box<dyn Any>) {
        // It fails while the thread ends; then what is attached is dropped at once.
        let _ = MINE.try_with(|taken| taken.attached.borrow_mut().push(what));
    }

    #[inline(always)]
    fn address(self) -> usize {
        std::ptr::from_ref(self.seat).expose_provenance()
    }
}

/// The number of the calling thread, 0 when it is about to end: then it takes slow ways only.
#[inline]
fn me() -> usize {
    MINE.try_with(|taken| std::ptr::from_ref(taken.seat).expose_provenance()).unwrap_or(0)
}

/// The lock. See the module.
#[derive(Debug)]
pub struct BiasedLock<T> {
    owner: AtomicPtr<Seat>,
    wanted: AtomicBool,
    /// Which flag of a seat is this lock's.
    place: usize,
    /// Whether the kernel has the heavy barrier; otherwise the lock is a mutex.
    can_bias: bool,
    slow: Mutex<History>,
    passed: Passed,
    value: UnsafeCell<T>,
}

/// Tries to help that came to nothing; a hint, so a count that is lost does no harm. On lines of its own, which the owner does
/// not use.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Passed(AtomicU32);

// SAFETY: the protocol lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for BiasedLock<T> {}

/// Who took the slow way.
#[derive(Debug)]
struct History {
    /// The last one, and how often in a row.
    last: usize,
    streak: u32,
    /// The streak that biases the lock.
    needed: u32,
}

/// The value, locked.
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a BiasedLock<T>,
    /// The seat of a thread that came in on the fast way, 0 on the slow one.
    fast: usize,
    /// On the slow way: the mutex, and whether an owner is kept out. Dropped by hand, so that the fast way out is one store.
    slow: ManuallyDrop<Option<(MutexGuard<'a, History>, bool)>>,
}

/// The value, locked on the fast way: what [`Guard`] is, without the question which way it was.
#[derive(Debug)]
pub struct Own<'a, T> {
    lock: &'a BiasedLock<T>,
    me: usize,
}

impl<T> Deref for Own<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this exists only inside, where one thread is at a time.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Own<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Own<'_, T> {
    /// Unlocks: what dropping does, at the place of the call.
    #[inline(always)]
    pub fn end(self) {
        let own = ManuallyDrop::new(self);
        leave_fast(&own.lock.words(), own.me);
    }
}

impl<T> Drop for Own<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        leave_fast(&self.lock.words(), self.me);
    }
}

/// The words of a real lock.
struct Real<'a> {
    owner: &'a AtomicPtr<Seat>,
    wanted: &'a AtomicBool,
    place: usize,
}

impl Real<'_> {
    #[inline(always)]
    fn flag(&self, seat: usize) -> &AtomicBool {
        // SAFETY: seats are made by `Taken::new` and never freed; the number is the address of one. `BiasedLock::new` has checked
        // the place.
        unsafe { (*std::ptr::with_exposed_provenance::<Seat>(seat)).inside.get_unchecked(self.place) }
    }
}

impl Words for Real<'_> {
    #[inline(always)]
    fn set_inside(&self, seat: usize, inside: bool) {
        self.flag(seat).store(inside, Ordering::Release);
    }

    #[inline]
    fn is_inside(&self, seat: usize) -> bool {
        self.flag(seat).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn owner(&self) -> usize {
        self.owner.load(Ordering::Relaxed).addr()
    }

    #[inline(always)]
    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    fn set_wanted(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Release);
    }

    #[inline(always)]
    fn light_barrier(&self) {
        compiler_fence(Ordering::SeqCst);
    }

    fn heavy_barrier(&self) {
        // Our own store to `wanted` is ordered by the call, too. It cannot fail once it was registered.
        sys::membarrier_private();
    }
}

impl<T> BiasedLock<T> {
    /// An unlocked lock. A thread holds at most one lock of each `place` (below [`PLACES`]) at a time.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn new(value: T, place: usize) -> BiasedLock<T> {
        assert!(place < PLACES, "place {place} of {PLACES}");
        BiasedLock {
            owner: AtomicPtr::new(std::ptr::null_mut()),
            wanted: AtomicBool::new(false),
            place,
            can_bias: sys::membarrier_register_private(),
            slow: Mutex::new(History { last: 0, streak: 0, needed: STREAK }),
            passed: Passed::default(),
            value: UnsafeCell::new(value),
        }
    }

    #[inline(always)]
    fn words(&self) -> Real<'_> {
        Real { owner: &self.owner, wanted: &self.wanted, place: self.place }
    }

    #[inline]
    fn fast(&self, me: usize) -> Guard<'_, T> {
        Guard { lock: self, fast: me, slow: ManuallyDrop::new(None) }
    }

    fn slow<'a>(&'a self, history: MutexGuard<'a, History>, kept_out: bool) -> Guard<'a, T> {
        Guard { lock: self, fast: 0, slow: ManuallyDrop::new(Some((history, kept_out))) }
    }

    /// Locks for a call of the thread's own, which may make the lock its.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let me = me();
        if me != 0 && enter_fast(&self.words(), me) {
            return self.fast(me);
        }
        self.lock_slowly(me)
    }

    /// The value, for the thread to which the lock is biased; `None` to all others, and while it is kept out: they
    /// [`BiasedLock::lock`].
    #[inline(always)]
    pub fn own(&self, mine: Mine) -> Option<Own<'_, T>> {
        let me = mine.address();
        enter_fast(&self.words(), me).then_some(Own { lock: self, me })
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly(&self, me: usize) -> Guard<'_, T> {
        let mut history = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = self.words().owner();
        let kept_out = keep_out_others(&self.words(), me, std::thread::yield_now);
        if kept_out {
            // Two threads work with it: nobody's lock for a while.
            self.owner.store(std::ptr::null_mut(), Ordering::Relaxed);
            history.needed = history.needed.saturating_mul(2).min(LONGEST_STREAK);
        }
        history.streak = if history.last == me { history.streak.saturating_add(1) } else { 0 };
        history.last = me;
        if self.can_bias && me != 0 && owner == 0 && history.streak >= history.needed {
            self.owner.store(std::ptr::with_exposed_provenance_mut(me), Ordering::Relaxed);
        }
        self.slow(history, kept_out)
    }

    /// Locks to help those whose lock it is: it stays biased.
    pub fn lock_to_help(&self) -> Guard<'_, T> {
        self.help(self.slow.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn help<'a>(&'a self, history: MutexGuard<'a, History>) -> Guard<'a, T> {
        let kept_out = keep_out_others(&self.words(), me(), std::thread::yield_now);
        self.slow(history, kept_out)
    }

    /// As [`BiasedLock::lock_to_help`], unless somebody has the lock or, but for now and then, it is biased to another thread.
    pub fn try_lock_to_help(&self) -> Option<Guard<'_, T>> {
        let me = me();
        let owner = self.words().owner();
        if owner == me && me != 0 && enter_fast(&self.words(), me) {
            return Some(self.fast(me));
        }
        if owner != 0 {
            let passed = self.passed.0.load(Ordering::Relaxed).wrapping_add(1);
            self.passed.0.store(passed, Ordering::Relaxed);
            if !passed.is_multiple_of(PASSES) {
                return None;
            }
        }
        self.try_slowly()
    }

    /// As [`BiasedLock::lock_to_help`], for something short; unless it is `urgent`, `None` while it is biased to another thread.
    pub fn lock_to_push(&self, urgent: bool) -> Option<Guard<'_, T>> {
        let me = me();
        let owner = self.words().owner();
        if owner == me && me != 0 && enter_fast(&self.words(), me) {
            return Some(self.fast(me));
        }
        (urgent || owner == 0 || owner == me).then(|| self.lock_to_help())
    }

    /// As [`BiasedLock::lock_to_help`]; `None` when somebody else has come in on the slow way. Who has come in on the fast way
    /// is waited for.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let me = me();
        if me != 0 && enter_fast(&self.words(), me) {
            return Some(self.fast(me));
        }
        self.try_slowly()
    }

    /// As [`BiasedLock::try_lock`], and never waits: `None` also when the lock's owner has come in on the fast way, and when
    /// the calling thread is inside on the slow one. For calls that must end whatever other threads are doing.
    pub fn try_lock_now(&self) -> Option<Guard<'_, T>> {
        let me = me();
        if me != 0 && enter_fast(&self.words(), me) {
            return Some(self.fast(me));
        }
        let history = self.try_mutex()?;
        let kept_out = keep_out_others_now(&self.words(), me)?;
        Some(self.slow(history, kept_out))
    }

    fn try_slowly(&self) -> Option<Guard<'_, T>> {
        Some(self.help(self.try_mutex()?))
    }

    fn try_mutex(&self) -> Option<MutexGuard<'_, History>> {
        match self.slow.try_lock() {
            Ok(history) => Some(history),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a guard exists only inside, where one thread is at a time.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; the guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.fast != 0 {
            leave_fast(&self.lock.words(), self.fast);
        } else {
            self.leave_slowly();
        }
    }
}

impl<T> Guard<'_, T> {
    #[cold]
    #[inline(never)]
    fn leave_slowly(&mut self) {
        if let Some((history, kept_out)) = self.slow.take() {
            if kept_out {
                let_in(&self.lock.words());
            }
            drop(history);
        }
    }
}

#[cfg(test)]
impl<T> BiasedLock<T> {
    fn is_biased(&self) -> bool {
        !self.owner.load(Ordering::Relaxed).is_null()
    }
}

#[cfg(test)]
mod tests;
