//! Pairs of transports in one process, and a watchdog.
#![allow(dead_code, reason = "every test file uses some of it")]

use std::time::Duration;
use weft_api::Transport;
use weft_shm::{Config, Shm, Waking};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

/// Attaches `ranks` transports to one fresh segment.
pub(crate) fn node(ranks: u32) -> Vec<Shm> {
    // Miri has no barrier that is sent to others.
    node_with(ranks, if cfg!(miri) { Waking::Fence } else { Waking::Membarrier })
}

/// The same with a choice of waking.
pub(crate) fn node_with(ranks: u32, waking: Waking) -> Vec<Shm> {
    let file = weft_shm::create().expect("a memory file");
    (0..ranks)
        .map(|local| {
            let file = file.try_clone().expect("a descriptor");
            let peers = (0..ranks).map(PeerId).collect();
            Shm::attach(Config { file, local, peers, single_copy: true, waking }).expect("attached")
        })
        .collect()
}

/// Two connected transports.
pub(crate) fn pair() -> (Shm, Shm) {
    let mut both = node(2);
    let mut second = both.pop().expect("two");
    let mut first = both.pop().expect("two");
    first.connect(PeerId(1)).expect("connected");
    second.connect(PeerId(0)).expect("connected");
    (first, second)
}

/// An envelope whose tag is `tag`.
pub(crate) fn header(tag: u32) -> Header {
    Header::new(Kind::Eager, ContextId::WORLD, Rank(0), Tag(tag as i32))
}

/// Ends the process when the test does not come to its end in time; no test may hang.
pub(crate) struct Watchdog(std::sync::mpsc::Sender<()>);

/// Starts a watchdog for a test.
pub(crate) fn watchdog(limit: Duration) -> Watchdog {
    let limit = if cfg!(miri) { 20 * limit } else { limit };
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    std::thread::spawn(move || {
        if receiver.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{name} did not end within {limit:?}");
            std::process::abort();
        }
    });
    Watchdog(sender)
}

impl Watchdog {
    /// The test came to its end.
    pub(crate) fn done(self) {
        drop(self.0);
    }
}
