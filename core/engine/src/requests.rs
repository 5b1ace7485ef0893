//! The slab of requests: everything that is under way in this process.
//!
//! A request's identifier is its slot and the slot's generation, so that a stale handle is found. Slot 0 is never
//! used (see [`RequestId::COMPLETE`]). Which phase follows which is described in `README.md`.

use crate::layouts::Scattered;
use crate::types::{Completion, Ending, RequestId, Status};
use weft_datatype::{RecvBuf, SendBuf};
use weft_types::{Error, ErrorClass, PeerId, Result};
use weft_wire::Header;

/// Bits of an identifier that name the slot.
pub(crate) const SLOT_BITS: u32 = 20;
/// Generations before a slot's number repeats.
pub(crate) const GENERATIONS: u32 = 1 << 7;

/// Splits an identifier into slot and generation.
#[inline]
pub(crate) const fn split(id: u32) -> (u32, u8) {
    (id & ((1 << SLOT_BITS) - 1), (id >> SLOT_BITS) as u8)
}

/// Composes an identifier.
#[inline]
pub(crate) const fn join(slot: u32, generation: u8) -> u32 {
    ((generation as u32) << SLOT_BITS) | slot
}

impl RequestId {
    #[inline]
    pub(crate) const fn slot(self) -> u32 {
        split(self.0).0
    }
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is not used.
    Free,
    /// Send: waits for room in the transport behind others to the same peer; nothing has left.
    Queued,
    /// Send: announced, the lead is on its way.
    Leading,
    /// Send: everything that may leave unasked has left; the receiver has the word.
    Waiting,
    /// Send: the receiver asked for the rest.
    Streaming,
    /// Send to this very process that nobody has received yet.
    Own,
    /// Receive: waits for its message.
    Posted,
    /// Receive: matched; data arrives in packets.
    Receiving,
    /// Receive: matched; the rest is being read from the sender's memory.
    Reading,
    /// Ended by the schedule executor, by nothing else.
    Plain,
    /// Ended.
    Complete,
}

/// The user's memory of a request.
#[derive(Debug, Default)]
pub(crate) enum Buffer {
    /// None (any more).
    #[default]
    None,
    /// A send's.
    Send(SendBuf),
    /// A receive's.
    Recv(RecvBuf),
}

/// Nobody will take the request: it is freed when it ends.
pub(crate) const RELEASED: u16 = 1;
/// Synchronous mode.
pub(crate) const SYNCHRONOUS: u16 = 2;
/// Send: the receiver has started to receive (Matched, Taken or Cts has come).
pub(crate) const ANSWERED: u16 = 4;
/// Send: the receiver has said that it is done with our memory (Taken).
pub(crate) const TAKEN: u16 = 8;
/// Cancellation was asked for.
pub(crate) const CANCEL_ASKED: u16 = 16;
/// It was cancelled.
pub(crate) const CANCELLED: u16 = 32;
/// Send in phase Queued: has what it takes to be announced (a credit).
pub(crate) const CREDITED: u16 = 64;
/// The credit is one that the receiver asked for.
pub(crate) const OF_ASKED: u16 = 128;
/// A thread sleeps for it: its end rings.
pub(crate) const WATCHED: u16 = 256;

/// Receive: its message can be read from registered memory; `address` and `read` say from where.
pub(crate) const KEYED: u16 = 512;
/// Send: it is offered ([`weft_wire::Announce::OFFERED`]). The bit of [`KEYED`], which no send has.
pub(crate) const OFFERED: u16 = KEYED;
/// It holds registered memory that others were told of.
pub(crate) const LEASED: u16 = 1024;
/// A device works on its memory.
pub(crate) const TRANSFERRING: u16 = 2048;
/// Receive: parts of it, from the line on that `entry` says, were laid out for its sender ([`crate::shares`]). The bit of [`CREDITED`], which no
/// receive has. As long as the sender may have one it is [`TRANSFERRING`], too.
pub(crate) const SHARES: u16 = CREDITED;
/// When it fails its owner must hear of it, because no call returns its error: it was freed ([`RELEASED`]), or was complete for
/// the program before.
pub(crate) const ABANDONED: u16 = 4096;
/// Receive: the time that its message takes counts. Send: it may be lent, see [`LENT`].
pub(crate) const TIMED: u16 = 8192;
/// It is read, not streamed; of a send: its receiver shall read it, though it could leave unasked.
pub(crate) const READS: u16 = 16384;
/// Send: the receiver was asked whether it has said all, and has not answered.
pub(crate) const ASKED: u16 = 32768;

/// What `entry` says of a send that is [`TIMED`]: its receiver may read its memory, and lay out parts of it ([`crate::shares`]).
pub(crate) const LENT: u32 = u32::MAX;

/// One operation under way.
#[derive(Debug)]
pub(crate) struct Request {
    generation: u8,
    pub(crate) phase: Phase,
    pub(crate) flags: u16,
    pub(crate) owner: u32,
    /// The process at the other end; [`ANYBODY`] for a receive from any source that is not matched.
    pub(crate) peer: PeerId,
    /// Posted receive: its entry in the table. Free slot: the next free one.
    pub(crate) entry: u32,
    /// The request (or, for a local send, the message) at the other end.
    pub(crate) remote: u32,
    /// Bytes that are sent without being asked for.
    pub(crate) lead: u32,
    /// Executor's token, 0 for a request that a caller takes.
    pub(crate) token: u64,
    /// The envelope of the message.
    pub(crate) header: Header,
    /// Packed length of the message.
    pub(crate) length: u64,
    /// Send: bytes that have left. Receive: bytes that have arrived in packets or are read to the end.
    pub(crate) moved: u64,
    /// Send: bytes that shall leave by now. Receive: bytes of the message that fit the buffer.
    pub(crate) wanted: u64,
    /// Receive by reading: where the message is in the sender's memory.
    pub(crate) address: u64,
    /// How it lies there, when it does not lie in one run: of the message announced to the slot last.
    pub(crate) scattered: Option<Box<Scattered>>,
    /// Receive by reading: packed offset of the next byte to read. Send that is offered: when it began, where that is wanted, else 0.
    pub(crate) read: u64,
    pub(crate) buffer: Buffer,
    pub(crate) error: Option<Error>,
}

const _: () = assert!(size_of::<Request>() <= 192, "a request is at most 192 bytes (design section 13)");

/// The peer of a receive from any source.
pub(crate) const ANYBODY: PeerId = PeerId(u32::MAX);

impl Request {
    #[inline(always)]
    pub(crate) fn id(&self, slot: u32) -> RequestId {
        RequestId(join(slot, self.generation))
    }

    /// Fills a free request: a receive that is being posted.
    #[inline(always)]
    pub(crate) fn post(&mut self, peer: PeerId, buffer: RecvBuf, owner: u32) {
        self.phase = Phase::Posted;
        self.flags = 0;
        self.owner = owner;
        self.peer = peer;
        self.lead = 0;
        self.token = 0;
        self.header = Header::from_words([0, 0]);
        self.moved = 0;
        self.wanted = 0;
        self.buffer = Buffer::Recv(buffer);
    }

    /// Whether a send is offered to be read.
    pub(crate) const fn is_offered(&self) -> bool {
        self.flags & OFFERED != 0
    }

    /// A send was announced; `moved` bytes of its lead have left with it.
    pub(crate) fn announced(&mut self, synchronous: bool, lead: u32, moved: u64) {
        if synchronous {
            self.flags |= SYNCHRONOUS;
        }
        self.lead = lead;
        self.moved = moved;
        self.phase = Phase::Leading;
    }

    pub(crate) fn completion(&self) -> Completion {
        Completion {
            status: Status {
                source: self.header.source(),
                tag: self.header.tag(),
                bytes: self.wanted,
                cancelled: self.flags & CANCELLED != 0,
            },
            error: self.error.clone(),
        }
    }

    /// Takes a whole message into the buffer of a posted receive that waits for nothing but a caller who takes it, and
    /// ends it: what [`crate::engine::State::finish`] does, in the usual case. False when the case is another one.
    #[inline(always)]
    pub(crate) fn receive_plain(&mut self, header: Header, data: &[u8]) -> bool {
        if self.token != 0 || self.flags & (RELEASED | WATCHED) != 0 {
            return false;
        }
        let Buffer::Recv(buffer) = &mut self.buffer else { return false };
        if !buffer.unpack_plain(data) {
            return false;
        }
        self.header = header;
        self.wanted = data.len() as u64;
        self.phase = Phase::Complete;
        true
    }

    /// The buffer of a send.
    ///
    /// # Panics
    /// When the request is not a send that still owns its buffer: an invariant of the protocols.
    #[inline]
    pub(crate) fn send_buf(&self) -> &SendBuf {
        match &self.buffer {
            Buffer::Send(buffer) => buffer,
            _ => unreachable!("a send in phase {:?} owns its buffer", self.phase),
        }
    }

    /// The buffer of a receive.
    ///
    /// # Panics
    /// When the request is not a receive that still owns its buffer: an invariant of the protocols.
    #[inline]
    pub(crate) fn recv_buf(&mut self) -> &mut RecvBuf {
        match &mut self.buffer {
            Buffer::Recv(buffer) => buffer,
            _ => unreachable!("a receive in phase {:?} owns its buffer", self.phase),
        }
    }
}

/// All requests of an engine.
#[derive(Debug)]
pub(crate) struct Requests {
    slots: Vec<Request>,
    free: u32,
    /// Requests that are neither free nor complete, without receives that wait for a message.
    pub(crate) moving: usize,
}

impl Requests {
    pub(crate) fn new() -> Requests {
        let mut requests = Requests { slots: Vec::new(), free: 0, moving: 0 };
        requests.slots.push(blank());
        requests
    }

    /// A fresh request; the caller fills it.
    ///
    /// # Errors
    /// All slots are in use.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        phase: Phase,
        peer: PeerId,
        header: Header,
        buffer: Buffer,
    ) -> Result<u32> {
        let slot = self.free;
        let slot = if slot == 0 { self.grow()? } else { slot };
        let request = &mut self.slots[slot as usize];
        self.free = request.entry;
        request.phase = phase;
        request.flags = 0;
        request.owner = 0;
        request.peer = peer;
        request.lead = 0;
        request.token = 0;
        request.header = header;
        request.moved = 0;
        request.wanted = 0;
        request.buffer = buffer;
        if phase != Phase::Posted {
            self.moving += 1;
        }
        Ok(slot)
    }

    /// A free slot, taken off the list of free ones, and its request; `None` when new memory is needed.
    #[inline(always)]
    pub(crate) fn take_free(&mut self) -> Option<(u32, &mut Request)> {
        let slot = self.free;
        if slot == 0 {
            return None;
        }
        let request = self.slots.get_mut(slot as usize)?;
        self.free = request.entry;
        Some((slot, request))
    }

    /// Whether a slot is free without growing.
    pub(crate) const fn has_free(&self) -> bool {
        self.free != 0
    }

    /// A receive that is being posted.
    ///
    /// # Errors
    /// All slots are in use.
    #[inline]
    pub(crate) fn insert_receive(&mut self, peer: PeerId, buffer: RecvBuf) -> Result<u32> {
        if self.free == 0 {
            self.free = self.grow()?;
        }
        let slot = self.free;
        let request = &mut self.slots[slot as usize];
        self.free = request.entry;
        request.post(peer, buffer, 0);
        Ok(slot)
    }

    /// See [`crate::Engine::ending`].
    #[inline(always)]
    pub(crate) fn ending(&self, id: RequestId) -> Ending {
        let (slot, generation) = split(id.0);
        let Some(request) = self.slots.get(slot as usize) else { return Ending::Otherwise };
        if request.generation != generation || request.phase == Phase::Free {
            Ending::Otherwise
        } else if request.phase != Phase::Complete {
            Ending::NotYet
        } else if request.error.is_some() || request.flags & CANCELLED != 0 {
            Ending::Otherwise
        } else {
            Ending::Well
        }
    }

    /// See [`crate::Engine::take_well`].
    #[inline(always)]
    pub(crate) fn take_well(&mut self, id: RequestId) -> Status {
        let slot = id.slot();
        let request = &mut self.slots[slot as usize];
        debug_assert!(request.phase == Phase::Complete && request.error.is_none());
        request.phase = Phase::Free;
        request.generation = (request.generation + 1) & (GENERATIONS - 1) as u8;
        request.entry = self.free;
        self.free = slot;
        Status {
            source: request.header.source(),
            tag: request.header.tag(),
            bytes: request.wanted,
            cancelled: false,
        }
    }

    /// A request that nothing but the executor ends.
    pub(crate) fn insert_plain(&mut self) -> Result<RequestId> {
        let slot = self.insert(Phase::Plain, ANYBODY, Header::from_words([0, 0]), Buffer::None)?;
        Ok(self.id(slot))
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Result<u32> {
        let slot = self.slots.len() as u32;
        if slot >> SLOT_BITS != 0 {
            return Err(Error::new(
                ErrorClass::NO_MEM,
                format!(
                    "all {} request slots are in use; complete or free some of the pending requests first",
                    (1 << SLOT_BITS) - 1
                ),
            ));
        }
        self.slots.push(blank());
        Ok(slot)
    }

    /// Frees a slot; whatever it still owns is dropped.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        let request = &mut self.slots[slot as usize];
        debug_assert!(request.phase == Phase::Complete, "only complete requests are freed");
        request.phase = Phase::Free;
        request.generation = (request.generation + 1) & (GENERATIONS - 1) as u8;
        request.error = None;
        request.entry = self.free;
        self.free = slot;
    }

    #[inline]
    pub(crate) fn id(&self, slot: u32) -> RequestId {
        RequestId(join(slot, self.slots[slot as usize].generation))
    }

    #[inline]
    pub(crate) fn at(&self, slot: u32) -> &Request {
        &self.slots[slot as usize]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut Request {
        &mut self.slots[slot as usize]
    }

    /// Slot of a request that exists.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<u32> {
        let (slot, generation) = split(id);
        let request = self.slots.get(slot as usize)?;
        (request.generation == generation && request.phase != Phase::Free).then_some(slot)
    }

    /// See [`crate::Engine::recall`].
    #[inline(always)]
    pub(crate) fn recall(&self, slot: u32, generation: u32, mask: u32) -> Option<RequestId> {
        let request = self.slots.get(slot as usize)?;
        let same = (u32::from(request.generation) ^ generation) & mask == 0;
        (same && request.phase != Phase::Free).then(|| self.id(slot))
    }

    /// Slots of all requests that are not free.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = u32> + '_ {
        (1..self.slots.len() as u32).filter(|&slot| self.slots[slot as usize].phase != Phase::Free)
    }
}

fn blank() -> Request {
    Request {
        generation: 0,
        phase: Phase::Free,
        flags: 0,
        owner: 0,
        peer: ANYBODY,
        entry: 0,
        remote: 0,
        lead: 0,
        token: 0,
        header: Header::from_words([0, 0]),
        length: 0,
        moved: 0,
        wanted: 0,
        address: 0,
        scattered: None,
        read: 0,
        buffer: Buffer::None,
        error: None,
    }
}
