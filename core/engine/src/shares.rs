//! Messages whose sender waits in a call until they are taken: both ends copy, each a part, by the kernel.
//!
//! ```text
//! sender                               receiver
//! Rts (STAYS)  ---------------------->  a receive matches: it will read
//!              <----------------------  Share: write from here on, to there
//! writes the rest                      reads the front
//! Shared       ---------------------->  when it has read: all is here
//!              <----------------------  Taken
//! ```
//!
//! One core copies 128 KiB in the time in which two copy 256. Only of senders that can do nothing else meanwhile (a blocking send that has begun to wait)
//! anything is asked, for the receiver has to wait for their answer: from the question to the answer its memory is the sender's
//! ([`TRANSFERRING`]), whatever becomes of the receive, unless the sender dies. A sender that cannot write says so, and the receiver reads on.
//!
//! A sender that sleeps has to be woken, which takes as long as to read some hundred KiB. So its announcement bears the time: when that was just now
//! ([`crate::EngineConfig::shares_within`]) it still looks for the answer and gets half of the message, else it is asked only for a part of a long
//! message, which is as much shorter as is read until it is awake. (Without that, ranks that send to and fro would stay with reading: who reads all
//! of a message takes so long that its sender sleeps in the end, is late for the next announcement, and so reads all of that, too.)
//! And who has read the front looks for a while for the word that the rest is there, so that a receiver that is about to leave MPI does not leave
//! its sender behind.

use crate::arrive::Todo;
use crate::engine::{Engine, State};
use crate::requests::{Phase, SHARES, TRANSFERRING};
use weft_api::Transport;
use weft_types::PeerId;
use weft_wire::payload::Share;
use weft_wire::{Announce, Header, Kind};

/// Longest message that is shared, in bytes: its part is written in one go.
const LONGEST: u64 = 16 << 20;
/// How often who has read the front looks for the sender's word before it leaves: some ten microseconds.
const LOOKS: u32 = 500;
/// How much longer than the sender's part the receiver's is at most, which begins before, in bytes.
const LEAD: u64 = 16 << 10;
/// The part of the shortest message that is shared with a sender that may be asleep ([`crate::EngineConfig::shares_asleep_from`]) which is read
/// while that wakes up: some 50 us.
const WAKING: (u64, u64) = (3, 8);
/// Where a part begins is counted in these: lines.
const UNIT: u64 = 64;

impl Engine {
    /// The sends that begin from now on are waited for by who begins them until they are complete, or no longer are.
    #[inline]
    pub fn stay(&mut self, stays: bool) {
        self.state.stays = stays;
    }

    /// The front of a receive is read, and its sender has not said that it has written its part.
    pub(crate) fn wait_for_share(&mut self, slot: u32, peer: PeerId) {
        let request = self.state.requests.at(slot);
        if request.header.flags() & Announce::ASLEEP != 0 {
            let (rest, now) = (request.wanted - request.read, self.state.stopwatch.stamp());
            if let Some(peer) = self.state.peers.find_mut(peer) {
                peer.naps.waits(rest, now);
            }
        }
    }

    /// Looks for the sender's word of its part of a receive whose front is read. False: it has not come, or the receive is over.
    pub(crate) fn look_for_share(&mut self, slot: u32, peer: PeerId) -> bool {
        let id = self.state.requests.id(slot);
        for _ in 0..LOOKS {
            std::hint::spin_loop();
            self.drain(peer);
            if self.state.requests.find(id.0).is_none()
                || self.state.requests.at(slot).phase != Phase::Reading
            {
                return false;
            }
            if self.state.requests.at(slot).flags & TRANSFERRING == 0 {
                return true;
            }
        }
        self.state.requests.at_mut(slot).phase = Phase::Receiving;
        false
    }

    /// Asks the sender of a message that is about to be read to write the rest of it, if it can.
    pub(crate) fn ask_to_share(&mut self, slot: u32, peer: PeerId) {
        let own = self.state.requests.id(slot).0;
        let (crowded, awake_from, asleep_from) = {
            let config = &self.state.config;
            (config.oversubscribed, u64::from(config.shares_from), u64::from(config.shares_asleep_from))
        };
        let request = self.state.requests.at_mut(slot);
        let (wanted, remote) = (request.wanted, request.remote);
        // The front is a little longer, since the sender begins later.
        let (shortest, ahead) = match request.header.flags() & Announce::ASLEEP {
            0 => (awake_from, (wanted / 32).min(LEAD) + 2 * UNIT),
            _ => (awake_from.max(asleep_from), asleep_from * WAKING.0 / WAKING.1 + 2 * UNIT),
        };
        let fits = request.header.flags() & Announce::STAYS != 0
            && request.lead == 0
            && wanted == request.length
            && (shortest..=LONGEST).contains(&wanted)
            && request.scattered.is_none();
        if !fits || crowded {
            return;
        }
        let asleep = request.header.flags() & Announce::ASLEEP != 0;
        if asleep && !self.state.peers.find_mut(peer).is_some_and(|peer| peer.naps.wakes()) {
            return;
        }
        let request = self.state.requests.at_mut(slot);
        let Some(room) = request.recv_buf().as_mut_slice() else { return };
        let from = (wanted + ahead) / 2 / UNIT * UNIT;
        let address = room.as_mut_ptr().expose_provenance() as u64 + from;
        request.entry = (from / UNIT) as u32;
        request.flags |= SHARES | TRANSFERRING;
        let share = Share { request: own, address };
        self.send_control(peer, Header::control(Kind::Share, remote, from), &share.emit());
    }

    /// A receive is not read on: its sender streams all of it, after it has answered.
    pub(crate) fn unshare(&mut self, slot: u32) {
        let request = self.state.requests.at_mut(slot);
        if request.flags & SHARES != 0 {
            request.entry = 0;
        }
    }

    /// Writes what the receiver of a send has asked for.
    pub(crate) fn write_share(&mut self, slot: u32) {
        let request = self.state.requests.at(slot);
        let (peer, address, from, remote) = (request.peer, request.address, request.read, request.remote);
        let rest = request.send_buf().as_slice().and_then(|bytes| bytes.get(from as usize..));
        let wrote = rest.is_some_and(|rest| self.fabric.write_remote(peer, address, rest).is_ok());
        self.send_control(peer, Header::control(Kind::Shared, remote, u64::from(wrote)), &[]);
    }

    /// The sender has answered for its part of a receive.
    pub(crate) fn go_on_reading(&mut self, slot: u32) {
        let request = self.state.requests.at_mut(slot);
        if let Some(error) = request.error.take() {
            // The receive was given up meanwhile.
            request.flags &= !SHARES;
            return self.state.end_bereaved(slot, error);
        }
        if request.phase == Phase::Receiving && request.entry != 0 {
            request.phase = Phase::Reading;
            self.state.reading.push_front(slot);
            self.read_some();
        }
    }
}

impl State {
    /// Where the part that this process reads of a receive ends.
    pub(crate) fn read_until(&self, slot: u32) -> u64 {
        let request = self.requests.at(slot);
        match request.flags & SHARES {
            0 => request.wanted,
            _ => u64::from(request.entry) * UNIT,
        }
    }

    /// The header of an announcement of a sender that stays, made at that time, with whether it may be asleep by now.
    pub(crate) fn by_age(&mut self, header: Header, stamp: u64) -> Header {
        match self.stopwatch.stamp().saturating_sub(stamp) < self.config.shares_within {
            true => header.with_flags(header.flags() & !Announce::ASLEEP),
            false => header.with_flags(header.flags() | Announce::ASLEEP),
        }
    }

    /// The receiver of a send reads the front of it.
    pub(crate) fn asked_to_share(&mut self, index: u32, header: Header, payload: &[u8]) -> Todo {
        let (Some(slot), Some(share)) = (self.own_send(index, header.id()), Share::parse(payload)) else {
            return self.stray(index, "a part of no message to be written");
        };
        let request = self.requests.at_mut(slot);
        if request.phase != Phase::Waiting || request.lead != 0 || header.value() >= request.length {
            return Todo::Broken("a part of a message to be written that is not there");
        }
        (request.address, request.read, request.remote) = (share.address, header.value(), share.request);
        Todo::Share(slot)
    }

    /// The sender has written its part of a receive, or cannot.
    pub(crate) fn has_shared(&mut self, index: u32, header: Header) -> Todo {
        let peer = self.peers.at(index).id;
        let slot = self.requests.find(header.id()).filter(|&slot| {
            let request = self.requests.at(slot);
            request.peer == peer && request.is_shared() && request.flags & TRANSFERRING != 0
        });
        let Some(slot) = slot else { return self.stray(index, "word of a part that nobody asked for") };
        if self.requests.at(slot).header.flags() & Announce::ASLEEP != 0 {
            let now = self.stopwatch.stamp();
            self.peers.at_mut(index).naps.has_come(now);
        }
        let cannot = header.value() == 0;
        self.requests.at_mut(slot).flags &= if cannot { !(SHARES | TRANSFERRING) } else { !TRANSFERRING };
        Todo::Shared(slot)
    }
}
