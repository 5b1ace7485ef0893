//! The vocabulary of zero copy: registered memory, and operations that move bytes between it and another process's.
//!
//! *Who promises what.* A range of memory is an address and a length here, so that crates without unsafe code can pass it on.
//! That the bytes exist, and that nobody else touches them, is promised where the user's memory enters (the C boundary, shared
//! memory, foreign functions), for as long as the range is registered or an operation on it is under way. Whoever registers
//! must deregister before that ends. A transport that cannot hold such a promise to be true answers an error, never a crash:
//! the emulator asks the kernel.

use crate::verbs::Access;

/// Bytes of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// The first one's address.
    pub address: u64,
    /// How many.
    pub length: u64,
}

impl MemoryRange {
    /// The address behind the last byte; `None` when the range wraps.
    pub const fn end(self) -> Option<u64> {
        self.address.checked_add(self.length)
    }
}

/// A registered range, as its own transport calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub u32);

/// A registered range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// For own runs, and to give it back.
    pub id: RegionId,
    /// What another process must say to reach the first byte.
    pub remote: RemoteMemory,
}

/// Where bytes of another process are: what that process was told by its transport, plus an offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// An address, or an offset, as the other transport counts.
    pub address: u64,
    /// What opens it; devices of 32-bit keys use the lower half for the first rail and the upper for the second, or for what they tell the keys
    /// of further rails by.
    pub key: u64,
}

impl RemoteMemory {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// The same region, `offset` bytes further on.
    #[must_use]
    pub const fn plus(self, offset: u64) -> RemoteMemory {
        RemoteMemory { address: self.address.wrapping_add(offset), key: self.key }
    }

    /// As it travels.
    pub fn emit(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..].copy_from_slice(&self.key.to_le_bytes());
        bytes
    }

    /// As it came; every 16 bytes are one.
    pub fn parse(bytes: [u8; Self::BYTES]) -> RemoteMemory {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        RemoteMemory { address: word(0), key: word(8) }
    }
}

/// One run of another process's memory in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRun {
    /// Where it begins.
    pub memory: RemoteMemory,
    /// Bytes.
    pub length: u64,
}

/// One run of own memory in an operation: it lies in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalRun {
    /// Where it begins.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Where it is registered; means nothing where [`ZeroCopy::local_regions`] is false.
    pub region: RegionId,
}

/// Given with an operation, comes back with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// What an atomic operation does to a number of eight bytes (of four: to the lower half, where [`ZeroCopy::atomics_of_four`]
/// says so).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Adds, wrapping.
    FetchAdd(u64),
    /// Becomes `swap` if it is `compare`.
    CompareSwap {
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
}

/// An operation is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// As it was given.
    pub token: Token,
    /// How it ended.
    pub outcome: Outcome,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All bytes are where they belong: those got are here, those put are visible there to whoever is told of them, and to
    /// every later operation. The number is what an atomic found; 0 for others.
    Done(u64),
    /// Some of the bytes may have been moved. The peer's memory, or ours, did not allow it, or the peer is gone.
    Failed,
}

/// Why memory was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unregistered {
    /// This transport, or this kind of memory, cannot.
    Cannot,
    /// Keys or memory that may be pinned are used up: give regions back and try again.
    Exhausted,
}

/// What a transport can do with registered memory, for one peer. Sizes in bytes, times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZeroCopy {
    /// Whether [`crate::Transport::get`] works.
    pub get: bool,
    /// Whether [`crate::Transport::put`] and [`crate::Transport::put_copy`] work.
    pub put: bool,
    /// Whether [`crate::Transport::atomic`] works on aligned numbers of eight bytes.
    pub atomics: bool,
    /// Whether it also works on numbers of four.
    pub atomics_of_four: bool,
    /// Whether these are atomic towards the target's processors too, and not only among themselves.
    pub atomic_with_processors: bool,
    /// Whether none of these is ever executed while the target's process handles a packet of this transport, or works under the
    /// same lock: true for devices that work inside the target's own calls. Of a device that works by itself, or in a thread of
    /// its own, it is not.
    pub atomic_with_packets: bool,
    /// Whether own runs must be registered.
    pub local_regions: bool,
    /// Whether a region follows its addresses when the program unmaps memory and maps other there: then it may be kept while
    /// nobody uses it. Otherwise it means the pages that were there when it was registered.
    pub follows_mappings: bool,
    /// Bytes of the shortest message that is better read by its receiver than sent where it follows others that are under way, whatever one
    /// alone is: several such reads cost as much as one. `u64::MAX` where nothing is known of that.
    pub read_in_row: u64,
    /// Whether packets sent after a put are seen after it.
    pub put_before_send: bool,
    /// Most bytes of one operation.
    pub max_bytes: u64,
    /// Most bytes of [`crate::Transport::put_copy`].
    pub max_copy: usize,
    /// Most runs of each side in one call of [`crate::Transport::get`] or [`crate::Transport::put`].
    pub max_runs: usize,
    /// Most regions at a time, as far as it is known.
    pub max_regions: usize,
    /// Most bytes that may be registered at a time, as far as it is known.
    pub max_registered: u64,
    /// Model: of registering a range, and of giving it back.
    pub registration: f64,
    /// Model: of each byte of it.
    pub registration_per_byte: f64,
    /// Model: from a get to its end, without bytes.
    pub get_latency: f64,
    /// Model: from a put to its end, without bytes.
    pub put_latency: f64,
    /// Model: bytes per second.
    pub bandwidth: f64,
    /// Model: of each run beyond the first.
    pub per_run: f64,
}

/// Rights of a region that is only read by others.
pub const TO_BE_READ: Access =
    Access { local_write: false, remote_write: false, remote_read: true, remote_atomic: false };

/// Rights of a region that own gets, and puts of others, fill.
pub const TO_BE_WRITTEN: Access =
    Access { local_write: true, remote_write: true, remote_read: false, remote_atomic: false };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_memory_survives_the_trip_and_ranges_do_not_wrap() {
        let memory = RemoteMemory { address: 0x0102_0304_0506_0708, key: u64::MAX - 3 };
        assert_eq!(RemoteMemory::parse(memory.emit()), memory);
        assert_eq!(memory.plus(8).address, memory.address + 8);
        assert_eq!(MemoryRange { address: u64::MAX - 7, length: 8 }.end(), None);
        assert_eq!(MemoryRange { address: u64::MAX - 8, length: 8 }.end(), Some(u64::MAX));
    }
}
