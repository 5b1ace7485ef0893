//! What the tests with a device share.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

pub mod bad;
pub mod battery;
pub mod described;
pub mod ends;
pub mod fabric;

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Arc, Mutex};
use weft_rdma::{Directory, PeerCard};
use weft_types::{Error, PeerId};
use weft_verbs::{Choice, Wish, choose, survey};

/// Says that a test does nothing, where `ci/lib.sh` counts it.
pub fn skip(why: &str) {
    println!("skipped: {why}");
    if let Some(path) = std::env::var_os("WEFT_TEST_SKIPS") {
        let thread = std::thread::current();
        let line = format!("{}: {why}\n", thread.name().unwrap_or("a test"));
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// The best port of this host. `None`, with a printed reason, where there is none; with `WEFT_TEST_VERBS=required` that is a
/// failure.
pub fn port() -> Option<Choice> {
    let found = survey().map_err(|error| error.to_string()).and_then(|ports| choose(&ports, Wish::default()));
    match found {
        Ok(choices) => choices.into_iter().next(),
        Err(why) if std::env::var("WEFT_TEST_VERBS").is_ok_and(|value| value == "required") => {
            panic!("an RDMA device is required: {why}")
        }
        Err(why) => {
            println!("skip: {why} (scripts/rxe-vm has one)");
            None
        }
    }
}

/// Cards by process.
#[derive(Clone, Debug, Default)]
pub struct Cards(pub Arc<Mutex<Vec<PeerCard>>>);

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> weft_types::Result<PeerCard> {
        let cards = self.0.lock().unwrap();
        cards.get(peer.0 as usize).cloned().ok_or_else(|| Error::internal("no such process"))
    }
}
