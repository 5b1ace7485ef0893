//! Messages of middle length between two processes of a node that take turns ([`weft_proto::turns`]): sent in packets, or offered to be
//! read.
//!
//! An offer is charged as the message is that it stands for, so its receiver reads it also when no receive waits: then into memory of its own,
//! as if it had been sent. So whoever waits until an offer is taken waits for nothing but that the other process is in a call, and two processes
//! that both send first and receive then still meet. Where it cannot be read after all, it is announced as any other message.
//!
//! Who takes turns often hears of an offer just before it calls for it: at the end of the call that sent the last message the other way. So an
//! offer that no receive waits for lies for some rounds of progress ([`PATIENCE`]) before it is read into memory of the library's. It
//! stands among the reads meanwhile ([`HELD`]).

use crate::arrive::Todo;
use crate::depart::Sent;
use crate::engine::{Engine, State};
use crate::peers::Peer;
use crate::requests::{Buffer, OFFERED, Phase};
use crate::types::{Arriving, Envelope, Started, Status};
use weft_api::Transport;
use weft_datatype::{RecvBuf, SendBuf};
use weft_proto::turns::{Course, Turn, class_of};
use weft_proto::{EAGER_MOST, Key, Turns, charge};
use weft_types::{PeerId, Result};
use weft_wire::{Announce, Header, Kind, payload};

/// Rounds of progress before an offer is read that no receive waits for: more than end a call.
const PATIENCE: u8 = 4;

/// Marks the number of a message in the list of reads, where others are those of receives.
pub(crate) const HELD: u32 = 1 << 31;

/// Longest message that is offered, in bytes: it is read in one go.
const LONGEST: usize = 256 << 10;

impl Peer {
    /// Whether something has come from it since the last message of middle length went there.
    pub(crate) const fn takes_turns(&self) -> bool {
        self.ledger.owed() != self.owed_then
    }

    /// Whether the next message, of so many bytes, shall not go in packets that nobody times.
    #[inline]
    pub(crate) fn shall_be_offered(&self, bytes: usize, offers_from: u32) -> bool {
        match &self.turns {
            Some(turns) if bytes >= offers_from as usize => {
                self.takes_turns() && turns.is_special(class_of(bytes as u64, offers_from))
            }
            _ => false,
        }
    }

    /// The receiver of an offered message has taken it; `late`: it did not wait for it, or could not read it in one run.
    pub(crate) fn was_taken(&mut self, length: u64, offers_from: u32, late: bool) {
        if let Some(turns) = &mut self.turns {
            turns.was_taken(class_of(length, offers_from), late);
        }
    }
}

impl Engine {
    /// Messages that this engine has offered to be read; wraps.
    pub fn offers(&self) -> u32 {
        self.state.offers
    }

    /// Whether the next message to a process, of so many bytes, is for [`Engine::send_in_turn`].
    #[inline]
    pub fn takes_turn(&self, to: PeerId, bytes: usize) -> bool {
        bytes >= self.state.config.offers_from as usize && self.takes_long_turn(to, bytes)
    }

    #[cold]
    #[inline(never)]
    fn takes_long_turn(&self, to: PeerId, bytes: usize) -> bool {
        let from = self.state.config.offers_from;
        let peer = self.state.peers.index(to).map(|index| self.state.peers.at(index));
        peer.is_some_and(|peer| peer.shall_be_offered(bytes, from))
    }

    /// The rest of [`Engine::send_packet_at_once`]: a message that might be offered.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_long_packet_at_once(&mut self, to: Envelope, header: Header, bytes: &[u8]) -> bool {
        let sent = !self.takes_turn(to.peer, bytes.len()) && self.send_run_at_once(to.peer, header, bytes);
        if sent {
            self.long_has_left(to.peer, bytes.len());
        }
        sent
    }

    /// A message that might have been offered has left in packets.
    pub(crate) fn long_has_left(&mut self, to: PeerId, bytes: usize) {
        let (offers_from, shared) = (self.state.config.offers_from, self.state.config.oversubscribed);
        let Some(index) = self.state.peers.index(to) else { return };
        let peer = self.state.peers.at_mut(index);
        if bytes < offers_from as usize || !peer.takes_turns() {
            return;
        }
        peer.owed_then = peer.ledger.owed();
        if peer.turns.is_none() && !shared && peer.means.is_none() {
            self.ask_whether_readable(index);
            let (peer, after) = (self.state.peers.at_mut(index), self.state.config.offers_after);
            peer.turns = peer.is_compared().then(|| Box::new(Turns::new(after)));
        }
        let peer = self.state.peers.at_mut(index);
        if let Some(turns) = &mut peer.turns {
            turns.count(class_of(bytes as u64, offers_from));
        }
    }

    /// Sends a message that is offered, or timed; or gives it back, to go as any other.
    ///
    /// # Errors
    /// Inside: as of [`Engine::send`].
    pub fn send_in_turn(
        &mut self,
        to: Envelope,
        buffer: SendBuf,
    ) -> std::result::Result<Result<Started>, SendBuf> {
        let index = self.state.peers.index(to.peer);
        let turn = index.and_then(|index| Some((index, self.turn_of(index, &buffer)?)));
        let Some((index, turn)) = turn else { return Err(buffer) };
        let length = buffer.len();
        let stamp = if turn.timed { self.state.stopwatch.stamp() } else { 0 };
        if turn.course == Course::Packets {
            let bytes = if turn.timed { buffer.plain() } else { None };
            return match bytes.and_then(|bytes| self.send_pieces_since(to, bytes, Engine::PIECE, stamp)) {
                Some(moved) if moved == length => Ok(Ok(Started::Complete)),
                Some(moved) => Ok(self.send_on(to, buffer, moved)),
                None => {
                    // One that is not timed has gone in packets all the same.
                    if turn.timed
                        && let Some(turns) = &mut self.state.peers.at_mut(index).turns
                    {
                        turns.put_back(class_of(length as u64, self.state.config.offers_from));
                    }
                    Err(buffer)
                }
            };
        }
        let header = Header::new(Kind::Eager, to.context, to.source, to.tag);
        let inserted = self.state.requests.insert(Phase::Queued, to.peer, header, Buffer::Send(buffer));
        Ok(inserted.and_then(|slot| {
            let request = self.state.requests.at_mut(slot);
            (request.length, request.read) = (length as u64, stamp);
            request.flags |= OFFERED;
            self.leave(index, slot)
        }))
    }

    /// How the next message to a peer goes, where it takes turns with it and may leave at once; it must go so.
    fn turn_of(&mut self, index: u32, buffer: &SendBuf) -> Option<Turn> {
        let offers_from = self.state.config.offers_from;
        let peer = self.state.peers.at_mut(index);
        let length = buffer.len();
        // An open window says: connected, alive, and nothing queues or is held back that this message could overtake.
        let may = peer.shall_be_offered(length, offers_from)
            && length <= LONGEST.min(peer.limits.eager as usize)
            && charge(length as u32) <= peer.window.open()
            && peer.is_compared()
            && buffer.plain().is_some();
        if !may {
            return None;
        }
        peer.owed_then = peer.ledger.owed();
        Some(peer.turns.as_mut()?.next(class_of(length as u64, offers_from)))
    }

    /// Sends the announcement of an offered message; `None`: there is no budget for it any more, and it goes as any other.
    pub(crate) fn transmit_offer(&mut self, index: u32, slot: u32) -> Option<Sent> {
        let id = self.state.requests.id(slot).0;
        let peer = self.state.peers.at_mut(index);
        let request = self.state.requests.at_mut(slot);
        let (length, stamp) = (request.length, request.read);
        let address = request.send_buf().contiguous_address().filter(|_| peer.capabilities.single_copy);
        let (Some(address), true) = (address, charge(length as u32) <= peer.window.left()) else {
            request.flags &= !OFFERED;
            return None;
        };
        let Some(asked) = crate::held::credit(request, &mut peer.announce) else { return Some(Sent::Held) };
        let timed = if stamp == 0 { 0 } else { Announce::TIMED };
        let header = request.header.with_kind(Kind::Rts).with_flags(asked | timed | Announce::OFFERED);
        let packet = Announce { length, address, request: id, lead: 0 }.stamped(stamp);
        let sent = self.fabric.send_copy(peer.id, header, packet.len(), |out| out.copy_from_slice(&packet));
        if sent.is_ok() {
            peer.window.spend(charge(length as u32));
            request.announced(false, 0, 0);
            self.state.offers = self.state.offers.wrapping_add(1);
        }
        Some(self.judge(index, sent))
    }

    /// Reads an offered message for which a receive waits.
    pub(crate) fn take_offered(&mut self, slot: u32, stamp: u64) {
        let request = self.state.requests.at(slot);
        let can_read = self.can_read(request.peer, request.header);
        let request = self.state.requests.at_mut(slot);
        let (peer, address, wanted) = (request.peer, request.address, request.wanted);
        let (remote, length) = (request.remote, request.length);
        let room = request.recv_buf().as_mut_slice().and_then(|all| all.get_mut(..wanted as usize));
        let read = match room {
            Some(room) if wanted > 0 && can_read => self.fabric.read_remote(peer, address, room).is_ok(),
            _ => false,
        };
        if !read {
            // Gaps here, no room, or the kernel denies it: as any other that is announced.
            return self.fetch(slot);
        }
        self.state.requests.at_mut(slot).moved = wanted;
        self.say_taken(peer, remote, 0);
        self.state.end_when_all_is_here(slot);
        if stamp != 0 {
            self.tell_time(peer, length as u32, Course::Read, stamp);
        }
    }

    /// Receives an offered message that a call has just taken from the transport, without a request where it can be read. `(index, owner)`:
    /// the peer, and what a request is tagged with.
    ///
    /// # Errors
    /// The peer has sent nonsense, and is buried; or all request slots are in use.
    pub(crate) fn receive_offer(
        &mut self,
        from: Envelope,
        (index, owner): (u32, u32),
        mut buffer: RecvBuf,
        (header, announce, stamp): (Header, Announce, u64),
    ) -> Result<Arriving> {
        let length = announce.length as usize;
        let can_read = self.can_read(from.peer, header);
        let room = buffer.as_mut_slice().and_then(|all| all.get_mut(..length));
        let read = can_read
            && room.is_some_and(|room| self.fabric.read_remote(from.peer, announce.address, room).is_ok());
        if read {
            self.say_taken(from.peer, announce.request, 0);
        }
        self.enter_announcement(from.peer, index, header)?;
        if self.state.peers.at_mut(index).ledger.release(charge(length as u32)) {
            self.give_credit(from.peer);
        }
        if read {
            if stamp != 0 {
                self.tell_time(from.peer, length as u32, Course::Read, stamp);
            }
            let (source, tag) = (from.source, from.tag);
            return Ok(Arriving::Received(Status { source, tag, bytes: announce.length, cancelled: false }));
        }
        let slot = self.state.requests.insert(Phase::Receiving, from.peer, header, Buffer::Recv(buffer))?;
        self.state.expect(slot, from.peer, header, &announce, None);
        self.state.requests.at_mut(slot).owner = owner;
        let request = self.state.requests.id(slot);
        self.fetch(slot);
        Ok(Arriving::Begun(request))
    }

    /// Reads an offered message for which no receive waits, when it has lain long enough.
    #[cold]
    pub(crate) fn read_held(&mut self, slot: u32) {
        let message = self.state.messages.at_mut(slot);
        // None: it has been received meanwhile.
        let Some(patience) = message.patience else { return };
        message.patience = patience.checked_sub(1);
        if message.patience.is_some() {
            return self.state.reading.push_back(HELD | slot);
        }
        let (peer, address, length) = (message.peer, message.address, message.length);
        let header = message.header;
        let mut data = std::mem::take(&mut message.data);
        data.resize(length as usize, 0);
        let read = self.can_read(peer, header) && self.fabric.read_remote(peer, address, &mut data).is_ok();
        let message = self.state.messages.at_mut(slot);
        if read {
            (message.data, message.lead) = (data, length as u32);
            let remote = std::mem::replace(&mut message.remote, 0);
            return self.say_taken(peer, remote, payload::LATE);
        }
        // Announced as any other: nothing is held of it, and its receive will ask for it.
        data.clear();
        (message.data, message.address) = (data, 0);
        let charged = std::mem::replace(&mut message.charged, 0);
        if self.state.peers.find_mut(peer).is_some_and(|peer| peer.ledger.release(charged)) {
            self.give_credit(peer);
        }
    }

    /// Whether the message of a process can be read, as far as is known: memory of one that has ended MPI is its program's again.
    fn can_read(&mut self, id: PeerId, header: Header) -> bool {
        let index = self.meet(id);
        self.ask_whether_readable(index);
        self.state.peers.at(index).capabilities.single_copy && !self.state.has_left(id, header.context())
    }

    /// Tells the sender of an offered message that its memory is its own again.
    fn say_taken(&mut self, id: PeerId, remote: u32, flags: u8) {
        let me = self.state.config.me;
        let from = self.state.peers.find_mut(id).map_or(0, |peer| peer.worth_announcing(me));
        let header = Header::control(Kind::Taken, remote, u64::from(from)).with_flags(flags);
        self.send_control(id, header, &[]);
    }

    /// Tells the sender of a message how long it took.
    #[cold]
    pub(crate) fn tell_time(&mut self, id: PeerId, length: u32, course: Course, stamp: u64) {
        let took = self.state.stopwatch.stamp().saturating_sub(stamp);
        let flags = if course == Course::Read { payload::READ } else { 0 };
        self.send_control(id, Header::control(Kind::Took, length, took).with_flags(flags), &[]);
    }
}

/// An offer and when its sender began, which is wanted when it is not 0; `None` when it makes no sense or goes beyond the sender's `budget`.
pub(crate) fn parse(header: Header, payload: &[u8], budget: u32) -> Option<(Announce, u64)> {
    const KNOWN: u8 = Announce::OFFERED | Announce::TIMED | Announce::ASKED;
    Announce::parse_stamped(payload).filter(|(announce, _)| {
        let fits = announce.length <= u64::from(EAGER_MOST);
        fits && charge(announce.length as u32) <= budget && header.flags() & !KNOWN == 0
    })
}

impl State {
    /// The announcement of a message that is offered.
    pub(crate) fn offered(&mut self, index: u32, header: Header, payload: &[u8]) -> Todo {
        let peer = self.peers.at(index);
        let Some((announce, stamp)) = parse(header, payload, peer.budget) else {
            return Todo::Broken("an offer that cannot be read");
        };
        if peer.lead.is_some() {
            return Todo::Broken("an offer before the last message's data");
        }
        let Ok(credit) = self.count_announcement(index, header) else {
            return Todo::Broken("more announcements than it may");
        };
        let charged = charge(announce.length as u32);
        match self.posted.take(Key::of(header)) {
            Some(slot) => {
                self.requests.moving += 1;
                self.announcement_left(index, credit);
                self.expect(slot, self.peers.at(index).id, header, &announce, None);
                self.peers.at_mut(index).ledger.release(charged);
                Todo::Offered { slot, stamp }
            }
            None => {
                let slot = self.keep(index, header, announce.length, 0, charged, &[]);
                let message = self.messages.at_mut(slot);
                (message.remote, message.address, message.credit) =
                    (announce.request, announce.address, credit);
                (message.stamp, message.patience) = (stamp, Some(PATIENCE));
                self.reading.push_back(HELD | slot);
                Todo::Nothing
            }
        }
    }

    /// The receiver of a timed message says how long it took.
    #[cold]
    pub(crate) fn hear_time(&mut self, index: u32, header: Header) {
        let offers_from = self.config.offers_from;
        if let Some(turns) = &mut self.peers.at_mut(index).turns {
            let course = if header.flags() & payload::READ != 0 { Course::Read } else { Course::Packets };
            let took = header.value().min(u64::from(u32::MAX)) as u32;
            turns.note(class_of(u64::from(header.id()), offers_from), course, took);
        }
    }
}
