//! A call that blocks: how it waits, whom it helps meanwhile, and who wakes it (the rules are at the top of [`super`]).

use std::cell::{Cell, OnceCell};
use std::time::Duration;

use weft::lanes::{LANES, lane_of};
use weft_api::Bell;
use weft_engine::Waiter;
use weft_types::HandleKind;

use super::around::{Around, Real};
use crate::watch::Wait;

/// A call that found nothing at its first look.
pub(crate) struct Blocked<'a, A: Around = Real> {
    waiter: Waiter,
    bell: CallBell<'a, A>,
    turns: u32,
    /// Whether it is counted among those who attend its lane, as calls that take locks are.
    counted: Cell<bool>,
    /// Whether this call may spin although there are more threads than cores.
    patient: bool,
}

/// Whether it pays for the calling thread to spin when there are more threads than cores. It does when what it waits for comes
/// from another core, and not when whoever brings it waits for this one. Tried again after more and more calls that did not
/// spin.
#[derive(Clone, Copy)]
struct Patience {
    /// Calls in a row that spun in vain, as far as it matters.
    in_vain: u8,
    /// Calls that shall not spin.
    skip: u8,
}

thread_local! {
    static PATIENCE: Cell<Patience> = const { Cell::new(Patience { in_vain: 0, skip: 0 }) };
}

impl Patience {
    /// For 1, 2, 4, ... 64 calls.
    const LONGEST: u8 = 6;

    /// Whether the next call may spin.
    fn ask() -> bool {
        let mut patience = PATIENCE.get();
        let may = patience.skip == 0;
        patience.skip = patience.skip.saturating_sub(1);
        PATIENCE.set(patience);
        may
    }

    /// What came of it.
    fn learn(paid: bool) {
        let in_vain = PATIENCE.get().in_vain;
        PATIENCE.set(match paid {
            true => Patience { in_vain: 0, skip: 0 },
            false => Patience { in_vain: (in_vain + 1).min(Patience::LONGEST), skip: 1 << in_vain },
        });
    }
}

/// Blocks until `turn` gives an answer: a call that looks at the lock of lane `home` and found nothing at its first turn, in which
/// something `moved` or not. Each turn progresses that lane and looks, and answers whether something moved, too.
#[cold]
#[inline(never)]
pub(crate) fn until<A: Around, T>(
    around: A,
    home: u32,
    wait: Wait<'_>,
    mut moved: bool,
    mut turn: impl FnMut() -> (bool, Option<T>),
) -> T {
    let mut blocked = Blocked::new(around, home, wait);
    loop {
        blocked.pause(moved);
        // Others first: what they bring may be what the look looks for.
        let elsewhere = blocked.help();
        let (turned, answer) = turn();
        if let Some(answer) = answer {
            return answer;
        }
        moved = turned | elsewhere;
    }
}

impl<'a, A: Around> Blocked<'a, A> {
    fn new(around: A, home: u32, wait: Wait<'a>) -> Blocked<'a, A> {
        let counted = around.has_locks();
        let crowded = counted && around.is_crowded();
        if counted {
            around.attend(home);
        }
        let crowded = crowded && !around.is_oversubscribed();
        let patient = crowded && Patience::ask();
        let waiter = match crowded {
            true => Waiter::crowded(patient),
            false => Waiter::new(around.is_oversubscribed(), around.spins()),
        };
        let bell = CallBell::new(around, home, wait);
        Blocked { waiter, bell, turns: 0, counted: Cell::new(counted), patient }
    }

    /// Progresses what is not waited for and nobody else looks after: now and then, and always before a sleep.
    #[inline]
    fn help(&self) -> bool {
        let armed = self.waiter.is_armed();
        if !self.counted.get() {
            self.catch_up();
            return false;
        }
        if !armed && !self.turns.is_multiple_of(16) {
            return false;
        }
        self.bell.help(armed)
    }

    /// Another thread may have come since the call began without locks: then it goes on as one with locks.
    #[inline]
    fn catch_up(&self) {
        if self.bell.around.has_locks() {
            self.bell.around.attend(self.bell.home);
            self.counted.set(true);
        }
    }

    /// Waits a little; `moved`: whether something moved since the last pause.
    #[inline]
    fn pause(&mut self, moved: bool) {
        if moved {
            self.waiter.moved();
            self.bell.wait.moved();
        }
        self.turns = self.turns.wrapping_add(1);
        self.waiter.pause(&self.bell);
    }
}

impl<A: Around> Drop for Blocked<'_, A> {
    fn drop(&mut self) {
        if self.patient {
            Patience::learn(!self.waiter.has_given_way());
        }
        self.waiter.finish(&self.bell);
        if self.counted.get() {
            self.bell.around.leave(self.bell.home);
        }
    }
}

/// The bell of one blocked call, fetched when the call first thinks of sleeping.
struct CallBell<'a, A: Around> {
    around: A,
    bell: OnceCell<A::Bell>,
    /// The lane at whose lock the call looks.
    home: u32,
    wait: Wait<'a>,
    /// The lanes this call listens to while it is armed, and whether there are others.
    listening: Cell<(u32, bool)>,
    /// Helps so far.
    rounds: Cell<u32>,
    /// By lane: the calls when this call chose last. Most calls end before they choose.
    calls: OnceCell<Box<[Cell<u64>; LANES as usize]>>,
    /// Whether this call is counted among the watchers of its lane, and in which lanes among the followers.
    watching: Cell<Option<u32>>,
    /// Whether it is armed by the rules for one thread, by which no other wakes it.
    alone: Cell<bool>,
}

/// The numbers of a set of lanes.
fn each(mut lanes: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = lanes.trailing_zeros();
        lanes &= lanes.checked_sub(1)?;
        Some(lane)
    })
}

impl<'a, A: Around> CallBell<'a, A> {
    fn new(around: A, home: u32, wait: Wait<'a>) -> CallBell<'a, A> {
        CallBell {
            around,
            bell: OnceCell::new(),
            home,
            wait,
            listening: Cell::new((0, false)),
            rounds: Cell::new(0),
            calls: OnceCell::new(),
            watching: Cell::new(None),
            alone: Cell::new(false),
        }
    }

    fn get(&self) -> &A::Bell {
        self.bell.get_or_init(|| self.around.bell())
    }

    /// Chooses the lanes to listen to: those that can bring what is waited for, and all that nobody else looks after. A lane
    /// with a thread in a blocked call, or with calls since the last time, is left to those who work with it; as they
    /// may stop doing so, the sleep is short then.
    fn choose(&self) -> u32 {
        let mut lanes = self.lanes();
        let mut left = false;
        let known = self.calls.get_or_init(Default::default);
        for number in each(self.around.open()) {
            let (alone, calls) = self.around.attendance(number);
            let idle = known[number as usize].replace(calls) == calls;
            if lanes >> number & 1 == 0 {
                if alone && idle {
                    lanes |= 1 << number;
                } else {
                    left = true;
                }
            }
        }
        self.listening.set((lanes, left));
        lanes
    }

    /// The lanes that can bring what is waited for, one bit each.
    fn lanes(&self) -> u32 {
        if self.home != 0 {
            return 1 << self.home;
        }
        let mut lanes = 1;
        let requests = self.wait.awaited().each_request(|request| {
            lanes |= match request.kind_bits() {
                kind if kind == HandleKind::LaneRequest as u32 => 1 << lane_of(request),
                // It may be made of several.
                kind if kind == HandleKind::LocalRequest as u32 => self.around.open(),
                _ => 1,
            };
        });
        if requests { lanes } else { self.around.open() }
    }

    /// Progresses what others do not look after. Before a sleep these are the lanes listened to, whose locks are waited for: who
    /// holds one may have looked for packets before the bell was armed.
    fn help(&self, armed: bool) -> bool {
        let home = self.home;
        let rounds = self.rounds.get();
        self.rounds.set(rounds.wrapping_add(1));
        if !armed && rounds % 64 == 63 {
            // Traffic may keep this thread from ever thinking of sleep, and with it from looking after idle lanes.
            self.choose();
        } else if !armed {
            let process = home != 0 && self.around.attendance(0).0 && self.around.progress_process();
            return self.around.progress_lanes(home) | process;
        }
        let (listening, _) = self.listening.get();
        each(self.around.open() & listening & !(1 << home))
            .fold(false, |moved, lane| self.around.help(lane) | moved)
    }

    /// Marks what is waited for. The look that follows is under the same locks.
    fn watch(&self) {
        if self.watching.get().is_some() || self.around.mark(self.home, self.wait.awaited()) {
            return;
        }
        self.around.watch(self.home);
        let mut followed = 0;
        if self.home == 0 {
            followed = self.around.open() & !1;
            each(followed).for_each(|lane| self.around.follow(lane));
        }
        self.watching.set(Some(followed));
    }

    fn unwatch(&self) {
        let Some(followed) = self.watching.take() else { return };
        self.around.unwatch(self.home);
        each(followed).for_each(|lane| self.around.unfollow(lane));
    }
}

impl<A: Around> Bell for CallBell<'_, A> {
    fn arm(&self) {
        self.alone.set(!self.around.has_locks());
        if self.alone.get() {
            return self.get().arm();
        }
        self.around.listen(self.get(), self.choose());
        self.get().arm();
        self.watch();
    }

    fn sleep(&self, limit: Duration) {
        if self.alone.get() && self.around.has_locks() {
            // Another thread has come since: armed anew, with all that goes with it. If it comes after this question, it rings.
            return self.get().disarm();
        }
        let (_, left) = self.listening.get();
        self.around.before_sleep(&self.wait);
        self.around.sleep(self.get(), limit, left);
        self.around.awake(&self.wait);
        self.unwatch();
    }

    fn disarm(&self) {
        self.get().disarm();
        self.unwatch();
    }
}
