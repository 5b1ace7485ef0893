//! A call that blocks: how it waits, whom it helps meanwhile, and who wakes it (the rules are at the top of [`super`]).

use std::cell::{Cell, OnceCell};
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft::lanes::{LANES, lane_of};
use weft_api::Bell;
use weft_engine::{EngineBell, Waiter};
use weft_types::HandleKind;

use super::{GATE, LOCKED, after, look, phase, progress_lanes, progress_process, shared};
use crate::watch::Wait;

/// A call that found nothing at its first look.
pub(crate) struct Blocked<'a> {
    waiter: Waiter,
    bell: CallBell<'a>,
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

impl<'a> Blocked<'a> {
    /// A call that looks at the lock of lane `home`.
    pub(crate) fn new(home: u32, wait: Wait<'a>) -> Blocked<'a> {
        let shared = shared();
        let counted = phase() & LOCKED != 0;
        let crowded = counted && super::is_crowded();
        if counted {
            attend(home);
        }
        let crowded = crowded && !shared.oversubscribed;
        let patient = crowded && Patience::ask();
        let waiter = match crowded {
            true => Waiter::crowded(patient),
            false => Waiter::new(shared.oversubscribed, shared.spins),
        };
        Blocked { waiter, bell: CallBell::new(home, wait), turns: 0, counted: Cell::new(counted), patient }
    }

    /// Progresses what is not waited for and nobody else looks after: now and then, and always before a sleep.
    #[inline]
    pub(crate) fn help(&self) -> bool {
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
        if phase() & LOCKED != 0 {
            attend(self.bell.home);
            self.counted.set(true);
        }
    }

    /// Waits a little; `moved`: whether something moved since the last pause.
    #[inline]
    pub(crate) fn pause(&mut self, moved: bool) {
        if moved {
            self.waiter.moved();
            self.bell.wait.moved();
        }
        self.turns = self.turns.wrapping_add(1);
        self.waiter.pause(&self.bell);
    }
}

/// Counts the calling thread among those that are blocked in a lane.
fn attend(lane: u32) {
    match lane {
        0 => {
            GATE.attendants.fetch_add(1, Ordering::Relaxed);
        }
        lane => shared().lanes.at(lane).attend(),
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        if self.patient {
            Patience::learn(!self.waiter.has_given_way());
        }
        self.waiter.finish(&self.bell);
        if !self.counted.get() {
            return;
        }
        match self.bell.home {
            0 => {
                GATE.attendants.fetch_sub(1, Ordering::Relaxed);
            }
            lane => shared().lanes.at(lane).leave(),
        }
    }
}

/// Longest sleep of a thread that leaves a lane to others who worked with it just now.
const LEFT_TO_OTHERS: Duration = Duration::from_millis(2);

/// The bell of one blocked call, fetched when the call first thinks of sleeping.
struct CallBell<'a> {
    bell: OnceCell<EngineBell>,
    /// The lane at whose lock the call looks.
    home: u32,
    wait: Wait<'a>,
    /// The lanes this call listens to while it is armed, and whether there are others.
    listening: Cell<(u32, bool)>,
    /// Helps so far.
    rounds: Cell<u32>,
    /// By lane: the calls when this call chose last. Most calls end before they choose.
    calls: OnceCell<Box<[Cell<u64>; LANES as usize]>>,
    /// Whether this call is counted among the watchers, and in which lanes among the followers.
    watching: Cell<Option<u32>>,
    /// Whether it is armed by the rules for one thread, by which no other wakes it.
    alone: Cell<bool>,
}

impl<'a> CallBell<'a> {
    fn new(home: u32, wait: Wait<'a>) -> CallBell<'a> {
        CallBell {
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

    fn get(&self) -> &EngineBell {
        self.bell.get_or_init(|| super::with(|process| process.bell()))
    }

    /// Chooses the lanes to listen to: those that can bring what is waited for, and all that nobody else looks after. A lane
    /// with a thread in a blocked call, or with calls since the last time, is left to those who work with it; as they
    /// may stop doing so, the sleep is short then.
    fn choose(&self) -> u32 {
        let mut lanes = self.lanes();
        let mut left = false;
        let known = self.calls.get_or_init(Default::default);
        let home = (0, (GATE.attendants.load(Ordering::Relaxed) == 0, GATE.calls.load(Ordering::Relaxed)));
        let others = shared().lanes.iter().map(|(number, lane)| (number, lane.attendance()));
        for (number, (alone, calls)) in std::iter::once(home).chain(others) {
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
        let open = || shared().lanes.iter().fold(1, |lanes, (number, _)| lanes | 1 << number);
        if self.home != 0 {
            return 1 << self.home;
        }
        let mut lanes = 1;
        let requests = self.wait.awaited().each_request(|request| {
            lanes |= match request.kind_bits() {
                kind if kind == HandleKind::LaneRequest as u32 => 1 << lane_of(request),
                // It may be made of several.
                kind if kind == HandleKind::LocalRequest as u32 => open(),
                _ => 1,
            };
        });
        if requests { lanes } else { open() }
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
            let process = home != 0 && GATE.attendants.load(Ordering::Relaxed) == 0 && progress_process();
            return progress_lanes(home) | process;
        }
        let (listening, _) = self.listening.get();
        let mut moved = home != 0 && listening & 1 != 0 && super::help_process();
        for (number, lane) in shared().lanes.iter() {
            if number != home && listening >> number & 1 != 0 {
                moved |= after(number, lane.help());
            }
        }
        moved
    }

    /// Marks what is waited for. The look that follows is under the same locks.
    fn watch(&self) {
        if self.watching.get().is_some() {
            return;
        }
        let awaited = self.wait.awaited();
        if self.home == 0 {
            let (_, marked) = look(|process| {
                let mut exact = true;
                let requests = awaited.each_request(|request| exact &= process.watch(request));
                (false, requests && exact)
            });
            if !marked {
                self.watch_process();
            }
            return;
        }
        let lane = shared().lanes.at(self.home);
        let mut requests = Vec::new();
        if awaited.each_request(|request| requests.push(request)) {
            lane.watch_requests(&requests);
        } else {
            lane.watch();
            self.watching.set(Some(0));
        }
    }

    fn watch_process(&self) {
        GATE.watchers.fetch_add(1, Ordering::SeqCst);
        let mut followed = 0;
        for (number, lane) in shared().lanes.iter() {
            lane.follow();
            followed |= 1 << number;
        }
        self.watching.set(Some(followed));
    }

    fn unwatch(&self) {
        let Some(followed) = self.watching.take() else { return };
        if self.home != 0 {
            return shared().lanes.at(self.home).unwatch();
        }
        GATE.watchers.fetch_sub(1, Ordering::SeqCst);
        for (number, lane) in shared().lanes.iter() {
            if followed >> number & 1 != 0 {
                lane.unfollow();
            }
        }
    }
}

impl Bell for CallBell<'_> {
    fn arm(&self) {
        self.alone.set(phase() & LOCKED == 0);
        if self.alone.get() {
            return self.get().arm();
        }
        shared().lanes.listen(self.get(), self.choose());
        self.get().arm();
        self.watch();
    }

    fn sleep(&self, limit: Duration) {
        if self.alone.get() && phase() & LOCKED != 0 {
            // Another thread has come since: armed anew, with all that goes with it. If it comes after this question, it rings.
            return self.get().disarm();
        }
        let (_, left) = self.listening.get();
        self.wait.before_sleep();
        self.get().sleep(if left { limit.min(LEFT_TO_OTHERS) } else { limit });
        self.wait.awake();
        self.unwatch();
    }

    fn disarm(&self) {
        self.get().disarm();
        self.unwatch();
    }
}
