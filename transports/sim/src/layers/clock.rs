//! The time by which layers go.

use crate::SimFabric;
use nix::time::{ClockId, clock_gettime};

/// Where a layer has its time from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's clock, which all its processes see alike.
    Machine,
    /// Virtual time: a tick is a nanosecond.
    Virtual(SimFabric),
}

impl Clock {
    /// Nanoseconds since some moment that is the same for all processes of the machine, or of the virtual fabric; above 0.
    pub fn now(&self) -> u64 {
        match self {
            Clock::Machine => {
                let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
                now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
            }
            Clock::Virtual(fabric) => fabric.now() + 1,
        }
    }
}
