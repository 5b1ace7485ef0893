//! Messages of processes that cannot be found now: at their first contact the directory fails, or knows no card of them yet.
//!
//! What they send is kept in its slots, in the order in which it came, and the directory is asked again at every look at the clock. Who is found goes on as
//! if nothing had been; who is not found in [`PATIENCE`] is lost here, with the directory's reason ([`Ofi::why_unreachable`]). What somebody sends is
//! bounded by his window ([`crate::flow::WINDOW`]), so what is kept of each is bounded, too.

use crate::clock;
use crate::flow::WINDOW;
use crate::slots::Slot;
use crate::sys::FI_ADDR_UNSPEC;
use crate::transport::Ofi;
use std::time::{Duration, Instant};
use weft_types::{Error, ErrorClass, PeerId};

/// How long somebody is looked for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most messages that are kept of one: his window, and as many words between the transports.
const MOST_KEPT: usize = 2 * WINDOW as usize;

/// Somebody who has sent something and cannot be found.
#[derive(Debug)]
pub(crate) struct Stranger {
    id: PeerId,
    since: Instant,
    /// Messages, with their lengths.
    kept: Vec<(Slot, usize)>,
}

impl Ofi {
    pub(crate) fn is_stranger(&self, id: PeerId) -> bool {
        self.strangers.iter().any(|stranger| stranger.id == id)
    }

    /// Keeps a message of somebody who cannot be found now. False: its slot is not needed, since too much is kept of him.
    #[cold]
    pub(crate) fn keep_of_stranger(&mut self, id: PeerId, slot: Slot, bytes: usize) -> bool {
        if !self.is_stranger(id) {
            self.strangers.push(Stranger { id, since: clock::now(), kept: Vec::new() });
        }
        let stranger =
            self.strangers.iter_mut().find(|stranger| stranger.id == id).expect("there is one now");
        let has_room = stranger.kept.len() < MOST_KEPT;
        if has_room {
            stranger.kept.push((slot, bytes));
        }
        has_room
    }

    /// Looks for those who could not be found before.
    #[cold]
    pub(crate) fn look_for_strangers(&mut self, now: Instant) {
        for at in (0..self.strangers.len()).rev() {
            let Stranger { id, since, .. } = self.strangers[at];
            match self.introduce(id) {
                Ok(_) => {
                    for (slot, bytes) in self.strangers.swap_remove(at).kept {
                        if !self.arrived(slot, bytes) {
                            self.slots.give_back(slot);
                        }
                    }
                }
                Err(error) if now.saturating_duration_since(since) >= PATIENCE => {
                    let kept = self.strangers.swap_remove(at).kept;
                    kept.into_iter().for_each(|(slot, _)| self.slots.give_back(slot));
                    let number = self.remember_by_number(id);
                    let why = format!(
                        "process {} has sent something, and for {PATIENCE:?} it could not be found out how it is reached: {}. See that the launcher \
                         lives and that all processes were started alike; WEFT_VERBOSE=1 tells what each was told",
                        id.0,
                        error.text()
                    );
                    self.lose_because(number, Error::new(ErrorClass::PROC_ABORTED, why));
                }
                Err(_) => {}
            }
        }
    }

    /// The number of a peer of which nothing is known but who it is; if it shall hear something, its card is looked for again.
    pub(crate) fn remember_by_number(&mut self, id: PeerId) -> u32 {
        match self.numbers.get(&id.0) {
            Some(&number) => number,
            None => self.remember(id, FI_ADDR_UNSPEC, 0, None),
        }
    }

    /// A peer may live, and cannot be reached.
    pub(crate) fn lose_because(&mut self, number: u32, why: Error) {
        let peer = &self.peers[number as usize];
        if !(peer.gone || peer.resting) {
            self.unreachable.push((peer.id, why));
        }
        self.lose(number);
    }

    /// Why a process that is lost here cannot be reached, where that is the reason.
    pub fn why_unreachable(&self, id: PeerId) -> Option<&Error> {
        self.unreachable.iter().find(|(peer, _)| *peer == id).map(|(_, why)| why)
    }
}
