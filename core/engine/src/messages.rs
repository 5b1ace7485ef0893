//! Messages that are here before their receive, and the recycled memory that holds their data.

use crate::requests::{GENERATIONS, SLOT_BITS, join, split};
use crate::types::MessageId;
use weft_proto::EntryId;
use weft_types::PeerId;
use weft_wire::Header;

/// What is known of a message that no receive has started on.
#[derive(Debug)]
pub(crate) struct Message {
    generation: u8,
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
    /// Budget that it uses while it is here.
    pub(crate) charged: u32,
    /// What has come of the lead.
    pub(crate) data: Vec<u8>,
    entry: u32,
}

/// Where a message's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Slot not used.
    Free,
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
    pool: Pool,
}

/// Entry of a message that was taken out of matching.
const EXTRACTED: u32 = u32::MAX;

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
        let slot = self.free.pop().unwrap_or_else(|| {
            // Slot 0 stays unused, so that no message has the number 0.
            let slot = self.slots.len().max(1) as u32;
            assert!(slot >> SLOT_BITS == 0, "more than a million unexpected messages");
            while self.slots.len() <= slot as usize {
                self.slots.push(blank());
            }
            slot
        });
        let message = &mut self.slots[slot as usize];
        *message = Message {
            generation: message.generation,
            place,
            synchronous: false,
            peer,
            header,
            length,
            remote: 0,
            lead,
            address: 0,
            charged: 0,
            data: memory,
            entry: EXTRACTED,
        };
        slot
    }

    pub(crate) fn set_entry(&mut self, slot: u32, entry: EntryId) {
        self.slots[slot as usize].entry = entry.0;
    }

    /// The place in the matching table, `None` when it was taken out of there.
    pub(crate) fn entry(&self, slot: u32) -> Option<EntryId> {
        let entry = self.slots[slot as usize].entry;
        (entry != EXTRACTED).then_some(EntryId(entry))
    }

    /// Takes the message out of matching; gives its name for the caller.
    pub(crate) fn extract(&mut self, slot: u32) -> MessageId {
        let message = &mut self.slots[slot as usize];
        message.entry = EXTRACTED;
        MessageId(join(slot, message.generation))
    }

    /// Slot of an extracted message that exists.
    pub(crate) fn find(&self, id: MessageId) -> Option<u32> {
        let (slot, generation) = split(id.0);
        let message = self.slots.get(slot as usize)?;
        let found =
            message.generation == generation && message.place != Place::Free && message.entry == EXTRACTED;
        found.then_some(slot)
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
        message.place = Place::Free;
        message.generation = (message.generation + 1) & (GENERATIONS - 1) as u8;
        self.free.push(slot);
    }
}

fn blank() -> Message {
    Message {
        generation: 0,
        place: Place::Free,
        synchronous: false,
        peer: PeerId(0),
        header: Header::from_words([0, 0]),
        length: 0,
        remote: 0,
        lead: 0,
        address: 0,
        charged: 0,
        data: Vec::new(),
        entry: EXTRACTED,
    }
}

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
