//! Equal parts of one registered buffer, each for one message.

use weft_api::verbs::{DeviceBuffer, Segment};

/// Parts of a buffer, and which of them are free.
#[derive(Debug)]
pub(crate) struct Slots {
    buffer: DeviceBuffer,
    slot_bytes: u32,
    free: Vec<u32>,
}

impl Slots {
    /// All of `buffer` in parts of `slot_bytes`, all free.
    pub(crate) fn new(buffer: DeviceBuffer, slot_bytes: u32) -> Slots {
        let count = (buffer.length / u64::from(slot_bytes)) as u32;
        Slots { buffer, slot_bytes, free: (0..count).rev().collect() }
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// How many are free.
    pub(crate) fn left(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn give_back(&mut self, slot: u32) {
        debug_assert!(!self.free.contains(&slot), "slot {slot} is free already");
        self.free.push(slot);
    }

    pub(crate) fn address(&self, slot: u32) -> u64 {
        self.buffer.address + u64::from(slot) * u64::from(self.slot_bytes)
    }

    /// The first `bytes` of a slot, as a request names them.
    pub(crate) fn segment(&self, slot: u32, bytes: u32) -> Segment {
        Segment { address: self.address(slot), length: bytes, key: self.buffer.keys.local }
    }
}
