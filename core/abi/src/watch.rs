//! The watchdog's part in a rank: a call that has been blocked for long says what it waits for.
//!
//! A blocked call carries a [`Wait`], which is two words and is looked at for the first time when the call goes to sleep. Then
//! it costs a look at the clock a nap, also when the watchdog is off: after a second whoever is needed is met, so that its end
//! is noticed. Only when the call has been blocked for the whole period is anything told.
//!
//! What is told is a proof, not an impression: `from` is the last time something moved here, `until` the beginning of the last
//! complete look at everything that found nothing. See `weft_boot::stall` and the launcher's search for deadlocks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use weft::Process;
use weft::buffered::Content;
use weft::construct::Construction;
use weft::lanes::request_handle;
use weft::stall::Awaited as Described;
use weft_boot::stall::{self, Blocked};
use weft_engine::{RequestId, Selector};
use weft_types::params::Watchdog;
use weft_types::{Handle, PeerId};

use crate::ctypes::{MPI_Request, MPI_Win};
use crate::gate;

/// Nanoseconds after which a blocked call tells; 0: never.
static PERIOD: AtomicU64 = AtomicU64::new(0);
/// Whether this process prints for itself when no launcher listens.
static PRINTS: AtomicBool = AtomicBool::new(false);
/// The calls of this process that have told. Taken only while the process is lent.
static TOLD: Mutex<Vec<Told>> = Mutex::new(Vec::new());

/// The period when nobody asked for one.
const QUIET_PERIOD: u64 = 30_000_000_000;

/// A thread leaves lanes to the others that are blocked in them, so that what one of several threads has looked at is everything
/// only some time later; they take milliseconds.
const LOOKED_BY_OTHERS: u64 = 500_000_000;

struct Told {
    /// The wait's address, which is unique while it lives.
    wait: usize,
    from: u64,
    until: u64,
    call: Blocked,
}

/// What a blocked call waits for, as it is at hand.
pub(crate) enum Awaited<'a> {
    /// Something not described.
    Something,
    /// The request of the operation that the call itself is.
    Own(RequestId),
    /// One request of the program.
    One(Handle),
    /// Two requests.
    Both(Handle, Handle),
    /// All of an array.
    All(&'a [MPI_Request]),
    /// Any of an array.
    Any(&'a [MPI_Request]),
    /// A message.
    Probe(Selector),
    /// A communicator, made from a parent.
    Construction(&'a RefCell<Construction>, Handle),
    /// Answers of a target of a window, or of all.
    Window(MPI_Win, Option<u32>),
    /// Exposure epochs of these targets.
    Posts(MPI_Win, &'a BTreeSet<u32>),
    /// The end of access epochs to the own window.
    Completes(MPI_Win),
    /// A collective by shared memory.
    /// Set with the members that have to go on first, one bit each.
    Rounds(Handle, &'a Cell<u64>),
    /// What an attached buffer holds.
    Flush(Content),
    /// The end of everything under way on a communicator.
    OnComm(Handle),
    /// The end of what is under way in a session.
    OfSession(Handle),
    /// The end of everything under way.
    Quiet,
}

impl Awaited<'_> {
    /// Shows all requests it waits for; false when it waits for something else.
    pub(crate) fn each_request(&self, mut show: impl FnMut(Handle)) -> bool {
        match self {
            Awaited::Own(request) => show(request_handle(*request)),
            Awaited::One(request) => show(*request),
            Awaited::Both(one, other) => [*one, *other].into_iter().for_each(show),
            Awaited::All(requests) | Awaited::Any(requests) => {
                requests.iter().for_each(|request| show(request.handle()));
            }
            _ => return false,
        }
        true
    }
}

/// Nanoseconds that a call sleeps before the ends of those that it waits for are looked after.
const MINDS: u64 = 1_000_000_000;
/// Most of them: a call that waits for each of more processes hears of the first that is lost.
const MOST_MINDED: usize = 64;

/// One blocked call as the watchdog sees it.
pub(crate) struct Wait<'a> {
    /// The procedure, as far as the waiting place knows it.
    call: &'static str,
    awaited: Awaited<'a>,
    moved: Cell<bool>,
    nap: Cell<Option<Box<Nap>>>,
}

/// What is known of a call that sleeps.
struct Nap {
    since: u64,
    /// When something last moved.
    from: u64,
    /// When the last sleep ended: everything was looked at after that.
    looked: u64,
    /// When to see to it that the ends of those that are waited for are noticed.
    minds: u64,
    /// When to tell next.
    next: u64,
    /// When to print next.
    prints: u64,
    told: bool,
}

impl<'a> Wait<'a> {
    #[inline]
    pub(crate) fn new(call: &'static str, awaited: Awaited<'a>) -> Wait<'a> {
        Wait { call, awaited, moved: Cell::new(false), nap: Cell::new(None) }
    }

    /// What the call waits for.
    pub(crate) fn awaited(&self) -> &Awaited<'a> {
        &self.awaited
    }

    /// Something moved in this process.
    #[inline]
    pub(crate) fn moved(&self) {
        self.moved.set(true);
    }

    /// The call is about to sleep; it has looked at everything since [`Wait::awake`] and found nothing to go on with.
    pub(crate) fn before_sleep(&self) {
        let period = PERIOD.load(Ordering::Relaxed);
        let now = stall::now();
        let mut nap = self.nap.take().unwrap_or_else(|| {
            let first = now + period;
            let minds = now + MINDS;
            Box::new(Nap { since: now, from: now, looked: 0, minds, next: first, prints: first, told: false })
        });
        if self.moved.replace(false) {
            nap.from = now;
        }
        if now >= nap.minds {
            nap.minds = u64::MAX;
            self.mind_the_needed(nap.since);
        }
        if period != 0 && now >= nap.next && nap.looked > nap.from {
            nap.next = now + period;
            self.tell(&mut nap, now);
        }
        self.nap.set(Some(nap));
    }

    /// The sleep is over.
    pub(crate) fn awake(&self) {
        if let Some(mut nap) = self.nap.take() {
            nap.looked = stall::now();
            self.nap.set(Some(nap));
        }
    }

    /// The ways to the processes that the call waits for are made, so that their ends are noticed: nothing may ever have been
    /// sent there.
    #[cold]
    fn mind_the_needed(&self, since: u64) {
        gate::with(|process| {
            let call = process.describe(self.call, &self.described(process), since);
            let needed = call.needs.iter().filter(|ranks| ranks.len() == 1).flat_map(stall::Ranks::iter);
            needed.take(MOST_MINDED).for_each(|rank| process.engine.mind(PeerId(rank)));
        });
    }

    fn described(&self, process: &Process) -> Described {
        let all = |requests: &[MPI_Request], all| {
            let handles = requests.iter().map(|request| request.handle()).collect();
            Described::Requests { handles, all }
        };
        let on_window = |win: MPI_Win, asked: &dyn Fn(&weft::window::Window) -> (Vec<u32>, bool)| {
            let (ranks, own_lock) = process.windows.get(win.handle()).map(asked).unwrap_or_default();
            Described::Window(win.handle(), ranks, own_lock)
        };
        match &self.awaited {
            Awaited::Something => Described::Something,
            Awaited::Own(request) => Described::Own(*request),
            Awaited::One(handle) => Described::Requests { handles: vec![*handle], all: true },
            Awaited::Both(one, other) => Described::Requests { handles: vec![*one, *other], all: true },
            Awaited::All(requests) => all(requests, true),
            Awaited::Any(requests) => all(requests, false),
            Awaited::Probe(selector) => Described::Probe(*selector),
            Awaited::Construction(construction, parent) => {
                Described::Construction(construction.borrow().awaits(), *parent)
            }
            Awaited::Window(win, target) => on_window(*win, &|window| window.unsettled(*target)),
            Awaited::Posts(win, targets) => on_window(*win, &|window| (window.not_posted(targets), false)),
            Awaited::Completes(win) => on_window(*win, &|window| (window.not_completed(), false)),
            Awaited::Rounds(comm, missing) => Described::Rounds(*comm, missing.get()),
            Awaited::Flush(content) => {
                Described::Buffered(process.requests.buffers.awaited(&process.engine, *content))
            }
            Awaited::OnComm(comm) => Described::OnComm(*comm),
            Awaited::OfSession(session) => Described::OfSession(*session),
            Awaited::Quiet => Described::Quiet,
        }
    }

    #[cold]
    fn tell(&self, nap: &mut Nap, now: u64) {
        let caller = crate::caller::of_mpi();
        let call = caller.procedure.as_deref().unwrap_or(self.call);
        let mine = std::ptr::from_ref(self).addr();
        let heard = gate::with(|process| {
            let mut call = process.describe(call, &self.described(process), nap.since);
            call.place = caller.place;
            let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
            told.retain(|told| told.wait != mine);
            told.push(Told { wait: mine, from: nap.from, until: nap.looked, call });
            let from = told.iter().map(|told| told.from).max().unwrap_or(0);
            let mut until = told.iter().map(|told| told.until).min().unwrap_or(0);
            let several = gate::phase() & gate::MULTIPLE != 0;
            if several {
                until = until.saturating_sub(LOOKED_BY_OTHERS);
            }
            let others = several && threads() > told.len();
            let calls = told.iter().map(|told| told.call.clone()).collect();
            let stall = process.stall(from, until, calls, others);
            process.launcher.stall(&stall).then_some(()).ok_or(stall)
        });
        nap.told = true;
        if let Err(stall) = heard
            && PRINTS.load(Ordering::Relaxed)
            && now >= nap.prints
        {
            // Each line waits twice as long as the one before: a job that hangs all night fills no disk.
            nap.prints = now + (now - nap.since);
            print(&stall, mine, now);
        }
    }
}

impl Drop for Wait<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(nap) = self.nap.take()
            && nap.told
        {
            goes_on(std::ptr::from_ref(self).addr());
        }
    }
}

#[cold]
fn goes_on(wait: usize) {
    gate::with(|process| {
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|told| told.wait != wait);
        process.launcher.stall(&stall::Stall::default());
    });
}

/// Threads of this process that may be the program's; many when that cannot be found out, so that nothing is taken for certain.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(usize::MAX, |tasks| tasks.count() - gate::agent::count())
}

fn print(stall: &stall::Stall, wait: usize, now: u64) {
    let who = gate::identity().map(|(rank, size)| format!("rank {rank} of {size}")).unwrap_or_default();
    let told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(call) = told.iter().find(|told| told.wait == wait).map(|told| &told.call) else { return };
    let seconds = (now - call.since) / 1_000_000_000;
    let place = if call.place.is_empty() { String::new() } else { format!(", called at {}", call.place) };
    let mut text = format!(
        "weft: {who} (process {}) is blocked for {seconds} s in {}{}{place}\n",
        std::process::id(),
        call.call,
        call.what
    );
    for line in &call.lines {
        text.push_str(&format!("      pending: {line}\n"));
    }
    for stray in &stall.strays {
        text.push_str(&format!("      not received: {stray}\n"));
    }
    eprint!("{text}");
}

/// Switches the watchdog on as the parameters say.
pub(crate) fn start(process: &Process) {
    let (period, prints) = match process.parameters.watchdog {
        Watchdog::Off => (0, false),
        // Without Weft's mpiexec nobody would hear of it.
        Watchdog::Auto => (QUIET_PERIOD, false),
        Watchdog::Every(seconds) => (u64::from(seconds) * 1_000_000_000, true),
    };
    let heard = process.job.launcher == weft_boot::LauncherKind::Weft;
    PERIOD.store(if heard || prints { period } else { 0 }, Ordering::Relaxed);
    PRINTS.store(prints && !heard, Ordering::Relaxed);
}
