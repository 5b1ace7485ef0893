//! Registered memory and operations on it: each call becomes work requests that are posted with one doorbell, and one of them
//! tells.

use crate::contact::NOTHING;
use crate::flight::{Deed, Holds};
use crate::keys::SAID;
use crate::own::work_of;
use crate::peers::State;
use crate::rail::MOST_RAILS;
use crate::shares::SHARED;
use crate::transport::{HEADER_BYTES, MAX_COPY, MESSAGES, NO_KEY, Rdma};
use weft_api::Refused;
use weft_api::verbs::{Access, Data, Hca, HcaRefusal, LocalKey, RegionKeys, RemoteKey, Segment, WorkRequest};
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Outcome, Region, RegionId, RemoteMemory, RemoteRun, Token,
    Unregistered, ZeroCopy,
};
use weft_types::PeerId;

/// Most runs of each side in one call.
const MAX_RUNS: usize = 16;
/// Numbers that atomics find, at a time.
pub(crate) const FOUND: u32 = 256;

/// Regions of this process by their number: what is said of each, and its keys on each rail.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    keys: Vec<Option<(u64, [RegionKeys; MOST_RAILS])>>,
    free: Vec<u32>,
}

impl Registered {
    fn insert(&mut self, said: u64, keys: [RegionKeys; MOST_RAILS]) -> RegionId {
        match self.free.pop() {
            Some(place) => {
                self.keys[place as usize] = Some((said, keys));
                RegionId(place)
            }
            None => {
                self.keys.push(Some((said, keys)));
                RegionId(self.keys.len() as u32 - 1)
            }
        }
    }

    fn remove(&mut self, id: RegionId) -> Option<(u64, [RegionKeys; MOST_RAILS])> {
        let keys = self.keys.get_mut(id.0 as usize)?.take()?;
        self.free.push(id.0);
        Some(keys)
    }

    fn segment(&self, rail: u8, run: &LocalRun, offset: u64, length: u64) -> Option<Segment> {
        let keys = self.keys.get(run.region.0 as usize)?.as_ref()?.1[usize::from(rail)];
        Some(Segment { address: run.address + offset, length: length as u32, key: keys.local })
    }

    /// What a region that has this key on one rail is called on another.
    pub(crate) fn key_on(&self, key: LocalKey, from: u8, to: u8) -> LocalKey {
        let mut regions = self.keys.iter().flatten();
        let region = regions.find(|(_, keys)| keys[usize::from(from)].local == key);
        region.map_or(NO_KEY, |(_, keys)| keys[usize::from(to)].local)
    }
}

/// Of a region on a rail that is not there.
const NO_KEYS: RegionKeys = RegionKeys { local: NO_KEY, remote: RemoteKey(0) };

/// One request of a list: a place there, and what lies there one after another here.
pub(crate) type Part = (RemoteMemory, Vec<Segment>);

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Get,
    Put,
}

impl Way {
    pub(crate) fn deed(self, at: RemoteMemory) -> Deed {
        match self {
            Way::Get => Deed::Read(at),
            Way::Put => Deed::Write(at),
        }
    }
}

impl<H: Hca> Rdma<H> {
    pub(crate) fn what_zero_copy_can(&self) -> ZeroCopy {
        let limits = &self.limits;
        ZeroCopy {
            get: limits.max_reads > 0,
            put: true,
            atomics: limits.atomics,
            atomics_of_four: false,
            atomic_with_processors: limits.atomic_with_processors,
            atomic_with_packets: limits.works_in_calls,
            local_regions: true,
            follows_mappings: limits.follows_mappings,
            read_in_row: u64::MAX,
            // Of one connection (section 9.5): a large one may be shared between two.
            put_before_send: self.rails.len() == 1,
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
        let mut keys = [NO_KEYS; MOST_RAILS];
        for at in 0..self.rails.len() {
            match self.rails[at].hca.register(memory.address, memory.length, access) {
                Ok(here) => keys[at] = here,
                Err(why) => {
                    for (rail, keys) in self.rails.iter_mut().zip(keys).take(at) {
                        rail.hca.deregister(keys);
                    }
                    return Err(match why {
                        HcaRefusal::Exhausted => Unregistered::Exhausted,
                        _ => Unregistered::Cannot,
                    });
                }
            }
        }
        let key = self.keyrings.say(&keys, self.rails.len());
        let remote = RemoteMemory { address: memory.address, key };
        Ok(Region { id: self.registered.insert(key, keys), remote })
    }

    pub(crate) fn deregister_memory(&mut self, region: RegionId) {
        if let Some((key, keys)) = self.registered.remove(region) {
            if self.rails.len() > SAID {
                self.keyrings.forget(key);
            }
            for (rail, keys) in self.rails.iter_mut().zip(keys) {
                rail.hca.deregister(keys);
            }
        }
    }

    /// The place of a peer that has room for so many requests.
    fn room_for(&mut self, id: PeerId, requests: usize) -> Result<u32, Refused> {
        let index = self.peers.find(id).ok_or(Refused::Full)?;
        match self.peers.at(index).state {
            State::Open { .. } if self.has_room(index, requests) => Ok(index),
            State::Gone => Err(Refused::Dead),
            State::Datagrams => {
                // Registered memory is reached by connections alone.
                self.must_connect(index);
                Err(Refused::Full)
            }
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
            self.has_key(index, remote.memory)?;
            if remote.length >= SHARED
                && let Some(token) = token
                && let Some(ends) = self.ends(index, remote.length)
            {
                return self.share(way, &ends, remote, local, token);
            }
            let rail = self.peers.at(index).rail;
            let segment = [self.segment(rail, local, 0, remote.length)];
            let holds = token.map_or(Holds::Nothing, Holds::Token);
            let deed = way.deed(remote.memory);
            let work = deed.work(&self.keyrings, peer, rail);
            return self.post(index, deed, work, Data::Segments(&segment), holds);
        }
        let index = self.room_for(peer, 1)?;
        self.has_keys(index, remote)?;
        self.post_chain(index)?;
        let bytes: u64 = remote.iter().map(|run| run.length).sum();
        if bytes >= SHARED
            && let Some(token) = token
            && let Some(ends) = self.ends(index, bytes)
            && let Some(shared) = self.share_lists(way, &ends, (remote, local), token)
        {
            return shared;
        }
        let parts = self.cut(self.peers.at(index).rail, remote, local);
        let index = self.room_for(peer, parts.len())?;
        if parts.is_empty() {
            // Nothing is to be moved, and nothing will complete.
            self.ended.extend(token.map(|token| Completed { token, outcome: Outcome::Done(0) }));
            return Ok(());
        }
        self.post_parts(index, way, &parts, token.map_or(Holds::Nothing, Holds::Token))
    }

    /// Posts what lists were cut into with one doorbell; the last of them tells, if anything waits for it or it is time. There
    /// is room for it, and nothing is kept back on the connection.
    pub(crate) fn post_parts(
        &mut self,
        index: u32,
        way: Way,
        parts: &[Part],
        holds: Holds,
    ) -> Result<(), Refused> {
        let peer = self.peers.at(index);
        let (id, rail, pair, flight) = (peer.id, peer.rail, peer.pair, &peer.flight);
        let (first, last) = (flight.next(), parts.len() - 1);
        let tells = !matches!(holds, Holds::Nothing) || flight.must_signal() || parts.len() >= MESSAGES / 4;
        let requests: Vec<WorkRequest<'_>> = parts
            .iter()
            .enumerate()
            .map(|(at, (memory, segments))| {
                let request = WorkRequest::new(
                    first + at as u64,
                    way.deed(*memory).work(&self.keyrings, id, rail),
                    segments,
                );
                WorkRequest { signaled: tells && at == last, ..request }
            })
            .collect();
        let hca = &mut self.rails[usize::from(rail)].hca;
        let doorbells = hca.doorbells();
        let posted = hca.post_sends(pair, &requests);
        self.counts.doorbells += hca.doorbells() - doorbells;
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
            let held = if at == last { holds } else { Holds::Nothing };
            let data = Data::Segments(segments);
            self.noted(index, held, tells && at == last, way.deed(*memory), &data);
        }
        Ok(())
    }

    pub(crate) fn segment(&self, rail: u8, run: &LocalRun, offset: u64, length: u64) -> Segment {
        // A region that is not there is refused by the device, as any wrong key.
        let nobody = Segment { address: run.address + offset, length: length as u32, key: NO_KEY };
        self.registered.segment(rail, run, offset, length).unwrap_or(nobody)
    }

    /// Cuts two lists of runs with the same number of bytes into requests: one run there, at most as many here as the device
    /// takes.
    pub(crate) fn cut(&self, rail: u8, remote: &[RemoteRun], local: &[LocalRun]) -> Vec<Part> {
        let most = (self.limits.max_segments as usize).max(1);
        let mut parts: Vec<Part> = Vec::new();
        let mut locals = local.iter().filter(|run| run.length > 0);
        let (mut run, mut used) = (locals.next(), 0);
        for there in remote {
            let mut done = 0;
            let mut begun = false;
            while done < there.length
                && let Some(here) = run
            {
                let length = (here.length - used).min(there.length - done);
                let segment = self.segment(rail, here, used, length);
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
        self.has_key(index, to)?;
        let rail = self.peers.at(index).rail;
        let deed = Deed::Write(to);
        let work = deed.work(&self.keyrings, peer, rail);
        if length <= INLINE.min(self.limits.max_inline as usize) {
            let mut bytes = [0; INLINE];
            fill(&mut bytes[..length]);
            let holds = token.map_or(Holds::Nothing, Holds::Token);
            if self.post(index, deed, work, Data::Inline(&[&bytes[..length]]), holds).is_err() {
                self.fail_filled(index, token);
            }
            return Ok(());
        }
        let slot = self.take_slot()?;
        // From here on nothing is refused any more: there is room, so a device that does not take the request has lost the
        // connection.
        fill(self.rails[usize::from(rail)].hca.bytes_mut(self.send_slots.address(rail, slot), length));
        let segment = [self.send_slots.segment(rail, slot, length as u32)];
        let holds = token.map_or(Holds::Slot(slot), |token| Holds::SlotAndToken(slot, token));
        if self.post(index, deed, work, Data::Segments(&segment), holds).is_err() {
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

    pub(crate) fn change(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> Result<(), Refused> {
        let index = self.room_for(peer, 1)?;
        self.has_key(index, at)?;
        let rail = self.peers.at(index).rail;
        let work = work_of(operation, self.keyrings.remote(peer, at, rail));
        let slot = self.found.take().ok_or(Refused::Full)?;
        let segment = [self.found.segment(rail, slot, 8)];
        let posted =
            self.post(index, Deed::Atomic, work, Data::Segments(&segment), Holds::Found(slot, token));
        if posted.is_err() {
            self.found.give_back(slot);
        }
        posted
    }

    pub(crate) fn tell(&mut self, peer: PeerId, token: Token) -> Result<(), Refused> {
        if self.peers.get(peer).is_some_and(|peer| peer.stream.is_some()) {
            if self.peers.beside(peer).any(|beside| !self.peers.at(beside).flight.is_empty()) {
                // Shares of large puts are still under way there.
                return Err(Refused::Full);
            }
            self.tell_now(token);
            return Ok(());
        }
        let index = self.room_for(peer, 1)?;
        let mut ends: Vec<u32> = Vec::new();
        if self.rails.len() > 1 {
            ends.extend(self.peers.beside(peer).filter(|&beside| !self.peers.at(beside).flight.is_empty()));
        }
        if !ends.is_empty() {
            ends.push(index);
            return self.tell_of_all(&ends, token);
        }
        let flight = &mut self.peers.at_mut(index).flight;
        if flight.is_empty() {
            self.ended.push_back(Completed { token, outcome: Outcome::Done(0) });
            return Ok(());
        }
        if flight.join(token) {
            // What is kept back tells with it; what the device has no room for now follows with the next turn.
            let _ = self.post_chain(index);
            return Ok(());
        }
        self.post(index, Deed::Nothing, NOTHING, Data::Segments(&[]), Holds::Token(token))
    }
}

/// Most bytes that [`Rdma::write_copy`] sends inline.
const INLINE: usize = 256 - HEADER_BYTES;
