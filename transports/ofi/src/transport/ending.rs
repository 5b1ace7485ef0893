//! How a process ends: what is on its way leaves, and the others hear of it.

use super::Ofi;
use crate::clock;
use crate::contact::Peer;
use crate::packet::What;
use std::time::Duration;
use weft_api::Transport;
use weft_types::PeerId;

/// Calls of progress after the last words.
const ATTEMPTS: u32 = 8;
/// How long the others are told that this process rests.
const LAST_WORDS: Duration = Duration::from_millis(500);

impl Ofi {
    /// Whether this process has ended MPI and has not gone on since.
    pub(crate) fn rests(&self) -> bool {
        self.era.rests()
    }

    /// It has not ended MPI, or no more.
    #[inline]
    pub(crate) fn go_on(&mut self) {
        if self.era.rests() {
            self.era = self.era.next();
        }
    }

    /// See [`Transport::has_left`].
    pub(super) fn all_has_left(&self) -> bool {
        let waits =
            |peer: &Peer| !peer.gone && !peer.resting && (peer.in_flight > 0 || !peer.flow.has_left());
        let waiting = self.operations.is_busy() || self.peers.iter().any(waits);
        self.leaving.set(waiting);
        !waiting
    }

    /// Ends MPI: what the library refuses of that is said again.
    pub(super) fn tell_rest(&mut self) {
        if !self.rests() {
            self.era = self.era.next();
        }
        self.rests_since = clock::now();
        for number in 0..self.peers.len() as u32 {
            let peer = &self.peers[number as usize];
            if !(peer.gone || peer.resting) {
                self.news_are_due(number);
            }
        }
        // What the provider has queued goes out when it is called.
        for _ in 0..ATTEMPTS {
            self.progress();
        }
    }

    /// Whether everybody has heard of that, as far as the library knows, or was told for long enough. Nobody waits for a connection to
    /// those who were never reached.
    pub(super) fn all_heard_of_rest(&self) -> bool {
        let hears =
            |peer: &Peer| peer.gone || peer.resting || !peer.reached || !peer.due && peer.in_flight == 0;
        !self.rests() || self.peers.iter().all(hears) || clock::since(self.rests_since) >= LAST_WORDS
    }

    /// Tells everybody that a process is about to end.
    pub(super) fn tell_of_loss(&mut self, peer: PeerId) {
        for number in 0..self.peers.len() as u32 {
            let other = &self.peers[number as usize];
            if other.gone || other.resting || other.id == peer {
                continue;
            }
            for _ in 0..ATTEMPTS {
                if self.say(number, self.prefix(number, What::Lost), Some(peer)) {
                    break;
                }
                self.progress();
            }
        }
        for _ in 0..ATTEMPTS {
            self.progress();
        }
    }
}
