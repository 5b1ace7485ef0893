//! All memory of this process behind its own addresses, beside the device's own buffers.
//!
//! The kernel copies, as it would between two processes: an address behind which there is nothing is an error and not a crash,
//! and the emulator needs no unsafe code. Each such call costs 1.6 us, as much as a packet, so packets share them: a read
//! brings some more with it, and writes that continue one another wait for company, both for the length of one turn of the card
//! ([`HostMemory::begin`] to [`HostMemory::settle`]). Within a turn nobody is told of anything, so nobody sees the difference.
//! The first write of a row is done at once and tells a fault; what follows it in vanished memory nobody can miss. What is read
//! while the program writes to it is what a real device would read: some mixture, for the program to avoid.

use crate::arena::{Arena, FIRST};
use crate::memory::{Fault, Memory};
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use std::cell::RefCell;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

/// Bytes that a read brings along at most.
const AHEAD: usize = 32 << 10;
/// Bytes of writes that wait at most.
const ROW: usize = 64 << 10;
/// No row of writes goes on here.
const NOWHERE: u64 = 0;
/// Where what cannot be written may end.
const PAGE: u64 = 4096;

/// See the module.
#[derive(Debug)]
pub struct HostMemory {
    pub(crate) arena: Arena,
    /// This process. A forked child must make its own device.
    process: Pid,
    ahead: RefCell<Ahead>,
    waiting: RefCell<Row>,
}

/// What was read together: the first `length` bytes of a buffer that is never filled anew.
#[derive(Debug, Default)]
struct Ahead {
    address: u64,
    buffer: Box<[u8]>,
    length: usize,
}

impl Ahead {
    /// Where bytes from an address on lie in the buffer, when all of them are there.
    #[inline]
    fn place(&self, address: u64, length: usize) -> Option<Range<usize>> {
        let start = usize::try_from(address.checked_sub(self.address)?).ok()?;
        let end = start.checked_add(length)?;
        (end <= self.length).then_some(start..end)
    }
}

/// Bytes from an address on.
#[derive(Debug, Default)]
struct Row {
    address: u64,
    bytes: Vec<u8>,
}

impl Row {
    fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }
}

impl HostMemory {
    /// Memory of this process.
    pub fn new() -> HostMemory {
        HostMemory {
            arena: Arena::default(),
            process: Pid::this(),
            ahead: RefCell::default(),
            waiting: RefCell::default(),
        }
    }

    /// A turn of the card begins: the program may have changed its memory.
    pub(crate) fn begin(&mut self) {
        self.ahead.get_mut().length = 0;
        self.waiting.get_mut().address = NOWHERE;
    }

    /// Everything that was written is in place from now on.
    #[inline]
    pub(crate) fn settle(&self) {
        if !self.waiting.borrow().bytes.is_empty() {
            self.write_row();
        }
    }

    fn write_row(&self) {
        let mut row = self.waiting.borrow_mut();
        let mut done = 0;
        while done < row.bytes.len() {
            let at = row.address + done as u64;
            done += match self.write_now(at, &row.bytes[done..]) {
                0 => (PAGE - at % PAGE) as usize,
                written => written,
            };
        }
        row.bytes.clear();
    }

    /// Whether the first and the last byte of a range are there.
    pub fn exists(&self, address: u64, length: u64) -> bool {
        let Some(last) = address.checked_add(length.saturating_sub(1)) else { return false };
        let mut byte = [0];
        length == 0 || [address, last].iter().all(|&at| self.read_now(at, &mut byte) == 1)
    }

    /// Has the bytes used; see [`Memory::append`] for the last but one argument.
    #[inline]
    fn with(&self, address: u64, length: usize, more: u64, used: impl FnOnce(&[u8])) -> Result<(), Fault> {
        if address >= FIRST {
            used(self.arena.bytes(address, length));
            return Ok(());
        }
        self.settle();
        let ahead = &mut *self.ahead.borrow_mut();
        let place =
            ahead.place(address, length).map_or_else(|| self.read_ahead(ahead, address, length, more), Ok)?;
        used(&ahead.buffer[place]);
        Ok(())
    }

    /// Reads bytes and some of those that will be wanted after them.
    fn read_ahead(
        &self,
        ahead: &mut Ahead,
        address: u64,
        length: usize,
        more: u64,
    ) -> Result<Range<usize>, Fault> {
        let more = usize::try_from(more).unwrap_or(usize::MAX).min(AHEAD.saturating_sub(length));
        if ahead.buffer.len() < length + more {
            ahead.buffer = vec![0; (length + more).max(AHEAD)].into();
        }
        ahead.address = address;
        ahead.length = self.read_now(address, &mut ahead.buffer[..length + more]);
        ahead.place(address, length).ok_or(Fault)
    }

    /// Bytes that could be read.
    fn read_now(&self, address: u64, into: &mut [u8]) -> usize {
        let there = [RemoteIoVec { base: address as usize, len: into.len() }];
        process_vm_readv(self.process, &mut [IoSliceMut::new(into)], &there).unwrap_or(0)
    }

    /// Bytes that could be written.
    fn write_now(&self, address: u64, bytes: &[u8]) -> usize {
        let there = [RemoteIoVec { base: address as usize, len: bytes.len() }];
        process_vm_writev(self.process, &[IoSlice::new(bytes)], &there).unwrap_or(0)
    }
}

impl Default for HostMemory {
    fn default() -> HostMemory {
        HostMemory::new()
    }
}

impl Memory for HostMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.with(address, into.len(), 0, |bytes| into.copy_from_slice(bytes))
    }

    fn append(&self, address: u64, length: usize, more: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.with(address, length, more, |bytes| out.extend_from_slice(bytes))
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        if address >= FIRST {
            return self.arena.write(address, bytes);
        }
        self.ahead.get_mut().length = 0;
        let row = self.waiting.get_mut();
        if row.end() == address && address != NOWHERE && row.bytes.len() + bytes.len() <= ROW {
            row.bytes.extend(bytes);
            return Ok(());
        }
        self.settle();
        if self.write_now(address, bytes) != bytes.len() {
            return Err(Fault);
        }
        self.waiting.get_mut().address = address + bytes.len() as u64;
        Ok(())
    }

    fn update(&mut self, address: u64, change: impl Fn(u64) -> u64) -> Result<u64, Fault> {
        let mut old = [0; 8];
        self.read(address, &mut old)?;
        let old = u64::from_ne_bytes(old);
        self.write(address, &change(old).to_ne_bytes())?;
        self.settle();
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
        assert_eq!(memory.write(address + 10, &[7; 3]), Ok(()));
        assert_eq!(memory.write(address + 13, &[7; 2]), Ok(()));
        memory.settle();
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
