//! Registered memory that is kept for the next time: bounded in regions and bytes, the longest unused goes first.
//!
//! A *lease* is the right to use a region; what is leased stays. A device that follows mappings (on-demand paging, the
//! emulator) keeps a region good whatever the program does with its memory, so that regions without a lease are kept until
//! their room is needed ([`Keeping::Always`]). On other devices a region means the pages that were there when it was registered, which the program
//! may have unmapped since. Where the kernel tells that ([`Keeping::Watched`]), a region is kept until it has; it is found only where nothing has changed. Where nobody
//! tells, and of memory that cannot be watched, a region goes with its last lease ([`Keeping::Never`]). A lease ends when its request does, before the program can know that it
//! may give the memory back; only who frees a request that is under way may know it sooner (from what the other process says), so then nothing is shared any more that is not
//! watched.
//!
//! What others are let into is leased *alone*: nobody else finds the region, so that it can be taken back from them at once. Its
//! holder may release it and ask for it again ([`Cache::again`]): it is there unless the device or the bounds have had it since.

use std::collections::BTreeMap;
use weft_api::verbs::Access;
use weft_api::zero_copy::{MemoryRange, Region, RegionId, Unregistered};
use weft_mappings::Spot;

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
    /// Tells whether its pages are those that are registered; `None`: nobody does, or there is no need.
    spot: Option<Spot>,
    /// Its memory has changed: nobody finds it.
    hidden: bool,
    /// Whether it was found by a later lease.
    paid: bool,
}

/// Tells of memory whether it has changed ([`weft_mappings::Watch`]).
pub(crate) trait Watcher: std::fmt::Debug + Send {
    fn begin(&self, range: MemoryRange) -> Option<Spot>;
    fn is_good(&self, spot: Spot) -> bool;
    fn is_marked(&self, spot: Spot) -> bool;
    fn changes(&self) -> u32;
    fn end(&self, spot: Spot);
}

/// Whether regions without a lease are kept.
#[derive(Debug)]
pub(crate) enum Keeping {
    /// They are good whatever the program does.
    Always,
    /// As long as their memory has not changed.
    Watched(Box<dyn Watcher>),
    /// Nobody would tell.
    Never,
}

impl Keeping {
    fn watcher(&self) -> Option<&dyn Watcher> {
        match self {
            Keeping::Watched(watcher) => Some(&**watcher),
            _ => None,
        }
    }
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
    keeping: Keeping,
    /// Whether a region that is leased and not watched is found by others.
    shares: bool,
    /// The watcher's changes when marked regions were looked for last.
    seen: u32,
    /// Memory that was asked for and is worth registering only if it is again; the next one takes the place of an old one.
    asked: [Asked; ASKED],
    next_asked: usize,
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

/// Ranges that are remembered although they are not registered.
const ASKED: usize = 64;

/// Memory that begins somewhere.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    start: u64,
    /// Messages since it was registered last, or at all.
    times: u32,
    /// Of how many it is registered. Twice as many with each time that it changed before its region was used again.
    needed: u32,
}

/// Messages of which memory is registered that nothing is known of.
const ASKED_FIRST: u32 = 2;
/// The same of memory that has always changed so far.
const ASKED_AT_MOST: u32 = 256;

impl Cache {
    pub(crate) fn new(most_regions: usize, most_bytes: u64, keeping: Keeping) -> Cache {
        Cache {
            most_regions: most_regions.max(1),
            most_bytes,
            keeping,
            shares: true,
            seen: 0,
            asked: [Asked::default(); ASKED],
            next_asked: 0,
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
        self.entries.len() - self.free.len()
    }

    /// Whether a region is good for the next message from the same memory.
    pub(crate) fn keeps(&self) -> bool {
        !matches!(self.keeping, Keeping::Never)
    }

    /// Whether regions may have to be given back because their memory has changed.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        match &self.keeping {
            Keeping::Watched(watcher) => watcher.changes() != self.seen,
            _ => false,
        }
    }

    /// Gives back what is not in use and lies in memory that has changed: its pages are nobody's any more.
    pub(crate) fn sweep(&mut self, registrar: &mut impl Registrar) {
        let Some(watcher) = self.keeping.watcher() else { return };
        self.seen = watcher.changes();
        let marked = |place: &u32| {
            let spot = self.entries[*place as usize].and_then(|entry| entry.spot);
            spot.is_some_and(|spot| watcher.is_marked(spot))
        };
        let gone: Vec<(u64, u32)> = self
            .idle
            .iter()
            .map(|(&used, &place)| (used, place))
            .filter(|(_, place)| marked(place))
            .collect();
        for (used, place) in gone {
            self.has_changed(place);
            self.idle.remove(&used);
            self.remove(place, registrar);
        }
    }

    /// Whether memory is worth being registered for a message that does not pay for it alone: it is registered already, or is
    /// asked for again and again.
    pub(crate) fn is_worth_it(&mut self, range: MemoryRange, registrar: &mut impl Registrar) -> bool {
        let Keeping::Watched(_) = self.keeping else { return true };
        if self.has_news() {
            self.sweep(registrar);
        }
        let end = range.end().unwrap_or(u64::MAX);
        if self.find(range.address, end, Access::default()).is_some() {
            return true;
        }
        let asked = self.asked_of(range.address);
        asked.times += 1;
        asked.times >= asked.needed
    }

    /// What is remembered of memory that begins there.
    fn asked_of(&mut self, start: u64) -> &mut Asked {
        let known = self.asked.iter().position(|asked| asked.start == start);
        let at = known.unwrap_or_else(|| {
            let at = self.next_asked;
            self.next_asked = (at + 1) % ASKED;
            self.asked[at] = Asked { start, times: 0, needed: ASKED_FIRST };
            at
        });
        &mut self.asked[at]
    }

    /// The memory of a region has changed.
    fn has_changed(&mut self, place: u32) {
        let Entry { range, paid, .. } = *self.entry(place);
        let asked = self.asked_of(range.address);
        let needed = if paid { ASKED_FIRST } else { (asked.needed * 2).min(ASKED_AT_MOST) };
        (asked.times, asked.needed) = (0, needed);
    }

    /// Regions that are leased alone, or were and are kept.
    pub(crate) fn alone(&self) -> usize {
        self.alone
    }

    /// From now on every lease has a region of its own, where nobody tells of changes: the program may give memory back before the lease of it has ended.
    pub(crate) fn share_no_more(&mut self) {
        self.shares = matches!(self.keeping, Keeping::Always);
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
        if self.has_news() {
            self.sweep(registrar);
        }
        while let Some(place) = self.find(range.address, end, access) {
            if self.is_good(place) {
                self.counts.hits += 1;
                self.entry(place).paid = true;
                return Ok(self.take(place));
            }
            self.hide(place, registrar);
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
    pub(crate) fn again(&mut self, lease: Lease, registrar: &mut impl Registrar) -> Option<Lease> {
        if !self.is_kept(lease) {
            return None;
        }
        if !self.is_good(lease.place) {
            self.give_back(lease, registrar);
            return None;
        }
        self.counts.hits += 1;
        Some(self.take(lease.place))
    }

    /// Whether a region means the pages that are there now.
    fn is_good(&mut self, place: u32) -> bool {
        let spot = self.entry(place).spot;
        match (&self.keeping, spot) {
            (Keeping::Watched(watcher), Some(spot)) => watcher.is_good(spot),
            _ => true,
        }
    }

    /// Nobody finds a region any more. It goes, at once or with its last lease.
    fn hide(&mut self, place: u32, registrar: &mut impl Registrar) {
        self.has_changed(place);
        let entry = self.entry(place);
        entry.hidden = true;
        let (used, start, leases) = (entry.used, entry.range.address, entry.leases);
        if leases == 0 {
            self.idle.remove(&used);
            self.remove(place, registrar);
        } else {
            self.by_start.remove(&(start, place));
        }
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
        // What changes from here on is told.
        let spot = self.keeping.watcher().and_then(|watcher| watcher.begin(range));
        let registered = self.register(range, access, registrar);
        if let (Err(_), Some(spot), Some(watcher)) = (&registered, spot, self.keeping.watcher()) {
            watcher.end(spot);
        }
        let region = registered?;
        self.counts.registered += 1;
        self.bytes += range.length;
        let serial = self.counts.registered;
        let entry = Entry {
            range,
            access,
            region,
            leases: 0,
            used: 0,
            alone,
            serial,
            spot,
            hidden: false,
            paid: false,
        };
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
                    (self.shares || entry.spot.is_some())
                        && entry.range.end().is_some_and(|last| last >= end)
                        && covers(entry.access, access)
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
        let clock = self.clock;
        let entry = self.entry(lease.place);
        entry.leases -= 1;
        if entry.leases > 0 {
            return;
        }
        entry.used = clock;
        let (spot, hidden) = (entry.spot, entry.hidden);
        let keeps = match &self.keeping {
            Keeping::Always => true,
            Keeping::Watched(watcher) => !hidden && spot.is_some_and(|spot| !watcher.is_marked(spot)),
            Keeping::Never => false,
        };
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
        if let (Some(spot), Some(watcher)) = (entry.spot, self.keeping.watcher()) {
            watcher.end(spot);
        }
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
#[path = "cache_tests.rs"]
mod tests;
