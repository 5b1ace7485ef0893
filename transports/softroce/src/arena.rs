//! Memory that the emulator owns: buffers behind addresses that mean nothing to anybody else.
//!
//! For transports that copy into and out of the device's buffers; needs no unsafe code.

use crate::memory::{Fault, Memory};

/// Buffers; an address says which one, and where in it.
#[derive(Debug, Default)]
pub struct Arena {
    buffers: Vec<Box<[u8]>>,
}

/// Address bits inside a buffer: so much lies between two, more than either has, so that running out of one never reaches the next.
const INSIDE: u32 = 40;
/// No address of a program is as large, so that the two never meet.
pub(crate) const FIRST: u64 = 1 << 62;

/// The number of a buffer, and the place in it.
#[inline]
const fn place(address: u64) -> (usize, usize) {
    ((address.wrapping_sub(FIRST) >> INSIDE) as usize, (address & ((1 << INSIDE) - 1)) as usize)
}

impl Arena {
    /// Makes a buffer of zeroes and says where it begins: at a multiple of 65,536.
    ///
    /// # Panics
    /// When a buffer is asked for that is larger than any memory.
    pub fn allocate(&mut self, bytes: u64) -> u64 {
        assert!(bytes < 1 << INSIDE, "a buffer of {bytes} bytes");
        self.buffers.push(vec![0; bytes as usize].into());
        FIRST + ((self.buffers.len() as u64 - 1) << INSIDE)
    }

    /// Part of a buffer.
    ///
    /// # Panics
    /// When the range lies in no buffer.
    #[inline]
    pub fn bytes(&self, address: u64, length: usize) -> &[u8] {
        let (number, offset) = place(address);
        &self.buffers[number][offset..][..length]
    }

    /// As [`Arena::bytes`].
    ///
    /// # Panics
    /// When the range lies in no buffer.
    #[inline]
    pub fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8] {
        let (number, offset) = place(address);
        &mut self.buffers[number][offset..][..length]
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
