//! Registered memory and operations on it: each call becomes work requests that are posted with one doorbell, and one of them tells.

use crate::contact::NOTHING;
use crate::flight::{Deed, Holds};
use crate::peers::State;
use crate::transport::{HEADER_BYTES, MAX_COPY, MESSAGES, MOST_POSTED, Rdma};
use weft_api::Refused;
use weft_api::verbs::{
    Access, Data, Hca, HcaRefusal, RegionKeys, RemoteAddress, RemoteKey, Segment, Work, WorkRequest,
};
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Outcome, Region, RegionId, RemoteMemory, RemoteRun, Token,
    Unregistered, ZeroCopy,
};
use weft_types::PeerId;

/// Most runs of each side in one call.
const MAX_RUNS: usize = 16;
/// Numbers that atomics find, at a time.
pub(crate) const FOUND: u32 = 256;

/// Regions of this process by their number.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    keys: Vec<Option<RegionKeys>>,
    free: Vec<u32>,
}

impl Registered {
    fn insert(&mut self, keys: RegionKeys) -> RegionId {
        match self.free.pop() {
            Some(place) => {
                self.keys[place as usize] = Some(keys);
                RegionId(place)
            }
            None => {
                self.keys.push(Some(keys));
                RegionId(self.keys.len() as u32 - 1)
            }
        }
    }

    fn remove(&mut self, id: RegionId) -> Option<RegionKeys> {
        let keys = self.keys.get_mut(id.0 as usize)?.take()?;
        self.free.push(id.0);
        Some(keys)
    }

    fn segment(&self, run: &LocalRun, offset: u64, length: u64) -> Option<Segment> {
        let keys = self.keys.get(run.region.0 as usize)?.as_ref()?;
        Some(Segment { address: run.address + offset, length: length as u32, key: keys.local })
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Get,
    Put,
}

impl Way {
    fn work(self, at: RemoteMemory) -> Work {
        match self {
            Way::Get => Work::Read { from: remote(at) },
            Way::Put => Work::Write { to: remote(at), immediate: None },
        }
    }
}

/// The first rail's key.
fn remote(memory: RemoteMemory) -> RemoteAddress {
    RemoteAddress { address: memory.address, key: RemoteKey(memory.key as u32) }
}

impl<H: Hca> Rdma<H> {
    pub(crate) fn what_zero_copy_can(&self) -> ZeroCopy {
        let limits = self.hca.limits();
        ZeroCopy {
            get: limits.max_reads > 0,
            put: true,
            atomics: limits.atomics,
            atomics_of_four: false,
            atomic_with_processors: limits.atomic_with_processors,
            atomic_with_packets: limits.works_in_calls,
            local_regions: true,
            follows_mappings: limits.follows_mappings,
            // Of one connection (section 9.5), and there is one.
            put_before_send: true,
            max_bytes: u64::from(limits.max_message),
            max_copy: MAX_COPY,
            max_runs: MAX_RUNS,
            max_regions: limits.max_regions as usize,
            max_registered: limits.max_registered,
            registration: limits.registration,
            registration_per_byte: limits.registration_per_byte,
            get_latency: limits.latency,
            put_latency: limits.latency,
            bandwidth: limits.bandwidth,
            per_run: limits.latency / 50.0,
        }
    }

    pub(crate) fn register_memory(
        &mut self,
        memory: MemoryRange,
        access: Access,
    ) -> Result<Region, Unregistered> {
        match self.hca.register(memory.address, memory.length, access) {
            Ok(keys) => {
                let remote = RemoteMemory { address: memory.address, key: u64::from(keys.remote.0) };
                Ok(Region { id: self.registered.insert(keys), remote })
            }
            Err(HcaRefusal::Exhausted) => Err(Unregistered::Exhausted),
            Err(_) => Err(Unregistered::Cannot),
        }
    }

    pub(crate) fn deregister_memory(&mut self, region: RegionId) {
        if let Some(keys) = self.registered.remove(region) {
            self.hca.deregister(keys);
        }
    }

    /// The place of a peer that has room for so many requests.
    fn room_for(&self, id: PeerId, requests: usize) -> Result<u32, Refused> {
        let index = self.peers.find(id).ok_or(Refused::Full)?;
        let peer = self.peers.at(index);
        match peer.state {
            State::Open { .. } if peer.flight.len() + requests <= MOST_POSTED - 2 => Ok(index),
            State::Gone => Err(Refused::Dead),
            _ => Err(Refused::Full),
        }
    }

    pub(crate) fn read(
        &mut self,
        peer: PeerId,
        from: &[RemoteRun],
        into: &[LocalRun],
        token: Token,
    ) -> Result<(), Refused> {
        self.transfer(peer, Way::Get, from, into, Some(token))
    }

    pub(crate) fn write(
        &mut self,
        peer: PeerId,
        from: &[LocalRun],
        to: &[RemoteRun],
        token: Option<Token>,
    ) -> Result<(), Refused> {
        self.transfer(peer, Way::Put, to, from, token)
    }

    fn transfer(
        &mut self,
        peer: PeerId,
        way: Way,
        remote: &[RemoteRun],
        local: &[LocalRun],
        token: Option<Token>,
    ) -> Result<(), Refused> {
        if let ([remote], [local]) = (remote, local) {
            // One request, without lists.
            let index = self.room_for(peer, 1)?;
            let segment = [self.segment(local, 0, remote.length)];
            let holds = token.map_or(Holds::Nothing, Holds::Token);
            return self.post(index, way.work(remote.memory), Data::Segments(&segment), holds);
        }
        let most = self.hca.limits().max_segments as usize;
        let parts = self.cut(remote, local, most.max(1));
        let index = self.room_for(peer, parts.len())?;
        if parts.is_empty() {
            // Nothing is to be moved, and nothing will complete.
            self.ended.extend(token.map(|token| Completed { token, outcome: Outcome::Done(0) }));
            return Ok(());
        }
        let flight = &self.peers.at(index).flight;
        let (first, last) = (flight.next(), parts.len() - 1);
        let tells = token.is_some() || flight.must_signal() || parts.len() >= MESSAGES / 4;
        let requests: Vec<WorkRequest<'_>> = parts
            .iter()
            .enumerate()
            .map(|(at, (memory, segments))| {
                let request = WorkRequest::new(first + at as u64, way.work(*memory), segments);
                WorkRequest { signaled: tells && at == last, ..request }
            })
            .collect();
        let pair = self.peers.at(index).pair;
        let doorbells = self.hca.doorbells();
        let posted = self.hca.post_sends(pair, &requests);
        self.counts.doorbells += self.hca.doorbells() - doorbells;
        match posted {
            Ok(()) => self.counts.requests += requests.len() as u64,
            Err(HcaRefusal::Full) => return Err(Refused::Full),
            // The device has given the connection up: the next one does it.
            Err(HcaRefusal::State(_)) => self.break_off(index),
            Err(_) => {
                // Some of them may be posted: what was begun ends with the connection, and the token with it.
                self.lose(index);
            }
        }
        for (at, (memory, segments)) in parts.iter().enumerate() {
            let signaled = tells && at == last;
            let holds = token.filter(|_| at == last).map_or(Holds::Nothing, Holds::Token);
            let data = Data::Segments(segments);
            self.noted(index, holds, signaled, Deed::of(&way.work(*memory), &data), &data);
        }
        Ok(())
    }

    fn segment(&self, run: &LocalRun, offset: u64, length: u64) -> Segment {
        // A region that is not there is refused by the device, as any wrong key.
        let nobody =
            Segment { address: run.address + offset, length: length as u32, key: crate::transport::NO_KEY };
        self.registered.segment(run, offset, length).unwrap_or(nobody)
    }

    /// Cuts two lists of runs with the same number of bytes into requests: one run there, at most `most` here.
    fn cut(
        &self,
        remote: &[RemoteRun],
        local: &[LocalRun],
        most: usize,
    ) -> Vec<(RemoteMemory, Vec<Segment>)> {
        let mut parts: Vec<(RemoteMemory, Vec<Segment>)> = Vec::new();
        let mut locals = local.iter().filter(|run| run.length > 0);
        let (mut run, mut used) = (locals.next(), 0);
        for there in remote {
            let mut done = 0;
            let mut begun = false;
            while done < there.length
                && let Some(here) = run
            {
                let length = (here.length - used).min(there.length - done);
                let segment = self.segment(here, used, length);
                match parts.last_mut() {
                    Some((_, segments)) if begun && segments.len() < most => segments.push(segment),
                    _ => parts.push((there.memory.plus(done), vec![segment])),
                }
                (begun, done, used) = (true, done + length, used + length);
                if used == here.length {
                    (run, used) = (locals.next(), 0);
                }
            }
        }
        parts
    }

    pub(crate) fn write_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        length: usize,
        fill: F,
        to: RemoteMemory,
        token: Option<Token>,
    ) -> Result<(), Refused> {
        let index = self.room_for(peer, 1)?;
        let work = Way::Put.work(to);
        if length <= INLINE.min(self.hca.limits().max_inline as usize) {
            let mut bytes = [0; INLINE];
            fill(&mut bytes[..length]);
            let holds = token.map_or(Holds::Nothing, Holds::Token);
            if self.post(index, work, Data::Inline(&[&bytes[..length]]), holds).is_err() {
                self.fail_filled(index, token);
            }
            return Ok(());
        }
        let slot = self.take_slot()?;
        // From here on nothing is refused any more: there is room, so a device that does not take the request has lost the connection.
        fill(self.hca.bytes_mut(self.send_slots.address(slot), length));
        let segment = [self.send_slots.segment(slot, length as u32)];
        let holds = token.map_or(Holds::Slot(slot), |token| Holds::SlotAndToken(slot, token));
        if self.post(index, work, Data::Segments(&segment), holds).is_err() {
            self.send_slots.give_back(slot);
            self.fail_filled(index, token);
        }
        Ok(())
    }

    /// A request was not taken whose bytes the caller has given away already: the connection fails, and the token says so.
    fn fail_filled(&mut self, index: u32, token: Option<Token>) {
        self.lose(index);
        self.ended.extend(token.map(|token| Completed { token, outcome: Outcome::Failed }));
    }

    /// See [`weft_api::Transport::put_now`].
    #[inline]
    pub(crate) fn write_now(&mut self, index: u32, bytes: &[u8], to: RemoteMemory) -> bool {
        let peer = self.peers.at(index);
        let open = matches!(peer.state, State::Open { .. }) && peer.flight.len() < MOST_POSTED - 2;
        open && self.post(index, Way::Put.work(to), Data::Inline(&[bytes]), Holds::Nothing).is_ok()
    }

    pub(crate) fn change(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> Result<(), Refused> {
        let index = self.room_for(peer, 1)?;
        let at = remote(at);
        let work = match operation {
            Atomic::FetchAdd(add) => Work::FetchAdd { at, add },
            Atomic::CompareSwap { compare, swap } => Work::CompareSwap { at, compare, swap },
        };
        let slot = self.found.take().ok_or(Refused::Full)?;
        let segment = [self.found.segment(slot, 8)];
        let posted = self.post(index, work, Data::Segments(&segment), Holds::Found(slot, token));
        if posted.is_err() {
            self.found.give_back(slot);
        }
        posted
    }

    pub(crate) fn tell(&mut self, peer: PeerId, token: Token) -> Result<(), Refused> {
        let index = self.room_for(peer, 1)?;
        let flight = &mut self.peers.at_mut(index).flight;
        if flight.is_empty() {
            self.ended.push_back(Completed { token, outcome: Outcome::Done(0) });
            return Ok(());
        }
        if flight.join(token) {
            return Ok(());
        }
        self.post(index, NOTHING, Data::Segments(&[]), Holds::Token(token))
    }
}

/// Most bytes that [`Rdma::write_copy`] sends inline.
const INLINE: usize = 256 - HEADER_BYTES;
