//! Memory that the emulator owns: buffers behind addresses that mean nothing to anybody else.
//!
//! For transports that copy into and out of the device's buffers; needs no unsafe code.

use crate::memory::{Fault, Memory};
use std::collections::BTreeMap;

/// Buffers by the address they begin at.
#[derive(Debug, Default)]
pub struct Arena {
    buffers: BTreeMap<u64, Box<[u8]>>,
    end: u64,
}

/// Between buffers, so that running out of one never reaches the next.
const GAP: u64 = 1 << 16;
/// No address of a program is as large, so that the two never meet.
pub(crate) const FIRST: u64 = 1 << 62;

impl Arena {
    /// Makes a buffer of zeroes and says where it begins: at a multiple of 65,536.
    pub fn allocate(&mut self, bytes: u64) -> u64 {
        let address = self.end.max(FIRST);
        self.end = (address + bytes).next_multiple_of(GAP) + GAP;
        self.buffers.insert(address, vec![0; bytes as usize].into());
        address
    }

    /// Part of a buffer.
    ///
    /// # Panics
    /// When the range lies in no buffer.
    pub fn bytes(&self, address: u64, length: usize) -> &[u8] {
        let (start, buffer) = self.buffers.range(..=address).next_back().expect("an address of the arena");
        &buffer[(address - start) as usize..][..length]
    }

    /// As [`Arena::bytes`].
    ///
    /// # Panics
    /// When the range lies in no buffer.
    pub fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8] {
        let (start, buffer) =
            self.buffers.range_mut(..=address).next_back().expect("an address of the arena");
        &mut buffer[(address - start) as usize..][..length]
    }
}

impl Memory for Arena {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(self.bytes(address, into.len()));
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.bytes_mut(address, bytes.len()).copy_from_slice(bytes);
        Ok(())
    }

    fn update(&mut self, address: u64, change: impl Fn(u64) -> u64) -> Result<u64, Fault> {
        let place = self.bytes_mut(address, 8);
        let old = u64::from_ne_bytes(place.try_into().expect("eight bytes"));
        place.copy_from_slice(&change(old).to_ne_bytes());
        Ok(old)
    }
}
