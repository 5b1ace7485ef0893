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

fn always(keeps: bool) -> Keeping {
    if keeps { Keeping::Always } else { Keeping::Never }
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
        let mut cache = Cache::new(most_regions, most_bytes, always(keeps));
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
        let mut cache = Cache::new(most_regions, 2500, always(keeps));
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
                    let again = cache.again(lease, &mut device);
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
        let mut cache = Cache::new(100, u64::MAX, always(keeps));
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
    let mut cache = Cache::new(100, u64::MAX, Keeping::Always);
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

/// A watcher that is told by the test, and watches every range but those that begin at an odd address.
#[derive(Clone, Debug, Default)]
struct Told(std::sync::Arc<std::sync::Mutex<Ranges>>);

/// Of each spot its range, and whether it is good; and how many changes there were.
type Ranges = (Vec<(MemoryRange, bool)>, u32);

impl Told {
    fn change(&self, range: MemoryRange) {
        let mut inner = self.0.lock().unwrap();
        let end = range.end().unwrap();
        for (watched, good) in &mut inner.0 {
            *good &= watched.address >= end || range.address >= watched.end().unwrap();
        }
        inner.1 += 1;
    }

    fn watched(&self) -> usize {
        self.0.lock().unwrap().0.iter().filter(|(range, _)| range.length > 0).count()
    }
}

impl Watcher for Told {
    fn begin(&self, range: MemoryRange) -> Option<Spot> {
        let list = &mut self.0.lock().unwrap().0;
        list.push((range, true));
        (range.address.is_multiple_of(2)).then(|| Spot { place: list.len() as u32 - 1, serial: 0 }).or_else(
            || {
                list.pop();
                None
            },
        )
    }

    fn is_good(&self, spot: Spot) -> bool {
        self.0.lock().unwrap().0[spot.place as usize].1
    }

    fn is_marked(&self, spot: Spot) -> bool {
        !self.is_good(spot)
    }

    fn changes(&self) -> u32 {
        self.0.lock().unwrap().1
    }

    fn end(&self, spot: Spot) {
        let range = &mut self.0.lock().unwrap().0[spot.place as usize].0;
        assert!(range.length > 0, "ended twice");
        range.length = 0;
    }
}

proptest! {
    /// Whatever is leased, released and changed: a lease never has pages of before a change; what is not in use is registered only as long as
    /// nothing has changed; whoever has a region alone has it again or not at all; as many are watched as can be.
    #[test]
    fn watched_regions_are_found_until_they_change(
        most_regions in 2_usize..8, frees: bool,
        steps in proptest::collection::vec((0_u8..6, 0_u64..40, 1_u64..12, 0_usize..8), 0..200)
    ) {
        let mut device = Device { regions: 6, bytes: 1 << 30, ..Device::default() };
        let told = Told::default();
        let mut cache = Cache::new(most_regions, 1 << 30, Keeping::Watched(Box::new(told.clone())));
        // Of each byte how often it has changed, and of each region how often they had when it was registered.
        let mut bytes = [0_u32; 64];
        let mut registered: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let (mut held, mut alone, mut rested): (Vec<Lease>, Vec<Lease>, Vec<Lease>) = Default::default();
        if frees {
            cache.share_no_more();
        }
        for (what, address, length, at) in steps {
            let wanted = range(address, length);
            match what {
                0 | 1 => {
                    let lease = match what {
                        0 => cache.lease(wanted, TO_BE_READ, &mut device),
                        _ => cache.lease_alone(wanted, TO_BE_READ, &mut device),
                    };
                    if let Ok(lease) = lease {
                        let of = device.registered[&lease.region.id.0].0;
                        let now = &bytes[of.address as usize..of.end().unwrap() as usize];
                        let then = registered.entry(lease.region.id.0).or_insert_with(|| now.to_vec());
                        // Memory that is not watched is shared while it is in use, when it cannot change.
                        if frees || of.address.is_multiple_of(2) {
                            prop_assert_eq!(&then[..], now, "pages of before a change");
                        }
                        if what == 0 { held.push(lease) } else { alone.push(lease) }
                    }
                }
                2 if !held.is_empty() => cache.release(held.swap_remove(at % held.len()), &mut device),
                3 if !alone.is_empty() => {
                    let lease = alone.swap_remove(at % alone.len());
                    cache.release(lease, &mut device);
                    rested.push(lease);
                }
                4 if !rested.is_empty() => {
                    let lease = rested.swap_remove(at % rested.len());
                    if let Some(lease) = cache.again(lease, &mut device) {
                        let of = device.registered[&lease.region.id.0].0;
                        let now = &bytes[of.address as usize..of.end().unwrap() as usize];
                        prop_assert_eq!(&registered[&lease.region.id.0][..], now, "pages of before a change");
                        alone.push(lease);
                    }
                }
                5 => {
                    bytes[address as usize..(address + length) as usize].iter_mut().for_each(|byte| *byte += 1);
                    told.change(wanted);
                    if at > 3 {
                        prop_assert!(cache.has_news());
                        cache.sweep(&mut device);
                        prop_assert!(!cache.has_news());
                        for &place in cache.idle.values() {
                            let entry = cache.entries[place as usize].unwrap();
                            prop_assert!(told.is_good(entry.spot.unwrap()), "pages that are nobody's");
                        }
                    }
                }
                _ => {}
            }
            prop_assert!(cache.len() <= most_regions);
            prop_assert_eq!(cache.len(), device.registered.len());
            let watched = cache.entries.iter().flatten().filter(|entry| entry.range.address.is_multiple_of(2)).count();
            prop_assert_eq!(told.watched(), watched);
            for lease in held.iter().chain(&alone) {
                prop_assert!(device.registered.contains_key(&lease.region.id.0), "a leased region is gone");
            }
        }
    }
}

#[test]
fn short_messages_register_memory_that_is_used_again_unless_it_always_changes() {
    let mut device = Device { regions: 100, bytes: 1 << 30, ..Device::default() };
    let told = Told::default();
    let mut cache = Cache::new(100, u64::MAX, Keeping::Watched(Box::new(told.clone())));
    let buffer = range(100, 10);
    assert!(!cache.is_worth_it(buffer, &mut device), "nothing is known of it");
    assert!(!cache.is_worth_it(range(300, 10), &mut device));
    assert!(cache.is_worth_it(buffer, &mut device), "a second time");
    let lease = cache.lease(buffer, TO_BE_READ, &mut device).unwrap();
    cache.release(lease, &mut device);
    assert!(cache.is_worth_it(range(102, 3), &mut device), "registered");
    told.change(buffer);
    assert!(cache.has_news());
    // Whoever takes and gives back a buffer for each message pays less and less.
    let mut registered = 0;
    for _ in 0..1000 {
        if cache.is_worth_it(buffer, &mut device) {
            let lease = cache.lease(buffer, TO_BE_READ, &mut device).unwrap();
            cache.release(lease, &mut device);
            registered += 1;
        }
        told.change(buffer);
    }
    assert!((5..15).contains(&registered), "{registered}");
    let mut always = Cache::new(100, u64::MAX, Keeping::Always);
    assert!(always.is_worth_it(buffer, &mut device), "of other devices the plan has asked that");
}
