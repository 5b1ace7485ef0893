//! How long messages inside a node come, by the time that either way takes ([`weft_proto::Paces`]).
//!
//! The receiver decides and takes the time; it tells the sender from which length on messages of a burst are worth announcing
//! (with `Taken`). What the sender does meanwhile (data that follows its announcement unasked, or none) it does by what the
//! receiver did with the last message of such a length.

use crate::depart::SINGLE_PACKET;
use crate::engine::{Engine, State};
use crate::layouts::plan;
use crate::peers::Peer;
use crate::requests::{READS, TIMED};
use crate::types::EngineConfig;
use nix::time::{ClockId, clock_gettime};
use std::time::Instant;
use weft_datatype::SendBuf;
use weft_proto::{Paces, ReceivePlan};
use weft_types::PeerId;

/// Where the time of messages comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The machine's.
    #[default]
    Machine,
    /// Each look is later by a number that is drawn, always the same: for worlds that must repeat.
    Drawn,
}

/// Nanoseconds since an engine was made.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    clock: Clock,
    begun: Instant,
    drawn: u64,
    state: u64,
}

impl Stopwatch {
    pub(crate) fn new(clock: Clock) -> Stopwatch {
        Stopwatch { clock, begun: Instant::now(), drawn: 0, state: 1 }
    }

    /// Nanoseconds of a clock that all processes of a node share; not 0.
    pub(crate) fn stamp(&mut self) -> u64 {
        match self.clock {
            Clock::Machine => clock_gettime(ClockId::CLOCK_MONOTONIC)
                .map_or(1, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64),
            Clock::Drawn => self.now(),
        }
    }

    fn now(&mut self) -> u64 {
        match self.clock {
            Clock::Machine => self.begun.elapsed().as_nanos() as u64,
            Clock::Drawn => {
                // Knuth's generator for 64 bits (MMIX).
                self.state = self
                    .state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                self.drawn += self.state >> 52;
                self.drawn
            }
        }
    }
}

/// What a sender has seen its receiver do with announced messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habits {
    /// Lengths (as powers of two) of which something is known, and those that were read.
    known: u64,
    reads: u64,
    /// See [`Paces::announced_from`].
    announced_from: u32,
    /// How many more messages from there may begin before what it does with ours does not tell how both ways are done.
    news: u8,
    /// The same of ours, of whether its last message that could leave unasked, in several packets, was announced.
    seen: u8,
    announced: bool,
}

/// Messages from one process that may begin without one to it, or the other way round, and both still count as exchanged.
const RECENT: u8 = 64;

impl Habits {
    /// The receiver has read a message of that length, or asked for it.
    pub(crate) fn note(&mut self, length: u64, read: bool) {
        self.news = RECENT;
        let bit = 1 << length.max(1).ilog2();
        self.known |= bit;
        self.reads = if read { self.reads | bit } else { self.reads & !bit };
    }

    /// Whether the receiver will read a message of that length, if that is known.
    pub(crate) fn expected(&self, length: u64) -> Option<bool> {
        let bit = 1 << length.max(1).ilog2();
        (self.known & bit != 0).then_some(self.reads & bit != 0)
    }

    /// A message from there, that could leave unasked in several packets, was announced or was not.
    #[inline]
    pub(crate) fn see(&mut self, announced: bool) {
        (self.seen, self.announced) = (RECENT, announced);
    }

    /// Whether a message that may leave unasked is better announced. The calls that wait until it has left do not ask: a
    /// program may count on their end before the message is received.
    #[inline]
    pub(crate) fn announces(&self, length: u64) -> bool {
        self.announced_from != 0 && length >= u64::from(self.announced_from)
    }
}

impl EngineConfig {
    /// Whether the receiver is expected to read a message of that length from one run of memory.
    pub(crate) fn reads(&self, peer: &Peer, length: u64) -> bool {
        let known = if peer.is_compared() { peer.habits.expected(length) } else { None };
        known.unwrap_or_else(|| {
            plan(&peer.capabilities, self, length, true, [None; 2]) == ReceivePlan::SingleCopy
        })
    }
}

impl Peer {
    /// Whether either way to move a message between two runs of memory is open, so that the time they take decides.
    pub(crate) const fn is_compared(&self) -> bool {
        self.capabilities.compared && self.capabilities.single_copy
    }

    /// Whether a message that may leave unasked is announced: the receiver says that it is worth it, and the sender has found nothing else.
    #[inline]
    pub(crate) fn announces(&self, length: u64) -> bool {
        self.habits.announces(length) && self.rows.as_ref().is_none_or(|rows| rows.announces(length))
    }

    /// How this process receives ours at present, if it is for it to find out how both receive: the process with the lower number does.
    fn way_of_ours(&mut self, me: PeerId, length: u64) -> Option<ReceivePlan> {
        self.habits.news = self.habits.news.checked_sub(1)?;
        let read = self.habits.expected(length).filter(|_| self.id < me)?;
        Some(if read { ReceivePlan::SingleCopy } else { ReceivePlan::Stream })
    }

    /// Whether the next message to it, which its receiver would rather read, is announced.
    #[inline]
    fn next_is_announced(&mut self, me: PeerId, length: u64, now: impl FnOnce() -> u64) -> bool {
        let rows = self.rows.get_or_insert_default();
        let habits = &mut self.habits;
        let seen = habits.seen.checked_sub(1);
        habits.seen = seen.unwrap_or(0);
        match seen.filter(|_| self.id < me) {
            Some(_) => {
                rows.follow(length, habits.announced);
                habits.announced
            }
            None => rows.next_is_announced(length, now),
        }
    }

    /// What it is told of [`Paces::announced_from`]: what it tells us, where it finds out how both receive.
    pub(crate) fn worth_announcing(&self, me: PeerId) -> u32 {
        match self.habits.news > 0 && self.id < me {
            true => self.habits.announced_from,
            false => self.paces.as_deref().map_or(0, Paces::announced_from),
        }
    }

    /// The receiver says from which length on messages are worth announcing that could leave unasked ([`Paces::announced_from`]).
    pub(crate) fn announces_from(&mut self, length: u32) {
        if (length == 0) != (self.habits.announced_from == 0)
            && let Some(rows) = &mut self.rows
        {
            rows.told_anew();
        }
        self.habits.announced_from = length;
        let in_one_packet = self.limits.eager.min(SINGLE_PACKET);
        self.limits.single = match length {
            0 => in_one_packet,
            _ => in_one_packet.min(length - 1),
        };
    }
}

impl Engine {
    /// Whether a message that could leave unasked, in several packets, is announced so that its receiver finds out whether rows of such are
    /// better read ([`Rows`]).
    pub(crate) fn is_tried_in_row(&mut self, index: u32, buffer: &SendBuf) -> bool {
        let peer = self.state.peers.at(index);
        let length = buffer.len();
        let leaves_in_several = length > peer.limits.single as usize && length <= peer.limits.eager as usize;
        if !leaves_in_several
            || self.state.config.oversubscribed
            || peer.means.is_some()
            || peer.takes_turns()
            || peer.habits.announced_from != 0
            || buffer.plain().is_none()
        {
            return false;
        }
        self.ask_whether_readable(index);
        let peer = self.state.peers.at_mut(index);
        peer.is_compared() && peer.rows.get_or_insert_default().next_is_tried(length as u64)
    }

    /// Whether a message that could leave unasked is announced because its receiver would rather read it, and rows of such are over sooner so.
    #[inline]
    pub(crate) fn is_announced_in_row(&mut self, index: u32, length: u64) -> bool {
        let peer = self.state.peers.at_mut(index);
        if !peer.habits.announces(length) {
            return false;
        }
        let stopwatch = &mut self.state.stopwatch;
        length > u64::from(peer.limits.eager)
            || peer.next_is_announced(self.state.config.me, length, || stopwatch.now())
    }

    /// The way that the announced message of receive `slot` takes, which both could: what `prior` says until both are known.
    pub(crate) fn way_of(&mut self, index: u32, slot: u32, prior: ReceivePlan) -> ReceivePlan {
        let now = self.state.stopwatch.now();
        let request = self.state.requests.at_mut(slot);
        let me = self.state.config.me;
        let peer = self.state.peers.at_mut(index);
        let others = peer.way_of_ours(me, request.wanted);
        let plan = peer.paces.get_or_insert_default().begin(request.wanted, prior, others, now);
        request.flags |= if plan == ReceivePlan::SingleCopy { TIMED | READS } else { TIMED };
        plan
    }
}

impl State {
    /// A message that was timed has ended, well or not.
    #[cold]
    #[inline(never)]
    pub(crate) fn way_has_ended(&mut self, slot: u32, well: bool) {
        let now = self.stopwatch.now();
        let request = self.requests.at_mut(slot);
        let plan = if request.flags & READS != 0 { ReceivePlan::SingleCopy } else { ReceivePlan::Stream };
        request.flags &= !(TIMED | READS);
        let (peer, bytes) = (request.peer, request.wanted);
        let Some(paces) = self.peers.find_mut(peer).and_then(|peer| peer.paces.as_mut()) else { return };
        if well {
            paces.end(plan, bytes, now);
        } else {
            paces.give_up(plan);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Peers;
    use crate::transports::NONE;

    /// One of a number.
    fn peer(peers: &mut Peers, id: u32) -> &mut Peer {
        let index = peers.insert(PeerId(id), 1 << 20, 8, NONE);
        peers.at_mut(index)
    }

    #[test]
    fn the_process_with_the_higher_number_does_as_the_other_one_for_a_while() {
        let (low, high) = (PeerId(1), PeerId(2));
        let mut peers = Peers::default();
        let peer = peer(&mut peers, low.0);
        assert_eq!(peer.way_of_ours(high, 1 << 17), None, "nothing is known");
        peer.habits.note(1 << 17, true);
        peer.announces_from(40_000);
        assert_eq!(peer.worth_announcing(high), 40_000);
        assert_eq!(peer.worth_announcing(PeerId(0)), 0, "who has the lower number goes by what it has timed");
        for _ in 0..RECENT {
            assert_eq!(peer.way_of_ours(high, 1 << 17), Some(ReceivePlan::SingleCopy));
        }
        assert_eq!(peer.way_of_ours(high, 1 << 17), None, "it takes nothing any more");
        assert_eq!(peer.worth_announcing(high), 0);
        peer.habits.note(1 << 17, false);
        assert_eq!(peer.way_of_ours(PeerId(0), 1 << 17), None);
        assert_eq!(peer.way_of_ours(high, 1 << 17), Some(ReceivePlan::Stream));
        assert_eq!(peer.way_of_ours(high, 1 << 20), None, "of such lengths nothing is known");
    }

    #[test]
    fn rows_go_as_those_of_the_process_with_the_lower_number_for_a_while() {
        let high = PeerId(2);
        let mut peers = Peers::default();
        let peer = peer(&mut peers, 1);
        peer.announces_from(40_000);
        let next = |peer: &mut Peer| peer.next_is_announced(high, 64 << 10, || 0);
        assert!(next(peer) && peer.announces(64 << 10), "as the receiver says");
        peer.habits.see(false);
        for _ in 0..RECENT {
            assert!(!next(peer) && !peer.announces(64 << 10));
        }
        peer.habits.see(true);
        assert!(next(peer) && peer.announces(64 << 10));
        peer.announces_from(0);
        assert!(!peer.announces(64 << 10));
    }
}
