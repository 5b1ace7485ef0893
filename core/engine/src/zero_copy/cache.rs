//! Registered memory that is kept for the next time: bounded in regions and bytes, the longest unused goes first.
//!
//! A *lease* is the right to use a region; what is leased stays. A device that follows mappings (on-demand paging, the
//! emulator) keeps a region good whatever the program does with its memory, so that regions without a lease are kept until
//! their room is needed. On other devices a region means the pages that were there when it was registered, which the program
//! may have unmapped since; nobody tells (see the crate's readme), so there a region goes with its last lease. A lease ends when its request does, before the program can know that it
//! may give the memory back; only who frees a request that is under way may know it sooner (from what the other process says), so then nothing is shared any more.
//!
//! What others are let into is leased *alone*: nobody else finds the region, so that it can be taken back from them at once. Its
//! holder may release it and ask for it again ([`Cache::again`]): it is there unless the device or the bounds have had it since.

use std::collections::BTreeMap;
use weft_api::verbs::Access;
use weft_api::zero_copy::{MemoryRange, Region, RegionId, Unregistered};

/// A region that is in use, until [`Cache::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    place: u32,
    /// Which of those that were at this place.
    serial: u64,
    /// Address of the region's first byte here.
    start: u64,
    pub(crate) region: Region,
}

impl Lease {
    /// Address of the region's first byte in this process.
    pub(crate) const fn begins_at(&self) -> u64 {
        self.start
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    range: MemoryRange,
    access: Access,
    region: Region,
    leases: u32,
    /// When it was used last.
    used: u64,
    /// Whether it has one holder, and is not found by others.
    alone: bool,
    serial: u64,
}

/// Where regions come from.
pub(crate) trait Registrar {
    fn register(&mut self, range: MemoryRange, access: Access) -> Result<Region, Unregistered>;
    fn deregister(&mut self, region: RegionId);
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cache {
    most_regions: usize,
    most_bytes: u64,
    keeps: bool,
    /// Whether a region that is leased is found by others.
    shares: bool,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// Entries that are found, by where they begin.
    by_start: BTreeMap<(u64, u32), ()>,
    /// Number of the others.
    alone: usize,
    /// Entries without a lease, by when they were used last.
    idle: BTreeMap<u64, u32>,
    bytes: u64,
    clock: u64,
    pub(crate) counts: Counts,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) registered: u64,
    pub(crate) given_back: u64,
}

/// Entries before an address that are looked at for one that covers it: those that begin far in front of it and are found by
/// none of these are registered again, which costs time and is no error.
const LOOK_BACK: usize = 8;

impl Cache {
    pub(crate) fn new(most_regions: usize, most_bytes: u64, keeps: bool) -> Cache {
        Cache {
            most_regions: most_regions.max(1),
            most_bytes,
            keeps,
            shares: true,
            entries: Vec::new(),
            free: Vec::new(),
            by_start: BTreeMap::new(),
            alone: 0,
            idle: BTreeMap::new(),
            bytes: 0,
            clock: 0,
            counts: Counts::default(),
        }
    }

    fn len(&self) -> usize {
        self.by_start.len() + self.alone
    }

    /// Regions that are leased alone, or were and are kept.
    pub(crate) fn alone(&self) -> usize {
        self.alone
    }

    /// From now on every lease has a region of its own, where these do not follow mappings: the program may give memory back before the lease of it has ended.
    pub(crate) fn share_no_more(&mut self) {
        self.shares = self.keeps;
    }

    /// A lease on a region that covers the range with these rights.
    ///
    /// # Errors
    /// As the registrar says; exhausted is what remains so when everything without a lease was given back.
    pub(crate) fn lease(
        &mut self,
        range: MemoryRange,
        access: Access,
        registrar: &mut impl Registrar,
    ) -> Result<Lease, Unregistered> {
        let end = range.end().ok_or(Unregistered::Cannot)?;
        if self.shares
            && let Some(place) = self.find(range.address, end, access)
        {
            self.counts.hits += 1;
            return Ok(self.take(place));
        }
        let place = self.add(range, access, false, registrar)?;
        self.by_start.insert((range.address, place), ());
        Ok(self.take(place))
    }

    /// A lease on a region of its own, for [`Cache::again`] or [`Cache::give_back`].
    ///
    /// # Errors
    /// As [`Cache::lease`].
    pub(crate) fn lease_alone(
        &mut self,
        range: MemoryRange,
        access: Access,
        registrar: &mut impl Registrar,
    ) -> Result<Lease, Unregistered> {
        range.end().ok_or(Unregistered::Cannot)?;
        let place = self.add(range, access, true, registrar)?;
        self.alone += 1;
        Ok(self.take(place))
    }

    /// The lease alone that was released, if its region is still there.
    pub(crate) fn again(&mut self, lease: Lease) -> Option<Lease> {
        self.is_kept(lease).then(|| {
            self.counts.hits += 1;
            self.take(lease.place)
        })
    }

    /// Ends a lease alone, or what was kept of it: nobody gets at the memory any more.
    pub(crate) fn give_back(&mut self, lease: Lease, registrar: &mut impl Registrar) {
        if self.is_kept(lease) {
            let used = self.entry(lease.place).used;
            self.idle.remove(&used);
            self.remove(lease.place, registrar);
        }
    }

    fn is_kept(&self, lease: Lease) -> bool {
        self.entries[lease.place as usize].is_some_and(|entry| entry.serial == lease.serial)
    }

    /// Registers what is not there yet, without a lease.
    fn add(
        &mut self,
        range: MemoryRange,
        access: Access,
        alone: bool,
        registrar: &mut impl Registrar,
    ) -> Result<u32, Unregistered> {
        while self.len() >= self.most_regions || self.bytes.saturating_add(range.length) > self.most_bytes {
            if !self.give_back_oldest(registrar) {
                return Err(Unregistered::Exhausted);
            }
        }
        let region = self.register(range, access, registrar)?;
        self.counts.registered += 1;
        self.bytes += range.length;
        let serial = self.counts.registered;
        let entry = Entry { range, access, region, leases: 0, used: 0, alone, serial };
        Ok(match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = Some(entry);
                place
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() as u32 - 1
            }
        })
    }

    /// Registers memory that somebody else keeps account of, for as long as he likes.
    ///
    /// # Errors
    /// As [`Cache::lease`].
    pub(crate) fn register(
        &mut self,
        range: MemoryRange,
        access: Access,
        registrar: &mut impl Registrar,
    ) -> Result<Region, Unregistered> {
        loop {
            match registrar.register(range, access) {
                Err(Unregistered::Exhausted) if self.give_back_oldest(registrar) => {}
                other => return other,
            }
        }
    }

    fn entry(&mut self, place: u32) -> &mut Entry {
        self.entries[place as usize].as_mut().expect("a place that is in use")
    }

    fn find(&self, start: u64, end: u64, access: Access) -> Option<u32> {
        self.by_start.range(..=(start, u32::MAX)).rev().take(LOOK_BACK).map(|(&(_, place), ())| place).find(
            |&place| {
                self.entries[place as usize].is_some_and(|entry| {
                    entry.range.end().is_some_and(|last| last >= end) && covers(entry.access, access)
                })
            },
        )
    }

    fn take(&mut self, place: u32) -> Lease {
        let entry = self.entry(place);
        entry.leases += 1;
        let Entry { used, region, serial, range, .. } = *entry;
        self.idle.remove(&used);
        Lease { place, serial, start: range.address, region }
    }

    /// A lease ends.
    pub(crate) fn release(&mut self, lease: Lease, registrar: &mut impl Registrar) {
        self.clock += 1;
        let (clock, keeps) = (self.clock, self.keeps);
        let entry = self.entry(lease.place);
        entry.leases -= 1;
        if entry.leases > 0 {
            return;
        }
        entry.used = clock;
        if keeps {
            self.idle.insert(clock, lease.place);
        } else {
            self.remove(lease.place, registrar);
        }
    }

    /// Gives the region back that was not used for longest; false when all are in use.
    fn give_back_oldest(&mut self, registrar: &mut impl Registrar) -> bool {
        let Some((_, place)) = self.idle.pop_first() else { return false };
        self.remove(place, registrar);
        true
    }

    fn remove(&mut self, place: u32, registrar: &mut impl Registrar) {
        let Some(entry) = self.entries[place as usize].take() else { return };
        self.free.push(place);
        match entry.alone {
            true => self.alone -= 1,
            false => drop(self.by_start.remove(&(entry.range.address, place))),
        }
        self.bytes -= entry.range.length;
        self.counts.given_back += 1;
        registrar.deregister(entry.region.id);
    }
}

/// Whether rights include others.
fn covers(has: Access, needs: Access) -> bool {
    (has.local_write || !needs.local_write)
        && (has.remote_write || !needs.remote_write)
        && (has.remote_read || !needs.remote_read)
        && (has.remote_atomic || !needs.remote_atomic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use weft_api::zero_copy::{RemoteMemory, TO_BE_READ, TO_BE_WRITTEN};

    /// A device with room for so many regions and bytes.
    #[derive(Debug, Default)]
    struct Device {
        regions: usize,
        bytes: u64,
        next: u32,
        registered: BTreeMap<u32, (MemoryRange, Access)>,
    }

    impl Registrar for Device {
        fn register(&mut self, range: MemoryRange, access: Access) -> Result<Region, Unregistered> {
            let bytes: u64 = self.registered.values().map(|(range, _)| range.length).sum();
            if self.registered.len() >= self.regions || bytes + range.length > self.bytes {
                return Err(Unregistered::Exhausted);
            }
            self.next += 1;
            self.registered.insert(self.next, (range, access));
            let remote = RemoteMemory { address: range.address, key: u64::from(self.next) };
            Ok(Region { id: RegionId(self.next), remote })
        }

        fn deregister(&mut self, region: RegionId) {
            assert!(self.registered.remove(&region.0).is_some(), "given back twice");
        }
    }

    fn range(address: u64, length: u64) -> MemoryRange {
        MemoryRange { address, length }
    }

    proptest! {
        /// Whatever is leased and released: a leased region is registered, covers its range, has the rights; the bounds hold;
        /// what is refused could not be had although everything idle was given back.
        #[test]
        fn leases_are_good_and_bounds_hold(
            most_regions in 1_usize..8, most_bytes in 1_u64..2000, device_regions in 1_usize..8,
            device_bytes in 1_u64..2000, keeps: bool,
            steps in proptest::collection::vec((0_u64..1000, 0_u64..600, any::<bool>(), 0_usize..6), 0..200)
        ) {
            let mut device = Device { regions: device_regions, bytes: device_bytes, ..Device::default() };
            let mut cache = Cache::new(most_regions, most_bytes, keeps);
            let mut held: Vec<Lease> = Vec::new();
            for (address, length, read, keep) in steps {
                let access = if read { TO_BE_READ } else { TO_BE_WRITTEN };
                match cache.lease(range(address, length), access, &mut device) {
                    Ok(lease) => {
                        let (covered, rights) = device.registered[&lease.region.id.0];
                        prop_assert!(covered.address <= address && covered.end() >= Some(address + length));
                        prop_assert!(covers(rights, access));
                        held.push(lease);
                    }
                    Err(refused) => {
                        prop_assert_eq!(refused, Unregistered::Exhausted);
                        prop_assert!(cache.idle.is_empty(), "idle regions were not given back");
                    }
                }
                while held.len() > keep {
                    cache.release(held.remove(0), &mut device);
                }
                prop_assert!(cache.len() <= most_regions && cache.bytes <= most_bytes);
                prop_assert_eq!(cache.len(), device.registered.len());
                for lease in &held {
                    prop_assert!(device.registered.contains_key(&lease.region.id.0), "a leased region is gone");
                }
                prop_assert!(keeps || cache.idle.is_empty(), "nothing is kept that may mean other pages by now");
            }
        }
    }

    proptest! {
        /// Whatever is leased alone, released and asked for again, beside leases of the same bytes: what is there again is registered
        /// as before, where nothing is kept it never is; what is given back is not registered; nobody else finds it; the bounds hold.
        #[test]
        fn leases_alone_come_again_or_are_gone(
            most_regions in 1_usize..6, keeps: bool,
            steps in proptest::collection::vec((0_u8..5, 0_u64..8, 0_usize..8), 0..200)
        ) {
            let mut device = Device { regions: 4, bytes: 3000, ..Device::default() };
            let mut cache = Cache::new(most_regions, 2500, keeps);
            let (mut held, mut rested, mut shared) = (Vec::new(), Vec::new(), Vec::new());
            for (what, address, at) in steps {
                let bytes = range(address * 100, 300);
                match what {
                    0 => held.extend(cache.lease_alone(bytes, TO_BE_WRITTEN, &mut device).ok()),
                    1 if !held.is_empty() => {
                        let lease: Lease = held.swap_remove(at % held.len());
                        cache.release(lease, &mut device);
                        rested.push(lease);
                    }
                    2 if !rested.is_empty() => {
                        let lease = rested.swap_remove(at % rested.len());
                        let there = device.registered.contains_key(&lease.region.id.0);
                        let again = cache.again(lease);
                        prop_assert_eq!(again, (there && keeps).then_some(lease));
                        held.extend(again);
                    }
                    3 if !rested.is_empty() || !held.is_empty() => {
                        let from = if rested.is_empty() { &mut held } else { &mut rested };
                        let lease = from.swap_remove(at % from.len());
                        cache.give_back(lease, &mut device);
                        prop_assert!(!device.registered.contains_key(&lease.region.id.0), "it was given back");
                    }
                    4 => {
                        if let Ok(lease) = cache.lease(bytes, TO_BE_WRITTEN, &mut device) {
                            let other = |alone: &Lease| alone.region.id != lease.region.id;
                            prop_assert!(held.iter().chain(&rested).all(other), "found by somebody else");
                            shared.push(lease);
                        }
                        if shared.len() > 1 {
                            cache.release(shared.remove(0), &mut device);
                        }
                    }
                    _ => {}
                }
                prop_assert!(cache.len() <= most_regions && cache.bytes <= 2500);
                prop_assert_eq!(cache.len(), device.registered.len());
                prop_assert!(held.iter().all(|lease| device.registered.contains_key(&lease.region.id.0)));
                prop_assert!(keeps || cache.alone() == held.len(), "nothing is kept that may mean other pages by now");
            }
        }
    }

    #[test]
    fn who_gives_memory_back_early_shares_no_region_unless_it_follows_mappings() {
        for keeps in [false, true] {
            let mut device = Device { regions: 3, bytes: 1 << 30, ..Device::default() };
            let mut cache = Cache::new(100, u64::MAX, keeps);
            let mut lease = |cache: &mut Cache| cache.lease(range(100, 10), TO_BE_READ, &mut device).unwrap();
            let first = lease(&mut cache);
            assert_eq!(lease(&mut cache).region.id, first.region.id);
            cache.share_no_more();
            assert_eq!(lease(&mut cache).region.id == first.region.id, keeps);
        }
    }

    #[test]
    fn the_longest_unused_goes_first_when_the_device_is_exhausted() {
        let mut device = Device { regions: 3, bytes: 1 << 30, ..Device::default() };
        let mut cache = Cache::new(100, u64::MAX, true);
        let mut once = |cache: &mut Cache, address| {
            let lease = cache.lease(range(address, 10), TO_BE_READ, &mut device).expect("room");
            cache.release(lease, &mut device);
            lease.region.id.0
        };
        let [a, b, c] = [100, 200, 300].map(|address| once(&mut cache, address));
        assert_eq!(once(&mut cache, 100), a, "a hit, which makes it the newest");
        let d = once(&mut cache, 400);
        assert_eq!(device.registered.keys().copied().collect::<Vec<_>>(), [a, c, d], "{b} went");
        assert_eq!(cache.counts, Counts { hits: 1, registered: 4, given_back: 1 });
    }
}
