//! Equal parts of registered buffers, each for one message.

use weft_api::verbs::{DeviceBuffer, RemoteKey, Segment};

/// Parts of a buffer of each rail, and which of them are free. A part is taken of all rails at once, so that a message that one
/// rail did not carry has its place on the others.
#[derive(Debug)]
pub(crate) struct Slots {
    buffers: Vec<DeviceBuffer>,
    slot_bytes: u32,
    free: Vec<u32>,
}

impl Slots {
    /// All of each buffer in parts of `slot_bytes`, all free.
    pub(crate) fn new(buffers: Vec<DeviceBuffer>, slot_bytes: u32) -> Slots {
        let count = (buffers[0].length / u64::from(slot_bytes)) as u32;
        Slots { buffers, slot_bytes, free: (0..count).rev().collect() }
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

    /// The key by which others reach the buffer of a rail.
    pub(crate) fn remote_key(&self, rail: u8) -> RemoteKey {
        self.buffers[usize::from(rail)].keys.remote
    }

    pub(crate) fn address(&self, rail: u8, slot: u32) -> u64 {
        self.buffers[usize::from(rail)].address + u64::from(slot) * u64::from(self.slot_bytes)
    }

    /// The first `bytes` of a slot, as a request names them.
    pub(crate) fn segment(&self, rail: u8, slot: u32, bytes: u32) -> Segment {
        let key = self.buffers[usize::from(rail)].keys.local;
        Segment { address: self.address(rail, slot), length: bytes, key }
    }
}
