//! What a blocked call has around it: the gate and its lanes, or in tests simulated ones (`simulated.rs`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_api::Bell;
use weft_engine::EngineBell;

use super::phase::has;
use super::{GATE, LOCKED, after, help_process, is_crowded, look, progress_lanes, progress_process, shared};
use crate::watch::{Awaited, Wait};

/// Longest sleep of a thread that leaves a lane to others who worked with it just now.
const LEFT_TO_OTHERS: Duration = Duration::from_millis(2);

/// The surroundings of a blocked call. Lane 0 is the process's; a set of lanes has one bit for each.
pub(crate) trait Around: Copy {
    /// What a thread sleeps on.
    type Bell: Bell;

    /// Whether calls take locks.
    fn has_locks(self) -> bool;
    /// Whether more threads of this process may communicate at once than it has cores.
    fn is_crowded(self) -> bool;
    /// Whether ranks outnumber cores.
    fn is_oversubscribed(self) -> bool;
    /// Looks before a core is given away.
    fn spins(self) -> u32;
    /// The lanes that are open.
    fn open(self) -> u32;
    /// Counts the calling thread among those that are blocked in a lane.
    fn attend(self, lane: u32);
    /// Ends [`Around::attend`].
    fn leave(self, lane: u32);
    /// Whether nobody is blocked in a lane, and the calls there so far.
    fn attendance(self, lane: u32) -> (bool, u64);
    /// A bell of this thread's own.
    fn bell(self) -> Self::Bell;
    /// The next arming of the bell listens to these lanes.
    fn listen(self, bell: &Self::Bell, lanes: u32);
    /// Marks what is awaited in lane `home`, under its lock; false where marks are not enough.
    fn mark(self, home: u32, awaited: &Awaited<'_>) -> bool;
    /// Counts the calling thread among those that any change in a lane must wake.
    fn watch(self, lane: u32);
    /// Ends [`Around::watch`].
    fn unwatch(self, lane: u32);
    /// Counts the calling thread among those that progress in a lane must wake.
    fn follow(self, lane: u32);
    /// Ends [`Around::follow`].
    fn unfollow(self, lane: u32);
    /// Progresses a lane, whose lock is waited for; whether anything moved.
    fn help(self, lane: u32) -> bool;
    /// Progresses lane 0, unless somebody else has it.
    fn progress_process(self) -> bool;
    /// Progresses the lanes but `own` and 0 that nobody attends, unless somebody else has them.
    fn progress_lanes(self, own: u32) -> bool;
    /// Sleeps until rung, at most `limit`; `leaves`: lanes are left to others, who may stop to look after them.
    fn sleep(self, bell: &Self::Bell, limit: Duration, leaves: bool) {
        bell.sleep(if leaves { limit.min(LEFT_TO_OTHERS) } else { limit });
    }
    /// The call is about to sleep.
    fn before_sleep(self, wait: &Wait<'_>);
    /// It sleeps no more.
    fn awake(self, wait: &Wait<'_>);
}

/// The gate of this process.
#[derive(Clone, Copy)]
pub(crate) struct Real;

impl Around for Real {
    type Bell = EngineBell;

    #[inline(always)]
    fn has_locks(self) -> bool {
        has::<LOCKED>()
    }

    fn is_crowded(self) -> bool {
        is_crowded()
    }

    #[inline(always)]
    fn is_oversubscribed(self) -> bool {
        shared().oversubscribed
    }

    #[inline(always)]
    fn spins(self) -> u32 {
        shared().spins
    }

    fn open(self) -> u32 {
        shared().lanes.iter().fold(1, |lanes, (number, _)| lanes | 1 << number)
    }

    fn attend(self, lane: u32) {
        match lane {
            0 => {
                GATE.attendants.fetch_add(1, Ordering::Relaxed);
            }
            lane => shared().lanes.at(lane).attend(),
        }
    }

    fn leave(self, lane: u32) {
        match lane {
            0 => {
                GATE.attendants.fetch_sub(1, Ordering::Relaxed);
            }
            lane => shared().lanes.at(lane).leave(),
        }
    }

    fn attendance(self, lane: u32) -> (bool, u64) {
        match lane {
            0 => (GATE.attendants.load(Ordering::Relaxed) == 0, GATE.calls.load(Ordering::Relaxed)),
            lane => shared().lanes.at(lane).attendance(),
        }
    }

    fn bell(self) -> EngineBell {
        super::with(|process| process.bell())
    }

    fn listen(self, bell: &EngineBell, lanes: u32) {
        shared().lanes.listen(bell, lanes);
    }

    fn mark(self, home: u32, awaited: &Awaited<'_>) -> bool {
        if home == 0 {
            let (_, marked) = look(|process| {
                let mut exact = true;
                let requests = awaited.each_request(|request| exact &= process.watch(request));
                (false, requests && exact)
            });
            return marked;
        }
        let mut requests = Vec::new();
        let are_requests = awaited.each_request(|request| requests.push(request));
        if are_requests {
            shared().lanes.at(home).watch_requests(&requests);
        }
        are_requests
    }

    fn watch(self, lane: u32) {
        match lane {
            0 => {
                GATE.watchers.fetch_add(1, Ordering::SeqCst);
            }
            lane => shared().lanes.at(lane).watch(),
        }
    }

    fn unwatch(self, lane: u32) {
        match lane {
            0 => {
                GATE.watchers.fetch_sub(1, Ordering::SeqCst);
            }
            lane => shared().lanes.at(lane).unwatch(),
        }
    }

    fn follow(self, lane: u32) {
        shared().lanes.at(lane).follow();
    }

    fn unfollow(self, lane: u32) {
        shared().lanes.at(lane).unfollow();
    }

    fn help(self, lane: u32) -> bool {
        match lane {
            0 => help_process(),
            lane => after(lane, shared().lanes.at(lane).help()),
        }
    }

    fn progress_process(self) -> bool {
        progress_process()
    }

    fn progress_lanes(self, own: u32) -> bool {
        progress_lanes(own)
    }

    fn before_sleep(self, wait: &Wait<'_>) {
        wait.before_sleep();
    }

    fn awake(self, wait: &Wait<'_>) {
        wait.awake();
    }
}
