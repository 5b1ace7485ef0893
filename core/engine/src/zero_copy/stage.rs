//! Registered memory of the engine where short gets arrive, so that the program's own need not be registered for them.

use std::sync::Arc;
use weft_api::zero_copy::{LocalRun, RegionId};
use weft_datatype::Scratch;

/// Bytes of a place.
pub(super) const STAGED: u64 = 16 << 10;
const PLACES: u32 = 16;
/// Bytes in all.
pub(super) const BYTES: usize = STAGED as usize * PLACES as usize;

/// Places for pieces under way. Without memory until [`Stage::set`].
#[derive(Debug, Default)]
pub(super) struct Stage {
    memory: Option<(Arc<Scratch>, RegionId)>,
    free: Vec<u32>,
    /// Of each place: where its piece begins in the message, and how long it is.
    pieces: Vec<(u64, u64)>,
}

impl Stage {
    pub(super) fn is_set(&self) -> bool {
        self.memory.is_some()
    }

    /// Takes memory of [`BYTES`] bytes that is registered.
    pub(super) fn set(&mut self, memory: Arc<Scratch>, region: RegionId) {
        self.memory = Some((memory, region));
        self.free = (0..PLACES).rev().collect();
        self.pieces = vec![(0, 0); PLACES as usize];
    }

    /// A place for a piece that begins at packed byte `start`.
    pub(super) fn take(&mut self, start: u64, length: u64) -> Option<(u32, LocalRun)> {
        let (memory, region) = self.memory.as_ref()?;
        let place = *self.free.last()?;
        let address =
            memory.send_buf(place as usize * STAGED as usize, length as usize).contiguous_address()?;
        self.free.pop();
        self.pieces[place as usize] = (start, length);
        Some((place, LocalRun { address, length, region: *region }))
    }

    /// A piece that has arrived: where it begins, and its bytes.
    pub(super) fn bytes(&self, place: u32) -> (u64, Vec<u8>) {
        let (start, length) = self.pieces[place as usize];
        let mut bytes = vec![0; length as usize];
        if let Some((memory, _)) = &self.memory {
            memory.send_buf(place as usize * STAGED as usize, length as usize).pack(0, &mut bytes);
        }
        (start, bytes)
    }

    pub(super) fn give_back(&mut self, place: u32) {
        self.free.push(place);
    }
}
