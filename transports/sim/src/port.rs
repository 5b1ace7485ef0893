//! One rank's end of the virtual fabric.

use crate::SimFabric;
use crate::net::Packet;
use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;
use weft_api::offload::{Finished, GroupId, Offload, Outline, Program, Refusal as NoOffload};
use weft_api::shares::Shares;
use weft_api::{Bell, Capabilities, Refused, Transport};
use weft_types::{Error, ErrorClass, Farewell, PeerId, Result};
use weft_wire::{Header, Kind};

/// One rank's end of a [`SimFabric`].
#[derive(Debug)]
pub struct SimPort {
    fabric: SimFabric,
    me: PeerId,
    /// Per rank: the packet that `peek` showed, until `advance`.
    shown: Vec<Option<Packet>>,
    /// Per rank: whether its loss was told.
    told: Vec<bool>,
    /// Per rank: the farewell that was told.
    farewells: Vec<Farewell>,
    /// Whether what was told last was a farewell.
    only_parted: bool,
    /// Per rank: where parts of its messages to this one are laid out, and of ours to it.
    shares: [Vec<OnceCell<Arc<Shares>>>; 2],
}

impl SimPort {
    pub(crate) fn new(fabric: SimFabric, rank: u32) -> SimPort {
        let ranks = fabric.net().ranks as usize;
        SimPort {
            fabric,
            me: PeerId(rank),
            shown: (0..ranks).map(|_| None).collect(),
            told: vec![false; ranks],
            farewells: vec![Farewell::NONE; ranks],
            only_parted: false,
            shares: [vec![OnceCell::new(); ranks], vec![OnceCell::new(); ranks]],
        }
    }
}

impl Transport for SimPort {
    type Bell = SimBell;

    fn capabilities(&self, _peer: PeerId) -> Capabilities {
        let net = self.fabric.net();
        Capabilities {
            max_inline: net.config.max_inline,
            max_copy: net.config.max_copy,
            full_copy: net.config.max_copy - net.config.header,
            single_copy: net.config.single_copy,
            compared: net.config.compared,
            latency: 1e-6,
            copy_bandwidth: 5e9,
            single_copy_bandwidth: 10e9,
            most_runs: 16,
            remote_run: 1e-6,
            local_run: 1e-7,
        }
    }

    fn connect(&mut self, peer: PeerId) -> Result<()> {
        if peer.0 < self.fabric.net().ranks {
            return Ok(());
        }
        Err(Error::internal(format!("the simulated world has no rank {}", peer.0)))
    }

    fn send_inline(
        &mut self,
        peer: PeerId,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        let mut net = self.fabric.net();
        assert!(payload.len() <= net.config.max_inline, "inline payload beyond the limit");
        net.send(self.me, peer, || (header, payload.to_vec()))
    }

    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        let mut net = self.fabric.net();
        let in_several = matches!(header.kind(), Some(Kind::Rts | Kind::Fragment));
        let header_below = if in_several { net.config.header } else { 0 };
        assert!(len <= net.config.max_copy - header_below, "payload beyond the limit");
        net.send(self.me, peer, || {
            let mut payload = vec![0; len];
            fill(&mut payload);
            (header, payload)
        })
    }

    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        let shown = &mut self.shown[peer.0 as usize];
        if shown.is_none() {
            *shown = self.fabric.net().receive(peer, self.me);
        }
        shown.as_ref().map(|(header, payload)| (*header, &payload[..]))
    }

    fn advance(&mut self, peer: PeerId) {
        self.shown[peer.0 as usize] = None;
    }

    fn ready(&mut self) -> Option<PeerId> {
        let mut net = self.fabric.net();
        let ranks = net.ranks;
        let first = net.random.below(u64::from(ranks)) as u32;
        (0..ranks)
            .map(|step| PeerId((first + step) % ranks))
            .find(|&peer| self.shown[peer.0 as usize].is_some() || net.is_visible(peer, self.me))
    }

    fn progress(&mut self) -> bool {
        let mut net = self.fabric.net();
        net.tick();
        net.by_hand(self.me)
    }

    fn is_gone(&self, peer: PeerId) -> bool {
        self.fabric.net().is_gone(peer)
    }

    fn has_ended(&self, peer: PeerId) -> bool {
        self.fabric.net().has_left(peer)
    }

    fn set_farewell(&mut self, farewell: Farewell) {
        self.fabric.net().part(self.me, farewell);
    }

    fn farewell_of(&self, peer: PeerId) -> Farewell {
        let net = self.fabric.net();
        if net.has_left(peer) { Farewell::ALL } else { net.farewell_of(peer) }
    }

    fn has_only_parted(&self) -> bool {
        self.only_parted
    }

    fn lost(&mut self) -> Option<PeerId> {
        let net = self.fabric.net();
        let parted = (0..net.ranks).find(|&rank| {
            rank != self.me.0 && net.farewell_of(PeerId(rank)) != self.farewells[rank as usize]
        });
        self.only_parted = parted.is_some();
        if let Some(parted) = parted {
            self.farewells[parted as usize] = net.farewell_of(PeerId(parted));
            return Some(PeerId(parted));
        }
        let lost = (0..net.ranks).find(|&rank| {
            rank != self.me.0 && !self.told[rank as usize] && net.hears_of(self.me, PeerId(rank))
        })?;
        self.told[lost as usize] = true;
        Some(PeerId(lost))
    }

    /// All ranks live in this process, so the address is read from here, by the same system call as between
    /// processes: an address that is wrong gives an error and no crash.
    fn read_remote(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<()> {
        self.may_reach(peer)?;
        let len = into.len();
        let remote = [nix::sys::uio::RemoteIoVec { base: address as usize, len }];
        let mut local = [std::io::IoSliceMut::new(into)];
        match nix::sys::uio::process_vm_readv(nix::unistd::Pid::this(), &mut local, &remote) {
            Ok(read) if read == len => Ok(()),
            Ok(read) => Err(Error::internal(format!("read {read} of {len} bytes"))),
            Err(errno) => Err(Error::new(ErrorClass::ACCESS, format!("process_vm_readv: {errno}"))),
        }
    }

    fn write_remote(&mut self, peer: PeerId, address: u64, bytes: &[u8]) -> Result<()> {
        self.may_reach(peer)?;
        let len = bytes.len();
        let remote = [nix::sys::uio::RemoteIoVec { base: address as usize, len }];
        let local = [std::io::IoSlice::new(bytes)];
        match nix::sys::uio::process_vm_writev(nix::unistd::Pid::this(), &local, &remote) {
            Ok(written) if written == len => Ok(()),
            Ok(written) => Err(Error::internal(format!("wrote {written} of {len} bytes"))),
            Err(errno) => Err(Error::new(ErrorClass::ACCESS, format!("process_vm_writev: {errno}"))),
        }
    }

    fn shares_of(&self, peer: PeerId) -> Option<&Shares> {
        let table = &self.shares[0][peer.0 as usize];
        Some(table.get_or_init(|| self.fabric.net().shares(peer, self.me)))
    }

    fn shares_for(&self, peer: PeerId) -> Option<&Shares> {
        let table = &self.shares[1][peer.0 as usize];
        Some(table.get_or_init(|| self.fabric.net().shares(self.me, peer)))
    }

    fn bell(&self) -> SimBell {
        SimBell
    }
}

impl SimPort {
    /// Whether the memory of a process can be reached this time.
    fn may_reach(&self, peer: PeerId) -> Result<()> {
        let mut net = self.fabric.net();
        let chance = net.config.denial;
        match net.random.chance(chance) || net.is_known_dead(peer) {
            true => Err(Error::new(ErrorClass::ACCESS, "reaching memory was denied (injected)")),
            false => Ok(()),
        }
    }
}

impl Offload for SimPort {
    /// All ranks are on the one fabric, and all its devices are alike.
    fn can_run(
        &self,
        outline: &Outline,
        _group: Option<GroupId>,
        _member: &dyn Fn(u32) -> PeerId,
    ) -> std::result::Result<(), NoOffload> {
        self.fabric.net().devices.as_ref().ok_or(NoOffload::NoEngine)?.can_run(outline)
    }

    fn hand_over(&mut self, program: &Arc<Program>, token: u64) {
        let mut net = self.fabric.net();
        let now = net.now;
        net.devices.as_mut().expect("can_run found devices").start(self.me.0, program, token, now);
    }

    fn finished(&mut self) -> Option<Finished> {
        self.fabric.net().devices.as_mut()?.finished(self.me.0)
    }

    // What is lost the devices find out by themselves.
}

/// Nobody rings in a simulation: sleeping is a short nap, so that ranks driven by threads make way for each other.
#[derive(Clone, Debug)]
pub struct SimBell;

impl Bell for SimBell {
    fn arm(&self) {}

    fn sleep(&self, limit: Duration) {
        std::thread::sleep(limit.min(Duration::from_micros(50)));
    }

    fn disarm(&self) {}
}
