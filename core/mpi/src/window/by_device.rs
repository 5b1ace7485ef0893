//! Operations that a device executes at the target without its process: puts and gets of memory that is registered there, and
//! single numbers where the device's atomics exclude everything else that changes them.
//!
//! ```text
//! at creation  every member registers its memory; address and key of each travel with the extents (16 bytes a member here, none when
//!              nobody has any: one node, no device)
//! put          short: one work request, nothing awaited; the target is *unflushed*      long: awaited
//! get          awaited
//! number       awaited
//! flush        unflushed targets: the transport tells when all is visible               dirty ones (messages): they answer
//! unlock,      held back until nothing is awaited of the target's device; where packets may overtake puts, until a flush is over
//! complete
//! ```
//!
//! *Which way an operation goes* is decided for each: by the device when the target has registered memory, the transport
//! reaches it, and the target's elements lie in runs worth a request each ([`LEAST_RUN`]); by message otherwise (neighbours in
//! the node, dynamic windows, no room for keys, memory in small pieces). Puts and gets of both ways may be mixed: they have no
//! order among themselves (section 12.7.2), and what ends them ends both.
//!
//! *Numbers.* Accumulating operations are atomic for each element against all others on it, whoever begins them and whichever
//! way they go (section 12.7.1). The owner executes messages, its own operations included, one after another under the lock of
//! its process. What its device's atomics exclude, it has said when the window was made ([`weft_engine::Changes`]); which
//! operations are the device's then, and when the owner has to change elements in one step, is said in [`super::rule`]. So any
//! two of them exclude each other, whatever their types and operations are, and no hint is needed. On a device that works by
//! itself, atomic among its own operations only, the owner's go by that device as well ([`super::lines`]). *Their order* (one origin, one place: as called) holds because messages of one origin are executed in order,
//! because changes by the device are executed in order ([`weft_engine`]), and because nobody changes sides while something of
//! the other side is unfinished: the device is used only when no accumulating message is unconfirmed, and such a message is
//! held back while a change is awaited.

use super::message::Kind;
use super::origin::{Elements, Operation, Target, What};
use super::rule::{Deed, Element, is_long};
use super::{Extent, Window};
use std::collections::BTreeSet;
use weft_datatype::{Datatype, PredefinedOp, RecvBuf};
use weft_engine::{Atomic, Engine, Reach, RemoteMemory, Started};
use weft_types::{PeerId, Rank, Result};

/// The place of a member that exposes nothing to devices.
pub const UNEXPOSED: RemoteMemory = RemoteMemory { address: u64::MAX, key: 0 };

/// Shortest runs of a target's memory, in the mean, that are worth a request each.
const LEAST_RUN: u64 = 512;
/// Most runs of one operation.
const MOST_RUNS: usize = 256;

/// Targets whose descriptors are kept.
const READY: usize = 16;

/// What a short put to a target needs, while its epoch is open and it counts as unflushed.
#[derive(Clone, Copy, Debug)]
struct Ready {
    target: u32,
    /// The engine's number of its process.
    peer: u32,
    /// Bytes of a displacement, and of its memory.
    unit: u64,
    size: u64,
    /// Where that begins, with the key for it.
    memory: RemoteMemory,
}

/// No window has so many members.
const NOBODY: Ready = Ready { target: u32::MAX, peer: 0, unit: 0, size: 0, memory: UNEXPOSED };

/// Targets whose devices have something that no flush has confirmed.
#[derive(Debug)]
pub(super) struct Unflushed {
    all: BTreeSet<u32>,
    /// Some of them, each at its number modulo [`READY`]: what makes a row of puts short. Whatever ends an epoch or flushes
    /// forgets them.
    ready: Box<[Ready; READY]>,
    /// Whether there is any.
    any: bool,
}

impl Default for Unflushed {
    fn default() -> Unflushed {
        Unflushed { all: BTreeSet::new(), ready: Box::new([NOBODY; READY]), any: false }
    }
}

impl Unflushed {
    pub(super) fn mark(&mut self, target: u32) {
        self.all.insert(target);
    }

    #[inline(always)]
    fn ready(&self, target: u32) -> &Ready {
        &self.ready[target as usize % READY]
    }

    fn ready_mut(&mut self, target: u32) -> &mut Ready {
        self.any = true;
        &mut self.ready[target as usize % READY]
    }

    /// Forgets what short puts need: an epoch has ended, or a target is flushed.
    pub(super) fn forget_ready(&mut self) {
        if std::mem::take(&mut self.any) {
            self.ready.fill(NOBODY);
        }
    }

    fn take(&mut self, target: u32) -> bool {
        self.forget_ready();
        self.all.remove(&target)
    }

    fn take_all(&mut self) -> BTreeSet<u32> {
        self.forget_ready();
        std::mem::take(&mut self.all)
    }
}

impl Window {
    /// The memory of this process, as its own device knows it.
    pub(super) fn own_place(&self) -> RemoteMemory {
        self.places.get(self.rank.0 as usize).copied().unwrap_or(UNEXPOSED)
    }

    /// Another member's memory, as its device knows it, and what can be done to it.
    fn exposed_by(&self, engine: &mut Engine, target: u32) -> Option<(PeerId, RemoteMemory, Reach)> {
        let place = *self.places.get(target as usize)?;
        if place == UNEXPOSED || target == self.rank.0 {
            return None;
        }
        let peer = self.group.peer(Rank(target));
        Some((peer, place, engine.reach(peer)?))
    }

    /// As [`Window::put`] of a few bytes to as many in one run, for callers that count instructions: `disp` in the target's
    /// units. False: nothing was done, and nothing is said about why.
    #[inline(always)]
    pub fn put_at_once(&mut self, engine: &mut Engine, bytes: &[u8], target: u32, disp: i64) -> bool {
        let ready = self.outgoing.unflushed.ready(target);
        // Both are small, or the check refuses: sizes have 63 bits, and what a unit times a larger number wraps to is not
        // looked at.
        if ready.target != target || (disp as u64) >= 1 << 32 || bytes.is_empty() {
            return self.put_and_remember(engine, bytes, target, disp);
        }
        let at = disp as u64 * ready.unit;
        at + bytes.len() as u64 <= ready.size && engine.put_at_once(ready.peer, bytes, ready.memory.plus(at))
    }

    /// A first put of its kind in an epoch.
    #[inline(never)]
    fn put_and_remember(&mut self, engine: &mut Engine, bytes: &[u8], target: u32, disp: i64) -> bool {
        let Some(&memory) = self.places.get(target as usize) else { return false };
        let Some(&Extent { size, unit, .. }) = self.extents.get(target as usize) else { return false };
        let unit = u64::from(unit);
        if (disp as u64) >= 1 << 32 || bytes.is_empty() || !self.epochs.surely_allows(target) {
            return false;
        }
        let at = disp as u64 * unit;
        // The own process has no peer, so that it is refused.
        let (false, Some(peer)) = (memory == UNEXPOSED, engine.peer_number(self.group.peer(Rank(target))))
        else {
            return false;
        };
        let put = at + bytes.len() as u64 <= size && engine.put_at_once(peer, bytes, memory.plus(at));
        if put {
            self.outgoing.unflushed.mark(target);
            *self.outgoing.unflushed.ready_mut(target) = Ready { target, peer, unit, size, memory };
        }
        put
    }

    /// Where the first packed bytes of a target's elements lie in its memory: offset and length of each run. `None`: in too many.
    fn runs(&self, to: &Target, bytes: u64) -> Option<Vec<(u64, u64)>> {
        let at = to.disp.wrapping_mul(self.extents.get(to.rank as usize)?.unit.into());
        if to.datatype.is_contiguous() {
            return Some(vec![(at as u64, bytes)]);
        }
        let most = MOST_RUNS.min((bytes / LEAST_RUN) as usize + 1);
        let mut runs = Vec::new();
        let total = usize::try_from(bytes).ok()?;
        let listed = to.datatype.layout().list_runs(0, total, most, &mut runs);
        (listed == total)
            .then(|| runs.iter().map(|&(run, length)| ((at + run) as u64, length as u64)).collect())
    }

    /// Puts by the target's device; false: it must go by message. The arguments are checked.
    pub(super) fn put_by_device(
        &mut self,
        engine: &mut Engine,
        from: &Elements,
        to: &Target,
        operation: &Operation,
    ) -> Result<bool> {
        let Some((peer, place, Reach { put: true, .. })) = self.exposed_by(engine, to.rank) else {
            return Ok(false);
        };
        let Some(runs) = self.runs(to, from.bytes) else { return Ok(false) };
        let mut start = 0;
        for (at, length) in runs {
            let data = from.memory.send_view(0, start, length);
            let started = engine.put_exposed(peer, data, place.plus(at))?;
            if started == Started::Complete {
                self.outgoing.unflushed.mark(to.rank);
            }
            self.outgoing.await_device(to.rank, started, What::Left, operation);
            start += length;
        }
        Ok(true)
    }

    /// Gets by the target's device; false: it must go by message. The arguments are checked.
    pub(super) fn get_by_device(
        &mut self,
        engine: &mut Engine,
        (into, bytes): (&Elements, u64),
        of: &Target,
        operation: &Operation,
    ) -> Result<bool> {
        let Some((peer, place, Reach { get: true, .. })) = self.exposed_by(engine, of.rank) else {
            return Ok(false);
        };
        let Some(runs) = self.runs(of, bytes) else { return Ok(false) };
        if !engine.prepare_gets(peer) {
            return Ok(false);
        }
        let mut start = 0;
        for (at, length) in runs {
            let room = into.memory.recv_view(0, start, length);
            let request = engine.get_exposed(peer, room, place.plus(at))?;
            self.outgoing.await_device(of.rank, request, What::Left, operation);
            start += length;
        }
        Ok(true)
    }

    /// Changes one element by the target's device, if that is atomic against everything else (as [`super::rule`] says) and in
    /// order; false: it must go by message.
    fn change_by_device(
        &mut self,
        engine: &mut Engine,
        to: &Target,
        (basic, deed, change): (&Datatype, Deed, Atomic),
        found: Option<&Elements>,
        operation: &Operation,
    ) -> Result<bool> {
        let Some((peer, place, Reach { change: true, .. })) = self.exposed_by(engine, to.rank) else {
            return Ok(false);
        };
        let Extent { unit, changes, .. } = self.extents[to.rank as usize];
        let at = place.plus(to.disp.wrapping_mul(unit.into()) as u64);
        let element = Element::of(basic, at.address);
        if !element.is_for_device(deed, changes) || self.outgoing.accumulates_by_message(to.rank) {
            return Ok(false);
        }
        let room = found.map_or_else(RecvBuf::empty, |found| found.memory.recv_view(0, 0, 8));
        let request = engine.change_exposed(peer, at, change, room)?;
        self.outgoing.await_device(to.rank, request, What::Changed, operation);
        Ok(true)
    }

    /// An accumulating operation on one element, if a device can do it.
    pub(super) fn accumulate_by_device(
        &mut self,
        engine: &mut Engine,
        from: Option<&Elements>,
        result: Option<&Elements>,
        to: &Target,
        (basic, op): (&Datatype, PredefinedOp),
        operation: &Operation,
    ) -> Result<bool> {
        let is_one = to.count == 1 && to.datatype.element_bytes() == 8 && to.datatype.is_contiguous();
        if self.places.is_empty() || !is_one || !is_long(basic) {
            return Ok(false);
        }
        let deed = Deed::of(op);
        let add = match (deed, from) {
            (Deed::Add, Some(from)) if from.bytes == 8 => word(from),
            (Deed::Look, _) => 0,
            _ => return Ok(false),
        };
        self.change_by_device(engine, to, (basic, deed, Atomic::FetchAdd(add)), result, operation)
    }

    /// A compare and swap, if a device can do it.
    pub(super) fn swap_by_device(
        &mut self,
        engine: &mut Engine,
        (compare, new): (&Elements, &Elements),
        result: &Elements,
        to: &Target,
        operation: &Operation,
    ) -> Result<bool> {
        if self.places.is_empty() || result.bytes != 8 {
            return Ok(false);
        }
        let change = Atomic::CompareSwap { compare: word(compare), swap: word(new) };
        self.change_by_device(engine, to, (&to.datatype, Deed::Swap, change), Some(result), operation)
    }

    /// Has everything flushed that devices did at a target, or at all.
    pub(super) fn flush_devices(&mut self, engine: &mut Engine, target: Option<u32>) -> Result<()> {
        let due = match target {
            Some(target) => BTreeSet::from_iter(self.outgoing.unflushed.take(target).then_some(target)),
            None => self.outgoing.unflushed.take_all(),
        };
        let mut result = Ok(());
        for target in due {
            // One that is gone does not keep the others from being flushed.
            match engine.flush_exposed(self.group.peer(Rank(target))) {
                Ok(request) => {
                    self.outgoing.await_device(target, request, What::Left, &Operation::default());
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// A message follows that tells the target that everything before is done: makes sure that it does not overtake puts.
    pub(super) fn settle_device_before_message(&mut self, engine: &mut Engine, target: u32) -> Result<()> {
        match self.exposed_by(engine, target) {
            Some((_, _, Reach { ordered: true, .. })) => {
                self.outgoing.unflushed.take(target);
                Ok(())
            }
            _ => self.flush_devices(engine, Some(target)),
        }
    }

    /// Takes the memory back from devices and from messages, before the window goes.
    pub fn withdraw(&mut self, engine: &mut Engine) {
        self.release_data(engine);
        if let Some(region) = self.exposed.take() {
            engine.withdraw(region);
        }
    }
}

/// One element of eight bytes.
fn word(of: &Elements) -> u64 {
    let mut bytes = [0; 8];
    of.memory.send_view(0, 0, 8).pack(0, &mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Whether a message must not be handled by the target before its device has done everything (`true`), or the changes of
/// numbers (`false`); `None`: it does not matter.
pub(super) const fn waits_for_device(kind: Kind) -> Option<bool> {
    match kind {
        Kind::Unlock | Kind::Complete => Some(true),
        Kind::Accumulate | Kind::GetAccumulate | Kind::CompareAndSwap => Some(false),
        _ => None,
    }
}
