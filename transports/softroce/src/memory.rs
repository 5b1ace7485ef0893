//! Memory regions: keys, bounds and rights, checked before any byte is touched (section 10.6).

use weft_api::verbs::{Access, LocalKey, ProtectionDomain, RegionKeys, RemoteKey, Segment};

/// There are no such bytes behind an address, or not any more: the program has unmapped them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// The bytes behind addresses. The device calls it only with ranges that lie in a registered region.
pub trait Memory {
    /// Copies bytes out.
    ///
    /// # Errors
    /// [`Fault`].
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault>;
    /// Appends bytes. `more` of those behind them will be wanted soon.
    ///
    /// # Errors
    /// [`Fault`]; some may have been appended.
    fn append(&self, address: u64, length: usize, more: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        let _ = more;
        let start = out.len();
        out.resize(start + length, 0);
        self.read(address, &mut out[start..])
    }
    /// Copies bytes in.
    ///
    /// # Errors
    /// [`Fault`]; some of them may have been written.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault>;
    /// Replaces eight aligned bytes, a number in the machine's byte order, and returns what was there. Atomic with respect to
    /// other calls of this method.
    ///
    /// # Errors
    /// [`Fault`].
    fn update(&mut self, address: u64, change: impl Fn(u64) -> u64) -> Result<u64, Fault>;
}

/// What the other side of a right wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Write,
    Read,
    Atomic,
}

#[derive(Debug)]
struct Region {
    domain: ProtectionDomain,
    address: u64,
    length: u64,
    access: Access,
}

/// All regions of a device.
///
/// A key is `slot << 8 | generation`, so that a key that was taken back is not the next region's by accident.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    slots: Vec<(u8, Option<Region>)>,
    free: Vec<u32>,
}

impl Regions {
    /// `None` when the rights contradict each other, the range wraps, or keys are exhausted.
    pub(crate) fn register(
        &mut self,
        domain: ProtectionDomain,
        address: u64,
        length: u64,
        access: Access,
    ) -> Option<RegionKeys> {
        address.checked_add(length)?;
        if !access.is_consistent() {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < 1 << 24 => {
                // Key 0 stays nobody's.
                self.slots.push((1, None));
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        let (generation, place) = &mut self.slots[slot as usize];
        *place = Some(Region { domain, address, length, access });
        let key = slot << 8 | u32::from(*generation);
        Some(RegionKeys { local: LocalKey(key), remote: RemoteKey(key) })
    }

    /// Whether there was such a region.
    pub(crate) fn remove(&mut self, key: u32) -> bool {
        if self.find(key).is_none() {
            return false;
        }
        let (generation, region) = &mut self.slots[(key >> 8) as usize];
        *region = None;
        *generation = generation.wrapping_add(1).max(1);
        self.free.push(key >> 8);
        true
    }

    fn find(&self, key: u32) -> Option<&Region> {
        let (generation, region) = self.slots.get((key >> 8) as usize)?;
        (u32::from(*generation) == key & 0xff).then_some(region.as_ref()?)
    }

    fn covers(&self, domain: ProtectionDomain, key: u32, address: u64, length: u64) -> Option<Access> {
        let region = self.find(key)?;
        let end = address.checked_add(length)?;
        let inside = address >= region.address && end <= region.address + region.length;
        (region.domain == domain && inside).then_some(region.access)
    }

    /// Whether own work requests may use a segment. An empty one is always allowed.
    pub(crate) fn allows_local(&self, domain: ProtectionDomain, segment: Segment, write: bool) -> bool {
        segment.length == 0
            || self
                .covers(domain, segment.key.0, segment.address, u64::from(segment.length))
                .is_some_and(|access| !write || access.local_write)
    }

    /// Whether a peer may do this. Nothing is checked for zero bytes (section 9.7.4.1.5).
    pub(crate) fn allows_remote(
        &self,
        domain: ProtectionDomain,
        key: u32,
        address: u64,
        length: u32,
        right: Right,
    ) -> bool {
        length == 0
            || self.covers(domain, key, address, u64::from(length)).is_some_and(|access| match right {
                Right::Write => access.remote_write,
                Right::Read => access.remote_read,
                Right::Atomic => access.remote_atomic,
            })
    }
}

/// Bytes of a scatter or gather list.
pub(crate) fn total(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.length)).sum()
}

/// Appends `length` bytes from `offset` on of a gather list that was checked.
pub(crate) fn gather<M: Memory>(
    memory: &M,
    segments: &[Segment],
    offset: u64,
    length: usize,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    for_each_part(segments, offset, length as u64, |address, part, more| {
        memory.append(address, part as usize, more, out)
    })
}

/// Writes bytes at `offset` of a scatter list that was checked.
pub(crate) fn scatter<M: Memory>(
    memory: &mut M,
    segments: &[Segment],
    offset: u64,
    mut bytes: &[u8],
) -> Result<(), Fault> {
    for_each_part(segments, offset, bytes.len() as u64, |address, part, _| {
        let (now, later) = bytes.split_at(part as usize);
        bytes = later;
        memory.write(address, now)
    })
}

/// `each` is given an address, how many bytes there are meant, and how many more follow in that segment.
fn for_each_part(
    segments: &[Segment],
    mut offset: u64,
    mut length: u64,
    mut each: impl FnMut(u64, u64, u64) -> Result<(), Fault>,
) -> Result<(), Fault> {
    for segment in segments {
        let here = u64::from(segment.length);
        if offset >= here {
            offset -= here;
            continue;
        }
        let part = (here - offset).min(length);
        if part == 0 {
            break;
        }
        each(segment.address + offset, part, here - offset - part)?;
        offset = 0;
        length -= part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: ProtectionDomain = ProtectionDomain(1);

    #[test]
    fn a_key_that_was_taken_back_names_nothing() {
        let mut regions = Regions::default();
        let old = regions.register(DOMAIN, 100, 50, Access::ALL).unwrap().remote.0;
        assert!(regions.allows_remote(DOMAIN, old, 100, 50, Right::Write));
        assert!(regions.remove(old));
        assert!(!regions.remove(old));
        let new = regions.register(DOMAIN, 100, 50, Access::ALL).unwrap().remote.0;
        assert_ne!(old, new);
        assert!(!regions.allows_remote(DOMAIN, old, 100, 1, Right::Read));
    }

    #[test]
    fn bounds_rights_and_domains_are_kept() {
        let mut regions = Regions::default();
        let only_read = Access { remote_read: true, ..Access::default() };
        let key = regions.register(DOMAIN, 1000, 10, only_read).unwrap().remote.0;
        assert!(regions.allows_remote(DOMAIN, key, 1000, 10, Right::Read));
        assert!(!regions.allows_remote(DOMAIN, key, 999, 2, Right::Read));
        assert!(!regions.allows_remote(DOMAIN, key, 1009, 2, Right::Read));
        assert!(!regions.allows_remote(DOMAIN, key, u64::MAX, 2, Right::Read));
        assert!(!regions.allows_remote(DOMAIN, key, 1000, 1, Right::Write));
        assert!(!regions.allows_remote(DOMAIN, key, 1000, 8, Right::Atomic));
        assert!(!regions.allows_remote(ProtectionDomain(2), key, 1000, 1, Right::Read));
        assert!(regions.allows_remote(DOMAIN, 0, 5, 0, Right::Write), "zero bytes need no region");
        let segment = Segment { address: 1000, length: 10, key: LocalKey(key) };
        assert!(regions.allows_local(DOMAIN, segment, false));
        assert!(!regions.allows_local(DOMAIN, segment, true));
    }

    #[test]
    fn contradictions_are_refused() {
        let mut regions = Regions::default();
        let contradiction = Access { remote_write: true, ..Access::default() };
        assert_eq!(regions.register(DOMAIN, 0, 1, contradiction), None);
        assert_eq!(regions.register(DOMAIN, u64::MAX, 2, Access::ALL), None);
    }
}
