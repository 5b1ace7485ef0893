//! [`Late`]: the times of another network, round any transport.
//!
//! LogGP: a packet of `k` bytes leaves when the link to its peer is free, `g` after the packet before and not before the bytes of that
//! are out; it arrives `L` and the time of its bytes later. The overhead `o` is what the transport itself takes. Each packet carries
//! eight bytes behind its payload that say when it arrives, by the clock that all processes of a machine share; the receiver does not
//! show it before. So a sender that computes delays nobody, and many packets are on the way at a time, as many as the transport below
//! has room for: with little room a long way is slower than its bandwidth.
//!
//! Ends of operations are told when they would be known: a put after `L` and its bytes, and `L` for the acknowledgement; a get and an
//! atomic as long; a flush `L` after everything put before has landed. The bytes themselves may be there sooner, which nobody may see
//! who was not told.
//!
//! All processes must have the layer, with the same model. Between machines whose clocks differ a packet is shown at once, or after
//! the time of the model from its being found, whichever is sooner.

use super::endings::Endings;
use super::fronts::{Fronts, Losses};
use super::nap::{Due, Napping};
use super::{Clock, pass, plainly};
use std::collections::BTreeMap;
use weft_api::verbs::Access;
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Region, RegionId, RemoteMemory, RemoteRun, Token, Unregistered,
    ZeroCopy,
};
use weft_api::{Capabilities, Refused, Transport};
use weft_types::params::LatencyModel;
use weft_types::{Error, ErrorClass, PeerId};
use weft_wire::Header;

/// Behind every payload: two bytes that mark it, six with the lower bits of the time of arrival.
const STAMP: usize = 8;
const MARK: u64 = 0x4c47 << 48;
const TIME: u64 = (1 << 48) - 1;

/// A link may be busy for so long before it refuses: many packets, and no more than a device would queue.
const QUEUE: u64 = 100_000;

/// What leads to a peer.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// When the next packet may leave.
    free: u64,
    /// When the last bytes that were put arrive.
    landed: u64,
}

/// A transport with the times of another network; see the module.
#[derive(Debug)]
pub struct Late<T> {
    inner: T,
    model: Option<LatencyModel>,
    me: PeerId,
    clock: Clock,
    links: BTreeMap<u32, Link>,
    fronts: Fronts,
    /// When the end of an operation may be told.
    open: BTreeMap<u64, u64>,
    endings: Endings,
    losses: Losses,
    due: Due,
    buffer: Vec<u8>,
    /// Packets and ends of operations that were not shown when they were first seen.
    waited: u64,
}

impl<T: Transport> Late<T> {
    /// Gives the transport of process `me` the times of a model; without one nothing is added.
    pub fn new(inner: T, model: Option<LatencyModel>, me: PeerId, clock: Clock) -> Late<T> {
        Late {
            inner,
            model,
            me,
            clock,
            links: BTreeMap::new(),
            fronts: Fronts::default(),
            open: BTreeMap::new(),
            endings: Endings::default(),
            losses: Losses::default(),
            due: Due::new(),
            buffer: Vec::new(),
            waited: 0,
        }
    }

    /// The model.
    pub const fn model(&self) -> Option<&LatencyModel> {
        self.model.as_ref()
    }

    /// How many packets and ends of operations were there before their time.
    pub const fn waited(&self) -> u64 {
        self.waited
    }

    /// The transport below.
    pub const fn inner(&self) -> &T {
        &self.inner
    }

    /// The same, to work with.
    pub const fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// The model, where the way to `peer` leaves the node.
    fn far(&self, peer: PeerId) -> Option<LatencyModel> {
        self.model.filter(|model| self.me.0 / model.node != peer.0 / model.node)
    }

    /// Sends something of so many bytes: `call` gets the time of its arrival, 0 where nothing is added.
    fn depart(
        &mut self,
        peer: PeerId,
        bytes: u64,
        call: impl FnOnce(&mut Late<T>, u64) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let Some(model) = self.far(peer) else { return call(self, 0) };
        let now = self.clock.now();
        let leaves = self.links.entry(peer.0).or_default().free.max(now);
        if leaves > now + QUEUE.max(model.latency) && !self.inner.is_gone(peer) {
            self.due.at(leaves - QUEUE.max(model.latency));
            return Err(Refused::Full);
        }
        let transfer = transfer(&model, bytes);
        let arrives = leaves + transfer + model.latency;
        call(self, arrives)?;
        self.links.entry(peer.0).or_default().free = leaves + transfer.max(model.gap);
        Ok(())
    }

    /// Begins an operation that moves so many bytes there (or back): its end is told a second `L` later.
    fn operate(
        &mut self,
        peer: PeerId,
        bytes: u64,
        token: Option<Token>,
        puts: bool,
        call: impl FnOnce(&mut T) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        self.depart(peer, bytes, |late, arrives| {
            call(&mut late.inner)?;
            let Some(model) = late.far(peer) else { return Ok(()) };
            let link = late.links.entry(peer.0).or_default();
            if puts {
                link.landed = link.landed.max(arrives);
            }
            // A flush carries nothing, and waits for what was put.
            let landed = if bytes == 0 { arrives.max(link.landed) } else { arrives };
            if let Some(token) = token {
                late.open.insert(token.0, landed + model.latency);
            }
            Ok(())
        })
    }

    fn is_shown(&mut self, peer: PeerId) -> bool {
        let Late { inner, model, clock, fronts, due, waited, .. } = self;
        show(fronts, inner, (model.as_ref(), clock.now(), due, waited), peer)
    }
}

/// The time that bytes take.
fn transfer(model: &LatencyModel, bytes: u64) -> u64 {
    match model.bandwidth {
        0 => 0,
        rate => (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64,
    }
}

fn show<T: Transport>(
    fronts: &mut Fronts,
    below: &mut T,
    (model, now, naps, waited): (Option<&LatencyModel>, u64, &Due, &mut u64),
    peer: PeerId,
) -> bool {
    fronts.is_shown(below, peer, now, naps, |_, payload| {
        let Some(model) = model else { return now };
        let Some((payload, stamp)) = payload.split_last_chunk::<STAMP>() else { unmarked(peer) };
        let stamp = u64::from_le_bytes(*stamp);
        if stamp & !TIME != MARK {
            unmarked(peer);
        }
        // How far ahead it is, in numbers that wrap; what is half a lap ahead is behind.
        let ahead = (stamp & TIME).wrapping_sub(now) & TIME;
        let most = model.latency + transfer(model, payload.len() as u64) + QUEUE.max(model.latency);
        let early = stamp & TIME != 0 && ahead != 0 && ahead < TIME / 2;
        *waited += u64::from(early);
        if early { now + ahead.min(most) } else { now }
    })
}

#[cold]
fn unmarked(peer: PeerId) -> ! {
    panic!(
        "process {} has sent a packet without its time of arrival: WEFT_LATENCY must be the same on all ranks",
        peer.0
    )
}

fn stamp(arrives: u64) -> [u8; STAMP] {
    (MARK | arrives & TIME).to_le_bytes()
}

impl<T: Transport> Transport for Late<T> {
    type Bell = Napping<T::Bell>;

    pass! { connect departures rest push_out is_gone register deregister }

    fn capabilities(&self, peer: PeerId) -> Capabilities {
        let below = self.inner.capabilities(peer);
        if self.model.is_none() {
            return below;
        }
        let stamped = Capabilities {
            max_inline: below.max_inline.saturating_sub(STAMP),
            max_copy: below.max_copy - STAMP,
            full_copy: below.full_copy - STAMP,
            ..below
        };
        let Some(model) = self.far(peer) else { return stamped };
        Capabilities {
            // Nobody reads the memory of another machine.
            single_copy: false,
            latency: below.latency + model.latency as f64 / 1e9,
            copy_bandwidth: at_most(below.copy_bandwidth, &model),
            ..stamped
        }
    }

    fn send_inline(&mut self, peer: PeerId, header: Header, payload: &[u8]) -> Result<(), Refused> {
        if self.model.is_none() {
            return self.inner.send_inline(peer, header, payload);
        }
        self.depart(peer, payload.len() as u64, |late, arrives| {
            late.buffer.clear();
            late.buffer.extend_from_slice(payload);
            late.buffer.extend_from_slice(&stamp(arrives));
            if late.buffer.len() <= late.inner.capabilities(peer).max_inline {
                return late.inner.send_inline(peer, header, &late.buffer);
            }
            // Only where nothing is sent inline.
            let Late { inner, buffer, .. } = late;
            let fill: &mut dyn FnMut(&mut [u8]) = &mut |room| room.copy_from_slice(buffer);
            inner.send_copy(peer, header, payload.len() + STAMP, fill)
        })
    }

    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> Result<(), Refused> {
        if self.model.is_none() {
            return plainly(fill, |fill| self.inner.send_copy(peer, header, len, fill));
        }
        plainly(fill, |fill| {
            self.depart(peer, len as u64, |late, arrives| {
                let fill: &mut dyn FnMut(&mut [u8]) = &mut |room| {
                    let (payload, behind) = room.split_at_mut(len);
                    fill(payload);
                    behind.copy_from_slice(&stamp(arrives));
                };
                late.inner.send_copy(peer, header, len + STAMP, fill)
            })
        })
    }

    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        if !self.is_shown(peer) {
            return None;
        }
        let behind = if self.model.is_some() { STAMP } else { 0 };
        self.inner.peek(peer).map(|(header, payload)| (header, &payload[..payload.len() - behind]))
    }

    fn advance(&mut self, peer: PeerId) {
        self.inner.advance(peer);
        self.fronts.advance(peer);
    }

    fn ready(&mut self) -> Option<PeerId> {
        let Late { inner, model, clock, fronts, due, waited, .. } = self;
        let now = clock.now();
        fronts
            .ready(inner, |fronts, below, peer| show(fronts, below, (model.as_ref(), now, due, waited), peer))
    }

    fn progress(&mut self) -> bool {
        self.due.clear();
        self.inner.progress()
    }

    fn lost(&mut self) -> Option<PeerId> {
        self.losses.next(&mut self.inner, &mut self.fronts, |_| false)
    }

    fn has_only_parted(&self) -> bool {
        self.losses.only_parted()
    }

    fn read_remote(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> weft_types::Result<()> {
        match self.far(peer) {
            None => self.inner.read_remote(peer, address, into),
            Some(_) => {
                Err(Error::new(ErrorClass::ACCESS, "memory is not read from another machine (WEFT_LATENCY)"))
            }
        }
    }

    fn read_remote_runs(
        &mut self,
        peer: PeerId,
        remote: &[(u64, usize)],
        local: &[&[std::cell::Cell<u8>]],
    ) -> weft_types::Result<()> {
        match self.far(peer) {
            None => self.inner.read_remote_runs(peer, remote, local),
            Some(_) => {
                Err(Error::new(ErrorClass::ACCESS, "memory is not read from another machine (WEFT_LATENCY)"))
            }
        }
    }

    fn zero_copy(&self, peer: PeerId) -> Option<ZeroCopy> {
        let below = self.inner.zero_copy(peer)?;
        let Some(model) = self.far(peer) else { return Some(below) };
        let round_trip = 2.0 * model.latency as f64 / 1e9;
        Some(ZeroCopy {
            get_latency: below.get_latency + round_trip,
            put_latency: below.put_latency + round_trip,
            bandwidth: at_most(below.bandwidth, &model),
            ..below
        })
    }

    fn get(
        &mut self,
        peer: PeerId,
        from: &[RemoteRun],
        into: &[LocalRun],
        token: Token,
    ) -> Result<(), Refused> {
        let bytes = from.iter().map(|run| run.length).sum();
        self.operate(peer, bytes, Some(token), false, |below| below.get(peer, from, into, token))
    }

    fn put(
        &mut self,
        peer: PeerId,
        from: &[LocalRun],
        to: &[RemoteRun],
        token: Option<Token>,
    ) -> Result<(), Refused> {
        let bytes = to.iter().map(|run| run.length).sum();
        self.operate(peer, bytes, token, true, |below| below.put(peer, from, to, token))
    }

    fn put_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        length: usize,
        fill: F,
        to: RemoteMemory,
        token: Option<Token>,
    ) -> Result<(), Refused> {
        plainly(fill, |fill| {
            self.operate(peer, length as u64, token, true, |below| {
                below.put_copy(peer, length, fill, to, token)
            })
        })
    }

    fn atomic(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> Result<(), Refused> {
        self.operate(peer, 8, Some(token), false, |below| below.atomic(peer, at, operation, token))
    }

    fn changes_own(&mut self) -> bool {
        self.inner.changes_own()
    }

    fn change_own(&mut self, at: RemoteMemory, operation: Atomic, token: Token) -> Result<(), Refused> {
        // It is between the device and its own memory, where the network has no part.
        self.inner.change_own(at, operation, token)
    }

    fn flush(&mut self, peer: PeerId, token: Token) -> Result<(), Refused> {
        self.operate(peer, 0, Some(token), false, |below| below.flush(peer, token))
    }

    fn completed(&mut self) -> Option<Completed> {
        let now = self.clock.now();
        while let Some(done) = self.inner.completed() {
            let due = self.open.remove(&done.token.0).unwrap_or(now);
            self.waited += u64::from(due > now);
            self.endings.push(due, done);
        }
        self.endings.pop(now, &self.due)
    }

    fn bell(&self) -> Napping<T::Bell> {
        Napping::new(self.inner.bell(), self.due.clone(), self.clock.clone())
    }
}

fn at_most(below: f64, model: &LatencyModel) -> f64 {
    if model.bandwidth == 0 { below } else { below.min(model.bandwidth as f64) }
}
