//! Peers that are lost: what was under way with them ends, also where the provider would keep it, and they hear of it if they live.
//!
//! *What the library has of a lost peer* - memory of operations, slots of sends, places of its queues - is the library's until it has ended it:
//! before that it may still read or write there. Where it has not after [`MOURNING`], the peer's address leaves the address vector, which closes the
//! connection, and what was on it ends. Of operations that have not even then, nothing more is waited for.
//!
//! *A connection that breaks is a loss at the end that notices it.* The other end may live, and wait. So a lost peer that sends or asks is told that it
//! is lost here ([`What::Lost`]), and loses this process in turn. That word is said once for each message that was heard, not more often than
//! [`STUCK`]; who does not get it asks again.

use crate::clock;
use crate::contact::STUCK;
use crate::packet::What;
use crate::sys::FI_ADDR_UNSPEC;
use crate::transport::Ofi;
use std::time::{Duration, Instant};

/// How long the library may keep what it has of a lost peer.
const MOURNING: Duration = Duration::from_secs(5);
/// How long it may take to end that after the peer's address was taken out, or to take it out.
const BURIAL: Duration = Duration::from_secs(1);

/// A lost peer of which the library may have something.
#[derive(Debug)]
pub(crate) struct Mourned {
    number: u32,
    since: Instant,
    /// Its address was taken out.
    removed: bool,
}

impl Ofi {
    /// A peer is gone.
    pub(crate) fn lose(&mut self, number: u32) {
        let peer = &mut self.peers[number as usize];
        if peer.gone {
            return;
        }
        if !peer.resting {
            let id = peer.id;
            self.lost.push_back(id);
            self.lost_in_groups(id, true);
        }
        self.part_from(number);
    }

    /// Everything with a peer has failed; what the library still has of it is told when it gives it back, or after a while.
    pub(crate) fn part_from(&mut self, number: u32) {
        let peer = &mut self.peers[number as usize];
        if std::mem::replace(&mut peer.gone, true) {
            return;
        }
        (peer.shut, peer.knock, peer.ask_at) = (true, None, clock::now());
        self.unplaced.retain(|(other, _)| *other != number);
        self.drop_kept(number);
        self.operations.lose(number);
        self.mourn(number);
    }

    /// Looks after what the library has of somebody who is gone.
    pub(crate) fn mourn(&mut self, number: u32) {
        if self.peers[number as usize].address != FI_ADDR_UNSPEC
            && self.mourned.iter().all(|mourned| mourned.number != number || mourned.removed)
        {
            self.mourned.push(Mourned { number, since: clock::now(), removed: false });
        }
    }

    /// Ends what the library has kept of the lost for long.
    pub(crate) fn bury_mourned(&mut self, now: Instant) {
        for at in (0..self.mourned.len()).rev() {
            let Mourned { number, since, removed } = self.mourned[at];
            let after = now.saturating_duration_since(since);
            if after < MOURNING {
                continue;
            }
            let peer = &mut self.peers[number as usize];
            if !removed && self.slots.device().forget(peer.address) {
                peer.address = FI_ADDR_UNSPEC;
                self.mourned[at].removed = true;
            }
            if self.operations.is_open(number) {
                if after < MOURNING + BURIAL {
                    continue;
                }
                self.operations.abandon(number);
            } else if !self.mourned[at].removed && after < MOURNING + BURIAL {
                continue;
            }
            self.mourned.swap_remove(at);
        }
    }

    /// Somebody who is lost here has said something, and shall hear of it.
    #[cold]
    pub(crate) fn answer_lost(&mut self, number: u32) {
        let now = clock::now();
        let peer = &mut self.peers[number as usize];
        if now < peer.ask_at {
            return;
        }
        peer.ask_at = now + STUCK;
        let id = peer.id;
        self.say(number, self.prefix(number, What::Lost), Some(id));
    }
}
