//! Packets to one peer that leave together, in one message of the library: where each is a system call, that is most of what a short one costs.
//!
//! Only where the kernel's sockets carry them ([`crate::offer::Offer::pays_calls`]). Within a turn (`progress` to `push_out`) all short packets
//! wait for its end. Outside, the first [`ROW`] in a row to one peer leave at once, so that programs that post a few and then compute
//! keep nothing back; those that follow leave by [`COMPANY`], or with `push_out`, if the owner says that calls may keep each other company.
//!
//! What is kept counts as sent: it has its number and its place in the window, and its slot in those with data. Nothing else goes to the peer before it
//! (`Ofi::let_leave` comes first everywhere), so numbers in other messages never run ahead of packets. What the library refuses for now stays and is
//! offered in the next turn; who loses the peer drops it. The program may call nothing for long after a call that waits, whose packets were taken long
//! before: so its end moves what is refused, for a while ([`INSISTENCE`]).
//!
//! Nothing is kept for a peer that was not reached yet: the library refuses everything until there is a connection, which takes until the peer looks,
//! and it may compute for long. So the owner hears of the refusal, and a call that waits for its message does not end before it has left.

use super::{Ofi, Use};
use crate::clock;
use crate::packet::{Together, What};
use crate::slots::Slot;
use std::time::Duration;
use weft_api::{Refused, Transport};
use weft_wire::Header;

/// Packets to one peer in a row, outside of turns, that leave at once.
const ROW: u32 = 4;
/// Of those that follow, so many leave together.
const COMPANY: u32 = 32;
/// The longest payload that waits for company: several of them fit into a message.
const SHORT: usize = 16 << 10;

/// How long after the first refusal the end of a call goes on offering to a peer that was reached before.
const INSISTENCE: Duration = Duration::from_millis(100);

/// Packets that wait in a slot.
#[derive(Debug)]
pub(crate) struct Kept {
    slot: Slot,
    together: Together,
}

/// What packets wait for.
#[derive(Debug, Default)]
pub(super) struct Company {
    /// Whether anything ever waits.
    pub(super) gathers: bool,
    /// A turn is under way.
    in_turn: bool,
    /// Calls may keep each other company.
    across_calls: bool,
    /// The peer that was sent to last outside of turns, how often in a row, and how many of these were kept back since any left.
    last: Option<u32>,
    in_row: u32,
    kept_back: u32,
    /// Peers with packets that wait.
    pub(super) peers: Vec<u32>,
    /// Peers that the owner has something for that the library has refused, as until there is a connection.
    unreached: Vec<u32>,
}

impl Company {
    /// Whether the next packet to a peer may wait.
    fn waits(&mut self, number: u32) -> bool {
        if self.in_turn || !self.across_calls {
            return self.in_turn;
        }
        if self.last.replace(number) != Some(number) {
            (self.in_row, self.kept_back) = (0, 0);
        }
        self.in_row += 1;
        if self.in_row <= ROW {
            return false;
        }
        self.kept_back = (self.kept_back + 1) % COMPANY;
        self.kept_back != 0
    }

    /// The library has refused what was sent to a peer that was not reached yet.
    #[cold]
    pub(super) fn waits_to_reach(&mut self, number: u32) {
        if !self.unreached.contains(&number) {
            self.unreached.push(number);
        }
    }

    fn end_row(&mut self) {
        (self.last, self.in_row, self.kept_back) = (None, 0, 0);
    }
}

impl Ofi {
    /// Whether packets that calls send may wait for each other until [`weft_api::Transport::push_out`] or progress. Whether any do.
    pub fn keep_company(&mut self, keep: bool) -> bool {
        self.company.across_calls = keep && self.company.gathers;
        self.end_turn();
        self.company.across_calls
    }

    /// Whether the kernel's sockets carry everything, and no device.
    pub fn is_by_sockets(&self) -> bool {
        self.company.gathers
    }

    /// Whether any packet was sent outside of turns since the last one, or since `push_out`.
    pub fn is_in_row(&self) -> bool {
        self.company.in_row > 0
    }

    /// Bytes of the longest packet that may wait for company.
    pub(crate) fn sent_together(&self) -> usize {
        SHORT
    }

    /// Messages of packets that the library was given so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Requests to read or write the program's memory that the library was given so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    pub(super) fn begin_turn(&mut self) {
        if !self.waiting.is_empty() {
            self.begin_waiting();
        }
        self.leave_all();
        self.company.in_turn = self.company.gathers;
    }

    /// Whether what is begun may wait for the end of a turn.
    pub(crate) fn in_turn(&self) -> bool {
        self.company.in_turn
    }

    #[inline]
    pub(super) fn end_turn(&mut self) {
        self.company.in_turn = false;
        self.company.end_row();
        if !self.waiting.is_empty() {
            self.begin_waiting();
        }
        self.leave_all();
    }

    /// Whether the library has refused something that it may take without a word of its own, or a time goes on that nobody tells the end of.
    pub(super) fn is_refused(&mut self) -> bool {
        let peers = &self.peers;
        self.company.unreached.retain(|&number| {
            let peer = &peers[number as usize];
            !(peer.reached || peer.gone)
        });
        let packets = self.company.peers.is_empty() && self.company.unreached.is_empty();
        let packets = packets && self.strangers.is_empty();
        let nothing = packets && self.waiting.is_empty() && self.due.is_empty() && self.doubted.is_empty();
        !nothing || self.posted == 0
    }

    /// Whether the library has refused packets that wait, not long ago.
    #[inline]
    pub(super) fn holds_back(&self) -> bool {
        let fresh = |&number: &u32| {
            let since = self.peers[number as usize].stuck;
            since.is_some_and(|since| clock::since(since) < INSISTENCE)
        };
        self.company.peers.iter().any(fresh)
    }

    /// Offers them until they are taken or it is in vain.
    #[cold]
    pub(super) fn insist(&mut self) {
        while self.holds_back() {
            self.progress();
            self.end_turn();
            std::thread::yield_now();
        }
    }

    fn leave_all(&mut self) {
        for at in (0..self.company.peers.len()).rev() {
            let number = self.company.peers[at];
            if self.let_leave(number) != Err(Refused::Full) {
                self.company.peers.swap_remove(at);
            }
        }
    }

    /// Puts a packet to those that wait, where there are some or it may wait itself. `None`: it did; what `fill` was is given back otherwise, and
    /// nothing waits.
    pub(super) fn keep<F: FnOnce(&mut [u8])>(
        &mut self,
        number: u32,
        header: Header,
        len: usize,
        fill: F,
    ) -> Result<Option<F>, Refused> {
        if !(self.company.gathers && self.peers[number as usize].reached) {
            return Ok(Some(fill));
        }
        let waits = self.company.waits(number) && len <= SHORT;
        let room = self.longest;
        if let Some(kept) = &self.peers[number as usize].kept
            && !(len <= SHORT && kept.together.has_room(len, room))
        {
            self.let_leave(number)?;
        }
        if self.peers[number as usize].kept.is_none() {
            if !waits || !Together::NONE.has_room(len, room) {
                return Ok(Some(fill));
            }
            let slot = self.slot_for_data().ok_or(Refused::Full)?;
            self.sending += 1;
            self.peers[number as usize].kept = Some(Kept { slot, together: Together::NONE });
            if !self.company.peers.contains(&number) {
                self.company.peers.push(number);
            }
        }
        let peer = &mut self.peers[number as usize];
        let kept = peer.kept.as_mut().expect("there is one now");
        kept.together.put(self.slots.bytes_mut(kept.slot, room), header, len, fill);
        peer.flow.was_sent();
        self.go_on();
        if !waits {
            // It counts as sent already: what does not leave now is offered again.
            let _ = self.let_leave(number);
        }
        Ok(None)
    }

    /// Sends what waits for a peer, before anything else goes there.
    ///
    /// # Errors
    /// Not now, or never.
    #[inline]
    pub(crate) fn let_leave(&mut self, number: u32) -> Result<(), Refused> {
        if self.peers[number as usize].kept.is_none() { Ok(()) } else { self.send_kept(number) }
    }

    fn send_kept(&mut self, number: u32) -> Result<(), Refused> {
        let mut prefix = self.prefix(number, What::Data);
        let peer = &mut self.peers[number as usize];
        let Some(Kept { slot, together }) = peer.kept.take() else { return Ok(()) };
        prefix.sequence = prefix.sequence.wrapping_sub(together.count());
        let bytes = together.close(self.slots.bytes_mut(slot, self.longest), prefix);
        let sent = if bytes <= self.inject {
            let sent = self.slots.inject(slot, bytes, peer.address);
            if sent.is_ok() {
                self.sending -= 1;
                self.slots.give_back(slot);
            }
            sent
        } else {
            let sent = self.slots.send(slot, bytes, peer.address);
            if sent.is_ok() {
                self.uses[slot.index()] = Use::Send(number);
                peer.in_flight += 1;
                peer.stuck = None;
            }
            sent
        };
        match sent {
            Ok(()) => {
                peer.flow.news();
                self.messages += 1;
                Ok(())
            }
            Err(denied) => {
                peer.kept = Some(Kept { slot, together });
                Err(self.refused(number, denied))
            }
        }
    }

    /// Nothing that waits will ever arrive.
    pub(crate) fn drop_kept(&mut self, number: u32) {
        if let Some(Kept { slot, .. }) = self.peers[number as usize].kept.take() {
            self.sending -= 1;
            self.slots.give_back(slot);
        }
    }
}
