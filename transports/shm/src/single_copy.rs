//! Reading and writing another process's memory in one copy (`process_vm_readv`, `process_vm_writev`), where the kernel allows it.
//!
//! The kernel may forbid it (Yama, seccomp, user namespaces), and a process id from the table may mean another process
//! in our pid namespace. So the first use with every peer reads a random number at the address where the peer says it
//! keeps it; only when the number is right is the peer read from at all. The answer is remembered.

use crate::segment::{PeerState, Slot};
use crate::sys;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_types::{Error, ErrorClass, PeerId, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Untried,
    Granted,
    Denied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// What is known about reading each local peer.
#[derive(Debug)]
pub(crate) struct SingleCopy {
    enabled: bool,
    access: Vec<Cell<Access>>,
    /// Whether the kernel has refused to write to anybody.
    cannot_write: Cell<bool>,
    /// The number that the others look for here; boxed, so that its address stays.
    nonce: Box<AtomicU64>,
}

/// Processes that can be read, by their place in a list.
#[derive(Debug)]
pub struct Readers {
    pids: Box<[u32]>,
}

impl Readers {
    /// Fills `into` from `address` in the memory of one of them; whether all came.
    pub fn read(&self, member: u32, address: u64, into: &mut [u8]) -> bool {
        let (pid, mut done) = (self.pids[member as usize], 0);
        while done < into.len() {
            match sys::read_process(pid, address + done as u64, &mut into[done..]) {
                Ok(more) if more > 0 => done += more,
                // Nothing is mapped there, or the process is gone.
                _ => return false,
            }
        }
        true
    }
}

impl SingleCopy {
    /// For `ranks` local ranks. `enabled`: also lets the others read us where Yama asks for consent.
    pub(crate) fn new(enabled: bool, ranks: u32) -> SingleCopy {
        if enabled {
            sys::allow_readers();
        }
        SingleCopy {
            enabled,
            access: vec![Cell::new(Access::Untried); ranks as usize],
            cannot_write: Cell::new(false),
            nonce: Box::new(AtomicU64::new(sys::nonce())),
        }
    }

    /// The same for another lane of this process, which finds out for itself who can be read. Its number is nobody's
    /// proof: others know that of lane 0.
    pub(crate) fn another(&self) -> SingleCopy {
        let access = vec![Cell::new(Access::Untried); self.access.len()];
        SingleCopy { enabled: self.enabled, access, cannot_write: Cell::new(false), nonce: Box::default() }
    }

    /// The word that proves who we are.
    pub(crate) fn nonce(&self) -> &AtomicU64 {
        &self.nonce
    }

    /// Whether the memory of the process with local index `local` can be read; asks the kernel once.
    pub(crate) fn possible(&self, local: u32, slot: &Slot) -> bool {
        let access = &self.access[local as usize];
        if access.get() == Access::Untried && self.enabled && slot.state() == PeerState::Attached {
            access.set(if probe(slot) { Access::Granted } else { Access::Denied });
        }
        access.get() == Access::Granted
    }

    /// The processes of those local indices, to read them at any time; `None` when one of them cannot be read. The one at `me` is this
    /// process, which needs no reading.
    pub(crate) fn readers<'a>(
        &self,
        me: u32,
        peers: impl IntoIterator<Item = (u32, &'a Slot)>,
    ) -> Option<Readers> {
        let pid = |(member, (local, slot)): (u32, (u32, &Slot))| {
            (member == me || self.possible(local, slot)).then(|| slot.pid.load(Ordering::Relaxed))
        };
        Some(Readers { pids: (0..).zip(peers).map(pid).collect::<Option<_>>()? })
    }

    /// Fills `into` from `address` in the memory of `peer`.
    pub(crate) fn read(
        &self,
        local: u32,
        slot: &Slot,
        peer: PeerId,
        address: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let len = into.len();
        self.repeat(Direction::Read, local, slot, (peer, len, address), |pid, done| {
            sys::read_process(pid, address + done as u64, &mut into[done..])
        })
    }

    /// Copies `bytes` to `address` in the memory of `peer`.
    pub(crate) fn write(
        &self,
        local: u32,
        slot: &Slot,
        peer: PeerId,
        address: u64,
        bytes: &[u8],
    ) -> Result<()> {
        self.repeat(Direction::Write, local, slot, (peer, bytes.len(), address), |pid, done| {
            sys::write_process(pid, address + done as u64, &bytes[done..])
        })
    }

    /// Fills the runs of `local` from those of `remote` (address, bytes) in the memory of `peer`; both have the same number of
    /// bytes and at most [`sys::MOST_RUNS`] entries.
    pub(crate) fn read_runs(
        &self,
        index: u32,
        slot: &Slot,
        peer: PeerId,
        remote: &[(u64, usize)],
        local: &[&[Cell<u8>]],
    ) -> Result<()> {
        let (len, address) = (remote.iter().map(|run| run.1).sum(), remote.first().map_or(0, |run| run.0));
        self.repeat(Direction::Read, index, slot, (peer, len, address), |pid, done| match done {
            0 => sys::read_process_runs(pid, remote, local),
            // The kernel stops early where something is not mapped, and for a signal.
            _ => {
                let (mut behind, mut ahead) = (done, done);
                let remote: Vec<(u64, usize)> = remote
                    .iter()
                    .map(|&(address, len)| {
                        let skip = len.min(behind);
                        behind -= skip;
                        (address + skip as u64, len - skip)
                    })
                    .filter(|run| run.1 > 0)
                    .collect();
                let local: Vec<&[Cell<u8>]> = local
                    .iter()
                    .map(|run| {
                        let skip = run.len().min(ahead);
                        ahead -= skip;
                        &run[skip..]
                    })
                    .filter(|run| !run.is_empty())
                    .collect();
                sys::read_process_runs(pid, &remote, &local)
            }
        })
    }

    /// Copies until all `len` bytes are here, or there; `more` copies from byte `done` on.
    fn repeat(
        &self,
        direction: Direction,
        local: u32,
        slot: &Slot,
        (peer, len, address): (PeerId, usize, u64),
        mut more: impl FnMut(u32, usize) -> std::io::Result<usize>,
    ) -> Result<()> {
        let denied = |why: &dyn std::fmt::Display| {
            let what = if direction == Direction::Read { "read" } else { "write" };
            let text =
                format!("cannot {what} {len} bytes at {address:#x} in the memory of rank {}: {why}", peer.0);
            Error::new(ErrorClass::ACCESS, text)
        };
        if !self.possible(local, slot) || direction == Direction::Write && self.cannot_write.get() {
            return Err(denied(
                &"the kernel does not let us reach that process, or single copy is switched off",
            ));
        }
        let pid = slot.pid.load(Ordering::Relaxed);
        let mut done = 0;
        while done < len {
            match more(pid, done) {
                Ok(0) => return Err(denied(&format_args!("nothing is mapped from byte {done} on"))),
                Ok(more) => done += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // A bad address concerns this message only; anything else concerns the peer. What must not be written may be read.
                    match direction {
                        _ if error.raw_os_error() == Some(libc::EFAULT) => {}
                        Direction::Read => self.access[local as usize].set(Access::Denied),
                        Direction::Write => self.cannot_write.set(true),
                    }
                    return Err(denied(&error));
                }
            }
        }
        Ok(())
    }
}

/// Reads the peer's number from its memory and compares.
fn probe(slot: &Slot) -> bool {
    let (pid, address) = (slot.pid.load(Ordering::Relaxed), slot.nonce_address.load(Ordering::Relaxed));
    let mut found = [0; 8];
    matches!(sys::read_process(pid, address, &mut found), Ok(8))
        && u64::from_ne_bytes(found) == slot.nonce.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Segment;

    #[test]
    fn a_process_that_is_not_the_peer_is_not_read() {
        let segment = Segment::open(crate::create().expect("a memory file"), 2).expect("opened");
        let (mine, theirs) = (SingleCopy::new(true, 2), SingleCopy::new(true, 2));
        assert!(!mine.possible(1, segment.slot(1)), "not attached yet");
        segment.claim(1, theirs.nonce()).expect("claimed");
        // As if the number in the table meant another process here.
        theirs.nonce().fetch_add(2, Ordering::Relaxed);
        assert!(!mine.possible(1, segment.slot(1)));
        theirs.nonce().fetch_sub(2, Ordering::Relaxed);
        assert!(!mine.possible(1, segment.slot(1)), "a denial is remembered");
        let error = mine.read(1, segment.slot(1), PeerId(5), 4096, &mut [0; 8]).expect_err("denied");
        assert!(error.text().contains("rank 5"), "{error}");
        assert!(!SingleCopy::new(false, 2).possible(1, segment.slot(1)), "switched off");
    }
}
