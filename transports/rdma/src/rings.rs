//! Which peers have a ring ([`crate::ring`]), and messages by rings.
//!
//! * A receiver gives a ring to a peer that has sent many messages by its connection, on the device of that connection, if one
//!   is free; there are few, so memory does not grow with peers. When all are given, the one unused longest is asked back, if
//!   it is unused for a moment.
//! * Nothing tells a sleeping process of a record: a ring that nothing came by for a while is asked back, and as long as there
//!   are others a sleep is a short one, on devices that work by themselves: an eighth of the time that nothing came, so that a
//!   record waits little longer than it was waited for anyway, and nobody wakes a thousand times a second beside a peer that
//!   computes.
//! * Whoever gives back says so by a send: everything it wrote is there before. Rings end with their connection.

use crate::flight::{Deed, Holds};
use crate::peers::{Arrived, State};
use crate::posting::header_bytes;
use crate::rail::{MOST_RAILS, Rail};
use crate::ring::{Incoming, Outgoing, PLACE_BYTES, PLACES, TAIL_BYTES, Word, fits, tail_at};
use crate::slots::Slots;
use crate::transport::{HEADER_BYTES, Rdma};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_api::Refused;
use weft_api::verbs::{Access, Completion, Data, Hca, HcaLimits, Nanos, RemoteAddress, Segment, Work};
use weft_types::params::Choice;
use weft_wire::Header;

/// Rings of a process at a time: half a MiB.
const MOST_RINGS: u32 = 16;
/// Messages of a peer between which it is thought about whether it gets a ring.
const MANY: u32 = 64;
/// A ring is given to another peer when nothing came by it for so long, and back when it is longer.
const UNUSED: Nanos = 10_000_000;
const FORGOTTEN: Nanos = 100_000_000;
/// The longest sleep beside rings that nothing tells of, at least and at most: between them, this part of the time since
/// something came by one.
const SHORTEST_NAP: Nanos = 1_000_000;
const LONGEST_NAP: Nanos = 100_000_000;
const PART_OF_SILENCE: Nanos = 8;

/// The rings between two processes.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    /// At the peer, written to by this end.
    pub(crate) out: Option<Outgoing>,
    /// Of this end, written to by the peer.
    pub(crate) own: Option<Incoming>,
    /// It stands in the list of those to whom something must be said.
    owing: bool,
    /// The ring at the peer was asked back, and nothing more is written there.
    returns: bool,
}

/// All rings of this process.
#[derive(Debug)]
pub(crate) struct Rings {
    choice: Choice,
    /// How many there may be, and how many messages of a peer it takes (a power of two); 0 rings: none.
    most: u32,
    many: u32,
    /// Whether the device works while nobody calls it, and so also while this process sleeps.
    by_itself: bool,
    /// Memory of rings by rail, once there was one.
    blocks: [Option<Slots>; MOST_RAILS],
    /// Peers that have one, and how many of those are looked at, since nothing tells of records.
    given: Vec<u32>,
    watched: usize,
    /// When something came last by one of those, or one was given.
    newest: Nanos,
    /// The longest sleep in nanoseconds, 0: any. Bells read it ([`weft_api::Bells::at_most`]).
    nap: Arc<AtomicU64>,
    /// Peers to whom something must be said.
    owing: Vec<u32>,
    /// A device did not promise to write in order.
    unpromised: bool,
}

impl Rings {
    pub(crate) fn new(choice: Choice, limits: &HcaLimits) -> Rings {
        let none = choice == Choice::Off || choice == Choice::Auto && limits.works_in_calls;
        Rings {
            choice,
            most: if none { 0 } else { MOST_RINGS },
            many: MANY,
            by_itself: !limits.works_in_calls,
            blocks: Default::default(),
            given: Vec::new(),
            watched: 0,
            newest: 0,
            nap: Arc::default(),
            owing: Vec::new(),
            unpromised: false,
        }
    }

    /// What bells read: the longest sleep in nanoseconds, 0: any.
    pub(crate) fn nap(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.nap)
    }

    /// Says how long a sleep may be at most from now on. Whoever sleeps meanwhile is woken by the message that got a ring for
    /// its sender; a nap that has begun goes on.
    fn set_nap(&self, now: Nanos) {
        let part = now.saturating_sub(self.newest) / PART_OF_SILENCE;
        let nap = match self.by_itself && self.watched > 0 {
            true => part.clamp(SHORTEST_NAP, LONGEST_NAP),
            false => 0,
        };
        // Others may be reading, and it is the same for long.
        if self.nap.load(Ordering::Relaxed) != nap {
            self.nap.store(nap, Ordering::Relaxed);
        }
    }
}

impl<H: Hca> Rdma<H> {
    /// Sets whether peers that talk often write their short messages into rings; auto: where the device gains by it. Before the
    /// first message.
    pub fn set_rings(&mut self, choice: Choice) {
        // Bells that were fetched before go on reading it.
        let nap = self.rings.nap();
        self.rings = Rings { nap, ..Rings::new(choice, &self.limits) };
    }

    /// Sets how many rings there may be at a time, and how many messages of a peer, a power of two, it takes to get one.
    pub fn set_ring_limits(&mut self, most: u32, many: u32) {
        assert!(many.is_power_of_two(), "{many} messages");
        if self.rings.most > 0 {
            (self.rings.most, self.rings.many) = (most, many);
        }
    }

    /// Whether there are rings, and why or why not, as far as is known.
    pub fn why_rings(&self) -> &'static str {
        let Rings { choice, most, by_itself, unpromised, .. } = &self.rings;
        match (choice, unpromised) {
            (Choice::Off, _) => "none (WEFT_RINGS=no)",
            (Choice::Auto, _) if !by_itself => {
                "none: the device is a program that looks at every packet anyway (WEFT_RINGS=yes has some)"
            }
            (Choice::Auto, true) => "none: the device does not promise to write bytes in order",
            _ if *most == 0 => "none: there was no memory for them",
            (Choice::Auto, false) => {
                "for peers that talk often, where the device says of a connection that it writes bytes in order"
            }
            (Choice::On, false) => "for peers that talk often (WEFT_RINGS=yes)",
            (Choice::On, true) => {
                "for peers that talk often, and each record completes a receive request, since the device does not promise to write bytes in order (WEFT_RINGS=yes)"
            }
        }
    }

    /// Peers that have a ring now.
    pub fn rings(&self) -> usize {
        self.rings.given.len()
    }

    /// A message of a peer came by send: it may be one that talks often.
    #[inline]
    pub(crate) fn may_give_ring(&mut self, index: u32, now: Nanos) {
        if self.rings.most > 0 && self.peers.at(index).received & (self.rings.many - 1) == 0 {
            self.give_ring(index, now);
        }
    }

    fn give_ring(&mut self, index: u32, now: Nanos) {
        let peer = self.peers.at(index);
        let rail = peer.rail;
        let has = peer.rings.as_ref().is_some_and(|pair| pair.own.is_some());
        let open = matches!(peer.state, State::Open { .. });
        if has || !open || peer.resting || peer.channel > 0 {
            return;
        }
        if self.rings.given.len() >= self.rings.most as usize {
            let used = |&index: &u32| {
                let own = self.peers.at(index).rings.as_ref().and_then(|pair| pair.own);
                own.map_or((false, now), |own| (own.asked, own.used))
            };
            // One at a time.
            if let Some(oldest) = self.rings.given.iter().copied().min_by_key(used) {
                self.ask_back(oldest, now, UNUSED);
            }
            return;
        }
        // Asked of the connection: what is open may be in order where others are not.
        let told = !self.rails[usize::from(rail)].hca.writes_in_order(self.peers.at(index).pair);
        self.rings.unpromised |= told;
        if told && self.rings.choice == Choice::Auto {
            // The device will say the same of the next one.
            self.rings.most = self.rings.given.len() as u32;
            return;
        }
        let Some((block, to)) = self.take_block(rail) else { return };
        let word = Word::Give { to, places: PLACES, place_bytes: PLACE_BYTES, told };
        if self.post_word(index, word).is_err() {
            return self.free_block(rail, block);
        }
        let pair = self.peers.at_mut(index).rings.get_or_insert_default();
        pair.own = Some(Incoming::new(block, told, now));
        self.rings.given.push(index);
        self.rings.watched += usize::from(!told);
        self.rings.newest = now;
        self.rings.set_nap(now);
    }

    /// A free block on a rail, with no tail in it, and where peers find it.
    fn take_block(&mut self, rail: u8) -> Option<(u32, RemoteAddress)> {
        let own = &mut self.rails[usize::from(rail)];
        let blocks = &mut self.rings.blocks[usize::from(rail)];
        if blocks.is_none() {
            let Some(made) = make_blocks(own, self.rings.most) else {
                // It goes without, for good.
                self.rings.most = self.rings.given.len() as u32;
                return None;
            };
            *blocks = Some(made);
        }
        let blocks = blocks.as_mut()?;
        let block = blocks.take()?;
        let (address, key) = (blocks.address(0, block), blocks.remote_key(0));
        for place in 0..u32::from(PLACES) {
            let tail = address + tail_at(place, PLACES, PLACE_BYTES);
            own.hca.bytes_mut(tail, TAIL_BYTES).fill(0);
        }
        Some((block, RemoteAddress { address, key }))
    }

    fn free_block(&mut self, rail: u8, block: u32) {
        if let Some(blocks) = &mut self.rings.blocks[usize::from(rail)] {
            blocks.give_back(block);
        }
    }

    /// Says something of rings to a peer.
    fn post_word(&mut self, index: u32, word: Word) -> Result<(), Refused> {
        if !matches!(self.peers.at(index).state, State::Open { .. }) || !self.has_room(index, 1) {
            return Err(Refused::Full);
        }
        let work = Work::Send { immediate: Some(Word::MARK) };
        self.post(index, Deed::Nothing, work, Data::Inline(&[&word.emit()]), Holds::Nothing)
    }

    /// Something that is no message came by a connection: a word, or a write that tells of itself.
    pub(crate) fn word_came(&mut self, index: u32, word: Option<Word>, now: Nanos) {
        self.peers.at_mut(index).heard = now;
        match word {
            Some(give @ Word::Give { .. }) => {
                let peer = self.peers.at_mut(index);
                let messages = peer.flight.messages_ever();
                let out = Outgoing::new(give, messages);
                peer.flight.leave_messages(true);
                peer.rings.get_or_insert_default().out = out;
            }
            Some(Word::TakeBack) => {
                let peer = self.peers.at_mut(index);
                peer.flight.leave_messages(false);
                let pair = peer.rings.get_or_insert_default();
                (pair.out, pair.returns) = (None, true);
                self.owe(index);
            }
            Some(Word::Returned) => self.forget_own(index),
            None => {}
        }
    }

    /// A write completed a receive request: it is a record, or it says how many the peer took, or both.
    pub(crate) fn written(&mut self, index: u32, done: &Completion, now: Nanos) {
        let own = self.peers.at(index).rings.as_ref().and_then(|pair| pair.own);
        if done.bytes > 0 && own.is_some_and(|own| own.told) {
            // This one alone is known to be there whole.
            self.drain_own(index, 1, now);
        }
        let peer = self.peers.at_mut(index);
        peer.heard = now;
        if let Some(taken) = done.immediate
            && let Some(out) = peer.rings.as_mut().and_then(|pair| pair.out.as_mut())
        {
            out.heard(taken as u16);
        }
    }

    /// Takes in the records of a peer that are there and next, where nothing tells of them. Whether there was one.
    #[inline]
    pub(crate) fn drain(&mut self, index: u32, now: Nanos) -> bool {
        let own = self.peers.at(index).rings.as_ref().and_then(|pair| pair.own.as_ref());
        own.is_some_and(|own| !own.told) && self.drain_own(index, PLACES, now)
    }

    fn drain_own(&mut self, index: u32, most: u16, now: Nanos) -> bool {
        let mut news = false;
        let peer = self.peers.at_mut(index);
        let rail = usize::from(peer.rail);
        let Some(Pair { out, own: Some(own), .. }) = peer.rings.as_deref_mut() else { return false };
        let Some(blocks) = &self.rings.blocks[rail] else { return false };
        let begin = blocks.address(0, own.block);
        let mut left = most;
        while left > 0
            && let Some(at) = own.next()
            && let Some(tail) = own.is_next(self.rails[rail].hca.word(begin + at), peer.received)
        {
            if !fits(tail) {
                // Nothing it says can be trusted.
                self.lose(index);
                return true;
            }
            let place = own.saw();
            left -= 1;
            own.used = now;
            // What comes once more was posted before there was a ring.
            debug_assert!(peer.beyond == 0);
            peer.received = peer.received.wrapping_add(1);
            peer.inbox.push_back(Arrived::Record { place, bytes: tail.length });
            if let Some(out) = out {
                out.heard(tail.taken);
            }
            news = true;
        }
        if news {
            (peer.resting, peer.heard) = (false, now);
            self.rings.newest = now;
            if !std::mem::replace(&mut peer.listed, true) {
                self.ready.push_back(index);
            }
        }
        news
    }

    /// A record, still in its place.
    pub(crate) fn record(&self, index: u32, place: u16, bytes: u16) -> &[u8] {
        let peer = self.peers.at(index);
        let own = peer.rings.as_ref().and_then(|pair| pair.own);
        let blocks = self.rings.blocks[usize::from(peer.rail)].as_ref();
        let (Some(own), Some(blocks)) = (own, blocks) else {
            unreachable!("records are copied before their ring goes")
        };
        let tail = blocks.address(0, own.block) + tail_at(place.into(), PLACES, PLACE_BYTES);
        self.rails[usize::from(peer.rail)].hca.bytes(tail - u64::from(bytes), bytes.into())
    }

    /// A record will not be looked at any more.
    pub(crate) fn record_taken(&mut self, index: u32) {
        let own = self.peers.at_mut(index).rings.as_mut().and_then(|pair| pair.own.as_mut());
        if own.is_some_and(Incoming::took) {
            self.owe(index);
        }
    }

    fn owe(&mut self, index: u32) {
        if let Some(pair) = &mut self.peers.at_mut(index).rings
            && !std::mem::replace(&mut pair.owing, true)
        {
            self.rings.owing.push(index);
        }
    }

    /// Looks whether records have come, asks for rings that are not used, and says what must be said. Whether something has come.
    #[inline]
    pub(crate) fn look_at_rings(&mut self, now: Nanos) -> bool {
        if self.rings.given.is_empty() && self.rings.owing.is_empty() {
            return false;
        }
        self.look_at_all(now)
    }

    fn look_at_all(&mut self, now: Nanos) -> bool {
        let mut news = false;
        for at in 0..self.rings.given.len() {
            let index = self.rings.given[at];
            if !self.drain(index, now) {
                self.ask_back(index, now, FORGOTTEN);
            } else {
                news = true;
            }
        }
        self.rings.set_nap(now);
        for at in (0..self.rings.owing.len()).rev() {
            let index = self.rings.owing[at];
            if self.say_owed(index) {
                self.rings.owing.swap_remove(at);
                if let Some(pair) = &mut self.peers.at_mut(index).rings {
                    pair.owing = false;
                }
            }
        }
        news
    }

    /// Asks a ring back by which nothing came for so long.
    fn ask_back(&mut self, index: u32, now: Nanos, unused: Nanos) {
        let own = |rdma: &Self| rdma.peers.at(index).rings.as_ref().and_then(|pair| pair.own);
        let due = own(self).is_some_and(|own| !own.asked && now.saturating_sub(own.used) >= unused);
        if due
            && self.post_word(index, Word::TakeBack).is_ok()
            && let Some(Pair { own: Some(own), .. }) = self.peers.at_mut(index).rings.as_deref_mut()
        {
            own.asked = true;
        }
    }

    /// Says what a peer must hear. Whether that is done, or needless.
    fn say_owed(&mut self, index: u32) -> bool {
        let peer = self.peers.at(index);
        let Some(pair) = &peer.rings else { return true };
        if matches!(peer.state, State::Parting { .. }) {
            return false; // It may be kept after all.
        }
        if !matches!(peer.state, State::Open { .. }) {
            return true; // It ends with the connection.
        }
        if pair.returns {
            if self.post_word(index, Word::Returned).is_err() {
                return false;
            }
            if let Some(pair) = &mut self.peers.at_mut(index).rings {
                pair.returns = false;
            }
        }
        let own = |rdma: &Self| rdma.peers.at(index).rings.as_ref().and_then(|pair| pair.own);
        let Some(owed) = own(self).filter(Incoming::owes) else { return true };
        if !self.has_room(index, 1) {
            return false;
        }
        let work = Work::Write { to: crate::contact::NOWHERE, immediate: Some(owed.taken().into()) };
        if self.post(index, Deed::Nothing, work, Data::Segments(&[]), Holds::Nothing).is_err() {
            return false;
        }
        if let Some(Pair { own: Some(own), .. }) = self.peers.at_mut(index).rings.as_deref_mut() {
            own.has_said();
        }
        true
    }

    /// The rings of a connection that is no more, whose device has let go of their memory: what came is taken in.
    pub(crate) fn end_rings(&mut self, index: u32, now: Nanos) {
        if self.peers.at(index).rings.is_none() {
            return;
        }
        self.drain(index, now);
        self.forget_own(index);
        self.rings.owing.retain(|&owing| owing != index);
        let peer = self.peers.at_mut(index);
        peer.flight.leave_messages(false);
        peer.rings = None;
    }

    /// Nothing more is written to the own ring: what was not taken is copied.
    fn forget_own(&mut self, index: u32) {
        let Some(own) = self.peers.at(index).rings.as_ref().and_then(|pair| pair.own) else { return };
        let rail = self.peers.at(index).rail;
        let mut inbox = std::mem::take(&mut self.peers.at_mut(index).inbox);
        for arrived in &mut inbox {
            if let &mut Arrived::Record { place, bytes } = arrived {
                *arrived = Arrived::Letter(self.record(index, place, bytes).into());
            }
        }
        let peer = self.peers.at_mut(index);
        peer.inbox = inbox;
        if let Some(pair) = &mut peer.rings {
            pair.own = None;
        }
        self.free_block(rail, own.block);
        self.rings.watched -= usize::from(!own.told);
        self.rings.set_nap(self.now());
        self.rings.given.retain(|&given| given != index);
    }

    /// Where a record of so many bytes goes, its tail, and its immediate data.
    fn place_of(&self, index: u32, length: usize) -> Option<(Work, [u8; TAIL_BYTES])> {
        let peer = self.peers.at(index);
        let pair = peer.rings.as_ref()?;
        let out = pair.out.as_ref()?;
        let taken = pair.own.map_or(0, |own| own.taken());
        let (to, tail) = out.place(length, peer.flight.next(), peer.mtu, taken)?;
        Some((Work::Write { to, immediate: out.told.then_some(taken.into()) }, tail))
    }

    /// Writes a message into the ring of an open peer, if there is one that takes it: `None`, it must be sent.
    #[inline]
    pub(crate) fn write_record(
        &mut self,
        index: u32,
        header: Header,
        payload: &[u8],
    ) -> Option<Result<(), Refused>> {
        self.peers.at(index).rings.as_ref()?;
        let (work, tail) = self.place_of(index, HEADER_BYTES + payload.len())?;
        if HEADER_BYTES + payload.len() + TAIL_BYTES > self.limits.max_inline as usize {
            return None;
        }
        let header = header_bytes(header);
        let parts = [&header[..], payload, &tail];
        Some(self.post_record(index, work, Data::Inline(&parts), Data::Inline(&parts[..2]), Holds::Nothing))
    }

    /// As [`Rdma::write_record`], a message of `length` bytes that is in a slot with room for its tail behind it.
    #[inline]
    pub(crate) fn write_filled_record(
        &mut self,
        index: u32,
        slot: u32,
        segment: Segment,
    ) -> Option<Result<(), Refused>> {
        self.peers.at(index).rings.as_ref()?;
        let (work, tail) = self.place_of(index, segment.length as usize)?;
        let rail = usize::from(self.peers.at(index).rail);
        let end = segment.address + u64::from(segment.length);
        self.rails[rail].hca.bytes_mut(end, TAIL_BYTES).copy_from_slice(&tail);
        let whole = [Segment { length: segment.length + TAIL_BYTES as u32, ..segment }];
        let data = (Data::Segments(&whole), Data::Segments(&[segment]));
        Some(self.post_record(index, work, data.0, data.1, Holds::Slot(slot)))
    }

    /// Posts a record. What is kept of it is the message alone, since it is repeated by send.
    fn post_record(
        &mut self,
        index: u32,
        work: Work,
        data: Data<'_>,
        kept: Data<'_>,
        holds: Holds,
    ) -> Result<(), Refused> {
        if !self.post_kept(index, Deed::Message, work, (data, kept), holds)? {
            return Ok(()); // The ring ends with the connection.
        }
        self.counts.records += 1;
        if let Some(pair) = &mut self.peers.at_mut(index).rings {
            if let Some(out) = &mut pair.out {
                out.wrote();
            }
            if let Some(own) = &mut pair.own {
                own.has_said();
            }
        }
        Ok(())
    }
}

/// Memory for so many rings on a device, if it has some.
fn make_blocks<H: Hca>(rail: &mut Rail<H>, count: u32) -> Option<Slots> {
    let bytes = u32::from(PLACES) * u32::from(PLACE_BYTES);
    let access = Access { local_write: true, remote_write: true, ..Access::default() };
    let made = rail.hca.allocate(u64::from(count) * u64::from(bytes), access).ok()?;
    Some(Slots::new(vec![made], bytes))
}
