//! Peers that are lost: who is, and who only has ended MPI; what was under way with them ends, also where the provider would keep it, and they hear of it if they live.
//!
//! *What the library has of a lost peer* - memory of operations, slots of sends, places of its queues - is the library's until it has ended it:
//! before that it may still read or write there. Where it has not after [`MOURNING`], the peer's address leaves the address vector, which closes the
//! connection, and what was on it ends. Of operations that have not even then, nothing more is waited for. Packets that came before their turn are
//! given up then: what they waited for is lost.
//!
//! *A connection that breaks is a loss at the end that notices it.* The other end may live, and wait. So a lost peer that sends or asks is told that it
//! is lost here ([`What::Lost`]), and loses this process in turn. That word is said once for each message that was heard, not more often than
//! [`STUCK`]; what the library refuses of it is said again, and who does not get it asks again.

use crate::clock;
use crate::contact::STUCK;
use crate::device::Denied;
use crate::packet::What;
use crate::sys::FI_ADDR_UNSPEC;
use crate::transport::Ofi;
use std::time::{Duration, Instant};

/// How long the library may keep what it has of a lost peer.
const MOURNING: Duration = Duration::from_secs(5);
/// How long it may take to end that after the peer's address was taken out.
const BURIAL: Duration = Duration::from_secs(1);
/// How long an address that cannot be taken out is tried again.
const STUBBORN: Duration = Duration::from_secs(30);

/// How often this process looks in vain, and for how long, before somebody to whom something failed is lost: its last word may have come.
const LOOKS: u32 = 32;
const DOUBT: Duration = Duration::from_millis(5);
/// How long somebody is doubted at most by a process that always finds something, and in how many looks: it may not look for long.
const LONGEST_DOUBT: Duration = Duration::from_secs(1);
const MOST_LOOKS: u32 = 8 * LOOKS;

/// A peer to which something has failed.
#[derive(Debug)]
pub(crate) struct Doubt {
    number: u32,
    since: Instant,
    /// Looks since then, and those that found nothing.
    looks: u32,
    in_vain: u32,
}

/// A lost peer of which the library may have something.
#[derive(Debug)]
pub(crate) struct Mourned {
    number: u32,
    /// It was lost, or its address was taken out.
    since: Instant,
    removed: bool,
}

impl Ofi {
    /// Something has failed that goes to a peer: it is lost, or has ended in order and said so, which is not read yet. Until that is known nothing is
    /// sent to it.
    pub(crate) fn doubt(&mut self, number: u32) {
        let peer = &mut self.peers[number as usize];
        if !(peer.gone || std::mem::replace(&mut peer.doubted, true)) {
            peer.shut = true;
            self.doubted.push(Doubt { number, since: clock::now(), looks: 0, in_vain: 0 });
        }
    }

    /// Loses those who were doubted for long enough. To be called after a look at what has come.
    #[cold]
    pub(crate) fn resolve_doubts(&mut self, moved: bool) {
        let now = clock::now();
        for at in (0..self.doubted.len()).rev() {
            let doubt = &mut self.doubted[at];
            doubt.looks += 1;
            doubt.in_vain += u32::from(!moved);
            let (number, after) = (doubt.number, now.saturating_duration_since(doubt.since));
            if self.peers[number as usize].resting
                || doubt.in_vain >= LOOKS && after >= DOUBT
                || doubt.looks >= MOST_LOOKS && after >= LONGEST_DOUBT
            {
                self.doubted.swap_remove(at);
                self.lose(number);
            }
        }
    }

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
            if !removed && after < MOURNING {
                continue;
            }
            let peer = &mut self.peers[number as usize];
            for place in peer.flow.end() {
                self.let_go(place.slot);
            }
            let peer = &mut self.peers[number as usize];
            if !removed {
                match self.slots.device().forget(peer.address) {
                    Ok(()) => peer.address = FI_ADDR_UNSPEC,
                    Err(Denied::Again) if after < STUBBORN => continue,
                    // It stays, which is harmless where nothing is under way.
                    Err(_) => {}
                }
                self.mourned[at] = Mourned { number, since: now, removed: true };
            } else if after >= BURIAL || !self.operations.is_open(number) {
                self.operations.abandon(number);
                self.mourned.swap_remove(at);
            }
        }
    }

    /// Somebody who is lost here has said something, and shall hear of it: now, or when the library takes the word.
    #[cold]
    pub(crate) fn answer_lost(&mut self, number: u32) {
        let now = clock::now();
        let is_owed = self.owed_words.iter().any(|&(other, _)| other == number);
        if !is_owed && now >= self.peers[number as usize].ask_at {
            self.owed_words.push((number, now));
            self.tell_the_lost(now);
        }
    }

    /// Says to the lost what they are owed, each not more often than [`STUCK`].
    pub(crate) fn tell_the_lost(&mut self, now: Instant) {
        for at in (0..self.owed_words.len()).rev() {
            let (number, since) = self.owed_words[at];
            let peer = &mut self.peers[number as usize];
            if now < peer.ask_at {
                continue;
            }
            peer.ask_at = now + STUCK;
            let id = peer.id;
            let said = self.say(number, self.prefix(number, What::Lost), Some(id));
            // Who lives and does not hear of it asks again.
            if said || now.saturating_duration_since(since) >= STUBBORN {
                self.owed_words.swap_remove(at);
            }
        }
    }
}
