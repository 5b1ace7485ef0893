//! How a collective's short form reaches the process: directly where one thread makes all calls, otherwise through the process's
//! lock, when that is biased to the calling thread. Who cannot at once takes the full form.

use weft::Process;

use crate::gate;
use crate::snapshot::Here;
use crate::threads::LOCKED_SPINS;

/// A way to the process.
pub(crate) trait Way {
    /// The process, as long as it is held.
    type Held: Held;

    /// `None`: not now, and nothing was done.
    fn enter(self) -> Option<Self::Held>;
}

/// The process, lent by a [`Way`]. Dropped or given back before the gate is entered.
pub(crate) trait Held {
    /// What is lent.
    fn process(&mut self) -> &mut Process;

    /// Looks at what others bring before they are waited for in the full form, where others may have the process meanwhile.
    fn spins(&mut self) -> u32;

    /// Gives it back; `changed`: something moved that other threads may wait for.
    fn leave(self, changed: bool);
}

/// Where one thread makes all calls.
pub(crate) struct Alone(());

impl Alone {
    /// # Safety
    /// [`gate::is_active_alone`] has just said so.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Alone {
        Alone(())
    }
}

impl Way for Alone {
    type Held = gate::Alone;

    #[inline(always)]
    fn enter(self) -> Option<gate::Alone> {
        // SAFETY: who made this knows that MPI is active and one thread calls; what is lent is given back before the gate is entered.
        unsafe { gate::enter_alone() }
    }
}

impl Held for gate::Alone {
    #[inline(always)]
    fn process(&mut self) -> &mut Process {
        gate::Alone::process(self)
    }

    #[inline(always)]
    fn spins(&mut self) -> u32 {
        self.process().spins()
    }

    #[inline(always)]
    fn leave(self, _changed: bool) {}
}

/// Where calls take locks.
pub(crate) struct Locked;

impl Way for Locked {
    type Held = gate::Own;

    #[inline(always)]
    fn enter(self) -> Option<gate::Own> {
        if !gate::is_active_with_threads() {
            return None;
        }
        // SAFETY: used in this function only.
        gate::own(unsafe { Here::get_or_make()? }.mine)
    }
}

impl Held for gate::Own {
    #[inline(always)]
    fn process(&mut self) -> &mut Process {
        gate::Own::process(self)
    }

    /// Briefly: the lock is held.
    #[inline(always)]
    fn spins(&mut self) -> u32 {
        gate::spins().min(LOCKED_SPINS)
    }

    #[inline(always)]
    fn leave(self, changed: bool) {
        gate::Own::leave(self, changed);
    }
}
