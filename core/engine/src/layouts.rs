//! Layouts of messages with gaps, as they travel in announcements and are read by the receiver: single copy from layout to
//! layout.
//!
//! A layout travels once to each receiver, at most [`Announced::LONGEST`] bytes of it, and is called by its slot after that.
//! Both ends count on announcements coming in order: a slot means what the newest announcement has said. A layout that is too
//! large, or a message that is not worth reading block by block, is streamed as if there were no layouts.

use crate::engine::{Engine, State};
use crate::types::EngineConfig;
use std::sync::{Arc, Weak};
use weft_api::{Capabilities, Transport};
use weft_datatype::{Layout, SendBuf};
use weft_proto::choice::ReceiveCosts;
use weft_proto::{Gaps, ReceivePlan, plan_receive};
use weft_wire::{Announce, Announced};

/// How an announced message lies in its sender's memory.
#[derive(Clone, Debug)]
pub(crate) struct Scattered {
    layout: Arc<Layout>,
    /// Packed bytes of the elements there that come before the message.
    skip: u64,
}

/// What two processes have told each other of their layouts.
#[derive(Debug, Default)]
pub(crate) struct Exchanged {
    /// Ours that the peer knows, by slot. Weak: a freed datatype is not kept, and nothing else can have its address.
    told: Vec<Weak<Layout>>,
    /// The slot that is used next.
    next: usize,
    /// The peer's, by slot.
    known: Vec<Option<Arc<Layout>>>,
}

/// A layout on its way into an announcement.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) address: u64,
    skip: u64,
    slot: usize,
    /// Empty when the peer knows it.
    program: Vec<u8>,
    layout: Weak<Layout>,
}

impl Telling {
    /// Bytes of the announcement with it.
    pub(crate) fn packet(&self) -> usize {
        Announce::BYTES + Announced::BYTES + self.program.len()
    }

    /// Writes the announcement and the layout.
    pub(crate) fn put(&self, announce: &Announce, packet: &mut [u8]) {
        let (front, back) = packet.split_at_mut(Announce::BYTES);
        front.copy_from_slice(&announce.emit());
        Announced { skip: self.skip, slot: self.slot as u32, program: &self.program }.put(back);
    }
}

impl Exchanged {
    /// What has to be said of a message with gaps; `None` when its layout is too large to travel.
    pub(crate) fn telling(&self, buffer: &SendBuf) -> Option<Telling> {
        let (address, layout, skip) = buffer.scattered()?;
        let known = self.told.iter().position(|told| told.as_ptr() == Arc::as_ptr(layout));
        let (slot, program) = match known {
            Some(slot) => (slot, Vec::new()),
            None => (self.next, layout.to_bytes(Announced::LONGEST)?),
        };
        Some(Telling { address, skip, slot, program, layout: Arc::downgrade(layout) })
    }

    /// The announcement has left.
    pub(crate) fn told(&mut self, telling: Telling) {
        if telling.program.is_empty() {
            return;
        }
        match self.told.get_mut(telling.slot) {
            Some(old) => *old = telling.layout,
            None => self.told.push(telling.layout),
        }
        self.next = (telling.slot + 1) % Announced::SLOTS;
    }

    /// Takes in what an announcement says; `None` when that is no layout, or a slot without one.
    pub(crate) fn hear(&mut self, announced: &Announced<'_>) -> Option<Box<Scattered>> {
        let slot = announced.slot as usize;
        if !announced.program.is_empty() {
            let layout = Layout::from_bytes(announced.program).ok()?;
            if self.known.len() <= slot {
                self.known.resize(slot + 1, None);
            }
            self.known[slot] = Some(Arc::new(layout));
        }
        let layout = Arc::clone(self.known.get(slot)?.as_ref()?);
        (layout.size > 0).then(|| Box::new(Scattered { layout, skip: announced.skip }))
    }
}

impl Scattered {
    pub(crate) fn mean_block(&self) -> u64 {
        self.layout.mean_block()
    }

    /// Runs (address, bytes) of the packed bytes from `start` on, in the memory of elements at `address`: at most `most` of them
    /// and `len` bytes.
    fn runs(&self, address: u64, start: u64, len: usize, most: usize) -> Vec<(u64, usize)> {
        let mut runs = Vec::new();
        if let Some(skip) = self.skip.checked_add(start).and_then(|skip| usize::try_from(skip).ok()) {
            self.layout.list_runs(skip, len, most, &mut runs);
        }
        runs.into_iter().map(|(at, len)| (address.wrapping_add(at as u64), len)).collect()
    }
}

/// How `bytes` of an announced message come, whose blocks have so many bytes in the mean at the sender and at the receiver
/// (`None`: one run).
pub(crate) fn plan(
    capabilities: &Capabilities,
    config: &EngineConfig,
    bytes: u64,
    readable: bool,
    blocks: [Option<u64>; 2],
) -> ReceivePlan {
    let gaps = blocks.iter().any(Option::is_some);
    let readable = readable && capabilities.single_copy && (!gaps || capabilities.most_runs > 1);
    match config.gaps {
        Gaps::Read if gaps && readable => return ReceivePlan::SingleCopy,
        Gaps::Stream if gaps => return ReceivePlan::Stream,
        _ => {}
    }
    let runs = |block: Option<u64>| block.map_or(0.0, |block| bytes as f64 / block.max(1) as f64);
    let costs = ReceiveCosts {
        readable,
        // Pieces are packed and unpacked in the cache, so that a stream of them is no slower where the ends share a core.
        oversubscribed: config.oversubscribed && !gaps,
        latency: capabilities.latency,
        stream: capabilities.copy_bandwidth,
        single: capabilities.single_copy_bandwidth,
        runs: runs(blocks[0]) * capabilities.remote_run + runs(blocks[1]) * capabilities.local_run,
    };
    plan_receive(bytes, &costs)
}

impl State {
    /// How the message of a send with gaps is announced so that the receiver can read it; `None` when it is to be streamed.
    pub(crate) fn telling(&self, index: u32, slot: u32) -> Option<Telling> {
        let (peer, request) = (self.peers.at(index), self.requests.at(slot));
        let buffer = request.send_buf();
        let block = buffer.mean_block()?;
        if request.length <= u64::from(peer.limits.eager)
            || plan(&peer.capabilities, &self.config, request.length, true, [Some(block), None])
                == ReceivePlan::Stream
        {
            return None;
        }
        match &peer.layouts {
            Some(exchanged) => exchanged.telling(buffer),
            None => Exchanged::default().telling(buffer),
        }
        .filter(|telling| telling.packet() <= peer.limits.packet as usize)
    }
}

impl Engine {
    /// Reads packed bytes from `start` on, up to `end` or as far as one list of runs goes, from a sender's memory into the buffer
    /// of receive `slot`. The bytes read; `None` when that was denied.
    pub(crate) fn read_runs(&mut self, slot: u32, start: u64, end: u64) -> Option<u64> {
        let index = self.meet(self.state.requests.at(slot).peer);
        let most = self.state.peers.at(index).capabilities.most_runs;
        let request = self.state.requests.at_mut(slot);
        let (peer, len) = (request.peer, (end - start) as usize);
        let mut remote = match &request.scattered {
            Some(scattered) => scattered.runs(request.address, start, len, most),
            None => vec![(request.address + start, len)],
        };
        let mut local = Vec::new();
        let listed = remote.iter().map(|run| run.1).sum();
        let bytes = request.recv_buf().list_runs(start as usize, listed, most, &mut local);
        let mut left = bytes;
        remote.retain_mut(|run| {
            run.1 = run.1.min(left);
            left -= run.1;
            run.1 > 0
        });
        let read = bytes > 0 && self.fabric.read_remote_runs(peer, &remote, &local).is_ok();
        read.then_some(bytes as u64)
    }
}
