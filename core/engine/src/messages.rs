//! Messages that are here before their receive, and the recycled memory that holds their data.

use crate::layouts::Scattered;
use crate::requests::{GENERATIONS, SLOT_BITS, join, split};
use crate::types::MessageId;
use weft_proto::{AnnounceCredit, EntryId};
use weft_types::PeerId;
use weft_wire::{Header, RemotePlace};

/// What is known of a message that no receive has started on.
#[derive(Debug)]
pub(crate) struct Message {
    /// Where it is.
    pub(crate) place: Place,
    /// Whether the sender waits to hear that the receive has started.
    pub(crate) synchronous: bool,
    pub(crate) peer: PeerId,
    pub(crate) header: Header,
    /// Packed length of the whole message.
    pub(crate) length: u64,
    /// The sender's request, where it has one.
    pub(crate) remote: u32,
    /// Bytes that come without being asked for.
    pub(crate) lead: u32,
    /// Where the message is in the sender's memory, 0 when it cannot be read.
    pub(crate) address: u64,
    /// How it lies there, when it does not lie in one run.
    pub(crate) scattered: Option<Box<Scattered>>,
    /// Where it can be read in registered memory.
    pub(crate) place_there: Option<RemotePlace>,
    /// It is offered and not read yet: rounds of progress before that is done.
    pub(crate) patience: Option<u8>,
    /// When its sender began, where that is wanted; else 0.
    pub(crate) stamp: u64,
    /// Budget that it uses while it is here.
    pub(crate) charged: u32,
    /// What it was announced on, when that is counted.
    pub(crate) credit: Option<AnnounceCredit>,
    /// What has come of the lead.
    pub(crate) data: Vec<u8>,
    /// Its entry in the matching table, `None` when it was taken out of there.
    pub(crate) entry: Option<EntryId>,
    /// While it is taken out: its place in `Messages::extracted`.
    ticket: u32,
}

/// Where a message's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// All of it, or its lead, is (or will be) in `data`; the rest is with the sender.
    Held,
    /// In the buffer of a request of this very process.
    Own,
}

/// All messages without a receive.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    slots: Vec<Message>,
    free: Vec<u32>,
    /// Messages taken out of matching: generation, and the message's slot while there is one. Place 0 stays unused,
    /// so that no message is called 0.
    extracted: Vec<(u8, Option<u32>)>,
    unused: Vec<u32>,
    pool: Pool,
}

impl Messages {
    /// Keeps a message; `data` is copied into recycled memory with room for the whole lead.
    pub(crate) fn insert(
        &mut self,
        place: Place,
        peer: PeerId,
        header: Header,
        length: u64,
        lead: u32,
        data: &[u8],
    ) -> u32 {
        let memory = self.pool.take(lead as usize, data);
        let message = Message {
            place,
            synchronous: false,
            peer,
            header,
            length,
            remote: 0,
            lead,
            address: 0,
            scattered: None,
            place_there: None,
            patience: None,
            stamp: 0,
            charged: 0,
            credit: None,
            data: memory,
            entry: None,
            ticket: 0,
        };
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = message;
                slot
            }
            None => {
                self.slots.push(message);
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// Takes the message out of matching; gives its name for the caller. `None` when a million messages are out there.
    pub(crate) fn extract(&mut self, slot: u32) -> Option<MessageId> {
        let ticket = self.unused.pop().or_else(|| {
            let ticket = self.extracted.len().max(1);
            self.extracted.resize(ticket + 1, (0, None));
            (ticket >> SLOT_BITS == 0).then_some(ticket as u32)
        })?;
        let place = &mut self.extracted[ticket as usize];
        place.1 = Some(slot);
        let message = &mut self.slots[slot as usize];
        message.entry = None;
        message.ticket = ticket;
        Some(MessageId(join(ticket, place.0)))
    }

    /// Slot of an extracted message that exists.
    pub(crate) fn find(&self, id: MessageId) -> Option<u32> {
        let (ticket, generation) = split(id.0);
        let (current, slot) = *self.extracted.get(ticket as usize)?;
        slot.filter(|_| current == generation)
    }

    pub(crate) fn at(&self, slot: u32) -> &Message {
        &self.slots[slot as usize]
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut Message {
        &mut self.slots[slot as usize]
    }

    /// Frees the slot; the data's memory is recycled.
    pub(crate) fn remove(&mut self, slot: u32) {
        let message = &mut self.slots[slot as usize];
        self.pool.put(std::mem::take(&mut message.data));
        message.patience = None;
        let ticket = std::mem::take(&mut message.ticket);
        if ticket != 0 {
            let place = &mut self.extracted[ticket as usize];
            *place = ((place.0 + 1) & (GENERATIONS - 1) as u8, None);
            self.unused.push(ticket);
        }
        self.free.push(slot);
        if self.free.len() == self.slots.len() && self.slots.len() > KEEP {
            // After a flood is over its memory goes back.
            self.slots = Vec::new();
            self.free = Vec::new();
        }
    }
}

/// Slots kept for the next time.
const KEEP: usize = 1024;

/// Recycled memory, by powers of two.
#[derive(Debug, Default)]
struct Pool {
    classes: [Vec<Vec<u8>>; Pool::CLASSES],
}

impl Pool {
    /// The smallest class holds 64 bytes, the largest 64 << 10.
    const CLASSES: usize = 11;
    const SMALLEST: usize = 64;
    /// Bytes kept per class.
    const KEEP: usize = 1 << 18;

    fn class(bytes: usize) -> usize {
        (bytes.max(Self::SMALLEST).next_power_of_two() / Self::SMALLEST).trailing_zeros() as usize
    }

    fn take(&mut self, room: usize, data: &[u8]) -> Vec<u8> {
        if room == 0 {
            return Vec::new();
        }
        let class = Self::class(room);
        let mut memory = match self.classes.get_mut(class) {
            Some(class_memory) => {
                class_memory.pop().unwrap_or_else(|| Vec::with_capacity(Self::SMALLEST << class))
            }
            None => Vec::with_capacity(room),
        };
        memory.extend_from_slice(data);
        memory
    }

    fn put(&mut self, mut memory: Vec<u8>) {
        let capacity = memory.capacity();
        if !capacity.is_power_of_two() || capacity < Self::SMALLEST {
            return;
        }
        let class = Self::class(capacity);
        if let Some(class_memory) = self.classes.get_mut(class)
            && class_memory.len() < Self::KEEP / capacity
        {
            memory.clear();
            class_memory.push(memory);
        }
    }
}
