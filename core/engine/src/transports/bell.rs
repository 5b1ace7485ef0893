//! What a process sleeps on, whatever ways it has to others.

use crate::both::BothBell;
use crate::fabric::FabricBell;
use std::time::Duration;
use weft_api::Bell;
use weft_shm::{LonelyBell, ShmBell};
use weft_sim::SimBell;
use weft_sim::layers::LayeredBell;

/// What a blocked caller sleeps on while nobody holds the engine.
#[derive(Clone, Debug)]
pub enum EngineBell {
    /// Only this process's own threads ring.
    Alone(LonelyBell),
    /// See [`ShmBell`].
    Shm(ShmBell),
    /// See [`FabricBell`].
    Fabric(FabricBell),
    /// See [`BothBell`].
    Both(BothBell),
    /// See [`SimBell`].
    Sim(SimBell),
    /// See [`LayeredBell`].
    Wrapped(Box<LayeredBell<EngineBell>>),
}

impl EngineBell {
    /// Wakes the threads of this process that listen to a lane; see [`ShmBell::ring`]. Simulated ranks have one thread.
    pub fn ring(&self, lane: u32) {
        match self {
            EngineBell::Alone(bell) => bell.ring(lane),
            EngineBell::Shm(bell) => bell.ring(lane),
            EngineBell::Fabric(bell) => bell.ring(),
            EngineBell::Both(bell) => bell.ring(lane),
            EngineBell::Wrapped(bell) => bell.inner().inner().ring(lane),
            EngineBell::Sim(_) => {}
        }
    }

    /// The next arming listens to these lanes, one bit each; without this it is the one lane the bell comes from.
    pub fn listen(&self, lanes: u32) {
        match self {
            EngineBell::Alone(bell) => bell.listen(lanes),
            EngineBell::Shm(bell) => bell.listen(lanes),
            EngineBell::Both(bell) => bell.listen(lanes),
            EngineBell::Wrapped(bell) => bell.inner().inner().listen(lanes),
            // One lane.
            EngineBell::Fabric(_) | EngineBell::Sim(_) => {}
        }
    }

    /// The next arming listens to another lane's fabric as well, whose bell this is. After [`EngineBell::listen`], of each lane
    /// but 0 that was named there; only the bell of such a lane knows its fabric, and it is to be fetched anew each time.
    pub fn listen_to(&self, lane: &EngineBell) {
        match (self, lane) {
            (EngineBell::Both(bell), EngineBell::Both(other)) => bell.listen_to(other),
            (EngineBell::Wrapped(bell), EngineBell::Wrapped(other)) => {
                bell.inner().inner().listen_to(other.inner().inner());
            }
            _ => {}
        }
    }
}

impl Bell for EngineBell {
    fn arm(&self) {
        match self {
            EngineBell::Alone(bell) => bell.arm(),
            EngineBell::Shm(bell) => bell.arm(),
            EngineBell::Fabric(bell) => bell.arm(),
            EngineBell::Both(bell) => bell.arm(),
            EngineBell::Sim(bell) => bell.arm(),
            EngineBell::Wrapped(bell) => bell.arm(),
        }
    }

    fn sleep(&self, limit: Duration) {
        match self {
            EngineBell::Alone(bell) => bell.sleep(limit),
            EngineBell::Shm(bell) => bell.sleep(limit),
            EngineBell::Fabric(bell) => bell.sleep(limit),
            EngineBell::Both(bell) => bell.sleep(limit),
            EngineBell::Sim(bell) => bell.sleep(limit),
            EngineBell::Wrapped(bell) => bell.sleep(limit),
        }
    }

    fn disarm(&self) {
        match self {
            EngineBell::Alone(bell) => bell.disarm(),
            EngineBell::Shm(bell) => bell.disarm(),
            EngineBell::Fabric(bell) => bell.disarm(),
            EngineBell::Both(bell) => bell.disarm(),
            EngineBell::Sim(bell) => bell.disarm(),
            EngineBell::Wrapped(bell) => bell.disarm(),
        }
    }
}
