//! Long messages inside a node that both ends copy, each a part, by the kernel.
//!
//! ```text
//! receiver                                  sender
//! lays out the last parts of what it will
//! read, and reads from the front            when it waits for something: takes the part that was laid out first
//! comes to a part: takes it back, reads on  writes it into the receiver's memory
//!                                      <--  Shared
//! when nothing is left: Taken          -->
//! ```
//!
//! One core copies 128 KiB in the time in which two copy 256. The table of parts ([`weft_api::shares`]) is in memory that both share, and the
//! receiver waits only for what its sender has taken: not for one that computes, or copies what it receives itself, and of which little is expected next. One that sleeps is
//! woken for a long message ([`crate::EngineConfig::shares_asleep_from`]), and takes what is left when it is awake. What is laid out first is the end
//! of the last message that is known, so that of a window the sender copies whole messages, and of a single one a part.
//!
//! From the laying out until the part is back, or copied, the receive's memory is its sender's ([`TRANSFERRING`]), whatever becomes of the receive,
//! unless the sender dies. A part that the sender cannot write the receiver reads.

use crate::arrive::Todo;
use crate::engine::{Engine, State};
use crate::offers::HELD;
use crate::requests::{LENT, Phase, Request, Requests, SHARES, TIMED, TRANSFERRING};
use std::collections::VecDeque;
use weft_api::Transport;
use weft_api::shares::{PLACES, Part};
use weft_types::PeerId;
use weft_wire::{Header, Kind};

/// Parts that nobody has taken, at most: while the receiver reads its own the sender copies one or two.
const AHEAD: usize = 3;
/// A whole message of this part of [`crate::EngineConfig::shares_from`] is laid out where it waits behind others.
const WHOLE: u64 = 3;
/// Messages that are read whole after one of which a sender that is busy copied nothing: 1, 2, 4, ... and in the end so many.
const LONGEST_PAUSE: u32 = 32;
/// What `entry` says of a receive of which nothing is laid out, in such a pause.
const SKIPPED: u32 = LENT - 1;
/// How often who has nothing more to read looks for the sender's word before it leaves: some ten microseconds.
const LOOKS: u32 = 500;
/// How much longer than the sender's part of a single message the receiver's is at most, which begins before, in bytes.
const LEAD: u64 = 16 << 10;
/// Where a part begins is counted in these: lines.
const UNIT: u64 = 64;

/// A part that is laid out or taken.
#[derive(Clone, Copy, Debug)]
struct Out {
    slot: u32,
    from: u64,
    length: u64,
    number: u64,
}

/// The parts of a peer's messages that it may copy.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// By place in the table.
    out: [Option<Out>; PLACES],
    /// Parts laid out so far.
    count: u64,
    /// Those that the peer could not write.
    refused: Vec<Out>,
    /// Whether there were such: it is not asked again.
    cannot: bool,
    /// Whether it has copied any since the last message ended; messages of which none is laid out next, and how many after that one of which it
    /// copies none.
    copied: bool,
    skip: u32,
    pause: u32,
}

impl Parts {
    /// A message of which parts were laid out has ended.
    fn has_ended(&mut self) {
        self.pause =
            if std::mem::take(&mut self.copied) { 0 } else { (self.pause * 2).clamp(1, LONGEST_PAUSE) };
        self.skip = self.pause;
    }

    fn free(&self) -> Option<usize> {
        self.out.iter().position(Option::is_none)
    }

    /// The part of a receive that was laid out last, with its place.
    fn last_of(&self, slot: u32) -> Option<(usize, Out)> {
        let places = self.out.iter().enumerate().filter_map(|(place, out)| out.map(|out| (place, out)));
        places.filter(|(_, out)| out.slot == slot).max_by_key(|(_, out)| out.number)
    }
}

/// What has become of the parts of a receive.
enum Back {
    /// There are none.
    Nothing,
    /// The last one is the receiver's again.
    One,
    /// The sender has all that are left.
    Taken,
}

impl Request {
    /// Whether parts of a receive that is read can be written by its sender.
    fn can_be_shared(&mut self) -> bool {
        self.lead == 0 && self.scattered.is_none() && self.recv_buf().as_mut_slice().is_some()
    }
}

impl Engine {
    /// Lays out parts of what is to be read from a peer for the peer to copy: of messages that wait for being read the last one first, and then of
    /// the `current` one, about half. False: its messages are not shared.
    pub(crate) fn lay_out(&mut self, id: PeerId, current: u32) -> bool {
        let Engine { state, fabric, .. } = self;
        let (from, most) = (u64::from(state.config.shares_from), u64::from(state.config.shares_part));
        let asleep_from = u64::from(state.config.shares_asleep_from);
        let shares = from != u64::from(u32::MAX) && !state.config.oversubscribed;
        if !shares || state.requests.at(current).wanted < from / WHOLE {
            return false;
        }
        let Some(table) = fabric.shares_of(id) else { return false };
        let Some(peer) = state.peers.find_mut(id) else { return false };
        let parts = peer.parts.get_or_insert_default();
        if parts.cannot {
            return false;
        }
        let request = state.requests.at_mut(current);
        if request.flags & SHARES == 0 {
            if request.entry != SKIPPED && parts.skip > 0 {
                parts.skip -= 1;
                request.entry = SKIPPED;
            }
            if request.entry == SKIPPED {
                return false;
            }
        }
        let (mut left, mut wakes) = (table.left(), None);
        while left < AHEAD
            && let Some(place) = parts.free()
            && let Some((slot, begin)) =
                next_part(&mut state.requests, &state.reading, (id, current), (from, most))
        {
            let request = state.requests.at_mut(slot);
            let length = request.read_until() - begin;
            if slot == current && parts.last_of(slot).is_some() && length < most {
                // Finer parts cost more than they even out.
                break;
            }
            let Some(room) = request.recv_buf().as_mut_slice() else { break };
            let address = room.as_mut_ptr().expose_provenance() as u64 + begin;
            if request.flags & SHARES == 0 && request.wanted >= asleep_from {
                wakes = Some(request.remote);
            }
            request.entry = (begin / UNIT) as u32;
            request.flags |= SHARES | TRANSFERRING;
            parts.count += 1;
            parts.out[place] = Some(Out { slot, from: begin, length, number: parts.count });
            table.lay_out(place, parts.count, Part { send: request.remote, from: begin, length, address });
            left += 1;
        }
        if let Some(remote) = wakes {
            self.send_control(id, Header::control(Kind::Share, remote, 0), &[]);
        }
        true
    }

    /// Takes the part of a receive back that was laid out last, if it is still there.
    fn regain(&mut self, id: PeerId, slot: u32) -> Back {
        let Engine { state, fabric, .. } = self;
        let Some(parts) = state.peers.find_mut(id).and_then(|peer| peer.parts.as_mut()) else {
            return Back::Nothing;
        };
        let Some((place, out)) = parts.last_of(slot) else { return Back::Nothing };
        if !fabric.shares_of(id).is_some_and(|table| table.take_back(place, out.number)) {
            return Back::Taken;
        }
        parts.out[place] = None;
        let more = parts.last_of(slot).is_some();
        let request = state.requests.at_mut(slot);
        request.entry = (out.from + out.length).div_ceil(UNIT) as u32;
        if !more {
            request.flags &= !TRANSFERRING;
        }
        Back::One
    }

    /// A receive whose own part is read: goes on with what its sender has not come to, waits for what that has, or ends.
    pub(crate) fn read_rest(&mut self, slot: u32, id: PeerId) {
        match self.regain(id, slot) {
            Back::One => self.state.reading.push_front(slot),
            Back::Nothing => self.has_read(slot, id),
            Back::Taken => {
                let own = self.state.requests.id(slot);
                self.state.requests.at_mut(slot).phase = Phase::Receiving;
                // Who is about to leave MPI shall not leave its sender behind.
                for _ in 0..if self.state.reading.is_empty() { LOOKS } else { 0 } {
                    std::hint::spin_loop();
                    self.drain(id);
                    let waits = |slot| {
                        let request = self.state.requests.at(slot);
                        request.phase == Phase::Receiving && request.flags & TRANSFERRING != 0
                    };
                    if !self.state.requests.find(own.0).is_some_and(waits) {
                        break;
                    }
                }
            }
        }
    }

    /// Everything of a receive by reading is here.
    fn has_read(&mut self, slot: u32, id: PeerId) {
        let request = self.state.requests.at_mut(slot);
        request.moved += request.wanted - u64::from(request.lead);
        request.phase = Phase::Receiving;
        let (remote, shared) = (request.remote, request.flags & SHARES != 0);
        let me = self.state.config.me;
        let from = self.state.peers.find_mut(id).map_or(0, |peer| {
            if let Some(parts) = peer.parts.as_mut().filter(|_| shared) {
                parts.has_ended();
            }
            peer.worth_announcing(me)
        });
        self.send_control(id, Header::control(Kind::Taken, remote, u64::from(from)), &[]);
        self.state.end_when_all_is_here(slot);
    }

    /// Takes back what can be taken back of a receive that is not read on.
    pub(crate) fn unshare(&mut self, slot: u32) {
        let id = self.state.requests.at(slot).peer;
        while matches!(self.regain(id, slot), Back::One) {}
        self.state.requests.at_mut(slot).flags &= !SHARES;
    }

    /// The sender has said of a part of a receive that it is over.
    pub(crate) fn go_on_reading(&mut self, slot: u32) {
        let id = self.state.requests.at(slot).peer;
        while let Some(out) = self.state.refused_part(id, slot) {
            let request = self.state.requests.at_mut(slot);
            if request.flags & SHARES == 0 {
                // All of it is streamed.
                continue;
            }
            let (address, range) =
                (request.address + out.from, out.from as usize..(out.from + out.length) as usize);
            let room = request.recv_buf().as_mut_slice().and_then(|all| all.get_mut(range));
            if room.is_none_or(|room| self.fabric.read_remote(id, address, room).is_err()) {
                self.cannot_read(slot);
            }
        }
        if self.state.has_parts(slot) {
            return;
        }
        let request = self.state.requests.at_mut(slot);
        request.flags &= !TRANSFERRING;
        if let Some(error) = request.error.take() {
            // The receive was given up meanwhile.
            request.flags &= !SHARES;
            return self.state.end_bereaved(slot, error);
        }
        if request.phase == Phase::Receiving && request.flags & SHARES != 0 {
            self.has_read(slot, id);
        }
    }

    /// Copies a part of a message that a receiver has laid out. True when there was one.
    #[cold]
    #[inline(never)]
    pub(crate) fn copy_part(&mut self) -> bool {
        for at in 0..self.state.lenders.len() {
            let id = self.state.peers.at(self.state.lenders[at]).id;
            let Some((place, part)) = self.fabric.shares_for(id).and_then(|table| table.take()) else {
                continue;
            };
            let slot = self.state.requests.find(part.send).filter(|&slot| {
                let request = self.state.requests.at(slot);
                request.peer == id && request.phase == Phase::Waiting && request.is_lent()
            });
            let bytes = slot.and_then(|slot| {
                let end = part.from.checked_add(part.length)?;
                self.state.requests.at(slot).send_buf().as_slice()?.get(part.from as usize..end as usize)
            });
            let wrote = bytes.is_some_and(|bytes| self.fabric.write_remote(id, part.address, bytes).is_ok());
            self.send_control(id, Header::control(Kind::Shared, place as u32, u64::from(wrote)), &[]);
            return true;
        }
        false
    }
}

/// The part of a message from a peer that is laid out next: where it begins in the receive of that slot.
fn next_part(
    requests: &mut Requests,
    reading: &VecDeque<u32>,
    (id, current): (PeerId, u32),
    (shares_from, most): (u64, u64),
) -> Option<(u32, u64)> {
    for &slot in reading.iter().rev().filter(|&slot| slot & HELD == 0) {
        let request = requests.at_mut(slot);
        let rest = request.read_until() - request.read;
        if slot == current
            || request.peer != id
            || rest == 0
            || request.wanted < shares_from / WHOLE
            || !request.can_be_shared()
        {
            continue;
        }
        let begin =
            if rest <= most { request.read } else { (request.read_until() - most).next_multiple_of(UNIT) };
        return Some((slot, begin));
    }
    let request = requests.at_mut(current);
    let rest = request.read_until() - request.read;
    if rest < shares_from || !request.can_be_shared() {
        return None;
    }
    // The front is a little longer, since the sender begins later.
    let front = (rest + (rest / 32).min(LEAD)) / 2 + UNIT;
    let begin = (request.read + front).max(request.read_until().saturating_sub(most)).next_multiple_of(UNIT);
    (begin < request.read_until()).then_some((current, begin))
}

impl State {
    /// A send was announced whose memory its receiver may read: parts of it may be laid out for this process.
    pub(crate) fn lend(&mut self, index: u32, slot: u32) {
        let request = self.requests.at_mut(slot);
        if self.config.oversubscribed || request.length < u64::from(self.config.shares_from) / WHOLE {
            return;
        }
        request.flags |= TIMED;
        request.entry = LENT;
        let peer = self.peers.at_mut(index);
        peer.lent += 1;
        if peer.lent == 1 {
            self.lenders.push(index);
        }
    }

    /// A send that was lent has ended.
    #[cold]
    pub(crate) fn no_longer_lent(&mut self, slot: u32) {
        let request = self.requests.at_mut(slot);
        request.flags &= !TIMED;
        let Some(index) = self.peers.index(request.peer) else { return };
        let peer = self.peers.at_mut(index);
        peer.lent -= 1;
        if peer.lent == 0 {
            self.lenders.retain(|&lender| lender != index);
        }
    }

    /// A part of a receive that its sender could not write.
    fn refused_part(&mut self, id: PeerId, slot: u32) -> Option<Out> {
        let refused = &mut self.peers.find_mut(id)?.parts.as_mut()?.refused;
        let at = refused.iter().position(|out| out.slot == slot)?;
        Some(refused.swap_remove(at))
    }

    /// Whether the sender of a receive has parts of it, or may take some.
    pub(crate) fn has_parts(&self, slot: u32) -> bool {
        let peer = self.peers.index(self.requests.at(slot).peer).map(|index| self.peers.at(index));
        peer.and_then(|peer| peer.parts.as_ref()?.last_of(slot)).is_some()
    }

    /// A receive ends without its sender, which is dead and writes nothing.
    pub(crate) fn forget_parts(&mut self, slot: u32) {
        let id = self.requests.at(slot).peer;
        let Some(parts) = self.peers.find_mut(id).and_then(|peer| peer.parts.as_mut()) else { return };
        if parts.last_of(slot).is_some() {
            parts
                .out
                .iter_mut()
                .filter(|out| out.is_some_and(|out| out.slot == slot))
                .for_each(|out| *out = None);
            self.requests.at_mut(slot).flags &= !(SHARES | TRANSFERRING);
        }
    }

    /// What the sender took of a receive is over.
    pub(crate) fn has_shared(&mut self, index: u32, header: Header) -> Todo {
        let parts = self.peers.at_mut(index).parts.as_mut();
        let out = parts.and_then(|parts| {
            let out = parts.out.get_mut(header.id() as usize)?.take()?;
            match header.value() {
                0 => {
                    parts.cannot = true;
                    parts.refused.push(out);
                }
                _ => parts.copied = true,
            }
            Some(out.slot)
        });
        match out {
            Some(slot) => Todo::Shared(slot),
            None => self.stray(index, "word of a part that nobody laid out"),
        }
    }
}

impl Request {
    /// Where the part that this process reads of a receive ends.
    pub(crate) fn read_until(&self) -> u64 {
        match self.flags & SHARES {
            0 => self.wanted,
            _ => (u64::from(self.entry) * UNIT).min(self.wanted),
        }
    }

    /// Whether a send is lent to its receiver ([`State::lend`]).
    pub(crate) const fn is_lent(&self) -> bool {
        self.flags & TIMED != 0 && self.entry == LENT
    }
}
