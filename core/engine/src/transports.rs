//! The fabrics of this process joined in one enum, so that every call is static and inlined.

use std::time::Duration;
use weft_api::Bell;

/// The ways to other processes. [`Transports::Alone`] is a job of one: messages to itself need no transport.
#[derive(Debug)]
pub enum Transports {
    /// No other process.
    Alone,
}

/// What a blocked caller sleeps on while nobody holds the engine.
#[derive(Clone, Debug)]
pub enum EngineBell {
    /// No other process can ring; sleeping lasts as long as its limit.
    Alone,
}

impl Bell for EngineBell {
    fn arm(&self) {}

    fn sleep(&self, limit: Duration) {
        std::thread::sleep(limit);
    }

    fn disarm(&self) {}
}
