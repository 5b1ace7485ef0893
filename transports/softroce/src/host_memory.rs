//! All memory of this process behind its own addresses, beside the device's own buffers.
//!
//! The kernel copies, as it would between two processes: an address behind which there is nothing is an error and not a crash, and the
//! emulator needs no unsafe code. A copy of a packet costs some 0.2 us more than a plain one. What is read while the program writes to it is what
//! a real device would read: some mixture, for the program to avoid.

use crate::arena::{Arena, FIRST};
use crate::memory::{Fault, Memory};
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use std::io::{IoSlice, IoSliceMut};

/// See the module.
#[derive(Debug)]
pub struct HostMemory {
    pub(crate) arena: Arena,
}

impl HostMemory {
    /// Memory of this process. It is looked up by whoever calls: a forked child reaches its own copy and never its parent's memory.
    pub fn new() -> HostMemory {
        HostMemory { arena: Arena::default() }
    }

    /// Whether the first and the last byte of a range are there.
    pub fn exists(&self, address: u64, length: u64) -> bool {
        let Some(last) = address.checked_add(length.saturating_sub(1)) else { return false };
        length == 0 || [address, last].iter().all(|&at| self.read(at, &mut [0]).is_ok())
    }
}

impl Default for HostMemory {
    fn default() -> HostMemory {
        HostMemory::new()
    }
}

fn remote(address: u64, length: usize) -> [RemoteIoVec; 1] {
    [RemoteIoVec { base: address as usize, len: length }]
}

impl Memory for HostMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        if address >= FIRST {
            return self.arena.read(address, into);
        }
        let length = into.len();
        match process_vm_readv(Pid::this(), &mut [IoSliceMut::new(into)], &remote(address, length)) {
            Ok(read) if read == length => Ok(()),
            _ => Err(Fault),
        }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        if address >= FIRST {
            return self.arena.write(address, bytes);
        }
        match process_vm_writev(Pid::this(), &[IoSlice::new(bytes)], &remote(address, bytes.len())) {
            Ok(written) if written == bytes.len() => Ok(()),
            _ => Err(Fault),
        }
    }

    fn update(&mut self, address: u64, change: impl Fn(u64) -> u64) -> Result<u64, Fault> {
        let mut old = [0; 8];
        self.read(address, &mut old)?;
        let old = u64::from_ne_bytes(old);
        self.write(address, &change(old).to_ne_bytes())?;
        Ok(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let mut memory = HostMemory::new();
        let bytes: Vec<Cell<u8>> = (0..100).map(Cell::new).collect();
        let address = bytes.as_ptr() as u64;
        let mut read = [0; 100];
        assert_eq!(memory.read(address, &mut read), Ok(()));
        assert!((0..100).eq(read));
        assert_eq!(memory.write(address + 10, &[7; 5]), Ok(()));
        assert_eq!((bytes[9].get(), bytes[10].get(), bytes[14].get(), bytes[15].get()), (9, 7, 7, 15));
        assert_eq!(
            memory.update(address + 16, |old| old + 1),
            Ok(u64::from_ne_bytes([16, 17, 18, 19, 20, 21, 22, 23]))
        );
        assert_eq!(bytes[16].get(), 17, "little-endian, as all machines that this runs on");
        assert!(memory.exists(address, 100) && !memory.exists(8, 8) && !memory.exists(u64::MAX, 2));
        assert_eq!(memory.read(8, &mut read), Err(Fault));
        assert_eq!(memory.write(8, &read), Err(Fault));
        assert_eq!(memory.update(8, |old| old), Err(Fault));
    }
}
