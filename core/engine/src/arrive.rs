//! Packets on their way in.
//!
//! A packet is handled while it lies in the transport: its payload is copied once, to where it belongs. What the
//! handling asks the transport to do comes back as a [`Todo`] and is done after the packet is gone.

use crate::engine::{Engine, State};
use crate::failure::OUT_OF_REACH;
use crate::layouts::Scattered;
use crate::messages::Place;
use crate::peers::{Lead, LeadTarget};
use crate::requests::{ANSWERED, KEYED, Phase, TAKEN};
use std::ops::ControlFlow;
use weft_api::{Handler, Sink, Transport};
use weft_proto::turns::Course;
use weft_proto::{EAGER_MOST, Key, charge};
use weft_types::{Error, ErrorClass, Farewell, PeerId};
use weft_wire::{Announce, Announced, Cts, Header, Kind, RemotePlace, SyncPrefix, payload};

/// What is to be done with the transport because of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    Nothing,
    /// Answer with a packet without payload.
    Reply(Header),
    /// A receive has met an announced message: fetch what does not come by itself.
    Fetch(u32),
    /// Nothing was taken: this process has not been met.
    Meet,
    /// A receive waits for an offered message, whose sender began then: read it.
    Offered {
        slot: u32,
        stamp: u64,
    },
    /// A message of that length, whose sender began then, is complete: say how long it took.
    Took {
        length: u32,
        stamp: u64,
    },
    /// The receiver of a send has offered room to write to.
    Write(u32),
    /// The sender has written its part of a receive, or cannot.
    Shared(u32),
    /// The peer has ended MPI, or a part of it, after it has lost others, and answers nothing more there.
    Leave(Farewell),
    /// The packet makes no sense: no more is said to or heard from this peer.
    Broken(&'static str),
}

/// Packets taken from one peer before others get a turn.
pub(crate) const DRAIN_BURST: u32 = 32;

/// Packets taken in one round of progress, so that a flood does not keep the caller from looking at its own request.
const ROUND: u32 = 512;

impl Engine {
    /// Takes what has come from everybody. True when there was something.
    #[inline]
    pub(crate) fn take_packets(&mut self) -> bool {
        let mut left = ROUND;
        loop {
            let mut arrivals = Arrivals { state: &mut self.state, index: NOBODY, charges: 0 };
            let todo = self.fabric.poll(DRAIN_BURST, &mut left, &mut arrivals);
            arrivals.settle();
            while let Some(index) = self.state.owing.pop() {
                self.give_credit(self.state.peers.at(index).id);
            }
            match todo {
                None => return left != ROUND,
                Some((peer, todo)) => self.follow(peer, todo),
            }
        }
    }

    /// Takes packets of one peer. False when there is nothing more.
    pub(crate) fn drain(&mut self, id: PeerId) -> bool {
        let index = self.meet(id);
        self.state.changes = self.state.changes.wrapping_add(1);
        let mut more = true;
        for _ in 0..DRAIN_BURST {
            let arrival = Arrival { state: &mut self.state, index };
            let Some(todo) = self.fabric.receive(id, arrival) else {
                more = false;
                break;
            };
            if todo != Todo::Nothing {
                self.follow(id, todo);
            }
        }
        if self.state.peers.at(index).ledger.is_due() {
            self.give_credit(id);
        }
        more
    }

    #[inline(never)]
    pub(crate) fn follow(&mut self, id: PeerId, todo: Todo) {
        let index = self.meet(id);
        match todo {
            // The process has been met here.
            Todo::Nothing | Todo::Meet => {}
            Todo::Reply(header) => self.send_control(id, header, &[]),
            Todo::Fetch(slot) => self.fetch(slot),
            Todo::Offered { slot, stamp } => self.take_offered(slot, stamp),
            Todo::Took { length, stamp } => self.tell_time(id, length, Course::Packets, stamp),
            Todo::Write(slot) => self.write_there(slot),
            Todo::Shared(slot) => self.go_on_reading(slot),
            Todo::Leave(farewell) => self.take_farewell(id, farewell),
            Todo::Broken(what) => self.broken(id, what),
        }
        if self.state.peers.at(index).ledger.is_due() {
            self.give_credit(id);
        }
    }

    /// A process has sent nonsense, `what`: no more is said to or heard from it, and what depends on it fails with
    /// `MPI_ERR_INTERN`.
    #[cold]
    pub fn broken(&mut self, id: PeerId, what: &str) {
        let error = Error::new(
            ErrorClass::INTERN,
            format!("process {} sent {what}; is it of another version of Weft?", id.0),
        );
        self.bury(id, error);
    }
}

/// The next packet of peer `index`.
pub(crate) struct Arrival<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) index: u32,
}

impl Handler for Arrival<'_> {
    type Outcome = Todo;

    #[inline]
    fn handle(self, header: Header, payload: &[u8]) -> (bool, Todo) {
        (true, self.state.handle(self.index, header, payload))
    }
}

/// All packets; those of peer `index` at the moment.
struct Arrivals<'a> {
    state: &'a mut State,
    index: u32,
    /// What its messages are charged with that have gone to a user's buffer.
    charges: u32,
}

/// No peer.
const NOBODY: u32 = u32::MAX;

impl Arrivals<'_> {
    /// Enters the charges.
    #[inline(always)]
    fn settle(&mut self) {
        if self.index != NOBODY && self.state.peers.at_mut(self.index).ledger.release(self.charges) {
            self.state.owing.push(self.index);
        }
        self.charges = 0;
    }
}

impl Sink for Arrivals<'_> {
    type Outcome = Todo;

    #[inline(always)]
    fn begin(&mut self, peer: PeerId) -> ControlFlow<Todo> {
        self.settle();
        match self.state.peers.index(peer) {
            Some(index) => {
                self.index = index;
                ControlFlow::Continue(())
            }
            None => {
                self.index = NOBODY;
                ControlFlow::Break(Todo::Meet)
            }
        }
    }

    #[inline(always)]
    fn take(&mut self, header: Header, payload: &[u8]) -> ControlFlow<Todo> {
        if header.is_eager() {
            self.charges += self.state.eager(self.index, header, payload);
            return ControlFlow::Continue(());
        }
        match self.state.handle_other(self.index, header, payload) {
            Todo::Nothing => ControlFlow::Continue(()),
            todo => ControlFlow::Break(todo),
        }
    }
}

impl State {
    fn handle(&mut self, index: u32, header: Header, payload: &[u8]) -> Todo {
        if header.is_eager() {
            let charges = self.eager(index, header, payload);
            self.peers.at_mut(index).ledger.release(charges);
            return Todo::Nothing;
        }
        self.handle_other(index, header, payload)
    }

    #[inline(never)]
    pub(crate) fn handle_other(&mut self, index: u32, header: Header, payload: &[u8]) -> Todo {
        // A buried peer's last packets are not believed, but for whole messages, which need no answer.
        if self.peers.at(index).dead {
            return Todo::Nothing;
        }
        match header.kind() {
            Some(Kind::Eager) => Todo::Nothing,
            Some(Kind::EagerSync) => self.eager_sync(index, header, payload),
            Some(Kind::Rts) if header.flags() & Announce::OFFERED != 0 => {
                self.offered(index, header, payload)
            }
            Some(Kind::Rts) => self.announced(index, header, payload),
            Some(Kind::Fragment) if header.id() == 0 => self.lead_fragment(index, header, payload),
            Some(Kind::Fragment) => self.fragment(index, header, payload),
            Some(Kind::Cts) => self.clear_to_send(index, header, payload),
            Some(Kind::Taken) => self.answered(index, header, true),
            Some(Kind::Matched) => self.answered(index, header, false),
            Some(Kind::Credit) => {
                let peer = self.peers.at_mut(index);
                peer.window.grant(header.value() as u32);
                peer.announce.grant((header.value() >> 32) as u32);
                self.let_go(index);
                Todo::Nothing
            }
            Some(Kind::More) => self.more_is_wanted(index, header),
            Some(Kind::Written) => self.written(index, header),
            // Whoever was asleep is awake now.
            Some(Kind::Share) => Todo::Nothing,
            Some(Kind::Shared) => self.has_shared(index, header),
            Some(Kind::Took) => {
                self.hear_time(index, header);
                Todo::Nothing
            }
            Some(Kind::Cancel) => self.forget(index, header),
            Some(Kind::CancelReply) => self.forgotten(index, header),
            // Whoever takes this one for lost has buried it; for what it does without him that means nothing.
            Some(Kind::Lost) if header.id() == self.config.me.0 => Todo::Nothing,
            Some(Kind::Lost) if header.id() == self.peers.at(index).id.0 => {
                Todo::Leave(Farewell::from_word(header.value() as u32))
            }
            Some(Kind::Lost) if header.id() >= self.config.size => Todo::Broken("the loss of nobody"),
            Some(Kind::Lost) if header.value() == OUT_OF_REACH => {
                self.partings.hear_of_a_cut(PeerId(header.id()));
                Todo::Nothing
            }
            Some(Kind::Lost) if header.value() != 0 => {
                self.partings.hear(PeerId(header.id()), Farewell::from_word(header.value() as u32));
                Todo::Nothing
            }
            Some(Kind::Lost) => {
                self.note_gone(PeerId(header.id()));
                Todo::Nothing
            }
            Some(Kind::Part) => self.part(index, header, payload),
            None => Todo::Broken("a packet of unknown kind"),
        }
    }

    /// A whole message. Answers what it is charged with, if it has gone to a user's buffer.
    #[inline(always)]
    fn eager(&mut self, index: u32, header: Header, payload: &[u8]) -> u32 {
        let Some(slot) = self.posted.take(Key::of(header)) else {
            self.keep_eager(index, header, payload);
            return 0;
        };
        self.deliver(slot, header, payload);
        charge(payload.len() as u32)
    }

    #[inline(never)]
    fn keep_eager(&mut self, index: u32, header: Header, payload: &[u8]) {
        let length = payload.len() as u32;
        self.keep(index, header, u64::from(length), length, charge(length), payload);
    }

    fn eager_sync(&mut self, index: u32, header: Header, payload: &[u8]) -> Todo {
        let Some((prefix, data)) = SyncPrefix::parse(payload) else {
            return Todo::Broken("a synchronous message without its prefix");
        };
        match self.posted.take(Key::of(header)) {
            Some(slot) => {
                self.deliver(slot, header, data);
                self.peers.at_mut(index).ledger.release(charge(data.len() as u32));
                Todo::Reply(Header::control(Kind::Matched, prefix.request, 0))
            }
            None => {
                let length = data.len() as u32;
                let slot = self.keep(index, header, u64::from(length), length, charge(length), data);
                let message = self.messages.at_mut(slot);
                message.synchronous = true;
                message.remote = prefix.request;
                Todo::Nothing
            }
        }
    }

    /// Puts a whole message into the buffer of a posted receive and ends it.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, slot: u32, header: Header, data: &[u8]) {
        let request = self.requests.at_mut(slot);
        if request.receive_plain(header, data) {
            return;
        }
        self.deliver_general(slot, header, data);
    }

    #[inline(never)]
    fn deliver_general(&mut self, slot: u32, header: Header, data: &[u8]) {
        let request = self.requests.at_mut(slot);
        request.header = header;
        let buffer = request.recv_buf();
        let capacity = buffer.len();
        if data.len() <= capacity {
            buffer.unpack(0, data);
            request.wanted = data.len() as u64;
            self.finish(slot, None);
        } else {
            buffer.unpack(0, &data[..capacity]);
            request.wanted = capacity as u64;
            self.finish(slot, Some(truncated(header, data.len() as u64, capacity as u64)));
        }
    }

    /// Keeps a message that no receive waits for.
    pub(crate) fn keep(
        &mut self,
        index: u32,
        header: Header,
        length: u64,
        lead: u32,
        charged: u32,
        data: &[u8],
    ) -> u32 {
        let peer = self.peers.at(index).id;
        let slot = self.messages.insert(Place::Held, peer, header, length, lead, data);
        let entry = self.unexpected.insert(Key::of(header), slot);
        self.messages.at_mut(slot).charged = charged;
        self.messages.at_mut(slot).entry = Some(entry);
        slot
    }

    fn announced(&mut self, index: u32, header: Header, payload: &[u8]) -> Todo {
        let (payload, place) = match header.flags() & Announce::KEYED {
            0 => (payload, None),
            _ => match RemotePlace::parse(payload) {
                Some((front, place)) if front.len() == Announce::BYTES => (front, Some(place)),
                _ => return Todo::Broken("an announcement that cannot be read"),
            },
        };
        let read = match header.flags() & Announce::SCATTERED {
            0 => Announce::parse(payload).map(|(announce, data)| (announce, data, None)),
            _ => Announced::parse(payload).and_then(|(announce, announced)| {
                let layouts = self.peers.at_mut(index).layouts.get_or_insert_default();
                Some((announce, &[][..], Some(layouts.hear(&announced)?)))
            }),
        };
        let Some((mut announce, data, scattered)) = read else {
            return Todo::Broken("an announcement that cannot be read");
        };
        let stamp = match header.flags() & Announce::TIMED {
            0 => 0,
            _ => std::mem::take(&mut announce.address),
        };
        if self.peers.at(index).lead.is_some() {
            return Todo::Broken("an announcement before the last one's data");
        }
        if announce.lead > EAGER_MOST || charge(announce.lead) > self.peers.at(index).budget {
            return Todo::Broken("more data at once than it may");
        }
        let synchronous = header.flags() & Announce::SYNCHRONOUS != 0;
        let Ok(credit) = self.count_announcement(index, header) else {
            return Todo::Broken("more announcements than it may");
        };
        let left = announce.lead - data.len() as u32;
        let peer = self.peers.at_mut(index);
        if header.flags() & Announce::RATHER != 0 || left > 0 && announce.length == u64::from(announce.lead) {
            peer.habits.see(header.flags() & Announce::RATHER != 0);
        }
        match self.posted.take(Key::of(header)) {
            Some(slot) => {
                self.requests.moving += 1;
                self.announcement_left(index, credit);
                self.expect(slot, self.peers.at(index).id, header, &announce, scattered);
                self.expect_place(slot, place);
                self.place(slot, 0, data);
                self.lead_goes_to(index, LeadTarget::Request(slot), (left, announce.lead), stamp);
                let todo = self.met(slot, synchronous);
                match stamp != 0 && left == 0 {
                    true => Todo::Took { length: announce.lead, stamp },
                    false => todo,
                }
            }
            None => {
                let charged = if announce.lead > 0 { charge(announce.lead) } else { 0 };
                let slot = self.keep(index, header, announce.length, announce.lead, charged, data);
                let message = self.messages.at_mut(slot);
                message.synchronous = synchronous;
                // Nobody asks about a message that is complete for its sender once it has left, and its name may be another's
                // by then.
                let awaited = synchronous || u64::from(announce.lead) < announce.length;
                message.remote = if awaited { announce.request } else { 0 };
                message.address = announce.address;
                message.scattered = scattered;
                message.place_there = place;
                message.credit = credit;
                message.stamp = stamp;
                self.lead_goes_to(index, LeadTarget::Message(slot), (left, announce.lead), 0);
                Todo::Nothing
            }
        }
    }

    /// Notes in a receive what is known of its announced message.
    pub(crate) fn expect(
        &mut self,
        slot: u32,
        peer: PeerId,
        header: Header,
        announce: &Announce,
        scattered: Option<Box<Scattered>>,
    ) {
        let request = self.requests.at_mut(slot);
        request.phase = Phase::Receiving;
        request.peer = peer;
        request.header = header;
        request.length = announce.length;
        request.remote = announce.request;
        request.lead = announce.lead;
        request.address = announce.address;
        request.scattered = scattered;
        request.moved = 0;
        let capacity = request.recv_buf().len() as u64;
        request.wanted = announce.length.min(capacity);
    }

    /// Notes in a receive where its announced message can be read.
    pub(crate) fn expect_place(&mut self, slot: u32, place: Option<RemotePlace>) {
        if let Some(RemotePlace { address, key }) = place {
            let request = self.requests.at_mut(slot);
            (request.address, request.read) = (address, key);
            request.flags |= KEYED;
        }
    }

    /// Where the rest of a lead goes, of which `left` of `total` bytes are to come; a lead that is here already gives its budget back when a
    /// receive has it. `stamp`: see [`Lead`].
    pub(crate) fn lead_goes_to(
        &mut self,
        index: u32,
        target: LeadTarget,
        (left, total): (u32, u32),
        stamp: u64,
    ) {
        let peer = self.peers.at_mut(index);
        if left > 0 {
            peer.lead = Some(Lead { target, left, total, stamp });
        } else if total > 0 && matches!(target, LeadTarget::Request(_)) {
            peer.ledger.release(charge(total));
        }
    }

    /// A receive and its announced message have met: what the sender must hear, and whether all is here.
    pub(crate) fn met(&mut self, slot: u32, synchronous: bool) -> Todo {
        let request = self.requests.at(slot);
        let remote = request.remote;
        if u64::from(request.lead) < request.length {
            return Todo::Fetch(slot);
        }
        self.end_when_all_is_here(slot);
        if synchronous { Todo::Reply(Header::control(Kind::Matched, remote, 0)) } else { Todo::Nothing }
    }

    /// Puts data that arrived at packed `offset` where it belongs; what does not fit is dropped.
    pub(crate) fn place(&mut self, slot: u32, offset: u64, data: &[u8]) {
        let request = self.requests.at_mut(slot);
        request.moved += data.len() as u64;
        let wanted = request.wanted;
        let room = wanted.saturating_sub(offset).min(data.len() as u64) as usize;
        if room > 0 {
            request.recv_buf().unpack(offset as usize, &data[..room]);
        }
    }

    /// Ends a receive when everything that will come has come.
    pub(crate) fn end_when_all_is_here(&mut self, slot: u32) {
        let request = self.requests.at(slot);
        if request.phase != Phase::Receiving || request.moved < request.wanted.max(u64::from(request.lead)) {
            return;
        }
        let error = (request.wanted < request.length)
            .then(|| truncated(request.header, request.length, request.wanted));
        self.finish(slot, error);
    }

    fn lead_fragment(&mut self, index: u32, header: Header, data: &[u8]) -> Todo {
        let peer = self.peers.at_mut(index);
        let Some(lead) = &mut peer.lead else {
            return Todo::Broken("data of a message that it did not announce");
        };
        let offset = lead.total - lead.left;
        if data.len() > lead.left as usize || header.value() != u64::from(offset) {
            return Todo::Broken("data beyond what it announced");
        }
        lead.left -= data.len() as u32;
        let Lead { target, left, total, stamp } = *lead;
        if left == 0 {
            peer.lead = None;
        }
        match target {
            LeadTarget::Request(slot) => {
                if left == 0 {
                    peer.ledger.release(charge(total));
                }
                self.place(slot, u64::from(offset), data);
                self.end_when_all_is_here(slot);
                if left == 0 && stamp != 0 {
                    return Todo::Took { length: total, stamp };
                }
            }
            LeadTarget::Message(slot) => self.messages.at_mut(slot).data.extend_from_slice(data),
            LeadTarget::Nobody if left == 0 => drop(peer.ledger.release(charge(total))),
            LeadTarget::Nobody => {}
        }
        Todo::Nothing
    }

    fn fragment(&mut self, index: u32, header: Header, data: &[u8]) -> Todo {
        let peer = self.peers.at(index).id;
        let slot = self.requests.find(header.id()).filter(|&slot| {
            let request = self.requests.at(slot);
            request.phase == Phase::Receiving
                && request.peer == peer
                && header.value().checked_add(data.len() as u64).is_some_and(|end| end <= request.wanted)
        });
        let Some(slot) = slot else {
            return self.stray(index, "data that nobody asked for");
        };
        self.place(slot, header.value(), data);
        self.end_when_all_is_here(slot);
        Todo::Nothing
    }

    /// The send that a control packet of peer `index` is about.
    pub(crate) fn own_send(&self, index: u32, id: u32) -> Option<u32> {
        let peer = self.peers.at(index).id;
        let slot = self.requests.find(id)?;
        let request = self.requests.at(slot);
        let under_way = matches!(request.phase, Phase::Leading | Phase::Waiting);
        (request.peer == peer && under_way).then_some(slot)
    }

    /// An answer to a send that is not there, or data for a receive that is not: it makes no sense, unless the peer has parted,
    /// when the send or the receive was given up.
    pub(crate) fn stray(&self, index: u32, what: &'static str) -> Todo {
        if self.peers.at(index).has_parted { Todo::Nothing } else { Todo::Broken(what) }
    }

    fn clear_to_send(&mut self, index: u32, header: Header, payload: &[u8]) -> Todo {
        let (payload, place) = match header.flags() & Cts::INTO {
            0 => (payload, None),
            _ => match RemotePlace::parse(payload) {
                Some((front, place)) => (front, Some(place)),
                None => return Todo::Broken("a demand for data that cannot be read"),
            },
        };
        let (Some(slot), Some(cts)) = (self.own_send(index, header.id()), Cts::parse(payload)) else {
            return self.stray(index, "a demand for data of no message");
        };
        let request = self.requests.at_mut(slot);
        if header.value() > request.length || header.value() < u64::from(request.lead) {
            return Todo::Broken("a demand for more data than there is");
        }
        match request.is_offered() {
            // It could not be read in one run.
            true => self.peers.at_mut(index).was_taken(request.length, self.config.offers_from, true),
            false => self.peers.at_mut(index).habits.note(request.length, false),
        }
        request.flags |= ANSWERED;
        request.remote = cts.request;
        request.wanted = header.value();
        if let Some(RemotePlace { address, key }) = place {
            if request.phase != Phase::Waiting || request.moved > 0 || request.wanted == 0 {
                return Todo::Broken("room for a message that is on its way");
            }
            (request.address, request.read) = (address, key);
            return Todo::Write(slot);
        }
        if request.phase == Phase::Waiting {
            self.start_stream(index, slot);
        }
        Todo::Nothing
    }

    /// Taken or Matched.
    fn answered(&mut self, index: u32, header: Header, taken: bool) -> Todo {
        let Some(slot) = self.own_send(index, header.id()) else {
            return self.stray(index, "an answer to no message");
        };
        let request = self.requests.at_mut(slot);
        if taken && u64::from(request.lead) < request.length {
            let peer = self.peers.at_mut(index);
            match request.is_offered() {
                true => {
                    let late = header.flags() & payload::LATE != 0;
                    peer.was_taken(request.length, self.config.offers_from, late);
                }
                false => peer.habits.note(request.length, true),
            }
            peer.announces_from(header.value() as u32);
        }
        request.flags |= if taken { ANSWERED | TAKEN } else { ANSWERED };
        if request.phase == Phase::Waiting {
            self.finish(slot, None);
        }
        Todo::Nothing
    }
}

/// The error of a receive whose buffer is too small (section 3.2.4).
#[cold]
#[inline(never)]
pub(crate) fn truncated(message: Header, length: u64, capacity: u64) -> Error {
    Error::new(
        ErrorClass::TRUNCATE,
        format!(
            "the message of rank {} with tag {} has {length} bytes but the receive buffer holds {capacity}; the first \
             {capacity} bytes were received",
            message.source().0,
            message.tag().0
        ),
    )
}
